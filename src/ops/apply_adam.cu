/* SPDX-License-Identifier: Apache-2.0
 *
 * Adam on a GPU: ResourceApplyAdam, EstLazyAdam, which moves the rows of a sparse gradient only, and EstSparseAdam,
 * which moves every row. */
#include "cuda/apply_all.cuh"
#include "ops/apply_formulas.h"

struct adam {
    static constexpr int slots = 2;

    EST_RULE_SCALARS(est_adam_scalars)
    EST_RULE_STEP(EST_ADAM(T, sqrt))
    EST_RULE_TAKES_ALL
};

EST_DEFINE_LAUNCHER(apply_adam)
{
    return est_apply_launch<adam>(c);
}

EST_DEFINE_LAUNCHER(sparse_adam)
{
    return est_apply_all_launch<adam>(c);
}
