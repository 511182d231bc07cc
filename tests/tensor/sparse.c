/* SPDX-License-Identifier: Apache-2.0
 *
 * Ragged rows and indexed rows: every way to be wrong, and sums of duplicates. */
#include <string.h>

#include "base/fault.h"
#include "estoc/tensor.h"
#include "support/test.h"

static est_tensor *made(est_dtype dtype, est_shape shape, const void *data)
{
    est_tensor *t = NULL;

    assert_int_equal(est_tensor_create_from(dtype, shape, data, &t), EST_OK);
    return t;
}

/* Checks splits against n values. */
static est_status check_splits(int64_t n_values, int64_t n_splits, const int64_t *splits)
{
    float      values[16] = { 0 };
    est_ragged ragged     = { made(EST_F32, EST_SHAPE(n_values), values), made(EST_I64, EST_SHAPE(n_splits), splits) };
    est_status status     = est_ragged_check(&ragged);

    est_tensor_free(ragged.values);
    est_tensor_free(ragged.splits);
    return status;
}

TEST(ragged_splits)
{
    assert_int_equal(check_splits(5, 4, (const int64_t[]){ 0, 2, 2, 5 }), EST_OK);
    assert_int_equal(check_splits(0, 1, (const int64_t[]){ 0 }), EST_OK); /* no rows */
    assert_int_equal(check_splits(0, 3, (const int64_t[]){ 0, 0, 0 }), EST_OK);
    assert_int_equal(check_splits(5, 3, (const int64_t[]){ 1, 2, 5 }), EST_INVALID_ARGUMENT);
    assert_int_equal(check_splits(5, 4, (const int64_t[]){ 0, 4, 3, 5 }), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "row 1"));
    assert_int_equal(check_splits(5, 3, (const int64_t[]){ 0, 2, 4 }), EST_INVALID_ARGUMENT);
    assert_int_equal(check_splits(5, 3, (const int64_t[]){ 0, 2, 6 }), EST_INVALID_ARGUMENT);
    assert_int_equal(check_splits(5, 0, NULL), EST_INVALID_ARGUMENT);
    assert_int_equal(check_splits(1, 1, (const int64_t[]){ 0 }), EST_INVALID_ARGUMENT);
}

TEST(ragged_types)
{
    const int32_t narrow[] = { 0, 1 };
    const float   one      = 1;
    est_tensor   *values = made(EST_F32, EST_SHAPE(1), &one), *scalar = made(EST_F32, EST_SHAPE_SCALAR, &one);
    est_tensor   *splits = made(EST_I64, EST_SHAPE(2), (const int64_t[]){ 0, 1 });
    est_tensor   *wrong = made(EST_I32, EST_SHAPE(2), narrow), *flat = made(EST_I64, EST_SHAPE_SCALAR, &(int64_t){ 0 });

    assert_int_equal(est_ragged_check(&(est_ragged){ values, splits }), EST_OK);
    assert_int_equal(est_ragged_check(&(est_ragged){ values, wrong }), EST_INVALID_ARGUMENT);
    assert_int_equal(est_ragged_check(&(est_ragged){ values, flat }), EST_INVALID_ARGUMENT);
    assert_int_equal(est_ragged_check(&(est_ragged){ scalar, splits }), EST_INVALID_ARGUMENT);
    assert_int_equal(est_ragged_check(&(est_ragged){ NULL, splits }), EST_INVALID_ARGUMENT);
    assert_int_equal(est_ragged_check(&(est_ragged){ values, NULL }), EST_INVALID_ARGUMENT);
    est_tensor_free(values);
    est_tensor_free(scalar);
    est_tensor_free(splits);
    est_tensor_free(wrong);
    est_tensor_free(flat);
}

TEST(indexed_sums_duplicates)
{
    const float   values[]  = { 1, 2, 10, 20, 100, 200 };
    const float   want[]    = { 0, 0, 101, 202, 0, 0, 10, 20 };
    const int64_t indices[] = { 1, 3, 1 };
    est_indexed   slices    = { made(EST_F32, EST_SHAPE(3, 2), values), made(EST_I64, EST_SHAPE(3), indices), 4 };
    est_tensor   *dense     = NULL;

    assert_int_equal(est_indexed_to_dense(&slices, &dense), EST_OK);
    assert_true(est_shape_equal(est_tensor_shape(dense), &EST_SHAPE(4, 2)));
    assert_memory_equal(est_tensor_data(dense), want, sizeof want);
    est_tensor_free(dense);

    dense = NULL;
    est_fault_arm_alloc(1);
    assert_int_equal(est_indexed_to_dense(&slices, &dense), EST_RESOURCE_EXHAUSTED);
    est_fault_arm_alloc(2);
    assert_int_equal(est_indexed_to_dense(&slices, &dense), EST_RESOURCE_EXHAUSTED);
    est_fault_arm_alloc(0);
    assert_null(dense);
    est_tensor_free(slices.values);
    est_tensor_free(slices.indices);
}

TEST(indexed_types)
{
    const double  f64[]  = { 1.5, 2.5 };
    const int32_t i32[]  = { INT32_MAX, 1 };
    const int64_t i64[]  = { -5, 7 };
    const uint8_t u8[]   = { 255, 2 };
    const int32_t zero[] = { 0, 0 };
    const struct {
        est_dtype   dtype;
        const void *values;
        union {
            double  f64;
            int32_t i32;
            int64_t i64;
            uint8_t u8;
        } sum;
    } cases[] = {
        { EST_F64, f64, { .f64 = 4.0 } },
        { EST_I32, i32, { .i32 = INT32_MIN } }, /* wraps */
        { EST_I64, i64, { .i64 = 2 } },
        { EST_U8, u8, { .u8 = 1 } },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        est_indexed slices = { made(cases[i].dtype, EST_SHAPE(2), cases[i].values), made(EST_I32, EST_SHAPE(2), zero),
                               1 };
        est_tensor *dense  = NULL;

        assert_int_equal(est_indexed_to_dense(&slices, &dense), EST_OK);
        assert_memory_equal(est_tensor_data(dense), &cases[i].sum, est_dtype_size(cases[i].dtype));
        est_tensor_free(dense);
        est_tensor_free(slices.values);
        est_tensor_free(slices.indices);
    }
}

/* The status of making f32 [n_values] dense with these indices. */
static est_status dense_status(int64_t n_values, int64_t n_indices, const int64_t *indices, int64_t rows)
{
    const float values[8] = { 0 };
    est_indexed slices    = { made(EST_F32, EST_SHAPE(n_values), values), made(EST_I64, EST_SHAPE(n_indices), indices),
                              rows };
    est_tensor *dense     = NULL;
    est_status  status    = est_indexed_to_dense(&slices, &dense);

    assert_int_equal(dense == NULL, status != EST_OK);
    est_tensor_free(dense);
    est_tensor_free(slices.values);
    est_tensor_free(slices.indices);
    return status;
}

TEST(indexed_errors)
{
    assert_int_equal(dense_status(2, 2, (const int64_t[]){ 0, 4 }, 5), EST_OK);
    assert_int_equal(dense_status(0, 0, NULL, 0), EST_OK);
    assert_int_equal(dense_status(2, 2, (const int64_t[]){ 0, 5 }, 5), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "index 1 is 5"));
    assert_int_equal(dense_status(2, 2, (const int64_t[]){ -1, 0 }, 5), EST_INVALID_ARGUMENT);
    assert_int_equal(dense_status(2, 1, (const int64_t[]){ 0 }, 5), EST_INVALID_ARGUMENT);
    assert_int_equal(dense_status(0, 0, NULL, -3), EST_INVALID_ARGUMENT);
}

TEST(indexed_without_a_sum)
{
    const float   index   = 0;
    const int64_t zero    = 0;
    const est_str text    = { "x", 1 };
    est_tensor   *indices = made(EST_I64, EST_SHAPE(1), &zero), *floats = made(EST_F32, EST_SHAPE(1), &index);
    est_tensor   *strings = made(EST_STRING, EST_SHAPE(1), &text), *scalar = made(EST_F32, EST_SHAPE_SCALAR, &index);
    est_tensor   *dense = NULL;

    assert_int_equal(est_indexed_to_dense(&(est_indexed){ strings, indices, 1 }, &dense), EST_INVALID_ARGUMENT);
    assert_int_equal(est_indexed_to_dense(&(est_indexed){ floats, floats, 1 }, &dense), EST_INVALID_ARGUMENT);
    assert_int_equal(est_indexed_to_dense(&(est_indexed){ scalar, indices, 1 }, &dense), EST_INVALID_ARGUMENT);
    assert_int_equal(est_indexed_to_dense(&(est_indexed){ NULL, indices, 1 }, &dense), EST_INVALID_ARGUMENT);
    est_tensor_free(indices);
    est_tensor_free(floats);
    est_tensor_free(strings);
    est_tensor_free(scalar);
}
