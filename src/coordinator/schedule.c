/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's side: schedule, join, done, and all waits. */
#include "base/argument.h"
#include "coordinator/coordinator.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "coordinator/functions.h"
#include "coordinator/recovery.h"
#include "graph/graph.h"

#define SLICE_SECS  0.25 /* between two looks at signals while waiting */
#define REPORT_SECS 10.0 /* between two messages while no worker is here */

/* --- waiting ------------------------------------------------------------------------------------------------------ */

void est_coordinator_wake(est_coordinator *c)
{
    if (c->n_waiting > 0) pthread_cond_broadcast(&c->changed);
}

/* How long a wait may last without a worker. The save after a signal, which waits for calls that have begun, has less
 * time: workers have often got the signal as well, and a supervisor kills the process soon. */
static double lonely_secs(const est_coordinator *c)
{
    return est_stop_signal() != 0 ? fmin(c->server->silence_secs, c->options.lonely_secs) : c->options.lonely_secs;
}

/* For the log: a wait without a worker ends after lonely_secs, any other has no limit. Under `lock`. */
static void limit_wait(const est_coordinator *c, est_waiting *w)
{
    double before = fmax(0, (double)(c->alone_ns - w->since_ns) / (double)EST_NS_PER_SEC);

    w->limit_secs = c->n_here == 0 ? round(before + lonely_secs(c)) : INFINITY;
    w->then       = "fails without a worker (lonely_secs)";
}

est_status est_coordinator_raise(const est_coordinator *c, const est_call_error *error)
{
    est_status status;

    if (error == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for the error of a call");
    status = est_fail(error->status, "%s", error->text);
    return c->closing ? status : est_graph_locate_error(c->graph, status);
}

/* Whether this coordinator can go on. Under `lock`. */
static est_status check_halted(const est_coordinator *c)
{
    return c->halted ? est_coordinator_raise(c, c->over) : EST_OK;
}

void est_coordinator_note_ps_loss(est_coordinator *c)
{
    if (!c->ps_lost) {
        c->ps_lost_ns  = est_now_ns();
        c->ps_reported = false;
    }
    c->ps_lost = true;
    est_coordinator_wake(c);
}

static void begin_wait(const est_coordinator *c, est_call_wait *w, const char *why)
{
    if (w->begun) return;
    w->base      = est_wait_begin(c->server->task, "the workers", why, INFINITY);
    w->begun     = true;
    w->completed = c->completed;
}

static void end_wait(est_call_wait *w)
{
    if (w->begun) est_wait_end(&w->base);
    w->begun = false;
}

/* For how long no worker was here during the wait. Under `lock`. */
static double alone_secs(const est_coordinator *c, const est_call_wait *w)
{
    int64_t since = c->alone_ns > w->base.since_ns ? c->alone_ns : w->base.since_ns;

    return c->n_here > 0 ? 0 : (double)(est_now_ns() - since) / (double)EST_NS_PER_SEC;
}

/* Logs the wait while there is no worker, or while no call completes; fails without one for lonely_secs. Under `lock`,
 * which is released for the log. */
static est_status look_around(est_coordinator *c, est_call_wait *w)
{
    est_strbuf missing = { 0 };
    bool       alone   = c->n_here == 0;
    double     secs    = alone_secs(c, w);
    est_status status  = EST_OK;

    if (est_stop_signal() != 0 && c->stops == 0) /* a checkpoint is written to its end */
        return est_fail(EST_CANCELLED, "%s while the coordinator waited: %s", est_stop_signal_name(), w->base.why);
    limit_wait(c, &w->base);
    if (!alone && c->completed != w->completed) {
        w->completed        = c->completed;
        w->base.since_ns    = est_now_ns();
        w->base.report_secs = EST_WAIT_REPORT_SECS;
    }
    if (secs < lonely_secs(c) && !est_wait_is_due(&w->base)) return EST_OK;
    est_workers_missing(c, &missing);
    if (secs >= lonely_secs(c)) {
        status = est_fail(EST_DEADLINE_EXCEEDED, "no worker was here for %.0f s %s%s: %s; start them", secs,
                          est_stop_signal() != 0 ? "after " : "(lonely_secs)",
                          est_stop_signal() != 0 ? est_stop_signal_name() : "", est_strbuf_text(&missing));
    } else {
        w->looking = true;
        pthread_mutex_unlock(&c->lock);
        est_wait_report(&w->base, est_strbuf_text(&missing));
        if (alone) w->base.report_secs = est_wait_secs(&w->base) + REPORT_SECS;
        pthread_mutex_lock(&c->lock);
        w->looking = false;
    }
    est_strbuf_clear(&missing);
    return status;
}

/* Whether this thread has to recover. */
static bool needs_recovery(const est_coordinator *c)
{
    return c->ps_lost && !c->recovering && !c->session_used && !c->ending;
}

/* Under `lock`, which is released meanwhile. A ps task that is lost again makes the next look recover again. */
static est_status recover(est_coordinator *c)
{
    est_status status;

    c->recovering = true;
    c->ps_lost    = false;
    pthread_mutex_unlock(&c->lock);
    status = est_coordinator_recover(c);
    pthread_mutex_lock(&c->lock);
    c->recovering = false;
    if (status != EST_OK && (c->ending || c->halted)) { /* the caller sees that */
        est_coordinator_note_ps_loss(c);
        status = EST_UNAVAILABLE;
    } else if (status == EST_CANCELLED || status == EST_DEADLINE_EXCEEDED || status == EST_UNAVAILABLE) {
        est_coordinator_note_ps_loss(c);
    } else if (status != EST_OK) {
        est_coordinator_halt(c, status, est_error_message());
    }
    est_coordinator_wake(c);
    if (status == EST_OK) est_handout(c);
    return status == EST_UNAVAILABLE ? EST_OK : status;
}

est_status est_coordinator_await(est_coordinator *c, est_call_condition ready, const void *user, const char *why)
{
    est_call_wait w      = { 0 };
    est_status    status = EST_OK;

    c->n_waiting++;
    while (status == EST_OK && !ready(c, user)) {
        if (c->halted) {
            status = est_coordinator_raise(c, c->over);
        } else if (needs_recovery(c)) {
            status = recover(c);
        } else {
            begin_wait(c, &w, why);
            est_cond_wait_ns(&c->changed, &c->lock, (int64_t)(SLICE_SECS * (double)EST_NS_PER_SEC));
            if (!ready(c, user)) status = look_around(c, &w);
        }
    }
    c->n_waiting--;
    end_wait(&w);
    est_signals_tell(status);
    return status;
}

static bool has_ps(const est_coordinator *c, const void *user)
{
    (void)user;
    return !c->ps_lost && !c->recovering && !c->session_used;
}

/* Waits until no other thread has the session, and takes it. */
static est_status claim_session(est_coordinator *c)
{
    est_status status;

    pthread_mutex_lock(&c->lock);
    status = est_coordinator_await(c, has_ps, NULL, "another thread uses the session, or a ps task is recovered");
    if (status == EST_OK) status = check_halted(c);
    if (status == EST_OK) c->session_used = true;
    pthread_mutex_unlock(&c->lock);
    return status;
}

void est_coordinator_release_session(est_coordinator *c, bool lost)
{
    pthread_mutex_lock(&c->lock);
    c->session_used = false;
    if (lost) est_coordinator_note_ps_loss(c);
    est_coordinator_wake(c);
    pthread_mutex_unlock(&c->lock);
}

est_status est_coordinator_use_session(est_coordinator *c, est_status (*fn)(est_coordinator *c, void *user), void *user)
{
    est_status status = EST_OK;
    bool       lost;

    do {
        EST_TRY(claim_session(c));
        status = fn(c, user);
        est_signals_tell(status);
        lost = status == EST_UNAVAILABLE || status == EST_ABORTED;
        if (lost) est_log_info("%s: %s", c->server->task, est_error_message());
        est_coordinator_release_session(c, lost);
    } while (lost);
    return status;
}

void est_coordinator_take_session(est_coordinator *c)
{
    pthread_mutex_lock(&c->lock);
    c->ending = true;
    c->n_waiting++;
    while (c->recovering || c->session_used)
        est_cond_wait_ns(&c->changed, &c->lock, (int64_t)(SLICE_SECS * (double)EST_NS_PER_SEC));
    c->n_waiting--;
    c->ending       = false;
    c->session_used = true;
    pthread_mutex_unlock(&c->lock);
}

void est_coordinator_free_replaced(est_coordinator *c)
{
    est_session **replaced;
    int           n;

    pthread_mutex_lock(&c->lock);
    replaced      = c->replaced;
    n             = c->n_replaced;
    c->replaced   = NULL;
    c->n_replaced = 0;
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < n; i++) est_session_free(replaced[i]);
    est_free(replaced);
}

/* A call that came back to the queue may be half applied (Q4). */
static bool is_quiet(const est_coordinator *c, const void *user)
{
    (void)user;
    return c->under_way == 0 && !est_call_queue_has_returned(&c->queue);
}

static bool is_done(const est_coordinator *c, const void *user)
{
    (void)user;
    return c->under_way == 0 && c->queue.n == 0;
}

/* A join without calls recovers lost ps tasks as well: the program needs it to go on with its session. */
static bool is_joined(const est_coordinator *c, const void *user)
{
    return is_done(c, user) && !c->ps_lost && !c->recovering;
}

static bool has_room(const est_coordinator *c, const void *user)
{
    (void)user;
    return c->queue.n < c->options.queue_max || c->failed;
}

est_status est_coordinator_quiesce(est_coordinator *c)
{
    est_status status;

    c->stops++;
    status = est_coordinator_await(c, is_quiet, NULL, "calls that have begun complete before a checkpoint is written");
    if (status != EST_OK) est_coordinator_resume(c);
    return status;
}

void est_coordinator_resume(est_coordinator *c)
{
    c->stops--;
    est_handout(c);
}

static est_status tell_origin(est_coordinator *c, void *user)
{
    (void)user;
    return est_coordinator_tell_origin(c);
}

/* Returns the error of a function once, when all calls under way have ended. Workers that are out of reach may still
 * run calls that were given up: the ps tasks refuse them from here on. Under `lock`, which is released meanwhile. */
static est_status take_error(est_coordinator *c)
{
    est_status status;

    if (!c->failed) return EST_OK;
    EST_TRY(est_coordinator_await(c, is_quiet, NULL, "calls under way end, since one has failed"));
    pthread_mutex_unlock(&c->lock);
    status = est_coordinator_use_session(c, tell_origin, NULL);
    pthread_mutex_lock(&c->lock);
    EST_TRY(status);
    if (!c->failed) return EST_OK; /* another thread has it */
    status = est_coordinator_raise(c, c->error);
    est_call_error_free(c->error);
    c->error  = NULL;
    c->failed = false;
    return status;
}

/* --- schedule ----------------------------------------------------------------------------------------------------- */

static est_status check_signal(void)
{
    est_status status = est_signals_check("coordinator");

    est_signals_tell(status);
    return status;
}

static est_status await_room(est_coordinator *c)
{
    est_status status = check_signal();

    EST_TRY(check_halted(c));
    if (needs_recovery(c)) EST_TRY(recover(c));
    while (status == EST_OK && (c->failed || c->queue.n >= c->options.queue_max)) {
        status = take_error(c);
        if (status != EST_OK) break;
        c->full = true;
        status  = est_coordinator_await(c, has_room, NULL, "the queue of calls is full");
    }
    return status == EST_OK ? check_halted(c) : status; /* it may have ended meanwhile */
}

est_status est_coordinator_enqueue(est_coordinator *c, est_scheduled *call)
{
    est_status status = await_room(c);

    if (status != EST_OK) {
        est_scheduled_free(c, call);
        return status;
    }
    est_call_queue_append(&c->queue, call);
    est_handout(c);
    return EST_OK;
}

static est_status check_argument(const est_coordinator *c, const est_function *f, const est_argument *a)
{
    const char *name = f->object.name;
    const char *feed = a->node.graph != NULL ? est_node_name(a->node) : "none";

    if (a->from == NULL) {
        if (a->value != NULL && a->component == NULL) return EST_OK;
        return est_fail(EST_INVALID_ARGUMENT,
                        "'%s': the argument for '%s' needs either .from (an iterator with .component, or a value per "
                        "worker) or .value",
                        name, feed);
    }
    if (a->value != NULL) return est_fail(EST_INVALID_ARGUMENT, "'%s': '%s' has both .from and .value", name, feed);
    if (a->from->object.coordinator != c)
        return est_fail(EST_INVALID_ARGUMENT, "'%s': '%s' is from another coordinator", name, feed);
    if (a->from->object.kind == EST_OBJECT_DATASET) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "'%s': '%s' is from a dataset; make an iterator (est_per_worker_iterator)", name, feed);
    }
    if ((a->from->object.kind == EST_OBJECT_ITERATOR) == (a->component != NULL)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "'%s': '%s' is from %s", name, feed,
                    a->component != NULL ? "a value per worker, which has no components; leave out .component"
                                         : "an iterator; name the .component of its elements");
}

static int find_feed(const est_function *f, est_node node)
{
    for (int i = 0; i < f->n_feeds; i++) {
        if (memcmp(&f->feeds[i], &node, sizeof node) == 0) return i;
    }
    return -1;
}

/* A wrong component is found here, and not by a worker. The dataset of a worker's function is known only there. Under
 * `lock`. */
static est_status check_component(est_function *f, int feed, const est_per_worker *from, const char *component)
{
    est_suited *last = &f->suited[feed];

    if (from->dataset == NULL || (last->iterator == from->object.number && last->component == component)) return EST_OK;
    EST_TRY(est_component_check(from->dataset, component, f->object.name, f->feeds[feed]));
    *last = (est_suited){ from->object.number, component };
    return EST_OK;
}

/* Under `lock`. */
static est_status take_argument(est_scheduled *call, const est_argument *a)
{
    int             feed = find_feed(call->function, a->node);
    est_call_feed  *at;
    est_per_worker *from;

    if (feed < 0) {
        return est_fail(EST_INVALID_ARGUMENT, "'%s' has no feed '%s'", call->function->object.name,
                        a->node.graph != NULL ? est_node_name(a->node) : "none");
    }
    at = &call->feeds[feed];
    if (at->from != NULL || at->value != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "'%s': '%s' has two arguments", call->function->object.name,
                        est_node_name(a->node));
    }
    memcpy(&from, &a->from, sizeof from); /* const for the program: only its references change */
    if (from != NULL && a->component != NULL) {
        at->component = est_per_worker_component(from, a->component);
        if (at->component == NULL) return est_no_memory();
        EST_TRY(check_component(call->function, feed, from, at->component));
    }
    if (from != NULL) est_object_ref(&from->object);
    at->from = from;
    if (a->value != NULL) at->value = est_tensor_ref(a->value);
    return EST_OK;
}

/* Under `lock`. */
static est_status fill_call(est_coordinator *c, est_function *f, est_arguments arguments, est_scheduled **out)
{
    est_scheduled *call   = est_call_queue_new(&c->queue, f->n_feeds);
    est_status     status = EST_OK;

    if (call == NULL) return est_no_memory();
    est_object_ref(&f->object);
    call->function = f;
    for (int i = 0; i < arguments.n && status == EST_OK; i++) status = take_argument(call, &arguments.data[i]);
    if (status == EST_OK && arguments.n != f->n_feeds) {
        status = est_fail(EST_INVALID_ARGUMENT, "'%s' has %d feeds, but the call has %d arguments", f->object.name,
                          f->n_feeds, arguments.n);
    }
    if (status != EST_OK) {
        est_scheduled_free(c, call);
        return status;
    }
    *out = call;
    return EST_OK;
}

static est_status schedule(est_coordinator *c, est_function *f, est_arguments arguments, est_remote_value *value)
{
    est_scheduled *call;

    EST_TRY(fill_call(c, f, arguments, &call));
    if (value != NULL) {
        est_refcount_add(&value->references);
        call->value = value;
    }
    return est_coordinator_enqueue(c, call);
}

est_status est_coordinator_schedule(est_coordinator *coordinator, const est_function *function, est_arguments arguments,
                                    est_remote_value **out)
{
    est_remote_value *value = NULL;
    est_function     *f;
    est_status        status;

    EST_REQUIRE(coordinator);
    EST_REQUIRE(function);
    EST_REQUIRE_LIST("est_coordinator_schedule: arguments", arguments);
    memcpy(&f, &function, sizeof f); /* const for the program: only its references change */
    if (f->object.coordinator != coordinator)
        return est_fail(EST_INVALID_ARGUMENT, "'%s' is a function of another coordinator", f->object.name);
    for (int i = 0; i < arguments.n; i++) EST_TRY(check_argument(coordinator, f, &arguments.data[i]));
    if (out != NULL) EST_TRY(est_remote_value_make(coordinator, f->n_fetches, &value));
    pthread_mutex_lock(&coordinator->lock);
    status = schedule(coordinator, f, arguments, value);
    pthread_mutex_unlock(&coordinator->lock);
    if (status == EST_OK && out != NULL) *out = value;
    if (status != EST_OK) est_remote_value_free(value);
    return status;
}

/* --- join, done --------------------------------------------------------------------------------------------------- */

est_status est_coordinator_join(est_coordinator *coordinator)
{
    est_status status;

    EST_REQUIRE(coordinator);
    pthread_mutex_lock(&coordinator->lock);
    status = est_coordinator_await(coordinator, is_joined, NULL, "calls have not completed, or a ps task is lost");
    if (!coordinator->polled.looking) end_wait(&coordinator->polled);
    if (status == EST_OK) status = check_halted(coordinator);
    if (status == EST_OK) status = take_error(coordinator);
    pthread_mutex_unlock(&coordinator->lock);
    est_coordinator_free_replaced(coordinator);
    return status;
}

/* A loop over done is a wait, of all threads together. Under `lock`. */
static est_status note_poll(est_coordinator *c, bool done)
{
    est_call_wait *w      = &c->polled;
    est_status     status = EST_OK;

    if (w->looking) return EST_OK;
    if (!done) {
        begin_wait(c, w, "scheduled calls have not completed");
        status = look_around(c, w);
    }
    if (done || status != EST_OK) end_wait(w);
    return status;
}

est_status est_coordinator_done(est_coordinator *coordinator, bool *done)
{
    est_coordinator *c = coordinator;
    est_status       status;

    EST_REQUIRE(coordinator);
    EST_REQUIRE(done);
    pthread_mutex_lock(&c->lock);
    status = check_halted(c);
    if (status == EST_OK && needs_recovery(c)) status = recover(c);
    if (status == EST_OK) status = check_halted(c);
    est_signals_tell(status);
    if (status == EST_OK && !is_done(c, NULL)) status = check_signal();
    if (status == EST_OK && c->failed && c->under_way == 0) status = take_error(c);
    if (status == EST_OK) {
        *done  = is_done(c, NULL);
        status = note_poll(c, *done);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}
