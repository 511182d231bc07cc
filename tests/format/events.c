/* SPDX-License-Identifier: Apache-2.0
 *
 * The public reader of event files: every kind of entry in both forms, directories, files that end within an event and
 * grow, and damage. tests/interop/event.c has what TensorFlow writes. */
#include "estoc/events.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "format/event.h"
#include "format/summary.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define GOLDEN EST_SOURCE_DIR "/tests/golden/format/tensorflow.events"
#define TIME   1700000000.25

static char dir[64], first[128], second[128];

static int make_dir(void **state)
{
    (void)state;
    est_test_dir(dir);
    snprintf(first, sizeof first, "%s/events.out.tfevents.0000000001.h", dir);
    snprintf(second, sizeof second, "%s/events.out.tfevents.0000000002.h.v2", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return est_dir_remove(dir) != EST_OK;
}

static void check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static void expect_str(est_str got, const char *want)
{
    if (got.size != strlen(want) || memcmp(got.data, want, got.size) != 0) {
        fail_msg("\"%.*s\", expected \"%s\"", (int)got.size, got.data, want);
    }
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static void write_event(est_event_writer *writer, int64_t step, est_event_kind kind, est_str bytes)
{
    check(est_event_write(writer, &(est_event){ .wall_time = TIME, .step = step, .kind = kind, .bytes = bytes }));
}

/* One event that has all kinds of values. */
static void write_values(est_event_writer *writer, int64_t step)
{
    static const double values[] = { 1, 2, 3, 4 };
    est_wire_writer     w        = { 0 };
    est_histogram      *h        = NULL;

    check(est_histogram_create(&h));
    for (int i = 0; i < 4; i++) est_histogram_add(h, values[i]);
    est_summary_put_scalar(&w, "loss", 0.5F);
    est_summary_put_scalar_v2(&w, "loss2", 0.125F);
    est_summary_put_text(&w, "text", (est_str){ "**bold**", 8 });
    est_summary_put_histogram(&w, "h1", h);
    est_summary_put_histogram_v2(&w, "h2", values, 4, 3);
    est_summary_put_image(&w, "i1", 4, 5, 3, (est_str){ "png", 3 });
    est_summary_put_image_v2(&w, "i2", 4, 5, (est_str){ "png", 3 });
    est_histogram_free(h);
    check(est_wire_writer_status(&w));
    write_event(writer, step, EST_EVENT_SUMMARY, (est_str){ (const char *)w.data, w.size });
    est_wire_writer_clear(&w);
}

static void write_scalar(est_event_writer *writer, int64_t step, float value)
{
    est_wire_writer w = { 0 };

    est_summary_put_scalar(&w, "loss", value);
    check(est_wire_writer_status(&w));
    write_event(writer, step, EST_EVENT_SUMMARY, (est_str){ (const char *)w.data, w.size });
    est_wire_writer_clear(&w);
}

/* A version, a graph, all values at step 5. */
static void write_all(const char *path)
{
    est_event_writer *writer = NULL;

    check(est_event_writer_create(path, TIME, &writer));
    write_event(writer, 0, EST_EVENT_GRAPH, (est_str){ "\x22\x03\x08\x86\x01", 5 });
    write_values(writer, 5);
    check(est_event_writer_close(writer));
}

static void write_scalars(const char *path, int64_t begin, int64_t end)
{
    est_event_writer *writer = NULL;

    check(est_event_writer_create(path, TIME, &writer));
    for (int64_t i = begin; i < end; i++) write_scalar(writer, i, (float)i / 2);
    check(est_event_writer_close(writer));
}

static void put_file(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* --- kinds -------------------------------------------------------------------------------------------------------- */

static void expect_numbers(const est_event_entry *entry, est_dtype dtype, int rank, const double *want, int64_t n)
{
    est_tensor *tensor = NULL;

    check(est_entry_tensor(entry, &tensor));
    assert_int_equal(est_tensor_dtype(tensor), dtype);
    assert_int_equal(est_tensor_shape(tensor)->rank, rank);
    assert_int_equal(est_tensor_count(tensor), n);
    for (int64_t i = 0; i < n; i++) {
        double got = dtype == EST_F32 ? (double)((const float *)est_tensor_data(tensor))[i]
                                      : ((const double *)est_tensor_data(tensor))[i];

        if (fabs(got - want[i]) > 1e-12) fail_msg("element %d is %g, expected %g", (int)i, got, want[i]);
    }
    est_tensor_free(tensor);
}

static void expect_image(const est_event_entry *entry)
{
    est_tensor    *tensor = NULL;
    const est_str *strings;

    check(est_entry_tensor(entry, &tensor));
    assert_int_equal(est_tensor_count(tensor), 3);
    strings = est_tensor_data(tensor);
    expect_str(strings[0], "5");
    expect_str(strings[1], "4");
    expect_str(strings[2], "png");
    est_tensor_free(tensor);
}

/* The rows of the first form: from the least value to the greatest, and 4 in all. */
static void expect_histogram(const est_event_entry *entry)
{
    est_tensor   *tensor = NULL;
    const double *row;
    double        count = 0;
    int64_t       n;

    check(est_entry_tensor(entry, &tensor));
    assert_int_equal(est_tensor_dtype(tensor), EST_F64);
    n   = est_tensor_shape(tensor)->dim[0];
    row = est_tensor_data(tensor);
    assert_true(n > 4 && row[0] == 1 && row[3 * n - 2] == 4);
    for (int64_t i = 0; i < n; i++) {
        assert_true(row[3 * i] < row[3 * i + 1] && (i == 0 || row[3 * i] == row[3 * i - 2]));
        count += row[3 * i + 2];
    }
    assert_true(count == 4);
    est_tensor_free(tensor);
}

TEST(kinds)
{
    static const struct {
        const char    *tag, *plugin, *text;
        est_entry_kind kind;
        double         number;
    } want[] = {
        { NULL, "", "brain.Event:2", EST_ENTRY_VERSION, NAN },
        { NULL, "", "", EST_ENTRY_GRAPH, NAN },
        { "loss", "", "", EST_ENTRY_SCALAR, 0.5 },
        { "loss2", "scalars", "", EST_ENTRY_SCALAR, 0.125 },
        { "text", "text", "**bold**", EST_ENTRY_TEXT, NAN },
        { "h1", "", "", EST_ENTRY_HISTOGRAM, NAN },
        { "h2", "histograms", "", EST_ENTRY_HISTOGRAM, NAN },
        { "i1", "", "", EST_ENTRY_IMAGE, NAN },
        { "i2", "images", "", EST_ENTRY_IMAGE, NAN },
    };
    est_events     *events = NULL;
    est_event_entry entry;
    est_tensor     *tensor = NULL;

    write_all(first);
    check(est_events_open(first, &events));
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        check(est_events_next(events, &entry));
        assert_string_equal(entry.path, first);
        assert_int_equal(entry.record, i < 2 ? i : 2);
        assert_int_equal(entry.step, i < 2 ? 0 : 5);
        assert_true(entry.wall_time == TIME);
        assert_int_equal(entry.kind, want[i].kind);
        assert_int_equal(entry.tag.data == NULL, want[i].tag == NULL);
        if (want[i].tag != NULL) expect_str(entry.tag, want[i].tag);
        expect_str(entry.plugin, want[i].plugin);
        expect_str(entry.text, want[i].text);
        assert_true(entry.number == want[i].number || (isnan(entry.number) && isnan(want[i].number)));
        if (entry.kind == EST_ENTRY_SCALAR) expect_numbers(&entry, EST_F32, 0, &want[i].number, 1);
        if (i == 1) assert_int_equal(entry.bytes.size, 5);
        if (i == 1) assert_int_equal(est_entry_tensor(&entry, &tensor), EST_INVALID_ARGUMENT);
        if (i == 5) expect_histogram(&entry);
        if (i == 6) expect_numbers(&entry, EST_F64, 2, (const double[]){ 1, 2, 1, 2, 3, 1, 3, 4, 2 }, 9);
        if (i >= 7) expect_image(&entry);
    }
    assert_int_equal(est_events_next(events, &entry), EST_OUT_OF_RANGE);
    assert_false(est_events_is_cut(events, NULL, NULL));
    est_events_close(events);
    est_events_close(NULL);
}

/* The file of TensorFlow: both forms, a checkpoint. */
TEST(tensorflow)
{
    static const est_entry_kind kinds[] = { EST_ENTRY_VERSION, EST_ENTRY_SCALAR,  EST_ENTRY_HISTOGRAM, EST_ENTRY_TEXT,
                                            EST_ENTRY_IMAGE,   EST_ENTRY_SESSION, EST_ENTRY_SCALAR,    EST_ENTRY_TEXT };
    est_events                 *events  = NULL;
    est_event_entry             entry;

    check(est_events_open(GOLDEN, &events));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        check(est_events_next(events, &entry));
        assert_int_equal(entry.kind, kinds[i]);
    }
    assert_int_equal(est_events_next(events, &entry), EST_OUT_OF_RANGE);
    est_events_close(events);
}

/* --- directories -------------------------------------------------------------------------------------------------- */

/* Reads the scalars that there are from now on: their steps must be these. */
static void expect_steps(est_events *events, int64_t begin, int64_t end)
{
    est_event_entry entry;
    est_status      status;

    while ((status = est_events_next(events, &entry)) == EST_OK) {
        if (entry.kind != EST_ENTRY_SCALAR) continue;
        assert_int_equal(entry.step, begin++);
        assert_true(entry.number == (double)entry.step / 2);
    }
    assert_int_equal(status, EST_OUT_OF_RANGE);
    assert_int_equal(begin, end);
}

/* Half an event at the end of the first file, whose writer was killed, hides nothing of the second. */
TEST(directory)
{
    est_events *events = NULL;
    char       *bytes  = NULL, other[128];
    size_t      size;

    snprintf(other, sizeof other, "%s/checkpoint", dir);
    put_file(other, "no event", 8);
    write_scalars(first, 0, 5);
    write_scalars(second, 4, 7);
    check(est_file_read(first, &bytes, &size));
    put_file(first, bytes, size - 3); /* step 4 is cut, and was written again */
    est_free(bytes);
    check(est_events_open(dir, &events));
    expect_steps(events, 0, 7);
    assert_false(est_events_is_cut(events, NULL, NULL)); /* the last file is whole */
    est_events_close(events);
    check(est_file_remove(second));
    check(est_file_remove(first));
    assert_int_equal(est_events_open(dir, &events), EST_NOT_FOUND);
    assert_non_null(strstr(est_error_message(), "no event file is in this directory"));
    assert_int_equal(est_events_open(first, &events), EST_NOT_FOUND);
    check(est_file_remove(other));
}

/* --- live files and damage ---------------------------------------------------------------------------------------- */

/* Cut at any byte: what is whole is read, the rest when it has come. */
TEST(every_cut)
{
    char  *bytes = NULL;
    size_t size, at[4];

    for (int i = 0; i < 4; i++) { /* where the file with i scalars ends */
        write_scalars(first, 0, i);
        est_free(bytes);
        check(est_file_read(first, &bytes, &size));
        at[i] = size;
    }
    for (size_t n = at[0]; n < size; n++) {
        est_events *events = NULL;
        uint64_t    record, offset;
        int         whole = n >= at[2] ? 2 : n >= at[1] ? 1 : 0;

        put_file(first, bytes, n);
        check(est_events_open(first, &events));
        expect_steps(events, 0, whole);
        assert_int_equal(est_events_is_cut(events, &record, &offset), n != at[whole]);
        assert_int_equal(record, 1 + whole);
        assert_int_equal(offset, at[whole]);
        put_file(first, bytes, size);
        expect_steps(events, whole, 3);
        assert_false(est_events_is_cut(events, NULL, NULL));
        est_events_close(events);
    }
    est_free(bytes);
}

TEST(every_flip)
{
    char  *bytes = NULL;
    size_t size;

    write_all(first);
    check(est_file_read(first, &bytes, &size));
    for (size_t i = 0; i < size; i++) {
        est_events     *events = NULL;
        est_event_entry entry;
        est_status      status;

        bytes[i] = (char)(bytes[i] ^ 4);
        put_file(first, bytes, size);
        bytes[i] = (char)(bytes[i] ^ 4);
        check(est_events_open(first, &events));
        while ((status = est_events_next(events, &entry)) == EST_OK) continue;
        assert_int_equal(status, EST_DATA_LOSS);
        assert_non_null(strstr(est_error_message(), first));
        assert_non_null(strstr(est_error_message(), " at byte "));
        est_events_close(events);
    }
    est_free(bytes);
}

/* Checksums are right, but the messages are not. */
TEST(bad_messages)
{
    est_event_writer *writer = NULL;
    est_events       *events = NULL;
    est_event_entry   entry;
    est_tensor       *tensor = NULL;

    check(est_event_writer_create(first, TIME, &writer));
    write_event(writer, 1, EST_EVENT_SUMMARY, (est_str){ "\x0a\x7f", 2 }); /* a value longer than all */
    write_event(writer, 2, EST_EVENT_SUMMARY, (est_str){ "\x0a\x07\x0a\x01h\x2a\x02\x3a\x70", 9 }); /* a histogram */
    check(est_event_writer_close(writer));
    check(est_events_open(first, &events));
    check(est_events_next(events, &entry));
    assert_int_equal(est_events_next(events, &entry), EST_DATA_LOSS);
    assert_non_null(strstr(est_error_message(), ": event 1 at byte "));
    check(est_events_next(events, &entry)); /* the next one can be read */
    assert_int_equal(entry.kind, EST_ENTRY_HISTOGRAM);
    assert_int_equal(est_entry_tensor(&entry, &tensor), EST_DATA_LOSS);
    assert_non_null(strstr(est_error_message(), ": event 2 at byte "));
    est_events_close(events);
}

TEST(memory_failures)
{
    write_all(first);
    write_all(second);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_events     *events = NULL;
        est_event_entry entry;
        est_status      status;

        fault_arm(&f);
        status = est_events_open(dir, &events);
        while (status == EST_OK && (status = est_events_next(events, &entry)) == EST_OK) {
            est_tensor *tensor = NULL;

            if (entry.kind == EST_ENTRY_HISTOGRAM) status = est_entry_tensor(&entry, &tensor);
            est_tensor_free(tensor);
            if (status != EST_OK) break;
        }
        assert_int_equal(status, fault_end(&f) ? EST_RESOURCE_EXHAUSTED : EST_OUT_OF_RANGE);
        est_events_close(events);
    }
    check(est_file_remove(second));
}

int main(void)
{
    return est_test_run(make_dir, remove_dir);
}
