/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: creating, joining, ending. */
#include "collective/group.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "base/strbuf.h"
#include "cluster/wait_table.h"
#include "collective/work.h"

#define JOIN_SECS     600.0
#define DEADLINE_SECS 600.0
#define TRY_SECS      0.5 /* to connect to a rank before the next is tried; doubled every round, up to */
#define TRY_SECS_MAX  8.0
#define LEAVE_NS      (5 * EST_NS_PER_SEC)

int est_group_ranks(const est_rank_group *group)
{
    return group->n;
}

int est_group_rank(const est_rank_group *group)
{
    return group->rank;
}

est_topology est_group_topology(const est_rank_group *group)
{
    return group->topology;
}

uint64_t est_group_operations(est_rank_group *group)
{
    uint64_t n;

    pthread_mutex_lock(&group->mailbox->lock);
    n = group->next - 1;
    pthread_mutex_unlock(&group->mailbox->lock);
    return n;
}

const char *est_rank_name(const est_rank_group *group, int rank, char out[EST_NET_NAME_MAX + 32])
{
    snprintf(out, EST_NET_NAME_MAX + 32, "rank %d (%s)", rank, group->peers[rank].task);
    return out;
}

/* --- ending ------------------------------------------------------------------------------------------------------- */

est_status est_group_raise(const est_rank_group *group)
{
    return est_fail(EST_ABORTED, "%s", group->why);
}

est_status est_group_status(est_rank_group *group)
{
    est_status status;

    pthread_mutex_lock(&group->mailbox->lock);
    status = group->failed ? est_group_raise(group) : EST_OK;
    pthread_mutex_unlock(&group->mailbox->lock);
    return status;
}

est_status est_group_all_here(est_rank_group *group)
{
    est_status status = est_group_status(group);
    char       name[EST_NET_NAME_MAX + 32];

    pthread_mutex_lock(&group->mailbox->lock);
    for (int i = 0; i < group->n && status == EST_OK; i++) {
        if (group->peers[i].left) status = est_fail(EST_ABORTED, "%s has left", est_rank_name(group, i, name));
    }
    pthread_mutex_unlock(&group->mailbox->lock);
    return status;
}

bool est_group_is_whole(est_rank_group *group)
{
    bool whole;

    pthread_mutex_lock(&group->mailbox->lock);
    whole = !group->failed;
    for (int i = 0; i < group->n; i++) whole = whole && !group->peers[i].left;
    pthread_mutex_unlock(&group->mailbox->lock);
    return whole;
}

void est_group_fail(est_rank_group *group, const char *why)
{
    est_parcel *early = group->early;

    if (group->failed) return;
    group->failed = true;
    group->early  = NULL;
    snprintf(group->why, sizeof group->why, "%s", why);
    for (int i = 0; i < group->n; i++) {
        if (group->peers[i].link != NULL) est_link_close(group->peers[i].link, group->why);
    }
    est_parcels_drop(early, EST_ABORTED, group->why);
    for (est_work *w = group->works, *next; w != NULL; w = next) {
        next = w->next;
        est_work_abort(w);
    }
    pthread_cond_broadcast(&group->changed);
}

void est_group_lose(est_rank_group *group, int rank, const char *why)
{
    /* A rank whose group has failed closes its links with a reason that names the rank at fault. */
    const char    *cause = strstr(why, ": rank ");
    est_rank_peer *peer  = &group->peers[rank];
    char           text[EST_WHY_BYTES], name[EST_NET_NAME_MAX + 32];

    if (cause == NULL && !group->complete && !group->failed) { /* it may connect again while the group forms */
        est_link_free(peer->link);
        peer->link        = NULL;
        peer->joined      = false;
        peer->incarnation = peer->listed;
        pthread_cond_broadcast(&group->changed);
        return;
    }
    if (cause != NULL) {
        snprintf(text, sizeof text, "%.380s", cause + 2);
    } else {
        snprintf(text, sizeof text, "%s was lost: %.280s", est_rank_name(group, rank, name), why);
    }
    est_group_fail(group, text);
}

void est_group_end(est_rank_group *group, const char *reason)
{
    char why[EST_WHY_BYTES], name[EST_NET_NAME_MAX + 32];

    snprintf(why, sizeof why, "%s aborted: %.280s", est_rank_name(group, group->rank, name), reason);
    est_group_fail(group, why);
}

void est_group_abort(est_rank_group *group, const char *reason)
{
    pthread_mutex_lock(&group->mailbox->lock);
    est_group_end(group, reason);
    pthread_mutex_unlock(&group->mailbox->lock);
}

est_status est_group_give_up(est_rank_group *group, est_status status)
{
    est_error error;

    est_error_take(status, &error);
    est_group_abort(group, error.message);
    return est_error_raise(&error);
}

void est_group_ref(est_rank_group *group)
{
    group->refs++;
}

void est_group_unref(est_rank_group *group)
{
    if (--group->refs > 0) return;
    if (group->counted) {
        group->mailbox->n_groups--;
        pthread_cond_broadcast(&group->mailbox->freed);
    }
    for (int i = 0; i < group->n; i++) {
        est_link_free(group->peers[i].link);
        est_free(group->peers[i].address);
    }
    pthread_cond_destroy(&group->changed);
    est_shared_memory_close(&group->commons.memory);
    est_free(group->hosts.leaders);
    est_free(group->hosts.leader_of);
    est_free(group->peers);
    est_free(group);
}

/* Waits for a change until `until_ns` at most; false: it is past. */
static bool wait_until(est_rank_group *group, int64_t until_ns)
{
    int64_t left = until_ns - est_machine_ns();

    if (left <= 0) return false;
    est_cond_wait_ns(&group->changed, &group->mailbox->lock, left);
    return true;
}

/* A message was received, or never will be. */
static void on_told(void *user, est_status status, const char *error, est_message *answer)
{
    est_rank_group *group   = user;
    est_mailbox    *mailbox = group->mailbox;

    (void)answer; /* a rank that is lost needs no message */
    pthread_mutex_lock(&mailbox->lock);
    group->n_asks--;
    if (status == EST_RESOURCE_EXHAUSTED) est_group_end(group, error); /* a rank that is present has not got it */
    pthread_cond_broadcast(&group->changed);
    est_group_unref(group);
    pthread_mutex_unlock(&mailbox->lock);
}

void est_group_tell(est_rank_group *group, int rank, uint16_t method, const char *what)
{
    est_status status;

    group->n_asks++;
    est_group_ref(group);
    status = est_link_ask(group->peers[rank].link, method, what, (est_payload){ 0 }, EST_FOREVER, on_told, group, NULL);
    if (status == EST_OK) return;
    group->n_asks--;
    group->refs--;
    if (status != EST_UNAVAILABLE && status != EST_CANCELLED) est_group_end(group, est_error_message());
}

/* Takes the group out of the mailbox and its links down. */
static void remove_group(est_rank_group *group)
{
    est_rank_group **at = &group->mailbox->groups;

    est_group_fail(group, "it has left"); /* the text of a normal leave (cluster/server.h) */
    while (*at != group) at = &(*at)->next_group;
    *at = group->next_group;
    est_group_unref(group);
}

void est_group_free(est_rank_group *group)
{
    est_mailbox *mailbox = group != NULL ? group->mailbox : NULL;
    int64_t      until   = est_machine_ns() + LEAVE_NS;

    if (group == NULL) return;
    pthread_mutex_lock(&mailbox->lock);
    while (group->n_asks > 0 && !group->failed && wait_until(group, until)) continue;
    for (int i = 0; i < group->n && !group->failed; i++) {
        if (i != group->rank && !group->peers[i].left) est_group_tell(group, i, EST_GROUP_LEAVE, "a leave");
    }
    while (group->n_asks > 0 && !group->failed && wait_until(group, until)) continue;
    remove_group(group);
    pthread_mutex_unlock(&mailbox->lock);
}

/* --- creating ----------------------------------------------------------------------------------------------------- */

static est_status check_options(const est_group_options *o)
{
    if (o->n < 1 || o->rank < 0 || o->rank >= o->n)
        return est_fail(EST_INVALID_ARGUMENT, "rank %d of a group of %d", o->rank, o->n);
    if (o->generation == 0) return est_fail(EST_INVALID_ARGUMENT, "generations are counted from 1");
    if (o->communication == EST_COMMUNICATION_NCCL) {
        return est_fail(EST_UNIMPLEMENTED,
                        "communication by nccl is between GPUs of workers, not within a group; use auto or ring");
    }
    for (int i = 0; i < o->n; i++) {
        if (strlen(o->ranks[i].task) >= EST_NET_NAME_MAX)
            return est_fail(EST_INVALID_ARGUMENT, "the name of rank %d is too long: %s", i, o->ranks[i].task);
    }
    return EST_OK;
}

/* This machine, whatever container the process is in: the kernel draws a random id at boot. */
static uint64_t find_host(void)
{
    char     name[256] = "";
    char    *boot;
    size_t   size;
    uint64_t host;

    if (est_file_read("/proc/sys/kernel/random/boot_id", &boot, &size) == EST_OK) {
        host = est_fingerprint64(boot, size);
        est_free(boot);
        return host;
    }
    (void)gethostname(name, sizeof name - 1);
    return est_fingerprint64(name, strlen(name));
}

static est_status make_group(est_mailbox *mailbox, est_net *net, const est_group_options *o, est_rank_group **out)
{
    est_rank_group *g = est_zalloc(sizeof *g);

    if (g != NULL) {
        g->peers           = est_zalloc((size_t)o->n * sizeof *g->peers);
        g->hosts.leaders   = est_zalloc((size_t)o->n * sizeof(int));
        g->hosts.leader_of = est_zalloc((size_t)o->n * sizeof(int));
    }
    if (g == NULL || g->peers == NULL || g->hosts.leaders == NULL || g->hosts.leader_of == NULL ||
        est_cond_init(&g->changed) != EST_OK) {
        if (g != NULL) {
            est_free(g->hosts.leaders);
            est_free(g->hosts.leader_of);
            est_free(g->peers);
        }
        est_free(g);
        return est_no_memory();
    }
    g->mailbox       = mailbox;
    g->net           = net;
    g->generation    = o->generation;
    g->n             = o->n;
    g->rank          = o->rank;
    g->refs          = 1;
    g->deadline_secs = o->deadline_secs != 0 ? o->deadline_secs : DEADLINE_SECS;
    g->communication = o->communication;
    for (int i = 0; i < o->n; i++) {
        est_rank_peer *peer = &g->peers[i];

        *peer             = (est_rank_peer){ .group = g, .listed = o->ranks[i].incarnation, .joined = i == o->rank };
        peer->incarnation = peer->listed;
        snprintf(peer->task, sizeof peer->task, "%s", o->ranks[i].task);
        peer->address = est_strdup(o->ranks[i].address);
        if (peer->address == NULL) {
            est_group_unref(g);
            return est_no_memory();
        }
        g->list = est_fingerprint_cat64(g->list, est_fingerprint64(peer->task, strlen(peer->task)));
    }
    g->peers[g->rank].host = o->host != NULL ? est_fingerprint64(o->host, strlen(o->host)) : find_host();
    if (g->rank == 0 && g->n > 1) est_commons_create(g);
    *out = g;
    return EST_OK;
}

/* A lower rank has answered our join. */
static void on_joined(void *user, est_status status, const char *error, est_message *answer)
{
    est_rank_peer  *peer    = user;
    est_rank_group *group   = peer->group;
    est_mailbox    *mailbox = group->mailbox;
    est_join_answer head    = { 0 };
    size_t          size;

    if (status == EST_OK) {
        const void *bytes = est_message_head(answer, &size);

        if (size == sizeof head) {
            memcpy(&head, bytes, sizeof head);
        } else {
            status = EST_DATA_LOSS;
            error  = "malformed answer to a join";
        }
    }
    pthread_mutex_lock(&mailbox->lock);
    if (status == EST_OK) {
        peer->host   = head.host;
        peer->joined = true;
        if (peer == &group->peers[0]) group->commons.name = head.memory;
    } else if (status != EST_UNAVAILABLE && !group->failed) { /* a lost link goes to est_group_lose */
        group->failure = status;
        est_group_fail(group, error);
    }
    pthread_cond_broadcast(&group->changed);
    est_group_unref(group);
    pthread_mutex_unlock(&mailbox->lock);
}

/* Connects to a rank and sends a join; nothing if the rank cannot be reached yet. */
static est_status connect_rank(est_rank_group *g, int rank, double secs)
{
    est_rank_peer *peer = &g->peers[rank];
    est_join_head  head = { .generation = g->generation,
                            .list       = g->list,
                            .host       = g->peers[g->rank].host,
                            .rank       = (uint32_t)g->rank,
                            .n          = (uint32_t)g->n };
    est_link      *link = NULL;
    char           name[EST_NET_NAME_MAX + 32];
    est_status     status = est_net_connect(g->net, peer->address, peer->task, secs, &link);

    if (status == EST_UNAVAILABLE) return EST_OK;
    est_rank_name(g, rank, name);
    if (status != EST_OK) return est_fail_context(status, "%s", name);
    pthread_mutex_lock(&g->mailbox->lock);
    if (peer->listed != 0 && peer->listed != est_link_peer(link)->incarnation) {
        status = est_fail(EST_FAILED_PRECONDITION, "%s of generation %" PRIu64 " is another process of the task", name,
                          g->generation);
    } else {
        peer->incarnation = est_link_peer(link)->incarnation;
        peer->link        = est_link_ref(link);
        est_group_ref(g);
        status = est_link_ask(link, EST_GROUP_JOIN, "a join", (est_payload){ .head = &head, .head_size = sizeof head },
                              EST_FOREVER, on_joined, peer, NULL);
        if (status != EST_OK) {
            g->refs--;
            est_link_free(peer->link);
            peer->link        = NULL;
            peer->incarnation = peer->listed;
        }
        if (status == EST_UNAVAILABLE) status = EST_OK; /* it was lost since */
    }
    pthread_mutex_unlock(&g->mailbox->lock);
    est_link_free(link);
    return status;
}

/* Names the missing ranks. The lock is held. */
static est_status fail_missing(const est_rank_group *g, double secs)
{
    est_strbuf text = { 0 };
    est_status status;
    char       name[EST_NET_NAME_MAX + 32];

    for (int i = 0; i < g->n; i++) {
        if (g->peers[i].joined) continue;
        est_strbuf_printf(&text, "%s%s at %s", est_strbuf_text(&text)[0] != '\0' ? ", " : "", est_rank_name(g, i, name),
                          g->peers[i].address);
    }
    status = est_fail(EST_DEADLINE_EXCEEDED, "generation %" PRIu64 " is not complete after %g s; missing: %s",
                      g->generation, secs, est_strbuf_text(&text));
    est_strbuf_clear(&text);
    return status;
}

/* The first rank that has not joined; -1: all have. */
static int find_missing(const est_rank_group *g)
{
    for (int i = 0; i < g->n; i++) {
        if (!g->peers[i].joined) return i;
    }
    return -1;
}

/* Waits for a join, at most a second so that the log can be written; shown in the status view. */
static void wait_for(est_rank_group *g, int rank, int64_t until_ns)
{
    int64_t     slice_ns = est_machine_ns() + EST_NS_PER_SEC;
    char        why[64];
    est_waiting wait;

    snprintf(why, sizeof why, "to join generation %" PRIu64, g->generation);
    wait = est_wait_begin(g->peers[g->rank].task, g->peers[rank].task, why, INFINITY);
    wait_until(g, until_ns < slice_ns ? until_ns : slice_ns);
    est_wait_end(&wait);
}

/* Logs, without the lock, that the group is not complete. The caller checks again: the last rank may have joined
 * since. */
static void report_missing(est_rank_group *g, est_waiting *w)
{
    char why[64], name[EST_NET_NAME_MAX + 32];

    snprintf(why, sizeof why, "to join generation %" PRIu64, g->generation);
    w->for_whom = est_rank_name(g, find_missing(g), name);
    w->why      = why;
    pthread_mutex_unlock(&g->mailbox->lock);
    est_wait_report(w, "");
    pthread_mutex_lock(&g->mailbox->lock);
}

/* A lower rank without a link, from `first` on; -1: none. */
static int find_unconnected(const est_rank_group *g, int first)
{
    for (int k = 0; k < g->rank; k++) {
        int i = (first + k) % g->rank;

        if (g->peers[i].link == NULL) return i;
    }
    return -1;
}

/* Connects to the lower ranks in turns, so that a missing one does not delay the others, and waits for the higher ones.
 * The lock is held, and released while connecting. */
static est_status await_ranks(est_rank_group *g, double secs)
{
    int64_t     until    = est_machine_ns() + est_secs_to_ns(secs);
    double      try_secs = TRY_SECS;
    int         next     = 0;
    est_waiting wait     = est_wait_make(g->peers[g->rank].task, "", "", secs);
    est_status  status   = EST_OK;

    while (status == EST_OK && !g->failed && find_missing(g) >= 0) {
        int    rank = find_unconnected(g, next);
        double left = (double)(until - est_machine_ns()) / 1e9;

        if (left <= 0) {
            status = fail_missing(g, secs);
        } else if (est_wait_is_due(&wait)) {
            report_missing(g, &wait);
        } else if (rank < 0) {
            wait_for(g, find_missing(g), until);
        } else {
            pthread_mutex_unlock(&g->mailbox->lock);
            status = connect_rank(g, rank, left < try_secs ? left : try_secs);
            pthread_mutex_lock(&g->mailbox->lock);
            if (rank < next && try_secs < TRY_SECS_MAX) try_secs *= 2; /* a round is complete */
            next = rank + 1;
        }
    }
    if (status == EST_OK && g->failed) status = est_fail(g->failure != EST_OK ? g->failure : EST_ABORTED, "%s", g->why);
    return status;
}

/* Which ranks share a host; all have sent theirs. */
static void find_hosts(est_rank_group *g)
{
    est_hosts *h = &g->hosts;

    for (int i = 0; i < g->n; i++) {
        int first = 0;

        while (g->peers[first].host != g->peers[i].host) first++;
        h->leader_of[i] = first;
        if (first == i) h->leaders[h->n++] = i;
    }
    g->topology = h->n == 1 || h->n == g->n ? EST_TOPOLOGY_APART : EST_TOPOLOGY_MIXED;
}

/* Ranks of one host open the shared memory of rank 0. It is used only if all can, which operation 0 counts. */
static est_status find_memory(est_rank_group *g, double secs)
{
    const est_collective_options options = { .deadline_secs = secs, .communication = EST_COMMUNICATION_DIRECT };
    int64_t                      n_found;
    est_work                    *work;

    if (g->rank > 0) est_commons_open(g);
    n_found = g->commons.memory.data != NULL;
    EST_TRY(est_all_reduce(g, &n_found, 1, EST_I64, EST_REDUCE_OP_SUM, &options, &work));
    EST_TRY(est_work_wait(work));
    est_shared_memory_hide(&g->commons.memory);
    if (n_found == g->n) {
        g->topology = EST_TOPOLOGY_ONE_HOST;
    } else {
        est_shared_memory_close(&g->commons.memory);
    }
    return EST_OK;
}

est_status est_group_create(est_mailbox *mailbox, est_net *net, const est_group_options *options, est_rank_group **out)
{
    double          secs = options->join_secs != 0 ? options->join_secs : JOIN_SECS;
    est_rank_group *g;
    est_status      status;

    EST_TRY(check_options(options));
    EST_TRY(make_group(mailbox, net, options, &g));
    pthread_mutex_lock(&mailbox->lock);
    est_mailbox_add(mailbox, g);
    status = await_ranks(g, secs);
    if (status == EST_OK) {
        find_hosts(g);
        g->complete     = true;
        mailbox->newest = g->generation > mailbox->newest ? g->generation : mailbox->newest;
        if (g->n > 1 && g->hosts.n == 1) {
            pthread_mutex_unlock(&mailbox->lock);
            status = find_memory(g, secs);
            pthread_mutex_lock(&mailbox->lock);
        } else {
            g->next = 1;
        }
    }
    if (status == EST_OK) {
        *out = g;
    } else {
        remove_group(g);
    }
    pthread_mutex_unlock(&mailbox->lock);
    return status;
}
