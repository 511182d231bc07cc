/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads: their name, their signals, what happens when one cannot be started; timed waits; cores. */
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/thread.h"
#include "support/test.h"

/* What a thread finds out about itself; it waits until it has its name. */
typedef struct self_portrait {
    pthread_mutex_t lock;
    pthread_cond_t  named_cond;
    int             named;
    char            name[16];
    sigset_t        blocked;
} self_portrait;

static void *look_at_self(void *arg)
{
    self_portrait *p = arg;

    pthread_mutex_lock(&p->lock);
    while (!p->named) est_cond_wait_ns(&p->named_cond, &p->lock, EST_NS_PER_SEC);
    pthread_mutex_unlock(&p->lock);
    pthread_getname_np(pthread_self(), p->name, sizeof p->name);
    pthread_sigmask(SIG_BLOCK, NULL, &p->blocked);
    return NULL;
}

TEST(name_and_signals)
{
    self_portrait p = { 0 };
    est_thread    thread;
    sigset_t      before, after;

    assert_int_equal(est_lock_init(&p.lock), EST_OK);
    assert_int_equal(est_cond_init(&p.named_cond), EST_OK);
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(est_thread_start(&thread, "est-a-very-long-name", look_at_self, &p), EST_OK);
    pthread_mutex_lock(&p.lock);
    p.named = 1;
    pthread_cond_signal(&p.named_cond);
    pthread_mutex_unlock(&p.lock);
    est_thread_join(&thread);
    pthread_sigmask(SIG_BLOCK, NULL, &after);

    assert_string_equal(p.name, "est-a-very-long");
    assert_true(sigismember(&p.blocked, SIGINT) && sigismember(&p.blocked, SIGTERM));
    assert_int_equal(sigismember(&before, SIGINT), sigismember(&after, SIGINT)); /* the starter keeps its own */
    assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
    pthread_cond_destroy(&p.named_cond);
    pthread_mutex_destroy(&p.lock);
}

TEST(wait_ends)
{
    pthread_mutex_t lock;
    pthread_cond_t  cond;
    int64_t         start;

    assert_int_equal(est_lock_init(&lock), EST_OK);
    assert_int_equal(est_cond_init(&cond), EST_OK);
    pthread_mutex_lock(&lock);
    start = est_machine_ns();
    while (est_machine_ns() - start < 2000000) est_cond_wait_ns(&cond, &lock, 2000000);
    assert_true(est_machine_ns() - start >= 2000000);
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&cond);
    pthread_mutex_destroy(&lock);
}

TEST(machine_clock_is_not_injected)
{
    est_manual_clock manual;
    int64_t          before = est_machine_ns();

    est_manual_clock_init(&manual, 5, 5);
    est_clock_set(&manual.clock);
    assert_true(est_machine_ns() >= before && est_machine_ns() != 5);
    est_clock_set(NULL);
}

TEST(cores)
{
    cpu_set_t all, one;
    int       n = est_cores_allowed();

    assert_true(n >= 1);
    if (sched_getaffinity(0, sizeof all, &all) != 0) skip();
    assert_int_equal(n, CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(est_cores_allowed(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

TEST(faults)
{
#if defined(EST_FAULT_POINTS) && EST_FAULT_POINTS
    est_thread      thread;
    pthread_mutex_t lock;
    pthread_cond_t  cond;

    est_fault_arm(1);
    assert_int_equal(est_thread_start(&thread, "est-none", look_at_self, NULL), EST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(est_error_message(), "est-none"));
    est_fault_arm(1);
    assert_int_equal(est_lock_init(&lock), EST_RESOURCE_EXHAUSTED);
    est_fault_arm(1);
    assert_int_equal(est_cond_init(&cond), EST_RESOURCE_EXHAUSTED);
    est_fault_arm(0);
#else
    (void)state;
    skip();
#endif
}
