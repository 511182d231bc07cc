/* SPDX-License-Identifier: Apache-2.0
 *
 * Multi-worker training, of which one does not come back: the others save and end with a message, or go on without
 * it, whichever they were told; also when it is the chief. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "support/estimator_test.h"
#include "support/multi_worker_test.h"

#define FAILED 1 /* exit code */

static cluster make(int workers, const char *steps, const char *elastic)
{
    cluster c = multi_worker_make(workers, steps, elastic);

    CLUSTER_SET(&c, "return=1.5");
    return c;
}

/* The step at which the others have ended and saved when one was lost after step `at`: they may lack what it had still
 * to send for that step. */
static long saved_after(const cluster *c, long at)
{
    long saved = cluster_saved_step(c);

    assert_in_range(saved, at - 1, at);
    return saved;
}

/* All that are left end with a message, one of them has saved, and all are started again with the lost one. */
static void check_ended(int workers, int victim, const char *elastic)
{
    cluster calm = multi_worker_calm(workers, "steps=100", NULL), c = make(workers, "steps=100", elastic);
    int     saved = 0;
    char    task[32], ends[96];

    snprintf(task, sizeof task, "die_task=%d", victim);
    CLUSTER_SET(&c, "die=2", task, "die_step=50");
    cluster_start_all(&c);
    cluster_wait(&c, multi_worker_worker(&c, victim), 30);
    for (int i = 0; i < workers; i++) {
        if (i != victim) cluster_wait_code(&c, multi_worker_worker(&c, i), FAILED, 30);
    }
    snprintf(ends, sizeof ends, "\nDEADLINE_EXCEEDED: training ends, and is saved, at step %ld", saved_after(&c, 50));
    for (int i = 0; i < workers; i++) {
        cluster_task *other = multi_worker_worker(&c, i);

        if (i == victim) continue;
        assert_true(cluster_count_log(other, "did not rejoin within 1.5 s") > 0);
        saved += cluster_count_log(other, ends);
    }
    assert_int_equal(saved, 1);
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    multi_worker_assert_same(&calm, &c);
    multi_worker_end(&calm, 100);
    multi_worker_end(&c, 100);
}

TEST(worker_lost)
{
    check_ended(2, 1, NULL);
    check_ended(3, 1, NULL);
}

TEST(chief_lost)
{
    check_ended(2, 0, NULL);
    check_ended(3, 0, NULL);
}

/* Each has a directory of its own. What the others have saved when the chief was lost is in one that the chief does not
 * see, and still counts when all are started again. */
static void check_apart(const char *save, const char *die, long at)
{
    cluster calm = multi_worker_calm(2, "steps=100", NULL), c = make(2, "steps=100", NULL);
    char    chiefs[sizeof c.model], others[sizeof c.model], step[32], ends[64], from[64];

    snprintf(step, sizeof step, "die_step=%ld", at);
    snprintf(chiefs, sizeof chiefs, "%s", c.model);
    snprintf(others, sizeof others, "%.70s-1", c.model);
    CLUSTER_SET(&c, save, die, "die_task=0", step);
    for (int i = 0; i < 2; i++) {
        snprintf(c.model, sizeof c.model, "%s", chiefs);
        cluster_start(&c, multi_worker_worker(&c, 0));
        snprintf(c.model, sizeof c.model, "%s", others);
        cluster_start(&c, multi_worker_worker(&c, 1));
        if (i == 1) break;
        cluster_wait(&c, multi_worker_worker(&c, 0), 30);
        cluster_wait_code(&c, multi_worker_worker(&c, 1), FAILED, 30);
        snprintf(ends, sizeof ends, "training ends, and is saved, at step %ld", saved_after(&c, at));
        snprintf(from, sizeof from, "rank 0 of 2, step %ld of worker:1", saved_after(&c, at));
        assert_int_equal(cluster_count_log(multi_worker_worker(&c, 1), ends), 1);
    }
    snprintf(c.model, sizeof c.model, "%s", chiefs);
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_count_log(multi_worker_worker(&c, 0), from), 1);
    multi_worker_assert_same(&calm, &c);
    multi_worker_end(&calm, 100);
    multi_worker_end(&c, 100);
}

TEST(apart)
{
    check_apart("save=40", "die=2", 50);
    check_apart("save=1000", "die=2", 50);  /* the chief has step 0 only */
    check_apart("save=1000", "die=4", 100); /* nothing is left to be done but to save */
}

/* One of two that is not the lower one might not be the only one to go on. */
TEST(not_enough)
{
    check_ended(2, 0, "elastic=1");
}

/* The rest goes on to the last step; the lowest of them saves it. */
static void check_gone_on(int workers, int victim)
{
    cluster c = make(workers, "steps=300", "elastic=1");
    char    task[32];

    snprintf(task, sizeof task, "die_task=%d", victim);
    CLUSTER_SET(&c, "die=3", task, "die_step=50");
    cluster_start_all(&c);
    cluster_wait(&c, multi_worker_worker(&c, victim), 30);
    assert_true(WIFSIGNALED(multi_worker_worker(&c, victim)->status));
    for (int i = 0; i < workers; i++) {
        if (i != victim) cluster_wait_code(&c, multi_worker_worker(&c, i), 0, 60);
    }
    assert_true(cluster_count_log(multi_worker_worker(&c, victim == 0 ? 1 : 0), "Saving checkpoints for 300") == 1);
    multi_worker_end(&c, 300);
}

TEST(worker_gone_on)
{
    check_gone_on(3, 2);
    check_gone_on(2, 1);
}

TEST(chief_gone_on)
{
    check_gone_on(3, 0);
}

/* Waits until a log has a text more often than it had. */
static void await_more(cluster *c, const cluster_task *task, const char *text, int before)
{
    int64_t until = est_now_ns() + 30 * EST_NS_PER_SEC;

    while (cluster_count_log(task, text) == before) {
        if (est_now_ns() > until) {
            cluster_dump(c);
            fail_msg("%s:%d did not say \"%s\" again", task->type, task->index, text);
        }
        est_sleep_ns(EST_NS_PER_SEC / 100);
    }
}

/* All end, and it is the chief that saves the last step. */
static void end_saved_by_chief(cluster *c)
{
    char line[64];
    long last;

    cluster_enough(c);
    cluster_wait_all(c, 60);
    last = cluster_saved_step(c);
    snprintf(line, sizeof line, "Saving checkpoints for %ld ", last);
    assert_int_equal(cluster_count_log(multi_worker_worker(c, 0), line), 1);
    multi_worker_end(c, last);
}

/* A chief that comes back gets the directory back, and a worker that comes back late has its place again. */
TEST(back_late)
{
    for (int victim = 0; victim < 2; victim++) {
        cluster       c     = make(3, "enough=200", "elastic=1");
        cluster_task *other = multi_worker_worker(&c, victim == 0 ? 1 : 0);
        int           whole;

        cluster_start_all(&c);
        cluster_wait_step(&c, 40, 30);
        multi_worker_kill(&c, multi_worker_worker(&c, victim));
        cluster_wait_log(&c, other, "of 2, step", 30);
        cluster_wait_step(&c, cluster_saved_step(&c) + 80, 30); /* whoever saves now */
        whole = cluster_count_log(other, "of 3, step");
        cluster_start(&c, multi_worker_worker(&c, victim));
        await_more(&c, other, "of 3, step", whole);
        end_saved_by_chief(&c);
    }
}

/* A chief that stands still has the directory all the time: nobody saves until it goes on. */
TEST(chief_paused)
{
    cluster c = make(3, "enough=200", "elastic=1");
    long    saved;

    CLUSTER_SET(&c, "silence=1");
    cluster_start_all(&c);
    cluster_wait_step(&c, 40, 30);
    cluster_signal(multi_worker_worker(&c, 0), SIGSTOP);
    cluster_wait_log(&c, multi_worker_worker(&c, 1), "rank 0 of 2", 30);
    saved = cluster_saved_step(&c);
    cluster_wait_log(&c, multi_worker_worker(&c, 1), "cannot save", 30);
    assert_int_equal(cluster_saved_step(&c), saved);
    cluster_signal(multi_worker_worker(&c, 0), SIGCONT);
    end_saved_by_chief(&c); /* which has to be back for it */
}

/* Lost after the last step, which all have made: what the others have is saved. */
TEST(chief_lost_at_end)
{
    for (int elastic = 0; elastic < 2; elastic++) {
        cluster calm = multi_worker_calm(3, "steps=60", NULL), c = make(3, "steps=60", elastic ? "elastic=1" : NULL);

        CLUSTER_SET(&c, "die=4", "die_task=0", "die_step=60", "hold_task=-1", "hold_step=60");
        cluster_start_all(&c);
        for (int i = 0; i < 3; i++) cluster_wait_log(&c, multi_worker_worker(&c, i), CLUSTER_HOLDS "60", 30);
        cluster_enough(&c);
        cluster_wait(&c, multi_worker_worker(&c, 0), 30);
        for (int i = 1; i < 3; i++) cluster_wait_code(&c, multi_worker_worker(&c, i), elastic ? 0 : FAILED, 30);
        assert_int_equal(cluster_count_log(multi_worker_worker(&c, 1), "the final evaluation is made here"), elastic);
        multi_worker_assert_same(&calm, &c);
        multi_worker_end(&calm, 60);
        multi_worker_end(&c, 60);
    }
}

/* Lost in the evaluation: the others tell whose examples are not in it. */
TEST(lost_in_evaluation)
{
    cluster c = make(3, "steps=60", "elastic=1");

    CLUSTER_SET(&c, "die=7", "die_task=2", "die_step=1", "multi_worker=1");
    cluster_start_all(&c);
    cluster_wait(&c, multi_worker_worker(&c, 2), 30);
    for (int i = 0; i < 2; i++) cluster_wait_code(&c, multi_worker_worker(&c, i), 0, 30);
    assert_int_equal(cluster_count_log(multi_worker_worker(&c, 0),
                                       "lacks the examples of 1 of 3 workers, which did not "
                                       "come back: number 2."),
                     1);
    multi_worker_end(&c, 60);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, cluster_job_task);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return est_test_run_apart(NULL, NULL);
}
