/* SPDX-License-Identifier: Apache-2.0 — EstSplitIds and EstSplitRows. */
#include "support/op_check.h"

/* The shard of a row and its first row, counted one by one. */
static int64_t shard_of(const est_ref *r, int64_t row, int64_t *first)
{
    int64_t rows = est_node_int(r->node, "rows"), n = est_node_int(r->node, "N"), shard = 0;

    *first = 0;
    for (;;) {
        int64_t size = rows / n + (shard < rows % n);

        if (row < *first + size) return shard;
        *first += size;
        shard++;
    }
}

static void split_ids_ref(est_ref *r)
{
    int64_t n = est_node_int(r->node, "N"), at = 0;

    for (int64_t p = 0; p < n; p++) {
        int64_t count = 0, first;

        for (int64_t i = 0; i < r->in_shape[0].dim[0]; i++) {
            int64_t id = (int64_t)r->in[0][i];

            if (shard_of(r, id, &first) != p) continue;
            if (count < r->out_shape[p].dim[0]) {
                r->out[p][count]     = (double)(id - first);
                r->out[n + p][count] = (double)i;
            }
            r->out[2 * n][i] = (double)at++;
            count++;
        }
    }
}

/* Every part is as long as it should be: all together are the ids. */
static int all_there(est_ref *r, est_view *const *in, const est_view *out)
{
    int64_t n = est_node_int(r->node, "N"), parts = 0, positions = 0;

    for (int64_t p = 0; p < n; p++) {
        parts += out[p].count;
        positions += out[n + p].count;
    }
    return parts != in[0]->count || positions != in[0]->count;
}

static void split_rows_ref(est_ref *r)
{
    const double *x = r->in[0];

    for (int p = 0; p < r->n_out; p++) {
        int64_t count = 1;

        for (int i = 0; i < r->out_shape[p].rank; i++) count *= r->out_shape[p].dim[i];
        for (int64_t i = 0; i < count; i++) r->out[p][i] = *x++;
    }
}

/* Sizes one by one, for 11 rows: 4, 4, 3. */
static int div_rule(est_ref *r, est_view *const *in, const est_view *out)
{
    (void)r;
    (void)in;
    return out[0].shape.dim[0] != 4 || out[1].shape.dim[0] != 4 || out[2].shape.dim[0] != 3;
}

#define SHARDS(n, rows)                                                                                                \
    EST_ATTRS(est_attr_int("N", n), est_attr_int("rows", rows), est_attr_string("variable", "some/table"))
#define IDS(...)                                                                                                       \
    {                                                                                                                  \
        .shape = EST_SHAPE(sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)), .dtype = EST_I64,                \
        .values = (const double[])                                                                                     \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define IDS_CASE "EstSplitIds", .ref = split_ids_ref, .also = all_there

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { IDS_CASE, .in = { IDS(0, 10, 3, 4, 7, 8, 4, 4) }, .attrs = SHARDS(3, 11) },
        { IDS_CASE, .in = { IN(200) }, .dtype = EST_I32, .lo = 0, .hi = 99, .attrs = SHARDS(3, 100) },
        { IDS_CASE, .in = { IN(50) }, .dtype = EST_I64, .lo = 0, .hi = 2e12, .attrs = SHARDS(2, 2000000000001) },
        { IDS_CASE, .in = { IN(40) }, .dtype = EST_I64, .lo = 0, .hi = 2, .attrs = SHARDS(3, 3) }, /* one row each */
        { IDS_CASE, .in = { IN(9) }, .dtype = EST_I64, .lo = 0, .hi = 3, .attrs = SHARDS(3, 12) }, /* one shard only */
        { IDS_CASE, .in = { IN(9) }, .dtype = EST_I64, .lo = 0, .hi = 11, .attrs = SHARDS(1, 12) },
        { IDS_CASE, .in = { IN(0) }, .dtype = EST_I64, .attrs = SHARDS(3, 12) },
        { "EstSplitIds", .in = { IDS(0, 12) }, .attrs = SHARDS(3, 12), .fails = EST_INVALID_ARGUMENT,
          .says = "indices[1] = 12 is not a row of variable 'some/table': rows are 0 to 11" },
        { "EstSplitIds", .in = { IDS(-1) }, .attrs = SHARDS(3, 12), .fails = EST_INVALID_ARGUMENT,
          .says = "indices[0] = -1 is not" },
        { "EstSplitIds", .in = { IDS(1) }, .attrs = SHARDS(3, 2), .fails = EST_INVALID_ARGUMENT,
          .says = "2 rows cannot be in 3 shards" },
        { "EstSplitIds", .in = { IN(2, 2) }, .dtype = EST_I64, .attrs = SHARDS(2, 9), .fails = EST_INVALID_ARGUMENT },
        { "EstSplitRows", .in = { IN(11, 5) }, .attrs = SHARDS(3, 11), .ref = split_rows_ref, .also = div_rule },
        { "EstSplitRows", .in = { IN(11) }, .attrs = SHARDS(3, 11), .ref = split_rows_ref, .also = div_rule },
        { "EstSplitRows", .in = { IN(7, 2, 3) }, .dtype = EST_I64, .attrs = SHARDS(7, 7), .ref = split_rows_ref },
        { "EstSplitRows", .in = { IN(7, 0) }, .attrs = SHARDS(2, 7), .ref = split_rows_ref },
        { "EstSplitRows", .in = { IN(10, 2) }, .attrs = SHARDS(3, 11), .fails = EST_INVALID_ARGUMENT,
          .says = "the value is [10,2], the variable 'some/table' has 11 rows" },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
