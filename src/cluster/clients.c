/* SPDX-License-Identifier: Apache-2.0
 *
 * The tasks that talk to a server. */
#include "cluster/clients.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/service_files.h"
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

est_client *est_server_client(est_server *s, est_link *link)
{
    const est_task_id *who    = est_link_peer(link);
    est_client        *client = est_clients_find(s, who->task);

    return client != NULL ? client : add_client(s, who);
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

/* What it held for a checkpoint goes on without it. */
void est_server_end_holds(est_server *s, est_client *client)
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
    client->link     = est_link_ref(link);
    client->since_ns = est_now_ns();
}

bool est_server_knows(est_server *s, est_link *link)
{
    est_client *client = est_server_client(s, link);

    if (client == NULL || !is_same_process(client, link)) return false;
    if (client->link == NULL) adopt(client, link);
    client->left = false;
    return true;
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
        est_free(run->answer);
        est_free(run->part_sizes);
        est_free(run);
    }
}

void est_clients_free_one(est_client *client)
{
    if (client->link != NULL) est_link_free(client->link);
    est_client_forget(client, 0, 0, 0);
    est_free(client);
}

/* No task, and nothing but the status was asked for: so no run of it is under way, and nothing of it needs to be remembered. */
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

/* A process that was started anew takes the place of the one before. One that is still there is news for all three. */
static void put_out(est_server *s, est_client *client, const est_task_id *who)
{
    client->before[0] = '\0';
    if (client->who.incarnation == who->incarnation) return;
    if (client->link == NULL && strcmp(client->who.place, who->place) == 0) {
        est_log_debug("%s: %s is back for its next job: %s", s->task, who->task, who->place);
    } else if (client->link == NULL) {
        est_log_info("%s: %s was started anew: %s", s->task, who->task, who->place);
    } else {
        est_log_warn("%s: %s was started anew, %s, and takes the place of one that is still there, %s", s->task,
                     who->task, who->place, client->who.place);
        memcpy(client->before, client->who.place, sizeof client->before);
        est_link_close(client->link, "another process has taken this task's place");
    }
    est_gate_leave(s->gate, who->task);
    est_server_end_holds(s, client);
    if (strcmp(s->committer, who->task) == 0) s->committer[0] = '\0'; /* it was the other that was asked to */
    client->sync_replicas = false; /* nobody waits for its pushes before it begins a step */
    client->who           = *who;  /* a task that asks for turns does so in all its processes: `gated` stays */
}

/* One of those that come and go while another stays: an extension makes links of its own, and those that a process gave up while we
 * did not answer may be seen after the one that it uses. */
static bool is_spare(const est_client *client, const est_link *link)
{
    return client->link != NULL && is_same_process(client, link);
}

/* Whether both are here, and not the same, however they are written. */
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

/* A task saves in one folder only. A chief of another folder could not go on here, but would put out the one that can. */
est_admission est_clients_admit(void *user, const est_task_id *peer, bool may_block, char *why, size_t size)
{
    est_server *s = user;
    const char *root;

    if (peer->folder[0] == '\0' || strcmp(peer->task, est_server_chief(s, NULL)) != 0) return EST_ADMITTED;
    root = est_server_root(s);
    if (root == NULL || strcmp(root, peer->folder) == 0) return EST_ADMITTED; /* most do, and the disk is not asked */
    if (!may_block) return EST_UNDECIDED;
    if (!are_apart(root, peer->folder)) return EST_ADMITTED;
    snprintf(why, size,
             "%s has model_dir %.150s, and %s keeps checkpoints in %.150s: give all tasks of a job one "
             "model_dir, and another job addresses and an ESTOC_JOB of its own",
             peer->task, peer->folder, s->task, root);
    est_log_warn("%s: %s is refused: %s", s->task, peer->place, why);
    return EST_REFUSED;
}

/* Beats come at a third of the silence. */
bool est_client_is_kept(const est_server *s, const est_client *client)
{
    if (client->link != NULL) return est_link_count(client->link).silent_secs > s->silence_secs / 2;
    return !client->left && (double)(est_now_ns() - client->since_ns) < s->silence_secs * (double)EST_NS_PER_SEC;
}

void est_clients_met(void *user, est_link *link)
{
    est_server *s = user;
    est_client *client;

    pthread_mutex_lock(&s->lock);
    client = est_server_client(s, link);
    if (client != NULL && is_spare(client, link)) {
        pthread_mutex_unlock(&s->lock);
        return;
    }
    if (client == NULL) {
        est_link_close(link, "no memory for another client");
    } else if (est_client_is_kept(s, client) && est_link_peer(link)->incarnation < client->who.incarnation) {
        est_link_close(link, EST_PLACE_KEPT);
    } else if (client->link != NULL && est_link_peer(link)->incarnation < client->who.incarnation) {
        est_log_warn("%s: an older process says that it is %s, %s; it gets nothing: %s has its place", s->task,
                     client->who.task, est_link_peer(link)->place, client->who.place);
    } else {
        put_out(s, client, est_link_peer(link));
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

void est_server_leave(est_server *s, est_link *link)
{
    est_client *client = est_server_client(s, link);

    end_waits(s, link, EST_ABORTED, "it has left");
    est_gate_leave(s->gate, est_link_peer(link)->task);
    if (client == NULL) return;
    client->sync_replicas = false;
    client->left          = true;
    est_server_end_holds(s, client);
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), end_size = strlen(end);

    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

/* Whoever is no task has nobody to tell, nor does one that closes the link itself. One that said goodbye is not missed. */
static void tell_gone(const est_server *s, const est_client *client, const char *why)
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

/* The extension, for a call from the network thread, which end_extension must follow; false: there is none. */
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

bool est_server_serve_extension(est_server *s, est_request *request)
{
    est_extension extension;
    bool          taken = false;

    if (est_request_method(request) < EST_METHOD_EXTENSION) return false;
    if (begin_extension(s, &extension)) {
        taken = extension.serve(extension.user, request);
        end_extension(s);
    } else {
        est_request_fail(request, EST_UNAVAILABLE, "it takes no such requests now");
        taken = true;
    }
    return taken;
}

void est_server_extend(est_server *s, const est_extension *extension)
{
    pthread_mutex_lock(&s->lock);
    s->extension = extension != NULL ? *extension : (est_extension){ 0 };
    while (s->extending) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

/* Who waits for a turn over that link. */
static void end_asking(est_server *s, const est_link *link)
{
    est_gate_entry e;

    for (int i = 0; est_gate_entry_at(s->gate, i, &e); i++) {
        if (e.waits && est_request_link(e.waiter) == link) est_gate_stop_waiting(s->gate, e.who);
    }
}

/* Whether the process is still there, over another link. */
static bool has_another(const est_server *s, est_client *client)
{
    est_link *other = client->left ? NULL : est_net_find(s->net, &client->who);

    if (other != NULL) client->link = est_link_ref(other);
    return other != NULL;
}

/* A turn stays its own for a while, since it may be back with the step that it has begun. */
static void lose_client(est_server *s, est_client *client, const char *why)
{
    client->since_ns = est_now_ns();
    snprintf(client->lost_why, sizeof client->lost_why, "%s", why);
    if (strcmp(s->committer, client->who.task) == 0) s->committer[0] = '\0';
    if (has_only_looked(client)) {
        forget_client(s, client);
    } else if (!s->done && !s->stopping) {
        tell_gone(s, client, why);
    }
}

/* What was waited for or held over that link ends. */
void est_clients_lost(void *user, est_link *link, const char *why)
{
    est_server   *s = user;
    est_client   *client;
    est_extension extension;

    if (begin_extension(s, &extension)) {
        extension.lost(extension.user, link, why);
        end_extension(s);
    }
    pthread_mutex_lock(&s->lock);
    end_waits(s, link, EST_UNAVAILABLE, why);
    client = est_clients_find(s, est_link_peer(link)->task);
    if (client != NULL && client->holder == link) est_server_end_holds(s, client); /* it may have another by now */
    end_asking(s, link);
    est_service_end_saves(s, link);
    if (client != NULL && client->link == link) {
        drop_link(client);
        if (!has_another(s, client)) lose_client(s, client, why);
    } else if (client != NULL && is_same_process(client, link)) {
        add_counters(&client->gone, est_link_count(link));
    }
    est_server_wake(s);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void est_clients_forget_lost(est_server *s)
{
    for (int i = 0; i < s->n_clients; i++) {
        est_client *client   = s->clients[i];
        bool        has_turn = est_gate_has_turn(s->gate, client->who.task);

        if (client->link != NULL || !has_turn) continue;
        if ((double)(est_now_ns() - client->since_ns) < s->silence_secs * (double)EST_NS_PER_SEC) continue;
        est_log_warn("%s: the step that %s had begun is given to others", s->task, client->who.task);
        est_gate_leave(s->gate, client->who.task);
        est_server_wake(s);
    }
}

/* Whoever has left does not ask again. A client that is lost may be back, and its runs must not be made twice: it notices within
 * the silence, and tries for as long again. */
static bool is_gone_for_good(const est_server *s, const est_client *client)
{
    if (client->link != NULL || est_gate_has_turn(s->gate, client->who.task)) return false;
    if (client->left) return true;
    return est_is_external(client->who.task) &&
           (double)(est_now_ns() - client->since_ns) > 3 * s->silence_secs * (double)EST_NS_PER_SEC;
}

void est_clients_forget_gone(est_server *s)
{
    if (pthread_mutex_trylock(&s->host_lock) != 0) return;
    for (int i = s->n_clients - 1; i >= 0; i--) {
        est_client *client = s->clients[i];

        if (!is_gone_for_good(s, client)) continue;
        if (est_is_external(client->who.task)) {
            forget_client(s, client);
        } else {
            est_client_forget(client, 0, 0, 0);
        }
    }
    pthread_mutex_unlock(&s->host_lock);
}
