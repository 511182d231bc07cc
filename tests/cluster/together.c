/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that train together step by step (multi_worker_mirrored), as processes: whoever is killed and comes back, the variables
 * in the end are, bit for bit, those of a run that nobody disturbed; inputs that end at different times; a worker that does
 * not come back; signals. The model has dropout and its input is shuffled, so that every number drawn counts. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "support/cluster_job.h"
#include "support/estimator_test.h"

#define STOPPED 2 /* exit code of a task that a signal stopped */

static cluster make(int workers, const char *steps, const char *more)
{
    cluster c = cluster_make(0, workers, 0, 0);

    c.args[0] = steps;
    c.args[1] = "mirrored=1";
    c.args[2] = "timeout=60";
    c.args[3] = "return=60";
    c.args[4] = "silence=2";
    c.args[5] = "save=40";
    c.args[6] = "pause_us=2000";
    c.args[7] = more;
    return c;
}

static cluster_task *worker(cluster *c, int i)
{
    return cluster_find(c, "worker", i);
}

/* --- what is compared ------------------------------------------------------------------------------------------------ */

/* Two directories end with the same variables: all that there are, but for where inputs are, which workers tell each other at
 * different times. */
static void assert_same_end(const char *a, const char *b)
{
    est_checkpoint *first = NULL, *second = NULL;

    assert_int_equal(est_checkpoint_open(a, &first), EST_OK);
    assert_int_equal(est_checkpoint_open(b, &second), EST_OK);
    assert_int_equal(est_checkpoint_count(first), est_checkpoint_count(second));
    for (int i = 0; i < est_checkpoint_count(first); i++) {
        const char *name = est_checkpoint_at(first, i)->name;
        est_tensor *x = NULL, *y = NULL;

        if (strcmp(name, "estoc/input_positions") == 0) continue;
        assert_int_equal(est_checkpoint_read(first, name, &x), EST_OK);
        assert_int_equal(est_checkpoint_read(second, name, &y), EST_OK);
        assert_int_equal(est_tensor_bytes(x), est_tensor_bytes(y));
        if (memcmp(est_tensor_data(x), est_tensor_data(y), est_tensor_bytes(x)) != 0) fail_msg("%s differs", name);
        est_tensor_free(x);
        est_tensor_free(y);
    }
    est_checkpoint_close(first);
    est_checkpoint_close(second);
}

static void end(cluster *c, long steps)
{
    assert_int_equal(cluster_saved_step(c), steps);
    cluster_check_clean(c);
    cluster_free(c);
}

/* Runs one job undisturbed. */
static cluster quiet_run(int workers, const char *steps, const char *more)
{
    cluster c = make(workers, steps, more);

    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    return c;
}

/* --- kills ------------------------------------------------------------------------------------------------------------ */

static void kill_and_restart(cluster *c, cluster_task *task)
{
    cluster_signal(task, SIGKILL);
    cluster_wait(c, task, 20);
    cluster_start(c, task);
}

static void check_killed(int workers, int victim, const char *more)
{
    cluster calm = quiet_run(workers, "steps=300", more), c = make(workers, "steps=300", more);

    cluster_start_all(&c);
    cluster_wait_step(&c, 40, 30);
    kill_and_restart(&c, worker(&c, victim));
    cluster_wait_step(&c, 160, 30);
    kill_and_restart(&c, worker(&c, victim));
    cluster_wait_all(&c, 60);
    assert_same_end(calm.model, c.model);
    end(&calm, 300);
    end(&c, 300);
}

static void test_killed_worker(void **state)
{
    (void)state;
    check_killed(2, 1, NULL);
}

static void test_killed_chief(void **state)
{
    (void)state;
    check_killed(2, 0, NULL);
}

/* --- the end ---------------------------------------------------------------------------------------------------------- */

/* Jobs so short that one worker is done while the other still makes the last step: that is made, and nobody makes one more. */
static void test_short_jobs(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        cluster c = make(2, "steps=20", NULL);

        c.args[6] = "pause_us=0";
        cluster_start_all(&c);
        cluster_wait_all(&c, 30);
        for (int k = 0; k < c.n; k++) assert_int_equal(cluster_count_log(&c.tasks[k], "Meeting the other workers"), 0);
        end(&c, 20);
    }
}

/* A chief whose input has ended stops with the others. */
static void test_idle_chief(void **state)
{
    cluster c;

    (void)state;
    c = quiet_run(2, "steps=24", "passes=2"); /* 16 batches of the chief, 32 of the other worker */
    assert_int_equal(cluster_count_log(worker(&c, 0), "Meeting the other workers"), 0);
    end(&c, 24);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_jobs),
        cmocka_unit_test(test_idle_chief),
        cmocka_unit_test(test_killed_worker),
        cmocka_unit_test(test_killed_chief),
    };

    cluster_task_main(argc, argv, cluster_job_task);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
