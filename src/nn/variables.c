/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables of models: creates them with their initial value and adds them to the collections of the graph (trainable,
 * global, local). */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "nn/nn.h"
#include "ops/array.h"

bool est_options_copy(est_graph *graph, size_t struct_size, const void *given, void *out)
{
    est_status status = est_options_take(struct_size, given, out);

    if (status != EST_OK && graph != NULL) (void)est_graph_poison(graph, status);
    return status == EST_OK;
}

/* Builds the initial value outside of the replica: all workers draw the same numbers. */
static void initialize(est_node handle, est_initializer initializer)
{
    est_replicas *replicas = est_graph_replicas(handle.graph);
    int           current  = replicas != NULL ? replicas->current : -1;
    est_nodes     after;

    if (est_graph_initializer(handle.graph, handle.id).graph != NULL) return; /* the first build did it */
    if (current == 0) replicas->current = -1;
    after = est_graph_no_after(handle.graph);
    est_variable_initializer(
        handle, est_initial_value(initializer, handle.graph, est_variable_dtype(handle), *est_node_shape(handle)));
    est_graph_restore_after(handle.graph, after);
    if (current == 0) replicas->current = 0;
}

static void collect_variable(est_node handle, est_initializer initializer, const char *collection)
{
    if (est_def(handle) == NULL) return;
    initialize(handle, initializer);
    est_graph_collect(handle.graph, est_graph_poisoned(handle.graph) ? EST_ABANDONED_VARIABLES : collection, handle);
}

est_node est_nn_variable(est_graph *graph, const char *name, est_dtype dtype, est_shape shape,
                         est_initializer initializer, const char *collection)
{
    est_node handle = est_variable(graph, name, dtype, shape);

    collect_variable(handle, initializer, collection);
    return est_graph_poisoned(graph) ? est_graph_poison(graph, EST_OK) : handle;
}

est_node est_nn_absolute_variable(est_graph *graph, const char *name, est_dtype dtype, est_shape shape,
                                  est_initializer initializer, const char *collection)
{
    const char *full;
    est_node    handle;

    handle = est_shared_variable(graph, &est_op_var_handle, name, dtype, shape, true);
    if (handle.graph != NULL) {
        collect_variable(handle, initializer, collection);
        return handle;
    }
    full = graph != NULL ? est_graph_unique_name(graph, name) : NULL;
    if (full == NULL) return est_graph_poison(graph, est_no_memory());
    handle = est_build0(
        graph, &est_op_var_handle,
        EST_ATTRS(est_attr_string("shared_name", full), est_attr_type("dtype", dtype), est_attr_shape("shape", shape)));
    if (est_def(handle) != NULL) est_graph_node(graph, handle.id)->name = full; /* removes the scope it was built in */
    est_reuse_keep(handle);
    collect_variable(handle, initializer, collection);
    return handle;
}

est_node est_weight(est_graph *graph, const char *name, est_shape shape, const est_weight_options *options)
{
    est_weight_options o;
    est_node           handle;

    if (!EST_OPTIONS(graph, est_weight_options, options, o)) return est_graph_poison(graph, EST_INVALID_ARGUMENT);
    if (o.dtype == EST_DTYPE_NONE) o.dtype = EST_F32;
    if (o.initializer.make == NULL) {
        o.initializer = o.dtype == EST_F32 || o.dtype == EST_F64 ? est_init_glorot_uniform(0) : est_init_zeros();
    }
    handle = est_nn_variable(graph, name, o.dtype, shape, o.initializer, "global_variables");
    if (est_def(handle) == NULL) return handle;
    if (!o.frozen) est_graph_collect(graph, "trainable_variables", handle);
    if (o.regularizer.cost != NULL && est_reuse_is_new(graph)) {
        est_graph_collect(graph, "losses", o.regularizer.cost(&o.regularizer, est_read_variable(handle)));
    }
    return handle;
}

est_nodes est_trainable_variables(const est_graph *graph)
{
    return est_graph_collection(graph, "trainable_variables");
}

est_nodes est_global_variables(const est_graph *graph)
{
    return est_graph_collection(graph, "global_variables");
}

est_nodes est_local_variables(const est_graph *graph)
{
    return est_graph_collection(graph, "local_variables");
}

est_nodes est_update_ops(const est_graph *graph)
{
    return est_graph_collection(graph, "update_ops");
}

est_nodes est_losses(const est_graph *graph)
{
    return est_graph_collection(graph, "losses");
}

void est_add_loss(est_node loss)
{
    if (est_def(loss) != NULL) est_graph_collect(loss.graph, "losses", loss);
}

est_node est_regularization_loss(est_graph *graph)
{
    est_nodes losses = est_losses(graph);
    est_node  total;

    if (losses.n == 0) return est_scalar(graph, EST_F32, 0);
    total = est_cast(losses.data[0], EST_F32);
    for (int i = 1; i < est_losses(graph).n; i++) total = est_add(total, est_cast(est_losses(graph).data[i], EST_F32));
    return total;
}

est_node est_global_step(est_graph *graph)
{
    est_nodes made = est_graph_collection(graph, "global_step");
    est_node  step;

    if (made.n > 0) return made.data[0];
    step = est_nn_absolute_variable(graph, "global_step", EST_I64, EST_SHAPE_SCALAR, est_init_zeros(),
                                    "global_variables");
    if (est_def(step) != NULL) est_graph_collect(graph, "global_step", step);
    return step;
}

/* --- small helpers ------------------------------------------------------------------------------------------------ */

est_node est_nn_align_weights(est_node weights, est_node values)
{
    int w = est_node_shape(weights)->rank, v = est_node_shape(values)->rank;

    if (est_node_dtype(weights) != est_node_dtype(values)) weights = est_cast(weights, est_node_dtype(values));
    if (w > 0 && v == w + 1) return est_expand_dims(weights, -1);
    if (v > 0 && w == v + 1 && est_node_dim(weights, -1) == 1) return est_squeeze(weights, EST_I64S(-1));
    return weights;
}

est_node est_nn_reshape(est_node y, est_nodes sizes)
{
    int64_t dim[EST_RANK_MAX];
    int     n_unknown = 0;
    bool    empty     = false; /* then an unknown size does not follow from the others */

    for (int i = 0; i < sizes.n && i < EST_RANK_MAX; i++) {
        const est_value *value = est_node_value(sizes.data[i]);

        dim[i] = value != NULL && value->v[0] != EST_VALUE_UNKNOWN ? value->v[0] : -1;
        n_unknown += dim[i] < 0;
        empty = empty || dim[i] == 0;
    }
    if (sizes.n <= EST_RANK_MAX && n_unknown <= 1 && !empty) return est_reshape(y, (est_i64s){ dim, sizes.n });
    return est_reshape_to(y, est_pack(sizes, 0));
}

est_node est_nn_dim(est_node x, int axis)
{
    int64_t known = est_node_dim(x, axis);

    if (axis < 0) axis += est_node_shape(x)->rank;
    if (known >= 0) return est_scalar(x.graph, EST_I32, (double)known);
    return est_strided_slice(est_shape_of(x), EST_I64S(axis), EST_I64S(axis + 1), EST_I64S(1),
                             (est_strided_slice_options){ .shrink_axis_mask = 1 });
}

est_node est_nn_densify(est_gradient g, est_node variable)
{
    if (g.indices.graph == NULL) return g.values;
    return est_unsorted_segment_sum(g.values, g.indices,
                                    est_scalar(variable.graph, EST_I32, (double)est_node_dim(variable, 0)));
}
