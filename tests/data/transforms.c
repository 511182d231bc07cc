/* SPDX-License-Identifier: Apache-2.0
 *
 * take, skip, repeat, shard, filter, zip, concatenate, enumerate and unbatch: what they yield (as tf.data does, where
 * it has the same), what they refuse, and positions and failed allocations in each of them and in chains. */
#include <string.h>

#include "support/data_test.h"
#include "support/test.h"

static est_dataset *range(int64_t n)
{
    return est_dataset_range(0, n, 1);
}

static est_status every_third(void *user, const est_field *element, bool *keep)
{
    (void)user;
    *keep = *(const int64_t *)est_tensor_data(element[0].values) % 3 == 1;
    return EST_OK;
}

static est_status never(void *user, const est_field *element, bool *keep)
{
    (void)user;
    (void)element;
    *keep = false;
    return EST_OK;
}

/* Row r has r % 4 values: a string and as many numbers. */
static const est_component pairs[] = {
    { .name = "word", .dtype = EST_STRING, .shape = { 1, { -1 } } },
    { .name = "number", .dtype = EST_F32, .shape = { 2, { -1, 2 } } },
};

static est_status pair(int64_t row, int i, est_tensor **out)
{
    static const est_str words[]   = { { "a", 1 }, { "bc", 2 }, { "", 0 } };
    static const float   numbers[] = { 1, 2, 3, 4, 5, 6 };

    if (i == 0) return est_tensor_create_from(EST_STRING, EST_SHAPE(row % 4), words, out);
    return est_tensor_f32(EST_SHAPE(row % 4, 2), numbers, out);
}

/* --- what they yield ---------------------------------------------------------------------------------------------- */

TEST(take_and_skip)
{
    est_test_yields(est_dataset_take(range(5), 3), "0 ; 1 ; 2");
    est_test_yields(est_dataset_take(range(5), 0), "");
    est_test_yields(est_dataset_take(range(3), 9), "0 ; 1 ; 2");
    est_test_yields(est_dataset_take(range(3), EST_FOREVER), "0 ; 1 ; 2");
    est_test_yields(est_dataset_skip(range(5), 3), "3 ; 4");
    est_test_yields(est_dataset_skip(range(5), 0), "0 ; 1 ; 2 ; 3 ; 4");
    est_test_yields(est_dataset_skip(range(5), 9), "");
    est_test_refused(est_dataset_take(range(5), -1), "stage take: -1 elements");
    est_test_refused(est_dataset_skip(range(5), EST_FOREVER), "stage skip: -3 elements");
    est_test_refused(est_dataset_skip(est_dataset_take(range(5), -1), 2), "stage take: -1 elements");
}

TEST(repeat)
{
    est_test_yields(est_dataset_repeat(range(3), 2), "0 ; 1 ; 2 ; 0 ; 1 ; 2");
    est_test_yields(est_dataset_repeat(range(3), 1), "0 ; 1 ; 2");
    est_test_yields(est_dataset_repeat(range(3), 0), "");
    est_test_yields(est_dataset_repeat(range(0), INT64_MAX), "");
    est_test_yields(est_dataset_repeat(range(0), EST_FOREVER), "");
    est_test_yields(est_dataset_repeat(est_dataset_filter(range(4), never, NULL), EST_FOREVER), "");
    est_test_yields(est_dataset_take(est_dataset_repeat(range(3), EST_FOREVER), 7), "0 ; 1 ; 2 ; 0 ; 1 ; 2 ; 0");
    est_test_yields(est_dataset_take(est_dataset_repeat(est_dataset_repeat(range(2), EST_FOREVER), 5), 5),
                    "0 ; 1 ; 0 ; 1 ; 0");
    est_test_refused(est_dataset_repeat(range(3), -1), "-1 times; the number is 0 or more, or EST_FOREVER");
}

TEST(shard)
{
    est_test_yields(est_dataset_shard(range(11), 4, 3), "3 ; 7");
    est_test_yields(est_dataset_shard(range(11), 4, 0), "0 ; 4 ; 8");
    est_test_yields(est_dataset_shard(range(2), 4, 3), "");
    est_test_yields(est_dataset_shard(range(3), 1, 0), "0 ; 1 ; 2");
    est_test_refused(est_dataset_shard(range(3), 0, 0), "shard 0 of 0");
    est_test_refused(est_dataset_shard(range(3), 2, 2), "shard 2 of 2");
    est_test_refused(est_dataset_shard(range(3), 2, -1), "shard -1 of 2");
}

static est_status broken(void *user, const est_field *element, bool *keep)
{
    (void)element;
    (void)keep;
    return est_fail(*(const est_status *)user, "the function broke");
}

static est_status silent(void *user, const est_field *element, bool *keep)
{
    (void)user;
    (void)element;
    (void)keep;
    return EST_ABORTED;
}

TEST(filter)
{
    est_status internal = EST_INTERNAL, end = EST_OUT_OF_RANGE;

    est_test_yields(est_dataset_filter(range(7), every_third, NULL), "1 ; 4");
    est_test_yields(est_dataset_filter(range(7), never, NULL), "");
    est_test_refused(est_dataset_filter(range(7), NULL, NULL), "a function is needed");
    est_test_breaks(est_dataset_filter(range(2), broken, &internal), EST_INTERNAL, "the function broke");
    est_test_breaks(est_dataset_filter(range(2), silent, NULL), EST_ABORTED, "a filter returned ABORTED");
    assert_null(strstr(est_error_message(), "the function broke"));
    est_test_breaks(est_dataset_filter(range(2), broken, &end), EST_INVALID_ARGUMENT, "cannot end a dataset");
    est_test_breaks(
        est_dataset_filter(est_dataset_skip(est_test_rows(pairs, 2, 3, pair, "rows.csv"), 1), broken, &internal),
        EST_INTERNAL, "rows.csv:2: the function broke");
}

static est_status from_ten(int64_t row, int i, est_tensor **out)
{
    (void)i;
    return est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ 10 + row }, out);
}

/* 10, 11, ... as a component of this name. */
static est_dataset *tens(const char *name, int64_t n)
{
    return est_test_rows(&(est_component){ .name = name, .dtype = EST_I64 }, 1, n, from_ten, NULL);
}

TEST(zip)
{
    est_test_yields(est_dataset_zip(range(3), tens("other", 5)), "0 | 10 ; 1 | 11 ; 2 | 12");
    est_test_yields(est_dataset_zip(range(9), tens("other", 2)), "0 | 10 ; 1 | 11");
    est_test_yields(est_dataset_zip(est_test_rows(pairs, 2, 2, pair, NULL), tens("n", 2)),
                    "empty[0] | empty[0,2] | 10 ; [\"a\"] | [[1 2]] | 11");
    est_test_refused(est_dataset_zip(range(3), range(4)), "two components are called value");
    est_test_refused(est_dataset_zip(range(3), est_dataset_take(range(4), -1)), "stage take");
    est_test_refused(est_dataset_zip(est_dataset_take(range(3), -1), range(3)), "stage take");
    est_test_refused(est_dataset_zip(est_dataset_skip(range(3), -1), est_dataset_take(range(3), -1)), "stage skip");
}

TEST(concatenate)
{
    est_dataset         *dataset;
    const est_component *word;

    est_test_yields(est_dataset_concatenate(range(2), est_dataset_range(5, 7, 1)), "0 ; 1 ; 5 ; 6");
    est_test_yields(est_dataset_concatenate(range(0), range(2)), "0 ; 1");
    est_test_yields(est_dataset_concatenate(range(2), range(0)), "0 ; 1");
    est_test_refused(est_dataset_concatenate(range(2), tens("other", 2)),
                     "component value int64 [] of the first dataset is other int64 [] in the second");
    est_test_refused(est_dataset_concatenate(range(2), est_dataset_enumerate(range(2), 0)), "has 1 components");
    est_test_refused(est_dataset_concatenate(range(2), est_dataset_skip(range(2), -1)), "stage skip");

    dataset = est_test_finish(
        est_dataset_concatenate(est_dataset_batch(range(4), 2, EST_BATCH(.drop_remainder = true)),
                                est_dataset_batch(range(4), 3, EST_BATCH(.drop_remainder = true))));
    word = est_dataset_component(dataset, 0);
    assert_true(word->shape.rank == 1 && word->shape.dim[0] == -1); /* 2 and 3 */
    est_test_yields(dataset, "[0 1] ; [2 3] ; [0 1 2]");

    dataset = est_test_finish(est_dataset_concatenate(est_dataset_batch(range(2), 2, NULL), range(1)));
    assert_int_equal(est_dataset_component(dataset, 0)->shape.rank, -1);
    est_test_yields(dataset, "[0 1] ; 0");
}

TEST(enumerate)
{
    est_dataset *dataset = est_test_finish(est_dataset_enumerate(est_dataset_range(5, 8, 1), 4));

    assert_int_equal(est_dataset_find(dataset, "index"), 0);
    assert_int_equal(est_dataset_find(dataset, "value"), 1);
    est_test_yields(dataset, "4 | 5 ; 5 | 6 ; 6 | 7");
    est_test_yields(est_dataset_enumerate(range(2), -1), "-1 | 0 ; 0 | 1");
    est_test_refused(est_dataset_enumerate(est_dataset_enumerate(range(2), 0), 0), "two components are called index");
    est_test_breaks(est_dataset_enumerate(range(2), INT64_MAX), EST_INVALID_ARGUMENT, "larger than an int64");
}

/* Rows 1 and 2 have two components of different numbers of rows. */
static est_status uneven(int64_t row, int i, est_tensor **out)
{
    return est_tensor_i64(EST_SHAPE(row > 0 && i == 1 ? 2 : 1), (const int64_t[]){ row, row }, out);
}

TEST(unbatch)
{
    static const est_component two[] = { { .name = "a", .dtype = EST_I64, .shape = { 1, { -1 } } },
                                         { .name = "b", .dtype = EST_I64, .shape = { 1, { -1 } } } };
    static const est_component any[] = { { .name = "a", .dtype = EST_I64, .shape = { -1, { 0 } } } };
    est_dataset               *dataset;
    const est_component       *number;

    est_test_yields(est_dataset_unbatch(est_dataset_batch(range(7), 3, NULL)), "0 ; 1 ; 2 ; 3 ; 4 ; 5 ; 6");
    est_test_yields(est_dataset_unbatch(est_dataset_batch(est_dataset_batch(range(6), 2, NULL), 2, NULL)),
                    "[0 1] ; [2 3] ; [4 5]");
    /* every row of the pairs is a batch of as many, and none for every fourth */
    est_test_yields(est_dataset_unbatch(est_test_rows(pairs, 2, 4, pair, NULL)),
                    "\"a\" | [1 2] ; \"a\" | [1 2] ; \"bc\" | [3 4] ; \"a\" | [1 2] ; \"bc\" | [3 4] ; \"\" | [5 6]");
    dataset = est_test_finish(est_dataset_unbatch(
        est_dataset_batch(est_test_rows(pairs, 2, 5, pair, NULL), 4, EST_BATCH(.rows = EST_ROWS_RAGGED))));
    number  = est_dataset_component(dataset, 1);
    assert_true(!number->ragged && number->shape.rank == 2 && number->shape.dim[0] == -1 && number->shape.dim[1] == 2);
    est_test_yields(dataset, "empty[0] | empty[0,2] ; [\"a\"] | [[1 2]] ; [\"a\" \"bc\"] | [[1 2] [3 4]] ; "
                             "[\"a\" \"bc\" \"\"] | [[1 2] [3 4] [5 6]] ; empty[0] | empty[0,2]");
    est_test_refused(est_dataset_unbatch(range(3)), "component value is a scalar");
    est_test_refused(est_dataset_unbatch(est_test_rows(any, 1, 1, uneven, NULL)), "component a has an unknown rank");
    est_test_breaks(est_dataset_unbatch(est_test_rows(two, 2, 3, uneven, "uneven.csv")), EST_INVALID_ARGUMENT,
                    "uneven.csv:2: unbatch: component a has 1 rows and b has 2");
}

/* Where a row is from is known behind both. */
TEST(origin)
{
    est_status   internal = EST_INTERNAL;
    est_dataset *rows;

    rows = est_dataset_skip(est_test_rows(pairs, 2, 3, pair, "rows.csv"), 1);
    est_test_breaks(est_dataset_filter(est_dataset_unbatch(rows), broken, &internal), EST_INTERNAL,
                    "rows.csv:2: the function broke");
    rows = est_dataset_skip(est_test_rows(pairs, 2, 3, pair, "rows.csv"), 1);
    est_test_breaks(est_dataset_filter(est_dataset_zip(rows, range(3)), broken, &internal), EST_INTERNAL,
                    "rows.csv:2: the function broke");
    rows = est_dataset_skip(est_test_rows(pairs, 2, 3, pair, "rows.csv"), 1);
    est_test_breaks(est_dataset_filter(est_dataset_zip(range(3), rows), broken, &internal), EST_INTERNAL,
                    "rows.csv:2: the function broke");
}

TEST(chain)
{
    est_dataset *d = est_dataset_unbatch(est_dataset_batch(est_dataset_shard(range(10), 3, 1), 2, NULL));

    d = est_dataset_enumerate(est_dataset_repeat(d, 2), 0);
    est_test_yields(est_dataset_take(est_dataset_skip(d, 1), 5), "1 | 4 ; 2 | 7 ; 3 | 1 ; 4 | 4 ; 5 | 7");
}

/* --- positions and allocations ------------------------------------------------------------------------------------ */

static est_dataset *make_take(void)
{
    return est_dataset_take(range(7), 5);
}

static est_dataset *make_skip(void)
{
    return est_dataset_skip(range(7), 3);
}

static est_dataset *make_repeat(void)
{
    return est_dataset_repeat(range(3), 3);
}

static est_dataset *make_repeat_none(void)
{
    return est_dataset_repeat(range(3), 0);
}

static est_dataset *make_repeat_empty(void)
{
    return est_dataset_repeat(range(0), EST_FOREVER);
}

static est_dataset *make_shard(void)
{
    return est_dataset_shard(range(13), 3, 1);
}

static est_dataset *make_filter(void)
{
    return est_dataset_filter(range(13), every_third, NULL);
}

static est_dataset *make_zip(void)
{
    return est_dataset_zip(est_test_rows(pairs, 2, 6, pair, "rows.csv"), tens("other", 5));
}

static est_dataset *make_concatenate(void)
{
    return est_dataset_concatenate(range(3), est_dataset_range(10, 14, 1));
}

static est_dataset *make_enumerate(void)
{
    return est_dataset_enumerate(est_test_rows(pairs, 2, 5, pair, NULL), 3);
}

static est_dataset *make_unbatch(void)
{
    return est_dataset_unbatch(est_dataset_unbatch(
        est_dataset_batch(est_test_rows(pairs, 2, 6, pair, "rows.csv"), 4, EST_BATCH(.rows = EST_ROWS_RAGGED))));
}

static est_dataset *make_deep(void)
{
    est_dataset *d = est_dataset_concatenate(est_test_rows(pairs, 2, 5, pair, "a.csv"),
                                             est_dataset_skip(est_test_rows(pairs, 2, 9, pair, "b.csv"), 6));

    d = est_dataset_repeat(est_dataset_shuffle(est_dataset_unbatch(d), 4, 7), 3);
    d = est_dataset_zip(est_dataset_shard(d, 2, 1), est_dataset_repeat(range(5), EST_FOREVER));
    d = est_dataset_batch(est_dataset_enumerate(d, 0), 3, NULL);
    return est_dataset_take(est_dataset_repeat(est_dataset_shuffle(d, 2, 8), EST_FOREVER), 14);
}

static const est_test_make makes[] = { make_take,         make_skip,      make_repeat,  make_repeat_none,
                                       make_repeat_empty, make_shard,     make_filter,  make_zip,
                                       make_concatenate,  make_enumerate, make_unbatch, make_deep };

TEST(positions)
{
    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) est_test_positions(makes[i], 16);
}

TEST(allocations)
{
    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) est_test_allocations(makes[i], 6);
}

static est_dataset *make_concatenate_more(void)
{
    return est_dataset_repeat(make_concatenate(), 2);
}

/* A position of `from` put into `to` is refused with this text. */
static void position_refused(est_test_make from, est_test_make to, int64_t after, const char *text)
{
    est_dataset  *first = est_test_finish(from()), *second = est_test_finish(to());
    est_iterator *rows = est_test_iterate(first);
    est_tensor   *position;

    est_free(est_test_elements(rows, first, after));
    assert_int_equal(est_iterator_save(rows, &position), EST_OK);
    est_iterator_free(rows);
    rows = est_test_iterate(second);
    assert_int_not_equal(est_iterator_restore(rows, position), EST_OK);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in \"%s\"", text, est_error_message());
    est_iterator_free(rows);
    est_tensor_free(position);
    est_dataset_free(first);
    est_dataset_free(second);
}

static est_dataset *make_skip_of_shard(void)
{
    return est_dataset_skip(make_shard(), 1);
}

static est_dataset *make_few_shards(void)
{
    return est_dataset_shard(range(13), 2, 1);
}

TEST(other_stages)
{
    position_refused(make_take, make_skip, 1, "with a stage take where this one has skip");
    position_refused(make_skip_of_shard, make_skip, 1, "with a stage shard where this one has range");
    position_refused(make_repeat, make_concatenate_more, 1, "with a stage range where this one has concatenate");
    position_refused(make_repeat, make_repeat_none, 5, "saved in pass 1, and the dataset repeats 0 times");
    position_refused(make_shard, make_few_shards, 1, "saved at shard 2, and the dataset has 2 shards");
}
