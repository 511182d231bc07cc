/* SPDX-License-Identifier: Apache-2.0
 *
 * Cast: every numeric dtype and bool to every other. Floats to integers drop the fraction (out of range is undefined,
 * as in C), but to uint8 they are cut to 0 .. 255, as in TensorFlow: there also NaN and what no int32 holds give 0.
 * Integers to uint8 keep the low byte; to bool means x != 0. */
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "ops/ops.h"

static est_status cast_infer(est_infer *c)
{
    est_dtype to = est_node_type(c->node, "DstT");

    c->out[0] = c->in[0];
    if ((to == EST_I32 || to == EST_I64) && c->in_value[0] != NULL) c->out_value[0] = *c->in_value[0];
    return EST_OK;
}

static void cast_grad(est_grad *g)
{
    est_dtype from = est_node_type(g->node, "SrcT"), to = est_node_type(g->node, "DstT");

    if ((from == EST_F32 || from == EST_F64) && (to == EST_F32 || to == EST_F64)) {
        g->din[0].values = est_cast(g->dout[0], from);
    }
}

#define CAST_LOOP(FROM, TO, expr)                                                                                      \
    static void FROM##_to_##TO(void *arg, int64_t begin, int64_t end, int64_t block)                                   \
    {                                                                                                                  \
        const est_call *c           = arg;                                                                             \
        const FROM *restrict source = c->in[0]->data;                                                                  \
        TO *restrict y              = c->out[0].data;                                                                  \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            const FROM x = source[i];                                                                                  \
            y[i]         = (TO)(expr);                                                                                 \
        }                                                                                                              \
    }
#define FLOAT_TO_U8(x) ((x) >= 2147483648.0 || !((x) > 0) ? 0 : (x) > 255 ? 255 : (x))
#define FLOAT_TO_INT(x, least)                                                                                         \
    ((x) >= (least) && (x) < -(least) ? (x) : (least)) /* also NaN, as in TensorFlow on x86 */
#define CASTS_FROM(FROM, to_i32, to_i64, to_u8)                                                                        \
    CAST_LOOP(FROM, float, x)                                                                                          \
    CAST_LOOP(FROM, double, x)                                                                                         \
    CAST_LOOP(FROM, int32_t, to_i32)                                                                                   \
    CAST_LOOP(FROM, int64_t, to_i64)                                                                                   \
    CAST_LOOP(FROM, uint8_t, to_u8)                                                                                    \
    CAST_LOOP(FROM, bool, x != 0)
CASTS_FROM(float, FLOAT_TO_INT(x, -0x1p31f), FLOAT_TO_INT(x, -0x1p63f), FLOAT_TO_U8(x))
CASTS_FROM(double, FLOAT_TO_INT(x, -0x1p31), FLOAT_TO_INT(x, -0x1p63), FLOAT_TO_U8(x))
CASTS_FROM(int32_t, x, x, x)
CASTS_FROM(int64_t, x, x, x)
CASTS_FROM(uint8_t, x, x, x)

#define DTYPES 6

/* The place of a dtype in the table below, or -1. */
static int dtype_row(est_dtype dtype)
{
    switch (dtype) {
    case EST_F32: return 0;
    case EST_F64: return 1;
    case EST_I32: return 2;
    case EST_I64: return 3;
    case EST_U8: return 4;
    case EST_BOOL: return 5;
    default: return -1;
    }
}

static est_status cast_cpu(est_call *c)
{
#define ROW(FROM)                                                                                                      \
    {                                                                                                                  \
        FROM##_to_float, FROM##_to_double, FROM##_to_int32_t, FROM##_to_int64_t, FROM##_to_uint8_t, FROM##_to_bool     \
    }
    static const est_range_fn loops[DTYPES][DTYPES] = {
        ROW(float), ROW(double), ROW(int32_t), ROW(int64_t), ROW(uint8_t), ROW(uint8_t), /* bool is a byte, 0 or 1 */
    };
#undef ROW
    int from = dtype_row(c->in[0]->dtype), to = dtype_row(c->out[0].dtype);

    if (from < 0 || to < 0) {
        return est_fail(EST_UNIMPLEMENTED, "cannot cast %s to %s", est_dtype_name(c->in[0]->dtype),
                        est_dtype_name(c->out[0].dtype));
    }
    est_parallel_for(c->pool, c->out[0].count, 64, 0.4, loops[from][to], c);
    return EST_OK;
}

/* What does not fit into a byte is cut by the CPU's kernel alone. */
static bool cast_cuda_accepts(const est_call *c)
{
    return c->out[0].dtype != EST_U8 || (c->in[0]->dtype != EST_F32 && c->in[0]->dtype != EST_F64);
}

#define NUMBERS "{float32, float64, int32, uint8, int64, bool}"

const est_op est_op_cast = {
    .name        = "Cast",
    .signature   = "x: SrcT -> y: DstT; SrcT: " NUMBERS "; DstT: " NUMBERS "; Truncate: bool = false",
    .infer       = cast_infer,
    .grad        = cast_grad,
    .cpu         = EST_KERNELS({ .run = cast_cpu }),
    .cuda        = EST_KERNELS({ .launch = EST_LAUNCH(cast), .accepts = cast_cuda_accepts }),
    .elementwise = true,
};

est_node est_cast(est_node x, est_dtype dtype)
{
    if (est_def(x) != NULL && est_node_dtype(x) == dtype) return x;
    return est_build1(&est_op_cast, x, EST_ATTRS(est_attr_type("DstT", dtype)));
}
