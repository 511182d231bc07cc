/* SPDX-License-Identifier: Apache-2.0
 *
 * Which features a graph parses from serialized Examples: the keys, types, shapes and defaults of its ParseExampleV2
 * nodes, read back as specs. */
#include "predict/example_features.h"

#include <string.h>

#include "graph/graph.h"
#include "graph/op.h"
#include "ops/ops.h"

enum { KEYS = 2, DENSE_DEFAULTS = 5 }; /* inputs: sparse, dense and ragged keys; defaults */

static int n_attribute(const est_node_def *def, const char *name)
{
    return est_node_ints(def, name).n;
}

/* The constant that is reshaped to the node, perhaps several times, or not at all; NULL: there is none. */
static const est_node_def *constant_behind(const est_graph *graph, const est_node_def *node)
{
    while (node->op == &est_op_reshape) node = est_graph_node(graph, node->in[0].node);
    return node->op->source == EST_SOURCE_CONST ? node : NULL;
}

/* The feature of a dense key: fixed, or padded where its first dimension is any. */
static void dense_feature(const est_graph *graph, const est_node_def *parse, int i, est_feature_spec *out)
{
    const est_shape    *shape = &est_node_shapes(parse, "dense_shapes").data[i];
    const est_node_def *value = constant_behind(graph, est_graph_node(graph, parse->in[DENSE_DEFAULTS + i].node));

    out->rows  = shape->rank > 0 && shape->dim[0] < 0 ? EST_ROWS_PADDED : EST_ROWS_FIXED;
    out->shape = (est_shape){ 0 };
    for (int d = out->rows == EST_ROWS_PADDED; d < shape->rank; d++) out->shape.dim[out->shape.rank++] = shape->dim[d];
    if (out->rows == EST_ROWS_FIXED && value != NULL) {
        const est_tensor *tensor = est_node_attr(value, "value")->tensor;

        if (est_tensor_count(tensor) > 0) out->default_value = tensor;
    }
}

/* The place of a feature: a new one at the end. A padded feature is parsed twice, as ragged rows for its lengths. */
static int place_of(const est_feature_spec *specs, int n, const char *name)
{
    int at = 0;

    while (at < n && strcmp(specs[at].name, name) != 0) at++;
    return at;
}

/* The features of one ParseExampleV2, whose keys are constants: sparse, dense and ragged ones. */
static est_status parsed_features(const est_graph *graph, const est_node_def *parse, est_arena *arena,
                                  est_feature_spec *specs, int *n)
{
    static const char *const types[3] = { "sparse_types", "Tdense", "ragged_value_types" };

    for (int kind = 0; kind < 3; kind++) {
        const est_node_def *keys  = est_graph_node(graph, parse->in[KEYS + kind].node);
        est_i64s            dtype = est_node_ints(parse, types[kind]);
        const est_str      *key;

        if (keys->op->source != EST_SOURCE_CONST) continue;
        key = est_tensor_data(est_node_attr(keys, "value")->tensor);
        for (int i = 0; i < dtype.n && i < est_tensor_count(est_node_attr(keys, "value")->tensor); i++) {
            est_feature_spec spec = { .dtype = (est_dtype)dtype.data[i], .rows = EST_ROWS_RAGGED };
            int              at;

            spec.name = est_arena_printf(arena, "%.*s", (int)key[i].size, key[i].data);
            if (spec.name == NULL) return est_no_memory();
            if (kind == 1) dense_feature(graph, parse, i, &spec);
            at = place_of(specs, *n, spec.name);
            if (at == *n || kind == 1) specs[at] = spec;
            if (at == *n) ++*n;
        }
    }
    return EST_OK;
}

static bool parses(const est_node_def *def, est_node examples)
{
    return def->op == &est_op_parse_example && def->in[0].node == examples.id;
}

est_status est_example_features(const est_graph *graph, est_node examples, est_arena *arena, est_feature_specs *out)
{
    est_feature_spec *specs;
    int               n = 0, room = 0;

    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *def = est_graph_node(graph, id);

        if (!parses(def, examples)) continue;
        room += n_attribute(def, "sparse_types") + n_attribute(def, "Tdense") + n_attribute(def, "ragged_value_types");
    }
    specs = est_arena_alloc(arena, (size_t)(room + 1) * sizeof *specs);
    if (specs == NULL) return est_no_memory();
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *def = est_graph_node(graph, id);

        if (parses(def, examples)) EST_TRY(parsed_features(graph, def, arena, specs, &n));
    }
    *out = (est_feature_specs){ specs, n };
    return EST_OK;
}
