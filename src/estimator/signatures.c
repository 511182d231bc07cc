/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures of an export: every output with every way to feed it. A predict signature accepts every input of the
 * receiver; classify and regress requests carry Examples, so these signatures need exactly one string input and are
 * excluded otherwise. Graphs to train and to evaluate have one output with the loss, predictions and metrics. */
#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "estimator/export.h"
#include "estoc/ops.h"
#include "graph/op.h"

static const char *const method_titles[] = { "Classify", "Regress", "Predict", "Train", "Eval" };

const char *est_export_tag(est_mode mode)
{
    return mode == EST_TRAIN ? "train" : mode == EST_EVAL ? "eval" : "serve";
}

const char *est_export_signature_input(const est_export_signature *signature, const est_named_node *input)
{
    return signature->method == EST_EXPORT_CLASSIFY || signature->method == EST_EXPORT_REGRESS ? "inputs" : input->name;
}

/* --- what the model says ------------------------------------------------------------------------------------------ */

static const est_model_export *find(const est_model_export *items, int n, const char *key)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(items[i].key, key) == 0) return &items[i];
    }
    return NULL;
}

static est_status check_type(const est_model_export *output, int i, est_dtype want)
{
    est_dtype have = est_node_dtype(output->outputs[i].node);

    if (have == want) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "export output %s: %s is %s, it must be %s", output->key,
                    output->outputs[i].name, est_dtype_name(have), est_dtype_name(want));
}

static est_status check_output(const est_model_export *output, const est_graph *graph)
{
    for (int i = 0; i < output->n_outputs; i++) {
        if (output->outputs[i].node.graph != graph) {
            return est_fail(EST_INVALID_ARGUMENT, "export output %s: %s is a node that does not exist", output->key,
                            output->outputs[i].name);
        }
        if (output->method != EST_EXPORT_PREDICT) { /* classify or regress */
            EST_TRY(check_type(output, i, strcmp(output->outputs[i].name, "classes") == 0 ? EST_STRING : EST_F32));
        }
    }
    return EST_OK;
}

/* The outputs of a model to serve, with the rules about their default. */
static est_status collect(const est_export_model *e, est_model_export *out, int *n)
{
    const est_model        *model = e->model;
    const est_model_export *given = model->exports.data;

    *n = 0;
    if (model->exports.n == 0) {
        out[(*n)++] = (est_model_export){ .method    = EST_EXPORT_PREDICT,
                                          .key       = EST_SERVING_DEFAULT,
                                          .outputs   = model->predictions.data,
                                          .n_outputs = model->predictions.n };
    }
    for (int i = 0; i < model->exports.n; i++) {
        EST_TRY(check_output(&given[i], model->graph));
        if (find(out, *n, given[i].key) != NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "two export outputs are called %s", given[i].key);
        }
        out[(*n)++] = given[i];
    }
    if (find(out, *n, EST_SERVING_DEFAULT) != NULL) return EST_OK;
    if (*n > 1) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the model has %d export outputs and none is called " EST_SERVING_DEFAULT
                        "; give one of them that name",
                        *n);
    }
    out[1]     = out[0];
    out[1].key = EST_SERVING_DEFAULT;
    *n         = 2;
    return EST_OK;
}

/* --- training and evaluation -------------------------------------------------------------------------------------- */

/* Adds "prefix/name<suffix>", without the prefix where the name begins with it: TensorFlow's rule. */
static est_status add_output(est_export_model *e, est_model_export *out, const char *prefix, const char *name,
                             const char *suffix, est_node node)
{
    bool  has = strncmp(name, prefix, strlen(prefix)) == 0;
    char *key = est_arena_printf(e->model->arena, "%s%s%s%s", has ? "" : prefix, has ? "" : "/", name, suffix);

    if (key == NULL) return est_no_memory();
    out->outputs[out->n_outputs++] = (est_named_node){ key, node };
    return EST_OK;
}

/* Signatures can name only tensors, so an operation is represented by an empty tensor that depends on it. */
static est_node as_tensor(est_node operation)
{
    return est_after(est_const_f32(operation.graph, EST_SHAPE(0), NULL), operation);
}

/* The loss, the predictions and the metrics, and the operation that resets the metrics. */
static est_status collect_supervised(est_export_model *e, est_model_export *out)
{
    const est_model             *model       = e->model;
    const est_named_node        *predictions = model->predictions.data;
    const est_model_metric_item *metrics     = model->metrics.data;
    size_t                       n           = (size_t)model->predictions.n + 2 * (size_t)model->metrics.n + 1;
    est_node                    *resets      = est_arena_alloc(model->arena, n * sizeof *resets);

    *out = (est_model_export){ .method  = model->mode == EST_TRAIN ? EST_EXPORT_TRAIN : EST_EXPORT_EVAL,
                               .key     = est_export_tag(model->mode),
                               .outputs = est_arena_alloc(model->arena, n * sizeof *out->outputs) };
    if (out->outputs == NULL || resets == NULL) return est_no_memory();
    EST_TRY(add_output(e, out, "loss", "loss", "", model->loss));
    for (int i = 0; i < model->predictions.n; i++) {
        EST_TRY(add_output(e, out, "predictions", predictions[i].name, "", predictions[i].node));
    }
    for (int i = 0; i < model->metrics.n; i++) {
        const est_metric *metric = &metrics[i].metric;

        EST_TRY(add_output(e, out, "metrics", metrics[i].name, "/value", metric->value));
        EST_TRY(add_output(e, out, "metrics", metrics[i].name, "/update_op", as_tensor(metric->update)));
        resets[i] = metric->reset;
    }
    if (model->metrics.n > 0) {
        e->init = est_named(est_group(model->graph, (est_nodes){ resets, model->metrics.n }), "init_metrics");
    }
    return est_graph_status(model->graph);
}

/* --- what can be served ------------------------------------------------------------------------------------------- */

/* Why an output cannot be served; NULL: it can. */
static const char *reason_against(const est_feed_group *feeds, est_export_method method)
{
    if (method != EST_EXPORT_CLASSIFY && method != EST_EXPORT_REGRESS) return NULL;
    if (feeds->n_inputs == 1 && est_node_dtype(feeds->inputs[0].node) == EST_STRING) return NULL;
    return method == EST_EXPORT_CLASSIFY ? "Classification input must be a single string Tensor"
                                         : "Regression input must be a single string Tensor";
}

static bool is_fed(const est_export_signature *s, est_edge edge)
{
    for (int i = 0; i < s->feeds->n_inputs; i++) {
        if (s->feeds->inputs[i].node.id == edge.node && s->feeds->inputs[i].node.output == edge.output) return true;
    }
    return false;
}

/* Whether the feeds cover everything that the outputs need. Inputs have smaller ids, so one backward walk suffices. */
est_status est_export_check_feeds(const est_export_model *e, const est_export_signature *s)
{
    const est_graph *graph  = e->model->graph;
    bool            *needed = est_arena_alloc(e->model->arena, (size_t)est_graph_size(graph) + 1);

    if (needed == NULL) return est_no_memory();
    for (int i = 0; i < s->n_outputs; i++) {
        est_node node = s->outputs[i].node;

        needed[node.id] = needed[node.id] || !is_fed(s, (est_edge){ node.id, node.output });
    }
    for (int32_t id = est_graph_size(graph) - 1; id >= 0; id--) {
        const est_node_def *def = est_graph_node(graph, id);

        if (!needed[id]) continue;
        if (def->op->source == EST_SOURCE_FEED && !is_fed(s, (est_edge){ id, 0 })) {
            return est_fail(EST_INVALID_ARGUMENT, "%s %s does not feed all that %s needs: it leaves out %s",
                            e->own_feeds ? "signature" : "alternative", s->feeds->name, e->own_feeds ? "it" : s->key,
                            def->name);
        }
        for (int32_t i = 0; i < def->n_in; i++) {
            needed[def->in[i].node] = needed[def->in[i].node] || !is_fed(s, def->in[i]);
        }
        for (int32_t i = 0; i < def->n_control; i++) needed[def->control[i]] = true;
    }
    return EST_OK;
}

/* Signatures of all outputs over one group of feeds. */
static est_status add_signatures(est_export_model *e, const est_feed_group *feeds, const est_model_export *all, int n)
{
    for (int i = 0; i < n; i++) {
        est_export_signature *s     = &e->signatures[e->n_signatures];
        bool                  other = feeds->name[0] != '\0';

        if (reason_against(feeds, all[i].method) != NULL) continue;
        *s = (est_export_signature){ .method = all[i].method,
                                     .key = other ? est_arena_printf(e->model->arena, "%s:%s", feeds->name, all[i].key)
                                                  : all[i].key,
                                     .outputs   = all[i].outputs,
                                     .n_outputs = all[i].n_outputs,
                                     .feeds     = feeds };
        if (s->key == NULL) return est_no_memory();
        if (other) EST_TRY(est_export_check_feeds(e, s));
        e->n_signatures++;
    }
    return EST_OK;
}

/* --- the report --------------------------------------------------------------------------------------------------- */

static void log_included(const est_export_model *e)
{
    for (int method = EST_EXPORT_CLASSIFY; method <= EST_EXPORT_EVAL; method++) {
        est_strbuf keys = { 0 };

        for (int i = 0; i < e->n_signatures; i++) {
            if (e->signatures[i].method != (est_export_method)method) continue;
            est_strbuf_printf(&keys, "%s%s", keys.size > 0 ? ", " : "", e->signatures[i].key);
        }
        est_log_info("Signatures INCLUDED in export for %s: %s", method_titles[method],
                     keys.size > 0 ? est_strbuf_text(&keys) : "None");
        est_strbuf_clear(&keys);
    }
}

static void log_excluded(const est_export_model *e)
{
    int  n        = e->n_outputs;
    bool excluded = false;

    for (int i = 0; i < n * e->receiver.n_groups; i++) {
        const est_feed_group   *feeds  = &e->receiver.groups[i / n];
        const est_model_export *output = &e->outputs[i % n];
        const char             *reason = reason_against(feeds, output->method);

        if (reason == NULL) continue;
        if (!excluded) {
            est_log_info("Signatures EXCLUDED from export because they cannot be served via TensorFlow Serving APIs:");
        }
        excluded = true;
        est_log_info("'%s%s%s' : %s; got %d inputs, the first %s", feeds->name, feeds->name[0] != '\0' ? ":" : "",
                     output->key, reason, feeds->n_inputs, est_dtype_name(est_node_dtype(feeds->inputs[0].node)));
    }
}

static void warn_of_default(const est_export_model *e)
{
    for (int i = 0; i < e->n_signatures; i++) {
        if (strcmp(e->signatures[i].key, EST_SERVING_DEFAULT) == 0) return;
    }
    est_log_warn("Export includes no %s!", e->n_signatures == 0 ? "signatures" : "default signature");
}

est_status est_export_signatures(est_export_model *e)
{
    size_t room   = (size_t)e->model->exports.n + 2;
    size_t groups = (size_t)e->receiver.n_groups;
    int    n      = 1;

    e->init         = EST_NO_NODE;
    e->n_signatures = 0;
    e->outputs      = est_arena_alloc(e->model->arena, room * sizeof *e->outputs);
    e->signatures   = est_arena_alloc(e->model->arena, room * groups * sizeof *e->signatures);
    if (e->outputs == NULL || e->signatures == NULL) return est_no_memory();
    EST_TRY(e->model->mode == EST_PREDICT ? collect(e, e->outputs, &n) : collect_supervised(e, e->outputs));
    e->n_outputs = n;
    for (int g = 0; g < e->receiver.n_groups; g++) EST_TRY(add_signatures(e, &e->receiver.groups[g], e->outputs, n));
    return EST_OK;
}

void est_export_log_signatures(const est_export_model *e)
{
    log_included(e);
    log_excluded(e);
    if (e->model->mode == EST_PREDICT) warn_of_default(e);
}
