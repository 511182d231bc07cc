/* SPDX-License-Identifier: Apache-2.0
 *
 * Pack and Unpack on a GPU. prepare() has kept how many rows the stacked tensor has. */
#include "cuda/strips.cuh"

EST_DEFINE_LAUNCHER(pack)
{
    return est_strips_launch<true>(c, est_strips_of_rows(c->in, NULL, c->n_in, c->param[0].i), &c->out[0]);
}

EST_DEFINE_LAUNCHER(unpack)
{
    return est_strips_launch<false>(c, est_strips_of_rows(NULL, c->out, c->n_out, c->param[0].i), c->in[0]);
}
