/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions: a graph, a store of variables, a pool of threads, and the plans made so far. */
#include "runtime/session_state.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "base/thread.h"
#include "graph/device_name.h"
#include "kernels/variable_access.h"
#include "ops/ops.h"
#include "runtime/local_devices.h"
#include "runtime/placement.h"
#include "runtime/plan.h"
#include "runtime/run_ahead.h"
#include "runtime/session_target.h"
#include "runtime/trace.h"
#include "tensor/shape.h"

struct est_step {
    est_session *session;
    est_io       key; /* what the user asked for, in the user's graph */
    est_plan    *plan;
    uint64_t     version; /* of the graph it was planned from */
    int64_t      users;   /* how many have prepared it and not freed it */
    bool         kept;    /* for est_session_run, until the session goes */
    est_step    *next;
};

/* --- create and free ---------------------------------------------------------------------------------------------- */

static est_status take_options(est_session *s, const est_session_options *options)
{
    const char *target;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_session_options), options, &s->options));
    target = s->options.target;
    if (target == NULL || target[0] == '\0') return EST_OK;
    if (s->options.remote != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "a session has a target, \"%s\", and a remote; give it one of the two",
                        target);
    }
    EST_TRY(est_target_create(target, s->options.connect_secs, &s->target));
    s->options.remote = s->target;
    return EST_OK;
}

/* Logged, so that a run can be repeated. What is drawn are the upper 32 bits: est_plan_seed. */
static uint64_t draw_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) seed = (uint64_t)est_wall_ns();
    seed = (seed | 1) << 32;
    est_log_info("random seed %" PRIu64, seed);
    return seed;
}

/* The graph's seed, the session's, or one drawn once. */
static void choose_seed(est_session *s)
{
    s->seed = est_graph_seed(s->graph) != 0 ? est_graph_seed(s->graph) : s->options.seed;
    if (s->seed == 0) s->seed = draw_seed();
}

/* Makes variables of nodes added since the last look known to the store. */
est_status est_session_find_variables(est_session *s)
{
    est_remote *remote = s->options.remote;

    if (remote != NULL && s->n_nodes_seen < est_graph_size(s->graph)) {
        if (remote->ops->grow != NULL) EST_TRY(remote->ops->grow(remote, s->graph));
        EST_TRY(est_place_variables(s->graph, s->options.remote, s->store));
    }
    if (s->devices != NULL && s->n_nodes_seen < est_graph_size(s->graph)) {
        EST_TRY(est_local_devices_variables(s->devices, s->graph, s->store, s->steps == NULL && !s->has_plans));
    }
    for (; s->n_nodes_seen < est_graph_size(s->graph); s->n_nodes_seen++) {
        const est_node_def *def = est_graph_node(s->graph, s->n_nodes_seen);
        est_var            *var;
        if (def->op->source != EST_SOURCE_VARIABLE) continue;
        EST_TRY(est_store_variable(s->store, def, &var));
    }
    return EST_OK;
}

/* A task that runs everything has devices of its own. */
static est_status refuse_devices(est_strings names)
{
    EST_REQUIRE_LIST("session devices", names);
    for (int i = 0; i < names.n; i++) {
        if (names.data[i] == NULL) return est_fail(EST_INVALID_ARGUMENT, "a device of a session is NULL");
        EST_TRY(est_device_name_check(names.data[i]));
        if (strcasecmp(est_device_name_task(names.data[i]).kind, "CPU") == 0) continue;
        return est_fail(EST_UNIMPLEMENTED,
                        "a session whose steps a server runs computes there, on the CPU, not on \"%s\"", names.data[i]);
    }
    return EST_OK;
}

static est_status find_devices(est_session *s)
{
    if (s->options.remote != NULL && s->options.remote->runs_all) {
        EST_TRY(refuse_devices(s->options.devices));
    } else {
        EST_TRY(est_local_devices_create(&s->options, &s->devices));
        if (s->devices != NULL) EST_TRY(est_flights_create(s->devices, &s->flights));
    }
    s->options.devices = (est_strings){ 0 }; /* the caller's */
    return EST_OK;
}

est_status est_session_create(est_graph *graph, const est_session_options *options, est_session **out)
{
    return est_session_create_in(graph, options, NULL, out);
}

est_status est_session_create_in(est_graph *graph, const est_session_options *options, est_pool *pool,
                                 est_session **out)
{
    est_session *s;
    est_status   status;

    EST_REQUIRE(out);
    s = est_zalloc(sizeof *s);
    if (s == NULL) return est_no_memory();
    if (graph == NULL) {
        est_free(s);
        return est_fail(EST_INVALID_ARGUMENT, "a session needs a graph, got NULL");
    }
    s->graph     = graph;
    s->pool      = pool;
    s->owns_pool = pool == NULL;
    status       = est_lock_init(&s->planning);
    s->has_lock  = status == EST_OK;
    if (status == EST_OK) status = est_graph_status(graph);
    if (status == EST_OK) status = take_options(s, options);
    if (status == EST_OK && s->owns_pool) status = est_pool_create(s->options.threads, &s->pool);
    if (status == EST_OK) status = est_store_create(&s->store);
    if (status == EST_OK) status = find_devices(s);
    if (status == EST_OK && s->options.remote != NULL) status = s->options.remote->ops->connect(s->options.remote);
    if (status == EST_OK) status = est_session_find_variables(s);
    if (status != EST_OK) {
        est_session_free(s);
        return status;
    }
    choose_seed(s);
    *out = s;
    return EST_OK;
}

static void free_step(est_step *step)
{
    est_plan_free(step->plan);
    est_free(step->key.feeds);
    est_free(step);
}

void est_session_free(est_session *session)
{
    if (session == NULL) return;
    while (session->steps != NULL) {
        est_step *step = session->steps;
        session->steps = step->next;
        free_step(step);
    }
    est_target_free(session->target);
    est_flights_free(session->flights);
    est_local_devices_free(session->devices);
    est_store_free(session->store);
    if (session->owns_pool) est_pool_free(session->pool);
    if (session->has_lock) pthread_mutex_destroy(&session->planning);
    est_free(session);
}

est_status est_session_check(const est_session *session)
{
    return session != NULL ? EST_OK : est_fail(EST_INVALID_ARGUMENT, "the session is NULL: was it created?");
}

/* A run that nobody has waited for has failed: it and those behind it do not count. */
static est_status fail_flight(est_session *s, est_status status)
{
    s->n_runs = est_flights_failure(s->flights)->run;
    return est_graph_locate_error(s->graph, status);
}

est_status est_session_settle(est_session *s)
{
    est_status status = s->flights != NULL ? est_flights_settle(s->flights) : EST_OK;

    return status != EST_OK ? fail_flight(s, status) : EST_OK;
}

const est_flight_failure *est_session_failure(const est_session *s)
{
    return s->flights != NULL ? est_flights_failure(s->flights) : NULL;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static bool same_nodes(const est_node *a, int n, est_nodes b)
{
    return n == b.n && (n == 0 || memcmp(a, b.data, sizeof *a * (size_t)n) == 0);
}

/* One array for all three lists. */
static est_status copy_key(est_step *step, est_nodes feeds, est_nodes fetches, est_nodes targets)
{
    est_node *all = est_zalloc(sizeof *all * ((size_t)feeds.n + (size_t)fetches.n + (size_t)targets.n + 1));

    if (all == NULL) return est_no_memory();
    step->key = (est_io){ all, all + feeds.n, all + feeds.n + fetches.n, feeds.n, fetches.n, targets.n };
    if (feeds.n > 0) memcpy(step->key.feeds, feeds.data, sizeof *all * (size_t)feeds.n);
    if (fetches.n > 0) memcpy(step->key.fetches, fetches.data, sizeof *all * (size_t)fetches.n);
    if (targets.n > 0) memcpy(step->key.targets, targets.data, sizeof *all * (size_t)targets.n);
    return EST_OK;
}

void est_session_set_communicator(est_session *session, est_communicator *communicator)
{
    session->options.communicator = communicator;
}

static est_plan_options plan_options(const est_session *s)
{
    return (est_plan_options){ .device         = &est_device_cpu,
                               .pool           = s->pool,
                               .passes         = !s->options.no_passes,
                               .check_numerics = s->options.check_numerics,
                               .remote         = s->options.remote,
                               .communicator   = s->options.communicator,
                               .devices        = s->devices,
                               .no_tf32        = s->options.no_tf32 };
}

static est_status check_list(const char *what, int n, const void *data)
{
    if (n == 0 || (n > 0 && data != NULL)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%s: %d given, but the pointer is NULL", what, n);
}

/* The step for these nodes, made if there is none. */
static est_status find_step(est_session *session, est_nodes feeds, est_nodes fetches, est_nodes targets, est_step **out)
{
    est_plan_options options;
    est_step        *step;
    est_status       status;

    EST_TRY(check_list("feeds", feeds.n, feeds.data));
    EST_TRY(check_list("fetches", fetches.n, fetches.data));
    EST_TRY(check_list("targets", targets.n, targets.data));
    EST_TRY(est_session_check(session));
    EST_TRY(est_graph_status(session->graph));
    options = plan_options(session);
    for (step = session->steps; step != NULL; step = step->next) {
        if (step->version == est_graph_version(session->graph) &&
            same_nodes(step->key.feeds, step->key.n_feeds, feeds) &&
            same_nodes(step->key.fetches, step->key.n_fetches, fetches) &&
            same_nodes(step->key.targets, step->key.n_targets, targets)) {
            *out = step;
            return EST_OK;
        }
    }
    EST_TRY(est_session_find_variables(session));
    step = est_zalloc(sizeof *step);
    if (step == NULL) return est_no_memory();
    step->session = session;
    step->version = est_graph_version(session->graph);
    status        = copy_key(step, feeds, fetches, targets);
    if (status == EST_OK) status = est_plan_create(session->graph, &step->key, session->store, &options, &step->plan);
    if (status != EST_OK) {
        free_step(step);
        return status;
    }
    step->next     = session->steps;
    session->steps = step;
    *out           = step;
    return EST_OK;
}

/* All who prepare the same nodes share a step. */
est_status est_session_prepare(est_session *session, est_nodes feeds, est_nodes fetches, est_nodes targets,
                               est_step **out)
{
    EST_REQUIRE(session);
    EST_REQUIRE(out);
    EST_TRY(find_step(session, feeds, fetches, targets, out));
    (*out)->users++;
    return EST_OK;
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

/* Not a run that counts: what random ops give must not depend on when a table was filled. The filler runs where the
 * table is. */
static est_status fill_table(est_session *s, const char *table)
{
    int32_t          id      = est_lookup_table_filler(s->graph, table);
    est_node         filler  = { s->graph, id, 0 };
    est_io           io      = { .targets = &filler, .n_targets = 1 };
    est_plan_options options = plan_options(s);
    est_plan        *plan;
    est_status       status;

    if (id < 0) {
        return est_fail(EST_FAILED_PRECONDITION, "table '%s' has no entries, and nothing in the graph fills it", table);
    }
    EST_TRY(est_plan_create(s->graph, &io, s->store, &options, &plan));
    status = est_plan_run(plan, NULL, 0);
    est_plan_free(plan);
    return status;
}

/* Tables are filled before the first step that looks into them, so that sessions whose variables were restored, and
 * those of graphs that were read, need not know of them. */
static est_status fill_tables(est_session *session, est_plan *plan)
{
    for (int i = 0; i < plan->n_tables; i++) {
        if (!plan->tables[i]->filled) EST_TRY(fill_table(session, plan->tables[i]->name));
    }
    if (plan->far_filled) return EST_OK;
    for (int i = 0; i < plan->n_far_tables; i++) EST_TRY(fill_table(session, plan->far_tables[i]));
    plan->far_filled = true;
    return EST_OK;
}

est_status est_session_devices_again(const est_session *session, est_local_devices **out)
{
    return est_local_devices_again(session->devices, out);
}

static est_status make_plan(est_session *s, const est_io *io, const est_plan_options *options, est_plan **out)
{
    est_plan  *plan;
    est_status status;

    EST_TRY(est_session_find_variables(s));
    s->has_plans = true;
    EST_TRY(est_plan_create(s->graph, io, s->store, options, &plan));
    status = fill_tables(s, plan);
    if (status != EST_OK) {
        est_plan_free(plan);
        return status;
    }
    *out = plan;
    return EST_OK;
}

est_status est_session_plan(est_session *session, const est_io *io, est_pool *pool, est_local_devices *devices,
                            est_plan **out)
{
    est_plan_options options = plan_options(session);
    est_status       status;

    options.pool = pool;
    if (devices != NULL) options.devices = devices;
    pthread_mutex_lock(&session->planning);
    status = make_plan(session, io, &options, out);
    pthread_mutex_unlock(&session->planning);
    return status;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

bool est_step_trains(const est_step *step)
{
    return step->plan->n_segments > 0 && step->plan->segments[0].trains;
}

/* Waits for the turn of a training step, so that no driver of steps can forget it. A training loop waits for it
 * itself, before it calls its hooks. */
static est_status take_turn(const est_step *step)
{
    est_remote *remote   = step->session->options.remote;
    bool        finished = false;

    if (remote == NULL || !est_step_trains(step)) return EST_OK;
    if (remote->takes_turns && !remote->has_turn) EST_TRY(remote->ops->turn(remote, &finished));
    remote->has_turn = false;
    if (!finished) return EST_OK;
    return est_fail(EST_OUT_OF_RANGE,
                    "all training steps were made: the step limit is reached, or the chief has ended the training");
}

static est_status complete_step(const est_step *step)
{
    est_remote *remote = step->session->options.remote;

    if (remote == NULL || remote->ops->complete == NULL || !est_step_trains(step)) return EST_OK;
    return remote->ops->complete(remote);
}

/* Whether devices may have made a part of the updates of a run that has failed. */
static bool writes_on_devices(const est_plan *plan)
{
    for (int i = 0; i < plan->n_parts; i++) {
        if (plan->parts[i].writes) return true;
    }
    return false;
}

/* Failures while abandoning the run are not the reason. */
static est_status fail_run(const est_session *s, const est_plan *plan, est_status status)
{
    est_error error;

    est_error_take(status, &error);
    if (s->options.remote != NULL) s->options.remote->ops->abandon(s->options.remote);
    if (plan->devices != NULL) est_local_devices_abandon(plan->devices);
    if (writes_on_devices(plan)) est_store_spoil_copies(s->store);
    est_exchange_abandon(plan->exchange, error.message);
    return est_graph_locate_error(s->graph, est_error_raise(&error));
}

est_status est_session_run_plan(const est_session *session, est_plan *plan, const est_tensor *const *feeds,
                                uint64_t run_seed)
{
    est_status status;

    est_plan_ran(plan);
    status = est_plan_run(plan, feeds, run_seed);
    return status == EST_OK ? EST_OK : fail_run(session, plan, status);
}

/* Random ops mix this into their own seeds: different in every run, the same when a run is repeated. A run that failed
 * does not count, so that trying again gives what it would have given. */
static uint64_t next_seed(const est_session *s)
{
    return s->seed + 0x9e3779b97f4a7c15u * (s->n_runs + 1);
}

/* Waits for runs that nobody has waited for, before one that is waited for. */
static est_status begin_run(est_session *s, const est_plan *plan)
{
    EST_TRY(est_session_settle(s));
    est_flights_forget(s->flights);
    est_plan_ran(plan);
    return EST_OK;
}

est_status est_step_run(est_step *step, const est_tensor *const *feeds)
{
    EST_REQUIRE(step);
    if (feeds == NULL && step->key.n_feeds > 0) {
        return est_fail(EST_INVALID_ARGUMENT, "the step has %d feeds, got NULL", step->key.n_feeds);
    }
    est_session *s = step->session;
    est_status   status;

    if (s->flights != NULL) EST_TRY(begin_run(s, step->plan));
    if (step->plan->devices != NULL) EST_TRY(est_store_renew_copies(s->store));
    EST_TRY(fill_tables(s, step->plan));
    EST_TRY(take_turn(step));
    status = est_plan_run(step->plan, feeds, next_seed(s));
    if (status == EST_OK) status = complete_step(step);
    if (status != EST_OK) return fail_run(s, step->plan, status);
    s->n_runs++;
    return EST_OK;
}

est_status est_step_start(est_step *step, const est_tensor *const *feeds)
{
    est_session *s;
    est_status   status;

    EST_REQUIRE(step);
    s = step->session;
    if (step->plan->ahead == NULL || est_trace_is_on(step->plan->trace) || (feeds == NULL && step->key.n_feeds > 0)) {
        return est_step_run(step, feeds);
    }
    EST_TRY(est_store_renew_copies(s->store));
    EST_TRY(fill_tables(s, step->plan));
    status = est_flights_run(s->flights, step->plan, feeds, s->n_runs, next_seed(s));
    if (status == EST_OK) {
        s->n_runs++;
        return EST_OK;
    }
    if (est_flights_failure(s->flights)->failed) return fail_flight(s, status);
    return fail_run(s, step->plan, status);
}

est_status est_step_wait(est_step *step)
{
    EST_REQUIRE(step);
    return est_session_settle(step->session);
}

bool est_step_is_ahead(const est_step *step, int fetch)
{
    return est_plan_is_unseen(step->plan, fetch);
}

void est_step_free(est_step *step)
{
    if (step == NULL) return;
    if (--step->users > 0 || step->kept) return;
    if (step->session->flights != NULL) (void)est_flights_look(step->session->flights, step->plan);
    for (est_step **at = &step->session->steps; *at != NULL; at = &(*at)->next) {
        if (*at != step) continue;
        *at = step->next;
        free_step(step);
        return;
    }
}

est_plan *est_step_plan(est_step *step)
{
    return step->plan;
}

/* Result i, which is brought here if it is still on a device. NULL: there is no such one, or its run has failed. */
static const est_view *look(const est_step *step, int i)
{
    if (step == NULL) return NULL;
    if (step->plan->ahead != NULL && est_plan_is_unseen(step->plan, i) &&
        !est_flights_look(step->session->flights, step->plan)) {
        return NULL;
    }
    return est_plan_fetch(step->plan, i);
}

const void *est_step_data(const est_step *step, int i)
{
    const est_view *view = look(step, i);

    return view != NULL ? view->data : NULL;
}

const est_shape *est_step_shape(const est_step *step, int i)
{
    const est_view *view = step != NULL ? est_plan_fetch(step->plan, i) : NULL;

    return view != NULL ? &view->shape : NULL;
}

double est_view_scalar(const est_view *view)
{
    if (view->data == NULL || view->count == 0) return 0; /* before the first run, or nothing there */
    switch (view->dtype) {
    case EST_F32: return (double)*(const float *)view->data;
    case EST_F64: return *(const double *)view->data;
    case EST_I32: return *(const int32_t *)view->data;
    case EST_I64: return (double)*(const int64_t *)view->data;
    case EST_U8:
    case EST_BOOL: return *(const uint8_t *)view->data;
    default: return 0;
    }
}

double est_step_scalar(const est_step *step, int i)
{
    const est_view *view = look(step, i);

    return view != NULL ? est_view_scalar(view) : NAN;
}

est_status est_step_copy(const est_step *step, int first, int n, est_tensor **out)
{
    int          made   = 0;
    est_tensor **copies = est_alloc(sizeof(est_tensor *) * ((size_t)n + 1)); /* out is written only when all is well */
    est_status   status = copies != NULL ? EST_OK : est_no_memory();

    while (made < n && status == EST_OK) {
        const est_view *view = look(step, first + made);

        if (view == NULL) {
            status = est_session_settle(step->session);
            break;
        }
        status = est_tensor_create_from(view->dtype, view->shape, view->data, &copies[made]);
        if (status == EST_OK) made++;
    }
    if (status == EST_OK && n > 0) memcpy(out, copies, sizeof(est_tensor *) * (size_t)n);
    while (made > 0 && status != EST_OK) est_tensor_free(copies[--made]);
    est_free(copies);
    return status;
}

est_status est_session_run(est_session *session, est_feeds feeds, est_nodes fetches, est_nodes targets,
                           est_tensor **out)
{
    est_node          *nodes;
    const est_tensor **values;
    est_step          *step;
    est_status         status;

    EST_REQUIRE(session);
    EST_TRY(check_list("feeds", feeds.n, feeds.data));
    nodes  = est_alloc(sizeof *nodes * (size_t)(feeds.n + 1));
    values = est_alloc(sizeof *values * (size_t)(feeds.n + 1));
    if (nodes == NULL || values == NULL) {
        status = est_no_memory();
    } else if (out == NULL && fetches.n > 0) {
        status = est_fail(EST_INVALID_ARGUMENT, "there is no place to put the values fetched: %d", fetches.n);
    } else {
        for (int i = 0; i < feeds.n; i++) {
            nodes[i]  = feeds.data[i].node;
            values[i] = feeds.data[i].value;
        }
        status = find_step(session, (est_nodes){ nodes, feeds.n }, fetches, targets, &step);
        if (status == EST_OK) step->kept = true;
        if (status == EST_OK) status = est_step_run(step, values);
        if (status == EST_OK) status = est_step_copy(step, 0, fetches.n, out);
    }
    est_free(nodes);
    est_free(values);
    return status;
}

/* --- what belongs to it ------------------------------------------------------------------------------------------- */

est_status est_session_store(est_session *session, est_store **out)
{
    EST_TRY(est_session_check(session));
    EST_TRY(est_session_settle(session));
    EST_TRY(est_session_find_variables(session));
    *out = session->store;
    return EST_OK;
}

est_pool *est_session_pool(const est_session *session)
{
    return session->pool;
}

est_remote *est_session_remote(const est_session *session)
{
    return session->options.remote;
}

const est_graph *est_session_graph(const est_session *session)
{
    return session->graph;
}

int est_session_variables(const est_session *session)
{
    return session != NULL ? est_store_size(session->store) : 0;
}

const char *est_session_variable(const est_session *session, int i)
{
    return i >= 0 && i < est_session_variables(session) ? est_store_at(session->store, i)->name : NULL;
}

/* --- counters, traces --------------------------------------------------------------------------------------------- */

void est_session_set_seed(est_session *session, uint64_t seed)
{
    if (session == NULL) return;
    session->seed = seed != 0 ? seed : draw_seed();
}

uint64_t est_session_run_count(const est_session *session)
{
    return session != NULL ? session->n_runs : 0;
}

void est_session_set_run_count(est_session *session, uint64_t count)
{
    if (session == NULL) return;
    session->n_runs = count;
}

est_status est_step_trace(est_step *step, int runs)
{
    EST_REQUIRE(step);
    return est_trace_start(step->plan, runs);
}

est_status est_step_write_timeline(est_step *step, const char *path, const est_timeline_options *options)
{
    est_timeline_options own;

    EST_REQUIRE(step);
    EST_REQUIRE(path);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_timeline_options), options, &own));
    return est_trace_write_timeline(step->plan, path, &own);
}

void est_step_report(est_step *step, FILE *out)
{
    if (step == NULL || out == NULL) return;
    est_trace_report(step->plan, out);
}

size_t est_step_slab_bytes(const est_step *step)
{
    return step != NULL ? step->plan->slab_bytes : 0;
}

int est_step_layouts(const est_step *step)
{
    return step != NULL ? step->plan->n_layouts : 0;
}
