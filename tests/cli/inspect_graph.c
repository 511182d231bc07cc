/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc inspect` of GraphDefs, MetaGraphDefs and SavedModels that are made here. */
#include "cli/tool.h"

#include "format/bundle.h"
#include "format/saved_model_def.h"

static est_arena *arena;

/* x * w + w, with w a constant. */
static void build_graph(est_graph_def *graph)
{
    const float         numbers[] = { 1, 2 };
    const est_shape     shape     = EST_SHAPE(-1, 2);
    est_graph_def_node *node;
    est_tensor         *tensor;

    node = est_graph_def_add_node(graph, "x", "Placeholder");
    est_graph_def_set_type(node, "dtype", EST_F32);
    est_graph_def_set_shape(node, "shape", &shape);
    node = est_graph_def_add_node(graph, "w", "Const");
    tool_check(est_tensor_f32(EST_SHAPE(2), numbers, &tensor));
    est_graph_def_set_tensor(node, "value", tensor);
    est_tensor_free(tensor);
    est_graph_def_set_s(node, "_hint", "not shown");
    node = est_graph_def_add_node(graph, "product", "Mul");
    est_graph_def_add_input(node, "x");
    est_graph_def_add_input(node, "w");
    est_graph_def_set_f(node, "alpha", 0.5f);
    est_graph_def_set_i_list(node, "axes", (const int64_t[]){ 1, 2 }, 2);
    node = est_graph_def_add_node(graph, "again", "Mul");
    est_graph_def_add_input(node, "product:0");
    est_graph_def_add_input(node, "^w");
    est_graph_def_set_device(node, "/cpu:0");
    est_graph_def_set_s(node, "mode", "a\nb");
}

static const char *write_message(const char *name, const est_wire_writer *w)
{
    tool_check(est_wire_writer_status(w));
    return tool_write_file(name, w->data, w->size);
}

static const char *write_graph(const char *name)
{
    est_wire_writer w = { 0 };
    est_graph_def   graph;
    const char     *path;

    est_graph_def_init(&graph, arena);
    build_graph(&graph);
    tool_check(est_graph_def_put(&w, &graph));
    path = write_message(name, &w);
    est_wire_writer_clear(&w);
    return path;
}

#define NODES                                                                                                          \
    "name     op           inputs        attributes\n"                                                                 \
    "x        Placeholder                dtype=float32 shape=[?,2]\n"                                                  \
    "w        Const                      value=float32[2]\n"                                                           \
    "product  Mul          x w           alpha=0.5 axes=[1,2]\n"                                                       \
    "again    Mul          product:0 ^w  mode=\"a\\x0ab\"\n"                                                           \
    "total: 4 nodes, 0 functions, producer 134\n"

#define OPS                                                                                                            \
    "op           in graph  in functions\n"                                                                            \
    "Mul                 2             0\n"                                                                            \
    "Const               1             0\n"                                                                            \
    "Placeholder         1             0\n"                                                                            \
    "total: 4 nodes, 0 functions, producer 134\n"

TEST(graph)
{
    const char *path = write_graph("graph.pb");
    tool_run    run;

    TOOL_OUT(0, NODES, "", "inspect", path);
    TOOL_OUT(0, OPS, "", "inspect", path, "--ops");
    run = TOOL(0, "inspect", path, "--text");
    assert_int_equal(strncmp(run.out, "node {\n  name: \"x\"\n  op: \"Placeholder\"\n", 38), 0);
    tool_run_free(&run);
    TOOL_OUT(2, "", "--ops and --text exclude each other", "inspect", path, "--ops", "--text");
    TOOL_OUT(2, "", "--text and --json exclude each other", "inspect", path, "--json", "--text");
}

TEST(graph_as_json)
{
    const char *path = write_graph("graph.pb");
    tool_run    run  = TOOL(0, "inspect", path, "--json");
    est_json   *root = tool_json(run.out);
    const char *text;
    int64_t     number;

    tool_check(est_json_string(root, &text, "nodes[3].device"));
    assert_string_equal(text, "/cpu:0");
    tool_check(est_json_string(root, &text, "nodes[3].inputs[1]"));
    assert_string_equal(text, "^w");
    tool_check(est_json_string(root, &text, "nodes[1].attrs._hint"));
    assert_string_equal(text, "not shown");
    tool_check(est_json_i64(root, &number, "nodes[1].attrs.value.shape[0]"));
    assert_int_equal(number, 2);
    assert_true(json_is_null(est_json_get(root, "nodes[0].attrs.shape[0]")));
    est_json_free(root);
    tool_run_free(&run);
    run  = TOOL(0, "inspect", path, "--json", "--ops");
    root = tool_json(run.out);
    tool_check(est_json_i64(root, &number, "ops[0].in_graph"));
    assert_int_equal(number, 2);
    est_json_free(root);
    tool_run_free(&run);
}

static void build_meta_graph(est_meta_graph_def *meta)
{
    const est_tensor_info in = {
        .kind = EST_TENSOR_INFO_NAME, .name = "x:0", .dtype = EST_F32, .has_shape = true, .shape = EST_SHAPE(-1, 2)
    };
    const est_tensor_info out   = { .kind = EST_TENSOR_INFO_NAME, .name = "again:0", .dtype = EST_F32 };
    const est_saver_def   saver = { .filename_tensor_name = "save/Const:0",
                                    .save_tensor_name     = "save/done:0",
                                    .restore_op_name      = "save/restore_all",
                                    .version              = 2 };

    build_graph(&meta->graph);
    tool_check(est_meta_graph_def_add_tag(meta, "serve"));
    tool_check(est_meta_graph_def_add_tag(meta, "gpu"));
    tool_check(est_meta_graph_def_add_signature(meta, "serving_default", "tensorflow/serving/predict"));
    tool_check(est_meta_graph_def_add_input(meta, "serving_default", "image", &in));
    tool_check(est_meta_graph_def_add_output(meta, "serving_default", "digit", &out));
    tool_check(est_meta_graph_def_add_node(meta, "train_op", "train"));
    tool_check(est_meta_graph_def_add_asset(meta, "vocab:0", "vocab.txt"));
    tool_check(est_meta_graph_def_set_saver(meta, &saver));
}

#define META                                                                                                           \
    "tags: serve gpu\n"                                                                                                \
    "signature_def['serving_default'], method tensorflow/serving/predict\n"                                            \
    "  inputs['image']\n"                                                                                              \
    "    dtype: DT_FLOAT\n"                                                                                            \
    "    shape: (-1, 2)\n"                                                                                             \
    "    name: x:0\n"                                                                                                  \
    "  outputs['digit']\n"                                                                                             \
    "    dtype: DT_FLOAT\n"                                                                                            \
    "    shape: unknown rank\n"                                                                                        \
    "    name: again:0\n"                                                                                              \
    "asset vocab.txt for vocab:0\n"                                                                                    \
    "collection train_op: 1 nodes\n"                                                                                   \
    "saver: file name save/Const:0, save save/done:0, restore save/restore_all, version 2\n"

TEST(meta_graph)
{
    est_wire_writer    w = { 0 };
    est_meta_graph_def meta;
    const char        *path;
    tool_run           run;

    est_meta_graph_def_init(&meta, arena);
    build_meta_graph(&meta);
    tool_check(est_meta_graph_def_put(&w, &meta));
    path = write_message("model.ckpt-7.meta", &w);
    est_wire_writer_clear(&w);
    TOOL_OUT(0, META NODES, "", "inspect", path);
    TOOL_OUT(0, META OPS, "", "inspect", path, "--ops");
    run = TOOL(0, "inspect", path, "--text");
    tool_expect_part(run.out, "signature_def {\n  key: \"serving_default\"", "standard output");
    tool_run_free(&run);
    run = TOOL(0, "inspect", path, "--json");
    est_json_free(tool_json(run.out));
    tool_run_free(&run);
}

static void write_variables(void)
{
    const float        number = 3;
    est_bundle_writer *writer;
    est_tensor        *tensor;

    tool_check(est_bundle_writer_create(tool_path("export/variables/variables"), 0, &writer));
    tool_check(est_tensor_f32(EST_SHAPE(1), &number, &tensor));
    tool_check(est_bundle_add(writer, "bias", tensor));
    est_tensor_free(tensor);
    tool_check(est_bundle_finish(writer));
    est_bundle_writer_free(writer);
}

static const char *write_saved_model(void)
{
    est_wire_writer     w = { 0 };
    est_saved_model_def model;
    est_meta_graph_def *meta;

    est_saved_model_def_init(&model, arena);
    tool_check(est_saved_model_def_add(&model, &meta));
    build_meta_graph(meta);
    tool_check(est_saved_model_def_put(&w, &model));
    tool_check(est_dir_create(tool_path("export/variables")));
    write_message("export/saved_model.pb", &w);
    est_wire_writer_clear(&w);
    return tool_path("export");
}

#define VARIABLES                                                                                                      \
    "\nname  dtype    shape  bytes  slices\n"                                                                          \
    "bias  float32  [1]        4       0\n"                                                                            \
    "total: 1 variables, 1 parameters, 4 bytes\n"

TEST(saved_model)
{
    const char *dir = write_saved_model(), *text;
    tool_run    run;
    est_json   *root;

    TOOL_OUT(0, META "graph: 4 nodes\n", "", "inspect", dir);
    write_variables();
    TOOL_OUT(0, META "graph: 4 nodes\n" VARIABLES, "", "inspect", dir);
    TOOL_OUT(2, "", "that of a SavedModel is DIR/variables/variables", "inspect", dir, "--stats");
    TOOL_OUT(0, META "graph: 4 nodes\n" VARIABLES, "", "inspect", tool_path("export/saved_model.pb"));
    TOOL_OUT(0, META OPS VARIABLES, "", "inspect", dir, "--ops");
    run  = TOOL(0, "inspect", dir, "--json");
    root = tool_json(run.out);
    tool_check(est_json_string(root, &text, "meta_graphs[0].signatures.serving_default.inputs.image.name"));
    assert_string_equal(text, "x:0");
    tool_check(est_json_string(root, &text, "variables.variables[0].name"));
    assert_string_equal(text, "bias");
    est_json_free(root);
    tool_run_free(&run);
    run = TOOL(0, "inspect", dir, "--ops", "--json");
    est_json_free(tool_json(run.out));
    tool_run_free(&run);
}

/* What an exporter writes: of several exports the newest is shown and named; what is no export is passed over. */
TEST(newest_export)
{
    tool_check(est_dir_create(tool_path("best/1700000020"))); /* has no SavedModel */
    TOOL_OUT(1, "", "no SavedModel, checkpoint or event file is in this directory", "inspect", tool_path("best"));
    for (int i = 0; i < 2; i++) {
        const char *dir = write_saved_model();

        assert_int_equal(rename(dir, tool_path(i == 0 ? "best/999999999" : "best/1700000007")), 0);
    }
    TOOL_OUT(0, META OPS, "this is the newest export, ", "inspect", tool_path("best"), "--ops");
    TOOL_OUT(0, META OPS, "/best/1700000007\n", "inspect", tool_path("best"), "--ops");
}

/* Protobuf has no checksums: many a change gives another valid message. */
TEST(every_byte)
{
    const char *graph = write_graph("flip.pb"), *dir = write_saved_model();
    int         accepted = tool_flip_bytes(graph, TOOL_ARGV("inspect", graph));

    assert_true(accepted > 0);
    tool_flip_bytes(tool_path("export/saved_model.pb"), TOOL_ARGV("inspect", dir, "--json"));
    tool_write_text("bad.pb", "\x0a\x7f");
    TOOL_OUT(1, "", "bad.pb: ", "inspect", tool_path("bad.pb"));
}

static int set_up(void **state)
{
    arena = est_arena_create();
    return arena == NULL || est_test_root_make(state);
}

static int tear_down(void **state)
{
    est_arena_free(arena);
    return est_test_root_remove(state);
}

int main(void)
{
    return est_test_run(set_up, tear_down);
}
