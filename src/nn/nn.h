/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers of nn/: options with a size, variables in collections of the graph, and small node helpers.
 *
 * Collections on a graph: "trainable_variables", "global_variables", "local_variables", "update_ops", "losses". */
#ifndef EST_NN_NN_H
#define EST_NN_NN_H

#include "base/options.h"
#include "estoc/nn.h"
#include "ops/ops.h"

/* Copies the caller's options over zeroed `out` of `size` bytes: NULL leaves all defaults, a shorter struct (an older
 * caller) leaves its tail zero. A struct without a size or with a larger one poisons the graph and gives false. */
bool est_options_copy(est_graph *graph, size_t struct_size, const void *given, void *out);

#define EST_OPTIONS(graph, type, given, out) est_options_copy(graph, EST_STRUCT_SIZE(type), given, &(out))

/* Fails the graph; used as `return est_nn_fail(graph, "text", ...)`. */
#define est_nn_fail(graph, ...) est_graph_poison(graph, est_graph_blame(est_fail(EST_INVALID_ARGUMENT, __VA_ARGS__)))

/* Creates a variable with an initial value and the full name `name` regardless of the scope (made unique if taken), and
 * adds it to the collection. */
est_node est_nn_absolute_variable(est_graph *graph, const char *name, est_dtype dtype, est_shape shape,
                                  est_initializer initializer, const char *collection);

/* The same, named within the current scope. */
est_node est_nn_variable(est_graph *graph, const char *name, est_dtype dtype, est_shape shape,
                         est_initializer initializer, const char *collection);

/* The distribution that an initializer draws one row of `width` numbers from (variance scaling: as for [1, width]).
 * Returns false for a custom initializer, which cannot draw single rows. The seed is the initializer's, or the graph's,
 * which is the same in all workers of a job. */
bool est_nn_row_draw(const est_initializer *initializer, const est_graph *graph, int64_t width, est_row_draw *out);

/* Weights reshaped to broadcast with values: with one axis fewer they get a last axis of size 1. */
est_node est_nn_align_weights(est_node weights, est_node values);

/* The size of an axis as an int32 scalar, known statically or at run time. */
est_node est_nn_dim(est_node x, int axis);

/* x / sqrt(max(sum of x^2, 1e-12)), the sum along an axis. */
est_node est_nn_unit_length(est_node x, int axis);

/* y with these sizes, int32 scalars. Where at most one is unknown the shape is a constant: one that depended on y would
 * have a device wait for the host, which computes shapes. */
est_node est_nn_reshape(est_node y, est_nodes sizes);

/* The rows of a sparse gradient in a tensor shaped as the variable. */
est_node est_nn_densify(est_gradient g, est_node variable);

#endif
