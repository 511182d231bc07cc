/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused matrix products against plain loops. */
#include "support/bfloat16_ref.h"
#include "support/op_check.h"

static bool is_packed(const est_ref *r)
{
    return est_node_type(r->node, "T") == EST_U8;
}

static double element(const est_ref *r, int input, int64_t row, int64_t column)
{
    int64_t columns = r->in_shape[input].dim[1];

    if (!is_packed(r)) return r->in[input][row * columns + column];
    return bfloat16_of_bytes(r->in[input][row * columns + 2 * column], r->in[input][row * columns + 2 * column + 1]);
}

static double product(const est_ref *r, int64_t i, int64_t j)
{
    bool    ta = est_node_bool(r->node, "transpose_a"), tb = est_node_bool(r->node, "transpose_b");
    int64_t k   = ta ? r->in_shape[0].dim[0] : r->in_shape[0].dim[1] / (is_packed(r) ? 2 : 1);
    double  sum = 0;

    for (int64_t l = 0; l < k; l++)
        sum += element(r, 0, ta ? l : i, ta ? i : l) * element(r, 1, tb ? j : l, tb ? l : j);
    return sum;
}

static void plain_ref(est_ref *r)
{
    int64_t m = r->out_shape[0].dim[0], n = r->out_shape[0].dim[1];

    for (int64_t i = 0; i < m * n; i++) r->out[0][i] = product(r, i / n, i % n);
}

static void bias_ref(est_ref *r)
{
    int64_t m = r->out_shape[0].dim[0], n = r->out_shape[0].dim[1];

    for (int64_t i = 0; i < m * n; i++) {
        double y     = product(r, i / n, i % n) + r->in[2][i % n];
        r->out[0][i] = est_node_bool(r->node, "relu") && y < 0 ? 0 : y;
    }
}

static void relu_grad_ref(est_ref *r)
{
    int64_t m = r->out_shape[0].dim[0], n = r->out_shape[0].dim[1];

    for (int64_t i = 0; i < m * n; i++) r->out[0][i] = r->in[2][i] > 0 ? product(r, i / n, i % n) : 0;
}

static void relu_bias_grad_ref(est_ref *r)
{
    int64_t m = r->out_shape[0].dim[0], n = r->out_shape[0].dim[1];

    relu_grad_ref(r);
    for (int64_t j = 0; j < n; j++) r->out[1][j] = 0;
    for (int64_t i = 0; i < m * n; i++) r->out[1][i % n] += r->out[0][i];
}

#define BIAS(...)                                                                                                      \
    .op = "EstMatMulBias", .lo = -1, .hi = 1, .tol = 2e-5, .ref = bias_ref, .attrs = EST_ATTRS(__VA_ARGS__)
#define MASK(...)                                                                                                      \
    .op = "EstMatMulReluGrad", .lo = -1, .hi = 1, .tol = 2e-5, .ref = relu_grad_ref, .attrs = EST_ATTRS(__VA_ARGS__)
#define SUMS(...)                                                                                                      \
    .op = "EstMatMulReluBiasGrad", .lo = -1, .hi = 1, .tol = 1e-4, .ref = relu_bias_grad_ref,                          \
    .attrs = EST_ATTRS(__VA_ARGS__)
#define PLAIN(...)                                                                                                     \
    .op = "EstMatMulBfloat16", .lo = -1, .hi = 1, .tol = 2e-5, .ref = plain_ref, .attrs = EST_ATTRS(__VA_ARGS__)
/* Rows of numbers of two bytes each. */
#define PACKED(rows, columns)                                                                                          \
    {                                                                                                                  \
        .shape = EST_SHAPE(rows, 2 * (columns)), .dtype = EST_U8, .values = packed                                     \
    }
#define RELU(v)    est_attr_bool("relu", v)
#define TRANS_A(v) est_attr_bool("transpose_a", v)
#define TRANS_B(v) est_attr_bool("transpose_b", v)

/* The bytes of numbers between -1 and 1. */
static double packed[2 * 256 * 300];

static void make_packed(void)
{
    uint32_t seed = 1;

    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i += 2) {
        double x;

        seed = seed * 1664525 + 1013904223;
        x    = (double)(seed >> 8) / (1 << 23) - 1;
        for (int which = 0; which < 2; which++) packed[i + (size_t)which] = bfloat16_byte(x, which);
    }
}

int main(int argc, char **argv)
{
    make_packed();
    const est_op_case cases[] = {
        { BIAS(RELU(false)), .in = { IN(3, 5), IN(5, 7), IN(7) } },
        { BIAS(RELU(true)), .in = { IN(3, 5), IN(5, 7), IN(7) } },
        { BIAS(RELU(true)), .in = { IN(1, 1), IN(1, 1), IN(1) } },
        { BIAS(RELU(true)), .in = { IN(0, 4), IN(4, 3), IN(3) } },           /* empty batch */
        { BIAS(RELU(true)), .in = { IN(2, 0), IN(0, 3), IN(3) } },           /* nothing to sum: the bias alone */
        { BIAS(RELU(true)), .in = { IN(129, 257), IN(257, 193), IN(193) } }, /* several tiles and tasks, odd */
        { BIAS(RELU(true), TRANS_A(true)), .in = { IN(33, 17), IN(33, 40), IN(40) } },
        { BIAS(RELU(false), TRANS_B(true)), .in = { IN(17, 33), IN(40, 33), IN(40) } },
        { BIAS(RELU(true)), .in = { IN(512, 64), IN(64, 1), IN(1) } },    /* the last layer of a click model */
        { BIAS(RELU(false)), .in = { IN(130, 13), IN(13, 10), IN(10) } }, /* few columns: */
        { BIAS(RELU(true), TRANS_B(true)), .in = { IN(17, 40), IN(16, 40), IN(16) } },
        { BIAS(RELU(true)), .in = { IN(5, 2000), IN(2000, 2), IN(2) } },
        { BIAS(RELU(false)), .in = { IN(2050, 64), IN(64, 10), IN(10) } }, /* and of many rows */
        { BIAS(RELU(true)), .in = { IN(100, 260), IN(260, 64), IN(64) } }, /* in a cluster on a GPU, as the next: */
        { MASK(TRANS_B(true)), .in = { IN(100, 256), IN(68, 256), IN(100, 68) } },
        { BIAS(RELU(true), TRANS_B(true)), .in = { IN(2049, 260), IN(3, 260), IN(3) } },
        { BIAS(RELU(false)), .in = { IN(3, 132), IN(132, 16), IN(16) } },
        { BIAS(RELU(true)), .in = { IN(9, 1100), IN(1100, 65), IN(65) } }, /* a long sum: by parts on a GPU */
        { BIAS(RELU(true)), .in = { IN(65, 512), IN(512, 36), IN(36) } }, /* by tensor cores on a GPU, in parts; not: */
        { BIAS(RELU(true)), .in = { IN(65, 512), IN(512, 34), IN(34) } },
        { BIAS(RELU(false)), .in = { IN(65, 40), IN(40, 36), IN(36) } },
        { MASK(TRANS_B(true)), .in = { IN(70, 40), IN(68, 40), IN(70, 68) } },
        { MASK(TRANS_B(false)), .in = { IN(3, 1100), IN(1100, 7), IN(3, 7) } },
        { MASK(TRANS_B(false)), .in = { IN(3, 5), IN(5, 7), IN(3, 7) } },
        { MASK(TRANS_B(true)), .in = { IN(65, 31), IN(90, 31), IN(65, 90) } },
        { MASK(TRANS_B(true)), .in = { IN(128, 256), IN(300, 256), IN(128, 300) } },
        { MASK(TRANS_A(true)), .in = { IN(9, 4), IN(9, 3), IN(4, 3) } },
        { MASK(TRANS_B(true)), .in = { IN(0, 5), IN(7, 5), IN(0, 7) } },
        { SUMS(TRANS_B(true)), .in = { IN(3, 20), IN(7, 20), IN(3, 7) } },
        { SUMS(TRANS_B(true)), .in = { IN(33, 10), IN(70, 10), IN(33, 70) } }, /* of few terms */
        { SUMS(TRANS_B(true)), .in = { IN(515, 1), IN(33, 1), IN(515, 33) } }, /* sums of chunks */
        { SUMS(TRANS_B(true)), .in = { IN(650, 17), IN(132, 17), IN(650, 132) } },
        { SUMS(TRANS_B(true)), .in = { IN(700, 3), IN(132, 3), IN(700, 132) } },
        { SUMS(TRANS_B(false)), .in = { IN(521, 18), IN(18, 30), IN(521, 30) } }, /* no four columns at a time */
        { SUMS(TRANS_B(false)), .in = { IN(9, 16), IN(16, 5), IN(9, 5) } },
        { SUMS(TRANS_A(true)), .in = { IN(9, 4), IN(9, 3), IN(4, 3) } },
        { SUMS(TRANS_B(true)), .in = { IN(0, 5), IN(7, 5), IN(0, 7) } },
        { SUMS(TRANS_B(true)), .in = { IN(4, 0), IN(7, 0), IN(4, 7) } },
        { SUMS(TRANS_B(true)), .in = { IN(3, 20), IN(0, 20), IN(3, 0) } },
        { PLAIN(TRANS_A(false)), .in = { PACKED(5, 37), PACKED(37, 40) } },
        { PLAIN(TRANS_A(true)), .in = { PACKED(37, 24), PACKED(37, 40) } },
        { PLAIN(TRANS_B(true)), .in = { PACKED(128, 256), PACKED(300, 256) } },
        { PLAIN(TRANS_A(true)), .in = { PACKED(0, 24), PACKED(0, 40) } }, /* zeros */
        { PLAIN(TRANS_A(false)), .in = { PACKED(0, 24), PACKED(24, 40) } },
        { BIAS(RELU(true)), .in = { PACKED(65, 130), PACKED(130, 36), IN(36) } },
        { BIAS(RELU(false), TRANS_B(true)), .in = { PACKED(17, 33), PACKED(40, 33), IN(40) } },
        { MASK(TRANS_B(true)), .in = { PACKED(65, 31), PACKED(90, 31), IN(65, 90) } },
        { MASK(TRANS_A(true)), .in = { PACKED(40, 24), PACKED(40, 20), IN(24, 20) } },
        { SUMS(TRANS_B(true)), .in = { PACKED(150, 17), PACKED(132, 17), IN(150, 132) } },
        { SUMS(TRANS_B(false)), .in = { PACKED(52, 18), PACKED(18, 30), IN(52, 30) } },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
