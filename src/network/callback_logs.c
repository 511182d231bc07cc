/* SPDX-License-Identifier: Apache-2.0
 *
 * Callbacks that write logs down or hand them on: CSV, TensorBoard, functions; and the end at a NaN. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "network/callbacks.h"
#include "train/hooks.h"
#include "train/summary_writer.h"

/* --- CSV ---------------------------------------------------------------------------------------------------------- */

typedef struct csv_log {
    est_hook   hook;
    char      *path;
    bool       append;
    bool       begun; /* an epoch of this fit */
    est_strbuf text;  /* of the file */
    char     **names; /* [n]: of the columns behind the epoch */
    int        n;
} csv_log;

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void csv_clear(csv_log *own)
{
    for (int i = 0; i < own->n; i++) est_free(own->names[i]);
    est_free(own->names);
    est_strbuf_clear(&own->text);
    own->names = NULL;
    own->n     = 0;
}

static est_status csv_add_name(csv_log *own, const char *name, size_t size)
{
    char **names = est_realloc(own->names, (size_t)(own->n + 1) * sizeof *names);

    if (names == NULL) return est_no_memory();
    own->names    = names;
    names[own->n] = est_alloc(size + 1);
    if (names[own->n] == NULL) return est_no_memory();
    memcpy(names[own->n], name, size);
    names[own->n++][size] = '\0';
    return EST_OK;
}

/* The columns of the file that is added to. */
static est_status csv_take_header(csv_log *own)
{
    const char *at = est_strbuf_text(&own->text), *end = at + strcspn(at, "\r\n");
    size_t      n = strcspn(at, ",\r\n");

    if (*at == '\0') return EST_OK;
    if (n != strlen("epoch") || strncmp(at, "epoch", n) != 0) {
        return est_fail(EST_INVALID_ARGUMENT, "%s has no logs of epochs: its first column is '%.*s', not 'epoch'",
                        own->path, (int)n, at);
    }
    for (at += n; at < end; at += n) {
        n = strcspn(++at, ",\r\n");
        EST_TRY(csv_add_name(own, at, n));
    }
    return EST_OK;
}

/* The file so far, if it is added to. */
static est_status csv_read(csv_log *own)
{
    char  *bytes = NULL;
    size_t size;

    if (!own->append || !est_file_exists(own->path)) return EST_OK;
    EST_TRY(est_file_read(own->path, &bytes, &size));
    est_strbuf_append_bytes(&own->text, bytes, size);
    est_free(bytes);
    EST_TRY(est_strbuf_status(&own->text));
    return csv_take_header(own);
}

static est_status csv_write(csv_log *own)
{
    EST_TRY(est_strbuf_status(&own->text));
    return est_file_replace(own->path, est_strbuf_text(&own->text), strlen(est_strbuf_text(&own->text)));
}

static est_status csv_begin(est_hook *hook, est_loop *loop)
{
    csv_log *own = EST_CONTAINER_OF(hook, csv_log, hook);

    (void)loop;
    csv_clear(own);
    own->begun = false;
    return EST_OK;
}

/* The first epoch begins with the file, so that one that cannot be written is found before a step is made. */
static est_status csv_epoch_begin(est_hook *hook, est_loop *loop)
{
    csv_log *own = EST_CONTAINER_OF(hook, csv_log, hook);

    (void)loop;
    if (own->begun) return EST_OK;
    own->begun = true;
    EST_TRY(csv_read(own));
    return csv_write(own);
}

/* A new column at the end of every line. */
static est_status csv_add_column(csv_log *own, const char *name)
{
    est_strbuf  wider = { 0 };
    const char *line  = est_strbuf_text(&own->text);

    EST_TRY(csv_add_name(own, name, strlen(name)));
    for (bool header = true; *line != '\0'; header = false) {
        size_t size = strcspn(line, "\r\n");

        est_strbuf_append_bytes(&wider, line, size);
        est_strbuf_printf(&wider, ",%s\n", header ? name : "NA");
        line += size + strspn(line + size, "\r\n");
    }
    est_strbuf_clear(&own->text);
    own->text = wider;
    return est_strbuf_status(&own->text);
}

static bool csv_has_column(const csv_log *own, const char *name)
{
    for (int i = 0; i < own->n; i++) {
        if (strcmp(own->names[i], name) == 0) return true;
    }
    return false;
}

/* Columns for the logs that have none yet, by name: "val_loss" may come after some epochs. */
static est_status csv_add_columns(csv_log *own, est_loop *loop)
{
    int          n      = est_loop_logs(loop);
    const char **names  = est_alloc((size_t)(n + 1) * sizeof *names);
    est_status   status = EST_OK;

    if (names == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) names[i] = est_loop_log_name(loop, i);
    qsort(names, (size_t)n, sizeof *names, by_text);
    for (int i = 0; i < n && status == EST_OK; i++) {
        if (!csv_has_column(own, names[i])) status = csv_add_column(own, names[i]);
    }
    est_free(names);
    return status;
}

/* The shortest text that is read back as the same number. */
static void put_number(est_strbuf *out, double value)
{
    char text[40];

    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    est_strbuf_append(out, text);
}

static est_status csv_epoch_end(est_hook *hook, est_loop *loop)
{
    csv_log *own = EST_CONTAINER_OF(hook, csv_log, hook);

    if (est_strbuf_text(&own->text)[0] == '\0') est_strbuf_append(&own->text, "epoch\n");
    EST_TRY(csv_add_columns(own, loop));
    est_strbuf_printf(&own->text, "%" PRId64, est_loop_epoch(loop));
    for (int i = 0; i < own->n; i++) {
        est_strbuf_append(&own->text, ",");
        if (est_loop_has_log(loop, own->names[i])) {
            put_number(&own->text, est_loop_log(loop, own->names[i]));
        } else {
            est_strbuf_append(&own->text, "NA");
        }
    }
    est_strbuf_append(&own->text, "\n");
    return csv_write(own);
}

static void csv_free(est_hook *hook)
{
    csv_log *own = EST_CONTAINER_OF(hook, csv_log, hook);

    csv_clear(own);
    est_free(own->path);
    est_free(own);
}

/* A copy of a path; NULL: none was given, or no memory. */
static char *copy_path(const char *callback, const char *path)
{
    char *copy;

    if (path == NULL || path[0] == '\0') {
        (void)est_fail(EST_INVALID_ARGUMENT, "%s: the path is missing", callback);
        return NULL;
    }
    copy = est_strdup(path);
    if (copy == NULL) (void)est_no_memory();
    return copy;
}

est_hook *est_csv_callback(const char *path, bool append)
{
    csv_log *own = est_hook_alloc(sizeof *own);

    if (own == NULL) return NULL;
    own->hook   = (est_hook)EST_HOOK(.begin = csv_begin, .epoch_begin = csv_epoch_begin, .epoch_end = csv_epoch_end,
                                     .free = csv_free);
    own->append = append;
    own->path   = copy_path("est_csv_callback", path);
    if (own->path != NULL) return &own->hook;
    csv_free(&own->hook);
    return NULL;
}

/* --- TensorBoard -------------------------------------------------------------------------------------------------- */

typedef struct tensorboard {
    est_hook            hook;
    char               *dir;
    est_summary_writer *train, *validation; /* NULL: nothing was written yet */
} tensorboard;

static est_status open_writer(const tensorboard *own, const char *part, est_summary_writer **writer)
{
    est_strbuf dir = { 0 };
    est_status status;

    if (*writer != NULL) return EST_OK;
    est_strbuf_printf(&dir, "%s/%s", own->dir, part);
    status = est_strbuf_status(&dir);
    if (status == EST_OK) status = est_summary_writer_create(est_strbuf_text(&dir), "", writer);
    est_strbuf_clear(&dir);
    return status;
}

static bool is_validation(const char *name)
{
    return strncmp(name, "val_", 4) == 0;
}

/* The logs of one kind, training or validation, as one event of this step; their tags by a format. */
static void write_event(est_loop *loop, bool validation, const char *format, int64_t step, est_summary_writer *writer)
{
    char tag[256];

    est_summary_begin(writer, step);
    for (int i = 0; i < est_loop_logs(loop); i++) {
        const char *name = est_loop_log_name(loop, i);

        if (is_validation(name) != validation) continue;
        (void)snprintf(tag, sizeof tag, format, validation ? name + 4 : name);
        est_summary_add_scalar(writer, tag, est_loop_log(loop, name));
    }
    est_summary_end(writer);
}

static est_status write_logs(const tensorboard *own, est_loop *loop, bool validation, est_summary_writer **writer)
{
    int n = 0;

    for (int i = 0; i < est_loop_logs(loop); i++) n += is_validation(est_loop_log_name(loop, i)) == validation;
    if (n == 0) return EST_OK;
    EST_TRY(open_writer(own, validation ? "validation" : "train", writer));
    if (validation) {
        write_event(loop, true, "evaluation_%s_vs_iterations", est_loop_global_step(loop), *writer);
    }
    write_event(loop, validation, "epoch_%s", est_loop_epoch(loop), *writer);
    est_summary_flush(*writer);
    return EST_OK;
}

static est_status tensorboard_epoch_end(est_hook *hook, est_loop *loop)
{
    tensorboard *own = EST_CONTAINER_OF(hook, tensorboard, hook);

    EST_TRY(write_logs(own, loop, false, &own->train));
    return write_logs(own, loop, true, &own->validation);
}

static void tensorboard_free(est_hook *hook)
{
    tensorboard *own = EST_CONTAINER_OF(hook, tensorboard, hook);

    est_summary_writer_free(own->train);
    est_summary_writer_free(own->validation);
    est_free(own->dir);
    est_free(own);
}

est_hook *est_tensorboard_callback(const char *dir)
{
    tensorboard *own = est_hook_alloc(sizeof *own);

    if (own == NULL) return NULL;
    own->hook = (est_hook)EST_HOOK(.epoch_end = tensorboard_epoch_end, .free = tensorboard_free);
    own->dir  = copy_path("est_tensorboard_callback", dir);
    if (own->dir != NULL) return &own->hook;
    tensorboard_free(&own->hook);
    return NULL;
}

/* --- NaN ---------------------------------------------------------------------------------------------------------- */

static est_status nan_after_run(est_hook *hook, est_loop *loop)
{
    (void)hook;
    if (isfinite(est_loop_loss(loop))) return EST_OK;
    est_log_warn("step %" PRId64 ": the loss is %g; training ends", est_loop_global_step(loop), est_loop_loss(loop));
    est_loop_request_stop(loop, "the loss is not finite");
    return EST_OK;
}

est_hook *est_terminate_on_nan_callback(void)
{
    est_hook *own = est_hook_alloc(sizeof *own);

    if (own == NULL) return NULL;
    *own = (est_hook)EST_HOOK(.after_run = nan_after_run, .free = est_hook_free_struct);
    return own;
}

/* --- functions ---------------------------------------------------------------------------------------------------- */

typedef struct lambda {
    est_hook                    hook;
    est_lambda_callback_options o;
} lambda;

#define LAMBDA(member)                                                                                                 \
    static est_status lambda_##member(est_hook *hook, est_loop *loop)                                                  \
    {                                                                                                                  \
        const lambda *own = EST_CONTAINER_OF(hook, lambda, hook);                                                      \
                                                                                                                       \
        return own->o.member(loop, own->o.user);                                                                       \
    }

LAMBDA(epoch_begin)
LAMBDA(epoch_end)
LAMBDA(batch_begin)
LAMBDA(batch_end)
LAMBDA(train_begin)
LAMBDA(train_end)

est_hook *est_lambda_callback(const est_lambda_callback_options *options)
{
    lambda    *own = est_hook_alloc(sizeof *own);
    est_status status;

    if (own == NULL) return NULL;
    status    = est_options_take(EST_STRUCT_SIZE(est_lambda_callback_options), options, &own->o);
    own->hook = (est_hook)EST_HOOK(.after_create_session = own->o.train_begin != NULL ? lambda_train_begin : NULL,
                                   .epoch_begin          = own->o.epoch_begin != NULL ? lambda_epoch_begin : NULL,
                                   .before_run           = own->o.batch_begin != NULL ? lambda_batch_begin : NULL,
                                   .after_run            = own->o.batch_end != NULL ? lambda_batch_end : NULL,
                                   .epoch_end            = own->o.epoch_end != NULL ? lambda_epoch_end : NULL,
                                   .end                  = own->o.train_end != NULL ? lambda_train_end : NULL,
                                   .free                 = est_hook_free_struct);
    if (status == EST_OK) return &own->hook;
    est_free(own);
    return NULL;
}
