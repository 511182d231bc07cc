/* SPDX-License-Identifier: Apache-2.0
 *
 * The wire codec against Google's protobuf, by random messages: our walk must find the fields that protobuf finds, our
 * writer's bytes must parse to the message that was read, and what protobuf refuses we refuse.
 *
 * The messages are of one recursive type of every kind of field; wire.py has the same table. Field n is of kind n % 20:
 * 1 to 18 once, 21 to 38 repeated, 41 to 54 repeated and packed. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "format/wire.h"
#include "support/interop.h"

#define DEPTH_MAX 60 /* of messages within messages; wire.py makes no deeper ones */

enum kind {
    INT32 = 1,
    INT64,
    UINT32,
    UINT64,
    SINT32,
    SINT64,
    BOOL,
    ENUM,
    FIXED32,
    FIXED64,
    SFIXED32,
    SFIXED64,
    FLOAT,
    DOUBLE,
    STRING,
    BYTES,
    MESSAGE,
    GROUP,
    UNKNOWN
};

static enum kind kind_of(uint32_t number)
{
    bool known = (number >= 1 && number <= 18) || (number >= 21 && number <= 38) || (number >= 41 && number <= 54);

    return known ? (enum kind)(number % 20) : UNKNOWN;
}

static est_wire_type type_of(enum kind kind)
{
    switch (kind) {
    case FIXED32:
    case SFIXED32:
    case FLOAT: return EST_WIRE_FIXED32;
    case FIXED64:
    case SFIXED64:
    case DOUBLE: return EST_WIRE_FIXED64;
    case STRING:
    case BYTES:
    case MESSAGE: return EST_WIRE_BYTES;
    case GROUP: return EST_WIRE_GROUP;
    default: return EST_WIRE_VARINT;
    }
}

static bool is_list(uint32_t number)
{
    return number > 20 && kind_of(number) <= DOUBLE;
}

/* Whether protobuf takes the field for what the table says; one of another wire type is unknown to it. */
static bool is_known(const est_wire_field *field)
{
    enum kind kind = kind_of(field->number);

    return kind != UNKNOWN &&
           (field->type == type_of(kind) || (field->type == EST_WIRE_BYTES && is_list(field->number)));
}

static int64_t unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1 ^ -(value & 1));
}

/* --- the plain walk ----------------------------------------------------------------------------------------------- */

/* Number, type and value of every field, looking into groups only. */
static bool say_walk(est_strbuf *out, est_str message, int depth)
{
    est_wire_reader r;
    est_wire_field  field;

    est_wire_reader_init(&r, "Random", message.data, message.size);
    while (est_wire_next(&r, &field)) {
        est_strbuf_printf(out, "%u/%d", field.number, (int)field.type);
        if (field.type == EST_WIRE_GROUP) {
            est_strbuf_append(out, "{");
            if (depth == DEPTH_MAX || !say_walk(out, field.bytes, depth + 1)) return false;
            est_strbuf_append(out, "}");
        } else if (field.type == EST_WIRE_BYTES) {
            est_strbuf_append(out, "=");
            for (size_t i = 0; i < field.bytes.size; i++)
                est_strbuf_printf(out, "%02x", (unsigned char)field.bytes.data[i]);
        } else {
            est_strbuf_printf(out, "=%" PRIu64, field.value);
        }
        est_strbuf_append(out, " ");
    }
    return est_wire_finish(&r) == EST_OK;
}

/* --- reading by the table, and writing again ---------------------------------------------------------------------- */

/* The bits of one value of a list as the number they stand for, as protobuf would store it. */
static void say_number(est_strbuf *out, enum kind kind, uint64_t bits)
{
    switch (kind) {
    case INT32:
    case ENUM:
    case SFIXED32: est_strbuf_printf(out, " %" PRId32, (int32_t)(uint32_t)bits); break;
    case INT64:
    case SFIXED64: est_strbuf_printf(out, " %" PRId64, (int64_t)bits); break;
    case SINT32: est_strbuf_printf(out, " %" PRId32, (int32_t)unzigzag((uint32_t)bits)); break;
    case SINT64: est_strbuf_printf(out, " %" PRId64, unzigzag(bits)); break;
    case BOOL: est_strbuf_printf(out, " %d", bits != 0); break;
    case UINT32:
    case FIXED32:
    case FLOAT: est_strbuf_printf(out, " %" PRIu32, (uint32_t)bits); break;
    default: est_strbuf_printf(out, " %" PRIu64, bits); break;
    }
}

/* The bits of a single value, by the accessor of its kind. */
static uint64_t value_bits(est_wire_reader *r, const est_wire_field *field, enum kind kind)
{
    float    f;
    double   d;
    uint32_t bits32;
    uint64_t bits64;

    switch (kind) {
    case INT32:
    case ENUM: return (uint64_t)(int64_t)est_wire_i32(r, field);
    case INT64: return (uint64_t)est_wire_i64(r, field);
    case BOOL: return est_wire_bool(r, field);
    case FIXED32:
    case SFIXED32: return est_wire_fixed32(r, field);
    case FIXED64:
    case SFIXED64: return est_wire_fixed64(r, field);
    case FLOAT:
        f = est_wire_f32(r, field);
        memcpy(&bits32, &f, 4);
        return bits32;
    case DOUBLE:
        d = est_wire_f64(r, field);
        memcpy(&bits64, &d, 8);
        return bits64;
    default: return est_wire_u64(r, field);
    }
}

static void put_number(est_wire_writer *w, uint32_t number, enum kind kind, uint64_t bits)
{
    switch (kind) {
    case INT32:
    case ENUM: est_wire_put_i64(w, number, (int32_t)(uint32_t)bits); break;
    case INT64: est_wire_put_i64(w, number, (int64_t)bits); break;
    case BOOL: est_wire_put_bool(w, number, bits != 0); break;
    case FIXED32:
    case SFIXED32: est_wire_put_fixed32(w, number, (uint32_t)bits); break;
    case FIXED64:
    case SFIXED64: est_wire_put_fixed64(w, number, bits); break;
    case FLOAT: est_wire_put_f32(w, number, est_wire_bits_f32(bits)); break;
    case DOUBLE: est_wire_put_f64(w, number, est_wire_bits_f64(bits)); break;
    default: est_wire_put_u64(w, number, bits); break;
    }
}

/* A packed list of the kinds that we write packed; others one value a field, which readers take just as well. */
static void put_list(est_wire_writer *w, uint32_t number, enum kind kind, const uint64_t *bits, size_t n)
{
    float  floats[64];
    double doubles[64];

    if (kind == INT64) {
        est_wire_put_i64s(w, number, (const int64_t *)bits, n);
    } else if (kind == FLOAT) {
        for (size_t i = 0; i < n; i++) floats[i] = est_wire_bits_f32(bits[i]);
        est_wire_put_f32s(w, number, floats, n);
    } else if (kind == DOUBLE) {
        for (size_t i = 0; i < n; i++) doubles[i] = est_wire_bits_f64(bits[i]);
        est_wire_put_f64s(w, number, doubles, n);
    } else {
        for (size_t i = 0; i < n; i++) put_number(w, number, kind, bits[i]);
    }
}

static void copy_list(est_wire_reader *r, const est_wire_field *field, est_strbuf *said, est_wire_writer *w)
{
    enum kind     kind = kind_of(field->number);
    est_wire_list list;
    uint64_t      bits[64];
    size_t        n = 0;

    est_wire_list_init(r, field, type_of(kind), &list);
    while (est_wire_list_next(&list, &bits[n])) {
        say_number(said, kind, bits[n]);
        if (++n < 64) continue;
        put_list(w, field->number, kind, bits, n);
        n = 0;
    }
    put_list(w, field->number, kind, bits, n);
}

static void put_tag(est_wire_writer *w, uint32_t number, est_wire_type type)
{
    uint64_t tag = (uint64_t)number << 3 | type;
    uint8_t  bytes[EST_WIRE_VARINT_MAX];
    size_t   n = 0;

    for (; tag >= 0x80; tag >>= 7) bytes[n++] = (uint8_t)(tag | 0x80);
    bytes[n++] = (uint8_t)tag;
    est_wire_put_raw(w, bytes, n);
}

static bool copy_message(est_wire_reader *r, int depth, est_strbuf *said, est_wire_writer *w);

/* A known field: its values said, and written again by the functions of its kind. */
static bool copy_known(est_wire_reader *r, const est_wire_field *field, int depth, est_strbuf *said, est_wire_writer *w)
{
    enum kind       kind = kind_of(field->number);
    est_wire_reader inner;
    size_t          mark;
    uint64_t        bits;
    bool            good = true;

    est_strbuf_printf(said, "%u:", field->number);
    if (kind == MESSAGE || kind == GROUP) {
        if (depth == DEPTH_MAX) return false;
        if (kind == MESSAGE)
            est_wire_message(r, field, "Random", &inner);
        else
            est_wire_reader_init(&inner, "Random", field->bytes.data, field->bytes.size);
        mark = kind == MESSAGE ? est_wire_begin(w, field->number) : 0;
        if (kind == GROUP) put_tag(w, field->number, EST_WIRE_GROUP);
        est_strbuf_append(said, "{");
        good = copy_message(&inner, depth + 1, said, w);
        est_strbuf_append(said, "}");
        if (kind == GROUP) put_tag(w, field->number, EST_WIRE_END_GROUP);
        if (kind == MESSAGE) est_wire_end(w, mark);
    } else if (kind == STRING || kind == BYTES) {
        est_str bytes = est_wire_bytes(r, field);

        for (size_t i = 0; i < bytes.size; i++) est_strbuf_printf(said, "%02x", (unsigned char)bytes.data[i]);
        est_wire_put_bytes(w, field->number, bytes.data, bytes.size);
    } else if (is_list(field->number)) {
        copy_list(r, field, said, w);
    } else {
        bits = value_bits(r, field, kind);
        say_number(said, kind, bits);
        put_number(w, field->number, kind, bits);
    }
    est_strbuf_append(said, ";");
    return good;
}

static bool copy_message(est_wire_reader *r, int depth, est_strbuf *said, est_wire_writer *w)
{
    est_wire_field field;

    while (est_wire_next(r, &field)) {
        if (is_known(&field)) {
            if (!copy_known(r, &field, depth, said, w)) return false;
        } else {
            est_wire_put_raw(w, field.start, (size_t)(r->at - field.start));
        }
    }
    return est_wire_finish(r) == EST_OK;
}

/* For each message three blobs: the plain walk, what was read by the table, and what was written again; "refused" in
 * place of a walk or a reading that failed. */
static void say_all(const char *from, const char *to)
{
    interop_blobs messages;
    est_strbuf    answer = { 0 };

    interop_blobs_read(from, &messages);
    for (size_t i = 0; i < messages.n; i++) {
        est_strbuf      walk = { 0 }, said = { 0 };
        est_wire_writer w = { 0 };
        est_wire_reader r;

        if (say_walk(&walk, messages.at[i], 0))
            interop_blob(&answer, est_strbuf_text(&walk), walk.size);
        else
            interop_blob(&answer, "refused", 7);
        est_wire_reader_init(&r, "Random", messages.at[i].data, messages.at[i].size);
        if (copy_message(&r, 0, &said, &w))
            interop_blob(&answer, est_strbuf_text(&said), said.size);
        else
            interop_blob(&answer, "refused", 7);
        interop_check(est_wire_writer_status(&w));
        interop_blob(&answer, w.data, w.size);
        est_wire_writer_clear(&w);
        est_strbuf_clear(&walk);
        est_strbuf_clear(&said);
    }
    interop_blobs_clear(&messages);
    interop_save(to, &answer);
}

TEST(serialized)
{
    interop_ask("write_serialized");
    say_all("serialized", "serialized.said");
    interop_ask("check_serialized");
}

TEST(wild)
{
    interop_ask("write_wild");
    say_all("wild", "wild.said");
    interop_ask("check_wild");
}

TEST(broken)
{
    interop_ask("write_broken");
    say_all("broken", "broken.said");
    interop_ask("check_broken");
}

int main(void)
{
    return INTEROP_MAIN("wire");
}
