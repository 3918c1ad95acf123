/* plugins/qwen35/cpu/output.c: from hidden states to logits, tokens, log probabilities and stops.
 * Knows the head and the sampling rules' toolbox; nothing of layers. */
#include <string.h>

#include "base/error.h"
#include "plugins/qwen35/cpu/model.h"

int32_t vl_q35_cpu_stop_of(const vl_q35_cpu *m, const vl_sequence *s, int32_t id, uint64_t n_out,
                           size_t position)
{
    for (size_t i = 0; i < s->n_stop_ids; i++) {
        if (s->stop_ids[i] == id)
            return VL_STOP_ID;
    }
    if (n_out >= s->max_tokens)
        return VL_STOP_LIMIT;
    return position + 1 >= m->context ? VL_STOP_CONTEXT : VL_STOP_NONE;
}

void vl_q35_cpu_take_token(vl_q35_cpu *m, vl_sequence *s, int32_t id)
{
    if (s->counting) /* room for every id of the vocabulary or the context, so this can't fail */
        (void)vl_counts_add(s->counts, id, true);
    s->pending = id;
    s->has_pending = true;
    s->n_out++;
    s->stop = vl_q35_cpu_stop_of(m, s, id, s->n_out, s->position);
}

static void fault(vl_q35_cpu *m, const struct cpu_want *w, vl_status status, const vl_error *why)
{
    w->seq->stop = VL_STOP_FAULT;
    w->seq->fault = status;
    w->seq->has_pending = false;
    vl_q35_log(m->host, VL_LOG_ERROR, "cpu", "fault: a sequence of %zu tokens stops: %s",
               w->seq->position, why->text);
}

static void sample(vl_q35_cpu *m, const struct cpu_want *w, const float *logits)
{
    vl_sequence *s = w->seq;
    vl_sample_input in = {.logits = logits,
                          .params = &s->sampling,
                          .counts = s->counting ? s->counts : NULL,
                          .mask = w->mask,
                          .position = s->position};
    if (s->n_out < s->min_tokens) {
        in.banned = s->stop_ids;
        in.n_banned = s->n_stop_ids;
    }
    vl_error why = {0};
    int32_t id;
    vl_status rc = vl_sampler_run(m->sampler, &in, &id, w->logprobs, &why);
    if (rc != VL_OK) {
        fault(m, w, rc == VL_E_STATE ? VL_E_STATE : VL_E_INTERNAL, &why);
        return;
    }
    vl_q35_cpu_take_token(m, s, id);
    ((int32_t *)(uintptr_t)w->result->ids)[0] = id; /* ids points into the ticket's own array */
    w->result->n_ids = 1;
    w->result->logprobs = w->logprobs;
}

static void one(vl_q35_cpu *m, const struct cpu_want *w, const float *logits)
{
    if (w->seq->stop == VL_STOP_FAULT)
        return;
    if (w->kind == WANT_SAMPLE) {
        sample(m, w, logits);
        return;
    }
    vl_error why = {0};
    if (vl_sampler_logprobs(m->sampler, logits, w->id, w->k, w->logprobs, &why) != VL_OK)
        fault(m, w, VL_E_INTERNAL, &why);
}

/* Sampled rows take the thin form in groups, so that a prompt's last row gives the same bits alone
 * and beside others; the many rows of prompt log probabilities take as many rows at a time as there
 * is room for. */
void vl_q35_cpu_output(vl_q35_cpu *m)
{
    const size_t h = (size_t)m->c->hidden, v = (size_t)m->c->vocab, thin = vl_cpu_thin_rows(m->cpu);
    const vl_cpu_matrix head = vl_q35_cpu_matrix(&m->w->head, m->logits, v);
    for (size_t at = 0; at < m->n_wants;) {
        const int32_t kind = m->wants[at].kind;
        const size_t most = kind == WANT_SAMPLE && thin < CPU_HEAD_ROWS ? thin : CPU_HEAD_ROWS;
        size_t n = 0;
        for (; n < most && at + n < m->n_wants && m->wants[at + n].kind == kind; n++) {
            const struct cpu_want *w = &m->wants[at + n];
            memcpy(m->head_x + n * h, w->row == SIZE_MAX ? w->seq->hidden : m->y + w->row * h,
                   h * sizeof(float));
        }
        vl_cpu_matmul(m->cpu, m->head_x, h, n, h, &head, 1);
        cpu_show(m, "logits", -1, m->logits, v, n, v);
        for (size_t i = 0; i < n; i++)
            one(m, &m->wants[at + i], m->logits + i * v);
        at += n;
    }
    m->n_wants = 0;
}
