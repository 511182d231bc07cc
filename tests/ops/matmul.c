/* SPDX-License-Identifier: Apache-2.0
 *
 * MatMul: all four transposes, odd and empty sizes, integers, sizes that do not fit. */
#include "support/op_check.h"

static void matmul_ref(est_ref *r)
{
    bool           ta = est_node_bool(r->node, "transpose_a"), tb = est_node_bool(r->node, "transpose_b");
    const int64_t *a = r->in_shape[0].dim, *b = r->in_shape[1].dim;
    int64_t        m = r->out_shape[0].dim[0], n = r->out_shape[0].dim[1], k = a[ta ? 0 : 1];

    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++) {
                sum += r->in[0][ta ? l * a[1] + i : i * a[1] + l] * r->in[1][tb ? j * b[1] + l : l * b[1] + j];
            }
            r->out[0][i * n + j] = sum;
        }
    }
}

#define T(a, b) .attrs = EST_ATTRS(est_attr_bool("transpose_a", a), est_attr_bool("transpose_b", b))

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "MatMul", { IN(3, 4), IN(4, 5) }, .tol = 1e-6, .ref = matmul_ref },
        { "MatMul", { IN(4, 3), IN(4, 5) }, T(true, false), .tol = 1e-6, .ref = matmul_ref },
        { "MatMul", { IN(3, 4), IN(5, 4) }, T(false, true), .tol = 1e-6, .ref = matmul_ref },
        { "MatMul", { IN(4, 3), IN(5, 4) }, T(true, true), .tol = 1e-6, .ref = matmul_ref },
        { "MatMul", { IN(1, 1), IN(1, 1) }, .tol = 1e-6, .ref = matmul_ref },
        { "MatMul", { IN(1, 7), IN(7, 1) }, .tol = 1e-6, .ref = matmul_ref },
        { "MatMul", { IN(5, 0), IN(0, 3) }, .tol = 0, .ref = matmul_ref }, /* an empty sum is 0 */
        { "MatMul", { IN(0, 3), IN(3, 4) }, .tol = 0, .ref = matmul_ref },
        { "MatMul", { IN(3, 4), IN(4, 0) }, .tol = 0, .ref = matmul_ref },
        { "MatMul", { IN(257, 300), IN(300, 131) }, .tol = 2e-5, .ref = matmul_ref }, /* several slices by rows */
        { "MatMul", { IN(300, 131), IN(300, 513) }, T(true, false), .tol = 2e-5, .ref = matmul_ref }, /* by columns */
        { "MatMul", { IN(5, 1500), IN(1500, 70) }, .tol = 1e-4, .ref = matmul_ref },
        { "MatMul", { IN(5, 1500), IN(1500, 72) }, .tol = 1e-4, .ref = matmul_ref },  /* in eight parts on a GPU */
        { "MatMul", { IN(36, 2100), IN(2100, 68) }, .tol = 1e-4, .ref = matmul_ref }, /* in 32 clusters of two blocks */
        { "MatMul", { IN(60, 196), IN(196, 132) }, .tol = 2e-5, .ref = matmul_ref },  /* in a cluster, as the next: */
        { "MatMul", { IN(68, 260), IN(72, 260) }, T(false, true), .tol = 2e-5, .ref = matmul_ref },
        { "MatMul", { IN(2100, 260), IN(2100, 196) }, T(true, false), .tol = 2e-4, .ref = matmul_ref },
        { "MatMul",
          { IN(68, 36), IN(36, 40) },
          .tol = 1e-5,
          .ref = matmul_ref }, /* by tensor cores on a GPU, as the next: */
        { "MatMul", { IN(36, 44), IN(72, 44) }, T(false, true), .tol = 1e-5, .ref = matmul_ref },
        { "MatMul", { IN(150, 72), IN(150, 68) }, T(true, false), .tol = 2e-5, .ref = matmul_ref }, /* in two parts */
        { "MatMul", { IN(2052, 132), IN(2052, 68) }, T(true, false), .tol = 1e-4, .ref = matmul_ref }, /* large tiles */
        { "MatMul", { IN(700, 66), IN(700, 3) }, T(true, false), .tol = 5e-5, .ref = matmul_ref },     /* few columns */
        { "MatMul", { IN(40, 33), IN(40, 16) }, T(true, false), .tol = 5e-5, .ref = matmul_ref },
        { "MatMul", { IN(513, 64), IN(513, 1) }, T(true, false), .tol = 5e-5, .ref = matmul_ref },
        { "MatMul", { IN(600, 132), IN(600, 10) }, T(true, false), .tol = 5e-5, .ref = matmul_ref }, /* in chunks */
        { "MatMul", { IN(70, 13), IN(13, 1) }, .tol = 5e-5, .ref = matmul_ref },
        { "MatMul", { IN(33, 17), IN(17, 9) }, .dtype = EST_I32, .lo = -9, .hi = 9, .ref = matmul_ref },
        { "MatMul", { IN(17, 33), IN(9, 17) }, T(true, true), .dtype = EST_I64, .lo = -9, .hi = 9, .ref = matmul_ref },
        { "MatMul", { IN(300, 80), IN(80, 70) }, .dtype = EST_I64, .lo = -9, .hi = 9, .ref = matmul_ref },
        { "MatMul", { IN(3, 4), IN(3, 4) }, .fails = EST_INVALID_ARGUMENT, .says = "[3,4] with [3,4]" },
        { "MatMul", { IN(3, 4), IN(4) }, .fails = EST_INVALID_ARGUMENT, .says = "rank 2" },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
