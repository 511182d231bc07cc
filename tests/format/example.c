/* SPDX-License-Identifier: Apache-2.0
 *
 * Example: known bytes, examples that TensorFlow wrote, forms that no writer makes against what protobuf reads in them,
 * every kind of row, errors, and damage of every byte. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "estoc/example.h"
#include "estoc/tfrecord.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define GOLDEN EST_SOURCE_DIR "/tests/golden/format/"
#define N(a)   (sizeof(a) / sizeof(a)[0])

/* a = [1, -1], s = ["hi"], x = [1.0, 0.5] */
static const uint8_t known[] = {
    0x0a, 0x36, 0x0a, 0x14, 0x0a, 0x01, 0x61, 0x12, 0x0f, 0x1a, 0x0d, 0x0a, 0x0b, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0x01, 0x0a, 0x0b, 0x0a, 0x01, 0x73, 0x12, 0x06, 0x0a, 0x04, 0x0a, 0x02, 0x68, 0x69, 0x0a,
    0x11, 0x0a, 0x01, 0x78, 0x12, 0x0c, 0x12, 0x0a, 0x0a, 0x08, 0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0x3f,
};

static const est_feature_spec known_specs[] = {
    { .name = "a", .dtype = EST_I64, .shape = { 1, { 2 } } },
    { .name = "s", .dtype = EST_STRING },
    { .name = "x", .dtype = EST_F32, .rows = EST_ROWS_RAGGED },
};

static void check_error(const char *text)
{
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in \"%s\"", text, est_error_message());
}

/* Parses with a parser of its own. */
static est_status parse(const est_feature_spec *specs, size_t n_specs, const est_str *examples, size_t n,
                        est_feature_batch *batch)
{
    est_example_parser *parser;
    est_status          status;

    EST_TRY(est_example_parser_create((est_feature_specs){ specs, n_specs }, &parser));
    status = est_example_parse(parser, examples, n, batch);
    est_example_parser_free(parser);
    return status;
}

static void check_ints(const est_tensor *tensor, const int64_t *want, size_t n)
{
    assert_int_equal(est_tensor_dtype(tensor), EST_I64);
    assert_int_equal(est_tensor_count(tensor), n);
    if (n > 0) assert_memory_equal(est_tensor_data(tensor), want, n * sizeof *want);
}

static void check_floats(const est_tensor *tensor, const float *want, size_t n)
{
    assert_int_equal(est_tensor_dtype(tensor), EST_F32);
    assert_int_equal(est_tensor_count(tensor), n);
    if (n > 0) assert_memory_equal(est_tensor_data(tensor), want, n * sizeof *want);
}

static void check_string(const est_tensor *tensor, int64_t i, const char *want)
{
    const est_str *s = (const est_str *)est_tensor_data(tensor) + i;

    assert_int_equal(s->size, strlen(want));
    assert_memory_equal(s->data, want, s->size);
}

static void check_shape(const est_tensor *tensor, est_shape want)
{
    char text[EST_SHAPE_TEXT_MAX];

    if (!est_shape_equal(est_tensor_shape(tensor), &want)) {
        fail_msg("shape %s", est_shape_text(est_tensor_shape(tensor), text));
    }
}

static bool same_tensor(const est_tensor *a, const est_tensor *b)
{
    if (a == NULL || b == NULL) return a == b;
    if (!est_shape_equal(est_tensor_shape(a), est_tensor_shape(b))) return false;
    if (est_tensor_dtype(a) != EST_STRING) {
        return memcmp(est_tensor_data(a), est_tensor_data(b), est_tensor_bytes(a)) == 0;
    }
    for (int64_t i = 0; i < est_tensor_count(a); i++) {
        const est_str *s = (const est_str *)est_tensor_data(a) + i, *t = (const est_str *)est_tensor_data(b) + i;

        if (s->size != t->size || memcmp(s->data, t->data, s->size) != 0) return false;
    }
    return true;
}

static bool same_batch(const est_feature_batch *a, const est_feature_batch *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!same_tensor(a[i].values, b[i].values) || !same_tensor(a[i].splits, b[i].splits)) return false;
        if (!same_tensor(a[i].lengths, b[i].lengths)) return false;
    }
    return true;
}

/* --- building ----------------------------------------------------------------------------------------------------- */

TEST(known_bytes)
{
    est_example *ex;
    est_str      bytes;

    assert_int_equal(est_example_create(&ex), EST_OK);
    for (int pass = 0; pass < 2; pass++) { /* a builder is used again */
        est_example_set_f32s(ex, "x", (const float[]){ 7, 8, 9 }, 3);
        est_example_set_f32s(ex, "x", (const float[]){ 1, 0.5f }, 2);
        est_example_set_bytes(ex, "s", &(est_str){ "hi", 2 }, 1);
        est_example_set_i64s(ex, "a", (const int64_t[]){ 1, -1 }, 2);
        assert_int_equal(est_example_serialize(ex, &bytes), EST_OK);
        assert_int_equal(bytes.size, sizeof known);
        assert_memory_equal(bytes.data, known, sizeof known);
        est_example_reset(ex);
    }
    assert_int_equal(est_example_serialize(ex, &bytes), EST_OK);
    assert_int_equal(bytes.size, 2); /* an empty map */
    est_example_free(ex);
    est_example_free(NULL);
}

/* Example i of the golden file, built by us. */
static void build_golden(est_example *ex, int i)
{
    char    words[4][16] = { "", "w1", "w2w2", "w3w3w3" }, raw[200];
    est_str list[4];
    float   price[] = { (float)(i * 0.5), (float)(-1.0 / (i + 1)), 1e30f }, maybe = (float)i;
    int64_t counts[10], id                                                        = (i - 3) * INT64_C(1234567890123);

    for (int k = 0; k < 4; k++) list[k] = (est_str){ words[k], strlen(words[k]) };
    for (int k = 0; k < i; k++) counts[k] = (k % 2 != 0 ? -1 : 1) * ((int64_t)1 << (7 * k));
    for (int k = 0; k < 20 * i; k++) raw[k] = (char)k;
    est_example_reset(ex);
    est_example_set_i64s(ex, "id", &id, 1);
    est_example_set_f32s(ex, "price", price, 3);
    est_example_set_bytes(ex, "words", list, (size_t)(i % 4));
    est_example_set_i64s(ex, "counts", counts, (size_t)i);
    est_example_set_bytes(ex, "raw", &(est_str){ raw, (size_t)(20 * i) }, 1);
    if (i % 2 != 0) est_example_set_f32s(ex, "maybe", &maybe, 1);
}

/* All records of a file, each copied. */
static size_t read_records(const char *path, est_str *records, size_t max)
{
    est_tfrecord_reader *r;
    est_str              record;
    size_t               n = 0;

    assert_int_equal(est_tfrecord_open(path, NULL, &r), EST_OK);
    while (est_tfrecord_next(r, &record) == EST_OK) {
        char *copy = malloc(record.size + 1);

        assert_true(n < max);
        memcpy(copy, record.data, record.size);
        records[n++] = (est_str){ copy, record.size };
    }
    est_tfrecord_close(r);
    return n;
}

static void free_records(est_str *records, size_t n)
{
    for (size_t i = 0; i < n; i++) free((void *)(uintptr_t)records[i].data);
}

static const est_feature_spec golden_specs[] = {
    { .name = "id", .dtype = EST_I64 },
    { .name = "price", .dtype = EST_F32, .shape = { 1, { 3 } } },
    { .name = "words", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED },
    { .name = "counts", .dtype = EST_I64, .rows = EST_ROWS_PADDED },
    { .name = "raw", .dtype = EST_STRING },
    { .name = "maybe", .dtype = EST_F32, .rows = EST_ROWS_RAGGED },
};

TEST(examples_of_tensorflow)
{
    est_str           records[10], bytes;
    est_feature_batch theirs[N(golden_specs)], ours[N(golden_specs)];
    est_example      *ex;

    assert_int_equal(read_records(GOLDEN "examples.tfrecord", records, 10), 10);
    assert_int_equal(est_example_create(&ex), EST_OK);
    for (int i = 0; i < 10; i++) {
        build_golden(ex, i);
        assert_int_equal(est_example_serialize(ex, &bytes), EST_OK);
        if (i != 4) { /* which has a feature that holds nothing; our builder makes no such thing */
            assert_int_equal(bytes.size, records[i].size);
            assert_memory_equal(bytes.data, records[i].data, bytes.size);
        }
        assert_int_equal(parse(golden_specs, N(golden_specs), &records[i], 1, theirs), EST_OK);
        assert_int_equal(parse(golden_specs, N(golden_specs), &bytes, 1, ours), EST_OK);
        assert_true(same_batch(theirs, ours, N(golden_specs)));
        est_feature_batch_clear(theirs, N(golden_specs));
        est_feature_batch_clear(ours, N(golden_specs));
    }
    est_example_free(ex);

    assert_int_equal(parse(golden_specs, N(golden_specs), records, 10, theirs), EST_OK);
    free_records(records, 10); /* strings were copied */
    check_shape(theirs[0].values, EST_SHAPE(10));
    check_shape(theirs[1].values, EST_SHAPE(10, 3));
    assert_true(((const float *)est_tensor_data(theirs[1].values))[3 * 5 + 1] == -1.0f / 6);
    check_ints(theirs[2].splits, (const int64_t[]){ 0, 0, 1, 3, 6, 6, 7, 9, 12, 12, 13 }, 11);
    check_string(theirs[2].values, 0, "");
    check_string(theirs[2].values, 5, "w2w2");
    check_shape(theirs[3].values, EST_SHAPE(10, 9));
    check_ints(theirs[3].lengths, (const int64_t[]){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }, 10);
    assert_true(((const int64_t *)est_tensor_data(theirs[3].values))[9 * 9 + 8] == (int64_t)1 << 56);
    assert_true(((const int64_t *)est_tensor_data(theirs[3].values))[9 * 2 + 2] == 0);
    assert_int_equal(((const est_str *)est_tensor_data(theirs[4].values))[9].size, 180);
    check_ints(theirs[5].splits, (const int64_t[]){ 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5 }, 11);
    est_feature_batch_clear(theirs, N(golden_specs));
}

/* Pairs of a strange but legal Example and what protobuf makes of it. */
TEST(unusual_forms)
{
    static const est_feature_spec specs[] = {
        { .name = "b", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED },
        { .name = "f", .dtype = EST_F32, .rows = EST_ROWS_RAGGED },
        { .name = "i", .dtype = EST_I64, .rows = EST_ROWS_RAGGED },
        { .name = "", .dtype = EST_I64, .rows = EST_ROWS_PADDED },
    };
    est_str records[200];

    assert_int_equal(read_records(GOLDEN "unusual.tfrecord", records, 200), 200);
    for (int i = 0; i < 200; i += 2) {
        est_feature_batch strange[N(specs)], plain[N(specs)];

        assert_int_equal(parse(specs, N(specs), &records[i], 1, strange), EST_OK);
        assert_int_equal(parse(specs, N(specs), &records[i + 1], 1, plain), EST_OK);
        if (!same_batch(strange, plain, N(specs))) fail_msg("pair %d", i / 2);
        est_feature_batch_clear(strange, N(specs));
        est_feature_batch_clear(plain, N(specs));
    }
    free_records(records, 200);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

TEST(defaults)
{
    est_tensor       *seven, *pair, *word;
    est_feature_batch batch[4];
    est_str           examples[] = { { (const char *)known, sizeof known }, { "", 0 } };

    assert_int_equal(est_tensor_i64(EST_SHAPE_SCALAR, (const int64_t[]){ 7 }, &seven), EST_OK);
    assert_int_equal(est_tensor_f32(EST_SHAPE(2), (const float[]){ 3, 4 }, &pair), EST_OK);
    assert_int_equal(est_tensor_create_from(EST_STRING, EST_SHAPE(1), &(est_str){ "none", 4 }, &word), EST_OK);
    {
        const est_feature_spec specs[] = {
            { .name = "a", .dtype = EST_I64, .shape = { 2, { 2, 1 } }, .default_value = seven },
            { .name = "x", .dtype = EST_F32, .shape = { 1, { 2 } }, .default_value = pair },
            { .name = "s", .dtype = EST_STRING, .default_value = word },
            { .name = "not there", .dtype = EST_STRING, .rows = EST_ROWS_PADDED, .default_value = word },
        };

        assert_int_equal(parse(specs, 4, examples, 2, batch), EST_OK);
    }
    est_tensor_free(seven);
    est_tensor_free(pair);
    est_tensor_free(word);
    check_shape(batch[0].values, EST_SHAPE(2, 2, 1));
    check_ints(batch[0].values, (const int64_t[]){ 1, -1, 7, 7 }, 4);
    check_floats(batch[1].values, (const float[]){ 1, 0.5f, 3, 4 }, 4);
    check_string(batch[2].values, 0, "hi");
    check_string(batch[2].values, 1, "none");
    check_shape(batch[3].values, EST_SHAPE(2, 0));
    est_feature_batch_clear(batch, 4);
}

TEST(padding)
{
    est_tensor       *word, *minus;
    est_example      *ex;
    est_feature_batch batch[2];
    est_str           bytes[3], one, words[3] = { { "p", 1 }, { "qq", 2 }, { "", 0 } };
    int64_t           ints[] = { 1, 2, 3, 4 };

    assert_int_equal(est_example_create(&ex), EST_OK);
    for (int i = 0; i < 3; i++) {
        char *copy;

        est_example_reset(ex);
        est_example_set_bytes(ex, "w", words, (size_t)i);
        if (i != 1) est_example_set_i64s(ex, "n", ints, (size_t)(2 * i));
        assert_int_equal(est_example_serialize(ex, &one), EST_OK);
        copy = malloc(one.size);
        memcpy(copy, one.data, one.size);
        bytes[i] = (est_str){ copy, one.size };
    }
    est_example_free(ex);
    assert_int_equal(est_tensor_i64(EST_SHAPE_SCALAR, (const int64_t[]){ -1 }, &minus), EST_OK);
    assert_int_equal(est_tensor_create_from(EST_STRING, EST_SHAPE_SCALAR, &(est_str){ "-", 1 }, &word), EST_OK);
    {
        const est_feature_spec specs[] = {
            { .name = "w", .dtype = EST_STRING, .rows = EST_ROWS_PADDED, .default_value = word },
            { .name = "n", .dtype = EST_I64, .rows = EST_ROWS_PADDED, .shape = { 1, { 2 } }, .default_value = minus },
        };

        assert_int_equal(parse(specs, 2, bytes, 3, batch), EST_OK);
    }
    est_tensor_free(word);
    est_tensor_free(minus);
    free_records(bytes, 3);
    check_shape(batch[0].values, EST_SHAPE(3, 2));
    for (int i = 0; i < 6; i++) {
        check_string(batch[0].values, i, (const char *[]){ "-", "-", "p", "-", "p", "qq" }[i]);
    }
    check_ints(batch[0].lengths, (const int64_t[]){ 0, 1, 2 }, 3);
    check_shape(batch[1].values, EST_SHAPE(3, 2, 2));
    check_ints(batch[1].values, (const int64_t[]){ -1, -1, -1, -1, -1, -1, -1, -1, 1, 2, 3, 4 }, 12);
    check_ints(batch[1].lengths, (const int64_t[]){ 0, 0, 2 }, 3);
    est_feature_batch_clear(batch, 2);
}

/* Rows of no, one and two words, every length up to 200: the short way and the long one take turns, and the room for
 * the values grows in between. Every record is a copy of exactly its size, as a sanitizer wants it. */
TEST(words_of_all_lengths)
{
    enum { ROWS = 600 };
    const est_feature_spec specs[] = { { .name = "w", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED } };
    est_example           *ex;
    est_feature_batch      batch[1];
    est_str                bytes[ROWS], one;
    const est_str         *found;
    const int64_t         *splits;
    char                   text[400];

    for (size_t k = 0; k < sizeof text; k++) text[k] = (char)('a' + k * 7 % 23);
    assert_int_equal(est_example_create(&ex), EST_OK);
    for (size_t i = 0; i < ROWS; i++) {
        est_str words[2] = { { text + i % 100, i / 3 }, { text + i % 50, i % 20 } };
        char   *copy;

        est_example_reset(ex);
        if (i % 3 > 0) est_example_set_bytes(ex, "w", words, i % 3);
        assert_int_equal(est_example_serialize(ex, &one), EST_OK);
        copy = malloc(one.size + (one.size == 0));
        memcpy(copy, one.data, one.size);
        bytes[i] = (est_str){ copy, one.size };
    }
    est_example_free(ex);
    assert_int_equal(parse(specs, 1, bytes, ROWS, batch), EST_OK);
    free_records(bytes, ROWS);
    check_shape(batch[0].values, EST_SHAPE(ROWS));
    found  = est_tensor_data(batch[0].values);
    splits = est_tensor_data(batch[0].splits);
    for (size_t i = 0; i < ROWS; i++) {
        assert_int_equal(splits[i + 1] - splits[i], i % 3);
        for (size_t k = 0; k < i % 3; k++, found++) {
            assert_int_equal(found->size, k == 0 ? i / 3 : i % 20);
            assert_memory_equal(found->data, text + (k == 0 ? i % 100 : i % 50), found->size);
        }
    }
    est_feature_batch_clear(batch, 1);
}

TEST(no_examples)
{
    est_feature_batch batch[3];

    assert_int_equal(parse(known_specs, 3, NULL, 0, batch), EST_OK);
    check_shape(batch[0].values, EST_SHAPE(0, 2));
    check_shape(batch[1].values, EST_SHAPE(0));
    check_ints(batch[2].splits, (const int64_t[]){ 0 }, 1);
    est_feature_batch_clear(batch, 3);
    assert_int_equal(parse(NULL, 0, &(est_str){ (const char *)known, sizeof known }, 1, batch), EST_OK);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

static void check_failure(est_feature_spec spec, const char *text)
{
    est_str           examples[] = { { (const char *)known, sizeof known } };
    est_feature_batch batch[1];

    assert_int_equal(parse(&spec, 1, examples, 1, batch), EST_INVALID_ARGUMENT);
    check_error(text);
}

TEST(errors_name_feature_and_example)
{
    est_tensor *two;

    assert_int_equal(est_tensor_f32(EST_SHAPE(2), (const float[]){ 1, 2 }, &two), EST_OK);
    check_failure((est_feature_spec){ .name = "a", .dtype = EST_F32 },
                  "feature \"a\" of example 0: holds int64 values, expected float32");
    check_failure((est_feature_spec){ .name = "a", .dtype = EST_I64 },
                  "feature \"a\" of example 0: has 2 values, expected 1");
    check_failure((est_feature_spec){ .name = "a", .dtype = EST_I64, .rows = EST_ROWS_PADDED, .shape = { 1, { 3 } } },
                  "feature \"a\" of example 0: has 2 values, expected a multiple of 3");
    check_failure((est_feature_spec){ .name = "q", .dtype = EST_I64 },
                  "feature \"q\" of example 0: is missing and has no default");
    check_failure((est_feature_spec){ .name = "q", .dtype = EST_I64, .rows = EST_ROWS_RAGGED, .required = true },
                  "feature \"q\" of example 0: is missing, but required");
    check_failure((est_feature_spec){ .name = "a", .dtype = EST_F64 }, "float64 is not float32, int64 or string");
    check_failure((est_feature_spec){ .name = "a", .dtype = EST_I64, .shape = { 1, { -1 } } }, "not fully known");
    check_failure((est_feature_spec){ .name = "a", .dtype = EST_I64, .default_value = two }, "the default is float32");
    check_failure((est_feature_spec){ .name = "x", .dtype = EST_F32, .default_value = two },
                  "the default has 2 values, expected 1 or 1");
    check_failure((est_feature_spec){ .dtype = EST_F32 }, "without a name");
    est_tensor_free(two);
}

TEST(same_name_twice)
{
    est_feature_spec    specs[] = { { .name = "a", .dtype = EST_I64 }, { .name = "a", .dtype = EST_F32 } };
    est_example_parser *parser;

    assert_int_equal(est_example_parser_create((est_feature_specs){ specs, 2 }, &parser), EST_INVALID_ARGUMENT);
    check_error("\"a\" is requested twice");
    est_example_parser_free(NULL);
}

TEST(malformed_example)
{
    est_str           examples[] = { { (const char *)known, sizeof known }, { "\x0a\x05\x0a", 3 } };
    est_feature_batch batch[3];

    assert_int_equal(parse(known_specs, 3, examples, 2, batch), EST_DATA_LOSS);
    check_error("example 1: Example: byte 0: a field needs 5 bytes, the message has 1 left");
    for (int i = 0; i < 3; i++) assert_null(batch[i].values);
}

/* Parses a copy of exactly this size, so that a sanitizer sees a byte read too many. */
static void parse_damaged(const uint8_t *bytes, size_t size)
{
    est_feature_batch batch[3];
    char             *copy = malloc(size + (size == 0));
    est_status        status;

    memcpy(copy, bytes, size);
    status = parse(known_specs, 3, &(est_str){ copy, size }, 1, batch);
    free(copy);
    if (status == EST_OK)
        est_feature_batch_clear(batch, 3);
    else
        assert_true(status == EST_DATA_LOSS || status == EST_INVALID_ARGUMENT);
}

TEST(every_cut_and_flip)
{
    uint8_t bytes[sizeof known];

    for (size_t cut = 0; cut < sizeof known; cut++) parse_damaged(known, cut);
    for (size_t at = 0; at < sizeof known; at++) {
        for (int value = 0; value < 256; value++) {
            memcpy(bytes, known, sizeof known);
            bytes[at] = (uint8_t)value;
            parse_damaged(bytes, sizeof bytes);
        }
    }
}

TEST(no_memory)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_str           bytes = { (const char *)known, sizeof known };
        est_example      *ex    = NULL;
        est_feature_batch batch[3];
        est_status        status;

        fault_arm(&f);
        status = est_example_create(&ex);
        if (status == EST_OK) {
            build_golden(ex, 3);
            status = est_example_serialize(ex, &(est_str){ 0 });
        }
        if (status == EST_OK) status = parse(known_specs, 3, &bytes, 1, batch);
        fault_check(&f, status);
        est_example_free(ex);
        if (status == EST_OK) {
            est_feature_batch_clear(batch, 3);
        }
    }
}

/* --- many names --------------------------------------------------------------------------------------------------- */

/* The order of the entries changes from example to example, some are not wanted and some not there. */
TEST(read)
{
    const est_str     words[] = { { "a", 1 }, { "", 0 } };
    est_named_tensors read;
    est_example      *example = NULL;
    est_str           bytes;

    assert_int_equal(est_example_create(&example), EST_OK);
    est_example_set_bytes(example, "w", words, 2);
    est_example_set_f32s(example, "f", (const float[]){ 1.5f, -2 }, 2);
    est_example_set_i64s(example, "i", (const int64_t[]){ -7, 300 }, 2);
    est_example_set_i64s(example, "none", NULL, 0);
    assert_int_equal(est_example_serialize(example, &bytes), EST_OK);
    assert_int_equal(est_example_read(bytes, &read), EST_OK);
    assert_int_equal(read.n, 4); /* in the order of names */
    assert_string_equal(read.data[0].name, "f");
    assert_int_equal(est_tensor_dtype(read.data[0].tensor), EST_F32);
    assert_true(((const float *)est_tensor_data(read.data[0].tensor))[1] == -2);
    assert_string_equal(read.data[1].name, "i");
    assert_true(((const int64_t *)est_tensor_data(read.data[1].tensor))[0] == -7);
    assert_int_equal(est_tensor_count(read.data[2].tensor), 0);
    assert_string_equal(read.data[3].name, "w");
    assert_int_equal(est_tensor_count(read.data[3].tensor), 2);
    est_example_read_clear(&read);
    for (size_t cut = 0; cut < bytes.size; cut++) { /* damage is an error, or leaves less */
        if (est_example_read((est_str){ bytes.data, cut }, &read) == EST_OK) est_example_read_clear(&read);
        assert_int_equal(read.n, 0);
    }
    est_example_free(example);
    assert_int_equal(est_example_read((est_str){ 0 }, &read), EST_OK);
    assert_int_equal(read.n, 0);
}

TEST(names_in_any_order)
{
    enum { WANTED = 50, EXAMPLES = 30 };
    est_feature_spec  specs[WANTED] = { 0 };
    est_feature_batch batch[WANTED];
    est_tensor       *minus;
    est_str           bytes[EXAMPLES];
    char              names[2 * WANTED][32];

    assert_int_equal(est_tensor_i64(EST_SHAPE_SCALAR, (const int64_t[]){ -1 }, &minus), EST_OK);
    for (int k = 0; k < 2 * WANTED; k++) snprintf(names[k], sizeof names[k], "feature_%d", k);
    for (int k = 0; k < WANTED; k++) {
        specs[k] = (est_feature_spec){ .name = names[2 * k], .dtype = EST_I64, .default_value = minus };
    }
    for (int i = 0; i < EXAMPLES; i++) { /* Features one by one, concatenated: protobuf merges them */
        char  *all  = malloc(1 << 14);
        size_t size = 0;

        for (int k = 0; k < 2 * WANTED; k++) {
            int          which = (k * 7 + i * 13) % (2 * WANTED);
            int64_t      value = which * 1000 + i;
            est_example *ex;
            est_str      one;

            if ((which + i) % 5 == 0) continue;
            assert_int_equal(est_example_create(&ex), EST_OK);
            est_example_set_i64s(ex, names[which], &value, 1);
            assert_int_equal(est_example_serialize(ex, &one), EST_OK);
            memcpy(all + size, one.data, one.size);
            size += one.size;
            est_example_free(ex);
        }
        bytes[i] = (est_str){ all, size };
    }
    assert_int_equal(parse(specs, WANTED, bytes, EXAMPLES, batch), EST_OK);
    for (int k = 0; k < WANTED; k++) {
        for (int i = 0; i < EXAMPLES; i++) {
            int64_t want = (2 * k + i) % 5 == 0 ? -1 : 2 * k * 1000 + i;

            assert_true(((const int64_t *)est_tensor_data(batch[k].values))[i] == want);
        }
    }
    est_feature_batch_clear(batch, WANTED);
    free_records(bytes, EXAMPLES);
    est_tensor_free(minus);
}
