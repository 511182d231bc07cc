/* SPDX-License-Identifier: Apache-2.0
 *
 * A cluster in one process. Every task has a held port, so that it finds its address free when it is started again, a
 * server, and a thread that serves. */
#include "estoc/local_cluster.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "cluster/ports.h"
#include "cluster/server.h"

#define TASKS_MAX 256

typedef struct local_task {
    const char *type;
    int         index;
    int         port_fd; /* -1: none */
    char        address[32];
    est_server *server; /* NULL: lost, or the program's own */
    est_thread  thread; /* that serves, while there is a server */
} local_task;

struct est_local_cluster {
    est_cluster       *cluster;
    est_resolver      *resolver;
    est_server_options options;  /* its texts are the copies below */
    char              *texts[3]; /* NULL: not set */
    local_task        *tasks;
    int                n_tasks;
};

/* --- one task ----------------------------------------------------------------------------------------------------- */

static void *serve(void *arg)
{
    est_status status = est_server_join(arg);

    if (status != EST_OK && status != EST_CANCELLED) est_log_warn("local cluster: %s", est_error_message());
    return NULL;
}

static est_status start_task(const est_local_cluster *c, local_task *task)
{
    est_server *server;
    est_status  status;

    EST_TRY(est_server_create(c->cluster, task->type, task->index, &c->options, &server));
    status = est_thread_start(&task->thread, "est-local", serve, server);
    if (status != EST_OK) {
        est_server_free(server);
        return status;
    }
    task->server = server;
    return EST_OK;
}

static void end_task(local_task *task, bool abruptly)
{
    if (task->server == NULL) return;
    if (abruptly) {
        est_server_kill(task->server);
    } else {
        est_server_stop(task->server);
    }
    est_thread_join(&task->thread);
    est_server_free(task->server);
    task->server = NULL;
}

static est_status find_task(est_local_cluster *c, const char *type, int index, local_task **out)
{
    for (int i = 0; i < c->n_tasks; i++) {
        if (strcmp(c->tasks[i].type, type) != 0 || c->tasks[i].index != index) continue;
        if (strcmp(type, "chief") == 0) {
            return est_fail(EST_NOT_FOUND, "chief:0 of a local cluster is this program, which starts its own server");
        }
        *out = &c->tasks[i];
        return EST_OK;
    }
    return est_fail(EST_NOT_FOUND, "the local cluster has no task %s:%d", type, index);
}

est_server *est_local_cluster_server(est_local_cluster *cluster, const char *type, int index)
{
    for (int i = 0; cluster != NULL && type != NULL && i < cluster->n_tasks; i++) {
        if (strcmp(cluster->tasks[i].type, type) == 0 && cluster->tasks[i].index == index) {
            return cluster->tasks[i].server;
        }
    }
    return NULL;
}

est_status est_local_cluster_lose(est_local_cluster *cluster, const char *type, int index)
{
    local_task *task;

    EST_REQUIRE(cluster);
    EST_REQUIRE(type);
    EST_TRY(find_task(cluster, type, index, &task));
    if (task->server == NULL) {
        return est_fail(EST_FAILED_PRECONDITION, "%s:%d of the local cluster is lost already", type, index);
    }
    end_task(task, true);
    return EST_OK;
}

est_status est_local_cluster_restart(est_local_cluster *cluster, const char *type, int index)
{
    local_task *task;

    EST_REQUIRE(cluster);
    EST_REQUIRE(type);
    EST_TRY(find_task(cluster, type, index, &task));
    end_task(task, true);
    return start_task(cluster, task);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static est_status copy_options(est_local_cluster *c, const est_server_options *given)
{
    est_server_options *o       = &c->options;
    const char        **texts[] = { &o->transport, &o->certificates, &o->job };

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_server_options), given, o));
    if (o->threads == 0) o->threads = 1;
    for (int i = 0; i < 3; i++) {
        if (*texts[i] == NULL) continue;
        c->texts[i] = est_strdup(*texts[i]);
        if (c->texts[i] == NULL) return est_no_memory();
        *texts[i] = c->texts[i];
    }
    return EST_OK;
}

/* Adds n tasks with an address each, and their job to `jobs`. */
static est_status add_job(est_local_cluster *c, const char *type, int n, const char **addresses, est_job *jobs,
                          int *n_jobs)
{
    if (n == 0) return EST_OK;
    for (int i = 0; i < n; i++) {
        local_task *task = &c->tasks[c->n_tasks];
        int         port;

        *task = (local_task){ .type = type, .index = i, .port_fd = -1 };
        EST_TRY(est_port_hold(0, &task->port_fd, &port));
        snprintf(task->address, sizeof task->address, "127.0.0.1:%d", port);
        addresses[i] = task->address;
        c->n_tasks++;
    }
    jobs[(*n_jobs)++] = (est_job){ .name = type, .addresses = { addresses, n } };
    return EST_OK;
}

static est_status make_cluster(est_local_cluster *c, const est_local_cluster_options *o)
{
    const char *addresses[TASKS_MAX + 1];
    est_job     jobs[3];
    int         n = 0;

    c->tasks = est_zalloc((size_t)(o->ps + o->workers + 1) * sizeof *c->tasks);
    if (c->tasks == NULL) return est_no_memory();
    EST_TRY(add_job(c, "chief", o->chief, addresses, jobs, &n));
    EST_TRY(add_job(c, "ps", o->ps, addresses + 1, jobs, &n));
    EST_TRY(add_job(c, "worker", o->workers, addresses + 1 + o->ps, jobs, &n));
    EST_TRY(est_cluster_create((est_jobs){ jobs, n }, &c->cluster));
    EST_TRY(est_resolve_simple(c->cluster, o->chief ? "chief" : NULL, 0, NULL, &c->resolver));
    for (int i = o->chief; i < c->n_tasks; i++) EST_TRY(start_task(c, &c->tasks[i]));
    return EST_OK;
}

est_status est_local_cluster_create(const est_local_cluster_options *options, est_local_cluster **out)
{
    est_local_cluster_options o;
    est_local_cluster        *c;
    est_status                status;

    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_local_cluster_options), options, &o));
    if (o.ps < 0 || o.workers < 0 || o.ps > TASKS_MAX || o.workers > TASKS_MAX || o.ps + o.workers < 1 ||
        o.ps + o.workers > TASKS_MAX) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "local cluster: ps is %d and workers is %d; write numbers from 0 on, from 1 to %d in all", o.ps,
                        o.workers, TASKS_MAX);
    }
    c = est_zalloc(sizeof *c);
    if (c == NULL) return est_no_memory();
    status = copy_options(c, o.server);
    if (status == EST_OK) status = make_cluster(c, &o);
    if (status != EST_OK) {
        est_local_cluster_free(c);
        return status;
    }
    *out = c;
    return EST_OK;
}

const est_resolver *est_local_cluster_resolver(const est_local_cluster *cluster)
{
    return cluster != NULL ? cluster->resolver : NULL;
}

void est_local_cluster_free(est_local_cluster *cluster)
{
    if (cluster == NULL) return;
    for (int i = 0; i < cluster->n_tasks; i++) {
        est_server_stop(cluster->tasks[i].server);
    }
    for (int i = 0; i < cluster->n_tasks; i++) {
        end_task(&cluster->tasks[i], false);
        close(cluster->tasks[i].port_fd);
    }
    for (int i = 0; i < 3; i++) est_free(cluster->texts[i]);
    est_resolver_free(cluster->resolver);
    est_cluster_free(cluster->cluster);
    est_free(cluster->tasks);
    est_free(cluster);
}
