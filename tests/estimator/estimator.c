/* SPDX-License-Identifier: Apache-2.0
 *
 * The log of a program that trains, evaluates and predicts: TensorFlow's lines in TensorFlow's order. Lines between
 * those that are named here, of hooks and sessions, have tests of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "support/estimator_test.h"
#include "support/log_test.h"

/* Whether a line is the wanted one, in which "#" stands for any number or time and "DIR" for the directory. */
static bool is_line(const char *line, const char *want, const char *dir)
{
    while (*want != '\0') {
        if (*want == '#') {
            size_t n = strspn(line, "0123456789.-+:Te");

            if (n == 0) return false;
            line += line[n - 1] == '.' ? n - 1 : n; /* the end of the sentence */
            want++;
        } else if (strncmp(want, "DIR", 3) == 0) {
            if (strncmp(line, dir, strlen(dir)) != 0) return false;
            line += strlen(dir);
            want += 3;
        } else if (*line++ != *want++) {
            return false;
        }
    }
    return *line == '\0' || want[-1] == '{'; /* of a configuration only the beginning is given */
}

/* The lines are there, in this order. Forgets all lines. */
static void expect_lines(const char *dir, const char *const *want, int n)
{
    int at = 0, n_lines = log_count(EST_LOG_OFF, "");

    for (int i = 0; i < n; i++) {
        int from = at;

        while (at < n_lines && !is_line(log_line(at), want[i], dir)) at++;
        if (at == n_lines) {
            fail_msg("line %d, \"%s\", is not among those from %d on:\n%s", i, want[i], from, log_text());
        }
        at++;
    }
    log_clear();
}

#define EXPECT_LINES(dir, ...)                                                                                         \
    expect_lines(dir, (const char *const[]){ __VA_ARGS__ },                                                            \
                 (int)(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)))

static est_estimator *make(const char *dir, const est_warm_start *warm_start)
{
    return est_test_make(
        est_test_model,
        EST_ESTIMATOR(.config = EST_TEST_CONFIG(dir, "{}", .save_checkpoints_steps = 10, .log_step_count_steps = 10),
                      .warm_start = warm_start));
}

/* As in training: shuffled, repeated for ever. */
static est_status endless_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_dataset *d = NULL;

    EST_TRY(est_test_input(context, user, &d));
    return est_dataset_finish(est_dataset_repeat(d, EST_FOREVER), out);
}

static void evaluate(est_estimator *e, int64_t steps)
{
    est_metrics *metrics = NULL;

    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .steps = steps), &metrics),
                     EST_OK);
    est_metrics_free(metrics);
}

/* As a cluster names one that was asked for at an earlier step. */
static void evaluate_as(est_estimator *e, const char *dir, int step, int named)
{
    static const char *const ends[]  = { "index", "data-00000-of-00001" };
    est_metrics             *metrics = NULL;
    char                     from[256], to[256];

    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "%s/model.ckpt-%d.%s", dir, step, ends[i]);
        snprintf(to, sizeof to, "%s/model.ckpt-%d.%s", dir, named, ends[i]);
        assert_int_equal(link(from, to), 0);
    }
    snprintf(to, sizeof to, "%s/model.ckpt-%d", dir, named);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .checkpoint_path = to), &metrics),
                     EST_OK);
    est_metrics_free(metrics);
}

static void predict(est_estimator *e, est_input_fn input_fn)
{
    est_predictions *p = NULL;

    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = input_fn), &p), EST_OK);
    assert_string_equal(log_text(), ""); /* nothing happens before it is asked */
    assert_int_equal(est_predictions_next(p), EST_OK);
    est_predictions_free(p);
}

TEST(train_evaluate_predict)
{
    char           dir[64];
    est_estimator *e;

    est_test_dir(dir);
    e = make(dir, NULL);
    EXPECT_LINES(dir, "info Using config: {");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 12)), EST_OK);
    assert_false(log_has("Warm-start"));
    assert_false(log_has("Restoring parameters"));
    EXPECT_LINES(dir, "info Calling model_fn.", "info Done calling model_fn.", "info Create CheckpointSaverHook.",
                 "info Graph was finalized.", "info Calling checkpoint listeners before saving checkpoint 0...",
                 "info Saving checkpoints for 0 into DIR/model.ckpt.",
                 "info Calling checkpoint listeners after saving checkpoint 0...", "info loss = #, step = #",
                 "info Calling checkpoint listeners before saving checkpoint 10...",
                 "info Saving checkpoints for 10 into DIR/model.ckpt.",
                 "info Calling checkpoint listeners after saving checkpoint 10...", "info global_step/sec: #",
                 "info loss = #, step = # (# sec)", "info Calling checkpoint listeners before saving checkpoint 12...",
                 "info Saving checkpoints for 12 into DIR/model.ckpt.",
                 "info Calling checkpoint listeners after saving checkpoint 12...", "info Loss for final step: #.");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 12)), EST_OK);
    assert_int_equal(log_count(EST_LOG_OFF, ""), 1);
    EXPECT_LINES(dir, "info Skipping training since max_steps has already saved.");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1)), EST_OK);
    EXPECT_LINES(dir, "info Done calling model_fn.", "info Graph was finalized.",
                 "info Restoring parameters from DIR/model.ckpt-12",
                 "info Saving checkpoints for 13 into DIR/model.ckpt.", "info Loss for final step: #.");

    evaluate(e, 3);
    EXPECT_LINES(dir, "info Calling model_fn.", "info Done calling model_fn.", "info Starting evaluation at #",
                 "info Restoring parameters from DIR/model.ckpt-13", "info Evaluation [1/3]", "info Evaluation [2/3]",
                 "info Evaluation [3/3]", "info Inference Time : #s", "info Finished evaluation at #",
                 "info Saving dict for global step 13: global_step = 13, loss = #, mae = #, rmse = #",
                 "info Saving 'checkpoint_path' summary for global step 13: DIR/model.ckpt-13");
    evaluate(e, 0);
    assert_false(log_has("Evaluation ["));
    assert_false(log_has("trained on"));
    evaluate_as(e, dir, 13, 11);
    EXPECT_LINES(
        dir, "info Saving dict for global step 13: global_step = 13, loss = #, mae = #, rmse = #",
        "info Saving 'checkpoint_path' summary for global step 13: DIR/model.ckpt-11 (others trained on while it "
        "was made: docs/cluster.md, Checkpoints)");
    log_clear();
    predict(e, est_test_input);
    assert_false(log_has("for ever"));
    EXPECT_LINES(dir, "info Calling model_fn.", "info Done calling model_fn.",
                 "info Restoring parameters from DIR/model.ckpt-13");
    predict(e, endless_input);
    EXPECT_LINES(dir,
                 "warn the input of predict repeats for ever, so there is no last prediction; this is probably a "
                 "mistake: leave out the repeat in mode EST_PREDICT",
                 "info Calling model_fn.");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static est_status stop_now(est_hook *hook, est_loop *loop)
{
    (void)hook;
    est_loop_request_stop(loop, "enough");
    return EST_OK;
}

static est_status no_input(const est_input_context *context, void *user, est_dataset **out)
{
    (void)context;
    (void)user;
    (void)out;
    return est_fail(EST_NOT_FOUND, "no rows today");
}

/* A directory is made when there is something to write into it. */
TEST(evaluation_makes_no_directory)
{
    char           dir[64], path[96];
    est_estimator *e;
    est_metrics   *metrics = NULL;

    est_test_dir(dir);
    snprintf(path, sizeof path, "%s/mistyped", dir);
    e = make(path, NULL);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = no_input), &metrics), EST_NOT_FOUND);
    assert_false(est_dir_exists(path));
    log_clear();
    predict(e, est_test_input);
    assert_false(est_dir_exists(path));
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &metrics), EST_OK);
    est_metrics_free(metrics);
    assert_true(est_dir_exists(path));
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* From 20 steps on only every tenth part is told. */
TEST(evaluation_lines)
{
    char           dir[64];
    est_estimator *e;
    est_metrics   *metrics = NULL;
    est_hook       stop    = EST_HOOK(.after_run = stop_now);

    est_test_dir(dir);
    e = make(dir, NULL);
    log_clear();
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = endless_input, .steps = 25), &metrics), EST_OK);
    est_metrics_free(metrics);
    assert_false(log_has("Evaluation [1/25]"));
    assert_false(log_has("for ever"));
    EXPECT_LINES(dir, "warn Could not find trained model in model_dir: DIR, running initialization to evaluate.",
                 "info Calling model_fn.", "info Evaluation [2/25]", "info Evaluation [4/25]",
                 "info Evaluation [24/25]", "info Evaluation [25/25]",
                 "info Saving dict for global step 0: global_step = 0, loss = #, mae = #, rmse = #");
    assert_int_equal(
        est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = endless_input, .hooks = EST_HOOKS(&stop)), &metrics), EST_OK);
    est_metrics_free(metrics);
    EXPECT_LINES(
        dir,
        "warn the input of the evaluation repeats for ever, and steps is not set; only a hook or a signal will "
        "end it: leave out the repeat in mode EST_EVAL, or set steps",
        "info Calling model_fn.", "info Finished evaluation at #");
    predict(e, est_test_input);
    EXPECT_LINES(dir, "warn Could not find trained model in model_dir: DIR, running initialization to predict.",
                 "info Calling model_fn.");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(warm_start_lines)
{
    const est_rename same = { "out/bias", "out/bias" };
    char             dir[64], old[64], settings[300];
    est_estimator   *e;

    est_test_dir(old);
    est_test_dir(dir);
    e = make(old, NULL);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1)), EST_OK);
    est_estimator_free(e);
    e = make(dir, EST_WARM_START(.path = old, .renames = { &same, 1 }));
    log_clear();
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1)), EST_OK);
    snprintf(settings, sizeof settings,
             "info Warm-starting with WarmStartSettings: {\"path\": \"%s\", \"variables\": \".*\", \"all\": false, "
             "\"only_vocabs\": false, \"renames\": {\"out/bias\": \"out/bias\"}, \"vocabs\": {}}",
             old);
    EXPECT_LINES(old, "info Done calling model_fn.", settings, "info Warm-starting from: DIR",
                 "info Warm-started 4 variables.");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1)), EST_OK);
    assert_false(log_has("Warm-start")); /* there is a checkpoint */
    est_estimator_free(e);
    est_test_dir_remove(old);
    est_test_dir_remove(dir);
}

/* A job of Slurm with one task: the chief of a cluster of one, which trains. */
TEST(slurm_job)
{
    const est_job  chief = { .name = "chief", .addresses.n = 1 };
    char           dir[64];
    est_resolver  *slurm = NULL;
    est_estimator *e     = NULL;

    est_test_dir(dir);
    setenv("SLURM_STEP_NODELIST", "n1", 1);
    setenv("SLURM_STEP_TASKS_PER_NODE", "1", 1);
    setenv("SLURM_PROCID", "0", 1);
    assert_int_equal(est_resolve_slurm(EST_SLURM(.jobs = { &chief, 1 }), NULL, &slurm), EST_OK);
    e = est_test_make(est_test_model, EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 5, .quiet = true,
                                                                             .resolver = slurm)));
    est_resolver_free(slurm);
    assert_string_equal(est_estimator_task(e)->type, "chief");
    assert_string_equal(est_cluster_address(est_estimator_task(e)->cluster, "chief", 0), "n1:8888");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 2)), EST_OK);
    unsetenv("SLURM_STEP_NODELIST");
    unsetenv("SLURM_STEP_TASKS_PER_NODE");
    unsetenv("SLURM_PROCID");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* Structs of headers that ended earlier: what lies behind them is not looked at. */
TEST(shorter_structs)
{
    est_hook             *no_hook[1] = { NULL };
    est_warm_start        start      = *EST_WARM_START(.path = "/nonexistent", .vocabs.n = 1);
    est_estimator_options made       = *EST_ESTIMATOR(.params_size = 8, .warm_start = &start);
    est_train_options    train = *EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 2, .hooks = { no_hook, 1 },
                                                    .saving_listeners = { NULL, 1 });
    est_evaluate_options evaluate   = *EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .steps = 1, .name = "a/b");
    est_predict_options  predict    = *EST_PREDICT_OPTIONS(.input_fn = est_test_input, .keys.n = -1);
    est_train_spec       training   = *EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = -1);
    est_eval_spec        evaluation = *EST_EVAL_SPEC(.input_fn = est_test_input, .name = "a/b");
    char                 dir[64];
    est_estimator       *e = NULL;
    est_metrics         *m = NULL;
    est_predictions     *p = NULL;

    est_test_dir(dir);
    start.struct_size      = offsetof(est_warm_start, vocabs);
    made.struct_size       = offsetof(est_estimator_options, params);
    train.struct_size      = offsetof(est_train_options, hooks);
    evaluate.struct_size   = offsetof(est_evaluate_options, name);
    predict.struct_size    = offsetof(est_predict_options, keys);
    training.struct_size   = offsetof(est_train_spec, max_steps);
    evaluation.struct_size = offsetof(est_eval_spec, name);
    made.config            = EST_RUN_CONFIG(.model_dir = dir, .seed = 5, .quiet = true, .cluster_json = "{}");
    assert_int_equal(est_estimator_create(est_test_model, &made, &e), EST_OK);
    assert_int_equal(est_train(e, &train), EST_OK);
    assert_int_equal(est_evaluate(e, &evaluate, &m), EST_OK);
    assert_int_equal(est_metrics_global_step(m), 2);
    assert_int_equal(est_predict(e, &predict, &p), EST_OK);
    assert_int_equal(est_predictions_next(p), EST_OK);
    training.input_user = &(int64_t){ 1 };
    est_metrics_free(m);
    assert_int_equal(est_train_and_evaluate(e, &training, &evaluation, &m), EST_OK);
    assert_int_equal(est_metrics_global_step(m), 8); /* the pass of 8 batches that the first training began */
    est_metrics_free(m);
    est_predictions_free(p);
    est_estimator_free(e);
    made.struct_size = sizeof made;
    made.params_size = 0;
    assert_int_equal(est_estimator_create(est_test_model, &made, &e), EST_OK); /* with the shorter warm start */
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(refused)
{
    est_estimator *e = NULL;

    assert_int_equal(est_estimator_create(NULL, NULL, &e), EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), "an estimator needs a model_fn, NULL was given");
    assert_int_equal(est_estimator_create(est_test_model, &(est_estimator_options){ 0 }, &e), EST_INVALID_ARGUMENT);
    est_test_error_has("make it with EST_ESTIMATOR(...)");
    assert_int_equal(est_estimator_create(est_test_model, EST_ESTIMATOR(.params_size = 4), &e), EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), "params_size is 4 and params is NULL; set both, or leave both out");
    assert_null(e);
}

int main(void)
{
    log_keep(EST_LOG_INFO);
    return est_test_run(NULL, NULL);
}
