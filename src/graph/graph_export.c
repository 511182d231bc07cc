/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports a graph to a GraphDef: names, edges as strings, and the attributes that differ from their default. */
#include "graph/graph_export.h"

#include <string.h>

#include "graph/signature.h"

static bool has_default(const est_attr *attr, const est_attr_def *def)
{
    const est_attr *fallback = &def->fallback;

    if (!def->optional) return false;
    switch (attr->kind) {
    case EST_ATTR_INT: return attr->i == fallback->i;
    case EST_ATTR_FLOAT: return (float)attr->f == (float)fallback->f; /* files hold 32-bit floats */
    case EST_ATTR_BOOL: return attr->b == fallback->b;
    case EST_ATTR_TYPE: return attr->type == fallback->type;
    case EST_ATTR_SHAPE: return est_shape_equal(&attr->shape, &fallback->shape);
    case EST_ATTR_STRING: return strcmp(attr->s, fallback->s) == 0;
    case EST_ATTR_INTS:
    case EST_ATTR_TYPES:
        return attr->ints.n == fallback->ints.n &&
               (attr->ints.n == 0 ||
                memcmp(attr->ints.data, fallback->ints.data, sizeof *attr->ints.data * (size_t)attr->ints.n) == 0);
    case EST_ATTR_SHAPES:
    case EST_ATTR_TENSOR: return false;
    }
    return false;
}

static void put_types(est_graph_def_node *node, const est_attr *attr)
{
    est_dtype *types = est_arena_alloc(node->graph->arena, sizeof *types * (size_t)(attr->ints.n + 1));

    if (types == NULL) {
        if (node->graph->status == EST_OK) {
            node->graph->status = est_no_memory();
        }
        return;
    }
    for (int i = 0; i < attr->ints.n; i++) types[i] = (est_dtype)attr->ints.data[i];
    est_graph_def_set_type_list(node, attr->name, types, attr->ints.n);
}

static void put_attr(est_graph_def_node *node, const est_attr *attr)
{
    switch (attr->kind) {
    case EST_ATTR_INT: est_graph_def_set_i(node, attr->name, attr->i); break;
    case EST_ATTR_FLOAT: est_graph_def_set_f(node, attr->name, (float)attr->f); break;
    case EST_ATTR_BOOL: est_graph_def_set_b(node, attr->name, attr->b); break;
    case EST_ATTR_TYPE: est_graph_def_set_type(node, attr->name, attr->type); break;
    case EST_ATTR_SHAPE: est_graph_def_set_shape(node, attr->name, &attr->shape); break;
    case EST_ATTR_STRING: est_graph_def_set_s(node, attr->name, attr->s); break;
    case EST_ATTR_INTS: est_graph_def_set_i_list(node, attr->name, attr->ints.data, attr->ints.n); break;
    case EST_ATTR_TYPES: put_types(node, attr); break;
    case EST_ATTR_SHAPES: est_graph_def_set_shape_list(node, attr->name, attr->shapes.data, attr->shapes.n); break;
    case EST_ATTR_TENSOR: est_graph_def_set_tensor(node, attr->name, attr->tensor); break;
    }
}

/* "a" for output 0 of a, "a:1" for the next. */
static void put_input(est_graph_def_node *node, const est_graph *graph, est_edge edge)
{
    const char *name = est_graph_node(graph, edge.node)->name;
    char       *text;

    if (edge.output == 0) {
        est_graph_def_add_input(node, name);
        return;
    }
    text = est_arena_printf(node->graph->arena, "%s:%d", name, (int)edge.output);
    if (text != NULL) {
        est_graph_def_add_input(node, text);
    } else if (node->graph->status == EST_OK) {
        node->graph->status = est_no_memory();
    }
}

static void put_control(est_graph_def_node *node, const char *name)
{
    char *text = est_arena_printf(node->graph->arena, "^%s", name);

    if (text != NULL) {
        est_graph_def_add_input(node, text);
    } else if (node->graph->status == EST_OK) {
        node->graph->status = est_no_memory();
    }
}

static est_status export_node(const est_graph *graph, const est_node_def *def, est_graph_def *out)
{
    est_graph_def_node *node = est_graph_def_add_node(out, def->name, def->op->name);
    est_signature       signature;

    EST_TRY(est_signature_parse(def->op, &signature));
    if (def->device[0] != '\0') est_graph_def_set_device(node, def->device);
    for (int32_t i = 0; i < def->n_in; i++) put_input(node, graph, def->in[i]);
    for (int32_t i = 0; i < def->n_control; i++) put_control(node, est_graph_node(graph, def->control[i])->name);
    for (int32_t i = 0; i < def->n_attr; i++) { /* in the order of the signature */
        if (!has_default(&def->attr[i], &signature.attr[i])) put_attr(node, &def->attr[i]);
    }
    return out->status;
}

est_status est_graph_export(const est_graph *graph, est_graph_def *out)
{
    EST_TRY(est_graph_status(graph));
    for (int32_t id = 0; id < est_graph_size(graph); id++) EST_TRY(export_node(graph, est_graph_node(graph, id), out));
    return EST_OK;
}
