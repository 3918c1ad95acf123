# The loaders: they open small checkpoints that a script writes into the build folder.
set(loader_files ${CMAKE_BINARY_DIR}/tests/loaders)
file(GLOB loader_scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/badfiles/badlib.py)
add_custom_command(OUTPUT ${loader_files}.stamp
    COMMAND ${VALLMO_TEST_PYTHON} ${CMAKE_SOURCE_DIR}/tests/tools/loader_files.py ${loader_files}
    COMMAND ${CMAKE_COMMAND} -E touch ${loader_files}.stamp
    DEPENDS ${CMAKE_SOURCE_DIR}/tests/tools/loader_files.py ${loader_scripts} VERBATIM)
add_custom_target(loader_files DEPENDS ${loader_files}.stamp)

foreach(name safetensors gguf gguf_parse)
    vl_test(unit.${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c LIBS vl_safetensors vl_gguf LABELS unit
        DEPENDS loader_files)
endforeach()
# Mutations of sound files through both parsers, the same ones at every run.
vl_test(unit.loader_fuzz ${CMAKE_SOURCE_DIR}/tests/fuzz/loader_fuzz.c LIBS vl_safetensors vl_gguf LABELS unit
    DEPENDS loader_files)

# The demo model as a converter would write it, against its safetensors. The converter needs numpy
# (scripts/requirements-test.txt).
if(TARGET vl_qwen35_plugin)
    set(gguf_python python3)
    if(VALLMO_TEST_PYTHON)
        set(gguf_python ${VALLMO_TEST_PYTHON})
    endif()
    set(gguf_dir ${CMAKE_BINARY_DIR}/tests/checkpoints)
    file(MAKE_DIRECTORY ${gguf_dir})
    add_test(NAME fixture.gguf.whole COMMAND ${gguf_python} ${CMAKE_SOURCE_DIR}/tests/tools/make_gguf.py
        ${CMAKE_SOURCE_DIR}/models/poppyseed ${gguf_dir}/poppyseed.gguf)
    add_test(NAME fixture.gguf.split COMMAND ${gguf_python} ${CMAKE_SOURCE_DIR}/tests/tools/make_gguf.py
        ${CMAKE_SOURCE_DIR}/models/poppyseed ${gguf_dir}/poppyseed.gguf --split 3)
    add_test(NAME fixture.gguf.f32 COMMAND ${gguf_python} ${CMAKE_SOURCE_DIR}/tests/tools/make_gguf.py
        ${CMAKE_SOURCE_DIR}/models/poppyseed ${gguf_dir}/poppyseed-f32.gguf --type f32 --no-mtp)
    set_tests_properties(fixture.gguf.whole fixture.gguf.split fixture.gguf.f32
        PROPERTIES FIXTURES_SETUP gguf LABELS model)
    vl_test(unit.gguf_logits ${CMAKE_CURRENT_LIST_DIR}/test_gguf_logits.c
        LIBS vl_safetensors vl_gguf vl_qwen35_plugin LABELS unit TIMEOUT 1200)
    set_tests_properties(unit.gguf_logits PROPERTIES FIXTURES_REQUIRED gguf)
endif()

# Damaged, hostile and odd model files through the host itself.
if(TARGET vallmo-host)
    set(badfiles_limits --scale 3)
    if(VALLMO_SANITIZE)
        set(badfiles_limits --scale 10 --memory 6144)
    endif()
    add_test(NAME e2e.badfiles COMMAND ${VALLMO_TEST_PYTHON} ${CMAKE_SOURCE_DIR}/tests/badfiles/run.py
        --host $<TARGET_FILE:vallmo-host> ${badfiles_limits})
    set_tests_properties(e2e.badfiles PROPERTIES LABELS e2e RUN_SERIAL ON TIMEOUT 1400)
endif()
