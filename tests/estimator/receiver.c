/* SPDX-License-Identifier: Apache-2.0
 *
 * Serving inputs: which placeholders there are, what model_fn sees of them, and rows that fit. */
#include "estimator/receiver.h"

#include <stdio.h>
#include <string.h>

#include "estimator/sample_rows.h"
#include "support/export_test.h"

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static est_model *new_model(void)
{
    static est_run_config config;
    static est_task       task;
    est_model            *model = NULL;

    ok(est_model_create(EST_PREDICT, &config, &task, NULL, 1, &model));
    return model;
}

TEST(parsing_makes_one_string_input)
{
    const est_serving_input input = SHOP_PARSING;
    est_model              *model = new_model();
    est_receiver            receiver;
    est_ragged_node         ids;

    ok(est_receiver_build(&input, model, &receiver));
    assert_int_equal(receiver.groups[0].n_inputs, 1);
    assert_string_equal(receiver.groups[0].inputs[0].name, "examples");
    assert_int_equal(est_node_dtype(receiver.groups[0].inputs[0].node), EST_STRING);
    assert_true(est_model_has(model, "x") && est_model_has(model, "steps/lengths") && !est_model_has(model, "y"));
    assert_int_equal(est_node_dim(est_model_feature(model, "x"), 1), 3);
    ids = est_model_ragged(model, "ids");
    assert_int_equal(est_node_dtype(ids.splits), EST_I64);
    ok(est_model_status(model));
    ok(est_receiver_name(&receiver, model));
    assert_string_equal(est_node_name(receiver.groups[0].inputs[0].node), "input_example_tensor");
    est_model_free(model);
}

TEST(raw_makes_an_input_a_feature)
{
    const est_component     odd[2] = { { .name = "_a feature", .dtype = EST_U8, .shape = { 2, { 4, -1 } } },
                                       { .name = "hidden", .dtype = EST_STRING } };
    const est_serving_input input = { .raw = { odd, 2 } }, ragged = { .raw = { shop_raw, 3 }, .batch = 6 };
    est_model              *model = new_model();
    est_receiver            receiver;
    est_node                kernel;

    ok(est_receiver_build(&input, model, &receiver));
    assert_int_equal(receiver.groups[0].n_inputs, 2);
    assert_int_equal(est_node_dim(receiver.groups[0].inputs[0].node, 0), -1);
    assert_int_equal(est_node_dim(receiver.groups[0].inputs[0].node, 1), 4);
    kernel = est_variable(est_model_graph(model), "hidden", EST_F32, EST_SHAPE(2));
    ok(est_receiver_name(&receiver, model));
    assert_string_equal(est_node_name(kernel), "hidden"); /* and not the feature */
    assert_string_equal(est_node_name(receiver.groups[0].inputs[0].node), "input__a_feature");
    assert_string_equal(est_node_name(receiver.groups[0].inputs[1].node), "hidden_1");
    assert_string_equal(receiver.groups[0].inputs[1].name, "hidden");
    est_model_free(model);

    model = new_model();
    ok(est_receiver_build(&ragged, model, &receiver));
    assert_int_equal(receiver.groups[0].n_inputs, 4);
    assert_string_equal(receiver.groups[0].inputs[3].name, "ids/splits");
    assert_int_equal(est_node_dim(receiver.groups[0].inputs[3].node, 0), 7);
    assert_int_equal(est_node_dim(receiver.groups[0].inputs[2].node, 0), -1);
    assert_int_equal(est_node_dim(est_model_feature(model, "x"), 0), 6);
    est_model_free(model);
}

static void refuse(const est_serving_input *input, const char *says)
{
    est_model   *model = new_model();
    est_receiver receiver;

    assert_int_equal(est_receiver_build(input, model, &receiver), EST_INVALID_ARGUMENT);
    est_test_error_has(says);
    est_model_free(model);
}

TEST(bad_inputs_are_refused)
{
    const est_component    twice[2] = { { .name = "x", .dtype = EST_F32 }, { .name = "x", .dtype = EST_F32 } };
    const est_component    nameless = { .dtype = EST_F32 };
    const est_component    deep     = { .name = "x", .dtype = EST_F32, .shape = { EST_RANK_MAX, { 1 } } };
    const est_feature_spec wrong    = { .name = "x", .dtype = EST_F64 };

    refuse(&(est_serving_input){ 0 }, "features to parse or raw features");
    refuse(&(est_serving_input){ .parse = { shop_specs, 1 }, .raw = { shop_raw, 1 } }, "not both");
    refuse(&(est_serving_input){ .parse = { shop_specs, 0 } }, "at least one feature");
    refuse(&(est_serving_input){ .raw = { shop_raw, 1 }, .batch = -1 }, "batch");
    refuse(&(est_serving_input){ .raw = { twice, 2 } }, "two raw features are called x");
    refuse(&(est_serving_input){ .raw = { &nameless, 1 } }, "has no name");
    refuse(&(est_serving_input){ .raw = { &deep, 1 } }, "rank 8");
    refuse(&(est_serving_input){ .parse = { &wrong, 1 } }, "x");
}

/* What model_fn sees can be fed, too: all of it, or some. */
TEST(alternatives_are_features)
{
    static const char *const some[] = { "ids" }, *const none[] = { "nose" };
    const est_receiver_alternative good[] = { { .name = "parsed" }, { "some", { some, 1 } } };
    const est_receiver_alternative bad[]  = { { "bad", { none, 1 } }, { .name = "" }, { "empty", { some, 0 } } };
    const est_receiver_alternative same[] = { { .name = "it" }, { .name = "it" } };
    const est_serving_input        input  = { .parse = { shop_specs, SHOP_FEATURES }, .alternatives = { good, 2 } };
    est_model                     *model  = new_model();
    est_receiver                   receiver;

    ok(est_receiver_build(&input, model, &receiver));
    assert_int_equal(receiver.n_groups, 3);
    assert_string_equal(receiver.groups[1].name, "parsed");
    assert_int_equal(receiver.groups[1].n_inputs, 6); /* x, kind, ids, its splits, steps, their lengths */
    assert_string_equal(receiver.groups[1].inputs[3].name, "ids/splits");
    assert_string_equal(receiver.groups[1].inputs[5].name, "steps/lengths");
    assert_int_equal(receiver.groups[2].n_inputs, 2);
    assert_int_equal(receiver.groups[2].inputs[0].node.id, est_model_ragged(model, "ids").values.id);
    est_model_free(model);
    refuse(&(est_serving_input){ .raw = { shop_raw, 1 }, .alternatives = { &bad[0], 1 } },
           "alternative bad: there is no feature \"nose\"");
    refuse(&(est_serving_input){ .raw = { shop_raw, 1 }, .alternatives = { &bad[1], 1 } }, "needs a name");
    refuse(&(est_serving_input){ .raw = { shop_raw, 1 }, .alternatives = { &bad[2], 1 } }, "has 0 features");
    refuse(&(est_serving_input){ .raw = { shop_raw, 1 }, .alternatives = { same, 2 } },
           "two alternatives are called it");
    refuse(&(est_serving_input){ .raw = { shop_raw, 1 }, .alternatives.n = 1 }, "alternatives.n is 1");
}

static void free_all(est_tensor **tensors, int n)
{
    for (int i = 0; i < n; i++) est_tensor_free(tensors[i]);
}

/* What was recorded is fed as it was; the rest is made up, as many rows as the receiver takes. */
TEST(rows_fit_the_receiver)
{
    const est_serving_input input = { .raw = { shop_raw, 3 } }, five = { .raw = { shop_raw, 3 }, .batch = 5 };
    const est_serving_input ids   = { .raw = { &shop_raw[2], 1 } };
    est_model              *model = new_model();
    est_receiver            receiver;
    est_sample_rows_item    items[2] = { { .name = (char[]){ "ids" } }, { .name = (char[]){ "kind" } } };
    est_sample_rows         rows     = { .items = items, .n_items = 2, .n = 2 };
    est_tensor             *out[4];
    bool                    made_up;

    ok(est_receiver_build(&input, model, &receiver));
    ok(est_tensor_i64(EST_SHAPE(3), (const int64_t[]){ 4, 2, 3 }, &items[0].values));
    ok(est_tensor_i64(EST_SHAPE(3), (const int64_t[]){ 0, 1, 3 }, &items[0].splits));
    ok(est_tensor_f32(EST_SHAPE(2), (const float[]){ 1, 2 }, &items[1].values)); /* of another type: not used */
    ok(est_sample_rows_feed(&rows, &receiver, false, out, &made_up));
    assert_true(made_up);
    assert_int_equal(est_tensor_shape(out[0])->dim[0], 2);
    assert_int_equal(est_tensor_dtype(out[1]), EST_I64);
    assert_memory_equal(est_tensor_data(out[2]), ((const int64_t[]){ 4, 2, 3 }), 24);
    assert_memory_equal(est_tensor_data(out[3]), ((const int64_t[]){ 0, 1, 3 }), 24);
    free_all(out, 4);
    est_model_free(model);

    model = new_model();
    ok(est_receiver_build(&five, model, &receiver));
    ok(est_sample_rows_feed(&rows, &receiver, false, out, &made_up)); /* the two rows again and again */
    assert_int_equal(est_tensor_shape(out[0])->dim[0], 5);
    assert_memory_equal(est_tensor_data(out[3]), ((const int64_t[]){ 0, 1, 3, 4, 6, 7 }), 48);
    assert_memory_equal(est_tensor_data(out[2]), ((const int64_t[]){ 4, 2, 3, 4, 2, 3, 4 }), 56);
    free_all(out, 4);
    ok(est_sample_rows_feed(&rows, &receiver, true, out, &made_up)); /* all zeros but what was recorded */
    assert_memory_equal(est_tensor_data(out[1]), ((const int64_t[]){ 0, 0, 0, 0, 0 }), 40);
    assert_memory_equal(est_tensor_data(out[2]), ((const int64_t[]){ 4, 2, 3, 4, 2, 3, 4 }), 56);
    free_all(out, 4);
    est_model_free(model);

    model = new_model();
    ok(est_receiver_build(&ids, model, &receiver));
    ok(est_sample_rows_feed(&rows, &receiver, false, out, &made_up)); /* nothing but what was recorded */
    assert_false(made_up);
    free_all(out, 2);
    est_tensor_free(items[0].values);
    est_tensor_free(items[0].splits);
    est_tensor_free(items[1].values);
    est_model_free(model);
}
