/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of networks: small ones, and data for them. */
#ifndef EST_TESTS_NETWORK_TEST_H
#define EST_TESTS_NETWORK_TEST_H

#include <math.h>
#include <string.h>

#include "estoc/callbacks.h"
#include "estoc/network.h"
#include "estoc/ops.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/log_test.h"
#include "support/nn_test.h"

/* A call fails with this code, and its error has this text. */
#define expect_error(expr, code, text)                                                                                 \
    do {                                                                                                               \
        assert_int_equal((expr), (code));                                                                              \
        if (strstr(est_error_message(), (text)) == NULL) fail_msg("%s", est_error_message());                          \
    } while (0)

static inline est_tensor *floats(est_shape shape, const float *values)
{
    est_tensor *t;

    assert_ok(est_tensor_f32(shape, values, &t));
    return t;
}

/* n rows of `width` numbers that look random and are the same each time. */
static inline est_tensor *noise(int64_t n, int64_t width, uint32_t seed)
{
    est_tensor *t;
    float      *at;

    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(n, width), &t));
    at = est_tensor_mutable_data(t);
    for (int64_t i = 0; i < n * width; i++) {
        seed  = seed * 1664525u + 1013904223u;
        at[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
    }
    return t;
}

/* Batches of the rows of these arrays. */
static inline est_dataset *batches(est_named_tensors arrays, int64_t n)
{
    est_dataset *d;

    assert_ok(est_dataset_finish(est_dataset_batch(est_dataset_slices(arrays), n, NULL), &d));
    return d;
}

/* Dense(1) that starts at 0, over one input. */
static inline est_status try_line(const est_network_options *options, est_network **out)
{
    est_layer *dense = est_layer_dense(1, EST_DENSE(.kernel_initializer = est_init_zeros()));

    return dense != NULL ? est_network_sequential(EST_LAYERS(dense), options, out) : EST_RESOURCE_EXHAUSTED;
}

static inline est_network *make_line(const est_network_options *options, const est_compile_options *compile)
{
    est_network *network;

    assert_ok(try_line(options, &network));
    assert_ok(est_network_compile(network, compile));
    return network;
}

/* "<directory of the test>/<name>"; good until the fourth call after this one. */
static inline const char *test_path(const char *name)
{
    static char paths[4][256];
    static int  next;
    char       *path = paths[next++ % 4];

    (void)snprintf(path, sizeof paths[0], "%s/%s", est_test_root, name);
    return path;
}

static inline double variable_at(est_network *network, const char *name, int i)
{
    est_tensor *value;
    double      x;

    assert_ok(est_session_read(est_network_session(network), name, &value));
    x = (double)((const float *)est_tensor_data(value))[i];
    est_tensor_free(value);
    return x;
}

/* Variables of two networks are the same, bit for bit. */
static inline void expect_same_variable(est_network *a, est_network *b, const char *name)
{
    est_tensor *x, *y;

    assert_ok(est_session_read(est_network_session(a), name, &x));
    assert_ok(est_session_read(est_network_session(b), name, &y));
    assert_int_equal(est_tensor_bytes(x), est_tensor_bytes(y));
    assert_memory_equal(est_tensor_data(x), est_tensor_data(y), est_tensor_bytes(x));
    est_tensor_free(x);
    est_tensor_free(y);
}

#endif
