/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct exchange, for small data: one message to every other rank, without rounds; a broadcast tree; a barrier.
 *
 * All ranks add in order of rank (A2). A rank sends its contribution from a copy, because the sum overwrites it
 * (A1). */
#include "collective/algorithm.h"

/* To every other rank, beginning with the next, so that not all send to one rank at a time. */
static void send_all(est_moves *s, uint8_t *data, size_t bytes)
{
    for (int k = 1; k < s->n; k++) est_moves_add(s, EST_MOVE_SEND, (s->rank + k) % s->n, data, NULL, bytes);
}

/* Puts the sum over all ranks into the region, of which `own` is this rank's part. */
static void sum(est_moves *s, const est_collective *c, est_region region, const uint8_t *own)
{
    for (int i = 0; i < s->n; i++) {
        if (i == s->rank) {
            est_moves_add(s, i == 0 ? EST_MOVE_COPY : EST_MOVE_SUM, 0, region.data, own, region.bytes);
        } else {
            est_moves_add(s, i == 0 ? EST_MOVE_RECEIVE : EST_MOVE_ADD, i, region.data, NULL, region.bytes);
        }
    }
    if (c->mean) est_moves_add(s, EST_MOVE_DIVIDE, 0, region.data, NULL, region.bytes);
}

static void direct_all_reduce(est_moves *s, const est_collective *c)
{
    est_region whole = { c->data, c->count * c->element };

    est_moves_add(s, EST_MOVE_COPY, 0, c->scratch, whole.data, whole.bytes);
    send_all(s, c->scratch, whole.bytes);
    sum(s, c, whole, c->scratch);
}

static void direct_reduce_scatter(est_moves *s, const est_collective *c)
{
    est_region mine = est_collective_segment(c, s->n, s->rank);

    est_moves_add(s, EST_MOVE_COPY, 0, c->scratch, mine.data, mine.bytes);
    for (int k = 1; k < s->n; k++) {
        int        peer   = (s->rank + k) % s->n;
        est_region theirs = est_collective_segment(c, s->n, peer);

        est_moves_add(s, EST_MOVE_SEND, peer, theirs.data, NULL, theirs.bytes);
    }
    sum(s, c, mine, c->scratch);
}

static void direct_all_gather(est_moves *s, const est_collective *c)
{
    send_all(s, c->data + c->begins[s->rank], c->begins[s->rank + 1] - c->begins[s->rank]);
    for (int i = 0; i < s->n; i++) {
        if (i == s->rank) continue;
        est_moves_add(s, EST_MOVE_RECEIVE, i, c->data + c->begins[i], NULL, c->begins[i + 1] - c->begins[i]);
    }
}

/* A binomial tree: the rank at distance d from the root receives from distance d without its highest bit. */
static void direct_broadcast(est_moves *s, const est_collective *c)
{
    int place = (s->rank - c->root + s->n) % s->n, bit = 1;

    while (bit <= place) bit *= 2;
    if (place > 0) {
        est_moves_add(s, EST_MOVE_RECEIVE, (place - bit / 2 + c->root) % s->n, c->data, NULL, c->count * c->element);
    }
    for (; place + bit < s->n; bit *= 2) {
        est_moves_add(s, EST_MOVE_SEND, (place + bit + c->root) % s->n, c->data, NULL, c->count * c->element);
    }
}

/* Dissemination: after round k a rank has heard, directly or not, from the 2^k ranks before it. */
static void direct_barrier(est_moves *s)
{
    for (int distance = 1; distance < s->n; distance *= 2) {
        est_moves_signal(s, EST_MOVE_SEND, (s->rank + distance) % s->n);
        est_moves_signal(s, EST_MOVE_RECEIVE, (s->rank - distance + s->n) % s->n);
    }
}

const est_algorithm est_algorithm_direct = {
    .all_reduce     = direct_all_reduce,
    .reduce_scatter = direct_reduce_scatter,
    .all_gather     = direct_all_gather,
    .broadcast      = direct_broadcast,
    .barrier        = direct_barrier,
};
