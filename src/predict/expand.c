/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/expand.h"

#include <string.h>

#include "tensor/tensor.h"

/* The node that is replaced. */
typedef struct site {
    est_graph_def      *def;
    est_graph_def_node *node;
    est_def_names       inputs; /* as they were */
    est_status          status; /* of what was added */
} site;

/* A new node "<name>>part" with up to three inputs (NULL: no more); its name. */
static const char *add(site *s, const char *part, const char *op, const char *a, const char *b, const char *c)
{
    const char         *name = est_arena_printf(s->def->arena, "%s>%s", s->node->name, part);
    const char         *in[] = { a, b, c };
    est_graph_def_node *node;

    if (name == NULL && s->status == EST_OK) s->status = est_no_memory();
    if (s->status != EST_OK) return "";
    node = est_graph_def_add_node(s->def, name, op);
    for (int i = 0; i < 3 && in[i] != NULL; i++) est_graph_def_add_input(node, in[i]);
    s->status = s->def->status;
    return name;
}

static est_graph_def_node *last(const site *s)
{
    return s->def->nodes[s->def->n_nodes - 1];
}

static const char *add_const(site *s, const char *part, est_dtype dtype, est_shape shape, const void *values)
{
    const char *name  = add(s, part, "Const", NULL, NULL, NULL);
    est_tensor *value = NULL;

    if (s->status == EST_OK) s->status = est_tensor_create_from(dtype, shape, values, &value);
    if (s->status == EST_OK) {
        est_graph_def_set_type(last(s), "dtype", dtype);
        est_graph_def_set_tensor(last(s), "value", value);
        s->status = s->def->status;
    }
    est_tensor_free(value);
    return name;
}

/* Makes the node itself an op of the inputs a and b, behind its control inputs. */
static est_status finish(site *s, const char *op, const char *a, const char *b)
{
    EST_TRY(s->status);
    s->node->op     = op;
    s->node->attrs  = (est_def_attrs){ 0 };
    s->node->inputs = (est_def_names){ 0 };
    est_graph_def_add_input(s->node, a);
    est_graph_def_add_input(s->node, b);
    for (int i = 0; i < s->inputs.n; i++) {
        if (s->inputs.items[i][0] == '^') est_graph_def_add_input(s->node, s->inputs.items[i]);
    }
    return s->def->status;
}

/* x as one row of floats, searched for in the boundaries, then in its own shape again. */
static est_status expand_bucketize(site *s)
{
    const est_def_value *list;
    const char          *x = s->inputs.items[0], *row, *found;
    float               *boundaries;

    EST_TRY(est_graph_def_get(s->node, "boundaries", EST_DEF_LIST, &list));
    boundaries = est_arena_alloc(s->def->arena, ((size_t)list->n + 1) * sizeof *boundaries);
    if (boundaries == NULL) return est_no_memory();
    for (int i = 0; i < list->n; i++) {
        if (list->items[i].kind != EST_DEF_F) return est_fail(EST_INVALID_ARGUMENT, "boundaries are no floats");
        boundaries[i] = list->items[i].f;
    }
    row = add(s, "float", "Cast", x, NULL, NULL);
    if (s->status == EST_OK) est_graph_def_set_type(last(s), "DstT", EST_F32);
    row   = add(s, "row", "Reshape", row, add_const(s, "row_shape", EST_I32, EST_SHAPE(2), (const int32_t[]){ 1, -1 }),
                NULL);
    found = add(s, "found", "UpperBound", add_const(s, "boundaries", EST_F32, EST_SHAPE(1, list->n), boundaries), row,
                NULL);
    if (s->status == EST_OK) est_graph_def_set_type(last(s), "out_type", EST_I32);
    return finish(s, "Reshape", found, add(s, "shape", "Shape", x, NULL, NULL));
}

/* y = (x - mean) / sqrt(variance + epsilon) * scale + offset, over all axes but the second. */
static est_status expand_batch_norm(site *s)
{
    const est_def_value *epsilon = est_def_attrs_find(&s->node->attrs, "epsilon");
    float                small   = epsilon != NULL && epsilon->kind == EST_DEF_F ? epsilon->f : 1e-4F;
    const char          *x       = s->inputs.items[0], *axes, *mean, *away, *variance, *wide, *scale, *offset;

    axes = add_const(s, "axes", EST_I32, EST_SHAPE(3), (const int32_t[]){ 0, 2, 3 });
    mean = add(s, "mean", "Mean", x, axes, NULL);
    if (s->status == EST_OK) est_graph_def_set_b(last(s), "keep_dims", true);
    away     = add(s, "away", "Sub", x, mean, NULL);
    variance = add(s, "variance", "Mean", add(s, "square", "Square", away, NULL, NULL), axes, NULL);
    if (s->status == EST_OK) est_graph_def_set_b(last(s), "keep_dims", true);
    variance = add(s, "shifted", "AddV2", variance, add_const(s, "epsilon", EST_F32, EST_SHAPE_SCALAR, &small), NULL);
    away     = add(s, "scaled", "Mul", away, add(s, "rsqrt", "Rsqrt", variance, NULL, NULL), NULL);
    wide     = add_const(s, "wide", EST_I32, EST_SHAPE(4), (const int32_t[]){ 1, -1, 1, 1 });
    scale    = add(s, "scale", "Reshape", s->inputs.items[1], wide, NULL);
    offset   = add(s, "offset", "Reshape", s->inputs.items[2], wide, NULL);
    return finish(s, "AddV2", add(s, "product", "Mul", away, scale, NULL), offset);
}

static bool is_channels_first_training(const est_graph_def_node *node)
{
    const est_def_value *format   = est_def_attrs_find(&node->attrs, "data_format");
    const est_def_value *training = est_def_attrs_find(&node->attrs, "is_training");

    return strcmp(node->op, "FusedBatchNormV3") == 0 && node->inputs.n >= 5 && format != NULL &&
           format->kind == EST_DEF_S && format->s.size == 4 && memcmp(format->s.data, "NCHW", 4) == 0 &&
           (training == NULL || (training->kind == EST_DEF_B && training->b));
}

est_status est_expand_node(est_graph_def *def, est_graph_def_node *node)
{
    site s = { .def = def, .node = node, .inputs = node->inputs };

    if (strcmp(node->op, "Bucketize") == 0 && node->inputs.n > 0) return expand_bucketize(&s);
    if (is_channels_first_training(node)) return expand_batch_norm(&s);
    return EST_OK;
}
