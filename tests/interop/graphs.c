/* SPDX-License-Identifier: Apache-2.0
 *
 * GraphDef, MetaGraphDef, SavedModel and their parts exchanged with TensorFlow: what it wrote, and random ones, we read
 * and write again without a loss, as bytes and as text; graphs and models of ours it imports and runs. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "format/graph_text.h"
#include "format/saved_model_def.h"
#include "format/tensor_proto.h"
#include "format/variable_def.h"
#include "support/interop.h"

/* --- theirs ------------------------------------------------------------------------------------------------------- */

/* Names and sizes of the functions of a graph. */
static void say_functions(const est_graph_def *graph, est_arena *arena, est_strbuf *out)
{
    est_function_cursor cursor;
    est_function_view   function;
    bool                found = true;

    est_function_cursor_init(&cursor, graph->library);
    for (;;) {
        est_graph_def nodes;

        interop_check(est_function_cursor_next(&cursor, &found, &function));
        if (!found) break;
        interop_check(est_function_parse_nodes(&function, arena, &nodes));
        assert_int_equal(nodes.n_nodes, function.n_nodes);
        est_strbuf_printf(out, "%.*s %d\n", (int)function.name.size, function.name.data, function.n_nodes);
    }
}

/* Reads a message of the kind, writes it again; its text, and what else there is to say about it. */
static void exchange(const char *kind, est_str message, est_wire_writer *w, est_strbuf *text, est_strbuf *more)
{
    est_arena *arena;

    arena = est_arena_create();
    assert_non_null(arena);
    if (strcmp(kind, "graph") == 0) {
        est_graph_def graph;

        interop_check(est_graph_def_parse_bytes(message, arena, &graph));
        interop_check(est_graph_def_put(w, &graph));
        interop_check(est_graph_def_text(message, text));
        say_functions(&graph, arena, more);
    } else if (strcmp(kind, "meta") == 0) {
        est_meta_graph_def meta;

        interop_check(est_meta_graph_def_parse_bytes(message, arena, &meta));
        interop_check(est_meta_graph_def_put(w, &meta));
        interop_check(est_meta_graph_def_text(message, text));
    } else if (strcmp(kind, "model") == 0) {
        est_saved_model_def model;

        interop_check(est_saved_model_def_parse(message, arena, &model));
        interop_check(est_saved_model_def_put(w, &model));
        interop_check(est_saved_model_text(message, text));
    } else if (strcmp(kind, "variable") == 0) {
        est_variable_def variable;

        interop_check(est_variable_def_parse(message, arena, &variable));
        est_variable_def_put(w, &variable);
    } else {
        est_tensor *tensor;

        interop_check(est_tensor_proto_parse(message, &tensor));
        est_tensor_proto_put(w, tensor);
        interop_tensor(more, "tensor", tensor);
        est_tensor_free(tensor);
    }
    est_arena_free(arena);
}

static void exchange_all(const char *from, const char *to)
{
    interop_blobs messages;
    est_strbuf    answer = { 0 };

    interop_blobs_read(from, &messages);
    for (size_t i = 0; i + 1 < messages.n; i += 2) {
        est_wire_writer w    = { 0 };
        est_strbuf      text = { 0 }, more = { 0 };
        char            kind[16];

        snprintf(kind, sizeof kind, "%.*s", (int)messages.at[i].size, messages.at[i].data);
        exchange(kind, messages.at[i + 1], &w, &text, &more);
        interop_check(est_wire_writer_status(&w));
        interop_blob(&answer, w.data, w.size);
        interop_blob(&answer, est_strbuf_text(&text), text.size);
        interop_blob(&answer, est_strbuf_text(&more), more.size);
        est_wire_writer_clear(&w);
        est_strbuf_clear(&text);
        est_strbuf_clear(&more);
    }
    interop_blobs_clear(&messages);
    interop_save(to, &answer);
}

TEST(theirs)
{
    interop_ask("write_theirs");
    exchange_all("theirs", "theirs.said");
    interop_ask("check_theirs");
}

TEST(random)
{
    interop_ask("write_random");
    exchange_all("random", "random.said");
    interop_ask("check_random");
}

/* --- ours --------------------------------------------------------------------------------------------------------- */

static void set_tensor(est_graph_def_node *node, est_shape shape, const float *values)
{
    est_tensor *tensor;

    interop_check(est_tensor_f32(shape, values, &tensor));
    est_graph_def_set_type(node, "dtype", EST_F32);
    est_graph_def_set_tensor(node, "value", tensor);
    est_tensor_free(tensor);
}

static est_graph_def_node *add(est_graph_def *graph, const char *name, const char *op, const char *a, const char *b)
{
    est_graph_def_node *node = est_graph_def_add_node(graph, name, op);

    if (a != NULL) est_graph_def_add_input(node, a);
    if (b != NULL) est_graph_def_add_input(node, b);
    if (a != NULL) est_graph_def_set_type(node, "T", EST_F32);
    return node;
}

/* y = softmax(max(x * w + b, 0)), x of any number of rows of 2; graphs.py knows the numbers. */
static void build(est_graph_def *graph)
{
    est_shape           x = EST_SHAPE(-1, 2);
    est_graph_def_node *node;

    node = add(graph, "x", "Placeholder", NULL, NULL);
    est_graph_def_set_type(node, "dtype", EST_F32);
    est_graph_def_set_shape(node, "shape", &x);
    set_tensor(add(graph, "w", "Const", NULL, NULL), EST_SHAPE(2, 3), (const float[]){ 1, 2, 3, 4, 5, 6 });
    set_tensor(add(graph, "b", "Const", NULL, NULL), EST_SHAPE(3), (const float[]){ 0.5F, -20, 0 });
    node = add(graph, "xw", "MatMul", "x", "w:0");
    est_graph_def_set_b(node, "transpose_a", false);
    est_graph_def_set_b(node, "transpose_b", false);
    est_graph_def_set_s(add(graph, "add", "BiasAdd", "xw", "b"), "data_format", "NHWC");
    add(graph, "relu", "Relu", "add", NULL);
    add(graph, "y", "Softmax", "relu", NULL);
    est_graph_def_add_input(est_graph_def_add_node(graph, "done", "NoOp"), "^w");
}

static void build_model(est_saved_model_def *model)
{
    est_tensor_info     x = { .kind = EST_TENSOR_INFO_NAME, .name = "x:0", .dtype = EST_F32, .has_shape = true };
    est_tensor_info     y = { .kind = EST_TENSOR_INFO_NAME, .name = "y:0", .dtype = EST_F32, .has_shape = true };
    est_meta_graph_def *meta;

    x.shape = EST_SHAPE(-1, 2);
    y.shape = EST_SHAPE(-1, 3);
    interop_check(est_saved_model_def_add(model, &meta));
    build(&meta->graph);
    interop_check(est_meta_graph_def_add_tag(meta, "serve"));
    interop_check(est_meta_graph_def_add_signature(meta, "serving_default", "tensorflow/serving/predict"));
    interop_check(est_meta_graph_def_add_input(meta, "serving_default", "x", &x));
    interop_check(est_meta_graph_def_add_output(meta, "serving_default", "probabilities", &y));
    interop_check(est_meta_graph_def_add_node(meta, "saved_model_main_op", "done"));
}

TEST(ours)
{
    est_arena          *arena;
    est_graph_def       graph;
    est_saved_model_def model;
    est_wire_writer     w    = { 0 };
    est_strbuf          text = { 0 };

    arena = est_arena_create();
    assert_non_null(arena);
    est_graph_def_init(&graph, arena);
    build(&graph);
    interop_check(est_graph_def_put(&w, &graph));
    interop_check(est_file_replace(interop_path("graph.pb"), w.data, w.size));
    interop_check(est_graph_def_text((est_str){ (const char *)w.data, w.size }, &text));
    interop_check(est_file_replace(interop_path("graph.pbtxt"), est_strbuf_text(&text), text.size));
    est_strbuf_reset(&text);

    est_wire_writer_reset(&w);
    est_saved_model_def_init(&model, arena);
    build_model(&model);
    interop_check(est_saved_model_def_put(&w, &model));
    interop_check(est_saved_model_text((est_str){ (const char *)w.data, w.size }, &text));
    interop_check(est_dir_create(interop_path("model")));
    interop_check(est_dir_create(interop_path("model_text")));
    interop_check(est_file_replace(interop_path("model/saved_model.pb"), w.data, w.size));
    interop_check(est_file_replace(interop_path("model_text/saved_model.pbtxt"), est_strbuf_text(&text), text.size));
    est_strbuf_clear(&text);
    est_wire_writer_clear(&w);
    est_arena_free(arena);
    interop_ask("check_ours");
}

int main(void)
{
    return INTEROP_MAIN("graphs");
}
