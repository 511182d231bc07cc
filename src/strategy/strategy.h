/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of a strategy: where the variables of a training live, and how the processes of a job train them
 * together.
 *
 * A strategy is one struct of functions, est_strategy_ops, in a file of its own, with a declaration below and one line
 * in est_strategies (strategy.c). Nothing else knows which strategies there are. A graph asks est_strategy_replicas how
 * many copies of a model there are; strategy/scope.c builds them. A process that trains, evaluates, or runs a loop of
 * its own fills an est_run (strategy/run.h) and calls the functions below through it, in this order:
 *
 *     check, open, start         who leads, the network, the other workers
 *     prepare                    the graph is there, the loop is about to be
 *     join                       every new session: its variables get values
 *     turn, after_step           before and after every step; rejoin after one that other workers aborted
 *     settle                     the last step is made, the last checkpoint is not
 *     end, close                 the end mark is written; this process leaves
 *
 * Every function may be NULL, which means what its comment says. A run has zeroed memory of state_size bytes for the
 * strategy (run->state). Threading: a strategy is immutable, any thread; a run is used by one thread at a time. */
#ifndef EST_STRATEGY_STRATEGY_H
#define EST_STRATEGY_STRATEGY_H

#include "base/strbuf.h"
#include "device/devices.h"
#include "estoc/strategy.h"
#include "graph/replicas.h"
#include "train/loop.h"

typedef struct est_run          est_run; /* strategy/run.h */
typedef struct est_strategy_ops est_strategy_ops;

#define EST_STRATEGY_REPLICAS_MAX 256

/* Who a process is. Filled once, from a task by est_self_of, and handed down by value. */
typedef struct est_self {
    const est_task *task;       /* NULL: of a strategy without a cluster of its own */
    int             rank, size; /* among the tasks that train, the chief (or master) first; 0 of 1: it trains alone */
    int             replicas;   /* copies of the model in this process: batches that it takes in a step */
    bool            is_chief;
} est_self;

/* The task with this rank, its job returned and its index in *index; NULL: there are fewer. The chief (or master) comes
 * first, then the workers; indices may have gaps, ranks have none. */
const char *est_rank_task(const est_cluster *cluster, int rank, int *index);

/* Indices of tasks may have gaps, ranks have none. rank -1: the task does not train. */
est_self est_self_of(const est_task *task, int replicas);

/* The part that all strategies have; one with options of its own embeds it first. */
struct est_strategy {
    const est_strategy_ops *ops;
    est_self                self;       /* task NULL: its user says which task this is */
    est_resolver           *resolver;   /* of its cluster, freed with the strategy; NULL: none */
    char                    device[64]; /* that replicas are pinned to; "": any */

    /* The devices that run by themselves (device/device.h) of its replicas, in turn; n_devices 0: none. With
     * host_variables what holds variables stays with the host. */
    char        devices[EST_DEVICES_MAX][EST_DEVICE_NAME_MAX];
    const char *device_list[EST_DEVICES_MAX]; /* the same */
    int         n_devices;
    bool        host_variables;
};

struct est_strategy_ops {
    const char *name, *about;     /* "parameter_server"; one line that describes it */
    bool        uses_ps;          /* ps tasks keep its variables: its cluster must have some; false: must have none */
    bool        no_chief_ok;      /* a cluster needs no chief: worker 0 is one */
    bool        evaluates_across; /* its workers, if there are several, evaluate one model together */
    size_t      state_size;       /* of run->state */

    /* Appends its options as `, "name": value` for logs. NULL: the number of replicas. */
    void (*text)(const est_strategy *strategy, est_strbuf *out);

    /* --- a run ---------------------------------------------------------------------------------------------------- */

    /* Whether the cluster suits, before anything is made. NULL: it does. */
    EST_MUST_CHECK est_status (*check)(const est_run *run);

    /* Before the network: takes the model directory (est_run_lead) where it is known that this process leads. NULL:
     * the chief does. */
    EST_MUST_CHECK est_status (*open)(est_run *run);

    /* Servers, groups, what sessions need (run->remote, run->communicator). Sets run->over when the job has ended.
     * NULL: nothing. */
    EST_MUST_CHECK est_status (*start)(est_run *run);

    /* The graph is built (spec->graph). Adds what the loop needs, and may wait. NULL: nothing. */
    EST_MUST_CHECK est_status (*prepare)(est_run *run, est_loop_spec *spec);

    /* Gives the variables of a new session their values, and the input its position. NULL: est_run_restore. */
    EST_MUST_CHECK est_status (*join)(est_run *run, est_loop *loop);

    /* Of a training; see est_loop_strategy. NULL: steps need no leave; a failed step is made again with a new
     * session. */
    EST_MUST_CHECK est_status (*turn)(est_run *run, bool *finished);
    EST_MUST_CHECK est_status (*rejoin)(est_run *run, est_loop *loop, int64_t *global_step, bool *over);

    /* After each step, also after one without a batch. NULL: nothing. */
    EST_MUST_CHECK est_status (*after_step)(est_run *run, est_loop *loop);

    /* The position of the input as a checkpoint keeps it, under the name input_extra. Restoring sets
     * run->input_resumed; NULL instead of a tensor: the checkpoint has none. NULL: the position of this process,
     * EST_EXTRA_INPUT. */
    const char    *input_extra;
    EST_MUST_CHECK est_status (*save_input)(est_run *run, est_loop *loop, est_tensor **out);
    EST_MUST_CHECK est_status (*restore_input)(est_run *run, est_loop *loop, const est_tensor *position);

    /* Before the last checkpoint: waits until the other tasks have come to their end. NULL: there are none. */
    EST_MUST_CHECK est_status (*settle)(est_run *run, est_loop *loop);

    /* All is saved and marked: tells the other tasks, where this process leads. NULL: nothing. */
    EST_MUST_CHECK est_status (*end)(est_run *run);

    /* Leaves, and frees what start has made. why: what the run ended with; est_error_message has its text. NULL:
     * nothing. */
    void (*close)(est_run *run, est_status why);

    /* Serves the tasks that train until the job ends, as a task that does not. NULL: there is no such task. */
    EST_MUST_CHECK est_status (*serve)(est_run *run);

    /* --- evaluation by all workers, and loops without an est_loop (estoc/workers.h) ------------------------------- */

    /* The workers agree whether to evaluate; prepared: what this one's preparations gave. run->over: there is nothing
     * to do. NULL: each evaluates by itself, if it is prepared. */
    EST_MUST_CHECK est_status (*agree)(est_run *run, est_status prepared);

    /* Replaces variables, of which each worker has its own, and counts by their sums over all workers. NULL: they are
     * the sums. */
    EST_MUST_CHECK est_status (*reduce)(est_run *run, est_session *session, est_nodes variables, double *counts,
                                        int n_counts);

    /* Brings the sessions of all workers to the same variables. *step: as est_workers_join. Sets run->over, and
     * run->leads on the first of the workers. NULL: there is one. */
    EST_MUST_CHECK est_status (*share)(est_run *run, est_session *session, int64_t *step);
};

/* est_strategy_ops.check of strategies without other workers: refuses a cluster in which other tasks would train. */
EST_MUST_CHECK est_status est_local_check(const est_run *run);

/* All strategies, ended by NULL; the default comes first. */
extern const est_strategy_ops *const est_strategies[];

/* One line for each file of this folder that implements the contract. */
extern const est_strategy_ops est_default_ops, est_one_device_ops, est_mirrored_ops,
    est_central_storage_ops; /* local.c */
extern const est_strategy_ops est_parameter_server_ops;
extern const est_strategy_ops est_multi_worker_ops;

/* The strategy of a task whose train_distribute is NULL: with ps tasks the parameter_server strategy, else the default
 * one. */
extern const est_strategy        est_default_strategy;
extern const est_strategy *const est_default_parameter_server;
const est_strategy              *est_strategy_for(const est_strategy *strategy, const est_task *task);

/* The devices of sessions that run what was built with it; zeroed: the default. NULL: no strategy. */
est_strings est_strategy_devices(const est_strategy *strategy);

/* What operations that merge replicas are pinned to (est_replicas.merge_device). NULL: no strategy. */
const char *est_strategy_merge_device(const est_strategy *strategy);

/* Pins what is built from now on to the device of a replica, or to none. NULL: no strategy. */
void est_strategy_pin(const est_strategy *strategy, est_graph *graph, int replica);

/* Pins variables alone, where the strategy keeps them. NULL: no strategy. */
void est_strategy_pin_variables(const est_strategy *strategy, est_graph *graph);

const char *est_strategy_name(const est_strategy *strategy); /* "parameter_server"; NULL: "default" */

/* Its name and options as JSON, for logs. */
void est_strategy_text(const est_strategy *strategy, est_strbuf *out);

/* Whether a cluster needs no chief for it: worker 0 is one. NULL: no strategy. */
bool est_strategy_needs_no_chief(const est_strategy *strategy);

/* The cluster that a strategy was made for, which its RunConfig then is for; NULL: it has none, or there is no
 * strategy. */
const est_resolver *est_strategy_resolver(const est_strategy *strategy);

/* Whether a strategy may train (else: evaluate) a task's model. NULL: yes. `source` names where the task is from, in
 * errors. */
EST_MUST_CHECK est_status est_strategy_check(const est_strategy *strategy, bool trains, const est_task *task,
                                             const char *source);

/* Whether the tasks of a training write to one model directory, which all of them have to see. */
bool est_strategy_shares_dir(const est_strategy *strategy, const est_task *task);

/* Whether the workers of a strategy evaluate one model together. NULL: no. */
bool est_strategy_evaluates_across(const est_strategy *strategy);

/* The number of workers that do; 1: each evaluates by itself. */
int est_strategy_evaluators(const est_strategy *strategy);

/* The replicas that a graph has under a strategy, for est_replicas_build: gradients are summed, and all count the
 * same, unless the caller sets `gradients` and `weight`. NULL: one. */
est_replicas est_strategy_replicas(const est_strategy *strategy);

/* Fills the part that all strategies have. */
void est_strategy_init(est_strategy *strategy, const est_strategy_ops *ops, int replicas);

/* Sets the cluster of a strategy that est_strategy_init has filled, from its options: a resolver, which is copied, or a
 * text in the form of TF_CONFIG; both NULL: the environment variable. */
EST_MUST_CHECK est_status est_strategy_set_cluster(est_strategy *strategy, const est_resolver *resolver,
                                                   const char *cluster_json);

/* Appends the devices of n replicas in the words of TensorFlow's logs, "('/device:CPU:0', '/device:CPU:1')": those of a
 * list that est_count_replicas has accepted, or CPUs from 0 on where it is empty. `task` stands before each: "",
 * "/job:worker/replica:0/task:0". */
void est_devices_text(est_strings devices, int n, const char *task, est_strbuf *out);

/* The number of replicas that a list of devices and a number of replicas say together; `name` is the strategy's, for
 * errors. */
EST_MUST_CHECK est_status est_count_replicas(const char *name, est_strings devices, int replicas, int *out);

#endif
