/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters as they were before there were chiefs: a "master" trains with workers and parameter servers, evaluates and
 * exports what it has saved, and has no evaluator beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "estoc/estoc.h"
#include "support/cluster_test.h"
#include "support/estimator_test.h"

static est_status count_exports(est_exporter *exporter, est_estimator *estimator, const char *path,
                                const char *checkpoint, const est_metrics *metrics, bool is_final, char *out)
{
    (void)exporter;
    (void)estimator;
    (void)path;
    (void)checkpoint;
    out[0] = '\0';
    printf("%s at %lld\n", is_final ? "last export" : "export", (long long)est_metrics_global_step(metrics));
    return EST_OK;
}

/* A task: argv is the model directory and max_steps. */
static int run_task(int argc, char **argv)
{
    est_exporter   exporter  = EST_EXPORTER(.name = "counter", .export_model = count_exports);
    est_estimator *estimator = NULL;
    est_metrics   *metrics   = NULL;
    est_status     status;

    (void)argc;
    setvbuf(stdout, NULL, _IOLBF, 0);
    status = est_estimator_create(
        est_test_model,
        EST_ESTIMATOR(.model_dir = argv[0],
                      .config    = EST_RUN_CONFIG(.save_checkpoints_steps = 50, .seed = 11, .save_summary_steps = 20,
                                                  .log_step_count_steps = 20, .max_worker_delay_secs = EST_OFF)),
        &estimator);
    if (status == EST_OK) {
        status = est_train_and_evaluate(
            estimator, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = strtol(argv[1], NULL, 10)),
            EST_EVAL_SPEC(.input_fn = est_test_input, .start_delay_secs = EST_OFF, .throttle_secs = EST_OFF,
                          .exporters = EST_EXPORTERS(&exporter)),
            &metrics);
    }
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    if (metrics != NULL) printf("metrics of step %lld\n", (long long)est_metrics_global_step(metrics));
    est_metrics_free(metrics);
    est_estimator_free(estimator);
    return status == EST_OK ? 0 : 1;
}

static cluster make_old_cluster(int workers, int evaluator)
{
    cluster       c      = cluster_make(1, workers, 1, evaluator);
    cluster_task *master = cluster_find(&c, "chief", 0);

    snprintf(master->type, sizeof master->type, "master");
    CLUSTER_SET(&c, "300");
    return c;
}

static void check_master(cluster *c)
{
    cluster_task *master = cluster_find(c, "master", 0);

    cluster_wait_all(c, 60);
    assert_int_equal(cluster_saved_step(c), 300);
    assert_true(cluster_count_log(master, "export at ") > 0);
    assert_int_equal(cluster_count_log(master, "last export at 300\n"), 1);
    assert_int_equal(cluster_count_log(master, "metrics of step 300\n"), 1);
}

/* It evaluates after checkpoints and once more at the end; the worker, which would be in its way, writes the
 * summaries. */
TEST(with_worker)
{
    cluster       c      = make_old_cluster(1, 0);
    cluster_task *worker = cluster_find(&c, "worker", 0);

    cluster_start_all(&c);
    check_master(&c);
    assert_int_equal(cluster_count_log(worker, "metrics of step"), 0);
    assert_true(cluster_count_log(worker, "global_step/sec") > 0);
    assert_int_equal(cluster_count_log(cluster_find(&c, "master", 0), "global_step/sec"), 0);

    /* All steps are made: who is started again finds that, and the rest is there. */
    for (int i = 0; i < c.n; i++) cluster_start(&c, &c.tasks[i]);
    cluster_wait_all(&c, 60);
    cluster_free(&c);
}

TEST(with_ps_only)
{
    cluster c = make_old_cluster(0, 0);

    cluster_start_all(&c);
    check_master(&c);
    assert_true(cluster_count_log(cluster_find(&c, "master", 0), "global_step/sec") > 0);
    cluster_free(&c);
}

/* The master does its work already, so it is refused, as by the original; the others do without it. */
TEST(evaluator)
{
    cluster c = make_old_cluster(1, 1);

    cluster_start_all(&c);
    cluster_wait_code(&c, cluster_find(&c, "evaluator", 0), 1, 60);
    cluster_wait_log(&c, cluster_find(&c, "evaluator", 0), "a cluster with a \"master\" has no evaluator", 1);
    for (int i = 0; i < c.n; i++) {
        if (strcmp(c.tasks[i].type, "evaluator") != 0) cluster_wait_code(&c, &c.tasks[i], 0, 60);
    }
    cluster_free(&c);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, run_task);
    return est_test_run(NULL, NULL);
}
