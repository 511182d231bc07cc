/* SPDX-License-Identifier: Apache-2.0
 *
 * Preflight: mistakes in evaluations and exporters are found before the first step, by a program on its own, by the
 * chief and by the evaluator of a cluster. */
#include "estimator/preflight.h"

#include <string.h>

#include "estimator/runs_test.h"
#include "support/log_test.h"

#define CHIEF "{\"cluster\": {\"chief\": [\"127.0.0.1:1\"]}, \"task\": {\"type\": \"chief\", \"index\": 0}}"

#define CHIEF_AND_EVALUATOR                                                                                            \
    "{\"cluster\": {\"chief\": [\"127.0.0.1:1\"], \"evaluator\": [\"127.0.0.1:2\"]}, "                                 \
    "\"task\": {\"type\": \"chief\", \"index\": 0}}"

/* --- what is trained, and what must not be ------------------------------------------------------------------------ */

static int steps; /* that were made */

static est_status count_step(est_hook *hook, est_loop *loop)
{
    (void)hook;
    (void)loop;
    steps++;
    return EST_OK;
}

static est_hook counter = EST_HOOK(.after_run = count_step);

/* Trains 3 steps in a directory of its own. */
static est_status train(est_model_fn model_fn, const char *cluster, const est_eval_spec *eval, est_hook *stop)
{
    est_hook      *hooks[] = { &counter, stop };
    est_estimator *e       = NULL;
    char           dir[64];
    est_status     status;

    est_test_dir(dir);
    steps  = 0;
    e      = EST_TEST_ESTIMATOR(model_fn, dir, cluster, .save_checkpoints_steps = 2);
    status = est_train_and_evaluate(
        e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 3, .hooks = { hooks, 1 + (stop != NULL) }), eval,
        NULL);
    est_estimator_free(e);
    est_test_dir_remove(dir);
    return status;
}

/* All three refuse it before the first step, and say this. */
static void refused(est_model_fn model_fn, const est_eval_spec *eval, est_hook *stop, const char *text)
{
    static const char *const roles[] = { "{}", CHIEF, EVALUATOR };

    for (int i = 0; i < 3; i++) {
        assert_int_not_equal(train(model_fn, roles[i], eval, stop), EST_OK);
        est_test_error_has(text);
        assert_int_equal(steps, 0);
    }
}

/* --- metrics ------------------------------------------------------------------------------------------------------ */

static est_exporter *best(const char *metric)
{
    static const est_component raw[] = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } };

    return est_best_exporter(
        "best", EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { raw, 1 } }), .metric = metric));
}

static est_status export_nothing(est_exporter *exporter, est_estimator *estimator, const char *export_path,
                                 const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                                 char path[EST_CHECKPOINT_PATH_MAX])
{
    (void)exporter;
    (void)estimator;
    (void)export_path;
    (void)checkpoint_path;
    (void)metrics;
    (void)is_the_final_export;
    (void)path;
    return EST_OK;
}

static est_status refuse(est_exporter *exporter, est_estimator *estimator)
{
    (void)exporter;
    (void)estimator;
    return est_fail(EST_FAILED_PRECONDITION, "the server is full");
}

#define EVAL_OF(fn, ...)                                                                                               \
    (&(const est_eval_spec){                                                                                           \
        .struct_size = sizeof(est_eval_spec), .input_fn = (fn), .throttle_secs = EST_OFF, __VA_ARGS__ })
#define EVAL(...) EVAL_OF(est_test_input, __VA_ARGS__)

TEST(names_of_metrics)
{
    est_exporter *wrong = best("rmsee"), *right = best("rmse"), *usual = best(NULL), *step = best("global_step");
    est_exporter  own  = EST_EXPORTER(.name = "own", .export_model = export_nothing, .metric = "ma");
    est_hook     *stop = est_stop_if_no_decrease_hook("los", 1, NULL);

    refused(est_test_model, EVAL(.exporters = EST_EXPORTERS(right, wrong)), NULL, "two exporters are called best");
    refused(
        est_test_model, EVAL(.exporters = EST_EXPORTERS(wrong)), NULL,
        "exporter best: it compares the metric \"rmsee\", but evaluations have no such metric (did you mean \"rmse\"?); "
        "they have loss, mae, rmse, global_step");
    refused(est_test_model, EVAL(.exporters = EST_EXPORTERS(&own)), NULL,
            "exporter own: it compares the metric \"ma\"");
    refused(
        est_test_model, EVAL(.name = NULL), stop,
        "early stopping looks for the metric \"los\", but evaluations have no such metric (did you mean \"loss\"?); they "
        "have loss, mae, rmse");
    assert_int_equal(train(est_test_model, "{}", EVAL(.exporters = EST_EXPORTERS(right)), NULL), EST_OK);
    assert_int_equal(train(est_test_model, "{}", EVAL(.exporters = EST_EXPORTERS(usual)), NULL), EST_OK);
    assert_int_equal(train(est_test_model, "{}", EVAL(.exporters = EST_EXPORTERS(step)), NULL), EST_OK);
    assert_int_equal(steps, 3);
    est_exporter_free(wrong);
    est_exporter_free(right);
    est_exporter_free(usual);
    est_exporter_free(step);
    est_hook_free(stop);
}

/* est_train has the names from the model over its own input; what is read elsewhere is not its model's. */
TEST(train_alone)
{
    est_hook      *wrong = est_stop_if_lower_hook("accuracy", 1, NULL), *right = est_stop_if_lower_hook("mae", 0, NULL);
    est_hook      *other = est_stop_if_lower_hook("accuracy", 1, EST_EARLY_STOPPING(.eval_dir = "/tmp/no/such/run"));
    est_estimator *e;
    char           dir[64];

    est_test_dir(dir);
    e     = make(dir, 10, "{}");
    steps = 0;
    log_clear();
    assert_int_equal(
        est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 2, .hooks = EST_HOOKS(&counter, wrong))),
        EST_OK);
    log_expect("early stopping looks for the metric \"accuracy\"");
    assert_int_equal(steps, 2);
    steps = 0;
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 2,
                                                    .hooks = EST_HOOKS(&counter, right, other))),
                     EST_OK);
    assert_int_equal(steps, 2);
    est_hook_free(wrong);
    est_hook_free(right);
    est_hook_free(other);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- inputs and models -------------------------------------------------------------------------------------------- */

/* Without "y", or with another number of columns in "x". */
static est_status other_input(const est_input_context *context, void *user, est_dataset **out)
{
    const float  zeros[3] = { 0 };
    int          n        = *(const int *)user;
    est_tensor  *x = NULL, *y = NULL;
    est_dataset *d;

    (void)context;
    assert_int_equal(est_tensor_f32(EST_SHAPE(1, n), zeros, &x), EST_OK);
    assert_int_equal(est_tensor_f32(EST_SHAPE(1, 1), zeros, &y), EST_OK);
    d = n == 2 ? est_dataset_slices(EST_NAMED_TENSORS({ "x", x }))
               : est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y }));
    est_tensor_free(x);
    est_tensor_free(y);
    return est_dataset_finish(est_dataset_batch(d, 1, NULL), out);
}

/* Fails in evaluations only. */
static est_status fails_in_eval(est_model *model, est_mode mode, const void *params)
{
    if (mode == EST_EVAL) return est_fail(EST_UNIMPLEMENTED, "no idea how to evaluate");
    return est_test_model(model, mode, params);
}

/* Has a variable in evaluations that no training makes. */
static est_status counts_in_eval(est_model *model, est_mode mode, const void *params)
{
    if (mode == EST_EVAL) (void)est_variable(est_model_graph(model), "seen", EST_F32, EST_SHAPE(3));
    return est_test_model(model, mode, params);
}

TEST(models)
{
    int two = 2, three = 3;

    refused(fails_in_eval, EVAL(.name = NULL), NULL, "eval spec: model_fn, mode eval: no idea how to evaluate");
    refused(est_test_model, EVAL_OF(other_input, .input_user = &two), NULL,
            "the model reads the label \"y\", but the input has no such component; it has: x");
    assert_int_not_equal(train(counts_in_eval, "{}", EVAL(.name = NULL), NULL), EST_OK);
    est_test_error_has("model_fn, mode eval: training has no variable 'seen', so that no checkpoint will have it");
    assert_int_not_equal(train(est_test_model, "{}", EVAL_OF(other_input, .input_user = &three), NULL), EST_OK);
    est_test_error_has("the variable 'dense/kernel' is float32 [3,4], but float32 [2,4] in training");
    assert_int_equal(steps, 0);
}

static est_status file_input(const est_input_context *context, void *user, est_dataset **out)
{
    const char *path = user;

    if (context->mode == EST_TRAIN) return est_test_input(context, NULL, out);
    return est_dataset_finish(
        est_dataset_csv(est_dataset_files(path),
                        EST_CSV_COLUMNS({ .name = "x", .dtype = EST_F32 }, { .name = "y", .dtype = EST_F32 }),
                        EST_CSV(.header = true), 2, NULL),
        out);
}

/* Reads the columns of file_input in evaluations. */
static est_status column_model(est_model *model, est_mode mode, const void *params)
{
    est_node y;

    if (mode != EST_EVAL) return est_test_model(model, mode, params);
    y = est_model_label(model, "y");
    est_model_loss(model, est_mean(est_sub(est_model_feature(model, "x"), y)));
    return est_model_status(model);
}

/* A chief whose machine has no files of evaluations trains, as an evaluator may be started meanwhile, and is warned of
 * the final evaluation, which fails without one; what it can read must be right. */
TEST(files)
{
    char dir[64], path[96];

    log_clear();
    est_test_dir(dir);
    snprintf(path, sizeof path, "%s/eval.csv", dir);
    assert_int_equal(train(column_model, "{}", EVAL_OF(file_input, .input_user = path), NULL), EST_NOT_FOUND);
    est_test_error_has("eval spec: no file matches ");
    assert_int_equal(train(column_model, EVALUATOR, EVAL_OF(file_input, .input_user = path), NULL), EST_NOT_FOUND);
    assert_string_equal(log_text(), "");
    assert_int_equal(train(column_model, CHIEF, EVAL_OF(file_input, .input_user = path), NULL), EST_NOT_FOUND);
    assert_int_equal(steps, 3);
    log_expect("The final evaluation will fail after the training, unless an evaluator is started");
    log_clear();
    assert_int_equal(train(column_model, CHIEF_AND_EVALUATOR, EVAL_OF(file_input, .input_user = path), NULL), EST_OK);
    assert_string_equal(log_text(), "");
    assert_int_equal(est_file_replace(path, "x,y\n", 4), EST_OK);
    refused(column_model, EVAL_OF(file_input, .input_user = path), NULL, "eval.csv has no row");
    assert_int_equal(est_file_replace(path, "x,z\n1,2\n", 8), EST_OK);
    refused(column_model, EVAL_OF(file_input, .input_user = path), NULL, "its header is: x,z");
    est_test_dir_remove(dir);
}

/* --- exporters ---------------------------------------------------------------------------------------------------- */

static est_exporter *latest(const est_component *raw)
{
    return est_latest_exporter("latest",
                               EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { raw, 1 } })));
}

TEST(receivers)
{
    const est_component wide  = { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(3) };
    const est_component other = { .name = "z", .dtype = EST_F32, .shape = EST_SHAPE(2) };
    const est_component words = { .name = "x", .dtype = EST_STRING, .shape = EST_SHAPE(2) };
    est_exporter       *a = latest(&wide), *b = latest(&other), *c = latest(&words);
    est_exporter        own = EST_EXPORTER(.name = "own", .export_model = export_nothing, .check = refuse);

    refused(
        est_test_model, EVAL(.exporters = EST_EXPORTERS(a)), NULL,
        "exporter latest: export: the graph to serve: the variable 'dense/kernel' is float32 [3,4], but float32 [2,4] "
        "in training");
    refused(est_test_model, EVAL(.exporters = EST_EXPORTERS(b)), NULL, "the model reads the feature \"x\"");
    refused(est_test_model, EVAL(.exporters = EST_EXPORTERS(c)), NULL, "exporter latest: export: the graph to serve: ");
    refused(est_test_model, EVAL(.exporters = EST_EXPORTERS(&own)), NULL, "exporter own: the server is full");
    est_exporter_free(a);
    est_exporter_free(b);
    est_exporter_free(c);
}

/* The graph to train has the optimizer's slots, which an evaluator's model has not. */
TEST(train_graph)
{
    static const est_component xy[]     = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) },
                                            { .name = "y", .dtype = EST_F32, .shape = EST_SHAPE(1) } };
    est_exporter              *exporter = est_final_exporter(
                     "all", EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input       = { .raw = { xy, 1 } },
                                                                           .train_input = { .raw = { xy, 2 } })));
    est_estimator *e;
    char           dir[64];

    est_test_dir(dir);
    e = make(dir, 10, EVALUATOR);
    assert_int_equal(est_preflight_evaluator(e, (est_hooks){ 0 }, EVAL(.exporters = EST_EXPORTERS(exporter))), EST_OK);
    est_exporter_free(exporter);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* What an exporter of one's own can ask, at any time. */
TEST(check_model)
{
    const est_component right = { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) };
    const est_component wrong = { .name = "z", .dtype = EST_F32, .shape = EST_SHAPE(2) };
    est_estimator      *e;
    char                dir[64];

    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_export_check_model(e, EST_EXPORT(.input = { .raw = { &right, 1 } })), EST_OK);
    assert_int_equal(est_export_check_model(e, EST_EXPORT(.input = { .raw = { &wrong, 1 } })), EST_INVALID_ARGUMENT);
    est_test_error_has("export: the graph to serve: ");
    assert_int_equal(est_export_check_model(e, EST_EXPORT(.as_text = true)), EST_INVALID_ARGUMENT);
    est_test_error_has("there is no serving input");
    assert_int_equal(est_export_check_model(NULL, EST_EXPORT(.input = { .raw = { &right, 1 } })), EST_INVALID_ARGUMENT);
    for (int i = 0; i < 2; i++) {
        const est_asset extra = { i == 0 ? "words.txt" : "../words.txt", i == 0 ? "/no/such/file" : dir };

        assert_int_not_equal(
            est_export_check_model(e, EST_EXPORT(.input = { .raw = { &right, 1 } }, .assets_extra = { &extra, 1 })),
            EST_OK);
        est_test_error_has(i == 0 ? "assets_extra 0: the file /no/such/file does not exist"
                                  : "is not a relative path below assets.extra/");
    }
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A file where the directory of results or exports would be. */
TEST(files_in_the_way)
{
    est_exporter  *exporter = best(NULL);
    est_estimator *e;
    char           dir[64], path[96];

    est_test_dir(dir);
    e     = make(dir, 2, "{}");
    steps = 0;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, i == 0 ? "eval" : "export");
        assert_int_equal(est_file_replace(path, "", 0), EST_OK);
        assert_int_not_equal(est_train_and_evaluate(e,
                                                    EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 3,
                                                                   .hooks = EST_HOOKS(&counter)),
                                                    EVAL(.exporters = EST_EXPORTERS(exporter)), NULL),
                             EST_OK);
        est_test_error_has(" cannot be written to: ");
        est_test_error_has(path);
        assert_int_equal(est_file_remove(path), EST_OK);
    }
    assert_int_equal(steps, 0);
    est_exporter_free(exporter);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

int main(void)
{
    log_keep(EST_LOG_WARN);
    return est_test_run(NULL, NULL);
}
