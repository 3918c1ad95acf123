/* step_begin: takes the next step's orders from pinned memory: page-table entries, and the rows that decode.
 * orders: VL_RING_SLOTS records of order_bytes; each: i32 n_pages, n_rows, 2 unused, then vl_page_entry [VL_STEP_PAGES], then slots
 *   i32 [VL_ROWS], then places in the results i32 [VL_ROWS]
 * counter u64: steps begun so far, tells the record; raised when `advance`
 * tables i32 [slots, VL_MAX_PAGES]; slots: the records of slot.cuh
 * rows i32 [5][VL_ROWS]: slot or -1 when there is nothing to do (frozen, unused), slot or -1 (unused), position, id to read
 *   or -1, place in the results
 * current u32: record of this step, for the kernels after it
 * grid (1), block 256 */
#include "vl.cuh"
#include "slot.cuh"

extern "C" __global__ void __launch_bounds__(256) step_begin(const u8 *orders, u64 order_bytes, u64 *counter, int *tables,
                                                             const vl_slot *slots, int *rows, u32 *current, int advance)
{
    vl_wait();
    const u64 ticket = *(volatile u64 *)counter;
    const u32 record = (u32)(ticket % VL_RING_SLOTS);
    const volatile int *head = (const volatile int *)(orders + record * order_bytes);
    const vl_page_entry *pages = (const vl_page_entry *)(head + 4);
    const volatile int *slot_of = (const volatile int *)(pages + VL_STEP_PAGES), *place = slot_of + VL_ROWS;
    const int n_pages = head[0], n_rows = head[1];
    for (int i = threadIdx.x; i < n_pages; i += 256) {
        const volatile vl_page_entry *e = (const volatile vl_page_entry *)pages + i;
        tables[(u64)e->slot * VL_MAX_PAGES + e->index] = e->page;
    }
    for (int i = threadIdx.x; i < VL_ROWS; i += 256) {
        const int slot = i < n_rows ? slot_of[i] : -1;
        const vl_slot *s = slots + max(slot, 0);
        const bool runs = slot >= 0 && s->stop == 0;
        rows[i] = runs ? slot : -1;
        rows[VL_ROWS + i] = slot;
        rows[2 * VL_ROWS + i] = slot >= 0 ? s->pos : 0;
        rows[3 * VL_ROWS + i] = runs ? s->pending : -1;
        rows[4 * VL_ROWS + i] = i < n_rows ? place[i] : -1;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        *current = record;
        if (advance)
            *counter = ticket + 1;
    }
}
