/* SPDX-License-Identifier: Apache-2.0
 *
 * The clients of a server: how they connect, leave, get lost and replace each other. */
#include "cluster/clients.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/service_calls.h"
#include "cluster/service_files.h"
#include "cluster/service_segments.h"
#include "cluster/sync_replicas.h"

bool est_is_external(const char *task)
{
    return strncmp(task, "client:", 7) == 0;
}

est_client *est_clients_find(const est_server *s, const char *task)
{
    for (int i = 0; i < s->n_clients; i++) {
        if (strcmp(s->clients[i]->who.task, task) == 0) return s->clients[i];
    }
    return NULL;
}

static est_client *add_client(est_server *s, const est_task_id *who)
{
    est_client *client;

    if (s->n_clients == s->max_clients) {
        int          max  = s->max_clients == 0 ? 16 : 2 * s->max_clients;
        est_client **more = est_realloc(s->clients, sizeof(est_client *) * (size_t)max);

        if (more == NULL) return NULL;
        s->clients     = more;
        s->max_clients = max;
    }
    client = est_zalloc(sizeof *client);
    if (client == NULL) return NULL;
    client->who                = *who;
    client->samples[0].at_ns   = est_now_ns();
    client->samples[1].at_ns   = client->samples[0].at_ns;
    s->clients[s->n_clients++] = client;
    return client;
}

est_client *est_clients_get(est_server *s, est_link *link)
{
    const est_task_id *who    = est_link_peer(link);
    est_client        *client = est_clients_find(s, who->task);

    return client != NULL ? client : add_client(s, who);
}

void est_clients_note_transfers(est_server *s, est_link *link)
{
    est_client *client;

    pthread_mutex_lock(&s->lock);
    client = est_clients_get(s, link);
    if (client != NULL) client->transfers = true;
    pthread_mutex_unlock(&s->lock);
}

static void add_counters(est_link_counters *sum, est_link_counters more)
{
    sum->bytes_in += more.bytes_in;
    sum->bytes_out += more.bytes_out;
    sum->requests_in += more.requests_in;
    sum->requests_out += more.requests_out;
}

static void drop_link(est_client *client)
{
    if (client->link == NULL) return;
    add_counters(&client->gone, est_link_count(client->link));
    est_link_free(client->link);
    client->link = NULL;
}

void est_client_end_hold(est_server *s, est_client *client)
{
    if (client->holder != NULL) est_gate_release(s->gate);
    client->holder = NULL;
}

static bool is_same_process(const est_client *client, const est_link *link)
{
    return client->who.incarnation == est_link_peer(link)->incarnation;
}

static void adopt(est_client *client, est_link *link)
{
    drop_link(client);
    client->link        = est_link_ref(link);
    client->since_ns    = est_now_ns();
    client->lost_why[0] = '\0';
}

bool est_clients_knows(est_server *s, est_link *link)
{
    est_client *client = est_clients_get(s, link);

    if (client == NULL || !is_same_process(client, link)) return false;
    if (client->link == NULL) adopt(client, link);
    client->left = false;
    return true;
}

void est_answered_free(est_answered *run)
{
    est_free(run->answer);
    est_free(run->part_sizes);
    est_sends_free(run->sends);
    est_free(run);
}

void est_client_forget(est_client *client, uint64_t by, uint64_t first, uint64_t other)
{
    est_answered **at = &client->answered;

    while (*at != NULL) {
        est_answered *run = *at;

        if (run->by == other || (run->by == by && run->sequence >= first)) {
            at = &run->next;
            continue;
        }
        *at = run->next;
        est_answered_free(run);
    }
}

void est_clients_free_one(est_client *client)
{
    if (client->link != NULL) est_link_free(client->link);
    est_client_forget(client, 0, 0, 0);
    est_free(client->entered);
    est_free(client);
}

/* An external client that asked only for the status: no run of it is under way, and nothing of it needs to be
 * remembered. */
static bool has_only_looked(const est_client *client)
{
    return est_is_external(client->who.task) && client->gone.requests_in == client->looks;
}

static void forget_client(est_server *s, est_client *client)
{
    int i = 0;

    while (s->clients[i] != client) i++;
    s->clients[i] = s->clients[--s->n_clients];
    est_clients_free_one(client);
}

/* Replaces the process of a client by a later one; both hear of it, and so does the log, if the earlier one is still
 * connected. */
static void replace_process(est_server *s, est_client *client, const est_task_id *who)
{
    client->before[0] = '\0';
    if (client->who.incarnation == who->incarnation) return;
    if (client->link == NULL && strcmp(client->who.place, who->place) == 0) {
        est_log_debug("%s: %s is back for its next job: %s", s->task, who->task, who->place);
    } else if (client->link == NULL) {
        est_log_info("%s: %s was restarted: %s", s->task, who->task, who->place);
    } else {
        est_log_warn("%s: %s was restarted, %s, and replaces a process that is still connected, %s", s->task, who->task,
                     who->place, client->who.place);
        memcpy(client->before, client->who.place, sizeof client->before);
        est_link_close(client->link, "a newer process has replaced this one");
    }
    est_rendezvous_forget(s->rendezvous, client->who.incarnation);
    est_gate_leave(s->gate, who->task);
    est_client_end_hold(s, client);
    if (strcmp(s->committer, who->task) == 0) s->committer[0] = '\0'; /* the earlier process was asked to commit */
    client->sync_replicas = false; /* its pushes are not awaited before it begins a step */
    client->who           = *who;  /* `gated` stays: all processes of a task ask for turns, or none does */
}

/* Whether both folders exist here and differ, by their real paths. */
static bool are_apart(const char *first, const char *second)
{
    char *a, *b;
    bool  apart;

    a     = realpath(first, NULL);
    b     = realpath(second, NULL);
    apart = a != NULL && b != NULL && strcmp(a, b) != 0;
    free(a);
    free(b);
    return apart;
}

/* A task saves in one folder only. A chief with another one could not train here, but would replace the chief that
 * can. */
est_admission est_clients_admit(void *user, const est_task_id *peer, bool may_block, char *why, size_t size)
{
    est_server *s = user;
    const char *root;

    if (peer->folder[0] == '\0' || strcmp(peer->task, est_server_chief(s, NULL)) != 0) return EST_ADMITTED;
    root = est_server_root(s);
    if (root == NULL || strcmp(root, peer->folder) == 0)
        return EST_ADMITTED; /* the common case, without a look at the disk */
    if (!may_block) return EST_UNDECIDED;
    if (!are_apart(root, peer->folder)) return EST_ADMITTED;
    snprintf(why, size,
             "%s has model_dir %.150s, but %s keeps checkpoints in %.150s: "
             "give all tasks of one job the same model_dir; "
             "give another job its own addresses and its own ESTOC_JOB",
             peer->task, peer->folder, s->task, root);
    est_log_warn("%s: refused %s: %s", s->task, peer->place, why);
    return EST_REFUSED;
}

/* Heartbeats are sent at a third of silence_secs. */
bool est_client_is_reserved(const est_server *s, const est_client *client)
{
    if (client->link != NULL) return est_link_count(client->link).silent_secs > s->silence_secs / 2;
    return !client->left && (double)(est_now_ns() - client->since_ns) < s->silence_secs * (double)EST_NS_PER_SEC;
}

void est_clients_met(void *user, est_link *link)
{
    est_server *s = user;
    est_client *client;

    pthread_mutex_lock(&s->lock);
    client = est_clients_get(s, link);
    if (client != NULL && client->link != NULL && is_same_process(client, link)) { /* a second link, or an old one */
        pthread_mutex_unlock(&s->lock);
        return;
    }
    if (client == NULL) {
        est_link_close(link, "no memory for another client");
    } else if (est_client_is_reserved(s, client) && est_link_peer(link)->incarnation < client->who.incarnation) {
        est_link_close(link, EST_NAME_RESERVED);
    } else if (client->link != NULL && est_link_peer(link)->incarnation < client->who.incarnation) {
        est_log_warn("%s: an older process of %s connected, %s; its requests are refused: the newer one is %s", s->task,
                     client->who.task, est_link_peer(link)->place, client->who.place);
    } else {
        replace_process(s, client, est_link_peer(link));
        adopt(client, link);
        est_server_wake(s);
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void end_waits(est_server *s, const est_link *link, est_status status, const char *why)
{
    for (int i = s->n_parked - 1; i >= 0; i--) {
        if (est_request_link(s->parked[i].request) != link) continue;
        est_request_fail(s->parked[i].request, status, why);
        s->parked[i] = s->parked[--s->n_parked];
    }
}

void est_clients_leave(est_server *s, est_link *link)
{
    est_client *client = est_clients_get(s, link);

    end_waits(s, link, EST_ABORTED, "it has left");
    est_rendezvous_forget(s->rendezvous, est_link_peer(link)->incarnation);
    est_gate_leave(s->gate, est_link_peer(link)->task);
    if (client == NULL) return;
    client->sync_replicas = false;
    client->left          = true;
    est_client_end_hold(s, client);
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), end_size = strlen(end);

    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

/* Announced leaves and links that this side closed are no news. */
static void log_lost(const est_server *s, const est_client *client, const char *why)
{
    if (est_is_external(s->task) || strcmp(why, EST_GOODBYE) == 0 || strncmp(why, EST_ENDED, strlen(EST_ENDED)) == 0) {
        est_log_debug("%s: %s is gone: %s", s->task, client->who.task, why);
    } else if (client->left) {
        est_log_info("%s: %s has left", s->task, client->who.task);
    } else if (ends_with(why, EST_GOODBYE) || ends_with(why, EST_SPARE)) {
        est_log_debug("%s: %s is gone: %s", s->task, client->who.task, why);
    } else {
        est_log_info("%s: %s is gone: %s", s->task, client->who.task, why);
    }
}

/* Gets the extension for a call from the network thread, to be followed by end_extension; false: there is none. */
static bool begin_extension(est_server *s, est_extension *out)
{
    pthread_mutex_lock(&s->lock);
    *out         = s->extension;
    s->extending = out->serve != NULL;
    pthread_mutex_unlock(&s->lock);
    return out->serve != NULL;
}

static void end_extension(est_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->extending = false;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

bool est_clients_serve_extension(est_server *s, est_request *request)
{
    est_extension extension;
    bool          taken = false;

    if (est_request_method(request) < EST_METHOD_EXTENSION) return false;
    if (begin_extension(s, &extension)) {
        taken = extension.serve(extension.user, request);
        end_extension(s);
    } else {
        est_request_fail(request, EST_UNAVAILABLE, "no extension serves this request now; try again");
        taken = true;
    }
    return taken;
}

void est_clients_extend_status(est_server *s, est_json *status)
{
    est_extension extension;

    if (!begin_extension(s, &extension)) return;
    if (extension.status != NULL) extension.status(extension.user, status);
    end_extension(s);
}

void est_server_extend(est_server *s, const est_extension *extension)
{
    pthread_mutex_lock(&s->lock);
    s->extension = extension != NULL ? *extension : (est_extension){ 0 };
    while (s->extending) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

/* Ends requests for a turn over that link. */
static void end_turn_requests(est_server *s, const est_link *link)
{
    est_gate_entry e;

    for (int i = 0; est_gate_entry_at(s->gate, i, &e); i++) {
        if (e.waits && est_request_link(e.waiter) == link) est_gate_stop_waiting(s->gate, e.who);
    }
}

/* Whether the process is still connected, over another link. */
static bool has_other_link(const est_server *s, est_client *client)
{
    est_link *other = client->left ? NULL : est_net_find(s->net, &client->who);

    if (other != NULL) client->link = est_link_ref(other);
    return other != NULL;
}

/* The client keeps its turn for a while: it may come back with the step that it has begun. A process that is killed
 * right after it has closed a second link may lose the first before that: then the first says why. */
static void lose_client(est_server *s, est_client *client, const char *why)
{
    client->since_ns = est_now_ns();
    if (ends_with(why, EST_SPARE) && client->lost_why[0] != '\0') {
        why = client->lost_why;
    } else {
        snprintf(client->lost_why, sizeof client->lost_why, "%s", why);
    }
    if (strcmp(s->committer, client->who.task) == 0) s->committer[0] = '\0';
    if (has_only_looked(client)) {
        forget_client(s, client);
    } else if (!s->done && !s->stopping && !s->stop_asked) {
        log_lost(s, client, why);
    }
}

void est_clients_lost(void *user, est_link *link, const char *why)
{
    est_server   *s = user;
    est_client   *client;
    est_extension extension;

    if (begin_extension(s, &extension)) {
        extension.lost(extension.user, link, why);
        end_extension(s);
    }
    est_master_lose_link(s->master, link);
    est_rendezvous_lose_link(s->rendezvous, link, why);
    pthread_mutex_lock(&s->lock);
    end_waits(s, link, EST_UNAVAILABLE, why);
    client = est_clients_find(s, est_link_peer(link)->task);
    if (client != NULL && client->holder == link)
        est_client_end_hold(s, client); /* it may hold over another link by now */
    end_turn_requests(s, link);
    est_service_end_saves(s, link);
    if (client != NULL && client->link == link) {
        drop_link(client);
        if (!has_other_link(s, client)) {
            lose_client(s, client, why);
        } else if (!ends_with(why, EST_SPARE)) {
            snprintf(client->lost_why, sizeof client->lost_why, "%s", why);
        }
    } else if (client != NULL && is_same_process(client, link)) {
        add_counters(&client->gone, est_link_count(link));
    }
    est_server_wake(s);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    est_calls_wake(s, false);
}

void est_clients_expire_turns(est_server *s)
{
    for (int i = 0; i < s->n_clients; i++) {
        est_client *client   = s->clients[i];
        bool        has_turn = est_gate_has_turn(s->gate, client->who.task);

        if (client->link != NULL || !has_turn) continue;
        if ((double)(est_now_ns() - client->since_ns) < s->silence_secs * (double)EST_NS_PER_SEC) continue;
        est_log_warn("%s: %s did not come back; its turn goes to another worker", s->task, client->who.task);
        est_gate_leave(s->gate, client->who.task);
        est_server_wake(s);
    }
}

/* A client that left does not ask again. A lost one may come back, and its runs must not be made twice: it notices the
 * loss within silence_secs, and tries for as long again. */
static bool is_gone_for_good(const est_server *s, const est_client *client)
{
    if (client->link != NULL || est_gate_has_turn(s->gate, client->who.task)) return false;
    if (client->left) return true;
    return est_is_external(client->who.task) &&
           (double)(est_now_ns() - client->since_ns) > 3 * s->silence_secs * (double)EST_NS_PER_SEC;
}

/* RV2: whether the process that drives steps will not come back. */
static bool is_driver_gone(void *user, uint64_t driver)
{
    const est_server *s = user;

    if (driver == s->self.incarnation) return false; /* a task that drives steps itself */
    for (int i = 0; i < s->n_clients; i++) {
        const est_client *client = s->clients[i];

        if (client->who.incarnation != driver) continue;
        return client->link == NULL &&
               (double)(est_now_ns() - client->since_ns) > 3 * s->silence_secs * (double)EST_NS_PER_SEC;
    }
    return true;
}

void est_clients_forget_gone(est_server *s)
{
    est_rendezvous_sweep(s->rendezvous, is_driver_gone, s);
    if (pthread_mutex_trylock(&s->host_lock) != 0) return;
    for (int i = s->n_clients - 1; i >= 0; i--) {
        est_client *client = s->clients[i];

        if (!is_gone_for_good(s, client)) continue;
        est_service_give_back_all(s, client);
        if (est_is_external(client->who.task)) {
            forget_client(s, client);
        } else {
            est_client_forget(client, 0, 0, 0);
        }
    }
    pthread_mutex_unlock(&s->host_lock);
}
