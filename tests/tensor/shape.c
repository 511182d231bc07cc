/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes: counting without overflow, text, broadcasting, merging, strides. */
#include <string.h>

#include "support/test.h"
#include "tensor/shape.h"

#define BIG (INT64_C(1) << 40)

TEST(count)
{
    static const struct {
        est_shape shape;
        int64_t   count;
    } cases[] = {
        { { 0, { 0 } }, 1 },           { { 1, { 0 } }, 0 },
        { { 3, { 2, 3, 4 } }, 24 },    { { 3, { 2, -1, 4 } }, -1 },
        { { -1, { 0 } }, -1 },         { { 2, { BIG, BIG } }, INT64_MAX },
        { { 3, { BIG, BIG, 0 } }, 0 }, { { 3, { 0, BIG, BIG } }, 0 },
        { { 2, { 0, -1 } }, -1 },      { { 8, { 2, 2, 2, 2, 2, 2, 2, 2 } }, 256 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(est_shape_count(&cases[i].shape), cases[i].count);
        assert_int_equal(est_shape_is_known(&cases[i].shape), cases[i].count >= 0);
    }
}

TEST(size)
{
    est_shape shape = EST_SHAPE(3, 5);
    int64_t   count = -7;
    size_t    bytes = 0;

    assert_int_equal(est_shape_size(&shape, EST_F64, &count, &bytes), EST_OK);
    assert_int_equal(count, 15);
    assert_int_equal(bytes, 120);
    assert_int_equal(est_shape_size(&shape, EST_F64, NULL, NULL), EST_OK);
    assert_int_equal(est_shape_size(&shape, EST_RESOURCE, &count, &bytes), EST_INVALID_ARGUMENT);

    shape = EST_SHAPE(BIG, BIG);
    assert_int_equal(est_shape_size(&shape, EST_U8, &count, &bytes), EST_INVALID_ARGUMENT);
    shape = EST_SHAPE(INT64_MAX / 2, 1); /* fits as a count, not as bytes */
    assert_int_equal(est_shape_size(&shape, EST_F32, &count, &bytes), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "too large"));
    shape = EST_SHAPE(-1, 2);
    assert_int_equal(est_shape_size(&shape, EST_F32, &count, &bytes), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "[?,2]"));
    shape = EST_SHAPE(-2);
    assert_int_equal(est_shape_size(&shape, EST_F32, &count, &bytes), EST_INVALID_ARGUMENT);
    shape.rank = 9;
    assert_int_equal(est_shape_size(&shape, EST_F32, &count, &bytes), EST_INVALID_ARGUMENT);
    assert_int_equal(count, 15); /* written only on success */
    assert_int_equal(bytes, 120);
}

TEST(check)
{
    est_shape shape = EST_SHAPE_UNKNOWN;

    assert_int_equal(est_shape_check(&shape, "x"), EST_OK);
    shape.rank = -2;
    assert_int_equal(est_shape_check(&shape, "x"), EST_INVALID_ARGUMENT);
    shape = EST_SHAPE(1, 2, -5);
    assert_int_equal(est_shape_check(&shape, "the label"), EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), "the label has dimension -5 on axis 2; expected 0 or more");
}

TEST(text_and_equality)
{
    char      text[EST_SHAPE_TEXT_MAX];
    est_shape a = EST_SHAPE(2, -1, 3), b = EST_SHAPE(2, -1, 3), longest = { .rank = EST_RANK_MAX };

    assert_string_equal(est_shape_text(&a, text), "[2,?,3]");
    assert_string_equal(est_shape_text(&EST_SHAPE_SCALAR, text), "[]");
    assert_string_equal(est_shape_text(&EST_SHAPE_UNKNOWN, text), "?");
    assert_true(est_shape_equal(&a, &b));
    b.dim[1] = 4;
    assert_false(est_shape_equal(&a, &b));
    assert_false(est_shape_equal(&a, &EST_SHAPE_SCALAR));
    assert_true(est_shape_equal(&EST_SHAPE_UNKNOWN, &EST_SHAPE_UNKNOWN));
    for (int i = 0; i < EST_RANK_MAX; i++) longest.dim[i] = INT64_MIN; /* the most characters a shape can have */
    assert_int_equal(strlen(est_shape_text(&longest, text)), EST_RANK_MAX * 21 + 1);
}

static const struct {
    est_shape a, b, out;
    bool      fits;
} broadcasts[] = {
    { { 0, { 0 } }, { 2, { 3, 4 } }, { 2, { 3, 4 } }, true },
    { { 2, { 3, 4 } }, { 1, { 4 } }, { 2, { 3, 4 } }, true },
    { { 2, { 3, 1 } }, { 2, { 1, 4 } }, { 2, { 3, 4 } }, true },
    { { 3, { 5, 1, 7 } }, { 2, { 6, 1 } }, { 3, { 5, 6, 7 } }, true },
    { { 1, { 0 } }, { 1, { 1 } }, { 1, { 0 } }, true },
    { { 2, { -1, 4 } }, { 1, { 4 } }, { 2, { -1, 4 } }, true },
    { { 1, { -1 } }, { 1, { 5 } }, { 1, { 5 } }, true },
    { { 1, { -1 } }, { 1, { 1 } }, { 1, { -1 } }, true },
    { { 1, { -1 } }, { 1, { -1 } }, { 1, { -1 } }, true },
    { { 1, { -1 } }, { 1, { 0 } }, { 1, { 0 } }, true },
    { { -1, { 0 } }, { 2, { 3, 4 } }, { -1, { 0 } }, true },
    { { 1, { 3 } }, { 1, { 4 } }, { 0 }, false },
    { { 1, { 0 } }, { 1, { 4 } }, { 0 }, false },
    { { 2, { 3, 4 } }, { 2, { 4, 3 } }, { 0 }, false },
};

TEST(broadcast)
{
    for (size_t i = 0; i < sizeof broadcasts / sizeof broadcasts[0]; i++) {
        est_shape  ab = EST_SHAPE(99), ba = EST_SHAPE(99), before = ab;
        est_status status = est_shape_broadcast(&broadcasts[i].a, &broadcasts[i].b, &ab);

        assert_int_equal(est_shape_broadcast(&broadcasts[i].b, &broadcasts[i].a, &ba), status); /* symmetric */
        assert_int_equal(status, broadcasts[i].fits ? EST_OK : EST_INVALID_ARGUMENT);
        assert_true(est_shape_equal(&ab, broadcasts[i].fits ? &broadcasts[i].out : &before));
        assert_true(est_shape_equal(&ab, &ba));
    }
    assert_non_null(strstr(est_error_message(), "[4,3]"));
    assert_non_null(strstr(est_error_message(), "[3,4]"));
}

TEST(merge)
{
    static const struct {
        est_shape a, b, out;
        bool      fits;
    } cases[] = {
        { { -1, { 0 } }, { 2, { -1, 4 } }, { 2, { -1, 4 } }, true },
        { { 2, { 3, -1 } }, { 2, { -1, 4 } }, { 2, { 3, 4 } }, true },
        { { 2, { -1, -1 } }, { 2, { -1, 4 } }, { 2, { -1, 4 } }, true },
        { { 0, { 0 } }, { 0, { 0 } }, { 0, { 0 } }, true },
        { { -1, { 0 } }, { -1, { 0 } }, { -1, { 0 } }, true },
        { { 1, { 3 } }, { 2, { 3, 1 } }, { 0 }, false },
        { { 1, { 1 } }, { 1, { 3 } }, { 0 }, false },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        est_shape ab = EST_SHAPE(99), ba = EST_SHAPE(99);

        assert_int_equal(est_shape_compatible(&cases[i].a, &cases[i].b), cases[i].fits);
        assert_int_equal(est_shape_merge(&cases[i].a, &cases[i].b, &ab), cases[i].fits ? EST_OK : EST_INVALID_ARGUMENT);
        assert_int_equal(est_shape_merge(&cases[i].b, &cases[i].a, &ba), cases[i].fits ? EST_OK : EST_INVALID_ARGUMENT);
        assert_true(est_shape_equal(&ab, &ba));
        if (cases[i].fits) assert_true(est_shape_equal(&ab, &cases[i].out));
    }
}

TEST(strides)
{
    est_shape shape = EST_SHAPE(2, 3, 4), row = EST_SHAPE(1, 4), column = EST_SHAPE(3, 1),
              empty = EST_SHAPE(0, BIG, BIG);
    int64_t strides[EST_RANK_MAX];

    est_shape_strides(&shape, strides);
    assert_memory_equal(strides, ((const int64_t[]){ 12, 4, 1 }), 3 * sizeof *strides);
    est_shape_broadcast_strides(&shape, &shape, strides);
    assert_memory_equal(strides, ((const int64_t[]){ 12, 4, 1 }), 3 * sizeof *strides);
    est_shape_broadcast_strides(&row, &shape, strides);
    assert_memory_equal(strides, ((const int64_t[]){ 0, 0, 1 }), 3 * sizeof *strides);
    est_shape_broadcast_strides(&column, &shape, strides);
    assert_memory_equal(strides, ((const int64_t[]){ 0, 1, 0 }), 3 * sizeof *strides);
    est_shape_broadcast_strides(&EST_SHAPE_SCALAR, &shape, strides);
    assert_memory_equal(strides, ((const int64_t[]){ 0, 0, 0 }), 3 * sizeof *strides);
    est_shape_strides(&empty, strides); /* no overflow, whatever the numbers are */

    assert_int_equal(est_shape_product(&shape, 0, 3), 24);
    assert_int_equal(est_shape_product(&shape, 1, 3), 12);
    assert_int_equal(est_shape_product(&shape, 2, 2), 1);
}
