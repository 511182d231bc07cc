/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over axes: Sum, Mean, Max, Min, Prod, All and Any. How they are computed is in kernels/reduction.h.
 *
 * Gradients have to bring a reduced tensor back to the shape of the input, whose batch dimension may not be known when
 * the graph is built. EstReduceGrad does that from the input's shape when the step runs; for Mean it divides by the
 * number of elements on the way. */
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/broadcast.h"
#include "kernels/reduction.h"
#include "kernels/vmath.h"
#include "ops/array.h"

/* --- shapes ------------------------------------------------------------------------------------------------------- */

/* Bit a for each of the n axes; negative ones count from the end. */
static est_status add_axis(int64_t axis, int rank, uint32_t *mask)
{
    int64_t a = axis < 0 ? axis + rank : axis;

    if (a < 0 || a >= rank) {
        return est_fail(EST_INVALID_ARGUMENT, "cannot reduce axis %lld of a tensor of rank %d", (long long)axis, rank);
    }
    if (*mask >> a & 1) {
        return est_fail(EST_INVALID_ARGUMENT, "axis %lld is named twice", (long long)axis);
    }
    *mask |= 1u << a;
    return EST_OK;
}

static est_status axes_from_value(const est_value *axes, int rank, uint32_t *mask)
{
    *mask = 0;
    for (int i = 0; i < axes->n; i++) EST_TRY(add_axis(axes->v[i], rank, mask));
    return EST_OK;
}

/* In a kernel the axes have been checked already. */
static uint32_t axes_from_view(const est_view *axes, int rank)
{
    uint32_t mask = 0;

    for (int64_t i = 0; i < axes->count; i++) {
        int64_t a = est_view_int(axes, i);
        mask |= 1u << (a < 0 ? a + rank : a);
    }
    return mask;
}

static bool all_known(const est_value *value)
{
    for (int i = 0; value != NULL && i < value->n; i++) {
        if (value->v[i] == EST_VALUE_UNKNOWN) return false;
    }
    return value != NULL;
}

static est_shape reduced_shape(const est_shape *in, uint32_t mask, bool keep_dims)
{
    est_shape out = { 0 };

    for (int a = 0; a < in->rank; a++) {
        bool reduced = mask >> a & 1;
        if (!reduced || keep_dims) out.dim[out.rank++] = reduced ? 1 : in->dim[a];
    }
    return out;
}

static est_status reduce_infer(est_infer *c)
{
    const est_value *axes = est_infer_value(c, 1);
    bool             keep = est_node_bool(c->node, "keep_dims");
    uint32_t         mask;

    if (c->in[0].rank < 0) return EST_OK;
    if (!all_known(axes)) {
        if (keep) c->out[0] = est_shape_of_rank(c->in[0].rank);
        return EST_OK;
    }
    EST_TRY(axes_from_value(axes, c->in[0].rank, &mask));
    c->out[0] = reduced_shape(&c->in[0], mask, keep);
    return EST_OK;
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static size_t reduce_scratch(const est_call *c)
{
    return est_reduce_scratch(c->in[0]->count);
}

static est_status run_reduction(est_call *c, est_reduce_kind kind)
{
    const est_view    *x       = c->in[0];
    const est_reducer *reducer = est_reducer_find(kind, x->dtype);

    if (reducer == NULL) {
        return est_fail(EST_UNIMPLEMENTED, "%s has no kernel for %s", c->node->op->name, est_dtype_name(x->dtype));
    }
    est_reduce_run(c->pool, reducer, &x->shape, axes_from_view(c->in[1], x->shape.rank), x->data, c->out[0].data,
                   c->scratch);
    return EST_OK;
}

/* --- back to the input's shape ------------------------------------------------------------------------------------ */

/* Reduced (with or without its axes of size 1) to the shape of x: repeated, divided by the repetitions for a mean. */
static est_node spread(est_node reduced, est_node x, est_node axes, bool keep_dims, bool mean)
{
    return est_build3(&est_op_reduce_grad, reduced, x, axes,
                      EST_ATTRS(est_attr_bool("keep_dims", keep_dims), est_attr_bool("mean", mean)));
}

static est_status reduce_grad_infer(est_infer *c)
{
    c->out[0] = c->in[1];
    return EST_OK;
}

/* z = x * y, where y is one number and x may be one too. */
#define SPREAD_LOOP(T)                                                                                                 \
    static void spread_##T(void *out, const void *const *in, const int64_t *step, int64_t n)                           \
    {                                                                                                                  \
        const T *x = in[0], factor = *(const T *)in[1];                                                                \
        T       *z = out;                                                                                              \
                                                                                                                       \
        if (step[0] == 0) {                                                                                            \
            const T value = x[0] * factor;                                                                             \
            for (int64_t i = 0; i < n; i++) z[i] = value;                                                              \
        } else {                                                                                                       \
            EST_INDEPENDENT                                                                                            \
            for (int64_t i = 0; i < n; i++) z[i] = x[i] * factor;                                                      \
        }                                                                                                              \
    }
SPREAD_LOOP(float)
SPREAD_LOOP(double)

static est_status reduce_grad_prepare(est_call *c)
{
    c->param[0].i = est_node_bool(c->node, "mean");
    return EST_OK;
}

static est_status reduce_grad_cpu(est_call *c)
{
    const est_shape *shape  = &c->in[1]->shape;
    bool             mean   = c->param[0].i != 0;
    bool             f32    = c->in[0]->dtype == EST_F32;
    double           factor = mean ? (double)c->in[0]->count / (double)c->in[1]->count : 1;
    float            small  = (float)factor;
    est_view         dy     = *c->in[0];
    est_view         scale  = { f32 ? (void *)&small : (void *)&factor, dy.dtype, EST_SHAPE_SCALAR, 1 };
    est_view        *in[2]  = { &dy, &scale };
    est_call         call   = *c;

    dy.shape = reduced_shape(shape, axes_from_view(c->in[2], shape->rank), true);
    call.in  = in;
    est_broadcast_run(&call, 2, f32 ? spread_float : spread_double, 0.2);
    return EST_OK;
}

/* It is linear: backwards it is the reduction again. */
static void reduce_grad_grad(est_grad *g)
{
    bool mean = est_node_bool(g->node, "mean");

    g->din[0].values = est_build2(mean ? &est_op_reduce_mean : &est_op_reduce_sum, g->dout[0], g->in[2],
                                  EST_ATTRS(est_attr_bool("keep_dims", est_node_bool(g->node, "keep_dims"))));
}

/* Reshape to the kept shape, BroadcastTo, and a division by the count. */
static void reduce_grad_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node         x = in[1], dx = in[0];
    const est_value *axes = est_node_value(in[2]);
    const est_shape *s    = est_node_shape(x);
    uint32_t         mask;

    if (s->rank < 0 || !all_known(axes) || axes_from_value(axes, s->rank, &mask) != EST_OK) return;
    for (int a = 0; a < s->rank && !est_node_bool(node, "keep_dims"); a++) {
        if (mask >> a & 1) dx = est_expand_dims(dx, a);
    }
    dx     = est_broadcast_to(dx, est_shape_of(x));
    out[0] = dx;
    if (est_node_bool(node, "mean")) {
        est_node n = est_maximum(est_size(in[0]), est_scalar(graph, EST_I32, 1)); /* 0 when x is empty too */
        out[0]     = est_div(dx, est_cast(est_floor_div(est_size(x), n), est_node_dtype(dx)));
    }
}

const est_op est_op_reduce_grad = {
    .name       = "EstReduceGrad",
    .signature  = "dy: T, x: T, reduction_indices: Tidx -> dx: T; keep_dims: bool = false; mean: bool = false; "
                  "T: {float32, float64}; Tidx: {int32, int64} = int32",
    .infer      = reduce_grad_infer,
    .grad       = reduce_grad_grad,
    .cpu        = EST_KERNELS({ .run = reduce_grad_cpu, .prepare = reduce_grad_prepare }),
    .cuda       = EST_KERNELS({ .launch = EST_LAUNCH(reduce_grad), .prepare = reduce_grad_prepare }),
    .lower      = reduce_grad_lower,
    .shape_only = 1u << 1,
};

/* --- gradients ---------------------------------------------------------------------------------------------------- */

static void sum_grad(est_grad *g)
{
    g->din[0].values = spread(g->dout[0], g->in[0], g->in[1], est_node_bool(g->node, "keep_dims"), false);
}

static void mean_grad(est_grad *g)
{
    g->din[0].values = spread(g->dout[0], g->in[0], g->in[1], est_node_bool(g->node, "keep_dims"), true);
}

/* Max and Min: dy goes to the elements that equal the result, in equal shares. */
static void extreme_grad(est_grad *g)
{
    est_node x = g->in[0], axes = g->in[1];
    bool     keep   = est_node_bool(g->node, "keep_dims");
    est_node winner = est_cast(est_equal(x, spread(g->out[0], x, axes, keep, false)), est_node_dtype(x));
    est_node n      = est_build2(&est_op_reduce_sum, winner, axes, EST_ATTRS(est_attr_bool("keep_dims", true)));

    g->din[0].values = est_mul(est_div(winner, n), spread(g->dout[0], x, axes, keep, false));
}

static void prod_grad(est_grad *g)
{
    g->din[0].values = est_build3(&est_op_reduce_prod_grad, g->dout[0], g->in[0], g->in[1],
                                  EST_ATTRS(est_attr_bool("keep_dims", est_node_bool(g->node, "keep_dims"))));
}

/* --- the ops ------------------------------------------------------------------------------------------------------ */

/* Follows the product (sum, ...) of a known small vector, as in "the number of elements from a shape". */
typedef int64_t (*fold_fn)(int64_t a, int64_t b);

static est_status infer_folding(est_infer *c, fold_fn fold, int64_t start)
{
    const est_value *x     = est_infer_value(c, 0);
    int64_t          total = start;

    EST_TRY(reduce_infer(c));
    if (!all_known(x) || c->in[0].rank != 1 || !all_known(est_infer_value(c, 1)) || c->in_value[1]->n != 1)
        return EST_OK;
    for (int i = 0; i < x->n && total != EST_VALUE_UNKNOWN; i++) total = fold(total, x->v[i]);
    if (c->in_dtype[0] == EST_I32 && total != (int32_t)total) total = EST_VALUE_UNKNOWN; /* would wrap */
    c->out_value[0].n    = 1;
    c->out_value[0].v[0] = total;
    return EST_OK;
}

#define FOLDING_INFER(name, start, expr)                                                                               \
    static int64_t name##_fold(int64_t a, int64_t b)                                                                   \
    {                                                                                                                  \
        return (expr);                                                                                                 \
    }                                                                                                                  \
    static est_status name##_infer(est_infer *c)                                                                       \
    {                                                                                                                  \
        return infer_folding(c, name##_fold, start);                                                                   \
    }
FOLDING_INFER(sum, 0, est_value_sum(a, b))
FOLDING_INFER(prod, 1, est_value_product(a, b))
FOLDING_INFER(max, INT64_MIN + 1, a > b ? a : b)
FOLDING_INFER(min, INT64_MAX, a < b ? a : b)

/* All axes as a node: a constant when the rank is known. */
static est_node every_axis(est_node x)
{
    int     rank = est_node_shape(x)->rank;
    int64_t axes[EST_RANK_MAX];

    if (rank < 0) {
        est_node zero = est_scalar(x.graph, EST_I32, 0), one = est_scalar(x.graph, EST_I32, 1);
        return est_range(zero, est_build1(&est_op_rank, x, EST_NO_ATTRS), one);
    }
    for (int a = 0; a < rank; a++) axes[a] = a;
    return est_const_list(x.graph, (est_i64s){ axes, rank });
}

static est_node build_reduction(const est_op *op, est_node x, est_i64s axes, bool keep_dims)
{
    est_node list;

    if (est_def(x) == NULL) return est_build2(op, x, x, EST_NO_ATTRS); /* poison, or the error */
    list = axes.n == 0 ? every_axis(x) : est_const_list(x.graph, axes);
    return est_build2(op, x, list, EST_ATTRS(est_attr_bool("keep_dims", keep_dims)));
}

#define AXES    "reduction_indices: Tidx"
#define ATTRS   "keep_dims: bool = false; Tidx: {int32, int64} = int32"
#define NUMBERS "input: T, " AXES " -> output: T; T: {float32, float64, int32, int64}; " ATTRS
#define BOOLS   "input: bool, " AXES " -> output: bool; " ATTRS

/* A mean of integers is rounded as the CPU does it. */
static bool reduce_cuda_accepts(const est_call *c)
{
    return c->node->op != &est_op_reduce_mean || c->in[0]->dtype == EST_F32 || c->in[0]->dtype == EST_F64;
}

static size_t reduce_cuda_scratch(const est_call *c)
{
    (void)c;
    return EST_REDUCE_PARTS * sizeof(double);
}

#define REDUCTION(op_name, tf_name, sign, kind, infer_fn, grad_fn)                                                     \
    static est_status op_name##_cpu(est_call *c)                                                                       \
    {                                                                                                                  \
        return run_reduction(c, kind);                                                                                 \
    }                                                                                                                  \
                                                                                                                       \
    const est_op est_op_##op_name = {                                                                                  \
        .name      = tf_name,                                                                                          \
        .signature = sign,                                                                                             \
        .infer     = infer_fn,                                                                                         \
        .grad      = grad_fn,                                                                                          \
        .cpu       = EST_KERNELS({ .run = op_name##_cpu, .scratch = reduce_scratch }),                                 \
        .cuda      = EST_KERNELS(                                                                                      \
                 { .launch = EST_LAUNCH(op_name), .accepts = reduce_cuda_accepts, .scratch = reduce_cuda_scratch }),   \
    };                                                                                                                 \
                                                                                                                       \
    est_node est_##op_name(est_node x, est_i64s axes, bool keep_dims)                                                  \
    {                                                                                                                  \
        return build_reduction(&est_op_##op_name, x, axes, keep_dims);                                                 \
    }

REDUCTION(reduce_sum, "Sum", NUMBERS, EST_REDUCE_SUM, sum_infer, sum_grad)
REDUCTION(reduce_mean, "Mean", NUMBERS, EST_REDUCE_MEAN, reduce_infer, mean_grad)
REDUCTION(reduce_max, "Max", NUMBERS, EST_REDUCE_MAX, max_infer, extreme_grad)
REDUCTION(reduce_min, "Min", NUMBERS, EST_REDUCE_MIN, min_infer, extreme_grad)
REDUCTION(reduce_prod, "Prod", NUMBERS, EST_REDUCE_PROD, prod_infer, prod_grad)
REDUCTION(reduce_all, "All", BOOLS, EST_REDUCE_ALL, reduce_infer, NULL)
REDUCTION(reduce_any, "Any", BOOLS, EST_REDUCE_ANY, reduce_infer, NULL)

est_node est_sum(est_node x)
{
    return est_reduce_sum(x, EST_ALL_AXES, false);
}

est_node est_mean(est_node x)
{
    return est_reduce_mean(x, EST_ALL_AXES, false);
}
