/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation and prediction: metrics, where they are written, checkpoints chosen, added metrics, single examples. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "support/estimator_test.h"
#include "support/log_test.h"

static est_estimator *make(const char *dir)
{
    return EST_TEST_ESTIMATOR(est_test_model, dir, "{}", .save_checkpoints_steps = 50);
}

/* Predictions of all rows, and the errors computed from them here. */
static void errors_by_hand(est_estimator *e, double *mae, double *mse, int *n)
{
    est_predictions *p = NULL;
    int              i = 0;

    *mae = *mse = 0;
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input), &p), EST_OK);
    while (est_predictions_next(p) == EST_OK) {
        const est_tensor *y  = est_predictions_get(p, "y");
        double            x0 = (i * 37 % 64) / 32.0 - 1, x1 = (i * 11 % 64) / 32.0 - 1;
        double            want = 2 * x0 - x1 + (i * 29 % 7) / 100.0;
        double            error;

        assert_true(est_shape_equal(est_tensor_shape(y), &EST_SHAPE(1)));
        error = *(const float *)est_tensor_data(y) - want;
        *mae += fabs(error) / 64;
        *mse += error * error / 64;
        i++;
    }
    assert_int_equal(est_predictions_next(p), EST_OUT_OF_RANGE);
    assert_int_equal(est_predictions_count(p), 1);
    assert_string_equal(est_predictions_key(p, 0), "y");
    assert_null(est_predictions_get(p, "z"));
    est_predictions_free(p);
    *n = i;
}

TEST(metrics)
{
    char           dir[64];
    est_estimator *e;
    est_metrics   *before = NULL, *after = NULL;
    double         mae, mse;
    int            n;

    est_test_dir(dir);
    e = make(dir);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &before),
                     EST_OK); /* untrained */
    assert_int_equal(est_metrics_global_step(before), 0);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 150)), EST_OK);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &after), EST_OK);
    assert_int_equal(est_metrics_global_step(after), 150);
    assert_int_equal(est_metrics_count(after), 4);
    assert_string_equal(est_metrics_name(after, 0), "global_step");
    assert_string_equal(est_metrics_name(after, 3), "rmse");
    assert_true(est_metrics_get(after, "loss") < est_metrics_get(before, "loss") / 4);
    assert_true(isnan(est_metrics_get(after, "nothing")));
    errors_by_hand(e, &mae, &mse, &n);
    assert_int_equal(n, 64);
    /* sums of 64 float32 terms of order 1 */
    assert_true(fabs(est_metrics_get(after, "mae") - mae) < 1e-5);
    assert_true(fabs(est_metrics_get(after, "loss") - mse) < 1e-5);
    assert_true(fabs(est_metrics_get(after, "rmse") - sqrt(mse)) < 1e-5);
    est_metrics_free(before);
    est_metrics_free(after);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static est_status count_rows(est_model *model, void *user)
{
    (void)user;
    if (est_model_prediction(model, "y").graph == NULL) return est_fail(EST_INTERNAL, "no prediction y");
    est_model_metric(model, "mean_y", est_metric_mean(est_model_label(model, "y"), EST_METRIC(.name = "mean_y")));
    return est_model_status(model);
}

/* The sum of labels, and the number of batches, in states that only evaluations have. */
static est_status own_metrics(est_model *model, void *user)
{
    est_graph *graph = est_model_graph(model);
    est_node   y     = est_model_label(model, "y"), sum, batches;

    (void)user;
    sum     = est_metric_state(graph, "own/sum", EST_F64, EST_SHAPE_SCALAR);
    batches = est_metric_state(graph, "own/batches", EST_I64, EST_SHAPE_SCALAR);
    est_model_metric(model, "sum_y",
                     est_metric_custom(EST_NODES(sum), EST_NODES(est_assign_add(sum, est_sum(est_cast(y, EST_F64)))),
                                       est_read_variable(sum)));
    est_model_metric(model, "batches",
                     est_metric_custom(EST_NODES(batches),
                                       EST_NODES(est_assign(batches, est_shift(est_read_variable(batches), 1))),
                                       est_read_variable(batches)));
    est_model_metric(model, "mean_y", est_metric_mean(y, EST_METRIC(.name = "mean_y")));
    return est_model_status(model);
}

/* Their state is reset for every evaluation, and no checkpoint must have it. */
TEST(metrics_of_its_own)
{
    char            dir[64];
    est_estimator  *e;
    est_checkpoint *checkpoint = NULL;
    est_metrics    *m          = NULL;

    est_test_dir(dir);
    e = make(dir);
    assert_int_equal(est_estimator_add_metrics(e, own_metrics, NULL), EST_OK);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 2)), EST_OK);
        assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .steps = 3), &m), EST_OK);
        assert_true(est_metrics_get(m, "batches") == 3);
        assert_true(fabs(est_metrics_get(m, "sum_y") - est_metrics_get(m, "mean_y") * 3 * 8) < 1e-4);
        est_metrics_free(m);
        m = NULL;
    }
    assert_int_equal(est_checkpoint_open(dir, &checkpoint), EST_OK);
    assert_null(est_checkpoint_find(checkpoint, "own/sum"));
    est_checkpoint_close(checkpoint);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(steps_name_checkpoint_added)
{
    char           dir[64], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator *e;
    est_metrics   *m = NULL;

    est_test_dir(dir);
    e = make(dir);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 120)), EST_OK);
    assert_int_equal(est_estimator_add_metrics(e, count_rows, NULL), EST_OK);
    snprintf(path, sizeof path, "%s/model.ckpt-50", dir);
    assert_int_equal(est_evaluate(e,
                                  EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .steps = 3, .name = "early",
                                                       .checkpoint_path = path),
                                  &m),
                     EST_OK);
    assert_int_equal(est_metrics_global_step(m), 50);
    assert_false(isnan(est_metrics_get(m, "mean_y")));
    est_metrics_free(m);
    snprintf(path, sizeof path, "%s/model.ckpt-77", dir);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .checkpoint_path = path), &m),
                     EST_NOT_FOUND);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .steps = -1), &m),
                     EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(),
                        "evaluate: steps is -1; write a number above 0, or 0 for all of the input");
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .name = "kept"), NULL), EST_OK);
    assert_int_equal(est_evaluate(e, NULL, &m), EST_INVALID_ARGUMENT);
    est_test_error_has("input_fn is required");
    assert_int_equal(est_evaluate(e, &(est_evaluate_options){ 0 }, &m), EST_INVALID_ARGUMENT);
    est_test_error_has("make it with EST_EVALUATE_OPTIONS(...)");
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.steps = 1), &m), EST_INVALID_ARGUMENT);
    est_test_error_has("evaluate: input_fn is required");
    snprintf(path, sizeof path, "%s/eval", dir);
    assert_false(est_dir_exists(path));
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .name = ""), &m), EST_OK);
    assert_true(est_dir_exists(path)); /* no name is none */
    est_metrics_free(m);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(predict_batches)
{
    char             dir[64];
    const char      *keys[] = { "nothing" };
    est_estimator   *e;
    est_predictions *p = NULL;
    int              n = 0;

    est_test_dir(dir);
    e = make(dir);
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input, .batches = true), &p), EST_OK);
    while (est_predictions_next(p) == EST_OK) {
        assert_true(est_shape_equal(est_tensor_shape(est_predictions_get(p, "y")), &EST_SHAPE(8, 1)));
        n++;
    }
    assert_int_equal(n, 8);
    est_predictions_free(p);
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input, .keys = { keys, 1 }), &p), EST_OK);
    for (int i = 0; i < 2; i++) { /* again, and no other */
        assert_int_equal(est_predictions_next(p), EST_INVALID_ARGUMENT);
        assert_string_equal(
            est_error_message(),
            "predict: keys are \"nothing\", but none of them is a prediction of the model; write some of "
            "\"y\", or leave them out for all");
    }
    est_predictions_free(p);
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input, .keys = { keys, 0 }), &p), EST_OK);
    assert_int_equal(est_predictions_next(p), EST_INVALID_ARGUMENT);
    est_test_error_has("predict: keys are an empty list, but none of them");
    est_predictions_free(p);
    keys[0] = NULL;
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input, .keys = { keys, 1 }), &p),
                     EST_INVALID_ARGUMENT);
    est_test_error_has("est_predict_options: keys[0] is NULL");
    assert_int_equal(est_predict(e, NULL, &p), EST_INVALID_ARGUMENT);
    est_test_error_has("predict: input_fn is required");
    assert_int_equal(est_predict(e, &(est_predict_options){ 0 }, &p), EST_INVALID_ARGUMENT);
    est_test_error_has("make it with EST_PREDICT_OPTIONS(...)");
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input, .keys.n = 1), &p),
                     EST_INVALID_ARGUMENT);
    est_test_error_has("keys.n is 1 and keys.data is NULL");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- words, one and many ------------------------------------------------------------------------------------------ */

typedef struct words {
    int         batch; /* 0: the first of two batches, 2 rows; 1: the second, one row; 2: the end */
    const char *bad;   /* what the model gives instead of good splits; NULL: good ones */
} words;

static est_status put_strings(const char *const *texts, int n, est_tensor **out)
{
    EST_TRY(est_tensor_create(EST_STRING, EST_SHAPE(n), out));
    for (int i = 0; i < n; i++) EST_TRY(est_tensor_set_string(*out, i, texts[i], strlen(texts[i])));
    return EST_OK;
}

/* Names, lists of words, and numbers as labels. */
static est_status next_words(void *state, est_field *element)
{
    words *w = state;

    if (w->batch == 2) return EST_OUT_OF_RANGE;
    if (w->batch++ == 0) {
        EST_TRY(put_strings((const char *const[]){ "ann", "" }, 2, &element[0].values));
        EST_TRY(put_strings((const char *const[]){ "a", "bb", "ccc" }, 3, &element[1].values));
        EST_TRY(est_tensor_i64(EST_SHAPE(3), (int64_t[]){ 0, 3, 3 }, &element[1].splits));
        return est_tensor_i64(EST_SHAPE(2), (int64_t[]){ 7, 8 }, &element[2].values);
    }
    EST_TRY(put_strings((const char *const[]){ "bob" }, 1, &element[0].values));
    EST_TRY(put_strings((const char *const[]){ "dddd" }, 1, &element[1].values));
    EST_TRY(est_tensor_i64(EST_SHAPE(2), (int64_t[]){ 0, 1 }, &element[1].splits));
    return est_tensor_i64(EST_SHAPE(1), (int64_t[]){ 9 }, &element[2].values);
}

static est_status words_input(const est_input_context *context, void *user, est_dataset **out)
{
    const est_component components[] = {
        { .name = "name", .dtype = EST_STRING, .shape = EST_SHAPE(-1) },
        { .name = "words", .dtype = EST_STRING, .shape = EST_SHAPE(-1), .ragged = true },
        { .name = "label", .dtype = EST_I64, .shape = EST_SHAPE(-1) },
    };

    (void)context;
    ((words *)user)->batch = 0;
    return est_dataset_finish(
        est_dataset_generator((est_components){ components, 3 }, EST_GENERATOR(.next = next_words, .user = user)), out);
}

static est_status words_model(est_model *model, est_mode mode, const void *params)
{
    const words    *w     = *(words *const *)params;
    est_ragged_node given = est_model_ragged(model, "words");

    (void)mode;
    if (w->bad != NULL && strcmp(w->bad, "type") == 0) given.splits = est_cast(given.splits, EST_F32);
    if (w->bad != NULL && strcmp(w->bad, "order") == 0) given.splits = est_neg(given.splits);
    est_model_predict(model, "name", est_model_feature(model, "name"));
    est_model_predict_ragged(model, "words", given);
    return est_model_status(model);
}

static est_estimator *make_words(const char *dir, words **w)
{
    return est_test_make(words_model,
                         EST_ESTIMATOR(.params = w, .params_size = sizeof *w,
                                       .config = EST_RUN_CONFIG(.model_dir = dir, .seed = 5, .cluster_json = "{}")));
}

/* The strings of a prediction, each followed by a comma. */
static const char *strings(const est_predictions *p, const char *key)
{
    static char       text[100];
    const est_tensor *value = est_predictions_get(p, key);
    const est_str    *s;
    size_t            n = 0;

    assert_non_null(value);
    s       = est_tensor_data(value);
    text[0] = '\0';
    for (int64_t i = 0; i < est_tensor_count(value); i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%.*s,", (int)s[i].size, s[i].data);
    }
    return text;
}

TEST(predict_words)
{
    static const char *const name_only[] = { "name", "none" }, *const words_only[] = { "words" };
    words            w = { 0 }, *params = &w;
    est_predictions *p = NULL;
    est_estimator   *e;
    char             dir[64];

    est_test_dir(dir);
    e = make_words(dir, &params);
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = words_input, .input_user = &w), &p), EST_OK);
    assert_int_equal(est_predictions_next(p), EST_OK);
    assert_int_equal(est_predictions_count(p), 2);
    assert_null(est_predictions_get(p, "words/splits"));
    assert_null(est_predictions_get(p, "label"));
    assert_int_equal(est_tensor_shape(est_predictions_get(p, "name"))->rank, 0);
    assert_string_equal(strings(p, "name"), "ann,");
    assert_string_equal(strings(p, "words"), "a,bb,ccc,");
    assert_int_equal(est_predictions_next(p), EST_OK);
    assert_string_equal(strings(p, "name"), ",");
    assert_true(est_shape_equal(est_tensor_shape(est_predictions_get(p, "words")), &EST_SHAPE(0)));
    assert_int_equal(est_predictions_next(p), EST_OK);
    assert_string_equal(strings(p, "name"), "bob,");
    assert_string_equal(strings(p, "words"), "dddd,");
    assert_int_equal(est_predictions_next(p), EST_OUT_OF_RANGE);
    est_predictions_free(p);

    assert_int_equal(est_predict(e,
                                 EST_PREDICT_OPTIONS(.input_fn = words_input, .input_user = &w, .batches = true,
                                                     .keys = { words_only, 1 }),
                                 &p),
                     EST_OK);
    assert_int_equal(est_predictions_next(p), EST_OK);
    assert_int_equal(est_predictions_count(p), 2);
    assert_string_equal(strings(p, "words"), "a,bb,ccc,");
    assert_memory_equal(est_tensor_data(est_predictions_get(p, "words/splits")), ((int64_t[]){ 0, 3, 3 }), 24);
    est_predictions_free(p);

    assert_int_equal(
        est_predict(e, EST_PREDICT_OPTIONS(.input_fn = words_input, .input_user = &w, .keys = { name_only, 2 }), &p),
        EST_OK);
    assert_int_equal(est_predictions_next(p), EST_OK);
    assert_int_equal(est_predictions_count(p), 1);
    assert_string_equal(strings(p, "name"), "ann,");
    est_predictions_free(p);

    w.bad = "type";
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = words_input, .input_user = &w), &p), EST_OK);
    assert_int_equal(est_predictions_next(p), EST_INVALID_ARGUMENT);
    est_test_error_has("the prediction words/splits has type float32; splits are int64");
    est_predictions_free(p);
    w.bad = "order";
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = words_input, .input_user = &w), &p), EST_OK);
    assert_int_equal(est_predictions_next(p), EST_INVALID_ARGUMENT);
    est_test_error_has("the prediction words has 3 values, and example 0 those from 0 to -3; splits rise");
    est_predictions_free(p);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A prediction and a metric of the wrong shape, as the mode says. */
static est_status wrong_shapes(est_model *model, est_mode mode, const void *params)
{
    est_node   x      = est_model_feature(model, "x");
    est_metric metric = { 0 };

    (void)params;
    est_model_predict(model, "rows", x);
    est_model_predict(model, "sum", est_mean(x));
    if (mode == EST_EVAL) {
        est_model_loss(model, est_mean(x));
        metric       = est_metric_mean(x, EST_METRIC(.name = "m"));
        metric.value = est_reshape(
            est_concat(EST_NODES(est_reshape(metric.value, EST_I64S(1)), est_reshape(metric.value, EST_I64S(1))), 0),
            EST_I64S(2));
        est_model_metric(model, "m", metric);
    }
    return est_model_status(model);
}

TEST(wrong_shapes)
{
    char             dir[64];
    est_estimator   *e = NULL;
    est_metrics     *m = NULL;
    est_predictions *p = NULL;

    est_test_dir(dir);
    e = est_test_make(wrong_shapes,
                      EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 5, .cluster_json = "{}")));
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &m), EST_INVALID_ARGUMENT);
    est_test_error_has("the metric m has shape [2]");
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .name = "a/b"), &m),
                     EST_INVALID_ARGUMENT);
    est_test_error_has("name is a/b");
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input), &p), EST_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(est_predictions_next(p), EST_INVALID_ARGUMENT);
        est_test_error_has("the prediction sum of shape [] has no axis of examples");
    }
    est_predictions_free(p);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static est_status out_of_range(est_hook *hook, est_loop *loop)
{
    (void)hook;
    (void)loop;
    return est_fail(EST_OUT_OF_RANGE, "too far");
}

/* A hook that fails with the code of the end does not end the predictions as if all were there. */
TEST(hook_is_not_the_end)
{
    est_hook hooks[] = { EST_HOOK(.begin = out_of_range), EST_HOOK(.after_create_session = out_of_range),
                         EST_HOOK(.before_run = out_of_range), EST_HOOK(.after_run = out_of_range),
                         EST_HOOK(.end = out_of_range) };
    char     dir[64];

    est_test_dir(dir);
    for (int i = 0; i < 5; i++) {
        est_estimator   *e = make(dir);
        est_metrics     *m = NULL;
        est_predictions *p = NULL;
        est_status       status;

        assert_int_equal(
            est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .hooks = EST_HOOKS(&hooks[i])), &m),
            EST_OUT_OF_RANGE);
        assert_int_equal(
            est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input, .hooks = EST_HOOKS(&hooks[i])), &p), EST_OK);
        do status = est_predictions_next(p);
        while (status == EST_OK);
        assert_int_equal(status, EST_INVALID_ARGUMENT);
        est_test_error_has("too far");
        est_predictions_free(p);
        est_estimator_free(e);
    }
    est_test_dir_remove(dir);
}

/* The lines around an evaluation say when it was where the user is. */
TEST(local_times)
{
    static est_manual_clock clock;
    est_metrics            *m = NULL;
    est_estimator          *e;
    const char             *zone   = getenv("TZ");
    char                   *before = zone != NULL ? strdup(zone) : NULL;
    char                    dir[64];

    est_test_dir(dir);
    e = make(dir);
    setenv("TZ", "XST-05:30", 1);
    tzset();
    est_manual_clock_init(&clock, 0, 1700000000 * EST_NS_PER_SEC); /* 2023-11-14 22:13:20 in UTC */
    est_clock_set(&clock.clock);
    log_keep(EST_LOG_INFO);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &m), EST_OK);
    log_release();
    est_clock_set(NULL);
    if (before != NULL) setenv("TZ", before, 1);
    if (before == NULL) unsetenv("TZ");
    tzset();
    log_expect("info Starting evaluation at 2023-11-15T03:43:20");
    log_expect("info Finished evaluation at 2023-11-15-03:43:20");
    free(before);
    est_metrics_free(m);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* There are metrics, and a warning that names the path. */
static void not_saved(est_estimator *e, const char *name, const char *path)
{
    est_metrics *m = NULL;

    log_keep(EST_LOG_WARN);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .name = name), &m), EST_OK);
    log_release();
    assert_int_equal(est_metrics_global_step(m), 3);
    assert_false(isnan(est_metrics_get(m, "mae")));
    assert_non_null(strstr(log_line(-1), "warn the result of step 3 is not saved: "));
    assert_non_null(strstr(log_line(-1), path));
    est_metrics_free(m);
}

/* Where the result cannot be written, by a file in the way or when the disk is full, the caller has the metrics all the
 * same, and a warning says what was not saved. An evaluation that others go by has failed. */
TEST(result_not_written)
{
    struct rlimit  limit, none;
    est_hook      *in_memory;
    est_estimator *e;
    char           dir[64], path[96];

    est_test_dir(dir);
    e = make(dir);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 3)), EST_OK);
    snprintf(path, sizeof path, "%s/eval_file", dir);
    assert_int_equal(est_file_replace(path, "", 0), EST_OK);
    not_saved(e, "file", path);
    in_memory = est_in_memory_evaluator_hook(e, EST_IN_MEMORY(.input_fn = est_test_input, .name = "file"));
    assert_int_not_equal(
        est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 2, .hooks = EST_HOOKS(in_memory))), EST_OK);
    est_hook_free(in_memory);
    est_test_error_has("evaluate: the result of step 3 is not saved: ");
    est_test_error_has(path);

    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    none          = limit;
    none.rlim_cur = 0; /* no file may grow */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    not_saved(e, "full", "eval_full/events");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR);
    return est_test_run(NULL, NULL);
}
