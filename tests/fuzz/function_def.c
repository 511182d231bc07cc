/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes a GraphDef with functions, inlined and simplified as a model that is loaded: the roots are all nodes. */
#include "base/alloc.h"
#include "ops/ops.h"
#include "predict/inline.h"
#include "predict/simplify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_arena    *arena = est_arena_create();
    est_def_names roots = { 0 }, fed = { 0 };
    est_graph_def graph, flat;
    est_status    status;

    if (arena == NULL) return 0;
    status = est_graph_def_parse_bytes((est_str){ (const char *)data, size }, arena, &graph);
    for (int i = 0; status == EST_OK && i < graph.n_nodes; i++) {
        status = est_def_names_add(arena, &roots, graph.nodes[i]->name);
    }
    est_graph_def_init(&flat, arena);
    if (status == EST_OK) status = est_inline(&graph, &roots, est_op_find, &flat);
    if (status == EST_OK) status = est_simplify(&flat, &fed, est_op_find);
    est_arena_free(arena);
    return 0;
}
