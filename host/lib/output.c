/* host/lib/output.c: decoder, parser, stop strings, in this order.
 *
 * Tokens are numbered as they are pushed. `infos` keeps those whose text has not been given out.
 * Text that stop strings hold back waits in `held` with the tokens that end in it (`marks`). */
#include "host/lib/output.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"

struct mark {            /* a token whose text ends at this byte of the text that was scanned */
    uint64_t begin, end; /* bytes, counted from the first one scanned */
    uint64_t token;
};

struct vl_output {
    struct vl_output_params p;
    vl_decoder *decoder;
    char *bytes; /* [bytes_cap] what the decoder gives for one token */
    size_t bytes_cap;

    int32_t *ids;         /* [n_infos] of the tokens from `base` on */
    vl_logprob *logprobs; /* [n_infos * (1 + n_logprobs)] */
    size_t n_infos, ids_cap, logprobs_cap;
    uint64_t base;    /* number of infos' first token */
    uint64_t n_fed;   /* tokens pushed */
    uint64_t n_given; /* raw text: tokens before this one have been handed on */

    vl_stop_state stop_state;
    vl_buf held;             /* text that was scanned and not given out */
    uint64_t scanned, given; /* bytes; scanned - given == held.len */
    int32_t held_kind;
    struct mark *marks;
    size_t n_marks, marks_cap;

    int stop; /* index of the string that matched, or -1 */
    bool ended;
    uint32_t n_calls;
    uint64_t n_reasoning; /* counted before the flush, which is no token */
    bool flushed;
    vl_status failed; /* of a callback: out of memory */
};

vl_status vl_output_create(const struct vl_output_params *p, vl_output **out, vl_error *err)
{
    vl_output *o = calloc(1, sizeof *o);

    if (o == NULL) {
        if (p->parser != NULL)
            p->chat_api->parser_destroy(p->parser);
        return vl_error_set(err, VL_E_NOMEM, "output: out of memory");
    }
    o->p = *p;
    o->stop = -1;
    o->bytes_cap = 3 * p->tokenizer_api->max_token_bytes(p->tokenizer) + 12;
    o->bytes = malloc(o->bytes_cap);
    vl_status rc = o->bytes == NULL
                       ? vl_error_set(err, VL_E_NOMEM, "output: out of memory")
                       : p->tokenizer_api->decoder_create(p->tokenizer, &o->decoder, err);
    if (rc != VL_OK) {
        vl_output_destroy(o);
        return rc;
    }
    *out = o;
    return VL_OK;
}

void vl_output_destroy(vl_output *o)
{
    if (o == NULL)
        return;
    if (o->decoder != NULL)
        o->p.tokenizer_api->decoder_destroy(o->decoder);
    if (o->p.parser != NULL)
        o->p.chat_api->parser_destroy(o->p.parser);
    vl_buf_fini(&o->held);
    free(o->marks);
    free(o->bytes);
    free(o->ids);
    free(o->logprobs);
    free(o);
}

static size_t per_token(const vl_output *o)
{
    return o->p.n_logprobs >= 0 ? (size_t)o->p.n_logprobs + 1 : 0;
}

/* Remembers a token until its text goes out. */
static bool keep_info(vl_output *o, int32_t id, const vl_logprob *logprobs)
{
    size_t per = per_token(o);

    if (!vl_grow(&o->ids, &o->ids_cap, o->n_infos + 1, sizeof *o->ids) ||
        (per > 0 &&
         !vl_grow(&o->logprobs, &o->logprobs_cap, (o->n_infos + 1) * per, sizeof *o->logprobs)))
        return false;
    o->ids[o->n_infos] = id;
    if (per > 0) {
        vl_logprob *to = o->logprobs + o->n_infos * per;
        if (logprobs != NULL)
            memcpy(to, logprobs, per * sizeof *to);
        else
            for (size_t i = 0; i < per; i++)
                to[i] = (vl_logprob){id, 0.0f};
    }
    o->n_infos++;
    return true;
}

/* Forgets the tokens before number `until`. */
static void drop_infos(vl_output *o, uint64_t until)
{
    size_t per = per_token(o);

    if (until <= o->base)
        return;
    size_t n = until - o->base < o->n_infos ? (size_t)(until - o->base) : o->n_infos;
    memmove(o->ids, o->ids + n, (o->n_infos - n) * sizeof *o->ids);
    if (per > 0)
        memmove(o->logprobs, o->logprobs + n * per, (o->n_infos - n) * per * sizeof *o->logprobs);
    o->n_infos -= n;
    o->base += n;
}

static void fill_token(const vl_output *o, vl_event *e, size_t at, uint64_t token)
{
    size_t per = per_token(o);
    size_t i = (size_t)(token - o->base);
    struct vl_event_token *t = &e->tokens[at];

    t->id = o->ids[i];
    if (per == 0)
        return;
    t->logprob = o->logprobs[i * per].logprob;
    if (per > 1) {
        /* The event's own room behind its tokens. */
        vl_logprob *top = (vl_logprob *)(uintptr_t)t->top;
        memcpy(top, o->logprobs + i * per + 1, (per - 1) * sizeof *top);
    }
}

/* An event with the tokens numbered first..end-1, of which those already forgotten are left out. */
static void give(vl_output *o, int32_t kind, uint32_t call, const char *text, size_t len,
                 uint64_t first, uint64_t end)
{
    size_t per = per_token(o);

    if (first < o->base)
        first = o->base;
    if (end > o->base + o->n_infos) /* the flush at the end is no token */
        end = o->base + o->n_infos;
    if (end < first)
        end = first;
    if (len == 0 && end == first && kind <= VL_TEXT_KIND_CONTENT)
        return;
    vl_event *e = vl_event_make(VL_EVENT_TEXT, o->p.user, text != NULL ? text : "", len,
                                (size_t)(end - first), per > 1 ? per - 1 : 0);
    if (e == NULL) {
        o->failed = VL_E_NOMEM;
        return;
    }
    e->choice = o->p.choice;
    e->text_kind = kind;
    e->call = call;
    for (uint64_t t = first; t < end; t++)
        fill_token(o, e, (size_t)(t - first), t);
    vl_event_queue_post(o->p.queue, e);
}

/* Gives out scanned text up to byte `until`; with `all`, tokens that merely begin before it too. */
static void release(vl_output *o, uint64_t until, bool all)
{
    size_t len = (size_t)(until - o->given);
    size_t n = 0;

    while (n < o->n_marks && (o->marks[n].end <= until || (all && o->marks[n].begin < until)))
        n++;
    /* The marks are one run of tokens but for those that gave no text and were left out; each is
     * one event token. */
    uint64_t first = n > 0 ? o->marks[0].token : 0;
    uint64_t end = n > 0 ? o->marks[n - 1].token + 1 : 0;
    if (len > 0 || n > 0)
        give(o, o->held_kind, 0, o->held.ptr, len, first, end);
    vl_buf_consume(&o->held, len);
    o->given = until;
    if (n == 0)
        return;
    memmove(o->marks, o->marks + n, (o->n_marks - n) * sizeof *o->marks);
    o->n_marks -= n;
    drop_infos(o, end);
}

static bool keep_mark(vl_output *o, uint64_t begin, uint64_t end, uint64_t token)
{
    if (!vl_grow(&o->marks, &o->marks_cap, o->n_marks + 1, sizeof *o->marks))
        return false;
    o->marks[o->n_marks++] = (struct mark){begin, end, token};
    return true;
}

/* Text in which stop strings count. */
static void scan(vl_output *o, int32_t kind, const char *text, size_t len, uint64_t first,
                 uint64_t end)
{
    size_t used;

    if (o->held_kind != kind) {
        release(o, o->scanned, true);
        o->held_kind = kind;
    }
    uint64_t begin = o->scanned;
    int stop = vl_stop_scan(o->p.stops, &o->stop_state, text, len, &used);
    vl_buf_append(&o->held, text, used);
    o->scanned += used;
    for (uint64_t t = first; t < end && t < o->n_fed; t++) {
        if (!keep_mark(o, begin, o->scanned, t))
            o->failed = VL_E_NOMEM;
    }
    if (o->held.failed || o->failed != VL_OK) {
        o->failed = VL_E_NOMEM;
        return;
    }
    if (stop < 0) {
        release(o, o->scanned - vl_stop_held(o->p.stops, &o->stop_state), false);
        return;
    }
    uint64_t cut = o->scanned;
    if (!o->p.include_stop)
        cut -= o->p.stops->len[stop];
    /* The match may begin in text of another kind, given out already. */
    release(o, cut > o->given ? cut : o->given, true);
    o->stop = stop;
    o->ended = true;
}

static void text_in(vl_output *o, int32_t kind, uint32_t call, const char *text, size_t len,
                    uint64_t first, uint64_t end)
{
    bool scanned = o->p.stops->n > 0 && (kind == VL_TEXT_KIND_CONTENT || o->p.stop_raw);

    if (scanned && kind <= VL_TEXT_KIND_CONTENT) {
        scan(o, kind, text, len, first, end);
        return;
    }
    /* Order among kinds: what is held goes first, and a match does not reach over a call. */
    if (o->held.len > 0 || o->n_marks > 0)
        release(o, o->scanned, true);
    memset(&o->stop_state, 0, sizeof o->stop_state);
    give(o, kind, call, text, len, first, end);
    drop_infos(o, end);
}

static int32_t on_chat_event(void *user, const vl_chat_event *ev)
{
    static const int32_t kinds[] = {VL_TEXT_KIND_REASONING, VL_TEXT_KIND_CONTENT, VL_TEXT_KIND_CALL,
                                    VL_TEXT_KIND_ARGUMENTS, VL_TEXT_KIND_CALL_END};
    vl_output *o = user;

    if (ev->kind < 0 || ev->kind > VL_CHAT_EV_CALL_END)
        return 0; /* a newer plugin's kind */
    text_in(o, kinds[ev->kind], ev->index, ev->text.ptr, ev->text.len, ev->first_token,
            ev->end_token);
    if (ev->kind == VL_CHAT_EV_CALL_END) {
        o->n_calls++;
        if (o->p.one_call)
            o->ended = true;
    }
    return o->ended || o->failed != VL_OK;
}

static vl_status parse(vl_output *o, int32_t id, size_t len, vl_error *err)
{
    vl_status rc =
        o->p.chat_api->feed(o->p.parser, id, (vl_bytes){o->bytes, len}, on_chat_event, o, err);

    if (rc == VL_E_CANCELLED && (o->ended || o->failed != VL_OK)) {
        if (err != NULL)
            err->status =
                VL_OK; /* we stopped it ourselves: a stop string, or a call that was the last */
        return VL_OK;
    }
    return rc;
}

vl_status vl_output_push(vl_output *o, int32_t id, const vl_logprob *logprobs, vl_error *err)
{
    uint64_t len = 0;

    if (o->ended)
        return VL_OK;
    if (!keep_info(o, id, logprobs))
        return vl_error_set(err, VL_E_NOMEM, "output: out of memory");
    o->n_fed++;
    vl_status rc = o->p.tokenizer_api->decoder_push(o->decoder, id, !o->p.keep_special, o->bytes,
                                                    o->bytes_cap, &len, err);
    if (rc != VL_OK)
        return rc;
    if (o->p.parser != NULL) {
        rc = parse(o, id, len, err);
    } else if (len > 0) {
        text_in(o, VL_TEXT_KIND_CONTENT, 0, o->bytes, len, o->n_given, o->n_fed);
        o->n_given = o->n_fed;
    }
    if (rc == VL_OK && o->failed != VL_OK)
        rc = vl_error_set(err, o->failed, "output: out of memory");
    return rc;
}

bool vl_output_ended(const vl_output *o)
{
    return o->ended;
}

vl_status vl_output_finish(vl_output *o, bool cut, vl_error *err)
{
    uint64_t len = 0;
    vl_status rc = VL_OK;

    if (o->ended)
        return VL_OK;
    rc = o->p.tokenizer_api->decoder_flush(o->decoder, o->bytes, o->bytes_cap, &len, err);
    if (rc == VL_OK && o->p.parser != NULL) {
        o->n_reasoning = o->p.chat_api->reasoning_tokens(o->p.parser);
        o->flushed = len > 0;
        if (len > 0)
            rc = parse(o, -1, len, err);
        if (rc == VL_OK && !o->ended)
            rc = o->p.chat_api->finish(o->p.parser, cut ? VL_CHAT_END_LENGTH : VL_CHAT_END_STOP,
                                       on_chat_event, o, err);
        if (rc == VL_E_CANCELLED && o->ended) {
            rc = VL_OK;
            if (err != NULL)
                err->status = VL_OK;
        }
    } else if (rc == VL_OK && (len > 0 || o->n_given < o->n_fed)) {
        text_in(o, VL_TEXT_KIND_CONTENT, 0, o->bytes, len, o->n_given, o->n_fed);
        o->n_given = o->n_fed;
    }
    if (rc == VL_OK && !o->ended && (o->held.len > 0 || o->n_marks > 0))
        release(o, o->scanned, true);
    if (rc == VL_OK && o->failed != VL_OK)
        rc = vl_error_set(err, o->failed, "output: out of memory");
    return rc;
}

const char *vl_output_stop_text(const vl_output *o, size_t *len)
{
    if (o->stop < 0)
        return NULL;
    *len = o->p.stops->len[o->stop];
    return o->p.stops->text[o->stop];
}

int32_t vl_output_state(const vl_output *o)
{
    return o->p.parser != NULL ? o->p.chat_api->state(o->p.parser) : VL_CHAT_CONTENT;
}

uint64_t vl_output_reasoning_tokens(const vl_output *o)
{
    if (o->p.parser == NULL)
        return 0;
    return o->flushed ? o->n_reasoning : o->p.chat_api->reasoning_tokens(o->p.parser);
}

uint32_t vl_output_calls(const vl_output *o)
{
    return o->n_calls;
}
