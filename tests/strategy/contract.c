/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of strategies: one that is defined here, a struct of functions, trains and evaluates an Estimator and
 * drives est_workers; and all of the library's have a name and say what they are. */
#include "base/alloc.h"
#include "estoc/workers.h"
#include "strategy/run.h"
#include "support/estimator_test.h"
#include "train/saver.h"

#define STEPS 6
#define EXTRA "test/steps"

/* --- a strategy of two replicas that logs what it is asked for ---------------------------------------------------- */

static char events[400]; /* the functions that were called, in order; those of every step are left out */

static void note(const char *event)
{
    size_t at = strlen(events);

    snprintf(events + at, sizeof events - at, "%s ", event);
}

typedef struct counting_state {
    int     turns;
    int64_t restored; /* what the checkpoint had; -1: nothing */
} counting_state;

static void counting_text(const est_strategy *strategy, est_strbuf *out)
{
    est_strbuf_printf(out, ", \"counts\": %d", strategy->self.replicas);
}

static est_status counting_start(est_run *run)
{
    counting_state *state = run->state;

    assert_true(state->turns == 0);
    state->restored = -1;
    note(run->purpose == EST_RUN_TRAIN ? "start" : "start_other");
    return EST_OK;
}

static est_status counting_prepare(est_run *run, est_loop_spec *spec)
{
    (void)run;
    assert_non_null(spec->graph);
    note("prepare");
    return EST_OK;
}

static est_status counting_join(est_run *run, est_loop *loop)
{
    note("join");
    return est_run_restore(run, loop);
}

/* Stops after as many steps as it likes, like a gate. */
static est_status counting_turn(est_run *run, bool *finished)
{
    counting_state *state = run->state;

    *finished = state->turns == STEPS;
    state->turns++;
    return EST_OK;
}

static est_status counting_save_input(est_run *run, est_loop *loop, est_tensor **out)
{
    (void)run;
    return est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ est_loop_global_step(loop) }, out);
}

static est_status counting_restore_input(est_run *run, est_loop *loop, const est_tensor *position)
{
    counting_state *state = run->state;

    (void)loop;
    if (position != NULL) state->restored = *(const int64_t *)est_tensor_data(position);
    return EST_OK;
}

static est_status counting_settle(est_run *run, est_loop *loop)
{
    const counting_state *state = run->state;

    assert_int_equal(est_loop_runs(loop), STEPS);
    assert_int_equal(state->restored, est_loop_global_step(loop) == STEPS ? -1 : STEPS);
    note("settle");
    return EST_OK;
}

static est_status counting_end(est_run *run)
{
    assert_true(run->leads);
    note("end");
    return EST_OK;
}

static void counting_close(est_run *run, est_status why)
{
    (void)run;
    note(est_status_name(why));
}

static est_status counting_reduce(est_run *run, est_session *session, est_nodes variables, double *counts, int n_counts)
{
    (void)run;
    (void)session;
    (void)variables;
    assert_int_equal(n_counts, 2);
    counts[1] += counts[0]; /* one more for the loss of every batch */
    note("reduce");
    return EST_OK;
}

static const est_strategy_ops counting_ops = {
    .name          = "counting",
    .about         = "two replicas, a number of steps, and a log of it",
    .state_size    = sizeof(counting_state),
    .text          = counting_text,
    .start         = counting_start,
    .prepare       = counting_prepare,
    .join          = counting_join,
    .turn          = counting_turn,
    .input_extra   = EXTRA,
    .save_input    = counting_save_input,
    .restore_input = counting_restore_input,
    .settle        = counting_settle,
    .end           = counting_end,
    .close         = counting_close,
    .reduce        = counting_reduce,
};

static const est_strategy counting = { .ops = &counting_ops, .self = { .size = 1, .replicas = 2, .is_chief = true } };

/* --- what it does ------------------------------------------------------------------------------------------------- */

static void expect_events(const char *want)
{
    assert_string_equal(events, want);
    events[0] = '\0';
}

/* The same Estimator as with a strategy of the library: two replicas of the graph, checkpoints with its position,
 * metrics. */
TEST(estimator)
{
    char           dir[64];
    est_estimator *e       = NULL;
    est_metrics   *metrics = NULL;
    int64_t        saved;
    double         loss;

    est_test_dir(dir);
    e = est_test_make(est_test_model, EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 3, .quiet = true,
                                                                             .train_distribute = &counting)));
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input)), EST_OK);
        assert_int_equal(est_saved_step(dir, &saved), EST_OK);
        assert_int_equal(saved, i * STEPS);
        expect_events("start prepare join settle end OK ");
    }
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &metrics), EST_OK);
    loss = est_metrics_get(metrics, "loss");
    est_metrics_free(metrics);
    est_estimator_free(e);
    expect_events(""); /* evaluations are those of eval_distribute */

    e = est_test_make(est_test_model, EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 3, .quiet = true,
                                                                             .eval_distribute = &counting)));
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &metrics), EST_OK);
    expect_events("start_other prepare join reduce end OK ");
    assert_float_equal(est_metrics_get(metrics, "loss"), loss + 1, 1e-6);
    est_metrics_free(metrics);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static est_status fail_in_model(est_model *model, est_mode mode, const void *params)
{
    (void)model;
    (void)mode;
    (void)params;
    return est_fail(EST_INTERNAL, "no model");
}

/* A run that fails is closed with the reason, and leaves its text. */
TEST(failure)
{
    char           dir[64];
    est_estimator *e = NULL;

    est_test_dir(dir);
    e = est_test_make(fail_in_model,
                      EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .train_distribute = &counting)));
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input)), EST_INTERNAL);
    est_test_error_has("no model");
    expect_events("start INTERNAL ");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A loop of the program's own. */
TEST(workers)
{
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_workers *workers = NULL;
    int64_t      step    = 0;

    assert_int_equal(est_graph_create(1, &graph), EST_OK);
    assert_int_equal(est_session_create(graph, NULL, &session), EST_OK);
    assert_int_equal(est_workers_create(&counting, NULL, &workers), EST_OK);
    assert_true(est_workers_count(workers) == 1 && est_workers_rank(workers) == 0);
    assert_int_equal(est_workers_join(workers, session, &step), EST_OK);
    assert_int_equal(est_workers_end(workers, session, step), EST_OK);
    est_workers_free(workers);
    est_session_free(session);
    est_graph_free(graph);
    expect_events("start_other end OK ");
}

TEST(list)
{
    est_strbuf text = { 0 };
    int        n    = 0;

    for (; est_strategies[n] != NULL; n++) {
        assert_true(est_strategies[n]->name[0] != '\0' && est_strategies[n]->about[0] != '\0');
        for (int i = 0; i < n; i++) assert_string_not_equal(est_strategies[n]->name, est_strategies[i]->name);
    }
    assert_true(n >= 6);
    assert_string_equal(est_strategies[0]->name, est_strategy_name(NULL));
    est_strategy_text(&counting, &text);
    assert_string_equal(est_strbuf_text(&text), "{\"name\": \"counting\", \"counts\": 2}");
    est_strbuf_clear(&text);
}
