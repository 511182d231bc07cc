/* SPDX-License-Identifier: Apache-2.0
 *
 * Adamax on a GPU: ResourceApplyAdaMax, and EstSparseAdaMax, which moves every row. */
#include "cuda/apply_all.cuh"
#include "ops/apply_formulas.h"

struct adamax {
    static constexpr int slots = 2;

    EST_RULE_SCALARS(est_adamax_scalars)
    EST_RULE_STEP(EST_ADAMAX(T, fabs))
    EST_RULE_TAKES_ALL
};

EST_DEFINE_LAUNCHER(apply_adamax)
{
    return est_apply_launch<adamax>(c);
}

EST_DEFINE_LAUNCHER(sparse_adamax)
{
    return est_apply_all_launch<adamax>(c);
}
