/* SPDX-License-Identifier: Apache-2.0
 *
 * All operations: their descriptors by C name (est_op_<name>) and by TensorFlow name. The list is ops/ops.def; adding
 * an op is one file, one line there and one test. */
#ifndef EST_OPS_OPS_H
#define EST_OPS_OPS_H

#include "estoc/ops.h"
#include "graph/replicas.h"
#include "graph/reuse.h"
#include "graph/variable.h"

#define EST_OP(name) extern const est_op est_op_##name;
#include "ops/ops.def"
#undef EST_OP

/* The op TensorFlow calls `name`, or NULL. */
const est_op *est_op_find(const char *name);
/* The same for graphs that others have written. They have no operations that only the planner creates (est_op.planned),
 * whose kernels trust their attributes. */
const est_op *est_op_find_public(const char *name);

/* Every op, ended by NULL. */
const est_op *const *est_op_table(void);

/* Moves `axis` to the end and back, for ops that work on the last axis; nothing is added when it is there already. */
est_node est_axis_to_last(est_node x, int axis);
est_node est_axis_from_last(est_node x, int axis);

/* The dtype a variable's handle says it holds; EST_DTYPE_NONE when `variable` is no handle. */
est_dtype est_variable_dtype(est_node variable);

/* The variable that the first build or replica has made under this name (est_reuse_find) with `op`; its dtype and shape
 * must be these. EST_NO_NODE: it is to be made. */
est_node est_shared_variable(est_graph *graph, const est_op *op, const char *name, est_dtype dtype, est_shape shape,
                             bool absolute);

/* est_build() for ops that change variables: also checks that every variable among `in` holds what the op's type
 * attribute ("T" or "dtype") says. */
est_node est_build_update(const est_op *op, est_nodes in, est_attrs attrs);

/* The update of an optimizer, `sparse` for a gradient of rows. `in` has every input but the gradient, which goes where
 * est_op.update says. Rows must be distinct (est_dedup). */
est_node est_build_apply(const est_op *dense, const est_op *sparse, est_nodes in, est_gradient g, est_attrs attrs);

/* The gradient of the result of a product: rounded to bfloat16 where both factors are, so that the products of the
 * backward pass are of such numbers too. */
est_node est_round_gradient(const est_grad *g);
/* y = x rounded so, n numbers. For kernels of the CPU. */
void est_round_floats(est_pool *pool, const float *x, int64_t n, float *y);

/* Whether a variable has a value. */
est_node est_variable_is_initialized(est_node variable);

/* The policy of a dynamic embedding (kernels/row_table.h). */
typedef struct est_row_policy {
    est_row_draw draw;
    int64_t      admit_after, max_age;
} est_row_policy;

/* A variable, float32 [max_rows, width], with a row for each key that was admitted. It has values from the
 * beginning. */
est_node est_row_variable(est_graph *graph, const char *name, est_shape shape, const est_row_policy *policy);

/* A slot of one, called `name` whatever the scope: a row for each of the same keys, `value` at first. */
est_node est_row_slot(est_node variable, const char *name, double value);

bool est_has_rows(est_node variable);

/* The row of each key (int64), -1 for those that have none. A step that trains the variable counts and admits them. */
est_node est_find_rows(est_node variable, est_node keys);

/* est_vocabulary_list with ids of its own: an int64 vector as long as the keys, shared. NULL: 0, 1, ... */
est_node est_vocabulary_ids(est_graph *graph, est_tensor *keys, est_tensor *ids, const est_table_options *options);

/* The lines of a vocabulary file, under the rules of est_vocabulary_file, as a vector of strings. */
EST_MUST_CHECK est_status est_vocabulary_read(const char *path, est_tensor **out);

/* The ids that a lookup gave for the keys, or an error that shows the first key without one (an id below 0). */
est_node est_check_found(est_node ids, est_node keys, const char *message);

/* Weights of ragged values, as many in each row; at run time an error with column and row when they are not. */
est_node est_line_up(est_ragged_node values, est_ragged_node weights, const char *column);

/* Reductions across the workers of multi-worker training (ops/reduce_across.c): of a tensor of the same shape, of rows
 * by index, and a gather along axis 0. `weight`, float32 [], is the number of examples behind a worker's value: a mean
 * is the mean over all examples, and values of weight 0 are left out, of sums as well. A session without other workers
 * returns its input. Output 1 of a gather, int64 [], is the first row of this worker, in order of the ranks at this
 * step. */
est_node     est_reduce_across(est_node value, est_node weight, bool mean);
est_gradient est_reduce_rows_across(est_gradient rows, est_node weight, bool mean);
est_node     est_gather_across(est_node value);

/* How many elements of x are 0: int64 []. */
est_node est_count_zeros(est_node x);

/* The seeds of a random operation. seed2: `seed`, or the graph's next one when it is 0. seed: the graph's; of an
 * operation that has its own in a graph that has none it is EST_DEFAULT_GRAPH_SEED, as in TensorFlow, and what the
 * operation draws in run i of a session is the same in every process. */
#define EST_DEFAULT_GRAPH_SEED 87654321
uint64_t est_seed_or_next(est_graph *graph, uint64_t seed);
int64_t  est_seed_of_graph(const est_graph *graph, uint64_t seed);

#endif
