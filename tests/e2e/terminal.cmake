# Poppy in a pseudo-terminal: the terminal cases with their scripted server, and a chat with
# vallmo-host on the demo model. Needs pyte (scripts/requirements-test.txt).
if(python AND TARGET poppy)
    # Some limits are of Poppy itself (the second Ctrl-C counts for 2 s): more than 3 breaks cases.
    set(terminal_scale 1.5)
    if(VALLMO_SANITIZE)
        set(terminal_scale 2.5)
    endif()
    add_test(NAME e2e.terminal COMMAND ${python} ${CMAKE_CURRENT_SOURCE_DIR}/terminal/run.py
             --poppy $<TARGET_FILE:poppy> --scale ${terminal_scale})
    set_tests_properties(e2e.terminal PROPERTIES LABELS e2e RUN_SERIAL ON TIMEOUT 1500)
    if(TARGET vallmo-host)
        add_test(NAME e2e.poppy_host COMMAND ${python} ${CMAKE_CURRENT_SOURCE_DIR}/poppy_host.py
                 $<TARGET_FILE:vallmo-host> $<TARGET_FILE:poppy> $<TARGET_FILE:vallmo_front>
                 ${CMAKE_SOURCE_DIR}/models/poppyseed)
        set_tests_properties(e2e.poppy_host PROPERTIES LABELS e2e RUN_SERIAL ON TIMEOUT 600)
    endif()
endif()
