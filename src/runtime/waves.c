/* SPDX-License-Identifier: Apache-2.0
 *
 * Waves: small items that do not depend on each other share the threads.
 *
 * A model over many features has hundreds of lookups and updates of a few microseconds each: too short to be divided,
 * but independent. Walking the steps in order, small items gather into a window of lanes: an item that depends on the
 * last item of one lane extends it, one that depends on nothing in the window starts a new lane, and any other closes
 * the window. A window of two lanes or more that holds enough work becomes a wave whose lanes run in parallel (P5).
 * Which items go together depends on shapes alone, and each item computes what it always computes: results do not
 * depend on the number of threads. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/plan.h"

#define SMALL_BYTES (512 << 10) /* items that move more are divided by their own kernels */
#define WORTH_BYTES (64 << 10)  /* a window that moves less is not worth waking anybody for */
#define LANES_MAX   256

typedef struct wave_builder {
    est_plan    *plan;
    est_incoming in;
    int32_t     *lane;            /* per item: its lane in the open window, or -1 */
    int32_t      tail[LANES_MAX]; /* last item of each lane */
    int32_t      n_lanes;
    int32_t      begin;     /* step the window starts at */
    size_t       bytes;     /* moved by the window */
    int32_t     *asked;     /* per item without a step: the last step that asked what it waits for */
    int32_t     *stack;     /* items whose waits are still to be looked at */
    int32_t      question;  /* that step, plus one */
    int32_t     *sorted;    /* scratch for putting steps into lanes */
    int32_t     *lane_ends; /* where waves keep theirs; filled from the front */
} wave_builder;

static size_t view_bytes(const est_view *view)
{
    return view->dtype == EST_RESOURCE ? 0 : (size_t)view->count * est_dtype_size(view->dtype);
}

/* Bytes an item moves, about. An update of rows also reads and writes the rows. */
static size_t item_bytes(const est_item *item)
{
    size_t bytes = 0;

    for (int i = 0; i < item->call.n_in; i++) {
        if (!est_op_shape_only(item->call.node->op, i)) bytes += view_bytes(item->call.in[i]);
    }
    for (int o = 0; o < item->call.n_out; o++) bytes += view_bytes(&item->call.out[o]);
    return item->call.node->op->writes != 0 ? 4 * bytes : bytes;
}

static bool is_small(const est_item *item)
{
    return !item->call.node->op->heavy && !item->late && item_bytes(item) <= SMALL_BYTES;
}

/* --- what an item waits for inside the window --------------------------------------------------------------------- */

enum { NOTHING = -1, CLASHES = -2 };

/* The lane whose last item `item` waits for; NOTHING; or CLASHES when it waits for more than that. Items that only have
 * a shape stand for what they wait for themselves. */
static int32_t waits_for(const wave_builder *w, int32_t item)
{
    int32_t found = NOTHING, depth = 0;

    w->stack[depth++] = item;
    while (depth > 0) {
        const est_node_def *def = w->plan->items[w->stack[--depth]].call.node;
        for (int32_t e = w->in.first[def->id]; e < w->in.first[def->id + 1]; e++) {
            int32_t from = w->plan->item_of[w->in.from[e]];
            int32_t lane;
            if (from < 0 || w->plan->items[from].call.node->op->source != EST_SOURCE_NONE) continue;
            if (w->plan->step_of[from] < 0) {
                if (w->asked[from] != w->question)
                    w->stack[depth++] = from; /* groups of groups are reached many times */
                w->asked[from] = w->question;
                continue;
            }
            lane = w->lane[from];
            if (lane == NOTHING) continue;
            if (w->tail[lane] != from || (found != NOTHING && found != lane)) return CLASHES;
            found = lane;
        }
    }
    return found;
}

/* --- windows ------------------------------------------------------------------------------------------------------ */

static void add_wave(wave_builder *w, int32_t first, int32_t end, int32_t n_lanes, int32_t *lane_end)
{
    if (first < end) w->plan->waves[w->plan->n_waves++] = (est_plan_wave){ first, end, n_lanes, lane_end };
}

/* Puts the steps of the window lane by lane. */
static void sort_lanes(wave_builder *w, int32_t end)
{
    est_plan *plan                = w->plan;
    int32_t   next[LANES_MAX + 1] = { 0 };

    for (int32_t s = w->begin; s < end; s++) next[w->lane[plan->steps[s]] + 1]++;
    for (int32_t l = 0; l < w->n_lanes; l++) {
        next[l + 1] += next[l];
        w->lane_ends[l] = w->begin + next[l + 1];
    }
    for (int32_t s = w->begin; s < end; s++) w->sorted[next[w->lane[plan->steps[s]]]++] = plan->steps[s];
    memcpy(plan->steps + w->begin, w->sorted, sizeof *w->sorted * (size_t)(end - w->begin));
}

static void close_window(wave_builder *w, int32_t end)
{
    if (w->n_lanes >= 2 && w->bytes >= WORTH_BYTES) {
        sort_lanes(w, end);
        add_wave(w, w->begin, end, w->n_lanes, w->lane_ends);
        w->lane_ends += w->n_lanes;
    } else {
        add_wave(w, w->begin, end, 1, NULL);
    }
    for (int32_t s = w->begin; s < end; s++) w->lane[w->plan->steps[s]] = -1;
    w->begin   = end;
    w->n_lanes = 0;
    w->bytes   = 0;
}

static void add_to_window(wave_builder *w, int32_t step)
{
    int32_t item = w->plan->steps[step];
    int32_t lane;

    w->question = step + 1;
    lane        = waits_for(w, item);

    if (lane == CLASHES || (lane == NOTHING && w->n_lanes == LANES_MAX)) {
        close_window(w, step);
        lane = NOTHING;
    }
    if (lane == NOTHING) lane = w->n_lanes++;
    w->lane[item] = lane;
    w->tail[lane] = item;
    w->bytes += item_bytes(&w->plan->items[item]);
}

/* --- on a device that runs by itself ------------------------------------------------------------------------------ */

/* A window of items that do not depend on each other, each a lane of its own: none has memory of another, so that the
 * device may run them side by side, and alike ones as one (runtime/record.c). */
static void close_device_window(wave_builder *w, int32_t end)
{
    for (int32_t s = w->begin; s < end; s++) {
        w->lane_ends[s - w->begin] = s + 1;
        w->lane[w->plan->steps[s]] = -1;
    }
    add_wave(w, w->begin, end, end - w->begin, w->lane_ends);
    w->lane_ends += end - w->begin;
    w->begin   = end;
    w->n_lanes = 0;
}

/* Whether a step does the same kind of work as the one before it: what makes sums of rows, or updates, is together. */
static bool is_alike(const est_plan *plan, int32_t step)
{
    const est_op *a = plan->items[plan->steps[step - 1]].call.node->op;
    const est_op *b = plan->items[plan->steps[step]].call.node->op;

    return a->shrinks == b->shrinks && (a->writes != 0) == (b->writes != 0);
}

static void walk_device(wave_builder *w)
{
    for (int32_t s = 0; s < w->plan->n_steps; s++) {
        int32_t item = w->plan->steps[s];

        w->question = s + 1;
        if (waits_for(w, item) != NOTHING || w->n_lanes == LANES_MAX || (s > 0 && !is_alike(w->plan, s))) {
            close_device_window(w, s);
        }
        w->lane[item]         = w->n_lanes;
        w->tail[w->n_lanes++] = item;
    }
    close_device_window(w, w->plan->n_steps);
}

static void walk(wave_builder *w)
{
    est_plan *plan = w->plan;

    if (plan->device->runs != NULL) {
        walk_device(w);
        return;
    }
    for (int32_t s = 0; s < plan->n_steps; s++) {
        if (is_small(&plan->items[plan->steps[s]])) {
            add_to_window(w, s);
        } else {
            close_window(w, s);
            add_wave(w, s, s + 1, 1, NULL);
            w->begin = s + 1;
        }
    }
    close_window(w, plan->n_steps);
}

/* --- set-up ------------------------------------------------------------------------------------------------------- */

static void find_waves_of_items(est_plan *plan)
{
    for (int32_t k = 0; k < plan->n_items; k++) plan->wave_of[k] = -1;
    for (int32_t g = 0; g < plan->n_waves; g++) {
        for (int32_t s = plan->waves[g].first; s < plan->waves[g].end; s++) plan->wave_of[plan->steps[s]] = g;
    }
    for (int32_t s = 0; s < plan->n_steps; s++) plan->step_of[plan->steps[s]] = s;
}

est_status est_plan_waves(est_plan *plan)
{
    wave_builder w = { .plan = plan };
    size_t       n = (size_t)plan->n_items + 1;

    plan->n_waves     = 0;
    plan->waves       = est_arena_alloc(plan->arena, sizeof *plan->waves * n * 2);
    plan->wave_of     = est_arena_alloc(plan->arena, sizeof *plan->wave_of * n);
    plan->step_of     = est_arena_alloc(plan->arena, sizeof *plan->step_of * n);
    plan->lane_errors = est_arena_alloc(plan->arena, sizeof *plan->lane_errors * LANES_MAX);
    w.lane            = est_arena_alloc(plan->arena, sizeof *w.lane * n);
    w.sorted          = est_arena_alloc(plan->arena, sizeof *w.sorted * n);
    w.asked           = est_arena_alloc(plan->arena, sizeof *w.asked * n);
    w.stack           = est_arena_alloc(plan->arena, sizeof *w.stack * n);
    w.lane_ends       = est_arena_alloc(plan->arena, sizeof *w.lane_ends * n);
    if (plan->waves == NULL || plan->wave_of == NULL || plan->step_of == NULL || plan->lane_errors == NULL ||
        w.lane == NULL || w.sorted == NULL || w.asked == NULL || w.stack == NULL || w.lane_ends == NULL) {
        return est_no_memory();
    }
    for (int32_t k = 0; k < plan->n_items; k++) w.lane[k] = plan->step_of[k] = -1;
    for (int32_t s = 0; s < plan->n_steps; s++) plan->step_of[plan->steps[s]] = s;
    EST_TRY(est_order_incoming(&plan->order, plan->arena, &w.in));
    walk(&w);
    find_waves_of_items(plan);
    return plan->device->runs != NULL ? est_plan_aside(plan, &w.in) : EST_OK;
}
