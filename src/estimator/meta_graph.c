/* SPDX-License-Identifier: Apache-2.0
 *
 * The meta graph of an export. The graph is the model's, lowered to TensorFlow's ops and pruned to the signatures, but
 * with all variables of checkpoints. Each variable has the nodes that TensorFlow's loaders look for: an initial value,
 * an assign and a read. One save and one restore operation serve all of them.
 *
 * Estoc runs operations on a variable in program order, reads before writes (runtime/order.c). TensorFlow knows only
 * edges, so the export expresses that order as control edges. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "estimator/export.h"
#include "estimator/save_nodes.h"
#include "format/variable_def.h"
#include "graph/graph_export.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "train/saver.h"

#define SAVED_MODEL_KEEPS 5 /* what TensorFlow's exports say; nothing uses it */

static const char *const method_names[] = { "tensorflow/serving/classify", "tensorflow/serving/regress",
                                            "tensorflow/serving/predict", "tensorflow/supervised/training",
                                            "tensorflow/supervised/eval" };

/* A variable of the exported graph; texts are in the arena. */
typedef struct exported {
    est_saved_node saved;
    est_shape      shape;
    bool           trainable;
    bool           local; /* the state of a metric, not in checkpoints */
} exported;

typedef struct builder {
    est_arena          *arena;
    est_graph          *graph; /* lowered */
    est_graph_def      *def;
    est_meta_graph_def *meta;
    est_node_builder    nodes;     /* of def */
    exported           *variables; /* [n_variables]: those that are saved first */
    int                 n_variables, n_saved;
} builder;

/* --- variables ---------------------------------------------------------------------------------------------------- */

static bool is_in(est_nodes list, int32_t id)
{
    for (int i = 0; i < list.n; i++) {
        if (list.data[i].id == id) return true;
    }
    return false;
}

static est_status add_exported(builder *b, const est_node_def *def, bool local)
{
    est_nodes trainable = est_graph_collection(b->graph, "trainable_variables");
    exported *v         = &b->variables[b->n_variables++];

    *v = (exported){ .saved     = { .key   = est_arena_strdup(b->arena, est_node_string(def, "shared_name")),
                                    .node  = est_arena_strdup(b->arena, def->name),
                                    .dtype = est_node_type(def, "dtype") },
                     .shape     = est_node_attr(def, "shape")->shape,
                     .trainable = is_in(trainable, def->id),
                     .local     = local };
    return v->saved.key != NULL && v->saved.node != NULL ? EST_OK : est_no_memory();
}

static est_status list_variables(builder *b)
{
    est_nodes local = est_graph_collection(b->graph, "local_variables");
    int32_t   n     = est_graph_size(b->graph);

    b->variables = est_arena_alloc(b->arena, ((size_t)n + 1) * sizeof *b->variables);
    if (b->variables == NULL) return est_no_memory();
    for (int32_t i = 0; i < 2 * n; i++) {
        const est_node_def *def = est_graph_node(b->graph, i % n);

        if (i == n) b->n_saved = b->n_variables;
        if (def->op->source != EST_SOURCE_VARIABLE || is_in(local, def->id) != (i >= n)) continue;
        EST_TRY(add_exported(b, def, i >= n));
    }
    return EST_OK;
}

/* All zeros, computed and not stored: the value a variable has for the moment before it is restored. */
static est_status add_initial_value(builder *b, const exported *v, const char *scope, const char **out)
{
    const int64_t       zero = 0; /* of any dtype: all bits are 0 */
    const char         *dims, *value;
    est_graph_def_node *fill;

    EST_TRY(est_node_builder_const(&b->nodes, scope, "shape_as_tensor", EST_I64, EST_SHAPE(v->shape.rank), v->shape.dim,
                                   &dims));
    EST_TRY(est_node_builder_const(&b->nodes, scope, "Const", v->saved.dtype, EST_SHAPE_SCALAR, &zero, &value));
    EST_TRY(est_node_builder_node(&b->nodes, scope, "zeros", "Fill", &fill));
    est_graph_def_add_input(fill, dims);
    est_graph_def_add_input(fill, value);
    est_graph_def_set_type(fill, "T", v->saved.dtype);
    est_graph_def_set_type(fill, "index_type", EST_I64);
    *out = fill->name;
    return b->def->status;
}

static est_status add_collection(builder *b, const exported *v, const char *initial, const char *assign)
{
    est_wire_writer  w   = { 0 };
    est_variable_def def = { .variable_name      = est_arena_printf(b->arena, "%s:0", v->saved.node),
                             .initial_value_name = est_arena_printf(b->arena, "%s:0", initial),
                             .initializer_name   = assign,
                             .snapshot_name      = est_arena_printf(b->arena, "%s:0", v->saved.read),
                             .is_resource        = true,
                             .trainable          = v->trainable };
    est_status       status;

    if (def.variable_name == NULL || def.initial_value_name == NULL || def.snapshot_name == NULL)
        return est_no_memory();
    est_variable_def_put(&w, &def);
    status = est_wire_writer_status(&w);
    if (status == EST_OK) {
        est_str bytes = { (const char *)w.data, w.size };

        status = est_meta_graph_def_add_bytes(b->meta, v->local ? "local_variables" : "variables", bytes);
        if (status == EST_OK && v->trainable) {
            status = est_meta_graph_def_add_bytes(b->meta, "trainable_variables", bytes);
        }
        if (status == EST_OK && strcmp(v->saved.key, "global_step") == 0) {
            status = est_meta_graph_def_add_bytes(b->meta, "global_step", bytes);
        }
    }
    est_wire_writer_clear(&w);
    return status;
}

static est_status add_variable(builder *b, exported *v)
{
    const char         *scope = est_arena_printf(b->arena, "%s/Initializer", v->saved.node), *initial;
    const char         *read  = est_arena_printf(b->arena, "%s/Read", v->saved.node);
    est_graph_def_node *assign, *value;

    if (scope == NULL || read == NULL) return est_no_memory();
    EST_TRY(add_initial_value(b, v, scope, &initial));
    EST_TRY(est_node_builder_node(&b->nodes, v->saved.node, "Assign", "AssignVariableOp", &assign));
    est_graph_def_add_input(assign, v->saved.node);
    est_graph_def_add_input(assign, initial);
    est_graph_def_set_type(assign, "dtype", v->saved.dtype);
    EST_TRY(est_node_builder_node(&b->nodes, read, "ReadVariableOp", "ReadVariableOp", &value));
    est_graph_def_add_input(value, v->saved.node);
    est_graph_def_set_type(value, "dtype", v->saved.dtype);
    EST_TRY(b->def->status);
    v->saved.read = value->name;
    return add_collection(b, v, initial, assign->name);
}

static est_status add_saver(builder *b)
{
    est_saved_node *saved = est_arena_alloc(b->arena, ((size_t)b->n_saved + 1) * sizeof *saved);

    if (saved == NULL) return est_no_memory();
    for (int i = 0; i < b->n_saved; i++) saved[i] = b->variables[i].saved;
    return est_add_saver(&b->nodes, b->meta, saved, b->n_saved, SAVED_MODEL_KEEPS);
}

/* --- signatures --------------------------------------------------------------------------------------------------- */

static est_status tensor_info(builder *b, est_node node, est_tensor_info *out)
{
    *out = (est_tensor_info){ .kind      = EST_TENSOR_INFO_NAME,
                              .name      = est_arena_printf(b->arena, "%s:%d", est_node_name(node), (int)node.output),
                              .dtype     = est_node_dtype(node),
                              .has_shape = true,
                              .shape     = *est_node_shape(node) };
    return out->name != NULL ? EST_OK : est_no_memory();
}

/* `nodes` are the inputs and outputs of each signature in the lowered graph; returns the end of those used. */
static est_status add_signatures(builder *b, const est_export_model *e, const est_node **nodes)
{
    est_tensor_info info;

    for (int k = 0; k < e->n_signatures; k++) {
        const est_export_signature *s = &e->signatures[k];

        EST_TRY(est_meta_graph_def_add_signature(b->meta, s->key, method_names[s->method]));
        for (int i = 0; i < s->feeds->n_inputs; i++) {
            EST_TRY(tensor_info(b, *(*nodes)++, &info));
            EST_TRY(est_meta_graph_def_add_input(b->meta, s->key, est_export_signature_input(s, &s->feeds->inputs[i]),
                                                 &info));
        }
        for (int i = 0; i < s->n_outputs; i++) {
            EST_TRY(tensor_info(b, *(*nodes)++, &info));
            EST_TRY(est_meta_graph_def_add_output(b->meta, s->key, s->outputs[i].name, &info));
        }
    }
    return EST_OK;
}

/* --- order -------------------------------------------------------------------------------------------------------- */

static bool takes_variable(const builder *b, const est_node_def *def)
{
    for (int32_t i = 0; i < def->n_in; i++) {
        if (est_graph_node(b->graph, def->in[i].node)->op->source == EST_SOURCE_VARIABLE) return true;
    }
    return false;
}

static bool waits_for(const est_node_def *def, int32_t from)
{
    for (int32_t i = 0; i < def->n_in; i++) {
        if (def->in[i].node == from) return true;
    }
    for (int32_t i = 0; i < def->n_control; i++) {
        if (def->control[i] == from) return true;
    }
    return false;
}

/* Whether an earlier run has given the node that control edge. */
static bool is_ordered(const est_graph_def_node *node, const char *from)
{
    for (int i = 0; i < node->inputs.n; i++) {
        if (node->inputs.items[i][0] == '^' && strcmp(node->inputs.items[i] + 1, from) == 0) return true;
    }
    return false;
}

/* Adds the control edges that keep operations on a variable in order in a run of all `nodes`. Users of a value that was
 * read need none: TensorFlow copies a variable that is written while such a value is in use. */
static est_status add_order(builder *b, est_node *nodes, int n)
{
    est_order  order;
    est_status status = est_order_make(b->graph, &(est_io){ .targets = nodes, .n_targets = n }, b->arena, &order);

    for (int32_t i = 0; i < order.n_edges && status == EST_OK; i++) {
        const est_node_def *from = est_graph_node(b->graph, order.edge_from[i]);
        const est_node_def *to   = est_graph_node(b->graph, order.edge_to[i]);

        if (waits_for(to, from->id) || !takes_variable(b, from)) continue;
        if (is_ordered(b->def->nodes[to->id], from->name)) continue;
        status = est_node_builder_input(&b->nodes, b->def->nodes[to->id], from->name, -1);
    }
    est_order_clear(&order);
    return status;
}

/* Signatures are run by themselves: what one writes is in no order with what another one does. */
static est_status add_orders(builder *b, const est_export_model *e, est_node *nodes, int n)
{
    if (e->model->mode == EST_TRAIN) return add_order(b, nodes, n); /* a step computes all of them */
    for (int k = 0; k < e->n_signatures; k++) {
        int size = e->signatures[k].feeds->n_inputs + e->signatures[k].n_outputs;

        EST_TRY(add_order(b, nodes, size));
        nodes += size;
    }
    return EST_OK;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

/* The handles of the variables that checkpoints have, used or not: another run may be warm-started from the export. */
static est_status add_handles(const est_export_model *e, est_node *nodes, int *n)
{
    est_var  **vars   = NULL;
    int        n_vars = 0;
    est_status status = est_saved_variables(e->session, &vars, &n_vars);
    est_map    saved  = { 0 };

    for (int i = 0; i < n_vars && status == EST_OK; i++) status = est_map_put(&saved, vars[i]->name, vars[i]);
    for (int32_t id = 0; id < est_graph_size(e->model->graph) && status == EST_OK; id++) {
        const est_node_def *def = est_graph_node(e->model->graph, id);

        if (def->op->source != EST_SOURCE_VARIABLE) continue;
        if (est_map_get(&saved, est_node_string(def, "shared_name")) == NULL) continue;
        nodes[(*n)++] = (est_node){ e->model->graph, id, 0 };
    }
    est_map_clear(&saved);
    est_free(vars);
    return status;
}

/* Lists the nodes that the export keeps: those of signatures, the train and init operations, variables. */
static est_status list_nodes(const est_export_model *e, est_node **out, int *n)
{
    size_t    room = (size_t)est_graph_size(e->model->graph) + 3;
    est_node *nodes;

    for (int k = 0; k < e->n_signatures; k++) {
        room += (size_t)e->signatures[k].n_outputs + (size_t)e->signatures[k].feeds->n_inputs;
    }
    nodes = est_arena_alloc(e->model->arena, room * sizeof *nodes);
    if (nodes == NULL) return est_no_memory();
    *n = 0;
    for (int k = 0; k < e->n_signatures; k++) {
        const est_export_signature *s = &e->signatures[k];

        for (int i = 0; i < s->feeds->n_inputs; i++) nodes[(*n)++] = s->feeds->inputs[i].node;
        for (int i = 0; i < s->n_outputs; i++) nodes[(*n)++] = s->outputs[i].node;
    }
    if (e->model->mode == EST_TRAIN) nodes[(*n)++] = e->model->train_op;
    if (e->init.graph != NULL) nodes[(*n)++] = e->init;
    *out = nodes;
    return add_handles(e, nodes, n);
}

/* `nodes` are those of list_nodes in the lowered graph. */
static est_status build(builder *b, const est_export_model *e, est_node *nodes, const est_saved_model_def *saved,
                        est_def_names *variables)
{
    const est_node *next = nodes;

    b->meta->stripped_default_attrs = true;
    EST_TRY(est_meta_graph_def_add_tag(b->meta, est_export_tag(e->model->mode)));
    EST_TRY(est_graph_export(b->graph, b->def));
    b->nodes = (est_node_builder){ .arena = b->arena, .def = b->def };
    EST_TRY(est_node_builder_init(&b->nodes));
    EST_TRY(list_variables(b));
    for (int i = 0; i < b->n_variables; i++) {
        EST_TRY(add_variable(b, &b->variables[i]));
        if (!b->variables[i].local) EST_TRY(est_def_names_add(b->arena, variables, b->variables[i].saved.key));
    }
    EST_TRY(add_saver(b));
    EST_TRY(est_export_assets(b->graph, saved, b->meta));
    EST_TRY(add_signatures(b, e, &next));
    if (e->model->mode == EST_TRAIN) {
        EST_TRY(est_meta_graph_def_add_node(b->meta, "saved_model_train_op", est_node_name(*next++)));
    }
    EST_TRY(add_orders(b, e, nodes, (int)(next - nodes)));
    if (e->init.graph == NULL) return EST_OK;
    return est_meta_graph_def_add_node(b->meta, "saved_model_main_op", est_node_name(*next));
}

/* Sets the rows of dynamic embeddings to their current number, or back to the capacity. */
static void fit_rows(est_graph *graph, const est_store *store, bool fit)
{
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        est_node_def  *def = est_graph_node(graph, id);
        const est_var *var = def->op->has_rows ? est_store_find(store, est_node_string(def, "shared_name")) : NULL;

        if (var == NULL) continue;
        def->shape[0] = fit ? est_var_stored(var).shape : var->value.shape;
        for (int32_t i = 0; i < def->n_attr; i++) {
            if (def->attr[i].kind == EST_ATTR_SHAPE) def->attr[i].shape = def->shape[0];
        }
    }
}

/* Variables of an export have the shape of their values. */
static est_status lower(const est_export_model *e, est_node *nodes, int n, est_graph **out)
{
    est_store *store;
    est_status status;

    EST_TRY(est_session_store(e->session, &store));
    fit_rows(e->model->graph, store, true);
    status = est_graph_lower(e->model->graph, nodes, n, out);
    fit_rows(e->model->graph, store, false);
    return status;
}

est_status est_export_meta_graph(const est_export_model *e, est_saved_model_def *out, est_def_names *variables)
{
    builder    b = { .arena = out->arena };
    est_node  *nodes;
    est_status status;
    int        n;

    EST_TRY(list_nodes(e, &nodes, &n));
    EST_TRY(est_saved_model_def_add(out, &b.meta));
    b.def = &b.meta->graph;
    EST_TRY(lower(e, nodes, n, &b.graph));
    status = build(&b, e, nodes, out, variables);
    est_map_clear(&b.nodes.names);
    est_graph_free(b.graph);
    return status;
}
