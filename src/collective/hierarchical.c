/* SPDX-License-Identifier: Apache-2.0
 *
 * For groups of which some ranks share a host: the first rank of a host adds up what the host has, the first ranks go round
 * a ring, and each shares the result out. So the network between hosts carries everything once a host, not once a rank.
 *
 * A host's sum is added up in order of rank, those of the hosts as the ring does (A2). What a rank sent to the first of its host comes
 * back from it (A1); the first writes nothing after it has shared out. */
#include "collective/algorithm.h"

/* Every chunk with every other rank of the host, a chunk at a time, so that none waits for the others to be through. */
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

/* The ring of those who speak for the hosts. */
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
