/* SPDX-License-Identifier: Apache-2.0
 *
 * The protobuf wire format: a reader that walks the fields of a message and a writer that appends them.
 *
 * The reader borrows the bytes of the message and copies nothing. It is a loop over fields; a failure ends the loop and
 * is kept, so that one check after it is enough:
 *
 *     est_wire_reader_init(&r, "NodeDef", bytes, size);
 *     while (est_wire_next(&r, &field)) {
 *         switch (field.number) {
 *         case 1: name = est_wire_bytes(&r, &field); break;
 *         case 5: est_wire_message(&r, &field, "AttrValue", &attr); ... break;
 *         }                            (fields nobody asks for are skipped, groups too)
 *     }
 *     EST_TRY(est_wire_finish(&r));
 *
 * Errors are EST_DATA_LOSS and say the message, the byte counted from the start of the outermost one, and what is
 * wrong.
 *
 * The writer writes what it is told in the order it is told, zeros and empty values included: leaving out a scalar that
 * has its default is the caller's `if`, because a oneof member must be written even then. Appending never fails
 * visibly: the first failure is kept and est_wire_writer_status reports it.
 *
 * Threading: one thread at a time. */
#ifndef EST_FORMAT_WIRE_H
#define EST_FORMAT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "estoc/status.h"
#include "estoc/tensor.h" /* est_str */

#define EST_WIRE_MESSAGE_MAX ((size_t)INT32_MAX) /* what other readers of protobuf accept */
#define EST_WIRE_DEPTH_MAX   64                  /* of groups within groups */
#define EST_WIRE_VARINT_MAX  10                  /* bytes */

typedef enum est_wire_type {
    EST_WIRE_VARINT    = 0,
    EST_WIRE_FIXED64   = 1,
    EST_WIRE_BYTES     = 2, /* bytes, string, message, packed numbers */
    EST_WIRE_GROUP     = 3, /* obsolete, skipped */
    EST_WIRE_END_GROUP = 4,
    EST_WIRE_FIXED32   = 5
} est_wire_type;

/* --- reading ------------------------------------------------------------------------------------------------------ */

typedef struct est_wire_reader {
    const uint8_t *at;
    const uint8_t *end;
    const uint8_t *outermost; /* first byte of the outermost message: errors count from it */
    const char    *message;   /* its type's name, for errors; borrowed */
    est_status     status;    /* of the walk so far */
} est_wire_reader;

typedef struct est_wire_field {
    uint32_t       number;
    est_wire_type  type;
    uint64_t       value; /* of a varint or a fixed one, its bits */
    est_str        bytes; /* of EST_WIRE_BYTES and the inside of EST_WIRE_GROUP; borrowed from the message */
    const uint8_t *start; /* its tag, for errors */
} est_wire_field;

/* `bytes` is borrowed while the reader and what it handed out are in use. */
void est_wire_reader_init(est_wire_reader *r, const char *message, const void *bytes, size_t size);

/* The next field; false at the end and after a failure. */
bool est_wire_next(est_wire_reader *r, est_wire_field *field);

/* What became of the walk: EST_OK when the message was read to its end or left early without a failure. */
EST_MUST_CHECK est_status est_wire_finish(const est_wire_reader *r);

/* Ends the walk with an error at `at`, a byte of the message. Returns EST_DATA_LOSS. */
est_status est_wire_fail(est_wire_reader *r, const uint8_t *at, const char *fmt, ...) EST_PRINTF(3, 4);

/* The value of a field. One with the wrong wire type ends the walk with an error and reads as 0 or nothing. */
int64_t  est_wire_i64(est_wire_reader *r, const est_wire_field *field);
uint64_t est_wire_u64(est_wire_reader *r, const est_wire_field *field);
int32_t  est_wire_i32(est_wire_reader *r, const est_wire_field *field); /* also enums */
bool     est_wire_bool(est_wire_reader *r, const est_wire_field *field);
float    est_wire_f32(est_wire_reader *r, const est_wire_field *field);
double   est_wire_f64(est_wire_reader *r, const est_wire_field *field);
uint32_t est_wire_fixed32(est_wire_reader *r, const est_wire_field *field);
uint64_t est_wire_fixed64(est_wire_reader *r, const est_wire_field *field);
est_str  est_wire_bytes(est_wire_reader *r, const est_wire_field *field);

/* A reader of the message inside a field (an empty one when the field is of another type). Its failures are its own:
 * the caller passes est_wire_finish of it up. */
void est_wire_message(est_wire_reader *r, const est_wire_field *field, const char *message, est_wire_reader *inner);

/* The values of one occurrence of a repeated number, packed or not; `type` is that of one value. */
typedef struct est_wire_list {
    est_wire_reader *reader;
    const uint8_t   *at;
    const uint8_t   *end;
    est_wire_type    type;
    uint64_t         single; /* the value of an unpacked one */
    bool             has_single;
} est_wire_list;

void est_wire_list_init(est_wire_reader *r, const est_wire_field *field, est_wire_type type, est_wire_list *list);
bool est_wire_list_next(est_wire_list *list, uint64_t *value); /* its bits; false at the end and after a failure */

static inline float est_wire_bits_f32(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float    value;

    memcpy(&value, &low, sizeof value);
    return value;
}

static inline double est_wire_bits_f64(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Numbers in files are little-endian. */
static inline uint32_t est_wire_load32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t est_wire_load64(const uint8_t *p)
{
    return est_wire_load32(p) | (uint64_t)est_wire_load32(p + 4) << 32;
}

static inline void est_wire_store32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> 8 * i);
}

static inline void est_wire_store64(uint8_t *p, uint64_t value)
{
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(value >> 8 * i);
}

/* Decodes a varint at *at; false when it runs past `end` or has more than 64 bits. Moves *at only when true. The base
 * of the reader, and of faster ones for a single message type. */
bool est_wire_varint_long(const uint8_t **at, const uint8_t *end, uint64_t *value);

static inline bool est_wire_varint(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    if (*at < end && **at < 0x80) {
        *value = *(*at)++;
        return true;
    }
    return est_wire_varint_long(at, end, value);
}

/* Encodes a varint at p, where EST_WIRE_VARINT_MAX bytes are enough; returns its end. */
uint8_t *est_wire_store_varint(uint8_t *p, uint64_t value);

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* A zeroed struct is an empty message. */
typedef struct est_wire_writer {
    uint8_t *data;
    size_t   size;
    size_t   capacity;
    bool     failed; /* memory was out, or the message too large */
} est_wire_writer;

void est_wire_put_u64(est_wire_writer *w, uint32_t number, uint64_t value);
void est_wire_put_i64(est_wire_writer *w, uint32_t number, int64_t value); /* int32 and enums too: ten bytes if < 0 */
void est_wire_put_bool(est_wire_writer *w, uint32_t number, bool value);
void est_wire_put_f32(est_wire_writer *w, uint32_t number, float value);
void est_wire_put_f64(est_wire_writer *w, uint32_t number, double value);
void est_wire_put_fixed32(est_wire_writer *w, uint32_t number, uint32_t value);
void est_wire_put_fixed64(est_wire_writer *w, uint32_t number, uint64_t value);
void est_wire_put_bytes(est_wire_writer *w, uint32_t number, const void *bytes, size_t size);
void est_wire_put_string(est_wire_writer *w, uint32_t number, const char *text);

/* Packed lists; an empty one is written as an empty field. */
void est_wire_put_f32s(est_wire_writer *w, uint32_t number, const float *values, size_t n);
void est_wire_put_f64s(est_wire_writer *w, uint32_t number, const double *values, size_t n);
void est_wire_put_i64s(est_wire_writer *w, uint32_t number, const int64_t *values, size_t n);

/* A message inside: what is put between the two calls. begin returns what end needs. */
size_t est_wire_begin(est_wire_writer *w, uint32_t number);
void   est_wire_end(est_wire_writer *w, size_t mark);

/* Bytes that are already encoded. */
void est_wire_put_raw(est_wire_writer *w, const void *bytes, size_t size);

/* EST_RESOURCE_EXHAUSTED once a put has failed. The bytes are w->data, w->size; borrowed until the next put. */
EST_MUST_CHECK est_status est_wire_writer_status(const est_wire_writer *w);

/* Empties the message but keeps its memory, and forgets a failure. */
void est_wire_writer_reset(est_wire_writer *w);

/* Frees the memory; the struct is an empty message again. */
void est_wire_writer_clear(est_wire_writer *w);

#endif
