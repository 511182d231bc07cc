/* SPDX-License-Identifier: Apache-2.0 */
#include "estimator/save_nodes.h"

#include <string.h>

/* --- names -------------------------------------------------------------------------------------------------------- */

est_status est_node_builder_init(est_node_builder *b)
{
    for (int i = 0; i < b->def->n_nodes; i++) EST_TRY(est_map_put(&b->names, b->def->nodes[i]->name, b));
    return EST_OK;
}

/* "scope/name", with a numeric suffix if the model already has a node of that name. */
static est_status free_name(est_node_builder *b, const char *scope, const char *name, const char **out)
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

est_status est_node_builder_node(est_node_builder *b, const char *scope, const char *name, const char *op,
                                 est_graph_def_node **node)
{
    const char *full;

    EST_TRY(free_name(b, scope, name, &full));
    *node = est_graph_def_add_node(b->def, full, op);
    return b->def->status;
}

est_status est_node_builder_input(est_node_builder *b, est_graph_def_node *node, const char *from, int k)
{
    const char *text = k < 0   ? est_arena_printf(b->arena, "^%s", from)
                       : k > 0 ? est_arena_printf(b->arena, "%s:%d", from, k)
                               : from;

    if (text == NULL) return est_no_memory();
    est_graph_def_add_input(node, text);
    return b->def->status;
}

est_status est_node_builder_const(est_node_builder *b, const char *scope, const char *name, est_dtype dtype,
                                  est_shape shape, const void *values, const char **out)
{
    est_graph_def_node *node;
    est_tensor         *tensor = NULL;

    EST_TRY(est_node_builder_node(b, scope, name, "Const", &node));
    EST_TRY(est_tensor_create_from(dtype, shape, values, &tensor));
    est_graph_def_set_type(node, "dtype", dtype);
    est_graph_def_set_tensor(node, "value", tensor);
    est_tensor_free(tensor);
    *out = node->name;
    return b->def->status;
}

/* --- saving and restoring ----------------------------------------------------------------------------------------- */

typedef struct saving {
    est_node_builder     *b;
    const est_saved_node *variables;
    int                   n;
    const char           *scope;
} saving;

static bool scope_taken(const saving *s, const char *scope)
{
    size_t size = strlen(scope);

    for (int i = 0; i < s->b->def->n_nodes; i++) {
        const char *name = s->b->def->nodes[i]->name;

        if (strncmp(name, scope, size) == 0 && (name[size] == '/' || name[size] == '\0')) return true;
    }
    return false;
}

static est_status choose_scope(saving *s)
{
    s->scope = "save";
    for (int i = 1; s->scope != NULL && scope_taken(s, s->scope); i++)
        s->scope = est_arena_printf(s->b->arena, "save_%d", i);
    return s->scope != NULL ? EST_OK : est_no_memory();
}

/* PlaceholderWithDefault: a scalar string that can be fed; the default is `input`. */
static est_status add_filename(saving *s, const char *name, const char *input, const char **out)
{
    est_graph_def_node *node;
    est_shape           scalar = EST_SHAPE_SCALAR;

    EST_TRY(est_node_builder_node(s->b, s->scope, name, "PlaceholderWithDefault", &node));
    est_graph_def_add_input(node, input);
    est_graph_def_set_type(node, "dtype", EST_STRING);
    est_graph_def_set_shape(node, "shape", &scalar);
    *out = node->name;
    return s->b->def->status;
}

/* SaveV2 or RestoreV2 with the names of all variables. */
static est_status add_bundle_op(saving *s, const char *op, const char *filename, est_graph_def_node **out)
{
    size_t              room  = (size_t)s->n + 1;
    est_str            *keys  = est_arena_alloc(s->b->arena, room * sizeof *keys);
    est_str            *whole = est_arena_alloc(s->b->arena, room * sizeof *whole); /* zeroed: "" */
    est_dtype          *types = est_arena_alloc(s->b->arena, room * sizeof *types);
    const char         *scope = est_arena_printf(s->b->arena, "%s/%s", s->scope, op), *names, *slices;
    est_graph_def_node *node;

    if (keys == NULL || whole == NULL || types == NULL || scope == NULL) return est_no_memory();
    for (int i = 0; i < s->n; i++) {
        keys[i]  = (est_str){ s->variables[i].key, strlen(s->variables[i].key) };
        types[i] = s->variables[i].dtype;
    }
    EST_TRY(est_node_builder_const(s->b, scope, "tensor_names", EST_STRING, EST_SHAPE(s->n), keys, &names));
    EST_TRY(est_node_builder_const(s->b, scope, "shape_and_slices", EST_STRING, EST_SHAPE(s->n), whole, &slices));
    EST_TRY(est_node_builder_node(s->b, s->scope, op, op, &node));
    est_graph_def_add_input(node, filename);
    est_graph_def_add_input(node, names);
    est_graph_def_add_input(node, slices);
    est_graph_def_set_type_list(node, "dtypes", types, s->n);
    *out = node;
    return s->b->def->status;
}

static est_status add_restore(saving *s, const char *filename, const char **out)
{
    est_graph_def_node *restore, *all;

    EST_TRY(add_bundle_op(s, "RestoreV2", filename, &restore));
    EST_TRY(est_node_builder_node(s->b, s->scope, "restore_all", "NoOp", &all));
    for (int i = 0; i < s->n; i++) {
        const char         *identity = est_arena_printf(s->b->arena, "Identity_%d", i + 1);
        const char         *name     = est_arena_printf(s->b->arena, "AssignVariableOp_%d", i);
        est_graph_def_node *value, *assign;

        if (identity == NULL || name == NULL) return est_no_memory();
        EST_TRY(est_node_builder_node(s->b, s->scope, identity, "Identity", &value));
        EST_TRY(est_node_builder_input(s->b, value, restore->name, i));
        est_graph_def_set_type(value, "T", s->variables[i].dtype);
        EST_TRY(est_node_builder_node(s->b, s->scope, name, "AssignVariableOp", &assign));
        est_graph_def_add_input(assign, s->variables[i].node);
        est_graph_def_add_input(assign, value->name);
        est_graph_def_set_type(assign, "dtype", s->variables[i].dtype);
        EST_TRY(est_node_builder_input(s->b, all, assign->name, -1));
    }
    *out = all->name;
    return s->b->def->status;
}

static est_status add_save(saving *s, const char *filename, const char **out)
{
    est_graph_def_node *save, *done;

    EST_TRY(add_bundle_op(s, "SaveV2", filename, &save));
    for (int i = 0; i < s->n; i++) est_graph_def_add_input(save, s->variables[i].read);
    EST_TRY(est_node_builder_node(s->b, s->scope, "control_dependency", "Identity", &done));
    est_graph_def_add_input(done, filename);
    EST_TRY(est_node_builder_input(s->b, done, save->name, -1));
    est_graph_def_set_type(done, "T", EST_STRING);
    *out = done->name;
    return s->b->def->status;
}

est_status est_add_saver(est_node_builder *b, est_meta_graph_def *meta, const est_saved_node *variables, int n,
                         int32_t keep_max)
{
    saving        s = { .b = b, .variables = variables, .n = n };
    const char   *model, *given, *filename, *saved, *restored;
    est_saver_def saver = { .max_to_keep = keep_max, .keep_checkpoint_every_n_hours = 10000, .version = 2 };
    const est_str text  = { "model", 5 };

    if (n == 0) return EST_OK; /* no variables, so there is nothing to save or restore */
    EST_TRY(choose_scope(&s));
    EST_TRY(est_node_builder_const(b, s.scope, "filename/input", EST_STRING, EST_SHAPE_SCALAR, &text, &model));
    EST_TRY(add_filename(&s, "filename", model, &given));
    EST_TRY(add_filename(&s, "Const", given, &filename));
    EST_TRY(add_save(&s, filename, &saved));
    EST_TRY(add_restore(&s, filename, &restored));
    saver.filename_tensor_name = est_arena_printf(b->arena, "%s:0", filename);
    saver.save_tensor_name     = est_arena_printf(b->arena, "%s:0", saved);
    saver.restore_op_name      = restored;
    if (saver.filename_tensor_name == NULL || saver.save_tensor_name == NULL) return est_no_memory();
    return est_meta_graph_def_set_saver(meta, &saver);
}
