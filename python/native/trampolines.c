/* SPDX-License-Identifier: Apache-2.0
 *
 * The C part of the Python package: structs of functions that C calls and that end in one Python function each, and the
 * list of arrays that the library has released. The functions py_on_... are cffi's, take the GIL and may be called by
 * any thread. */
#define ESTOC_LOCATE_H /* errors name the line of the Python program: _lib.here calls est_here */
#include <dlfcn.h>
#include <estoc/estoc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PY_FEEDS_MAX 256

/* Written in Python (python/estoc/_lib.py and others). */
extern est_status py_on_hook(void *user, int what, est_loop *loop);
extern est_status py_on_listener(void *user, int what, est_session *session, int64_t global_step, bool *stop);
extern est_status py_on_export(void *user, est_estimator *estimator, const char *export_path,
                               const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                               char *path);

/* --- hooks -------------------------------------------------------------------------------------------------------- */

enum {
    PY_BEGIN,
    PY_AFTER_CREATE_SESSION,
    PY_BEFORE_RUN,
    PY_AFTER_RUN,
    PY_END,
    PY_EPOCH_BEGIN,
    PY_EPOCH_END,
    PY_INITIALIZE
};

typedef struct py_hook {
    est_hook hook;
    void    *user;
    int64_t  every_ns, called_ns; /* py_progress_create */
} py_hook;

static void *hook_user(est_hook *hook)
{
    return EST_CONTAINER_OF(hook, py_hook, hook)->user;
}

static est_status hook_begin(est_hook *hook, est_loop *loop)
{
    return py_on_hook(hook_user(hook), PY_BEGIN, loop);
}

static est_status hook_after_create_session(est_hook *hook, est_loop *loop)
{
    return py_on_hook(hook_user(hook), PY_AFTER_CREATE_SESSION, loop);
}

static est_status hook_before_run(est_hook *hook, est_loop *loop)
{
    return py_on_hook(hook_user(hook), PY_BEFORE_RUN, loop);
}

static est_status hook_after_run(est_hook *hook, est_loop *loop)
{
    return py_on_hook(hook_user(hook), PY_AFTER_RUN, loop);
}

static est_status hook_end(est_hook *hook, est_loop *loop)
{
    return py_on_hook(hook_user(hook), PY_END, loop);
}

static est_status hook_initialize(est_hook *hook, est_loop *loop)
{
    return py_on_hook(hook_user(hook), PY_INITIALIZE, loop);
}

static void hook_free(est_hook *hook)
{
    free(EST_CONTAINER_OF(hook, py_hook, hook));
}

/* A hook that calls py_on_hook for what bit PY_... of `wants` says; est_hook_free frees it. NULL: out of memory. */
static est_hook *py_hook_create(void *user, int wants)
{
    py_hook *own = calloc(1, sizeof *own);

    if (own == NULL) return NULL;
    own->user = user;
    own->hook = (est_hook)EST_HOOK(.begin = hook_begin, .after_create_session = hook_after_create_session,
                                   .before_run = hook_before_run, .after_run = hook_after_run, .end = hook_end,
                                   .free = hook_free);
    if (!(wants & 1 << PY_BEFORE_RUN)) own->hook.before_run = NULL;
    if (!(wants & 1 << PY_AFTER_RUN)) own->hook.after_run = NULL;
    if (wants & 1 << PY_INITIALIZE) own->hook.initialize = hook_initialize;
    return &own->hook;
}

/* --- saving listeners --------------------------------------------------------------------------------------------- */

typedef struct py_listener {
    est_saving_listener listener;
    void               *user;
} py_listener;

enum { PY_LISTENER_BEGIN, PY_LISTENER_BEFORE_SAVE, PY_LISTENER_AFTER_SAVE, PY_LISTENER_END };

static void *listener_user(est_saving_listener *listener)
{
    return EST_CONTAINER_OF(listener, py_listener, listener)->user;
}

static est_status listener_begin(est_saving_listener *listener)
{
    bool stop = false;

    return py_on_listener(listener_user(listener), PY_LISTENER_BEGIN, NULL, -1, &stop);
}

static est_status listener_before_save(est_saving_listener *listener, est_session *session, int64_t global_step)
{
    bool stop = false;

    return py_on_listener(listener_user(listener), PY_LISTENER_BEFORE_SAVE, session, global_step, &stop);
}

static est_status listener_after_save(est_saving_listener *listener, est_session *session, int64_t global_step,
                                      bool *stop)
{
    return py_on_listener(listener_user(listener), PY_LISTENER_AFTER_SAVE, session, global_step, stop);
}

static est_status listener_end(est_saving_listener *listener, est_session *session, int64_t global_step)
{
    bool stop = false;

    return py_on_listener(listener_user(listener), PY_LISTENER_END, session, global_step, &stop);
}

static est_saving_listener *py_listener_create(void *user)
{
    py_listener *own = calloc(1, sizeof *own);

    if (own == NULL) return NULL;
    own->user     = user;
    own->listener = (est_saving_listener)EST_SAVING_LISTENER(.begin       = listener_begin,
                                                             .before_save = listener_before_save,
                                                             .after_save = listener_after_save, .end = listener_end);
    return &own->listener;
}

static void py_listener_free(est_saving_listener *listener)
{
    if (listener != NULL) free(EST_CONTAINER_OF(listener, py_listener, listener));
}

/* --- exporters ---------------------------------------------------------------------------------------------------- */

typedef struct py_exporter {
    est_exporter exporter;
    void        *user;
} py_exporter;

static est_status exporter_export(est_exporter *exporter, est_estimator *estimator, const char *export_path,
                                  const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                                  char path[EST_CHECKPOINT_PATH_MAX])
{
    return py_on_export(EST_CONTAINER_OF(exporter, py_exporter, exporter)->user, estimator, export_path,
                        checkpoint_path, metrics, is_the_final_export, path);
}

static void exporter_free(est_exporter *exporter)
{
    free(EST_CONTAINER_OF(exporter, py_exporter, exporter));
}

/* An exporter written in Python; `name` is borrowed until est_exporter_free. */
static est_exporter *py_exporter_create(void *user, const char *name)
{
    py_exporter *own = calloc(1, sizeof *own);

    if (own == NULL) return NULL;
    own->user     = user;
    own->exporter = (est_exporter)EST_EXPORTER(.name = name, .export_model = exporter_export, .free = exporter_free);
    return &own->exporter;
}

/* --- the end of the interpreter ------------------------------------------------------------------------------------- */

/* Says whether the interpreter ends; of Python 3.13 on, and the name that it had before, which headers do not have. */
static int (*is_finalizing)(void);

static void py_find_is_finalizing(void)
{
    void *program = dlopen(NULL, RTLD_NOW), *found = dlsym(program, "Py_IsFinalizing");

    if (found == NULL) found = dlsym(program, "_Py_IsFinalizing");
    memcpy(&is_finalizing, &found, sizeof found);
}

/* What cffi's py_on_... go through. At its end the interpreter lets threads go that come back to it; those that it does
 * not know, or no longer, would find its memory freed, and go here. */
static void call_python(struct _cffi_externpy_s *function, char *arguments)
{
    if (is_finalizing != NULL && is_finalizing() && PyGILState_GetThisThreadState() == NULL) pthread_exit(NULL);
    _cffi_call_python(function, arguments);
}

#undef _cffi_call_python
#define _cffi_call_python call_python

/* --- objects that the library is done with --------------------------------------------------------------------------
 *
 * A tensor over the memory of a numpy array, and a dataset with functions of Python, are freed by any thread, also by
 * one that must not wait for the GIL or at exit. The number of the object is put on a list, which Python empties. */

static struct {
    pthread_mutex_t lock;
    uintptr_t      *ids;
    size_t          n, capacity;
} released = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Out of memory: the object is kept for ever, which is the lesser evil. */
static void py_release(void *id)
{
    pthread_mutex_lock(&released.lock);
    if (released.n == released.capacity) {
        size_t     capacity = released.capacity == 0 ? 64 : 2 * released.capacity;
        uintptr_t *ids      = realloc(released.ids, capacity * sizeof *ids);

        if (ids != NULL) {
            released.ids      = ids;
            released.capacity = capacity;
        }
    }
    if (released.n < released.capacity) released.ids[released.n++] = (uintptr_t)id;
    pthread_mutex_unlock(&released.lock);
}

/* Takes up to n numbers off the list; returns how many. */
static size_t py_released(uintptr_t *ids, size_t n)
{
    size_t taken = 0;

    pthread_mutex_lock(&released.lock);
    while (taken < n && released.n > 0) ids[taken++] = released.ids[--released.n];
    pthread_mutex_unlock(&released.lock);
    return taken;
}

/* Has the object of that number kept until the dataset is freed. */
static est_status py_keep(est_dataset *dataset, uintptr_t id)
{
    return est_dataset_keep(dataset, py_release, (void *)id);
}

static est_status py_wrap(est_dtype dtype, est_shape shape, void *data, uintptr_t id, est_tensor **out)
{
    return est_tensor_wrap(dtype, shape, data, py_release, (void *)id, out);
}

/* --- steps over arrays -------------------------------------------------------------------------------------------- */

/* An array of numpy as a feed or for a result. */
typedef struct py_array {
    void       *data;
    est_tensor *tensor; /* of a feed that is not numbers; NULL: data */
    est_dtype   dtype;
    est_shape   shape;
} py_array;

static size_t size_of(est_dtype dtype)
{
    switch (dtype) {
    case EST_U8:
    case EST_BOOL: return 1;
    case EST_F32:
    case EST_I32: return 4;
    case EST_F64:
    case EST_I64: return 8;
    default: return 0; /* strings: never expected */
    }
}

static void keep_array(void *user)
{
    (void)user; /* Python holds it during the run */
}

/* One crossing for a whole step. A result whose data is not NULL is copied there if it has the shape that is expected;
 * else data is that of the step, borrowed until its next run, and shape its shape: *fresh says whether any is. */
static est_status py_run(est_step *step, int n_in, const py_array *in, int n_out, py_array *out, _Bool *fresh)
{
    est_tensor       *own[PY_FEEDS_MAX] = { 0 };
    const est_tensor *feeds[PY_FEEDS_MAX];
    est_status        status = EST_OK;

    if (n_in > PY_FEEDS_MAX) return est_fail(EST_INVALID_ARGUMENT, "%d feeds; at most %d", n_in, PY_FEEDS_MAX);
    for (int i = 0; i < n_in && status == EST_OK; i++) {
        if (in[i].tensor == NULL) {
            status = est_tensor_wrap(in[i].dtype, in[i].shape, in[i].data, keep_array, NULL, &own[i]);
        }
        feeds[i] = in[i].tensor != NULL ? in[i].tensor : own[i];
    }
    if (status == EST_OK) status = est_step_run(step, n_in > 0 ? feeds : NULL);
    *fresh = false;
    for (int i = 0; i < n_out && status == EST_OK; i++) {
        const est_shape *shape = est_step_shape(step, i);
        const void      *data  = est_step_data(step, i);
        size_t           size  = size_of(out[i].dtype);
        bool             same  = out[i].data != NULL && shape->rank == out[i].shape.rank;

        for (int k = 0; k < shape->rank; k++) {
            same = same && shape->dim[k] == out[i].shape.dim[k];
            size *= (size_t)shape->dim[k];
        }
        if (same) {
            memcpy(out[i].data, data, size);
        } else {
            out[i].data  = (void *)(uintptr_t)data;
            out[i].shape = *shape;
            *fresh       = true;
        }
    }
    for (int i = 0; i < n_in; i++) est_tensor_free(own[i]);
    return status;
}

/* --- callbacks of est_network_fit --------------------------------------------------------------------------------- */

static est_status hook_epoch_begin(est_hook *hook, est_loop *loop)
{
    return py_on_hook(hook_user(hook), PY_EPOCH_BEGIN, loop);
}

static est_status hook_epoch_end(est_hook *hook, est_loop *loop)
{
    return py_on_hook(hook_user(hook), PY_EPOCH_END, loop);
}

/* A hook with the events of epochs, too. */
static est_hook *py_callback_create(void *user, int wants)
{
    est_hook *hook = py_hook_create(user, wants);

    if (hook == NULL) return NULL;
    if (wants & 1 << PY_EPOCH_BEGIN) hook->epoch_begin = hook_epoch_begin;
    if (wants & 1 << PY_EPOCH_END) hook->epoch_end = hook_epoch_end;
    return hook;
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static est_status hook_sometimes(est_hook *hook, est_loop *loop)
{
    py_hook *own = EST_CONTAINER_OF(hook, py_hook, hook);
    int64_t  now = now_ns();

    if (now - own->called_ns < own->every_ns) return EST_OK;
    own->called_ns = now;
    return py_on_hook(own->user, PY_AFTER_RUN, loop);
}

/* The same, but calls of after_run are that far apart: steps do not wait for Python. */
static est_hook *py_progress_create(void *user, int wants, int64_t every_ns)
{
    est_hook *hook = py_callback_create(user, wants);
    py_hook  *own;

    if (hook == NULL) return NULL;
    own            = EST_CONTAINER_OF(hook, py_hook, hook);
    own->every_ns  = every_ns;
    own->called_ns = now_ns();
    if (wants & 1 << PY_AFTER_RUN) hook->after_run = hook_sometimes;
    return hook;
}

/* --- layers over feature columns ---------------------------------------------------------------------------------- */

/* What a layer over columns knows: its inputs are the features of these names, in this order. Python owns it. */
typedef struct py_columns {
    est_column_list columns;
    est_strings     keys;
    int64_t         linear_units; /* 0: an input layer; else a linear model of so many outputs */
    est_combiner    combiner;
    bool            sequences; /* a sequence input layer: behind each feature come its row splits */
} py_columns;

typedef struct py_columns_call {
    const py_columns *layer;
    est_nodes         inputs;
} py_columns_call;

static est_feature columns_find(void *user, const char *name)
{
    const py_columns_call *call = user;

    for (int i = 0; i < call->layer->keys.n && i < call->inputs.n; i++) {
        if (strcmp(call->layer->keys.data[i], name) != 0) continue;
        return (est_feature){ .values = call->inputs.data[i],
                              .splits = call->layer->sequences ? call->inputs.data[i + 1] : (est_node){ 0 } };
    }
    return (est_feature){ 0 };
}

static est_node columns_build(est_nodes inputs, bool training, void *user)
{
    py_columns_call call     = { user, inputs };
    est_features    features = { .graph = inputs.data[0].graph, .find = columns_find, .user = &call };
    est_node        lengths;

    (void)training;
    if (call.layer->sequences) return est_sequence_input_layer(features, call.layer->columns, &lengths);
    if (call.layer->linear_units == 0) return est_input_layer(features, call.layer->columns, NULL);
    return est_linear_model(features, call.layer->columns,
                            EST_LINEAR_MODEL(.units = call.layer->linear_units, .combiner = call.layer->combiner));
}

/* A layer whose variables are those of the columns; `columns` is borrowed until it is freed. */
static est_layer *py_columns_layer(py_columns *columns, const char *name)
{
    return est_layer_lambda(columns_build, EST_LAMBDA(.name = name, .user = columns));
}

/* Features of a batch by their names; Python owns it. */
typedef struct py_features {
    est_graph         *graph;
    est_strings        names;
    const est_feature *features; /* [names.n] */
} py_features;

static est_feature features_find(void *user, const char *name)
{
    const py_features *own = user;

    for (int i = 0; i < own->names.n; i++) {
        if (strcmp(own->names.data[i], name) == 0) return own->features[i];
    }
    return (est_feature){ 0 };
}

/* `own` is borrowed as long as the result is used. */
static est_features py_features_of(py_features *own)
{
    return (est_features){ .graph = own->graph, .find = features_find, .user = own };
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

/* est_fail_at without a format. */
static est_status py_fail(const char *file, int line, est_status status, const char *message)
{
    return est_fail_at(file, line, status, "%s", message);
}
