/* SPDX-License-Identifier: Apache-2.0
 *
 * A job's features as feature columns. Only columns that the model refers to are made. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "format/number.h"
#include "job.h"

static est_status make_feature(job_runner *r, const job_feature *f);

static const est_column *being_made[1]; /* in place of the columns of a feature whose sources are made first */

/* The columns of a feature, ending in NULL, made on first use. */
static est_status columns_of(job_runner *r, const char *name, const est_column ***out)
{
    const job_feature *f = job_find_feature(r->job, name);
    ptrdiff_t          i = f - r->job->features.data;

    if (r->made[i] == being_made) {
        return job_blame_feature(est_fail(EST_INVALID_ARGUMENT, "its sources lead back to itself"), f);
    }
    if (r->made[i] == NULL) EST_TRY(make_feature(r, f));
    *out = r->made[i];
    return EST_OK;
}

static est_status column_of(job_runner *r, const char *name, const est_column **out)
{
    const est_column **columns;

    EST_TRY(columns_of(r, name, &columns));
    *out = columns[0];
    return EST_OK;
}

/* Numbers are scaled by min and max, if the file has them, else by mean and deviation. */
static double shift_of(const job_feature *f)
{
    return f->high > f->low ? f->low : f->mean;
}

static double scale_of(const job_feature *f)
{
    return f->high > f->low ? f->high - f->low : f->stddev;
}

/* The feature outlives the column. */
static est_node normalize(est_node values, const void *user)
{
    const job_feature *f     = user;
    double             shift = shift_of(f), scale = scale_of(f);

    values = est_cast(values, EST_F32);
    if (f->log1p) values = est_log1p(values);
    if (shift != 0) values = est_sub(values, est_scalar(values.graph, EST_F32, shift));
    if (scale != 1) values = est_div(values, est_scalar(values.graph, EST_F32, scale));
    return values;
}

static est_status make_numeric(job_runner *r, const job_feature *f, const est_column **out)
{
    est_numeric_options options = f->numeric;

    if (f->log1p || shift_of(f) != 0 || scale_of(f) != 1) options.normalizer = normalize;
    options.user = f;
    *out         = est_numeric_column(r->columns, f->key, &options);
    return EST_OK;
}

static est_status make_bucketized(job_runner *r, const job_feature *f, const est_column **out)
{
    const est_column *source;

    EST_TRY(column_of(r, f->source, &source));
    *out = est_bucketized_column(source, f->boundaries);
    return EST_OK;
}

static est_status make_integer_list(job_runner *r, const job_feature *f, const est_column **out)
{
    est_tensor *values;
    int64_t    *data;
    est_status  status = EST_OK;

    EST_TRY(est_tensor_create(EST_I64, EST_SHAPE(f->values.n), &values));
    data = est_tensor_mutable_data(values);
    for (int i = 0; i < f->values.n && status == EST_OK; i++) {
        const char *text = f->values.data[i];

        if (est_number_i64(text, strlen(text), &data[i]) != EST_NUMBER_OK) {
            status = est_fail(EST_INVALID_ARGUMENT, "values has \"%s\"; the dtype int64 needs whole numbers", text);
        }
    }
    if (status == EST_OK) *out = est_vocabulary_list_column(r->columns, f->key, values, &f->categorical);
    est_tensor_free(values);
    return status;
}

static est_status make_categorical(job_runner *r, const job_feature *f, const est_column **out)
{
    if (job_type(f) == JOB_IDENTITY) {
        *out = est_identity_column(r->columns, f->key, f->buckets, &f->categorical);
    } else if (job_type(f) == JOB_HASH) {
        *out = est_hash_bucket_column(r->columns, f->key, f->buckets, &f->categorical);
    } else if (f->file != NULL) {
        *out = est_vocabulary_file_column(r->columns, f->key, f->file, &f->categorical);
    } else if (f->categorical.dtype == EST_I64) {
        return make_integer_list(r, f, out);
    } else {
        *out = est_vocabulary_strings_column(r->columns, f->key, f->values, &f->categorical);
    }
    return EST_OK;
}

/* A name that is not a feature is a field of the data; so is a hash feature, since the cross hashes its values. */
static est_status cross_source(job_runner *r, const char *name, const est_column **out)
{
    const job_feature *f = job_find_feature(r->job, name);

    if (f != NULL && job_type(f) != JOB_HASH) return column_of(r, name, out);
    *out = est_key_column(r->columns, f != NULL ? f->key : name);
    return EST_OK;
}

static est_status make_cross(job_runner *r, const job_feature *f, const est_column **out)
{
    const est_column **sources = est_arena_alloc(r->arena, (size_t)f->sources.n * sizeof *sources);

    if (sources == NULL) return est_no_memory();
    for (int i = 0; i < f->sources.n; i++) EST_TRY(cross_source(r, f->sources.data[i], &sources[i]));
    *out = est_crossed_column((est_column_list){ sources, f->sources.n }, f->buckets, (uint64_t)f->hash_key);
    return EST_OK;
}

static est_initializer make_initializer(const job_initializer *i)
{
    return i->node != NULL ? i->type->make.initializer(&i->value) : (est_initializer){ 0 };
}

static est_embedding_column_options table_options(const job_feature *f)
{
    est_embedding_column_options options = f->embedding;

    options.initializer = make_initializer(&f->initializer);
    return options;
}

static void make_dynamic(job_runner *r, const job_feature *f, const est_column **out)
{
    est_dtype           dtype   = f->categorical.dtype != 0 ? f->categorical.dtype : EST_STRING;
    est_dynamic_options options = f->dynamic;

    options.initializer = make_initializer(&f->initializer);
    *out                = est_dynamic_embedding_column(r->columns, f->key, dtype, f->dimension, &options);
}

static est_status make_shared(job_runner *r, const job_feature *f, const est_column **out)
{
    const est_column           **sources = est_arena_alloc(r->arena, (size_t)f->sources.n * sizeof *sources);
    est_embedding_column_options options = table_options(f);

    if (sources == NULL) return est_no_memory();
    for (int i = 0; i < f->sources.n; i++) EST_TRY(column_of(r, f->sources.data[i], &sources[i]));
    EST_TRY(est_columns_status(r->columns));
    est_shared_embedding_columns((est_column_list){ sources, f->sources.n }, f->dimension, &options, out);
    return EST_OK;
}

/* Those that are made of one other feature. */
static est_status make_derived(job_runner *r, const job_feature *f, const est_column **out)
{
    est_embedding_column_options options = table_options(f);
    const est_column            *source;

    EST_TRY(column_of(r, f->source, &source));
    if (job_type(f) == JOB_WEIGHTED) *out = est_weighted_column(source, f->weight);
    if (job_type(f) == JOB_INDICATOR) *out = est_indicator_column(source);
    if (job_type(f) == JOB_EMBEDDING) *out = est_embedding_column(source, f->dimension, &options);
    return EST_OK;
}

static est_status make_columns(job_runner *r, const job_feature *f, const est_column **out)
{
    switch (job_type(f)) {
    case JOB_NUMERIC: return make_numeric(r, f, out);
    case JOB_BUCKETIZED: return make_bucketized(r, f, out);
    case JOB_CROSS: return make_cross(r, f, out);
    case JOB_SHARED: return make_shared(r, f, out);
    case JOB_DYNAMIC: make_dynamic(r, f, out); return EST_OK;
    case JOB_WEIGHTED:
    case JOB_INDICATOR:
    case JOB_EMBEDDING: return make_derived(r, f, out);
    default: return make_categorical(r, f, out);
    }
}

/* The value of the longest key of a record that an error names; the record: it names none. */
static const job_node *find_named(const job_node *record, const char *error)
{
    const job_node *found = record;
    size_t          best  = 0;

    for (int i = 0; record->kind == JOB_MAP && i < record->n; i++) {
        const char *key = record->items[2 * i]->text;

        if (strlen(key) <= best || strstr(error, key) == NULL) continue;
        best  = strlen(key);
        found = record->items[2 * i + 1];
    }
    return found;
}

bool job_is_blamed(const job_node *record)
{
    return strncmp(est_error_message(), record->source, strlen(record->source)) == 0 ||
           strncmp(est_error_message(), "--set", 5) == 0;
}

est_status job_blame(est_status status, const job_node *record, const char *what)
{
    const job_node *at = find_named(record, est_error_message());

    if (job_is_blamed(record)) return status;
    if (at->line == 0) return est_fail_context(status, "%s: %s", at->source, what);
    return est_fail_context(status, "%s:%d:%d: %s", at->source, at->line, at->column, what);
}

est_status job_blame_feature(est_status status, const job_feature *f)
{
    char what[160];

    snprintf(what, sizeof what, "the feature \"%s\"", f->name);
    return job_blame(status, f->node, what);
}

/* A failure of a column names the feature of the file. */
static est_status make_feature(job_runner *r, const job_feature *f)
{
    int                n    = job_type(f) == JOB_SHARED ? f->sources.n : 1;
    const est_column **made = est_arena_alloc(r->arena, (size_t)(n + 1) * sizeof *made);
    est_status         status;

    if (made == NULL) return est_no_memory();
    r->made[f - r->job->features.data] = being_made;
    status                             = make_columns(r, f, made);
    if (status == EST_OK) status = est_columns_status(r->columns);
    if (status != EST_OK) return job_blame_feature(status, f);
    r->made[f - r->job->features.data] = made;
    return EST_OK;
}

/* The name of a column comes from its field and its type; a model takes one column of each name. */
static est_status check_name(const job_runner *r, const char *key, est_strings names, int i, const est_column *column)
{
    const job_node *list = job_map_get(r->job->model.node, key);

    for (int k = 0; k < i; k++) {
        const est_column **others = r->made[job_find_feature(r->job, names.data[k]) - r->job->features.data];

        while (*others != NULL && strcmp(est_column_name(*others), est_column_name(column)) != 0) others++;
        if (*others == NULL) continue;
        return job_blame(est_fail(EST_INVALID_ARGUMENT,
                                  "\"%s\" and \"%s\" are columns of one name, \"%s\", which comes from the field and "
                                  "the type; a model takes one of them",
                                  names.data[k], names.data[i], est_column_name(column)),
                         list->kind == JOB_LIST ? list->items[i] : list, key);
    }
    return EST_OK;
}

est_status job_make_columns(job_runner *r, const char *key, est_strings names, est_column_list *out)
{
    const est_column **list, **columns;
    int                n = 0;

    for (int i = 0; i < names.n; i++) {
        EST_TRY(columns_of(r, names.data[i], &columns));
        for (; *columns != NULL; columns++, n++) EST_TRY(check_name(r, key, names, i, *columns));
    }
    list = est_arena_alloc(r->arena, (size_t)(n + 1) * sizeof *list);
    if (list == NULL) return est_no_memory();
    *out = (est_column_list){ list, n };
    for (int i = 0; i < names.n; i++) {
        EST_TRY(columns_of(r, names.data[i], &columns));
        while (*columns != NULL) *list++ = *columns++;
    }
    return EST_OK;
}
