/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs done ahead: the order of what comes out, whatever the number of workers and the length of work; errors and ends
 * in their place; pausing, adding and freeing at every moment; pulls that block. Work is made longer by counting, never
 * by sleeping. Made to be run under ThreadSanitizer too. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/thread.h"
#include "data/parallel_jobs.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define JOBS 300

typedef struct job {
    int64_t value;
    int64_t square; /* what work makes */
    char   *held;   /* freed by clear: lost ones are seen by the leak checker */
} job;

/* A source of numbers, and what is to go wrong in it. Pull alone writes `next`; the engine must keep calls apart. */
typedef struct source {
    int64_t  next;
    int64_t  n;
    int64_t  fail_pull; /* at this number; -1: never */
    int64_t  fail_work;
    int64_t  fail_work_too;
    uint64_t seed; /* of the length of work; 0: none */
    int      workers;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t  cond;
    int64_t         pulls_allowed; /* pull blocks beyond it; -1: never */
    int64_t         in_pull;       /* threads */
    int64_t         in_work;
    int64_t         works_begun;
    int64_t         bad_workers;
    bool            work_blocks;
} source;

static void source_init(source *s, int64_t n)
{
    *s = (source){ .n = n, .fail_pull = -1, .fail_work = -1, .fail_work_too = -1, .pulls_allowed = -1 };
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->cond, NULL);
}

static void source_destroy(source *s)
{
    pthread_cond_destroy(&s->cond);
    pthread_mutex_destroy(&s->lock);
}

static void check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static est_status pull(void *user, void *to)
{
    source *s = user;
    job    *j = to;

    pthread_mutex_lock(&s->lock);
    s->in_pull++;
    pthread_cond_broadcast(&s->cond);
    while (s->pulls_allowed >= 0 && s->next >= s->pulls_allowed) pthread_cond_wait(&s->cond, &s->lock);
    s->in_pull--;
    pthread_mutex_unlock(&s->lock);
    if (s->next == s->fail_pull) return est_fail(EST_DATA_LOSS, "pull %" PRId64, s->next);
    if (s->next == s->n) return EST_OUT_OF_RANGE;
    assert(j->held == NULL && j->square == 0);
    j->held = est_alloc(8);
    if (j->held == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory in pull");
    j->value = s->next++;
    return EST_OK;
}

/* Keeps the core busy for a number of rounds that only the value and the seed say. */
static void busy(uint64_t seed, int64_t value)
{
    uint64_t          x = seed * 0x9e3779b97f4a7c15u + (uint64_t)value * 0xbf58476d1ce4e5b9u;
    volatile uint64_t sink;

    if (seed == 0) return;
    x ^= x >> 29;
    for (uint64_t rounds = x % 8 == 0 ? x % 60000 : x % 600; rounds > 0; rounds--) x = x * 6364136223846793005u + 1;
    sink = x;
    (void)sink;
}

static est_status work(void *user, int worker, void *to)
{
    source *s = user;
    job    *j = to;

    pthread_mutex_lock(&s->lock);
    s->in_work++;
    s->works_begun++;
    if (worker < 0 || worker >= s->workers) s->bad_workers++;
    pthread_cond_broadcast(&s->cond);
    while (s->work_blocks) pthread_cond_wait(&s->cond, &s->lock);
    s->in_work--;
    pthread_mutex_unlock(&s->lock);
    busy(s->seed, j->value);
    if (j->value == s->fail_work || j->value == s->fail_work_too) {
        return est_fail(EST_INVALID_ARGUMENT, "work %" PRId64, j->value);
    }
    j->square = j->value * j->value;
    return EST_OK;
}

static void clear(void *user, void *to)
{
    job *j = to;

    (void)user;
    est_free(j->held);
    *j = (job){ 0 };
}

static est_parallel_spec spec_of(source *s, int workers, int64_t capacity, bool unordered)
{
    s->workers = workers > 0 ? workers : 1;
    return (est_parallel_spec){ .name      = "test",
                                .user      = s,
                                .workers   = workers,
                                .capacity  = capacity,
                                .unordered = unordered,
                                .job_size  = sizeof(job),
                                .pull      = pull,
                                .work      = work,
                                .clear     = clear };
}

static est_parallel *make(source *s, int workers, int64_t capacity, bool unordered)
{
    est_parallel_spec spec = spec_of(s, workers, capacity, unordered);
    est_parallel     *p    = NULL;

    check(est_parallel_create(&spec, &p));
    assert_int_equal(est_parallel_workers(p), s->workers);
    return p;
}

static void expect_next(est_parallel *p, int64_t value)
{
    void *got;

    check(est_parallel_next(p, &got));
    assert_int_equal(((job *)got)->value, value);
    assert_int_equal(((job *)got)->square, value * value);
    est_parallel_done(p, got);
}

static void expect_end(est_parallel *p)
{
    void *got;

    assert_int_equal(est_parallel_next(p, &got), EST_OUT_OF_RANGE);
    assert_int_equal(est_parallel_next(p, &got), EST_OUT_OF_RANGE);
}

TEST(order)
{
    const int64_t capacities[] = { 0, 1, 2, 7, 100 };

    for (int workers = 0; workers <= 8; workers++) {
        for (size_t c = 0; c < sizeof capacities / sizeof capacities[0]; c++) {
            for (uint64_t seed = 0; seed < 2; seed++) {
                est_parallel *p;
                source        s;

                source_init(&s, JOBS);
                s.seed = seed;
                p      = make(&s, workers, capacities[c], false);
                for (int64_t i = 0; i < JOBS; i++) expect_next(p, i);
                expect_end(p);
                est_parallel_free(p);
                assert_int_equal(s.bad_workers, 0);
                source_destroy(&s);
            }
        }
    }
}

TEST(unordered)
{
    for (int workers = 0; workers <= 8; workers++) {
        int           seen[JOBS] = { 0 };
        est_parallel *p;
        source        s;

        source_init(&s, JOBS);
        s.seed = 5;
        p      = make(&s, workers, 0, true);
        for (int64_t i = 0; i < JOBS; i++) {
            void *got;
            job  *j;

            check(est_parallel_next(p, &got));
            j = got;
            assert_in_range(j->value, 0, JOBS - 1);
            assert_int_equal(j->square, j->value * j->value);
            seen[j->value]++;
            est_parallel_done(p, got);
        }
        expect_end(p);
        for (int i = 0; i < JOBS; i++) assert_int_equal(seen[i], 1);
        est_parallel_free(p);
        source_destroy(&s);
    }
}

/* Several jobs may be in the consumer's hands, and come back in any order. */
TEST(jobs_kept)
{
    est_parallel *p;
    source        s;
    void         *got[3];

    source_init(&s, 20);
    p = make(&s, 2, 4, false);
    for (int i = 0; i < 3; i++) check(est_parallel_next(p, &got[i]));
    for (int i = 0; i < 3; i++) assert_int_equal(((job *)got[i])->value, i);
    est_parallel_done(p, got[1]);
    est_parallel_done(p, got[2]);
    expect_next(p, 3);
    assert_int_equal(((job *)got[0])->value, 0);
    est_parallel_done(p, got[0]);
    for (int64_t i = 4; i < 20; i++) expect_next(p, i);
    expect_end(p);
    est_parallel_free(p);
    source_destroy(&s);
}

static void expect_error(est_parallel *p, est_status status, const char *text)
{
    void *got;

    for (int i = 0; i < 2; i++) { /* it stays */
        assert_int_equal(est_parallel_next(p, &got), status);
        assert_string_equal(est_error_message(), text);
    }
}

TEST(errors_in_place)
{
    const int64_t at[] = { 0, 1, 7, 31, 50 };

    for (int workers = 0; workers <= 4; workers++) {
        for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
            for (int kind = 0; kind < 3; kind++) {
                est_parallel *p;
                source        s;
                char          text[32];

                source_init(&s, 60);
                s.seed = 11;
                if (kind == 0) s.fail_pull = at[i];
                if (kind != 0) s.fail_work = at[i];
                if (kind == 2) s.fail_work_too = at[i] + 1; /* which may well be noticed first */
                p = make(&s, workers, 5, false);
                for (int64_t k = 0; k < at[i]; k++) expect_next(p, k);
                snprintf(text, sizeof text, "%s %" PRId64, kind == 0 ? "pull" : "work", at[i]);
                expect_error(p, kind == 0 ? EST_DATA_LOSS : EST_INVALID_ARGUMENT, text);
                est_parallel_free(p);
                source_destroy(&s);
            }
        }
    }
}

TEST(unordered_error)
{
    est_parallel *p;
    source        s;
    void         *got;
    est_status    status;
    int64_t       n = 0;

    source_init(&s, 60);
    s.fail_work = 20;
    p           = make(&s, 3, 8, true);
    while ((status = est_parallel_next(p, &got)) == EST_OK) {
        est_parallel_done(p, got);
        n++;
    }
    assert_int_equal(status, EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), "work 20");
    assert_in_range(n, 13, 28); /* at most 8 were on their way */
    est_parallel_free(p);
    source_destroy(&s);
}

/* Waits until `n` calls stand in pull or work. */
static void await(source *s, const int64_t *count, int64_t n)
{
    int64_t deadline = est_machine_ns() + INT64_C(20000000000);

    pthread_mutex_lock(&s->lock);
    while (*count < n) {
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_sec++;
        pthread_cond_timedwait(&s->cond, &s->lock, &t);
        if (est_machine_ns() > deadline) fail_msg("nothing happened for 20 s");
    }
    pthread_mutex_unlock(&s->lock);
}

static void allow(source *s, int64_t pulls, bool work_blocks)
{
    pthread_mutex_lock(&s->lock);
    s->pulls_allowed = pulls;
    s->work_blocks   = work_blocks;
    pthread_cond_broadcast(&s->cond);
    pthread_mutex_unlock(&s->lock);
}

/* Frees after every number of jobs taken: threads are then in pull, in work, before a full ring, or done. */
TEST(free_anytime)
{
    for (int workers = 0; workers <= 4; workers++) {
        for (int64_t taken = 0; taken <= 12; taken++) {
            est_parallel *p;
            source        s;
            void         *kept = NULL;

            source_init(&s, 11);
            s.seed = (uint64_t)taken;
            p      = make(&s, workers, 3, taken % 2 == 1);
            for (int64_t i = 0; i < taken && i < 11; i++) {
                if (kept != NULL) est_parallel_done(p, kept);
                check(est_parallel_next(p, &kept));
            }
            if (taken == 12) expect_end(p);
            est_parallel_free(p); /* one job is still in our hands */
            source_destroy(&s);
        }
    }
}

/* Lets blocked calls go on, before or after the other thread began to free the engine. */
static void *let_go(void *arg)
{
    allow(arg, -1, false);
    return NULL;
}

TEST(free_while_blocked)
{
    for (int in_work = 0; in_work < 2; in_work++) {
        est_parallel *p;
        source        s;
        est_thread    thread;

        source_init(&s, JOBS);
        s.pulls_allowed = 3;
        p               = make(&s, 2, 8, false);
        expect_next(p, 0);
        if (in_work) {
            allow(&s, 4, true);
            await(&s, &s.in_work, 1);
        } else {
            await(&s, &s.in_pull, 1);
        }
        check(est_thread_start(&thread, "est-let-go", let_go, &s));
        est_parallel_free(p);
        est_thread_join(&thread);
        assert_true(s.next <= 1 + 8);
        source_destroy(&s);
    }
}

/* What was pulled before a pull that blocks comes out: a source may wait for its own elements to be used. */
TEST(blocked_pull_holds_nothing_back)
{
    for (int workers = 1; workers <= 3; workers++) {
        est_parallel *p;
        source        s;

        source_init(&s, 200);
        s.pulls_allowed = 1;
        p               = make(&s, workers, 0, false);
        for (int64_t i = 0; i < 200; i++) {
            expect_next(p, i);
            if (i < 20 || i % 50 == 49) allow(&s, i < 19 ? i + 2 : i + 51, false);
        }
        expect_end(p);
        est_parallel_free(p);
        source_destroy(&s);
    }
}

/* Lets work go on once two workers are in it. */
static void *let_two_go(void *arg)
{
    source *s = arg;

    await(s, &s->in_work, 2);
    allow(s, -1, false);
    return NULL;
}

/* A long job after short ones: another worker helps, though the short ones did not need it. */
TEST(long_job_gets_help)
{
    est_parallel *p;
    source        s;
    est_thread    thread;
    int64_t       begun;

    source_init(&s, 1000);
    p = make(&s, 3, 8, false);
    for (int64_t i = 0; i < 500; i++) expect_next(p, i);
    pthread_mutex_lock(&s.lock);
    s.work_blocks = true;
    begun         = s.works_begun;
    pthread_mutex_unlock(&s.lock);
    for (int64_t i = 500; i < begun - 1; i++) expect_next(p, i);
    check(est_thread_start(&thread, "est-let-go", let_two_go, &s));
    for (int64_t i = begun > 500 ? begun - 1 : 500; i < 1000; i++) expect_next(p, i);
    est_thread_join(&thread);
    expect_end(p);
    est_parallel_free(p);
    source_destroy(&s);
}

/* --- pausing ------------------------------------------------------------------------------------------------------ */

typedef struct listing {
    int64_t    value[JOBS + 1];
    int        n;
    int64_t    pulled; /* from the source so far */
    est_status end;
    char       text[64];
} listing;

static est_status list_job(void *arg, void *to, est_status status)
{
    listing *l = arg;
    job     *j = to;

    if (j == NULL) {
        l->end = status;
        snprintf(l->text, sizeof l->text, "%s", est_error_message());
        return EST_OK;
    }
    assert_int_equal(j->square, j->value * j->value);
    l->value[l->n++] = j->value;
    return EST_OK;
}

static void pause_and_list(est_parallel *p, source *s, listing *l)
{
    *l = (listing){ 0 };
    est_parallel_pause(p);
    l->pulled = s->next; /* nobody else touches it now: ThreadSanitizer would tell */
    check(est_parallel_each(p, list_job, l));
    assert_int_equal(s->next, l->pulled);
    est_parallel_resume(p);
}

TEST(pause)
{
    for (int workers = 0; workers <= 5; workers++) {
        est_parallel *p;
        source        s;
        listing      *l = malloc(sizeof *l);

        source_init(&s, 100);
        s.seed = 3;
        p      = make(&s, workers, 6, false);
        for (int64_t i = 0; i < 100; i++) {
            pause_and_list(p, &s, l);
            assert_in_range(l->n, 0, 6);
            for (int k = 0; k < l->n; k++) assert_int_equal(l->value[k], i + k);
            assert_int_equal(i + l->n, l->pulled);
            expect_next(p, i);
        }
        expect_end(p);
        pause_and_list(p, &s, l);
        assert_int_equal(l->n, 0);
        assert_int_equal(l->end, EST_OUT_OF_RANGE);
        est_parallel_free(p);
        source_destroy(&s);
        free(l);
    }
}

TEST(pause_sees_error)
{
    est_parallel *p;
    source        s;
    listing      *l = malloc(sizeof *l);

    source_init(&s, 100);
    s.fail_work = 4;
    p           = make(&s, 2, 50, false);
    expect_next(p, 0);
    for (int64_t i = 1; i < 4; i++) expect_next(p, i);
    expect_error(p, EST_INVALID_ARGUMENT, "work 4");
    pause_and_list(p, &s, l);
    assert_int_equal(l->n, 0);
    assert_int_equal(l->end, EST_INVALID_ARGUMENT);
    assert_string_equal(l->text, "work 4");
    expect_error(p, EST_INVALID_ARGUMENT, "work 4");
    est_parallel_free(p);
    source_destroy(&s);
    free(l);
}

TEST(add_finished)
{
    for (int workers = 0; workers <= 3; workers++) {
        for (int64_t added = 0; added < 20; added += 3) {
            est_parallel *p;
            source        s;
            listing      *l = malloc(sizeof *l);

            source_init(&s, 40);
            s.next = added;
            p      = make(&s, workers, 4, workers == 3);
            for (int64_t i = 0; i < added; i++) {
                void *to;

                check(est_parallel_add_finished(p, &to));
                *(job *)to = (job){ .value = i, .square = i * i, .held = est_alloc(8) };
            }
            pause_and_list(p, &s, l);
            assert_int_equal(l->n, added);
            for (int64_t i = 0; i < (workers == 3 ? added : 40); i++) expect_next(p, i);
            est_parallel_free(p);
            source_destroy(&s);
            free(l);
        }
    }
}

/* --- what can fail ------------------------------------------------------------------------------------------------ */

/* Takes everything; whatever fails, it fails with the right status and nothing is lost. */
static est_status run_all(int workers)
{
    est_parallel_spec spec;
    est_parallel     *p = NULL;
    source            s;
    est_status        status;
    void             *got;

    source_init(&s, 12);
    spec   = spec_of(&s, workers, 3, false);
    status = est_parallel_create(&spec, &p);
    if (status == EST_OK) {
        for (int i = 0; i < 5 && status == EST_OK; i++) { /* more than there is room for */
            status = est_parallel_add_finished(p, &got);
        }
    }
    for (int64_t i = 0; status == EST_OK; i++) {
        status = est_parallel_next(p, &got);
        if (status == EST_OK) {
            assert_int_equal(((job *)got)->value, i < 5 ? 0 : i - 5);
            est_parallel_done(p, got);
        }
    }
    est_parallel_free(p);
    source_destroy(&s);
    return status;
}

TEST(every_allocation)
{
    for (int workers = 0; workers <= 2; workers++) {
        FAULT_LOOP(f, FAULT_ALLOCATIONS) {
            est_status status;

            fault_arm(&f);
            status = run_all(workers);
            assert_int_equal(status, fault_end(&f) ? EST_RESOURCE_EXHAUSTED : EST_OUT_OF_RANGE);
        }
    }
}

TEST(every_fault_point)
{
    FAULT_LOOP(f, FAULT_POINTS) {
        est_status status;

        fault_arm(&f);
        status = run_all(3);
        if (est_fault_fired()) assert_non_null(strstr(est_fault_name(), "thread."));
        assert_int_equal(status, fault_end(&f) ? EST_RESOURCE_EXHAUSTED : EST_OUT_OF_RANGE);
    }
}

TEST(arguments)
{
    est_parallel_spec spec;
    est_parallel     *p = NULL;
    source            s;

    source_init(&s, 1);
    spec = spec_of(&s, -7, 0, false);
    assert_int_equal(est_parallel_create(&spec, &p), EST_INVALID_ARGUMENT);
    assert_null(p);
    spec = spec_of(&s, 1, INT64_MAX / 2, false);
    assert_int_equal(est_parallel_create(&spec, &p), EST_RESOURCE_EXHAUSTED);
    spec = spec_of(&s, EST_AUTO, 0, false);
    check(est_parallel_create(&spec, &p));
    assert_int_equal(est_parallel_workers(p), est_cores_allowed());
    est_parallel_free(p);
    est_parallel_free(NULL);
    source_destroy(&s);
}
