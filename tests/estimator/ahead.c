/* SPDX-License-Identifier: Apache-2.0
 *
 * A training that runs ahead of its device, a far one, against the same on the CPU: variables, texts, steps. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/devices.h"
#include "estoc/estoc.h"
#include "support/dir_test.h"
#include "support/far_device.h"
#include "support/nn_test.h"
#include "support/test.h"

#define BATCH   4
#define BATCHES 40
#define CLASSES 3

static int  bad_row; /* whose label is no class; -1: none */
static int  nan_row; /* whose x is NaN */
static char dir[2][64];

static est_status input(const est_input_context *context, void *user, est_dataset **out)
{
    est_tensor  *x, *y;
    est_dataset *d;

    (void)context, (void)user;
    EST_TRY(est_tensor_create(EST_F32, EST_SHAPE(BATCH * BATCHES, 5), &x));
    EST_TRY(est_tensor_create(EST_I32, EST_SHAPE(BATCH * BATCHES), &y));
    for (int i = 0; i < BATCH * BATCHES * 5; i++) {
        ((float *)est_tensor_mutable_data(x))[i] = i / 5 == nan_row ? NAN : (float)(i * 7 % 11) / 11 - 0.5f;
    }
    for (int i = 0; i < BATCH * BATCHES; i++) {
        ((int32_t *)est_tensor_mutable_data(y))[i] = i == bad_row ? 17 : i % CLASSES;
    }
    d = est_dataset_batch(est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y })), BATCH, NULL);
    est_tensor_free(x);
    est_tensor_free(y);
    return est_dataset_finish(d, out);
}

static est_status model(est_model *m, est_mode mode, const void *params)
{
    est_node x = est_model_feature(m, "x"), y = est_model_label(m, "y"), loss;

    (void)mode, (void)params;
    loss = est_mean(
        est_sparse_softmax_xent(est_dense(est_dense(x, 6, EST_DENSE(.activation = est_relu)), CLASSES, NULL), y));
    est_model_loss(m, loss);
    est_model_minimize(m, est_adagrad(0.1, NULL), loss);
    return est_model_status(m);
}

/* Counts the bytes that come from the device after the first steps. */
typedef struct counter {
    est_hook hook;
    int64_t  before, after;
} counter;

static est_status count(est_hook *hook, est_loop *loop)
{
    counter *c = EST_CONTAINER_OF(hook, counter, hook);

    if (est_loop_global_step(loop) == 10) c->before = est_far_device_counts().fetched;
    if (est_loop_global_step(loop) == 30) c->after = est_far_device_counts().fetched;
    return EST_OK;
}

static est_estimator *make(const char *device, const char *at)
{
    est_estimator *e;

    assert_ok(
        est_estimator_create(model,
                             EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = at, .devices = EST_STRINGS(device),
                                                                    .seed = 5, .quiet = true, .cluster_json = "{}",
                                                                    .save_checkpoints_steps = 1000, .threads = 1)),
                             &e));
    return e;
}

static est_status train(const char *device, const char *at, int64_t steps, counter *c)
{
    est_estimator *e = make(device, at);
    est_status     status;

    status = est_train(e, EST_TRAIN_OPTIONS(.input_fn = input, .max_steps = steps,
                                            .hooks = { (est_hook *[]){ c != NULL ? &c->hook : NULL }, c != NULL }));
    est_estimator_free(e);
    return status;
}

static void assert_same_checkpoints(void)
{
    static const char *const names[] = { "dense/kernel",   "dense/kernel/Adagrad",   "dense/bias",
                                         "dense_1/kernel", "dense_1/kernel/Adagrad", "global_step" };
    est_checkpoint          *a, *b;

    assert_ok(est_checkpoint_open(dir[0], &a));
    assert_ok(est_checkpoint_open(dir[1], &b));
    for (int i = 0; i < 6; i++) {
        est_tensor *x, *y;

        assert_ok(est_checkpoint_read(a, names[i], &x));
        assert_ok(est_checkpoint_read(b, names[i], &y));
        assert_memory_equal(est_tensor_data(x), est_tensor_data(y), est_tensor_bytes(x));
        est_tensor_free(x);
        est_tensor_free(y);
    }
    est_checkpoint_close(a);
    est_checkpoint_close(b);
}

static void begin(int bad, int not_a_number)
{
    bad_row = bad;
    nan_row = not_a_number;
    est_test_dir(dir[0]);
    est_test_dir(dir[1]);
}

static void end(void)
{
    est_test_dir_remove(dir[0]);
    est_test_dir_remove(dir[1]);
}

TEST(trains_as_the_cpu_does)
{
    counter c = { .hook = EST_HOOK(.after_run = count) };

    begin(-1, -1);
    assert_ok(train("/cpu:0", dir[0], 35, NULL));
    assert_ok(train("/gpu:0", dir[1], 35, &c));
    assert_int_equal(c.after, c.before); /* nobody looks at the loss between two lines of the log */
    assert_same_checkpoints();
    end();
}

static est_status resident_input(const est_input_context *context, void *user, est_dataset **out)
{
    EST_TRY(input(context, user, out));
    return est_dataset_finish(est_dataset_prefetch_to_device(*out, "/gpu:0", 2), out);
}

/* From batches that are copied to the device ahead of the steps; stopped, and started again behind what it has read. */
TEST(trains_from_batches_on_the_device)
{
    begin(-1, -1);
    assert_ok(train("/cpu:0", dir[0], 35, NULL));
    for (int64_t steps = 20; steps <= 35; steps += 15) {
        est_estimator *e = make("/gpu:0", dir[1]);

        assert_ok(est_train(e, EST_TRAIN_OPTIONS(.input_fn = resident_input, .max_steps = steps)));
        est_estimator_free(e);
    }
    assert_same_checkpoints();
    end();
    assert_int_equal(est_far_device_counts().blocks, 0);
}

/* In the middle, and just before the end, where no later run would report it. */
TEST(bad_label)
{
    static const int64_t steps[] = { 20, 35 };

    for (int i = 0; i < 2; i++) {
        char text[1024], want[1100];

        begin((int)(steps[i] - 1) * BATCH + 2, -1);
        assert_int_equal(train("/cpu:0", dir[0], 35, NULL), EST_INVALID_ARGUMENT);
        snprintf(text, sizeof text, "%s", est_error_message());
        assert_memory_equal(text, "train: ", 7);
        snprintf(want, sizeof want, "train: step %d: %s", (int)steps[i], text + 7);
        assert_int_equal(train("/gpu:0", dir[1], 35, NULL), EST_INVALID_ARGUMENT);
        assert_string_equal(est_error_message(), want);
        end();
    }
}

/* With the row and the step. */
TEST(not_a_number)
{
    static const int64_t steps[] = { 20, 35 };

    for (int i = 0; i < 2; i++) {
        char text[1024];

        begin(-1, (int)(steps[i] - 1) * BATCH + 2);
        assert_int_equal(train("/cpu:0", dir[0], 35, NULL), EST_INVALID_ARGUMENT);
        snprintf(text, sizeof text, "%s", est_error_message());
        assert_non_null(strstr(text, "NaN loss during training: at step"));
        assert_int_equal(train("/gpu:0", dir[1], 35, NULL), EST_INVALID_ARGUMENT);
        assert_string_equal(est_error_message(), text);
        end();
    }
}

int main(void)
{
    est_devices_use(est_far_devices, 1);
    return est_test_run(NULL, NULL);
}
