/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns of Arrow tables: types from schemas, and values from arrays into tensors. Nothing that a producer hands over
 * is believed before it was checked, except for the sizes of buffers, which the interface does not tell.
 *
 * A column belongs to one stream: it holds the decoded dictionaries of the current record batch. One thread at a
 * time. */
#ifndef EST_DATA_ARROW_COLUMN_H
#define EST_DATA_ARROW_COLUMN_H

#include "base/alloc.h"
#include "base/refcount.h"
#include "estoc/arrow.h"

/* A record batch, shared by the tensors that borrow its buffers; the last reference releases it. */
typedef struct est_arrow_chunk {
    est_refcount      refs;
    struct ArrowArray array; /* a struct: one child for each column */
} est_arrow_chunk;

/* Drops a reference; NULL is fine. */
void est_arrow_chunk_free(est_arrow_chunk *chunk);

typedef enum est_arrow_kind {
    EST_ARROW_NUMBER,
    EST_ARROW_BOOL,
    EST_ARROW_STRING,       /* offsets and bytes */
    EST_ARROW_VIEW,         /* strings of 12 bytes in place, longer ones in one of several buffers */
    EST_ARROW_FIXED_STRING, /* `size` bytes each */
    EST_ARROW_LIST,
    EST_ARROW_FIXED_LIST /* `size` items each */
} est_arrow_kind;

/* How numbers are stored. */
typedef enum est_arrow_number {
    EST_ARROW_I8,
    EST_ARROW_U8,
    EST_ARROW_I16,
    EST_ARROW_U16,
    EST_ARROW_I32,
    EST_ARROW_U32,
    EST_ARROW_I64,
    EST_ARROW_U64,
    EST_ARROW_F16,
    EST_ARROW_F32,
    EST_ARROW_F64
} est_arrow_number;

typedef struct est_arrow_type est_arrow_type;

struct est_arrow_type {
    est_arrow_kind   kind;
    est_arrow_number number; /* of numbers, and of the indices into a dictionary */
    bool             large;  /* strings and lists: offsets have 64 bits */
    int64_t          size;
    est_dtype        dtype; /* of the values in tensors */
    int64_t          count; /* of them in one element; lists: in one item */
    est_arrow_type  *item;  /* of lists */

    est_arrow_type *dictionary; /* type of its entries; NULL: the values are here */
    void           *entries;    /* of the current batch, as `dtype`; strings are in the buffers of the batch */
};

typedef struct est_arrow_column {
    const char    *name;
    int64_t        child;     /* in the schema */
    est_arrow_type type;      /* items in the arena */
    est_component  component; /* of one row: lists have a first dimension of -1 */
    bool           has_fill;  /* nulls have a value */
    bool           null_list; /* a list that is null is empty */
    union {
        float   f32;
        double  f64;
        int32_t i32;
        int64_t i64;
        uint8_t u8; /* and bool */
        est_str str;
    } fill;
} est_arrow_column;

/* The type of a column. The error names the column and what it has. `out` is cleared also after a failure. */
EST_MUST_CHECK est_status est_arrow_column_init(est_arena *arena, const struct ArrowSchema *schema,
                                                est_arrow_column *out);
void                      est_arrow_column_clear(est_arrow_column *column);

/* Sets the value of nulls; `text` NULL: by the rule. Copies nothing. */
EST_MUST_CHECK est_status est_arrow_column_set_nulls(est_arrow_column *column, est_arrow_nulls nulls, const char *text);

/* Whether one of the values [first, first + n) of an array is null; its validity buffer, if it has one, is believed. */
bool est_arrow_has_nulls(const struct ArrowArray *array, int64_t first, int64_t n);

/* Takes the array of a new record batch, of which `rows` rows will be read: checks it, and decodes its dictionary. It
 * stays borrowed until the next. */
EST_MUST_CHECK est_status est_arrow_column_begin(est_arrow_column *column, const struct ArrowArray *array,
                                                 int64_t rows);

/* Rows [first, first + n) of the column's array in `chunk` as a batch, into `out`, which holds nothing before and after
 * a failure. Errors have the row plus `row_base`. */
EST_MUST_CHECK est_status est_arrow_column_read(const est_arrow_column *column, est_arrow_chunk *chunk, int64_t first,
                                                int64_t n, int64_t row_base, est_field *out);

#endif
