/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching a job from outside. */
#include "estimator/job_watch.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/cluster.h"
#include "estimator/cluster_task.h"

#define REACH_SECS 0.1

/* An evaluator needs no certificates and no network for its work: without them it just cannot watch. */
static est_status start_client(est_job_watch *w, const est_estimator *estimator)
{
    est_status status;

    if (w->client != NULL) return EST_OK;
    if (w->failed) return EST_UNAVAILABLE;
    status    = est_cluster_watch_open(estimator, &w->client);
    w->failed = status != EST_OK;
    if (w->failed) est_log_debug("the evaluator does not watch the job: %s", est_error_message());
    return status;
}

static bool reach_any(est_job_watch *w, const est_cluster *cluster)
{
    for (int i = 0; i < est_cluster_tasks(cluster, "ps"); i++) {
        const char *address = est_cluster_address(cluster, "ps", i);
        char        name[EST_NET_NAME_MAX];

        snprintf(name, sizeof name, "ps:%d", i);
        if (address != NULL &&
            est_net_connect(est_server_net(w->client), address, name, REACH_SECS, &w->link) == EST_OK) {
            return true;
        }
    }
    w->link = NULL;
    return false;
}

static bool is_there(est_job_watch *w, const est_cluster *cluster)
{
    if (w->link != NULL && !est_link_is_lost(w->link)) return true;
    if (w->link != NULL) est_link_free(w->link);
    w->link = NULL;
    return reach_any(w, cluster);
}

bool est_job_watch_is_gone(est_job_watch *w, const est_estimator *estimator)
{
    const est_cluster *cluster      = est_resolver_watched(estimator->resolver);
    double             silence_secs = estimator->config.peer_silence_secs;

    if (cluster == NULL || est_cluster_tasks(cluster, "ps") == 0 || start_client(w, estimator) != EST_OK) return false;
    if (is_there(w, cluster)) {
        w->seen    = true;
        w->gone_ns = 0;
    } else if (w->gone_ns == 0) {
        w->gone_ns = est_now_ns();
    }
    return w->seen && w->gone_ns != 0 &&
           (double)(est_now_ns() - w->gone_ns) > 3 * silence_secs * (double)EST_NS_PER_SEC;
}

void est_job_watch_clear(est_job_watch *w)
{
    if (w->link != NULL) est_link_free(w->link);
    est_server_free(w->client);
    *w = (est_job_watch){ 0 };
}
