/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop from the inside: what running it (loop.c) and what hooks see of it (loop_view.c) share. */
#ifndef EST_TRAIN_LOOP_STATE_H
#define EST_TRAIN_LOOP_STATE_H

#include "base/alloc.h"
#include "train/loop.h"

/* A prepared step that computes the always-fetches, those that `wanted` marks, and what the program asks for. */
typedef struct est_loop_variant {
    est_step           *step;     /* NULL: an engine computes it */
    void               *prepared; /* by the engine */
    est_plan           *plan;     /* has the results of the last run */
    const est_loop_ask *ask;      /* NULL: none */
    bool               *wanted;   /* [n_fetches] */
    int                *place;    /* [n_fetches]: which result of the step; -1: not computed */
    int                 asked;    /* the first result that was asked for */
    const est_tensor  **values;   /* [fed.n + ask->feeds.n] */
    bool                watched;  /* a NaN of its loss is found on the device (est_plan_watch) */
} est_loop_variant;

typedef enum est_loop_phase { LOOP_BEGINS, LOOP_RUNS, LOOP_ENDED } est_loop_phase;

/* Nodes that hooks name. */
typedef struct est_node_list {
    est_node *data;
    int       n, capacity;
} est_node_list;

/* What was measured in an epoch. */
typedef struct est_loop_log_item {
    const char *name;
    double      value;
    bool        there; /* in this epoch */
} est_loop_log_item;

struct est_loop {
    est_loop_spec  spec;
    est_arena     *arena; /* copies of the spec's lists */
    est_loop_feed *feeds; /* [spec.n_feeds] */
    est_node      *targets;
    est_hook     **hooks;
    char          *model_dir;

    est_node_list     fetches; /* of the spec, then of hooks */
    bool             *wanted;  /* [n_wanted], which is fetches.n: in the run at hand */
    int               n_wanted;
    bool              traced;   /* the run at hand is */
    bool              asks;     /* hooks are in before_run: they may name nodes */
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
    const est_tensor **values; /* [n_values], which is fed.n: NULL while there is none */
    int                n_values;

    est_loop_phase phase;
    est_status     failed; /* of a call that cannot fail visibly */
    est_error      error;
    int64_t        runs, global_step;
    uint64_t       run_count;             /* of the session, for the next run */
    int64_t        reached;               /* the highest global step of a run that succeeded; -1: none did */
    int            recoveries, fruitless; /* since then, see EST_RECOVERIES_MAX and FRUITLESS_MAX */
    double         loss;
    est_step      *far_loss; /* the step whose result 0 it is, still on a device; NULL: `loss` is it */
    bool           watched;  /* of the last run */
    bool           stop;
    bool           over;      /* it stops because the job has ended */
    bool           rejoined;  /* the last step was none: it has rejoined the other workers */
    bool           signalled; /* it stops because of a signal, with steps left to make */
    char           stop_reason[160];

    uint64_t           turn;          /* of the input: the number of its pass */
    int64_t            epoch, epochs; /* -1: none yet */
    bool               unmeasured;    /* a run was made since the logs were filled */
    est_loop_log_item *logs;          /* [n_logs] */
    int                n_logs, logs_capacity;
};

/* How many batches a step has, and how many components each. */
int est_loop_replicas(const est_loop *loop);
int est_loop_components(const est_loop *loop);

/* Adds a node that a hook names; its number, or 0 when the loop has failed. `purpose` is what it is for: "see" or
 * "feed". */
int est_loop_add_node(est_loop *loop, est_node_list *list, est_node node, const char *purpose);

/* Makes room for as many fetches and feeds as there are, and forgets the steps that were prepared for fewer. */
EST_MUST_CHECK est_status est_loop_make_room(est_loop *loop);

/* Stores the thread's last error in the loop; the next call that returns a status reports it. */
void est_loop_fail(est_loop *loop, est_status status);

/* Calls a member of every hook: offsetof(est_hook, begin), "begin". idle: only of those that want to know of steps
 * without a batch. */
EST_MUST_CHECK est_status est_loop_call_hooks(est_loop *loop, size_t member, const char *name, bool idle);

/* Gives a reference back that est_loop_set_feed took. */
void est_loop_give_back(const est_tensor **value);

#endif
