/* SPDX-License-Identifier: Apache-2.0
 *
 * What it costs to answer one small message now and then: the floor under the processor time of a coordinator whose
 * worker takes milliseconds for a call.
 *
 *   wake
 *
 * A process waits for 64 bytes on a loopback socket with epoll, reads them and writes 83 back, the sizes of a call that
 * ended and of the next one; nothing else. The other process sleeps or computes over 8 MB between two messages, as a
 * worker does. Prints, for each of these, the processor time of the first process per message: median (least..most) of
 * five turns. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/bench.h"
#include "support/turns.h"

#define TURNS        5
#define MESSAGE      64
#define ANSWER       83
#define MEMORY_BYTES (8 << 20)
#define LINE_BYTES   64

typedef struct peer {
    const char *name;
    double      secs; /* between two messages */
    bool        computes;
    int         messages; /* of a turn */
} peer;

static const peer peers[] = {
    { "sleeps for 20 ms", 0.020, false, 50 },
    { "computes for 7 ms", 0.007, true, 150 },
    { "computes for 1 ms", 0.001, true, 1000 },
};

static void expect(bool ok, const char *what)
{
    if (ok) return;
    perror(what);
    exit(1);
}

static void pass_time(const peer *p)
{
    static volatile char memory[MEMORY_BYTES];
    double               end = bench_now_secs() + p->secs;

    if (!p->computes) nanosleep(&(struct timespec){ .tv_nsec = (long)(p->secs * 1e9) }, NULL);
    while (p->computes && bench_now_secs() < end) {
        for (int i = 0; i < MEMORY_BYTES; i += LINE_BYTES) memory[i]++;
    }
}

static void run_peer(const peer *p, const struct sockaddr_in *address)
{
    char bytes[ANSWER];
    int  fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    expect(fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) == 0, "wake: connect");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int i = 0; i < p->messages; i++) {
        pass_time(p);
        expect(send(fd, bytes, MESSAGE, 0) == MESSAGE, "wake: send");
        expect(recv(fd, bytes, ANSWER, MSG_WAITALL) == ANSWER, "wake: recv");
    }
    (void)close(fd);
}

/* Processor time per message of this process, in us. */
static double take_turn(const peer *p, int listener, const struct sockaddr_in *address)
{
    struct epoll_event event = { .events = EPOLLIN };
    char               bytes[ANSWER];
    double             before;
    pid_t              child = fork();
    int                fd, loop, one = 1, status = 0;

    expect(child >= 0, "wake: fork");
    if (child == 0) {
        run_peer(p, address);
        _exit(0);
    }
    fd   = accept(listener, NULL, NULL);
    loop = epoll_create1(0);
    expect(fd >= 0 && loop >= 0 && epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) == 0, "wake: accept");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    before = bench_cpu_secs();
    for (int i = 0; i < p->messages; i++) {
        expect(epoll_wait(loop, &event, 1, -1) == 1, "wake: epoll_wait");
        expect(recv(fd, bytes, MESSAGE, MSG_DONTWAIT) == MESSAGE, "wake: recv");
        expect(send(fd, bytes, ANSWER, MSG_DONTWAIT) == ANSWER, "wake: send");
    }
    before = bench_cpu_secs() - before;
    (void)close(loop);
    (void)close(fd);
    expect(waitpid(child, &status, 0) == child && status == 0, "wake: the other process");
    return 1e6 * before / p->messages;
}

int main(void)
{
    struct sockaddr_in address  = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t          size     = sizeof address;
    int                listener = socket(AF_INET, SOCK_STREAM, 0);

    expect(listener >= 0 && bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0 &&
               getsockname(listener, (struct sockaddr *)&address, &size) == 0,
           "wake: listen");
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++) {
        double      turns[TURNS];
        bench_stats stats;

        for (int t = 0; t < TURNS; t++) turns[t] = take_turn(&peers[i], listener, &address);
        stats = bench_summary(turns, TURNS);
        printf("a bare answer to a process that %s: %.1f (%.1f..%.1f) us\n", peers[i].name, stats.median, stats.min,
               stats.max);
    }
    return 0;
}
