/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool: every task runs exactly once, on a thread in range, before est_pool_for returns; whatever the number of
 * threads, nesting, and whether workers poll or sleep. Made to be run under ThreadSanitizer too. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/pool.h"
#include "support/test.h"

#define THREADS_MAX 8
#define TASKS_MAX   5000

/* Plain memory, no atomics: a task owns its entry, and the pool must order it against the caller. */
typedef struct tally {
    est_pool *pool;
    int       times[TASKS_MAX];
    int       threads_max;
    int       bad_thread[TASKS_MAX];
} tally;

static void count_task(void *arg, int64_t task, int thread)
{
    tally *t = arg;

    t->times[task]++;
    t->bad_thread[task] = thread < 0 || thread >= t->threads_max;
}

static void check_tally(const tally *t, int64_t n)
{
    for (int64_t i = 0; i < TASKS_MAX; i++) assert_int_equal(t->times[i], i < n ? 1 : 0);
    for (int64_t i = 0; i < n; i++) assert_int_equal(t->bad_thread[i], 0);
}

static est_pool *pool_of(int n_threads)
{
    est_pool *pool = NULL;

    assert_int_equal(est_pool_create(n_threads, &pool), EST_OK);
    assert_int_equal(est_pool_threads(pool), n_threads);
    return pool;
}

TEST(each_task_once)
{
    const int64_t counts[] = { 0, 1, 2, 3, 7, 64, 1000, TASKS_MAX };
    tally        *t        = malloc(sizeof *t);

    for (int n_threads = 1; n_threads <= THREADS_MAX; n_threads++) {
        est_pool *pool = pool_of(n_threads);

        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            memset(t, 0, sizeof *t);
            t->threads_max = n_threads;
            est_pool_for(pool, counts[c], count_task, t);
            check_tally(t, counts[c]);
        }
        est_pool_free(pool);
    }
    free(t);
}

TEST(no_pool_runs_inline)
{
    tally *t = calloc(1, sizeof *t);

    t->threads_max = 1;
    assert_int_equal(est_pool_threads(NULL), 1);
    est_pool_for(NULL, 10, count_task, t);
    check_tally(t, 10);
    est_pool_for(NULL, -5, count_task, t);
    check_tally(t, 10);
    est_pool_free(NULL);
    free(t);
}

/* Many small loops, each one's result needed by the next: a stale description or an early return would show. */
static void add_task(void *arg, int64_t task, int thread)
{
    int64_t *sums = arg;

    (void)thread;
    sums[task] += task + 1;
}

TEST(many_small_loops)
{
    const int loops = 20000;

    for (int n_threads = 1; n_threads <= THREADS_MAX; n_threads += 1 + (n_threads >= 2)) {
        est_pool *pool          = pool_of(n_threads);
        int64_t   sums[2][16]   = { { 0 } };
        int64_t   wanted[2][16] = { { 0 } };

        for (int loop = 0; loop < loops; loop++) {
            int n = loop % 16 + 1;

            est_pool_for(pool, n, add_task, sums[loop % 2]);
            for (int i = 0; i < n; i++) wanted[loop % 2][i] += i + 1;
            if (loop % 1000 == 0) assert_memory_equal(sums, wanted, sizeof sums);
        }
        assert_memory_equal(sums, wanted, sizeof sums);
        est_pool_free(pool);
    }
}

/* A sum by tasks does not depend on the number of threads: partial sums by task, added in task order. */
typedef struct float_sum {
    const float *x;
    float        part[64];
} float_sum;

static void sum_task(void *arg, int64_t task, int thread)
{
    float_sum *s = arg;

    (void)thread;
    s->part[task] = 0;
    for (int i = 0; i < 1000; i++) s->part[task] += s->x[task * 1000 + i];
}

TEST(same_sum_for_any_number_of_threads)
{
    static float x[64000];
    float        first = 0;

    for (int i = 0; i < 64000; i++) x[i] = 1.0f / (float)(i + 1);
    for (int n_threads = 1; n_threads <= THREADS_MAX; n_threads++) {
        est_pool *pool  = pool_of(n_threads);
        float_sum s     = { .x = x };
        float     total = 0;

        est_pool_for(pool, 64, sum_task, &s);
        for (int i = 0; i < 64; i++) total += s.part[i];
        if (n_threads == 1) first = total;
        assert_memory_equal(&total, &first, sizeof total);
        est_pool_free(pool);
    }
}

typedef struct nest {
    est_pool *pool;
    int       depth;
    int       outer_thread;
    int       wrong_thread;
    int       leaves;
} nest;

static void nest_task(void *arg, int64_t task, int thread)
{
    nest *outer = (nest *)arg + task;
    nest  inner[3];

    outer->wrong_thread += outer->outer_thread >= 0 && outer->outer_thread != thread;
    if (outer->depth == 0) {
        outer->leaves++;
        return;
    }
    for (int i = 0; i < 3; i++) inner[i] = (nest){ outer->pool, outer->depth - 1, thread, 0, 0 };
    est_pool_for(outer->pool, 3, nest_task, inner);
    for (int i = 0; i < 3; i++) {
        outer->leaves += inner[i].leaves;
        outer->wrong_thread += inner[i].wrong_thread;
    }
}

TEST(nested_loops_run_inline)
{
    for (int n_threads = 1; n_threads <= THREADS_MAX; n_threads++) {
        est_pool *pool = pool_of(n_threads);
        nest      outer[20];

        for (int round = 0; round < 50; round++) {
            for (int i = 0; i < 20; i++) outer[i] = (nest){ pool, 3, -1, 0, 0 };
            est_pool_for(pool, 20, nest_task, outer);
            for (int i = 0; i < 20; i++) {
                assert_int_equal(outer[i].leaves, 27);
                assert_int_equal(outer[i].wrong_thread, 0);
            }
        }
        est_pool_free(pool);
    }
}

/* Tasks of very unequal length; the caller runs out of work and has to wait, at times asleep. */
static void uneven_task(void *arg, int64_t task, int thread)
{
    int64_t *done = arg;
    int64_t  end  = est_now_ns() + (task % 7 == 3 ? 1500000 : 5000);

    (void)thread;
    while (est_now_ns() < end) continue;
    done[task] = end;
}

TEST(waits_for_the_slowest)
{
    for (int n_threads = 2; n_threads <= THREADS_MAX; n_threads += 3) {
        est_pool *pool = pool_of(n_threads);

        for (int round = 0; round < 20; round++) {
            int64_t done[8] = { 0 };

            est_pool_for(pool, 8, uneven_task, done);
            for (int i = 0; i < 8; i++) assert_true(done[i] > 0 && done[i] <= est_now_ns());
        }
        est_pool_free(pool);
    }
}

/* Pauses between loops, so that workers are caught polling, falling asleep, and asleep. */
TEST(workers_come_back_from_sleep)
{
    est_pool *pool     = pool_of(4);
    int64_t   sums[16] = { 0 };

    for (int loop = 0; loop < 600; loop++) {
        int64_t end = est_now_ns() + loop * 700 % 230000;

        while (est_now_ns() < end) continue;
        est_pool_for(pool, 16, add_task, sums);
    }
    for (int i = 0; i < 16; i++) assert_int_equal(sums[i], 600 * (i + 1));
    est_pool_free(pool);
}

/* Two tasks that each wait for the other: ends only if both run at once. */
typedef struct rendezvous {
    pthread_mutex_t lock; /* guards here */
    pthread_cond_t  changed;
    int             here;
    int             met[2];
} rendezvous;

static void meet_task(void *arg, int64_t task, int thread)
{
    rendezvous     *m = arg;
    struct timespec deadline;

    (void)thread;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 60;
    pthread_mutex_lock(&m->lock);
    m->here++;
    pthread_cond_broadcast(&m->changed);
    while (m->here < 2 && pthread_cond_timedwait(&m->changed, &m->lock, &deadline) == 0) continue;
    m->met[task] = m->here == 2;
    pthread_mutex_unlock(&m->lock);
}

TEST(tasks_run_at_the_same_time)
{
    est_pool *pool = pool_of(2);

    for (int round = 0; round < 20; round++) {
        rendezvous m = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

        est_pool_for(pool, 2, meet_task, &m);
        assert_true(m.met[0] && m.met[1]);
    }
    est_pool_free(pool);
}

/* A pool used inside another one's task is a pool like any other. */
static void other_pool_task(void *arg, int64_t task, int thread)
{
    tally *t = (tally *)arg + task;

    (void)thread;
    est_pool_for(t->pool, 100, count_task, t);
    count_task(t, 100, 0);
}

TEST(a_pool_inside_another)
{
    est_pool *outer = pool_of(2);
    tally    *t     = calloc(2, sizeof *t);

    for (int i = 0; i < 2; i++) {
        t[i].pool        = pool_of(3);
        t[i].threads_max = 3;
    }
    est_pool_for(outer, 2, other_pool_task, t);
    for (int i = 0; i < 2; i++) {
        check_tally(&t[i], 101);
        est_pool_free(t[i].pool);
    }
    est_pool_free(outer);
    free(t);
}

/* The pool may be used by one thread after another. */
static void *use_pool(void *arg)
{
    tally *t = arg;

    est_pool_for(t->pool, 500, count_task, t);
    return NULL;
}

TEST(callers_take_turns)
{
    tally *t = calloc(1, sizeof *t);

    t->pool        = pool_of(3);
    t->threads_max = 3;
    for (int round = 1; round <= 5; round++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, use_pool, t), 0);
        pthread_join(thread, NULL);
        for (int i = 0; i < 500; i++) assert_int_equal(t->times[i], round);
    }
    est_pool_free(t->pool);
    free(t);
}

TEST(loops_allocate_nothing)
{
    est_pool *pool     = pool_of(4);
    int64_t   sums[16] = { 0 };
    uint64_t  before   = est_alloc_count();

    for (int loop = 0; loop < 100; loop++) est_pool_for(pool, 16, add_task, sums);
    assert_int_equal(est_alloc_count(), before);
    est_pool_free(pool);
}

TEST(environment)
{
    const char *const wrong[] = { "0", "-1", "two", "3x", "99999999" };
    est_pool         *pool    = NULL;

    setenv("ESTOC_NUM_THREADS", "3", 1);
    assert_int_equal(est_pool_create(0, &pool), EST_OK);
    assert_int_equal(est_pool_threads(pool), 3);
    est_pool_free(pool);

    pool = pool_of(2); /* a number given by the program wins */
    est_pool_free(pool);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv("ESTOC_NUM_THREADS", wrong[i], 1);
        assert_int_equal(est_pool_create(0, &pool), EST_INVALID_ARGUMENT);
        assert_non_null(strstr(est_error_message(), wrong[i]));
    }
    unsetenv("ESTOC_NUM_THREADS");
    assert_int_equal(est_pool_create(0, &pool), EST_OK);
    assert_true(est_pool_threads(pool) >= 1);
    est_pool_free(pool);
    assert_int_equal(est_pool_create(-1, &pool), EST_INVALID_ARGUMENT);
}

static void name_task(void *arg, int64_t task, int thread)
{
    char(*names)[16] = arg;

    (void)task;
    pthread_getname_np(pthread_self(), names[thread], sizeof names[thread]);
}

TEST(threads_are_named)
{
    est_pool *pool         = pool_of(3);
    char      names[3][16] = { "", "est-pool-1", "est-pool-2" };

    for (int loop = 0; loop < 200; loop++) est_pool_for(pool, 64, name_task, names);
    assert_string_equal(names[1], "est-pool-1");
    assert_string_equal(names[2], "est-pool-2");
    est_pool_free(pool);
}

TEST(memory_out)
{
    est_pool *pool = NULL;

    est_fault_arm_alloc(1);
    assert_int_equal(est_pool_create(4, &pool), EST_RESOURCE_EXHAUSTED);
    assert_null(pool);
    est_fault_arm_alloc(0);
}

TEST(create_and_free_at_once)
{
    for (int i = 0; i < 200; i++) est_pool_free(pool_of(i % THREADS_MAX + 1));
}
