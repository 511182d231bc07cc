/* SPDX-License-Identifier: Apache-2.0
 *
 * Backup and restore of a fit. A backup is a checkpoint of all variables with the number of the next epoch, the run
 * count that random operations draw from, the history and, if epochs go on with their input, its position.
 *
 * fit calls it after the other callbacks and the history, so that it has all of the epoch. */
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "estoc/saver.h"
#include "network/callbacks.h"
#include "runtime/session.h"
#include "train/hooks.h"
#include "train/saver.h"

#define EXTRA_EPOCH   "estoc/epoch"         /* int64: the next one */
#define EXTRA_HISTORY "estoc/history"       /* float64 [epochs, 1 + columns]: the number of the epoch comes first */
#define EXTRA_NAMES   "estoc/history_names" /* uint8 [n]: names of columns, each with a newline after it */
#define EXTRAS        5

typedef struct backup {
    est_hook   hook;
    char      *dir;
    bool       keep;
    est_saver *saver; /* NULL: not made yet */
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

est_hook *est_backup_callback(const char *dir, bool keep)
{
    backup *own;

    if (dir == NULL || dir[0] == '\0') {
        (void)est_fail(EST_INVALID_ARGUMENT, "est_backup_callback: the directory is missing");
        return NULL;
    }
    own = est_hook_alloc(sizeof *own);
    if (own == NULL) return NULL;
    own->hook = (est_hook)EST_HOOK(.free = backup_free);
    own->keep = keep;
    own->dir  = est_strdup(dir);
    if (own->dir != NULL) return &own->hook;
    (void)est_no_memory();
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

static est_status save_extras(backup *own, est_fit *fit, est_tensor **t)
{
    int64_t   epoch = fit->epoch + 1, runs;
    uint64_t  count = est_loop_run_count(fit->loop);
    est_extra extras[EXTRAS];

    memcpy(&runs, &count, sizeof runs);
    EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &epoch, &t[0]));
    EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &runs, &t[1]));
    EST_TRY(pack_history(fit->history, &t[2], &t[3]));
    if (fit->goes_on) EST_TRY(est_iterator_save(est_loop_input(fit->loop), &t[4]));
    extras[0] = (est_extra){ EXTRA_EPOCH, t[0] };
    extras[1] = (est_extra){ EST_EXTRA_RUNS, t[1] };
    extras[2] = (est_extra){ EXTRA_HISTORY, t[2] };
    extras[3] = (est_extra){ EXTRA_NAMES, t[3] };
    extras[4] = (est_extra){ EST_EXTRA_INPUT, t[4] };
    return est_saver_save(own->saver, est_loop_session(fit->loop), est_loop_global_step(fit->loop),
                          EST_SAVE(.extras = { extras, t[4] != NULL ? 5 : 4 }), NULL);
}

static void free_all(est_tensor **t)
{
    for (int i = 0; i < EXTRAS; i++) est_tensor_free(t[i]);
}

est_status est_backup_save(est_hook *hook, est_fit *fit)
{
    backup     *own       = EST_CONTAINER_OF(hook, backup, hook);
    est_tensor *t[EXTRAS] = { 0 };
    bool        spoiled   = false;
    est_status  status    = est_weights_spoiled(est_loop_session(fit->loop), "backup", &spoiled);

    if (status == EST_OK && spoiled) return EST_OK;
    if (status == EST_OK) status = open_saver(own);
    if (status == EST_OK) status = save_extras(own, fit, t);
    free_all(t);
    return status == EST_OK ? EST_OK : est_fail_context(status, "backup");
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
    if (t[4] != NULL) fit->position = est_tensor_ref(t[4]);
    est_log_info("The fit goes on with epoch %" PRId64 " of %" PRId64 ".", fit->epoch + 1, fit->epochs);
    return EST_OK;
}

est_status est_backup_restore(est_hook *hook, est_fit *fit)
{
    backup     *own       = EST_CONTAINER_OF(hook, backup, hook);
    est_tensor *t[EXTRAS] = { 0 };
    est_status  status;

    if (!est_dir_exists(own->dir)) return EST_OK;
    EST_TRY(open_saver(own));
    status = est_saver_restore(own->saver, fit->network->session,
                               EST_RESTORE(.extras = EST_EXTRAS_OUT({ EXTRA_EPOCH, &t[0] }, { EST_EXTRA_RUNS, &t[1] },
                                                                    { EXTRA_HISTORY, &t[2] }, { EXTRA_NAMES, &t[3] },
                                                                    { EST_EXTRA_INPUT, &t[4] })),
                               NULL);
    if (status == EST_OK) status = use_extras(fit, t);
    free_all(t);
    if (status == EST_OK || status == EST_NOT_FOUND) return EST_OK;
    status = est_restore_advise(status, ". It is of another network: remove it, or name another directory");
    return est_fail_context(status, "backup in %s", own->dir);
}

/* What a model that has diverged can go on from stays. */
est_status est_backup_end(est_hook *hook, est_fit *fit)
{
    backup *own = EST_CONTAINER_OF(hook, backup, hook);
    bool    spoiled;

    if (own->keep || !est_dir_exists(own->dir)) return EST_OK;
    EST_TRY(est_weights_spoiled(fit->network->session, "backup", &spoiled));
    if (spoiled) return EST_OK;
    est_saver_free(own->saver);
    own->saver = NULL;
    return est_dir_remove(own->dir);
}
