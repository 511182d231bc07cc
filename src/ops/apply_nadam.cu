/* SPDX-License-Identifier: Apache-2.0
 *
 * Nadam on a GPU: EstNadam, and EstSparseNadam, which moves every row. */
#include "cuda/apply_all.cuh"
#include "ops/apply_formulas.h"

struct nadam {
    static constexpr int slots = 2;

    EST_RULE_SCALARS(est_nadam_scalars)
    EST_RULE_STEP(EST_NADAM(T, sqrt))
    EST_RULE_TAKES_ALL
};

EST_DEFINE_LAUNCHER(apply_nadam)
{
    return est_apply_launch<nadam>(c);
}

EST_DEFINE_LAUNCHER(sparse_nadam)
{
    return est_apply_all_launch<nadam>(c);
}
