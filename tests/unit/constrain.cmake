# Constrained output: schemas and call constraints as token masks, on real vocabularies.
foreach(name schema mask walk random)
    vl_test(unit.constrain_${name} ${CMAKE_CURRENT_LIST_DIR}/test_constrain_${name}.c
        ${CMAKE_CURRENT_LIST_DIR}/constrain_kit.c ${CMAKE_CURRENT_LIST_DIR}/tokenizer_util.c
        LIBS vl_core vl_bpe LABELS unit DEPENDS tokenizer_vocabularies)
endforeach()
vl_test(unit.constrain_torture ${CMAKE_CURRENT_LIST_DIR}/test_constrain_torture.c
    ${CMAKE_CURRENT_LIST_DIR}/constrain_kit.c ${CMAKE_CURRENT_LIST_DIR}/tokenizer_util.c
    LIBS vl_core vl_bpe LABELS unit torture)
target_link_options(test_unit_constrain_torture PRIVATE -Wl,--wrap=malloc -Wl,--wrap=calloc
    -Wl,--wrap=realloc)
