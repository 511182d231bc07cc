/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks with variables that fall silent or restart while others wait for them, directly or through another task. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/cluster_job.h"
#include "support/estimator_test.h"

static cluster make(const char *steps, const char *timeout, const char *pause)
{
    cluster c = cluster_make(1, 1, 2, 0);

    CLUSTER_SET(&c, steps, timeout, "silence=1", "save=10", pause);
    return c;
}

static void end(cluster *c, long steps)
{
    assert_int_equal(cluster_saved_step(c), steps);
    (void)cluster_check_ledgers(c);
    cluster_check_clean(c);
    cluster_free(c);
}

/* A ps that comes back with its variables: all go on with them. The chief saves all the time, so that it is found in a
 * save as well as in a step. */
static void stop_ps(int which)
{
    cluster       c     = make("steps=400", "timeout=60", "pause_us=2000");
    cluster_task *chief = cluster_find(&c, "chief", 0), *ps = cluster_find(&c, "ps", which);
    char          lost[64];

    CLUSTER_SET(&c, "save=1");
    snprintf(lost, sizeof lost, "nothing came from ps:%d for 1 s", which);
    cluster_start_all(&c);
    cluster_wait_step(&c, 20, 20);
    cluster_signal(ps, SIGSTOP);
    cluster_wait_log(&c, chief, lost, 20);
    cluster_wait_log(&c, chief, "Making a new session", 20);
    cluster_wait_log(&c, cluster_find(&c, "worker", 0), "Making a new session", 20);
    cluster_signal(ps, SIGCONT);
    cluster_wait_log(&c, chief, "All variables have values already", 20);
    cluster_wait_all(&c, 40);
    end(&c, 400);
}

TEST(ps_0_silent)
{
    stop_ps(0);
}

TEST(ps_1_silent)
{
    stop_ps(1);
}

/* A ps that restarts while the chief waits for the step of a silent worker. The worker, back, can only go on when the
 * chief has given the ps its values, so the chief must not wait for the worker. */
static void restart_ps(int which)
{
    cluster       c     = make("steps=60", "timeout=32", "pause_us=10000");
    cluster_task *chief = cluster_find(&c, "chief", 0), *worker = cluster_find(&c, "worker", 0),
                 *ps = cluster_find(&c, "ps", which);

    CLUSTER_SET(&c, "silence=60"); /* its turn stays its own */
    cluster_start_all(&c);
    cluster_wait_step(&c, 20, 20);
    cluster_signal(worker, SIGSTOP);
    cluster_wait_log(&c, chief, ": steps of others are under way", 30); /* after a quarter of the timeout */
    cluster_signal(ps, SIGKILL);
    cluster_wait(&c, ps, 10);
    cluster_start(&c, ps);
    cluster_wait_log(&c, chief, "Making a new session", 30);
    cluster_signal(worker, SIGCONT);
    cluster_wait_all(&c, 60);
    end(&c, 60);
}

TEST(ps_0_restarted)
{
    restart_ps(0);
}

TEST(ps_1_restarted)
{
    restart_ps(1);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, cluster_job_task);
    return est_test_run_apart(NULL, NULL);
}
