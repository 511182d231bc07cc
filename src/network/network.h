/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks from the inside.
 *
 * A network has one graph and one session. Its model is built into the graph several times, under graph/reuse.h, so
 * that all builds have the variables of the first: once for prediction (est_network_build), and once for each function
 * that compile describes. A function is what a loop runs with a batch: training, or evaluation (network_functions.c).
 *
 * Every function comes in the forms of est_network_form: with and without sample weights, and weights of classes.
 * Training has a batch for each replica of this process; evaluation and prediction have one.
 *
 * Parameter servers: the session is that of a coordinator, which is made when a value is first needed, so that the
 * graph has all that a checkpoint may restore. It may be replaced whenever the coordinator waits: est_network_connect
 * comes before each use, and prepared steps are not kept (network_coordinator.c). */
#ifndef EST_NETWORK_NETWORK_H
#define EST_NETWORK_NETWORK_H

#include "base/alloc.h"
#include "estoc/coordinator.h"
#include "estoc/network.h"
#include "estoc/predictor.h"
#include "strategy/strategy.h"
#include "train/loop.h"

/* A component of batches, as the network was built for it. */
typedef struct est_network_field {
    const char *name;
    est_dtype   dtype;
    est_shape   shape;  /* with the batch axis, which is -1 */
    bool        ragged; /* the first axis counts values of all rows */
} est_network_field;

/* Placeholders of a batch. */
typedef struct est_network_batch {
    est_node *values;       /* [n_inputs] */
    est_node *splits;       /* [n_inputs]: of ragged inputs */
    est_node *labels;       /* [n_outputs of compile]; NULL: none */
    est_node  weight;       /* EST_NO_NODE: as the following, the form of the function has none */
    est_node  class_weight; /* float32 [classes] */
    est_node  rows;         /* float32 []: how many; EST_NO_NODE: nobody asks */
} est_network_batch;

/* What the weight of an example is made of: a set of these. */
enum { EST_FORM_SAMPLE_WEIGHT = 1, EST_FORM_CLASS_WEIGHT = 2, EST_FORMS = 4 };

/* What a loop runs. */
typedef struct est_network_function {
    bool               made;
    bool               training;
    est_network_batch *batches; /* [n]: one for each replica */
    int                n;
    est_node           loss;       /* of all replicas */
    est_node           step_after; /* of training: the global step as it is after a run */
    est_node          *targets;    /* [n_targets]: the update of the variables and those of the metrics */
    int                n_targets;
    est_node          *values;                /* [n_metrics]: of the loss and the metrics */
    est_node          *resets, *updates;      /* [n_metrics]; updates: of the first replica */
    int                first_state, n_states; /* of the metrics, among est_local_variables */
    est_step          *read, *reset;          /* NULL: a coordinator has the session */
    est_step          *one;                   /* for a batch of the caller's; NULL: not prepared yet */
} est_network_function;

/* A metric, or the loss at 0. */
typedef struct est_network_metric_item {
    const char     *name;
    est_metric_spec spec;   /* make NULL: a loss */
    int             output; /* of compile; -1: the loss of all */
    bool            weighted;
} est_network_metric_item;

/* An output that has a loss. */
typedef struct est_compiled_output {
    int               output; /* of the network */
    est_loss          loss;
    double            weight; /* of its loss in that of all */
    const char       *label;  /* name of the component; NULL: the default ones */
    est_network_field field;  /* of the label; name NULL: not known yet */
    est_node          node;   /* of the label, for the first replica */
} est_compiled_output;

/* What compile says. Those that were replaced stay until the network is freed: addresses are keys of the graph. */
typedef struct est_compiled {
    struct est_compiled     *before;
    est_compiled_output     *outputs; /* [n_outputs] */
    int                      n_outputs;
    est_optimizer            optimizer;
    est_network_metric_item *metrics; /* [n_metrics] */
    int                      n_metrics;
    const char              *weight;                         /* name of the component; NULL: the default one */
    bool                     weights_by_output;              /* columns of it are of the outputs */
    est_network_field        weight_field;                   /* name NULL: not known yet */
    est_node                 weight_node, class_weight_node; /* for the first replica */
    est_node                 rate; /* the variable of the learning rate; EST_NO_NODE: none, or not built yet */
    est_network_function     functions[2][EST_FORMS]; /* [1]: of training */
} est_compiled;

struct est_network {
    est_arena  *arena;
    const char *name, *model_dir;
    est_network_class *class;
    const est_strategy *strategy;
    uint64_t            seed;
    est_precision       precision;
    bool                named; /* the name was given */
    int                 threads;
    est_session_options placement; /* of the session: which devices, and what runs on them */
    est_network_field  *inputs;    /* [n_inputs]; n_inputs 0: not known yet */
    int                 n_inputs;
    bool                class_built;  /* its `build` was called */
    est_graph          *graph;        /* NULL: not built */
    est_session        *session;      /* NULL: not built, or not connected */
    est_coordinator    *coordinator;  /* that has the session; NULL: none, or not connected */
    int64_t             passes;       /* over the input of a fit: the next, in whose order nothing was read yet */
    int64_t             fitted;       /* epochs of the fits of this program before the one under way */
    int64_t             restored;     /* epochs that a checkpoint had and no fit has come to yet */
    bool                failed;       /* the last fit or evaluation by a coordinator: its job is not over */
    bool                fitting;      /* what is called meanwhile is called by a callback */
    bool                evaluating;   /* likewise */
    est_network_batch   batch;        /* of evaluation and prediction, and of training in one replica */
    const char        **output_names; /* [n_outputs]; [0] NULL: the only one, without a name */
    est_node           *outputs;      /* [n_outputs] */
    int                 n_outputs;
    est_predictor      *predictor; /* of the outputs; NULL: not made yet */
    est_compiled       *compiled;
};

/* --- network.c ---------------------------------------------------------------------------------------------------- */

/* The inputs of a batch as features. `batch` is borrowed as long as they are used. */
typedef struct est_network_view {
    const est_network       *network;
    est_graph               *graph;
    const est_network_batch *batch;
} est_network_view;
est_features est_network_features(est_network_view *view);

/* Builds the model once more: out[n_outputs]. The graph's status says whether it could. */
void est_network_call(est_network *network, est_features inputs, bool training, est_node *out);

/* Placeholders for the inputs, named in the current scope. A failure has poisoned the graph. */
est_network_batch est_network_placeholders(est_network *network, est_graph *graph);
est_node          est_network_placeholder(est_graph *graph, const est_network_field *field, bool splits);

/* est_network_build with the inputs that are known. */
EST_MUST_CHECK est_status est_network_build_now(est_network *network);

/* The layers of a sequential network; empty: it is none. */
est_layers est_network_layers(const est_network *network);

/* --- compile.c ---------------------------------------------------------------------------------------------------- */

void est_compiled_free(est_compiled *compiled);

/* After a failure: labels and weights of the first dataset, unless a function was made for them. */
void est_compiled_forget_fields(est_compiled *compiled);

/* Fails unless the network is compiled; `what` is to be done. */
EST_MUST_CHECK est_status est_network_need_compiled(const est_network *network, const char *what);

/* Fails in a callback of an evaluation and, unless `in_fit`, of a fit, whose functions and metrics `what` would use or
 * replace. */
EST_MUST_CHECK est_status est_network_need_idle(const est_network *network, const char *what, bool in_fit);

/* --- network_functions.c ------------------------------------------------------------------------------------------ */

/* Labels as losses and metrics take them beside these predictions. */
est_node est_network_match_label(est_node label, est_node prediction);

/* The mask of an output as numbers; EST_NO_NODE: it has none. */
est_node est_network_mask(est_node output);

/* Weights of metrics: those given where the mask of the output is true, and 0 elsewhere. EST_NO_NODE: all are 1. */
est_node est_network_mask_weight(est_node output, est_node weight);

/* The mean loss of a batch at output i of compile, with matched labels. *weight: the sample weights, which become those
 * of this output; EST_NO_NODE: all are 1. *each: one value an example. A failure has poisoned the graph. */
est_node est_network_loss(const est_compiled *compiled, int i, est_node labels, est_node predictions, est_node *weight,
                          est_node *each);

/* That of all: losses[n_outputs] by their weights, and those of est_losses from `first_loss` on. */
est_node est_network_total_loss(const est_compiled *compiled, est_graph *graph, const est_node *losses, int first_loss);

/* The function of a form, made if need be. */
EST_MUST_CHECK est_status est_network_function_get(est_network *network, bool training, int form,
                                                   est_network_function **out);

/* Sets the metrics of a function to their beginning; reads their values, out[n_metrics]. */
EST_MUST_CHECK est_status est_network_function_reset(est_network *network, est_network_function *f);
EST_MUST_CHECK est_status est_network_function_read(est_network *network, est_network_function *f, double *out);

/* --- network_input.c ---------------------------------------------------------------------------------------------- */

/* Which component of a dataset is the label of output i of compile, and which the sample weight; -1: it has none. */
int est_network_find_label(const est_network *network, int i, const est_dataset *dataset);
int est_network_find_weight(const est_network *network, const est_dataset *dataset);

/* The form of functions for a dataset, without weights of classes. */
int est_network_form(const est_network *network, const est_dataset *dataset);

/* Builds the network for this dataset, if it is not built, and checks that the dataset fits it; with `labelled`, also
 * the label. */
EST_MUST_CHECK est_status est_network_fit_to(est_network *network, const est_dataset *dataset, bool labelled);

/* What the input of a call is made of. */
typedef struct est_network_source {
    const est_dataset *input; /* NULL: the arrays */
    est_named_tensors  arrays;
    int64_t            batch_size; /* 0: 32 */
    double             skip, take; /* of the rows of arrays: parts; take 0: all behind skip */
    int64_t            passes;     /* over arrays: so many one after the other; 0: 1 */
    uint64_t           shuffle;    /* of arrays: the seed; 0: in their order */
    bool               own_order;  /* with `shuffle`: by seeds of the workers' own */
    bool               distribute; /* batches are divided among the replicas of the strategy */
} est_network_source;

/* How an input is divided among workers; NULL: arrays, which are no files. */
est_auto_shard_policy est_network_source_policy(const est_dataset *input);

/* A new reference to a dataset of batches. */
EST_MUST_CHECK est_status est_network_source_open(const est_network *network, const est_network_source *source,
                                                  est_dataset **out);

/* The number of batches of arrays. */
int64_t est_network_source_steps(const est_network_source *source);

/* The feeds of a function from a dataset; *out is freed with est_free. class_weight: of a function of such a form;
 * borrowed as long as the feeds. */
EST_MUST_CHECK est_status est_network_feeds(const est_network *network, const est_network_function *f,
                                            const est_dataset *dataset, const est_tensor *class_weight,
                                            est_loop_feed **out, int *n);

/* --- network_evaluate.c ------------------------------------------------------------------------------------------- */

/* Runs the test function over a dataset, from the beginning of its metrics; steps 0: until it ends. *batches: how many
 * there were. */
EST_MUST_CHECK est_status est_network_run_test(est_network *network, est_network_function *f, const est_dataset *input,
                                               int64_t steps, est_hooks hooks, int64_t *batches);

EST_MUST_CHECK est_status est_network_check_verbose(est_verbose verbose);

/* Fails for an input without end, unless so many batches are enough; 0: all. */
EST_MUST_CHECK est_status est_network_need_end(const est_dataset *input, int64_t steps);

/* Loss and metrics over a dataset, into values[n_metrics]; steps 0: until it ends. */
EST_MUST_CHECK est_status est_network_measure_input(est_network *network, const est_dataset *input, int64_t steps,
                                                    est_hooks hooks, double *values);

/* --- network_coordinator.c ---------------------------------------------------------------------------------------- */

/* Whether a coordinator trains the network, whose variables are at ps tasks. */
bool est_network_is_coordinated(const est_network *network);

/* Brings network->session up to date: of a coordinator, which is made if there is none. The network is built. */
EST_MUST_CHECK est_status est_network_connect(est_network *network);

/* Leaves the cluster, and ends the job unless the last fit or evaluation failed. */
void est_network_disconnect(est_network *network);

/* Calls fn(network, user), which uses the session; under a coordinator again after each recovery of lost ps tasks. */
typedef est_status (*est_network_use)(est_network *network, void *user);
EST_MUST_CHECK est_status est_network_use_session(est_network *network, est_network_use fn, void *user);

/* The feeds of a function as arguments of calls, from components of `dataset`; `from` NULL: of an evaluation.
 * class_weight as for est_network_feeds. In the arena of the graph. */
EST_MUST_CHECK est_status est_network_arguments(const est_network *network, const est_network_function *f,
                                                const est_dataset *dataset, const est_per_worker *from,
                                                est_tensor *class_weight, est_arguments *out);

/* est_network_measure_input by all workers, every example once. */
EST_MUST_CHECK est_status est_network_measure_shards(est_network *network, const est_dataset *input, int64_t steps,
                                                     est_hooks hooks, double *values);

/* --- network_export.c --------------------------------------------------------------------------------------------- */

/* Fails because a variable that is to be written is NaN. */
EST_MUST_CHECK est_status est_network_fail_nan(const char *variable);

/* Fails for a name by which Keras takes another format than TensorFlow's. */
EST_MUST_CHECK est_status est_network_check_name(const char *path);

/* --- history.c ---------------------------------------------------------------------------------------------------- */

EST_MUST_CHECK est_status est_history_create(est_history **out);
/* Adds the logs of the loop as those of its epoch. */
EST_MUST_CHECK est_status est_history_add(est_history *history, est_loop *loop);
/* Adds one value to the last epoch, or begins one. */
EST_MUST_CHECK est_status est_history_begin(est_history *history, int64_t epoch);
EST_MUST_CHECK est_status est_history_put(est_history *history, const char *name, double value);

/* --- network_estimator.c ------------------------------------------------------------------------------------------ */

/* The model_fn of a network, which is its params. */
EST_MUST_CHECK est_status est_network_model_fn(est_model *model, est_mode mode, const void *params);

#endif
