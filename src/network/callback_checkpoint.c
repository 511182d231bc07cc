/* SPDX-License-Identifier: Apache-2.0
 *
 * The callback that writes checkpoints, and weights as values. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "estoc/checkpoint.h"
#include "network/callbacks.h"
#include "network/network.h"
#include "nn/optimizer.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "train/hooks.h"
#include "train/saver.h"

/* --- weights ------------------------------------------------------------------------------------------------------ */

/* Whether a variable is the model's, and not one of an optimizer or the step. */
static bool is_weight(est_graph *graph, const char *name)
{
    est_nodes others = est_graph_collection(graph, EST_OPTIMIZER_VARIABLES);

    for (int i = 0; i < others.n; i++) {
        if (strcmp(est_node_name(others.data[i]), name) == 0) return false;
    }
    return strcmp(name, "global_step") != 0;
}

/* Those of the session: what belongs to dynamic embeddings, their keys, is no variable of the graph. */
static est_status list_here(est_session *session, const char ***names, int *n)
{
    est_var **vars;

    EST_TRY(est_saved_variables(session, &vars, n));
    *names = est_alloc((size_t)(*n + 1) * sizeof **names);
    for (int i = 0; i < *n && *names != NULL; i++) (*names)[i] = vars[i]->name;
    est_free(vars);
    return *names != NULL ? EST_OK : est_no_memory();
}

/* Those of a session whose variables other tasks hold, in parts perhaps. */
static est_status list_elsewhere(est_graph *graph, const char ***names, int *n)
{
    est_nodes variables = est_global_variables(graph);

    *n     = variables.n;
    *names = est_alloc((size_t)(*n + 1) * sizeof **names);
    if (*names == NULL) return est_no_memory();
    for (int i = 0; i < *n; i++) {
        (*names)[i] = est_node_name(variables.data[i]);
        if (!est_has_rows(variables.data[i])) continue;
        est_free(*names);
        return est_fail(EST_UNIMPLEMENTED, "'%s' is a dynamic embedding of other tasks, which only est_saver saves",
                        est_node_name(variables.data[i]));
    }
    return EST_OK;
}

static est_status take(est_graph *graph, est_session *session, bool all, const char *const *names, int n,
                       est_weights *out)
{
    out->data = est_zalloc((size_t)(n + 1) * sizeof *out->data);
    if (out->data == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) {
        if (!all && !is_weight(graph, names[i])) continue;
        EST_TRY(est_session_read(session, names[i], &out->data[out->n].tensor));
        out->data[out->n++].name = names[i];
    }
    return EST_OK;
}

est_status est_weights_take(est_graph *graph, est_session *session, bool all, est_weights *out)
{
    est_weights  taken = { 0 };
    const char **names = NULL;
    int          n     = 0;
    est_status   status;

    status = est_session_remote(session) == NULL ? list_here(session, &names, &n) : list_elsewhere(graph, &names, &n);
    EST_TRY(status);
    status = take(graph, session, all, names, n, &taken);
    est_free(names);
    if (status == EST_OK) {
        *out = taken;
    } else {
        est_weights_clear(&taken);
    }
    return status;
}

est_status est_weights_put(const est_weights *weights, est_session *session)
{
    for (int i = 0; i < weights->n; i++) {
        EST_TRY(est_session_write(session, weights->data[i].name, weights->data[i].tensor));
    }
    return EST_OK;
}

void est_weights_clear(est_weights *weights)
{
    for (int i = 0; i < weights->n; i++) est_tensor_free(weights->data[i].tensor);
    est_free(weights->data);
    *weights = (est_weights){ 0 };
}

est_status est_weights_spoiled(est_session *session, const char *callback, bool *out)
{
    const char *name;

    EST_TRY(est_saved_nan(session, &name));
    if (name != NULL) {
        est_log_warn("%s: the variable '%s' is NaN: the model diverged. Nothing is saved, and what was saved before "
                     "stays.",
                     callback, name);
    }
    *out = name != NULL;
    return EST_OK;
}

/* --- paths -------------------------------------------------------------------------------------------------------- */

/* How a number of a path is written: "02d", ".2f". */
typedef struct number_format {
    bool zeros; /* fill the width */
    int  width, precision;
    char kind; /* d, e, f or g */
} number_format;

/* From `text` of `size` bytes; "": as it is. */
static bool parse_format(const char *text, size_t size, bool is_epoch, number_format *out)
{
    size_t i = 0;

    *out = (number_format){ .precision = 6, .kind = is_epoch ? 'd' : 'g' };
    if (size == 0) return true;
    out->zeros = text[0] == '0';
    for (; i < size && text[i] >= '0' && text[i] <= '9' && out->width < 100; i++) {
        out->width = 10 * out->width + text[i] - '0';
    }
    if (i < size && text[i] == '.') {
        out->precision = 0;
        for (i++; i < size && text[i] >= '0' && text[i] <= '9' && out->precision < 100; i++) {
            out->precision = 10 * out->precision + text[i] - '0';
        }
    }
    if (i + 1 != size) return false;
    out->kind = text[i];
    return strchr("defg", text[i]) != NULL;
}

static void put_number(est_strbuf *out, const number_format *f, double value)
{
    switch (f->kind) {
    case 'd': est_strbuf_printf(out, f->zeros ? "%0*" PRId64 : "%*" PRId64, f->width, (int64_t)value); break;
    case 'e': est_strbuf_printf(out, f->zeros ? "%0*.*e" : "%*.*e", f->width, f->precision, value); break;
    case 'f': est_strbuf_printf(out, f->zeros ? "%0*.*f" : "%*.*f", f->width, f->precision, value); break;
    default: est_strbuf_printf(out, f->zeros ? "%0*.*g" : "%*.*g", f->width, f->precision, value);
    }
}

/* One field of a path, "{epoch:02d}" or "{val_loss:.2f}" without its braces. */
static est_status put_field(est_strbuf *out, est_loop *loop, const char *field, size_t size)
{
    const char   *colon = memchr(field, ':', size);
    size_t        n     = colon != NULL ? (size_t)(colon - field) : size;
    char          name[128];
    bool          is_epoch;
    double        value;
    number_format format;

    (void)snprintf(name, sizeof name, "%.*s", (int)n, field);
    is_epoch = strcmp(name, "epoch") == 0;
    value    = is_epoch ? (double)est_loop_epoch(loop) + 1 : est_loop_log(loop, name);
    if ((!is_epoch && !est_loop_has_log(loop, name)) ||
        !parse_format(field + n + (colon != NULL), size - n - (colon != NULL), is_epoch, &format)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "{%.*s} in the path of a checkpoint: write {epoch} or the name of a log, and a format such as "
                        ":02d or :.2f",
                        (int)size, field);
    }
    if (!isfinite(value)) format = (number_format){ .kind = 'g' }; /* "nan", "inf" */
    put_number(out, &format, value);
    return EST_OK;
}

static est_status format_path(const char *path, est_loop *loop, est_strbuf *out)
{
    while (*path != '\0') {
        const char *end = *path == '{' ? strchr(path, '}') : NULL;

        if (end == NULL) {
            est_strbuf_append_bytes(out, path++, 1);
            continue;
        }
        EST_TRY(put_field(out, loop, path + 1, (size_t)(end - path - 1)));
        path = end + 1;
    }
    return est_strbuf_status(out);
}

/* --- the callback ------------------------------------------------------------------------------------------------- */

typedef struct checkpoint {
    est_hook                     hook;
    est_model_checkpoint_options o;
    est_monitor                  monitor;
    char                        *path;
} checkpoint;

/* The directory of the files, as far as it is that of all epochs: one that cannot be made is found before the first is
 * made. */
static est_status make_dir(const char *path)
{
    size_t     size = strcspn(path, "{");
    est_strbuf dir  = { 0 };
    est_status status;

    while (size > 0 && path[size - 1] != '/') size--;
    if (size <= 1) return EST_OK;
    est_strbuf_append_bytes(&dir, path, size - 1);
    status = est_strbuf_status(&dir);
    if (status == EST_OK) status = est_dir_create(est_strbuf_text(&dir));
    est_strbuf_clear(&dir);
    return status;
}

static est_status checkpoint_begin(est_hook *hook, est_loop *loop)
{
    checkpoint *own = EST_CONTAINER_OF(hook, checkpoint, hook);

    (void)loop;
    est_monitor_begin(&own->monitor);
    return make_dir(own->path);
}

static est_status write_checkpoint(const checkpoint *own, est_loop *loop)
{
    est_weights weights = { 0 };
    est_strbuf  path    = { 0 };
    est_status  status  = format_path(own->path, loop, &path);

    if (status == EST_OK) {
        status = est_weights_take(est_loop_graph(loop), est_loop_session(loop), !own->o.save_weights_only, &weights);
    }
    if (status == EST_OK) {
        status = est_checkpoint_write(est_strbuf_text(&path), (est_named_tensors){ weights.data, weights.n }, NULL);
    }
    est_weights_clear(&weights);
    est_strbuf_clear(&path);
    return status;
}

static est_status save(checkpoint *own, est_loop *loop)
{
    double value;
    bool   spoiled;

    EST_TRY(est_weights_spoiled(est_loop_session(loop), "model checkpoint", &spoiled));
    if (spoiled) return EST_OK;
    if (own->o.save_best_only) {
        if (!est_monitor_read(&own->monitor, "model checkpoint", loop, &value)) return EST_OK;
        if (!est_monitor_better(&own->monitor, value, own->monitor.best)) return EST_OK;
        own->monitor.best = value;
    }
    return write_checkpoint(own, loop);
}

static est_status checkpoint_epoch_end(est_hook *hook, est_loop *loop)
{
    checkpoint *own = EST_CONTAINER_OF(hook, checkpoint, hook);

    return own->o.save_freq == 0 ? save(own, loop) : EST_OK;
}

static est_status checkpoint_after_run(est_hook *hook, est_loop *loop)
{
    checkpoint *own = EST_CONTAINER_OF(hook, checkpoint, hook);

    return own->o.save_freq > 0 && est_loop_runs(loop) % own->o.save_freq == 0 ? save(own, loop) : EST_OK;
}

static void checkpoint_free(est_hook *hook)
{
    checkpoint *own = EST_CONTAINER_OF(hook, checkpoint, hook);

    est_monitor_clear(&own->monitor);
    est_free(own->path);
    est_free(own);
}

static est_status fill(checkpoint *own, const char *path)
{
    const char *monitor = own->o.monitor;

    own->o.monitor = NULL;
    if (path == NULL || path[0] == '\0') {
        return est_fail(EST_INVALID_ARGUMENT, "est_model_checkpoint_callback: the path is missing");
    }
    if (own->o.save_freq < 0) {
        return est_fail(EST_INVALID_ARGUMENT, "model checkpoint: save_freq is %" PRId64 "; write a number of steps",
                        own->o.save_freq);
    }
    EST_TRY(est_network_check_name(path));
    own->path = est_strdup(path);
    if (own->path == NULL) return est_no_memory();
    return est_monitor_init(&own->monitor, monitor, own->o.mode, 0);
}

est_hook *est_model_checkpoint_callback(const char *path, const est_model_checkpoint_options *options)
{
    checkpoint *own = est_hook_alloc(sizeof *own);
    est_status  status;

    if (own == NULL) return NULL;
    own->hook = (est_hook)EST_HOOK(.begin = checkpoint_begin, .after_run = checkpoint_after_run,
                                   .epoch_end = checkpoint_epoch_end, .free = checkpoint_free);
    status    = est_options_take(EST_STRUCT_SIZE(est_model_checkpoint_options), options, &own->o);
    if (status == EST_OK) status = fill(own, path);
    if (status == EST_OK) return &own->hook;
    checkpoint_free(&own->hook);
    return NULL;
}
