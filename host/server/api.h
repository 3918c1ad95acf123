/* host/server/api.h: JSON to requests and events to JSON: the bodies of the OpenAI-style API. No
 * sockets, no threads, no model; what comes in is hostile until checked. Fuzzed. */
#ifndef VL_SERVER_API_H
#define VL_SERVER_API_H

#include "base/json.h"
#include "host/lib/engine.h"

/* ---- errors ---- */

typedef struct vl_api_error {
    int status;       /* HTTP */
    const char *type; /* static; NULL: by status */
    const char *code; /* static or NULL */
    char param[256];  /* "" is null */
    char message[1024];
    int retry_after_s; /* 0: no Retry-After */
    bool has_counts;   /* n_prompt_tokens and n_ctx are told too */
    uint64_t n_prompt_tokens, n_ctx;
} vl_api_error;

/* Sets *e; false, so that a reader says `return vl_api_fail(...)`. param may be NULL. */
bool vl_api_fail(vl_api_error *e, int status, const char *param, const char *fmt, ...)
    VL_PRINTF(4, 5);
/* The body {"error":{...}}. */
void vl_api_error_json(const vl_api_error *e, vl_buf *out);
/* From what the engine says: a failed submit or a FAILED event. n_prompt_tokens, n_ctx: for a
 * prompt that does not fit. */
void vl_api_error_from(vl_api_error *e, const vl_error *err, const char *field,
                       uint64_t n_prompt_tokens, uint64_t n_ctx);

/* ---- fields: null is absent; a wrong type or range is an error that names the field ---- */

/* Each returns false after setting *e. *found (may be NULL) tells whether there was a value;
 * without one *out stays. */
bool vl_field_bool(vl_json o, const char *name, bool *out, bool *found, vl_api_error *e);
bool vl_field_int(vl_json o, const char *name, int64_t min, int64_t max, int64_t *out, bool *found,
                  vl_api_error *e);
bool vl_field_number(vl_json o, const char *name, double min, double max, bool min_open,
                     double *out, bool *found, vl_api_error *e);
/* *out is empty when absent; the buffer's text. */
bool vl_field_text(vl_json o, const char *name, vl_buf *out, bool *found, vl_api_error *e);
/* The value if it is there and of this VL_JSON_ type. */
bool vl_field_is(vl_json o, const char *name, int type, vl_json *out, vl_api_error *e);

/* ---- requests ---- */

typedef struct vl_api_limits {
    uint32_t choices_max;
    uint32_t json_depth;
} vl_api_limits;

/* What both chat completions and completions read. Owns what params points to. */
typedef struct vl_api_request {
    vl_json_doc doc; /* of the body, which must outlive this */
    struct vl_request_params params;
    vl_buf model;
    bool has_model;
    bool stream, include_usage;
    bool include_reasoning;
    int32_t reasoning_field; /* VL_FIELD_REASONING_..., -1: the server's */
    bool echo;               /* completions */
    int32_t n_top;           /* top_logprobs that are shown; -1: no logprobs */
    vl_buf stop_text;        /* the stop strings' bytes */
    vl_bytes *stops;         /* [params.n_stops] */
    int32_t *stop_ids;
    vl_logit_bias *bias;
    /* completions: prompts, each text or ids */
    struct vl_api_prompt *prompts;
    size_t n_prompts, prompts_cap;
    bool has_suffix;
    vl_buf suffix;
} vl_api_request;

struct vl_api_prompt {
    vl_buf text;
    int32_t *ids; /* owned; NULL: text */
    size_t n_ids;
};

/* Names a field that is not known to this call; the caller logs it. near: the spelling that may
 * have been meant, or NULL. */
typedef void (*vl_api_unknown_fn)(void *user, const char *name, const char *near);

/* params.chat_json is the body itself. */
bool vl_api_chat_parse(vl_api_request *r, const char *body, size_t len, const vl_api_limits *limits,
                       vl_api_unknown_fn unknown, void *user, vl_api_error *e);
bool vl_api_completion_parse(vl_api_request *r, const char *body, size_t len,
                             const vl_api_limits *limits, vl_api_unknown_fn unknown, void *user,
                             vl_api_error *e);
void vl_api_request_fini(vl_api_request *r); /* a zeroed one is fine */

/* Shared by the two (api_fields.c). */
bool vl_api_common_parse(vl_api_request *r, const char *body, size_t len,
                         const vl_api_limits *limits, vl_api_error *e);
void vl_api_report_unknown(vl_json o, const char *const *known, vl_api_unknown_fn unknown,
                           void *user);

/* ---- answers ---- */

enum {
    VL_FIELD_REASONING_CONTENT = 0,
    VL_FIELD_REASONING = 1,
    VL_FIELD_REASONING_BOTH = 2,
    VL_FIELD_REASONING_INLINE = 3 /* as <think> text in content */
};

struct vl_answer_choice; /* answer.c */
struct vl_items;         /* api_forms.h */

/* One answer in the making, whole or streamed. */
typedef struct vl_answer {
    bool chat; /* chat completion, else text completion */
    bool stream, include_usage, include_reasoning;
    int32_t n_top; /* -1: no logprobs */
    int32_t reasoning_field;
    char id[40]; /* "chatcmpl-..." */
    int64_t created;
    const char *model; /* borrowed */
    /* Bytes of a token, for logprobs. */
    vl_bytes (*token)(const void *user, int32_t id);
    const void *token_user;
    struct vl_answer_choice *choices;
    uint32_t n_choices;
    int32_t *stop_ids; /* the request's own, told as stop_reason; owned */
    size_t n_stop_ids;
    struct vl_usage usage; /* sums over prompts */
    vl_buf held; /* stream: events made before there was a stream (echo), to be sent first */
    double prefill_ms, decode_ms;
    struct vl_items *items; /* answers made of items, of one choice (api_forms.h); else NULL */
    const char *request_id; /* for the errors of a form that tells it; borrowed; may be NULL */
} vl_answer;

bool vl_answer_init(vl_answer *a, bool chat, const vl_api_request *r, uint32_t n_choices,
                    const char *model);
void vl_answer_fini(vl_answer *a); /* a zeroed one is fine */
/* Takes a STARTED, TEXT or CHOICE_END event of this choice. Streams: appends events ("data:
 * ...\n\n") to out. */
void vl_answer_event(vl_answer *a, uint32_t choice, const vl_event *ev, vl_buf *out);
/* A prompt in front of its answer (echo), before any event of that choice. */
void vl_answer_echo(vl_answer *a, uint32_t choice, const char *text, size_t len, vl_buf *out);
/* The logprobs of a prompt, of a DONE event, in front of those of this choice. Not for streams. */
void vl_answer_prompt_logprobs(vl_answer *a, uint32_t choice, const vl_event *done);
/* Adds the usage of a DONE event. */
void vl_answer_usage(vl_answer *a, const vl_event *ev);
/* The end. Streams: usage chunk and [DONE]; else the whole body. */
void vl_answer_finish(vl_answer *a, vl_buf *out);

/* Random letters and digits. */
void vl_random_text(char *out, size_t n);

/* One server-sent event. */
void vl_sse_data(vl_buf *out, const char *json, size_t len);

#endif
