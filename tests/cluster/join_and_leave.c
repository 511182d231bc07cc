/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks that leave, come late or come twice: SIGTERM to each role, the end of a job with and without max_steps, tasks
 * that are started after it, and two processes that both say they are the same worker. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "support/cluster_job.h"
#include "support/estimator_test.h"

#define STOPPED 75 /* exit code of a task that a signal stopped, as on one machine */

static cluster make(int workers, int ps, int evaluator, const char *steps)
{
    cluster c = cluster_make(1, workers, ps, evaluator);

    CLUSTER_SET(&c, steps, "timeout=60", "silence=2", "save=20", "pause_us=3000");
    return c;
}

static void end(cluster *c, long steps)
{
    assert_int_equal(cluster_saved_step(c), steps);
    (void)cluster_check_ledgers(c);
    cluster_check_clean(c);
    cluster_free(c);
}

/* --- SIGTERM ------------------------------------------------------------------------------------------------------ */

static void stop(cluster *c, cluster_task *task)
{
    cluster_signal(task, SIGTERM);
    cluster_wait_code(c, task, STOPPED, 20);
    task->status = 0; /* as it was meant to */
}

/* The others finish without it. */
TEST(stop_worker)
{
    cluster c = make(2, 2, 0, "steps=300");

    cluster_start_all(&c);
    cluster_wait_step(&c, 40, 20);
    stop(&c, cluster_find(&c, "worker", 0));
    assert_int_equal(cluster_count_log(cluster_find(&c, "worker", 0), "SIGTERM: stopped at step"), 1);
    cluster_wait_all(&c, 30);
    end(&c, 300);
}

/* It saves and leaves; the others go on meanwhile; started again it takes nothing back. */
TEST(stop_chief)
{
    cluster       c     = make(1, 1, 1, "steps=400");
    cluster_task *chief = cluster_find(&c, "chief", 0);
    long          saved;

    cluster_start_all(&c);
    cluster_wait_step(&c, 40, 20);
    stop(&c, chief);
    saved = cluster_saved_step(&c);
    assert_int_equal(cluster_count_log(chief, "SIGTERM: stopped and saved at step"), 1);
    cluster_start(&c, chief);
    cluster_wait_log(&c, chief, "All variables have values already", 20);
    assert_true(cluster_saved_step(&c) >= saved);
    cluster_wait_all(&c, 30);
    end(&c, 400);
}

/* While it waits for the step of a silent worker it can be stopped, too, and saves; the worker then makes its step. */
TEST(stop_waiting_chief)
{
    cluster       c     = make(1, 1, 0, "steps=300");
    cluster_task *chief = cluster_find(&c, "chief", 0), *worker = cluster_find(&c, "worker", 0);

    CLUSTER_SET(&c, "timeout=8");  /* a quarter of it, and the wait is reported */
    CLUSTER_SET(&c, "silence=60"); /* the worker's turn stays its own */
    cluster_start_all(&c);
    cluster_wait_step(&c, 20, 20);
    cluster_signal(worker, SIGSTOP);
    cluster_wait_log(&c, chief, "chief:0 has waited 2 s for ps:0: steps of others are under way", 20);
    stop(&c, chief);
    assert_int_equal(cluster_saved_step(&c), 299);
    cluster_signal(worker, SIGCONT);
    cluster_wait_code(&c, worker, 0, 20);
    cluster_start(&c, chief);
    cluster_wait_all(&c, 20);
    end(&c, 300);
}

/* Its variables are gone with it; they come back from the checkpoint. */
TEST(stop_ps)
{
    cluster       c  = make(1, 2, 0, "enough=40");
    cluster_task *ps = cluster_find(&c, "ps", 1);

    cluster_start_all(&c);
    cluster_wait_step(&c, 40, 20);
    stop(&c, ps); /* the job does not end before that */
    cluster_start(&c, ps);
    cluster_wait_log(&c, cluster_find(&c, "chief", 0), "Restoring the variables of ps:1", 20);
    cluster_enough(&c);
    cluster_wait_all(&c, 30);
    end(&c, cluster_saved_step(&c));
}

/* The step at which a task says that it was stopped. */
static long stopped_at(const cluster_task *task)
{
    const char said[] = "SIGTERM: stopped and saved at step ";
    char      *bytes  = NULL, *at;
    size_t     size;
    long       step;

    assert_int_equal(est_file_read(task->log, &bytes, &size), EST_OK);
    at = memmem(bytes, size, said, strlen(said));
    assert_non_null(at);
    step = strtol(at + strlen(said), NULL, 10);
    est_free(bytes);
    return step;
}

/* Whoever stops a job signals all of it: the ps tasks stay until the chief has saved what they have. It saves for no
 * other reason here but the beginning, so what is saved at the end was saved after the signal. */
TEST(stop_all)
{
    cluster       c     = make(2, 2, 0, "steps=100000");
    cluster_task *chief = cluster_find(&c, "chief", 0);
    long          saved;

    CLUSTER_SET(&c, "save=100000");
    cluster_start_all(&c);
    cluster_wait_log(&c, chief, " sec)", 20); /* 100 steps after its first */
    saved = cluster_saved_step(&c);
    for (int i = 0; i < c.n; i++) cluster_signal(&c.tasks[i], SIGTERM);
    for (int i = 0; i < c.n; i++) cluster_wait_code(&c, &c.tasks[i], STOPPED, 20);
    assert_true(stopped_at(chief) > saved);
    assert_true(cluster_saved_step(&c) >= stopped_at(chief)); /* workers may have made their last step after its own */
    cluster_free(&c);
}

TEST(stop_evaluator)
{
    cluster       c         = make(0, 1, 1, "steps=300");
    cluster_task *evaluator = cluster_find(&c, "evaluator", 0);

    cluster_start_all(&c);
    cluster_wait_step(&c, 40, 20);
    stop(&c, evaluator);
    cluster_start(&c, evaluator);
    cluster_wait_all(&c, 30);
    assert_int_equal(cluster_count_log(evaluator, "Exiting evaluation, global_step=300"), 1);
    end(&c, 300);
}

/* --- twice -------------------------------------------------------------------------------------------------------- */

/* The newer has the place, whichever of them comes back last, and nothing is counted twice. */
TEST(twins)
{
    cluster       c   = make(1, 2, 0, "steps=500");
    cluster_task *old = cluster_find(&c, "worker", 0), *new = cluster_add_twin(&c, "worker", 0);

    for (int i = 0; i < c.n - 1; i++) cluster_start(&c, &c.tasks[i]);
    cluster_wait_step(&c, 40, 20);
    cluster_start(&c, new);
    cluster_wait_code(&c, old, 1, 20);
    cluster_wait_log(&c, old, "a newer process has replaced worker:0", 1);
    old->status = 0;
    cluster_wait_all(&c, 30);
    end(&c, 500);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* Workers that come when all is over have nothing to do; nor have ps tasks. */
TEST(late)
{
    cluster       c      = make(2, 2, 0, "steps=60");
    cluster_task *worker = cluster_find(&c, "worker", 1), *ps = cluster_find(&c, "ps", 0);

    for (int i = 0; i < c.n; i++) {
        if (&c.tasks[i] != worker) cluster_start(&c, &c.tasks[i]);
    }
    cluster_wait_all(&c, 30);
    cluster_start(&c, worker);
    cluster_wait_code(&c, worker, 0, 10);
    cluster_start(&c, ps);
    cluster_wait_code(&c, ps, 0, 10);
    end(&c, 60);
}

/* A ps that comes late is waited for. */
TEST(late_ps)
{
    cluster       c  = make(1, 2, 0, "steps=60");
    cluster_task *ps = cluster_find(&c, "ps", 1);

    CLUSTER_SET(&c, "timeout=10"); /* a quarter of it, and the wait is reported */
    for (int i = 0; i < c.n; i++) {
        if (&c.tasks[i] != ps) cluster_start(&c, &c.tasks[i]);
    }
    cluster_wait_log(&c, cluster_find(&c, "chief", 0), " s for ps:1: ", 20);
    cluster_start(&c, ps);
    cluster_wait_log(&c, cluster_find(&c, "chief", 0), "ps:1 is there", 20);
    cluster_wait_all(&c, 30);
    end(&c, 60);
}

/* Without max_steps each trains as long as its input lasts: 8 batches a pass, one pass for the chief, two and three for
 * the workers. The chief ends the job when all have. */
TEST(inputs_end)
{
    cluster c = make(2, 2, 1, "passes=4");

    CLUSTER_SET(&c, "pause_us=20000");
    cluster_start_all(&c);
    cluster_wait_all(&c, 30);
    end(&c, 4 * 8 * (1 + 2 + 3));
}

/* The chief's input ends, and the workers make what is left of max_steps: also the step that it could have begun. */
TEST(chief_input_ends)
{
    for (int sync = 0; sync < 2; sync++) {
        int     steps = sync != 0 ? 16 : 40;
        cluster c     = make(2, 2, 0, sync != 0 ? "steps=16" : "steps=40");

        CLUSTER_SET(&c, "passes=1", sync != 0 ? "sync=2" : "sync=0");
        cluster_start_all(&c);
        cluster_wait_all(&c, 30);
        end(&c, steps);
    }
}

/* A stop that a hook of the chief asks for, such as early stopping, ends the training of all. */
TEST(chief_has_enough)
{
    for (int sync = 0; sync < 2; sync++) {
        cluster c = make(2, 2, 1, "stop_step=60");

        CLUSTER_SET(&c, sync != 0 ? "sync=2" : "sync=0");
        cluster_start_all(&c);
        cluster_wait_all(&c, 30);
        assert_in_range(cluster_saved_step(&c), 60, 70);
        end(&c, cluster_saved_step(&c));
    }
}

/* A ps that is lost while the chief waits for the others' end: only the chief can give the new one its values, and the
 * others wait for that. */
TEST(ps_lost_at_end)
{
    for (int which = 0; which < 2; which++) {
        cluster       c     = make(1, 2, 0, "passes=2");
        cluster_task *chief = cluster_find(&c, "chief", 0), *ps = cluster_find(&c, "ps", which);

        CLUSTER_SET(&c, "save=5", "pause_us=30000");
        cluster_start_all(&c);
        cluster_wait_log(&c, chief, "Waiting for the other workers before writing the final", 20);
        cluster_signal(ps, SIGKILL);
        cluster_wait(&c, ps, 10);
        cluster_start(&c, ps);
        cluster_wait_log(&c, chief, "Making a new session", 20);
        cluster_wait_all(&c, 30);
        assert_true(cluster_saved_step(&c) > 8);
        end(&c, cluster_saved_step(&c));
    }
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, cluster_job_task);
    return est_test_run_apart(NULL, NULL);
}
