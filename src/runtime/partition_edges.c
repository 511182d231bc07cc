/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of edges, as partitioning collects them. */
#include "runtime/partition.h"

/* The slot of the edge, or the free one for it. */
static int32_t *slot_of(const est_edges *set, est_edge edge)
{
    uint32_t mask = 2 * (uint32_t)set->max - 1; /* max is a power of two */
    uint32_t at   = ((uint32_t)edge.node * 2654435761u + (uint32_t)edge.output) & mask;

    for (;; at = (at + 1) & mask) {
        int32_t k = set->slots[at] - 1;
        if (k < 0 || (set->data[k].node == edge.node && set->data[k].output == edge.output)) return &set->slots[at];
    }
}

static est_status grow(est_arena *arena, est_edges *set)
{
    est_edges more = { .n = set->n, .max = set->max == 0 ? 16 : 2 * set->max };

    more.data  = est_arena_alloc(arena, sizeof *more.data * (size_t)more.max);
    more.slots = est_arena_alloc(arena, sizeof *more.slots * 2 * (size_t)more.max);
    if (more.data == NULL || more.slots == NULL) return est_no_memory();
    for (int32_t i = 0; i < set->n; i++) {
        more.data[i]                  = set->data[i];
        *slot_of(&more, more.data[i]) = i + 1;
    }
    *set = more;
    return EST_OK;
}

est_status est_edges_add(est_arena *arena, est_edges *set, est_edge edge)
{
    int32_t *slot;

    if (set->n == set->max) EST_TRY(grow(arena, set));
    slot = slot_of(set, edge);
    if (*slot > 0) return EST_OK;
    set->data[set->n++] = edge;
    *slot               = set->n;
    return EST_OK;
}

int32_t est_edges_find(const est_edges *set, est_edge edge)
{
    return set->n > 0 ? *slot_of(set, edge) - 1 : -1;
}
