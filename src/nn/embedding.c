/* SPDX-License-Identifier: Apache-2.0
 *
 * Embeddings: rows of a table, one per id, or combined over rows of unequal length.
 *
 * The table is gathered from the variable itself, so that its gradient is sparse: only rows of ids that occur. */
#include "nn/nn.h"

est_node est_embedding(est_node ids, int64_t n_ids, int64_t width, const est_embedding_options *options)
{
    est_embedding_options o;
    est_node              table, y;

    if (ids.graph == NULL || !EST_OPTIONS(ids.graph, est_embedding_options, options, o)) {
        return ids.graph == NULL ? ids : est_graph_poison(ids.graph, EST_INVALID_ARGUMENT);
    }
    if (est_node_dtype(ids) != EST_I32 && est_node_dtype(ids) != EST_I64) {
        return est_nn_fail(ids.graph, "embedding: ids are %s, expected int32 or int64; est_lookup maps keys to ids",
                           est_dtype_name(est_node_dtype(ids)));
    }
    if (n_ids <= 0 || width <= 0) {
        return est_nn_fail(ids.graph, "embedding: the table has shape [%lld, %lld]; both sizes must be above 0",
                           (long long)n_ids, (long long)width);
    }
    if (o.initializer.make == NULL) o.initializer = est_init_random_uniform(-0.05, 0.05, 0);
    est_scope_push(ids.graph, o.name != NULL ? o.name : "embedding");
    table = est_weight(ids.graph, o.table_name != NULL ? o.table_name : "embeddings", EST_SHAPE(n_ids, width),
                       EST_WEIGHT(.initializer = o.initializer, .regularizer = o.regularizer, .frozen = o.frozen));
    y     = o.splits.graph == NULL ? est_resource_gather(table, ids)
                                   : est_embedding_bag(table, (est_ragged_node){ ids, o.splits }, o.weights, o.combiner, 0);
    est_scope_pop(ids.graph);
    return y;
}
