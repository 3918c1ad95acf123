foreach(subject matmul ops attention sampling)
    vl_test(unit.cpu_${subject} test_cpu_${subject}.c cpu_util.c LIBS vl_cpu LABELS unit)
endforeach()
vl_test(unit.pages test_pages.c LIBS vl_cpu LABELS unit)
