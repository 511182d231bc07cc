/* SPDX-License-Identifier: Apache-2.0
 *
 * Estimators with dynamic embeddings: training that is killed and resumed is the same as one that is not, with any
 * number of threads; evaluation, prediction and exports have the rows of the checkpoint. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kernels/key_rows.h"
#include "support/dynamic_test.h"
#include "support/fault_loop.h"
#include "train/eval_results.h"
#include "train/saver.h"

#define STEPS 60

/* Keys are admitted late, age, and there are fewer rows than keys. */
#define TIGHT EST_DYNAMIC(.admit_after = 2, .max_rows = 30, .max_age = 25)

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static void train(const char *dir, int threads, const est_dynamic_options *options, est_hooks hooks)
{
    est_columns   *columns;
    est_estimator *e = dynamic_estimator(dir, threads, options, &columns);

    ok(est_train(e, EST_TRAIN_OPTIONS(.input_fn = dynamic_input, .max_steps = STEPS, .hooks = hooks)));
    est_estimator_free(e);
    est_columns_free(columns);
}

static int64_t stored_rows(const char *dir, const char *name)
{
    est_checkpoint                *checkpoint = NULL;
    const est_checkpoint_variable *found;
    int64_t                        n;

    ok(est_checkpoint_open(dir, &checkpoint));
    found = est_checkpoint_find(checkpoint, name);
    if (found == NULL) fail_msg("the checkpoint lacks %s", name);
    n = found->shape.dim[0];
    est_checkpoint_close(checkpoint);
    return n;
}

/* --- the same in all circumstances -------------------------------------------------------------------------------- */

static void train_and_die(const char *dir, int64_t step)
{
    est_test_killer k   = EST_TEST_KILLER(step);
    pid_t           pid = fork();
    int             status;

    assert_true(pid >= 0);
    if (pid == 0) {
        train(dir, 1, TIGHT, EST_HOOKS(&k.hook));
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(killed_and_resumed_is_exact)
{
    char whole[64], killed[64];

    est_test_dir(whole);
    est_test_dir(killed);
    train_and_die(killed, 17);
    train_and_die(killed, 44);
    train(killed, 1, TIGHT, (est_hooks){ 0 });
    train(whole, 1, TIGHT, (est_hooks){ 0 });
    assert_int_equal(stored_rows(whole, DYNAMIC_USERS), 30);
    est_test_same_checkpoint(whole, killed);
    est_test_dir_remove(whole);
    est_test_dir_remove(killed);
}

TEST(threads_change_nothing)
{
    char one[64], four[64];

    est_test_dir(one);
    est_test_dir(four);
    train(one, 1, TIGHT, (est_hooks){ 0 });
    train(four, 4, TIGHT, (est_hooks){ 0 });
    est_test_same_checkpoint(one, four);
    est_test_dir_remove(one);
    est_test_dir_remove(four);
}

/* --- what comes after training ------------------------------------------------------------------------------------ */

static double mean_loss(est_estimator *e)
{
    est_metrics *metrics = NULL;
    double       loss;

    ok(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = dynamic_input), &metrics));
    loss = est_metrics_get(metrics, "loss");
    est_metrics_free(metrics);
    return loss;
}

static double last_loss(const char *dir)
{
    est_eval_results results = { 0 };
    char             path[80];
    double           loss;

    snprintf(path, sizeof path, "%s/eval_inside", dir);
    ok(est_eval_results_read(&results, path));
    loss = est_eval_result_find(&results.data[results.n - 1], "loss")->value;
    est_eval_results_clear(&results);
    return loss;
}

/* Scores of all rows of the input, from a checkpoint or an export; NULL: the latest checkpoint. To be freed. */
static est_tensor *predict(est_estimator *e, const char *checkpoint)
{
    est_predictions  *all    = NULL;
    est_tensor       *scores = NULL;
    const est_tensor *batch;

    ok(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = dynamic_input, .checkpoint_path = checkpoint, .batches = true),
                   &all));
    ok(est_predictions_next(all));
    batch = est_predictions_get(all, "score");
    ok(est_tensor_create_from(est_tensor_dtype(batch), *est_tensor_shape(batch), est_tensor_data(batch), &scores));
    est_predictions_free(all);
    return scores;
}

/* An export has no ages of keys and none that wait, and predicts what its checkpoint does. */
static void expect_same_predictions(est_estimator *e, const char *export_dir)
{
    est_tensor *want = predict(e, NULL), *got = predict(e, export_dir);

    assert_int_equal(est_tensor_count(want), 200);
    assert_int_equal(est_tensor_bytes(got), est_tensor_bytes(want));
    assert_memory_equal(est_tensor_data(got), est_tensor_data(want), est_tensor_bytes(want));
    est_tensor_free(want);
    est_tensor_free(got);
}

TEST(learns_and_exports)
{
    char            dir[64], exports[80], path[EST_CHECKPOINT_PATH_MAX];
    est_columns    *columns;
    est_estimator  *e;
    est_checkpoint *exported = NULL;

    est_test_dir(dir);
    snprintf(exports, sizeof exports, "%s/export", dir);
    e = dynamic_estimator(dir, 1, NULL, &columns);
    ok(est_train(e, EST_TRAIN_OPTIONS(.input_fn = dynamic_input, .max_steps = 300)));
    assert_true(mean_loss(e) < 0.3); /* the labels have a variance of 2.7; one in five examples lacks a key */
    assert_true(stored_rows(dir, DYNAMIC_USERS "/keys") > 40);
    /* The check of an export compares it with the model, on rows of the input. */
    ok(est_export_saved_model(e, exports, EST_EXPORT(.input = { .raw = { dynamic_raw, DYNAMIC_FEATURES } }), path));
    ok(est_checkpoint_open(path, &exported));
    assert_int_equal(est_checkpoint_find(exported, DYNAMIC_USERS)->shape.dim[0], stored_rows(dir, DYNAMIC_USERS));
    assert_int_equal(est_checkpoint_find(exported, DYNAMIC_WORDS "/keys")->shape.dim[0],
                     stored_rows(dir, DYNAMIC_WORDS));
    assert_null(est_checkpoint_find(exported, DYNAMIC_USERS "/last_seen"));
    est_checkpoint_close(exported);
    expect_same_predictions(e, path);
    est_estimator_free(e);
    est_columns_free(columns);
    est_test_dir_remove(dir);
}

/* Evaluating from within copies the rows there are into the second graph, and changes nothing. */
TEST(in_memory_evaluation)
{
    char           dir[64], plain[64];
    est_columns   *columns;
    est_estimator *e;
    est_hook      *hook;

    est_test_dir(dir);
    est_test_dir(plain);
    e    = dynamic_estimator(dir, 1, TIGHT, &columns);
    hook = est_in_memory_evaluator_hook(e,
                                        EST_IN_MEMORY(.input_fn = dynamic_input, .name = "inside", .every_n_iter = 20));
    ok(est_train(e, EST_TRAIN_OPTIONS(.input_fn = dynamic_input, .max_steps = STEPS, .hooks = EST_HOOKS(hook))));
    assert_true((float)last_loss(dir) == (float)mean_loss(e)); /* summaries are float32 */
    est_hook_free(hook);
    est_estimator_free(e);
    est_columns_free(columns);
    train(plain, 1, TIGHT, (est_hooks){ 0 });
    est_test_same_checkpoint(plain, dir);
    est_test_dir_remove(dir);
    est_test_dir_remove(plain);
}

/* A new model begins with the rows of an old one, or of its export. */
static void warm_start(bool exported)
{
    char           old[64], new[64], exports[80], path[EST_CHECKPOINT_PATH_MAX];
    est_columns   *columns;
    est_estimator *e;
    dynamic_params params;
    double         before, after;

    est_test_dir(old);
    est_test_dir(new);
    snprintf(exports, sizeof exports, "%s/export", old);
    train(old, 1, NULL, (est_hooks){ 0 });
    e      = dynamic_estimator(old, 1, NULL, &columns);
    before = mean_loss(e);
    ok(est_export_saved_model(e, exports, EST_EXPORT(.input = { .raw = { dynamic_raw, DYNAMIC_FEATURES } }), path));
    est_estimator_free(e);
    params = dynamic_columns(columns, NULL);

    e = est_test_make(dynamic_model, EST_ESTIMATOR(.params = &params, .params_size = sizeof params,
                                                   .config = EST_RUN_CONFIG(.model_dir = new, .seed = 9, .quiet = true,
                                                                            .cluster_json = "{}"),
                                                   .warm_start = EST_WARM_START(.path = exported ? path : old)));
    ok(est_train(e, EST_TRAIN_OPTIONS(.input_fn = dynamic_input, .steps = 1)));
    after = mean_loss(e);
    assert_true(fabs(after - before) < 0.2);
    assert_int_equal(stored_rows(new, DYNAMIC_USERS), stored_rows(old, DYNAMIC_USERS));
    est_estimator_free(e);
    est_columns_free(columns);
    est_test_dir_remove(old);
    est_test_dir_remove(new);
}

TEST(warm_start)
{
    warm_start(false);
    warm_start(true);
}

/* No key was seen often enough: nothing has a row, and that can be exported too. */
TEST(no_rows_at_all)
{
    const est_dynamic_options *never = EST_DYNAMIC(.admit_after = 1000000);
    char                       dir[64], exports[80], path[EST_CHECKPOINT_PATH_MAX];
    est_columns               *columns;
    est_estimator             *e;

    est_test_dir(dir);
    snprintf(exports, sizeof exports, "%s/export", dir);
    train(dir, 1, never, (est_hooks){ 0 });
    assert_int_equal(stored_rows(dir, DYNAMIC_USERS), 0);
    assert_true(stored_rows(dir, DYNAMIC_USERS "/candidates/keys") > 40);
    e = dynamic_estimator(dir, 1, never, &columns);
    ok(est_export_saved_model(e, exports, EST_EXPORT(.input = { .raw = { dynamic_raw, DYNAMIC_FEATURES } }), path));
    expect_same_predictions(e, path);
    est_estimator_free(e);
    est_columns_free(columns);
    est_test_dir_remove(dir);
}

/* --- no memory ---------------------------------------------------------------------------------------------------- */

TEST(no_memory_to_restore_or_export)
{
    char           dir[64], exports[80];
    est_columns   *columns;
    est_estimator *e;

    est_test_dir(dir);
    snprintf(exports, sizeof exports, "%s/export", dir);
    train(dir, 1, NULL, (est_hooks){ 0 });
    e = dynamic_estimator(dir, 1, NULL, &columns);
    FAULT_LOOP(f, FAULT_PLACES, .depth = 1) { /* there are thousands of allocations */
        est_status status;

        fault_arm(&f);
        status = est_export_saved_model(e, exports, EST_EXPORT(.input = { .raw = { dynamic_raw, DYNAMIC_FEATURES } }),
                                        NULL);
        fault_check_lenient(&f, status);
    }
    est_estimator_free(e);
    est_columns_free(columns);
    est_test_dir_remove(dir);
}

/* --- a NaN -------------------------------------------------------------------------------------------------------- */

typedef struct spoiler {
    est_hook hook;
    bool     behind; /* the last row; else the first */
} spoiler;

/* Makes a row of the users' embedding NaN, as a removed key may have left it, or as a gradient does. */
static est_status spoil(est_hook *hook, est_loop *loop)
{
    est_var **vars = NULL;
    int       n;

    EST_TRY(est_saved_variables(est_loop_session(loop), &vars, &n));
    for (int i = 0; i < n; i++) {
        int64_t width = vars[i]->value.shape.dim[1];

        if (strcmp(vars[i]->name, DYNAMIC_USERS) != 0) continue;
        assert_true(vars[i]->rows->n > 0 && vars[i]->rows->n < vars[i]->rows->max);
        ((float *)vars[i]
             ->value.data)[EST_CONTAINER_OF(hook, spoiler, hook)->behind ? vars[i]->rows->n * width : 0] = NAN;
    }
    est_free(vars);
    return EST_OK;
}

/* Only rows that are saved count when a NaN is looked for. */
TEST(nan)
{
    for (int i = 0; i < 2; i++) {
        spoiler        s = { .hook = EST_HOOK(.after_run = spoil), .behind = i == 0 };
        char           dir[64];
        est_columns   *columns;
        est_estimator *e;

        est_test_dir(dir);
        e = dynamic_estimator(dir, 1, EST_DYNAMIC(.max_rows = 1000), &columns);
        assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = dynamic_input, .steps = 1)), EST_OK);
        assert_int_equal(
            est_train(e, EST_TRAIN_OPTIONS(.input_fn = dynamic_input, .steps = 1, .hooks = EST_HOOKS(&s.hook))),
            i == 0 ? EST_OK : EST_INVALID_ARGUMENT);
        if (i == 1) est_test_error_has("NaN variable '" DYNAMIC_USERS "' during training");
        est_estimator_free(e);
        est_columns_free(columns);
        est_test_dir_remove(dir);
    }
}
