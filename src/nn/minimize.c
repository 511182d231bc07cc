/* SPDX-License-Identifier: Apache-2.0
 *
 * From a loss to a training operation: gradients, clipping, updates, the step counter.
 *
 * Order within a step: everything that reads a variable sees it as it was before (the planner keeps reads before
 * writes that do not depend on them), the updates run, and the counter moves after all of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/optimizer.h"
#include "nn/replicas_reduce.h"

static est_node unnamed(est_graph *graph)
{
    return est_graph_poison(graph, est_no_memory());
}

static bool may_lack_slots(est_node var)
{
    est_nodes list = est_graph_collection(var.graph, EST_NEW_SLOTS);

    for (int i = 0; i < list.n; i++) {
        if (list.data[i].id == var.id) return true;
    }
    return false;
}

/* A variable of an earlier update by the same optimizer; EST_NO_NODE: there is none, or it is not to be shared. */
static est_node find_shared(const est_update *u, const char *full)
{
    est_node found = u->share ? est_graph_find(u->graph, full) : EST_NO_NODE;

    return est_variable_dtype(found) != EST_DTYPE_NONE ? found : EST_NO_NODE;
}

static est_node make_slot(est_update *u, est_node var, const char *full, double value)
{
    est_node slot = find_shared(u, full);

    if (slot.graph != NULL) return slot;
    if (est_has_rows(var)) {
        slot = est_row_slot(var, full, value);
        if (est_def(slot) != NULL) est_graph_collect(u->graph, "global_variables", slot);
        return slot;
    }
    slot = est_nn_absolute_variable(u->graph, full, est_variable_dtype(var), *est_node_shape(var),
                                    est_init_constant(value), "global_variables");
    if (may_lack_slots(var)) est_graph_collect(u->graph, EST_OPTIONAL_VARIABLES, slot);
    return slot;
}

est_node est_update_slot(est_update *u, est_node var, const char *name, const char *keras_name, double value)
{
    est_arena     *arena = est_graph_arena(u->graph);
    const char    *of    = est_node_name(var), *full;
    est_colocation before;
    est_node       slot;

    if (u->optimizer->keras) {
        full = est_arena_printf(arena, "%s/%s/%s", u->prefix, of, keras_name);
    } else if (u->slot_scope != NULL) {
        full = est_arena_printf(arena, "%s/%s/%s", of, u->slot_scope, name);
    } else {
        full = est_arena_printf(arena, "%s/%s", of, name);
    }
    if (full == NULL) return unnamed(u->graph);
    before = est_graph_colocate(u->graph, var);
    slot   = make_slot(u, var, full, value);
    est_graph_colocate_end(u->graph, before);
    return slot;
}

est_node est_update_number(est_update *u, est_node var, double value)
{
    return est_scalar(u->graph, est_variable_dtype(var), value);
}

est_node est_update_hyper(est_update *u, est_node var, int i)
{
    est_dtype dtype = est_variable_dtype(var);
    est_node  value;

    if (u->hyper[i].graph == NULL) return est_update_number(u, var, u->optimizer->hyper[i]);
    value = est_read_variable(u->hyper[i]);
    return dtype == EST_F32 ? value : est_cast(value, dtype);
}

est_node est_update_rate(est_update *u, est_node var)
{
    est_dtype dtype = est_variable_dtype(var);

    return dtype == EST_F32 ? u->rate : est_cast(u->rate, dtype);
}

est_gradient est_update_dense(est_update *u, est_node var, est_gradient sparse)
{
    est_node rows = est_scalar(u->graph, EST_I32, (double)est_node_dim(est_read_variable(var), 0));

    return (est_gradient){ .values = est_unsorted_segment_sum(sparse.values, sparse.indices, rows) };
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

void est_clip_gradients_by_value(est_gradient *gradients, int n, double limit)
{
    for (int i = 0; gradients != NULL && i < n; i++) {
        if (gradients[i].values.graph == NULL) continue;
        if (gradients[i].indices.graph != NULL) gradients[i] = est_dedup(gradients[i]);
        gradients[i].values = est_clip_by_value(gradients[i].values, -limit, limit);
    }
}

void est_clip_gradients_by_norm(est_gradient *gradients, int n, double norm)
{
    for (int i = 0; gradients != NULL && i < n; i++) {
        if (gradients[i].values.graph == NULL) continue;
        if (gradients[i].indices.graph != NULL) gradients[i] = est_dedup(gradients[i]);
        gradients[i].values = est_clip_by_norm(gradients[i].values, norm);
    }
}

static void clip(est_gradient *gradients, int n, const est_minimize_options *o)
{
    if (o->clip_value > 0) est_clip_gradients_by_value(gradients, n, o->clip_value);
    if (o->clip_norm > 0) est_clip_gradients_by_norm(gradients, n, o->clip_norm);
    if (o->clip_global_norm > 0) (void)est_clip_by_global_norm(gradients, n, o->clip_global_norm);
}

void est_compute_gradients(est_node loss, est_nodes variables, est_gradient *gradients,
                           const est_minimize_options *options)
{
    est_minimize_options o;

    for (int i = 0; gradients != NULL && i < variables.n; i++) gradients[i] = (est_gradient){ 0 };
    if (loss.graph == NULL || est_graph_poisoned(loss.graph)) return;
    if (!EST_OPTIONS(loss.graph, est_minimize_options, options, o)) return;
    est_gradients(loss, variables, gradients);
    if (est_graph_poisoned(loss.graph)) return;
    clip(gradients, variables.n, &o);
}

/* --- updates ------------------------------------------------------------------------------------------------------ */

est_node est_update_keras_number(est_update *u, const char *name, est_dtype dtype, double value)
{
    const char *full = est_arena_printf(est_graph_arena(u->graph), "%s/%s", u->prefix, name);

    est_node found;

    if (full == NULL) return unnamed(u->graph);
    found = find_shared(u, full);
    if (found.graph != NULL) return found;
    return est_nn_absolute_variable(u->graph, full, dtype, EST_SHAPE_SCALAR, est_init_constant(value),
                                    "global_variables");
}

/* Where all variables of a Keras optimizer are: "training/Adam". */
static const char *own_scope(const est_update *u)
{
    return est_arena_printf(est_graph_arena(u->graph), "%s/%s", u->slot_scope != NULL ? u->slot_scope : "training",
                            u->optimizer->rule->name);
}

/* Names the optimizer's variables and creates those that are not slots. A second optimizer of the same kind is
 * "training/Adam_1". */
static void begin_keras(est_update *u, bool own_counter)
{
    const est_optimizer_rule *rule = u->optimizer->rule;
    const char               *name = own_scope(u);

    u->prefix = name == NULL || u->share ? name : est_graph_unique_name(u->graph, name);
    if (u->prefix == NULL) {
        (void)unnamed(u->graph);
        return;
    }
    for (int i = 0; i < 8; i++) {
        if (rule->hyper[i] != NULL) {
            u->hyper[i] = est_update_keras_number(u, rule->hyper[i], EST_F32, u->optimizer->hyper[i]);
        }
    }
    if (rule->unused_hyper != NULL) (void)est_update_keras_number(u, rule->unused_hyper, EST_F32, 0);
    (void)est_update_keras_number(u, "decay", EST_F32, 0);
    if (own_counter) u->step = est_update_keras_number(u, "iter", EST_I64, 0);
}

est_node est_learning_rate_variable(const est_graph *graph)
{
    est_nodes rates = est_graph_collection(graph, EST_LEARNING_RATES);

    return rates.n > 0 ? rates.data[rates.n - 1] : EST_NO_NODE;
}

static est_node rate_node(est_update *u)
{
    const est_optimizer *optimizer = u->optimizer;
    est_node             rate;

    if (optimizer->learning_node.graph != NULL) return optimizer->learning_node;
    if (optimizer->schedule.rate == NULL) {
        if (u->prefix == NULL && !u->keep_rate) return est_scalar(u->graph, EST_F32, optimizer->learning_rate);
        if (u->prefix == NULL) u->prefix = own_scope(u);
        if (u->prefix == NULL) return unnamed(u->graph);
        rate = est_update_keras_number(u, "learning_rate", EST_F32, optimizer->learning_rate);
        if (est_def(rate) != NULL) est_graph_collect(u->graph, EST_LEARNING_RATES, rate);
        return est_read_variable(rate);
    }
    if (u->step.graph == NULL) {
        return est_nn_fail(u->graph, "a learning rate that follows a schedule needs a global step");
    }
    return est_learning_rate(optimizer->schedule, u->step);
}

/* A dynamic embedding may be too large to update as a whole. */
static bool can_update_rows(const est_update *u, est_node var, est_gradient g)
{
    const est_optimizer *o = u->optimizer;

    if (g.indices.graph == NULL) {
        (void)est_nn_fail(u->graph,
                          "'%s' is a dynamic embedding, but its gradient is dense; look its rows up instead "
                          "of reading the whole variable",
                          est_node_name(var));
        return false;
    }
    if (o->dense) {
        (void)est_nn_fail(u->graph,
                          "dense gradients would change every row of the dynamic embedding '%s' in every step; "
                          "leave est_with_dense_gradients out",
                          est_node_name(var));
        return false;
    }
    if (o->rule->touches_all_rows != NULL && o->rule->touches_all_rows(o)) {
        (void)est_nn_fail(u->graph, "%s would change every row of the dynamic embedding '%s' in every step; use %s",
                          o->rule->name, est_node_name(var), o->rule->instead);
        return false;
    }
    return true;
}

/* Whether the weight of a variable decays. */
static bool decays(const est_optimizer *o, est_node var)
{
    if (o->weight_decay == 0) return false;
    for (int i = 0; i < o->decay_not.n; i++) {
        if (o->decay_not.data[i] != NULL && strstr(est_node_name(var), o->decay_not.data[i]) != NULL) return false;
    }
    return true;
}

/* w -= lr decay w, as a step of gradient descent, which shards and servers know; the update comes after it. */
static est_node decay(est_update *u, est_node var)
{
    est_node by = est_update_number(u, var, u->optimizer->weight_decay);

    return est_build_apply(&est_op_apply_gradient_descent, NULL, EST_NODES(var, est_update_rate(u, var)),
                           (est_gradient){ .values = est_mul(est_read_variable(var), by) }, EST_NO_ATTRS);
}

static est_node decayed_update(est_update *u, est_node var, est_gradient g)
{
    est_node before, update;

    if (!decays(u->optimizer, var)) return u->optimizer->rule->apply(u, var, g);
    if (est_has_rows(var)) {
        return est_nn_fail(
            u->graph, "weight decay would change every row of the dynamic embedding '%s' in every step; exclude it",
            est_node_name(var));
    }
    before = decay(u, var);
    update = u->optimizer->rule->apply(u, var, g);
    return est_group(u->graph, EST_NODES(before, est_after(update, before)));
}

/* Adds the updates of all variables with a gradient; returns their number. */
static int apply_all(est_update *u, est_nodes variables, const est_gradient *gradients, est_node *updates)
{
    const est_optimizer_rule *rule = u->optimizer->rule;
    int                       n    = 0;

    if (rule->begin != NULL) rule->begin(u);
    for (int i = 0; i < variables.n; i++) {
        est_gradient g = gradients[i];

        if (g.values.graph == NULL) continue;
        if (est_has_rows(variables.data[i]) && !can_update_rows(u, variables.data[i], g)) continue;
        if (g.indices.graph != NULL && u->optimizer->dense) g = est_update_dense(u, variables.data[i], g);
        if (g.indices.graph != NULL && !rule->takes_duplicates) g = est_dedup(g);
        updates[n++] = decayed_update(u, variables.data[i], g);
    }
    if (rule->finish != NULL && n > 0) {
        est_node last = rule->finish(u, (est_nodes){ updates, n });
        if (last.graph != NULL) updates[n++] = last;
    }
    return n;
}

/* Moves the counter after all updates. */
static est_node count_step(est_node step, est_nodes updates)
{
    est_node count = est_assign_add(step, est_scalar(step.graph, EST_I64, 1));

    for (int i = 0; i < updates.n; i++) count = est_after(count, updates.data[i]);
    return count;
}

/* The arguments of est_apply_gradients, and the other operations of the step (est_update_ops). */
typedef struct application {
    const est_optimizer        *optimizer;
    est_nodes                   variables;
    const est_gradient         *gradients;
    const est_minimize_options *o;
    est_nodes                   more;
} application;

/* A copy of the gradients as the optimizer clips them, after those of all replicas became one. NULL: out of memory. */
static est_gradient *clipped(const est_optimizer *optimizer, const est_gradient *gradients, int n)
{
    est_gradient *copy = est_alloc(sizeof *copy * (size_t)n);

    if (copy == NULL) return NULL;
    for (int i = 0; i < n; i++) copy[i] = gradients[i];
    clip(copy, n,
         &(est_minimize_options){ .clip_value       = optimizer->clip_value,
                                  .clip_norm        = optimizer->clip_norm,
                                  .clip_global_norm = optimizer->clip_global_norm });
    return copy;
}

static est_node apply_gradients(est_graph *graph, const application *a)
{
    const est_optimizer        *optimizer = a->optimizer;
    const est_minimize_options *o         = a->o;
    est_nodes                   variables = a->variables, more = a->more;

    est_node      step  = o->global_step.graph != NULL                                             ? o->global_step
                          : est_graph_collection(graph, "global_step").n > 0 || !o->no_global_step ? est_global_step(graph)
                                                                                                   : EST_NO_NODE;
    est_update    u     = { .optimizer  = optimizer,
                            .graph      = graph,
                            .step       = step,
                            .slot_scope = o->slot_scope,
                            .keep_rate  = o->learning_rate_variable,
                            .share      = o->share_slots };
    bool          count = !o->no_global_step || optimizer->keras;
    est_node     *updates, train = EST_NO_NODE;
    int           n, first       = est_global_variables(graph).n;
    est_gradient *gradients;

    if (optimizer->keras) begin_keras(&u, o->no_global_step);
    if (est_graph_poisoned(graph)) return est_graph_poison(graph, EST_RESOURCE_EXHAUSTED);
    u.rate    = rate_node(&u);
    updates   = est_alloc(sizeof *updates * (size_t)(variables.n + more.n + 2));
    gradients = clipped(optimizer, a->gradients, variables.n);
    if (updates == NULL || gradients == NULL) {
        est_free(updates);
        est_free(gradients);
        return est_graph_poison(graph, est_no_memory());
    }
    n = apply_all(&u, variables, gradients, updates);
    est_free(gradients);
    if (n == 0 && !est_graph_poisoned(graph)) {
        train = est_nn_fail(graph, "none of %d variables has a gradient: nothing to train", variables.n);
    } else {
        if (count) {
            est_node counted = count_step(u.step, (est_nodes){ updates, n });
            updates[n++]     = counted;
        }
        for (int i = 0; i < more.n; i++) updates[n++] = more.data[i];
        train = est_named(est_group(graph, (est_nodes){ updates, n }),
                          o->name != NULL ? o->name : optimizer->rule->name);
        est_optimizer_add_terms(graph, optimizer, o);
    }
    est_free(updates);
    for (int i = first; i < est_global_variables(graph).n; i++) {
        est_graph_collect(graph, EST_OPTIMIZER_VARIABLES, est_global_variables(graph).data[i]);
    }
    return train;
}

/* --- replicas ----------------------------------------------------------------------------------------------------- */

static bool same_nodes(est_nodes a, est_nodes b)
{
    for (int i = 0; i < a.n && i < b.n; i++) {
        if (a.data[i].id != b.data[i].id) return false;
    }
    return a.n == b.n;
}

/* The other operations of all replicas, each once: most were merged and are shared by all replicas. */
static est_nodes all_updates(est_graph *graph, void *const *brought, int n)
{
    est_node *all;
    int       max = 0, count = 0;

    for (int i = 0; i < n; i++) max += ((const application *)brought[i])->more.n;
    all = est_arena_alloc(est_graph_arena(graph), sizeof *all * (size_t)(max + 1));
    if (all == NULL) (void)est_graph_poison(graph, est_no_memory());
    for (int i = 0; i < n && all != NULL; i++) {
        est_nodes more = ((const application *)brought[i])->more;

        for (int k = 0, seen; k < more.n; k++) {
            for (seen = 0; seen < count && all[seen].id != more.data[k].id; seen++) {}
            if (seen == count) all[count++] = more.data[k];
        }
    }
    return (est_nodes){ all, count };
}

/* One update of each variable for all replicas. */
static est_node apply_merged(est_graph *graph, void *const *brought, int n)
{
    application   a        = *(const application *)brought[0];
    est_replicas *replicas = est_graph_replicas(graph);
    est_gradient *reduced  = est_arena_alloc(est_graph_arena(graph), sizeof *reduced * (size_t)(a.variables.n + 1));
    est_gradient *each     = est_arena_alloc(est_graph_arena(graph), sizeof *each * (size_t)n);
    est_replica_reduction reduction;

    if (reduced == NULL || each == NULL) {
        return est_graph_poison(graph, est_no_memory());
    }
    for (int i = 1; i < n; i++) {
        const application *other = brought[i];

        if (other->optimizer->rule != a.optimizer->rule || !same_nodes(other->variables, a.variables)) {
            return est_nn_fail(graph, "replica %d trains other variables than replica 0, or with another optimizer", i);
        }
    }
    if (replicas->by_loss) replicas->gradients = replicas->last_loss;
    reduction = est_replica_reduction_begin(graph, replicas->gradients, replicas->weight);
    for (int v = a.variables.n - 1; v >= 0; v--) { /* the gradients of the last layers are computed first */
        for (int i = 0; i < n; i++) each[i] = ((const application *)brought[i])->gradients[v];
        reduced[v] = est_replica_reduce_gradient(&reduction, a.variables.data[v], each);
    }
    a.gradients = reduced;
    a.more      = all_updates(graph, brought, n);
    return apply_gradients(graph, &a);
}

est_node est_apply_gradients(est_optimizer optimizer, est_nodes variables, const est_gradient *gradients,
                             const est_minimize_options *options)
{
    est_minimize_options o;
    application          a;
    est_graph           *graph = variables.n > 0 && variables.data != NULL ? variables.data[0].graph : NULL;

    if (graph == NULL || est_graph_poisoned(graph)) return graph == NULL ? EST_NO_NODE : variables.data[0];
    if (!EST_OPTIONS(graph, est_minimize_options, options, o)) return est_graph_poison(graph, EST_INVALID_ARGUMENT);
    if (gradients == NULL) return est_nn_fail(graph, "est_apply_gradients: gradients is NULL");
    if (optimizer.rule == NULL) {
        return est_nn_fail(graph, "the optimizer is zero, or its options were rejected: use est_adam(...) "
                                  "or another");
    }
    if (optimizer.learning_node.graph == NULL && optimizer.schedule.rate == NULL &&
        !(optimizer.learning_rate >= 0 && optimizer.learning_rate < INFINITY)) {
        return est_nn_fail(graph, "%s: the learning rate is %g; give a number above 0", optimizer.rule->name,
                           optimizer.learning_rate);
    }
    if (!isfinite(optimizer.weight_decay)) {
        return est_nn_fail(graph, "%s: the weight decay is %g; give a number, or 0 for none", optimizer.rule->name,
                           optimizer.weight_decay);
    }
    a = (application){ &optimizer, variables, gradients, &o,
                       o.no_update_ops ? (est_nodes){ 0 } : est_update_ops(graph) };
    return est_in_replica(graph) ? est_replicas_merge(graph, apply_merged, &a) : apply_gradients(graph, &a);
}

est_node est_minimize(est_optimizer optimizer, est_node loss, const est_minimize_options *options)
{
    est_minimize_options o;
    est_nodes            variables;
    est_node            *copy, train;
    est_gradient        *gradients;

    if (loss.graph == NULL || est_graph_poisoned(loss.graph)) return loss;
    if (!EST_OPTIONS(loss.graph, est_minimize_options, options, o))
        return est_graph_poison(loss.graph, EST_INVALID_ARGUMENT);
    if (o.clip_value > 0 || o.clip_norm > 0 || o.clip_global_norm > 0) {
        optimizer = est_with_clipping(optimizer, 0, 0, 0);
    }
    variables = o.variables.n > 0 ? o.variables : est_trainable_variables(loss.graph);
    if (variables.n == 0) return est_nn_fail(loss.graph, "est_minimize: the graph has no trainable variables");
    copy      = est_alloc(sizeof *copy * (size_t)variables.n); /* the collection may move when slots join the graph */
    gradients = est_alloc(sizeof *gradients * (size_t)variables.n);
    if (copy == NULL || gradients == NULL) {
        train = est_graph_poison(loss.graph, est_no_memory());
    } else {
        for (int i = 0; i < variables.n; i++) copy[i] = variables.data[i];
        variables.data = copy;
        est_compute_gradients(loss, variables, gradients, &o);
        train = est_apply_gradients(optimizer, variables, gradients, &o);
    }
    est_free(copy);
    est_free(gradients);
    return train;
}
