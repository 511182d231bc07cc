/* SPDX-License-Identifier: Apache-2.0
 *
 * Lion on a GPU: EstApplyLion, and EstSparseLion, which moves every row. */
#include "cuda/apply_all.cuh"
#include "ops/apply_formulas.h"

struct lion {
    static constexpr int slots = 1;

    EST_RULE_SCALARS(est_lion_scalars)
    EST_RULE_STEP(EST_LION(T))
    EST_RULE_TAKES_ALL
};

EST_DEFINE_LAUNCHER(apply_lion)
{
    return est_apply_launch<lion>(c);
}

EST_DEFINE_LAUNCHER(sparse_lion)
{
    return est_apply_all_launch<lion>(c);
}
