/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of a GraphDef's nodes, parsed once, and walks over them. */
#include "format/def_edges.h"

#include <stdlib.h>
#include <string.h>

est_status est_def_edges_parse(const est_def_edges *edges, const char *input, est_def_edge *out)
{
    const char *colon = strrchr(input, ':'), *name = input;
    size_t      size = strlen(input);
    uintptr_t   found;
    char       *end = NULL;

    out->output = 0;
    if (input[0] == '^') {
        out->output = -1;
        name++;
        size--;
    } else if (colon != NULL) {
        long output = colon[1] >= '0' && colon[1] <= '9' ? strtol(colon + 1, &end, 10) : -1;

        if (output < 0 || output > INT32_MAX || *end != '\0') {
            return est_fail(EST_INVALID_ARGUMENT, "input '%s' does not end in the number of an output", input);
        }
        out->output = (int32_t)output;
        size        = (size_t)(colon - input);
    }
    found = (uintptr_t)est_map_get_bytes(&edges->names, name, size);
    if (found == 0) return est_fail(EST_INVALID_ARGUMENT, "'%s' is not in the graph", input);
    out->node = (int32_t)(found - 1);
    return EST_OK;
}

static est_status parse_inputs(est_def_edges *edges, int i)
{
    const est_graph_def_node *node    = edges->def->nodes[i];
    bool                      control = false;

    edges->in[i] = est_arena_alloc(edges->def->arena, ((size_t)node->inputs.n + 1) * sizeof *edges->in[i]);
    if (edges->in[i] == NULL) return est_no_memory();
    for (int k = 0; k < node->inputs.n; k++) {
        EST_TRY(est_def_edges_parse(edges, node->inputs.items[k], &edges->in[i][k]));
        if (edges->in[i][k].output >= 0 && control) {
            return est_fail(EST_INVALID_ARGUMENT, "input '%s' comes after a control input", node->inputs.items[k]);
        }
        control = edges->in[i][k].output < 0;
    }
    return EST_OK;
}

est_status est_def_edges_init(est_def_edges *edges, const est_graph_def *def)
{
    *edges    = (est_def_edges){ .def = def };
    edges->in = est_arena_alloc(def->arena, ((size_t)def->n_nodes + 1) * sizeof *edges->in);
    if (edges->in == NULL) return est_no_memory();
    for (int i = 0; i < def->n_nodes; i++) {
        const char *name = def->nodes[i]->name;

        if (name[0] == '\0') {
            return est_fail(EST_INVALID_ARGUMENT, "node %d (%s) has no name", i, def->nodes[i]->op);
        }
        if (est_map_get(&edges->names, name) != NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "two nodes are called '%s'", name);
        }
        EST_TRY(est_map_put(&edges->names, name, (void *)(uintptr_t)(i + 1)));
    }
    for (int i = 0; i < def->n_nodes; i++) {
        est_status status = parse_inputs(edges, i);

        if (status != EST_OK) {
            return est_fail_context(status, "node '%s' (%s)", def->nodes[i]->name, def->nodes[i]->op);
        }
    }
    return EST_OK;
}

void est_def_edges_clear(est_def_edges *edges)
{
    est_map_clear(&edges->names);
    *edges = (est_def_edges){ 0 };
}

void est_def_edges_reach(const est_def_edges *edges, int32_t node, bool *reached, int32_t *stack)
{
    int depth = 0;

    if (reached[node]) return;
    reached[node]  = true;
    stack[depth++] = node;
    while (depth > 0) {
        int32_t at = stack[--depth];

        for (int k = 0; k < edges->def->nodes[at]->inputs.n; k++) {
            int32_t from = edges->in[at][k].node;

            if (reached[from]) continue;
            reached[from]  = true;
            stack[depth++] = from;
        }
    }
}
