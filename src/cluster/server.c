/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a server: who comes and goes, the executor, and the end of the job. */
#include "cluster/server.h"
#include "cluster/sync.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"

#define LONELY_SECS_DEFAULT  7200.0
#define SILENCE_SECS_DEFAULT 10.0
#define LATE_SECS            INT64_C(120) /* within which tasks of a job come for the first time */
#define LEAVE_SECS           30.0         /* that others have to leave after the job's end */
#define STOP_SECS            INT64_C(10)  /* that they have after a signal */
#define LOOK_NS              (EST_NS_PER_SEC / 10)

/* --- who comes and goes ----------------------------------------------------------------------------------------------- */

static bool is_client(const char *task)
{
    return strncmp(task, "client:", 7) == 0;
}

static est_client *find_client(const est_server *s, const char *task)
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
    est_client        *client = find_client(s, who->task);

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
    for (; client->holds > 0; client->holds--) est_gate_release(s->gate);
}

static void adopt(est_client *client, est_link *link)
{
    if (client->link == link) return;
    drop_link(client);
    client->link     = est_link_ref(link);
    client->since_ns = est_now_ns();
}

/* Links of one process need not be seen in the order they were made: those that it gave up while we did not answer may come
 * after the one that it uses. */
bool est_server_knows(est_server *s, est_link *link)
{
    est_client *client = est_server_client(s, link);

    if (client == NULL || client->who.incarnation != est_link_peer(link)->incarnation) return false;
    adopt(client, link);
    client->left = false;
    return true;
}

void est_client_forget(est_client *client, uint64_t first)
{
    est_answered **at = &client->answered;

    while (*at != NULL) {
        est_answered *run = *at;

        if (run->sequence >= first) {
            at = &run->next;
            continue;
        }
        *at = run->next;
        est_free(run->answer);
        est_free(run->part_sizes);
        est_free(run);
    }
}

static void free_client(est_client *client)
{
    if (client->link != NULL) est_link_free(client->link);
    est_client_forget(client, UINT64_MAX);
    est_free(client);
}

/* No task, and nothing but the status was asked for: so no run of it is under way, and nothing of it needs to be remembered. */
static bool has_only_looked(const est_client *client)
{
    return is_client(client->who.task) && client->gone.requests_in == client->looks;
}

static void forget_client(est_server *s, est_client *client)
{
    int i = 0;

    while (s->clients[i] != client) i++;
    s->clients[i] = s->clients[--s->n_clients];
    free_client(client);
}

/* A process that was started anew takes the place of the one before. One that is still there is news for all three. */
static void put_out(est_server *s, est_client *client, const est_task_id *who)
{
    client->before[0] = '\0';
    if (client->who.incarnation == who->incarnation) return;
    if (client->link == NULL) {
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
    client->who   = *who;
    client->gated = false;
}

/* An extension makes links of its own, which come and go while the first stays. */
static bool is_spare(const est_server *s, const est_client *client, const est_link *link)
{
    return s->extension.serve != NULL && client->link != NULL && !est_link_is_lost(client->link) &&
           est_link_peer(link)->incarnation == client->who.incarnation;
}

/* Whether both are here, and not the same, however they are written. */
static bool are_apart(const char *first, const char *second)
{
    char *a = realpath(first, NULL), *b = realpath(second, NULL);
    bool  apart = a != NULL && b != NULL && strcmp(a, b) != 0;

    free(a);
    free(b);
    return apart;
}

/* A task saves in one folder only. A chief of another folder could not go on here, but would put out the one that can. */
static bool admit(void *user, const est_task_id *peer, char *why, size_t size)
{
    est_server *s = user;
    bool        apart;

    if (peer->folder[0] == '\0' || strcmp(peer->task, est_server_chief(s, NULL)) != 0) return true;
    pthread_mutex_lock(&s->lock);
    apart = s->root != NULL && are_apart(s->root, peer->folder);
    if (apart) {
        snprintf(why, size,
                 "%s has model_dir %.150s, and %s keeps checkpoints in %.150s: give all tasks of a job one "
                 "model_dir, and another job addresses and an ESTOC_JOB of its own",
                 peer->task, peer->folder, s->task, s->root);
    }
    pthread_mutex_unlock(&s->lock);
    if (apart) est_log_warn("%s: %s is refused: %s", s->task, peer->place, why);
    return !apart;
}

static void met(void *user, est_link *link)
{
    est_server *s = user;
    est_client *client;

    pthread_mutex_lock(&s->lock);
    client = est_server_client(s, link);
    if (client != NULL && is_spare(s, client, link)) {
        pthread_mutex_unlock(&s->lock);
        return;
    }
    if (client == NULL) {
        est_link_close(link, "no memory for another client");
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
    client->together = false;
    client->left     = true;
    est_server_end_holds(s, client);
}

/* Whoever is no task has nobody to tell, nor does one that closes the link itself. One that said goodbye is not missed. */
static void tell_gone(const est_server *s, const est_client *client, const char *why)
{
    if (is_client(s->task) || strcmp(why, EST_GOODBYE) == 0) {
        est_log_debug("%s: %s is gone: %s", s->task, client->who.task, why);
    } else if (client->left) {
        est_log_info("%s: %s has left", s->task, client->who.task);
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

/* What it waits for ends; a turn stays its own for a while, since it may be back with the step that it has begun. */
static void lost(void *user, est_link *link, const char *why)
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
    client = find_client(s, est_link_peer(link)->task);
    if (client != NULL && client->link == link) {
        drop_link(client);
        client->since_ns = est_now_ns();
        snprintf(client->lost_why, sizeof client->lost_why, "%s", why);
        est_gate_stop_waiting(s->gate, client->who.task);
        est_server_end_holds(s, client);
        if (strcmp(s->committer, client->who.task) == 0) s->committer[0] = '\0';
        est_server_wake(s);
        if (has_only_looked(client)) {
            forget_client(s, client);
        } else if (!s->done && !s->stopping) {
            tell_gone(s, client, why);
        }
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Turns of those who did not come back are given to others. */
static void forget_lost(est_server *s)
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

/* --- those who wait ---------------------------------------------------------------------------------------------------- */

static void answer_turn(const est_server *s, est_request *request, est_gate_answer answer)
{
    est_packing packing = { 0 };
    est_payload payload;

    if (answer == EST_GATE_DROPPED) {
        est_request_fail(request, EST_ABORTED, "asked again");
        return;
    }
    est_wire_put_i64(&packing.head, EST_FIELD_STEP, s->step);
    est_wire_put_bool(&packing.head, EST_FIELD_FINISHED, answer == EST_GATE_FINISHED);
    if (est_packing_payload(&packing, &payload) == EST_OK) {
        est_request_answer(request, payload);
    } else {
        est_request_fail(request, EST_RESOURCE_EXHAUSTED, "no memory for an answer");
    }
    est_packing_clear(&packing);
}

/* A task that trains; not one that only looks. */
static bool is_trainer(const est_client *client)
{
    return !is_client(client->who.task);
}

/* Whether tasks of the job may still come for the first time. */
static bool may_others_come(const est_server *s, const char *task)
{
    static const char *const types[] = { "chief", "master", "worker" };
    char                     name[EST_NET_NAME_MAX];

    if (est_now_ns() - s->start_ns > LATE_SECS * EST_NS_PER_SEC) return false;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (int i = 0; i < est_cluster_tasks(s->cluster, types[t]); i++) {
            snprintf(name, sizeof name, "%s:%d", types[t], i);
            if (est_cluster_address(s->cluster, types[t], i) == NULL || strcmp(name, task) == 0) continue;
            if (find_client(s, name) == NULL) return true;
        }
    }
    return false;
}

/* One that has a turn may be back with its step. */
static bool is_alone(const est_server *s, const char *task)
{
    if (may_others_come(s, task)) return false;
    for (int i = 0; i < s->n_clients; i++) {
        const est_client *client = s->clients[i];

        if (!is_trainer(client) || strcmp(client->who.task, task) == 0) continue;
        if (client->link != NULL || est_gate_has_turn(s->gate, client->who.task)) return false;
    }
    return true;
}

static bool is_at_rest(const est_server *s)
{
    return est_gate_is_idle(s->gate) && s->committer[0] == '\0';
}

bool est_server_is_held(const est_server *s)
{
    return est_gate_is_held(s->gate) && is_at_rest(s);
}

static bool may_go(const est_server *s, const est_parked *parked)
{
    switch (parked->method) {
    case EST_METHOD_FINISH_STEP: return false; /* est_sync_wake answers those */
    case EST_METHOD_HOLD: return is_at_rest(s);
    case EST_METHOD_AWAIT_ALONE: return is_alone(s, est_link_peer(est_request_link(parked->request))->task);
    default: return s->ready || s->done;
    }
}

est_status est_server_park(est_server *s, est_request *request, est_method method)
{
    if (s->n_parked == s->max_parked) {
        int         max  = s->max_parked == 0 ? 16 : 2 * s->max_parked;
        est_parked *more = est_realloc(s->parked, sizeof *more * (size_t)max);

        if (more == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for one who waits");
        s->parked     = more;
        s->max_parked = max;
    }
    s->parked[s->n_parked++] = (est_parked){ .request = request, .method = method, .since_ns = est_now_ns() };
    return EST_OK;
}

/* Tasks that train differently would spoil each other's work without a word. */
static est_status check_how(const est_server *s, const est_request *request)
{
    est_str how = est_head_bytes(est_request_message(request), EST_FIELD_BYTES);

    if (how.data == NULL || (how.size == strlen(s->agreed) && memcmp(how.data, s->agreed, how.size) == 0))
        return EST_OK;
    return est_fail(EST_FAILED_PRECONDITION,
                    "%s has %.*s; the chief has %s: all tasks need the same TF_CONFIG cluster and the same strategy",
                    est_link_peer(est_request_link(request))->task, (int)(how.size < 160 ? how.size : 160), how.data,
                    s->agreed);
}

/* Answers a request whose wait is over. */
static void let_go(est_server *s, int parked)
{
    est_request *request = s->parked[parked].request;
    est_status status = s->parked[parked].method == EST_METHOD_AWAIT_READY && s->ready ? check_how(s, request) : EST_OK;

    s->parked[parked] = s->parked[--s->n_parked];
    if (status == EST_OK) {
        est_request_answer(request, (est_payload){ 0 });
    } else {
        est_request_fail(request, status, est_error_message());
    }
}

void est_server_wake(est_server *s)
{
    void           *waiter;
    est_gate_answer answer;

    while (est_gate_next(s->gate, &waiter, &answer)) answer_turn(s, waiter, answer);
    for (int i = s->n_parked - 1; i >= 0; i--) {
        if (may_go(s, &s->parked[i])) let_go(s, i);
    }
    est_sync_wake(s);
}

/* By the names that it goes by. */
const char *est_server_chief(const est_server *s, const char **address)
{
    static const char *const names[][2] = { { "chief", "chief:0" },
                                            { "master", "master:0" },
                                            { "worker", "worker:0" } };
    int                      i          = 0;

    while (i < 2 && est_cluster_tasks(s->cluster, names[i][0]) == 0) i++;
    if (address != NULL) *address = est_cluster_address(s->cluster, names[i][0], 0);
    return names[i][1];
}

/* --- the executor ------------------------------------------------------------------------------------------------------- */

/* The next request: the first of a client that fetches its answers; those of one client stay in their order. NULL: none. */
static est_queued *take_job(est_server *s)
{
    for (est_queued **at = &s->first; *at != NULL; at = &(*at)->next) {
        est_queued *job   = *at;
        bool        waits = est_link_is_full(est_request_link(job->request));

        for (est_queued *before = s->first; before != job && !waits; before = before->next) {
            waits = est_request_link(before->request) == est_request_link(job->request);
        }
        if (waits) continue;
        *at = job->next;
        if (job->next == NULL) s->last = at;
        return job;
    }
    return NULL;
}

static void drained(void *user, est_link *link)
{
    est_server *s = user;

    (void)link;
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void *execute(void *arg)
{
    est_server *s = arg;

    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        est_queued *job = take_job(s);

        if (job == NULL) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        s->busy = true;
        pthread_mutex_unlock(&s->lock);
        est_service_run(s, job->request);
        est_free(job);
        pthread_mutex_lock(&s->lock);
        s->busy = s->first != NULL;
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- life ------------------------------------------------------------------------------------------------------------- */

static const char *or_environment(const char *given, const char *variable, const char *fallback)
{
    const char *value = given != NULL ? given : getenv(variable);

    return value != NULL && value[0] != '\0' ? value : fallback;
}

static est_status open_ledger(est_server *s)
{
    const char *folder = getenv("ESTOC_LEDGER");
    char        path[512];

    if (folder == NULL || folder[0] == '\0') return EST_OK;
    snprintf(path, sizeof path, "%s/%s-%016" PRIx64 ".ledger", folder, s->task, s->self.incarnation);
    s->ledger = fopen(path, "we");
    return s->ledger != NULL ? EST_OK : est_fail(EST_NOT_FOUND, "ESTOC_LEDGER: cannot write %s", path);
}

static est_status start_net(est_server *s, const est_server_options *o, const char *address)
{
    const char     *transport = or_environment(o->transport, "ESTOC_PROTOCOL", "tls");
    est_net_options options   = { .transport    = strcmp(transport, "grpc") == 0 ? "tls" : transport,
                                  .certificates = or_environment(o->certificates, "ESTOC_CERTS", NULL),
                                  .self         = s->self,
                                  .silence_secs = s->silence_secs,
                                  .serve        = est_service_serve,
                                  .admit        = admit,
                                  .met          = met,
                                  .lost         = lost,
                                  .drained      = drained,
                                  .user         = s };

    EST_TRY(est_net_create(&options, &s->net));
    if (address == NULL) return EST_OK;
    EST_TRY(est_net_listen(s->net, address));
    snprintf(s->target, sizeof s->target, "%s://%s", options.transport, address);
    return EST_OK;
}

static est_status find_address(const est_server *s, const char *type, int index, const char **out)
{
    *out = NULL;
    if (type == NULL) return EST_OK;
    *out = est_cluster_address(s->cluster, type, index);
    if (*out != NULL) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "the cluster has no task %s %d", type, index);
}

/* The time in milliseconds, so that the later of two starts is known, and 20 bits that differ between starts at one time. */
static uint64_t draw_incarnation(void)
{
    uint32_t few = 0;

    if (getrandom(&few, sizeof few, 0) != (ssize_t)sizeof few) few = (uint32_t)getpid();
    return (uint64_t)(est_wall_ns() / 1000000) << 20 | (few & 0xfffff);
}

/* Texts of hellos are printable. A folder whose name cannot be said is not. */
static void say_folder(const char *folder, char out[EST_NET_FOLDER_MAX])
{
    size_t size = strlen(folder);

    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)folder[i] < 0x20 || folder[i] == 0x7f) return;
    }
    if (size < EST_NET_FOLDER_MAX) memcpy(out, folder, size + 1);
}

static void describe_place(const char *address, const char *folder, char out[EST_NET_PLACE_MAX])
{
    char host[HOST_NAME_MAX + 1] = "";

    (void)gethostname(host, sizeof host - 1);
    snprintf(out, EST_NET_PLACE_MAX, "pid %ld on %s%s%s%s%s%s", (long)getpid(), host, address != NULL ? " (" : "",
             address != NULL ? address : "", address != NULL ? ")" : "", folder != NULL ? ", model_dir " : "",
             folder != NULL ? folder : "");
    for (char *at = out; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f) *at = '?';
    }
}

static est_status set_up(est_server *s, const char *type, int index, const est_server_options *o, const char *folder)
{
    const char *address;

    EST_TRY(find_address(s, type, index, &address));
    s->self.incarnation = s->era = draw_incarnation();
    if (type != NULL) {
        snprintf(s->task, sizeof s->task, "%s:%d", type, index);
    } else { /* processes of two containers may have the same id, and would put each other out */
        snprintf(s->task, sizeof s->task, "client:%ld-%08" PRIx32, (long)getpid(), (uint32_t)s->self.incarnation);
    }
    snprintf(s->self.job, sizeof s->self.job, "%s", or_environment(o->job, "ESTOC_JOB", ""));
    memcpy(s->self.task, s->task, sizeof s->self.task);
    describe_place(address, folder, s->self.place);
    if (folder != NULL) say_folder(folder, s->self.folder);
    s->silence_secs     = o->silence_secs > 0 ? o->silence_secs : SILENCE_SECS_DEFAULT;
    s->lonely_secs      = o->lonely_secs > 0 ? o->lonely_secs : LONELY_SECS_DEFAULT;
    s->start_ns         = est_now_ns();
    s->samples[0].at_ns = s->samples[1].at_ns = s->start_ns;
    EST_TRY(open_ledger(s));
    EST_TRY(est_host_create(o->threads, &s->host));
    EST_TRY(est_gate_create(&s->gate));
    EST_TRY(est_thread_start(&s->executor, "est-executor", execute, s));
    s->has_executor = true;
    return start_net(s, o, address);
}

static est_status make_locks(est_server *s)
{
    EST_TRY(est_lock_init(&s->host_lock));
    EST_TRY(est_lock_init(&s->lock));
    return est_cond_init(&s->changed);
}

est_status est_server_create(const est_cluster *cluster, const char *type, int index, const est_server_options *options,
                             est_server **out)
{
    return est_server_start(cluster, type, index, options, NULL, out);
}

est_status est_server_start(const est_cluster *cluster, const char *type, int index, const est_server_options *options,
                            const char *folder, est_server **out)
{
    est_server_options own;
    est_server        *s;
    est_status         status;

    EST_TRY(est_options_take("EST_SERVER", options, &own, sizeof own));
    s = est_zalloc(sizeof *s);
    if (s == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a server");
    s->last = &s->first;
    s->step = -1;
    status  = make_locks(s);
    if (status == EST_OK) status = est_cluster_copy(cluster, &s->cluster);
    if (status == EST_OK) status = set_up(s, type, index, &own, folder);
    if (status != EST_OK) {
        est_server_free(s);
        return est_fail_context(status, "task %s", type != NULL ? type : "of a client");
    }
    if (s->target[0] != '\0') est_log_info("%s listens at %s", s->task, s->target);
    *out = s;
    return EST_OK;
}

const char *est_server_target(const est_server *server)
{
    return server->target;
}

est_net *est_server_net(est_server *server)
{
    return server->net;
}

static void stop_executor(est_server *s)
{
    if (!s->has_executor) return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->changed);
    while (s->n_writers > 0) pthread_cond_wait(&s->changed, &s->lock); /* each ends with its file */
    pthread_mutex_unlock(&s->lock);
    est_thread_join(&s->executor);
}

static void fail_all(est_server *s)
{
    void           *waiter;
    est_gate_answer answer;

    for (est_queued *job = s->first; job != NULL;) {
        est_queued *next = job->next;

        est_request_fail(job->request, EST_UNAVAILABLE, "the server ends");
        est_free(job);
        job = next;
    }
    for (int i = 0; i < s->n_parked; i++) est_request_fail(s->parked[i].request, EST_UNAVAILABLE, "the server ends");
    s->first    = NULL;
    s->last     = &s->first;
    s->n_parked = 0;
    if (s->gate == NULL) return;
    est_gate_finish(s->gate);
    while (est_gate_next(s->gate, &waiter, &answer)) est_request_fail(waiter, EST_UNAVAILABLE, "the server ends");
}

void est_server_free(est_server *s)
{
    if (s == NULL) return;
    stop_executor(s);
    pthread_mutex_lock(&s->lock);
    fail_all(s);
    pthread_mutex_unlock(&s->lock);
    est_net_free(s->net); /* no callback comes after it */
    for (int i = 0; i < s->n_clients; i++) free_client(s->clients[i]);
    est_free(s->clients);
    est_free(s->parked);
    est_gate_free(s->gate);
    for (int i = 0; s->parts != NULL && i < est_host_parts(s->host); i++) {
        est_collect_free(s->parts[i].collect);
        est_free(s->parts[i].came);
    }
    est_host_free(s->host);
    est_free(s->parts);
    est_free(s->feeds);
    est_unpacked_clear(&s->inputs);
    est_packing_clear(&s->outputs);
    if (s->ledger != NULL) fclose(s->ledger);
    est_cluster_free(s->cluster);
    est_free(s->root);
    pthread_mutex_destroy(&s->host_lock);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    est_free(s);
}

/* --- the end of the job -------------------------------------------------------------------------------------------------- */

/* A client that has asked for more than the status is one that drives the cluster. */
static bool is_present(const est_client *client)
{
    if (client->link == NULL) return false;
    return !is_client(client->who.task) ||
           client->gone.requests_in + est_link_count(client->link).requests_in > client->looks;
}

static int n_present(const est_server *s)
{
    int n = 0;

    for (int i = 0; i < s->n_clients; i++) n += is_present(s->clients[i]);
    return n;
}

est_status est_server_set_root(est_server *server, const char *folder)
{
    char *root = est_strdup(folder);

    if (root == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a path");
    pthread_mutex_lock(&server->lock); /* a chief may be there already */
    est_free(server->root);
    server->root = root;
    pthread_mutex_unlock(&server->lock);
    return EST_OK;
}

void est_server_set_over(est_server *server, bool (*over)(void *user), void *user)
{
    server->over      = over;
    server->over_user = user;
}

/* A signal mostly comes to all tasks of a job: the chief then saves what this one has. */
static bool may_stop(const est_server *s, int64_t ns)
{
    if (s->n_writers > 0) return false;
    return n_present(s) == 0 || ns > STOP_SECS * EST_NS_PER_SEC;
}

est_status est_server_join(est_server *s)
{
    int64_t    here_ns = est_now_ns(), done_ns = 0, stop_ns = 0, asked_ns = here_ns;
    est_status status = EST_OK;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        int64_t now = est_now_ns();

        if (n_present(s) > 0) here_ns = now;
        if (n_present(s) == 0 && s->over != NULL && now - asked_ns > EST_NS_PER_SEC) {
            asked_ns = now;
            s->done  = s->done || s->over(s->over_user);
        }
        if (s->done && done_ns == 0) done_ns = now;
        if (est_stop_signal() != 0 && stop_ns == 0) stop_ns = now;
        if (stop_ns != 0 && (s->done || may_stop(s, now - stop_ns))) {
            status = est_fail(EST_CANCELLED, "%s: %s was stopped", est_stop_signal_name(), s->task);
            break;
        }
        if (s->done && (n_present(s) == 0 || (double)(now - done_ns) > LEAVE_SECS * (double)EST_NS_PER_SEC)) break;
        if ((double)(now - here_ns) > s->lonely_secs * (double)EST_NS_PER_SEC) {
            status = est_fail(EST_DEADLINE_EXCEEDED, "%s: no task of the job was here for %g s", s->task,
                              s->lonely_secs);
            break;
        }
        forget_lost(s);
        est_server_wake(s); /* some waits end by time */
        est_cond_wait_ns(&s->changed, &s->lock, LOOK_NS);
    }
    pthread_mutex_unlock(&s->lock);
    if (status == EST_OK) est_log_info("%s: the job has ended", s->task);
    return status;
}
