/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports given to TensorFlow: both of its loaders, the one of TensorFlow Serving and saved_model_cli take them, and
 * every signature gives what the model here predicts; graphs to train with train as they do here. And ParseExampleV2
 * here gives what TensorFlow's does, and what tf.io.parse_example does. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "graph/graph_export.h"
#include "support/export_test.h"
#include "support/interop.h"

#define EXAMPLES 8

static est_tensor *examples(void)
{
    est_tensor *tensor = NULL;

    interop_check(est_tensor_create(EST_STRING, EST_SHAPE(EXAMPLES), &tensor));
    for (int64_t i = 0; i < EXAMPLES; i++) {
        est_str bytes = shop_example(i);

        interop_check(est_tensor_set_string(tensor, i, bytes.data, bytes.size));
    }
    return tensor;
}

/* The examples and what the model says of them, a batch of four after the other: "logits 0", "logits 1", ... */
static void save_expected(est_estimator *e, const char *name)
{
    est_predictions *p   = NULL;
    est_strbuf       out = { 0 };
    est_tensor      *all = examples();
    char             key[64];

    interop_tensor(&out, "examples", all);
    interop_check(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = shop_input, .batches = true), &p));
    for (int batch = 0; batch < 2; batch++) {
        interop_check(est_predictions_next(p));
        for (int i = 0; i < est_predictions_count(p); i++) {
            snprintf(key, sizeof key, "%s %d", est_predictions_key(p, i), batch);
            interop_tensor(&out, key, est_predictions_get(p, est_predictions_key(p, i)));
        }
    }
    est_predictions_free(p);
    est_tensor_free(all);
    interop_save(name, &out);
}

/* Trains, exports, says where to. */
static void export(const char *name, const shop_params *params, const est_export_options *options)
{
    char           dir[64], path[EST_CHECKPOINT_PATH_MAX], file[64];
    est_estimator *e;
    est_strbuf     out = { 0 };

    est_test_dir(dir);
    e = shop_trained(dir, params);
    interop_check(est_export_saved_model(e, interop_path(name), options, path));
    snprintf(file, sizeof file, "%s.expected", name);
    save_expected(e, file);
    interop_blob(&out, path, strlen(path));
    snprintf(file, sizeof file, "%s.path", name);
    interop_save(file, &out);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(parsing)
{
    const est_receiver_alternative parsed = { .name = "parsed" };

    export("parsing", NULL,
           EST_EXPORT(.input = { .parse = { shop_specs, SHOP_FEATURES }, .alternatives = { &parsed, 1 } }));
    interop_ask("check_parsing");
}

TEST(text)
{
    export("text", &(shop_params){ .no_export = true }, EST_EXPORT(.input = SHOP_PARSING, .as_text = true));
    interop_ask("check_text");
}

TEST(raw)
{
    export("raw", &(shop_params){ .no_steps = true, .no_export = true },
           EST_EXPORT(.input = { .raw = { shop_raw, 3 } }));
    interop_ask("check_raw");
}

/* Says where an export is and the checkpoint that training to `max_steps` here ends in. */
static void train_on(est_estimator *e, est_input_fn input, int64_t max_steps, const char *exported, const char *name)
{
    char       checkpoint[EST_CHECKPOINT_PATH_MAX];
    est_strbuf out = { 0 };

    interop_check(est_train(e, EST_TRAIN_OPTIONS(.input_fn = input, .max_steps = max_steps)));
    interop_check(est_checkpoint_latest(est_estimator_model_dir(e), checkpoint));
    interop_blob(&out, exported, strlen(exported));
    interop_blob(&out, checkpoint, strlen(checkpoint));
    interop_save(name, &out);
}

/* One export to train, to evaluate and to serve. */
TEST(modes)
{
    char             dir[64], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator   *e;
    est_metrics     *metrics = NULL;
    est_predictions *p       = NULL;
    est_tensor      *all = examples(), *number = NULL, *logits = NULL;
    est_strbuf       out = { 0 };

    est_test_dir(dir);
    e = shop_trained(dir, &(shop_params){ .steady = true, .own_metric = true });
    interop_check(est_export_saved_model(
        e, interop_path("modes"),
        EST_EXPORT(.input = SHOP_PARSING, .train_input = SHOP_LABELLED, .eval_input = SHOP_LABELLED), path));
    interop_check(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = shop_input), &metrics));
    interop_tensor(&out, "examples", all);
    for (int i = 0; i < 3; i++) {
        const char *name  = (const char *[]){ "loss", "accuracy", "own" }[i];
        float       value = (float)est_metrics_get(metrics, name);

        interop_check(est_tensor_f32(EST_SHAPE_SCALAR, &value, &number));
        interop_tensor(&out, name, number);
        est_tensor_free(number);
    }
    est_metrics_free(metrics);
    interop_check(est_tensor_create(EST_F32, EST_SHAPE(EXAMPLES, 3), &logits));
    interop_check(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = shop_input, .batches = true), &p));
    for (int batch = 0; batch < 2; batch++) {
        interop_check(est_predictions_next(p));
        memcpy((float *)est_tensor_mutable_data(logits) + (ptrdiff_t)batch * 12,
               est_tensor_data(est_predictions_get(p, "logits")), 12 * sizeof(float));
    }
    interop_tensor(&out, "logits", logits);
    interop_save("modes.expected", &out);
    train_on(e, shop_input, 7, path, "modes.path");
    interop_ask("check_modes");
    est_predictions_free(p);
    est_tensor_free(logits);
    est_tensor_free(all);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- a network for images ----------------------------------------------------------------------------------------- */

/* With params there is no dropout. */
static est_status image_model(est_model *m, est_mode mode, const void *params)
{
    est_node x = est_model_feature(m, "image"), logits, loss;

    x      = est_conv2d_layer(x, 4, 3, EST_CONV2D(.padding = EST_SAME, .activation = est_relu));
    x      = est_max_pool2d(est_batch_norm(x, mode == EST_TRAIN, NULL), 2, NULL);
    x      = est_depthwise_conv2d_layer(x, 1, 3, EST_CONV2D(.activation = est_relu));
    x      = est_dropout_layer(est_flatten(x), 0.5, mode == EST_TRAIN && params == NULL);
    x      = est_tile(x, EST_I64S(1, 2));
    logits = est_dense(x, 3, NULL);
    est_model_predict(m, "logits", logits);
    est_model_predict(m, "digit", est_argmax(logits, -1));
    if (mode == EST_PREDICT) return est_model_status(m);
    loss = est_mean(est_sparse_softmax_xent(logits, est_model_label(m, "digit")));
    est_model_loss(m, loss);
    if (mode == EST_TRAIN) est_model_minimize(m, est_adam(0.01, NULL), loss);
    return est_model_status(m);
}

static est_tensor *images(void)
{
    float       pixels[EXAMPLES * 64];
    est_tensor *tensor = NULL;

    for (int i = 0; i < EXAMPLES * 64; i++) pixels[i] = (float)((i * 37) % 101) / 50 - 1;
    interop_check(est_tensor_f32(EST_SHAPE(EXAMPLES, 8, 8, 1), pixels, &tensor));
    return tensor;
}

static const int64_t image_digits[EXAMPLES] = { 0, 1, 2, 0, 1, 2, 0, 1 };

static est_status image_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_tensor  *image = images(), *digit = NULL;
    est_dataset *d;

    (void)user;
    interop_check(est_tensor_i64(EST_SHAPE(EXAMPLES), image_digits, &digit));
    d = est_dataset_slices(EST_NAMED_TENSORS({ "image", image }, { "digit", digit }));
    est_tensor_free(image);
    est_tensor_free(digit);
    if (context->mode == EST_TRAIN) d = est_dataset_repeat(d, EST_FOREVER);
    return est_dataset_finish(est_dataset_batch(d, EXAMPLES, NULL), out);
}

TEST(images)
{
    const est_component image = { .name = "image", .dtype = EST_F32, .shape = { 3, { 8, 8, 1 } } };
    char                dir[64], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator      *e    = NULL;
    est_predictions    *p    = NULL;
    est_tensor         *feed = images();
    est_strbuf          out  = { 0 };

    est_test_dir(dir);
    interop_check(est_estimator_create(
        image_model,
        EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 3, .quiet = true, .cluster_json = "{}")), &e));
    interop_check(est_train(e, EST_TRAIN_OPTIONS(.input_fn = image_input, .steps = 5)));
    interop_check(
        est_export_saved_model(e, interop_path("images"), EST_EXPORT(.input = { .raw = { &image, 1 } }), path));
    interop_check(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = image_input, .batches = true), &p));
    interop_check(est_predictions_next(p));
    interop_tensor(&out, "image", feed);
    interop_tensor(&out, "logits", est_predictions_get(p, "logits"));
    interop_tensor(&out, "digit", est_predictions_get(p, "digit"));
    interop_save("images.expected", &out);
    interop_blob(&out, path, strlen(path));
    interop_save("images.path", &out);
    est_predictions_free(p);
    est_tensor_free(feed);
    est_estimator_free(e);
    est_test_dir_remove(dir);
    interop_ask("check_images");
}

TEST(image_training)
{
    const est_component features[] = { { .name = "image", .dtype = EST_F32, .shape = { 3, { 8, 8, 1 } } },
                                       { .name = "digit", .dtype = EST_I64 } };
    const bool          no_dropout = true;
    char                dir[64], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator      *e    = NULL;
    est_tensor         *feed = images(), *digit = NULL;
    est_strbuf          out = { 0 };

    est_test_dir(dir);
    interop_check(est_estimator_create(
        image_model,
        EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 3, .quiet = true, .cluster_json = "{}"),
                      .params = &no_dropout, .params_size = sizeof no_dropout),
        &e));
    interop_check(est_train(e, EST_TRAIN_OPTIONS(.input_fn = image_input, .steps = 5)));
    interop_check(est_export_saved_model(e, interop_path("image-training"),
                                         EST_EXPORT(.train_input = { .raw = { features, 2 } }), path));
    interop_check(est_tensor_i64(EST_SHAPE(EXAMPLES), image_digits, &digit));
    interop_tensor(&out, "image", feed);
    interop_tensor(&out, "digit", digit);
    interop_save("image-training.feeds", &out);
    train_on(e, image_input, 8, path, "image-training.path");
    interop_ask("check_image_training");
    est_tensor_free(feed);
    est_tensor_free(digit);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- the op ------------------------------------------------------------------------------------------------------- */

TEST(parse_op)
{
    est_graph      *graph   = NULL;
    est_session    *session = NULL;
    est_arena      *arena   = est_arena_create();
    est_tensor     *all     = examples(), *values[6];
    est_parsed      parsed[SHOP_FEATURES];
    est_node        in, nodes[6];
    est_graph_def   def;
    est_strbuf      out = { 0 };
    est_wire_writer w   = { 0 };

    interop_check(est_graph_create(1, &graph));
    in = est_placeholder(graph, "examples", EST_STRING, EST_SHAPE(-1));
    est_parse_examples(in, (est_feature_specs){ shop_specs, SHOP_FEATURES }, parsed);
    nodes[0] = parsed[0].values, nodes[1] = parsed[1].values, nodes[2] = parsed[2].values, nodes[3] = parsed[2].splits;
    nodes[4] = parsed[3].values, nodes[5] = parsed[3].lengths;
    interop_check(est_session_create(graph, NULL, &session));
    interop_check(est_session_run(session, EST_FEEDS({ in, all }), (est_nodes){ nodes, 6 }, EST_NO_NODES, values));
    interop_tensor(&out, "examples", all);
    for (int i = 0; i < 6; i++) {
        char name[256];

        snprintf(name, sizeof name, "%s:%d", est_node_name(nodes[i]), (int)nodes[i].output);
        interop_tensor(&out, name, values[i]);
        est_tensor_free(values[i]);
    }
    interop_save("parse.values", &out);
    est_graph_def_init(&def, arena);
    interop_check(est_graph_export(graph, &def));
    interop_check(est_graph_def_put(&w, &def));
    interop_check(est_file_replace(interop_path("parse.pb"), w.data, w.size));
    est_wire_writer_clear(&w);
    est_tensor_free(all);
    est_session_free(session);
    est_graph_free(graph);
    est_arena_free(arena);
    interop_ask("check_parse");
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR);
    return INTEROP_MAIN("export");
}
