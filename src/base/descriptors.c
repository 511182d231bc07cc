/* SPDX-License-Identifier: Apache-2.0
 *
 * The limit of open files: raises it once, and tells when descriptors run out. */
#include "base/descriptors.h"

#include <limits.h>
#include <pthread.h>
#include <sys/resource.h>

/* Enough for the links and files of any task; with a limit of a million, closing all of them would be slow. */
#define RAISE_MAX   16384
#define RESERVE_MIN 16
#define RESERVE_MAX 256

static void raise_limit(void)
{
    struct rlimit limit;
    rlim_t        wanted;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    wanted = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > RAISE_MAX ? RAISE_MAX : limit.rlim_max;
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= wanted) return;
    limit.rlim_cur = wanted;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* without it there are fewer */
}

void est_descriptors_raise(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, raise_limit);
}

int est_descriptors_max(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return RAISE_MAX;
    return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT_MAX ? INT_MAX : (int)limit.rlim_cur;
}

bool est_descriptors_scarce(int fd)
{
    int max = est_descriptors_max(), reserve = max / 8;

    reserve = reserve < RESERVE_MIN ? RESERVE_MIN : reserve > RESERVE_MAX ? RESERVE_MAX : reserve;
    return fd >= max - reserve;
}
