/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of an algorithm: it writes the list of steps that one rank takes in an operation.
 *
 * Steps are taken in order. A send does not delay the steps after it, so lists that fit each other cannot block: the
 * blocks that a rank receives from another are those that the other sends to it, in the same order and of the same
 * sizes. Memory that is sent must not change until the peer has it, which the algorithm has to ensure (A1):
 *   A1  memory that was sent is written only by a step that cannot come before the peer has received it.
 *   A2  the order of the additions of a sum depends only on n and the position of the element. */
#ifndef EST_COLLECTIVE_ALGORITHM_H
#define EST_COLLECTIVE_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collective/collective.h"

typedef enum est_move_kind {
    EST_MOVE_SEND,    /* data to peer */
    EST_MOVE_RECEIVE, /* from peer into data */
    EST_MOVE_ADD,     /* from peer, added to data */
    EST_MOVE_COPY,    /* from `from` into data */
    EST_MOVE_SUM,     /* from `from`, added to data */
    EST_MOVE_DIVIDE,  /* data by the number of ranks */
    EST_MOVE_CALL     /* the work's `then`, which adds steps */
} est_move_kind;

typedef struct est_move {
    est_move_kind  kind;
    int            peer;
    uint8_t       *data;
    const uint8_t *from;
    size_t         bytes;
} est_move;

/* Which ranks share a host. The first rank of a host is its leader. */
typedef struct est_hosts {
    int  n;
    int *leaders;   /* [n]: the first rank of each host, in order */
    int *leader_of; /* [ranks]: the first rank of the rank's host */
} est_hosts;

/* The arguments of an operation. */
typedef struct est_collective {
    uint8_t         *data;
    size_t           count, element; /* elements, and bytes of one; in all_gather those of this rank's part */
    const uint8_t   *mine;           /* in all_gather: this rank's part, which may lie in its region of data */
    const size_t    *begins;         /* in bytes, [n + 1]: the regions of the ranks in all_gather; NULL elsewhere */
    uint8_t         *scratch;        /* as large as the data, for direct reductions; NULL for others */
    const est_hosts *hosts;
    bool             mean;
    int              root;
} est_collective;

typedef enum est_shared_kind {
    EST_SHARED_SPLIT, /* an all-reduce: every rank reduces its segment of every piece */
    EST_SHARED_WHOLE, /* a small one, or a barrier: every rank reduces everything */
    EST_SHARED_GATHER
} est_shared_kind;

/* An operation through shared memory: n_steps, but no list, since a step follows from its number. */
typedef struct est_shared_part {
    bool            used;
    est_shared_kind kind;
    est_collective  what;
    size_t          n_pieces; /* of an all-gather: 1 until the lengths of all ranks are known */
} est_shared_part;

/* A list of steps; grows as needed. */
typedef struct est_moves {
    int             n, rank;
    const int      *ranks; /* [n]: the subset of ranks that n and rank refer to; NULL: all */
    est_move       *steps;
    int             n_steps, max_steps;
    size_t          send_max; /* the largest block that is sent */
    bool            failed;   /* out of memory; later steps are ignored */
    est_shared_part shared;
} est_moves;

/* Adds a step; `from` is for EST_MOVE_COPY and EST_MOVE_SUM. A step of no bytes is skipped, except calls and those of
 * est_moves_signal. */
void est_moves_add(est_moves *s, est_move_kind kind, int peer, uint8_t *data, const uint8_t *from, size_t bytes);

/* Sends and receives blocks of no bytes. */
void est_moves_signal(est_moves *s, est_move_kind kind, int peer);

/* Regions are sent in chunks, so that adding and forwarding overlap with receiving. */
#define EST_CHUNK_BYTES ((size_t)512 << 10) /* a multiple of all element sizes */

typedef struct est_region {
    uint8_t *data;
    size_t   bytes;
} est_region;

static inline size_t est_region_chunks(est_region region)
{
    return (region.bytes + EST_CHUNK_BYTES - 1) / EST_CHUNK_BYTES;
}

static inline est_region est_region_chunk(est_region region, size_t j)
{
    size_t begin = j * EST_CHUNK_BYTES, left = region.bytes - begin;

    return (est_region){ region.data + begin, left < EST_CHUNK_BYTES ? left : EST_CHUNK_BYTES };
}

/* The region of segment i of n, for sums. */
est_region est_collective_segment(const est_collective *c, int n, int i);

/* NULL members are replaced by another algorithm (operations.c). */
typedef struct est_algorithm {
    void (*all_reduce)(est_moves *s, const est_collective *c);
    void (*reduce_scatter)(est_moves *s, const est_collective *c);
    void (*all_gather)(est_moves *s, const est_collective *c);
    void (*broadcast)(est_moves *s, const est_collective *c);
    void (*barrier)(est_moves *s);
} est_algorithm;

/* NULL for auto, and where there is none. */
const est_algorithm *est_algorithm_of(est_communication communication);

extern const est_algorithm est_algorithm_ring, est_algorithm_halving, est_algorithm_direct, est_algorithm_hierarchical,
    est_algorithm_shared;

#endif
