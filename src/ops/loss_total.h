/* SPDX-License-Identifier: Apache-2.0
 *
 * The sum or mean of losses that an op makes along with them (EstSparseXentAndGrad, EstSigmoidXentAndGrad). */
#ifndef EST_OPS_LOSS_TOTAL_H
#define EST_OPS_LOSS_TOTAL_H

#include "graph/op.h"

/* NaN is the mean of none. */
static inline void est_loss_total(const est_view *losses, bool mean, est_view *total)
{
    double sum = 0;

    for (int64_t i = 0; i < losses->count; i++) {
        sum += losses->dtype == EST_F32 ? (double)((const float *)losses->data)[i] : ((const double *)losses->data)[i];
    }
    if (mean) sum /= (double)losses->count;
    if (total->dtype == EST_F32) {
        *(float *)total->data = (float)sum;
    } else {
        *(double *)total->data = sum;
    }
}

/* On a GPU: a sum of each block, of which there are not more than losses. */
static inline size_t est_loss_cuda_scratch(const est_call *c)
{
    return ((size_t)c->out[0].count + 1) * sizeof(double);
}

#endif
