/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers as objects: references, names, calls. The kinds are in nn/layers.c, nn/layer_*.c and nn/embedding.c.
 *
 * A call is a build for graph/reuse.h with the layer as its key, so that the first one in a graph makes the variables
 * and every later one gets them. The graph keeps the layer: another one cannot have its address. */
#include "nn/layer.h"

#include <stdio.h>
#include <string.h>

#include "base/argument.h"

/* --- objects ------------------------------------------------------------------------------------------------------ */

/* Names of nodes in TensorFlow: [A-Za-z0-9.][A-Za-z0-9_./>-]*. A slash at the end would be another scope. */
static bool is_name(const char *name)
{
    size_t n = strlen(name);

    if (n == 0 || strchr("_/>-", name[0]) != NULL || name[n - 1] == '/') return false;
    return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./>-") == n;
}

static est_status check_name(const est_layer_class *class, const char *name)
{
    if (name == NULL || is_name(name)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "%s layer: its name is \"%s\"; write letters, digits and any of _ . / > -, a letter or digit "
                    "first, or leave it out",
                    class->scope, name);
}

est_layer *est_layer_make(est_layer *filled, const char *name)
{
    est_status status = check_name(filled->class, name);
    est_layer *layer  = status == EST_OK ? est_alloc(filled->class->size) : NULL;
    char      *copy   = name != NULL ? est_strdup(name) : NULL;

    if (layer == NULL || (name != NULL && copy == NULL)) {
        if (status == EST_OK) (void)est_no_memory();
        if (filled->class->clear != NULL) filled->class->clear(filled);
        est_free(copy);
        est_free(layer);
        return NULL;
    }
    memcpy(layer, filled, filled->class->size);
    est_refcount_init(&layer->refs);
    layer->name   = copy;
    layer->named  = copy != NULL;
    layer->output = (est_shape){ .rank = -1 };
    return layer;
}

est_layer *est_layer_share(est_layer *layer)
{
    if (layer != NULL) est_refcount_add(&layer->refs);
    return layer;
}

void est_layer_free(est_layer *layer)
{
    if (layer == NULL || !est_refcount_drop(&layer->refs)) return;
    if (layer->class->clear != NULL) layer->class->clear(layer);
    est_free(layer->name);
    est_free(layer);
}

const char *est_layer_name(const est_layer *layer)
{
    return layer != NULL && layer->name != NULL ? layer->name : "";
}

void est_layer_set_trainable(est_layer *layer, bool trainable)
{
    if (layer != NULL) layer->frozen = !trainable;
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

#define RANGE_TEXT_MAX 32

/* "4", or "2 to 4". */
static const char *range_text(int min, int max, char text[RANGE_TEXT_MAX])
{
    if (min == max) {
        (void)snprintf(text, RANGE_TEXT_MAX, "%d", min);
    } else {
        (void)snprintf(text, RANGE_TEXT_MAX, "%d to %d", min, max);
    }
    return text;
}

/* The graph of the inputs; NULL unless they can be the inputs of a call. */
static est_graph *graph_of(const est_layer *layer, est_nodes in)
{
    est_graph  *graph = in.n > 0 && in.data != NULL ? in.data[0].graph : NULL;
    const char *what  = layer != NULL ? layer->class->scope : "";
    char        takes[RANGE_TEXT_MAX];

    if (est_graph_poisoned(graph)) return NULL;
    if (layer == NULL) {
        (void)est_nn_fail(graph, "a call of a layer that is NULL");
        return NULL;
    }
    if (in.n < layer->class->n_min || in.n > layer->class->n_max) {
        (void)est_nn_fail(graph, "%s layer: %d inputs; it takes %s", what, in.n,
                          range_text(layer->class->n_min, layer->class->n_max, takes));
        return NULL;
    }
    for (int i = 0; i < in.n; i++) {
        bool optional = i > 0 && i >= layer->class->n_min;

        if (in.data[i].graph == NULL && optional) continue;
        if (est_def(in.data[i]) == NULL || in.data[i].graph != graph) {
            (void)est_nn_fail(graph, "%s layer: input %d is no node of the graph of the first", what, i);
            return NULL;
        }
    }
    return graph;
}

static est_node no_call(est_nodes in)
{
    est_graph *graph = in.n > 0 && in.data != NULL ? in.data[0].graph : NULL;

    return est_graph_poison(graph, EST_INVALID_ARGUMENT);
}

/* The last part of the current scope: "dense/". */
static const char *last_scope(const est_graph *graph)
{
    const char *scope = est_graph_scope(graph), *last = scope;

    for (const char *at = scope; *at != '\0'; at++) {
        if (*at == '/' && at[1] != '\0') last = at + 1;
    }
    return last;
}

/* Tells the model that is being built of a call, in the scope of the layer; `key` NULL: it is no object. `given`: its
 * name, for which a scope was opened behind the first `outer` characters; NULL: none. */
static int begin_layer(const est_layer *layer, const void *key, est_graph *graph, size_t outer, const char *given)
{
    const char *last = last_scope(graph);
    char        name[256], wanted[512];
    int         own;

    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(last, "/"), last);
    if (given != NULL) (void)snprintf(wanted, sizeof wanted, "%.*s%s/", (int)outer, est_graph_scope(graph), given);
    own = est_reuse_layer_begin(graph, key, layer->class->keras, name, given != NULL ? wanted : NULL);
    if (layer->class->is_tracked != NULL && layer->class->is_tracked(layer)) est_reuse_layer_track(graph, own);
    return own;
}

est_node est_layer_once(est_status status, const est_layer *filled, const char *name, est_nodes in,
                        const est_call_options *o)
{
    est_graph *graph = in.data[0].graph;
    est_node   y;
    size_t     outer;
    int        own;

    if (graph == NULL) return in.data[0];
    if (status != EST_OK) return est_graph_poison(graph, est_graph_blame(status));
    if (graph_of(filled, in) == NULL) return no_call(in);
    outer = strlen(est_graph_scope(graph));
    est_scope_push(graph, name != NULL ? name : filled->class->scope);
    own = begin_layer(filled, NULL, graph, outer, name);
    y   = filled->class->call(filled, in, o);
    est_reuse_layer_end(graph, own, y);
    est_scope_pop(graph);
    return y;
}

/* The name of a layer that was given none is that of its first scope. */
static void take_name(est_layer *layer, est_graph *graph)
{
    const char *last;

    if (layer->name != NULL || est_graph_poisoned(graph)) return;
    last        = last_scope(graph);
    layer->name = est_strdup(last);
    if (layer->name == NULL) {
        (void)est_graph_poison(graph, est_no_memory());
        return;
    }
    layer->name[strlen(last) - 1] = '\0';
}

static void release(void *layer)
{
    est_layer_free(layer);
}

/* Opens the scope of a call; true: it is the first, and the scope a new one. */
static bool enter(est_layer *layer, est_graph *graph)
{
    bool first = est_reuse_begin_call(graph, layer);

    if (first) {
        est_graph_keep(graph, release, est_layer_share(layer));
        est_scope_push(graph, layer->name != NULL ? layer->name : layer->class->scope);
        take_name(layer, graph);
    } else {
        est_scope_reenter(graph, est_layer_name(layer));
    }
    return first;
}

static void leave(est_layer *layer, est_graph *graph)
{
    est_nodes made = est_reuse_nodes(graph, layer);

    est_scope_pop(graph);
    est_reuse_end(graph);
    for (int i = 0; layer->frozen && i < made.n; i++) est_graph_uncollect(graph, "trainable_variables", made.data[i]);
}

est_node est_layer_call_with(est_layer *layer, est_nodes inputs, const est_call_options *options)
{
    est_graph       *graph = inputs.n > 0 && inputs.data != NULL ? inputs.data[0].graph : NULL;
    est_call_options o;
    est_node         y;
    size_t           outer;
    bool             first;
    int              own;

    if (!EST_OPTIONS(graph, est_call_options, options, o) || graph_of(layer, inputs) == NULL) return no_call(inputs);
    if (layer->frozen && layer->class->frozen_infers) o.training = false;
    outer = strlen(est_graph_scope(graph));
    first = enter(layer, graph);
    own   = begin_layer(layer, layer, graph, outer, first && layer->named ? layer->name : NULL);
    y     = est_graph_poisoned(graph) ? no_call(inputs) : layer->class->call(layer, inputs, &o);
    est_reuse_layer_end(graph, own, y);
    leave(layer, graph);
    layer->output = *est_node_shape(y);
    return y;
}

est_node est_layer_call(est_layer *layer, est_node x, bool training)
{
    return est_layer_call_with(layer, EST_NODES(x), EST_CALL(.training = training));
}

/* --- what kinds share --------------------------------------------------------------------------------------------- */

est_node est_layer_weight(est_node x, const char *name, est_shape shape, est_initializer initializer,
                          est_regularizer regularizer, bool frozen)
{
    return est_weight(x.graph, name, shape,
                      EST_WEIGHT(.dtype = est_node_dtype(x), .initializer = initializer, .regularizer = regularizer,
                                 .frozen = frozen));
}

bool est_layer_check(est_node x, const char *layer, int rank_min, int rank_max)
{
    const est_shape *shape = est_node_shape(x);
    char             text[EST_SHAPE_TEXT_MAX], ranks[RANGE_TEXT_MAX];

    if (est_node_dtype(x) != EST_F32 && est_node_dtype(x) != EST_F64) {
        (void)est_nn_fail(x.graph, "%s layer: input '%s' is %s, expected float32 or float64%s", layer, est_node_name(x),
                          est_dtype_name(est_node_dtype(x)),
                          est_node_dtype(x) != EST_STRING ? "; est_cast makes floats of numbers" : "");
        return false;
    }
    if (shape->rank < rank_min || shape->rank > rank_max || est_node_dim(x, -1) < 0) {
        (void)est_nn_fail(x.graph, "%s layer: input '%s' has shape %s; it needs rank %s and a known last axis%s", layer,
                          est_node_name(x), est_shape_text(shape, text), range_text(rank_min, rank_max, ranks),
                          shape->rank == 1 ? "; est_expand_dims(x, -1) makes a column of one number a row" : "");
        return false;
    }
    return true;
}

/* --- for tables of a network's layers ----------------------------------------------------------------------------- */

est_status est_layers_check_names(est_layers layers)
{
    for (int i = 0; i < layers.n; i++) {
        for (int k = 0; k < i; k++) {
            const est_layer *a = layers.data[k], *b = layers.data[i];

            if (a == b || !a->named || !b->named || strcmp(a->name, b->name) != 0) continue;
            return est_fail(EST_ALREADY_EXISTS, "layers %d and %d are both called %s; give each a name of its own", k,
                            i, a->name);
        }
    }
    return EST_OK;
}

const char *est_layer_class_name(const est_layer *layer)
{
    return layer->class->keras;
}

const est_shape *est_layer_output_shape(const est_layer *layer)
{
    return &layer->output;
}

static bool is_among(est_nodes list, est_node node)
{
    for (int i = 0; i < list.n; i++) {
        if (list.data[i].id == node.id) return true;
    }
    return false;
}

void est_layer_count_params(const est_layer *layer, const est_graph *graph, int64_t *trainable, int64_t *frozen)
{
    est_nodes made = est_reuse_nodes(graph, layer);

    *trainable = *frozen = 0;
    for (int i = 0; i < made.n; i++) {
        int64_t n = est_variable_dtype(made.data[i]) != EST_DTYPE_NONE ? est_shape_count(est_node_shape(made.data[i]))
                                                                       : 0;

        *(is_among(est_trainable_variables(graph), made.data[i]) ? trainable : frozen) += n;
    }
}
