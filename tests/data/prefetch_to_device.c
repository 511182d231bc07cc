/* SPDX-License-Identifier: Apache-2.0
 *
 * prefetch_to_device, on a far device: the same elements in its memory, at few addresses; positions with what was
 * copied ahead; steps that take them where they lie. */
#include <stdio.h>
#include <string.h>

#include "data/encode.h"
#include "device/devices.h"
#include "estoc/estoc.h"
#include "support/data_test.h"
#include "support/far_device.h"
#include "support/nn_test.h"
#include "support/test.h"
#include "tensor/tensor.h"

#define ROWS  22
#define BATCH 4

/* Rows x [2], ids and names, in batches, of which the last is smaller. */
static est_dataset *batches(const char *device)
{
    est_tensor  *x, *ids, *names;
    est_dataset *d, *out;

    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(ROWS, 2), &x));
    assert_ok(est_tensor_create(EST_I64, EST_SHAPE(ROWS), &ids));
    assert_ok(est_tensor_create(EST_STRING, EST_SHAPE(ROWS), &names));
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < 2; k++) ((float *)est_tensor_mutable_data(x))[2 * i + k] = (float)(i * 3 + k);
        ((int64_t *)est_tensor_mutable_data(ids))[i] = i % 5;
        assert_ok(est_tensor_set_string(names, i, "n", 1));
    }
    d = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "ids", ids }, { "names", names }));
    d = est_dataset_batch(d, BATCH, NULL);
    if (device != NULL) d = est_dataset_prefetch_to_device(d, device, 2);
    assert_ok(est_dataset_finish(d, &out));
    est_tensor_free(x);
    est_tensor_free(ids);
    est_tensor_free(names);
    return out;
}

static void assert_same(est_tensor *a, est_tensor *b)
{
    est_tensor *x, *y;

    assert_ok(est_tensor_to_host(a, &x));
    assert_ok(est_tensor_to_host(b, &y));
    assert_int_equal(est_tensor_bytes(x), est_tensor_bytes(y));
    assert_memory_equal(est_tensor_data(x), est_tensor_data(y), est_tensor_bytes(x));
    est_tensor_free(x);
    est_tensor_free(y);
}

static void assert_nothing_left(void)
{
    assert_int_equal(est_far_device_counts().opened, 0);
    assert_int_equal(est_far_device_counts().blocks, 0);
}

TEST(elements)
{
    est_dataset  *here = batches(NULL), *there = batches("/gpu:0");
    est_iterator *a, *b;
    est_field     x[3], y[3];
    const void   *at[8];
    char          device[32];
    int           n = 0, n_at = 0;

    assert_ok(est_iterator_create(here, &a));
    assert_ok(est_iterator_create(there, &b));
    for (int turn = 0; est_iterator_next(a, x) == EST_OK; turn++, n++) {
        const void *far;
        int         k = 0;

        assert_ok(est_iterator_next(b, y));
        for (int i = 0; i < 3; i++) {
            assert_string_equal(est_tensor_device_name(y[i].values, device, sizeof device),
                                i == 0 ? "/device:GPU:0" : "/device:CPU:0");
            if (i < 2) assert_same(x[i].values, y[i].values);
        }
        far = est_tensor_far_data(y[0].values);
        while (k < n_at && at[k] != far) k++;
        if (k == n_at) at[n_at++] = far;
        est_element_clear(x, 3);
        est_element_clear(y, 3);
    }
    assert_int_equal(n, 6);
    assert_true(n_at <= 4); /* two ahead, the one that is made, and the one that is used */
    assert_int_equal(est_iterator_next(b, y), EST_OUT_OF_RANGE);
    est_iterator_free(a);
    est_iterator_free(b);
    est_dataset_free(here);
    est_dataset_free(there);
    assert_nothing_left();
}

/* What was copied ahead is in the position; an element outlives its iterator. */
TEST(positions)
{
    est_dataset  *here = batches(NULL), *there = batches("/gpu:0");
    est_iterator *a, *b;
    est_tensor   *position;
    est_field     x[3], y[3];

    assert_ok(est_iterator_create(here, &a));
    assert_ok(est_iterator_create(there, &b));
    assert_ok(est_iterator_next(a, x));
    assert_ok(est_iterator_next(b, y));
    est_element_clear(x, 3);
    est_element_clear(y, 3);
    assert_ok(est_iterator_save(b, &position));
    est_iterator_free(b);
    assert_ok(est_iterator_create(there, &b));
    assert_ok(est_iterator_restore(b, position));
    est_tensor_free(position);
    for (int i = 1; i < 6; i++) {
        assert_ok(est_iterator_next(a, x));
        assert_ok(est_iterator_next(b, y));
        for (int k = 0; k < 2; k++) assert_same(x[k].values, y[k].values);
        est_element_clear(x, 3);
        if (i < 5) est_element_clear(y, 3);
    }
    est_iterator_free(a);
    est_iterator_free(b);
    est_dataset_free(there);
    est_dataset_free(here);
    est_element_clear(y, 3);
    assert_nothing_left();
}

/* Three passes of training, ahead of the device; the variables. */
static est_tensor *train(const char *device, est_far_counts *counts)
{
    est_dataset  *d = batches(device);
    est_graph    *graph;
    est_session  *session;
    est_iterator *it;
    est_step     *step;
    est_node      x, ids, y, loss, update;
    est_tensor   *out;

    assert_ok(est_graph_create(4, &graph));
    x      = est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1, 2));
    ids    = est_placeholder(graph, "ids", EST_I64, EST_SHAPE(-1));
    y      = est_concat(EST_NODES(x, est_embedding(ids, 5, 3, NULL)), 1);
    loss   = est_mean(est_square(est_dense(y, 1, EST_DENSE(.name = "out"))));
    update = est_minimize(est_adagrad(0.1, NULL), loss, NULL);
    assert_ok(est_session_create(graph, NULL, &session));
    assert_ok(est_session_init(session));
    assert_ok(est_session_prepare(session, EST_NODES(x, ids), EST_NODES(loss), EST_NODES(update), &step));
    for (int pass = 0; pass < 3; pass++) {
        est_field e[3];

        assert_ok(est_iterator_create(d, &it));
        if (pass == 2) *counts = est_far_device_counts();
        while (est_iterator_next(it, e) == EST_OK) {
            assert_ok(est_step_start(step, (const est_tensor *const[]){ e[0].values, e[1].values }));
            est_element_clear(e, 3); /* the step has references */
        }
        est_iterator_free(it);
    }
    assert_ok(est_step_wait(step));
    counts->sent = est_far_device_counts().sent - counts->sent;
    assert_ok(est_session_read(session, "out/kernel", &out));
    est_session_free(session);
    est_graph_free(graph);
    est_dataset_free(d);
    return out;
}

TEST(steps_take_them_where_they_lie)
{
    est_far_counts fed, resident;
    est_tensor    *a = train(NULL, &fed), *b = train("/gpu:0", &resident);

    assert_memory_equal(est_tensor_data(a), est_tensor_data(b), est_tensor_bytes(a));
    assert_int_equal(fed.sent - resident.sent, ROWS * 8); /* all of x */
    est_tensor_free(a);
    est_tensor_free(b);
    assert_nothing_left();
}

TEST(refused)
{
    est_wire_writer bytes = { 0 };
    est_dataset    *d     = batches("/gpu:0");

    assert_int_equal(est_dataset_encode(d, &bytes), EST_UNIMPLEMENTED);
    assert_non_null(strstr(est_error_message(), "prefetch_to_device cannot be sent"));
    est_wire_writer_clear(&bytes);
    est_dataset_free(d);
    est_test_refused(est_dataset_prefetch_to_device(est_dataset_range(0, 3, 1), "/gpu:0", 0), "0 elements ahead");
    est_test_refused(est_dataset_prefetch_to_device(est_dataset_range(0, 3, 1), NULL, 1), "the device is NULL");
    est_test_refused(est_dataset_take(est_dataset_prefetch_to_device(est_dataset_range(0, 3, 1), "/gpu:0", 1), 2),
                     "must be the last stage");
    est_test_yields(est_dataset_prefetch_to_device(est_dataset_range(0, 3, 1), "/cpu:0", 1), "0 ; 1 ; 2");
}

int main(void)
{
    est_devices_use((const est_device *const[]){ est_far_devices[0] }, 1);
    return est_test_run(NULL, NULL);
}
