/* SPDX-License-Identifier: Apache-2.0
 *
 * A network that is cut: a worker in a network namespace of its own, joined to that of the others by a pair of virtual
 * interfaces of which one is taken down. Neither namespace has a way to anywhere else. Needs root,
 * nsenter and iproute2. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cluster_job.h"
#include "support/estimator_test.h"

#define SKIPPED 77 /* as CTest has it */

static pid_t here, there; /* processes that have the namespaces, which go with them */

/* A process in a network namespace of its own; 0: not possible. */
static pid_t hold_network(void)
{
    int   ready[2];
    char  byte = 0;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWNET) != 0 || write(ready[1], &byte, 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1) {
        (void)waitpid(pid, NULL, 0);
        pid = 0;
    }
    close(ready[0]);
    return pid;
}

static void drop_network(pid_t holder)
{
    if (holder == 0) return;
    (void)kill(holder, SIGKILL);
    (void)waitpid(holder, NULL, 0);
}

/* ip(8) in a namespace. */
static bool ip(pid_t holder, const char *arguments)
{
    char text[256];

    snprintf(text, sizeof text, "nsenter -t %ld -n ip %s >/dev/null 2>&1", (long)holder, arguments);
    return system(text) == 0;
}

/* Whether there are two namespaces that see each other now. */
static bool set_up(void)
{
    char join[96];

    here  = hold_network();
    there = hold_network();
    if (here == 0 || there == 0) return false;
    snprintf(join, sizeof join, "link add cut type veth peer name cut netns %ld", (long)there);
    return ip(here, join) && ip(here, "link set lo up") && ip(there, "link set lo up") &&
           ip(here, "addr add 10.231.7.1/24 dev cut") && ip(there, "addr add 10.231.7.2/24 dev cut") &&
           ip(here, "link set cut up") && ip(there, "link set cut up");
}

static void cut(bool is_cut)
{
    assert_true(ip(there, is_cut ? "link set cut down" : "link set cut up"));
}

/* The worker is there, all others are here. Ports are those that cluster_make found. */
static cluster make(const char *silence, const char *timeout)
{
    cluster c = cluster_make(1, 1, 1, 0);

    for (int i = 0; i < c.n; i++) {
        cluster_task *task = &c.tasks[i];
        bool          far  = strcmp(task->type, "worker") == 0;
        int           port = (int)strtol(strchr(task->address, ':') + 1, NULL, 10);

        snprintf(task->network, sizeof task->network, "/proc/%ld/ns/net", (long)(far ? there : here));
        snprintf(task->address, sizeof task->address, "10.231.7.%d:%d", far ? 2 : 1, port);
    }
    CLUSTER_SET(&c, "steps=600", silence, timeout, "save=10", "pause_us=8000");
    return c;
}

/* Nobody is lost: what was sent meanwhile comes later. */
TEST(heals)
{
    cluster c = make("silence=20", "timeout=60");

    cluster_start_all(&c);
    cluster_wait_step(&c, 50, 20);
    cut(true);
    cluster_wait_step(&c, cluster_saved_step(&c) + 60, 20); /* of the chief alone */
    cut(false);
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_count_log(cluster_find(&c, "ps", 0), "worker:0 is gone: nothing came"), 0);
    assert_int_equal(cluster_count_log(cluster_find(&c, "worker", 0), "Making a new session"), 0);
    assert_int_equal(cluster_saved_step(&c), 600);
    (void)cluster_check_ledgers(&c);
    cluster_free(&c);
}

/* It heals when the worker was given up already: it finds its way back. */
TEST(heals_late)
{
    cluster c = make("silence=1", "timeout=60");

    cluster_start_all(&c);
    cluster_wait_step(&c, 50, 20);
    cut(true);
    cluster_wait_log(&c, cluster_find(&c, "ps", 0), "worker:0 is gone: nothing came from worker:0 for 1 s", 20);
    cluster_wait_log(&c, cluster_find(&c, "worker", 0), "nothing came from ps:0 for 1 s", 20);
    cut(false);
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_saved_step(&c), 600);
    (void)cluster_check_ledgers(&c);
    cluster_free(&c);
}

/* It does not: the others finish without the worker, which gives up within its bound. */
TEST(stays)
{
    cluster       c      = make("silence=1", "timeout=2");
    cluster_task *worker = cluster_find(&c, "worker", 0);

    CLUSTER_SET(&c, "steps=900"); /* enough that the job is not over before */
    cluster_start_all(&c);
    cluster_wait_step(&c, 50, 20);
    cut(true);
    cluster_wait_code(&c, worker, 1, 30);
    assert_true(cluster_count_log(worker, "worker:0 has waited ") > 0);
    assert_int_equal(cluster_count_log(worker, "DEADLINE_EXCEEDED: waited "), 1);
    assert_true(cluster_count_log(worker, " s for ps:0 (it is not there)") > 0);
    worker->status = 0; /* as it was meant to */
    cluster_wait_all(&c, 60);
    cut(false);
    assert_int_equal(cluster_saved_step(&c), 900);
    (void)cluster_check_ledgers(&c);
    cluster_free(&c);
}

int main(int argc, char **argv)
{
    int failed;

    cluster_task_main(argc, argv, cluster_job_task);
    if (!set_up()) {
        drop_network(here);
        drop_network(there);
        printf("SKIPPED: no network namespaces with virtual interfaces here; they need root, nsenter and iproute2\n");
        return SKIPPED;
    }
    failed = est_test_run(NULL, NULL);
    drop_network(here);
    drop_network(there);
    return failed;
}
