/* plugins/qwen35/cuda/graph.c: the decode step, captured once a batch size. A replay needs no data
 * of the host but its record of orders. Knows batches, not what a layer is. */
#include "plugins/qwen35/cuda/model.h"

int32_t vl_q35_graph_rows(const vl_q35_cuda *m, int32_t graph)
{
    int32_t rows = (int32_t)1 << graph;
    return rows < m->s.n_rows ? rows : (int32_t)m->s.n_rows;
}

static vl_status capture(vl_q35_cuda *m, int32_t i, vl_error *err)
{
    cudaGraph_t graph = NULL;
    vl_status rc = vl_cuda_check(
        cudaStreamBeginCapture(m->c.stream, cudaStreamCaptureModeThreadLocal), "capturing", err);
    if (rc != VL_OK)
        return rc;
    vl_q35_run r = {m, VL_OK, err};
    vl_q35_forward_begin(&r, 1);
    vl_q35_forward_decode(&r, vl_q35_graph_rows(m, i));
    cudaError_t e = cudaStreamEndCapture(m->c.stream, &graph);
    rc = r.rc != VL_OK ? r.rc : vl_cuda_check(e, "capturing the decode step", err);
    if (rc == VL_OK)
        rc = vl_cuda_check(cudaGraphInstantiate(&m->graphs[i], graph, 0), "making the decode graph",
                           err);
    if (rc == VL_OK)
        rc = vl_cuda_check(cudaGraphUpload(m->graphs[i], m->c.stream), "loading the decode graph",
                           err);
    if (graph != NULL)
        (void)cudaGraphDestroy(graph);
    return rc;
}

vl_status vl_q35_graphs_make(vl_q35_cuda *m, vl_error *err)
{
    m->n_graphs = 0;
    for (int32_t i = 0; i < VL_Q35_GRAPHS; i++) {
        vl_status rc = capture(m, i, err);
        if (rc != VL_OK)
            return rc;
        m->n_graphs++;
        if (vl_q35_graph_rows(m, i) == m->s.n_rows)
            break;
    }
    return VL_OK;
}

/* Milliseconds of one replay without an active row: the products take as long as with them. */
static vl_status time_graph(vl_q35_cuda *m, int32_t i, cudaEvent_t from, cudaEvent_t to, float *ms,
                            vl_error *err)
{
    enum { TIMES = 3, REPLAYS = 8 };
    vl_status rc = VL_OK;
    *ms = 1e9f;
    for (int t = 0; t < TIMES && rc == VL_OK; t++) {
        float now = 0;
        cudaError_t e = cudaGraphLaunch(m->graphs[i], m->c.stream);
        if (e == cudaSuccess)
            e = cudaEventRecord(from, m->c.stream);
        for (int k = 0; k < REPLAYS && e == cudaSuccess; k++)
            e = cudaGraphLaunch(m->graphs[i], m->c.stream);
        if (e == cudaSuccess)
            e = cudaEventRecord(to, m->c.stream);
        if (e == cudaSuccess)
            e = cudaEventSynchronize(to);
        if (e == cudaSuccess)
            e = cudaEventElapsedTime(&now, from, to);
        rc = vl_cuda_check(e, "timing the decode step", err);
        *ms = now / REPLAYS < *ms ? now / REPLAYS : *ms;
    }
    return rc;
}

vl_status vl_q35_graphs_choose(vl_q35_cuda *m, vl_error *err)
{
    int32_t i = 0;
    while (i < m->n_graphs && vl_q35_graph_rows(m, i) <= 8)
        i++;
    if (i == m->n_graphs)
        return VL_OK;
    cudaEvent_t from = NULL, to = NULL;
    cudaGraphExec_t own = m->graphs[i];
    float own_ms = 0, lt_ms = 0;
    vl_status rc = vl_cuda_check(cudaEventCreate(&from), "making an event", err);
    if (rc == VL_OK)
        rc = vl_cuda_check(cudaEventCreate(&to), "making an event", err);
    if (rc == VL_OK)
        rc = time_graph(m, i, from, to, &own_ms, err);
    if (rc == VL_OK) {
        m->graphs[i] = NULL;
        m->thin_rows = 8;
        rc = capture(m, i, err);
    }
    if (rc == VL_OK)
        rc = time_graph(m, i, from, to, &lt_ms, err);
    /* Only a clear win: the choice should not change from start to start. */
    if (rc != VL_OK || lt_ms > 0.97f * own_ms) {
        m->thin_rows = VL_Q35_THIN_ROWS;
        if (m->graphs[i] != own && m->graphs[i] != NULL)
            (void)cudaGraphExecDestroy(m->graphs[i]);
        m->graphs[i] = own;
    } else {
        (void)cudaGraphExecDestroy(own);
    }
    if (rc == VL_OK)
        vl_q35_log(m->host, VL_LOG_INFO, "cuda",
                   "products rows=%d own_ms=%.3f cublaslt_ms=%.3f own_up_to=%d",
                   (int)vl_q35_graph_rows(m, i), (double)own_ms, (double)lt_ms, (int)m->thin_rows);
    /* The replays were no steps. */
    if (rc == VL_OK)
        rc = vl_cuda_check(cudaMemsetAsync(m->w.counter, 0, sizeof(uint64_t), m->c.stream),
                           "timing the decode step", err);
    if (from != NULL)
        (void)cudaEventDestroy(from);
    if (to != NULL)
        (void)cudaEventDestroy(to);
    return rc;
}

void vl_q35_graphs_free(vl_q35_cuda *m)
{
    for (int32_t i = 0; i < VL_Q35_GRAPHS; i++)
        if (m->graphs[i] != NULL)
            (void)cudaGraphExecDestroy(m->graphs[i]);
}

void vl_q35_graph_run(vl_q35_run *r, uint64_t rows)
{
    int32_t i = 0;
    while (i + 1 < r->m->n_graphs && (uint64_t)vl_q35_graph_rows(r->m, i) < rows)
        i++;
    if (r->m->eager) {
        vl_q35_forward_begin(r, 1);
        vl_q35_forward_decode(r, vl_q35_graph_rows(r->m, i));
        return;
    }
    if (r->rc == VL_OK)
        r->rc = vl_cuda_check(cudaGraphLaunch(r->m->graphs[i], r->m->c.stream),
                              "starting a decode step", r->err);
}
