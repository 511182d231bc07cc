/* SPDX-License-Identifier: Apache-2.0
 *
 * Serving inputs: which placeholders there are, what model_fn sees of them, and rows that fit. */
#include "estimator/receiver.h"

#include <stdio.h>
#include <string.h>

#include "estimator/sample_rows.h"
#include "predict/predictor.h"
#include "support/export_test.h"
#include "support/fault_loop.h"

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

/* --- functions ---------------------------------------------------------------------------------------------------- */

/* The features of the shop from placeholders of other shapes: flat numbers, text, rows of unequal length. */
static est_status shop_serving(est_serving *serving, void *user)
{
    est_node x    = est_serving_placeholder(serving, "x", EST_F32, EST_SHAPE(-1));
    est_node kind = est_serving_placeholder(serving, "kind", EST_I64, EST_SHAPE(-1, 1));
    est_node ids  = est_serving_placeholder(serving, "ids", EST_I64, EST_SHAPE(-1));
    est_node rows = est_serving_placeholder(serving, "ids/splits", EST_I64, EST_SHAPE(-1));

    (void)user;
    if (x.graph != NULL) assert_ptr_equal(est_serving_graph(serving), x.graph);
    est_serving_feature(
        serving, "x", est_concat(EST_NODES(est_expand_dims(x, -1), est_expand_dims(x, -1), est_expand_dims(x, -1)), 1));
    est_serving_feature(serving, "kind", est_reshape(kind, EST_I64S(-1)));
    est_serving_ragged(serving, "ids", (est_ragged_node){ ids, rows });
    return est_serving_status(serving);
}

TEST(a_function_makes_placeholders_and_features)
{
    const est_receiver_alternative all   = { .name = "all" };
    const est_serving_input        input = { .build = shop_serving, .alternatives = { &all, 1 } };
    est_model                     *model = new_model();
    est_receiver                   receiver;
    est_sample_rows                rows = { 0 };
    est_tensor                    *out[4];
    bool                           made_up;

    ok(est_receiver_build(&input, model, &receiver));
    assert_int_equal(receiver.groups[0].n_inputs, 4);
    assert_string_equal(receiver.groups[0].inputs[1].name, "kind");
    assert_int_equal(receiver.n_features, 3);
    assert_int_equal(receiver.groups[1].n_inputs, 4);
    assert_int_equal(est_node_dim(est_model_feature(model, "x"), 1), 3);
    assert_int_equal(est_model_ragged(model, "ids").splits.id, receiver.groups[0].inputs[3].node.id);
    ok(est_model_status(model));
    ok(est_receiver_name(&receiver, model));
    assert_string_equal(est_node_name(receiver.groups[0].inputs[0].node), "x");
    assert_string_equal(est_node_name(receiver.groups[0].inputs[3].node), "ids/splits");
    ok(est_sample_rows_feed(&rows, &receiver, false, out, &made_up));
    assert_true(made_up);
    assert_int_equal(est_tensor_shape(out[1])->dim[1], 1);
    assert_int_equal(est_tensor_count(out[3]), est_tensor_count(out[0]) + 1);
    assert_int_equal(((const int64_t *)est_tensor_data(out[3]))[est_tensor_count(out[0])], est_tensor_count(out[2]));
    free_all(out, 4);
    est_model_free(model);
}

static est_status fails_silently(est_serving *serving, void *user)
{
    (void)serving;
    (void)user;
    return EST_UNKNOWN;
}

static est_status makes_nothing(est_serving *serving, void *user)
{
    (void)user;
    return est_serving_status(serving);
}

static est_status gives_no_feature(est_serving *serving, void *user)
{
    (void)user;
    (void)est_serving_placeholder(serving, "x", EST_F32, EST_SHAPE(-1));
    return EST_OK;
}

/* What the function did not look at is an error all the same. */
static est_status says_it_twice(est_serving *serving, void *user)
{
    est_node x = est_serving_placeholder(serving, "x", EST_F32, EST_SHAPE(-1));

    est_serving_feature(serving, "x", x);
    if (user != NULL) {
        est_serving_feature(serving, "x", x);
    } else {
        (void)est_serving_placeholder(serving, "x", EST_F32, EST_SHAPE(-1));
    }
    return EST_OK;
}

static est_status takes_no_node(est_serving *serving, void *user)
{
    (void)user;
    (void)est_serving_placeholder(serving, "x", EST_F32, EST_SHAPE(-1));
    est_serving_feature(serving, "y", EST_NO_NODE);
    return est_serving_status(serving);
}

TEST(bad_functions_are_refused)
{
    int yes;

    refuse(&(est_serving_input){ .build = shop_serving, .raw = { shop_raw, 1 } }, "not both");
    refuse(&(est_serving_input){ .build = shop_serving, .batch = 3 }, "batch of 3");
    refuse(&(est_serving_input){ .build = makes_nothing }, "no placeholder");
    refuse(&(est_serving_input){ .build = gives_no_feature }, "no feature");
    refuse(&(est_serving_input){ .build = says_it_twice }, "two placeholders are called x");
    refuse(&(est_serving_input){ .build = says_it_twice, .user = &yes }, "two features are called x");
    refuse(&(est_serving_input){ .build = takes_no_node }, "the feature y is no node");
}

TEST(failed_allocations_of_a_function_are_reported)
{
    const est_serving_input input = { .build = shop_serving };

    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_model   *model = new_model();
        est_receiver receiver;
        est_status   status;

        fault_arm(&f);
        status = est_receiver_build(&input, model, &receiver);
        fault_check(&f, status);
        est_model_free(model);
    }
}

TEST(a_function_that_fails_silently_is_named)
{
    est_model   *model = new_model();
    est_receiver receiver;

    assert_int_equal(est_receiver_build(&(est_serving_input){ .build = fails_silently }, model, &receiver),
                     EST_UNKNOWN);
    est_test_error_has("function");
    est_model_free(model);
}

/* Rows for shop_serving: the outputs of one predictor are those of the other, which may have more. */
static void compare_predictors(est_predictor *a, est_predictor *b)
{
    est_tensor *x, *kind, *ids, *splits, *left[8], *right[8];
    int         n = est_predictor_outputs(a).n;

    ok(est_tensor_f32(EST_SHAPE(3), (const float[]){ 0.5f, -1, 2 }, &x));
    ok(est_tensor_i64(EST_SHAPE(3, 1), (const int64_t[]){ 0, 1, 0 }, &kind));
    ok(est_tensor_i64(EST_SHAPE(2), (const int64_t[]){ 4, 1 }, &ids));
    ok(est_tensor_i64(EST_SHAPE(4), (const int64_t[]){ 0, 1, 1, 2 }, &splits));
    const est_named_tensors rows = EST_NAMED_TENSORS({ "x", x }, { "kind", kind }, { "ids", ids },
                                                     { "ids/splits", splits });

    ok(est_predictor_run(a, rows, left));
    ok(est_predictor_run(b, rows, right));
    for (int i = 0; i < n; i++) {
        int k = est_predictor_output(b, est_predictor_outputs(a).data[i].name);

        assert_true(k >= 0);
        assert_true(est_shape_equal(est_tensor_shape(left[i]), est_tensor_shape(right[k])));
        for (int64_t e = 0; est_tensor_dtype(left[i]) == EST_F32 && e < est_tensor_count(left[i]); e++) {
            assert_float_equal(((const float *)est_tensor_data(left[i]))[e],
                               ((const float *)est_tensor_data(right[k]))[e], 1e-6f);
        }
    }
    free_all(left, n);
    free_all(right, est_predictor_outputs(b).n);
    free_all((est_tensor *[]){ x, kind, ids, splits }, 4);
}

/* A graph says which features it parses: those of the specs that it was built of, one kind after the other. */
static void check_features(const est_predictor *p)
{
    est_arena        *arena = est_arena_create();
    est_feature_specs found;

    ok(est_predictor_features(p, arena, &found));
    assert_int_equal(found.n, SHOP_FEATURES);
    for (int i = 0; i < SHOP_FEATURES; i++) {
        const est_feature_spec *want = &shop_specs[i];
        int                     k    = 0;

        while (k < found.n && strcmp(found.data[k].name, want->name) != 0) k++;
        assert_true(k < found.n);
        assert_int_equal(found.data[k].dtype, want->dtype);
        assert_int_equal(found.data[k].rows, want->rows);
        if (want->rows != EST_ROWS_RAGGED) assert_true(est_shape_equal(&found.data[k].shape, &want->shape));
        assert_int_equal(found.data[k].default_value != NULL, want->default_value != NULL);
    }
    est_arena_free(arena);
}

/* The estimator's model over a function, and over Examples: the numbers of est_predict. */
TEST(an_estimator_has_a_predictor)
{
    const shop_params       params  = { .no_steps = true };
    const est_serving_input parsing = SHOP_PARSING, function = { .build = shop_serving };
    char                    dir[64];
    est_estimator          *e;
    est_saved_model        *saved;
    est_predictor          *p, *loaded;
    est_predictions        *expected;
    est_tensor             *examples, *out;

    est_test_dir(dir);
    e = shop_trained(dir, &params);
    ok(est_estimator_predictor(e, &parsing, NULL, EST_PREDICTOR(.outputs = EST_STRINGS("probabilities")), &p));
    assert_string_equal(est_predictor_inputs(p).data[0].name, "examples");
    check_features(p);
    ok(est_tensor_create(EST_STRING, EST_SHAPE(8), &examples));
    for (int64_t i = 0; i < 8; i++) {
        est_str bytes = shop_example(i);

        ok(est_tensor_set_string(examples, i, bytes.data, bytes.size));
    }
    ok(est_predictor_run(p, EST_NAMED_TENSORS({ "examples", examples }), &out));
    ok(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = shop_input), &expected));
    for (int i = 0; i < 8; i++) {
        const float *got = (const float *)est_tensor_data(out) + 3 * i;

        ok(est_predictions_next(expected));
        for (int k = 0; k < 3; k++) {
            const float *want = est_tensor_data(est_predictions_get(expected, "probabilities"));

            assert_float_equal(got[k], want[k], 1e-6f);
        }
    }
    est_predictions_free(expected);
    est_tensor_free(out);
    est_tensor_free(examples);
    est_predictor_free(p);
    ok(est_estimator_predictor(e, &function, NULL, NULL, &p));
    assert_int_equal(est_predictor_inputs(p).n, 4);
    assert_true(est_predictor_output(p, "class_id") >= 0);
    ok(est_export_saved_model(e, dir, EST_EXPORT(.input = function), NULL)); /* which runs the graph on rows */
    ok(est_saved_model_load(dir, NULL, &saved));
    assert_int_equal(est_predictor_create(saved, "predikt", NULL, &loaded), EST_NOT_FOUND);
    est_test_error_has("predict");
    ok(est_predictor_create(saved, "predict", NULL, &loaded));
    compare_predictors(loaded, p);
    est_predictor_free(loaded);
    est_saved_model_free(saved);
    est_predictor_free(p);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}
