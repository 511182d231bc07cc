/* SPDX-License-Identifier: Apache-2.0
 *
 * A second chief beside the first. From another address: the one that was started later has the place, the other ends,
 * and both and the parameter servers say who the other is. With another model_dir: it is refused, and the first goes
 * on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/cluster_job.h"
#include "support/estimator_test.h"

static void describe(const cluster *c, const cluster_task *task, char *out, size_t size)
{
    char host[256] = "";

    (void)gethostname(host, sizeof host - 1);
    snprintf(out, size, "pid %d on %s (%s), model_dir %s", (int)task->pid, host, task->address, c->model);
}

static void start_first(cluster *c)
{
    CLUSTER_SET(c, "steps=1500", "pause_us=2000", "save=100");
    for (int i = 0; i < c->n - 1; i++) cluster_start(c, &c->tasks[i]);
    cluster_wait_step(c, 100, 30);
}

/* The job goes on with the second. */
TEST(other_address)
{
    cluster       c   = cluster_make(1, 1, 1, 0);
    cluster_task *old = cluster_find(&c, "chief", 0), *new = cluster_add_twin(&c, "chief", 0),
                 *ps = cluster_find(&c, "ps", 0);
    char first[512], second[512], text[1200];

    start_first(&c);
    describe(&c, old, first, sizeof first);
    snprintf(text, sizeof text, "%s/trainer.lock", c.model);
    assert_int_equal(unlink(text), 0); /* as on file systems without locks */
    cluster_start(&c, new);
    describe(&c, new, second, sizeof second);

    snprintf(text, sizeof text, "ps:0: chief:0 was restarted, %s, and replaces a process that is still connected, %s\n",
             second, first);
    cluster_wait_log(&c, ps, text, 30);
    cluster_wait_code(&c, old, 1, 30);
    snprintf(text, sizeof text, "a newer process has replaced chief:0: %s\n", second);
    cluster_wait_log(&c, old, text, 1);
    old->status = 0; /* as it was meant to */
    snprintf(text, sizeof text, "chief:0 has replaced another process at ps:0 that was still connected: %s\n", first);
    cluster_wait_log(&c, new, text, 30);
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_saved_step(&c), 1500);
    (void)cluster_check_ledgers(&c);
    cluster_free(&c);
}

/* Parameter servers save in the directory of the job only, so the second could not go on. */
TEST(other_directory)
{
    cluster       c  = cluster_make(1, 1, 1, 0);
    cluster_task *ps = cluster_find(&c, "ps", 0), *new = cluster_add_twin(&c, "chief", 0);
    char          model[80], second[512], text[1200];

    start_first(&c);
    memcpy(model, c.model, sizeof model);
    snprintf(c.model, sizeof c.model, "%.60s/other", c.dir);
    cluster_start(&c, new);
    describe(&c, new, second, sizeof second);
    cluster_wait_code(&c, new, 1, 30);
    new->status = 0; /* as it was meant to */
    snprintf(text, sizeof text, "chief:0 has model_dir %s, but ps:0 keeps checkpoints in %s: give all tasks of one job",
             c.model, model);
    cluster_wait_log(&c, new, text, 1);
    snprintf(text, sizeof text, "ps:0: refused %s: chief:0 has model_dir %s", second, c.model);
    cluster_wait_log(&c, ps, text, 1);
    memcpy(c.model, model, sizeof model);
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_saved_step(&c), 1500);
    assert_int_equal(cluster_count_log(ps, "was restarted"), 0);
    (void)cluster_check_ledgers(&c);
    cluster_free(&c);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, cluster_job_task);
    return est_test_run(NULL, NULL);
}
