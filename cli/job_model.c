/* SPDX-License-Identifier: Apache-2.0
 *
 * A job as an estimator: options from its model, a run from its run, and what rows are to be read for. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "format/number.h"
#include "job.h"

/* 0, the library's default, for what was not given. */
static double number_or_zero(double value)
{
    return isnan(value) ? 0 : value;
}

/* The same where 0 is a value of its own. */
static double number_or_off(double value)
{
    return isnan(value) ? 0 : value == 0 ? EST_OFF : value;
}

static int64_t int_or_zero(int64_t value)
{
    return value != JOB_NO_INT ? value : 0;
}

/* --- model ------------------------------------------------------------------------------------------------------------ */

static est_schedule make_schedule(const job_rate *r)
{
    switch (r->type) {
    case JOB_EXPONENTIAL: return est_exponential_decay(r->rate, r->decay_steps, r->decay_rate, r->staircase);
    case JOB_NATURAL_EXP: return est_natural_exp_decay(r->rate, r->decay_steps, r->decay_rate, r->staircase);
    case JOB_INVERSE_TIME: return est_inverse_time_decay(r->rate, r->decay_steps, r->decay_rate, r->staircase);
    case JOB_POLYNOMIAL: return est_polynomial_decay(r->rate, r->decay_steps, r->end, r->power, r->cycle);
    case JOB_PIECEWISE:
        return est_piecewise_constant((est_i64s){ r->boundaries.data, r->boundaries.n },
                                      (est_f64s){ r->values.data, r->values.n });
    case JOB_COSINE: return est_cosine_decay(r->rate, r->decay_steps, r->alpha);
    case JOB_COSINE_RESTARTS: return est_cosine_decay_restarts(r->rate, r->decay_steps, r->t_mul, r->m_mul, r->alpha);
    default: return est_constant_rate(r->rate);
    }
}

/* The optimizer with the rate of the file, which may change. */
static est_optimizer scheduled(est_optimizer optimizer, const job_rate *r)
{
    est_schedule schedule = make_schedule(r);

    if (r->type == JOB_CONSTANT) return optimizer;
    if (r->warmup_steps != JOB_NO_INT) schedule = est_linear_warmup(schedule, r->warmup_steps, r->warmup_start);
    return est_with_schedule(optimizer, schedule);
}

static est_optimizer optimizer_value(const job_optimizer *o, bool keras)
{
    double           rate = number_or_zero(o->learning_rate.rate);
    est_adam_options adam = { .struct_size = EST_STRUCT_SIZE(est_adam_options),
                              .beta1       = number_or_off(o->beta1),
                              .beta2       = number_or_off(o->beta2),
                              .epsilon     = number_or_zero(o->epsilon),
                              .keras       = keras };

    switch (o->name) {
    case JOB_ADAGRAD:
        return est_adagrad(rate, EST_ADAGRAD(.initial_accumulator = number_or_zero(o->initial_accumulator),
                                             .epsilon = keras ? number_or_zero(o->epsilon) : 0, .keras = keras));
    case JOB_ADAM: return est_adam(rate, &adam);
    case JOB_LAZY_ADAM: return est_lazy_adam(rate, &adam);
    case JOB_FTRL:
        return est_ftrl(rate, EST_FTRL(.learning_rate_power = number_or_off(o->learning_rate_power),
                                       .beta                = number_or_zero(o->beta),
                                       .initial_accumulator = number_or_zero(o->initial_accumulator),
                                       .l1 = number_or_zero(o->l1), .l2 = number_or_zero(o->l2),
                                       .l2_shrinkage = number_or_zero(o->l2_shrinkage), .keras = keras));
    case JOB_RMS_PROP:
        return est_rms_prop(
            rate, EST_RMS_PROP(.decay = number_or_off(o->decay), .momentum = number_or_zero(o->momentum),
                               .epsilon = number_or_zero(o->epsilon), .centered = o->centered, .keras = keras));
    case JOB_SGD: return est_sgd(rate);
    case JOB_MOMENTUM:
        return est_momentum(
            rate, EST_MOMENTUM(.momentum = number_or_off(o->momentum), .nesterov = o->nesterov, .keras = keras));
    default:
        return est_adadelta(
            rate, EST_ADADELTA(.rho = number_or_off(o->decay), .epsilon = number_or_zero(o->epsilon), .keras = keras));
    }
}

/* A name alone leaves the learning rate to the model. */
static est_canned_optimizer make_optimizer(const job_optimizer *o, bool keras)
{
    static const char *const names[] = { "Adagrad", "Adam", "Ftrl", "RMSProp", "SGD" };

    if (o->node == NULL) return (est_canned_optimizer){ 0 };
    if (o->learning_rate.node == NULL) return (est_canned_optimizer){ .name = names[o->name] };
    return (est_canned_optimizer){ .value = scheduled(optimizer_value(o, keras), &o->learning_rate) };
}

static const est_activation activations[] = { est_relu, est_relu6,   est_elu,      est_selu,
                                              est_tanh, est_sigmoid, est_softplus, est_softsign };
static const est_reduction  reductions[]  = { EST_LOSS_SUM_OVER_BATCH_SIZE, EST_LOSS_SUM, EST_LOSS_MEAN,
                                              EST_LOSS_SUM_OVER_NONZERO_WEIGHTS };

/* A head, alone or a part of another. */
static est_status make_one_head(const job_runner *r, const job_head *h, est_head **out)
{
    const job_label *label   = &r->job->data.label;
    job_texts        words   = h->name != NULL ? h->vocabulary : label->vocabulary;
    est_head_options options = { .struct_size      = EST_STRUCT_SIZE(est_head_options),
                                 .name             = h->name,
                                 .label            = h->name != NULL ? h->label : label->name,
                                 .weight_column    = r->job->data.weight,
                                 .label_vocabulary = { words.data, words.n },
                                 .thresholds       = { h->thresholds.data, h->thresholds.n },
                                 .loss_reduction   = h->loss_reduction >= 0 ? reductions[h->loss_reduction] : 0,
                                 .inverse_link     = h->inverse_link >= 0 ? activations[h->inverse_link] : NULL,
                                 .no_full_loss     = h->type == JOB_POISSON && !h->full_loss,
                                 .metric_classes   = { h->metric_classes.data, h->metric_classes.n },
                                 .v1               = r->job->model.v1 };

    switch (h->type) {
    case JOB_BINARY: return est_binary_head(&options, out);
    case JOB_MULTI_CLASS: return est_multi_class_head(h->n_classes, &options, out);
    case JOB_MULTI_LABEL: return est_multi_label_head(h->n_classes, &options, out);
    case JOB_REGRESSION: return est_regression_head(h->label_dimension, &options, out);
    case JOB_LOGISTIC_REGRESSION: return est_logistic_regression_head(&options, out);
    default: return est_poisson_head(h->label_dimension, &options, out);
    }
}

static est_status make_head(job_runner *r)
{
    const job_heads *parts   = &r->job->model.head.heads;
    est_head       **heads   = est_arena_alloc(r->arena, (size_t)(parts->n + 1) * sizeof(est_head *));
    double          *weights = est_arena_alloc(r->arena, (size_t)(parts->n + 1) * sizeof *weights);
    est_status       status  = heads != NULL && weights != NULL ? EST_OK : est_no_memory();

    if (status == EST_OK && r->job->model.head.type != JOB_MULTI) {
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
    const job_model    *m     = &r->job->model;
    const job_label    *label = &r->job->data.label;
    est_canned_options *o     = &r->options;

    *o = (est_canned_options){ .struct_size      = EST_STRUCT_SIZE(est_canned_options),
                               .hidden_units     = { m->hidden_units.data, m->hidden_units.n },
                               .activation       = m->activation > 0 ? activations[m->activation] : NULL,
                               .dropout          = number_or_zero(m->dropout),
                               .batch_norm       = m->batch_norm,
                               .sparse_combiner  = m->sparse_combiner >= 0 ? job_combiner(m->sparse_combiner) : 0,
                               .optimizer        = make_optimizer(&m->optimizer, !m->v1),
                               .dnn_optimizer    = make_optimizer(&m->dnn_optimizer, !m->v1),
                               .linear_optimizer = make_optimizer(&m->linear_optimizer, !m->v1),
                               .n_classes        = int_or_zero(m->n_classes),
                               .label_dimension  = int_or_zero(m->label_dimension),
                               .label            = label->name,
                               .weight_column    = r->job->data.weight,
                               .label_vocabulary = { label->vocabulary.data, label->vocabulary.n },
                               .loss_reduction   = m->loss_reduction >= 0 ? reductions[m->loss_reduction] : 0,
                               .v1               = m->v1 };
    if (m->head.node != NULL) { /* which says all about labels */
        EST_TRY(make_head(r));
        o->head             = r->head;
        o->label            = NULL;
        o->weight_column    = NULL;
        o->label_vocabulary = (est_strings){ 0 };
    }
    EST_TRY(job_make_columns(r, m->columns, &o->columns));
    EST_TRY(job_make_columns(r, m->dnn_columns, &o->dnn_columns));
    EST_TRY(job_make_columns(r, m->linear_columns, &o->linear_columns));
    return EST_OK;
}

/* --- run -------------------------------------------------------------------------------------------------------------- */

static est_partitioner make_partitioner(const job_partitioner *p)
{
    int max_shards = (int)int_or_zero(p->max_shards);

    switch (p->type) {
    case JOB_FIXED_SHARDS: return est_fixed_shards((int)int_or_zero(p->shards));
    case JOB_MIN_SIZE: return est_min_size_partitioner(p->min_shard_bytes, max_shards);
    default: return est_max_size_partitioner(p->max_shard_bytes, max_shards);
    }
}

/* The task of TF_CONFIG. What there is to say about it the estimator says. */
static est_status find_task(bool no_chief_ok, est_resolver **out)
{
    est_log_level level = est_log_get_level();
    est_status    status;

    est_log_set_level(EST_LOG_OFF);
    status = est_resolve_tf_config(NULL, EST_TASK_RULES(.no_chief_ok = no_chief_ok), out);
    est_log_set_level(level);
    return status;
}

/* One file is for a cluster and for trying things out alone, so a strategy does not ask for ps tasks here. */
static est_status make_for_servers(const job_strategy *s, est_strategy **out)
{
    est_partitioner partitioner = { 0 };
    est_resolver   *resolver    = NULL;
    bool            has_ps;

    EST_TRY(find_task(false, &resolver));
    has_ps = est_cluster_tasks(est_resolver_task(resolver)->cluster, "ps") > 0;
    est_resolver_free(resolver);
    if (!has_ps) return EST_OK;
    if (s->partitioner.node != NULL) partitioner = make_partitioner(&s->partitioner);
    return est_parameter_server_strategy(
        EST_PARAMETER_SERVER(.partitioner = s->partitioner.node != NULL ? &partitioner : NULL,
                             .round_robin = s->placement == JOB_ROUND_ROBIN, .sync_replicas = (int)s->sync_replicas,
                             .max_staleness = s->max_staleness, .consistent_checkpoints = s->consistent_checkpoints),
        out);
}

static est_status make_for_workers(const job_strategy *s, est_strategy **out)
{
    static const est_communication communications[] = { EST_COMMUNICATION_AUTO,         EST_COMMUNICATION_RING,
                                                        EST_COMMUNICATION_HALVING,      EST_COMMUNICATION_DIRECT,
                                                        EST_COMMUNICATION_HIERARCHICAL, EST_COMMUNICATION_SHARED };
    est_resolver                  *resolver         = NULL;
    est_status                     status;

    EST_TRY(find_task(true, &resolver));
    status = est_multi_worker_mirrored_strategy(
        EST_MULTI_WORKER_MIRRORED(.replicas = (int)s->replicas, .communication = communications[s->communication],
                                  .bytes_per_pack = s->bytes_per_pack, .timeout_secs = s->timeout_secs,
                                  .rejoin_secs = s->rejoin_secs, .elastic = s->elastic, .resolver = resolver),
        out);
    est_resolver_free(resolver);
    return status;
}

static est_status make_strategy(const job_strategy *s, est_strategy **out)
{
    if (s->node == NULL) return EST_OK;
    switch (s->name) {
    case JOB_PARAMETER_SERVER: return make_for_servers(s, out);
    case JOB_MIRRORED: return est_mirrored_strategy(EST_MIRRORED(.replicas = (int)s->replicas), out);
    case JOB_CENTRAL_STORAGE:
        return est_central_storage_strategy(EST_CENTRAL_STORAGE(.replicas = (int)s->replicas), out);
    case JOB_ONE_DEVICE: return est_one_device_strategy("/cpu:0", out);
    default: return make_for_workers(s, out);
    }
}

static est_status make_strategies(job_runner *r, bool alone)
{
    EST_TRY(make_strategy(&r->job->run.strategy, &r->strategy));
    return alone ? EST_OK : make_strategy(&r->job->run.eval_strategy, &r->eval_strategy);
}

static void make_config(job_runner *r, bool quiet, bool no_signals)
{
    static const char *const protocols[] = { "tls", "tcp", "ucx" };
    const job_run           *run         = &r->job->run;

    r->config = (est_run_config){ .struct_size                   = EST_STRUCT_SIZE(est_run_config),
                                  .model_dir                     = run->model_dir,
                                  .seed                          = (uint64_t)int_or_zero(run->seed),
                                  .save_summary_steps            = run->save_summary_steps,
                                  .save_checkpoints_steps        = int_or_zero(run->save_checkpoints_steps),
                                  .save_checkpoints_secs         = number_or_zero(run->save_checkpoints_secs),
                                  .keep_checkpoint_max           = (int32_t)run->keep_checkpoint_max,
                                  .keep_checkpoint_every_n_hours = run->keep_checkpoint_every_n_hours,
                                  .log_step_count_steps          = run->log_step_count_steps,
                                  .session_creation_timeout_secs = run->session_creation_timeout_secs,
                                  .peer_silence_secs             = run->peer_silence_secs,
                                  .max_worker_delay_secs         = run->max_worker_delay_secs != 0
                                                                       ? (int32_t)run->max_worker_delay_secs
                                                                       : EST_OFF,
                                  .protocol                      = run->protocol >= 0 ? protocols[run->protocol] : NULL,
                                  .train_distribute              = r->strategy,
                                  .eval_distribute               = r->eval_strategy,
                                  .no_graph_def                  = !run->graph_def,
                                  .no_input_position             = !run->input_position,
                                  .check_numerics                = run->check_numerics,
                                  .threads                       = (int)int_or_zero(run->threads),
                                  .quiet                         = quiet,
                                  .no_signals                    = no_signals };
}

static est_status make_warm_start(job_runner *r)
{
    const job_warm_start *w       = &r->job->warm_start;
    est_rename           *renames = est_arena_alloc(r->arena, (size_t)(w->renames.n + 1) * sizeof *renames);
    est_vocab_info       *vocabs  = est_arena_alloc(r->arena, (size_t)(w->vocabularies.n + 1) * sizeof *vocabs);

    if (renames == NULL || vocabs == NULL) return est_no_memory();
    for (int i = 0; i < w->renames.n; i++) {
        renames[i] = (est_rename){ w->renames.data[i].name, w->renames.data[i].from };
    }
    for (int i = 0; i < w->vocabularies.n; i++) {
        const job_vocabulary *v = &w->vocabularies.data[i];

        vocabs[i] = (est_vocab_info){ .variable        = v->name,
                                      .new_vocab       = v->file,
                                      .old_vocab       = v->old_file,
                                      .new_vocab_size  = int_or_zero(v->size),
                                      .old_vocab_size  = int_or_zero(v->old_size),
                                      .num_oov_buckets = v->oov_buckets,
                                      .axis            = (int)v->axis,
                                      .initial         = v->keep_initial };
    }
    r->warm_start         = (est_warm_start){ .struct_size = EST_STRUCT_SIZE(est_warm_start),
                                              .path        = w->path,
                                              .variables   = w->only_vocabularies ? NULL : w->variables,
                                              .all         = w->all,
                                              .only_vocabs = w->only_vocabularies,
                                              .renames     = { renames, w->renames.n },
                                              .vocabs      = { vocabs, w->vocabularies.n } };
    r->options.warm_start = &r->warm_start;
    return EST_OK;
}

static est_status make_estimator(job_runner *r)
{
    typedef est_status (*make_fn)(const est_canned_options *, est_estimator **);
    static const make_fn makers[] = { est_dnn_classifier,
                                      est_dnn_regressor,
                                      est_linear_classifier,
                                      est_linear_regressor,
                                      est_dnn_linear_combined_classifier,
                                      est_dnn_linear_combined_regressor,
                                      est_baseline_classifier,
                                      est_baseline_regressor,
                                      est_dnn_estimator,
                                      est_linear_estimator,
                                      est_dnn_linear_combined_estimator,
                                      est_baseline_estimator };

    r->options.config = &r->config;
    if (r->job->warm_start.node != NULL) EST_TRY(make_warm_start(r));
    return makers[r->job->model.type](&r->options, &r->estimator);
}

/* --- what rows must be read for --------------------------------------------------------------------------------------- */

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

static bool has_text(job_texts texts, const char *text)
{
    for (int i = 0; i < texts.n; i++) {
        if (strcmp(texts.data[i], text) == 0) return true;
    }
    return false;
}

/* Adds the fields whose absence leaves a feature without a category; NULL: a field of the data itself, as in crosses. */
static est_status add_fields(job_runner *r, const job_feature *f, const char *name, job_texts *fields)
{
    const char **more;

    if (f != NULL && f->type == JOB_BUCKETIZED) return EST_OK; /* a number is in some bucket always */
    if (f != NULL && f->type == JOB_CROSS) {
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
    *fields         = (job_texts){ more, fields->n + 1 };
    return EST_OK;
}

static bool are_same(job_texts a, job_texts b)
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
    job_texts         fields = { 0 };

    EST_TRY(add_fields(r, job_find_feature(r->job, f->source), f->source, &fields));
    if (known == NULL) {
        r->weights[r->n_weights++] = (job_weight){ .name = f->weight, .fields = fields };
    } else if (!are_same(known->fields, fields)) {
        return job_blame_feature(est_fail(EST_INVALID_ARGUMENT,
                                          "the field \"%s\" has the weights of other fields already; it needs its own",
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

        if (f->type == JOB_WEIGHTED && r->made[i] != NULL) EST_TRY(add_weight(r, f));
    }
    return EST_OK;
}

/* Finds the identity features below one that look rows of a table up; a cross hashes, and takes any id. */
static void add_looked_up(job_runner *r, const char *name)
{
    const job_feature *f = job_find_feature(r->job, name);

    if (f->type == JOB_IDENTITY && f->default_id == JOB_NO_INT) {
        for (int i = 0; i < r->n_looked_up; i++) {
            if (r->looked_up[i] == f) return;
        }
        r->looked_up[r->n_looked_up++] = f;
    } else if (f->source != NULL) {
        add_looked_up(r, f->source);
    } else if (f->type == JOB_SHARED) {
        for (int i = 0; i < f->sources.n; i++) add_looked_up(r, f->sources.data[i]);
    }
}

static est_status make_looked_up(job_runner *r)
{
    const job_model *m       = &r->job->model;
    const job_texts  lists[] = { m->columns, m->dnn_columns, m->linear_columns };

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
        for (int i = 0; i < r->n_specs; i++) {
            if (strcmp(r->specs[i].name, weight->fields.data[k]) == 0) weight->components[k] = i;
        }
    }
    return EST_OK;
}

/* The columns of CSV files, where a weight that is missing can be told from every number. */
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
    job_texts words = r->job->data.label.vocabulary;

    for (int i = 0; i < words.n; i++) EST_TRY(est_map_put(&r->labels, words.data[i], r));
    return EST_OK;
}

/* A baseline looks at no feature, but asks how many rows there are: one that nobody gives tells it. */
static est_status make_baseline_features(job_runner *r)
{
    const float       zero    = 0;
    const est_column *nothing = est_numeric_column(r->columns, "row", EST_NUMERIC(.default_value = { &zero, 1 }));

    return est_parse_spec_create(EST_COLUMN_LIST(nothing), &r->features);
}

/* The label, and the weight if there is one. */
static est_status make_baseline_specs(job_runner *r)
{
    const job_data   *d       = &r->job->data;
    est_feature_spec *specs   = est_arena_alloc(r->arena, 2 * sizeof *specs);
    est_csv_column   *columns = est_arena_alloc(r->arena, 2 * sizeof *columns);
    est_dtype         dtype   = r->job->model.n_classes == JOB_NO_INT ? EST_F32
                                : d->label.vocabulary.data != NULL    ? EST_STRING
                                                                      : EST_I64;

    if (specs == NULL || columns == NULL) return est_no_memory();
    specs[0] = (est_feature_spec){ .name = d->label.name, .dtype = dtype, .shape = EST_SHAPE(1) };
    if (dtype == EST_F32) specs[0].shape = EST_SHAPE(r->job->model.label_dimension);
    specs[1]   = (est_feature_spec){ .name = d->weight, .dtype = EST_F32, .shape = EST_SHAPE(1) };
    r->specs   = specs;
    r->n_specs = d->weight != NULL ? 2 : 1;
    for (int i = 0; i < r->n_specs; i++) {
        columns[i] = (est_csv_column){ .name = specs[i].name, .dtype = specs[i].dtype, .required = true };
    }
    r->csv = (est_csv_columns){ columns, r->n_specs };
    return EST_OK;
}

/* Everything is read as Examples would give it, whatever the format: rows of a fixed number of values as [batch, n], and
 * all others ragged. */
static est_status make_components(job_runner *r)
{
    r->components = est_arena_alloc(r->arena, (size_t)(r->n_specs + 1) * sizeof *r->components);
    if (r->components == NULL) return est_no_memory();
    for (int i = 0; i < r->n_specs; i++) {
        const est_feature_spec *spec = &r->specs[i];
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
                     "\"%s\" is also read for a feature of the model; leave that out, or name another field", name),
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
    for (int i = 0; i < heads->n; i++) EST_TRY(check_apart(r, heads->data[i].node, "the label", heads->data[i].label));
    return EST_OK;
}

static est_status make_specs(job_runner *r)
{
    bool            classifier = job_n_classes(&r->job->model) != JOB_NO_INT;
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
    r->specs   = est_parse_spec_features(r->rows).data;
    r->n_specs = est_parse_spec_features(r->rows).n;
    EST_TRY(make_csv(r));
    return make_components(r);
}

/* --- an earlier checkpoint -------------------------------------------------------------------------------------------- */

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
                     "its dimension is %lld, and %lld in %s, which was trained before; set it back, or "
                     "name another run.model_dir",
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

        if (runner->made[i] == NULL || (f->type != JOB_EMBEDDING && f->type != JOB_DYNAMIC)) continue;
        status = check_table(f, est_column_name(runner->made[i][0]), opened);
    }
    est_checkpoint_close(opened);
    return status;
}

/* --- all of it -------------------------------------------------------------------------------------------------------- */

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
    if (status == EST_OK) status = make_strategies(runner, alone);
    if (status == EST_OK) {
        make_config(runner, quiet, no_signals);
        status = make_estimator(runner);
    }
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
