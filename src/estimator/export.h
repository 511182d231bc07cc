/* SPDX-License-Identifier: Apache-2.0
 *
 * What exporting is made of: which signatures a model has (signatures.c), the message that describes them with its graph
 * and variables (meta_graph.c), the files that tables are filled from (assets.c), and the check of what was written
 * (export_check.c). */
#ifndef EST_ESTIMATOR_EXPORT_H
#define EST_ESTIMATOR_EXPORT_H

#include "estimator/estimator.h"
#include "estimator/receiver.h"
#include "estimator/sample_rows.h"
#include "format/saved_model.h"

#define EST_SERVING_DEFAULT "serving_default"
#define EST_EXPORT_EXTRA    "assets.extra" /* the directory of files that go with an export and are no part of the model */

/* est_export_saved_model, with a file `name` of that text in EST_EXPORT_EXTRA; text NULL: without it. */
EST_MUST_CHECK est_status est_export_with(est_estimator *estimator, const char *base, const est_export_options *options,
                                          const char *name, const char *text, char path[EST_CHECKPOINT_PATH_MAX]);

typedef struct est_export_signature {
    est_export_method     method;
    const char           *key;
    const est_named_node *outputs; /* [n_outputs] */
    int                   n_outputs;
    const est_feed_group *feeds;
} est_export_signature;

/* One graph of an export: a model over a receiver, and a session with its values. */
typedef struct est_export_model {
    est_model            *model;
    est_session          *session;
    est_receiver          receiver;
    est_export_signature *signatures; /* [n_signatures] in the model's arena: those that can be served */
    int                   n_signatures;
    est_model_export     *outputs; /* [n_outputs] in the model's arena: what the model has to serve */
    int                   n_outputs;
    est_node              init; /* what to run after the variables are restored; EST_NO_NODE: nothing */
} est_export_model;

/* Under which a loader finds the graph of a mode. */
const char *est_export_tag(est_mode mode);

/* Which outputs of the model become signatures; and what gives metrics their start. Adds nodes to the graph. */
EST_MUST_CHECK est_status est_export_signatures(est_export_model *e);

/* The log lines that say which do and which do not. */
void est_export_log_signatures(const est_export_model *e);

/* The key of an input in a signature: that of the receiver, but "inputs" where Serving asks for that. */
const char *est_export_signature_input(const est_export_signature *signature, const est_named_node *input);

/* Makes filling the model's tables a part of e->init. Adds nodes to the graph. */
EST_MUST_CHECK est_status est_export_tables(est_export_model *e);

/* Lists the tables of `graph`, which is in `meta` already, and the files they are filled from as assets. `saved` is what
 * meta is one of. */
EST_MUST_CHECK est_status est_export_assets(const est_graph *graph, const est_saved_model *saved,
                                            est_meta_graph_def *meta);

/* Copies the files of all assets below the directory of an export. */
EST_MUST_CHECK est_status est_export_copy_assets(const est_saved_model *saved, const char *dir);

/* Adds the meta graph of one mode to `out`: the graph in TensorFlow's ops, what saves and restores its variables,
 * signatures and collections. `variables` gets the names under which variables/ must have their values; both live in the
 * arena of `out`. */
EST_MUST_CHECK est_status est_export_meta_graph(const est_export_model *e, est_saved_model *out,
                                                est_def_names *variables);

/* Reads the SavedModel in `dir` back, runs it on rows and compares with the model: every variable bit for bit, every
 * output of every signature to 1e-5. EST_DATA_LOSS names what differs. Outputs that are random are only run. */
EST_MUST_CHECK est_status est_export_check(const est_export_model *e, const est_sample_rows *rows, const char *dir);

#endif
