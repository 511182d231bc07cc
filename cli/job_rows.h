/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of text from standard input as Examples: CSV as the job says, or a JSON object a line. A bad row, whether it
 * cannot be read or the model refuses it, is reported with its line, and the others are handed out. Rows wait until
 * they are answered: those of a batch that fails are handed out again one by one, which separates the bad from the
 * good.
 *
 * A batch ends early when the next row has not arrived, and finished answers are written before the wait, so that no
 * caller waits for rows that may never come.
 *
 * Threading: one thread at a time. */
#ifndef EST_CLI_JOB_ROWS_H
#define EST_CLI_JOB_ROWS_H

#include "estoc/dataset.h"
#include "estoc/example.h"
#include "format/lines.h"
#include "job.h"

/* A row that has no answer yet. */
typedef struct job_row {
    est_tensor *record; /* an Example; NULL: the row is bad */
    char       *error;  /* why it is bad */
    char       *text;   /* as it was read, where job_rows.keeps_text; [text_size] */
    size_t      text_size;
    uint64_t    line;
} job_row;

typedef struct job_rows {
    const job_runner       *runner;
    const job_spec         *job;
    const est_feature_spec *specs; /* [n] */
    int                     n;
    bool                    json;
    bool                    baseline; /* its feature is in no row */
    bool                    keeps_text;
    int64_t                 batch;

    est_lines   *lines;
    est_example *example;
    est_str     *names; /* [n_names]: of the fields, copied; CSV */
    size_t       n_names;
    est_str     *fields; /* [n_room_fields]: of the row at hand; CSV */
    size_t       n_room_fields;
    int         *field_of; /* [n]: of each feature; -1: there is none, of a baseline */
    bool        *seen;     /* [n]: whether a row had the feature; others cause a warning */
    int64_t      n_rows;   /* that were read */
    est_arena   *scratch;  /* of doubled quotes */
    est_strbuf   values;   /* of a feature of several */
    int64_t      n_bad;
    bool         ended;  /* all rows were read */
    est_error    failed; /* what ended the rows early; status EST_OK: nothing */

    est_example_parser *parser;
    est_feature_batch  *parsed; /* [n] scratch */
    est_str            *texts;  /* [n_texts] of the batch at hand */
    size_t              n_texts;

    job_row *waiting; /* [n_waiting] of n_room, from n_first on: in the order of the input */
    size_t   n_first, n_waiting, n_room;
    size_t   n_given; /* of those, handed out to the current model */
    size_t   n_alone; /* of those, still to hand out one by one; 0: in batches */

    est_status (*settle)(void *user);
    void *settle_user;
} job_rows;

/* Opens standard input; a CSV header is read now. keeps_text: rows keep their text until they are popped. `settle`
 * is called when all good rows that were handed out are answered and no further one has arrived: it pops the bad
 * ones that are first and flushes the output. */
EST_MUST_CHECK est_status job_rows_open(job_rows *rows, const job_runner *runner, bool json, bool keeps_text,
                                        int64_t batch, est_status (*settle)(void *user), void *settle_user);
void                      job_rows_close(job_rows *rows);

/* The oldest row without an answer; NULL: there is none. */
const job_row *job_rows_first(const job_rows *rows);

/* It is answered, or its error reported. */
void job_rows_pop(job_rows *rows);

/* The fields of a row of CSV; borrowed until the next call and the next row that is read. */
EST_MUST_CHECK est_status job_rows_split(job_rows *rows, est_str line, const est_str **fields, size_t *n);

/* The model has ended with this status. *again: it must run again, with a new input: rows that failed together are
 * handed out one by one, and one that failed alone is bad. Any other failure is returned. */
EST_MUST_CHECK est_status job_rows_ended(job_rows *rows, est_status status, bool *again);

/* An est_input_fn whose user is a job_rows: batches of parsed rows. */
est_status job_rows_input(const est_input_context *context, void *user, est_dataset **out);

#endif
