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

static void test_copies(void **state)
{
    static const size_t sizes[] = { 0, 1, 3, 1000, 16385, 600001, 3000000 };

    (void)state;
    for (int n = 1; n <= COLLECTIVE_RANKS_MAX; n++) {
        collective_test t;

        collective_start(&t, "tcp", n);
        collective_join(&t, NULL);
        for (int k = 0; k < 7 * 4; k++) {
            wanted w = {
                .bytes = sizes[k % 7], .communication = algorithms[k / 7], .root = k % n, .in_place = k % 2 == 0
            };

            if (w.bytes > 100000 && (n % 2 == 0 || (EST_TEST_SANITIZED && n > 3))) continue; /* these take long */
            collective_run(&t, gather, &w);
            collective_run(&t, gather_uneven, &w);
            collective_run(&t, broadcast, &w);
        }
        collective_stop(&t);
    }
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

static void test_barrier(void **state)
{
    (void)state;
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_copies), cmocka_unit_test(test_barrier) };

    return cmocka_run_group_tests(tests, net_test_setup, net_test_teardown);
}
