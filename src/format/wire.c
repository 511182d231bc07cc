/* SPDX-License-Identifier: Apache-2.0
 *
 * The protobuf wire format. Every read is checked against the end of the message first; nothing recurses, so depth
 * costs no stack. Lengths of messages being written are not known before their end: one byte is left for the length and
 * the contents move when it takes more. */
#include "format/wire.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"

#define FIELD_NUMBER_MAX 0x1fffffffu

/* --- reading ------------------------------------------------------------------------------------------------------ */

void est_wire_reader_init(est_wire_reader *r, const char *message, const void *bytes, size_t size)
{
    static const uint8_t nothing[1];

    r->at        = size > 0 ? bytes : nothing; /* never NULL: pointers are compared and subtracted */
    r->end       = r->at + size;
    r->outermost = r->at;
    r->message   = message;
    r->status    = EST_OK;
}

est_status est_wire_finish(const est_wire_reader *r)
{
    return r->status;
}

est_status est_wire_fail(est_wire_reader *r, const uint8_t *at, const char *fmt, ...)
{
    char    text[256];
    va_list args;

    if (r->status != EST_OK) return r->status; /* the first failure is the one to tell */
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->at     = r->end;
    r->status = EST_DATA_LOSS;
    return est_fail(EST_DATA_LOSS, "%s: byte %zu: %s", r->message, (size_t)(at - r->outermost), text);
}

bool est_wire_varint_long(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    const uint8_t *p      = *at;
    uint64_t       result = 0;

    for (unsigned shift = 0; shift < 64 && p < end; shift += 7, p++) {
        if (shift == 63 && *p > 1) return false; /* a 65th bit, or an eleventh byte */
        result |= (uint64_t)(*p & 0x7f) << shift;
        if (*p < 0x80) {
            *value = result;
            *at    = p + 1;
            return true;
        }
    }
    return false;
}

static bool read_varint(est_wire_reader *r, const char *what, uint64_t *value)
{
    const uint8_t *start = r->at;

    if (est_wire_varint(&r->at, r->end, value)) return true;
    if (r->end - start < EST_WIRE_VARINT_MAX) {
        est_wire_fail(r, start, "the message ends within %s", what);
    } else {
        est_wire_fail(r, start, "%s has more than 64 bits", what);
    }
    return false;
}

static bool read_tag(est_wire_reader *r, uint32_t *number, est_wire_type *type)
{
    const uint8_t *start = r->at;
    uint64_t       tag;

    if (!read_varint(r, "a tag", &tag)) return false;
    if (tag >> 3 == 0 || tag >> 3 > FIELD_NUMBER_MAX) {
        est_wire_fail(r, start, "there is no field number %llu", (unsigned long long)(tag >> 3));
        return false;
    }
    *number = (uint32_t)(tag >> 3);
    *type   = (est_wire_type)(tag & 7);
    return true;
}

/* Moves past n bytes and returns the first; NULL when there are fewer. */
static const uint8_t *read_bytes(est_wire_reader *r, const uint8_t *start, uint64_t n)
{
    const uint8_t *bytes = r->at;

    if (n > (uint64_t)(r->end - r->at)) {
        est_wire_fail(r, start, "a field needs %llu bytes, the message has %zu left", (unsigned long long)n,
                      (size_t)(r->end - r->at));
        return NULL;
    }
    r->at += n;
    return bytes;
}

/* The value after a tag, of any type but the group ones. */
static bool read_value(est_wire_reader *r, est_wire_field *field)
{
    const uint8_t *bytes;
    uint64_t       size;

    switch (field->type) {
    case EST_WIRE_VARINT: return read_varint(r, "a number", &field->value);
    case EST_WIRE_FIXED64:
        bytes = read_bytes(r, field->start, 8);
        if (bytes != NULL) field->value = est_wire_load64(bytes);
        return bytes != NULL;
    case EST_WIRE_FIXED32:
        bytes = read_bytes(r, field->start, 4);
        if (bytes != NULL) field->value = est_wire_load32(bytes);
        return bytes != NULL;
    case EST_WIRE_BYTES:
        if (!read_varint(r, "a length", &size)) return false;
        bytes = read_bytes(r, field->start, size);
        if (bytes != NULL) field->bytes = (est_str){ (const char *)bytes, (size_t)size };
        return bytes != NULL;
    default: est_wire_fail(r, field->start, "there is no wire type %d", (int)field->type); return false;
    }
}

/* Moves past a group whose opening tag was just read. */
static bool read_group(est_wire_reader *r, est_wire_field *field)
{
    const uint8_t *inside = r->at;
    uint32_t       open[EST_WIRE_DEPTH_MAX];
    int            depth = 0;

    open[depth++] = field->number;
    while (depth > 0) {
        est_wire_field skipped = { .start = r->at };

        if (r->at == r->end) {
            est_wire_fail(r, field->start, "the message ends within group %u", open[depth - 1]);
            return false;
        }
        if (!read_tag(r, &skipped.number, &skipped.type)) return false;
        if (skipped.type == EST_WIRE_GROUP) {
            if (depth == EST_WIRE_DEPTH_MAX) {
                est_wire_fail(r, skipped.start, "groups are nested deeper than %d", EST_WIRE_DEPTH_MAX);
                return false;
            }
            open[depth++] = skipped.number;
        } else if (skipped.type == EST_WIRE_END_GROUP) {
            if (skipped.number != open[--depth]) {
                est_wire_fail(r, skipped.start, "group %u ends as group %u", open[depth], skipped.number);
                return false;
            }
            field->bytes = (est_str){ (const char *)inside, (size_t)(skipped.start - inside) };
        } else if (!read_value(r, &skipped)) {
            return false;
        }
    }
    return true;
}

bool est_wire_next(est_wire_reader *r, est_wire_field *field)
{
    if (r->at == r->end || r->status != EST_OK) return false;
    *field = (est_wire_field){ .start = r->at, .bytes = { "", 0 } };
    if (!read_tag(r, &field->number, &field->type)) return false;
    if (field->type == EST_WIRE_GROUP) return read_group(r, field);
    if (field->type == EST_WIRE_END_GROUP) {
        est_wire_fail(r, field->start, "group %u ends but never began", field->number);
        return false;
    }
    return read_value(r, field);
}

/* Whether the field has the type its reader expects. */
static bool expect(est_wire_reader *r, const est_wire_field *field, est_wire_type type)
{
    static const char *const names[] = { "varint", "fixed64", "bytes", "group", "end of group", "fixed32" };

    if (field->type == type) return true;
    est_wire_fail(r, field->start, "field %u is of wire type %s, expected %s", field->number, names[field->type],
                  names[type]);
    return false;
}

uint64_t est_wire_u64(est_wire_reader *r, const est_wire_field *field)
{
    return expect(r, field, EST_WIRE_VARINT) ? field->value : 0;
}

int64_t est_wire_i64(est_wire_reader *r, const est_wire_field *field)
{
    return (int64_t)est_wire_u64(r, field);
}

int32_t est_wire_i32(est_wire_reader *r, const est_wire_field *field)
{
    return (int32_t)(uint32_t)est_wire_u64(r, field); /* protobuf keeps the low 32 bits */
}

bool est_wire_bool(est_wire_reader *r, const est_wire_field *field)
{
    return est_wire_u64(r, field) != 0;
}

uint32_t est_wire_fixed32(est_wire_reader *r, const est_wire_field *field)
{
    return expect(r, field, EST_WIRE_FIXED32) ? (uint32_t)field->value : 0;
}

uint64_t est_wire_fixed64(est_wire_reader *r, const est_wire_field *field)
{
    return expect(r, field, EST_WIRE_FIXED64) ? field->value : 0;
}

float est_wire_f32(est_wire_reader *r, const est_wire_field *field)
{
    return est_wire_bits_f32(est_wire_fixed32(r, field));
}

double est_wire_f64(est_wire_reader *r, const est_wire_field *field)
{
    return est_wire_bits_f64(est_wire_fixed64(r, field));
}

est_str est_wire_bytes(est_wire_reader *r, const est_wire_field *field)
{
    return expect(r, field, EST_WIRE_BYTES) ? field->bytes : (est_str){ "", 0 };
}

void est_wire_message(est_wire_reader *r, const est_wire_field *field, const char *message, est_wire_reader *inner)
{
    est_str bytes = est_wire_bytes(r, field);

    est_wire_reader_init(inner, message, bytes.data, bytes.size);
    if (bytes.size > 0) inner->outermost = r->outermost;
    inner->status = r->status; /* reading a field of another type fails */
}

void est_wire_list_init(est_wire_reader *r, const est_wire_field *field, est_wire_type type, est_wire_list *list)
{
    *list = (est_wire_list){ .reader = r, .type = type };
    if (field->type == EST_WIRE_BYTES) {
        list->at  = (const uint8_t *)field->bytes.data;
        list->end = list->at + field->bytes.size;
    } else if (expect(r, field, type)) {
        list->single     = field->value;
        list->has_single = true;
    }
}

bool est_wire_list_next(est_wire_list *list, uint64_t *value)
{
    size_t size = list->type == EST_WIRE_FIXED32 ? 4 : 8;

    if (list->has_single) {
        list->has_single = false;
        *value           = list->single;
        return true;
    }
    if (list->at == list->end) return false;
    if (list->type == EST_WIRE_VARINT) {
        if (est_wire_varint(&list->at, list->end, value)) return true;
    } else if ((size_t)(list->end - list->at) >= size) {
        *value = size == 4 ? est_wire_load32(list->at) : est_wire_load64(list->at);
        list->at += size;
        return true;
    }
    est_wire_fail(list->reader, list->at, "a packed list ends within a value");
    list->at = list->end;
    return false;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Room for n more bytes at the end; NULL (and a kept failure) when there is none. Does not count them yet. */
static uint8_t *room(est_wire_writer *w, size_t n)
{
    if (w->failed) return NULL;
    if (n > w->capacity - w->size || w->data == NULL) {
        size_t   capacity = w->capacity > 0 ? w->capacity : 256;
        uint8_t *data;

        while (capacity - w->size < n && capacity <= SIZE_MAX / 2) capacity *= 2;
        data = capacity - w->size >= n ? est_realloc(w->data, capacity) : NULL;
        if (data == NULL) {
            w->failed = true;
            return NULL;
        }
        w->data     = data;
        w->capacity = capacity;
    }
    return w->data + w->size;
}

static size_t varint_size(uint64_t value)
{
    size_t n = 1;

    while (value >= 0x80) value >>= 7, n++;
    return n;
}

uint8_t *est_wire_store_varint(uint8_t *p, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) *p++ = (uint8_t)(value | 0x80);
    *p++ = (uint8_t)value;
    return p;
}

/* A tag with room for `size` bytes after it, which the caller fills and has counted already; NULL on failure. */
static uint8_t *put_tag(est_wire_writer *w, uint32_t number, est_wire_type type, size_t size)
{
    uint64_t tag = (uint64_t)number << 3 | (uint64_t)type;
    size_t   tag_size;
    uint8_t *p;

    if (size > SIZE_MAX - EST_WIRE_VARINT_MAX) w->failed = true;
    tag_size = varint_size(tag);
    p        = room(w, tag_size + size);
    if (p == NULL) return NULL;
    w->size += tag_size + size;
    return est_wire_store_varint(p, tag);
}

/* The tag and length of n bytes that the caller stores at the returned place; NULL on failure. */
static uint8_t *put_length(est_wire_writer *w, uint32_t number, size_t n)
{
    uint8_t *p;

    if (n > EST_WIRE_MESSAGE_MAX) w->failed = true;
    p = put_tag(w, number, EST_WIRE_BYTES, varint_size(n) + n);
    return p != NULL ? est_wire_store_varint(p, n) : NULL;
}

void est_wire_put_u64(est_wire_writer *w, uint32_t number, uint64_t value)
{
    uint8_t *p = put_tag(w, number, EST_WIRE_VARINT, varint_size(value));

    if (p != NULL) est_wire_store_varint(p, value);
}

void est_wire_put_i64(est_wire_writer *w, uint32_t number, int64_t value)
{
    est_wire_put_u64(w, number, (uint64_t)value);
}

void est_wire_put_bool(est_wire_writer *w, uint32_t number, bool value)
{
    est_wire_put_u64(w, number, value ? 1 : 0);
}

void est_wire_put_fixed32(est_wire_writer *w, uint32_t number, uint32_t value)
{
    uint8_t *p = put_tag(w, number, EST_WIRE_FIXED32, 4);

    if (p != NULL) est_wire_store32(p, value);
}

void est_wire_put_fixed64(est_wire_writer *w, uint32_t number, uint64_t value)
{
    uint8_t *p = put_tag(w, number, EST_WIRE_FIXED64, 8);

    if (p != NULL) est_wire_store64(p, value);
}

static uint32_t bits_of_f32(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t bits_of_f64(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void est_wire_put_f32(est_wire_writer *w, uint32_t number, float value)
{
    est_wire_put_fixed32(w, number, bits_of_f32(value));
}

void est_wire_put_f64(est_wire_writer *w, uint32_t number, double value)
{
    est_wire_put_fixed64(w, number, bits_of_f64(value));
}

void est_wire_put_bytes(est_wire_writer *w, uint32_t number, const void *bytes, size_t size)
{
    uint8_t *p = put_length(w, number, size);

    if (p != NULL && size > 0) memcpy(p, bytes, size);
}

void est_wire_put_string(est_wire_writer *w, uint32_t number, const char *text)
{
    est_wire_put_bytes(w, number, text, strlen(text));
}

void est_wire_put_f32s(est_wire_writer *w, uint32_t number, const float *values, size_t n)
{
    uint8_t *p = n <= EST_WIRE_MESSAGE_MAX / 4 ? put_length(w, number, 4 * n) : put_length(w, number, SIZE_MAX);

    for (size_t i = 0; p != NULL && i < n; i++) est_wire_store32(p + 4 * i, bits_of_f32(values[i]));
}

void est_wire_put_f64s(est_wire_writer *w, uint32_t number, const double *values, size_t n)
{
    uint8_t *p = n <= EST_WIRE_MESSAGE_MAX / 8 ? put_length(w, number, 8 * n) : put_length(w, number, SIZE_MAX);

    for (size_t i = 0; p != NULL && i < n; i++) est_wire_store64(p + 8 * i, bits_of_f64(values[i]));
}

void est_wire_put_i64s(est_wire_writer *w, uint32_t number, const int64_t *values, size_t n)
{
    size_t   size = 0;
    uint8_t *p;

    for (size_t i = 0; i < n; i++) size += varint_size((uint64_t)values[i]);
    p = put_length(w, number, size);
    for (size_t i = 0; p != NULL && i < n; i++) p = est_wire_store_varint(p, (uint64_t)values[i]);
}

void est_wire_put_raw(est_wire_writer *w, const void *bytes, size_t size)
{
    uint8_t *p = room(w, size);

    if (p == NULL || size == 0) return;
    memcpy(p, bytes, size);
    w->size += size;
}

size_t est_wire_begin(est_wire_writer *w, uint32_t number)
{
    put_tag(w, number, EST_WIRE_BYTES, 1);
    return w->size; /* the byte before it is for the length */
}

void est_wire_end(est_wire_writer *w, size_t mark)
{
    size_t size, more;

    if (w->failed) return;
    size = w->size - mark;
    more = varint_size(size) - 1;
    if (size > EST_WIRE_MESSAGE_MAX || room(w, more) == NULL) {
        w->failed = true;
        return;
    }
    if (more > 0) memmove(w->data + mark + more, w->data + mark, size);
    est_wire_store_varint(w->data + mark - 1, size);
    w->size += more;
}

est_status est_wire_writer_status(const est_wire_writer *w)
{
    if (!w->failed) return EST_OK;
    return est_no_memory();
}

void est_wire_writer_reset(est_wire_writer *w)
{
    w->size   = 0;
    w->failed = false;
}

void est_wire_writer_clear(est_wire_writer *w)
{
    est_free(w->data);
    *w = (est_wire_writer){ 0 };
}
