/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving and restoring the variables of a session, as TensorFlow's Saver does: checkpoints `model.ckpt-<step>` in a
 * directory, a file `checkpoint` that says which is the latest, old ones removed.
 *
 * A crash or a failure at any moment leaves a usable checkpoint, if there was one before: see src/train/saver.c for what
 * is kept in which order. TensorFlow reads these checkpoints, and its own are restored.
 *
 * A directory belongs to one saver that saves; any number may restore from it.
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
    size_t      struct_size;        /* filled by EST_SAVER */
    const char *name;               /* of checkpoints, before "-<step>"; NULL: "model.ckpt"; copied */
    int         keep_max;           /* so many of the latest are kept; 0: 5; EST_OFF: all */
    double      keep_every_n_hours; /* one that would be removed stays for good every so many hours; 0: 10000;
                                       EST_OFF: none */
} est_saver_options;

#define EST_SAVER(...) (&(const est_saver_options){ .struct_size = EST_STRUCT_SIZE(est_saver_options), __VA_ARGS__ })

/* A saver for `dir` (copied), which is made if it does not exist. Checkpoints that its file `checkpoint` names and that
 * exist count as kept, so that they go when their time comes; also when the directory was moved since. Those that this
 * saver could not restore, as they are damaged, go before good ones. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_saver_create(const char *dir, const est_saver_options *options, est_saver **out);

/* Frees the saver; files stay. NULL is fine. */
EST_API void est_saver_free(est_saver *saver);

/* A named tensor saved beside the variables, such as the position of the input; and a list of them as one argument:
 * EST_EXTRAS({ "input/position", position }). They come back by est_restore_options.extras, or by est_checkpoint_read() as any tensor.
 * Tensors without any session: est_checkpoint_write(). */
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
    est_str    meta; /* bytes of a `.meta` file (a MetaGraphDef) beside it, borrowed during the call; empty: none. It is
                             * left out, with a warning, where it cannot be written */
} est_save_options;

#define EST_SAVE(...) (&(const est_save_options){ .struct_size = EST_STRUCT_SIZE(est_save_options), __VA_ARGS__ })

/* Saves every variable of the session, the local ones of metrics left out, as `<dir>/<name>-<global_step>`. When it
 * returns EST_OK the checkpoint is on disk and the latest; its prefix is put into `path` (NULL: not wanted). A
 * checkpoint of the same step is replaced, its `.meta` too; so that it is whole throughout, the data file of the new one
 * is called `-of-00002` where that of the old one is `-of-00001`. TensorFlow restores such a checkpoint, but its
 * MergeV2Checkpoints wants both files. Of a session whose variables are at several tasks each task writes a data file of its
 * own, and a NaN in one of those is EST_INVALID_ARGUMENT. On failure the error names the file and the reason, earlier checkpoints stay
 * as they were, and no file of this one is left. options NULL: none. */
EST_API EST_MUST_CHECK est_status est_saver_save(est_saver *saver, est_session *session, int64_t global_step,
                                                 const est_save_options *options, char path[EST_CHECKPOINT_PATH_MAX]);

/* Under which name a variable is looked for: EST_RENAMES({ "new/kernel", "old/kernel" }). */
typedef struct est_rename {
    const char *variable; /* of the session */
    const char *stored;   /* in the checkpoint */
} est_rename;

typedef struct est_renames {
    const est_rename *data;
    int               n;
} est_renames;

#define EST_RENAMES(...) EST_SPAN(est_renames, const est_rename, __VA_ARGS__)

/* An extra that is wanted back: EST_EXTRAS_OUT({ "input/position", &position }). *value becomes a new tensor of the
 * caller's, or NULL when the checkpoint has none of that name. */
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
    void          *user;                                     /* handed to both */
    est_extras_out extras;
    bool           missing_only; /* true: variables that have a value keep it, as those of tasks that were not lost */
} est_restore_options;

#define EST_RESTORE(...)                                                                                               \
    (&(const est_restore_options){ .struct_size = EST_STRUCT_SIZE(est_restore_options), __VA_ARGS__ })

/* What a restore did. */
typedef struct est_restored {
    char     path[EST_CHECKPOINT_PATH_MAX]; /* prefix of the checkpoint it used; "": all had values (missing_only) */
    int      n_restored;                    /* variables that have their value from it */
    int      n_missing;                     /* that it lacks (partial, or slots of shared embeddings of TensorFlow) */
    int      n_filtered;                    /* that the filter left out */
    uint64_t reserved[4];                   /* zeros: room for members to come */
} est_restored;

/* Gives the session's variables, the local ones of metrics left out, their values from a checkpoint; they count as
 * initialised then. Names are the checkpoint's keys or, in one of TensorFlow 2 objects, names of variables.
 * Partitioned ones are put together. Dtype and shape must be those of the variable.
 *
 * From a directory the newest usable checkpoint is restored: one that is damaged or lacks files is logged as a warning
 * and the one before it is used (see est_checkpoint_open for which those are). What may pass, such as a file that cannot
 * be read now, is an error and no reason to use an older one. EST_NOT_FOUND: there is no checkpoint at all, training
 * starts anew. EST_DATA_LOSS: there is, but none is usable; the error lists them. EST_FAILED_PRECONDITION: it lacks
 * variables of the session. EST_INVALID_ARGUMENT: dtype or shape differ, or the call is wrong.
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
