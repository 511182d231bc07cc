/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc predict`: rows on standard input, predictions on standard output, a batch at a time. */
#include <stdio.h>
#include <string.h>

#include "format/csv.h"
#include "job_command.h"
#include "job_rows.h"
#include "output.h"

#define KEYS_MAX 32

enum { OPTION_FORMAT = 1100, OPTION_KEYS };

static const char *const formats[] = { "csv", "jsonl", NULL };

static const tool_option options[] = {
    { "format", OPTION_FORMAT, "FORMAT",
      "of the rows: csv (the default) or jsonl; the output is of\nthe same, or jsonl with --json", formats },
    { "batch", 'b', "N", "rows that are computed at a time, at most; default: 1024" },
    { "keys", OPTION_KEYS, "KEY,...", "the predictions to write, as probabilities; default: all" },
    JOB_OPTIONS,
    JOB_CHECKPOINT_OPTION,
    TOOL_COMMON_OPTIONS
};

typedef struct prediction_call {
    job_call    job;
    bool        json_rows;
    int64_t     batch;
    const char *keys[KEYS_MAX];
    int         n_keys;
    job_rows    rows;
    bool        has_header; /* was written; CSV */
} prediction_call;

/* --- output ----------------------------------------------------------------------------------------------------------- */

/* "probabilities_0,probabilities_1": a column for every element. */
static void append_header(est_strbuf *out, const est_predictions *p)
{
    bool first = true;

    for (int i = 0; i < est_predictions_count(p); i++) {
        const char *key = est_predictions_key(p, i);
        int64_t     n   = est_tensor_count(est_predictions_get(p, key));

        for (int64_t k = 0; k < n; k++, first = false) {
            est_strbuf_append(out, first ? "" : ",");
            est_csv_append_field(out, (est_str){ key, strlen(key) }, ',');
            if (n > 1) est_strbuf_printf(out, "_%lld", (long long)k);
        }
    }
    est_strbuf_append(out, "\n");
}

static void append_csv(est_strbuf *out, est_strbuf *cell, const est_predictions *p)
{
    bool first = true;

    for (int i = 0; i < est_predictions_count(p); i++) {
        const est_tensor *value = est_predictions_get(p, est_predictions_key(p, i));

        for (int64_t k = 0; k < est_tensor_count(value); k++, first = false) {
            est_strbuf_append(out, first ? "" : ",");
            est_strbuf_reset(cell);
            if (est_tensor_dtype(value) == EST_STRING) {
                est_csv_append_field(out, ((const est_str *)est_tensor_data(value))[k], ',');
            } else {
                tool_append_element(cell, value, k, false);
                est_strbuf_append(out, est_strbuf_text(cell));
            }
        }
    }
    est_strbuf_append(out, "\n");
}

static void append_json(est_strbuf *out, const est_predictions *p)
{
    est_strbuf_append(out, "{");
    for (int i = 0; i < est_predictions_count(p); i++) {
        const char       *key   = est_predictions_key(p, i);
        const est_tensor *value = est_predictions_get(p, key);
        bool              list  = est_tensor_shape(value)->rank > 0;

        est_strbuf_append(out, i > 0 ? ", " : "");
        tool_append_json_text(out, key);
        est_strbuf_append(out, list ? ": [" : ": ");
        for (int64_t k = 0; k < est_tensor_count(value); k++) {
            est_strbuf_append(out, k > 0 ? ", " : "");
            tool_append_element(out, value, k, true);
        }
        est_strbuf_append(out, list ? "]" : "");
    }
    est_strbuf_append(out, "}\n");
}

static bool writes_json(const prediction_call *call)
{
    return call->job.json || call->json_rows;
}

/* Bad rows before the next answer: in JSON they have a line, so that the others keep their places. */
static est_status write_errors(prediction_call *call)
{
    est_strbuf     text   = { 0 };
    est_status     status = EST_OK;
    const job_row *row;

    while ((row = job_rows_first(&call->rows)) != NULL && row->record == NULL && status == EST_OK) {
        if (writes_json(call)) {
            est_strbuf_append(&text, "{\"error\": ");
            tool_append_json_text(&text, row->error);
            est_strbuf_append(&text, "}\n");
            status = tool_write(&text);
        }
        job_rows_pop(&call->rows);
    }
    est_strbuf_clear(&text);
    return status;
}

/* Before the next row is waited for: what there is to say of those before it is out. */
static est_status settle(void *user)
{
    EST_TRY(write_errors(user));
    return tool_flush();
}

static est_status write_answers(prediction_call *call, est_predictions *p)
{
    est_strbuf text = { 0 }, cell = { 0 };
    est_status status;

    while ((status = est_predictions_next(p)) == EST_OK) {
        status = write_errors(call);
        if (status != EST_OK) break;
        if (writes_json(call)) {
            append_json(&text, p);
        } else {
            if (!call->has_header) append_header(&text, p);
            append_csv(&text, &cell, p);
        }
        status = tool_write(&text);
        job_rows_pop(&call->rows);
        if (status != EST_OK) break;
        call->has_header = true;
    }
    est_strbuf_clear(&text);
    est_strbuf_clear(&cell);
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

/* --- the command ------------------------------------------------------------------------------------------------------ */

/* Asks a new model until the rows end, or it fails. */
static est_status ask(prediction_call *call, const char *checkpoint)
{
    est_predictions *p = NULL;
    est_status       status;

    EST_TRY(est_predict(call->job.runner.estimator,
                        EST_PREDICT_OPTIONS(.input_fn = job_rows_input, .input_user = &call->rows,
                                            .keys = call->n_keys > 0 ? call->keys : NULL, .n_keys = call->n_keys,
                                            .checkpoint_path = checkpoint),
                        &p));
    status = write_answers(call, p);
    est_predictions_free(p);
    return status;
}

static est_status predict(prediction_call *call)
{
    job_rows  *rows = &call->rows;
    char       path[EST_CHECKPOINT_PATH_MAX];
    bool       again  = true;
    est_status status = EST_OK;

    EST_TRY(job_call_checkpoint(&call->job, path));
    EST_TRY(job_rows_open(rows, &call->job.runner, call->json_rows, call->batch, settle, call));
    while (status == EST_OK && again) status = job_rows_ended(rows, ask(call, path), &again);
    if (status == EST_OK) status = write_errors(call);
    if (status == EST_OK && rows->failed.status != EST_OK) status = est_error_raise(&rows->failed);
    if (status == EST_OK && rows->n_bad > 0) {
        status = est_fail(EST_INVALID_ARGUMENT, "%lld of %lld rows have no answer", (long long)rows->n_bad,
                          (long long)rows->n_rows);
    }
    job_rows_close(rows);
    return status;
}

static tool_exit set_keys(prediction_call *call, const char *value)
{
    char *at = est_arena_printf(call->job.arena, "%s", value);

    if (at == NULL) return tool_failed(&tool_predict, est_fail(EST_RESOURCE_EXHAUSTED, "no memory for keys"));
    for (char *key; (key = strsep(&at, ",")) != NULL;) {
        if (key[0] == '\0') return tool_usage(&tool_predict, "--keys: \"%s\" has an empty name", value);
        if (call->n_keys == KEYS_MAX) return tool_usage(&tool_predict, "--keys takes %d names at most", KEYS_MAX);
        call->keys[call->n_keys++] = key;
    }
    return TOOL_OK;
}

static tool_exit take_option(prediction_call *call, int id, const char *value)
{
    int format;

    switch (id) {
    case OPTION_FORMAT:
        format          = tool_option_choice(&tool_predict, OPTION_FORMAT, value);
        call->json_rows = format == 1;
        return format >= 0 ? TOOL_OK : TOOL_USAGE;
    case 'b':
        if (!tool_count(&tool_predict, "batch", value, &call->batch)) return TOOL_USAGE;
        if (call->batch < 1 || call->batch > 1000000) return tool_usage(&tool_predict, "--batch takes 1 to 1000000");
        return TOOL_OK;
    case OPTION_KEYS: return set_keys(call, value);
    default: return job_call_option(&call->job, id, value) ? TOOL_OK : tool_other_option(&tool_predict, id);
    }
}

static tool_exit run(int argc, char **argv)
{
    prediction_call call = { .batch = 1024 };
    const char     *value;
    int             id;
    tool_exit       code   = TOOL_OK;
    est_status      status = job_call_begin(&call.job, &tool_predict, argc);

    if (status != EST_OK) code = tool_failed(&tool_predict, status);
    while (code == TOOL_OK && (id = tool_next_option(&tool_predict, argc, argv, &value)) != TOOL_OPTION_END) {
        code = take_option(&call, id, value);
    }
    if (code == TOOL_OK) code = job_call_open(&call.job, argc, argv, JOB_NEEDS_MODEL_DIR);
    if (code == TOOL_OK && (status = predict(&call)) != EST_OK) code = tool_failed(&tool_predict, status);
    job_call_end(&call.job);
    return code;
}

const tool_command tool_predict = {
    .name      = "predict",
    .summary   = "answer rows on standard input with a trained model of a job file",
    .arguments = "[options] JOB.yaml",
    .description =
        "Reads rows from standard input and writes what the latest checkpoint of run.model_dir says of each to\n"
        "standard output, in the same order. CSV is as data.csv says of the files: with a header, which must name\n"
        "every field of the features, or without one and with all of data.csv.fields (that of the label is not\n"
        "read and may be empty). JSON lines are objects, a feature of several values a list. Fields that the\n"
        "model does not know are passed over; what is missing is as the feature's default says.\n"
        "\n"
        "A batch that is not full is computed all the same when the next row has not arrived, so that a program\n"
        "that waits for every answer gets it. A row that cannot be read, or that the model refuses, is reported\n"
        "with its line on standard error and has no answer; in JSON it is {\"error\": ...}, so that rows keep\n"
        "their places. The exit code is 1 then.\n",
    .options  = options,
    .examples = "  estoc predict census.yaml <rows.csv >answers.csv\n"
                "  estoc predict census.yaml --format jsonl --batch 1 --keys probabilities,class_ids\n",
    .takes    = TOOL_TAKES_FILES,
    .run      = run,
};
