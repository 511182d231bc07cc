/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: known bytes, round trips whole and in slices, merging, files written by TensorFlow
 * (tests/golden/format), and every cut and flipped byte noticed. */
#include <dirent.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "format/bundle.h"
#include "format/bundle_index.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/test.h"

/* A path under the test's directory; good for the next three calls. */
static const char *at(const char *name)
{
    static char paths[4][256];
    static int  turn;

    turn = (turn + 1) % 4;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", est_test_root, name);
    return paths[turn];
}

static void check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static est_tensor *make(est_dtype dtype, est_shape shape, const void *data)
{
    est_tensor *tensor = NULL;

    check(est_tensor_create_from(dtype, shape, data, &tensor));
    return tensor;
}

/* float32 0, 1, 2, ... */
static est_tensor *count_up(est_shape shape)
{
    est_tensor *tensor = NULL;

    check(est_tensor_create(EST_F32, shape, &tensor));
    for (int64_t i = 0; i < est_tensor_count(tensor); i++) ((float *)est_tensor_mutable_data(tensor))[i] = (float)i;
    return tensor;
}

static void expect_equal(const est_tensor *a, const est_tensor *b)
{
    assert_int_equal(est_tensor_dtype(a), est_tensor_dtype(b));
    assert_true(est_shape_equal(est_tensor_shape(a), est_tensor_shape(b)));
    if (est_tensor_dtype(a) != EST_STRING) {
        assert_memory_equal(est_tensor_data(a), est_tensor_data(b), est_tensor_bytes(a));
        return;
    }
    for (int64_t i = 0; i < est_tensor_count(a); i++) {
        est_str x = ((const est_str *)est_tensor_data(a))[i], y = ((const est_str *)est_tensor_data(b))[i];

        assert_int_equal(x.size, y.size);
        assert_memory_equal(x.data, y.data, x.size);
    }
}

static void expect_file(const char *path, const void *want, size_t want_size)
{
    char  *bytes;
    size_t size;

    check(est_file_read(path, &bytes, &size));
    assert_int_equal(size, want_size);
    assert_memory_equal(bytes, want, size);
    est_free(bytes);
}

/* --- the small checkpoint of the format's description ------------------------------------------------------------- */

static const char *const small_names[4] = { "b", "global_step", "names", "w" };

static void small_tensors(est_tensor *out[4])
{
    const est_str strings[3] = { { "ab", 2 }, { "", 0 }, { "xyz", 3 } };

    out[0] = make(EST_F32, EST_SHAPE(3), (const float[]){ 1, 2, 3 });
    out[1] = make(EST_I64, EST_SHAPE_SCALAR, (const int64_t[]){ 7 });
    out[2] = make(EST_STRING, EST_SHAPE(3), strings);
    out[3] = make(EST_F32, EST_SHAPE(2, 3), (const float[]){ 1, 2, 3, 4, 5, 6 });
}

static void free_all(est_tensor **tensors, int n)
{
    for (int i = 0; i < n; i++) est_tensor_free(tensors[i]);
}

static est_status write_small(const char *prefix, est_tensor *const tensors[4])
{
    est_bundle_writer *writer = NULL;
    est_status         status = est_bundle_writer_create(prefix, 0, &writer);

    for (int i = 0; i < 4 && status == EST_OK; i++) status = est_bundle_add(writer, small_names[i], tensors[i]);
    if (status == EST_OK) status = est_bundle_finish(writer);
    est_bundle_writer_free(writer);
    return status;
}

/* EST_OK only when every tensor was read and right. */
static est_status read_small(const char *prefix, est_tensor *const want[4])
{
    est_bundle *bundle = NULL;
    est_status  status = est_bundle_open(prefix, &bundle);

    if (status != EST_OK) return status;
    assert_int_equal(est_bundle_count(bundle), 4);
    for (int i = 0; i < 4; i++) {
        est_tensor *got = NULL;
        est_status  one = est_bundle_read(bundle, small_names[i], NULL, &got);

        if (one == EST_OK) {
            expect_equal(got, want[i]);
        } else {
            assert_null(got);
            status = one;
        }
        est_tensor_free(got);
    }
    est_bundle_close(bundle);
    return status;
}

TEST(known_bytes)
{
    static const unsigned char data[56] = {
        0, 0,    0x80, 0x3f, 0,    0,    0,    0x40, 0,    0,    0x40, 0x40, 7,    0,    0, 0,    0,    0,    0,
        0, 2,    0,    3,    0x1b, 0x42, 0x8b, 0xca, 0x61, 0x62, 0x78, 0x79, 0x7a, 0,    0, 0x80, 0x3f, 0,    0,
        0, 0x40, 0,    0,    0x40, 0x40, 0,    0,    0x80, 0x40, 0,    0,    0xa0, 0x40, 0, 0,    0xc0, 0x40,
    };
    est_tensor *tensors[4];
    char       *index;
    size_t      size;

    small_tensors(tensors);
    check(write_small(at("small"), tensors));
    expect_file(at("small.data-00000-of-00001"), data, sizeof data);
    check(est_file_read(at("small.index"), &index, &size));
    assert_int_equal(size, 198); /* its bytes are in the test of tables */
    est_free(index);
    check(read_small(at("small"), tensors));
    free_all(tensors, 4);
}

TEST(slice_keys)
{
    static const struct {
        est_bundle_slice slice;
        const char      *key;
        size_t           size;
    } cases[] = {
        { { 2, { 0, 0 }, { 50, 16 } }, "\0emb\0\1\1\2\x80\xb2\x80\x90", 12 },
        { { 2, { 50, 0 }, { 50, 16 } }, "\0emb\0\1\1\2\xb2\xb2\x80\x90", 12 },
        { { 2, { 0, 0 }, { 1000, -1 } }, "\0emb\0\1\1\2\x80\xc3\xe8\x80\x7f", 13 },
        { { 1, { 64 }, { 8192 } }, "\0emb\0\1\1\1\xc0\x40\xe0\x20\x00", 13 },
        { { 1, { 0x424242 }, { 8191 } }, "\0emb\0\1\1\1\xf0\x42\x42\x42\xdf\xff", 14 },
        { { 1, { INT64_MAX }, { 1 } }, "\0emb\0\1\1\1\xff\xc0\x7f\xff\xff\xff\xff\xff\xff\xff\x81", 19 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        est_strbuf key = { 0 };

        est_bundle_slice_key(&key, "emb", &cases[i].slice);
        assert_int_equal(key.size, cases[i].size);
        assert_memory_equal(key.data, cases[i].key, key.size);
        est_strbuf_clear(&key);
    }
}

/* Every dtype, scalars, empty ones, and sizes around those of the buffers. */
TEST(round_trip)
{
    const int64_t      lengths[] = { 0, 1, 7, 16383, 16384, 16385, 300000, 1000003 };
    const size_t       aligns[]  = { 0, 64, 4096 };
    est_tensor        *tensors[16];
    int                n          = 0;
    const est_str      strings[2] = { { "a\0b", 3 }, { est_test_root, 1 } };
    char              *long_text  = malloc(200000);
    est_bundle_writer *writer;
    est_bundle        *bundle;

    memset(long_text, 'x', 200000);
    for (size_t i = 0; i < 8; i++) tensors[n++] = count_up(EST_SHAPE(lengths[i]));
    tensors[n++] = make(EST_F64, EST_SHAPE(1, 2), (const double[]){ 0.1, -1e300 });
    tensors[n++] = make(EST_I32, EST_SHAPE(2, 1), (const int32_t[]){ -1, INT32_MIN });
    tensors[n++] = make(EST_U8, EST_SHAPE(3), (const uint8_t[]){ 0, 127, 255 });
    tensors[n++] = make(EST_BOOL, EST_SHAPE(2), (const uint8_t[]){ 1, 0 });
    tensors[n++] = make(EST_I64, EST_SHAPE(1, 1, 1, 1, 1, 1, 1, 2), (const int64_t[]){ INT64_MIN, 1 });
    tensors[n++] = make(EST_STRING, EST_SHAPE(2, 1), strings);
    tensors[n++] = make(EST_STRING, EST_SHAPE(0, 4), NULL);
    tensors[n++] = make(EST_STRING, EST_SHAPE_SCALAR, &(est_str){ long_text, 200000 });

    for (size_t a = 0; a < 3; a++) {
        check(est_bundle_writer_create(at("round"), aligns[a], &writer));
        for (int i = 0; i < n; i++) {
            char name[32];

            snprintf(name, sizeof name, "scope/v_%d", i);
            check(est_bundle_add(writer, name, tensors[i]));
        }
        check(est_bundle_finish(writer));
        est_bundle_writer_free(writer);

        check(est_bundle_open(at("round"), &bundle));
        assert_int_equal(est_bundle_count(bundle), n);
        for (int i = 0; i < n; i++) {
            const est_bundle_entry *entry;
            est_tensor             *got;
            char                    name[32];

            snprintf(name, sizeof name, "scope/v_%d", i);
            entry = est_bundle_find(bundle, name);
            assert_non_null(entry);
            assert_int_equal(entry->dtype, est_tensor_dtype(tensors[i]));
            if (aligns[a] > 0) assert_int_equal(entry->offset % (int64_t)aligns[a], 0);
            check(est_bundle_read(bundle, name, NULL, &got));
            expect_equal(got, tensors[i]);
            check(est_bundle_read_into(bundle, name, NULL, got));
            expect_equal(got, tensors[i]);
            est_tensor_free(got);
        }
        assert_true(strcmp(est_bundle_at(bundle, 0)->name, est_bundle_at(bundle, 1)->name) < 0);
        est_bundle_close(bundle);
    }
    free_all(tensors, n);
    free(long_text);
}

TEST(pieces)
{
    est_tensor        *want = count_up(EST_SHAPE(100, 30)), *got;
    const char        *data = est_tensor_data(want);
    est_bundle_writer *writer;
    est_bundle        *bundle;
    est_shape          shape = EST_SHAPE(100, 30);

    check(est_bundle_writer_create(at("pieces"), 0, &writer));
    assert_int_equal(est_bundle_append(writer, "x", 1), EST_FAILED_PRECONDITION);
    check(est_bundle_begin(writer, "v", EST_F32, &shape, NULL));
    for (size_t i = 0; i < 12000; i += 1000) check(est_bundle_append(writer, data + i, 1000));
    assert_int_equal(est_bundle_add(writer, "other", want), EST_FAILED_PRECONDITION); /* v is still open */
    check(est_bundle_end(writer));
    check(est_bundle_begin(writer, "short", EST_F32, &shape, NULL));
    check(est_bundle_append(writer, data, 1000));
    assert_int_equal(est_bundle_end(writer), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "\"short\": 1000 bytes were written, its shape needs 12000"));
    check(est_bundle_finish(writer));
    assert_int_equal(est_bundle_add(writer, "late", want), EST_FAILED_PRECONDITION);
    est_bundle_writer_free(writer);

    check(est_bundle_open(at("pieces"), &bundle));
    check(est_bundle_read(bundle, "v", NULL, &got));
    expect_equal(got, want);
    est_tensor_free(got);
    est_bundle_close(bundle);
    est_tensor_free(want);
}

/* --- slices ------------------------------------------------------------------------------------------------------- */

/* The box of a [_, 7, 5] tensor that counts up, by hand. */
static void expect_box(const est_tensor *got, const est_bundle_slice *s)
{
    const float *data = est_tensor_data(got);
    int64_t      n    = 0;

    for (int64_t i = 0; i < s->length[0]; i++) {
        for (int64_t j = 0; j < s->length[1]; j++) {
            for (int64_t k = 0; k < s->length[2]; k++) {
                int64_t want = ((s->start[0] + i) * 7 + s->start[1] + j) * 5 + s->start[2] + k;

                assert_int_equal((int64_t)data[n++], want);
            }
        }
    }
    assert_int_equal(n, est_tensor_count(got));
}

static void read_boxes(const est_bundle *bundle, const char *name)
{
    for (int t = 0; t < 300; t++) {
        est_bundle_slice s      = { .rank = 3 };
        const int64_t    dim[3] = { 11, 7, 5 };
        est_tensor      *got;

        for (int i = 0; i < 3; i++) {
            s.start[i]  = random() % (dim[i] + 1);
            s.length[i] = random() % (dim[i] - s.start[i] + 1);
        }
        check(est_bundle_read(bundle, name, &s, &got));
        expect_box(got, &s);
        est_tensor_free(got);
    }
}

/* Adds box `s` of the [11, 7, 5] tensor that counts up. */
static void add_box(est_bundle_writer *writer, const char *name, est_bundle_slice s)
{
    est_shape        full = EST_SHAPE(11, 7, 5);
    est_bundle_slice whole;
    est_tensor      *tensor;
    float           *data;
    int64_t          n = 0;

    check(est_bundle_slice_resolve(&s, &full, &whole));
    check(est_tensor_create(EST_F32, est_bundle_slice_shape(&whole), &tensor));
    data = est_tensor_mutable_data(tensor);
    for (int64_t i = 0; i < whole.length[0]; i++) {
        for (int64_t j = 0; j < whole.length[1]; j++) {
            for (int64_t k = 0; k < whole.length[2]; k++) {
                data[n++] = (float)(((whole.start[0] + i) * 7 + whole.start[1] + j) * 5 + whole.start[2] + k);
            }
        }
    }
    check(est_bundle_add_slice(writer, name, &full, &s, tensor));
    est_tensor_free(tensor);
}

TEST(slices)
{
    est_bundle_writer *writer;
    est_bundle        *bundle;
    est_tensor        *all = count_up(EST_SHAPE(11, 7, 5)), *got;
    est_bundle_slice   s;

    check(est_bundle_writer_create(at("slices"), 0, &writer));
    check(est_bundle_add(writer, "whole", all));
    for (int i = 0; i < 11; i++) add_box(writer, "rows", EST_BUNDLE_SLICE(i, 1, 0, 7, 0, 5));
    add_box(writer, "columns", EST_BUNDLE_SLICE(0, -1, 0, -1, 0, 2));
    add_box(writer, "columns", EST_BUNDLE_SLICE(0, -1, 0, -1, 2, 3));
    add_box(writer, "boxes", EST_BUNDLE_SLICE(0, 4, 0, 7, 0, 5));
    add_box(writer, "boxes", EST_BUNDLE_SLICE(4, 7, 0, 3, 0, -1));
    add_box(writer, "boxes", EST_BUNDLE_SLICE(4, 7, 3, 4, 0, 1));
    add_box(writer, "boxes", EST_BUNDLE_SLICE(4, 7, 3, 4, 1, 4));
    add_box(writer, "one", EST_BUNDLE_SLICE(0, 11, 0, -1, 0, 5));
    add_box(writer, "hole", EST_BUNDLE_SLICE(0, 5, 0, -1, 0, 5));
    add_box(writer, "twice", EST_BUNDLE_SLICE(0, 6, 0, -1, 0, 5));
    add_box(writer, "twice", EST_BUNDLE_SLICE(5, 6, 0, -1, 0, 5));
    check(est_bundle_finish(writer));
    est_bundle_writer_free(writer);

    check(est_bundle_open(at("slices"), &bundle));
    assert_int_equal(est_bundle_count(bundle), 7);
    assert_int_equal(est_bundle_find(bundle, "one")->n_slices, 0); /* a slice of everything is the tensor */
    assert_int_equal(est_bundle_find(bundle, "rows")->n_slices, 11);
    read_boxes(bundle, "whole");
    read_boxes(bundle, "rows");
    read_boxes(bundle, "columns");
    read_boxes(bundle, "boxes");
    read_boxes(bundle, "one");
    check(est_bundle_read(bundle, "boxes", NULL, &got));
    expect_equal(got, all);
    est_tensor_free(got);

    s = EST_BUNDLE_SLICE(0, 5, 0, -1, 2, 3);
    check(est_bundle_read(bundle, "hole", &s, &got));
    est_tensor_free(got);
    assert_int_equal(est_bundle_read(bundle, "hole", NULL, &got), EST_NOT_FOUND);
    assert_non_null(strstr(est_error_message(), "the slices of \"hole\" lack 210 of the requested elements"));
    assert_int_equal(est_bundle_read(bundle, "twice", NULL, &got), EST_DATA_LOSS);
    s = EST_BUNDLE_SLICE(0, 12, 0, -1, 2, 3);
    assert_int_equal(est_bundle_read(bundle, "whole", &s, &got), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "0,12:-:2,3"));
    est_bundle_close(bundle);
    est_tensor_free(all);
}

TEST(string_slices)
{
    const est_str text[6] = { { "a", 1 }, { "bb", 2 }, { "", 0 }, { "dddd", 4 }, { "e", 1 }, { "ff", 2 } };
    est_tensor   *top = make(EST_STRING, EST_SHAPE(1, 3), text), *bottom = make(EST_STRING, EST_SHAPE(1, 3), text + 3);
    est_tensor   *got;
    est_shape     full    = EST_SHAPE(2, 3);
    est_bundle_slice   s0 = EST_BUNDLE_SLICE(0, 1, 0, 3), s1 = EST_BUNDLE_SLICE(1, 1, 0, 3), middle;
    est_bundle_writer *writer;
    est_bundle        *bundle;

    check(est_bundle_writer_create(at("strings"), 0, &writer));
    check(est_bundle_add_slice(writer, "s", &full, &s0, top));
    check(est_bundle_add_slice(writer, "s", &full, &s1, bottom));
    check(est_bundle_finish(writer));
    est_bundle_writer_free(writer);
    check(est_bundle_open(at("strings"), &bundle));
    middle = EST_BUNDLE_SLICE(0, 2, 1, 1);
    check(est_bundle_read(bundle, "s", &middle, &got));
    assert_memory_equal(((const est_str *)est_tensor_data(got))[0].data, "bb", 2);
    assert_memory_equal(((const est_str *)est_tensor_data(got))[1].data, "e", 1);
    est_tensor_free(got);
    est_bundle_close(bundle);
    est_tensor_free(top);
    est_tensor_free(bottom);
}

/* --- merging ------------------------------------------------------------------------------------------------------ */

static void write_part(const char *prefix, int part, bool empty)
{
    est_tensor        *one = count_up(EST_SHAPE(part + 1));
    est_bundle_writer *writer;
    char               name[16];

    snprintf(name, sizeof name, "only_%d", part);
    check(est_bundle_writer_create(prefix, 0, &writer));
    if (!empty) {
        add_box(writer, "shared", EST_BUNDLE_SLICE(part * 5, part == 0 ? 5 : 6, 0, 7, 0, 5));
        check(est_bundle_add(writer, name, one));
    }
    check(est_bundle_finish(writer));
    est_bundle_writer_free(writer);
    est_tensor_free(one);
}

TEST(merge)
{
    char              parts[3][256];
    const char *const list[3] = { parts[0], parts[1], parts[2] };
    est_bundle       *bundle;
    est_tensor       *got;

    for (int i = 0; i < 3; i++) snprintf(parts[i], sizeof parts[i], "%s/part-%05d-of-00003", est_test_root, i);
    write_part(parts[0], 0, false);
    write_part(parts[1], 5, true); /* no tensors: leaves no data file */
    write_part(parts[2], 1, false);
    check(est_bundle_merge(list, 3, at("merged")));
    assert_true(est_file_exists(at("merged.data-00000-of-00002")));
    assert_true(est_file_exists(at("merged.data-00001-of-00002")));
    for (int i = 0; i < 3; i++) {
        char path[1024];

        snprintf(path, sizeof path, "%s.index", parts[i]);
        assert_false(est_file_exists(path));
        snprintf(path, sizeof path, "%s.data-00000-of-00001", parts[i]);
        assert_false(est_file_exists(path));
    }
    check(est_bundle_open(at("merged"), &bundle));
    assert_int_equal(est_bundle_count(bundle), 3);
    read_boxes(bundle, "shared");
    check(est_bundle_read(bundle, "only_1", NULL, &got));
    assert_int_equal(est_tensor_count(got), 2);
    est_tensor_free(got);
    est_bundle_close(bundle);

    /* The same tensor twice: refused, and the parts are still there. */
    write_part(parts[0], 0, false);
    write_part(parts[1], 0, false);
    assert_int_equal(est_bundle_merge(list, 2, at("merged2")), EST_ALREADY_EXISTS);
    assert_false(est_file_exists(at("merged2.index")));
    check(est_bundle_open(parts[0], &bundle));
    check(est_bundle_read(bundle, "only_0", NULL, &got));
    est_tensor_free(got);
    est_bundle_close(bundle);
}

static void write_old(const char *prefix, const char *name)
{
    est_tensor        *one = count_up(EST_SHAPE(3));
    est_bundle_writer *writer;

    check(est_bundle_writer_create(prefix, 0, &writer));
    check(est_bundle_add(writer, name, one));
    check(est_bundle_finish(writer));
    est_bundle_writer_free(writer);
    est_tensor_free(one);
}

/* How many files of the root start like that. */
static int count_files(const char *start)
{
    DIR           *handle = opendir(est_test_root);
    struct dirent *entry;
    int            n = 0;

    assert_non_null(handle);
    while ((entry = readdir(handle)) != NULL) n += strncmp(entry->d_name, start, strlen(start)) == 0;
    closedir(handle);
    return n;
}

/* Any failing call leaves the checkpoint that had the name whole, or the merged one; and no more of the parts than all
 * of them. */
TEST(merge_failures)
{
    char              parts[2][256];
    const char *const list[2] = { parts[0], parts[1] };

    for (int i = 0; i < 2; i++) snprintf(parts[i], sizeof parts[i], "%s/fragment%d", est_test_root, i);
    for (int old = 0; old < 3; old++) { /* data files of the one before */
        FAULT_LOOP(f, FAULT_POINTS) {
            est_bundle *bundle;
            bool        failed;

            for (int i = 0; i < 3; i++) est_bundle_remove_data(at("again"), i + 1);
            unlink(at("again.index"));
            if (old == 1) write_old(at("again"), "old");
            if (old == 2) {
                write_old(parts[0], "old");
                write_old(parts[1], "older");
                check(est_bundle_merge(list, 2, at("again")));
            }
            write_part(parts[0], 0, false);
            write_part(parts[1], 1, false);
            fault_arm(&f);
            failed = est_bundle_merge(list, 2, at("again")) != EST_OK;
            (void)fault_end(&f);
            if (count_files("fragment") != 0) assert_true(failed && count_files("fragment") == 4);
            for (int i = 0; i < 2; i++) est_bundle_remove_data(parts[i], 1);
            for (int i = 0; i < 2; i++) unlink(i == 0 ? at("fragment0.index") : at("fragment1.index"));
            if (failed && old == 0) {
                assert_int_equal(count_files("again."), 0);
                continue;
            }
            check(est_bundle_open(at("again"), &bundle));
            if (!failed) read_boxes(bundle, "shared");
            if (!failed) assert_null(est_bundle_find(bundle, "old"));
            if (!failed) assert_int_equal(count_files("again."), 3);
            for (int i = 0; i < est_bundle_count(bundle); i++) {
                check(est_bundle_verify(bundle, est_bundle_at(bundle, i)->name));
            }
            est_bundle_close(bundle);
        }
    }
}

/* --- files of TensorFlow ------------------------------------------------------------------------------------------ */

#define GOLDEN EST_SOURCE_DIR "/tests/golden/format/"

static void expect_read(const est_bundle *bundle, const char *name, est_tensor *want)
{
    est_tensor *got;

    check(est_bundle_read(bundle, name, NULL, &got));
    expect_equal(got, want);
    est_tensor_free(got);
    est_tensor_free(want);
}

TEST(read_tensorflow)
{
    est_bundle *bundle;
    est_tensor *wide;
    char        accents[200];
    est_str     names[4] = { { "ab", 2 }, { "", 0 }, { "xyz", 3 }, { accents, 200 } };
    float       w[6];

    for (int i = 0; i < 200; i++) accents[i] = i % 2 == 0 ? '\xc3' : '\xa9';
    for (int i = 0; i < 6; i++) w[i] = (float)i;
    check(est_tensor_create(EST_F64, EST_SHAPE(7, 10), &wide));
    for (int i = 0; i < 70; i++) ((double *)est_tensor_mutable_data(wide))[i] = i;

    check(est_bundle_open(GOLDEN "tensorflow.ckpt", &bundle));
    assert_int_equal(est_bundle_count(bundle), 11);
    assert_int_equal(est_bundle_find(bundle, "emb")->n_slices, 3);
    assert_int_equal(est_bundle_find(bundle, "wide")->n_slices, 4);
    expect_read(bundle, "b", make(EST_F32, EST_SHAPE(3), (const float[]){ 1, 2, 3 }));
    expect_read(bundle, "d", make(EST_F64, EST_SHAPE(1, 2), (const double[]){ 0.1, -1e300 }));
    expect_read(bundle, "empty", count_up(EST_SHAPE(0, 4)));
    expect_read(bundle, "flags", make(EST_BOOL, EST_SHAPE(3), (const uint8_t[]){ 1, 0, 1 }));
    expect_read(bundle, "global_step", make(EST_I64, EST_SHAPE_SCALAR, (const int64_t[]){ 7 }));
    expect_read(bundle, "i", make(EST_I32, EST_SHAPE(2, 1), (const int32_t[]){ -1, INT32_MAX }));
    expect_read(bundle, "u", make(EST_U8, EST_SHAPE(3), (const uint8_t[]){ 0, 127, 255 }));
    expect_read(bundle, "w", make(EST_F32, EST_SHAPE(2, 3), w));
    expect_read(bundle, "names", make(EST_STRING, EST_SHAPE(4), names));
    expect_read(bundle, "emb", count_up(EST_SHAPE(10, 4)));
    expect_read(bundle, "wide", wide);
    est_bundle_close(bundle);
}

TEST(unknown_dtype)
{
    est_bundle *bundle;
    est_tensor *got;

    check(est_bundle_open(GOLDEN "half.ckpt", &bundle));
    assert_int_equal(est_bundle_count(bundle), 2);
    assert_int_equal(est_bundle_at(bundle, 0)->dtype, 19);
    assert_int_equal(est_bundle_read(bundle, "half", NULL, &got), EST_UNIMPLEMENTED);
    assert_non_null(strstr(est_error_message(), "\"half\" has a dtype that is not supported"));
    expect_read(bundle, "plain", make(EST_F32, EST_SHAPE(2), (const float[]){ 1, 2 }));
    est_bundle_close(bundle);
}

/* A stored piece of TensorFlow's checkpoint: a tensor, or a slice of one. */
typedef struct stored {
    const est_bundle_entry *entry;
    const est_bundle_slice *slice; /* NULL: all of it */
    int64_t                 offset;
} stored;

static int by_offset(const void *a, const void *b)
{
    const stored *x = a, *y = b;

    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The same tensors written in the same order make the same bytes. */
TEST(write_as_tensorflow)
{
    est_bundle        *bundle;
    est_bundle_writer *writer;
    stored             pieces[32];
    int                n = 0;
    char              *want;
    size_t             size;
    const char *const  suffix[2] = { ".index", ".data-00000-of-00001" };

    check(est_bundle_open(GOLDEN "tensorflow.ckpt", &bundle));
    for (int i = 0; i < est_bundle_count(bundle); i++) {
        const est_bundle_entry *entry = est_bundle_at(bundle, i);

        if (entry->n_slices == 0) pieces[n++] = (stored){ entry, NULL, entry->offset };
        for (int s = 0; s < entry->n_slices; s++) {
            const est_bundle_entry *piece = est_bundle_find_slice(bundle, entry, s);

            assert_non_null(piece);
            pieces[n++] = (stored){ entry, &entry->slices[s], piece->offset };
        }
    }
    qsort(pieces, (size_t)n, sizeof *pieces, by_offset);
    check(est_bundle_writer_create(at("same"), 0, &writer));
    for (int i = 0; i < n; i++) {
        est_tensor *tensor;

        check(est_bundle_read(bundle, pieces[i].entry->name, pieces[i].slice, &tensor));
        if (pieces[i].slice == NULL) {
            check(est_bundle_add(writer, pieces[i].entry->name, tensor));
        } else {
            check(
                est_bundle_add_slice(writer, pieces[i].entry->name, &pieces[i].entry->shape, pieces[i].slice, tensor));
        }
        est_tensor_free(tensor);
    }
    check(est_bundle_finish(writer));
    est_bundle_writer_free(writer);
    est_bundle_close(bundle);
    for (int i = 0; i < 2; i++) {
        char path[1024], ours[1024];

        snprintf(path, sizeof path, GOLDEN "tensorflow.ckpt%s", suffix[i]);
        snprintf(ours, sizeof ours, "%s/same%s", est_test_root, suffix[i]);
        check(est_file_read(path, &want, &size));
        expect_file(ours, want, size);
        est_free(want);
    }
}

/* --- errors and damage -------------------------------------------------------------------------------------------- */

TEST(errors)
{
    est_tensor        *tensors[4], *got = NULL;
    est_bundle_writer *writer;
    est_bundle        *bundle;
    est_shape          full = EST_SHAPE(6);
    est_bundle_slice   s    = EST_BUNDLE_SLICE(0, 3);

    small_tensors(tensors);
    check(est_bundle_writer_create(at("errors"), 0, &writer));
    check(est_bundle_add(writer, "v", tensors[0]));
    assert_int_equal(est_bundle_add(writer, "v", tensors[0]), EST_ALREADY_EXISTS);
    assert_int_equal(est_bundle_add_slice(writer, "v", &full, &s, tensors[0]), EST_ALREADY_EXISTS);
    assert_int_equal(est_bundle_add(writer, "", tensors[0]), EST_INVALID_ARGUMENT);
    check(est_bundle_add_slice(writer, "p", &full, &s, tensors[0]));
    assert_int_equal(est_bundle_add_slice(writer, "p", &full, &s, tensors[0]), EST_ALREADY_EXISTS);
    full = EST_SHAPE(7);
    s    = EST_BUNDLE_SLICE(3, 3);
    assert_int_equal(est_bundle_add_slice(writer, "p", &full, &s, tensors[0]), EST_INVALID_ARGUMENT);
    assert_int_equal(est_bundle_add_slice(writer, "q", &full, &s, tensors[3]), EST_INVALID_ARGUMENT);
    est_bundle_writer_free(writer);
    assert_false(est_file_exists(at("errors.index")));
    assert_int_equal(est_bundle_writer_create(at("no/such/dir/x"), 0, &writer), EST_NOT_FOUND);
    assert_int_equal(est_bundle_open(at("errors"), &bundle), EST_NOT_FOUND);

    check(write_small(at("errors"), tensors));
    check(est_bundle_open(at("errors"), &bundle));
    assert_int_equal(est_bundle_read(bundle, "nobody", NULL, &got), EST_NOT_FOUND);
    assert_non_null(strstr(est_error_message(), "has no tensor \"nobody\""));
    assert_int_equal(est_bundle_read_into(bundle, "w", NULL, tensors[0]), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "\"w\" is float32 [2,3] in the checkpoint, not float32 [3]"));
    assert_null(got);
    est_bundle_close(bundle);
    free_all(tensors, 4);
}

static void put_file(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* Each file of the small checkpoint cut at every byte and with every bit flipped: an error, or the right values. */
TEST(every_cut_and_flip)
{
    const char *const suffix[2] = { ".index", ".data-00000-of-00001" };
    est_tensor       *tensors[4];
    char              prefix[256], path[1024];

    small_tensors(tensors);
    snprintf(prefix, sizeof prefix, "%s", at("damaged"));
    check(write_small(prefix, tensors));
    for (int f = 0; f < 2; f++) {
        char  *bytes;
        size_t size;
        int    n_same = 0;

        snprintf(path, sizeof path, "%s%s", prefix, suffix[f]);
        check(est_file_read(path, &bytes, &size));
        for (size_t n = 0; n < size; n++) {
            put_file(path, bytes, n);
            assert_int_equal(read_small(prefix, tensors), EST_DATA_LOSS);
            assert_non_null(strstr(est_error_message(), prefix));
        }
        for (size_t bit = 0; bit < 8 * size; bit++) {
            est_status status;

            bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
            put_file(path, bytes, size);
            bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
            status         = read_small(prefix, tensors);
            if (status == EST_OK) n_same++;
            if (status != EST_OK) assert_int_equal(status, EST_DATA_LOSS);
        }
        assert_true(n_same <= 1); /* one bit of the footer only spells the same number longer */
        put_file(path, bytes, size);
        est_free(bytes);
    }
    snprintf(path, sizeof path, "%s%s", prefix, suffix[1]);
    unlink(path);
    assert_int_equal(read_small(prefix, tensors), EST_NOT_FOUND);
    free_all(tensors, 4);
}

/* Every allocation and every system call fails once: an error, no leak, and never a checkpoint that is not whole. */
TEST(failures)
{
    est_tensor *tensors[4];

    small_tensors(tensors);
    FAULT_LOOPS(f) {
        est_status status;

        unlink(at("faulty.index"));
        unlink(at("faulty.data-00000-of-00001"));
        fault_arm(&f);
        status = write_small(at("faulty"), tensors);
        if (status == EST_OK) status = read_small(at("faulty"), tensors);
        fault_check_lenient(&f, status);
        if (est_file_exists(at("faulty.index"))) check(read_small(at("faulty"), tensors));
    }
    free_all(tensors, 4);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
