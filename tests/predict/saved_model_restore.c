/* SPDX-License-Identifier: Apache-2.0
 *
 * Large variables of a SavedModel are mapped from its files: same predictions, damage is found, no SIGBUS. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "estoc/network.h"
#include "estoc/predictor.h"
#include "predict/saved_model.h"
#include "runtime/session.h"
#include "support/dir_test.h"
#include "support/estimator_test.h"
#include "support/test.h"

#define N_IN  300
#define UNITS 128 /* a kernel of 150 KiB */

static char folder[64], model_path[96], data_path[192];

/* A network of one layer, saved. */
static est_network *save_network(void)
{
    est_network *network;

    est_test_dir(folder);
    snprintf(model_path, sizeof model_path, "%s/model", folder);
    snprintf(data_path, sizeof data_path, "%s/variables/variables.data-00000-of-00001", model_path);
    assert_int_equal(est_network_sequential(
                         EST_LAYERS(est_layer_dense(UNITS, NULL)),
                         EST_NETWORK(.seed = 1, .inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(N_IN) })), &network),
                     EST_OK);
    assert_int_equal(est_network_save(network, model_path), EST_OK);
    return network;
}

static est_tensor *batch(void)
{
    est_tensor *x;

    assert_int_equal(est_tensor_create(EST_F32, EST_SHAPE(3, N_IN), &x), EST_OK);
    for (int i = 0; i < 3 * N_IN; i++) ((float *)est_tensor_mutable_data(x))[i] = (float)(i % 17) - 8;
    return x;
}

static const est_var *variable(const est_saved_model *model, const char *name)
{
    est_store *store;

    assert_int_equal(est_session_store(est_saved_model_session(model), &store), EST_OK);
    return est_store_find(store, name);
}

TEST(large_variables_are_mapped)
{
    est_network     *network = save_network();
    est_saved_model *model;
    est_predictor   *predictor;
    est_tensor      *x = batch(), *want, *got;

    assert_int_equal(est_network_predict_on_batch(network, EST_NAMED_TENSORS({ "x", x }), &want), EST_OK);
    for (int no_verify = 0; no_verify < 2; no_verify++) {
        assert_int_equal(est_saved_model_load(model_path, EST_SAVED_MODEL(.no_verify = no_verify == 1), &model),
                         EST_OK);
        assert_non_null(variable(model, "dense/kernel")->mapping.pages);
        assert_int_equal((uintptr_t)variable(model, "dense/kernel")->value.data % EST_ALIGNMENT, 0);
        assert_null(variable(model, "dense/bias")->mapping.pages); /* small */
        assert_int_equal(est_predictor_create(model, NULL, NULL, &predictor), EST_OK);
        assert_int_equal(est_predictor_run(predictor, EST_NAMED_TENSORS({ "x", x }), &got), EST_OK);
        assert_memory_equal(est_tensor_data(got), est_tensor_data(want), est_tensor_bytes(want));
        est_tensor_free(got);
        est_predictor_free(predictor);
        est_saved_model_free(model);
    }
    est_tensor_free(want);
    est_tensor_free(x);
    est_network_free(network);
    est_test_dir_remove(folder);
}

/* The files may go while the model is loaded. */
TEST(removed_files_stay_mapped)
{
    est_network     *network = save_network();
    est_saved_model *model;
    est_predictor   *predictor;
    est_tensor      *x = batch(), *got;

    assert_int_equal(est_saved_model_load(model_path, NULL, &model), EST_OK);
    est_test_dir_remove(folder);
    assert_int_equal(est_predictor_create(model, NULL, NULL, &predictor), EST_OK);
    assert_int_equal(est_predictor_run(predictor, EST_NAMED_TENSORS({ "x", x }), &got), EST_OK);
    est_tensor_free(got);
    est_predictor_free(predictor);
    est_saved_model_free(model);
    est_tensor_free(x);
    est_network_free(network);
}

static void change_byte(long at)
{
    FILE *file = fopen(data_path, "r+b");
    int   c;

    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    c = fgetc(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_not_equal(fputc(c ^ 1, file), EOF);
    assert_int_equal(fclose(file), 0);
}

TEST(damaged_files_are_errors)
{
    est_network     *network = save_network();
    est_saved_model *model   = NULL;
    struct stat      info;

    assert_int_equal(stat(data_path, &info), 0);
    change_byte((long)info.st_size / 2);
    assert_int_equal(est_saved_model_load(model_path, NULL, &model), EST_DATA_LOSS);
    est_test_error_has("wrong checksum; the file is damaged");
    assert_int_equal(est_saved_model_load(model_path, EST_SAVED_MODEL(.no_verify = true), &model), EST_OK);
    est_saved_model_free(model);
    model = NULL;
    assert_int_equal(truncate(data_path, info.st_size - N_IN * UNITS * 2), 0);
    for (int no_verify = 0; no_verify < 2; no_verify++) {
        assert_int_equal(est_saved_model_load(model_path, EST_SAVED_MODEL(.no_verify = no_verify == 1), &model),
                         EST_DATA_LOSS);
        est_test_error_has("the file ends before it does");
    }
    assert_null(model);
    est_network_free(network);
    est_test_dir_remove(folder);
}
