/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors: typed, dense, row-major arrays in reference-counted memory.
 *
 * Threading: a tensor is immutable once shared; reference counts may be changed by any thread. */
#ifndef ESTOC_TENSOR_H
#define ESTOC_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "estoc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EST_RANK_MAX 8

/* TensorFlow's DataType numbers, so that they can go into files as they are. */
typedef enum est_dtype {
    EST_DTYPE_NONE = 0, /* not set */
    EST_F32        = 1,
    EST_F64        = 2,
    EST_I32        = 3,
    EST_U8         = 4,
    EST_STRING     = 7, /* elements are est_str */
    EST_I64        = 9,
    EST_BOOL       = 10, /* one byte, 0 or 1 */
    EST_RESOURCE   = 20  /* a variable's handle; only inside graphs */
} est_dtype;

/* Bytes of one element; 0 for EST_RESOURCE. */
EST_API size_t est_dtype_size(est_dtype dtype);

/* The dtype's name as TensorFlow prints it ("float32"); never NULL. */
EST_API const char *est_dtype_name(est_dtype dtype);

/* One element of a string tensor: bytes, not NUL-terminated. */
typedef struct est_str {
    const char *data;
    size_t      size;
} est_str;

/* A shape. Rank -1: nothing is known. A dimension of -1 is unknown until a step runs. */
typedef struct est_shape {
    int32_t rank;
    int64_t dim[EST_RANK_MAX];
} est_shape;

/* EST_SHAPE(2, 3); EST_SHAPE_SCALAR; EST_SHAPE(-1, 28, 28, 1) has an unknown batch. In a static
 * table write { 2, { 28, 28 } }: C17 takes no compound literal there, and compilers say so with -Wpedantic. */
#define EST_SHAPE(...)                                                                                                 \
    ((est_shape){ (int32_t)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } })
#define EST_SHAPE_SCALAR  ((est_shape){ 0, { 0 } })
#define EST_SHAPE_UNKNOWN ((est_shape){ -1, { 0 } })

/* A list of shapes: EST_SHAPES(EST_SHAPE(-1), EST_SHAPE(3, 3)). */
typedef struct est_shapes {
    const est_shape *data;
    int              n;
} est_shapes;

#define EST_SHAPES(...) EST_SPAN(est_shapes, const est_shape, __VA_ARGS__)

/* Number of elements; -1 when the rank or a dimension is unknown, INT64_MAX when there are more than that. */
EST_API int64_t est_shape_count(const est_shape *shape);

/* Same rank and dimensions, unknown ones included. */
EST_API bool est_shape_equal(const est_shape *a, const est_shape *b);

/* Writes "[2,?,3]" ("?" for an unknown rank) into buf and returns buf. */
#define EST_SHAPE_TEXT_MAX 192
EST_API const char *est_shape_text(const est_shape *shape, char buf[EST_SHAPE_TEXT_MAX]);

typedef struct est_tensor est_tensor;

/* A new tensor with its own memory; contents are undefined for numbers and empty for strings. */
EST_API EST_MUST_CHECK est_status est_tensor_create(est_dtype dtype, est_shape shape, est_tensor **out);

/* A new tensor with `data` copied in. For strings `data` is an array of est_str whose bytes are copied too. */
EST_API EST_MUST_CHECK est_status est_tensor_create_from(est_dtype dtype, est_shape shape, const void *data,
                                                         est_tensor **out);

/* A tensor over memory of the caller, borrowed until `release(user)` is called (NULL: until the tensor's last reference
 * is dropped). Not for strings. */
EST_API EST_MUST_CHECK est_status est_tensor_wrap(est_dtype dtype, est_shape shape, void *data,
                                                  void (*release)(void *user), void *user, est_tensor **out);

/* Shares the tensor: one more reference; returns it. */
EST_API est_tensor *est_tensor_ref(est_tensor *tensor);

/* Gives one reference back; the last one frees. NULL is fine. */
EST_API void est_tensor_free(est_tensor *tensor);

/* Properties of a tensor. */
EST_API est_dtype        est_tensor_dtype(const est_tensor *tensor);
EST_API const est_shape *est_tensor_shape(const est_tensor *tensor); /* borrowed until the tensor is freed */
EST_API int64_t          est_tensor_count(const est_tensor *tensor); /* elements */
EST_API size_t           est_tensor_bytes(const est_tensor *tensor); /* of data; est_str elements count 16 each */

/* The elements, row-major, to read or to write; borrowed until the tensor is freed. Write only while you hold the only
 * reference. */
EST_API const void *est_tensor_data(const est_tensor *tensor);
EST_API void       *est_tensor_mutable_data(est_tensor *tensor);

/* Copies bytes into element i of a string tensor that only the caller holds. The previous bytes are kept until the
 * tensor is freed. */
EST_API EST_MUST_CHECK est_status est_tensor_set_string(est_tensor *tensor, int64_t i, const void *bytes, size_t size);

/* A shorter view of rows [first, first + n) of axis 0, sharing the memory. */
EST_API EST_MUST_CHECK est_status est_tensor_rows(est_tensor *tensor, int64_t first, int64_t n, est_tensor **out);

/* A view of row i of axis 0, without that axis. */
EST_API EST_MUST_CHECK est_status est_tensor_row(est_tensor *tensor, int64_t i, est_tensor **out);

/* Shortcuts for scalars and vectors. */
EST_API EST_MUST_CHECK est_status est_tensor_f32(est_shape shape, const float *data, est_tensor **out);
EST_API EST_MUST_CHECK est_status est_tensor_i64(est_shape shape, const int64_t *data, est_tensor **out);
EST_API EST_MUST_CHECK est_status est_tensor_string(const void *bytes, size_t size, est_tensor **out); /* a scalar */

/* Tensors with names, and a list of them as one argument: EST_NAMED_TENSORS({ "image", images }, { "digit", digits
 * }). */
typedef struct est_named_tensor {
    const char *name;
    est_tensor *tensor;
} est_named_tensor;

typedef struct est_named_tensors {
    const est_named_tensor *data;
    int                     n;
} est_named_tensors;

#define EST_NAMED_TENSORS(...) EST_SPAN(est_named_tensors, const est_named_tensor, __VA_ARGS__)

/* Rows of unequal length (a batch of sparse features): values of all rows one after the other, and where each row
 * starts: row r is values[splits[r]] .. values[splits[r + 1] - 1]. Both tensors are shared. */
typedef struct est_ragged {
    est_tensor *values; /* [n_values] or [n_values, ...] */
    est_tensor *splits; /* int64 [n_rows + 1], first 0, non-decreasing, last n_values */
} est_ragged;

/* Checks splits against values; an error names the row. */
EST_API EST_MUST_CHECK est_status est_ragged_check(const est_ragged *ragged);

/* Some rows of a larger tensor, as a sparse gradient: row indices[i] is values[i]. Duplicates mean their sum. */
typedef struct est_indexed {
    est_tensor *values;  /* [n, ...] */
    est_tensor *indices; /* int64 or int32 [n] */
    int64_t     rows;    /* of the dense tensor */
} est_indexed;

/* The dense tensor of the same meaning: zeros, then every row added. */
EST_API EST_MUST_CHECK est_status est_indexed_to_dense(const est_indexed *slices, est_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
