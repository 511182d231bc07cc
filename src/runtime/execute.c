/* SPDX-License-Identifier: Apache-2.0
 *
 * A step: check the feeds, follow changed shapes, call the kernels in order. Nothing is allocated, hashed or compared
 * by name here unless shapes have grown. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "estoc/devices.h"
#include "kernels/copy_on_write.h"
#include "kernels/lazy_rows.h"
#include "runtime/plan.h"
#include "runtime/trace.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

/* --- shapes ------------------------------------------------------------------------------------------------------- */

static const est_value *read_value(est_view *view, est_value *into)
{
    if (view->data == NULL || view->count > EST_VALUE_MAX || view->count < 0) return NULL;
    if (view->dtype == EST_I32) {
        for (int64_t i = 0; i < view->count; i++) into->v[i] = ((const int32_t *)view->data)[i];
    } else if (view->dtype == EST_I64) {
        memcpy(into->v, view->data, sizeof(int64_t) * (size_t)view->count);
    } else {
        return NULL;
    }
    into->n = (int32_t)view->count;
    return into;
}

static bool value_known(const est_value *value)
{
    for (int32_t i = 0; i < value->n; i++) {
        if (value->v[i] == EST_VALUE_UNKNOWN) return false;
    }
    return value->n >= 0;
}

/* The ends of a segment pass their inputs on, which may be in the memory of a device, and look at none. */
static bool is_end(const est_item *item)
{
    return item->call.node->op == &est_op_start || item->call.node->op == &est_op_finish;
}

static void gather_inputs(est_plan *plan, est_item *item, bool running)
{
    for (int i = 0; i < item->call.n_in; i++) {
        const est_slot *slot  = &plan->slots[est_view_index(plan, item->call.in[i])];
        est_value      *value = &plan->items[slot->maker].out_value[slot->output];
        item->in_shape[i]     = item->call.in[i]->shape;
        item->in_value[i]     = value->n >= 0 ? value : NULL;
        if (running && !value_known(value) && !is_end(item))
            item->in_value[i] = read_value(item->call.in[i], &item->in_read[i]);
    }
}

static est_status take_shapes(est_item *item, bool running)
{
    char text[EST_SHAPE_TEXT_MAX];

    for (int o = 0; o < item->call.n_out; o++) {
        est_view *view = &item->call.out[o];
        view->shape    = item->out_shape[o];
        if (view->dtype == EST_RESOURCE) continue;
        if (!est_shape_is_known(&view->shape)) {
            if (running && (item->kernel == NULL || item->kernel->measure == NULL)) {
                return est_fail(EST_INTERNAL, "output %d has shape %s when the step runs", o,
                                est_shape_text(&view->shape, text));
            }
            item->late  = true;
            view->count = 0;
            continue;
        }
        EST_TRY(est_shape_size(&view->shape, view->dtype, &view->count, NULL));
    }
    return EST_OK;
}

est_status est_item_infer(est_plan *plan, est_item *item, bool running)
{
    est_infer c = { .node      = item->call.node,
                    .n_in      = item->call.n_in,
                    .n_out     = item->call.n_out,
                    .in        = item->in_shape,
                    .in_dtype  = item->in_dtype,
                    .in_value  = item->in_value,
                    .out       = item->out_shape,
                    .out_value = item->out_value };

    item->followed = false;
    if (item->call.node->op->source == EST_SOURCE_FEED) return EST_OK; /* set by the feed */
    gather_inputs(plan, item, running);
    for (int o = 0; o < item->call.n_out; o++) {
        item->out_shape[o]   = EST_SHAPE_UNKNOWN;
        item->out_value[o].n = -1;
    }
    EST_TRY(item->call.node->op->infer(&c));
    return take_shapes(item, running);
}

/* An item is dynamic when a shape it sees is; its outputs are too, and those of ops that decide their size. On a device
 * that runs by itself what is too large is padded (D3 of runtime/local_devices.h). */
static void mark_dynamic(est_plan *plan, est_item *item)
{
    const est_op *op = item->call.node->op;

    for (int i = 0; i < item->call.n_in; i++) {
        const est_view *in = item->call.in[i];
        if (plan->slots[est_view_index(plan, in)].dynamic) item->dynamic = true;
        if (in->dtype != EST_RESOURCE && !est_shape_is_known(&in->shape)) item->late = true; /* nor is its scratch */
    }
    item->dynamic = item->dynamic || item->late;
    for (int o = 0; o < item->call.n_out; o++) {
        plan->slots[item->first_view + o].dynamic = item->dynamic || (op->shrinks && plan->device->runs == NULL);
    }
}

est_status est_item_prepare(est_item *item)
{
    est_shape *seen    = item->prepared;
    int        n_in    = item->call.n_in;
    bool       changed = seen[0].rank == -2;

    for (int i = 0; i < n_in + item->call.n_out; i++) {
        const est_shape *now = i < n_in ? &item->call.in[i]->shape : &item->call.out[i - n_in].shape;
        if (changed || !est_shape_equal(&seen[i], now)) {
            seen[i] = *now;
            changed = true;
        }
    }
    if (changed && item->kernel->prepare != NULL) {
        est_status status = item->kernel->prepare(&item->call);
        if (status != EST_OK) seen[0].rank = -2; /* not prepared: to be tried again */
        return status;
    }
    return EST_OK;
}

static size_t scratch_bytes(const est_item *item)
{
    return item->kernel != NULL && item->kernel->scratch != NULL ? item->kernel->scratch(&item->call) : 0;
}

static size_t view_bytes(const est_view *view)
{
    return (size_t)view->count * est_dtype_size(view->dtype);
}

/* Whether memory laid out before still does: capacities, scratch, and every "written over its input". */
static bool still_fits(const est_plan *plan)
{
    for (int32_t v = 0; v < plan->n_views; v++) {
        const est_slot *slot = &plan->slots[v];
        if (view_bytes(&plan->views[v]) > slot->capacity) return false;
        if (slot->inplace >= 0 && plan->views[v].count != plan->views[slot->inplace].count) return false;
    }
    for (int32_t k = 0; k < plan->n_items; k++) {
        if (!plan->items[k].late && scratch_bytes(&plan->items[k]) > plan->items[k].scratch_bytes) return false;
    }
    return plan->laid_out;
}

/* What to make room for (P3). The first layout takes sizes as they are. Those that have changed by the next one will
 * change again: the ids of a feature are never as many twice, and without room to spare the largest count so far would
 * be beaten for hundreds of steps. */
static size_t with_room(const est_plan *plan, size_t bytes, size_t capacity)
{
    if (plan->n_layouts > 0 && bytes != capacity) bytes += bytes / 4;
    return bytes > capacity ? bytes : capacity;
}

static void make_room(est_plan *plan)
{
    for (int32_t v = 0; v < plan->n_views; v++) {
        est_slot *slot = &plan->slots[v];
        slot->capacity = with_room(plan, view_bytes(&plan->views[v]), slot->capacity);
    }
    for (int32_t k = 0; k < plan->n_items; k++) {
        est_item *item = &plan->items[k];
        if (!item->late) item->scratch_bytes = with_room(plan, scratch_bytes(item), item->scratch_bytes);
    }
}

static void list_steps(est_plan *plan)
{
    plan->n_steps = 0;
    for (int32_t k = 0; k < plan->n_items; k++) {
        const est_item *item = &plan->items[k];
        if (item->kernel != NULL || (item->dynamic && item->call.node->op->source == EST_SOURCE_NONE)) {
            plan->steps[plan->n_steps++] = k;
        }
    }
}

/* Whether infer may say something else than in the last resolve. Runs change the shapes of dynamic items, and of those
 * whose results shrink. */
static bool sees_change(const est_plan *plan, const est_item *item)
{
    if (!plan->inferred || item->dynamic || item->call.node->op->shrinks) return true;
    for (int i = 0; i < item->call.n_in; i++) {
        if (plan->items[plan->slots[est_view_index(plan, item->call.in[i])].maker].changed) return true;
    }
    return false;
}

static bool same_value(const est_value *a, const est_value *b)
{
    return a->n == b->n && (a->n <= 0 || memcmp(a->v, b->v, sizeof a->v[0] * (size_t)a->n) == 0);
}

static est_status infer_again(est_plan *plan, est_item *item)
{
    size_t n = (size_t)item->call.n_out;

    memcpy(plan->shape_before, item->out_shape, sizeof *item->out_shape * n);
    memcpy(plan->value_before, item->out_value, sizeof *item->out_value * n);
    EST_TRY(est_item_infer(plan, item, false));
    mark_dynamic(plan, item);
    item->changed = !plan->inferred;
    for (size_t o = 0; o < n && !item->changed; o++) {
        item->changed = !est_shape_equal(&plan->shape_before[o], &item->out_shape[o]) ||
                        !same_value(&plan->value_before[o], &item->out_value[o]);
    }
    return EST_OK;
}

/* Follows the shapes of the feeds as far as they have changed something: the ids of a feature are never as many twice,
 * while most of a step has the shapes of a batch. */
static est_status infer_all(est_plan *plan)
{
    for (int32_t k = 0; k < plan->n_items; k++) {
        est_item  *item   = &plan->items[k];
        est_status status = EST_OK;

        item->looked = sees_change(plan, item);
        if (item->call.node->op->source == EST_SOURCE_FEED) {
            mark_dynamic(plan, item);
        } else if (item->looked) {
            status = infer_again(plan, item);
        } else {
            item->changed = false;
        }
        if (status != EST_OK) return est_item_failed(item, status);
    }
    return EST_OK;
}

static est_status prepare_all(est_plan *plan)
{
    for (int32_t i = 0; i < plan->n_steps; i++) {
        est_item  *item = &plan->items[plan->steps[i]];
        est_status status;

        if (item->kernel == NULL || item->late || !item->looked) continue;
        status = est_item_prepare(item);
        if (status != EST_OK) return est_item_failed(item, status);
    }
    return EST_OK;
}

est_status est_plan_resolve(est_plan *plan)
{
    est_status status;

    plan->resolved = false;
    status         = infer_all(plan);
    plan->inferred = false; /* if it has failed, or what follows fails */
    EST_TRY(status);
    if (plan->n_layouts == 0) EST_TRY(est_plan_choose_kernels(plan));
    plan->laid_out = still_fits(plan);
    if (!plan->laid_out) { /* larger than anything before: what is small enough for a lane may have changed too */
        make_room(plan);
        list_steps(plan);
        EST_TRY(est_plan_waves(plan));
        EST_TRY(est_plan_layout(plan));
        est_trace_restart(plan->trace); /* its rows are steps */
    }
    EST_TRY(prepare_all(plan));
    for (int i = 0; i < plan->io.n_feeds; i++) plan->items[plan->item_of[plan->io.feeds[i].id]].changed = false;
    plan->inferred = true;
    plan->resolved = true;
    return EST_OK;
}

/* --- feeds -------------------------------------------------------------------------------------------------------- */

static est_status check_feed(const est_node_def *def, const est_tensor *feed)
{
    char want[EST_SHAPE_TEXT_MAX], got[EST_SHAPE_TEXT_MAX], node[EST_NODE_TEXT_MAX];

    if (feed == NULL) return est_fail(EST_INVALID_ARGUMENT, "%s: the feed is NULL", est_node_text(def, node));
    if (est_tensor_dtype(feed) == def->dtype[0] && est_shape_compatible(est_tensor_shape(feed), &def->shape[0])) {
        return EST_OK;
    }
    return est_fail(EST_INVALID_ARGUMENT, "%s wants %s %s, was fed %s %s", est_node_text(def, node),
                    est_dtype_name(def->dtype[0]), est_shape_text(&def->shape[0], want),
                    est_dtype_name(est_tensor_dtype(feed)), est_shape_text(est_tensor_shape(feed), got));
}

/* A fed tensor that is in the memory of a device: used there if only parts on devices look at it, else copied. */
static est_status take_far_feed(est_plan *plan, int i, const est_tensor *feed, est_view *view)
{
    if (est_tensor_device(feed) == NULL) return EST_OK; /* it has no elements */
    if (plan->fed_on != NULL && !plan->fed_here[i]) {
        plan->fed_on[i] = est_tensor_device(feed);
        view->data      = est_tensor_far_data(feed);
        return EST_OK;
    }
    if (plan->fed_copies == NULL) {
        plan->fed_copies = est_arena_alloc(plan->arena, sizeof(est_tensor *) * ((size_t)plan->io.n_feeds + 1));
        if (plan->fed_copies == NULL) return est_no_memory();
    }
    est_tensor_free(plan->fed_copies[i]);
    plan->fed_copies[i] = NULL;
    EST_TRY(est_tensor_to_host((est_tensor *)(uintptr_t)feed, &plan->fed_copies[i]));
    view->data = est_tensor_view_data(plan->fed_copies[i]);
    return EST_OK;
}

/* Points views of fed tensors at their memory; the plan is no longer resolved when a shape differs from the last
 * run's. */
static est_status take_feeds(est_plan *plan, const est_tensor *const *feeds)
{
    for (int i = 0; i < plan->io.n_feeds; i++) {
        const est_shape *shape = feeds[i] != NULL ? est_tensor_shape(feeds[i]) : NULL;
        est_item        *item  = &plan->items[plan->item_of[plan->io.feeds[i].id]];
        est_view        *view  = item->call.out;
        if (shape == NULL || view->data == NULL || view->dtype != est_tensor_dtype(feeds[i]) ||
            !est_shape_equal(shape, &plan->fed[i])) {
            EST_TRY(check_feed(item->call.node, feeds[i]));
            plan->fed[i]         = *shape;
            view->shape          = *shape;
            view->count          = est_tensor_count(feeds[i]);
            item->out_shape[0]   = *shape;
            item->out_value[0].n = -1;
            item->changed        = true;
            plan->resolved       = false;
        }
        view->data = est_tensor_view_data(feeds[i]);
        if (plan->fed_on != NULL) plan->fed_on[i] = NULL;
        if (view->data == NULL) EST_TRY(take_far_feed(plan, i, feeds[i], view));
    }
    return EST_OK;
}

void est_plan_follow_addresses(est_plan *plan)
{
    for (int32_t i = 0; i < plan->n_followers; i++) {
        int32_t v           = plan->followers[i];
        plan->views[v].data = plan->views[plan->slots[v].root].data;
    }
}

/* A variable that has a value keeps having one, and one whose rows were all drawn (P7) never has others that wait, so
 * the question is settled once it was answered yes. */
est_status est_plan_check_variables(est_plan *plan)
{
    for (int i = 0; i < plan->n_vars && !plan->vars_ready; i++) {
        if (!plan->vars[i]->initialized) {
            return est_fail(EST_FAILED_PRECONDITION,
                            "variable '%s' has no value yet: run est_session_init() or write it first",
                            plan->vars[i]->name);
        }
    }
    for (int i = 0; i < plan->n_whole && !plan->vars_ready; i++) est_lazy_draw_all(plan->whole[i], plan->pool);
    plan->vars_ready = true;
    return EST_OK;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static est_status grow_heap(est_plan *plan, est_item *item)
{
    for (int o = 0; o < item->call.n_out; o++) {
        est_buffer *buffer = &plan->buffers[plan->slots[item->first_view + o].buffer];
        size_t      bytes  = view_bytes(&item->call.out[o]);
        if (bytes <= buffer->bytes && buffer->data != NULL) continue;
        plan->device->free(plan->device, buffer->data);
        buffer->bytes = bytes + bytes / 2 + EST_ALIGNMENT;
        buffer->data  = plan->device->alloc(plan->device, buffer->bytes);
        if (buffer->data == NULL) {
            buffer->bytes = 0;
            return est_no_memory();
        }
        for (int32_t v = buffer->views; v >= 0; v = plan->slots[v].next) plan->views[v].data = buffer->data;
    }
    return EST_OK;
}

static est_status grow_scratch(est_plan *plan, est_item *item)
{
    size_t bytes = scratch_bytes(item);

    if (bytes <= item->scratch_bytes) return EST_OK;
    plan->device->free(plan->device, item->call.scratch);
    item->scratch_bytes = bytes + bytes / 2;
    item->call.scratch  = plan->device->alloc(plan->device, item->scratch_bytes);
    if (item->call.scratch != NULL) return EST_OK;
    item->scratch_bytes = 0;
    return est_no_memory();
}

/* Whether infer would see an input as it did in the last run. Only integers are values that a run finds (read_value);
 * what is known without running stays until the shapes of feeds change, unless a dynamic item says it. */
static bool looks_the_same(const est_plan *plan, const est_item *item, int i)
{
    est_view        *in = item->call.in[i];
    const est_slot  *slot;
    const est_item  *maker;
    const est_value *before = item->in_value[i], *now;
    est_value        read;

    if (!est_shape_equal(&item->in_shape[i], &in->shape)) return false;
    if ((in->dtype != EST_I32 && in->dtype != EST_I64) || is_end(item)) return true;
    slot  = &plan->slots[est_view_index(plan, in)];
    maker = &plan->items[slot->maker];
    if (value_known(&maker->out_value[slot->output])) return !maker->dynamic;
    now = read_value(in, &read);
    if (now == NULL || before == NULL) return now == before;
    return now->n == before->n && memcmp(now->v, before->v, (size_t)now->n * sizeof now->v[0]) == 0;
}

/* Shapes of ragged rows are mostly those of the run before: inferring them again was a quarter of a call of a predictor
 * with one row. */
static bool is_followed(const est_plan *plan, const est_item *item)
{
    for (int i = 0; i < item->call.n_in && item->followed; i++) {
        if (!looks_the_same(plan, item, i)) return false;
    }
    return item->followed;
}

static est_status follow_shapes(est_plan *plan, est_item *item)
{
    if (!is_followed(plan, item)) {
        EST_TRY(est_item_infer(plan, item, true));
    } else if (item->late || item->call.node->op->shrinks) {
        EST_TRY(take_shapes(item, true)); /* the kernel has changed them */
    } else {
        return EST_OK;
    }
    if (item->late && item->kernel != NULL) {
        if (item->kernel->measure != NULL) EST_TRY(item->kernel->measure(&item->call));
        if (!item->call.node->op->lends) EST_TRY(grow_heap(plan, item));
        EST_TRY(grow_scratch(plan, item));
    }
#ifdef EST_FAULT_POINTS /* in builds with tests: kernels keep their word on scratch (graph/op.h) */
    assert(scratch_bytes(item) <= item->scratch_bytes);
#endif
    if (item->kernel != NULL) EST_TRY(est_item_prepare(item));
    item->followed = true;
    return EST_OK;
}

est_status est_view_check_numbers(const est_view *view, int output)
{
    for (int64_t i = 0; i < view->count && (view->dtype == EST_F32 || view->dtype == EST_F64); i++) {
        double x = view->dtype == EST_F32 ? (double)((const float *)view->data)[i] : ((const double *)view->data)[i];
        if (!isfinite(x)) {
            return est_fail(EST_INVALID_ARGUMENT, "output %d has %g at element %lld", output, x, (long long)i);
        }
    }
    return EST_OK;
}

static est_status check_numbers(const est_item *item)
{
    for (int o = 0; o < item->call.n_out; o++) EST_TRY(est_view_check_numbers(&item->call.out[o], o));
    return EST_OK;
}

static est_status run_item(est_plan *plan, est_item *item)
{
    if (item->dynamic) EST_TRY(follow_shapes(plan, item));
    if (item->kernel == NULL) return EST_OK;
    EST_TRY(item->kernel->run(&item->call));
    if (item->call.node->op->lends) est_plan_follow_addresses(plan);
    return plan->check_numerics ? check_numbers(item) : EST_OK;
}

/* Steps [first, end) one after the other. */
static est_status run_steps(est_plan *plan, int32_t first, int32_t end, int thread)
{
    for (int32_t i = first; i < end; i++) {
        est_item  *item   = &plan->items[plan->steps[i]];
        int64_t    start  = est_trace_now(plan->trace);
        est_status status = run_item(plan, item);
        if (status != EST_OK) return est_item_failed(item, status);
        est_trace_item(plan->trace, i, start, thread);
    }
    return EST_OK;
}

/* A wave that runs in lanes, as its tasks see it. */
typedef struct lane_job {
    est_plan            *plan;
    const est_plan_wave *wave;
} lane_job;

static void run_lane(void *arg, int64_t task, int thread)
{
    const lane_job      *job   = arg;
    const est_plan_wave *g     = job->wave;
    int32_t              first = task == 0 ? g->first : g->lane_end[task - 1];

    job->plan->lane_errors[task].status = run_steps(job->plan, first, g->lane_end[task], thread);
    if (job->plan->lane_errors[task].status != EST_OK) {
        est_error_take(job->plan->lane_errors[task].status, &job->plan->lane_errors[task]);
    }
}

/* Of several failures the one of the lowest lane is reported, whichever thread was first. */
static est_status run_lanes(est_plan *plan, const est_plan_wave *wave)
{
    est_pool_for(plan->pool, wave->n_lanes, run_lane, &(lane_job){ plan, wave });
    for (int32_t l = 0; l < wave->n_lanes; l++) {
        if (plan->lane_errors[l].status != EST_OK) return est_error_raise(&plan->lane_errors[l]);
    }
    return EST_OK;
}

static est_status run_waves(est_plan *plan)
{
    for (int32_t g = 0; g < plan->n_waves; g++) {
        const est_plan_wave *wave = &plan->waves[g];
        EST_TRY(wave->n_lanes > 1 ? run_lanes(plan, wave) : run_steps(plan, wave->first, wave->end, 0));
    }
    return EST_OK;
}

/* Keys count in steps that were made: one that failed will be made again. */
static void end_row_tables(const est_plan *plan, bool made)
{
    for (int i = 0; i < plan->n_row_tables; i++) {
        if (made) {
            est_row_table_commit(plan->row_tables[i]);
        } else {
            est_row_table_rollback(plan->row_tables[i]);
        }
    }
}

est_status est_plan_run(est_plan *plan, const est_tensor *const *feeds, uint64_t run_seed)
{
    est_status status;

    est_plan_seed(plan, run_seed);
    if (plan->n_segments > 0) plan->remote->step++;
    EST_TRY(take_feeds(plan, feeds));
    if (!plan->resolved) EST_TRY(est_plan_resolve(plan));
    EST_TRY(est_plan_check_variables(plan));
    for (int i = 0; i < plan->n_changed; i++) est_cow_keep_all(plan->changed[i]);
    est_plan_follow_addresses(plan);
    est_trace_begin(plan->trace);
    status = run_waves(plan);
    end_row_tables(plan, status == EST_OK);
    if (status == EST_OK) est_trace_end(plan->trace);
    return status;
}
