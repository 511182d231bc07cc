/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks of a cluster with parameter servers. */
#include "estimator/cluster_task.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/strbuf.h"
#include "estoc/layers.h"
#include "graph/graph.h"
#include "strategy/strategy.h"
#include "tensor/shape.h"

#define DELAY_EACH_SECS 5.0 /* between the starts of two workers */

bool est_has_ps(const est_estimator *estimator)
{
    return est_cluster_tasks(estimator->task->cluster, "ps") > 0;
}

/* The mark alone may be of an earlier training; together with the last step it is of this one. */
bool est_job_is_over(est_estimator *estimator, int64_t max_steps)
{
    est_strbuf path = { 0 };
    int64_t    saved;
    bool       marked;

    if (max_steps <= 0) return false;
    est_strbuf_printf(&path, "%s/" EST_DONE_FILE, estimator->model_dir);
    marked = est_strbuf_status(&path) == EST_OK && est_file_exists(est_strbuf_text(&path));
    est_strbuf_clear(&path);
    return marked && est_estimator_saved_step(estimator, &saved) == EST_OK && saved >= max_steps;
}

/* Without a last step the mark is of this job when it was made while this task was there. */
static bool was_marked_since(const est_estimator *estimator, double start_secs)
{
    est_strbuf  path = { 0 };
    struct stat info;
    bool        since;

    est_strbuf_printf(&path, "%s/" EST_DONE_FILE, estimator->model_dir);
    since = est_strbuf_status(&path) == EST_OK && stat(est_strbuf_text(&path), &info) == 0 &&
            (double)info.st_mtim.tv_sec + (double)info.st_mtim.tv_nsec / (double)EST_NS_PER_SEC > start_secs;
    est_strbuf_clear(&path);
    return since;
}

bool est_cluster_task_is_over(const est_cluster_task *task)
{
    return est_job_is_over(task->estimator, task->max_steps) || was_marked_since(task->estimator, task->start_secs);
}

static bool is_over(void *user)
{
    return est_cluster_task_is_over(user);
}

/* What TensorFlow calls grpc is whatever the environment says, or tls. */
static const char *transport_of(const est_run_config *config)
{
    if (config->protocol == NULL || strcmp(config->protocol, "grpc") == 0) return NULL;
    return strcmp(config->protocol, "grpc+verbs") == 0 ? "ucx" : config->protocol;
}

/* type NULL: a client. */
static est_status start_server(const est_estimator *estimator, const est_cluster *cluster, const char *type, int index,
                               est_server **out)
{
    char folder[EST_DIR_TEXT_MAX];

    est_estimator_full_dir(estimator, folder, sizeof folder);
    return est_server_start(cluster, type, index,
                            EST_SERVER(.transport    = transport_of(&estimator->config),
                                       .threads      = estimator->config.threads,
                                       .silence_secs = estimator->config.peer_silence_secs,
                                       .lonely_secs  = estimator->config.session_creation_timeout_secs),
                            folder, out);
}

static est_status start_task(const est_estimator *estimator, est_server **out)
{
    const est_task *task = estimator->task;

    return start_server(estimator, task->cluster, task->type, task->index, out);
}

est_status est_cluster_watch_open(const est_estimator *estimator, est_server **out)
{
    return start_server(estimator, est_resolver_watched(estimator->resolver), NULL, 0, out);
}

est_status est_cluster_task_serve(est_cluster_task *task)
{
    return start_task(task->estimator, &task->server);
}

est_status est_cluster_task_open(est_estimator *estimator, int64_t max_steps, est_cluster_task *out)
{
    const est_strategy          *strategy = estimator->config.train_distribute;
    est_parameter_server_options how      = { 0 };
    est_status                   status;

    if (strategy != NULL) how = strategy->ps;
    if (how.sync_replicas > estimator->task->num_worker_replicas) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "parameter_server: sync_replicas is %d, and the cluster has %d tasks that train",
                        how.sync_replicas, estimator->task->num_worker_replicas);
    }
    *out = (est_cluster_task){ .estimator = estimator, .max_steps = max_steps, .start_secs = est_wall_secs() };
    EST_TRY(start_task(estimator, &out->server));
    status = est_remote_create(
        out->server,
        EST_REMOTE(.is_chief     = estimator->task->is_chief,
                   .connect_secs = estimator->config.session_creation_timeout_secs, .step_limit = max_steps,
                   .partitioner = how.partitioner, .round_robin = how.round_robin, .sync_replicas = how.sync_replicas,
                   .max_staleness = how.max_staleness, .consistent_saves = how.consistent_checkpoints),
        &out->remote);
    if (status == EST_OK) {
        est_remote_set_over(out->remote, is_over, out);
    } else {
        est_cluster_task_close(out);
    }
    return status;
}

void est_terms_add_max_steps(est_strbuf *terms, int64_t max_steps)
{
    if (max_steps > 0) {
        est_strbuf_printf(terms, "max_steps=%" PRId64 "\n", max_steps);
    } else {
        est_strbuf_append(terms, "max_steps=none\n");
    }
}

est_status est_cluster_task_agree(const est_cluster_task *task, const est_graph *graph)
{
    est_nodes  trained = est_trainable_variables(graph);
    est_strbuf terms   = { 0 };
    est_status status;

    est_terms_add_max_steps(&terms, task->max_steps);
    est_strbuf_append(&terms, est_graph_terms(graph));
    for (int i = 0; i < trained.n; i++) {
        const est_node_def *variable = est_def(trained.data[i]);
        char                text[EST_SHAPE_TEXT_MAX];

        est_strbuf_printf(&terms, "variable %s=%s %s\n", variable->name,
                          est_dtype_name(est_node_type(variable, "dtype")),
                          est_shape_text(&est_node_attr(variable, "shape")->shape, text));
    }
    status = est_strbuf_status(&terms);
    if (status == EST_OK) status = est_remote_set_terms(task->remote, est_strbuf_text(&terms));
    est_strbuf_clear(&terms);
    return status;
}

void est_cluster_task_close(est_cluster_task *task)
{
    est_remote_free(task->remote);
    est_server_free(task->server);
    *task = (est_cluster_task){ 0 };
}

est_status est_cluster_task_delay(const est_cluster_task *task)
{
    const est_task *self = task->estimator->task;
    double          most = task->estimator->config.max_worker_delay_secs; /* EST_OFF is below 0 */
    double          secs = DELAY_EACH_SECS * (self->index + 1);
    int64_t         until;

    if (self->is_chief || most <= 0) return EST_OK;
    if (secs > most) secs = most;
    est_log_info("Waiting %g secs before starting training.", secs);
    until = est_now_ns() + est_secs_to_ns(secs);
    while (est_now_ns() < until && !est_cluster_task_is_over(task)) {
        double left = (double)(until - est_now_ns()) / (double)EST_NS_PER_SEC;

        if (est_signals_wait(left < 0.5 ? left : 0.5)) {
            return est_fail(EST_CANCELLED, "%s before training began", est_stop_signal_name());
        }
    }
    return EST_OK;
}

est_status est_estimator_serve(est_estimator *estimator, int64_t max_steps)
{
    est_cluster_task task = { .estimator = estimator, .max_steps = max_steps, .start_secs = est_wall_secs() };
    est_status       status;

    EST_TRY(start_task(estimator, &task.server));
    est_server_set_over(task.server, is_over, &task);
    status = est_server_set_root(task.server, estimator->model_dir);
    if (status == EST_OK) status = est_server_join(task.server);
    est_server_free(task.server);
    return status;
}
