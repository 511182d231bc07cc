/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan: everything about a step that can be decided before it runs.
 *
 * Built from a private graph (runtime/pass.h) in these moves, one file each:
^ *   reduce_packs.c  exchanges with other workers
 *   copies.c     variables on several devices
 *   partition.c  segments that other tasks run, then segments that other devices of this process run
 *   order.c      the order of the nodes, including hazards of variables
 *   plan.c       one item per node: its kernel, its views, the sources of its inputs
 *   waves.c      independent small items share the threads
 *   aside.c      what is needed late runs beside the rest, on a device that runs by itself
 *   layout.c     sizes, lifetimes, one slab for all intermediate results
 *   execute.c    a step: check feeds, follow changed shapes, call kernels in order
 *   record.c     a step on a device that runs by itself: such a segment is a plan of its own
 *
 * Invariants, cited as P1.. in the code:
 *   P1  Memory of a slab buffer is used by one value at a time: the buffers of two values overlap only if the last use
 *       of one comes before the other is made.
 *   P2  A read of a variable that does not come after a write to it by a data or control edge comes before that write,
 *       and sees the value from before.
 *   P3  Sizes in the slab are at least those of the largest shapes seen so far. A step with shapes that fit changes no
 *       memory; one that does not fit lays the slab out again, once, with room to spare for what has changed.
 *   P4  Fetched values keep their memory until the end of the run and until the next one starts.
 *   P5  Items of a wave run at the same time, in lanes. Items of different lanes touch no memory that one of them
 *       writes. On a device that runs by itself an item may stand aside: it begins with its wave and runs beside all
 *       that follows, up to the wave that meets its lane; so long its memory is its own.
 *   P6  The first value of a variable is made in the variable's memory if nothing touches the variable meanwhile: large
 *       tables are drawn where they stay.
 *   P7  Rows of a large variable may wait to be drawn (kernels/lazy_rows.h). Ops that are by_rows draw those that they
 *       touch; of what any other op touches, all rows were drawn before the first run.
 *   P8  A run announces variables that it changes as a whole before any item runs: the new value may be made in their
 *       memory (P6). Snapshots of them (kernels/copy_on_write.h) keep what they had. */
#ifndef EST_RUNTIME_PLAN_H
#define EST_RUNTIME_PLAN_H

#include "graph/variable.h"
#include "runtime/communicator.h"
#include "runtime/pass.h"
#include "runtime/remote.h"
#include "runtime/store.h"

/* A block of memory that one or several views share. Views of constants, feeds, variables and of what is
 * lent (est_op.lends) have none. */
typedef struct est_buffer {
    enum {
        EST_BUFFER_SLAB,
        EST_BUFFER_HEAP,    /* size is not known before the step: grows on demand */
        EST_BUFFER_VARIABLE /* of the variable that is assigned what is made here (P6) */
    } kind;
    size_t  bytes;       /* capacity */
    size_t  offset;      /* SLAB */
    void   *data;        /* all others */
    int32_t first, last; /* items between which its bytes are taken, lanes of a wave counted as one moment */
    int32_t last_use;    /* the item that looks at it last */
    int32_t views;       /* the first of the views that share it, as est_slot.next goes on */
} est_buffer;

typedef struct est_item {
    est_call          call;
    const est_kernel *kernel;   /* NULL: nothing to run, only shapes to follow */
    est_shape        *in_shape; /* what infer sees, and what prepare() last saw */
    est_dtype        *in_dtype;
    const est_value **in_value;
    est_value        *in_read;   /* integers read from memory while running */
    est_shape        *out_shape; /* what infer says */
    est_value        *out_value;
    est_shape        *prepared;      /* output shapes prepare() last saw; rank -2: never called */
    int32_t           first_view;    /* its outputs are views [first_view, first_view + n_out) */
    size_t            scratch_bytes; /* for the largest shapes seen, or more (P3) */
    size_t            scratch_offset;
    bool              copied;   /* an alias op that must copy (P2, P4) */
    bool              runs;     /* its data is needed, or it has an effect */
    bool              dynamic;  /* shapes depend on data of this step: inferred just before it runs */
    bool              followed; /* dynamic, and inferred and prepared in the last run that came to it */
    bool              looked;   /* infer was asked in this resolve: something that it sees may have changed */
    bool              changed;  /* a shape or value that it makes is not that of the last resolve */
    bool              late;     /* dynamic, and not even bounded before: its memory and scratch are on the heap */
    int32_t           aside;    /* the side lane that it runs in; -1: none */
    int32_t           met;      /* of such an item: the first of the wave that meets it; n_items: the end does */
} est_item;

/* Consecutive steps that run as one: a single item, which may use all threads itself, or lanes of small items. */
typedef struct est_plan_wave {
    int32_t  first, end; /* in est_plan.steps; lanes lie one after the other there */
    int32_t  n_lanes;    /* 1: run here and now */
    int32_t *lane_end;   /* [n_lanes], in est_plan.steps */
    uint32_t meets;      /* bit i: what runs in side lane i must be done before */
} est_plan_wave;

/* Facts about one output of one node. */
typedef struct est_slot {
    size_t  capacity; /* bytes of the largest shape seen, or more (P3) */
    int32_t maker;    /* item */
    int32_t root;     /* the view whose memory it shares: itself unless made by an alias op */
    int32_t output;   /* of its maker */
    int32_t buffer;
    int32_t next;    /* view of its buffer, or -1 */
    int32_t inplace; /* the input view it was written over, or -1 */
    bool    dynamic;
    bool    needed; /* somebody looks at the data */
    bool    kept;   /* fetched */
} est_slot;

typedef struct est_trace         est_trace;
typedef struct est_recorder      est_recorder;
typedef struct est_plan_ahead    est_plan_ahead;    /* runtime/run_ahead.h */
typedef struct est_local_devices est_local_devices; /* runtime/local_devices.h */

typedef struct est_plan {
    est_graph        *graph; /* private copy */
    est_io            io;
    const est_device *device; /* whose memory the slab is */
    est_pool         *pool;
    est_arena        *arena;
    est_order         order;
    int32_t           n_items; /* as many as the order has nodes */
    est_item         *items;   /* in that order */
    int32_t          *item_of; /* node id -> item, -1: not in the plan */
    int32_t           n_views;
    est_view         *views;
    est_slot         *slots; /* one per view */
    int32_t          *steps; /* items that a run must visit: those that run or are dynamic */
    int32_t           n_steps;
    int32_t          *step_of; /* item -> its place in steps, -1: none */
    est_plan_wave    *waves;
    int32_t           n_waves;
    int32_t          *wave_of;     /* item -> wave, -1: none */
    est_error        *lane_errors; /* as many as a wave has lanes at most */
    int32_t          *followers;   /* views that alias a feed or what is lent: their address changes with it */
    int32_t           n_followers;
    int32_t           n_buffers;
    est_buffer       *buffers;
    char             *slab;
    size_t            slab_bytes;
    int               n_layouts;
    bool              laid_out; /* memory suits the largest shapes seen; false while a layout is due */
    est_shape        *fed;      /* shapes of the last feeds; rank -2: never fed */
    bool       resolved; /* shapes, memory and kernels are those of `fed`; false after any failure on the way there */
    bool       inferred; /* the last resolve came to its end: items that see nothing new are as it left them */
    est_shape *shape_before; /* of an item, while it is inferred again: as many as an item has outputs at most */
    est_value *value_before;
    est_var  **vars; /* that must be initialised before a run */
    int        n_vars;
    est_var  **whole; /* that something touches not only by rows: all of their rows must have been drawn before a run */
    int        n_whole;
    /* Variables that something changes not only by rows: their snapshots (kernels/copy_on_write.h) are told before a
     * run. */
    est_var           **changed;
    int                 n_changed;
    bool                vars_ready; /* all of them are */
    est_row_table     **row_tables; /* that a run changes: committed when it succeeds, else rolled back */
    int                 n_row_tables;
    est_lookup_table  **tables; /* that must be filled before a run */
    int                 n_tables;
    const char        **far_tables; /* the same at other tasks, by name */
    int                 n_far_tables;
    bool                far_filled;
    est_segment        *segments; /* run by other tasks; in the arena */
    est_remote_binding *bindings; /* per segment, likewise */
    int                 n_segments;
    est_remote         *remote;  /* NULL: no other tasks */
    est_local_devices  *devices; /* other devices of this process; NULL: none */
    est_segment        *parts;   /* run by those; in the arena */
    est_remote_binding *part_bindings;
    int                 n_parts;
    /* Where fed tensors lie: NULL in memory of the host. fed_on itself is NULL if the plan has no parts. */
    const est_device **fed_on;     /* [n_feeds] */
    bool              *fed_here;   /* [n_feeds]: the host looks at it, so that one of a device is copied */
    est_tensor       **fed_copies; /* [n_feeds]: those copies */
    est_plan_ahead    *ahead;      /* NULL: its runs are waited for */
    bool               runs_ahead; /* the run under way is not */
    est_recorder      *recorder;   /* on a device that runs by itself (runtime/record.h); NULL: runs are est_plan_run */
    est_exchange      *exchange;   /* with other workers; NULL: none */
    bool               check_numerics;
    uint64_t           run_seed[2]; /* of the run; the second without the seed that the session has drawn */
    est_trace         *trace;       /* NULL: never recorded */
} est_plan;

/* Plans `io` of `graph` over the variables in `store`. */
typedef struct est_plan_options {
    const est_device  *device;
    est_pool          *pool;
    bool               passes;
    bool               check_numerics;
    est_remote        *remote;       /* other tasks that run segments; NULL: none */
    est_communicator  *communicator; /* other workers of the step; NULL: none */
    est_local_devices *devices;      /* that run parts of it; NULL: none */
    est_queue         *queue;        /* of `device`, if that runs by itself */
    bool               no_tf32;      /* est_session_options */
} est_plan_options;

/* Computes what depends on constants alone (runtime/fold.c). */
EST_MUST_CHECK est_status est_pass_fold(est_graph *graph, est_io *io, est_store *store,
                                        const est_plan_options *options);

EST_MUST_CHECK est_status est_plan_create(const est_graph *graph, const est_io *io, est_store *store,
                                          const est_plan_options *options, est_plan **out);
void                      est_plan_free(est_plan *plan);

/* Sets the seeds of the next run; and which of them an operation draws by. */
void est_plan_seed(est_plan *plan, uint64_t run_seed);
int  est_plan_seed_of(const est_node_def *def);

/* One step. Feeds in the order of io.feeds; borrowed until the next run for fetches that alias them. */
EST_MUST_CHECK est_status est_plan_run(est_plan *plan, const est_tensor *const *feeds, uint64_t run_seed);

/* Result i of the last run. */
const est_view *est_plan_fetch(const est_plan *plan, int i); /* NULL: there is no such one */

/* --- between the files of the plan -------------------------------------------------------------------------------- */

/* Follows the fed shapes through the plan and lays memory out again if something no longer fits. */
EST_MUST_CHECK est_status est_plan_resolve(est_plan *plan);

/* Gathers small items that do not depend on each other into lanes (P5). After kernels are chosen, before layout. */
EST_MUST_CHECK est_status est_plan_waves(est_plan *plan);

/* Of the waves of a device that runs by itself: which items stand aside. */
EST_MUST_CHECK est_status est_plan_aside(est_plan *plan, const est_incoming *in);

/* Picks the first kernel of each op that accepts the shapes of the first step. */
EST_MUST_CHECK est_status est_plan_choose_kernels(est_plan *plan);

/* Gives every needed view its memory (P1, P3). */
EST_MUST_CHECK est_status est_plan_layout(est_plan *plan);
void                      est_plan_free_buffers(est_plan *plan);

/* Infers the output shapes of an item from its input views; `running`: integer inputs may be read from memory, and
 * every dimension must come out known. */
EST_MUST_CHECK est_status est_item_infer(est_plan *plan, est_item *item, bool running);

/* Calls the kernel's prepare() when shapes have changed since it was last called. */
EST_MUST_CHECK est_status est_item_prepare(est_item *item);

/* Fails unless all variables that a run reads have values; draws the rows that wait (P7). */
EST_MUST_CHECK est_status est_plan_check_variables(est_plan *plan);

/* Reshapes and the like of a feed, or of what is lent, point where that is now. */
void est_plan_follow_addresses(est_plan *plan);

/* For check_numerics: fails for a NaN or an infinity. */
EST_MUST_CHECK est_status est_view_check_numbers(const est_view *view, int output);

/* Whether the item reads the data of an input: kernels do unless only its shape matters; an item that does not run may
 * still read integers to know its shape. */
bool est_item_looks_at(const est_item *item, int input);

/* Puts the node's name and source line in front of a failure of it. */
est_status est_item_failed(const est_item *item, est_status status);

static inline int32_t est_view_index(const est_plan *plan, const est_view *view)
{
    return (int32_t)(view - plan->views);
}

#endif
