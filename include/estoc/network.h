/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks: models as objects, which are compiled, fitted, evaluated and asked for predictions (tf.keras.Model).
 *
 *     est_network *network;
 *     est_history *history = NULL;
 *
 *     est_network_sequential(EST_LAYERS(est_layer_dense(64, EST_DENSE(.activation = est_relu)),
 *                                       est_layer_dense(1, NULL)), NULL, &network);
 *     est_network_compile(network, EST_COMPILE(.loss = "mse", .optimizer = "adam", .metrics = EST_STRINGS("mae")));
 *     est_network_fit(network, EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y }), .epochs = 10), &history);
 *     printf("%g\n", est_history_value(history, "loss", 9));
 *
 * A network has one graph and one session, from when it is built until it is freed. Building makes the placeholders of
 * its inputs and its variables. Training, evaluation and prediction are functions in that graph over the same
 * variables, and each is added when it is first needed. est_network_build builds; the other calls do so if need be.
 *
 * Inputs have names: those of the components of a dataset, or of the arrays. The component called "label" or "y" is
 * what is to be predicted, "sample_weight" the weight of a row; compile can name others. Everything else is an input.
 * Inputs that est_network_options names are exactly these, and other components are left alone. All datasets are
 * batched; arrays have the batch axis first.
 *
 * Outputs: one, or those that est_network_options names; each has a loss, a label and metrics of its own. The label of
 * an output of several is the component of its name. Logs have Keras' names: "loss" of all, "price_loss", "price_mae".
 *
 * Loss: the mean over the examples of a step, those of all replicas and workers together, as in Keras: weighted losses
 * are summed and divided by the number of examples, not of weights. Regularization losses are added once. "loss" in
 * logs, in the history and in results is the mean over the examples of an epoch. Metrics run over an epoch, too.
 *
 * Strategies: a network made with a strategy trains under it. Batches of datasets and batch_size are global: replicas
 * divide them, each for itself. Evaluation and prediction use one replica, with whole batches; several workers divide
 * the validation data of a fit among them.
 *
 * Parameter servers: this program is the coordinator (estoc/coordinator.h), and the other tasks run est_server_join. A
 * step of a fit is a call that any worker makes, with a batch of its own iterator over the whole input; metrics have
 * their state at the ps tasks. Datasets travel as est_coordinator_dataset says. Evaluation is by shards, exactly; one
 * process predicts. The network connects when a value is first needed; est_network_free ends the job, unless the last
 * fit or evaluation failed: then the other tasks wait for the program to be started again. With model_dir, a fit that
 * is started again goes on with the epoch that was not complete, and a lost ps task is restored. One network at a time
 * has the cluster (est_network_leave).
 *
 * The seed of the options determines initial values, dropout and the order of arrays, so that two networks with the
 * same seed that are fitted alike are equal bit for bit; without one it is drawn, and initializers with a seed of their
 * own draw others in every process, too. Arrays, and datasets that are shuffled, have another order in every epoch,
 * also in those of a second fit. With several workers a second fit begins again with the order of the first.
 *
 * Threading: one thread at a time for each network. */
#ifndef ESTOC_NETWORK_H
#define ESTOC_NETWORK_H

#include <stdio.h>

#include "estoc/estimator.h"
#include "estoc/layers.h"
#include "estoc/names.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_network est_network;

/* --- making one --------------------------------------------------------------------------------------------------- */

/* An input without its batch axis (tf.keras.Input), and a list of them:
 * EST_INPUTS({ "image", EST_F32, EST_SHAPE(28, 28, 1) }). */
typedef struct est_network_input {
    const char *name;
    est_dtype   dtype;
    est_shape   shape; /* -1: differs between batches */
} est_network_input;

typedef struct est_network_inputs {
    const est_network_input *data;
    int                      n;
} est_network_inputs;

#define EST_INPUTS(...) EST_SPAN(est_network_inputs, const est_network_input, __VA_ARGS__)

typedef struct est_network_options {
    size_t              struct_size; /* filled by EST_NETWORK */
    const char         *name;        /* NULL: "sequential", "model"; copied */
    est_network_inputs  inputs;      /* empty: taken from the first dataset or batch; copied */
    const est_strategy *strategy;    /* NULL: one replica in this process; borrowed until the network is freed */
    uint64_t            seed;        /* 0: drawn; the same on all workers of a job */
    int                 threads;     /* 0: ESTOC_NUM_THREADS, else the cores this process may use */
    void               *user;        /* of est_network_create: handed to the function; borrowed likewise */
    const char         *model_dir;   /* of several workers and parameter servers: checkpoints, from which a restarted
                                      * job goes on; NULL: none; copied */
    est_strings         outputs;     /* names of several outputs (est_outputs); empty: there is one; copied */
    est_precision       precision;   /* of the layers, in the graphs that the network makes; est_network_apply has that
                                      * of the caller's graph. 0: float32. Exports are made in float32 */

    /* as in est_session_options, for the session of the network; a strategy with devices of its own says which. Names
     * are copied */
    est_strings devices;
    bool        no_soft_placement, log_device_placement, no_tf32;
    int64_t     device_memory_limit;
} est_network_options;

#define EST_NETWORK(...)                                                                                               \
    (&(const est_network_options){ .struct_size = EST_STRUCT_SIZE(est_network_options), __VA_ARGS__ })

/* One layer after the other (tf.keras.Sequential). The layers are taken, also on failure; a NULL among them fails with
 * the last error of the thread, that of its constructor. Names that were given to layers must differ
 * (EST_ALREADY_EXISTS). options NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_network_sequential(est_layers layers, const est_network_options *options,
                                                         est_network **out);

/* By a function from named inputs to the output (Keras' functional style). It is called at least once for each of
 * training, evaluation and prediction, and for each replica, and every call in a graph gets the variables of the first:
 * it must make the same layers in the same order, or call layers that are objects in `user`. Names that were given to
 * layers differ within a scope (EST_ALREADY_EXISTS when it is built). */
typedef est_node (*est_network_fn)(est_graph *graph, est_features inputs, bool training, void *user);
EST_API EST_MUST_CHECK est_status est_network_create(est_network_fn fn, const est_network_options *options,
                                                     est_network **out);

/* Several outputs, in the order of est_network_options.outputs: what a function or a call returns that has them. */
EST_API est_node est_outputs(est_nodes nodes);

/* An output of which only some values count: the loss is the mean of those where the mask, [examples] or [examples,
 * steps] as the losses are, is true, and metrics ignore the others. For what a function returns, alone or in
 * est_outputs. */
EST_API est_node est_masked(est_node output, est_node mask);

/* A struct of the author's own that begins with this one (a subclass of tf.keras.Model). */
typedef struct est_network_class est_network_class;
struct est_network_class {
    size_t struct_size; /* filled by EST_NETWORK_CLASS */

    /* Called once, before the first call, with the inputs, whose shapes are known: makes layers. NULL: nothing. */
    est_status (*build)(est_network_class *own, est_graph *graph, est_features inputs);

    /* As est_network_fn. */
    est_node (*call)(est_network_class *own, est_graph *graph, est_features inputs, bool training);

    void (*free)(est_network_class *own); /* called when the network is freed; NULL: nothing to free */
};

#define EST_NETWORK_CLASS(...)                                                                                         \
    {                                                                                                                  \
        .struct_size = EST_STRUCT_SIZE(est_network_class), __VA_ARGS__                                                 \
    }

/* `own` is taken, also on failure: its free is called. */
EST_API EST_MUST_CHECK est_status est_network_subclass(est_network_class *own, const est_network_options *options,
                                                       est_network **out);

/* Frees the network with its session, graph and layers. NULL is fine. */
EST_API void est_network_free(est_network *network);

/* With parameter servers: leaves the cluster without ending the job, so that another network or a coordinator of this
 * program can have it. Read the variables before: the next use of the network connects again, and begins with their
 * initial values or the checkpoint of model_dir. */
EST_API void est_network_leave(est_network *network);

/* An input by name, in a function or a call; errors name those that there are. */
EST_API est_node est_network_input_node(est_features inputs, const char *name);

/* Builds the network, unless it is built: variables have values after it. Inputs are those of the options or, `like`
 * not NULL, the components of a dataset. If the network is compiled and `like` has its labels, the function of training
 * is built, too, and with it the variables of the optimizer: do this before a checkpoint with them is restored. Without
 * labels they are made by the first training step, with their initial values. */
EST_API EST_MUST_CHECK est_status est_network_build(est_network *network, const est_dataset *like);

/* Builds the network into any graph, as a part of a model_fn or of another network; `features` has its inputs, which
 * the options name unless the network is a function or a class. Of several outputs it is the first. A second call in
 * one graph gets the variables of the first. The session of the network has nothing to do with that graph, which must
 * be freed before the network. */
EST_API est_node est_network_apply(est_network *network, est_features features, bool training);

/* Its name; its graph and session, NULL before it is built. Borrowed until the network is freed; the session of
 * parameter servers until the next call, and NULL if they cannot be reached. */
EST_API const char  *est_network_name(const est_network *network);
EST_API est_graph   *est_network_graph(est_network *network);
EST_API est_session *est_network_session(est_network *network);

/* The prediction, from the inputs in the network's graph; EST_NO_NODE before it is built. Of several outputs the first;
 * then all of them: how many, number i, and its name, NULL of the only one. */
EST_API est_node    est_network_output(const est_network *network);
EST_API int         est_network_outputs(const est_network *network);
EST_API est_node    est_network_output_at(const est_network *network, int i);
EST_API const char *est_network_output_name(const est_network *network, int i);

/* --- compiling ---------------------------------------------------------------------------------------------------- */

/* A list of metrics: EST_METRIC_SPECS(est_metric_value_auc(EST_PR, 0)). */
typedef struct est_metric_specs {
    const est_metric_spec *data;
    int                    n;
} est_metric_specs;

#define EST_METRIC_SPECS(...) EST_SPAN(est_metric_specs, const est_metric_spec, __VA_ARGS__)

/* The loss and the metrics of one output of several: EST_COMPILE_OUTPUTS({ "price", .loss = "mse" },
 * { "kind", .loss = "sparse_categorical_crossentropy", .loss_weight = 0.2, .metrics = EST_STRINGS("accuracy") }). */
typedef struct est_compile_output {
    const char      *output; /* one of est_network_options.outputs */
    const char      *loss;   /* as in est_compile_options, as all that follows */
    est_loss         loss_value;
    double           loss_weight; /* of this loss in the sum that is minimized; 0: 1; EST_OFF: 0 */
    est_strings      metrics;
    est_metric_specs metric_values;
    est_strings      weighted_metrics;
    const char      *label;       /* NULL: the component with the name of the output */
    uint64_t         reserved[4]; /* zeros: room for members to come */
} est_compile_output;

typedef struct est_compile_outputs {
    const est_compile_output *data;
    int                       n;
} est_compile_outputs;

#define EST_COMPILE_OUTPUTS(...) EST_SPAN(est_compile_outputs, const est_compile_output, __VA_ARGS__)

typedef struct est_compile_options {
    size_t           struct_size;      /* filled by EST_COMPILE */
    const char      *loss;             /* a name of estoc/names.h: "mse", "sparse_categorical_crossentropy" */
    est_loss         loss_value;       /* in place of a name; each NULL: none */
    const char      *optimizer;        /* a name of estoc/optimizers.h: "adam"; NULL: "rmsprop" */
    est_optimizer    optimizer_value;  /* in place of a name; rule NULL: none */
    double           learning_rate;    /* of an optimizer by name; 0: its default */
    est_strings      metrics;          /* names of estoc/names.h: "accuracy"; they ignore sample weights */
    est_metric_specs metric_values;    /* more of them, as values */
    est_strings      weighted_metrics; /* these use sample weights */
    const char      *label;            /* the component to be predicted; NULL: "label", or else "y" */
    const char      *sample_weight;    /* NULL: "sample_weight", if there is such a component */

    /* In place of loss, metrics and label: those of several outputs. One that is not among them is predicted, and not
     * trained. Empty: loss and metrics are those of every output. */
    est_compile_outputs outputs;

    /* true: no loss is required; what the model adds by est_add_loss is minimized, beside a loss if there is one.
     * Without a loss there are no labels and no metrics. */
    bool own_losses;

    /* true: sample weights of the shape [examples, trained outputs], of two outputs or more, have a column for each.
     * Where the number of columns is not known they are taken so beside losses of the shape [examples]; beside losses
     * of steps they are those of the steps, for all outputs. */
    bool weights_by_output;
} est_compile_options;

#define EST_COMPILE(...)                                                                                               \
    (&(const est_compile_options){ .struct_size = EST_STRUCT_SIZE(est_compile_options), __VA_ARGS__ })

/* What training minimizes, how, and what is measured; all copied. A loss is required, or own_losses. Several losses are
 * summed by their weights. A second call replaces the first and begins with a new state of the optimizer; variables of
 * the network keep their values. */
EST_API EST_MUST_CHECK est_status est_network_compile(est_network *network, const est_compile_options *options);

/* What is measured: "loss", then the metrics by name in their order; NULL: there are fewer. 0 before it is compiled. */
EST_API int         est_network_metrics(const est_network *network);
EST_API const char *est_network_metric(const est_network *network, int i);

/* The learning rate of the optimizer, in a variable: NaN before the first training function is built, or when the
 * optimizer has a schedule. */
EST_API double                    est_network_learning_rate(est_network *network);
EST_API EST_MUST_CHECK est_status est_network_set_learning_rate(est_network *network, double rate);

/* --- training ----------------------------------------------------------------------------------------------------- */

/* The logs of the epochs of a fit (tf.keras.callbacks.History). */
typedef struct est_history est_history;

EST_API int         est_history_epochs(const est_history *history);       /* how many were made */
EST_API int64_t     est_history_epoch(const est_history *history, int i); /* the number of the i-th, from 0 */
EST_API int         est_history_count(const est_history *history);        /* names: "loss", "val_loss", ... */
EST_API const char *est_history_name(const est_history *history, int k);  /* borrowed until it is freed */
EST_API double      est_history_value(const est_history *history, const char *name, int i); /* NaN: none */
EST_API void        est_history_free(est_history *history);                                 /* NULL is fine */

/* What is shown of the progress. */
typedef enum est_verbose {
    EST_VERBOSE_AUTO = 0, /* a bar on a terminal, else a line for every epoch */
    EST_VERBOSE_BAR,
    EST_VERBOSE_LINES,
    EST_VERBOSE_NONE
} est_verbose;

/* Pointers are borrowed during the call. */
typedef struct est_fit_options {
    size_t             struct_size; /* filled by EST_FIT */
    const est_dataset *input;       /* batches */
    est_named_tensors  arrays;      /* in place of input: rows of these, shuffled again in every epoch */
    int64_t            batch_size;  /* of arrays, not of a dataset; 0: 32 */
    int64_t            epochs;      /* 0: 1; EST_OFF: none; the number of the last epoch, not of those after
                                     * initial_epoch */
    int64_t            initial_epoch;

    /* 0: an epoch is a pass over the input. Else an epoch has so many steps, and the next goes on where it ends: in as
     * many passes over arrays as there are epochs, in one over a dataset. An input that ends too early ends the fit
     * with a warning; several workers repeat it. Required for inputs without end, for parameter servers, and for
     * several workers unless arrays are given. */
    int64_t            steps_per_epoch;
    const est_dataset *validation;        /* evaluated after an epoch, as "val_loss", ...; NULL: none */
    est_named_tensors  validation_arrays; /* in place of validation */
    double             validation_split;  /* of arrays: the part of rows at the end that is kept for validation */
    int64_t            validation_steps;  /* 0: until it ends */
    int64_t            validation_freq;   /* 0: 1; every so many epochs */
    bool               no_shuffle;        /* of arrays */
    est_f64s           class_weight;      /* of class i at i, times the sample weight; of networks with one output.
                                           * Labels are class numbers, floats rounded to integers, or one-hot rows */
    est_hooks          callbacks;         /* estoc/callbacks.h, and any hook */
    est_verbose        verbose;

    /* Of parameter servers: the function of est_server_options.functions that makes the dataset at every worker
     * (est_coordinator_dataset_by_name), with batches, repeated as often as need be. `input` has the same components;
     * it is not read, and need not be able to travel. NULL: `input` itself travels. */
    const char *input_function;
    const void *input_params; /* est_input_context.params of that function, sent as these bytes */
    size_t      input_params_size;

    /* As the callbacks of est_network_evaluate, of every validation within the fit. Not with several workers, and not
     * with parameter servers. */
    est_hooks validation_callbacks;

    int64_t validation_batch_size; /* of arrays; 0: batch_size */
} est_fit_options;

#define EST_FIT(...) (&(const est_fit_options){ .struct_size = EST_STRUCT_SIZE(est_fit_options), __VA_ARGS__ })

/* Trains. *out, if out is not NULL, is the history, also of a fit that a callback stopped; of several workers a stop
 * in one ends all, with the next step or the epoch. SIGINT and SIGTERM end it after the step under way with
 * EST_CANCELLED. Parameter servers: callbacks get after_run once an epoch, when all its steps are made, with the loss
 * of the epoch, and no before_run; the history has the epochs that this fit made. */
EST_API EST_MUST_CHECK est_status est_network_fit(est_network *network, const est_fit_options *options,
                                                  est_history **out);

/* One step with one batch, by name, labels and weights included, which replicas of this process divide. Not with
 * several workers. values[est_network_metrics] are those of this batch; NULL: not wanted. */
EST_API EST_MUST_CHECK est_status est_network_train_on_batch(est_network *network, est_named_tensors batch,
                                                             double *values);

/* --- evaluation and prediction ------------------------------------------------------------------------------------ */

typedef struct est_network_evaluate_options {
    size_t             struct_size; /* filled by EST_NETWORK_EVALUATE */
    const est_dataset *input;       /* batches */
    est_named_tensors  arrays;      /* in place of input */
    int64_t            batch_size;  /* of arrays, not of a dataset; 0: 32 */
    int64_t            steps;       /* 0: until the input ends; required for inputs without end */
    est_hooks          callbacks;
    est_verbose        verbose; /* AUTO and BAR: a line on a terminal */
} est_network_evaluate_options;

#define EST_NETWORK_EVALUATE(...)                                                                                      \
    (&(const est_network_evaluate_options){ .struct_size = EST_STRUCT_SIZE(est_network_evaluate_options), __VA_ARGS__ })

/* Loss and metrics over the input; the caller owns them (out may be NULL). */
EST_API EST_MUST_CHECK est_status est_network_evaluate(est_network                        *network,
                                                       const est_network_evaluate_options *options, est_metrics **out);

/* As est_network_train_on_batch, without training. */
EST_API EST_MUST_CHECK est_status est_network_test_on_batch(est_network *network, est_named_tensors batch,
                                                            double *values);

typedef struct est_network_predict_options {
    size_t             struct_size; /* filled by EST_NETWORK_PREDICT */
    const est_dataset *input;       /* batches; a label among them is left alone */
    est_named_tensors  arrays;      /* in place of input */
    int64_t            batch_size;  /* of arrays, not of a dataset; 0: 32 */
    int64_t            steps;       /* 0: until the input ends; required for inputs without end */
} est_network_predict_options;

#define EST_NETWORK_PREDICT(...)                                                                                       \
    (&(const est_network_predict_options){ .struct_size = EST_STRUCT_SIZE(est_network_predict_options), __VA_ARGS__ })

/* The outputs of all rows in one new tensor. The network need not be compiled. The third is for networks with several
 * outputs: out[est_network_outputs] are new tensors. */
EST_API EST_MUST_CHECK est_status est_network_predict(est_network *network, const est_network_predict_options *options,
                                                      est_tensor **out);
EST_API EST_MUST_CHECK est_status est_network_predict_on_batch(est_network *network, est_named_tensors batch,
                                                               est_tensor **out);
EST_API EST_MUST_CHECK est_status est_network_predict_outputs(est_network                       *network,
                                                              const est_network_predict_options *options,
                                                              est_tensor                       **out);

/* --- what it consists of ------------------------------------------------------------------------------------------ */

/* Writes the table of its layers, in order of their first call, with shapes and numbers of parameters, as Keras'
 * summary does. Builds the network, if need be. */
EST_API EST_MUST_CHECK est_status est_network_summary(est_network *network, FILE *file);

/* How many numbers its variables have, without those of the optimizer and of dynamic embeddings, which get rows with
 * their keys; 0 before it is built. */
EST_API int64_t est_network_count_params(const est_network *network);

/* --- saving and loading ------------------------------------------------------------------------------------------- */

/* Writes the variables of the network, without those of the optimizer, as the checkpoint `path` (a prefix:
 * "runs/a/weights" makes weights.index and weights.data-...), and names it in the file `checkpoint` beside it. It has
 * an object graph in which layers are in order of their first call: Keras' model.load_weights(path) and
 * tf.train.Checkpoint(model=model).restore(path) restore it into a model of the same layers. Builds the network, if
 * need be. EST_UNIMPLEMENTED: it has a dynamic embedding, which only a saver saves, or the path ends with .h5, .hdf5 or
 * .keras, as est_network_save has it, too. EST_FAILED_PRECONDITION: a variable is NaN. */
EST_API EST_MUST_CHECK est_status est_network_save_weights(est_network *network, const char *path);

typedef struct est_load_weights_options {
    size_t struct_size;   /* filled by EST_LOAD_WEIGHTS */
    bool   by_name;       /* true: by names of variables, also if the checkpoint has objects */
    bool   partial;       /* true: variables that the checkpoint lacks keep their values; false: that is an error */
    bool   skip_mismatch; /* true: so do variables that have another dtype or shape there */
} est_load_weights_options;

#define EST_LOAD_WEIGHTS(...)                                                                                          \
    (&(const est_load_weights_options){ .struct_size = EST_STRUCT_SIZE(est_load_weights_options), __VA_ARGS__ })

/* Sets the variables of the network from a checkpoint, a directory of checkpoints or a SavedModel directory, all or, on
 * failure, none. A checkpoint with objects, as est_network_save_weights, Keras' save_weights (TensorFlow format) and
 * tf.train.Checkpoint(model=model) write it, is read layer by layer: the i-th layer with variables from
 * "layer_with_weights-<i>", or from an object of the layer's name. Any other is read by names of variables. Builds the
 * network, if need be. options NULL: all defaults. Errors are those of est_saver_restore; EST_FAILED_PRECONDITION also
 * when no variable at all would change. */
EST_API EST_MUST_CHECK est_status est_network_load_weights(est_network *network, const char *path,
                                                           const est_load_weights_options *options);

/* Writes the network for prediction as the SavedModel `dir`: saved_model.pb, variables/ and assets/. Its signature
 * "serving_default" takes the inputs by name and gives one output, called as the last layer, or several by name.
 * tf.saved_model.load runs it, TensorFlow Serving serves it (below a directory <dir>/<version>), and
 * est_saved_model_load loads it. The files appear when they are complete and were checked, as those of
 * est_export_saved_model; a SavedModel that is there is replaced. EST_ALREADY_EXISTS: `dir` has other files.
 * EST_FAILED_PRECONDITION: a variable is NaN. Builds the network, if need be. */
EST_API EST_MUST_CHECK est_status est_network_save(est_network *network, const char *dir);

/* --- as an Estimator ---------------------------------------------------------------------------------------------- */

/* An Estimator of a compiled network (tf.keras.estimator.model_to_estimator), under any strategy: its model_fn builds
 * the network with the loss, the optimizer and the metrics of compile; label and sample weight are components as for
 * est_network_fit, and predictions are one value, called as the last layer, or several by name. The network is borrowed
 * until the estimator is freed. If it is built, its variables are what the estimator starts from: they are written
 * below <model_dir>/keras. Later changes of either do not reach the other. options: without params; warm_start replaces
 * the values of the network; NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_network_to_estimator(est_network *network, const est_estimator_options *options,
                                                           est_estimator **out);

#ifdef __cplusplus
}
#endif
#endif
