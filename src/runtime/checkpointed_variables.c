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

/* Names of the variables in a collection. */
static est_status add_names(const est_graph *graph, const char *collection, est_map *out)
{
    est_nodes all = est_graph_collection(graph, collection);

    for (int i = 0; i < all.n; i++) {
        const char *name = est_node_string(est_graph_node(graph, all.data[i].id), "shared_name");

        EST_TRY(est_map_put(out, name, out));
    }
    return EST_OK;
}

/* All but the local ones, which live only as long as the session, and perhaps the worker's own. */
static est_status list_variables(est_session *session, bool own, est_var ***out, int *n)
{
    est_map    without = { 0 };
    est_store *store;
    est_var  **vars;
    est_status status;
    int        count = 0;

    EST_TRY(est_session_store(session, &store));
    vars = est_alloc(sizeof(est_var *) * ((size_t)est_store_size(store) + 1));
    if (vars == NULL) return est_no_memory();
    status = add_names(est_session_graph(session), "local_variables", &without);
    if (status == EST_OK && !own) status = add_names(est_session_graph(session), EST_OWN_VARIABLES, &without);
    if (status == EST_OK) {
        for (int i = 0; i < est_store_size(store); i++) {
            if (est_map_get(&without, est_store_at(store, i)->name) == NULL) vars[count++] = est_store_at(store, i);
        }
        qsort(vars, (size_t)count, sizeof *vars, by_name);
        *out = vars;
        *n   = count;
    } else {
        est_free(vars);
    }
    est_map_clear(&without);
    return status;
}

est_status est_saved_variables(est_session *session, est_var ***out, int *n)
{
    return list_variables(session, true, out, n);
}

est_status est_shared_variables(est_session *session, est_var ***out, int *n)
{
    return list_variables(session, false, out, n);
}
