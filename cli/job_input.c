/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a job as datasets. In every format a model sees the rows as parsed Examples: a CSV field that may be
 * missing is a ragged feature of one value or none. So a model that was trained on CSV predicts the same in `estoc
 * predict` and when it is served, with crosses and missing values. */
#include <glob.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "estoc/input.h"
#include "estoc/tfrecord.h"
#include "job.h"

#define SHOWN_MAX 40 /* characters of a bad label in a message */

/* All files of several patterns. */
static est_dataset *open_files(est_strings patterns)
{
    est_dataset *d = est_dataset_files(patterns.data[0]);

    for (int i = 1; i < patterns.n; i++) d = est_dataset_concatenate(d, est_dataset_files(patterns.data[i]));
    return d;
}

static int64_t count_files(est_strings patterns)
{
    int64_t n = 0;

    for (int i = 0; i < patterns.n; i++) {
        glob_t matches = { 0 };

        if (glob(patterns.data[i], GLOB_BRACE, NULL, &matches) == 0) n += (int64_t)matches.gl_pathc;
        globfree(&matches);
    }
    return n;
}

/* How rows are divided between tasks. Asynchronous workers get rows: with files of different lengths the job would
 * end when the chief has read its own. Synchronous workers wait for each other, and reading only their own files is
 * faster. */
static est_auto_shard_policy shard_policy(const job_data *data, const est_input_context *context, est_strings files)
{
    if (data->autoshard != EST_AUTO_SHARD_AUTO) return data->autoshard;
    return context->num_replicas_in_sync > 1 && count_files(files) >= context->n_pipelines ? EST_AUTO_SHARD_FILE
                                                                                           : EST_AUTO_SHARD_DATA;
}

/* This worker's part. */
static est_status share(const job_data *data, const est_input_context *context, est_strings files, est_dataset **rows)
{
    est_auto_shard_policy policy = shard_policy(data, context, files);
    int64_t               n      = policy == EST_AUTO_SHARD_FILE ? count_files(files) : context->n_pipelines;

    if (n > 0 && n < context->n_pipelines) { /* opening them reports that there is none */
        est_dataset_free(*rows);
        return est_fail(EST_INVALID_ARGUMENT,
                        "data.autoshard is file, and there are %" PRId64
                        " files for %d workers, as %s; make more files, or "
                        "set data.autoshard to data",
                        n, context->n_pipelines, files.data[0]);
    }
    *rows = est_dataset_autoshard(*rows, context->n_pipelines, context->pipeline, policy);
    return EST_OK;
}

/* A TFRecord file read as lines would fail somewhere in the middle of its bytes; the first file shows it. Only a
 * regular file can be read twice. */
static est_status refuse_records(const char *pattern)
{
    est_tfrecord_reader *reader  = NULL;
    glob_t               matches = { 0 };
    struct stat          info;
    est_str              record;
    est_status           status = EST_OK;

    if (glob(pattern, GLOB_BRACE, NULL, &matches) == 0 && stat(matches.gl_pathv[0], &info) == 0 &&
        S_ISREG(info.st_mode) && est_tfrecord_open(matches.gl_pathv[0], NULL, &reader) == EST_OK &&
        est_tfrecord_next(reader, &record) == EST_OK) {
        status = est_fail(EST_INVALID_ARGUMENT, "%s is a TFRecord file; set data.format to tfrecord",
                          matches.gl_pathv[0]);
    }
    est_tfrecord_close(reader);
    globfree(&matches);
    return status;
}

static est_dataset *open_rows(const job_runner *r, est_strings patterns)
{
    const est_csv_options *csv = &r->job->data.csv.options;
    est_dataset           *d   = open_files(patterns);

    switch (r->job->data.format) {
    case JOB_FORMAT_TFRECORD: return est_dataset_tfrecords(d, NULL);
    case JOB_FORMAT_LIBSVM: return est_dataset_lines(d, NULL);
    default:
        return est_dataset_lines(d, EST_LINES(.skip = csv->header ? 1 : 0, .quoted = !csv->no_quotes,
                                              .delimiter = csv->delimiter, .trim = csv->trim));
    }
}

/* --- from CSV fields ---------------------------------------------------------------------------------------------- */

/* One number or text a row, [n], as [n, 1]. */
static est_status to_fixed(const est_tensor *field, est_field *out)
{
    int64_t n = est_tensor_count(field);

    return est_tensor_create_from(est_tensor_dtype(field), EST_SHAPE(n, 1), est_tensor_data(field), &out->values);
}

static bool is_missing(const est_tensor *field, int64_t i)
{
    const void *data = est_tensor_data(field);

    switch (est_tensor_dtype(field)) {
    case EST_STRING: return ((const est_str *)data)[i].size == 0;
    case EST_I64: return ((const int64_t *)data)[i] == -1;
    default: return false;
    }
}

/* Which component a field is; labels and weights always are one. */
static int component_of(const job_runner *r, const char *name)
{
    for (int i = 0; i < r->specs.n; i++) {
        if (strcmp(r->components[i].name, name) == 0) return i;
    }
    return -1;
}

/* Whether row i lacks a category that the weight belongs to. */
static bool is_unweighed(const job_weight *weight, const est_field *in, int64_t i)
{
    for (int k = 0; k < weight->fields.n; k++) {
        if (is_missing(in[weight->components[k]].values, i)) return true;
    }
    return false;
}

/* The same without missing values, and without their weights. */
static est_status to_ragged(const job_runner *r, const est_field *in, int component, const est_tensor *field,
                            est_field *out)
{
    const job_weight *weight = job_weight_of(r, r->components[component].name);
    size_t            size   = est_tensor_dtype(field) == EST_STRING ? sizeof(est_str)
                               : est_tensor_dtype(field) == EST_I64  ? sizeof(int64_t)
                                                                     : sizeof(float);
    const char       *from   = est_tensor_data(field);
    int64_t           n = est_tensor_count(field), kept = 0;
    int64_t          *splits;
    est_status        status;
    char             *values;

    EST_TRY(est_tensor_create(EST_I64, EST_SHAPE(n + 1), &out->splits));
    values = est_alloc((size_t)(n + 1) * size);
    if (values == NULL) return est_no_memory();
    splits    = est_tensor_mutable_data(out->splits);
    splits[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        bool missing = weight != NULL ? is_unweighed(weight, in, i) : is_missing(field, i);

        if (!missing) memcpy(values + (size_t)kept++ * size, from + (size_t)i * size, size);
        splits[i + 1] = kept;
    }
    status = est_tensor_create_from(est_tensor_dtype(field), EST_SHAPE(kept), values, &out->values);
    est_free(values);
    return status;
}

static est_str stripped(est_str text, const char *characters)
{
    while (text.size > 0 && memchr(characters, text.data[text.size - 1], strlen(characters)) != NULL) text.size--;
    return text;
}

/* Takes characters off the ends of labels. */
static est_status strip_ends(const est_tensor *field, const char *characters, est_tensor **out)
{
    int64_t        n     = est_tensor_count(field);
    const est_str *from  = est_tensor_data(field);
    est_str       *texts = est_alloc((size_t)(n + 1) * sizeof *texts);
    est_status     status;

    if (texts == NULL) return est_no_memory();
    for (int64_t i = 0; i < n; i++) texts[i] = stripped(from[i], characters);
    status = est_tensor_create_from(EST_STRING, *est_tensor_shape(field), texts, out);
    est_free(texts);
    return status;
}

static bool is_stripped(const job_runner *r, const est_component *component)
{
    const job_label *label = &r->job->data.label;

    return label->strip != NULL && strcmp(component->name, label->name) == 0;
}

static est_status from_csv(void *user, const est_field *in, est_field *out)
{
    const job_runner *r = user;

    for (int i = 0; i < r->specs.n; i++) {
        est_tensor *label = NULL;
        est_status  status;

        if (is_stripped(r, &r->components[i])) {
            EST_TRY(strip_ends(in[i].values, r->job->data.label.strip, &label));
        }
        status = r->components[i].ragged ? to_ragged(r, in, i, label != NULL ? label : in[i].values, &out[i])
                                         : to_fixed(label != NULL ? label : in[i].values, &out[i]);
        est_tensor_free(label);
        EST_TRY(status);
    }
    return EST_OK;
}

/* --- rows that are no good ---------------------------------------------------------------------------------------- */

static est_status refuse_class(const job_runner *r, double label)
{
    return est_fail(EST_INVALID_ARGUMENT, "the label is %g; expected one of %lld classes, from 0", label,
                    (long long)job_n_classes(&r->job->model));
}

static est_status check_words(const job_runner *r, const est_tensor *labels)
{
    const est_str *texts = est_tensor_data(labels);
    const char    *strip = r->job->data.label.strip;

    for (int64_t i = 0; i < est_tensor_count(labels); i++) {
        est_str word = strip != NULL ? stripped(texts[i], strip) : texts[i];

        if (est_map_get_bytes(&r->labels, word.data, word.size) != NULL) continue;
        return est_fail(EST_INVALID_ARGUMENT, "the label \"%.*s%s\" is not in data.label.vocabulary",
                        (int)(word.size < SHOWN_MAX ? word.size : SHOWN_MAX), word.data,
                        word.size > SHOWN_MAX ? "..." : "");
    }
    return EST_OK;
}

/* Labels of a classifier are among its classes. */
static est_status check_labels(const job_runner *r, const est_tensor *labels)
{
    const int64_t *ids = est_tensor_data(labels);

    if (est_tensor_dtype(labels) == EST_STRING) return check_words(r, labels);
    for (int64_t i = 0; i < est_tensor_count(labels) && est_tensor_dtype(labels) == EST_I64; i++) {
        if (ids[i] < 0 || ids[i] >= job_n_classes(&r->job->model)) return refuse_class(r, (double)ids[i]);
    }
    return EST_OK;
}

/* The graph would also find it, but not in which row. */
static est_status check_ids(const job_feature *f, const est_tensor *values)
{
    const int64_t *ids = est_tensor_data(values);

    for (int64_t i = 0; i < est_tensor_count(values); i++) {
        if (ids[i] < f->buckets) continue;
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\" is %lld, which is not in 0..%lld (features.%s.buckets)", f->key,
                        (long long)ids[i], (long long)f->buckets - 1, f->name);
    }
    return EST_OK;
}

/* An est_parse_options.check of CSV rows and Examples. */
static est_status check_rows(void *user, const est_field *rows)
{
    const job_runner *r = user;

    if (r->job->data.label.name != NULL) { /* the graph checks those of several heads */
        EST_TRY(check_labels(r, rows[component_of(r, r->job->data.label.name)].values));
    }
    for (int i = 0; i < r->n_looked_up; i++) {
        EST_TRY(check_ids(r->looked_up[i], rows[component_of(r, r->looked_up[i]->key)].values));
    }
    for (int w = 0; w < r->n_weights && r->job->data.format == JOB_FORMAT_CSV; w++) {
        const job_weight *weight  = &r->weights[w];
        const est_tensor *values  = rows[component_of(r, weight->name)].values;
        const float      *numbers = est_tensor_data(values);

        for (int64_t i = 0; i < est_tensor_count(values); i++) {
            if (!isnan(numbers[i]) || is_unweighed(weight, rows, i)) continue;
            return est_fail(EST_INVALID_ARGUMENT,
                            "\"%s\" has no weight: \"%s\" is empty or NaN; write a weight there, or remove both",
                            weight->fields.data[0], weight->name);
        }
    }
    return EST_OK;
}

static est_status is_line(void *user, const est_field *element, bool *keep)
{
    (void)user;
    *keep = ((const est_str *)est_tensor_data(element[0].values))->size > 0;
    return EST_OK;
}

static est_dataset *decode_csv(job_runner *r, est_dataset *lines, const est_parse_options *parse)
{
    /* One column alone, the label of a baseline, could be an empty field; but a label is never empty. */
    if (r->csv.n == 1) lines = est_dataset_filter(lines, is_line, NULL);
    lines = est_dataset_decode_csv(lines, r->csv, &r->job->data.csv.options, r->job->data.batch, parse);
    return est_dataset_map(lines, from_csv, EST_MAP(.user = r, .components = { r->components, r->specs.n }));
}

/* --- from Examples ------------------------------------------------------------------------------------------------ */

static est_status strip_labels(void *user, const est_field *in, est_field *out)
{
    const job_runner *r = user;

    for (int i = 0; i < r->specs.n; i++) {
        if (is_stripped(r, &r->components[i])) {
            EST_TRY(strip_ends(in[i].values, r->job->data.label.strip, &out[i].values));
        } else {
            out[i].values = est_tensor_ref(in[i].values);
        }
        out[i].splits = in[i].splits != NULL ? est_tensor_ref(in[i].splits) : NULL;
    }
    return EST_OK;
}

static est_dataset *parse_examples(job_runner *r, est_dataset *records, const est_parse_options *parse)
{
    records = est_dataset_parse_examples(records, r->specs, r->job->data.batch, parse);
    if (r->job->data.label.strip == NULL) return records;
    return est_dataset_map(records, strip_labels, EST_MAP(.user = r));
}

/* --- from libsvm -------------------------------------------------------------------------------------------------- */

/* The classes of a file with -1 and 1 are 0 and 1. */
static float class_of(const job_runner *r, float label)
{
    return label == -1 && job_n_classes(&r->job->model) == 2 ? 0 : label;
}

/* "label", "index", "value". */
static est_status label_classes(void *user, const est_field *in, est_field *out)
{
    const job_runner *r    = user;
    int64_t           n    = est_tensor_count(in[0].values);
    const float      *from = est_tensor_data(in[0].values);
    int64_t          *to;

    for (int i = 1; i < 3; i++) {
        out[i].values = est_tensor_ref(in[i].values);
        out[i].splits = est_tensor_ref(in[i].splits);
    }
    if (job_n_classes(&r->job->model) == 0) return to_fixed(in[0].values, &out[0]);
    EST_TRY(est_tensor_create(EST_I64, EST_SHAPE(n, 1), &out[0].values));
    to = est_tensor_mutable_data(out[0].values);
    for (int64_t i = 0; i < n; i++) to[i] = (int64_t)class_of(r, from[i]); /* check_libsvm has seen it */
    return EST_OK;
}

static est_status check_libsvm(void *user, const est_field *rows)
{
    const job_runner *r      = user;
    const float      *labels = est_tensor_data(rows[0].values);

    for (int64_t i = 0; i < est_tensor_count(rows[0].values) && job_n_classes(&r->job->model) > 0; i++) {
        float label = class_of(r, labels[i]);

        if (!(label >= 0 && label < (float)job_n_classes(&r->job->model)) || label != floorf(label)) {
            return refuse_class(r, (double)labels[i]);
        }
    }
    for (int i = 0; i < r->n_looked_up; i++) EST_TRY(check_ids(r->looked_up[i], rows[1].values));
    return EST_OK;
}

static est_dataset *decode_libsvm(job_runner *r, est_dataset *lines, const est_parse_options *parse)
{
    const est_component components[] = {
        { .name = "label", .dtype = job_n_classes(&r->job->model) == 0 ? EST_F32 : EST_I64, .shape = EST_SHAPE(-1, 1) },
        { .name = "index", .dtype = EST_I64, .shape = EST_SHAPE(-1), .ragged = true },
        { .name = "value", .dtype = EST_F32, .shape = EST_SHAPE(-1), .ragged = true },
    };

    lines = est_dataset_decode_libsvm(lines, r->job->data.batch, parse);
    return est_dataset_map(lines, label_classes, EST_MAP(.user = r, .components = { components, 3 }));
}

/* --- the whole chain ---------------------------------------------------------------------------------------------- */

est_status job_input(const est_input_context *context, void *user, est_dataset **out)
{
    job_runner       *r     = user;
    const job_data   *data  = &r->job->data;
    est_parse_options parse = data->parse;
    est_strings       files = context->mode == EST_TRAIN ? data->train : data->eval;
    est_dataset      *d;

    parse.workers    = EST_AUTO;
    parse.check      = data->format == JOB_FORMAT_LIBSVM ? check_libsvm : check_rows;
    parse.check_user = r;
    if (data->format != JOB_FORMAT_TFRECORD) EST_TRY(refuse_records(files.data[0]));
    d = open_rows(r, files);
    if (context->n_pipelines > 1) EST_TRY(share(data, context, files, &d));
    if (context->mode == EST_TRAIN) {
        if (data->shuffle > 1) d = est_dataset_shuffle(d, data->shuffle, context->seed);
        d = est_dataset_repeat(d, data->epochs);
    }
    switch (data->format) {
    case JOB_FORMAT_TFRECORD: d = parse_examples(r, d, &parse); break;
    case JOB_FORMAT_LIBSVM: d = decode_libsvm(r, d, &parse); break;
    default: d = decode_csv(r, d, &parse); break;
    }
    return est_dataset_finish(est_dataset_prefetch(d, 2), out);
}
