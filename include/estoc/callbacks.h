/* SPDX-License-Identifier: Apache-2.0
 *
 * Callbacks of est_network_fit: hooks (estoc/hooks.h) that look at the logs of epochs, as tf.keras.callbacks have them.
 *
 *     est_hook *stop = est_early_stopping_callback("val_loss", EST_EARLY_STOPPING_CALLBACK(.patience = 3));
 *     est_hook *log  = est_csv_callback("log.csv", false);
 *
 *     est_network_fit(network, EST_FIT(.input = train, .validation = test, .epochs = 100,
 *                                      .callbacks = EST_HOOKS(stop, log)), &history);
 *     est_hook_free(stop);
 *     est_hook_free(log);
 *
 * They are called in the order of the list. The history is kept by fit, and sees what callbacks add to the logs. A
 * constructor returns NULL when an argument is wrong or memory is out, and fit then fails with the last error of the
 * thread, which is that of the constructor if no other call failed since. A callback serves one fit at a time, and any
 * number one after the other, each from its beginning. A value to be monitored that is not in the logs is logged as a
 * warning, and nothing happens. Files and directories that cannot be written are an error before the first step, but
 * for summaries: these are left out after a warning.
 *
 * Epochs count from 0, and from 1 in the log and in the names of checkpoints, as in Keras.
 *
 * A callback may predict, evaluate, save and load the network, and set its learning rate. It must not compile or fit
 * it, nor train on a batch, nor, in an evaluation, measure anything: these are EST_FAILED_PRECONDITION until the
 * function that has called it returns.
 *
 * Batches under parameter servers are the workers': what is per batch here happens once an epoch, after its last step.
 *
 * A hook of your own is a callback: see EST_HOOK(.epoch_begin, .epoch_end) and est_loop_log. */
#ifndef ESTOC_CALLBACKS_H
#define ESTOC_CALLBACKS_H

#include "estoc/hooks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which values are better. */
typedef enum est_monitor_mode {
    EST_MONITOR_AUTO = 0, /* larger, if the name ends with "acc", "accuracy" or "auc"; else smaller */
    EST_MONITOR_MIN,
    EST_MONITOR_MAX
} est_monitor_mode;

typedef struct est_early_stopping_callback_options {
    size_t           struct_size; /* filled by EST_EARLY_STOPPING_CALLBACK */
    int64_t          patience;    /* epochs without a better value after which training stops; 0: the first */
    double           min_delta;   /* by how much a value must be better to count */
    est_monitor_mode mode;
    bool             has_baseline; /* true: a value must be better than baseline, too, to begin the patience again */
    double           baseline;
    bool             restore_best_weights; /* true: variables get the values of the best epoch when it stops; not with
                                            * dynamic embeddings */
    int64_t          start_from_epoch;     /* earlier epochs do not count */
} est_early_stopping_callback_options;

#define EST_EARLY_STOPPING_CALLBACK(...)                                                                               \
    (&(const est_early_stopping_callback_options){                                                                     \
        .struct_size = EST_STRUCT_SIZE(est_early_stopping_callback_options), __VA_ARGS__ })

/* Stops when `monitor` (copied; NULL: "val_loss") no longer gets better. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_hook *est_early_stopping_callback(const char                                *monitor,
                                                             const est_early_stopping_callback_options *options);

typedef struct est_model_checkpoint_options {
    size_t           struct_size; /* filled by EST_MODEL_CHECKPOINT */
    const char      *monitor;     /* NULL: "val_loss"; copied */
    est_monitor_mode mode;
    bool             save_best_only;    /* true: only when the monitored value is the best so far */
    bool             save_weights_only; /* true: without the variables of the optimizer */
    int64_t          save_freq;         /* 0: after every epoch; else after so many steps */
} est_model_checkpoint_options;

#define EST_MODEL_CHECKPOINT(...)                                                                                      \
    (&(const est_model_checkpoint_options){ .struct_size = EST_STRUCT_SIZE(est_model_checkpoint_options), __VA_ARGS__ })

/* Writes checkpoints at `path` (copied), the prefix of their files, in which "{epoch}" and the names of logs are
 * replaced, with a format of printf where there is one: "weights.{epoch:02d}-{val_loss:.2f}". They are read with
 * est_saver_restore, or by TensorFlow. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_hook *est_model_checkpoint_callback(const char                         *path,
                                                               const est_model_checkpoint_options *options);

typedef struct est_reduce_on_plateau_options {
    size_t           struct_size; /* filled by EST_REDUCE_ON_PLATEAU */
    double           factor;      /* 0: 0.1; EST_OFF: 0; by which the learning rate is multiplied */
    int64_t          patience;    /* 0: 10; EST_OFF: 0; epochs without a better value */
    double           min_delta;   /* 0: 1e-4; EST_OFF: 0 */
    est_monitor_mode mode;
    int64_t          cooldown; /* epochs after a reduction that do not count */
    double           min_rate; /* the learning rate does not fall below */
} est_reduce_on_plateau_options;

#define EST_REDUCE_ON_PLATEAU(...)                                                                                     \
    (&(const est_reduce_on_plateau_options){ .struct_size = EST_STRUCT_SIZE(est_reduce_on_plateau_options),            \
                                             __VA_ARGS__ })

/* Reduces the learning rate when `monitor` (copied; NULL: "val_loss") no longer gets better. Logs it as "lr". */
EST_API EST_MUST_CHECK est_hook *est_reduce_on_plateau_callback(const char                          *monitor,
                                                                const est_reduce_on_plateau_options *options);

/* Sets the learning rate at the beginning of every epoch to what the function makes of the epoch and the rate so far;
 * logs it as "lr". `user` is borrowed until the callback is freed. */
typedef double (*est_learning_rate_fn)(int64_t epoch, double rate, void *user);
EST_API EST_MUST_CHECK est_hook *est_learning_rate_callback(est_learning_rate_fn fn, void *user);

/* Writes the logs of every epoch as a line of a CSV file (path copied), after a line with their names: "epoch", then
 * the others by name. Logs that come later, as "val_loss" with validation_freq, have columns behind these, and NA where
 * there was none. append: adds to a file that is there, below its columns. */
EST_API EST_MUST_CHECK est_hook *est_csv_callback(const char *path, bool append);

/* Writes the logs of every epoch as summaries "epoch_loss", ... into event files of `dir` (copied): dir/train, and
 * dir/validation for those of the validation, also by the global step as "evaluation_loss_vs_iterations", ... */
EST_API EST_MUST_CHECK est_hook *est_tensorboard_callback(const char *dir);

/* Stops when the loss of a batch is NaN or infinite. */
EST_API EST_MUST_CHECK est_hook *est_terminate_on_nan_callback(void);

/* Those that are NULL are not called. `user` is borrowed until the callback is freed. */
typedef struct est_lambda_callback_options {
    size_t struct_size; /* filled by EST_LAMBDA_CALLBACK */
    est_status (*epoch_begin)(est_loop *loop, void *user);
    est_status (*epoch_end)(est_loop *loop, void *user);
    est_status (*batch_begin)(est_loop *loop, void *user);
    est_status (*batch_end)(est_loop *loop, void *user);
    est_status (*train_begin)(est_loop *loop, void *user);
    est_status (*train_end)(est_loop *loop, void *user);
    void *user;
} est_lambda_callback_options;

#define EST_LAMBDA_CALLBACK(...)                                                                                       \
    (&(const est_lambda_callback_options){ .struct_size = EST_STRUCT_SIZE(est_lambda_callback_options), __VA_ARGS__ })

/* Functions as a callback. */
EST_API EST_MUST_CHECK est_hook *est_lambda_callback(const est_lambda_callback_options *options);

typedef struct est_backup_options {
    size_t  struct_size; /* filled by EST_BACKUP */
    bool    keep;        /* true: a fit that comes to its end leaves the backup */
    int64_t save_freq;   /* save after so many steps, also within epochs; 0: after every epoch */
} est_backup_options;

#define EST_BACKUP(...) (&(const est_backup_options){ .struct_size = EST_STRUCT_SIZE(est_backup_options), __VA_ARGS__ })

/* Saves everything that a fit needs to go on into `dir` (copied), and goes on from there when a fit with the same
 * network and options is started again after it was killed: the history and all variables are those of a fit that was
 * never interrupted, bit for bit if the network and the dataset have a seed. Where names of variables are others, as
 * those of a second network of the same program, they go by their order. The state of other callbacks is not saved, and
 * an epoch that the fit goes on with begins again for them. A fit that comes to its end removes the backup, unless a
 * variable is NaN. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_hook *est_backup_callback(const char *dir, const est_backup_options *options);

#ifdef __cplusplus
}
#endif
#endif
