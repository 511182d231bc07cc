/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs and nodes: the operations of a model.
 *
 * A graph is built once by calling the functions of <estoc/ops.h> and run many times by a session. An est_node is a
 * small value that names one output of one operation, so calls nest. Builders never fail visibly: the first bad
 * operation poisons the graph, later ones pass the poison on, and est_graph_status() reports what went wrong with the
 * operation, the shapes and the line of your program that built it.
 *
 * Threading: one thread at a time while it grows; otherwise any thread may run sessions over it. A graph may grow
 * between runs; new variables need est_session_init() again. */
#ifndef ESTOC_GRAPH_H
#define ESTOC_GRAPH_H

#include "estoc/status.h"
#include "estoc/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_graph est_graph;

/* Output `output` of operation `id` of `graph`. A zeroed est_node stands for "none". */
typedef struct est_node {
    est_graph *graph;
    int32_t    id;
    int32_t    output;
} est_node;

#define EST_NO_NODE ((est_node){ 0 })

typedef struct est_nodes {
    const est_node *data;
    int             n;
} est_nodes;

/* EST_NODES(a, b, c): a list of nodes as one argument. */
#define EST_NODES(...) EST_SPAN(est_nodes, const est_node, __VA_ARGS__)

/* An empty list of nodes. */
#define EST_NO_NODES ((est_nodes){ 0 })

/* A node with a name of the caller's, and a list of them: EST_NAMED_NODES({ "loss", loss }, { "accuracy", a }). */
typedef struct est_named_node {
    const char *name;
    est_node    node;
} est_named_node;

typedef struct est_named_nodes {
    const est_named_node *data;
    int                   n;
} est_named_nodes;

#define EST_NAMED_NODES(...) EST_SPAN(est_named_nodes, const est_named_node, __VA_ARGS__)

/* A new empty graph. `seed` 0: random operations without a seed of their own get one drawn per session. */
EST_API EST_MUST_CHECK est_status est_graph_create(uint64_t seed, est_graph **out);

/* The seed of random operations that are made from now on, which draw as the first ones of a new graph, and of sessions
 * that are opened from now on; est_session_set_seed is for open ones. */
EST_API void est_graph_set_seed(est_graph *graph, uint64_t seed);

/* What counts the seeds of operations that have none of their own. */
typedef struct est_seed_counter {
    uint64_t next; /* above 0 */
    uint64_t step; /* 0: all get the same */
} est_seed_counter;

/* Random operations without a seed of their own that are made from now on take theirs from a counter, which several
 * graphs may share: what is built the same way in graphs of one seed draws the same numbers. Borrowed. NULL: each graph
 * counts by itself again. */
EST_API void est_graph_count_seeds(est_graph *graph, est_seed_counter *counter);

/* Frees the graph and every node of it. Sessions that run it must be freed first. NULL is fine. */
EST_API void est_graph_free(est_graph *graph);

/* Calls release(user) when the graph is freed, and its nodes with it; at once when memory is out, which poisons the
 * graph. */
EST_API void est_graph_keep(est_graph *graph, void (*release)(void *user), void *user);

/* EST_OK, or the first failure of any builder, whose text est_error_message() then gives. */
EST_API EST_MUST_CHECK est_status est_graph_status(const est_graph *graph);

/* Poisons the graph with the calling thread's last failure and returns the node that stands for it. */
EST_API est_node est_graph_poison(est_graph *graph, est_status status);

/* Takes the failure back: nodes that were made before it are valid as before, and building may go on. For programs that
 * outlive a mistake, as interactive ones do. A layer whose first call has failed must be made again. */
EST_API void est_graph_recover(est_graph *graph);

/* What is built between begin and end with the same key shares its variables, states of metrics included: the first
 * build in the graph makes them, later ones find them by name and order and must make the same calls. So functions of
 * one graph can count in one metric. The key is an address of the caller's, which is only compared. Every begin needs
 * an end, also after errors. */
EST_API void est_share_begin(est_graph *graph, const void *key);
EST_API void est_share_end(est_graph *graph);

/* Names of operations made until the matching pop start with "scope/"; a scope used twice becomes scope_1. */
EST_API void est_scope_push(est_graph *graph, const char *scope);
EST_API void est_scope_pop(est_graph *graph);

/* est_scope_push of a scope that is not below the current one and may be in use: names start with exactly "scope/", or
 * with nothing when it is "". */
EST_API void est_scope_enter(est_graph *graph, const char *scope);

/* Gives the operation of `node` a name (made unique if taken) and returns the node. */
EST_API est_node est_named(est_node node, const char *name);

/* Makes the operation of `node` run only after that of `before`; returns `node`. */
EST_API est_node est_after(est_node node, est_node before);

/* Makes the operations created until the next call run only after those of `before` (copied), as est_after does for one
 * (tf.control_dependencies); EST_NO_NODES: after none. Constants, placeholders, handles of variables and tables are not
 * ordered, nor are the initial values of variables. */
EST_API void est_graph_after(est_graph *graph, est_nodes before);

/* Whether one of the nodes can be computed only after `on`. */
EST_API bool est_nodes_need(est_nodes nodes, est_node on);

/* Pins the operations created until the next call to a device, parts of "/job:worker/replica:0/task:0/device:CPU:0";
 * NULL or "": any device. Copied. */
EST_API void est_graph_device(est_graph *graph, const char *device);

/* What the layers of a graph multiply. The variables, the sums, the other operations and the updates are float32 in
 * both. Operations that a program makes by itself (est_matmul) are never changed: est_round_bfloat16. */
typedef enum est_precision {
    EST_PRECISION_FLOAT32        = 0, /* all bits; on GPUs TF32, unless it is turned off */
    EST_PRECISION_MIXED_BFLOAT16 = 1  /* factors rounded to bfloat16, in the backward pass as well */
} est_precision;

/* Sets the precision of the layers that are called from now on (dense, convolutions, attention, dot), where they work
 * on float32; returns what it was. It has no effect on graphs of exports, which are float32. */
EST_API est_precision est_graph_precision(est_graph *graph, est_precision precision);

/* Returns the device of an operation, as "/job:ps/task:0/device:CPU:0" or a part of it; NULL or "": any. `node` is its
 * output 0, `op` its TensorFlow op name ("VarHandleOp"), `device` that of est_graph_device. The result is copied. The
 * function adds no operations to the graph. */
typedef const char *(*est_device_fn)(est_node node, const char *op, const char *device, void *user);

/* Asks `fn` for the device of every operation made from now on (tf.device with a function); NULL: no function, that of
 * est_graph_device. It is asked once for each operation, with its name: when est_named or a builder of variables,
 * placeholders or tables names it, else before the next operation or in est_graph_status. Slots of optimizers go with
 * their variable, unasked. `user` is borrowed until the next call or the graph's end. An invalid device poisons it. */
EST_API void est_graph_device_fn(est_graph *graph, est_device_fn fn, void *user);

/* Static properties of a node. Names are borrowed until the graph is freed. */
EST_API const char      *est_node_name(est_node node);
EST_API est_dtype        est_node_dtype(est_node node);
EST_API const est_shape *est_node_shape(est_node node);
EST_API int64_t          est_node_dim(est_node node, int axis); /* -1: unknown; negative axes count from the end */

EST_API const char *est_node_op(est_node node);     /* what it does: "MatMul" */
EST_API const char *est_node_device(est_node node); /* as it was asked for; "": free */
EST_API int         est_node_inputs(est_node node);
EST_API est_node    est_node_input(est_node node, int i); /* EST_NO_NODE beyond the last */

/* Finds output 0 of the operation called `name`; EST_NO_NODE if there is none. */
EST_API est_node est_graph_find(const est_graph *graph, const char *name);

/* The operations in the order in which they were made: how many, and output 0 of one (EST_NO_NODE beyond the last). */
EST_API int      est_graph_operations(const est_graph *graph);
EST_API est_node est_graph_operation(const est_graph *graph, int i);

/* The derivative of a scalar towards one node or variable: dense, or only some rows (indices set). */
typedef struct est_gradient {
    est_node values;  /* the gradient, or its rows [n, ...]; EST_NO_NODE when the loss does not depend on it */
    est_node indices; /* EST_NO_NODE: dense; else which rows, int64 or int32 [n], duplicates mean their sum */
} est_gradient;

/* Adds the operations that compute d(sum of y)/d(wrt[i]) and puts them in out[wrt.n]. A variable is named by its
 * handle (est_variable). Errors poison the graph. */
EST_API void est_gradients(est_node y, est_nodes wrt, est_gradient *out);

/* The same for several y at once, to each of which dy[i] is the gradient; ones where dy is shorter or EST_NO_NODE. */
EST_API void est_gradients_from(est_nodes y, est_nodes dy, est_nodes wrt, est_gradient *out);

/* Builds gradients in place of those that est_gradients finds: dy are those towards each y, zeros where there is none;
 * dx[i], zeroed before, is set for every x that has one: of the graph, and of the dtype and shape of x[i]. */
typedef est_status (*est_gradient_fn)(est_nodes dy, est_gradient *dx, void *user);

/* Puts nodes with the values of y in out[y.n], whose gradients towards x are what `fn` builds, whatever led from x to y
 * (tf.custom_gradient); towards anything else they are 0. A variable is named by its handle. `fn` runs in each
 * est_gradients that comes by; `user` is borrowed until the graph is freed. Errors poison the graph. */
EST_API void est_custom_gradient(est_nodes y, est_nodes x, est_gradient_fn fn, void *user, est_node *out);

/* Sets the source line that errors of the next builder calls of this thread name, until it is called again or a graph
 * is created; <estoc/locate.h> calls it for you. `file` is borrowed until then; NULL: none. */
EST_API void est_here(const char *file, int line);

#ifdef __cplusplus
}
#endif
#endif
