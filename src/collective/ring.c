/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring: every rank sends to the next and receives from the one before, 1/n of the data at a time, so that every
 * link carries the minimum. Segments are divided into chunks, and a chunk is forwarded as soon as it was added to.
 *
 * Segment i is summed from rank i + 1 around to rank i, which has the sum (A2), and sent around again. A rank
 * overwrites a segment that it sent when the sum comes back, which has passed the peer that received the segment
 * (A1). */
#include "collective/algorithm.h"

static int before(int rank, int steps, int n)
{
    return ((rank - steps) % n + n) % n;
}

static void send_on(est_moves *s, est_region chunk)
{
    est_moves_add(s, EST_MOVE_SEND, (s->rank + 1) % s->n, chunk.data, NULL, chunk.bytes);
}

static void send_region(est_moves *s, est_region region)
{
    for (size_t j = 0; j < est_region_chunks(region); j++) send_on(s, est_region_chunk(region, j));
}

/* Leaves the sum of the rank's own segment in place, and forwards it for the all-gather. */
static void reduce(est_moves *s, const est_collective *c, bool gathered)
{
    int n = s->n, previous = before(s->rank, 1, n);

    send_region(s, est_collective_segment(c, n, previous));
    for (int k = 2; k <= n; k++) {
        est_region segment = est_collective_segment(c, n, before(s->rank, k, n));

        for (size_t j = 0; j < est_region_chunks(segment); j++) {
            est_region chunk = est_region_chunk(segment, j);

            est_moves_add(s, EST_MOVE_ADD, previous, chunk.data, NULL, chunk.bytes);
            if (k == n && c->mean) est_moves_add(s, EST_MOVE_DIVIDE, 0, chunk.data, NULL, chunk.bytes);
            if (k < n || gathered) send_on(s, chunk);
        }
    }
}

/* Receives the region `k` before the rank's own, and forwards it unless the next rank is its owner. */
static void pass_on(est_moves *s, est_region region, int k)
{
    for (size_t j = 0; j < est_region_chunks(region); j++) {
        est_region chunk = est_region_chunk(region, j);

        est_moves_add(s, EST_MOVE_RECEIVE, before(s->rank, 1, s->n), chunk.data, NULL, chunk.bytes);
        if (k < s->n - 1) send_on(s, chunk);
    }
}

static void ring_all_reduce(est_moves *s, const est_collective *c)
{
    reduce(s, c, true);
    for (int k = 1; k < s->n; k++) pass_on(s, est_collective_segment(c, s->n, before(s->rank, k, s->n)), k);
}

static void ring_reduce_scatter(est_moves *s, const est_collective *c)
{
    reduce(s, c, false);
}

static est_region region_of(const est_collective *c, int rank)
{
    return (est_region){ c->data + c->begins[rank], c->begins[rank + 1] - c->begins[rank] };
}

static void ring_all_gather(est_moves *s, const est_collective *c)
{
    send_region(s, region_of(c, s->rank));
    for (int k = 1; k < s->n; k++) pass_on(s, region_of(c, before(s->rank, k, s->n)), k);
}

/* A chain from the root around to the rank before it. */
static void ring_broadcast(est_moves *s, const est_collective *c)
{
    est_region whole = { c->data, c->count * c->element };
    int        place = before(s->rank, c->root, s->n);

    if (place == 0) {
        send_region(s, whole);
    } else {
        pass_on(s, whole, place);
    }
}

const est_algorithm est_algorithm_ring = {
    .all_reduce     = ring_all_reduce,
    .reduce_scatter = ring_reduce_scatter,
    .all_gather     = ring_all_gather,
    .broadcast      = ring_broadcast,
};
