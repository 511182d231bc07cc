/* SPDX-License-Identifier: Apache-2.0
 *
 * train_and_evaluate: when it evaluates in local mode, the evaluator task as a process of its own and its end. */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "support/estimator_test.h"
#include "train/eval_results.h"
#include "train/lock.h"

#define EVALUATOR "{\"cluster\": {\"chief\": [\"a:1\"]}, \"task\": {\"type\": \"evaluator\", \"index\": 0}}"

static est_estimator *make(const char *dir, int64_t save_steps, const char *cluster)
{
    est_estimator *e = NULL;

    assert_int_equal(
        est_estimator_create(
            est_test_model,
            EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 5, .quiet = true,
                                                   .save_checkpoints_steps = save_steps, .cluster_json = cluster)),
            &e),
        EST_OK);
    return e;
}

/* The steps at which the directory was evaluated, as its event files tell. */
static int evaluated_steps(const char *dir, int64_t *steps, int max)
{
    char             path[128];
    est_eval_results results = { 0 };
    int              n       = 0;

    snprintf(path, sizeof path, "%s/eval", dir);
    assert_int_equal(est_eval_results_read(&results, path), EST_OK);
    for (; n < results.n && n < max; n++) steps[n] = results.data[n].step;
    est_eval_results_clear(&results);
    return n;
}

static void assert_steps(const char *dir, const int64_t *want, int n)
{
    int64_t steps[32];

    assert_int_equal(evaluated_steps(dir, steps, 32), n);
    assert_memory_equal(steps, want, (size_t)n * sizeof *want);
}

static void test_after_every_checkpoint(void **state)
{
    char           dir[64];
    est_estimator *e;
    est_metrics   *m = NULL;

    (void)state;
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(
                         e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 35),
                         EST_EVAL_SPEC(.input_fn = est_test_input, .steps = EST_FOREVER, .throttle_secs = EST_OFF), &m),
                     EST_OK);
    assert_int_equal(est_metrics_global_step(m), 35);
    est_metrics_free(m);
    assert_steps(dir, (int64_t[]){ 10, 20, 30, 35 }, 4); /* not the one of step 0 */

    /* Nothing to train: no evaluation, no result. */
    m = (est_metrics *)dir;
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 35),
                                            EST_EVAL_SPEC(.input_fn = est_test_input), &m),
                     EST_OK);
    assert_null(m);

    /* Resumed: the save at its beginning is not evaluated again. */
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 45),
                                            EST_EVAL_SPEC(.input_fn = est_test_input, .throttle_secs = EST_OFF), &m),
                     EST_OK);
    est_metrics_free(m);
    assert_steps(dir, (int64_t[]){ 10, 20, 30, 35, 45 }, 5);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static void test_throttled(void **state)
{
    char           dir[64];
    est_estimator *e;

    (void)state;
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 35),
                                            EST_EVAL_SPEC(.input_fn = est_test_input), NULL), /* 600 s */
                     EST_OK);
    assert_steps(dir, (int64_t[]){ 10, 35 }, 2); /* the first always, and the last always */
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* Waits until the file is there, at most 60 s. */
static void await_file(const char *dir, const char *name)
{
    char    path[128];
    int64_t until = est_now_ns() + 60 * EST_NS_PER_SEC;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    while (!est_file_exists(path)) {
        assert_true(est_now_ns() < until);
        est_sleep_ns(EST_NS_PER_SEC / 100);
    }
}

static pid_t start_evaluator(const char *dir, int64_t max_steps)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        est_estimator *e      = make(dir, 10, EVALUATOR);
        est_status     status = est_train_and_evaluate(
                e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = max_steps),
                EST_EVAL_SPEC(.input_fn = est_test_input, .start_delay_secs = EST_OFF, .throttle_secs = 0.05), NULL);

        if (status != EST_OK) fprintf(stderr, "evaluator: %s\n", est_error_message());
        _exit(est_exit_code(status));
    }
    return pid;
}

static int await_exit(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid); /* the test's own time limit ends an endless wait */
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* An evaluator that starts before there is anything, and leaves after the last checkpoint, with and without max_steps. */
static void evaluator_ends(int64_t max_steps, int64_t passes, int64_t last)
{
    char           dir[64];
    est_estimator *e;
    int64_t        steps[64];
    int            n;
    pid_t          pid;

    est_test_dir(dir);
    pid = start_evaluator(dir, max_steps);
    e   = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(
                         e, EST_TRAIN_SPEC(.input_fn = est_test_input, .input_user = &passes, .max_steps = max_steps),
                         EST_EVAL_SPEC(.input_fn = est_test_input, .name = "trainer"), NULL),
                     EST_OK);
    est_estimator_free(e);
    assert_int_equal(await_exit(pid), 0);
    n = evaluated_steps(dir, steps, 64);
    assert_true(n >= 1);
    assert_int_equal(steps[n - 1], last);
    await_file(dir, "training_done");
    est_test_dir_remove(dir);
}

static void test_evaluator(void **state)
{
    (void)state;
    evaluator_ends(40, EST_FOREVER, 40);
    evaluator_ends(0, 3, 24);    /* no max_steps: the input ends */
    evaluator_ends(1000, 2, 16); /* training ends early */
}

static void remove_mark(const char *dir)
{
    char path[128];

    snprintf(path, sizeof path, "%s/training_done", dir);
    assert_true(est_file_exists(path));
    assert_int_equal(est_file_remove(path), EST_OK);
}

/* A hook of the evaluation that trains on, so that the checkpoint to evaluate is deleted. */
typedef struct overtaker {
    est_hook       hook;
    est_estimator *trainer;
    bool           done;
} overtaker;

static est_status overtake(est_hook *hook, est_loop *loop)
{
    overtaker *o = EST_CONTAINER_OF(hook, overtaker, hook);

    (void)loop;
    if (o->done) return EST_OK;
    o->done = true;
    return est_train(o->trainer, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 5));
}

/* A mark of an earlier training does not count while a trainer holds the directory; here until the first evaluation
 * ends, when the trainer goes on. */
typedef struct late_trainer {
    est_hook       hook;
    est_estimator *trainer;
    est_dir_lock  *lock; /* NULL: released */
} late_trainer;

static est_status train_late(est_hook *hook, est_loop *loop)
{
    late_trainer *l = EST_CONTAINER_OF(hook, late_trainer, hook);

    (void)loop;
    if (l->lock == NULL) return EST_OK;
    est_dir_lock_release(l->lock);
    l->lock = NULL;
    return est_train(l->trainer, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 20));
}

static void test_evaluator_old_mark(void **state)
{
    char           dir[64];
    late_trainer   l = { .hook = { .end = train_late } };
    est_estimator *e;
    est_metrics   *m = NULL;

    (void)state;
    est_test_dir(dir);
    l.trainer = make(dir, 10, "{}");
    assert_int_equal(est_train(l.trainer, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 10)), EST_OK);
    assert_int_equal(est_dir_lock_take(dir, &l.lock), EST_OK);
    e = make(dir, 10, EVALUATOR);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input),
                                            EST_EVAL_SPEC(.input_fn = est_test_input, .start_delay_secs = EST_OFF,
                                                          .throttle_secs = EST_OFF, .hooks = EST_HOOKS(&l.hook)),
                                            &m),
                     EST_OK);
    assert_int_equal(est_metrics_global_step(m), 20);
    est_metrics_free(m);
    assert_steps(dir, (int64_t[]){ 10, 20 }, 2);
    est_estimator_free(e);
    est_estimator_free(l.trainer);
    est_test_dir_remove(dir);
}

static void test_evaluator_checkpoint_deleted(void **state)
{
    char           dir[64];
    overtaker      o = { .hook = { .begin = overtake } };
    est_estimator *e;
    est_metrics   *m = NULL;

    (void)state;
    est_test_dir(dir);
    assert_int_equal(
        est_estimator_create(est_test_model,
                             EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 5, .quiet = true,
                                                                    .cluster_json = "{}", .keep_checkpoint_max = 1)),
                             &o.trainer),
        EST_OK);
    assert_int_equal(est_train(o.trainer, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 10)), EST_OK);
    e = make(dir, 10, EVALUATOR);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input),
                                            EST_EVAL_SPEC(.input_fn = est_test_input, .start_delay_secs = EST_OFF,
                                                          .throttle_secs = EST_OFF, .hooks = EST_HOOKS(&o.hook)),
                                            &m),
                     EST_OK);
    assert_int_equal(est_metrics_global_step(m), 15);
    est_metrics_free(m);
    assert_steps(dir, (int64_t[]){ 15 }, 1);
    est_estimator_free(e);
    est_estimator_free(o.trainer);
    est_test_dir_remove(dir);
}

/* The directories of an exporter. */
static int exports(const char *dir, const char *name)
{
    char           path[128];
    struct dirent *entry;
    DIR           *open;
    int            n = 0;

    snprintf(path, sizeof path, "%s/export/%s", dir, name);
    open = opendir(path);
    if (open == NULL) return 0;
    while ((entry = readdir(open)) != NULL) n += entry->d_name[0] != '.';
    closedir(open);
    return n;
}

/* The last step is evaluated when it is saved, before anyone knows that the input ends there. */
static void test_final_export_after_the_end_of_input(void **state)
{
    char                dir[64];
    int64_t             passes = 2;
    const est_component raw[]  = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } };
    est_exporter       *final  = est_final_exporter("final",
                                                    EST_EXPORTER(.saved_model = { .input = { .raw = raw, .n_raw = 1 } }));
    est_estimator      *e;

    (void)state;
    assert_non_null(final);
    est_test_dir(dir);
    e = make(dir, 8, "{}");
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .input_user = &passes),
                                            EST_EVAL_SPEC(.input_fn = est_test_input, .throttle_secs = EST_OFF,
                                                          .exporters = EST_EXPORTERS(final)),
                                            NULL),
                     EST_OK);
    assert_steps(dir, (int64_t[]){ 8, 16 }, 2);
    assert_int_equal(exports(dir, "final"), 1);
    est_exporter_free(final);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A chief on its own trains and leaves evaluating to the evaluator; a master does both. */
static void test_alone_in_a_cluster(void **state)
{
    static const char *const tasks[] = {
        "{\"cluster\": {\"chief\": [\"a:1\"]}, \"task\": {\"type\": \"chief\", \"index\": 0}}",
        "{\"cluster\": {\"master\": [\"a:1\"]}, \"task\": {\"type\": \"master\", \"index\": 0}}",
    };

    (void)state;
    for (int i = 0; i < 2; i++) {
        char           dir[64];
        est_estimator *e;
        est_metrics   *m = NULL;

        est_test_dir(dir);
        e = make(dir, 10, tasks[i]);
        assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 12),
                                                EST_EVAL_SPEC(.input_fn = est_test_input), &m),
                         EST_OK);
        assert_int_equal(m != NULL, i == 1);
        est_metrics_free(m);
        await_file(dir, "training_done");
        est_estimator_free(e);
        est_test_dir_remove(dir);
    }
}

/* A signal during an evaluation: the hooks are told of the end, and the status says that the step is saved. */
typedef struct end_counter {
    est_hook hook;
    int      ends;
} end_counter;

static est_status count_end(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, end_counter, hook)->ends++;
    return EST_OK;
}

static est_status raise_term(est_hook *hook, est_loop *loop)
{
    (void)hook;
    (void)loop;
    raise(SIGTERM);
    return EST_OK;
}

static void test_signal_in_evaluation(void **state)
{
    char           dir[64];
    end_counter    ends = { .hook = { .end = count_end } };
    est_hook       term = { .after_run = raise_term };
    est_estimator *e;

    (void)state;
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(
                         e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 50, .hooks = EST_HOOKS(&ends.hook)),
                         EST_EVAL_SPEC(.input_fn = est_test_input, .hooks = EST_HOOKS(&term)), NULL),
                     EST_CANCELLED);
    est_test_error_has("stopped and saved at step 10");
    assert_int_equal(ends.ends, 1);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static void test_evaluator_stopped(void **state)
{
    char           dir[64];
    est_estimator *e;
    pid_t          pid;

    (void)state;
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 10)), EST_OK);
    est_estimator_free(e);
    remove_mark(dir); /* as if the trainer had been killed */
    pid = start_evaluator(dir, 100);
    await_file(dir, "eval");
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(await_exit(pid), 75);
    est_test_dir_remove(dir);
}

static void refused(est_estimator *e, const est_train_spec *train, const est_eval_spec *eval, const char *text)
{
    assert_int_equal(est_train_and_evaluate(e, train, eval, NULL), EST_INVALID_ARGUMENT);
    est_test_error_has(text);
}

static void test_refused(void **state)
{
    char           dir[64];
    est_estimator *e;

    (void)state;
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    refused(e, NULL, EST_EVAL_SPEC(.input_fn = est_test_input), "EST_TRAIN_SPEC");
    refused(e, EST_TRAIN_SPEC(.input_fn = est_test_input), &(est_eval_spec){ 0 }, "EST_EVAL_SPEC");
    refused(e, EST_TRAIN_SPEC(.max_steps = 1), EST_EVAL_SPEC(.input_fn = est_test_input), "train spec: input_fn");
    refused(e, EST_TRAIN_SPEC(.input_fn = est_test_input), EST_EVAL_SPEC(.steps = 1), "eval spec: input_fn");
    refused(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = -1), EST_EVAL_SPEC(.input_fn = est_test_input),
            "max_steps is -1");
    refused(e, EST_TRAIN_SPEC(.input_fn = est_test_input), EST_EVAL_SPEC(.input_fn = est_test_input, .steps = -7),
            "steps is -7");
    refused(e, EST_TRAIN_SPEC(.input_fn = est_test_input),
            EST_EVAL_SPEC(.input_fn = est_test_input, .throttle_secs = -7), "throttle_secs");
    refused(e, EST_TRAIN_SPEC(.input_fn = est_test_input), EST_EVAL_SPEC(.input_fn = est_test_input, .name = "a/b"),
            "name is a/b");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after_every_checkpoint),
        cmocka_unit_test(test_throttled),
        cmocka_unit_test(test_evaluator),
        cmocka_unit_test(test_evaluator_old_mark),
        cmocka_unit_test(test_evaluator_checkpoint_deleted),
        cmocka_unit_test(test_final_export_after_the_end_of_input),
        cmocka_unit_test(test_alone_in_a_cluster),
        cmocka_unit_test(test_signal_in_evaluation),
        cmocka_unit_test(test_evaluator_stopped),
        cmocka_unit_test(test_refused),
    };

    est_log_set_level(EST_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
