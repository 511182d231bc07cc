/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of text from standard input as Examples: CSV as the job says, or a JSON object a line. What is wrong with a row is said
 * with its line; the rows before it are still handed out.
 *
 * Threading: one thread at a time. */
#ifndef EST_CLI_JOB_ROWS_H
#define EST_CLI_JOB_ROWS_H

#include "estoc/dataset.h"
#include "estoc/example.h"
#include "format/lines.h"
#include "job.h"

typedef struct job_rows {
    const job_runner       *runner;
    const job_spec         *job;
    const est_feature_spec *specs; /* [n] */
    int                     n;
    bool                    json;
    bool                    baseline; /* its feature is in no row */
    int64_t                 batch;

    est_lines   *lines;
    est_example *example;
    est_str     *fields; /* [n_fields]: of the row; CSV */
    size_t       n_fields;
    int         *field_of; /* [n]: of each feature; -1: there is none, of a baseline */
    bool        *seen;     /* [n]: whether a row had the feature; what nobody is warned of */
    int64_t      n_rows;   /* that were read */
    est_arena   *scratch;  /* of doubled quotes */
    est_strbuf   values;   /* of a feature of several */
    uint64_t     line;     /* of the row at hand */
    est_error    failed;   /* what ended the rows early; status EST_OK: nothing */
} job_rows;

/* Opens standard input; a CSV header is read now. */
EST_MUST_CHECK est_status job_rows_open(job_rows *rows, const job_runner *runner, bool json, int64_t batch);
void                      job_rows_close(job_rows *rows);

/* An est_input_fn whose user is a job_rows: batches of parsed rows. */
est_status job_rows_input(const est_input_context *context, void *user, est_dataset **out);

#endif
