/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes GraphDef: what is read must be written and read again as the same; functions are walked, and all is
 * printed. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/graph_def.h"
#include "format/graph_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk_functions(est_str library, est_arena *arena)
{
    est_function_cursor cursor;
    est_function_view   function;
    est_graph_def       nodes;
    bool                found;

    est_function_cursor_init(&cursor, library);
    while (est_function_cursor_next(&cursor, &found, &function) == EST_OK && found) {
        if (est_function_parse_nodes(&function, arena, &nodes) != EST_OK) continue;
        if (nodes.n_nodes != function.n_nodes) abort();
    }
}

static void write_again(est_graph_def *graph)
{
    est_wire_writer once = { 0 }, twice = { 0 };
    est_graph_def   again;

    if (est_graph_def_put(&once, graph) != EST_OK) abort();
    if (est_graph_def_parse_bytes((est_str){ (const char *)once.data, once.size }, graph->arena, &again) != EST_OK) {
        abort();
    }
    if (est_graph_def_put(&twice, &again) != EST_OK) abort();
    if (once.size != twice.size || memcmp(once.data, twice.data, once.size) != 0) abort();
    est_wire_writer_clear(&once);
    est_wire_writer_clear(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_str       message = { (const char *)data, size };
    est_arena    *arena   = est_arena_create();
    est_strbuf    text    = { 0 };
    est_graph_def graph;
    est_status    printed;

    if (arena == NULL) return 0;
    if (est_graph_def_parse_bytes(message, arena, &graph) == EST_OK) {
        write_again(&graph);
        walk_functions(graph.library, arena);
    }
    printed = est_graph_def_text(message, &text);
    (void)printed; /* either way is fine */
    est_strbuf_clear(&text);
    est_arena_free(arena);
    return 0;
}
