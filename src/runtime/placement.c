/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of variables are found by uniting what an operation touches (union-find over handles, one per name). */
#include "runtime/placement.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/map.h"
#include "graph/device_name.h"
#include "kernels/variable_access.h"
#include "tensor/shape.h"

#define OPEN (-2) /* where it goes has still to be decided */

/* Where a set of variables goes. */
typedef struct place {
    int   task;     /* when it is in one piece */
    int   n_shards; /* 0: in one piece */
    int  *tasks;    /* [n_shards] */
    bool *taken;    /* per task: has a shard */
    bool  by_size;  /* in one piece, and to be placed by its size */
} place;

/* A set of variables, or one shard of it, that is to be placed by its size. */
typedef struct sized {
    uint64_t bytes;
    int32_t  set;
    int      shard;
} sized;

typedef struct placing {
    const est_graph *graph;
    est_remote      *remote;
    est_store       *store;
    est_arena       *arena;
    int32_t          n;
    int32_t         *set;   /* per handle: another of its set, itself for the first */
    int32_t         *next;  /* per handle: the next of its set by id; -1: the last */
    place           *place; /* per first of a set */
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

static place *place_of(const placing *p, int32_t handle)
{
    return &p->place[find_set(p, handle)];
}

static const char *text_of(const placing *p, int task)
{
    return task < 0 ? "this task" : p->remote->ops->name(p->remote, task);
}

/* --- what is known ------------------------------------------------------------------------------------------------ */

static est_status settle(const placing *p, int32_t handle, int task)
{
    place *at = place_of(p, handle);

    if (at->task == OPEN && at->n_shards == 0) at->task = task;
    if (at->task == task) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "variable '%s' is to be at %s, but what is used with it is %s%s",
                    est_graph_node(p->graph, handle)->name, text_of(p, task),
                    at->n_shards > 0 ? "spread over tasks" : "at ", at->n_shards > 0 ? "" : text_of(p, at->task));
}

static est_status make_shards(const placing *p, place *at, int n)
{
    at->tasks = est_arena_alloc(p->arena, sizeof *at->tasks * (size_t)n);
    at->taken = est_arena_alloc(p->arena, (size_t)p->remote->n_tasks + 1);
    if (at->tasks == NULL || at->taken == NULL) return est_no_memory();
    at->n_shards = n;
    for (int i = 0; i < n; i++) at->tasks[i] = OPEN;
    return EST_OK;
}

static est_status settle_shard(const placing *p, int32_t handle, int shard, int task)
{
    place *at = place_of(p, handle);

    if (at->tasks[shard] == OPEN) at->tasks[shard] = task;
    at->taken[task] = true;
    if (at->tasks[shard] == task) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "shard %d of variable '%s' is at %s, but that of what is used with it is at %s", shard,
                    est_graph_node(p->graph, handle)->name, text_of(p, task), text_of(p, at->tasks[shard]));
}

/* As the store has it already. */
static est_status settle_stored(const placing *p, int32_t handle, const est_var *var)
{
    place *at = place_of(p, handle);

    if (var->whole != NULL) {
        return est_fail(EST_ALREADY_EXISTS, "variable '%s' has the name of a shard of '%s'", var->name,
                        var->whole->name);
    }
    if (var->n_shards == 0) return settle(p, handle, var->elsewhere ? var->task : -1);
    if (at->task == OPEN && at->n_shards == 0) EST_TRY(make_shards(p, at, var->n_shards));
    if (at->n_shards != var->n_shards) {
        return est_fail(EST_INVALID_ARGUMENT, "variable '%s' has %d shards, but what is used with it has %d", var->name,
                        var->n_shards, at->n_shards);
    }
    for (int i = 0; i < var->n_shards; i++) EST_TRY(settle_shard(p, handle, i, var->shards[i]->task));
    return EST_OK;
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

static est_status settle_known(const placing *p)
{
    est_nodes locals = est_graph_collection(p->graph, "local_variables");

    for (int i = 0; i < locals.n && !p->remote->runs_all; i++) EST_TRY(settle(p, locals.data[i].id, -1));
    for (int32_t id = 0; id < p->n; id++) {
        const est_node_def *def = est_graph_node(p->graph, id);
        const est_var      *var;
        int                 at;

        if (!is_handle(def) || place_of(p, id)->task == -1) continue;
        var = est_store_find(p->store, est_node_string(def, "shared_name"));
        if (var != NULL) {
            EST_TRY(settle_stored(p, id, var));
            continue;
        }
        at = p->remote->ops->located(p->remote, est_node_string(def, "shared_name"));
        if (at >= 0) EST_TRY(settle(p, id, at));
        EST_TRY(settle_pinned(p, def));
    }
    return EST_OK;
}

/* --- what is wanted at one task ----------------------------------------------------------------------------------- */

static bool is_open(const place *at)
{
    return at->task == OPEN && at->n_shards == 0;
}

/* A wish, unlike what one operation touches: two sets that have their places keep them. */
static void unite_wanted(const placing *p)
{
    est_nodes pairs = est_graph_collection(p->graph, EST_COLOCATED);

    for (int i = 0; i + 1 < pairs.n; i += 2) {
        int32_t a = pairs.data[i].id, b = pairs.data[i + 1].id;
        place   known = is_open(place_of(p, a)) ? *place_of(p, b) : *place_of(p, a);

        if (known.n_shards > 0 || (!is_open(place_of(p, a)) && !is_open(place_of(p, b)))) continue;
        unite(p, a, b);
        *place_of(p, a) = known;
    }
}

/* --- what is spread ----------------------------------------------------------------------------------------------- */

static bool has_same_rows(const est_node_def *a, const est_node_def *b)
{
    return !a->op->has_rows && !b->op->has_rows && b->shape[0].rank > 0 && a->shape[0].dim[0] == b->shape[0].dim[0];
}

/* A variable of the set that cannot be spread as its first is; -1: there is none. */
static int32_t find_unlike(const placing *p, int32_t set)
{
    for (int32_t id = set; id >= 0; id = p->next[id]) {
        if (!has_same_rows(est_graph_node(p->graph, set), est_graph_node(p->graph, id))) return id;
    }
    return -1;
}

/* Into how many shards a set goes that is placed by size; 1: it stays in one piece. */
static int count_shards(const placing *p, int32_t set)
{
    const est_partitioner *partitioner = p->remote->partitioner;
    const est_node_def    *def         = est_graph_node(p->graph, set);
    int64_t                n;
    int32_t                unlike;

    if (partitioner == NULL || partitioner->shards == NULL || def->op->has_rows || def->shape[0].rank < 1 ||
        def->shape[0].dim[0] < 1)
        return 1;
    n = partitioner->shards(partitioner, est_node_string(def, "shared_name"), est_node_type(def, "dtype"),
                            &def->shape[0], p->remote->n_keepers);
    if (n > def->shape[0].dim[0]) n = def->shape[0].dim[0];
    if (n < 2) return 1;
    unlike = find_unlike(p, set);
    if (unlike < 0) return (int)n;
    est_log_info("variable '%s' is not spread over tasks: '%s', which is used with it, %s", def->name,
                 est_graph_node(p->graph, unlike)->name,
                 est_graph_node(p->graph, unlike)->op->has_rows ? "has rows for keys" : "has other rows");
    return 1;
}

/* Shards that a task has already, as another session placed them. */
static est_status locate_shards(const placing *p, int32_t set)
{
    for (int32_t id = set; id >= 0; id = p->next[id]) {
        const est_node_def *def = est_graph_node(p->graph, id);

        for (int i = 0; i < p->place[set].n_shards; i++) {
            char *name = est_arena_printf(p->arena, EST_SHARD_NAME, est_node_string(def, "shared_name"), i);
            int   at;

            if (name == NULL) return est_no_memory();
            at = p->remote->ops->located(p->remote, name);
            if (at >= 0) EST_TRY(settle_shard(p, id, i, at));
        }
    }
    return EST_OK;
}

/* Decides which sets are spread; *pieces counts what is then to be placed, at most. */
static est_status spread(const placing *p, size_t *pieces)
{
    *pieces = 0;
    for (int32_t id = 0; id < p->n; id++) {
        place *at = &p->place[id];
        int    n;

        if (!is_handle(est_graph_node(p->graph, id)) || find_set(p, id) != id) continue;
        if (at->task != OPEN || at->n_shards > 0) continue;
        n           = count_shards(p, id);
        at->by_size = n == 1;
        *pieces += (size_t)n;
        if (n == 1) continue;
        EST_TRY(make_shards(p, at, n));
        EST_TRY(locate_shards(p, id));
    }
    return EST_OK;
}

/* --- by size ------------------------------------------------------------------------------------------------------ */

static uint64_t bytes_of(const est_node_def *def, int n_shards, int shard)
{
    est_shape shape = def->shape[0];
    size_t    bytes = 0;
    int64_t   count;

    if (n_shards > 0) {
        shape.dim[0] = est_shard_first(def->shape[0].dim[0], n_shards, shard + 1) -
                       est_shard_first(def->shape[0].dim[0], n_shards, shard);
    }
    return est_shape_size(&shape, est_node_type(def, "dtype"), &count, &bytes) == EST_OK ? bytes : 0;
}

static uint64_t bytes_of_set(const placing *p, int32_t set, int shard)
{
    uint64_t bytes = 0;

    for (int32_t id = set; id >= 0; id = p->next[id]) {
        bytes += bytes_of(est_graph_node(p->graph, id), p->place[set].n_shards, shard);
    }
    return bytes;
}

static int by_size(const void *a, const void *b)
{
    const sized *x = a, *y = b;

    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    if (x->set != y->set) return x->set > y->set ? 1 : -1;
    return (x->shard > y->shard) - (x->shard < y->shard);
}

static void place_shard(const placing *p, const sized *piece)
{
    place *at  = &p->place[piece->set];
    bool   all = true;

    for (int i = 0; i < p->remote->n_keepers; i++) all = all && at->taken[i];
    if (all) memset(at->taken, 0, (size_t)p->remote->n_keepers); /* one more for each */
    at->tasks[piece->shard]            = p->remote->ops->place(p->remote, piece->bytes, at->taken);
    at->taken[at->tasks[piece->shard]] = true;
}

static est_status settle_by_size(const placing *p)
{
    size_t max, n = 0;
    sized *pieces;

    EST_TRY(spread(p, &max));
    pieces = est_arena_alloc(p->arena, sizeof *pieces * (max + 1));
    if (pieces == NULL) return est_no_memory();
    for (int32_t id = 0; id < p->n; id++) {
        const place *at = &p->place[id];

        if (!is_handle(est_graph_node(p->graph, id)) || find_set(p, id) != id) continue;
        if (at->by_size) pieces[n++] = (sized){ bytes_of_set(p, id, 0), id, 0 };
        for (int i = 0; i < at->n_shards; i++) {
            if (at->tasks[i] == OPEN) pieces[n++] = (sized){ bytes_of_set(p, id, i), id, i };
        }
    }
    if (!p->remote->in_turn) qsort(pieces, n, sizeof *pieces, by_size);
    for (size_t i = 0; i < n; i++) {
        if (p->place[pieces[i].set].n_shards > 0) {
            place_shard(p, &pieces[i]);
        } else {
            p->place[pieces[i].set].task = p->remote->ops->place(p->remote, pieces[i].bytes, NULL);
        }
    }
    return EST_OK;
}

/* Lists the handles of each set, once the sets are known. */
static void link_sets(const placing *p, int32_t *last)
{
    for (int32_t id = 0; id < p->n; id++) {
        int32_t set = find_set(p, id); /* the lowest id of its set */

        p->next[id] = -1;
        if (!is_handle(est_graph_node(p->graph, id))) continue;
        if (set != id) p->next[last[set]] = id;
        last[set] = id;
    }
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static est_status add_to_store(const placing *p)
{
    for (int32_t id = 0; id < p->n; id++) {
        const est_node_def *def = est_graph_node(p->graph, id), *first;
        const place        *at;

        if (!is_handle(def) || est_store_find(p->store, est_node_string(def, "shared_name")) != NULL) continue;
        at    = place_of(p, id);
        first = est_graph_node(p->graph, find_set(p, id));
        if (at->n_shards > 0 && !has_same_rows(first, def)) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "variable '%s' is used with '%s', whose rows are spread over tasks, and %s", def->name,
                            first->name, def->op->has_rows ? "has rows for keys" : "has other rows");
        }
        if (at->n_shards > 0) {
            EST_TRY(est_store_add_shards(p->store, def, at->tasks, at->n_shards));
        } else if (at->task >= 0) {
            EST_TRY(est_store_add_elsewhere(p->store, def, at->task));
        }
    }
    return EST_OK;
}

static est_status place_all(placing *p)
{
    size_t   n = (size_t)p->n + 1;
    int32_t *last;

    p->set   = est_arena_alloc(p->arena, sizeof *p->set * n);
    p->next  = est_arena_alloc(p->arena, sizeof *p->next * n);
    p->place = est_arena_alloc(p->arena, sizeof *p->place * n);
    last     = est_arena_alloc(p->arena, sizeof *last * n);
    if (p->set == NULL || p->next == NULL || p->place == NULL || last == NULL) return est_no_memory();
    for (int32_t id = 0; id < p->n; id++) p->place[id].task = OPEN;
    EST_TRY(unite_names(p));
    unite_touched(p);
    EST_TRY(settle_known(p));
    unite_wanted(p);
    link_sets(p, last);
    EST_TRY(settle_by_size(p));
    return add_to_store(p);
}

est_status est_place_variables(const est_graph *graph, est_remote *remote, est_store *store)
{
    placing    p = { .graph = graph, .remote = remote, .store = store, .n = est_graph_size(graph) };
    est_status status;

    p.arena = est_arena_create();
    status  = p.arena != NULL ? place_all(&p) : est_no_memory();
    est_arena_free(p.arena);
    return status;
}
