/* SPDX-License-Identifier: Apache-2.0
 *
 * The network between two processes of this machine: what a small request costs there and back, how many small ones go
 * through at once, and how fast large ones are pushed, over tcp, tls and ucx; beside it, what the machine can do: bare
 * writes to a loopback socket, in one direction and in both, and memcpy.
 *
 *   net [seconds of a measurement [transport]] */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "net/certificates.h"
#include "net/net.h"
#include "support/bench.h"
#include "support/turns.h"

#define WINDOW      64
#define ROUNDS_MAX  200000
#define WARM_ROUNDS 200

static const size_t pushes[] = { 64 << 10, 1 << 20, 64 << 20 };

#define N_PUSHES (int)(sizeof pushes / sizeof pushes[0])

static double measure_secs = 1;

/* --- the other process -------------------------------------------------------------------------------------------- */

static void serve(void *user, est_request *request)
{
    static const uint64_t done = 1;

    (void)user;
    est_request_answer(request, (est_payload){ .head = &done, .head_size = sizeof done });
}

/* Forks before this process has any thread; the port comes through the pipe. */
static pid_t start_server(const char *transport, const char *folder, int *port)
{
    int   ends[2];
    pid_t pid;

    if (pipe(ends) != 0 || (pid = fork()) < 0) abort();
    if (pid == 0) {
        est_net *net;

        bench_check(est_net_create(
            &(est_net_options){ .transport = transport, .certificates = folder, .self.task = "ps:0", .serve = serve },
            &net));
        bench_check(est_net_listen(net, "127.0.0.1:0"));
        *port = est_net_port(net);
        if (write(ends[1], port, sizeof *port) != sizeof *port) _exit(1);
        for (;;) pause();
    }
    close(ends[1]);
    if (read(ends[0], port, sizeof *port) != sizeof *port) abort();
    close(ends[0]);
    return pid;
}

/* --- ours --------------------------------------------------------------------------------------------------------- */

static est_ask *ask(est_link *link, const void *bytes, size_t size)
{
    est_part part = { bytes, size };
    est_ask *out;

    bench_check(est_link_ask(link, 1, "a push", (est_payload){ .parts = &part, .n_parts = 1 }, 60, NULL, NULL, &out));
    return out;
}

static void finish(est_ask *one)
{
    est_message *answer;

    bench_check(est_ask_wait(one, &answer));
    est_message_free(answer);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure_latency(est_link *link, const void *bytes)
{
    double *secs = malloc(ROUNDS_MAX * sizeof *secs), end;
    int     n    = 0;

    for (int i = 0; i < WARM_ROUNDS; i++) finish(ask(link, bytes, 64));
    end = bench_now_secs() + measure_secs;
    while (n < ROUNDS_MAX && bench_now_secs() < end) {
        double start = bench_now_secs();

        finish(ask(link, bytes, 64));
        secs[n++] = bench_now_secs() - start;
    }
    qsort(secs, (size_t)n, sizeof *secs, by_size);
    printf(" %8.1f %8.1f", secs[n / 2] * 1e6, secs[n * 99 / 100] * 1e6);
    free(secs);
}

/* Messages a second with so many in flight. */
static double measure_rate(est_link *link, const void *bytes, size_t size, int window)
{
    est_ask *asks[WINDOW];
    double   start = bench_now_secs(), end = start + measure_secs;
    int64_t  n = 0;

    for (int i = 0; i < window; i++) asks[i] = ask(link, bytes, size);
    while (bench_now_secs() < end) {
        for (int i = 0; i < window; i++) {
            finish(asks[i]);
            asks[i] = ask(link, bytes, size);
        }
        n += window;
    }
    end = bench_now_secs();
    for (int i = 0; i < window; i++) finish(asks[i]);
    return (double)n / (end - start);
}

static void measure_transport(const char *transport, const char *folder, const void *bytes)
{
    int       port;
    pid_t     pid = start_server(transport, folder, &port);
    char      address[64];
    est_net  *net;
    est_link *link;

    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    bench_check(est_net_create(
        &(est_net_options){ .transport = transport, .certificates = folder, .self.task = "worker:0" }, &net));
    bench_check(est_net_connect(net, address, "ps:0", 10, &link));
    printf("%-10s", transport);
    measure_latency(link, bytes);
    printf(" %10.0f", measure_rate(link, bytes, 64, WINDOW) / 1e3);
    for (int i = 0; i < N_PUSHES; i++) {
        for (int window = 1; window <= 4; window += 3) {
            printf(" %6.2f", measure_rate(link, bytes, pushes[i], window) * (double)pushes[i] / 1e9);
            fflush(stdout);
        }
    }
    printf("\n");
    est_link_free(link);
    est_net_free(net);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* --- the machine -------------------------------------------------------------------------------------------------- */

/* Bare writes to a process that reads into one buffer. */
static double measure_socket(const uint8_t *bytes, size_t size)
{
    struct sockaddr_in at       = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t          room     = sizeof at;
    int                listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    double             start, end, sum = 0;
    pid_t              pid;

    if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&at, &room) != 0 || (pid = fork()) < 0) {
        abort();
    }
    if (pid == 0) {
        size_t   buffer_size = 1 << 20;
        uint8_t *buffer      = malloc(buffer_size);
        int      in          = accept(listener, NULL, NULL);

        close(fd); /* or the end would never come */
        while (recv(in, buffer, buffer_size, 0) > 0) continue;
        _exit(0);
    }
    if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0) abort();
    start = bench_now_secs();
    do {
        for (size_t sent = 0; sent < size;) {
            ssize_t n = send(fd, bytes + sent, size - sent, MSG_NOSIGNAL);

            if (n <= 0) abort();
            sent += (size_t)n;
        }
        sum += (double)size;
        end = bench_now_secs();
    } while (end < start + measure_secs);
    close(fd);
    close(listener);
    waitpid(pid, NULL, 0);
    return sum / (end - start);
}

/* The same in both directions at once, by four processes: what each gets. */
static double measure_both_ways(const uint8_t *bytes, size_t size)
{
    double one, other;
    int    ends[2];
    pid_t  pid;

    fflush(stdout);
    if (pipe(ends) != 0 || (pid = fork()) < 0) abort();
    if (pid == 0) {
        other = measure_socket(bytes, size);
        _exit(write(ends[1], &other, sizeof other) != sizeof other);
    }
    one = measure_socket(bytes, size);
    if (read(ends[0], &other, sizeof other) != sizeof other) abort();
    waitpid(pid, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    return (one + other) / 2;
}

static double measure_memcpy(uint8_t *bytes, size_t size)
{
    uint8_t *to = malloc(size);
    double   start, end, sum = 0;

    memset(to, 1, size);
    start = bench_now_secs();
    do {
        memcpy(to, bytes, size);
        bytes[(size_t)sum % size] = to[size / 2]; /* so that it is not left out */
        sum += (double)size;
        end = bench_now_secs();
    } while (end < start + measure_secs / 4);
    free(to);
    return sum / (end - start);
}

int main(int argc, char **argv)
{
    static const char *const transports[] = { "tcp", "tls", "ucx" };
    char                     folder[]     = "/tmp/est-bench-XXXXXX";
    uint8_t                 *bytes        = malloc(pushes[N_PUSHES - 1]);

    if (argc > 1) measure_secs = strtod(argv[1], NULL);
    if (bytes == NULL || mkdtemp(folder) == NULL) return 1;
    memset(bytes, 1, pushes[N_PUSHES - 1]);
    bench_check(est_certificates_make(folder, "bench", 1));
    printf("%-10s %17s %10s %13s %13s %13s\n", "", "64 B, us", "64 B, W 64", "64 KB, GB/s", "1 MB, GB/s",
           "64 MB, GB/s");
    printf("%-10s %8s %8s %10s %6s %6s %6s %6s %6s %6s\n", "", "p50", "p99", "k/s", "W 1", "W 4", "W 1", "W 4", "W 1",
           "W 4");
    for (int i = 0; i < 3; i++) {
        if (argc <= 2 || strcmp(argv[2], transports[i]) == 0) measure_transport(transports[i], folder, bytes);
    }
    printf("%-10s %28s", "bare tcp", "");
    for (int i = 0; i < N_PUSHES; i++) printf(" %13.2f", measure_socket(bytes, pushes[i]) / 1e9);
    printf("\n%-10s %28s", "both ways", "");
    for (int i = 0; i < N_PUSHES; i++) printf(" %13.2f", measure_both_ways(bytes, pushes[i]) / 1e9);
    printf("\n%-10s %28s", "memcpy", "");
    for (int i = 0; i < N_PUSHES; i++) printf(" %13.2f", measure_memcpy(bytes, pushes[i]) / 1e9);
    printf("\n");
    free(bytes);
    bench_check(est_dir_remove(folder));
    return 0;
}
