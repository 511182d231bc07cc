/* SPDX-License-Identifier: Apache-2.0
 *
 * What is copied between ranks and not added: gathering, also of different lengths, broadcasting, barriers. */
#include <stdlib.h>
#include <string.h>

#include "support/collective_test.h"
#include "support/sanitized.h"

static const est_communication algorithms[] = { EST_COMMUNICATION_AUTO, EST_COMMUNICATION_RING,
                                                EST_COMMUNICATION_HALVING, EST_COMMUNICATION_DIRECT };

typedef struct wanted {
    size_t            bytes;
    est_communication communication;
    int               root;
    bool              in_place;
} wanted;

static uint8_t value(size_t i, int rank)
{
    return (uint8_t)(i * 31 + (i >> 9) + (size_t)rank * 57 + 1);
}

static void fill(uint8_t *data, size_t bytes, int rank)
{
    for (size_t i = 0; i < bytes; i++) data[i] = value(i, rank);
}

static void expect(collective_rank *r, const uint8_t *data, size_t bytes, int rank)
{
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] != value(i, rank)) {
            collective_fail(r, "byte %zu of %zu from rank %d is wrong", i, bytes, rank);
            return;
        }
    }
}

static void gather(collective_rank *r)
{
    const wanted          *w   = r->arg;
    int                    n   = r->test->n;
    uint8_t               *all = calloc(w->bytes * (size_t)n + 1, 1), *own = malloc(w->bytes + 1), *mine = own;
    est_collective_options options = { .communication = w->communication };
    est_work              *work;

    if (w->in_place) mine = all + w->bytes * (size_t)r->rank;
    fill(mine, w->bytes, r->rank);
    collective_check(r, collective_finish(est_all_gather(r->group, mine, w->bytes, all, &options, &work), &work));
    for (int i = 0; i < n; i++) expect(r, all + w->bytes * (size_t)i, w->bytes, i);
    free(own);
    free(all);
}

/* Rank i has this many bytes: none at one, a different number everywhere else. */
static size_t uneven(size_t bytes, int rank)
{
    return rank % 3 == 1 ? 0 : bytes / (size_t)(rank + 1) + (size_t)rank;
}

static void gather_uneven(collective_rank *r)
{
    const wanted          *w    = r->arg;
    size_t                 mine = uneven(w->bytes, r->rank), at = 0;
    uint8_t               *own     = malloc(mine + 1);
    est_gathered           all     = { 0 };
    est_collective_options options = { .communication = w->communication };
    est_work              *work;

    fill(own, mine, r->rank);
    collective_check(r, collective_finish(est_all_gather_uneven(r->group, own, mine, &all, &options, &work), &work));
    for (int i = 0; i < r->test->n && r->error[0] == '\0'; i++) {
        if (all.begins[i] != at) collective_fail(r, "rank %d begins at %zu instead of %zu", i, all.begins[i], at);
        expect(r, (uint8_t *)all.data + at, uneven(w->bytes, i), i);
        at += uneven(w->bytes, i);
    }
    if (r->error[0] == '\0' && all.begins[r->test->n] != at)
        collective_fail(r, "%zu bytes in all", all.begins[r->test->n]);
    est_gathered_clear(&all);
    free(own);
}

static void broadcast(collective_rank *r)
{
    const wanted          *w       = r->arg;
    uint8_t               *data    = malloc(w->bytes + 1);
    est_collective_options options = { .communication = w->communication };
    est_work              *work;

    fill(data, w->bytes, r->rank);
    collective_check(r, collective_finish(est_broadcast(r->group, data, w->bytes, w->root, &options, &work), &work));
    expect(r, data, w->bytes, w->root);
    free(data);
}

#define N_SIZES 8

TEST(copies)
{
    static const size_t sizes[N_SIZES] = { 0, 1, 3, 1000, 16385, 262144, 600001, 3000000 };

    for (int n = 1; n <= COLLECTIVE_RANKS_MAX; n++) {
        collective_test t;

        collective_start(&t, "tcp", n);
        collective_join(&t, NULL);
        for (int k = 0; k < N_SIZES * 4; k++) {
            wanted w = { .bytes         = sizes[k % N_SIZES],
                         .communication = algorithms[k / N_SIZES],
                         .root          = k % n,
                         .in_place      = k % 2 == 0 };

            if (w.bytes > 100000 && (n % 2 == 0 || (EST_TEST_SANITIZED && n > 3))) continue; /* these take long */
            collective_run(&t, gather, &w);
            collective_run(&t, gather_uneven, &w);
            collective_run(&t, broadcast, &w);
        }
        collective_stop(&t);
    }
}

/* Of ranks on one host nothing of this goes over the network. */
static void gather_here(collective_rank *r)
{
    static const size_t sizes[] = { 8, 1000000 };
    int                 before  = collective_blocks(r);

    for (int k = 0; k < 2; k++) {
        wanted w = { .bytes = sizes[k] };

        r->arg = &w;
        gather(r);
        gather_uneven(r);
    }
    if (collective_blocks(r) != before) collective_fail(r, "%d blocks came", collective_blocks(r) - before);
}

TEST(shared)
{
    collective_test t;

    collective_start(&t, "tcp", 3);
    collective_join(&t, NULL);
    collective_run(&t, gather_here, NULL);
    collective_stop(&t);
}

/* Many gatherings and sums under way, of which later ones are begun before the lengths of earlier ones are known. */
#define N_MIXED 12

static void gather_and_sum(collective_rank *r)
{
    size_t       mine         = 70001 * (size_t)(r->rank + 1);
    uint8_t     *own          = malloc(mine);
    est_gathered all[N_MIXED] = { { 0 } };
    est_work    *works[N_MIXED];
    double       sums[N_MIXED];

    fill(own, mine, r->rank);
    for (int k = 0; k < N_MIXED; k++) {
        sums[k] = k + r->rank;
        collective_check(r, k % 3 == 2
                                ? est_all_reduce(r->group, &sums[k], 1, EST_F64, EST_REDUCE_OP_SUM, NULL, &works[k])
                                : est_all_gather_uneven(r->group, own, k % 3 == 0 ? mine : 10 * (size_t)r->rank,
                                                        &all[k], NULL, &works[k]));
    }
    for (int k = N_MIXED - 1; k >= 0 && r->error[0] == '\0'; k--) { /* the last first */
        collective_check(r, est_work_wait(works[k]));
        if (k % 3 == 2 && sums[k] != 3 * k + 3) collective_fail(r, "sum %d is %g", k, sums[k]);
        for (int i = 0; i < 3 && k % 3 != 2 && r->error[0] == '\0'; i++) {
            size_t bytes = k % 3 == 0 ? 70001 * (size_t)(i + 1) : 10 * (size_t)i;

            if (all[k].begins[i + 1] - all[k].begins[i] != bytes) collective_fail(r, "lengths of %d are wrong", k);
            expect(r, (uint8_t *)all[k].data + all[k].begins[i], bytes, i);
        }
        est_gathered_clear(&all[k]);
    }
    free(own);
}

TEST(mixed)
{
    for (int apart = 0; apart < 2; apart++) {
        collective_test t;

        collective_apart = apart != 0;
        collective_start(&t, "tcp", 3);
        collective_join(&t, NULL);
        collective_run(&t, gather_and_sum, NULL);
        collective_stop(&t);
    }
    collective_apart = false;
}

/* Nobody is through a barrier before all have come to it. */
static void cross(collective_rank *r)
{
    static int             come[2];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    for (int round = 0; round < 50; round++) {
        est_work *work;
        int       before;

        pthread_mutex_lock(&lock);
        come[round % 2]++;
        pthread_mutex_unlock(&lock);
        collective_check(r, collective_finish(est_barrier(r->group, NULL, &work), &work));
        pthread_mutex_lock(&lock);
        before = come[round % 2];
        pthread_mutex_unlock(&lock);
        if (before % r->test->n != 0) collective_fail(r, "%d had come to barrier %d", before, round);
    }
    pthread_mutex_lock(&lock); /* for the next number of ranks */
    come[0] = come[1] = 0;
    pthread_mutex_unlock(&lock);
}

TEST(barrier)
{
    for (int n = 1; n <= COLLECTIVE_RANKS_MAX; n++) {
        collective_test t;

        collective_start(&t, "tcp", n);
        collective_join(&t, NULL);
        collective_run(&t, cross, NULL);
        collective_stop(&t);
    }
}

int main(void)
{
    return est_test_run(net_test_setup, net_test_teardown);
}
