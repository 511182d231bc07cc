/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading TFRecord files: records are handed out as pointers into the view that est_byte_source has of the file.
 *
 * A length is believed only after its checksum, and memory grows with what has arrived, not with what a length
 * promises. */
#include "format/tfrecord.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/options.h"

#define RECORD_MAX ((size_t)1 << 30) /* what 0 means for record_bytes_max */

struct est_tfrecord_reader {
    est_byte_source *source;
    size_t           record_max;
    uint64_t         record; /* its number, of the one at hand */
    bool             is_cut; /* the file ended within it when it was last read */
};

/* Fails at the record the reader stands before. */
#define fail_record(r, status, fmt, ...)                                                                               \
    est_fail(status, "%s: record %" PRIu64 " at byte %" PRIu64 fmt, est_byte_source_path((r)->source), (r)->record,    \
             est_byte_source_tell((r)->source), __VA_ARGS__)

/* --- opening ------------------------------------------------------------------------------------------------------ */

/* The length of a plain file's first record may look like the magic number of a compressed file. */
static bool is_plain(const uint8_t *bytes, size_t size)
{
    return size >= EST_TFRECORD_HEADER && est_tfrecord_header_good(bytes);
}

static est_status check_options(const est_tfrecord_read_options *options, est_tfrecord_read_options *out)
{
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_tfrecord_read_options), options, out));
    if (out->record_bytes_max == 0) out->record_bytes_max = RECORD_MAX;
    return EST_OK;
}

est_status est_tfrecord_open(const char *path, const est_tfrecord_read_options *options, est_tfrecord_reader **out)
{
    est_tfrecord_read_options o;
    est_tfrecord_reader      *r;
    est_status                status;

    EST_REQUIRE(path);
    EST_REQUIRE(out);
    EST_TRY(check_options(options, &o));
    r = est_zalloc(sizeof *r);
    if (r == NULL) return est_no_memory();
    r->record_max = o.record_bytes_max;
    status        = est_byte_source_open(path,
                                         &(est_byte_source_options){ .compression  = o.compression,
                                                                     .buffer_bytes = o.buffer_bytes,
                                                                     .is_plain     = is_plain },
                                         &r->source);
    if (status != EST_OK) {
        est_free(r);
        return status;
    }
    *out = r;
    return EST_OK;
}

void est_tfrecord_close(est_tfrecord_reader *reader)
{
    if (reader == NULL) return;
    est_byte_source_close(reader->source);
    est_free(reader);
}

/* --- records ------------------------------------------------------------------------------------------------------ */

static est_status need_bytes(est_tfrecord_reader *r, size_t n, est_str *view)
{
    est_status status = est_byte_source_need(r->source, n, view);

    if (status == EST_OK) return EST_OK;
    return est_fail_context(status, "record %" PRIu64 " at byte %" PRIu64, r->record, est_byte_source_tell(r->source));
}

/* Has the header of the record at hand in view, and tells the length it gives; EST_OUT_OF_RANGE when there is none. */
static est_status read_header(est_tfrecord_reader *r, est_str *view, size_t *size)
{
    const uint8_t *header;
    uint64_t       length;

    r->is_cut = false;
    EST_TRY(need_bytes(r, EST_TFRECORD_HEADER, view));
    if (view->size == 0) return EST_OUT_OF_RANGE;
    if (view->size < EST_TFRECORD_HEADER) {
        r->is_cut = true;
        return fail_record(r, EST_DATA_LOSS, ": cut short: its header has %zu of %d bytes", view->size,
                           EST_TFRECORD_HEADER);
    }
    header = (const uint8_t *)view->data;
    if (!est_tfrecord_header_good(header)) {
        return fail_record(r, EST_DATA_LOSS, ": damaged: the checksum of its length is wrong%s",
                           r->record == 0 ? "; is this a TFRecord file?" : "");
    }
    length = est_wire_load64(header);
    if (length > r->record_max) {
        return fail_record(r, EST_RESOURCE_EXHAUSTED, " has %" PRIu64 " bytes, the limit is %zu", length,
                           r->record_max);
    }
    *size = (size_t)length;
    return EST_OK;
}

/* Has the record at hand in view, with its header and footer; its bytes are not checked yet. */
static est_status read_record(est_tfrecord_reader *r, est_str *whole)
{
    size_t size, n;

    EST_TRY(read_header(r, whole, &size));
    if (size > SIZE_MAX - EST_TFRECORD_HEADER - EST_TFRECORD_FOOTER) size = SIZE_MAX / 2;
    n = EST_TFRECORD_HEADER + size + EST_TFRECORD_FOOTER;
    if (whole->size < n) EST_TRY(need_bytes(r, n, whole));
    if (whole->size < n) {
        r->is_cut = true;
        return fail_record(r, EST_DATA_LOSS, ": cut short: %zu of %zu bytes are there", whole->size, n);
    }
    whole->size = n;
    return EST_OK;
}

static void pass_record(est_tfrecord_reader *r, est_str whole)
{
    est_byte_source_skip(r->source, whole.size);
    r->record++;
}

est_status est_tfrecord_next(est_tfrecord_reader *reader, est_str *record)
{
    est_tfrecord_reader *r = reader;
    const uint8_t       *bytes;
    size_t               size;
    est_str              whole;

    EST_REQUIRE(reader);
    EST_REQUIRE(record);
    EST_TRY(read_record(r, &whole));
    bytes = (const uint8_t *)whole.data + EST_TFRECORD_HEADER;
    size  = whole.size - EST_TFRECORD_HEADER - EST_TFRECORD_FOOTER;
    if (est_wire_load32(bytes + size) != est_tfrecord_crc(bytes, size)) {
        return fail_record(r, EST_DATA_LOSS, ": damaged: the checksum of its %zu bytes is wrong", size);
    }
    pass_record(r, whole);
    *record = (est_str){ (const char *)bytes, size };
    return EST_OK;
}

bool est_tfrecord_step_over(est_tfrecord_reader *reader)
{
    est_str whole;

    if (read_record(reader, &whole) != EST_OK) return false;
    pass_record(reader, whole);
    return true;
}

bool est_tfrecord_is_cut(const est_tfrecord_reader *reader)
{
    return reader->is_cut;
}

est_tfrecord_position est_tfrecord_tell(const est_tfrecord_reader *reader)
{
    return reader != NULL
               ? (est_tfrecord_position){ .offset = est_byte_source_tell(reader->source), .record = reader->record }
               : (est_tfrecord_position){ 0 };
}

est_status est_tfrecord_seek(est_tfrecord_reader *reader, est_tfrecord_position position)
{
    EST_REQUIRE(reader);
    EST_TRY(est_byte_source_seek(reader->source, position.offset));
    reader->record = position.record;
    return EST_OK;
}

est_byte_source *est_tfrecord_source(est_tfrecord_reader *reader)
{
    return reader->source;
}
