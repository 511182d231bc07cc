/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks that were told of different clusters: whoever differs from a parameter server ends with an error that says in what. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cluster_job.h"
#include "support/estimator_test.h"

/* "old>new" after the words of the job: the worker has its TF_CONFIG with another text in place of `old`. */
static int run_task(int argc, char **argv)
{
    const char *config = getenv("TF_CONFIG"), *change = argv[argc - 1], *to = strchr(change, '>'), *at;
    char        changed[4096], from[512];

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

    c->args[0] = "steps=100";
    c->args[1] = change;
    cluster_start_all(c);
    cluster_wait_code(c, worker, 1, 30);
    cluster_wait_log(c, worker, error, 1);
    worker->status = 0; /* as it was meant to */
}

static void test_address(void **state)
{
    cluster     c       = cluster_make(1, 1, 2, 0);
    const char *address = cluster_find(&c, "ps", 1)->address;
    char        change[128], error[256];

    (void)state;
    snprintf(change, sizeof change, "%s>10.1.1.1:99", address);
    snprintf(error, sizeof error,
             "worker:0 has ps:1 at 10.1.1.1:99, ps:0 has ps:1 at %s: all tasks need the same cluster in TF_CONFIG\n",
             address);
    run_changed(&c, change, error);
    cluster_wait_all(&c, 60);
    cluster_free(&c);
}

/* The same place by its name, of a task that is neither of the two that compare. */
static void test_name_of_host(void **state)
{
    cluster     c       = cluster_make(1, 1, 2, 0);
    const char *address = cluster_find(&c, "ps", 1)->address;
    char        change[128];

    (void)state;
    assert_memory_equal(address, "127.0.0.1:", 10);
    snprintf(change, sizeof change, "%s>localhost%s", address, strchr(address, ':'));
    c.args[0] = "steps=100";
    c.args[1] = change;
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    cluster_free(&c);
}

static void test_more_workers(void **state)
{
    cluster     c       = cluster_make(1, 1, 1, 0);
    const char *address = cluster_find(&c, "worker", 0)->address;
    char        change[128], error[256];

    (void)state;
    snprintf(change, sizeof change, "%s\">%s\", \"b:1\"", address, address);
    snprintf(error, sizeof error, "worker:0 has worker:1 at b:1, ps:0 has no worker:1: all tasks need");
    run_changed(&c, change, error);
    cluster_wait_all(&c, 60);
    cluster_free(&c);
}

/* It may have been moved: nobody looks for it where it was. */
static void test_own_address(void **state)
{
    cluster c         = cluster_make(1, 1, 1, 0);
    cluster_task *new = cluster_add_twin(&c, "worker", 0);

    (void)state;
    c.args[0] = "steps=100";
    c.args[1] = "\"cluster\">\"cluster\"";
    for (int i = 0; i < c.n; i++) {
        if (&c.tasks[i] == new || strcmp(c.tasks[i].type, "worker") != 0) cluster_start(&c, &c.tasks[i]);
    }
    cluster_wait_all(&c, 60);
    cluster_free(&c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_address), cmocka_unit_test(test_name_of_host),
                                        cmocka_unit_test(test_more_workers), cmocka_unit_test(test_own_address) };

    cluster_task_main(argc, argv, run_task);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
