/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of variables are found by uniting what an operation touches (union-find over handles, one per name). */
#include "runtime/placement.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "graph/device_name.h"
#include "tensor/shape.h"

#define OPEN (-2) /* where it goes has still to be decided */

/* A set of variables that is to be placed by its size. */
typedef struct sized {
    uint64_t bytes;
    int32_t  set;
} sized;

typedef struct placing {
    const est_graph *graph;
    est_remote      *remote;
    int32_t          n;
    int32_t         *set;   /* per handle: another of its set, itself for the first */
    int32_t         *task;  /* per first of a set: where it goes */
    sized           *sized; /* those to be placed by size */
    int32_t         *place; /* per first of a set: where it is in sized */
} placing;

static int32_t find_set(const placing *p, int32_t id)
{
    while (p->set[id] != id) id = p->set[id] = p->set[p->set[id]];
    return id;
}

/* The lower id stays first, so that sets do not depend on the order of operations. */
static void unite(const placing *p, int32_t a, int32_t b)
{
    a = find_set(p, a);
    b = find_set(p, b);
    if (a < b) p->set[b] = a;
    if (b < a) p->set[a] = b;
}

static bool is_handle(const est_node_def *def)
{
    return def->op->source == EST_SOURCE_VARIABLE;
}

/* A slot of a dynamic embedding has the rows of another variable. */
static const char *owner_of(const est_node_def *def)
{
    return def->op->has_rows ? est_node_string(def, "rows_of") : "";
}

static est_status unite_names(placing *p)
{
    est_map    first  = { 0 };
    est_status status = EST_OK;

    for (int32_t id = 0; id < p->n && status == EST_OK; id++) {
        const est_node_def *def = est_graph_node(p->graph, id);
        uintptr_t           known;

        p->set[id] = id;
        if (!is_handle(def)) continue;
        known = (uintptr_t)est_map_get(&first, est_node_string(def, "shared_name"));
        if (known != 0) unite(p, id, (int32_t)known - 1);
        if (known == 0) {
            status = est_map_put(&first, est_node_string(def, "shared_name"), (void *)(uintptr_t)(id + 1));
        }
    }
    for (int32_t id = 0; id < p->n && status == EST_OK; id++) {
        const est_node_def *def   = est_graph_node(p->graph, id);
        uintptr_t           owner = is_handle(def) ? (uintptr_t)est_map_get(&first, owner_of(def)) : 0;

        if (owner != 0) unite(p, id, (int32_t)owner - 1);
    }
    est_map_clear(&first);
    return status;
}

static void unite_touched(const placing *p)
{
    for (int32_t id = 0; id < p->n; id++) {
        const est_node_def *def   = est_graph_node(p->graph, id);
        int32_t             first = -1;

        for (int32_t i = 0; i < def->n_in; i++) {
            int32_t in = def->in[i].node;

            if (!is_handle(est_graph_node(p->graph, in))) continue;
            if (first >= 0) unite(p, first, in);
            first = in;
        }
    }
}

static est_status settle(const placing *p, int32_t handle, int32_t task)
{
    int32_t set = find_set(p, handle);

    if (p->task[set] == OPEN) p->task[set] = task;
    if (p->task[set] == task) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "variable '%s' is to be at %s, but what is used with it is at %s",
                    est_graph_node(p->graph, handle)->name,
                    task < 0 ? "this task" : p->remote->ops->name(p->remote, task),
                    p->task[set] < 0 ? "this task" : p->remote->ops->name(p->remote, p->task[set]));
}

static est_status settle_pinned(const placing *p, const est_node_def *def)
{
    est_device_task device = est_device_name_task(def->device);
    int             task;

    if (device.job[0] == '\0') return EST_OK;
    if (device.task < 0) device.task = 0;
    if (p->remote->ops->is_here(p->remote, device.job, device.task)) return settle(p, def->id, -1);
    task = p->remote->ops->find(p->remote, device.job, device.task);
    if (task >= 0) return settle(p, def->id, task);
    return est_fail(EST_INVALID_ARGUMENT, "variable '%s' is pinned to \"%s\", and the cluster has no such task",
                    def->name, def->device);
}

static est_status settle_known(const placing *p, int32_t first, const int32_t *task)
{
    est_nodes locals = est_graph_collection(p->graph, "local_variables");

    for (int i = 0; i < locals.n; i++) EST_TRY(settle(p, locals.data[i].id, -1));
    for (int32_t id = 0; id < p->n; id++) {
        const est_node_def *def = est_graph_node(p->graph, id);
        int                 at;

        if (!is_handle(def) || p->task[find_set(p, id)] == -1) continue;
        if (id < first) {
            EST_TRY(settle(p, id, task[id]));
            continue;
        }
        at = p->remote->ops->located(p->remote, est_node_string(def, "shared_name"));
        if (at >= 0) EST_TRY(settle(p, id, at));
        EST_TRY(settle_pinned(p, def));
    }
    return EST_OK;
}

static int by_size(const void *a, const void *b)
{
    const sized *x = a, *y = b;

    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return (x->set > y->set) - (x->set < y->set);
}

static void settle_by_size(const placing *p)
{
    int n = 0;

    for (int32_t id = 0; id < p->n; id++) {
        const est_node_def *def = est_graph_node(p->graph, id);
        int32_t             set = find_set(p, id);
        size_t              bytes;
        int64_t             count;

        if (!is_handle(def) || p->task[set] != OPEN) continue;
        if (set == id) { /* the first of a set has the lowest id */
            p->place[set] = n;
            p->sized[n++] = (sized){ .set = set };
        }
        if (est_shape_size(&def->shape[0], est_node_type(def, "dtype"), &count, &bytes) == EST_OK) {
            p->sized[p->place[set]].bytes += bytes;
        }
    }
    qsort(p->sized, (size_t)n, sizeof *p->sized, by_size);
    for (int i = 0; i < n; i++) p->task[p->sized[i].set] = p->remote->ops->place(p->remote, p->sized[i].bytes);
}

est_status est_place_variables(const est_graph *graph, est_remote *remote, int32_t first, int32_t *task)
{
    placing    p = { .graph = graph, .remote = remote, .n = est_graph_size(graph) };
    size_t     n = (size_t)p.n + 1;
    est_status status;

    p.set   = est_alloc(sizeof *p.set * n);
    p.task  = est_alloc(sizeof *p.task * n);
    p.sized = est_alloc(sizeof *p.sized * n);
    p.place = est_alloc(sizeof *p.place * n);
    status  = p.set != NULL && p.task != NULL && p.sized != NULL && p.place != NULL
                  ? unite_names(&p)
                  : est_fail(EST_RESOURCE_EXHAUSTED, "no memory to place variables");
    if (status == EST_OK) {
        for (int32_t id = 0; id < p.n; id++) p.task[id] = OPEN;
        unite_touched(&p);
        status = settle_known(&p, first, task);
    }
    if (status == EST_OK) {
        settle_by_size(&p);
        for (int32_t id = first; id < p.n; id++) {
            if (is_handle(est_graph_node(graph, id))) task[id] = p.task[find_set(&p, id)];
        }
    }
    est_free(p.set);
    est_free(p.task);
    est_free(p.sized);
    est_free(p.place);
    return status;
}
