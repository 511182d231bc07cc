/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints as files: find them, list what is in them, read single variables, check that they are whole; write named
 * tensors.
 *
 * A checkpoint is named by its prefix ("runs/x/model.ckpt-500"), which is not itself a file: its files are
 * `<prefix>.index` and `<prefix>.data-00000-of-00001`. The format is TensorFlow's, and checkpoints that TensorFlow
 * wrote (v1 Saver, Estimator, tf.train.Checkpoint, SavedModel) can also be read. The variables of a session are saved
 * by <estoc/saver.h>.
 *
 * Damage is an error that names the file, the offset and the variable, never a wrong value.
 *
 * Threading: an open checkpoint may be read by any thread. */
#ifndef ESTOC_CHECKPOINT_H
#define ESTOC_CHECKPOINT_H

#include "estoc/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EST_CHECKPOINT_PATH_MAX 4096 /* bytes of a path, its end included */

typedef struct est_checkpoint est_checkpoint;

/* Opens the checkpoint with that prefix; or the latest usable one of a model directory; or that of a SavedModel
 * directory. In a model directory the file `checkpoint` names the latest. If files of that one are missing or
 * truncated, a warning is logged and the previous one is opened. If `checkpoint` itself is missing or damaged, or names
 * no usable checkpoint, the directory is searched for `*-<step>.index`, unlike in TensorFlow: the highest step first,
 * but steps above that of `checkpoint` last, because training was rolled back from them. EST_NOT_FOUND: no checkpoint
 * exists. EST_DATA_LOSS: none is usable, or `checkpoint` is damaged and the search finds none. */
EST_API EST_MUST_CHECK est_status est_checkpoint_open(const char *path, est_checkpoint **out);

/* NULL is fine. */
EST_API void est_checkpoint_close(est_checkpoint *checkpoint);

/* Its prefix; borrowed until it is closed. */
EST_API const char *est_checkpoint_path(const est_checkpoint *checkpoint);

/* The entry of one variable in a checkpoint. */
typedef struct est_checkpoint_variable {
    const char *name;      /* its key in the checkpoint */
    const char *full_name; /* of the variable ("dense/kernel") in a checkpoint of TensorFlow 2 objects, else NULL */
    est_dtype   dtype;     /* TensorFlow's number; it may be one that est_tensor does not know */
    est_shape   shape;     /* of the whole, also of a partitioned one; rank -1: more axes than EST_RANK_MAX */
    int         n_slices;  /* of a partitioned variable; 0: not partitioned */
    int64_t     bytes;     /* in the data files */
} est_checkpoint_variable;

/* The variables in the order of their names, bookkeeping of the format left out; borrowed until it is closed. */
EST_API int                            est_checkpoint_count(const est_checkpoint *checkpoint);
EST_API const est_checkpoint_variable *est_checkpoint_at(const est_checkpoint *checkpoint, int i);

/* The variable with that key or full name; NULL: not found, or several have that full name. */
EST_API const est_checkpoint_variable *est_checkpoint_find(const est_checkpoint *checkpoint, const char *name);

/* Reads a whole variable by its key or its full name and checks its CRC; the slices of a partitioned one are joined.
 * The caller owns the tensor. */
EST_API EST_MUST_CHECK est_status est_checkpoint_read(const est_checkpoint *checkpoint, const char *name,
                                                      est_tensor **out);

/* Reads every byte and checks every CRC. The error names file, offset and variable of the first damage. */
EST_API EST_MUST_CHECK est_status est_checkpoint_verify(const est_checkpoint *checkpoint);

/* The prefix of the latest checkpoint of a model directory, as TensorFlow's latest_checkpoint finds it: the one that
 * the file `checkpoint` names, if its index exists, else EST_NOT_FOUND. */
EST_API EST_MUST_CHECK est_status est_checkpoint_latest(const char *dir, char out[EST_CHECKPOINT_PATH_MAX]);

/* --- objects ------------------------------------------------------------------------------------------------------ */

/* An object by the name that another has for it, as a number among all. */
typedef struct est_saved_child {
    const char *name;
    int         object;
} est_saved_child;

/* A variable that an optimizer keeps for another, in the form of Keras' legacy optimizers: both are objects. */
typedef struct est_saved_slot {
    int         variable; /* for which */
    const char *name;     /* "m" */
    int         slot;
} est_saved_slot;

/* An object of tf.train.Checkpoint. */
typedef struct est_saved_object {
    const est_saved_child *children; /* [n_children] */
    int                    n_children;
    const est_saved_slot  *slots; /* [n_slots] */
    int                    n_slots;
    const char            *key;         /* of its value among the tensors; NULL: it has none */
    const char            *full_name;   /* of the variable that has the value, "dense/kernel"; NULL: not known */
    uint64_t               reserved[4]; /* zeros: room for members to come */
} est_saved_object;

/* The first is the root. */
typedef struct est_saved_objects {
    const est_saved_object *data;
    int                     n;
} est_saved_objects;

/* What the tensors belong to; n 0: the checkpoint does not say. Numbers of children and slots that do not exist are
 * left out. Borrowed until the checkpoint is closed. */
EST_API est_saved_objects est_checkpoint_saved_objects(const est_checkpoint *checkpoint);

/* --- writing ------------------------------------------------------------------------------------------------------ */

typedef struct est_checkpoint_write_options {
    size_t struct_size; /* filled by EST_CHECKPOINT_WRITE */
    /* true: the file `checkpoint` of its directory names it as the latest, beside those that it names already, as after
     * tf.train.Saver.save and tf.train.Checkpoint.save; false: that file stays as it is, as after
     * tf.train.Checkpoint.write and tf.raw_ops.SaveV2 */
    bool latest;
    /* what the tensors belong to, as tf.train.Checkpoint.restore reads it: keys are names of tensors that are written;
     * n 0: they are on their own */
    est_saved_objects objects;
} est_checkpoint_write_options;

#define EST_CHECKPOINT_WRITE(...)                                                                                      \
    (&(const est_checkpoint_write_options){ .struct_size = EST_STRUCT_SIZE(est_checkpoint_write_options), __VA_ARGS__ })

/* Writes tensors as the checkpoint `prefix`, without a graph and a session:
 *
 *     est_checkpoint_write("runs/new/model.ckpt-0", EST_NAMED_TENSORS({ "table", table }, { "global_step", zero }),
 *                          EST_CHECKPOINT_WRITE(.latest = true));
 *
 * est_checkpoint_open and TensorFlow (tf.train.load_checkpoint, RestoreV2) read it by these names; an Estimator whose
 * variables have these names resumes from it, if it is the latest. The directory is created if it does not exist. Do
 * not write into a directory that a saver is using.
 *
 * The checkpoint is durable when the call returns EST_OK. Like a saver, it writes the data before the index and renames
 * both only when they are on disk; an existing checkpoint of that prefix is replaced atomically, and its `.meta`
 * removed. After a failure either the old or the new checkpoint is there, complete; if only writing the file
 * `checkpoint` failed, it is the new one, but not marked as the latest. EST_INVALID_ARGUMENT: neither a tensor nor
 * an object was given, or objects name a tensor or an object that does not exist.
 * EST_ALREADY_EXISTS: two tensors have the same name. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_checkpoint_write(const char *prefix, est_named_tensors tensors,
                                                       const est_checkpoint_write_options *options);

/* Writes the file `checkpoint` of a directory in one step: these checkpoints, paths within the directory, the oldest
 * first, are those that are kept, and the last is the latest. `times`: when each was written, in seconds since 1970;
 * n 0: not said. `preserved`: the time of the last one that is never removed; 0: not said. */
EST_API EST_MUST_CHECK est_status est_checkpoint_mark(const char *dir, est_strings paths, est_f64s times,
                                                      double preserved);

#ifdef __cplusplus
}
#endif
#endif
