/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session asks of other tasks: the contract that cluster/ keeps with sockets and tests keep with memory.
 *
 * A step is cut (runtime/partition.c) into what runs here and segments, parts that other tasks run. A segment is a graph of
 * its own: it is entered at its task once, and then started with inputs and finished with outputs in every run. Tasks are
 * numbers from 0 up; variables that are elsewhere have no memory here (est_var.elsewhere).
 *
 * Failures: EST_UNAVAILABLE and EST_ABORTED mean that the task went away or was started anew; a session made anew may do
 * better (train/loop.h). Threading: one thread at a time. */
#ifndef EST_RUNTIME_REMOTE_H
#define EST_RUNTIME_REMOTE_H

#include "estoc/strategy.h"
#include "graph/variable.h"
#include "runtime/pass.h"
#include "runtime/store_files.h"

typedef struct est_remote         est_remote;
typedef struct est_remote_segment est_remote_segment; /* a segment that was entered at its task */

/* A part of a step that another task runs. */
typedef struct est_segment {
    int        task;
    int        phase;   /* which exchange of messages with that task, from 1 up */
    int        piece;   /* 0: what is in no piece; from 1 up: pieces, sent before; -1: what only reads, together */
    bool       writes;  /* changes variables: must not run twice for one start */
    bool       trains;  /* is of a step that moves the variable "global_step" on */
    bool       counted; /* trains and writes at the task where another segment of the step does that */
    bool       late;    /* sees what a step that is made together has changed: runs when it was made */
    est_graph *graph;
    est_io     io; /* of that graph */
} est_segment;

/* What a task has of a variable that is elsewhere: all of it, or a shard, and what that is called in a checkpoint. */
typedef struct est_remote_entry {
    int             task;
    est_store_entry entry;
} est_remote_entry;

/* A checkpoint that the other tasks write their variables to or read them from, each its own, in a file system that all of
 * them see. */
typedef struct est_remote_files {
    const char             *prefix;  /* save: each task writes its part of it, est_part_prefix(prefix, task) */
    const est_remote_entry *entries; /* [n] */
    int                     n;
} est_remote_files;

typedef struct est_remote_ops {
    /* Called when a session is made: finds the tasks (again), waits for those that are not there with a deadline and says in
     * the log for whom, and learns which variables are where. */
    EST_MUST_CHECK est_status (*connect)(est_remote *remote);

    /* "ps:0"; borrowed. */
    const char *(*name)(const est_remote *remote, int task);

    /* The task of a device's job and index; -1: it is none of the remote's. */
    int (*find)(const est_remote *remote, const char *job, int index);

    /* Whether this process itself is that task. */
    bool (*is_here)(const est_remote *remote, const char *job, int index);

    /* Where a variable is already; -1: nowhere. And the next variables: those of `bytes` together go to the task that is
     * returned and that counts them, none of taken[n_keepers], which are not all. taken NULL: any of them. */
    int (*located)(const est_remote *remote, const char *variable);
    int (*place)(est_remote *remote, uint64_t bytes, const bool *taken);

    EST_MUST_CHECK est_status (*enter)(est_remote *remote, const est_segment *segment, est_remote_segment **out);
    void (*leave)(est_remote_segment *segment); /* NULL is fine */

    /* Sends the inputs, which stay as they are until finish; does not wait, but until the step was made if the segment is late.
     * Several may be under way at one task, which runs them in the order of their starts. */
    EST_MUST_CHECK est_status (*start)(est_remote_segment *segment, uint64_t run_seed, est_view *const *in, int n_in);

    /* Waits for the outputs, which are borrowed until the next start, and are read from where they lie. */
    EST_MUST_CHECK est_status (*finish)(est_remote_segment *segment, const est_view **out);

    /* Waits for, or gives up, whatever was started and not finished: its inputs are the caller's again. */
    void (*abandon)(est_remote *remote);

    /* Fills initialized[i] for variables that are elsewhere. */
    EST_MUST_CHECK est_status (*initialized)(est_remote *remote, est_var *const *vars, int n, bool *initialized);
    EST_MUST_CHECK est_status (*read)(est_remote *remote, const est_var *var, est_tensor **out);
    EST_MUST_CHECK est_status (*write)(est_remote *remote, const est_var *var, const est_tensor *value);

    /* The first of the entries whose variable has a NaN; -1: none. */
    EST_MUST_CHECK est_status (*find_nan)(est_remote *remote, const est_remote_entry *entries, int n, int *out);

    /* Every task that has some of the variables takes a snapshot of them (est_store_snapshot), writes it while training goes on,
     * and answers when it is on disk; parts[n_tasks] says who has written one. A variable with a NaN is
     * EST_INVALID_ARGUMENT that names it. Parts that are left when another task failed, the caller removes. */
    EST_MUST_CHECK est_status (*save)(est_remote *remote, const est_remote_files *files, bool *parts);

    /* verify: every task reads and checks what it has entries for, nothing changes (est_store_verify). restore: it reads them
     * into its variables, which have values then (est_store_restore). */
    EST_MUST_CHECK est_status (*verify)(est_remote *remote, const est_remote_files *files);
    EST_MUST_CHECK est_status (*restore)(est_remote *remote, const est_remote_files *files);

    /* Asks to begin a training step and waits until it may; *finished: there is none left to begin. NULL: ask nobody. */
    EST_MUST_CHECK est_status (*turn)(est_remote *remote, bool *finished);
} est_remote_ops;

struct est_remote {
    const est_remote_ops  *ops;
    int                    n_tasks;
    int                    n_keepers;     /* the first of them, which get the variables that no device places */
    bool                   sync_replicas; /* training steps are made of what several workers push */
    bool                   in_turn;       /* `place` goes round: variables come as they were made, not by size */
    const est_partitioner *partitioner;   /* which variables are spread over tasks; borrowed. NULL: none */
};

/* --- the cut (runtime/partition.c) ----------------------------------------------------------------------------------- */

/* Lookups in tables that are elsewhere ask for distinct rows only, which are then looked up here. */
EST_MUST_CHECK est_status est_pass_lookups(est_graph *graph, est_io *io, const est_store *store);

/* What touches a variable whose rows are spread over tasks touches its shards instead (runtime/shard.c). To be run after
 * est_pass_lookups. */
EST_MUST_CHECK est_status est_pass_shard(est_graph *graph, est_io *io, const est_store *store);

/* Where everything runs, and the segments of that: the graph is left with what runs here, in which an EstStart and an EstFinish
 * stand for each segment. Segments are in `arena`, their graphs are the caller's to free. */
EST_MUST_CHECK est_status est_pass_partition(est_graph *graph, est_io *io, const est_store *store,
                                             const est_remote *remote, est_arena *arena, est_segment **segments,
                                             int *n_segments);

/* The ops that the cut leaves behind; call.state is the segment's est_remote_binding. */
extern const est_op est_op_start, est_op_finish;

typedef struct est_remote_binding {
    const est_remote_ops *ops;
    est_remote_segment   *segment;
    bool                  finished; /* in this run */
    const est_view       *got;      /* what finish gave then; NULL when there is nothing */
} est_remote_binding;

#endif
