/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused matrix products against plain loops. */
#include "support/op_check.h"

static double product(const est_ref *r, int64_t i, int64_t j)
{
    bool    ta = est_node_bool(r->node, "transpose_a"), tb = est_node_bool(r->node, "transpose_b");
    int64_t k   = r->in_shape[0].dim[ta ? 0 : 1];
    double  sum = 0;

    for (int64_t l = 0; l < k; l++) {
        sum += r->in[0][ta ? l * r->in_shape[0].dim[1] + i : i * k + l] *
               r->in[1][tb ? j * k + l : l * r->in_shape[1].dim[1] + j];
    }
    return sum;
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
#define RELU(v)    est_attr_bool("relu", v)
#define TRANS_A(v) est_attr_bool("transpose_a", v)
#define TRANS_B(v) est_attr_bool("transpose_b", v)

int main(int argc, char **argv)
{
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
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
