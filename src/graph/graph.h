/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph as the library sees it: an array of node definitions in one arena.
 *
 * Node ids are positions in that array, and inputs always have smaller ids than their users, so the array is a
 * topological order as it stands. Graphs only grow; passes (runtime/pass.h) work on private copies. Everything a node
 * points to lives in the graph's arena, except tensors in attributes, which are shared. */
#ifndef EST_GRAPH_GRAPH_H
#define EST_GRAPH_GRAPH_H

#include "base/alloc.h"
#include "estoc/graph.h"

typedef struct est_op est_op;

typedef enum est_attr_kind {
    EST_ATTR_INT = 1,
    EST_ATTR_FLOAT,
    EST_ATTR_BOOL,
    EST_ATTR_TYPE,
    EST_ATTR_SHAPE,
    EST_ATTR_STRING,
    EST_ATTR_INTS,
    EST_ATTR_TYPES, /* dtypes, as numbers in `ints` */
    EST_ATTR_SHAPES,
    EST_ATTR_TENSOR
} est_attr_kind;

typedef struct est_attr {
    const char   *name;
    est_attr_kind kind;
    union {
        int64_t     i;
        double      f;
        bool        b;
        est_dtype   type;
        est_shape   shape;
        const char *s;
        est_i64s    ints;
        est_shapes  shapes;
        est_tensor *tensor; /* shared: the graph holds a reference */
    };
} est_attr;

typedef struct est_attrs {
    const est_attr *data;
    int             n;
} est_attrs;

/* EST_ATTRS(est_attr_int("axis", 1), est_attr_bool("keep_dims", true)) */
#define EST_ATTRS(...)                                                                                                 \
    ((est_attrs){ (const est_attr[]){ __VA_ARGS__ },                                                                   \
                  (int)(sizeof((const est_attr[]){ __VA_ARGS__ }) / sizeof(est_attr)) })
#define EST_NO_ATTRS ((est_attrs){ 0 })

static inline est_attr est_attr_int(const char *name, int64_t v)
{
    return (est_attr){ .name = name, .kind = EST_ATTR_INT, .i = v };
}
static inline est_attr est_attr_float(const char *name, double v)
{
    return (est_attr){ .name = name, .kind = EST_ATTR_FLOAT, .f = v };
}
static inline est_attr est_attr_bool(const char *name, bool v)
{
    return (est_attr){ .name = name, .kind = EST_ATTR_BOOL, .b = v };
}
static inline est_attr est_attr_type(const char *name, est_dtype v)
{
    return (est_attr){ .name = name, .kind = EST_ATTR_TYPE, .type = v };
}
static inline est_attr est_attr_shape(const char *name, est_shape v)
{
    return (est_attr){ .name = name, .kind = EST_ATTR_SHAPE, .shape = v };
}
static inline est_attr est_attr_string(const char *name, const char *v)
{
    return (est_attr){ .name = name, .kind = EST_ATTR_STRING, .s = v };
}
static inline est_attr est_attr_ints(const char *name, est_i64s v)
{
    return (est_attr){ .name = name, .kind = EST_ATTR_INTS, .ints = v };
}
static inline est_attr est_attr_types(const char *name, est_i64s v)
{
    return (est_attr){ .name = name, .kind = EST_ATTR_TYPES, .ints = v };
}
static inline est_attr est_attr_shapes(const char *name, est_shapes v)
{
    return (est_attr){ .name = name, .kind = EST_ATTR_SHAPES, .shapes = v };
}
static inline est_attr est_attr_tensor(const char *name, est_tensor *v)
{
    return (est_attr){ .name = name, .kind = EST_ATTR_TENSOR, .tensor = v };
}

/* The statically known contents of a small integer tensor: shape inference uses them to follow shapes that a graph
 * computes (Shape -> StridedSlice -> Pack -> Reshape). */
#define EST_VALUE_MAX     16
#define EST_VALUE_UNKNOWN INT64_MIN
typedef struct est_value {
    int32_t n; /* elements; -1: nothing is known */
    int64_t v[EST_VALUE_MAX];
} est_value;

typedef struct est_edge {
    int32_t node;
    int32_t output;
} est_edge;

typedef struct est_node_def {
    const est_op *op;
    const est_op *stands_for; /* what messages call the operation: of a fused one, the one that fails; NULL: op */
    const char   *name;
    const char   *device; /* "": free */
    int32_t       id;
    int32_t       order; /* position in the program: the id, or in a rewritten graph that of the replaced node */
    int32_t       n_in, n_control, n_out, n_attr;
    est_edge     *in;
    int32_t      *control; /* nodes that must run before */
    est_attr     *attr;    /* every attribute of the op's signature, defaults filled in */
    est_dtype    *dtype;   /* of each output, as the two below */
    est_shape    *shape;
    est_value    *value;
    const char   *file; /* of the user's program, or "" */
    int           line;
} est_node_def;

/* Sets the device of a node to the one that `fn` returns for it. */
EST_MUST_CHECK est_status est_graph_place(est_graph *graph, est_node_def *def, est_device_fn fn, void *user);

/* Asks the device function of the graph about a node whose name is final, unless it was asked or there is none. */
EST_MUST_CHECK est_status est_graph_ask_device(est_graph *graph, est_node_def *def);

/* A collection: pairs of variables that live at one task, one after the other. The placement of a session gives them
 * one task unless the program has pinned them apart. */
#define EST_COLOCATED "colocated_variables"

/* A collection: variables whose initial values could not be built. They have none, and are in no other collection. */
#define EST_ABANDONED_VARIABLES "abandoned_variables"

/* Operations made until est_graph_colocate_end are pinned to the device of `with` (tf.colocate_with). */
typedef struct est_colocation {
    const char   *device;
    est_device_fn device_fn;
} est_colocation;
est_colocation est_graph_colocate(est_graph *graph, est_node with);
void           est_graph_colocate_end(est_graph *graph, est_colocation before);

/* Attributes of a node by name. The name must be in the op's signature (asserted). */
const est_attr *est_node_attr(const est_node_def *node, const char *name);
int64_t         est_node_int(const est_node_def *node, const char *name);
double          est_node_float(const est_node_def *node, const char *name);
bool            est_node_bool(const est_node_def *node, const char *name);
est_dtype       est_node_type(const est_node_def *node, const char *name);
const char     *est_node_string(const est_node_def *node, const char *name);
est_i64s        est_node_ints(const est_node_def *node, const char *name); /* also for EST_ATTR_TYPES */
est_shapes      est_node_shapes(const est_node_def *node, const char *name);

/* How often this thread has called est_node_attr(), directly or through the others, for tests that a path makes no
 * lookups. */
uint64_t est_node_attr_count(void);

/* Adds an operation; the builders of ops/ use this. `in` may come from a poisoned graph or be EST_NO_NODE (an error).
 * Type attributes are deduced from the inputs where they can be. Returns output 0, or poison. `graph` may be NULL when
 * there is at least one input. */
est_node est_build(est_graph *graph, const est_op *op, est_nodes in, est_attrs attrs);

#ifndef __cplusplus /* code for GPUs builds no nodes */
/* The usual arities, so that a builder is one line. */
static inline est_node est_build0(est_graph *graph, const est_op *op, est_attrs attrs)
{
    return est_build(graph, op, (est_nodes){ 0 }, attrs);
}
static inline est_node est_build1(const est_op *op, est_node a, est_attrs attrs)
{
    return est_build(a.graph, op, EST_NODES(a), attrs);
}
static inline est_node est_build2(const est_op *op, est_node a, est_node b, est_attrs attrs)
{
    return est_build(a.graph, op, EST_NODES(a, b), attrs);
}
static inline est_node est_build3(const est_op *op, est_node a, est_node b, est_node c, est_attrs attrs)
{
    return est_build(a.graph, op, EST_NODES(a, b, c), attrs);
}
#endif

/* Another output of the same operation. */
static inline est_node est_output(est_node node, int output)
{
    return (est_node){ node.graph, node.id, output };
}

int32_t             est_graph_size(const est_graph *graph);
est_node_def       *est_graph_node(const est_graph *graph, int32_t id);
const est_node_def *est_def(est_node node); /* NULL for none or poison */
est_arena          *est_graph_arena(const est_graph *graph);
uint64_t            est_graph_seed(const est_graph *graph);
bool                est_graph_poisoned(const est_graph *graph);

/* Whether layers round what they multiply to bfloat16; and that they never do, whatever est_graph_precision says. */
bool est_graph_is_mixed(const est_graph *graph);
void est_graph_keep_float32(est_graph *graph);

/* Puts a complete node at the end of the graph and gives it its id. */
EST_MUST_CHECK est_status est_graph_append(est_graph *g, est_node_def *def);

/* Changes whenever an edge is added between existing nodes (est_after), which makes earlier plans stale. */
uint64_t est_graph_version(const est_graph *graph);

/* Reserves a unique name: `wanted` itself, or wanted_1, ... Scopes are not added. In the graph's arena; NULL when out
 * of memory. */
const char *est_graph_unique_name(est_graph *graph, const char *wanted);

/* est_scope_push of a name that may be in use, and does not become so by this: the scope of a layer's second call. */
void est_scope_reenter(est_graph *graph, const char *scope);

/* Ends the order of est_graph_after and returns it, for restore: while initial values of variables are built. */
est_nodes est_graph_no_after(est_graph *graph);
void      est_graph_restore_after(est_graph *graph, est_nodes after);

/* The current scope, "" or "a/b/". Borrowed until the graph is freed. */
const char *est_graph_scope(const est_graph *graph);

/* A seed for the next random operation: depends on the graph's seed and on the number of seeds drawn before. */
uint64_t est_graph_next_seed(est_graph *graph);

/* The update that gives a variable its first value; EST_NO_NODE if none was set. */
void     est_graph_set_initializer(est_graph *graph, int32_t variable, est_node assign);
est_node est_graph_initializer(const est_graph *graph, int32_t variable);

/* Nodes first .. first + n_y - 1, each a copy of something, whose gradients a function of the program builds
 * (est_custom_gradient). */
typedef struct est_own_gradient {
    struct est_own_gradient *next; /* an older one */
    int32_t                  first, n_y, n_x;
    est_edge                *x;
    est_gradient_fn          fn;
    void                    *user;
} est_own_gradient;

void                    est_graph_add_own_gradient(est_graph *graph, est_own_gradient *own); /* in its arena */
const est_own_gradient *est_graph_own_gradients(const est_graph *graph);

/* Lists of nodes kept on the graph by name ("trainable_variables", "update_ops", ...). A list that was never added to
 * is empty. The span is borrowed until the next est_graph_collect(). */
void      est_graph_collect(est_graph *graph, const char *collection, est_node node);
void      est_graph_uncollect(est_graph *graph, const char *collection, est_node node);
est_nodes est_graph_collection(const est_graph *graph, const char *collection);

/* Training settings that are not visible in nodes and must be equal in all workers, as lines of name=value
 * (cluster/terms.h): the optimizers. "": none. Borrowed until more is added. */
void        est_graph_add_terms(est_graph *graph, const char *lines);
const char *est_graph_terms(const est_graph *graph);

/* Variables that are trained here but not in TensorFlow, whose checkpoints lack their slots; and these slots and other
 * variables that keep their initial value when a checkpoint lacks them. */
#define EST_NEW_SLOTS          "new_slots"
#define EST_OPTIONAL_VARIABLES "optional_variables"

/* The last location that est_here() set in this thread. */
void est_graph_where(const char **file, int *line);

/* Prepends the location that est_here() set to the current error; returns `status`. */
est_status est_graph_blame(est_status status);

/* "MatMul node 'dense/MatMul' (model.c:31)": how error texts name a node. Returns buf. */
#define EST_NODE_TEXT_MAX 256
const char *est_node_text(const est_node_def *node, char buf[EST_NODE_TEXT_MAX]);

/* Adds to the current error where the first node that it names was built, if it does not say so and the graph knows it:
 * other tasks have graphs without locations. Returns `status`. */
est_status est_graph_locate_error(const est_graph *graph, est_status status);

#endif
