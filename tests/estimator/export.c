/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports: what is in the directory, which signatures there are, that the check sees what is wrong, and that failures
 * leave the exports that were there. Whether TensorFlow takes them is asked by tests/interop/export.c. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "estimator/estimator.h"
#include "format/bundle.h"
#include "format/saved_model_def.h"
#include "format/variable_def.h"
#include "support/export_test.h"
#include "support/fault_loop.h"
#include "support/log_test.h"

static est_manual_clock standing; /* moves only when someone sleeps */

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

/* An export that was read back. */
typedef struct saved {
    est_arena          *arena;
    est_saved_model_def model;
    est_meta_graph_def *meta;
} saved;

static void saved_open_tag(saved *s, const char *dir, const char *tag)
{
    char   path[EST_CHECKPOINT_PATH_MAX + 32];
    char  *bytes;
    size_t size;

    snprintf(path, sizeof path, "%s/saved_model.pb", dir);
    s->arena = est_arena_create();
    assert_non_null(s->arena);
    ok(est_file_read(path, &bytes, &size));
    ok(est_saved_model_def_parse((est_str){ bytes, size }, s->arena, &s->model));
    est_free(bytes);
    ok(est_saved_model_def_find(&s->model, &tag, 1, &s->meta));
}

static void saved_open(saved *s, const char *dir)
{
    saved_open_tag(s, dir, "serve");
}

static void expect_signature(const saved *s, const char *key, const char *method, int n_in, int n_out)
{
    const est_signature_def *signature = est_meta_graph_def_signature(s->meta, key);

    if (signature == NULL) fail_msg("no signature %s", key);
    assert_string_equal(signature->method_name, method);
    assert_int_equal(signature->inputs.n, n_in);
    assert_int_equal(signature->outputs.n, n_out);
}

/* --- what is in it ------------------------------------------------------------------------------------------------ */

TEST(a_parsing_export_has_all_parts)
{
    char           dir[64], path[EST_CHECKPOINT_PATH_MAX], base[128], inner[EST_CHECKPOINT_PATH_MAX + 32], list[1024];
    est_estimator *e;
    saved          s;
    est_bundle    *bundle = NULL;

    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/out", dir);
    e = shop_trained(dir, NULL);
    ok(est_export_saved_model(e, base, EST_EXPORT(.input = SHOP_PARSING), path));
    assert_string_equal(shop_list(path, list), "saved_model.pb variables ");
    snprintf(inner, sizeof inner, "%s/variables", path);
    assert_string_equal(shop_list(inner, list), "variables.data-00000-of-00001 variables.index ");

    saved_open(&s, path);
    assert_int_equal(s.meta->n_signatures, 3);
    expect_signature(&s, "serving_default", "tensorflow/serving/classify", 1, 2);
    expect_signature(&s, "regression", "tensorflow/serving/regress", 1, 1);
    expect_signature(&s, "predict", "tensorflow/serving/predict", 1, 2);
    assert_non_null(est_tensor_infos_find(&est_meta_graph_def_signature(s.meta, "serving_default")->inputs, "inputs"));
    assert_string_equal(
        est_tensor_infos_find(&est_meta_graph_def_signature(s.meta, "predict")->inputs, "examples")->name,
        "input_example_tensor:0");
    assert_string_equal(s.meta->saver->filename_tensor_name, "save/Const:0");
    assert_string_equal(s.meta->saver->restore_op_name, "save/restore_all");
    assert_string_equal(s.meta->saver->save_tensor_name, "save/control_dependency:0");
    assert_int_equal(s.meta->object_graph.size, 0);
    est_arena_free(s.arena);

    snprintf(inner, sizeof inner, "%s/variables/variables", path);
    ok(est_bundle_open(inner, &bundle));
    assert_non_null(est_bundle_find(bundle, "hidden/kernel"));
    assert_non_null(est_bundle_find(bundle, "batch_normalization/moving_mean"));
    assert_non_null(est_bundle_find(bundle, "global_step"));
    assert_null(est_bundle_find(bundle, "hidden/kernel/Adam")); /* what only training needs */
    est_bundle_close(bundle);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* Checkpoints have the state of a shared metric; a graph to serve, which does not have the metric, exports without. */
TEST(a_shared_metric_is_not_served)
{
    char            dir[64], path[EST_CHECKPOINT_PATH_MAX], inner[EST_CHECKPOINT_PATH_MAX + 32];
    est_estimator  *e;
    est_checkpoint *checkpoint;
    est_tensor     *count;
    est_bundle     *bundle = NULL;

    est_test_dir(dir);
    e = shop_trained(dir, &(shop_params){ .shared = true });
    ok(est_checkpoint_open(dir, &checkpoint));
    ok(est_checkpoint_read(checkpoint, "seen/count", &count));
    assert_int_equal(*(const float *)est_tensor_data(count), 3 * 4 * 3); /* steps, rows, logits */
    est_tensor_free(count);
    est_checkpoint_close(checkpoint);
    ok(est_export_saved_model(e, dir, EST_EXPORT(.input = SHOP_PARSING), path));
    snprintf(inner, sizeof inner, "%s/variables/variables", path);
    ok(est_bundle_open(inner, &bundle));
    assert_non_null(est_bundle_find(bundle, "hidden/kernel"));
    assert_null(est_bundle_find(bundle, "seen/count"));
    est_bundle_close(bundle);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(collections_name_nodes_that_exist)
{
    char                      dir[64], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator            *e;
    saved                     s;
    const est_collection_def *all, *trainable;

    est_test_dir(dir);
    e = shop_trained(dir, NULL);
    ok(est_export_saved_model(e, dir, EST_EXPORT(.input = SHOP_PARSING), path));
    saved_open(&s, path);
    all       = est_meta_graph_def_collection(s.meta, "variables");
    trainable = est_meta_graph_def_collection(s.meta, "trainable_variables");
    assert_int_equal(all->n, 11); /* 2 tables, 2 layers of 2, 4 of the normalisation, the global step */
    assert_int_equal(trainable->n, 8);
    for (int i = 0; i < all->n; i++) {
        est_variable_def def;
        const char      *names[4];

        ok(est_variable_def_parse(all->bytes[i], s.arena, &def));
        names[0] = def.variable_name, names[1] = def.initial_value_name, names[2] = def.initializer_name;
        names[3] = def.snapshot_name;
        assert_true(def.is_resource);
        for (int k = 0; k < 4; k++) {
            char name[256];

            snprintf(name, sizeof name, "%.*s", (int)strcspn(names[k], ":"), names[k]);
            if (est_graph_def_find(&s.meta->graph, name) == NULL) fail_msg("no node %s", name);
        }
    }
    for (int i = 0; i < s.meta->graph.n_nodes; i++) { /* none of our own ops is left */
        assert_int_not_equal(strncmp(s.meta->graph.nodes[i]->op, "Est", 3), 0);
    }
    est_arena_free(s.arena);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* Classify and regress need Examples: a raw receiver has only predict left, and no default. */
TEST(a_raw_export_leaves_signatures_out)
{
    char           dir[64], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator *e;
    saved          s;
    shop_params    plain = { .plain = true };

    est_test_dir(dir);
    e = shop_trained(dir, &plain);
    ok(est_export_saved_model(e, dir, EST_EXPORT(.input = { .raw = { shop_raw, 1 } }), path));
    saved_open(&s, path);
    assert_int_equal(s.meta->n_signatures, 1);
    expect_signature(&s, "predict", "tensorflow/serving/predict", 1, 2);
    assert_string_equal(s.meta->signatures[0].inputs.items[0].key, "x");
    assert_string_equal(s.meta->signatures[0].inputs.items[0].name, "x_1:0"); /* a layer is called x */
    assert_int_equal(s.meta->signatures[0].inputs.items[0].shape.dim[0], -1);
    assert_int_equal(s.meta->signatures[0].inputs.items[0].shape.dim[1], 3);
    est_arena_free(s.arena);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(ragged_features_come_raw_too)
{
    char           dir[64], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator *e;
    saved          s;
    shop_params    p = { .no_steps = true, .no_export = true };

    est_test_dir(dir);
    e = shop_trained(dir, &p);
    ok(est_export_saved_model(e, dir, EST_EXPORT(.input = { .raw = { shop_raw, 3 }, .batch = 2 }), path));
    saved_open(&s, path);
    expect_signature(&s, "serving_default", "tensorflow/serving/predict", 4, 4);
    assert_non_null(est_tensor_infos_find(&s.meta->signatures[0].inputs, "ids/splits"));
    assert_int_equal(est_tensor_infos_find(&s.meta->signatures[0].inputs, "x")->shape.dim[0], 2);
    est_arena_free(s.arena);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(defaults_of_export_outputs)
{
    char           dir[64], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator *e;
    saved          s;
    shop_params    one = { .one = true }, twice = { .twice = true };

    est_test_dir(dir);
    e = shop_trained(dir, &one);
    ok(est_export_saved_model(e, dir, EST_EXPORT(.input = SHOP_PARSING), path));
    saved_open(&s, path); /* one output is the default, too */
    assert_int_equal(s.meta->n_signatures, 2);
    expect_signature(&s, "serving_default", "tensorflow/serving/predict", 1, 1);
    expect_signature(&s, "scores", "tensorflow/serving/predict", 1, 1);
    est_arena_free(s.arena);
    est_estimator_free(e);
    e = shop_estimator(dir, &twice);
    assert_int_equal(est_export_saved_model(e, dir, EST_EXPORT(.input = SHOP_PARSING), path), EST_INVALID_ARGUMENT);
    est_test_error_has("none is called serving_default");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(text_and_extra_assets)
{
    char            dir[64], path[EST_CHECKPOINT_PATH_MAX], file[128], base[128], inner[EST_CHECKPOINT_PATH_MAX + 64];
    char            list[1024];
    est_estimator  *e;
    char           *bytes;
    size_t          size;
    const est_asset good = { "notes/read.me", file }, bad = { "../read.me", file };

    est_test_dir(dir);
    snprintf(file, sizeof file, "%s/notes", dir);
    snprintf(base, sizeof base, "%s/out", dir);
    e = shop_trained(dir, NULL);
    ok(est_file_replace(file, "hello", 5));
    ok(est_export_saved_model(e, base, EST_EXPORT(.input = SHOP_PARSING, .as_text = true, .assets_extra = { &good, 1 }),
                              path));
    assert_string_equal(shop_list(path, list), "assets.extra saved_model.pbtxt variables ");
    snprintf(inner, sizeof inner, "%s/assets.extra/notes/read.me", path);
    ok(est_file_read(inner, &bytes, &size));
    assert_string_equal(bytes, "hello");
    est_free(bytes);
    assert_int_equal(
        est_export_saved_model(e, base, EST_EXPORT(.input = SHOP_PARSING, .assets_extra = { &bad, 1 }), path),
        EST_INVALID_ARGUMENT);
    est_test_error_has("assets_extra 0");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- other ways to feed it ---------------------------------------------------------------------------------------- */

TEST(alternatives_have_signatures_of_their_own)
{
    const est_receiver_alternative parsed   = { .name = "parsed" };
    const char *const              names[1] = { "x" };
    const est_receiver_alternative some     = { .name = "some", .features = { names, 1 } };
    char                           dir[64], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator                 *e;
    saved                          s;

    est_test_dir(dir);
    e = shop_trained(dir, NULL);
    ok(est_export_saved_model(
        e, dir, EST_EXPORT(.input = { .parse = { shop_specs, SHOP_FEATURES }, .alternatives = { &parsed, 1 } }), path));
    saved_open(&s, path); /* classify and regress need Examples */
    assert_int_equal(s.meta->n_signatures, 4);
    expect_signature(&s, "serving_default", "tensorflow/serving/classify", 1, 2);
    expect_signature(&s, "parsed:predict", "tensorflow/serving/predict", 6, 2);
    assert_non_null(
        est_tensor_infos_find(&est_meta_graph_def_signature(s.meta, "parsed:predict")->inputs, "steps/lengths"));
    est_arena_free(s.arena);
    assert_int_equal(est_export_saved_model(
                         e, dir,
                         EST_EXPORT(.input = { .parse = { shop_specs, SHOP_FEATURES }, .alternatives = { &some, 1 } }),
                         path),
                     EST_INVALID_ARGUMENT);
    est_test_error_has("alternative some does not feed all that some:predict needs");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- graphs to train and to evaluate ------------------------------------------------------------------------------ */

static bool has_input(const est_graph_def_node *node, const char *input)
{
    for (int i = 0; i < node->inputs.n; i++) {
        if (strcmp(node->inputs.items[i], input) == 0) return true;
    }
    return false;
}

/* The step that is read is the one before the training operation adds to it: TensorFlow needs an edge to know. */
static void expect_order(const saved *s)
{
    const est_tensor_info *step = est_tensor_infos_find(&s->meta->signatures[0].outputs, "predictions/step");
    char                   wait[256];
    bool                   found = false;

    snprintf(wait, sizeof wait, "^%.*s", (int)strcspn(step->name, ":"), step->name);
    for (int i = 0; i < s->meta->graph.n_nodes; i++) {
        const est_graph_def_node *node = s->meta->graph.nodes[i];

        if (strcmp(node->op, "AssignAddVariableOp") == 0 && has_input(node, "global_step")) {
            found = true;
            assert_true(has_input(node, wait));
        }
    }
    assert_true(found);
}

TEST(several_modes_in_one_export)
{
    char                      dir[64], path[EST_CHECKPOINT_PATH_MAX], inner[EST_CHECKPOINT_PATH_MAX + 32];
    est_estimator            *e;
    saved                     s;
    est_bundle               *bundle = NULL;
    const est_collection_def *list;

    est_test_dir(dir);
    e = shop_trained(dir, &(shop_params){ .steady = true, .own_metric = true });
    ok(est_export_saved_model(
        e, dir, EST_EXPORT(.input = SHOP_PARSING, .train_input = SHOP_LABELLED, .eval_input = SHOP_LABELLED), path));
    saved_open_tag(&s, path, "train");
    assert_int_equal(s.model.n_meta_graphs, 3);
    assert_int_equal(s.meta->n_signatures, 1);
    expect_signature(&s, "train", "tensorflow/supervised/training", 1, 9);
    expect_order(&s);
    list = est_meta_graph_def_collection(s.meta, "saved_model_train_op");
    assert_int_equal(list->n, 1);
    assert_non_null(est_graph_def_find(&s.meta->graph, list->nodes[0]));
    est_arena_free(s.arena);

    saved_open_tag(&s, path, "eval");
    expect_signature(&s, "eval", "tensorflow/supervised/eval", 1, 8);
    for (int i = 0; i < 8; i++) {
        static const char *const keys[] = { "loss",
                                            "metrics/accuracy/update_op",
                                            "metrics/accuracy/value",
                                            "metrics/own/update_op",
                                            "metrics/own/value",
                                            "predictions/class_id",
                                            "predictions/logits",
                                            "predictions/probabilities" };

        assert_non_null(est_tensor_infos_find(&s.meta->signatures[0].outputs, keys[i]));
    }
    list = est_meta_graph_def_collection(s.meta, "saved_model_main_op");
    assert_int_equal(list->n, 1);
    assert_non_null(est_graph_def_find(&s.meta->graph, list->nodes[0]));
    assert_int_equal(est_meta_graph_def_collection(s.meta, "local_variables")->n, 4); /* total and count of both */
    assert_int_equal(est_meta_graph_def_collection(s.meta, "variables")->n, 11);
    est_arena_free(s.arena);

    saved_open(&s, path);
    expect_signature(&s, "predict", "tensorflow/serving/predict", 1, 2);
    est_arena_free(s.arena);
    snprintf(inner, sizeof inner, "%s/variables/variables", path);
    ok(est_bundle_open(inner, &bundle)); /* those of training */
    assert_non_null(est_bundle_find(bundle, "hidden/kernel/Momentum"));
    assert_null(est_bundle_find(bundle, "accuracy/total"));
    assert_null(est_bundle_find(bundle, "own/total"));
    est_bundle_close(bundle);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* What only the graph to serve has would not be written: it names the variable. */
static est_status model_with_more_to_serve(est_model *m, est_mode mode, const void *params)
{
    est_node x = est_dense(est_model_feature(m, "x"), 3, EST_DENSE(.name = "logits")), loss;

    (void)params;
    if (mode == EST_PREDICT) x = est_dense(x, 3, EST_DENSE(.name = "more"));
    est_model_predict(m, "logits", x);
    if (mode == EST_PREDICT) return est_model_status(m);
    loss = est_mean(est_sparse_softmax_xent(x, est_model_label(m, "y")));
    est_model_loss(m, loss);
    if (mode == EST_TRAIN) est_model_minimize(m, est_sgd(0.1), loss);
    return est_model_status(m);
}

TEST(a_graph_with_more_variables_than_the_first)
{
    const est_component labelled[] = { shop_raw[0], { .name = "y", .dtype = EST_I64 } };
    char                dir[64], base[128], list[1024];
    est_estimator      *e = NULL;

    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/out", dir);
    e = est_test_make(
        model_with_more_to_serve,
        EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 1, .quiet = true, .cluster_json = "{}")));
    ok(est_train(e, EST_TRAIN_OPTIONS(.input_fn = shop_input, .steps = 1)));
    assert_int_not_equal(
        est_export_saved_model(
            e, base, EST_EXPORT(.input = { .raw = { shop_raw, 1 } }, .train_input = { .raw = { labelled, 2 } }), NULL),
        EST_OK);
    est_test_error_has("the graph to serve");
    est_test_error_has("more/");
    assert_string_equal(shop_list(base, list), "");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(one_other_mode)
{
    char           dir[64], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator *e;
    saved          s;

    est_test_dir(dir);
    e = shop_trained(dir, NULL);
    ok(est_export_saved_model(e, dir, EST_EXPORT(.eval_input = SHOP_LABELLED), path));
    saved_open_tag(&s, path, "eval");
    assert_int_equal(s.model.n_meta_graphs, 1);
    est_arena_free(s.arena);
    assert_int_equal(est_export_saved_model(e, dir, EST_EXPORT(.train_input = SHOP_PARSING), path),
                     EST_INVALID_ARGUMENT);
    est_test_error_has("the graph to train");
    est_test_error_has("the label \"y\"");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- the check ---------------------------------------------------------------------------------------------------- */

TEST(rows_of_the_input_are_kept)
{
    char           dir[64];
    est_estimator *e;
    est_metrics   *metrics = NULL;

    est_test_dir(dir);
    e = shop_trained(dir, NULL);
    assert_int_equal(e->rows.n, 4);
    ok(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = shop_input), &metrics));
    est_metrics_free(metrics);
    assert_int_equal(e->rows.n, 4);
    assert_int_equal(e->rows.n_items, 6); /* x, kind, ids, steps, its lengths, y */
    for (int i = 0; i < e->rows.n_items; i++) {
        if (strcmp(e->rows.items[i].name, "ids") == 0) { /* examples 4 to 7 */
            assert_memory_equal(est_tensor_data(e->rows.items[i].splits), ((const int64_t[]){ 0, 0, 1, 3, 6 }), 40);
            assert_memory_equal(est_tensor_data(e->rows.items[i].values), ((const int64_t[]){ 0, 1, 2, 2, 4, 0 }), 48);
        }
    }
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A number that the exported model gives otherwise: the export fails, names it and is not there. */
TEST(a_mismatch_fails_the_export)
{
    char           dir[64], base[128], list[1024];
    est_estimator *e;
    bool           found = false;

    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/out", dir);
    e = shop_trained(dir, NULL);
    for (int64_t n = 1; !found; n++) {
        est_status status;

        est_fault_arm(n);
        status = est_export_saved_model(e, base, EST_EXPORT(.input = SHOP_PARSING), NULL);
        assert_true(est_fault_fired());
        found = strcmp(est_fault_name(), "export.compare") == 0;
        est_fault_arm(0);
        if (!found) {
            est_test_dir_remove(base); /* of a fault that did no harm, as in reading the newest checkpoint */
            continue;
        }
        assert_int_equal(status, EST_DATA_LOSS);
        est_test_error_has("signature serving_default, output scores, element 0: the exported model gives");
        assert_string_equal(shop_list(base, list), "");
    }
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* Rows that were never seen are made up; a model that takes none of them is exported with a warning. */
TEST(made_up_rows)
{
    char           dir[64];
    est_estimator *e;
    shop_params    from_1 = { .from_1 = true };

    est_test_dir(dir);
    e = shop_trained(dir, NULL);
    est_estimator_free(e);
    e = shop_estimator(dir, NULL); /* saw no input */
    assert_int_equal(e->rows.n, 0);
    log_keep(EST_LOG_WARN);
    ok(est_export_saved_model(e, dir, EST_EXPORT(.input = SHOP_PARSING), NULL));
    assert_string_equal(log_text(), "");
    est_estimator_free(e);
    e = shop_estimator(dir, &from_1);
    ok(est_export_saved_model(e, dir, EST_EXPORT(.input = SHOP_PARSING), NULL));
    log_expect("checked without input");
    log_clear();
    ok(est_train(e, EST_TRAIN_OPTIONS(.input_fn = shop_input, .steps = 1)));
    ok(est_export_saved_model(e, dir, EST_EXPORT(.input = SHOP_PARSING), NULL)); /* has rows now */
    assert_false(log_has("checked without input"));
    log_release();
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* Rows that were seen must be taken: there is no export with made up ones instead. */
TEST(refused_rows_fail_the_export)
{
    char           dir[64], base[128], list[1024];
    est_estimator *e;
    shop_params    doubled = { .doubled = true };

    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/out", dir);
    e = shop_trained(dir, &doubled);
    assert_int_not_equal(est_export_saved_model(e, base, EST_EXPORT(.input = SHOP_PARSING), NULL), EST_OK);
    est_test_error_has("rows that the model accepted before");
    assert_string_equal(shop_list(base, list), "");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* Random numbers cannot be compared; all else still is. */
TEST(random_outputs_are_not_compared)
{
    char           dir[64];
    est_estimator *e;
    shop_params    noise = { .noise = true, .no_export = true };

    est_test_dir(dir);
    e = shop_trained(dir, &noise);
    log_keep(EST_LOG_INFO);
    ok(est_export_saved_model(e, dir, EST_EXPORT(.input = SHOP_PARSING), NULL));
    log_release();
    log_expect("output noise of signature serving_default*random");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

TEST(bad_options_are_refused)
{
    char               dir[64];
    est_estimator     *e;
    est_export_options unmade = { 0 };

    est_test_dir(dir);
    e = shop_estimator(dir, NULL);
    assert_int_equal(est_export_saved_model(e, dir, &unmade, NULL), EST_INVALID_ARGUMENT);
    assert_int_equal(est_export_saved_model(e, dir, EST_EXPORT(.as_text = true), NULL), EST_INVALID_ARGUMENT);
    est_test_error_has("serving input");
    assert_int_equal(est_export_saved_model(e, "", EST_EXPORT(.input = SHOP_PARSING), NULL), EST_INVALID_ARGUMENT);
    assert_int_equal(est_export_saved_model(e, dir, EST_EXPORT(.input = SHOP_PARSING), NULL), EST_NOT_FOUND);
    est_test_error_has("Could not find trained model");
    assert_int_equal(est_export_saved_model(e, dir, EST_EXPORT(.input = { .parse = { shop_specs, 1 } }), NULL),
                     EST_INVALID_ARGUMENT);
    est_test_error_has("kind");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(a_checkpoint_of_another_model)
{
    char           dir[64], list[1024], base[128];
    est_estimator *e;
    shop_params    more = { .second_set = true };

    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/out", dir);
    e = shop_trained(dir, NULL);
    est_estimator_free(e);
    e = shop_estimator(dir, &more);
    assert_int_not_equal(est_export_saved_model(e, base, EST_EXPORT(.input = SHOP_PARSING), NULL), EST_OK);
    est_test_error_has("more/kernel");
    assert_string_equal(shop_list(base, list), "");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* Two exports in one second: the second waits for the next, and nobody needs to look. A clock that stands still, but
 * for sleeping. */
TEST(a_second_that_is_taken)
{
    char           dir[64], list[1024], base[128], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator *e;

    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/out", dir);
    e = shop_trained(dir, NULL);
    est_manual_clock_init(&standing, EST_NS_PER_SEC, INT64_C(1700000000) * EST_NS_PER_SEC);
    log_keep(EST_LOG_INFO);
    ok(est_export_saved_model(e, base, EST_EXPORT(.input = SHOP_PARSING), path));
    assert_non_null(strstr(path, "/1700000000"));
    ok(est_export_saved_model(e, base, EST_EXPORT(.input = SHOP_PARSING), path));
    log_release();
    assert_int_equal(log_count(EST_LOG_ERROR, "") + log_count(EST_LOG_WARN, ""), 0);
    assert_false(log_has("random seed"));
    assert_string_equal(shop_list(base, list), "1700000000 1700000001 ");
    for (int i = 0; i < 12; i++) { /* ten attempts, then it gives up */
        char taken[256];

        snprintf(taken, sizeof taken, "%s/%d", base, 1700000001 + i);
        ok(est_dir_create(taken));
    }
    est_manual_clock_init(&standing, EST_NS_PER_SEC, INT64_C(1700000002) * EST_NS_PER_SEC);
    assert_int_equal(est_export_saved_model(e, base, EST_EXPORT(.input = SHOP_PARSING), path), EST_ALREADY_EXISTS);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static void sleep_and_signal(void *user, int64_t ns)
{
    est_manual_clock_advance(user, ns);
    raise(SIGTERM);
}

/* A signal ends the wait for a name. */
TEST(a_signal_while_waiting_for_a_name)
{
    char           dir[64], list[1024], base[128];
    est_clock      clock;
    est_estimator *e;

    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/out", dir);
    e = shop_trained(dir, NULL);
    est_manual_clock_init(&standing, EST_NS_PER_SEC, INT64_C(1700000000) * EST_NS_PER_SEC);
    ok(est_export_saved_model(e, base, EST_EXPORT(.input = SHOP_PARSING), NULL));
    clock          = standing.clock;
    clock.sleep_ns = sleep_and_signal;
    est_clock_set(&clock);
    assert_int_equal(est_export_saved_model(e, base, EST_EXPORT(.input = SHOP_PARSING), NULL), EST_CANCELLED);
    est_clock_set(&standing.clock);
    assert_string_equal(shop_list(base, list), "1700000000 ");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* Whatever fails: the export of before is untouched, nothing half-made is left, and the next one works. */
TEST(every_fault_keeps_the_export_before)
{
    char           dir[64], list[1024], first[1024], base[128], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator *e;
    shop_params    plain    = { .plain = true };
    int            n_failed = 0;

    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/out", dir);
    e = shop_trained(dir, &plain);
    ok(est_export_saved_model(e, base, EST_EXPORT(.input = { .raw = { shop_raw, 1 } }), NULL));
    shop_list(base, first);
    FAULT_LOOP(f, FAULT_POINTS, .more_than = 10) {
        est_status status;

        fault_arm(&f);
        status = est_export_saved_model(e, base, EST_EXPORT(.input = { .raw = { shop_raw, 1 } }), path);
        if (status != EST_OK) {
            n_failed++;
            if (strcmp(shop_list(base, list), first) != 0) fail_msg("%s left %s", est_fault_name(), list);
        } else { /* of a fault that did no harm, as in reading the newest checkpoint */
            est_test_dir_remove(path);
        }
        if (!fault_end(&f)) ok(status);
    }
    assert_true(n_failed > 10);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* Longer exports tell places apart by fewer calls. */
static void fail_allocations(const shop_params *params, const est_export_options *options, int depth)
{
    char           dir[64], list[1024], base[128], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator *e;

    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/out", dir);
    e = shop_trained(dir, params);
    FAULT_LOOP(f, FAULT_PLACES, .depth = depth) {
        est_status status;

        fault_arm(&f);
        status = est_export_saved_model(e, base, options, path);
        if (!fault_end(&f)) ok(status);
        if (status == EST_OK)
            ok(est_dir_remove(path)); /* also of a failure that did no harm, as in a line of the log */
        if (strcmp(shop_list(base, list), "") != 0) fail_msg("allocation %" PRId64 " left %s", f.n, list);
    }
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(every_allocation_may_fail)
{
    fail_allocations(&(shop_params){ .plain = true, .one = true }, EST_EXPORT(.input = { .raw = { shop_raw, 1 } }), 0);
    fail_allocations(NULL,
                     EST_EXPORT(.input = { .parse        = { shop_specs, SHOP_FEATURES },
                                           .alternatives = { &(est_receiver_alternative){ .name = "parsed" }, 1 } }),
                     2);
    fail_allocations(NULL, EST_EXPORT(.input = SHOP_PARSING, .train_input = SHOP_LABELLED, .eval_input = SHOP_LABELLED),
                     1);
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR);
    est_manual_clock_init(&standing, EST_NS_PER_SEC, INT64_C(1600000000) * EST_NS_PER_SEC);
    est_clock_set(&standing.clock);
    return est_test_run(NULL, NULL);
}
