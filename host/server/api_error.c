/* host/server/api_error.c: errors as the API tells them. */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "host/server/api.h"

static const char *type_of(int status)
{
    switch (status) {
    case 429:
        return "rate_limit_error";
    case 500:
        return "server_error";
    case 503:
        return "unavailable_error";
    default:
        return "invalid_request_error";
    }
}

bool vl_api_fail(vl_api_error *e, int status, const char *param, const char *fmt, ...)
{
    va_list args;
    *e = (vl_api_error){.status = status};
    if (param)
        snprintf(e->param, sizeof e->param, "%s", param);
    va_start(args, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, args);
    va_end(args);
    if (status == 503)
        e->retry_after_s = 1;
    return false;
}

void vl_api_error_json(const vl_api_error *e, vl_buf *out)
{
    const char *message = e->message[0] ? e->message : "unknown error";
    vl_buf_puts(out, "{\"error\":{\"message\":");
    vl_json_put_str(out, message, strlen(message));
    vl_buf_printf(out, ",\"type\":\"%s\",\"param\":", e->type ? e->type : type_of(e->status));
    if (e->param[0])
        vl_json_put_str(out, e->param, strlen(e->param));
    else
        vl_buf_puts(out, "null");
    if (e->code)
        vl_buf_printf(out, ",\"code\":\"%s\"", e->code);
    else
        vl_buf_puts(out, ",\"code\":null");
    if (e->has_counts)
        vl_buf_printf(out, ",\"n_prompt_tokens\":%llu,\"n_ctx\":%llu",
                      (unsigned long long)e->n_prompt_tokens, (unsigned long long)e->n_ctx);
    vl_buf_puts(out, "}}");
}

void vl_api_error_from(vl_api_error *e, const vl_error *err, const char *field,
                       uint64_t n_prompt_tokens, uint64_t n_ctx)
{
    switch (err->status) {
    case VL_E_RANGE:
        if (n_prompt_tokens >= n_ctx && n_ctx > 0) {
            vl_api_fail(
                e, 400, "messages",
                "This model's maximum context length is %llu tokens. However, your messages "
                "resulted in %llu tokens. Please reduce the length of the messages.",
                (unsigned long long)n_ctx, (unsigned long long)n_prompt_tokens);
            e->code = "context_length_exceeded";
            e->has_counts = true;
            e->n_prompt_tokens = n_prompt_tokens;
            e->n_ctx = n_ctx;
            return;
        }
        /* fall through */
    case VL_E_INVALID:
    case VL_E_UNSUPPORTED:
    case VL_E_FORMAT:
    case VL_E_NOT_FOUND:
        vl_api_fail(e, 400, field, "%s", err->text);
        return;
    case VL_E_BUSY:
        vl_api_fail(e, 429, NULL, "the queue is full: %s", err->text);
        e->code = "rate_limit_exceeded";
        e->retry_after_s = 1;
        return;
    case VL_E_STATE:
    case VL_E_CANCELLED:
        vl_api_fail(e, 503, NULL, "%s", "the server is shutting down");
        return;
    case VL_E_NOMEM:
        vl_api_fail(e, 503, NULL, "out of memory: %s", err->text);
        return;
    case VL_E_DEVICE:
        vl_api_fail(e, 503, NULL, "the model's device failed; the server must be restarted");
        return;
    default:
        vl_api_fail(e, 500, NULL, "internal error"); /* the log has the text */
        return;
    }
}
