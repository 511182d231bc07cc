/* SPDX-License-Identifier: Apache-2.0
 *
 * Both forms of momentum on a GPU, of dense and of sparse gradients. */
#include "cuda/apply.cuh"
#include "ops/apply_formulas.h"

struct momentum {
    static constexpr int slots = 1;

    EST_RULE_SCALARS(est_momentum_scalars)
    EST_RULE_STEP(EST_MOMENTUM(T))
    EST_RULE_TAKES_ALL
};

struct keras_momentum {
    static constexpr int slots = 1;

    EST_RULE_SCALARS(est_keras_momentum_scalars)
    EST_RULE_STEP(EST_MOMENTUM(T))
    EST_RULE_TAKES_ALL
};

EST_DEFINE_LAUNCHER(apply_momentum)
{
    return est_apply_launch<momentum>(c);
}

EST_DEFINE_LAUNCHER(apply_keras_momentum)
{
    return est_apply_launch<keras_momentum>(c);
}
