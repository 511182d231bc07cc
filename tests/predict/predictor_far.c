/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictors over a session whose variables are on a device that runs by itself: a far device. */
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "device/devices.h"
#include "predict/predictor.h"
#include "support/estimator_test.h"
#include "support/far_device.h"
#include "support/nn_test.h"
#include "support/test.h"

#define THREADS 3
#define CALLS   20

typedef struct served {
    est_graph     *graph;
    est_session   *session;
    est_predictor *predictor;
} served;

static served make_served(const char *device)
{
    served   s = { 0 };
    est_node x, table, ids, y;

    assert_ok(est_graph_create(9, &s.graph));
    x     = est_placeholder(s.graph, "x", EST_F32, EST_SHAPE(-1, 3));
    ids   = est_placeholder(s.graph, "ids", EST_I64, EST_SHAPE(-1));
    table = est_weight(s.graph, "table", EST_SHAPE(7, 4), NULL);
    y     = est_concat(EST_NODES(x, est_resource_gather(table, ids)), 1);
    y     = est_dense(est_dense(y, 5, EST_DENSE(.activation = est_relu)), 2, NULL);
    assert_ok(est_session_create(s.graph, EST_SESSION(.devices = EST_STRINGS(device)), &s.session));
    assert_ok(est_session_init(s.session));
    assert_ok(est_predictor_over(s.session, EST_NAMED_NODES({ "x", x }, { "ids", ids }), EST_NAMED_NODES({ "y", y }),
                                 NULL, &s.predictor));
    return s;
}

static void free_served(served *s)
{
    est_predictor_free(s->predictor);
    est_session_free(s->session);
    est_graph_free(s->graph);
}

/* The answer to request `seed`; bad: with an id that the table does not have. */
static est_status ask(est_prediction *prediction, int seed, bool bad, float out[2 * CALLS])
{
    int64_t     rows = 1 + seed % 4;
    est_tensor *x, *ids;
    est_status  status;

    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(rows, 3), &x));
    assert_ok(est_tensor_create(EST_I64, EST_SHAPE(rows), &ids));
    for (int64_t i = 0; i < 3 * rows; i++) ((float *)est_tensor_mutable_data(x))[i] = (float)((i + seed) % 7) - 3;
    for (int64_t i = 0; i < rows; i++) ((int64_t *)est_tensor_mutable_data(ids))[i] = bad ? 7 : (i + seed) % 7;
    status = est_prediction_run(prediction, EST_NAMED_TENSORS({ "x", x }, { "ids", ids }));
    if (status == EST_OK) memcpy(out, est_prediction_data(prediction, 0), sizeof(float) * 2 * (size_t)rows);
    est_tensor_free(x);
    est_tensor_free(ids);
    return status;
}

typedef struct caller {
    est_predictor *predictor;
    int            number;
    float          answers[CALLS][2 * CALLS];
    bool           failed;
} caller;

static void *call(void *arg)
{
    caller         *c = arg;
    est_prediction *prediction;

    c->failed = est_prediction_create(c->predictor, &prediction) != EST_OK;
    for (int i = 0; i < CALLS && !c->failed; i++) {
        c->failed = ask(prediction, c->number * CALLS + i, false, c->answers[i]) != EST_OK;
    }
    if (!c->failed) est_prediction_free(prediction);
    return NULL;
}

/* Threads that predict at the same time get what the CPU computes. */
TEST(threads_predict_as_the_cpu_does)
{
    static caller   callers[THREADS];
    served          here = make_served("/cpu:0"), far = make_served("/gpu:0");
    est_prediction *prediction;
    est_thread      threads[THREADS];
    est_far_counts  counts;

    for (int t = 0; t < THREADS; t++) {
        callers[t] = (caller){ .predictor = far.predictor, .number = t };
        assert_ok(est_thread_start(&threads[t], "caller", call, &callers[t]));
    }
    for (int t = 0; t < THREADS; t++) est_thread_join(&threads[t]);
    assert_ok(est_prediction_create(here.predictor, &prediction));
    for (int t = 0; t < THREADS; t++) {
        assert_false(callers[t].failed);
        for (int i = 0; i < CALLS; i++) {
            float expected[2 * CALLS] = { 0 };

            assert_ok(ask(prediction, t * CALLS + i, false, expected));
            assert_memory_equal(callers[t].answers[i], expected, sizeof expected);
        }
    }
    est_prediction_free(prediction);
    free_served(&here);
    free_served(&far);
    counts = est_far_device_counts();
    assert_true(counts.replayed + counts.single >= THREADS * CALLS);
    assert_true(counts.opened == 0 && counts.blocks == 0);
}

/* A request that fails has the CPU's text, and the next one is answered. */
TEST(a_bad_request)
{
    served          far = make_served("/gpu:0");
    est_prediction *prediction;
    float           answer[2 * CALLS];

    assert_ok(est_prediction_create(far.predictor, &prediction));
    assert_int_equal(ask(prediction, 1, true, answer), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "table"));
    assert_ok(ask(prediction, 2, false, answer));
    est_prediction_free(prediction);
    free_served(&far);
}

/* --- predictors of models ----------------------------------------------------------------------------------------- */

static void predict_rows(est_predictor *predictor, float out[3])
{
    est_tensor *x, *y;

    assert_ok(est_tensor_f32(EST_SHAPE(3, 2), (const float[]){ 0.5f, 1, -1, 0.25f, 2, -0.75f }, &x));
    assert_ok(est_predictor_run(predictor, EST_NAMED_TENSORS({ "x", x }), &y));
    memcpy(out, est_tensor_data(y), 3 * sizeof *out);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* Of a SavedModel where it is told to, of an estimator where its other sessions compute. */
TEST(models_on_a_device)
{
    est_component           raw   = { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) };
    const est_serving_input input = { .raw = { &raw, 1 } };
    const est_strings       far   = EST_STRINGS("/gpu:0");
    est_estimator          *estimator;
    est_saved_model        *model;
    est_predictor          *predictor;
    char                    dir[64], path[512], made[EST_CHECKPOINT_PATH_MAX];
    float                   answers[3][3];
    int64_t                 replayed;

    est_test_dir(dir);
    estimator = est_test_make(est_test_model, EST_ESTIMATOR(.config = EST_TEST_CONFIG(dir, NULL, .devices = far)));
    assert_ok(est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 2)));
    (void)snprintf(path, sizeof path, "%s/export", dir);
    assert_ok(est_export_saved_model(estimator, path, EST_EXPORT(.input = input), made));
    for (int i = 0; i < 2; i++) {
        replayed = est_far_device_counts().replayed;
        assert_ok(est_saved_model_load(path, i == 0 ? NULL : EST_SAVED_MODEL(.devices = far), &model));
        assert_ok(est_predictor_create(model, NULL, NULL, &predictor));
        predict_rows(predictor, answers[i]);
        est_predictor_free(predictor);
        est_saved_model_free(model);
        assert_int_equal(est_far_device_counts().replayed > replayed, i == 1);
    }
    replayed = est_far_device_counts().replayed;
    assert_ok(est_estimator_predictor(estimator, &input, NULL, NULL, &predictor));
    predict_rows(predictor, answers[2]);
    est_predictor_free(predictor);
    assert_true(est_far_device_counts().replayed > replayed);
    assert_memory_equal(answers[1], answers[0], sizeof answers[0]);
    assert_memory_equal(answers[2], answers[0], sizeof answers[0]);
    est_estimator_free(estimator);
    est_test_dir_remove(dir);
}

int main(void)
{
    est_devices_use((const est_device *const[]){ est_far_devices[0] }, 1);
    return est_test_run(NULL, NULL);
}
