/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of the library (named, signals blocked, always joined), and condition variables. Any thread. */
#ifndef EST_BASE_THREAD_H
#define EST_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "estoc/status.h"

typedef struct est_thread {
    pthread_t id;
} est_thread;

/* Returns NULL. */
typedef void *(*est_thread_fn)(void *arg);

/* Runs fn(arg) in a new thread with all signals blocked: they belong to the program's own threads. Of `name`, 15
 * characters are shown by tools. */
EST_MUST_CHECK est_status est_thread_start(est_thread *thread, const char *name, est_thread_fn fn, void *arg);

/* Waits until the thread's function has returned. Once for every thread. */
void est_thread_join(est_thread *thread);

/* Tells the processor that this thread polls. */
static inline void est_cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Cores this process may run on; at least 1. */
int est_cores_allowed(void);

/* Nanoseconds of the machine's monotonic clock. Not est_now_ns: polling and pacing are about the machine, whatever
 * clock a test has injected. */
int64_t est_machine_ns(void);

/* Makes a mutex for sections of a few instructions: it tries a few times before it sleeps. */
EST_MUST_CHECK est_status est_lock_init(pthread_mutex_t *lock);

/* Initializes a condition variable whose timed waits use the monotonic clock. */
EST_MUST_CHECK est_status est_cond_init(pthread_cond_t *cond);

/* Waits for at most that long. As with all condition variables, check the condition again afterwards. */
void est_cond_wait_ns(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ns);

#endif
