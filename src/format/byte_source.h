/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a file as they were before it was compressed, through one buffer. A reader looks at the view, requests
 * more, and reports how much it has consumed; it does not know whether the file is plain, zlib or gzip (one member or
 * several one after the other).
 *
 * A mark is a position that can be verified: it has the bytes just before it, so that a rewritten file can be
 * distinguished from one that was only appended to, and from a copy. Times are ignored: a copy has others.
 *
 * Memory grows with the bytes read and requested, not with the size that the file claims. One thread at a time. */
#ifndef EST_FORMAT_BYTE_SOURCE_H
#define EST_FORMAT_BYTE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "estoc/status.h"
#include "estoc/tensor.h"
#include "estoc/tfrecord.h"

/* zlib's windowBits for each kind: its own frame, or gzip's. */
#define EST_ZLIB_WINDOW 15
#define EST_GZIP_WINDOW (15 + 16)

/* A zeroed struct is a valid one. */
typedef struct est_byte_source_options {
    est_compression compression;  /* 0: detected from the first bytes */
    size_t          buffer_bytes; /* 0: 1 MiB; read at a time */

    /* Asked about the first bytes (at least 12 where there are so many) before they are taken for those of a compressed
     * file; NULL: never. */
    bool (*is_plain)(const uint8_t *bytes, size_t size);
} est_byte_source_options;

typedef struct est_byte_source est_byte_source;

/* Opens a file at its first byte. `path` and the options are copied; `options` may be NULL. */
EST_MUST_CHECK est_status est_byte_source_open(const char *path, const est_byte_source_options *options,
                                               est_byte_source **out);

/* Closes the file. NULL is fine. */
void est_byte_source_close(est_byte_source *source);

/* Has at least n bytes in view, or all there are when the file ends before. *view begins at est_byte_source_tell and
 * may well be longer than n; it is borrowed until the next call of this, of _read or of _seek. The end is not
 * remembered: a file that has grown since gives more. */
EST_MUST_CHECK est_status est_byte_source_need(est_byte_source *source, size_t n, est_str *view);

/* Whether requesting more now would not block on the writer of a pipe; true at the end and for compressed files. */
bool est_byte_source_is_ready(const est_byte_source *source);

/* Steps over n bytes that are in view; the view stays as it is. */
void est_byte_source_skip(est_byte_source *source, size_t n);

/* Copies the next n bytes and steps over them. When there are fewer, EST_OUT_OF_RANGE without a message, and *got tells
 * how many were copied. */
EST_MUST_CHECK est_status est_byte_source_read(est_byte_source *source, void *to, size_t n, size_t *got);

/* The offset of the first byte in view, of the uncompressed contents. */
uint64_t est_byte_source_tell(const est_byte_source *source);

/* Goes to an offset of the uncompressed contents, at most one past the last byte. In a compressed file this reads what
 * lies before it, from the start when the way is back. */
EST_MUST_CHECK est_status est_byte_source_seek(est_byte_source *source, uint64_t offset);

#define EST_BYTE_SOURCE_PIECE 256 /* bytes before a place that its mark knows */

typedef struct est_byte_source_mark {
    uint64_t offset; /* of the uncompressed contents */
    uint32_t piece;  /* checksum of the last EST_BYTE_SOURCE_PIECE bytes before the offset, or of all there are */
} est_byte_source_mark;

/* The mark of where the source is. Only for a source that _need, _skip and _seek_mark alone have moved: the others do
 * not keep what lies before. */
est_byte_source_mark est_byte_source_get_mark(const est_byte_source *source);

/* Seeks to a mark of this file, of an earlier version of it, or of a copy. EST_FAILED_PRECONDITION when the bytes
 * before the mark differ. The bytes after it may have changed, for example to fix a row. */
EST_MUST_CHECK est_status est_byte_source_seek_mark(est_byte_source *source, const est_byte_source_mark *mark);

/* Bytes of the file on disk; UINT64_MAX when it is not a regular file. */
uint64_t est_byte_source_file_bytes(const est_byte_source *source);

const char     *est_byte_source_path(const est_byte_source *source); /* borrowed until it is closed */
est_compression est_byte_source_compression(const est_byte_source *source);

#endif
