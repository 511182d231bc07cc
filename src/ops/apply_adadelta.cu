/* SPDX-License-Identifier: Apache-2.0
 *
 * Adadelta on a GPU, of dense and of sparse gradients. */
#include "cuda/apply.cuh"
#include "ops/apply_formulas.h"

struct adadelta {
    static constexpr int slots = 2;

    EST_RULE_SCALARS(est_adadelta_scalars)
    EST_RULE_STEP(EST_ADADELTA(T, sqrt))
    EST_RULE_TAKES_ALL
};

EST_DEFINE_LAUNCHER(apply_adadelta)
{
    return est_apply_launch<adadelta>(c);
}
