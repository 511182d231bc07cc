/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisation and noise: batch and layer normalisation, dropout. */
#include "base/options.h"
#include "nn/layer.h"
#include "nn/replicas_reduce.h"

/* --- batch normalisation ------------------------------------------------------------------------------------------ */

typedef struct batch_norm {
    est_layer              layer;
    est_batch_norm_options o;
} batch_norm;

typedef struct norm {
    const est_batch_norm_options *o;
    est_node                      gamma, beta;    /* values; constants when not trained */
    est_node                      mean, variance; /* handles of the moving averages */
} norm;

/* The value of gamma or beta: a variable, or a constant where there is none. */
static est_node value_or(est_node x, const char *name, bool none, est_initializer given, est_initializer fallback,
                         est_regularizer regularizer, bool frozen)
{
    est_shape shape = EST_SHAPE(est_node_dim(x, -1));

    if (none) return est_initial_value(fallback, x.graph, est_node_dtype(x), shape);
    return est_read_variable(est_layer_weight(x, name, shape, est_init_or(given, fallback), regularizer, frozen));
}

static void norm_variables(norm *n, est_node x)
{
    const est_batch_norm_options *o     = n->o;
    est_shape                     shape = EST_SHAPE(est_node_dim(x, -1));
    est_regularizer               none  = { 0 };
    est_initializer               ones = est_init_ones(), zeros = est_init_zeros();

    n->gamma    = value_or(x, "gamma", o->no_scale, o->gamma_initializer, ones, none, o->frozen);
    n->beta     = value_or(x, "beta", o->no_center, o->beta_initializer, zeros, none, o->frozen);
    n->mean     = est_layer_weight(x, "moving_mean", shape, est_init_or(o->moving_mean_initializer, zeros), none, true);
    n->variance = est_layer_weight(x, "moving_variance", shape, est_init_or(o->moving_variance_initializer, ones), none,
                                   true);
}

/* A moving average and the statistic that it follows. */
typedef struct moving {
    est_node handle, batch, follows;
    double   momentum;
} moving;

/* moving -= (moving - batch) (1 - momentum) */
static est_node follow(const moving *m, est_node batch)
{
    est_node step = est_scale(est_sub(est_read_variable(m->handle), batch), 1 - m->momentum);

    if (m->follows.graph != NULL) step = est_mul(step, est_cast(m->follows, est_node_dtype(step)));
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
static void run_follow(est_node handle, est_node batch, const est_batch_norm_options *o)
{
    moving   m = { handle, est_stop_gradient(batch), o->follows, est_or(o->momentum, 0.99) };
    est_node update;

    update = est_in_replica(handle.graph) ? est_replicas_merge(handle.graph, follow_all, &m) : follow(&m, m.batch);
    if (est_def(update) != NULL) est_graph_collect(handle.graph, "update_ops", update);
}

/* Images: one fused operation. */
static est_node norm_images(const norm *n, est_node x, bool training)
{
    est_node out[3];

    est_fused_batch_norm(x, n->gamma, n->beta, est_read_variable(n->mean), est_read_variable(n->variance),
                         est_or(n->o->epsilon, 1e-3), training, out);
    if (training) {
        run_follow(n->mean, out[1], n->o);
        run_follow(n->variance, out[2], n->o);
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
        run_follow(n->mean, mean, n->o);
        run_follow(n->variance, variance, n->o);
    } else {
        mean     = est_read_variable(n->mean);
        variance = est_read_variable(n->variance);
    }
    inv = est_mul(n->gamma, est_rsqrt(est_shift(variance, est_or(n->o->epsilon, 1e-3))));
    return est_add(est_mul(x, inv), est_sub(n->beta, est_mul(mean, inv)));
}

static est_node batch_norm_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    norm     n = { .o = &((const batch_norm *)self)->o };
    est_node x = in.data[0];

    if (!est_layer_check(x, "batch_norm", 2, EST_RANK_MAX)) return est_graph_poison(x.graph, EST_INVALID_ARGUMENT);
    norm_variables(&n, x);
    return est_node_shape(x)->rank == 4 ? norm_images(&n, x, call->training) : norm_rows(&n, x, call->training);
}

static const est_layer_class batch_norm_class = {
    .keras         = "BatchNormalization",
    .scope         = "batch_normalization",
    .size          = sizeof(batch_norm),
    .n_min         = 1,
    .n_max         = 1,
    .frozen_infers = true,
    .call          = batch_norm_call,
};

static est_status batch_norm_fill(batch_norm *l, const est_batch_norm_options *options)
{
    *l = (batch_norm){ .layer = { .class = &batch_norm_class } };
    return est_options_take(EST_STRUCT_SIZE(est_batch_norm_options), options, &l->o);
}

est_layer *est_layer_batch_norm(const est_batch_norm_options *options)
{
    batch_norm l;

    return batch_norm_fill(&l, options) == EST_OK ? est_layer_make(&l.layer, l.o.name) : NULL;
}

est_node est_batch_norm(est_node x, bool training, const est_batch_norm_options *options)
{
    batch_norm l;
    est_status status = batch_norm_fill(&l, options);

    return est_layer_once(status, &l.layer, l.o.name, EST_NODES(x), EST_CALL(.training = training));
}

/* --- layer normalisation ------------------------------------------------------------------------------------------ */

typedef struct layer_norm {
    est_layer              layer;
    est_layer_norm_options o;
} layer_norm;

static est_node layer_norm_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const est_layer_norm_options *o = &((const layer_norm *)self)->o;
    est_node                      x = in.data[0], gamma, beta, mean, variance, inv;
    est_i64s                      last;

    (void)call;
    if (!est_layer_check(x, "layer_norm", 1, EST_RANK_MAX)) return est_graph_poison(x.graph, EST_INVALID_ARGUMENT);
    last     = EST_I64S(-1);
    gamma    = value_or(x, "gamma", o->no_scale, o->gamma_initializer, est_init_ones(), o->gamma_regularizer, false);
    beta     = value_or(x, "beta", o->no_center, o->beta_initializer, est_init_zeros(), o->beta_regularizer, false);
    mean     = est_reduce_mean(x, last, true);
    variance = est_reduce_mean(est_squared_difference(x, est_stop_gradient(mean)), last, true);
    inv      = est_mul(gamma, est_rsqrt(est_shift(variance, est_or(o->epsilon, 1e-3))));
    return est_add(est_mul(est_sub(x, mean), inv), beta);
}

static const est_layer_class layer_norm_class = {
    .keras = "LayerNormalization",
    .scope = "layer_normalization",
    .size  = sizeof(layer_norm),
    .n_min = 1,
    .n_max = 1,
    .call  = layer_norm_call,
};

est_layer *est_layer_layer_norm(const est_layer_norm_options *options)
{
    layer_norm l = { .layer = { .class = &layer_norm_class } };

    if (est_options_take(EST_STRUCT_SIZE(est_layer_norm_options), options, &l.o) != EST_OK) return NULL;
    return est_layer_make(&l.layer, l.o.name);
}

/* --- dropout ------------------------------------------------------------------------------------------------------ */

typedef struct dropout {
    est_layer layer;
    double    rate;
} dropout;

static est_status check_rate(double rate)
{
    return rate >= 0 && rate < 1 ? EST_OK
                                 : est_fail(EST_INVALID_ARGUMENT, "dropout: a rate of %g is not in [0, 1)", rate);
}

est_node est_dropout_layer(est_node x, double rate, bool training)
{
    est_status status = check_rate(rate);

    if (x.graph == NULL || est_graph_poisoned(x.graph)) return x;
    if (status != EST_OK) return est_graph_poison(x.graph, est_graph_blame(status));
    return training && rate > 0 ? est_dropout(x, rate, 0) : x;
}

static est_node dropout_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    return est_dropout_layer(in.data[0], ((const dropout *)self)->rate, call->training);
}

static const est_layer_class dropout_class = { "Dropout", "dropout", sizeof(dropout), 1, 1, .call = dropout_call };

est_layer *est_layer_dropout(double rate, const char *name)
{
    dropout l = { .layer = { .class = &dropout_class }, .rate = rate };

    return check_rate(rate) == EST_OK ? est_layer_make(&l.layer, name) : NULL;
}
