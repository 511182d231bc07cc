/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs that the host does not wait for. */
#include "runtime/run_ahead.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "runtime/local_devices.h"
#include "runtime/record.h"

#define KEPT_BYTES 256 /* of the variables that the host part of a plan changes (RA2) */

struct est_plan_ahead {
    est_var **kept; /* [n_kept]: variables that the host part changes */
    int       n_kept;
    int       task; /* the device of all parts */
    bool     *far;  /* [n_fetches]: made by a device */
    enum {
        RESULTS_HERE,
        RESULTS_FAR, /* of the last run: not here yet */
        RESULTS_LOST /* it has failed */
    } results;
};

/* --- plans -------------------------------------------------------------------------------------------------------- */

static bool is_end(const est_item *item)
{
    return item->call.node->op == &est_op_start || item->call.node->op == &est_op_finish;
}

static const est_item *maker_of(const est_plan *plan, const est_view *view)
{
    return &plan->items[plan->slots[est_view_index(plan, view)].maker];
}

/* Whether something of the host looks at what a device has made. */
static bool uses_results(const est_plan *plan)
{
    for (int32_t k = 0; k < plan->n_items; k++) {
        const est_call *call = &plan->items[k].call;

        for (int i = 0; i < call->n_in; i++) {
            if (maker_of(plan, call->in[i])->call.node->op == &est_op_finish) return true;
        }
    }
    return false;
}

/* Lists the variables that the host part changes; false: it has other effects, or they are too large. */
static bool list_kept(const est_plan *plan, est_plan_ahead *a)
{
    size_t bytes = 0;

    for (int32_t k = 0; k < plan->n_items; k++) {
        const est_item *item = &plan->items[k];
        const est_op   *op   = item->call.node->op;

        if (is_end(item) || op->source != EST_SOURCE_NONE) continue;
        if (op->tentative || op->takes_table || (op->stateful && !op->random && !op->alias && op->writes == 0)) {
            return false;
        }
        for (int i = 0; i < item->call.n_in && i < 32; i++) {
            est_var *var;

            if ((op->writes & 1u << i) == 0 || item->call.in[i]->dtype != EST_RESOURCE) continue;
            var = item->call.in[i]->data;
            bytes += (size_t)var->value.count * est_dtype_size(var->value.dtype);
            if (bytes > KEPT_BYTES || var->rows != NULL || var->lazy != NULL) return false;
            a->kept[a->n_kept++] = var;
        }
    }
    return true;
}

static int32_t count_writes(const est_plan *plan)
{
    int32_t n = 0;

    for (int32_t k = 0; k < plan->n_items; k++) {
        if (plan->items[k].call.node->op->writes != 0) n += plan->items[k].call.n_in;
    }
    return n;
}

est_status est_plan_find_ahead(est_plan *plan)
{
    est_plan_ahead *a;

    if (plan->n_parts == 0 || plan->n_segments > 0 || plan->exchange != NULL || plan->n_row_tables > 0 ||
        plan->check_numerics || uses_results(plan)) {
        return EST_OK;
    }
    for (int i = 1; i < plan->n_parts; i++) {
        if (plan->parts[i].task != plan->parts[0].task) return EST_OK;
    }
    a       = est_arena_alloc(plan->arena, sizeof *a);
    *a      = (est_plan_ahead){ .task = plan->parts[0].task };
    a->kept = est_arena_alloc(plan->arena, sizeof(est_var *) * ((size_t)count_writes(plan) + 1));
    a->far  = est_arena_alloc(plan->arena, (size_t)plan->io.n_fetches + 1);
    if (a->kept == NULL || a->far == NULL) return est_no_memory();
    if (!list_kept(plan, a)) return EST_OK;
    for (int i = 0; i < plan->io.n_fetches; i++) {
        a->far[i] = est_graph_node(plan->graph, plan->io.fetches[i].id)->op == &est_op_finish;
    }
    for (int i = 0; i < plan->n_parts; i++) plan->part_bindings[i].ahead = &plan->runs_ahead;
    plan->ahead = a;
    return EST_OK;
}

bool est_plan_watch(est_plan *plan, int fetch)
{
    est_dtype dtype;
    int64_t   at;

    if (plan->ahead == NULL || fetch < 0 || fetch >= plan->io.n_fetches || !plan->ahead->far[fetch]) return false;
    dtype = est_graph_node(plan->graph, plan->io.fetches[fetch].id)->dtype[plan->io.fetches[fetch].output];
    if (dtype != EST_F32 && dtype != EST_F64) return false;
    at = est_node_int(est_graph_node(plan->graph, plan->io.fetches[fetch].id), "segment") - plan->n_segments;
    est_recorder_watch(est_local_devices_plan(plan->part_bindings[at].segment), plan->io.fetches[fetch].output);
    return true;
}

bool est_plan_is_unseen(const est_plan *plan, int fetch)
{
    return plan->ahead != NULL && plan->ahead->results != RESULTS_HERE && fetch >= 0 && fetch < plan->io.n_fetches &&
           plan->ahead->far[fetch];
}

void est_plan_ran(const est_plan *plan)
{
    if (plan->ahead != NULL) plan->ahead->results = RESULTS_HERE;
}

/* --- runs in flight ----------------------------------------------------------------------------------------------- */

typedef struct flight {
    est_plan    *plan;
    uint64_t     run;
    uint64_t     mark;
    est_tensor **feeds; /* [n_feeds], references; room for n_feeds_max */
    int          n_feeds, n_feeds_max;
    char         kept[KEPT_BYTES]; /* what plan->ahead->kept held before the run */
} flight;

struct est_flights {
    est_local_devices *devices;
    flight             ring[EST_RUNS_AHEAD];
    int                first, n;
    est_error          error; /* that is still to be reported; status EST_OK: none */
    est_flight_failure failure;
};

est_status est_flights_create(est_local_devices *devices, est_flights **out)
{
    est_flights *f = est_zalloc(sizeof *f);

    if (f == NULL) return est_no_memory();
    f->devices = devices;
    *out       = f;
    return EST_OK;
}

static flight *flight_at(est_flights *f, int i)
{
    return &f->ring[(f->first + i) % EST_RUNS_AHEAD];
}

static void drop_feeds(est_tensor **feeds, int *n)
{
    for (int i = 0; i < *n; i++) est_tensor_free(feeds[i]);
    *n = 0;
}

void est_flights_forget(est_flights *f)
{
    drop_feeds(f->failure.feeds, &f->failure.n_feeds);
    est_free(f->failure.feeds);
    f->failure = (est_flight_failure){ 0 };
}

void est_flights_free(est_flights *f)
{
    if (f == NULL) return;
    for (int i = 0; i < EST_RUNS_AHEAD; i++) {
        drop_feeds(f->ring[i].feeds, &f->ring[i].n_feeds);
        est_free(f->ring[i].feeds);
    }
    est_flights_forget(f);
    est_free(f);
}

static void copy_kept(const est_plan_ahead *a, char *kept, bool back)
{
    for (int i = 0; i < a->n_kept; i++) {
        est_view *value = &a->kept[i]->value;
        size_t    bytes = (size_t)value->count * est_dtype_size(value->dtype);

        if (back) {
            memcpy(value->data, kept, bytes);
        } else {
            memcpy(kept, value->data, bytes);
        }
        kept += bytes;
    }
}

/* The number of the step that a run makes; -1: it makes none. */
static int64_t step_of(const flight *at)
{
    const est_plan_ahead *a    = at->plan->ahead;
    const char           *kept = at->kept;

    for (int i = 0; i < a->n_kept; i++) {
        const est_var *var = a->kept[i];
        int64_t        step;

        if (strcmp(var->name, "global_step") == 0 && var->value.dtype == EST_I64 && var->value.count == 1) {
            memcpy(&step, kept, sizeof step);
            return step + 1;
        }
        kept += (size_t)var->value.count * est_dtype_size(var->value.dtype);
    }
    return -1;
}

/* Keeps RA2 and RA3. The feeds of the run go to the failure. */
static est_status fail_flight(est_flights *f, est_status status, const est_node_def *node)
{
    flight *failed = flight_at(f, 0);
    bool    is_nan = node != NULL && status == EST_ABORTED;
    int     back   = is_nan ? 1 : 0;
    int64_t step   = step_of(failed);
    char    text[EST_NODE_TEXT_MAX];

    if (is_nan) status = est_fail(EST_INVALID_ARGUMENT, "NaN");
    if (node != NULL) status = est_fail_context(status, "%s", est_node_text(node, text));
    if (step >= 0) status = est_fail_context(status, "step %" PRId64, step);
    for (int i = 0; i < f->n; i++) flight_at(f, i)->plan->ahead->results = RESULTS_LOST;
    if (back < f->n) copy_kept(flight_at(f, back)->plan->ahead, flight_at(f, back)->kept, true);
    est_flights_forget(f);
    f->failure    = (est_flight_failure){ true, is_nan, failed->run + (uint64_t)back, failed->feeds, failed->n_feeds };
    failed->feeds = NULL;
    failed->n_feeds = failed->n_feeds_max = 0;
    for (int i = 1; i < f->n; i++) drop_feeds(flight_at(f, i)->feeds, &flight_at(f, i)->n_feeds);
    f->n = 0;
    return status;
}

static est_status await_first(est_flights *f)
{
    flight                *first = flight_at(f, 0);
    const est_node_def    *node  = NULL;
    est_queue             *queue;
    const est_device_runs *runs = est_local_devices_queue(f->devices, first->plan->ahead->task, &queue)->runs;
    est_status             status;

    status = runs->wait(queue, first->mark, &node);
    if (status != EST_OK) return fail_flight(f, status, node);
    drop_feeds(first->feeds, &first->n_feeds);
    f->first = (f->first + 1) % EST_RUNS_AHEAD;
    f->n--;
    return EST_OK;
}

/* Waits until at most `left` runs are in flight. */
static est_status await_flights(est_flights *f, int left)
{
    est_status status;

    if (f->error.status != EST_OK) { /* found by a look */
        status          = est_error_raise(&f->error);
        f->error.status = EST_OK;
        return status;
    }
    while (f->n > left) EST_TRY(await_first(f));
    return EST_OK;
}

est_status est_flights_settle(est_flights *f)
{
    return await_flights(f, 0);
}

static est_status take_off(flight *at, est_plan *plan, const est_tensor *const *feeds, uint64_t run)
{
    int n = plan->io.n_feeds;

    if (n > at->n_feeds_max) {
        est_tensor **more = est_realloc(at->feeds, sizeof(est_tensor *) * (size_t)n);

        if (more == NULL) return est_no_memory();
        at->feeds       = more;
        at->n_feeds_max = n;
    }
    for (int i = 0; i < n; i++) at->feeds[i] = est_tensor_ref((est_tensor *)(uintptr_t)feeds[i]);
    at->n_feeds = n;
    at->plan    = plan;
    at->run     = run;
    copy_kept(plan->ahead, at->kept, false);
    return EST_OK;
}

est_status est_flights_run(est_flights *f, est_plan *plan, const est_tensor *const *feeds, uint64_t run,
                           uint64_t run_seed)
{
    flight                *at;
    est_queue             *queue;
    const est_device_runs *runs;
    est_status             status;
    est_error              error;

    EST_TRY(await_flights(f, EST_RUNS_AHEAD - 1));
    est_flights_forget(f);
    at = flight_at(f, f->n);
    EST_TRY(take_off(at, plan, feeds, run));
    plan->runs_ahead = true;
    status           = est_plan_run(plan, feeds, run_seed);
    plan->runs_ahead = false;
    runs             = est_local_devices_queue(f->devices, plan->ahead->task, &queue)->runs;
    if (status == EST_OK) status = runs->mark(queue, &at->mark);
    if (status == EST_OK) {
        plan->ahead->results = RESULTS_FAR;
        f->n++;
        return EST_OK;
    }
    est_error_take(status, &error);
    drop_feeds(at->feeds, &at->n_feeds);
    EST_TRY(await_flights(f, 0)); /* an earlier one comes first */
    copy_kept(plan->ahead, at->kept, true);
    return est_error_raise(&error);
}

/* The results lie in the plan's memory until its next run. */
static est_status bring(est_flights *f, est_plan *plan)
{
    est_queue             *queue;
    const est_device_runs *runs = est_local_devices_queue(f->devices, plan->ahead->task, &queue)->runs;
    const est_node_def    *failed;
    uint64_t               mark;

    for (int i = 0; i < plan->n_parts; i++) {
        EST_TRY(est_plan_bring(est_local_devices_plan(plan->part_bindings[i].segment)));
    }
    EST_TRY(runs->mark(queue, &mark));
    EST_TRY(await_flights(f, 0));
    return runs->wait(queue, mark, &failed);
}

bool est_flights_look(est_flights *f, est_plan *plan)
{
    est_status status;

    if (plan->ahead == NULL || plan->ahead->results != RESULTS_FAR) {
        return plan->ahead == NULL || plan->ahead->results == RESULTS_HERE;
    }
    status = bring(f, plan);
    if (status == EST_OK) {
        plan->ahead->results = RESULTS_HERE;
        return true;
    }
    est_error_take(status, &f->error);
    plan->ahead->results = RESULTS_LOST;
    return false;
}

const est_flight_failure *est_flights_failure(const est_flights *f)
{
    return &f->failure;
}
