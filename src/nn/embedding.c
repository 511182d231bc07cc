/* SPDX-License-Identifier: Apache-2.0
 *
 * Embeddings: rows of a table, one per id, or combined over rows of unequal length.
 *
 * The table is gathered from the variable itself, so that its gradient is sparse: only rows of ids that occur. */
#include "base/options.h"
#include "nn/layer.h"

typedef struct embedding {
    est_layer             layer;
    int64_t               n_ids, width;
    est_embedding_options o;
    char                 *table_name; /* of an object: its copy */
} embedding;

/* Inputs: ids; or values, splits and perhaps weights of ragged rows. */
static est_node embedding_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const embedding             *l       = (const embedding *)self;
    const est_embedding_options *o       = &l->o;
    est_node                     ids     = in.data[0];
    est_node                     splits  = in.n > 1 ? in.data[1] : EST_NO_NODE;
    est_node                     weights = in.n > 2 ? in.data[2] : EST_NO_NODE, table;

    (void)call;
    if (est_node_dtype(ids) != EST_I32 && est_node_dtype(ids) != EST_I64) {
        return est_nn_fail(ids.graph, "embedding: ids are %s, expected int32 or int64; est_lookup maps keys to ids",
                           est_dtype_name(est_node_dtype(ids)));
    }
    table = est_weight(ids.graph, o->table_name != NULL ? o->table_name : "embeddings", EST_SHAPE(l->n_ids, l->width),
                       EST_WEIGHT(.initializer = est_init_or(o->initializer, est_init_random_uniform(-0.05, 0.05, 0)),
                                  .regularizer = o->regularizer, .frozen = o->frozen));
    if (splits.graph == NULL) return est_resource_gather(table, ids);
    return est_embedding_bag(table, (est_ragged_node){ ids, splits }, weights, o->combiner, 0);
}

static void embedding_clear(est_layer *self)
{
    est_free(((embedding *)self)->table_name);
}

static const est_layer_class embedding_class = {
    .keras = "Embedding",
    .scope = "embedding",
    .size  = sizeof(embedding),
    .n_min = 1,
    .n_max = 3,
    .call  = embedding_call,
    .clear = embedding_clear,
};

static est_status embedding_fill(embedding *l, int64_t n_ids, int64_t width, const est_embedding_options *options)
{
    *l = (embedding){ .layer = { .class = &embedding_class }, .n_ids = n_ids, .width = width };
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_embedding_options), options, &l->o));
    if (n_ids > 0 && width > 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "embedding: the table has shape [%lld, %lld]; both sizes must be above 0",
                    (long long)n_ids, (long long)width);
}

est_layer *est_layer_embedding(int64_t n_ids, int64_t width, const est_embedding_options *options)
{
    embedding l;

    if (embedding_fill(&l, n_ids, width, options) != EST_OK) return NULL;
    if (l.o.splits.graph != NULL || l.o.weights.graph != NULL) {
        (void)est_fail(EST_INVALID_ARGUMENT, "est_layer_embedding: splits and weights are inputs of a call");
        return NULL;
    }
    if (l.o.table_name != NULL) {
        l.table_name = est_strdup(l.o.table_name);
        if (l.table_name == NULL) {
            (void)est_no_memory();
            return NULL;
        }
        l.o.table_name = l.table_name;
    }
    return est_layer_make(&l.layer, l.o.name);
}

est_node est_embedding(est_node ids, int64_t n_ids, int64_t width, const est_embedding_options *options)
{
    embedding  l;
    est_status status = embedding_fill(&l, n_ids, width, options);

    return est_layer_once(status, &l.layer, l.o.name, EST_NODES(ids, l.o.splits, l.o.weights), NULL);
}
