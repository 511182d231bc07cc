/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient descent on a GPU. */
#include "cuda/apply.cuh"
#include "ops/apply_formulas.h"

struct descent {
    static constexpr int slots = 0;

    static __device__ void scalars(const double *in, int, bool, double *k)
    {
        k[0] = in[0];
    }
    EST_RULE_STEP(EST_DESCENT(T))
    EST_RULE_TAKES_ALL
};

EST_DEFINE_LAUNCHER(apply_gradient_descent)
{
    return est_apply_launch<descent>(c);
}
