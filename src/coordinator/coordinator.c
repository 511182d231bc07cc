/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a coordinator. */
#include "coordinator/coordinator.h"
#include "base/argument.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "cluster/remote_internal.h"
#include "coordinator/recovery.h"
#include "strategy/run.h"

#define QUEUE_MAX_DEFAULT    262144
#define FAIL_AFTER_DEFAULT   3
#define CONNECT_SECS_DEFAULT 7200.0
#define LONELY_SECS_DEFAULT  7200.0
#define END_SECS             2.0 /* to reach missing workers at the end of the job */

/* --- references --------------------------------------------------------------------------------------------------- */

void est_coordinator_ref(est_coordinator *c)
{
    est_refcount_add(&c->references);
}

void est_coordinator_unref(est_coordinator *c)
{
    if (!est_refcount_drop(&c->references)) return;
    for (int i = 0; i < c->n_workers; i++) {
        est_packing_clear(&c->workers[i].packing);
        est_free(c->workers[i].sent);
    }
    est_free(c->workers);
    est_call_queue_clear(&c->queue);
    est_call_error_free(c->error);
    est_call_error_free(c->over);
    est_free(c->positions);
    est_free(c->ps_known);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    pthread_cond_destroy(&c->missing);
    est_free(c);
}

/* --- creating ----------------------------------------------------------------------------------------------------- */

static est_status take_options(const est_coordinator_options *options, est_coordinator_options *o)
{
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_coordinator_options), options, o));
    if (o->queue_max < 0 || o->fail_after < 0 || (o->ahead < 0 && o->ahead != EST_OFF)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "coordinator: %s is negative; write a number above 0, or 0 for the default",
                        o->queue_max < 0    ? "queue_max"
                        : o->fail_after < 0 ? "fail_after"
                                            : "ahead");
    }
    if (o->queue_max == 0) o->queue_max = QUEUE_MAX_DEFAULT;
    if (o->fail_after == 0) o->fail_after = FAIL_AFTER_DEFAULT;
    if (o->ahead >= EST_CALL_WINDOW) o->ahead = EST_CALL_WINDOW - 1;    /* more are never handed out */
    if (!(o->connect_secs > 0)) o->connect_secs = CONNECT_SECS_DEFAULT; /* NaN as well */
    if (!(o->lonely_secs > 0)) o->lonely_secs = LONELY_SECS_DEFAULT;
    return EST_OK;
}

/* The chief is a task of the cluster; any other program that is no task of it may coordinate as well. */
static est_status check_task(const est_strategy *strategy, const est_task **out)
{
    const est_task *task = strategy->ops->uses_ps ? est_strategy_task(strategy) : NULL;

    if (!strategy->ops->uses_ps || task == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "a coordinator needs a parameter_server strategy with a cluster: %s",
                        strategy->ops->uses_ps ? "give est_parameter_server_strategy a .resolver, or set TF_CONFIG"
                                               : "use est_parameter_server_strategy");
    }
    if (task->type != NULL && !task->is_chief && est_cluster_address(task->cluster, task->type, task->index) != NULL) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "this process is %s:%d, and the chief is the coordinator: run est_server_join here", task->type,
                        task->index);
    }
    if (est_cluster_tasks(task->cluster, "ps") == 0 || est_cluster_tasks(task->cluster, "worker") == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "a coordinator needs ps tasks and workers, but the cluster has no %s",
                        est_cluster_tasks(task->cluster, "ps") == 0 ? "ps task" : "worker");
    }
    *out = task;
    return EST_OK;
}

/* Steps of calls need no turns: the queue bounds them. */
static est_status check_remote(const est_remote *remote)
{
    const est_remote_options *o = &est_tasks_of(remote)->options;

    if (o->sync_replicas == 0 && o->max_staleness == 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "calls of a coordinator are asynchronous: create its strategy without %s",
                    o->sync_replicas > 0 ? "sync_replicas" : "max_staleness");
}

/* Whether a recovery waits in vain. */
static bool is_over(void *user)
{
    est_coordinator *c = user;
    bool             over;

    pthread_mutex_lock(&c->lock);
    over = c->recovering && (c->ending || c->halted);
    pthread_mutex_unlock(&c->lock);
    return over;
}

static est_status start_server(est_coordinator *c, const est_task *task)
{
    const est_coordinator_options *o       = &c->options;
    bool                           is_task = task->type != NULL && task->is_chief;
    char                           folder[EST_FOLDER_TEXT_MAX];

    if (o->model_dir != NULL) est_run_folder(o->model_dir, folder, sizeof folder);
    EST_TRY(est_server_start(task->cluster, is_task ? task->type : NULL, task->index,
                             EST_SERVER(.transport = o->transport, .certificates = o->certificates,
                                        .threads = o->threads, .silence_secs = o->silence_secs),
                             o->model_dir != NULL ? folder : NULL, &c->server));
    EST_TRY(est_strategy_remote(c->strategy, c->server, EST_REMOTE(.is_chief = true, .connect_secs = o->connect_secs),
                                &c->remote));
    EST_TRY(check_remote(c->remote));
    est_remote_set_over(c->remote, is_over, c);
    est_server_extend(c->server, &(est_extension){ .serve  = est_coordinator_refuse,
                                                   .lost   = est_coordinator_link_lost,
                                                   .user   = c,
                                                   .status = est_coordinator_add_status });
    return EST_OK;
}

/* Indices may have gaps, ranks have none. */
static est_status list_workers(est_coordinator *c)
{
    const est_cluster *cluster = c->server->cluster;
    int                n       = est_cluster_tasks(cluster, "worker");

    c->workers = est_zalloc(sizeof *c->workers * (size_t)n);
    if (c->workers == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) {
        est_call_worker *w = &c->workers[c->n_workers];

        w->address = est_cluster_address(cluster, "worker", i);
        if (w->address == NULL) continue;
        snprintf(w->name, sizeof w->name, "worker:%d", i);
        snprintf(w->why, sizeof w->why, "it was not reached yet");
        w->coordinator = c;
        w->rank        = c->n_workers++;
        w->sent        = est_zalloc(sizeof *w->sent);
        if (w->sent == NULL) return est_no_memory();
    }
    return EST_OK;
}

static est_status start_variables(est_coordinator *c, void *user)
{
    (void)user;
    if (c->session == NULL) EST_TRY(est_coordinator_open_session(c));
    return est_coordinator_start_variables(c);
}

/* A ps task that is lost now makes a new session, which begins again with all variables. */
static est_status start(est_coordinator *c, const est_task *task)
{
    est_status status;

    EST_TRY(start_server(c, task));
    EST_TRY(list_workers(c));
    c->alone_ns = est_now_ns();
    if (c->options.model_dir != NULL) EST_TRY(est_saver_create(c->options.model_dir, NULL, &c->saver));
    do {
        status = start_variables(c, NULL);
        if (status == EST_UNAVAILABLE || status == EST_ABORTED) {
            est_log_info("%s: %s", c->server->task, est_error_message());
            est_session_free(c->session);
            c->session = NULL;
        }
    } while (status == EST_UNAVAILABLE);
    EST_TRY(status);
    if (c->saver != NULL) EST_TRY(est_saver_mark_begin(c->saver)); /* evaluators wait for checkpoints again */
    c->seed = est_graph_seed(c->graph) != 0 ? est_graph_seed(c->graph) : c->origin;
    return est_connectors_start(c);
}

static est_status make_locks(est_coordinator *c)
{
    est_status status;

    EST_TRY(est_lock_init(&c->lock));
    status = est_cond_init(&c->changed);
    if (status != EST_OK) goto destroy_lock;
    status = est_cond_init(&c->missing);
    if (status != EST_OK) goto destroy_changed;
    return EST_OK;

destroy_changed:
    pthread_cond_destroy(&c->changed);
destroy_lock:
    pthread_mutex_destroy(&c->lock);
    return status;
}

/* Frees a coordinator that could not start. */
static est_status give_up(est_coordinator *c, est_status status)
{
    est_error error;

    est_signals_tell(status);
    est_error_take(status, &error);
    c->halted = true;
    est_coordinator_free(c);
    return est_error_raise(&error);
}

est_status est_coordinator_create(const est_strategy *strategy, est_graph *graph,
                                  const est_coordinator_options *options, est_coordinator **out)
{
    est_coordinator_options own;
    const est_task         *task = NULL;
    est_coordinator        *c;
    est_status              status;

    EST_REQUIRE(strategy);
    EST_REQUIRE(graph);
    EST_REQUIRE(out);
    EST_TRY(take_options(options, &own));
    EST_TRY(check_task(strategy, &task));
    EST_TRY(est_graph_status(graph));
    c = est_zalloc(sizeof *c);
    if (c == NULL) return est_no_memory();
    status = make_locks(c);
    if (status != EST_OK) {
        est_free(c);
        return status;
    }
    est_refcount_init(&c->references);
    c->strategy = strategy;
    c->graph    = graph;
    c->options  = own;
    if (!own.no_signals) est_signals_catch();
    status = est_call_queue_init(&c->queue);
    if (status == EST_OK) status = start(c, task);
    if (status == EST_OK) {
        *out = c;
    } else {
        status = give_up(c, status);
    }
    return status;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void ignore(void *user, est_status status, const char *error, est_message *answer)
{
    (void)user, (void)status, (void)error, (void)answer;
}

static void tell_done(const est_call_worker *w, est_link *link)
{
    if (est_link_ask(link, EST_METHOD_DONE, est_method_text(EST_METHOD_DONE), (est_payload){ 0 }, EST_FOREVER, ignore,
                     NULL, NULL) == EST_OK)
        return;
    est_log_warn("%s could not be told that the job is done: %s", w->name, est_error_message());
    est_error_clear();
}

/* A worker that is missing is looked for once more, or it would wait for a job that has ended. */
static void tell_missing(const est_coordinator *c, const est_call_worker *w, double secs)
{
    est_link *link;

    if (est_net_connect(est_server_net(c->server), w->address, w->name, secs, &link) != EST_OK) {
        est_log_warn("%s could not be told that the job is done: %s", w->name, est_error_message());
        est_error_clear();
        return;
    }
    tell_done(w, link);
    est_link_close(link, EST_GOODBYE);
    est_link_free(link);
}

static void tell_workers(est_coordinator *c)
{
    int64_t until = est_machine_ns() + est_secs_to_ns(END_SECS);

    for (int i = 0; i < c->n_workers; i++) {
        est_call_worker *w = &c->workers[i];
        est_link        *link;

        pthread_mutex_lock(&c->lock);
        link = w->link != NULL ? est_link_ref(w->link) : NULL;
        pthread_mutex_unlock(&c->lock);
        if (link != NULL) {
            tell_done(w, link);
            est_link_free(link);
        } else {
            tell_missing(c, w, fmax(0, fmin(END_SECS / 4, (double)(until - est_machine_ns()) / 1e9)));
        }
    }
}

/* A coordinator that was replaced must not end the job of the newer one. If it has not noticed that, the ps tasks
 * refuse its origin. */
static est_status check_newest(est_coordinator *c)
{
    bool replaced;

    pthread_mutex_lock(&c->lock);
    replaced = c->halted && c->over != NULL && c->over->status == EST_ABORTED;
    if (replaced) (void)est_fail(EST_ABORTED, "%s", c->over->text);
    pthread_mutex_unlock(&c->lock);
    if (replaced || est_coordinator_tell_origin(c) == EST_ABORTED) return EST_ABORTED;
    est_error_clear(); /* a ps task that is not there */
    return EST_OK;
}

/* With the session. */
static est_status end_job(est_coordinator *c)
{
    EST_TRY(check_newest(c));
    c->ended = true;
    pthread_mutex_lock(&c->lock);
    est_coordinator_halt(c, EST_FAILED_PRECONDITION, "the job has ended (est_coordinator_end)");
    pthread_mutex_unlock(&c->lock);
    tell_workers(c);
    EST_TRY(est_remote_end_job(c->remote));
    return c->saver != NULL ? est_saver_mark_end(c->saver, c->saved_step) : EST_OK; /* evaluators end */
}

est_status est_coordinator_end(est_coordinator *coordinator)
{
    est_status status;

    EST_REQUIRE(coordinator);
    if (coordinator->ended) return EST_OK;
    est_coordinator_take_session(coordinator);
    status = end_job(coordinator);
    est_coordinator_release_session(coordinator, false);
    return status;
}

/* Links are closed with a farewell: workers need not find out that this process is gone. */
static void leave_workers(est_coordinator *c)
{
    for (int i = 0; i < c->n_workers; i++) {
        if (c->workers[i].link != NULL) est_link_close(c->workers[i].link, EST_GOODBYE);
    }
}

void est_coordinator_free(est_coordinator *coordinator)
{
    est_coordinator *c = coordinator;
    bool             caught;

    if (c == NULL) return;
    caught = !c->options.no_signals;
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    if (c->over == NULL) c->over = est_call_error_make(EST_CANCELLED, "the coordinator was freed");
    est_calls_cancel_queued(c, EST_CANCELLED, "the coordinator was freed");
    pthread_cond_broadcast(&c->missing);
    est_coordinator_wake(c);
    pthread_mutex_unlock(&c->lock);
    if (c->polled.begun) est_wait_end(&c->polled.base);
    est_coordinator_free_replaced(c);
    est_session_free(c->session);
    est_remote_free(c->remote);
    est_saver_free(c->saver);
    if (c->server != NULL) {
        pthread_mutex_lock(&c->lock);
        leave_workers(c);
        pthread_mutex_unlock(&c->lock);
        est_net_cancel(est_server_net(c->server), "the coordinator ends");
        est_connectors_stop(c);
        est_server_extend(c->server, NULL);
        est_server_free(c->server); /* calls under way end with it */
    }
    for (int i = 0; i < c->n_workers; i++) est_link_free(c->workers[i].link);
    est_coordinator_unref(c);
    if (caught) est_signals_release_object();
}

/* --- session, checkpoints ----------------------------------------------------------------------------------------- */

bool est_coordinator_refuse(void *user, est_request *request)
{
    (void)user, (void)request;
    return false; /* nobody asks a coordinator for anything */
}

est_session *est_coordinator_session(est_coordinator *coordinator)
{
    est_session *session;

    if (coordinator == NULL) return NULL;
    pthread_mutex_lock(&coordinator->lock);
    session = coordinator->session;
    pthread_mutex_unlock(&coordinator->lock);
    return session;
}

int64_t est_coordinator_epoch(const est_coordinator *coordinator)
{
    return coordinator != NULL ? coordinator->epoch : 0;
}

static est_status init_session(est_coordinator *c, void *user)
{
    (void)user;
    return est_session_init(c->session);
}

est_status est_coordinator_init_variables(est_coordinator *c)
{
    return est_coordinator_use_session(c, init_session, NULL);
}

static est_status write_checkpoint(est_coordinator *c, void *epoch)
{
    return est_coordinator_write_checkpoint(c, *(const int64_t *)epoch);
}

est_status est_coordinator_save(est_coordinator *coordinator, int64_t epoch)
{
    est_coordinator *c = coordinator;
    est_status       status;

    EST_REQUIRE(coordinator);
    if (c->saver == NULL)
        return est_fail(EST_FAILED_PRECONDITION, "est_coordinator_save: give the coordinator a model_dir");
    pthread_mutex_lock(&c->lock);
    status = est_coordinator_quiesce(c);
    pthread_mutex_unlock(&c->lock);
    EST_TRY(status);
    est_coordinator_free_replaced(c);
    status = est_coordinator_use_session(c, write_checkpoint, &epoch);
    pthread_mutex_lock(&c->lock);
    est_coordinator_resume(c);
    pthread_mutex_unlock(&c->lock);
    return status;
}
