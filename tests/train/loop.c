/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop: who is called when, stops, what hooks see, recovery, and every failure. */
#include <signal.h>

#include "base/signals.h"
#include "support/data_test.h"
#include "support/fault_loop.h"
#include "train/loop_test.h"

/* --- order -------------------------------------------------------------------------------------------------------- */

TEST(order, .setup_func = keep_log)
{
    trainer  t;
    recorder a = make_recorder("a"), b = make_recorder("b");

    make_trainer(&t, 4, 1);
    assert_ok(run_hooks(&t, EST_HOOKS(&a.hook, &b.hook)));
    expect_happened("a.begin b.begin init a.session b.session "
                    "a.before b.before a.after b.after "
                    "a.before b.before a.after b.after "
                    "a.end b.end ");
    trainer_free(&t);
}

#define LINES_OF_SESSION "Graph was finalized.\nRunning local_init_op.\nDone running local_init_op.\n"

/* Every session says that it was made. */
TEST(session_lines, .setup_func = keep_log)
{
    trainer  t;
    recorder r = make_recorder("r");

    make_trainer(&t, 4, 1);
    assert_ok(run_hooks(&t, EST_HOOKS(&r.hook)));
    assert_string_equal(lines_of(true), LINES_OF_SESSION);
    r.failure = EST_ABORTED, r.fail_after = 3;
    assert_ok(run_hooks(&t, EST_HOOKS(&r.hook)));
    assert_string_equal(lines_of(true), LINES_OF_SESSION LINES_OF_SESSION LINES_OF_SESSION);
    trainer_free(&t);
}

static est_status only_the_step(void *user, est_loop *loop, int64_t *step)
{
    (void)user;
    *step = 0;
    write_tag(est_loop_session(loop), "global_step", EST_I64, EST_SHAPE_SCALAR, 0);
    return EST_OK;
}

/* What initialize leaves out has its initial value all the same. */
TEST(rest_is_initialised, .setup_func = keep_log)
{
    trainer  t;
    recorder r = make_recorder("r");

    make_trainer(&t, 4, 1);
    t.spec.initialize = only_the_step;
    assert_ok(run_hooks(&t, EST_HOOKS(&r.hook)));
    assert_int_equal(r.calls, 2);
    trainer_free(&t);
}

/* --- random numbers ----------------------------------------------------------------------------------------------- */

static double drawn[4];

static void keep_drawn(recorder *own, est_loop *loop)
{
    drawn[est_loop_runs(loop) - 1] = est_loop_scalar(loop, own->fetch);
}

static void draw_at_random(recorder *own, est_loop *loop)
{
    own->fetch = est_loop_fetch(loop, own->node);
}

static void want_drawn(recorder *own, est_loop *loop)
{
    est_loop_want(loop, own->fetch);
}

static void run_session(recorder *own, est_loop *loop)
{
    est_tensor *value;

    assert_ok(est_session_run(est_loop_session(loop), EST_NO_FEEDS, EST_NODES(own->node), EST_NO_NODES, &value));
    est_tensor_free(value);
}

/* What hooks run on the session does not move the numbers that the loop's own runs draw. */
TEST(foreign_runs, .setup_func = keep_log)
{
    trainer  t;
    recorder draws = make_recorder("a"), runs = make_recorder("b");
    double   want[4];

    make_trainer(&t, 8, 1);
    draws.node      = est_random_uniform(est_const_list(t.graph, EST_I64S(1)), EST_F32, 3);
    runs.node       = draws.node;
    draws.in_begin  = draw_at_random;
    draws.in_before = want_drawn;
    draws.in_after  = keep_drawn;
    assert_ok(run_hooks(&t, EST_HOOKS(&draws.hook)));
    memcpy(want, drawn, sizeof want);
    assert_true(want[0] != want[1]);
    runs.in_before = runs.in_after = run_session;
    assert_ok(run_hooks(&t, EST_HOOKS(&draws.hook, &runs.hook)));
    assert_memory_equal(drawn, want, sizeof want);
    trainer_free(&t);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static est_status ragged_row(int64_t row, int i, est_tensor **out)
{
    (void)i;
    return est_tensor_i64(EST_SHAPE(4 - row), (const int64_t[]){ 1, 2, 3, 4 }, out);
}

static est_status nothing_to_initialize(void *user, est_loop *loop, int64_t *step)
{
    (void)user;
    (void)loop;
    *step = 0;
    return EST_OK;
}

/* Rows of unequal length count as rows, whether their values or their splits are fed first. */
TEST(ragged_rows, .setup_func = keep_log)
{
    const est_component component = { .name = "words", .dtype = EST_I64, .shape = { 1, { -1 } } };
    est_graph          *graph;
    est_dataset        *input;
    est_loop           *loop;
    est_loop_feed       feeds[2];
    est_node            values, splits;

    assert_ok(est_graph_create(1, &graph));
    values   = est_placeholder(graph, "values", EST_I64, EST_SHAPE(-1));
    splits   = est_placeholder(graph, "splits", EST_I64, EST_SHAPE(-1));
    feeds[0] = (est_loop_feed){ .node = values };
    feeds[1] = (est_loop_feed){ .node = splits, .splits = true };
    assert_ok(est_dataset_finish(
        est_dataset_batch(est_test_rows(&component, 1, 3, ragged_row, NULL), 3, EST_BATCH(.rows = EST_ROWS_RAGGED)),
        &input));
    for (int first = 0; first < 2; first++) {
        est_loop_spec spec = { .graph      = graph,
                               .input      = input,
                               .feeds      = (const est_loop_feed[]){ feeds[first], feeds[1 - first] },
                               .n_feeds    = 2,
                               .fetches    = EST_NODES(values),
                               .initialize = nothing_to_initialize };

        assert_ok(est_loop_open(&spec, &loop));
        assert_int_equal(est_loop_batch_rows(loop), 0);
        assert_ok(est_loop_step(loop));
        assert_int_equal(est_loop_batch_rows(loop), 3);
        est_loop_free(loop);
    }
    est_dataset_free(input);
    est_graph_free(graph);
}

/* --- stops -------------------------------------------------------------------------------------------------------- */

TEST(stop, .setup_func = keep_log)
{
    trainer   t;
    est_loop *loop;
    recorder  a = make_recorder("a"), b = make_recorder("b");

    make_trainer(&t, 4, EST_FOREVER);
    a.stop_after = b.stop_after = 2;
    t.spec.hooks                = EST_HOOKS(&a.hook, &b.hook);
    assert_ok(est_loop_open(&t.spec, &loop));
    assert_string_equal(est_loop_stop_reason(loop), "");
    assert_int_equal(est_loop_runs(loop), 0);
    assert_true(isnan(est_loop_loss(loop)));
    assert_ok(est_loop_step(loop));
    assert_false(est_loop_should_stop(loop));
    assert_ok(est_loop_step(loop));
    assert_true(est_loop_should_stop(loop));
    assert_int_equal(est_loop_step(loop), EST_OUT_OF_RANGE);
    expect_happened("a.begin b.begin init a.session b.session "
                    "a.before b.before a.after b.after "
                    "a.before b.before a.after b.after ");
    assert_string_equal(est_loop_stop_reason(loop), "a");
    assert_false(est_loop_input_ended(loop));
    assert_int_equal(est_loop_runs(loop), 2);
    assert_int_equal(est_loop_global_step(loop), 2);
    assert_ok(est_loop_end(loop));
    assert_ok(est_loop_end(loop)); /* once is enough */
    assert_int_equal(est_loop_step(loop), EST_OUT_OF_RANGE);
    expect_happened("a.end b.end ");
    est_loop_free(loop);
    est_loop_free(NULL);
    trainer_free(&t);
}

/* The caller may end early, and an end is an end. */
TEST(end_early, .setup_func = keep_log)
{
    trainer   t;
    est_loop *loop;

    make_trainer(&t, 4, EST_FOREVER);
    assert_ok(est_loop_open(&t.spec, &loop));
    assert_ok(est_loop_step(loop));
    assert_ok(est_loop_end(loop));
    assert_int_equal(est_loop_step(loop), EST_OUT_OF_RANGE);
    assert_int_equal(est_loop_runs(loop), 1);
    est_loop_free(loop);
    trainer_free(&t);
}

static void raise_term(recorder *own, est_loop *loop)
{
    (void)loop;
    if (own->calls == 1) raise(SIGTERM);
}

static void raise_term_before(recorder *own, est_loop *loop)
{
    (void)loop;
    if (own->befores == 1) raise(SIGTERM);
}

TEST(signal, .setup_func = keep_log)
{
    trainer   t;
    est_loop *loop;
    recorder  a = make_recorder("a"), b = make_recorder("b");

    make_trainer(&t, 4, EST_FOREVER);
    a.in_after   = raise_term;
    t.spec.hooks = EST_HOOKS(&a.hook, &b.hook);
    est_signals_catch();
    assert_ok(est_loop_open(&t.spec, &loop));
    assert_ok(est_loop_run(loop));
    assert_string_equal(est_loop_stop_reason(loop), "SIGTERM");
    expect_happened("a.begin b.begin init a.session b.session a.before b.before a.after b.after a.end b.end ");
    est_loop_free(loop);
    est_signals_release(EST_CANCELLED);

    a = make_recorder("a"); /* while a hook waits: the batch that was read is used, so that a resumed run has seen it */
    a.in_before  = raise_term_before;
    t.spec.hooks = EST_HOOKS(&a.hook);
    est_signals_catch();
    assert_ok(est_loop_open(&t.spec, &loop));
    assert_ok(est_loop_run(loop));
    assert_int_equal(est_loop_runs(loop), 2);
    expect_happened("a.begin init a.session a.before a.after a.before a.after a.end ");
    est_loop_free(loop);
    est_signals_release(EST_CANCELLED);
    trainer_free(&t);
}

/* As a step that waits for another task ends. */
static est_status give_up_waiting(est_hook *hook, est_loop *loop)
{
    (void)hook;
    if (est_loop_runs(loop) == 0) return EST_OK;
    raise(SIGTERM);
    return est_fail(EST_CANCELLED, "%s while waiting for ps:0", est_stop_signal_name());
}

/* A step that a signal ended is none, and the run ends as after any other: hooks save what there is. */
TEST(signal_in_step, .setup_func = keep_log)
{
    trainer   t;
    est_loop *loop;
    recorder  a     = make_recorder("a");
    est_hook  waits = EST_HOOK(.before_run = give_up_waiting);

    make_trainer(&t, 4, EST_FOREVER);
    t.spec.hooks = EST_HOOKS(&a.hook, &waits);
    est_signals_catch();
    assert_ok(est_loop_open(&t.spec, &loop));
    assert_ok(est_loop_run(loop));
    assert_string_equal(est_loop_stop_reason(loop), "SIGTERM");
    assert_int_equal(est_loop_runs(loop), 1);
    expect_happened("a.begin init a.session a.before a.after a.before a.end ");
    est_loop_free(loop);
    est_signals_release(EST_CANCELLED);
    trainer_free(&t);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

TEST(hook_failures, .setup_func = keep_log)
{
    trainer  t;
    recorder a = make_recorder("a"), b = make_recorder("b");

    make_trainer(&t, 4, 1);
    a.begin_failure = EST_NOT_FOUND;
    expect_error(run_hooks(&t, EST_HOOKS(&a.hook, &b.hook)), EST_NOT_FOUND, "a fails in begin");
    expect_happened("a.begin ");

    a                  = make_recorder("a");
    a.session_failure  = EST_DATA_LOSS;
    a.session_failures = 1;
    expect_error(run_hooks(&t, EST_HOOKS(&a.hook, &b.hook)), EST_DATA_LOSS, "a fails in session");
    expect_happened("a.begin b.begin init a.session ");

    a = make_recorder("a"), a.failure = EST_INTERNAL, a.fail_before = 1;
    expect_error(run_hooks(&t, EST_HOOKS(&b.hook, &a.hook)), EST_INTERNAL, "a fails in before");
    expect_happened("b.begin a.begin init b.session a.session b.before a.before ");

    a = make_recorder("a"), a.failure = EST_INTERNAL, a.fail_after = 1;
    expect_error(run_hooks(&t, EST_HOOKS(&a.hook, &b.hook)), EST_INTERNAL, "a fails in after");
    expect_happened("a.begin b.begin init a.session b.session a.before b.before a.after ");

    a = make_recorder("a"), a.end_failure = EST_DATA_LOSS;
    expect_error(run_hooks(&t, EST_HOOKS(&a.hook, &b.hook)), EST_DATA_LOSS, "a fails in end");
    happened[0] = '\0';

    /* The end of the input is the loop's to say: of a hook it is an error, whatever it has read. */
    a = make_recorder("a"), a.failure = EST_OUT_OF_RANGE, a.fail_before = 2;
    expect_error(run_hooks(&t, EST_HOOKS(&a.hook)), EST_OUT_OF_RANGE, "a fails in before");
    expect_happened("a.begin init a.session a.before a.after a.before ");
    a = make_recorder("a"), a.failure = EST_OUT_OF_RANGE, a.fail_after = 1;
    expect_error(run_hooks(&t, EST_HOOKS(&a.hook)), EST_OUT_OF_RANGE, "a fails in after");
    happened[0] = '\0';

    expect_error(run_hooks(&t, EST_HOOKS(&a.hook, est_stop_at_secs_hook(-1))), EST_INVALID_ARGUMENT,
                 "hook 1 is NULL: a stop after -1 seconds");
    trainer_free(&t);
}

static void fetch_too_late(recorder *own, est_loop *loop)
{
    own->fetch = est_loop_fetch(loop, own->node);
}

TEST(fetch_errors, .setup_func = keep_log)
{
    trainer  t, other;
    recorder a = make_recorder("a");

    make_trainer(&t, 4, 1);
    make_trainer(&other, 4, 1);
    a.in_begin = fetch_too_late;
    expect_error(run_hooks(&t, EST_HOOKS(&a.hook)), EST_INVALID_ARGUMENT, "does not exist");
    a.node = other.loss;
    expect_error(run_hooks(&t, EST_HOOKS(&a.hook)), EST_INVALID_ARGUMENT, "'loss', which is a node of another graph");
    a.node     = t.loss;
    a.in_begin = NULL;
    a.in_after = fetch_too_late;
    expect_error(run_hooks(&t, EST_HOOKS(&a.hook)), EST_FAILED_PRECONDITION, "only in begin");
    t.feeds[1].component = 2;
    expect_error(run_hooks(&t, EST_HOOKS(&a.hook)), EST_INVALID_ARGUMENT, "component 2");
    trainer_free(&t);
    trainer_free(&other);
}

/* --- what hooks see ----------------------------------------------------------------------------------------------- */

static void fetch_node(recorder *own, est_loop *loop)
{
    own->fetch = est_loop_fetch(loop, own->node);
}

static void want_even(recorder *own, est_loop *loop)
{
    assert_null(est_loop_data(loop, own->fetch)); /* that of the last run is gone */
    if (own->befores % 2 == 0) est_loop_want(loop, own->fetch);
    est_loop_want(loop, -1);
    est_loop_want(loop, 99);
}

/* Every batch is (1 2); it is wanted in runs 1, 3 and 5. */
static void see_input(recorder *own, est_loop *loop)
{
    const float *x = est_loop_data(loop, own->fetch);

    assert_int_equal(est_loop_batch_rows(loop), 2);
    assert_int_equal(est_loop_runs(loop), own->calls);
    assert_int_equal(est_loop_global_step(loop), own->calls);
    assert_int_equal(est_loop_dtype(loop, own->fetch), EST_F32);
    assert_true(isnan(est_loop_scalar(loop, own->fetch)));
    if (own->calls % 2 == 0) {
        assert_null(x);
        assert_null(est_loop_shape(loop, own->fetch));
    } else {
        assert_non_null(x);
        assert_true(x[0] == 1 && x[1] == 2);
        assert_int_equal(est_loop_shape(loop, own->fetch)->dim[0], 2);
    }
}

static void see_input_at_end(recorder *own, est_loop *loop)
{
    const float *x = est_loop_data(loop, own->fetch); /* a fetched feed is the feed itself */

    assert_true(x[0] == 1 && x[1] == 2);
    assert_true(est_loop_input_ended(loop));
}

/* Names the node in the first run in which it wants it; it keeps its number then. */
static void want_even_late(recorder *own, est_loop *loop)
{
    int before = own->fetch;

    if (own->befores % 2 != 0) return;
    own->fetch = est_loop_fetch(loop, own->node);
    assert_true(own->befores == 0 || own->fetch == before);
    est_loop_want(loop, own->fetch);
}

TEST(values_named_before_a_run, .setup_func = keep_log)
{
    trainer  t;
    recorder a = make_recorder("a"), b = make_recorder("b");

    make_trainer(&t, 2, 5);
    a.node      = t.x;
    b.node      = t.loss;
    a.in_before = b.in_before = want_even_late;
    a.in_after                = see_input;
    assert_ok(run_hooks(&t, EST_HOOKS(&a.hook, &b.hook)));
    assert_int_not_equal(a.fetch, b.fetch);
    trainer_free(&t);
}

TEST(values, .setup_func = keep_log)
{
    trainer   t;
    est_loop *loop;
    est_node  always[1];
    double    w = 0;
    recorder  a = make_recorder("a"), b = make_recorder("b");

    make_trainer(&t, 2, 5);
    always[0]      = t.loss;
    t.spec.fetches = (est_nodes){ always, 1 };
    a.node         = t.x;
    a.in_begin     = fetch_node;
    a.in_before    = want_even;
    a.in_after     = see_input;
    a.in_end       = see_input_at_end;
    t.spec.hooks   = EST_HOOKS(&a.hook, &b.hook);
    assert_ok(est_loop_open(&t.spec, &loop));
    assert_int_equal(est_loop_batch_rows(loop), 0);
    for (int run = 0; run < 5; run++) {
        double loss = ((w - 2) * (w - 2) + (2 * w - 4) * (2 * w - 4)) / 2;

        assert_ok(est_loop_step(loop));
        assert_near(est_loop_loss(loop), loss, 1e-6);
        assert_true(est_loop_scalar(loop, 0) == est_loop_loss(loop)); /* of the spec: always there */
        w -= 0.01 * 5 * (w - 2);
    }
    assert_int_equal(est_loop_step(loop), EST_OUT_OF_RANGE);
    assert_ok(est_loop_end(loop));
    assert_int_equal(a.fetch, 1);
    est_loop_free(loop);
    trainer_free(&t);
}

TEST(bare, .setup_func = keep_log)
{
    trainer   t;
    est_loop *loop;
    recorder  a = make_recorder("a");
    est_node  add;

    make_trainer(&t, 2, 1);
    add          = est_assign_add(est_global_step(t.graph), est_scalar(t.graph, EST_I64, 1));
    a.stop_after = 3;
    t.spec       = (est_loop_spec){
              .graph = t.graph, .targets = EST_NODES(add), .initialize = trainer_initialize, .user = &t
    };
    t.spec.hooks = EST_HOOKS(&a.hook);
    assert_ok(est_loop_open(&t.spec, &loop));
    assert_null(est_loop_input(loop));
    assert_string_equal(est_loop_model_dir(loop), "");
    est_loop_summary(loop, "nobody", 1);
    assert_ok(est_loop_run(loop));
    assert_int_equal(est_loop_runs(loop), 3);
    assert_int_equal(est_loop_global_step(loop), 0); /* not told */
    assert_true(isnan(est_loop_loss(loop)));
    assert_null(est_loop_data(loop, 0));
    est_loop_free(loop);
    trainer_free(&t);
}

/* --- feeds of hooks ----------------------------------------------------------------------------------------------- */

typedef struct feeder {
    est_hook hook;
    est_node node;
    int      feed, runs;
    bool     silent;
} feeder;

static est_status feeder_begin(est_hook *hook, est_loop *loop)
{
    feeder *own = EST_CONTAINER_OF(hook, feeder, hook);

    own->feed = est_loop_add_feed(loop, own->node);
    return EST_OK;
}

static est_status feeder_before_run(est_hook *hook, est_loop *loop)
{
    feeder     *own   = EST_CONTAINER_OF(hook, feeder, hook);
    float       value = (float)++own->runs;
    est_tensor *tensor;

    if (own->silent || own->runs == 3) return EST_OK; /* the third run sees the second value again */
    EST_TRY(est_tensor_f32(EST_SHAPE_SCALAR, &value, &tensor));
    est_loop_set_feed(loop, own->feed, tensor);
    est_tensor_free(tensor);
    return EST_OK;
}

static est_status feed_wrong(est_hook *hook, est_loop *loop)
{
    (void)hook;
    est_loop_set_feed(loop, 7, NULL);
    return EST_OK;
}

static void want_it(recorder *own, est_loop *loop)
{
    est_loop_want(loop, own->fetch);
}

static void see_fed(recorder *own, est_loop *loop)
{
    assert_true(est_loop_scalar(loop, own->fetch) == 10 * (own->calls == 3 ? 2 : own->calls));
}

TEST(feeds, .setup_func = keep_log)
{
    trainer  t;
    est_node z;
    recorder a     = make_recorder("a");
    feeder   one   = { .hook = EST_HOOK(.begin = feeder_begin, .before_run = feeder_before_run) }, two;
    est_hook wrong = EST_HOOK(.before_run = feed_wrong);

    make_trainer(&t, 8, 1);
    z          = est_placeholder(t.graph, "z", EST_F32, EST_SHAPE_SCALAR);
    one.node   = z;
    a.node     = est_mul(z, est_scalar(t.graph, EST_F32, 10));
    a.in_begin = fetch_node, a.in_before = want_it, a.in_after = see_fed;
    assert_ok(run_hooks(&t, EST_HOOKS(&one.hook, &a.hook)));
    assert_int_equal(one.runs, 4);

    two = one;
    expect_error(run_hooks(&t, EST_HOOKS(&one.hook, &two.hook)), EST_ALREADY_EXISTS,
                 "'z', which another hook already feeds");
    two.node = t.x;
    expect_error(run_hooks(&t, EST_HOOKS(&one.hook, &two.hook)), EST_ALREADY_EXISTS,
                 "'x', which the input already feeds");
    one.silent = true;
    expect_error(run_hooks(&t, EST_HOOKS(&one.hook)), EST_FAILED_PRECONDITION, "'z' is fed by a hook");
    expect_error(run_hooks(&t, EST_HOOKS(&wrong)), EST_INVALID_ARGUMENT, "feed 7 of 0");
    trainer_free(&t);
}

/* --- recovery ----------------------------------------------------------------------------------------------------- */

static void note_input(recorder *own, est_loop *loop)
{
    note("%g ", (double)((const float *)est_loop_data(loop, own->fetch))[0]);
}

static recorder input_recorder(const trainer *t)
{
    recorder a = make_recorder("a");

    a.node     = t->x;
    a.in_begin = fetch_node, a.in_before = want_it, a.in_after = note_input;
    return a;
}

TEST(recovery, .setup_func = keep_log)
{
    trainer  t;
    recorder a, b = make_recorder("b");

    make_trainer(&t, 6, 1);
    a         = input_recorder(&t);
    b.failure = EST_ABORTED, b.fail_before = 2; /* the batch that was under way is run in the new session */
    assert_ok(run_hooks(&t, EST_HOOKS(&a.hook, &b.hook)));
    expect_happened("a.begin b.begin init a.session b.session a.before b.before a.after 1 b.after "
                    "a.before b.before init a.session b.session "
                    "a.before b.before a.after 3 b.after "
                    "a.before b.before a.after 5 b.after a.end b.end ");
    log_expect("b fails in before; this may be due");

    a = input_recorder(&t), b = make_recorder("b");
    b.failure = EST_UNAVAILABLE, b.fail_after = 2; /* also when it had been run */
    assert_ok(run_hooks(&t, EST_HOOKS(&b.hook, &a.hook)));
    expect_happened("b.begin a.begin init b.session a.session b.before a.before b.after a.after 1 "
                    "b.before a.before b.after init b.session a.session "
                    "b.before a.before b.after a.after 3 "
                    "b.before a.before b.after a.after 5 b.end a.end ");

    a = input_recorder(&t), b = make_recorder("b");
    b.failure = EST_ABORTED, b.fail_before = 3; /* going back to a checkpoint, with the input */
    t.reset_input = true, t.sessions = 0;
    assert_ok(run_hooks(&t, EST_HOOKS(&b.hook, &a.hook)));
    expect_happened("b.begin a.begin init b.session a.session b.before a.before b.after a.after 1 "
                    "b.before a.before b.after a.after 3 b.before init b.session a.session "
                    "b.before a.before b.after a.after 1 b.before a.before b.after a.after 3 "
                    "b.before a.before b.after a.after 5 b.end a.end ");
    trainer_free(&t);
}

static void fail_always(recorder *own, est_loop *loop)
{
    (void)loop;
    own->fail_before = own->befores + 1;
}

TEST(recovery_of_sessions, .setup_func = keep_log)
{
    trainer          t;
    est_manual_clock clock;
    recorder         a;

    make_trainer(&t, 2, 1);
    est_manual_clock_init(&clock, 0, 0);
    est_clock_set(&clock.clock);
    a                  = make_recorder("a");
    a.session_failure  = EST_UNAVAILABLE;
    a.session_failures = 3;
    assert_ok(run_hooks(&t, EST_HOOKS(&a.hook)));
    expect_happened("a.begin init a.session init a.session init a.session init a.session a.before a.after a.end ");
    assert_int_equal(est_now_ns(), (0 + 1 + 2) * EST_NS_PER_SEC);

    a                  = make_recorder("a");
    a.session_failure  = EST_UNAVAILABLE;
    a.session_failures = 1000;
    expect_error(run_hooks(&t, EST_HOOKS(&a.hook)), EST_UNAVAILABLE, "still failing after 100 new sessions: a fails");
    assert_int_equal(a.session_failures, 1000 - 101);
    assert_int_equal(est_now_ns(), (3 + 31 + 94 * 30) * EST_NS_PER_SEC);

    a           = make_recorder("a"); /* sessions that can be made and come to no step are given up sooner */
    a.in_before = fail_always, a.failure = EST_ABORTED;
    expect_error(run_hooks(&t, EST_HOOKS(&a.hook)), EST_ABORTED,
                 "8 new sessions in a row brought no new step: a fails in before");
    assert_int_equal(a.befores, 1 + 8);
    log_expect("ABORTED: a fails in before; this may be due");

    a          = make_recorder("a"); /* a stop ends the waiting */
    a.in_after = raise_term, a.failure = EST_ABORTED, a.fail_after = 1;
    est_signals_catch();
    expect_error(run_hooks(&t, EST_HOOKS(&a.hook)), EST_CANCELLED,
                 "SIGTERM while a new session was to be made (a fails in after)");
    est_signals_release(EST_CANCELLED);
    est_clock_set(NULL);
    trainer_free(&t);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static est_status run_all(void)
{
    trainer    t;
    recorder   a      = make_recorder("a");
    feeder     f      = { .hook = EST_HOOK(.begin = feeder_begin, .before_run = feeder_before_run) };
    est_status status = trainer_try(&t, 6, 1);

    if (status == EST_OK) {
        a           = input_recorder(&t);
        a.in_before = want_even, a.in_after = NULL;
        f.node    = est_placeholder(t.graph, "z", EST_F32, EST_SHAPE_SCALAR);
        status    = est_graph_status(t.graph);
        a.failure = EST_ABORTED, a.fail_before = 3;
        if (status == EST_OK) status = run_hooks(&t, EST_HOOKS(&a.hook, &f.hook));
    }
    trainer_free(&t);
    happened[0] = '\0';
    return status;
}

TEST(memory, .setup_func = keep_log)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = run_all();
        fault_check_lenient(&f, status);
        if (f.n > 5000) fail_msg("no end of allocations");
    }
    assert_ok(run_all());
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
