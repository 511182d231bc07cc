/* SPDX-License-Identifier: Apache-2.0
 *
 * DepthwiseConv2dNative and its gradients. */
#include "ops/conv_ref.h"

static void convolve(const est_node_def *node, const est_shape *xs, const est_shape *ws, const est_shape *ys,
                     const double *x, const double *w, const double *y, double *dx, double *dw, double *dy)
{
    ref_window win = ref_window_of(node, xs->dim + 1, ws->dim[0], ws->dim[1]);
    int64_t    n_c = ws->dim[2], m = ws->dim[3];
    ref_walk   at = { 0 };

    for (int64_t step = 0; ref_walk_at(step, ys, &win, &at); step++) {
        for (int64_t k = 0; k < n_c * m; k++) {
            int64_t xi = ref_at(&win, xs, at.n, at.i, at.j, at.a, at.b, k / m);
            int64_t wi = at.tap * n_c * m + k, yi = at.pixel * n_c * m + k;
            if (xi < 0) continue;
            if (dy != NULL) dy[yi] += x[xi] * w[wi];
            if (dx != NULL) dx[xi] += w[wi] * y[yi];
            if (dw != NULL) dw[wi] += x[xi] * y[yi];
        }
    }
}

static void clear(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = 0;
}

static void conv_ref(est_ref *r)
{
    clear(r);
    convolve(r->node, &r->in_shape[0], &r->in_shape[1], &r->out_shape[0], r->in[0], r->in[1], NULL, NULL, NULL,
             r->out[0]);
}

static void input_ref(est_ref *r)
{
    clear(r);
    convolve(r->node, &r->out_shape[0], &r->in_shape[1], &r->in_shape[2], NULL, r->in[1], r->in[2], r->out[0], NULL,
             NULL);
}

static void filter_ref(est_ref *r)
{
    clear(r);
    convolve(r->node, &r->in_shape[0], &r->out_shape[0], &r->in_shape[2], r->in[0], NULL, r->in[2], NULL, r->out[0],
             NULL);
}

#define CONV   "DepthwiseConv2dNative"
#define INPUT  "DepthwiseConv2dNativeBackpropInput"
#define FILTER "DepthwiseConv2dNativeBackpropFilter"
#define A(...) .attrs = EST_ATTRS(__VA_ARGS__)

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { CONV, { IN(1, 4, 4, 1), IN(2, 2, 1, 1) }, A(VALID(1, 1)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(2, 5, 4, 3), IN(3, 2, 3, 1) }, A(SAME(1, 1)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(2, 5, 4, 3), IN(3, 2, 3, 2) }, A(SAME(2, 2)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(1, 9, 8, 2), IN(3, 2, 2, 3) }, A(SAME(1, 1), DILATED(2, 3)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(1, 5, 4, 2), IN(3, 3, 2, 1) }, A(EXPLICIT(1, 1, 2, 1, 0, 3)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(0, 5, 4, 2), IN(3, 3, 2, 1) }, A(SAME(1, 1)), .tol = 0, .ref = conv_ref },
        { CONV, { IN(5, 20, 21, 33), IN(3, 3, 33, 1) }, A(SAME(1, 1)), .tol = 1e-5, .ref = conv_ref },
        { CONV,
          { IN(1, 5, 5, 2), IN(3, 3, 3, 1) },
          A(SAME(1, 1)),
          .fails = EST_INVALID_ARGUMENT,
          .says  = "2 channels" },
        { INPUT, { SIZES(2, 5, 4, 3), IN(3, 2, 3, 1), IN(2, 5, 4, 3) }, A(SAME(1, 1)), .tol = 1e-6, .ref = input_ref },
        { INPUT, { SIZES(2, 5, 4, 3), IN(3, 2, 3, 2), IN(2, 3, 2, 6) }, A(SAME(2, 2)), .tol = 1e-6, .ref = input_ref },
        { INPUT,
          { SIZES(5, 20, 21, 33), IN(3, 3, 33, 1), IN(5, 20, 21, 33) },
          A(SAME(1, 1)),
          .tol = 1e-5,
          .ref = input_ref },
        { FILTER,
          { IN(2, 5, 4, 3), SIZES(3, 2, 3, 1), IN(2, 5, 4, 3) },
          A(SAME(1, 1)),
          .tol = 2e-6,
          .ref = filter_ref },
        { FILTER,
          { IN(2, 5, 4, 3), SIZES(3, 2, 3, 2), IN(2, 3, 2, 6) },
          A(SAME(2, 2)),
          .tol = 1e-6,
          .ref = filter_ref },
        { FILTER, { IN(0, 5, 4, 3), SIZES(3, 2, 3, 1), IN(0, 5, 4, 3) }, A(SAME(1, 1)), .tol = 0, .ref = filter_ref },
        { FILTER,
          { IN(7, 20, 21, 33), SIZES(3, 3, 33, 1), IN(7, 20, 21, 33) },
          A(SAME(1, 1)),
          .tol = 1e-4,
          .ref = filter_ref },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
