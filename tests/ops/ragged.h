/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of ops on ragged rows share. */
#ifndef EST_TESTS_OPS_RAGGED_H
#define EST_TESTS_OPS_RAGGED_H

#include "support/op_check.h"

/* A vector of exactly these numbers. */
#define LIST(type, ...)                                                                                                \
    {                                                                                                                  \
        .shape = EST_SHAPE(sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)), .dtype = type,                   \
        .values = (const double[])                                                                                     \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define SPLITS(...) LIST(EST_I64, __VA_ARGS__)

/* n numbers between lo and hi. */
#define SOME(type, n, low, high)                                                                                       \
    {                                                                                                                  \
        .shape = EST_SHAPE(n), .dtype = type, .lo = low, .hi = high                                                    \
    }

/* Rows of 0 to 6 values: MANY_ROWS of them, filled by many_rows(), which returns how many values they have. */
#define MANY_ROWS 5001
static double many_splits[MANY_ROWS + 1];
#define MANY_SPLITS                                                                                                    \
    {                                                                                                                  \
        .shape = EST_SHAPE(MANY_ROWS + 1), .dtype = EST_I64, .values = many_splits                                     \
    }

static inline int64_t many_rows(void)
{
    for (int64_t r = 0; r < MANY_ROWS; r++) many_splits[r + 1] = many_splits[r] + (double)(r * 7919 % 13 % 7);
    return (int64_t)many_splits[MANY_ROWS];
}

#endif
