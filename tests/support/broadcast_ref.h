/* SPDX-License-Identifier: Apache-2.0
 *
 * Broadcasting for plain references: where element i of the output comes from. */
#ifndef EST_TESTS_BROADCAST_REF_H
#define EST_TESTS_BROADCAST_REF_H

#include "support/coords.h"

/* The place in an input of shape `in` of element i of the broadcast shape `out`. */
static inline int64_t broadcast_source(const est_shape *in, const est_shape *out, int64_t i)
{
    int64_t at[EST_RANK_MAX], from[EST_RANK_MAX] = { 0 };

    coords_of(out, i, at);
    for (int a = 0; a < in->rank; a++) from[a] = in->dim[a] == 1 ? 0 : at[a + out->rank - in->rank];
    return offset_of(in, from);
}

#endif
