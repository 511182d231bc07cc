/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/pattern.h"

#include <assert.h>

#include "graph/lower.h"
#include "runtime/pass.h"

est_status est_pattern_create(est_node op, est_pattern *out)
{
    const est_node_def *def = est_def(op);
    est_node            nodes[EST_PATTERN_INPUTS_MAX + 1];
    est_pattern         p = { 0 };

    EST_TRY(est_graph_status(op.graph));
    assert(def->n_in <= EST_PATTERN_INPUTS_MAX);
    for (int i = 0; i < def->n_in; i++) nodes[i] = (est_node){ op.graph, def->in[i].node, 0 };
    p.n_in        = def->n_in;
    nodes[p.n_in] = op;
    EST_TRY(est_graph_lower(op.graph, nodes, p.n_in + 1, &p.graph));
    for (int i = 0; i < p.n_in; i++) p.in[i] = nodes[i].id;
    p.out = (est_edge){ nodes[p.n_in].id, nodes[p.n_in].output };
    *out  = p;
    return EST_OK;
}

void est_pattern_clear(est_pattern *pattern)
{
    est_graph_free(pattern->graph);
    *pattern = (est_pattern){ 0 };
}

typedef struct matching {
    const est_pattern *pattern;
    const est_graph   *graph;
    est_edge          *in; /* what each input stands for; its node is -1: not seen yet */
} matching;

/* An input of the pattern is the same wherever it occurs. */
static bool match_input(const matching *m, int i, est_edge at)
{
    if (m->in[i].node < 0) m->in[i] = at;
    return m->in[i].node == at.node && m->in[i].output == at.output;
}

/* Patterns are a few operations deep and share few of them: a path to one that is shared may be walked twice. */
static bool match_edge(const matching *m, est_edge want, est_edge at)
{
    const est_node_def *a = est_graph_node(m->pattern->graph, want.node), *b = est_graph_node(m->graph, at.node);

    for (int i = 0; i < m->pattern->n_in; i++) {
        if (m->pattern->in[i] == want.node) return match_input(m, i, at);
    }
    if (want.output != at.output || a->n_in != b->n_in || b->n_control > 0 || !est_same_operation(a, b)) return false;
    for (int32_t i = 0; i < a->n_in; i++) {
        if (!match_edge(m, a->in[i], b->in[i])) return false;
    }
    return true;
}

bool est_pattern_match(const est_pattern *pattern, const est_graph *graph, int32_t node,
                       est_edge in[EST_PATTERN_INPUTS_MAX])
{
    matching m = { pattern, graph, in };

    for (int i = 0; i < EST_PATTERN_INPUTS_MAX; i++) in[i] = (est_edge){ -1, 0 };
    if (!match_edge(&m, pattern->out, (est_edge){ node, 0 })) return false;
    for (int i = 0; i < pattern->n_in; i++) {
        if (in[i].node < 0) return false;
    }
    return true;
}
