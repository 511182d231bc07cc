/* SPDX-License-Identifier: Apache-2.0
 *
 * The sessions of a master, each with a thread and a queue of requests. */
#include "cluster/master.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cluster/master_session.h"
#include "cluster/wait_table.h"

#define SESSIONS_MAX     64  /* each has threads and links to all tasks; a process may often have 1024 descriptors */
#define WAITS_MAX        4   /* that a client is told of */
#define CONNECT_SECS_MAX 1e9 /* more would not fit into a clock of nanoseconds */

typedef struct entry {
    struct entry   *next;
    est_master     *master;
    uint64_t        number;
    const est_link *link; /* of its client; compared, not used */
    char            task[EST_NET_NAME_MAX];
    est_thread      thread;
    pthread_cond_t  changed; /* the queue, `ending` */
    est_queued     *first, **last;
    est_server     *client; /* NULL: not made yet, or freed */
    bool            ending; /* no further request is executed */
    bool            ended;  /* the thread has nothing more to do: it may be joined */
} entry;

struct est_master {
    est_server     *server;
    pthread_mutex_t lock; /* guards what follows, and the entries */
    entry          *entries;
    uint64_t        n_opened;
    bool            stopping;
    bool            aborting; /* no session answers until the links of the server are lost */
    pthread_cond_t  aborted;
};

bool est_master_has(int method)
{
    return method >= EST_METHOD_OPEN_SESSION && method <= EST_METHOD_SESSION_WAITS;
}

/* --- threads that have ended -------------------------------------------------------------------------------------- */

/* Waits for the threads of entries that are in no list any more, and frees them. */
static void join_entries(entry *list)
{
    while (list != NULL) {
        entry *e = list;

        list = e->next;
        est_thread_join(&e->thread);
        pthread_cond_destroy(&e->changed);
        est_free(e);
    }
}

/* Joins the threads that have ended. A session that ends does it for those before it, so that at most one is left. */
static void reap(est_master *m)
{
    entry *ended = NULL;

    pthread_mutex_lock(&m->lock);
    for (entry **at = &m->entries; *at != NULL;) {
        entry *e = *at;

        if (!e->ended) {
            at = &e->next;
            continue;
        }
        *at     = e->next;
        e->next = ended;
        ended   = e;
    }
    pthread_mutex_unlock(&m->lock);
    join_entries(ended);
}

/* --- the thread of a session -------------------------------------------------------------------------------------- */

/* The next request; NULL: the session ends. */
static est_request *take_request(entry *e)
{
    est_queued  *job = NULL;
    est_request *request;

    pthread_mutex_lock(&e->master->lock);
    while (e->first == NULL && !e->ending) pthread_cond_wait(&e->changed, &e->master->lock);
    if (!e->ending) {
        job      = e->first;
        e->first = job->next;
        if (e->first == NULL) e->last = &e->first;
    }
    pthread_mutex_unlock(&e->master->lock);
    request = job != NULL ? job->request : NULL;
    est_free(job);
    return request;
}

/* A client of its own towards the tasks: its runs are numbered, and its tensors named, apart from those of others. */
static est_status make_client(entry *e, est_server **out)
{
    const est_server *s = e->master->server;
    char              transport[16];
    est_server       *client;
    est_status        status = EST_OK;

    snprintf(transport, sizeof transport, "%.*s", (int)strcspn(s->target, ":"), s->target);
    EST_TRY(est_server_create(s->cluster, NULL, 0,
                              EST_SERVER(.transport = transport, .certificates = s->certificates, .job = s->self.job,
                                         .threads = s->threads, .silence_secs = s->silence_secs),
                              &client));
    pthread_mutex_lock(&e->master->lock);
    e->client = client;
    if (e->ending) status = est_fail(EST_CANCELLED, "the session ends");
    pthread_mutex_unlock(&e->master->lock);
    *out = client;
    return status;
}

static est_status open_session(entry *e, est_master_session *s, est_request *request, est_server **client)
{
    double connect_secs = (double)est_head_u64(est_request_message(request), EST_FIELD_CONNECT_MS, 0) / 1000;

    EST_TRY(make_client(e, client));
    return est_master_session_open(s, *client, fmin(connect_secs, CONNECT_SECS_MAX));
}

static void answer_opened(const entry *e, est_request *request)
{
    est_packing out = { 0 };

    est_wire_put_u64(&out.head, EST_FIELD_SESSION, e->number);
    est_service_finish(request, EST_OK, &out);
}

static void fail_request(entry *e, est_request *request, est_status status, const char *why)
{
    pthread_mutex_lock(&e->master->lock);
    while (e->master->aborting) pthread_cond_wait(&e->master->aborted, &e->master->lock);
    pthread_mutex_unlock(&e->master->lock);
    est_request_fail(request, status, why);
}

static void end_entry(entry *e, est_server *client)
{
    est_queued *list;

    pthread_mutex_lock(&e->master->lock);
    e->client = NULL; /* nobody cancels it from now on */
    e->ending = true;
    list      = e->first;
    e->first  = NULL;
    e->last   = &e->first;
    pthread_mutex_unlock(&e->master->lock);
    while (list != NULL) {
        est_queued *job = list;

        list = job->next;
        fail_request(e, job->request, EST_ABORTED, "the session has ended");
        est_free(job);
    }
    est_server_free(client);
    reap(e->master);
    pthread_mutex_lock(&e->master->lock);
    e->ended = true;
    pthread_mutex_unlock(&e->master->lock);
}

static void execute(entry *e, est_master_session *s, est_request *request)
{
    est_status status = est_master_session_execute(s, request);

    if (status != EST_OK) fail_request(e, request, status, est_error_message());
}

static void *serve_session(void *arg)
{
    entry             *e       = arg;
    est_master_session s       = { 0 };
    est_server        *client  = NULL;
    est_request       *request = take_request(e); /* OPEN_SESSION */
    est_status         status;

    if (request != NULL) {
        status = open_session(e, &s, request, &client);
        if (status == EST_OK) {
            answer_opened(e, request);
            est_log_info("%s: session %" PRIu64 " of %s", e->master->server->task, e->number, e->task);
        } else {
            fail_request(e, request, status, est_error_message());
        }
        while (status == EST_OK && (request = take_request(e)) != NULL) execute(e, &s, request);
    }
    est_master_session_close(&s);
    end_entry(e, client);
    return NULL;
}

/* --- sessions ----------------------------------------------------------------------------------------------------- */

/* Under the lock. */
static void end_session(entry *e, const char *why)
{
    e->ending = true;
    pthread_cond_signal(&e->changed);
    if (e->client != NULL) est_net_cancel(est_server_net(e->client), why);
}

static est_status queue_request(entry *e, est_request *request)
{
    est_queued *job = est_alloc(sizeof *job);

    if (job == NULL) return est_no_memory();
    *job     = (est_queued){ .request = request };
    *e->last = job;
    e->last  = &job->next;
    pthread_cond_signal(&e->changed);
    return EST_OK;
}

static est_status start_session(est_master *m, est_request *request)
{
    entry     *e = est_zalloc(sizeof *e);
    est_status status;

    if (e == NULL) return est_no_memory();
    *e = (entry){ .master = m, .number = m->n_opened + 1, .link = est_request_link(request), .next = m->entries };
    memcpy(e->task, est_link_peer(est_request_link(request))->task, sizeof e->task);
    e->last = &e->first;
    status  = est_cond_init(&e->changed);
    if (status == EST_OK) {
        status = queue_request(e, request);
        if (status == EST_OK) status = est_thread_start(&e->thread, "est-master", serve_session, e);
        if (status != EST_OK) {
            est_free(e->first);
            pthread_cond_destroy(&e->changed);
        }
    }
    if (status != EST_OK) {
        est_free(e);
        return status;
    }
    m->n_opened++;
    m->entries = e;
    return EST_OK;
}

/* Those that are ending count: they have their threads and links until a task has answered or the client is gone. */
static int count_sessions(const est_master *m)
{
    int n = 0;

    for (const entry *e = m->entries; e != NULL; e = e->next) n += !e->ended;
    return n;
}

static est_status open_or_refuse(est_master *m, est_request *request)
{
    if (m->server->target[0] == '\0') return est_fail(EST_FAILED_PRECONDITION, "a client has no master");
    if (count_sessions(m) >= SESSIONS_MAX) {
        return est_fail(EST_RESOURCE_EXHAUSTED,
                        "%s has %d sessions, which is the most: close some, and wait until they have ended",
                        m->server->task, SESSIONS_MAX);
    }
    return start_session(m, request);
}

/* The session of a request, which must come over the link that opened it. */
static est_status find_session(const est_master *m, const est_request *request, entry **out)
{
    uint64_t number = est_head_u64(est_request_message(request), EST_FIELD_SESSION, 0);

    for (entry *e = m->entries; e != NULL; e = e->next) {
        if (e->number != number || e->link != est_request_link(request) || e->ending) continue;
        *out = e;
        return EST_OK;
    }
    return est_fail(EST_ABORTED, "%s has no such session of this client: make a new one", m->server->task);
}

/* Tells a client what its sessions wait for: "worker:1, nobody answers there". */
static est_status answer_waits(const est_master *m, est_request *request)
{
    est_packing out  = { 0 };
    est_strbuf  text = { 0 };
    est_wait    waits[WAITS_MAX];
    est_status  status;

    for (const entry *e = m->entries; e != NULL; e = e->next) {
        int n = e->link == est_request_link(request) && e->client != NULL
                    ? est_waits_of(e->client->task, waits, WAITS_MAX)
                    : 0;

        for (int i = 0; i < n; i++) {
            est_strbuf_printf(&text, "%s%s, %s", est_strbuf_text(&text)[0] != '\0' ? "; " : "", waits[i].for_whom,
                              waits[i].why);
        }
    }
    est_wire_put_string(&out.head, EST_FIELD_BYTES, est_strbuf_text(&text));
    status = est_strbuf_status(&text);
    est_strbuf_clear(&text);
    if (status == EST_OK) est_service_finish(request, EST_OK, &out);
    if (status != EST_OK) est_packing_clear(&out);
    return status;
}

/* Under the lock. */
static est_status serve(est_master *m, est_request *request)
{
    entry *e;

    if (m->stopping) return est_fail(EST_UNAVAILABLE, "the server is shutting down");
    if (est_request_method(request) == EST_METHOD_OPEN_SESSION) return open_or_refuse(m, request);
    if (est_request_method(request) == EST_METHOD_SESSION_WAITS) return answer_waits(m, request);
    EST_TRY(find_session(m, request, &e));
    if (est_request_method(request) != EST_METHOD_CLOSE_SESSION) return queue_request(e, request);
    e->ending = true; /* without a cancel, so that it says goodbye to the tasks */
    pthread_cond_signal(&e->changed);
    est_service_finish(request, EST_OK, NULL);
    return EST_OK;
}

void est_master_serve(est_master *m, est_request *request)
{
    est_status status;

    if (est_request_method(request) == EST_METHOD_OPEN_SESSION) reap(m);
    pthread_mutex_lock(&m->lock);
    status = serve(m, request);
    pthread_mutex_unlock(&m->lock);
    if (status != EST_OK) est_request_fail(request, status, est_error_message());
}

void est_master_lose_link(est_master *m, const est_link *link)
{
    pthread_mutex_lock(&m->lock);
    for (entry *e = m->entries; e != NULL; e = e->next) {
        if (e->link == link && !e->ended) end_session(e, "its client is lost");
    }
    pthread_mutex_unlock(&m->lock);
}

int est_master_sessions(est_master *m)
{
    int n;

    pthread_mutex_lock(&m->lock);
    n = count_sessions(m);
    pthread_mutex_unlock(&m->lock);
    return n;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

est_status est_master_create(est_server *server, est_master **out)
{
    est_master *m = est_zalloc(sizeof *m);
    est_status  status;

    if (m == NULL) return est_no_memory();
    m->server = server;
    status    = est_lock_init(&m->lock);
    if (status == EST_OK) {
        status = est_cond_init(&m->aborted);
        if (status != EST_OK) pthread_mutex_destroy(&m->lock);
    }
    if (status != EST_OK) {
        est_free(m);
        return status;
    }
    *out = m;
    return EST_OK;
}

void est_master_abort(est_master *m, const char *why)
{
    pthread_mutex_lock(&m->lock); /* no callback of the sessions' own nets takes it */
    m->stopping = m->aborting = true;
    for (entry *e = m->entries; e != NULL; e = e->next) {
        e->ending = true;
        pthread_cond_signal(&e->changed);
        if (e->client != NULL) est_net_abort(est_server_net(e->client), why);
    }
    pthread_mutex_unlock(&m->lock);
    est_net_abort(est_server_net(m->server), why); /* last: sessions would tell the tasks of the loss */
    pthread_mutex_lock(&m->lock);
    m->aborting = false;
    pthread_cond_broadcast(&m->aborted);
    pthread_mutex_unlock(&m->lock);
}

/* The network thread still serves: it finds no entries from now on. */
void est_master_stop(est_master *m)
{
    entry *list;

    if (m == NULL) return;
    pthread_mutex_lock(&m->lock);
    m->stopping = true;
    list        = m->entries;
    m->entries  = NULL;
    for (entry *e = list; e != NULL; e = e->next) end_session(e, "the server is shutting down");
    pthread_mutex_unlock(&m->lock);
    join_entries(list);
}

void est_master_free(est_master *m)
{
    if (m == NULL) return;
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->aborted);
    est_free(m);
}
