/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop. Which fetches a run computes depends on what hooks want of it; a step is prepared for every combination
 * that comes up, of which there are few (nothing; a log line; summaries; both), and kept. */
#include "train/loop_state.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/callback.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "data/stage.h"
#include "runtime/session.h"
#include "train/hooks.h"
#include "train/summary_writer.h"

#define FRUITLESS_MAX           8  /* sessions that were made, and failed before they came to a new step */
#define RECOVERY_PAUSE_SECS_MAX 30 /* between two of them: 0, 1, 2, 4, ... */

/* Turns a caught signal into a request to stop. */
static bool stop_signalled(est_loop *loop)
{
    if (est_stop_signal() == 0) return false;
    loop->signalled = loop->signalled || !loop->stop;
    est_loop_request_stop(loop, est_stop_signal_name());
    return true;
}

static est_status end_here(est_loop *loop)
{
    loop->at_end = true;
    return EST_OUT_OF_RANGE;
}

/* --- input -------------------------------------------------------------------------------------------------------- */

static int n_fields(const est_loop *loop)
{
    return est_loop_replicas(loop) * est_loop_components(loop);
}

static void drop_batch(est_loop *loop)
{
    if (loop->batch != NULL) est_element_clear(loop->batch, n_fields(loop));
    for (int i = 0; i < loop->spec.n_feeds && loop->values != NULL; i++) loop->values[i] = NULL;
    loop->has_batch = false;
}

est_status est_loop_reset_input(est_loop *loop)
{
    drop_batch(loop);
    loop->input_ended = false;
    est_iterator_free(loop->input);
    loop->input = NULL;
    return loop->spec.input != NULL ? est_iterator_open_turn(loop->spec.input, loop->turn, &loop->input) : EST_OK;
}

/* The batches of a step, as many as there are. */
static est_status read_batches(est_loop *loop, est_field *out, int *n)
{
    est_status status = EST_OK;

    for (*n = 0; *n < est_loop_replicas(loop); ++*n) {
        status = est_iterator_next(loop->input, out + *n * est_loop_components(loop));
        if (status != EST_OK) break;
    }
    if (status == EST_OK || status == EST_OUT_OF_RANGE) return EST_OK;
    est_element_clear(out, n_fields(loop));
    return est_fail_context(status, "reading the input");
}

/* A replica for which there is no batch gets the first, which counts for nothing then. */
static void feed_batches(est_loop *loop, int n)
{
    for (int r = 0; r < est_loop_replicas(loop) && loop->rows != NULL; r++) {
        const est_field *batch = &loop->batch[r * est_loop_components(loop)];

        *(float *)est_tensor_mutable_data(loop->rows[r]) = r < n ? (float)est_field_rows(batch) : 0;
    }
    for (int i = 0; i < loop->spec.n_feeds; i++) {
        const est_loop_feed *feed  = &loop->feeds[i];
        const est_field     *batch = &loop->batch[(feed->replica < n ? feed->replica : 0) * est_loop_components(loop)];

        loop->values[i] = feed->value != NULL ? feed->value
                          : feed->rows        ? loop->rows[feed->replica]
                          : feed->splits      ? batch[feed->component].splits
                                              : batch[feed->component].values;
    }
}

/* The next batch, or one for each replica, unless what is at hand has still to be run. At the end of the input the last
 * one stays, so that what hooks see in their end is still there. */
static est_status pull_batch(est_loop *loop, bool *has_one)
{
    est_field *batch = loop->next;
    int        n;

    *has_one = true;
    if (loop->has_batch || loop->input == NULL) return EST_OK;
    EST_TRY(read_batches(loop, batch, &n));
    if (n == 0) {
        loop->input_ended = true;
        *has_one          = false;
        return EST_OK;
    }
    drop_batch(loop);
    loop->ran   = -1; /* results may lie in the batch that is gone */
    loop->next  = loop->batch;
    loop->batch = batch;
    feed_batches(loop, n);
    loop->has_batch = true;
    return EST_OK;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* Fetches of every run come first: the loss and the step, when they are there. */
static int n_own(const est_loop *loop)
{
    return (loop->spec.loss.graph != NULL) + (loop->spec.global_step.graph != NULL);
}

static int n_asked_feeds(const est_loop *loop)
{
    return loop->ask != NULL ? loop->ask->feeds.n : 0;
}

/* Steps go with their session, unless that is lent. */
static void free_variant(const est_loop *loop, est_loop_variant *variant)
{
    if (loop->spec.lent != NULL) est_step_free(variant->step);
    if (variant->prepared != NULL) loop->spec.engine->free(variant->prepared);
    est_free(variant->wanted);
    est_free(variant->place);
    est_free(variant->values);
}

static void forget_variants(est_loop *loop)
{
    if (loop->far_loss != NULL) loop->loss = est_loop_loss(loop);
    for (int i = 0; i < loop->n_variants; i++) {
        free_variant(loop, &loop->variants[i]);
    }
    if (loop->spec.lent != NULL) est_step_free(loop->idle);
    loop->far_loss   = NULL;
    loop->n_variants = 0;
    loop->idle       = NULL;
    loop->ran        = -1;
}

est_status est_loop_make_room(est_loop *loop)
{
    bool              *wanted = est_arena_alloc(loop->arena, (size_t)loop->fetches.n + 1);
    const est_tensor **values = est_arena_alloc(loop->arena, (size_t)(loop->fed.n + 1) * sizeof *values);

    if (wanted == NULL || values == NULL) return est_no_memory();
    if (loop->wanted != NULL) memcpy(wanted, loop->wanted, (size_t)loop->n_wanted);
    if (loop->values != NULL) memcpy(values, loop->values, (size_t)loop->n_values * sizeof *values);
    loop->wanted   = wanted;
    loop->n_wanted = loop->fetches.n;
    loop->values   = values;
    loop->n_values = loop->fed.n;
    for (int i = 0; i < loop->n_variants; i++) est_step_free(loop->variants[i].step);
    for (int i = 0; i < loop->n_variants; i++) loop->variants[i].step = NULL;
    forget_variants(loop);
    return EST_OK;
}

static void put_nodes(est_node *out, int *n, est_nodes nodes)
{
    if (nodes.n > 0) memcpy(out + *n, nodes.data, (size_t)nodes.n * sizeof *out);
    *n += nodes.n;
}

static bool has_nan_hook(const est_loop *loop)
{
    for (int i = 0; i < loop->spec.hooks.n; i++) {
        if (est_is_nan_hook(loop->hooks[i])) return true;
    }
    return false;
}

/* Fills fetches and feeds, for which there is room, and prepares the step. */
static est_status prepare_step(est_loop *loop, est_loop_variant *out, est_node *fetches, est_node *feeds)
{
    const est_loop_ask *ask = loop->ask;
    int                 n = 0, n_feeds = 0;

    out->ask = ask;
    memcpy(out->wanted, loop->wanted, (size_t)loop->fetches.n);
    if (loop->spec.loss.graph != NULL) fetches[n++] = loop->spec.loss;
    if (loop->spec.global_step.graph != NULL) fetches[n++] = ask != NULL ? ask->global_step : loop->spec.global_step;
    for (int i = 0; i < loop->fetches.n; i++) {
        out->place[i] = loop->wanted[i] ? n : -1;
        if (loop->wanted[i]) fetches[n++] = loop->fetches.data[i];
    }
    out->asked = n;
    if (ask != NULL) put_nodes(fetches, &n, ask->fetches);
    put_nodes(feeds, &n_feeds, (est_nodes){ loop->fed.data, loop->fed.n });
    if (ask != NULL) put_nodes(feeds, &n_feeds, ask->feeds);
    if (loop->spec.engine != NULL) {
        return loop->spec.engine->prepare(loop->session, (est_nodes){ feeds, n_feeds }, (est_nodes){ fetches, n },
                                          &out->prepared);
    }
    EST_TRY(est_session_prepare(loop->session, (est_nodes){ feeds, n_feeds }, (est_nodes){ fetches, n },
                                ask != NULL ? ask->targets : (est_nodes){ loop->targets, loop->spec.targets.n },
                                &out->step));
    out->plan = est_step_plan(out->step);
    if (loop->spec.runs_ahead && loop->spec.loss.graph != NULL && has_nan_hook(loop)) {
        out->watched = est_plan_watch(out->plan, 0);
    }
    return EST_OK;
}

static est_status prepare(est_loop *loop, est_loop_variant *out)
{
    int        n_feeds = loop->fed.n + n_asked_feeds(loop), n_asked = loop->ask != NULL ? loop->ask->fetches.n : 0;
    est_node  *fetches = est_alloc((size_t)(n_own(loop) + loop->fetches.n + n_asked + 1) * sizeof *fetches);
    est_node  *feeds   = est_alloc((size_t)(n_feeds + 1) * sizeof *feeds);
    est_status status  = EST_OK;

    *out = (est_loop_variant){ .wanted = est_alloc((size_t)loop->fetches.n + 1),
                               .place  = est_alloc(((size_t)loop->fetches.n + 1) * sizeof *out->place),
                               .values = est_alloc(((size_t)n_feeds + 1) * sizeof *out->values) };
    if (fetches == NULL || feeds == NULL || out->wanted == NULL || out->place == NULL || out->values == NULL) {
        status = est_no_memory();
    }
    if (status == EST_OK) status = prepare_step(loop, out, fetches, feeds);
    est_free(fetches);
    est_free(feeds);
    if (status != EST_OK) free_variant(loop, out);
    return status;
}

/* The number of the variant for what is wanted now. */
static est_status find_variant(est_loop *loop, int *out)
{
    for (int i = 0; i < loop->n_variants; i++) {
        if (loop->variants[i].ask != loop->ask ||
            memcmp(loop->variants[i].wanted, loop->wanted, (size_t)loop->fetches.n) != 0)
            continue;
        *out = i;
        return EST_OK;
    }
    if (loop->n_variants == loop->variants_capacity) {
        int               capacity = loop->variants_capacity > 0 ? 2 * loop->variants_capacity : 4;
        est_loop_variant *variants = est_realloc(loop->variants, (size_t)capacity * sizeof *variants);

        if (variants == NULL) return est_no_memory();
        loop->variants          = variants;
        loop->variants_capacity = capacity;
    }
    EST_TRY(prepare(loop, &loop->variants[loop->n_variants]));
    *out = loop->n_variants++;
    return EST_OK;
}

/* Only hooks of the user's fail without a word. */
static est_status blame_hook(const est_loop *loop, int i, const char *member, est_status status)
{
    int number = i - loop->spec.given;

    if (number < 0 || number >= loop->spec.n_given)
        return est_callback_status(status, "a hook of the model: %s", member);
    return est_callback_status(status, "hook %d: %s", number, member);
}

est_status est_loop_call_hooks(est_loop *loop, size_t member, const char *name, bool idle)
{
    for (int i = 0; i < loop->spec.hooks.n; i++) {
        est_status (*call)(est_hook *, est_loop *);

        if (idle && !EST_MEMBER(loop->hooks[i], idle)) continue;
        if ((loop->hooks[i]->struct_size & 0xffff) < member + sizeof call) continue; /* of an older header */
        memcpy(&call, (const char *)loop->hooks[i] + member, sizeof call);
        if (call == NULL) continue;
        est_error_clear();
        EST_TRY(blame_hook(loop, i, name, call(loop->hooks[i], loop)));
        if (loop->failed != EST_OK) return est_error_raise(&loop->error);
    }
    return EST_OK;
}

#define CALL_HOOKS(loop, member) est_loop_call_hooks((loop), offsetof(est_hook, member), #member, false)
#define CALL_IDLE(loop, member)  est_loop_call_hooks((loop), offsetof(est_hook, member), #member, true)

/* Everything that is fed has a value. */
static est_status check_values(const est_loop *loop)
{
    for (int i = 0; i < loop->fed.n; i++) {
        if (loop->values[i] != NULL) continue;
        return est_fail(EST_FAILED_PRECONDITION, "'%s' is fed by %s, which gave it no value%s",
                        est_node_name(loop->fed.data[i]), i < loop->spec.n_feeds ? "the input" : "a hook",
                        i < loop->spec.n_feeds ? "" : ": call est_loop_set_feed in before_run");
    }
    return EST_OK;
}

static void put_values(est_loop *loop, const est_tensor **out)
{
    if (loop->fed.n > 0) memcpy(out, loop->values, (size_t)loop->fed.n * sizeof *out);
    if (n_asked_feeds(loop) > 0) memcpy(out + loop->fed.n, loop->asked, (size_t)loop->ask->feeds.n * sizeof *out);
}

/* *ends: there is no step left to make, or a signal ended the wait, and before a step is as good as after one. */
static est_status await_turn(est_loop *loop, bool *ends)
{
    const est_loop_strategy *strategy = &loop->spec.strategy;
    est_status               status;

    *ends = false;
    if (strategy->turn == NULL) return EST_OK;
    status = strategy->turn(strategy->user, ends);
    if (status == EST_CANCELLED && stop_signalled(loop)) {
        *ends = true;
        return EST_OK;
    }
    EST_TRY(status);
    if (*ends) est_loop_request_stop(loop, "all steps were made");
    return EST_OK;
}

/* Whether nobody is sure to look at a value of the run. */
static bool may_run_ahead(const est_loop *loop)
{
    bool looks = loop->ask != NULL || loop->traced || loop->spec.fetches.n > 0;

    for (int i = 0; i < loop->fetches.n; i++) looks = looks || loop->wanted[i];
    return loop->spec.runs_ahead && !looks;
}

/* A run that the program asks for needs a turn only if it trains, which is known when it is prepared. */
static est_status run_variant(est_loop *loop, est_loop_variant *variant)
{
    bool ends = false;

    if (loop->ask != NULL && est_step_trains(variant->step)) EST_TRY(await_turn(loop, &ends));
    if (ends) return end_here(loop);
    put_values(loop, variant->values);
    if (loop->spec.engine != NULL) {
        return loop->spec.engine->run(variant->prepared, variant->values, loop->traced, &variant->plan);
    }
    if (loop->traced) EST_TRY(est_step_trace(variant->step, 1));
    est_session_set_run_count(loop->session, loop->run_count);
    return may_run_ahead(loop) ? est_step_start(variant->step, variant->values)
                               : est_step_run(variant->step, variant->values);
}

/* The loss of the run that was just made, or where it will be. */
static void take_loss(est_loop *loop, const est_loop_variant *variant)
{
    bool is_far = est_step_is_ahead(variant->step, 0);

    loop->far_loss = is_far ? variant->step : NULL;
    loop->watched  = is_far && variant->watched;
    if (!is_far) loop->loss = est_step_scalar(variant->step, 0);
}

/* A run that was not waited for has failed on its device: the loop is where it was then. */
static est_status fail_ahead(est_loop *loop, est_status status)
{
    const est_flight_failure *failure = est_session_failure(loop->session);
    est_error                 error;

    if (failure == NULL || !failure->failed) return status;
    est_error_take(status, &error);
    loop->run_count = est_session_run_count(loop->session);
    loop->far_loss  = NULL;
    loop->watched   = false;
    loop->loss      = NAN;
    if (loop->spec.global_step.graph != NULL) EST_TRY(est_loop_read_step(loop, &loop->global_step));
    if (!failure->is_nan) return est_error_raise(&error);
    EST_TRY(est_loop_diverged(loop, "loss"));
    return end_here(loop);
}

/* The run itself, with the hooks around it. A batch counts as used when all of them were content. */
static est_status run_hooked(est_loop *loop)
{
    est_step  *step;
    int        v, n = 0;
    est_status status;

    loop->traced = false;
    for (int i = 0; i < loop->fetches.n; i++) loop->wanted[i] = i < loop->spec.fetches.n;
    loop->asks = true;
    status     = CALL_HOOKS(loop, before_run);
    loop->asks = false;
    EST_TRY(status);
    if (loop->input_ended) return end_here(loop);
    /* A signal that came while a hook waited. With a batch at hand the step is made all the same: the position of the
     * input is already behind it, and a run that goes on from there would never see it. */
    if (!loop->has_batch && stop_signalled(loop)) return end_here(loop);
    EST_TRY(check_values(loop));
    EST_TRY(find_variant(loop, &v));
    step = loop->variants[v].step;
    EST_TRY(run_variant(loop, &loop->variants[v]));
    loop->run_count = est_session_run_count(loop->session);
    loop->ran       = v;
    loop->far_loss  = NULL;
    if (loop->spec.loss.graph != NULL) take_loss(loop, &loop->variants[v]);
    if (loop->spec.loss.graph != NULL) n++;
    if (loop->spec.global_step.graph != NULL) loop->global_step = (int64_t)est_step_scalar(step, n++);
    loop->runs++;
    loop->unmeasured = true;
    if (loop->spec.strategy.rejoin != NULL) loop->has_batch = false; /* the other workers made this step: it stays */
    EST_TRY(CALL_HOOKS(loop, after_run));
    loop->has_batch = false;
    if (loop->spec.summaries != NULL) est_summary_tick(loop->spec.summaries);
    return EST_OK;
}

static est_status run_once(est_loop *loop)
{
    est_status status = run_hooked(loop);

    return status == EST_OK || status == EST_OUT_OF_RANGE ? status : fail_ahead(loop, status);
}

/* A step of which others have the batches. Of the targets all is run that needs none; the step behind all of them may
 * be more. */
static est_status run_idle(est_loop *loop)
{
    const est_loop_strategy *strategy = &loop->spec.strategy;

    EST_TRY(CALL_IDLE(loop, before_run));
    if (loop->idle == NULL) {
        EST_TRY(est_session_prepare(loop->session, (est_nodes){ strategy->idle_feeds, strategy->n_idle },
                                    (est_nodes){ &loop->spec.loss, loop->spec.loss.graph != NULL },
                                    (est_nodes){ loop->targets, loop->spec.targets.n }, &loop->idle));
    }
    est_session_set_run_count(loop->session, loop->run_count);
    EST_TRY(est_step_run(loop->idle, strategy->idle_values));
    loop->run_count = est_session_run_count(loop->session);
    loop->ran       = -1;
    if (loop->spec.loss.graph != NULL) loop->loss = est_step_scalar(loop->idle, 0);
    if (loop->spec.global_step.graph != NULL) EST_TRY(est_loop_read_step(loop, &loop->global_step));
    loop->runs++;
    EST_TRY(CALL_IDLE(loop, after_run));
    if (loop->spec.summaries != NULL) est_summary_tick(loop->spec.summaries);
    return EST_OK;
}

/* A step that no worker has an example for is made all the same, since steps are what workers count their batches by:
 * it leaves everything as it is, and is over. */
static est_status pass_over(est_loop *loop)
{
    est_tensor *step = NULL;
    est_status  status;

    if (loop->spec.global_step.graph != NULL) {
        EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ loop->global_step + 1 }, &step));
        status = est_session_write(loop->session, "global_step", step);
        est_tensor_free(step);
        EST_TRY(status);
        loop->global_step++;
    }
    if (loop->spec.loss.graph != NULL) loop->loss = 0; /* as the mean of nothing is elsewhere */
    loop->has_batch = false;
    loop->ran       = -1;
    loop->runs++;
    EST_TRY(CALL_IDLE(loop, after_run));
    if (loop->spec.summaries != NULL) est_summary_tick(loop->spec.summaries);
    return EST_OK;
}

/* A step with the batch at hand, or without one. */
static est_status run_step(est_loop *loop, bool has_one)
{
    est_communicator *communicator = loop->spec.session.communicator;
    est_status        status;

    if (communicator == NULL) return run_once(loop);
    communicator->idle  = !has_one;
    communicator->ended = communicator->empty = false;
    status                                    = has_one ? run_once(loop) : run_idle(loop);
    if (status != EST_OUT_OF_RANGE) return status;
    return communicator->ended ? end_here(loop) : communicator->empty ? pass_over(loop) : status;
}

est_status est_loop_compute(est_loop *loop, est_nodes nodes, est_tensor **out)
{
    est_feed  *feeds = est_alloc((size_t)(loop->fed.n + n_asked_feeds(loop) + 1) * sizeof *feeds);
    int        n     = 0;
    est_status status;

    if (feeds == NULL) return est_no_memory();
    for (int i = 0; i < loop->fed.n; i++) {
        if (loop->values[i] != NULL) feeds[n++] = (est_feed){ loop->fed.data[i], loop->values[i] };
    }
    for (int i = 0; i < n_asked_feeds(loop); i++) {
        feeds[n++] = (est_feed){ loop->ask->feeds.data[i], loop->asked[i] };
    }
    status = est_session_run(loop->session, (est_feeds){ feeds, n }, nodes, EST_NO_NODES, out);
    est_free(feeds);
    return status;
}

/* --- sessions ----------------------------------------------------------------------------------------------------- */

est_status est_loop_declare(est_loop *loop)
{
    const est_loop_strategy *strategy = &loop->spec.strategy;

    if (strategy->declare == NULL || loop->declared) return EST_OK;
    EST_TRY(strategy->declare(strategy->user));
    loop->declared = true;
    return EST_OK;
}

static est_status tell_created(est_loop *loop)
{
    EST_TRY(CALL_HOOKS(loop, initialize));
    return CALL_HOOKS(loop, after_create_session);
}

/* The session of the caller has its variables; those that hooks have added in begin get their initial values. */
static est_status use_lent_session(est_loop *loop)
{
    loop->session = loop->spec.lent;
    EST_TRY(loop->spec.initialize(loop->spec.user, loop, &loop->global_step));
    loop->run_count = est_session_run_count(loop->session);
    EST_TRY(est_session_init(loop->session));
    return tell_created(loop);
}

static est_status create_session(est_loop *loop)
{
    const est_session_options *options = loop->spec.session.struct_size > 0 ? &loop->spec.session : NULL;
    est_log_level level = loop->spec.strategy.shared ? EST_LOG_DEBUG : EST_LOG_INFO; /* those come and go */

    forget_variants(loop);
    est_session_free(loop->session);
    loop->session  = NULL;
    loop->declared = false;
    EST_LOG_AT(level, "Graph was finalized.");
    EST_TRY(est_session_create(loop->spec.graph, options, &loop->session));
    EST_TRY(loop->spec.initialize(loop->spec.user, loop, &loop->global_step));
    loop->run_count = est_session_run_count(loop->session);
    EST_LOG_AT(level, "Running local_init_op.");
    EST_TRY(est_session_init(loop->session));
    EST_LOG_AT(level, "Done running local_init_op.");
    if (loop->spec.summaries != NULL) {
        est_summary_session_log(loop->spec.summaries, EST_SESSION_START, "", loop->global_step);
    }
    EST_TRY(tell_created(loop));
    return est_loop_declare(loop);
}

static bool is_recoverable(est_status status)
{
    return status == EST_ABORTED || status == EST_UNAVAILABLE;
}

/* Makes a new session until that succeeds or fails for good. The first time at once: most often the peer is back
 * already. A stop ends the waiting with the failure, because there is no session to end with. */
static est_status recover(est_loop *loop, est_status status)
{
    while (is_recoverable(status)) {
        int    doublings  = loop->recoveries - 1;
        double pause_secs = doublings < 0 ? 0 : doublings < 5 ? (double)(1 << doublings) : RECOVERY_PAUSE_SECS_MAX;

        if (++loop->recoveries > EST_RECOVERIES_MAX) {
            return est_fail_context(status, "still failing after %d new sessions", EST_RECOVERIES_MAX);
        }
        est_log_warn("%s: %s; this may be due to a task that was restarted. Making a new session.",
                     est_status_name(status), est_error_message());
        if (est_signals_wait(pause_secs)) {
            return est_fail(EST_CANCELLED, "%s while a new session was to be made (%s)", est_stop_signal_name(),
                            est_error_message());
        }
        status = create_session(loop);
    }
    return status;
}

/* Rejoins the other workers until that succeeds or fails for good. A step that others have completed with this
 * worker's batch counts, and hooks that need no batch are told of it; any other is made again. A stop that the others
 * did not reach, like one after some seconds, is forgotten: the hooks request it again where it is still due. */
static est_status rejoin(est_loop *loop, est_status status)
{
    while (is_recoverable(status)) {
        int64_t step = loop->global_step;
        bool    over = false;

        if (++loop->recoveries > EST_RECOVERIES_MAX) {
            return est_fail_context(status, "still failing after rejoining the other workers %d times",
                                    EST_RECOVERIES_MAX);
        }
        if (stop_signalled(loop)) return EST_OK;
        est_log_warn("%s: %s. Rejoining the other workers.", est_status_name(status), est_error_message());
        est_session_set_run_count(loop->session, loop->run_count); /* others may take it over */
        status = loop->spec.strategy.rejoin(loop->spec.strategy.user, loop, &step, &over);
        if (step != loop->global_step) loop->has_batch = false;
        loop->global_step = step; /* that the variables are at, whatever has failed behind that */
        loop->run_count   = est_session_run_count(loop->session);
        if (status != EST_OK) continue;
        loop->stop = loop->signalled = loop->over = false;
        if (over) {
            est_loop_job_over(loop);
        } else {
            status = CALL_IDLE(loop, after_run);
        }
    }
    return status;
}

static est_status recover_or_rejoin(est_loop *loop, est_status status)
{
    return loop->spec.strategy.rejoin != NULL ? rejoin(loop, status) : recover(loop, status);
}

/* A step that was made again after going back to a checkpoint is no progress; without steps every run is. */
static void note_progress(est_loop *loop)
{
    if (loop->spec.global_step.graph != NULL && loop->global_step <= loop->reached) return;
    loop->reached    = loop->global_step;
    loop->recoveries = loop->fruitless = 0;
}

est_status est_loop_step(est_loop *loop)
{
    for (;;) {
        bool       has_one, ends = false;
        est_status status = EST_OK;

        loop->at_end = loop->rejoined = false;
        if (loop->phase == LOOP_ENDED || stop_signalled(loop) || loop->stop) return end_here(loop);
        EST_TRY(pull_batch(loop, &has_one));
        if (!has_one && loop->spec.strategy.idle_feeds == NULL) return end_here(loop);
        if (loop->ask == NULL) status = await_turn(loop, &ends);
        if (ends) return end_here(loop);
        if (status == EST_OK) status = run_step(loop, has_one);
        if (status == EST_OK) note_progress(loop);
        if (status == EST_CANCELLED && stop_signalled(loop))
            return end_here(loop); /* a task that is stopped waits for no other */
        if (!is_recoverable(status)) return status;
        if (loop->spec.strategy.rejoin != NULL) {
            EST_TRY(rejoin(loop, status));
            loop->rejoined = loop->spec.strategy.pauses;
            if (loop->rejoined) return EST_OK;
            continue;
        }
        if (loop->spec.lent != NULL) return status;
        if (++loop->fruitless > FRUITLESS_MAX) {
            return est_fail_context(status, "%d new sessions in a row brought no new step", FRUITLESS_MAX);
        }
        EST_TRY(recover(loop, status));
    }
}

est_status est_loop_step_as(est_loop *loop, const est_loop_ask *ask, const est_tensor *const *values, est_tensor **out)
{
    const est_loop_variant *ran;

    loop->ask   = ask;
    loop->asked = values;
    EST_TRY(est_loop_step(loop));
    ran = &loop->variants[loop->ran];
    return est_step_copy(ran->step, ran->asked, ask->fetches.n, out);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

/* Where the numbers of rows are told. */
static est_status make_rows(est_loop *loop)
{
    if (loop->rows != NULL) return EST_OK;
    loop->rows = est_arena_alloc(loop->arena, (size_t)est_loop_replicas(loop) * sizeof(est_tensor *));
    if (loop->rows == NULL) return est_no_memory();
    for (int r = 0; r < est_loop_replicas(loop); r++) {
        EST_TRY(est_tensor_f32(EST_SHAPE_SCALAR, &(float){ 0 }, &loop->rows[r]));
    }
    return EST_OK;
}

static est_status copy_feeds(est_loop *loop, const est_loop_spec *spec)
{
    for (int i = 0; i < spec->n_feeds; i++) {
        const est_loop_feed *feed = &spec->feeds[i];

        if (feed->component < 0 || feed->component >= est_loop_components(loop)) {
            return est_fail(EST_INVALID_ARGUMENT, "feed %d is component %d of an input with %d", i, feed->component,
                            est_loop_components(loop));
        }
        loop->feeds[i] = *feed;
        if (feed->rows) EST_TRY(make_rows(loop));
        (void)est_loop_add_node(loop, &loop->fed, feed->node, "feed");
    }
    return EST_OK;
}

static est_status copy_spec(est_loop *loop, const est_loop_spec *spec)
{
    loop->arena = est_arena_create();
    if (loop->arena == NULL) return est_no_memory();
    loop->feeds     = est_arena_alloc(loop->arena, (size_t)(spec->n_feeds + 1) * sizeof *loop->feeds);
    loop->targets   = est_arena_alloc(loop->arena, (size_t)(spec->targets.n + 1) * sizeof *loop->targets);
    loop->hooks     = est_arena_alloc(loop->arena, (size_t)(spec->hooks.n + 1) * sizeof *loop->hooks);
    loop->batch     = est_arena_alloc(loop->arena, (size_t)(n_fields(loop) + 1) * sizeof *loop->batch);
    loop->next      = est_arena_alloc(loop->arena, (size_t)(n_fields(loop) + 1) * sizeof *loop->next);
    loop->model_dir = est_arena_strdup(loop->arena, spec->model_dir != NULL ? spec->model_dir : "");
    if (loop->feeds == NULL || loop->targets == NULL || loop->hooks == NULL || loop->batch == NULL ||
        loop->next == NULL || loop->model_dir == NULL) {
        return est_no_memory();
    }
    EST_TRY(est_hooks_check("hook", spec->hooks));
    for (int i = 0; i < spec->hooks.n; i++) loop->hooks[i] = spec->hooks.data[i];
    EST_TRY(copy_feeds(loop, spec));
    if (spec->targets.n > 0) memcpy(loop->targets, spec->targets.data, (size_t)spec->targets.n * sizeof *loop->targets);
    loop->spec.hooks.data = loop->hooks; /* the caller's list may go */
    for (int i = 0; i < spec->fetches.n; i++) (void)est_loop_fetch(loop, spec->fetches.data[i]);
    return loop->failed != EST_OK ? est_error_raise(&loop->error) : EST_OK;
}

static est_status open_loop(est_loop *loop)
{
    est_status status;

    EST_TRY(copy_spec(loop, &loop->spec));
    EST_TRY(CALL_HOOKS(loop, begin));
    EST_TRY(est_graph_status(loop->spec.graph));
    loop->phase = LOOP_RUNS;
    EST_TRY(est_loop_make_room(loop));
    EST_TRY(est_loop_reset_input(loop));
    if (loop->spec.lent != NULL) return use_lent_session(loop);
    status = create_session(loop);
    return is_recoverable(status) ? recover(loop, status) : status;
}

est_status est_loop_open(const est_loop_spec *spec, est_loop **out)
{
    est_loop  *loop = est_zalloc(sizeof *loop);
    est_status status;

    if (loop == NULL) return est_no_memory();
    loop->spec    = *spec;
    loop->loss    = NAN;
    loop->ran     = -1;
    loop->reached = -1;
    loop->epoch = loop->epochs = -1;
    status                     = open_loop(loop);
    if (status != EST_OK) {
        est_loop_free(loop);
        return status;
    }
    *out = loop;
    return EST_OK;
}

/* Other tasks may have made steps after the last one of this loop: hooks see their number, so that the last
 * checkpoint has the right name. Where no task answers any more, the last step of this loop is the best guess. */
static void ask_for_step(est_loop *loop)
{
    if (loop->spec.global_step.graph == NULL || !loop->spec.strategy.shared) return;
    if (est_loop_read_step(loop, &loop->global_step) != EST_OK)
        est_log_debug("the last step is one of our own: %s", est_error_message());
}

est_status est_loop_end(est_loop *loop)
{
    est_status status;

    if (loop->phase == LOOP_ENDED) return EST_OK;
    loop->phase = LOOP_ENDED;
    status      = loop->session != NULL ? est_session_settle(loop->session) : EST_OK;
    if (status != EST_OK) status = fail_ahead(loop, status);
    if (status != EST_OK && status != EST_OUT_OF_RANGE) return status;
    ask_for_step(loop);
    return CALL_HOOKS(loop, end);
}

/* A task that is lost while hooks end takes variables with it before they are saved: the loop goes on with a new
 * session. A hook that requested the stop at a step that comes again requests it again. */
static est_status resume(est_loop *loop, est_status status)
{
    int64_t before = loop->global_step;

    if (++loop->fruitless > FRUITLESS_MAX) {
        return est_fail_context(status, "%d new sessions in a row brought no end", FRUITLESS_MAX);
    }
    EST_TRY(recover_or_rejoin(loop, status));
    loop->phase = LOOP_RUNS;
    if (loop->global_step < before) loop->stop = loop->signalled = false;
    return EST_OK;
}

est_status est_loop_end_or_resume(est_loop *loop, bool *resumed)
{
    est_status status = est_loop_end(loop);

    *resumed = false;
    if (!is_recoverable(status) || (!loop->spec.strategy.shared && loop->spec.strategy.rejoin == NULL)) return status;
    EST_TRY(resume(loop, status));
    *resumed = true;
    return EST_OK;
}

est_status est_loop_run(est_loop *loop)
{
    est_status status;
    bool       resumed;

    for (;;) {
        do status = est_loop_step(loop);
        while (status == EST_OK);
        if (!est_loop_at_end(loop)) return status;
        EST_TRY(est_loop_end_or_resume(loop, &resumed));
        if (!resumed) return EST_OK;
    }
}

void est_loop_free(est_loop *loop)
{
    if (loop == NULL) return;
    forget_variants(loop);
    est_free(loop->variants);
    if (loop->spec.lent == NULL) est_session_free(loop->session);
    drop_batch(loop);
    for (int i = loop->spec.n_feeds; i < loop->n_values; i++) est_loop_give_back(&loop->values[i]);
    for (int r = 0; r < est_loop_replicas(loop) && loop->rows != NULL; r++) est_tensor_free(loop->rows[r]);
    est_free(loop->fed.data);
    est_free(loop->fetches.data);
    est_free(loop->logs);
    est_iterator_free(loop->input);
    est_arena_free(loop->arena);
    est_free(loop);
}
