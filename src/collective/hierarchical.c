/* SPDX-License-Identifier: Apache-2.0
 *
 * For groups where some ranks share a host: the leader of a host reduces over the host, the leaders reduce along a
 * ring, and each sends the result to its host. So the network between hosts carries the data once per host, not once
 * per rank.
 *
 * A host's sum is added in order of rank, those of the hosts as the ring does (A2). The memory that a rank sent to its
 * leader is overwritten by the leader's result (A1); the leader writes nothing after sending that. */
#include "collective/algorithm.h"

/* Each chunk with every other rank of the host, one chunk at a time, so that all ranks progress alike. */
static void exchange(est_moves *s, const est_collective *c, est_move_kind kind, est_region whole)
{
    for (size_t j = 0; j < est_region_chunks(whole); j++) {
        est_region chunk = est_region_chunk(whole, j);

        for (int i = s->rank + 1; i < s->n; i++) {
            if (c->hosts->leader_of[i] == s->rank) est_moves_add(s, kind, i, chunk.data, NULL, chunk.bytes);
        }
    }
}

static void move(est_moves *s, est_move_kind kind, int peer, est_region whole)
{
    for (size_t j = 0; j < est_region_chunks(whole); j++) {
        est_region chunk = est_region_chunk(whole, j);

        est_moves_add(s, kind, peer, chunk.data, NULL, chunk.bytes);
    }
}

/* The ring of the leaders. */
static void between_hosts(est_moves *s, const est_collective *c)
{
    int n = s->n, rank = s->rank;

    s->n     = c->hosts->n;
    s->ranks = c->hosts->leaders;
    s->rank  = 0;
    while (c->hosts->leaders[s->rank] != rank) s->rank++;
    est_algorithm_ring.all_reduce(s, c);
    s->n     = n;
    s->rank  = rank;
    s->ranks = NULL;
}

static void hierarchical_all_reduce(est_moves *s, const est_collective *c)
{
    est_region whole  = { c->data, c->count * c->element };
    int        leader = c->hosts->leader_of[s->rank];

    if (s->rank != leader) {
        move(s, EST_MOVE_SEND, leader, whole);
        move(s, EST_MOVE_RECEIVE, leader, whole);
        return;
    }
    exchange(s, c, EST_MOVE_ADD, whole);
    if (c->hosts->n > 1) {
        between_hosts(s, c);
    } else if (c->mean) {
        est_moves_add(s, EST_MOVE_DIVIDE, 0, whole.data, NULL, whole.bytes);
    }
    exchange(s, c, EST_MOVE_SEND, whole);
}

const est_algorithm est_algorithm_hierarchical = {
    .all_reduce = hierarchical_all_reduce,
};
