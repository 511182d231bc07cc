/* SPDX-License-Identifier: Apache-2.0
 *
 * Preprocessing layers: values, what adapt takes from data, variables, and what is refused. tests/interop/layers.c
 * compares with Keras. */
#include "estoc/input.h"
#include "estoc/preprocessing.h"
#include "nn/layer.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

/* A dataset of batches of `n` rows. */
static est_dataset *numbers(est_shape shape, const float *values, int64_t n)
{
    est_tensor  *tensor = NULL;
    est_dataset *dataset, *finished = NULL;

    assert_ok(est_tensor_f32(shape, values, &tensor));
    dataset = est_dataset_batch(est_dataset_slices(EST_NAMED_TENSORS({ "x", tensor })), n, NULL);
    est_tensor_free(tensor);
    assert_ok(est_dataset_finish(dataset, &finished));
    return finished;
}

static void check_values(nn_test *t, est_node node, int n, const double *want)
{
    double got[64];

    assert_int_equal(nn_fetch(t, node, got, 64), n);
    for (int i = 0; i < n; i++) assert_near(got[i], want[i], 1e-6);
}

static void expect(est_status status, est_status want, const char *text)
{
    assert_int_equal(status, want);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in: %s", text, est_error_message());
}

/* --- normalization ------------------------------------------------------------------------------------------------ */

TEST(normalization)
{
    nn_test      t       = nn_begin(1);
    est_dataset *data    = numbers(EST_SHAPE(3, 2), (float[]){ 1, 10, 2, 30, 6, 20 }, 2);
    est_layer   *columns = est_layer_normalization(NULL),
              *all       = est_layer_normalization(EST_NORMALIZATION(.over_all = true)),
              *back      = est_layer_normalization(
                       EST_NORMALIZATION(.mean = EST_F32S(3), .variance = EST_F32S(4), .invert = true));
    est_node x = nn_const(t.graph, EST_SHAPE(1, 2), NN_VALUES(5, 15)), y[3];
    double   read[2], variance;
    int64_t  trained, others;

    assert_ok(est_layer_adapt(columns, data, "x"));
    assert_ok(est_layer_adapt(columns, data, "x")); /* again, from the start */
    assert_ok(est_layer_adapt(all, data, "x"));
    y[0] = est_layer_call(columns, x, true);
    y[1] = est_layer_call(all, est_cast(x, EST_I64), true);
    y[2] = est_layer_call(back, x, true);
    (void)est_layer_call(columns, x, false);
    est_layer_count_params(columns, t.graph, &trained, &others);
    assert_int_equal(trained, 0);
    assert_int_equal(others, 5);
    nn_ready(&t);
    assert_int_equal(nn_read(&t, "normalization/mean", read, 2), 2);
    assert_near(read[0], 3, 1e-6);
    assert_near(read[1], 20, 1e-6);
    assert_int_equal(nn_read(&t, "normalization/count", read, 1), 1);
    assert_near(read[0], 3, 0);
    nn_read(&t, "normalization/variance", read, 2);
    variance = (4 + 1 + 9) / 3.0;
    assert_near(read[0], variance, 1e-6);
    assert_near(read[1], 200.0 / 3, 1e-6);
    check_values(&t, y[0], 2, NN_VALUES(2 / sqrt(variance), -5 / sqrt(200.0 / 3)));
    variance = (1 + 100 + 4 + 900 + 36 + 400) / 6.0 - 11.5 * 11.5;
    check_values(&t, y[1], 2, NN_VALUES(-6.5 / sqrt(variance), 3.5 / sqrt(variance)));
    check_values(&t, y[2], 2, NN_VALUES(13, 33));
    expect(est_layer_adapt(back, data, "x"), EST_FAILED_PRECONDITION, "created with its mean");
    est_layer_free(columns);
    est_layer_free(all);
    est_layer_free(back);
    est_dataset_free(data);
    nn_end(&t);
}

/* --- discretization ----------------------------------------------------------------------------------------------- */

TEST(discretization)
{
    nn_test      t     = nn_begin(1);
    est_layer   *fixed = est_layer_discretization(EST_DISCRETIZATION(.boundaries = EST_F32S(0, 1.5F, 2)));
    est_layer   *taken = est_layer_discretization(EST_DISCRETIZATION(.num_bins = 4));
    est_node     x     = nn_const(t.graph, EST_SHAPE(4), NN_VALUES(-1, 0, 1.9, 7)), y[2];
    float        many[100];
    est_dataset *data;

    for (int i = 0; i < 100; i++) many[i] = (float)(i * 37 % 100) / 10;
    data = numbers(EST_SHAPE(100), many, 25);
    assert_int_equal(est_layer_boundaries(taken).n, 0);
    assert_int_equal(est_layer_boundaries(NULL).n, 0);
    assert_ok(est_layer_adapt(taken, data, "x"));
    assert_int_equal(est_layer_boundaries(taken).n, 3);
    for (int i = 0; i < 3; i++) assert_near(est_layer_boundaries(taken).data[i], 2.5 * (i + 1) - 0.1, 1e-5);
    y[0] = est_layer_call(fixed, x, true);
    y[1] = est_layer_call(taken, x, true);
    nn_ready(&t);
    check_values(&t, y[0], 4, NN_VALUES(0, 1, 2, 3));
    check_values(&t, y[1], 4, NN_VALUES(0, 0, 0, 2));
    expect(est_layer_adapt(fixed, data, "x"), EST_FAILED_PRECONDITION, "created with its boundaries");
    est_layer_free(fixed);
    est_layer_free(taken);
    est_dataset_free(data);
    nn_end(&t);
}

/* --- categories --------------------------------------------------------------------------------------------------- */

TEST(category_encoding)
{
    nn_test    t        = nn_begin(1);
    est_layer *multi    = est_layer_category_encoding(4, NULL),
              *one      = est_layer_category_encoding(4, EST_CATEGORY_ENCODING(.mode = EST_ONE_HOT)),
              *count    = est_layer_category_encoding(4, EST_CATEGORY_ENCODING(.mode = EST_COUNTS));
    est_node    x       = est_const_i64(t.graph, EST_SHAPE(2, 2), (int64_t[]){ 1, 1, 0, 3 });
    est_node    column  = est_const_i64(t.graph, EST_SHAPE(2, 1), (int64_t[]){ 1, 2 });
    est_node    row     = est_const_i64(t.graph, EST_SHAPE(2), (int64_t[]){ 1, 2 });
    est_node    bad     = est_const_i64(t.graph, EST_SHAPE(1, 1), (int64_t[]){ 4 }), y[6];
    est_node    weights = nn_const(t.graph, EST_SHAPE(2, 2), NN_VALUES(1, 2, 3, 4));
    est_tensor *out     = NULL;

    y[0] = est_layer_call(multi, x, true);
    y[1] = est_layer_call(one, column, true);
    y[2] = est_layer_call(one, row, true);
    y[3] = est_layer_call(count, x, true);
    y[4] = est_layer_call_with(count, EST_NODES(x, weights), NULL);
    y[5] = est_layer_call(multi, bad, true);
    nn_ready(&t);
    check_values(&t, y[0], 8, NN_VALUES(0, 1, 0, 0, 1, 0, 0, 1));
    check_values(&t, y[1], 8, NN_VALUES(0, 1, 0, 0, 0, 0, 1, 0));
    check_values(&t, y[2], 8, NN_VALUES(0, 1, 0, 0, 0, 0, 1, 0));
    check_values(&t, y[3], 8, NN_VALUES(0, 2, 0, 0, 1, 0, 0, 1));
    check_values(&t, y[4], 8, NN_VALUES(0, 3, 0, 0, 3, 0, 0, 4));
    expect(est_session_run(t.session, EST_NO_FEEDS, EST_NODES(y[5]), EST_NO_NODES, &out), EST_INVALID_ARGUMENT,
           "CategoryEncoding");
    (void)est_layer_call_with(multi, EST_NODES(x, weights), NULL);
    expect(est_graph_status(t.graph), EST_INVALID_ARGUMENT, "weights are for EST_COUNTS");
    est_layer_free(multi);
    est_layer_free(one);
    est_layer_free(count);
    nn_end(&t);
}

/* The bins are Keras'. */
TEST(hashing)
{
    nn_test    t     = nn_begin(1);
    est_layer *plain = est_layer_hashing(3, NULL), *masked = est_layer_hashing(3, EST_HASHING(.mask_value = "0"));
    est_node   x = est_const_i64(t.graph, EST_SHAPE(3), (int64_t[]){ 0, 1, 2 }), y[3];

    y[0] = est_layer_call(plain, x, true);
    y[1] = est_layer_call(plain, est_as_string(x), true);
    y[2] = est_layer_call(masked, x, true);
    nn_ready(&t);
    check_values(&t, y[0], 3, NN_VALUES(1, 0, 1));
    check_values(&t, y[1], 3, NN_VALUES(1, 0, 1));
    check_values(&t, y[2], 3, NN_VALUES(0, 2, 2));
    (void)est_layer_call(plain, nn_const(t.graph, EST_SHAPE(1), NN_VALUES(1)), true);
    expect(est_graph_status(t.graph), EST_INVALID_ARGUMENT, "it takes strings or integers");
    est_layer_free(plain);
    est_layer_free(masked);
    nn_end(&t);
}

/* Those of Keras' salt=133, salt=[133, 137] and salt=133 with a mask. */
TEST(hashing_with_salt)
{
    nn_test    t    = nn_begin(1);
    est_layer *l[3] = { est_layer_hashing(3, EST_HASHING(.salt = EST_I64S(133))),
                        est_layer_hashing(3, EST_HASHING(.salt = EST_I64S(133, 137))),
                        est_layer_hashing(3, EST_HASHING(.salt = EST_I64S(133), .mask_value = "0")) };
    est_node   x    = est_const_i64(t.graph, EST_SHAPE(5), (int64_t[]){ 0, 1, 2, 3, 4 }), y[3];

    for (int i = 0; i < 3; i++) y[i] = est_layer_call(l[i], x, true);
    nn_ready(&t);
    check_values(&t, y[0], 5, NN_VALUES(1, 2, 0, 1, 2));
    check_values(&t, y[1], 5, NN_VALUES(1, 1, 2, 0, 1));
    check_values(&t, y[2], 5, NN_VALUES(0, 1, 2, 2, 2));
    for (int i = 0; i < 3; i++) est_layer_free(l[i]);
    nn_end(&t);
}

TEST(string_lookup)
{
    nn_test    t = nn_begin(1);
    est_layer *l = est_layer_string_lookup(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("7", "8")), NULL);
    est_node   x = est_const_i64(t.graph, EST_SHAPE(3), (int64_t[]){ 8, 9, 7 }), y, z;

    assert_int_equal(est_string_lookup_size(est_layer_vocabulary(l)), 3);
    assert_null(est_layer_vocabulary(NULL));
    y = est_layer_call(l, est_as_string(x), false);
    z = est_layer_call(l, est_as_string(x), false);
    assert_string_equal(est_layer_name(l), "string_lookup");
    nn_ready(&t);
    check_values(&t, y, 3, NN_VALUES(2, 0, 1));
    check_values(&t, z, 3, NN_VALUES(2, 0, 1));
    est_layer_free(l);
    nn_end(&t);
}

/* --- refusals and memory ------------------------------------------------------------------------------------------ */

static void refused(est_layer *layer, const char *text)
{
    assert_null(layer);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in: %s", text, est_error_message());
}

TEST(refusals)
{
    nn_test      t    = nn_begin(1);
    est_dataset *data = numbers(EST_SHAPE(2), (float[]){ 1, 2 }, 1);
    est_layer   *flat = est_layer_flatten(NULL), *norm = est_layer_normalization(NULL),
              *look  = est_layer_string_lookup(NULL, NULL),
              *whole = est_layer_normalization(EST_NORMALIZATION(.over_all = true));

    refused(est_layer_normalization(EST_NORMALIZATION(.mean = EST_F32S(1))), "1 means and 0 variances");
    refused(est_layer_discretization(NULL), "0 boundaries and 0 bins");
    refused(est_layer_discretization(EST_DISCRETIZATION(.boundaries = EST_F32S(2, 1))), "boundary 1 is 1");
    refused(est_layer_discretization(EST_DISCRETIZATION(.num_bins = 2, .epsilon = 1)), "epsilon is 1");
    refused(est_layer_hashing(0, NULL), "0 bins");
    refused(est_layer_hashing(2, EST_HASHING(.salt = EST_I64S(1, 2, 3))), "a salt of 3 numbers");
    refused(est_layer_category_encoding(0, NULL), "0 tokens");
    expect(est_layer_adapt(flat, data, "x"), EST_FAILED_PRECONDITION, "a Flatten layer takes nothing");
    expect(est_layer_adapt(norm, data, "y"), EST_INVALID_ARGUMENT, "no component \"y\"; it has: x");
    expect(est_layer_adapt(norm, data, "x"), EST_INVALID_ARGUMENT, "\"x\" has shape [?]");
    assert_ok(est_layer_adapt(whole, data, "x"));
    expect(est_layer_adapt(look, data, "x"), EST_INVALID_ARGUMENT, "words are strings");
    (void)est_layer_call(norm, nn_const(t.graph, EST_SHAPE(1), NN_VALUES(1)), true);
    expect(est_graph_status(t.graph), EST_INVALID_ARGUMENT, "call est_layer_adapt");
    est_layer_free(flat);
    est_layer_free(norm);
    est_layer_free(look);
    est_layer_free(whole);
    est_dataset_free(data);
    nn_end(&t);
}

TEST(allocations)
{
    est_dataset *data = numbers(EST_SHAPE(4, 1), (float[]){ 1, 2, 3, 4 }, 2);

    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_layer *layer[4];
        est_status status = EST_OK;

        fault_arm(&f);
        layer[0] = est_layer_normalization(NULL);
        layer[1] = est_layer_discretization(EST_DISCRETIZATION(.num_bins = 2, .epsilon = 0.5));
        layer[2] = est_layer_normalization(EST_NORMALIZATION(.mean = EST_F32S(1), .variance = EST_F32S(1)));
        layer[3] = est_layer_hashing(2, EST_HASHING(.name = "h", .mask_value = "m"));
        for (int i = 0; i < 4; i++) status = layer[i] == NULL ? EST_RESOURCE_EXHAUSTED : status;
        for (int i = 0; i < 2 && status == EST_OK; i++) status = est_layer_adapt(layer[i], data, "x");
        fault_check(&f, status);
        for (int i = 0; i < 4; i++) est_layer_free(layer[i]);
    }
    est_dataset_free(data);
}
