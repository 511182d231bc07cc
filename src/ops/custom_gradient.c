/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients that a function of the program builds: copies of what it has computed, which ops/gradients.c knows. */
#include "base/argument.h"
#include "ops/ops.h"

static est_status edges_of(const est_graph *g, est_nodes nodes, const char *what, est_edge *out)
{
    for (int i = 0; i < nodes.n; i++) {
        if (nodes.data[i].graph != g || est_def(nodes.data[i]) == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "est_custom_gradient: %s[%d] is not a node of the graph", what, i);
        }
        out[i] = (est_edge){ nodes.data[i].id, nodes.data[i].output };
    }
    return EST_OK;
}

static est_status own_gradient(est_graph *g, est_nodes y, est_nodes x, est_node *out, est_own_gradient *own)
{
    est_edge *ys = est_arena_alloc(est_graph_arena(g), sizeof *ys * (size_t)y.n);

    own->x = est_arena_alloc(est_graph_arena(g), sizeof *own->x * (size_t)(x.n + 1));
    if (ys == NULL || own->x == NULL) return est_no_memory();
    EST_TRY(edges_of(g, y, "y", ys));
    EST_TRY(edges_of(g, x, "x", own->x));
    for (int i = 0; i < y.n; i++) out[i] = est_identity(y.data[i]);
    own->first = out[0].id;
    own->n_y   = y.n;
    own->n_x   = x.n;
    if (!est_graph_poisoned(g)) est_graph_add_own_gradient(g, own);
    return EST_OK;
}

void est_custom_gradient(est_nodes y, est_nodes x, est_gradient_fn fn, void *user, est_node *out)
{
    est_graph        *g = EST_LIST_OK(y) && y.n > 0 ? y.data[0].graph : NULL;
    est_own_gradient *own;
    est_status        status;

    for (int i = 0; out != NULL && i < y.n; i++) out[i] = EST_NO_NODE;
    if (g == NULL || est_graph_poisoned(g)) return;
    own = est_arena_alloc(est_graph_arena(g), sizeof *own);
    if (own == NULL) {
        status = est_no_memory();
    } else if (!EST_LIST_OK(x) || fn == NULL || out == NULL) {
        status = est_fail(EST_INVALID_ARGUMENT, "est_custom_gradient: x %s, fn %s, out %s",
                          EST_LIST_OK(x) ? "given" : "NULL", fn != NULL ? "given" : "NULL",
                          out != NULL ? "given" : "NULL");
    } else {
        *own   = (est_own_gradient){ .fn = fn, .user = user };
        status = own_gradient(g, y, x, out, own);
    }
    if (status != EST_OK) (void)est_graph_poison(g, status);
}
