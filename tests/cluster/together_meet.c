/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that train together, as processes: what they tell each other when they meet, and what their users read. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "support/estimator_test.h"
#include "support/together_test.h"

#define FAILED 1 /* exit code */

/* --- options ------------------------------------------------------------------------------------------------------------ */

/* A word that one worker has, and others do not. */
typedef struct difference {
    int         place; /* in the words */
    const char *word, *text;
} difference;

static const difference differences[] = {
    { 0, "steps=30", "max_steps is 60 at worker:0 and 30 at worker:1: all workers need the same" },
    { 1, "mirrored=2", "replicas is 1 at worker:0 and 2 at worker:1" },
    { TOGETHER_ARGS, "ring=1", "communication is auto at worker:0 and ring at worker:1" },
    { TOGETHER_ARGS, "pack=1024", "bytes_per_pack is 4194304 at worker:0 and 1024 at worker:1" },
    { TOGETHER_ARGS, "go_on=1", "go_on is no at worker:0 and yes at worker:1" },
    { TOGETHER_ARGS, "together=1", "eval_distribute is none at worker:0 and multi_worker_mirrored at worker:1" },
};

/* The one that differs fails, whichever it is that runs; the other waits, until it is started as it should be. */
static void test_options(void **state)
{
    const difference *d     = *state;
    cluster           c     = together_make(2, "steps=60", NULL);
    const char       *right = c.args[d->place];

    cluster_start(&c, together_worker(&c, 0));
    c.args[d->place] = d->word;
    cluster_start(&c, together_worker(&c, 1));
    cluster_wait_code(&c, together_worker(&c, 1), FAILED, 30);
    assert_int_equal(cluster_count_log(together_worker(&c, 1), d->text), 1);
    c.args[d->place] = right;
    cluster_start(&c, together_worker(&c, 1));
    cluster_wait_all(&c, 60);
    together_end(&c, 60);
}

/* How long a worker is waited for is each one's own matter, and what is the same may be written in two ways. */
TEST(may_differ)
{
    cluster c = together_make(2, "steps=60", NULL);

    cluster_start(&c, together_worker(&c, 0));
    c.args[TOGETHER_RETURN] = "return=50";
    c.args[TOGETHER_ARGS]   = "pack=4194304";
    cluster_start(&c, together_worker(&c, 1));
    cluster_wait_all(&c, 60);
    together_end(&c, 60);
}

/* --- reasons ------------------------------------------------------------------------------------------------------------- */

/* The others read why a worker has failed, and while they wait for it, too. */
TEST(why_it_failed)
{
    cluster c = together_make(2, "steps=60", NULL);

    c.args[TOGETHER_RETURN] = "return=8"; /* the log is told of a wait after a quarter */
    c.args[TOGETHER_ARGS]   = "lacks=2";
    cluster_start_all(&c);
    cluster_wait_code(&c, together_worker(&c, 1), FAILED, 30);
    cluster_wait_log(&c, together_worker(&c, 0), "to train together; worker:1: it ended: NOT_FOUND: ", 30);
    assert_true(cluster_count_log(together_worker(&c, 0), "no file matches train-*; gives up after 8 s") > 0);
    assert_true(cluster_count_log(together_worker(&c, 0), "rank 1 (worker:1) aborted: it ended: NOT_FOUND") > 0);
    c.args[TOGETHER_ARGS] = NULL;
    cluster_start(&c, together_worker(&c, 1));
    cluster_wait_all(&c, 60);
    together_end(&c, 60);
}

/* --- what a run that nobody disturbs says --------------------------------------------------------------------------------- */

/* Between training and evaluation workers leave and come again, as planned: nobody is missed, and nothing is said twice. */
TEST(calm)
{
    cluster c = together_calm(2, "steps=60", "together=1");

    for (int i = 0; i < 2; i++) {
        const cluster_task *worker = together_worker(&c, i);

        /* a connection may come when the other's process is about to end */
        assert_int_equal(cluster_count_log(worker, " is gone: "), cluster_count_log(worker, " ends its network"));
        assert_int_equal(cluster_count_log(worker, "was started anew"), 0);
        assert_int_equal(cluster_count_log(worker, " warn "), 0);
        assert_int_equal(cluster_count_log(worker, "TF_CONFIG environment variable"), 1);
        assert_int_equal(cluster_count_log(worker, "generation 1, rank"), 2);
        assert_int_equal(cluster_count_log(worker, "to evaluate together: generation 1, rank"), 1);
        assert_int_equal(cluster_count_log(worker, "step 0 of worker:0"), 1);
    }
    together_end(&c, 60);
}

/* A worker that waits for another makes no step, which is no reason for the job to be over, nor has the signal a step to wait for. */
TEST(lost_before_first_step)
{
    cluster             c     = together_make(2, "steps=60", NULL);
    const cluster_task *other = together_worker(&c, 0);

    c.args[TOGETHER_RETURN]   = "return=1";
    c.args[TOGETHER_ARGS]     = "die=2";
    c.args[TOGETHER_ARGS + 1] = "die_task=1";
    c.args[TOGETHER_ARGS + 2] = "die_step=0";
    cluster_start_all(&c);
    cluster_wait(&c, together_worker(&c, 1), 30);
    cluster_wait_code(&c, together_worker(&c, 0), FAILED, 30);
    assert_int_equal(cluster_count_log(other, "the job is over"), 0);
    assert_true(cluster_count_log(other, "did not come back within 1 s") > 0);
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    together_end(&c, 60);
}

#define N_DIFFERENCES (sizeof differences / sizeof differences[0])

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, cluster_job_task);
    for (size_t i = 0; i < N_DIFFERENCES; i++) est_test_row(differences[i].word, test_options, &differences[i]);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return est_test_run(NULL, NULL);
}
