/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitioning (runtime/partition.c): at which task each node runs. Variables and lookup tables decide for the
 * operations on them, then devices; the rest runs here, except what only one other task needs. */
#include "graph/device_name.h"
#include "ops/ops.h"
#include "runtime/partition.h"

static est_status task_of_device(const est_partition_step *c, const est_node_def *def, int32_t *out)
{
    est_device_task device = est_device_name_task(def->device);

    *out = EST_HERE;
    if (device.job[0] == '\0') return EST_OK;
    if (device.task < 0) device.task = 0;
    if (c->remote->ops->is_here(c->remote, device.job, device.task)) return EST_OK;
    *out = c->remote->ops->find(c->remote, device.job, device.task);
    if (*out >= 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "'%s' is pinned to \"%s\", and the cluster has no such task", def->name,
                    def->device);
}

/* The task of a variable, or of a lookup table, which is where its device says. */
static est_status task_of_handle(const est_partition_step *c, const est_node_def *handle, int32_t *out)
{
    const est_var *var;

    if (handle->op->source == EST_SOURCE_TABLE) return task_of_device(c, handle, out);
    var  = est_store_find(c->store, est_node_string(handle, "shared_name"));
    *out = var != NULL && var->elsewhere ? var->task : EST_HERE;
    return EST_OK;
}

/* *touches: a variable or a table is among the inputs, and overrides the device. */
static est_status task_of_handles(const est_partition_step *c, const est_node_def *def, bool *touches, int32_t *out)
{
    *touches = false;
    for (int32_t i = 0; i < def->n_in; i++) {
        const est_node_def *handle = est_graph_node(c->graph, def->in[i].node);
        int32_t             at;

        if (handle->op->source != EST_SOURCE_VARIABLE && handle->op->source != EST_SOURCE_TABLE) continue;
        EST_TRY(task_of_handle(c, handle, &at));
        if (!*touches) *out = at;
        *touches = true;
        if (*out != at) {
            return est_fail(EST_INVALID_ARGUMENT, "'%s' uses '%s', which is at another task than its other variables",
                            def->name, handle->name);
        }
    }
    return EST_OK;
}

/* Where a node runs, apart from moves. */
static est_status task_of(const est_partition_step *c, const est_node_def *def, int32_t *out)
{
    bool touches;

    *out = EST_HERE;
    if (def->op->source != EST_SOURCE_NONE) return EST_OK;
    if (c->remote->runs_all) {
        *out = 0;
        return EST_OK;
    }
    EST_TRY(task_of_handles(c, def, &touches, out));
    return touches ? EST_OK : task_of_device(c, def, out);
}

/* Marks nodes that depend on feeds, variables or tables. */
static void mark_varying(const est_partition_step *c, bool *varies)
{
    for (int32_t k = 0; k < c->whole->n; k++) {
        int32_t             id  = c->whole->nodes[k];
        const est_node_def *def = est_graph_node(c->graph, id);

        varies[id] = def->op->source == EST_SOURCE_FEED || def->op->source == EST_SOURCE_TABLE || def->n_control > 0 ||
                     (def->op->stateful && !def->op->random && def->op->source == EST_SOURCE_NONE);
        for (int32_t i = 0; i < def->n_in; i++) varies[id] = varies[id] || varies[def->in[i].node];
    }
}

/* Moves nodes that only one task uses and that do not vary to that task, from users to inputs. */
static void move_constants(const est_partition_step *c, const bool *varies, int32_t *user, int32_t *task)
{
    for (int32_t id = 0; id < c->n; id++) user[id] = -2; /* none yet */
    for (int i = 0; i < c->io->n_fetches; i++) user[c->io->fetches[i].id] = EST_HERE;
    for (int32_t k = c->whole->n - 1; k >= 0; k--) {
        int32_t             id  = c->whole->nodes[k];
        const est_node_def *def = est_graph_node(c->graph, id);

        if (!varies[id] && !est_is_free(c->graph, id) && task[id] == EST_HERE && user[id] >= 0) task[id] = user[id];
        for (int32_t i = 0; i < def->n_in; i++) {
            int32_t *of = &user[def->in[i].node];

            *of = *of == -2 || *of == task[id] ? task[id] : EST_HERE;
        }
    }
}

/* A group of operations of one task runs there. */
static void move_groups(const est_partition_step *c, int32_t *task)
{
    for (int32_t k = 0; k < c->whole->n; k++) {
        int32_t             id  = c->whole->nodes[k];
        const est_node_def *def = est_graph_node(c->graph, id);
        bool                one = def->op == &est_op_no_op && def->n_control > 0;

        for (int32_t i = 1; i < def->n_control; i++) one = one && task[def->control[i]] == task[def->control[0]];
        if (one) task[id] = task[def->control[0]];
    }
}

est_status est_partition_place(const est_partition_step *c, bool moves, est_arena *arena, int32_t *task)
{
    bool    *varies = est_arena_alloc(arena, (size_t)c->n + 1);
    int32_t *user   = est_arena_alloc(arena, sizeof *user * ((size_t)c->n + 1));

    if (varies == NULL || user == NULL) return est_no_memory();
    for (int32_t id = 0; id < c->n; id++) task[id] = EST_HERE;
    if (c->remote->ops->assign != NULL) return c->remote->ops->assign(c->remote, c, task);
    for (int32_t k = 0; k < c->whole->n; k++) {
        const est_node_def *def = est_graph_node(c->graph, c->whole->nodes[k]);

        EST_TRY(task_of(c, def, &task[def->id]));
    }
    if (!moves) return EST_OK;
    mark_varying(c, varies);
    move_constants(c, varies, user, task);
    move_groups(c, task);
    return EST_OK;
}
