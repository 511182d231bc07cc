/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over ranks: every algorithm, sizes that divide evenly and that do not, 1 to 9 ranks on one host and on several,
 * against a plain sum; and the same bits everywhere and every time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fingerprint.h"
#include "support/collective_test.h"
#include "support/sanitized.h"

typedef struct wanted {
    size_t            count;
    est_dtype         dtype;
    est_reduce_op     reduction;
    est_communication communication;
    bool              scatter;
    void             *expected;                     /* by plain sums, once for all ranks */
    uint64_t          prints[COLLECTIVE_RANKS_MAX]; /* of what each rank got */
} wanted;

#define PERIOD 1009

/* Whole numbers, so that sums are exact in any order. They repeat after PERIOD elements. */
static int64_t value(size_t i, int rank)
{
    return (int64_t)((i * 7 + (size_t)rank * 131) % PERIOD) - 500;
}

static int64_t plain_sum(size_t i, int n)
{
    int64_t sum = 0;

    for (int r = 0; r < n; r++) sum += value(i, r);
    return sum;
}

static void put(void *data, size_t i, est_dtype dtype, double x)
{
    if (dtype == EST_F32) ((float *)data)[i] = (float)x;
    if (dtype == EST_F64) ((double *)data)[i] = x;
    if (dtype == EST_I64) ((int64_t *)data)[i] = (int64_t)x;
}

/* Fills a vector with its first PERIOD elements, again and again. */
static void repeat(void *data, size_t count, est_dtype dtype)
{
    size_t size = count * est_dtype_size(dtype), done = PERIOD * est_dtype_size(dtype), n;

    for (; done < size; done += n) {
        n = done < size - done ? done : size - done;
        memcpy((uint8_t *)data + done, data, n);
    }
}

/* What all ranks together must come to, as they store it. */
static void *plain_sums(const wanted *w, int n)
{
    int      divisor = w->reduction == EST_REDUCE_OP_MEAN ? n : 1;
    uint8_t *out     = malloc(w->count * est_dtype_size(w->dtype) + 1);

    for (size_t i = 0; i < w->count && i < PERIOD; i++) {
        int64_t sum = plain_sum(i, n);

        if (w->dtype == EST_F32) ((float *)(void *)out)[i] = (float)sum / (float)divisor;
        if (w->dtype == EST_F64) ((double *)(void *)out)[i] = (double)sum / divisor;
        if (w->dtype == EST_I64) ((int64_t *)(void *)out)[i] = sum / divisor;
    }
    repeat(out, w->count, w->dtype);
    return out;
}

static void reduce(collective_rank *r)
{
    const wanted          *w       = r->arg;
    int                    n       = r->test->n;
    size_t                 element = est_dtype_size(w->dtype), first = 0, end = w->count;
    uint8_t               *data    = malloc(w->count * element + 1);
    est_collective_options options = { .communication = w->communication };
    est_work              *work    = NULL;

    for (size_t i = 0; i < w->count && i < PERIOD; i++) put(data, i, w->dtype, (double)value(i, r->rank));
    repeat(data, w->count, w->dtype);
    data[w->count * element] = 0x5a;
    if (w->scatter) {
        first = est_segment_begin(w->count, n, r->rank);
        end   = est_segment_begin(w->count, n, r->rank + 1);
        collective_check(
            r, collective_finish(est_reduce_scatter(r->group, data, w->count, w->dtype, w->reduction, &options, &work),
                                 &work));
    } else {
        collective_check(
            r, collective_finish(est_all_reduce(r->group, data, w->count, w->dtype, w->reduction, &options, &work),
                                 &work));
    }
    if (memcmp(data + first * element, (uint8_t *)w->expected + first * element, (end - first) * element) != 0) {
        collective_fail(r, "%s of %zu %s: the sum is wrong", est_communication_name(w->communication), w->count,
                        est_dtype_name(w->dtype));
    }
    if (data[w->count * element] != 0x5a) collective_fail(r, "something was written after the end");
    free(data);
}

static void reduce_all(collective_test *t, wanted w)
{
    w.expected = plain_sums(&w, t->n);
    collective_run(t, reduce, &w);
    free(w.expected);
}

static const est_communication algorithms[] = { EST_COMMUNICATION_AUTO,         EST_COMMUNICATION_RING,
                                                EST_COMMUNICATION_HALVING,      EST_COMMUNICATION_DIRECT,
                                                EST_COMMUNICATION_HIERARCHICAL, EST_COMMUNICATION_SHARED };

#define N_ALGORITHMS (int)(sizeof algorithms / sizeof algorithms[0])

/* Made-up hosts: how the ranks are spread over them. */
typedef enum spread { MULTI_WORKER, IN_PAIRS, IN_TURNS, FIRST_ALONE, APART, N_SPREADS } spread;

static void spread_out(collective_test *t, spread s)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i" };

    for (int i = 0; i < t->n; i++) {
        int place[N_SPREADS] = { [IN_PAIRS] = i / 2, [IN_TURNS] = i % 2, [FIRST_ALONE] = i > 0, [APART] = i };

        t->hosts[i] = names[place[s]];
    }
}

static void all_sizes(collective_test *t, est_communication algorithm)
{
    static const size_t    counts[] = { 0, 1, 3, 8, 1000, 4099, 150001, 1 << 21 };
    static const est_dtype dtypes[] = { EST_F32, EST_F64, EST_I64 };

    for (int i = 0; i < 8; i++) {
        if (counts[i] > 10000 && EST_TEST_SANITIZED && t->n > 3) continue; /* a sanitizer looks at every element */
        if (counts[i] > 200000 && algorithm == EST_COMMUNICATION_DIRECT) continue; /* n - 1 times 8 MiB from each */
        if (counts[i] > 200000 && algorithm == EST_COMMUNICATION_HIERARCHICAL && t->n > 4) continue; /* to one rank */
        for (int d = 0; d < 3; d++) {
            wanted w = { .count = counts[i], .dtype = dtypes[d], .communication = algorithm };

            if (counts[i] > 10000 && dtypes[d] != EST_F32) continue; /* bytes are what counts here */
            reduce_all(t, w);
            w.reduction = EST_REDUCE_OP_MEAN;
            reduce_all(t, w);
            w.scatter = true;
            reduce_all(t, w);
        }
    }
}

TEST(sums)
{
    for (int n = 1; n <= COLLECTIVE_RANKS_MAX; n++) {
        collective_test t;

        collective_start(&t, "tcp", n);
        collective_join(&t, NULL);
        for (int a = 0; a < N_ALGORITHMS; a++) all_sizes(&t, algorithms[a]);
        collective_stop(&t);
    }
}

TEST(hosts)
{
    for (int n = 2; n <= COLLECTIVE_RANKS_MAX; n++) {
        for (spread s = MULTI_WORKER; s < N_SPREADS; s++) {
            collective_test t;

            collective_start(&t, "tcp", n);
            spread_out(&t, s);
            collective_join(&t, NULL);
            all_sizes(&t, EST_COMMUNICATION_HIERARCHICAL);
            collective_stop(&t);
        }
    }
}

static void expect_topology(int n, spread s, est_topology topology, est_communication choice)
{
    collective_test t;

    collective_start(&t, "tcp", n);
    spread_out(&t, s);
    collective_join(&t, NULL);
    for (int i = 0; i < n; i++) assert_int_equal(est_group_topology(t.ranks[i].group), topology);
    assert_int_equal(est_collective_choose(n, 1 << 20, topology), choice);
    collective_stop(&t);
}

TEST(topology)
{
    expect_topology(1, MULTI_WORKER, EST_TOPOLOGY_APART, EST_COMMUNICATION_RING);
    expect_topology(3, APART, EST_TOPOLOGY_APART, EST_COMMUNICATION_RING);
    expect_topology(3, MULTI_WORKER, EST_TOPOLOGY_ONE_HOST, EST_COMMUNICATION_SHARED);
    expect_topology(3, IN_PAIRS, EST_TOPOLOGY_MIXED, EST_COMMUNICATION_HIERARCHICAL);
    expect_topology(4, IN_TURNS, EST_TOPOLOGY_MIXED, EST_COMMUNICATION_HIERARCHICAL);
    expect_topology(4, FIRST_ALONE, EST_TOPOLOGY_MIXED, EST_COMMUNICATION_HIERARCHICAL);
}

/* Over what is encrypted and what shares memory, fewer. */
TEST(transports)
{
    for (int i = 1, last = net_test_n_transports(); i < last; i++) {
        collective_test t;

        collective_start(&t, net_test_transports[i], 3);
        collective_join(&t, NULL);
        for (int a = 0; a < N_ALGORITHMS; a++) {
            wanted w = { .count = 700001, .dtype = EST_F32, .communication = algorithms[a] };

            reduce_all(&t, w);
            w.count = 100;
            reduce_all(&t, w);
        }
        collective_stop(&t);
    }
}

TEST(64_mib)
{
    wanted          w = { .count = 16 << 20, .dtype = EST_F32, .communication = EST_COMMUNICATION_AUTO };
    collective_test t;

    collective_start(&t, "tcp", 3);
    collective_join(&t, NULL);
    reduce_all(&t, w);
    collective_stop(&t);
}

/* Numbers whose sum depends on the order of adding. */
static void reduce_inexact(collective_rank *r)
{
    wanted                *w       = r->arg;
    float                 *data    = malloc(w->count * sizeof *data);
    est_collective_options options = { .communication = w->communication };
    est_work              *work    = NULL;

    for (size_t i = 0; i < w->count; i++) data[i] = 1.0f / (float)(i % 1000 + 1) * (r->rank % 2 == 0 ? 1e3f : 1e-3f);
    collective_check(
        r, collective_finish(est_all_reduce(r->group, data, w->count, EST_F32, EST_REDUCE_OP_MEAN, &options, &work),
                             &work));
    w->prints[r->rank] = est_fingerprint64(data, w->count * sizeof *data);
    free(data);
}

TEST(bits)
{
    for (int n = 2; n <= 7; n++) {
        for (int a = 1; a < N_ALGORITHMS; a++) {
            uint64_t first = 0;

            for (int round = 0; round < 2; round++) { /* two groups: nothing may depend on when things come */
                wanted          w = { .count = EST_TEST_SANITIZED ? 20011 : 200003, .communication = algorithms[a] };
                collective_test t;

                collective_start(&t, "tcp", n);
                if (algorithms[a] == EST_COMMUNICATION_HIERARCHICAL) spread_out(&t, IN_PAIRS);
                collective_join(&t, NULL);
                collective_run(&t, reduce_inexact, &w);
                for (int i = 1; i < n; i++) assert_int_equal(w.prints[i], w.prints[0]);
                if (round > 0) assert_int_equal(w.prints[0], first);
                first = w.prints[0];
                collective_stop(&t);
            }
        }
    }
}

/* Several under way, of different sizes, waited for in another order than they were begun in. */
static void reduce_many(collective_rank *r)
{
    static const size_t counts[] = { 300000, 5, 0, 80000, 1, 1000000, 4000, 64, 200000, 9 };
    int64_t            *data[10];
    est_work           *works[10];
    int                 n = r->test->n;

    for (int k = 0; k < 10; k++) {
        est_collective_options options = { .communication = algorithms[k % N_ALGORITHMS] };

        data[k] = malloc(counts[k] * sizeof *data[k] + 1);
        for (size_t i = 0; i < counts[k]; i++) data[k][i] = value(i + (size_t)k, r->rank);
        works[k] = NULL;
        collective_check(r,
                         est_all_reduce(r->group, data[k], counts[k], EST_I64, EST_REDUCE_OP_SUM, &options, &works[k]));
    }
    for (int j = 0; j < 10; j++) {
        int k = j * 7 % 10;

        if (works[k] != NULL) collective_check(r, est_work_wait(works[k]));
        for (size_t i = 0; i < counts[k]; i++) {
            if (data[k][i] != plain_sum(i + (size_t)k, n)) {
                collective_fail(r, "work %d: element %zu is wrong", k, i);
                break;
            }
        }
        free(data[k]);
    }
}

TEST(many_under_way)
{
    for (int n = 2; n <= 5; n++) {
        collective_test t;

        collective_start(&t, "tcp", n);
        collective_join(&t, NULL);
        collective_run(&t, reduce_many, NULL);
        collective_stop(&t);
    }
}

/* What rank 0 has begun goes on without it: the others, who wait for the sum, come to the barrier in which it is. */
static void reduce_unattended(collective_rank *r)
{
    const wanted          *w       = r->arg;
    est_collective_options options = { .communication = w->communication };
    float                 *data    = malloc(w->count * sizeof *data);
    est_work              *sum = NULL, *barrier = NULL;

    for (size_t i = 0; i < w->count; i++) data[i] = (float)value(i, r->rank);
    collective_check(r, est_all_reduce(r->group, data, w->count, EST_F32, EST_REDUCE_OP_SUM, &options, &sum));
    if (r->rank != 0 && sum != NULL) collective_check(r, est_work_wait(sum));
    collective_check(r, collective_finish(est_barrier(r->group, NULL, &barrier), &barrier));
    if (r->rank == 0 && sum != NULL) collective_check(r, est_work_wait(sum));
    for (size_t i = 0; i < w->count; i += 997) {
        if (data[i] != (float)plain_sum(i, r->test->n)) collective_fail(r, "element %zu is wrong", i);
    }
    free(data);
}

TEST(unattended)
{
    for (int a = 1; a < N_ALGORITHMS; a++) {
        wanted          w = { .count = 3000000, .communication = algorithms[a] };
        collective_test t;

        collective_start(&t, "tcp", 3);
        collective_join(&t, NULL);
        collective_run(&t, reduce_unattended, &w);
        w.count = 20;
        collective_run(&t, reduce_unattended, &w);
        collective_stop(&t);
    }
}

/* Ranks of several hosts have no memory in common. */
static void reduce_shared(collective_rank *r)
{
    est_collective_options options = { .communication = EST_COMMUNICATION_SHARED };
    float                  x       = 1;
    est_work              *work    = NULL;

    collective_expect(r, est_all_reduce(r->group, &x, 1, EST_F32, EST_REDUCE_OP_SUM, &options, &work),
                      EST_FAILED_PRECONDITION, "needs all ranks on one host");
}

TEST(not_shared)
{
    collective_test t;

    collective_start(&t, "tcp", 3);
    spread_out(&t, FIRST_ALONE);
    collective_join(&t, NULL);
    collective_run(&t, reduce_shared, NULL);
    collective_stop(&t);
}

int main(void)
{
    return est_test_run(net_test_setup, net_test_teardown);
}
