/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks of a cluster that are killed, stopped or started again while it trains: the job ends all the same, every task
 * with exit code 0, at exactly max_steps, and no task does what another has done. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cluster_job.h"
#include "support/dynamic_test.h"
#include "support/estimator_test.h"

static cluster begin(int workers, int ps, int evaluator)
{
    cluster c = cluster_make(1, workers, ps, evaluator);

    CLUSTER_SET(&c, "steps=2000", "save=100", "pause_us=1000");
    cluster_start_all(&c);
    return c;
}

static void end(cluster *c)
{
    cluster_wait_all(c, 90);
    assert_int_equal(cluster_saved_step(c), 2000);
    (void)cluster_check_ledgers(c);
    cluster_free(c);
}

static void kill_and_restart(cluster *c, const char *type, int index)
{
    cluster_task *task = cluster_find(c, type, index);

    cluster_signal(task, SIGKILL);
    cluster_wait(c, task, 10);
    cluster_start(c, task);
}

TEST(worker)
{
    cluster c = begin(2, 2, 0);

    cluster_wait_step(&c, 200, 30);
    kill_and_restart(&c, "worker", 0);
    end(&c);
}

/* Its turn, if it had one, goes to others. */
TEST(worker_gone_for_good)
{
    cluster       c = begin(2, 2, 0);
    cluster_task *task;

    cluster_wait_step(&c, 200, 30);
    task = cluster_find(&c, "worker", 1);
    cluster_signal(task, SIGKILL);
    cluster_wait(&c, task, 10);
    task->status = 0; /* as it was meant to */
    end(&c);
}

TEST(ps)
{
    for (int which = 0; which < 2; which++) {
        cluster c = begin(2, 2, 0);
        char    restored[160];

        cluster_wait_step(&c, 200, 30);
        kill_and_restart(&c, "ps", which);
        snprintf(restored, sizeof restored, "Restoring the variables of ps:%d from %s/model.ckpt-", which, c.model);
        cluster_wait_log(&c, cluster_find(&c, "chief", 0), restored, 30);
        assert_int_equal(cluster_count_log(cluster_find(&c, "chief", 0), "Restoring parameters from"), 0);
        end(&c);
    }
}

/* A task that computes on a device: what was under way there when a ps died is given up. */
TEST(with_devices)
{
    cluster c = cluster_make(1, 2, 2, 0);

    CLUSTER_SET(&c, "steps=2000", "save=100", "pause_us=1000", "device=1");
    cluster_start_all(&c);
    cluster_wait_step(&c, 200, 30);
    kill_and_restart(&c, "ps", 1);
    kill_and_restart(&c, "worker", 0);
    end(&c);
}

TEST(chief)
{
    cluster c = begin(2, 2, 0);

    cluster_wait_step(&c, 200, 30);
    kill_and_restart(&c, "chief", 0);
    cluster_wait_log(&c, cluster_find(&c, "chief", 0), "All variables have values already", 30);
    end(&c);
}

TEST(evaluator)
{
    cluster c = begin(1, 1, 1);

    cluster_wait_step(&c, 200, 30);
    kill_and_restart(&c, "evaluator", 0);
    end(&c);
}

TEST(two_at_once)
{
    cluster c = begin(2, 2, 0);

    cluster_wait_step(&c, 200, 30);
    cluster_signal(cluster_find(&c, "ps", 1), SIGKILL);
    cluster_signal(cluster_find(&c, "chief", 0), SIGKILL);
    cluster_wait(&c, cluster_find(&c, "ps", 1), 10);
    cluster_wait(&c, cluster_find(&c, "chief", 0), 10);
    cluster_start(&c, cluster_find(&c, "chief", 0));
    cluster_start(&c, cluster_find(&c, "ps", 1));
    end(&c);
}

/* The files of checkpoints go, as by a mistaken `rm`. */
static void remove_checkpoints(const cluster *c)
{
    DIR                 *dir = opendir(c->model);
    const struct dirent *entry;
    int                  n = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        char path[400];

        if (strncmp(entry->d_name, "checkpoint", 10) != 0 && strncmp(entry->d_name, "model.ckpt", 10) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", c->model, entry->d_name);
        assert_int_equal(unlink(path), 0);
        n++;
    }
    closedir(dir);
    assert_true(n > 0);
}

/* Variables of a ps that is lost, and that no checkpoint has, do not begin again in the middle of a training: neither
 * with the chief that knows the step nor with the next one, which may find the task lost that counts it. */
TEST(ps_without_checkpoint)
{
    for (int which = 0; which < 2; which++) {
        cluster       c     = cluster_make(1, 1, 2, 0);
        cluster_task *chief = cluster_find(&c, "chief", 0);
        char          lost[200];

        CLUSTER_SET(&c, "steps=1000000", "save=1000000", "pause_us=1000", "log=10");
        cluster_start_all(&c);
        cluster_wait_log(&c, chief, "step = ", 30);
        remove_checkpoints(&c);
        kill_and_restart(&c, "ps", which);
        cluster_wait_code(&c, chief, 1, 30);
        assert_int_equal(cluster_count_log(chief, "DATA_LOSS: training had come to step "), 1);
        snprintf(
            lost, sizeof lost,
            ", the variables of ps:%d are lost, and model_dir %s has no checkpoint to restore them from; bring its "
            "checkpoint files back",
            which, c.model);
        assert_int_equal(cluster_count_log(chief, lost), 1);
        cluster_start(&c, chief);
        cluster_wait_code(&c, chief, 1, 30);
        assert_int_equal(cluster_count_log(chief, lost), 2);
        cluster_free(&c);
    }
}

/* The chief is killed when variables have values and the first checkpoint is not written, and then a ps. No task has
 * made a step, so all begin again: the workers do not start before the variables can be restored. */
TEST(ps_before_first_checkpoint)
{
    for (int which = 0; which < 2; which++) {
        cluster       c     = cluster_make(1, 2, 2, 0);
        cluster_task *chief = cluster_find(&c, "chief", 0);

        CLUSTER_SET(&c, "steps=100", "die=4", "die_task=0", "die_step=0");
        cluster_start_all(&c);
        cluster_wait(&c, chief, 30);
        assert_true(WIFSIGNALED(chief->status));
        assert_int_equal(cluster_count_log(chief, "Saving checkpoints for"), 0);
        kill_and_restart(&c, "ps", which);
        cluster_start(&c, chief);
        cluster_wait_all(&c, 60);
        assert_int_equal(cluster_saved_step(&c), 100);
        (void)cluster_check_ledgers(&c);
        cluster_free(&c);
    }
}

/* A ps that is restored from a checkpoint long ago, the only one: both steps are told, and what to do about it. */
TEST(ps_goes_back)
{
    cluster       c     = cluster_make(1, 1, 2, 0);
    cluster_task *chief = cluster_find(&c, "chief", 0);

    CLUSTER_SET(&c, "enough=1", "save=1000000", "log=10");
    cluster_start_all(&c);
    cluster_wait_log(&c, chief, "step = ", 30);
    kill_and_restart(&c, "ps", 1);
    cluster_wait_log(&c, chief,
                     ", and the variables of ps:1 go back to step 0, the last checkpoint; save more often "
                     "(save_checkpoints_steps) to lose less",
                     30);
    assert_int_equal(cluster_count_log(chief, "training had come to step 0,"), 0);
    cluster_enough(&c);
    cluster_wait_all(&c, 60);
    cluster_free(&c);
}

static int64_t counted_steps(const char *model_dir, const char *name)
{
    est_checkpoint *checkpoint = NULL;
    est_tensor     *value      = NULL;
    int64_t         steps;

    assert_int_equal(est_checkpoint_open(model_dir, &checkpoint), EST_OK);
    assert_int_equal(est_checkpoint_read(checkpoint, name, &value), EST_OK);
    steps = *(const int64_t *)est_tensor_data(value);
    est_tensor_free(value);
    est_checkpoint_close(checkpoint);
    return steps;
}

/* Keys of dynamic embeddings count with the push of their step, and once: not when they are looked up by a worker that
 * is killed before it pushes, and not again when the push is repeated because a link broke. With one ps a checkpoint is
 * of one moment, so the steps of the embeddings are the global steps, also after the ps has gone back to it. */
static void check_keys(const char *sync)
{
    cluster c = cluster_make(1, 2, 1, 0);
    long    last;

    CLUSTER_SET(&c, "enough=100", "save=100", "dynamic=1", sync);
    cluster_start_all(&c);
    for (int i = 0; i < 4; i++) {
        cluster_wait_step(&c, cluster_saved_step(&c) + 100, 30);
        cluster_signal(cluster_find(&c, "worker", 1 - i % 2), SIGUSR1); /* breaks its links */
        kill_and_restart(&c, "worker", i % 2);
    }
    cluster_wait_step(&c, cluster_saved_step(&c) + 100, 30);
    kill_and_restart(&c, "ps", 0);
    cluster_wait_step(&c, cluster_saved_step(&c) + 100, 30);
    cluster_enough(&c);
    cluster_wait_all(&c, 90);
    (void)cluster_check_ledgers(&c);
    last = cluster_saved_step(&c);
    assert_int_equal(counted_steps(c.model, DYNAMIC_USERS "/steps"), last);
    assert_int_equal(counted_steps(c.model, DYNAMIC_WORDS "/steps"), last);
    cluster_free(&c);
}

TEST(keys)
{
    check_keys(NULL);
    check_keys("sync=3");
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, cluster_job_task);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return est_test_run(NULL, NULL);
}
