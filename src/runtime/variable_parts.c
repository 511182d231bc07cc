/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the variables of a session are, part by part. */
#include <stdio.h>
#include <string.h>

#include "base/argument.h"
#include "runtime/remote.h"
#include "runtime/session.h"

static const est_var *find_variable(est_session *session, const char *name)
{
    est_store *store;

    return est_session_store(session, &store) == EST_OK ? est_store_find(store, name) : NULL;
}

static int count_parts(const est_var *var)
{
    return var->n_shards > 0 ? var->n_shards : 1;
}

int est_session_variable_parts(est_session *session, const char *variable)
{
    const est_var *var = session != NULL && variable != NULL ? find_variable(session, variable) : NULL;

    return var != NULL ? count_parts(var) : 0;
}

/* The variable itself, or its shard. */
static est_status find_part(est_session *session, const char *name, int i, const est_var **out)
{
    const est_var *var;
    est_store     *store;

    EST_TRY(est_session_store(session, &store));
    var = est_store_find(store, name);
    if (var == NULL) return est_fail(EST_NOT_FOUND, "there is no variable '%s'", name);
    if (i < 0 || i >= count_parts(var)) {
        return est_fail(EST_OUT_OF_RANGE, "variable '%s' has no part %d; it has %d, counted from 0", name, i,
                        count_parts(var));
    }
    *out = var->n_shards > 0 ? var->shards[i] : var;
    return EST_OK;
}

/* A task is called "ps:1". */
est_status est_remote_device(est_remote *remote, const est_var *var, char *out, size_t size)
{
    const char *task, *colon;

    if (var->elsewhere && remote->ops->device != NULL) return remote->ops->device(remote, var, out, size);
    if (!var->elsewhere) {
        (void)snprintf(out, size, "/job:localhost/replica:0/task:0/device:%s:%d", var->device->kind,
                       var->device->number);
        return EST_OK;
    }
    task  = remote->ops->name(remote, var->task);
    colon = strrchr(task, ':');
    if (colon == NULL) return est_fail(EST_INTERNAL, "task '%s' has no name of the form job:index", task);
    (void)snprintf(out, size, "/job:%.*s/replica:0/task:%s/device:CPU:0", (int)(colon - task), task, colon + 1);
    return EST_OK;
}

est_status est_session_variable_part(est_session *session, const char *variable, int i, est_variable_part *out)
{
    const est_var *part;

    EST_REQUIRE(session);
    EST_REQUIRE(variable);
    EST_REQUIRE(out);
    EST_TRY(find_part(session, variable, i, &part));
    *out = (est_variable_part){ .shape = part->value.shape, .first_row = part->first_row };
    return est_remote_device(est_session_remote(session), part, out->device, sizeof out->device);
}

est_status est_session_read_part(est_session *session, const char *variable, int i, est_tensor **out)
{
    const est_var *part;

    EST_REQUIRE(session);
    EST_REQUIRE(variable);
    EST_REQUIRE(out);
    EST_TRY(find_part(session, variable, i, &part));
    return part->whole != NULL ? est_session_read_shard(session, part, out) : est_session_read(session, variable, out);
}
