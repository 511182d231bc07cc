/* SPDX-License-Identifier: Apache-2.0
 *
 * The fused convolution with pooling against plain loops, both ways. */
#include "support/bfloat16_ref.h"
#include "support/op_check.h"

#define DEAD 4

/* What is multiplied. */
static double factor(const est_ref *r, int input, int64_t at)
{
    double x = r->in[input][at];

    return est_node_bool(r->node, "bfloat16") ? bfloat16_ref(x) : x;
}

/* relu(conv + bias) of one pixel before pooling. */
static double activation(const est_ref *r, int64_t n, int64_t y, int64_t x, int64_t k)
{
    const est_shape *in = &r->in_shape[0], *f = &r->in_shape[1];
    double           sum = r->in[2][k];

    for (int64_t i = 0; i < f->dim[0]; i++) {
        for (int64_t j = 0; j < f->dim[1]; j++) {
            for (int64_t c = 0; c < f->dim[2]; c++) {
                sum += factor(r, 0, ((n * in->dim[1] + y + i) * in->dim[2] + x + j) * in->dim[3] + c) *
                       factor(r, 1, ((i * f->dim[1] + j) * f->dim[2] + c) * f->dim[3] + k);
            }
        }
    }
    return sum > 0 ? sum : 0;
}

static void conv_pool_ref(est_ref *r)
{
    const est_shape *s  = &r->out_shape[0];
    int64_t          at = 0;

    for (int64_t n = 0; n < s->dim[0]; n++) {
        for (int64_t y = 0; y < s->dim[1]; y++) {
            for (int64_t x = 0; x < s->dim[2]; x++) {
                for (int64_t k = 0; k < s->dim[3]; k++, at++) {
                    double best  = 0;
                    int    where = DEAD;
                    for (int q = 0; q < 4; q++) {
                        double v = activation(r, n, 2 * y + q / 2, 2 * x + q % 2, k);
                        if (v > best) where = q;
                        if (v > best) best = v;
                    }
                    r->out[0][at] = best;
                    r->out[1][at] = where;
                }
            }
        }
    }
}

static void conv_pool_grad_ref(est_ref *r)
{
    const est_shape *in = &r->in_shape[0], *dy = &r->in_shape[2], *f = &r->out_shape[0];
    int64_t          n_filter = f->dim[0] * f->dim[1] * f->dim[2] * f->dim[3];

    for (int64_t i = 0; i < n_filter; i++) r->out[0][i] = 0;
    for (int64_t k = 0; k < f->dim[3]; k++) r->out[1][k] = 0;
    for (int64_t at = 0; at < dy->dim[0] * dy->dim[1] * dy->dim[2] * dy->dim[3]; at++) {
        int64_t k = at % dy->dim[3], x = at / dy->dim[3] % dy->dim[2], y = at / dy->dim[3] / dy->dim[2] % dy->dim[1];
        int64_t n = at / dy->dim[3] / dy->dim[2] / dy->dim[1];
        int     q = (int)r->in[3][at];
        if (q == DEAD) continue;
        r->out[1][k] += r->in[2][at];
        for (int64_t t = 0; t < f->dim[0] * f->dim[1] * f->dim[2]; t++) {
            int64_t i = t / f->dim[2] / f->dim[1], j = t / f->dim[2] % f->dim[1], c = t % f->dim[2];
            r->out[0][t * f->dim[3] + k] += factor(r, 2, at) *
                                            factor(r, 0,
                                                   ((n * in->dim[1] + 2 * y + q / 2 + i) * in->dim[2] + 2 * x + q % 2 +
                                                    j) * in->dim[3] +
                                                       c);
        }
    }
}

static const double filter_3x3x1x8[] = { 3, 3, 1, 8 }, filter_2x3x2x16[] = { 2, 3, 2, 16 },
                    filter_5x5x1x8[] = { 5, 5, 1, 8 }, filter_3x3x1x40[] = { 3, 3, 1, 40 };

#define FORWARD .op = "EstConvPool", .lo = -1, .hi = 1, .tol = 1e-5, .ref = conv_pool_ref
#define BACK    .op = "EstConvPoolGrad", .lo = -1, .hi = 1, .tol = 2e-5, .ref = conv_pool_grad_ref
/* Sums of 3549 numbers, in any order: the root of as many roundings of sums below 32. */
#define BACK_LONG .op = "EstConvPoolGrad", .lo = -1, .hi = 1, .tol = 1e-4, .ref = conv_pool_grad_ref
#define ROUNDED   .attrs = EST_ATTRS(est_attr_bool("bfloat16", true))
#define SIZES(v)                                                                                                       \
    {                                                                                                                  \
        .shape = EST_SHAPE(4), .dtype = EST_I32, .values = v, .constant = true                                         \
    }
#define WHICH(...)                                                                                                     \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = EST_U8, .lo = 0, .hi = 4                                             \
    }

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { FORWARD, .in = { IN(2, 6, 6, 1), IN(3, 3, 1, 8), IN(8) } },
        { FORWARD,
          .in = { IN(3, 7, 9, 2), IN(2, 3, 2, 16), IN(16) } }, /* odd: the last row and column are not pooled */
        { FORWARD, .in = { IN(5, 28, 28, 1), IN(3, 3, 1, 32), IN(32) } },
        { FORWARD, .in = { IN(3, 5, 33, 1), IN(3, 3, 1, 40), IN(40) } }, /* long rows, 32 channels and 8 */
        { FORWARD, .in = { IN(0, 6, 6, 1), IN(3, 3, 1, 8), IN(8) } },
        { FORWARD, ROUNDED, .in = { IN(3, 7, 9, 2), IN(2, 3, 2, 16), IN(16) } },
        { FORWARD, ROUNDED, .in = { IN(3, 5, 33, 1), IN(3, 3, 1, 40), IN(40) } },
        { BACK, .in = { IN(2, 6, 6, 1), SIZES(filter_3x3x1x8), IN(2, 2, 2, 8), WHICH(2, 2, 2, 8) } },
        { BACK, .in = { IN(3, 7, 9, 2), SIZES(filter_2x3x2x16), IN(3, 3, 3, 16), WHICH(3, 3, 3, 16) } },
        { BACK, .in = { IN(40, 20, 20, 1), SIZES(filter_5x5x1x8), IN(40, 8, 8, 8),
                        WHICH(40, 8, 8, 8) } }, /* 25 taps, blocks */
        { BACK_LONG, .in = { IN(21, 28, 29, 1), SIZES(filter_3x3x1x40), IN(21, 13, 13, 40),
                             WHICH(21, 13, 13, 40) } }, /* parts of parts on a GPU */
        { BACK, ROUNDED, .in = { IN(3, 7, 9, 2), SIZES(filter_2x3x2x16), IN(3, 3, 3, 16), WHICH(3, 3, 3, 16) } },
        { BACK, ROUNDED, .in = { IN(5, 9, 9, 1), SIZES(filter_3x3x1x40), IN(5, 3, 3, 40), WHICH(5, 3, 3, 40) } },
        { BACK, .in = { IN(0, 6, 6, 1), SIZES(filter_3x3x1x8), IN(0, 2, 2, 8), WHICH(0, 2, 2, 8) } },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
