/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks as SavedModels: predictions of what is loaded again, names, directories, and failures.
 * tests/interop/network_files.c has TensorFlow run them. */
#include <sys/stat.h>

#include "base/file.h"
#include "estoc/predictor.h"
#include "estoc/saved_model.h"
#include "network/network_test.h"

/* What a SavedModel predicts for one batch. */
static est_tensor *predict_from(const char *dir, est_named_tensors inputs, const char *output)
{
    est_saved_model *saved;
    est_predictor   *predictor;
    est_tensor      *value;

    assert_ok(est_saved_model_load(dir, NULL, &saved));
    assert_int_equal(est_saved_model_signatures(saved), 1);
    assert_ok(est_predictor_create(saved, NULL, NULL, &predictor));
    assert_int_equal(est_predictor_outputs(predictor).n, 1);
    assert_string_equal(est_predictor_outputs(predictor).data[0].name, output);
    assert_int_equal(est_predictor_inputs(predictor).n, inputs.n);
    assert_ok(est_predictor_run(predictor, inputs, &value));
    est_predictor_free(predictor);
    est_saved_model_free(saved);
    return value;
}

static void expect_same(est_network *network, const char *dir, est_named_tensors inputs, const char *output)
{
    est_tensor *want, *got = predict_from(dir, inputs, output);

    assert_ok(est_network_predict_on_batch(network, inputs, &want));
    assert_int_equal(est_tensor_bytes(got), est_tensor_bytes(want));
    assert_memory_equal(est_tensor_data(got), est_tensor_data(want), est_tensor_bytes(want));
    est_tensor_free(want);
    est_tensor_free(got);
}

TEST(sequential)
{
    est_network *network;
    est_tensor  *x = noise(16, 36, 3), *image, *y = noise(16, 2, 4);

    assert_ok(est_network_sequential(EST_LAYERS(est_layer_conv2d(4, 3, EST_CONV2D(.activation = est_relu)),
                                                est_layer_batch_norm(NULL), est_layer_max_pool2d(2, NULL),
                                                est_layer_flatten(NULL), est_layer_dropout(0.5, NULL),
                                                est_layer_dense(2, NULL)),
                                     EST_NETWORK(.seed = 1), &network));
    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(16, 6, 6, 1), est_tensor_data(x), &image));
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "mse", .optimizer = "adam")));
    assert_ok(est_network_fit(
        network, EST_FIT(.arrays = EST_NAMED_TENSORS({ "image", image }, { "y", y }), .verbose = EST_VERBOSE_NONE),
        NULL));
    assert_ok(est_network_save(network, test_path("cnn")));
    expect_same(network, test_path("cnn"), EST_NAMED_TENSORS({ "image", image }), "dense");
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(image);
    est_tensor_free(y);
}

/* Two inputs, one of them of numbers that are looked up, and layers that are no objects. */
static est_node model(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node id = est_network_input_node(inputs, "id"), x = est_network_input_node(inputs, "x");
    est_node rows = est_layer_call(user, id, training);

    (void)graph;
    return est_dense(est_concat(EST_NODES(rows, x), -1), 3, EST_DENSE(.name = "scores"));
}

TEST(functional)
{
    est_layer   *embedding = est_layer_embedding(10, 4, NULL);
    est_network *network;
    est_tensor  *x = noise(3, 2, 3), *id;

    assert_ok(est_tensor_i64(EST_SHAPE(3), (const int64_t[]){ 1, 9, 0 }, &id));
    assert_ok(est_network_create(
        model,
        EST_NETWORK(.user = embedding, .seed = 2,
                    .inputs = EST_INPUTS({ "id", EST_I64, EST_SHAPE_SCALAR }, { "x", EST_F32, EST_SHAPE(2) })),
        &network));
    assert_ok(est_network_save(network, test_path("functional/")));
    expect_same(network, test_path("functional"), EST_NAMED_TENSORS({ "id", id }, { "x", x }), "scores");
    est_network_free(network);
    est_layer_free(embedding);
    est_tensor_free(x);
    est_tensor_free(id);
}

/* A SavedModel is replaced, other files are not; a failure leaves what is there. */
TEST(directories)
{
    est_network *a, *b;
    est_tensor  *x = noise(2, 3, 5), *ones = floats(EST_SHAPE(3, 1), (const float[]){ 1, 1, 1 });
    const char  *dir = test_path("line");

    assert_ok(try_line(EST_NETWORK(.inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(3) })), &a));
    assert_ok(try_line(EST_NETWORK(.inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(3) })), &b));
    assert_ok(est_network_build(b, NULL));
    assert_ok(est_session_write(est_network_session(b), "dense/kernel", ones));
    assert_int_equal(mkdir(dir, 0777), 0);
    assert_ok(est_network_save(a, dir)); /* an empty directory is none */
    expect_same(a, dir, EST_NAMED_TENSORS({ "x", x }), "dense");
    assert_ok(est_network_save(b, dir));
    expect_same(b, dir, EST_NAMED_TENSORS({ "x", x }), "dense");
    assert_int_equal(mkdir(test_path("line/1"), 0777), 0); /* a version that a server loads, say */
    assert_ok(est_file_replace(test_path("line/1/notes"), "mine", 4));
    expect_error(est_network_save(a, dir), EST_ALREADY_EXISTS, "has 1 beside its SavedModel");
    assert_true(est_file_exists(test_path("line/1/notes")));
    expect_same(b, dir, EST_NAMED_TENSORS({ "x", x }), "dense");
    assert_ok(est_dir_remove(test_path("line/1")));
    assert_ok(est_file_replace(test_path("file"), "mine", 4));
    expect_error(est_network_save(a, test_path("file")), EST_ALREADY_EXISTS, "no SavedModel");
    expect_error(est_network_save(a, test_path("file/inside")), EST_ALREADY_EXISTS, "file is not a directory");
    expect_error(est_network_save(a, ""), EST_INVALID_ARGUMENT, "no name");
    expect_error(est_network_save(a, NULL), EST_INVALID_ARGUMENT, "dir is NULL");
    FAULT_LOOP(f, FAULT_PLACES) {
        est_status status;

        fault_arm(&f);
        status = est_network_save(a, dir);
        fault_check_lenient(&f, status);
        if (status != EST_OK) expect_same(b, dir, EST_NAMED_TENSORS({ "x", x }), "dense");
        assert_ok(est_network_save(b, dir));
    }
    est_network_free(a);
    est_network_free(b);
    est_tensor_free(x);
    est_tensor_free(ones);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
