/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers: dense, shapes, several inputs, activations, functions of the user. Images are in nn/layer_image.c,
 * normalisation and noise in nn/layer_norm.c, attention in nn/layer_attention.c, embeddings in nn/embedding.c. */
#include <limits.h>
#include <string.h>

#include "base/argument.h"
#include "base/options.h"
#include "nn/layer.h"

/* --- dense -------------------------------------------------------------------------------------------------------- */

typedef struct dense {
    est_layer         layer;
    int64_t           units;
    est_dense_options o;
} dense;

est_node est_layer_factor(est_node x)
{
    bool mixed = x.graph != NULL && est_graph_is_mixed(x.graph);

    return mixed && est_node_dtype(x) == EST_F32 ? est_round_bfloat16(x) : x;
}

/* Higher ranks are flattened to rows and back. */
est_node est_rows_times(est_node x, est_node kernel, int64_t units)
{
    int      rank = est_node_shape(x)->rank;
    est_node axes[EST_RANK_MAX], rows;

    kernel = est_layer_factor(kernel);
    if (rank == 2) return est_matmul(est_layer_factor(x), kernel);
    for (int i = 0; i < rank - 1; i++) axes[i] = est_nn_dim(x, i);
    axes[rank - 1] = est_scalar(x.graph, EST_I32, (double)units);
    rows           = est_matmul(est_layer_factor(est_reshape(x, EST_I64S(-1, est_node_dim(x, -1)))), kernel);
    return est_nn_reshape(rows, (est_nodes){ axes, rank });
}

static est_node dense_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const dense             *l = (const dense *)self;
    const est_dense_options *o = &l->o;
    est_node                 x = in.data[0], y;

    (void)call;
    if (!est_layer_check(x, "dense", 2, EST_RANK_MAX)) return est_graph_poison(x.graph, EST_INVALID_ARGUMENT);
    y = est_rows_times(
        x,
        est_read_variable(est_layer_weight(x, "kernel", EST_SHAPE(est_node_dim(x, -1), l->units),
                                           est_init_or(o->kernel_initializer, est_init_glorot_uniform(0)),
                                           o->kernel_regularizer, o->frozen)),
        l->units);
    if (!o->no_bias) {
        y = est_bias_add(y, est_read_variable(est_layer_weight(x, "bias", EST_SHAPE(l->units),
                                                               est_init_or(o->bias_initializer, est_init_zeros()),
                                                               o->bias_regularizer, o->frozen)));
    }
    return o->activation != NULL ? o->activation(y) : y;
}

static const est_layer_class dense_class = {
    .keras = "Dense",
    .scope = "dense",
    .size  = sizeof(dense),
    .n_min = 1,
    .n_max = 1,
    .call  = dense_call,
};

static est_status dense_fill(dense *l, int64_t units, const est_dense_options *options)
{
    *l = (dense){ .layer = { .class = &dense_class }, .units = units };
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_dense_options), options, &l->o));
    return units > 0 ? EST_OK : est_fail(EST_INVALID_ARGUMENT, "dense layer: %lld units", (long long)units);
}

est_layer *est_layer_dense(int64_t units, const est_dense_options *options)
{
    dense l;

    return dense_fill(&l, units, options) == EST_OK ? est_layer_make(&l.layer, l.o.name) : NULL;
}

est_node est_dense(est_node x, int64_t units, const est_dense_options *options)
{
    dense      l;
    est_status status = dense_fill(&l, units, options);

    return est_layer_once(status, &l.layer, l.o.name, EST_NODES(x), NULL);
}

/* --- layers without options --------------------------------------------------------------------------------------- */

typedef struct plain {
    est_layer      layer;
    int            axis;
    est_activation activation;
} plain;

static est_layer *make_plain(const est_layer_class *class, const char *name)
{
    plain l = { .layer = { .class = class } };

    return est_layer_make(&l.layer, name);
}

est_node est_flatten(est_node x)
{
    const est_shape *shape = est_node_shape(x);
    int64_t          rest  = 1;

    if (x.graph == NULL || est_graph_poisoned(x.graph)) return x;
    for (int i = 1; i < shape->rank && rest >= 0; i++) rest = shape->dim[i] < 0 ? -1 : rest * shape->dim[i];
    if (shape->rank < 1)
        return est_nn_fail(x.graph, "flatten: '%s' must have a known rank of 1 or more", est_node_name(x));
    if (shape->dim[0] >= 0) return est_reshape(x, EST_I64S(shape->dim[0], rest)); /* at most one of the two is -1 */
    if (rest > 0) return est_reshape(x, EST_I64S(-1, rest));
    return est_reshape_to(x, est_pack(EST_NODES(est_nn_dim(x, 0), est_scalar(x.graph, EST_I32, (double)rest)), 0));
}

static est_node flatten_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    (void)self;
    (void)call;
    return est_flatten(in.data[0]);
}

static est_node concatenate_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    (void)call;
    return est_concat(in, ((const plain *)self)->axis);
}

/* As Keras merges: axes that an input lacks are behind its batch axis, not before it. */
static est_node with_rank(est_node x, int rank)
{
    int have = est_node_shape(x)->rank;

    for (int i = have; have >= 1 && i < rank; i++) x = est_expand_dims(x, 1);
    return x;
}

static est_node fold(est_nodes in, est_node (*combine)(est_node a, est_node b))
{
    est_node y;
    int      rank = 0;

    for (int i = 0; i < in.n; i++) {
        if (est_node_shape(in.data[i])->rank > rank) rank = est_node_shape(in.data[i])->rank;
    }
    y = with_rank(in.data[0], rank);
    for (int i = 1; i < in.n; i++) y = combine(y, with_rank(in.data[i], rank));
    return y;
}

static est_node add_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    (void)self;
    (void)call;
    return fold(in, est_add);
}

static est_node multiply_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    (void)self;
    (void)call;
    return fold(in, est_mul);
}

static est_node activation_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    (void)call;
    return ((const plain *)self)->activation(in.data[0]);
}

/* clang-format off */
static const est_layer_class
    flatten_class     = { "Flatten", "flatten", sizeof(plain), 1, 1, .call = flatten_call },
    concatenate_class = { "Concatenate", "concatenate", sizeof(plain), 1, INT_MAX, .call = concatenate_call },
    add_class         = { "Add", "add", sizeof(plain), 2, INT_MAX, .call = add_call },
    multiply_class    = { "Multiply", "multiply", sizeof(plain), 2, INT_MAX, .call = multiply_call },
    activation_class  = { "Activation", "activation", sizeof(plain), 1, 1, .call = activation_call };
/* clang-format on */

est_layer *est_layer_flatten(const char *name)
{
    return make_plain(&flatten_class, name);
}

est_layer *est_layer_concatenate(int axis, const char *name)
{
    plain l = { .layer = { .class = &concatenate_class }, .axis = axis };

    return est_layer_make(&l.layer, name);
}

est_layer *est_layer_add(const char *name)
{
    return make_plain(&add_class, name);
}

est_layer *est_layer_multiply(const char *name)
{
    return make_plain(&multiply_class, name);
}

est_layer *est_layer_activation(est_activation activation, const char *name)
{
    plain l = { .layer = { .class = &activation_class }, .activation = activation };

    if (activation == NULL) {
        (void)est_fail(EST_INVALID_ARGUMENT, "est_layer_activation: activation is NULL");
        return NULL;
    }
    return est_layer_make(&l.layer, name);
}

/* --- reshape ------------------------------------------------------------------------------------------------------ */

typedef struct reshape {
    est_layer layer;
    int64_t   dim[EST_RANK_MAX];
    int       n;
} reshape;

/* How many elements an example has; -1: unknown. */
static int64_t count_example(const est_shape *shape)
{
    int64_t n = 1;

    for (int i = 1; i < shape->rank; i++) {
        if (shape->dim[i] < 0) return -1;
        n *= shape->dim[i];
    }
    return n;
}

static est_node reshape_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const reshape   *l     = (const reshape *)self;
    est_node         x     = in.data[0], axes[EST_RANK_MAX];
    const est_shape *shape = est_node_shape(x);
    int64_t          have = count_example(shape), want = 1, dim[EST_RANK_MAX] = { est_node_dim(x, 0) };
    int              open = -1;

    (void)call;
    if (shape->rank < 1) {
        return est_nn_fail(x.graph, "reshape layer: '%s' must have a known rank of 1 or more", est_node_name(x));
    }
    for (int i = 0; i < l->n; i++) {
        dim[i + 1] = l->dim[i];
        if (l->dim[i] < 0) open = i + 1;
        if (l->dim[i] >= 0) want *= l->dim[i];
    }
    if (have >= 0 && (open < 0 ? want != have : want == 0 || have % want != 0)) {
        return est_nn_fail(x.graph, "reshape layer: an example of '%s' has %lld elements; %s%lld are needed",
                           est_node_name(x), (long long)have, open < 0 ? "" : "multiples of ", (long long)want);
    }
    if (have >= 0 && open >= 0) dim[open] = have / want;
    if (dim[0] >= 0 || (have > 0)) return est_reshape(x, (est_i64s){ dim, l->n + 1 }); /* at most one is -1 */
    axes[0] = est_nn_dim(x, 0);
    for (int i = 1; i <= l->n; i++) axes[i] = est_scalar(x.graph, EST_I32, (double)dim[i]);
    return est_reshape_to(x, est_pack((est_nodes){ axes, l->n + 1 }, 0));
}

static const est_layer_class reshape_class = { "Reshape", "reshape", sizeof(reshape), 1, 1, .call = reshape_call };

est_layer *est_layer_reshape(est_i64s shape, const char *name)
{
    reshape l      = { .layer = { .class = &reshape_class }, .n = shape.n };
    int     n_open = 0;

    if (!EST_LIST_OK(shape) || shape.n >= EST_RANK_MAX) {
        (void)est_fail(EST_INVALID_ARGUMENT, "est_layer_reshape: a shape of %d axes; there may be %d", shape.n,
                       EST_RANK_MAX - 1);
        return NULL;
    }
    for (int i = 0; i < shape.n; i++) {
        l.dim[i] = shape.data[i];
        n_open += shape.data[i] == -1;
        if (shape.data[i] < -1 || n_open > 1) {
            (void)est_fail(EST_INVALID_ARGUMENT,
                           "est_layer_reshape: axis %d is %lld; axes are 0 or more, and one may be -1", i,
                           (long long)shape.data[i]);
            return NULL;
        }
    }
    return est_layer_make(&l.layer, name);
}

/* --- dot ---------------------------------------------------------------------------------------------------------- */

typedef struct dot {
    est_layer       layer;
    int             axis[2];
    est_dot_options o;
} dot;

/* Batches of matrices [a, n] times [n, b]; a vector is a matrix of one row or column. */
static est_node dot_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const dot *l       = (const dot *)self;
    est_node   x[2]    = { in.data[0], in.data[1] }, y;
    int        rank[2] = { est_node_shape(x[0])->rank, est_node_shape(x[1])->rank }, axis[2];

    (void)call;
    for (int i = 0; i < 2; i++) {
        axis[i] = l->axis[i] < 0 ? l->axis[i] + rank[i] : l->axis[i];
        if (!est_layer_check(x[i], "dot", 2, 3)) return est_graph_poison(x[i].graph, EST_INVALID_ARGUMENT);
        if (axis[i] < 1 || axis[i] >= rank[i]) {
            return est_nn_fail(x[i].graph, "dot layer: axis %d of '%s', which has rank %d", l->axis[i],
                               est_node_name(x[i]), rank[i]);
        }
        if (l->o.normalize) x[i] = est_nn_unit_length(x[i], axis[i]);
        if (rank[i] == 2) x[i] = est_expand_dims(x[i], i == 0 ? 1 : 2);
    }
    y = est_batch_matmul(est_layer_factor(x[0]), est_layer_factor(x[1]), rank[0] == 3 && axis[0] == 1,
                         rank[1] == 3 && axis[1] == 2);
    if (rank[1] == 2) y = est_squeeze(y, EST_I64S(2));
    return rank[0] == 2 && rank[1] == 3 ? est_squeeze(y, EST_I64S(1)) : y;
}

static const est_layer_class dot_class = { "Dot", "dot", sizeof(dot), 2, 2, .call = dot_call };

est_layer *est_layer_dot(int axis, const est_dot_options *options)
{
    dot l = { .layer = { .class = &dot_class } };

    if (est_options_take(EST_STRUCT_SIZE(est_dot_options), options, &l.o) != EST_OK) return NULL;
    l.axis[0] = axis;
    l.axis[1] = l.o.second_axis != 0 ? l.o.second_axis : axis;
    return est_layer_make(&l.layer, l.o.name);
}

/* --- functions of the user ---------------------------------------------------------------------------------------- */

typedef struct lambda {
    est_layer          layer;
    est_layer_fn       fn;
    est_lambda_options o;
} lambda;

static est_node lambda_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const lambda *l = (const lambda *)self;

    return l->fn(in, call->training, l->o.user);
}

static void lambda_clear(est_layer *self)
{
    const lambda *l = (const lambda *)self;

    if (l->o.user_free != NULL) l->o.user_free(l->o.user);
}

static const est_layer_class lambda_class = {
    .keras = "Lambda",
    .scope = "lambda",
    .size  = sizeof(lambda),
    .n_min = 1,
    .n_max = INT_MAX,
    .call  = lambda_call,
    .clear = lambda_clear,
};

est_layer *est_layer_lambda(est_layer_fn fn, const est_lambda_options *options)
{
    lambda l = { .layer = { .class = &lambda_class }, .fn = fn };

    if (est_options_take(EST_STRUCT_SIZE(est_lambda_options), options, &l.o) != EST_OK) return NULL;
    if (fn == NULL) {
        (void)est_fail(EST_INVALID_ARGUMENT, "est_layer_lambda: fn is NULL");
        lambda_clear(&l.layer);
        return NULL;
    }
    return est_layer_make(&l.layer, l.o.name);
}
