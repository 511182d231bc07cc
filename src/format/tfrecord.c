/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading TFRecord files. One buffer holds a stretch of the uncompressed contents; records are handed out as pointers
 * into it. `fill` appends to it, by read() from a plain file or by inflating, and the rest of the reader does not know
 * which. What lies before the current record is dropped only when room is needed, so small records cost no copy.
 *
 * A length is believed only after its checksum, and memory grows with what has arrived, not with what a length
 * promises. */
#include "format/tfrecord.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"

#define COMPRESSED_BYTES  ((size_t)256 << 10) /* read at a time from a compressed file */
#define RECORD_MAX        ((size_t)1 << 30)   /* what 0 means for record_bytes_max */
#define BUFFER_MIN        ((size_t)64)
#define ZLIB_MAGIC        0x78
#define ZLIB_HEADER_CHECK 31 /* divides the first two bytes as a big-endian number */

struct est_tfrecord_reader {
    char           *path;
    int             fd;
    est_compression compression; /* never DEFAULT once open */
    size_t          record_max;

    uint8_t              *buffer; /* [start, end) is yet to be handed out */
    size_t                start, end, capacity;
    est_tfrecord_position position; /* of buffer[start] */
    bool                  ended;    /* nothing more will come, as far as we know */

    uint8_t *packed;      /* compressed bytes; NULL for a plain file */
    z_stream inflater;    /* its next_in, avail_in are the rest of `packed` */
    bool     has_stream;  /* inflater is initialised */
    bool     stream_done; /* a compressed stream has ended; a further one may follow */
};

/* Fails at the record the reader stands before. */
#define fail_record(r, status, fmt, ...)                                                                               \
    est_fail(status, "%s: record %" PRIu64 " at byte %" PRIu64 fmt, (r)->path, (r)->position.record,                   \
             (r)->position.offset, __VA_ARGS__)

/* One read of at most n bytes; *got is 0 at the end of the file. */
static est_status read_some(est_tfrecord_reader *r, uint8_t *to, size_t n, size_t *got)
{
    ssize_t count;

    do {
        count = EST_FAULT_POINT("tfrecord.read") ? (errno = EIO, -1) : read(r->fd, to, n);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        int        error  = errno;
        est_status status = est_status_from_errno(error);

        if (status == EST_OK || status == EST_UNKNOWN) status = EST_DATA_LOSS; /* EIO: the disk has lost it */
        return est_fail(status, "cannot read %s: %s", r->path, strerror(error));
    }
    *got = (size_t)count;
    return EST_OK;
}

/* --- compressed contents ---------------------------------------------------------------------------------------- */

/* Makes the inflater ready for the first byte of a stream, keeping the input it has. */
static est_status inflater_start(est_tfrecord_reader *r)
{
    int window = r->compression == EST_COMPRESSION_GZIP ? EST_GZIP_WINDOW : EST_ZLIB_WINDOW;

    r->stream_done = false;
    if (r->has_stream) {
        inflateReset(&r->inflater);
        return EST_OK;
    }
    if (inflateInit2(&r->inflater, window) != Z_OK) {
        return est_fail(EST_RESOURCE_EXHAUSTED, "%s: no memory to decompress", r->path);
    }
    r->has_stream = true;
    return EST_OK;
}

static est_status packed_refill(est_tfrecord_reader *r)
{
    size_t got;

    EST_TRY(read_some(r, r->packed, COMPRESSED_BYTES, &got));
    r->inflater.next_in  = r->packed;
    r->inflater.avail_in = (uInt)got;
    return EST_OK;
}

/* Inflates into `to`; *got is 0 only at the end. A file is one stream, or several one after the other. */
static est_status inflate_some(est_tfrecord_reader *r, uint8_t *to, size_t n, size_t *got)
{
    z_stream *z = &r->inflater;

    z->next_out  = to;
    z->avail_out = n < UINT32_MAX ? (uInt)n : UINT32_MAX;
    while (z->next_out == to) {
        int code;

        if (z->avail_in == 0) EST_TRY(packed_refill(r));
        if (z->avail_in == 0) {
            if (r->stream_done) break;
            return fail_record(r, EST_DATA_LOSS, "%s", ": the compressed file is cut short");
        }
        if (r->stream_done) EST_TRY(inflater_start(r));
        code = inflate(z, Z_NO_FLUSH);
        if (code == Z_STREAM_END) {
            r->stream_done = true;
        } else if (code != Z_OK && code != Z_BUF_ERROR) {
            return fail_record(r, EST_DATA_LOSS, ": cannot decompress: %s", z->msg != NULL ? z->msg : zError(code));
        }
    }
    *got = (size_t)(z->next_out - to);
    return EST_OK;
}

/* --- the buffer ------------------------------------------------------------------------------------------------- */

/* Makes room at the end of the buffer: drops what was handed out, then doubles, but not beyond what `need` asks for. */
static est_status make_room(est_tfrecord_reader *r, size_t need)
{
    size_t   capacity;
    uint8_t *buffer;

    if (r->start > 0) {
        memmove(r->buffer, r->buffer + r->start, r->end - r->start);
        r->end -= r->start;
        r->start = 0;
    }
    if (r->end < r->capacity) return EST_OK;
    capacity = need / 2 > r->capacity ? 2 * r->capacity : need;
    buffer   = est_realloc(r->buffer, capacity);
    if (buffer == NULL) return fail_record(r, EST_RESOURCE_EXHAUSTED, ": no memory for %zu bytes", capacity);
    r->buffer   = buffer;
    r->capacity = capacity;
    return EST_OK;
}

/* Has n bytes in the buffer, or as many as there are. */
static est_status need_bytes(est_tfrecord_reader *r, size_t n)
{
    while (r->end - r->start < n && !r->ended) {
        size_t got;

        if (n > r->capacity - r->start || r->end == r->capacity) EST_TRY(make_room(r, n));
        if (r->packed != NULL) {
            EST_TRY(inflate_some(r, r->buffer + r->end, r->capacity - r->end, &got));
        } else {
            EST_TRY(read_some(r, r->buffer + r->end, r->capacity - r->end, &got));
        }
        r->end += got;
        r->ended = got == 0;
    }
    return EST_OK;
}

/* --- opening ---------------------------------------------------------------------------------------------------- */

/* What the first bytes of the file are. A good record header is asked for first: the length of a plain file's first
 * record may look like the magic number of a compressed one. */
static est_compression detect(const uint8_t *bytes, size_t size)
{
    if (size >= EST_TFRECORD_HEADER && est_tfrecord_header_good(bytes)) return EST_COMPRESSION_NONE;
    if (size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) return EST_COMPRESSION_GZIP;
    if (size >= 2 && bytes[0] == ZLIB_MAGIC && (bytes[0] << 8 | bytes[1]) % ZLIB_HEADER_CHECK == 0) {
        return EST_COMPRESSION_ZLIB;
    }
    return EST_COMPRESSION_NONE;
}

/* Moves what was read as plain over to the inflater. */
static est_status turn_compressed(est_tfrecord_reader *r)
{
    size_t size = r->end > COMPRESSED_BYTES ? r->end : COMPRESSED_BYTES;

    r->packed = est_alloc(size);
    if (r->packed == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "%s: no memory to decompress", r->path);
    memcpy(r->packed, r->buffer, r->end);
    r->inflater.next_in  = r->packed;
    r->inflater.avail_in = (uInt)r->end;
    r->end               = 0;
    r->ended             = false;
    return inflater_start(r);
}

static est_status find_compression(est_tfrecord_reader *r)
{
    if (r->compression == EST_COMPRESSION_DEFAULT) {
        EST_TRY(need_bytes(r, EST_TFRECORD_HEADER));
        r->compression = detect(r->buffer, r->end);
    }
    if (r->compression == EST_COMPRESSION_NONE) return EST_OK;
    EST_TRY(turn_compressed(r));
    if (r->inflater.avail_in == 0) EST_TRY(packed_refill(r));
    r->stream_done = r->inflater.avail_in == 0; /* an empty file holds no records, whatever its kind */
    return EST_OK;
}

static est_status check_options(const est_tfrecord_read_options *options, est_tfrecord_read_options *out)
{
    *out = (est_tfrecord_read_options){ 0 };
    if (options != NULL) {
        if (options->struct_size == 0 || options->struct_size > sizeof *out) {
            return est_fail(EST_INVALID_ARGUMENT, "options of %zu bytes: make them with EST_TFRECORD_READ",
                            options->struct_size);
        }
        memcpy(out, options, options->struct_size);
    }
    if (out->compression < EST_COMPRESSION_DEFAULT || out->compression > EST_COMPRESSION_GZIP) {
        return est_fail(EST_INVALID_ARGUMENT, "there is no compression %d", (int)out->compression);
    }
    if (out->record_bytes_max == 0) out->record_bytes_max = RECORD_MAX;
    if (out->buffer_bytes == 0) out->buffer_bytes = EST_TFRECORD_BUFFER;
    if (out->buffer_bytes < BUFFER_MIN) out->buffer_bytes = BUFFER_MIN;
    if (out->buffer_bytes > UINT32_MAX / 2) out->buffer_bytes = UINT32_MAX / 2; /* zlib counts in 32 bits */
    return EST_OK;
}

est_status est_tfrecord_open(const char *path, const est_tfrecord_read_options *options, est_tfrecord_reader **out)
{
    est_tfrecord_read_options o;
    est_tfrecord_reader      *r;
    est_status                status = EST_RESOURCE_EXHAUSTED;

    EST_TRY(check_options(options, &o));
    r = est_zalloc(sizeof *r);
    if (r == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory to read %s", path);
    r->compression = o.compression;
    r->record_max  = o.record_bytes_max;
    r->capacity    = o.buffer_bytes;
    r->path        = est_strdup(path);
    r->buffer      = est_alloc(r->capacity);
    r->fd          = open(path, O_RDONLY | O_CLOEXEC);
    if (r->path == NULL || r->buffer == NULL) {
        status = est_fail(EST_RESOURCE_EXHAUSTED, "no memory to read %s", path);
    } else if (r->fd < 0) {
        int error = errno;

        status = est_fail(est_status_from_errno(error), "cannot open %s: %s", path, strerror(error));
    } else {
        status = find_compression(r);
    }
    if (status != EST_OK) {
        est_tfrecord_close(r);
        return status;
    }
    *out = r;
    return EST_OK;
}

void est_tfrecord_close(est_tfrecord_reader *reader)
{
    if (reader == NULL) return;
    if (reader->has_stream) inflateEnd(&reader->inflater);
    if (reader->fd >= 0) close(reader->fd);
    est_free(reader->packed);
    est_free(reader->buffer);
    est_free(reader->path);
    est_free(reader);
}

/* --- records ---------------------------------------------------------------------------------------------------- */

/* The length of the record at hand; EST_OUT_OF_RANGE when there is none. */
static est_status read_header(est_tfrecord_reader *r, size_t *size)
{
    const uint8_t *header;
    uint64_t       length;
    size_t         have;

    EST_TRY(need_bytes(r, EST_TFRECORD_HEADER));
    have = r->end - r->start;
    if (have == 0) return EST_OUT_OF_RANGE;
    if (have < EST_TFRECORD_HEADER) {
        return fail_record(r, EST_DATA_LOSS, ": cut short: its header has %zu of %d bytes", have, EST_TFRECORD_HEADER);
    }
    header = r->buffer + r->start;
    if (!est_tfrecord_header_good(header)) {
        return fail_record(r, EST_DATA_LOSS, "%s", ": damaged: the checksum of its length is wrong");
    }
    length = est_wire_load64(header);
    if (length > r->record_max) {
        return fail_record(r, EST_RESOURCE_EXHAUSTED, " has %" PRIu64 " bytes, the limit is %zu", length,
                           r->record_max);
    }
    *size = (size_t)length;
    return EST_OK;
}

est_status est_tfrecord_next(est_tfrecord_reader *reader, est_str *record)
{
    est_tfrecord_reader *r = reader;
    const uint8_t       *bytes;
    size_t               size, whole;

    if (r->packed == NULL) r->ended = false; /* a plain file may have grown */
    EST_TRY(read_header(r, &size));
    if (size > SIZE_MAX - EST_TFRECORD_HEADER - EST_TFRECORD_FOOTER) size = SIZE_MAX / 2;
    whole = EST_TFRECORD_HEADER + size + EST_TFRECORD_FOOTER;
    EST_TRY(need_bytes(r, whole));
    if (r->end - r->start < whole) {
        return fail_record(r, EST_DATA_LOSS, ": cut short: %zu of %zu bytes are there", r->end - r->start, whole);
    }
    bytes = r->buffer + r->start + EST_TFRECORD_HEADER;
    if (est_wire_load32(bytes + size) != est_tfrecord_crc(bytes, size)) {
        return fail_record(r, EST_DATA_LOSS, ": damaged: the checksum of its %zu bytes is wrong", size);
    }
    r->start += whole;
    r->position.offset += whole;
    r->position.record++;
    *record = (est_str){ (const char *)bytes, size };
    return EST_OK;
}

est_tfrecord_position est_tfrecord_tell(const est_tfrecord_reader *reader)
{
    return reader->position;
}

/* Goes back to the first byte of the file, or of a plain one to any byte. */
static est_status restart_at(est_tfrecord_reader *r, uint64_t offset)
{
    off_t size = lseek(r->fd, 0, SEEK_END);

    if (size < 0) return est_fail(EST_FAILED_PRECONDITION, "%s: cannot seek: %s", r->path, strerror(errno));
    if (offset > (uint64_t)size) {
        return est_fail(EST_OUT_OF_RANGE, "%s: has %" PRIu64 " bytes, none at %" PRIu64, r->path, (uint64_t)size,
                        offset);
    }
    if (lseek(r->fd, (off_t)offset, SEEK_SET) < 0) {
        return est_fail(EST_FAILED_PRECONDITION, "%s: cannot go to byte %" PRIu64, r->path, offset);
    }
    r->start = r->end  = 0;
    r->ended           = false;
    r->position.offset = offset;
    if (r->packed == NULL) return EST_OK;
    r->inflater.avail_in = 0;
    return inflater_start(r);
}

/* Drops contents until `offset`. */
static est_status skip_to(est_tfrecord_reader *r, uint64_t offset)
{
    while (r->position.offset < offset) {
        uint64_t rest = offset - r->position.offset;
        size_t   step;

        EST_TRY(need_bytes(r, 1));
        step = r->end - r->start;
        if (step == 0) {
            return est_fail(EST_OUT_OF_RANGE, "%s: has %" PRIu64 " bytes, none at %" PRIu64, r->path,
                            r->position.offset, offset);
        }
        if (step > rest) step = (size_t)rest;
        r->start += step;
        r->position.offset += step;
    }
    return EST_OK;
}

est_status est_tfrecord_seek(est_tfrecord_reader *reader, est_tfrecord_position position)
{
    est_tfrecord_reader *r       = reader;
    uint64_t             in_view = r->position.offset + (r->end - r->start);

    if (position.offset >= r->position.offset && position.offset <= in_view) {
        r->start += (size_t)(position.offset - r->position.offset);
        r->position.offset = position.offset;
    } else if (r->packed == NULL) {
        EST_TRY(restart_at(r, position.offset));
    } else {
        if (position.offset < r->position.offset) EST_TRY(restart_at(r, 0));
        EST_TRY(skip_to(r, position.offset));
    }
    r->position.record = position.record;
    return EST_OK;
}
