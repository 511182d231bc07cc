/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop from the inside: what running it (loop.c) and what hooks see of it (loop_view.c) share. */
#ifndef EST_TRAIN_LOOP_STATE_H
#define EST_TRAIN_LOOP_STATE_H

#include "base/alloc.h"
#include "train/loop.h"

/* A prepared step that computes the always-fetches, those that `wanted` marks, and what the program asks for. */
typedef struct est_loop_variant {
    est_step           *step;
    const est_loop_ask *ask;    /* NULL: none */
    bool               *wanted; /* [n_fetches] */
    int                *place;  /* [n_fetches]: which result of the step; -1: not computed */
    int                 asked;  /* the first result that was asked for */
    const est_tensor  **values; /* [fed.n + ask->feeds.n] */
} est_loop_variant;

typedef enum est_loop_phase { LOOP_BEGINS, LOOP_RUNS, LOOP_ENDED } est_loop_phase;

/* Nodes that hooks name in begin. */
typedef struct est_node_list {
    est_node *data;
    int       n, capacity;
} est_node_list;

struct est_loop {
    est_loop_spec  spec;
    est_arena     *arena; /* copies of the spec's lists */
    est_loop_feed *feeds; /* [spec.n_feeds] */
    est_node      *targets;
    est_hook     **hooks;
    char          *model_dir;

    est_node_list     fetches;  /* of the spec, then of hooks */
    bool             *wanted;   /* [fetches.n]: in the run at hand */
    bool              traced;   /* the run at hand is */
    est_loop_variant *variants; /* [n_variants] */
    int               n_variants, variants_capacity;
    int               ran; /* the variant of the last run; -1: none yet */

    const est_loop_ask      *ask;   /* of the run at hand, or of the last; NULL: none */
    const est_tensor *const *asked; /* [ask->feeds.n] */

    est_session  *session;
    bool          declared; /* to other tasks: the variables of the session */
    est_iterator *input;
    est_field    *batch, *next; /* [replicas * components]: of the last run, or to be run; room for the one after it */
    est_tensor  **rows;         /* [replicas]: how many rows each has, float32 []; NULL: nobody asks */
    est_step     *idle;         /* the step without a batch; NULL: not prepared yet */
    bool          has_batch;    /* the batch has still to be run */
    bool          input_ended;
    bool          at_end;      /* the last step was none: there is nothing more to run */
    est_node_list fed;         /* of the spec, then of hooks */
    const est_tensor **values; /* [fed.n]: NULL while there is none */

    est_loop_phase phase;
    est_status     failed; /* of a call that cannot fail visibly */
    est_error      error;
    int64_t        runs, global_step;
    uint64_t       run_count;             /* of the session, for the next run */
    int64_t        reached;               /* the highest global step of a run that succeeded; -1: none did */
    int            recoveries, fruitless; /* since then, see EST_RECOVERIES_MAX and FRUITLESS_MAX */
    double         loss;
    bool           stop;
    bool           signalled; /* it stops because of a signal, with steps left to make */
    char           stop_reason[160];
};

/* How many batches a step has, and how many components each. */
int est_loop_replicas(const est_loop *loop);
int est_loop_components(const est_loop *loop);

int64_t est_field_rows(const est_field *field); /* 0: of nothing, or of a scalar */

/* Adds a node that a hook names; its number, or 0 when the loop has failed. `purpose` is what it is for: "see" or
 * "feed". */
int est_loop_add_node(est_loop *loop, est_node_list *list, est_node node, const char *purpose);

/* Gives a reference back that est_loop_set_feed took. */
void est_loop_give_back(const est_tensor **value);

#endif
