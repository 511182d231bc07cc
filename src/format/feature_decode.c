/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding a Feature. Writers put one list into it, numbers packed in one piece: that form is decoded at once.
 * Everything else that protobuf allows goes through the general reader: lists in several pieces, unpacked numbers,
 * unknown fields, a oneof written more than once (the last kind counts, pieces of the same kind add up). The two never
 * mix: a form the fast decoder does not know is started over by the general one, which also words the errors. */
#include "format/feature_decode.h"

#define TAG(number, type) ((uint8_t)((number) << 3 | (type)))

est_feature_kind est_feature_kind_of(est_dtype dtype)
{
    switch (dtype) {
    case EST_F32: return EST_KIND_F32;
    case EST_I64: return EST_KIND_I64;
    case EST_STRING: return EST_KIND_BYTES;
    default: return EST_KIND_NONE;
    }
}

const char *est_feature_kind_name(est_feature_kind kind)
{
    static const char *const names[] = { "nothing", "bytes", "float32", "int64" };

    return names[kind];
}

/* --- the usual form ----------------------------------------------------------------------------------------------- */

/* Strips a tag and a length that cover all of *at .. end. */
static inline bool strip(const uint8_t **at, const uint8_t *end, uint8_t tag)
{
    const uint8_t *p = *at;
    uint64_t       size;

    if (p == end || *p++ != tag) return false;
    if (!est_wire_varint(&p, end, &size) || size != (uint64_t)(end - p)) return false;
    *at = p;
    return true;
}

static bool fast_f32s(const uint8_t *p, const uint8_t *end, float *to, size_t room, size_t *n)
{
    size_t count;

    if (p < end && !strip(&p, end, TAG(EST_LIST_VALUE, EST_WIRE_BYTES))) return false;
    if ((end - p) % 4 != 0) return false;
    count = (size_t)(end - p) / 4;
    *n    = count;
    if (count > room) count = room;
    for (size_t i = 0; i < count; i++) to[i] = est_wire_bits_f32(est_wire_load32(p + 4 * i));
    return true;
}

static bool fast_i64s(const uint8_t *p, const uint8_t *end, int64_t *to, size_t room, size_t *n)
{
    size_t count = 0;

    if (p < end && !strip(&p, end, TAG(EST_LIST_VALUE, EST_WIRE_BYTES))) return false;
    while (p < end) {
        uint64_t value;

        if (!est_wire_varint(&p, end, &value)) return false;
        if (count < room) to[count] = (int64_t)value;
        count++;
    }
    *n = count;
    return true;
}

static bool fast_bytes(const uint8_t *p, const uint8_t *end, est_str *to, size_t room, size_t *n)
{
    size_t count = 0;

    while (p < end) {
        uint64_t size;

        if (*p++ != TAG(EST_LIST_VALUE, EST_WIRE_BYTES)) return false;
        if (!est_wire_varint(&p, end, &size) || size > (uint64_t)(end - p)) return false;
        if (count < room) to[count] = (est_str){ (const char *)p, (size_t)size };
        p += size;
        count++;
    }
    *n = count;
    return true;
}

static inline bool fast_decode(est_str feature, est_feature_kind want, void *to, size_t room, size_t *n)
{
    const uint8_t *p   = (const uint8_t *)feature.data;
    const uint8_t *end = p + feature.size;

    if (!strip(&p, end, TAG(want, EST_WIRE_BYTES))) return false;
    if (want == EST_KIND_F32) return fast_f32s(p, end, to, room, n);
    if (want == EST_KIND_I64) return fast_i64s(p, end, to, room, n);
    return fast_bytes(p, end, to, room, n);
}

/* --- every legal form --------------------------------------------------------------------------------------------- */

/* Appends the numbers of one field of a FloatList or Int64List. */
static void append_numbers(est_wire_reader *list, const est_wire_field *field, est_feature_kind kind, void *to,
                           size_t room, size_t *n)
{
    est_wire_list values;
    uint64_t      bits;

    est_wire_list_init(list, field, kind == EST_KIND_F32 ? EST_WIRE_FIXED32 : EST_WIRE_VARINT, &values);
    while (est_wire_list_next(&values, &bits)) {
        if (*n < room && kind == EST_KIND_F32) ((float *)to)[*n] = est_wire_bits_f32(bits);
        if (*n < room && kind == EST_KIND_I64) ((int64_t *)to)[*n] = (int64_t)bits;
        ++*n;
    }
}

static est_status append_list(est_wire_reader *list, est_feature_kind kind, void *to, size_t room, size_t *n)
{
    est_wire_field field;

    while (est_wire_next(list, &field)) {
        est_str value;

        if (field.number != EST_LIST_VALUE) continue;
        if (kind != EST_KIND_BYTES) {
            append_numbers(list, &field, kind, to, room, n);
            continue;
        }
        value = est_wire_bytes(list, &field);
        if (*n < room) ((est_str *)to)[*n] = value;
        ++*n;
    }
    return est_wire_finish(list);
}

static est_status general_decode(est_wire_reader *r, est_feature_kind want, void *to, size_t room,
                                 est_feature_kind *kind, size_t *n)
{
    est_wire_field field;

    *kind = EST_KIND_NONE;
    *n    = 0;
    while (est_wire_next(r, &field)) {
        est_wire_reader list;

        if (field.number < EST_KIND_BYTES || field.number > EST_KIND_I64) continue;
        if (*kind != (est_feature_kind)field.number) *n = 0; /* a oneof: what was there is gone */
        *kind = (est_feature_kind)field.number;
        est_wire_message(r, &field, "Feature", &list);
        if (*kind == want) EST_TRY(append_list(&list, want, to, room, n));
    }
    return est_wire_finish(r);
}

est_status est_feature_decode(est_str feature, const void *outermost, est_feature_kind want, void *to, size_t room,
                              est_feature_kind *kind, size_t *n)
{
    est_wire_reader r;

    if (fast_decode(feature, want, to, room, n)) {
        *kind = want;
        return EST_OK;
    }
    est_wire_reader_init(&r, "Feature", feature.data, feature.size);
    if (feature.size > 0) r.outermost = outermost;
    return general_decode(&r, want, to, room, kind, n);
}
