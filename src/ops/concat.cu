/* SPDX-License-Identifier: Apache-2.0
 *
 * ConcatV2 and EstConcatGrad on a GPU. */
#include "cuda/strips.cuh"

EST_DEFINE_LAUNCHER(concat_v2)
{
    return est_strips_launch<true>(c, est_strips_of(&c->out[0], c->in, NULL, c->n_in - 1), &c->out[0]);
}

EST_DEFINE_LAUNCHER(concat_grad)
{
    return est_strips_launch<false>(c, est_strips_of(c->in[0], NULL, c->out, c->n_out), c->in[0]);
}
