/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/simplify.h"

#include <string.h>

#include "format/def_edges.h"
#include "graph/op.h"
#include "predict/expand.h"

typedef struct simplifier {
    est_graph_def *def;
    est_arena     *arena;
    est_op_lookup  lookup;
    bool           whole; /* any tensor may be fed, fetched and differentiated */
    est_def_edges  edges;
    bool          *fed;    /* [node] */
    uint8_t       *effect; /* [node]: one of the below */
    int32_t       *stack;
    int32_t       *next; /* [node]: inputs visited */
    int32_t       *same; /* [node]: itself, or the first handle of the same variable or table */
    est_def_edge  *path; /* [node]: what a handle of a variable holds; its node is -1: not known */
} simplifier;

#define HANDLE ">handle" /* the end of the name of a handle that TensorFlow 1 did not have */

enum { UNVISITED = 0, ON_PATH, NO_EFFECT, HAS_EFFECT };

static bool is(const est_graph_def_node *node, const char *op)
{
    return strcmp(node->op, op) == 0;
}

/* --- one node for another ----------------------------------------------------------------------------------------- */

static est_status set_attrs(const simplifier *m, est_graph_def_node *node, const char *const *names, int n)
{
    est_def_attrs attrs = { 0 };

    for (int i = 0; i < n; i++) {
        const est_def_value *value = est_def_attrs_find(&node->attrs, names[i]);

        if (value != NULL) EST_TRY(est_def_attrs_set(m->arena, &attrs, names[i], value));
    }
    node->attrs = attrs;
    return EST_OK;
}

/* A variable of TensorFlow 1 is its value to those that read it: the node becomes the read of a new handle. */
static est_status replace_variable(const simplifier *m, est_graph_def_node *node)
{
    static const char *const kept[] = { "container", "dtype", "shape", "shared_name" };
    const char              *name   = est_arena_printf(m->arena, "%s" HANDLE, node->name);
    est_graph_def_node      *handle;

    if (name == NULL) return est_no_memory();
    handle = est_graph_def_add_node(m->def, name, "VarHandleOp");
    EST_TRY(m->def->status);
    handle->attrs = node->attrs;
    EST_TRY(set_attrs(m, handle, kept, 4));
    node->op     = "ReadVariableOp";
    node->inputs = (est_def_names){ 0 };
    est_graph_def_add_input(node, name);
    return set_attrs(m, node, &kept[1], 1);
}

static est_status name_handle(const simplifier *m, est_graph_def_node *node)
{
    const est_def_value *shared = est_def_attrs_find(&node->attrs, "shared_name");
    const char          *name = node->name, *mark = strrchr(name, '>');
    bool                 made  = mark != NULL && strcmp(mark, HANDLE) == 0; /* by replace_variable */
    size_t               size  = made ? (size_t)(mark - name) : strlen(name);
    est_def_attrs        attrs = { 0 };

    if (shared != NULL && shared->kind == EST_DEF_S && shared->s.size > 0) return EST_OK;
    for (int i = 0; i < node->attrs.n; i++) {
        EST_TRY(est_def_attrs_set(m->arena, &attrs, node->attrs.items[i].name, &node->attrs.items[i].value));
    }
    node->attrs = attrs; /* a copy: those of functions are shared by their calls */
    est_graph_def_set(node, "shared_name", &(est_def_value){ .kind = EST_DEF_S, .s = { name, size } });
    return m->def->status;
}

/* Nothing is printed: a Print gives its first input on, a PrintV2 is waited for as before. */
static est_status replace_print(const simplifier *m, est_graph_def_node *node)
{
    bool          gives  = is(node, "Print");
    est_def_names inputs = { 0 };

    for (int i = 0; i < node->inputs.n; i++) {
        if (node->inputs.items[i][0] == '^' || (gives && i == 0)) {
            EST_TRY(est_def_names_add(m->arena, &inputs, node->inputs.items[i]));
        }
    }
    node->op     = gives ? "Identity" : "NoOp";
    node->inputs = inputs;
    node->attrs  = (est_def_attrs){ 0 };
    return EST_OK;
}

static est_status replace_node(const simplifier *m, int i)
{
    static const char *const placeholder[] = { "dtype", "shape" };
    est_graph_def_node      *node          = m->def->nodes[i];

    if (is(node, "VariableV2") || is(node, "Variable")) return replace_variable(m, node);
    if (is(node, "VarHandleOp")) return name_handle(m, node);
    if (is(node, "Print") || is(node, "PrintV2")) return replace_print(m, node);
    if (is(node, "MutableHashTableV2")) node->op = "HashTableV2";
    if (is(node, "InitializeTableV2")) {
        node->op    = "LookupTableImportV2";
        node->attrs = (est_def_attrs){ 0 };
    }
    if (m->whole && is(node, "PlaceholderWithDefault")) {
        node->op    = "Identity";
        node->attrs = (est_def_attrs){ 0 };
    }
    if (is(node, "PlaceholderWithDefault") && m->fed[i]) {
        node->op     = "Placeholder";
        node->inputs = (est_def_names){ 0 };
        return set_attrs(m, node, placeholder, 2);
    }
    return est_expand_node(m->def, node);
}

static est_status mark_fed(simplifier *m, const est_def_names *fed)
{
    est_def_edge edge;

    for (int i = 0; i < fed->n; i++) {
        EST_TRY(est_def_edges_parse(&m->edges, fed->items[i], &edge));
        m->fed[edge.node] = true;
    }
    return EST_OK;
}

static est_status replace_nodes(simplifier *m, const est_def_names *fed)
{
    int n = m->def->n_nodes; /* without those that are added */

    EST_TRY(est_def_edges_init(&m->edges, m->def));
    m->fed = est_arena_alloc(m->arena, (size_t)n + 1);
    if (m->fed == NULL) return est_no_memory();
    EST_TRY(mark_fed(m, fed));
    for (int i = 0; i < n; i++) EST_TRY(replace_node(m, i));
    for (int i = n; i < m->def->n_nodes; i++) {
        if (is(m->def->nodes[i], "VarHandleOp")) EST_TRY(name_handle(m, m->def->nodes[i]));
    }
    est_def_edges_clear(&m->edges);
    return est_def_edges_init(&m->edges, m->def);
}

/* --- effects ------------------------------------------------------------------------------------------------------ */

/* Whether a node changes something or may fail on purpose. A whole graph may be written again, for programs that know
 * only from its edges that an update comes after a read. */
static bool has_own_effect(const simplifier *m, const est_graph_def_node *node)
{
    const est_op *op = m->lookup(node->op);

    if (op == NULL || (m->whole && is(node, "ReadVariableOp"))) return true;
    return op->writes != 0 || (op->stateful && strstr(op->signature, "-> ()") != NULL);
}

/* Whether anything with an effect runs before `root` is done, or is `root`. What waits for itself is left alone: the
 * import tells. */
static bool has_effect(const simplifier *m, int32_t root)
{
    int depth = 0;

    if (m->effect[root] == UNVISITED) m->stack[depth++] = root;
    while (depth > 0) {
        int32_t at = m->stack[depth - 1], from;

        if (m->effect[at] == UNVISITED) m->effect[at] = has_own_effect(m, m->def->nodes[at]) ? HAS_EFFECT : ON_PATH;
        if (m->effect[at] == HAS_EFFECT || m->next[at] >= m->def->nodes[at]->inputs.n) {
            if (m->effect[at] == ON_PATH) m->effect[at] = NO_EFFECT;
            depth--;
            continue;
        }
        from = m->edges.in[at][m->next[at]].node;
        if (m->effect[from] == UNVISITED) {
            m->stack[depth++] = from;
            continue;
        }
        if (m->effect[from] != NO_EFFECT) m->effect[at] = HAS_EFFECT;
        m->next[at]++;
    }
    return m->effect[root] == HAS_EFFECT;
}

/* --- edges -------------------------------------------------------------------------------------------------------- */

static int count_data(const simplifier *m, int32_t node)
{
    int n = 0;

    while (n < m->def->nodes[node]->inputs.n && m->edges.in[node][n].output >= 0) n++;
    return n;
}

static bool is_of_handles(const est_graph_def_node *node)
{
    const est_def_value *type = est_def_attrs_find(&node->attrs, "T");

    return type != NULL && type->kind == EST_DEF_TYPE && type->type == EST_RESOURCE;
}

/* Whether a node gives its inputs on as they are, and waits for nothing with an effect. */
static bool passes(const simplifier *m, int32_t i)
{
    const est_graph_def_node *node = m->def->nodes[i];

    if (m->whole && !is_of_handles(node)) return false;
    if (!is(node, "Identity") && !is(node, "IdentityN") && !is(node, "StopGradient") && !is(node, "PreventGradient") &&
        !is(node, "Snapshot") && !is(node, "PlaceholderWithDefault")) {
        return false;
    }
    for (int k = count_data(m, i); k < node->inputs.n; k++) {
        if (has_effect(m, m->edges.in[i][k].node)) return false;
    }
    return true;
}

static est_def_edge bypass(const simplifier *m, est_def_edge edge)
{
    for (int steps = 0; edge.output >= 0 && steps < m->def->n_nodes; steps++) {
        if (!passes(m, edge.node) || edge.output >= count_data(m, edge.node)) break;
        edge = m->edges.in[edge.node][edge.output];
    }
    if (edge.output >= 0) edge.node = m->same[edge.node];
    return edge;
}

/* Finds handles of the same variable or table: they have one shared_name. */
static est_status find_same(const simplifier *m, est_map *handles)
{
    for (int i = 0; i < m->def->n_nodes; i++) {
        const est_graph_def_node *node = m->def->nodes[i];
        const est_def_value      *name = est_def_attrs_find(&node->attrs, "shared_name");
        const char               *key;
        uintptr_t                 first;

        m->same[i] = i;
        if ((!is(node, "VarHandleOp") && !is(node, "HashTableV2")) || name == NULL || name->kind != EST_DEF_S) continue;
        if (name->s.size == 0) continue;
        key = est_arena_printf(m->arena, "%s %.*s", node->op, (int)name->s.size, name->s.data);
        if (key == NULL) return est_no_memory();
        first = (uintptr_t)est_map_get(handles, key);
        if (first != 0)
            m->same[i] = (int32_t)(first - 1);
        else
            EST_TRY(est_map_put(handles, key, (void *)(uintptr_t)(i + 1)));
    }
    return EST_OK;
}

/* The handle behind an edge, also of one that reads it as variables of TensorFlow 1 are given to their Assign. */
static est_def_edge handle_of(const simplifier *m, est_def_edge edge)
{
    edge = bypass(m, edge);
    if (is(m->def->nodes[edge.node], "ReadVariableOp") && count_data(m, edge.node) == 1) {
        edge = bypass(m, m->edges.in[edge.node][0]);
    }
    return edge;
}

/* Finds variables that hold paths: something assigns them a constant string. */
static void find_paths(const simplifier *m)
{
    for (int i = 0; i < m->def->n_nodes; i++) m->path[i].node = -1;
    for (int i = 0; i < m->def->n_nodes; i++) {
        const est_graph_def_node *node = m->def->nodes[i];
        const est_def_value      *dtype;
        est_def_edge              handle, value;

        if (!is(node, "AssignVariableOp") || count_data(m, i) != 2) continue;
        handle = handle_of(m, m->edges.in[i][0]);
        value  = bypass(m, m->edges.in[i][1]);
        dtype  = est_def_attrs_find(&m->def->nodes[value.node]->attrs, "dtype");
        if (!is(m->def->nodes[value.node], "Const") || dtype == NULL || dtype->type != EST_STRING) continue;
        m->path[handle.node] = value;
    }
}

static void replace_reads(const simplifier *m)
{
    for (int i = 0; i < m->def->n_nodes; i++) {
        est_graph_def_node *node = m->def->nodes[i];
        est_def_edge        handle;

        if (!is(node, "ReadVariableOp") || count_data(m, i) != 1) continue;
        handle = bypass(m, m->edges.in[i][0]);
        if (m->path[handle.node].node < 0) continue;
        node->op          = "Identity";
        node->attrs       = (est_def_attrs){ 0 };
        node->inputs.n    = 1;
        m->edges.in[i][0] = m->path[handle.node];
    }
}

static est_status add_input(const simplifier *m, est_def_edge from, est_def_names *out)
{
    const char *name = m->def->nodes[from.node]->name;

    if (from.output != 0) {
        name = from.output < 0 ? est_arena_printf(m->arena, "^%s", name)
                               : est_arena_printf(m->arena, "%s:%d", name, (int)from.output);
    }
    if (name == NULL) return est_no_memory();
    return est_def_names_add(m->arena, out, name);
}

/* Control inputs that wait for one thing are one. */
static bool has_control(const simplifier *m, int32_t node, int n, int32_t from)
{
    for (int k = count_data(m, node); k < n; k++) {
        if (m->edges.in[node][k].node == from) return true;
    }
    return false;
}

static est_status connect(const simplifier *m, int i, est_def_names *inputs)
{
    const est_graph_def_node *node   = m->def->nodes[i];
    bool                      assign = is(node, "Assign");

    for (int k = 0; k < node->inputs.n; k++) {
        est_def_edge from = m->edges.in[i][k];

        if (from.output >= 0) {
            from = assign && k == 0 ? handle_of(m, from) : bypass(m, from);
        } else if (!has_effect(m, from.node) || has_control(m, i, k, from.node)) {
            continue;
        }
        EST_TRY(add_input(m, from, inputs));
    }
    return EST_OK;
}

/* All new inputs are found before one changes: edges and numbers of inputs belong together. */
static est_status connect_all(const simplifier *m)
{
    int            n      = m->def->n_nodes;
    est_def_names *inputs = est_arena_alloc(m->arena, ((size_t)n + 1) * sizeof *inputs);

    if (inputs == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) EST_TRY(connect(m, i, &inputs[i]));
    for (int i = 0; i < n; i++) {
        est_graph_def_node *node = m->def->nodes[i];

        node->inputs = inputs[i];
        if (!is(node, "Assign")) continue;
        node->op    = "AssignVariableOp";
        node->attrs = (est_def_attrs){ 0 };
    }
    return EST_OK;
}

static est_status simplify(simplifier *m, const est_def_names *fed)
{
    est_map    handles = { 0 };
    est_status status;
    size_t     room;

    EST_TRY(replace_nodes(m, fed));
    room      = (size_t)m->def->n_nodes + 1;
    m->effect = est_arena_alloc(m->arena, room * sizeof *m->effect);
    m->stack  = est_arena_alloc(m->arena, room * sizeof *m->stack);
    m->next   = est_arena_alloc(m->arena, room * sizeof *m->next);
    m->same   = est_arena_alloc(m->arena, room * sizeof *m->same);
    m->path   = est_arena_alloc(m->arena, room * sizeof *m->path);
    if (m->same == NULL || m->effect == NULL || m->stack == NULL || m->next == NULL || m->path == NULL)
        return est_no_memory();
    status = find_same(m, &handles);
    est_map_clear(&handles);
    EST_TRY(status);
    find_paths(m);
    if (!m->whole) replace_reads(m);
    memset(m->effect, UNVISITED, room * sizeof *m->effect); /* reads have lost inputs */
    memset(m->next, 0, room * sizeof *m->next);
    return connect_all(m);
}

est_status est_simplify(est_graph_def *def, const est_def_names *fed, est_op_lookup lookup)
{
    simplifier m      = { .def = def, .arena = def->arena, .lookup = lookup };
    est_status status = simplify(&m, fed);

    est_def_edges_clear(&m.edges);
    return status;
}

est_status est_simplify_whole(est_graph_def *def, est_op_lookup lookup)
{
    simplifier m      = { .def = def, .arena = def->arena, .lookup = lookup, .whole = true };
    est_status status = simplify(&m, &(est_def_names){ 0 });

    est_def_edges_clear(&m.edges);
    return status;
}
