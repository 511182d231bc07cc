/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape arithmetic. All products are checked: a shape from a file or a peer must not wrap around. */
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdio.h>

bool est_shape_is_known(const est_shape *shape)
{
    if (shape->rank < 0) return false;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] < 0) return false;
    }
    return true;
}

est_status est_shape_check(const est_shape *shape, const char *what)
{
    if (shape->rank < -1 || shape->rank > EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "%s has rank %" PRId32 "; at most %d axes are supported", what,
                        shape->rank, EST_RANK_MAX);
    }
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] < -1) {
            return est_fail(EST_INVALID_ARGUMENT, "%s has dimension %" PRId64 " on axis %d; expected 0 or more", what,
                            shape->dim[i], i);
        }
    }
    return EST_OK;
}

/* Product of all dimensions of a known shape; false when it does not fit. A zero anywhere makes it 0. */
static bool count_fits(const est_shape *shape, int64_t *count)
{
    bool fits = true;

    *count = 1;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] == 0) {
            *count = 0;
            return true;
        }
        if (__builtin_mul_overflow(*count, shape->dim[i], count)) fits = false;
    }
    return fits;
}

int64_t est_shape_count(const est_shape *shape)
{
    int64_t count;

    if (shape == NULL || !est_shape_is_known(shape)) return -1;
    return count_fits(shape, &count) ? count : INT64_MAX;
}

est_status est_shape_size(const est_shape *shape, est_dtype dtype, int64_t *count, size_t *bytes)
{
    size_t  element = est_dtype_size(dtype);
    char    text[EST_SHAPE_TEXT_MAX];
    int64_t n;
    size_t  size;

    EST_TRY(est_shape_check(shape, "a tensor"));
    if (!est_shape_is_known(shape)) {
        return est_fail(EST_INVALID_ARGUMENT, "a tensor needs a known shape, got %s", est_shape_text(shape, text));
    }
    if (element == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "a tensor cannot hold elements of type %s", est_dtype_name(dtype));
    }
    if (!count_fits(shape, &n) || __builtin_mul_overflow((size_t)n, element, &size) || size > PTRDIFF_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "a %s tensor of shape %s is too large for this machine",
                        est_dtype_name(dtype), est_shape_text(shape, text));
    }
    if (count != NULL) *count = n;
    if (bytes != NULL) *bytes = size;
    return EST_OK;
}

bool est_shape_equal(const est_shape *a, const est_shape *b)
{
    if (a == NULL || b == NULL || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] != b->dim[i]) return false;
    }
    return true;
}

const char *est_shape_text(const est_shape *shape, char buf[EST_SHAPE_TEXT_MAX])
{
    size_t at = 1;

    if (buf == NULL) return NULL;
    if (shape == NULL || shape->rank < 0) {
        snprintf(buf, EST_SHAPE_TEXT_MAX, "?");
        return buf;
    }
    buf[0] = '[';
    for (int i = 0; i < shape->rank && i < EST_RANK_MAX; i++) {
        const char *comma = i > 0 ? "," : "";

        if (shape->dim[i] == -1) {
            at += (size_t)snprintf(buf + at, EST_SHAPE_TEXT_MAX - at, "%s?", comma);
        } else {
            at += (size_t)snprintf(buf + at, EST_SHAPE_TEXT_MAX - at, "%s%" PRId64, comma, shape->dim[i]);
        }
    }
    snprintf(buf + at, EST_SHAPE_TEXT_MAX - at, "]");
    return buf;
}

/* Wraps around: only a shape without elements, as [0, huge, huge], gets that far, and nothing is addressed in it. */
static int64_t multiply(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

int64_t est_shape_product(const est_shape *shape, int first, int end)
{
    int64_t product = 1;

    for (int i = first; i < end; i++) product = multiply(product, shape->dim[i]);
    return product;
}

void est_shape_strides(const est_shape *shape, int64_t strides[EST_RANK_MAX])
{
    int64_t stride = 1;

    for (int i = shape->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride     = multiply(stride, shape->dim[i]);
    }
}

void est_shape_broadcast_strides(const est_shape *from, const est_shape *to, int64_t strides[EST_RANK_MAX])
{
    int     missing = to->rank - from->rank;
    int64_t stride  = 1;

    for (int i = to->rank - 1; i >= 0; i--) {
        int64_t dim = i >= missing ? from->dim[i - missing] : 1;

        strides[i] = dim == 1 ? 0 : stride;
        stride     = multiply(stride, dim);
    }
}

/* One axis of a broadcast; false when the two dimensions are incompatible. */
static bool broadcast_dim(int64_t a, int64_t b, int64_t *out)
{
    if (a == b || b == 1) {
        *out = a;
    } else if (a == 1) {
        *out = b;
    } else if (a == -1 || b == -1) {
        *out = a == -1 ? b : a; /* the unknown one must be 1 or the same */
    } else {
        return false;
    }
    return true;
}

est_status est_shape_broadcast(const est_shape *a, const est_shape *b, est_shape *out)
{
    est_shape result = EST_SHAPE_UNKNOWN;
    char      a_text[EST_SHAPE_TEXT_MAX], b_text[EST_SHAPE_TEXT_MAX];

    if (a->rank >= 0 && b->rank >= 0) {
        result.rank = a->rank > b->rank ? a->rank : b->rank;
        for (int i = 0; i < result.rank; i++) { /* i counts from the last axis */
            int64_t a_dim = i < a->rank ? a->dim[a->rank - 1 - i] : 1;
            int64_t b_dim = i < b->rank ? b->dim[b->rank - 1 - i] : 1;

            if (!broadcast_dim(a_dim, b_dim, &result.dim[result.rank - 1 - i])) {
                return est_fail(EST_INVALID_ARGUMENT,
                                "shapes %s and %s do not broadcast: %" PRId64 " against %" PRId64 " on axis %d",
                                est_shape_text(a, a_text), est_shape_text(b, b_text), a_dim, b_dim,
                                result.rank - 1 - i);
            }
        }
    }
    *out = result;
    return EST_OK;
}

bool est_shape_compatible(const est_shape *a, const est_shape *b)
{
    if (a->rank < 0 || b->rank < 0) return true;
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] != b->dim[i] && a->dim[i] != -1 && b->dim[i] != -1) return false;
    }
    return true;
}

est_status est_shape_merge(const est_shape *a, const est_shape *b, est_shape *out)
{
    char      a_text[EST_SHAPE_TEXT_MAX], b_text[EST_SHAPE_TEXT_MAX];
    est_shape result;

    if (!est_shape_compatible(a, b)) {
        return est_fail(EST_INVALID_ARGUMENT, "shapes %s and %s contradict each other", est_shape_text(a, a_text),
                        est_shape_text(b, b_text));
    }
    result = a->rank >= 0 ? *a : *b;
    for (int i = 0; i < result.rank && b->rank >= 0; i++) {
        if (result.dim[i] == -1) result.dim[i] = b->dim[i];
    }
    *out = result;
    return EST_OK;
}
