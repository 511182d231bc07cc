/* SPDX-License-Identifier: Apache-2.0
 *
 * A job over tls whose ps is flooded by a stranger: more connections than the ps may have descriptors. It goes on:
 * steps are made, checkpoints are saved, a worker that was started again is let in; and the memory that the flood took
 * is given back. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/cluster_job.h"
#include "support/flood_test.h"
#include "support/net_test.h"
#include "support/sanitized.h"

#define DESCRIPTORS    1024 /* of a task, soft and hard */
#define WAIT_SECS      60.0
#define STEPS          100 /* that must be made, and saved, during a flood */
#define RSS_DURING_MAX 48  /* MB above what the ps had before */
#define RSS_AFTER_MAX  8

static int limited_task(int argc, char **argv)
{
    const struct rlimit limit = { .rlim_cur = DESCRIPTORS, .rlim_max = DESCRIPTORS };

    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
    return cluster_job_task(argc, argv);
}

/* MB of memory that a task has. */
static long rss_of(const cluster_task *task)
{
    char  path[64], line[256];
    long  kb = -1;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%ld/status", (long)task->pid);
    file = fopen(path, "r");
    assert_non_null(file);
    while (kb < 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) kb = strtol(line + 6, NULL, 10);
    }
    fclose(file);
    assert_true(kb > 0);
    return kb / 1024;
}

/* The job goes on while the flood lasts. */
static void disturb(cluster *c, flood *f)
{
    cluster_task *ps = cluster_find(c, "ps", 0), *worker = cluster_find(c, "worker", 0);
    long          before = rss_of(ps), during, after;
    int64_t       until;
    int           restarts = cluster_count_log(ps, "worker:0 was restarted");

    f->port = (int)strtol(strrchr(ps->address, ':') + 1, NULL, 10);
    flood_start(f);
    cluster_wait_step(c, cluster_saved_step(c) + STEPS, WAIT_SECS);
    cluster_signal(worker, SIGKILL);
    cluster_wait(c, worker, WAIT_SECS);
    cluster_start(c, worker);
    while (cluster_count_log(ps, "worker:0 was restarted") == restarts) {
        cluster_wait_step(c, cluster_saved_step(c) + 1, WAIT_SECS);
    }
    cluster_wait_step(c, cluster_saved_step(c) + STEPS, WAIT_SECS);
    during = rss_of(ps);
    flood_stop(f);
    until = est_machine_ns() + est_secs_to_ns(WAIT_SECS);
    do {
        cluster_wait_step(c, cluster_saved_step(c) + 1, WAIT_SECS);
        after = rss_of(ps);
    } while (!EST_TEST_SANITIZED && after - before > RSS_AFTER_MAX && est_machine_ns() < until);
    print_message("ps: %ld MB, during %d connections %ld MB, afterwards %ld MB\n", before, f->n_made, during, after);
    if (EST_TEST_SANITIZED) return; /* they keep freed memory */
    if (during - before > RSS_DURING_MAX || after - before > RSS_AFTER_MAX) {
        fail_msg("the ps had %ld MB, during the flood %ld MB, afterwards %ld MB", before, during, after);
    }
}

TEST(flood)
{
    static flood floods[] = { { .n = 1200 }, { .n = 1200, .n_addresses = 200, .speaks = true } };
    cluster      c        = cluster_make(1, 1, 1, 0);

    c.transport = "tls";
    CLUSTER_SET(&c, "save=20", "enough=1", "pause_us=500", "steps=100000000");
    cluster_start_all(&c);
    cluster_wait_step(&c, STEPS, WAIT_SECS);
    for (size_t i = 0; i < sizeof floods / sizeof floods[0]; i++) disturb(&c, &floods[i]);
    cluster_enough(&c);
    cluster_wait_all(&c, WAIT_SECS);
    for (int i = 0; i < c.n; i++) assert_int_equal(cluster_count_log(&c.tasks[i], "Too many open files"), 0);
    cluster_check_clean(&c);
    cluster_free(&c);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, limited_task);
    return est_test_run(NULL, NULL);
}
