/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc convert` of LIBSVM files. Lines are parsed many at a time; a bad one is taken out, the rest parsed again. */
#include <inttypes.h>
#include <string.h>

#include "convert.h"
#include "format/libsvm.h"
#include "format/lines.h"

#define LINES 256

static est_status emit_batch(convert_job *job, const est_libsvm_batch *batch, size_t n)
{
    const float   *labels  = est_tensor_data(batch->labels);
    const int64_t *splits  = est_tensor_data(batch->splits);
    const int64_t *indices = est_tensor_data(batch->indices);
    const float   *values  = est_tensor_data(batch->values);

    for (size_t i = 0; i < n; i++) {
        size_t count = (size_t)(splits[i + 1] - splits[i]);

        est_example_set_f32s(job->example, "label", &labels[i], 1);
        est_example_set_i64s(job->example, "index", indices + splits[i], count);
        est_example_set_f32s(job->example, "value", values + splits[i], count);
        EST_TRY(convert_emit(job));
    }
    return EST_OK;
}

/* Puts the place in the file in front of the last failure, instead of the place among the lines that were parsed
 * together: "line 7, column 3: ..." */
static est_status fail_line(const est_lines *source, est_str line)
{
    est_error   error;
    const char *why;

    est_error_take(EST_INVALID_ARGUMENT, &error);
    why = strstr(error.message, "column ");
    return est_fail(EST_INVALID_ARGUMENT, "%s:%" PRIu64 ": %s", est_lines_path(source), est_lines_number(source, line),
                    why != NULL ? why : error.message);
}

static est_status convert_lines(convert_job *job, const est_lines *source, est_str *lines, size_t n)
{
    est_libsvm_batch batch = { 0 };
    est_status       status;
    size_t           bad;

    while (n > 0) {
        status = est_libsvm_parse(lines, n, NULL, &batch, &bad);
        if (status == EST_OK) {
            status = emit_batch(job, &batch, n);
            est_libsvm_batch_clear(&batch);
            return status;
        }
        if (bad >= n) return status;
        EST_TRY(convert_bad_row(job, fail_line(source, lines[bad])));
        n--;
        memmove(&lines[bad], &lines[bad + 1], (n - bad) * sizeof *lines);
    }
    return EST_OK;
}

static est_status convert_file(convert_job *job, est_lines *source)
{
    est_str    lines[LINES];
    size_t     n, n_rows;
    est_status status;

    while ((status = est_lines_next_many(source, lines, LINES, &n)) == EST_OK) {
        n_rows = 0;
        for (size_t i = 0; i < n; i++) {
            if (est_libsvm_is_blank(lines[i])) continue;
            lines[n_rows++] = lines[i];
            convert_row(job);
        }
        EST_TRY(convert_lines(job, source, lines, n_rows));
    }
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

est_status convert_libsvm(convert_job *job)
{
    for (int i = 0; i < job->n_inputs; i++) {
        est_lines *source;
        est_status status;

        EST_TRY(est_lines_open(job->inputs[i], NULL, &source));
        status = convert_file(job, source);
        est_lines_close(source);
        EST_TRY(status);
    }
    return EST_OK;
}
