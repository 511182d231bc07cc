/* SPDX-License-Identifier: Apache-2.0
 *
 * An evaluator that does not see the directory of the chief: it says where it looks and where the job is, again and
 * again, and ends with the job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "estoc/estoc.h"
#include "support/cluster_job.h"
#include "support/cluster_test.h"
#include "support/estimator_test.h"

/* The evaluator is on another machine: its directory has the same name, relative to where it was started. */
static int run_task(int argc, char **argv)
{
    char elsewhere[512];

    snprintf(elsewhere, sizeof elsewhere, "%.400s-elsewhere", argv[0]);
    if (strstr(getenv("TF_CONFIG"), "\"type\": \"evaluator\"") == NULL) return cluster_job_task(argc, argv);
    if (mkdir(elsewhere, 0700) != 0 || chdir(elsewhere) != 0) return 126;
    snprintf(elsewhere, sizeof elsewhere, "model");
    argv[0] = elsewhere;
    return cluster_job_task(argc, argv);
}

TEST(other_directory)
{
    cluster       c         = cluster_make(1, 0, 1, 1);
    cluster_task *evaluator = cluster_find(&c, "evaluator", 0);
    int64_t       until     = est_now_ns() + 60 * EST_NS_PER_SEC;
    char          where[512];

    CLUSTER_SET(&c, "pause_us=2000");
    CLUSTER_SET(&c, "timeout=8"); /* a quarter of it is when it is said again */
    CLUSTER_SET(&c, "silence=0.5");
    snprintf(where, sizeof where, "s there is none in %.100s-elsewhere/model; ps:0 has model_dir %.100s (all", c.model,
             c.model);
    cluster_start_all(&c);
    cluster_wait_log(&c, evaluator, "since 0 s there is none in ", 20);
    while (cluster_count_log(evaluator, where) < 3) {
        if (est_now_ns() > until) fail_msg("it has not been said three times within 60 s: \"%s\"", where);
        est_sleep_ns(10000000);
    }
    assert_false(cluster_look(evaluator)); /* the others are there */

    for (int i = 0; i < 2; i++) cluster_signal(&c.tasks[i], 15);
    for (int i = 0; i < 2; i++) cluster_wait_code(&c, &c.tasks[i], 75, 30);
    cluster_wait_code(&c, evaluator, 1, 30);
    snprintf(where, sizeof where,
             "the job has ended, and there is no checkpoint in %.100s-elsewhere/model; ps:0 has model_dir %.100s; set ",
             c.model, c.model);
    cluster_wait_log(&c, evaluator, where, 1);
    cluster_free(&c);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, run_task);
    return est_test_run_apart(NULL, NULL);
}
