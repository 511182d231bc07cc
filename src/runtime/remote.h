/* SPDX-License-Identifier: Apache-2.0
 *
 * The other tasks that a session uses: a contract that cluster/ implements with sockets and tests implement in memory.
 *
 * runtime/partition.c cuts a step into what runs here and segments, which other tasks run. A segment has a graph of its
 * own. It is entered at its task once, then started with inputs and finished with outputs in every run. Tasks are
 * numbers from 0 up; variables at other tasks have no memory here (est_var.elsewhere).
 *
 * Failures: EST_UNAVAILABLE and EST_ABORTED mean that the task was lost or restarted; a new session may succeed
 * (train/loop.h). Threading: one thread at a time. */
#ifndef EST_RUNTIME_REMOTE_H
#define EST_RUNTIME_REMOTE_H

#include "estoc/partitioner.h"
#include "graph/variable.h"
#include "runtime/pass.h"
#include "runtime/store_files.h"

typedef struct est_remote         est_remote;
typedef struct est_remote_segment est_remote_segment; /* a segment after it was entered at its task */

/* A tensor that the task of a segment sends to a task, which may be itself. */
typedef struct est_segment_send {
    int output; /* of the segment */
    int task;   /* that needs it, once however many of its segments do */
    int edge;   /* the number of this transfer in the step */
} est_segment_send;

/* The part of a step that another task runs. */
typedef struct est_segment {
    int        task;
    int        phase;   /* which exchange of messages with that task, from 1 up */
    int        piece;   /* 0: what is in no piece; from 1 up: pieces, sent before; -1: what only reads, together */
    bool       writes;  /* changes variables: must not run twice for one start */
    bool       trains;  /* is of a step that moves the variable "global_step" on */
    bool       counted; /* trains and writes at the task where another segment of the step does that */
    bool       late;    /* sees what a step that is made together has changed: runs when it was made */
    est_graph *graph;
    est_io     io;    /* of that graph */
    int        n_in;  /* inputs that come from here: the first ones; the others come from tasks (est_remote.direct), */
    const int *edges; /* [io.n_feeds - n_in]: by these transfers */
    int        n_out; /* outputs that come here: the first ones; the others are only sent to tasks */
    const est_segment_send *sends;
    int                     n_sends;
} est_segment;

/* A variable at another task, or a shard of it, with its key in a checkpoint. */
typedef struct est_remote_entry {
    int             task;
    est_store_entry entry;
} est_remote_entry;

/* A checkpoint of which each task writes or reads the part with its variables, in a file system that all tasks
 * share. */
typedef struct est_remote_files {
    const char             *prefix;  /* save: each task writes its part of it, est_part_prefix(prefix, task) */
    const est_remote_entry *entries; /* [n] */
    int                     n;
} est_remote_files;

struct est_partition_step; /* runtime/partition.h */

typedef struct est_remote_ops {
    /* Called when a session is made: connects to the tasks (again), waits with a deadline for those that are missing,
     * logs the wait, and lists the variables of each. */
    EST_MUST_CHECK est_status (*connect)(est_remote *remote);

    /* "ps:0"; borrowed. */
    const char *(*name)(const est_remote *remote, int task);

    /* The task of a device's job and index; -1: it does not belong to the remote. */
    int (*find)(const est_remote *remote, const char *job, int index);

    /* Whether this process itself is that task. */
    bool (*is_here)(const est_remote *remote, const char *job, int index);

    /* located: the task that has the variable; -1: none. place: chooses the task for new variables of `bytes` in all,
     * and adds them to its load; never one of taken[n_keepers], which are not all. taken NULL: any of them. */
    int (*located)(const est_remote *remote, const char *variable);
    int (*place)(est_remote *remote, uint64_t bytes, const bool *taken);

    /* The graph of the session has grown, or is new: told before its new variables are placed. NULL: not needed. */
    EST_MUST_CHECK est_status (*grow)(est_remote *remote, const est_graph *graph);

    /* Fills task[] for the nodes of a step, which are EST_HERE. NULL: by variables and devices (partition_place.c). */
    EST_MUST_CHECK est_status (*assign)(const est_remote *remote, const struct est_partition_step *step, int32_t *task);

    /* The segment is borrowed until leave. */
    EST_MUST_CHECK est_status (*enter)(est_remote *remote, const est_segment *segment, est_remote_segment **out);
    void (*leave)(est_remote_segment *segment); /* NULL is fine */

    /* Sends the inputs from here, which must not change until finish. Does not wait, except that a late segment waits
     * until the step was made. Several may be under way at one task, which runs them in the order of their starts; one
     * that receives tensors from tasks runs when they have come. */
    EST_MUST_CHECK est_status (*start)(est_remote_segment *segment, uint64_t run_seed, est_view *const *in, int n_in);

    /* Waits for the outputs that come here, which are borrowed until the next start and not copied. */
    EST_MUST_CHECK est_status (*finish)(est_remote_segment *segment, const est_view **out);

    /* The same without waiting, for a run ahead (runtime/run_ahead.h): where outputs will be. NULL: not possible. */
    EST_MUST_CHECK est_status (*expect)(est_remote_segment *segment, const est_view **out);

    /* Waits for, or gives up, all segments that were started and not finished: their inputs are the caller's again. */
    void (*abandon)(est_remote *remote);

    /* Fills initialized[i] for variables that are elsewhere. */
    EST_MUST_CHECK est_status (*initialized)(est_remote *remote, est_var *const *vars, int n, bool *initialized);
    EST_MUST_CHECK est_status (*read)(est_remote *remote, const est_var *var, est_tensor **out);
    /* value NULL: `var` is a dynamic embedding, which loses all its keys. */
    EST_MUST_CHECK est_status (*write)(est_remote *remote, const est_var *var, const est_tensor *value);

    /* The first of the entries whose variable has a NaN; -1: none. */
    EST_MUST_CHECK est_status (*find_nan)(est_remote *remote, const est_remote_entry *entries, int n, int *out);

    /* Every task with entries takes a snapshot of its variables (est_store_snapshot), writes it while training goes on,
     * and answers when it is on disk; parts[n_tasks]: which tasks wrote one. EST_INVALID_ARGUMENT: a variable has a
     * NaN; the error names it. After a failure the caller removes the parts of the other tasks. */
    EST_MUST_CHECK est_status (*save)(est_remote *remote, const est_remote_files *files, bool *parts);

    /* verify: every task reads and checks its entries and changes nothing (est_store_verify). restore: it reads them
     * into its variables, which are initialized then (est_store_restore). */
    EST_MUST_CHECK est_status (*verify)(est_remote *remote, const est_remote_files *files);
    EST_MUST_CHECK est_status (*restore)(est_remote *remote, const est_remote_files *files);

    /* The device of a variable that is elsewhere. NULL: that of its task. */
    EST_MUST_CHECK est_status (*device)(est_remote *remote, const est_var *var, char *out, size_t size);

    /* Waits for the turn to make a training step and sets has_turn; *finished: no step is left. NULL: no turns are
     * needed. */
    EST_MUST_CHECK est_status (*turn)(est_remote *remote, bool *finished);

    /* After a training step: waits until it was made together (sync_replicas). NULL: steps need no end. */
    EST_MUST_CHECK est_status (*complete)(est_remote *remote);
} est_remote_ops;

struct est_remote {
    const est_remote_ops  *ops;
    int                    n_tasks;
    int                    n_keepers;     /* the first of them, which get the variables that no device places */
    bool                   sync_replicas; /* a training step is the mean of what several workers push */
    bool                   takes_turns;   /* a training step must begin with a turn: est_step_run takes it, */
    bool                   has_turn;      /* unless its caller did */
    bool                   runs_all;      /* task 0 runs everything, and partitions it itself (cluster/target.c) */
    bool                   whole_phases;  /* no pieces of a phase are started before the rest */
    bool                   direct;        /* tensors travel from task to task, not through this process */
    uint64_t               step;          /* the run under way of a plan with segments; counted up by each */
    bool                   in_turn;       /* `place` is round-robin: variables come in order of creation, not of size */
    const est_partitioner *partitioner;   /* which variables are spread over tasks; borrowed. NULL: none */
};

/* "/job:ps/replica:0/task:1/device:CPU:0", where a variable or a shard is; job localhost, task 0: in this process
 * (runtime/variable_parts.c). */
EST_MUST_CHECK est_status est_remote_device(est_remote *remote, const est_var *var, char *out, size_t size);

/* --- the cut (runtime/partition.c) -------------------------------------------------------------------------------- */

/* Lookups in tables that are elsewhere ask for distinct rows only, which are then looked up here. */
EST_MUST_CHECK est_status est_pass_lookups(est_graph *graph, est_io *io, const est_store *store);

/* What touches a variable whose rows are spread over tasks touches its shards instead (runtime/shard_variables.c). To
 * be run after est_pass_lookups. */
EST_MUST_CHECK est_status est_pass_shard(est_graph *graph, est_io *io, const est_store *store);

/* Where everything runs, and the segments of that: the graph is left with what runs here, in which an EstStart and an
 * EstFinish stand for each segment; their attribute "segment" counts from `first`. Segments are in `arena`, their
 * graphs are the caller's to free. */
EST_MUST_CHECK est_status est_pass_partition(est_graph *graph, est_io *io, const est_store *store,
                                             const est_remote *remote, int first, est_arena *arena,
                                             est_segment **segments, int *n_segments);

/* The ops that the cut leaves behind; est_call.state is the segment's est_remote_binding. */
extern const est_op est_op_start, est_op_finish;

typedef struct est_remote_binding {
    const est_remote_ops *ops;
    est_remote_segment   *segment;
    bool                  finished; /* in this run */
    const bool           *ahead;    /* whether the run is one that is not waited for; NULL: never */
    const est_view       *got;      /* what finish gave then; NULL when there is nothing */
} est_remote_binding;

#endif
