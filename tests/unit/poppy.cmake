if(TARGET poppy_parts)
    foreach(subject sse text input markdown flower view files fuzz)
        vl_test(unit.poppy_${subject} test_poppy_${subject}.c poppy_kit.c LIBS poppy_parts
                LABELS unit)
    endforeach()
    vl_test(unit.poppy_torture test_poppy_torture.c LIBS poppy_parts LABELS unit torture)
    target_link_options(test_unit_poppy_torture PRIVATE
                        -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc)
endif()
