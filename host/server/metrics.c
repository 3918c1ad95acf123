/* host/server/metrics.c: /metrics in Prometheus' text format 0.0.4: the engines' numbers and the
 * HTTP side's, under our names and, for those that dashboards know, vLLM's. No text of any request
 * ever. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "host/server/app.h"

static const char *const endpoint_names[ENDPOINT_COUNT] = {
    "chat_completions", "completions",    "messages", "responses", "models", "tokenize",
    "detokenize",       "apply_template", "health",   "metrics",   "other"};

void metrics_count(struct app *app, int endpoint, int status)
{
    for (size_t i = 0; i < STATUS_CLASSES; i++) {
        if (app->stats.answered[endpoint][i].status == status ||
            app->stats.answered[endpoint][i].status == 0) {
            app->stats.answered[endpoint][i].status = status;
            app->stats.answered[endpoint][i].n++;
            return;
        }
    }
}

struct number {
    const char *name, *vllm; /* vllm: NULL or a second name */
    const char *type, *help;
    size_t at; /* in vl_engine_stats */
};
#define STAT(member) offsetof(struct vl_engine_stats, member)
static const struct number numbers[] = {
    {"vallmo_requests_running", "vllm:num_requests_running", "gauge",
     "requests in steps now, prefill included", STAT(requests_running)},
    {"vallmo_requests_waiting", "vllm:num_requests_waiting", "gauge",
     "accepted requests that wait for a sequence", STAT(requests_waiting)},
    {"vallmo_requests_accepted_total", NULL, "counter", "requests taken by the engine",
     STAT(requests_total)},
    {"vallmo_requests_done_total", "vllm:request_success_total", "counter",
     "requests answered in full", STAT(requests_done)},
    {"vallmo_requests_failed_total", NULL, "counter", "requests that ended in an error",
     STAT(requests_failed)},
    {"vallmo_requests_cancelled_total", NULL, "counter",
     "requests whose client went away, or that the server ended", STAT(requests_cancelled)},
    {"vallmo_requests_refused_total", NULL, "counter", "requests beyond the queue",
     STAT(requests_refused)},
    {"vallmo_prompt_tokens_total", "vllm:prompt_tokens_total", "counter", "tokens of prompts",
     STAT(prompt_tokens)},
    {"vallmo_cached_prompt_tokens_total", NULL, "counter", "of these, not read again",
     STAT(cached_prompt_tokens)},
    {"vallmo_generation_tokens_total", "vllm:generation_tokens_total", "counter",
     "tokens generated", STAT(generation_tokens)},
    {"vallmo_steps_total", NULL, "counter", "steps of the model", STAT(steps)},
    {"vallmo_preemptions_total", NULL, "counter",
     "sequences that gave their place up and were read again", STAT(preemptions)},
    {"vallmo_kv_tokens", NULL, "gauge", "tokens that the pool holds in all", STAT(kv_tokens)},
    {"vallmo_kv_tokens_free", NULL, "gauge", "of these, free", STAT(kv_tokens_free)},
    {"vallmo_prefix_cache_entries", NULL, "gauge", "states kept for prompts that begin alike",
     STAT(prefix_entries)},
    {"vallmo_prefix_cache_device_bytes", NULL, "gauge", "their bytes on the device",
     STAT(prefix_device_bytes)},
    {"vallmo_prefix_cache_host_bytes", NULL, "gauge", "their bytes in host memory",
     STAT(prefix_host_bytes)},
    {"vallmo_prefix_cache_hits_total", NULL, "counter", "prompts that began from a kept state",
     STAT(prefix_hits)},
    {"vallmo_prefix_cache_misses_total", NULL, "counter", "prompts read from their first token",
     STAT(prefix_misses)},
    {"vallmo_prefix_cache_stored_total", NULL, "counter", "states kept", STAT(prefix_stored)},
    {"vallmo_prefix_cache_evictions_total", NULL, "counter", "states given up for room",
     STAT(prefix_evictions)},
    {"vallmo_prefix_cache_too_large_total", NULL, "counter",
     "states larger than the budget, not kept", STAT(prefix_too_large)},
};
struct series {
    const char *name, *vllm, *help;
    size_t at;
};
static const struct series histograms[] = {
    {"vallmo_time_to_first_token_seconds", "vllm:time_to_first_token_seconds",
     "from the request to its first token", STAT(first_token_seconds)},
    {"vallmo_time_between_tokens_seconds", NULL, "between two tokens of one answer",
     STAT(between_tokens_seconds)},
    {"vallmo_request_seconds", "vllm:e2e_request_latency_seconds",
     "from the request to the end of its answer", STAT(request_seconds)},
    {"vallmo_prompt_length_tokens", NULL, "length of prompts", STAT(prompt_length)},
    {"vallmo_answer_length_tokens", NULL, "length of answers", STAT(output_length)},
};

struct snapshot {
    const char *model;
    struct vl_engine_stats stats;
};

static void put_label(vl_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            vl_buf_putc(out, '\\');
        vl_buf_putc(out, *text == '\n' ? ' ' : *text);
    }
}

static void put_head(vl_buf *out, const char *name, const char *type, const char *help)
{
    vl_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_number(vl_buf *out, const char *name, const struct number *n,
                       const struct snapshot *s, size_t n_models)
{
    put_head(out, name, n->type, n->help);
    for (size_t i = 0; i < n_models; i++) {
        const uint64_t *x = (const uint64_t *)(const void *)((const char *)&s[i].stats + n->at);
        vl_buf_printf(out, "%s{model=\"", name);
        put_label(out, s[i].model);
        vl_buf_printf(out, "\"} %llu\n", (unsigned long long)*x);
    }
}

static void put_histogram(vl_buf *out, const char *name, const struct series *h,
                          const struct snapshot *s, size_t n_models)
{
    put_head(out, name, "histogram", h->help);
    for (size_t i = 0; i < n_models; i++) {
        const struct vl_histogram *x =
            (const struct vl_histogram *)(const void *)((const char *)&s[i].stats + h->at);
        vl_buf label = VL_BUF_INIT;
        uint64_t sum = 0;
        vl_buf_puts(&label, "model=\"");
        put_label(&label, s[i].model);
        vl_buf_putc(&label, '"');
        const char *l = label.ptr ? label.ptr : "model=\"\"";
        for (size_t k = 0; k + 1 < VL_HISTOGRAM_BUCKETS; k++) {
            sum += x->counts[k];
            if (isfinite(x->bounds[k]))
                vl_buf_printf(out, "%s_bucket{%s,le=\"%.6g\"} %llu\n", name, l, x->bounds[k],
                              (unsigned long long)sum);
        }
        vl_buf_printf(out, "%s_bucket{%s,le=\"+Inf\"} %llu\n%s_sum{%s} %.9g\n%s_count{%s} %llu\n",
                      name, l, (unsigned long long)x->n, name, l, x->sum, name, l,
                      (unsigned long long)x->n);
        vl_buf_fini(&label);
    }
}

static void put_finish(vl_buf *out, const struct snapshot *s, size_t n_models)
{
    static const struct {
        const char *reason;
        size_t at;
    } reasons[] = {{"stop", STAT(finish_stop)},
                   {"length", STAT(finish_length)},
                   {"tool_calls", STAT(finish_tool_calls)}};
    put_head(out, "vallmo_choices_finished_total", "counter", "answers by their finish_reason");
    for (size_t i = 0; i < n_models; i++)
        for (size_t k = 0; k < 3; k++) {
            const uint64_t *x =
                (const uint64_t *)(const void *)((const char *)&s[i].stats + reasons[k].at);
            vl_buf_puts(out, "vallmo_choices_finished_total{model=\"");
            put_label(out, s[i].model);
            vl_buf_printf(out, "\",reason=\"%s\"} %llu\n", reasons[k].reason,
                          (unsigned long long)*x);
        }
}

static void put_http(vl_buf *out, const struct app *app)
{
    put_head(out, "vallmo_requests_total", "counter",
             "HTTP requests by endpoint and status; 499: the client went away");
    for (size_t e = 0; e < ENDPOINT_COUNT; e++)
        for (size_t i = 0; i < STATUS_CLASSES && app->stats.answered[e][i].status; i++)
            vl_buf_printf(out, "vallmo_requests_total{endpoint=\"%s\",status=\"%d\"} %llu\n",
                          endpoint_names[e], app->stats.answered[e][i].status,
                          (unsigned long long)app->stats.answered[e][i].n);
    put_head(out, "vallmo_connections", "gauge", "open connections");
    vl_buf_printf(out, "vallmo_connections %zu\n", vl_http_n_connections(app->http));
    put_head(out, "vallmo_clients_gone_total", "counter",
             "clients that went away before their answer was complete");
    vl_buf_printf(out, "vallmo_clients_gone_total %llu\n", (unsigned long long)app->stats.gone);
    put_head(out, "vallmo_clients_too_slow_total", "counter",
             "of these, dropped since they read nothing");
    vl_buf_printf(out, "vallmo_clients_too_slow_total %llu\n",
                  (unsigned long long)app->stats.too_slow);
}

void metrics_reply(struct app *app, vl_http_request *r)
{
    vl_buf out = VL_BUF_INIT;
    vl_api_error e;
    size_t n = 0;
    struct snapshot *s = calloc(app->n_models + 1, sizeof *s);
    for (size_t i = 0; s && i < app->n_models; i++) {
        if (app->models[i].state != VL_RUNTIME_READY)
            continue;
        s[n].model = app->models[i].name;
        vl_engine_stats_get(vl_runtime_engine(app->models[i].runtime), &s[n++].stats);
    }
    put_http(&out, app);
    for (size_t i = 0; s && n && i < sizeof numbers / sizeof numbers[0]; i++) {
        put_number(&out, numbers[i].name, &numbers[i], s, n);
        if (numbers[i].vllm)
            put_number(&out, numbers[i].vllm, &numbers[i], s, n);
    }
    for (size_t i = 0; s && n && i < sizeof histograms / sizeof histograms[0]; i++) {
        put_histogram(&out, histograms[i].name, &histograms[i], s, n);
        if (histograms[i].vllm)
            put_histogram(&out, histograms[i].vllm, &histograms[i], s, n);
    }
    if (s && n)
        put_finish(&out, s, n);
    if (!s || out.failed) {
        vl_api_fail(&e, 503, NULL, "out of memory");
        routes_error(r, &e);
    } else {
        vl_http_reply(r, 200, "text/plain; version=0.0.4; charset=utf-8", NULL, out.ptr, out.len);
    }
    free(s);
    vl_buf_fini(&out);
}
