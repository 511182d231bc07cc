/* SPDX-License-Identifier: Apache-2.0
 *
 * OneHot on a GPU: a thread an element of the result. */
#include "cuda/strided.cuh"

static __device__ int64_t class_at(const void *indices, int bytes, int64_t i)
{
    return bytes == 1 ? ((const uint8_t *)indices)[i] : est_index_at(indices, bytes == 8, i);
}

template <typename W>
static __global__ void set_hot(const void *indices, int bytes, const W *on, const W *off, W *y, int64_t count,
                               int64_t depth, int64_t inner)
{
    int64_t i = est_thread(), line = est_divide(i, inner), row = est_divide(line, depth);

    if (i >= count) return;
    y[i] = class_at(indices, bytes, row * inner + i - line * inner) == line - row * depth ? *on : *off;
}

/* prepare() has kept the axis and the elements behind it. */
template <typename W> static int launch(const est_call *c)
{
    return est_launch(c, set_hot<W>, dim3(est_blocks(c->out[0].count)), EST_BLOCK, (const void *)c->in[0]->data,
                      (int)est_element_bytes(c->in[0]->dtype), est_data<W>(c->in[2]), est_data<W>(c->in[3]),
                      est_data<W>(&c->out[0]), c->out[0].count, c->out[0].shape.dim[c->param[0].i], c->param[1].i);
}

EST_DEFINE_LAUNCHER(one_hot)
{
    return EST_BY_WIDTH(c->out[0].dtype, launch, c);
}
