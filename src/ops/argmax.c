/* SPDX-License-Identifier: Apache-2.0
 *
 * ArgMax and ArgMin: where along one axis the largest (smallest) element is. Of equal ones the first; NaN never wins.
 */
#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "ops/array.h"

static est_status arg_infer(est_infer *c)
{
    int rank = c->in[0].rank, axis;

    EST_TRY(est_infer_rank(c, 1, 0));
    if (rank < 0) return EST_OK;
    if (rank == 0) return est_fail(EST_INVALID_ARGUMENT, "%s needs at least one axis, got a scalar", c->node->op->name);
    EST_TRY(est_infer_axis(c, 1, rank, &axis));
    c->out[0] = est_shape_of_rank(rank - 1);
    if (axis < 0) return EST_OK; /* not known yet */
    if (c->in[0].dim[axis] == 0 && !c->building) {
        char text[EST_SHAPE_TEXT_MAX];
        return est_fail(EST_INVALID_ARGUMENT, "axis %d of shape %s is empty: nothing to choose from", axis,
                        est_shape_text(&c->in[0], text));
    }
    for (int a = 0; a < rank - 1; a++) c->out[0].dim[a] = c->in[0].dim[a < axis ? a : a + 1];
    return EST_OK;
}

/* x seen as [outer, n, inner]. */
typedef struct arg_job {
    const void *x;
    est_view   *out;
    int64_t     n, inner;
} arg_job;

static inline void put(const est_view *out, int64_t at, int64_t value)
{
    if (out->dtype == EST_I64) {
        ((int64_t *)out->data)[at] = value;
    } else {
        ((int32_t *)out->data)[at] = (int32_t)value;
    }
}

/* One result after the other. A first element that is NaN must lose to any number, hence the test of best itself. */
#define ARG_LOOP(name, T, better)                                                                                      \
    static void name##_##T(void *arg, int64_t begin, int64_t end, int64_t block)                                       \
    {                                                                                                                  \
        const arg_job *j = arg;                                                                                        \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t at = begin; at < end; at++) {                                                                     \
            const T *x    = (const T *)j->x + at / j->inner * j->n * j->inner + at % j->inner;                         \
            T        best = x[0];                                                                                      \
            int64_t  who  = 0;                                                                                         \
                                                                                                                       \
            for (int64_t i = 1; i < j->n; i++) {                                                                       \
                const T v = x[i * j->inner];                                                                           \
                if (v better best || (best != best && v == v)) {                                                       \
                    best = v;                                                                                          \
                    who  = i;                                                                                          \
                }                                                                                                      \
            }                                                                                                          \
            put(j->out, at, who);                                                                                      \
        }                                                                                                              \
    }
#define ARG_LOOPS(name, better)                                                                                        \
    ARG_LOOP(name, float, better)                                                                                      \
    ARG_LOOP(name, double, better)                                                                                     \
    ARG_LOOP(name, int32_t, better)                                                                                    \
    ARG_LOOP(name, int64_t, better)                                                                                    \
    ARG_LOOP(name, uint8_t, better)
ARG_LOOPS(argmax, >)
ARG_LOOPS(argmin, <)

typedef struct arg_loops {
    est_range_fn f32, f64, i32, i64, u8;
} arg_loops;

static est_status run_arg(est_call *c, const arg_loops *l)
{
    const est_view *x    = c->in[0];
    int64_t         axis = est_view_int(c->in[1], 0);
    arg_job         job  = { x->data, &c->out[0], 0, 1 };
    est_range_fn    fn   = x->dtype == EST_F32   ? l->f32
                           : x->dtype == EST_F64 ? l->f64
                           : x->dtype == EST_I32 ? l->i32
                           : x->dtype == EST_I64 ? l->i64
                                                 : l->u8;

    if (axis < 0) axis += x->shape.rank;
    job.n = x->shape.dim[axis];
    for (int a = (int)axis + 1; a < x->shape.rank; a++) job.inner *= x->shape.dim[a];
    est_parallel_for(c->pool, c->out[0].count, 16, 2 + 0.8 * (double)job.n, fn, &job);
    return EST_OK;
}

#define ARG_OP(op_name, tf_name)                                                                                       \
    static est_status op_name##_cpu(est_call *c)                                                                       \
    {                                                                                                                  \
        static const arg_loops loops = { op_name##_float, op_name##_double, op_name##_int32_t, op_name##_int64_t,      \
                                         op_name##_uint8_t };                                                          \
        return run_arg(c, &loops);                                                                                     \
    }                                                                                                                  \
                                                                                                                       \
    const est_op est_op_##op_name = {                                                                                  \
        .name      = tf_name,                                                                                          \
        .signature = "input: T, dimension: Tidx -> output: output_type; "                                              \
                     "T: {float32, float64, int32, uint8, int64, bool}; Tidx: {int32, int64} = int32; "                \
                     "output_type: {int32, int64} = int64",                                                            \
        .infer     = arg_infer,                                                                                        \
        .cpu       = EST_KERNELS({ .run = op_name##_cpu }),                                                            \
        .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(op_name) }),                                                   \
    };                                                                                                                 \
                                                                                                                       \
    est_node est_##op_name(est_node x, int axis)                                                                       \
    {                                                                                                                  \
        if (est_def(x) == NULL) return est_build2(&est_op_##op_name, x, x, EST_NO_ATTRS); /* poison, or the error */   \
        return est_build2(&est_op_##op_name, x, est_scalar(x.graph, EST_I32, axis), EST_NO_ATTRS);                     \
    }
ARG_OP(argmax, "ArgMax")
ARG_OP(argmin, "ArgMin")
