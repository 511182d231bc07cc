/* SPDX-License-Identifier: Apache-2.0
 *
 * MatrixBandPart: element [i, j] of every matrix where i - j <= num_lower and j - i <= num_upper, else 0; below 0 a
 * number is no limit. (-1, 0) is the lower triangle, the mask of causal attention. */
#include <inttypes.h>
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "ops/array.h"

static est_status band_infer(est_infer *c)
{
    char text[EST_SHAPE_TEXT_MAX];

    if (c->in[0].rank >= 0 && c->in[0].rank < 2) {
        return est_fail(EST_INVALID_ARGUMENT, "matrices have at least two axes, got %s",
                        est_shape_text(&c->in[0], text));
    }
    EST_TRY(est_infer_rank(c, 1, 0));
    EST_TRY(est_infer_rank(c, 2, 0));
    c->out[0] = c->in[0];
    return EST_OK;
}

static void band_grad(est_grad *g)
{
    g->din[0].values = est_build(g->in[0].graph, &est_op_matrix_band_part, EST_NODES(g->dout[0], g->in[1], g->in[2]),
                                 EST_NO_ATTRS);
}

typedef struct band {
    const char *in;
    char       *out;
    size_t      element;
    int64_t     m, n;         /* of a matrix */
    int64_t     lower, upper; /* never below 0 */
} band;

/* Rows of all matrices. */
static void band_rows(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const band *b = arg;

    (void)block;
    for (int64_t r = begin; r < end; r++) {
        int64_t i = r % b->m, from = i > b->lower ? i - b->lower : 0, to = b->n;
        char   *out = b->out + (size_t)(r * b->n) * b->element;

        if (b->upper < b->n && i + b->upper + 1 < to) to = i + b->upper + 1;
        if (from > b->n) from = b->n;
        if (to < from) to = from;
        memset(out, 0, (size_t)from * b->element);
        memcpy(out + (size_t)from * b->element, b->in + (size_t)(r * b->n + from) * b->element,
               (size_t)(to - from) * b->element);
        memset(out + (size_t)to * b->element, 0, (size_t)(b->n - to) * b->element);
    }
}

/* A limit, num_lower (0) or num_upper, of value[0] where value[1] is the most. */
static est_status band_fail(const est_call *c, int64_t place, const int64_t *value)
{
    (void)c;
    return est_fail(EST_INVALID_ARGUMENT, "num_%s is %" PRId64 ", and the matrices have %" PRId64 " %s",
                    place == 0 ? "lower" : "upper", value[0], value[1], place == 0 ? "rows" : "columns");
}

static est_status band_cpu(est_call *c)
{
    const est_shape *shape = &c->in[0]->shape;
    band             b     = { c->in[0]->data, c->out[0].data, est_dtype_size(c->in[0]->dtype) };
    int64_t          limit[2];

    b.m = shape->dim[shape->rank - 2];
    b.n = shape->dim[shape->rank - 1];
    for (int k = 0; k < 2; k++) {
        int64_t most = k == 0 ? b.m : b.n;

        limit[k] = est_view_int(c->in[1 + k], 0);
        if (limit[k] > most) return band_fail(c, k, (int64_t[]){ limit[k], most });
        if (limit[k] < 0) limit[k] = most;
    }
    b.lower = limit[0];
    b.upper = limit[1];
    if (c->out[0].count > 0) est_parallel_for(c->pool, c->out[0].count / b.n, 1, (double)b.n, band_rows, &b);
    return EST_OK;
}

const est_op est_op_matrix_band_part = {
    .name      = "MatrixBandPart",
    .signature = "input: T, num_lower: Tindex, num_upper: Tindex -> band: T; "
                 "T: {float32, float64, int32, int64, uint8, bool}; Tindex: {int32, int64} = int64",
    .infer     = band_infer,
    .grad      = band_grad,
    .cpu       = EST_KERNELS({ .run = band_cpu }),
    .cuda      = EST_KERNELS({ .launch = EST_LAUNCH(matrix_band_part), .fail = band_fail }),
};
