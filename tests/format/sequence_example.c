/* SPDX-License-Identifier: Apache-2.0
 *
 * SequenceExample: sequences that TensorFlow wrote, lists as rows of every kind, errors, and damage of every byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "estoc/example.h"
#include "estoc/tfrecord.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define GOLDEN    EST_SOURCE_DIR "/tests/golden/format/sequences.tfrecord"
#define SEQUENCES 5

static const est_feature_spec context_specs[] = { { .name = "id", .dtype = EST_I64 } };

static const est_feature_spec list_specs[] = {
    { .name = "pairs", .dtype = EST_F32, .shape = { 1, { 2 } } },
    { .name = "tags", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED },
    { .name = "none", .dtype = EST_I64, .rows = EST_ROWS_PADDED },
};

static void check_error(const char *text)
{
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in \"%s\"", text, est_error_message());
}

static void check_shape(const est_tensor *tensor, est_shape want)
{
    char text[EST_SHAPE_TEXT_MAX];

    if (!est_shape_equal(est_tensor_shape(tensor), &want)) {
        fail_msg("shape %s", est_shape_text(est_tensor_shape(tensor), text));
    }
}

static void check_ints(const est_tensor *tensor, const int64_t *want, int64_t n)
{
    assert_int_equal(est_tensor_count(tensor), n);
    assert_memory_equal(est_tensor_data(tensor), want, (size_t)n * sizeof *want);
}

/* Sequence i of the golden file, built by us. */
static void build(est_sequence_example *sequence, int64_t i)
{
    static const est_str tags[] = { { "t0", 2 }, { "t1", 2 }, { "t2", 2 } };

    est_sequence_example_reset(sequence);
    est_example_set_i64s(est_sequence_example_context(sequence), "id", &i, 1);
    for (int step = 0; step < i; step++) {
        est_sequence_example_add_f32s(sequence, "pairs", (const float[]){ (float)step, (float)-step }, 2);
        est_sequence_example_add_bytes(sequence, "tags", tags, (size_t)step);
    }
    est_sequence_example_add_list(sequence, "none");
}

/* The serialized sequence, copied. */
static est_str serialize(est_sequence_example *sequence)
{
    est_str bytes;
    char   *copy;

    assert_int_equal(est_sequence_example_serialize(sequence, &bytes), EST_OK);
    copy = malloc(bytes.size);
    memcpy(copy, bytes.data, bytes.size);
    return (est_str){ copy, bytes.size };
}

static void free_all(est_str *sequences, int n)
{
    for (int i = 0; i < n; i++) free((void *)(uintptr_t)sequences[i].data);
}

static est_status parse(const est_feature_spec *lists, size_t n_lists, const est_str *examples, size_t n,
                        est_feature_batch *context, est_feature_batch *batch)
{
    est_sequence_parser *parser;
    est_status           status;

    EST_TRY(est_sequence_parser_create((est_feature_specs){ context_specs, 1 }, (est_feature_specs){ lists, n_lists },
                                       &parser));
    status = est_sequence_parse(parser, examples, n, context, batch);
    est_sequence_parser_free(parser);
    return status;
}

static void build_all(est_str sequences[SEQUENCES])
{
    est_sequence_example *sequence;

    assert_int_equal(est_sequence_example_create(&sequence), EST_OK);
    for (int i = 0; i < SEQUENCES; i++) {
        build(sequence, i);
        sequences[i] = serialize(sequence);
    }
    est_sequence_example_free(sequence);
}

TEST(bytes_of_tensorflow)
{
    est_tfrecord_reader *r;
    est_str              ours[SEQUENCES], theirs;

    build_all(ours);
    assert_int_equal(est_tfrecord_open(GOLDEN, NULL, &r), EST_OK);
    for (int i = 0; i < SEQUENCES; i++) {
        assert_int_equal(est_tfrecord_next(r, &theirs), EST_OK);
        assert_int_equal(ours[i].size, theirs.size);
        assert_memory_equal(ours[i].data, theirs.data, theirs.size);
    }
    est_tfrecord_close(r);
    free_all(ours, SEQUENCES);
}

TEST(ragged_lists)
{
    est_str           bytes[SEQUENCES];
    est_feature_batch context[1], lists[3];
    const float      *pairs;

    build_all(bytes);
    assert_int_equal(parse(list_specs, 3, bytes, SEQUENCES, context, lists), EST_OK);
    free_all(bytes, SEQUENCES);
    check_ints(context[0].values, (const int64_t[]){ 0, 1, 2, 3, 4 }, 5);

    check_shape(lists[0].values, EST_SHAPE(10, 2)); /* 0 + 1 + 2 + 3 + 4 steps */
    check_ints(lists[0].splits, (const int64_t[]){ 0, 0, 1, 3, 6, 10 }, 6);
    pairs = est_tensor_data(lists[0].values);
    assert_true(pairs[2 * 9] == 3 && pairs[2 * 9 + 1] == -3);

    check_ints(lists[1].splits, (const int64_t[]){ 0, 0, 1, 3, 6, 10 }, 6);
    check_ints(lists[1].step_splits, (const int64_t[]){ 0, 0, 0, 1, 1, 2, 4, 4, 5, 7, 10 }, 11);
    assert_memory_equal(((const est_str *)est_tensor_data(lists[1].values))[9].data, "t2", 2);

    check_shape(lists[2].values, EST_SHAPE(5, 0));
    est_feature_batch_clear(context, 1);
    est_feature_batch_clear(lists, 3);
}

TEST(padded_lists)
{
    est_feature_spec  spec = { .name = "pairs", .dtype = EST_F32, .rows = EST_ROWS_PADDED, .shape = { 1, { 2 } } };
    est_str           bytes[SEQUENCES];
    est_feature_batch context[1], list[1];
    est_tensor       *nine;
    const float      *values;

    assert_int_equal(est_tensor_f32(EST_SHAPE_SCALAR, (const float[]){ 9 }, &nine), EST_OK);
    spec.default_value = nine;
    build_all(bytes);
    assert_int_equal(parse(&spec, 1, bytes, SEQUENCES, context, list), EST_OK);
    free_all(bytes, SEQUENCES);
    est_tensor_free(nine);
    check_shape(list[0].values, EST_SHAPE(5, 4, 2));
    check_ints(list[0].lengths, (const int64_t[]){ 0, 1, 2, 3, 4 }, 5);
    assert_null(list[0].splits);
    values = est_tensor_data(list[0].values);
    for (int i = 0; i < 5; i++) {
        for (int step = 0; step < 4; step++) {
            assert_true(values[8 * i + 2 * step] == (step < i ? (float)step : 9));
            assert_true(values[8 * i + 2 * step + 1] == (step < i ? (float)-step : 9));
        }
    }
    est_feature_batch_clear(context, 1);
    est_feature_batch_clear(list, 1);
}

static void check_failure(est_feature_spec spec, const char *text)
{
    est_str           bytes[SEQUENCES];
    est_feature_batch context[1], list[1];

    build_all(bytes);
    assert_int_equal(parse(&spec, 1, bytes, SEQUENCES, context, list), EST_INVALID_ARGUMENT);
    check_error(text);
    assert_null(context[0].values);
    assert_null(list[0].values);
    free_all(bytes, SEQUENCES);
}

TEST(errors)
{
    check_failure((est_feature_spec){ .name = "pairs", .dtype = EST_F32, .shape = { 1, { 3 } } },
                  "feature \"pairs\" of example 1: a step has 2 values, expected 3");
    check_failure((est_feature_spec){ .name = "pairs", .dtype = EST_I64 },
                  "feature \"pairs\" of example 1: holds float32 values, expected int64");
    check_failure((est_feature_spec){ .name = "pairs", .dtype = EST_F32, .shape = { 1, { 2 } }, .required = true },
                  "feature \"pairs\" of example 0: is missing, but required");
}

TEST(every_cut_and_flip)
{
    est_str           bytes[SEQUENCES];
    est_feature_batch context[1], lists[3];

    build_all(bytes);
    for (size_t at = 0; at < bytes[3].size; at++) {
        for (int change = 0; change < 9; change++) { /* eight flips and a cut */
            size_t     size = change == 8 ? at : bytes[3].size;
            char      *copy = malloc(size + (size == 0));
            est_status status;

            memcpy(copy, bytes[3].data, size);
            if (change < 8) copy[at] ^= (char)(1 << change);
            status = parse(list_specs, 3, &(est_str){ copy, size }, 1, context, lists);
            free(copy);
            if (status == EST_OK) {
                est_feature_batch_clear(context, 1);
                est_feature_batch_clear(lists, 3);
            } else {
                assert_true(status == EST_DATA_LOSS || status == EST_INVALID_ARGUMENT);
            }
        }
    }
    free_all(bytes, SEQUENCES);
}

TEST(no_memory)
{
    est_str bytes[SEQUENCES];

    build_all(bytes);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_feature_batch     context[1], lists[3];
        est_sequence_example *sequence = NULL;
        est_status            status;

        fault_arm(&f);
        status = est_sequence_example_create(&sequence);
        if (status == EST_OK) {
            build(sequence, 3);
            status = est_sequence_example_serialize(sequence, &(est_str){ 0 });
        }
        if (status == EST_OK) status = parse(list_specs, 3, bytes, SEQUENCES, context, lists);
        fault_check(&f, status);
        est_sequence_example_free(sequence);
        if (status == EST_OK) {
            est_feature_batch_clear(context, 1);
            est_feature_batch_clear(lists, 3);
        }
    }
    free_all(bytes, SEQUENCES);
}
