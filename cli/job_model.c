/* SPDX-License-Identifier: Apache-2.0
 *
 * A job as an estimator: its options, its run configuration, and the features to read of rows. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cluster/cluster.h"
#include "format/number.h"
#include "job.h"

/* --- model -------------------------------------------------------------------------------------------------------- */

/* A name alone leaves the learning rate to the model. */
static est_canned_optimizer make_optimizer(const job_optimizer *o)
{
    const job_rate *r = &o->learning_rate;
    est_optimizer   made;

    if (o->node == NULL) return (est_canned_optimizer){ 0 };
    if (r->node == NULL) return (est_canned_optimizer){ .name = o->name->text };
    made = o->name->make.optimizer(r->rate, o);
    if (r->type->make.schedule != NULL) {
        made = est_with_schedule(made, est_linear_warmup(r->type->make.schedule(r), r->warmup_steps, r->warmup_start));
    }
    return (est_canned_optimizer){ .value = made };
}

/* A head, alone or a part of another. The label of one that is alone is that of the data. */
static est_status make_one_head(const job_runner *r, const job_head *h, est_head **out)
{
    const job_data  *data    = &r->job->data;
    est_head_options options = h->options;
    est_status       status;

    options.v1            = r->job->model.options.v1;
    options.weight_column = data->weight;
    if (options.name == NULL) {
        options.label            = data->label.name;
        options.label_vocabulary = data->label.vocabulary;
    }
    status = h->type->make.head(h->n, &options, out);
    if (status == EST_OK) return EST_OK;
    if (options.name == NULL && strstr(est_error_message(), "label_vocabulary") != NULL) {
        return job_blame(status, data->label.node, "the label");
    }
    return job_blame(status, h->node, "the head");
}

static est_status make_head(job_runner *r)
{
    const job_heads *parts   = &r->job->model.head.heads;
    est_head       **heads   = est_arena_alloc(r->arena, (size_t)(parts->n + 1) * sizeof(est_head *));
    double          *weights = est_arena_alloc(r->arena, (size_t)(parts->n + 1) * sizeof *weights);
    est_status       status  = heads != NULL && weights != NULL ? EST_OK : est_no_memory();

    if (status == EST_OK && r->job->model.head.type->value != JOB_MULTI) {
        return make_one_head(r, &r->job->model.head, &r->head);
    }
    for (int i = 0; i < parts->n && status == EST_OK; i++) {
        weights[i] = parts->data[i].loss_weight;
        status     = make_one_head(r, &parts->data[i], &heads[i]);
    }
    if (status == EST_OK)
        status = est_multi_head((est_heads){ heads, parts->n }, (est_f64s){ weights, parts->n }, &r->head);
    for (int i = 0; i < parts->n && heads != NULL; i++) est_head_free(heads[i]); /* shared with the other */
    return status;
}

static est_status make_options(job_runner *r)
{
    const job_model    *m    = &r->job->model;
    const job_data     *data = &r->job->data;
    est_canned_options *o    = &r->options;

    *o                  = m->options;
    o->optimizer        = make_optimizer(&m->optimizer);
    o->dnn_optimizer    = make_optimizer(&m->dnn_optimizer);
    o->linear_optimizer = make_optimizer(&m->linear_optimizer);
    if (m->head.node != NULL) { /* which has the label */
        EST_TRY(make_head(r));
        o->head = r->head;
    } else {
        o->label            = data->label.name;
        o->weight_column    = data->weight;
        o->label_vocabulary = data->label.vocabulary;
    }
    EST_TRY(job_make_columns(r, "columns", m->columns, &o->columns));
    EST_TRY(job_make_columns(r, "dnn_columns", m->dnn_columns, &o->dnn_columns));
    EST_TRY(job_make_columns(r, "linear_columns", m->linear_columns, &o->linear_columns));
    return EST_OK;
}

/* --- run ---------------------------------------------------------------------------------------------------------- */

/* One file is for a cluster and for one process, so a strategy does not require ps tasks here. */
est_status job_parameter_server(const job_strategy *s, est_strategy **out)
{
    est_parameter_server_options options     = s->parameter_server;
    est_partitioner              partitioner = { 0 };
    est_resolver                *resolver    = NULL;
    bool                         has_ps;

    if (s->partitioner.node != NULL) {
        partitioner         = s->partitioner.type->make.partitioner(&s->partitioner.value);
        options.partitioner = &partitioner;
    }
    EST_TRY(est_resolve_quietly(NULL, EST_TASK_RULES(.no_chief_ok = false), &resolver));
    has_ps = est_cluster_tasks(est_resolver_task(resolver)->cluster, "ps") > 0;
    est_resolver_free(resolver);
    EST_TRY(est_parameter_server_strategy(&options, out));
    if (has_ps) return EST_OK;
    est_strategy_free(*out);
    *out = NULL;
    return EST_OK;
}

est_status job_multi_worker_mirrored(const job_strategy *s, est_strategy **out)
{
    return est_multi_worker_mirrored_strategy(&s->multi_worker, out);
}

static est_status make_strategy(const job_strategy *s, const char *key, est_strategy **out)
{
    est_status status = s->node != NULL ? s->name->make.strategy(s, out) : EST_OK;

    return status == EST_OK ? EST_OK : job_blame(status, s->node, key);
}

static est_status make_warm_start(job_runner *r)
{
    const job_warm_start *w       = &r->job->warm_start;
    est_rename           *renames = est_arena_alloc(r->arena, (size_t)(w->renames.n + 1) * sizeof *renames);
    est_vocab_info       *vocabs  = est_arena_alloc(r->arena, (size_t)(w->vocabularies.n + 1) * sizeof *vocabs);

    if (renames == NULL || vocabs == NULL) return est_no_memory();
    for (int i = 0; i < w->renames.n; i++) renames[i] = w->renames.data[i].names;
    for (int i = 0; i < w->vocabularies.n; i++) vocabs[i] = w->vocabularies.data[i].info;
    r->warm_start         = w->options;
    r->warm_start.renames = (est_renames){ renames, w->renames.n };
    r->warm_start.vocabs  = (est_vocab_infos){ vocabs, w->vocabularies.n };
    if (w->options.only_vocabs && strcmp(w->options.variables, ".*") == 0) r->warm_start.variables = NULL;
    r->options.warm_start = &r->warm_start;
    return EST_OK;
}

/* The library names the option that is wrong; it may be one of the model, of its label, of the run or of the warm
 * start. An error about TF_CONFIG is not one of the file. */
static est_status blame_estimator(const job_runner *r, est_status status)
{
    const struct {
        const job_node *node;
        const char     *what, *named;
    } parts[] = { { r->job->run.node, "run", "RunConfig" },
                  { r->job->warm_start.node, "the warm start", "warm_start" },
                  { r->job->data.label.node, "the label", "label_vocabulary" } };

    if (strstr(est_error_message(), "TF_CONFIG") != NULL) return status;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].node != NULL && strstr(est_error_message(), parts[i].named) != NULL) {
            return job_blame(status, parts[i].node, parts[i].what);
        }
    }
    return job_blame(status, r->job->model.node, "the model");
}

static est_status make_estimator(job_runner *r, bool quiet, bool no_signals)
{
    est_status status;

    r->config                  = r->job->run.config;
    r->config.train_distribute = r->strategy;
    r->config.eval_distribute  = r->eval_strategy;
    r->config.quiet            = quiet;
    r->config.no_signals       = no_signals;
    r->options.config          = &r->config;
    if (r->job->warm_start.node != NULL) EST_TRY(make_warm_start(r));
    status = r->job->model.type->make.model(&r->options, &r->estimator);
    return status == EST_INVALID_ARGUMENT ? blame_estimator(r, status) : status;
}

/* --- what rows must be read for ----------------------------------------------------------------------------------- */

/* The columns of all parts of the model, each once. */
static est_status all_columns(job_runner *r, est_column_list *out)
{
    const est_column_list parts[] = { r->options.columns, r->options.dnn_columns, r->options.linear_columns };
    int                   n       = parts[0].n + parts[1].n + parts[2].n;
    const est_column    **list    = est_arena_alloc(r->arena, (size_t)(n + 1) * sizeof *list);

    if (list == NULL) return est_no_memory();
    *out = (est_column_list){ list, 0 };
    for (int p = 0; p < 3; p++) {
        for (int i = 0; i < parts[p].n; i++) {
            bool there = false;

            for (int k = 0; k < out->n; k++) there = there || list[k] == parts[p].data[i];
            if (!there) list[out->n++] = parts[p].data[i];
        }
    }
    return EST_OK;
}

const job_weight *job_weight_of(const job_runner *runner, const char *name)
{
    for (int i = 0; i < runner->n_weights; i++) {
        if (strcmp(runner->weights[i].name, name) == 0) return &runner->weights[i];
    }
    return NULL;
}

static bool has_text(est_strings texts, const char *text)
{
    for (int i = 0; i < texts.n; i++) {
        if (strcmp(texts.data[i], text) == 0) return true;
    }
    return false;
}

/* Adds the fields whose absence leaves a feature without a category; NULL: a field of the data itself, as in
 * crosses. */
static est_status add_fields(job_runner *r, const job_feature *f, const char *name, est_strings *fields)
{
    const char **more;

    if (f != NULL && job_type(f) == JOB_BUCKETIZED) return EST_OK; /* a number is in some bucket always */
    if (f != NULL && job_type(f) == JOB_CROSS) {
        for (int i = 0; i < f->sources.n; i++) {
            EST_TRY(add_fields(r, job_find_feature(r->job, f->sources.data[i]), f->sources.data[i], fields));
        }
        return EST_OK;
    }
    if (f != NULL) name = f->key;
    if (has_text(*fields, name)) return EST_OK;
    more = est_arena_alloc(r->arena, (size_t)(fields->n + 1) * sizeof *more);
    if (more == NULL) return est_no_memory();
    for (int i = 0; i < fields->n; i++) more[i] = fields->data[i];
    more[fields->n] = name;
    *fields         = (est_strings){ more, fields->n + 1 };
    return EST_OK;
}

static bool are_same(est_strings a, est_strings b)
{
    for (int i = 0; i < a.n; i++) {
        if (!has_text(b, a.data[i])) return false;
    }
    return a.n == b.n;
}

/* One field of weights cannot follow the gaps of two fields of categories. */
static est_status add_weight(job_runner *r, const job_feature *f)
{
    const job_weight *known  = job_weight_of(r, f->weight);
    est_strings       fields = { 0 };

    EST_TRY(add_fields(r, job_find_feature(r->job, f->source), f->source, &fields));
    if (known == NULL) {
        r->weights[r->n_weights++] = (job_weight){ .name = f->weight, .fields = fields };
    } else if (!are_same(known->fields, fields)) {
        return job_blame_feature(est_fail(EST_INVALID_ARGUMENT,
                                          "the field \"%s\" already has the weights of other fields; use another field",
                                          f->weight),
                                 f);
    }
    return EST_OK;
}

static est_status make_weights(job_runner *r)
{
    r->weights = est_arena_alloc(r->arena, (size_t)(r->job->features.n + 1) * sizeof *r->weights);
    if (r->weights == NULL) return est_no_memory();
    for (int i = 0; i < r->job->features.n; i++) {
        const job_feature *f = &r->job->features.data[i];

        if (job_type(f) == JOB_WEIGHTED && r->made[i] != NULL) EST_TRY(add_weight(r, f));
    }
    return EST_OK;
}

/* Finds the identity features below one that index rows of a table; a cross hashes, and takes any id. */
static void add_looked_up(job_runner *r, const char *name)
{
    const job_feature *f = job_find_feature(r->job, name);

    if (job_type(f) == JOB_IDENTITY && !f->categorical.has_default) {
        for (int i = 0; i < r->n_looked_up; i++) {
            if (r->looked_up[i] == f) return;
        }
        r->looked_up[r->n_looked_up++] = f;
    } else if (f->source != NULL) {
        add_looked_up(r, f->source);
    } else if (job_type(f) == JOB_SHARED) {
        for (int i = 0; i < f->sources.n; i++) add_looked_up(r, f->sources.data[i]);
    }
}

static est_status make_looked_up(job_runner *r)
{
    const job_model  *m       = &r->job->model;
    const est_strings lists[] = { m->columns, m->dnn_columns, m->linear_columns };

    r->looked_up = est_arena_alloc(r->arena, (size_t)(r->job->features.n + 1) * sizeof *r->looked_up);
    if (r->looked_up == NULL) return est_no_memory();
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < lists[k].n; i++) add_looked_up(r, lists[k].data[i]);
    }
    return EST_OK;
}

static est_status find_components(job_runner *r, job_weight *weight)
{
    weight->components = est_arena_alloc(r->arena, (size_t)(weight->fields.n + 1) * sizeof *weight->components);
    if (weight->components == NULL) return est_no_memory();
    for (int k = 0; k < weight->fields.n; k++) {
        for (int i = 0; i < r->specs.n; i++) {
            if (strcmp(r->specs.data[i].name, weight->fields.data[k]) == 0) weight->components[k] = i;
        }
    }
    return EST_OK;
}

/* The columns of CSV files; the default of a weight is NaN, so that a missing one differs from every number. */
static est_status make_csv(job_runner *r)
{
    est_csv_columns of      = est_parse_spec_csv(r->rows);
    est_csv_column *columns = est_arena_alloc(r->arena, (size_t)(of.n + 1) * sizeof *columns);

    if (columns == NULL) return est_no_memory();
    for (int i = 0; i < r->n_weights; i++) EST_TRY(find_components(r, &r->weights[i]));
    for (int i = 0; i < of.n; i++) {
        columns[i] = of.data[i];
        if (job_weight_of(r, of.data[i].name) != NULL) columns[i].default_text = "nan";
    }
    r->csv = (est_csv_columns){ columns, of.n };
    return EST_OK;
}

static est_status make_labels(job_runner *r)
{
    est_strings words = r->job->data.label.vocabulary;

    for (int i = 0; i < words.n; i++) EST_TRY(est_map_put(&r->labels, words.data[i], r));
    return EST_OK;
}

/* A baseline uses no feature, but needs the number of rows: a feature that is always missing gives it. */
static est_status make_baseline_features(job_runner *r)
{
    const est_column *nothing = est_numeric_column(r->columns, "row", EST_NUMERIC(.default_value = EST_F32S(0)));

    return est_parse_spec_create(EST_COLUMN_LIST(nothing), &r->features);
}

/* The label, and the weight if there is one. */
static est_status make_baseline_specs(job_runner *r)
{
    const job_data   *d       = &r->job->data;
    est_feature_spec *specs   = est_arena_alloc(r->arena, 2 * sizeof *specs);
    est_csv_column   *columns = est_arena_alloc(r->arena, 2 * sizeof *columns);
    est_dtype         dtype   = job_n_classes(&r->job->model) == 0 ? EST_F32
                                : d->label.vocabulary.data != NULL ? EST_STRING
                                                                   : EST_I64;

    if (specs == NULL || columns == NULL) return est_no_memory();
    specs[0] = (est_feature_spec){ .name = d->label.name, .dtype = dtype, .shape = EST_SHAPE(1) };
    if (dtype == EST_F32) specs[0].shape = EST_SHAPE(r->job->model.options.label_dimension);
    specs[1] = (est_feature_spec){ .name = d->weight, .dtype = EST_F32, .shape = EST_SHAPE(1) };
    r->specs = (est_feature_specs){ specs, d->weight != NULL ? 2 : 1 };
    for (int i = 0; i < r->specs.n; i++) {
        columns[i] = (est_csv_column){ .name = specs[i].name, .dtype = specs[i].dtype, .required = true };
    }
    r->csv = (est_csv_columns){ columns, r->specs.n };
    return EST_OK;
}

/* Everything is read as Examples would give it, whatever the format: rows of a fixed number of values as [batch, n],
 * and all others ragged. */
static est_status make_components(job_runner *r)
{
    r->components = est_arena_alloc(r->arena, (size_t)(r->specs.n + 1) * sizeof *r->components);
    if (r->components == NULL) return est_no_memory();
    for (int i = 0; i < r->specs.n; i++) {
        const est_feature_spec *spec = &r->specs.data[i];
        est_component          *c    = &r->components[i];

        *c = (est_component){ .name = spec->name, .dtype = spec->dtype, .shape = EST_SHAPE(-1) };
        if (spec->rows == EST_ROWS_FIXED) {
            c->shape = EST_SHAPE(-1, 1);
        } else {
            c->ragged = true;
        }
    }
    return EST_OK;
}

/* What is learnt cannot be known before. */
static est_status check_apart(const job_runner *r, const job_node *at, const char *what, const char *name)
{
    est_feature_specs specs = est_parse_spec_features(r->features);

    for (int i = 0; i < specs.n && name != NULL; i++) {
        if (strcmp(specs.data[i].name, name) != 0) continue;
        return job_blame(
            est_fail(EST_INVALID_ARGUMENT,
                     "\"%s\" is also read for a feature of the model; remove that feature, or name another field",
                     name),
            at, what);
    }
    return EST_OK;
}

static est_status check_labels_apart(const job_runner *r)
{
    const job_data  *d     = &r->job->data;
    const job_heads *heads = &r->job->model.head.heads;

    EST_TRY(check_apart(r, d->label.node, "the label", d->label.name));
    EST_TRY(check_apart(r, d->node, "the weight", d->weight));
    for (int i = 0; i < heads->n; i++)
        EST_TRY(check_apart(r, heads->data[i].node, "the label", heads->data[i].options.label));
    return EST_OK;
}

static est_status make_specs(job_runner *r)
{
    bool            classifier = job_n_classes(&r->job->model) > 0;
    bool            baseline   = job_is_baseline(&r->job->model);
    est_column_list columns;

    EST_TRY(make_labels(r));
    EST_TRY(make_weights(r));
    EST_TRY(make_looked_up(r));
    if (baseline && r->head == NULL) {
        EST_TRY(make_baseline_features(r));
        EST_TRY(make_baseline_specs(r));
        return make_components(r);
    }
    EST_TRY(all_columns(r, &columns));
    EST_TRY(baseline ? make_baseline_features(r) : est_parse_spec_create(columns, &r->features));
    EST_TRY(check_labels_apart(r));
    if (r->job->data.format == JOB_FORMAT_LIBSVM) return EST_OK;
    if (r->head != NULL) {
        EST_TRY(est_parse_spec_create(columns, &r->rows));
        EST_TRY(est_head_parse_spec(r->head, r->rows));
    } else {
        EST_TRY(classifier ? est_classifier_parse_spec(&r->options, &r->rows)
                           : est_regressor_parse_spec(&r->options, &r->rows));
    }
    r->specs = est_parse_spec_features(r->rows);
    EST_TRY(make_csv(r));
    return make_components(r);
}

/* --- an earlier checkpoint ---------------------------------------------------------------------------------------- */

static bool is_table_of(const char *variable, const char *column)
{
    static const char suffix[] = "/embedding_weights";
    size_t            size = strlen(variable), n = strlen(column), tail = sizeof suffix - 1;

    if (size < n + tail || strcmp(variable + size - tail, suffix) != 0) return false;
    variable += size - tail - n;
    return memcmp(variable, column, n) == 0 && (size == n + tail || variable[-1] == '/');
}

static est_status check_table(const job_feature *f, const char *column, const est_checkpoint *checkpoint)
{
    for (int i = 0; i < est_checkpoint_count(checkpoint); i++) {
        const est_checkpoint_variable *v = est_checkpoint_at(checkpoint, i);

        if (!is_table_of(v->name, column) || v->shape.rank != 2 || v->shape.dim[1] == f->dimension) continue;
        return job_blame_feature(
            est_fail(EST_FAILED_PRECONDITION,
                     "its dimension is %lld, but %lld in %s, an earlier training; restore it, or name another "
                     "run.model_dir",
                     (long long)f->dimension, (long long)v->shape.dim[1], est_checkpoint_path(checkpoint)),
            f);
    }
    return EST_OK;
}

est_status job_check_tables(const job_runner *runner, const char *checkpoint)
{
    est_checkpoint *opened;
    est_status      status = EST_OK;

    if (est_checkpoint_open(checkpoint, &opened) != EST_OK) return EST_OK;
    for (int i = 0; i < runner->job->features.n && status == EST_OK; i++) {
        const job_feature *f = &runner->job->features.data[i];

        if (runner->made[i] == NULL || (job_type(f) != JOB_EMBEDDING && job_type(f) != JOB_DYNAMIC)) continue;
        status = check_table(f, est_column_name(runner->made[i][0]), opened);
    }
    est_checkpoint_close(opened);
    return status;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

est_status job_runner_init(job_runner *runner, const job_spec *job, bool quiet, bool no_signals, bool alone)
{
    est_status status;

    *runner         = (job_runner){ .job = job };
    runner->arena   = est_arena_create();
    runner->columns = est_columns_create();
    if (runner->arena != NULL) {
        runner->made = est_arena_alloc(runner->arena, (size_t)(job->features.n + 1) * sizeof *runner->made);
    }
    status = runner->made != NULL && runner->columns != NULL ? EST_OK : est_no_memory();
    if (status == EST_OK) status = make_options(runner);
    if (status == EST_OK) status = make_strategy(&job->run.strategy, "strategy", &runner->strategy);
    if (status == EST_OK && !alone) {
        status = make_strategy(&job->run.eval_strategy, "eval_strategy", &runner->eval_strategy);
    }
    if (status == EST_OK) status = make_estimator(runner, quiet, no_signals);
    if (status == EST_OK) status = make_specs(runner);
    if (status != EST_OK) job_runner_clear(runner);
    return status;
}

void job_runner_clear(job_runner *runner)
{
    est_parse_spec_free(runner->rows);
    est_parse_spec_free(runner->features);
    est_estimator_free(runner->estimator);
    est_strategy_free(runner->strategy);
    est_strategy_free(runner->eval_strategy);
    est_head_free(runner->head);
    est_columns_free(runner->columns);
    est_map_clear(&runner->labels);
    if (runner->arena != NULL) est_arena_free(runner->arena);
    *runner = (job_runner){ 0 };
}
