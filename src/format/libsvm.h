/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of LIBSVM (SVMlight) files, "label index:value index:value # comment", to a batch of ragged rows. A line comes
 * without its line break. "qid:3" may stand after the label. Any thread. */
#ifndef EST_FORMAT_LIBSVM_H
#define EST_FORMAT_LIBSVM_H

#include <stdbool.h>
#include <stddef.h>

#include "estoc/status.h"
#include "estoc/tensor.h"

/* A zeroed struct is a valid one. */
typedef struct est_libsvm_options {
    bool    one_based; /* indices in the file start at 1, and 1 is taken off; false: as they are written */
    bool    keep_qid;  /* give the query ids; a line without one is then an error. false: they are read over */
    int64_t index_max; /* an index (as given out) above it is an error; 0: none is */
} est_libsvm_options;

/* Row r has indices[splits[r]] .. indices[splits[r + 1] - 1], and values at the same places. */
typedef struct est_libsvm_batch {
    est_tensor *labels;  /* float32 [n] */
    est_tensor *splits;  /* int64 [n + 1] */
    est_tensor *indices; /* int64 [n_values], >= 0, in the order of the file */
    est_tensor *values;  /* float32 [n_values] */
    est_tensor *qids;    /* int64 [n]; NULL without keep_qid */
} est_libsvm_batch;

/* Parses n lines into *out, which the caller clears. `options` may be NULL. An error tells the line (from 0) and the
 * column (from 1, in bytes) of what is wrong; then *bad_line (which may be NULL) is the line's index, and n when no
 * line is at fault. */
EST_MUST_CHECK est_status est_libsvm_parse(const est_str *lines, size_t n, const est_libsvm_options *options,
                                           est_libsvm_batch *out, size_t *bad_line);

/* Whether a line holds nothing but blanks and a comment; est_libsvm_parse takes no such line. */
bool est_libsvm_is_blank(est_str line);

/* Gives the tensors back and zeroes the struct. */
void est_libsvm_batch_clear(est_libsvm_batch *batch);

#endif
