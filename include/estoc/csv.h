/* SPDX-License-Identifier: Apache-2.0
 *
 * CSV files: the columns to read, their types, and the format of the file.
 *
 *     static const est_csv_column columns[] = {
 *         { .name = "age",       .dtype = EST_F32 },
 *         { .name = "workclass", .dtype = EST_STRING, .default_text = "unknown" },
 *         { .name = "income",    .dtype = EST_STRING, .required = true },
 *     };
 *
 * Fields are read as tf.io.decode_csv reads them: a field may stand in double quotes, a quote inside is doubled, an
 * empty field (or one that equals na_value) gives the default, blanks around a number do not matter, an integer that
 * does not fit its type and a row with another number of fields are errors. Numbers are decimal; float32 and float64
 * are rounded as the C library does, so one that is too large is inf, and may be inf, infinity or nan in any case. A
 * float field of nothing but blanks is 0, not the default (with `trim` it is empty and gives the default). */
#ifndef ESTOC_CSV_H
#define ESTOC_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "estoc/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A column to read. */
typedef struct est_csv_column {
    const char *name;         /* matched with the header or `names`; always used in messages */
    est_dtype   dtype;        /* EST_F32, EST_F64, EST_I32, EST_I64 or EST_STRING */
    bool        required;     /* an empty field is an error */
    const char *default_text; /* value of an empty field, parsed like a field; NULL: 0 or "" */
    uint64_t    reserved[2];  /* zeros: room for members to come */
} est_csv_column;

/* A list of them as one argument:
 *
 *     EST_CSV_COLUMNS({ .name = "age", .dtype = EST_F32 }, { .name = "income", .dtype = EST_STRING }) */
typedef struct est_csv_columns {
    const est_csv_column *data;
    int                   n;
} est_csv_columns;

#define EST_CSV_COLUMNS(...) EST_SPAN(est_csv_columns, const est_csv_column, __VA_ARGS__)

/* The format of the file. A zeroed struct is valid: every comment says what 0 means. */
typedef struct est_csv_options {
    size_t struct_size; /* filled by EST_CSV */
    char   delimiter;   /* between fields; 0: ',' */
    bool   no_quotes;   /* a double quote is a byte like any other */
    bool   trim;        /* blanks and tabs around fields (outside quotes) are not part of them */
    bool   header;      /* the first line of a file holds the names of its fields; columns are found by these names */

    /* A text that is read as an empty field, such as "?" or "NA"; NULL: none. */
    const char *na_value;

    /* The names of all fields of a row, to read only some columns of a file without a header, or in another order.
     * Empty: the columns are the fields. Not together with `header`. */
    est_strings field_names;
} est_csv_options;

#define EST_CSV(...) (&(const est_csv_options){ .struct_size = EST_STRUCT_SIZE(est_csv_options), __VA_ARGS__ })

#ifdef __cplusplus
}
#endif
#endif
