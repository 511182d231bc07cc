/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc predict`: rows on standard input, predictions on standard output, a batch at a time. A job file and a
 * SavedModel differ only in where the predictor comes from, and the features of its rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "files.h"
#include "format/csv.h"
#include "job_command.h"
#include "output.h"
#include "predict/predictor.h"
#include "predict/rows.h"
#include "predict/saved_model.h"
#include "rows.h"

#define NAMES_MAX 32 /* of --keys, and of --keep */

enum { OPTION_FORMAT = 1100, OPTION_KEYS, OPTION_KEEP, OPTION_SIGNATURE, OPTION_INPUT, OPTION_OUTPUT };

static const char *const formats[] = { "csv", "jsonl", "tfrecord", NULL }; /* as tool_row_format */

static const tool_option options[] = {
    { "format", OPTION_FORMAT, "FORMAT",
      "of the rows: csv, jsonl or tfrecord, which has Examples;\n"
      "default: what the name of the input says (.jsonl, .tfrecord,\n"
      "each also with .gz), else csv; the output is csv for csv, else\n"
      "jsonl",
      formats },
    { "input", OPTION_INPUT, "FILE", "the rows; default: standard input" },
    { "output", OPTION_OUTPUT, "FILE", "the predictions; default: standard output" },
    { "signature", OPTION_SIGNATURE, "NAME", "of a SavedModel; default: serving_default" },
    { "batch", 'b', "N", "rows that are computed at a time, at most; default: 1024" },
    { "keys", OPTION_KEYS, "KEY,...", "the predictions to write, as probabilities; default: all" },
    { "keep", OPTION_KEEP, "FIELD,...",
      "fields of the rows to write before the predictions, as an id;\n\"*\": all of them" },
    JOB_OPTIONS,
    JOB_CHECKPOINT_OPTION,
    TOOL_COMMON_OPTIONS
};

typedef struct prediction_call {
    job_call          job;
    bool              has_format; /* --format is given */
    tool_row_format   format;
    const char       *signature, *input, *output; /* NULL: the default */
    int64_t           batch;
    const char       *keys[NAMES_MAX];
    int               n_keys;
    const char       *keep[NAMES_MAX];
    int               n_keep;
    est_saved_model  *model; /* NULL: the predictor is a job's */
    est_predictor    *predictor;
    est_feature_specs specs;  /* of the rows */
    bool              parses; /* the predictor takes Examples */
    int64_t           fixed;  /* rows that it takes at a time; 0: any number */
    tool_rows         rows;
    bool              has_header; /* was written; CSV */
    bool             *kept;       /* [rows.n_names]: the fields to write; CSV */
    int64_t          *columns;    /* [predictions]: of each; CSV */
    int64_t           n_columns;  /* of all of them */
} prediction_call;

/* --- fields that are kept ----------------------------------------------------------------------------------------- */

static bool keeps_all(const prediction_call *call)
{
    return call->n_keep == 1 && strcmp(call->keep[0], "*") == 0;
}

static bool keeps(const prediction_call *call, const char *name, size_t size)
{
    for (int i = 0; i < call->n_keep; i++) {
        if (strlen(call->keep[i]) == size && memcmp(call->keep[i], name, size) == 0) return true;
    }
    return keeps_all(call);
}

/* A prediction of the same name is written instead of the field; "error" is the column of errors. */
static bool is_predicted(const est_predictions *p, const char *name, size_t size)
{
    if (size == strlen("error") && memcmp(name, "error", size) == 0) return true;
    for (int i = 0; p != NULL && i < est_predictions_count(p); i++) {
        const char *key = est_predictions_key(p, i);

        if (strlen(key) == size && memcmp(key, name, size) == 0) return true;
    }
    return false;
}

/* Fields to keep that the header does not have are a mistake; JSON rows may lack them. */
static est_status check_kept(prediction_call *call)
{
    const tool_rows *rows = &call->rows;

    if (call->format != TOOL_ROWS_CSV) return EST_OK;
    for (int i = 0; i < call->n_keep && !keeps_all(call); i++) {
        size_t k = 0;

        while (k < rows->n_names && (rows->names[k].size != strlen(call->keep[i]) ||
                                     memcmp(rows->names[k].data, call->keep[i], rows->names[k].size) != 0)) {
            k++;
        }
        if (k == rows->n_names) {
            return est_fail(EST_INVALID_ARGUMENT, "--keep: no field \"%s\" in the rows", call->keep[i]);
        }
    }
    call->kept = est_zalloc((rows->n_names + 1) * sizeof *call->kept);
    if (call->kept == NULL) return est_no_memory();
    for (size_t k = 0; k < rows->n_names; k++) call->kept[k] = keeps(call, rows->names[k].data, rows->names[k].size);
    return EST_OK;
}

/* The kept fields of a row as cells; empty ones where the row cannot be split. */
static est_status append_kept_csv(prediction_call *call, est_strbuf *out, const tool_row *row)
{
    const est_str *fields = NULL;
    size_t         n      = 0;

    if (call->n_keep > 0 &&
        tool_rows_split(&call->rows, (est_str){ row->text, row->text_size }, &fields, &n) != EST_OK) {
        n = 0; /* the error of the row reports it */
    }
    for (size_t k = 0; k < call->rows.n_names; k++) {
        if (!call->kept[k]) continue;
        if (k < n) est_csv_append_field(out, fields[k], ',');
        est_strbuf_append(out, ",");
    }
    return est_strbuf_status(out);
}

/* A value as text that reads as the same value: 0.1, not 0.10000000000000001. The caller frees it; NULL: no memory. */
static char *text_of(const est_json *value)
{
    char     *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    est_json *read = text != NULL ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    bool      same = read != NULL && json_equal(read, value);

    est_json_free(read);
    if (same) return text;
    free(text);
    return json_dumps(value, JSON_ENCODE_ANY);
}

/* "name": value pairs, each with a comma behind it. */
static est_status append_kept_json(prediction_call *call, est_strbuf *out, const tool_row *row,
                                   const est_predictions *p)
{
    est_str        line   = { row->text, row->text_size };
    const est_str *fields = NULL;
    est_json      *object = NULL;
    size_t         n      = 0;
    const char    *name;
    est_json      *value;

    if (call->n_keep == 0) return EST_OK;
    if (call->format == TOOL_ROWS_CSV) {
        if (tool_rows_split(&call->rows, line, &fields, &n) != EST_OK) return EST_OK;
        for (size_t k = 0; k < n && k < call->rows.n_names; k++) {
            if (!call->kept[k] || is_predicted(p, call->rows.names[k].data, call->rows.names[k].size)) continue;
            tool_append_json_bytes(out, call->rows.names[k]);
            est_strbuf_append(out, ": ");
            tool_append_json_bytes(out, fields[k]);
            est_strbuf_append(out, ", ");
        }
        return est_strbuf_status(out);
    }
    if (est_json_parse(line.data, line.size, "the row", &object) != EST_OK) return EST_OK;
    json_object_foreach(object, name, value)
    {
        char *text;

        if (!keeps(call, name, strlen(name)) || is_predicted(p, name, strlen(name))) continue;
        text = text_of(value);
        if (text == NULL) break;
        tool_append_json_text(out, name);
        est_strbuf_append(out, ": ");
        est_strbuf_append(out, text);
        est_strbuf_append(out, ", ");
        free(text);
    }
    est_json_free(object);
    return est_strbuf_status(out);
}

/* --- output ------------------------------------------------------------------------------------------------------- */

/* "id,probabilities_0,probabilities_1,error": a column for every element. */
static est_status append_header(prediction_call *call, est_strbuf *out, const est_predictions *p)
{
    call->columns = est_arena_alloc(call->job.arena, ((size_t)est_predictions_count(p) + 1) * sizeof *call->columns);
    if (call->columns == NULL) return est_no_memory();
    for (size_t k = 0; k < call->rows.n_names; k++) {
        if (is_predicted(p, call->rows.names[k].data, call->rows.names[k].size)) call->kept[k] = false;
        if (!call->kept[k]) continue;
        est_csv_append_field(out, call->rows.names[k], ',');
        est_strbuf_append(out, ",");
    }
    for (int i = 0; p != NULL && i < est_predictions_count(p); i++) {
        const char *key = est_predictions_key(p, i);
        int64_t     n   = est_tensor_count(est_predictions_get(p, key));

        call->columns[i] = n;
        for (int64_t k = 0; k < n; k++) {
            est_csv_append_field(out, (est_str){ key, strlen(key) }, ',');
            if (n > 1) est_strbuf_printf(out, "_%lld", (long long)k);
            est_strbuf_append(out, ",");
        }
        call->n_columns += n;
    }
    est_strbuf_append(out, "error\n");
    call->has_header = true;
    return est_strbuf_status(out);
}

/* The columns are those of the first answer; a row that needs others would shift its values into wrong ones. */
static est_status check_columns(const prediction_call *call, const est_predictions *p)
{
    for (int i = 0; i < est_predictions_count(p); i++) {
        const char *key = est_predictions_key(p, i);
        int64_t     n   = est_tensor_count(est_predictions_get(p, key));

        if (n == call->columns[i]) continue;
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\" has %lld values and the output %lld columns for it; use --json",
                        key, (long long)n, (long long)call->columns[i]);
    }
    return EST_OK;
}

static void append_csv(est_strbuf *out, est_strbuf *cell, const est_predictions *p)
{
    for (int i = 0; i < est_predictions_count(p); i++) {
        const est_tensor *value = est_predictions_get(p, est_predictions_key(p, i));

        for (int64_t k = 0; k < est_tensor_count(value); k++) {
            est_strbuf_reset(cell);
            if (est_tensor_dtype(value) == EST_STRING) {
                est_csv_append_field(out, ((const est_str *)est_tensor_data(value))[k], ',');
            } else {
                tool_append_element(cell, value, k, false);
                est_strbuf_append(out, est_strbuf_text(cell));
            }
            est_strbuf_append(out, ",");
        }
    }
    est_strbuf_append(out, "\n");
}

/* The elements from *next on in lists of lists, one for each axis from `axis` on. */
static void append_lists(est_strbuf *out, const est_tensor *value, int axis, int64_t *next)
{
    const est_shape *shape = est_tensor_shape(value);

    if (axis == shape->rank) {
        tool_append_element(out, value, (*next)++, true);
        return;
    }
    est_strbuf_append(out, "[");
    for (int64_t i = 0; i < shape->dim[axis]; i++) {
        est_strbuf_append(out, i > 0 ? ", " : "");
        append_lists(out, value, axis + 1, next);
    }
    est_strbuf_append(out, "]");
}

static void append_json(est_strbuf *out, const est_predictions *p)
{
    for (int i = 0; i < est_predictions_count(p); i++) {
        const char *key  = est_predictions_key(p, i);
        int64_t     next = 0;

        est_strbuf_append(out, i > 0 ? ", " : "");
        tool_append_json_text(out, key);
        est_strbuf_append(out, ": ");
        append_lists(out, est_predictions_get(p, key), 0, &next);
    }
    est_strbuf_append(out, "}\n");
}

static bool writes_json(const prediction_call *call)
{
    return call->job.json || call->format != TOOL_ROWS_CSV;
}

static est_status append_error(prediction_call *call, est_strbuf *out, const tool_row *row)
{
    if (writes_json(call)) {
        est_strbuf_append(out, "{");
        EST_TRY(append_kept_json(call, out, row, NULL));
        est_strbuf_append(out, "\"error\": ");
        tool_append_json_text(out, row->error);
        est_strbuf_append(out, "}\n");
        return EST_OK;
    }
    EST_TRY(append_kept_csv(call, out, row));
    for (int64_t i = 0; i < call->n_columns; i++) est_strbuf_append(out, ",");
    est_csv_append_field(out, (est_str){ row->error, strlen(row->error) }, ',');
    est_strbuf_append(out, "\n");
    return EST_OK;
}

/* Bad rows before the next answer. Each has a line, so that the others keep their places. In CSV they wait for the
 * header, which depends on the first answer. */
static est_status write_errors(prediction_call *call)
{
    est_strbuf      text   = { 0 };
    est_status      status = EST_OK;
    const tool_row *row;

    while ((row = tool_rows_first(&call->rows)) != NULL && row->record == NULL && status == EST_OK &&
           (writes_json(call) || call->has_header)) {
        status = append_error(call, &text, row);
        if (status == EST_OK) status = tool_write(&text);
        tool_rows_pop(&call->rows);
    }
    est_strbuf_clear(&text);
    return status;
}

/* Before the wait for the next row: writes all output of those before it. */
static est_status settle(void *user)
{
    EST_TRY(write_errors(user));
    return tool_flush();
}

static est_status write_header(prediction_call *call, const est_predictions *p)
{
    est_strbuf text = { 0 };
    est_status status;

    if (writes_json(call) || call->has_header) return EST_OK;
    status = append_header(call, &text, p);
    if (status == EST_OK) status = tool_write(&text);
    est_strbuf_clear(&text);
    return status;
}

static est_status write_answer(prediction_call *call, const est_predictions *p, est_strbuf *text, est_strbuf *cell)
{
    EST_TRY(write_header(call, p));
    EST_TRY(write_errors(call));
    if (!writes_json(call) && check_columns(call, p) != EST_OK) {
        EST_TRY(tool_rows_refuse(&call->rows));
        return write_errors(call);
    }
    if (writes_json(call)) {
        est_strbuf_append(text, "{");
        EST_TRY(append_kept_json(call, text, tool_rows_first(&call->rows), p));
        append_json(text, p);
    } else {
        EST_TRY(append_kept_csv(call, text, tool_rows_first(&call->rows)));
        append_csv(text, cell, p);
    }
    EST_TRY(tool_write(text));
    tool_rows_pop(&call->rows);
    return EST_OK;
}

static est_status write_answers(prediction_call *call, est_predictions *p)
{
    est_strbuf text = { 0 }, cell = { 0 };
    est_status status;

    while ((status = est_predictions_next(p)) == EST_OK) {
        status = tool_rows_check(&call->rows, p->n_rows);
        if (status == EST_OK && call->rows.n_open > 0) status = write_answer(call, p, &text, &cell);
        if (status != EST_OK) break;
    }
    est_strbuf_clear(&text);
    est_strbuf_clear(&cell);
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

/* Asks the model until the rows end, or it fails. */
static est_status ask(prediction_call *call)
{
    est_predictions *p     = NULL;
    est_dataset     *input = NULL;
    est_status       status;

    EST_TRY(tool_rows_dataset(&call->rows, &input));
    status = est_predictor_predict(call->predictor, input,
                                   (est_strings){ call->n_keys > 0 ? call->keys : NULL, call->n_keys }, false, &p);
    if (status == EST_OK) status = write_answers(call, p);
    est_predictions_free(p);
    est_dataset_free(input);
    return status;
}

/* The predictor of a job's checkpoint. It takes Examples, as an export of the job does. */
static est_status open_job(prediction_call *call)
{
    job_call *job     = &call->job;
    int       threads = job->job.run.config.threads;
    char      path[EST_CHECKPOINT_PATH_MAX];

    EST_TRY(job_call_checkpoint(job, path));
    call->specs  = est_parse_spec_features(job->runner.features);
    call->parses = true;
    return est_estimator_predictor(job->runner.estimator, &(est_serving_input){ .parse = call->specs }, path,
                                   EST_PREDICTOR(.threads = threads > 0 ? threads : EST_AUTO), &call->predictor);
}

/* The predictor of a SavedModel. Where it takes Examples, its graph says of which features. */
static est_status open_model(prediction_call *call)
{
    est_arena *arena = call->job.arena;

    EST_TRY(est_saved_model_load(call->job.model, NULL, &call->model));
    EST_TRY(est_predictor_create(call->model, call->signature, EST_PREDICTOR(.threads = EST_AUTO), &call->predictor));
    if (est_predictor_inputs(call->predictor).n == 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "signature %s takes no inputs, so that no row asks it anything; call it "
                        "from a program (estoc/predictor.h)",
                        call->signature != NULL ? call->signature : EST_SERVING_DEFAULT);
    }
    EST_TRY(est_predictor_features(call->predictor, arena, &call->specs));
    call->parses = call->specs.n > 0;
    if (call->parses) return EST_OK;
    return tool_rows_specs(est_predictor_inputs(call->predictor), arena, &call->specs, &call->fixed);
}

/* A misspelt key would be missing from the output. */
static est_status check_keys(const prediction_call *call)
{
    est_components outputs = est_predictor_outputs(call->predictor);
    est_strbuf     names   = { 0 };
    est_status     status  = EST_OK;

    for (int i = 0; i < call->n_keys && status == EST_OK; i++) {
        if (est_predictor_output(call->predictor, call->keys[i]) >= 0) continue;
        for (int k = 0; k < outputs.n; k++) est_strbuf_printf(&names, "%s%s", k > 0 ? ", " : "", outputs.data[k].name);
        status = est_strbuf_status(&names);
        if (status != EST_OK) break;
        status = est_fail(EST_INVALID_ARGUMENT, "--keys: there is no prediction \"%s\"; there are %s", call->keys[i],
                          est_strbuf_text(&names));
    }
    est_strbuf_clear(&names);
    return status;
}

static est_status open_rows(prediction_call *call, est_csv_options *csv)
{
    const job_call *job = &call->job;

    if (job->model == NULL) {
        *csv = job->job.data.csv.options;
        if (csv->field_names.n > 0) csv->field_names = job->job.data.csv.fields;
    }
    return tool_rows_open(&call->rows, &(tool_rows_options){ .specs       = call->specs,
                                                             .inputs      = est_predictor_inputs(call->predictor),
                                                             .parses      = call->parses,
                                                             .fixed       = call->fixed,
                                                             .runner      = job->model == NULL ? &job->runner : NULL,
                                                             .csv         = csv,
                                                             .format      = call->format,
                                                             .path        = call->input,
                                                             .keeps_text  = call->n_keep > 0,
                                                             .batch       = call->batch,
                                                             .settle      = settle,
                                                             .settle_user = call });
}

static est_status answer_rows(prediction_call *call)
{
    tool_rows *rows   = &call->rows;
    bool       again  = true;
    est_status status = check_kept(call);

    while (status == EST_OK && again) status = tool_rows_ended(rows, ask(call), &again);
    if (status == EST_OK && rows->n_bad > 0) status = write_header(call, NULL); /* where no row had an answer */
    if (status == EST_OK) status = write_errors(call);
    if (status == EST_OK && rows->failed.status != EST_OK) status = est_error_raise(&rows->failed);
    if (status == EST_OK && rows->n_bad > 0) {
        status = est_fail(EST_INVALID_ARGUMENT, "%lld of %lld rows have no prediction", (long long)rows->n_bad,
                          (long long)rows->n_rows);
    }
    est_free(call->kept);
    return status;
}

/* The rows would be gone before they are read. */
static est_status check_output(const prediction_call *call)
{
    struct stat input, output;

    if (call->output == NULL || stat(call->output, &output) != 0 || !S_ISREG(output.st_mode)) return EST_OK;
    if ((call->input != NULL ? stat(call->input, &input) : fstat(STDIN_FILENO, &input)) != 0) return EST_OK;
    if (input.st_dev != output.st_dev || input.st_ino != output.st_ino) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%s: has the rows; name another output", call->output);
}

static est_status predict(prediction_call *call)
{
    est_csv_options csv    = { .delimiter = ',' };
    est_status      status = check_output(call);

    if (status == EST_OK) status = call->job.model != NULL ? open_model(call) : open_job(call);
    if (status == EST_OK) status = check_keys(call);
    if (status == EST_OK) status = open_rows(call, &csv);
    if (status == EST_OK) {
        if (call->output != NULL) status = tool_output_to(call->output);
        if (status == EST_OK) status = answer_rows(call);
        tool_rows_close(&call->rows);
    }
    est_predictor_free(call->predictor);
    est_saved_model_free(call->model);
    return status;
}

/* Names with commas between them. */
static tool_exit take_names(prediction_call *call, const char *option, const char *value, const char **names, int *n)
{
    char *at = est_arena_printf(call->job.arena, "%s", value);

    if (at == NULL) return tool_failed(&tool_predict, est_no_memory());
    for (char *name; (name = strsep(&at, ",")) != NULL;) {
        if (name[0] == '\0') return tool_usage(&tool_predict, "%s: \"%s\" has an empty name", option, value);
        if (*n == NAMES_MAX) return tool_usage(&tool_predict, "%s takes %d names at most", option, NAMES_MAX);
        names[(*n)++] = name;
    }
    return TOOL_OK;
}

static tool_exit take_option(job_call *job, int id, const char *value)
{
    prediction_call *call = EST_CONTAINER_OF(job, prediction_call, job);
    int              format;

    switch (id) {
    case OPTION_FORMAT:
        format           = tool_option_choice(&tool_predict, OPTION_FORMAT, value);
        call->format     = format >= 0 ? (tool_row_format)format : TOOL_ROWS_CSV;
        call->has_format = true;
        return format >= 0 ? TOOL_OK : TOOL_USAGE;
    case OPTION_SIGNATURE: call->signature = value; return TOOL_OK;
    case OPTION_INPUT: call->input = value; return TOOL_OK;
    case OPTION_OUTPUT: call->output = value; return TOOL_OK;
    case 'b':
        if (!tool_count(&tool_predict, "batch", value, &call->batch)) return TOOL_USAGE;
        if (call->batch < 1 || call->batch > 1000000) return tool_usage(&tool_predict, "--batch takes 1 to 1000000");
        return TOOL_OK;
    case OPTION_KEYS: return take_names(call, "--keys", value, call->keys, &call->n_keys);
    default: return take_names(call, "--keep", value, call->keep, &call->n_keep);
    }
}

/* What the name of a file says that its rows are. */
static tool_row_format format_of(const char *path)
{
    if (path == NULL) return TOOL_ROWS_CSV;
    if (tool_has_ending(path, ".jsonl")) return TOOL_ROWS_JSON;
    return tool_has_ending(path, ".tfrecord") ? TOOL_ROWS_TFRECORD : TOOL_ROWS_CSV;
}

static tool_exit predict_job(job_call *job)
{
    prediction_call *call = EST_CONTAINER_OF(job, prediction_call, job);
    tool_exit        code = call->input != NULL ? tool_check_file(&tool_predict, call->input) : TOOL_OK;
    est_status       status;

    if (call->signature != NULL && job->model == NULL) {
        return tool_usage(&tool_predict, "--signature is for SavedModels, and the argument is a job file");
    }
    if (!call->has_format) call->format = format_of(call->input);
    if (call->n_keep > 0 && call->format == TOOL_ROWS_TFRECORD) {
        return tool_usage(&tool_predict, "--keep is for csv and jsonl, whose rows have fields");
    }
    if (code != TOOL_OK) return code;
    status = predict(call);
    return status == EST_OK ? TOOL_OK : tool_failed(&tool_predict, status);
}

static tool_exit predict_run(int argc, char **argv)
{
    prediction_call call = { .batch = 1024 };

    return job_call_run(&call.job, &tool_predict, argc, argv, JOB_NEEDS_MODEL_DIR | JOB_READS_ROWS | JOB_OR_MODEL,
                        take_option, predict_job);
}

const tool_command tool_predict = {
    .name      = "predict",
    .summary   = "predict rows with a trained model of a job file, or with a SavedModel",
    .arguments = "[options] JOB.yaml|DIR",
    .description =
        "Reads rows from standard input and writes the predictions of a model to standard output, in the same\n"
        "order. The model is the latest checkpoint of a job file's run.model_dir, or a signature of a SavedModel\n"
        "(its directory, or a directory of exports, of which the newest is taken), written by Estoc or TensorFlow.\n"
        "\n"
        "CSV has the format of data.csv: with a header, which must name every field of the features, or without one\n"
        "and with all of data.csv.fields (the label is not read and may be empty). For a SavedModel it has a header\n"
        "and commas, and an empty field of a text is \"\"; a feature of several values is not possible in CSV. JSON\n"
        "lines are objects, with a list for a feature of several values, or lists in it as its shape has them.\n"
        "NaN and infinities are \"NaN\", \"Infinity\", \"-Infinity\".\n"
        "\n"
        "The features of a SavedModel are its inputs or, where it takes serialized Examples, those that it parses. Fields that the\n"
        "model does not know are ignored; a missing field has the default of its feature.\n"
        "\n"
        "A batch that is not full is computed when the next row has not arrived, so a program that waits for every\n"
        "prediction gets it. Every row has its line in the output. A row that cannot be read, or that the model\n"
        "refuses, is reported with its line on standard error; in the output its predictions are empty, the last\n"
        "column, error, has the reason (JSON: {\"error\": ...}), and the exit code is 1. The header of a CSV output\n"
        "is written with the first prediction; bad rows before it wait for that. In CSV a row whose predictions have\n"
        "another number of elements than the first is an error.\n",
    .options  = options,
    .examples = "  estoc predict census.yaml <rows.csv >answers.csv\n"
                "  estoc predict census.yaml --keep customer <rows.csv >answers.csv\n"
                "  estoc predict census.yaml --format jsonl --batch 1 --keys probabilities,class_ids\n"
                "  estoc predict runs/census/export/best --signature predict --input rows.csv --output answers.csv\n",
    .takes    = TOOL_TAKES_FILES,
    .run      = predict_run,
};
