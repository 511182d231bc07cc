/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers from inside: a layer is a struct that begins with est_layer, and a class that says what a call of it builds.
 *
 * A kind of layer has a function that fills its struct from options and checks them. est_layer_make turns the struct
 * into an object; est_layer_once calls it where it stands, once: est_dense and its like are that. */
#ifndef EST_NN_LAYER_H
#define EST_NN_LAYER_H

#include "base/refcount.h"
#include "estoc/dataset.h"
#include "nn/nn.h"

typedef struct est_layer_class {
    const char *keras;         /* the class in Keras: "Dense" */
    const char *scope;         /* the default of names: "dense" */
    size_t      size;          /* of the struct */
    int         n_min, n_max;  /* inputs */
    bool        frozen_infers; /* while it is not trained, a call is one without training: batch normalisation */

    /* Builds a call in the scope of the layer; inputs are nodes of one graph that is not poisoned, or EST_NO_NODE. */
    est_node (*call)(const est_layer *self, est_nodes in, const est_call_options *o);

    /* Takes what the layer needs from a component of all elements. NULL: it needs nothing. */
    est_status (*adapt)(est_layer *self, const est_dataset *dataset, const char *component);

    /* Whether Keras' layer has weights for what adapt sees, which are none of the model; here it has none. NULL: no. */
    bool (*is_tracked)(const est_layer *self);

    /* Frees what the struct owns. NULL: nothing. */
    void (*clear)(est_layer *self);
} est_layer_class;

struct est_layer {
    const est_layer_class *class;
    est_refcount refs;
    char        *name;  /* NULL: none was given and it was not called */
    bool         named; /* the name was given */
    bool         frozen;
    est_shape    output; /* of the last call; rank -1 before */
};

/* An object like `filled`, whose class and members are set; `name` is copied, and may be the name of a node as
 * TensorFlow has them. What the struct owns is taken, also on failure, which returns NULL. */
est_layer *est_layer_make(est_layer *filled, const char *name);

/* Calls a layer that is no object, in a scope of its name. `status` is that of filling it: a failure poisons. */
est_node est_layer_once(est_status status, const est_layer *filled, const char *name, est_nodes in,
                        const est_call_options *o);

/* Layers work on floats, with an axis of known size last; false after poisoning the graph. */
bool est_layer_check(est_node x, const char *layer, int rank_min, int rank_max);

/* A variable of a layer, of the dtype of x. */
est_node est_layer_weight(est_node x, const char *name, est_shape shape, est_initializer initializer,
                          est_regularizer regularizer, bool frozen);

/* x as a factor of a product, in the precision of its graph. */
est_node est_layer_factor(est_node x);

/* x [..., in] times kernel [in, units]. */
est_node est_rows_times(est_node x, est_node kernel, int64_t units);

static inline est_initializer est_init_or(est_initializer given, est_initializer fallback)
{
    return given.make != NULL ? given : fallback;
}

/* --- for tables of a network's layers ----------------------------------------------------------------------------- */

/* Fails if two layers of a network were given the same name. */
EST_MUST_CHECK est_status est_layers_check_names(est_layers layers);

/* "Dense"; the shape of the last call's output, of rank -1 before the first. Borrowed until the layer is freed. */
const char      *est_layer_class_name(const est_layer *layer);
const est_shape *est_layer_output_shape(const est_layer *layer);

/* How many numbers its variables in a graph have: those that are trained, and others. */
void est_layer_count_params(const est_layer *layer, const est_graph *graph, int64_t *trainable, int64_t *frozen);

#endif
