/* SPDX-License-Identifier: Apache-2.0
 *
 * Embeddings: rows of a table, one per id, or combined over rows of unequal length.
 *
 * The table is gathered from the variable itself, so that its gradient is sparse: only rows of ids that occur. A ragged
 * row r becomes sum_i w_i e_i / c with c = 1, sum_i w_i or sqrt(sum_i w_i^2); an empty row becomes zeros. */
#include "nn/nn.h"

est_node est_embedding_rows(est_node table, est_node ids, est_node splits, est_node weights, est_combiner combiner)
{
    est_node e, rows, n_rows, sum, norm;

    if (table.graph == NULL || est_graph_poisoned(table.graph)) return table;
    rows   = est_row_ids(splits, ids);
    n_rows = est_sub(est_size(splits), est_scalar(table.graph, EST_I32, 1));
    e      = est_resource_gather(table, ids); /* [n, width] */
    if (weights.graph == NULL) {
        sum = est_unsorted_segment_sum(e, rows, n_rows);
        if (combiner == EST_COMBINE_SUM) return sum;
        norm = est_unsorted_segment_sum(est_cast(est_ones_like(ids), est_node_dtype(e)), rows, n_rows);
    } else {
        weights = est_cast(weights, est_node_dtype(e));
        sum     = est_unsorted_segment_sum(est_mul(e, est_expand_dims(weights, -1)), rows, n_rows);
        if (combiner == EST_COMBINE_SUM) return sum;
        if (combiner == EST_COMBINE_SQRTN) weights = est_square(weights);
        norm = est_unsorted_segment_sum(weights, rows, n_rows);
    }
    if (combiner == EST_COMBINE_SQRTN) norm = est_sqrt(norm);
    return est_div_no_nan(sum, est_expand_dims(norm, -1));
}

est_node est_embedding(est_node ids, int64_t n_ids, int64_t width, const est_embedding_options *options)
{
    est_embedding_options o;
    est_node              table, y;

    if (ids.graph == NULL || !EST_OPTIONS(ids.graph, "EST_EMBEDDING", options, o)) {
        return ids.graph == NULL ? ids : est_graph_poison(ids.graph, EST_INVALID_ARGUMENT);
    }
    if (n_ids <= 0 || width <= 0) {
        return est_nn_fail(ids.graph, "embedding: a table of [%lld, %lld]", (long long)n_ids, (long long)width);
    }
    if (o.initializer.make == NULL) o.initializer = est_init_random_uniform(-0.05, 0.05, 0);
    est_scope_push(ids.graph, o.name != NULL ? o.name : "embedding");
    table = est_weight(ids.graph, o.table_name != NULL ? o.table_name : "embeddings", EST_SHAPE(n_ids, width),
                       EST_WEIGHT(.initializer = o.initializer, .regularizer = o.regularizer, .frozen = o.frozen));
    y     = o.splits.graph == NULL ? est_resource_gather(table, ids)
                                   : est_embedding_rows(table, ids, o.splits, o.weights, o.combiner);
    est_scope_pop(ids.graph);
    return y;
}
