/* chat/client.h: one HTTP request at a time to an OpenAI-compatible server, on libcurl's multi
 * interface. Knows URLs, JSON replies and event streams; nothing of dialogues or terminals. */
#ifndef VL_CHAT_CLIENT_H
#define VL_CHAT_CLIENT_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "vallmo/abi.h"

enum vl_delta_kind { VL_DELTA_TEXT, VL_DELTA_THINKING, VL_DELTA_TOOL_NAME, VL_DELTA_TOOL_ARGS };

/* Called while the answer comes, from vl_client_wait. index: which tool call. text: not
 * NUL-terminated, as the server sent it (not cleaned). */
struct vl_sink {
    void *user;
    void (*delta)(void *user, enum vl_delta_kind kind, int index, const char *text, size_t len);
};

/* How a request ended. */
enum vl_reply_state {
    VL_REPLY_NONE, /* no request, or still running */
    VL_REPLY_OK,
    VL_REPLY_UNREACHABLE, /* no answer of a server at all */
    VL_REPLY_FAILED       /* an HTTP status, an error in the stream, a broken stream */
};

struct vl_reply {
    enum vl_reply_state state;
    long status;           /* HTTP, 0 without */
    int retry_after_s;     /* of a 429 or 503; -1 without the header */
    char finish[32];       /* finish_reason, "" if none came */
    int64_t prompt_tokens; /* -1: not told, so the next two */
    int64_t answer_tokens;
    int64_t cached_tokens;
    double tokens_per_s; /* as the server measured it, 0 if it did not say */
    vl_buf message;      /* of an error, as the server sent it (not cleaned) */
    char **models;       /* of /v1/models */
    size_t n_models;
    int64_t context_tokens; /* of the first model, 0 if not told */
};

struct vl_client;

/* NULL when out of memory. */
struct vl_client *vl_client_create(void);
void vl_client_destroy(struct vl_client *c);

/* Makes "http://host:port/v1" of what a user gives: scheme added, with or without /v1, slashes at
 * the end. */
vl_status vl_url_normalise(vl_buf *out, const char *given, vl_error *err);

/* Starts a request; the one before is dropped (its connection is closed if it still ran). base: of
 * vl_url_normalise; key may be NULL; body is copied. */
vl_status vl_client_chat(struct vl_client *c, const char *base, const char *key, const vl_buf *body,
                         struct vl_sink sink, vl_error *err);
vl_status vl_client_models(struct vl_client *c, const char *base, const char *key, vl_error *err);
/* Hangs up. The server sees the connection close. */
void vl_client_cancel(struct vl_client *c);
bool vl_client_busy(const struct vl_client *c);
/* Moves data for at most timeout_ms, or until one of the further descriptors is ready. */
void vl_client_wait(struct vl_client *c, struct curl_waitfd *fds, unsigned n_fds, int timeout_ms);
/* The reply of the last request; state NONE while it runs. Owned by c, valid until the next
 * request. */
const struct vl_reply *vl_client_reply(const struct vl_client *c);

#endif
