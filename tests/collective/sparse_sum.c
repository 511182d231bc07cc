/* SPDX-License-Identifier: Apache-2.0
 *
 * Packs of tensors, and sums of rows by index. */
#include <stdlib.h>
#include <string.h>

#include "support/collective_test.h"

/* --- packs -------------------------------------------------------------------------------------------------------- */

#define N_TENSORS 7

static const size_t    counts[N_TENSORS] = { 10, 1000, 0, 30000, 5, 70, 400 };
static const est_dtype dtypes[N_TENSORS] = { EST_F32, EST_F32, EST_F32, EST_F32, EST_F64, EST_F32, EST_F32 };

static void set(void *data, size_t i, est_dtype dtype, double x)
{
    if (dtype == EST_F32) {
        ((float *)data)[i] = (float)x;
    } else {
        ((double *)data)[i] = x;
    }
}

static double get(const void *data, size_t i, est_dtype dtype)
{
    return dtype == EST_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

static void pack(collective_rank *r)
{
    est_reduced tensors[N_TENSORS];
    int         n = r->test->n;

    for (int t = 0; t < N_TENSORS; t++) {
        tensors[t] = (est_reduced){ malloc(counts[t] * 8 + 1), counts[t], dtypes[t] };
        for (size_t i = 0; i < counts[t]; i++)
            set(tensors[t].data, i, dtypes[t], (double)(i + (size_t)(t * (r->rank + 1))));
    }
    collective_check(r,
                     est_all_reduce_packed(r->group, tensors, N_TENSORS, *(size_t *)r->arg, EST_REDUCE_OP_SUM, NULL));
    for (int t = 0; t < N_TENSORS; t++) {
        for (size_t i = 0; i < counts[t]; i++) {
            if (get(tensors[t].data, i, dtypes[t]) != (double)(i * (size_t)n + (size_t)(t * n * (n + 1) / 2)))
                collective_fail(r, "element %zu of tensor %d is wrong", i, t);
        }
        free(tensors[t].data);
    }
}

TEST(packs)
{
    static size_t bytes_per_pack[] = { 0, 1, 300, 4000, 1 << 20 };

    for (int n = 1; n <= 3; n++) {
        collective_test t;

        collective_start(&t, "tcp", n);
        collective_join(&t, NULL);
        for (int i = 0; i < 5; i++) collective_run(&t, pack, &bytes_per_pack[i]);
        collective_stop(&t);
    }
}

typedef struct cut {
    size_t   bytes_per_pack, first; /* elements of the first tensor; the others have 100 */
    uint64_t packs;
} cut;

/* An operation is a pack. */
static void count_packs(collective_rank *r)
{
    const cut  *c            = r->arg;
    float       data[4][200] = { { 0 } };
    est_reduced tensors[4];

    for (int i = 0; i < 4; i++) tensors[i] = (est_reduced){ data[i], i == 0 ? c->first : 100, EST_F32 };
    collective_check(r, est_all_reduce_packed(r->group, tensors, 4, c->bytes_per_pack, EST_REDUCE_OP_SUM, NULL));
    if (est_group_operations(r->group) != c->packs) {
        collective_fail(r, "%d packs instead of %d", (int)est_group_operations(r->group), (int)c->packs);
    }
}

/* A pack is closed once it has more than that many bytes; the last tensor goes first, which the last two cases show. */
TEST(cut)
{
    static cut cases[] = { { 0, 100, 1 },    { 399, 100, 4 },  { 400, 100, 2 },  { 800, 100, 2 }, { 1199, 100, 2 },
                           { 1200, 100, 1 }, { 9999, 100, 1 }, { 1200, 200, 1 }, { 700, 200, 2 } };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        collective_test t;

        collective_start(&t, "tcp", 2);
        collective_join(&t, NULL);
        collective_run(&t, count_packs, &cases[i]);
        collective_stop(&t);
    }
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

#define ROW 3

static int64_t rows_of(int rank)
{
    return rank % 4 == 2 ? 0 : 5 + 10 * rank;
}

static int64_t index_of(int rank, int64_t i)
{
    return (i * 5 + rank * 3) % 17 + (i % 7 == 0 ? INT64_C(5000000000) : 0);
}

static float row_value(int rank, int64_t i, int k)
{
    return (float)(rank * 100 + i * 2 + k);
}

/* The plain way. */
static double plain(int n, int64_t index, int k)
{
    double sum = 0;

    for (int rank = 0; rank < n; rank++) {
        for (int64_t i = 0; i < rows_of(rank); i++) {
            if (index_of(rank, i) == index) sum += (double)row_value(rank, i, k);
        }
    }
    return sum;
}

static bool has_index(int n, int64_t index)
{
    for (int rank = 0; rank < n; rank++) {
        for (int64_t i = 0; i < rows_of(rank); i++) {
            if (index_of(rank, i) == index) return true;
        }
    }
    return false;
}

typedef struct seen {
    int64_t indices[COLLECTIVE_RANKS_MAX][64];
    int64_t n[COLLECTIVE_RANKS_MAX];
} seen;

static void sum_rows(collective_rank *r)
{
    int64_t          n_rows = rows_of(r->rank), expected = 0;
    int              n    = r->test->n;
    est_indexed_rows rows = { malloc((size_t)n_rows * 8 + 1), malloc((size_t)n_rows * ROW * 4 + 1), n_rows },
                     out  = { 0 };
    seen  *s              = r->arg;
    float *values;

    for (int64_t i = 0; i < n_rows; i++) {
        rows.indices[i] = index_of(r->rank, i);
        for (int k = 0; k < ROW; k++) ((float *)rows.values)[i * ROW + k] = row_value(r->rank, i, k);
    }
    collective_check(r, est_all_reduce_rows(r->group, &rows, ROW, EST_F32, EST_REDUCE_OP_MEAN, NULL, &out));
    values = out.values;
    for (int64_t i = 0; i < out.n; i++) {
        for (int64_t j = 0; j < i; j++) {
            if (out.indices[i] == out.indices[j])
                collective_fail(r, "index %lld comes twice", (long long)out.indices[i]);
        }
        for (int k = 0; k < ROW; k++) {
            if (values[i * ROW + k] != (float)plain(n, out.indices[i], k) / (float)n)
                collective_fail(r, "row %lld is wrong", (long long)out.indices[i]);
        }
        s->indices[r->rank][i] = out.indices[i];
    }
    s->n[r->rank] = out.n;
    for (int64_t index = 0; index < 17; index++)
        expected += has_index(n, index) + has_index(n, index + INT64_C(5000000000));
    if (out.n != expected) collective_fail(r, "%lld rows instead of %lld", (long long)out.n, (long long)expected);
    est_indexed_rows_clear(&out);
    free(rows.indices);
    free(rows.values);
}

TEST(rows)
{
    for (int n = 1; n <= 5; n++) {
        collective_test t;
        seen            s = { 0 };

        collective_start(&t, "tcp", n);
        collective_join(&t, NULL);
        collective_run(&t, sum_rows, &s);
        for (int i = 1; i < n; i++) {
            assert_int_equal(s.n[i], s.n[0]);
            assert_memory_equal(s.indices[i], s.indices[0], (size_t)s.n[0] * 8);
        }
        collective_stop(&t);
    }
}

#define N_TABLES 4

/* Rows of several tables are under way at once, two in each operation, next to a dense sum; the memory that they came
 * from is overwritten before they end, and they end in another order than they were begun in. Of a pair the first is of
 * doubles, with an index twice; the second of three floats a row (no multiple of 8 bytes), each index once, and times
 * 0.5. */
static void begin_pair(collective_rank *r, int t, est_sparse_sum_work **out)
{
    int64_t index[] = { 100 + t, r->rank, 100 + t };
    double  values[3][2];
    float   others[2][3];

    for (int i = 0; i < 6; i++) values[i / 2][i % 2] = 10 * t + i + r->rank;
    for (int i = 0; i < 6; i++) others[i / 3][i % 3] = (float)(2 * i + 4 * r->rank);
    collective_check(
        r, est_sparse_sum_begin(
               r->group,
               (est_sparse_sum_table[]){ { { index, values, 3 }, 2, EST_F64, .factor = 1 },
                                         { { index, others, 2 }, 3, EST_F32, .factor = 0.5, .distinct = true } },
               2, NULL, out));
    memset(index, 0xff, sizeof index);
    memset(values, 0xff, sizeof values);
    memset(others, 0xff, sizeof others);
}

static void end_pair(collective_rank *r, int t, est_sparse_sum_work *work)
{
    int              n      = r->test->n;
    est_indexed_rows out[2] = { { 0 } };
    const double    *sums;
    const float     *others;

    collective_check(r, est_sparse_sum_end(work, EST_REDUCE_OP_SUM, out));
    sums   = out[0].values;
    others = out[1].values;
    if (out[0].n != n + 1 || out[1].n != n + 1) {
        collective_fail(r, "table %d has %lld and %lld rows", t, (long long)out[0].n, (long long)out[1].n);
    } else if (out[0].indices[0] != 100 + t || sums[0] != n * (20 * t + 4) + n * (n - 1)) {
        collective_fail(r, "table %d: the row of all is %lld, %g", t, (long long)out[0].indices[0], sums[0]);
    } else if (out[0].indices[n] != n - 1 || sums[2 * n + 1] != 10 * t + 3 + n - 1) {
        collective_fail(r, "table %d: the row of the last rank is %lld, %g", t, (long long)out[0].indices[n],
                        sums[2 * n + 1]);
    } else if (out[1].indices[0] != 100 + t || others[2] != (float)(2 * n + n * (n - 1))) {
        collective_fail(r, "table %d: the other row of all is %lld, %g", t, (long long)out[1].indices[0],
                        (double)others[2]);
    } else if (out[1].indices[n] != n - 1 || others[3 * n] != (float)(3 + 2 * (n - 1))) {
        collective_fail(r, "table %d: the other row of the last rank is %lld, %g", t, (long long)out[1].indices[n],
                        (double)others[3 * n]);
    }
    est_indexed_rows_clear(&out[0]);
    est_indexed_rows_clear(&out[1]);
}

static void many_tables(collective_rank *r)
{
    double               dense[2]        = { 1, (double)r->rank };
    est_sparse_sum_work *works[N_TABLES] = { NULL };
    est_work            *work            = NULL;

    for (int t = 0; t < N_TABLES; t++) begin_pair(r, t, &works[t]);
    collective_check(
        r, collective_finish(est_all_reduce(r->group, dense, 2, EST_F64, EST_REDUCE_OP_SUM, NULL, &work), &work));
    if (dense[0] != r->test->n) collective_fail(r, "the dense sum is %g", dense[0]);
    for (int t = N_TABLES - 1; t >= 0; t--) {
        if (works[t] == NULL) return;
        end_pair(r, t, works[t]);
    }
}

TEST(many_tables)
{
    for (int n = 1; n <= 3; n++) {
        collective_test t;

        collective_start(&t, "tcp", n);
        collective_join(&t, NULL);
        collective_run(&t, many_tables, NULL);
        collective_stop(&t);
    }
}

/* Begun, and then the group ends: the end says why, writes nothing and leaks nothing. */
static void rows_aborted(collective_rank *r)
{
    int64_t              index = 1;
    double               value = 2;
    est_sparse_sum_table table = { { &index, &value, 1 }, 1, EST_F64, .factor = 1 };
    est_indexed_rows     out   = { 0 };
    est_sparse_sum_work *work  = NULL;

    if (r->rank == 0) {
        est_group_abort(r->group, "no more rows");
        return;
    }
    if (est_sparse_sum_begin(r->group, &table, 1, NULL, &work) == EST_OK)
        collective_expect(r, est_sparse_sum_end(work, EST_REDUCE_OP_SUM, &out), EST_ABORTED, "no more rows");
    if (out.indices != NULL) collective_fail(r, "there are rows after a failure");
}

TEST(rows_aborted)
{
    collective_test t;

    collective_start(&t, "tcp", 2);
    collective_join(&t, NULL);
    collective_run(&t, rows_aborted, NULL);
    collective_stop(&t);
}

static void no_rows(collective_rank *r)
{
    est_indexed_rows none = { 0 }, out = { 0 };

    collective_check(r, est_all_reduce_rows(r->group, &none, ROW, EST_F64, EST_REDUCE_OP_SUM, NULL, &out));
    if (out.n != 0) collective_fail(r, "%lld rows from nowhere", (long long)out.n);
    est_indexed_rows_clear(&out);
}

TEST(no_rows)
{
    collective_test t;

    collective_start(&t, "tcp", 3);
    collective_join(&t, NULL);
    collective_run(&t, no_rows, NULL);
    collective_stop(&t);
}

int main(void)
{
    return est_test_run(net_test_setup, net_test_teardown);
}
