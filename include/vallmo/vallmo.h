/* vallmo/vallmo.h: the embedding API of libvallmo: open a model by its path, encode, generate,
 * decode, without a server.
 *
 *   cc generate.c $(pkg-config --cflags --libs vallmo)
 *
 * A *library* is the set of plugins that were found. A *lm* is an open model: checkpoint,
 * tokenizer, weights on a device, and an engine that batches whatever is asked of it:
 * vl_lm_generate may be called from several threads at once, and they share steps.
 *
 * Structs that are passed in begin with struct_size, set by the caller to sizeof; those filled here
 * too. Strings are UTF-8. Errors are vl_status with a text in the caller's vl_error (NULL is
 * allowed). */
#ifndef VALLMO_VALLMO_H
#define VALLMO_VALLMO_H

#include "vallmo/abi.h"
#include "vallmo/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0". [any] */
VL_EXPORT const char *vl_version(void);

/* ---- plugins ---- */

typedef struct vl_library vl_library;

typedef struct vl_library_params {
    uint32_t struct_size;
    /* VL_LOG_...; lines go to stderr. -1: from the environment's VL_LOG, else warnings. */
    int32_t log_level;
    const char *const *plugin_dirs; /* absolute folders; NULL: those of this installation */
    uint64_t n_plugin_dirs;
    /* For what plugins can make again; NULL: the user's cache folder; "": none. */
    const char *cache_dir;
} vl_library_params;

typedef struct vl_library_plugin {
    uint32_t struct_size;
    uint32_t abi_version;
    const char *kind; /* "loader", "tokenizer", "model"; "" when it was refused */
    const char *id;   /* "" when it was refused */
    const char *version;
    const char *path;
    const char *refusal; /* why it is not used; NULL: it is fine */
} vl_library_plugin;

/* Looks for plugins. params NULL: defaults. VL_E_NOT_FOUND: no folder of plugins. One library at a
 * time is usual, more are possible; log level and cache folder are the process's. [open] */
VL_EXPORT vl_status vl_library_open(const vl_library_params *params, vl_library **out,
                                    vl_error *err);
/* After all its models are closed. NULL is a no-op. [open] */
VL_EXPORT void vl_library_close(vl_library *lib);
/* Plugin number `index`, refused ones too; VL_E_RANGE past the last. Texts are valid until close.
 * [any] */
VL_EXPORT vl_status vl_library_plugin_get(const vl_library *lib, uint64_t index,
                                          vl_library_plugin *out);

/* ---- models ---- */

typedef struct vl_lm vl_lm;

enum {
    VL_LM_TOKENIZER_ONLY = 1, /* no weights, no device: encode and decode alone */
    VL_LM_NO_CHAT = 2         /* without the model's chat format */
};

typedef struct vl_lm_params {
    uint32_t struct_size;
    uint32_t flags;          /* VL_LM_... */
    const char *path;        /* a folder, a .safetensors file, a .gguf file */
    const char *device;      /* "auto" (also NULL), "cpu", "cuda", "cuda:1" */
    uint64_t context_tokens; /* most of one sequence; 0: what it was trained for, at most 32768 */
    uint64_t max_sequences;  /* that run at once; 0: 8 */
    uint64_t kv_tokens;      /* the pool they share; 0: the plugin's choice */
    uint64_t prefix_cache_bytes; /* for the states of prompts seen before; 0: off */
    const char *const *
        settings; /* options of plugins: "cpu_form=avx2"; each must be known to one of those used */
    uint64_t n_settings;
    /* Called while opening with 0..1 and what is being done; nonzero return cancels. May be NULL.
     */
    int32_t (*progress)(void *user, double fraction, const char *what);
    void *user;
} vl_lm_params;

typedef struct vl_lm_info {
    uint32_t struct_size;
    uint32_t max_sequences;
    const char
        *architecture; /* valid until close, as are the others; "" with VL_LM_TOKENIZER_ONLY */
    const char *device;
    const char *chat_format; /* "" without one */
    uint64_t context_tokens;
    uint64_t kv_tokens;
    uint64_t n_tokens; /* of the tokenizer */
} vl_lm_info;

/* Opens, checks, warms up. Blocks, for large weights many seconds. [open] */
VL_EXPORT vl_status vl_lm_open(vl_library *lib, const vl_lm_params *params, vl_lm **out,
                               vl_error *err);
/* Nothing may run on it any more. NULL is a no-op. [open] */
VL_EXPORT void vl_lm_close(vl_lm *lm);
VL_EXPORT void vl_lm_info_get(const vl_lm *lm, vl_lm_info *out); /* caller sets struct_size [any] */

/* Ids of a text. kind: VL_PIECE_TEXT never matches special tokens, VL_PIECE_TEMPLATE does. Writes
 * at most cap ids; *n_ids = ids needed; VL_E_RANGE if cap is short. An id covers a byte at least,
 * so cap = len suffices. [any] */
VL_EXPORT vl_status vl_lm_encode(vl_lm *lm, const char *text, uint64_t len, int32_t kind,
                                 int32_t *ids, uint64_t cap, uint64_t *n_ids, vl_error *err);
/* Text of ids, with NUL behind it. *len = bytes needed without the NUL; VL_E_RANGE if cap < *len
 * + 1. [any] */
VL_EXPORT vl_status vl_lm_decode(vl_lm *lm, const int32_t *ids, uint64_t n_ids, char *text,
                                 uint64_t cap, uint64_t *len, vl_error *err);

/* ---- generating ---- */

enum {
    VL_GENERATE_CONTENT = 0,   /* the answer; all text without chat */
    VL_GENERATE_REASONING = 1, /* a thought before it */
    VL_GENERATE_CALL = 2,      /* a tool call begins: its name */
    VL_GENERATE_ARGUMENTS = 3, /* more of its arguments, JSON */
    VL_GENERATE_CALL_END = 4
};
/* Text as it comes: UTF-8, not NUL-terminated, valid during the call, on the thread that called
 * vl_lm_generate. Nonzero return: stop; vl_lm_generate returns VL_E_CANCELLED. */
typedef int32_t (*vl_generate_fn)(void *user, int32_t kind, const char *text, uint64_t len);

/* What is asked for; the prompt is one of message, chat_json, text, ids. vl_generate_init fills in
 * neutral values. */
typedef struct vl_generate_params {
    uint32_t struct_size;
    uint32_t reserved;
    const char *message; /* what a user says, answered by the model's chat format; NUL-terminated */
    const char *chat_json; /* {"messages":[...], "tools":[...], ...} as for /v1/chat/completions;
                              NUL-terminated */
    const char *text;      /* plain text to go on from; NUL-terminated */
    const int32_t *ids;
    uint64_t n_ids;
    uint64_t max_tokens;      /* 0: the rest of the context */
    const char *const *stops; /* texts that end the answer and are not part of it */
    uint64_t n_stops;
    int64_t seed; /* -1: a random one */
    /* A NAN (from vl_generate_init) means: as the checkpoint's generation_config says, else
     * neutral. */
    double temperature; /* 0: always the likeliest token */
    double top_p;
    double top_k;
    double min_p;
    double repetition_penalty;
    double frequency_penalty;
    double presence_penalty;
} vl_generate_params;

enum { VL_GENERATE_STOP = 0, VL_GENERATE_LENGTH = 1, VL_GENERATE_TOOL_CALLS = 2 };

typedef struct vl_generate_result {
    uint32_t struct_size;
    int32_t finish; /* VL_GENERATE_STOP, ... */
    uint64_t prompt_tokens;
    uint64_t cached_tokens; /* of these, not read again */
    uint64_t completion_tokens;
    uint64_t reasoning_tokens;
    double prefill_ms; /* until the first token */
    double decode_ms;  /* from there */
} vl_generate_result;

/* struct_size: sizeof(vl_generate_params) as the caller knows it. */
VL_EXPORT void vl_generate_init(vl_generate_params *params, uint32_t struct_size);
/* Runs to its end; fn and result may be NULL. Several threads may call it at once. [any] */
VL_EXPORT vl_status vl_lm_generate(vl_lm *lm, const vl_generate_params *params, vl_generate_fn fn,
                                   void *user, vl_generate_result *result, vl_error *err);

#ifdef __cplusplus
}
#endif
#endif
