/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread pool. How a loop is handed out:
 *
 * One 64-bit word, the ticket, holds the loop's number in its upper half and the count of tasks nobody has taken yet in
 * its lower half. The caller writes the loop's description, then publishes a ticket; a thread takes tasks by lowering
 * the count with compare-and-swap. The invariants:
 *
 *   TP1  The description changes only while the count in the ticket is 0 and all tasks taken are done.
 *   TP2  A thread uses a description only after its compare-and-swap from a count above 0 succeeded. A thread that was
 *       late and read the description of a newer loop has read it after the ticket changed, so its swap fails.
 *   TP3  `pending` counts tasks not yet done; a thread subtracts what it did once, when it finds nothing left to take.
 *       The caller returns when it is 0, so no task runs after est_pool_for has returned.
 *
 * So the caller never waits for a worker that took nothing, and a worker that sleeps through a loop does no harm.
 *
 * Polling or sleeping: a wake-up costs the caller a few microseconds on a bare machine and fifty on a virtual one,
 * where an idle core must be brought back by the host. A worker polls for about twice that long (waiting as long as the
 * fare costs before paying it is never far from the best one could do). It does not poll for a while after another
 * thread pushed it off its core while it polled, and no thread polls on a core where the one it waits for should run.
 *
 * Sleeping is by futex. A sleeper announces itself, then looks at the ticket again; the caller publishes the ticket,
 * then looks for sleepers; both in sequentially consistent order, so one of them sees the other. */
#include "base/pool.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"

#define THREADS_MAX       1024
#define LOOP_TASKS_MAX    (INT64_C(1) << 31) /* of one ticket; longer loops are run in pieces */
#define CHUNKS_PER_THREAD 8                  /* a taker gets 1/(8 threads) of what is left, at least one task */

#define POLL_NS_MIN  30000 /* an idle worker polls for twice what a wake-up costs the caller, within these bounds */
#define POLL_NS_MAX  100000
#define FINISH_NS    500000  /* how long the caller polls for the last tasks of others */
#define POLL_PAUSES  16      /* between two looks at the clock: about a microsecond */
#define LOST_CORE_NS 100000  /* two looks this far apart: something else ran on our core */
#define NO_POLL_NS   2000000 /* how long a thread that another one pushed off its core goes to sleep at once */

typedef struct worker {
    _Alignas(64) atomic_int cpu; /* where it runs tasks; -1: it does not */
    est_pool  *pool;
    est_thread thread;
    int        index;
} worker;

/* When a thread last was pushed off its core, to know whether it may poll. */
typedef struct poller {
    int64_t no_poll_until;
    long    switches; /* involuntary context switches seen so far */
} poller;

struct est_pool {
    /* Read by idle workers; one cache line. */
    _Alignas(64) atomic_uint_least64_t ticket;
    est_task_fn _Atomic   fn;
    void *_Atomic         arg;
    atomic_int_least64_t  first;   /* number of the ticket's first task */
    atomic_uint_least32_t n_tasks; /* of the ticket */
    atomic_int            caller_cpu;
    atomic_bool           stop;

    /* Written by threads at the end of a loop. */
    _Alignas(64) atomic_uint_least32_t pending;
    atomic_uint_least32_t caller_sleeps;

    /* Written by threads around sleep. */
    _Alignas(64) atomic_uint_least32_t signal; /* futex word: changes with every wake-up */
    atomic_uint_least32_t sleepers;
    atomic_int_least64_t  wake_ns; /* cost of a wake-up for the caller, smoothed */

    /* Written only by the caller, or fixed after creation. */
    _Alignas(64) atomic_bool busy;
    uint32_t loop; /* number of the last published loop */
    poller   caller;
    int      n_threads;
    bool     may_poll;  /* no more threads than cores */
    worker   workers[]; /* [n_threads - 1] */
};

/* Which pool's task this thread is running, and as which thread of it. */
static _Thread_local struct {
    est_pool *pool;
    int       thread;
} inside;

static void futex_wait(atomic_uint_least32_t *word, uint32_t expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_uint_least32_t *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static uint32_t ticket_left(uint64_t ticket)
{
    return (uint32_t)ticket;
}

/* Takes and runs tasks as thread `index` until none are left; subtracts the tasks done from `pending`. */
static void pool_work(est_pool *pool, int index)
{
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    uint32_t done   = 0;

    while (ticket_left(ticket) > 0) {
        /* Acquire, so that a newer description is never seen with an older ticket (TP2). */
        est_task_fn fn    = atomic_load_explicit(&pool->fn, memory_order_acquire);
        void       *arg   = atomic_load_explicit(&pool->arg, memory_order_acquire);
        int64_t     first = atomic_load_explicit(&pool->first, memory_order_acquire);
        uint32_t    n     = atomic_load_explicit(&pool->n_tasks, memory_order_acquire);
        uint32_t    left  = ticket_left(ticket);
        uint32_t    take  = left / (CHUNKS_PER_THREAD * (uint32_t)pool->n_threads);

        if (take == 0) take = 1;
        if (!atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket - take, memory_order_acq_rel,
                                                   memory_order_acquire)) {
            continue;
        }
        for (uint32_t i = 0; i < take; i++) fn(arg, first + (n - left) + i, index);
        done += take;
        ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    }
    if (done == 0) return;
    if (atomic_fetch_sub(&pool->pending, done) == done && atomic_load(&pool->caller_sleeps) != 0) {
        futex_wake(&pool->pending, 1);
    }
}

static bool worker_has_news(est_pool *pool)
{
    return ticket_left(atomic_load_explicit(&pool->ticket, memory_order_acquire)) > 0 ||
           atomic_load_explicit(&pool->stop, memory_order_acquire);
}

static bool loop_is_done(est_pool *pool)
{
    return atomic_load_explicit(&pool->pending, memory_order_acquire) == 0;
}

/* The clock jumped while this thread polled. If another thread of this machine was the reason, polling would delay it;
 * if the host took the core away, there was no context switch and polling continues. */
static void poller_note_jump(poller *self, int64_t now)
{
    struct rusage usage;

    if (getrusage(RUSAGE_THREAD, &usage) != 0) return;
    if (usage.ru_nivcsw != self->switches) self->no_poll_until = now + NO_POLL_NS;
    self->switches = usage.ru_nivcsw;
}

/* The caller runs on this worker's core. */
static bool core_is_callers(est_pool *pool)
{
    return atomic_load_explicit(&pool->caller_cpu, memory_order_relaxed) == sched_getcpu();
}

/* A worker with unfinished tasks runs, or would run, on the caller's core. */
static bool core_is_workers(est_pool *pool)
{
    int cpu = sched_getcpu();

    for (int i = 0; i < pool->n_threads - 1; i++) {
        if (atomic_load_explicit(&pool->workers[i].cpu, memory_order_relaxed) == cpu) return true;
    }
    return false;
}

typedef bool (*pool_condition)(est_pool *pool);

/* Polls until `ready`; false on timeout, when another thread needs the core, or while polling is off. */
static bool poll_for(est_pool *pool, pool_condition ready, pool_condition core_wanted, int64_t limit_ns, poller *self)
{
    int64_t start, before, now;

    if (ready(pool)) return true;
    if (!pool->may_poll) return false;
    start = before = est_machine_ns();
    while (start >= self->no_poll_until) {
        for (int i = 0; i < POLL_PAUSES; i++) {
            est_cpu_pause();
            if (ready(pool)) return true;
        }
        now = est_machine_ns();
        if (now - before > LOST_CORE_NS) poller_note_jump(self, now);
        if (now - start > limit_ns || core_wanted(pool)) return false;
        before = now;
    }
    return false;
}

/* How long a worker polls. */
static int64_t worker_poll_ns(const est_pool *pool)
{
    int64_t ns = 2 * atomic_load_explicit(&pool->wake_ns, memory_order_relaxed);

    return ns < POLL_NS_MIN ? POLL_NS_MIN : ns > POLL_NS_MAX ? POLL_NS_MAX : ns;
}

static void worker_sleep(est_pool *pool)
{
    uint32_t signal_seen;

    atomic_fetch_add(&pool->sleepers, 1);
    for (;;) {
        signal_seen = atomic_load(&pool->signal);
        if (ticket_left(atomic_load(&pool->ticket)) > 0 || atomic_load(&pool->stop)) break;
        futex_wait(&pool->signal, signal_seen);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
}

static void *worker_main(void *arg)
{
    worker   *self = arg;
    est_pool *pool = self->pool;
    poller    own  = { 0 };

    inside.pool   = pool;
    inside.thread = self->index;
    while (!atomic_load_explicit(&pool->stop, memory_order_acquire)) {
        atomic_store_explicit(&self->cpu, sched_getcpu(), memory_order_relaxed);
        pool_work(pool, self->index);
        atomic_store_explicit(&self->cpu, -1, memory_order_relaxed);
        if (!poll_for(pool, worker_has_news, core_is_callers, worker_poll_ns(pool), &own)) worker_sleep(pool);
    }
    return NULL;
}

/* Wakes up to n sleepers, if there are any. Comes after the store that gives them something to see. */
static void pool_wake(est_pool *pool, uint32_t n)
{
    uint32_t sleepers = atomic_load(&pool->sleepers);
    int64_t  start, cost, average;

    if (sleepers == 0) return;
    start = est_machine_ns();
    atomic_fetch_add(&pool->signal, 1);
    futex_wake(&pool->signal, (int)(n < sleepers ? n : sleepers));
    cost = est_machine_ns() - start;
    if (cost > LOST_CORE_NS) return; /* the woken thread took our core: not what a wake-up costs */
    average = atomic_load_explicit(&pool->wake_ns, memory_order_relaxed);
    atomic_store_explicit(&pool->wake_ns, average + (cost - average) / 8, memory_order_relaxed);
}

/* Waits until all tasks are done; the caller has found none left to take. */
static void pool_finish(est_pool *pool)
{
    uint32_t pending;

    if (poll_for(pool, loop_is_done, core_is_workers, FINISH_NS, &pool->caller)) return;
    atomic_store(&pool->caller_sleeps, 1);
    while ((pending = atomic_load(&pool->pending)) != 0) futex_wait(&pool->pending, pending);
    atomic_store(&pool->caller_sleeps, 0);
}

/* Runs tasks first .. first + n - 1 on all threads. */
static void pool_run(est_pool *pool, int64_t first, uint32_t n, est_task_fn fn, void *arg)
{
    /* Release: a thread that reads one of these values also sees that the previous ticket is used up (TP2). */
    atomic_store_explicit(&pool->fn, fn, memory_order_release);
    atomic_store_explicit(&pool->arg, arg, memory_order_release);
    atomic_store_explicit(&pool->first, first, memory_order_release);
    atomic_store_explicit(&pool->n_tasks, n, memory_order_release);
    atomic_store_explicit(&pool->caller_cpu, sched_getcpu(), memory_order_relaxed);
    atomic_store_explicit(&pool->pending, n, memory_order_relaxed);
    atomic_store(&pool->ticket, (uint64_t)++pool->loop << 32 | n);
    pool_wake(pool, n - 1);

    inside.pool   = pool;
    inside.thread = 0;
    pool_work(pool, 0);
    pool_finish(pool);
}

void est_pool_for(est_pool *pool, int64_t n_tasks, est_task_fn fn, void *arg)
{
    bool nested = pool != NULL && inside.pool == pool;

    if (n_tasks <= 0) return;
    if (pool == NULL || nested || pool->n_threads == 1 || n_tasks == 1) {
        int thread = nested ? inside.thread : 0;

        for (int64_t task = 0; task < n_tasks; task++) fn(arg, task, thread);
        return;
    }

    est_pool *outer_pool   = inside.pool;
    int       outer_thread = inside.thread;
    bool      was_busy     = atomic_exchange_explicit(&pool->busy, true, memory_order_acquire);

    assert(!was_busy && "est_pool_for: two threads at once");
    (void)was_busy;
    for (int64_t first = 0; first < n_tasks; first += LOOP_TASKS_MAX) {
        int64_t n = n_tasks - first < LOOP_TASKS_MAX ? n_tasks - first : LOOP_TASKS_MAX;

        pool_run(pool, first, (uint32_t)n, fn, arg);
    }
    atomic_store_explicit(&pool->busy, false, memory_order_release);
    inside.pool   = outer_pool;
    inside.thread = outer_thread;
}

int est_pool_threads(const est_pool *pool)
{
    return pool != NULL ? pool->n_threads : 1;
}

/* The value of ESTOC_NUM_THREADS; `fallback` when it is unset. */
static est_status threads_from_environment(int fallback, int *out)
{
    const char *text = getenv("ESTOC_NUM_THREADS");
    char       *end;
    long        n;

    if (text == NULL || *text == '\0') {
        *out = fallback < THREADS_MAX ? fallback : THREADS_MAX;
        return EST_OK;
    }
    n = strtol(text, &end, 10);
    if (*end != '\0' || n < 1 || n > THREADS_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "ESTOC_NUM_THREADS is \"%s\"; expected a number from 1 to %d", text,
                        THREADS_MAX);
    }
    *out = (int)n;
    return EST_OK;
}

/* Tells the first n workers to end and waits for them. */
static void workers_join(est_pool *pool, int n)
{
    atomic_store(&pool->stop, true);
    pool_wake(pool, INT_MAX);
    for (int i = 0; i < n; i++) est_thread_join(&pool->workers[i].thread);
}

static est_status worker_start(worker *self)
{
    char name[16];

    snprintf(name, sizeof name, "est-pool-%d", self->index);
    return est_thread_start(&self->thread, name, worker_main, self);
}

est_status est_pool_create(int n_threads, est_pool **out)
{
    int        n_cores = est_cores_allowed();
    est_pool  *pool;
    est_status status;
    size_t     bytes;

    if (n_threads < 0 || n_threads > THREADS_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "a pool of %d threads; expected 0 to %d", n_threads, THREADS_MAX);
    }
    if (n_threads == 0) EST_TRY(threads_from_environment(n_cores, &n_threads));

    bytes = sizeof *pool + (size_t)(n_threads - 1) * sizeof pool->workers[0];
    pool  = est_alloc_aligned(bytes);
    if (pool == NULL) return est_no_memory();
    memset(pool, 0, bytes);
    pool->n_threads = n_threads;
    pool->may_poll  = n_threads <= n_cores;

    for (int i = 0; i < n_threads - 1; i++) {
        pool->workers[i] = (worker){ .cpu = -1, .pool = pool, .index = i + 1 };
        status           = worker_start(&pool->workers[i]);
        if (status != EST_OK) {
            workers_join(pool, i);
            est_free_aligned(pool);
            return status;
        }
    }
    *out = pool;
    return EST_OK;
}

void est_pool_free(est_pool *pool)
{
    if (pool == NULL) return;
    workers_join(pool, pool->n_threads - 1);
    est_free_aligned(pool);
}
