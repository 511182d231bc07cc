/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a large table at a ps, as a recommender's step needs them: one contestant of bench/compare-cluster.
 *
 *   sparse_rows [--rows N] [--over tcp|tls|ucx] [--turns N] [--seconds S]
 *
 * A batch is 512 x 26 ids, drawn by Zipf's law from a table of 1e7 rows of 16 floats. A step pulls the distinct rows
 * among them, spreads them to the batch, takes the mean square as loss, and pushes the gradients of the rows, which
 * Adagrad applies at the ps. An amount is distinct rows (bench/support/turns.h), processor time that of both processes;
 * the last line says how many a batch has, and how many bytes a step took over the sockets, both ways. */
#include <dirent.h>
#include <linux/tcp.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/random.h"
#include "support/bench.h"
#include "support/options.h"
#include "support/tasks.h"
#include "support/turns.h"

#define BATCH    (512 * 26)
#define WIDTH    16
#define SETS     8
#define EXPONENT 1.05 /* of Zipf's law */

typedef struct job {
    const char *transport;
    int64_t     rows;
    int         turns;
    double      seconds;
    est_step   *step;
    bench_tasks tasks;
    est_tensor *ids[SETS];
    int64_t     distinct[SETS];
    int64_t     next;
} job;

/* --- ids ---------------------------------------------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int64_t count_distinct(const int64_t *ids)
{
    static int64_t sorted[BATCH];
    int64_t        n = 1;

    memcpy(sorted, ids, sizeof sorted);
    qsort(sorted, BATCH, sizeof *sorted, compare_ids);
    for (int i = 1; i < BATCH; i++) n += sorted[i] != sorted[i - 1];
    return n;
}

/* The continuous law, inverted and rounded down; a multiplication strews the frequent ids over the table. */
static void draw_ids(job *j, int set)
{
    static float u[BATCH];
    double       scale = pow((double)j->rows, 1 - EXPONENT) - 1;
    int64_t     *ids;

    bench_check(est_tensor_create(EST_I64, EST_SHAPE(BATCH), &j->ids[set]));
    ids = est_tensor_mutable_data(j->ids[set]);
    est_random_fill_uniform_f32(&(est_random){ (uint64_t)set + 1, 0, 0 }, 0, BATCH, u);
    for (int i = 0; i < BATCH; i++) {
        int64_t rank = (int64_t)pow(1 + scale * (double)u[i], 1 / (1 - EXPONENT)) - 1;

        ids[i] = rank * 7919 % j->rows;
    }
    j->distinct[set] = count_distinct(ids);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static bench_turn train(void *arg)
{
    job       *j     = arg;
    bench_turn turn  = { 0 };
    double     start = bench_now_secs(), used = bench_tasks_cpu_secs(&j->tasks);

    while (turn.secs < j->seconds) {
        int set = (int)(j->next++ % SETS);

        bench_check(est_step_run(j->step, (const est_tensor *[]){ j->ids[set] }));
        turn.amount += (double)j->distinct[set];
        turn.secs = bench_now_secs() - start;
    }
    turn.cpu_secs = bench_tasks_cpu_secs(&j->tasks) - used;
    return turn;
}

static void open_step(job *j, est_remote *remote)
{
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_node     ids, table, distinct, index, rows, loss, update;

    bench_check(est_graph_create(1, &graph));
    ids   = est_placeholder(graph, "ids", EST_I64, EST_SHAPE(BATCH));
    table = est_weight(graph, "table", EST_SHAPE(j->rows, WIDTH), EST_WEIGHT(.initializer = est_init_constant(0.01)));
    distinct = est_unique(ids, &index);
    rows     = est_gather(est_resource_gather(table, distinct), index, 0);
    loss     = est_mean(est_square(rows));
    update   = est_minimize(est_adagrad(0.01, NULL), loss, NULL);
    bench_check(est_graph_status(graph));
    bench_check(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    bench_check(est_session_init(session));
    bench_check(est_session_prepare(session, EST_NODES(ids), EST_NODES(loss), EST_NODES(update), &j->step));
    for (int s = 0; s < SETS; s++) bench_check(est_step_run(j->step, (const est_tensor *[]){ j->ids[s] }));
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

/* What all TCP connections of this process have sent and received so far. */
static double socket_bytes(void)
{
    DIR                 *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    double               bytes = 0;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        struct tcp_info info = { 0 };
        socklen_t       size = sizeof info;

        if (getsockopt((int)strtol(entry->d_name, NULL, 10), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
        bytes += (double)info.tcpi_bytes_acked + (double)info.tcpi_bytes_received;
    }
    if (folder != NULL) closedir(folder);
    return bytes;
}

int main(int argc, char **argv)
{
    job         j      = { .transport = "tcp", .rows = 10000000, .turns = 3, .seconds = 0.5 };
    est_server *server = NULL;
    double      bytes, distinct = 0;
    int64_t     steps;

    BENCH_OPTIONS(argc, argv, 1, { "--over", BENCH_TO(&j.transport) }, { "--rows", BENCH_TO(&j.rows) },
                  { "--turns", BENCH_TO(&j.turns) }, { "--seconds", BENCH_TO(&j.seconds) });
    est_log_set_level(EST_LOG_ERROR);
    j.tasks = bench_tasks_make(1, 0, j.transport);
    bench_tasks_serve(&j.tasks);
    for (int s = 0; s < SETS; s++) {
        draw_ids(&j, s);
        distinct += (double)j.distinct[s] / SETS;
    }
    open_step(&j, bench_tasks_connect(&j.tasks, &server));
    bytes = socket_bytes();
    steps = j.next;
    bench_take_turns(train, &j, j.turns);
    (void)printf("{\"distinct\":%.1f,\"bytes\":%.0f}\n", distinct, (socket_bytes() - bytes) / (double)(j.next - steps));
    bench_tasks_stop(&j.tasks);
    return 0;
}
