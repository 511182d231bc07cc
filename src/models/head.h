/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of a head: one est_head_kind. The public half is estoc/head.h.
 *
 * A kind defines its labels, loss, predictions and metrics. src/models/head.c does the common work: options, weights,
 * reductions, names, regularization, summaries, exports. A multi-head is not a kind but a list of heads, which finish
 * one after the other. */
#ifndef EST_MODELS_HEAD_H
#define EST_MODELS_HEAD_H

#include "base/alloc.h"
#include "base/refcount.h"
#include "estimator/model.h"
#include "estoc/head.h"

typedef struct est_head_kind est_head_kind;

#define EST_HEAD_PREDICTIONS_MAX 8

struct est_head {
    est_refcount         refs;
    est_arena           *arena;
    const est_head_kind *kind;        /* NULL: a multi-head */
    const char          *name;        /* NULL: none */
    est_head_options     o;           /* copied; all defaults are filled in */
    int64_t              n;           /* logits */
    est_tensor          *class_names; /* string [classes]; NULL: no classes */

    est_head **heads;   /* [n_heads] of a multi-head, shared */
    double    *weights; /* [n_heads] */
    int        n_heads;

    /* Where Keras optimizers keep their variables: NULL, as usual, or of a multi-head of n "training_<n>", since in
     * TensorFlow each of its heads opens the scope "training" before it does. */
    const char *training_scope;
};

/* The use of one head in one model. */
typedef struct est_head_use {
    const est_head *head;
    est_model      *model;
    est_graph      *graph;
    est_mode        mode;
    bool            part;    /* of a multi-head: keys have the head's name as prefix */
    est_node        logits;  /* float32 [..., n] */
    est_node        labels;  /* what labels() made; not in EST_PREDICT */
    est_node        weights; /* EST_NO_NODE: 1; else float32, of the rank of the logits */
    est_node        loss;    /* before weights, [..., 1] or [..., n] */

    /* what predict() gives */
    est_named_node predictions[EST_HEAD_PREDICTIONS_MAX]; /* as est_head_predict was called */
    int            n_predictions;
    est_node       scores, classes; /* an exported classification, the default when there is one; EST_NO_NODE: none */
    est_node       value;           /* an exported regression; EST_NO_NODE: none */
} est_head_use;

/* Options that not every kind has; the others are common. */
enum {
    EST_HEAD_TAKES_VOCABULARY     = 1 << 0,
    EST_HEAD_TAKES_THRESHOLDS     = 1 << 1,
    EST_HEAD_TAKES_LOSS_FN        = 1 << 2,
    EST_HEAD_TAKES_INVERSE_LINK   = 1 << 3,
    EST_HEAD_TAKES_NO_FULL_LOSS   = 1 << 4,
    EST_HEAD_TAKES_METRIC_CLASSES = 1 << 5,
    EST_HEAD_TAKES_V1             = 1 << 6
};

struct est_head_kind {
    const char *title;                               /* "binary head", for messages */
    unsigned    takes;                               /* EST_HEAD_TAKES_... */
    bool        weighs_elements;                     /* the loss is [..., n], and weights may be */
    est_feature_spec (*parse)(const est_head *head); /* how labels are read from Examples, without the name */
    est_node (*labels)(est_head_use *u);
    est_node (*loss)(est_head_use *u);
    void (*predict)(est_head_use *u);
    void (*metrics)(est_head_use *u);
};

/* Makes a head of a kind; `classes` 0: it has none. */
EST_MUST_CHECK est_status est_head_create(const est_head_kind *kind, int64_t n, int64_t classes,
                                          const est_head_options *options, est_head **out);

/* Another reference to a head; never fails. */
est_head *est_head_ref(est_head *head);

/* A failure of a head in a model: poisons the graph, with the head's title in front. */
est_node est_head_fail(const est_head_use *u, const char *fmt, ...) EST_PRINTF(2, 3);

/* The labels as they are fed, [..., width] after a missing last axis was added; bad shapes poison the graph. */
est_node est_head_dense_labels(est_head_use *u, int64_t width);

/* Strings as indices into the vocabulary, -1 for unknown ones; for heads with a vocabulary. */
est_node est_head_look_up(est_head_use *u, est_node strings);

/* x; fails at run time, naming the head, when a label is out of range. */
est_node est_head_check_labels(est_head_use *u, est_node x, double low, double high);

/* The names of the classes in the shape of ids, and of all classes beside every row: [..., n]. */
est_node est_head_class_names(est_head_use *u, est_node ids);
est_node est_head_all_classes(est_head_use *u, est_node like);
est_node est_head_all_class_ids(est_head_use *u, est_node like);

/* Registers a prediction, or a metric, under the head's name; the metric's key is formatted. */
void est_head_predict(est_head_use *u, const char *key, est_node value);
void est_head_metric(est_head_use *u, est_metric metric, const char *key, ...) EST_PRINTF(3, 4);

/* Metrics that several kinds have: a weighted mean, and all of a list of thresholds. */
void est_head_mean(est_head_use *u, const char *key, est_node values);
void est_head_auc(est_head_use *u, est_node labels, est_node probabilities, const char *suffix);
void est_head_thresholds(est_head_use *u, est_node labels, est_node probabilities);

/* A copy in the arena, with a zero behind it. *failed is set when memory is out, and is left alone else. */
const void *est_keep_bytes(est_arena *arena, const void *data, size_t bytes, bool *failed);

#endif
