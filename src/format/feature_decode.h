/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of one Feature message to its values. Any thread. */
#ifndef EST_FORMAT_FEATURE_DECODE_H
#define EST_FORMAT_FEATURE_DECODE_H

#include "format/feature_set.h"

/* The most values that a Feature of `size` bytes can hold. */
static inline size_t est_feature_values_max(est_feature_kind kind, size_t size)
{
    return kind == EST_KIND_F32 ? size / 4 : kind == EST_KIND_BYTES ? size / 2 : size;
}

/* The kind a dtype is stored as, and its name for errors. */
est_feature_kind est_feature_kind_of(est_dtype dtype);
const char      *est_feature_kind_name(est_feature_kind kind);

/* Writes the values to `to` (float, int64_t or est_str borrowed from the message), at most `room` of them, if they are
 * of the kind `want`. *kind says what the Feature holds, EST_KIND_NONE for nothing, and *n how many values of the wanted
 * kind, which may be more than `room`. `outermost` is where errors count bytes from. */
EST_MUST_CHECK est_status est_feature_decode(est_str feature, const void *outermost, est_feature_kind want, void *to,
                                             size_t room, est_feature_kind *kind, size_t *n);

#endif
