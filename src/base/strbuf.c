/* SPDX-License-Identifier: Apache-2.0
 *
 * The growing string, and JSON escaping. */
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define CAPACITY_MIN 64

/* Room for `more` bytes and a terminator; false once memory was out. */
static bool strbuf_reserve(est_strbuf *buf, size_t more)
{
    size_t needed, capacity;
    char  *data;

    if (buf->failed) return false;
    if (__builtin_add_overflow(buf->size, more, &needed) || needed > SIZE_MAX / 4) {
        buf->failed = true;
        return false;
    }
    needed++;
    if (needed <= buf->capacity) return true;
    if (buf->fixed) {
        buf->failed = true;
        return false;
    }
    capacity = buf->capacity < CAPACITY_MIN ? CAPACITY_MIN : buf->capacity * 2;
    if (capacity < needed) capacity = needed;
    data = est_realloc(buf->data, capacity);
    if (data == NULL) {
        buf->failed = true;
        return false;
    }
    buf->data     = data;
    buf->capacity = capacity;
    return true;
}

est_strbuf est_strbuf_in(char *room, size_t size)
{
    room[0] = '\0';
    return (est_strbuf){ .data = room, .capacity = size, .fixed = true };
}

void est_strbuf_append(est_strbuf *buf, const char *text)
{
    est_strbuf_append_bytes(buf, text, strlen(text));
}

void est_strbuf_append_bytes(est_strbuf *buf, const void *bytes, size_t size)
{
    if (!strbuf_reserve(buf, size)) return;
    if (size > 0) memcpy(buf->data + buf->size, bytes, size);
    buf->size += size;
    buf->data[buf->size] = '\0';
}

void est_strbuf_printf(est_strbuf *buf, const char *fmt, ...)
{
    va_list args;
    int     size;

    va_start(args, fmt);
    size = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (size < 0 || !strbuf_reserve(buf, (size_t)size)) return;

    va_start(args, fmt);
    vsnprintf(buf->data + buf->size, (size_t)size + 1, fmt, args);
    va_end(args);
    buf->size += (size_t)size;
}

size_t est_utf8_size(const void *bytes, size_t left)
{
    const uint8_t *p      = bytes;
    size_t         size   = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    uint8_t        lowest = 0x80, highest = 0xbf; /* of the second byte */

    if (size > left) return 0;
    if (p[0] == 0xe0) lowest = 0xa0;
    if (p[0] == 0xed) highest = 0x9f;
    if (p[0] == 0xf0) lowest = 0x90;
    if (p[0] == 0xf4) highest = 0x8f;
    if (size > 1 && (p[1] < lowest || p[1] > highest)) return 0;
    for (size_t i = 2; i < size; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    return size;
}

/* The letter after the backslash in the short escape of this character; 0 when it has none. */
static char short_escape(uint8_t c)
{
    switch (c) {
    case '"': return '"';
    case '\\': return '\\';
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return 0;
    }
}

void est_strbuf_append_json(est_strbuf *buf, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;

    est_strbuf_append_bytes(buf, "\"", 1);
    for (size_t i = 0; i < size && !buf->failed;) {
        size_t character = est_utf8_size(p + i, size - i);
        char   escape    = short_escape(p[i]);

        if (character == 0) {
            est_strbuf_append(buf, "\xef\xbf\xbd");
            character = 1;
        } else if (escape != 0) {
            est_strbuf_append_bytes(buf, (const char[]){ '\\', escape }, 2);
        } else if (p[i] < 0x20) {
            est_strbuf_printf(buf, "\\u%04x", p[i]);
        } else {
            est_strbuf_append_bytes(buf, p + i, character);
        }
        i += character;
    }
    est_strbuf_append_bytes(buf, "\"", 1);
}

bool est_utf8_is_control(const void *bytes, size_t size)
{
    const uint8_t *p = bytes;

    return p[0] < 0x20 || p[0] == 0x7f || (size == 2 && p[0] == 0xc2 && p[1] < 0xa0);
}

void est_strbuf_append_printable(est_strbuf *buf, const void *bytes, size_t size, const char *keep)
{
    const uint8_t *p = bytes;

    for (size_t i = 0; i < size && !buf->failed;) {
        size_t character = est_utf8_size(p + i, size - i);
        bool   kept      = p[i] != 0 && strchr(keep, p[i]) != NULL;

        if (character > 0 && (kept || !est_utf8_is_control(p + i, character))) {
            est_strbuf_append_bytes(buf, p + i, character);
            i += character;
        } else {
            est_strbuf_printf(buf, "\\x%02x", p[i++]);
        }
    }
}

const char *est_strbuf_text(const est_strbuf *buf)
{
    return buf->data != NULL ? buf->data : "";
}

est_status est_strbuf_status(const est_strbuf *buf)
{
    if (buf->failed) return est_no_memory();
    return EST_OK;
}

est_status est_strbuf_take(est_strbuf *buf, char **out)
{
    est_status status;

    est_strbuf_append_bytes(buf, "", 0); /* an empty text is a text too */
    status = est_strbuf_status(buf);
    if (status != EST_OK) {
        est_strbuf_clear(buf);
        return status;
    }
    *out = buf->data;
    *buf = (est_strbuf){ 0 };
    return EST_OK;
}

void est_strbuf_reset(est_strbuf *buf)
{
    buf->size   = 0;
    buf->failed = false;
    if (buf->data != NULL) buf->data[0] = '\0';
}

void est_strbuf_clear(est_strbuf *buf)
{
    if (!buf->fixed) est_free(buf->data);
    *buf = (est_strbuf){ 0 };
}
