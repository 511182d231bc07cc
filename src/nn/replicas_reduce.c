/* SPDX-License-Identifier: Apache-2.0
 *
 * See nn/replicas_reduce.h. A mean by examples is sum (n_i / n) v_i, in order of replicas; EstReduce, weighted by the
 * number of examples, then reduces across workers. */
#include "nn/replicas_reduce.h"

static est_node *node_list(est_graph *graph, int n)
{
    est_node *list = est_arena_alloc(est_graph_arena(graph), sizeof *list * (size_t)n);

    if (list == NULL) (void)est_graph_poison(graph, est_no_memory());
    return list;
}

/* What joins values of all replicas: where these are on several devices, on the host, from which the result comes to
 * all that need it. */
static est_node join(const est_replica_reduction *j, est_nodes parts, bool sum)
{
    est_colocation before;
    est_node       joined;

    if (parts.n == 1) return parts.data[0];
    before = est_graph_colocate(j->graph, EST_NO_NODE); /* nothing changes yet */
    if (j->meet) est_graph_device(j->graph, "/device:CPU:0");
    joined = sum ? est_add_n(parts) : est_concat(parts, 0);
    est_graph_colocate_end(j->graph, before);
    return joined;
}

est_replica_reduction est_replica_reduction_begin(est_graph *graph, est_reduce_op how, const est_node *weight)
{
    const est_replicas   *r = est_graph_replicas(graph);
    est_replica_reduction j = {
        .graph = graph, .how = how, .n = r->n, .across_workers = r->across_workers, .meet = r->merge_device != NULL
    };
    est_node total;

    if (weight == NULL) {
        if (j.across_workers) j.total = est_scalar(graph, EST_F32, r->n);
        return j;
    }
    if (r->n == 1) { /* it has all examples here */
        j.total = weight[0];
        return j;
    }
    total = join(&j, (est_nodes){ weight, r->n }, true);
    if (j.across_workers) j.total = total;
    j.has = node_list(graph, r->n);
    if (how == EST_REDUCE_OP_MEAN) j.share = node_list(graph, r->n);
    if (j.has == NULL || (how == EST_REDUCE_OP_MEAN && j.share == NULL))
        return (est_replica_reduction){ .graph = graph, .n = r->n };
    for (int i = 0; i < r->n; i++) {
        j.has[i] = est_greater(weight[i], est_scalar(graph, EST_F32, 0));
        if (j.share != NULL) j.share[i] = est_div_no_nan(est_cast(weight[i], EST_F64), est_cast(total, EST_F64));
    }
    return j;
}

static est_node weighted(const est_replica_reduction *j, int i, est_node value)
{
    est_dtype dtype = est_node_dtype(value);

    if (j->has != NULL) value = est_select(j->has[i], value, est_zeros_like(value));
    if (j->share == NULL) return value;
    return est_mul(value, dtype == EST_F64 ? j->share[i] : est_cast(j->share[i], dtype));
}

/* The summand of replica i, made where the value is. */
static est_node part(const est_replica_reduction *j, int i, est_node value)
{
    est_colocation before = est_graph_colocate(j->graph, j->meet ? value : EST_NO_NODE);

    value = weighted(j, i, value);
    est_graph_colocate_end(j->graph, before);
    return value;
}

/* The mean with equal weights. */
static est_node divided(const est_replica_reduction *j, est_node sum)
{
    return j->how == EST_REDUCE_OP_MEAN && j->share == NULL && j->n > 1 ? est_scale(sum, 1.0 / j->n) : sum;
}

static est_node across(const est_replica_reduction *j, est_node value)
{
    if (!j->across_workers) return value;
    if (est_node_dtype(value) != EST_I32) return est_reduce_across(value, j->total, j->how == EST_REDUCE_OP_MEAN);
    return est_cast(est_reduce_across(est_cast(value, EST_I64), j->total, j->how == EST_REDUCE_OP_MEAN), EST_I32);
}

/* The sum of at least one part. */
static est_node dense(const est_replica_reduction *j, est_nodes parts)
{
    return across(j, divided(j, join(j, parts, true)));
}

est_node est_replica_reduce_value(const est_replica_reduction *reduction, const est_node *values)
{
    est_node *parts = node_list(reduction->graph, reduction->n);

    if (parts == NULL || est_graph_poisoned(reduction->graph)) return est_graph_poison(reduction->graph, EST_OK);
    for (int i = 0; i < reduction->n; i++) parts[i] = part(reduction, i, values[i]);
    return dense(reduction, (est_nodes){ parts, reduction->n });
}

static est_gradient rows(const est_replica_reduction *j, est_nodes indices, est_nodes values)
{
    est_gradient g = { .indices = join(j, indices, false), .values = divided(j, join(j, values, false)) };

    return j->across_workers ? est_reduce_rows_across(est_dedup(g), j->total, j->how == EST_REDUCE_OP_MEAN) : g;
}

/* Gives a gradient the shape of its variable (with indices, any number of rows of it) where it is not known without a
 * batch: a worker without a batch has to contribute zeros of that shape. */
static est_node shaped(est_node value, est_node variable, bool rows)
{
    est_shape shape = *est_node_shape(variable);
    bool      known = true;

    if (rows) shape.dim[0] = -1;
    for (int i = 0; i < shape.rank; i++) known = known && (est_node_dim(value, i) >= 0 || (rows && i == 0));
    return known ? value : est_reshape(value, (est_i64s){ shape.dim, shape.rank });
}

est_gradient est_replica_reduce_gradient(const est_replica_reduction *reduction, est_node variable,
                                         const est_gradient *gradients)
{
    est_node *values = node_list(reduction->graph, reduction->n), *indices = node_list(reduction->graph, reduction->n);
    int       n = 0, sparse = 0;

    if (values == NULL || indices == NULL || est_graph_poisoned(reduction->graph)) return (est_gradient){ 0 };
    for (int i = 0; i < reduction->n; i++)
        sparse += gradients[i].values.graph != NULL && gradients[i].indices.graph != NULL;
    for (int i = 0; i < reduction->n; i++) n += gradients[i].values.graph != NULL;
    if (n == 0) return (est_gradient){ 0 };
    if (sparse < n) sparse = 0; /* then all are made dense */
    n = 0;
    for (int i = 0; i < reduction->n; i++) {
        est_gradient g = gradients[i];

        if (g.values.graph == NULL) continue;
        if (sparse == 0) g = (est_gradient){ .values = est_nn_densify(g, variable) };
        if (reduction->across_workers) g.values = shaped(g.values, variable, sparse > 0);
        indices[n]  = g.indices;
        values[n++] = part(reduction, i, g.values);
    }
    if (sparse > 0) return rows(reduction, (est_nodes){ indices, n }, (est_nodes){ values, n });
    return (est_gradient){ .values = dense(reduction, (est_nodes){ values, n }) };
}
