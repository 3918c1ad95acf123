# Poppy in a pseudo-terminal: the terminal cases with their scripted server, and a chat with
# vallmo-host on the demo model. Needs pyte (scripts/requirements-test.txt).
if(python AND TARGET poppy)
    # The cases measure times and processor use, so they are not for instrumented builds; there
    # Poppy's unit tests and e2e.poppy_host run. Some limits are of Poppy itself (the second Ctrl-C
    # counts for 2 s): a scale above 3 breaks cases.
    if(NOT VALLMO_SANITIZE)
        add_test(NAME e2e.terminal COMMAND ${python} ${CMAKE_CURRENT_SOURCE_DIR}/terminal/run.py
                 --poppy $<TARGET_FILE:poppy> --scale 1.5)
        set_tests_properties(e2e.terminal PROPERTIES LABELS e2e RUN_SERIAL ON TIMEOUT 1500)
    endif()
    if(TARGET vallmo-host)
        add_test(NAME e2e.poppy_host COMMAND ${python} ${CMAKE_CURRENT_SOURCE_DIR}/poppy_host.py
                 $<TARGET_FILE:vallmo-host> $<TARGET_FILE:poppy> $<TARGET_FILE:vallmo_front>
                 ${CMAKE_SOURCE_DIR}/models/poppyseed)
        set_tests_properties(e2e.poppy_host PROPERTIES LABELS e2e RUN_SERIAL ON TIMEOUT 600)
    endif()
endif()
