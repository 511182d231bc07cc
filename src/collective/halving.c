/* SPDX-License-Identifier: Apache-2.0
 *
 * Recursive halving and doubling: in every round a rank exchanges half of what it has left with a partner and adds,
 * until it has one block's sum; then the rounds go back, and blocks are copied. As many bytes as the ring, in 2 log2 n
 * rounds instead of 2 n.
 *
 * The rounds need a power of two, p. Ranks from p on send everything to rank - p first, and receive the result at the
 * end.
 *
 * Block b is summed along a tree that depends on n (A2). Memory that a rank sent to its partner is overwritten by what
 * comes back from that partner (A1); likewise for ranks from p on. */
#include "collective/algorithm.h"

static void move(est_moves *s, est_move_kind kind, int peer, est_region region)
{
    for (size_t j = 0; j < est_region_chunks(region); j++) {
        est_region chunk = est_region_chunk(region, j);

        est_moves_add(s, kind, peer, chunk.data, NULL, chunk.bytes);
    }
}

/* Blocks first .. first + n - 1 of p. */
static est_region blocks(const est_collective *c, int p, int first, int n)
{
    est_region from = est_collective_segment(c, p, first), to = est_collective_segment(c, p, first + n - 1);

    return (est_region){ from.data, (size_t)(to.data - from.data) + to.bytes };
}

/* The round with partner rank ^ mask: of 2 * mask blocks, those that the rank keeps and those that the partner does. */
static void halves(const est_moves *s, const est_collective *c, int p, int mask, est_region *mine, est_region *theirs)
{
    int first = s->rank & ~(mask - 1);

    *mine   = blocks(c, p, first, mask);
    *theirs = blocks(c, p, first ^ mask, mask);
}

static void halving_all_reduce(est_moves *s, const est_collective *c)
{
    est_region whole = { c->data, c->count * c->element }, mine = whole, theirs;
    int        p = 1;

    while (2 * p <= s->n) p *= 2;
    if (s->rank >= p) {
        move(s, EST_MOVE_SEND, s->rank - p, whole);
        move(s, EST_MOVE_RECEIVE, s->rank - p, whole);
        return;
    }
    if (s->rank + p < s->n) move(s, EST_MOVE_ADD, s->rank + p, whole);
    for (int mask = p / 2; mask > 0; mask /= 2) {
        halves(s, c, p, mask, &mine, &theirs);
        move(s, EST_MOVE_SEND, s->rank ^ mask, theirs);
        move(s, EST_MOVE_ADD, s->rank ^ mask, mine);
    }
    if (c->mean) est_moves_add(s, EST_MOVE_DIVIDE, 0, mine.data, NULL, mine.bytes);
    for (int mask = 1; mask < p; mask *= 2) {
        halves(s, c, p, mask, &mine, &theirs);
        move(s, EST_MOVE_SEND, s->rank ^ mask, mine);
        move(s, EST_MOVE_RECEIVE, s->rank ^ mask, theirs);
    }
    if (s->rank + p < s->n) move(s, EST_MOVE_SEND, s->rank + p, whole);
}

const est_algorithm est_algorithm_halving = {
    .all_reduce = halving_all_reduce,
};
