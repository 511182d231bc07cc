/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of other ranks (joins, blocks, leaves, bells) and lost links. Everything here runs in the network thread. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collective/work.h"

est_status est_mailbox_create(est_mailbox **out)
{
    est_mailbox *mailbox = est_zalloc(sizeof *mailbox);
    est_status   status;

    if (mailbox == NULL) return est_no_memory();
    status = est_lock_init(&mailbox->lock);
    if (status == EST_OK) status = est_cond_init(&mailbox->freed);
    if (status != EST_OK) {
        est_free(mailbox);
        return status;
    }
    *out = mailbox;
    return EST_OK;
}

void est_mailbox_free(est_mailbox *mailbox)
{
    if (mailbox == NULL) return;
    pthread_mutex_lock(&mailbox->lock);
    est_parcels_drop(mailbox->joins, EST_CANCELLED, "the process ends");
    while (mailbox->n_groups > 0)
        pthread_cond_wait(&mailbox->freed, &mailbox->lock); /* their links are closed, so they end */
    pthread_mutex_unlock(&mailbox->lock);
    pthread_cond_destroy(&mailbox->freed);
    pthread_mutex_destroy(&mailbox->lock);
    est_free(mailbox);
}

void est_parcels_drop(est_parcel *first, est_status status, const char *why)
{
    while (first != NULL) {
        est_parcel *next = first->next;

        est_request_fail(first->request, status, why);
        est_free(first);
        first = next;
    }
}

/* The group and the rank that a link belongs to; NULL: none. */
static est_rank_group *find_peer(const est_mailbox *mailbox, const est_link *link, int *rank)
{
    for (est_rank_group *g = mailbox->groups; g != NULL; g = g->next_group) {
        for (int i = 0; i < g->n; i++) {
            if (g->peers[i].link == link) {
                *rank = i;
                return g;
            }
        }
    }
    return NULL;
}

/* --- joins -------------------------------------------------------------------------------------------------------- */

/* Why a rank may not join; EST_OK: it may. */
static est_status check_join(est_rank_group *g, const est_task_id *who, const est_join_head *head)
{
    const est_rank_peer *peer;
    char                 name[EST_NET_NAME_MAX + 32];

    if (g->failed) return est_group_raise(g);
    if (head->n != (uint32_t)g->n || head->list != g->list || head->rank >= head->n || (int)head->rank <= g->rank) {
        return est_fail(EST_FAILED_PRECONDITION, "%s has another list of ranks for generation %" PRIu64, who->task,
                        g->generation);
    }
    peer = &g->peers[head->rank];
    est_rank_name(g, (int)head->rank, name);
    if (strcmp(peer->task, who->task) != 0) return est_fail(EST_FAILED_PRECONDITION, "%s joins as %s", who->task, name);
    if ((peer->listed != 0 && peer->listed != who->incarnation) ||
        (g->complete && peer->incarnation != who->incarnation)) {
        return est_fail(EST_FAILED_PRECONDITION, "%s of generation %" PRIu64 " is another process of the task", name,
                        g->generation);
    }
    if (g->complete)
        return est_fail(EST_ALREADY_EXISTS, "%s has already joined generation %" PRIu64, name, g->generation);
    return EST_OK;
}

/* Admits or refuses a rank; the request is answered. */
static void admit(est_rank_group *g, est_request *request)
{
    est_link       *link   = est_request_link(request);
    est_join_answer answer = { .host = g->peers[g->rank].host, .memory = g->commons.name };
    est_join_head   head;
    est_rank_peer  *peer;
    est_status      status;
    size_t          size;

    memcpy(&head, est_message_head(est_request_message(request), &size), sizeof head);
    status = check_join(g, est_link_peer(link), &head);
    if (status != EST_OK) {
        est_request_fail(request, status, est_error_message());
        return;
    }
    peer = &g->peers[head.rank];
    if (peer->link != NULL) { /* it joined before, and its old link is not known to be lost yet */
        est_link_close(peer->link, "it has joined again");
        est_link_free(peer->link);
    }
    peer->incarnation = est_link_peer(link)->incarnation;
    peer->host        = head.host;
    peer->joined      = true;
    peer->link        = est_link_ref(link);
    est_request_answer(request, (est_payload){ .head = &answer, .head_size = sizeof answer });
    pthread_cond_broadcast(&g->changed);
}

void est_mailbox_add(est_mailbox *mailbox, est_rank_group *g)
{
    est_parcel **at = &mailbox->joins;

    g->next_group   = mailbox->groups;
    mailbox->groups = g;
    g->counted      = true;
    mailbox->n_groups++;
    if (g->generation <= mailbox->ended) est_group_end(g, mailbox->ended_why);
    while (*at != NULL) {
        est_parcel *parcel = *at;

        if (parcel->head.generation > g->generation) {
            at = &parcel->next;
            continue;
        }
        *at = parcel->next;
        if (parcel->head.generation < g->generation || est_link_is_lost(est_request_link(parcel->request))) {
            est_request_fail(parcel->request, EST_FAILED_PRECONDITION, "this rank is at a later generation");
        } else {
            admit(g, parcel->request);
        }
        est_free(parcel);
    }
}

static void on_join(est_mailbox *mailbox, est_request *request)
{
    est_join_head   head;
    est_parcel     *parcel;
    est_rank_group *g = mailbox->groups;
    size_t          size;
    const void     *bytes = est_message_head(est_request_message(request), &size);
    char            why[128];

    if (size != sizeof head) {
        est_request_fail(request, EST_INVALID_ARGUMENT, "not a join");
        return;
    }
    memcpy(&head, bytes, sizeof head);
    while (g != NULL && g->generation != head.generation) g = g->next_group;
    if (g != NULL) {
        admit(g, request);
        return;
    }
    if (head.generation <= mailbox->ended) {
        est_request_fail(request, EST_ABORTED, mailbox->ended_why);
        return;
    }
    if (head.generation <= mailbox->newest) {
        snprintf(why, sizeof why, "generation %" PRIu64 " is over; the newest is generation %" PRIu64, head.generation,
                 mailbox->newest);
        est_request_fail(request, EST_FAILED_PRECONDITION, why);
        return;
    }
    parcel = est_zalloc(sizeof *parcel);
    if (parcel == NULL) {
        est_request_fail(request, EST_RESOURCE_EXHAUSTED, "out of memory for a join");
        return;
    }
    parcel->request         = request;
    parcel->head.generation = head.generation;
    parcel->next            = mailbox->joins;
    mailbox->joins          = parcel;
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

static est_status open_block(est_request *request, int from, est_parcel *out)
{
    est_message   *message = est_request_message(request);
    size_t         size;
    const uint8_t *head = est_message_head(message, &size);

    if (size < sizeof out->head || est_message_parts(message) > 1) return est_fail(EST_DATA_LOSS, "not a block");
    memcpy(&out->head, head, sizeof out->head);
    out->request = request;
    out->from    = from;
    out->next    = NULL;
    out->data    = head + sizeof out->head;
    out->bytes   = size - sizeof out->head;
    if (est_message_parts(message) == 1) out->data = est_message_part(message, 0, &out->bytes);
    return EST_OK;
}

/* Keeps a block of a work that has not begun here. */
static void keep_early(est_rank_group *g, est_parcel *parcel)
{
    est_parcel **at = &g->early;

    while (*at != NULL) at = &(*at)->next;
    *at = parcel;
}

static void on_block(est_mailbox *mailbox, est_request *request)
{
    int             from;
    est_rank_group *g      = find_peer(mailbox, est_request_link(request), &from);
    est_parcel     *parcel = NULL;
    est_work       *w;
    char            why[EST_WHY_BYTES], name[EST_NET_NAME_MAX + 32];
    est_status      status = EST_OK;

    if (g == NULL) { /* the link is about to be closed, with the reason */
        est_link_close(est_request_link(request), "its group has ended here");
        est_request_fail(request, EST_CANCELLED, "");
        return;
    }
    if (g->failed) {
        est_request_fail(request, EST_ABORTED, g->why);
        return;
    }
    parcel = est_alloc(sizeof *parcel);
    if (parcel == NULL) status = est_no_memory();
    if (status == EST_OK) status = open_block(request, from, parcel);
    if (status != EST_OK) { /* skipping a block would shift the next one into its place */
        est_free(parcel);
        snprintf(why, sizeof why, "%s: %.200s", est_rank_name(g, g->rank, name), est_error_message());
        est_request_fail(request, status, why);
        est_group_fail(g, why);
        return;
    }
    if (parcel->head.number >= g->next) {
        keep_early(g, parcel);
        return;
    }
    for (w = g->works; w != NULL; w = w->next) {
        if (w->head.number == parcel->head.number) {
            est_work_deliver(w, parcel);
            return;
        }
    }
    snprintf(why, sizeof why, "%s sent an unexpected block for operation %" PRIu64, est_rank_name(g, from, name),
             parcel->head.number);
    est_parcels_drop(parcel, EST_FAILED_PRECONDITION, why);
    est_group_fail(g, why);
}

/* --- leaves and bells --------------------------------------------------------------------------------------------- */

static void on_leave(est_mailbox *mailbox, est_request *request)
{
    int             from;
    est_rank_group *g = find_peer(mailbox, est_request_link(request), &from);

    est_request_answer(request, (est_payload){ 0 });
    if (g == NULL) return;
    g->peers[from].left = true;
    for (est_work *w = g->works, *next; w != NULL; w = next) {
        next = w->next;
        est_work_peer_left(w);
        if (g->failed) break; /* which has finished all works */
    }
}

static void on_bell(est_mailbox *mailbox, est_request *request)
{
    int             from;
    est_rank_group *g = find_peer(mailbox, est_request_link(request), &from);

    est_request_answer(request, (est_payload){ 0 });
    if (g != NULL) est_group_wake(g);
}

bool est_mailbox_serve(est_mailbox *mailbox, est_request *request)
{
    int method = est_request_method(request);

    if (method < EST_GROUP_JOIN || method > EST_GROUP_BELL) return false;
    pthread_mutex_lock(&mailbox->lock);
    if (method == EST_GROUP_JOIN) {
        on_join(mailbox, request);
    } else if (method == EST_GROUP_BLOCK) {
        on_block(mailbox, request);
    } else if (method == EST_GROUP_LEAVE) {
        on_leave(mailbox, request);
    } else {
        on_bell(mailbox, request);
    }
    pthread_mutex_unlock(&mailbox->lock);
    return true;
}

void est_mailbox_lost(est_mailbox *mailbox, est_link *link, const char *why)
{
    int             rank;
    est_rank_group *g;

    pthread_mutex_lock(&mailbox->lock);
    g = find_peer(mailbox, link, &rank);
    if (g != NULL && !g->peers[rank].left) est_group_lose(g, rank, why);
    pthread_mutex_unlock(&mailbox->lock);
}

void est_mailbox_end(est_mailbox *mailbox, uint64_t generation, const char *reason)
{
    pthread_mutex_lock(&mailbox->lock);
    if (generation > mailbox->ended) {
        mailbox->ended = generation;
        snprintf(mailbox->ended_why, sizeof mailbox->ended_why, "%s", reason);
    }
    for (est_rank_group *g = mailbox->groups; g != NULL; g = g->next_group) {
        if (g->generation <= generation) est_group_end(g, reason);
    }
    pthread_mutex_unlock(&mailbox->lock);
}
