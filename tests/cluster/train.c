/* SPDX-License-Identifier: Apache-2.0
 *
 * train_and_evaluate in a cluster of real processes: parameter servers, chief, workers and evaluator from TF_CONFIG.
 * All exit with 0, the global step is exactly max_steps, and what one process would have learned is learned. */
#include "net/transport.h"
#include "support/cluster_job.h"
#include "support/estimator_test.h"

static void run_job(int workers, int ps, int evaluator, const char *transport)
{
    cluster c = cluster_make(1, workers, ps, evaluator);

    c.transport = transport;
    CLUSTER_SET(&c, "steps=300");
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_saved_step(&c), 300);
    cluster_free(&c);
}

TEST(one_ps)
{
    run_job(0, 1, 0, "tcp");
}

TEST(everybody)
{
    run_job(2, 2, 1, "tcp");
}

TEST(encrypted)
{
    run_job(1, 2, 0, "tls");
}

TEST(ucx)
{
    if (est_transport_ucx.check() != EST_OK) {
        print_message("left out: %s\n", est_error_message());
        skip();
    }
    run_job(1, 2, 0, "ucx");
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, cluster_job_task);
    return est_test_run(NULL, NULL);
}
