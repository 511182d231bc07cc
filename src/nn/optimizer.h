/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of an optimizer: one est_optimizer_rule. Adding one is a rule and a function that makes the value
 * (nn/optimizers.c); gradients, clipping, duplicates, counting and names are common (nn/minimize.c). */
#ifndef EST_NN_OPTIMIZER_H
#define EST_NN_OPTIMIZER_H

#include "nn/nn.h"

/* The collection of the optimizers' own variables: slots and Keras' hyperparameters. */
#define EST_OPTIMIZER_VARIABLES "optimizer_variables"

/* The collection of those that hold the learning rate: float32 scalars, one for each training
 * operation whose rate is neither a schedule nor a node. A program changes a rate by setting the variable in the
 * session, or with est_assign(). */
#define EST_LEARNING_RATES "learning_rates"

/* The one of the last training operation that has one; EST_NO_NODE: none has. */
est_node est_learning_rate_variable(const est_graph *graph);

/* One application of an optimizer to a graph. */
typedef struct est_update {
    const est_optimizer *optimizer;
    est_graph           *graph;
    est_node             rate;       /* float32 scalar */
    est_node             step;       /* handle of the step counter; EST_NO_NODE: none */
    est_node             shared[4];  /* the rule's own: set by begin() */
    const char          *slot_scope; /* of est_minimize_options */
    bool                 keep_rate;  /* in a variable, of est_minimize_options */
    bool                 share;      /* variables of an earlier update, of est_minimize_options */
    const char          *prefix;     /* of all variables, "training/Adam"; NULL: not of Keras */
    est_node             hyper[8];   /* handles of hyperparameters; EST_NO_NODE: constants */
} est_update;

struct est_optimizer_rule {
    const char *name;                                               /* as in TensorFlow's slot names: "Adam" */
    void (*begin)(est_update *u);                                   /* NULL: nothing to prepare */
    est_node (*apply)(est_update *u, est_node var, est_gradient g); /* the update of one variable */
    est_node (*finish)(est_update *u, est_nodes updates);           /* NULL: nothing to do after all updates */
    bool takes_duplicates; /* sparse gradients need not have their duplicates summed */

    /* Keras keeps hyperparameters in variables, so that checkpoints hold and restore them. */
    const char *hyper[8];     /* names of those variables; NULL: a constant */
    const char *unused_hyper; /* a Keras hyperparameter that is not used here, 0; NULL: none */

    /* Whether a sparse gradient also changes rows that it does not have (NULL: never), and the alternative. */
    bool (*touches_all_rows)(const est_optimizer *optimizer);
    const char *instead;
};

/* Adds the optimizer to the terms of the graph (est_graph_terms). */
void est_optimizer_add_terms(est_graph *graph, const est_optimizer *optimizer, const est_minimize_options *how);

/* A number that a Keras optimizer keeps in a variable: "<prefix>/<name>". Returns its handle. */
est_node est_update_keras_number(est_update *u, const char *name, est_dtype dtype, double value);

/* A slot of `var`: "<var>/<name>", or "<prefix>/<var>/<keras_name>". Same shape and dtype, starts at `value`. */
est_node est_update_slot(est_update *u, est_node var, const char *name, const char *keras_name, double value);

/* A number, a hyperparameter, and the learning rate, each as a scalar of the variable's dtype. */
est_node est_update_number(est_update *u, est_node var, double value);
est_node est_update_hyper(est_update *u, est_node var, int i);
est_node est_update_rate(est_update *u, est_node var);

/* A sparse gradient as the dense one that it stands for. */
est_gradient est_update_dense(est_update *u, est_node var, est_gradient sparse);

#endif
