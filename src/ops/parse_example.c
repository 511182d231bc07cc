/* SPDX-License-Identifier: Apache-2.0
 *
 * ParseExampleV2: features of a batch of serialized tf.train.Examples.
 *
 *   dense[d]  = [n, dense_shapes[d]...], what an example lacks from its default; with a first dimension of -1
 *               [n, longest, rest...], shorter rows filled up with the default
 *   ragged[r] = the values of all examples, and where the row of each starts
 *   sparse[s] = the same as (row, column) pairs, values and the shape of the whole
 *
 * Which features are wanted and what their defaults are comes in as tensors, so the parser is made when the op runs,
 * and kept for runs with the same ones.
 * How many values there are is known only then, too: measure() parses, run() hands out. Strings point into what was
 * parsed, which stays until the next run. */
#include <inttypes.h>
#include <string.h>

#include "base/argument.h"
#include "base/fingerprint.h"
#include "estoc/example.h"
#include "format/feature_group.h"
#include "ops/array.h"

enum { SERIALIZED = 0, NAMES, SPARSE_KEYS, DENSE_KEYS, RAGGED_KEYS, DENSE_DEFAULTS };

/* How many features of each kind a node has. */
typedef struct counts {
    int sparse, dense, ragged;
} counts;

static counts count_features(const est_node_def *node)
{
    return (counts){ .sparse = (int)est_node_int(node, "num_sparse"),
                     .dense  = est_node_ints(node, "Tdense").n,
                     .ragged = est_node_ints(node, "ragged_value_types").n };
}

/* --- shapes ------------------------------------------------------------------------------------------------------- */

static est_status check_keys(const est_infer *c, int input, int n, const char *what)
{
    int64_t keys = est_infer_dim(&c->in[input], 0);

    EST_TRY(est_infer_rank(c, input, 1));
    if (keys < 0 || keys == n) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%" PRId64 " %s keys for %d %s features", keys, what, n, what);
}

static est_status check_counts(const est_node_def *node, counts n)
{
    if (n.sparse < 0 || est_node_ints(node, "sparse_types").n != n.sparse) {
        return est_fail(EST_INVALID_ARGUMENT, "num_sparse is %d, and there are %d sparse_types", n.sparse,
                        est_node_ints(node, "sparse_types").n);
    }
    if (est_node_shapes(node, "dense_shapes").n != n.dense) {
        return est_fail(EST_INVALID_ARGUMENT, "%d dense_shapes for %d dense features",
                        est_node_shapes(node, "dense_shapes").n, n.dense);
    }
    if (est_node_ints(node, "ragged_split_types").n != n.ragged) {
        return est_fail(EST_INVALID_ARGUMENT, "%d ragged_split_types for %d ragged features",
                        est_node_ints(node, "ragged_split_types").n, n.ragged);
    }
    return EST_OK;
}

static bool is_padded(const est_shape *shape)
{
    return shape->rank > 0 && shape->dim[0] < 0;
}

/* A default is as the feature is, has no elements (the feature is required), or is the one value to fill up with. */
static est_status check_default(const est_shape *given, const est_shape *want)
{
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];
    int64_t   count = est_shape_count(given);
    est_shape merged;

    if (count < 0) return EST_OK;
    if (is_padded(want) ? count == 1 : count == 0 || est_infer_merge(given, want, &merged) == EST_OK) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "a default of shape %s for a feature of shape %s", est_shape_text(given, a),
                    est_shape_text(want, b));
}

static est_status infer_dense(est_infer *c, int i, const est_shape *shape, est_shape *out)
{
    int64_t batch = est_infer_dim(&c->in[SERIALIZED], 0);
    bool    known = shape->rank >= 0 && shape->rank < EST_RANK_MAX;
    char    text[EST_SHAPE_TEXT_MAX];

    for (int d = 1; d < shape->rank; d++) known = known && shape->dim[d] >= 0;
    if (!known) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "dense feature %d has shape %s; all dimensions but the first must be known, and be at most %d",
                        i, est_shape_text(shape, text), EST_RANK_MAX - 1);
    }
    EST_TRY(check_default(&c->in[DENSE_DEFAULTS + i], shape));
    *out        = *shape;
    out->rank   = shape->rank + 1;
    out->dim[0] = batch;
    for (int d = 0; d < shape->rank; d++) out->dim[d + 1] = shape->dim[d];
    return EST_OK;
}

static est_status parse_infer(est_infer *c)
{
    counts     n      = count_features(c->node);
    est_shapes shapes = est_node_shapes(c->node, "dense_shapes");
    int64_t    batch  = est_infer_dim(&c->in[SERIALIZED], 0);
    est_shape *out    = c->out;

    EST_TRY(check_counts(c->node, n));
    EST_TRY(est_infer_rank(c, SERIALIZED, 1));
    EST_TRY(est_infer_rank(c, NAMES, 1));
    EST_TRY(check_keys(c, SPARSE_KEYS, n.sparse, "sparse"));
    EST_TRY(check_keys(c, DENSE_KEYS, n.dense, "dense"));
    EST_TRY(check_keys(c, RAGGED_KEYS, n.ragged, "ragged"));
    for (int i = 0; i < n.sparse; i++) *out++ = EST_SHAPE(-1, 2);
    for (int i = 0; i < n.sparse; i++) *out++ = EST_SHAPE(-1);
    for (int i = 0; i < n.sparse; i++) *out++ = EST_SHAPE(2);
    for (int i = 0; i < n.dense; i++) EST_TRY(infer_dense(c, i, &shapes.data[i], out++));
    for (int i = 0; i < n.ragged; i++) *out++ = EST_SHAPE(-1);
    for (int i = 0; i < n.ragged; i++) *out++ = EST_SHAPE(batch < 0 ? -1 : batch + 1);
    return EST_OK;
}

/* --- kernel ------------------------------------------------------------------------------------------------------- */

typedef struct parse_state {
    counts                    n;
    est_example_parser       *parser; /* NULL: none yet */
    const est_feature_output *rows;   /* [sparse + dense + ragged]: the last batch, which the parser keeps */
    uint64_t                  print;  /* of the keys and defaults that it was made for */
    bool                      fresh;  /* measure() has parsed for the run() that follows */
} parse_state;

static int n_features(counts n)
{
    return n.sparse + n.dense + n.ragged;
}

static void parse_release(est_call *c)
{
    parse_state *state = c->state;

    if (state == NULL) return;
    est_example_parser_free(state->parser);
    est_free(state);
    c->state = NULL;
}

static est_status make_state(est_call *c)
{
    parse_state *state = est_zalloc(sizeof *state);

    if (state == NULL) return est_no_memory();
    state->n = count_features(c->node);
    c->state = state;
    return EST_OK;
}

static est_status copy_key(est_arena *arena, est_str key, const char **out)
{
    char *name = est_arena_alloc(arena, key.size + 1);

    if (name == NULL) return est_no_memory();
    if (key.size > 0) memcpy(name, key.data, key.size);
    if (strlen(name) != key.size) return est_fail(EST_INVALID_ARGUMENT, "the key \"%s\" goes on after a 0 byte", name);
    *out = name;
    return EST_OK;
}

/* A dense feature; its default becomes a tensor of its own. */
static est_status dense_spec(const est_call *c, int i, est_feature_spec *spec, est_tensor **made)
{
    const est_view  *value = c->in[DENSE_DEFAULTS + i];
    const est_shape *shape = &est_node_shapes(c->node, "dense_shapes").data[i];
    est_shape        own   = value->shape;

    EST_TRY(check_default(&value->shape, shape));
    spec->shape = *shape;
    if (is_padded(shape)) {
        spec->rows       = EST_ROWS_PADDED;
        spec->shape.rank = shape->rank - 1;
        for (int d = 0; d < spec->shape.rank; d++) spec->shape.dim[d] = shape->dim[d + 1];
        own = EST_SHAPE_SCALAR;
    }
    if (value->count == 0) return EST_OK; /* required */
    EST_TRY(est_tensor_create_from(value->dtype, own, value->data, made));
    spec->default_value = *made;
    return EST_OK;
}

static est_status make_specs(const est_call *c, counts n, est_arena *arena, est_feature_spec *specs, est_tensor **made)
{
    const struct {
        int            input, n;
        const int64_t *types;
    } kinds[3] = { { SPARSE_KEYS, n.sparse, est_node_ints(c->node, "sparse_types").data },
                   { DENSE_KEYS, n.dense, est_node_ints(c->node, "Tdense").data },
                   { RAGGED_KEYS, n.ragged, est_node_ints(c->node, "ragged_value_types").data } };
    int at     = 0;

    for (int k = 0; k < 3; k++) {
        const est_view *keys = c->in[kinds[k].input];

        if (keys->count != kinds[k].n) {
            return est_fail(EST_INVALID_ARGUMENT, "%" PRId64 " keys for %d features", keys->count, kinds[k].n);
        }
        for (int i = 0; i < kinds[k].n; i++, at++) {
            specs[at] = (est_feature_spec){ .dtype = (est_dtype)kinds[k].types[i], .rows = EST_ROWS_RAGGED };
            EST_TRY(copy_key(arena, ((const est_str *)keys->data)[i], &specs[at].name));
            if (kinds[k].input != DENSE_KEYS) continue;
            specs[at].rows = EST_ROWS_FIXED;
            EST_TRY(dense_spec(c, i, &specs[at], &made[i]));
        }
    }
    return EST_OK;
}

static est_status make_parser(const est_call *c, parse_state *state, est_arena *arena)
{
    size_t            n     = (size_t)n_features(state->n);
    est_feature_spec *specs = est_arena_alloc(arena, (n + 1) * sizeof *specs);
    est_tensor      **made  = est_arena_alloc(arena, (n + 1) * sizeof(est_tensor *));
    est_status        status;

    if (specs == NULL || made == NULL) return est_no_memory();
    status = make_specs(c, state->n, arena, specs, made);
    if (status == EST_OK) status = est_example_parser_create((est_feature_specs){ specs, (int)n }, &state->parser);
    for (int i = 0; i < state->n.dense; i++) est_tensor_free(made[i]);
    return status;
}

static uint64_t mix(uint64_t print, const void *bytes, size_t size)
{
    return print * 0x9e3779b97f4a7c15u + est_fingerprint64(bytes, size);
}

/* Of all inputs but the Examples. */
static uint64_t fingerprint(const est_call *c)
{
    uint64_t print = 0;

    for (int i = NAMES; i < c->n_in; i++) {
        const est_view *view = c->in[i];
        const est_str  *text = view->data;

        print = mix(print, &view->shape,
                    offsetof(est_shape, dim) + sizeof view->shape.dim[0] * (size_t)view->shape.rank);
        for (int64_t k = 0; k < view->count && view->dtype == EST_STRING; k++) {
            print = mix(print, text[k].data, text[k].size);
        }
        if (view->dtype != EST_STRING)
            print = mix(print, view->data, (size_t)view->count * est_dtype_size(view->dtype));
    }
    return print;
}

/* The parser for the features of this run. */
static est_status find_parser(const est_call *c, parse_state *state)
{
    uint64_t   print = fingerprint(c);
    est_arena *arena;
    est_status status;

    if (state->parser != NULL && state->print == print) return EST_OK;
    est_example_parser_free(state->parser);
    state->parser = NULL;
    state->print  = print;
    arena         = est_arena_create();
    if (arena == NULL) return est_no_memory();
    status = make_parser(c, state, arena);
    est_arena_free(arena);
    return status;
}

static est_status parse(est_call *c)
{
    parse_state *state;

    if (c->state == NULL) EST_TRY(make_state(c));
    state        = c->state;
    state->fresh = false;
    if (n_features(state->n) == 0) return EST_OK;
    EST_TRY(find_parser(c, state));
    return est_example_parse_kept(state->parser, c->in[SERIALIZED]->data, (size_t)c->in[SERIALIZED]->count,
                                  &state->rows);
}

static void set_shape(est_view *view, est_shape shape)
{
    view->shape = shape;
    view->count = est_shape_count(&shape);
}

static est_status parse_measure(est_call *c)
{
    est_view                 *out = c->out;
    size_t                    n   = (size_t)c->in[SERIALIZED]->count;
    const est_feature_output *rows;
    parse_state              *state;

    EST_TRY(parse(c));
    state = c->state;
    rows  = state->rows;
    for (int i = 0; i < state->n.sparse; i++) set_shape(out++, EST_SHAPE((int64_t)rows[i].n_values, 2));
    for (int i = 0; i < state->n.sparse; i++) set_shape(out++, EST_SHAPE((int64_t)rows[i].n_values));
    out += state->n.sparse;
    for (int i = 0; i < state->n.dense + state->n.ragged; i++) {
        set_shape(out++, est_feature_output_shape(&rows[state->n.sparse + i], n));
    }
    for (int i = 0; i < state->n.ragged; i++) set_shape(out++, EST_SHAPE((int64_t)n + 1));
    state->fresh = true;
    return EST_OK;
}

static void put_splits(est_view *out, const int64_t *splits)
{
    if (out->dtype == EST_I64) {
        memcpy(out->data, splits, (size_t)out->count * sizeof *splits);
    } else {
        for (int64_t i = 0; i < out->count; i++) ((int32_t *)out->data)[i] = (int32_t)splits[i];
    }
}

/* Rows as pairs of row and column, and [rows, longest]. */
static void put_sparse(est_view *indices, est_view *shape, const int64_t *splits, int64_t n)
{
    int64_t *to = indices->data, *sizes = shape->data;

    sizes[0] = n;
    sizes[1] = 0;
    for (int64_t r = 0; r < n; r++) {
        int64_t length = splits[r + 1] - splits[r];

        for (int64_t k = 0; k < length; k++) {
            *to++ = r;
            *to++ = k;
        }
        if (length > sizes[1]) sizes[1] = length;
    }
}

static est_status parse_cpu(est_call *c)
{
    size_t                    rows = (size_t)c->in[SERIALIZED]->count;
    const est_feature_output *from;
    parse_state              *state = c->state;
    counts                    n;
    est_view                 *out = c->out;

    if (state == NULL || !state->fresh) EST_TRY(parse(c));
    state        = c->state;
    state->fresh = false;
    n            = state->n;
    from         = state->rows;
    for (int i = 0; i < n.sparse; i++, from++, out++) {
        put_sparse(out, out + 2 * n.sparse, est_feature_output_splits(from), (int64_t)rows);
        est_feature_output_copy(from, rows, out[n.sparse].data);
    }
    out += 2 * n.sparse;
    for (int i = 0; i < n.dense; i++, from++, out++) est_feature_output_copy(from, rows, out->data);
    for (int i = 0; i < n.ragged; i++, from++, out++) {
        est_feature_output_copy(from, rows, out->data);
        put_splits(out + n.ragged, est_feature_output_splits(from));
    }
    return EST_OK;
}

const est_op est_op_parse_example = {
    .name      = "ParseExampleV2",
    .signature = "serialized: string, names: string, sparse_keys: string, dense_keys: string, ragged_keys: string, "
                 "dense_defaults: Tdense -> sparse_indices: num_sparse*int64, sparse_values: sparse_types, "
                 "sparse_shapes: num_sparse*int64, dense_values: Tdense, ragged_values: ragged_value_types, "
                 "ragged_row_splits: ragged_split_types; Tdense: types{float32, int64, string}; num_sparse: int; "
                 "sparse_types: types{float32, int64, string}; ragged_value_types: types{float32, int64, string}; "
                 "ragged_split_types: types{int32, int64}; dense_shapes: shapes",
    .infer     = parse_infer,
    .cpu       = EST_KERNELS({ .run = parse_cpu, .measure = parse_measure, .release = parse_release }),
};

/* --- builder ------------------------------------------------------------------------------------------------------ */

/* What a node of the op is made of. */
typedef struct request {
    est_graph *graph;
    est_arena *arena;
    est_node  *defaults; /* [n_dense] */
    est_shape *shapes;   /* [n_dense] */
    int64_t   *dense_types, *ragged_types, *split_types;
    est_str   *dense_keys, *ragged_keys;
    int        n_dense, n_ragged;
} request;

static est_status request_init(request *r, est_node examples, int n)
{
    size_t room = (size_t)n + 1;

    *r              = (request){ .graph = examples.graph, .arena = r->arena };
    r->defaults     = est_arena_alloc(r->arena, room * sizeof *r->defaults);
    r->shapes       = est_arena_alloc(r->arena, room * sizeof *r->shapes);
    r->dense_types  = est_arena_alloc(r->arena, room * sizeof *r->dense_types);
    r->ragged_types = est_arena_alloc(r->arena, room * sizeof *r->ragged_types);
    r->split_types  = est_arena_alloc(r->arena, room * sizeof *r->split_types);
    r->dense_keys   = est_arena_alloc(r->arena, room * sizeof *r->dense_keys);
    r->ragged_keys  = est_arena_alloc(r->arena, room * sizeof *r->ragged_keys);
    if (r->defaults == NULL || r->shapes == NULL || r->dense_types == NULL || r->ragged_types == NULL ||
        r->split_types == NULL || r->dense_keys == NULL || r->ragged_keys == NULL) {
        return est_no_memory();
    }
    return EST_OK;
}

static est_node keys_const(const request *r, const est_str *keys, int n)
{
    est_tensor *tensor = NULL;
    est_status  status = est_tensor_create_from(EST_STRING, EST_SHAPE(n), keys, &tensor);
    est_node    node;

    if (status != EST_OK) return est_graph_poison(r->graph, status);
    node = est_const(r->graph, tensor);
    est_tensor_free(tensor);
    return node;
}

/* A default as the op wants it: a scalar is repeated for every element of a fixed feature; none is no elements for a
 * fixed feature, and 0 or "" for a padded one. */
static est_status make_default(const est_feature_spec *spec, est_tensor **out)
{
    const est_tensor *given = spec->default_value;
    size_t            size  = est_dtype_size(spec->dtype);
    est_tensor       *value = NULL;
    est_shape         shape = EST_SHAPE_SCALAR;

    if (spec->rows == EST_ROWS_FIXED) shape = given != NULL ? spec->shape : EST_SHAPE(0);
    EST_TRY(est_tensor_create(spec->dtype, shape, &value));
    if (given == NULL && est_tensor_count(value) > 0 && spec->dtype != EST_STRING)
        memset(est_tensor_mutable_data(value), 0, size);
    for (int64_t i = 0; given != NULL && i < est_tensor_count(value); i++) {
        const char *from = (const char *)est_tensor_data(given) + (est_tensor_count(given) > 1 ? (size_t)i * size : 0);
        est_status  status = EST_OK;

        if (spec->dtype == EST_STRING) {
            est_str text;

            memcpy(&text, from, sizeof text);
            status = est_tensor_set_string(value, i, text.data, text.size);
        } else {
            memcpy((char *)est_tensor_mutable_data(value) + (size_t)i * size, from, size);
        }
        if (status != EST_OK) {
            est_tensor_free(value);
            return status;
        }
    }
    *out = value;
    return EST_OK;
}

static est_status add_dense(request *r, const est_feature_spec *spec)
{
    est_shape  *shape = &r->shapes[r->n_dense];
    est_tensor *value = NULL;

    *shape = spec->shape;
    if (spec->rows == EST_ROWS_PADDED) {
        shape->rank   = spec->shape.rank + 1;
        shape->dim[0] = -1;
        for (int d = 0; d < spec->shape.rank && d + 1 < EST_RANK_MAX; d++) shape->dim[d + 1] = spec->shape.dim[d];
    }
    EST_TRY(make_default(spec, &value));
    r->dense_types[r->n_dense] = spec->dtype;
    r->dense_keys[r->n_dense]  = (est_str){ spec->name, strlen(spec->name) };
    r->defaults[r->n_dense]    = est_const(r->graph, value);
    r->n_dense++;
    est_tensor_free(value);
    return EST_OK;
}

static void add_ragged(request *r, const est_feature_spec *spec)
{
    r->ragged_types[r->n_ragged] = spec->dtype;
    r->split_types[r->n_ragged]  = EST_I64;
    r->ragged_keys[r->n_ragged]  = (est_str){ spec->name, strlen(spec->name) };
    r->n_ragged++;
}

static est_node build_request(const request *r, est_node examples)
{
    int       n  = DENSE_DEFAULTS + r->n_dense;
    est_node *in = est_arena_alloc(r->arena, (size_t)n * sizeof *in);

    if (in == NULL) {
        return est_graph_poison(r->graph, est_no_memory());
    }
    in[SERIALIZED]  = examples;
    in[NAMES]       = keys_const(r, NULL, 0);
    in[SPARSE_KEYS] = keys_const(r, NULL, 0);
    in[DENSE_KEYS]  = keys_const(r, r->dense_keys, r->n_dense);
    in[RAGGED_KEYS] = keys_const(r, r->ragged_keys, r->n_ragged);
    for (int i = 0; i < r->n_dense; i++) in[DENSE_DEFAULTS + i] = r->defaults[i];
    return est_build(r->graph, &est_op_parse_example, (est_nodes){ in, n },
                     EST_ATTRS(est_attr_types("Tdense", (est_i64s){ r->dense_types, r->n_dense }),
                               est_attr_int("num_sparse", 0), est_attr_types("sparse_types", (est_i64s){ 0 }),
                               est_attr_types("ragged_value_types", (est_i64s){ r->ragged_types, r->n_ragged }),
                               est_attr_types("ragged_split_types", (est_i64s){ r->split_types, r->n_ragged }),
                               est_attr_shapes("dense_shapes", (est_shapes){ r->shapes, r->n_dense })));
}

/* How many steps each row of a padded feature has: TensorFlow's op does not tell, so they are parsed once more, as rows
 * of unequal length. Nothing of it is left in an export when nobody asks for lengths. */
static est_status add_lengths(request *r, est_node examples, const est_feature_spec *specs, int n, est_parsed *out)
{
    est_node parsed;
    int      at = 0;

    EST_TRY(request_init(r, examples, n));
    for (int i = 0; i < n; i++) {
        if (specs[i].rows == EST_ROWS_PADDED) add_ragged(r, &specs[i]);
    }
    if (r->n_ragged == 0) return EST_OK;
    parsed = build_request(r, examples);
    for (int i = 0; i < n; i++) {
        int64_t  values = est_shape_count(&specs[i].shape);
        est_node splits, lengths;

        if (specs[i].rows != EST_ROWS_PADDED) continue;
        splits  = est_output(parsed, r->n_ragged + at++);
        lengths = est_ragged_lengths((est_ragged_node){ .splits = splits });
        if (values > 1) lengths = est_floor_div(lengths, est_scalar(r->graph, EST_I64, (double)values));
        out[i].lengths = lengths;
    }
    return EST_OK;
}

static est_status add_features(request *r, est_node examples, const est_feature_spec *specs, int n, est_parsed *out)
{
    est_example_parser *parser = NULL;
    est_node            parsed;
    int                 dense = 0, ragged = 0;

    EST_TRY(est_example_parser_create((est_feature_specs){ specs, n }, &parser)); /* which checks them */
    est_example_parser_free(parser);
    EST_TRY(request_init(r, examples, n));
    for (int i = 0; i < n; i++) {
        if (specs[i].rows == EST_ROWS_RAGGED) {
            add_ragged(r, &specs[i]);
        } else {
            EST_TRY(add_dense(r, &specs[i]));
        }
    }
    parsed = build_request(r, examples);
    for (int i = 0; i < n; i++) {
        out[i] = (est_parsed){ 0 };
        if (specs[i].rows == EST_ROWS_RAGGED) {
            out[i].values = est_output(parsed, r->n_dense + ragged);
            out[i].splits = est_output(parsed, r->n_dense + r->n_ragged + ragged++);
        } else {
            out[i].values = est_output(parsed, dense++);
        }
    }
    return add_lengths(r, examples, specs, n, out);
}

void est_parse_examples(est_node examples, est_feature_specs specs, est_parsed *out)
{
    int        n = specs.n;
    request    r = { 0 };
    est_status status;

    if (!EST_LIST_OK(specs) || (n > 0 && out == NULL)) {
        (void)est_graph_poison(examples.graph,
                               est_fail(EST_INVALID_ARGUMENT, "est_parse_examples: %d features, specs %s, out %s", n,
                                        specs.data != NULL ? "given" : "NULL", out != NULL ? "given" : "NULL"));
        return;
    }
    r.arena = est_arena_create();
    for (int i = 0; i < n; i++) out[i] = (est_parsed){ 0 };
    if (examples.graph == NULL) {
        est_arena_free(r.arena);
        return;
    }
    status = r.arena != NULL ? add_features(&r, examples, specs.data, n, out) : est_no_memory();
    if (status == EST_OK) status = est_graph_status(examples.graph);
    if (status != EST_OK) {
        est_node poison = est_graph_poison(examples.graph, status);

        for (int i = 0; i < n; i++) out[i] = (est_parsed){ poison, poison, poison };
    }
    est_arena_free(r.arena);
}
