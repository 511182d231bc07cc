/* SPDX-License-Identifier: Apache-2.0
 *
 * A string that grows. Appending never fails visibly: the first failure is kept, later appends do nothing, and
 * est_strbuf_take or est_strbuf_status reports it. One thread at a time. */
#ifndef EST_BASE_STRBUF_H
#define EST_BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

#include "estoc/status.h"

/* A zeroed struct is an empty string. */
typedef struct est_strbuf {
    char  *data; /* terminated; NULL while nothing was appended */
    size_t size; /* without the terminator */
    size_t capacity;
    bool   fixed;  /* data is the caller's: it is neither grown nor freed */
    bool   failed; /* memory was out */
} est_strbuf;

/* An empty string in memory of the caller, for where nothing may be allocated: it fails when that is full. Not to be
 * taken. */
est_strbuf est_strbuf_in(char *room, size_t size);

void est_strbuf_append(est_strbuf *buf, const char *text);
void est_strbuf_append_bytes(est_strbuf *buf, const void *bytes, size_t size);
void est_strbuf_printf(est_strbuf *buf, const char *fmt, ...) EST_PRINTF(2, 3);

/* Appends a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD, so the result is always JSON. */
void est_strbuf_append_json(est_strbuf *buf, const void *bytes, size_t size);

/* Appends text for a terminal or a log: control bytes, except those in `keep` ("\n\t"), and invalid UTF-8 become
 * \xNN. */
void est_strbuf_append_printable(est_strbuf *buf, const void *bytes, size_t size, const char *keep);

/* Bytes of the well-formed UTF-8 character at p (RFC 3629: shortest form, no surrogates); 0: invalid. */
size_t est_utf8_size(const void *p, size_t left);

/* Whether the character at p, of `size` bytes, is a control character: C0, DEL, and C1, which UTF-8 writes as c2 80 ..
 * c2 9f. */
bool est_utf8_is_control(const void *p, size_t size);

/* The text so far, never NULL; borrowed until the next append. */
const char *est_strbuf_text(const est_strbuf *buf);

/* EST_RESOURCE_EXHAUSTED once an append has failed. */
EST_MUST_CHECK est_status est_strbuf_status(const est_strbuf *buf);

/* Returns the text, which the caller frees with est_free, and leaves an empty buffer, also on failure. */
EST_MUST_CHECK est_status est_strbuf_take(est_strbuf *buf, char **out);

/* Empties the buffer but keeps its memory. */
void est_strbuf_reset(est_strbuf *buf);

/* Frees the memory; the struct is an empty string again. */
void est_strbuf_clear(est_strbuf *buf);

#endif
