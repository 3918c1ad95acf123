/* test_safetensors.c: folders, single files, indices, companions, and what the header may not say.
 */
#include "loader_util.h"

#include "plugins/loaders/safetensors/parse.h"

static const vl_loader_api *const st = &vl_safetensors_api;
#define GATE "model.language_model.layers.0.mlp.gate_proj.weight"

/* True if address lies in a mapping of this file, by what the kernel says. */
static bool in_mapping_of(const void *address, const char *file)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[4500];
    bool found = false;
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL && !found) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx", &from, &to) == 2 && (unsigned long)address >= from &&
            (unsigned long)address < to)
            found = strstr(line, vl_path_base(file)) != NULL;
    }
    (void)fclose(f);
    return found;
}

static void compare_with_file(const vl_tensor *t, const void *data)
{
    char *bytes = malloc(t->n_bytes);
    FILE *f = fopen(t->file, "rb");
    assert_non_null(f);
    assert_non_null(bytes);
    assert_int_equal(fseek(f, (long)t->offset, SEEK_SET), 0);
    assert_int_equal(fread(bytes, 1, t->n_bytes, f), t->n_bytes);
    assert_memory_equal(bytes, data, t->n_bytes);
    (void)fclose(f);
    free(bytes);
}

static void test_data_points_into_the_mapping(void **state)
{
    (void)state;
    vl_checkpoint *c = must_open(st, "shards");
    uint64_t mapped, owned;
    assert_int_equal(st->n_tensors(c), 71);
    for (uint64_t i = 0; i < st->n_tensors(c); i++) {
        const vl_tensor *t = st->tensor(c, i);
        const void *data = st->data(c, i, NULL);
        assert_true(t->flags & VL_TENSOR_IN_PLACE);
        assert_true(in_mapping_of(data, t->file));
        compare_with_file(t, data);
    }
    st->memory(c, &mapped, &owned);
    assert_int_equal(owned, 0);
    assert_true(mapped > 700000);
    assert_null(st->tensor(c, 71));
    assert_null(st->data(c, 71, NULL));
    st->close(c);
}

static void test_every_layout_gives_the_same_model(void **state)
{
    static const char *const names[] = {"shards", "noindex", "hf/model.safetensors",
                                        "odd",    "shards/", "shards/model.safetensors.index.json"};
    (void)state;
    vl_checkpoint *a = must_open(st, "hf");
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        vl_checkpoint *b = must_open(st, names[k]);
        assert_int_equal(st->n_tensors(b), st->n_tensors(a));
        for (uint64_t i = 0; i < st->n_tensors(a); i++) {
            const vl_tensor *t = st->tensor(a, i);
            uint64_t j;
            const vl_tensor *u = must_find(st, b, t->name, &j);
            assert_int_equal(t->dtype, u->dtype);
            assert_int_equal(t->n_bytes, u->n_bytes);
            assert_memory_equal(t->shape, u->shape, sizeof(t->shape));
            assert_memory_equal(st->data(a, i, NULL), st->data(b, j, NULL), t->n_bytes);
        }
        assert_true(text_has(st->text(b, VL_TEXT_CONFIG), "qwen3_5"));
        assert_non_null(st->text(b, VL_TEXT_TOKENIZER).ptr);
        assert_non_null(st->text(b, VL_TEXT_GENERATION_CONFIG).ptr);
        st->close(b);
    }
    assert_string_equal(st->format(a), "safetensors");
    assert_null(st->vocab(a));
    assert_null(st->text(a, 5).ptr);
    assert_null(st->text(a, -1).ptr);
    st->close(a);
}

static void test_flat_export_keeps_its_names(void **state)
{
    (void)state;
    vl_checkpoint *c = must_open(st, "flat");
    assert_true(st->find(c, "model.layers.0.mlp.gate_proj.weight") >= 0);
    assert_int_equal(st->find(c, GATE), -1);
    assert_true(text_has(st->text(c, VL_TEXT_CONFIG), "Qwen3_5ForCausalLM"));
    st->close(c);
}

static void test_odd_addresses_are_copied_once(void **state)
{
    (void)state;
    vl_checkpoint *c = must_open(st, "odd");
    uint64_t i, mapped, owned;
    const vl_tensor *t = must_find(st, c, GATE, &i);
    assert_false(t->flags & VL_TENSOR_IN_PLACE);
    const void *data = st->data(c, i, NULL);
    assert_ptr_equal(data, st->data(c, i, NULL));
    assert_int_equal((uintptr_t)data % 64, 0);
    compare_with_file(t, data);
    st->memory(c, &mapped, &owned);
    assert_true(owned >= t->n_bytes && owned < t->n_bytes + 128);
    st->close(c);
}

static void test_read_copies_and_checks_the_room(void **state)
{
    (void)state;
    vl_checkpoint *c = must_open(st, "hf");
    vl_error err = {0, ""};
    uint64_t i;
    const vl_tensor *t = must_find(st, c, GATE, &i);
    char *room = malloc(t->n_bytes);
    assert_int_equal(st->read(c, i, room, t->n_bytes - 1, &err), VL_E_RANGE);
    assert_non_null(strstr(err.text, "20479"));
    assert_non_null(strstr(err.text, "20480"));
    assert_int_equal(st->read(c, i, room, t->n_bytes, &err), VL_OK);
    assert_memory_equal(room, st->data(c, i, NULL), t->n_bytes);
    assert_int_equal(st->read(c, 1000, room, t->n_bytes, &err), VL_E_RANGE);
    assert_int_equal(st->prefer(c, VL_HEADS_FILE, &err), VL_OK);
    assert_int_equal(st->prefer(c, 7, &err), VL_E_INVALID);
    assert_int_equal(st->heads(c), VL_ORDER_GROUPED);
    free(room);
    st->close(c);
}

static void test_other_types_and_shapes_are_listed(void **state)
{
    (void)state;
    vl_checkpoint *c = must_open(st, "mixed");
    uint64_t i;
    const vl_tensor *t = must_find(st, c, "model.visual.patch_embed.proj.weight", &i);
    const int64_t folded[4] = {4, 3, 2, 35}; /* five axes: the last two as one */
    assert_int_equal(t->n_dims, 4);
    assert_memory_equal(t->shape, folded, sizeof(folded));
    t = must_find(st, c, "x.scalar", &i);
    assert_int_equal(t->n_dims, 1);
    assert_int_equal(t->shape[0], 1);
    t = must_find(st, c, "x.empty", &i);
    assert_int_equal(t->n_bytes, 0);
    assert_non_null(st->data(c, i, NULL));
    assert_int_equal(must_find(st, c, "x.fp8", &i)->dtype, VL_DTYPE_F8_E4M3);
    assert_int_equal(must_find(st, c, "x.scale", &i)->dtype, VL_DTYPE_NONE);
    st->close(c);
}

static void test_chat_template_file_comes_before_the_config(void **state)
{
    (void)state;
    vl_checkpoint *c = must_open(st, "mixed");
    vl_bytes text = st->text(c, VL_TEXT_CHAT_TEMPLATE);
    assert_int_equal(text.len, strlen("from the file"));
    assert_memory_equal(text.ptr, "from the file", text.len);
    st->close(c);
    c = must_open(st, "named"); /* a list of templates: "default" */
    text = st->text(c, VL_TEXT_CHAT_TEMPLATE);
    assert_int_equal(text.len, 5);
    assert_memory_equal(text.ptr, "caf\xc3\xa9", 5);
    st->close(c);
    c = must_open(st, "hf");
    assert_null(st->text(c, VL_TEXT_CHAT_TEMPLATE).ptr);
    st->close(c);
}

static void test_probe_goes_by_content(void **state)
{
    int32_t score = -1;
    (void)state;
    assert_int_equal(st->probe(NULL, FILES "hf", &score, NULL), VL_OK);
    assert_true(score >= 90);
    assert_int_equal(st->probe(NULL, FILES "hf/model.safetensors", &score, NULL), VL_OK);
    assert_true(score >= 90);
    assert_int_equal(st->probe(NULL, FILES "nomtp.gguf", &score, NULL), VL_OK);
    assert_int_equal(score, 0);
    assert_int_equal(st->probe(NULL, FILES "no-such-file", &score, NULL), VL_OK);
    assert_int_equal(score, 0);
    assert_int_equal(st->probe(NULL, FILES "two", &score, NULL), VL_OK);
    assert_true(score < 80); /* a folder of GGUF files is the other loader's */
}

static void test_wrong_files_are_named(void **state)
{
    (void)state;
    must_refuse(st, "lfs", VL_E_FORMAT, "model.safetensors", "Git LFS pointer", NULL);
    must_refuse(st, "two", VL_E_NOT_FOUND, "two", ".safetensors", NULL);
    must_refuse(st, "no-such", VL_E_NOT_FOUND, "no-such", NULL);
    must_refuse(st, "nomtp.gguf", VL_E_FORMAT, "nomtp.gguf", "is a GGUF file", NULL);
    must_refuse(st, "shards/model-00002-of-00003.safetensors", VL_E_INVALID, "shard 2 of 3", NULL);
    must_refuse(st, "incomplete", VL_E_NOT_FOUND, "incomplete", "shard 2 of 3",
                "model-00002-of-00003.safetensors", NULL);
    must_refuse(st, "raw/small.safetensors", VL_E_NOT_FOUND, "raw/config.json", NULL);
}

/* ---- headers from memory ---- */

static void parse(const char *header, uint64_t data_bytes, vl_status want, const char *word)
{
    size_t n = strlen(header);
    uint8_t *file = calloc(1, 8 + n + data_bytes);
    struct vl_st_header h;
    vl_error err = {0, ""};
    assert_non_null(file);
    for (int i = 0; i < 8; i++)
        file[i] = (uint8_t)(n >> (8 * i));
    memcpy(file + 8, header, n);
    vl_status rc = vl_st_parse(file, 8 + n + data_bytes, &h, &err);
    if (rc != want)
        fail_msg("%s: status %d, want %d: %s", header, rc, want, err.text);
    if (rc == VL_OK)
        vl_st_header_fini(&h);
    else if (strstr(err.text, word) == NULL)
        fail_msg("%s: \"%s\" lacks \"%s\"", header, err.text, word);
    free(file);
}

static void test_header_faults_are_told(void **state)
{
    (void)state;
    parse("{\"a\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[0,8]}}", 8, VL_OK, "");
    parse("{}", 0, VL_OK, "");
    parse("{}", 4, VL_E_FORMAT, "4 bytes of data");
    parse("{\"__metadata__\":{\"format\":\"pt\"}}", 0, VL_OK, "");
    parse("{\"__metadata__\":{\"format\":1}}", 0, VL_E_FORMAT, "__metadata__");
    parse("{\"__metadata__\":3}", 0, VL_E_FORMAT, "__metadata__");
    parse("{\"a\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[0,8]}}", 7, VL_E_FORMAT,
          "truncated");
    parse("{\"a\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[0,8]}}", 9, VL_E_FORMAT,
          "end at 8");
    parse("{\"a\":{\"dtype\":\"BF16\",\"shape\":[2,-2],\"data_offsets\":[0,8]}}", 8, VL_E_FORMAT,
          "shape");
    parse("{\"a\":{\"dtype\":\"BF16\",\"shape\":[2,2.5],\"data_offsets\":[0,8]}}", 8, VL_E_FORMAT,
          "shape");
    parse("{\"a\":{\"dtype\":\"BF16\",\"shape\":4,\"data_offsets\":[0,8]}}", 8, VL_E_FORMAT,
          "shape");
    parse("{\"a\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[0]}}", 8, VL_E_FORMAT,
          "data_offsets");
    parse("{\"a\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[0,1e30]}}", 8, VL_E_FORMAT,
          "data_offsets");
    parse("{\"a\":{\"dtype\":\"BF16\",\"shape\":[4]}}", 8, VL_E_FORMAT, "data_offsets is missing");
    parse("{\"a\":{\"dtype\":3,\"shape\":[4],\"data_offsets\":[0,8]}}", 8, VL_E_FORMAT, "dtype");
    parse("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, VL_E_FORMAT, "F4");
    parse("{\"a\":[]}", 0, VL_E_FORMAT, "tensor a: is array");
    parse("{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, VL_E_FORMAT,
          "NUL");
    parse("{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, VL_E_FORMAT,
          "empty");
    parse("{\"a\":{\"dtype\":\"U8\",\"shape\":[0,18446744073709551615,4],\"data_offsets\":[0,0]}}",
          0, VL_E_FORMAT, "2^56");
    parse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":"
          "[0,1]}}",
          1, VL_E_FORMAT, "16 sizes");
    parse("[1]", 0, VL_E_FORMAT, "no JSON object");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_points_into_the_mapping),
        cmocka_unit_test(test_every_layout_gives_the_same_model),
        cmocka_unit_test(test_flat_export_keeps_its_names),
        cmocka_unit_test(test_odd_addresses_are_copied_once),
        cmocka_unit_test(test_read_copies_and_checks_the_room),
        cmocka_unit_test(test_other_types_and_shapes_are_listed),
        cmocka_unit_test(test_chat_template_file_comes_before_the_config),
        cmocka_unit_test(test_probe_goes_by_content),
        cmocka_unit_test(test_wrong_files_are_named),
        cmocka_unit_test(test_header_faults_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
