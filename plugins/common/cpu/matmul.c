/* matmul.c: how a product of several matrices is cut into pieces for the threads, and x packed for
 * them. The arithmetic is in the forms; this file is the same for all. */
#include <assert.h>
#include <string.h>

#include "plugins/common/cpu/kernels.h"

/* Weights that a thread takes at a time in the thin form: long streams, and no long wait for the
 * last. */
#define THIN_PIECE_MIN ((size_t)64 << 10)
#define THIN_PIECE_MAX ((size_t)256 << 10)
#define THIN_PIECES 16 /* that a thread has at least, if they are not too small */
#define K_PASS                                                                                     \
    256 /* reduction in one pass of the blocked form: so much of all of x stays in the second      \
           cache */

static size_t elem_size(int32_t dtype)
{
    return dtype == VL_DTYPE_F32 ? 4 : 2;
}

/* Pieces of all matrices in one numbering: matrix i has pieces first[i] .. first[i + 1). */
typedef struct job {
    vl_cpu *cpu;
    const vl_cpu_matrix *matrices;
    size_t n_matrices;
    const float *x;
    size_t x_ld;
    size_t n_rows;
    size_t in;
    size_t first[VL_CPU_MAX_MATRICES + 1];
    size_t piece_rows[VL_CPU_MAX_MATRICES]; /* rows of weights in a piece */
} job;

static size_t number_pieces(job *j)
{
    j->first[0] = 0;
    for (size_t i = 0; i < j->n_matrices; i++)
        j->first[i + 1] =
            j->first[i] + (j->matrices[i].rows + j->piece_rows[i] - 1) / j->piece_rows[i];
    return j->first[j->n_matrices];
}

static const vl_cpu_matrix *find_piece(const job *j, size_t piece, size_t *begin, size_t *end)
{
    size_t i = 0;

    while (piece >= j->first[i + 1])
        i++;
    const vl_cpu_matrix *m = &j->matrices[i];
    *begin = (piece - j->first[i]) * j->piece_rows[i];
    *end = m->rows - *begin < j->piece_rows[i] ? m->rows : *begin + j->piece_rows[i];
    return m;
}

static bool takes_bf16(const vl_cpu *cpu, const vl_cpu_matrix *m)
{
    return m->dtype == VL_DTYPE_BF16 && cpu->k->thin_bf16;
}

static bool takes_amx(const vl_cpu *cpu, const vl_cpu_matrix *m)
{
    return cpu->form == VL_CPU_AMX_BF16 && takes_bf16(cpu, m);
}

/* ---- thin ---- */

static void thin_body(void *arg, size_t begin, size_t end, int thread)
{
    const job *j = arg;
    const vl_cpu *cpu = j->cpu;

    (void)thread;
    for (size_t piece = begin; piece < end; piece++) {
        size_t o, o_end;
        const vl_cpu_matrix *m = find_piece(j, piece, &o, &o_end);
        vl_cpu_thin t = {.w = m->w,
                         .w_ld = m->w_ld,
                         .in = j->in,
                         .x = j->x,
                         .x_ld = j->x_ld,
                         .n_rows = j->n_rows,
                         .y = m->y,
                         .y_ld = m->y_ld,
                         .dtype = m->dtype};
        if (takes_bf16(cpu, m)) {
            t.x = cpu->thin_bf16;
            t.x_ld = (cpu->max_in + 63) / 64 * 64;
            cpu->k->thin_bf16(&t, o, o_end);
        } else {
            cpu->k->thin_f32(&t, o, o_end);
        }
    }
}

static void thin(job *j)
{
    vl_cpu *cpu = j->cpu;
    size_t ld = (cpu->max_in + 63) / 64 * 64, bytes = 0;
    bool bf16 = false;

    for (size_t i = 0; i < j->n_matrices; i++) {
        bytes += j->matrices[i].rows * j->in * elem_size(j->matrices[i].dtype);
        bf16 |= takes_bf16(cpu, &j->matrices[i]);
    }
    bytes /= (size_t)cpu->n_threads * THIN_PIECES;
    bytes = bytes < THIN_PIECE_MIN   ? THIN_PIECE_MIN
            : bytes > THIN_PIECE_MAX ? THIN_PIECE_MAX
                                     : bytes;
    for (size_t i = 0; i < j->n_matrices; i++) {
        size_t rows = j->in ? bytes / (j->in * elem_size(j->matrices[i].dtype)) / 4 * 4 : 4;
        j->piece_rows[i] = rows < 4 ? 4 : rows;
    }
    for (size_t r = 0; bf16 && r < j->n_rows; r++)
        cpu->k->to_bf16(j->x + r * j->x_ld, cpu->thin_bf16 + r * ld, j->in);
    vl_cpu_for(cpu, number_pieces(j), 1, thin_body, j);
}

/* ---- blocked: packing x ---- */

static size_t panel_f32_size(const job *j)
{
    return j->in * VL_CPU_PANEL;
}

/* bf16 pairs, the reduction rounded up to a whole tile. */
static size_t panel_bf16_size(const job *j)
{
    return (j->in + 31) / 32 * 16 * VL_CPU_PANEL;
}

#define PACK_K 256 /* values of the reduction that one packing piece takes */

/* A piece is one panel and PACK_K of the reduction. */
static void pack_f32_body(void *arg, size_t begin, size_t end, int thread)
{
    const job *j = arg;
    size_t k_pieces = (j->in + PACK_K - 1) / PACK_K;

    (void)thread;
    for (size_t piece = begin; piece < end; piece++) {
        size_t panel = piece / k_pieces, k = piece % k_pieces * PACK_K;
        size_t n_k = j->in - k < PACK_K ? j->in - k : PACK_K;
        size_t r = panel * VL_CPU_PANEL;
        size_t n = j->n_rows - r < VL_CPU_PANEL ? j->n_rows - r : VL_CPU_PANEL;
        float *dst = j->cpu->panel_f32 + panel * panel_f32_size(j) + k * VL_CPU_PANEL;
        j->cpu->k->transpose((const uint32_t *)(const void *)(j->x + r * j->x_ld + k), j->x_ld,
                             (uint32_t *)(void *)dst, VL_CPU_PANEL, n, n_k);
        for (size_t i = 0; n < VL_CPU_PANEL && i < n_k; i++)
            memset(dst + i * VL_CPU_PANEL + n, 0, (VL_CPU_PANEL - n) * sizeof(float));
    }
}

static void pack_bf16_body(void *arg, size_t begin, size_t end, int thread)
{
    const job *j = arg;
    size_t in_padded = (j->in + 31) / 32 * 32;
    size_t k_pieces = (in_padded + PACK_K - 1) / PACK_K;
    uint16_t *tmp = vl_cpu_scratch(j->cpu, thread); /* [VL_CPU_PANEL, PACK_K] */

    for (size_t piece = begin; piece < end; piece++) {
        size_t panel = piece / k_pieces, k = piece % k_pieces * PACK_K;
        size_t n_k = j->in - k < PACK_K ? j->in - k : PACK_K;
        size_t n_k_padded = in_padded - k < PACK_K ? in_padded - k : PACK_K;
        size_t r = panel * VL_CPU_PANEL;
        size_t n = j->n_rows - r < VL_CPU_PANEL ? j->n_rows - r : VL_CPU_PANEL;
        for (size_t i = 0; i < VL_CPU_PANEL; i++) {
            uint16_t *row = tmp + i * PACK_K;
            size_t filled = i < n ? n_k : 0;
            if (i < n)
                j->cpu->k->to_bf16(j->x + (r + i) * j->x_ld + k, row, n_k);
            memset(row + filled, 0, (n_k_padded - filled) * sizeof(*row));
        }
        j->cpu->k->transpose((const uint32_t *)(const void *)tmp, PACK_K / 2,
                             j->cpu->panel_bf16 + panel * panel_bf16_size(j) + k / 2 * VL_CPU_PANEL,
                             VL_CPU_PANEL, VL_CPU_PANEL, n_k_padded / 2);
    }
}

#ifdef VL_CPU_X86
/* Bytes of one block of x in AMX tiles. */
static size_t amx_block_size(const job *j)
{
    return (j->in + 31) / 32 * 32 * VL_CPU_AMX_ROWS * sizeof(uint16_t);
}

static void pack_amx_body(void *arg, size_t begin, size_t end, int thread)
{
    const job *j = arg;
    size_t in_padded = (j->in + 31) / 32 * 32;
    size_t k_pieces = (in_padded + PACK_K - 1) / PACK_K;

    (void)thread;
    for (size_t piece = begin; piece < end; piece++) {
        size_t block = piece / k_pieces, k = piece % k_pieces * PACK_K, r = block * VL_CPU_AMX_ROWS;
        size_t n = j->n_rows - r < VL_CPU_AMX_ROWS ? j->n_rows - r : VL_CPU_AMX_ROWS;
        vl_cpu_amx_pack(j->x + r * j->x_ld, j->x_ld, n, j->in, k,
                        in_padded - k < PACK_K ? in_padded : k + PACK_K,
                        (char *)j->cpu->panel_bf16 + block * amx_block_size(j));
    }
}
#endif

/* ---- blocked: products ---- */

/* c[n_o, all rows] += one strip of weights times one pass of x. wide: [VL_CPU_STRIP, K_PASS] f32
 * scratch. */
static void strip_pass(const job *j, const vl_cpu_matrix *m, const char *w, size_t n_o, size_t k,
                       float *wide, float *c)
{
    const vl_cpu_kernels *kernels = j->cpu->k;
    size_t n_k = j->in - k < K_PASS ? j->in - k : K_PASS;
    const float *a = (const float *)(const void *)w;
    size_t a_ld = m->w_ld;
    bool bf16 = takes_bf16(j->cpu, m);

    if (!bf16 && m->dtype != VL_DTYPE_F32) {
        for (size_t i = 0; i < n_o; i++)
            kernels->to_f32(m->dtype, w + i * m->w_ld * 2, wide + i * K_PASS, n_k);
        a = wide;
        a_ld = K_PASS;
    }
    for (size_t r = 0; r < j->n_rows; r += VL_CPU_PANEL, c += VL_CPU_PANEL) {
        size_t n = j->n_rows - r < VL_CPU_PANEL ? (j->n_rows - r + 15) / 16 * 16 : VL_CPU_PANEL;
        size_t panel = r / VL_CPU_PANEL;
        if (bf16)
            kernels->gemm_bf16(n_o, n, n_k, (const uint16_t *)(const void *)w, m->w_ld,
                               j->cpu->panel_bf16 + panel * panel_bf16_size(j) +
                                   k / 2 * VL_CPU_PANEL,
                               VL_CPU_PANEL, c, VL_CPU_PASS_ROWS, k > 0);
        else
            kernels->gemm(n_o, n, n_k, a, a_ld, 1,
                          j->cpu->panel_f32 + panel * panel_f32_size(j) + k * VL_CPU_PANEL,
                          VL_CPU_PANEL, c, VL_CPU_PASS_ROWS, k > 0);
    }
}

_Static_assert((VL_CPU_PIECE * VL_CPU_PASS_ROWS + VL_CPU_STRIP * K_PASS) * sizeof(float) <=
                   VL_CPU_THREAD_SCRATCH,
               "c of a piece and a strip of weights fit the scratch");

/* Output features o .. o + n_o (at most VL_CPU_PIECE) of all rows, in passes over the reduction;
 * then turned into y. A strip of weights is in the first cache while it meets all of x. */
static void piece_product(const job *j, const vl_cpu_matrix *m, size_t o, size_t n_o, int thread)
{
    float *c = vl_cpu_scratch(j->cpu, thread); /* [VL_CPU_PIECE, VL_CPU_PASS_ROWS] */
    float *wide = c + VL_CPU_PIECE * VL_CPU_PASS_ROWS;
    const char *w = (const char *)m->w + o * m->w_ld * elem_size(m->dtype);

    for (size_t k = 0; k < j->in; k += K_PASS)
        for (size_t i = 0; i < n_o; i += VL_CPU_STRIP)
            strip_pass(j, m, w + (i * m->w_ld + k) * elem_size(m->dtype),
                       n_o - i < VL_CPU_STRIP ? n_o - i : VL_CPU_STRIP, k, wide,
                       c + i * VL_CPU_PASS_ROWS);
    j->cpu->k->transpose((const uint32_t *)(const void *)c, VL_CPU_PASS_ROWS,
                         (uint32_t *)(void *)(m->y + o), m->y_ld, n_o, j->n_rows);
}

static void blocked_body(void *arg, size_t begin, size_t end, int thread)
{
    const job *j = arg;

    for (size_t piece = begin; piece < end; piece++) {
        size_t o, o_end;
        const vl_cpu_matrix *m = find_piece(j, piece, &o, &o_end);
#ifdef VL_CPU_X86
        if (takes_amx(j->cpu, m)) {
            vl_cpu_amx_strip((const uint16_t *)m->w + o * m->w_ld, m->w_ld, o_end - o, j->in,
                             (const char *)j->cpu->panel_bf16, j->n_rows, m->y + o, m->y_ld,
                             vl_cpu_scratch(j->cpu, thread));
            continue;
        }
#endif
        piece_product(j, m, o, o_end - o, thread);
    }
}

/* Large pieces meet x more often in the cache; small ones spread over many threads. */
static void choose_pieces(job *j)
{
    for (size_t part = 1;; part *= 2) {
        for (size_t i = 0; i < j->n_matrices; i++)
            j->piece_rows[i] =
                (takes_amx(j->cpu, &j->matrices[i]) ? VL_CPU_AMX_PIECE : VL_CPU_PIECE) / part;
        if (part == VL_CPU_PIECE / VL_CPU_STRIP ||
            number_pieces(j) >= 4 * (size_t)j->cpu->n_threads)
            return;
    }
}

static void blocked(job *j)
{
    bool bf16 = false, f32 = false, amx = j->cpu->form == VL_CPU_AMX_BF16;
    size_t panels = (j->n_rows + VL_CPU_PANEL - 1) / VL_CPU_PANEL;
    size_t k_pieces = ((j->in + 31) / 32 * 32 + PACK_K - 1) / PACK_K;

    for (size_t i = 0; i < j->n_matrices; i++) {
        if (takes_bf16(j->cpu, &j->matrices[i]))
            bf16 = true;
        else
            f32 = true;
    }
    choose_pieces(j);
#ifdef VL_CPU_X86
    if (bf16 && amx)
        vl_cpu_for(j->cpu, (j->n_rows + VL_CPU_AMX_ROWS - 1) / VL_CPU_AMX_ROWS * k_pieces, 0,
                   pack_amx_body, j);
#endif
    if (bf16 && !amx)
        vl_cpu_for(j->cpu, panels * k_pieces, 1, pack_bf16_body, j);
    if (f32)
        vl_cpu_for(j->cpu, panels * ((j->in + PACK_K - 1) / PACK_K), 1, pack_f32_body, j);
    vl_cpu_for(j->cpu, number_pieces(j), 1, blocked_body, j);
}

size_t vl_cpu_thin_rows(const vl_cpu *cpu)
{
    (void)cpu;
    return VL_CPU_THIN_MAX;
}

void vl_cpu_matmul(vl_cpu *cpu, const float *x, size_t x_ld, size_t n_rows, size_t in,
                   const vl_cpu_matrix *matrices, size_t n_matrices)
{
    vl_cpu_matrix shifted[VL_CPU_MAX_MATRICES];
    size_t thin_rows = vl_cpu_thin_rows(cpu);

    assert(in <= cpu->max_in && n_matrices <= VL_CPU_MAX_MATRICES);
    if (n_rows == 0 || n_matrices == 0)
        return;
    memcpy(shifted, matrices, n_matrices * sizeof(*matrices));
    job j = {.cpu = cpu, .matrices = shifted, .n_matrices = n_matrices, .in = in, .x_ld = x_ld};
    bool is_thin = n_rows <= thin_rows;
    for (size_t r = 0; r < n_rows; r += j.n_rows) {
        j.n_rows = n_rows - r < cpu->max_rows || is_thin ? n_rows - r : cpu->max_rows;
        j.x = x + r * x_ld;
        for (size_t i = 0; i < n_matrices; i++)
            shifted[i].y = matrices[i].y + r * matrices[i].y_ld;
        if (is_thin)
            thin(&j);
        else
            blocked(&j);
    }
}
