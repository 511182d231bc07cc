/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors. A tensor either owns memory (its own or the caller's, with a release function) or is a view that holds one
 * reference to the owner. Views of views point at the owner, so chains do not grow.
 *
 * The bytes of string elements live in an arena of the owner: many small strings cost few allocations, and the bytes of
 * an overwritten element stay until the tensor goes. */
#include "tensor/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/refcount.h"
#include "tensor/shape.h"

struct est_tensor {
    est_refcount refs;
    est_dtype    dtype;
    est_shape    shape;
    int64_t      count;
    void        *data;
    est_tensor  *owner;   /* of the memory; NULL: this tensor is */
    bool         is_wrap; /* the memory is the caller's, or behind the struct: not ours to free */
    void (*release)(void *user);
    void                    *user;
    est_arena               *strings; /* bytes of string elements; NULL until the first one */
    const struct est_device *device;  /* NULL: `data` is the host's; else it is NULL, and the elements are at `far` */
    void                    *far;
};

/* The struct alone; `data` is the caller's to fill. */
static est_status tensor_new(est_dtype dtype, const est_shape *shape, int64_t count, est_tensor **out)
{
    est_tensor *tensor = est_zalloc(sizeof *tensor);

    if (tensor == NULL) return est_no_memory();
    est_refcount_init(&tensor->refs);
    tensor->dtype = dtype;
    tensor->shape = *shape;
    tensor->count = count;
    *out          = tensor;
    return EST_OK;
}

static void strings_make_empty(est_tensor *tensor)
{
    est_str *strings = tensor->data;

    for (int64_t i = 0; i < tensor->count; i++) strings[i] = (est_str){ .data = "", .size = 0 };
}

est_status est_tensor_create(est_dtype dtype, est_shape shape, est_tensor **out)
{
    char        text[EST_SHAPE_TEXT_MAX];
    est_tensor *tensor;
    int64_t     count;
    size_t      bytes;

    EST_REQUIRE(out);
    EST_TRY(est_shape_size(&shape, dtype, &count, &bytes));
    EST_TRY(tensor_new(dtype, &shape, count, &tensor));
    tensor->data = est_alloc_aligned(bytes);
    if (tensor->data == NULL) {
        est_free(tensor);
        return est_fail_context(est_no_memory(), "a %s tensor of shape %s", est_dtype_name(dtype),
                                est_shape_text(&shape, text));
    }
    if (dtype == EST_STRING) strings_make_empty(tensor);
    *out = tensor;
    return EST_OK;
}

est_status est_tensor_create_from(est_dtype dtype, est_shape shape, const void *data, est_tensor **out)
{
    est_tensor *tensor;

    EST_REQUIRE(out);
    if (est_shape_count(&shape) > 0) EST_REQUIRE(data);
    EST_TRY(est_tensor_create(dtype, shape, &tensor));
    if (dtype != EST_STRING) {
        if (tensor->count > 0) memcpy(tensor->data, data, est_tensor_bytes(tensor));
        *out = tensor;
        return EST_OK;
    }
    for (int64_t i = 0; i < tensor->count; i++) {
        const est_str *from   = (const est_str *)data + i;
        est_status     status = est_tensor_set_string(tensor, i, from->data, from->size);

        if (status != EST_OK) {
            est_tensor_free(tensor);
            return status;
        }
    }
    *out = tensor;
    return EST_OK;
}

est_status est_tensor_wrap(est_dtype dtype, est_shape shape, void *data, void (*release)(void *user), void *user,
                           est_tensor **out)
{
    est_tensor *tensor;
    int64_t     count;

    EST_REQUIRE(out);
    if (dtype == EST_STRING) {
        return est_fail(EST_INVALID_ARGUMENT, "a string tensor cannot wrap memory; create one and copy into it");
    }
    EST_TRY(est_shape_size(&shape, dtype, &count, NULL));
    if (data == NULL && count > 0) return est_fail(EST_INVALID_ARGUMENT, "a tensor cannot wrap a NULL pointer");
    EST_TRY(tensor_new(dtype, &shape, count, &tensor));
    tensor->data    = data;
    tensor->is_wrap = true;
    tensor->release = release;
    tensor->user    = user;
    *out            = tensor;
    return EST_OK;
}

est_status est_tensor_wrap_far(const struct est_device *device, est_dtype dtype, est_shape shape, void *far,
                               void (*release)(void *user), void *user, est_tensor **out)
{
    est_tensor *tensor;
    int64_t     count;

    EST_TRY(est_shape_size(&shape, dtype, &count, NULL));
    EST_TRY(tensor_new(dtype, &shape, count, &tensor));
    tensor->is_wrap = true;
    tensor->release = release;
    tensor->user    = user;
    tensor->device  = device;
    tensor->far     = far;
    *out            = tensor;
    return EST_OK;
}

const struct est_device *est_tensor_device(const est_tensor *tensor)
{
    return tensor->device;
}

void *est_tensor_far_data(const est_tensor *tensor)
{
    return tensor->far;
}

est_tensor *est_tensor_ref(est_tensor *tensor)
{
    if (tensor == NULL) return NULL;
    est_refcount_add(&tensor->refs);
    return tensor;
}

void est_tensor_free(est_tensor *tensor)
{
    est_tensor *owner;

    if (tensor == NULL || !est_refcount_drop(&tensor->refs)) return;
    owner = tensor->owner;
    if (owner == NULL && !tensor->is_wrap) est_free_aligned(tensor->data);
    if (tensor->release != NULL) tensor->release(tensor->user);
    est_arena_free(tensor->strings);
    est_free(tensor);
    est_tensor_free(owner); /* one level deep: an owner has no owner */
}

est_dtype est_tensor_dtype(const est_tensor *tensor)
{
    return tensor != NULL ? tensor->dtype : EST_DTYPE_NONE;
}

const est_shape *est_tensor_shape(const est_tensor *tensor)
{
    return tensor != NULL ? &tensor->shape : NULL;
}

int64_t est_tensor_count(const est_tensor *tensor)
{
    return tensor != NULL ? tensor->count : 0;
}

size_t est_tensor_bytes(const est_tensor *tensor)
{
    return tensor != NULL ? (size_t)tensor->count * est_dtype_size(tensor->dtype) : 0;
}

const void *est_tensor_data(const est_tensor *tensor)
{
    return tensor != NULL ? tensor->data : NULL;
}

void *est_tensor_view_data(const est_tensor *tensor)
{
    return tensor != NULL ? tensor->data : NULL;
}

void *est_tensor_mutable_data(est_tensor *tensor)
{
    return est_tensor_view_data(tensor);
}

est_status est_tensor_set_string(est_tensor *tensor, int64_t i, const void *bytes, size_t size)
{
    est_tensor *owner;
    char       *copy;

    EST_REQUIRE(tensor);
    owner = tensor->owner != NULL ? tensor->owner : tensor;
    if (tensor->dtype != EST_STRING) {
        return est_fail(EST_INVALID_ARGUMENT, "cannot put a string into a %s tensor", est_dtype_name(tensor->dtype));
    }
    if (i < 0 || i >= tensor->count) {
        return est_fail(EST_INVALID_ARGUMENT, "element %" PRId64 " of a string tensor of %" PRId64, i, tensor->count);
    }
    if (size == 0) {
        ((est_str *)tensor->data)[i] = (est_str){ .data = "", .size = 0 };
        return EST_OK;
    }
    if (owner->strings == NULL) owner->strings = est_arena_create();
    copy = owner->strings != NULL ? est_arena_alloc(owner->strings, size) : NULL;
    if (copy == NULL) return est_no_memory();
    memcpy(copy, bytes, size);
    ((est_str *)tensor->data)[i] = (est_str){ .data = copy, .size = size };
    return EST_OK;
}

/* memcpy for mostly short strings: no call, and no read beyond the end. */
static inline void copy_short(char *to, const char *from, size_t size)
{
    if (size > 16) {
        memcpy(to, from, size);
    } else if (size >= 8) {
        uint64_t head, tail;

        memcpy(&head, from, 8);
        memcpy(&tail, from + size - 8, 8);
        memcpy(to, &head, 8);
        memcpy(to + size - 8, &tail, 8);
    } else if (size >= 4) {
        uint32_t head, tail;

        memcpy(&head, from, 4);
        memcpy(&tail, from + size - 4, 4);
        memcpy(to, &head, 4);
        memcpy(to + size - 4, &tail, 4);
    } else if (size > 0) {
        to[0]        = from[0];
        to[size / 2] = from[size / 2];
        to[size - 1] = from[size - 1];
    }
}

est_status est_tensor_own_strings(est_tensor *tensor)
{
    est_str *strings = tensor->data;
    size_t   total   = 0;
    char    *to;

    for (int64_t i = 0; i < tensor->count; i++) {
        if (__builtin_add_overflow(total, strings[i].size, &total)) total = SIZE_MAX;
    }
    if (tensor->strings == NULL) tensor->strings = est_arena_create();
    to = tensor->strings != NULL ? est_arena_alloc(tensor->strings, total) : NULL;
    if (to == NULL) return est_no_memory();
    for (int64_t i = 0; i < tensor->count; i++) {
        copy_short(to, strings[i].data, strings[i].size);
        strings[i].data = to;
        to += strings[i].size;
    }
    return EST_OK;
}

est_status est_tensor_rows(est_tensor *tensor, int64_t first, int64_t n, est_tensor **out)
{
    est_shape   shape;
    char        text[EST_SHAPE_TEXT_MAX];
    est_tensor *view;
    size_t      row_elements;

    EST_REQUIRE(tensor);
    EST_REQUIRE(out);
    shape = tensor->shape;
    if (shape.rank < 1) return est_fail(EST_INVALID_ARGUMENT, "a scalar has no rows");
    if (first < 0 || n < 0 || first > shape.dim[0] || n > shape.dim[0] - first) {
        return est_fail(EST_INVALID_ARGUMENT, "rows %" PRId64 " and %" PRId64 " after it of a tensor of shape %s",
                        first, n, est_shape_text(&shape, text));
    }
    row_elements = shape.dim[0] > 0 ? (size_t)(tensor->count / shape.dim[0]) : 0;
    shape.dim[0] = n;
    EST_TRY(tensor_new(tensor->dtype, &shape, n * (int64_t)row_elements, &view));
    view->owner = est_tensor_ref(tensor->owner != NULL ? tensor->owner : tensor);
    if (tensor->device == NULL) {
        view->data = (char *)tensor->data + (size_t)first * row_elements * est_dtype_size(tensor->dtype);
    } else {
        view->device = tensor->device;
        view->far    = (char *)tensor->far + (size_t)first * row_elements * est_dtype_size(tensor->dtype);
    }
    *out = view;
    return EST_OK;
}

est_status est_tensor_row(est_tensor *tensor, int64_t i, est_tensor **out)
{
    est_tensor *view;

    EST_REQUIRE(tensor);
    EST_REQUIRE(out);
    EST_TRY(est_tensor_rows(tensor, i, 1, &view));
    view->shape.rank--;
    memmove(view->shape.dim, view->shape.dim + 1, (size_t)view->shape.rank * sizeof view->shape.dim[0]);
    *out = view;
    return EST_OK;
}

double est_number_at(est_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case EST_F32: return (double)((const float *)data)[i];
    case EST_F64: return ((const double *)data)[i];
    case EST_I32: return ((const int32_t *)data)[i];
    case EST_I64: return (double)((const int64_t *)data)[i];
    case EST_U8:
    case EST_BOOL: return ((const uint8_t *)data)[i];
    default: return NAN;
    }
}

est_status est_tensor_f32(est_shape shape, const float *data, est_tensor **out)
{
    return est_tensor_create_from(EST_F32, shape, data, out);
}

est_status est_tensor_i64(est_shape shape, const int64_t *data, est_tensor **out)
{
    return est_tensor_create_from(EST_I64, shape, data, out);
}

/* Struct, element and bytes are one allocation, because files have millions of records. */
est_status est_tensor_string(const void *bytes, size_t size, est_tensor **out)
{
    size_t      head = sizeof(est_tensor) + sizeof(est_str);
    est_tensor *tensor;
    est_str    *element;

    EST_REQUIRE(out);
    if (size > 0) EST_REQUIRE(bytes);
    tensor = size <= SIZE_MAX - head ? est_alloc(head + size) : NULL;
    if (tensor == NULL) return est_no_memory();
    element = (est_str *)(tensor + 1);
    *tensor = (est_tensor){ .dtype = EST_STRING, .count = 1, .data = element, .is_wrap = true };
    est_refcount_init(&tensor->refs);
    *element = (est_str){ .data = (char *)(element + 1), .size = size };
    if (size > 0) memcpy(element + 1, bytes, size);
    *out = tensor;
    return EST_OK;
}
