/* SPDX-License-Identifier: Apache-2.0
 *
 * train_and_evaluate in a cluster of real processes: parameter servers, chief, workers and evaluator from TF_CONFIG. All exit
 * with 0, the global step is exactly max_steps, and what one process would have learned is learned. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estoc/estoc.h"
#include "net/transport.h"
#include "support/cluster_test.h"
#include "support/estimator_test.h"

/* A task: argv is the model directory and max_steps. */
static int run_task(int argc, char **argv)
{
    est_estimator *estimator = NULL;
    est_status     status;

    (void)argc;
    status = est_estimator_create(
        est_test_model,
        EST_ESTIMATOR(.model_dir = argv[0],
                      .config    = EST_RUN_CONFIG(.save_checkpoints_steps = 50, .seed = 11, .log_step_count_steps = 50,
                                                  .max_worker_delay_secs = EST_OFF)),
        &estimator);
    if (status == EST_OK) {
        status = est_train_and_evaluate(
            estimator, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = strtol(argv[1], NULL, 10)),
            EST_EVAL_SPEC(.input_fn = est_test_input, .start_delay_secs = EST_OFF, .throttle_secs = 1), NULL);
    }
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    est_estimator_free(estimator);
    return status == EST_OK ? 0 : 1;
}

static void run_job(int workers, int ps, int evaluator, const char *transport)
{
    cluster c = cluster_make(1, workers, ps, evaluator);

    c.transport = transport;
    c.args[0]   = "300";
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_saved_step(&c), 300);
    cluster_free(&c);
}

static void test_one_ps(void **state)
{
    (void)state;
    run_job(0, 1, 0, "tcp");
}

static void test_everybody(void **state)
{
    (void)state;
    run_job(2, 2, 1, "tcp");
}

static void test_encrypted(void **state)
{
    (void)state;
    run_job(1, 2, 0, "tls");
}

static void test_ucx(void **state)
{
    (void)state;
    if (est_transport_ucx.check() != EST_OK) {
        print_message("left out: %s\n", est_error_message());
        skip();
    }
    run_job(1, 2, 0, "ucx");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_one_ps), cmocka_unit_test(test_everybody),
                                        cmocka_unit_test(test_encrypted), cmocka_unit_test(test_ucx) };

    cluster_task_main(argc, argv, run_task);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
