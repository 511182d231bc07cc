/* SPDX-License-Identifier: Apache-2.0
 *
 * Backup and restore of a fit. A backup is a checkpoint of all variables with the number of the next epoch, the run
 * count that random operations draw from, the history and, if epochs go on with their input, its position. One that was
 * made within an epoch has the number of its steps, the position of the input and the states of metrics.
 *
 * fit calls it after the other callbacks and the history, so that it has all of the epoch. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "estoc/saver.h"
#include "network/callbacks.h"
#include "runtime/session.h"
#include "train/hooks.h"
#include "train/saver.h"

#define EXTRA_EPOCH   "estoc/epoch"         /* int64: the next one */
#define EXTRA_HISTORY "estoc/history"       /* float64 [epochs, 1 + columns]: the number of the epoch comes first */
#define EXTRA_NAMES   "estoc/history_names" /* uint8 [n]: names of columns, each with a newline after it */
#define EXTRA_DONE    "estoc/steps"         /* int64: steps of that epoch that are made; lacking: none */
#define EXTRA_ORDER   "estoc/variables"     /* uint8 [n]: names of variables in their order, as those of columns */
#define EXTRA_STATE   "estoc/state/%d"      /* the i-th local variable: states of metrics */
#define EXTRAS        7

typedef struct backup {
    est_hook           hook;
    char              *dir;
    est_backup_options o;
    est_saver         *saver; /* NULL: not made yet */
    est_fit           *fit;   /* under way */
} backup;

static void backup_free(est_hook *hook)
{
    backup *own = EST_CONTAINER_OF(hook, backup, hook);

    est_saver_free(own->saver);
    est_free(own->dir);
    est_free(own);
}

bool est_is_backup(const est_hook *hook)
{
    return hook->free == backup_free;
}

static est_status save_at(backup *own, int64_t epoch, int64_t done);

static est_status backup_after_run(est_hook *hook, est_loop *loop)
{
    backup *own = EST_CONTAINER_OF(hook, backup, hook);

    if (own->fit == NULL || own->o.save_freq == 0 || est_loop_runs(loop) % own->o.save_freq != 0) return EST_OK;
    return save_at(own, own->fit->epoch, own->fit->done + 1);
}

static est_status fill(backup *own, const char *dir, const est_backup_options *options)
{
    if (dir == NULL || dir[0] == '\0') {
        return est_fail(EST_INVALID_ARGUMENT, "est_backup_callback: the directory is missing");
    }
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_backup_options), options, &own->o));
    if (own->o.save_freq < 0) {
        return est_fail(EST_INVALID_ARGUMENT, "est_backup_callback: save_freq is %" PRId64 "; write a number of steps",
                        own->o.save_freq);
    }
    own->dir = est_strdup(dir);
    return own->dir != NULL ? EST_OK : est_no_memory();
}

est_hook *est_backup_callback(const char *dir, const est_backup_options *options)
{
    backup *own = est_hook_alloc(sizeof *own);

    if (own == NULL) return NULL;
    own->hook = (est_hook)EST_HOOK(.after_run = backup_after_run, .free = backup_free);
    if (fill(own, dir, options) == EST_OK) return &own->hook;
    backup_free(&own->hook);
    return NULL;
}

/* --- the history -------------------------------------------------------------------------------------------------- */

static est_status pack_history(const est_history *history, est_tensor **values, est_tensor **names)
{
    int        n = est_history_epochs(history), columns = est_history_count(history);
    est_strbuf text = { 0 };
    est_status status;
    double    *at;

    for (int k = 0; k < columns; k++) est_strbuf_printf(&text, "%s\n", est_history_name(history, k));
    status = est_strbuf_status(&text);
    if (status == EST_OK) {
        status = est_tensor_create_from(EST_U8, EST_SHAPE((int64_t)strlen(est_strbuf_text(&text))),
                                        est_strbuf_text(&text), names);
    }
    est_strbuf_clear(&text);
    if (status == EST_OK) status = est_tensor_create(EST_F64, EST_SHAPE(n, columns + 1), values);
    EST_TRY(status);
    at = est_tensor_mutable_data(*values);
    for (int i = 0; i < n; i++) {
        *at++ = (double)est_history_epoch(history, i);
        for (int k = 0; k < columns; k++) *at++ = est_history_value(history, est_history_name(history, k), i);
    }
    return EST_OK;
}

static est_status unpack_row(est_history *history, const double *row, const char *names, size_t size)
{
    char name[256];

    EST_TRY(est_history_begin(history, (int64_t)row[0]));
    for (int k = 1; size > 0; k++) {
        const char *end = memchr(names, '\n', size);
        size_t      n   = end != NULL ? (size_t)(end - names) : size;

        (void)snprintf(name, sizeof name, "%.*s", (int)n, names);
        EST_TRY(est_history_put(history, name, row[k]));
        names += end != NULL ? n + 1 : n;
        size -= end != NULL ? n + 1 : n;
    }
    return EST_OK;
}

static est_status unpack_history(est_history *history, const est_tensor *values, const est_tensor *names)
{
    const est_shape *shape = est_tensor_shape(values);
    const double    *at    = est_tensor_data(values);
    const char      *text  = est_tensor_data(names);
    size_t           size = est_tensor_bytes(names), columns = 1;

    for (size_t i = 0; i < size; i++) columns += text[i] == '\n';
    if (est_tensor_dtype(values) != EST_F64 || shape->rank != 2 || shape->dim[1] != (int64_t)columns) {
        return est_fail(EST_DATA_LOSS, "the history of the backup is damaged");
    }
    for (int64_t i = 0; i < shape->dim[0]; i++) EST_TRY(unpack_row(history, at + i * shape->dim[1], text, size));
    return EST_OK;
}

/* --- saving ------------------------------------------------------------------------------------------------------- */

static est_status open_saver(backup *own)
{
    return own->saver != NULL ? EST_OK : est_saver_create(own->dir, EST_SAVER(.keep_max = 1), &own->saver);
}

/* The names of all variables that are saved, each with a newline after it. */
static est_status pack_order(est_graph *graph, est_tensor **out)
{
    est_nodes  variables = est_global_variables(graph);
    est_strbuf text      = { 0 };
    est_status status;

    for (int i = 0; i < variables.n; i++) est_strbuf_printf(&text, "%s\n", est_node_name(variables.data[i]));
    status = est_strbuf_status(&text);
    if (status == EST_OK) {
        status = est_tensor_create_from(EST_U8, EST_SHAPE((int64_t)strlen(est_strbuf_text(&text))),
                                        est_strbuf_text(&text), out);
    }
    est_strbuf_clear(&text);
    return status;
}

static const char *const extra_names[EXTRAS] = { EXTRA_EPOCH, EST_EXTRA_RUNS, EXTRA_HISTORY,  EXTRA_NAMES,
                                                 EXTRA_ORDER, EXTRA_DONE,     EST_EXTRA_INPUT };

static est_status make_extras(est_fit *fit, int64_t epoch, int64_t done, est_tensor **t)
{
    uint64_t count = est_loop_run_count(fit->loop);
    int64_t  runs;

    memcpy(&runs, &count, sizeof runs);
    EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &epoch, &t[0]));
    EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &runs, &t[1]));
    EST_TRY(pack_history(fit->history, &t[2], &t[3]));
    EST_TRY(pack_order(fit->network->graph, &t[4]));
    EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &done, &t[5]));
    return fit->goes_on || done > 0 ? est_iterator_save(est_loop_input(fit->loop), &t[6]) : EST_OK;
}

/* The states of metrics, and room for their names. */
typedef struct states {
    est_tensor **t;
    char (*name)[32];
    est_nodes variables;
} states;

static void states_clear(states *own)
{
    for (int i = 0; own->t != NULL && i < own->variables.n; i++) est_tensor_free(own->t[i]);
    est_free(own->t);
    est_free(own->name);
}

static est_status states_init(est_graph *graph, states *out)
{
    out->variables = est_local_variables(graph);
    out->t         = est_zalloc((size_t)(out->variables.n + 1) * sizeof(est_tensor *));
    out->name      = est_zalloc((size_t)(out->variables.n + 1) * sizeof *out->name);
    if (out->t == NULL || out->name == NULL) return est_no_memory();
    for (int i = 0; i < out->variables.n; i++) (void)snprintf(out->name[i], sizeof out->name[i], EXTRA_STATE, i);
    return EST_OK;
}

static est_status save_with(backup *own, est_tensor *const *t, const states *s)
{
    est_extra *extras = est_alloc((size_t)(EXTRAS + s->variables.n) * sizeof *extras);
    int        n      = 0;
    est_status status;

    if (extras == NULL) return est_no_memory();
    for (int i = 0; i < EXTRAS; i++) {
        if (t[i] != NULL) extras[n++] = (est_extra){ extra_names[i], t[i] };
    }
    for (int i = 0; i < s->variables.n; i++) {
        if (s->t[i] != NULL) extras[n++] = (est_extra){ s->name[i], s->t[i] };
    }
    status = est_saver_save(own->saver, est_loop_session(own->fit->loop), est_loop_global_step(own->fit->loop),
                            EST_SAVE(.extras = { extras, n }), NULL);
    est_free(extras);
    return status;
}

static void free_all(est_tensor **t)
{
    for (int i = 0; i < EXTRAS; i++) est_tensor_free(t[i]);
}

static est_status save(backup *own, int64_t epoch, int64_t done)
{
    est_fit    *fit       = own->fit;
    est_tensor *t[EXTRAS] = { 0 };
    states      s         = { 0 };
    est_status  status    = open_saver(own);

    if (status == EST_OK) status = make_extras(fit, epoch, done, t);
    if (status == EST_OK) status = states_init(fit->network->graph, &s);
    for (int i = 0; status == EST_OK && done > 0 && i < s.variables.n; i++) {
        status = est_session_read(est_loop_session(fit->loop), est_node_name(s.variables.data[i]), &s.t[i]);
    }
    if (status == EST_OK) status = save_with(own, t, &s);
    states_clear(&s);
    free_all(t);
    return status;
}

/* A backup whose next step is the one after `done` of that epoch. */
static est_status save_at(backup *own, int64_t epoch, int64_t done)
{
    bool       spoiled = false;
    est_status status  = est_weights_spoiled(est_loop_session(own->fit->loop), "backup", &spoiled);

    if (status == EST_OK && !spoiled) status = save(own, epoch, done);
    return status == EST_OK ? EST_OK : est_fail_context(status, "backup");
}

est_status est_backup_epoch(est_hook *hook, est_fit *fit)
{
    backup *own = EST_CONTAINER_OF(hook, backup, hook);

    return own->o.save_freq == 0 ? save_at(own, fit->epoch + 1, 0) : EST_OK;
}

/* --- restoring ---------------------------------------------------------------------------------------------------- */

static est_status use_extras(est_fit *fit, est_tensor *const *t)
{
    uint64_t count;

    for (int i = 0; i < 4; i++) {
        if (t[i] == NULL) return est_fail(EST_DATA_LOSS, "the checkpoint there is no backup of a fit");
    }
    fit->epoch = *(const int64_t *)est_tensor_data(t[0]);
    memcpy(&count, est_tensor_data(t[1]), sizeof count);
    est_session_set_run_count(fit->network->session, count);
    EST_TRY(unpack_history(fit->history, t[2], t[3]));
    if (t[5] != NULL) fit->done = *(const int64_t *)est_tensor_data(t[5]);
    if (t[6] != NULL) fit->position = est_tensor_ref(t[6]);
    est_log_info("The fit goes on with epoch %" PRId64 " of %" PRId64 ".", fit->epoch + 1, fit->epochs);
    return EST_OK;
}

/* Names of variables in a backup, in their order. */
typedef struct order {
    est_nodes   ours;
    char       *text; /* the names, each with a '\0' after it */
    const char *stored[];
} order;

static bool order_has(const order *own, const char *name)
{
    for (int i = 0; i < own->ours.n; i++) {
        if (strcmp(own->stored[i], name) == 0) return true;
    }
    return false;
}

static const char *order_rename(void *user, const char *variable)
{
    const order *own = user;

    for (int i = 0; i < own->ours.n; i++) {
        if (strcmp(est_node_name(own->ours.data[i]), variable) == 0) return own->stored[i];
    }
    return NULL;
}

/* NULL in *out: the names are those of the network, or nothing says what they were. */
static est_status order_of(est_graph *graph, const est_tensor *names, order **out)
{
    est_nodes ours = est_global_variables(graph);
    size_t    size = est_tensor_bytes(names);
    order    *own  = est_zalloc(sizeof *own + (size_t)(ours.n + 1) * sizeof own->stored[0]);
    int       n    = 0;
    bool      same = true;

    if (own != NULL) own->text = est_zalloc(size + 1);
    if (own == NULL || own->text == NULL) {
        est_free(own);
        return est_no_memory();
    }
    own->ours = ours;
    memcpy(own->text, est_tensor_data(names), size);
    for (char *at = own->text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        *end = '\0';
        if (n < ours.n) own->stored[n] = at;
        n++;
    }
    for (int i = 0; n == ours.n && i < n; i++) same = same && order_has(own, est_node_name(ours.data[i]));
    *out = own;
    if (n == ours.n && !same) return EST_OK;
    est_free(own->text);
    est_free(own);
    *out = NULL;
    return EST_OK;
}

static est_status read_order(const backup *own, order **out)
{
    est_checkpoint *checkpoint;
    est_tensor     *names  = NULL;
    est_status      status = EST_OK;

    *out = NULL;
    if (est_checkpoint_open(own->dir, &checkpoint) != EST_OK) return EST_OK; /* the restore says why */
    if (est_checkpoint_find(checkpoint, EXTRA_ORDER) != NULL) {
        status = est_checkpoint_read(checkpoint, EXTRA_ORDER, &names);
        if (status == EST_OK) status = order_of(own->fit->network->graph, names, out);
    }
    est_tensor_free(names);
    est_checkpoint_close(checkpoint);
    return status;
}

static est_status restore_with(backup *own, order *renamed, est_tensor **t, states *s)
{
    est_extra_out      *extras = est_alloc((size_t)(EXTRAS + s->variables.n) * sizeof *extras);
    est_restore_options o      = *EST_RESTORE(.user = renamed);
    int                 n      = 0;
    est_status          status;

    if (extras == NULL) return est_no_memory();
    for (int i = 0; i < EXTRAS; i++) extras[n++] = (est_extra_out){ extra_names[i], &t[i] };
    for (int i = 0; i < s->variables.n; i++) extras[n++] = (est_extra_out){ s->name[i], &s->t[i] };
    o.extras = (est_extras_out){ extras, n };
    if (renamed != NULL) o.rename = order_rename;
    status = est_saver_restore(own->saver, own->fit->network->session, &o, NULL);
    est_free(extras);
    return status;
}

static est_status restore(backup *own, order *renamed)
{
    est_fit    *fit       = own->fit;
    est_tensor *t[EXTRAS] = { 0 };
    states      s         = { 0 };
    est_status  status    = states_init(fit->network->graph, &s);

    if (status == EST_OK) status = restore_with(own, renamed, t, &s);
    if (status == EST_OK) status = use_extras(fit, t);
    for (int i = 0; status == EST_OK && i < s.variables.n; i++) {
        const char *name = est_node_name(s.variables.data[i]);

        if (s.t[i] != NULL) status = est_session_write(fit->network->session, name, s.t[i]);
    }
    states_clear(&s);
    free_all(t);
    return status;
}

est_status est_backup_restore(est_hook *hook, est_fit *fit)
{
    backup    *own     = EST_CONTAINER_OF(hook, backup, hook);
    order     *renamed = NULL;
    est_status status;

    own->fit = fit;
    if (!est_dir_exists(own->dir)) return est_dir_create(own->dir); /* now, and not when there is something to lose */
    EST_TRY(open_saver(own));
    status = read_order(own, &renamed);
    if (status == EST_OK) status = restore(own, renamed);
    if (renamed != NULL) est_free(renamed->text);
    est_free(renamed);
    if (status == EST_OK || status == EST_NOT_FOUND) return EST_OK;
    status = est_restore_advise(status, ". It is of another network: remove it, or name another directory");
    return est_fail_context(status, "backup in %s", own->dir);
}

/* What a model that has diverged can go on from stays. */
est_status est_backup_end(est_hook *hook, est_fit *fit)
{
    backup *own = EST_CONTAINER_OF(hook, backup, hook);
    bool    spoiled;

    if (own->o.keep || !est_dir_exists(own->dir)) return EST_OK;
    EST_TRY(est_weights_spoiled(fit->network->session, "backup", &spoiled));
    if (spoiled) return EST_OK;
    est_saver_free(own->saver);
    own->saver = NULL;
    return est_dir_remove(own->dir);
}

void est_backup_leave(est_hook *hook)
{
    EST_CONTAINER_OF(hook, backup, hook)->fit = NULL;
}
