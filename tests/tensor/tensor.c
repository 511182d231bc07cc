/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors: memory and who frees it, strings, wrapped memory, views of rows, references from many threads. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "estoc/tensor.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define STR(text) ((est_str){ (text), sizeof(text) - 1 })

TEST(create)
{
    est_tensor *t = NULL;

    assert_int_equal(est_tensor_create(EST_F32, EST_SHAPE(2, 3), &t), EST_OK);
    assert_int_equal(est_tensor_dtype(t), EST_F32);
    assert_true(est_shape_equal(est_tensor_shape(t), &EST_SHAPE(2, 3)));
    assert_int_equal(est_tensor_count(t), 6);
    assert_int_equal(est_tensor_bytes(t), 24);
    assert_int_equal((uintptr_t)est_tensor_data(t) % EST_ALIGNMENT, 0);
    est_tensor_free(t);
    est_tensor_free(NULL);
}

TEST(scalars_and_empty_ones)
{
    const float value = 2.5f;
    est_tensor *t     = NULL;

    assert_int_equal(est_tensor_f32(EST_SHAPE_SCALAR, &value, &t), EST_OK);
    assert_int_equal(est_tensor_count(t), 1);
    assert_memory_equal(est_tensor_data(t), &value, sizeof value);
    est_tensor_free(t);
    assert_int_equal(est_tensor_i64(EST_SHAPE(0, 5), NULL, &t), EST_OK);
    assert_int_equal(est_tensor_count(t), 0);
    assert_int_equal(est_tensor_bytes(t), 0);
    assert_non_null(est_tensor_data(t));
    est_tensor_free(t);
    assert_int_equal(est_tensor_create(EST_STRING, EST_SHAPE(0), &t), EST_OK);
    est_tensor_free(t);
}

TEST(data_is_copied)
{
    int64_t     data[] = { 1, 2, 3 };
    est_tensor *t      = NULL;

    assert_int_equal(est_tensor_i64(EST_SHAPE(3), data, &t), EST_OK);
    data[1] = 77;
    assert_int_equal(((const int64_t *)est_tensor_data(t))[1], 2);
    est_tensor_free(t);
}

TEST(bad_arguments)
{
    est_tensor *t    = NULL;
    float       data = 0;

    assert_int_equal(est_tensor_create(EST_F32, EST_SHAPE(-1, 3), &t), EST_INVALID_ARGUMENT);
    assert_int_equal(est_tensor_create(EST_F32, EST_SHAPE_UNKNOWN, &t), EST_INVALID_ARGUMENT);
    assert_int_equal(est_tensor_create(EST_RESOURCE, EST_SHAPE(2), &t), EST_INVALID_ARGUMENT);
    assert_int_equal(est_tensor_create(EST_DTYPE_NONE, EST_SHAPE(2), &t), EST_INVALID_ARGUMENT);
    assert_int_equal(est_tensor_create(EST_F32, EST_SHAPE(INT64_MAX, 8), &t), EST_INVALID_ARGUMENT);
    assert_int_equal(est_tensor_wrap(EST_STRING, EST_SHAPE(1), &data, NULL, NULL, &t), EST_INVALID_ARGUMENT);
    assert_int_equal(est_tensor_wrap(EST_F32, EST_SHAPE(1), NULL, NULL, NULL, &t), EST_INVALID_ARGUMENT);
    assert_null(t);
}

TEST(strings)
{
    est_tensor *t = NULL;
    est_str    *s;

    assert_int_equal(est_tensor_create(EST_STRING, EST_SHAPE(2, 2), &t), EST_OK);
    assert_int_equal(est_tensor_bytes(t), 4 * sizeof(est_str));
    s = est_tensor_mutable_data(t);
    for (int i = 0; i < 4; i++) {
        assert_non_null(s[i].data);
        assert_int_equal(s[i].size, 0);
    }
    assert_int_equal(est_tensor_set_string(t, 0, "a\0b", 3), EST_OK);
    assert_int_equal(est_tensor_set_string(t, 3, "last", 4), EST_OK);
    assert_int_equal(s[0].size, 3);
    assert_memory_equal(s[0].data, "a\0b", 3);
    assert_memory_equal(s[3].data, "last", 4);
    assert_int_equal(est_tensor_set_string(t, 3, "another one", 11), EST_OK);
    assert_memory_equal(s[3].data, "another one", 11);
    assert_int_equal(est_tensor_set_string(t, 3, NULL, 0), EST_OK);
    assert_int_equal(s[3].size, 0);
    assert_int_equal(est_tensor_set_string(t, 4, "x", 1), EST_INVALID_ARGUMENT);
    assert_int_equal(est_tensor_set_string(t, -1, "x", 1), EST_INVALID_ARGUMENT);
    est_tensor_free(t);

    assert_int_equal(est_tensor_create(EST_F32, EST_SHAPE(2), &t), EST_OK);
    assert_int_equal(est_tensor_set_string(t, 0, "x", 1), EST_INVALID_ARGUMENT);
    est_tensor_free(t);
}

TEST(strings_are_copied)
{
    char        first[]   = "red";
    est_str     strings[] = { { first, 3 }, STR("green"), STR("") };
    est_tensor *t         = NULL;

    assert_int_equal(est_tensor_create_from(EST_STRING, EST_SHAPE(3), strings, &t), EST_OK);
    first[0]        = 'X';
    strings[1].size = 0;
    assert_memory_equal(((const est_str *)est_tensor_data(t))[0].data, "red", 3);
    assert_int_equal(((const est_str *)est_tensor_data(t))[1].size, 5);
    est_tensor_free(t);
}

static void count_release(void *user)
{
    ++*(int *)user;
}

TEST(wrap)
{
    float       data[6]  = { 0, 1, 2, 3, 4, 5 };
    int         released = 0;
    est_tensor *t = NULL, *view = NULL;

    assert_int_equal(est_tensor_wrap(EST_F32, EST_SHAPE(3, 2), data, count_release, &released, &t), EST_OK);
    assert_ptr_equal(est_tensor_data(t), data);
    assert_int_equal(est_tensor_rows(t, 1, 2, &view), EST_OK);
    est_tensor_free(t);
    assert_int_equal(released, 0); /* the view still needs it */
    assert_ptr_equal(est_tensor_data(view), data + 2);
    est_tensor_free(view);
    assert_int_equal(released, 1);

    assert_int_equal(est_tensor_wrap(EST_F32, EST_SHAPE(6), data, NULL, NULL, &t), EST_OK);
    est_tensor_free(t);
    assert_true(data[5] == 5);
    assert_int_equal(est_tensor_wrap(EST_F32, EST_SHAPE(0), NULL, count_release, &released, &t), EST_OK);
    est_tensor_free(t);
    assert_int_equal(released, 2);
}

TEST(rows)
{
    float       data[12];
    est_tensor *t = NULL, *middle = NULL, *inner = NULL, *none = NULL;

    for (int i = 0; i < 12; i++) data[i] = (float)i;
    assert_int_equal(est_tensor_f32(EST_SHAPE(6, 2), data, &t), EST_OK);
    assert_int_equal(est_tensor_rows(t, 1, 4, &middle), EST_OK);
    assert_true(est_shape_equal(est_tensor_shape(middle), &EST_SHAPE(4, 2)));
    assert_int_equal(est_tensor_count(middle), 8);
    assert_int_equal(est_tensor_rows(middle, 2, 1, &inner), EST_OK); /* of a view */
    est_tensor_free(t);
    est_tensor_free(middle);
    assert_memory_equal(est_tensor_data(inner), data + 6, 2 * sizeof *data);
    assert_int_equal(est_tensor_rows(inner, 1, 0, &none), EST_OK);
    assert_int_equal(est_tensor_count(none), 0);
    est_tensor_free(none);
    none = NULL;
    assert_int_equal(est_tensor_rows(inner, 0, 2, &none), EST_INVALID_ARGUMENT);
    assert_int_equal(est_tensor_rows(inner, -1, 1, &none), EST_INVALID_ARGUMENT);
    assert_int_equal(est_tensor_rows(inner, 1, INT64_MAX, &none), EST_INVALID_ARGUMENT);
    assert_int_equal(est_tensor_rows(inner, 0, -1, &none), EST_INVALID_ARGUMENT);
    assert_null(none);
    est_tensor_free(inner);

    assert_int_equal(est_tensor_f32(EST_SHAPE_SCALAR, data, &t), EST_OK);
    assert_int_equal(est_tensor_rows(t, 0, 0, &none), EST_INVALID_ARGUMENT);
    est_tensor_free(t);
    assert_int_equal(est_tensor_f32(EST_SHAPE(0, 3), data, &t), EST_OK);
    assert_int_equal(est_tensor_rows(t, 0, 0, &none), EST_OK);
    assert_true(est_shape_equal(est_tensor_shape(none), &EST_SHAPE(0, 3)));
    est_tensor_free(none);
    est_tensor_free(t);
}

TEST(string_rows)
{
    const est_str strings[] = { STR("zero"), STR("one"), STR("two") };
    est_tensor   *t = NULL, *view = NULL;

    assert_int_equal(est_tensor_create_from(EST_STRING, EST_SHAPE(3), strings, &t), EST_OK);
    assert_int_equal(est_tensor_rows(t, 2, 1, &view), EST_OK);
    est_tensor_free(t);
    assert_memory_equal(((const est_str *)est_tensor_data(view))[0].data, "two", 3);
    assert_int_equal(est_tensor_set_string(view, 0, "second", 6), EST_OK); /* the bytes live with the owner */
    assert_memory_equal(((const est_str *)est_tensor_data(view))[0].data, "second", 6);
    est_tensor_free(view);
}

static void *share_many(void *arg)
{
    est_tensor *t = arg, *view;

    for (int i = 0; i < 5000; i++) {
        est_tensor *again = est_tensor_ref(t);

        if (est_tensor_rows(again, 0, 1, &view) != EST_OK) return NULL;
        est_tensor_free(again);
        est_tensor_free(view);
    }
    est_tensor_free(t);
    return arg;
}

TEST(references_from_threads)
{
    pthread_t   threads[4];
    int         released = 0;
    float       data[4]  = { 0 };
    est_tensor *t        = NULL;

    assert_int_equal(est_tensor_wrap(EST_F32, EST_SHAPE(4), data, count_release, &released, &t), EST_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, share_many, est_tensor_ref(t)), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *result;

        pthread_join(threads[i], &result);
        assert_ptr_equal(result, t);
    }
    assert_int_equal(released, 0);
    est_tensor_free(t);
    assert_int_equal(released, 1);
}

static est_status make_some(void)
{
    const est_str strings[] = { STR("a"), STR("bb"), STR("") };
    est_tensor   *t = NULL, *view = NULL;
    est_status    status;

    EST_TRY(est_tensor_create_from(EST_STRING, EST_SHAPE(3), strings, &t));
    status = est_tensor_rows(t, 1, 2, &view);
    est_tensor_free(view);
    est_tensor_free(t);
    return status;
}

TEST(memory_out)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 3) {
        est_status status;

        fault_arm(&f);
        status = make_some();
        fault_check(&f, status);
    }
}

TEST(row)
{
    const int64_t data[] = { 1, 2, 3, 4, 5, 6 };
    est_tensor   *t = NULL, *row = NULL;

    assert_int_equal(est_tensor_i64(EST_SHAPE(3, 2), data, &t), EST_OK);
    assert_int_equal(est_tensor_row(t, 1, &row), EST_OK);
    assert_true(est_shape_equal(est_tensor_shape(row), &EST_SHAPE(2)));
    assert_ptr_equal(est_tensor_data(row), (const int64_t *)est_tensor_data(t) + 2);
    est_tensor_free(t); /* the view keeps the memory */
    assert_memory_equal(est_tensor_data(row), data + 2, 16);
    t = row;
    assert_int_equal(est_tensor_row(t, 1, &row), EST_OK);
    assert_true(est_shape_equal(est_tensor_shape(row), &EST_SHAPE_SCALAR));
    assert_int_equal(est_tensor_count(row), 1);
    assert_int_equal(est_tensor_row(row, 0, &t), EST_INVALID_ARGUMENT);
    assert_int_equal(est_tensor_row(t, 2, &row), EST_INVALID_ARGUMENT);
    est_tensor_free(row);
    est_tensor_free(t);
}

TEST(string_scalar)
{
    est_tensor *t = NULL;

    assert_int_equal(est_tensor_string("a\0b", 3, &t), EST_OK);
    assert_int_equal(est_tensor_dtype(t), EST_STRING);
    assert_true(est_shape_equal(est_tensor_shape(t), &EST_SHAPE_SCALAR));
    assert_int_equal(((const est_str *)est_tensor_data(t))->size, 3);
    assert_memory_equal(((const est_str *)est_tensor_data(t))->data, "a\0b", 3);
    assert_int_equal(est_tensor_set_string(t, 0, "longer", 6), EST_OK);
    assert_memory_equal(((const est_str *)est_tensor_data(t))->data, "longer", 6);
    est_tensor_free(t);
    assert_int_equal(est_tensor_string(NULL, 0, &t), EST_OK);
    assert_int_equal(((const est_str *)est_tensor_data(t))->size, 0);
    est_tensor_free(t);
    assert_int_equal(est_tensor_string("x", SIZE_MAX, &t), EST_RESOURCE_EXHAUSTED);
}
