/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks and strategies on devices that run by themselves: two far devices, against the CPU. */
#include "device/devices.h"
#include "estoc/estoc.h"
#include "network/network_test.h"
#include "runtime/session.h"
#include "support/far_device.h"

#define ROWS 24

static est_node model(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x = est_dense(est_network_input_node(inputs, "x"), 4, EST_DENSE(.activation = est_relu));

    (void)graph, (void)user;
    return est_dense(training ? est_dropout(x, 0.25, 5) : x, 1, NULL);
}

/* What a network has computed. */
typedef struct result {
    est_network *network;
    est_history *history;
    est_tensor  *predicted;
    double       tested[2];
} result;

static result train(const est_strategy *strategy)
{
    est_tensor  *x = noise(ROWS, 3, 1), *y = noise(ROWS, 1, 2);
    est_dataset *d = batches(EST_NAMED_TENSORS({ "x", x }, { "y", y }), 8);
    result       r;

    assert_ok(est_network_create(model, EST_NETWORK(.strategy = strategy, .seed = 3, .threads = 1), &r.network));
    assert_ok(
        est_network_compile(r.network, EST_COMPILE(.loss = "mse", .optimizer = "adam", .metrics = EST_STRINGS("mae"))));
    assert_ok(est_network_fit(r.network, EST_FIT(.input = d, .epochs = 3, .verbose = EST_VERBOSE_NONE), &r.history));
    assert_ok(est_network_predict(r.network, EST_NETWORK_PREDICT(.input = d), &r.predicted));
    assert_ok(est_network_test_on_batch(r.network, EST_NAMED_TENSORS({ "x", x }, { "y", y }), r.tested));
    est_dataset_free(d);
    est_tensor_free(x);
    est_tensor_free(y);
    return r;
}

static void forget(result *r)
{
    est_tensor_free(r->predicted);
    est_history_free(r->history);
    est_network_free(r->network);
}

/* Replicas are added up in the same order wherever they are: the same bits. */
static void expect_same(const result *a, const result *b)
{
    static const char *const names[] = { "dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias" };

    for (int i = 0; i < 4; i++) expect_same_variable(a->network, b->network, names[i]);
    for (int epoch = 0; epoch < 3; epoch++) {
        assert_true(est_history_value(a->history, "loss", epoch) == est_history_value(b->history, "loss", epoch));
        assert_true(est_history_value(a->history, "mae", epoch) == est_history_value(b->history, "mae", epoch));
    }
    assert_memory_equal(est_tensor_data(a->predicted), est_tensor_data(b->predicted), est_tensor_bytes(a->predicted));
    assert_true(a->tested[0] == b->tested[0] && a->tested[1] == b->tested[1]);
}

static const char *device_of(est_network *network, const char *variable)
{
    static est_variable_part part;

    assert_ok(est_session_variable_part(est_network_session(network), variable, 0, &part));
    return strrchr(part.device, '/');
}

static int copies_of(est_network *network, const char *variable)
{
    est_store *store;

    assert_ok(est_session_store(est_network_session(network), &store));
    return est_store_find(store, variable)->n_copies;
}

static void assert_nothing_left(void)
{
    est_far_counts now = est_far_device_counts();

    assert_int_equal(now.opened, 0);
    assert_int_equal(now.blocks, 0);
}

TEST(default_device)
{
    est_strategy  *cpu;
    result         here, far;
    est_far_counts before = est_far_device_counts();

    assert_ok(est_one_device_strategy("/cpu:0", &cpu));
    here = train(cpu);
    assert_int_equal(est_far_device_counts().launched, before.launched);
    assert_string_equal(device_of(here.network, "dense/kernel"), "/device:CPU:0");
    far = train(NULL);
    assert_true(est_far_device_counts().launched > before.launched);
    assert_string_equal(device_of(far.network, "dense/kernel"), "/device:GPU:0");
    expect_same(&here, &far);
    forget(&here);
    forget(&far);
    est_strategy_free(cpu);
    assert_nothing_left();
}

TEST(devices_by_name)
{
    static const char *const names[][2] = { { "/gpu:1", "/device:GPU:1" }, { "/cpu:0", "/device:CPU:0" } };

    for (int i = 0; i < 2; i++) {
        est_network *network;

        assert_ok(est_network_create(
            model,
            EST_NETWORK(.inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(3) }), .devices = EST_STRINGS(names[i][0])),
            &network));
        assert_ok(est_network_build(network, NULL));
        assert_string_equal(device_of(network, "dense/kernel"), names[i][1]);
        est_network_free(network);
    }
    assert_nothing_left();
}

TEST(one_device)
{
    est_strategy *cpu, *gpu;
    result        here, far;

    assert_ok(est_one_device_strategy("/cpu:0", &cpu));
    assert_ok(est_one_device_strategy("/gpu:1", &gpu));
    here = train(cpu);
    far  = train(gpu);
    assert_string_equal(device_of(far.network, "dense/kernel"), "/device:GPU:1");
    assert_string_equal(device_of(far.network, "training/Adam/dense/kernel/m"), "/device:GPU:1");
    expect_same(&here, &far);
    forget(&here);
    forget(&far);
    est_strategy_free(cpu);
    est_strategy_free(gpu);
    assert_nothing_left();
}

TEST(mirrored_over_two_devices)
{
    est_strategy *cpus, *gpus;
    result        here, far;

    assert_ok(est_mirrored_strategy(EST_MIRRORED(.devices = EST_STRINGS("/cpu:0", "/cpu:1")), &cpus));
    log_keep(EST_LOG_INFO);
    assert_ok(est_mirrored_strategy(EST_MIRRORED(.devices = EST_STRINGS("/gpu:0", "/gpu:1")), &gpus));
    log_release();
    log_expect("info Using MirroredStrategy with devices ('/job:localhost/replica:0/task:0/device:GPU:0', "
               "'/job:localhost/replica:0/task:0/device:GPU:1')");
    here = train(cpus);
    far  = train(gpus);
    expect_same(&here, &far);
    assert_int_equal(copies_of(far.network, "dense/kernel"), 1);
    assert_int_equal(copies_of(far.network, "training/Adam/dense/kernel/m"), 1);
    forget(&here);
    forget(&far);
    est_strategy_free(cpus);
    est_strategy_free(gpus);
    assert_nothing_left();
}

TEST(central_storage)
{
    est_strategy *cpus, *gpus;
    result        here, far;

    assert_ok(est_central_storage_strategy(EST_CENTRAL_STORAGE(.replicas = 2), &cpus));
    assert_ok(
        est_central_storage_strategy(EST_CENTRAL_STORAGE(.compute_devices = EST_STRINGS("/gpu:0", "/gpu:1")), &gpus));
    here = train(cpus);
    far  = train(gpus);
    assert_string_equal(device_of(far.network, "dense/kernel"), "/device:CPU:0");
    assert_string_equal(device_of(far.network, "training/Adam/dense/kernel/m"), "/device:CPU:0");
    expect_same(&here, &far);
    forget(&here);
    forget(&far);
    est_strategy_free(cpus);
    est_strategy_free(gpus);
    assert_nothing_left();
}

TEST(refused)
{
    est_strategy *s;

    expect_error(est_one_device_strategy("/gpu:7", &s), EST_INVALID_ARGUMENT, "there is no device \"/gpu:7\"");
    expect_error(est_mirrored_strategy(EST_MIRRORED(.devices = EST_STRINGS("/gpu:0", "/cpu:0")), &s),
                 EST_INVALID_ARGUMENT, "\"/cpu:0\" beside \"/gpu:0\"");
    expect_error(est_mirrored_strategy(EST_MIRRORED(.devices = EST_STRINGS("/gpu:0", "/device:GPU:0")), &s),
                 EST_INVALID_ARGUMENT, "no duplicates");
    expect_error(est_central_storage_strategy(EST_CENTRAL_STORAGE(.parameter_device = "/gpu:0"), &s),
                 EST_INVALID_ARGUMENT, "the host keeps the variables");
}

int main(void)
{
    est_devices_use(est_far_devices, 2);
    return est_test_run(NULL, NULL);
}
