/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of an algorithm: it writes down, as a list of steps, what one rank does in an operation.
 *
 * Steps are taken in order. A send does not hold up what follows it, so that a list cannot block while its peers' lists fit: the
 * blocks that a rank receives from another are those that the other sends to it, in the same order and of the same sizes. What is
 * sent must stay as it is until the peer has it. Every algorithm shows that it keeps two rules:
 *   A1  Memory that was sent is written to only by a step that cannot come before the peer has received it.
 *   A2  The order in which a sum is added up follows from n and the place alone. */
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

/* Which ranks share a host. The first rank of a host speaks for the others. */
typedef struct est_hosts {
    int  n;
    int *leaders;   /* [n]: the first rank of each host, in order */
    int *leader_of; /* [ranks]: the first rank of the rank's host */
} est_hosts;

/* What an operation is about. */
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
    EST_SHARED_CUT,   /* a sum: every rank adds up its segment of every piece */
    EST_SHARED_WHOLE, /* a small one: every rank adds up everything; a barrier */
    EST_SHARED_GATHER
} est_shared_kind;

/* What goes through shared memory: there are n_steps, but no list of them, since they follow from their number. */
typedef struct est_shared_part {
    bool            used;
    est_shared_kind kind;
    est_collective  what;
    size_t          n_pieces; /* of a gathering 1 until the lengths of all ranks are known */
} est_shared_part;

/* A list that is being written; its memory grows as needed. */
typedef struct est_moves {
    int             n, rank;
    const int      *ranks; /* [n]: of a part of the group, in which n and rank count; NULL: all of it */
    est_move       *steps;
    int             n_steps, max_steps;
    size_t          send_max; /* the largest block that is sent */
    bool            failed;   /* memory is out; nothing is added any more */
    est_shared_part shared;
} est_moves;

/* Adds a step; `from` is for EST_MOVE_COPY and EST_MOVE_SUM. One of no bytes is left out, but for calls and est_moves_signal. */
void est_moves_add(est_moves *s, est_move_kind kind, int peer, uint8_t *data, const uint8_t *from, size_t bytes);

/* Sends and receives blocks of no bytes. */
void est_moves_signal(est_moves *s, est_move_kind kind, int peer);

/* What is sent in pieces, so that adding and sending on overlap with receiving: piece j of a region. */
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

/* Members that are NULL: another algorithm stands in. */
typedef struct est_algorithm {
    void (*all_reduce)(est_moves *s, const est_collective *c);
    void (*reduce_scatter)(est_moves *s, const est_collective *c);
    void (*all_gather)(est_moves *s, const est_collective *c);
    void (*broadcast)(est_moves *s, const est_collective *c);
    void (*barrier)(est_moves *s);
} est_algorithm;

/* By what is asked for; NULL for auto and what there is none for. */
const est_algorithm *est_algorithm_of(est_communication communication);

extern const est_algorithm est_algorithm_ring, est_algorithm_halving, est_algorithm_direct, est_algorithm_hierarchical,
    est_algorithm_shared;

#endif
