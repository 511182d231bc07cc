/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels of embedding bags on the CPU and on GPUs share. */
#ifndef EST_OPS_EMBEDDING_BAG_H
#define EST_OPS_EMBEDDING_BAG_H

#include <stdint.h>

/* The combiner, in a call's param[EST_BAG_PARAM]. */
enum { EST_BAG_MEAN, EST_BAG_SUM, EST_BAG_SQRTN };
#define EST_BAG_PARAM 3

/* Places of failures on a GPU (est_error_word.place): wrong splits come before ids, which are from 0 up. */
#define EST_BAG_BAD_START INT64_MIN
#define EST_BAG_BAD_ROW   (INT64_MIN / 2) /* plus the row */
#define EST_BAG_BAD_END   (-(int64_t)1)

#endif
