/* SPDX-License-Identifier: Apache-2.0
 *
 * FTRL on a GPU, of dense and of sparse gradients. */
#include "cuda/apply.cuh"
#include "ops/apply_formulas.h"

/* Apart, so that its registers are not those of every update. */
template <typename T> static EST_APART __device__ T unusual_power(T x, T p)
{
    return pow(x, p);
}

/* The usual power is 1/2. */
template <typename T> static __device__ T power(T x, T p)
{
    return p == (T)0.5 ? sqrt(x) : unusual_power(x, p);
}

struct ftrl {
    static constexpr int slots = 2;

    EST_RULE_SCALARS(est_ftrl_scalars)
    EST_RULE_STEP(EST_FTRL(T, power))

    static __device__ bool takes(const double *in, int n, int *which)
    {
        *which = in[0] > 0 ? n - 1 : 0;
        return in[0] > 0 && in[n - 1] <= 0;
    }
};

EST_DEFINE_LAUNCHER(apply_ftrl)
{
    return est_apply_launch<ftrl>(c);
}
