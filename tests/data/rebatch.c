/* SPDX-License-Identifier: Apache-2.0
 *
 * est_dataset_rebatch: sizes as TensorFlow has them, where the global batch is known and where it is not; rows of every
 * kind across batches; what it refuses; positions, failed allocations and counts of bad rows. */
#include <string.h>

#include "base/strbuf.h"
#include "estoc/input.h"
#include "support/data_test.h"
#include "support/test.h"

static est_dataset *range(int64_t n)
{
    return est_dataset_range(0, n, 1);
}

static est_dataset *batches(int64_t n, int64_t batch)
{
    return est_dataset_batch(range(n), batch, NULL);
}

static est_status keep_all(void *user, const est_field *element, bool *keep)
{
    (void)user;
    (void)element;
    *keep = true;
    return EST_OK;
}

static est_status same(void *user, const est_field *in, est_field *out)
{
    (void)user;
    out[0].values = est_tensor_ref(in[0].values);
    return EST_OK;
}

/* A function stands between: the batch is no longer known. */
static est_dataset *unknown(est_dataset *dataset)
{
    return est_dataset_map(dataset, same, NULL);
}

/* The dataset, which is taken, yields batches of so many rows, and they are 0, 1, 2, ... */
static void yields_sizes(est_dataset *dataset, const char *want)
{
    est_dataset  *finished = est_test_finish(dataset);
    est_iterator *rows     = est_test_iterate(finished);
    est_strbuf    text     = { 0 };
    int64_t       next     = 0;
    est_field     batch    = { 0 };
    est_status    status;
    char         *is;

    while ((status = est_iterator_next(rows, &batch)) == EST_OK) {
        const int64_t *values = est_tensor_data(batch.values);

        assert_int_equal(est_tensor_shape(batch.values)->rank, 1);
        for (int64_t i = 0; i < est_tensor_count(batch.values); i++) assert_int_equal(values[i], next++);
        est_strbuf_printf(&text, "%s%d", text.size > 0 ? " " : "", (int)est_tensor_count(batch.values));
        est_element_clear(&batch, 1);
    }
    assert_int_equal(status, EST_OUT_OF_RANGE);
    assert_int_equal(est_strbuf_take(&text, &is), EST_OK);
    assert_string_equal(is, want);
    est_free(is);
    est_iterator_free(rows);
    est_dataset_free(finished);
}

/* --- sizes -------------------------------------------------------------------------------------------------------- */

/* As Dataset.rebatch(batch_sizes_for_worker(G, W, R, w)) of TensorFlow 2.15 makes of range(n).batch(G), and the rebatch
 * of batches of unknown size; tests/interop/rebatch.c asks for many more. */
static const struct {
    int64_t     n, global, workers, replicas, worker;
    const char *known, *even;
} table[] = {
    /* clang-format off */
    { 14, 7, 2, 2, 0, "2 2 2 1 2 2 2 1", "2 2 2 1 2 2 2 1" },
    { 14, 7, 2, 2, 1, "2 1 2 2 2 1 2 2", "2 2 2 1 2 2 2 1" },
    { 10, 7, 2, 2, 0, "2 2 2 1 2 1",     "2 2 2 1 1 1 1 0" },
    { 10, 7, 2, 2, 1, "2 1 2 2 2 1",     "2 2 2 1 1 1 1 0" },
    {  6, 3, 2, 2, 0, "1 1 1 0 1 1 1 0", "1 1 1 0 1 1 1 0" },
    {  6, 3, 2, 2, 1, "1 0 1 1 1 0 1 1", "1 1 1 0 1 1 1 0" },
    {  7, 3, 2, 2, 1, "1 0 1 1 1 0 1 1 1 0", "1 1 1 0 1 1 1 0 1 0 0 0" },
    {  1, 1, 2, 2, 1, "0 0 1 0 0 0",     "1 0 0 0" },
    {  0, 3, 2, 2, 0, "",                "" },
    { 16, 8, 2, 2, 1, "2 2 2 2 2 2 2 2", "2 2 2 2 2 2 2 2" },
    { 13, 8, 2, 2, 1, "2 2 2 2 2 2 1",   "2 2 2 2 2 2 1 0" },
    {  2, 3, 4, 2, 3, "0 0 1 1",         "1 1 0 0 0 0 0 0" },
    {  5, 2, 1, 1, 0, "2 2 1",           "2 2 1" },
    /* clang-format on */
};

TEST(sizes)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        est_dataset *known = batches(table[i].n, table[i].global);
        est_dataset *even  = unknown(batches(table[i].n, table[i].global));

        yields_sizes(est_dataset_rebatch(known, table[i].workers, table[i].worker, table[i].replicas), table[i].known);
        yields_sizes(est_dataset_rebatch(even, table[i].workers, table[i].worker, table[i].replicas), table[i].even);
    }
}

/* At every step over all workers the sizes add up to the global batch, and differ by one at most. */
TEST(steps)
{
    for (int64_t global = 1; global <= 13; global++) {
        for (int64_t shape = 0; shape < 16; shape++) {
            int64_t       workers = 1 + shape / 4, replicas = 1 + shape % 4;
            est_iterator *rows[4];

            for (int64_t w = 0; w < workers; w++) {
                est_dataset *d = est_test_finish(est_dataset_rebatch(batches(100, global), workers, w, replicas));

                rows[w] = est_test_iterate(d);
                est_dataset_free(d);
            }
            for (int64_t step = 0; step < workers; step++) {
                int64_t sum = 0;

                for (int64_t k = 0; k < workers * replicas; k++) {
                    est_field batch = { 0 };
                    int64_t   n;

                    assert_int_equal(est_iterator_next(rows[k / replicas], &batch), EST_OK);
                    n = est_tensor_count(batch.values);
                    assert_in_range(n, global / (workers * replicas), global / (workers * replicas) + 1);
                    sum += n;
                    est_element_clear(&batch, 1);
                }
                assert_int_equal(sum, global);
            }
            for (int64_t w = 0; w < workers; w++) est_iterator_free(rows[w]);
        }
    }
}

/* --- what the global batch is ------------------------------------------------------------------------------------- */

#define KNOWN "2 2 2 1 2 1"     /* of 10 rows in batches of 7 for four */
#define EVEN  "2 2 2 1 1 1 1 0" /* the same when the 7 is not known */

static est_dataset *four(est_dataset *dataset)
{
    return est_dataset_rebatch(dataset, 2, 0, 2);
}

static est_status next_batch(void *state, est_field *element)
{
    (void)state;
    (void)element;
    return EST_OUT_OF_RANGE;
}

TEST(found)
{
    static const est_component vectors = { .name = "value", .dtype = EST_I64, .shape = { 1, { -1 } } };
    est_dataset               *d;

    yields_sizes(four(est_dataset_filter(batches(10, 7), keep_all, NULL)), KNOWN);
    yields_sizes(four(est_dataset_take(batches(30, 7), 2)), "2 2 2 1 2 2 2 1");
    yields_sizes(four(est_dataset_skip(batches(10, 7), 0)), KNOWN);
    yields_sizes(four(est_dataset_shard(batches(10, 7), 1, 0)), KNOWN);
    yields_sizes(four(est_dataset_shuffle(batches(10, 7), 1, 1)), KNOWN);
    yields_sizes(four(est_dataset_repeat(batches(10, 7), 1)), KNOWN);
    yields_sizes(four(est_dataset_cache(batches(10, 7), NULL)), KNOWN);
    yields_sizes(four(est_dataset_prefetch(batches(10, 7), 2)), KNOWN);
    yields_sizes(four(est_dataset_concatenate(batches(7, 7), est_dataset_batch(est_dataset_range(7, 10, 1), 7, NULL))),
                 KNOWN);
    yields_sizes(four(est_dataset_concatenate(batches(7, 7), est_dataset_batch(est_dataset_range(7, 10, 1), 3, NULL))),
                 EVEN);
    yields_sizes(four(unknown(batches(10, 7))), EVEN);
    d = est_dataset_batch(range(14), 7, EST_BATCH(.drop_remainder = true)); /* the shape says it, behind any function */
    yields_sizes(est_dataset_rebatch(unknown(d), 2, 1, 2), "2 1 2 2 2 1 2 2");
    d = est_dataset_generator((est_components){ &vectors, 1 }, EST_GENERATOR(.next = next_batch));
    yields_sizes(four(d), "");
}

TEST(shapes)
{
    est_dataset *d = est_dataset_batch(range(17), 8, EST_BATCH(.drop_remainder = true));

    d = est_test_finish(four(d));
    assert_int_equal(est_dataset_component(d, 0)->shape.dim[0], 2);
    est_dataset_free(d);
    d = est_test_finish(four(batches(17, 8)));
    assert_int_equal(est_dataset_component(d, 0)->shape.dim[0], -1);
    est_dataset_free(d);
    d = est_test_finish(four(est_dataset_batch(range(17), 7, EST_BATCH(.drop_remainder = true))));
    assert_int_equal(est_dataset_component(d, 0)->shape.dim[0], -1);
    est_dataset_free(d);
    yields_sizes(four(est_dataset_batch(range(17), 8, EST_BATCH(.drop_remainder = true))), "2 2 2 2 2 2 2 2");
    assert_true(est_dataset_endless(d = est_test_finish(four(est_dataset_repeat(batches(9, 7), EST_FOREVER)))));
    est_dataset_free(d);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* Row r has r % 3 words and as many pairs of numbers. */
static const est_component words[] = {
    { .name = "word", .dtype = EST_STRING, .shape = { 1, { -1 } } },
    { .name = "number", .dtype = EST_I64, .shape = { 2, { -1, 2 } } },
};

static est_status make_words(int64_t row, int i, est_tensor **out)
{
    static const est_str text[]   = { { "a", 1 }, { "bc", 2 } };
    const int64_t        number[] = { row, row, -row, -row };

    if (i == 0) return est_tensor_create_from(EST_STRING, EST_SHAPE(row % 3), text, out);
    return est_tensor_i64(EST_SHAPE(row % 3, 2), number, out);
}

static est_dataset *ragged(int64_t n, int64_t batch)
{
    return est_dataset_batch(est_test_rows(words, 2, n, make_words, "rows.csv"), batch,
                             EST_BATCH(.rows = EST_ROWS_RAGGED));
}

TEST(rows)
{
    est_test_yields(est_dataset_rebatch(est_dataset_repeat(batches(5, 3), 2), 1, 0, 2),
                    "[0 1] ; [2] ; [3 4] ; [0] ; [1 2] ; [3] ; [4]");
    est_test_yields(est_dataset_rebatch(ragged(3, 3), 1, 0, 2), "[\"a\"]/[0 0 1] | [[1 1]]/[0 0 1] ; "
                                                                "[\"a\" \"bc\"]/[0 2] | [[2 2] [-2 -2]]/[0 2]");
    est_test_yields(est_dataset_rebatch(est_dataset_repeat(est_dataset_take(ragged(4, 4), 1), 1), 1, 0, 1),
                    "[\"a\" \"a\" \"bc\"]/[0 0 1 3 3] | [[1 1] [2 2] [-2 -2]]/[0 0 1 3 3]");
    est_test_yields(est_dataset_rebatch(est_dataset_concatenate(ragged(2, 4), ragged(2, 4)), 1, 0, 1),
                    "[\"a\" \"a\"]/[0 0 1 1 2] | [[1 1] [1 1]]/[0 0 1 1 2]");
}

static est_dataset *padded(int64_t n, int64_t batch)
{
    return est_dataset_batch(est_test_rows(words, 2, n, make_words, NULL), batch, EST_BATCH(.rows = EST_ROWS_PADDED));
}

static est_status rename_value(void *user, const est_field *in, est_field *out)
{
    return same(user, in, out);
}

TEST(refused)
{
    est_component twin = { .name = "twin", .dtype = EST_I64, .shape = { 1, { -1 } } };
    est_dataset  *d;

    est_test_refused(four(range(5)), "stage rebatch: component value is a scalar: there are no batches to divide");
    est_test_refused(four(est_dataset_enumerate(batches(5, 2), 0)), "component index is a scalar");
    est_test_refused(est_dataset_rebatch(batches(5, 2), 0, 0, 1), "worker 0 of 0");
    est_test_refused(est_dataset_rebatch(batches(5, 2), 2, 2, 1), "worker 2 of 2");
    est_test_refused(est_dataset_rebatch(batches(5, 2), 2, -1, 1), "worker -1 of 2");
    est_test_refused(est_dataset_rebatch(batches(5, 2), 2, 1, 0), "0 replicas; a worker has at least one");
    est_test_refused(est_dataset_rebatch(batches(5, 2), INT64_MAX, 1, 2), "more than can be counted");
    est_test_refused(four(NULL), "no dataset was given");
    est_test_refused(four(est_dataset_take(batches(5, 2), -1)), "stage take: -1 elements");
    est_test_breaks(est_dataset_rebatch(est_dataset_concatenate(padded(2, 4), padded(3, 4)), 1, 0, 1),
                    EST_INVALID_ARGUMENT, "rebatch: component word: the rows of batches of shapes [2,1] and [2,2]");
    twin.shape = EST_SHAPE_UNKNOWN;
    d          = est_dataset_map(batches(5, 2), rename_value, EST_MAP(.components = { &twin, 1 }));
    est_test_refused(four(d), "component twin has an unknown rank");
    twin.shape = EST_SHAPE(-1);
    d          = est_dataset_map(batches(9, 3), rename_value, EST_MAP(.components = { &twin, 1 }));
    est_test_breaks(four(est_dataset_zip(batches(9, 4), d)), EST_INVALID_ARGUMENT,
                    "rebatch: component value has 4 rows and twin has 3");
}

/* --- positions and failures --------------------------------------------------------------------------------------- */

static est_dataset *make_known(void)
{
    return est_dataset_rebatch(est_dataset_repeat(batches(10, 7), 2), 2, 1, 2);
}

static est_dataset *make_even(void)
{
    return est_dataset_rebatch(unknown(est_dataset_repeat(batches(10, 7), 2)), 2, 1, 2);
}

static est_dataset *make_empty(void)
{
    return est_dataset_rebatch(batches(4, 2), 2, 1, 2);
}

static est_dataset *make_ragged(void)
{
    return est_dataset_rebatch(est_dataset_repeat(ragged(5, 3), 3), 1, 0, 2);
}

static est_dataset *make_fixed(void)
{
    return est_dataset_rebatch(est_dataset_batch(range(7), 3, EST_BATCH(.drop_remainder = true)), 2, 0, 2);
}

static const est_test_make makes[] = { make_known, make_even, make_empty, make_ragged, make_fixed };

TEST(positions)
{
    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) est_test_positions(makes[i], 18);
}

TEST(allocations)
{
    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) est_test_allocations(makes[i], 8);
}

static est_status make_line(int64_t row, int i, est_tensor **out)
{
    (void)i;
    return est_tensor_string(row % 3 == 1 ? "x" : "1", 1, out);
}

/* Rows left out are counted once, and rows of the next batches take their places. */
TEST(bad_rows)
{
    static const est_component line = { .name = "line", .dtype = EST_STRING };
    est_dataset               *d    = est_test_rows(&line, 1, 9, make_line, "rows.csv");
    est_iterator              *rows;
    char                      *text;

    d    = est_dataset_decode_csv(d, EST_CSV_COLUMNS({ "n", EST_I64 }), NULL, 4, EST_PARSE(.bad_rows_max = 9));
    d    = est_test_finish(est_dataset_rebatch(d, 1, 0, 2));
    rows = est_test_iterate(d);
    text = est_test_elements(rows, d, EST_FOREVER);
    assert_string_equal(text, "[1 1] ; [1 1] ; [1 1]");
    assert_int_equal(est_iterator_get_stats(rows).elements, 3);
    assert_int_equal(est_iterator_get_stats(rows).bad_rows, 3);
    est_free(text);
    est_iterator_free(rows);
    est_dataset_free(d);
}
