/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of an operation: one est_op descriptor per op, in one file of ops/, listed in ops/ops.def.
 *
 * An op has a name and a signature (TensorFlow's, so that graphs can be exchanged), a shape function, a gradient made
 * of other ops, and kernels for the CPU and perhaps for GPUs. Nothing in the library switches over op kinds: a pass
 * that needs to know something asks a flag of the descriptor. */
#ifndef EST_GRAPH_OP_H
#define EST_GRAPH_OP_H

#include "base/pool.h"
#include "device/device.h"
#include "graph/graph.h"

/* --- shape inference ---------------------------------------------------------------------------------------------- */

/* The context of a shape function. It runs when the node is built, with unknown dimensions as -1, and again when a step
 * is laid out, with every dimension known. It fills out[], whose rank starts as unknown, and may fill out_value[]. It
 * fails with est_fail(EST_INVALID_ARGUMENT, ...): the caller adds the name of the node to the text. */
typedef struct est_infer {
    const est_node_def     *node; /* for attributes */
    int                     n_in, n_out;
    const est_shape        *in;
    const est_dtype        *in_dtype;
    const est_value *const *in_value; /* in_value[i] may be NULL: nothing known */
    est_shape              *out;
    est_value              *out_value; /* n is -1 unless set */
    bool                    building;  /* true: dimensions may be unknown */
} est_infer;

/* A dimension that only the kernel knows: unknown while building, the upper bound `most` when laid out. */
static inline int64_t est_infer_at_most(const est_infer *c, int64_t most)
{
    return c->building ? -1 : most;
}

/* Arithmetic on known values; EST_VALUE_UNKNOWN when the result does not fit. */
static inline int64_t est_value_sum(int64_t a, int64_t b)
{
    int64_t r;

    return __builtin_add_overflow(a, b, &r) ? EST_VALUE_UNKNOWN : r;
}
static inline int64_t est_value_difference(int64_t a, int64_t b)
{
    int64_t r;

    return __builtin_sub_overflow(a, b, &r) ? EST_VALUE_UNKNOWN : r;
}
static inline int64_t est_value_product(int64_t a, int64_t b)
{
    int64_t r;

    return __builtin_mul_overflow(a, b, &r) ? EST_VALUE_UNKNOWN : r;
}

/* Ready-made shape functions and helpers (graph/infer.c). */
est_status est_infer_same_as_input(est_infer *c);                   /* out[0] = in[0] */
est_status est_infer_scalar(est_infer *c);                          /* out[0] = [] */
est_status est_infer_broadcast(est_infer *c);                       /* out[0] = in[0] with in[1], numpy rules */
est_status est_infer_none(est_infer *c);                            /* no outputs */
est_status est_infer_rank(const est_infer *c, int input, int rank); /* fails unless rank fits or is unknown */
est_status est_infer_merge(const est_shape *a, const est_shape *b, est_shape *out); /* fails when they contradict */
int64_t    est_infer_dim(const est_shape *s, int axis); /* -1 when unknown; negative axis from the end */
bool       est_infer_shape_from_value(const est_infer *c, int input, est_shape *out); /* input's contents as a shape;
                                                                unknown entries become -1; false: nothing known */

/* --- gradients ---------------------------------------------------------------------------------------------------- */

/* The context of a gradient function. dout[i].graph is NULL when output i has no gradient (dout[0] of a one-output op
 * is always set). It sets din[i] for every input that has a gradient and leaves the others unset. */
typedef struct est_grad {
    const est_node_def *node;
    int                 n_in, n_out;
    const est_node     *in;
    const est_node     *out;
    const est_node     *dout;
    est_gradient       *din;
} est_grad;

/* --- kernels ------------------------------------------------------------------------------------------------------ */

/* A tensor as a kernel sees it: memory belongs to the plan, the feed or the variable. */
typedef struct est_view {
    void     *data;
    est_dtype dtype;
    est_shape shape; /* fully known */
    int64_t   count; /* elements */
} est_view;

typedef struct est_var est_var; /* tensor storage of a variable, runtime/store.h */

/* A number that prepare() computes for run(): looking attributes up by name in every step would be too slow. */
typedef union est_param {
    int64_t i;
    double  f;
} est_param;
#define EST_PARAM_MAX 16

/* One planned operation: built once, run every step. */
typedef struct est_call {
    const est_node_def *node;
    int                 n_in, n_out;
    est_view *const    *in;      /* inputs; a resource input's data is its est_var */
    est_view           *out;     /* outputs: shape set, memory ready */
    void               *scratch; /* as many bytes as the kernel's scratch() asked for; 64-byte aligned */
    /* the kernel's own, allocated by prepare() or measure(), freed by release() */
    void           *state;
    est_param       param[EST_PARAM_MAX]; /* set by prepare() from the attributes, for run() */
    est_pool       *pool;                 /* for parallel loops; may be NULL */
    bool            trains;               /* for if_trains: another operation of the step also writes the variable */
    const uint64_t *run_seed; /* differs in every run of a session: the counter of random ops; in the device's memory */

    /* Of a launcher (device/device.h). On a device every address above is the device's: views, scratch, run_seed. A
     * resource input's data is still an est_var of the host, whose value.data is the device's. */
    void           *stream;   /* where to launch; NULL: the CPU */
    est_error_word *error;    /* of the queue, for kernels that check or that write variables */
    int64_t         item;     /* counts the calls of the queue that may fail, for that */
    uint32_t       *counters; /* EST_COUNTERS words of the lane, 0 between launches (cuda/last_block.cuh) */
    bool            no_tf32;  /* products of float32 use all their bits (est_session_options) */
} est_call;

/* A kernel. `run`, or `launch` on a GPU, is the only required member. An op lists its kernels best first; the first
 * that accepts a call gets it, and accepts() may look at dtypes, attributes and every dimension but the first, which
 * may change between steps.
 *
 * Rules: run() allocates nothing, looks up no attribute (prepare() does, into param[] or state), writes every element
 * of its outputs (they hold garbage before), splits parallel work by shape and never by thread count, and gives the
 * same bits for the same inputs.
 *
 * c->pool is set before scratch() and prepare() are called and stays the same: what they decide may depend on it. Both
 * are called when shapes have changed, scratch() first. */
typedef struct est_kernel {
    est_status (*run)(est_call *c);
    bool (*accepts)(const est_call *c);
    size_t (*scratch)(const est_call *c); /* bytes for the shapes in c; never less when a dimension grows */
    est_status (*prepare)(est_call *c);   /* after every change of shapes, before run */

    /* For ops whose output sizes depend on the contents of the inputs: their infer() leaves dimensions unknown even
     * when a step is laid out, and measure() sets shape and count of every output before memory is allocated for it.
     * Not called when the layout knew all shapes. It may allocate, into c->state. */
    est_status (*measure)(est_call *c);
    void (*release)(est_call *c); /* frees c->state */

    /* In place of run, for a device that runs by itself: which launcher of libestoc_cuda.so, EST_LAUNCH(name) of
     * cuda/launchers.h. A launcher enqueues kernels on c->stream, waits for nothing, and returns 0 or a cudaError.
     * Everything it passes on by value is recorded and stays as it was: so it passes addresses of inputs, and never
     * what they hold. accepts, scratch and prepare are called as for the CPU; measure is not possible. */
    int launch;
    bool (*light)(
        const est_call *c); /* of an op that is heavy: whether this call is not, and wants no lane of its own */

    /* For such a kernel that checks its inputs: fails with the text that the CPU's kernel would have given, of what was
     * found at a place (est_error_word). On the host, after the run; it looks at no memory of the device. */
    est_status (*fail)(const est_call *c, int64_t place, const int64_t value[2]);
} est_kernel;

/* Ends with a kernel that has neither run nor launch. */
#define EST_KERNELS(...) ((const est_kernel[]){ __VA_ARGS__, { 0 } })

static inline bool est_kernel_exists(const est_kernel *kernel)
{
    return kernel != NULL && (kernel->run != NULL || kernel->launch != 0);
}

/* --- updates ------------------------------------------------------------------------------------------------------ */

/* What an op that writes variables takes beside them, by the number of the input; 0, which is a variable, stands for
 * none. Every other input is a scalar that all workers agree on, as a learning rate. Passes that split an update over
 * the shards of a variable, and servers that average the updates of several workers, go by this. */
typedef struct est_update_inputs {
    int gradient; /* a gradient, difference or value; of the variable's shape, or rows of it; averaged over workers */
    int indices;  /* which rows the gradient has; absent: all of them */
    int keys;     /* of a dynamic embedding: those that one worker has looked up */
    int sorted;   /* the indices, sorted (kernels/sorted_ids.h): they may repeat, and the rows of each are summed; the
                     gradient is columns of a matrix, from attribute "column" on */
} est_update_inputs;
#define EST_UPDATE(...) (&(const est_update_inputs){ __VA_ARGS__ })

/* --- the descriptor ----------------------------------------------------------------------------------------------- */

struct est_op {
    const char *name; /* TensorFlow's; our own fused ops start with "Est" */

    /* Arguments, results and attributes, in the manner of TensorFlow's OpDef:
     *   "a: T, b: T -> product: T; transpose_a: bool = false; T: {float32, float64, int32, int64}"
     * Before "->" inputs, then outputs, then attributes separated by ";". An argument's type is a dtype name or a type
     * attribute; "values: N*T" is a list whose length is the int attribute N, and an argument whose type is an
     * attribute of kind types is a list with those types. Attribute kinds: int, float, bool, type, shape, string, ints,
     * types, shapes, tensor, or {dtype, ...} for a type attribute with a limited choice ("types{dtype, ...}" for a list
     * of such); "= default" makes one optional. Type attributes of inputs and N are deduced. "()" stands for no inputs
     * or no outputs. */
    const char *signature;

    est_status (*infer)(est_infer *c);
    void (*grad)(est_grad *g); /* NULL: no gradient flows through */
    const est_kernel *cpu;     /* EST_KERNELS(...); NULL: nothing to run (NoOp, Placeholder) */
    const est_kernel *cuda;    /* the same with launchers; NULL: it runs on the host */

    /* For Estoc's own ops, the same computation in TensorFlow's ops: sets out[0 .. n_out - 1], or out[0] to the
     * operation itself when there are no outputs. It may use other own ops that lower in turn. Left unset: not possible
     * with the shapes known here. */
    void (*lower)(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out);

    enum {
        EST_SOURCE_NONE = 0,
        EST_SOURCE_CONST,    /* output 0 is the tensor attribute "value" */
        EST_SOURCE_FEED,     /* output 0 is the fed tensor */
        EST_SOURCE_VARIABLE, /* output 0 is the est_var named by "shared_name" */
        EST_SOURCE_TABLE     /* output 0 is an est_lookup_table (kernels/lookup_table.h) */
    } source;                /* where the output of an op without a kernel comes from */

    bool     replaced;    /* the planner replaces it by other ops: it needs no kernel */
    bool     planned;     /* only the planner creates it, in private copies of a graph: needs no lower() */
    bool     elementwise; /* out[i] depends only on element i of its (broadcast) inputs */
    bool     heavy;       /* computes far more than its size suggests, and uses all threads itself */
    bool     stateful;    /* has a side effect or differs between runs: never folded, merged or dropped when fetched */
    bool     random;      /* draws numbers: differs between runs */
    bool     passes_rows; /* its gradient is that of its output, also where that is rows */
    bool     alias;       /* output 0 is input 0's memory under another shape; no kernel runs */
    bool     shrinks;     /* infer gives upper bounds; the kernel sets out[i].shape and count itself */
    bool     lends;  /* the kernel says where its outputs lie: they stay there until its next run, and are only read */
    uint32_t writes; /* bit i: changes the variable that is input i */
    bool     fills_var; /* writes input 0's variable or table without reading it: it may be uninitialised */
    uint32_t inplace;   /* bit i: input i, if as large, may share memory with output 0 or the variable of fills_var */
    const est_update_inputs *update; /* EST_UPDATE(...) where writes is not 0, else NULL */
    const est_op            *sums;   /* of an update by rows: the same with update->sorted as its last input */

    /* Touches only some rows of its variables, which it asks for first (kernels/lazy_rows.h), and announces if it
     * changes them (kernels/copy_on_write.h). */
    bool     by_rows;
    bool     has_rows;    /* source VARIABLE: of a dynamic embedding, with a row for each key (kernels/row_table.h) */
    bool     if_trains;   /* its effect on input 0's variable depends on call.trains */
    bool     tentative;   /* changes the row table of input 0; the run commits it, or rolls it back when it fails */
    bool     takes_table; /* its handles are of tables, not of variables */
    uint32_t shape_only;  /* bit i: only the shape of input i is used, never its data; bit 31: of all from 31 on */
    uint32_t distinct;    /* bit i: output i is a vector of distinct indices */
};

static inline const est_kernel *est_op_kernels(const est_op *op, const est_device *device)
{
    return device->kernels != NULL ? device->kernels(op) : op->cpu;
}

static inline bool est_op_shape_only(const est_op *op, int input)
{
    return (op->shape_only >> (input < 31 ? input : 31) & 1u) != 0;
}

#endif
