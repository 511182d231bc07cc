/* SPDX-License-Identifier: Apache-2.0
 *
 * The model that a model_fn builds: its graph, features and labels, and everything that model_fn registers (loss,
 * training operation, metrics, predictions, export outputs, summaries, hooks). Builders cannot fail visibly: the model
 * keeps the first error. */
#include "estimator/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/argument.h"
#include "base/callback.h"
#include "base/strbuf.h"
#include "estoc/layers.h"
#include "estoc/ops.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "nn/metric.h"
#include "train/hooks.h"

static const char *const mode_names[] = { "train", "eval", "predict" };

/* --- making and freeing ------------------------------------------------------------------------------------------- */

static est_model *new_model(void)
{
    est_model *model = est_zalloc(sizeof *model);

    if (model == NULL) return NULL;
    model->arena = est_arena_create();
    if (model->arena == NULL) {
        est_free(model);
        return NULL;
    }
    model->feeds.item       = sizeof(est_loop_feed);
    model->predictions.item = sizeof(est_named_node);
    model->metrics.item     = sizeof(est_model_metric_item);
    model->exports.item     = sizeof(est_model_export);
    model->summaries.item   = sizeof(est_model_summary);
    model->hooks.item       = sizeof(est_model_hook);
    return model;
}

est_status est_model_create(est_mode mode, const est_run_config *config, const est_task *task, const est_dataset *input,
                            uint64_t seed, est_model **out)
{
    est_model *model = new_model();
    est_status status;

    if (model == NULL) return est_no_memory();
    status = est_graph_create(seed, &model->graph);
    if (status != EST_OK) {
        est_model_free(model);
        return status;
    }
    if (config != NULL) (void)est_graph_precision(model->graph, config->precision);
    model->mode   = mode;
    model->config = config;
    model->task   = task;
    model->input  = input;
    *out          = model;
    return EST_OK;
}

est_status est_model_create_replica(const est_model *first, int replica, est_model **out)
{
    est_model *model = new_model();

    if (model == NULL) return est_no_memory();
    model->graph   = first->graph;
    model->mode    = first->mode;
    model->config  = first->config;
    model->task    = first->task;
    model->input   = first->input;
    model->replica = replica;
    *out           = model;
    return EST_OK;
}

void est_model_free(est_model *model)
{
    est_model_hook *hooks;

    if (model == NULL) return;
    hooks = model->hooks.data;
    for (int i = 0; i < model->hooks.n; i++) est_hook_free(hooks[i].hook);
    est_map_clear(&model->receiver);
    est_map_clear(&model->nodes);
    if (model->replica == 0) est_graph_free(model->graph);
    est_arena_free(model->arena);
    est_free(model);
}

/* Keeps the thread's last error if it is the first. */
static void model_fail(est_model *model, est_status status)
{
    if (model->failed != EST_OK) return;
    model->failed = status;
    est_error_take(status, &model->error);
}

est_status est_model_status(const est_model *model)
{
    EST_REQUIRE(model);
    if (model->failed != EST_OK) return est_error_raise(&model->error);
    return est_graph_status(model->graph);
}

/* Growing leaves old blocks in the arena: lists are short. */
void *est_model_list_add(est_model *model, est_model_list *list)
{
    if (list->n == list->capacity) {
        int   capacity = list->capacity > 0 ? 2 * list->capacity : 8;
        void *data     = est_arena_alloc(model->arena, (size_t)capacity * list->item);

        if (data == NULL) {
            model_fail(model, est_no_memory());
            return NULL;
        }
        if (list->n > 0) memcpy(data, list->data, (size_t)list->n * list->item);
        list->data     = data;
        list->capacity = capacity;
    }
    return (char *)list->data + (size_t)list->n++ * list->item;
}

static const char *keep_name(est_model *model, const char *name, const char *what)
{
    const char *copy = NULL;

    if (model == NULL) return NULL;
    if (name == NULL || name[0] == '\0') {
        model_fail(model, est_fail(EST_INVALID_ARGUMENT, "%s needs a name", what));
        return NULL;
    }
    copy = est_arena_strdup(model->arena, name);
    if (copy == NULL) model_fail(model, est_no_memory());
    return copy;
}

est_graph *est_model_graph(est_model *model)
{
    return model != NULL ? model->graph : NULL;
}

const est_run_config *est_model_config(const est_model *model)
{
    return model != NULL ? model->config : NULL;
}

const est_task *est_model_task(const est_model *model)
{
    return model != NULL ? model->task : NULL;
}

est_node est_model_global_step(est_model *model)
{
    return model != NULL ? est_global_step(model->graph) : EST_NO_NODE;
}

/* --- input -------------------------------------------------------------------------------------------------------- */

bool est_model_has(const est_model *model, const char *name)
{
    if (model == NULL || name == NULL) return false;
    if (model->input != NULL) return est_dataset_find(model->input, name) >= 0;
    return est_map_get(&model->receiver, name) != NULL;
}

static est_status remember_node(est_model *model, est_map *map, const char *name, est_node node)
{
    est_node *kept = est_arena_alloc(model->arena, sizeof *kept);

    if (kept == NULL) return est_no_memory();
    *kept = node;
    return est_map_put(map, name, kept);
}

est_status est_model_receive(est_model *model, const char *name, est_node node)
{
    return remember_node(model, &model->receiver, name, node);
}

/* Appends the names of the components that exist, for the error about a missing one. */
static void list_components(const est_model *model, est_strbuf *out)
{
    if (model->input != NULL) {
        for (int i = 0; i < est_dataset_components(model->input); i++) {
            est_strbuf_printf(out, "%s%s", i > 0 ? ", " : "", est_dataset_component(model->input, i)->name);
        }
    } else {
        const char *key;
        void       *value;

        for (uint32_t at = 0; est_map_next(&model->receiver, &at, &key, &value);) {
            est_strbuf_printf(out, "%s%s", out->size > 0 ? ", " : "", key);
        }
    }
}

static est_node missing(est_model *model, const char *kind, const char *name)
{
    est_strbuf there = { 0 };
    est_status status;

    list_components(model, &there);
    status = est_fail(EST_INVALID_ARGUMENT,
                      "the model reads the %s \"%s\", but the input has no such component; it has: %s", kind,
                      name != NULL ? name : "(NULL)", est_strbuf_text(&there));
    est_strbuf_clear(&there);
    model_fail(model, status);
    return est_graph_poison(model->graph, status);
}

static est_node name_input(est_model *model, est_node node, const char *name)
{
    const char *full = est_arena_printf(model->arena, "IteratorGetNext/%s", name);

    return full != NULL ? est_named(node, full) : est_graph_poison(model->graph, est_no_memory());
}

/* The placeholder for a component, or for its splits; created on first use. */
static est_node component_node(est_model *model, int i, bool splits)
{
    const est_component *component = est_dataset_component(model->input, i);
    est_strbuf           name      = { 0 };
    est_node             node;
    est_loop_feed       *feed;
    est_status           status;

    est_strbuf_printf(&name, "%s%s", component->name, splits ? EST_SPLITS_SUFFIX : "");
    {
        est_node *made = est_map_get(&model->nodes, est_strbuf_text(&name));

        if (made != NULL) {
            est_strbuf_clear(&name);
            return *made;
        }
    }
    /* Placeholders get a scope that no layer uses: checkpoints find variables by name, and a serving graph without
     * these placeholders must give variables the same names. */
    node   = est_placeholder(model->graph, NULL, splits ? EST_I64 : component->dtype,
                           splits ? EST_SHAPE(-1) : component->shape);
    node   = name_input(model, node, est_strbuf_text(&name));
    status = remember_node(model, &model->nodes, est_strbuf_text(&name), node);
    if (status != EST_OK) model_fail(model, status);
    est_strbuf_clear(&name);
    feed = est_model_list_add(model, &model->feeds);
    if (feed != NULL)
        *feed = (est_loop_feed){ .node = node, .component = i, .splits = splits, .replica = model->replica };
    return node;
}

static est_node input_node(est_model *model, const char *kind, const char *name)
{
    int i;

    if (name == NULL) return missing(model, kind, name);
    if (model->input == NULL) {
        est_node *given = est_map_get(&model->receiver, name);

        return given != NULL ? *given : missing(model, kind, name);
    }
    i = est_dataset_find(model->input, name);
    if (i < 0) return missing(model, kind, name);
    if (est_dataset_component(model->input, i)->ragged) {
        est_status status = est_fail(EST_INVALID_ARGUMENT, "the %s %s is ragged; use est_model_ragged", kind, name);

        model_fail(model, status);
        return est_graph_poison(model->graph, status);
    }
    return component_node(model, i, false);
}

est_node est_model_feature(est_model *model, const char *name)
{
    return model != NULL ? input_node(model, "feature", name) : EST_NO_NODE;
}

est_node est_model_label(est_model *model, const char *name)
{
    if (model == NULL) return EST_NO_NODE;
    if (model->mode == EST_PREDICT) {
        est_status status = est_fail(
            EST_INVALID_ARGUMENT,
            "the model reads the label \"%s\" in predict mode, which has no labels; return before reading it",
            name != NULL ? name : "(NULL)");

        model_fail(model, status);
        return est_graph_poison(model->graph, status);
    }
    return input_node(model, "label", name);
}

/* The splits that an export receives under that name; NULL: it has none. */
static est_node *received_splits(est_model *model, const char *name)
{
    est_strbuf splits = { 0 };
    est_node  *found;

    est_strbuf_printf(&splits, "%s" EST_SPLITS_SUFFIX, name);
    found = est_map_get(&model->receiver, est_strbuf_text(&splits));
    est_strbuf_clear(&splits);
    return found;
}

est_ragged_node est_model_ragged(est_model *model, const char *name)
{
    est_ragged_node ragged = { EST_NO_NODE, EST_NO_NODE };
    int             i;

    if (model == NULL) return ragged;
    i = est_dataset_find(model->input, name);
    if (name == NULL) {
        ragged.values = ragged.splits = missing(model, "ragged feature", name);
    } else if (model->input == NULL) {
        est_node *values = est_map_get(&model->receiver, name);
        est_node *found  = received_splits(model, name);

        ragged.values = values != NULL ? *values : missing(model, "ragged feature", name);
        ragged.splits = found != NULL ? *found : missing(model, "ragged feature", name);
    } else if (i < 0 || !est_dataset_component(model->input, i)->ragged) {
        ragged.values = ragged.splits = missing(model, "ragged feature", name);
    } else {
        ragged.values = component_node(model, i, false);
        ragged.splits = component_node(model, i, true);
    }
    return ragged;
}

/* A component as a feature, dense or ragged; the caller reports a missing one. */
static est_feature find_feature(void *user, const char *name)
{
    est_model  *model   = user;
    est_feature feature = { 0 };

    if (!est_model_has(model, name)) return feature;
    if (model->input != NULL) {
        int i = est_dataset_find(model->input, name);

        feature.values = component_node(model, i, false);
        if (est_dataset_component(model->input, i)->ragged) feature.splits = component_node(model, i, true);
    } else {
        est_node *splits = received_splits(model, name);

        feature.values = *(est_node *)est_map_get(&model->receiver, name);
        if (splits != NULL) feature.splits = *splits;
    }
    return feature;
}

static void list_features(void *user, char *text, size_t size)
{
    est_strbuf there = { 0 };

    list_components(user, &there);
    (void)snprintf(text, size, "%s", est_strbuf_text(&there));
    est_strbuf_clear(&there);
}

est_features est_model_features(est_model *model)
{
    if (model == NULL) return (est_features){ 0 };
    return (est_features){ .graph = model->graph, .find = find_feature, .user = model, .list = list_features };
}

/* --- output ------------------------------------------------------------------------------------------------------- */

/* Whether the model can use a node; if not, records the error. `name` is "" for things without a name. */
static bool check_node(est_model *model, const char *what, const char *name, est_node node)
{
    if (node.graph == model->graph) return true;
    model_fail(model,
               est_fail(EST_INVALID_ARGUMENT, "%s%s%s is a node %s", what, name[0] != '\0' ? " " : "", name,
                        node.graph == NULL ? "that does not exist" : "of another graph; build it in est_model_graph"));
    return false;
}

void est_model_predict(est_model *model, const char *key, est_node value)
{
    const char           *name = keep_name(model, key, "a prediction");
    const est_named_node *predictions;
    est_named_node       *item;

    if (name == NULL || !check_node(model, "the prediction", name, value)) return;
    predictions = model->predictions.data;
    for (int i = 0; i < model->predictions.n; i++) {
        if (strcmp(predictions[i].name, key) != 0) continue;
        model_fail(model, est_fail(EST_INVALID_ARGUMENT, "two predictions are called %s", key));
        return;
    }
    item = est_model_list_add(model, &model->predictions);
    if (item != NULL) *item = (est_named_node){ .name = name, .node = value };
}

void est_model_predict_ragged(est_model *model, const char *key, est_ragged_node value)
{
    const char *splits;

    if (model == NULL) return;
    est_model_predict(model, key, value.values);
    if (key == NULL || key[0] == '\0') return; /* the error is already recorded */
    splits = est_arena_printf(model->arena, "%s" EST_SPLITS_SUFFIX, key);
    if (splits == NULL) {
        model_fail(model, est_no_memory());
        return;
    }
    est_model_predict(model, splits, value.splits);
    if (value.splits.graph != NULL && est_node_dtype(value.splits) != EST_I64) {
        model_fail(model, est_fail(EST_INVALID_ARGUMENT, "the prediction %s has type %s; splits are int64", splits,
                                   est_dtype_name(est_node_dtype(value.splits))));
    }
}

est_node est_model_prediction(est_model *model, const char *key)
{
    const est_named_node *predictions = model != NULL ? model->predictions.data : NULL;

    for (int i = 0; predictions != NULL && key != NULL && i < model->predictions.n; i++) {
        if (strcmp(predictions[i].name, key) == 0) return predictions[i].node;
    }
    return EST_NO_NODE;
}

void est_model_loss(est_model *model, est_node loss)
{
    const est_shape *shape;
    char             text[EST_SHAPE_TEXT_MAX];

    if (model == NULL) return;
    if (!check_node(model, "the loss", "", loss)) return;
    shape = est_node_shape(loss);
    /* an unknown size is the batch's, so not a scalar; an unknown rank is checked by the run */
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] == 1) continue;
        (void)est_fail(EST_INVALID_ARGUMENT, "est_model_loss: the loss has shape %s; reduce it, as with est_mean",
                       est_shape_text(shape, text));
        model_fail(model, est_graph_blame(EST_INVALID_ARGUMENT));
        return;
    }
    model->loss = shape->rank == 0 ? loss : est_reshape(loss, (est_i64s){ 0 });
}

/* A shared state that the update of a metric changes; an evaluation would need it in the checkpoint and would not sum
 * it over workers. EST_NO_NODE: none. */
static est_node find_shared_state(est_metric metric)
{
    est_nodes           shared = est_graph_collection(metric.update.graph, EST_SHARED_STATES);
    const est_node_def *group  = est_def(metric.update);

    for (int32_t i = 0; group != NULL && i < group->n_control; i++) {
        const est_node_def *update = est_graph_node(metric.update.graph, group->control[i]);

        for (int k = 0; k < shared.n; k++) {
            if (update->n_in > 0 && update->in[0].node == shared.data[k].id) return shared.data[k];
        }
    }
    return EST_NO_NODE;
}

void est_model_metric(est_model *model, const char *name, est_metric metric)
{
    est_node                     shared;
    const char                  *kept = keep_name(model, name, "a metric");
    const est_model_metric_item *metrics;
    est_model_metric_item       *item = NULL;

    if (kept == NULL) return;
    metrics = model->metrics.data;
    if (strcmp(name, "loss") == 0 || strcmp(name, "global_step") == 0) {
        model_fail(model, est_fail(EST_INVALID_ARGUMENT,
                                   "a metric cannot be called %s: every evaluation already has a value "
                                   "of that name",
                                   name));
        return;
    }
    if (metric.value.graph != model->graph || metric.update.graph != model->graph) {
        model_fail(model, est_fail(EST_INVALID_ARGUMENT,
                                   "the metric %s does not belong to this graph; create it with est_metric_mean, "
                                   "est_metric_custom or similar",
                                   name));
        return;
    }
    shared = find_shared_state(metric);
    if (shared.graph != NULL) {
        model_fail(model, est_fail(EST_INVALID_ARGUMENT,
                                   "the state '%s' of the metric %s is shared; the metrics of an evaluation have local "
                                   "states: create it without .shared",
                                   est_node_name(shared), name));
        return;
    }
    for (int i = 0; i < model->metrics.n; i++) { /* a later one replaces, as add_metrics does */
        if (strcmp(metrics[i].name, name) == 0) item = (est_model_metric_item *)model->metrics.data + i;
    }
    if (item == NULL) item = est_model_list_add(model, &model->metrics);
    if (item != NULL) *item = (est_model_metric_item){ .name = kept, .metric = metric };
}

void est_model_minimize(est_model *model, est_optimizer optimizer, est_node loss)
{
    if (model == NULL) return;
    est_model_train_op(model, est_minimize(optimizer, loss, NULL));
}

void est_model_train_op(est_model *model, est_node train_op)
{
    if (model == NULL) return;
    if (check_node(model, "the training operation", "", train_op)) model->train_op = train_op;
}

/* --- exports, summaries, hooks ------------------------------------------------------------------------------------ */

static void add_export(est_model *model, est_export_method method, const char *key, const est_named_node *outputs,
                       int n)
{
    const char       *name = keep_name(model, key, "an export output");
    est_named_node   *copy = est_arena_alloc(model->arena, (size_t)(n + 1) * sizeof *copy);
    est_model_export *item;

    if (name == NULL) return;
    if (copy == NULL) {
        model_fail(model, est_no_memory());
        return;
    }
    for (int i = 0; i < n; i++) {
        copy[i] = (est_named_node){ keep_name(model, outputs[i].name, "an export output"), outputs[i].node };
        if (copy[i].name == NULL) return;
    }
    item = est_model_list_add(model, &model->exports);
    if (item != NULL) *item = (est_model_export){ .method = method, .key = name, .outputs = copy, .n_outputs = n };
}

void est_model_export_predict(est_model *model, const char *key, est_named_nodes outputs)
{
    if (model == NULL) return;
    if (outputs.n < 1 || outputs.data == NULL) {
        model_fail(model,
                   est_fail(EST_INVALID_ARGUMENT, "the export output %s has no values", key != NULL ? key : "NULL"));
        return;
    }
    add_export(model, EST_EXPORT_PREDICT, key, outputs.data, outputs.n);
}

void est_model_export_classify(est_model *model, const char *key, est_node scores, est_node classes)
{
    est_named_node outputs[2];
    int            n = 0;

    if (model == NULL) return;
    if (classes.graph != NULL) outputs[n++] = (est_named_node){ "classes", classes };
    if (scores.graph != NULL) outputs[n++] = (est_named_node){ "scores", scores };
    if (n == 0) {
        model_fail(model, est_fail(EST_INVALID_ARGUMENT, "the export output %s needs scores or classes", key));
        return;
    }
    add_export(model, EST_EXPORT_CLASSIFY, key, outputs, n);
}

void est_model_export_regress(est_model *model, const char *key, est_node value)
{
    if (model == NULL) return;
    add_export(model, EST_EXPORT_REGRESS, key, &(est_named_node){ "outputs", value }, 1);
}

static void add_summary(est_model *model, est_summary_what what, const char *tag, est_node node, int max_images)
{
    const char        *name = keep_name(model, tag, "a summary");
    est_model_summary *item;
    est_status         status;

    if (name == NULL || !check_node(model, "the summary", name, node)) return;
    status = est_model_summary_check(what, name, est_node_dtype(node), est_node_shape(node));
    if (status != EST_OK) {
        model_fail(model, est_graph_blame(status));
        return;
    }
    item = est_model_list_add(model, &model->summaries);
    if (item != NULL) *item = (est_model_summary){ what, name, node, max_images };
}

void est_model_scalar(est_model *model, const char *tag, est_node value)
{
    add_summary(model, EST_MODEL_SCALAR, tag, value, 0);
}

void est_model_histogram(est_model *model, const char *tag, est_node values)
{
    add_summary(model, EST_MODEL_HISTOGRAM, tag, values, 0);
}

void est_model_text(est_model *model, const char *tag, est_node text)
{
    add_summary(model, EST_MODEL_TEXT, tag, text, 0);
}

void est_model_image(est_model *model, const char *tag, est_node images, int max_images)
{
    if (model == NULL) return;
    if (max_images < 1) {
        model_fail(model,
                   est_fail(EST_INVALID_ARGUMENT, "summary %s: max_images is %d; write how many to show, above 0",
                            tag != NULL ? tag : "", max_images));
        return;
    }
    add_summary(model, EST_MODEL_IMAGE, tag, images, max_images);
}

static void add_hook(est_model *model, est_hook_kind kind, est_hook *hook)
{
    const char     *why = est_error_message(); /* the hook is NULL because its constructor failed */
    est_model_hook *item;

    if (model == NULL) {
        est_hook_free(hook);
        return;
    }
    if (hook == NULL) {
        model_fail(model, est_fail(EST_INVALID_ARGUMENT, "a hook is NULL%s%s", why[0] != '\0' ? ": " : "", why));
        return;
    }
    if (est_hook_check(hook) != EST_OK) {
        model_fail(model, EST_INVALID_ARGUMENT);
        return;
    }
    item = est_model_list_add(model, &model->hooks);
    if (item == NULL) {
        est_hook_free(hook);
        return;
    }
    *item = (est_model_hook){ kind, hook };
}

void est_model_training_hook(est_model *model, est_hook *hook)
{
    add_hook(model, EST_HOOK_TRAINING, hook);
}

void est_model_chief_hook(est_model *model, est_hook *hook)
{
    add_hook(model, EST_HOOK_CHIEF, hook);
}

void est_model_evaluation_hook(est_model *model, est_hook *hook)
{
    add_hook(model, EST_HOOK_EVALUATION, hook);
}

void est_model_prediction_hook(est_model *model, est_hook *hook)
{
    add_hook(model, EST_HOOK_PREDICTION, hook);
}

/* --- building ----------------------------------------------------------------------------------------------------- */

static est_status check_mode(const est_model *model)
{
    const char *mode = mode_names[model->mode];

    if (model->mode != EST_PREDICT && model->loss.graph == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "model_fn gave no loss in mode %s; call est_model_loss", mode);
    }
    if (model->mode == EST_TRAIN && model->train_op.graph == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "model_fn gave no training operation in mode %s; call est_model_minimize",
                        mode);
    }
    if (model->mode == EST_PREDICT && model->predictions.n == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "model_fn gave no prediction in mode %s; call est_model_predict", mode);
    }
    return EST_OK;
}

est_status est_model_build(est_model *model, est_model_fn model_fn, const void *params)
{
    est_status status;

    (void)est_global_step(model->graph); /* the first variable, as in TensorFlow */
    status = EST_CALLBACK(model_fn(model, model->mode, params), "it");
    if (status == EST_OK) status = est_model_status(model);
    if (status == EST_OK) status = check_mode(model);
    if (status != EST_OK) return est_fail_context(status, "model_fn, mode %s", mode_names[model->mode]);
    return EST_OK;
}

est_status est_model_place(est_model *model)
{
    const est_run_config *config = model->config;

    if (config->device_fn == NULL) return EST_OK;
    for (int32_t i = 0; i < est_graph_size(model->graph); i++) {
        est_node_def *def    = est_graph_node(model->graph, i);
        est_status    status = est_graph_place(model->graph, def, config->device_fn, config->device_user);

        if (status != EST_OK) return est_fail_context(status, "RunConfig: device_fn, operation %s", def->name);
    }
    return EST_OK;
}
