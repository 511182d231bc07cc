/* SPDX-License-Identifier: Apache-2.0
 *
 * No wait without an end: tasks that are not there or fall silent (SIGSTOP) at every point where another waits for
 * them. Who waits says for whom, why and how long, and goes on or gives up within its bound; who comes back finds out
 * what became of its place and spoils nothing. Tasks that have variables: unresponsive_ps.c. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "cluster/task_status.h"
#include "support/cluster_job.h"
#include "support/estimator_test.h"
#include "support/nn_test.h"

#define SILENCE "silence=1"

static cluster make(int chief, int workers, int ps, const char *steps, const char *timeout, const char *pause)
{
    cluster c = cluster_make(chief, workers, ps, 0);

    CLUSTER_SET(&c, steps, timeout, SILENCE, "save=10", pause);
    return c;
}

static void end(cluster *c, long steps)
{
    assert_int_equal(cluster_saved_step(c), steps);
    (void)cluster_check_ledgers(c);
    cluster_check_clean(c);
    cluster_free(c);
}

/* --- tasks that are not there ------------------------------------------------------------------------------------- */

TEST(no_ps)
{
    cluster       c     = make(1, 1, 2, "steps=10", "timeout=1", NULL);
    cluster_task *chief = cluster_find(&c, "chief", 0), *worker = cluster_find(&c, "worker", 0);
    char          missing[160], all[256];

    cluster_start(&c, chief);
    cluster_start(&c, worker);
    cluster_wait_code(&c, worker, 1, 10);
    cluster_wait_code(&c, chief, 1, 10);
    assert_true(cluster_count_log(worker, "worker:0 has waited ") > 0);
    assert_int_equal(cluster_count_log(worker, " s for ps:0 (it is not there)"), 1);
    snprintf(missing, sizeof missing, "; missing: ps:0 (%s), ps:1 (%s)", cluster_find(&c, "ps", 0)->address,
             cluster_find(&c, "ps", 1)->address);
    snprintf(all, sizeof all, "%s; then chief:0 (%s)", missing, chief->address);
    assert_true(cluster_count_log(worker, all) > 1); /* in the log, and in the error */
    snprintf(all, sizeof all, "%s; then chief:0 (%s); gives up after 1 s\n", missing, chief->address);
    assert_true(cluster_count_log(worker, all) > 0);
    snprintf(all, sizeof all, "%s; gives up after 1 s\n", missing);
    assert_true(cluster_count_log(chief, all) > 0);
    assert_int_equal(cluster_count_log(chief, " s for ps:0 (it is not there)"), 1);
    cluster_check_clean(&c);
    cluster_free(&c);
}

/* The worker gives up first, then the ps tasks, which nobody came to any more. They must not before the worker has
 * come. */
TEST(no_chief)
{
    cluster       c      = make(1, 1, 1, "steps=10", "timeout=5", NULL);
    cluster_task *worker = cluster_find(&c, "worker", 0), *ps = cluster_find(&c, "ps", 0);
    char          where[128];

    cluster_start(&c, ps);
    cluster_start(&c, worker);
    cluster_wait_code(&c, worker, 1, 30);
    assert_true(cluster_count_log(worker, "the chief has not initialized its variables") > 1);
    snprintf(where, sizeof where, "initialized its variables; chief:0 (%s); gives up after 5 s\n",
             cluster_find(&c, "chief", 0)->address);
    assert_true(cluster_count_log(worker, where) > 0);
    assert_true(cluster_count_log(worker, "worker:0 has waited ") > 0);
    cluster_wait_code(&c, ps, 1, 30);
    snprintf(where, sizeof where, ": it has not come; %s; ", cluster_find(&c, "chief", 0)->address);
    assert_true(cluster_count_log(ps, where) > 0);
    assert_int_equal(cluster_count_log(ps, "DEADLINE_EXCEEDED: ps:0: no task of the job was connected for 5 s"), 1);
    cluster_check_clean(&c);
    cluster_free(&c);
}

/* --- tasks that fall silent --------------------------------------------------------------------------------------- */

/* A worker with a turn that it does not use: the last steps wait for it, then others make its step, and the job ends
 * while it is still silent. When it comes back there is nothing left to do. */
TEST(worker)
{
    cluster       c      = make(1, 1, 1, "steps=60", "timeout=60", "pause_us=20000");
    cluster_task *worker = cluster_find(&c, "worker", 0);

    cluster_start_all(&c);
    cluster_wait_step(&c, 20, 20);
    cluster_signal(worker, SIGSTOP);
    cluster_wait_code(&c, cluster_find(&c, "chief", 0), 0, 20);
    cluster_wait_code(&c, cluster_find(&c, "ps", 0), 0, 20);
    assert_true(cluster_count_log(cluster_find(&c, "ps", 0), "worker:0 is gone: nothing came from worker:0 for 1 s") >
                0);
    assert_true(cluster_count_log(cluster_find(&c, "ps", 0),
                                  "worker:0 did not come back; its turn goes to another worker") > 0);
    cluster_signal(worker, SIGCONT);
    cluster_wait_code(&c, worker, 0, 20);
    end(&c, 60);
}

/* A worker that comes back while the job runs, after its turn was given away. */
TEST(worker_returns)
{
    cluster       c      = make(1, 2, 1, "steps=1500", "timeout=60", "pause_us=4000");
    cluster_task *worker = cluster_find(&c, "worker", 0);

    cluster_start_all(&c);
    cluster_wait_step(&c, 20, 20);
    cluster_signal(worker, SIGSTOP);
    cluster_wait_log(&c, cluster_find(&c, "ps", 0), "worker:0 did not come back; its turn goes to another worker", 20);
    cluster_signal(worker, SIGCONT);
    cluster_wait_log(&c, worker, "Making a new session", 20);
    cluster_wait_all(&c, 40);
    end(&c, 1500);
}

static bool has_turn(est_server *client, const cluster_task *clock, const char *who)
{
    char           *text  = NULL;
    est_json       *root  = NULL;
    const est_json *turns = NULL;
    bool            found = false;

    assert_ok(est_cluster_ask_status(client, clock->address, NULL, 20, &text));
    assert_ok(est_json_parse(text, strlen(text), "a status", &root));
    turns = json_object_get(root, "turns");
    for (size_t i = 0; i < json_array_size(turns); i++) {
        found = found || strcmp(json_string_value(json_object_get(json_array_get(turns, i), "task")), who) == 0;
    }
    est_json_free(root);
    est_free(text);
    return found;
}

/* Stops worker:0 when it has a turn: mostly it does, but not while it waits for one or for a checkpoint. */
static void stop_in_turn(const cluster_task *worker, const cluster_task *clock)
{
    int64_t     until  = est_now_ns() + 20 * EST_NS_PER_SEC;
    est_server *client = NULL;
    bool        in_turn;

    assert_ok(est_server_create(NULL, NULL, 0, EST_SERVER(.job = "test", .transport = "tcp", .threads = 1), &client));
    for (;;) {
        cluster_signal(worker, SIGSTOP);
        in_turn = has_turn(client, clock, "worker:0");
        if (in_turn || est_now_ns() > until) break;
        cluster_signal(worker, SIGCONT);
    }
    assert_true(in_turn);
    est_server_free(client);
}

/* A worker with a turn while the chief wants to save between steps: the chief says whom it waits for, then the step is
 * given to others. */
TEST(worker_in_save)
{
    cluster       c     = make(1, 1, 1, "steps=300", "timeout=8", "pause_us=10000");
    cluster_task *chief = cluster_find(&c, "chief", 0), *worker = cluster_find(&c, "worker", 0);

    CLUSTER_SET(&c, "silence=2"); /* and as long again for the turn: enough for a report after a quarter of 8 s */
    CLUSTER_SET(&c, "save=140", "consistent=1");
    cluster_start_all(&c);
    cluster_wait_log(&c, worker, " sec)", 20); /* after 100 steps, far from a save */
    stop_in_turn(worker, cluster_find(&c, "ps", 0));
    cluster_wait_log(&c, chief, "steps are under way, and a checkpoint waits for them", 20);
    cluster_wait_code(&c, chief, 0, 20);
    cluster_wait_code(&c, cluster_find(&c, "ps", 0), 0, 20);
    assert_true(cluster_count_log(cluster_find(&c, "ps", 0),
                                  "worker:0 did not come back; its turn goes to another worker") > 0);
    cluster_signal(worker, SIGCONT);
    cluster_wait_code(&c, worker, 0, 20);
    end(&c, 300);
}

/* A worker that others make steps with: they wait for it, then make them alone, and with it again when it is back. */
TEST(worker_of_many)
{
    cluster       c     = make(1, 1, 1, "steps=400", "timeout=8", "pause_us=10000");
    cluster_task *chief = cluster_find(&c, "chief", 0), *worker = cluster_find(&c, "worker", 0),
                 *clock = cluster_find(&c, "ps", 0);

    CLUSTER_SET(&c, "silence=3"); /* it is reported after a quarter of 8 s */
    CLUSTER_SET(&c, "sync=2");
    cluster_start_all(&c);
    cluster_wait_step(&c, 20, 20);
    cluster_signal(worker, SIGSTOP);
    cluster_wait_log(&c, chief, "other workers have not pushed yet", 20);
    cluster_wait_step(&c, cluster_saved_step(&c) + 20, 20);
    assert_true(cluster_count_log(clock, "a step is the mean of what 1 workers push") > 0);
    cluster_signal(worker, SIGCONT);
    cluster_wait_log(&c, clock, "a step is the mean of what 2 workers push", 20);
    cluster_wait_all(&c, 40);
    end(&c, 400);
}

/* Workers need no chief; the job does not end without it. */
TEST(chief)
{
    cluster       c     = make(1, 2, 1, "steps=200", "timeout=60", "pause_us=2000");
    cluster_task *chief = cluster_find(&c, "chief", 0);

    cluster_start_all(&c);
    cluster_wait_step(&c, 20, 20);
    cluster_signal(chief, SIGSTOP);
    for (int i = 0; i < 2; i++) cluster_wait_code(&c, cluster_find(&c, "worker", i), 0, 20);
    cluster_wait_log(&c, cluster_find(&c, "ps", 0), "it is gone, and must come back to save the last steps", 20);
    cluster_signal(chief, SIGCONT);
    cluster_wait_all(&c, 20);
    end(&c, 200);
}

/* A worker that was taken for dead, and whose place has another process now, ends and says why. */
TEST(place_taken)
{
    cluster       c   = make(1, 1, 2, "steps=800", "timeout=60", "pause_us=4000");
    cluster_task *old = cluster_find(&c, "worker", 0), *new = cluster_add_twin(&c, "worker", 0);

    for (int i = 0; i < c.n - 1; i++) cluster_start(&c, &c.tasks[i]);
    cluster_wait_step(&c, 20, 20);
    cluster_signal(old, SIGSTOP);
    cluster_wait_log(&c, cluster_find(&c, "ps", 0), "worker:0 is gone", 20);
    cluster_start(&c, new);
    cluster_wait_log(&c, cluster_find(&c, "ps", 0), "worker:0 was restarted", 20);
    cluster_wait_log(&c, cluster_find(&c, "ps", 1), "worker:0 was restarted", 20);
    cluster_signal(old, SIGCONT);
    cluster_wait_code(&c, old, 1, 20);
    cluster_wait_log(&c, old, "a newer process has replaced worker:0", 1);
    old->status = 0; /* as it was meant to */
    cluster_wait_all(&c, 40);
    end(&c, 800);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, cluster_job_task);
    return est_test_run_apart(NULL, NULL);
}
