/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames to bytes and back. */
#include "net/frame.h"

#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"

#define MAGIC      UINT32_C(0x6e747365) /* "estn" */
#define CRC_AT     60
#define BYTES_MAX  (UINT64_C(1) << 62)
#define CODE_BYTES 4

static void put_u16(uint8_t *to, uint16_t value)
{
    for (int i = 0; i < 2; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static void put_u64(uint8_t *to, uint64_t value)
{
    for (int i = 0; i < 8; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static uint16_t get_u16(const uint8_t *from)
{
    return (uint16_t)(from[0] | from[1] << 8);
}

static uint32_t get_u32(const uint8_t *from)
{
    uint32_t value = 0;

    for (int i = 3; i >= 0; i--) value = value << 8 | from[i];
    return value;
}

static uint64_t get_u64(const uint8_t *from)
{
    return get_u32(from) | (uint64_t)get_u32(from + 4) << 32;
}

/* The bounds of the head. */
static uint64_t head_begin(const est_frame *frame)
{
    return est_frame_align(8 * (uint64_t)frame->n_parts);
}

static uint64_t head_end(const est_frame *frame)
{
    return head_begin(frame) + frame->head_size;
}

est_status est_frame_measure(const est_payload *payload, est_frame *frame)
{
    uint64_t end;

    if (payload->n_parts < 0 || payload->n_parts > EST_FRAME_PARTS_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "a message has %d parts; 0 to %d are possible", payload->n_parts,
                        EST_FRAME_PARTS_MAX);
    }
    frame->n_parts   = (uint32_t)payload->n_parts;
    frame->head_size = payload->head_size;
    end              = payload->head_size < BYTES_MAX ? head_end(frame) : BYTES_MAX;
    for (int i = 0; i < payload->n_parts && end < BYTES_MAX; i++) {
        uint64_t size = payload->parts[i].size;

        end = size < BYTES_MAX ? est_frame_align(end) + size : BYTES_MAX;
    }
    if (end >= BYTES_MAX) return est_fail(EST_INVALID_ARGUMENT, "a message is larger than 64-bit sizes can express");
    frame->body_size = end;
    return EST_OK;
}

size_t est_frame_front_bytes(const est_frame *frame)
{
    uint64_t end = head_end(frame);

    return (size_t)(EST_FRAME_BYTES + (frame->n_parts > 0 ? est_frame_align(end) : end));
}

void est_frame_write_front(const est_payload *payload, est_frame *frame, uint8_t *front)
{
    uint8_t *table      = front + EST_FRAME_BYTES;
    size_t   table_size = 8 * (size_t)frame->n_parts, begin = (size_t)head_begin(frame), end = (size_t)head_end(frame);
    size_t   all = est_frame_front_bytes(frame) - EST_FRAME_BYTES;

    for (uint32_t i = 0; i < frame->n_parts; i++) put_u64(table + 8 * i, payload->parts[i].size);
    frame->table_crc = est_crc32c(table, table_size);
    memset(table + table_size, 0, begin - table_size);
    if (frame->head_size > 0) memcpy(table + begin, payload->head, frame->head_size);
    memset(table + end, 0, all - end);
}

void est_frame_encode(const est_frame *frame, uint8_t out[EST_FRAME_BYTES])
{
    memset(out, 0, EST_FRAME_BYTES);
    put_u32(out, MAGIC);
    put_u16(out + 4, EST_FRAME_VERSION);
    put_u16(out + 6, (uint16_t)frame->kind);
    put_u64(out + 8, frame->sequence);
    put_u64(out + 16, frame->id);
    put_u64(out + 24, frame->head_size);
    put_u64(out + 32, frame->body_size);
    put_u32(out + 40, frame->n_parts);
    put_u32(out + 44, frame->table_crc);
    put_u16(out + 48, frame->method);
    put_u32(out + CRC_AT, est_crc32c(out, CRC_AT));
}

bool est_frame_may_begin(const uint8_t *bytes, size_t size)
{
    uint8_t magic[4];

    put_u32(magic, MAGIC);
    return memcmp(bytes, magic, size < sizeof magic ? size : sizeof magic) == 0;
}

est_status est_frame_decode(const uint8_t *in, size_t size, est_frame *out)
{
    uint16_t  version, kind;
    est_frame frame;

    if (!est_frame_may_begin(in, size)) {
        return est_fail(EST_DATA_LOSS,
                        "received bytes that are not a frame of estoc (does one side use tls and the other tcp?)");
    }
    if (size < EST_FRAME_BYTES) return est_fail(EST_DATA_LOSS, "a frame ends after %zu bytes of its header", size);
    version = get_u16(in + 4);
    kind    = get_u16(in + 6);
    if (version != EST_FRAME_VERSION) {
        return est_fail(EST_FAILED_PRECONDITION, "speaks version %d of the protocol, this is version %d", version,
                        EST_FRAME_VERSION);
    }
    if (get_u32(in + CRC_AT) != est_crc32c(in, CRC_AT)) {
        return est_fail(EST_DATA_LOSS, "the header of a frame was damaged on its way");
    }
    if (kind < EST_FRAME_HELLO || kind > EST_FRAME_BYE) {
        return est_fail(EST_DATA_LOSS, "a frame is of an unknown kind, %d", kind);
    }
    frame = (est_frame){ .kind      = (est_frame_kind)kind,
                         .sequence  = get_u64(in + 8),
                         .id        = get_u64(in + 16),
                         .head_size = get_u64(in + 24),
                         .body_size = get_u64(in + 32),
                         .n_parts   = get_u32(in + 40),
                         .table_crc = get_u32(in + 44),
                         .method    = get_u16(in + 48) };
    if (frame.n_parts > EST_FRAME_PARTS_MAX || frame.head_size >= BYTES_MAX || frame.body_size >= BYTES_MAX ||
        head_end(&frame) > frame.body_size || (frame.n_parts == 0 && head_end(&frame) != frame.body_size)) {
        return est_fail(EST_DATA_LOSS, "the sizes of a frame contradict each other");
    }
    *out = frame;
    return EST_OK;
}

est_status est_frame_read_table(const est_frame *frame, uint64_t *table)
{
    uint64_t end = head_end(frame);

    if (est_crc32c(table, 8 * (size_t)frame->n_parts) != frame->table_crc) {
        return est_fail(EST_DATA_LOSS, "the sizes of a frame were damaged on their way");
    }
    for (uint32_t i = 0; i < frame->n_parts; i++) {
        uint64_t size = get_u64((const uint8_t *)&table[i]), begin = est_frame_align(end);

        if (begin > frame->body_size || size > frame->body_size - begin) {
            return est_fail(EST_DATA_LOSS, "part %u of a frame reaches beyond its end", i);
        }
        table[i] = end = begin + size;
    }
    if (end != frame->body_size) return est_fail(EST_DATA_LOSS, "the parts of a frame do not fill it");
    return EST_OK;
}

/* --- heads of our own frames -------------------------------------------------------------------------------------- */

/* A name padded with zeros. */
static void put_text(uint8_t *to, const char *text, size_t max)
{
    memset(to, 0, max);
    memcpy(to, text, strnlen(text, max - 1));
}

static void put_name(uint8_t *to, const char name[EST_NET_NAME_MAX])
{
    put_text(to, name, EST_NET_NAME_MAX);
}

/* Names are printed, so they must be printable. */
static bool get_text(const uint8_t *from, char *text, size_t max)
{
    size_t size = strnlen((const char *)from, max);

    if (size == max) return false;
    for (size_t i = 0; i < size; i++) {
        if (from[i] < 0x20 || from[i] == 0x7f) return false;
    }
    memset(text, 0, max);
    memcpy(text, from, size);
    return true;
}

static bool get_name(const uint8_t *from, char name[EST_NET_NAME_MAX])
{
    return get_text(from, name, EST_NET_NAME_MAX);
}

void est_hello_encode(const est_hello *hello, uint8_t out[EST_HELLO_BYTES])
{
    put_name(out, hello->self.job);
    put_name(out + EST_NET_NAME_MAX, hello->self.task);
    put_name(out + 2 * EST_NET_NAME_MAX, hello->wanted);
    put_u64(out + 3 * EST_NET_NAME_MAX, hello->self.incarnation);
    put_text(out + 3 * EST_NET_NAME_MAX + 8, hello->self.place, EST_NET_PLACE_MAX);
    put_text(out + 3 * EST_NET_NAME_MAX + 8 + EST_NET_PLACE_MAX, hello->self.folder, EST_NET_FOLDER_MAX);
}

est_status est_hello_decode(const void *head, size_t size, est_hello *out)
{
    const uint8_t *in = head;
    est_hello      hello;

    if (size != EST_HELLO_BYTES) {
        return est_fail(EST_DATA_LOSS, "a hello has %zu bytes instead of %d", size, EST_HELLO_BYTES);
    }
    if (!get_name(in, hello.self.job) || !get_name(in + EST_NET_NAME_MAX, hello.self.task) ||
        !get_name(in + 2 * EST_NET_NAME_MAX, hello.wanted) ||
        !get_text(in + 3 * EST_NET_NAME_MAX + 8, hello.self.place, EST_NET_PLACE_MAX) ||
        !get_text(in + 3 * EST_NET_NAME_MAX + 8 + EST_NET_PLACE_MAX, hello.self.folder, EST_NET_FOLDER_MAX)) {
        return est_fail(EST_DATA_LOSS, "a hello has an invalid name");
    }
    hello.self.incarnation = get_u64(in + 3 * EST_NET_NAME_MAX);
    *out                   = hello;
    return EST_OK;
}

size_t est_farewell_encode(est_status status, const char *text, uint8_t out[EST_FAREWELL_MAX])
{
    size_t size = strnlen(text, EST_FAREWELL_MAX - CODE_BYTES);

    put_u32(out, (uint32_t)status);
    memcpy(out + CODE_BYTES, text, size);
    return CODE_BYTES + size;
}

est_status est_farewell_decode(const void *head, size_t size, est_status *status, char text[EST_FAREWELL_MAX])
{
    const uint8_t *in = head;
    uint32_t       code;

    if (size < CODE_BYTES || size > EST_FAREWELL_MAX) {
        return est_fail(EST_DATA_LOSS, "a failure has %zu bytes; %d to %d are possible", size, CODE_BYTES,
                        EST_FAREWELL_MAX);
    }
    code    = get_u32(in);
    *status = code > EST_OK && code <= EST_UNAUTHENTICATED ? (est_status)code : EST_UNKNOWN;
    size -= CODE_BYTES;
    for (size_t i = 0; i < size; i++) text[i] = (char)(in[CODE_BYTES + i] >= 0x20 ? in[CODE_BYTES + i] : ' ');
    text[size] = '\0';
    return EST_OK;
}
