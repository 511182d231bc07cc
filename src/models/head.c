/* SPDX-License-Identifier: Apache-2.0
 *
 * The common part of all heads: construction, and everything in est_head_finish that is the same for all kinds. */
#include "models/head.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/argument.h"
#include "base/map.h"
#include "base/options.h"
#include "estimator/export.h"
#include "estoc/layers.h"
#include "estoc/ops.h"
#include "feature/column.h"
#include "graph/replicas.h"
#include "ops/ops.h"

/* --- making and freeing ------------------------------------------------------------------------------------------- */

static est_status check_taken(const est_head_kind *kind, const est_head_options *o)
{
    const struct {
        bool        given;
        unsigned    bit;
        const char *name;
    } options[] = {
        { o->label_vocabulary.n > 0, EST_HEAD_TAKES_VOCABULARY, "label_vocabulary" },
        { o->thresholds.n > 0, EST_HEAD_TAKES_THRESHOLDS, "thresholds" },
        { o->loss_fn != NULL, EST_HEAD_TAKES_LOSS_FN, "loss_fn" },
        { o->inverse_link != NULL, EST_HEAD_TAKES_INVERSE_LINK, "inverse_link" },
        { o->no_full_loss, EST_HEAD_TAKES_NO_FULL_LOSS, "no_full_loss" },
        { o->metric_classes.n > 0, EST_HEAD_TAKES_METRIC_CLASSES, "metric_classes" },
        { o->v1, EST_HEAD_TAKES_V1, "v1" },
    };

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (options[i].given && !(kind->takes & options[i].bit)) {
            return est_fail(EST_INVALID_ARGUMENT, "%s: it has no option %s; leave it out", kind->title,
                            options[i].name);
        }
    }
    return EST_OK;
}

static est_status check_vocabulary(const est_head_kind *kind, int64_t classes, const est_head_options *o)
{
    est_map    seen   = { 0 }; /* places + 1 by entry */
    est_status status = EST_OK;

    if (o->label_vocabulary.n == 0) return EST_OK;
    if (o->label_vocabulary.n != classes) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: label_vocabulary has %d entries for %" PRId64 " classes",
                        kind->title, o->label_vocabulary.n, classes);
    }
    for (int i = 0; i < o->label_vocabulary.n && status == EST_OK; i++) {
        const char *entry = o->label_vocabulary.data[i];
        uintptr_t   there = (uintptr_t)est_map_get(&seen, entry);

        status = there == 0 ? est_map_put(&seen, entry, (void *)((uintptr_t)i + 1))
                            : est_fail(EST_INVALID_ARGUMENT, "%s: label_vocabulary has '%s' twice, at %d and %d",
                                       kind->title, entry, (int)there - 1, i);
    }
    est_map_clear(&seen);
    return status;
}

static est_status check_weight(const est_head_kind *kind, const est_head_options *o)
{
    const est_column *column = o->weight_numeric;

    if (column == NULL) return EST_OK;
    if (o->weight_column != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: weight_column and weight_numeric are both given; set one of them",
                        kind->title);
    }
    EST_TRY(est_columns_status(column->set));
    if (column->kind == &est_numeric_kind) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%s: weight_numeric, \"%s\", is %s; it must be a numeric column", kind->title,
                    column->name, column->kind->what);
}

static est_status check_options(const est_head_kind *kind, int64_t classes, const est_head_options *o)
{
    EST_REQUIRE_LIST("label_vocabulary", o->label_vocabulary);
    EST_REQUIRE_LIST("thresholds", o->thresholds);
    EST_REQUIRE_LIST("metric_classes", o->metric_classes);
    EST_TRY(check_taken(kind, o));
    EST_TRY(check_vocabulary(kind, classes, o));
    if (o->loss_reduction == EST_LOSS_NONE) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s: loss_reduction is EST_LOSS_NONE, but training needs one number; "
                        "use another reduction",
                        kind->title);
    }
    EST_TRY(check_weight(kind, o));
    for (int i = 0; i < o->thresholds.n; i++) {
        if (o->thresholds.data[i] > 0 && o->thresholds.data[i] < 1) continue;
        return est_fail(EST_INVALID_ARGUMENT, "%s: threshold %d is %g, it must lie between 0 and 1", kind->title, i,
                        o->thresholds.data[i]);
    }
    for (int i = 0; i < o->metric_classes.n; i++) {
        if (o->metric_classes.data[i] >= 0 && o->metric_classes.data[i] < classes) continue;
        return est_fail(EST_INVALID_ARGUMENT, "%s: metric_classes has %" PRId64 ", classes are 0 to %" PRId64,
                        kind->title, o->metric_classes.data[i], classes - 1);
    }
    return EST_OK;
}

const void *est_keep_bytes(est_arena *arena, const void *data, size_t bytes, bool *failed)
{
    void *copy = est_arena_alloc(arena, bytes + 1);

    if (copy == NULL) {
        *failed = true;
    } else if (bytes > 0) {
        memcpy(copy, data, bytes);
    }
    return copy;
}

static const char *keep_text(est_arena *arena, const char *text, bool *failed)
{
    return text != NULL ? est_keep_bytes(arena, text, strlen(text), failed) : NULL;
}

static est_status copy_options(est_head *head)
{
    est_head_options *o      = &head->o;
    est_arena        *arena  = head->arena;
    bool              failed = false;

    o->name            = keep_text(arena, o->name, &failed);
    o->weight_column   = keep_text(arena, o->weight_column, &failed);
    o->label           = o->label != NULL ? keep_text(arena, o->label, &failed) : o->name != NULL ? o->name : "label";
    o->thresholds.data = est_keep_bytes(arena, o->thresholds.data, (size_t)o->thresholds.n * sizeof(double), &failed);
    o->metric_classes.data = est_keep_bytes(arena, o->metric_classes.data,
                                            (size_t)o->metric_classes.n * sizeof(int64_t), &failed);
    if (o->label_vocabulary.n > 0) {
        size_t       bytes = (size_t)o->label_vocabulary.n * sizeof(char *);
        const char **list  = est_arena_alloc(arena, bytes + 1);

        failed = failed || list == NULL;
        for (int i = 0; !failed && i < o->label_vocabulary.n; i++) {
            list[i] = keep_text(arena, o->label_vocabulary.data[i], &failed);
        }
        o->label_vocabulary.data = list;
    }
    if (failed) return est_no_memory();
    head->name = o->name;
    if (o->loss_reduction == EST_LOSS_DEFAULT) {
        o->loss_reduction = o->v1 ? EST_LOSS_SUM : EST_LOSS_SUM_OVER_BATCH_SIZE;
    }
    return EST_OK;
}

/* The classes by name: the vocabulary, or their numbers as text. */
static est_status name_classes(est_head *head, int64_t classes)
{
    char number[24];

    EST_TRY(est_tensor_create(EST_STRING, EST_SHAPE(classes), &head->class_names));
    for (int64_t i = 0; i < classes; i++) {
        const char *name = number;

        if (head->o.label_vocabulary.n > 0) {
            name = head->o.label_vocabulary.data[i];
        } else {
            (void)snprintf(number, sizeof number, "%" PRId64, i);
        }
        EST_TRY(est_tensor_set_string(head->class_names, i, name, strlen(name)));
    }
    return EST_OK;
}

est_status est_head_create(const est_head_kind *kind, int64_t n, int64_t classes, const est_head_options *options,
                           est_head **out)
{
    est_head_options o;
    est_head        *head;
    est_status       status;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_head_options), options, &o));
    EST_TRY(check_options(kind, classes, &o));
    head = est_zalloc(sizeof *head);
    if (head == NULL) return est_no_memory();
    est_refcount_init(&head->refs);
    head->kind = kind;
    head->o    = o;
    head->n    = n;
    if (o.label_default != NULL) head->o.label_default = est_tensor_ref(o.label_default);
    head->arena = est_arena_create();
    status      = head->arena != NULL ? copy_options(head) : est_no_memory();
    if (status == EST_OK && classes > 0) status = name_classes(head, classes);
    if (status != EST_OK) {
        est_head_free(head);
        return status;
    }
    *out = head;
    return EST_OK;
}

est_head *est_head_ref(est_head *head)
{
    est_refcount_add(&head->refs);
    return head;
}

void est_head_free(est_head *head)
{
    if (head == NULL || !est_refcount_drop(&head->refs)) return;
    for (int i = 0; i < head->n_heads; i++) est_head_free(head->heads[i]);
    est_tensor_free(head->class_names);
    est_tensor_free(head->o.label_default);
    est_arena_free(head->arena);
    est_free(head);
}

const char *est_head_name(const est_head *head)
{
    return head != NULL ? head->name : NULL;
}

int64_t est_head_logits(const est_head *head)
{
    return head != NULL ? head->n : 0;
}

/* --- for kinds ---------------------------------------------------------------------------------------------------- */

est_node est_head_fail(const est_head_use *u, const char *fmt, ...)
{
    char    text[512];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return est_graph_poison(u->graph, est_fail(EST_INVALID_ARGUMENT, "%s%s%s: %s", u->head->kind->title,
                                               u->head->name != NULL ? " " : "",
                                               u->head->name != NULL ? u->head->name : "", text));
}

static bool same_dim(int64_t a, int64_t b)
{
    return a < 0 || b < 0 || a == b;
}

/* Whether x is [..., last] with the leading axes of the logits, as far as both are known. */
static bool fits_logits(const est_shape *x, const est_shape *logits, int64_t last)
{
    if (x->rank < 0) return true;
    if (x->rank != logits->rank || !same_dim(x->dim[x->rank - 1], last)) return false;
    for (int i = 0; i + 1 < x->rank; i++) {
        if (!same_dim(x->dim[i], logits->dim[i])) return false;
    }
    return true;
}

est_node est_head_dense_labels(est_head_use *u, int64_t width)
{
    est_node         x      = est_model_label(u->model, u->head->o.label);
    const est_shape *logits = est_node_shape(u->logits);
    char             a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (est_graph_status(u->graph) != EST_OK) return x;
    if (est_node_shape(x)->rank >= 0 && est_node_shape(x)->rank == logits->rank - 1) x = est_expand_dims(x, -1);
    if (!fits_logits(est_node_shape(x), logits, width)) {
        return est_head_fail(
            u, "labels '%s' have shape %s, which does not go with logits of shape %s: the last axis must be %" PRId64,
            u->head->o.label, est_shape_text(est_node_shape(x), a), est_shape_text(logits, b), width);
    }
    if (u->head->o.label_vocabulary.n == 0 && u->head->class_names != NULL && est_node_dtype(x) == EST_STRING) {
        return est_head_fail(u, "labels '%s' are strings; give the head a label_vocabulary", u->head->o.label);
    }
    return x;
}

/* The prefix of errors about labels. */
static const char *labels_text(const est_head *head, char *text, size_t size)
{
    (void)snprintf(text, size, "%s%s%s: labels '%s'", head->kind->title, head->name != NULL ? " " : "",
                   head->name != NULL ? head->name : "", head->o.label);
    return text;
}

est_node est_head_look_up(est_head_use *u, est_node strings)
{
    char text[256];

    if (est_node_dtype(strings) != EST_STRING) {
        return est_head_fail(u, "it has a label_vocabulary, so labels '%s' must be strings, but they are %s",
                             u->head->o.label, est_dtype_name(est_node_dtype(strings)));
    }
    return est_check_found(est_lookup(est_vocabulary_list(u->graph, u->head->class_names, NULL), strings), strings,
                           labels_text(u->head, text, sizeof text));
}

est_node est_head_check_labels(est_head_use *u, est_node x, double low, double high)
{
    char text[256];

    return est_check_range(x, low, high, labels_text(u->head, text, sizeof text));
}

est_node est_head_class_names(est_head_use *u, est_node ids)
{
    return est_gather(est_const(u->graph, u->head->class_names), ids, 0);
}

est_node est_head_all_classes(est_head_use *u, est_node like)
{
    return est_broadcast_to(est_const(u->graph, u->head->class_names), est_shape_of(like));
}

est_node est_head_all_class_ids(est_head_use *u, est_node like)
{
    est_node ids = est_range(est_scalar(u->graph, EST_I32, 0),
                             est_scalar(u->graph, EST_I32, (double)est_node_dim(like, -1)),
                             est_scalar(u->graph, EST_I32, 1));

    return est_broadcast_to(ids, est_shape_of(like));
}

/* The text of a name. If it ran out of memory, fails the graph and returns `key`. */
static const char *named(const est_head_use *u, const char *made, const char *key)
{
    if (made != NULL) return made;
    (void)est_graph_poison(u->graph, est_no_memory());
    return key;
}

/* "name/key". */
static const char *prefixed(const est_head_use *u, const char *key)
{
    return named(u, est_arena_printf(u->model->arena, "%s/%s", u->head->name, key), key);
}

/* "key", or "key/name" of a head with a name. */
static const char *summary_key(const est_head_use *u, const char *key)
{
    if (u->head->name == NULL) return key;
    return named(u, est_arena_printf(u->model->arena, "%s/%s", key, u->head->name), key);
}

void est_head_predict(est_head_use *u, const char *key, est_node value)
{
    u->predictions[u->n_predictions++] = (est_named_node){ key, value };
    est_model_predict(u->model, u->part ? prefixed(u, key) : key, value);
}

void est_head_metric(est_head_use *u, est_metric metric, const char *key, ...)
{
    char    text[256];
    va_list args;

    va_start(args, key);
    (void)vsnprintf(text, sizeof text, key, args);
    va_end(args);
    est_model_metric(u->model, summary_key(u, text), metric);
}

void est_head_mean(est_head_use *u, const char *key, est_node values)
{
    est_head_metric(u, est_metric_mean(values, EST_METRIC(.weights = u->weights)), "%s", key);
}

void est_head_auc(est_head_use *u, est_node labels, est_node probabilities, const char *suffix)
{
    est_summation how = u->head->o.v1 ? EST_SUM_TRAPEZOID : EST_SUM_INTERPOLATION;

    est_head_metric(u, est_metric_auc(labels, probabilities, EST_METRIC(.weights = u->weights, .summation = how)),
                    "auc%s", suffix);
    est_head_metric(
        u, est_metric_auc(labels, probabilities, EST_METRIC(.weights = u->weights, .summation = how, .curve = EST_PR)),
        "auc_precision_recall%s", suffix);
}

void est_head_thresholds(est_head_use *u, est_node labels, est_node probabilities)
{
    est_node                  positive = est_cast(labels, EST_BOOL);
    const est_metric_options *options  = EST_METRIC(.weights = u->weights, .v1 = u->head->o.v1);

    for (int i = 0; i < u->head->o.thresholds.n; i++) {
        double t = u->head->o.thresholds.data[i];

        est_head_metric(u, est_metric_accuracy_at_threshold(labels, probabilities, t, options),
                        "accuracy/positive_threshold_%g", t);
        est_head_metric(u, est_metric_precision_at_threshold(positive, probabilities, t, options),
                        "precision/positive_threshold_%g", t);
        est_head_metric(u, est_metric_recall_at_threshold(positive, probabilities, t, options),
                        "recall/positive_threshold_%g", t);
    }
}

/* --- weights and losses ------------------------------------------------------------------------------------------- */

/* The weights of the examples, of the rank of the logits; EST_NO_NODE: all 1. */
static est_node weights_of(est_head_use *u)
{
    const est_head_options *o      = &u->head->o;
    const est_shape        *logits = est_node_shape(u->logits);
    est_node                w;
    char                    a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (o->weight_column == NULL && o->weight_numeric == NULL) return EST_NO_NODE;
    w = o->weight_numeric != NULL ? est_input_layer(est_model_features(u->model), EST_COLUMN_LIST(o->weight_numeric),
                                                    EST_INPUT_LAYER(.name = "weights"))
                                  : est_model_feature(u->model, o->weight_column);
    if (est_graph_status(u->graph) != EST_OK) return w;
    if (est_node_dtype(w) == EST_STRING) return est_head_fail(u, "the weights are strings, they must be numbers");
    w = est_cast(w, EST_F32);
    if (est_node_shape(w)->rank >= 0 && est_node_shape(w)->rank == logits->rank - 1) w = est_expand_dims(w, -1);
    if (fits_logits(est_node_shape(w), logits, 1)) return w;
    if (u->head->kind->weighs_elements && fits_logits(est_node_shape(w), logits, u->head->n)) return w;
    return est_head_fail(u, "weights have shape %s, which does not go with logits of shape %s: one number an example",
                         est_shape_text(est_node_shape(w), a), est_shape_text(logits, b));
}

/* The loss of each example, or of each element. */
static est_node loss_of(est_head_use *u)
{
    const est_head_options *o     = &u->head->o;
    int64_t                 width = u->head->kind->weighs_elements ? u->head->n : 1;
    est_node                l;
    char                    a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (o->loss_fn == NULL) return u->head->kind->loss(u);
    l = o->loss_fn(u->labels, u->logits, est_model_features(u->model), o->loss_user);
    if (est_graph_status(u->graph) != EST_OK) return l;
    if (l.graph != u->graph) return est_head_fail(u, "loss_fn returned a node that does not exist");
    if (fits_logits(est_node_shape(l), est_node_shape(u->logits), width)) return l;
    return est_head_fail(u, "loss_fn returned shape %s for logits of shape %s; its last axis must be %" PRId64,
                         est_shape_text(est_node_shape(l), a), est_shape_text(est_node_shape(u->logits), b), width);
}

static est_node reduced(const est_head_use *u, est_reduction reduction)
{
    return est_loss_reduce(u->loss, EST_LOSS(.weights = u->weights, .reduction = reduction));
}

/* --- finishing ---------------------------------------------------------------------------------------------------- */

/* A model that a head finishes. */
typedef struct finish {
    est_head_use *uses; /* [n]: one for each head; in the model's arena */
    int           n;
    est_node      loss;           /* of all heads, with regularization */
    est_node      regularization; /* EST_NO_NODE: no regularization */
} finish;

/* Adds the predictions, metrics and loss of one head for its part of the logits; returns its training loss. */
static est_node finish_part(est_head_use *u)
{
    const est_head_kind *kind = u->head->kind;
    est_node             loss;

    kind->predict(u);
    if (u->mode == EST_PREDICT || est_graph_status(u->graph) != EST_OK) return EST_NO_NODE;
    u->labels = kind->labels(u);
    if (est_graph_status(u->graph) != EST_OK) return EST_NO_NODE;
    u->loss    = loss_of(u);
    u->weights = weights_of(u);
    if (est_graph_status(u->graph) != EST_OK) return EST_NO_NODE;
    loss = reduced(u, u->head->o.loss_reduction);
    est_replicas_set_loss(u->graph, u->head->o.loss_reduction == EST_LOSS_SUM ? EST_REDUCE_OP_SUM : EST_REDUCE_OP_MEAN);
    if (u->mode == EST_EVAL) {
        est_head_mean(u, "average_loss", u->loss);
        if (u->part) est_head_metric(u, est_metric_mean(loss, NULL), "loss");
        kind->metrics(u);
    }
    return loss;
}

/* Summaries describe the whole model, so their tags have no scope prefix. */
static void summarize(const est_head *head, const finish *f)
{
    const est_head_use *u = &f->uses[0];

    est_model_scalar(u->model, head->kind != NULL ? summary_key(u, "loss") : "loss", f->loss);
    if (f->regularization.graph != NULL) {
        est_model_scalar(u->model, head->kind != NULL ? summary_key(u, "regularization_loss") : "regularization_loss",
                         f->regularization);
    }
    for (int i = 0; i < f->n; i++) {
        const est_head_use *part = &f->uses[i];

        if (part->part)
            est_model_scalar(part->model, summary_key(part, "loss"), reduced(part, part->head->o.loss_reduction));
        if (part->head->o.v1 && part->head->o.loss_reduction == EST_LOSS_SUM) {
            est_model_scalar(part->model, summary_key(part, "average_loss"), reduced(part, EST_LOSS_MEAN));
        }
    }
}

/* --- exports ------------------------------------------------------------------------------------------------------ */

static const char *export_key(const est_head_use *u, const char *key)
{
    if (!u->part) return key;
    return strcmp(key, EST_SERVING_DEFAULT) == 0 ? u->head->name : prefixed(u, key);
}

static void export_default(const est_head_use *u, const char *key)
{
    if (u->scores.graph != NULL) {
        est_model_export_classify(u->model, key, u->scores, u->classes);
    } else {
        est_model_export_regress(u->model, key, u->value);
    }
}

static void export_part(const est_head_use *u)
{
    export_default(u, export_key(u, EST_SERVING_DEFAULT));
    if (u->scores.graph != NULL) {
        est_model_export_classify(u->model, export_key(u, "classification"), u->scores, u->classes);
    }
    if (u->value.graph != NULL) est_model_export_regress(u->model, export_key(u, "regression"), u->value);
    est_model_export_predict(u->model, export_key(u, "predict"), (est_named_nodes){ u->predictions, u->n_predictions });
}

static void export_all(const est_head *head, const finish *f)
{
    est_model      *model = f->uses[0].model;
    est_named_node *all   = model->predictions.data;

    if (head->kind == NULL) export_default(&f->uses[0], EST_SERVING_DEFAULT); /* the first one's */
    for (int i = 0; i < f->n; i++) export_part(&f->uses[i]);
    if (head->kind == NULL) est_model_export_predict(model, "predict", (est_named_nodes){ all, model->predictions.n });
}

/* --- est_head_finish ---------------------------------------------------------------------------------------------- */

static est_status check_logits(const est_head *head, const est_model *model, est_node logits)
{
    const est_shape *shape;
    char             text[EST_SHAPE_TEXT_MAX];

    if (logits.graph != model->graph) {
        return est_fail(EST_INVALID_ARGUMENT, "est_head_finish: the logits are %s",
                        logits.graph == NULL ? "no node" : "of another graph than the model");
    }
    shape = est_node_shape(logits);
    if (shape->rank >= 2 && shape->dim[shape->rank - 1] == head->n) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%s: logits have shape %s, the last of at least two axes must be %" PRId64,
                    head->kind != NULL ? head->kind->title : "multi-head", est_shape_text(shape, text), head->n);
}

/* The logits of one head of several: the next n of the last axis. */
static est_node slice_logits(est_node logits, int64_t first, int64_t n)
{
    int     rank = est_node_shape(logits)->rank;
    int64_t begin[EST_RANK_MAX], size[EST_RANK_MAX];

    for (int i = 0; i < rank; i++) {
        begin[i] = 0;
        size[i]  = -1;
    }
    begin[rank - 1] = first;
    size[rank - 1]  = n;
    return est_slice(logits, (est_i64s){ begin, rank }, (est_i64s){ size, rank });
}

static est_status begin_uses(const est_head *head, est_model *model, est_mode mode, est_node logits, finish *f)
{
    int64_t first = 0;

    f->n    = head->kind != NULL ? 1 : head->n_heads;
    f->uses = est_arena_alloc(model->arena, (size_t)f->n * sizeof *f->uses);
    if (f->uses == NULL) return est_no_memory();
    if (est_node_dtype(logits) != EST_F32) logits = est_cast(logits, EST_F32);
    for (int i = 0; i < f->n; i++) {
        const est_head *part = head->kind != NULL ? head : head->heads[i];

        f->uses[i] = (est_head_use){ .head   = part,
                                     .model  = model,
                                     .graph  = model->graph,
                                     .mode   = mode,
                                     .part   = head->kind == NULL,
                                     .logits = f->n > 1 ? slice_logits(logits, first, part->n) : logits };
        first += part->n;
    }
    return EST_OK;
}

/* The weighted losses of all heads plus the regularization losses. */
static est_node total_loss(const est_head *head, finish *f)
{
    est_graph *graph = f->uses[0].graph;
    est_node   total = EST_NO_NODE;

    for (int i = 0; i < f->n; i++) {
        est_node loss = finish_part(&f->uses[i]);

        if (loss.graph == NULL) continue;
        if (head->kind == NULL && head->weights[i] != 1) loss = est_scale(loss, head->weights[i]);
        total = total.graph != NULL ? est_add(total, loss) : loss;
    }
    if (total.graph == NULL || est_losses(graph).n == 0) return total;
    f->regularization = est_regularization_loss(graph);
    return est_add(total, f->regularization);
}

static est_status train(const est_head *head, est_model *model, est_node loss, const est_head_finish_options *o)
{
    if ((o->optimizer.rule != NULL) == (o->train_op_fn != NULL)) {
        return est_graph_blame(est_fail(EST_INVALID_ARGUMENT,
                                        "est_head_finish: training needs either an optimizer or a train_op_fn, %s "
                                        "given",
                                        o->train_op_fn != NULL ? "both are" : "none is"));
    }
    if (o->train_op_fn != NULL) {
        est_model_train_op(model, o->train_op_fn(loss, o->user));
    } else {
        const char *scope = o->optimizer.keras ? head->training_scope : NULL;

        est_model_train_op(model, est_minimize(o->optimizer, loss, EST_MINIMIZE(.slot_scope = scope)));
    }
    return EST_OK;
}

static est_status finish_model(const est_head *head, est_model *model, est_mode mode, finish *f,
                               const est_head_finish_options *o)
{
    f->loss = total_loss(head, f);
    EST_TRY(est_model_status(model));
    if (mode == EST_PREDICT) {
        export_all(head, f);
        return EST_OK;
    }
    est_model_loss(model, f->loss);
    if (mode == EST_TRAIN) {
        EST_TRY(train(head, model, f->loss, o));
        summarize(head, f);
    } else if (f->regularization.graph != NULL) {
        est_head_use whole = { .head = head, .model = model, .graph = model->graph };

        est_model_metric(model, summary_key(&whole, "regularization_loss"), est_metric_mean(f->regularization, NULL));
    }
    return EST_OK;
}

est_status est_head_finish(const est_head *head, est_model *model, est_mode mode, est_node logits,
                           const est_head_finish_options *options)
{
    est_head_finish_options o;
    finish                  f = { 0 };
    est_status              status;

    EST_REQUIRE(model);
    EST_REQUIRE(head);
    EST_TRY(est_model_status(model));
    status = est_options_take(EST_STRUCT_SIZE(est_head_finish_options), options, &o);
    if (status == EST_OK) status = check_logits(head, model, logits);
    if (status != EST_OK) return est_graph_blame(status);
    EST_TRY(begin_uses(head, model, mode, logits, &f));
    est_scope_push(model->graph, head->kind == NULL ? "multi_head" : head->name != NULL ? head->name : "head");
    status = finish_model(head, model, mode, &f, &o);
    est_scope_pop(model->graph);
    return status == EST_OK ? est_model_status(model) : status;
}

/* --- parsing ------------------------------------------------------------------------------------------------------ */

static est_status parse_weight(const est_column *column, est_parse_spec *spec)
{
    est_parse_spec   *own = NULL;
    est_feature_specs features;
    est_status        status;

    EST_TRY(est_parse_spec_create(EST_COLUMN_LIST(column), &own));
    features = est_parse_spec_features(own);
    status   = EST_OK;
    for (int i = 0; i < features.n && status == EST_OK; i++) status = est_parse_spec_add(spec, &features.data[i]);
    est_parse_spec_free(own);
    return status;
}

/* How Examples hold the label of a head of one kind. */
static est_status parse_label(const est_head *head, est_feature_spec *out)
{
    const est_tensor *value = head->o.label_default;
    int64_t           count;

    *out      = head->kind->parse(head);
    out->name = head->o.label;
    if (head->o.label_dtype != EST_DTYPE_NONE) out->dtype = head->o.label_dtype;
    if (value == NULL) return EST_OK;
    if (out->rows != EST_ROWS_FIXED) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s: label_default is set, but labels '%s' are lists: a missing list is empty; leave "
                        "label_default out",
                        head->kind->title, out->name);
    }
    count = est_tensor_count(value);
    if (est_tensor_dtype(value) == out->dtype && (count == 1 || count == est_shape_count(&out->shape))) {
        out->default_value = value;
        return EST_OK;
    }
    return est_fail(EST_INVALID_ARGUMENT,
                    "%s: label_default has %" PRId64 " elements of %s, but labels '%s' %" PRId64 " of %s",
                    head->kind->title, count, est_dtype_name(est_tensor_dtype(value)), out->name,
                    est_shape_count(&out->shape), est_dtype_name(out->dtype));
}

est_status est_head_parse_spec(const est_head *head, est_parse_spec *spec)
{
    est_feature_spec label;

    EST_REQUIRE(head);
    EST_REQUIRE(spec);
    for (int i = 0; i < head->n_heads; i++) EST_TRY(est_head_parse_spec(head->heads[i], spec));
    if (head->kind == NULL) return EST_OK;
    EST_TRY(parse_label(head, &label));
    EST_TRY(est_parse_spec_add(spec, &label));
    if (head->o.weight_numeric != NULL) return parse_weight(head->o.weight_numeric, spec);
    if (head->o.weight_column == NULL) return EST_OK;
    return est_parse_spec_add(
        spec, &(est_feature_spec){ .name = head->o.weight_column, .dtype = EST_F32, .shape = EST_SHAPE(1) });
}
