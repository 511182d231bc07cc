/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of variables at other tasks: each task writes and reads its own part (cluster/service_files.h). */
#include "cluster/remote_internal.h"

#include <math.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cluster/checkpoint_entries.h"

#define FILES_SECS 3600.0 /* for a task to write or read its part of a checkpoint */

double est_tasks_save_secs(const est_tasks *r)
{
    return fmin(r->options.answer_secs, EST_STOP_SAVE_SECS);
}

/* --- checkpoints -------------------------------------------------------------------------------------------------- */

/* Sends one task its entries; *ask is NULL when it has none. */
static est_status ask_task(const est_tasks *r, int task, est_method method, const est_remote_files *files,
                           est_ask **ask)
{
    est_packing packing = { 0 };
    est_payload payload;
    char       *path   = NULL;
    int         mine   = 0;
    est_status  status = EST_OK;

    *ask = NULL;
    if (method == EST_METHOD_SAVE) status = est_part_prefix(files->prefix, task, &path);
    if (status == EST_OK && files->prefix != NULL) {
        est_wire_put_string(&packing.head, EST_FIELD_PREFIX, path != NULL ? path : files->prefix);
    }
    for (int i = 0; i < files->n; i++) {
        if (files->entries[i].task != task) continue;
        est_checkpoint_entry_pack(&packing, &files->entries[i].entry);
        mine++;
    }
    if (status == EST_OK) status = est_packing_payload(&packing, &payload);
    if (status == EST_OK && mine > 0) {
        status = est_link_ask(r->tasks[task].link, (uint16_t)method, est_method_text(method), payload, FILES_SECS, NULL,
                              NULL, ask);
    }
    est_packing_clear(&packing);
    est_free(path);
    return status;
}

/* A task executes requests in order: one that answers this has taken its snapshot. */
static est_status await_snapshots(est_tasks *r, est_ask *const *asks)
{
    for (int task = 0; task < r->base.n_tasks; task++) {
        if (asks[task] != NULL) EST_TRY(est_remote_task_list_variables(&r->tasks[task]));
    }
    return EST_OK;
}

/* Sends all tasks their entries in parallel. `held`: steps are held, and released when all snapshots are taken. */
static est_status ask_tasks(est_tasks *r, est_method method, const est_remote_files *files, bool held,
                            est_message **out)
{
    est_ask  **asks   = est_zalloc(sizeof(est_ask *) * ((size_t)r->base.n_tasks + 1));
    est_status status = asks != NULL ? EST_OK : est_no_memory();
    est_status released, last;
    est_error  error;

    for (int task = 0; task < r->base.n_tasks && status == EST_OK; task++) {
        status = ask_task(r, task, method, files, &asks[task]);
    }
    if (status == EST_OK && held) status = await_snapshots(r, asks);
    est_error_take(status, &error);
    released = held ? est_remote_release(&r->base) : EST_OK;
    if (status == EST_OK && released != EST_OK) { /* a hold ends with its link */
        status = est_fail_context(released, "the hold may have ended before all snapshots were taken");
        est_error_take(status, &error);
    }
    last = asks != NULL ? est_tasks_await_all(r, asks, method, est_tasks_save_secs(r), out) : EST_OK;
    est_free(asks);
    return status == EST_OK ? last : est_error_raise(&error);
}

est_status est_tasks_save(est_remote *remote, const est_remote_files *files, bool *parts)
{
    bool held = est_tasks_of(remote)->options.consistent_saves;

    for (int i = 0; i < remote->n_tasks; i++) parts[i] = false;
    for (int i = 0; i < files->n; i++) parts[files->entries[i].task] = true;
    if (held) EST_TRY(est_remote_hold(remote));
    return ask_tasks(est_tasks_of(remote), EST_METHOD_SAVE, files, held, NULL);
}

est_status est_tasks_verify(est_remote *remote, const est_remote_files *files)
{
    return ask_tasks(est_tasks_of(remote), EST_METHOD_VERIFY, files, false, NULL);
}

est_status est_tasks_restore(est_remote *remote, const est_remote_files *files)
{
    return ask_tasks(est_tasks_of(remote), EST_METHOD_RESTORE, files, false, NULL);
}

/* The index among all entries of entry `at` of a task. */
static int entry_of_task(const est_remote_entry *entries, int n, int task, int64_t at)
{
    for (int i = 0; i < n; i++) {
        if (entries[i].task == task && at-- == 0) return i;
    }
    return -1;
}

est_status est_tasks_find_nan(est_remote *remote, const est_remote_entry *entries, int n, int *out)
{
    est_remote_files files   = { .entries = entries, .n = n };
    est_message    **answers = est_zalloc(sizeof(est_message *) * ((size_t)remote->n_tasks + 1));
    est_status       status;

    *out = -1;
    if (answers == NULL) return est_no_memory();
    status = ask_tasks(est_tasks_of(remote), EST_METHOD_FIND_NAN, &files, false, answers);
    for (int task = 0; task < remote->n_tasks; task++) {
        int64_t at = answers[task] != NULL ? (int64_t)est_head_u64(answers[task], EST_FIELD_STEP, UINT64_MAX) : -1;

        if (at >= 0 && *out < 0) *out = entry_of_task(entries, n, task, at);
        est_message_free(answers[task]);
    }
    est_free(answers);
    return status;
}
