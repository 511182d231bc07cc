/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of weights: checkpoints of the variables of a network, with an object graph as Keras' have it.
 *
 * Objects: the root is the model, and so is its child "model", so that both model.load_weights and
 * tf.train.Checkpoint(model=model) find their objects. A layer with variables is "layer_with_weights-<i>", counted in
 * order of the first calls, with the layers to which Keras gives weights for what adapt sees: they have no children
 * here. It has its own name, too; its children are the variables by the last part of their name ("kernel"), or, of a
 * network that is a part of this one, its layers, which are counted likewise. A variable of no layer is found from its
 * network by the parts of its name. Layers of a sequential network are also "layer-<i>", counted with those that have
 * no variables: Keras finds them by that while it has no variables itself. Keras' functional models count their inputs,
 * too, so that other networks have no such names. What several networks share is one object, a child of each; its keys
 * are those of the first place. */
#include <assert.h>
#include <string.h>

#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "estoc/checkpoint.h"
#include "estoc/saver.h"
#include "format/checkpoint.h"
#include "graph/reuse.h"
#include "network/network.h"
#include "ops/ops.h"
#include "runtime/store_files.h"
#include "tensor/tensor.h"
#include "train/saver.h"

#define LAYER "layer_with_weights-"

/* Where a layer stands in its network. */
typedef struct position {
    const struct position *within; /* the network that it is in, as a part of another; NULL: the one itself */
    const struct position *same;   /* where the same layer stands first, whose object it is; NULL: here */
    const void            *key;    /* est_reuse_layer.key */
    const char            *layer;  /* "layer_with_weights-<i>" */
    int                    number; /* among those with variables */
    const char            *name, *scope;
    const char            *place; /* "layer-<i>"; NULL: the network is not sequential */
    const struct position *next;  /* of a list */
} position;

typedef struct weight {
    est_node        node;
    const char     *name;  /* of the variable */
    const position *layer; /* NULL: it belongs to none */
    const char     *path;  /* within the layer: "kernel" */
} weight;

typedef struct weights {
    est_arena       *arena;
    const est_graph *graph;
    weight          *data;
    int              n, n_max;
    int             *at; /* [n_ids] by id of a node: 1 + its place in data; 0: none yet; -1: not of the network */
    int              n_ids;
    const position  *others; /* at which no weight is listed: layers without variables, and those listed elsewhere */
} weights;

/* --- which there are ---------------------------------------------------------------------------------------------- */

/* What follows the scope of the layer in the name of a variable, or all of it. */
static const char *path_within(const char *name, const char *scope)
{
    size_t size = strlen(scope);

    return strncmp(name, scope, size) == 0 ? name + size : name;
}

/* The path as Keras' objects have it, where these are not called as the variables are; NULL: no memory. */
static const char *object_path(est_arena *arena, const char *type, const char *path)
{
    static const char *const names[][2] = { { "query/", "_query_dense/" },
                                            { "key/", "_key_dense/" },
                                            { "value/", "_value_dense/" },
                                            { "attention_output/", "_output_dense/" } };

    if (strcmp(type, "MultiHeadAttention") != 0) return path;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t size = strlen(names[i][0]);

        if (strncmp(path, names[i][0], size) == 0) return est_arena_printf(arena, "%s%s", names[i][1], path + size);
    }
    return path;
}

static est_status add_weight(weights *w, est_node node, const position *layer, const char *path)
{
    if (est_has_rows(node)) {
        return est_fail(EST_UNIMPLEMENTED,
                        "'%s' is a dynamic embedding, whose keys no file of weights has; use est_saver_save, or a "
                        "checkpoint callback with everything",
                        est_node_name(node));
    }
    if (path == NULL) return est_no_memory();
    assert(w->n < w->n_max && w->at[node.id] == 0);
    w->at[node.id]  = w->n + 1;
    w->data[w->n++] = (weight){ .node = node, .name = est_node_name(node), .layer = layer, .path = path };
    return EST_OK;
}

static bool is_variable(est_node made)
{
    return est_has_rows(made) || est_variable_dtype(made) != EST_DTYPE_NONE; /* else a table */
}

/* What a layer has: also what it shares with an earlier one, among whose nodes the network has it. */
static est_nodes nodes_of(const weights *w, est_nodes made, const est_reuse_layer *layer)
{
    est_nodes own = est_reuse_nodes(w->graph, layer->key);

    if (own.n > 0) return own;
    return layer->n > 0 ? (est_nodes){ made.data + layer->first, layer->n } : EST_NO_NODES;
}

static est_node first_variable(est_nodes nodes)
{
    for (int i = 0; i < nodes.n; i++) {
        if (is_variable(nodes.data[i])) return nodes.data[i];
    }
    return EST_NO_NODE;
}

static bool is_wanted(const weights *w, est_node node)
{
    return is_variable(node) && node.id < w->n_ids && w->at[node.id] == 0;
}

/* Where the layer of this key, of which `node` is a variable, is listed; NULL: nowhere yet. */
static const position *listed_layer(const weights *w, est_node node, const void *key)
{
    const position *at = NULL;

    if (key != NULL && node.id < w->n_ids && w->at[node.id] > 0) at = w->data[w->at[node.id] - 1].layer;
    while (at != NULL && at->key != key) at = at->within;
    return at;
}

/* A network whose layers are counted. */
typedef struct counting {
    const void     *network;
    const position *within; /* NULL: it is a part of none */
    bool            sequential;
    int             number, counted; /* layers so far: with variables, and those that Keras counts */
} counting;

static est_status add_network(weights *w, counting of);

/* Those of one layer, which may be a network itself. */
static est_status add_variables(weights *w, est_nodes nodes, const est_reuse_layer *layer, const position *at)
{
    int parts = 0;

    if (layer->key != NULL) (void)est_reuse_layers(w->graph, layer->key, &parts);
    if (parts > 0) return add_network(w, (counting){ layer->key, at, strcmp(layer->type, "Sequential") == 0, 0, 0 });
    for (int i = 0; i < nodes.n; i++) {
        const char *name = est_node_name(nodes.data[i]);

        if (!is_wanted(w, nodes.data[i])) continue;
        EST_TRY(add_weight(w, nodes.data[i], at, object_path(w->arena, layer->type, path_within(name, layer->scope))));
    }
    return EST_OK;
}

/* The i-th layer. */
static est_status add_layer(weights *w, counting *of, est_nodes made, const est_reuse_layer *layer, int i)
{
    est_nodes nodes = nodes_of(w, made, layer);
    est_node  first = first_variable(nodes);
    bool      has   = first.graph != NULL;
    position *at    = est_arena_alloc(w->arena, sizeof *at);

    if (!has && !layer->tracked) return EST_OK;
    if (at == NULL) return est_no_memory();
    *at = (position){ .within = of->within,
                      .same   = has ? listed_layer(w, first, layer->key) : NULL,
                      .key    = layer->key,
                      .layer  = est_arena_printf(w->arena, LAYER "%d", of->counted++),
                      .number = of->number,
                      .name   = layer->name,
                      .scope  = layer->scope,
                      .place  = of->sequential ? est_arena_printf(w->arena, "layer-%d", i) : NULL };
    if (at->layer == NULL || (of->sequential && at->place == NULL)) return est_no_memory();
    of->number += has;
    if (has && at->same == NULL) return add_variables(w, nodes, layer, at);
    at->next  = w->others;
    w->others = at;
    return EST_OK;
}

static const est_reuse_layer *layer_of(const est_reuse_layer *layers, int n, int variable)
{
    for (int i = 0; i < n; i++) {
        if (variable >= layers[i].first && variable < layers[i].first + layers[i].n) return &layers[i];
    }
    return NULL;
}

static est_status add_network(weights *w, counting of)
{
    est_nodes              made = est_reuse_nodes(w->graph, of.network);
    int                    n;
    const est_reuse_layer *layers = est_reuse_layers(w->graph, of.network, &n);

    for (int i = 0; i < n; i++) EST_TRY(add_layer(w, &of, made, &layers[i], i));
    for (int i = 0; i < made.n; i++) {
        const char *name = est_node_name(made.data[i]);

        if (layer_of(layers, n, i) != NULL || !is_wanted(w, made.data[i])) continue;
        EST_TRY(add_weight(w, made.data[i], of.within, of.within != NULL ? path_within(name, of.within->scope) : name));
    }
    return EST_OK;
}

/* Room for what the network has made, each once. */
static est_status make_room(weights *w, est_nodes made)
{
    w->n_max = made.n;
    for (int i = 0; i < made.n; i++) {
        if (made.data[i].id >= w->n_ids) w->n_ids = made.data[i].id + 1;
    }
    w->data = est_arena_alloc(w->arena, (size_t)(made.n + 1) * sizeof *w->data);
    w->at   = est_arena_alloc(w->arena, (size_t)(w->n_ids + 1) * sizeof *w->at);
    if (w->data == NULL || w->at == NULL) return est_no_memory();
    for (int i = 0; i < w->n_ids; i++) w->at[i] = -1;
    for (int i = 0; i < made.n; i++) w->at[made.data[i].id] = 0;
    return EST_OK;
}

/* The variables of a network that is built. `out` is to be cleared also after a failure. */
static est_status list_weights(const est_network *network, weights *out)
{
    *out = (weights){ .arena = est_arena_create(), .graph = network->graph };
    if (out->arena == NULL) return est_no_memory();
    EST_TRY(make_room(out, est_reuse_nodes(network->graph, network)));
    return add_network(out, (counting){ .network = network, .sequential = est_network_layers(network).n > 0 });
}

/* --- objects ------------------------------------------------------------------------------------------------------ */

static est_status child_or_new(est_object_graph *graph, int32_t parent, const char *name, int32_t *out)
{
    *out = est_object_graph_child(graph, parent, name);
    if (*out >= 0) return EST_OK;
    EST_TRY(est_object_graph_add(graph, out));
    return est_object_graph_link(graph, parent, name, *out);
}

/* The object at the end of a path of names, made if need be. */
static est_status follow(est_object_graph *graph, int32_t node, char *path, int32_t *out)
{
    while (path != NULL) {
        char *slash = strchr(path, '/');

        if (slash != NULL) *slash = '\0';
        EST_TRY(child_or_new(graph, node, path, &node));
        path = slash != NULL ? slash + 1 : NULL;
    }
    *out = node;
    return EST_OK;
}

/* The same object under the same name in another one, unless that has one of this name. */
static est_status alias(est_object_graph *graph, int32_t parent, const char *name, int32_t node)
{
    return est_object_graph_child(graph, parent, name) >= 0 ? EST_OK : est_object_graph_link(graph, parent, name, node);
}

/* The other names of a layer. */
static est_status add_names(est_object_graph *graph, int32_t parent, const position *at, int32_t layer)
{
    EST_TRY(alias(graph, parent, at->layer, layer));
    if (at->place != NULL) EST_TRY(alias(graph, parent, at->place, layer));
    return alias(graph, parent, at->name, layer);
}

/* The object of a layer, made if need be. */
static est_status layer_object(est_object_graph *graph, int32_t model, const position *at, int32_t *out)
{
    int32_t parent = 0;

    if (at->within != NULL) EST_TRY(layer_object(graph, model, at->within, &parent));
    EST_TRY(at->same != NULL ? layer_object(graph, model, at->same, out) : child_or_new(graph, parent, at->layer, out));
    if (at->within == NULL) EST_TRY(add_names(graph, model, at, *out));
    return add_names(graph, parent, at, *out);
}

/* "layer_with_weights-1/layer_with_weights-0/"; "": of no layer. */
static void put_layers(est_strbuf *out, const position *at)
{
    if (at == NULL) return;
    put_layers(out, at->within);
    est_strbuf_printf(out, "%s/", at->layer);
}

/* The key of a weight's tensor; NULL: no memory. */
static const char *key_of(est_arena *arena, const weight *one, const char *end)
{
    est_strbuf  text = { 0 };
    const char *key  = NULL;

    put_layers(&text, one->layer);
    est_strbuf_printf(&text, "%s%s", one->path, end);
    if (est_strbuf_status(&text) == EST_OK) key = est_arena_strdup(arena, est_strbuf_text(&text));
    est_strbuf_clear(&text);
    return key;
}

static est_status add_object(est_object_graph *graph, int32_t model, const weights *w, const weight *one,
                             const char **key)
{
    char   *path = est_arena_strdup(w->arena, one->path);
    int32_t node = 0, layer = 0;

    *key = key_of(w->arena, one, "/.ATTRIBUTES/VARIABLE_VALUE");
    if (*key == NULL || path == NULL) return est_no_memory();
    if (one->layer != NULL) EST_TRY(layer_object(graph, model, one->layer, &layer));
    EST_TRY(follow(graph, layer, path, &node)); /* cuts the path to its first part */
    EST_TRY(est_object_graph_value(graph, node, one->name, *key));
    return one->layer != NULL ? EST_OK : alias(graph, model, path, est_object_graph_child(graph, 0, path));
}

static est_status make_objects(est_object_graph *graph, const weights *w, const char **keys)
{
    int32_t root, model, layer;

    EST_TRY(est_object_graph_add(graph, &root));
    EST_TRY(child_or_new(graph, root, "model", &model));
    for (int i = 0; i < w->n; i++) EST_TRY(add_object(graph, model, w, &w->data[i], &keys[i]));
    for (const position *at = w->others; at != NULL; at = at->next) EST_TRY(layer_object(graph, model, at, &layer));
    return EST_OK;
}

/* --- saving ------------------------------------------------------------------------------------------------------- */

static est_status message(const weights *w, const char **keys, est_tensor **out)
{
    est_object_graph graph  = { 0 };
    est_wire_writer  writer = { 0 };
    est_status       status = make_objects(&graph, w, keys);

    if (status == EST_OK) est_object_graph_put(&graph, &writer);
    if (status == EST_OK) status = est_wire_writer_status(&writer);
    if (status == EST_OK) status = est_tensor_string(writer.data, writer.size, out);
    est_wire_writer_clear(&writer);
    est_object_graph_clear(&graph);
    return status;
}

static est_status refuse_nan(const char *name, const est_tensor *value)
{
    est_view view = { .dtype = est_tensor_dtype(value),
                      .shape = *est_tensor_shape(value),
                      .count = est_tensor_count(value),
                      .data  = est_tensor_view_data(value) };

    return est_view_has_nan(&view) ? est_network_fail_nan(name) : EST_OK;
}

static est_status save(est_session *session, const weights *w, const char *path)
{
    est_named_tensor *tensors = est_arena_alloc(w->arena, (size_t)(w->n + 1) * sizeof *tensors);
    const char      **keys    = est_arena_alloc(w->arena, (size_t)(w->n + 1) * sizeof *keys);
    est_tensor      **values  = est_zalloc((size_t)(w->n + 1) * sizeof(est_tensor *));
    est_status        status  = EST_OK;

    if (tensors == NULL || keys == NULL || values == NULL) status = est_no_memory();
    for (int i = 0; i < w->n && status == EST_OK; i++) {
        status = est_session_read(session, w->data[i].name, &values[i]);
        if (status == EST_OK) status = refuse_nan(w->data[i].name, values[i]);
    }
    if (status == EST_OK) status = message(w, keys, &values[w->n]);
    if (status == EST_OK) {
        keys[w->n] = EST_OBJECT_GRAPH_KEY;
        for (int i = 0; i <= w->n; i++) tensors[i] = (est_named_tensor){ keys[i], values[i] };
        status = est_checkpoint_write(path, (est_named_tensors){ tensors, w->n + 1 },
                                      EST_CHECKPOINT_WRITE(.latest = true));
    }
    for (int i = 0; i <= w->n && values != NULL; i++) est_tensor_free(values[i]);
    est_free(values);
    return status;
}

est_status est_network_save_weights(est_network *network, const char *path)
{
    weights    w = { 0 };
    est_status status;

    EST_REQUIRE(network);
    EST_REQUIRE(path);
    EST_TRY(est_network_check_name(path));
    EST_TRY(est_network_build_now(network));
    EST_TRY(est_network_connect(network));
    status = list_weights(network, &w);
    if (status == EST_OK) status = save(network->session, &w, path);
    est_arena_free(w.arena);
    return status == EST_OK ? EST_OK : est_fail_context(status, "%s: weights", network->name);
}

/* --- loading ------------------------------------------------------------------------------------------------------ */

/* Whether it is a layer of which only what adapt sees is stored: nothing here, words of a lookup and the summary of a
 * Discretization in Keras' files. */
static bool is_tracked(const est_object_graph *graph, int32_t layer)
{
    return graph->nodes[layer].children == NULL || est_object_graph_child(graph, layer, "token_counts") >= 0 ||
           est_object_graph_child(graph, layer, "summary") >= 0;
}

/* The layer of this number among those with variables; -1: there is none. */
static int32_t layer_below(const est_object_graph *graph, int32_t model, int number)
{
    for (int i = 0;; i++) {
        char    name[sizeof LAYER + 16];
        int32_t layer;

        (void)snprintf(name, sizeof name, LAYER "%d", i);
        layer = est_object_graph_child(graph, model, name);
        if (layer < 0) return -1;
        if (!is_tracked(graph, layer) && number-- == 0) return layer;
    }
}

/* The object of a layer in those of a checkpoint, below a model: by its number, or by its name. -1: there is none. */
static int32_t find_layer(const est_object_graph *graph, int32_t model, const position *at)
{
    int32_t parent = at->within != NULL ? find_layer(graph, model, at->within) : model;
    int32_t layer  = parent >= 0 ? layer_below(graph, parent, at->number) : -1;

    return layer >= 0 || parent < 0 ? layer : est_object_graph_child(graph, parent, at->name);
}

/* The key of the tensor for a weight in the objects of a checkpoint, below a model; NULL: it has none. */
static const char *key_below(const est_object_graph *graph, int32_t model, const weight *one)
{
    int32_t     node = one->layer != NULL ? find_layer(graph, model, one->layer) : model;
    const char *path = one->path;

    while (node >= 0 && path != NULL) {
        const char *slash = strchr(path, '/');
        char        part[256];

        (void)snprintf(part, sizeof part, "%.*s", slash != NULL ? (int)(slash - path) : (int)strlen(path), path);
        node = est_object_graph_child(graph, node, part);
        path = slash != NULL ? slash + 1 : NULL;
    }
    return node >= 0 ? graph->nodes[node].checkpoint_key : NULL;
}

static bool has_any(const est_object_graph *graph, int32_t model, const weights *w)
{
    for (int i = 0; i < w->n; i++) {
        if (key_below(graph, model, &w->data[i]) != NULL) return true;
    }
    return false;
}

/* The object that has the layers: the root, or one of its children; -1: none has. */
static int32_t find_model(const est_object_graph *graph, const weights *w)
{
    if (graph->n_nodes == 0) return -1;
    if (has_any(graph, 0, w)) return 0;
    for (const est_object_child *child = graph->nodes[0].children; child != NULL; child = child->next) {
        int32_t node = est_object_graph_child(graph, 0, child->name);

        if (node >= 0 && has_any(graph, node, w)) return node;
    }
    return -1;
}

/* What is restored, and from which tensors. */
typedef struct loading {
    const weights *w;
    const char   **stored; /* [w->n]; NULL: the variable keeps its value */
    int            n_skipped;
} loading;

static int find_weight(const loading *l, const char *variable)
{
    for (int i = 0; i < l->w->n; i++) {
        if (strcmp(l->w->data[i].name, variable) == 0) return i;
    }
    return -1;
}

static bool is_restored(void *user, const char *variable)
{
    const loading *l = user;
    int            i = find_weight(l, variable);

    return i >= 0 && l->stored[i] != NULL;
}

static const char *stored_name(void *user, const char *variable)
{
    const loading *l = user;
    int            i = find_weight(l, variable);

    return i >= 0 ? l->stored[i] : NULL;
}

static est_status choose(loading *l, const est_checkpoint *checkpoint, const est_load_weights_options *o)
{
    const est_object_graph *objects = est_checkpoint_objects(checkpoint);
    int32_t                 model   = o->by_name ? -1 : find_model(objects, l->w);

    for (int i = 0; i < l->w->n; i++) {
        const weight                  *one = &l->w->data[i];
        const est_checkpoint_variable *there;

        l->stored[i] = one->name;
        if (model >= 0) {
            l->stored[i] = key_below(objects, model, one);
            /* not the name of the variable, which may be that of another layer there */
            if (l->stored[i] == NULL) {
                l->stored[i] = one->layer != NULL ? key_of(l->w->arena, one, "")
                                                  : est_arena_printf(l->w->arena, "model/%s", one->path);
            }
            if (l->stored[i] == NULL) return est_no_memory();
        }
        if (!o->skip_mismatch) continue;
        there = est_checkpoint_find(checkpoint, l->stored[i]);
        if (there == NULL || (there->dtype == est_variable_dtype(one->node) &&
                              est_shape_equal(&there->shape, est_node_shape(one->node))))
            continue;
        l->stored[i] = NULL;
        l->n_skipped++;
    }
    return EST_OK;
}

/* Nothing was changed. */
static est_status fail_unrelated(const loading *l, const est_checkpoint *checkpoint, int n_missing)
{
    return est_fail(EST_FAILED_PRECONDITION,
                    "none of the %d variables is in %s: it lacks %d of them, and %d have another dtype or shape there; "
                    "name the checkpoint of this network",
                    l->w->n, est_checkpoint_path(checkpoint), n_missing, l->n_skipped);
}

static est_status load(est_network *network, const weights *w, const char *path, const est_load_weights_options *o)
{
    loading         l          = { .w = w, .stored = est_arena_alloc(w->arena, (size_t)(w->n + 1) * sizeof *l.stored) };
    est_checkpoint *checkpoint = NULL;
    est_restored    restored   = { 0 };
    est_status      status;

    if (l.stored == NULL) return est_no_memory();
    EST_TRY(est_checkpoint_open(path, &checkpoint));
    status = choose(&l, checkpoint, o);
    if (status == EST_OK) {
        status = est_saver_restore(NULL, network->session,
                                   EST_RESTORE(.path = est_checkpoint_path(checkpoint), .partial = o->partial,
                                               .rename = stored_name, .filter = is_restored, .user = &l),
                                   &restored);
        if (status != EST_OK) status = est_restore_advise(status, ". Set .partial to leave them as they are");
    }
    if (status == EST_OK && restored.n_restored == 0 && w->n > 0) {
        status = fail_unrelated(&l, checkpoint, restored.n_missing);
    } else if (status == EST_OK && l.n_skipped + restored.n_missing > 0) {
        est_log_warn("%s: %s lacks %d variables, and %d have another dtype or shape there: these keep their values",
                     network->name, est_checkpoint_path(checkpoint), restored.n_missing, l.n_skipped);
    }
    est_checkpoint_close(checkpoint);
    return status;
}

est_status est_network_load_weights(est_network *network, const char *path, const est_load_weights_options *options)
{
    est_load_weights_options o;
    weights                  w = { 0 };
    est_status               status;

    EST_REQUIRE(network);
    EST_REQUIRE(path);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_load_weights_options), options, &o));
    EST_TRY(est_network_build_now(network));
    EST_TRY(est_network_connect(network));
    status = list_weights(network, &w);
    if (status == EST_OK) status = load(network, &w, path, &o);
    est_arena_free(w.arena);
    return status == EST_OK ? EST_OK : est_fail_context(status, "%s: weights", network->name);
}
