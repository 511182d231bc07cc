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
#include "format/variable_def.h"
#include "graph/graph_export.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "train/saver.h"

static const char *const method_names[] = { "tensorflow/serving/classify", "tensorflow/serving/regress",
                                            "tensorflow/serving/predict", "tensorflow/supervised/training",
                                            "tensorflow/supervised/eval" };

/* A variable of the exported graph; texts are in the arena. */
typedef struct exported {
    const char *key;  /* name in the checkpoint */
    const char *node; /* its handle */
    const char *read; /* the operation that reads it, for saving */
    est_dtype   dtype;
    est_shape   shape;
    bool        trainable;
    bool        local; /* the state of a metric, not in checkpoints */
} exported;

typedef struct builder {
    est_arena          *arena;
    est_graph          *graph; /* lowered */
    est_graph_def      *def;
    est_meta_graph_def *meta;
    est_map             names;     /* of all nodes of def */
    exported           *variables; /* [n_variables]: those that are saved first */
    int                 n_variables, n_saved;
    const char         *save; /* scope of the save and restore nodes */
} builder;

/* --- names -------------------------------------------------------------------------------------------------------- */

static est_status take_names(builder *b)
{
    for (int i = 0; i < b->def->n_nodes; i++) EST_TRY(est_map_put(&b->names, b->def->nodes[i]->name, b));
    return EST_OK;
}

/* "scope/name", with a numeric suffix if the model already has a node of that name. */
static est_status free_name(builder *b, const char *scope, const char *name, const char **out)
{
    const char *text = est_arena_printf(b->arena, "%s/%s", scope, name);

    for (int i = 1; text != NULL && est_map_get(&b->names, text) != NULL; i++) {
        text = est_arena_printf(b->arena, "%s/%s_%d", scope, name, i);
    }
    if (text == NULL) return est_no_memory();
    EST_TRY(est_map_put(&b->names, text, b));
    *out = text;
    return EST_OK;
}

/* A new node scope/name. */
static est_status add_node(builder *b, const char *scope, const char *name, const char *op, est_graph_def_node **node)
{
    const char *full;

    EST_TRY(free_name(b, scope, name, &full));
    *node = est_graph_def_add_node(b->def, full, op);
    return b->def->status;
}

/* An input of a node: output k of `from`, or a control edge when k is -1. */
static est_status add_input(builder *b, est_graph_def_node *node, const char *from, int k)
{
    const char *text = k < 0   ? est_arena_printf(b->arena, "^%s", from)
                       : k > 0 ? est_arena_printf(b->arena, "%s:%d", from, k)
                               : from;

    if (text == NULL) return est_no_memory();
    est_graph_def_add_input(node, text);
    return b->def->status;
}

static est_status add_const(builder *b, const char *scope, const char *name, est_dtype dtype, est_shape shape,
                            const void *values, const char **out)
{
    est_graph_def_node *node;
    est_tensor         *tensor = NULL;

    EST_TRY(add_node(b, scope, name, "Const", &node));
    EST_TRY(est_tensor_create_from(dtype, shape, values, &tensor));
    est_graph_def_set_type(node, "dtype", dtype);
    est_graph_def_set_tensor(node, "value", tensor);
    est_tensor_free(tensor);
    *out = node->name;
    return b->def->status;
}

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

    *v = (exported){ .key       = est_arena_strdup(b->arena, est_node_string(def, "shared_name")),
                     .node      = est_arena_strdup(b->arena, def->name),
                     .dtype     = est_node_type(def, "dtype"),
                     .shape     = est_node_attr(def, "shape")->shape,
                     .trainable = is_in(trainable, def->id),
                     .local     = local };
    return v->key != NULL && v->node != NULL ? EST_OK : est_no_memory();
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

    EST_TRY(add_const(b, scope, "shape_as_tensor", EST_I64, EST_SHAPE(v->shape.rank), v->shape.dim, &dims));
    EST_TRY(add_const(b, scope, "Const", v->dtype, EST_SHAPE_SCALAR, &zero, &value));
    EST_TRY(add_node(b, scope, "zeros", "Fill", &fill));
    est_graph_def_add_input(fill, dims);
    est_graph_def_add_input(fill, value);
    est_graph_def_set_type(fill, "T", v->dtype);
    est_graph_def_set_type(fill, "index_type", EST_I64);
    *out = fill->name;
    return b->def->status;
}

static est_status add_collection(builder *b, const exported *v, const char *initial, const char *assign)
{
    est_wire_writer  w   = { 0 };
    est_variable_def def = { .variable_name      = est_arena_printf(b->arena, "%s:0", v->node),
                             .initial_value_name = est_arena_printf(b->arena, "%s:0", initial),
                             .initializer_name   = assign,
                             .snapshot_name      = est_arena_printf(b->arena, "%s:0", v->read),
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
        if (status == EST_OK && strcmp(v->key, "global_step") == 0) {
            status = est_meta_graph_def_add_bytes(b->meta, "global_step", bytes);
        }
    }
    est_wire_writer_clear(&w);
    return status;
}

static est_status add_variable(builder *b, exported *v)
{
    const char         *scope = est_arena_printf(b->arena, "%s/Initializer", v->node), *initial;
    const char         *read  = est_arena_printf(b->arena, "%s/Read", v->node);
    est_graph_def_node *assign, *value;

    if (scope == NULL || read == NULL) return est_no_memory();
    EST_TRY(add_initial_value(b, v, scope, &initial));
    EST_TRY(add_node(b, v->node, "Assign", "AssignVariableOp", &assign));
    est_graph_def_add_input(assign, v->node);
    est_graph_def_add_input(assign, initial);
    est_graph_def_set_type(assign, "dtype", v->dtype);
    EST_TRY(add_node(b, read, "ReadVariableOp", "ReadVariableOp", &value));
    est_graph_def_add_input(value, v->node);
    est_graph_def_set_type(value, "dtype", v->dtype);
    EST_TRY(b->def->status);
    v->read = value->name;
    return add_collection(b, v, initial, assign->name);
}

/* --- saving and restoring ----------------------------------------------------------------------------------------- */

static bool scope_taken(const builder *b, const char *scope)
{
    size_t size = strlen(scope);

    for (int i = 0; i < b->def->n_nodes; i++) {
        const char *name = b->def->nodes[i]->name;

        if (strncmp(name, scope, size) == 0 && (name[size] == '/' || name[size] == '\0')) return true;
    }
    return false;
}

static est_status choose_scope(builder *b)
{
    b->save = "save";
    for (int i = 1; b->save != NULL && scope_taken(b, b->save); i++) b->save = est_arena_printf(b->arena, "save_%d", i);
    return b->save != NULL ? EST_OK : est_no_memory();
}

/* PlaceholderWithDefault: a scalar string that can be fed; the default is `input`. */
static est_status add_filename(builder *b, const char *name, const char *input, const char **out)
{
    est_graph_def_node *node;
    est_shape           scalar = EST_SHAPE_SCALAR;

    EST_TRY(add_node(b, b->save, name, "PlaceholderWithDefault", &node));
    est_graph_def_add_input(node, input);
    est_graph_def_set_type(node, "dtype", EST_STRING);
    est_graph_def_set_shape(node, "shape", &scalar);
    *out = node->name;
    return b->def->status;
}

/* SaveV2 or RestoreV2 with the names of all variables. */
static est_status add_bundle_op(builder *b, const char *op, const char *filename, est_graph_def_node **out)
{
    size_t              room  = (size_t)b->n_saved + 1;
    est_str            *keys  = est_arena_alloc(b->arena, room * sizeof *keys);
    est_str            *whole = est_arena_alloc(b->arena, room * sizeof *whole); /* zeroed: "" */
    est_dtype          *types = est_arena_alloc(b->arena, room * sizeof *types);
    const char         *scope = est_arena_printf(b->arena, "%s/%s", b->save, op), *names, *slices;
    est_graph_def_node *node;

    if (keys == NULL || whole == NULL || types == NULL || scope == NULL) return est_no_memory();
    for (int i = 0; i < b->n_saved; i++) {
        keys[i]  = (est_str){ b->variables[i].key, strlen(b->variables[i].key) };
        types[i] = b->variables[i].dtype;
    }
    EST_TRY(add_const(b, scope, "tensor_names", EST_STRING, EST_SHAPE(b->n_saved), keys, &names));
    EST_TRY(add_const(b, scope, "shape_and_slices", EST_STRING, EST_SHAPE(b->n_saved), whole, &slices));
    EST_TRY(add_node(b, b->save, op, op, &node));
    est_graph_def_add_input(node, filename);
    est_graph_def_add_input(node, names);
    est_graph_def_add_input(node, slices);
    est_graph_def_set_type_list(node, "dtypes", types, b->n_saved);
    *out = node;
    return b->def->status;
}

static est_status add_restore(builder *b, const char *filename, const char **out)
{
    est_graph_def_node *restore, *all;

    EST_TRY(add_bundle_op(b, "RestoreV2", filename, &restore));
    EST_TRY(add_node(b, b->save, "restore_all", "NoOp", &all));
    for (int i = 0; i < b->n_saved; i++) {
        const char         *identity = est_arena_printf(b->arena, "Identity_%d", i + 1);
        const char         *name     = est_arena_printf(b->arena, "AssignVariableOp_%d", i);
        est_graph_def_node *value, *assign;

        if (identity == NULL || name == NULL) return est_no_memory();
        EST_TRY(add_node(b, b->save, identity, "Identity", &value));
        EST_TRY(add_input(b, value, restore->name, i));
        est_graph_def_set_type(value, "T", b->variables[i].dtype);
        EST_TRY(add_node(b, b->save, name, "AssignVariableOp", &assign));
        est_graph_def_add_input(assign, b->variables[i].node);
        est_graph_def_add_input(assign, value->name);
        est_graph_def_set_type(assign, "dtype", b->variables[i].dtype);
        EST_TRY(add_input(b, all, assign->name, -1));
    }
    *out = all->name;
    return b->def->status;
}

static est_status add_save(builder *b, const char *filename, const char **out)
{
    est_graph_def_node *save, *done;

    EST_TRY(add_bundle_op(b, "SaveV2", filename, &save));
    for (int i = 0; i < b->n_saved; i++) est_graph_def_add_input(save, b->variables[i].read);
    EST_TRY(add_node(b, b->save, "control_dependency", "Identity", &done));
    est_graph_def_add_input(done, filename);
    EST_TRY(add_input(b, done, save->name, -1));
    est_graph_def_set_type(done, "T", EST_STRING);
    *out = done->name;
    return b->def->status;
}

static est_status add_saver(builder *b)
{
    const char   *model, *given, *filename, *saved, *restored;
    est_saver_def saver = { .max_to_keep = 5, .keep_checkpoint_every_n_hours = 10000, .version = 2 };
    const est_str text  = { "model", 5 };

    if (b->n_saved == 0) return EST_OK; /* no variables, so there is nothing to save or restore */
    EST_TRY(choose_scope(b));
    EST_TRY(add_const(b, b->save, "filename/input", EST_STRING, EST_SHAPE_SCALAR, &text, &model));
    EST_TRY(add_filename(b, "filename", model, &given));
    EST_TRY(add_filename(b, "Const", given, &filename));
    EST_TRY(add_save(b, filename, &saved));
    EST_TRY(add_restore(b, filename, &restored));
    saver.filename_tensor_name = est_arena_printf(b->arena, "%s:0", filename);
    saver.save_tensor_name     = est_arena_printf(b->arena, "%s:0", saved);
    saver.restore_op_name      = restored;
    if (saver.filename_tensor_name == NULL || saver.save_tensor_name == NULL) return est_no_memory();
    return est_meta_graph_def_set_saver(b->meta, &saver);
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
        status = add_input(b, b->def->nodes[to->id], from->name, -1);
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
    EST_TRY(take_names(b));
    EST_TRY(list_variables(b));
    for (int i = 0; i < b->n_variables; i++) {
        EST_TRY(add_variable(b, &b->variables[i]));
        if (!b->variables[i].local) EST_TRY(est_def_names_add(b->arena, variables, b->variables[i].key));
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
    est_map_clear(&b.names);
    est_graph_free(b.graph);
    return status;
}
