/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of train_and_evaluate: an estimator in a directory, the steps at which that was evaluated, and a hook that
 * notes when evaluations begin. */
#ifndef EST_TESTS_ESTIMATOR_RUNS_TEST_H
#define EST_TESTS_ESTIMATOR_RUNS_TEST_H

#include <stdio.h>

#include "base/clock.h"
#include "base/file.h"
#include "support/estimator_test.h"
#include "train/eval_results.h"

#define EVALUATOR "{\"cluster\": {\"chief\": [\"a:1\"]}, \"task\": {\"type\": \"evaluator\", \"index\": 0}}"

static inline est_estimator *make(const char *dir, int64_t save_steps, const char *cluster)
{
    return EST_TEST_ESTIMATOR(est_test_model, dir, cluster, .save_checkpoints_steps = save_steps);
}

/* The steps at which the directory was evaluated, as its event files tell. */
static inline int evaluated_steps(const char *dir, int64_t *steps, int max)
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

static inline void assert_steps(const char *dir, const int64_t *want, int n)
{
    int64_t steps[32];

    assert_int_equal(evaluated_steps(dir, steps, 32), n);
    assert_memory_equal(steps, want, (size_t)n * sizeof *want);
}

/* Waits until the file is there, at most 60 s. */
static inline void await_file(const char *dir, const char *name)
{
    char    path[128];
    int64_t until = est_now_ns() + 60 * EST_NS_PER_SEC;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    while (!est_file_exists(path)) {
        assert_true(est_now_ns() < until);
        est_sleep_ns(EST_NS_PER_SEC / 100);
    }
}

static inline void remove_mark(const char *dir)
{
    char path[128];

    snprintf(path, sizeof path, "%s/training_done", dir);
    assert_true(est_file_exists(path));
    assert_int_equal(est_file_remove(path), EST_OK);
}

/* Notes when evaluations begin and how many batches they have; a trainer, if there is one, goes on after the first. */
typedef struct watcher {
    est_hook       hook;
    est_estimator *trainer;
    int64_t        begun_ns[4];
    int            n;
    int64_t        batches;
} watcher;

static inline est_status watch_begin(est_hook *hook, est_loop *loop)
{
    watcher *w = EST_CONTAINER_OF(hook, watcher, hook);

    (void)loop;
    assert_true(w->n < 4);
    w->begun_ns[w->n++] = est_now_ns();
    return EST_OK;
}

static inline est_status watch_after_run(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, watcher, hook)->batches++;
    return EST_OK;
}

static inline est_status watch_end(est_hook *hook, est_loop *loop)
{
    watcher *w = EST_CONTAINER_OF(hook, watcher, hook);

    if (w->trainer == NULL || w->n > 1) return EST_OK;
    EST_TRY(est_train(w->trainer, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 20)));
    remove_mark(est_loop_model_dir(loop)); /* as if it were still training */
    return EST_OK;
}

#define WATCHER(...)                                                                                                   \
    ((watcher){ .hook = EST_HOOK(.begin = watch_begin, .after_run = watch_after_run, .end = watch_end), __VA_ARGS__ })

#endif
