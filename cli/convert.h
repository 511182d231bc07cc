/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `estoc convert`: a reader a format, which turns rows into Examples, and the job that counts them and
 * writes them to one or several TFRecord files. */
#ifndef EST_CLI_CONVERT_H
#define EST_CLI_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "estoc/example.h"
#include "estoc/tfrecord.h"
#include "files.h"

typedef struct convert_job {
    char *const    *inputs;
    int             n_inputs;
    const char     *out;
    const char     *columns; /* "age:int64,name:string"; NULL: all, with types found out */
    bool            no_header;
    char            delimiter; /* 0: a comma, a tab for .tsv */
    bool            trim;
    const char     *na; /* NULL: none */
    est_compression compression;
    int64_t         n_shards; /* 0: one file, not numbered */
    int64_t         skip_bad;
    bool            json;
    bool            progress;

    tool_files            files;
    est_tfrecord_writer **writers; /* of each, NULL once it is finished */
    est_example          *example; /* the row under construction */
    int64_t               n_rows;  /* read, bad ones included */
    int64_t               n_records;
    int64_t               n_bad;
    est_strbuf            first_bad; /* what was wrong with it */
    est_strbuf            report;    /* what the reader found out about columns: rows of a table, or JSON */
} convert_job;

/* EST_INVALID_ARGUMENT when job->columns is not written as it should be. */
EST_MUST_CHECK est_status convert_csv_check(convert_job *job);

/* Each reads all inputs of the job. */
EST_MUST_CHECK est_status convert_csv(convert_job *job);
EST_MUST_CHECK est_status convert_libsvm(convert_job *job);

/* Writes job->example as a record and empties it. */
EST_MUST_CHECK est_status convert_emit(convert_job *job);

/* Counts a row that failed with `status` and whose error names it. EST_OK when the job may continue without it. */
EST_MUST_CHECK est_status convert_bad_row(convert_job *job, est_status status);

/* Called a row: counts it and shows progress. */
void convert_row(convert_job *job);

#endif
