/* SPDX-License-Identifier: Apache-2.0
 *
 * Estimators with replicas on several devices, against the same replicas on the CPU, whose kernels far devices have:
 * the same checkpoints, bit for bit. */
#include "device/devices.h"
#include "runtime/session.h"
#include "support/estimator_test.h"
#include "support/far_device.h"
#include "support/log_test.h"

#define STEPS 12

static est_status make_wide(const est_input_context *context, void *user, est_dataset **out)
{
    static const int64_t ids[]    = { 3, 5, 3, 1, 0, 7, 7, 2 };
    static const float   labels[] = { 0, 1, 1, 0, 1, 0, 1, 1 };
    est_tensor          *id = NULL, *y = NULL;
    est_dataset         *d;

    (void)user;
    assert_int_equal(est_tensor_i64(EST_SHAPE(8), ids, &id), EST_OK);
    assert_int_equal(est_tensor_f32(EST_SHAPE(8, 1), labels, &y), EST_OK);
    d = est_dataset_slices(EST_NAMED_TENSORS({ "id", id }, { "label", y }));
    if (context->mode == EST_TRAIN) d = est_dataset_repeat(d, EST_FOREVER);
    est_tensor_free(id);
    est_tensor_free(y);
    return est_dataset_finish(est_dataset_batch(d, 3, NULL), out);
}

/* A table of which a batch has some rows, a layer, batch normalisation; clipped Adagrad. */
static est_status wide_model(est_model *model, est_mode mode, const void *params)
{
    est_node x = est_embedding(est_model_feature(model, "id"), 8, 4, NULL), y, label, loss;

    (void)params;
    y = est_batch_norm(est_dense(x, 6, EST_DENSE(.activation = est_relu)), mode == EST_TRAIN, NULL);
    y = est_dense(y, 1, NULL);
    est_model_predict(model, "y", y);
    if (mode == EST_PREDICT) return est_model_status(model);
    label = est_model_label(model, "label");
    loss  = est_mean(est_square(est_sub(y, label)));
    est_model_loss(model, loss);
    est_model_metric(model, "mae", est_metric_mean_absolute_error(label, y, NULL));
    if (mode == EST_TRAIN) {
        est_model_minimize(model, est_with_clipping(est_adagrad(0.1, NULL), 0, 0, 0.5), loss);
    }
    return est_model_status(model);
}

/* What the hook sees of the session. */
typedef struct looker {
    est_hook hook;
    int      n_copies, n_host; /* variables on several devices; on the host */
} looker;

static est_status look(est_hook *hook, est_loop *loop)
{
    looker    *l = EST_CONTAINER_OF(hook, looker, hook);
    est_store *store;

    l->n_copies = l->n_host = 0;
    if (est_session_store(est_loop_session(loop), &store) != EST_OK) return EST_OK;
    for (int i = 0; i < est_store_size(store); i++) {
        l->n_copies += est_store_at(store, i)->n_copies > 0;
        l->n_host += est_store_at(store, i)->device->runs == NULL;
    }
    return EST_OK;
}

typedef struct job {
    est_model_fn        model_fn;
    est_input_fn        input_fn;
    const est_strategy *strategy;
    const char         *dir;
} job;

/* Twice so many steps, the second time from the checkpoint of the first. */
static double train(const job *j, looker *l)
{
    double loss = 0;

    *l = (looker){ .hook = EST_HOOK(.after_run = look) };
    for (int i = 1; i <= 2; i++) {
        est_hook      *hooks[]   = { &l->hook };
        est_metrics   *metrics   = NULL;
        est_estimator *estimator = EST_TEST_ESTIMATOR(j->model_fn, j->dir, "{}", .train_distribute = j->strategy,
                                                      .log_device_placement = true);

        assert_int_equal(est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = j->input_fn, .max_steps = i * STEPS,
                                                                .hooks = { hooks, 1 })),
                         EST_OK);
        assert_int_equal(est_evaluate(estimator, EST_EVALUATE_OPTIONS(.input_fn = j->input_fn, .steps = 2), &metrics),
                         EST_OK);
        loss = est_metrics_get(metrics, "loss");
        est_metrics_free(metrics);
        est_estimator_free(estimator);
    }
    return loss;
}

static void compare(est_model_fn model_fn, est_input_fn input_fn, est_strategy *here, est_strategy *far, looker *l)
{
    char   a[64], b[64];
    double want, got;
    looker own;

    est_test_dir(a);
    est_test_dir(b);
    want = train(&(job){ model_fn, input_fn, here, a }, &own);
    assert_int_equal(own.n_copies, 0);
    log_keep(EST_LOG_INFO);
    got = train(&(job){ model_fn, input_fn, far, b }, l);
    log_release();
    assert_true(want == got);
    est_test_same_checkpoint(a, b);
    est_test_dir_remove(a);
    est_test_dir_remove(b);
    est_strategy_free(here);
    est_strategy_free(far);
}

/* Each device computes its part of a step and, when gradients have met on the host, its updates. */
static void expect_two_phases(void)
{
    log_expect("info /device:GPU:0: phase 2 of a step");
    log_expect("info /device:GPU:1: phase 2 of a step");
    assert_false(log_has("phase 3 of a step"));
}

TEST(mirrored)
{
    for (int wide = 0; wide < 2; wide++) {
        est_strategy *cpus, *gpus;
        looker        l;

        assert_int_equal(est_mirrored_strategy(EST_MIRRORED(.devices = EST_STRINGS("/cpu:0", "/cpu:1")), &cpus),
                         EST_OK);
        assert_int_equal(est_mirrored_strategy(EST_MIRRORED(.devices = EST_STRINGS("/gpu:0", "/gpu:1")), &gpus),
                         EST_OK);
        compare(wide ? wide_model : est_test_model, wide ? make_wide : est_test_input, cpus, gpus, &l);
        if (!wide) expect_two_phases(); /* a far device has no kernel that leaves rows out: it makes them on the host */
        assert_true(l.n_copies >= 9);   /* weights and their slots */
        assert_int_equal(l.n_host, 1);  /* the global step */
        assert_int_equal(est_far_device_counts().blocks, 0);
    }
}

/* The host keeps all variables, of one device as of two. */
TEST(central_storage)
{
    for (int n = 1; n <= 2; n++) {
        est_strings   devices = { (const char *const[]){ "/gpu:0", "/gpu:1" }, n };
        est_strategy *cpus, *gpus;
        looker        l;

        assert_int_equal(est_central_storage_strategy(EST_CENTRAL_STORAGE(.replicas = n), &cpus), EST_OK);
        assert_int_equal(est_central_storage_strategy(EST_CENTRAL_STORAGE(.compute_devices = devices), &gpus), EST_OK);
        compare(est_test_model, est_test_input, cpus, gpus, &l);
        log_expect(n == 1 ? "/job:localhost/replica:0/task:0/device:GPU:0"
                          : "/job:localhost/replica:0/task:0/device:GPU:1");
        assert_int_equal(l.n_copies, 0);
        assert_true(l.n_host >= 9);
    }
}

int main(void)
{
    est_devices_use(est_far_devices, 2);
    return est_test_run(NULL, NULL);
}
