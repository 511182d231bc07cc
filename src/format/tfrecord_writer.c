/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing TFRecord files. Framed bytes go through one buffer to the file, or through a deflater into it. A compressed
 * file is exactly one stream: older readers of the format stop at the end of the first. */
#include "base/argument.h"
#include "format/tfrecord.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/options.h"

#define DEFLATE_MEMORY 9 /* zlib's memLevel: the most, as TensorFlow's writer */

struct est_tfrecord_writer {
    char    *path;
    int      fd;
    uint8_t *buffer; /* what goes to the file next */
    size_t   size, capacity;
    z_stream deflater;
    bool     has_stream; /* deflater is initialised: the file is compressed */
    bool     failed;
};

static est_status send_buffer(est_tfrecord_writer *w)
{
    size_t size = w->size;

    w->size = 0;
    return est_file_write_all(w->fd, w->path, w->buffer, size);
}

static est_status put_plain(est_tfrecord_writer *w, const uint8_t *bytes, size_t size)
{
    if (size > w->capacity - w->size) EST_TRY(send_buffer(w));
    if (size > w->capacity) return est_file_write_all(w->fd, w->path, bytes, size); /* no use in a copy */
    if (size > 0) memcpy(w->buffer + w->size, bytes, size);
    w->size += size;
    return EST_OK;
}

/* Runs the deflater until it has taken all its input and, for a flush, given all its output. */
static est_status deflate_all(est_tfrecord_writer *w, int flush)
{
    z_stream *z = &w->deflater;
    int       code;

    do {
        size_t room;

        if (w->size == w->capacity) EST_TRY(send_buffer(w));
        room         = w->capacity - w->size;
        z->next_out  = w->buffer + w->size;
        z->avail_out = (uInt)room;
        code         = deflate(z, flush);
        if (code == Z_STREAM_ERROR) return est_fail(EST_INTERNAL, "%s: the compressor has lost its state", w->path);
        w->size += room - z->avail_out;
    } while (z->avail_in > 0 || z->avail_out == 0 || (flush == Z_FINISH && code != Z_STREAM_END));
    return EST_OK;
}

static est_status put_deflated(est_tfrecord_writer *w, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        size_t step = size < UINT32_MAX ? size : UINT32_MAX;

        w->deflater.next_in  = (Bytef *)(uintptr_t)bytes; /* zlib only reads it */
        w->deflater.avail_in = (uInt)step;
        EST_TRY(deflate_all(w, Z_NO_FLUSH));
        bytes += step;
        size -= step;
    }
    return EST_OK;
}

static est_status put(est_tfrecord_writer *w, const void *bytes, size_t size)
{
    est_status status = w->has_stream ? put_deflated(w, bytes, size) : put_plain(w, bytes, size);

    if (status != EST_OK) w->failed = true;
    return status;
}

static est_status check_options(const est_tfrecord_write_options *options, est_tfrecord_write_options *out)
{
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_tfrecord_write_options), options, out));
    if (out->compression < EST_COMPRESSION_DEFAULT || out->compression > EST_COMPRESSION_GZIP) {
        return est_fail(EST_INVALID_ARGUMENT, "%d is not an est_compression", (int)out->compression);
    }
    if (out->level < 0 || out->level > 9) {
        return est_fail(EST_INVALID_ARGUMENT, "compression level %d is not from 1 to 9", (int)out->level);
    }
    if (out->buffer_bytes == 0) out->buffer_bytes = EST_TFRECORD_BUFFER;
    if (out->buffer_bytes > UINT32_MAX / 2) out->buffer_bytes = UINT32_MAX / 2; /* zlib counts in 32 bits */
    return EST_OK;
}

static est_status start_deflater(est_tfrecord_writer *w, const est_tfrecord_write_options *o)
{
    int window = o->compression == EST_COMPRESSION_GZIP ? EST_GZIP_WINDOW : EST_ZLIB_WINDOW;
    int level  = o->level == 0 ? Z_DEFAULT_COMPRESSION : o->level;

    if (o->compression == EST_COMPRESSION_DEFAULT || o->compression == EST_COMPRESSION_NONE) return EST_OK;
    if (deflateInit2(&w->deflater, level, Z_DEFLATED, window, DEFLATE_MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) {
        return est_no_memory();
    }
    w->has_stream = true;
    return EST_OK;
}

est_status est_tfrecord_create(const char *path, const est_tfrecord_write_options *options, est_tfrecord_writer **out)
{
    est_tfrecord_write_options o;
    est_tfrecord_writer       *w;
    est_status                 status;

    EST_REQUIRE(path);
    EST_REQUIRE(out);
    EST_TRY(check_options(options, &o));
    w = est_zalloc(sizeof *w);
    if (w == NULL) return est_no_memory();
    w->capacity = o.buffer_bytes;
    w->path     = est_strdup(path);
    w->buffer   = est_alloc(w->capacity);
    w->fd       = -1;
    if (w->path == NULL || w->buffer == NULL) {
        status = est_no_memory();
    } else {
        status = start_deflater(w, &o);
    }
    if (status == EST_OK) {
        w->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (w->fd < 0) {
            int error = errno;

            status = est_fail(est_status_from_errno(error), "cannot create %s: %s", path, strerror(error));
        }
    }
    if (status != EST_OK) {
        est_tfrecord_abandon(w);
        return status;
    }
    *out = w;
    return EST_OK;
}

static est_status check_usable(const est_tfrecord_writer *w)
{
    if (!w->failed) return EST_OK;
    return est_fail(EST_FAILED_PRECONDITION, "%s: an earlier write has failed; the file is incomplete", w->path);
}

est_status est_tfrecord_write(est_tfrecord_writer *writer, const void *bytes, size_t size)
{
    uint8_t header[EST_TFRECORD_HEADER], footer[EST_TFRECORD_FOOTER];

    EST_REQUIRE(writer);
    if (size > 0) EST_REQUIRE(bytes);
    EST_TRY(check_usable(writer));
    est_wire_store64(header, size);
    est_wire_store32(header + 8, est_tfrecord_crc(header, 8));
    est_wire_store32(footer, est_tfrecord_crc(bytes, size));
    EST_TRY(put(writer, header, sizeof header));
    EST_TRY(put(writer, bytes, size));
    return put(writer, footer, sizeof footer);
}

/* Hands everything to the system; `flush` is zlib's. */
static est_status drain(est_tfrecord_writer *w, int flush)
{
    est_status status = check_usable(w);

    if (status == EST_OK && w->has_stream) {
        w->deflater.avail_in = 0;
        status               = deflate_all(w, flush);
    }
    if (status == EST_OK) status = send_buffer(w);
    if (status != EST_OK) w->failed = true;
    return status;
}

est_status est_tfrecord_flush(est_tfrecord_writer *writer)
{
    EST_REQUIRE(writer);
    return drain(writer, Z_SYNC_FLUSH);
}

est_status est_tfrecord_finish(est_tfrecord_writer *writer)
{
    est_status status;
    int        fd;

    EST_REQUIRE(writer);
    status     = drain(writer, Z_FINISH);
    fd         = writer->fd;
    writer->fd = -1;
    if (close(fd) != 0 && status == EST_OK) {
        int error = errno;

        status = est_fail(est_status_from_errno(error), "cannot close %s: %s", writer->path, strerror(error));
    }
    est_tfrecord_abandon(writer);
    return status;
}

void est_tfrecord_abandon(est_tfrecord_writer *writer)
{
    if (writer == NULL) return;
    if (writer->has_stream) deflateEnd(&writer->deflater);
    if (writer->fd >= 0) close(writer->fd);
    est_free(writer->buffer);
    est_free(writer->path);
    est_free(writer);
}
