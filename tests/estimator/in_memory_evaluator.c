/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation within a training: when it happens, that it finds what an evaluation of the checkpoint finds, that
 * training does not notice. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "support/estimator_test.h"
#include "support/fault_loop.h"
#include "train/eval_results.h"

static est_estimator *make(const char *dir, const char *cluster)
{
    return EST_TEST_ESTIMATOR(est_test_model, dir, cluster);
}

static void read_results(const char *dir, const char *name, est_eval_results *out)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    *out = (est_eval_results){ 0 };
    assert_int_equal(est_eval_results_read(out, path), EST_OK);
}

TEST(when_and_what)
{
    static const int64_t     steps[] = { 0, 10, 20, 25 };
    static const char *const names[] = { "loss", "mae", "rmse" };
    char                     dir[64], plain[64];
    est_eval_results         results;
    est_metrics             *metrics = NULL;
    est_estimator           *e;
    est_hook                *hook;

    est_test_dir(dir);
    est_test_dir(plain);
    e    = make(dir, "{}");
    hook = est_in_memory_evaluator_hook(
        e, EST_IN_MEMORY(.input_fn = est_test_input, .name = "inside", .every_n_iter = 10));
    assert_non_null(hook);
    assert_int_equal(
        est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 25, .hooks = EST_HOOKS(hook))), EST_OK);
    read_results(dir, "eval_inside", &results);
    assert_int_equal(results.n, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(results.data[i].step, steps[i]);

    /* The checkpoint has the values of the end; summaries are float32. */
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &metrics), EST_OK);
    for (int i = 0; i < 3; i++) {
        const est_eval_metric *first = est_eval_result_find(&results.data[0], names[i]);
        const est_eval_metric *last  = est_eval_result_find(&results.data[3], names[i]);

        assert_true(first != NULL && last != NULL);
        assert_true((float)last->value == (float)est_metrics_get(metrics, names[i]));
        assert_true(first->value > last->value); /* and those of the start are others */
    }
    est_metrics_free(metrics);
    est_eval_results_clear(&results);
    est_hook_free(hook);
    est_estimator_free(e);

    e = make(plain, "{}");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 25)), EST_OK);
    est_test_same_checkpoint(plain, dir);
    est_estimator_free(e);
    est_test_dir_remove(dir);
    est_test_dir_remove(plain);
}

TEST(steps)
{
    char             dir[64];
    est_eval_results results;
    est_estimator   *e;
    est_hook        *hook;

    est_test_dir(dir);
    e    = make(dir, "{}");
    hook = est_in_memory_evaluator_hook(e, EST_IN_MEMORY(.input_fn = est_test_input, .steps = 2, .every_n_iter = 5));
    assert_non_null(hook);
    for (int i = 1; i <= 2; i++) { /* used again, it counts from 0; the end is evaluated once */
        assert_int_equal(
            est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 5, .hooks = EST_HOOKS(hook))), EST_OK);
        read_results(dir, "eval", &results);
        assert_int_equal(results.n, 1 + i);
        for (int k = 0; k <= i; k++) assert_int_equal(results.data[k].step, 5 * k);
        est_eval_results_clear(&results);
    }
    est_hook_free(hook);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(default_period)
{
    static const int64_t steps[] = { 0, 100, 200, 201 };
    char                 dir[64];
    est_eval_results     results;
    est_estimator       *e;
    est_hook            *hook;

    est_test_dir(dir);
    e    = make(dir, "{}");
    hook = est_in_memory_evaluator_hook(e, EST_IN_MEMORY(.input_fn = est_test_input, .steps = 1));
    assert_non_null(hook);
    assert_int_equal(
        est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 201, .hooks = EST_HOOKS(hook))),
        EST_OK);
    read_results(dir, "eval", &results);
    assert_int_equal(results.n, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(results.data[i].step, steps[i]);
    est_eval_results_clear(&results);
    est_hook_free(hook);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* SIGTERM in the evaluation: training is saved and says so. */
static est_status terminate_after_run(est_hook *hook, est_loop *loop)
{
    (void)hook;
    if (est_loop_global_step(loop) == 6) raise(SIGTERM);
    return EST_OK;
}

TEST(sigterm)
{
    est_hook       stop = EST_HOOK(.after_run = terminate_after_run);
    char           dir[64], latest[EST_CHECKPOINT_PATH_MAX];
    est_estimator *e;
    est_hook      *hook;

    est_test_dir(dir);
    e    = make(dir, "{}");
    hook = est_in_memory_evaluator_hook(
        e, EST_IN_MEMORY(.input_fn = est_test_input, .every_n_iter = 3, .hooks = EST_HOOKS(&stop)));
    assert_non_null(hook);
    assert_int_equal(
        est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 25, .hooks = EST_HOOKS(hook))),
        EST_CANCELLED);
    est_test_error_has("stopped and saved at step 6");
    assert_int_equal(est_checkpoint_latest(dir, latest), EST_OK);
    assert_non_null(strstr(latest, "model.ckpt-6"));
    est_hook_free(hook);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static est_status fail_input(const est_input_context *context, void *user, est_dataset **out)
{
    (void)context;
    (void)user;
    (void)out;
    return est_fail(EST_DATA_LOSS, "no rows today");
}

TEST(refused)
{
    const char    *cluster = "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\"]}, "
                             "\"task\": {\"type\": \"chief\", \"index\": 0}}";
    est_hook      *nothing = NULL, *hook;
    char           dir[64];
    est_estimator *e;

    est_test_dir(dir);
    e = make(dir, "{}");
    assert_null(est_in_memory_evaluator_hook(e, EST_IN_MEMORY(.steps = 1)));
    est_test_error_has("input_fn is required");
    assert_null(est_in_memory_evaluator_hook(e, EST_IN_MEMORY(.input_fn = est_test_input, .steps = -1)));
    est_test_error_has("steps is -1");
    assert_null(est_in_memory_evaluator_hook(e, EST_IN_MEMORY(.input_fn = est_test_input, .every_n_iter = -7)));
    est_test_error_has("every_n_iter is -7");
    nothing = est_stop_at_secs_hook(-1);
    assert_null(est_in_memory_evaluator_hook(e, EST_IN_MEMORY(.input_fn = est_test_input, .hooks = { &nothing, 1 })));
    est_test_error_has("in-memory evaluation: hook 0 is NULL: a stop after -1 seconds");
    assert_null(est_in_memory_evaluator_hook(e, &(est_in_memory_options){ .input_fn = est_test_input }));
    est_test_error_has("EST_IN_MEMORY");
    hook = est_in_memory_evaluator_hook(e, EST_IN_MEMORY(.input_fn = fail_input));
    assert_non_null(hook);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1, .hooks = EST_HOOKS(hook))),
                     EST_DATA_LOSS);
    est_test_error_has("evaluate: input_fn: no rows today");
    est_hook_free(hook);
    est_estimator_free(e);
    e = make(dir, cluster);
    assert_null(est_in_memory_evaluator_hook(e, EST_IN_MEMORY(.input_fn = est_test_input)));
    est_test_error_has("needs training in one process");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(no_memory)
{
    char           dir[64];
    est_estimator *e;
    est_hook      *hook = NULL;

    est_test_dir(dir);
    e = make(dir, "{}");
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        fault_arm(&f);
        hook = est_in_memory_evaluator_hook(e, EST_IN_MEMORY(.input_fn = est_test_input, .name = "n"));
        assert_int_equal(hook == NULL, fault_end(&f));
        if (hook == NULL) est_test_error_has("out of memory");
    }
    est_hook_free(hook);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

int main(void)
{
    est_log_set_level(EST_LOG_OFF);
    return est_test_run(NULL, NULL);
}
