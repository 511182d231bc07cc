/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold between the parts of a job: features that refer to each other, keys that exclude each other, fields of
 * the data that must be there. The first errors of columns are found here, so that they have a place in the file. */
#include <math.h>
#include <string.h>

#include "format/number.h"
#include "job.h"

#define NAMES_MAX 256 /* that are compared for a suggestion */

typedef struct checker {
    const job_spec *job;
    job_errors     *errors;
} checker;

/* Where a key stands; the record itself when it is not given. */
static const job_node *at_key(const job_node *node, const char *key)
{
    const job_node *value = job_map_get(node, key);

    return value != NULL ? value : node;
}

/* The same for an entry of a list. */
static const job_node *at_item(const job_node *node, const char *key, int i)
{
    const job_node *value = at_key(node, key);

    return value->kind == JOB_LIST && i < value->n ? value->items[i] : value;
}

job_feature *job_find_feature(const job_spec *job, const char *name)
{
    for (int i = 0; i < job->features.n; i++) {
        if (strcmp(job->features.data[i].name, name) == 0) return &job->features.data[i];
    }
    return NULL;
}

bool job_is_baseline(const job_model *model)
{
    return model->type == JOB_BASELINE_CLASSIFIER || model->type == JOB_BASELINE_REGRESSOR ||
           model->type == JOB_BASELINE_ESTIMATOR;
}

static bool is_estimator(const job_model *m)
{
    return m->type >= JOB_DNN_ESTIMATOR;
}

int64_t job_n_classes(const job_model *model)
{
    if (!is_estimator(model)) return model->n_classes;
    return model->head.type == JOB_BINARY ? 2 : model->head.n_classes;
}

const char *job_feature_type_text(const job_feature *feature)
{
    static const char *const texts[] = { "numeric",  "bucketized", "identity",  "hash",   "vocabulary", "cross",
                                         "weighted", "indicator",  "embedding", "shared", "dynamic" };

    return texts[feature->type];
}

/* --- references ------------------------------------------------------------------------------------------------------- */

static const job_feature *find(checker *c, const job_node *at, const char *name)
{
    const job_feature *found = job_find_feature(c->job, name);
    const char        *names[NAMES_MAX];
    int                n = c->job->features.n < NAMES_MAX ? c->job->features.n : NAMES_MAX;

    for (int i = 0; i < n; i++) names[i] = c->job->features.data[i].name;
    if (found == NULL && strchr(name, ',') != NULL) {
        job_error(c->errors, at, "there is no feature \"%s\"; a list is written [%s]", name, name);
    } else if (found == NULL) {
        job_error(c->errors, at, "there is no feature \"%s\"%s", name, job_suggestion(name, names, (size_t)n));
    }
    return found;
}

static bool is_dense(const job_feature *f)
{
    return f->type == JOB_NUMERIC || f->type == JOB_BUCKETIZED || f->type >= JOB_INDICATOR;
}

static bool is_categorical(const job_feature *f)
{
    return f->type >= JOB_IDENTITY && f->type <= JOB_CROSS;
}

/* The columns of a model, or of a part of it. deep: they must be dense. */
static void check_columns(checker *c, const char *key, job_texts columns, bool deep)
{
    const job_node *model = c->job->model.node;

    for (int i = 0; i < columns.n; i++) {
        const job_node    *at = at_item(model, key, i);
        const job_feature *f  = find(c, at, columns.data[i]);

        if (f != NULL && deep && !is_dense(f)) {
            job_error(
                c->errors, at,
                "\"%s\" is of the type %s, which a dnn cannot take as it is; make an indicator or an embedding of it",
                f->name, job_feature_type_text(f));
        }
        for (int j = 0; j < i; j++) {
            if (strcmp(columns.data[i], columns.data[j]) == 0) {
                job_error(c->errors, at, "\"%s\" is in %s twice", columns.data[i], key);
                break;
            }
        }
    }
}

/* What a feature is made of: one that fits. */
static void check_source(checker *c, const job_feature *f)
{
    const job_node    *at     = at_key(f->node, "source");
    const job_feature *source = find(c, at, f->source);

    if (source == NULL) return;
    if (f->type == JOB_BUCKETIZED) {
        if (source->type == JOB_NUMERIC) return;
        job_error(c->errors, at, "\"%s\" is of the type %s; what is bucketized must be numeric", source->name,
                  job_feature_type_text(source));
    } else if (!is_categorical(source) && source->type != JOB_BUCKETIZED &&
               (source->type != JOB_WEIGHTED || f->type == JOB_WEIGHTED)) {
        job_error(c->errors, at, "\"%s\" is of the type %s; the source of %s must be of categories", source->name,
                  job_feature_type_text(source), job_feature_type_text(f));
    } else if (f->type == JOB_WEIGHTED && source->type == JOB_BUCKETIZED) {
        job_error(c->errors, at, "\"%s\" is bucketized, which has no weights", source->name);
    }
}

/* A cross may be of crosses, but not in the end of itself. */
static void find_cycles(checker *c, job_feature *f)
{
    f->visit = 1;
    for (int i = 0; i < f->sources.n; i++) {
        job_feature *source = job_find_feature(c->job, f->sources.data[i]);

        if (source == NULL || source->type != JOB_CROSS) continue;
        if (source->visit == 1) {
            job_error(c->errors, at_item(f->node, "sources", i), "\"%s\" is made of itself", source->name);
        } else if (source->visit == 0) {
            find_cycles(c, source);
        }
    }
    f->visit = 2;
}

static void check_sources(checker *c, const job_feature *f)
{
    if (f->sources.n < 2) {
        job_error(c->errors, at_key(f->node, "sources"), "a feature of the type %s needs two sources or more",
                  job_feature_type_text(f));
    }
    for (int i = 0; i < f->sources.n; i++) {
        const job_node    *at     = at_item(f->node, "sources", i);
        const job_feature *source = f->type == JOB_CROSS ? job_find_feature(c->job, f->sources.data[i])
                                                         : find(c, at, f->sources.data[i]);

        if (source == NULL) continue;
        if (!is_categorical(source) && (f->type != JOB_CROSS || source->type != JOB_BUCKETIZED)) {
            job_error(c->errors, at, "\"%s\" is of the type %s%s", source->name, job_feature_type_text(source),
                      f->type == JOB_CROSS ? ", which cannot be crossed" : ", which cannot share an embedding");
        }
    }
}

/* --- names ------------------------------------------------------------------------------------------------------------ */

static bool is_same_column(const checker *c, const job_feature *a, const job_feature *b);

/* The same of what features are made of; what is crossed may be a field of the data. */
static bool is_same_source(const checker *c, const char *a, const char *b)
{
    const job_feature *fa = job_find_feature(c->job, a), *fb = job_find_feature(c->job, b);

    return fa != NULL && fb != NULL ? is_same_column(c, fa, fb) : fa == fb && strcmp(a, b) == 0;
}

/* How many of the sources of one are among those of the other. */
static int count_same(const checker *c, const job_feature *a, const job_feature *b)
{
    int n = 0;

    for (int i = 0; i < a->sources.n; i++) {
        for (int j = 0; j < b->sources.n; j++) {
            if (!is_same_source(c, a->sources.data[i], b->sources.data[j])) continue;
            n++;
            break;
        }
    }
    return n;
}

static bool is_named_by_field(const job_feature *f)
{
    return f->type == JOB_NUMERIC || (is_categorical(f) && f->type != JOB_CROSS);
}

/* Whether TensorFlow has one name for the columns of two features, which a model then cannot tell apart: it knows what is made
 * of which field, but not how. Sources are known to be there, and not to go round in circles. */
static bool is_same_column(const checker *c, const job_feature *a, const job_feature *b)
{
    if (is_named_by_field(a) && is_named_by_field(b)) return strcmp(a->key, b->key) == 0;
    if (a->type != b->type) return false;
    if (a->type == JOB_DYNAMIC) return strcmp(a->key, b->key) == 0;
    if (a->type == JOB_SHARED) return count_same(c, a, b) > 0;
    if (a->type == JOB_CROSS) return count_same(c, a, b) == a->sources.n && count_same(c, b, a) == b->sources.n;
    return is_same_source(c, a->source, b->source) && (a->type != JOB_WEIGHTED || strcmp(a->weight, b->weight) == 0);
}

static void check_names(checker *c, const char *key, job_texts columns)
{
    for (int i = 0; i < columns.n; i++) {
        for (int j = 0; j < i; j++) {
            if (!is_same_source(c, columns.data[i], columns.data[j])) continue;
            job_error(c->errors, at_item(c->job->model.node, key, i),
                      "\"%s\" and \"%s\" are columns of one name, which comes from the field and the type; a model "
                      "takes one of them",
                      columns.data[j], columns.data[i]);
            break;
        }
    }
}

/* --- features --------------------------------------------------------------------------------------------------------- */

static void check_scale(checker *c, const job_feature *f)
{
    bool low = !isnan(f->low), high = !isnan(f->high);

    if (low != high) {
        job_error(c->errors, at_key(f->node, low ? "min" : "max"), "\"min\" and \"max\" go together");
    } else if (low && !(f->high > f->low)) {
        job_error(c->errors, at_key(f->node, "max"), "max is %g, and must be more than min, %g", f->high, f->low);
    } else if (low && (f->mean != 0 || f->stddev != 1)) {
        job_error(c->errors, at_key(f->node, "min"),
                  "numbers are scaled by min and max or by mean and stddev, not both");
    }
}

static void check_numeric(checker *c, const job_feature *f)
{
    int64_t n = 1;

    check_scale(c, f);
    if (f->dtype == 2) job_error(c->errors, at_key(f->node, "dtype"), "a numeric feature is of float32 or int64");
    for (int i = 0; i < f->shape.n && n < ((int64_t)1 << 31); i++) n *= f->shape.data[i];
    if (f->shape.n > EST_RANK_MAX - 1 || n >= ((int64_t)1 << 31)) {
        job_error(c->errors, at_key(f->node, "shape"), "the shape is too large");
    } else if (n != 1 && c->job->data.format == JOB_FORMAT_CSV) {
        job_error(c->errors, at_key(f->node, "shape"), "a field of a CSV file holds one number, not %lld",
                  (long long)n);
    } else if (f->default_number.n > 1 && f->default_number.n != n) {
        job_error(c->errors, at_key(f->node, "default"), "%d defaults for %lld numbers; give one, or one for each",
                  f->default_number.n, (long long)n);
    }
}

static void check_bucketized(checker *c, const job_feature *f)
{
    const job_feature *source = job_find_feature(c->job, f->source);

    for (int i = 1; i < f->boundaries.n; i++) {
        if ((float)f->boundaries.data[i] > (float)f->boundaries.data[i - 1]) continue;
        job_error(c->errors, at_item(f->node, "boundaries", i), "boundaries must ascend, and %g follows %g",
                  f->boundaries.data[i], f->boundaries.data[i - 1]);
        break;
    }
    if (source != NULL && source->shape.n > 1) {
        job_error(c->errors, at_key(f->node, "source"), "\"%s\" has more than one dimension", source->name);
    }
}

static est_status check_values(checker *c, const job_feature *f)
{
    est_map    seen   = { 0 };
    est_status status = EST_OK;

    for (int i = 0; i < f->values.n && status == EST_OK; i++) {
        const char *value = f->values.data[i];
        int64_t     number;

        if (est_map_get(&seen, value) != NULL) {
            job_error(c->errors, at_item(f->node, "values", i), "\"%s\" is in the vocabulary twice", value);
        }
        if (f->dtype == 1 && est_number_i64(value, strlen(value), &number) != EST_NUMBER_OK) {
            job_error(c->errors, at_item(f->node, "values", i), "\"%s\" is no whole number", value);
        }
        status = est_map_put(&seen, value, c);
    }
    est_map_clear(&seen);
    return status;
}

static est_status check_vocabulary(checker *c, const job_feature *f)
{
    if ((f->values.data != NULL) == (f->file != NULL)) {
        job_error(c->errors, at_key(f->node, f->file != NULL ? "file" : "values"),
                  "a vocabulary has either values or a file");
    }
    if (f->size != JOB_NO_INT && f->file == NULL) {
        job_error(c->errors, at_key(f->node, "size"), "\"size\" is for a vocabulary with a file");
    }
    if (f->oov_buckets > 0 && f->default_id != JOB_NO_INT) {
        job_error(c->errors, at_key(f->node, "default_id"), "not both oov_buckets and default_id");
    }
    if (f->dtype == 0) job_error(c->errors, at_key(f->node, "dtype"), "a vocabulary is of string or int64");
    return check_values(c, f);
}

static est_status check_feature(checker *c, const job_feature *f)
{
    if (f->source != NULL) check_source(c, f);
    if (f->sources.data != NULL) check_sources(c, f);
    if (f->type == JOB_NUMERIC) check_numeric(c, f);
    if (f->type == JOB_BUCKETIZED) check_bucketized(c, f);
    if ((f->type == JOB_HASH || f->type == JOB_DYNAMIC) && f->dtype == 0) {
        job_error(c->errors, at_key(f->node, "dtype"), "what is hashed is of string or int64");
    }
    if (f->type == JOB_IDENTITY && f->default_id != JOB_NO_INT && f->default_id >= f->buckets) {
        job_error(c->errors, at_key(f->node, "default_id"), "the default is none of the %lld buckets",
                  (long long)f->buckets);
    }
    if ((f->checkpoint == NULL) != (f->tensor_name == NULL)) {
        job_error(c->errors, at_key(f->node, f->checkpoint != NULL ? "checkpoint" : "tensor_name"),
                  "\"checkpoint\" and \"tensor_name\" go together");
    }
    return f->type == JOB_VOCABULARY ? check_vocabulary(c, f) : EST_OK;
}

/* --- model ------------------------------------------------------------------------------------------------------------ */

static void check_rate(checker *c, const job_rate *rate)
{
    if (rate->node == NULL || rate->type != JOB_PIECEWISE) return;
    if (rate->values.n != rate->boundaries.n + 1) {
        job_error(c->errors, at_key(rate->node, "values"), "%d boundaries need %d values, and there are %d",
                  rate->boundaries.n, rate->boundaries.n + 1, rate->values.n);
    }
    for (int i = 1; i < rate->boundaries.n; i++) {
        if (rate->boundaries.data[i] > rate->boundaries.data[i - 1]) continue;
        job_error(c->errors, at_item(rate->node, "boundaries", i), "boundaries must ascend, and %lld follows %lld",
                  (long long)rate->boundaries.data[i], (long long)rate->boundaries.data[i - 1]);
        break;
    }
}

static void check_optimizer(checker *c, const job_optimizer *o)
{
    const double others[] = { o->initial_accumulator,
                              o->learning_rate_power,
                              o->l1,
                              o->l2,
                              o->l2_shrinkage,
                              o->beta,
                              o->beta1,
                              o->beta2,
                              o->epsilon,
                              o->decay,
                              o->momentum };
    bool         any      = o->nesterov || o->centered || o->name >= JOB_MOMENTUM;

    if (o->node == NULL) return;
    check_rate(c, &o->learning_rate);
    if (o->learning_rate_power > 0) {
        job_error(c->errors, at_key(o->node, "learning_rate_power"), "\"learning_rate_power\" is 0 or less");
    }
    if (o->learning_rate.node != NULL) return;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) any = any || !isnan(others[i]);
    if (any) {
        job_error(c->errors, o->node,
                  "this optimizer needs a \"learning_rate\"; models have their own for a plain Adagrad, "
                  "Adam, Ftrl, RMSProp or SGD only");
    }
}

/* Some optimizers change all rows of a table in every step, also those of keys that were not seen, which a dynamic one cannot
 * have. */
static void check_dynamic(checker *c, job_texts columns, const job_optimizer *o)
{
    bool adam = o->name == JOB_ADAM;
    bool rms  = o->name == JOB_RMS_PROP && !c->job->model.v1 && (isnan(o->momentum) || o->momentum == 0);

    if (o->node == NULL || (!adam && !rms)) return;
    for (int i = 0; i < columns.n; i++) {
        const job_feature *f = job_find_feature(c->job, columns.data[i]);

        if (f == NULL || f->type != JOB_DYNAMIC) continue;
        job_error(c->errors, o->node, "this changes all rows of a table in every step, and \"%s\" is dynamic; write %s",
                  f->name, adam ? "name: LazyAdam" : "a momentum, as momentum: 0.9, or another name, as LazyAdam");
        return;
    }
}

/* Heads that share a model tell each other apart by their names. */
static void check_heads(checker *c, const job_head *head)
{
    for (int i = 0; i < head->heads.n; i++) {
        const job_head *part = &head->heads.data[i];

        if (part->type == JOB_MULTI) job_error(c->errors, at_key(part->node, "type"), "a part of a head has no parts");
        for (int j = 0; j < i; j++) {
            if (strcmp(part->name, head->heads.data[j].name) == 0) {
                job_error(c->errors, at_key(part->node, "name"), "there are two heads \"%s\"", part->name);
                break;
            }
        }
    }
    if (head->type == JOB_MULTI && c->job->data.weight != NULL) {
        job_error(c->errors, at_key(c->job->data.node, "weight"), "a model of several heads takes no weights of rows");
    }
}

static void check_model(checker *c)
{
    const job_model *m = &c->job->model;
    bool deep          = m->type == JOB_DNN_CLASSIFIER || m->type == JOB_DNN_REGRESSOR || m->type == JOB_DNN_ESTIMATOR;
    bool combined      = m->type == JOB_COMBINED_CLASSIFIER || m->type == JOB_COMBINED_REGRESSOR ||
                    m->type == JOB_COMBINED_ESTIMATOR;

    check_columns(c, "columns", m->columns, deep);
    check_columns(c, "dnn_columns", m->dnn_columns, true);
    check_columns(c, "linear_columns", m->linear_columns, false);
    if (combined && m->dnn_columns.n == 0 && m->linear_columns.n == 0) {
        job_error(c->errors, m->node, "a combined model needs \"linear_columns\", \"dnn_columns\" or both");
    }
    if (combined && (m->dnn_columns.n == 0) != (m->hidden_units.n == 0)) {
        job_error(c->errors, at_key(m->node, m->dnn_columns.n == 0 ? "hidden_units" : "dnn_columns"),
                  "\"dnn_columns\" and \"hidden_units\" go together");
    }
    if (is_estimator(m)) check_heads(c, &m->head);
    check_optimizer(c, &m->optimizer);
    check_optimizer(c, &m->dnn_optimizer);
    check_optimizer(c, &m->linear_optimizer);
    check_dynamic(c, m->columns, &m->optimizer);
    check_dynamic(c, m->dnn_columns, &m->dnn_optimizer);
    check_dynamic(c, m->linear_columns, &m->linear_optimizer);
}

/* --- data ------------------------------------------------------------------------------------------------------------- */

/* The fields of CSV files are known when the job lists them. */
static void check_field(checker *c, const job_node *at, const char *name)
{
    job_texts fields = c->job->data.csv.fields;

    if (name == NULL || fields.data == NULL || c->job->data.format != JOB_FORMAT_CSV) return;
    for (int i = 0; i < fields.n; i++) {
        if (strcmp(fields.data[i], name) == 0) return;
    }
    job_error(c->errors, at, "\"%s\" is none of the fields in data.csv%s", name,
              job_suggestion(name, fields.data, (size_t)(fields.n < NAMES_MAX ? fields.n : NAMES_MAX)));
}

static bool has_key(const job_feature *f)
{
    return f->type == JOB_NUMERIC || f->type == JOB_DYNAMIC || (f->type >= JOB_IDENTITY && f->type <= JOB_VOCABULARY);
}

static void check_fields(checker *c)
{
    const job_data *d = &c->job->data;

    check_field(c, at_key(d->node, "weight"), d->weight);
    for (int i = 0; i < c->job->features.n; i++) {
        const job_feature *f = &c->job->features.data[i];

        if (has_key(f)) check_field(c, at_key(f->node, "key"), f->key);
        check_field(c, at_key(f->node, "weight"), f->weight);
        for (int j = 0; j < f->sources.n && f->type == JOB_CROSS; j++) {
            if (job_find_feature(c->job, f->sources.data[j]) == NULL) {
                check_field(c, at_item(f->node, "sources", j), f->sources.data[j]);
            }
        }
    }
}

static void check_libsvm_label(checker *c)
{
    const job_label *label = &c->job->data.label;
    const job_model *m     = &c->job->model;

    if (is_estimator(m) && m->head.type == JOB_MULTI_LABEL) {
        job_error(c->errors, at_key(m->node, "head"), "a row of libsvm files has one label");
    }
    if (strcmp(label->name, "label") != 0) {
        job_error(c->errors, at_key(label->node, "name"), "the label of libsvm files is called \"label\"");
    }
    if (label->vocabulary.data != NULL) {
        job_error(c->errors, at_key(label->node, "vocabulary"), "labels of libsvm files are numbers");
    }
}

/* A model of several heads has its labels there. */
static void check_multi_label(checker *c)
{
    const job_head *head = &c->job->model.head;

    if (c->job->data.label.node != NULL) {
        job_error(c->errors, c->job->data.label.node, "each of model.head.heads has a label of its own");
    }
    if (c->job->data.format == JOB_FORMAT_LIBSVM) {
        job_error(c->errors, at_key(c->job->data.node, "format"), "a row of libsvm files has one label");
    }
    for (int i = 0; i < head->heads.n; i++) {
        const job_head *part = &head->heads.data[i];

        check_field(c, at_key(part->node, "label"), part->label);
        if (part->label_dimension > 1 && c->job->data.format != JOB_FORMAT_TFRECORD) {
            job_error(c->errors, at_key(part->node, "label_dimension"),
                      "labels of more than one number need the format tfrecord");
        }
    }
}

static void check_label(checker *c)
{
    const job_label *label     = &c->job->data.label;
    const job_model *m         = &c->job->model;
    int64_t          n_classes = job_n_classes(m);
    int64_t          dimension = is_estimator(m) ? m->head.label_dimension : m->label_dimension;

    if (label->node == NULL) {
        job_error(c->errors, c->job->data.node, "data needs \"label\": what is learnt; its name alone will do");
        return;
    }
    if (label->vocabulary.data != NULL && n_classes == JOB_NO_INT) {
        job_error(c->errors, at_key(label->node, "vocabulary"), "labels of a regressor are numbers, not words");
    } else if (label->vocabulary.data != NULL && label->vocabulary.n != n_classes) {
        job_error(c->errors, at_key(label->node, "vocabulary"), "%d labels for %lld classes (%s)", label->vocabulary.n,
                  (long long)n_classes, is_estimator(m) ? "model.head" : "model.n_classes");
    }
    if (dimension > 1 && c->job->data.format != JOB_FORMAT_TFRECORD) {
        job_error(c->errors, at_key(is_estimator(m) ? m->head.node : m->node, "label_dimension"),
                  "labels of more than one number need the format tfrecord");
    }
    if (label->strip != NULL && label->vocabulary.data == NULL) {
        job_error(c->errors, at_key(label->node, "strip"), "\"strip\" is for labels with a vocabulary");
    }
    if (c->job->data.format == JOB_FORMAT_LIBSVM) check_libsvm_label(c);
    check_field(c, at_key(label->node, "name"), label->name);
}

static void check_data(checker *c)
{
    const job_data *d = &c->job->data;

    if (is_estimator(&c->job->model) && c->job->model.head.type == JOB_MULTI) {
        check_multi_label(c);
    } else {
        check_label(c);
    }
    check_fields(c);
    if (d->format != JOB_FORMAT_CSV && d->csv.fields.data != NULL) {
        job_error(c->errors, at_key(d->csv.node, "fields"), "\"fields\" is for the format csv");
    }
    if (d->csv.header && d->csv.fields.data != NULL) {
        job_error(c->errors, at_key(d->csv.node, "header"), "either the files have a header, or \"fields\" names them");
    }
    if (!d->csv.header && d->csv.fields.data == NULL) {
        job_error(c->errors, at_key(d->csv.node, "header"), "header: false needs csv.fields, the names of all fields");
    }
    if (strlen(d->csv.delimiter) != 1) {
        job_error(c->errors, at_key(d->csv.node, "delimiter"), "the delimiter is one character of ASCII, not \"%s\"",
                  d->csv.delimiter);
    }
    if (d->weight != NULL && d->format == JOB_FORMAT_LIBSVM) {
        job_error(c->errors, at_key(d->node, "weight"), "libsvm files have no weights of rows");
    }
}

/* --- the rest --------------------------------------------------------------------------------------------------------- */

static bool is_file_name(const char *name)
{
    return strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static void check_stops(checker *c)
{
    for (int i = 0; i < c->job->train.early_stopping.n; i++) {
        const job_stop *stop = &c->job->train.early_stopping.data[i];

        if (stop->run_every_steps != JOB_NO_INT && !isnan(stop->run_every_secs)) {
            job_error(c->errors, at_key(stop->node, "run_every_secs"),
                      "results are looked at by steps or by time, not both");
        }
        if (c->job->data.eval.data == NULL) {
            job_error(c->errors, stop->node, "early stops go by evaluations, and data.eval is not given");
        }
    }
}

static void check_warm_start(checker *c)
{
    const job_warm_start *w = &c->job->warm_start;

    if (w->node != NULL && w->only_vocabularies && w->vocabularies.n == 0) {
        job_error(c->errors, at_key(w->node, "only_vocabularies"), "there are no \"vocabularies\"");
    }
    if (w->node != NULL && w->only_vocabularies && (w->all || strcmp(w->variables, ".*") != 0)) {
        job_error(c->errors, at_key(w->node, "only_vocabularies"), "not together with \"variables\" or \"all\"");
    }
}

static void check_run(checker *c)
{
    const job_run *r = &c->job->run;

    if (r->save_checkpoints_steps > 0 && r->save_checkpoints_secs > 0) {
        job_error(c->errors, at_key(r->node, "save_checkpoints_secs"),
                  "checkpoints are saved by steps or by time, not both");
    }
    if (r->strategy.node != NULL && r->strategy.sync_replicas > 0 && r->strategy.max_staleness > 0) {
        job_error(c->errors, at_key(r->strategy.node, "max_staleness"),
                  "steps that are made together (sync_replicas) are never stale");
    }
    if (r->eval_strategy.node != NULL && r->eval_strategy.name == JOB_PARAMETER_SERVER) {
        job_error(c->errors, at_key(r->eval_strategy.node, "name"),
                  "evaluations need no ps tasks; name another strategy, or leave out \"eval_strategy\"");
    }
    if (c->job->eval.name != NULL && !is_file_name(c->job->eval.name)) {
        job_error(c->errors, at_key(c->job->eval.node, "name"), "\"%s\" cannot be part of a directory's name",
                  c->job->eval.name);
    }
    for (int i = 0; i < c->job->exports.n; i++) {
        const job_export *e = &c->job->exports.data[i];

        if (!is_file_name(e->name)) {
            job_error(c->errors, at_key(e->node, "name"), "\"%s\" cannot be the name of a directory", e->name);
        }
        for (int j = 0; j < i; j++) {
            if (strcmp(e->name, c->job->exports.data[j].name) == 0) {
                job_error(c->errors, at_key(e->node, "name"), "there are two exports \"%s\"", e->name);
                break;
            }
        }
    }
    if (c->job->exports.n > 0 && c->job->data.eval.data == NULL) {
        job_error(c->errors, c->job->exports.data[0].node,
                  "exports are made after evaluations, and data.eval is not given; `estoc export` makes one by hand");
    }
}

est_status job_check(job_spec *job, job_errors *errors)
{
    checker c      = { job, errors };
    int     before = errors->n;

    for (int i = 0; i < job->features.n; i++) {
        job_feature *f = &job->features.data[i];

        EST_TRY(check_feature(&c, f));
        if (f->type == JOB_CROSS && f->visit == 0) find_cycles(&c, f);
    }
    check_model(&c);
    check_data(&c);
    check_run(&c);
    check_stops(&c);
    check_warm_start(&c);
    if (errors->n > before) return EST_OK; /* names go by references, which must be sound */
    check_names(&c, "columns", job->model.columns);
    check_names(&c, "dnn_columns", job->model.dnn_columns);
    check_names(&c, "linear_columns", job->model.linear_columns);
    return EST_OK;
}
