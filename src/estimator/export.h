/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of an export: the signatures of a model (signatures.c), the SavedModel message with its graph and variables
 * (meta_graph.c), the vocabulary files of tables (assets.c), and the check of the written files (export_check.c). */
#ifndef EST_ESTIMATOR_EXPORT_H
#define EST_ESTIMATOR_EXPORT_H

#include "estimator/estimator.h"
#include "estimator/receiver.h"
#include "estimator/sample_rows.h"
#include "format/saved_model_def.h"
#include "predict/saved_model.h"

/* directory for files that accompany an export but are not part of the model */
#define EST_EXPORT_EXTRA "assets.extra"

/* est_export_saved_model, with a file `name` of that text in EST_EXPORT_EXTRA; text NULL: without it. */
EST_MUST_CHECK est_status est_export_with(est_estimator *estimator, const char *base, const est_export_options *options,
                                          const char *name, const char *text, char path[EST_CHECKPOINT_PATH_MAX]);

typedef struct est_export_model est_export_model;

/* Writes one graph as the SavedModel `dir`, in place of one that is there. The model has signatures and tables. */
EST_MUST_CHECK est_status est_export_one(const est_export_model *e, const char *dir);

typedef struct est_export_signature {
    est_export_method     method;
    const char           *key;
    const est_named_node *outputs; /* [n_outputs] */
    int                   n_outputs;
    const est_feed_group *feeds;
} est_export_signature;

/* One graph of an export: a model over a receiver, and a session with its values. */
struct est_export_model {
    est_model            *model;
    est_session          *session;
    est_receiver          receiver;
    est_export_signature *signatures; /* [n_signatures] in the model's arena: the servable ones */
    int                   n_signatures;
    est_model_export     *outputs; /* [n_outputs] in the model's arena: all export outputs */
    int                   n_outputs;
    est_node              init;      /* init op, run after the variables are restored; EST_NO_NODE: none */
    bool                  own_feeds; /* groups have nothing to do with each other: rows are made for each */
};

/* The tag under which a loader finds the graph of a mode. */
const char *est_export_tag(est_mode mode);

/* Decides which outputs become signatures, and adds the op that resets metrics. Adds nodes to the graph. */
EST_MUST_CHECK est_status est_export_signatures(est_export_model *e);

/* Fails unless the feeds of a signature cover everything that its outputs need. */
EST_MUST_CHECK est_status est_export_check_feeds(const est_export_model *e, const est_export_signature *s);

/* Logs which signatures are included and which are excluded. */
void est_export_log_signatures(const est_export_model *e);

/* The key of an input in a signature: that of the receiver, or "inputs" for classify and regress. */
const char *est_export_signature_input(const est_export_signature *signature, const est_named_node *input);

/* Adds the table initializers of the model to e->init. Adds nodes to the graph. */
EST_MUST_CHECK est_status est_export_tables(est_export_model *e);

/* Lists the tables of `graph`, which `meta` already holds, and their files as assets. `meta` belongs to `saved`. */
EST_MUST_CHECK est_status est_export_assets(const est_graph *graph, const est_saved_model_def *saved,
                                            est_meta_graph_def *meta);

/* Copies the files of all assets below the directory of an export. */
EST_MUST_CHECK est_status est_export_copy_assets(const est_saved_model_def *saved, const char *dir);

/* Adds the meta graph of one mode to `out`: the graph in TensorFlow's ops, the ops that save and restore its variables,
 * signatures and collections. `variables` receives the names for variables/; both live in the arena of `out`. */
EST_MUST_CHECK est_status est_export_meta_graph(const est_export_model *e, est_saved_model_def *out,
                                                est_def_names *variables);

/* Reads the SavedModel in `dir` back, runs it on rows and compares with the model: every variable bit for bit, every
 * output of every signature to 1e-5. EST_DATA_LOSS names what differs. Random outputs are run but not compared. */
EST_MUST_CHECK est_status est_export_check(const est_export_model *e, const est_sample_rows *rows, const char *dir);

#endif
