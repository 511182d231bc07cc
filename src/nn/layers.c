/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers: dense, convolution, pooling, flatten, batch normalisation, dropout. Each is a scope, some variables and a few
 * operations; embeddings are in nn/embedding.c. */
#include "nn/replicas_reduce.h"

static est_initializer init_or(est_initializer given, est_initializer fallback)
{
    return given.make != NULL ? given : fallback;
}

static est_node weight(est_node x, const char *name, est_shape shape, est_initializer initializer,
                       est_regularizer regularizer, bool frozen)
{
    return est_weight(x.graph, name, shape,
                      EST_WEIGHT(.dtype = est_node_dtype(x), .initializer = initializer, .regularizer = regularizer,
                                 .frozen = frozen));
}

/* Layers work on floats, with an axis of known size last. */
static bool check_input(est_node x, const char *layer, int rank_min, int rank_max)
{
    const est_shape *shape = est_node_shape(x);
    char             text[EST_SHAPE_TEXT_MAX];

    if (x.graph == NULL || est_graph_poisoned(x.graph)) return false;
    if (est_node_dtype(x) != EST_F32 && est_node_dtype(x) != EST_F64) {
        (void)est_nn_fail(x.graph, "%s layer: input '%s' is %s, expected float32 or float64", layer, est_node_name(x),
                          est_dtype_name(est_node_dtype(x)));
        return false;
    }
    if (shape->rank < rank_min || shape->rank > rank_max || est_node_dim(x, -1) < 0) {
        (void)est_nn_fail(x.graph, "%s layer: input '%s' has shape %s; it needs rank %d to %d and a known last axis",
                          layer, est_node_name(x), est_shape_text(shape, text), rank_min, rank_max);
        return false;
    }
    return true;
}

static est_node poisoned(est_node x)
{
    return x.graph == NULL ? x : est_graph_poison(x.graph, EST_INVALID_ARGUMENT);
}

/* --- dense -------------------------------------------------------------------------------------------------------- */

/* x [..., in] times kernel [in, units]: higher ranks are flattened to rows and back. */
static est_node rows_times(est_node x, est_node kernel, int64_t units)
{
    int      rank = est_node_shape(x)->rank;
    est_node axes[EST_RANK_MAX], rows;

    if (rank == 2) return est_matmul(x, kernel);
    for (int i = 0; i < rank - 1; i++) axes[i] = est_nn_dim(x, i);
    axes[rank - 1] = est_scalar(x.graph, EST_I32, (double)units);
    rows           = est_matmul(est_reshape(x, EST_I64S(-1, est_node_dim(x, -1))), kernel);
    return est_reshape_to(rows, est_pack((est_nodes){ axes, rank }, 0));
}

est_node est_dense(est_node x, int64_t units, const est_dense_options *options)
{
    est_dense_options o;
    est_node          y;

    if (x.graph == NULL || !EST_OPTIONS(x.graph, est_dense_options, options, o)) return poisoned(x);
    if (!check_input(x, "dense", 2, EST_RANK_MAX)) return poisoned(x);
    if (units <= 0) return est_nn_fail(x.graph, "dense layer: %lld units", (long long)units);

    est_scope_push(x.graph, o.name != NULL ? o.name : "dense");
    y = rows_times(x,
                   est_read_variable(weight(x, "kernel", EST_SHAPE(est_node_dim(x, -1), units),
                                            init_or(o.kernel_initializer, est_init_glorot_uniform(0)),
                                            o.kernel_regularizer, o.frozen)),
                   units);
    if (!o.no_bias) {
        y = est_bias_add(
            y, est_read_variable(weight(x, "bias", EST_SHAPE(units), init_or(o.bias_initializer, est_init_zeros()),
                                        o.bias_regularizer, o.frozen)));
    }
    if (o.activation != NULL) y = o.activation(y);
    est_scope_pop(x.graph);
    return y;
}

/* --- convolution and pooling -------------------------------------------------------------------------------------- */

typedef est_node (*conv_fn)(est_node x, est_node filter, int stride_h, int stride_w, est_padding padding);

static est_node conv_layer(est_node x, int64_t filters, int size, const est_conv2d_options *options, bool depthwise)
{
    const char        *what = depthwise ? "depthwise_conv2d" : "conv2d";
    conv_fn            conv = depthwise ? est_depthwise_conv2d : est_conv2d;
    est_conv2d_options o;
    est_node           kernel, y;
    int                width, stride, stride_w;

    if (x.graph == NULL || !EST_OPTIONS(x.graph, est_conv2d_options, options, o)) return poisoned(x);
    if (!check_input(x, what, 4, 4)) return poisoned(x);
    width    = o.kernel_width > 0 ? o.kernel_width : size;
    stride   = o.stride > 0 ? o.stride : 1;
    stride_w = o.stride_width > 0 ? o.stride_width : stride;
    if (filters <= 0 || size <= 0) {
        return est_nn_fail(x.graph, "%s layer: %lld filters of size %d", what, (long long)filters, size);
    }
    est_scope_push(x.graph, o.name != NULL ? o.name : what);
    kernel = weight(x, depthwise ? "depthwise_kernel" : "kernel", EST_SHAPE(size, width, est_node_dim(x, -1), filters),
                    init_or(o.kernel_initializer, est_init_glorot_uniform(0)), o.kernel_regularizer, o.frozen);
    y      = conv(x, est_read_variable(kernel), stride, stride_w, o.padding);
    if (!o.no_bias) {
        int64_t channels = depthwise ? est_node_dim(x, -1) * filters : filters;
        y                = est_bias_add(
                           y, est_read_variable(weight(x, "bias", EST_SHAPE(channels), init_or(o.bias_initializer, est_init_zeros()),
                                                       o.bias_regularizer, o.frozen)));
    }
    if (o.activation != NULL) y = o.activation(y);
    est_scope_pop(x.graph);
    return y;
}

est_node est_conv2d_layer(est_node x, int64_t filters, int kernel_size, const est_conv2d_options *options)
{
    return conv_layer(x, filters, kernel_size, options, false);
}

est_node est_depthwise_conv2d_layer(est_node x, int64_t multiplier, int kernel_size, const est_conv2d_options *options)
{
    return conv_layer(x, multiplier, kernel_size, options, true);
}

typedef est_node (*pool_fn)(est_node x, int size_h, int size_w, int stride_h, int stride_w, est_padding padding);

static est_node pool_layer(est_node x, int size, const est_pool2d_options *options, const char *name, pool_fn pool)
{
    est_pool2d_options o;
    int                width, stride, stride_w;
    est_node           y;

    if (x.graph == NULL || !EST_OPTIONS(x.graph, est_pool2d_options, options, o)) return poisoned(x);
    if (size <= 0) return est_nn_fail(x.graph, "%s layer: windows of size %d", name, size);
    width    = o.width > 0 ? o.width : size;
    stride   = o.stride > 0 ? o.stride : size;
    stride_w = o.stride_width > 0 ? o.stride_width : o.stride > 0 ? o.stride : width;
    est_scope_push(x.graph, o.name != NULL ? o.name : name);
    y = pool(x, size, width, stride, stride_w, o.padding);
    est_scope_pop(x.graph);
    return y;
}

est_node est_max_pool2d(est_node x, int size, const est_pool2d_options *options)
{
    return pool_layer(x, size, options, "max_pooling2d", est_max_pool);
}

est_node est_avg_pool2d(est_node x, int size, const est_pool2d_options *options)
{
    return pool_layer(x, size, options, "average_pooling2d", est_avg_pool);
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

/* --- batch normalisation and dropout ------------------------------------------------------------------------------ */

typedef struct norm {
    est_batch_norm_options o;
    est_node               gamma, beta;    /* values; constants when not trained */
    est_node               mean, variance; /* handles of the moving averages */
} norm;

static void norm_variables(norm *n, est_node x)
{
    est_shape       shape = EST_SHAPE(est_node_dim(x, -1));
    est_regularizer none  = { 0 };
    est_dtype       dtype = est_node_dtype(x);
    est_initializer ones = est_init_ones(), zeros = est_init_zeros();

    n->gamma    = n->o.no_scale ? est_initial_value(ones, x.graph, dtype, shape)
                                : est_read_variable(
                                      weight(x, "gamma", shape, init_or(n->o.gamma_initializer, ones), none, n->o.frozen));
    n->beta     = n->o.no_center ? est_initial_value(zeros, x.graph, dtype, shape)
                                 : est_read_variable(
                                       weight(x, "beta", shape, init_or(n->o.beta_initializer, zeros), none, n->o.frozen));
    n->mean     = weight(x, "moving_mean", shape, init_or(n->o.moving_mean_initializer, zeros), none, true);
    n->variance = weight(x, "moving_variance", shape, init_or(n->o.moving_variance_initializer, ones), none, true);
}

/* A moving average and the statistic that it follows. */
typedef struct moving {
    est_node handle, batch;
    double   momentum;
} moving;

/* moving -= (moving - batch) (1 - momentum) */
static est_node follow(const moving *m, est_node batch)
{
    est_node step = est_scale(est_sub(est_read_variable(m->handle), batch), 1 - m->momentum);

    return est_assign_sub(m->handle, step);
}

/* The average follows the mean of all replicas' batches. */
static est_node follow_all(est_graph *graph, void *const *brought, int n)
{
    const est_replicas   *replicas = est_graph_replicas(graph);
    est_replica_reduction reduction;
    est_node             *batches = est_arena_alloc(est_graph_arena(graph), sizeof *batches * (size_t)n);

    if (batches == NULL) return est_graph_poison(graph, est_no_memory());
    for (int i = 0; i < n; i++) batches[i] = ((const moving *)brought[i])->batch;
    reduction = est_replica_reduction_begin(graph, EST_REDUCE_OP_MEAN, replicas->weight);
    return follow(brought[0], est_replica_reduce_value(&reduction, batches));
}

/* Lets a moving average follow a statistic of the batch with every training step. */
static void run_follow(est_node handle, est_node batch, double momentum)
{
    moving   m = { handle, est_stop_gradient(batch), momentum };
    est_node update;

    update = est_in_replica(handle.graph) ? est_replicas_merge(handle.graph, follow_all, &m) : follow(&m, m.batch);
    if (est_def(update) != NULL) est_graph_collect(handle.graph, "update_ops", update);
}

/* Images: one fused operation. */
static est_node norm_images(const norm *n, est_node x, bool training)
{
    est_node out[3];

    est_fused_batch_norm(x, n->gamma, n->beta, est_read_variable(n->mean), est_read_variable(n->variance),
                         est_or(n->o.epsilon, 1e-3), training, out);
    if (training) {
        run_follow(n->mean, out[1], est_or(n->o.momentum, 0.99));
        run_follow(n->variance, out[2], est_or(n->o.momentum, 0.99));
    }
    return out[0];
}

/* Other ranks: y = x inv + (beta - mean inv) with inv = gamma / sqrt(variance + epsilon). */
static est_node norm_rows(const norm *n, est_node x, bool training)
{
    static const int64_t axes[EST_RANK_MAX] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    est_i64s             all                = { axes, est_node_shape(x)->rank - 1 };
    est_node             mean, variance, inv;

    if (training) {
        mean     = est_reduce_mean(x, all, false);
        variance = est_reduce_mean(est_squared_difference(x, est_stop_gradient(mean)), all, false);
        run_follow(n->mean, mean, est_or(n->o.momentum, 0.99));
        run_follow(n->variance, variance, est_or(n->o.momentum, 0.99));
    } else {
        mean     = est_read_variable(n->mean);
        variance = est_read_variable(n->variance);
    }
    inv = est_mul(n->gamma, est_rsqrt(est_shift(variance, est_or(n->o.epsilon, 1e-3))));
    return est_add(est_mul(x, inv), est_sub(n->beta, est_mul(mean, inv)));
}

est_node est_batch_norm(est_node x, bool training, const est_batch_norm_options *options)
{
    norm     n = { 0 };
    est_node y;

    if (x.graph == NULL || !EST_OPTIONS(x.graph, est_batch_norm_options, options, n.o)) return poisoned(x);
    if (!check_input(x, "batch_norm", 2, EST_RANK_MAX)) return poisoned(x);
    est_scope_push(x.graph, n.o.name != NULL ? n.o.name : "batch_normalization");
    norm_variables(&n, x);
    y = est_node_shape(x)->rank == 4 ? norm_images(&n, x, training) : norm_rows(&n, x, training);
    est_scope_pop(x.graph);
    return y;
}

est_node est_dropout_layer(est_node x, double rate, bool training)
{
    if (x.graph == NULL || est_graph_poisoned(x.graph)) return x;
    if (!(rate >= 0 && rate < 1)) return est_nn_fail(x.graph, "dropout: a rate of %g is not in [0, 1)", rate);
    return training && rate > 0 ? est_dropout(x, rate, 0) : x;
}
