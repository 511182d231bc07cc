/* SPDX-License-Identifier: Apache-2.0
 *
 * The variables that a checkpoint holds: which of them are at other tasks, and whether one of them is NaN. */
#include "base/alloc.h"
#include "runtime/session.h"
#include "train/saver.h"

static est_status add_entry(est_remote_list *list, est_remote_entry entry)
{
    if (list->n == list->max) {
        int               max  = 2 * list->max + 16;
        est_remote_entry *more = est_realloc(list->data, sizeof *more * (size_t)max);

        if (more == NULL) return est_no_memory();
        list->data = more;
        list->max  = max;
    }
    list->data[list->n++] = entry;
    return EST_OK;
}

/* A partitioned variable is one tensor of the checkpoint; each of its shards has some of the rows. */
est_status est_remote_list_add(est_remote_list *list, const est_store *store, const est_var *var, const char *key)
{
    est_store_entry entry = est_store_entry_of(store, var, key);

    if (var->n_shards == 0) return add_entry(list, (est_remote_entry){ var->task, entry });
    for (int i = 0; i < var->n_shards; i++) {
        const est_var *shard = var->shards[i];

        if (list->missing_only && shard->initialized) continue;
        entry.name  = shard->name;
        entry.first = shard->first_row;
        entry.rows  = shard->value.shape.dim[0];
        EST_TRY(add_entry(list, (est_remote_entry){ shard->task, entry }));
    }
    return EST_OK;
}

est_status est_remote_list_fill(est_remote_list *list, est_session *session, est_var *const *vars, int n)
{
    est_store *store;

    EST_TRY(est_session_store(session, &store));
    for (int i = 0; i < n; i++) {
        if (vars[i]->elsewhere) EST_TRY(est_remote_list_add(list, store, vars[i], vars[i]->name));
    }
    return EST_OK;
}

/* The first variable at another task that has a NaN; -1: none. */
static est_status find_remote_nan(est_session *session, est_var *const *vars, int n, int *out)
{
    est_remote     *remote = est_session_remote(session);
    est_remote_list list   = { 0 };
    int             which  = -1;
    est_status      status = est_remote_list_fill(&list, session, vars, n);

    if (status == EST_OK && list.n > 0) status = remote->ops->find_nan(remote, list.data, list.n, &which);
    *out = -1;
    for (int i = 0; i < n && which >= 0 && *out < 0; i++) {
        if (vars[i]->name == list.data[which].entry.key) *out = i;
    }
    est_free(list.data);
    return status;
}

est_status est_saved_nan(est_session *session, const char **name)
{
    est_var  **vars;
    int        n, found;
    est_status status;

    EST_TRY(est_saved_variables(session, &vars, &n));
    status = find_remote_nan(session, vars, n, &found);
    for (int i = 0; i < (found >= 0 ? found : n); i++) {
        if (!vars[i]->elsewhere && est_var_has_nan(vars[i])) found = i;
    }
    if (status == EST_OK) *name = found >= 0 ? vars[found]->name : NULL;
    est_free(vars);
    return status;
}

est_status est_tasks_without_values(est_session *session, est_strbuf *out, bool *all)
{
    est_remote *remote = est_session_remote(session);
    est_var   **vars;
    bool       *empty, some = false;
    int         n;

    EST_TRY(est_session_look(session));
    EST_TRY(est_saved_variables(session, &vars, &n));
    empty = est_zalloc((size_t)remote->n_tasks + 1);
    for (int i = 0; i < n && empty != NULL; i++) {
        for (int k = 0; k < (vars[i]->n_shards > 0 ? vars[i]->n_shards : 1); k++) {
            const est_var *part = vars[i]->n_shards > 0 ? vars[i]->shards[k] : vars[i];

            some = some || part->initialized;
            if (part->elsewhere && !part->initialized) empty[part->task] = true;
        }
    }
    for (int i = 0; i < remote->n_tasks && empty != NULL; i++) {
        if (!empty[i]) continue;
        est_strbuf_printf(out, "%s%s", est_strbuf_text(out)[0] != '\0' ? ", " : "", remote->ops->name(remote, i));
    }
    est_free(vars);
    if (empty == NULL) return est_no_memory();
    est_free(empty);
    *all = !some;
    return est_strbuf_status(out);
}

est_status est_saved_step(const char *model_dir, int64_t *out)
{
    est_checkpoint *checkpoint = NULL;
    est_tensor     *step       = NULL;
    est_status      status     = est_checkpoint_open(model_dir, &checkpoint);

    if (status == EST_NOT_FOUND) {
        *out = -1;
        return EST_OK;
    }
    EST_TRY(status);
    status = est_checkpoint_read(checkpoint, "global_step", &step);
    if (status == EST_OK && (est_tensor_dtype(step) != EST_I64 || est_tensor_count(step) != 1)) {
        status = est_fail(EST_DATA_LOSS, "%s: global_step is not one int64", est_checkpoint_path(checkpoint));
    }
    if (status == EST_OK) *out = *(const int64_t *)est_tensor_data(step);
    est_tensor_free(step);
    est_checkpoint_close(checkpoint);
    return status;
}
