/* SPDX-License-Identifier: Apache-2.0
 *
 * A SavedModel while it is loaded: what saved_model.c (the whole) and saved_model_restore.c (variables and tables)
 * share. */
#ifndef EST_PREDICT_LOADING_H
#define EST_PREDICT_LOADING_H

#include "format/bundle.h"
#include "format/def_edges.h"
#include "format/saved_model_def.h"
#include "predict/saved_model.h"

/* A signature of the message. */
typedef struct est_loading_signature {
    const est_signature_def *def;
    est_def_edge            *inputs, *outputs; /* in the flat graph */
    bool                    *needed;           /* [node of it] */
    est_error               *error;            /* why it cannot be run; NULL: it can */
} est_loading_signature;

typedef struct est_loading {
    est_arena             *arena;
    const char            *dir;
    est_meta_graph_def    *meta;
    est_graph_def          flat; /* what signatures, init and restore need, without calls */
    est_def_edges          edges;
    bool                  *init, *restore; /* [node]: whether the operation that inits, or restores, needs it */
    int32_t               *stack;          /* for walks */
    est_loading_signature *signatures;     /* [n_signatures] */
    int                    n_signatures;
    bool                  *kept;   /* [node]: what usable signatures need */
    est_bundle            *bundle; /* NULL: the model has no variables */
    bool                   no_verify;
} est_loading;

/* Whether a node gives the variable or table of its first input a value. */
bool est_loading_fills(const est_loading *l, int32_t node);

/* Opens the files of variables, if there are any. */
EST_MUST_CHECK est_status est_loading_open(est_loading *l);

/* Makes constants of what operations that fill tables get from the files. Nodes are added: edges are stale then. */
EST_MUST_CHECK est_status est_loading_tables(est_loading *l);

/* Restores the variables of the session, whose graph has the nodes that are kept. */
EST_MUST_CHECK est_status est_loading_restore(est_loading *l, est_session *session);

#endif
