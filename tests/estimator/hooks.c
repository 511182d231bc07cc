/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks of a training as an Estimator has them: the log in order, savers and listeners of the user's, a NaN, hooks that
 * use the session, and signals that come at any moment. */
#include <fnmatch.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "estimator/estimator.h"
#include "support/export_test.h"
#include "support/log_test.h"

static est_estimator *make_of(est_model_fn model_fn, const char *dir, int64_t save_steps)
{
    return EST_TEST_ESTIMATOR(model_fn, dir, "{}", .save_checkpoints_secs = save_steps > 0 ? 0 : EST_OFF,
                              .save_checkpoints_steps = save_steps, .log_step_count_steps = 2);
}

static est_estimator *make(const char *dir, int64_t save_steps)
{
    return make_of(est_test_model, dir, save_steps);
}

/* The steps that have a checkpoint, up to 99. */
static const char *saved_steps(const char *dir)
{
    static char text[256];
    char        name[128];

    text[0] = '\0';
    for (int step = 0; step < 100; step++) {
        snprintf(name, sizeof name, "%s/model.ckpt-%d.index", dir, step);
        if (est_file_exists(name)) snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", step);
    }
    return text;
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

/* What was logged is these lines; "*" in them stands for what cannot be known. */
static void expect_lines(const char *const *want, int n)
{
    for (int i = 0; i < n; i++) {
        const char *line = log_line(i), *text = strncmp(line, "info ", 5) == 0 ? line + 5 : line;

        if (fnmatch(want[i], text, 0) != 0) fail_msg("line %d is '%s', not '%s'", i, line, want[i]);
    }
    assert_string_equal(log_line(n), ""); /* there are no more */
}

#define EXPECT_LINES(...)                                                                                              \
    expect_lines((const char *const[]){ __VA_ARGS__ },                                                                 \
                 (int)(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *)))

static est_manual_clock clock_at;

static est_status pass_time(est_hook *hook, est_loop *loop)
{
    (void)hook;
    (void)loop;
    est_manual_clock_advance(&clock_at, EST_NS_PER_SEC / 2);
    return EST_OK;
}

TEST(log)
{
    char           dir[64];
    est_hook       ticking = EST_HOOK(.before_run = pass_time);
    est_metrics   *metrics = NULL;
    est_estimator *e;

    est_test_dir(dir);
    e = make(dir, 4);
    est_manual_clock_init(&clock_at, 0, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&clock_at.clock);
    log_keep(EST_LOG_INFO);
    assert_int_equal(
        est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 5, .hooks = EST_HOOKS(&ticking))),
        EST_OK);
    EXPECT_LINES(
        "Calling model_fn.", "Done calling model_fn.", "Create CheckpointSaverHook.", "Graph was finalized.",
        "Running local_init_op.", "Done running local_init_op.",
        "Calling checkpoint listeners before saving checkpoint 0...", "Saving checkpoints for 0 into /*/model.ckpt.",
        "Calling checkpoint listeners after saving checkpoint 0...", "loss = *, step = 0", "global_step/sec: 2",
        "loss = *, step = 2 (1.000 sec)", "Calling checkpoint listeners before saving checkpoint 4...",
        "Saving checkpoints for 4 into /*/model.ckpt.", "Calling checkpoint listeners after saving checkpoint 4...",
        "global_step/sec: 2", "loss = *, step = 4 (1.000 sec)",
        "Calling checkpoint listeners before saving checkpoint 5...", "Saving checkpoints for 5 into /*/model.ckpt.",
        "Calling checkpoint listeners after saving checkpoint 5...", "Loss for final step: *.");
    log_keep(EST_LOG_INFO);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 6)), EST_OK);
    EXPECT_LINES(
        "Calling model_fn.", "Done calling model_fn.", "Create CheckpointSaverHook.", "Graph was finalized.",
        "Restoring parameters from /*/model.ckpt-5", "Running local_init_op.", "Done running local_init_op.",
        "Calling checkpoint listeners before saving checkpoint 5...", "Saving checkpoints for 5 into /*/model.ckpt.",
        "Calling checkpoint listeners after saving checkpoint 5...", "loss = *, step = 5",
        "Calling checkpoint listeners before saving checkpoint 6...", "Saving checkpoints for 6 into /*/model.ckpt.",
        "Calling checkpoint listeners after saving checkpoint 6...", "Loss for final step: *.");
    log_keep(EST_LOG_INFO);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 6)), EST_OK);
    EXPECT_LINES("Skipping training since max_steps has already saved.");
    log_keep(EST_LOG_INFO);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .steps = 2), &metrics), EST_OK);
    EXPECT_LINES("Calling model_fn.", "Done calling model_fn.", "Starting evaluation at 2023-*T*",
                 "Graph was finalized.", "Restoring parameters from /*/model.ckpt-6", "Running local_init_op.",
                 "Done running local_init_op.", "Evaluation \\[1/2]", "Evaluation \\[2/2]", "Inference Time : *s",
                 "Finished evaluation at 2023-*",
                 "Saving dict for global step 6: global_step = 6, loss = *, mae = *, rmse = *",
                 "Saving 'checkpoint_path' summary for global step 6: /*/model.ckpt-6");
    log_release();
    est_clock_set(NULL);
    est_metrics_free(metrics);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- savers and listeners ----------------------------------------------------------------------------------------- */

typedef struct counting_listener {
    est_saving_listener listener;
    int                 saves, stop_at;
} counting_listener;

static est_status count_save(est_saving_listener *listener, est_session *session, int64_t step, bool *stop)
{
    counting_listener *own = EST_CONTAINER_OF(listener, counting_listener, listener);

    (void)session;
    (void)step;
    *stop = ++own->saves == own->stop_at;
    return EST_OK;
}

static counting_listener make_listener(void)
{
    return (counting_listener){ .listener = EST_SAVING_LISTENER(.after_save = count_save) };
}

/* The user's saver works in place of the configured one, and what it saves resumes exactly. */
TEST(own_saver)
{
    char              dir[64], whole[64];
    counting_listener own = make_listener(), call = make_listener();
    est_estimator    *e;
    est_hook         *saver, *second;

    est_test_dir(dir);
    est_test_dir(whole);
    saver = est_checkpoint_saver_hook(
        dir, EST_CHECKPOINT_SAVER(.steps = 7, .listeners = EST_SAVING_LISTENERS(&own.listener)));
    second = est_checkpoint_saver_hook(dir, EST_CHECKPOINT_SAVER(.steps = 1000));
    e      = make(dir, 2);
    log_keep(EST_LOG_INFO);
    assert_int_equal(
        est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 10, .hooks = EST_HOOKS(saver, second),
                                       .saving_listeners = EST_SAVING_LISTENERS(&call.listener))),
        EST_OK);
    assert_false(log_has("Create CheckpointSaverHook."));
    log_release();
    assert_string_equal(saved_steps(dir), "0 7 10 ");
    assert_int_equal(own.saves, 3);
    assert_int_equal(call.saves, 3); /* of the first saver alone */
    est_hook_free(second);

    /* The listeners of a call are those of that call. */
    assert_int_equal(
        est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 30, .hooks = EST_HOOKS(saver))),
        EST_OK);
    assert_int_equal(call.saves, 3);
    est_hook_free(saver);
    est_estimator_free(e);

    e = make(whole, 1000);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 30)), EST_OK);
    est_test_same_checkpoint(whole, dir);
    est_estimator_free(e);
    est_test_dir_remove(dir);
    est_test_dir_remove(whole);
}

static const char *saver_dir;
static bool        of_chief;

static est_status saving_model(est_model *model, est_mode mode, const void *params)
{
    est_hook *saver = est_checkpoint_saver_hook(saver_dir, EST_CHECKPOINT_SAVER(.steps = 3));

    if (of_chief)
        est_model_chief_hook(model, saver);
    else
        est_model_training_hook(model, saver);
    return est_test_model(model, mode, params);
}

TEST(saver_of_model)
{
    char dir[64];

    for (int i = 0; i < 2; i++) {
        counting_listener listener = make_listener();
        est_estimator    *e;

        est_test_dir(dir);
        saver_dir        = dir;
        of_chief         = i == 1;
        listener.stop_at = 3;
        e                = make_of(saving_model, dir, 0); /* no checkpoints by the configuration */
        log_keep(EST_LOG_INFO);
        assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 50,
                                                        .saving_listeners = EST_SAVING_LISTENERS(&listener.listener))),
                         EST_OK);
        log_expect("info A CheckpointSaverListener requested that training be stopped. listener: 0");
        log_release();
        assert_string_equal(saved_steps(dir), "0 3 6 ");
        est_estimator_free(e);
        est_test_dir_remove(dir);
    }
}

TEST(listeners_refused)
{
    char              dir[64];
    counting_listener listener = make_listener();
    est_estimator    *e;

    est_test_dir(dir);
    e = make(dir, 0);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1,
                                                    .saving_listeners = EST_SAVING_LISTENERS(&listener.listener))),
                     EST_INVALID_ARGUMENT);
    est_test_error_has("saving listeners need checkpoints");
    assert_int_equal(
        est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1,
                                       .saving_listeners = EST_SAVING_LISTENERS(&listener.listener, NULL))),
        EST_INVALID_ARGUMENT);
    est_test_error_has("saving listener 1 is NULL");
    est_estimator_free(e);
    e = make(dir, 10);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1,
                                                    .saving_listeners = EST_SAVING_LISTENERS(&listener.listener))),
                     EST_OK);
    assert_int_equal(listener.saves, 2);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- graph.pbtxt -------------------------------------------------------------------------------------------------- */

static est_status wide_model(est_model *model, est_mode mode, const void *params)
{
    est_node x    = est_model_feature(model, "x");
    est_node loss = est_mean(est_square(est_dense(x, 7, NULL)));

    (void)params;
    est_model_loss(model, loss);
    if (mode == EST_TRAIN) est_model_minimize(model, est_sgd(0.1), loss);
    return est_model_status(model);
}

/* A checkpoint of another model is refused, and leaves the graph of that model where it is. */
TEST(graph_of_refused)
{
    char           dir[64], path[96], names[1024], same_names[1024];
    char          *before = NULL, *after = NULL;
    size_t         before_size, after_size;
    est_estimator *e;

    est_test_dir(dir);
    snprintf(path, sizeof path, "%s/graph.pbtxt", dir);
    e = make(dir, 10);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1)), EST_OK);
    est_estimator_free(e);
    assert_int_equal(est_file_read(path, &before, &before_size), EST_OK);
    assert_int_equal(est_file_remove(path), EST_OK);
    assert_int_equal(est_file_replace(path, before, before_size), EST_OK);
    shop_list(dir, names);
    e = make_of(wide_model, dir, 10);
    assert_int_not_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1)), EST_OK);
    est_estimator_free(e);
    assert_int_equal(est_file_read(path, &after, &after_size), EST_OK);
    assert_int_equal(before_size, after_size);
    assert_memory_equal(before, after, before_size);
    assert_string_equal(shop_list(dir, same_names), names);
    est_free(before);
    est_free(after);
    est_test_dir_remove(dir);
}

/* --- a NaN -------------------------------------------------------------------------------------------------------- */

static est_status nan_model(est_model *model, est_mode mode, const void *params)
{
    est_node y    = est_dense(est_model_feature(model, "x"), 1, NULL);
    est_node loss = est_mean(est_log(est_sub(y, est_add(y, est_square(y)))));

    (void)params;
    if (params == NULL && mode == EST_TRAIN) est_model_training_hook(model, est_nan_hook(false));
    est_model_loss(model, loss);
    est_model_minimize(model, est_sgd(0.1), loss);
    return est_model_status(model);
}

static est_status nan_model_alone(est_model *model, est_mode mode, const void *params)
{
    (void)params;
    return nan_model(model, mode, "alone");
}

/* The user's or the model's hook for NaN takes the place of the one that fails. */
TEST(nan)
{
    char           dir[64];
    est_hook      *stops = est_nan_hook(false);
    est_estimator *e;

    est_test_dir(dir);
    e = make_of(nan_model_alone, dir, 1);
    log_keep(EST_LOG_INFO);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 5)), EST_INVALID_ARGUMENT);
    log_expect("error Model diverged with loss = NaN.");
    log_keep(EST_LOG_INFO);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 5, .hooks = EST_HOOKS(stops))),
                     EST_OK);
    log_expect("warn Model diverged with loss = NaN.");
    assert_int_equal(log_count(EST_LOG_ERROR, ""), 0);
    assert_string_equal(saved_steps(dir), "0 ");
    est_estimator_free(e);
    e = make_of(nan_model, dir, 1);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 5)), EST_OK);
    log_release();
    est_estimator_free(e);
    est_hook_free(stops);
    est_test_dir_remove(dir);
}

/* 16 rows of which row 10 has a NaN where `user` says: in the feature or in the label. */
static est_status spoilt_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_tensor  *x = NULL, *y = NULL;
    est_dataset *d;
    est_status   status = est_tensor_create(EST_F32, EST_SHAPE(16, 2), &x);

    (void)context;
    if (status == EST_OK) status = est_tensor_create(EST_F32, EST_SHAPE(16, 1), &y);
    if (status == EST_OK) {
        for (int i = 0; i < 32; i++) ((float *)est_tensor_mutable_data(x))[i] = (float)i / 32;
        for (int i = 0; i < 16; i++) ((float *)est_tensor_mutable_data(y))[i] = (float)i;
        if (strcmp(user, "x") == 0) ((float *)est_tensor_mutable_data(x))[21] = NAN;
        if (strcmp(user, "y") == 0) ((float *)est_tensor_mutable_data(y))[10] = -INFINITY;
        d      = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y }));
        status = est_dataset_finish(est_dataset_batch(d, 8, NULL), out);
    }
    est_tensor_free(x);
    est_tensor_free(y);
    return status;
}

static est_status line_model(est_model *model, est_mode mode, const void *params)
{
    est_node y    = est_dense(est_model_feature(model, "x"), 1, NULL);
    est_node off  = est_sub(y, est_model_label(model, "y"));
    est_node loss = est_mean(est_sub(est_square(off), est_mul(off, est_scalar(off.graph, EST_F32, 2))));

    (void)params;
    est_model_loss(model, loss);
    if (mode == EST_TRAIN) est_model_minimize(model, est_sgd(0.01), loss);
    return est_model_status(model);
}

/* A NaN that came with the input is not blamed on the learning rate. */
TEST(nan_in_input)
{
    char           dir[64];
    est_metrics   *metrics = NULL;
    est_estimator *e;

    est_test_dir(dir);
    e = make_of(line_model, dir, 1);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = spoilt_input, .input_user = "x")),
                     EST_INVALID_ARGUMENT);
    est_test_error_has("NaN loss during training: at step 2 feature or label x is nan in row 2 of the batch; see");
    assert_null(strstr(est_error_message(), "learning rate"));
    log_keep(EST_LOG_INFO);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = spoilt_input, .input_user = "x"), &metrics),
                     EST_OK);
    log_expect("warn the loss of the evaluation is nan from batch 1 on: feature or label x is nan in row 2 of "
               "the batch");
    est_metrics_free(metrics);
    log_keep(EST_LOG_INFO);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = spoilt_input, .input_user = "none"), &metrics),
                     EST_OK);
    assert_int_equal(log_count(EST_LOG_WARN, ""), 0);
    est_metrics_free(metrics);
    log_release();
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = spoilt_input, .input_user = "y")),
                     EST_INVALID_ARGUMENT);
    est_test_error_has("feature or label y is -inf in row 2 of the batch");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* Stopped by a NaN, a training ends well: the last good checkpoint is evaluated. */
TEST(nan_and_evaluate)
{
    char           dir[64];
    est_metrics   *metrics = NULL;
    est_estimator *e;

    est_test_dir(dir);
    e = make_of(nan_model, dir, 1);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 5),
                                            EST_EVAL_SPEC(.input_fn = est_test_input), &metrics),
                     EST_OK);
    assert_int_equal(est_metrics_global_step(metrics), 0);
    est_metrics_free(metrics);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- a hook that runs the session --------------------------------------------------------------------------------- */

typedef struct looker {
    est_hook hook;
    est_node node;
    int64_t  kill_at; /* 0: never */
} looker;

static est_status looker_begin(est_hook *hook, est_loop *loop)
{
    EST_CONTAINER_OF(hook, looker, hook)->node = est_scalar(est_loop_graph(loop), EST_F32, 1);
    return EST_OK;
}

static est_status looker_after_run(est_hook *hook, est_loop *loop)
{
    looker     *own = EST_CONTAINER_OF(hook, looker, hook);
    est_tensor *value;

    if (est_loop_global_step(loop) == own->kill_at) kill(getpid(), SIGKILL);
    if (est_loop_runs(loop) % 3 != 0) return EST_OK; /* counted from its own start: a resumed run looks elsewhere */
    EST_TRY(est_session_run(est_loop_session(loop), EST_NO_FEEDS, EST_NODES(own->node), EST_NO_NODES, &value));
    est_tensor_free(value);
    return EST_OK;
}

static void look_and_train(const char *dir, int64_t kill_at)
{
    looker         own = { .hook = EST_HOOK(.begin = looker_begin, .after_run = looker_after_run), .kill_at = kill_at };
    est_estimator *e   = make(dir, 10);

    assert_int_equal(
        est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 60, .hooks = EST_HOOKS(&own.hook))),
        EST_OK);
    est_estimator_free(e);
}

TEST(runs_of_hooks_change_nothing)
{
    char           whole[64], killed[64];
    est_estimator *e;
    pid_t          pid;
    int            status;

    est_test_dir(whole);
    est_test_dir(killed);
    e = make(whole, 1000);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 60)), EST_OK);
    est_estimator_free(e);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        look_and_train(killed, 27);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    look_and_train(killed, 0);
    est_test_same_checkpoint(whole, killed);
    est_test_dir_remove(whole);
    est_test_dir_remove(killed);
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

static int n_late;

static void raise_term(est_hook *hook)
{
    (void)hook;
    if (n_late++ == 0) raise(SIGTERM);
}

static est_hook late = EST_HOOK(.free = raise_term);

/* The hook goes with the model, after the last look for a signal. */
static est_status late_model(est_model *model, est_mode mode, const void *params)
{
    est_model_training_hook(model, &late);
    return est_test_model(model, mode, params);
}

static int n_told;

static void count_told(int number)
{
    (void)number;
    n_told++;
}

TEST(late_signal)
{
    char           dir[64];
    est_estimator *e;
    pid_t          pid;
    int            status;

    est_test_dir(dir);
    e      = make_of(late_model, dir, 10);
    n_told = 0;
    signal(SIGTERM, count_told);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 2)), EST_OK);
    assert_int_equal(n_told, 1); /* as if it had come after the call */
    signal(SIGTERM, SIG_DFL);
    n_late = 0;
    for (int calls = 1; calls <= 2; calls++) { /* the call is done; with another to come the program ends in that one */
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            est_status last = EST_OK;

            for (int i = 0; i < calls; i++)
                last = est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 2));
            _exit(est_exit_code(last));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), calls == 1 ? 0 : 75);
        assert_string_equal(saved_steps(dir), calls == 1 ? "0 2 4 " : "0 2 4 6 ");
    }
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

typedef struct terminator {
    est_hook hook;
    int64_t  run;
    int      ends;
} terminator;

static est_status terminator_run(est_hook *hook, est_loop *loop)
{
    if (est_loop_runs(loop) == EST_CONTAINER_OF(hook, terminator, hook)->run) raise(SIGTERM);
    return EST_OK;
}

static est_status terminator_end(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, terminator, hook)->ends++;
    return EST_OK;
}

static void stopped(est_status status, const char *text)
{
    assert_int_equal(status, EST_CANCELLED);
    assert_int_equal(est_exit_code(status), 75);
    est_test_error_has(text);
}

TEST(signal_in_predictions)
{
    char             dir[64];
    terminator       t = { .hook = EST_HOOK(.after_run = terminator_run, .end = terminator_end), .run = 3 };
    est_estimator   *e;
    est_predictions *p = NULL;

    est_test_dir(dir);
    e = make(dir, 10);
    for (int batches = 0; batches < 2; batches++) {
        int n = 0;

        assert_int_equal(est_predict(e,
                                     EST_PREDICT_OPTIONS(.input_fn = est_test_input, .batches = batches == 1,
                                                         .hooks = EST_HOOKS(&t.hook)),
                                     &p),
                         EST_OK);
        for (est_status status; (status = est_predictions_next(p)) != EST_CANCELLED; n++) {
            assert_int_equal(status, EST_OK);
        }
        assert_int_equal(n, batches == 1 ? 2 : 2 * 8);
        stopped(est_predictions_next(p), "SIGTERM: the prediction was stopped; start it again"); /* and again */
        assert_int_equal(t.ends, batches + 1);
        est_predictions_free(p);
    }
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(signal_in_evaluation)
{
    char           dir[64];
    terminator     t = { .hook = EST_HOOK(.after_run = terminator_run), .run = 3 };
    est_estimator *e;
    est_metrics   *metrics = NULL;

    est_test_dir(dir);
    e = make(dir, 10);
    stopped(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .hooks = EST_HOOKS(&t.hook)), &metrics),
            "SIGTERM: the evaluation was stopped; start it again");
    assert_null(metrics);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static bool raise_in_model;

static est_status raising_model(est_model *model, est_mode mode, const void *params)
{
    if (raise_in_model) raise(SIGTERM);
    return est_test_model(model, mode, params);
}

TEST(signal_in_export)
{
    const est_component raw[] = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(-1, 2) } };
    char                dir[64], base[96], names[1024];
    est_estimator      *e;

    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/exports", dir);
    e = make_of(raising_model, dir, 10);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1)), EST_OK);
    raise_in_model = true;
    stopped(est_export_saved_model(e, base, EST_EXPORT(.input = { .raw = { raw, 1 } }), NULL),
            "SIGTERM: the export was stopped; start it again");
    assert_false(est_file_exists(base));
    raise_in_model = false;
    assert_int_equal(est_export_saved_model(e, base, EST_EXPORT(.input = { .raw = { raw, 1 } }), NULL), EST_OK);
    assert_int_equal(strlen(shop_list(base, names)), 11); /* a name of ten digits and a space */
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

int main(void)
{
    est_log_set_level(EST_LOG_OFF);
    return est_test_run(NULL, NULL);
}
