/* slot.cuh: the records that host and device share. Plain C: the host's code includes it too.
 *
 * A slot is the device's side of one sequence. Only kernels change pos, pending, n_out and stop
 * once the sequence runs; so a replayed graph needs nothing from the host. */
#ifndef VL_QWEN35_SLOT_CUH
#define VL_QWEN35_SLOT_CUH

enum {
    VL_SLOT_STOPS = 32,  /* most stop ids of a sequence */
    VL_SLOT_BIAS = 1024, /* most logit biases of a sequence */
    VL_TOP_LOGPROBS = 20,
    VL_STEP_PAGES = 2048, /* most page-table entries that one step sets */
    VL_PARTS = 64         /* parts in which a row of logits is scanned */
};

typedef struct vl_slot {
    int pos;     /* tokens the state has read */
    int pending; /* id to read next */
    int n_out;   /* ids given out */
    int stop;    /* VL_STOP_...: 0 runs, else frozen */
    int max_out;
    int min_out; /* stop ids are barred before */
    int context; /* most tokens the sequence may hold */
    int n_stop;
    int stop_ids[VL_SLOT_STOPS];
    float temperature; /* 0: greedy */
    float top_p;
    float min_p;
    int top_k; /* 0: all */
    float repetition_penalty;
    float frequency_penalty;
    float presence_penalty;
    int counts; /* penalties are on: this slot's counts are kept */
    unsigned seed[2];
    int choice;
    int n_logprobs; /* -1: none */
    int n_bias;
    int reserved;
} vl_slot;

/* What one row of a step gave; the device writes it to pinned memory. */
typedef struct vl_row_out {
    int id; /* -1: none */
    int pos;
    int stop;
    int fault; /* 1: logits were not finite */
    float logprob;
    int n_top;
    int top_id[VL_TOP_LOGPROBS];
    float top_logprob[VL_TOP_LOGPROBS];
    int reserved[2];
} vl_row_out;

/* Orders for one step, in pinned memory, read by the device. */
typedef struct vl_page_entry {
    int slot, index, page;
} vl_page_entry;

#endif
