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

static double train_alone(const char *device, cluster *c)
{
    *c = cluster_make(1, 0, 2, 0);
    CLUSTER_SET(c, "steps=40", device);
    cluster_start_all(c);
    cluster_wait_all(c, 60);
    return cluster_job_loss(c, NULL, false, NULL);
}

/* A worker with a device pulls variables into its memory and pushes gradients from there; the tasks that have them
 * compute on the CPU. The kernels of a far device are the CPU's, and so are the bits. */
TEST(device_of_a_worker)
{
    cluster             plain, far;
    double              want = train_alone("device=0", &plain), got = train_alone("device=1", &far);
    const cluster_task *chief = cluster_find(&far, "chief", 0);

    assert_true(want == got);
    assert_true(cluster_count_log(chief, "(MatMul): /job:localhost/replica:0/task:0/device:GPU:0") > 0);
    assert_true(cluster_count_log(chief, "(ResourceApplyAdam): /job:ps/replica:0/task:1/device:CPU:0") > 0);
    assert_true(cluster_count_log(chief, "/device:GPU:0: phase 1 of a step") > 0);
    for (int i = 0; i < 2; i++) assert_int_equal(cluster_count_log(cluster_find(&far, "ps", i), "GPU:0"), 0);
    cluster_free(&plain);
    cluster_free(&far);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, cluster_job_task);
    return est_test_run(NULL, NULL);
}
