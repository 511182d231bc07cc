/* SPDX-License-Identifier: Apache-2.0
 *
 * Weighted columns: the ids of a categorical column, each with a weight from another feature. */
#include <inttypes.h>

#include "feature/column.h"
#include "ops/ops.h"

typedef struct weighted {
    est_column        column;
    const est_column *source;
    const char       *weight_key;
} weighted;

static const weighted *weighted_of(const est_column *column)
{
    return (const weighted *)(const void *)column;
}

const est_column *est_weighted_source(const est_column *column)
{
    return weighted_of(column)->source;
}

static est_status weighted_parse(const est_column *column, est_parse_spec *spec)
{
    const weighted *c = weighted_of(column);

    EST_TRY(c->source->kind->parse(c->source, spec));
    return est_parse_spec_want_any(spec, column, c->weight_key, EST_F32);
}

/* Weights of which there is one for each value. */
static est_ragged_node lined_up(const weighted *c, est_ragged_node values, est_ragged_node weights)
{
    weights.values = est_cast(weights.values, EST_F32);
    return (est_ragged_node){ est_line_up(values, weights, c->column.name), values.splits };
}

/* Dense features: dropping a missing value also drops its weight. */
static est_ids dense_pair(const weighted *c, est_node values, est_node weights)
{
    est_ragged_node rows, numbers;
    est_node        keep;
    int64_t         n = est_node_dim(values, 1), n_weights = est_node_dim(weights, 1);
    char            a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (n >= 0 && n_weights >= 0 && n != n_weights) {
        (void)est_nn_fail(values.graph,
                          "column \"%s\": every row has %" PRId64 " values and %" PRId64
                          " weights (values %s, weights %s); there must be one for each",
                          c->column.name, n, n_weights, est_shape_text(est_node_shape(values), a),
                          est_shape_text(est_node_shape(weights), b));
        return (est_ids){ 0 };
    }
    rows    = est_ragged_all(values);
    numbers = est_ragged_all(weights);
    if (est_graph_poisoned(values.graph)) return (est_ids){ 0 };
    if (n < 0 || n_weights < 0) numbers = lined_up(c, rows, numbers);
    keep        = est_raw_present(rows.values);
    rows        = est_ragged_keep(rows, keep);
    numbers     = est_ragged_keep(numbers, keep);
    rows.values = c->source->kind->map(c->source, rows.values);
    return (est_ids){ .rows = rows, .weights = est_cast(numbers.values, EST_F32) };
}

/* Ragged features, or ids that other columns compute. */
static est_ids ragged_pair(const weighted *c, const est_features *features, est_ragged_node weights)
{
    est_ids ids = c->source->kind->ids(c->source, features);

    if (est_graph_poisoned(features->graph)) return ids;
    ids.weights = lined_up(c, ids.rows, weights).values;
    return ids;
}

static est_ids weighted_ids(const est_column *column, const est_features *features)
{
    const weighted *c       = weighted_of(column);
    est_feature     weights = est_raw_feature(column, c->weight_key, features);
    bool            dense   = weights.splits.graph == NULL;
    const char     *key     = c->source->kind->map != NULL ? c->source->key : NULL; /* NULL: not one feature */
    est_node        values;

    if (est_graph_poisoned(features->graph)) return (est_ids){ 0 };
    if (est_node_dtype(weights.values) == EST_STRING) {
        (void)est_nn_fail(features->graph, "column \"%s\": the weights \"%s\" are strings, expected numbers",
                          column->name, c->weight_key);
    } else if (key != NULL && dense != (est_raw_feature(c->source, key, features).splits.graph == NULL)) {
        (void)est_nn_fail(features->graph,
                          "column \"%s\": one of the feature \"%s\" and its weights \"%s\" is dense, the other "
                          "ragged; parse both in the same way",
                          column->name, key, c->weight_key);
    }
    if (dense) weights.values = est_raw_dense(column, c->weight_key, features);
    if (est_graph_poisoned(features->graph)) return (est_ids){ 0 };
    if (!dense) return ragged_pair(c, features, (est_ragged_node){ weights.values, weights.splits });
    if (key == NULL) return ragged_pair(c, features, est_ragged_all(weights.values));
    values = est_raw_dense(c->source, key, features);
    return est_graph_poisoned(features->graph) ? (est_ids){ 0 } : dense_pair(c, values, weights.values);
}

const est_column_kind est_weighted_kind = { .what = "a weighted column", .parse = weighted_parse, .ids = weighted_ids };

const est_column *est_weighted_column(const est_column *categorical, const char *weight_key)
{
    const char *suffix;
    weighted   *made = NULL;

    if (!est_column_usable(categorical)) return categorical;
    if (!est_column_is_categorical(categorical, "a weighted column") ||
        !est_column_key_ok(categorical->set, weight_key, "a weighted column")) {
        return est_columns_fail(categorical->set, EST_INVALID_ARGUMENT);
    }
    if (categorical->kind == &est_weighted_kind || categorical->sequence) {
        return est_column_fail(categorical->set, "\"%s\" %s and cannot be weighted", categorical->name,
                               categorical->sequence ? "is a sequence column" : "already has weights");
    }
    suffix = est_arena_printf(est_columns_arena(categorical->set), "_weighted_by_%s", weight_key);
    if (suffix != NULL) made = est_column_new_from(categorical, &est_weighted_kind, sizeof *made, suffix);
    if (made == NULL) {
        return est_columns_fail(categorical->set, est_no_memory());
    }
    made->source           = categorical;
    made->weight_key       = suffix + sizeof "_weighted_by_" - 1;
    made->column.n_buckets = categorical->n_buckets;
    return &made->column;
}
