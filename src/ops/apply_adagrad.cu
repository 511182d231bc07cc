/* SPDX-License-Identifier: Apache-2.0
 *
 * Adagrad on a GPU, of dense and of sparse gradients. */
#include "cuda/apply.cuh"
#include "ops/apply_formulas.h"

struct adagrad {
    static constexpr int slots = 1;

    EST_RULE_SCALARS(est_adagrad_scalars)
    EST_RULE_STEP(EST_ADAGRAD(T, sqrt))
    EST_RULE_TAKES_ALL
};

EST_DEFINE_LAUNCHER(apply_adagrad)
{
    return est_apply_launch<adagrad>(c);
}
