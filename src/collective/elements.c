/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic of reductions. Integers wrap around. */
#include <string.h>

#include "collective/work.h"

/* Unsigned, where wrapping around is defined. */
#define ADD(type)                                                                                                      \
    do {                                                                                                               \
        type *restrict to         = dst;                                                                               \
        const type *restrict from = src;                                                                               \
        for (size_t i = 0; i < bytes / sizeof *to; i++) to[i] += from[i];                                              \
    } while (0)

void est_elements_add(void *dst, const void *src, size_t bytes, est_dtype dtype)
{
    if (dtype == EST_F32) {
        ADD(float);
    } else if (dtype == EST_F64) {
        ADD(double);
    } else {
        ADD(uint64_t);
    }
}

#define SCALE(type, by)                                                                                                \
    do {                                                                                                               \
        type       *to = dst;                                                                                          \
        const type *at = src;                                                                                          \
        for (size_t i = 0; i < bytes / sizeof *to; i++) to[i] = at[i] * (by);                                          \
    } while (0)

void est_elements_scale(void *dst, const void *src, size_t bytes, est_dtype dtype, double factor)
{
    if (factor == 1 || dtype == EST_I64) {
        if (dst != src && bytes > 0) memcpy(dst, src, bytes);
    } else if (dtype == EST_F32) {
        SCALE(float, (float)factor);
    } else {
        SCALE(double, factor);
    }
}

#define DIVIDE(type, by)                                                                                               \
    do {                                                                                                               \
        type *at = data;                                                                                               \
        for (size_t i = 0; i < bytes / sizeof *at; i++) at[i] /= (by);                                                 \
    } while (0)

void est_elements_divide(void *data, size_t bytes, est_dtype dtype, int n)
{
    if (dtype == EST_F32) {
        DIVIDE(float, (float)n);
    } else if (dtype == EST_F64) {
        DIVIDE(double, n);
    } else {
        DIVIDE(int64_t, n);
    }
}
