/* SPDX-License-Identifier: Apache-2.0
 *
 * MaxPool and MaxPoolGrad, with ties: the first of equals in the window gets the gradient. */
#include <math.h>

#include "ops/conv_ref.h"

static ref_window window_of(const est_ref *r, const est_shape *image)
{
    est_i64s ksize = est_node_ints(r->node, "ksize");

    return ref_window_of(r->node, image->dim + 1, ksize.data[1], ksize.data[2]);
}

static void max_pool_ref(est_ref *r)
{
    ref_window w   = window_of(r, &r->in_shape[0]);
    int64_t    n_c = r->in_shape[0].dim[3];
    ref_walk   at  = { 0 };

    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = -INFINITY;
    for (int64_t step = 0; ref_walk_at(step, &r->out_shape[0], &w, &at); step++) {
        for (int64_t c = 0; c < n_c; c++) {
            int64_t x = ref_at(&w, &r->in_shape[0], at.n, at.i, at.j, at.a, at.b, c);
            if (x >= 0) r->out[0][at.pixel * n_c + c] = fmax(r->out[0][at.pixel * n_c + c], r->in[0][x]);
        }
    }
}

static void max_pool_grad_ref(est_ref *r)
{
    ref_window w   = window_of(r, &r->in_shape[0]);
    int64_t    n_c = r->in_shape[0].dim[3], pixels = est_shape_count(&r->in_shape[2]) / (n_c > 0 ? n_c : 1);
    int64_t    taps = w.size[0] * w.size[1];
    ref_walk   at   = { 0 };

    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = 0;
    for (int64_t p = 0; p < pixels; p++) {
        for (int64_t c = 0; c < n_c; c++) {
            for (int64_t tap = 0; tap < taps; tap++) {
                ref_walk_at(p * taps + tap, &r->in_shape[2], &w, &at);
                int64_t x = ref_at(&w, &r->in_shape[0], at.n, at.i, at.j, at.a, at.b, c);
                if (x < 0 || r->in[0][x] != r->in[1][p * n_c + c]) continue;
                r->out[0][x] += r->in[2][p * n_c + c];
                break;
            }
        }
    }
}

#define A(...) .attrs = EST_ATTRS(__VA_ARGS__)
/* For MaxPoolGrad: an image with ties and the maxima of its windows. */
#define EXACT(list, ...)                                                                                               \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .values = list                                                                \
    }
static const double image[]  = { 3, 1, 3, 2, 5, 5, 0, 5, 5, 7, 7, 7, 1, 7, 7, 2 }; /* [1, 4, 4, 1] */
static const double by_two[] = { 5, 5, 7, 7 };
static const double by_one[] = { 5, 5, 5, 7, 7, 7, 7, 7, 7 }; /* overlapping, VALID */

/* Images of small numbers, so full of ties, and the maxima of their 3x3 windows, 2 apart. */
enum { N = 5, SIZE = 25, OUT = 12, CHANNELS = 33 };
static double many[N * SIZE * SIZE * CHANNELS], many_max[N * OUT * OUT * CHANNELS];

static void fill_many(void)
{
    for (int i = 0; i < N * SIZE * SIZE * CHANNELS; i++) many[i] = (i * 7919 + i / 13) % 11;
    for (int i = 0; i < N * OUT * OUT * CHANNELS; i++) {
        int c = i % CHANNELS, col = i / CHANNELS % OUT, row = i / CHANNELS / OUT % OUT, n = i / CHANNELS / OUT / OUT;
        for (int t = 0; t < 9; t++) {
            int x = ((n * SIZE + 2 * row + t / 3) * SIZE + 2 * col + t % 3) * CHANNELS + c;
            if (t == 0 || many[x] > many_max[i]) many_max[i] = many[x];
        }
    }
}

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "MaxPool", { IN(1, 4, 4, 1) }, A(WINDOW(2, 2), VALID(2, 2)), .tol = 1e-6, .ref = max_pool_ref },
        { "MaxPool", { IN(2, 5, 7, 3) }, A(WINDOW(3, 2), SAME(2, 2)), .tol = 1e-6, .ref = max_pool_ref },
        { "MaxPool", { IN(2, 5, 5, 3) }, A(WINDOW(3, 3), SAME(1, 1)), .tol = 1e-6, .ref = max_pool_ref }, /* overlap */
        { "MaxPool", { IN(2, 5, 5, 3) }, A(WINDOW(1, 1), VALID(3, 3)), .tol = 1e-6, .ref = max_pool_ref },
        { "MaxPool",
          { IN(1, 5, 5, 2) },
          A(WINDOW(3, 3), EXPLICIT(2, 2, 1, 0, 2, 1)),
          .tol = 1e-6,
          .ref = max_pool_ref },
        { "MaxPool", { IN(0, 4, 4, 3) }, A(WINDOW(2, 2), VALID(2, 2)), .tol = 0, .ref = max_pool_ref },
        { "MaxPool",
          { IN(9, 26, 26, 32) },
          A(WINDOW(2, 2), VALID(2, 2)),
          .tol     = 1e-6,
          .no_grad = true,
          .ref     = max_pool_ref }, /* among so many windows some are within a step of a tie */
        { "MaxPool", { IN(2, 9, 9, 70) }, A(WINDOW(3, 3), SAME(2, 2)), .tol = 1e-6, .ref = max_pool_ref },
        { "MaxPool", { IN(4, 4, 3) }, A(WINDOW(2, 2), VALID(2, 2)), .fails = EST_INVALID_ARGUMENT, .says = "rank 4" },
        { "MaxPool", { IN(1, 4, 4, 3) }, A(WINDOW(0, 2), VALID(2, 2)), .fails = EST_INVALID_ARGUMENT, .says = "ksize" },
        { "MaxPoolGrad",
          { EXACT(image, 1, 4, 4, 1), EXACT(by_two, 1, 2, 2, 1), IN(1, 2, 2, 1) },
          A(WINDOW(2, 2), VALID(2, 2)),
          .tol = 1e-6,
          .ref = max_pool_grad_ref },
        { "MaxPoolGrad",
          { EXACT(image, 1, 4, 4, 1), EXACT(by_one, 1, 3, 3, 1), IN(1, 3, 3, 1) },
          A(WINDOW(2, 2), VALID(1, 1)),
          .tol = 1e-6,
          .ref = max_pool_grad_ref },
        { "MaxPoolGrad",
          { EXACT(many, N, SIZE, SIZE, CHANNELS), EXACT(many_max, N, OUT, OUT, CHANNELS), IN(N, OUT, OUT, CHANNELS) },
          A(WINDOW(3, 3), VALID(2, 2)),
          .tol = 1e-6,
          .ref = max_pool_grad_ref },
        { "MaxPoolGrad",
          { IN(0, 4, 4, 1), IN(0, 2, 2, 1), IN(0, 2, 2, 1) },
          A(WINDOW(2, 2), VALID(2, 2)),
          .tol = 0,
          .ref = max_pool_grad_ref },
        { "MaxPoolGrad",
          { IN(1, 4, 4, 1), IN(1, 2, 2, 1), IN(1, 2, 3, 1) },
          A(WINDOW(2, 2), VALID(2, 2)),
          .fails = EST_INVALID_ARGUMENT,
          .says  = "[1,2,3,1]" },
    };

    fill_many();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
