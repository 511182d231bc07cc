/* SPDX-License-Identifier: Apache-2.0
 *
 * Indicator columns: multi-hot rows with the count of each id of a categorical column. */
#include "feature/column.h"

typedef struct indicator {
    est_column        column;
    const est_column *source;
} indicator;

static const est_column *source_of(const est_column *column)
{
    return ((const indicator *)(const void *)column)->source;
}

static est_status indicator_parse(const est_column *column, est_parse_spec *spec)
{
    return source_of(column)->kind->parse(source_of(column), spec);
}

static est_node indicator_dense(const est_column *column, const est_features *features, est_layer_use use)
{
    est_ids ids = source_of(column)->kind->ids(source_of(column), features);

    (void)use; /* it has no variables */
    if (est_graph_poisoned(features->graph)) return est_graph_poison(features->graph, EST_INVALID_ARGUMENT);
    return est_multi_hot(ids.rows, ids.weights, column->width);
}

static est_node indicator_steps(const est_column *column, const est_features *features, est_node *lengths)
{
    return est_one_hot(est_column_step_ids(source_of(column), features, lengths), column->width, 1, 0, -1);
}

static const est_column_kind indicator_kind       = { .what  = "an indicator column",
                                                      .parse = indicator_parse,
                                                      .dense = indicator_dense };
static const est_column_kind indicator_steps_kind = { .what  = "a sequence indicator column",
                                                      .parse = indicator_parse,
                                                      .steps = indicator_steps };

const est_column *est_indicator_column(const est_column *categorical)
{
    indicator *made;

    if (!est_column_usable(categorical)) return categorical;
    if (!est_column_is_categorical(categorical, "an indicator column")) {
        return est_columns_fail(categorical->set, EST_INVALID_ARGUMENT);
    }
    made = est_column_new_from(categorical, categorical->sequence ? &indicator_steps_kind : &indicator_kind,
                               sizeof *made, "_indicator");
    if (made == NULL) return est_columns_fail(categorical->set, EST_RESOURCE_EXHAUSTED);
    made->source          = categorical;
    made->column.width    = categorical->n_buckets;
    made->column.sequence = categorical->sequence;
    return &made->column;
}
