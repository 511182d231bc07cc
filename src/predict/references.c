/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs are texts, so that the order of nodes does not matter: a first pass finds what refers to which variable, a
 * second one writes every node again. */
#include "predict/references.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

/* An op over references, that over handles, and how many of the first inputs are handles. */
typedef struct counterpart {
    const char *op, *of_handles;
    int         n_handles;
    bool        bare; /* its attributes follow from the inputs; the others keep theirs */
} counterpart;

static const counterpart counterparts[] = {
    { "Assign", "AssignVariableOp", 1, true },
    { "AssignAdd", "AssignAddVariableOp", 1, true },
    { "AssignSub", "AssignSubVariableOp", 1, true },
    { "ApplyAdadelta", "ResourceApplyAdadelta", 3, false },
    { "ApplyAdagrad", "ResourceApplyAdagrad", 2, false },
    { "ApplyAdagradV2", "ResourceApplyAdagradV2", 2, false },
    { "ApplyAdaMax", "ResourceApplyAdaMax", 3, false },
    { "ApplyAdam", "ResourceApplyAdam", 3, false },
    { "ApplyCenteredRMSProp", "ResourceApplyCenteredRMSProp", 4, false },
    { "ApplyFtrl", "ResourceApplyFtrl", 3, false },
    { "ApplyFtrlV2", "ResourceApplyFtrlV2", 3, false },
    { "ApplyGradientDescent", "ResourceApplyGradientDescent", 1, false },
    { "ApplyMomentum", "ResourceApplyMomentum", 2, false },
    { "ApplyRMSProp", "ResourceApplyRMSProp", 3, false },
    { "ScatterAdd", "ResourceScatterAdd", 1, true },
    { "ScatterSub", "ResourceScatterSub", 1, true },
    { "ScatterUpdate", "ResourceScatterUpdate", 1, true },
    { "SparseApplyAdadelta", "ResourceSparseApplyAdadelta", 3, false },
    { "SparseApplyAdagrad", "ResourceSparseApplyAdagrad", 2, false },
    { "SparseApplyAdagradV2", "ResourceSparseApplyAdagradV2", 2, false },
    { "SparseApplyCenteredRMSProp", "ResourceSparseApplyCenteredRMSProp", 4, false },
    { "SparseApplyFtrl", "ResourceSparseApplyFtrl", 3, false },
    { "SparseApplyFtrlV2", "ResourceSparseApplyFtrlV2", 3, false },
    { "SparseApplyMomentum", "ResourceSparseApplyMomentum", 2, false },
    { "SparseApplyRMSProp", "ResourceSparseApplyRMSProp", 3, false },
};

typedef struct replacer {
    est_graph_def *def;
    est_arena     *arena;
    est_map        variables; /* name -> its node */
    est_map        updates;   /* name -> its node */
    est_map        reads;     /* name of a variable -> name of its read */
    est_map        names;     /* of all nodes that the graph had, and of reads */
} replacer;

static bool is_variable(const est_graph_def_node *node)
{
    return strcmp(node->op, "VariableV2") == 0 || strcmp(node->op, "Variable") == 0;
}

static const counterpart *find_counterpart(const est_graph_def_node *node)
{
    for (size_t i = 0; i < sizeof counterparts / sizeof counterparts[0]; i++) {
        if (strcmp(node->op, counterparts[i].op) == 0) return &counterparts[i];
    }
    return NULL;
}

static est_status find_nodes(replacer *r)
{
    for (int i = 0; i < r->def->n_nodes; i++) {
        est_graph_def_node *node = r->def->nodes[i];

        EST_TRY(est_map_put(&r->names, node->name, node));
        if (is_variable(node)) EST_TRY(est_map_put(&r->variables, node->name, node));
        if (find_counterpart(node) != NULL) EST_TRY(est_map_put(&r->updates, node->name, node));
    }
    return EST_OK;
}

/* The node that an input is the first result of. */
static void *source(const est_map *map, const char *input)
{
    size_t size = strlen(input);

    if (size > 2 && strcmp(input + size - 2, ":0") == 0) size -= 2;
    return est_map_get_bytes(map, input, size);
}

/* The variable that an input refers to, also as the result of what changes it; NULL: none. */
static const est_graph_def_node *variable_of(const replacer *r, const char *input)
{
    for (int steps = 0; steps <= r->def->n_nodes; steps++) {
        const est_graph_def_node *variable = source(&r->variables, input), *update = source(&r->updates, input);

        if (variable != NULL || update == NULL || update->inputs.n == 0) return variable;
        input = update->inputs.items[0];
    }
    return NULL;
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

static est_status copy_attr(const est_graph_def_node *from, const char *name, est_graph_def_node *to, const char *as)
{
    const est_def_value *value = est_def_attrs_find(&from->attrs, name);

    if (value == NULL) return est_fail(EST_INVALID_ARGUMENT, "node '%s' has no attribute '%s'", from->name, name);
    est_graph_def_set(to, as, value);
    return to->graph->status;
}

static est_status add_read(replacer *r, const est_graph_def_node *variable, const char *name, est_graph_def_node **out)
{
    *out = est_graph_def_add_node(r->def, name, "ReadVariableOp");
    est_graph_def_add_input(*out, variable->name);
    return copy_attr(variable, "dtype", *out, "dtype");
}

/* A name that no node has. */
static est_status free_name(const replacer *r, const char *wanted, const char **out)
{
    *out = wanted;
    for (int i = 1; *out != NULL && est_map_get(&r->names, *out) != NULL; i++) {
        *out = est_arena_printf(r->arena, "%s_%d", wanted, i);
    }
    return *out != NULL ? EST_OK : est_no_memory();
}

static est_status replace_variable(replacer *r, est_graph_def_node *node)
{
    static const char *const kept[] = { "container", "dtype", "shape", "shared_name" };
    const char              *name   = est_arena_printf(r->arena, "%s/Read/ReadVariableOp", node->name);
    est_def_attrs            attrs  = { 0 };
    est_graph_def_node      *read;

    for (int i = 0; i < 4; i++) {
        const est_def_value *value = est_def_attrs_find(&node->attrs, kept[i]);

        if (value != NULL) EST_TRY(est_def_attrs_set(r->arena, &attrs, kept[i], value));
    }
    if (name == NULL) return est_no_memory();
    node->op    = "VarHandleOp";
    node->attrs = attrs;
    EST_TRY(free_name(r, name, &name));
    EST_TRY(add_read(r, node, name, &read));
    EST_TRY(est_map_put(&r->names, read->name, read));
    return est_map_put(&r->reads, node->name, (void *)(uintptr_t)read->name);
}

/* --- what uses them ----------------------------------------------------------------------------------------------- */

static bool is_control(const char *input)
{
    return input[0] == '^';
}

static bool waits(const est_graph_def_node *node)
{
    return node->inputs.n > 0 && is_control(node->inputs.items[node->inputs.n - 1]);
}

/* Lists the update whose result an input is, for what refers to the variable itself after it. */
static est_status add_wait(const replacer *r, const char *input, est_def_names *waits_for)
{
    const est_graph_def_node *update = source(&r->updates, input);
    const char               *name;

    if (update == NULL) return EST_OK;
    name = est_arena_printf(r->arena, "^%s>update", update->name);
    return name != NULL ? est_def_names_add(r->arena, waits_for, name) : est_no_memory();
}

/* The value of a variable as input i of a node. One that waits reads it when it has waited, so the read waits too, also
 * where the input is the result of an update: it is a reference, which gives what the variable has by then. */
static est_status find_value(replacer *r, const est_graph_def_node *node, int i, const est_graph_def_node *variable,
                             const char **out)
{
    const char         *input = *out;
    est_graph_def_node *read;

    if (!waits(node)) {
        if (source(&r->updates, input) == NULL) *out = est_map_get(&r->reads, variable->name);
        return EST_OK;
    }
    *out = est_arena_printf(r->arena, "%s>read_%d", node->name, i);
    if (*out == NULL) return est_no_memory();
    EST_TRY(add_read(r, variable, *out, &read));
    EST_TRY(add_wait(r, input, &read->inputs));
    for (int k = 0; k < node->inputs.n; k++) {
        if (is_control(node->inputs.items[k])) est_graph_def_add_input(read, node->inputs.items[k]);
    }
    return r->def->status;
}

static est_status find_input(replacer *r, const est_graph_def_node *node, int i, bool handle, est_def_names *waits_for,
                             const char **out)
{
    const est_graph_def_node *variable;

    *out = node->inputs.items[i];
    if (is_control(*out)) return EST_OK;
    variable = variable_of(r, *out);
    if (variable == NULL) return EST_OK;
    if (!handle) return find_value(r, node, i, variable, out);
    EST_TRY(add_wait(r, *out, waits_for));
    *out = variable->name;
    return EST_OK;
}

static est_status connect(replacer *r, est_graph_def_node *node, int n_handles)
{
    est_def_names inputs = { 0 }, waits_for = { 0 };

    for (int i = 0; i < node->inputs.n; i++) {
        const char *input;

        EST_TRY(find_input(r, node, i, i < n_handles, &waits_for, &input));
        EST_TRY(est_def_names_add(r->arena, &inputs, input));
    }
    for (int i = 0; i < waits_for.n; i++) EST_TRY(est_def_names_add(r->arena, &inputs, waits_for.items[i]));
    node->inputs = inputs;
    return EST_OK;
}

/* The attributes of the op over handles: neither locks nor checks are left to be chosen. */
static est_status keep_attrs(const replacer *r, est_graph_def_node *node, const counterpart *to)
{
    est_def_attrs attrs = { 0 };

    for (int i = 0; i < node->attrs.n && !to->bare; i++) {
        const est_def_attr *attr = &node->attrs.items[i];

        if (strcmp(attr->name, "use_locking") == 0) continue;
        EST_TRY(est_def_attrs_set(r->arena, &attrs, attr->name, &attr->value));
    }
    node->attrs = attrs;
    return EST_OK;
}

/* The node becomes the read behind the update, which is a new node. */
static est_status replace_update(replacer *r, est_graph_def_node *node, const counterpart *to)
{
    const char               *name     = est_arena_printf(r->arena, "%s>update", node->name);
    const char               *after    = est_arena_printf(r->arena, "^%s>update", node->name);
    const est_graph_def_node *variable = node->inputs.n > 0 ? variable_of(r, node->inputs.items[0]) : NULL;
    est_graph_def_node       *update;

    if (name == NULL || after == NULL) return est_no_memory();
    if (variable == NULL) return EST_OK; /* of no variable of this graph: the import tells */
    update = est_graph_def_add_node(r->def, name, to->of_handles);
    EST_TRY(r->def->status);
    update->inputs = node->inputs;
    update->attrs  = node->attrs;
    EST_TRY(connect(r, update, to->n_handles));
    EST_TRY(keep_attrs(r, update, to));
    node->op     = "ReadVariableOp";
    node->inputs = (est_def_names){ 0 };
    node->attrs  = (est_def_attrs){ 0 };
    est_graph_def_add_input(node, variable->name);
    est_graph_def_add_input(node, after);
    return copy_attr(variable, "dtype", node, "dtype");
}

/* Asking whether a reference has a value becomes asking a handle. */
static est_status replace_question(replacer *r, est_graph_def_node *node)
{
    node->op    = "VarIsInitializedOp";
    node->attrs = (est_def_attrs){ 0 };
    return connect(r, node, 1);
}

static est_status replace_all(replacer *r)
{
    int n = r->def->n_nodes; /* without those that are added */

    EST_TRY(find_nodes(r));
    for (int i = 0; i < n; i++) {
        if (is_variable(r->def->nodes[i])) EST_TRY(replace_variable(r, r->def->nodes[i]));
    }
    for (int i = 0; i < n; i++) {
        est_graph_def_node *node = r->def->nodes[i];

        if (source(&r->updates, node->name) != NULL || source(&r->variables, node->name) != NULL) continue;
        if (strcmp(node->op, "IsVariableInitialized") == 0)
            EST_TRY(replace_question(r, node));
        else
            EST_TRY(connect(r, node, 0));
    }
    return EST_OK;
}

/* Last, since the inputs of updates say which variable their results refer to. */
static est_status replace_updates(replacer *r)
{
    int n = r->def->n_nodes;

    for (int i = 0; i < n; i++) {
        const counterpart *to = find_counterpart(r->def->nodes[i]);

        if (to != NULL) EST_TRY(replace_update(r, r->def->nodes[i], to));
    }
    return EST_OK;
}

est_status est_replace_references(est_graph_def *def)
{
    replacer   r      = { .def = def, .arena = def->arena };
    est_status status = replace_all(&r);

    if (status == EST_OK) status = replace_updates(&r);
    est_map_clear(&r.variables);
    est_map_clear(&r.updates);
    est_map_clear(&r.reads);
    est_map_clear(&r.names);
    return status;
}
