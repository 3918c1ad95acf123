foreach(subject schema yaml config)
    vl_test(unit.${subject} test_${subject}.c LIBS vl_config vl_base LABELS unit)
endforeach()
if(TARGET vl_core)
    foreach(subject http_parse http api_chat api_completions api_forms answer answer_items flags access
            reload notify)
        vl_test(unit.${subject} test_${subject}.c LIBS vl_server vl_config vl_core vl_base
                LABELS unit)
    endforeach()
endif()
