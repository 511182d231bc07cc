/* SPDX-License-Identifier: Apache-2.0
 *
 * Which variables of a session outlive it. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "graph/graph.h"
#include "runtime/session.h"

static int by_name(const void *a, const void *b)
{
    return strcmp((*(est_var *const *)a)->name, (*(est_var *const *)b)->name);
}

/* Names of the variables that live only as long as the session. */
static est_status local_names(const est_graph *graph, est_map *out)
{
    est_nodes locals = est_graph_collection(graph, "local_variables");

    for (int i = 0; i < locals.n; i++) {
        const char *name = est_node_string(est_graph_node(graph, locals.data[i].id), "shared_name");

        EST_TRY(est_map_put(out, name, out));
    }
    return EST_OK;
}

est_status est_saved_variables(est_session *session, est_var ***out, int *n)
{
    est_map    locals = { 0 };
    est_store *store;
    est_var  **vars;
    est_status status;
    int        count = 0;

    EST_TRY(est_session_store(session, &store));
    vars = est_alloc(sizeof(est_var *) * ((size_t)est_store_size(store) + 1));
    if (vars == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory to list %d variables", est_store_size(store));
    status = local_names(est_session_graph(session), &locals);
    if (status == EST_OK) {
        for (int i = 0; i < est_store_size(store); i++) {
            if (est_map_get(&locals, est_store_at(store, i)->name) == NULL) vars[count++] = est_store_at(store, i);
        }
        qsort(vars, (size_t)count, sizeof *vars, by_name);
        *out = vars;
        *n   = count;
    } else {
        est_free(vars);
    }
    est_map_clear(&locals);
    return status;
}
