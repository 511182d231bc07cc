/* SPDX-License-Identifier: Apache-2.0
 *
 * BatchMatMulV2: transposes, batch axes that broadcast either way, many small and few large products. */
#include "support/op_check.h"
#include "tensor/shape.h"

static void batch_matmul_ref(est_ref *r)
{
    bool             tx = est_node_bool(r->node, "adj_x"), ty = est_node_bool(r->node, "adj_y");
    const est_shape *x = &r->in_shape[0], *y = &r->in_shape[1], *out = &r->out_shape[0];
    int64_t          m = out->dim[out->rank - 2], n = out->dim[out->rank - 1], k = x->dim[x->rank - (tx ? 2 : 1)];
    int64_t          matrices = 1;

    for (int i = 0; i < out->rank - 2; i++) matrices *= out->dim[i];
    for (int64_t b = 0; b < matrices; b++) {
        int64_t at[2] = { 0, 0 };

        for (int s = 0; s < 2; s++) { /* which matrix of each input, from the indices of the output */
            const est_shape *in   = s == 0 ? x : y;
            int64_t          left = b, step = 1;
            for (int axis = out->rank - 3, i = in->rank - 3; i >= 0; axis--, i--) {
                int64_t index = left % out->dim[axis];
                left /= out->dim[axis];
                at[s] += in->dim[i] == 1 ? 0 : index * step;
                step *= in->dim[i];
            }
        }
        for (int64_t e = 0; e < m * n; e++) {
            const double *a = r->in[0] + at[0] * m * k, *c = r->in[1] + at[1] * k * n;
            int64_t       i = e / n, j = e % n;
            double        sum = 0;
            for (int64_t l = 0; l < k; l++) sum += a[tx ? l * m + i : i * k + l] * c[ty ? j * k + l : l * n + j];
            r->out[0][b * m * n + e] = sum;
        }
    }
}

#define T(a, b) .attrs = EST_ATTRS(est_attr_bool("adj_x", a), est_attr_bool("adj_y", b))
#define OP      "BatchMatMulV2"

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { OP, { IN(2, 3, 4), IN(2, 4, 5) }, .tol = 1e-6, .ref = batch_matmul_ref },
        { OP, { IN(2, 4, 3), IN(2, 4, 5) }, T(true, false), .tol = 1e-6, .ref = batch_matmul_ref },
        { OP, { IN(2, 3, 4), IN(2, 5, 4) }, T(false, true), .tol = 1e-6, .ref = batch_matmul_ref },
        { OP, { IN(2, 4, 3), IN(2, 5, 4) }, T(true, true), .tol = 1e-6, .ref = batch_matmul_ref },
        { OP, { IN(3, 4), IN(4, 2) }, .tol = 1e-6, .ref = batch_matmul_ref },
        { OP, { IN(3, 2, 4), IN(4, 5) }, .tol = 1e-6, .ref = batch_matmul_ref }, /* one tall product */
        { OP, { IN(3, 2, 4), IN(5, 4) }, T(false, true), .tol = 1e-6, .ref = batch_matmul_ref },
        { OP, { IN(3, 4, 2), IN(4, 5) }, T(true, false), .tol = 1e-6, .ref = batch_matmul_ref },
        { OP, { IN(2, 4), IN(3, 4, 5) }, .tol = 1e-6, .ref = batch_matmul_ref },
        { OP, { IN(2, 1, 3, 4), IN(3, 4, 2) }, .tol = 1e-6, .ref = batch_matmul_ref },
        { OP, { IN(2, 1, 2, 3), IN(1, 3, 3, 2) }, .tol = 1e-6, .ref = batch_matmul_ref },
        { OP, { IN(2, 3, 0), IN(2, 0, 5) }, .tol = 0, .ref = batch_matmul_ref },
        { OP, { IN(0, 3, 4), IN(0, 4, 5) }, .tol = 0, .ref = batch_matmul_ref },
        { OP, { IN(300, 17, 9), IN(300, 9, 11) }, .tol = 1e-5, .ref = batch_matmul_ref },   /* many small ones */
        { OP, { IN(2, 200, 150), IN(2, 150, 190) }, .tol = 1e-5, .ref = batch_matmul_ref }, /* few large ones */
        { OP, { IN(4, 3, 5), IN(4, 5, 6) }, .dtype = EST_I32, .lo = -5, .hi = 5, .ref = batch_matmul_ref },
        { OP, { IN(2, 3, 4), IN(3, 4, 5) }, .fails = EST_INVALID_ARGUMENT, .says = "leading axes" },
        { OP, { IN(2, 3, 4), IN(2, 5, 4) }, .fails = EST_INVALID_ARGUMENT, .says = "inner sizes" },
        { OP, { IN(4), IN(4, 5) }, .fails = EST_INVALID_ARGUMENT, .says = "two axes" },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
