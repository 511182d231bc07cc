/* SPDX-License-Identifier: Apache-2.0
 *
 * In-graph replication: what a step costs whose tensor goes from one worker to another, by the process that drives it.
 *
 *   in_graph [--over tcp|tls|ucx] [--seconds S]
 *
 * worker:0 multiplies, worker:1 takes the mean of the product, ps:0 adds it up. For small and large products, the time
 * of a step when the session is in the client and results of tasks travel through it; the same with transfers between
 * tasks, as est_remote_create makes it; and with the session at a target, driven by its master. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/remote.h"
#include "support/bench.h"
#include "support/options.h"
#include "support/tasks.h"
#include "support/turns.h"

#define WARM_STEPS 20
#define TURNS      5 /* of which the fastest counts: other processes of the machine disturb */

static void serve(bench_tasks *t, const char *type, int index, void *user)
{
    est_server *server = NULL;

    (void)user;
    bench_check(est_server_create(t->cluster, type, index, NULL, &server));
    bench_check(est_server_join(server));
}

typedef struct model {
    est_graph *graph;
    est_node   x, mean, count;
} model;

static model build(int64_t width)
{
    model    m = { 0 };
    est_node w, n, product;
    char     name[32];

    snprintf(name, sizeof name, "w%lld", (long long)width);
    bench_check(est_graph_create(1, &m.graph));
    est_graph_device(m.graph, "/job:worker/task:0");
    w = est_weight(m.graph, name, EST_SHAPE(4, width), NULL);
    est_graph_device(m.graph, "/job:ps/task:0");
    n = est_weight(m.graph, "n", EST_SHAPE(), NULL);
    est_graph_device(m.graph, NULL);
    m.x = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, 4));
    est_graph_device(m.graph, "/job:worker/task:0");
    product = est_matmul(m.x, est_read_variable(w));
    est_graph_device(m.graph, "/job:worker/task:1");
    m.mean = est_mean(product);
    est_graph_device(m.graph, "/job:ps/task:0");
    m.count = est_assign_add(n, m.mean);
    bench_check(est_graph_status(m.graph));
    return m;
}

/* Microseconds of a step. */
static double measure(est_session *session, const model *m, double seconds)
{
    est_tensor *x    = NULL;
    est_step   *step = NULL;
    double      us   = 0;

    bench_check(est_session_init(session));
    bench_check(est_tensor_create(EST_F32, EST_SHAPE(64, 4), &x));
    memset(est_tensor_mutable_data(x), 0, est_tensor_bytes(x));
    bench_check(est_session_prepare(session, EST_NODES(m->x), EST_NODES(m->mean), EST_NODES(m->count), &step));
    for (int i = 0; i < WARM_STEPS; i++) bench_check(est_step_run(step, (const est_tensor *[]){ x }));
    for (int turn = 0; turn < TURNS; turn++) {
        double start = bench_now_secs(), secs = 0;
        int    n = 0;

        for (; secs < seconds / TURNS; n++) {
            bench_check(est_step_run(step, (const est_tensor *[]){ x }));
            secs = bench_now_secs() - start;
        }
        if (turn == 0 || 1e6 * secs / n < us) us = 1e6 * secs / n;
    }
    est_tensor_free(x);
    return us;
}

static double at_remote(est_remote *remote, const model *m, bool direct, double seconds)
{
    est_session *session = NULL;
    double       us;

    remote->direct = direct;
    bench_check(est_session_create(m->graph, EST_SESSION(.remote = remote), &session));
    us = measure(session, m, seconds);
    est_session_free(session);
    return us;
}

static double at_target(const char *target, const model *m, double seconds)
{
    est_session *session = NULL;
    double       us;

    bench_check(est_session_create(m->graph, EST_SESSION(.target = target), &session));
    us = measure(session, m, seconds);
    est_session_free(session);
    return us;
}

int main(int argc, char **argv)
{
    const char *transport = "tcp";
    double      seconds   = 1;
    est_server *server    = NULL;
    bench_tasks tasks;

    BENCH_OPTIONS(argc, argv, 1, { "--over", BENCH_TO(&transport) }, { "--seconds", BENCH_TO(&seconds) });
    est_log_set_level(EST_LOG_ERROR);
    tasks = bench_tasks_make(1, 2, transport);
    bench_tasks_start(&tasks, "ps", 0, serve, NULL);
    bench_tasks_start(&tasks, "chief", 0, serve, NULL);
    for (int i = 0; i < 2; i++) bench_tasks_start(&tasks, "worker", i, serve, NULL);
    bench_check(est_server_create(tasks.cluster, NULL, 0, NULL, &server));
    printf("%-12s %22s %22s %22s   microseconds of a step over %s\n", "product", "through the client", "between tasks",
           "at a target", transport);
    for (int64_t width = 4; width <= 1 << 16; width *= 128) {
        est_remote *remote = NULL;
        model       m      = build(width);
        char        target[320];

        snprintf(target, sizeof target, "%s://%s", transport, est_cluster_address(tasks.cluster, "worker", 0));
        bench_check(est_remote_create(server, EST_REMOTE(.type = "*", .is_chief = true, .connect_secs = 60), &remote));
        printf("%9.0f kB %22.0f", (double)width * 64 * sizeof(float) / 1024, at_remote(remote, &m, false, seconds));
        printf(" %22.0f", at_remote(remote, &m, true, seconds));
        est_remote_free(remote);
        printf(" %22.0f\n", at_target(target, &m, seconds));
        est_graph_free(m.graph);
    }
    bench_tasks_stop(&tasks);
    return 0;
}
