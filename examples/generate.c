/* examples/generate.c: an answer from a model, streamed to the terminal.
 *   cc generate.c -o generate $(pkg-config --cflags --libs vallmo)
 *   ./generate models/poppyseed "What is a poppy?" */
#include <stdio.h>
#include <vallmo/vallmo.h>

static int32_t show(void *user, int32_t kind, const char *text, uint64_t len)
{
    (void)user;
    if (kind == VL_GENERATE_CONTENT)
        fwrite(text, 1, (size_t)len, stdout);
    return fflush(stdout) != 0; /* nonzero stops: the reader is gone */
}

int main(int argc, char **argv)
{
    vl_lm_params open_params = {.struct_size = sizeof open_params,
                                .path = argc > 1 ? argv[1] : NULL};
    vl_generate_params ask;
    vl_generate_result result = {.struct_size = sizeof result};
    vl_library *lib = NULL;
    vl_lm *lm = NULL;
    vl_error err = {0};

    if (argc != 3) {
        fprintf(stderr, "usage: generate MODEL TEXT\n");
        return 2;
    }
    vl_generate_init(&ask, sizeof ask);
    ask.message = argv[2];
    ask.max_tokens = 64;
    ask.temperature = 0;
    vl_status rc = vl_library_open(NULL, &lib, &err);
    if (rc == VL_OK)
        rc = vl_lm_open(lib, &open_params, &lm, &err);
    if (rc == VL_OK)
        rc = vl_lm_generate(lm, &ask, show, NULL, &result, &err);
    if (rc == VL_OK)
        printf("\n%llu prompt tokens, %llu generated\n", (unsigned long long)result.prompt_tokens,
               (unsigned long long)result.completion_tokens);
    else
        fprintf(stderr, "generate: %s\n", err.text);
    vl_lm_close(lm);
    vl_library_close(lib);
    return rc == VL_OK ? 0 : 1;
}
