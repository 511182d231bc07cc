/* SPDX-License-Identifier: Apache-2.0
 *
 * SelectV2 and Select on a GPU; elements are moved as they are. */
#include "cuda/loops.cuh"

template <typename W>
static __global__ void choose(const uint8_t *when, const W *t, const W *e, W *out, int64_t count, est_places p)
{
    int64_t i = est_thread(), at[3];

    if (i >= count) return;
    est_find_places(p, 3, i, at);
    out[i] = when[at[0]] != 0 ? t[at[1]] : e[at[2]];
}

template <typename W> static int launch(const est_call *c)
{
    const est_shape *shapes[3] = { &c->in[0]->shape, &c->in[1]->shape, &c->in[2]->shape };

    return est_launch(c, choose<W>, dim3(est_blocks(c->out[0].count)), EST_BLOCK, est_data<uint8_t>(c->in[0]),
                      est_data<W>(c->in[1]), est_data<W>(c->in[2]), est_data<W>(&c->out[0]), c->out[0].count,
                      est_places_of(shapes, 3, &c->out[0].shape));
}

EST_DEFINE_LAUNCHER(select)
{
    switch (est_element_bytes(c->out[0].dtype)) {
    case 8: return launch<uint64_t>(c);
    case 4: return launch<uint32_t>(c);
    default: return launch<uint8_t>(c);
    }
}
