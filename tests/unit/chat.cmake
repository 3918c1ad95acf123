if(TARGET vl_qwen35_chat)
    foreach(subject template render parse args)
        vl_test(unit.chat_${subject} test_chat_${subject}.c chat_kit.c LIBS vl_qwen35_chat vl_base
                LABELS unit)
    endforeach()
    vl_test(unit.chat_torture test_chat_torture.c LIBS vl_qwen35_chat vl_base LABELS unit torture)
    target_link_options(test_unit_chat_torture PRIVATE
                        -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc)

    add_executable(chat_lines ${CMAKE_SOURCE_DIR}/tests/fuzz/chat_lines.c)
    vl_target(chat_lines)
    target_link_libraries(chat_lines PRIVATE vl_qwen35_chat vl_base)
    add_test(NAME fuzz.chat_render COMMAND ${VALLMO_TEST_PYTHON}
             ${CMAKE_SOURCE_DIR}/tests/fuzz/chat_fuzz.py --driver $<TARGET_FILE:chat_lines>)
    set_tests_properties(fuzz.chat_render PROPERTIES LABELS unit TIMEOUT 300)
endif()
