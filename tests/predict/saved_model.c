/* SPDX-License-Identifier: Apache-2.0
 *
 * SavedModels read back: exports give what their estimator predicts; wrong files are errors. TensorFlow's models are
 * loaded by tests/interop/saved_model_load.c. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "estoc/predictor.h"
#include "format/saved_model_def.h"
#include "ops/ops.h"
#include "predict/inline.h"
#include "predict/saved_model.h"
#include "support/dynamic_test.h"
#include "support/export_test.h"
#include "support/fault_loop.h"

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

/* A directory with an estimator that was trained, and an export of it. */
typedef struct shop {
    char           dir[64], base[128], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator *estimator;
} shop;

static void shop_open(shop *s, const shop_params *params, const est_export_options *options)
{
    est_test_dir(s->dir);
    snprintf(s->base, sizeof s->base, "%s/out", s->dir);
    s->estimator = shop_trained(s->dir, params);
    ok(est_export_saved_model(s->estimator, s->base, options, s->path));
}

static void shop_close(shop *s)
{
    est_estimator_free(s->estimator);
    est_test_dir_remove(s->dir);
}

static est_tensor *four_examples(void)
{
    est_tensor *tensor = NULL;
    est_str     texts[4];
    char        bytes[4][512];

    for (int i = 0; i < 4; i++) {
        est_str example = shop_example(i);

        assert_true(example.size <= sizeof bytes[i]);
        memcpy(bytes[i], example.data, example.size);
        texts[i] = (est_str){ bytes[i], example.size };
    }
    ok(est_tensor_create_from(EST_STRING, EST_SHAPE(4), texts, &tensor));
    return tensor;
}

static void run(const est_saved_model *model, const char *signature, const est_tensor *const *inputs, est_tensor **out)
{
    est_saved_signature_nodes s;
    est_feed                  feeds[8];

    ok(est_saved_model_find(model, signature, &s));
    for (int i = 0; i < s.inputs.n; i++) feeds[i] = (est_feed){ s.inputs.data[i], inputs[i] };
    ok(est_session_run(est_saved_model_session(model), (est_feeds){ feeds, s.inputs.n }, s.outputs, EST_NO_NODES, out));
}

static void expect_same(const est_tensor *got, const est_tensor *want)
{
    assert_int_equal(est_tensor_dtype(got), est_tensor_dtype(want));
    assert_true(est_shape_equal(est_tensor_shape(got), est_tensor_shape(want)));
    if (est_tensor_dtype(got) != EST_STRING) {
        assert_memory_equal(est_tensor_data(got), est_tensor_data(want), est_tensor_bytes(want));
        return;
    }
    for (int64_t i = 0; i < est_tensor_count(got); i++) {
        const est_str *a = (const est_str *)est_tensor_data(got) + i, *b = (const est_str *)est_tensor_data(want) + i;

        assert_int_equal(a->size, b->size);
        if (a->size > 0) assert_memory_equal(a->data, b->data, a->size);
    }
}

/* --- exports ------------------------------------------------------------------------------------------------------ */

/* Every output of a signature is bit for bit what the estimator predicts under the same name. */
static void expect_predictions(const est_saved_model *model, const char *signature, const est_tensor *const *inputs,
                               est_predictions *p)
{
    est_saved_signature_nodes s;
    est_tensor               *out[8] = { 0 };

    ok(est_saved_model_find(model, signature, &s));
    assert_true(s.outputs.n > 0 && s.outputs.n <= 8);
    run(model, signature, inputs, out);
    for (int i = 0; i < s.outputs.n; i++) {
        expect_same(out[i], est_predictions_get(p, s.signature->outputs[i].name));
        est_tensor_free(out[i]);
    }
}

TEST(an_export_predicts_what_its_estimator_does)
{
    est_tensor       *examples = four_examples();
    est_saved_model  *model    = NULL;
    est_predictions  *p        = NULL;
    const est_tensor *inputs[] = { examples };
    shop              s;

    shop_open(&s, NULL, EST_EXPORT(.input = SHOP_PARSING));
    ok(est_predict(s.estimator, EST_PREDICT_OPTIONS(.input_fn = shop_input, .batches = true), &p));
    ok(est_predictions_next(p));
    ok(est_saved_model_load(s.base, NULL, &model)); /* the newest version below it */
    assert_string_equal(est_saved_model_dir(model), s.path);
    expect_predictions(model, "predict", inputs, p);
    est_predictions_free(p);
    est_saved_model_free(model);
    est_tensor_free(examples);
    shop_close(&s);
}

/* Examples included: what they are parsed into stays in the plan. */
TEST(predictions_for_examples_allocate_nothing)
{
    est_tensor      *examples = four_examples();
    est_saved_model *model    = NULL;
    est_predictor   *predictor;
    est_prediction  *one;
    uint64_t         allocated;
    shop             s;

    shop_open(&s, NULL, EST_EXPORT(.input = SHOP_PARSING));
    ok(est_saved_model_load(s.path, EST_SAVED_MODEL(.threads = 1), &model));
    ok(est_predictor_create(model, "predict", NULL, &predictor));
    ok(est_prediction_create(predictor, &one));
    for (int i = 0; i < 2; i++) ok(est_prediction_run(one, EST_NAMED_TENSORS({ "examples", examples })));
    allocated = est_alloc_count();
    for (int i = 0; i < 10; i++) ok(est_prediction_run(one, EST_NAMED_TENSORS({ "examples", examples })));
    assert_int_equal(est_alloc_count(), allocated);
    est_prediction_free(one);
    est_predictor_free(predictor);
    est_saved_model_free(model);
    est_tensor_free(examples);
    shop_close(&s);
}

/* Keys with rows, without, and none at all: the export has a table of them, and predicts what the estimator does. */
static void expect_dynamic_export(const est_dynamic_options *options)
{
    est_input_context context = { .mode = EST_PREDICT, .n_pipelines = 1, .num_replicas_in_sync = 1 };
    char              dir[64], exports[80], path[EST_CHECKPOINT_PATH_MAX];
    est_columns      *columns;
    est_dataset      *rows;
    est_estimator    *e;
    est_saved_model  *model     = NULL;
    est_predictor    *predictor = NULL;
    est_predictions  *want = NULL, *got = NULL;

    est_test_dir(dir);
    snprintf(exports, sizeof exports, "%s/export", dir);
    e = dynamic_estimator(dir, 1, options, &columns);
    ok(est_train(e, EST_TRAIN_OPTIONS(.input_fn = dynamic_input, .max_steps = 40)));
    ok(est_export_saved_model(e, exports, EST_EXPORT(.input = { .raw = { dynamic_raw, DYNAMIC_FEATURES } }), path));
    ok(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = dynamic_input, .batches = true), &want));
    ok(est_predictions_next(want));
    ok(est_saved_model_load(path, NULL, &model));
    ok(est_predictor_create(model, "serving_default", NULL, &predictor));
    ok(dynamic_input(&context, NULL, &rows));
    ok(est_predictor_predict(predictor, rows, (est_strings){ 0 }, true, &got));
    ok(est_predictions_next(got));
    assert_true(est_tensor_count(est_predictions_get(want, "score")) > 0);
    expect_same(est_predictions_get(got, "score"), est_predictions_get(want, "score"));
    est_predictions_free(want);
    est_predictions_free(got);
    est_dataset_free(rows);
    est_predictor_free(predictor);
    est_saved_model_free(model);
    est_estimator_free(e);
    est_columns_free(columns);
    est_test_dir_remove(dir);
}

TEST(dynamic_embeddings_are_read_back)
{
    expect_dynamic_export(NULL);
    expect_dynamic_export(EST_DYNAMIC(.admit_after = 3, .max_rows = 20));
    expect_dynamic_export(EST_DYNAMIC(.admit_after = 1000));
}

TEST(signatures_are_listed)
{
    static const char *const   names[] = { "predict", "regression", "serving_default" };
    const est_saved_signature *signature;
    est_saved_model           *model = NULL;
    shop                       s;

    shop_open(&s, NULL, EST_EXPORT(.input = SHOP_PARSING));
    ok(est_saved_model_load(s.path, EST_SAVED_MODEL(.tags = EST_STRINGS("serve"), .threads = 1), &model));
    assert_int_equal(est_saved_model_signatures(model), 3);
    for (int i = 0; i < 3; i++) {
        signature = est_saved_model_signature(model, i);
        assert_string_equal(signature->name, names[i]);
        assert_null(signature->error);
        assert_int_equal(signature->n_inputs, 1);
        assert_int_equal(signature->inputs[0].dtype, EST_STRING);
        assert_int_equal(signature->inputs[0].shape.rank, 1);
        assert_string_equal(signature->inputs[0].tensor, "input_example_tensor:0");
    }
    assert_string_equal(signature->method, "tensorflow/serving/classify");
    assert_string_equal(signature->inputs[0].name, "inputs");
    assert_int_equal(signature->n_outputs, 2);
    assert_string_equal(signature->outputs[0].name, "classes");
    assert_null(est_saved_model_signature(model, 3));
    assert_null(est_saved_model_signature(model, -1));
    est_saved_model_free(model);
    shop_close(&s);
}

TEST(an_eval_graph_is_loaded_by_its_tag)
{
    est_saved_model *model = NULL;
    shop             s;

    shop_open(&s, NULL, EST_EXPORT(.input = SHOP_PARSING, .eval_input = SHOP_LABELLED));
    ok(est_saved_model_load(s.path, EST_SAVED_MODEL(.tags = EST_STRINGS("eval")), &model));
    assert_int_equal(est_saved_model_signatures(model), 1);
    est_saved_model_free(model);
    assert_int_equal(est_saved_model_load(s.path, EST_SAVED_MODEL(.tags = EST_STRINGS("tpu")), &model), EST_NOT_FOUND);
    est_test_error_has("{tpu}");
    shop_close(&s);
}

/* --- wrong models ------------------------------------------------------------------------------------------------- */

#define DT_HALF 19 /* TensorFlow's number of float16, which is not here */

/* Writes a model with this graph and a signature from "x:0" to "y:0", and perhaps one, "half", that gives "h:0". */
static void write_model(const char *dir, est_graph_def *graph, bool half)
{
    est_arena          *arena = graph->arena;
    est_saved_model_def model;
    est_meta_graph_def *meta;
    est_wire_writer     w = { 0 };
    char                path[128];

    est_saved_model_def_init(&model, arena);
    ok(est_saved_model_def_add(&model, &meta));
    ok(est_meta_graph_def_add_tag(meta, "serve"));
    est_graph_def_move(graph, &meta->graph);
    ok(est_meta_graph_def_add_signature(meta, "serving_default", "tensorflow/serving/predict"));
    ok(est_meta_graph_def_add_input(
        meta, "serving_default", "x",
        &(est_tensor_info){ .kind = EST_TENSOR_INFO_NAME, .name = "x:0", .dtype = EST_F32 }));
    ok(est_meta_graph_def_add_output(
        meta, "serving_default", "y",
        &(est_tensor_info){ .kind = EST_TENSOR_INFO_NAME, .name = "y:0", .dtype = EST_F32 }));
    if (half) {
        ok(est_meta_graph_def_add_signature(meta, "half", "tensorflow/serving/predict"));
        ok(est_meta_graph_def_add_output(
            meta, "half", "h", &(est_tensor_info){ .kind = EST_TENSOR_INFO_NAME, .name = "h:0", .dtype = DT_HALF }));
    }
    ok(est_saved_model_def_put(&w, &model));
    snprintf(path, sizeof path, "%s/saved_model.pb", dir);
    ok(est_file_replace(path, w.data, w.size));
    est_wire_writer_clear(&w);
}

/* A library with one function "f" of x that gives `returns` and calls itself, or has a node of that op. */
static void add_function(est_graph_def *graph, const char *op, const char *returns)
{
    est_wire_writer w        = { 0 };
    size_t          function = est_wire_begin(&w, 1), inner = est_wire_begin(&w, 1), arg;

    est_wire_put_string(&w, 1, "f");
    for (uint32_t i = 2; i <= 3; i++) {
        arg = est_wire_begin(&w, i);
        est_wire_put_string(&w, 1, i == 2 ? "x" : "y");
        est_wire_put_i64(&w, 3, EST_F32);
        est_wire_end(&w, arg);
    }
    est_wire_end(&w, inner);
    inner = est_wire_begin(&w, 3);
    est_wire_put_string(&w, 1, "n");
    est_wire_put_string(&w, 2, op);
    est_wire_put_string(&w, 3, "x");
    est_wire_end(&w, inner);
    inner = est_wire_begin(&w, 4);
    est_wire_put_string(&w, 1, "y");
    est_wire_put_string(&w, 2, returns);
    est_wire_end(&w, inner);
    est_wire_end(&w, function);
    ok(est_wire_writer_status(&w));
    ok(est_def_copy_bytes(graph->arena, (est_str){ (const char *)w.data, w.size }, &graph->library));
    est_wire_writer_clear(&w);
}

/* Loads a model whose y is the node `op` of x; "call f" for the function above. */
static est_status load_wrong(const char *op, const char *inner, const char *returns)
{
    est_arena          *arena = est_arena_create();
    est_shape           shape = EST_SHAPE(-1);
    est_saved_model    *model = NULL;
    est_graph_def       graph;
    est_graph_def_node *node;
    est_status          status;
    char                dir[64];

    assert_non_null(arena);
    est_test_dir(dir);
    est_graph_def_init(&graph, arena);
    node = est_graph_def_add_node(&graph, "x", "Placeholder");
    est_graph_def_set_type(node, "dtype", EST_F32);
    est_graph_def_set_shape(node, "shape", &shape);
    node = est_graph_def_add_node(&graph, "y", op);
    est_graph_def_add_input(node, "x");
    if (inner != NULL) add_function(&graph, inner, returns);
    write_model(dir, &graph, false);
    status = est_saved_model_load(dir, NULL, &model);
    est_saved_model_free(model);
    est_test_dir_remove(dir);
    est_arena_free(arena);
    return status;
}

/* A node of this op with one input; NULL: none. */
static est_graph_def_node *add_op(est_graph_def *graph, const char *name, const char *op, const char *input)
{
    est_graph_def_node *node = est_graph_def_add_node(graph, name, op);

    if (input != NULL) est_graph_def_add_input(node, input);
    return node;
}

/* A signature with a tensor of a dtype that is not here is listed, and the others run. */
TEST(a_signature_of_another_dtype_is_listed)
{
    est_arena                 *arena = est_arena_create();
    est_shape                  shape = EST_SHAPE(-1);
    est_saved_model           *model = NULL;
    est_predictor             *predictor;
    const est_saved_signature *signature;
    est_graph_def              graph;
    char                       dir[64];

    assert_non_null(arena);
    est_test_dir(dir);
    est_graph_def_init(&graph, arena);
    for (int i = 0; i < 2; i++) {
        est_graph_def_node *node = add_op(&graph, i == 0 ? "x" : "h", "Placeholder", NULL);

        est_graph_def_set_type(node, "dtype", i == 0 ? EST_F32 : (est_dtype)DT_HALF);
        est_graph_def_set_shape(node, "shape", &shape);
    }
    add_op(&graph, "y", "Relu", "x");
    write_model(dir, &graph, true);
    ok(est_saved_model_load(dir, NULL, &model));
    assert_int_equal(est_saved_model_signatures(model), 2);
    signature = est_saved_model_signature(model, 0);
    assert_string_equal(signature->name, "half");
    assert_non_null(strstr(signature->error, "the type DT_HALF (19) is not supported"));
    assert_int_equal(signature->outputs[0].dtype, EST_DTYPE_NONE);
    ok(est_predictor_create(model, "serving_default", NULL, &predictor));
    est_predictor_free(predictor);
    est_saved_model_free(model);
    est_test_dir_remove(dir);
    est_arena_free(arena);
}

/* What prints says nothing here, and asks for no operation; what it waits for still has to be true. */
TEST(prints_are_left_out)
{
    est_arena          *arena = est_arena_create();
    est_shape           shape = EST_SHAPE(-1);
    est_saved_model    *model = NULL;
    est_predictor      *predictor;
    est_graph_def       graph;
    est_graph_def_node *node;
    est_tensor         *no, *x, *y;
    char                dir[64];

    assert_non_null(arena);
    est_test_dir(dir);
    ok(est_tensor_create_from(EST_BOOL, EST_SHAPE_SCALAR, (const uint8_t[]){ 0 }, &no));
    est_graph_def_init(&graph, arena);
    node = add_op(&graph, "x", "Placeholder", NULL);
    est_graph_def_set_type(node, "dtype", EST_F32);
    est_graph_def_set_shape(node, "shape", &shape);
    node = add_op(&graph, "no", "Const", NULL);
    est_graph_def_set_type(node, "dtype", EST_BOOL);
    est_graph_def_set_tensor(node, "value", no);
    add_op(&graph, "text", "StringFormat", "x");
    est_graph_def_add_input(add_op(&graph, "right", "Assert", "no"), "x");
    est_graph_def_add_input(add_op(&graph, "print", "PrintV2", "text"), "^right");
    est_graph_def_add_input(add_op(&graph, "shown", "Print", "x"), "text");
    est_graph_def_add_input(add_op(&graph, "y", "Relu", "shown"), "^print");
    write_model(dir, &graph, false);
    ok(est_saved_model_load(dir, NULL, &model));
    ok(est_predictor_create(model, NULL, NULL, &predictor));
    ok(est_tensor_f32(EST_SHAPE(1), (const float[]){ 2 }, &x));
    assert_int_equal(est_predictor_run(predictor, EST_NAMED_TENSORS({ "x", x }), &y), EST_INVALID_ARGUMENT);
    est_test_error_has("'right'");
    est_predictor_free(predictor);
    est_saved_model_free(model);
    est_tensor_free(no);
    est_tensor_free(x);
    est_test_dir_remove(dir);
    est_arena_free(arena);
}

TEST(wrong_graphs_are_errors)
{
    static const struct {
        const char *op, *inner, *returns, *says;
        est_status  status;
    } cases[] = {
        { "Relu", NULL, NULL, NULL, EST_OK },
        { "f", "Relu", "n:activations:0", NULL, EST_OK },
        { "f", "Relu", "x", NULL, EST_OK }, /* a function may give an argument */
        { "Imaginary", NULL, NULL, "signature 'serving_default': node 'y': op 'Imaginary' is not supported",
          EST_UNIMPLEMENTED },
        { "f", "Imaginary", "n:out:0", "node 'y/n': op 'Imaginary' is not supported", EST_UNIMPLEMENTED },
        /* operations of the planner, which trust their attributes */
        { "EstPadRows", NULL, NULL, "node 'y': op 'EstPadRows' is not supported", EST_UNIMPLEMENTED },
        { "EstFirstRows", NULL, NULL, "node 'y': op 'EstFirstRows' is not supported", EST_UNIMPLEMENTED },
        { "f", "EstDedupSlice", "n:out:0", "node 'y/n': op 'EstDedupSlice' is not supported", EST_UNIMPLEMENTED },
        { "f", "Imaginary", "x", NULL, EST_OK }, /* nobody needs it */
        { "f", "f", "n:y:0", "function 'f' calls itself", EST_INVALID_ARGUMENT },
        { "f", "Relu", "m:activations:0", "'m:activations:0' is no argument and no node", EST_INVALID_ARGUMENT },
        { "f", "Relu", "n:activations:-1", "does not end in the number", EST_INVALID_ARGUMENT },
        { "PartitionedCall", "Relu", "x", "the function '' is not in the graph", EST_INVALID_ARGUMENT },
        { "MatMul", NULL, NULL, "node 'y'", EST_INVALID_ARGUMENT },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        est_status status = load_wrong(cases[i].op, cases[i].inner, cases[i].returns);

        if (status != cases[i].status) fail_msg("case %zu: %d, %s", i, (int)status, est_error_message());
        if (cases[i].says != NULL) est_test_error_has(cases[i].says);
    }
}

/* A function of x with two nodes of x that are ops, or two results of one node. */
static void put_pair(est_wire_writer *w, const char *name, const char *const ops[2], const char *const returns[2])
{
    size_t function = est_wire_begin(w, 1), inner = est_wire_begin(w, 1), arg;

    est_wire_put_string(w, 1, name);
    for (int i = 0; i < 3; i++) {
        arg = est_wire_begin(w, i == 0 ? 2 : 3);
        est_wire_put_string(w, 1, (const char *const[]){ "x", "a", "b" }[i]);
        est_wire_put_i64(w, 3, EST_F32);
        est_wire_end(w, arg);
    }
    est_wire_end(w, inner);
    for (int i = 0; i < 2 && ops[i] != NULL; i++) {
        inner = est_wire_begin(w, 3);
        est_wire_put_string(w, 1, i == 0 ? "n" : "m");
        est_wire_put_string(w, 2, ops[i]);
        est_wire_put_string(w, 3, "x");
        est_wire_end(w, inner);
    }
    for (int i = 0; i < 2; i++) {
        inner = est_wire_begin(w, 4);
        est_wire_put_string(w, 1, i == 0 ? "a" : "b");
        est_wire_put_string(w, 2, returns[i]);
        est_wire_end(w, inner);
    }
    est_wire_end(w, function);
}

/* y is the first result of "outer", which is `from` of a call of "pair": -x and x squared. */
static est_status load_pair(const char *from, float x, float *y)
{
    est_arena          *arena = est_arena_create();
    est_shape           shape = EST_SHAPE(-1);
    est_saved_model    *model = NULL;
    est_tensor         *in = NULL, *out = NULL;
    est_wire_writer     w = { 0 };
    est_graph_def       graph;
    est_graph_def_node *node;
    est_status          status;
    char                dir[64];

    assert_non_null(arena);
    est_test_dir(dir);
    est_graph_def_init(&graph, arena);
    node = est_graph_def_add_node(&graph, "x", "Placeholder");
    est_graph_def_set_type(node, "dtype", EST_F32);
    est_graph_def_set_shape(node, "shape", &shape);
    est_graph_def_add_input(est_graph_def_add_node(&graph, "y", "outer"), "x");
    put_pair(&w, "pair", (const char *const[]){ "Neg", "Square" }, (const char *const[]){ "n:y:0", "m:y:0" });
    put_pair(&w, "outer", (const char *const[]){ "pair", NULL }, (const char *const[]){ from, "x" });
    ok(est_wire_writer_status(&w));
    ok(est_def_copy_bytes(arena, (est_str){ (const char *)w.data, w.size }, &graph.library));
    est_wire_writer_clear(&w);
    write_model(dir, &graph, false);
    status = est_saved_model_load(dir, NULL, &model);
    if (status == EST_OK) {
        ok(est_tensor_f32(EST_SHAPE(1), &x, &in));
        run(model, NULL, (const est_tensor *const[]){ in }, &out);
        *y = *(const float *)est_tensor_data(out);
    }
    est_tensor_free(in);
    est_tensor_free(out);
    est_saved_model_free(model);
    est_test_dir_remove(dir);
    est_arena_free(arena);
    return status;
}

/* Results of a function that is called as an op are found by their names. */
TEST(results_of_functions)
{
    float y = 0;

    ok(load_pair("n:a:0", 3, &y));
    assert_true(y == -3);
    ok(load_pair("n:b:0", 3, &y));
    assert_true(y == 9);
    assert_int_equal(load_pair("n:c:0", 3, &y), EST_INVALID_ARGUMENT);
    est_test_error_has("node 'n' (pair) has no result 'c'");
    assert_int_equal(load_pair("n:a:1", 3, &y), EST_INVALID_ARGUMENT);
}

/* Each of 40 functions calls the next twice: 2^40 nodes, of which no more are made than memory is meant for. */
TEST(functions_that_double)
{
    est_arena          *arena = est_arena_create();
    est_wire_writer     w     = { 0 };
    est_graph_def       graph, flat;
    est_graph_def_node *node;
    est_def_names       roots = { 0 };
    char                name[2][16];

    assert_non_null(arena);
    est_graph_def_init(&graph, arena);
    est_graph_def_init(&flat, arena);
    node = est_graph_def_add_node(&graph, "x", "Placeholder");
    est_graph_def_set_type(node, "dtype", EST_F32);
    est_graph_def_add_input(est_graph_def_add_node(&graph, "y", "f0"), "x");
    for (int i = 0; i < 40; i++) {
        snprintf(name[0], sizeof name[0], "f%d", i);
        snprintf(name[1], sizeof name[1], i < 39 ? "f%d" : "Neg", i + 1);
        put_pair(&w, name[0], (const char *const[]){ name[1], name[1] },
                 (const char *const[]){ i < 39 ? "n:a:0" : "n:y:0", i < 39 ? "m:b:0" : "m:y:0" });
    }
    ok(est_wire_writer_status(&w));
    graph.library = (est_str){ (const char *)w.data, w.size };
    ok(est_def_names_add(arena, &roots, "y"));
    assert_int_equal(est_inline(&graph, &roots, est_op_find, &flat), EST_INVALID_ARGUMENT);
    est_test_error_has("the nodes of functions take more than");
    est_wire_writer_clear(&w);
    est_arena_free(arena);
}

TEST(wrong_files_are_errors)
{
    est_saved_model *model = NULL;
    char             path[EST_CHECKPOINT_PATH_MAX + 64];
    char            *bytes;
    size_t           size;
    shop             s;

    shop_open(&s, NULL, EST_EXPORT(.input = SHOP_PARSING));
    assert_int_equal(est_saved_model_load("/nowhere", NULL, &model), EST_NOT_FOUND);
    est_test_error_has("no such directory");
    assert_int_equal(est_saved_model_load(s.dir, NULL, &model), EST_NOT_FOUND);
    est_test_error_has("no saved_model.pb");
    snprintf(path, sizeof path, "%s/variables/variables.index", s.path);
    ok(est_file_remove(path));
    assert_int_equal(est_saved_model_load(s.path, NULL, &model), EST_DATA_LOSS);
    est_test_error_has("has no files variables/variables.*");
    snprintf(path, sizeof path, "%s/saved_model.pb", s.path);
    ok(est_file_read(path, &bytes, &size));
    for (size_t part = 1; part < 40; part++) { /* cut anywhere */
        ok(est_file_replace(path, bytes, size * part / 40));
        assert_int_not_equal(est_saved_model_load(s.path, NULL, &model), EST_OK);
    }
    ok(est_file_remove(path));
    snprintf(path, sizeof path, "%s/saved_model.pbtxt", s.path);
    ok(est_file_replace(path, bytes, size));
    assert_int_equal(est_saved_model_load(s.path, NULL, &model), EST_NOT_FOUND);
    est_test_error_has("has only saved_model.pbtxt, the message as text; save it as saved_model.pb");
    est_free(bytes);
    assert_null(model);
    shop_close(&s);
}

/* Variables of another shape than the files have. */
TEST(wrong_variables_are_errors)
{
    est_saved_model *model = NULL;
    char             prefix[EST_CHECKPOINT_PATH_MAX + 64];
    shop             s;
    est_tensor      *value = NULL;

    shop_open(&s, &(shop_params){ .plain = true }, EST_EXPORT(.input = SHOP_PARSING));
    snprintf(prefix, sizeof prefix, "%s/variables/variables", s.path);
    ok(est_tensor_create(EST_F32, EST_SHAPE(2), &value));
    ok(est_checkpoint_write(prefix, EST_NAMED_TENSORS({ "global_step", value }), NULL));
    assert_int_equal(est_saved_model_load(s.path, NULL, &model), EST_DATA_LOSS);
    est_test_error_has("the checkpoint has no");
    est_tensor_free(value);
    shop_close(&s);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

TEST(every_failed_allocation_is_an_error)
{
    shop s;

    shop_open(&s, &(shop_params){ .plain = true }, EST_EXPORT(.input = SHOP_PARSING));
    FAULT_LOOP(f, FAULT_PLACES) {
        est_saved_model *model = NULL;
        est_status       status;

        fault_arm(&f);
        status = est_saved_model_load(s.base, EST_SAVED_MODEL(.threads = 1), &model);
        fault_check(&f, status);
        est_saved_model_free(model);
    }
    shop_close(&s);
}
