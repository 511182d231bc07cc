/* SPDX-License-Identifier: Apache-2.0
 *
 * The wire format against bytes that Google's protobuf wrote, against itself, and against every kind of damage. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "format/wire.h"
#include "support/fault_loop.h"
#include "support/test.h"

static const int64_t packed_ints[]    = { 0, 1, -1, 127, 128, 16383, 16384, INT64_MAX, INT64_MIN };
static const double  packed_doubles[] = { 0.1, 1e300 };
static const float   packed_floats[]  = { 0.5f, -0.0f };

/* The message that scripts/make-golden-format makes, field by field. */
static void write_all(est_wire_writer *w)
{
    char   xs[200];
    size_t outer, inner, innermost;

    memset(xs, 'x', sizeof xs);
    est_wire_put_i64(w, 1, -1);
    est_wire_put_u64(w, 2, UINT64_MAX);
    est_wire_put_i64(w, 3, INT32_MIN);
    est_wire_put_bool(w, 4, true);
    est_wire_put_f32(w, 5, 1.5f);
    est_wire_put_f64(w, 6, -2.25);
    est_wire_put_fixed32(w, 7, 0xdeadbeef);
    est_wire_put_fixed64(w, 8, 1);
    est_wire_put_bytes(w, 9, "\x00\xff", 2);
    est_wire_put_string(w, 10, "gr\xc3\xbc\xc3\x9f");
    outer = est_wire_begin(w, 11);
    est_wire_put_bytes(w, 9, xs, sizeof xs);
    inner     = est_wire_begin(w, 11);
    innermost = est_wire_begin(w, 11);
    est_wire_end(w, innermost);
    est_wire_end(w, inner);
    est_wire_end(w, outer);
    est_wire_put_f64s(w, 12, packed_doubles, 2);
    est_wire_put_i64s(w, 13, packed_ints, 9);
    est_wire_put_f32s(w, 14, packed_floats, 2);
    est_wire_put_bool(w, 2047, false);
    est_wire_put_bytes(w, 2048, NULL, 0);
    est_wire_put_i64(w, 536870911, 300);
}

static void read_golden(char **bytes, size_t *size)
{
    assert_int_equal(est_file_read(EST_SOURCE_DIR "/tests/golden/format/wire.bin", bytes, size), EST_OK);
}

TEST(writes_what_protobuf_writes)
{
    est_wire_writer w = { 0 };
    char           *golden;
    size_t          size;

    read_golden(&golden, &size);
    write_all(&w);
    assert_int_equal(est_wire_writer_status(&w), EST_OK);
    assert_int_equal(w.size, size);
    assert_memory_equal(w.data, golden, size);
    est_wire_writer_clear(&w);
    est_free(golden);
}

static void check_lists(est_wire_reader *r, const est_wire_field *field)
{
    est_wire_list list;
    uint64_t      bits;
    int           n = 0;

    est_wire_list_init(r, field,
                       field->number == 12   ? EST_WIRE_FIXED64
                       : field->number == 14 ? EST_WIRE_FIXED32
                                             : EST_WIRE_VARINT,
                       &list);
    for (; est_wire_list_next(&list, &bits); n++) {
        if (field->number == 12) assert_true(est_wire_bits_f64(bits) == packed_doubles[n]);
        if (field->number == 13) assert_true((int64_t)bits == packed_ints[n]);
        if (field->number == 14) assert_true(est_wire_bits_f32(bits) == packed_floats[n]);
    }
    assert_int_equal(n, field->number == 13 ? 9 : 2);
}

TEST(reads_what_protobuf_writes)
{
    est_wire_reader r, inner;
    est_wire_field  f;
    char           *golden;
    size_t          size;
    int             n = 0;

    read_golden(&golden, &size);
    est_wire_reader_init(&r, "All", golden, size);
    for (; est_wire_next(&r, &f); n++) {
        switch (f.number) {
        case 1: assert_true(est_wire_i64(&r, &f) == -1); break;
        case 2: assert_true(est_wire_u64(&r, &f) == UINT64_MAX); break;
        case 3: assert_true(est_wire_i32(&r, &f) == INT32_MIN); break;
        case 4: assert_true(est_wire_bool(&r, &f)); break;
        case 5: assert_true(est_wire_f32(&r, &f) == 1.5f); break;
        case 6: assert_true(est_wire_f64(&r, &f) == -2.25); break;
        case 7: assert_true(est_wire_fixed32(&r, &f) == 0xdeadbeef); break;
        case 8: assert_true(est_wire_fixed64(&r, &f) == 1); break;
        case 9: assert_int_equal(est_wire_bytes(&r, &f).size, 2); break;
        case 10: assert_memory_equal(est_wire_bytes(&r, &f).data, "gr\xc3\xbc\xc3\x9f", 6); break;
        case 11:
            est_wire_message(&r, &f, "All", &inner);
            assert_true(est_wire_next(&inner, &f));
            assert_int_equal(f.bytes.size, 200);
            assert_true(est_wire_next(&inner, &f));
            assert_int_equal(f.bytes.size, 2);
            assert_false(est_wire_next(&inner, &f));
            assert_int_equal(est_wire_finish(&inner), EST_OK);
            break;
        case 12:
        case 13:
        case 14: check_lists(&r, &f); break;
        case 2047: assert_false(est_wire_bool(&r, &f)); break;
        case 2048: assert_int_equal(est_wire_bytes(&r, &f).size, 0); break;
        case 536870911: assert_true(est_wire_i64(&r, &f) == 300); break;
        default: fail_msg("field %u", f.number);
        }
    }
    assert_int_equal(est_wire_finish(&r), EST_OK);
    assert_int_equal(n, 17);
    est_free(golden);
}

/* Walks all of a message; what becomes of it. */
static est_status walk(const void *bytes, size_t size)
{
    est_wire_reader r;
    est_wire_field  field;

    est_wire_reader_init(&r, "All", bytes, size);
    while (est_wire_next(&r, &field)) {}
    return est_wire_finish(&r);
}

/* Copied to the exact size, so that a sanitizer sees a byte read too many. */
static est_status walk_copy(const void *bytes, size_t size)
{
    char      *copy = malloc(size + (size == 0));
    est_status status;

    memcpy(copy, bytes, size);
    status = walk(copy, size);
    free(copy);
    return status;
}

TEST(every_cut_and_flip)
{
    char  *golden;
    size_t size;

    read_golden(&golden, &size);
    for (size_t cut = 0; cut <= size; cut++) (void)!walk_copy(golden, cut);
    for (size_t at = 0; at < size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            golden[at] ^= (char)(1 << bit);
            (void)!walk_copy(golden, size);
            golden[at] ^= (char)(1 << bit);
        }
    }
    assert_int_equal(walk_copy(golden, size), EST_OK);
    est_free(golden);
}

#define WALK(...) walk_copy((const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

TEST(malformed)
{
    static const struct {
        const char *what;
        size_t      size;
        uint8_t     bytes[16];
    } cases[] = {
        { "byte 0: the message ends within a tag", 1, { 0x80 } },
        { "byte 0: there is no field number 0", 2, { 0x00, 0x01 } },
        { "byte 0: there is no field number 536870912", 6, { 0x80, 0x80, 0x80, 0x80, 0x10, 0x00 } },
        { "byte 2: the message ends within a tag", 3, { 0x08, 0x01, 0xff } },
        { "byte 1: the message ends within a number", 3, { 0x08, 0x80, 0x80 } },
        { "byte 1: a number has more than 64 bits", 11, { 0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2 } },
        { "byte 0: a field needs 5 bytes, the message has 1 left", 3, { 0x0a, 0x05, 'x' } },
        { "byte 0: a field needs 4 bytes, the message has 3 left", 4, { 0x0d, 0, 0, 0 } },
        { "byte 0: a field needs 8 bytes, the message has 7 left", 8, { 0x09, 0, 0, 0, 0, 0, 0, 0 } },
        { "byte 0: there is no wire type 6", 2, { 0x0e, 0 } },
        { "byte 0: group 1 ends but never began", 1, { 0x0c } },
        { "byte 0: the message ends within group 1", 3, { 0x0b, 0x10, 0x01 } },
        { "byte 1: group 1 ends as group 2", 2, { 0x0b, 0x14 } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(walk_copy(cases[i].bytes, cases[i].size), EST_DATA_LOSS);
        if (strstr(est_error_message(), cases[i].what) == NULL) fail_msg("%s", est_error_message());
    }
    assert_int_equal(WALK(0x0b, 0x13, 0x08, 0x01, 0x14, 0x0c), EST_OK); /* groups within groups */
    assert_int_equal(walk(NULL, 0), EST_OK);
}

TEST(deep_groups_end)
{
    uint8_t bytes[2000];

    memset(bytes, 0x0b, sizeof bytes);
    assert_int_equal(walk_copy(bytes, sizeof bytes), EST_DATA_LOSS);
    assert_non_null(strstr(est_error_message(), "deeper than 64"));
}

TEST(wrong_type)
{
    static const uint8_t bytes[] = { 0x08, 0x05, 0x10, 0x05 };
    est_wire_reader      r;
    est_wire_field       field;

    est_wire_reader_init(&r, "Event", bytes, sizeof bytes);
    assert_true(est_wire_next(&r, &field));
    assert_int_equal(est_wire_bytes(&r, &field).size, 0);
    assert_false(est_wire_next(&r, &field)); /* the walk is over */
    assert_int_equal(est_wire_finish(&r), EST_DATA_LOSS);
    assert_string_equal(est_error_message(), "Event: byte 0: field 1 is of wire type varint, expected bytes");
}

/* Lengths of one, two and three bytes, around where they grow. */
TEST(lengths_of_inner_messages)
{
    static const size_t sizes[] = { 0, 1, 124, 125, 126, 127, 128, 16380, 16381, 16382, 16384, 70000 };
    est_wire_writer     w       = { 0 };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char           *bytes = calloc(1, sizes[i] + 1);
        est_wire_reader r, inner;
        est_wire_field  field;
        size_t          mark;

        est_wire_writer_reset(&w);
        mark = est_wire_begin(&w, 3);
        est_wire_put_bytes(&w, 4, bytes, sizes[i]);
        est_wire_end(&w, mark);
        assert_int_equal(est_wire_writer_status(&w), EST_OK);
        est_wire_reader_init(&r, "Outer", w.data, w.size);
        assert_true(est_wire_next(&r, &field));
        est_wire_message(&r, &field, "Inner", &inner);
        assert_false(est_wire_next(&r, &field));
        assert_true(est_wire_next(&inner, &field));
        assert_int_equal(field.number, 4);
        assert_int_equal(field.bytes.size, sizes[i]);
        assert_false(est_wire_next(&inner, &field));
        assert_int_equal(est_wire_finish(&inner), EST_OK);
        free(bytes);
    }
    est_wire_writer_clear(&w);
}

TEST(no_memory)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_wire_writer w = { 0 };
        est_status      status;

        fault_arm(&f);
        write_all(&w);
        status = est_wire_writer_status(&w);
        fault_check(&f, status);
        est_wire_writer_clear(&w);
    }
}
