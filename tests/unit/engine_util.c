/* tests/unit/engine_util.c: see engine_util.h. */
#include "engine_util.h"

#include <unistd.h>

#include "host/lib/options.h"

static struct vl_option_set options;

static const vl_option_values *options_of(void *user, const vl_plugin *plugin)
{
    struct eng *g = user;
    size_t n = 0;
    vl_error err = {0};

    if (strcmp(plugin->id, "fake") != 0)
        return NULL;
    while (g->settings[n] != NULL)
        n++;
    vl_option_set_fini(&options);
    if (vl_option_set_init(&options, plugin->options, (size_t)plugin->n_options, g->settings, n,
                           &err) != VL_OK)
        fail_msg("%s", err.text);
    return &options.values;
}

void eng_open(struct eng *g)
{
    static char path[512];
    vl_error err = {0};

    if (getenv("VL_LOG") == NULL)
        vl_log_set_level(VL_LOG_ERROR);
    snprintf(path, sizeof path, "%s/tests/engine_%ld.fake", VL_BUILD_DIR, (long)getpid());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(vl_registry_create(&g->reg, &err), VL_OK);
    if (vl_registry_load(g->reg, VL_BUILD_DIR "/tests/plugins/fake.so", &err) != VL_OK)
        fail_msg("%s", err.text);
    const vl_registry_entry *e = vl_registry_find(g->reg, "fake");
    assert_non_null(e);
    g->probe = e->plugin->get_ext(FAKE_PROBE_ID);
    g->probe->fail_at(0, 0, 0);
    g->probe->gate(0);
    g->probe->reset();
    g->p.path = path;
    g->p.options = options_of;
    g->p.options_user = g;
    if (vl_runtime_open(g->reg, &g->p, &g->rt, &err) != VL_OK)
        fail_msg("%s", err.text);
    g->e = vl_runtime_engine(g->rt);
    assert_int_equal(vl_event_queue_create(&g->q, &err), VL_OK);
    g->probe->reset();
    unlink(path);
}

struct fake_counts eng_counts(const struct eng *g)
{
    struct fake_counts c;

    g->probe->counts(&c);
    return c;
}

void eng_close(struct eng *g)
{
    struct fake_counts c = eng_counts(g);

    if (c.bad_calls != 0)
        fail_msg("the interface was broken: %s", g->probe->last_bad());
    vl_runtime_close(g->rt);
    c = eng_counts(g);
    assert_int_equal(c.models, 0);
    assert_int_equal(c.sequences, 0);
    assert_int_equal(c.snapshots, 0);
    assert_int_equal(c.decoders, 0);
    assert_int_equal(c.parsers, 0);
    assert_int_equal(c.checkpoints, 0);
    assert_int_equal(c.tokenizers, 0);
    assert_int_equal(c.bad_calls, 0);
    vl_event_queue_destroy(g->q);
    vl_registry_destroy(g->reg);
    vl_option_set_fini(&options);
}

struct vl_request_params text_params(const char *text, vl_piece *piece)
{
    struct vl_request_params p;

    vl_request_params_init(&p);
    *piece = (vl_piece){text, strlen(text), VL_PIECE_TEXT, 0};
    p.pieces = piece;
    p.n_pieces = 1;
    p.sampling.set = VL_SET_TEMPERATURE;
    return p;
}

void run_start(struct eng *g, struct run *x, const struct vl_request_params *p)
{
    vl_error err = {0};
    char field[248];

    memset(x, 0, sizeof *x);
    x->n = p->n > 0 ? p->n : 1;
    x->a = calloc(x->n, sizeof *x->a);
    assert_non_null(x->a);
    if (vl_request_submit(g->e, p, g->q, x, &x->r, field, &err) != VL_OK)
        fail_msg("submit: %s (%s)", err.text, field);
}

static void on_text(struct run *x, const vl_event *ev)
{
    struct run_answer *a = &x->a[ev->choice];

    assert_false(a->ended);
    a->n_text_events++;
    switch (ev->text_kind) {
    case VL_TEXT_KIND_REASONING:
        vl_buf_append(&a->reasoning, ev->text, ev->text_len);
        return;
    case VL_TEXT_KIND_CALL:
        vl_buf_append(&a->calls, ev->text, ev->text_len);
        vl_buf_putc(&a->calls, '(');
        return;
    case VL_TEXT_KIND_ARGUMENTS:
        vl_buf_append(&a->calls, ev->text, ev->text_len);
        return;
    case VL_TEXT_KIND_CALL_END:
        vl_buf_putc(&a->calls, ')');
        return;
    default:
        break;
    }
    vl_buf_append(&a->content, ev->text, ev->text_len);
    for (size_t i = 0; i < ev->n_tokens && a->n_tokens < RUN_TOKENS; i++) {
        a->tokens[a->n_tokens] = ev->tokens[i];
        if (ev->tokens[i].n_top > 0)
            a->best[a->n_tokens] = ev->tokens[i].top[0];
        a->n_tokens++;
    }
}

static void on_last(struct run *x, const vl_event *ev)
{
    x->n_last++;
    x->usage = ev->usage;
    x->done = ev->kind == VL_EVENT_DONE;
    x->failed = !x->done;
    x->err = ev->error;
    memcpy(x->field, ev->field, sizeof x->field);
    if (ev->n_tokens > 0) {
        x->prompt_tokens = calloc(ev->n_tokens, sizeof *x->prompt_tokens);
        memcpy(x->prompt_tokens, ev->tokens, ev->n_tokens * sizeof *x->prompt_tokens);
        x->n_prompt_tokens = ev->n_tokens;
    }
}

static void on_event(const vl_event *ev)
{
    struct run *x = ev->user;

    assert_int_equal(x->n_last, 0); /* nothing comes after the last event */
    switch (ev->kind) {
    case VL_EVENT_QUEUED:
        assert_false(x->started);
        break;
    case VL_EVENT_STARTED:
        assert_false(x->started);
        x->started = true;
        x->cached = ev->usage.cached_tokens;
        break;
    case VL_EVENT_TEXT:
        assert_true(x->started);
        on_text(x, ev);
        break;
    case VL_EVENT_CHOICE_END: {
        struct run_answer *a = &x->a[ev->choice];
        assert_false(a->ended);
        a->ended = true;
        a->finish = ev->finish;
        a->stop_id = ev->stop_id;
        a->usage = ev->usage;
        snprintf(a->stop_text, sizeof a->stop_text, "%.*s", (int)ev->text_len,
                 ev->text != NULL ? ev->text : "");
        break;
    }
    default:
        on_last(x, ev);
    }
}

bool run_step(struct eng *g, int timeout_ms)
{
    vl_event *ev = vl_event_queue_wait(g->q, timeout_ms);
    bool any = ev != NULL;

    while (ev != NULL) {
        vl_event *next = ev->next;
        on_event(ev);
        vl_event_free(ev);
        ev = next;
    }
    return any;
}

void run_wait(struct eng *g, struct run *x)
{
    while (x->n_last == 0) {
        if (!run_step(g, 8000))
            fail_msg("no event for 8 s");
    }
}

void run_free(struct run *x)
{
    for (uint32_t i = 0; i < x->n; i++) {
        vl_buf_fini(&x->a[i].reasoning);
        vl_buf_fini(&x->a[i].content);
        vl_buf_fini(&x->a[i].calls);
    }
    free(x->a);
    free(x->prompt_tokens);
    vl_request_release(x->r);
    memset(x, 0, sizeof *x);
}

void run_text(struct eng *g, struct run *x, const char *text, uint64_t max_tokens)
{
    vl_piece piece;
    struct vl_request_params p = text_params(text, &piece);

    p.max_tokens = max_tokens;
    run_start(g, x, &p);
    run_wait(g, x);
    if (x->failed)
        fail_msg("request failed: %s", x->err.text);
}

const char *run_content(const struct run *x, uint32_t choice)
{
    return x->a[choice].content.ptr != NULL ? x->a[choice].content.ptr : "";
}
