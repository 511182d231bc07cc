/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading TrackableObjectGraph {1 nodes: TrackableObject {2 attributes: SerializedTensor {1 name, 2 full_name,
 * 3 checkpoint_key}}}; all other fields are skipped. */
#include "format/object_graph.h"

#include <string.h>

#include "format/wire.h"

static char *copy_text(est_arena *arena, est_str text)
{
    char *copy = est_arena_alloc(arena, text.size + 1); /* zeroed: terminated */

    if (copy != NULL && text.size > 0) memcpy(copy, text.data, text.size);
    return copy;
}

/* Counts a name that is there already on all that have it: a look-up finds the first, a listing each. */
static est_status add(est_object_graph *graph, est_str full_name, est_str key)
{
    est_object_tensor *tensor = est_arena_alloc(graph->arena, sizeof *tensor);
    est_object_tensor *first  = est_map_get_bytes(&graph->by_name, full_name.data, full_name.size);

    if (tensor == NULL) return est_no_memory();
    tensor->full_name      = first != NULL ? first->full_name : copy_text(graph->arena, full_name);
    tensor->checkpoint_key = copy_text(graph->arena, key);
    tensor->n_same_name    = 1;
    if (tensor->full_name == NULL || tensor->checkpoint_key == NULL) return est_no_memory();
    EST_TRY(est_map_put_bytes(&graph->by_key, key.data, key.size, tensor));
    if (first == NULL) return est_map_put_bytes(&graph->by_name, full_name.data, full_name.size, tensor);
    first->n_same_name++;
    return EST_OK;
}

static est_status parse_attribute(est_object_graph *graph, est_wire_reader *r)
{
    est_wire_field field;
    est_str        full_name = { 0 }, key = { 0 };

    while (est_wire_next(r, &field)) {
        if (field.number == 2) full_name = est_wire_bytes(r, &field);
        if (field.number == 3) key = est_wire_bytes(r, &field);
    }
    EST_TRY(est_wire_finish(r));
    if (full_name.size == 0 || key.size == 0) return EST_OK;
    if (memchr(full_name.data, '\0', full_name.size) != NULL || memchr(key.data, '\0', key.size) != NULL) {
        return est_wire_fail(r, (const uint8_t *)full_name.data, "a name with a NUL in it");
    }
    if (est_map_get_bytes(&graph->by_key, key.data, key.size) != NULL) return EST_OK; /* one variable, two objects */
    return add(graph, full_name, key);
}

static est_status parse_node(est_object_graph *graph, est_wire_reader *r)
{
    est_wire_field  field;
    est_wire_reader inner;

    while (est_wire_next(r, &field)) {
        if (field.number != 2) continue;
        est_wire_message(r, &field, "SerializedTensor", &inner);
        EST_TRY(parse_attribute(graph, &inner));
    }
    return est_wire_finish(r);
}

est_status est_object_graph_parse(est_object_graph *graph, est_str bytes)
{
    est_wire_reader r, inner;
    est_wire_field  field;

    graph->arena = est_arena_create();
    if (graph->arena == NULL) return est_no_memory();
    est_wire_reader_init(&r, "TrackableObjectGraph", bytes.data, bytes.size);
    while (est_wire_next(&r, &field)) {
        if (field.number != 1) continue;
        est_wire_message(&r, &field, "TrackableObject", &inner);
        EST_TRY(parse_node(graph, &inner));
        graph->n_nodes++;
    }
    return est_wire_finish(&r);
}

void est_object_graph_clear(est_object_graph *graph)
{
    est_map_clear(&graph->by_name);
    est_map_clear(&graph->by_key);
    est_arena_free(graph->arena);
    memset(graph, 0, sizeof *graph);
}
