/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing TrackableObjectGraph {1 nodes: TrackableObject {1 children: ObjectReference {1 node_id,
 * 2 local_name}, 2 attributes: SerializedTensor {1 name, 2 full_name, 3 checkpoint_key}, 3 slot_variables:
 * SlotVariableReference {1 original_variable_node_id, 2 slot_name, 3 slot_variable_node_id}, 5 has_checkpoint_values:
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

static est_status link_slot(est_object_graph *graph, int32_t parent, est_str name, int64_t variable, int64_t node)
{
    est_object      *object = &graph->nodes[parent];
    est_object_slot *slot   = est_arena_alloc(graph->arena, sizeof *slot);

    if (slot == NULL) return est_no_memory();
    *slot = (est_object_slot){ .name = copy_text(graph->arena, name), .variable = variable, .slot = node };
    if (slot->name == NULL) return est_no_memory();
    *(object->last_slot != NULL ? &object->last_slot->next : &object->slots) = slot;
    object->last_slot                                                        = slot;
    return EST_OK;
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

/* --- as an array -------------------------------------------------------------------------------------------------- */

static bool exists(const est_object_graph *graph, int64_t node)
{
    return node >= 0 && node < graph->n_nodes;
}

static est_status list_children(const est_object_graph *graph, const est_object *object, est_saved_object *out)
{
    est_saved_child *children;
    est_saved_slot  *slots;
    int              n_children = 0, n_slots = 0;

    for (const est_object_child *child = object->children; child != NULL; child = child->next) n_children++;
    for (const est_object_slot *slot = object->slots; slot != NULL; slot = slot->next) n_slots++;
    children = est_arena_alloc(graph->arena, ((size_t)n_children + 1) * sizeof *children);
    slots    = est_arena_alloc(graph->arena, ((size_t)n_slots + 1) * sizeof *slots);
    if (children == NULL || slots == NULL) return est_no_memory();
    for (const est_object_child *child = object->children; child != NULL; child = child->next) {
        if (!exists(graph, child->node)) continue;
        children[out->n_children++] = (est_saved_child){ child->name, (int)child->node };
    }
    for (const est_object_slot *slot = object->slots; slot != NULL; slot = slot->next) {
        if (!exists(graph, slot->variable) || !exists(graph, slot->slot)) continue;
        slots[out->n_slots++] = (est_saved_slot){ (int)slot->variable, slot->name, (int)slot->slot };
    }
    out->children = children;
    out->slots    = slots;
    return EST_OK;
}

est_status est_object_graph_list(est_object_graph *graph, est_saved_objects *out)
{
    est_saved_object *objects;

    *out = (est_saved_objects){ 0 };
    if (graph->n_nodes == 0) return EST_OK;
    objects = est_arena_alloc(graph->arena, (size_t)graph->n_nodes * sizeof *objects);
    if (objects == NULL) return est_no_memory();
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        objects[i].key       = graph->nodes[i].checkpoint_key;
        objects[i].full_name = graph->nodes[i].full_name;
        EST_TRY(list_children(graph, &graph->nodes[i], &objects[i]));
    }
    *out = (est_saved_objects){ objects, graph->n_nodes };
    return EST_OK;
}

static est_str text_of(const char *text)
{
    return (est_str){ text, strlen(text) };
}

static est_status make_object(est_object_graph *graph, int32_t i, const est_saved_object *object)
{
    for (int k = 0; k < object->n_children; k++) {
        const est_saved_child *child = &object->children[k];

        if (child->name == NULL || !exists(graph, child->object)) {
            return est_fail(EST_INVALID_ARGUMENT, "child %d of object %d is \"%s\", object %d; there are %d objects", k,
                            (int)i, child->name != NULL ? child->name : "(no name)", child->object,
                            (int)graph->n_nodes);
        }
        EST_TRY(link_child(graph, i, text_of(child->name), child->object));
    }
    for (int k = 0; k < object->n_slots; k++) {
        const est_saved_slot *slot = &object->slots[k];

        if (slot->name == NULL || !exists(graph, slot->variable) || !exists(graph, slot->slot)) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "slot %d of object %d is \"%s\", object %d for object %d; there are %d objects", k, (int)i,
                            slot->name != NULL ? slot->name : "(no name)", slot->slot, slot->variable,
                            (int)graph->n_nodes);
        }
        EST_TRY(link_slot(graph, i, text_of(slot->name), slot->variable, slot->slot));
    }
    if (object->key == NULL) return EST_OK;
    return est_object_graph_value(graph, i, object->full_name != NULL ? object->full_name : "", object->key);
}

est_status est_object_graph_make(est_object_graph *graph, est_saved_objects objects)
{
    int32_t node;

    for (int i = 0; i < objects.n; i++) EST_TRY(est_object_graph_add(graph, &node));
    for (int i = 0; i < objects.n; i++) EST_TRY(make_object(graph, i, &objects.data[i]));
    return EST_OK;
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
        for (const est_object_slot *slot = object->slots; slot != NULL; slot = slot->next) {
            inner = est_wire_begin(w, 3);
            est_wire_put_i64(w, 1, slot->variable);
            est_wire_put_string(w, 2, slot->name);
            est_wire_put_i64(w, 3, slot->slot);
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

static est_status parse_slot(est_object_graph *graph, int32_t parent, est_wire_reader *r)
{
    est_wire_field field;
    est_str        name     = { 0 };
    int64_t        variable = 0, slot = 0;

    while (est_wire_next(r, &field)) {
        if (field.number == 1) variable = est_wire_i64(r, &field);
        if (field.number == 2) name = est_wire_bytes(r, &field);
        if (field.number == 3) slot = est_wire_i64(r, &field);
    }
    EST_TRY(est_wire_finish(r));
    return link_slot(graph, parent, name, variable, slot);
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
        } else if (field.number == 3) {
            est_wire_message(r, &field, "SlotVariableReference", &inner);
            EST_TRY(parse_slot(graph, node, &inner));
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
