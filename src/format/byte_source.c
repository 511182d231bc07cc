/* SPDX-License-Identifier: Apache-2.0
 *
 * One buffer holds a stretch of the uncompressed contents. `fill` appends to it, by read() from a plain file or by
 * inflating, and the rest does not know which. What lies before the view is dropped only when room is needed, so small
 * steps cost no copy. */
#include "format/byte_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/fault.h"
#include "base/file.h"

#define BUFFER_BYTES      ((size_t)1 << 20)   /* default of buffer_bytes */
#define BUFFER_MIN        ((size_t)64)        /* is_plain gets 12 */
#define PACKED_BYTES      ((size_t)256 << 10) /* read at a time from a compressed file */
#define PLAIN_BYTES       12                  /* that is_plain gets, if there are as many */
#define GZIP_MAGIC        0x1f
#define TRIAL_BYTES       512 /* looked at when it may be text */
#define ZLIB_MAGIC        0x78
#define ZLIB_HEADER_CHECK 31   /* divides the first two bytes as a big-endian number */
#define ZLIB_DICTIONARY   0x20 /* in the second: needs a dictionary that a file cannot give */

struct est_byte_source {
    char           *path;
    int             fd;
    est_compression compression; /* never DEFAULT once open */

    uint8_t *buffer; /* [start, end) is in view */
    size_t   start, end, capacity;
    uint64_t offset; /* of buffer[start] */

    uint8_t before[EST_BYTE_SOURCE_PIECE]; /* the last dropped bytes of the contents before buffer[0] */
    size_t  n_before;

    uint8_t *packed;      /* compressed bytes; NULL for a plain file */
    z_stream inflater;    /* its next_in, avail_in are the rest of `packed` */
    bool     has_stream;  /* inflater is initialised */
    bool     stream_done; /* a compressed stream has ended; a further one may follow */
};

/* One read of at most n bytes; *got is 0 at the end of the file. */
static est_status read_some(est_byte_source *s, uint8_t *to, size_t n, size_t *got)
{
    ssize_t count;

    do {
        count = EST_FAULT_POINT("byte_source.read") ? (errno = EIO, -1) : read(s->fd, to, n);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        int        error  = errno;
        est_status status = est_status_from_errno(error);

        if (status == EST_OK || status == EST_UNKNOWN) status = EST_DATA_LOSS; /* EIO: the disk has lost it */
        return est_fail(status, "cannot read %s: %s", s->path, strerror(error));
    }
    *got = (size_t)count;
    return EST_OK;
}

/* --- compressed contents ------------------------------------------------------------------------------------------ */

/* Makes the inflater ready for the first byte of a stream, keeping the input it has. */
static est_status inflater_start(est_byte_source *s)
{
    int window = s->compression == EST_COMPRESSION_GZIP ? EST_GZIP_WINDOW : EST_ZLIB_WINDOW;

    s->stream_done = false;
    if (s->has_stream) {
        inflateReset(&s->inflater);
        return EST_OK;
    }
    if (inflateInit2(&s->inflater, window) != Z_OK) {
        return est_no_memory();
    }
    s->has_stream = true;
    return EST_OK;
}

static est_status packed_refill(est_byte_source *s)
{
    size_t got;

    EST_TRY(read_some(s, s->packed, PACKED_BYTES, &got));
    s->inflater.next_in  = s->packed;
    s->inflater.avail_in = (uInt)got;
    return EST_OK;
}

/* Inflates into `to`; *got is 0 only at the end. A file is one stream, or several one after the other. */
static est_status inflate_some(est_byte_source *s, uint8_t *to, size_t n, size_t *got)
{
    z_stream *z = &s->inflater;

    z->next_out  = to;
    z->avail_out = n < UINT32_MAX ? (uInt)n : UINT32_MAX;
    while (z->next_out == to) {
        int  code;
        bool at_end;

        if (z->avail_in == 0) EST_TRY(packed_refill(s));
        at_end = z->avail_in == 0;
        if (s->stream_done) {
            if (at_end) break;
            EST_TRY(inflater_start(s));
        }
        code = inflate(z, Z_NO_FLUSH); /* also at the end: it may hold back output that there was no room for */
        if (code == Z_STREAM_END) {
            s->stream_done = true;
        } else if (z->next_out != to) {
            break; /* the bytes before an error are good; the error occurs again */
        } else if (code != Z_OK && code != Z_BUF_ERROR) {
            return est_fail(EST_DATA_LOSS, "%s: cannot decompress after byte %" PRIu64 " of its contents: %s", s->path,
                            s->offset + (s->end - s->start), z->msg != NULL ? z->msg : zError(code));
        } else if (at_end) {
            return est_fail(EST_DATA_LOSS,
                            "%s: the compressed file is cut short, after byte %" PRIu64 " of its contents", s->path,
                            s->offset + (s->end - s->start));
        }
    }
    *got = (size_t)(z->next_out - to);
    return EST_OK;
}

static est_status fill(est_byte_source *s, uint8_t *to, size_t n, size_t *got)
{
    return s->packed != NULL ? inflate_some(s, to, n, got) : read_some(s, to, n, got);
}

/* --- the view ----------------------------------------------------------------------------------------------------- */

/* Copies the last bytes before the view into before[], so that a mark still has them after they are dropped. */
static void keep_before(est_byte_source *s)
{
    size_t fresh = s->start < EST_BYTE_SOURCE_PIECE ? s->start : EST_BYTE_SOURCE_PIECE;
    size_t old   = EST_BYTE_SOURCE_PIECE - fresh < s->n_before ? EST_BYTE_SOURCE_PIECE - fresh : s->n_before;

    memmove(s->before, s->before + s->n_before - old, old);
    memcpy(s->before + old, s->buffer + s->start - fresh, fresh);
    s->n_before = old + fresh;
}

/* Makes room at the end of the buffer: drops what was used, then doubles, but not beyond what `need` asks for. */
static est_status make_room(est_byte_source *s, size_t need)
{
    size_t   capacity;
    uint8_t *buffer;

    if (s->start > 0) {
        keep_before(s);
        memmove(s->buffer, s->buffer + s->start, s->end - s->start);
        s->end -= s->start;
        s->start = 0;
    }
    if (s->end < s->capacity) return EST_OK;
    capacity = need / 2 > s->capacity ? 2 * s->capacity : need;
    buffer   = est_realloc(s->buffer, capacity);
    if (buffer == NULL) {
        return est_no_memory();
    }
    s->buffer   = buffer;
    s->capacity = capacity;
    return EST_OK;
}

est_status est_byte_source_need(est_byte_source *source, size_t n, est_str *view)
{
    est_byte_source *s = source;

    while (s->end - s->start < n) {
        size_t got;

        if (n > s->capacity - s->start || s->end == s->capacity) EST_TRY(make_room(s, n));
        EST_TRY(fill(s, s->buffer + s->end, s->capacity - s->end, &got));
        s->end += got;
        if (got == 0) break;
    }
    *view = (est_str){ (const char *)s->buffer + s->start, s->end - s->start };
    return EST_OK;
}

bool est_byte_source_is_ready(const est_byte_source *source)
{
    struct pollfd input = { .fd = source->fd, .events = POLLIN };

    return source->packed != NULL || poll(&input, 1, 0) != 0; /* an error is for the reader to find */
}

void est_byte_source_skip(est_byte_source *source, size_t n)
{
    source->start += n;
    source->offset += n;
}

est_status est_byte_source_read(est_byte_source *source, void *to, size_t n, size_t *got)
{
    est_byte_source *s    = source;
    size_t           done = s->end - s->start;

    if (done > n) done = n;
    if (done > 0) memcpy(to, s->buffer + s->start, done);
    est_byte_source_skip(s, done);
    if (done < n) s->start = s->end = s->n_before = 0; /* the view is empty; the rest goes past the buffer */
    while (done < n) {
        size_t more;

        EST_TRY(fill(s, (uint8_t *)to + done, n - done, &more));
        if (more == 0) break;
        done += more;
        s->offset += more;
    }
    *got = done;
    return done == n ? EST_OK : EST_OUT_OF_RANGE;
}

uint64_t est_byte_source_tell(const est_byte_source *source)
{
    return source->offset;
}

static est_status fail_beyond(const est_byte_source *s, uint64_t size, uint64_t offset)
{
    return est_fail(EST_OUT_OF_RANGE, "%s: has %" PRIu64 " bytes, none at %" PRIu64, s->path, size, offset);
}

/* Goes to a byte of a plain file, or back to the first one of a compressed file. */
static est_status restart_at(est_byte_source *s, uint64_t offset)
{
    uint64_t size = est_byte_source_file_bytes(s);

    if (offset > size) return fail_beyond(s, size, offset);
    if (lseek(s->fd, (off_t)offset, SEEK_SET) < 0) {
        return est_fail(EST_FAILED_PRECONDITION, "%s: cannot go to byte %" PRIu64 ": %s", s->path, offset,
                        strerror(errno));
    }
    s->start = s->end = s->n_before = 0;
    s->offset                       = offset;
    if (s->packed == NULL) return EST_OK;
    s->inflater.avail_in = 0;
    return inflater_start(s);
}

/* Drops contents until `offset`. */
static est_status skip_to(est_byte_source *s, uint64_t offset)
{
    while (s->offset < offset) {
        uint64_t rest = offset - s->offset;
        est_str  view;

        EST_TRY(est_byte_source_need(s, 1, &view));
        if (view.size == 0) return fail_beyond(s, s->offset, offset);
        est_byte_source_skip(s, view.size < rest ? view.size : (size_t)rest);
    }
    return EST_OK;
}

est_status est_byte_source_seek(est_byte_source *source, uint64_t offset)
{
    est_byte_source *s     = source;
    uint64_t         first = s->offset - s->start; /* what was used and not dropped is still there */

    if (offset >= first && offset <= first + s->end) {
        s->start  = (size_t)(offset - first);
        s->offset = offset;
        return EST_OK;
    }
    if (s->packed == NULL) return restart_at(s, offset);
    if (offset < s->offset) EST_TRY(restart_at(s, 0));
    return skip_to(s, offset);
}

/* --- marks -------------------------------------------------------------------------------------------------------- */

est_byte_source_mark est_byte_source_get_mark(const est_byte_source *source)
{
    const est_byte_source *s = source;
    uint32_t               piece;

    if (s->start >= EST_BYTE_SOURCE_PIECE) {
        piece = est_crc32c(s->buffer + s->start - EST_BYTE_SOURCE_PIECE, EST_BYTE_SOURCE_PIECE);
    } else {
        size_t n = EST_BYTE_SOURCE_PIECE - s->start < s->n_before ? EST_BYTE_SOURCE_PIECE - s->start : s->n_before;

        piece = est_crc32c_extend(est_crc32c(s->before + s->n_before - n, n), s->buffer, s->start);
    }
    return (est_byte_source_mark){ .offset = s->offset, .piece = piece };
}

est_status est_byte_source_seek_mark(est_byte_source *source, const est_byte_source_mark *mark)
{
    size_t     n    = mark->offset < EST_BYTE_SOURCE_PIECE ? (size_t)mark->offset : EST_BYTE_SOURCE_PIECE;
    est_str    view = { "", 0 };
    est_status status;

    status = est_byte_source_seek(source, mark->offset - n);
    if (status == EST_OK) status = est_byte_source_need(source, n, &view);
    if (status != EST_OK && status != EST_OUT_OF_RANGE) return status;
    if (status == EST_OUT_OF_RANGE || view.size < n || est_crc32c(view.data, n) != mark->piece) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "%s has changed since: the bytes before byte %" PRIu64 ", where reading would resume, differ",
                        source->path, mark->offset);
    }
    est_byte_source_skip(source, n);
    return EST_OK;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

/* Whether these are the first bytes (or all) of a zlib stream. */
static bool inflates(uint8_t *bytes, size_t size, bool all)
{
    z_stream z = { .next_in = bytes, .avail_in = (uInt)size };
    uint8_t  ignored[1024];
    int      code;

    if (inflateInit2(&z, EST_ZLIB_WINDOW) != Z_OK) return true; /* further reading reports the error */
    do {
        z.next_out  = ignored;
        z.avail_out = sizeof ignored;
        code        = inflate(&z, Z_SYNC_FLUSH);
    } while (code == Z_OK && z.avail_out == 0);
    inflateEnd(&z);
    return code == Z_STREAM_END || (!all && (code == Z_OK || code == Z_BUF_ERROR));
}

static bool is_text(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bool blank = bytes[i] == '\t' || bytes[i] == '\n' || bytes[i] == '\r' || bytes[i] == '\f';

        if ((bytes[i] < ' ' && !blank) || bytes[i] == 0x7f) return false;
    }
    return true;
}

static est_compression detect(const uint8_t *bytes, size_t size)
{
    if (size < 2) return EST_COMPRESSION_NONE;
    if (bytes[0] == GZIP_MAGIC && bytes[1] == 0x8b) return EST_COMPRESSION_GZIP;
    if (bytes[0] != ZLIB_MAGIC || (bytes[0] << 8 | bytes[1]) % ZLIB_HEADER_CHECK != 0) return EST_COMPRESSION_NONE;
    return (bytes[1] & ZLIB_DICTIONARY) == 0 ? EST_COMPRESSION_ZLIB : EST_COMPRESSION_NONE;
}

/* One of zlib's headers is text, "x^". Whether the file is text that begins so, and no zlib stream. */
static est_status look_again(est_byte_source *s, bool *text)
{
    est_str view;
    size_t  size;

    EST_TRY(est_byte_source_need(s, TRIAL_BYTES, &view));
    size  = view.size < TRIAL_BYTES ? view.size : TRIAL_BYTES;
    *text = is_text(s->buffer, size) && !inflates(s->buffer, size, size < TRIAL_BYTES);
    return EST_OK;
}

/* Moves what was read as plain over to the inflater. */
static est_status turn_compressed(est_byte_source *s)
{
    size_t size = s->end > PACKED_BYTES ? s->end : PACKED_BYTES;

    s->packed = est_alloc(size);
    if (s->packed == NULL) return est_no_memory();
    memcpy(s->packed, s->buffer, s->end);
    s->inflater.next_in  = s->packed;
    s->inflater.avail_in = (uInt)s->end;
    s->end               = 0;
    return inflater_start(s);
}

/* Reads the bytes that identify the compression, not more: the writer of a pipe may wait for an answer to a line. */
static est_status see_magic(est_byte_source *s, bool for_is_plain)
{
    est_str view;

    EST_TRY(est_byte_source_need(s, for_is_plain ? PLAIN_BYTES : 1, &view));
    if (s->end == 0 || (s->buffer[0] != GZIP_MAGIC && s->buffer[0] != ZLIB_MAGIC)) return EST_OK;
    return est_byte_source_need(s, 2, &view);
}

static est_status find_compression(est_byte_source *s, bool (*is_plain)(const uint8_t *bytes, size_t size))
{
    if (s->compression == EST_COMPRESSION_DEFAULT) {
        EST_TRY(see_magic(s, is_plain != NULL));
        s->compression = detect(s->buffer, s->end);
        if (s->compression == EST_COMPRESSION_ZLIB && s->buffer[1] == '^') {
            bool text;

            EST_TRY(look_again(s, &text));
            if (text) s->compression = EST_COMPRESSION_NONE;
        }
        if (is_plain != NULL && is_plain(s->buffer, s->end)) s->compression = EST_COMPRESSION_NONE;
    }
    if (s->compression == EST_COMPRESSION_NONE) return EST_OK;
    EST_TRY(turn_compressed(s));
    if (s->inflater.avail_in == 0) EST_TRY(packed_refill(s));
    s->stream_done = s->inflater.avail_in == 0; /* an empty file has no contents, whatever its kind */
    return EST_OK;
}

est_status est_byte_source_open(const char *path, const est_byte_source_options *options, est_byte_source **out)
{
    est_byte_source_options o = options != NULL ? *options : (est_byte_source_options){ 0 };
    est_byte_source        *s;
    est_status              status;

    if (o.compression < EST_COMPRESSION_DEFAULT || o.compression > EST_COMPRESSION_GZIP) {
        return est_fail(EST_INVALID_ARGUMENT, "%d is not an est_compression", (int)o.compression);
    }
    if (o.buffer_bytes == 0) o.buffer_bytes = BUFFER_BYTES;
    if (o.buffer_bytes < BUFFER_MIN) o.buffer_bytes = BUFFER_MIN;
    if (o.buffer_bytes > UINT32_MAX / 2) o.buffer_bytes = UINT32_MAX / 2; /* zlib counts in 32 bits */
    s = est_zalloc(sizeof *s);
    if (s == NULL) return est_no_memory();
    s->compression = o.compression;
    s->capacity    = o.buffer_bytes;
    s->path        = est_strdup(path);
    s->buffer      = est_alloc(s->capacity);
    s->fd          = open(path, O_RDONLY | O_CLOEXEC);
    if (s->path == NULL || s->buffer == NULL) {
        status = est_no_memory();
    } else if (s->fd < 0) {
        int error = errno;

        status = est_fail(est_status_from_errno(error), "cannot open %s: %s", path, strerror(error));
    } else {
        status = find_compression(s, o.is_plain);
    }
    if (status != EST_OK) {
        est_byte_source_close(s);
        return status;
    }
    *out = s;
    return EST_OK;
}

void est_byte_source_close(est_byte_source *source)
{
    if (source == NULL) return;
    if (source->has_stream) inflateEnd(&source->inflater);
    if (source->fd >= 0) close(source->fd);
    est_free(source->packed);
    est_free(source->buffer);
    est_free(source->path);
    est_free(source);
}

uint64_t est_byte_source_file_bytes(const est_byte_source *source)
{
    struct stat about;

    if (fstat(source->fd, &about) != 0 || !S_ISREG(about.st_mode)) return UINT64_MAX;
    return (uint64_t)about.st_size;
}

const char *est_byte_source_path(const est_byte_source *source)
{
    return source->path;
}

est_compression est_byte_source_compression(const est_byte_source *source)
{
    return source->compression;
}
