/* SPDX-License-Identifier: Apache-2.0
 *
 * RMSprop of Keras on a GPU. Of a sparse gradient it moves every row: the slots of all of them decay. */
#include "cuda/apply_all.cuh"
#include "ops/apply_formulas.h"

struct keras_rms_prop {
    static constexpr int slots = 1;

    EST_RULE_SCALARS(est_keras_rms_prop_scalars)
    EST_RULE_STEP(EST_KERAS_RMS_PROP(T, sqrt))
    EST_RULE_TAKES_ALL
};

struct centered_keras_rms_prop {
    static constexpr int slots = 2;

    EST_RULE_SCALARS(est_keras_rms_prop_scalars)
    EST_RULE_STEP(EST_CENTERED_KERAS_RMS_PROP(T, sqrt))
    EST_RULE_TAKES_ALL
};

EST_DEFINE_LAUNCHER(apply_keras_rms_prop)
{
    return est_apply_launch<keras_rms_prop>(c);
}

EST_DEFINE_LAUNCHER(apply_centered_keras_rms_prop)
{
    return est_apply_launch<centered_keras_rms_prop>(c);
}

EST_DEFINE_LAUNCHER(sparse_keras_rms_prop)
{
    return est_apply_all_launch<keras_rms_prop>(c);
}

EST_DEFINE_LAUNCHER(sparse_centered_keras_rms_prop)
{
    return est_apply_all_launch<centered_keras_rms_prop>(c);
}
