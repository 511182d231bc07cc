/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs as messages.
 *
 *   GraphDef            1 node | 2 library | 3 version (before versions) | 4 versions
 *   NodeDef             1 name | 2 op | 3 input | 4 device | 5 attr map | 6 debug info | 7 full type
 *   VersionDef          1 producer | 2 min_consumer | 3 bad_consumers
 *   FunctionDefLibrary  1 function
 *   FunctionDef         1 signature { 1 name } | 3 node_def */
#include "format/graph_def.h"

#include <inttypes.h>
#include <string.h>

#include "format/tensor_proto.h"
#include "format/wire_defaults.h"

enum { GRAPH_NODE = 1, FUNCTION_NODE = 3 }; /* the field of nodes in either message */

void est_graph_def_init(est_graph_def *graph, est_arena *arena)
{
    *graph      = (est_graph_def){ .arena = arena, .producer = EST_GRAPH_DEF_PRODUCER, .library = { "", 0 } };
    graph->lost = (est_graph_def_node){ .graph = graph, .name = "", .op = "", .device = "" };
}

void est_graph_def_move(const est_graph_def *from, est_graph_def *to)
{
    *to = *from;
    for (int i = 0; i < to->n_nodes; i++) to->nodes[i]->graph = to;
    to->lost.graph = to;
}

/* --- building ----------------------------------------------------------------------------------------------------- */

static est_status push_node(est_graph_def *graph, est_graph_def_node **out)
{
    est_graph_def_node *node;

    EST_TRY(est_def_grow(graph->arena, &graph->nodes, graph->n_nodes, sizeof(est_graph_def_node *)));
    node = est_arena_alloc(graph->arena, sizeof *node);
    if (node == NULL) return est_no_memory();
    *node            = (est_graph_def_node){ .graph = graph, .name = "", .op = "", .device = "" };
    node->debug_info = node->full_type = (est_str){ "", 0 };
    graph->nodes[graph->n_nodes++]     = node;
    *out                               = node;
    return EST_OK;
}

static void copy_name(est_graph_def *graph, const char *name, const char **out)
{
    if (graph->status == EST_OK) graph->status = est_def_copy_text(graph->arena, (est_str){ name, strlen(name) }, out);
}

est_graph_def_node *est_graph_def_add_node(est_graph_def *graph, const char *name, const char *op)
{
    est_graph_def_node *node = &graph->lost;

    if (graph->status == EST_OK) graph->status = push_node(graph, &node);
    copy_name(graph, name, &node->name);
    copy_name(graph, op, &node->op);
    return node;
}

void est_graph_def_add_input(est_graph_def_node *node, const char *input)
{
    est_graph_def *graph = node->graph;

    if (graph->status == EST_OK) graph->status = est_def_names_add(graph->arena, &node->inputs, input);
}

void est_graph_def_set_device(est_graph_def_node *node, const char *device)
{
    copy_name(node->graph, device, &node->device);
}

void est_graph_def_set(est_graph_def_node *node, const char *attr, const est_def_value *value)
{
    est_graph_def *graph = node->graph;

    if (graph->status == EST_OK) graph->status = est_def_attrs_set(graph->arena, &node->attrs, attr, value);
}

void est_graph_def_set_i(est_graph_def_node *node, const char *attr, int64_t value)
{
    est_graph_def_set(node, attr, &(est_def_value){ .kind = EST_DEF_I, .i = value });
}

void est_graph_def_set_f(est_graph_def_node *node, const char *attr, float value)
{
    est_graph_def_set(node, attr, &(est_def_value){ .kind = EST_DEF_F, .f = value });
}

void est_graph_def_set_b(est_graph_def_node *node, const char *attr, bool value)
{
    est_graph_def_set(node, attr, &(est_def_value){ .kind = EST_DEF_B, .b = value });
}

void est_graph_def_set_s(est_graph_def_node *node, const char *attr, const char *value)
{
    est_graph_def_set(node, attr, &(est_def_value){ .kind = EST_DEF_S, .s = { value, strlen(value) } });
}

void est_graph_def_set_type(est_graph_def_node *node, const char *attr, est_dtype value)
{
    est_graph_def_set(node, attr, &(est_def_value){ .kind = EST_DEF_TYPE, .type = (int32_t)value });
}

void est_graph_def_set_shape(est_graph_def_node *node, const char *attr, const est_shape *value)
{
    est_graph_def_set(node, attr, &(est_def_value){ .kind = EST_DEF_SHAPE, .shape = value });
}

void est_graph_def_set_tensor(est_graph_def_node *node, const char *attr, const est_tensor *value)
{
    est_graph_def  *graph = node->graph;
    est_wire_writer w     = { 0 };

    if (graph->status != EST_OK) return;
    est_tensor_proto_put(&w, value);
    graph->status = est_wire_writer_status(&w);
    est_graph_def_set(node, attr, &(est_def_value){ .kind = EST_DEF_TENSOR, .s = { (const char *)w.data, w.size } });
    est_wire_writer_clear(&w);
}

/* Sets a list of n values of one kind; `items` has them and is borrowed for the call. */
static void set_list(est_graph_def_node *node, const char *attr, est_def_value *items, int n)
{
    est_graph_def_set(node, attr, &(est_def_value){ .kind = EST_DEF_LIST, .n = n, .items = items });
}

/* n values of a kind, to be filled; NULL when that has failed before or does now. */
static est_def_value *new_items(est_graph_def_node *node, est_def_kind kind, int n)
{
    est_graph_def *graph = node->graph;
    est_def_value *items;

    if (graph->status != EST_OK) return NULL;
    items = est_arena_alloc(graph->arena, (size_t)n * sizeof *items);
    if (items == NULL) graph->status = est_no_memory();
    for (int i = 0; items != NULL && i < n; i++) items[i].kind = kind;
    return items;
}

void est_graph_def_set_i_list(est_graph_def_node *node, const char *attr, const int64_t *values, int n)
{
    est_def_value *items = new_items(node, EST_DEF_I, n);

    for (int i = 0; items != NULL && i < n; i++) items[i].i = values[i];
    set_list(node, attr, items, n);
}

void est_graph_def_set_f_list(est_graph_def_node *node, const char *attr, const float *values, int n)
{
    est_def_value *items = new_items(node, EST_DEF_F, n);

    for (int i = 0; items != NULL && i < n; i++) items[i].f = values[i];
    set_list(node, attr, items, n);
}

void est_graph_def_set_s_list(est_graph_def_node *node, const char *attr, const est_str *values, int n)
{
    est_def_value *items = new_items(node, EST_DEF_S, n);

    for (int i = 0; items != NULL && i < n; i++) items[i].s = values[i];
    set_list(node, attr, items, n);
}

void est_graph_def_set_type_list(est_graph_def_node *node, const char *attr, const est_dtype *values, int n)
{
    est_def_value *items = new_items(node, EST_DEF_TYPE, n);

    for (int i = 0; items != NULL && i < n; i++) items[i].type = (int32_t)values[i];
    set_list(node, attr, items, n);
}

void est_graph_def_set_shape_list(est_graph_def_node *node, const char *attr, const est_shape *values, int n)
{
    est_def_value *items = new_items(node, EST_DEF_SHAPE, n);

    for (int i = 0; items != NULL && i < n; i++) items[i].shape = &values[i];
    set_list(node, attr, items, n);
}

/* --- looking at nodes --------------------------------------------------------------------------------------------- */

est_graph_def_node *est_graph_def_find(const est_graph_def *graph, const char *name)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        if (strcmp(graph->nodes[i]->name, name) == 0) return graph->nodes[i];
    }
    return NULL;
}

est_status est_graph_def_get(const est_graph_def_node *node, const char *attr, est_def_kind kind,
                             const est_def_value **out)
{
    const est_def_value *value = est_def_attrs_find(&node->attrs, attr);

    if (value == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "node '%s' (%s) has no attribute '%s'", node->name, node->op, attr);
    }
    if (value->kind != kind) {
        return est_fail(EST_INVALID_ARGUMENT, "node '%s' (%s): attribute '%s' has the kind %s, expected %s", node->name,
                        node->op, attr, est_def_kind_name(value->kind), est_def_kind_name(kind));
    }
    *out = value;
    return EST_OK;
}

est_status est_graph_def_get_tensor(const est_graph_def_node *node, const char *attr, est_tensor **out)
{
    const est_def_value *value;
    est_status           status;

    EST_TRY(est_graph_def_get(node, attr, EST_DEF_TENSOR, &value));
    status = est_tensor_proto_parse(value->s, out);
    if (status == EST_OK) return EST_OK;
    return est_fail_context(status, "node '%s' (%s): attribute '%s'", node->name, node->op, attr);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void put_node(est_wire_writer *w, uint32_t number, const est_graph_def_node *node)
{
    size_t mark = est_wire_begin(w, number);

    est_def_put_text(w, 1, node->name);
    est_def_put_text(w, 2, node->op);
    est_def_names_put(w, 3, &node->inputs);
    est_def_put_text(w, 4, node->device);
    est_def_attrs_put(w, 5, &node->attrs);
    est_wire_put_nonempty(w, 6, node->debug_info);
    est_wire_put_nonempty(w, 7, node->full_type);
    est_wire_end(w, mark);
}

est_status est_graph_def_put(est_wire_writer *w, const est_graph_def *graph)
{
    size_t mark;

    if (graph->status != EST_OK) return graph->status; /* told when it happened */
    for (int i = 0; i < graph->n_nodes; i++) put_node(w, GRAPH_NODE, graph->nodes[i]);
    est_wire_put_nonempty(w, 2, graph->library);
    mark = est_wire_begin(w, 4);
    est_wire_put_i64_nonzero(w, 1, graph->producer);
    est_wire_put_i64_nonzero(w, 2, graph->min_consumer);
    for (int i = 0; i < graph->n_bad_consumers; i++) est_wire_put_i64(w, 3, graph->bad_consumers[i]);
    est_wire_end(w, mark);
    return est_wire_writer_status(w);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static est_status parse_node_field(est_wire_reader *r, const est_wire_field *field, est_graph_def_node *node)
{
    est_arena *arena = node->graph->arena;

    switch (field->number) {
    case 1: return est_def_read_text(arena, r, field, &node->name);
    case 2: return est_def_read_text(arena, r, field, &node->op);
    case 3: return est_def_names_read(arena, r, field, &node->inputs);
    case 4: return est_def_read_text(arena, r, field, &node->device);
    case 5: return est_def_attrs_read(arena, r, field, &node->attrs);
    case 6: return est_def_read_bytes(arena, r, field, &node->debug_info);
    case 7: return est_def_read_bytes(arena, r, field, &node->full_type);
    default: return EST_OK;
    }
}

static est_status parse_node(est_wire_reader *r, const est_wire_field *field, est_graph_def *graph)
{
    est_graph_def_node *node;
    est_wire_reader     inner;
    est_wire_field      part;
    est_status          status = EST_OK;

    est_wire_message(r, field, "NodeDef", &inner);
    EST_TRY(est_wire_finish(r));
    EST_TRY(push_node(graph, &node));
    while (status == EST_OK && est_wire_next(&inner, &part)) status = parse_node_field(&inner, &part, node);
    if (status == EST_OK) status = est_wire_finish(&inner);
    if (status == EST_OK) return EST_OK;
    return est_fail_context(status, "node %d '%s' (%s)", graph->n_nodes - 1, node->name, node->op);
}

static est_status parse_versions(est_wire_reader *r, const est_wire_field *field, est_graph_def *graph)
{
    est_wire_reader inner;
    est_wire_field  part;
    est_wire_list   list;
    uint64_t        bits;

    est_wire_message(r, field, "VersionDef", &inner);
    EST_TRY(est_wire_finish(r));
    while (est_wire_next(&inner, &part)) {
        switch (part.number) {
        case 1: graph->producer = est_wire_i32(&inner, &part); break;
        case 2: graph->min_consumer = est_wire_i32(&inner, &part); break;
        case 3:
            est_wire_list_init(&inner, &part, EST_WIRE_VARINT, &list);
            while (est_wire_list_next(&list, &bits)) {
                EST_TRY(est_def_grow(graph->arena, &graph->bad_consumers, graph->n_bad_consumers, sizeof(int32_t)));
                graph->bad_consumers[graph->n_bad_consumers++] = (int32_t)(uint32_t)bits;
            }
            break;
        default: break;
        }
    }
    return est_wire_finish(&inner);
}

est_status est_graph_def_parse(est_wire_reader *r, est_arena *arena, est_graph_def *out)
{
    est_graph_def  graph;
    est_wire_field field;
    int32_t        version = 0;
    est_str        bytes;

    est_graph_def_init(&graph, arena);
    graph.producer = 0;
    while (est_wire_next(r, &field)) {
        switch (field.number) {
        case GRAPH_NODE: EST_TRY(parse_node(r, &field, &graph)); break;
        case 2:
            bytes = est_wire_bytes(r, &field);
            EST_TRY(est_def_append_bytes(arena, bytes, &graph.library));
            break;
        case 3: version = est_wire_i32(r, &field); break;
        case 4: EST_TRY(parse_versions(r, &field, &graph)); break;
        default: break;
        }
    }
    EST_TRY(est_wire_finish(r));
    if (graph.producer == 0) graph.producer = version;
    est_graph_def_move(&graph, out);
    return EST_OK;
}

est_status est_graph_def_parse_bytes(est_str message, est_arena *arena, est_graph_def *out)
{
    est_wire_reader r;

    est_wire_reader_init(&r, "GraphDef", message.data, message.size);
    return est_graph_def_parse(&r, arena, out);
}

/* --- functions ---------------------------------------------------------------------------------------------------- */

void est_function_cursor_init(est_function_cursor *cursor, est_str library)
{
    est_wire_reader_init(&cursor->reader, "FunctionDefLibrary", library.data, library.size);
}

static est_status parse_signature(est_wire_reader *r, const est_wire_field *field, est_str *name)
{
    est_wire_reader inner;
    est_wire_field  part;

    est_wire_message(r, field, "OpDef", &inner);
    EST_TRY(est_wire_finish(r));
    while (est_wire_next(&inner, &part)) {
        if (part.number == 1) *name = est_wire_bytes(&inner, &part);
    }
    return est_wire_finish(&inner);
}

est_status est_function_cursor_next(est_function_cursor *cursor, bool *found, est_function_view *out)
{
    est_function_view view = { .name = { "", 0 } };
    est_wire_reader   inner;
    est_wire_field    field;

    do {
        *found = est_wire_next(&cursor->reader, &field);
        if (!*found) return est_wire_finish(&cursor->reader);
    } while (field.number != 1);
    view.message = est_wire_bytes(&cursor->reader, &field);
    est_wire_message(&cursor->reader, &field, "FunctionDef", &inner);
    EST_TRY(est_wire_finish(&cursor->reader));
    while (est_wire_next(&inner, &field)) {
        if (field.number == 1) EST_TRY(parse_signature(&inner, &field, &view.name));
        if (field.number == FUNCTION_NODE) view.n_nodes++;
    }
    EST_TRY(est_wire_finish(&inner));
    *out = view;
    return EST_OK;
}

est_status est_function_parse_nodes(const est_function_view *function, est_arena *arena, est_graph_def *out)
{
    est_graph_def   graph;
    est_wire_reader r;
    est_wire_field  field;
    est_status      status = EST_OK;

    est_graph_def_init(&graph, arena);
    est_wire_reader_init(&r, "FunctionDef", function->message.data, function->message.size);
    while (status == EST_OK && est_wire_next(&r, &field)) {
        if (field.number == FUNCTION_NODE) status = parse_node(&r, &field, &graph);
    }
    if (status == EST_OK) status = est_wire_finish(&r);
    if (status != EST_OK) {
        return est_fail_context(status, "function '%.*s'", (int)function->name.size, function->name.data);
    }
    est_graph_def_move(&graph, out);
    return EST_OK;
}
