/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers of multi_worker_mirrored training, as processes: whoever is killed and comes back, the variables in the end
 * are, bit for bit, those of a run that nobody disturbed; signals. The model has dropout and its input is shuffled, so
 * that every number drawn counts. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "cluster/task_status.h"
#include "support/estimator_test.h"
#include "support/multi_worker_test.h"
#include "support/nn_test.h"

#define STOPPED 75 /* exit code of a task that a signal stopped */

/* --- kills -------------------------------------------------------------------------------------------------------- */

/* Waits until all train, with what was done to them behind them: one checkpoint might have been under way before. */
static void wait_to_train_on(cluster *c)
{
    cluster_wait_step(c, cluster_saved_step(c) + 80, 30);
}

static void kill_and_restart(cluster *c, cluster_task *task)
{
    multi_worker_kill(c, task);
    cluster_start(c, task);
}

/* A task that kills itself comes back. */
static void restart_dead(cluster *c, cluster_task *task)
{
    cluster_wait(c, task, 30);
    assert_true(WIFSIGNALED(task->status) && WTERMSIG(task->status) == SIGKILL);
    cluster_start(c, task);
}

/* One task is killed at a moment of its own choice. */
typedef struct death {
    const char *name;
    int         workers, victim;
    const char *steps, *die, *task, *at; /* words of the job */
    const char *more;
    long        end;
} death;

static const death deaths[] = {
    { "worker, before the first step", 2, 1, "steps=60", "die=1", "die_task=1", "die_step=0", NULL, 60 },
    { "chief, before the first step", 2, 0, "steps=60", "die=1", "die_task=0", "die_step=0", NULL, 60 },
    { "worker, in a step", 3, 2, "steps=60", "die=2", "die_task=2", "die_step=30", NULL, 60 },
    { "worker, where NCCL cannot be", 2, 1, "steps=60", "die=2", "die_task=1", "die_step=30", "nccl=1", 60 },
    { "chief, in a step", 3, 0, "steps=60", "die=2", "die_task=0", "die_step=30", NULL, 60 },
    { "chief, about to save", 2, 0, "steps=60", "die=4", "die_task=0", "die_step=40", NULL, 60 },
    { "chief, has saved", 2, 0, "steps=60", "die=5", "die_task=0", "die_step=40", NULL, 60 },
    { "worker, in the last step", 2, 1, "steps=60", "die=2", "die_task=1", "die_step=59", NULL, 60 },
    { "chief, in the last step", 2, 0, "steps=60", "die=2", "die_task=0", "die_step=59", NULL, 60 },
    { "worker, after the last step", 2, 1, "steps=60", "die=3", "die_task=1", "die_step=60", NULL, 60 },
    { "chief, after the last step", 2, 0, "steps=60", "die=3", "die_task=0", "die_step=60", NULL, 60 },
    { "chief, about to save the last step", 3, 0, "steps=60", "die=4", "die_task=0", "die_step=60", NULL, 60 },
    { "chief, has saved the last step", 2, 0, "steps=60", "die=5", "die_task=0", "die_step=60", NULL, 60 },
    { "worker, about to end", 2, 1, "steps=60", "die=6", "die_task=1", "die_step=60", NULL, 60 },
    { "chief, when positions were just told", 2, 0, "steps=1030", "die=3", "die_task=0", "die_step=1000", NULL, 1030 },
    { "worker, after positions were told", 2, 1, "steps=1030", "die=2", "die_task=1", "die_step=1010", NULL, 1030 },
    { "worker of two replicas, in a step", 2, 1, "steps=60", "die=2", "die_task=1", "die_step=30", "mirrored=2", 60 },
    { "chief of two replicas, after a step", 2, 0, "steps=60", "die=3", "die_task=0", "die_step=31", "mirrored=2", 60 },
    { "one of four", 4, 3, "steps=60", "die=3", "die_task=3", "die_step=30", NULL, 60 },
    { "chief, others without input", 2, 0, "steps=0", "die=2", "die_task=0", "die_step=6", "passes=2", 32 },
    { "worker whose input has ended", 2, 0, "steps=0", "die=6", "die_task=0", "die_step=0", "passes=2", 32 },
};

static void test_death(void **state)
{
    const death *d    = *state;
    bool         fast = strcmp(d->steps, "steps=1030") == 0;
    cluster      calm = multi_worker_make(d->workers, d->steps, d->more),
            c         = multi_worker_make(d->workers, d->steps, d->more);

    if (fast) {
        CLUSTER_SET(&c, "pause_us=0");
        CLUSTER_SET(&calm, "pause_us=0");
    }
    cluster_start_all(&calm);
    cluster_wait_all(&calm, 60);
    CLUSTER_SET(&c, d->die, d->task, d->at);
    cluster_start_all(&c);
    restart_dead(&c, multi_worker_worker(&c, d->victim));
    cluster_wait_all(&c, 60);
    multi_worker_assert_same(&calm, &c);
    if (d->more != NULL && strcmp(d->more, "nccl=1") == 0) {
        cluster_wait_log(&c, multi_worker_worker(&c, 0), "as rank 0 says: it has no GPU", 1);
    }
    multi_worker_end(&calm, d->end);
    multi_worker_end(&c, d->end);
}

/* A number of steps is counted from where all began, whoever was lost since. Checkpoints are so many that a chief that
 * comes back has one of the very step that the others are at. */
static void check_counted(int victim, const char *task)
{
    cluster calm = multi_worker_make(2, "count=40", NULL), c = multi_worker_make(2, "count=40", NULL);

    CLUSTER_SET(&calm, "save=1");
    CLUSTER_SET(&c, "save=1");
    for (int i = 0; i < 2; i++) {
        cluster_start_all(&calm);
        cluster_wait_all(&calm, 60);
        assert_int_equal(cluster_saved_step(&calm), 40 * (i + 1));
        CLUSTER_SET(&c, i == 1 ? "die=3" : "die=0"); /* in the second training */
        CLUSTER_SET(&c, task, "die_step=60");
        cluster_start_all(&c);
        if (i == 1) restart_dead(&c, multi_worker_worker(&c, victim));
        cluster_wait_all(&c, 60);
    }
    multi_worker_assert_same(&calm, &c);
    multi_worker_end(&calm, 80);
    multi_worker_end(&c, 80);
}

TEST(counted)
{
    check_counted(0, "die_task=0");
    check_counted(1, "die_task=1");
}

/* One that is lost after the last step comes back when that is saved and the end is marked: the chief, which waits for
 * it, tells it before it leaves. Nothing in the directory says whether the mark is of this training or of the one
 * before, unless the last step is known; and then, too, the chief is not left waiting. The chief holds the last step
 * until it knows of the loss: a worker that was told of the end before it is lost is not waited for. */
static void check_back_after_end(const char *steps)
{
    cluster       c     = multi_worker_make(2, steps, NULL);
    cluster_task *chief = multi_worker_worker(&c, 0), *worker = multi_worker_worker(&c, 1);
    char          mark[160];
    int64_t       until;

    snprintf(mark, sizeof mark, "%s/training_done", c.model);
    CLUSTER_SET(&c, "hold_task=0", "hold_step=20");
    cluster_start_all(&c);
    cluster_wait_log(&c, chief, CLUSTER_HOLDS "20", 30);
    multi_worker_kill(&c, worker);
    cluster_wait_log(&c, chief, "worker:1 is gone: ", 30);
    cluster_enough(&c);
    until = est_now_ns() + 30 * EST_NS_PER_SEC;
    while (access(mark, F_OK) != 0) {
        if (est_now_ns() > until) fail_msg("the chief has not marked the end within 30 s");
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    cluster_start(&c, worker);
    cluster_wait_all(&c, 20);
    multi_worker_end(&c, 20);
}

TEST(back_after_end)
{
    check_back_after_end("count=20");
    check_back_after_end("steps=20");
}

/* Kills from outside, at a moment that nobody chose. */
TEST(killed_often)
{
    cluster c = multi_worker_make(3, "enough=300", NULL);

    cluster_start_all(&c);
    for (int i = 0; i < 6; i++) {
        cluster_wait_step(&c, 40 * (i + 1), 30);
        kill_and_restart(&c, multi_worker_worker(&c, i % 3));
    }
    multi_worker_end_as_calm(&c, 3, NULL);
}

/* The same with dynamic embeddings. A step takes all of the time: most kills come in the middle of one, when the others
 * have found the rows of its keys. Keys, counts and what was evicted must be as if that step had been made once. */
TEST(killed_often_with_keys)
{
    cluster c = multi_worker_make(3, "enough=400", "dynamic=1");

    CLUSTER_SET(&c, "pause_us=0");
    cluster_start_all(&c);
    for (int i = 0; i < 6; i++) {
        cluster_wait_step(&c, cluster_saved_step(&c) + 80, 30);
        kill_and_restart(&c, multi_worker_worker(&c, i % 3));
    }
    multi_worker_end_as_calm(&c, 3, "dynamic=1");
}

/* Chief and a worker, and then two workers, at once: one is left that has the variables. */
TEST(two_at_once)
{
    cluster c = multi_worker_make(3, "enough=200", NULL);

    cluster_start_all(&c);
    for (int i = 0; i < 2; i++) {
        cluster_task *first = multi_worker_worker(&c, i), *second = multi_worker_worker(&c, i + 1);

        wait_to_train_on(&c);
        cluster_signal(first, SIGKILL);
        multi_worker_kill(&c, second);
        cluster_wait(&c, first, 20);
        cluster_start(&c, second);
        cluster_start(&c, first);
    }
    multi_worker_end_as_calm(&c, 3, NULL);
}

/* Just agreed on a group, and lost while variables are shared or before. */
TEST(killed_in_first_share)
{
    cluster c = multi_worker_make(3, "enough=60", NULL);

    cluster_start_all(&c);
    cluster_wait_log(&c, multi_worker_worker(&c, 2), "generation 1", 30);
    kill_and_restart(&c, multi_worker_worker(&c, 2));
    cluster_wait_log(&c, multi_worker_worker(&c, 0), "generation 2", 30);
    kill_and_restart(&c, multi_worker_worker(&c, 0));
    multi_worker_end_as_calm(&c, 3, NULL);
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

/* Whoever is asked to stop leaves in good order, a chief saves; and all go on when it is back. */
TEST(stopped)
{
    cluster c = multi_worker_make(2, "enough=200", NULL);

    cluster_start_all(&c);
    for (int i = 0; i < 2; i++) {
        cluster_wait_step(&c, 40 + 40 * i, 30);
        cluster_signal(multi_worker_worker(&c, i), SIGTERM);
        cluster_wait_code(&c, multi_worker_worker(&c, i), STOPPED, 20);
        cluster_start(&c, multi_worker_worker(&c, i));
    }
    multi_worker_end_as_calm(&c, 2, NULL);
}

/* A chief that waits for a lost worker saves what it has when it is asked to stop. */
TEST(stopped_while_waiting)
{
    cluster c = multi_worker_make(2, "enough=200", NULL);
    long    saved;

    cluster_start_all(&c);
    cluster_wait_step(&c, 40, 30);
    multi_worker_kill(&c, multi_worker_worker(&c, 1));
    cluster_wait_log(&c, multi_worker_worker(&c, 0), "Rejoining the other workers", 30);
    saved = cluster_saved_step(&c);
    cluster_signal(multi_worker_worker(&c, 0), SIGTERM);
    cluster_wait_code(&c, multi_worker_worker(&c, 0), STOPPED, 20);
    assert_true(cluster_saved_step(&c) >= saved);
    assert_int_equal(cluster_count_log(multi_worker_worker(&c, 0), "stopped and saved at step"), 1);
    cluster_start_all(&c);
    multi_worker_end_as_calm(&c, 2, NULL);
}

/* A process that stands still is taken for lost, and one that goes on is met again: with variables, input and all. */
TEST(paused)
{
    static const char rejoins[] = "Rejoining the other workers";
    cluster           c         = multi_worker_make(3, "enough=200", NULL);

    CLUSTER_SET(&c, "silence=1");
    cluster_start_all(&c);
    for (int i = 0; i < 2; i++) {
        int     before;
        int64_t until;

        wait_to_train_on(&c);
        before = cluster_count_log(multi_worker_worker(&c, 2), rejoins);
        cluster_signal(multi_worker_worker(&c, i), SIGSTOP);
        until = est_now_ns() + 30 * EST_NS_PER_SEC;
        while (cluster_count_log(multi_worker_worker(&c, 2), rejoins) == before && est_now_ns() < until) {
            est_sleep_ns(EST_NS_PER_SEC / 100);
        }
        assert_true(cluster_count_log(multi_worker_worker(&c, 2), rejoins) > before);
        cluster_signal(multi_worker_worker(&c, i), SIGCONT);
    }
    multi_worker_end_as_calm(&c, 3, NULL);
}

/* All at once, and again from the checkpoint: every input goes on where it was. */
static void check_restarted(const char *enough, long at, const char *pause, const char *more)
{
    cluster c = multi_worker_make(3, enough, more);

    CLUSTER_SET(&c, pause);
    cluster_start_all(&c);
    cluster_wait_step(&c, at, 30);
    for (int i = 0; i < 3; i++) cluster_signal(multi_worker_worker(&c, i), SIGKILL);
    for (int i = 0; i < 3; i++) cluster_wait(&c, multi_worker_worker(&c, i), 20);
    for (int i = 2; i >= 0; i--) cluster_start(&c, multi_worker_worker(&c, i));
    multi_worker_end_as_calm(&c, 3, more);
}

TEST(restarted)
{
    check_restarted("enough=200", 80, "pause_us=2000", NULL);
    check_restarted("enough=1100", 1040, "pause_us=300", NULL); /* from positions that were told */
    check_restarted("enough=200", 80, "pause_us=2000", "mirrored=2");
}

/* Damages what only reading finds: the values, not the list of them. */
static void damage_newest(const cluster *c)
{
    char  path[160];
    FILE *data;

    snprintf(path, sizeof path, "%s/model.ckpt-%ld.data-00000-of-00001", c->model, cluster_saved_step(c));
    data = fopen(path, "r+b");
    assert_non_null(data);
    for (int i = 0; i < 8; i++) assert_int_equal(fputc(0x5a, data), 0x5a);
    assert_int_equal(fclose(data), 0);
}

/* The chief offers the step of the checkpoint that it can read: all go on from there. */
TEST(damaged)
{
    cluster c = multi_worker_make(2, "enough=200", NULL);

    cluster_start_all(&c);
    cluster_wait_step(&c, 80, 30);
    for (int i = 0; i < 2; i++) multi_worker_kill(&c, multi_worker_worker(&c, i));
    damage_newest(&c);
    cluster_start_all(&c);
    cluster_wait_log(&c, multi_worker_worker(&c, 0), "the checkpoint that could be read is of step", 30);
    multi_worker_end_as_calm(&c, 2, NULL);
}

/* Two processes for one task: the one that was started later has the place. */
TEST(twin)
{
    cluster       c    = multi_worker_make(2, "enough=200", NULL);
    cluster_task *twin = cluster_add_twin(&c, "worker", 1);

    cluster_start(&c, multi_worker_worker(&c, 0));
    cluster_start(&c, multi_worker_worker(&c, 1));
    cluster_wait_step(&c, 40, 30);
    cluster_start(&c, twin);
    cluster_wait_code(&c, multi_worker_worker(&c, 1), 1, 30);
    assert_true(cluster_count_log(multi_worker_worker(&c, 1), "another process has taken") > 0);
    multi_worker_end_as_calm(&c, 2, NULL);
}

/* Whether the status view of a worker has a step from 40 on, and how fast it is. */
static bool shows_progress(est_server *client, const cluster_task *worker)
{
    char           *text = NULL;
    est_json       *root = NULL;
    const est_json *step;
    bool            shows;

    assert_ok(est_cluster_ask_status(client, worker->address, NULL, 20, &text));
    assert_ok(est_json_parse(text, strlen(text), "a status", &root));
    step = json_object_get(root, "step");
    assert_true(json_is_integer(step));
    shows = json_integer_value(step) >= 40 && json_real_value(json_object_get(root, "steps_per_sec")) > 0;
    est_json_free(root);
    est_free(text);
    return shows;
}

/* A worker shows a step when it has made it, which may be after the chief has saved that step. */
TEST(status)
{
    cluster     c      = multi_worker_make(2, "enough=200", NULL);
    est_server *client = NULL;
    int64_t     until;

    cluster_start_all(&c);
    cluster_wait_step(&c, 40, 30);
    assert_ok(est_server_create(NULL, NULL, 0, EST_SERVER(.job = "test", .transport = "tcp", .threads = 1), &client));
    until = est_now_ns() + 30 * EST_NS_PER_SEC;
    for (int i = 0; i < 2; i++) {
        while (!shows_progress(client, multi_worker_worker(&c, i))) {
            if (est_now_ns() > until) fail_msg("worker:%d shows no step from 40 on", i);
            est_sleep_ns(EST_NS_PER_SEC / 100);
        }
    }
    est_server_free(client);
    cluster_enough(&c);
    cluster_wait_all(&c, 60);
    multi_worker_end(&c, cluster_saved_step(&c));
}

/* Jobs so short that one worker is done while the other still makes the last step: that is made, and nobody makes one
 * more. */
TEST(short_jobs)
{
    for (int i = 0; i < 8; i++) {
        cluster c = multi_worker_make(2, "steps=20", NULL);

        CLUSTER_SET(&c, "pause_us=0");
        cluster_start_all(&c);
        cluster_wait_all(&c, 30);
        multi_worker_end(&c, 20);
    }
}

#define N_DEATHS (sizeof deaths / sizeof deaths[0])

/* The chief's hook has seen enough: all end at the step where it asked, and what they have is saved. */
TEST(chief_has_enough)
{
    cluster c = multi_worker_make(3, "stop_step=60", NULL);

    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    multi_worker_end(&c, 60);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, cluster_job_task);
    for (size_t i = 0; i < N_DEATHS; i++) est_test_row(deaths[i].name, test_death, &deaths[i]);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return est_test_run_apart(NULL, NULL);
}
