/* SPDX-License-Identifier: Apache-2.0
 *
 * See dynamic_test.h. */
#include "support/dynamic_test.h"

#include <stdio.h>
#include <string.h>

#include "estoc/ops.h"

#define ROWS 200

const est_component dynamic_raw[DYNAMIC_FEATURES] = { { .name = "user", .dtype = EST_I64 },
                                                      { .name = "word", .dtype = EST_STRING } };

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

est_status dynamic_model(est_model *m, est_mode mode, const void *params)
{
    const dynamic_params *p     = params;
    est_node              layer = est_input_layer(est_model_features(m), EST_COLUMN_LIST(p->user, p->word), NULL);
    est_node              score = est_squeeze(est_dense(layer, 1, NULL), EST_I64S(1));
    est_node              loss;

    est_model_predict(m, "score", score);
    if (mode == EST_PREDICT) return est_model_status(m);
    loss = est_mean(est_square(est_sub(score, est_model_label(m, "y"))));
    est_model_loss(m, loss);
    if (mode == EST_TRAIN) est_model_minimize(m, est_adam(0.05, EST_ADAM(.lazy = true)), loss);
    return est_model_status(m);
}

est_status dynamic_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_tensor  *users = NULL, *words = NULL, *labels = NULL;
    est_dataset *d;

    (void)user;
    ok(est_tensor_create(EST_I64, EST_SHAPE(ROWS), &users));
    ok(est_tensor_create(EST_STRING, EST_SHAPE(ROWS), &words));
    ok(est_tensor_create(EST_F32, EST_SHAPE(ROWS), &labels));
    for (int i = 0; i < ROWS; i++) {
        int  who = i * 7 % 60, what = i * 11 % 40;
        char text[16];

        snprintf(text, sizeof text, "word %d", what);
        ((int64_t *)est_tensor_mutable_data(users))[i] = i % 8 == 3 ? -1
                                                                    : (int64_t)((uint64_t)who * 0x9e3779b97f4a7c15u);
        ((float *)est_tensor_mutable_data(labels))[i]  = (float)(who % 5) - (float)(what % 3);
        ok(est_tensor_set_string(words, i, text, i % 8 == 5 ? 0 : strlen(text)));
    }
    d = est_dataset_slices(EST_NAMED_TENSORS({ "user", users }, { "word", words }, { "y", labels }));
    est_tensor_free(users);
    est_tensor_free(words);
    est_tensor_free(labels);
    if (context->mode == EST_TRAIN) {
        d = est_dataset_shuffle(d, ROWS, context->seed);
        d = est_dataset_repeat(d, EST_FOREVER);
    }
    return est_dataset_finish(est_dataset_batch(d, context->mode == EST_TRAIN ? 8 : ROWS, NULL), out);
}

dynamic_params dynamic_columns(est_columns *columns, const est_dynamic_options *options)
{
    dynamic_params params = { est_dynamic_embedding_column(columns, "user", EST_I64, 4, options),
                              est_dynamic_embedding_column(columns, "word", EST_STRING, 3, options) };

    ok(est_columns_status(columns));
    return params;
}

est_estimator *dynamic_estimator(const char *dir, int threads, const est_dynamic_options *options,
                                 est_columns **columns)
{
    dynamic_params params;

    *columns = est_columns_create();
    assert_non_null(*columns);
    params = dynamic_columns(*columns, options);
    return est_test_make(
        dynamic_model,
        EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .cluster_json = "{}", .seed = 3, .quiet = true,
                                               .threads = threads, .save_checkpoints_steps = 10),
                      .params = &params, .params_size = sizeof params));
}
