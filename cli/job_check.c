/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks what must hold between the parts of a job: features that refer to each other, fields of the data, keys whose
 * meaning job files add to that of the library. What the library checks is left to it: job_blame gives its errors
 * their place in the file. */
#include <math.h>
#include <string.h>

#include "job.h"

#define NAMES_MAX 256 /* that are compared for a suggestion */

typedef struct checker {
    const job_spec *job;
    job_errors     *errors;
} checker;

/* The place of a key; that of the record when it is not given. */
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
    return (model->type->value & (JOB_DEEP | JOB_WIDE)) == 0;
}

static bool is_estimator(const job_model *m)
{
    return (m->type->value & JOB_ESTIMATOR) != 0;
}

static bool has_several_heads(const job_model *m)
{
    return is_estimator(m) && m->head.type->value == JOB_MULTI;
}

int64_t job_n_classes(const job_model *model)
{
    if (!is_estimator(model)) return model->options.n_classes;
    switch (model->head.type->value) {
    case JOB_BINARY: return 2;
    case JOB_MULTI_CLASS:
    case JOB_MULTI_LABEL: return model->head.n;
    default: return 0;
    }
}

/* --- references --------------------------------------------------------------------------------------------------- */

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

/* The columns of a model, or of a part of it. deep: they must be dense. */
static void check_columns(checker *c, const char *key, est_strings columns, bool deep)
{
    for (int i = 0; i < columns.n; i++) {
        const job_node    *at = at_item(c->job->model.node, key, i);
        const job_feature *f  = find(c, at, columns.data[i]);

        if (f != NULL && deep && job_type(f) >= JOB_IDENTITY && job_type(f) <= JOB_WEIGHTED) {
            job_error(c->errors, at,
                      "\"%s\" is of the type %s, which a dnn does not take; make an indicator or an embedding of it",
                      f->name, f->type->text);
        }
    }
}

/* --- features ----------------------------------------------------------------------------------------------------- */

static void check_scale(checker *c, const job_feature *f)
{
    bool low = job_has(f->node, "min"), high = job_has(f->node, "max");

    if (low != high) {
        job_error(c->errors, at_key(f->node, low ? "min" : "max"), "\"min\" needs \"max\", and \"max\" needs \"min\"");
    } else if (low && !(f->high > f->low)) {
        job_error(c->errors, at_key(f->node, "max"), "max is %g; it must be more than min, %g", f->high, f->low);
    } else if (low && (f->mean != 0 || f->stddev != 1)) {
        job_error(c->errors, at_key(f->node, "min"),
                  "numbers are scaled by min and max or by mean and stddev, not both");
    }
}

static void check_feature(checker *c, const job_feature *f)
{
    int64_t n = 1;

    if (f->source != NULL) find(c, at_key(f->node, "source"), f->source);
    for (int i = 0; i < f->sources.n && job_type(f) != JOB_CROSS; i++) {
        find(c, at_item(f->node, "sources", i), f->sources.data[i]);
    }
    check_scale(c, f);
    for (int i = 0; i < f->numeric.shape.rank && n < ((int64_t)1 << 31); i++) n *= f->numeric.shape.dim[i];
    if (n >= ((int64_t)1 << 31)) {
        job_error(c->errors, at_key(f->node, "shape"), "the shape has more than 2^31 elements");
    } else if (n != 1 && c->job->data.format == JOB_FORMAT_CSV) {
        job_error(c->errors, at_key(f->node, "shape"), "a field of a CSV file holds one number, not %lld",
                  (long long)n);
    }
    if (job_type(f) == JOB_VOCABULARY && (f->values.data != NULL) == (f->file != NULL)) {
        job_error(c->errors, at_key(f->node, f->file != NULL ? "file" : "values"),
                  "a vocabulary has either values or a file");
    }
}

/* --- model -------------------------------------------------------------------------------------------------------- */

static void check_rate(checker *c, const job_rate *rate)
{
    if (rate->boundaries.data == NULL) return;
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

/* Whether the file has no option of an optimizer; an option that is false does not count. */
static bool is_plain(const job_node *node)
{
    for (int i = 0; node->kind == JOB_MAP && i < node->n; i++) {
        const job_node *key = node->items[2 * i], *value = node->items[2 * i + 1];

        if (strcmp(key->text, "name") != 0 && !job_is_null(value) && strcmp(value->text, "false") != 0) return false;
    }
    return true;
}

static void check_optimizer(checker *c, const job_optimizer *o)
{
    if (o->node == NULL) return;
    check_rate(c, &o->learning_rate);
    if (o->ftrl.learning_rate_power > 0) {
        job_error(c->errors, at_key(o->node, "learning_rate_power"), "\"learning_rate_power\" takes 0 or less, not %g",
                  o->ftrl.learning_rate_power);
    }
    if (o->learning_rate.node == NULL && (!is_plain(o->node) || o->name->value == 0)) {
        job_error(c->errors, o->node,
                  "this optimizer needs a \"learning_rate\"; models have a default for a plain Adagrad, Adam, Ftrl, "
                  "RMSProp or SGD only");
    }
}

/* Adam and some RMSProp update all rows of a table in every step; a dynamic table updates only those of a gradient. */
static void check_dynamic(checker *c, est_strings columns, const job_optimizer *o)
{
    bool adam = o->node != NULL && strcmp(o->name->text, "Adam") == 0;
    bool rms  = o->node != NULL && strcmp(o->name->text, "RMSProp") == 0 && o->rms_prop.keras &&
               o->rms_prop.momentum == 0;

    for (int i = 0; i < columns.n && (adam || rms); i++) {
        const job_feature *f = job_find_feature(c->job, columns.data[i]);

        if (f == NULL || job_type(f) != JOB_DYNAMIC) continue;
        job_error(c->errors, o->node,
                  "this optimizer updates all rows of a table in every step, and \"%s\" is dynamic; write %s", f->name,
                  adam ? "name: LazyAdam" : "a momentum, as momentum: 0.9, or another name, as LazyAdam");
        return;
    }
}

static void check_model(checker *c)
{
    const job_model *m = &c->job->model;

    check_columns(c, "columns", m->columns, (m->type->value & JOB_DEEP) != 0);
    check_columns(c, "dnn_columns", m->dnn_columns, true);
    check_columns(c, "linear_columns", m->linear_columns, false);
    check_optimizer(c, &m->optimizer);
    check_optimizer(c, &m->dnn_optimizer);
    check_optimizer(c, &m->linear_optimizer);
    check_dynamic(c, m->columns, &m->optimizer);
    check_dynamic(c, m->dnn_columns, &m->dnn_optimizer);
    check_dynamic(c, m->linear_columns, &m->linear_optimizer);
}

/* --- data --------------------------------------------------------------------------------------------------------- */

/* The fields of CSV files are known when the job lists them. */
static void check_field(checker *c, const job_node *at, const char *name)
{
    est_strings fields = c->job->data.csv.fields;

    if (name == NULL || fields.data == NULL || c->job->data.format != JOB_FORMAT_CSV) return;
    for (int i = 0; i < fields.n; i++) {
        if (strcmp(fields.data[i], name) == 0) return;
    }
    job_error(c->errors, at, "\"%s\" is none of the fields in data.csv%s", name,
              job_suggestion(name, fields.data, (size_t)(fields.n < NAMES_MAX ? fields.n : NAMES_MAX)));
}

static void check_fields(checker *c)
{
    const job_data *d = &c->job->data;

    check_field(c, at_key(d->node, "weight"), d->weight);
    for (int i = 0; i < c->job->features.n; i++) {
        const job_feature *f = &c->job->features.data[i];

        check_field(c, at_key(f->node, "key"), f->key);
        check_field(c, at_key(f->node, "weight"), f->weight);
        for (int j = 0; j < f->sources.n && job_type(f) == JOB_CROSS; j++) {
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

    if (is_estimator(m) && m->head.type->value == JOB_MULTI_LABEL) {
        job_error(c->errors, at_key(m->node, "head"), "a row of libsvm files has one label");
    }
    if (strcmp(label->name, "label") != 0) {
        job_error(c->errors, at_key(label->node, "name"), "the label of libsvm files is called \"label\"");
    }
    if (label->vocabulary.data != NULL) {
        job_error(c->errors, at_key(label->node, "vocabulary"), "labels of libsvm files are numbers");
    }
}

static bool has_numbers(const job_head *head)
{
    return head->type->value == JOB_REGRESSION && head->n > 1;
}

/* Labels of several heads are part of the heads. */
static void check_multi_label(checker *c)
{
    const job_head *head = &c->job->model.head;

    if (c->job->data.label.node != NULL) {
        job_error(c->errors, c->job->data.label.node,
                  "each of model.head.heads has a label of its own; remove this one");
    }
    if (c->job->data.weight != NULL) {
        job_error(c->errors, at_key(c->job->data.node, "weight"), "a model of several heads takes no weights of rows");
    }
    if (c->job->data.format == JOB_FORMAT_LIBSVM) {
        job_error(c->errors, at_key(c->job->data.node, "format"), "a row of libsvm files has one label");
    }
    for (int i = 0; i < head->heads.n; i++) {
        const job_head *part = &head->heads.data[i];

        for (int j = 0; j < i; j++) {
            if (strcmp(part->options.name, head->heads.data[j].options.name) != 0) continue;
            job_error(c->errors, at_key(part->node, "name"), "there are two heads \"%s\"", part->options.name);
            break;
        }
        check_field(c, at_key(part->node, "label"), part->options.label);
        if (has_numbers(part) && c->job->data.format != JOB_FORMAT_TFRECORD) {
            job_error(c->errors, at_key(part->node, "label_dimension"),
                      "labels of more than one number need the format tfrecord");
        }
    }
}

static void check_label(checker *c)
{
    const job_label *label = &c->job->data.label;
    const job_model *m     = &c->job->model;

    if (label->node == NULL) {
        job_error(c->errors, c->job->data.node, "data needs \"label\": what is learnt; its name alone is enough");
        return;
    }
    if (label->vocabulary.data != NULL && job_n_classes(m) == 0) {
        job_error(c->errors, at_key(label->node, "vocabulary"), "labels of a regressor are numbers, not words");
    }
    if ((is_estimator(m) ? has_numbers(&m->head) : m->options.label_dimension > 1) &&
        c->job->data.format != JOB_FORMAT_TFRECORD) {
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

    if (has_several_heads(&c->job->model)) {
        check_multi_label(c);
    } else {
        check_label(c);
    }
    check_fields(c);
    if (d->format != JOB_FORMAT_CSV && d->csv.fields.data != NULL) {
        job_error(c->errors, at_key(d->csv.node, "fields"), "\"fields\" is for the format csv");
    }
    if (d->csv.options.header && d->csv.fields.data != NULL) {
        job_error(c->errors, at_key(d->csv.node, "header"), "either the files have a header, or \"fields\" names them");
    }
    if (!d->csv.options.header && d->csv.fields.data == NULL) {
        job_error(c->errors, at_key(d->csv.node, "header"), "header: false needs csv.fields, the names of all fields");
    }
    if (d->weight != NULL && d->format == JOB_FORMAT_LIBSVM) {
        job_error(c->errors, at_key(d->node, "weight"), "libsvm files have no weights of rows");
    }
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

static void check_stops(checker *c)
{
    for (int i = 0; i < c->job->train.early_stopping.n; i++) {
        const job_stop *stop = &c->job->train.early_stopping.data[i];

        if (stop->options.run_every_steps > 0 && stop->options.run_every_secs > 0) {
            job_error(c->errors, at_key(stop->node, "run_every_secs"),
                      "results are checked by steps or by time, not both");
        }
        if (c->job->data.eval.data == NULL) {
            job_error(c->errors, stop->node, "early stops depend on evaluations, and data.eval is not given");
        }
    }
}

static void check_warm_start(checker *c)
{
    const job_warm_start *w  = &c->job->warm_start;
    const job_node       *at = w->node != NULL ? at_key(w->node, "only_vocabularies") : NULL;

    if (!w->options.only_vocabs) return;
    if (w->vocabularies.n == 0) job_error(c->errors, at, "there are no \"vocabularies\"");
    if (w->options.all || strcmp(w->options.variables, ".*") != 0) {
        job_error(c->errors, at, "\"only_vocabularies\" excludes \"variables\" and \"all\"");
    }
}

static void check_run(checker *c)
{
    const est_run_config *config = &c->job->run.config;
    const job_strategy   *eval   = &c->job->run.eval_strategy;
    const job_eval       *e      = &c->job->eval;

    if (config->save_checkpoints_steps > 0 && config->save_checkpoints_secs > 0) {
        job_error(c->errors, at_key(c->job->run.node, "save_checkpoints_secs"),
                  "checkpoints are saved by steps or by time, not both");
    }
    if (eval->node != NULL && eval->name->make.strategy == job_parameter_server) {
        job_error(c->errors, at_key(eval->node, "name"),
                  "evaluations need no ps tasks; name another strategy, or remove \"eval_strategy\"");
    }
    if (e->spec.name != NULL && strchr(e->spec.name, '/') != NULL) {
        job_error(c->errors, at_key(e->node, "name"), "\"%s\" cannot be part of a directory's name", e->spec.name);
    }
    if (c->job->exports.n > 0 && c->job->data.eval.data == NULL) {
        job_error(c->errors, c->job->exports.data[0].node,
                  "exports are made after evaluations, and data.eval is not given; `estoc export` makes one by hand");
    }
    for (int i = 0; i < c->job->exports.n; i++) {
        for (int j = 0; j < i; j++) {
            if (strcmp(c->job->exports.data[i].name, c->job->exports.data[j].name) != 0) continue;
            job_error(c->errors, at_key(c->job->exports.data[i].node, "name"), "there are two exports \"%s\"",
                      c->job->exports.data[i].name);
            break;
        }
    }
}

void job_check(const job_spec *job, job_errors *errors)
{
    checker c = { job, errors };

    for (int i = 0; i < job->features.n; i++) check_feature(&c, &job->features.data[i]);
    check_model(&c);
    check_data(&c);
    check_run(&c);
    check_stops(&c);
    check_warm_start(&c);
}
