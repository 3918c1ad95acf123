# libvallmo: registry, engine, prefix cache, sampling rules, stop strings.
foreach(name engine engine_output prefix)
    vl_test(unit.${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c ${CMAKE_CURRENT_LIST_DIR}/engine_util.c
        LIBS vl_core LABELS unit DEPENDS plugin_fake)
endforeach()
vl_test(unit.sampling_rules ${CMAKE_CURRENT_LIST_DIR}/test_sampling_rules.c LIBS vl_core LABELS unit)
set(small "")
foreach(name good wrong_major newer_minor short_table short_head null_member no_kind init_fails no_entry)
    list(APPEND small plugin_${name})
endforeach()
vl_test(unit.registry ${CMAKE_CURRENT_LIST_DIR}/test_registry.c LIBS vl_core LABELS unit DEPENDS ${small})
