/* SPDX-License-Identifier: Apache-2.0
 *
 * See export_test.h. */
#include "support/export_test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estoc/ops.h"
#include "tensor/tensor.h"

#define EXAMPLES 8

#define SPECS                                                                                                          \
    { .name = "x", .dtype = EST_F32, .shape = { 1, { 3 } } },                                                          \
        { .name = "kind", .dtype = EST_I64, .rows = EST_ROWS_FIXED },                                                  \
        { .name = "ids", .dtype = EST_I64, .rows = EST_ROWS_RAGGED },                                                  \
    {                                                                                                                  \
        .name = "steps", .dtype = EST_F32, .rows = EST_ROWS_PADDED                                                     \
    }
const est_feature_spec shop_specs[SHOP_FEATURES]        = { SPECS };
const est_feature_spec shop_labelled[SHOP_FEATURES + 1] = { SPECS, { .name = "y", .dtype = EST_I64 } };

const est_component shop_raw[3] = {
    { .name = "x", .dtype = EST_F32, .shape = { 1, { 3 } } },
    { .name = "kind", .dtype = EST_I64 },
    { .name = "ids", .dtype = EST_I64, .ragged = true },
};

/* --- model -------------------------------------------------------------------------------------------------------- */

static est_node features(est_model *m, est_mode mode, const shop_params *p)
{
    est_node        x = est_model_feature(m, "x"), kind, ids, steps;
    est_ragged_node ragged;

    if (p->plain) return x;
    kind = est_model_feature(m, "kind");
    if (p->from_1) kind = est_sub(kind, est_scalar(est_model_graph(m), EST_I64, 1));
    if (p->doubled && mode == EST_PREDICT) kind = est_add(kind, kind);
    kind   = est_embedding(kind, 4, 2, EST_EMBEDDING(.name = "kind"));
    ragged = est_model_ragged(m, "ids");
    ids    = est_embedding(ragged.values, 5, 2, EST_EMBEDDING(.name = "ids", .splits = ragged.splits));
    if (p->no_steps) return est_concat(EST_NODES(x, kind, ids), 1);
    steps = est_reduce_sum(est_model_feature(m, "steps"), EST_I64S(1), false);
    steps = est_div(steps, est_add(est_cast(est_model_feature(m, "steps/lengths"), EST_F32),
                                   est_scalar(est_model_graph(m), EST_F32, 1)));
    return est_concat(EST_NODES(x, kind, ids, est_expand_dims(steps, 1)), 1);
}

static est_node class_names(est_graph *graph)
{
    const est_str text[3] = { { "a", 1 }, { "b", 1 }, { "c", 1 } };
    est_tensor   *tensor  = NULL;
    est_status    status  = est_tensor_create_from(EST_STRING, EST_SHAPE(3), text, &tensor);
    est_node      node;

    if (status != EST_OK) return est_graph_poison(graph, status);
    node = est_const(graph, tensor);
    est_tensor_free(tensor);
    return node;
}

static void add_exports(est_model *m, const shop_params *p, est_node logits, est_node probabilities)
{
    est_node order, value, names;

    if (p->no_export) return;
    if (p->one || p->twice) {
        est_model_export_predict(m, "scores", (est_named_nodes){ &(est_named_node){ "p", probabilities }, 1 });
        if (p->twice) est_model_export_predict(m, "logits", (est_named_nodes){ &(est_named_node){ "l", logits }, 1 });
        return;
    }
    value = est_slice(logits, EST_I64S(0, 0), EST_I64S(-1, 1));
    (void)est_top_k(est_mul(probabilities, est_scalar(est_model_graph(m), EST_F32, 0)), 3, &order); /* 0, 1, 2 a row */
    names = est_gather(class_names(est_model_graph(m)), order, 0);
    est_model_export_classify(m, "serving_default", probabilities, names);
    est_model_export_regress(m, "regression", value);
    est_model_export_predict(
        m, "predict",
        (est_named_nodes){ (const est_named_node[]){ { "logits", logits }, { "probabilities", probabilities } }, 2 });
}

/* The largest mean of a logit over all examples. */
static void add_own_metric(est_model *m, est_node logits)
{
    est_graph *graph = est_model_graph(m);
    est_node   total = est_metric_state(graph, "own/total", EST_F64, EST_SHAPE(3));
    est_node   count = est_metric_state(graph, "own/count", EST_I64, EST_SHAPE_SCALAR), number;

    number = est_sum(est_cast(est_ones_like(est_argmax(logits, -1)), EST_I64));
    est_model_metric(m, "own",
                     est_metric_custom(
                         EST_NODES(total, count),
                         EST_NODES(est_assign_add(total, est_reduce_sum(est_cast(logits, EST_F64), EST_I64S(0), false)),
                                   est_assign_add(count, number)),
                         est_div_no_nan(est_reduce_max(est_read_variable(total), EST_I64S(0), false),
                                        est_cast(est_read_variable(count), EST_F64))));
}

/* A training step, which with p->shared also updates a metric. */
static void add_training(est_model *m, const shop_params *p, est_node logits, est_node loss)
{
    est_node train = est_minimize(p->steady ? est_momentum(0.05, NULL) : est_adam(0.05, NULL), loss, NULL);

    if (p->shared) {
        est_metric seen = est_metric_mean(logits, EST_METRIC(.name = "seen", .shared = true));

        train = est_group(est_model_graph(m), EST_NODES(train, seen.update));
    }
    est_model_train_op(m, train);
}

est_status shop_model(est_model *m, est_mode mode, const void *params)
{
    static const shop_params usual = { 0 };
    const shop_params       *p     = params != NULL ? params : &usual;
    est_node                 all   = features(m, mode, p), hidden, logits, probabilities, loss;

    hidden        = est_dense(all, 4, EST_DENSE(.name = "hidden", .activation = est_relu));
    hidden        = est_batch_norm(hidden, mode == EST_TRAIN, NULL);
    hidden        = est_dropout_layer(hidden, 0.1, mode == EST_TRAIN && !p->steady);
    logits        = est_dense(hidden, 3, EST_DENSE(.name = "x")); /* the name of a feature, too */
    probabilities = est_softmax(logits, -1);
    if (p->second_set) logits = est_dense(logits, 3, EST_DENSE(.name = "more"));
    est_model_predict(m, "logits", logits);
    est_model_predict(m, "probabilities", probabilities);
    est_model_predict(m, "class_id", est_argmax(logits, -1));
    if (p->noise) est_model_predict(m, "noise", est_random_normal(est_shape_of(logits), EST_F32, 0));
    if (mode == EST_PREDICT) {
        est_model_predict(m, "name", est_gather(class_names(est_model_graph(m)), est_argmax(logits, -1), 0));
        add_exports(m, p, logits, probabilities);
        return est_model_status(m);
    }
    loss = est_mean(est_sparse_softmax_xent(logits, est_model_label(m, "y")));
    est_model_loss(m, loss);
    est_model_metric(m, "accuracy", est_accuracy(est_model_label(m, "y"), est_argmax(logits, -1)));
    if (p->own_metric) add_own_metric(m, logits);
    if (mode == EST_TRAIN) est_model_predict(m, "step", est_read_variable(est_model_global_step(m)));
    if (mode == EST_TRAIN) add_training(m, p, logits, loss);
    return est_model_status(m);
}

/* --- input -------------------------------------------------------------------------------------------------------- */

est_str shop_example(int64_t i)
{
    static char   kept[256];
    est_example  *example = NULL;
    est_str       bytes;
    const float   x[3]   = { (float)i / 4 - 1, (float)((i * 3) % 8) / 8, -0.5F };
    const int64_t ids[3] = { i % 5, (i * 2) % 5, (i + 3) % 5 }, kind = 1 + i % 3, y = i % 3;
    const float   steps[4] = { (float)i, 0.5F, -1, 2 };

    assert_int_equal(est_example_create(&example), EST_OK);
    est_example_set_f32s(example, "x", x, 3);
    est_example_set_i64s(example, "kind", &kind, 1);
    if (i % 4 > 0) est_example_set_i64s(example, "ids", ids, (size_t)(i % 4));
    est_example_set_f32s(example, "steps", steps, (size_t)((i * 3) % 5));
    est_example_set_i64s(example, "y", &y, 1);
    assert_int_equal(est_example_serialize(example, &bytes), EST_OK);
    assert_true(bytes.size <= sizeof kept);
    memcpy(kept, bytes.data, bytes.size);
    est_example_free(example);
    return (est_str){ kept, bytes.size };
}

est_status shop_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_tensor  *records = NULL;
    est_dataset *d;

    (void)user;
    EST_TRY(est_tensor_create(EST_STRING, EST_SHAPE(EXAMPLES), &records));
    for (int64_t i = 0; i < EXAMPLES; i++) {
        est_str bytes = shop_example(i);

        if (est_tensor_set_string(records, i, bytes.data, bytes.size) != EST_OK) {
            est_tensor_free(records);
            return EST_RESOURCE_EXHAUSTED;
        }
    }
    d = est_dataset_slices(EST_NAMED_TENSORS({ "record", records }));
    est_tensor_free(records);
    if (context->mode == EST_TRAIN) d = est_dataset_repeat(d, EST_FOREVER);
    d = est_dataset_parse_examples(d, (est_feature_specs){ shop_labelled, SHOP_FEATURES + 1 }, 4, NULL);
    return est_dataset_finish(d, out);
}

/* --- estimators --------------------------------------------------------------------------------------------------- */

est_estimator *shop_estimator(const char *dir, const shop_params *params)
{
    return est_test_make(shop_model,
                         EST_ESTIMATOR(.config = EST_TEST_CONFIG(dir, "{}", .threads = 1, .save_checkpoints_steps = 50),
                                       .params = params, .params_size = params != NULL ? sizeof *params : 0));
}

est_estimator *shop_trained(const char *dir, const shop_params *params)
{
    est_estimator *e = shop_estimator(dir, params);

    if (est_train(e, EST_TRAIN_OPTIONS(.input_fn = shop_input, .steps = 3)) != EST_OK)
        fail_msg("%s", est_error_message());
    return e;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

const char *shop_list(const char *dir, char out[1024])
{
    struct dirent **entries = NULL;
    int             n       = scandir(dir, &entries, visible, alphasort);
    size_t          at      = 0;

    out[0] = '\0';
    for (int i = 0; i < n; i++) {
        at += (size_t)snprintf(out + at, 1024 - at, "%s ", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return out;
}
