/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of a checkpoint's index.
 *
 *   BundleHeaderProto  1 num_shards | 2 endianness | 3 version { 1 producer | 2 min_consumer }
 *   BundleEntryProto   1 dtype | 2 shape | 3 shard_id | 4 offset | 5 size | 6 crc32c (fixed32) | 7 slices
 *   TensorSliceProto   1 extent { 1 start | 2 length }; a whole axis is an empty extent
 *
 * A slice's key is made so that bytes sort as the values do: a 0, the name, the rank, then start and length of each
 * axis. */
#include "format/bundle_entry.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/tensor_proto.h"
#include "format/wire_defaults.h"

/* --- writing ------------------------------------------------------------------------------------------------------ */

void est_bundle_header_put(est_wire_writer *w, const est_bundle_header *header)
{
    size_t version;

    est_wire_put_i64_nonzero(w, 1, header->n_shards);
    est_wire_put_i64_nonzero(w, 2, header->endianness);
    version = est_wire_begin(w, 3);
    est_wire_put_i64_nonzero(w, 1, header->producer);
    est_wire_put_i64_nonzero(w, 2, header->min_consumer);
    est_wire_end(w, version);
}

static void put_slice(est_wire_writer *w, uint32_t number, const est_bundle_slice *slice)
{
    size_t mark = est_wire_begin(w, number);

    for (int i = 0; i < slice->rank; i++) {
        size_t extent = est_wire_begin(w, 1);

        if (slice->length[i] >= 0) {
            est_wire_put_i64_nonzero(w, 1, slice->start[i]);
            est_wire_put_i64(w, 2, slice->length[i]); /* a oneof member: written even when 0 */
        }
        est_wire_end(w, extent);
    }
    est_wire_end(w, mark);
}

void est_bundle_entry_put(est_wire_writer *w, const est_bundle_entry *entry)
{
    size_t shape;

    est_wire_put_i64_nonzero(w, 1, entry->dtype);
    shape = est_wire_begin(w, 2);
    est_shape_proto_put(w, &entry->shape);
    est_wire_end(w, shape);
    if (entry->n_slices == 0) {
        est_wire_put_i64_nonzero(w, 3, entry->shard);
        est_wire_put_i64_nonzero(w, 4, entry->offset);
        est_wire_put_i64_nonzero(w, 5, entry->size);
        est_wire_put_fixed32(w, 6, entry->crc);
    }
    for (int i = 0; i < entry->n_slices; i++) put_slice(w, 7, &entry->slices[i]);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static est_status parse_version(est_wire_reader *r, est_bundle_header *out)
{
    est_wire_field field;

    while (est_wire_next(r, &field)) {
        switch (field.number) {
        case 1: out->producer = est_wire_i32(r, &field); break;
        case 2: out->min_consumer = est_wire_i32(r, &field); break;
        default: break;
        }
    }
    return est_wire_finish(r);
}

est_status est_bundle_header_parse(est_str bytes, est_bundle_header *out)
{
    est_wire_reader   r, version;
    est_wire_field    field;
    est_bundle_header header = { 0 };

    est_wire_reader_init(&r, "BundleHeaderProto", bytes.data, bytes.size);
    while (est_wire_next(&r, &field)) {
        switch (field.number) {
        case 1: header.n_shards = est_wire_i32(&r, &field); break;
        case 2: header.endianness = est_wire_i32(&r, &field); break;
        case 3:
            est_wire_message(&r, &field, "VersionDef", &version);
            EST_TRY(parse_version(&version, &header));
            break;
        default: break;
        }
    }
    EST_TRY(est_wire_finish(&r));
    *out = header;
    return EST_OK;
}

/* Too many axes leave rank -1: the other tensors of the file can still be read. A stored tensor has no axis or rank
 * that is not known. */
static est_status parse_shape(est_wire_reader *r, est_shape *out)
{
    const uint8_t *start  = r->at;
    est_status     status = est_shape_proto_parse(r, out);

    if (status == EST_UNIMPLEMENTED) {
        *out = EST_SHAPE_UNKNOWN;
        return EST_OK;
    }
    EST_TRY(status);
    if (out->rank < 0) return est_wire_fail(r, start, "a shape of unknown rank");
    for (int i = 0; i < out->rank; i++) {
        if (out->dim[i] < 0) return est_wire_fail(r, start, "a dimension of %" PRId64, out->dim[i]);
    }
    return EST_OK;
}

static est_status parse_extent(est_wire_reader *r, int64_t *start, int64_t *length)
{
    est_wire_field field;

    *start  = 0;
    *length = -1;
    while (est_wire_next(r, &field)) {
        switch (field.number) {
        case 1: *start = est_wire_i64(r, &field); break;
        case 2: *length = est_wire_i64(r, &field); break;
        default: break;
        }
        if (*start < 0 || *length < -1) est_wire_fail(r, field.start, "an extent below zero");
    }
    return est_wire_finish(r);
}

static est_status parse_slice(est_wire_reader *r, est_bundle_slice *out)
{
    est_wire_reader extent;
    est_wire_field  field;

    memset(out, 0, sizeof *out);
    while (est_wire_next(r, &field)) {
        if (field.number != 1) continue;
        if (out->rank == EST_RANK_MAX) {
            est_wire_fail(r, field.start, "a slice of more than %d axes", EST_RANK_MAX);
            break;
        }
        est_wire_message(r, &field, "Extent", &extent);
        EST_TRY(parse_extent(&extent, &out->start[out->rank], &out->length[out->rank]));
        out->rank++;
    }
    return est_wire_finish(r);
}

static int count_fields(est_str bytes, uint32_t number)
{
    est_wire_reader r;
    est_wire_field  field;
    int             n = 0;

    est_wire_reader_init(&r, "BundleEntryProto", bytes.data, bytes.size);
    while (est_wire_next(&r, &field)) n += field.number == number;
    return n;
}

/* One field of an entry. `slices` has room for all of them. */
static est_status parse_entry_field(est_wire_reader *r, const est_wire_field *field, est_bundle_slice *slices,
                                    est_bundle_entry *out)
{
    est_wire_reader inner;

    switch (field->number) {
    case 1: out->dtype = (est_dtype)est_wire_i32(r, field); break;
    case 2: est_wire_message(r, field, "TensorShapeProto", &inner); return parse_shape(&inner, &out->shape);
    case 3: out->shard = est_wire_i32(r, field); break;
    case 4: out->offset = est_wire_i64(r, field); break;
    case 5: out->size = est_wire_i64(r, field); break;
    case 6: out->crc = est_wire_fixed32(r, field); break;
    case 7:
        est_wire_message(r, field, "TensorSliceProto", &inner);
        return parse_slice(&inner, &slices[out->n_slices++]);
    default: break;
    }
    return EST_OK;
}

est_status est_bundle_entry_parse(est_str bytes, est_arena *arena, est_bundle_entry *out)
{
    est_bundle_entry  entry    = { 0 };
    int               n_slices = count_fields(bytes, 7);
    est_bundle_slice *slices   = NULL;
    est_wire_reader   r;
    est_wire_field    field;

    if (n_slices > 0) {
        slices = est_arena_alloc(arena, (size_t)n_slices * sizeof *slices);
        if (slices == NULL) return est_no_memory();
    }
    est_wire_reader_init(&r, "BundleEntryProto", bytes.data, bytes.size);
    while (est_wire_next(&r, &field)) EST_TRY(parse_entry_field(&r, &field, slices, &entry));
    EST_TRY(est_wire_finish(&r));
    entry.slices = slices;
    *out         = entry;
    return EST_OK;
}

/* --- keys of slices ----------------------------------------------------------------------------------------------- */

/* A count of bytes, then the number in that many, highest first. */
static void put_number(est_strbuf *out, uint64_t v)
{
    uint8_t bytes[9];
    int     n = 0;

    while (n < 8 && v >> 8 * n != 0) n++;
    bytes[0] = (uint8_t)n;
    for (int i = 0; i < n; i++) bytes[1 + i] = (uint8_t)(v >> 8 * (n - 1 - i));
    est_strbuf_append_bytes(out, bytes, (size_t)n + 1);
}

/* Bytes with 00 and ff made pairs, so that the end 00 01 sorts below any continuation. */
static void put_name(est_strbuf *out, const char *name)
{
    for (const char *p = name; *p != '\0'; p++) {
        est_strbuf_append_bytes(out, p, 1);
        if ((uint8_t)*p == 0xff) est_strbuf_append_bytes(out, "\0", 1);
    }
    est_strbuf_append_bytes(out, "\0\1", 2);
}

/* Two's complement, highest byte first, in as few bytes as leave room for a header: as many leading ones as there are
 * bytes, the first of them turning the sign bit over. */
static void put_signed(est_strbuf *out, int64_t v)
{
    static const uint8_t header[11][2] = { { 0, 0 },    { 0x80, 0 },    { 0xc0, 0 },   { 0xe0, 0 },
                                           { 0xf0, 0 }, { 0xf8, 0 },    { 0xfc, 0 },   { 0xfe, 0 },
                                           { 0xff, 0 }, { 0xff, 0x80 }, { 0xff, 0xc0 } };
    uint64_t             magnitude     = v < 0 ? ~(uint64_t)v : (uint64_t)v;
    int                  bits          = magnitude == 0 ? 0 : 64 - __builtin_clzll(magnitude);
    int                  n             = bits / 7 + 1;
    uint8_t              bytes[10];

    for (int i = 0; i < n; i++) {
        int shift = 8 * (n - 1 - i);

        bytes[i] = shift < 64 ? (uint8_t)((uint64_t)v >> shift) : v < 0 ? 0xff : 0;
    }
    bytes[0] ^= header[n][0];
    if (n > 1) bytes[1] ^= header[n][1];
    est_strbuf_append_bytes(out, bytes, (size_t)n);
}

void est_bundle_slice_key(est_strbuf *out, const char *name, const est_bundle_slice *slice)
{
    put_number(out, 0);
    put_name(out, name);
    put_number(out, (uint64_t)slice->rank);
    for (int i = 0; i < slice->rank; i++) {
        put_signed(out, slice->length[i] < 0 ? 0 : slice->start[i]);
        put_signed(out, slice->length[i]);
    }
}

/* --- geometry of slices ------------------------------------------------------------------------------------------- */

est_status est_bundle_slice_resolve(const est_bundle_slice *slice, const est_shape *full, est_bundle_slice *out)
{
    char             slice_text[EST_BUNDLE_SLICE_TEXT_MAX], shape_text[EST_SHAPE_TEXT_MAX];
    est_bundle_slice resolved = *slice;

    if (slice->rank != full->rank) goto wrong;
    for (int i = 0; i < slice->rank; i++) {
        if (slice->length[i] < 0) {
            resolved.start[i]  = 0;
            resolved.length[i] = full->dim[i];
        }
        if (resolved.start[i] < 0 || resolved.start[i] > full->dim[i] ||
            resolved.length[i] > full->dim[i] - resolved.start[i]) {
            goto wrong;
        }
    }
    *out = resolved;
    return EST_OK;

wrong:
    return est_fail(EST_INVALID_ARGUMENT, "the slice %s is not within a tensor of shape %s",
                    est_bundle_slice_text(slice, slice_text), est_shape_text(full, shape_text));
}

bool est_bundle_slice_intersect(const est_bundle_slice *a, const est_bundle_slice *b, est_bundle_slice *out)
{
    out->rank = a->rank;
    for (int i = 0; i < a->rank; i++) {
        int64_t start = a->start[i] > b->start[i] ? a->start[i] : b->start[i];
        int64_t end_a = a->start[i] + a->length[i], end_b = b->start[i] + b->length[i];
        int64_t end = end_a < end_b ? end_a : end_b;

        if (start >= end) return false;
        out->start[i]  = start;
        out->length[i] = end - start;
    }
    return true;
}

/* Where a box lies along one axis. */
typedef struct span {
    int64_t                 start, end;
    const est_bundle_slice *box;
} span;

static int by_start(const void *a, const void *b)
{
    const span *x = a, *y = b;

    return (x->start > y->start) - (x->start < y->start);
}

/* The axis along which the boxes are shortest, compared to all of them together: fewest lie side by side there. */
static int cut_axis(const est_bundle_slice *const *boxes, int n)
{
    double least = INFINITY;
    int    best  = 0;

    for (int axis = 0; axis < boxes[0]->rank; axis++) {
        double sum = 0, end = 0;

        for (int i = 0; i < n; i++) {
            sum += (double)boxes[i]->length[axis];
            end = fmax(end, (double)boxes[i]->start[axis] + (double)boxes[i]->length[axis]);
        }
        if (sum / end >= least) continue;
        least = sum / end;
        best  = axis;
    }
    return best;
}

est_status est_bundle_slices_overlap(const est_bundle_slice *const *boxes, int n, bool *out)
{
    span            *spans;
    est_bundle_slice both;
    int              axis;
    bool             found = n > 1 && boxes[0]->rank == 0;

    if (n > 1 && !found) {
        spans = est_alloc((size_t)n * sizeof *spans);
        if (spans == NULL) return est_no_memory();
        axis = cut_axis(boxes, n);
        for (int i = 0; i < n; i++) {
            spans[i] = (span){ boxes[i]->start[axis], boxes[i]->start[axis] + boxes[i]->length[axis], boxes[i] };
        }
        qsort(spans, (size_t)n, sizeof *spans, by_start);
        for (int i = 0; i < n && !found; i++) { /* only with those that begin before this one ends */
            for (int j = i + 1; j < n && spans[j].start < spans[i].end && !found; j++) {
                found = est_bundle_slice_intersect(spans[i].box, spans[j].box, &both);
            }
        }
        est_free(spans);
    }
    *out = found;
    return EST_OK;
}

est_shape est_bundle_slice_shape(const est_bundle_slice *slice)
{
    est_shape shape = { .rank = slice->rank };

    for (int i = 0; i < slice->rank; i++) shape.dim[i] = slice->length[i];
    return shape;
}

const char *est_bundle_slice_text(const est_bundle_slice *slice, char buf[EST_BUNDLE_SLICE_TEXT_MAX])
{
    size_t n = 0;

    buf[0] = '\0';
    for (int i = 0; i < slice->rank && i < EST_RANK_MAX; i++) {
        const char *between = i > 0 ? ":" : "";
        size_t      left    = EST_BUNDLE_SLICE_TEXT_MAX - n;

        if (slice->length[i] < 0) {
            n += (size_t)snprintf(buf + n, left, "%s-", between);
        } else {
            n += (size_t)snprintf(buf + n, left, "%s%" PRId64 ",%" PRId64, between, slice->start[i], slice->length[i]);
        }
    }
    return buf;
}
