/* SPDX-License-Identifier: Apache-2.0
 *
 * Split on a GPU. */
#include "cuda/strips.cuh"

EST_DEFINE_LAUNCHER(split)
{
    return est_strips_launch<false>(c, est_strips_of(c->in[1], NULL, c->out, c->n_out), c->in[1]);
}
