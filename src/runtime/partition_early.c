/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitioning (runtime/partition.c): gradients that are sent while the backward pass still runs.
 *
 * Of the updates of one phase at one task, those with early gradients are collected, in the order in which these are
 * ready, until there is enough for a message. What is ready last, what is small and what depends on others stays in the
 * rest (C4). Sizes that are not known before a step, those of rows, count as 0. */
#include <stdlib.h>

#include "runtime/partition.h"
#include "tensor/shape.h"

#define PIECE_BYTES (256 << 10) /* worth a message of its own */

static const est_node_def *node_of(const est_partition_phases *c, int32_t id)
{
    return est_graph_node(c->whole->graph, id);
}

/* An update that may be sent early. */
typedef struct update {
    int32_t  node;
    int32_t  ready; /* position in the order at which its inputs are ready */
    uint64_t bytes; /* of the inputs, as far as known */
} update;

static bool is_beside(const est_partition_phases *c, int32_t id, int32_t other)
{
    return !est_is_free(c->whole->graph, id) && c->task[id] == c->task[other] && c->phase[id] == c->phase[other];
}

/* Whether an input comes from a segment. */
static bool receives(const est_partition_phases *c, const est_node_def *def)
{
    for (int32_t i = 0; i < def->n_in; i++) {
        if (!est_is_free(c->whole->graph, def->in[i].node) && c->task[def->in[i].node] != EST_HERE) return true;
    }
    return false;
}

/* Keeps C4 and C7. */
static bool may_leave(const est_partition_phases *c, const est_node_def *def)
{
    if (def->op->writes == 0 || def->n_out > 0 || (c->direct && receives(c, def))) return false;
    for (int32_t e = c->in.first[def->id]; e < c->in.first[def->id + 1]; e++) {
        if (is_beside(c, c->in.from[e], def->id)) return false;
    }
    return true;
}

/* When the inputs that are computed here are ready, and their bytes. */
static update measure(const est_partition_phases *c, const int32_t *at, const est_node_def *def)
{
    update u = { .node = def->id };

    for (int32_t i = 0; i < def->n_in; i++) {
        const est_node_def *in = node_of(c, def->in[i].node);
        size_t              bytes;
        int64_t             count;

        if (c->task[in->id] != EST_HERE || in->op->source != EST_SOURCE_NONE) continue;
        if (at[in->id] > u.ready) u.ready = at[in->id];
        if (!est_shape_is_known(&in->shape[def->in[i].output])) continue;
        if (est_shape_size(&in->shape[def->in[i].output], in->dtype[def->in[i].output], &count, &bytes) == EST_OK) {
            u.bytes += bytes;
        }
    }
    return u;
}

static int earlier_first(const void *a, const void *b)
{
    const update *x = a, *y = b;

    if (x->ready != y->ready) return x->ready < y->ready ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

/* Divides one phase of a task into pieces, in the order in which they are ready; what is ready last is the rest. */
static void divide_phase(const est_partition_phases *c, const int32_t *at, int32_t task, int32_t phase, update *updates,
                         int32_t *piece)
{
    int32_t  n = 0, last = 0, n_pieces = 0, begin = 0;
    uint64_t early = 0, bytes = 0, enough;

    for (int32_t k = 0; k < c->whole->n; k++) {
        const est_node_def *def = node_of(c, c->whole->nodes[k]);
        update              u;

        if (est_is_free(c->whole->graph, def->id) || c->task[def->id] != task || c->phase[def->id] != phase) continue;
        u = measure(c, at, def);
        if (u.ready > last) last = u.ready;
        if (u.ready > 0 && may_leave(c, def)) updates[n++] = u;
    }
    qsort(updates, (size_t)n, sizeof *updates, earlier_first);
    while (n > 0 && updates[n - 1].ready == last) n--;
    for (int32_t i = 0; i < n; i++) early += updates[i].bytes;
    enough = early / EST_PIECES_MAX + 1 > PIECE_BYTES ? early / EST_PIECES_MAX + 1 : PIECE_BYTES;
    for (int32_t i = 0; i < n; i++) {
        bytes += updates[i].bytes;
        if (bytes < enough) continue;
        n_pieces++;
        for (; begin <= i; begin++) piece[updates[begin].node] = n_pieces;
        bytes = 0;
    }
}

est_status est_partition_early(est_arena *arena, const est_partition_phases *c, int32_t *piece)
{
    size_t   n       = (size_t)est_graph_size(c->whole->graph) + 1;
    int32_t *at      = est_arena_alloc(arena, sizeof *at * n);
    update  *updates = est_arena_alloc(arena, sizeof *updates * n);
    int32_t  last    = 0;

    if (at == NULL || updates == NULL) return est_no_memory();
    for (int32_t k = 0; k < c->whole->n; k++) {
        int32_t id = c->whole->nodes[k];

        at[id] = k;
        if (c->phase[id] > last) last = c->phase[id];
    }
    for (int32_t phase = 1; phase <= last; phase += 2) {
        for (int32_t task = 0; task < c->n_tasks; task++) divide_phase(c, at, task, phase, updates, piece);
    }
    return EST_OK;
}
