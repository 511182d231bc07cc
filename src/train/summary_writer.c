/* SPDX-License-Identifier: Apache-2.0
 *
 * The summary writer: collects values into one Summary message and appends it to the event file. After the first
 * failure the file is closed and all calls do nothing. */
#include "train/summary_writer.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "format/png.h"
#include "format/summary.h"
#include "tensor/tensor.h"

#define FLUSH_SECS 5 /* a flush is one write of a few hundred bytes: microseconds */

struct est_summary_writer {
    char             *dir, *suffix;
    char             *path;      /* NULL: not created yet */
    est_event_writer *file;      /* NULL: not created yet, or failed */
    est_status        status;    /* the first failure */
    est_wire_writer   values;    /* of the event being collected */
    est_histogram    *histogram; /* NULL until the first value */
    int64_t           step;
    int64_t           flushed_ns;
    bool              shown;  /* a summary was written: the first one is flushed at once for TensorBoard */
    bool              urgent; /* the next tick flushes */
};

est_status est_summary_writer_create(const char *dir, const char *suffix, est_summary_writer **out)
{
    est_summary_writer *writer;

    EST_REQUIRE(dir);
    EST_REQUIRE(suffix);
    EST_REQUIRE(out);
    writer = est_zalloc(sizeof *writer);
    if (writer != NULL) {
        writer->dir    = est_strdup(dir);
        writer->suffix = est_strdup(suffix);
    }
    if (writer == NULL || writer->dir == NULL || writer->suffix == NULL) {
        est_summary_writer_free(writer);
        return est_no_memory();
    }
    *out = writer;
    return EST_OK;
}

const char *est_summary_writer_path(const est_summary_writer *writer)
{
    return writer != NULL && writer->path != NULL ? writer->path : "";
}

est_status est_summary_writer_status(const est_summary_writer *writer)
{
    EST_REQUIRE(writer);
    return writer->status;
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

/* Keeps the first failure, logs it once, and continues without a file. */
static void check(est_summary_writer *writer, est_status status)
{
    est_event_writer *file = writer->file;
    est_error         error;

    if (status == EST_OK || writer->status != EST_OK) return;
    writer->status = status;
    est_error_take(status, &error);
    est_log_warn("%s: cannot write; no more summaries are written: %s", writer->dir, error.message);
    writer->file = NULL;
    if (est_event_writer_close(file) != EST_OK) est_log_debug("%s", est_error_message());
    (void)est_error_raise(&error); /* for est_summary_writer_status */
}

/* Finds a free name. Readers order files by name, so a taken name moves to a later second. */
static est_status choose_path(est_summary_writer *writer)
{
    int64_t seconds                 = est_wall_ns() / EST_NS_PER_SEC;
    char    host[HOST_NAME_MAX + 1] = "";
    char   *path;

    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') memcpy(host, "localhost", sizeof "localhost");
    for (;; seconds++) {
        EST_TRY(est_event_file_path(writer->dir, seconds, host, writer->suffix, &path));
        if (!est_file_exists(path)) break;
        est_free(path);
    }
    writer->path = path;
    return EST_OK;
}

static est_status make_file(est_summary_writer *writer)
{
    EST_TRY(est_dir_create(writer->dir));
    EST_TRY(choose_path(writer));
    EST_TRY(est_event_writer_create(writer->path, est_wall_secs(), &writer->file));
    writer->flushed_ns = est_now_ns();
    return EST_OK;
}

/* Whether there is a file to write to. */
static bool has_file(est_summary_writer *writer)
{
    if (writer->status != EST_OK) return false;
    if (writer->file == NULL) check(writer, make_file(writer));
    return writer->file != NULL;
}

static void write_event(est_summary_writer *writer, est_event_kind kind, int64_t step, est_str bytes)
{
    est_event event = { .wall_time = est_wall_secs(), .step = step, .kind = kind, .bytes = bytes };

    if (!has_file(writer)) return;
    check(writer, est_event_write(writer->file, &event));
    if (kind == EST_EVENT_SUMMARY && !writer->shown) writer->shown = writer->urgent = true;
    est_summary_tick(writer);
}

void est_summary_flush(est_summary_writer *writer)
{
    if (writer == NULL || writer->file == NULL) return;
    check(writer, est_event_flush(writer->file));
    writer->flushed_ns = est_now_ns();
    writer->urgent     = false;
}

void est_summary_tick(est_summary_writer *writer)
{
    if (writer->file == NULL) return;
    if (!writer->urgent && est_now_ns() - writer->flushed_ns < FLUSH_SECS * EST_NS_PER_SEC) return;
    est_summary_flush(writer);
}

void est_summary_writer_free(est_summary_writer *writer)
{
    est_event_writer *file;

    if (writer == NULL) return;
    file         = writer->file;
    writer->file = NULL;
    check(writer, est_event_writer_close(file));
    est_histogram_free(writer->histogram);
    est_wire_writer_clear(&writer->values);
    est_free(writer->path);
    est_free(writer->dir);
    est_free(writer->suffix);
    est_free(writer);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

void est_summary_begin(est_summary_writer *writer, int64_t step)
{
    if (writer == NULL) return;
    est_wire_writer_reset(&writer->values);
    writer->step = step;
}

void est_summary_end(est_summary_writer *writer)
{
    est_status status;

    if (writer == NULL) return;
    status = est_wire_writer_status(&writer->values);
    if (status != EST_OK) {
        check(writer, status);
    } else if (writer->values.size > 0) {
        write_event(writer, EST_EVENT_SUMMARY, writer->step,
                    (est_str){ (const char *)writer->values.data, writer->values.size });
    }
}

void est_summary_add_scalar(est_summary_writer *writer, const char *tag, double value)
{
    if (writer != NULL && tag != NULL) est_summary_put_scalar(&writer->values, tag, (float)value);
}

void est_summary_add_text(est_summary_writer *writer, const char *tag, est_str text)
{
    if (writer != NULL && tag != NULL) est_summary_put_text(&writer->values, tag, text);
}

void est_summary_add_histogram(est_summary_writer *writer, const char *tag, est_dtype dtype, const void *data,
                               int64_t n)
{
    if (writer == NULL || tag == NULL || (data == NULL && n > 0)) return;
    if (writer->histogram == NULL) check(writer, est_histogram_create(&writer->histogram));
    if (writer->histogram == NULL) return;
    est_histogram_reset(writer->histogram);
    for (int64_t i = 0; i < n; i++) est_histogram_add(writer->histogram, est_number_at(dtype, data, i));
    est_summary_put_histogram(&writer->values, tag, writer->histogram);
}

/* --- images ------------------------------------------------------------------------------------------------------- */

/* One picture of a batch: `values` points to its first element. */
typedef struct picture {
    est_dtype   dtype;
    const void *data;
    int64_t     first;
    int         height, width, channels;
} picture;

static bool pixel_is_finite(const picture *p, int64_t pixel)
{
    for (int c = 0; c < p->channels; c++) {
        if (!isfinite(est_number_at(p->dtype, p->data, p->first + pixel * p->channels + c))) return false;
    }
    return true;
}

/* The scale from numbers to bytes: without negative numbers the greatest becomes 255; else 0 becomes 128 and the number
 * of greatest magnitude becomes 1 or 255. Pixels with a NaN or an infinity are ignored. */
static void find_scale(const picture *p, double *scale, double *offset)
{
    double lowest = INFINITY, highest = -INFINITY, farthest;

    for (int64_t pixel = 0; pixel < (int64_t)p->height * p->width; pixel++) {
        if (!pixel_is_finite(p, pixel)) continue;
        for (int c = 0; c < p->channels; c++) {
            double value = est_number_at(p->dtype, p->data, p->first + pixel * p->channels + c);

            if (value < lowest) lowest = value;
            if (value > highest) highest = value;
        }
    }
    farthest = lowest < 0 ? fmax(-lowest, highest) : highest;
    *offset  = lowest < 0 ? 128 : 0;
    *scale   = farthest < 1e-6 ? 0 : (lowest < 0 ? 127 : 255) / farthest;
}

/* Numbers that are not bytes, scaled; red where they are not finite. */
static void scale_pixels(const picture *p, uint8_t *bytes)
{
    static const uint8_t red[4] = { 255, 0, 0, 255 };
    double               scale, offset;

    find_scale(p, &scale, &offset);
    for (int64_t pixel = 0; pixel < (int64_t)p->height * p->width; pixel++) {
        bool finite = pixel_is_finite(p, pixel);

        for (int c = 0; c < p->channels; c++) {
            int64_t at = pixel * p->channels + c;

            bytes[at] = finite ? (uint8_t)((float)est_number_at(p->dtype, p->data, p->first + at) * (float)scale +
                                           (float)offset)
                               : red[c];
        }
    }
}

static est_status put_picture(est_summary_writer *writer, const char *tag, const picture *p)
{
    uint8_t   *bytes = est_alloc((size_t)p->height * (size_t)p->width * (size_t)p->channels + 1), *png = NULL;
    size_t     size = 0;
    est_status status;

    if (bytes == NULL) return est_no_memory();
    if (p->dtype == EST_U8) {
        memcpy(bytes, (const uint8_t *)p->data + p->first, (size_t)p->height * (size_t)p->width * (size_t)p->channels);
    } else {
        scale_pixels(p, bytes);
    }
    status = est_png_encode(p->height, p->width, p->channels, bytes, &png, &size);
    if (status == EST_OK) {
        est_summary_put_image(&writer->values, tag, p->height, p->width, p->channels,
                              (est_str){ (const char *)png, size });
    }
    est_free(bytes);
    est_free(png);
    return status;
}

void est_summary_add_images(est_summary_writer *writer, const char *tag, est_dtype dtype, const est_shape *shape,
                            const void *data, int max)
{
    picture    p      = { .dtype = dtype, .data = data };
    est_strbuf name   = { 0 };
    est_status status = EST_OK;
    char       text[EST_SHAPE_TEXT_MAX];

    if (writer == NULL || tag == NULL || shape == NULL || data == NULL) return;
    if (shape->rank != 4 || shape->dim[3] < 1 || shape->dim[3] > 4 || shape->dim[1] > INT_MAX ||
        shape->dim[2] > INT_MAX) {
        est_log_warn("image summary '%s' has shape %s, expected [n, height, width, 1 to 4 channels]", tag,
                     est_shape_text(shape, text));
        return;
    }
    p.height   = (int)shape->dim[1];
    p.width    = (int)shape->dim[2];
    p.channels = (int)shape->dim[3];
    if (p.height == 0 || p.width == 0) return;
    for (int i = 0; i < max && i < shape->dim[0] && status == EST_OK; i++) {
        est_strbuf_reset(&name);
        est_strbuf_printf(&name, "%s/image", tag);
        if (max > 1) est_strbuf_printf(&name, "/%d", i);
        p.first = (int64_t)i * p.height * p.width * p.channels;
        status  = est_strbuf_status(&name);
        if (status == EST_OK) status = put_picture(writer, est_strbuf_text(&name), &p);
    }
    est_strbuf_clear(&name);
    check(writer, status);
}

/* --- other events ------------------------------------------------------------------------------------------------- */

void est_summary_graph(est_summary_writer *writer, int64_t step, est_str graph_def)
{
    if (writer == NULL || (graph_def.data == NULL && graph_def.size > 0)) return;
    write_event(writer, EST_EVENT_GRAPH, step, graph_def);
}

void est_summary_session_log(est_summary_writer *writer, est_session_status session, const char *checkpoint_path,
                             int64_t step)
{
    est_session_log log     = { .status = session, .checkpoint_path = { checkpoint_path, strlen(checkpoint_path) } };
    est_wire_writer message = { 0 };
    est_status      status;

    est_session_log_put(&message, &log);
    status = est_wire_writer_status(&message);
    if (status == EST_OK) {
        write_event(writer, EST_EVENT_SESSION_LOG, step, (est_str){ (const char *)message.data, message.size });
        writer->urgent = true; /* flushed with the summaries of the same step, which follow it */
    } else {
        check(writer, status);
    }
    est_wire_writer_clear(&message);
}
