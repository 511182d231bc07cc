/* SPDX-License-Identifier: Apache-2.0
 *
 * Training steps: turns, synchronous steps (cluster/sync_replicas.h), holds, and the end of the job. */
#include "base/argument.h"
#include "cluster/remote_internal.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

/* --- synchronous steps -------------------------------------------------------------------------------------------- */

/* asks[]: one per task. */
static est_status ask_commit(const est_tasks *r, int task, const est_packing *packing, est_ask **asks)
{
    est_payload payload;

    EST_TRY(est_packing_payload(packing, &payload));
    return est_link_ask(r->tasks[task].link, EST_METHOD_COMMIT, est_method_text(EST_METHOD_COMMIT), payload,
                        r->options.answer_secs, NULL, NULL, &asks[task]);
}

/* Commits at the clock alone, or at all other tasks. */
static est_status commit_at(const est_tasks *r, const est_remote_task *clock, bool at_clock, const est_packing *packing,
                            double stop_secs)
{
    est_ask  **asks   = est_zalloc(sizeof(est_ask *) * ((size_t)r->base.n_tasks + 1));
    est_status status = asks != NULL ? EST_OK : est_no_memory();
    est_status last;
    est_error  error;

    for (int i = 0; i < r->base.n_tasks && status == EST_OK; i++) {
        if ((&r->tasks[i] == clock) == at_clock) status = ask_commit(r, i, packing, asks);
    }
    est_error_take(status, &error);
    last = asks != NULL ? est_tasks_await_all(r, asks, EST_METHOD_COMMIT, stop_secs, NULL) : EST_OK;
    est_free(asks);
    return status == EST_OK ? last : est_error_raise(&error);
}

/* Whether another committer would fail as well: the cause is not this committer, the network or memory. */
static bool is_permanent(est_status status)
{
    switch (status) {
    case EST_OK:
    case EST_CANCELLED:
    case EST_DEADLINE_EXCEEDED:
    case EST_RESOURCE_EXHAUSTED:
    case EST_ABORTED:
    case EST_UNAVAILABLE: return false;
    default: return true;
    }
}

/* Drops the step of the packing at all tasks; the clock fails the workers that wait for it (SY3). */
static void drop_step(const est_tasks *r, const est_remote_task *clock, est_packing *packing, est_status why,
                      double stop_secs)
{
    est_error error;

    est_error_take(why, &error);
    est_wire_put_u64(&packing->head, EST_FIELD_FAILURE, (uint64_t)why);
    est_wire_put_string(&packing->head, EST_FIELD_BYTES, error.message);
    for (int at_clock = 0; at_clock < 2; at_clock++) { /* a task that cannot be reached has lost its pushes */
        if (commit_at(r, clock, at_clock, packing, stop_secs) != EST_OK) est_error_clear();
    }
    (void)est_error_raise(&error);
}

/* All other tasks first, in parallel; the clock, which answers the waiting workers, last. */
static est_status commit_step(const est_tasks *r, const est_remote_task *clock, est_step_id step, double stop_secs)
{
    est_packing packing = { 0 };
    est_status  status;

    est_wire_put_i64(&packing.head, EST_FIELD_STEP, step.step);
    est_wire_put_u64(&packing.head, EST_FIELD_TIMELINE, step.timeline);
    status = commit_at(r, clock, false, &packing, stop_secs);
    if (status == EST_OK) status = commit_at(r, clock, true, &packing, stop_secs);
    if (is_permanent(status)) drop_step(r, clock, &packing, status, stop_secs);
    est_packing_clear(&packing);
    return status;
}

est_status est_tasks_complete_step(est_tasks *r)
{
    est_packing      packing = { 0 };
    est_message     *answer;
    est_remote_task *clock;
    bool             commit, ended;
    int64_t          step;
    uint64_t         timeline;
    est_status       status;

    if (r->committed) return EST_OK;
    EST_TRY(est_tasks_clock(r, &clock));
    est_wire_put_i64(&packing.head, EST_FIELD_STEP, r->step);
    est_wire_put_u64(&packing.head, EST_FIELD_TIMELINE, r->timeline);
    est_wire_put_i64(&packing.head, EST_FIELD_SYNC_REPLICAS, r->options.sync_replicas);
    status = est_remote_task_ask_patiently(r, clock, EST_METHOD_FINISH_STEP, &packing,
                                           "other workers have not pushed yet", r->options.connect_secs, &answer);
    est_packing_clear(&packing);
    EST_TRY(status);
    commit   = est_head_u64(answer, EST_FIELD_COMMIT, 0) != 0;
    step     = (int64_t)est_head_u64(answer, EST_FIELD_STEP, 0);
    timeline = est_head_u64(answer, EST_FIELD_TIMELINE, 0);
    ended    = est_head_u64(answer, EST_FIELD_FINISHED, 0) != 0;
    est_message_free(answer);
    if (commit) {
        EST_TRY(commit_step(r, clock, (est_step_id){ r->timeline, r->step }, EST_STOP_SECS));
        step = r->step + 1;
    }
    r->committed = true;
    r->ended     = ended;
    r->step      = step;
    r->timeline  = timeline;
    return EST_OK;
}

/* Asks the clock for a turn, and learns the current step. */
static est_status ask_turn(est_tasks *r, bool *finished)
{
    est_packing      packing = { 0 };
    est_message     *answer;
    est_remote_task *clock;
    est_status       status;

    EST_TRY(est_tasks_clock(r, &clock));
    est_wire_put_i64(&packing.head, EST_FIELD_LIMIT, r->options.step_limit);
    est_wire_put_i64(&packing.head, EST_FIELD_STALENESS, r->options.max_staleness);
    est_wire_put_i64(&packing.head, EST_FIELD_SYNC_REPLICAS, r->options.sync_replicas);
    status = est_remote_task_ask_patiently(r, clock, EST_METHOD_TURN, &packing, "steps of others are under way",
                                           r->options.connect_secs, &answer);
    est_packing_clear(&packing);
    EST_TRY(status);
    *finished   = est_head_u64(answer, EST_FIELD_FINISHED, 0) != 0;
    r->step     = (int64_t)est_head_u64(answer, EST_FIELD_STEP, 0);
    r->timeline = est_head_u64(answer, EST_FIELD_TIMELINE, 0);
    est_message_free(answer);
    return EST_OK;
}

static est_status join_step(est_tasks *r, bool *finished)
{
    if (r->pushed) EST_TRY(est_tasks_complete_step(r)); /* no result of it was fetched */
    r->pushed = false;
    if (!r->committed) return ask_turn(r, finished);
    r->committed = false; /* the current step is known */
    *finished    = r->ended || (r->options.step_limit > 0 && r->step >= r->options.step_limit);
    return EST_OK;
}

/* --- training ----------------------------------------------------------------------------------------------------- */

est_status est_tasks_clock(est_tasks *r, est_remote_task **out)
{
    int task = est_tasks_located(&r->base, "global_step");

    for (int i = 0; i < r->base.n_tasks && task < 0; i++) EST_TRY(est_remote_task_list_variables(&r->tasks[i]));
    if (task < 0) task = est_tasks_located(&r->base, "global_step");
    if (task < 0) return est_fail(EST_FAILED_PRECONDITION, "no task has the variable global_step, which counts steps");
    *out = &r->tasks[task];
    return EST_OK;
}

est_status est_tasks_turn(est_remote *remote, bool *finished)
{
    est_tasks *r = est_tasks_of(remote);

    *finished        = false;
    r->base.has_turn = false;
    if (r->options.sync_replicas > 0) {
        EST_TRY(join_step(r, finished));
    } else if (!r->next_turn) {
        EST_TRY(ask_turn(r, finished));
    }
    r->next_turn     = false;
    r->base.has_turn = !*finished;
    return EST_OK;
}

est_status est_tasks_complete(est_remote *remote)
{
    est_tasks *r = est_tasks_of(remote);

    return r->pushed ? est_tasks_complete_step(r) : EST_OK;
}

/* Two chiefs are usually a mistake: the one that wins logs it as well. */
static void log_replaced(const est_remote_task *p, const est_message *answer)
{
    est_str before = est_head_bytes(answer, EST_FIELD_BYTES);

    if (before.data == NULL) return;
    est_log_warn("%s has replaced another process at %s that was still connected: %.*s", p->server->task, p->name,
                 est_text_precision(before), before.data);
}

static est_status check_chief(const est_tasks *r, const char *what)
{
    if (r->options.is_chief) return EST_OK;
    return est_fail(EST_FAILED_PRECONDITION, "only the chief %s: create its remote with .is_chief = true", what);
}

/* *timeline: that of the clock; 0: there is no clock. */
static est_status tell_ready(est_tasks *r, const est_packing *terms, uint64_t *timeline)
{
    *timeline = 0;
    for (int i = 0; i < r->base.n_tasks; i++) {
        est_remote_task *p = &r->tasks[i];
        est_message     *answer;

        EST_TRY(est_remote_task_reach(r, p, r->options.connect_secs)); /* there may have been no session yet */
        if (p->incarnation != 0 && p->incarnation != est_link_peer(p->link)->incarnation)
            return est_fail(EST_UNAVAILABLE, "%s was restarted and has lost its variables", p->name);
        EST_TRY(est_remote_task_ask(p, EST_METHOD_DECLARE_READY, terms, EST_ASK_SECS, &answer));
        log_replaced(p, answer);
        *timeline = est_head_u64(answer, EST_FIELD_TIMELINE, *timeline);
        est_message_free(answer);
    }
    return EST_OK;
}

/* With sync_replicas a second round tells all tasks the timeline that the clock gave in the first. */
est_status est_remote_declare_ready(est_remote *remote)
{
    est_tasks  *r;
    est_packing terms = { 0 };
    est_status  status;
    uint64_t    timeline;

    EST_REQUIRE(remote);
    r = est_tasks_of(remote);
    EST_TRY(check_chief(r, "declares variables ready"));
    est_tasks_pack_terms(r, &terms);
    status = tell_ready(r, &terms, &timeline);
    if (status == EST_OK && timeline > 0 && r->options.sync_replicas > 0) {
        est_wire_put_u64(&terms.head, EST_FIELD_TIMELINE, timeline);
        status = tell_ready(r, &terms, &timeline);
    }
    est_packing_clear(&terms);
    r->declared = r->declared || status == EST_OK;
    return status;
}

/* Sends HOLD to all tasks but the clock; returns the first failure. */
static est_status tell_others(const est_tasks *r, const est_remote_task *clock, const est_packing *packing)
{
    est_status status = EST_OK;
    est_error  error;

    for (int i = 0; i < r->base.n_tasks; i++) {
        est_status own = EST_OK;

        if (&r->tasks[i] != clock) own = est_remote_task_tell(&r->tasks[i], EST_METHOD_HOLD, packing, EST_ASK_SECS);
        if (own != EST_OK && status == EST_OK) est_error_take(status = own, &error);
    }
    return status == EST_OK ? EST_OK : est_error_raise(&error);
}

static void undo_hold(est_remote *remote, est_status status)
{
    est_error error;

    est_error_take(status, &error);
    if (est_remote_release(remote) != EST_OK) est_error_clear(); /* a lost task holds nothing */
    (void)est_error_raise(&error);
}

/* Commits a step whose committer was lost: every task that has not applied it has all pushes. */
static est_status finish_commit(const est_tasks *r, const est_remote_task *clock, const est_message *held)
{
    est_step_id step = { est_head_u64(held, EST_FIELD_TIMELINE, 0), (int64_t)est_head_u64(held, EST_FIELD_STEP, 0) };

    if (est_head_u64(held, EST_FIELD_COMMIT, 0) == 0) return EST_OK;
    return commit_step(r, clock, step, est_tasks_save_secs(r));
}

/* The clock comes first: it knows when no step is under way. The other tasks then refuse late pushes. A turn that this
 * task got in advance is given back, or the hold would wait for it. */
est_status est_remote_hold(est_remote *remote)
{
    est_tasks       *r       = est_tasks_of(remote);
    est_packing      packing = { 0 };
    est_message     *answer;
    est_remote_task *p;
    est_status       status;

    EST_TRY(est_tasks_clock(r, &p));
    if (r->next_turn) EST_TRY(est_remote_task_tell(p, EST_METHOD_LEAVE, &packing, EST_ASK_SECS));
    r->base.has_turn = r->next_turn = false;
    est_wire_put_bool(&packing.head, EST_FIELD_HELD, true);
    status = est_remote_task_ask_patiently(r, p, EST_METHOD_HOLD, &packing,
                                           "steps are under way, and a checkpoint waits for them",
                                           r->options.connect_secs, &answer);
    if (status == EST_OK) {
        r->held = p;
        status  = finish_commit(r, p, answer);
        est_message_free(answer);
        if (status == EST_OK) status = tell_others(r, p, &packing);
        if (status != EST_OK) undo_hold(remote, status);
    }
    est_packing_clear(&packing);
    return status;
}

/* The clock comes last: a task that gets a turn may push everywhere. */
est_status est_remote_release(est_remote *remote)
{
    est_tasks       *r       = est_tasks_of(remote);
    est_packing      packing = { 0 };
    est_remote_task *p       = r->held;
    est_status       status, last;
    est_error        error;

    if (p == NULL) return EST_OK;
    r->held = NULL;
    est_wire_put_bool(&packing.head, EST_FIELD_HELD, false);
    status = tell_others(r, p, &packing);
    est_error_take(status, &error);
    last = est_remote_task_tell(p, EST_METHOD_HOLD, &packing, EST_ASK_SECS);
    est_packing_clear(&packing);
    return status == EST_OK ? last : est_error_raise(&error);
}

est_status est_remote_await_others(est_remote *remote, bool enough)
{
    est_tasks       *r       = est_tasks_of(remote);
    est_packing      packing = { 0 };
    est_message     *answer;
    est_remote_task *p;
    est_status       status;

    EST_TRY(est_tasks_clock(r, &p));
    r->base.has_turn = r->next_turn = false; /* AWAIT_ALONE gives it back */
    est_wire_put_bool(&packing.head, EST_FIELD_FINISHED, enough);
    status = est_remote_task_ask_patiently(r, p, EST_METHOD_AWAIT_ALONE, &packing, "other tasks still train", INFINITY,
                                           &answer);
    if (status == EST_OK) est_message_free(answer);
    est_packing_clear(&packing);
    return status;
}

est_status est_remote_end_job(est_remote *remote)
{
    est_tasks  *r;
    est_packing nothing = { 0 };

    EST_REQUIRE(remote);
    r = est_tasks_of(remote);
    EST_TRY(check_chief(r, "ends the job"));
    for (int i = 0; i < remote->n_tasks; i++) {
        est_status status = est_remote_task_reach(r, &r->tasks[i], r->server->silence_secs);

        if (status == EST_OK) status = est_remote_task_tell(&r->tasks[i], EST_METHOD_DONE, &nothing, EST_ASK_SECS);
        if (status == EST_OK) continue;
        est_log_warn("%s could not be told that the job is done: %s", r->tasks[i].name, est_error_message());
    }
    return EST_OK;
}
