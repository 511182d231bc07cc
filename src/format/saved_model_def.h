/* SPDX-License-Identifier: Apache-2.0
 *
 * SavedModel: the message in saved_model.pb, one or more MetaGraphDefs that share their variables. The folder around it
 * is not this file's business.
 *
 * Threading: one thread at a time. */
#ifndef EST_FORMAT_SAVED_MODEL_DEF_H
#define EST_FORMAT_SAVED_MODEL_DEF_H

#include "format/meta_graph_def.h"

#define EST_SAVED_MODEL_SCHEMA_VERSION 1

typedef struct est_saved_model_def {
    est_arena           *arena; /* borrowed while the struct is in use; everything here is in it */
    int64_t              schema_version;
    est_meta_graph_def **meta_graphs;
    int                  n_meta_graphs;
} est_saved_model_def;

/* An empty one of version EST_SAVED_MODEL_SCHEMA_VERSION. There is nothing to clear but the arena. */
void est_saved_model_def_init(est_saved_model_def *model, est_arena *arena);

/* A new, empty meta graph at the end; it stays where it is until the arena goes. */
EST_MUST_CHECK est_status est_saved_model_def_add(est_saved_model_def *model, est_meta_graph_def **out);

/* The meta graph whose tags are these and no others, in any order; EST_NOT_FOUND lists the ones there are. */
EST_MUST_CHECK est_status est_saved_model_def_find(const est_saved_model_def *model, const char *const *tags, int n,
                                                   est_meta_graph_def **out);

/* Appends the fields of the message; the same contents give the same bytes. */
EST_MUST_CHECK est_status est_saved_model_def_put(est_wire_writer *w, const est_saved_model_def *model);

EST_MUST_CHECK est_status est_saved_model_def_parse(est_str message, est_arena *arena, est_saved_model_def *out);

#endif
