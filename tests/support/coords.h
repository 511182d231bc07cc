/* SPDX-License-Identifier: Apache-2.0
 *
 * Coordinates of elements, for plain references of ops that move data. */
#ifndef EST_TESTS_COORDS_H
#define EST_TESTS_COORDS_H

#include "estoc/tensor.h"

static inline void coords_of(const est_shape *shape, int64_t i, int64_t coords[EST_RANK_MAX])
{
    for (int k = shape->rank - 1; k >= 0; k--) {
        coords[k] = i % shape->dim[k];
        i /= shape->dim[k];
    }
}

static inline int64_t offset_of(const est_shape *shape, const int64_t coords[EST_RANK_MAX])
{
    int64_t offset = 0;

    for (int k = 0; k < shape->rank; k++) offset = offset * shape->dim[k] + coords[k];
    return offset;
}

/* An integer constant of the graph: axes, shapes, bounds. */
#define INTS(...)                                                                                                      \
    {                                                                                                                  \
        .shape = EST_SHAPE(sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)), .dtype = EST_I32,                \
        .values = (const double[]){ __VA_ARGS__ }, .constant = true                                                    \
    }
/* The same as a feed: not known before the step runs. */
#define FED_INTS(...)                                                                                                  \
    {                                                                                                                  \
        .shape = EST_SHAPE(sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)), .dtype = EST_I32,                \
        .values = (const double[])                                                                                     \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define INT(value)                                                                                                     \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR, .dtype = EST_I32, .values = (const double[]){ value }, .constant = true             \
    }
#define FED_INT(value)                                                                                                 \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR, .dtype = EST_I32, .values = (const double[])                                        \
        {                                                                                                              \
            value                                                                                                      \
        }                                                                                                              \
    }
#define SCALAR_IN                                                                                                      \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR                                                                                      \
    }

#endif
