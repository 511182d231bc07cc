/* SPDX-License-Identifier: Apache-2.0
 *
 * A job's features as feature columns. Only what the model refers to is made. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "format/number.h"
#include "job.h"

static int64_t int_or_zero(int64_t value)
{
    return value != JOB_NO_INT ? value : 0;
}

static est_status make_feature(job_runner *r, const job_feature *f);

/* The columns of a feature, ending in NULL, made when they are first asked for. */
static est_status columns_of(job_runner *r, const char *name, const est_column ***out)
{
    const job_feature *f = job_find_feature(r->job, name);
    ptrdiff_t          i = f - r->job->features.data;

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

/* What is subtracted from a number, and what it is divided by then. */
static double shift_of(const job_feature *f)
{
    return isnan(f->low) ? f->mean : f->low;
}

static double scale_of(const job_feature *f)
{
    return isnan(f->low) ? f->stddev : f->high - f->low;
}

/* The feature outlives the column. */
static est_node normalize(est_node values, const void *user)
{
    const job_feature *f     = user;
    double             shift = shift_of(f), scale = scale_of(f);

    values = est_cast(values, EST_F32);
    if (f->transform == 1) values = est_log1p(values);
    if (shift != 0) values = est_sub(values, est_scalar(values.graph, EST_F32, shift));
    if (scale != 1) values = est_div(values, est_scalar(values.graph, EST_F32, scale));
    return values;
}

static est_status to_floats(job_runner *r, job_numbers numbers, float **out)
{
    *out = est_arena_alloc(r->arena, (size_t)(numbers.n + 1) * sizeof **out);
    if (*out == NULL) return est_no_memory();
    for (int i = 0; i < numbers.n; i++) (*out)[i] = (float)numbers.data[i];
    return EST_OK;
}

static est_status make_numeric(job_runner *r, const job_feature *f, const est_column **out)
{
    bool                scaled  = f->transform == 1 || shift_of(f) != 0 || scale_of(f) != 1;
    float              *numbers = NULL;
    est_numeric_options options = { .struct_size = EST_STRUCT_SIZE(est_numeric_options),
                                    .dtype       = f->dtype == 1 ? EST_I64 : EST_F32,
                                    .shape       = { .rank = f->shape.n },
                                    .normalizer  = scaled ? normalize : NULL,
                                    .user        = f };

    for (int i = 0; i < f->shape.n; i++) options.shape.dim[i] = f->shape.data[i];
    EST_TRY(to_floats(r, f->default_number, &numbers));
    options.default_value = (est_f32s){ numbers, f->default_number.n };
    *out                  = est_numeric_column(r->columns, f->key, &options);
    return EST_OK;
}

static est_status make_bucketized(job_runner *r, const job_feature *f, const est_column **out)
{
    const est_column *source;
    float            *boundaries;

    EST_TRY(column_of(r, f->source, &source));
    EST_TRY(to_floats(r, f->boundaries, &boundaries));
    *out = est_bucketized_column(source, (est_f32s){ boundaries, f->boundaries.n });
    return EST_OK;
}

static est_status make_integer_list(job_runner *r, const job_feature *f, const est_categorical_options *options,
                                    const est_column **out)
{
    est_tensor *values;
    int64_t    *data;

    EST_TRY(est_tensor_create(EST_I64, EST_SHAPE(f->values.n), &values));
    data = est_tensor_mutable_data(values);
    for (int i = 0; i < f->values.n; i++) {
        (void)est_number_i64(f->values.data[i], strlen(f->values.data[i]), &data[i]); /* job_check has seen to it */
    }
    *out = est_vocabulary_list_column(r->columns, f->key, values, options);
    est_tensor_free(values);
    return EST_OK;
}

static est_status make_categorical(job_runner *r, const job_feature *f, const est_column **out)
{
    est_categorical_options options = { .struct_size     = EST_STRUCT_SIZE(est_categorical_options),
                                        .dtype           = f->dtype == 1 ? EST_I64 : 0,
                                        .has_default     = f->default_id != JOB_NO_INT,
                                        .default_value   = int_or_zero(f->default_id),
                                        .num_oov_buckets = int_or_zero(f->oov_buckets),
                                        .vocabulary_size = int_or_zero(f->size) };

    if (f->type == JOB_IDENTITY) {
        *out = est_identity_column(r->columns, f->key, f->buckets, &options);
    } else if (f->type == JOB_HASH) {
        *out = est_hash_bucket_column(r->columns, f->key, f->buckets, &options);
    } else if (f->file != NULL) {
        *out = est_vocabulary_file_column(r->columns, f->key, f->file, &options);
    } else if (f->dtype == 1) {
        return make_integer_list(r, f, &options, out);
    } else {
        *out = est_vocabulary_strings_column(r->columns, f->key, (est_strings){ f->values.data, f->values.n },
                                             &options);
    }
    return EST_OK;
}

/* A name that is no feature is a field of the data; so is what is hashed, for it is hashed by the cross. */
static est_status cross_source(job_runner *r, const char *name, const est_column **out)
{
    const job_feature *f = job_find_feature(r->job, name);

    if (f != NULL && f->type != JOB_HASH) return column_of(r, name, out);
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

est_combiner job_combiner(int choice)
{
    static const est_combiner combiners[] = { EST_COMBINE_MEAN, EST_COMBINE_SUM, EST_COMBINE_SQRTN };

    return combiners[choice];
}

static est_initializer make_initializer(const job_initializer *i)
{
    uint64_t seed = (uint64_t)int_or_zero(i->seed);

    if (i->node == NULL) return (est_initializer){ 0 };
    switch (i->type) {
    case JOB_INIT_ZEROS: return est_init_zeros();
    case JOB_INIT_ONES: return est_init_ones();
    case JOB_INIT_CONSTANT: return est_init_constant(i->value);
    case JOB_INIT_UNIFORM: return est_init_random_uniform(i->low, i->high, seed);
    case JOB_INIT_NORMAL: return est_init_random_normal(i->mean, i->stddev, seed);
    case JOB_INIT_TRUNCATED_NORMAL: return est_init_truncated_normal(i->mean, i->stddev, seed);
    case JOB_INIT_GLOROT_UNIFORM: return est_init_glorot_uniform(seed);
    case JOB_INIT_GLOROT_NORMAL: return est_init_glorot_normal(seed);
    case JOB_INIT_HE_UNIFORM: return est_init_he_uniform(seed);
    case JOB_INIT_HE_NORMAL: return est_init_he_normal(seed);
    case JOB_INIT_LECUN_UNIFORM: return est_init_lecun_uniform(seed);
    default: return est_init_lecun_normal(seed);
    }
}

static est_embedding_column_options table_options(const job_feature *f)
{
    return (est_embedding_column_options){ .struct_size     = EST_STRUCT_SIZE(est_embedding_column_options),
                                           .combiner        = job_combiner(f->combiner),
                                           .initializer     = make_initializer(&f->initializer),
                                           .checkpoint      = f->checkpoint,
                                           .tensor_name     = f->tensor_name,
                                           .max_norm        = isnan(f->max_norm) ? 0 : f->max_norm,
                                           .frozen          = f->frozen,
                                           .collection_name = f->collection_name };
}

static void make_dynamic(job_runner *r, const job_feature *f, const est_column **out)
{
    *out = est_dynamic_embedding_column(
        r->columns, f->key, f->dtype == 1 ? EST_I64 : EST_STRING, f->dimension,
        EST_DYNAMIC(.combiner = job_combiner(f->combiner), .initializer = make_initializer(&f->initializer),
                    .admit_after = f->admit_after, .max_rows = f->max_rows, .max_age = int_or_zero(f->max_age)));
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
    est_embedding_column_options options = f->type == JOB_EMBEDDING ? table_options(f)
                                                                    : (est_embedding_column_options){ 0 };
    const est_column            *source;

    EST_TRY(column_of(r, f->source, &source));
    if (f->type == JOB_WEIGHTED) *out = est_weighted_column(source, f->weight);
    if (f->type == JOB_INDICATOR) *out = est_indicator_column(source);
    if (f->type == JOB_EMBEDDING) *out = est_embedding_column(source, f->dimension, &options);
    return EST_OK;
}

static est_status make_columns(job_runner *r, const job_feature *f, const est_column **out)
{
    switch (f->type) {
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

est_status job_blame(est_status status, const job_node *at, const char *what)
{
    if (at->line == 0) return est_fail_context(status, "%s: %s", at->source, what);
    return est_fail_context(status, "%s:%d:%d: %s", at->source, at->line, at->column, what);
}

est_status job_blame_feature(est_status status, const job_feature *f)
{
    char what[160];

    snprintf(what, sizeof what, "the feature \"%s\"", f->name);
    return job_blame(status, f->node, what);
}

/* A failure of a column says for which feature of the file. */
static est_status make_feature(job_runner *r, const job_feature *f)
{
    int                n    = f->type == JOB_SHARED ? f->sources.n : 1;
    const est_column **made = est_arena_alloc(r->arena, (size_t)(n + 1) * sizeof *made);
    est_status         status;

    if (made == NULL) return est_no_memory();
    status = make_columns(r, f, made);
    if (status == EST_OK) status = est_columns_status(r->columns);
    if (status != EST_OK) return job_blame_feature(status, f);
    r->made[f - r->job->features.data] = made;
    return EST_OK;
}

est_status job_make_columns(job_runner *r, job_texts names, est_column_list *out)
{
    const est_column **list, **columns;
    int                n = 0;

    for (int i = 0; i < names.n; i++) {
        EST_TRY(columns_of(r, names.data[i], &columns));
        while (*columns++ != NULL) n++;
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
