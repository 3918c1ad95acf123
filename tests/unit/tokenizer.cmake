# The bpe tokenizer.
foreach(name cases split nfc merge added load decode)
    vl_test(unit.tokenizer_${name} ${CMAKE_CURRENT_LIST_DIR}/test_tokenizer_${name}.c
        ${CMAKE_CURRENT_LIST_DIR}/tokenizer_util.c LIBS vl_bpe LABELS unit
        DEPENDS tokenizer_vocabularies)
endforeach()
vl_test(unit.tokenizer_gguf ${CMAKE_CURRENT_LIST_DIR}/test_tokenizer_gguf.c
    ${CMAKE_CURRENT_LIST_DIR}/tokenizer_util.c ${CMAKE_SOURCE_DIR}/plugins/tokenizers/bpe/plugin.c
    LIBS vl_bpe Threads::Threads LABELS unit DEPENDS tokenizer_vocabularies)
vl_test(unit.tokenizer_torture ${CMAKE_CURRENT_LIST_DIR}/test_tokenizer_torture.c
    ${CMAKE_CURRENT_LIST_DIR}/tokenizer_util.c LIBS vl_bpe LABELS unit torture)
target_link_options(test_unit_tokenizer_torture PRIVATE -Wl,--wrap=malloc -Wl,--wrap=calloc
    -Wl,--wrap=realloc -Wl,--wrap=aligned_alloc)

# Against the tokenizers package; exits 77 where it is not installed.
add_test(NAME fuzz.tokenizer COMMAND ${VALLMO_TEST_PYTHON} ${CMAKE_SOURCE_DIR}/tests/fuzz/tokenizer_fuzz.py
         --driver $<TARGET_FILE:tokenizer_ids> --folder ${CMAKE_BINARY_DIR}/tests/tokenizers --rounds 300)
set_tests_properties(fuzz.tokenizer PROPERTIES LABELS "unit" SKIP_RETURN_CODE 77 TIMEOUT 900)
