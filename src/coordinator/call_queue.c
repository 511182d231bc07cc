/* SPDX-License-Identifier: Apache-2.0
 *
 * Queued calls, first in, first out; a call that came back from its worker comes before all that were never handed
 * out. And which calls have completed: bits in a ring, since they complete in any order. */
#include "coordinator/coordinator.h"

#include <string.h>

#include "base/alloc.h"

#define WORD_BITS 64

est_status est_call_queue_init(est_call_queue *q)
{
    *q          = (est_call_queue){ .oldest = 1 };
    q->finished = est_zalloc(EST_CALL_WINDOW / 8);
    return q->finished != NULL ? EST_OK : est_no_memory();
}

static void free_struct(est_scheduled *call)
{
    est_packing_clear(&call->packing);
    est_free(call);
}

void est_call_queue_clear(est_call_queue *q)
{
    while (q->spare != NULL) {
        est_scheduled *call = q->spare;

        q->spare = call->next;
        free_struct(call);
    }
    est_free(q->finished);
    *q = (est_call_queue){ 0 };
}

/* --- structs ------------------------------------------------------------------------------------------------------ */

est_scheduled *est_call_queue_new(est_call_queue *q, int n_feeds)
{
    est_scheduled *call    = q->spare;
    est_packing    packing = { 0 };
    int            max     = n_feeds;

    if (call != NULL && call->max_feeds >= n_feeds) {
        q->spare = call->next;
        q->n_spare--;
        max     = call->max_feeds;
        packing = call->packing;
    } else {
        call = est_alloc(sizeof *call + sizeof call->feeds[0] * (size_t)n_feeds);
        if (call == NULL) return NULL;
    }
    memset(call, 0, sizeof *call + sizeof call->feeds[0] * (size_t)n_feeds);
    call->packing   = packing;
    call->n_feeds   = n_feeds;
    call->max_feeds = max;
    return call;
}

void est_call_queue_recycle(est_call_queue *q, est_scheduled *call)
{
    if (q->n_spare >= EST_SPARE_CALLS_MAX) {
        free_struct(call);
        return;
    }
    est_packing_reset(&call->packing);
    call->next = q->spare;
    q->spare   = call;
    q->n_spare++;
}

/* --- the queue ---------------------------------------------------------------------------------------------------- */

void est_call_queue_append(est_call_queue *q, est_scheduled *call)
{
    call->next = NULL;
    if (q->last != NULL) {
        q->last->next = call;
    } else {
        q->first = call;
    }
    q->last = call;
    q->n++;
}

/* Few calls are before it: those that were under way. */
void est_call_queue_return(est_call_queue *q, est_scheduled *call)
{
    est_scheduled **at = &q->first;

    while (*at != NULL && (*at)->number != 0 && (*at)->number < call->number) at = &(*at)->next;
    call->next = *at;
    *at        = call;
    if (call->next == NULL) q->last = call;
    q->n++;
}

bool est_call_queue_has_returned(const est_call_queue *q)
{
    return q->first != NULL && q->first->number != 0;
}

est_scheduled *est_call_queue_drop(est_call_queue *q)
{
    est_scheduled *call = q->first;

    if (call == NULL) return NULL;
    q->first = call->next;
    if (q->first == NULL) q->last = NULL;
    q->n--;
    return call;
}

est_scheduled *est_call_queue_take(est_call_queue *q)
{
    if (q->first == NULL) return NULL;
    if (q->first->number == 0) {
        if (q->given + 1 - q->oldest >= EST_CALL_WINDOW) return NULL;
        q->first->number = ++q->given;
    }
    return est_call_queue_drop(q);
}

/* --- what has completed ------------------------------------------------------------------------------------------- */

static uint64_t *word_of(const est_call_queue *q, uint64_t number)
{
    return &q->finished[number % EST_CALL_WINDOW / WORD_BITS];
}

void est_call_queue_finish(est_call_queue *q, uint64_t number)
{
    *word_of(q, number) |= UINT64_C(1) << number % WORD_BITS;
    while (q->oldest <= q->given && (*word_of(q, q->oldest) & UINT64_C(1) << q->oldest % WORD_BITS) != 0) {
        *word_of(q, q->oldest) &= ~(UINT64_C(1) << q->oldest % WORD_BITS);
        q->oldest++;
    }
}
