/* SPDX-License-Identifier: Apache-2.0
 *
 * RMSProp on a GPU, plain and centered, of dense and of sparse gradients. */
#include "cuda/apply.cuh"
#include "ops/apply_formulas.h"

struct rms_prop {
    static constexpr int slots = 2;

    EST_RULE_SCALARS(est_rms_prop_scalars)
    EST_RULE_STEP(EST_RMS_PROP(T, sqrt))
    EST_RULE_TAKES_ALL
};

struct centered {
    static constexpr int slots = 3;

    EST_RULE_SCALARS(est_rms_prop_scalars)
    EST_RULE_STEP(EST_CENTERED_RMS_PROP(T, sqrt))
    EST_RULE_TAKES_ALL
};

EST_DEFINE_LAUNCHER(apply_rms_prop)
{
    return est_apply_launch<rms_prop>(c);
}

EST_DEFINE_LAUNCHER(apply_centered_rms_prop)
{
    return est_apply_launch<centered>(c);
}
