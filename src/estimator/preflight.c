/* SPDX-License-Identifier: Apache-2.0
 *
 * Preflight checks of inputs, graphs, variables and metric names. stop_check.c checks early stopping. */
#include "estimator/preflight.h"

#include <stdlib.h>
#include <string.h>

#include "base/callback.h"
#include "base/file.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "data/stage.h"
#include "estimator/stop_check.h"
#include "estoc/exporter.h"
#include "estoc/layers.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "train/hooks.h"

typedef struct preflight {
    est_estimator       *estimator;
    est_hooks            hooks;   /* of the training */
    const est_eval_spec *eval;    /* NULL: est_train */
    const est_model     *trained; /* NULL: this process does not train */
    est_dataset         *input;   /* of the evaluation */
    est_model           *model;   /* in mode EST_EVAL; NULL: unknown here */
    const char         **names;   /* [n_names] of its metrics, sorted; in the model's arena */
    int                  n_names;
} preflight;

/* --- variables ---------------------------------------------------------------------------------------------------- */

static const char *variable_name(const est_node_def *def)
{
    return est_node_string(def, "shared_name");
}

static est_status compare_variable(const est_node_def *is, const est_node_def *trained)
{
    est_dtype        dtypes[2] = { est_node_type(is, "dtype"), est_node_type(trained, "dtype") };
    const est_shape *shapes[2] = { &is->shape[0], &trained->shape[0] };
    char             texts[2][EST_SHAPE_TEXT_MAX];

    if (dtypes[0] == dtypes[1] && est_shape_equal(shapes[0], shapes[1])) return EST_OK;
    return est_fail(
        EST_INVALID_ARGUMENT,
        "the variable '%s' is %s %s, but %s %s in training; give features the same types and shapes in all modes",
        variable_name(is), est_dtype_name(dtypes[0]), est_shape_text(shapes[0], texts[0]), est_dtype_name(dtypes[1]),
        est_shape_text(shapes[1], texts[1]));
}

/* Finds a variable of a collection by name; of the whole graph if the collection is NULL. */
static est_status map_variables(const est_graph *graph, const char *collection, est_map *out)
{
    est_nodes some = collection != NULL ? est_graph_collection(graph, collection) : EST_NO_NODES;

    for (int i = 0; i < some.n; i++) {
        est_node_def *def = est_graph_node(graph, some.data[i].id);

        EST_TRY(est_map_put(out, variable_name(def), def));
    }
    for (int32_t i = 0; collection == NULL && i < est_graph_size(graph); i++) {
        est_node_def *def = est_graph_node(graph, i);

        if (def->op->source == EST_SOURCE_VARIABLE) EST_TRY(est_map_put(out, variable_name(def), def));
    }
    return EST_OK;
}

/* `without`: variables that checkpoints need not have. */
static est_status compare_variables(const est_graph *graph, const est_map *without, const est_map *trained)
{
    for (int32_t i = 0; i < est_graph_size(graph); i++) {
        const est_node_def *def = est_graph_node(graph, i), *that;

        if (def->op->source != EST_SOURCE_VARIABLE || est_map_get(without, variable_name(def)) != NULL) continue;
        that = est_map_get(trained, variable_name(def));
        if (that == NULL) {
            return est_fail(EST_FAILED_PRECONDITION,
                            "training has no variable '%s', so that no checkpoint will have it; create it in all modes",
                            variable_name(def));
        }
        EST_TRY(compare_variable(def, that));
    }
    return EST_OK;
}

est_status est_preflight_variables(const est_model *model, const est_model *trained)
{
    est_map    without = { 0 }, there = { 0 };
    est_status status = map_variables(model->graph, "local_variables", &without);

    if (status == EST_OK) status = map_variables(model->graph, EST_OPTIONAL_VARIABLES, &without);
    if (status == EST_OK) status = map_variables(trained->graph, NULL, &there);
    if (status == EST_OK) status = compare_variables(model->graph, &without, &there);
    est_map_clear(&without);
    est_map_clear(&there);
    return status;
}

/* --- names of metrics --------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static est_status list_names(preflight *p)
{
    const est_model_metric_item *metrics = p->model->metrics.data;

    p->names = est_arena_alloc(p->model->arena, (size_t)(p->model->metrics.n + 2) * sizeof *p->names);
    if (p->names == NULL) return est_no_memory();
    for (int i = 0; i < p->model->metrics.n; i++) p->names[p->n_names++] = metrics[i].name;
    p->names[p->n_names++] = "loss";
    qsort(p->names, (size_t)p->n_names, sizeof *p->names, by_text);
    p->names[p->n_names++] = "global_step";
    return EST_OK;
}

static bool has_name(const char *const *names, int n, const char *metric)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], metric) == 0) return true;
    }
    return false;
}

/* `what` and the metric begin a sentence: "it compares". */
static est_status check_name(const char *const *names, int n, const char *metric, const char *what)
{
    est_strbuf  all   = { 0 };
    const char *meant = est_nearest(metric, names, (size_t)n);
    est_status  status;

    if (has_name(names, n, metric)) return EST_OK;
    for (int i = 0; i < n; i++) est_strbuf_printf(&all, "%s%s", i > 0 ? ", " : "", names[i]);
    status = est_fail(EST_INVALID_ARGUMENT,
                      "%s the metric \"%s\", but evaluations have no such metric%s%s%s; they "
                      "have %s",
                      what, metric, meant != NULL ? " (did you mean \"" : "", meant != NULL ? meant : "",
                      meant != NULL ? "\"?)" : "", est_strbuf_text(&all));
    est_strbuf_clear(&all);
    return status;
}

static est_status check_stop_names(const preflight *p)
{
    for (int i = 0; i < p->hooks.n; i++) {
        est_stop_rule rule;

        if (!est_early_stopping_rule(p->hooks.data[i], &rule)) continue;
        if (!est_stop_reads_own(p->estimator, &rule)) continue; /* these may be results of another model */
        EST_TRY(check_name(p->names, p->n_names - 1, rule.metric, "early stopping looks for")); /* in event files */
    }
    return EST_OK;
}

/* --- exporters ---------------------------------------------------------------------------------------------------- */

static est_status check_exporter(const preflight *p, est_exporter *exporter)
{
    est_strbuf path   = { 0 };
    est_status status = EST_OK;

    if (EST_MEMBER(exporter, metric) != NULL && p->model != NULL)
        status = check_name(p->names, p->n_names, exporter->metric, "it compares");
    est_strbuf_printf(&path, "%s/export/%s", p->estimator->model_dir, est_exporter_name(exporter));
    if (status == EST_OK) status = est_strbuf_status(&path);
    if (status == EST_OK) status = est_dir_check(est_strbuf_text(&path));
    if (status == EST_OK && EST_MEMBER(exporter, check) != NULL) {
        status = EST_CALLBACK(exporter->check(exporter, p->estimator), "check");
    }
    est_strbuf_clear(&path);
    return status == EST_OK ? EST_OK : est_fail_context(status, "exporter %s", est_exporter_name(exporter));
}

/* During the check the estimator knows the trained variables, for est_export_check_model. */
static est_status check_exporters(const preflight *p)
{
    est_status status = EST_OK;

    p->estimator->known = p->trained != NULL ? p->trained : p->model;
    for (int i = 0; i < p->eval->exporters.n && status == EST_OK; i++) {
        status = check_exporter(p, p->eval->exporters.data[i]);
    }
    p->estimator->known = NULL;
    return status;
}

/* --- the evaluation ----------------------------------------------------------------------------------------------- */

/* Whether this process must be able to read the input of evaluations. */
static bool evaluates_here(const preflight *p)
{
    return p->trained == NULL || est_evaluates_itself(p->estimator->self.task) ||
           est_evaluates_across_workers(p->estimator);
}

static est_status open_input(preflight *p)
{
    const est_run_config *config = &p->estimator->config;

    EST_TRY(est_estimator_input(p->estimator, EST_EVAL, p->eval->input_fn, p->eval->input_user, config->seed,
                                config->seed, &p->input));
    EST_TRY(est_dataset_check(p->input));
    if (p->eval->steps == 0 && est_dataset_endless(p->input)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "eval spec: steps is 0, until the input ends, and the input repeats for ever; set steps "
                        "(TensorFlow's default is 100), or leave out the repeat in mode EST_EVAL");
    }
    return est_dataset_peek(p->input);
}

/* Checks the directory of results, which early stopping and the best exporter read. */
static est_status check_results(const preflight *p)
{
    const char *name = p->eval->name != NULL ? p->eval->name : "";
    est_strbuf  path = { 0 };
    est_status  status;

    est_strbuf_printf(&path, "%s/eval%s%s", p->estimator->model_dir, name[0] != '\0' ? "_" : "", name);
    status = est_strbuf_status(&path);
    if (status == EST_OK) status = est_dir_check(est_strbuf_text(&path));
    est_strbuf_clear(&path);
    return status;
}

static est_status check_input(preflight *p)
{
    est_status status = open_input(p);

    if (status == EST_OK) return EST_OK;
    if ((status != EST_NOT_FOUND && status != EST_PERMISSION_DENIED) || evaluates_here(p)) {
        return est_fail_context(status, "eval spec");
    }
    if (est_has_evaluator(p->estimator, p->eval)) {
        est_log_info("The input of evaluations is not checked here, the evaluator reads it: %s", est_error_message());
    } else {
        est_log_warn("The final evaluation will fail after the training, unless an evaluator is started or the "
                     "input of evaluations is there by then: %s",
                     est_error_message());
    }
    return EST_OK;
}

/* Builds the evaluation model over the input of evaluations, or over that of the training. */
static est_status check_model(preflight *p, const est_dataset *input)
{
    EST_TRY(est_estimator_build(p->estimator, EST_EVAL, input, p->estimator->config.seed, &p->model));
    if (p->trained != NULL) {
        est_status status = est_preflight_variables(p->model, p->trained);

        if (status != EST_OK) return est_fail_context(status, "model_fn, mode eval");
    }
    return list_names(p);
}

static est_status check_evaluation(preflight *p)
{
    EST_TRY(check_input(p));
    EST_TRY(check_results(p));
    if (p->input != NULL) {
        est_status status = check_model(p, p->input);

        if (status != EST_OK) return est_fail_context(status, "eval spec");
        status = check_stop_names(p);
        if (status != EST_OK) return est_fail_context(status, "train spec");
    }
    return check_exporters(p);
}

static void clear(preflight *p)
{
    est_model_free(p->model);
    est_dataset_free(p->input);
}

/* --- what others call --------------------------------------------------------------------------------------------- */

/* est_train has no input for evaluations; that of the training usually has everything they need. The process that
 * evaluates may have more metrics, so an unknown name is not an error. */
static est_status check_hooks(preflight *p, const est_dataset *input)
{
    if (check_model(p, input) != EST_OK) {
        est_log_info("The metrics of early stopping are not checked: %s", est_error_message());
    } else if (check_stop_names(p) != EST_OK) {
        est_log_warn("%s; ignore this if another process adds that metric", est_error_message());
    }
    return EST_OK;
}

est_status est_preflight_training(const est_training *t)
{
    preflight  p = { .estimator = t->estimator, .hooks = t->options->hooks, .eval = t->call.eval, .trained = t->model };
    est_status status;

    if (!t->estimator->self.is_chief) return EST_OK;
    if (t->call.eval == NULL && !est_any_stop_rule(p.hooks)) return EST_OK;
    status = t->call.eval != NULL ? check_evaluation(&p) : check_hooks(&p, t->input);
    if (status == EST_OK) status = est_stop_check(t);
    if (status == EST_OK && t->call.checked != NULL) {
        *t->call.checked = p.input;
        p.input          = NULL;
    }
    clear(&p);
    return status;
}

est_status est_preflight_evaluator(est_estimator *estimator, est_hooks hooks, const est_eval_spec *eval)
{
    preflight  p      = { .estimator = estimator, .hooks = hooks, .eval = eval };
    est_status status = check_evaluation(&p);

    clear(&p);
    return status;
}
