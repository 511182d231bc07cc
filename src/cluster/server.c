/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a server: start, the executor, shutdown and the end of the job. */
#include "base/argument.h"
#include "cluster/call_records.h"
#include "cluster/service_calls.h"
#include "cluster/service_files.h"
#include "cluster/service_segments.h"
#include "cluster/sync_replicas.h"
#include "cluster/terms.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
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
#include "base/strbuf.h"
#include "cluster/wait_table.h"
#include "net/certificates.h"

#define LONELY_SECS_DEFAULT  7200.0
#define SILENCE_SECS_DEFAULT 10.0
#define LEAVE_SECS           30.0         /* for others to leave after the end of the job */
#define STOP_SECS            INT64_C(10)  /* for others to leave after a signal */
#define WRITE_SECS           INT64_C(300) /* for disks after a signal: one that hangs must not keep the process */
#define LOOK_NS              (EST_NS_PER_SEC / 10)
#define SWEEP_NS             EST_NS_PER_SEC /* between two looks for clients that will not come back */

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

/* --- the executor ------------------------------------------------------------------------------------------------- */

/* The first request of a client that fetches its answers; requests of one client stay in order. NULL: none. */
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
    est_calls_wake(s, false);
}

/* Every server has an executor, also one whose program never calls est_server_join. */
static void sweep(est_server *s, int64_t *swept_ns)
{
    int64_t now = est_now_ns();

    if (now - *swept_ns < SWEEP_NS) return;
    *swept_ns = now;
    est_clients_forget_gone(s);
}

static void *execute(void *arg)
{
    est_server *s        = arg;
    int64_t     swept_ns = est_now_ns();

    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        est_queued *job;

        sweep(s, &swept_ns);
        job = take_job(s);
        if (job == NULL) {
            est_cond_wait_ns(&s->changed, &s->lock, SWEEP_NS);
            continue;
        }
        s->busy = true;
        pthread_mutex_unlock(&s->lock);
        est_service_execute(s, job->request);
        est_free(job);
        pthread_mutex_lock(&s->lock);
        s->busy = s->first != NULL;
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

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

/* The folder of certificates: the one that is named, or that of the user for a cluster on this machine. */
static est_status find_certificates(const est_server *s, const est_server_options *o, const char *transport,
                                    char own[PATH_MAX], const char **out)
{
    *out = or_environment(o->certificates, "ESTOC_CERTS", NULL);
    if (*out != NULL || strcmp(transport, "tls") != 0 || !est_cluster_is_local(s->cluster)) return EST_OK;
    *out = own;
    return est_certificates_of_user(own, PATH_MAX);
}

static est_status start_net(est_server *s, const est_server_options *o, const char *address)
{
    const char     *transport = or_environment(o->transport, "ESTOC_PROTOCOL", "tls");
    char            own[PATH_MAX];
    est_net_options options = { .transport    = strcmp(transport, "grpc") == 0 ? "tls" : transport,
                                .self         = s->self,
                                .silence_secs = s->silence_secs,
                                .serve        = est_service_serve,
                                .admit        = est_clients_admit,
                                .met          = est_clients_met,
                                .lost         = est_clients_lost,
                                .drained      = drained,
                                .user         = s };

    EST_TRY(find_certificates(s, o, options.transport, own, &options.certificates));
    if (options.certificates != NULL) {
        s->certificates = est_strdup(options.certificates);
        if (s->certificates == NULL) return est_no_memory();
    }
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
    if (est_cluster_jobs(s->cluster) == 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the cluster is empty and has no task %s:%d: is TF_CONFIG not set? Start the tasks of the "
                        "cluster with `estoc launch`, or set TF_CONFIG for each",
                        type, index);
    }
    return est_fail(EST_INVALID_ARGUMENT, "the cluster has no task %s:%d", type, index);
}

/* The time in microseconds, so that later starts have greater numbers, also the next one in this process, and 12 random
 * bits for starts at the same time. */
static uint64_t draw_incarnation(void)
{
    uint32_t few = 0;

    if (getrandom(&few, sizeof few, 0) != (ssize_t)sizeof few) few = (uint32_t)getpid();
    return (uint64_t)(est_wall_ns() / 1000) << 12 | (few & 0xfff);
}

/* Texts of hellos are printable: a name with control characters is left out. */
static void set_folder(const char *folder, char out[EST_NET_FOLDER_MAX])
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

/* The name of the job, which peers compare and print. */
static est_status set_job(const char *given, char out[EST_NET_NAME_MAX])
{
    const char *job   = or_environment(given, "ESTOC_JOB", ""), *end;
    est_strbuf  shown = { 0 };
    est_status  status;

    for (end = job; *end != '\0' && (unsigned char)*end >= 0x20 && *end != 0x7f;) end++;
    if (*end == '\0' && end - job < EST_NET_NAME_MAX) {
        memcpy(out, job, (size_t)(end - job) + 1);
        return EST_OK;
    }
    est_strbuf_append_printable(&shown, job, strlen(job), "");
    if (*end != '\0') {
        status = est_fail(EST_INVALID_ARGUMENT,
                          "the name of the job (ESTOC_JOB), \"%s\", has a control character; use letters, digits and -",
                          est_strbuf_text(&shown));
    } else {
        status = est_fail(EST_INVALID_ARGUMENT,
                          "the name of the job (ESTOC_JOB), \"%s\", has %zu bytes; choose one of at most %d",
                          est_strbuf_text(&shown), strlen(job), EST_NET_NAME_MAX - 1);
    }
    est_strbuf_clear(&shown);
    return status;
}

static est_status copy_functions(est_server *s, est_worker_functions given)
{
    est_worker_function *copies;

    if (given.n == 0) return EST_OK;
    if (given.n < 0 || given.data == NULL)
        return est_fail(EST_INVALID_ARGUMENT, "functions: %d given, but the pointer is NULL", given.n);
    copies = est_zalloc(sizeof *copies * (size_t)given.n);
    if (copies == NULL) return est_no_memory();
    s->functions.data = copies;
    for (int i = 0; i < given.n; i++) {
        if (given.data[i].name == NULL || given.data[i].input_fn == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "function %d of the server has no %s", i,
                            given.data[i].name == NULL ? "name" : "input_fn");
        }
        copies[i]      = given.data[i];
        copies[i].name = est_strdup(given.data[i].name);
        if (copies[i].name == NULL) return est_no_memory();
        s->functions.n++;
    }
    return EST_OK;
}

static void free_functions(est_worker_functions *functions)
{
    est_worker_function *copies;

    memcpy(&copies, &functions->data, sizeof copies); /* they are this server's own */
    for (int i = 0; i < functions->n; i++) {
        char *name;

        memcpy(&name, &copies[i].name, sizeof name);
        est_free(name);
    }
    est_free(copies);
}

static est_status server_set_up(est_server *s, const char *type, int index, const est_server_options *o,
                                const char *folder)
{
    const char *address;

    EST_TRY(find_address(s, type, index, &address));
    s->self.incarnation = s->timeline = draw_incarnation();
    if (type != NULL) {
        snprintf(s->task, sizeof s->task, "%s:%d", type, index);
    } else { /* process ids of two containers may be equal: the incarnation tells them apart */
        snprintf(s->task, sizeof s->task, "client:%ld-%08" PRIx32, (long)getpid(), (uint32_t)s->self.incarnation);
    }
    EST_TRY(set_job(o->job, s->self.job));
    memcpy(s->self.task, s->task, sizeof s->self.task);
    describe_place(address, folder, s->self.place);
    if (folder != NULL) set_folder(folder, s->self.folder);
    s->silence_secs     = o->silence_secs > 0 ? o->silence_secs : SILENCE_SECS_DEFAULT;
    s->lonely_secs      = o->lonely_secs > 0 ? o->lonely_secs : LONELY_SECS_DEFAULT;
    s->start_ns         = est_now_ns();
    s->samples[0].at_ns = s->samples[1].at_ns = s->start_ns;
    s->threads                                = o->threads;
    EST_TRY(copy_functions(s, o->functions));
    EST_TRY(open_ledger(s));
    EST_TRY(est_host_create(o->threads, &s->host));
    EST_TRY(est_gate_create(&s->gate));
    EST_TRY(est_master_create(s, &s->master));
    EST_TRY(est_rendezvous_create(s, &s->rendezvous));
    EST_TRY(est_sender_create(s, &s->sender));
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
    EST_REQUIRE(out);
    return est_server_start(cluster, type, index, options, NULL, out);
}

est_status est_server_start(const est_cluster *cluster, const char *type, int index, const est_server_options *options,
                            const char *folder, est_server **out)
{
    est_server_options own;
    est_server        *s;
    est_status         status;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_server_options), options, &own));
    s = est_zalloc(sizeof *s);
    if (s == NULL) return est_no_memory();
    s->last = &s->first;
    s->step = -1;
    status  = make_locks(s);
    if (status == EST_OK) status = est_cluster_copy(cluster, &s->cluster);
    if (status == EST_OK) status = server_set_up(s, type, index, &own, folder);
    if (status != EST_OK) {
        est_server_free(s);
        return type != NULL ? est_fail_context(status, "task %s", type) : status;
    }
    if (s->target[0] != '\0') est_log_info("%s listens at %s", s->task, s->target);
    *out = s;
    return EST_OK;
}

const char *est_server_target(const est_server *server)
{
    return server != NULL ? server->target : NULL;
}

void est_server_kill(est_server *server)
{
    est_master_abort(server->master, "it was stopped"); /* first: a dead process refuses nothing */
    est_server_stop(server);
}

void est_server_stop(est_server *server)
{
    if (server == NULL) return;
    pthread_mutex_lock(&server->lock);
    server->stop_asked = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

est_net *est_server_net(est_server *server)
{
    return server->net;
}

static void look_for_signal(est_server *s)
{
    if (est_stop_signal() != 0 && s->stop_ns == 0) s->stop_ns = est_now_ns();
}

static void log_writing(const est_server *s, const est_writing *w, const char *what)
{
    est_log_warn("%s: %s %s for %s, which began %.0f s ago", s->task, what, w->prefix, w->task,
                 (double)(est_now_ns() - w->since_ns) / (double)EST_NS_PER_SEC);
}

/* Whether all snapshots are on disk, or a signal came so long ago that they are abandoned. */
static bool has_written(est_server *s)
{
    look_for_signal(s);
    if (s->writing == NULL) return true;
    if (s->stop_ns == 0) return false;
    for (est_writing *w = s->writing; w != NULL; w = w->next) {
        if (!w->told) log_writing(s, w, "is stopping and still writes");
        w->told = true;
    }
    return est_now_ns() - s->stop_ns > WRITE_SECS * EST_NS_PER_SEC;
}

/* Releases `lock` while it writes the log, which may be on the disk that hangs. */
static void report_unlocked(est_server *s, est_waiting *w, const char *detail)
{
    pthread_mutex_unlock(&s->lock);
    est_wait_report(w, detail);
    pthread_mutex_lock(&s->lock);
}

/* Waits until snapshots are written: after a signal for WRITE_SECS, else without a limit. Under `lock`. */
static void await_written(est_server *s)
{
    est_waiting w = est_wait_begin(s->task, "its disk", "it still writes checkpoints", INFINITY);

    while (!has_written(s)) {
        if (s->stop_ns != 0) w.limit_secs = (double)WRITE_SECS;
        if (est_wait_is_due(&w)) {
            char prefix[PATH_MAX];

            snprintf(prefix, sizeof prefix, "%s", s->writing->prefix);
            report_unlocked(s, &w, prefix);
        } else {
            est_cond_wait_ns(&s->changed, &s->lock, LOOK_NS);
        }
    }
    est_wait_end(&w);
    est_service_end_saves(s, NULL);
}

/* Waits for snapshots twice: the executor may wait for one, and may start another before it ends. */
static void stop_executor(est_server *s)
{
    if (!s->has_executor) return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->changed);
    await_written(s);
    pthread_mutex_unlock(&s->lock);
    est_thread_join(&s->executor);
    pthread_mutex_lock(&s->lock);
    await_written(s);
    for (const est_writing *w = s->writing; w != NULL; w = w->next) log_writing(s, w, "ends without having written");
    pthread_mutex_unlock(&s->lock);
}

static void fail_requests(est_server *s)
{
    void           *waiter;
    est_gate_answer answer;

    for (est_queued *job = s->first; job != NULL;) {
        est_queued *next = job->next;

        est_request_fail(job->request, EST_UNAVAILABLE, "the server is shutting down");
        est_free(job);
        job = next;
    }
    for (int i = 0; i < s->n_parked; i++)
        est_request_fail(s->parked[i].request, EST_UNAVAILABLE, "the server is shutting down");
    s->first    = NULL;
    s->last     = &s->first;
    s->n_parked = 0;
    if (s->gate == NULL) return;
    est_gate_finish(s->gate, true);
    while (est_gate_next(s->gate, &waiter, &answer))
        est_request_fail(waiter, EST_UNAVAILABLE, "the server is shutting down");
}

void est_server_free_rest(est_server *s)
{
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    est_free(s);
}

void est_server_free(est_server *s)
{
    bool last;

    if (s == NULL) return;
    est_master_stop(s->master); /* while this task still serves it */
    stop_executor(s);
    est_calls_stop(s);
    est_sender_stop(s->sender);
    est_rendezvous_stop(s->rendezvous);
    pthread_mutex_lock(&s->lock);
    fail_requests(s);
    pthread_mutex_unlock(&s->lock);
    est_net_free(s->net); /* no callback comes after it */
    est_calls_free(s);
    est_master_free(s->master);
    est_sender_free(s->sender);
    est_rendezvous_free(s->rendezvous);
    for (int i = 0; i < s->n_clients; i++) est_clients_free_one(s->clients[i]);
    est_free(s->clients);
    est_free(s->parked);
    est_gate_free(s->gate);
    for (int i = 0; s->segments != NULL && i < est_host_segments(s->host); i++) {
        est_service_clear_segment(&s->segments[i]);
    }
    est_call_records_clear(&s->calls);
    est_host_free(s->host);
    est_free(s->segments);
    est_free(s->feeds);
    est_unpacked_clear(&s->inputs);
    est_packing_clear(&s->outputs);
    if (s->ledger != NULL) fclose(s->ledger);
    est_cluster_free(s->cluster);
    free_functions(&s->functions);
    est_free(s->certificates);
    est_free(s->root);
    est_free(s->terms);
    pthread_mutex_destroy(&s->host_lock);
    pthread_mutex_lock(&s->lock);
    s->freed = true;
    last     = s->writing == NULL;
    pthread_mutex_unlock(&s->lock);
    if (last) est_server_free_rest(s);
}

/* --- the end of the job ------------------------------------------------------------------------------------------- */

/* Tasks count, unless they only exchange tensors of steps that others drive, and external clients that have asked for
 * more than the status: they drive the cluster. */
static bool is_present(const est_client *client)
{
    if (client->link == NULL || (client->transfers && !client->asks)) return false;
    return !est_is_external(client->who.task) ||
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

    if (root == NULL) return est_no_memory();
    pthread_mutex_lock(&server->lock); /* a chief may be connected already */
    assert(server->root == NULL);
    server->root = root;
    pthread_mutex_unlock(&server->lock);
    return EST_OK;
}

const char *est_server_root(est_server *server)
{
    const char *root;

    pthread_mutex_lock(&server->lock);
    root = server->root;
    pthread_mutex_unlock(&server->lock);
    return root;
}

void est_server_set_over(est_server *server, bool (*over)(void *user), void *user)
{
    server->over      = over;
    server->over_user = user;
}

/* A signal usually comes to all tasks of a job: the chief saves the variables of this one first. */
static bool may_stop(est_server *s)
{
    if (n_present(s) > 0 && est_now_ns() - s->stop_ns <= STOP_SECS * EST_NS_PER_SEC) return false;
    return has_written(s);
}

/* Why a task waits for others that drive the job; NULL: it does not. */
static const char *why_alone(const est_server *s)
{
    if (n_present(s) > 0) return NULL;
    return s->coordinated ? "it has left: start it again; a program that is complete calls est_coordinator_end"
                          : "no task of the job is connected";
}

/* Why a task of an Estimator's job waits for the chief; NULL: it does not. */
static const char *why_chief(const est_server *s)
{
    const est_client *chief = est_clients_find(s, est_server_chief(s, NULL));
    bool              here  = chief != NULL && chief->link != NULL;

    if (!s->ready) return here ? "it has not initialized the variables" : "it has not come";
    if (here) return NULL;
    return n_present(s) > 0 ? "it is gone, and nothing is saved without it"
                            : "it is gone, and must come back to save the last steps and to end the job";
}

static void end_wait(est_waiting *w)
{
    if (w->why != NULL) est_wait_end(w);
    *w = (est_waiting){ 0 };
}

/* Begins, continues or ends the wait for others; w->why NULL: there is none. The wait has a limit only while no client
 * is connected, counted from `here_ns`; clients that come and go do not restart it. */
static void await_others(est_server *s, est_waiting *w, int64_t here_ns)
{
    bool        estimator = s->root != NULL;
    const char *address = "", *name = s->coordinated ? "the coordinator" : "clients";
    const char *why = s->done ? NULL : estimator ? why_chief(s) : why_alone(s);

    if (estimator) name = est_server_chief(s, &address);
    if (why == NULL || (w->why != NULL && strcmp(w->for_whom, name) != 0)) end_wait(w);
    if (why == NULL) return;
    if (w->why == NULL) {
        *w             = est_wait_begin(s->task, name, why, s->lonely_secs);
        w->report_secs = fmin(w->report_secs, s->silence_secs);
    }
    if (w->why != why) est_wait_set_why(w, why);
    w->limit_secs = INFINITY;
    if (n_present(s) == 0) w->limit_secs = round(s->lonely_secs + (double)(here_ns - w->since_ns) / 1e9);
    if (est_wait_is_due(w)) report_unlocked(s, w, address);
}

/* Asks the layer above, every second while nobody is connected, whether the job is over. Under `lock`. */
static void ask_whether_over(est_server *s, int64_t now, int64_t *asked_ns)
{
    bool over;

    if (n_present(s) > 0 || s->over == NULL || now - *asked_ns <= EST_NS_PER_SEC) return;
    *asked_ns = now;
    pthread_mutex_unlock(&s->lock); /* it reads files */
    over = s->over(s->over_user);
    pthread_mutex_lock(&s->lock);
    s->done = s->done || over;
}

/* Whether est_server_join returns, and with what. here_ns: when a client was last connected; done_ns: when the job
 * ended. */
static bool join_ends(est_server *s, int64_t now, int64_t here_ns, int64_t done_ns, est_status *status)
{
    look_for_signal(s);
    if (s->stop_asked) {
        *status = est_fail(EST_CANCELLED, "%s was stopped", s->task);
        return true;
    }
    if (s->done && (s->stop_ns != 0 || n_present(s) == 0)) return true; /* all is saved: only others have to leave */
    if (s->done && (double)(now - done_ns) > LEAVE_SECS * (double)EST_NS_PER_SEC) return true;
    if (s->stop_ns != 0 && may_stop(s)) {
        *status = est_fail(EST_CANCELLED, "%s: %s was stopped", est_stop_signal_name(), s->task);
    } else if ((double)(now - here_ns) > s->lonely_secs * (double)EST_NS_PER_SEC) {
        *status = est_fail(EST_DEADLINE_EXCEEDED, "%s: no task of the job was connected for %g s", s->task,
                           s->lonely_secs);
    }
    return *status != EST_OK;
}

est_status est_server_join(est_server *s)
{
    int64_t     here_ns = est_now_ns(), done_ns = 0, asked_ns = here_ns;
    est_waiting wait   = { 0 };
    est_status  status = EST_OK;

    EST_REQUIRE(s);
    pthread_mutex_lock(&s->lock);
    s->joined = true;
    for (;;) {
        int64_t now = est_now_ns();

        if (n_present(s) > 0) here_ns = now;
        await_others(s, &wait, here_ns);
        ask_whether_over(s, now, &asked_ns);
        if (s->done && done_ns == 0) done_ns = now;
        if (join_ends(s, now, here_ns, done_ns, &status)) break;
        est_clients_expire_turns(s);
        est_server_wake(s); /* some conditions depend on time */
        est_cond_wait_ns(&s->changed, &s->lock, LOOK_NS);
    }
    s->joined = false;
    end_wait(&wait);
    pthread_mutex_unlock(&s->lock);
    if (status == EST_OK) est_log_info("%s: the job has ended", s->task);
    return status;
}
