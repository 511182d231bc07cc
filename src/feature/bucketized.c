/* SPDX-License-Identifier: Apache-2.0
 *
 * Bucketized columns: which range a number is in. Element j of a row in bucket b has the id j * buckets + b; as a dense
 * column every element is one-hot. */
#include <math.h>
#include <string.h>

#include "feature/column.h"

typedef struct bucketized {
    est_column        column;
    const est_column *source; /* numeric */
    const float      *boundaries;
    int               n;
} bucketized;

static const bucketized *bucketized_of(const est_column *column)
{
    return (const bucketized *)(const void *)column;
}

static est_status bucketized_parse(const est_column *column, est_parse_spec *spec)
{
    const est_column *source = bucketized_of(column)->source;

    return source->kind->parse(source, spec);
}

/* int32 [batch, elements]. */
static est_node buckets(const bucketized *c, const est_features *features)
{
    est_node x = c->source->kind->dense(c->source, features, (est_layer_use){ 0 });

    return est_graph_poisoned(features->graph) ? x : est_bucketize(x, (est_f32s){ c->boundaries, c->n });
}

static est_node bucketized_dense(const est_column *column, const est_features *features, est_layer_use use)
{
    const bucketized *c = bucketized_of(column);
    est_node          x = buckets(c, features);

    (void)use; /* it has no variables */
    if (est_graph_poisoned(features->graph)) return x;
    return est_reshape(est_one_hot(x, c->n + 1, 1, 0, -1), EST_I64S(-1, column->width));
}

static est_ids bucketized_ids(const est_column *column, const est_features *features)
{
    const bucketized *c        = bucketized_of(column);
    est_node          x        = est_cast(buckets(c, features), EST_I64);
    int64_t           elements = c->source->width;
    est_ids           ids      = { 0 };

    if (est_graph_poisoned(features->graph)) return ids;
    if (elements > 1) {
        est_node step = est_scalar(x.graph, EST_I64, c->n + 1);

        x = est_add(x, est_range(est_scalar(x.graph, EST_I64, 0),
                                 est_scalar(x.graph, EST_I64, (double)(elements * (c->n + 1))), step));
    }
    ids.rows = est_ragged_all(x);
    return ids;
}

static const est_column_kind bucketized_kind = { .what  = "a bucketized column",
                                                 .parse = bucketized_parse,
                                                 .ids   = bucketized_ids,
                                                 .dense = bucketized_dense };

const est_column *est_bucketized_column(const est_column *source, est_f32s boundaries)
{
    bucketized *made;
    float      *copy;

    if (!est_column_usable(source)) return source;
    if (source->kind != &est_numeric_kind || est_numeric_rank(source) != 1) {
        return est_column_fail(
            source->set, "a bucketized column needs a numeric column of one dimension, but \"%s\" is %s%s",
            source->name, source->kind->what, source->kind == &est_numeric_kind ? " of several" : "");
    }
    if (boundaries.n < 1) {
        return est_column_fail(source->set, "the bucketized column of \"%s\" has no boundaries", source->name);
    }
    for (int i = 0; i < boundaries.n; i++) {
        float low = i > 0 ? boundaries.data[i - 1] : -INFINITY;

        if (boundaries.data[i] > low) continue; /* false for a NaN */
        return est_column_fail(source->set,
                               "the boundaries of the bucketized column of \"%s\" do not ascend: %g after %g",
                               source->name, (double)boundaries.data[i], (double)low);
    }
    made = est_column_new_from(source, &bucketized_kind, sizeof *made, "_bucketized");
    copy = est_arena_alloc(est_columns_arena(source->set), (size_t)boundaries.n * sizeof *copy);
    if (made == NULL || copy == NULL) {
        return est_columns_fail(source->set, est_no_memory());
    }
    memcpy(copy, boundaries.data, (size_t)boundaries.n * sizeof *copy);
    made->source           = source;
    made->boundaries       = copy;
    made->n                = boundaries.n;
    made->column.n_buckets = source->width * (boundaries.n + 1);
    made->column.width     = made->column.n_buckets;
    return &made->column;
}
