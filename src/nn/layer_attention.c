/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention: rows of values, weighted by how well their keys fit each query. With scores s[i, j] of query i and key j,
 * row i of the result is the sum over j of softmax(s[i, :])[j] value[j]. A score that a mask leaves out is 1e9 less. */
#include <math.h>

#include "base/options.h"
#include "nn/layer.h"

/* Query, value and key; the key is the value unless it is given. */
typedef struct inputs {
    est_node query, value, key;
} inputs;

static bool take_inputs(const char *layer, est_nodes in, inputs *out)
{
    *out = (inputs){ in.data[0], in.data[1], in.n > 2 && in.data[2].graph != NULL ? in.data[2] : in.data[1] };
    return est_layer_check(out->query, layer, 3, 3) && est_layer_check(out->value, layer, 3, 3) &&
           est_layer_check(out->key, layer, 3, 3);
}

/* [m, n]: query i may see values 0 to i. */
static est_node causal_mask(est_node query, est_node value)
{
    est_graph *g    = query.graph;
    est_node   zero = est_scalar(g, EST_I32, 0), one = est_scalar(g, EST_I32, 1);
    est_node   i = est_range(zero, est_nn_dim(query, 1), one), j = est_range(zero, est_nn_dim(value, 1), one);

    return est_greater_equal(est_expand_dims(i, 1), est_expand_dims(j, 0));
}

/* Where both are true; either may be EST_NO_NODE. */
static est_node both(est_node a, est_node b)
{
    return a.graph == NULL ? b : b.graph == NULL ? a : est_logical_and(a, b);
}

/* softmax of the scores that the mask, which broadcasts, leaves in. */
static est_node distribution(est_node scores, est_node mask, double dropout, bool training)
{
    if (mask.graph != NULL) {
        est_node out = est_cast(est_logical_not(mask), est_node_dtype(scores));

        scores = est_sub(scores, est_scale(out, 1e9));
    }
    return est_dropout_layer(est_softmax(scores, -1), dropout, training);
}

static est_node multiply(est_node x, est_node y, bool adj_x, bool adj_y)
{
    return est_batch_matmul(est_layer_factor(x), est_layer_factor(y), adj_x, adj_y);
}

static bool check_mask(est_node mask, est_graph *graph, int rank_max)
{
    int rank;

    if (mask.graph == NULL) return true;
    rank = est_node_shape(mask)->rank;
    if (mask.graph == graph && est_node_dtype(mask) == EST_BOOL && rank >= 2 && rank <= rank_max) return true;
    (void)est_nn_fail(graph, "attention layer: a mask is a boolean node of rank 2%s in the graph of the inputs",
                      rank_max > 2 ? ", or 3 for each query," : "");
    return false;
}

static bool check_masks(const est_call_options *call, est_graph *graph)
{
    return check_mask(call->mask, graph, 3) && check_mask(call->query_mask, graph, 2);
}

/* The mask as [batch, m, n], where m may be 1; EST_NO_NODE of none. */
static est_node mask_of_queries(est_node mask)
{
    return mask.graph != NULL && est_node_shape(mask)->rank == 2 ? est_expand_dims(mask, 1) : mask;
}

/* --- attention with dot products and additive attention ----------------------------------------------------------- */

typedef struct attention {
    est_layer             layer;
    est_attention_options o;
} attention;

/* x times a trained number that begins with 1. */
static est_node weigh(est_node x, const char *name)
{
    est_node w = est_layer_weight(x, name, EST_SHAPE_SCALAR, est_init_ones(), (est_regularizer){ 0 }, false);

    return est_mul(x, est_read_variable(w));
}

static est_node dot_scores(const attention *l, const inputs *in)
{
    est_node scores = multiply(in->query, in->key, false, true);

    return l->o.use_scale ? weigh(scores, "scale") : scores;
}

/* query + key, of all pairs: [batch, m, n, width]. */
static est_node sums_of_pairs(const inputs *in)
{
    return est_add(est_expand_dims(in->query, 2), est_expand_dims(in->key, 1));
}

static est_node concat_scores(const attention *l, const inputs *in)
{
    est_node sums = sums_of_pairs(in);

    if (l->o.use_scale) sums = weigh(sums, "scale");
    return weigh(est_reduce_sum(est_tanh(sums), EST_I64S(-1), false), "concat_score_weight");
}

/* The sum of scale tanh(query + key). */
static est_node additive_scores(const inputs *in)
{
    est_node sum = est_tanh(sums_of_pairs(in)), scale;

    scale = est_layer_weight(in->query, "scale", EST_SHAPE(est_node_dim(in->query, -1)), est_init_glorot_uniform(0),
                             (est_regularizer){ 0 }, false);
    return est_reduce_sum(est_mul(sum, est_read_variable(scale)), EST_I64S(-1), false);
}

static const est_layer_class additive_class;

static est_node attention_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const attention *l     = (const attention *)self;
    est_graph       *graph = in.data[0].graph;
    est_node         scores, mask, result;
    inputs           x;

    if (!take_inputs(self->class->scope, in, &x) || !check_masks(call, graph)) {
        return est_graph_poison(graph, EST_INVALID_ARGUMENT);
    }
    scores = self->class == &additive_class ? additive_scores(&x)
             : l->o.concat                  ? concat_scores(l, &x)
                                            : dot_scores(l, &x);
    mask   = mask_of_queries(call->mask);
    if (l->o.causal) mask = both(mask, causal_mask(x.query, x.value));
    result = multiply(distribution(scores, mask, l->o.dropout, call->training), x.value, false, false);
    if (call->query_mask.graph == NULL) return result;
    return est_mul(result, est_cast(est_expand_dims(call->query_mask, -1), est_node_dtype(result)));
}

/* clang-format off */
static const est_layer_class
    attention_class = { "Attention", "attention", sizeof(attention), 2, 3, .call = attention_call },
    additive_class  = { "AdditiveAttention", "additive_attention", sizeof(attention), 2, 3, .call = attention_call };
/* clang-format on */

static est_status check_dropout(double rate)
{
    return rate >= 0 && rate < 1
               ? EST_OK
               : est_fail(EST_INVALID_ARGUMENT, "attention layer: a dropout of %g is not in [0, 1)", rate);
}

static est_layer *make_attention(const est_layer_class *class, const est_attention_options *options)
{
    attention l = { .layer = { .class = class } };

    if (est_options_take(EST_STRUCT_SIZE(est_attention_options), options, &l.o) != EST_OK) return NULL;
    if (l.o.concat && class == &additive_class) {
        (void)est_fail(EST_INVALID_ARGUMENT, "additive_attention layer: concat is of est_layer_attention");
        return NULL;
    }
    return check_dropout(l.o.dropout) == EST_OK ? est_layer_make(&l.layer, l.o.name) : NULL;
}

est_layer *est_layer_attention(const est_attention_options *options)
{
    return make_attention(&attention_class, options);
}

est_layer *est_layer_additive_attention(const est_attention_options *options)
{
    return make_attention(&additive_class, options);
}

/* --- several heads ------------------------------------------------------------------------------------------------ */

typedef struct multi_head {
    est_layer              layer;
    int64_t                heads, key_dim;
    est_multi_head_options o;
} multi_head;

/* A variable "<part>/kernel" or "<part>/bias" of the layer. */
static est_node part(const char *name, est_node x, est_shape shape, est_initializer initializer)
{
    return est_read_variable(est_layer_weight(x, name, shape, initializer, (est_regularizer){ 0 }, false));
}

/* x [batch, n, in] to [batch, heads, n, width], by a kernel [in, heads, width] in a scope. */
static est_node to_heads(const multi_head *l, const char *scope, est_node x, int64_t width)
{
    int64_t  in = est_node_dim(x, -1), all = l->heads * width;
    est_node y;

    est_scope_reenter(x.graph, scope);
    y = part("kernel", x, EST_SHAPE(in, l->heads, width), est_init_glorot_uniform(0));
    y = est_rows_times(x, est_reshape(y, EST_I64S(in, all)), all);
    if (!l->o.no_bias) {
        y = est_bias_add(y, est_reshape(part("bias", x, EST_SHAPE(l->heads, width), est_init_zeros()), EST_I64S(all)));
    }
    est_scope_pop(x.graph);
    y = est_nn_reshape(y, EST_NODES(est_nn_dim(x, 0), est_nn_dim(x, 1), est_scalar(x.graph, EST_I32, (double)l->heads),
                                    est_scalar(x.graph, EST_I32, (double)width)));
    return est_transpose(y, EST_I64S(0, 2, 1, 3));
}

/* [batch, heads, n, width] to [batch, n, units], by a kernel [heads, width, units]. */
static est_node from_heads(const multi_head *l, est_node x, int64_t width, int64_t units)
{
    int64_t  all = l->heads * width;
    est_node y, rows;

    rows = est_transpose(x, EST_I64S(0, 2, 1, 3));
    rows = est_nn_reshape(rows,
                          EST_NODES(est_nn_dim(x, 0), est_nn_dim(x, 2), est_scalar(x.graph, EST_I32, (double)all)));
    est_scope_reenter(x.graph, "attention_output");
    y = part("kernel", x, EST_SHAPE(l->heads, width, units), est_init_glorot_uniform(0));
    y = est_rows_times(rows, est_reshape(y, EST_I64S(all, units)), units);
    if (!l->o.no_bias) y = est_bias_add(y, part("bias", x, EST_SHAPE(units), est_init_zeros()));
    est_scope_pop(x.graph);
    return y;
}

static est_node multi_head_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const multi_head *l     = (const multi_head *)self;
    est_graph        *graph = in.data[0].graph;
    int64_t           width = l->o.value_dim > 0 ? l->o.value_dim : l->key_dim;
    est_node          mask, rows = call->query_mask, query, key, value, weights;
    inputs            x;

    if (!take_inputs("multi_head_attention", in, &x) || !check_masks(call, graph)) {
        return est_graph_poison(graph, EST_INVALID_ARGUMENT);
    }
    query = to_heads(l, "query", x.query, l->key_dim);
    key   = to_heads(l, "key", x.key, l->key_dim);
    value = to_heads(l, "value", x.value, width);
    mask  = mask_of_queries(call->mask);
    if (rows.graph != NULL) mask = both(est_expand_dims(rows, 2), mask);
    if (mask.graph != NULL) mask = est_expand_dims(mask, 1);
    if (l->o.causal) mask = both(mask, causal_mask(x.query, x.value));
    query   = est_scale(query, 1 / sqrt((double)l->key_dim));
    weights = distribution(multiply(query, key, false, true), mask, l->o.dropout, call->training);
    return from_heads(l, multiply(weights, value, false, false), width,
                      l->o.units > 0 ? l->o.units : est_node_dim(x.query, -1));
}

static const est_layer_class multi_head_class = {
    .keras = "MultiHeadAttention",
    .scope = "multi_head_attention",
    .size  = sizeof(multi_head),
    .n_min = 2,
    .n_max = 3,
    .call  = multi_head_call,
};

est_layer *est_layer_multi_head_attention(int64_t heads, int64_t key_dim, const est_multi_head_options *options)
{
    multi_head l = { .layer = { .class = &multi_head_class }, .heads = heads, .key_dim = key_dim };

    if (est_options_take(EST_STRUCT_SIZE(est_multi_head_options), options, &l.o) != EST_OK) return NULL;
    if (heads <= 0 || key_dim <= 0 || l.o.value_dim < 0 || l.o.units < 0) {
        (void)est_fail(EST_INVALID_ARGUMENT,
                       "multi_head_attention layer: %lld heads of size %lld, values %lld, units %lld", (long long)heads,
                       (long long)key_dim, (long long)l.o.value_dim, (long long)l.o.units);
        return NULL;
    }
    return check_dropout(l.o.dropout) == EST_OK ? est_layer_make(&l.layer, l.o.name) : NULL;
}
