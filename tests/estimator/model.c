/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model_fn may say: each mistake an error that names it, the first one told; losses of one element, metrics that
 * replace others, hooks that are the model's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "estimator/model.h"
#include "support/estimator_test.h"

/* Each case does something wrong in a model that is right otherwise. */
typedef void (*mistake)(est_model *model, est_node y);

typedef struct mistake_case {
    mistake     make;
    est_mode    mode;
    const char *text;
} mistake_case;

static void two_predictions(est_model *model, est_node y)
{
    est_model_predict(model, "y", y);
}

static void nameless_prediction(est_model *model, est_node y)
{
    est_model_predict(model, "", y);
}

static void metric_loss(est_model *model, est_node y)
{
    est_model_metric(model, "loss", est_metric_mean(y, NULL));
}

static void metric_step(est_model *model, est_node y)
{
    est_model_metric(model, "global_step", est_metric_mean(y, NULL));
}

static void nameless_metric(est_model *model, est_node y)
{
    est_model_metric(model, NULL, est_metric_mean(y, NULL));
}

static void empty_metric(est_model *model, est_node y)
{
    (void)y;
    est_model_metric(model, "zero", (est_metric){ 0 });
}

static void shared_metric(est_model *model, est_node y)
{
    est_model_metric(model, "seen", est_metric_mean(y, EST_METRIC(.shared = true)));
}

static void label_in_predict(est_model *model, est_node y)
{
    (void)y;
    (void)est_model_label(model, "y");
}

static void wide_loss(est_model *model, est_node y)
{
    est_model_loss(
        model, est_concat(EST_NODES(est_reshape(est_mean(y), EST_I64S(1)), est_reshape(est_mean(y), EST_I64S(1))), 0));
}

/* As the macro of <estoc/locate.h> would call it. */
static void batch_loss(est_model *model, est_node y)
{
    est_node loss = est_square(y);

    est_here("dir/mine.c", 31);
    (est_model_loss)(model, loss);
}

static void no_loss_node(est_model *model, est_node y)
{
    (void)y;
    est_model_loss(model, EST_NO_NODE);
}

static void no_train_node(est_model *model, est_node y)
{
    (void)y;
    est_model_train_op(model, EST_NO_NODE);
}

static void no_prediction_node(est_model *model, est_node y)
{
    (void)y;
    est_model_predict(model, "z", EST_NO_NODE);
}

/* A graph that lives as long as the tests, since models remember no more than its address. */
static est_graph *another;

static est_node foreign_node(void)
{
    if (another == NULL) assert_int_equal(est_graph_create(1, &another), EST_OK);
    return est_placeholder(another, NULL, EST_F32, EST_SHAPE_SCALAR);
}

static void foreign_prediction(est_model *model, est_node y)
{
    (void)y;
    est_model_predict(model, "z", foreign_node());
}

static void foreign_loss(est_model *model, est_node y)
{
    (void)y;
    est_model_loss(model, foreign_node());
}

static void foreign_train_op(est_model *model, est_node y)
{
    (void)y;
    est_model_train_op(model, foreign_node());
}

static void null_hook(est_model *model, est_node y)
{
    (void)y;
    est_model_training_hook(model, est_stop_at_step_hook(3, 4)); /* one too many: NULL, and the error says why */
}

static void null_evaluation_hook(est_model *model, est_node y)
{
    (void)y;
    est_model_evaluation_hook(model, NULL);
}

static void unknown_feature(est_model *model, est_node y)
{
    (void)y;
    (void)est_model_feature(model, "colour");
}

static void ragged_feature(est_model *model, est_node y)
{
    (void)y;
    (void)est_model_ragged(model, "x"); /* which is not */
}

static void empty_export(est_model *model, est_node y)
{
    (void)y;
    est_model_export_predict(model, "serve", (est_named_nodes){ 0 });
}

static void classify_nothing(est_model *model, est_node y)
{
    (void)y;
    est_model_export_classify(model, "classes", EST_NO_NODE, EST_NO_NODE);
}

static void nameless_summary(est_model *model, est_node y)
{
    est_model_scalar(model, "", est_mean(y));
}

static void foreign_summary(est_model *model, est_node y)
{
    (void)y;
    est_model_scalar(model, "s", EST_NO_NODE);
}

static void wide_scalar(est_model *model, est_node y)
{
    est_model_scalar(model, "s", est_pack(EST_NODES(est_mean(y), est_mean(y)), 0));
}

static void text_scalar(est_model *model, est_node y)
{
    est_model_scalar(model, "s", est_as_string(est_mean(y)));
}

static void text_histogram(est_model *model, est_node y)
{
    est_model_histogram(model, "s", est_as_string(y));
}

static void number_text(est_model *model, est_node y)
{
    est_model_text(model, "s", est_mean(y));
}

static void wide_text(est_model *model, est_node y)
{
    est_model_text(model, "s", est_as_string(est_pack(EST_NODES(est_mean(y), est_mean(y)), 0)));
}

static void flat_image(est_model *model, est_node y)
{
    est_model_image(model, "s", y, 1);
}

static void two_channels(est_model *model, est_node y)
{
    est_model_image(model, "s", est_reshape(y, EST_I64S(-1, 2, 2, 2)), 1);
}

static void integer_image(est_model *model, est_node y)
{
    est_model_image(model, "s", est_cast(est_reshape(y, EST_I64S(-1, 2, 2, 1)), EST_I32), 1);
}

static void no_images(est_model *model, est_node y)
{
    est_model_image(model, "s", est_reshape(y, EST_I64S(-1, 2, 2, 1)), 0);
}

static void bad_node(est_model *model, est_node y)
{
    (void)model;
    (void)est_reshape(y, EST_I64S(-1, -1));
}

static void two_mistakes(est_model *model, est_node y)
{
    metric_step(model, y);
    two_predictions(model, y);
}

static const mistake_case cases[] = {
    { two_predictions, EST_TRAIN, "two predictions are called y" },
    { two_predictions, EST_PREDICT, "two predictions are called y" },
    { nameless_prediction, EST_EVAL, "a prediction needs a name" },
    { metric_loss, EST_EVAL, "a metric cannot be called loss" },
    { metric_step, EST_TRAIN, "a metric cannot be called global_step" },
    { nameless_metric, EST_EVAL, "a metric needs a name" },
    { shared_metric, EST_EVAL, "the state 'mean/total' of the metric seen is shared" },
    { empty_metric, EST_EVAL, "the metric zero does not belong to this graph" },
    { label_in_predict, EST_PREDICT, "the label \"y\" in predict mode" },
    { wide_loss, EST_TRAIN, "est_model_loss: the loss has shape [2]; reduce it, as with est_mean" },
    { batch_loss, EST_TRAIN, "mine.c:31: est_model_loss: the loss has shape [?,1]; reduce it, as with est_mean" },
    { no_loss_node, EST_EVAL, "the loss is a node that does not exist" },
    { no_train_node, EST_TRAIN, "the training operation is a node that does not exist" },
    { no_prediction_node, EST_PREDICT, "the prediction z is a node that does not exist" },
    { foreign_prediction, EST_PREDICT, "the prediction z is a node of another graph" },
    { foreign_loss, EST_EVAL, "the loss is a node of another graph" },
    { foreign_train_op, EST_TRAIN, "the training operation is a node of another graph" },
    { null_hook, EST_TRAIN, "a hook is NULL: the stop hook has num_steps 3 and last_step 4" },
    { null_evaluation_hook, EST_EVAL, "a hook is NULL" },
    { unknown_feature, EST_TRAIN, "the feature \"colour\", but the input has no such component; it has: x, y" },
    { ragged_feature, EST_TRAIN, "the ragged feature \"x\"" },
    { empty_export, EST_PREDICT, "the export output serve has no values" },
    { classify_nothing, EST_PREDICT, "the export output classes needs scores or classes" },
    { nameless_summary, EST_TRAIN, "a summary needs a name" },
    { foreign_summary, EST_TRAIN, "the summary s is a node that does not exist" },
    { wide_scalar, EST_EVAL, "summary s is float32 [2]; expected one number: take the mean, or add a histogram" },
    { text_scalar, EST_TRAIN, "summary s is string []; expected one number" },
    { text_histogram, EST_TRAIN, "summary s is string [?,1]; expected numbers" },
    { number_text, EST_TRAIN, "summary s is float32 []; expected one string" },
    { wide_text, EST_TRAIN, "summary s is string [2]; expected one string" },
    { flat_image, EST_TRAIN, "summary s is float32 [?,1]; expected uint8 or floats [n, height, width, channels]" },
    { two_channels, EST_TRAIN, "summary s is float32 [?,2,2,2]; expected uint8 or floats" },
    { integer_image, EST_TRAIN, "summary s is int32 [?,2,2,1]; expected uint8 or floats" },
    { no_images, EST_TRAIN, "summary s: max_images is 0; write how many to show, above 0" },
    { bad_node, EST_TRAIN, "only one entry of a shape may be -1" },
    { two_mistakes, EST_TRAIN, "a metric cannot be called global_step" },
};

/* The status of the model is not looked at here: the estimator does. */
static est_status wrong_model(est_model *model, est_mode mode, const void *params)
{
    const mistake_case *which = params;
    est_node            y     = est_dense(est_model_feature(model, "x"), 1, NULL);
    est_node            loss  = est_mean(est_square(y));

    est_model_predict(model, "y", y);
    if (mode != EST_PREDICT) est_model_loss(model, loss);
    if (mode == EST_TRAIN) est_model_minimize(model, est_sgd(0.1), loss);
    which->make(model, y);
    return EST_OK;
}

static est_estimator *make(est_model_fn model_fn, const char *dir, const void *params, size_t size)
{
    return est_test_make(model_fn,
                         EST_ESTIMATOR(.config = EST_TEST_CONFIG(dir, "{}"), .params = params, .params_size = size));
}

static est_status run(est_estimator *e, est_mode mode)
{
    est_metrics     *metrics     = NULL;
    est_predictions *predictions = NULL;
    est_status       status      = EST_OK;

    if (mode == EST_TRAIN) return est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 2));
    if (mode == EST_EVAL) {
        status = est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &metrics);
        est_metrics_free(metrics);
        return status;
    }
    status = est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input), &predictions);
    if (status == EST_OK) status = est_predictions_next(predictions);
    est_predictions_free(predictions);
    return status;
}

TEST(mistakes)
{
    static const char *const modes[] = { "train", "eval", "predict" };
    char                     dir[64], context[32];

    est_test_dir(dir);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        est_estimator *e = make(wrong_model, dir, &cases[i], sizeof cases[i]);

        if (run(e, cases[i].mode) != EST_INVALID_ARGUMENT) fail_msg("taken, expected: %s", cases[i].text);
        est_test_error_has(cases[i].text);
        snprintf(context, sizeof context, "model_fn, mode %s: ", modes[cases[i].mode]);
        est_test_error_has(context);
        est_estimator_free(e);
    }
    est_graph_free(another);
    another = NULL;
    est_test_dir_remove(dir);
}

/* What cannot be a summary is blamed on the line that gave it. */
static int given_line;

static void located_text(est_model *model, est_node y)
{
    est_node number = est_mean(y);

    given_line = __LINE__ + 1;
    est_model_text(model, "s", number);
}

TEST(line)
{
    mistake_case   which = { .make = located_text };
    char           dir[64], where[64];
    est_estimator *e;

    est_test_dir(dir);
    e = make(wrong_model, dir, &which, sizeof which);
    assert_int_equal(run(e, EST_TRAIN), EST_INVALID_ARGUMENT);
    snprintf(where, sizeof where, "model.c:%d: summary s is float32 []", given_line);
    est_test_error_has(where);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* What a model_fn may ask about its run. */
static est_status curious_model(est_model *model, est_mode mode, const void *params)
{
    const est_run_config *config = est_model_config(model);
    const est_task       *task   = est_model_task(model);

    assert_string_equal(config->model_dir, params);
    assert_int_equal(config->seed, 5);
    assert_int_equal(config->save_summary_steps, 100); /* defaults are filled in */
    assert_string_equal(task->type, "worker");
    assert_int_equal(task->index, 0);
    assert_true(task->is_chief);
    return est_test_model(model, mode, NULL);
}

TEST(config_and_task)
{
    char           dir[64];
    est_estimator *e;

    est_test_dir(dir);
    e = make(curious_model, dir, dir, sizeof dir);
    assert_string_equal(est_estimator_task(e)->type, "worker");
    assert_int_equal(est_estimator_task(e)->num_worker_replicas, 1);
    assert_int_equal(run(e, EST_TRAIN), EST_OK);
    assert_int_equal(run(e, EST_EVAL), EST_OK);
    assert_int_equal(run(e, EST_PREDICT), EST_OK);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static est_status silent_model(est_model *model, est_mode mode, const void *params)
{
    (void)model;
    (void)mode;
    (void)params;
    return EST_OK;
}

static est_status failing_model(est_model *model, est_mode mode, const void *params)
{
    (void)model;
    (void)mode;
    (void)params;
    return est_fail(EST_UNIMPLEMENTED, "not on a Sunday");
}

static est_status untrained_model(est_model *model, est_mode mode, const void *params)
{
    (void)mode;
    (void)params;
    est_model_loss(model, est_mean(est_model_feature(model, "x")));
    return est_model_status(model);
}

TEST(required)
{
    char           dir[64];
    est_estimator *e;

    est_test_dir(dir);
    e = make(silent_model, dir, NULL, 0);
    assert_int_equal(run(e, EST_TRAIN), EST_INVALID_ARGUMENT);
    est_test_error_has("no loss in mode train");
    assert_int_equal(run(e, EST_EVAL), EST_INVALID_ARGUMENT);
    est_test_error_has("no loss in mode eval");
    assert_int_equal(run(e, EST_PREDICT), EST_INVALID_ARGUMENT);
    est_test_error_has("no prediction in mode predict");
    est_estimator_free(e);
    e = make(untrained_model, dir, NULL, 0);
    assert_int_equal(run(e, EST_TRAIN), EST_INVALID_ARGUMENT);
    est_test_error_has("no training operation in mode train");
    assert_int_equal(run(e, EST_EVAL), EST_OK);
    est_estimator_free(e);
    e = make(failing_model, dir, NULL, 0);
    assert_int_equal(run(e, EST_TRAIN), EST_UNIMPLEMENTED);
    est_test_error_has("model_fn, mode train: not on a Sunday");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A loss of one element in any shape is a loss; a metric that is said again replaces; hooks are told apart by mode. */
typedef struct tally {
    int training, chief, evaluation, prediction, freed;
} tally;

typedef struct tally_hook {
    est_hook hook;
    int     *count, *freed;
} tally_hook;

static est_status tally_after_run(est_hook *hook, est_loop *loop)
{
    (void)loop;
    ++*EST_CONTAINER_OF(hook, tally_hook, hook)->count;
    return EST_OK;
}

static void tally_free(est_hook *hook)
{
    tally_hook *own = EST_CONTAINER_OF(hook, tally_hook, hook);

    ++*own->freed;
    est_free(own);
}

static est_hook *count_runs(tally *t, int *count)
{
    tally_hook *own = est_zalloc(sizeof *own);

    assert_non_null(own);
    *own = (tally_hook){ .hook  = EST_HOOK(.after_run = tally_after_run, .free = tally_free),
                         .count = count,
                         .freed = &t->freed };
    return &own->hook;
}

static est_status good_model(est_model *model, est_mode mode, const void *params)
{
    tally   *t    = *(tally *const *)params;
    est_node y    = est_dense(est_model_feature(model, "x"), 1, NULL);
    est_node loss = est_reshape(est_mean(est_square(y)), EST_I64S(1, 1));

    est_model_predict(model, "y", y);
    assert_true(est_model_has(model, "y"));
    assert_false(est_model_has(model, "z"));
    assert_ptr_equal(est_model_prediction(model, "y").graph, y.graph);
    assert_null(est_model_prediction(model, "z").graph);
    est_model_training_hook(model, count_runs(t, &t->training));
    est_model_chief_hook(model, count_runs(t, &t->chief));
    est_model_evaluation_hook(model, count_runs(t, &t->evaluation));
    est_model_prediction_hook(model, count_runs(t, &t->prediction));
    if (mode == EST_PREDICT) return est_model_status(model);
    est_model_loss(model, loss);
    est_model_metric(model, "m", est_metric_mean(y, NULL));
    est_model_metric(model, "m", est_metric_mean(est_ones_like(y), NULL));
    if (mode == EST_TRAIN) est_model_minimize(model, est_sgd(0.1), loss);
    return est_model_status(model);
}

TEST(taken)
{
    char           dir[64];
    tally          t = { 0 }, *params = &t;
    est_metrics   *metrics = NULL;
    est_estimator *e;

    est_test_dir(dir);
    e = make(good_model, dir, &params, sizeof params);
    assert_int_equal(run(e, EST_TRAIN), EST_OK);
    assert_true(t.training == 2 && t.chief == 2 && t.evaluation == 0 && t.prediction == 0);
    assert_int_equal(t.freed, 4);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .steps = 3), &metrics), EST_OK);
    assert_true(t.training == 2 && t.chief == 2 && t.evaluation == 3 && t.prediction == 0);
    assert_int_equal(t.freed, 8);
    assert_int_equal(est_metrics_count(metrics), 3);
    assert_true(est_metrics_get(metrics, "m") == 1);
    est_metrics_free(metrics);
    assert_int_equal(run(e, EST_PREDICT), EST_OK);
    assert_true(t.training == 2 && t.evaluation == 3 && t.prediction == 1);
    assert_int_equal(t.freed, 12);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- devices ------------------------------------------------------------------------------------------------------ */

typedef struct placing {
    const char *variables; /* where they go */
    int         asked, pinned, read;
} placing;

static const char *place(est_node node, const char *op, const char *device, void *user)
{
    placing *p = user;

    p->asked++;
    p->pinned += strcmp(device, "/job:worker/task:0/device:CPU:0") == 0;
    p->read += strcmp(est_node_name(node), "pinned") == 0; /* the name is the one that the model gave */
    if (strcmp(op, "VarHandleOp") == 0) return p->variables;
    return strcmp(est_node_name(node), "pinned") == 0 ? device : NULL;
}

static est_status pinning_model(est_model *model, est_mode mode, const void *params)
{
    est_node y;

    est_graph_device(est_model_graph(model), "/job:worker/task:0/device:CPU:0");
    y = est_named(est_square(est_model_feature(model, "x")), "pinned");
    est_graph_device(est_model_graph(model), NULL);
    est_model_predict(model, "squares", y);
    return est_test_model(model, mode, params);
}

static est_estimator *make_placed(const char *dir, placing *p)
{
    return est_test_make(pinning_model,
                         EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .cluster_json = "{}", .quiet = true,
                                                                .device_fn = place, .device_user = p)));
}

static void assert_file_has(const char *dir, const char *name, const char *text, bool want)
{
    char   path[300], *bytes = NULL;
    size_t size;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(est_file_read(path, &bytes, &size), EST_OK);
    if ((memmem(bytes, size, text, strlen(text)) != NULL) != want) {
        fail_msg("%s: %s is %s", path, text, want ? "missing" : "there");
    }
    est_free(bytes);
}

/* What device_fn says is in the files of a run; exports, which run elsewhere, have only what the model pinned
 * itself. */
TEST(device_fn)
{
    const est_component x = { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) };
    char                dir[64], base[100], path[EST_CHECKPOINT_PATH_MAX];
    placing             p = { .variables = "/job:ps/task:1" };
    est_estimator      *e;

    est_test_dir(dir);
    e = make_placed(dir, &p);
    assert_int_equal(run(e, EST_TRAIN), EST_OK);
    assert_true(p.asked > 20 && p.pinned == 2 && p.read == 1); /* the feature and its square */
    assert_file_has(dir, "graph.pbtxt", "device: \"/job:ps/task:1\"", true);
    assert_file_has(dir, "graph.pbtxt", "device: \"/job:worker/task:0/device:CPU:0\"", true);
    assert_file_has(dir, "model.ckpt-2.meta", "/job:ps/task:1", true);
    p.asked = 0;
    assert_int_equal(run(e, EST_EVAL), EST_OK);
    assert_true(p.asked > 0);
    p.asked = 0;
    assert_int_equal(run(e, EST_PREDICT), EST_OK);
    assert_true(p.asked > 0);
    p.asked = 0;
    snprintf(base, sizeof base, "%s/export", dir);
    assert_int_equal(est_export_saved_model(e, base, EST_EXPORT(.input = { .raw = { &x, 1 } }), path), EST_OK);
    assert_int_equal(p.asked, 0);
    assert_file_has(path, "saved_model.pb", "/job:ps/task:1", false);
    p.variables = "ps 1";
    assert_int_equal(run(e, EST_EVAL), EST_INVALID_ARGUMENT);
    est_test_error_has("RunConfig: device_fn, operation global_step: the device is \"ps 1\"; write parts of");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

int main(void)
{
    est_log_set_level(EST_LOG_OFF);
    return est_test_run(NULL, NULL);
}
