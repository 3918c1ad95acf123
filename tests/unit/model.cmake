# The qwen35 plugin. Random checkpoints come from a fixture, which needs numpy (scripts/requirements-test.txt).
if(VALLMO_TEST_PYTHON)
    set(checkpoint_python ${VALLMO_TEST_PYTHON})
else()
    set(checkpoint_python python3)
endif()
foreach(size tiny mini mini3)
    add_test(NAME fixture.checkpoint.${size} COMMAND ${checkpoint_python}
        ${CMAKE_SOURCE_DIR}/tests/tools/make_checkpoint.py --size ${size} --out ${CMAKE_BINARY_DIR}/tests/checkpoints/${size})
endforeach()
add_test(NAME fixture.checkpoint.tiny_tied COMMAND ${checkpoint_python} ${CMAKE_SOURCE_DIR}/tests/tools/make_checkpoint.py
    --size tiny --tied --flat --seed 1 --out ${CMAKE_BINARY_DIR}/tests/checkpoints/tiny_tied)
set_tests_properties(fixture.checkpoint.tiny fixture.checkpoint.mini fixture.checkpoint.mini3 fixture.checkpoint.tiny_tied
    PROPERTIES FIXTURES_SETUP checkpoints LABELS model)

foreach(subject config weights steps reference invariance)
    vl_test(unit.qwen35_${subject} test_qwen35_${subject}.c qwen35_util.c LIBS vl_qwen35_plugin LABELS unit TIMEOUT 1200)
    set_tests_properties(unit.qwen35_${subject} PROPERTIES FIXTURES_REQUIRED checkpoints
        ENVIRONMENT OMP_WAIT_POLICY=passive)
endforeach()
