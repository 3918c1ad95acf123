/* step_begin: takes the next step's orders from pinned memory: page-table entries, and the rows
 * that decode.
 *
 * - orders: VL_RING_SLOTS records of order_bytes; each: i32 n_pages, n_rows, 2 unused, then
 *   vl_page_entry [VL_STEP_PAGES], then i32 [VL_ROWS] each: slots, places in the results, whether
 *   there is a mask
 * - counter u64: steps begun so far, tells the record; raised when `advance`
 * - tables i32 [slots, VL_MAX_PAGES]; slots: the records of slot.cuh
 * - rows i32 [6][VL_ROWS]: slot or -1 when there is nothing to do (frozen, unused), slot or -1
 *   (unused), position, id to read or -1, place in the results, mask (kernels of many blocks must
 *   not look into pinned memory themselves: each look is a trip over the bus)
 * - current u32: record of this step, for the kernels after it
 * - grid (1), block 256 */
#include "vl.cuh"
#include "slot.cuh"

extern "C" __global__ void __launch_bounds__(256)
    step_begin(const u8 *orders, u64 order_bytes, u64 *counter, int *tables, const vl_slot *slots,
               int *rows, u32 *current, int advance)
{
    vl_wait();
    vl_enter();
    const u64 ticket = *(volatile u64 *)counter;
    const u32 record = (u32)(ticket % VL_RING_SLOTS);
    const volatile int *head = (const volatile int *)(orders + record * order_bytes);
    const volatile vl_page_entry *pages = (const volatile vl_page_entry *)(head + 4);
    const volatile int *slot_of = (const volatile int *)(pages + VL_STEP_PAGES),
                       *place_of = slot_of + VL_ROWS, *mask_of = place_of + VL_ROWS;
    const int tid = threadIdx.x, first = min(tid, VL_ROWS - 1);
    /* A look into the host's memory takes microseconds: all that is usually needed in one go,
     * before anything is decided. */
    const int n_pages = head[0], n_rows = head[1];
    int slot = slot_of[first], place = place_of[first], mask = mask_of[first];
    vl_page_entry e = {pages[tid].slot, pages[tid].index, pages[tid].page};
    for (int i = tid; i < n_pages; i += 256) {
        if (i != tid)
            e = {pages[i].slot, pages[i].index, pages[i].page};
        tables[(u64)e.slot * VL_MAX_PAGES + e.index] = e.page;
    }
    for (int i = tid; i < VL_ROWS; i += 256) {
        if (i != tid)
            slot = slot_of[i], place = place_of[i], mask = mask_of[i];
        const int real = i < n_rows ? slot : -1;
        const vl_slot *s = slots + max(real, 0);
        const bool runs = real >= 0 && s->stop == 0;
        rows[i] = runs ? real : -1;
        rows[VL_ROWS + i] = real;
        rows[2 * VL_ROWS + i] = real >= 0 ? s->pos : 0;
        rows[3 * VL_ROWS + i] = runs ? s->pending : -1;
        rows[4 * VL_ROWS + i] = i < n_rows ? place : -1;
        rows[5 * VL_ROWS + i] = i < n_rows ? mask : 0;
    }
    __syncthreads();
    if (tid == 0) {
        *current = record;
        if (advance)
            *counter = ticket + 1;
    }
}
