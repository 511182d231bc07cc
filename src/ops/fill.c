/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of one value: Fill, ZerosLike and OnesLike. Elements are written by size, not by type. */
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "ops/array.h"

/* --- the kernel --------------------------------------------------------------------------------------------------- */

typedef struct fill_job {
    void       *to;
    const void *value;
} fill_job;

#define FILL_LOOP(T)                                                                                                   \
    static void fill_##T(void *arg, int64_t begin, int64_t end, int64_t block)                                         \
    {                                                                                                                  \
        const fill_job *j     = arg;                                                                                   \
        const T         value = *(const T *)j->value;                                                                  \
        T              *to    = j->to;                                                                                 \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t i = begin; i < end; i++) to[i] = value;                                                           \
    }
FILL_LOOP(uint8_t)
FILL_LOOP(uint32_t)
FILL_LOOP(uint64_t)
FILL_LOOP(est_str)

void est_fill_elements(est_pool *pool, const est_view *to, const void *value)
{
    fill_job     job  = { to->data, value };
    size_t       size = est_dtype_size(to->dtype);
    est_range_fn fn   = size == 1 ? fill_uint8_t : size == 4 ? fill_uint32_t : fill_uint64_t;

    if (to->dtype == EST_STRING) fn = fill_est_str;
    est_parallel_for(pool, to->count, 64, 0.04 * (double)size, fn, &job);
}

static void fill(est_call *c, const void *value)
{
    est_fill_elements(c->pool, &c->out[0], value);
}

/* --- Fill --------------------------------------------------------------------------------------------------------- */

static est_status fill_infer(est_infer *c)
{
    const est_value *value = est_infer_value(c, 1), *dims = est_infer_value(c, 0);
    int64_t          count;

    EST_TRY(est_infer_rank(c, 0, 1));
    EST_TRY(est_infer_rank(c, 1, 0));
    for (int i = 0; dims != NULL && i < dims->n; i++) {
        if (dims->v[i] < 0 && dims->v[i] != EST_VALUE_UNKNOWN) {
            return est_fail(EST_INVALID_ARGUMENT, "dimension %d to fill is %lld, which is below 0", i,
                            (long long)dims->v[i]);
        }
    }
    if (!est_infer_shape_from_value(c, 0, &c->out[0])) return EST_OK;
    count = est_shape_count(&c->out[0]);
    if (value != NULL && c->out[0].rank == 1 && count >= 0 && count <= EST_VALUE_MAX) {
        c->out_value[0].n = (int32_t)count;
        for (int64_t i = 0; i < count; i++) c->out_value[0].v[i] = value->v[0];
    }
    return EST_OK;
}

static void fill_grad(est_grad *g)
{
    g->din[1].values = est_sum(g->dout[0]);
}

static est_status fill_cpu(est_call *c)
{
    fill(c, c->in[1]->data);
    return EST_OK;
}

#define ANY "{float32, float64, int32, uint8, int64, bool}"

const est_op est_op_fill = {
    .name      = "Fill",
    .signature = "dims: index_type, value: T -> output: T; T: " ANY "; index_type: {int32, int64} = int32",
    .infer     = fill_infer,
    .grad      = fill_grad,
    .cpu       = EST_KERNELS({ .run = fill_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(fill) }),
};

est_node est_fill(est_node dims, est_node value)
{
    return est_build2(&est_op_fill, dims, value, EST_NO_ATTRS);
}

/* --- ZerosLike, OnesLike ------------------------------------------------------------------------------------------ */

static est_status zeros_like_cpu(est_call *c)
{
    static const uint64_t zero; /* all bits 0 is zero in every dtype */

    fill(c, &zero);
    return EST_OK;
}

static est_status ones_like_cpu(est_call *c)
{
    static const float   f32 = 1;
    static const double  f64 = 1;
    static const int32_t i32 = 1;
    static const int64_t i64 = 1;
    static const uint8_t u8  = 1;
    est_dtype            d   = c->out[0].dtype;

    fill(c, d == EST_F32   ? (const void *)&f32
            : d == EST_F64 ? (const void *)&f64
            : d == EST_I32 ? (const void *)&i32
            : d == EST_I64 ? (const void *)&i64
                           : (const void *)&u8);
    return EST_OK;
}

const est_op est_op_zeros_like = {
    .name       = "ZerosLike",
    .signature  = "x: T -> y: T; T: " ANY,
    .infer      = est_infer_same_as_input,
    .cpu        = EST_KERNELS({ .run = zeros_like_cpu }),
    .cuda       = EST_KERNELS({ .launch = EST_LAUNCH(zeros_like) }),
    .shape_only = 1u << 0,
};

const est_op est_op_ones_like = {
    .name       = "OnesLike",
    .signature  = "x: T -> y: T; T: " ANY,
    .infer      = est_infer_same_as_input,
    .cpu        = EST_KERNELS({ .run = ones_like_cpu }),
    .cuda       = EST_KERNELS({ .launch = EST_LAUNCH(ones_like) }),
    .shape_only = 1u << 0,
};

est_node est_zeros_like(est_node x)
{
    return est_build1(&est_op_zeros_like, x, EST_NO_ATTRS);
}

est_node est_ones_like(est_node x)
{
    return est_build1(&est_op_ones_like, x, EST_NO_ATTRS);
}
