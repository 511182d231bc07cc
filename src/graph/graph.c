/* SPDX-License-Identifier: Apache-2.0
 *
 * Graph storage: nodes, names, scopes, collections, poison. Adding operations is graph/build.c. */
#include "graph/graph.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/argument.h"
#include "base/map.h"
#include "graph/device_name.h"
#include "graph/internal.h"
#include "graph/op.h"

static _Thread_local const char *here_file = "";
static _Thread_local int         here_line = 0;

void est_here(const char *file, int line)
{
    here_file = file != NULL ? file : "";
    here_line = line;
}

void est_graph_where(const char **file, int *line)
{
    *file = here_file;
    *line = here_line;
}

est_status est_graph_blame(est_status status)
{
    const char *base = strrchr(here_file, '/');

    if (here_file[0] == '\0') return status;
    return est_fail_context(status, "%s:%d", base != NULL ? base + 1 : here_file, here_line);
}

/* Forgets the line: errors from here on must not name a line that built another graph. */
est_status est_graph_create(uint64_t seed, est_graph **out)
{
    est_graph *g;

    est_here("", 0);
    EST_REQUIRE(out);
    g = est_zalloc(sizeof *g);
    if (g == NULL) return est_no_memory();
    g->arena = est_arena_create();
    if (g->arena == NULL) {
        est_free(g);
        return est_no_memory();
    }
    g->seed   = seed;
    g->scope  = "";
    g->device = "";
    *out      = g;
    return EST_OK;
}

static void free_tensors(const est_graph *g)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        for (int32_t a = 0; a < g->nodes[i]->n_attr; a++) {
            if (g->nodes[i]->attr[a].kind == EST_ATTR_TENSOR) est_tensor_free(g->nodes[i]->attr[a].tensor);
        }
    }
}

void est_graph_free(est_graph *graph)
{
    if (graph == NULL) return;
    free_tensors(graph);
    for (int i = 0; i < graph->n_collections; i++) est_free(graph->collections[i].nodes);
    est_free(graph->collections);
    est_free(graph->initializers);
    est_i64_map_clear(&graph->initializer_of);
    est_map_clear(&graph->names);
    est_reuse_clear(graph);
    for (const kept_object *k = graph->kept; k != NULL; k = k->next) k->release(k->user);
    est_arena_free(graph->arena);
    est_free(graph);
}

void est_graph_keep(est_graph *graph, void (*release)(void *user), void *user)
{
    kept_object *k;

    if (release == NULL) return;
    if (graph == NULL) {
        release(user);
        return;
    }
    k = est_arena_alloc(graph->arena, sizeof *k);
    if (k == NULL) {
        (void)est_graph_poison(graph, est_no_memory());
        release(user);
        return;
    }
    *k          = (kept_object){ graph->kept, release, user };
    graph->kept = k;
}

void est_graph_add_own_gradient(est_graph *graph, est_own_gradient *own)
{
    own->next            = graph->own_gradients;
    graph->own_gradients = own;
}

const est_own_gradient *est_graph_own_gradients(const est_graph *graph)
{
    return graph->own_gradients;
}

uint64_t est_graph_version(const est_graph *graph)
{
    return graph->version;
}

/* The last node keeps the name that it has. */
static void name_is_final(est_graph *g)
{
    est_status status = est_graph_ask_device(g, g->unplaced);

    if (status != EST_OK) (void)est_graph_poison(g, status);
}

est_status est_graph_status(const est_graph *graph)
{
    if (graph == NULL) return est_fail(EST_INVALID_ARGUMENT, "the graph is NULL");
    name_is_final((est_graph *)(uintptr_t)graph);
    return graph->error.status == EST_OK ? EST_OK : est_error_raise(&graph->error);
}

bool est_graph_poisoned(const est_graph *graph)
{
    return graph == NULL || graph->error.status != EST_OK;
}

est_node est_graph_poison(est_graph *graph, est_status status)
{
    if (graph == NULL) return EST_NO_NODE;
    if (graph->error.status == EST_OK) est_error_take(status, &graph->error);
    return (est_node){ graph, EST_POISON, 0 };
}

void est_graph_recover(est_graph *graph)
{
    if (graph != NULL) graph->error = (est_error){ 0 };
}

/* --- names -------------------------------------------------------------------------------------------------------- */

const char *est_graph_unique_name(est_graph *graph, const char *wanted)
{
    const char *name   = wanted;
    uintptr_t   suffix = (uintptr_t)est_map_get(&graph->names, wanted);

    while (suffix != 0 && est_map_get(&graph->names, name) != NULL) {
        name = est_arena_printf(graph->arena, "%s_%lu", wanted, (unsigned long)suffix++);
        if (name == NULL) return NULL;
    }
    if (suffix != 0 && est_map_put(&graph->names, wanted, (void *)suffix) != EST_OK) return NULL;
    name = est_arena_strdup(graph->arena, name);
    if (name == NULL || est_map_put(&graph->names, name, (void *)(uintptr_t)1) != EST_OK) return NULL;
    return name;
}

const char *est_graph_scoped(est_graph *g, const char *name)
{
    return est_arena_printf(g->arena, "%s%s", g->scope, name);
}

/* NULL: no memory. */
static void push_scope(est_graph *graph, const char *full)
{
    scope_frame *frame = est_arena_alloc(graph->arena, sizeof *frame);
    char        *path  = full == NULL      ? NULL
                         : full[0] != '\0' ? est_arena_printf(graph->arena, "%s/", full)
                                           : est_arena_strdup(graph->arena, "");

    if (frame == NULL || path == NULL) {
        (void)est_graph_poison(graph, est_no_memory());
        return;
    }
    *frame        = (scope_frame){ graph->scopes, graph->scope };
    graph->scopes = frame;
    graph->scope  = path;
}

void est_scope_push(est_graph *graph, const char *scope)
{
    const char *full;

    if (graph == NULL) return;
    if (scope == NULL) {
        (void)est_graph_poison(graph, est_fail(EST_INVALID_ARGUMENT, "est_scope_push: the scope is NULL"));
        scope = "";
    }
    full = est_graph_scoped(graph, scope);
    push_scope(graph, full != NULL ? est_graph_unique_name(graph, full) : NULL);
}

void est_scope_reenter(est_graph *graph, const char *scope)
{
    push_scope(graph, est_graph_scoped(graph, scope));
}

void est_scope_enter(est_graph *graph, const char *scope)
{
    if (graph == NULL) return;
    if (scope == NULL) {
        (void)est_graph_poison(graph, est_fail(EST_INVALID_ARGUMENT, "est_scope_enter: the scope is NULL"));
        scope = "";
    }
    push_scope(graph, scope);
}

const char *est_graph_scope(const est_graph *graph)
{
    return graph->scope;
}

void est_scope_pop(est_graph *graph)
{
    if (graph == NULL) return;
    if (graph->scopes == NULL) {
        if (!est_graph_poisoned(graph)) {
            (void)est_graph_poison(graph, est_fail(EST_FAILED_PRECONDITION, "est_scope_pop without a push"));
        }
        return;
    }
    graph->scope  = graph->scopes->path;
    graph->scopes = graph->scopes->outer;
}

est_node est_named(est_node node, const char *name)
{
    est_node_def *def;
    const char   *full;
    est_status    status;

    if (est_def(node) == NULL) return node;
    if (name == NULL) {
        return est_graph_poison(
            node.graph, est_fail(EST_INVALID_ARGUMENT, "est_named: the name of '%s' is NULL", est_node_name(node)));
    }
    def  = est_graph_node(node.graph, node.id);
    full = est_graph_scoped(node.graph, name);
    full = full != NULL ? est_graph_unique_name(node.graph, full) : NULL;
    if (full == NULL) {
        return est_graph_poison(node.graph, est_no_memory());
    }
    def->name = full;
    status    = est_graph_ask_device(node.graph, def);
    return status == EST_OK ? node : est_graph_poison(node.graph, status);
}

/* Inputs have smaller ids than what reads them, so one pass from the end marks all that the nodes need. */
bool est_nodes_need(est_nodes nodes, est_node on)
{
    const est_graph *graph = on.graph;
    bool            *need;
    bool             found;

    if (est_def(on) == NULL || nodes.data == NULL) return false;
    need = est_zalloc((size_t)graph->n_nodes + 1);
    if (need == NULL) return true; /* whoever asks then computes it for nothing */
    for (int i = 0; i < nodes.n; i++) {
        if (nodes.data[i].graph == graph && est_def(nodes.data[i]) != NULL) need[nodes.data[i].id] = true;
    }
    for (int32_t id = graph->n_nodes - 1; id > on.id; id--) {
        const est_node_def *def = graph->nodes[id];

        if (!need[id]) continue;
        for (int32_t i = 0; i < def->n_in; i++) need[def->in[i].node] = true;
        for (int32_t i = 0; i < def->n_control; i++) need[def->control[i]] = true;
    }
    found = need[on.id];
    est_free(need);
    return found;
}

est_node est_graph_find(const est_graph *graph, const char *name)
{
    if (graph == NULL || name == NULL || est_map_get(&graph->names, name) == NULL) return EST_NO_NODE;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        if (strcmp(graph->nodes[i]->name, name) == 0) return (est_node){ (est_graph *)(uintptr_t)graph, i, 0 };
    }
    return EST_NO_NODE;
}

int est_graph_operations(const est_graph *graph)
{
    return graph != NULL ? graph->n_nodes : 0;
}

est_node est_graph_operation(const est_graph *graph, int i)
{
    if (i < 0 || i >= est_graph_operations(graph)) return EST_NO_NODE;
    return (est_node){ (est_graph *)(uintptr_t)graph, i, 0 };
}

void est_graph_device(est_graph *graph, const char *device)
{
    est_status status = est_device_name_check(device != NULL ? device : "");
    char      *copy;

    if (status != EST_OK || graph == NULL) {
        (void)est_graph_poison(graph, status);
        return;
    }
    copy = est_arena_strdup(graph->arena, device != NULL ? device : "");
    if (copy == NULL) {
        (void)est_graph_poison(graph, est_no_memory());
        return;
    }
    graph->device = copy;
}

est_precision est_graph_precision(est_graph *graph, est_precision precision)
{
    est_precision before = graph != NULL ? graph->precision : EST_PRECISION_FLOAT32;

    if (graph == NULL) return before;
    if (precision != EST_PRECISION_FLOAT32 && precision != EST_PRECISION_MIXED_BFLOAT16) {
        (void)est_graph_poison(graph, est_fail(EST_INVALID_ARGUMENT,
                                               "there is no precision %d: EST_PRECISION_FLOAT32 and "
                                               "EST_PRECISION_MIXED_BFLOAT16",
                                               (int)precision));
        return before;
    }
    graph->precision = precision;
    return before;
}

void est_graph_keep_float32(est_graph *graph)
{
    graph->keeps_float32 = true;
}

bool est_graph_is_mixed(const est_graph *graph)
{
    return graph->precision == EST_PRECISION_MIXED_BFLOAT16 && !graph->keeps_float32;
}

void est_graph_device_fn(est_graph *graph, est_device_fn fn, void *user)
{
    if (graph == NULL) return;
    name_is_final(graph);
    graph->device_fn   = fn;
    graph->device_user = user;
}

est_status est_graph_place(est_graph *graph, est_node_def *def, est_device_fn fn, void *user)
{
    const char *device = fn((est_node){ graph, def->id, 0 }, def->op->name, def->device, user);
    est_status  status = est_device_name_check(device != NULL ? device : "");

    if (status == EST_OK) {
        char *copy = est_arena_strdup(graph->arena, device != NULL ? device : "");

        if (copy == NULL) return est_no_memory();
        def->device = copy;
    }
    return status;
}

est_status est_graph_ask_device(est_graph *graph, est_node_def *def)
{
    est_status status;

    if (def == NULL || def != graph->unplaced) return EST_OK;
    graph->unplaced = NULL;
    status          = est_graph_place(graph, def, graph->device_fn, graph->device_user);
    return status == EST_OK ? EST_OK : est_fail_context(status, "device function, operation %s", def->name);
}

est_colocation est_graph_colocate(est_graph *graph, est_node with)
{
    est_colocation before = { graph->device, graph->device_fn };

    name_is_final(graph);
    if (est_def(with) != NULL) {
        graph->device    = est_def(with)->device;
        graph->device_fn = NULL;
    }
    return before;
}

void est_graph_colocate_end(est_graph *graph, est_colocation before)
{
    graph->device    = before.device;
    graph->device_fn = before.device_fn; /* there was none meanwhile, and no node waits for it */
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

int32_t est_graph_size(const est_graph *graph)
{
    return graph->n_nodes;
}

est_node_def *est_graph_node(const est_graph *graph, int32_t id)
{
    assert(id >= 0 && id < graph->n_nodes);
    return graph->nodes[id];
}

const est_node_def *est_def(est_node node)
{
    return node.graph == NULL || node.id < 0 || node.id >= node.graph->n_nodes ? NULL : node.graph->nodes[node.id];
}

est_arena *est_graph_arena(const est_graph *graph)
{
    return graph->arena;
}

void est_graph_set_seed(est_graph *graph, uint64_t seed)
{
    if (graph == NULL) return;
    graph->seed    = seed;
    graph->n_seeds = 0;
}

uint64_t est_graph_seed(const est_graph *graph)
{
    return graph->seed;
}

void est_graph_count_seeds(est_graph *graph, est_seed_counter *counter)
{
    if (graph != NULL) graph->seeds = counter;
}

uint64_t est_graph_next_seed(est_graph *graph)
{
    uint64_t next;

    if (graph->seeds == NULL) return ++graph->n_seeds;
    next = graph->seeds->next;
    graph->seeds->next += graph->seeds->step;
    return next;
}

const char *est_node_name(est_node node)
{
    const est_node_def *def = est_def(node);

    return def != NULL ? def->name : "";
}

est_dtype est_node_dtype(est_node node)
{
    const est_node_def *def = est_def(node);

    return def != NULL && node.output >= 0 && node.output < def->n_out ? def->dtype[node.output] : EST_DTYPE_NONE;
}

const char *est_node_op(est_node node)
{
    const est_node_def *def = est_def(node);

    return def != NULL ? def->op->name : "";
}

const char *est_node_device(est_node node)
{
    const est_node_def *def = est_def(node);

    return def != NULL ? def->device : "";
}

int est_node_inputs(est_node node)
{
    const est_node_def *def = est_def(node);

    return def != NULL ? def->n_in : 0;
}

est_node est_node_input(est_node node, int i)
{
    const est_node_def *def = est_def(node);

    if (def == NULL || i < 0 || i >= def->n_in) return EST_NO_NODE;
    return (est_node){ node.graph, def->in[i].node, def->in[i].output };
}

const est_shape *est_node_shape(est_node node)
{
    static const est_shape unknown = { -1, { 0 } };
    const est_node_def    *def     = est_def(node);

    return def != NULL && node.output >= 0 && node.output < def->n_out ? &def->shape[node.output] : &unknown;
}

int64_t est_node_dim(est_node node, int axis)
{
    const est_shape *shape = est_node_shape(node);

    if (axis < 0) axis += shape->rank;
    return axis >= 0 && axis < shape->rank ? shape->dim[axis] : -1;
}

static const char *file_name(const est_node_def *node)
{
    const char *slash = strrchr(node->file, '/');

    return slash != NULL ? slash + 1 : node->file;
}

const char *est_node_text(const est_node_def *node, char buf[EST_NODE_TEXT_MAX])
{
    const est_op *op = node->stands_for != NULL ? node->stands_for : node->op;

    if (node->file[0] != '\0') {
        (void)snprintf(buf, EST_NODE_TEXT_MAX, "%s node '%s' (built at %s:%d)", op->name, node->name, file_name(node),
                       node->line);
    } else {
        (void)snprintf(buf, EST_NODE_TEXT_MAX, "%s node '%s'", op->name, node->name);
    }
    return buf;
}

est_status est_graph_locate_error(const est_graph *graph, est_status status)
{
    static const char   before[] = " node '";
    const char         *name     = strstr(est_error_message(), before), *end;
    char                key[EST_NODE_TEXT_MAX];
    const est_node_def *node;
    est_error           error;
    int                 head;

    if (name != NULL) name += sizeof before - 1;
    end = name != NULL ? strchr(name, '\'') : NULL;
    if (end == NULL || end - name >= EST_NODE_TEXT_MAX || strncmp(end, "' (built at ", 12) == 0) return status;
    memcpy(key, name, (size_t)(end - name));
    key[end - name] = '\0';
    node            = est_def(est_graph_find(graph, key));
    if (node == NULL || node->file[0] == '\0') return status;
    head = (int)(end + 1 - est_error_message());
    est_error_take(status, &error);
    return est_fail(status, "%.*s (built at %s:%d)%s", head, error.message, file_name(node), node->line,
                    error.message + head);
}

/* --- attributes --------------------------------------------------------------------------------------------------- */

static _Thread_local uint64_t n_looked_up = 0;

uint64_t est_node_attr_count(void)
{
    return n_looked_up;
}

const est_attr *est_node_attr(const est_node_def *node, const char *name)
{
    n_looked_up++;
    for (int32_t i = 0; i < node->n_attr; i++) {
        if (strcmp(node->attr[i].name, name) == 0) return &node->attr[i];
    }
    assert(!"attribute is not in the op's signature");
    return NULL;
}

int64_t est_node_int(const est_node_def *node, const char *name)
{
    return est_node_attr(node, name)->i;
}

double est_node_float(const est_node_def *node, const char *name)
{
    return est_node_attr(node, name)->f;
}

bool est_node_bool(const est_node_def *node, const char *name)
{
    return est_node_attr(node, name)->b;
}

est_dtype est_node_type(const est_node_def *node, const char *name)
{
    return est_node_attr(node, name)->type;
}

const char *est_node_string(const est_node_def *node, const char *name)
{
    return est_node_attr(node, name)->s;
}

est_i64s est_node_ints(const est_node_def *node, const char *name)
{
    return est_node_attr(node, name)->ints;
}

est_shapes est_node_shapes(const est_node_def *node, const char *name)
{
    return est_node_attr(node, name)->shapes;
}

/* --- initializers and collections --------------------------------------------------------------------------------- */

void est_graph_set_initializer(est_graph *graph, int32_t variable, est_node assign)
{
    initializer *more = est_realloc(graph->initializers, sizeof *more * (size_t)(graph->n_initializers + 1));
    int64_t      slot = more != NULL ? est_i64_map_find_or_insert(&graph->initializer_of, variable, 0) : -1;

    if (more != NULL) graph->initializers = more;
    if (slot < 0) {
        (void)est_graph_poison(graph, est_no_memory());
        return;
    }
    graph->initializer_of.slots[slot].value = graph->n_initializers;
    more[graph->n_initializers++]           = (initializer){ variable, assign };
}

est_node est_graph_initializer(const est_graph *graph, int32_t variable)
{
    int64_t slot = est_i64_map_find(&graph->initializer_of, variable);

    return slot < 0 ? EST_NO_NODE : graph->initializers[graph->initializer_of.slots[slot].value].assign;
}

/* The replica that the list of this name belongs to: lists about a part of the batch are per replica. */
static int owner_of(const est_graph *graph, const char *name)
{
    bool own = strcmp(name, "losses") == 0 || strcmp(name, "update_ops") == 0;

    return own && est_in_later_replica(graph) ? graph->replicas->current : 0;
}

static collection *find_collection(const est_graph *graph, const char *name)
{
    int replica = owner_of(graph, name);

    for (int i = 0; i < graph->n_collections; i++) {
        collection *c = &graph->collections[i];

        if (c->replica == replica && strcmp(c->name, name) == 0) return c;
    }
    return NULL;
}

static collection *add_collection(est_graph *graph, const char *name)
{
    collection *more = est_realloc(graph->collections, sizeof *more * (size_t)(graph->n_collections + 1));
    char       *copy = est_arena_strdup(graph->arena, name);

    if (more != NULL) graph->collections = more;
    if (more == NULL || copy == NULL) return NULL;
    more[graph->n_collections] = (collection){ .name = copy, .replica = owner_of(graph, name) };
    return &more[graph->n_collections++];
}

static bool holds(const collection *c, est_node node)
{
    for (int i = 0; i < c->n; i++) {
        if (c->nodes[i].id == node.id && c->nodes[i].output == node.output) return true;
    }
    return false;
}

void est_graph_collect(est_graph *graph, const char *name, est_node node)
{
    collection *c = find_collection(graph, name);
    est_node   *more;

    if (c != NULL && est_reuse_is_later(graph) && holds(c, node)) return; /* the first build's */
    if (c == NULL) c = add_collection(graph, name);
    more = c != NULL ? est_realloc(c->nodes, sizeof *more * (size_t)(c->n + 1)) : NULL;
    if (more == NULL) {
        (void)est_graph_poison(graph, est_no_memory());
        return;
    }
    c->nodes     = more;
    more[c->n++] = node;
}

void est_graph_uncollect(est_graph *graph, const char *name, est_node node)
{
    collection *c = find_collection(graph, name);
    int         n = 0;

    for (int i = 0; c != NULL && i < c->n; i++) {
        if (c->nodes[i].id != node.id || c->nodes[i].output != node.output) c->nodes[n++] = c->nodes[i];
    }
    if (c != NULL) c->n = n;
}

void est_graph_add_terms(est_graph *graph, const char *lines)
{
    const char *all = est_arena_printf(graph->arena, "%s%s", est_graph_terms(graph), lines);

    if (all == NULL) {
        (void)est_graph_poison(graph, est_no_memory());
    } else {
        graph->terms = all;
    }
}

const char *est_graph_terms(const est_graph *graph)
{
    return graph->terms != NULL ? graph->terms : "";
}

est_nodes est_graph_collection(const est_graph *graph, const char *name)
{
    const collection *c = graph != NULL ? find_collection(graph, name) : NULL;

    return c != NULL ? (est_nodes){ c->nodes, c->n } : (est_nodes){ 0 };
}
