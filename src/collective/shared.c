/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums through memory that the ranks have in common, for groups on one host.
 *
 * The data is cut into pieces that fit the cache. Of each, a rank lays into its slot what the others add up (in), adds up its own
 * segment from the slots of all, in order of rank (sum), and takes the other segments from the slots of those who added them (out).
 * So everything is copied twice and crosses main memory once each way. Pieces overlap: while piece k comes in, k - 1
 * is added up and k - 2 goes out, so that nobody waits for a rank that is a little behind. What is small is one piece that every rank
 * adds up for itself, in the same order, which saves a round.
 *
 * Ranks tell each other how many pieces they have through, from the first operation of the group on, by three marks each:
 *   S1  a slot is written to when all ranks are done with the piece that was there, EST_SLOTS before;
 *   S2  a segment is added up when it is ready in all slots, and taken when it is summed;
 *   S3  operations of a group go through one at a time, in their order.
 *
 * What others write there is compared, added and copied, never an address or a length: a rank gone wild spoils sums, as it could
 * with blocks, and nothing else.
 *
 * A rank that has to wait polls for a moment, if someone waits for the operation; then it says that it is asleep. Whoever sets a mark
 * after that rings: a message over the link, which wakes it. Losing a rank, deadlines and aborts go over the links, too. */
#include <inttypes.h>
#include <string.h>

#include "collective/work.h"

#define POLL_NS     100000     /* a few times what waking takes */
#define BLOCK_BYTES 4096       /* what is added up from all ranks before it leaves the first cache */
#define WHOLE_BYTES (16 << 10) /* up to that, every rank adds up everything */

enum { STAGE_IN, STAGE_SUM, STAGE_OUT, N_STAGES };

/* --- the memory of a group --------------------------------------------------------------------------------------------- */

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

/* --- the stages of a work ---------------------------------------------------------------------------------------------- */

static void shared_all_reduce(est_moves *s, const est_collective *c)
{
    size_t bytes = c->count * c->element, n_pieces = (bytes + EST_PIECE_BYTES - 1) / EST_PIECE_BYTES;
    bool   whole = bytes <= WHOLE_BYTES;

    if (bytes == 0) return;
    s->shared  = (est_shared_part){ .used = true, .whole = whole, .what = *c, .n_pieces = n_pieces };
    s->n_steps = whole ? STAGE_SUM + 1 : N_STAGES * (int)(n_pieces + STAGE_OUT);
}

/* A piece of nothing. */
static void shared_barrier(est_moves *s)
{
    s->shared  = (est_shared_part){ .used = true, .whole = true, .what = { .element = 1 }, .n_pieces = 1 };
    s->n_steps = STAGE_SUM + 1;
}

/* Which stage of which piece comes next; false: none, at the begin and the end of the overlap. */
static bool next_stage(const est_work *w, int *stage, size_t *piece)
{
    size_t round = (size_t)(w->at / N_STAGES);

    *stage = w->at % N_STAGES;
    *piece = w->moves.shared.whole ? 0 : round - (size_t)*stage;
    return w->moves.shared.whole || (round >= (size_t)*stage && *piece < w->moves.shared.n_pieces);
}

static est_collective piece_of(const est_work *w, size_t piece)
{
    est_collective c    = w->moves.shared.what;
    size_t         each = EST_PIECE_BYTES / c.element, left = c.count - piece * each;

    c.data += piece * EST_PIECE_BYTES;
    c.count = left < each ? left : each;
    return c;
}

int est_shared_behind(const est_work *w)
{
    const est_rank_group *g = w->group;
    int                   stage;
    size_t                piece;
    uint64_t              needed;

    if (w->at == w->moves.n_steps || !next_stage(w, &stage, &piece)) return -1;
    needed = w->moves.shared.first + piece + 1;
    if (stage == STAGE_IN) needed = needed > EST_SLOTS ? needed - EST_SLOTS : 0;
    for (int k = 1; k < g->n; k++) {
        int                    i    = (g->rank + k) % g->n;
        const est_shared_rank *rank = &g->commons.ranks[i];
        const est_mark *mark = stage == STAGE_IN ? &rank->done : stage == STAGE_SUM ? &rank->ready : &rank->summed;

        if (est_mark_get(mark) < needed) return i;
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
    if (is_next(w)) return -1;
    if (poll && est_poll(is_next, w, w->group->commons.crowded, POLL_NS)) return -1;
    est_mark_set(asleep, 1);
    behind = est_shared_behind(w); /* it may have come before we said so */
    if (behind < 0) est_mark_set(asleep, 0);
    return behind;
}

static void copy_in(const est_work *w, const est_collective *c, uint8_t *to)
{
    int n = w->group->n;

    for (int i = 0; i < n; i++) {
        est_region segment = est_collective_segment(c, n, i);

        if (i == w->group->rank && !w->moves.shared.whole) continue; /* nobody else needs it; its sum will be there */
        if (segment.bytes > 0) memcpy(to + (segment.data - c->data), segment.data, segment.bytes);
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

/* Adds up a region of the piece from all ranks, in order; where others want the sum, it goes to the slot as well. */
static void add_up(const est_work *w, const est_collective *c, est_region region, uint64_t piece)
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
        if (!w->moves.shared.whole) memcpy(slot(g, g->rank, piece) + first + at, block, bytes);
    }
}

/* All ranks must be in the same operation. */
static est_status check_heads(const est_work *w)
{
    const est_rank_group *g = w->group;
    char                  name[EST_NET_NAME_MAX + 32];

    for (int i = 0; i < g->n; i++) {
        const est_block_head *other = &g->commons.ranks[i].heads[w->moves.shared.first % EST_SLOTS];

        if (memcmp(other, &w->head, sizeof *other) == 0) continue;
        return est_fail(EST_FAILED_PRECONDITION,
                        "operation %" PRIu64 " is %s of %" PRIu64 " bytes here, and something else at %s; all ranks "
                        "must begin the same operations in the same order",
                        w->head.number, w->name, w->head.bytes, est_peer_name(g, i, name));
    }
    return EST_OK;
}

est_status est_shared_take(est_work *w)
{
    est_shared_rank *mine  = &w->group->commons.ranks[w->group->rank];
    bool             empty = w->moves.shared.what.count == 0; /* a barrier, which has no memory */
    est_collective   c     = w->moves.shared.what;
    int              stage;
    size_t           piece;
    uint64_t         number;

    if (!next_stage(w, &stage, &piece)) return EST_OK;
    number = w->moves.shared.first + piece;
    if (!empty) c = piece_of(w, piece);
    if (stage == STAGE_IN) {
        if (piece == 0) mine->heads[number % EST_SLOTS] = w->head;
        if (!empty) copy_in(w, &c, slot(w->group, w->group->rank, number));
        est_mark_set(&mine->ready, number + 1);
    } else if (stage == STAGE_SUM) {
        est_region whole = { c.data, c.count * c.element };

        if (piece == 0) EST_TRY(check_heads(w));
        if (!empty)
            add_up(w, &c, w->moves.shared.whole ? whole : est_collective_segment(&c, w->group->n, w->group->rank),
                   number);
        est_mark_set(w->moves.shared.whole ? &mine->done : &mine->summed, number + 1);
    } else {
        copy_out(w, &c, number);
        est_mark_set(&mine->done, number + 1);
    }
    return EST_OK;
}

const est_algorithm est_algorithm_shared = {
    .all_reduce = shared_all_reduce,
    .barrier    = shared_barrier,
};
