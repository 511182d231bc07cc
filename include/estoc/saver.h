/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving and restoring the variables of a session, as TensorFlow's Saver does: checkpoints `model.ckpt-<step>` in a
 * directory, a file `checkpoint` that names the latest, and removal of old ones.
 *
 * A crash or a failure at any moment leaves a usable checkpoint, if there was one before. TensorFlow reads these
 * checkpoints, and its checkpoints can be restored.
 *
 * Only one saver may save into a directory; any number may restore from it.
 *
 * Threading: one thread at a time. */
#ifndef ESTOC_SAVER_H
#define ESTOC_SAVER_H

#include "estoc/checkpoint.h"
#include "estoc/session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_saver est_saver;

typedef struct est_saver_options {
    size_t      struct_size; /* filled by EST_SAVER */
    const char *name;        /* of checkpoints, before "-<step>"; NULL: "model.ckpt"; copied */
    int         keep_max;    /* number of latest checkpoints to keep; 0: 5; EST_OFF: all */
    /* every so many hours one checkpoint is kept permanently; 0: 10000; EST_OFF: none */
    double keep_every_n_hours;
} est_saver_options;

#define EST_SAVER(...) (&(const est_saver_options){ .struct_size = EST_STRUCT_SIZE(est_saver_options), __VA_ARGS__ })

/* A saver for `dir` (copied), which is created if it does not exist. Existing checkpoints that its file `checkpoint`
 * names count towards keep_max, so that they are removed in turn, even if the directory was moved. Damaged checkpoints,
 * which this saver could not restore, are removed before good ones. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_saver_create(const char *dir, const est_saver_options *options, est_saver **out);

/* Frees the saver; files stay. NULL is fine. */
EST_API void est_saver_free(est_saver *saver);

/* A named tensor saved beside the variables, such as the position of the input; and a list of them as one argument:
 * EST_EXTRAS({ "input/position", position }). Read them back with est_restore_options.extras, or with
 * est_checkpoint_read() like any tensor. To save tensors without a session: est_checkpoint_write(). */
typedef struct est_extra {
    const char       *name;
    const est_tensor *value;
} est_extra;

typedef struct est_extras {
    const est_extra *data;
    int              n;
} est_extras;

#define EST_EXTRAS(...) EST_SPAN(est_extras, const est_extra, __VA_ARGS__)

typedef struct est_save_options {
    size_t     struct_size; /* filled by EST_SAVE */
    est_extras extras;      /* borrowed during the call; their names must not be those of variables */
    /* bytes of the checkpoint's `.meta` file (a MetaGraphDef), borrowed during the call; empty: none. If it cannot be
     * written, a warning is logged and the checkpoint has none */
    est_str meta;
} est_save_options;

#define EST_SAVE(...) (&(const est_save_options){ .struct_size = EST_STRUCT_SIZE(est_save_options), __VA_ARGS__ })

/* Saves every variable of the session, except local ones (metrics), as `<dir>/<name>-<global_step>`. When it returns
 * EST_OK the checkpoint is durable and the latest; `path` (may be NULL) receives its prefix. A checkpoint of the same
 * step and its `.meta` are replaced; to keep it restorable all the time, the data file of the new one is called
 * `-of-00002` if that of the old one is `-of-00001`. TensorFlow restores such a checkpoint, but its MergeV2Checkpoints
 * expects both files. If other tasks hold variables, each task writes its own data file, and a NaN in one of those is
 * EST_INVALID_ARGUMENT. On failure the error names the file and the reason, earlier checkpoints are unchanged, and no
 * file of this one is left. options NULL: none. */
EST_API EST_MUST_CHECK est_status est_saver_save(est_saver *saver, est_session *session, int64_t global_step,
                                                 const est_save_options *options, char path[EST_CHECKPOINT_PATH_MAX]);

/* For a training loop of your own that is watched (estoc/checkpoint_watch.h, or the evaluator of
 * est_train_and_evaluate): call mark_begin before the first step, which removes the mark of an earlier training, and
 * mark_end after the last checkpoint. A training that is stopped and goes on later leaves no mark. */
EST_API EST_MUST_CHECK est_status est_saver_mark_begin(est_saver *saver);
EST_API EST_MUST_CHECK est_status est_saver_mark_end(est_saver *saver, int64_t global_step);

/* The name in the checkpoint for a variable of the session: EST_RENAMES({ "new/kernel", "old/kernel" }). */
typedef struct est_rename {
    const char *variable; /* of the session */
    const char *stored;   /* in the checkpoint */
} est_rename;

typedef struct est_renames {
    const est_rename *data;
    int               n;
} est_renames;

#define EST_RENAMES(...) EST_SPAN(est_renames, const est_rename, __VA_ARGS__)

/* An extra to restore: EST_EXTRAS_OUT({ "input/position", &position }). *value becomes a new tensor owned by the
 * caller, or NULL when the checkpoint has none of that name. */
typedef struct est_extra_out {
    const char  *name;
    est_tensor **value;
} est_extra_out;

typedef struct est_extras_out {
    const est_extra_out *data;
    int                  n;
} est_extras_out;

#define EST_EXTRAS_OUT(...) EST_SPAN(est_extras_out, const est_extra_out, __VA_ARGS__)

typedef struct est_restore_options {
    size_t      struct_size; /* filled by EST_RESTORE */
    const char *path;        /* a prefix, a model directory or a SavedModel directory; NULL: the saver's directory */
    bool        partial;     /* true: variables that the checkpoint lacks keep their value; false: that is an error */
    est_renames renames;     /* each must name a variable that is restored */
    const char *(*rename)(void *user, const char *variable); /* for the others; NULL from it: the same name */
    bool (*filter)(void *user, const char *variable);        /* false from it: the variable keeps its value */
    void          *user;                                     /* passed to both */
    est_extras_out extras;
    /* true: initialised variables keep their value, as those of tasks that were not lost */
    bool missing_only;
} est_restore_options;

#define EST_RESTORE(...)                                                                                               \
    (&(const est_restore_options){ .struct_size = EST_STRUCT_SIZE(est_restore_options), __VA_ARGS__ })

/* The result of a restore. */
typedef struct est_restored {
    char path[EST_CHECKPOINT_PATH_MAX]; /* prefix of the checkpoint it used; "": all had values (missing_only) */
    int  n_restored;                    /* variables restored from it */
    /* variables that it lacks (partial, or slots of shared embeddings of TensorFlow) */
    int      n_missing;
    int      n_filtered;  /* variables that the filter excluded */
    uint64_t reserved[4]; /* zeros: room for members to come */
} est_restored;

/* Restores the session's variables, except local ones (metrics), from a checkpoint and marks them as initialised. Names
 * are the checkpoint's keys or, in one of TensorFlow 2 objects, names of variables. The slices of partitioned variables
 * are joined. Dtype and shape must be those of the variable.
 *
 * From a directory the newest usable checkpoint is restored: a damaged or incomplete one is logged as a warning and the
 * previous one is used (est_checkpoint_open documents the order). A failure that may be temporary, such as a file that
 * cannot be read now, is an error and does not select an older checkpoint. EST_NOT_FOUND: no checkpoint exists, so
 * training starts from the beginning. EST_DATA_LOSS: checkpoints exist, but none is usable; the error lists them.
 * EST_FAILED_PRECONDITION: it lacks variables of the session. EST_INVALID_ARGUMENT: dtype or shape differ, or an
 * argument is wrong.
 *
 * All variables and extras are from one checkpoint, or nothing changes. Restoring over variables that have no value yet
 * (before est_session_init) reads the files once, over others twice.
 *
 * saver: may be NULL when a path is given. options NULL: all defaults. out: may be NULL. */
EST_API EST_MUST_CHECK est_status est_saver_restore(est_saver *saver, est_session *session,
                                                    const est_restore_options *options, est_restored *out);

#ifdef __cplusplus
}
#endif
#endif
