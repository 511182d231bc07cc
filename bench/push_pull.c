/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast a variable of a parameter server is read and written: one contestant of bench/compare-cluster, which asks
 * it.
 *
 *   push_pull [--over tcp|tls|ucx|socket|memory] [--seconds S]
 *
 * A line "pull N" or "push N" of standard input has a variable of N bytes read into this process, or assigned from it,
 * for S seconds; the answer is a line of JSON: how often, in what time, and how long half and 99 of 100 of them took at
 * most. N is a power of four from 1024 to 256 Mi.
 *
 * tcp, tls and ucx go through a session and a ps in a process of its own. socket is the least that two processes on
 * loopback need, blocking reads and writes of the same bytes, and memory the least that one needs, memcpy. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/transport.h"
#include "support/bench.h"
#include "support/options.h"
#include "support/tasks.h"
#include "support/turns.h"

#define N_SIZES   10
#define BYTES_MAX (1024LL << (2 * (N_SIZES - 1)))
#define LAPS_MIN  3
#define LAPS_MAX  200000

typedef struct contestant {
    void (*run)(struct contestant *c, bool push, int size); /* once */
    est_step   *steps[2][N_SIZES];                          /* pull, push */
    est_tensor *values[N_SIZES];
    int         socket;
    char       *here, *there; /* [BYTES_MAX] each */
} contestant;

static int64_t bytes_of(int size)
{
    return 1024LL << (2 * size);
}

/* --- a session over a ps ------------------------------------------------------------------------------------------ */

static void run_step(contestant *c, bool push, int size)
{
    bench_check(est_step_run(c->steps[push][size], (const est_tensor *[]){ c->values[size] }));
}

static void open_session(contestant *c, est_remote *remote)
{
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_node     pull[N_SIZES], push[N_SIZES], value[N_SIZES];

    bench_check(est_graph_create(1, &graph));
    for (int i = 0; i < N_SIZES; i++) {
        est_shape shape = EST_SHAPE(bytes_of(i) / 4);
        est_node  variable;
        char      name[16];

        (void)snprintf(name, sizeof name, "v%d", i);
        variable = est_weight(graph, name, shape, EST_WEIGHT(.initializer = est_init_zeros()));
        value[i] = est_placeholder(graph, NULL, EST_F32, shape);
        pull[i]  = est_read_variable(variable);
        push[i]  = est_assign(variable, value[i]);
        bench_check(est_tensor_create(EST_F32, shape, &c->values[i]));
        memset(est_tensor_mutable_data(c->values[i]), 1, (size_t)bytes_of(i));
    }
    bench_check(est_graph_status(graph));
    bench_check(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    bench_check(est_session_init(session));
    for (int i = 0; i < N_SIZES; i++) {
        bench_check(
            est_session_prepare(session, (est_nodes){ 0 }, EST_NODES(pull[i]), (est_nodes){ 0 }, &c->steps[0][i]));
        bench_check(
            est_session_prepare(session, EST_NODES(value[i]), (est_nodes){ 0 }, EST_NODES(push[i]), &c->steps[1][i]));
    }
    c->run = run_step;
}

/* --- a bare socket ------------------------------------------------------------------------------------------------ */

static void give_up(const char *what)
{
    perror(what);
    exit(1);
}

static void move(int fd, bool out, char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = out ? write(fd, bytes, size) : read(fd, bytes, size);

        if (n <= 0 && !out) exit(0); /* the other side has ended */
        if (n <= 0) give_up("socket");
        bytes += n;
        size -= (size_t)n;
    }
}

static void serve_socket(contestant *c)
{
    int32_t ask[2]; /* push, size */

    for (;;) {
        move(c->socket, false, (char *)ask, sizeof ask);
        move(c->socket, ask[0] == 0, c->there, (size_t)bytes_of(ask[1]));
        if (ask[0] != 0) move(c->socket, true, (char *)ask, 1);
    }
}

static void run_socket(contestant *c, bool push, int size)
{
    int32_t ask[2] = { push, size };

    move(c->socket, true, (char *)ask, sizeof ask);
    move(c->socket, push, c->here, (size_t)bytes_of(size));
    if (push) move(c->socket, false, (char *)ask, 1);
}

static void open_socket(contestant *c)
{
    struct sockaddr_in at       = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t          size     = sizeof at;
    int                listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    pid_t              pid;

    if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&at, &size) != 0) {
        give_up("listen");
    }
    pid = fork();
    if (pid < 0) give_up("fork");
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        c->socket = accept(listener, NULL, NULL);
    } else {
        c->socket = socket(AF_INET, SOCK_STREAM, 0);
        if (c->socket < 0 || connect(c->socket, (struct sockaddr *)&at, sizeof at) != 0) give_up("connect");
    }
    if (c->socket < 0 || setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) give_up("socket");
    if (pid == 0) serve_socket(c);
    c->run = run_socket;
}

static void run_memory(contestant *c, bool push, int size)
{
    memcpy(push ? c->there : c->here, push ? c->here : c->there, (size_t)bytes_of(size));
}

static void open_buffers(contestant *c)
{
    c->here  = malloc((size_t)BYTES_MAX);
    c->there = malloc((size_t)BYTES_MAX);
    if (c->here == NULL || c->there == NULL) give_up("buffers");
    memset(c->here, 1, (size_t)BYTES_MAX);
    memset(c->there, 2, (size_t)BYTES_MAX);
}

/* --- answering ---------------------------------------------------------------------------------------------------- */

static void answer(contestant *c, bool push, int size, double seconds)
{
    static double laps[LAPS_MAX];
    double        start, before, p50, p99;
    int           n = 0;

    c->run(c, push, size); /* lays out memory */
    start = before = bench_now_secs();
    while (n < LAPS_MAX && (n < LAPS_MIN || before - start < seconds)) {
        double now;

        c->run(c, push, size);
        now       = bench_now_secs();
        laps[n++] = now - before;
        before    = now;
    }
    p50 = bench_summary(laps, n).median;
    p99 = laps[n * 99 / 100];
    (void)printf("{\"n\":%d,\"secs\":%.9f,\"p50_us\":%.3f,\"p99_us\":%.3f}\n", n, before - start, 1e6 * p50, 1e6 * p99);
    (void)fflush(stdout);
}

static int size_of(int64_t bytes)
{
    for (int i = 0; i < N_SIZES; i++) {
        if (bytes_of(i) == bytes) return i;
    }
    (void)fprintf(stderr, "push_pull: %lld bytes are no power of four from 1024 to %lld\n", (long long)bytes,
                  BYTES_MAX);
    exit(2);
}

int main(int argc, char **argv)
{
    const char *over    = "tcp";
    double      seconds = 0.2;
    contestant  c       = { 0 };
    bench_tasks tasks   = { 0 };
    char        word[8];
    long long   bytes;

    BENCH_OPTIONS(argc, argv, 1, { "--over", BENCH_TO(&over) }, { "--seconds", BENCH_TO(&seconds) });
    est_log_set_level(EST_LOG_ERROR);
    if (strcmp(over, "socket") == 0) {
        open_buffers(&c);
        open_socket(&c);
    } else if (strcmp(over, "memory") == 0) {
        open_buffers(&c);
        c.run = run_memory;
    } else {
        const est_transport *transport;
        est_server          *server = NULL;

        bench_check(est_transport_find(over, &transport));
        tasks = bench_tasks_make(1, 0, over);
        bench_tasks_serve(&tasks);
        open_session(&c, bench_tasks_connect(&tasks, &server));
    }
    while (scanf("%7s %lld", word, &bytes) == 2) answer(&c, strcmp(word, "push") == 0, size_of(bytes), seconds);
    if (tasks.cluster != NULL) bench_tasks_stop(&tasks);
    return 0;
}
