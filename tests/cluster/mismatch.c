/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks that were told of different clusters, or run different programs: whoever differs from a parameter server, or
 * from the chief, ends with an error that says in what. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cluster_job.h"
#include "support/estimator_test.h"

/* "old>new" after the words of the job: the worker has its TF_CONFIG with another text in place of `old`. ">word": it
 * has another word of the job. */
static int run_task(int argc, char **argv)
{
    const char *config = getenv("TF_CONFIG"), *change = argv[argc - 1], *to = strchr(change, '>'), *at;
    char        changed[4096], from[512];

    if (to == change) {
        if (strstr(config, "\"type\": \"worker\"") == NULL) return cluster_job_task(argc - 1, argv);
        argv[argc - 1] = argv[argc - 1] + 1;
        return cluster_job_task(argc, argv);
    }
    if (strstr(config, "\"type\": \"worker\"") != NULL) {
        snprintf(from, sizeof from, "%.*s", (int)(to - change), change);
        at = strstr(config, from);
        if (at == NULL) return 126;
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - config), config, to + 1, at + strlen(from));
        setenv("TF_CONFIG", changed, 1);
    }
    return cluster_job_task(argc - 1, argv);
}

/* Starts everybody, the worker with a change; it ends with the error, and the others go on without it. */
static void run_changed(cluster *c, const char *change, const char *error)
{
    cluster_task *worker = cluster_find(c, "worker", 0);

    CLUSTER_SET(c, "steps=100", change);
    cluster_start_all(c);
    cluster_wait_code(c, worker, 1, 30);
    cluster_wait_log(c, worker, error, 1);
    worker->status = 0; /* as it was meant to */
}

TEST(address)
{
    cluster     c       = cluster_make(1, 1, 2, 0);
    const char *address = cluster_find(&c, "ps", 1)->address;
    char        change[128], error[256];

    snprintf(change, sizeof change, "%s>10.1.1.1:99", address);
    snprintf(error, sizeof error,
             "worker:0 has ps:1 at 10.1.1.1:99, ps:0 has ps:1 at %s: all tasks need the same cluster in TF_CONFIG\n",
             address);
    run_changed(&c, change, error);
    cluster_wait_all(&c, 60);
    cluster_free(&c);
}

/* The same place by its name, of a task that is neither of the two that compare. */
TEST(name_of_host)
{
    cluster     c       = cluster_make(1, 1, 2, 0);
    const char *address = cluster_find(&c, "ps", 1)->address;
    char        change[128];

    assert_memory_equal(address, "127.0.0.1:", 10);
    snprintf(change, sizeof change, "%s>localhost%s", address, strchr(address, ':'));
    CLUSTER_SET(&c, "steps=100", change);
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    cluster_free(&c);
}

TEST(more_workers)
{
    cluster     c       = cluster_make(1, 1, 1, 0);
    const char *address = cluster_find(&c, "worker", 0)->address;
    char        change[128], error[256];

    snprintf(change, sizeof change, "%s\">%s\", \"b:1\"", address, address);
    snprintf(error, sizeof error, "worker:0 has worker:1 at b:1, ps:0 has no worker:1: all tasks need");
    run_changed(&c, change, error);
    cluster_wait_all(&c, 60);
    cluster_free(&c);
}

/* It may have been moved: nobody looks for it where it was. */
TEST(own_address)
{
    cluster c         = cluster_make(1, 1, 1, 0);
    cluster_task *new = cluster_add_twin(&c, "worker", 0);

    CLUSTER_SET(&c, "steps=100", "\"cluster\">\"cluster\"");
    for (int i = 0; i < c.n; i++) {
        if (&c.tasks[i] == new || strcmp(c.tasks[i].type, "worker") != 0) cluster_start(&c, &c.tasks[i]);
    }
    cluster_wait_all(&c, 60);
    cluster_free(&c);
}

/* Workers with parameter servers never talk to each other: that one runs another program is found by what it tells the
 * servers. */
TEST(other_program)
{
    static const struct {
        const char *sync, *change, *error;
    } others[] = {
        { "sync=0", ">rate=0.5",
          "learning_rate is 0.5 (SGD) at worker:0 and 0.02 (Adam) at chief:0: all workers need" },
        { "sync=1", ">rate=0.5",
          "learning_rate is 0.5 (SGD) at worker:0 and 0.02 (Adam) at chief:0: all workers need" },
        { "sync=0", ">steps=50", "max_steps is 50 at worker:0 and 1000000 at chief:0: all workers need the same\n" },
    };

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        cluster       c      = cluster_make(1, 1, 1, 0);
        cluster_task *worker = cluster_find(&c, "worker", 0);

        CLUSTER_SET(&c, "steps=1000000", "pause_us=1000", others[i].sync, others[i].change);
        cluster_start_all(&c);
        cluster_wait_code(&c, worker, 1, 30);
        cluster_wait_log(&c, worker, others[i].error, 1);
        cluster_wait_step(&c, cluster_saved_step(&c) + 50, 30); /* the others go on */
        cluster_free(&c);
    }
}

/* The program of the chief counts: after it is restarted with another one, workers that still run the old one are
 * refused. */
TEST(other_chief)
{
    cluster       c      = cluster_make(1, 1, 1, 0);
    cluster_task *worker = cluster_find(&c, "worker", 0), *chief = cluster_find(&c, "chief", 0);

    CLUSTER_SET(&c, "steps=1000000", "pause_us=1000", "log=10", "\"cluster\">\"cluster\"");
    cluster_start_all(&c);
    cluster_wait_log(&c, worker, "step = ", 30);
    cluster_signal(chief, SIGKILL);
    cluster_wait(&c, chief, 10);
    CLUSTER_SET(&c, "steps=2000000");
    cluster_start(&c, chief);
    cluster_wait_code(&c, worker, 1, 30);
    cluster_wait_log(&c, worker, "max_steps is 1000000 at worker:0 and 2000000 at chief:0: all workers need the same\n",
                     1);
    cluster_start(&c, worker);
    cluster_wait_log(&c, cluster_find(&c, "ps", 0), "worker:0 was restarted", 30);
    cluster_free(&c);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, run_task);
    return est_test_run(NULL, NULL);
}
