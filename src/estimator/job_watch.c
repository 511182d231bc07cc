/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches the ps tasks of a job from an evaluator (see job_watch.h). */
#include "estimator/job_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "cluster/cluster.h"

/* An evaluator works without certificates and network; without them it only cannot watch the job. */
static est_status start_client(est_job_watch *w, const est_estimator *estimator)
{
    est_run    run = est_estimator_run(estimator, EST_RUN_TRAIN);
    est_status status;

    if (w->client != NULL) return EST_OK;
    if (w->failed) return EST_UNAVAILABLE;
    status    = est_run_start_client(&run, est_resolver_watched(estimator->resolver), &w->client);
    w->failed = status != EST_OK;
    if (w->failed) est_log_debug("the evaluator cannot watch the job: %s", est_error_message());
    return status;
}

/* A task is absent if nothing listens, or nothing answers within the silence limit. A slow handshake is no absence. */
static est_status look(void *user, const char *why)
{
    const int64_t *until_ns = user;

    if (est_stop_signal() != 0) return est_fail(EST_CANCELLED, "%s", est_stop_signal_name());
    if (why[0] != '\0' || est_now_ns() > *until_ns) return est_fail(EST_UNAVAILABLE, "it is not there");
    return EST_OK;
}

/* Checks one task per call, since the evaluator also polls for checkpoints. */
static bool reach_next(est_job_watch *w, const est_cluster *cluster, double silence_secs)
{
    int         i        = w->n_missed % est_cluster_tasks(cluster, "ps");
    const char *address  = est_cluster_address(cluster, "ps", i);
    int64_t     until_ns = est_now_ns() + (int64_t)(silence_secs * (double)EST_NS_PER_SEC);
    char        name[EST_NET_NAME_MAX];

    snprintf(name, sizeof name, "ps:%d", i);
    if (address != NULL &&
        est_net_connect_while(est_server_net(w->client), address, name, look, &until_ns, &w->link) == EST_OK) {
        w->n_missed = 0;
        w->last     = *est_link_peer(w->link);
        return true;
    }
    w->link = NULL;
    w->n_missed++;
    return false;
}

static bool is_there(est_job_watch *w, const est_cluster *cluster, double silence_secs)
{
    if (w->link != NULL && !est_link_is_lost(w->link)) return true;
    if (w->link != NULL) est_link_free(w->link);
    w->link = NULL;
    return reach_next(w, cluster, silence_secs);
}

bool est_job_watch_is_gone(est_job_watch *w, const est_estimator *estimator)
{
    const est_cluster *cluster      = est_resolver_watched(estimator->resolver);
    double             silence_secs = estimator->config.peer_silence_secs;

    if (cluster == NULL || est_cluster_tasks(cluster, "ps") == 0 || start_client(w, estimator) != EST_OK) return false;
    if (is_there(w, cluster, silence_secs)) {
        w->seen    = true;
        w->gone_ns = 0;
    } else if (w->gone_ns == 0) {
        w->gone_ns = est_now_ns();
    }
    return w->seen && w->gone_ns != 0 && w->n_missed >= est_cluster_tasks(cluster, "ps") &&
           (double)(est_now_ns() - w->gone_ns) > 3 * silence_secs * (double)EST_NS_PER_SEC;
}

/* Two paths may name one folder; a path that does not exist here does not name ours. */
bool est_job_watch_is_elsewhere(const est_job_watch *w, const char *folder)
{
    char *here, *there;
    bool  same;

    if (w->last.folder[0] == '\0' || strcmp(w->last.folder, folder) == 0) return false;
    here  = realpath(folder, NULL);
    there = realpath(w->last.folder, NULL);
    same  = here != NULL && there != NULL && strcmp(here, there) == 0;
    free(here);
    free(there);
    return !same;
}

void est_job_watch_clear(est_job_watch *w)
{
    if (w->link != NULL) est_link_free(w->link);
    est_server_free(w->client);
    *w = (est_job_watch){ 0 };
}
