/* SPDX-License-Identifier: Apache-2.0
 *
 * train_and_evaluate: when it evaluates in local mode, the evaluator task as a process of its own and its end. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
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

/* --- defaults, by a clock that moves only when someone sleeps ----------------------------------------------------- */

/* Notes when evaluations begin and how many batches they have; a trainer, if there is one, goes on after the first. */
typedef struct watcher {
    est_hook       hook;
    est_estimator *trainer;
    int64_t        begun_ns[4];
    int            n;
    int64_t        batches;
} watcher;

static est_status watch_begin(est_hook *hook, est_loop *loop)
{
    watcher *w = EST_CONTAINER_OF(hook, watcher, hook);

    (void)loop;
    assert_true(w->n < 4);
    w->begun_ns[w->n++] = est_now_ns();
    return EST_OK;
}

static est_status watch_after_run(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, watcher, hook)->batches++;
    return EST_OK;
}

static est_status watch_end(est_hook *hook, est_loop *loop)
{
    watcher *w = EST_CONTAINER_OF(hook, watcher, hook);

    if (w->trainer == NULL || w->n > 1) return EST_OK;
    EST_TRY(est_train(w->trainer, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 20)));
    remove_mark(est_loop_model_dir(loop)); /* as if it were still training */
    return EST_OK;
}

#define WATCHER(...)                                                                                                   \
    ((watcher){ .hook = { .begin = watch_begin, .after_run = watch_after_run, .end = watch_end }, __VA_ARGS__ })

/* A wait is made of pieces, each rounded to nanoseconds. */
static void assert_secs(int64_t ns, int64_t secs)
{
    assert_in_range(ns, secs * EST_NS_PER_SEC, secs * EST_NS_PER_SEC + 1000);
}

static est_status long_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_dataset *d = NULL;

    EST_TRY(est_test_input(context, user, &d));
    return est_dataset_finish(est_dataset_repeat(d, 13), out); /* of 8 batches */
}

static void test_default_steps(void **state)
{
    char           dir[64];
    watcher        w = WATCHER(.n = 0);
    est_estimator *e;

    (void)state;
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 10),
                                            EST_EVAL_SPEC(.input_fn = long_input, .hooks = EST_HOOKS(&w.hook)), NULL),
                     EST_OK);
    assert_int_equal(w.n, 1);
    assert_int_equal(w.batches, 100);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static est_manual_clock standing;

/* Just below 600 s pass before the save of step 20, and the rest before that of step 30. */
static est_status pass_time(est_hook *hook, est_loop *loop)
{
    (void)hook;
    if (est_loop_global_step(loop) == 15) est_manual_clock_advance(&standing, 600 * EST_NS_PER_SEC - 1);
    if (est_loop_global_step(loop) == 25) est_manual_clock_advance(&standing, 1);
    return EST_OK;
}

static void test_default_throttle(void **state)
{
    char           dir[64];
    est_hook       pass = { .after_run = pass_time };
    est_estimator *e;

    (void)state;
    est_test_dir(dir);
    est_manual_clock_init(&standing, EST_NS_PER_SEC, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&standing.clock);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(
                         e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 35, .hooks = EST_HOOKS(&pass)),
                         EST_EVAL_SPEC(.input_fn = est_test_input), NULL),
                     EST_OK);
    est_clock_set(NULL);
    assert_steps(dir, (int64_t[]){ 10, 30, 35 }, 3);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* Runs an evaluator with the default times over a directory of 10 steps, with or without the mark of their end. */
static void run_evaluator(const char *dir, bool marked, watcher *w)
{
    est_estimator *e;

    w->trainer = make(dir, 10, "{}");
    assert_int_equal(est_train(w->trainer, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 10)), EST_OK);
    if (!marked) remove_mark(dir);
    est_manual_clock_init(&standing, 0, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&standing.clock);
    e = make(dir, 10, EVALUATOR);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 20),
                                            EST_EVAL_SPEC(.input_fn = est_test_input, .hooks = EST_HOOKS(&w->hook)),
                                            NULL),
                     EST_OK);
    est_clock_set(NULL);
    est_estimator_free(e);
    est_estimator_free(w->trainer);
}

static void test_default_evaluator_times(void **state)
{
    char    dir[64];
    watcher w = WATCHER(.n = 0);

    (void)state;
    est_test_dir(dir);
    run_evaluator(dir, false, &w);
    assert_int_equal(w.n, 2);
    assert_secs(w.begun_ns[0], 120);
    assert_secs(w.begun_ns[1], 120 + 600);
    est_test_dir_remove(dir);
}

/* A mark that is there when the evaluator starts may be of an earlier training: the delay is waited for in full, and a
 * trainer that starts meanwhile removes the mark. */
static void test_mark_at_start(void **state)
{
    char    dir[64];
    watcher w = WATCHER(.n = 2); /* the trainer makes no more steps */

    (void)state;
    est_test_dir(dir);
    run_evaluator(dir, true, &w);
    assert_int_equal(w.n, 3); /* one evaluation: the mark counts when the delay is over */
    assert_secs(w.begun_ns[2], 120);
    est_test_dir_remove(dir);
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

/* Where no step is left there is no trainer to wait for. */
static void test_evaluator_of_finished_run(void **state)
{
    char             dir[64];
    est_manual_clock clock;
    est_estimator   *e;
    est_metrics     *m = NULL;

    (void)state;
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 10)), EST_OK);
    est_estimator_free(e);
    e = make(dir, 10, EVALUATOR);
    est_manual_clock_init(&clock, 0, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&clock.clock);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 10),
                                            EST_EVAL_SPEC(.input_fn = est_test_input), &m),
                     EST_OK);
    assert_int_equal(est_now_ns(), 0);
    assert_int_equal(est_metrics_global_step(m), 10);
    est_metrics_free(m);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input), /* may be trained on */
                                            EST_EVAL_SPEC(.input_fn = est_test_input), NULL),
                     EST_OK);
    assert_int_equal(est_now_ns(), 120 * EST_NS_PER_SEC);
    est_clock_set(NULL);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static est_status missing_files(const est_input_context *context, void *user, est_dataset **out)
{
    (void)user;
    if (context->mode != EST_TRAIN) return est_test_input(context, NULL, out);
    return est_dataset_finish(est_dataset_tfrecords(est_dataset_files("/no/such/file"), NULL), out);
}

/* Files that are not there are told with the spec that names them, and before anything is made of them. */
static void test_missing_train_files(void **state)
{
    char           dir[64], lock[128];
    est_estimator *e;

    (void)state;
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = missing_files),
                                            EST_EVAL_SPEC(.input_fn = est_test_input), NULL),
                     EST_NOT_FOUND);
    est_test_error_has("train spec: no file matches /no/such/file");
    snprintf(lock, sizeof lock, "%s/trainer.lock", dir);
    assert_false(est_file_exists(lock));
    est_estimator_free(e);
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

/* A hook of the evaluation that deletes all checkpoints before they are restored. */
typedef struct wiper {
    est_hook    hook;
    const char *dir;
} wiper;

static est_status wipe(est_hook *hook, est_loop *loop)
{
    const char *dir = EST_CONTAINER_OF(hook, wiper, hook)->dir;

    (void)loop;
    for (int step = 0; step <= 10; step += 10) {
        char path[128];

        snprintf(path, sizeof path, "%s/model.ckpt-%d.index", dir, step);
        EST_TRY(est_file_remove(path));
        snprintf(path, sizeof path, "%s/checkpoint", dir);
        EST_TRY(est_file_remove(path));
    }
    return EST_OK;
}

static void test_evaluator_all_deleted(void **state)
{
    char           dir[64];
    wiper          w = { .hook = { .begin = wipe }, .dir = dir };
    est_estimator *e;
    est_metrics   *m = NULL;

    (void)state;
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 10)), EST_OK);
    est_estimator_free(e);
    e = make(dir, 10, EVALUATOR);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input),
                                            EST_EVAL_SPEC(.input_fn = est_test_input, .start_delay_secs = EST_OFF,
                                                          .throttle_secs = EST_OFF, .hooks = EST_HOOKS(&w.hook)),
                                            &m),
                     EST_OK);
    assert_null(m);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* The evaluator takes the checkpoint that training and est_evaluate take, whatever has become of the newest. */
static void test_evaluator_damaged_directory(void **state)
{
    static const struct {
        const char *file;
        long        keep; /* bytes of it; -1: none of it, it is removed; -2: all, every one changed */
        int64_t     step;
    } cases[] = {
        { "checkpoint", -1, 20 },
        { "checkpoint", 0, 20 },
        { "model.ckpt-20.data-00000-of-00001", 8, 10 },
        { "model.ckpt-20.data-00000-of-00001", -2, 10 },
        { "model.ckpt-20.index", 8, 10 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char           dir[64], path[128];
        est_estimator *e;
        est_metrics   *m    = NULL;
        char          *data = NULL;
        size_t         size;

        est_test_dir(dir);
        e = make(dir, 10, "{}");
        assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 20)), EST_OK);
        est_estimator_free(e);
        snprintf(path, sizeof path, "%s/%s", dir, cases[i].file);
        assert_int_equal(est_file_read(path, &data, &size), EST_OK);
        if (cases[i].keep == -1) {
            assert_int_equal(est_file_remove(path), EST_OK);
        } else {
            for (size_t k = 0; k < size; k++) data[k] ^= 1;
            assert_int_equal(est_file_replace(path, data, cases[i].keep == -2 ? size : (size_t)cases[i].keep), EST_OK);
        }
        est_free(data);
        e = make(dir, 10, EVALUATOR);
        assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .name = "other"), &m),
                         EST_OK);
        assert_int_equal(est_metrics_global_step(m), cases[i].step);
        est_metrics_free(m);
        assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input),
                                                EST_EVAL_SPEC(.input_fn = est_test_input, .start_delay_secs = EST_OFF,
                                                              .throttle_secs = EST_OFF),
                                                &m),
                         EST_OK);
        assert_int_equal(est_metrics_global_step(m), cases[i].step);
        est_metrics_free(m);
        assert_steps(dir, &cases[i].step, 1);
        est_estimator_free(e);
        est_test_dir_remove(dir);
    }
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

/* The last step is evaluated when it is saved, before anyone knows that the input ends there. The final exporter is asked
 * again then; one that has exported this checkpoint already is not. */
static void test_final_export_after_the_end_of_input(void **state)
{
    char                dir[64];
    int64_t             passes = 2;
    const est_component raw[]  = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } };
    est_exporter       *final  = est_final_exporter("final",
                                                    EST_EXPORTER(.saved_model = { .input = { .raw = raw, .n_raw = 1 } }));
    est_exporter       *latest = est_latest_exporter("latest",
                                                     EST_EXPORTER(.saved_model = { .input = { .raw = raw, .n_raw = 1 } }));
    est_estimator      *e;

    (void)state;
    assert_non_null(final);
    assert_non_null(latest);
    est_test_dir(dir);
    e = make(dir, 8, "{}");
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .input_user = &passes),
                                            EST_EVAL_SPEC(.input_fn = est_test_input, .throttle_secs = EST_OFF,
                                                          .exporters = EST_EXPORTERS(final, latest)),
                                            NULL),
                     EST_OK);
    assert_steps(dir, (int64_t[]){ 8, 16 }, 2);
    assert_int_equal(exports(dir, "final"), 1);
    assert_int_equal(exports(dir, "latest"), 2); /* one a checkpoint */
    est_exporter_free(final);
    est_exporter_free(latest);
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

/* A training without a batch is an error, and its model is not published as if it were trained. */
static void test_no_batch(void **state)
{
    char                dir[64], eval[128];
    int64_t             none  = 0;
    const est_component raw[] = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } };
    est_exporter       *final = est_final_exporter("final",
                                                   EST_EXPORTER(.saved_model = { .input = { .raw = raw, .n_raw = 1 } }));
    est_estimator      *e;

    (void)state;
    est_test_dir(dir);
    snprintf(eval, sizeof eval, "%s/eval", dir);
    e = make(dir, 10, "{}");
    assert_int_equal(
        est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .input_user = &none, .max_steps = 10),
                               EST_EVAL_SPEC(.input_fn = est_test_input, .exporters = EST_EXPORTERS(final)), NULL),
        EST_INVALID_ARGUMENT);
    est_test_error_has("no batch to train with");
    assert_false(est_file_exists(eval));
    assert_int_equal(exports(dir, "final"), 0);
    est_exporter_free(final);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A second trainer is refused before it publishes anything, also when only an evaluation was left to be made. */
static void test_second_trainer(void **state)
{
    char                dir[64], eval[128];
    const est_component raw[]  = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } };
    est_exporter       *latest = est_latest_exporter("latest",
                                                     EST_EXPORTER(.saved_model = { .input = { .raw = raw, .n_raw = 1 } }));
    est_dir_lock       *lock   = NULL;
    est_estimator      *e;

    (void)state;
    est_test_dir(dir);
    snprintf(eval, sizeof eval, "%s/eval", dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 10)), EST_OK);
    remove_mark(dir); /* as if stopped in the last evaluation */
    for (int i = 0; i < 2; i++) {
        est_status status;

        if (i == 0) assert_int_equal(est_dir_lock_take(dir, &lock), EST_OK);
        status = est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 10),
                                        EST_EVAL_SPEC(.input_fn = est_test_input, .exporters = EST_EXPORTERS(latest)),
                                        NULL);
        assert_int_equal(status, i == 0 ? EST_FAILED_PRECONDITION : EST_OK);
        assert_int_equal(est_file_exists(eval), i == 1);
        assert_int_equal(exports(dir, "latest"), i);
        est_dir_lock_release(lock);
        lock = NULL;
    }
    est_exporter_free(latest);
    est_estimator_free(e);
    est_test_dir_remove(dir);
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

/* A clock that moves only when someone sleeps, and brings a signal in the end. */
static est_manual_clock waiting;
static int64_t          until_ns;

static void sleep_until_signal(void *user, int64_t ns)
{
    est_manual_clock_advance(user, ns);
    if (est_now_ns() >= until_ns) raise(SIGTERM);
}

static int abandoned_lines;

static void count_abandoned(void *user, est_log_level level, int64_t wall_ns, const char *line)
{
    (void)user;
    (void)wall_ns;
    abandoned_lines += level == EST_LOG_WARN && strstr(line, "start the trainer again, or stop") != NULL;
}

/* How often the evaluator says in 25 minutes that it is alone. */
static int said_in_25_minutes(const char *dir)
{
    est_estimator *e = make(dir, 10, EVALUATOR);
    est_clock      clock;
    est_status     status;

    est_manual_clock_init(&waiting, EST_NS_PER_SEC, 1700000000 * EST_NS_PER_SEC);
    clock          = waiting.clock;
    clock.sleep_ns = sleep_until_signal;
    until_ns       = (1 + 25 * 60) * EST_NS_PER_SEC;
    est_clock_set(&clock);
    est_log_set_level(EST_LOG_WARN);
    est_log_set_sink(count_abandoned, NULL);
    abandoned_lines = 0;
    status          = est_train_and_evaluate(
                 e, EST_TRAIN_SPEC(.input_fn = est_test_input),
                 EST_EVAL_SPEC(.input_fn = est_test_input, .start_delay_secs = EST_OFF, .throttle_secs = 100), NULL);
    est_log_set_sink(NULL, NULL);
    est_log_set_level(EST_LOG_ERROR);
    est_clock_set(NULL);
    assert_int_equal(status, EST_CANCELLED);
    est_estimator_free(e);
    return abandoned_lines;
}

/* A trainer that died leaves its evaluator waiting, which says so; not while one trains, or none has yet. */
static void test_evaluator_abandoned(void **state)
{
    char           dir[64];
    est_dir_lock  *lock = NULL;
    est_estimator *e;

    (void)state;
    est_test_dir(dir);
    assert_int_equal(said_in_25_minutes(dir), 0);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 10)), EST_OK);
    est_estimator_free(e);
    remove_mark(dir);
    assert_int_equal(said_in_25_minutes(dir), 3);
    assert_int_equal(est_dir_lock_take(dir, &lock), EST_OK);
    assert_int_equal(said_in_25_minutes(dir), 0);
    est_dir_lock_release(lock);
    est_test_dir_remove(dir);
}

/* The evaluator of a directory with a checkpoint, on a terminal, until a signal comes while it waits for the next. */
static int evaluate_on_terminal(const char *dir)
{
    est_estimator *e = NULL;
    est_clock      clock;
    est_status     status;

    est_log_set_level(EST_LOG_INFO);
    setenv("TERM", "xterm", 1);
    est_manual_clock_init(&waiting, EST_NS_PER_SEC, 1700000000 * EST_NS_PER_SEC);
    clock          = waiting.clock;
    clock.sleep_ns = sleep_until_signal;
    until_ns       = 10 * EST_NS_PER_SEC;
    est_clock_set(&clock);
    status = est_estimator_create(
        est_test_model, EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .cluster_json = EVALUATOR)), &e);
    if (status == EST_OK) {
        status = est_train_and_evaluate(
            e, EST_TRAIN_SPEC(.input_fn = est_test_input),
            EST_EVAL_SPEC(.input_fn = est_test_input, .start_delay_secs = EST_OFF, .throttle_secs = 100), NULL);
    }
    est_estimator_free(e);
    return est_exit_code(status);
}

/* What it draws: how far the evaluation is, and what it waits for after it. */
static void test_evaluator_on_terminal(void **state)
{
    static char    screen[1 << 16];
    char           dir[64];
    est_estimator *e;
    size_t         n = 0;
    int            terminal;
    ssize_t        got;
    const char    *evaluation;
    pid_t          child;

    (void)state;
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 10)), EST_OK);
    est_estimator_free(e);
    remove_mark(dir);
    child = forkpty(&terminal, NULL, NULL, &(struct winsize){ .ws_row = 25, .ws_col = 120 });
    assert_true(child >= 0);
    if (child == 0) _exit(evaluate_on_terminal(dir));
    while ((got = read(terminal, screen + n, sizeof screen - 1 - n)) > 0) n += (size_t)got;
    close(terminal);
    assert_int_equal(await_exit(child), 75);
    evaluation = strstr(screen, "evaluation 1/100  loss ");
    assert_non_null(evaluation);
    assert_non_null(strstr(evaluation, "waiting for a checkpoint"));
    est_test_dir_remove(dir);
}

/* --- what comes out ----------------------------------------------------------------------------------------------- */

static void test_export_paths(void **state)
{
    const est_component        raw[]   = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } };
    const est_exporter_options options = { .struct_size = sizeof options,
                                           .saved_model = { .input = { .raw = raw, .n_raw = 1 } } };
    est_exporter              *final   = est_final_exporter("final", &options), *best;
    est_metrics               *m       = NULL;
    est_estimator             *e;
    char                       dir[64], want[100];

    (void)state;
    est_test_dir(dir);
    best = est_best_exporter("best", &options);
    assert_true(final != NULL && best != NULL);
    e = make(dir, 10, "{}");
    assert_int_equal(
        est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 10),
                               EST_EVAL_SPEC(.input_fn = est_test_input, .exporters = EST_EXPORTERS(final, best)), &m),
        EST_OK);
    for (int i = 0; i < 2; i++) {
        snprintf(want, sizeof want, "%s/export/%s/", dir, i == 0 ? "final" : "best");
        assert_non_null(est_metrics_export_path(m, i));
        assert_memory_equal(est_metrics_export_path(m, i), want, strlen(want));
        assert_true(est_dir_exists(est_metrics_export_path(m, i)));
    }
    assert_null(est_metrics_export_path(m, -1));
    assert_null(est_metrics_export_path(m, 2));
    assert_null(est_metrics_export_path(NULL, 0));
    est_metrics_free(m);

    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &m), EST_OK);
    assert_null(est_metrics_export_path(m, 0)); /* an evaluation exports nothing */
    est_metrics_free(m);
    est_exporter_free(final);
    est_exporter_free(best);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static bool never(void *user, const est_metrics *best, const est_metrics *current)
{
    (void)user;
    (void)best;
    (void)current;
    return false;
}

/* An exporter that has nothing to say after the last evaluation has no path, whatever it did before. */
static void test_no_export_path(void **state)
{
    const est_component raw[] = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } };
    est_exporter       *best  = est_best_exporter(
               "best", EST_EXPORTER(.saved_model = { .input = { .raw = raw, .n_raw = 1 } }, .compare = never));
    est_metrics   *m = NULL;
    est_estimator *e;
    char           dir[64];

    (void)state;
    assert_non_null(best);
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 20),
                                            EST_EVAL_SPEC(.input_fn = est_test_input, .throttle_secs = EST_OFF,
                                                          .exporters = EST_EXPORTERS(best)),
                                            &m),
                     EST_OK);
    assert_int_equal(exports(dir, "best"), 1); /* of step 10 */
    assert_int_equal(est_metrics_global_step(m), 20);
    assert_null(est_metrics_export_path(m, 0));
    est_metrics_free(m);
    est_exporter_free(best);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- found before training ------------------------------------------------------------------------------------------ */

static est_status missing_file_input(const est_input_context *context, void *user, est_dataset **out)
{
    (void)context;
    return est_dataset_finish(est_dataset_lines(est_dataset_files(user), NULL), out);
}

static est_status broken_input(const est_input_context *context, void *user, est_dataset **out)
{
    (void)context;
    (void)user;
    (void)out;
    return est_fail(EST_NOT_FOUND, "the moon is not there");
}

typedef struct pulls {
    int made, pulled;
} pulls;

static est_status pull(void *state, est_field *element)
{
    const float zeros[2] = { 0 };

    if (++((pulls *)state)->pulled > 1) return EST_OUT_OF_RANGE;
    EST_TRY(est_tensor_f32(EST_SHAPE(1, 2), zeros, &element[0].values));
    return est_tensor_f32(EST_SHAPE(1, 1), zeros, &element[1].values);
}

static est_status generated_input(const est_input_context *context, void *user, est_dataset **out)
{
    const est_component components[] = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(1, 2) },
                                         { .name = "y", .dtype = EST_F32, .shape = EST_SHAPE(1, 1) } };

    (void)context;
    ((pulls *)user)->made++;
    return est_dataset_finish(est_dataset_generator(components, 2, &(est_generator){ .next = pull, .user = user }),
                              out);
}

/* The input of training: by then the other has been looked at, and nothing has been pulled from it. */
static est_status looking_input(const est_input_context *context, void *user, est_dataset **out)
{
    const pulls *p = user;

    assert_int_equal(p->made, 1);
    assert_int_equal(p->pulled, 0);
    return est_test_input(context, NULL, out);
}

static void test_eval_input_is_looked_at_first(void **state)
{
    pulls          p = { 0 };
    char           dir[64], missing[100], lock[100];
    est_estimator *e;

    (void)state;
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    snprintf(lock, sizeof lock, "%s/trainer.lock", dir);
    snprintf(missing, sizeof missing, "%s/test-*.txt", dir);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 10),
                                            EST_EVAL_SPEC(.input_fn = missing_file_input, .input_user = missing), NULL),
                     EST_NOT_FOUND);
    est_test_error_has("eval spec: no file matches");
    est_test_error_has(missing);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 10),
                                            EST_EVAL_SPEC(.input_fn = broken_input), NULL),
                     EST_NOT_FOUND);
    est_test_error_has("eval spec: input_fn: the moon is not there");
    assert_int_equal(est_file_remove(lock), EST_OK);
    assert_int_equal(rmdir(dir), 0); /* nothing else was done */
    assert_int_equal(
        est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = looking_input, .input_user = &p, .max_steps = 10),
                               EST_EVAL_SPEC(.input_fn = generated_input, .input_user = &p), NULL),
        EST_OK);
    assert_int_equal(p.made, 2);
    assert_true(p.pulled > 0);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = broken_input, .max_steps = 10),
                                            EST_EVAL_SPEC(.input_fn = broken_input), NULL),
                     EST_OK); /* all steps are made: nothing is asked for */
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- what is refused -------------------------------------------------------------------------------------------------- */

static void refused(est_estimator *e, const est_train_spec *train, const est_eval_spec *eval, const char *text)
{
    assert_int_equal(est_train_and_evaluate(e, train, eval, NULL), EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), text);
}

#define EVAL_SPEC(...)                                                                                                 \
    {                                                                                                                  \
        .struct_size = sizeof(est_eval_spec), .input_fn = est_test_input, __VA_ARGS__                                  \
    }
#define WRITE_SECS(n) "; write a number of seconds, 0 for " n " or EST_OFF for none"

static void test_refused(void **state)
{
    const est_component raw[] = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } };
    est_exporter *one = est_final_exporter("one", EST_EXPORTER(.saved_model = { .input = { .raw = raw, .n_raw = 1 } }));
    est_exporter *two = est_final_exporter("one", EST_EXPORTER(.saved_model = { .input = { .raw = raw, .n_raw = 1 } }));
    est_exporter *const same[] = { one, two }, *const none[] = { NULL };
    est_exporter *const empty[] = { &(est_exporter){ .name = "empty" } };
    est_hook nothing = { 0 }, *const no_hook[] = { NULL };
    est_saving_listener *const no_listener[] = { NULL };
    const est_train_spec      *train         = EST_TRAIN_SPEC(.input_fn = est_test_input);
    const struct {
        est_eval_spec spec;
        const char   *error;
    } evals[] = {
        { EVAL_SPEC(.steps = -7),
          "eval spec: steps is -7; write a number of batches, 0 for 100 or EST_FOREVER for all of the input" },
        { EVAL_SPEC(.name = "a/b"), "eval spec: name is a/b; it is part of a directory's: leave out the /" },
        { EVAL_SPEC(.throttle_secs = -7), "eval spec: throttle_secs is -7" WRITE_SECS("600") },
        { EVAL_SPEC(.throttle_secs = NAN), "eval spec: throttle_secs is nan" WRITE_SECS("600") },
        { EVAL_SPEC(.start_delay_secs = -0.5), "eval spec: start_delay_secs is -0.5" WRITE_SECS("120") },
        { EVAL_SPEC(.start_delay_secs = INFINITY), "eval spec: start_delay_secs is inf" WRITE_SECS("120") },
        { EVAL_SPEC(.hooks = { no_hook, 1 }), "eval spec: hook 0 is NULL" },
        { EVAL_SPEC(.exporters = { none, 1 }), "eval spec: exporter 0 is NULL" },
        { EVAL_SPEC(.exporters = { empty, 1 }), "eval spec: exporter 0 has no export_model" },
        { EVAL_SPEC(.exporters = { same, 2 }),
          "eval spec: two exporters are called one; give each a name of its own, as its directory has" },
    };
    char           dir[64];
    est_estimator *e;

    (void)state;
    assert_true(one != NULL && two != NULL);
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    refused(e, NULL, EST_EVAL_SPEC(.input_fn = est_test_input), "train spec: input_fn is required");
    refused(e, train, NULL, "eval spec: input_fn is required");
    assert_int_equal(est_train_and_evaluate(e, train, &(est_eval_spec){ 0 }, NULL), EST_INVALID_ARGUMENT);
    est_test_error_has("make them with EST_EVAL_SPEC(...)");
    refused(e, EST_TRAIN_SPEC(.max_steps = 1), EST_EVAL_SPEC(.input_fn = est_test_input),
            "train spec: input_fn is required");
    refused(e, train, EST_EVAL_SPEC(.steps = 1), "eval spec: input_fn is required");
    refused(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = -1), EST_EVAL_SPEC(.input_fn = est_test_input),
            "train spec: max_steps is -1; write a number above 0, or 0 for no limit");
    assert_int_equal(est_fail(EST_INVALID_ARGUMENT, "it was not made"), EST_INVALID_ARGUMENT);
    refused(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .hooks = EST_HOOKS(&nothing, NULL)),
            EST_EVAL_SPEC(.input_fn = est_test_input), "train spec: hook 1 is NULL: it was not made");
    refused(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .saving_listeners = { no_listener, 1 }),
            EST_EVAL_SPEC(.input_fn = est_test_input), "train spec: saving listener 0 is NULL");
    for (size_t i = 0; i < sizeof evals / sizeof evals[0]; i++) {
        est_error_clear();
        refused(e, train, &evals[i].spec, evals[i].error);
    }
    est_estimator_free(e);
    e = make(dir, 10, "{\"cluster\": {\"chief\": [\"a:1\"]}, \"task\": {\"type\": \"evaluator\", \"index\": 1}}");
    refused(e, train, EST_EVAL_SPEC(.input_fn = est_test_input),
            "TF_CONFIG: task.index is 1; there is only one evaluator, number 0");
    est_estimator_free(e);
    e = make(dir, 10,
             "{\"cluster\": {\"chief\": [\"a:1\"], \"zoo\": [\"b:1\"]}, \"task\": {\"type\": \"zoo\", \"index\": 0}}");
    refused(
        e, train, EST_EVAL_SPEC(.input_fn = est_test_input),
        "TF_CONFIG: task.type is \"zoo\"; train_and_evaluate knows what to do as \"chief\", \"evaluator\", \"master\", "
        "\"ps\" and \"worker\"");
    est_estimator_free(e);
    e = make(dir, 10,
             "{\"cluster\": {\"chief\": [\"a:1\"], \"ps\": [\"b:1\"]}, \"task\": {\"type\": \"ps\", \"index\": 0}}");
    assert_int_equal(est_train_and_evaluate(e, train, EST_EVAL_SPEC(.input_fn = est_test_input), NULL),
                     EST_UNIMPLEMENTED);
    est_test_error_has("task ps 0: this build has no parameter servers");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input)), EST_FAILED_PRECONDITION);
    est_test_error_has("this process is a ps task, which does not train");
    est_exporter_free(one);
    est_exporter_free(two);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after_every_checkpoint),
        cmocka_unit_test(test_default_steps),
        cmocka_unit_test(test_default_throttle),
        cmocka_unit_test(test_default_evaluator_times),
        cmocka_unit_test(test_mark_at_start),
        cmocka_unit_test(test_throttled),
        cmocka_unit_test(test_evaluator),
        cmocka_unit_test(test_evaluator_old_mark),
        cmocka_unit_test(test_evaluator_checkpoint_deleted),
        cmocka_unit_test(test_evaluator_of_finished_run),
        cmocka_unit_test(test_missing_train_files),
        cmocka_unit_test(test_evaluator_all_deleted),
        cmocka_unit_test(test_evaluator_damaged_directory),
        cmocka_unit_test(test_final_export_after_the_end_of_input),
        cmocka_unit_test(test_alone_in_a_cluster),
        cmocka_unit_test(test_no_batch),
        cmocka_unit_test(test_second_trainer),
        cmocka_unit_test(test_signal_in_evaluation),
        cmocka_unit_test(test_evaluator_stopped),
        cmocka_unit_test(test_evaluator_abandoned),
        cmocka_unit_test(test_evaluator_on_terminal),
        cmocka_unit_test(test_export_paths),
        cmocka_unit_test(test_no_export_path),
        cmocka_unit_test(test_eval_input_is_looked_at_first),
        cmocka_unit_test(test_refused),
    };

    est_log_set_level(EST_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
