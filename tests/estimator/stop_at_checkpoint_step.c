/* SPDX-License-Identifier: Apache-2.0
 *
 * Stopping at a step: the chief at once, a worker when the step is in a checkpoint. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "support/estimator_test.h"

#define WORKER                                                                                                         \
    "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}"

static est_estimator *make(const char *dir, const char *cluster)
{
    return EST_TEST_ESTIMATOR(est_test_model, dir, cluster);
}

/* Counts runs, and says so when it has made five. */
typedef struct counter {
    est_hook hook;
    int64_t  runs;
    int      pipe;
} counter;

static est_status counter_after_run(est_hook *hook, est_loop *loop)
{
    counter *c = EST_CONTAINER_OF(hook, counter, hook);

    (void)loop;
    if (++c->runs == 5 && c->pipe >= 0) assert_int_equal(write(c->pipe, "", 1), 1);
    return EST_OK;
}

static int64_t train(est_estimator *e, est_hook *hook, int said)
{
    counter c = { .hook = EST_HOOK(.after_run = counter_after_run), .pipe = said };

    assert_non_null(hook);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .hooks = EST_HOOKS(&c.hook, hook))),
                     EST_OK);
    est_hook_free(hook);
    return c.runs;
}

/* Saves a checkpoint that says step 5, as a chief would. */
static void save_step_5(const char *dir)
{
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_saver   *saver   = NULL;
    est_tensor  *five    = NULL;

    assert_int_equal(est_graph_create(1, &graph), EST_OK);
    (void)est_global_step(graph);
    assert_int_equal(est_session_create(graph, NULL, &session), EST_OK);
    assert_int_equal(est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ 5 }, &five), EST_OK);
    assert_int_equal(est_session_write(session, "global_step", five), EST_OK);
    assert_int_equal(est_saver_create(dir, NULL, &saver), EST_OK);
    assert_int_equal(est_saver_save(saver, session, 5, NULL, NULL), EST_OK);
    est_saver_free(saver);
    est_tensor_free(five);
    est_session_free(session);
    est_graph_free(graph);
}

TEST(chief)
{
    char           dir[64];
    est_estimator *e;

    est_test_dir(dir);
    e = make(dir, "{}");
    assert_int_equal(train(e, est_stop_at_checkpoint_step_hook(e, 5, 0), -1), 5);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(worker)
{
    char           dir[64], own[64], byte;
    est_estimator *e, *trainer;
    int            said[2], status;
    pid_t          pid;

    est_test_dir(dir);
    est_test_dir(own);
    e       = make(dir, WORKER);
    trainer = make(own, "{}"); /* runs the worker's hook: no worker trains on its own */
    assert_int_equal(pipe(said), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (read(said[0], &byte, 1) != 1) _exit(1);
        save_step_5(dir);
        _exit(0);
    }
    assert_int_equal(train(trainer, est_stop_at_checkpoint_step_hook(e, 5, 0.01), said[1]),
                     5); /* it waited at step 5 */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(close(said[0]) | close(said[1]), 0);
    est_estimator_free(e);
    est_estimator_free(trainer);
    est_test_dir_remove(dir);
    est_test_dir_remove(own);
}

/* A clock on which the chief saves as soon as someone waits. */
typedef struct chief_clock {
    est_manual_clock manual;
    est_clock        clock;
    const char      *dir; /* NULL: saved */
} chief_clock;

static int64_t chief_now(void *user)
{
    est_manual_clock *manual = &((chief_clock *)user)->manual;

    return manual->clock.now_ns(manual->clock.user);
}

static int64_t chief_wall(void *user)
{
    est_manual_clock *manual = &((chief_clock *)user)->manual;

    return manual->clock.wall_ns(manual->clock.user);
}

static void chief_sleep(void *user, int64_t ns)
{
    chief_clock *c = user;

    if (c->dir != NULL) save_step_5(c->dir);
    c->dir = NULL;
    c->manual.clock.sleep_ns(c->manual.clock.user, ns);
}

/* It looks, waits 30 s, looks again and finds the checkpoint. */
TEST(default_wait)
{
    char           dir[64], own[64];
    est_estimator *e, *trainer;
    chief_clock    c = { .clock = { .now_ns = chief_now, .wall_ns = chief_wall, .sleep_ns = chief_sleep, .user = &c },
                         .dir   = dir };

    est_test_dir(dir);
    est_test_dir(own);
    e       = make(dir, WORKER);
    trainer = make(own, "{}");
    est_manual_clock_init(&c.manual, 0, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&c.clock);
    assert_int_equal(train(trainer, est_stop_at_checkpoint_step_hook(e, 5, 0), -1), 5);
    assert_int_equal(est_now_ns(), 30 * EST_NS_PER_SEC);
    est_clock_set(NULL);
    est_estimator_free(e);
    est_estimator_free(trainer);
    est_test_dir_remove(dir);
    est_test_dir_remove(own);
}

TEST(refused)
{
    char           dir[64];
    est_estimator *e;
    est_hook      *hook;

    est_test_dir(dir);
    e = make(dir, WORKER);
    assert_null(est_stop_at_checkpoint_step_hook(e, 0, 0));
    est_test_error_has("a stop at step 0");
    assert_null(est_stop_at_checkpoint_step_hook(e, 5, -1));
    est_test_error_has("every -1 seconds");
    est_fault_arm_alloc(1);
    assert_null(est_stop_at_checkpoint_step_hook(e, 5, 0));
    est_fault_arm_alloc(0);
    hook = est_stop_at_checkpoint_step_hook(e, 5, 0);
    assert_non_null(hook);
    est_hook_free(hook);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

int main(void)
{
    est_log_set_level(EST_LOG_OFF);
    return est_test_run(NULL, NULL);
}
