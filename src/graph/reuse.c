/* SPDX-License-Identifier: Apache-2.0
 *
 * Reuse: records of what first builds have made, and the stack of open builds. */
#include "graph/reuse.h"

#include <string.h>

#include "graph/internal.h"
#include "graph/op.h"

/* A variable or table of a record. */
typedef struct kept {
    struct kept *next; /* of the same name, made later */
    est_node     node;
} kept;

struct est_reuse_record {
    est_reuse_record *next;
    const void       *key;   /* NULL: of replicas, found by no one else */
    est_map           names; /* plain names -> kept, in order */
    est_node         *nodes; /* [n], in order; in the arena */
    int               n, n_max;
    est_reuse_layer  *layers; /* [n_layers], in order of calls; in the arena */
    int               n_layers, layers_max;
};

typedef enum reuse_kind { BUILD, CALL, SHARE, REPLICA, NEW } reuse_kind;

struct est_reuse {
    est_reuse        *outer;
    est_reuse_record *record; /* NULL: NEW, or no memory */
    reuse_kind        kind;
    bool              first; /* it makes what the record lacks */
    const char       *scope; /* in which it has begun */
    int32_t          *taken; /* [n_taken], ids of nodes that it has; in the arena */
    int               n_taken, taken_max;
    int               depth; /* open calls of layers */
};

/* --- records ------------------------------------------------------------------------------------------------------ */

static est_reuse_record *find_record(const est_graph *g, const void *key)
{
    est_reuse_record *r = g->reuse_records;

    while (r != NULL && r->key != key) r = r->next;
    return r;
}

est_reuse_record *est_reuse_record_create(est_graph *graph, const void *key)
{
    est_reuse_record *r = est_arena_alloc(graph->arena, sizeof *r);

    if (r == NULL) {
        (void)est_graph_poison(graph, est_no_memory());
        return NULL;
    }
    r->key               = key;
    r->next              = graph->reuse_records;
    graph->reuse_records = r;
    return r;
}

void est_reuse_clear(est_graph *graph)
{
    for (est_reuse_record *r = graph->reuse_records; r != NULL; r = r->next) est_map_clear(&r->names);
}

est_nodes est_reuse_nodes(const est_graph *graph, const void *key)
{
    const est_reuse_record *r = graph != NULL && key != NULL ? find_record(graph, key) : NULL;

    return r != NULL ? (est_nodes){ r->nodes, r->n } : EST_NO_NODES;
}

/* --- open builds -------------------------------------------------------------------------------------------------- */

static est_reuse *push(est_graph *g, est_reuse_record *record, reuse_kind kind, bool first)
{
    est_reuse *b = est_arena_alloc(g->arena, sizeof *b);

    if (b == NULL) {
        (void)est_graph_poison(g, est_no_memory());
        return NULL;
    }
    *b = (est_reuse){ .outer = g->reuse, .record = record, .kind = kind, .first = first, .scope = g->scope };
    return b;
}

static bool begin(est_graph *g, const void *key, reuse_kind kind)
{
    est_reuse_record *record;
    est_reuse        *b;
    bool              first;

    if (g == NULL) return true;
    record = kind != NEW ? find_record(g, key) : NULL;
    first  = record == NULL;
    if (first && kind != NEW) record = est_reuse_record_create(g, key);
    b = push(g, record, kind, first);
    if (b != NULL) {
        g->reuse = b;
    } else {
        g->reuse_missing++; /* its end has nothing to close */
    }
    return first;
}

bool est_reuse_begin(est_graph *graph, const void *key)
{
    return begin(graph, key, BUILD);
}

bool est_reuse_begin_call(est_graph *graph, const void *key)
{
    return begin(graph, key, CALL);
}

void est_reuse_begin_new(est_graph *graph)
{
    (void)begin(graph, NULL, NEW);
}

void est_share_begin(est_graph *graph, const void *key)
{
    if (graph != NULL && key == NULL) {
        (void)est_graph_poison(graph, est_fail(EST_INVALID_ARGUMENT, "est_share_begin: the key is NULL"));
    }
    (void)begin(graph, key, key != NULL ? SHARE : NEW);
}

void est_share_end(est_graph *graph)
{
    est_reuse_end(graph);
}

void est_reuse_end(est_graph *graph)
{
    if (graph == NULL) return;
    if (graph->reuse_missing > 0) {
        graph->reuse_missing--;
    } else if (graph->reuse != NULL) {
        graph->reuse = graph->reuse->outer;
    }
}

est_reuse *est_reuse_replica(est_graph *graph, est_reuse_record *record, bool first)
{
    return record != NULL ? push(graph, record, REPLICA, first) : NULL;
}

/* The build at or outside of `b` that sees what is made now: NEW hides all but replicas and what a program shares. */
static est_reuse *visible(est_reuse *b, bool *hidden)
{
    while (b != NULL && (b->kind == NEW || b->record == NULL || (*hidden && b->kind != REPLICA && b->kind != SHARE))) {
        if (b->kind == NEW) *hidden = true;
        b = b->outer;
    }
    return b;
}

bool est_reuse_is_later(const est_graph *graph)
{
    bool hidden = false;

    if (graph == NULL) return false;
    for (est_reuse *b = visible(graph->reuse, &hidden); b != NULL; b = visible(b->outer, &hidden)) {
        if (!b->first) return true;
    }
    return false;
}

bool est_reuse_is_new(const est_graph *graph)
{
    return graph->reuse == NULL || graph->reuse_is_new;
}

/* --- what they share ---------------------------------------------------------------------------------------------- */

/* The length of a part of a name without what made it unique: of "dense_1" and "dense_1_2" that of "dense". */
static size_t plain_size(const char *part, size_t n)
{
    for (;;) {
        size_t digits = n;

        while (digits > 0 && part[digits - 1] >= '0' && part[digits - 1] <= '9') digits--;
        if (digits < 2 || digits == n || part[digits - 1] != '_') return n;
        n = digits - 1;
    }
}

/* The name without the scope of its build and without what made its parts unique ("dense_1/kernel": "dense/kernel").
 * NULL when memory is out. */
static char *plain_name(const est_graph *g, const est_reuse *b, const char *name)
{
    size_t base = strlen(b->scope);
    char  *plain, *to;

    if (strncmp(name, b->scope, base) == 0) name += base;
    plain = to = est_arena_strdup(g->arena, name);
    while (plain != NULL && *name != '\0') {
        size_t part = strcspn(name, "/"), n = plain_size(name, part);

        memcpy(to, name, n);
        to += n;
        name += part;
        if (*name == '/') *to++ = *name++;
        *to = '\0';
    }
    return plain;
}

static bool has_taken(const est_reuse *b, int32_t id)
{
    for (int i = 0; i < b->n_taken; i++) {
        if (b->taken[i] == id) return true;
    }
    return false;
}

/* Room for one more element at the end of an array in the arena; NULL when memory is out. */
static void *one_more(est_arena *arena, void *array, int n, int *n_max, size_t size)
{
    int   max = *n_max > 0 ? 2 * *n_max : 8;
    void *more;

    if (n < *n_max) return array;
    more = est_arena_alloc(arena, size * (size_t)max);
    if (more == NULL) return NULL;
    if (n > 0) memcpy(more, array, size * (size_t)n);
    *n_max = max;
    return more;
}

static bool take(est_graph *g, est_reuse *b, int32_t id)
{
    int32_t *more = one_more(g->arena, b->taken, b->n_taken, &b->taken_max, sizeof *more);

    if (more == NULL) return false;
    b->taken           = more;
    more[b->n_taken++] = id;
    return true;
}

static bool add(est_graph *g, est_reuse *b, est_node node, const char *name)
{
    est_reuse_record *r     = b->record;
    char             *plain = plain_name(g, b, name);
    kept             *k     = est_arena_alloc(g->arena, sizeof *k), *list;
    est_node         *more  = one_more(g->arena, r->nodes, r->n, &r->n_max, sizeof *more);

    if (plain == NULL || k == NULL || more == NULL) return false;
    *k   = (kept){ .node = node };
    list = est_map_get(&r->names, plain);
    while (list != NULL && list->next != NULL) list = list->next;
    if (list != NULL) {
        list->next = k;
    } else if (est_map_put(&r->names, plain, k) != EST_OK) {
        return false;
    }
    r->nodes     = more;
    more[r->n++] = node;
    return true;
}

/* All open builds have the node from now on, and those which are first record it. */
static void remember(est_graph *g, est_node node, const char *name, bool made)
{
    bool hidden = false, in_build = false;

    g->reuse_is_new = made;
    for (est_reuse *b = visible(g->reuse, &hidden); b != NULL; b = visible(b->outer, &hidden)) {
        bool is_new = !has_taken(b, node.id);

        if (is_new && !(take(g, b, node.id) && (!b->first || add(g, b, node, name)))) {
            (void)est_graph_poison(g, est_no_memory());
            return;
        }
        if (b->kind == CALL || b->kind == SHARE || (in_build && b->kind == REPLICA)) continue;
        in_build        = b->kind == BUILD;
        g->reuse_is_new = is_new; /* the outermost build decides, a replica if there is none */
    }
}

void est_reuse_keep(est_node made)
{
    if (est_def(made) != NULL) remember(made.graph, made, est_node_name(made), true);
}

static est_node lacks(est_graph *g, const est_reuse *b, const est_op *op, const char *name)
{
    if (b->kind == REPLICA) {
        return est_graph_poison(
            g, est_graph_blame(est_fail(EST_INVALID_ARGUMENT,
                                        "replica %d requests '%s' (%s), which replica 0 did not create, or not as "
                                        "often: all replicas must be built by the same calls",
                                        g->replicas->current, name, op->name)));
    }
    return est_graph_poison(
        g, est_graph_blame(est_fail(EST_INVALID_ARGUMENT,
                                    "'%s' (%s) is requested, which the first %s in this graph did not create, or not "
                                    "as often: all of them must make the same calls",
                                    name, op->name,
                                    b->kind == CALL    ? "call of the layer"
                                    : b->kind == SHARE ? "build of what shares it"
                                                       : "build of the model")));
}

est_node est_reuse_find(est_graph *graph, const est_op *op, const char *name, bool absolute)
{
    est_reuse  *b;
    const char *full;
    bool        hidden = false;

    if (!est_reuse_is_later(graph)) return EST_NO_NODE;
    if (est_graph_poisoned(graph)) return est_graph_poison(graph, EST_OK);
    full = absolute ? name : est_graph_scoped(graph, name);
    for (b = visible(graph->reuse, &hidden); b->first;) b = visible(b->outer, &hidden);
    if (full != NULL) {
        const char *plain = plain_name(graph, b, full);
        kept       *k     = plain != NULL ? est_map_get(&b->record->names, plain) : NULL;

        while (k != NULL && (has_taken(b, k->node.id) || est_def(k->node)->op != op)) k = k->next;
        if (plain != NULL && k == NULL) return lacks(graph, b, op, plain);
        if (k != NULL) {
            remember(graph, k->node, full, false);
            return k->node;
        }
    }
    return est_graph_poison(graph, est_no_memory());
}

/* --- layers ------------------------------------------------------------------------------------------------------- */

/* The innermost build of a model that is open; NULL: none. */
static est_reuse *model_of(const est_graph *g)
{
    est_reuse *b = g->reuse;

    while (b != NULL && (b->kind != BUILD || b->record == NULL)) b = b->outer;
    return b;
}

static bool has_layer(const est_reuse_record *r, const void *key)
{
    for (int i = 0; i < r->n_layers && key != NULL; i++) {
        if (r->layers[i].key == key) return true;
    }
    return false;
}

int est_reuse_layer_begin(est_graph *graph, const void *key, const char *type, const char *name, const char *wanted)
{
    est_reuse        *b = graph != NULL ? model_of(graph) : NULL;
    est_reuse_record *r = b != NULL ? b->record : NULL;
    est_reuse_layer  *more, added;

    if (b == NULL) return -1;
    if (b->depth++ > 0 || !b->first || has_layer(r, key)) return -1;
    more  = one_more(graph->arena, r->layers, r->n_layers, &r->layers_max, sizeof *more);
    added = (est_reuse_layer){ .key    = key,
                               .type   = type,
                               .name   = est_arena_strdup(graph->arena, name),
                               .scope  = est_arena_strdup(graph->arena, est_graph_scope(graph)),
                               .wanted = wanted != NULL ? est_arena_strdup(graph->arena, wanted) : NULL,
                               .first  = r->n };
    if (more == NULL || added.name == NULL || added.scope == NULL || (wanted != NULL && added.wanted == NULL)) {
        (void)est_graph_poison(graph, est_no_memory());
        return -1;
    }
    r->layers         = more;
    more[r->n_layers] = added;
    return r->n_layers++;
}

void est_reuse_layer_end(est_graph *graph, int layer, est_node output)
{
    est_reuse       *b = graph != NULL ? model_of(graph) : NULL;
    est_reuse_layer *l;

    if (b == NULL) return;
    b->depth--;
    if (layer < 0) return;
    l         = &b->record->layers[layer];
    l->output = output;
    l->n      = b->record->n - l->first;
}

void est_reuse_layer_track(est_graph *graph, int layer)
{
    est_reuse *b = graph != NULL ? model_of(graph) : NULL;

    if (b != NULL && layer >= 0) b->record->layers[layer].tracked = true;
}

const est_reuse_layer *est_reuse_layers(const est_graph *graph, const void *model, int *n)
{
    const est_reuse_record *r = graph != NULL ? find_record(graph, model) : NULL;

    *n = r != NULL ? r->n_layers : 0;
    return r != NULL ? r->layers : NULL;
}
