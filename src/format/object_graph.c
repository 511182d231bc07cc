/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing TrackableObjectGraph {1 nodes: TrackableObject {1 children: ObjectReference {1 node_id,
 * 2 local_name}, 2 attributes: SerializedTensor {1 name, 2 full_name, 3 checkpoint_key}, 5 has_checkpoint_values:
 * BoolValue {1 value}}}; all other fields are skipped. */
#include "format/object_graph.h"

#include <string.h>

#define VALUE "VARIABLE_VALUE" /* the attribute that a variable has */

static char *copy_text(est_arena *arena, est_str text)
{
    char *copy = est_arena_alloc(arena, text.size + 1); /* zeroed: terminated */

    if (copy != NULL && text.size > 0) memcpy(copy, text.data, text.size);
    return copy;
}

/* --- objects ------------------------------------------------------------------------------------------------------ */

est_status est_object_graph_add(est_object_graph *graph, int32_t *out)
{
    if (graph->arena == NULL) graph->arena = est_arena_create();
    if (graph->arena == NULL) return est_no_memory();
    if (graph->n_nodes == graph->nodes_max) {
        int32_t     max  = graph->nodes_max > INT32_MAX / 2 ? INT32_MAX : 2 * graph->nodes_max + 16;
        est_object *more = est_arena_alloc(graph->arena, (size_t)max * sizeof *more);

        if (more == NULL) return est_no_memory();
        if (graph->n_nodes > 0) memcpy(more, graph->nodes, (size_t)graph->n_nodes * sizeof *more);
        graph->nodes     = more;
        graph->nodes_max = max;
    }
    *out = graph->n_nodes++;
    return EST_OK;
}

static est_status link_child(est_object_graph *graph, int32_t parent, est_str name, int64_t node)
{
    est_object       *object = &graph->nodes[parent];
    est_object_child *child  = est_arena_alloc(graph->arena, sizeof *child);

    if (child == NULL) return est_no_memory();
    *child = (est_object_child){ .name = copy_text(graph->arena, name), .node = node };
    if (child->name == NULL) return est_no_memory();
    *(object->last != NULL ? &object->last->next : &object->children) = child;
    object->last                                                      = child;
    return EST_OK;
}

est_status est_object_graph_link(est_object_graph *graph, int32_t parent, const char *name, int32_t child)
{
    return link_child(graph, parent, (est_str){ name, strlen(name) }, child);
}

est_status est_object_graph_value(est_object_graph *graph, int32_t node, const char *full_name,
                                  const char *checkpoint_key)
{
    est_object *object = &graph->nodes[node];

    object->full_name      = est_arena_strdup(graph->arena, full_name);
    object->checkpoint_key = est_arena_strdup(graph->arena, checkpoint_key);
    return object->full_name != NULL && object->checkpoint_key != NULL ? EST_OK : est_no_memory();
}

int32_t est_object_graph_child(const est_object_graph *graph, int32_t node, const char *name)
{
    if (node < 0 || node >= graph->n_nodes) return -1;
    for (const est_object_child *child = graph->nodes[node].children; child != NULL; child = child->next) {
        if (strcmp(child->name, name) != 0) continue;
        return child->node >= 0 && child->node < graph->n_nodes ? (int32_t)child->node : -1;
    }
    return -1;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

void est_object_graph_put(const est_object_graph *graph, est_wire_writer *w)
{
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const est_object *object = &graph->nodes[i];
        size_t            node   = est_wire_begin(w, 1), inner;

        for (const est_object_child *child = object->children; child != NULL; child = child->next) {
            inner = est_wire_begin(w, 1);
            est_wire_put_i64(w, 1, child->node);
            est_wire_put_string(w, 2, child->name);
            est_wire_end(w, inner);
        }
        if (object->checkpoint_key != NULL) {
            inner = est_wire_begin(w, 2);
            est_wire_put_string(w, 1, VALUE);
            est_wire_put_string(w, 2, object->full_name);
            est_wire_put_string(w, 3, object->checkpoint_key);
            est_wire_end(w, inner);
        }
        inner = est_wire_begin(w, 5);
        est_wire_put_bool(w, 1, true);
        est_wire_end(w, inner);
        est_wire_end(w, node);
    }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

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

/* What an object is called does not have to be known; its value is found by the key. */
static est_status set_value(est_object_graph *graph, est_object *object, est_str full_name, est_str key)
{
    object->full_name      = copy_text(graph->arena, full_name);
    object->checkpoint_key = copy_text(graph->arena, key);
    return object->full_name != NULL && object->checkpoint_key != NULL ? EST_OK : est_no_memory();
}

static est_status parse_attribute(est_object_graph *graph, est_object *object, est_wire_reader *r)
{
    est_wire_field field;
    est_str        name = { 0 }, full_name = { 0 }, key = { 0 };

    while (est_wire_next(r, &field)) {
        if (field.number == 1) name = est_wire_bytes(r, &field);
        if (field.number == 2) full_name = est_wire_bytes(r, &field);
        if (field.number == 3) key = est_wire_bytes(r, &field);
    }
    EST_TRY(est_wire_finish(r));
    if (key.size > 0 && name.size == strlen(VALUE) && memcmp(name.data, VALUE, name.size) == 0) {
        EST_TRY(set_value(graph, object, full_name, key));
    }
    if (full_name.size == 0 || key.size == 0) return EST_OK;
    if (memchr(full_name.data, '\0', full_name.size) != NULL || memchr(key.data, '\0', key.size) != NULL) {
        return est_wire_fail(r, (const uint8_t *)full_name.data, "a name with a NUL in it");
    }
    if (est_map_get_bytes(&graph->by_key, key.data, key.size) != NULL) return EST_OK; /* one variable, two objects */
    return add(graph, full_name, key);
}

static est_status parse_child(est_object_graph *graph, int32_t parent, est_wire_reader *r)
{
    est_wire_field field;
    est_str        name = { 0 };
    int64_t        node = 0;

    while (est_wire_next(r, &field)) {
        if (field.number == 1) node = est_wire_i64(r, &field);
        if (field.number == 2) name = est_wire_bytes(r, &field);
    }
    EST_TRY(est_wire_finish(r));
    return link_child(graph, parent, name, node);
}

static est_status parse_node(est_object_graph *graph, int32_t node, est_wire_reader *r)
{
    est_wire_field  field;
    est_wire_reader inner;

    while (est_wire_next(r, &field)) {
        if (field.number == 1) {
            est_wire_message(r, &field, "ObjectReference", &inner);
            EST_TRY(parse_child(graph, node, &inner));
        } else if (field.number == 2) {
            est_wire_message(r, &field, "SerializedTensor", &inner);
            EST_TRY(parse_attribute(graph, &graph->nodes[node], &inner));
        }
    }
    return est_wire_finish(r);
}

est_status est_object_graph_parse(est_object_graph *graph, est_str bytes)
{
    est_wire_reader r, inner;
    est_wire_field  field;
    int32_t         node;

    graph->arena = est_arena_create();
    if (graph->arena == NULL) return est_no_memory();
    est_wire_reader_init(&r, "TrackableObjectGraph", bytes.data, bytes.size);
    while (est_wire_next(&r, &field)) {
        if (field.number != 1) continue;
        est_wire_message(&r, &field, "TrackableObject", &inner);
        EST_TRY(est_object_graph_add(graph, &node));
        EST_TRY(parse_node(graph, node, &inner));
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
