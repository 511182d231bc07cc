/* SPDX-License-Identifier: Apache-2.0
 *
 * AvgPool and AvgPoolGrad: padding is not counted. */
#include "ops/conv_ref.h"

/* Adds each share of y to x or of x to y, whichever is the one to be made. */
static void average(const est_node_def *node, const est_shape *xs, const est_shape *ys, const double *x,
                    const double *dy, double *dx, double *y)
{
    est_i64s   ksize = est_node_ints(node, "ksize");
    ref_window w     = ref_window_of(node, xs->dim + 1, ksize.data[1], ksize.data[2]);
    int64_t    n_c = xs->dim[3], taps = w.size[0] * w.size[1];
    ref_walk   at = { 0 }, other = { 0 };

    for (int64_t step = 0; ref_walk_at(step, ys, &w, &at); step++) {
        int64_t inside = 0;

        for (int64_t tap = 0; tap < taps; tap++) {
            ref_walk_at(at.pixel * taps + tap, ys, &w, &other);
            inside += ref_at(&w, xs, other.n, other.i, other.j, other.a, other.b, 0) >= 0;
        }
        for (int64_t c = 0; c < n_c; c++) {
            int64_t xi = ref_at(&w, xs, at.n, at.i, at.j, at.a, at.b, c), yi = at.pixel * n_c + c;
            if (xi >= 0 && y != NULL) y[yi] += x[xi] / (double)inside;
            if (xi >= 0 && dx != NULL) dx[xi] += dy[yi] / (double)inside;
        }
    }
}

static void clear(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = 0;
}

static void avg_pool_ref(est_ref *r)
{
    clear(r);
    average(r->node, &r->in_shape[0], &r->out_shape[0], r->in[0], NULL, NULL, r->out[0]);
}

static void avg_pool_grad_ref(est_ref *r)
{
    clear(r);
    average(r->node, &r->out_shape[0], &r->in_shape[1], NULL, r->in[1], r->out[0], NULL);
}

#define A(...) .attrs = EST_ATTRS(__VA_ARGS__)

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "AvgPool", { IN(1, 4, 4, 1) }, A(WINDOW(2, 2), VALID(2, 2)), .tol = 1e-6, .ref = avg_pool_ref },
        { "AvgPool", { IN(2, 5, 7, 3) }, A(WINDOW(3, 2), SAME(2, 2)), .tol = 1e-6, .ref = avg_pool_ref },
        { "AvgPool", { IN(2, 5, 5, 3) }, A(WINDOW(3, 3), SAME(1, 1)), .tol = 1e-6, .ref = avg_pool_ref },
        { "AvgPool", { IN(2, 5, 4, 3) }, A(WINDOW(5, 4), VALID(1, 1)), .tol = 1e-6, .ref = avg_pool_ref }, /* global */
        { "AvgPool", { IN(0, 4, 4, 3) }, A(WINDOW(2, 2), VALID(2, 2)), .tol = 0, .ref = avg_pool_ref },
        { "AvgPool", { IN(9, 26, 26, 33) }, A(WINDOW(2, 2), VALID(2, 2)), .tol = 1e-6, .ref = avg_pool_ref },
        { "AvgPool",
          { IN(1, 4, 4, 3) },
          A(WINDOW(5, 2), VALID(2, 2)),
          .fails = EST_INVALID_ARGUMENT,
          .says  = "height of 4" },
        { "AvgPoolGrad",
          { SIZES(2, 5, 7, 3), IN(2, 3, 4, 3) },
          A(WINDOW(3, 2), SAME(2, 2)),
          .tol = 1e-6,
          .ref = avg_pool_grad_ref },
        { "AvgPoolGrad",
          { SIZES(9, 26, 26, 33), IN(9, 13, 13, 33) },
          A(WINDOW(2, 2), VALID(2, 2)),
          .tol = 1e-6,
          .ref = avg_pool_grad_ref },
        { "AvgPoolGrad",
          { SIZES(0, 4, 4, 1), IN(0, 2, 2, 1) },
          A(WINDOW(2, 2), VALID(2, 2)),
          .tol = 0,
          .ref = avg_pool_grad_ref },
        { "AvgPoolGrad",
          { SIZES(1, 4, 4, 1), IN(1, 3, 2, 1) },
          A(WINDOW(2, 2), VALID(2, 2)),
          .fails = EST_INVALID_ARGUMENT,
          .says  = "[1,3,2,1]" },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
