/* SPDX-License-Identifier: Apache-2.0
 *
 * The evaluator task of train_and_evaluate, as a process of its own and its end: what it waits for, and what may happen
 * to its directory meanwhile. */
#include "estimator/runs_test.h"

#include <dirent.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "estoc/exporter.h"
#include "support/log_test.h"
#include "train/lock.h"

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

/* An evaluator that starts before there is anything, and leaves after the last checkpoint, with and without
 * max_steps. */
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

TEST(evaluator)
{
    evaluator_ends(40, EST_FOREVER, 40);
    evaluator_ends(0, 3, 24);    /* no max_steps: the input ends */
    evaluator_ends(1000, 2, 16); /* training ends early */
}

/* A wait is made of pieces, each rounded to nanoseconds. */
static void assert_secs(int64_t ns, int64_t secs)
{
    assert_in_range(ns, secs * EST_NS_PER_SEC, secs * EST_NS_PER_SEC + 1000);
}

static est_manual_clock standing; /* moves only when someone sleeps */

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

TEST(default_evaluator_times)
{
    char    dir[64];
    watcher w = WATCHER(.n = 0);

    est_test_dir(dir);
    run_evaluator(dir, false, &w);
    assert_int_equal(w.n, 2);
    assert_secs(w.begun_ns[0], 120);
    assert_secs(w.begun_ns[1], 120 + 600);
    est_test_dir_remove(dir);
}

/* A mark that is there when the evaluator starts may be of an earlier training: the delay is waited for in full, and a
 * trainer that starts meanwhile removes the mark. */
TEST(mark_at_start)
{
    char    dir[64];
    watcher w = WATCHER(.n = 2); /* the trainer makes no more steps */

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

TEST(evaluator_old_mark)
{
    char           dir[64];
    late_trainer   l = { .hook = EST_HOOK(.end = train_late) };
    est_estimator *e;
    est_metrics   *m = NULL;

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
TEST(evaluator_of_finished_run)
{
    char             dir[64];
    est_manual_clock clock;
    est_estimator   *e;
    est_metrics     *m = NULL;

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

TEST(evaluator_checkpoint_deleted)
{
    char           dir[64];
    overtaker      o = { .hook = EST_HOOK(.begin = overtake) };
    est_estimator *e;
    est_metrics   *m = NULL;

    est_test_dir(dir);
    o.trainer = EST_TEST_ESTIMATOR(est_test_model, dir, "{}", .keep_checkpoint_max = 1);
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

TEST(evaluator_all_deleted)
{
    char           dir[64];
    wiper          w = { .hook = EST_HOOK(.begin = wipe), .dir = dir };
    est_estimator *e;
    est_metrics   *m = NULL;

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
TEST(evaluator_damaged_directory)
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

TEST(evaluator_stopped)
{
    char           dir[64];
    est_estimator *e;
    pid_t          pid;

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

/* Evaluates a directory of 10 steps as the evaluator of two workers; how often it warns of their evaluating, too. */
static int said_of_two(const char *dir, const char *cluster, bool multi_worker)
{
    est_strategy  *strategy = NULL;
    est_estimator *e        = NULL;

    assert_int_equal(est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.cluster_json = cluster), &strategy),
                     EST_OK);
    e = est_test_make(
        est_test_model,
        EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .cluster_json = cluster, .train_distribute = strategy,
                                               .eval_distribute = multi_worker ? strategy : NULL)));
    log_keep(EST_LOG_WARN);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 10),
                                            EST_EVAL_SPEC(.input_fn = est_test_input, .start_delay_secs = EST_OFF),
                                            NULL),
                     EST_OK);
    log_release();
    est_estimator_free(e);
    est_strategy_free(strategy);
    return log_count(EST_LOG_WARN, "leave out one of the two");
}

/* An evaluator beside workers that evaluate together says that one is too many; not where the workers know of it. */
TEST(evaluator_beside_workers)
{
    static const char unlisted[] = "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, "
                                   "\"task\": {\"type\": \"evaluator\", \"index\": 0}}";
    static const char listed[]   = "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"], \"evaluator\": [\"c:1\"]}, "
                                   "\"task\": {\"type\": \"evaluator\", \"index\": 0}}";
    static const char one[]      = "{\"cluster\": {\"worker\": [\"a:1\"]}, "
                                   "\"task\": {\"type\": \"evaluator\", \"index\": 0}}";
    char              dir[64];
    est_estimator    *trainer;

    est_test_dir(dir);
    trainer = make(dir, 10, "{}");
    assert_int_equal(est_train(trainer, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 10)), EST_OK);
    est_estimator_free(trainer);
    assert_int_equal(said_of_two(dir, unlisted, true), 1);
    assert_int_equal(said_of_two(dir, unlisted, false), 0);
    assert_int_equal(said_of_two(dir, listed, true), 0);
    assert_int_equal(said_of_two(dir, one, true), 0);
    est_test_dir_remove(dir);
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
    log_keep(EST_LOG_WARN);
    status = est_train_and_evaluate(
        e, EST_TRAIN_SPEC(.input_fn = est_test_input),
        EST_EVAL_SPEC(.input_fn = est_test_input, .start_delay_secs = EST_OFF, .throttle_secs = 100), NULL);
    log_release();
    est_clock_set(NULL);
    assert_int_equal(status, EST_CANCELLED);
    est_estimator_free(e);
    return log_count(EST_LOG_WARN, "start the trainer again, or stop");
}

/* A trainer that died leaves its evaluator waiting, which says so; not while one trains, or none has yet. */
TEST(evaluator_abandoned)
{
    char           dir[64];
    est_dir_lock  *lock = NULL;
    est_estimator *e;

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
            EST_EVAL_SPEC(.input_fn = est_test_input, .steps = 100, .start_delay_secs = EST_OFF, .throttle_secs = 100),
            NULL);
    }
    est_estimator_free(e);
    return est_exit_code(status);
}

/* What it draws: how far the evaluation is, and what it waits for after it. */
TEST(evaluator_on_terminal)
{
    static char    screen[1 << 16];
    char           dir[64];
    est_estimator *e;
    size_t         n = 0;
    int            terminal;
    ssize_t        got;
    const char    *evaluation;
    pid_t          child;

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

/* An exporter of one's own that is slower than retention: it says that it has begun, and exports when the training has
 * ended, which deletes the checkpoint that was evaluated. The next evaluation is that of the last checkpoint. */
typedef struct slow_exporter {
    est_exporter exporter;
    const char  *dir;
    bool         never; /* ends: it waits to be killed */
} slow_exporter;

#define SERVED                                                                                                         \
    .input = { .raw = { (const est_component[]){ { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } }, 1 } }

static bool is_there(const char *dir, const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return est_file_exists(path);
}

static est_status export_late(est_exporter *exporter, est_estimator *estimator, const char *base,
                              const char *checkpoint, const est_metrics *metrics, bool final,
                              char path[EST_CHECKPOINT_PATH_MAX])
{
    slow_exporter *x     = EST_CONTAINER_OF(exporter, slow_exporter, exporter);
    int64_t        until = est_now_ns() + 60 * EST_NS_PER_SEC;
    char           begun[128];

    (void) final;
    if (est_metrics_global_step(metrics) == 10) {
        snprintf(begun, sizeof begun, "%s/begun", x->dir);
        EST_TRY(est_file_replace(begun, "", 0));
        while (x->never || !is_there(x->dir, "trained")) {
            if (est_now_ns() > until) return est_fail(EST_DEADLINE_EXCEEDED, "the training did not end");
            est_sleep_ns(EST_NS_PER_SEC / 100);
        }
    }
    return est_export_saved_model(estimator, base, EST_EXPORT(SERVED, .checkpoint_path = checkpoint), path);
}

static void leave_file(const char *dir, const char *name)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (est_file_replace(path, "", 0) != EST_OK) _exit(99);
}

/* Leaves a file when the line about a checkpoint that is not exported comes, when one is restored, and when a line
 * names links, which are gone when it is read. */
static void note_line(void *user, est_log_level level, int64_t wall_ns, const char *line)
{
    (void)wall_ns;
    if (strstr(line, "/pinned/") != NULL) leave_file(user, "named-links");
    if (strstr(line, "Restoring parameters from ") != NULL) leave_file(user, "restored");
    if (level != EST_LOG_WARN || strstr(line, "model.ckpt-10 is not exported: the trainer removed it") == NULL) return;
    leave_file(user, strstr(line, "latest") != NULL ? "skipped" : "skipped-slow");
}

static pid_t start_exporting(const char *dir, bool never)
{
    slow_exporter  slow = { .exporter = EST_EXPORTER(.name = "slow", .export_model = export_late),
                            .dir      = dir,
                            .never    = never };
    pid_t          pid  = fork();
    est_estimator *e;
    est_exporter  *latest;
    est_status     status;

    assert_true(pid >= 0);
    if (pid != 0) return pid;
    est_log_set_level(EST_LOG_INFO);
    est_log_set_sink(note_line, (void *)(uintptr_t)dir);
    e      = make(dir, 10, EVALUATOR);
    latest = est_latest_exporter("latest",
                                 EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(SERVED), .exports_to_keep = EST_OFF));
    status = est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 80),
                                    EST_EVAL_SPEC(.input_fn = est_test_input, .start_delay_secs = EST_OFF,
                                                  .throttle_secs = EST_OFF,
                                                  .exporters     = EST_EXPORTERS(&slow.exporter, latest)),
                                    NULL);
    if (status != EST_OK) fprintf(stderr, "evaluator: %s\n", est_error_message());
    est_exporter_free(latest);
    est_estimator_free(e);
    _exit(est_exit_code(status));
}

/* Trains to a step and leaves no mark unless all is done. */
static void train_to(const char *dir, int64_t step)
{
    est_estimator *trainer = make(dir, 10, "{}");

    assert_int_equal(est_train(trainer, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = step)), EST_OK);
    est_estimator_free(trainer);
    if (step < 80) remove_mark(dir);
}

/* Trains while an exporter waits for the end (export_late). */
static void train_to_end(const char *dir)
{
    train_to(dir, 80);
    assert_false(is_there(dir, "model.ckpt-10.index"));
    leave_file(dir, "trained");
}

/* The 4 weights of "out/kernel" in a checkpoint or an export. */
static void read_kernel(const char *path, float out[4])
{
    est_checkpoint *from  = NULL;
    est_tensor     *value = NULL;

    assert_int_equal(est_checkpoint_open(path, &from), EST_OK);
    assert_int_equal(est_checkpoint_read(from, "out/kernel", &value), EST_OK);
    memcpy(out, est_tensor_data(value), 4 * sizeof *out);
    est_tensor_free(value);
    est_checkpoint_close(from);
}

/* The weights of the first export of an exporter. */
static void read_first_export(const char *dir, const char *exporter, float out[4])
{
    char            base[128], path[512];
    struct dirent **entries = NULL;
    int             n, first = -1;

    snprintf(base, sizeof base, "%s/export/%s", dir, exporter);
    n = scandir(base, &entries, NULL, alphasort);
    assert_true(n > 2);
    for (int i = n - 1; i >= 0; i--) {
        if (entries[i]->d_name[0] != '.') first = i;
    }
    snprintf(path, sizeof path, "%s/%s", base, entries[first]->d_name);
    read_kernel(path, out);
    for (int i = 0; i < n; i++) free(entries[i]);
    free(entries);
}

/* Retention deletes the checkpoint while it is exported: all exporters of an evaluation see what was evaluated. */
TEST(exported_is_what_was_evaluated)
{
    char  dir[64], path[128];
    float evaluated[4], slow[4], latest[4];
    pid_t pid;

    est_test_dir(dir);
    train_to(dir, 10);
    snprintf(path, sizeof path, "%s/model.ckpt-10", dir);
    read_kernel(path, evaluated);
    pid = start_exporting(dir, false);
    await_file(dir, "begun");
    train_to_end(dir);
    assert_int_equal(await_exit(pid), 0);
    read_first_export(dir, "slow", slow);
    read_first_export(dir, "latest", latest);
    assert_memory_equal(slow, evaluated, sizeof slow);
    assert_memory_equal(latest, evaluated, sizeof latest);
    assert_steps(dir, (int64_t[]){ 10, 80 }, 2);
    assert_true(is_there(dir, "restored") && !is_there(dir, "named-links"));
    assert_false(is_there(dir, "eval/pinned")); /* what kept the checkpoint is gone, too */
    assert_false(is_there(dir, "eval/evaluator.lock"));
    est_test_dir_remove(dir);
}

/* An evaluator that is killed leaves the links to what it exported; the next one removes them. */
TEST(killed_while_exporting)
{
    char  dir[64];
    int   status;
    pid_t pid;

    est_test_dir(dir);
    train_to(dir, 10);
    pid = start_exporting(dir, true);
    await_file(dir, "begun");
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_true(is_there(dir, "eval/pinned/model.ckpt-10.index"));
    train_to(dir, 80);
    assert_int_equal(await_exit(start_exporting(dir, false)), 0);
    assert_false(is_there(dir, "eval/pinned"));
    assert_steps(dir, (int64_t[]){ 10, 80 }, 2);
    est_test_dir_remove(dir);
}

/* Where a checkpoint cannot be kept, here because the evaluator cannot lock the directory for that, it is not exported;
 * no more. */
TEST(removed_while_exporting)
{
    char  dir[64], lock[128];
    float last[4], slow[4], latest[4];
    pid_t pid;

    est_test_dir(dir);
    train_to(dir, 10);
    snprintf(lock, sizeof lock, "%s/eval", dir);
    assert_int_equal(est_dir_create(lock), EST_OK);
    snprintf(lock, sizeof lock, "%s/eval/evaluator.lock", dir);
    assert_int_equal(symlink(lock, lock), 0); /* cannot be opened */
    pid = start_exporting(dir, false);
    await_file(dir, "begun");
    train_to_end(dir);
    assert_int_equal(await_exit(pid), 0);
    assert_true(is_there(dir, "skipped") && is_there(dir, "skipped-slow"));
    read_kernel(dir, last);
    read_first_export(dir, "slow", slow);
    read_first_export(dir, "latest", latest);
    assert_memory_equal(slow, last, sizeof slow);
    assert_memory_equal(latest, last, sizeof latest);
    assert_steps(dir, (int64_t[]){ 10, 80 }, 2);
    est_test_dir_remove(dir);
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR);
    return est_test_run(NULL, NULL);
}
