/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the wire reader: walks any bytes as a message, into what may be messages within, and as packed lists of every
 * type. What is read must lie within the bytes, and what was read whole must read the same when written again. */
#include <stdlib.h>
#include <string.h>

#include "format/wire.h"

#define DEPTH_MAX 20

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) abort();
}

static void walk_list(est_wire_reader *r, const est_wire_field *field, est_wire_type type)
{
    est_wire_list list;
    uint64_t      value;
    size_t        n = 0;

    est_wire_list_init(r, field, type, &list);
    while (est_wire_list_next(&list, &value)) n++;
    require(n <= field->bytes.size + 1);
}

/* Puts the field as it was read. */
static void put_again(est_wire_writer *w, const est_wire_field *field)
{
    switch (field->type) {
    case EST_WIRE_VARINT: est_wire_put_u64(w, field->number, field->value); break;
    case EST_WIRE_FIXED64: est_wire_put_fixed64(w, field->number, field->value); break;
    case EST_WIRE_FIXED32: est_wire_put_fixed32(w, field->number, (uint32_t)field->value); break;
    case EST_WIRE_BYTES: est_wire_put_bytes(w, field->number, field->bytes.data, field->bytes.size); break;
    default: break; /* groups are only skipped */
    }
}

static void walk(const uint8_t *data, size_t size, int depth, est_wire_writer *copy)
{
    est_wire_reader r, lists;
    est_wire_field  field;

    est_wire_reader_init(&r, "Any", data, size);
    while (est_wire_next(&r, &field)) {
        if (copy != NULL) put_again(copy, &field);
        if (field.type != EST_WIRE_BYTES && field.type != EST_WIRE_GROUP) continue;
        require(field.bytes.size <= size);
        if (depth < DEPTH_MAX) walk((const uint8_t *)field.bytes.data, field.bytes.size, depth + 1, NULL);
        lists = r; /* a failure of a list is not one of the walk */
        walk_list(&lists, &field, EST_WIRE_VARINT);
        lists = r;
        walk_list(&lists, &field, EST_WIRE_FIXED32);
        lists = r;
        walk_list(&lists, &field, EST_WIRE_FIXED64);
    }
}

/* The two messages have the same fields, but for groups. */
static void compare(const uint8_t *data, size_t size, const est_wire_writer *copy)
{
    est_wire_reader a, b;
    est_wire_field  x, y;

    est_wire_reader_init(&a, "Any", data, size);
    est_wire_reader_init(&b, "Copy", copy->data, copy->size);
    while (est_wire_next(&a, &x)) {
        if (x.type == EST_WIRE_GROUP) continue;
        require(est_wire_next(&b, &y));
        require(x.number == y.number && x.type == y.type && x.value == y.value && x.bytes.size == y.bytes.size);
        require(memcmp(x.bytes.data, y.bytes.data, x.bytes.size) == 0);
    }
    require(!est_wire_next(&b, &y) && est_wire_finish(&b) == EST_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_wire_writer copy = { 0 };

    walk(data, size, 0, &copy);
    compare(data, size, &copy);
    est_wire_writer_clear(&copy);
    return 0;
}
