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
 * of the kind `want`. *kind says what the Feature holds, EST_KIND_NONE for nothing, and *n how many values of the
 * wanted kind, which may be more than `room`. `outermost` is where errors count bytes from. */
EST_MUST_CHECK est_status est_feature_decode(est_str feature, const void *outermost, est_feature_kind want, void *to,
                                             size_t room, est_feature_kind *kind, size_t *n);

/* est_feature_decode for the most common Feature of all, one value in the usual form and less than 128 bytes: false
 * when it is another. Tag and length of the list, tag and length within it are compared as one word. */
static inline bool est_feature_decode_one(est_str feature, est_feature_kind want, void *to)
{
    const uint8_t *p    = (const uint8_t *)feature.data, *end;
    uint32_t       size = (uint32_t)feature.size, head;
    uint64_t       value;

    if (feature.size < 4 || feature.size >= 0x80) return false;
    head = (uint32_t)want << 3 | EST_WIRE_BYTES | (size - 2) << 8 |
           (uint32_t)(EST_LIST_VALUE << 3 | EST_WIRE_BYTES) << 16 | (size - 4) << 24;
    if (est_wire_load32(p) != head) return false;
    end = p + size;
    p += 4;
    switch (want) {
    case EST_KIND_F32:
        if (size != 8) return false;
        *(float *)to = est_wire_bits_f32(est_wire_load32(p));
        return true;
    case EST_KIND_BYTES: *(est_str *)to = (est_str){ (const char *)p, size - 4 }; return true;
    case EST_KIND_I64:
        if (!est_wire_varint(&p, end, &value) || p != end) return false;
        *(int64_t *)to = (int64_t)value;
        return true;
    default: return false;
    }
}

#endif
