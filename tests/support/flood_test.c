/* SPDX-License-Identifier: Apache-2.0
 *
 * A flood, in a thread of its own. */
#include "support/flood_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/net_test.h"

#define ROUND_MS   20    /* between two looks at all connections */
#define MADE_MAX   40000 /* in all, so that the flood ends whatever happens */
#define START_SECS 60.0

/* A connection in the making; -1: the task takes none now. */
static int flood_call(const flood *f, int i)
{
    struct sockaddr_in to   = { .sin_family      = AF_INET,
                                .sin_port        = htons((uint16_t)f->port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_in from = { .sin_family = AF_INET };
    int                fd   = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0) return -1;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)(i % (f->n_addresses > 0 ? f->n_addresses : 1)));
    if (bind(fd, (struct sockaddr *)&from, sizeof from) == 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0) {
        return fd;
    }
    close(fd);
    return -1;
}

/* The first bytes of a ClientHello of 512 bytes, of which the rest comes slowly or never. */
static void speak(int fd, bool begin)
{
    static const unsigned char hello[] = { 0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03 };

    (void)!send(fd, begin ? hello : (const unsigned char *)"\0", begin ? sizeof hello : 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void *flood_main(void *arg)
{
    flood *f = arg;
    char   byte;

    while (!atomic_load(&f->stopped) && atomic_load(&f->n_made) < MADE_MAX) {
        for (int i = 0; i < f->n && !atomic_load(&f->stopped); i++) {
            if (f->fds[i] >= 0 && recv(f->fds[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0) {
                close(f->fds[i]);
                f->fds[i] = -1;
            }
            if (f->fds[i] >= 0) {
                if (f->speaks) speak(f->fds[i], false);
                continue;
            }
            f->fds[i] = flood_call(f, i);
            if (f->fds[i] < 0) continue;
            if (f->speaks) speak(f->fds[i], true);
            atomic_fetch_add(&f->n_made, 1);
        }
        poll(NULL, 0, ROUND_MS);
    }
    return NULL;
}

/* The test itself must not run out of descriptors. */
static void raise_limit(int n)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur >= (rlim_t)n) return;
    limit.rlim_cur = (rlim_t)n;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) fail_msg("the hard limit of descriptors (ulimit -Hn) is below %d", n);
}

void flood_start(flood *f)
{
    int64_t until = est_machine_ns() + est_secs_to_ns(START_SECS);

    assert_true(f->n <= FLOOD_MAX);
    raise_limit(f->n + 256);
    for (int i = 0; i < f->n; i++) f->fds[i] = -1;
    atomic_store(&f->n_made, 0);
    atomic_store(&f->stopped, false);
    net_check(est_thread_start(&f->thread, "flood", flood_main, f));
    while (atomic_load(&f->n_made) < f->n) {
        if (est_machine_ns() > until) fail_msg("only %d connections of %d were made", atomic_load(&f->n_made), f->n);
        poll(NULL, 0, ROUND_MS);
    }
}

void flood_stop(flood *f)
{
    atomic_store(&f->stopped, true);
    est_thread_join(&f->thread);
    for (int i = 0; i < f->n; i++) {
        if (f->fds[i] >= 0) close(f->fds[i]);
    }
}
