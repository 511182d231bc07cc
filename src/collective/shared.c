/* SPDX-License-Identifier: Apache-2.0
 *
 * All-reduce and all-gather through shared memory, for groups on one host.
 *
 * The data is divided into pieces that fit the cache. For each piece, a rank copies into its slot what the others
 * reduce (in), reduces its own segment from the slots of all ranks, in order of rank (sum), and copies the other
 * segments from the slots of the ranks that reduced them (out). So everything is copied twice and crosses main memory
 * once each way. Pieces overlap: while piece k is copied in, k - 1 is reduced and k - 2 is copied out, so that nobody
 * waits for a rank that is a little behind. Small data is one piece that every rank reduces for itself, in the same
 * order, which saves a round. In an all-gather, a rank copies a piece of its part into its slot (in) and the pieces of
 * all ranks out of theirs (out). The first piece carries the length of the part, and is copied out before the second is
 * copied in.
 *
 * Three marks per rank count the pieces that it has completed since the group began:
 *   SM1  a slot is overwritten when all ranks are done with the piece that was there, EST_SLOTS before;
 *   SM2  a segment is reduced when it is ready in all slots, and copied out when it is summed; a gathered part, when it
 *        is ready;
 *   SM3  operations of a group run one at a time, in their order.
 *
 * Values from other ranks are compared, added and copied, but never used as addresses; a length is read once, and
 * checked like one in a block. So a faulty rank spoils results, as it could with blocks, and nothing else.
 *
 * A rank that has to wait polls for a moment if a thread waits for the operation, and else for less time than a bell
 * takes; then it marks itself asleep. A rank that sets a mark after that sends it a bell, a message over the link. Lost
 * ranks, deadlines and aborts are handled over the links as well. */
#include <inttypes.h>
#include <string.h>

#include "collective/work.h"

#define POLL_NS     100000     /* a few times the cost of waking up */
#define BLOCK_BYTES 4096       /* reduced over all ranks while in the first-level cache */
#define WHOLE_BYTES (16 << 10) /* up to this size every rank reduces everything */

enum { PHASE_IN, PHASE_SUM, PHASE_OUT, N_PHASES };

/* --- the memory of a group ---------------------------------------------------------------------------------------- */

static size_t bytes_for(int n)
{
    return EST_SHARED_MEMORY_FIRST + (size_t)n * (sizeof(est_shared_rank) + (size_t)EST_SLOTS * EST_PIECE_BYTES);
}

static void lay_out(est_rank_group *g)
{
    est_commons *c = &g->commons;

    c->ranks   = (est_shared_rank *)(void *)(c->memory.data + EST_SHARED_MEMORY_FIRST);
    c->slots   = (uint8_t *)(c->ranks + g->n);
    c->crowded = g->n > est_cores_allowed();
}

void est_commons_create(est_rank_group *g)
{
    if (est_shared_memory_create(bytes_for(g->n), &g->commons.memory, &g->commons.name) == EST_OK) lay_out(g);
}

void est_commons_open(est_rank_group *g)
{
    if (g->commons.name.bytes != bytes_for(g->n)) return;
    if (est_shared_memory_open(&g->commons.name, &g->commons.memory) == EST_OK) lay_out(g);
}

static uint8_t *slot(const est_rank_group *g, int rank, uint64_t piece)
{
    return g->commons.slots + ((size_t)rank * EST_SLOTS + piece % EST_SLOTS) * EST_PIECE_BYTES;
}

/* --- phases of a piece -------------------------------------------------------------------------------------------- */

static size_t pieces_of(size_t bytes)
{
    return (bytes + EST_PIECE_BYTES - 1) / EST_PIECE_BYTES;
}

static void shared_all_reduce(est_moves *s, const est_collective *c)
{
    size_t          bytes = c->count * c->element, n_pieces = pieces_of(bytes);
    bool            whole = bytes <= WHOLE_BYTES;
    est_shared_kind kind  = whole ? EST_SHARED_WHOLE : EST_SHARED_SPLIT;

    if (bytes == 0) return;
    s->shared  = (est_shared_part){ .used = true, .kind = kind, .what = *c, .n_pieces = n_pieces };
    s->n_steps = whole ? PHASE_SUM + 1 : N_PHASES * (int)(n_pieces + PHASE_OUT);
}

/* One empty piece. */
static void shared_barrier(est_moves *s)
{
    s->shared  = (est_shared_part){ .used = true, .kind = EST_SHARED_WHOLE, .what = { .element = 1 }, .n_pieces = 1 };
    s->n_steps = PHASE_SUM + 1;
}

/* As many pieces as the longest part has; at least one, since a rank may know only its own length. */
static void shared_all_gather(est_moves *s, const est_collective *c)
{
    size_t n_pieces = 1;

    for (int i = 0; i < s->n && c->begins != NULL; i++) {
        size_t n = pieces_of(c->begins[i + 1] - c->begins[i]);

        n_pieces = n > n_pieces ? n : n_pieces;
    }
    s->shared  = (est_shared_part){ .used = true, .kind = EST_SHARED_GATHER, .what = *c, .n_pieces = n_pieces };
    s->n_steps = n_pieces == 1 ? 2 : 2 * (int)(n_pieces + 1);
}

/* The next phase and its piece; false: none, at the beginning and end of the overlap. */
static bool next_phase(const est_work *w, int *phase, size_t *piece)
{
    const est_shared_part *p  = &w->moves.shared;
    size_t                 at = (size_t)w->at;

    if (p->kind == EST_SHARED_GATHER) { /* the first piece is copied out at once, since it carries the lengths */
        *phase = at % 2 == 0 ? PHASE_IN : PHASE_OUT;
        *piece = at == 1 ? 0 : at / 2 - at % 2;
        return at != 3 && *piece < p->n_pieces;
    }
    *phase = w->at % N_PHASES;
    *piece = p->kind == EST_SHARED_WHOLE ? 0 : at / N_PHASES - (size_t)*phase;
    return p->kind == EST_SHARED_WHOLE || (at / N_PHASES >= (size_t)*phase && *piece < p->n_pieces);
}

static est_collective piece_of(const est_work *w, size_t piece)
{
    est_collective c    = w->moves.shared.what;
    size_t         each = EST_PIECE_BYTES / c.element, left = c.count - piece * each;

    c.data += piece * EST_PIECE_BYTES;
    c.count = left < each ? left : each;
    return c;
}

/* The mark that a phase waits for (SM1, SM2). */
static const est_mark *mark_for(const est_shared_rank *rank, est_shared_kind kind, int phase)
{
    if (phase == PHASE_IN) return &rank->done;
    return phase == PHASE_OUT && kind == EST_SHARED_SPLIT ? &rank->summed : &rank->ready;
}

int est_shared_behind(const est_work *w)
{
    const est_rank_group *g = w->group;
    int                   phase;
    size_t                piece;
    uint64_t              needed;

    if (w->at == w->moves.n_steps || !next_phase(w, &phase, &piece)) return -1;
    needed = g->commons.pieces + piece + 1;
    if (phase == PHASE_IN) needed = needed > EST_SLOTS ? needed - EST_SLOTS : 0;
    for (int k = 1; k < g->n; k++) {
        int i = (g->rank + k) % g->n;

        if (est_mark_get(mark_for(&g->commons.ranks[i], w->moves.shared.kind, phase)) < needed) return i;
    }
    return -1;
}

static bool is_next(const void *work)
{
    return est_shared_behind(work) < 0;
}

int est_shared_await(const est_work *w, bool poll)
{
    est_mark *asleep = &w->group->commons.ranks[w->group->rank].asleep;
    int       behind;

    if (poll && est_mark_get(asleep) != 0) est_mark_set(asleep, 0);
    if (est_poll(is_next, w, w->group->commons.crowded, poll ? POLL_NS : 0)) return -1;
    est_mark_set(asleep, 1);
    behind = est_shared_behind(w); /* it may have been set just before */
    if (behind < 0) est_mark_set(asleep, 0);
    return behind;
}

/* Copies bytes into a slot; many of them bypass the caches, since the peer's cache still holds lines of an earlier
 * piece. An all-reduce of 16 MB takes 2 ms instead of 9 between cores that share no cache, and 2.2 instead of 1.4
 * between cores that do. */
static void copy_to_slot(uint8_t *to, const uint8_t *from, size_t bytes, bool many)
{
    if (many) {
        est_copy_across(to, from, bytes);
    } else if (bytes > 0) {
        memcpy(to, from, bytes);
    }
}

static void copy_in(const est_work *w, const est_collective *c, uint8_t *to)
{
    bool split = w->moves.shared.kind == EST_SHARED_SPLIT;
    int  n     = w->group->n;

    for (int i = 0; i < n; i++) {
        est_region segment = est_collective_segment(c, n, i);

        if (i == w->group->rank && split) continue; /* only this rank needs it; its sum goes there */
        copy_to_slot(to + (segment.data - c->data), segment.data, segment.bytes, split);
    }
}

static void copy_out(const est_work *w, const est_collective *c, uint64_t piece)
{
    const est_rank_group *g = w->group;

    for (int i = 0; i < g->n; i++) {
        est_region segment = est_collective_segment(c, g->n, i);

        if (i == g->rank || segment.bytes == 0) continue;
        memcpy(segment.data, slot(g, i, piece) + (segment.data - c->data), segment.bytes);
    }
}

/* Reduces a region of the piece over all ranks, in order; into the slot as well where others need the sum. */
static void reduce_region(const est_work *w, const est_collective *c, est_region region, uint64_t piece)
{
    const est_rank_group *g     = w->group;
    est_dtype             dtype = (est_dtype)w->head.dtype;
    size_t                first = (size_t)(region.data - c->data), bytes;
    _Alignas(64) uint8_t  block[BLOCK_BYTES];

    for (size_t at = 0; at < region.bytes; at += bytes) {
        uint8_t *data = region.data + at;

        bytes = region.bytes - at < BLOCK_BYTES ? region.bytes - at : BLOCK_BYTES;
        for (int i = 0; i < g->n; i++) {
            const uint8_t *from = i == g->rank ? data : slot(g, i, piece) + first + at;

            if (i == 0) {
                memcpy(block, from, bytes);
            } else {
                est_elements_add(block, from, bytes, dtype);
            }
        }
        if (c->mean) est_elements_divide(block, bytes, dtype, g->n);
        memcpy(data, block, bytes);
        if (w->moves.shared.kind == EST_SHARED_SPLIT)
            copy_to_slot(slot(g, g->rank, piece) + first + at, block, bytes, true);
    }
}

/* All ranks must be in the same operation. */
static est_status check_heads(const est_work *w)
{
    const est_rank_group *g = w->group;
    char                  name[EST_NET_NAME_MAX + 32];

    for (int i = 0; i < g->n; i++) {
        const est_block_head *other = &g->commons.ranks[i].heads[g->commons.pieces % EST_SLOTS];

        if (memcmp(other, &w->head, sizeof *other) == 0) continue;
        return est_fail(EST_FAILED_PRECONDITION,
                        "operation %" PRIu64 " is %s of %" PRIu64 " bytes here, and something else at %s; all ranks "
                        "must begin the same operations in the same order",
                        w->head.number, w->name, w->head.bytes, est_rank_name(g, i, name));
    }
    return EST_OK;
}

/* --- all-gather --------------------------------------------------------------------------------------------------- */

/* Piece `piece` of `bytes` bytes. */
static est_region part_of(uint8_t *data, size_t bytes, size_t piece)
{
    size_t begin = piece * EST_PIECE_BYTES, left = bytes > begin ? bytes - begin : 0;

    return (est_region){ left > 0 ? data + begin : NULL, left < EST_PIECE_BYTES ? left : EST_PIECE_BYTES };
}

static void gather_in(const est_work *w, size_t piece, uint8_t *to)
{
    const est_collective *c    = &w->moves.shared.what;
    est_region            part = part_of((uint8_t *)(uintptr_t)c->mine, c->count, piece);

    copy_to_slot(to, part.data, part.bytes, part.bytes > WHOLE_BYTES);
}

/* Copies the lengths of all ranks, once, so that no rank can change them afterwards, and allocates. */
static est_status learn_lengths(est_work *w)
{
    const est_rank_group *g = w->group;
    est_status            status;

    for (int i = 0; i < g->n; i++) {
        if (i != g->rank) w->lengths[i] = g->commons.ranks[i].lengths[g->commons.pieces % EST_SLOTS];
    }
    pthread_mutex_lock(&g->mailbox->lock); /* other threads look at the awaited rank */
    status = w->then(w);
    pthread_mutex_unlock(&g->mailbox->lock);
    return status;
}

static void gather_out(const est_work *w, size_t piece)
{
    const est_collective *c = &w->moves.shared.what;
    const est_rank_group *g = w->group;

    if (c->begins == NULL) return; /* all parts are empty */
    for (int i = 0; i < g->n; i++) {
        est_region     part = part_of(c->data + c->begins[i], c->begins[i + 1] - c->begins[i], piece);
        const uint8_t *from = slot(g, i, g->commons.pieces + piece);

        if (part.bytes == 0) continue;
        if (i == g->rank) from = c->mine + piece * EST_PIECE_BYTES;
        if (from != part.data) memcpy(part.data, from, part.bytes);
    }
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static void shared_in(const est_work *w, size_t piece, uint64_t number)
{
    const est_shared_part *p    = &w->moves.shared;
    const est_rank_group  *g    = w->group;
    est_shared_rank       *mine = &g->commons.ranks[g->rank];

    if (piece == 0) {
        mine->heads[number % EST_SLOTS] = w->head;
    }
    if (p->kind == EST_SHARED_GATHER) {
        if (piece == 0) mine->lengths[number % EST_SLOTS] = (int64_t)p->what.count;
        gather_in(w, piece, slot(g, g->rank, number));
    } else if (p->what.count > 0) {
        est_collective c = piece_of(w, piece);

        copy_in(w, &c, slot(g, g->rank, number));
    }
    est_mark_set(&mine->ready, number + 1);
}

static void shared_sum(const est_work *w, size_t piece, uint64_t number)
{
    const est_rank_group *g     = w->group;
    est_shared_rank      *mine  = &g->commons.ranks[g->rank];
    bool                  whole = w->moves.shared.kind == EST_SHARED_WHOLE;

    if (w->moves.shared.what.count > 0) { /* else a barrier, which has no memory */
        est_collective c   = piece_of(w, piece);
        est_region     all = { c.data, c.count * c.element };

        reduce_region(w, &c, whole ? all : est_collective_segment(&c, g->n, g->rank), number);
    }
    est_mark_set(whole ? &mine->done : &mine->summed, number + 1);
}

static void shared_out(const est_work *w, size_t piece, uint64_t number)
{
    if (w->moves.shared.kind == EST_SHARED_GATHER) {
        gather_out(w, piece);
    } else {
        est_collective c = piece_of(w, piece);

        copy_out(w, &c, number);
    }
    est_mark_set(&w->group->commons.ranks[w->group->rank].done, number + 1);
}

est_status est_shared_take(est_work *w)
{
    bool     gathers = w->moves.shared.kind == EST_SHARED_GATHER;
    int      phase;
    size_t   piece;
    uint64_t number;

    if (!next_phase(w, &phase, &piece)) return EST_OK;
    number = w->group->commons.pieces + piece;
    if (piece == 0 && phase == (gathers ? PHASE_OUT : PHASE_SUM)) {
        EST_TRY(check_heads(w));
        if (w->then != NULL) EST_TRY(learn_lengths(w));
    }
    if (phase == PHASE_IN) {
        shared_in(w, piece, number);
    } else if (phase == PHASE_SUM) {
        shared_sum(w, piece, number);
    } else {
        shared_out(w, piece, number);
    }
    return EST_OK;
}

const est_algorithm est_algorithm_shared = {
    .all_reduce = shared_all_reduce,
    .all_gather = shared_all_gather,
    .barrier    = shared_barrier,
};
