/* SPDX-License-Identifier: Apache-2.0
 *
 * Monitored sessions in one process: hooks, checkpoints and resuming, summaries, stops, new sessions, misuse. With
 * other tasks: tests/cluster/monitored_session.c. */
#include "estoc/monitored.h"

#include "support/fault_loop.h"
#include "train/done_mark.h"
#include "train/events_test.h"
#include "train/loop_test.h"

static est_tensor *vector(float first)
{
    est_tensor *out = NULL;

    assert_ok(est_tensor_f32(EST_SHAPE(2), (float[]){ first, first + 1 }, &out));
    return out;
}

/* One step with x = 1, 2 and y = 2 x. */
static est_status train_once(est_monitored_session *s, const trainer *t, double *loss)
{
    est_tensor *x = vector(1), *y = NULL, *value = NULL;
    est_status  status;

    assert_ok(est_tensor_f32(EST_SHAPE(2), (float[]){ 2, 4 }, &y));
    status = est_monitored_session_run(s, EST_FEEDS({ t->x, x }, { t->y, y }), EST_NODES(t->loss), EST_NODES(t->train),
                                       &value);
    if (status == EST_OK && loss != NULL) *loss = nn_element(value, 0);
    if (status == EST_OK) est_tensor_free(value);
    est_tensor_free(x);
    est_tensor_free(y);
    return status;
}

static double weight_of(est_monitored_session *s)
{
    est_tensor *w = NULL;
    double      value;

    assert_ok(est_session_read(est_monitored_session_raw(s), "w", &w));
    value = nn_element(w, 0);
    est_tensor_free(w);
    return value;
}

static est_monitored_session *open_session(const trainer *t, const est_monitored_options *options)
{
    est_monitored_session *s = NULL;

    assert_ok(est_monitored_session_create(t->graph, options, &s));
    return s;
}

/* A new directory below the root. */
static const char *new_dir(void)
{
    static int n;
    char       name[32];

    snprintf(name, sizeof name, "monitored%d", n++);
    return at(name);
}

TEST(events, .setup_func = keep_log)
{
    trainer                t;
    recorder               all = make_recorder("all"), chief = make_recorder("chief");
    est_monitored_session *s;
    double                 first = 0, second = 0;

    make_trainer(&t, 2, 1);
    s = open_session(&t, EST_MONITORED(.hooks = EST_HOOKS(&all.hook), .chief_only_hooks = EST_HOOKS(&chief.hook),
                                       .loss = t.loss, .session = EST_SESSION(.threads = 1)));
    expect_happened("chief.begin all.begin chief.session all.session ");
    assert_int_equal(est_monitored_session_global_step(s), 0);
    assert_false(est_monitored_session_should_stop(s));
    assert_ok(train_once(s, &t, &first));
    expect_happened("chief.before all.before chief.after all.after ");
    assert_ok(train_once(s, &t, &second));
    assert_near(first, 10, 1e-6); /* the mean of 4 and 16: of before the step */
    assert_true(second < first);
    assert_int_equal(est_monitored_session_global_step(s), 2);
    happened[0] = '\0';
    assert_ok(est_monitored_session_end(s));
    assert_ok(est_monitored_session_end(s)); /* once is enough */
    expect_happened("chief.end all.end ");
    assert_true(est_monitored_session_should_stop(s));
    assert_int_equal(train_once(s, &t, NULL), EST_OUT_OF_RANGE);
    assert_string_equal(est_error_message(), "the monitored session has stopped: it was ended");
    est_monitored_session_free(s);
    trainer_free(&t);
}

/* Runs of other nodes have the hooks around them as well; those of the raw session do not. */
static void see_loss(recorder *own, est_loop *loop)
{
    note("loss=%g step=%d ", est_loop_loss(loop), (int)est_loop_global_step(loop));
    (void)own;
}

TEST(any_nodes, .setup_func = keep_log)
{
    trainer                t;
    recorder               r = make_recorder("r");
    est_monitored_session *s;
    est_tensor            *x, *out[2] = { NULL };
    est_node               after;

    make_trainer(&t, 2, 1);
    after       = est_after(est_read_variable(est_global_step(t.graph)), t.train);
    r.in_after  = see_loss;
    s           = open_session(&t, EST_MONITORED(.hooks = EST_HOOKS(&r.hook)));
    x           = vector(1);
    happened[0] = '\0';
    assert_ok(est_monitored_session_run(s, EST_FEEDS({ t.x, x }), EST_NODES(t.prediction, t.x), EST_NO_NODES, out));
    assert_near(nn_element(out[0], 1), 0, 0);
    assert_near(nn_element(out[1], 1), 2, 0);
    for (int i = 0; i < 2; i++) est_tensor_free(out[i]);
    expect_happened("r.before r.after loss=nan step=0 ");
    assert_ok(est_monitored_session_run(s, EST_FEEDS({ t.x, x }, { t.y, x }), EST_NODES(after), EST_NO_NODES, out));
    assert_near(nn_element(out[0], 0), 1, 0);
    est_tensor_free(out[0]);
    expect_happened("r.before r.after loss=nan step=1 "); /* a fetch trains as well */
    assert_ok(est_session_run(est_monitored_session_raw(s), EST_FEEDS({ t.x, x }), EST_NODES(t.prediction),
                              EST_NO_NODES, out));
    est_tensor_free(out[0]);
    expect_happened("");
    est_tensor_free(x);
    est_monitored_session_free(s);
    expect_happened(""); /* without end */
    trainer_free(&t);
}

/* A graph without a step gets one; a run without feeds, fetches and targets is a run. */
TEST(empty_graph)
{
    est_graph             *graph = NULL;
    est_monitored_session *s     = NULL;

    assert_ok(est_graph_create(1, &graph));
    assert_ok(est_monitored_session_create(graph, NULL, &s));
    assert_ok(est_monitored_session_run(s, EST_NO_FEEDS, EST_NO_NODES, EST_NO_NODES, NULL));
    assert_int_equal(est_monitored_session_global_step(s), 0);
    assert_ok(est_monitored_session_end(s));
    est_monitored_session_free(s);
    est_graph_free(graph);
}

/* What a training draws at random goes on where it was. */
static est_monitored_session *open_random(est_graph **graph, est_node *draw, est_node *step, const char *dir)
{
    est_monitored_session *s = NULL;

    assert_ok(est_graph_create(5, graph));
    *draw = est_random_uniform(est_const_list(*graph, EST_I64S(1)), EST_F32, 0);
    *step = est_assign_add(est_global_step(*graph), est_scalar(*graph, EST_I64, 1));
    assert_ok(est_monitored_session_create(*graph, EST_MONITORED(.checkpoint_dir = dir), &s));
    return s;
}

static double draw_once(est_monitored_session *s, est_node draw, est_node step)
{
    est_tensor *out = NULL;
    double      value;

    assert_ok(est_monitored_session_run(s, EST_NO_FEEDS, EST_NODES(draw), EST_NODES(step), &out));
    value = nn_element(out, 0);
    est_tensor_free(out);
    return value;
}

TEST(random_goes_on, .setup_func = keep_log)
{
    const char            *dir = new_dir();
    est_graph             *graph;
    est_node               draw, step;
    est_monitored_session *s = open_random(&graph, &draw, &step, NULL);
    double                 want[4];

    for (int i = 0; i < 4; i++) want[i] = draw_once(s, draw, step);
    est_monitored_session_free(s);
    est_graph_free(graph);
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0) s = open_random(&graph, &draw, &step, dir);
        assert_near(draw_once(s, draw, step), want[i], 0);
        if (i % 2 == 0) continue;
        assert_ok(est_monitored_session_end(s));
        est_monitored_session_free(s);
        est_graph_free(graph);
    }
}

TEST(checkpoints_and_resume, .setup_func = keep_log)
{
    const char            *dir = new_dir();
    trainer                t;
    est_monitored_session *s, *second = NULL;
    est_done_mark          mark;
    double                 w;

    make_trainer(&t, 2, 1);
    s = open_session(&t, EST_MONITORED(.checkpoint_dir = dir, .save_checkpoint_steps = 2));
    assert_int_equal(est_monitored_session_create(t.graph, EST_MONITORED(.checkpoint_dir = dir), &second),
                     EST_FAILED_PRECONDITION); /* one process at a time */
    for (int i = 0; i < 5; i++) assert_ok(train_once(s, &t, NULL));
    assert_non_null(strstr(names_in(dir), "model.ckpt-0.index"));
    assert_non_null(strstr(names_in(dir), "model.ckpt-4.index"));
    assert_null(strstr(names_in(dir), "model.ckpt-5.index"));
    assert_ok(est_done_mark_read(dir, &mark));
    assert_false(mark.there);
    w = weight_of(s);
    assert_ok(est_monitored_session_end(s));
    assert_non_null(strstr(names_in(dir), "model.ckpt-5.index"));
    assert_ok(est_done_mark_read(dir, &mark));
    assert_true(mark.there && mark.step == 5);
    est_monitored_session_free(s);
    trainer_free(&t);

    make_trainer(&t, 2, 1);
    log_clear();
    s = open_session(&t, EST_MONITORED(.checkpoint_dir = dir));
    log_expect("info Restoring parameters from *model.ckpt-5");
    assert_int_equal(est_monitored_session_global_step(s), 5);
    assert_near(weight_of(s), w, 0);
    assert_ok(est_done_mark_read(dir, &mark));
    assert_false(mark.there); /* it trains again */
    assert_ok(train_once(s, &t, NULL));
    assert_int_equal(est_monitored_session_global_step(s), 6);
    est_monitored_session_free(s);
    trainer_free(&t);
}

/* A saver among the hooks is the only one; EST_OFF saves nothing, but restores. */
TEST(other_savers, .setup_func = keep_log)
{
    const char            *dir = new_dir();
    trainer                t;
    est_monitored_session *s;
    est_hook              *saver;

    make_trainer(&t, 2, 1);
    saver = est_checkpoint_saver_hook(dir, EST_CHECKPOINT_SAVER(.steps = 3));
    assert_non_null(saver);
    s = open_session(
        &t, EST_MONITORED(.checkpoint_dir = dir, .save_checkpoint_steps = 1, .chief_only_hooks = EST_HOOKS(saver)));
    for (int i = 0; i < 4; i++) assert_ok(train_once(s, &t, NULL));
    assert_null(strstr(names_in(dir), "model.ckpt-1.index"));
    assert_non_null(strstr(names_in(dir), "model.ckpt-3.index"));
    est_monitored_session_free(s);
    est_hook_free(saver);
    s = open_session(&t, EST_MONITORED(.checkpoint_dir = dir, .save_checkpoint_secs = EST_OFF));
    assert_int_equal(est_monitored_session_global_step(s), 3);
    assert_ok(train_once(s, &t, NULL));
    assert_ok(est_monitored_session_end(s));
    assert_null(strstr(names_in(dir), "model.ckpt-4.index"));
    est_monitored_session_free(s);
    trainer_free(&t);
}

TEST(stop_by_a_hook, .setup_func = keep_log)
{
    trainer                t;
    est_monitored_session *s;
    est_hook              *stop = est_stop_at_step_hook(0, 3);

    make_trainer(&t, 2, 1);
    s = open_session(&t, EST_MONITORED(.hooks = EST_HOOKS(stop)));
    for (int i = 0; i < 3; i++) {
        assert_false(est_monitored_session_should_stop(s));
        assert_ok(train_once(s, &t, NULL));
    }
    assert_true(est_monitored_session_should_stop(s));
    assert_int_equal(train_once(s, &t, NULL), EST_OUT_OF_RANGE);
    assert_int_equal(strncmp(est_error_message(), "the monitored session has stopped: ", 35), 0);
    assert_int_equal(est_monitored_session_global_step(s), 3);
    assert_ok(est_monitored_session_end(s));
    est_monitored_session_free(s);
    est_hook_free(stop);
    trainer_free(&t);
}

/* The run that failed is made again with the same feeds, from the last checkpoint. */
TEST(new_session, .setup_func = keep_log)
{
    const char            *dir = new_dir();
    trainer                t;
    recorder               r = make_recorder("r");
    est_monitored_session *s;
    double                 loss = 0;

    make_trainer(&t, 2, 1);
    r.fail_after = 2;
    r.failure    = EST_UNAVAILABLE;
    s            = open_session(&t,
                                EST_MONITORED(.checkpoint_dir = dir, .save_checkpoint_steps = 1000, .hooks = EST_HOOKS(&r.hook)));
    assert_ok(train_once(s, &t, NULL));
    happened[0] = '\0';
    assert_ok(train_once(s, &t, &loss));
    expect_happened("r.before r.after r.session r.before r.after ");
    assert_near(loss, 10, 1e-6);
    assert_int_equal(est_monitored_session_global_step(s), 1); /* from 0 */
    log_expect("warn training had come to step 2, and all variables go back to step 0, the last checkpoint; save more "
               "often (save_checkpoint_steps) to lose less");
    est_monitored_session_free(s);
    trainer_free(&t);
}

/* Without a directory there is nothing to go back to, and variables do not begin again unseen. */
TEST(nothing_to_restore, .setup_func = keep_log)
{
    trainer                t;
    recorder               r = make_recorder("r");
    est_monitored_session *s;

    make_trainer(&t, 2, 1);
    r.fail_after = 1;
    r.failure    = EST_ABORTED;
    s            = open_session(&t, EST_MONITORED(.hooks = EST_HOOKS(&r.hook)));
    assert_int_equal(train_once(s, &t, NULL), EST_DATA_LOSS);
    assert_string_equal(est_error_message(),
                        "training had come to step 1, and the variables are lost: no checkpoint_dir was given to "
                        "restore them from; restart all tasks to train from the beginning");
    est_monitored_session_free(s);
    trainer_free(&t);
}

/* Hooks that end compute with what was fed last. */
TEST(final_values, .setup_func = keep_log)
{
    trainer                t;
    est_monitored_session *s;
    est_hook              *final;

    make_trainer(&t, 2, 1);
    final = est_final_ops_hook(EST_NODES(t.x, t.loss));
    s     = open_session(&t, EST_MONITORED(.hooks = EST_HOOKS(final)));
    assert_ok(train_once(s, &t, NULL));
    assert_ok(est_monitored_session_end(s));
    assert_near(nn_element(est_final_value(final, 0), 1), 2, 0);
    assert_true(nn_element(est_final_value(final, 1), 0) < 10);
    est_monitored_session_free(s);
    est_hook_free(final);
    trainer_free(&t);
}

/* The events of the only event file in a directory. */
static const char *events_in(const char *dir)
{
    const char *name = strstr(names_in(dir), "events.out.tfevents.");
    char        path[256];

    assert_non_null(name);
    snprintf(path, sizeof path, "%s/%.*s", dir, (int)strcspn(name, " "), name);
    return events_of(path);
}

TEST(summaries, .setup_func = keep_log)
{
    const char            *dir = new_dir();
    trainer                t;
    est_monitored_session *s;
    est_tensor            *hello = NULL;
    est_node               text;
    const char            *events;

    make_trainer(&t, 2, 1);
    assert_ok(est_tensor_string("hello", 5, &hello));
    text = est_const(t.graph, hello);
    est_tensor_free(hello);
    s = open_session(&t, EST_MONITORED(.checkpoint_dir = dir, .save_summaries_steps = 2, .log_step_count_steps = 2,
                                       .summaries = EST_NAMED_NODES({ "loss", t.loss }, { "prediction", t.prediction },
                                                                    { "greeting", text })));
    for (int i = 0; i < 4; i++) assert_ok(train_once(s, &t, NULL));
    assert_ok(est_monitored_session_end(s));
    est_monitored_session_free(s);
    events = events_in(dir);
    assert_non_null(strstr(events, "1: loss=10 prediction=2 of 0..0 sum 0 greeting=text(hello)"));
    assert_non_null(strstr(events, "3: loss="));
    assert_null(strstr(events, "2: loss="));
    assert_non_null(strstr(events, "global_step/sec="));
    log_expect("info global_step/sec: *");
    trainer_free(&t);
}

TEST(summaries_without_checkpoints, .setup_func = keep_log)
{
    const char            *dir = new_dir();
    trainer                t;
    est_monitored_session *s;
    est_hook              *saver = est_summary_saver_hook(EST_EVERY(.steps = 2, .output_dir = dir));

    make_trainer(&t, 2, 1);
    s = open_session(&t, EST_MONITORED(.save_summaries_steps = EST_OFF, .hooks = EST_HOOKS(saver),
                                       .summaries = EST_NAMED_NODES({ "loss", t.loss })));
    for (int i = 0; i < 2; i++) assert_ok(train_once(s, &t, NULL));
    assert_ok(est_monitored_session_end(s));
    est_monitored_session_free(s);
    est_hook_free(saver);
    assert_string_equal(events_in(dir), "0: session 1 ; 1: loss=10");
    trainer_free(&t);
}

/* --- misuse ------------------------------------------------------------------------------------------------------- */

static void refuse(const trainer *t, const est_monitored_options *options, const char *message)
{
    est_monitored_session *s = NULL;

    assert_int_equal(est_monitored_session_create(t->graph, options, &s), EST_INVALID_ARGUMENT);
    assert_null(s);
    if (strstr(est_error_message(), message) == NULL) fail_msg("%s", est_error_message());
}

TEST(bad_options, .setup_func = keep_log)
{
    trainer                t, other;
    est_monitored_session *s   = NULL;
    est_hook              *nan = est_nan_hook(true);

    make_trainer(&t, 2, 1);
    make_trainer(&other, 2, 1);
    assert_int_equal(est_monitored_session_create(NULL, NULL, &s), EST_INVALID_ARGUMENT);
    assert_int_equal(est_monitored_session_create(t.graph, NULL, NULL), EST_INVALID_ARGUMENT);
    refuse(&t, &(est_monitored_options){ 0 }, "struct_size");
    refuse(&t, EST_MONITORED(.save_checkpoint_steps = 5), "without a checkpoint_dir");
    refuse(&t, EST_MONITORED(.summaries = EST_NAMED_NODES({ "loss", t.loss })), "summaries without a checkpoint_dir");
    refuse(&t, EST_MONITORED(.checkpoint_dir = new_dir(), .save_checkpoint_steps = 5, .save_checkpoint_secs = 5),
           "cannot both be set");
    refuse(&t, EST_MONITORED(.log_step_count_steps = -3), "log_step_count_steps is -3");
    refuse(&t, EST_MONITORED(.hooks = EST_HOOKS(nan)), "est_nan_hook needs .loss");
    refuse(&t, EST_MONITORED(.hooks = EST_HOOKS(NULL)), "hook 0 is NULL");
    refuse(&t, EST_MONITORED(.loss = other.loss), "another graph");
    refuse(&t, EST_MONITORED(.checkpoint_dir = new_dir(), .summaries = EST_NAMED_NODES({ "loss", other.loss })),
           "summary 0: expected a tag and a node of the session's graph");
    refuse(&t, EST_MONITORED(.session = EST_SESSION(.communicator = (struct est_communicator *)&t)), "communicator");
    est_hook_free(nan);
    trainer_free(&other);
    trainer_free(&t);
}

TEST(bad_runs, .setup_func = keep_log)
{
    trainer                t, other;
    est_monitored_session *s;
    est_tensor            *x = vector(1), *out = NULL;
    est_status             status;

    make_trainer(&t, 2, 1);
    make_trainer(&other, 2, 1);
    s = open_session(&t, NULL);
    assert_int_equal(est_monitored_session_run(NULL, EST_NO_FEEDS, EST_NO_NODES, EST_NO_NODES, NULL),
                     EST_INVALID_ARGUMENT);
    assert_int_equal(est_monitored_session_end(NULL), EST_INVALID_ARGUMENT);
    assert_false(est_monitored_session_should_stop(NULL));
    assert_int_equal(est_monitored_session_global_step(NULL), -1);
    assert_null(est_monitored_session_raw(NULL));
    est_monitored_session_free(NULL);
    status = est_monitored_session_run(s, EST_FEEDS({ t.x, x }), EST_NODES(other.loss), EST_NO_NODES, &out);
    assert_int_equal(status, EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), "fetch 0 is a node of another graph");
    status = est_monitored_session_run(s, EST_FEEDS({ t.x, NULL }), EST_NODES(t.prediction), EST_NO_NODES, &out);
    assert_int_equal(status, EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), "'x' is fed with NULL");
    status = est_monitored_session_run(s, EST_FEEDS({ t.x, x }), EST_NODES(t.prediction), EST_NO_NODES, NULL);
    assert_int_equal(status, EST_INVALID_ARGUMENT);
    status = est_monitored_session_run(s, EST_NO_FEEDS, EST_NODES(t.prediction), EST_NO_NODES, &out);
    assert_int_equal(status, EST_INVALID_ARGUMENT); /* x is not fed */
    status = est_monitored_session_run(s, EST_FEEDS({ t.x, x }, { t.x, x }), EST_NODES(t.prediction), EST_NO_NODES,
                                       &out);
    assert_int_equal(status, EST_INVALID_ARGUMENT); /* twice */
    assert_ok(train_once(s, &t, NULL));             /* the session is as it was */
    est_tensor_free(x);
    est_monitored_session_free(s);
    trainer_free(&other);
    trainer_free(&t);
}

TEST(no_memory, .setup_func = keep_log)
{
    FAULT_LOOP(f, FAULT_PLACES) {
        const char            *dir = at("faults");
        trainer                t;
        est_monitored_session *s = NULL;
        est_status             status;

        make_trainer(&t, 2, 1);
        fault_arm(&f);
        status = est_monitored_session_create(t.graph, EST_MONITORED(.checkpoint_dir = dir), &s);
        if (status == EST_OK) {
            est_tensor *x = NULL;

            status = est_tensor_f32(EST_SHAPE(2), (float[]){ 1, 2 }, &x);
            if (status == EST_OK) {
                status = est_monitored_session_run(s, EST_FEEDS({ t.x, x }, { t.y, x }), EST_NO_NODES,
                                                   EST_NODES(t.train), NULL);
            }
            est_tensor_free(x);
        }
        if (status == EST_OK) status = est_monitored_session_end(s);
        fault_check_lenient(&f, status);
        est_monitored_session_free(s);
        trainer_free(&t);
        est_test_dir_remove(dir);
    }
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
