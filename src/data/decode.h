/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding batches of rows: the common part of parse_examples, decode_csv and decode_libsvm. A format provides a
 * function that decodes some rows; this file pulls rows, runs the workers and finds the bad rows.
 *
 * A batch that cannot be decoded is decoded again row by row: that finds the first bad row, and all others. Rows are
 * kept as references to the tensors they came in. */
#ifndef EST_DATA_DECODE_H
#define EST_DATA_DECODE_H

#include "data/ahead.h"

typedef struct est_decode      est_decode;
typedef struct est_decode_iter est_decode_iter;

/* One row of a batch. */
typedef struct est_decode_row {
    est_tensor *tensor; /* holds its text */
    est_origin  origin;
    const void *note; /* the format's own: the result of `look` */
} est_decode_row;

/* Rows to decode. */
typedef struct est_decode_rows {
    const est_str        *text; /* [n] */
    const est_decode_row *row;  /* [n] */
    size_t                n;
} est_decode_rows;

typedef struct est_decode_format {
    const char *takes; /* the expected input, for errors: "lines of CSV" */

    /* How the decoder's errors name the only row of a batch, with a 0 in it. Taken out of them where the origin says it
     * better; else its place in the batch is put there. */
    const char *row_name[2];

    /* Whether a row is empty and is skipped. May be NULL. */
    bool (*is_blank)(const est_decode *own, est_str row);

    /* Creates and frees the decoder's state, it->own, for `workers` at a time; a failed open is also closed. May be
     * NULL. */
    est_status (*open)(est_decode_iter *it, int workers);
    void (*close)(est_decode_iter *it);

    /* Looks at a row when it is pulled, one call at a time. May be NULL. */
    est_status (*look)(est_decode_iter *it, est_decode_row *row);

    /* Decodes rows, at least one, to the dataset's components; leaves `out` all zero when it fails. */
    est_status (*decode)(est_decode_iter *it, int worker, const est_decode_rows *rows, est_field *out);
} est_decode_format;

/* The first member of the dataset's struct. */
struct est_decode {
    est_dataset              base;
    const est_decode_format *format;
    int64_t                  batch;
    est_parse_options        options;
};

/* The iterator. */
struct est_decode_iter {
    est_ahead    base;
    est_element *row; /* scratch of pull */
    void        *own; /* the format's */
};

/* The start of a constructor: est_dataset_new, then checks and copies the options. */
void *est_decode_new(const est_stage *stage, size_t size, const est_decode_format *format, est_dataset *input);

/* Checks and copies the rest; for a sound dataset. */
EST_MUST_CHECK est_status est_decode_set(est_decode *own, int64_t batch, const est_parse_options *options);

/* The first dimension of the output: the batch size, or -1 if batches may be smaller. */
int64_t est_decode_dim(const est_decode *own);

/* Whether it is one of these stages. */
bool est_is_decoder(const est_dataset *dataset);

/* Decodes the first of `rows`, which replace the decoder's input; *found false: no row. A bad row is not an error if
 * bad rows may be skipped. */
EST_MUST_CHECK est_status est_decode_peek(const est_dataset *decoder, const est_dataset *rows, bool *found);

/* For est_stage.encode and decode: batch and options as numbers, EST_DECODE_NUMBERS of them, and back; the batch is
 * number 0. The first fails for options with a check. */
#define EST_DECODE_NUMBERS 5
EST_MUST_CHECK est_status est_decode_encode(const est_decode *own, int64_t number[EST_DECODE_NUMBERS]);
est_parse_options         est_decode_options(const est_encoded *from);

/* Of est_stage. */
est_status est_decode_open(est_iter *it);
void       est_decode_close(est_iter *it);
int64_t    est_decode_batch_size(const est_dataset *dataset);

#define EST_DECODE_FUNCTIONS                                                                                           \
    .n_inputs = 1, .iter_size = sizeof(est_decode_iter), .open = est_decode_open, .close = est_decode_close,           \
    .batch_size = est_decode_batch_size, EST_AHEAD_FUNCTIONS

#endif
