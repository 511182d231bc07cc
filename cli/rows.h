/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows from a file or standard input, as Examples: CSV, a JSON object a line, or TFRecords of Examples. A bad row,
 * whether it cannot be read or the model refuses it, is reported with its line, and the others are handed out. Rows
 * wait until they are answered: those of a batch that fails are handed out again one by one, which separates the bad
 * from the good.
 *
 * A batch ends early when the next row has not arrived, and finished answers are written before the wait, so that no
 * caller waits for rows that may never come.
 *
 * Threading: one thread at a time. */
#ifndef EST_CLI_ROWS_H
#define EST_CLI_ROWS_H

#include "estoc/dataset.h"
#include "estoc/example.h"
#include "format/lines.h"
#include "job.h"

typedef enum tool_row_format { TOOL_ROWS_CSV, TOOL_ROWS_JSON, TOOL_ROWS_TFRECORD } tool_row_format;

/* What the rows are, and what becomes of them. */
typedef struct tool_rows_options {
    est_feature_specs      specs;  /* of the features; borrowed until the rows are closed */
    est_components         inputs; /* of the model; borrowed likewise */
    bool                   parses; /* the only input takes Examples; else inputs are what the specs describe */
    int64_t                fixed;  /* rows of a batch, where the model takes no other number; 0: up to `batch` */
    const job_runner      *runner; /* the job whose weights and baseline the rows follow; NULL: none */
    const est_csv_options *csv;    /* NULL: a header and defaults; borrowed likewise */
    tool_row_format        format;
    const char            *path; /* NULL: standard input */
    bool                   keeps_text;
    int64_t                batch;

    /* Called when all good rows that were handed out are answered and no further one has arrived: pops the bad ones
     * that are first and flushes the output. */
    est_status (*settle)(void *user);
    void *settle_user;
} tool_rows_options;

/* A row that has no answer yet. */
typedef struct tool_row {
    est_tensor *record; /* an Example; NULL: the row is bad */
    char       *error;  /* why it is bad */
    char       *text;   /* as it was read, where tool_rows.keeps_text; [text_size] */
    size_t      text_size;
    uint64_t    line; /* or the number of the record */
} tool_row;

typedef struct tool_rows {
    tool_rows_options       options;
    est_csv_options         csv;
    const char             *source; /* for messages */
    const est_feature_spec *specs;  /* [n] */
    int                     n;
    bool                    baseline;  /* its feature is in no row */
    bool                    no_blanks; /* "" and -1 are values as others, not missing ones */

    est_lines           *lines;   /* NULL: TFRecords */
    est_tfrecord_reader *records; /* NULL: lines */
    est_example         *example;
    est_str             *names; /* [n_names]: of the fields, copied; CSV */
    size_t               n_names;
    est_str             *fields; /* [n_room_fields]: of the row at hand; CSV */
    size_t               n_room_fields;
    int                 *field_of; /* [n]: of each feature; -1: there is none, of a baseline */
    bool                *seen;     /* [n]: whether a row had the feature; others cause a warning */
    int64_t              n_rows;   /* that were read */
    est_arena           *scratch;  /* of doubled quotes */
    est_strbuf           values;   /* of a feature of several */
    int64_t              n_bad;
    bool                 ended;   /* all rows were read */
    est_error            failed;  /* what ended the rows early; status EST_OK: nothing */
    est_error            refused; /* why the rows at hand are no batch; likewise */

    est_example_parser *parser;
    est_feature_batch  *parsed; /* [n] scratch */
    est_str            *texts;  /* [n_texts] of the batch at hand */
    size_t              n_texts;
    size_t              n_asked; /* rows that the model has been asked about with the batch at hand ... */
    size_t              n_open;  /* ... and those of them without an answer; the others of a fixed batch fill it up */

    tool_row *waiting; /* [n_waiting] of n_room, from n_first on: in the order of the input */
    size_t    n_first, n_waiting, n_room;
    size_t    n_given; /* of those, handed out to the current model */
    size_t    n_alone; /* of those, still to hand out one by one; 0: in batches */
} tool_rows;

/* Opens the input; a CSV header is read now. Rows keep their text, if asked to, until they are popped. */
EST_MUST_CHECK est_status tool_rows_open(tool_rows *rows, const tool_rows_options *options);
void                      tool_rows_close(tool_rows *rows);

/* The oldest row without an answer; NULL: there is none. */
const tool_row *tool_rows_first(const tool_rows *rows);

/* The model has given this many answers to the batch at hand; an error unless each row has one: of the model, not of a
 * row. */
EST_MUST_CHECK est_status tool_rows_check(const tool_rows *rows, int64_t n_answers);

/* The oldest row is bad after all, for the thread's error: it has an answer that cannot be written. */
EST_MUST_CHECK est_status tool_rows_refuse(tool_rows *rows);

/* It is answered, or its error reported. */
void tool_rows_pop(tool_rows *rows);

/* The fields of a row of CSV; borrowed until the next call and the next row that is read. */
EST_MUST_CHECK est_status tool_rows_split(tool_rows *rows, est_str line, const est_str **fields, size_t *n);

/* The model has ended with this status. *again: it must run again, with a new input: rows that failed together are
 * handed out one by one, and one that failed alone is bad. Any other failure is returned. */
EST_MUST_CHECK est_status tool_rows_ended(tool_rows *rows, est_status status, bool *again);

/* A dataset of batches of rows, with the inputs of the model as components. The rows are borrowed until it is freed. */
EST_MUST_CHECK est_status tool_rows_dataset(tool_rows *rows, est_dataset **out);

/* The specs of inputs that take no Examples, each a feature a row; in the arena. *fixed: as in tool_rows_options. Fails
 * for an input whose first dimension is not the batch. */
EST_MUST_CHECK est_status tool_rows_specs(est_components inputs, est_arena *arena, est_feature_specs *out,
                                          int64_t *fixed);

#endif
