/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads, on POSIX. */
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault.h"

est_status est_thread_start(est_thread *thread, const char *name, est_thread_fn fn, void *arg)
{
    sigset_t all, before;
    char     shown[16];
    int      error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = EST_FAULT_POINT("thread.start") ? EAGAIN : pthread_create(&thread->id, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        return est_fail(EST_RESOURCE_EXHAUSTED, "cannot start the thread %s: %s", name, strerror(error));
    }
    snprintf(shown, sizeof shown, "%s", name);
    pthread_setname_np(thread->id, shown);
    return EST_OK;
}

void est_thread_join(est_thread *thread)
{
    pthread_join(thread->id, NULL);
}

int est_cores_allowed(void)
{
    int n_cores = 1;

    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
        cpu_set_t *set  = CPU_ALLOC(cpus);
        size_t     size = CPU_ALLOC_SIZE(cpus);
        bool       fits = set != NULL && sched_getaffinity(0, size, set) == 0;

        if (fits) n_cores = CPU_COUNT_S(size, set);
        CPU_FREE(set);
        if (fits || set == NULL || errno != EINVAL) break;
    }
    return n_cores > 0 ? n_cores : 1;
}

int64_t est_machine_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * EST_NS_PER_SEC + t.tv_nsec;
}

est_status est_lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t kind;
    int                 error = EST_FAULT_POINT("thread.lock") ? ENOMEM : pthread_mutexattr_init(&kind);

    if (error == 0) {
        pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP);
        error = pthread_mutex_init(lock, &kind);
        pthread_mutexattr_destroy(&kind);
    }
    return error == 0 ? EST_OK : est_fail(EST_RESOURCE_EXHAUSTED, "cannot make a lock: %s", strerror(error));
}

est_status est_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t kind;
    int                error = EST_FAULT_POINT("thread.cond") ? ENOMEM : pthread_condattr_init(&kind);

    if (error == 0) {
        pthread_condattr_setclock(&kind, CLOCK_MONOTONIC);
        error = pthread_cond_init(cond, &kind);
        pthread_condattr_destroy(&kind);
    }
    return error == 0 ? EST_OK : est_fail(EST_RESOURCE_EXHAUSTED, "cannot make a condition: %s", strerror(error));
}

void est_cond_wait_ns(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ns)
{
    int64_t         until = est_machine_ns() + ns;
    struct timespec t     = { .tv_sec = (time_t)(until / EST_NS_PER_SEC), .tv_nsec = (long)(until % EST_NS_PER_SEC) };

    pthread_cond_timedwait(cond, lock, &t);
}
