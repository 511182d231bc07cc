/* SPDX-License-Identifier: Apache-2.0
 *
 * Every standard hook on a real training: what it logs, writes and stops, at which step; wrong arguments; memory. */
#include <limits.h>
#include <signal.h>

#include "base/signals.h"
#include "support/far_device.h"
#include "support/fault_loop.h"
#include "train/events_test.h"
#include "train/loop_test.h"

#define WALL INT64_C(1700000000)

static est_manual_clock clock_at;

static int set_up(void **state)
{
    est_manual_clock_init(&clock_at, 0, WALL * EST_NS_PER_SEC);
    est_clock_set(&clock_at.clock);
    return keep_log(state);
}

/* Passes half a second in every run. */
static est_status pass_time(est_hook *hook, est_loop *loop)
{
    (void)hook;
    (void)loop;
    est_manual_clock_advance(&clock_at, EST_NS_PER_SEC / 2);
    return EST_OK;
}

static est_hook ticking = EST_HOOK(.before_run = pass_time);

/* Runs with the hook, which is freed, and a ticking clock before it. */
static est_status run_one(trainer *t, est_hook *hook)
{
    est_status status;

    log_clear();
    status = run_hooks(t, EST_HOOKS(&ticking, hook));
    est_hook_free(hook);
    return status;
}

static void expect_refused(est_hook *hook, const char *text)
{
    assert_null(hook);
    if (strstr(est_error_message(), text) == NULL) fail_msg("'%s' does not say '%s'", est_error_message(), text);
}

/* --- stopping ----------------------------------------------------------------------------------------------------- */

/* Runs a loop of any number of batches; returns the runs made. */
static int runs_until(trainer *t, est_hook *hook, const char *reason)
{
    est_loop *loop;
    int       runs;

    assert_non_null(hook);
    t->spec.hooks = EST_HOOKS(&ticking, hook);
    assert_ok(est_loop_open(&t->spec, &loop));
    assert_ok(est_loop_run(loop));
    if (strstr(est_loop_stop_reason(loop), reason) == NULL) fail_msg("stopped by '%s'", est_loop_stop_reason(loop));
    runs = (int)est_loop_runs(loop);
    est_loop_free(loop);
    return runs;
}

TEST(stop_at_step, .setup_func = set_up)
{
    trainer   t;
    est_hook *hook = est_stop_at_step_hook(5, 0);
    recorder  r    = make_recorder("r");

    make_trainer(&t, 4, EST_FOREVER);
    assert_int_equal(runs_until(&t, hook, "step 5 was reached"), 5);
    assert_int_equal(runs_until(&t, hook, "step 5 was reached"), 5); /* a new loop counts from 0 */

    /* A new session goes on to the same step. */
    r.failure    = EST_ABORTED;
    r.fail_after = 3;
    log_clear();
    assert_ok(run_hooks(&t, EST_HOOKS(hook, &r.hook)));
    assert_int_equal(r.calls, 3 + 5); /* the variables of this trainer start again */
    est_hook_free(hook);

    hook = est_stop_at_step_hook(0, 3);
    assert_int_equal(runs_until(&t, hook, "step 3 was reached"), 3);
    est_hook_free(hook);
    expect_refused(est_stop_at_step_hook(0, 0), "exactly one");
    expect_refused(est_stop_at_step_hook(1, 1), "exactly one");
    expect_refused(est_stop_at_step_hook(-1, 0), "-1");
    est_hook_free(NULL);
    trainer_free(&t);
}

/* A checkpoint beyond the last step: nothing is run. */
TEST(stop_at_step_passed, .setup_func = set_up)
{
    trainer      t;
    est_hook    *hook = est_stop_at_step_hook(0, 3);
    est_loop    *loop;
    est_session *session;

    make_trainer(&t, 4, EST_FOREVER);
    assert_ok(est_saver_create(at("passed"), NULL, &t.saver));
    assert_ok(est_session_create(t.graph, NULL, &session));
    assert_ok(est_session_init(session));
    write_tag(session, "global_step", EST_I64, EST_SHAPE_SCALAR, 3);
    assert_ok(est_saver_save(t.saver, session, 3, NULL, NULL));
    t.spec.hooks = EST_HOOKS(hook);
    assert_ok(est_loop_open(&t.spec, &loop));
    assert_ok(est_loop_run(loop));
    assert_int_equal(est_loop_runs(loop), 0);
    est_loop_free(loop);
    est_hook_free(hook);
    hook = est_stop_at_step_hook(2, 0);
    assert_int_equal(runs_until(&t, hook, "step 5 was reached"), 2);
    est_hook_free(hook);
    est_session_free(session);
    est_saver_free(t.saver);
    trainer_free(&t);
}

TEST(stop_at_secs, .setup_func = set_up)
{
    trainer   t;
    est_hook *hook = est_stop_at_secs_hook(3);

    make_trainer(&t, 4, EST_FOREVER);
    assert_int_equal(runs_until(&t, hook, "3 seconds have passed"), 6);
    assert_int_equal(runs_until(&t, hook, "3 seconds have passed"), 6);
    est_hook_free(hook);
    expect_refused(est_stop_at_secs_hook(0), "above 0");
    expect_refused(est_stop_at_secs_hook(NAN), "nan");
    trainer_free(&t);
}

TEST(nan, .setup_func = set_up)
{
    trainer   t;
    est_hook *hook = est_nan_hook(true);
    recorder  r    = make_recorder("r");

    make_trainer(&t, 4, 3);
    assert_ok(run_hooks(&t, EST_HOOKS(hook, &r.hook)));
    assert_int_equal(r.calls, 6);
    t.spec.loss = est_div(est_scalar(t.graph, EST_F32, 0), est_scalar(t.graph, EST_F32, 0));
    expect_error(run_hooks(&t, EST_HOOKS(hook, &r.hook)), EST_INVALID_ARGUMENT, "NaN loss during training");
    log_clear();
    expect_error(run_hooks(&t, EST_HOOKS(hook)), EST_INVALID_ARGUMENT, "at step 1");
    assert_string_equal(lines_of(false), "Model diverged with loss = NaN.\n");
    assert_true(est_is_nan_hook(hook));
    assert_false(est_is_nan_hook(&r.hook));
    assert_false(est_is_nan_hook(NULL));
    est_hook_free(hook);
    hook = est_nan_hook(false);
    log_clear();
    assert_int_equal(runs_until(&t, hook, "the loss is NaN"), 1);
    log_expect("Model diverged with loss = NaN.");
    est_hook_free(hook);
    trainer_free(&t);

    make_trainer(&t, 4, 1); /* an infinity is no NaN */
    t.spec.loss = est_div(est_scalar(t.graph, EST_F32, 1), est_scalar(t.graph, EST_F32, 0));
    assert_ok(run_one(&t, est_nan_hook(true)));
    trainer_free(&t);
}

/* --- logging ------------------------------------------------------------------------------------------------------ */

TEST(logging, .setup_func = set_up)
{
    trainer        t;
    est_named_node nodes[3];

    make_trainer(&t, 8, 1);
    nodes[0] = (est_named_node){ .name = "loss" }; /* found by name */
    nodes[1] = (est_named_node){ .name = "in", .node = t.x };
    nodes[2] = (est_named_node){ .node = t.prediction };
    assert_ok(run_one(&t, est_logging_hook((est_named_nodes){ nodes, 2 }, EST_LOGGING(.every_n_iter = 2))));
    assert_string_equal(lines_of(false), "loss = 10, in = [1 2]\n"
                                         "loss = 61.9341, in = [5 6] (1.000 sec)\n");
    assert_ok(run_one(&t, est_logging_hook((est_named_nodes){ nodes, 1 }, EST_LOGGING(.every_n_secs = 1.5))));
    assert_string_equal(lines_of(false), "loss = 10\nloss = 17.4505 (1.500 sec)\n");

    /* At the end: computed with the last batch and the variables as they are then. */
    assert_ok(run_one(&t, est_logging_hook((est_named_nodes){ nodes + 2, 1 }, EST_LOGGING(.at_end = true))));
    assert_string_equal(lines_of(false), "prediction = [14.5057 16.578]\n");
    assert_ok(run_one(
        &t, est_logging_hook((est_named_nodes){ nodes + 1, 1 }, EST_LOGGING(.every_n_iter = 4, .at_end = true))));
    assert_string_equal(lines_of(false), "in = [1 2]\nin = [7 8] (1.500 sec)\n");
    trainer_free(&t);

    make_trainer(&t, 0, 1); /* no batch: nothing to tell, and no error */
    nodes[2] = (est_named_node){ .node = t.prediction };
    assert_ok(run_one(&t, est_logging_hook((est_named_nodes){ nodes + 2, 1 }, EST_LOGGING(.at_end = true))));
    assert_string_equal(lines_of(false), "");
    trainer_free(&t);
}

TEST(logged_values, .setup_func = set_up)
{
    trainer              t;
    est_named_node       nodes[6];
    est_tensor          *words;
    static const float   grid[6]  = { 1, 2.5F, -3, 4, 5, 6 };
    static const est_str texts[2] = { { "a", 1 }, { "b\"", 2 } };
    static const int32_t many[20] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19 };

    make_trainer(&t, 2, 1);
    assert_ok(est_tensor_create_from(EST_STRING, EST_SHAPE(2), texts, &words));
    nodes[0] = (est_named_node){ "grid", est_const_f32(t.graph, EST_SHAPE(3, 2), grid) };
    nodes[1] = (est_named_node){ "words", est_const(t.graph, words) };
    nodes[2] = (est_named_node){ "many", est_const_i32(t.graph, EST_SHAPE(20), many) };
    nodes[3] = (est_named_node){ "none", est_const_f32(t.graph, EST_SHAPE(0), NULL) };
    nodes[4] = (est_named_node){ "yes", est_equal(t.step, t.step) };
    nodes[5] = (est_named_node){ "step", t.step };
    assert_ok(run_one(&t, est_logging_hook((est_named_nodes){ nodes, 6 }, EST_LOGGING(.every_n_iter = 1))));
    assert_string_equal(lines_of(false),
                        "grid = [[1 2.5] [-3 4] [5 6]], words = [\"a\" \"b\\\"\"], many = [0 1 2 3 4 5 6 7 8 9 10 "
                        "11 12 13 14 15 ..., none = [], yes = true, step = 1\n");
    est_tensor_free(words);
    trainer_free(&t);
}

/* What a formatter sees, in its own words; nothing of the second line. */
static est_status in_own_words(void *user, est_named_tensors values, char *line, size_t size)
{
    int *lines = user;

    assert_int_equal(values.n, 2);
    assert_string_equal(values.data[0].name, "error");
    if (++*lines == 2) return EST_OK;
    if (*lines == 4) return est_fail(EST_INTERNAL, "no words");
    snprintf(line, size, "%g off, of %d rows", nn_element(values.data[0].tensor, 0),
             (int)est_tensor_count(values.data[1].tensor));
    return EST_OK;
}

TEST(logging_format, .setup_func = set_up)
{
    trainer   t;
    int       lines = 0;
    est_hook *hook;

    make_trainer(&t, 8, 1);
    hook = est_logging_hook((est_named_nodes){ (const est_named_node[]){ { "error", t.loss }, { "x", t.x } }, 2 },
                            EST_LOGGING(.every_n_iter = 2, .at_end = true, .format = in_own_words, .user = &lines));
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    assert_string_equal(lines_of(false), "10 off, of 2 rows\n0.294913 off, of 2 rows\n");
    expect_error(run_hooks(&t, EST_HOOKS(hook)), EST_INTERNAL, "no words");
    est_hook_free(hook);
    trainer_free(&t);
}

/* Nodes and names of operations in one hook, under names of their own. */
TEST(logging_operations, .setup_func = set_up)
{
    trainer        t;
    est_named_node nodes[2] = { { .name = "error" }, { .name = "x" } };

    make_trainer(&t, 2, 1);
    nodes[1].node = est_named(t.loss, "the_loss");
    assert_ok(run_one(&t, est_logging_hook((est_named_nodes){ nodes, 2 },
                                           EST_LOGGING(.every_n_iter = 2, .operations = EST_STRINGS("the_loss", "")))));
    assert_string_equal(lines_of(false), "error = 10, x = 10\n");
    expect_error(run_one(&t, est_logging_hook((est_named_nodes){ nodes, 1 },
                                              EST_LOGGING(.every_n_iter = 1, .operations = EST_STRINGS("nothing")))),
                 EST_NOT_FOUND, "logs node 'nothing', but the graph has no node");
    expect_refused(est_logging_hook((est_named_nodes){ nodes, 2 },
                                    EST_LOGGING(.every_n_iter = 1, .operations = EST_STRINGS("nothing"))),
                   "1 operations for 2 nodes");
    trainer_free(&t);
}

TEST(logging_refused, .setup_func = set_up)
{
    trainer        t;
    est_named_node node = { .name = "nothing" }, nameless = { 0 };

    make_trainer(&t, 2, 1);
    expect_error(run_one(&t, est_logging_hook((est_named_nodes){ &node, 1 }, EST_LOGGING(.every_n_iter = 1))),
                 EST_NOT_FOUND, "logs node 'nothing', but the graph has no node");
    expect_refused(est_logging_hook((est_named_nodes){ &node, 1 }, NULL), "set one of them");
    expect_refused(est_logging_hook((est_named_nodes){ &node, 1 }, EST_LOGGING(.every_n_iter = 1, .every_n_secs = 1)),
                   "set one of them");
    expect_refused(est_logging_hook((est_named_nodes){ &node, 1 }, EST_LOGGING(.every_n_iter = -1)), "every_n_iter -1");
    expect_refused(est_logging_hook((est_named_nodes){ &node, 0 }, EST_LOGGING(.at_end = true)), "needs a node");
    expect_refused(est_logging_hook((est_named_nodes){ &nameless, 1 }, EST_LOGGING(.at_end = true)), "has no name");
    expect_refused(est_logging_hook((est_named_nodes){ &node, 1 }, &(est_logging_options){ .at_end = true }),
                   "EST_LOGGING");
    trainer_free(&t);
}

TEST(loss_log, .setup_func = set_up)
{
    trainer t;

    make_trainer(&t, 8, 1);
    assert_ok(run_one(&t, est_loss_log_hook(2)));
    assert_string_equal(lines_of(false), "loss = 10, step = 0\nloss = 61.9341, step = 2 (1.000 sec)\n");
    trainer_free(&t);
}

/* --- the step counter --------------------------------------------------------------------------------------------- */

TEST(step_counter, .setup_func = set_up)
{
    trainer             t;
    est_summary_writer *writer;
    char                path[PATH_MAX];

    make_trainer(&t, 4, 4);
    assert_ok(est_summary_writer_create(at("counter"), "", &writer));
    t.spec.summaries = writer;
    assert_ok(run_one(&t, est_step_counter_hook(EST_EVERY(.steps = 3))));
    assert_string_equal(lines_of(false), "global_step/sec: 2\nglobal_step/sec: 2\n");
    snprintf(path, sizeof path, "%s", est_summary_writer_path(writer));
    est_summary_flush(writer);
    assert_string_equal(events_of(path), "0: session 1 ; 4: global_step/sec=2; 7: global_step/sec=2");
    assert_ok(run_one(&t, est_step_counter_hook(EST_EVERY(.secs = 2))));
    assert_string_equal(lines_of(false), "global_step/sec: 2\n");
    assert_ok(run_one(&t, est_step_counter_hook(EST_EVERY(.steps = 3, .output_dir = at("counter/own")))));
    assert_non_null(strstr(names_in(at("counter/own")), "events.out.tfevents"));
    est_summary_writer_free(writer);
    t.spec.summaries = NULL;
    trainer_free(&t);

    make_trainer(&t, 2, 201); /* every 100 steps, beginning with the first */
    assert_ok(run_one(&t, est_step_counter_hook(NULL)));
    assert_string_equal(lines_of(false), "global_step/sec: 2\nglobal_step/sec: 2\n");
    t.spec.global_step = EST_NO_NODE;
    assert_ok(run_one(&t, est_step_counter_hook(NULL)));
    log_expect("the global step has stayed 0 for 20 runs");
    expect_refused(est_step_counter_hook(EST_EVERY(.steps = 1, .secs = 1)), "step counter");
    expect_refused(est_step_counter_hook(EST_EVERY(.secs = -1)), "of -1 seconds");
    trainer_free(&t);
}

/* --- the profiler ------------------------------------------------------------------------------------------------- */

static void expect_timeline(const char *path, bool arrows, bool memory)
{
    char  *bytes;
    size_t size;

    assert_ok(est_file_read(path, &bytes, &size));
    assert_non_null(strstr(bytes, "traceEvents"));
    assert_non_null(strstr(bytes, "loss"));
    assert_int_equal(strstr(bytes, "\"dataflow\"") != NULL, arrows);
    assert_int_equal(strstr(bytes, "\"memory\"") != NULL, memory);
    est_free(bytes);
}

TEST(profiler, .setup_func = set_up)
{
    trainer t;
    char    want[1024];

    EST_CPU_ONLY();
    make_trainer(&t, 2, 8);
    t.spec.model_dir = at("profile");
    assert_ok(run_one(&t, est_profiler_hook(EST_PROFILER(.steps = 3))));
    assert_string_equal(names_in(at("profile")), "timeline-4.json timeline-7.json");
    expect_timeline(at("profile/timeline-4.json"), true, false);
    snprintf(want, sizeof want, "Saving timeline for 4 into '%s/timeline-4.json'.", at("profile"));
    log_expect(want);
    assert_ok(run_one(&t, est_profiler_hook(EST_PROFILER(.secs = 2, .output_dir = at("profile/own")))));
    assert_string_equal(names_in(at("profile/own")), "timeline-5.json");
    assert_ok(run_one(&t, est_profiler_hook(EST_PROFILER(.steps = 3, .no_dataflow = true, .show_memory = true))));
    expect_timeline(at("profile/timeline-4.json"), false, true);
    expect_refused(est_profiler_hook(NULL), "set exactly one of them");
    expect_refused(est_profiler_hook(EST_PROFILER(.steps = -2)), "profiler");
    put_bytes(at("occupied"), "x", 1);
    assert_int_not_equal(run_one(&t, est_profiler_hook(EST_PROFILER(.steps = 1, .output_dir = at("occupied")))),
                         EST_OK);
    trainer_free(&t);
}

/* --- waiting for a step ------------------------------------------------------------------------------------------- */

/* A clock on which others train while we sleep. */
typedef struct others {
    est_clock    clock;
    int64_t      now_ns, step;
    est_session *session;
    int          sleeps, signal_at;
} others;

static int64_t others_now(void *user)
{
    return ((others *)user)->now_ns;
}

static void others_train(void *user, int64_t ns)
{
    others *o = user;

    o->now_ns += ns;
    if (++o->sleeps % 10 == 0) o->step += 400; /* ten slices of 50 ms are one poll */
    if (o->sleeps == o->signal_at) raise(SIGTERM);
    write_tag(o->session, "global_step", EST_I64, EST_SHAPE_SCALAR, (int)o->step);
}

static others watched;

static est_status watch_session(est_hook *hook, est_loop *loop)
{
    (void)hook;
    watched.session = est_loop_session(loop);
    return EST_OK;
}

TEST(waiter, .setup_func = set_up)
{
    trainer   t;
    est_hook  watch = EST_HOOK(.after_create_session = watch_session);
    est_hook *hook  = est_global_step_waiter_hook(2000);
    recorder  r     = make_recorder("r");

    make_trainer(&t, 2, 3);
    watched = (others){ .clock = { others_now, others_now, others_train, &watched } };
    est_clock_set(&watched.clock);
    assert_ok(run_hooks(&t, EST_HOOKS(&watch, hook, &r.hook)));
    assert_int_equal(watched.now_ns, 5 * EST_NS_PER_SEC / 2); /* five times 400 steps, half a second each */
    assert_int_equal(r.calls, 3);
    assert_string_equal(lines_of(false),
                        "Waiting for global step 2000 before starting training. Current step is 0.\n"
                        "Waiting for global step 2000 before starting training. Current step is 1200.\n");
    est_hook_free(hook);

    log_clear();
    hook = est_global_step_waiter_hook(0);
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    assert_string_equal(lines_of(false), "");
    est_hook_free(hook);

    watched.sleeps = 0, watched.step = 0, watched.signal_at = 25;
    r    = make_recorder("r");
    hook = est_global_step_waiter_hook(1000000);
    est_signals_catch();
    assert_ok(run_hooks(&t, EST_HOOKS(&watch, hook, &r.hook)));
    est_signals_release(EST_CANCELLED);
    assert_int_equal(r.calls, 1); /* the batch at hand */
    est_hook_free(hook);
    trainer_free(&t);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

TEST(final_ops, .setup_func = set_up)
{
    trainer      t;
    est_hook    *hook;
    est_dataset *empty;
    recorder     r = make_recorder("r");

    make_trainer(&t, 4, 1);
    assert_ok(trainer_input(4, 0, &empty));
    hook = est_final_ops_hook(EST_NODES(t.prediction, t.loss));
    assert_null(est_final_value(hook, 0));
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    assert_near(nn_element(est_final_value(hook, 0), 0), 3 * 0.575, 1e-6);
    assert_near(nn_element(est_final_value(hook, 0), 1), 4 * 0.575, 1e-6);
    assert_null(est_final_value(hook, 2));
    assert_null(est_final_value(hook, -1));
    assert_null(est_final_value(&r.hook, 0));
    assert_null(est_final_value(NULL, 0));
    r.failure = EST_INTERNAL, r.fail_before = 1;
    assert_int_equal(run_hooks(&t, EST_HOOKS(hook, &r.hook)), EST_INTERNAL);
    assert_null(est_final_value(hook, 0)); /* of this loop there is none */
    assert_string_equal(lines_of(false), "");
    t.spec.input = empty;
    assert_int_not_equal(run_hooks(&t, EST_HOOKS(hook)), EST_OK);
    log_expect("the input ended before its first batch");
    est_hook_free(hook);
    est_dataset_free(empty);
    trainer_free(&t);
}

static est_status next_number(void *user, est_tensor **values)
{
    int  *n      = user;
    float number = (float)++*n;

    if (number > 3) return est_fail(EST_OUT_OF_RANGE, "no more numbers");
    return est_tensor_f32(EST_SHAPE_SCALAR, &number, &values[0]);
}

TEST(feed_fn, .setup_func = set_up)
{
    trainer        t;
    est_node       z;
    est_named_node shown;
    int            n = 0;
    est_hook      *hook, *logging;

    make_trainer(&t, 20, 1);
    z       = est_placeholder(t.graph, "z", EST_F32, EST_SHAPE_SCALAR);
    shown   = (est_named_node){ .name = "z" };
    hook    = est_feed_fn_hook(EST_NODES(z), next_number, &n);
    logging = est_logging_hook((est_named_nodes){ &shown, 1 }, EST_LOGGING(.every_n_iter = 1));
    assert_ok(run_hooks(&t, EST_HOOKS(hook, logging)));
    assert_string_equal(lines_of(false), "z = 1\nz = 2 (0.000 sec)\nz = 3 (0.000 sec)\n");
    est_hook_free(logging);
    est_hook_free(hook);
    expect_refused(est_feed_fn_hook(EST_NO_NODES, next_number, &n), "0 nodes");
    expect_refused(est_feed_fn_hook(EST_NODES(z), NULL, &n), "no function");
    trainer_free(&t);
}

/* --- summaries ---------------------------------------------------------------------------------------------------- */

TEST(summaries, .setup_func = set_up)
{
    trainer             t;
    est_summary_writer *writer;
    est_model_summary   summaries[4];
    est_tensor         *text;
    est_hook           *hook;
    recorder            r = make_recorder("r");
    char                path[PATH_MAX];
    uint8_t             pixels[4] = { 0, 1, 2, 3 };
    est_tensor         *picture;

    make_trainer(&t, 10, 1);
    assert_ok(est_tensor_string("words", 5, &text));
    assert_ok(est_tensor_create_from(EST_U8, EST_SHAPE(1, 2, 2, 1), pixels, &picture));
    summaries[0] = (est_model_summary){ EST_MODEL_SCALAR, "loss", t.loss, 0 };
    summaries[1] = (est_model_summary){ EST_MODEL_HISTOGRAM, "inputs", t.x, 0 };
    summaries[2] = (est_model_summary){ EST_MODEL_TEXT, "text", est_const(t.graph, text), 0 };
    summaries[3] = (est_model_summary){ EST_MODEL_IMAGE, "picture", est_const(t.graph, picture), 3 };
    assert_ok(est_summary_writer_create(at("summaries"), "", &writer));
    t.spec.summaries = writer;
    t.spec.shown     = summaries;
    t.spec.n_shown   = 4;
    assert_ok(run_one(&t, est_summary_saver_hook(EST_EVERY(.steps = 3))));
    snprintf(path, sizeof path, "%s", est_summary_writer_path(writer));
    assert_string_equal(events_of(path), /* flushed by the end */
                        "0: session 1 ; "
                        "1: loss=10 inputs=2 of 1..2 sum 3 text=text(words) picture/image/0=2x2x1; "
                        "4: loss=17.4505 inputs=2 of 7..8 sum 15 text=text(words) picture/image/0=2x2x1");

    /* A new session says from where it goes on, and writes its first run. */
    r.failure = EST_ABORTED, r.fail_before = 2;
    hook           = est_summary_saver_hook(EST_EVERY(.steps = 100));
    t.spec.n_shown = 1;
    assert_ok(run_hooks(&t, EST_HOOKS(hook, &r.hook)));
    assert_non_null(strstr(events_of(path), "; 0: session 1 ; 1: loss=10; 0: session 1 ; 1: loss=50"));
    est_hook_free(hook);
    est_summary_writer_free(writer);
    t.spec.summaries = NULL; /* nobody listens: nothing is computed */
    assert_ok(run_one(&t, est_summary_saver_hook(EST_EVERY(.steps = 3))));

    /* By time, and into a directory of its own. */
    hook = est_summary_saver_hook(EST_EVERY(.secs = 1.5, .output_dir = at("summaries/own")));
    assert_ok(run_one(&t, hook));
    snprintf(path, sizeof path, "%s/%s", at("summaries/own"), names_in(at("summaries/own")));
    assert_string_equal(events_of(path), "0: session 1 ; 1: loss=10; 4: loss=17.4505");
    expect_refused(est_summary_saver_hook(NULL), "summary saver has a period of 0 steps and of 0 seconds");
    expect_refused(est_summary_saver_hook(EST_EVERY(.steps = 1, .secs = 1)), "exactly one");
    est_tensor_free(text);
    est_tensor_free(picture);
    trainer_free(&t);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

enum { N_HOOKS = 12 };

static void make_all(trainer *t, est_node z, int *n, est_hook **hooks)
{
    const est_named_node node = { .name = "loss" };

    *n        = 0;
    hooks[0]  = est_stop_at_step_hook(4, 0);
    hooks[1]  = est_stop_at_secs_hook(100);
    hooks[2]  = est_nan_hook(true);
    hooks[3]  = est_logging_hook((est_named_nodes){ &node, 1 }, EST_LOGGING(.every_n_iter = 2, .at_end = true));
    hooks[4]  = est_loss_log_hook(2);
    hooks[5]  = est_step_counter_hook(EST_EVERY(.steps = 2, .output_dir = at("memory/counter")));
    hooks[6]  = est_profiler_hook(EST_PROFILER(.steps = 2, .output_dir = at("memory/profile")));
    hooks[7]  = est_global_step_waiter_hook(0);
    hooks[8]  = est_final_ops_hook(EST_NODES(t->prediction));
    hooks[9]  = est_feed_fn_hook(EST_NODES(z), next_number, n);
    hooks[10] = est_summary_saver_hook(EST_EVERY(.steps = 2, .output_dir = at("memory/summaries")));
    hooks[11] = est_progress_hook(0, 4);
}

static est_status run_all(void)
{
    trainer             t;
    int                 n;
    est_node            z;
    est_hook           *hooks[N_HOOKS] = { 0 };
    est_summary_writer *writer         = NULL;
    est_model_summary   summary;
    est_status          status = trainer_try(&t, 4, EST_FOREVER);

    if (status == EST_OK) {
        z      = est_placeholder(t.graph, "z", EST_F32, EST_SHAPE_SCALAR);
        status = est_graph_status(t.graph);
        if (status == EST_OK) status = est_summary_writer_create(at("memory"), "", &writer);
        t.spec.summaries = writer;
        summary          = (est_model_summary){ EST_MODEL_HISTOGRAM, "x", t.x, 0 };
        t.spec.shown     = &summary;
        t.spec.n_shown   = 1;
        if (status == EST_OK) {
            make_all(&t, z, &n, hooks);
            for (int i = 0; i < N_HOOKS && status == EST_OK; i++) {
                if (hooks[i] == NULL) status = EST_RESOURCE_EXHAUSTED;
            }
        }
        if (status == EST_OK) status = run_hooks(&t, (est_hooks){ hooks, N_HOOKS });
    }
    for (int i = 0; i < N_HOOKS; i++) est_hook_free(hooks[i]);
    est_summary_writer_free(writer);
    trainer_free(&t);
    happened[0] = '\0';
    log_clear();
    return status;
}

TEST(memory, .setup_func = set_up)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = run_all();
        fault_check_lenient(&f, status);
        est_test_dir_remove(at("memory"));
    }
    assert_ok(run_all());
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
