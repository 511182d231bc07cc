/* SPDX-License-Identifier: Apache-2.0
 *
 * AsString; tests/interop/feature_ops.c compares it with TensorFlow's. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "graph/graph.h"
#include "ops/ops.h"
#include "support/graph_test.h"
#include "support/op_check.h"

/* est_as_string() of the values against the texts. */
static void check(est_dtype dtype, est_shape shape, const void *values, const char *const *texts)
{
    est_graph  *graph  = test_graph();
    est_tensor *tensor = NULL;
    est_node    y;

    CHECK(est_tensor_create_from(dtype, shape, values, &tensor) == EST_OK, "%s", est_error_message());
    y = est_as_string(est_const(graph, tensor));
    CHECK(est_node_dtype(y) == EST_STRING);
    check_strings(y, shape, texts);
    est_tensor_free(tensor);
    est_graph_free(graph);
}

static void test_integers(void)
{
    static const char *const small[] = { "0", "-1", "2147483647", "-2147483648", "10", "99" };
    static const char *const large[] = { "0", "9223372036854775807", "-9223372036854775808", "-3", "1000000" };

    check(EST_I32, EST_SHAPE(2, 3), (const int32_t[]){ 0, -1, INT32_MAX, INT32_MIN, 10, 99 }, small);
    check(EST_I64, EST_SHAPE(5), (const int64_t[]){ 0, INT64_MAX, INT64_MIN, -3, 1000000 }, large);
    check(EST_I64, EST_SHAPE(0), NULL, NULL);
    check(EST_I32, EST_SHAPE_SCALAR, (const int32_t[]){ -7 }, (const char *const[]){ "-7" });
}

static void test_others(void)
{
    static const char *const floats[] = { "1.500000", "100000002004087734272.000000", "-0.000000", "inf", "-inf", "nan",
                                          "0.000000" };
    char                     most[400];

    check(EST_F32, EST_SHAPE(7), (const float[]){ 1.5F, 1e20F, -0.0F, INFINITY, -INFINITY, NAN, 1e-9F }, floats);
    snprintf(most, sizeof most, "%f", -(double)FLT_MAX);
    check(EST_F32, EST_SHAPE(1), (const float[]){ -FLT_MAX }, (const char *const[]){ most });
    snprintf(most, sizeof most, "%f", -DBL_MAX);
    CHECK(strlen(most) == 317);
    check(EST_F64, EST_SHAPE(2), (const double[]){ -DBL_MAX, 0.1 }, (const char *const[]){ most, "0.100000" });
    check(EST_BOOL, EST_SHAPE(2), (const uint8_t[]){ 1, 0 }, (const char *const[]){ "true", "false" });
}

/* Batches of other sizes, larger and smaller, with many threads: the texts are those of the batch. */
static void test_batches(void)
{
    static const int64_t sizes[] = { 3, 5000, 1, 0, 6000 };
    est_graph           *graph   = test_graph();
    est_node             x = est_placeholder(graph, "x", EST_I64, EST_SHAPE(-1)), y = est_as_string(x);
    est_session         *session = NULL;

    CHECK(est_session_create(graph, EST_SESSION(.threads = 3), &session) == EST_OK, "%s", est_error_message());
    for (int s = 0; s < 5; s++) {
        est_tensor *in = NULL, *out = NULL;
        int64_t    *values;

        CHECK(est_tensor_create(EST_I64, EST_SHAPE(sizes[s]), &in) == EST_OK);
        values = est_tensor_mutable_data(in);
        for (int64_t i = 0; i < sizes[s]; i++) values[i] = (i - 50) * (s + 1);
        CHECK(est_session_run(session, EST_FEEDS({ x, in }), EST_NODES(y), EST_NO_NODES, &out) == EST_OK, "%s",
              est_error_message());
        for (int64_t i = 0; out != NULL && i < sizes[s]; i++) {
            est_str got = ((const est_str *)est_tensor_data(out))[i];
            char    want[32];

            snprintf(want, sizeof want, "%lld", (long long)values[i]);
            CHECK(got.size == strlen(want) && memcmp(got.data, want, got.size) == 0, "%.*s instead of %s",
                  (int)got.size, got.data, want);
        }
        est_tensor_free(in);
        est_tensor_free(out);
    }
    est_session_free(session);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "AsString", { IN(3) }, .dtype = EST_I64, .lo = -500, .hi = 500 },
        { "AsString", { IN(2, 2) }, .dtype = EST_F64 },
        { "AsString",
          { IN(3) },
          .attrs = EST_ATTRS(est_attr_int("width", 4)),
          .fails = EST_UNIMPLEMENTED,
          .says  = "default format" },
        { "AsString", { IN(3) }, .dtype = EST_U8, .fails = EST_INVALID_ARGUMENT },
    };

    test_integers();
    test_others();
    test_batches();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv) != 0 || graph_test_failures != 0;
}
