/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions: run a graph, own its variables.
 *
 * A session plans a set of feeds and fetches once (order, memory, kernels) and then runs the plan many times without
 * allocating. Feeds may change their unknown dimensions from run to run: a smaller batch uses the same plan, a larger
 * one makes it grow once.
 *
 * Threading: one thread at a time. */
#ifndef ESTOC_SESSION_H
#define ESTOC_SESSION_H

#include <stdio.h>

#include "estoc/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_session est_session;
typedef struct est_step    est_step;

typedef struct est_session_options {
    size_t   struct_size;    /* filled by EST_SESSION */
    int      threads;        /* 0: ESTOC_NUM_THREADS, else the cores this process may use */
    uint64_t seed;           /* of random ops without a seed, if the graph has none; 0: drawn once */
    bool     check_numerics; /* true: a NaN or infinity in any result ends the run, naming the node that made it */
    bool     no_passes;      /* true: run the graph exactly as built (no folding, merging, fusing) */

    /* the tasks of a cluster that hold variables and run segments of steps (estoc/server.h); borrowed until the session
     * is freed. NULL: everything runs in this process */
    struct est_remote *remote;
    /* the other workers of synchronous training (estoc/strategy.h); borrowed likewise. NULL: there are none, and a
     * reduction returns its input */
    struct est_communicator *communicator;

    /* a server of a cluster, as est_server_target gives it ("tls://host:port"): the master there gets the graph, places
     * it on the tasks of its cluster and drives the steps; this process sends feeds and gets fetches, and variables
     * live at the tasks (docs/cluster.md, "A session at a target"). Not with remote. NULL, "": none */
    const char *target;
    double connect_secs; /* with target: how long to wait for the server, then for all its tasks; 0: 7200; up to 1e9 */

    /* devices that run operations beside the CPU, "/gpu:0" (estoc/devices.h); "/cpu:0" alone: none. Zeroed: GPU 0 where
     * there is one. What no device can run is run by the CPU, and so is what other tasks of a cluster run. With a
     * target only "/cpu:0": the server's master computes on CPUs */
    est_strings devices;
    bool        no_soft_placement;    /* true: an operation that cannot run on the device it is pinned to is an error */
    bool        log_device_placement; /* true: logs where each operation runs */
    bool        no_tf32; /* true: products of float32 on a GPU use all their bits; false: TF32, as TensorFlow has it */
    /* bytes that this process takes of each of these devices, whoever asks for them; 0: as before, at first all there
     * are. Memory is taken as it is needed, never all of it */
    int64_t device_memory_limit;
} est_session_options;

#define EST_SESSION(...)                                                                                               \
    (&(const est_session_options){ .struct_size = EST_STRUCT_SIZE(est_session_options), __VA_ARGS__ })

/* A session over `graph`, which is borrowed until the session is freed and must not have failed. options NULL: all
 * defaults. */
EST_API EST_MUST_CHECK est_status est_session_create(est_graph *graph, const est_session_options *options,
                                                     est_session **out);

/* Frees the session with its variables and steps. NULL is fine. */
EST_API void est_session_free(est_session *session);

/* Runs the initializer of every variable that has no value yet. */
EST_API EST_MUST_CHECK est_status est_session_init(est_session *session);

/* A value for a node of the graph, and a list of them as one argument: EST_FEEDS({ x, batch }, { y, labels }). */
typedef struct est_feed {
    est_node          node;
    const est_tensor *value;
} est_feed;

typedef struct est_feeds {
    const est_feed *data;
    int             n;
} est_feeds;

#define EST_FEEDS(...) EST_SPAN(est_feeds, const est_feed, __VA_ARGS__)
#define EST_NO_FEEDS   ((est_feeds){ 0 })

/* Runs everything that `fetches` and `targets` depend on, with the given feeds, and puts one new tensor per fetch into
 * out (owned by the caller). Feeds are borrowed during the call. Variables are read before this run's updates, so a
 * loss fetched with a training operation is the loss before the step; est_after() orders otherwise. Plans are kept, so
 * calling it again with the same nodes is cheap; the prepared form below is cheaper still. */
EST_API EST_MUST_CHECK est_status est_session_run(est_session *session, est_feeds feeds, est_nodes fetches,
                                                  est_nodes targets, est_tensor **out);

/* The prepared form: plans once for these feeds, fetches and targets. The step belongs to the session. Preparing the
 * same nodes again gives the same step, with the same memory for results. */
EST_API EST_MUST_CHECK est_status est_session_prepare(est_session *session, est_nodes feeds, est_nodes fetches,
                                                      est_nodes targets, est_step **out);

/* Runs a prepared step with one value per feed, in order (NULL: no feeds); allocates nothing for shapes that were run
 * before. EST_OUT_OF_RANGE: no training step is left to be made (est_remote_options.step_limit, estoc/server.h). */
EST_API EST_MUST_CHECK est_status est_step_run(est_step *step, const est_tensor *const *feeds);

/* The same, but a step on a device that runs by itself (estoc/devices.h) may return before it is done: up to four runs
 * are under way at a time. What is asked for after that waits: results, variables, another run. A run that fails there
 * changes no variable from the failure on, runs that were started behind it are as if they never were, and the next
 * function that can fail says so; est_step_wait waits for that. Feeds are borrowed during the call. */
EST_API EST_MUST_CHECK est_status est_step_start(est_step *step, const est_tensor *const *feeds);
EST_API EST_MUST_CHECK est_status est_step_wait(est_step *step);

/* Gives a step back before its session goes. Its plan is freed with the last of those who have prepared it, unless
 * est_session_run has used it; variables stay. NULL is fine. */
EST_API void est_step_free(est_step *step);

/* Result i of the last run: data, shape, and the number when it is a scalar. Borrowed until the next run. A fetched
 * feed is the feed itself. Of a run that was started and has failed: NULL and NaN. */
EST_API const void      *est_step_data(const est_step *step, int i);
EST_API const est_shape *est_step_shape(const est_step *step, int i);
EST_API double           est_step_scalar(const est_step *step, int i);

/* Variables by name. read gives a copy; write checks dtype and shape and makes the variable initialised. */
EST_API EST_MUST_CHECK est_status est_session_read(est_session *session, const char *variable, est_tensor **out);
EST_API EST_MUST_CHECK est_status est_session_write(est_session *session, const char *variable,
                                                    const est_tensor *value);
/* How many variables the graph has, and the name of one (borrowed until the session is freed). */
EST_API int         est_session_variables(const est_session *session);
EST_API const char *est_session_variable(const est_session *session, int i);

/* Where a variable is: here, at another task, or its rows in shards at several tasks (a ShardedVariable of
 * tf.distribute, whose `variables` these parts are). */
typedef struct est_variable_part {
    est_shape shape;       /* of the part */
    int64_t   first_row;   /* in the whole variable */
    char      device[128]; /* "/job:ps/replica:0/task:1/device:CPU:0"; job localhost, task 0: in this process */
    uint64_t  reserved[4]; /* zeros: room for members to come */
} est_variable_part;

/* How many parts a variable has: 1 unless it is sharded; 0: there is no such variable, or the session failed to place
 * its variables. Part i, and a copy of its value. */
EST_API int                       est_session_variable_parts(est_session *session, const char *variable);
EST_API EST_MUST_CHECK est_status est_session_variable_part(est_session *session, const char *variable, int i,
                                                            est_variable_part *out);
EST_API EST_MUST_CHECK est_status est_session_read_part(est_session *session, const char *variable, int i,
                                                        est_tensor **out);

/* The counter that makes random operations differ from run to run; saved and restored to resume exactly. */
EST_API uint64_t est_session_run_count(const est_session *session);
EST_API void     est_session_set_run_count(est_session *session, uint64_t count);

/* What random operations draw by from the next run on, in place of the seed of the graph; 0: one is drawn. */
EST_API void est_session_set_seed(est_session *session, uint64_t seed);

typedef struct est_timeline_options {
    size_t struct_size; /* filled by EST_TIMELINE */
    bool   no_dataflow; /* true: no arrows from the operation that makes a value to those that read it */
    bool   show_memory; /* true: counters of the bytes that are taken while each operation runs */
} est_timeline_options;
#define EST_TIMELINE(...)                                                                                              \
    (&(const est_timeline_options){ .struct_size = EST_STRUCT_SIZE(est_timeline_options), __VA_ARGS__ })

/* Records the next `runs` runs of the step; afterwards the trace can be written as a Chrome timeline (chrome://tracing,
 * Perfetto; options NULL: all defaults) or as a table of where time and memory went. */
EST_API EST_MUST_CHECK est_status est_step_trace(est_step *step, int runs);
EST_API EST_MUST_CHECK est_status est_step_write_timeline(est_step *step, const char *path,
                                                          const est_timeline_options *options);
EST_API void                      est_step_report(est_step *step, FILE *out);

/* The memory of a step: the bytes of the plan's slab, and how many times it was laid out (1 unless shapes grew). */
EST_API size_t est_step_slab_bytes(const est_step *step);
EST_API int    est_step_layouts(const est_step *step);

#ifdef __cplusplus
}
#endif
#endif
