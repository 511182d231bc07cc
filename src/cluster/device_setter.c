/* SPDX-License-Identifier: Apache-2.0
 *
 * The device function of between-graph replication: variables to ps tasks, all else to the worker. Its state is in the
 * graph's arena. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "cluster/cluster.h"
#include "estoc/server.h"
#include "graph/device_name.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "ops/ops.h"
#include "tensor/shape.h"

typedef struct setter {
    const char *worker; /* the device of all that is no variable */
    int         n_ps;
    bool        by_bytes;
    int         next;      /* in turn: the task of the next variable */
    uint64_t   *bytes;     /* [n_ps], of the variables there */
    char        text[192]; /* the device that was returned last */
} setter;

static uint64_t bytes_of(est_node variable)
{
    int64_t count = est_shape_count(est_node_shape(variable));

    return count > 0 ? (uint64_t)count * est_dtype_size(est_variable_dtype(variable)) : 0;
}

static int choose_task(setter *s, est_node variable)
{
    int task = s->next;

    for (int i = 0; i < s->n_ps && s->by_bytes; i++) {
        if (i == 0 || s->bytes[i] < s->bytes[task]) task = i;
    }
    s->bytes[task] += bytes_of(variable);
    s->next = (s->next + 1) % s->n_ps;
    return task;
}

/* The device with the parts of `wanted`, and those of `given` where it has none. */
static const char *merge(setter *s, est_device_task wanted, est_device_task given)
{
    size_t n = 0;

    if (wanted.job[0] == '\0') memcpy(wanted.job, given.job, sizeof wanted.job);
    if (wanted.task < 0) wanted.task = given.task;
    if (wanted.kind[0] == '\0') {
        memcpy(wanted.kind, given.kind, sizeof wanted.kind);
        wanted.number = given.number;
    }
    s->text[0] = '\0';
    if (wanted.job[0] != '\0') n += (size_t)snprintf(s->text, sizeof s->text, "/job:%s", wanted.job);
    if (wanted.task >= 0) n += (size_t)snprintf(s->text + n, sizeof s->text - n, "/task:%d", wanted.task);
    if (wanted.kind[0] != '\0') n += (size_t)snprintf(s->text + n, sizeof s->text - n, "/device:%s", wanted.kind);
    if (wanted.kind[0] != '\0' && wanted.number >= 0) {
        snprintf(s->text + n, sizeof s->text - n, ":%d", wanted.number);
    }
    return s->text;
}

static const char *set_device(est_node node, const char *op, const char *device, void *user)
{
    setter             *s      = user;
    const est_node_def *def    = est_def(node);
    est_device_task     pinned = est_device_name_task(device), given = { .job = "ps", .task = -1, .number = -1 };

    (void)op;
    if (def->op->source != EST_SOURCE_VARIABLE) return merge(s, pinned, est_device_name_task(s->worker));
    if (pinned.job[0] != '\0' && strcmp(pinned.job, "ps") != 0) return device;
    if (pinned.task < 0) given.task = choose_task(s, node);
    return merge(s, pinned, given);
}

static est_status make_setter(est_graph *graph, const est_device_setter_options *o, int n_ps, setter **out)
{
    est_arena  *arena  = est_graph_arena(graph);
    const char *worker = o->worker_device != NULL ? o->worker_device : "/job:worker";
    setter     *s;

    EST_TRY(est_device_name_check(worker));
    s = est_arena_alloc(arena, sizeof *s);
    if (s == NULL) return est_no_memory();
    *s = (setter){ .n_ps = n_ps, .by_bytes = o->by_bytes };

    s->worker = est_arena_strdup(arena, worker);
    s->bytes  = est_arena_alloc(arena, (size_t)n_ps * sizeof *s->bytes);
    if (s->worker == NULL || s->bytes == NULL) return est_no_memory();
    memset(s->bytes, 0, (size_t)n_ps * sizeof *s->bytes);
    *out = s;
    return EST_OK;
}

void est_replica_device_setter(est_graph *graph, const est_device_setter_options *options)
{
    est_device_setter_options o;
    setter                   *s = NULL;
    est_status                status;
    int                       n_ps;

    if (graph == NULL || est_graph_status(graph) != EST_OK) return;
    status = est_options_take(EST_STRUCT_SIZE(est_device_setter_options), options, &o);
    n_ps   = o.cluster != NULL ? est_cluster_tasks(o.cluster, "ps") : o.ps_tasks;
    if (status == EST_OK && (n_ps < 0 || n_ps > EST_TASKS_MAX)) {
        status = est_fail(EST_INVALID_ARGUMENT, "ps_tasks is %d; write a number from 0 to %d", n_ps, EST_TASKS_MAX);
    }
    if (status == EST_OK && n_ps > 0) status = make_setter(graph, &o, n_ps, &s);
    if (status != EST_OK) {
        (void)est_graph_poison(graph, est_fail_context(status, "est_replica_device_setter"));
        return;
    }
    est_graph_device_fn(graph, s != NULL ? set_device : NULL, s);
}
