/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments as a host keeps them, in slots. A slot that was left is used again, with the next generation. */
#include "runtime/host.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fingerprint.h"
#include "runtime/plan.h"

typedef struct hosted {
    uint64_t          print; /* of its bytes */
    size_t            size;
    uint32_t          generation; /* how many segments the slot had before */
    est_segment_graph cut;        /* graph NULL: the slot is free */
    est_plan         *plan;
} hosted;

struct est_host {
    est_store *store;
    est_pool  *pool;
    hosted    *segments;
    int        n, max;
};

/* --- the host ----------------------------------------------------------------------------------------------------- */

est_status est_host_create(int threads, est_host **out)
{
    est_host  *host = est_zalloc(sizeof *host);
    est_status status;

    if (host == NULL) return est_no_memory();
    status = est_store_create(&host->store);
    if (status == EST_OK) status = est_pool_create(threads, &host->pool);
    if (status != EST_OK) {
        est_host_free(host);
        return status;
    }
    *out = host;
    return EST_OK;
}

static void clear_hosted(hosted *p)
{
    est_plan_free(p->plan);
    est_segment_graph_clear(&p->cut);
    p->plan = NULL;
}

void est_host_free(est_host *host)
{
    if (host == NULL) return;
    for (int i = 0; i < host->n; i++) clear_hosted(&host->segments[i]);
    est_free(host->segments);
    est_store_free(host->store);
    est_pool_free(host->pool);
    est_free(host);
}

est_store *est_host_store(est_host *host)
{
    return host->store;
}

est_pool *est_host_pool(est_host *host)
{
    return host->pool;
}

/* A free slot. */
static est_status host_reserve(est_host *host, int *out)
{
    int     max = host->max == 0 ? 16 : 2 * host->max;
    hosted *more;

    for (*out = 0; *out < host->n && host->segments[*out].cut.graph != NULL;) ++*out;
    if (*out < host->max) return EST_OK;
    more = est_realloc(host->segments, sizeof *more * (size_t)max);
    if (more == NULL) return est_no_memory();
    host->segments = more;
    host->max      = max;
    return EST_OK;
}

static int find_equal(const est_host *host, uint64_t print, size_t size)
{
    for (int i = 0; i < host->n; i++) {
        const hosted *p = &host->segments[i];

        if (p->cut.graph != NULL && p->print == print && p->size == size) return i;
    }
    return -1;
}

est_status est_host_enter(est_host *host, const void *bytes, size_t size, int *out)
{
    uint64_t         print   = est_fingerprint64(bytes, size);
    est_plan_options options = { .device = &est_device_cpu, .pool = host->pool, .passes = true };
    hosted           p       = { .print = print, .size = size };
    int              at      = find_equal(host, print, size);
    est_status       status;

    if (at >= 0) {
        *out = at;
        return EST_OK;
    }
    EST_TRY(host_reserve(host, &at));
    status = est_segment_read((est_str){ bytes, size }, 1, &p.cut); /* seeds are attributes by now */
    if (status == EST_OK) status = est_plan_create(p.cut.graph, &p.cut.io, host->store, &options, &p.plan);
    if (status != EST_OK) {
        clear_hosted(&p);
        return status;
    }
    if (at == host->n) {
        host->n++;
    } else {
        p.generation = host->segments[at].generation;
    }
    host->segments[at] = p;
    *out               = at;
    return EST_OK;
}

void est_host_leave(est_host *host, int at)
{
    clear_hosted(&host->segments[at]);
    host->segments[at].generation++;
}

uint64_t est_host_number(const est_host *host, int at)
{
    return (uint64_t)host->segments[at].generation << 32 | (uint64_t)at;
}

int est_host_find(const est_host *host, uint64_t number)
{
    uint64_t at = number & UINT32_MAX;

    if (at >= (uint64_t)host->n || host->segments[at].cut.graph == NULL) return -1;
    return host->segments[at].generation == number >> 32 ? (int)at : -1;
}

uint64_t est_host_print(const est_host *host, int at)
{
    return host->segments[at].print;
}

int est_host_segments(const est_host *host)
{
    return host->n;
}

int est_host_inputs(const est_host *host, int at)
{
    return host->segments[at].cut.io.n_feeds;
}

int est_host_outputs(const est_host *host, int at)
{
    return host->segments[at].cut.io.n_fetches;
}

const est_graph *est_host_graph(const est_host *host, int at)
{
    return host->segments[at].cut.graph;
}

est_node est_host_input(const est_host *host, int at, int i)
{
    return host->segments[at].cut.io.feeds[i];
}

bool est_host_writes(const est_host *host, int at)
{
    return host->segments[at].cut.writes;
}

/* The variable that a node changes by its input i; NULL: none. */
static const char *changed_by(const est_graph *graph, const est_node_def *def, int32_t i)
{
    const est_node_def *handle = est_graph_node(graph, def->in[i].node);

    if (i >= 32 || (def->op->writes & 1u << i) == 0 || handle->op->source != EST_SOURCE_VARIABLE) return NULL;
    return est_node_string(handle, "shared_name");
}

static bool graph_changes(const est_graph *graph, const char *variable, bool by_filling)
{
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *def = est_graph_node(graph, id);

        if (def->op->fills_var && !by_filling) continue;
        for (int32_t i = 0; i < def->n_in; i++) {
            const char *changed = changed_by(graph, def, i);

            if (changed != NULL && strcmp(changed, variable) == 0) return true;
        }
    }
    return false;
}

bool est_host_counts(const est_host *host, int at, const char *variable)
{
    return graph_changes(host->segments[at].cut.graph, variable, false);
}

bool est_host_share(const est_host *host, int a, int b)
{
    const est_graph *graph = host->segments[a].cut.graph;

    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *def = est_graph_node(graph, id);

        for (int32_t i = 0; i < def->n_in; i++) {
            const char *changed = changed_by(graph, def, i);

            if (changed != NULL && graph_changes(host->segments[b].cut.graph, changed, true)) return true;
        }
    }
    return false;
}

est_status est_host_run(est_host *host, int at, uint64_t run_seed, const est_tensor *const *inputs)
{
    return est_plan_run(host->segments[at].plan, inputs, run_seed);
}

const est_view *est_host_output(const est_host *host, int at, int i)
{
    return est_plan_fetch(host->segments[at].plan, i);
}
