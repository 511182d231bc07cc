/* SPDX-License-Identifier: Apache-2.0
 *
 * A network over parameter servers: its session is that of a coordinator (estoc/coordinator.h), and its evaluation is
 * made by all workers. */
#include <string.h>

#include "base/log.h"
#include "base/signals.h"
#include "coordinator/coordinator.h"
#include "data/stage.h"
#include "graph/graph.h"
#include "network/network.h"

bool est_network_is_coordinated(const est_network *network)
{
    return network->strategy != NULL && network->strategy->ops->uses_ps;
}

/* --- the session -------------------------------------------------------------------------------------------------- */

/* A program handles signals itself while no fit or evaluation is under way, and those catch them. */
est_status est_network_connect(est_network *network)
{
    const char *dir = network->model_dir[0] != '\0' ? network->model_dir : NULL;

    if (!est_network_is_coordinated(network)) return EST_OK;
    if (network->coordinator == NULL) {
        EST_TRY(est_coordinator_create(
            network->strategy, network->graph,
            EST_COORDINATOR(.model_dir = dir, .threads = network->threads, .no_signals = true), &network->coordinator));
        network->restored = est_coordinator_epoch(network->coordinator);
    }
    network->session = est_coordinator_session(network->coordinator);
    return EST_OK;
}

void est_network_leave(est_network *network)
{
    if (network == NULL || network->coordinator == NULL) return;
    est_coordinator_free(network->coordinator);
    network->coordinator = NULL;
    network->session     = NULL;
}

void est_network_disconnect(est_network *network)
{
    if (network->coordinator != NULL && !network->failed && est_coordinator_end(network->coordinator) != EST_OK) {
        est_log_warn("%s: the job was not ended: %s", network->name, est_error_message());
        est_error_clear();
    }
    est_network_leave(network);
}

typedef struct use {
    est_network    *network;
    est_network_use fn;
    void           *user;
} use;

static est_status use_now(est_coordinator *c, void *user)
{
    const use *u = user;

    u->network->session = c->session;
    EST_TRY(est_session_init(c->session)); /* what the graph got since */
    return u->fn(u->network, u->user);
}

est_status est_network_use_session(est_network *network, est_network_use fn, void *user)
{
    EST_TRY(est_network_connect(network));
    if (network->coordinator == NULL) return fn(network, user);
    return est_coordinator_use_session(network->coordinator, use_now, &(use){ network, fn, user });
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* "x", or "x:splits" of a ragged component. */
static const char *component_of(const est_network *network, const est_dataset *dataset, const est_loop_feed *feed)
{
    const char *name = est_dataset_component(dataset, feed->component)->name;
    char        text[256];

    if (!feed->splits) return name;
    (void)snprintf(text, sizeof text, "%s:splits", name);
    return est_arena_strdup(est_graph_arena(network->graph), text);
}

est_status est_network_arguments(const est_network *network, const est_network_function *f, const est_dataset *dataset,
                                 const est_per_worker *from, est_tensor *class_weight, est_arguments *out)
{
    est_loop_feed *feeds = NULL;
    est_argument  *arguments;
    int            n;
    est_status     status = EST_OK;

    EST_TRY(est_network_feeds(network, f, dataset, class_weight, &feeds, &n));
    arguments = est_arena_alloc(est_graph_arena(network->graph), (size_t)(n + 1) * sizeof *arguments);
    if (arguments == NULL) status = est_no_memory();
    for (int i = 0; i < n && status == EST_OK; i++) {
        if (feeds[i].value != NULL) {
            arguments[i] = (est_argument){ .node = feeds[i].node, .value = class_weight };
            continue;
        }
        arguments[i] = (est_argument){ .node      = feeds[i].node,
                                       .from      = from,
                                       .component = component_of(network, dataset, &feeds[i]) };
        if (arguments[i].component == NULL) status = est_no_memory();
    }
    if (status == EST_OK) *out = (est_arguments){ arguments, n };
    est_free(feeds);
    return status;
}

/* --- evaluation --------------------------------------------------------------------------------------------------- */

static est_status measure(est_network *network, const est_network_function *f, const est_dataset *input, double *values)
{
    int           n       = network->compiled->n_metrics;
    est_metric   *metrics = est_zalloc((size_t)n * sizeof *metrics);
    est_arguments arguments;
    est_status    status;

    if (metrics == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) {
        metrics[i] = (est_metric){ .value = f->values[i], .update = f->updates[i], .reset = f->resets[i] };
    }
    status = est_network_arguments(network, f, input, NULL, NULL, &arguments);
    if (status == EST_OK) {
        status = est_coordinator_evaluate(network->coordinator, input, arguments, metrics, n, NULL, values);
    }
    est_free(metrics);
    return status;
}

static est_status initialize(void *user, est_loop *loop, int64_t *global_step)
{
    (void)user;
    return est_loop_read_step(loop, global_step);
}

/* Hooks see the beginning and the end; batches are the workers'. */
static est_status measure_told(est_network *network, const est_network_function *f, const est_dataset *input,
                               est_hooks hooks, double *values)
{
    est_loop_spec spec = { .graph      = network->graph,
                           .lent       = network->session,
                           .hooks      = hooks,
                           .n_given    = hooks.n,
                           .initialize = initialize,
                           .model_dir  = network->model_dir };
    est_loop     *loop = NULL;
    est_status    status;

    EST_TRY(est_loop_open(&spec, &loop));
    status = measure(network, f, input, values);
    if (status == EST_OK) status = est_network_connect(network);
    if (status == EST_OK) {
        est_loop_lend(loop, network->session);
        status = est_loop_end(loop);
    }
    est_loop_free(loop);
    return status;
}

est_status est_network_measure_shards(est_network *network, const est_dataset *input, int64_t steps, est_hooks hooks,
                                      double *values)
{
    est_dataset          *part = est_dataset_ref(input);
    est_network_function *f;
    est_status            status;

    if (steps > 0) EST_TRY(est_dataset_finish(est_dataset_take(part, steps), &part)); /* takes it, also on failure */
    status = est_network_function_get(network, false, est_network_form(network, input), &f);
    if (status == EST_OK) status = est_network_connect(network);
    if (status == EST_OK) status = measure_told(network, f, part, hooks, values);
    if (status == EST_OK) status = est_signals_check("evaluation");
    est_dataset_free(part);
    return status;
}
