/* SPDX-License-Identifier: Apache-2.0
 *
 * A step that does nothing but count: what a cluster costs a worker at least. One contestant of bench/compare-cluster.
 *
 *   null_step [--ps N] [--over tcp|tls|ucx] [--turns N] [--seconds S]
 *
 * The step adds one to global_step at the first ps, and to a counter at each other ps. An amount is steps
 * (bench/support/turns.h), processor time that of this process and of all ps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/bench.h"
#include "support/options.h"
#include "support/tasks.h"
#include "support/turns.h"

#define PS_MAX     8
#define WARM_STEPS 100

typedef struct job {
    const char *transport;
    int         ps, turns;
    double      seconds;
    est_step   *step;
    bench_tasks tasks;
} job;

static bench_turn count(void *arg)
{
    job       *j     = arg;
    bench_turn turn  = { 0 };
    double     start = bench_now_secs(), used = bench_tasks_cpu_secs(&j->tasks);

    while (turn.secs < j->seconds) {
        bench_check(est_step_run(j->step, NULL));
        turn.amount++;
        turn.secs = bench_now_secs() - start;
    }
    turn.cpu_secs = bench_tasks_cpu_secs(&j->tasks) - used;
    return turn;
}

static void open_step(job *j, est_remote *remote)
{
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_node     counts[PS_MAX];

    bench_check(est_graph_create(1, &graph));
    for (int i = 0; i < j->ps; i++) {
        char     device[32];
        est_node counter;

        (void)snprintf(device, sizeof device, "/job:ps/task:%d", i);
        est_graph_device(graph, device);
        counter   = i == 0 ? est_global_step(graph)
                           : est_weight(graph, "count", EST_SHAPE(), EST_WEIGHT(.dtype = EST_I64, .frozen = true));
        counts[i] = est_assign_add(counter, est_scalar(graph, EST_I64, 1));
    }
    bench_check(est_graph_status(graph));
    bench_check(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    bench_check(est_session_init(session));
    bench_check(
        est_session_prepare(session, (est_nodes){ 0 }, (est_nodes){ 0 }, (est_nodes){ counts, j->ps }, &j->step));
    for (int i = 0; i < WARM_STEPS; i++) bench_check(est_step_run(j->step, NULL));
}

int main(int argc, char **argv)
{
    job         j      = { .transport = "tcp", .ps = 1, .turns = 3, .seconds = 0.5 };
    est_server *server = NULL;

    BENCH_OPTIONS(argc, argv, 1, { "--over", BENCH_TO(&j.transport) }, { "--ps", BENCH_TO(&j.ps) },
                  { "--turns", BENCH_TO(&j.turns) }, { "--seconds", BENCH_TO(&j.seconds) });
    if (j.ps < 1 || j.ps > PS_MAX) {
        (void)fprintf(stderr, "null_step: --ps %d; from 1 to %d\n", j.ps, PS_MAX);
        return 2;
    }
    est_log_set_level(EST_LOG_ERROR);
    j.tasks = bench_tasks_make(j.ps, 0, j.transport);
    bench_tasks_serve(&j.tasks);
    open_step(&j, bench_tasks_connect(&j.tasks, &server));
    bench_take_turns(count, &j, j.turns);
    bench_tasks_stop(&j.tasks);
    return 0;
}
