/* SPDX-License-Identifier: Apache-2.0
 *
 * batch: stacked, padded and ragged. The tables are what tf.data's batch, padded_batch and ragged_batch give for the
 * same elements. */
#include <math.h>
#include <string.h>

#include "support/data_test.h"
#include "support/test.h"

static est_dataset *range(int64_t n)
{
    return est_dataset_range(0, n, 1);
}

/* Rows of 1, 3, 0, 2 and 5 numbers: ten times their number and counting. */
static const est_component numbers_component = { .name = "n", .dtype = EST_I64, .shape = { 1, { -1 } } };

static est_status numbers_row(int64_t row, int i, est_tensor **out)
{
    static const int64_t count[] = { 1, 3, 0, 2, 5 };
    int64_t              data[5];

    (void)i;
    for (int64_t k = 0; k < count[row]; k++) data[k] = 10 * count[row] + k;
    return est_tensor_i64(EST_SHAPE(count[row]), data, out);
}

static est_dataset *numbers(void)
{
    return est_test_rows(&numbers_component, 1, 5, numbers_row, "numbers.csv");
}

/* Matrices of 1 by 2, 2 by 1 and 0 by 3, counting from 1. */
static const est_component matrix_component = { .name = "m", .dtype = EST_F32, .shape = { 2, { -1, -1 } } };

static est_status matrix_row(int64_t row, int i, est_tensor **out)
{
    static const est_shape shapes[] = { { 2, { 1, 2 } }, { 2, { 2, 1 } }, { 2, { 0, 3 } } };

    (void)i;
    return est_tensor_f32(shapes[row], (const float[]){ 1, 2 }, out);
}

static est_dataset *matrices(void)
{
    return est_test_rows(&matrix_component, 1, 3, matrix_row, NULL);
}

/* A scalar, r words, and 2 by 2 bytes. */
static const est_component mixed_components[] = {
    { .name = "id", .dtype = EST_I32 },
    { .name = "words", .dtype = EST_STRING, .shape = { 1, { -1 } } },
    { .name = "pixels", .dtype = EST_U8, .shape = { 2, { 2, 2 } } },
};

static est_status mixed_row(int64_t row, int i, est_tensor **out)
{
    static const est_str words[] = { { "a", 1 }, { "bc", 2 }, { "", 0 }, { "d\0e", 3 } };

    switch (i) {
    case 0: return est_tensor_create_from(EST_I32, EST_SHAPE_SCALAR, &(int32_t){ (int32_t)-row }, out);
    case 1: return est_tensor_create_from(EST_STRING, EST_SHAPE(row), words, out);
    default: return est_tensor_create_from(EST_U8, EST_SHAPE(2, 2), "\1\2\3\4", out);
    }
}

static est_dataset *mixed(void)
{
    return est_test_rows(mixed_components, 3, 5, mixed_row, "mixed.csv");
}

static void shape_is(const est_dataset *dataset, int i, est_shape want)
{
    assert_true(est_shape_equal(&est_dataset_component(dataset, i)->shape, &want));
}

/* --- stacked ------------------------------------------------------------------------------------------------------ */

TEST(stacked)
{
    est_dataset *dataset;

    dataset = est_test_finish(est_dataset_batch(range(7), 3, NULL));
    shape_is(dataset, 0, EST_SHAPE(-1));
    est_test_yields(dataset, "[0 1 2] ; [3 4 5] ; [6]");
    dataset = est_test_finish(est_dataset_batch(range(7), 3, EST_BATCH(.drop_remainder = true)));
    shape_is(dataset, 0, EST_SHAPE(3));
    est_test_yields(dataset, "[0 1 2] ; [3 4 5]");
    est_test_yields(est_dataset_batch(range(6), 3, EST_BATCH(.drop_remainder = true)), "[0 1 2] ; [3 4 5]");
    est_test_yields(est_dataset_batch(range(2), 3, EST_BATCH(.drop_remainder = true)), "");
    est_test_yields(est_dataset_batch(range(0), 3, NULL), "");
    est_test_yields(est_dataset_batch(range(2), INT64_MAX, NULL), "[0 1]"); /* what is there, not what could be */
    est_test_yields(est_dataset_batch(est_dataset_batch(range(8), 2, NULL), 3, NULL), "[[0 1] [2 3] [4 5]] ; [[6 7]]");
    est_test_yields(est_dataset_batch(est_dataset_take(est_dataset_skip(mixed(), 2), 1), 4, NULL),
                    "[-2] | [[\"a\" \"bc\"]] | [[[1 2] [3 4]]]");
}

/* So many rows that the room for them grows. */
TEST(many_rows)
{
    enum { ROWS = 1000, ROW = 7 };
    static float  data[ROWS * ROW];
    est_tensor   *all;
    est_dataset  *dataset;
    est_iterator *rows;
    est_field     element = { 0 };

    for (int i = 0; i < ROWS * ROW; i++) data[i] = (float)i;
    assert_int_equal(est_tensor_f32(EST_SHAPE(ROWS, ROW), data, &all), EST_OK);
    dataset = est_test_finish(est_dataset_batch(est_dataset_slices(EST_NAMED_TENSORS({ "x", all })), ROWS, NULL));
    shape_is(dataset, 0, EST_SHAPE(-1, ROW));
    rows = est_test_iterate(dataset);
    assert_int_equal(est_iterator_next(rows, &element), EST_OK);
    assert_memory_equal(est_tensor_data(element.values), data, sizeof data);
    est_element_clear(&element, 1);
    est_iterator_free(rows);
    est_dataset_free(dataset);
    est_tensor_free(all);
}

TEST(refused)
{
    static const est_component deep = { .name = "deep", .dtype = EST_F32, .shape = { 8, { 1, 1, 1, 1, 1, 1, 1, 1 } } };
    static const est_component any  = { .name = "any", .dtype = EST_I64, .shape = { -1, { 0 } } };
    est_batch_options          raw  = { .drop_remainder = true };

    est_test_refused(est_dataset_batch(range(3), 0, NULL), "batches of 0 elements");
    est_test_refused(est_dataset_batch(range(3), -1, NULL), "batches of -1 elements");
    est_test_refused(est_dataset_batch(range(3), 2, &raw), "make it with EST_BATCH(...)");
    est_test_refused(est_dataset_batch(range(3), 2, EST_BATCH(.rows = (est_feature_rows)3)), ".rows is 3");
    est_test_refused(est_dataset_batch(range(3), 2, EST_BATCH(.pad_number = 1)), ".pad_number needs .rows");
    est_test_refused(est_dataset_batch(range(3), 2, EST_BATCH(.padded_shapes = EST_SHAPES(EST_SHAPE(1)))),
                     ".padded_shapes needs .rows");
    est_test_refused(est_dataset_batch(est_test_rows(&deep, 1, 1, numbers_row, NULL), 2, NULL),
                     "component deep has 8 dimensions, the maximum");
    est_test_refused(est_dataset_batch(est_dataset_batch(numbers(), 2, EST_BATCH(.rows = EST_ROWS_RAGGED)), 2, NULL),
                     "component n is ragged, its elements are batches already; unbatch first");
    est_test_refused(
        est_dataset_batch(est_test_rows(&any, 1, 1, numbers_row, NULL), 2, EST_BATCH(.rows = EST_ROWS_RAGGED)),
        "component any has an unknown rank");
    est_test_refused(est_dataset_batch(est_dataset_skip(range(3), -1), 2, NULL), "stage skip");

    est_test_breaks(est_dataset_batch(numbers(), 2, NULL), EST_INVALID_ARGUMENT,
                    "numbers.csv:2: batch: component n of element 1 of the batch has shape [3], and of the first [1]; "
                    "make them equal, or set .rows to EST_ROWS_PADDED or EST_ROWS_RAGGED");
    est_test_breaks(est_dataset_batch(matrices(), 2, EST_BATCH(.rows = EST_ROWS_RAGGED)), EST_INVALID_ARGUMENT,
                    "component m of element 1 of the batch has shape [2,1], and of the first [1,2]; of a ragged");
    est_test_breaks(est_dataset_batch(est_dataset_concatenate(range(1), est_dataset_batch(range(1), 1, NULL)), 2,
                                      EST_BATCH(.rows = EST_ROWS_PADDED)),
                    EST_INVALID_ARGUMENT, "has shape [1], and of the first []; all need the same number of dimensions");
}

/* --- padded ------------------------------------------------------------------------------------------------------- */

TEST(padded)
{
    est_dataset *dataset;

    dataset = est_test_finish(est_dataset_batch(numbers(), 2, EST_BATCH(.rows = EST_ROWS_PADDED)));
    shape_is(dataset, 0, EST_SHAPE(-1, -1));
    est_test_yields(dataset, "[[10 0 0] [30 31 32]] ; [[0 0] [20 21]] ; [[50 51 52 53 54]]");
    dataset = est_test_finish(
        est_dataset_batch(numbers(), 3,
                          EST_BATCH(.rows = EST_ROWS_PADDED, .padded_shapes = EST_SHAPES(EST_SHAPE(6)),
                                    .pad_number = -1, .drop_remainder = true)));
    shape_is(dataset, 0, EST_SHAPE(3, 6));
    est_test_yields(dataset, "[[10 -1 -1 -1 -1 -1] [30 31 32 -1 -1 -1] [-1 -1 -1 -1 -1 -1]]");
    est_test_yields(
        est_dataset_batch(
            numbers(), 3,
            EST_BATCH(.rows = EST_ROWS_PADDED, .padded_shapes = EST_SHAPES(EST_SHAPE(6)), .pad_number = -1)),
        "[[10 -1 -1 -1 -1 -1] [30 31 32 -1 -1 -1] [-1 -1 -1 -1 -1 -1]] ; [[20 21 -1 -1 -1 -1] [50 51 52 53 54 -1]]");
    est_test_breaks(
        est_dataset_batch(numbers(), 3, EST_BATCH(.rows = EST_ROWS_PADDED, .padded_shapes = EST_SHAPES(EST_SHAPE(4)))),
        EST_INVALID_ARGUMENT, "numbers.csv:5: batch: component n of shape [5] cannot be filled up to [4]");
}

TEST(padded_axes)
{
    est_dataset *dataset;

    est_test_yields(est_dataset_batch(matrices(), 3, EST_BATCH(.rows = EST_ROWS_PADDED, .pad_number = 9.5)),
                    "[[[1 2 9.5] [9.5 9.5 9.5]] [[1 9.5 9.5] [2 9.5 9.5]] [[9.5 9.5 9.5] [9.5 9.5 9.5]]]");
    dataset = est_test_finish(est_dataset_batch(
        matrices(), 3, EST_BATCH(.rows = EST_ROWS_PADDED, .padded_shapes = EST_SHAPES(EST_SHAPE(3, -1)))));
    shape_is(dataset, 0, EST_SHAPE(-1, 3, -1));
    est_test_yields(dataset, "[[[1 2 0] [0 0 0] [0 0 0]] [[1 0 0] [2 0 0] [0 0 0]] [[0 0 0] [0 0 0] [0 0 0]]]");
    est_test_yields(est_dataset_batch(est_dataset_skip(matrices(), 2), 3, EST_BATCH(.rows = EST_ROWS_PADDED)),
                    "empty[1,0,3]");
}

/* Blocks of three axes where runs are of one, two and three of them; the reference goes over every index. */
static est_status box_row(int64_t row, int i, est_tensor **out)
{
    static const est_shape shapes[] = { { 3, { 2, 3, 4 } }, { 3, { 1, 3, 4 } }, { 3, { 2, 2, 4 } }, { 3, { 2, 3, 1 } },
                                        { 3, { 1, 1, 4 } }, { 3, { 1, 2, 3 } }, { 3, { 2, 1, 1 } } };
    int32_t                data[24];

    (void)i;
    for (int32_t k = 0; k < 24; k++) data[k] = 100 * (int32_t)row + k;
    return est_tensor_create_from(EST_I32, shapes[row], data, out);
}

TEST(padded_boxes)
{
    static const est_component component = { .name = "box", .dtype = EST_I32, .shape = { 3, { -1, -1, -1 } } };
    est_dataset   *dataset = est_test_finish(est_dataset_batch(est_test_rows(&component, 1, 7, box_row, NULL), 7,
                                                               EST_BATCH(.rows = EST_ROWS_PADDED, .pad_number = -7)));
    est_iterator  *rows    = est_test_iterate(dataset);
    est_field      element = { 0 };
    const int32_t *got;

    assert_int_equal(est_iterator_next(rows, &element), EST_OK);
    got = est_tensor_data(element.values);
    assert_true(est_shape_equal(est_tensor_shape(element.values), &EST_SHAPE(7, 2, 3, 4)));
    for (int64_t row = 0; row < 7; row++) {
        est_tensor      *tensor;
        const est_shape *shape;

        assert_int_equal(box_row(row, 0, &tensor), EST_OK);
        shape = est_tensor_shape(tensor);
        for (int64_t a = 0; a < 2; a++) {
            for (int64_t b = 0; b < 3; b++) {
                for (int64_t c = 0; c < 4; c++) {
                    bool    inside = a < shape->dim[0] && b < shape->dim[1] && c < shape->dim[2];
                    int64_t at     = (a * shape->dim[1] + b) * shape->dim[2] + c;

                    assert_int_equal(*got++, inside ? ((const int32_t *)est_tensor_data(tensor))[at] : -7);
                }
            }
        }
        est_tensor_free(tensor);
    }
    est_element_clear(&element, 1);
    est_iterator_free(rows);
    est_dataset_free(dataset);
}

TEST(padded_strings)
{
    est_shape    shapes[] = { EST_SHAPE_SCALAR, EST_SHAPE(4), EST_SHAPE(2, 3) };
    est_dataset *dataset;

    est_test_yields(
        est_dataset_batch(est_dataset_take(mixed(), 3), 3, EST_BATCH(.rows = EST_ROWS_PADDED)),
        "[0 -1 -2] | [[\"\" \"\"] [\"a\" \"\"] [\"a\" \"bc\"]] | [[[1 2] [3 4]] [[1 2] [3 4]] [[1 2] [3 4]]]");
    dataset = est_test_finish(
        est_dataset_batch(est_dataset_skip(mixed(), 3), 2,
                          EST_BATCH(.rows = EST_ROWS_PADDED, .padded_shapes = { shapes, 3 }, .pad_number = 255)));
    shape_is(dataset, 0, EST_SHAPE(-1));
    shape_is(dataset, 1, EST_SHAPE(-1, 4));
    shape_is(dataset, 2, EST_SHAPE(-1, 2, 3));
    est_test_yields(dataset, "[-3 -4] | [[\"a\" \"bc\" \"\" \"\"] [\"a\" \"bc\" \"\" \"d\\u0000e\"]] | "
                             "[[[1 2 255] [3 4 255]] [[1 2 255] [3 4 255]]]");
}

/* What a component of this dtype can be filled up with. */
static void pad_fits(est_dtype dtype, double number, bool fits)
{
    est_component component = { .name = "c", .dtype = dtype, .shape = { 1, { -1 } } };
    est_dataset  *dataset   = est_dataset_batch(est_test_rows(&component, 1, 0, numbers_row, NULL), 2,
                                                EST_BATCH(.rows = EST_ROWS_PADDED, .pad_number = number));

    if (fits) {
        est_test_yields(dataset, "");
    } else {
        est_test_refused(dataset, "the type of component c");
    }
}

TEST(pad_number)
{
    pad_fits(EST_F32, 0.1, true);
    pad_fits(EST_F32, NAN, true);
    pad_fits(EST_F32, -INFINITY, true);
    pad_fits(EST_F32, 1e39, false);
    pad_fits(EST_F64, 1e300, true);
    pad_fits(EST_I64, -0x1p63, true);
    pad_fits(EST_I64, 0x1p63, false);
    pad_fits(EST_I64, 0.5, false);
    pad_fits(EST_I64, NAN, false);
    pad_fits(EST_I32, INT32_MIN, true);
    pad_fits(EST_I32, 2147483648.0, false);
    pad_fits(EST_U8, 255, true);
    pad_fits(EST_U8, 256, false);
    pad_fits(EST_U8, -1, false);
    pad_fits(EST_BOOL, 1, true);
    pad_fits(EST_BOOL, 2, false);
    pad_fits(EST_STRING, 0.5, true);
    /* a component that is never filled up does not care */
    est_test_yields(est_dataset_batch(range(2), 2, EST_BATCH(.rows = EST_ROWS_PADDED, .pad_number = 0.5)), "[0 1]");
    est_test_refused(est_dataset_batch(est_dataset_batch(range(4), 2, EST_BATCH(.drop_remainder = true)), 2,
                                       EST_BATCH(.rows = EST_ROWS_PADDED, .padded_shapes = EST_SHAPES(EST_SHAPE(1)))),
                     "component value of shape [2] cannot be filled up to [1]");
    est_test_refused(
        est_dataset_batch(numbers(), 2,
                          EST_BATCH(.rows = EST_ROWS_PADDED, .padded_shapes = EST_SHAPES(EST_SHAPE(4, 4)))),
        "component n of shape [?] cannot be filled up to [4,4]");
    est_test_refused(
        est_dataset_batch(numbers(), 2, EST_BATCH(.rows = EST_ROWS_PADDED, .padded_shapes = EST_SHAPES(EST_SHAPE(-2)))),
        ".padded_shapes");
}

/* --- ragged ------------------------------------------------------------------------------------------------------- */

TEST(ragged)
{
    est_dataset         *dataset;
    const est_component *words;

    est_test_yields(est_dataset_batch(numbers(), 2, EST_BATCH(.rows = EST_ROWS_RAGGED)),
                    "[10 30 31 32]/[0 1 4] ; [20 21]/[0 0 2] ; [50 51 52 53 54]/[0 5]");
    dataset = est_test_finish(
        est_dataset_batch(mixed(), 3, EST_BATCH(.rows = EST_ROWS_RAGGED, .drop_remainder = true)));
    words = est_dataset_component(dataset, 1);
    assert_true(words->ragged && words->shape.rank == 1 && words->shape.dim[0] == -1);
    assert_false(est_dataset_component(dataset, 0)->ragged);
    shape_is(dataset, 0, EST_SHAPE(3));
    shape_is(dataset, 2, EST_SHAPE(3, 2, 2));
    est_test_yields(dataset,
                    "[0 -1 -2] | [\"a\" \"a\" \"bc\"]/[0 0 1 3] | [[[1 2] [3 4]] [[1 2] [3 4]] [[1 2] [3 4]]]");
    est_test_yields(est_dataset_batch(est_dataset_take(mixed(), 1), 3, EST_BATCH(.rows = EST_ROWS_RAGGED)),
                    "[0] | empty[0]/[0 0] | [[[1 2] [3 4]]]");
}

/* --- positions and allocations ------------------------------------------------------------------------------------ */

static est_dataset *make_stacked(void)
{
    return est_dataset_batch(range(11), 3, NULL);
}

static est_dataset *make_padded(void)
{
    return est_dataset_batch(mixed(), 2, EST_BATCH(.rows = EST_ROWS_PADDED));
}

static est_dataset *make_ragged(void)
{
    return est_dataset_batch(est_dataset_repeat(mixed(), 2), 3,
                             EST_BATCH(.rows = EST_ROWS_RAGGED, .drop_remainder = true));
}

static est_dataset *make_rebatched(void)
{
    return est_dataset_batch(est_dataset_unbatch(est_dataset_shuffle(make_ragged(), 2, 3)), 2,
                             EST_BATCH(.rows = EST_ROWS_PADDED));
}

static const est_test_make makes[] = { make_stacked, make_padded, make_ragged, make_rebatched };

TEST(positions)
{
    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) est_test_positions(makes[i], 8);
}

TEST(allocations)
{
    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) est_test_allocations(makes[i], 4);
}
