# The CUDA toolbox and what of the CUDA half needs no GPU.
if(VALLMO_HAVE_CUDA AND TARGET vl_cuda)
    vl_test(unit.cuda_cache test_cuda_cache.c LIBS vl_cuda LABELS unit)
    if(TARGET vl_qwen35_cuda)
        vl_test(unit.cuda_estimate test_cuda_estimate.c LIBS vl_qwen35_plugin LABELS unit)
    endif()
endif()
