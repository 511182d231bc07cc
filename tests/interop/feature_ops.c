/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of feature columns against TensorFlow's: hash buckets and crosses of many random values, and one graph
 * of all of them that TensorFlow runs as it was exported. feature_ops.py also compares embeddings, and their gradients,
 * with what TensorFlow's own lookup makes of the same rows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "estoc/ops.h"
#include "estoc/session.h"
#include "format/graph_def.h"
#include "graph/graph_export.h"
#include "graph/lower.h"
#include "support/interop.h"

#define BUCKETS INT64_MAX /* almost all of a hash is left */

static est_tensor *strings_of(const interop_blobs *blobs)
{
    est_tensor *tensor = NULL;

    interop_check(est_tensor_create_from(EST_STRING, EST_SHAPE((int64_t)blobs->n), blobs->at, &tensor));
    return tensor;
}

static est_tensor *integers_of(est_str bytes)
{
    est_tensor *tensor = NULL;
    int64_t     n      = (int64_t)(bytes.size / sizeof(int64_t));

    interop_check(est_tensor_create(EST_I64, EST_SHAPE(n), &tensor));
    if (n > 0) memcpy(est_tensor_mutable_data(tensor), bytes.data, bytes.size);
    return tensor;
}

/* A constant of a tensor, which is freed. */
static est_node const_of(est_graph *graph, est_tensor *tensor)
{
    est_node node = est_const(graph, tensor);

    est_tensor_free(tensor);
    return node;
}

/* Runs the nodes and appends what they are as "0", "1", ... */
static void say_values(est_strbuf *out, est_graph *graph, est_nodes nodes)
{
    est_session *session = NULL;
    est_tensor  *values[8];
    char         name[16];

    interop_check(est_graph_status(graph));
    interop_check(est_session_create(graph, NULL, &session));
    interop_check(est_session_run(session, EST_NO_FEEDS, nodes, EST_NO_NODES, values));
    for (int i = 0; i < nodes.n; i++) {
        snprintf(name, sizeof name, "%d", i);
        interop_tensor(out, name, values[i]);
        est_tensor_free(values[i]);
    }
    est_session_free(session);
}

/* --- hashes ------------------------------------------------------------------------------------------------------- */

TEST(hashes)
{
    est_graph    *graph = NULL;
    est_strbuf    out   = { 0 };
    interop_blobs strings, integers;
    est_node      text, numbers;

    interop_ask("write_hashes");
    interop_blobs_read("strings", &strings);
    interop_blobs_read("integers", &integers);
    assert_int_equal(strings.n, 100000);
    assert_int_equal(integers.at[0].size, 100000 * sizeof(int64_t));
    interop_check(est_graph_create(1, &graph));
    text    = const_of(graph, strings_of(&strings));
    numbers = const_of(graph, integers_of(integers.at[0]));
    say_values(&out, graph,
               EST_NODES(est_string_to_hash_bucket(text, BUCKETS), est_string_to_hash_bucket(text, 1000),
                         est_string_to_hash_bucket(est_as_string(numbers), BUCKETS), est_as_string(numbers)));
    interop_save("hashes.said", &out);
    est_graph_free(graph);
    interop_blobs_clear(&strings);
    interop_blobs_clear(&integers);
    interop_ask("check_hashes");
}

/* --- crosses ------------------------------------------------------------------------------------------------------ */

#define COLUMNS_MAX 3

/* A cross is a blob of blobs: the kind of each column, then values and splits of each. */
static void say_cross(est_strbuf *out, est_str cross)
{
    est_graph      *graph = NULL;
    est_ragged_node in[COLUMNS_MAX], ids, keyed;
    interop_blobs   parts, strings;
    int             n;

    interop_blobs_of(cross, &parts);
    n = (int)parts.at[0].size;
    assert_true(n <= COLUMNS_MAX && parts.n == 1 + 2 * (size_t)n);
    interop_check(est_graph_create(1, &graph));
    for (int i = 0; i < n; i++) {
        if (parts.at[0].data[i] == 'i') {
            in[i].values = const_of(graph, integers_of(parts.at[1 + 2 * i]));
        } else {
            interop_blobs_of(parts.at[1 + 2 * i], &strings);
            in[i].values = const_of(graph, strings_of(&strings));
            interop_blobs_clear(&strings);
        }
        in[i].splits = const_of(graph, integers_of(parts.at[2 + 2 * i]));
    }
    ids   = est_ragged_cross((est_ragged_nodes){ in, n }, BUCKETS, 0);
    keyed = est_ragged_cross((est_ragged_nodes){ in, n }, 1000, 42);
    say_values(out, graph, EST_NODES(ids.values, ids.splits, keyed.values));
    est_graph_free(graph);
    interop_blobs_clear(&parts);
}

TEST(crosses)
{
    interop_blobs crosses;
    est_strbuf    out = { 0 }, one = { 0 };

    interop_ask("write_crosses");
    interop_blobs_read("crosses", &crosses);
    for (size_t i = 0; i < crosses.n; i++) {
        say_cross(&one, crosses.at[i]);
        interop_blob(&out, est_strbuf_text(&one), one.size);
        est_strbuf_reset(&one);
    }
    est_strbuf_clear(&one);
    interop_blobs_clear(&crosses);
    interop_save("crosses.said", &out);
    interop_ask("check_crosses");
}

/* --- a graph of all of them --------------------------------------------------------------------------------------- */

#define OUTPUTS_MAX 64
#define BATCH       4

typedef struct model {
    est_graph  *graph;
    est_feed    feeds[8];
    int         n_feeds;
    const char *name[OUTPUTS_MAX]; /* for the other side */
    est_node    node[OUTPUTS_MAX];
    int         n;
} model;

/* A placeholder and what it is fed. */
static est_node input(model *m, const char *name, est_shape known, est_tensor *value)
{
    est_node node = est_placeholder(m->graph, name, est_tensor_dtype(value), known);

    m->feeds[m->n_feeds++] = (est_feed){ node, value };
    return node;
}

static void output(model *m, const char *name, est_node node)
{
    assert_true(m->n < OUTPUTS_MAX);
    m->name[m->n]   = name;
    m->node[m->n++] = node;
}

static est_tensor *words(void)
{
    static const est_str text[BATCH * 2] = { { "red", 3 }, { "", 0 },    { "", 0 },      { "", 0 },
                                             { "a", 1 },   { "\0b", 2 }, { "green", 5 }, { "red", 3 } };
    est_tensor          *tensor          = NULL;

    interop_check(est_tensor_create_from(EST_STRING, EST_SHAPE(BATCH, 2), text, &tensor));
    return tensor;
}

static est_tensor *tensor_of(est_dtype dtype, est_shape shape, const void *data)
{
    est_tensor *tensor = NULL;

    interop_check(est_tensor_create_from(dtype, shape, data, &tensor));
    return tensor;
}

static void build_categories(model *m)
{
    static const float boundaries[] = { -1.5F, 0, 0.1F, 10 };
    est_node           w            = input(m, "words", EST_SHAPE(-1, 2), words());
    est_node           x            = input(m, "x", EST_SHAPE(-1, -1),
                                            tensor_of(EST_F32, EST_SHAPE(BATCH, 2),
                                                      (const float[]){ -1.5F, 1e30F, 0.1F, -0.0F, 9.999F, 10, -INFINITY, NAN }));
    est_node           k            = input(m, "k", EST_SHAPE(-1, 2),
                                            tensor_of(EST_I64, EST_SHAPE(BATCH, 2), (const int64_t[]){ 7, -1, 0, 3, -1, -1, INT64_MIN, 5 }));
    est_ragged_node    text = est_ragged_from_dense(w), numbers = est_ragged_from_dense(k);
    est_ragged_node cross = est_ragged_cross((est_ragged_nodes){ (const est_ragged_node[]){ text, numbers, text }, 3 },
                                             1000, 0);

    output(m, "hash", est_string_to_hash_bucket(w, 1000));
    output(m, "int as string", est_as_string(k));
    output(m, "float as string", est_as_string(x));
    output(m, "bool as string", est_as_string(est_greater(k, est_scalar(m->graph, EST_I64, 0))));
    output(m, "buckets", est_bucketize(x, (est_f32s){ boundaries, 4 }));
    output(m, "buckets of int", est_bucketize(k, (est_f32s){ boundaries, 4 }));
    output(m, "text", text.values);
    output(m, "text splits", text.splits);
    output(m, "numbers", numbers.values);
    output(m, "numbers splits", numbers.splits);
    output(m, "floats", est_ragged_from_dense(x).values);
    output(m, "cross", cross.values);
    output(m, "cross splits", cross.splits);
}

/* Names of classes: constants of strings, picked, repeated, joined and reshaped. */
static void build_names(model *m, est_node ids)
{
    static const est_str classes[] = { { "cat", 3 }, { "dog", 3 }, { "a \"bird\"", 8 } };
    est_node             names     = const_of(m->graph, tensor_of(EST_STRING, EST_SHAPE(3), classes));
    est_node             class_ids = est_floor_mod(ids, est_scalar(m->graph, EST_I64, 3));
    est_node             picked    = est_gather(names, class_ids, 0);
    est_node             row       = est_expand_dims(names, 0);

    output(m, "picked", est_identity(picked));
    output(m, "tiled", est_tile(row, EST_I64S(4, 1)));
    output(m, "broadcast", est_broadcast_to(row, est_const_list(m->graph, EST_I64S(2, 3))));
    output(m, "joined", est_concat(EST_NODES(picked, names), 0));
    output(m, "reshaped", est_reshape(est_concat(EST_NODES(names, names), 0), EST_I64S(3, -1)));
}

static void build_rows(model *m, est_ragged_node ids, est_node weights)
{
    est_ragged_node kept = est_ragged_keep(ids, est_greater(ids.values, est_scalar(m->graph, EST_I64, 2)));

    output(m, "dense", est_ragged_to_dense(ids, -1));
    output(m, "dense weights", est_ragged_to_dense((est_ragged_node){ weights, ids.splits }, 0.5));
    output(m, "lengths", est_ragged_lengths(ids));
    output(m, "kept", kept.values);
    output(m, "kept splits", kept.splits);
    output(m, "counts", est_multi_hot(ids, EST_NO_NODE, 6));
    output(m, "sums", est_multi_hot(ids, weights, 6));
    output(m, "checked", est_check_range(ids.values, -5, 7, "ids go up to 7"));
}

static void build_bags(model *m, est_node table, est_ragged_node ids, est_node weights)
{
    static char               names[12][2][32];
    static const char *const  combiners[] = { "mean", "sum", "sqrtn" };
    static const est_combiner how[]       = { EST_COMBINE_MEAN, EST_COMBINE_SUM, EST_COMBINE_SQRTN };

    for (int i = 0; i < 12; i++) {
        double       norm = i / 3 % 2 == 0 ? 0 : 0.75;
        est_node     w    = i < 6 ? EST_NO_NODE : weights;
        est_node     y    = est_embedding_bag(table, ids, w, how[i % 3], norm);
        est_gradient g;

        est_gradients(est_sum(est_square(y)), (est_nodes){ &table, 1 }, &g);
        snprintf(names[i][0], sizeof names[i][0], "bag %s %g %d", combiners[i % 3], norm, i >= 6);
        snprintf(names[i][1], sizeof names[i][1], "grad %s %g %d", combiners[i % 3], norm, i >= 6);
        output(m, names[i][0], y);
        output(m, names[i][1], est_unsorted_segment_sum(g.values, g.indices, est_scalar(m->graph, EST_I32, 8)));
    }
}

/* The graph in TensorFlow's ops, as a file; the nodes become those of the lowered graph, which is freed by the
 * caller. */
static est_graph *save_graph(model *m, const char *name)
{
    est_arena      *arena   = est_arena_create();
    est_graph      *lowered = NULL;
    est_graph_def   def;
    est_wire_writer w = { 0 };

    assert_non_null(arena);
    interop_check(est_graph_lower(m->graph, m->node, m->n, &lowered));
    est_graph_def_init(&def, arena);
    interop_check(est_graph_export(lowered, &def));
    interop_check(est_graph_def_put(&w, &def));
    interop_check(est_file_replace(interop_path(name), w.data, w.size));
    est_wire_writer_clear(&w);
    est_arena_free(arena);
    return lowered;
}

TEST(graph)
{
    static const int64_t ids_[]   = { 3, -1, 3, 7, 0, 5, 1, 1, -2, 6, 2 };
    static const int64_t splits[] = { 0, 3, 3, 4, 5, 5, 9, 11 };
    static const float   weight[] = { 1, 2, 0.5F, 0, -1, 3, 0.25F, 2, 1, -0.5F, 1 };
    model                m        = { 0 };
    est_session         *session  = NULL;
    est_graph           *lowered;
    est_tensor          *values[OUTPUTS_MAX], *rows = NULL;
    est_strbuf           out = { 0 };
    est_node             table, weights;
    est_ragged_node      ids;
    float                numbers[8 * 3];

    for (int i = 0; i < 24; i++) numbers[i] = (float)((i * 37) % 19 - 9) / 8;
    interop_check(est_graph_create(1, &m.graph));
    build_categories(&m);
    table      = est_variable(m.graph, "table", EST_F32, EST_SHAPE(8, 3));
    ids.values = input(&m, "ids", EST_SHAPE(-1), tensor_of(EST_I64, EST_SHAPE(11), ids_));
    ids.splits = input(&m, "splits", EST_SHAPE(-1), tensor_of(EST_I64, EST_SHAPE(8), splits));
    weights    = input(&m, "weights", EST_SHAPE(-1), tensor_of(EST_F32, EST_SHAPE(11), weight));
    build_names(&m, ids.values);
    build_rows(&m, ids, weights);
    build_bags(&m, table, ids, weights);
    interop_check(est_graph_status(m.graph));

    interop_check(est_session_create(m.graph, NULL, &session));
    rows = tensor_of(EST_F32, EST_SHAPE(8, 3), numbers);
    interop_check(est_session_write(session, "table", rows));
    interop_check(
        est_session_run(session, (est_feeds){ m.feeds, m.n_feeds }, (est_nodes){ m.node, m.n }, EST_NO_NODES, values));
    est_session_free(session);
    interop_tensor(&out, "table", rows);
    for (int i = 0; i < m.n_feeds; i++) interop_tensor(&out, est_node_name(m.feeds[i].node), m.feeds[i].value);
    interop_save("graph.feeds", &out);
    lowered = save_graph(&m, "graph.pb");
    for (int i = 0; i < m.n; i++) {
        char name[256];

        snprintf(name, sizeof name, "%s|%s:%d", m.name[i], est_node_name(m.node[i]), (int)m.node[i].output);
        interop_tensor(&out, name, values[i]);
        est_tensor_free(values[i]);
    }
    interop_save("graph.values", &out);
    for (int i = 0; i < m.n_feeds; i++) est_tensor_free((est_tensor *)(uintptr_t)m.feeds[i].value);
    est_tensor_free(rows);
    est_graph_free(lowered);
    est_graph_free(m.graph);
    interop_ask("check_graph");
}

int main(void)
{
    return INTEROP_MAIN("feature_ops");
}
