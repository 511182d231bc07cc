/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions as matrix products, for any shape and both float dtypes: the windows of some pixels are written out as
 * the rows of a matrix ("im2col"), which is multiplied with the filter seen as [kh * kw * c, k]. Pixels are taken in
 * blocks small enough to stay in cache. A 1x1 filter needs no such matrix: the image is one. */
#ifndef EST_KERNELS_CONV_IM2COL_H
#define EST_KERNELS_CONV_IM2COL_H

#include "kernels/conv_geometry.h"
#include "kernels/gemm.h"

/* The scratch bytes of each of the three, for the pool it will run on. */
typedef enum est_conv_part { EST_CONV_FORWARD, EST_CONV_INPUT_GRAD, EST_CONV_FILTER_GRAD } est_conv_part;
size_t est_conv_im2col_scratch(const est_pool *pool, const est_conv_geometry *g, est_dtype dtype, est_conv_part part);

/* `done` is called for finished rows of y seen as [n * oh * ow, k]; NULL: nothing more to do. */
void est_conv_im2col(est_pool *pool, const est_conv_geometry *g, est_dtype dtype, const void *x, const void *filter,
                     void *y, void *scratch, est_gemm_done_fn done, void *done_arg);
void est_conv_im2col_input(est_pool *pool, const est_conv_geometry *g, est_dtype dtype, const void *dy,
                           const void *filter, void *dx, void *scratch);
void est_conv_im2col_filter(est_pool *pool, const est_conv_geometry *g, est_dtype dtype, const void *x, const void *dy,
                            void *dfilter, void *scratch);

#endif
