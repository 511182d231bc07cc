/* SPDX-License-Identifier: Apache-2.0
 *
 * A MetaGraphDef in a graph of the program: its names get the scope, functions are inlined, references become handles,
 * and what Estoc has of the operations is added. */
#include <string.h>

#include "base/argument.h"
#include "base/file.h"
#include "base/map.h"
#include "base/options.h"
#include "estoc/meta_graph.h"
#include "estoc/ops.h"
#include "format/def_edges.h"
#include "format/meta_graph_def.h"
#include "format/variable_def.h"
#include "graph/graph.h"
#include "graph/import.h"
#include "graph/op.h"
#include "ops/ops.h"
#include "predict/inline.h"
#include "predict/references.h"
#include "predict/simplify.h"

struct est_meta_graph {
    est_arena             *arena; /* has everything */
    est_meta_collections   collections;
    est_missing_operations missing;
    est_named_nodes        saved;
    int                    keep_max;
};

typedef struct importer {
    est_arena         *arena;
    est_graph         *graph;
    const char        *scope; /* NULL: none */
    est_meta_graph_def meta;
    est_graph_def      flat;
    est_def_edges      edges;
    est_map            added;   /* name -> id + 1 of a node of the graph */
    const char       **missing; /* [node of flat] */
    est_meta_graph    *out;
} importer;

static bool is(const est_graph_def_node *node, const char *op)
{
    return strcmp(node->op, op) == 0;
}

/* --- the message -------------------------------------------------------------------------------------------------- */

static est_status read_message(importer *m, const char *path)
{
    char      *bytes = NULL;
    size_t     size  = 0;
    est_status status;

    EST_TRY(est_file_read(path, &bytes, &size));
    status = est_meta_graph_def_parse_bytes((est_str){ bytes, size }, m->arena, &m->meta);
    est_free(bytes);
    return status;
}

/* A name in the scope: "x", "x:1" or "^x". */
static est_status scoped(const importer *m, const char *name, const char **out)
{
    bool control = name[0] == '^';

    *out = name;
    if (m->scope != NULL) *out = est_arena_printf(m->arena, "%s%s/%s", control ? "^" : "", m->scope, name + control);
    return *out != NULL ? EST_OK : est_no_memory();
}

/* The variables of two scopes are two: what names one in a session gets the scope too. */
static est_status scope_variable(const importer *m, est_graph_def_node *node)
{
    const est_def_value *shared = est_def_attrs_find(&node->attrs, "shared_name");
    const char          *name;

    if (!is(node, "VarHandleOp") || shared == NULL || shared->kind != EST_DEF_S || shared->s.size == 0) return EST_OK;
    EST_TRY(est_def_copy_text(m->arena, shared->s, &name));
    EST_TRY(scoped(m, name, &name));
    est_graph_def_set_s(node, "shared_name", name);
    return node->graph->status;
}

static est_status rename_nodes(const importer *m)
{
    const est_graph_def *def = &m->meta.graph;

    for (int i = 0; i < def->n_nodes; i++) {
        est_graph_def_node *node = def->nodes[i];

        EST_TRY(scoped(m, node->name, &node->name));
        EST_TRY(scope_variable(m, node));
        for (int k = 0; k < node->inputs.n; k++) EST_TRY(scoped(m, node->inputs.items[k], &node->inputs.items[k]));
    }
    return EST_OK;
}

static est_status flatten(importer *m)
{
    const est_graph_def *def   = &m->meta.graph;
    est_def_names        roots = { 0 };

    if (m->scope != NULL) EST_TRY(rename_nodes(m));
    for (int i = 0; i < def->n_nodes; i++) EST_TRY(est_def_names_add(m->arena, &roots, def->nodes[i]->name));
    est_graph_def_init(&m->flat, m->arena);
    EST_TRY(est_inline(def, &roots, est_op_find_public, &m->flat));
    EST_TRY(est_replace_references(&m->flat));
    EST_TRY(est_simplify_whole(&m->flat, est_op_find_public));
    return est_def_edges_init(&m->edges, &m->flat);
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

/* All nodes by their names: to search the graph for each variable takes too long where there are many. */
static est_status index_nodes(importer *m)
{
    for (int32_t id = 0; id < est_graph_size(m->graph); id++) {
        EST_TRY(est_map_put(&m->added, est_graph_node(m->graph, id)->name, (void *)(uintptr_t)(id + 1)));
    }
    return EST_OK;
}

static est_node find_added(const importer *m, const char *name)
{
    uintptr_t found = (uintptr_t)est_map_get(&m->added, name);

    return found != 0 ? (est_node){ m->graph, (int32_t)(found - 1), 0 } : EST_NO_NODE;
}

/* The node that initializes a variable: of references, what changes it is beside the read that has its name. */
static est_status find_initializer(const importer *m, const char *name, est_node *out)
{
    const char *update;

    EST_TRY(scoped(m, name, &name));
    update = est_arena_printf(m->arena, "%s>update", name);
    if (update == NULL) return est_no_memory();
    *out = find_added(m, update);
    if (out->graph == NULL) *out = find_added(m, name);
    return EST_OK;
}

static est_status find_handle(const importer *m, const char *tensor, est_node *out)
{
    const char *colon = strrchr(tensor, ':');

    EST_TRY(scoped(m, tensor, &tensor));
    if (colon != NULL) {
        tensor = est_arena_printf(m->arena, "%.*s", (int)(strrchr(tensor, ':') - tensor), tensor);
        if (tensor == NULL) return est_no_memory();
    }
    *out = find_added(m, tensor);
    if (est_variable_dtype(*out) == EST_DTYPE_NONE) *out = EST_NO_NODE;
    return EST_OK;
}

static bool is_collected(const est_graph *graph, const char *collection, est_node node)
{
    est_nodes all = est_graph_collection(graph, collection);

    for (int i = 0; i < all.n; i++) {
        if (all.data[i].id == node.id) return true;
    }
    return false;
}

static est_status add_variable(const importer *m, const char *collection, est_str message)
{
    est_variable_def def = { 0 };
    est_node         handle, initializer;

    EST_TRY(est_variable_def_parse(message, m->arena, &def));
    EST_TRY(find_handle(m, def.variable_name, &handle));
    if (handle.graph == NULL || is_collected(m->graph, collection, handle)) return EST_OK;
    est_graph_collect(m->graph, collection, handle);
    EST_TRY(find_initializer(m, def.initializer_name, &initializer));
    if (initializer.graph != NULL && est_graph_initializer(m->graph, handle.id).graph == NULL) {
        est_graph_set_initializer(m->graph, handle.id, initializer);
    }
    return est_graph_status(m->graph);
}

/* The collections of variables, and what they are called in a graph here. */
static const char *const of_graph[][2] = { { "variables", "global_variables" },
                                           { "trainable_variables", "trainable_variables" },
                                           { "local_variables", "local_variables" },
                                           { "global_step", "global_step" } };

static bool is_of_graph(const char *name)
{
    for (int i = 0; i < 4; i++) {
        if (strcmp(of_graph[i][0], name) == 0) return true;
    }
    return false;
}

static est_status add_variables(const importer *m)
{
    for (int i = 0; i < 4; i++) {
        const est_collection_def *list = est_meta_graph_def_collection(&m->meta, of_graph[i][0]);

        if (list == NULL || list->kind != EST_COLLECTION_BYTES) continue;
        for (int k = 0; k < list->n; k++) EST_TRY(add_variable(m, of_graph[i][1], list->bytes[k]));
    }
    return EST_OK;
}

/* --- the saver ---------------------------------------------------------------------------------------------------- */

/* What a value is before operations that give it on. */
static est_def_edge before_identities(const importer *m, est_def_edge edge)
{
    for (int steps = 0; steps < m->flat.n_nodes; steps++) {
        const est_graph_def_node *node = m->flat.nodes[edge.node];

        if (!is(node, "Identity") || node->inputs.n == 0) break;
        edge = m->edges.in[edge.node][0];
    }
    return edge;
}

/* The text that element k of an input of RestoreV2 is. */
static est_status text_of(const importer *m, int32_t restore, int input, int32_t k, const char **out)
{
    const est_graph_def_node *node  = m->flat.nodes[restore], *list;
    est_tensor               *value = NULL;
    est_status                status;

    if (node->inputs.n < 3) return est_fail(EST_DATA_LOSS, "node '%s' (RestoreV2) lacks inputs", node->name);
    list = m->flat.nodes[m->edges.in[restore][input].node];
    if (!is(list, "Const")) {
        return est_fail(EST_UNIMPLEMENTED, "input %d of node '%s' (RestoreV2) is not a constant", input, node->name);
    }
    EST_TRY(est_graph_def_get_tensor(list, "value", &value));
    if (est_tensor_dtype(value) != EST_STRING || k < 0 || k >= est_tensor_count(value)) {
        status = est_fail(EST_DATA_LOSS, "node '%s' (RestoreV2) has no result %d", node->name, (int)k);
    } else {
        status = est_def_copy_text(m->arena, ((const est_str *)est_tensor_data(value))[k], out);
    }
    est_tensor_free(value);
    return status;
}

/* Lists the variable that a node restores, if it restores one. */
static est_status add_saved(const importer *m, int32_t i, est_named_node *saved, int *n)
{
    const char  *key, *slice;
    est_def_edge value;
    est_node     handle;

    if (!is(m->flat.nodes[i], "AssignVariableOp") || m->flat.nodes[i]->inputs.n < 2) return EST_OK;
    value = before_identities(m, m->edges.in[i][1]);
    if (!is(m->flat.nodes[value.node], "RestoreV2")) return EST_OK;
    EST_TRY(text_of(m, value.node, 1, value.output, &key));
    EST_TRY(text_of(m, value.node, 2, value.output, &slice));
    handle = find_added(m, m->flat.nodes[m->edges.in[i][0].node]->name);
    if (handle.graph == NULL) return EST_OK; /* the variable is missing */
    if (slice[0] != '\0') {
        return est_fail(EST_UNIMPLEMENTED, "\"%s\" is restored in parts (%s): variables here are whole", key, slice);
    }
    saved[(*n)++] = (est_named_node){ .name = key, .node = handle };
    return EST_OK;
}

static est_status list_saved(const importer *m)
{
    const est_saver_def *saver = m->meta.saver;
    size_t               room  = (size_t)m->flat.n_nodes + 1;
    bool                *reached;
    int32_t             *stack;
    est_named_node      *saved;
    est_def_edge         root;
    const char          *name;
    int                  n = 0;

    m->out->keep_max = saver != NULL ? saver->max_to_keep : -1;
    if (saver == NULL || saver->restore_op_name[0] == '\0') return EST_OK;
    reached = est_arena_alloc(m->arena, room);
    stack   = est_arena_alloc(m->arena, room * sizeof *stack);
    saved   = est_arena_alloc(m->arena, room * sizeof *saved);
    if (reached == NULL || stack == NULL || saved == NULL) return est_no_memory();
    EST_TRY(scoped(m, saver->restore_op_name, &name));
    EST_TRY(est_def_edges_parse(&m->edges, name, &root));
    est_def_edges_reach(&m->edges, root.node, reached, stack);
    for (int32_t i = 0; i < m->flat.n_nodes; i++) {
        if (reached[i]) EST_TRY(add_saved(m, i, saved, &n));
    }
    m->out->saved = (est_named_nodes){ saved, n };
    return EST_OK;
}

/* --- what is told ------------------------------------------------------------------------------------------------- */

static bool saves(const est_graph_def_node *node)
{
    static const char *const ops[] = { "SaveV2", "RestoreV2", "MergeV2Checkpoints", "ShardedFilename" };

    for (int i = 0; i < 4; i++) {
        if (is(node, ops[i])) return true;
    }
    return false;
}

/* Lists what takes each node: node i is taken by users[first[i]] to users[first[i + 1] - 1]. */
static est_status list_users(const importer *m, size_t **first, int32_t **users)
{
    const est_graph_def *def   = &m->flat;
    size_t              *start = est_arena_alloc(m->arena, ((size_t)def->n_nodes + 2) * sizeof *start); /* zeroed */

    if (start == NULL) return est_no_memory();
    for (int i = 0; i < def->n_nodes; i++) {
        for (int k = 0; k < def->nodes[i]->inputs.n; k++) start[m->edges.in[i][k].node + 2]++;
    }
    for (int i = 2; i <= def->n_nodes + 1; i++) start[i] += start[i - 1];
    *users = est_arena_alloc(m->arena, (start[def->n_nodes + 1] + 1) * sizeof **users);
    if (*users == NULL) return est_no_memory();
    for (int32_t i = 0; i < def->n_nodes; i++) {
        for (int k = 0; k < def->nodes[i]->inputs.n; k++) (*users)[start[m->edges.in[i][k].node + 1]++] = i;
    }
    *first = start;
    return EST_OK;
}

/* Marks what needs an operation that saves. */
static est_status mark_saves(const importer *m, bool *marked)
{
    int32_t *users, *stack = est_arena_alloc(m->arena, ((size_t)m->flat.n_nodes + 1) * sizeof *stack);
    size_t  *first;
    int      depth = 0;

    if (stack == NULL) return est_no_memory();
    EST_TRY(list_users(m, &first, &users));
    for (int32_t i = 0; i < m->flat.n_nodes; i++) {
        marked[i] = saves(m->flat.nodes[i]);
        if (marked[i]) stack[depth++] = i;
    }
    while (depth > 0) {
        int32_t at = stack[--depth];

        for (size_t k = first[at]; k < first[at + 1]; k++) {
            if (marked[users[k]]) continue;
            marked[users[k]] = true;
            stack[depth++]   = users[k];
        }
    }
    return EST_OK;
}

static est_status list_missing(const importer *m)
{
    size_t                 room    = (size_t)m->flat.n_nodes + 1;
    est_missing_operation *missing = est_arena_alloc(m->arena, room * sizeof *missing);
    bool                  *marked  = est_arena_alloc(m->arena, room);
    int                    n       = 0;

    if (missing == NULL || marked == NULL) return est_no_memory();
    EST_TRY(mark_saves(m, marked));
    for (int i = 0; i < m->flat.n_nodes; i++) {
        const est_graph_def_node *node = m->flat.nodes[i];

        if (m->missing[i] == NULL) continue;
        missing[n++] = (est_missing_operation){
            .name = node->name, .op = node->op, .error = m->missing[i], .saves = marked[i]
        };
    }
    m->out->missing = (est_missing_operations){ missing, n };
    return EST_OK;
}

/* Collections whose values describe variables; here they are the names of these. */
static bool is_of_variables(const char *name)
{
    static const char *const names[] = { "model_variables", "moving_average_variables", "metric_variables" };

    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) return true;
    }
    return false;
}

/* Whether all values are texts: messages, as those of queues, have bytes that no text has. */
static bool are_texts(const est_collection_def *from)
{
    for (int i = 0; i < from->n; i++) {
        for (size_t k = 0; k < from->bytes[i].size; k++) {
            if ((unsigned char)from->bytes[i].data[k] < ' ') return false;
        }
    }
    return true;
}

static est_status name_variables(const importer *m, const est_collection_def *from, const char **names)
{
    for (int i = 0; i < from->n; i++) {
        est_variable_def def = { 0 };

        EST_TRY(est_variable_def_parse(from->bytes[i], m->arena, &def));
        EST_TRY(scoped(m, def.variable_name, &names[i]));
    }
    return EST_OK;
}

static est_status take_bytes(const importer *m, const est_collection_def *from, est_meta_collection *to)
{
    const char **texts = est_arena_alloc(m->arena, ((size_t)from->n + 1) * sizeof *texts);

    if (texts == NULL) return est_no_memory();
    if (is_of_variables(from->key)) {
        EST_TRY(name_variables(m, from, texts));
        to->nodes = (est_strings){ texts, from->n };
    } else if (are_texts(from)) {
        for (int i = 0; i < from->n; i++) EST_TRY(est_def_copy_text(m->arena, from->bytes[i], &texts[i]));
        to->texts = (est_strings){ texts, from->n };
    }
    return EST_OK;
}

static est_status take_nodes(const importer *m, const est_collection_def *from, est_meta_collection *to)
{
    for (int i = 0; i < from->n; i++) EST_TRY(scoped(m, from->nodes[i], &from->nodes[i]));
    to->nodes = (est_strings){ from->nodes, from->n };
    return EST_OK;
}

static est_status take_collection(const importer *m, const est_collection_def *from, est_meta_collection *to)
{
    to->name = from->key;
    switch (from->kind) {
    case EST_COLLECTION_NODES: return take_nodes(m, from, to);
    case EST_COLLECTION_BYTES: return take_bytes(m, from, to);
    case EST_COLLECTION_INTS: to->ints = (est_i64s){ from->ints, from->n }; return EST_OK;
    case EST_COLLECTION_FLOATS: to->floats = (est_f32s){ from->floats, from->n }; return EST_OK;
    default: return EST_OK;
    }
}

static est_status list_collections(const importer *m)
{
    est_meta_collection *lists = est_arena_alloc(m->arena, ((size_t)m->meta.n_collections + 1) * sizeof *lists);
    int                  n     = 0;

    if (lists == NULL) return est_no_memory();
    for (int i = 0; i < m->meta.n_collections; i++) {
        const est_collection_def *from = &m->meta.collections[i];

        if (is_of_graph(from->key)) continue;
        EST_TRY(take_collection(m, from, &lists[n]));
        n++;
    }
    m->out->collections = (est_meta_collections){ lists, n };
    return EST_OK;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static est_status import_file(importer *m, const char *path)
{
    EST_TRY(read_message(m, path));
    EST_TRY(flatten(m));
    m->missing = est_arena_alloc(m->arena, ((size_t)m->flat.n_nodes + 1) * sizeof *m->missing);
    if (m->missing == NULL) return est_no_memory();
    EST_TRY(est_graph_import_part(&m->flat, est_op_find_public, m->graph, m->missing));
    EST_TRY(index_nodes(m));
    EST_TRY(add_variables(m));
    EST_TRY(list_saved(m));
    EST_TRY(list_missing(m));
    return list_collections(m);
}

static est_status create(est_graph *graph, const char *path, const char *scope, est_meta_graph **out)
{
    est_meta_graph *made = est_zalloc(sizeof *made);
    importer        m    = { .graph = graph, .out = made };
    est_status      status;

    if (scope != NULL && scope[0] != '\0') m.scope = scope;
    if (made != NULL) made->arena = m.arena = est_arena_create();
    status = m.arena != NULL ? import_file(&m, path) : est_no_memory();
    est_def_edges_clear(&m.edges);
    est_map_clear(&m.added);
    if (status == EST_OK)
        *out = made;
    else
        est_meta_graph_free(made);
    return status;
}

est_status est_meta_graph_import(est_graph *graph, const char *path, const est_meta_graph_options *options,
                                 est_meta_graph **out)
{
    est_meta_graph_options o;
    est_status             status;

    EST_REQUIRE(graph);
    EST_REQUIRE(path);
    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_meta_graph_options), options, &o));
    EST_TRY(est_graph_status(graph));
    status = create(graph, path, o.scope, out);
    if (status == EST_OK) return EST_OK;
    status = est_fail_context(status, "%s", path);
    if (!est_graph_poisoned(graph)) (void)est_graph_poison(graph, status);
    return status;
}

void est_meta_graph_free(est_meta_graph *meta)
{
    if (meta == NULL) return;
    est_arena_free(meta->arena);
    est_free(meta);
}

est_meta_collections est_meta_graph_collections(const est_meta_graph *meta)
{
    return meta != NULL ? meta->collections : (est_meta_collections){ 0 };
}

est_missing_operations est_meta_graph_missing(const est_meta_graph *meta)
{
    return meta != NULL ? meta->missing : (est_missing_operations){ 0 };
}

est_named_nodes est_meta_graph_saved(const est_meta_graph *meta)
{
    return meta != NULL ? meta->saved : (est_named_nodes){ 0 };
}

int est_meta_graph_keep_max(const est_meta_graph *meta)
{
    return meta != NULL ? meta->keep_max : -1;
}
