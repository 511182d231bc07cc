/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums and gatherings through memory that the ranks have in common, for groups on one host.
 *
 * The data is cut into pieces that fit the cache. Of each, a rank lays into its slot what the others add up (in), adds up its own
 * segment from the slots of all, in order of rank (sum), and takes the other segments from the slots of those who added them (out).
 * So everything is copied twice and crosses main memory once each way. Pieces overlap: while piece k comes in, k - 1
 * is added up and k - 2 goes out, so that nobody waits for a rank that is a little behind. What is small is one piece that every rank
 * adds up for itself, in the same order, which saves a round. To be gathered, a piece of every rank's part is laid into its slot
 * (in) and taken from the slots of all (out); the first is told how long each part is, and taken before the second is laid.
 *
 * Ranks tell each other how many pieces they have through, from the first operation of the group on, by three marks each:
 *   SM1  a slot is written to when all ranks are done with the piece that was there, EST_SLOTS before;
 *   SM2  a segment is added up when it is ready in all slots, and taken when it is summed; what is gathered, when it is ready;
 *   SM3  operations of a group go through one at a time, in their order.
 *
 * What others write there is compared, added and copied, never an address; a length is read once, and checked as one that came in a
 * block. So a rank gone wild spoils results, as it could with blocks, and nothing else.
 *
 * A rank that has to wait polls for a moment, if someone waits for the operation, and looks for less than a bell takes if nobody
 * does; then it says that it is asleep. Whoever sets a mark after that rings: a message over the link, which wakes it. Losing
 * a rank, deadlines and aborts go over the links, too. */
#include <inttypes.h>
#include <string.h>

#include "collective/work.h"

#define POLL_NS     100000     /* a few times what waking takes */
#define BLOCK_BYTES 4096       /* what is added up from all ranks before it leaves the first cache */
#define WHOLE_BYTES (16 << 10) /* few: up to that, every rank adds up everything */

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

static size_t pieces_of(size_t bytes)
{
    return (bytes + EST_PIECE_BYTES - 1) / EST_PIECE_BYTES;
}

static void shared_all_reduce(est_moves *s, const est_collective *c)
{
    size_t          bytes = c->count * c->element, n_pieces = pieces_of(bytes);
    bool            whole = bytes <= WHOLE_BYTES;
    est_shared_kind kind  = whole ? EST_SHARED_WHOLE : EST_SHARED_CUT;

    if (bytes == 0) return;
    s->shared  = (est_shared_part){ .used = true, .kind = kind, .what = *c, .n_pieces = n_pieces };
    s->n_steps = whole ? STAGE_SUM + 1 : N_STAGES * (int)(n_pieces + STAGE_OUT);
}

/* A piece of nothing. */
static void shared_barrier(est_moves *s)
{
    s->shared  = (est_shared_part){ .used = true, .kind = EST_SHARED_WHOLE, .what = { .element = 1 }, .n_pieces = 1 };
    s->n_steps = STAGE_SUM + 1;
}

/* Of the rank that has most; of one at least, since a rank may know no length but its own. */
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

/* Which stage of which piece comes next; false: none, at the begin and the end of the overlap. */
static bool next_stage(const est_work *w, int *stage, size_t *piece)
{
    const est_shared_part *p  = &w->moves.shared;
    size_t                 at = (size_t)w->at;

    if (p->kind == EST_SHARED_GATHER) { /* the first piece goes out at once, since it tells how many there are */
        *stage = at % 2 == 0 ? STAGE_IN : STAGE_OUT;
        *piece = at == 1 ? 0 : at / 2 - at % 2;
        return at != 3 && *piece < p->n_pieces;
    }
    *stage = w->at % N_STAGES;
    *piece = p->kind == EST_SHARED_WHOLE ? 0 : at / N_STAGES - (size_t)*stage;
    return p->kind == EST_SHARED_WHOLE || (at / N_STAGES >= (size_t)*stage && *piece < p->n_pieces);
}

static est_collective piece_of(const est_work *w, size_t piece)
{
    est_collective c    = w->moves.shared.what;
    size_t         each = EST_PIECE_BYTES / c.element, left = c.count - piece * each;

    c.data += piece * EST_PIECE_BYTES;
    c.count = left < each ? left : each;
    return c;
}

/* By which a rank says that it is ready for the stage (SM1, SM2). */
static const est_mark *mark_for(const est_shared_rank *rank, est_shared_kind kind, int stage)
{
    if (stage == STAGE_IN) return &rank->done;
    return stage == STAGE_OUT && kind == EST_SHARED_CUT ? &rank->summed : &rank->ready;
}

int est_shared_behind(const est_work *w)
{
    const est_rank_group *g = w->group;
    int                   stage;
    size_t                piece;
    uint64_t              needed;

    if (w->at == w->moves.n_steps || !next_stage(w, &stage, &piece)) return -1;
    needed = g->commons.pieces + piece + 1;
    if (stage == STAGE_IN) needed = needed > EST_SLOTS ? needed - EST_SLOTS : 0;
    for (int k = 1; k < g->n; k++) {
        int i = (g->rank + k) % g->n;

        if (est_mark_get(mark_for(&g->commons.ranks[i], w->moves.shared.kind, stage)) < needed) return i;
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
    behind = est_shared_behind(w); /* it may have come before we said so */
    if (behind < 0) est_mark_set(asleep, 0);
    return behind;
}

/* Lays bytes into a slot: past the caches where there are many, since the peer's still have the lines of a piece before. With cores
 * that share no cache a sum of 16 MB takes 2 ms so instead of 9, with cores that do 2.2 instead of 1.4; of few, half more. */
static void lay(uint8_t *to, const uint8_t *from, size_t bytes, bool many)
{
    if (many) {
        est_copy_across(to, from, bytes);
    } else if (bytes > 0) {
        memcpy(to, from, bytes);
    }
}

static void copy_in(const est_work *w, const est_collective *c, uint8_t *to)
{
    bool cut = w->moves.shared.kind == EST_SHARED_CUT;
    int  n   = w->group->n;

    for (int i = 0; i < n; i++) {
        est_region segment = est_collective_segment(c, n, i);

        if (i == w->group->rank && cut) continue; /* nobody else needs it; its sum will be there */
        lay(to + (segment.data - c->data), segment.data, segment.bytes, cut);
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
        if (w->moves.shared.kind == EST_SHARED_CUT) lay(slot(g, g->rank, piece) + first + at, block, bytes, true);
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

/* --- gathering --------------------------------------------------------------------------------------------------------- */

/* The part of piece `piece` of so many bytes. */
static est_region part_of(uint8_t *data, size_t bytes, size_t piece)
{
    size_t begin = piece * EST_PIECE_BYTES, left = bytes > begin ? bytes - begin : 0;

    return (est_region){ left > 0 ? data + begin : NULL, left < EST_PIECE_BYTES ? left : EST_PIECE_BYTES };
}

static void gather_in(const est_work *w, size_t piece, uint8_t *to)
{
    const est_collective *c    = &w->moves.shared.what;
    est_region            part = part_of((uint8_t *)(uintptr_t)c->mine, c->count, piece);

    lay(to, part.data, part.bytes, part.bytes > WHOLE_BYTES);
}

/* Takes over the lengths of all ranks, once, so that nobody can change them afterwards, and makes room. */
static est_status learn_lengths(est_work *w)
{
    const est_rank_group *g = w->group;
    est_status            status;

    for (int i = 0; i < g->n; i++) {
        if (i != g->rank) w->lengths[i] = g->commons.ranks[i].lengths[g->commons.pieces % EST_SLOTS];
    }
    pthread_mutex_lock(&g->mailbox->lock); /* others look whom it waits for */
    status = w->then(w);
    pthread_mutex_unlock(&g->mailbox->lock);
    return status;
}

static void gather_out(const est_work *w, size_t piece)
{
    const est_collective *c = &w->moves.shared.what;
    const est_rank_group *g = w->group;

    if (c->begins == NULL) return; /* nobody has anything */
    for (int i = 0; i < g->n; i++) {
        est_region     part = part_of(c->data + c->begins[i], c->begins[i + 1] - c->begins[i], piece);
        const uint8_t *from = slot(g, i, g->commons.pieces + piece);

        if (part.bytes == 0) continue;
        if (i == g->rank) from = c->mine + piece * EST_PIECE_BYTES;
        if (from != part.data) memcpy(part.data, from, part.bytes);
    }
}

/* --- taking steps ------------------------------------------------------------------------------------------------------- */

static void come_in(const est_work *w, size_t piece, uint64_t number)
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

static void sum(const est_work *w, size_t piece, uint64_t number)
{
    const est_rank_group *g     = w->group;
    est_shared_rank      *mine  = &g->commons.ranks[g->rank];
    bool                  whole = w->moves.shared.kind == EST_SHARED_WHOLE;

    if (w->moves.shared.what.count > 0) { /* else a barrier, which has no memory */
        est_collective c   = piece_of(w, piece);
        est_region     all = { c.data, c.count * c.element };

        add_up(w, &c, whole ? all : est_collective_segment(&c, g->n, g->rank), number);
    }
    est_mark_set(whole ? &mine->done : &mine->summed, number + 1);
}

static void go_out(const est_work *w, size_t piece, uint64_t number)
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
    int      stage;
    size_t   piece;
    uint64_t number;

    if (!next_stage(w, &stage, &piece)) return EST_OK;
    number = w->group->commons.pieces + piece;
    if (piece == 0 && stage == (gathers ? STAGE_OUT : STAGE_SUM)) {
        EST_TRY(check_heads(w));
        if (w->then != NULL) EST_TRY(learn_lengths(w));
    }
    if (stage == STAGE_IN) {
        come_in(w, piece, number);
    } else if (stage == STAGE_SUM) {
        sum(w, piece, number);
    } else {
        go_out(w, piece, number);
    }
    return EST_OK;
}

const est_algorithm est_algorithm_shared = {
    .all_reduce = shared_all_reduce,
    .all_gather = shared_all_gather,
    .barrier    = shared_barrier,
};
