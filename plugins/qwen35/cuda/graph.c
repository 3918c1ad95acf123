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
