/* SPDX-License-Identifier: Apache-2.0 */
#include "support/op_check.h"

static void row_ids_ref(est_ref *r)
{
    for (int64_t row = 0; row + 1 < r->in_shape[0].dim[0]; row++) {
        for (int64_t i = (int64_t)r->in[0][row]; i < (int64_t)r->in[0][row + 1]; i++) r->out[0][i] = (double)row;
    }
}

#define SPLITS(...)                                                                                                    \
    {                                                                                                                  \
        .shape = EST_SHAPE(sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)), .dtype = EST_I64,                \
        .values = (const double[])                                                                                     \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

static const est_op_case cases[] = {
    { "EstRowIds", { SPLITS(0, 2, 2, 5, 6), { .shape = { 1, { 6 } } } }, .ref = row_ids_ref },
    { "EstRowIds", { SPLITS(0, 0, 0), { .shape = { 1, { 0 } } } }, .ref = row_ids_ref },
    { "EstRowIds", { SPLITS(0), { .shape = { 1, { 0 } } } }, .ref = row_ids_ref },
    { "EstRowIds", { SPLITS(0, 3), { .shape = { 2, { 3, 4 } }, .dtype = EST_I64 } }, .ref = row_ids_ref },
    { "EstRowIds", { SPLITS(0, 3, 2), { .shape = { 1, { 3 } } } }, .fails = EST_INVALID_ARGUMENT, .says = "row 1" },
    { "EstRowIds", { SPLITS(0, 1, 2), { .shape = { 1, { 3 } } } }, .fails = EST_INVALID_ARGUMENT, .says = "end at 2" },
    { "EstRowIds", { SPLITS(0, 4), { .shape = { 1, { 3 } } } }, .fails = EST_INVALID_ARGUMENT, .says = "3 values" },
};

EST_OP_CHECK_MAIN(cases)
