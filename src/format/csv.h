/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of CSV to columns, and fields back to text. See estoc/csv.h for what a field may look like. A row comes without
 * its line break (est_lines with `quoted` gives such rows); one at its end is tolerated.
 *
 * Threading: est_csv_decode may be called by any number of threads with one decoder; the other calls need it alone. */
#ifndef EST_FORMAT_CSV_H
#define EST_FORMAT_CSV_H

#include "base/alloc.h"
#include "base/strbuf.h"
#include "estoc/csv.h"

typedef struct est_csv_decoder est_csv_decoder;

/* A decoder for these columns; columns and options are copied. `options` may be NULL. */
EST_MUST_CHECK est_status est_csv_decoder_create(const est_csv_column *columns, size_t n_columns,
                                                 const est_csv_options *options, est_csv_decoder **out);

/* NULL is fine. */
void est_csv_decoder_free(est_csv_decoder *decoder);

/* With the option `header`: takes the header line of the file that rows come from next. Before the first one,
 * est_csv_decode is an error; a later one replaces it. A wanted column that is not there, or twice, is an error. */
EST_MUST_CHECK est_status est_csv_decoder_header(est_csv_decoder *decoder, est_str header);

/* Decodes n rows into out[n_columns], each a new tensor [n] of its column's dtype that the caller frees. The bytes of
 * strings are copied. An error tells the row (from 0), the column and the text; when a row is at fault,
 * EST_INVALID_ARGUMENT is returned and *bad_row (which may be NULL) is its index, so that a caller can go on without
 * it; otherwise *bad_row is n. */
EST_MUST_CHECK est_status est_csv_decode(const est_csv_decoder *decoder, const est_str *rows, size_t n,
                                         est_tensor **out, size_t *bad_row);

/* Splits a row into its fields with the rules of est_csv_decode; quotes: fields may stand in double quotes. *n tells
 * how many the row has; the first `max` of them are in `fields`, borrowed from the row, or from *scratch where quotes
 * were doubled. *scratch is NULL or an arena; it is made when it is needed, and the caller frees it.
 * EST_INVALID_ARGUMENT names the field and what is wrong. */
EST_MUST_CHECK est_status est_csv_split(est_str row, char delimiter, bool quotes, bool trim, est_arena **scratch,
                                        est_str *fields, size_t max, size_t *n);

/* Appends a field, in quotes when it would not be read back as it is otherwise; the caller puts delimiters and line
 * breaks between. */
void est_csv_append_field(est_strbuf *buf, est_str field, char delimiter);

#endif
