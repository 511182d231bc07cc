/* SPDX-License-Identifier: Apache-2.0
 *
 * The coordinator: one program trains with all workers of a cluster by handing out calls of functions
 * (tf.distribute's ParameterServerStrategy with ClusterCoordinator).
 *
 *     est_parameter_server_strategy(EST_PARAMETER_SERVER(.resolver = resolver), &strategy);
 *     ... build the graph in est_strategy_scope: model, optimizer, metrics ...
 *     est_coordinator_create(strategy, graph, EST_COORDINATOR(.model_dir = dir), &coordinator);
 *     est_coordinator_dataset(coordinator, dataset, NULL, &rows);
 *     est_per_worker_iterator(rows, &batches);
 *     est_coordinator_function(coordinator, "step", EST_NODES(words, label), EST_NODES(loss), EST_NODES(train), &step);
 *     for (epoch = est_coordinator_epoch(coordinator); epoch < EPOCHS; epoch++) {
 *         for (i = 0; i < STEPS; i++)
 *             est_coordinator_schedule(coordinator, step,
 *                 EST_ARGUMENTS({ .node = words, .from = batches, .component = "features" },
 *                               { .node = label, .from = batches, .component = "label" }), NULL);
 *         est_coordinator_join(coordinator);
 *         est_coordinator_save(coordinator, epoch + 1);
 *     }
 *     est_coordinator_end(coordinator);
 *     est_coordinator_free(coordinator);
 *
 * The other tasks run a server (estoc/server.h): est_server_create, est_server_join. The ps tasks keep the variables.
 * A worker gets a function as a graph, once, and runs calls of it in a session of its own over the ps tasks: neither
 * parameters nor gradients pass through the coordinator, only arguments and results of calls.
 *
 * Any worker that is there runs the next call of the queue, so calls are independent of each other and complete in any
 * order. A worker that is lost costs nothing but time: its calls go to other workers, and when it is back it takes part
 * again. Workers may come at any time, also after training has begun.
 *
 * Exactly once. Every call has a number, which all attempts share. A ps task that has applied a part of a call answers
 * another attempt without applying it again. So each variable takes the update of a call once, however often workers
 * are lost (TensorFlow promises: at least once). Two ps tasks may have applied the updates of two attempts, which read
 * different batches. With .at_least_once a repeated call may update a variable again, and ps tasks remember nothing.
 *
 * A lost ps task. All calls wait until it is back; its variables then return to the last checkpoint, while those of
 * other ps tasks keep their values. Updates since the checkpoint are lost for its variables, and calls that were under
 * way are made again. Without .model_dir there is no checkpoint: est_coordinator_join and the others fail. The recovery
 * happens inside est_coordinator_schedule, _join, _done, _save, _function and est_remote_value_fetch, since session and
 * graph are the program's: a loop over est_remote_value_status alone waits forever, so call est_coordinator_done in it.
 * A warning says so after 10 s.
 *
 * A lost coordinator. Start the program again: workers and ps tasks keep running and obey the coordinator that was
 * started last. All variables, the epoch and the positions of iterators return together to the last checkpoint of
 * .model_dir, or to their initial values if there is none. Calls of the lost coordinator that were still under way are
 * refused by the ps tasks.
 *
 * Errors. An error of a function, which is not the loss of a task, is kept: calls in the queue are cancelled, those
 * under way end, then the next schedule, join or done returns the error, once. After that scheduling may go on. A
 * dataset that ends is such an error (EST_OUT_OF_RANGE): repeat it, and let the number of calls end an epoch.
 *
 * The end. est_coordinator_end ends the job: the program is complete, and est_server_join returns in all other tasks.
 * est_coordinator_free only leaves. Without the end of the job the other tasks keep running and wait for the next
 * coordinator, as after the loss of one: a program that has failed can be started again. Their est_server_join fails
 * when none comes within lonely_secs of est_server_options.
 *
 * Waits are logged with their reason, those of tasks without a coordinator as well.
 *
 * Signals. From est_coordinator_create to est_coordinator_free SIGTERM and SIGINT are caught, as est_train does: waits,
 * and calls of schedule and done, then return EST_CANCELLED. est_coordinator_save still works, but fails after
 * silence_secs without a worker to complete calls that have begun. So the program may save and free the coordinator:
 * queued calls are not made, the other tasks keep running, and est_exit_code gives 75. A restarted program goes on from
 * the checkpoint. A second signal ends the process. A signal that the program ignores stays ignored, and with
 * .no_signals the program handles both itself.
 *
 * Threading: est_coordinator_schedule, _join, _done, _get_stats and the functions of est_remote_value from any thread,
 * at the same time. All others, and uses of the session, from one thread at a time. While the graph grows, no other
 * thread may be inside a function that recovers lost ps tasks; while the program uses the session, none may join. */
#ifndef ESTOC_COORDINATOR_H
#define ESTOC_COORDINATOR_H

#include "estoc/dataset.h"
#include "estoc/metrics.h"
#include "estoc/session.h"
#include "estoc/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_coordinator  est_coordinator;
typedef struct est_function     est_function;     /* a part of the graph that any worker can run */
typedef struct est_remote_value est_remote_value; /* the result of one call (RemoteValue) */
typedef struct est_per_worker   est_per_worker;   /* something of which every worker has its own (PerWorkerValues) */

typedef struct est_coordinator_options {
    size_t      struct_size; /* filled by EST_COORDINATOR */
    const char *model_dir;   /* of checkpoints, seen by all tasks; NULL: none are written, and a lost ps is an error */
    const char *transport;   /* as in est_server_options, and so are the next three */
    const char *certificates;
    int         threads;
    double      silence_secs;  /* 0: 10 */
    double      connect_secs;  /* 0: 7200; how long to wait for the ps tasks */
    double      lonely_secs;   /* 0: 7200; all that wait for calls, a loop over done as well, fail after so long without
                               * a worker */
    int64_t     queue_max;     /* 0: 262144; schedule waits while so many calls are queued */
    int         ahead;         /* calls that a worker is sent beyond the one that it runs; 0: 1 to 64, by their speed;
                               * EST_OFF: none */
    int         fail_after;    /* 0: 3; a call is an error when so many workers were lost while they ran it */
    bool        at_least_once; /* true: a call that is tried again may update variables again */
    bool        no_signals;    /* true: the program handles SIGINT and SIGTERM */
} est_coordinator_options;

#define EST_COORDINATOR(...)                                                                                           \
    (&(const est_coordinator_options){ .struct_size = EST_STRUCT_SIZE(est_coordinator_options), __VA_ARGS__ })

/* Creates the coordinator of the strategy's cluster: its chief, or a client outside of it when the strategy's task is
 * no task of the cluster. Waits for the ps tasks, not for workers. All variables get the values of the newest
 * checkpoint of model_dir; those that it lacks, or all if there is none, their initial ones. The first checkpoint is
 * written at once, so that a lost ps task can be restored from then on. The strategy and the graph are borrowed until
 * est_coordinator_free; the graph may grow. EST_INVALID_ARGUMENT: the strategy is not a parameter_server strategy with
 * a cluster, or has sync_replicas or max_staleness: calls are asynchronous. */
EST_API EST_MUST_CHECK est_status est_coordinator_create(const est_strategy *strategy, est_graph *graph,
                                                         const est_coordinator_options *options, est_coordinator **out);

/* Ends the job, also after an error: est_server_join returns in all other tasks when this coordinator is freed, or 30 s
 * after this call. Cancels calls that are queued or under way: join before it. A task that is not there is not told,
 * which is logged; if it is started later, its est_server_join fails after its lonely_secs. Evaluators that watch
 * model_dir (estoc/checkpoint_watch.h) end after the last checkpoint. Afterwards only values that are ready can be
 * fetched, all else fails with EST_FAILED_PRECONDITION; a second call does nothing. EST_ABORTED: a newer coordinator
 * has the tasks, which keep running. */
EST_API EST_MUST_CHECK est_status est_coordinator_end(est_coordinator *coordinator);

/* Leaves the cluster. Unless est_coordinator_end was called, the other tasks keep running and wait for the next
 * coordinator. Cancels calls that are queued or under way and does not wait for them. Values, functions and per-worker
 * objects may be freed later. NULL is fine. */
EST_API void est_coordinator_free(est_coordinator *coordinator);

/* The session over the variables at the ps tasks: to read and write them, to reset metrics, to evaluate. Calls under
 * way change what it reads. Borrowed until the next est_coordinator_join or _save: each recovery of a lost ps task
 * makes a new one. */
EST_API est_session *est_coordinator_session(est_coordinator *coordinator);

/* The epoch of the checkpoint that est_coordinator_create has restored; 0: there was none. */
EST_API int64_t est_coordinator_epoch(const est_coordinator *coordinator);

/* Writes a checkpoint of the variables, the epoch and the positions of all iterators that are not freed. Waits until
 * calls that have begun have completed, also those of lost workers, and hands out no new ones until the checkpoint is
 * written, so that it contains every call completely or not at all, except failed and cancelled ones.
 * EST_DEADLINE_EXCEEDED: there was no worker for lonely_secs to complete them. A checkpoint of est_saver_save does not
 * promise that, and has neither epoch nor positions. Its number is the value of global_step, if there is such a
 * variable, else the epoch. EST_FAILED_PRECONDITION: there is no model_dir. */
EST_API EST_MUST_CHECK est_status est_coordinator_save(est_coordinator *coordinator, int64_t epoch);

/* --- functions ---------------------------------------------------------------------------------------------------- */

/* A function: from values for `feeds` it computes `fetches` and runs `targets` (the role of a tf.function). Variables
 * that the graph got since the last function are initialized. EST_INVALID_ARGUMENT: it uses a local variable, as a
 * metric without .shared has; workers have none. `name` is for errors and logs; copied. */
EST_API EST_MUST_CHECK est_status est_coordinator_function(est_coordinator *coordinator, const char *name,
                                                           est_nodes feeds, est_nodes fetches, est_nodes targets,
                                                           est_function **out);
EST_API void                      est_function_free(est_function *function); /* scheduled calls keep it; NULL is fine */

/* The value of one feed, one of three: a component of the next element of an iterator, which is one element for all
 * arguments of the call; the worker's own tensor of est_coordinator_value; or `value`. */
typedef struct est_argument {
    est_node              node;        /* a feed of the function */
    const est_per_worker *from;        /* an iterator or a value of est_coordinator_value; NULL: `value` */
    const char           *component;   /* of an iterator */
    est_tensor           *value;       /* shared */
    uint64_t              reserved[2]; /* zeros: room for members to come */
} est_argument;

/* A list of them, with the members by name: EST_ARGUMENTS({ .node = words, .from = batches, .component = "features" },
 * { .node = rate, .value = tensor }). */
typedef struct est_arguments {
    const est_argument *data;
    int                 n;
} est_arguments;

#define EST_ARGUMENTS(...) EST_SPAN(est_arguments, const est_argument, __VA_ARGS__)
#define EST_NO_ARGUMENTS   ((est_arguments){ 0 })

/* Puts a call into the queue and returns at once; waits only while the queue is full, and for a lost ps task. One
 * argument for each feed of the function; components of an est_dataset are checked here, those of a dataset by name at
 * the worker. out: its value, to be freed by est_remote_value_free; NULL: not wanted. Fails with the error of an
 * earlier call, and then schedules nothing. */
EST_API EST_MUST_CHECK est_status est_coordinator_schedule(est_coordinator *coordinator, const est_function *function,
                                                           est_arguments arguments, est_remote_value **out);

/* Waits until all calls that were scheduled have completed and no ps task is lost, so that the session can be used.
 * Fails with the error of a call. */
EST_API EST_MUST_CHECK est_status est_coordinator_join(est_coordinator *coordinator);

/* Whether all have completed. Does not wait, except for a lost ps task. Fails with the error of a call once those under
 * way have ended, and as a join does: after a signal, and after lonely_secs without a worker. */
EST_API EST_MUST_CHECK est_status est_coordinator_done(est_coordinator *coordinator, bool *done);

/* --- values ------------------------------------------------------------------------------------------------------- */

typedef enum est_value_state {
    EST_VALUE_NOT_READY = 0,
    EST_VALUE_READY,
    EST_VALUE_FAILED,   /* the function's error */
    EST_VALUE_CANCELLED /* an earlier call failed, or the coordinator was freed */
} est_value_state;

/* Fetch i of the function in this call; waits until it is there. The tensor is the caller's. Fails with the error of
 * the function; EST_CANCELLED: the call was cancelled, and the error has the reason. May be called again. */
EST_API EST_MUST_CHECK est_status est_remote_value_fetch(est_remote_value *value, int i, est_tensor **out);
EST_API est_value_state           est_remote_value_status(const est_remote_value *value);
EST_API void                      est_remote_value_free(est_remote_value *value); /* before or after it is ready */

/* --- per worker --------------------------------------------------------------------------------------------------- */

typedef struct est_per_worker_options {
    size_t      struct_size; /* filled by EST_PER_WORKER */
    bool        shard;       /* true: every worker has its part (est_dataset_autoshard); false: each has all of it, and
                              * where it is shuffled with a seed of 0, in an order of its own */
    const void *params;      /* est_input_context.params of a named function, sent as these bytes */
    size_t      params_size;
} est_per_worker_options;

#define EST_PER_WORKER(...)                                                                                            \
    (&(const est_per_worker_options){ .struct_size = EST_STRUCT_SIZE(est_per_worker_options), __VA_ARGS__ })

/* A dataset at every worker (create_per_worker_dataset). It travels as bytes, so its stages must have no functions of
 * this process: docs/input.md lists those that can travel. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_coordinator_dataset(est_coordinator *coordinator, const est_dataset *dataset,
                                                          const est_per_worker_options *options, est_per_worker **out);

/* The dataset that the function of this name in est_server_options.functions makes at every worker. A worker without
 * it is an error that names both. */
EST_API EST_MUST_CHECK est_status est_coordinator_dataset_by_name(est_coordinator *coordinator, const char *function,
                                                                  const est_per_worker_options *options,
                                                                  est_per_worker              **out);

/* An iterator over such a dataset: at every worker one, which begins at its first element. A worker that was lost reads
 * over as many elements as its calls have used when it is back: with a stage that is .unordered, these may be others
 * than before. After est_coordinator_create has restored a checkpoint, the n-th iterator that the program makes begins
 * where the n-th of the program before was when it saved; if that one was freed, at the first element. */
EST_API EST_MUST_CHECK est_status est_per_worker_iterator(est_per_worker *dataset, est_per_worker **out);

/* A list of tensors: EST_TENSORS(a, b). */
typedef struct est_tensors {
    est_tensor *const *data;
    int                n;
} est_tensors;

#define EST_TENSORS(...) EST_SPAN(est_tensors, est_tensor *const, __VA_ARGS__)

/* A tensor for each worker, by index; shared. */
EST_API EST_MUST_CHECK est_status est_coordinator_value(est_coordinator *coordinator, est_tensors values,
                                                        est_per_worker **out);

EST_API void est_per_worker_free(est_per_worker *per_worker); /* scheduled calls keep it; NULL is fine */

/* --- evaluation --------------------------------------------------------------------------------------------------- */

typedef struct est_exact_options {
    size_t struct_size; /* filled by EST_EXACT */
    int    shards;      /* 0: one for each worker. More balance better, but each reads over the whole dataset */
} est_exact_options;

#define EST_EXACT(...) (&(const est_exact_options){ .struct_size = EST_STRUCT_SIZE(est_exact_options), __VA_ARGS__ })

/* Evaluates metrics over a dataset by all workers, exactly: the dataset is cut into shards; a call evaluates a shard
 * with states of its own, and the states of completed calls are added. Every example counts once, whatever is lost. The
 * states of the metrics, local or shared, have the sums afterwards. arguments: { .node = label, .component = "label" }
 * for each input of the metrics' updates. The dataset must end and have one order: a stage that is .unordered is
 * refused. values[n]: of the metrics, whose states must be sums (est_metric_custom). Waits for all scheduled calls
 * first. options NULL: all defaults. EST_INVALID_ARGUMENT: the dataset has no end, or a component does not suit its
 * node; EST_NOT_FOUND: there is no such component. */
EST_API EST_MUST_CHECK est_status est_coordinator_evaluate(est_coordinator *coordinator, const est_dataset *dataset,
                                                           est_arguments arguments, const est_metric *metrics, int n,
                                                           const est_exact_options *options, double *values);

/* --- statistics --------------------------------------------------------------------------------------------------- */

typedef struct est_coordinator_stats {
    int64_t  queued, under_way, completed;
    int64_t  retried;               /* attempts after the first */
    int      workers, workers_here; /* of the cluster; connected */
    int64_t  workers_lost;          /* losses, of all workers together */
    int64_t  ps_lost;               /* losses of the variables of a ps task, which returned to the last checkpoint */
    uint64_t reserved[3];
} est_coordinator_stats;

/* The numbers at this moment. Any thread. */
EST_API est_coordinator_stats est_coordinator_get_stats(const est_coordinator *coordinator);

#ifdef __cplusplus
}
#endif
#endif
