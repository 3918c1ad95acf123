/* tests/fuzz/loader_fuzz.c: sound files with bytes changed, cut or copied about, through the
 * parsers and everything that reads what they return. Seeded: the same files at every run. Under
 * the sanitizers a read past the file is found, since each mutant lies in memory of its own size.
 * More rounds by hand: loader_fuzz ROUNDS SEED. */
#include "../unit/vl_test.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "plugins/loaders/gguf/arch.h"
#include "plugins/loaders/gguf/vocab.h"
#include "plugins/loaders/safetensors/index.h"
#include "plugins/loaders/safetensors/parse.h"

#define FILES VL_BUILD_DIR "/tests/loaders/"

static uint64_t rounds = 4000, seed = 1;

static uint64_t next_random(void)
{
    seed ^= seed << 13; /* xorshift */
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static void mutate(uint8_t *bytes, size_t len, size_t interesting)
{
    static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff, '"', '[', '{', '}', ',', '0', '9'};
    for (uint64_t n = 1 + next_random() % 6; n > 0; n--) {
        size_t at = next_random() % (next_random() % 4 ? interesting : len);
        switch (next_random() % 4) {
        case 0:
            bytes[at] ^= (uint8_t)(1u << next_random() % 8);
            break;
        case 1:
            bytes[at] = odd[next_random() % sizeof(odd)];
            break;
        case 2:
            for (size_t k = at; k < len && k < at + 8; k++)
                bytes[k] = next_random() % 2 ? 0xff : 0;
            break;
        default: {
            size_t from = next_random() % interesting, count = next_random() % 32;
            for (size_t k = 0; k < count && at + k < len && from + k < len; k++)
                bytes[at + k] = bytes[from + k];
        }
        }
    }
}

static void try_safetensors(const uint8_t *bytes, size_t len)
{
    struct vl_st_header h;
    vl_error err = {0, ""};
    if (vl_st_parse(bytes, len, &h, &err) != VL_OK) {
        assert_true(err.text[0] != '\0');
        return;
    }
    for (size_t i = 0; i < h.n; i++) {
        assert_true(h.entries[i].shape.offset <= len);
        assert_true(h.entries[i].shape.n_bytes <= len - h.entries[i].shape.offset);
    }
    vl_st_header_fini(&h);
}

static void try_index(const uint8_t *bytes, size_t len)
{
    struct vl_st_index x;
    if (vl_st_index_parse((vl_bytes){(const char *)bytes, len}, &x, NULL) != VL_OK)
        return;
    for (size_t i = 0; i < x.files.n; i++)
        assert_null(strchr(x.files.names[i], '/'));
    vl_st_index_fini(&x);
}

static uint64_t accepted;

static void try_gguf(const uint8_t *bytes, size_t len)
{
    struct vl_gguf_set set;
    struct vl_gguf_model m;
    struct vl_gguf_vocab v;
    vl_buf json = VL_BUF_INIT;
    vl_error err = {0, ""};
    vl_gguf_set_init(&set);
    if (vl_gguf_set_add(&set, "mutant.gguf", bytes, len, &err) != VL_OK) {
        assert_true(err.text[0] != '\0');
        goto out;
    }
    for (size_t i = 0; i < set.files[0].n_tensors; i++) {
        const struct vl_gguf_tensor *t = &set.files[0].tensors[i];
        assert_true(t->offset <= len && t->n_bytes <= len - t->offset);
    }
    if (vl_gguf_vocab_read(&set.files[0], "mutant.gguf", 512, NULL, &v, &err) == VL_OK) {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < v.pub.n_tokens; i++)
            sum += v.tokens[i].len;
        assert_true(sum <= len);
        vl_gguf_vocab_fini(&v);
    }
    if (vl_gguf_model_read(&set, &m, &err) == VL_OK &&
        vl_gguf_config_json(&m, &json, &err) == VL_OK) {
        for (size_t i = 0; i < set.files[0].n_tensors; i++) {
            char hf[160];
            const struct vl_gguf_name *e;
            (void)vl_gguf_to_hf(&m, set.files[0].tensors[i].name, hf, sizeof(hf), &e, &err);
        }
        accepted += vl_gguf_check_complete(&m, &set, &err) == VL_OK;
    }
out:
    vl_buf_fini(&json);
    vl_gguf_set_fini(&set);
}

static void fuzz(const char *path, size_t interesting, uint64_t n,
                 void (*try)(const uint8_t *, size_t))
{
    vl_buf file = VL_BUF_INIT;
    vl_error err = {0, ""};
    if (vl_file_read(path, 1 << 24, &file, &err) != VL_OK)
        fail_msg("%s", err.text);
    try((const uint8_t *)file.ptr, file.len);
    for (uint64_t i = 0; i < n; i++) {
        size_t len = next_random() % 8 ? file.len : next_random() % (file.len + 1);
        uint8_t *copy = malloc(len + (len == 0));
        assert_non_null(copy);
        memcpy(copy, file.ptr, len);
        if (len > 0)
            mutate(copy, len, interesting < len ? interesting : len);
        try(copy, len);
        free(copy);
    }
    vl_buf_fini(&file);
}

static void test_safetensors_headers_survive(void **state)
{
    (void)state;
    fuzz(FILES "raw/small.safetensors", 160, rounds * 10, try_safetensors);
    fuzz(FILES "shards/model-00003-of-00003.safetensors", 3000, rounds / 4, try_safetensors);
}

static void test_indices_survive(void **state)
{
    (void)state;
    fuzz(FILES "shards/model.safetensors.index.json", 5000, rounds / 2, try_index);
}

static void test_gguf_metadata_survive(void **state)
{
    (void)state;
    fuzz(FILES "tiled-bf16.gguf", 14000, rounds / 2, try_gguf);
    fuzz(FILES "tiled-bf16.gguf", 1500, rounds / 2, try_gguf);
    fuzz(FILES "ollama.gguf", 14000, rounds / 4, try_gguf);
    assert_true(
        accepted >
        10); /* the mutants are not all broken at once: what lies behind the parser is reached */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors_headers_survive),
        cmocka_unit_test(test_indices_survive),
        cmocka_unit_test(test_gguf_metadata_survive),
    };
    if (argc > 1)
        rounds = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10) | 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
