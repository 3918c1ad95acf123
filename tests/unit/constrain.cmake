# Constrained output: schemas and call constraints as token masks, on real vocabularies.
foreach(name schema mask walk random)
    vl_test(unit.constrain_${name} ${CMAKE_CURRENT_LIST_DIR}/test_constrain_${name}.c
        ${CMAKE_CURRENT_LIST_DIR}/constrain_kit.c ${CMAKE_CURRENT_LIST_DIR}/tokenizer_util.c
        LIBS vl_core vl_bpe LABELS unit DEPENDS tokenizer_vocabularies)
endforeach()
