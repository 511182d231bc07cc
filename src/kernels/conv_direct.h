/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of float32 NHWC images without building the matrix of patches.
 *
 * A tile of TILE_PIXELS outputs by 16 output channels stays in registers while the taps of its windows stream by: an
 * input value is broadcast and multiplied with a row of the filter. The gradient of the filter is the same loop the
 * other way round: a tile of filter rows stays in registers while the pixels stream by. Images that need padding are
 * copied with their padding first, a band of rows at a time, so that no inner loop knows of borders. */
#ifndef EST_KERNELS_CONV_DIRECT_H
#define EST_KERNELS_CONV_DIRECT_H

#include "kernels/conv_geometry.h"
#include "kernels/gemm.h"

/* Whether the direct kernels are the right choice for these shapes; the batch size does not matter. */
bool est_conv_direct_suits(const est_conv_geometry *g);

/* y = conv(x, filter). `flipped`: the filter is stored [kh, kw, k, c] and both window axes are mirrored, which is how
 * the gradient of the input is a convolution again. `done` is called for finished rows of y seen as [n * oh * ow, k];
 * NULL: nothing more to do. Scratch: est_conv_direct_scratch(g, threads of the pool) bytes. */
size_t est_conv_direct_scratch(const est_conv_geometry *g, int threads);
void est_conv_direct_f32(est_pool *pool, const est_conv_geometry *g, const float *x, const float *filter, bool flipped,
                         float *y, void *scratch, est_gemm_done_fn done, void *done_arg);

/* The geometry of that second convolution: from dy [n, oh, ow, k] to dx [n, h, w, c]. False unless strides are 1. */
bool est_conv_direct_mirror(const est_conv_geometry *g, est_conv_geometry *mirror);

/* dfilter[kh, kw, c, k] = sum over windows of x * dy. Suits images of few channels: with more, a matrix product gains
 * more from rearranging both factors than that costs. */
bool   est_conv_direct_suits_filter(const est_conv_geometry *g);
size_t est_conv_direct_filter_scratch(const est_conv_geometry *g, int threads);
void   est_conv_direct_filter_f32(est_pool *pool, const est_conv_geometry *g, const float *x, const float *dy,
                                  float *dfilter, void *scratch);

#endif
