/* SPDX-License-Identifier: Apache-2.0
 *
 * Side lanes: on a device that runs by itself, what is needed late runs beside the rest.
 *
 * The order of a plan on a device puts every item as early as it can be (runtime/order.c). Some are needed much later:
 * the sorted ids of a batch by the updates, an update by nobody. Alike items of a wave, which the device runs as one,
 * stand aside if what runs meanwhile takes long enough to pay for it; what they alone are needed for goes the same way,
 * in the same lane. Times are guesses, by the bytes that are moved. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/plan.h"

#define LAUNCH_US    2.5 /* of whatever is launched: small kernels take 1 to 4 us on an H200 */
#define HEAVY_US     5.0 /* more, of what computes more than its size suggests */
#define BYTES_PER_US 3e6
#define WORTH_US     2.0    /* what runs beside something that stands aside takes so long at least */
#define LARGE        0x1p27 /* multiplications of a product that is worth it; smaller ones gain nothing on an H200 */

typedef struct aside_builder {
    est_plan           *plan;
    const est_incoming *in;
    int32_t            *needed; /* per item: the first wave of the main line that waits for it; n_waves: none */
    double             *spent;  /* per wave: the time of the waves before, without what stands aside; and the end */
    uint32_t           *lanes;  /* per item: the side lanes in which it is made, or what it hands on */
} aside_builder;

static double microseconds(const est_item *item)
{
    size_t bytes = 0;

    for (int i = 0; i < item->call.n_in; i++) {
        const est_view *in = item->call.in[i];

        if (in->dtype != EST_RESOURCE && !est_op_shape_only(item->call.node->op, i)) {
            bytes += (size_t)in->count * est_dtype_size(in->dtype);
        }
    }
    for (int o = 0; o < item->call.n_out; o++) {
        bytes += (size_t)item->call.out[o].count * est_dtype_size(item->call.out[o].dtype);
    }
    if (item->call.node->op->writes != 0) bytes *= 4; /* rows are read and written */
    return (double)bytes / BYTES_PER_US;
}

static const est_item *item_at(const est_plan *plan, int32_t step)
{
    return &plan->items[plan->steps[step]];
}

/* The end of the alike steps from `first` on. */
static int32_t group_end(const est_plan *plan, int32_t first, int32_t end)
{
    int32_t s = first + 1;

    while (s < end && item_at(plan, s)->call.node->op == item_at(plan, first)->call.node->op) s++;
    return s;
}

static double group_microseconds(const est_plan *plan, int32_t first, int32_t end)
{
    double us = LAUNCH_US;

    if (item_at(plan, first)->call.node->op->heavy) us += HEAVY_US;
    for (int32_t s = first; s < end; s++) us += microseconds(item_at(plan, s));
    return us;
}

/* Whoever waits for item k waits for what it depends on. */
static void hand_on(aside_builder *b, int32_t k)
{
    const est_plan *plan = b->plan;
    const est_item *item = &plan->items[k];
    int32_t         id = item->call.node->id, wave = b->needed[k];

    if (plan->step_of[k] >= 0 && item->aside < 0) wave = plan->wave_of[k];
    for (int32_t e = b->in->first[id]; e < b->in->first[id + 1]; e++) {
        int32_t from = plan->item_of[b->in->from[e]];

        if (from >= 0 && b->needed[from] > wave) b->needed[from] = wave;
    }
}

/* Those that have only a shape, from `end` down to `begin`. */
static void hand_on_shapes(aside_builder *b, int32_t begin, int32_t end)
{
    for (int32_t k = end - 1; k >= begin; k--) {
        if (b->plan->step_of[k] < 0) hand_on(b, k);
    }
}

/* Of matrices m x k and k x n, stored either way: (m k)(k n)(m n) is the square of the multiplications. */
static bool is_large_product(const est_call *c)
{
    if (c->n_in < 2 || c->in[0]->shape.rank != 2 || c->in[1]->shape.rank != 2) return false;
    return (double)c->in[0]->count * (double)c->in[1]->count * (double)c->out[0].count >= LARGE * LARGE;
}

static bool may_stand_aside(const est_plan *plan, int32_t step)
{
    const est_item   *item   = item_at(plan, step);
    const est_kernel *kernel = item->kernel;

    if (kernel == NULL || item->late) return false;
    return !item->call.node->op->heavy || (kernel->light != NULL && kernel->light(&item->call)) ||
           is_large_product(&item->call);
}

/* Chooses among the alike steps of wave g. Returns how long what stays takes. */
static double choose(aside_builder *b, int32_t g)
{
    est_plan            *plan  = b->plan;
    const est_plan_wave *wave  = &plan->waves[g];
    double               stays = 0;

    for (int32_t first = wave->first, end; first < wave->end; first = end) {
        int32_t until = plan->n_waves;
        double  us, beside;

        end = group_end(plan, first, wave->end);
        us  = group_microseconds(plan, first, end);
        for (int32_t s = first; s < end; s++) {
            if (b->needed[plan->steps[s]] < until) until = b->needed[plan->steps[s]];
        }
        /* spent[] counts down from the end */
        beside = b->spent[g + 1] - b->spent[until];
        if (beside < WORTH_US || !may_stand_aside(plan, first)) {
            stays += us;
            continue;
        }
        for (int32_t s = first; s < end; s++) {
            plan->items[plan->steps[s]].aside = 0;
            b->needed[plan->steps[s]]         = until;
        }
    }
    return stays;
}

/* From the last wave to the first: when a wave is looked at, all that waits for it is known. */
static void choose_all(aside_builder *b)
{
    est_plan *plan = b->plan;
    int32_t   end  = plan->n_items;

    for (int32_t k = 0; k < plan->n_items; k++) b->needed[k] = plan->n_waves;
    b->spent[plan->n_waves] = 0;
    for (int32_t g = plan->n_waves - 1; g >= 0; g--) {
        int32_t begin = plan->steps[plan->waves[g].first];

        hand_on_shapes(b, begin, end);
        b->spent[g] = b->spent[g + 1] + choose(b, g);
        for (int32_t s = plan->waves[g].first; s < plan->waves[g].end; s++) hand_on(b, plan->steps[s]);
        hand_on_shapes(b, begin, end);
        end = begin;
    }
}

/* --- lanes -------------------------------------------------------------------------------------------------------- */

/* The side lanes in which something is made that item k waits for. */
static uint32_t waits_for(const aside_builder *b, int32_t k)
{
    const est_plan *plan  = b->plan;
    int32_t         id    = plan->items[k].call.node->id;
    uint32_t        lanes = 0;

    for (int32_t e = b->in->first[id]; e < b->in->first[id + 1]; e++) {
        int32_t from = plan->item_of[b->in->from[e]];

        if (from >= 0) lanes |= b->lanes[from];
    }
    return lanes;
}

/* The lane of alike steps: that of what they wait for, or else one in which nothing runs, or else the first. Whoever
 * meets a lane waits for all of it. */
static int lane_for(uint32_t waits, uint32_t open)
{
    if (waits != 0) return __builtin_ctz(waits);
    for (int l = 0; l < EST_SIDES; l++) {
        if ((open >> l & 1u) == 0) return l;
    }
    return 0;
}

/* Gives what stands aside its lane, and waves what they meet; `open`: lanes in which something has not been met. */
static void enter_wave(aside_builder *b, int32_t g, uint32_t *open)
{
    est_plan      *plan  = b->plan;
    est_plan_wave *wave  = &plan->waves[g];
    uint32_t       taken = 0; /* lanes of this wave */

    for (int32_t first = wave->first, end; first < wave->end; first = end) {
        uint32_t waits = 0;
        int      lane  = -1;

        end = group_end(plan, first, wave->end);
        for (int32_t s = first; s < end; s++) waits |= waits_for(b, plan->steps[s]) & *open;
        if (item_at(plan, first)->aside >= 0) {
            lane = lane_for(waits, *open | taken);
            waits &= ~(1u << lane);
            taken |= 1u << lane;
        }
        wave->meets |= waits;
        for (int32_t s = first; s < end && lane >= 0; s++) {
            plan->items[plan->steps[s]].aside = lane;
            b->lanes[plan->steps[s]]          = 1u << lane;
        }
    }
    *open &= ~wave->meets;
    for (int32_t s = wave->first; s < wave->end; s++) *open |= b->lanes[plan->steps[s]];
}

/* Items that have only a shape hand on the lanes of what they wait for. */
static void hand_on_lanes(aside_builder *b, int32_t begin, int32_t end)
{
    for (int32_t k = begin; k < end; k++) {
        if (b->plan->step_of[k] < 0) b->lanes[k] = waits_for(b, k);
    }
}

/* Those between the items of a wave may hand on to it, or from it. */
static void find_lanes(aside_builder *b)
{
    est_plan *plan  = b->plan;
    uint32_t  open  = 0;
    int32_t   begin = 0;

    for (int32_t g = 0; g < plan->n_waves; g++) {
        int32_t end = g + 1 < plan->n_waves ? plan->steps[plan->waves[g + 1].first] : plan->n_items;

        hand_on_lanes(b, begin, end);
        enter_wave(b, g, &open);
        hand_on_lanes(b, begin, end);
        begin = end;
    }
}

/* Where each item that stands aside is met. */
static void find_meetings(est_plan *plan)
{
    int32_t met[EST_SIDES];

    for (int l = 0; l < EST_SIDES; l++) met[l] = plan->n_items;
    for (int32_t g = plan->n_waves - 1; g >= 0; g--) {
        const est_plan_wave *wave = &plan->waves[g];

        for (int32_t s = wave->first; s < wave->end; s++) {
            est_item *item = &plan->items[plan->steps[s]];

            if (item->aside >= 0) item->met = met[item->aside];
        }
        for (int l = 0; l < EST_SIDES; l++) {
            if ((wave->meets >> l & 1u) != 0) met[l] = plan->steps[wave->first];
        }
    }
}

est_status est_plan_aside(est_plan *plan, const est_incoming *in)
{
    size_t        n = (size_t)plan->n_items + 2;
    aside_builder b = { .plan = plan, .in = in };

    if (plan->device->runs->aside == NULL) return EST_OK;
    b.needed = est_arena_alloc(plan->arena, sizeof *b.needed * n);
    b.spent  = est_arena_alloc(plan->arena, sizeof *b.spent * n);
    b.lanes  = est_arena_alloc(plan->arena, sizeof *b.lanes * n);
    if (b.needed == NULL || b.spent == NULL || b.lanes == NULL) return est_no_memory();
    for (int32_t k = 0; k < plan->n_items; k++) plan->items[k].aside = -1; /* sizes were others the last time */
    choose_all(&b);
    find_lanes(&b);
    find_meetings(plan);
    return EST_OK;
}
