/* SPDX-License-Identifier: Apache-2.0
 *
 * Multi-worker training, as processes: what workers send each other when they join, and what their users read. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "support/estimator_test.h"
#include "support/multi_worker_test.h"

#define FAILED 1 /* exit code */

/* --- options ------------------------------------------------------------------------------------------------------ */

/* A word that one worker has, and others do not. */
typedef struct difference {
    const char *right, *wrong, *text;
} difference;

static const difference differences[] = {
    { "steps=60", "steps=30", "max_steps is 60 at worker:0 and 30 at worker:1: all workers need the same" },
    { "mirrored=1", "mirrored=2", "replicas is 1 at worker:0 and 2 at worker:1" },
    { "ring=0", "ring=1", "communication is auto at worker:0 and ring at worker:1" },
    { "pack=0", "pack=1024", "bytes_per_pack is 4194304 at worker:0 and 1024 at worker:1" },
    { "elastic=0", "elastic=1", "elastic is no at worker:0 and yes at worker:1" },
    { "multi_worker=0", "multi_worker=1", "eval_distribute is none at worker:0 and multi_worker_mirrored at worker:1" },
};

/* The one that differs fails, whichever it is that runs; the other waits, until it is started as it should be. */
static void test_options(void **state)
{
    const difference *d = *state;
    cluster           c = multi_worker_make(2, "steps=60", NULL);

    cluster_start(&c, multi_worker_worker(&c, 0));
    CLUSTER_SET(&c, d->wrong);
    cluster_start(&c, multi_worker_worker(&c, 1));
    cluster_wait_code(&c, multi_worker_worker(&c, 1), FAILED, 30);
    assert_int_equal(cluster_count_log(multi_worker_worker(&c, 1), d->text), 1);
    CLUSTER_SET(&c, d->right);
    cluster_start(&c, multi_worker_worker(&c, 1));
    cluster_wait_all(&c, 60);
    multi_worker_end(&c, 60);
}

/* How long a worker is waited for is each one's own matter, and what is the same may be written in two ways. */
TEST(may_differ)
{
    cluster c = multi_worker_make(2, "steps=60", NULL);

    cluster_start(&c, multi_worker_worker(&c, 0));
    CLUSTER_SET(&c, "return=50", "pack=4194304");
    cluster_start(&c, multi_worker_worker(&c, 1));
    cluster_wait_all(&c, 60);
    multi_worker_end(&c, 60);
}

/* --- reasons ------------------------------------------------------------------------------------------------------ */

/* The others read why a worker has failed, and while they wait for it, too. */
TEST(why_it_failed)
{
    cluster c = multi_worker_make(2, "steps=60", NULL);

    CLUSTER_SET(&c, "return=20"); /* the log is told of a wait after a quarter; the rest is for the worker to return */
    CLUSTER_SET(&c, "lacks=2");
    cluster_start_all(&c);
    cluster_wait_code(&c, multi_worker_worker(&c, 1), FAILED, 30);
    cluster_wait_log(&c, multi_worker_worker(&c, 0), "to join (train); worker:1: it ended: NOT_FOUND: ", 30);
    assert_true(cluster_count_log(multi_worker_worker(&c, 0), "no file matches train-*; gives up after 20 s") > 0);
    CLUSTER_SET(&c, "lacks=0");
    cluster_start(&c, multi_worker_worker(&c, 1));
    cluster_wait_all(&c, 60);
    multi_worker_end(&c, 60);
}

/* --- what a run that nobody disturbs says ------------------------------------------------------------------------- */

/* Between training and evaluation workers leave and come again, as planned: nobody is missed, and nothing is said
 * twice. */
TEST(calm)
{
    cluster c = multi_worker_calm(2, "steps=60", "multi_worker=1");

    for (int i = 0; i < 2; i++) {
        const cluster_task *worker = multi_worker_worker(&c, i);

        /* a connection may come when the other's process is about to end */
        assert_int_equal(cluster_count_log(worker, " is gone: "), cluster_count_log(worker, " closes its network"));
        assert_int_equal(cluster_count_log(worker, "was restarted"), 0);
        assert_int_equal(cluster_count_log(worker, " warn "), 0);
        assert_int_equal(cluster_count_log(worker, "TF_CONFIG environment variable"), 1);
        assert_int_equal(cluster_count_log(worker, "generation 1, rank"), 2);
        assert_int_equal(cluster_count_log(worker, ": evaluate: generation 1, rank"), 1);
        assert_int_equal(cluster_count_log(worker, "step 0 of worker:0"), 1);
    }
    multi_worker_end(&c, 60);
}

/* A worker that waits for another makes no step, which is no reason for the job to be over, nor has the signal a step
 * to wait for. */
TEST(lost_before_first_step)
{
    cluster             c     = multi_worker_make(2, "steps=60", NULL);
    const cluster_task *other = multi_worker_worker(&c, 0);

    CLUSTER_SET(&c, "return=1", "die=2", "die_task=1", "die_step=0");
    cluster_start_all(&c);
    cluster_wait(&c, multi_worker_worker(&c, 1), 30);
    cluster_wait_code(&c, multi_worker_worker(&c, 0), FAILED, 30);
    assert_int_equal(cluster_count_log(other, "the job is over"), 0);
    assert_true(cluster_count_log(other, "did not rejoin within 1 s") > 0);
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    multi_worker_end(&c, 60);
}

#define N_DIFFERENCES (sizeof differences / sizeof differences[0])

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, cluster_job_task);
    for (size_t i = 0; i < N_DIFFERENCES; i++) est_test_row(differences[i].wrong, test_options, &differences[i]);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return est_test_run(NULL, NULL);
}
