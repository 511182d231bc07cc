/* SPDX-License-Identifier: Apache-2.0
 *
 * The distinct numbers of a list of indices in order of first sight, and for every index its place among them. */
#ifndef EST_KERNELS_DISTINCT_H
#define EST_KERNELS_DISTINCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lists longer than this do not leave the table in the first-level cache: what is needed soon is asked for ahead. */
#define EST_DISTINCT_CACHED 4096
#define EST_DISTINCT_AHEAD  16

/* Indices are counted in 32 bits. */
#define EST_DISTINCT_MAX (INT32_MAX / 2)

/* Bytes of the table for n indices, a multiple of 4; never less when n grows. */
size_t est_distinct_table_bytes(int64_t n);

/* indices and unique: int64 when `wide`, else int32; [n] each, as place. Returns how many are distinct. */
int32_t est_distinct(const void *indices, bool wide, int64_t n, void *unique, int32_t *place, int32_t *table);

#endif
