/* SPDX-License-Identifier: Apache-2.0
 *
 * Imports a GraphDef: resolves names to edges, then builds nodes in topological order. */
#include "graph/import.h"

#include <inttypes.h>
#include <string.h>

#include "format/def_edges.h"
#include "format/tensor_proto.h"
#include "graph/internal.h"
#include "graph/op.h"
#include "graph/signature.h"

typedef struct import {
    const est_graph_def *def;
    est_op_lookup        lookup;
    est_graph           *graph;
    est_def_edges        edges;
    int32_t             *seen; /* [node]: number of visited inputs, -1 before the first visit */
    int32_t             *stack;
    est_node            *built;   /* [node]; its graph is NULL until it is built */
    est_node            *in;      /* scratch: the inputs of one node */
    const char         **missing; /* [node]: why it was left out; NULL: none may be */
    int32_t             *cause;   /* [node]: the first one that it needs and that was left out, or itself */
} import;

static est_status node_fail(const est_graph_def_node *node, est_status status)
{
    return est_fail_context(status, "node '%s' (%s)", node->name, node->op);
}

/* --- attributes --------------------------------------------------------------------------------------------------- */

static est_status convert_type(int32_t type, est_dtype *out)
{
    const char *name = est_dtype_proto_name(type);

    if (type != EST_DTYPE_NONE && strcmp(est_dtype_name((est_dtype)type), "unknown") == 0) {
        return est_fail(EST_UNIMPLEMENTED, "the type %s (%" PRId32 ") is not supported",
                        name != NULL ? name : "unknown", type);
    }
    *out = (est_dtype)type;
    return EST_OK;
}

static est_status convert_string(const import *m, est_str s, const char **out)
{
    return est_def_copy_text(est_graph_arena(m->graph), s, out);
}

static est_status convert_ints(const import *m, const est_def_value *list, est_i64s *out)
{
    int64_t *ints = est_arena_alloc(est_graph_arena(m->graph), sizeof *ints * ((size_t)list->n + 1));

    if (ints == NULL) return est_no_memory();
    if (list->n > 0 && list->items[0].kind != EST_DEF_I) {
        return est_fail(EST_INVALID_ARGUMENT, "a list of %s, expected int", est_def_kind_name(list->items[0].kind));
    }
    for (int i = 0; i < list->n; i++) ints[i] = list->items[i].i;
    *out = (est_i64s){ ints, list->n };
    return EST_OK;
}

static est_status convert_types(const import *m, const est_def_value *list, est_i64s *out)
{
    int64_t *types = est_arena_alloc(est_graph_arena(m->graph), sizeof *types * ((size_t)list->n + 1));

    if (types == NULL) return est_no_memory();
    if (list->n > 0 && list->items[0].kind != EST_DEF_TYPE) {
        return est_fail(EST_INVALID_ARGUMENT, "a list of %s, expected type", est_def_kind_name(list->items[0].kind));
    }
    for (int i = 0; i < list->n; i++) {
        est_dtype dtype;

        EST_TRY(convert_type(list->items[i].type, &dtype));
        types[i] = dtype;
    }
    *out = (est_i64s){ types, list->n };
    return EST_OK;
}

static est_status convert_shapes(const import *m, const est_def_value *list, est_shapes *out)
{
    est_shape *shapes = est_arena_alloc(est_graph_arena(m->graph), sizeof *shapes * ((size_t)list->n + 1));

    if (shapes == NULL) return est_no_memory();
    if (list->n > 0 && list->items[0].kind != EST_DEF_SHAPE) {
        return est_fail(EST_INVALID_ARGUMENT, "a list of %s, expected shape", est_def_kind_name(list->items[0].kind));
    }
    for (int i = 0; i < list->n; i++) shapes[i] = *list->items[i].shape;
    *out = (est_shapes){ shapes, list->n };
    return EST_OK;
}

/* A float that is the default's nearest one is the default: 0.1 stays 0.1 in a graph that was written and read. */
static double convert_float(float f, const est_attr_def *def)
{
    return def->optional && (float)def->fallback.f == f ? def->fallback.f : (double)f;
}

static est_status convert_value(const import *m, const est_attr_def *def, const est_def_value *value, est_attr *out)
{
    static const est_def_kind kinds[] = {
        [EST_ATTR_INT] = EST_DEF_I,         [EST_ATTR_FLOAT] = EST_DEF_F,     [EST_ATTR_BOOL] = EST_DEF_B,
        [EST_ATTR_TYPE] = EST_DEF_TYPE,     [EST_ATTR_SHAPE] = EST_DEF_SHAPE, [EST_ATTR_STRING] = EST_DEF_S,
        [EST_ATTR_INTS] = EST_DEF_LIST,     [EST_ATTR_TYPES] = EST_DEF_LIST,  [EST_ATTR_SHAPES] = EST_DEF_LIST,
        [EST_ATTR_TENSOR] = EST_DEF_TENSOR,
    };

    if (value->kind != kinds[def->kind]) {
        return est_fail(EST_INVALID_ARGUMENT, "the kind is %s, expected %s", est_def_kind_name(value->kind),
                        est_def_kind_name(kinds[def->kind]));
    }
    *out = (est_attr){ .name = def->name, .kind = def->kind };
    switch (def->kind) {
    case EST_ATTR_INT: out->i = value->i; return EST_OK;
    case EST_ATTR_FLOAT: out->f = convert_float(value->f, def); return EST_OK;
    case EST_ATTR_BOOL: out->b = value->b; return EST_OK;
    case EST_ATTR_TYPE: return convert_type(value->type, &out->type);
    case EST_ATTR_SHAPE: out->shape = *value->shape; return EST_OK;
    case EST_ATTR_STRING: return convert_string(m, value->s, &out->s);
    case EST_ATTR_INTS: return convert_ints(m, value, &out->ints);
    case EST_ATTR_TYPES: return convert_types(m, value, &out->ints);
    case EST_ATTR_SHAPES: return convert_shapes(m, value, &out->shapes);
    case EST_ATTR_TENSOR: return est_tensor_proto_parse(value->s, &out->tensor);
    }
    return EST_OK;
}

/* Whether an attribute that the op does not have can be ignored. */
static bool says_nothing(const est_def_attr *attr)
{
    const est_def_value *value = &attr->value;

    if (attr->name[0] == '_' || strcmp(attr->name, "debug_name") == 0) return true;
    switch (value->kind) {
    case EST_DEF_NONE: return true;
    case EST_DEF_LIST: return value->n == 0;
    case EST_DEF_S: return value->s.size == 0;
    case EST_DEF_I: return value->i == 0;
    case EST_DEF_F: return value->f == 0;
    case EST_DEF_B: return !value->b;
    case EST_DEF_TYPE: return value->type == EST_I32;
    default: return false;
    }
}

static const est_attr_def *find_attr(const est_signature *signature, const char *name)
{
    for (int i = 0; i < signature->n_attr; i++) {
        if (strcmp(signature->attr[i].name, name) == 0) return &signature->attr[i];
    }
    return NULL;
}

/* The attributes of a node, *n of them; tensors among them are the caller's to free, also after a failure. */
static est_status convert_attrs(const import *m, const est_graph_def_node *node, const est_signature *signature,
                                est_attr *attrs, int *n)
{
    for (int i = 0; i < node->attrs.n; i++) {
        const est_def_attr *attr = &node->attrs.items[i];
        const est_attr_def *def  = find_attr(signature, attr->name);
        est_status          status;

        if (def == NULL && says_nothing(attr)) continue;
        status = def != NULL ? convert_value(m, def, &attr->value, &attrs[*n])
                             : est_fail(EST_UNIMPLEMENTED, "Estoc's op has no such attribute");
        if (status != EST_OK) return est_fail_context(status, "attribute '%s'", attr->name);
        ++*n;
    }
    return EST_OK;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static est_status build_edges(const import *m, const est_op *op, int i, est_attrs attrs)
{
    const est_def_edge *edges  = m->edges.in[i];
    int                 n_data = 0, n = m->def->nodes[i]->inputs.n;
    est_node            built;

    for (; n_data < n && edges[n_data].output >= 0; n_data++) {
        m->in[n_data] = est_output(m->built[edges[n_data].node], edges[n_data].output);
    }
    est_here("", 0); /* errors must not name a line of the program */
    built = est_build(m->graph, op, (est_nodes){ m->in, n_data }, attrs);
    EST_TRY(est_graph_status(m->graph));
    for (int k = n_data; k < n; k++) (void)est_after(built, m->built[edges[k].node]);
    m->built[i] = built;
    return est_graph_status(m->graph);
}

static est_status set_names(const import *m, int i)
{
    const est_graph_def_node *node = m->def->nodes[i];
    est_node_def             *def  = est_graph_node(m->graph, m->built[i].id);

    def->name   = est_arena_strdup(est_graph_arena(m->graph), node->name);
    def->device = est_arena_strdup(est_graph_arena(m->graph), node->device);
    if (def->name == NULL || def->device == NULL) return est_no_memory();
    return EST_OK;
}

static est_status build_node(const import *m, int i)
{
    const est_graph_def_node *node = m->def->nodes[i];
    const est_op             *op   = m->lookup(node->op);
    est_attr                  attrs[EST_ATTR_MAX];
    est_signature             signature;
    est_status                status;
    int                       n = 0;

    if (op == NULL) return est_fail(EST_UNIMPLEMENTED, "op '%s' is not supported", node->op);
    EST_TRY(est_signature_parse(op, &signature));
    status = convert_attrs(m, node, &signature, attrs, &n);
    if (status == EST_OK) status = build_edges(m, op, i, (est_attrs){ attrs, n });
    if (status == EST_OK) status = set_names(m, i);
    for (int k = 0; k < n; k++) {
        if (attrs[k].kind == EST_ATTR_TENSOR) est_tensor_free(attrs[k].tensor);
    }
    return status;
}

/* Reserves all names of the GraphDef first: a node gets a temporary name until it is complete. */
static est_status reserve_names(const import *m)
{
    for (int i = 0; i < m->def->n_nodes; i++) {
        const char *name = m->def->nodes[i]->name;

        if (est_map_get(&m->graph->names, name) == NULL) {
            if (est_graph_unique_name(m->graph, name) == NULL) return est_no_memory();
        } else if (est_graph_find(m->graph, name).graph != NULL) { /* else it was a temporary one */
            return est_fail(EST_INVALID_ARGUMENT, "the graph already has a node called '%s'", name);
        }
    }
    return EST_OK;
}

/* Leaves a node out that could not be built, where that is allowed. */
static est_status leave_out(const import *m, int32_t i, est_status status)
{
    if (m->missing == NULL || status == EST_RESOURCE_EXHAUSTED) return status;
    m->missing[i] = est_arena_strdup(m->def->arena, est_error_message());
    est_graph_recover(m->graph);
    return m->missing[i] != NULL ? EST_OK : est_no_memory();
}

static bool is_missing(const import *m, int32_t i)
{
    return m->missing != NULL && m->missing[i] != NULL;
}

static est_status build_after_inputs(const import *m, int32_t i)
{
    const est_graph_def_node *node = m->def->nodes[i];

    for (int k = 0; k < node->inputs.n; k++) {
        int32_t from = m->edges.in[i][k].node;

        if (!is_missing(m, from)) continue;
        m->cause[i] = m->cause[from];
        return est_fail(EST_UNIMPLEMENTED, "it needs %s", m->missing[m->cause[from]]);
    }
    return build_node(m, i);
}

/* Builds node `root` after everything it needs. A node on the current path is visited but not built: finding it is a
 * cycle. */
static est_status build_with_inputs(import *m, int32_t root)
{
    int32_t depth = 0;

    m->stack[depth++] = root;
    m->seen[root]     = 0;
    while (depth > 0) {
        int32_t                   i    = m->stack[depth - 1];
        const est_graph_def_node *node = m->def->nodes[i];
        est_status                status;

        if (m->seen[i] < node->inputs.n) {
            int32_t from = m->edges.in[i][m->seen[i]++].node;

            if (m->built[from].graph != NULL || is_missing(m, from)) continue;
            if (m->seen[from] >= 0) {
                status = node_fail(node, est_fail(EST_INVALID_ARGUMENT, "input '%s' depends on the node itself",
                                                  m->def->nodes[from]->name));
                EST_TRY(leave_out(m, i, status));
                depth--;
                continue;
            }
            m->seen[from]     = 0;
            m->stack[depth++] = from;
            continue;
        }
        status = build_after_inputs(m, i);
        if (status != EST_OK) EST_TRY(leave_out(m, i, node_fail(node, status)));
        depth--;
    }
    return EST_OK;
}

/* Builds in the order of the message where inputs allow it: it is also the order of operations on a variable. */
static est_status build_all(import *m)
{
    for (int32_t i = 0; i < m->def->n_nodes; i++) {
        m->seen[i]  = -1;
        m->cause[i] = i;
    }
    for (int32_t i = 0; i < m->def->n_nodes; i++) {
        if (m->built[i].graph == NULL && !is_missing(m, i)) EST_TRY(build_with_inputs(m, i));
    }
    return EST_OK;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static est_status allocate(import *m)
{
    size_t n = (size_t)m->def->n_nodes + 1, n_in = 1;

    for (int i = 0; i < m->def->n_nodes; i++) {
        if ((size_t)m->def->nodes[i]->inputs.n > n_in) n_in = (size_t)m->def->nodes[i]->inputs.n;
    }
    m->seen  = est_alloc(sizeof *m->seen * n);
    m->stack = est_alloc(sizeof *m->stack * n);
    m->cause = est_alloc(sizeof *m->cause * n);
    m->built = est_zalloc(sizeof *m->built * n);
    m->in    = est_alloc(sizeof *m->in * n_in);
    if (m->seen == NULL || m->stack == NULL || m->cause == NULL) return est_no_memory();
    return m->built != NULL && m->in != NULL ? EST_OK : est_no_memory();
}

static est_status run_import(import *m)
{
    EST_TRY(m->def->status);
    EST_TRY(est_graph_status(m->graph));
    EST_TRY(allocate(m));
    EST_TRY(est_def_edges_init(&m->edges, m->def));
    EST_TRY(reserve_names(m));
    return build_all(m);
}

est_status est_graph_import(const est_graph_def *def, est_op_lookup lookup, est_graph *graph)
{
    return est_graph_import_part(def, lookup, graph, NULL);
}

est_status est_graph_import_part(const est_graph_def *def, est_op_lookup lookup, est_graph *graph, const char **missing)
{
import m          = {.def = def, .lookup = lookup, .graph = graph, .missing = missing };
    est_status status = run_import(&m);

    if (status != EST_OK && !est_graph_poisoned(graph)) (void)est_graph_poison(graph, status);
    est_def_edges_clear(&m.edges);
    est_free(m.seen);
    est_free(m.stack);
    est_free(m.cause);
    est_free(m.built);
    est_free(m.in);
    return status;
}
