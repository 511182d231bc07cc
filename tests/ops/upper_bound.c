/* SPDX-License-Identifier: Apache-2.0 — UpperBound, and est_bucketize(), which is made of it. */
#include <math.h>

#include "support/graph_test.h"
#include "support/op_check.h"

static void upper_bound_ref(est_ref *r)
{
    int64_t n = r->in_shape[0].dim[1], per_row = r->in_shape[1].dim[1];

    for (int64_t i = 0; i < est_shape_count(&r->in_shape[1]); i++) {
        int64_t count = 0;

        for (int64_t k = 0; k < n; k++) count += !(r->in[1][i] < r->in[0][i / per_row * n + k]);
        r->out[0][i] = (double)count;
    }
}

/* Sorted rows of two lengths, with repeats. */
static const double two_rows[] = { -1, 0, 0, 2, 5, -3, -2, -2, -2, 4 };
static double       long_row[257];

#define SORTED(values_, rows, n, type)                                                                                 \
    {                                                                                                                  \
        .shape = EST_SHAPE(rows, n), .dtype = type, .values = values_                                                  \
    }
#define VALUES(rows, n, type)                                                                                          \
    {                                                                                                                  \
        .shape = EST_SHAPE(rows, n), .dtype = type, .lo = -4, .hi = 6                                                  \
    }

/* The buckets of a tensor, which is freed. */
static void check_buckets(est_tensor *in, est_shape known, const int32_t *want)
{
    est_graph  *graph = test_graph();
    est_node    x     = est_placeholder(graph, "x", est_tensor_dtype(in), known);
    est_tensor *out   = test_run(est_bucketize(x, (est_f32s){ (const float[]){ -1, 0, 10.5F }, 3 }),
                                 EST_FEEDS({ x, in }));

    if (out != NULL) {
        CHECK(est_tensor_dtype(out) == EST_I32 && est_shape_equal(est_tensor_shape(out), est_tensor_shape(in)));
        for (int64_t i = 0; i < est_tensor_count(out); i++) {
            CHECK(((const int32_t *)est_tensor_data(out))[i] == want[i], "element %d", (int)i);
        }
    }
    est_tensor_free(out);
    est_tensor_free(in);
    est_graph_free(graph);
}

static void test_bucketize(void)
{
    est_graph  *graph = test_graph();
    est_tensor *in    = NULL;

    CHECK(est_tensor_f32(EST_SHAPE(2, 4), (const float[]){ -2, -1, -0.5F, 0, 10, 10.5F, INFINITY, NAN }, &in) ==
          EST_OK);
    check_buckets(in, EST_SHAPE(-1, 4), (const int32_t[]){ 0, 1, 1, 2, 2, 3, 3, 3 });
    CHECK(est_tensor_create_from(EST_F64, EST_SHAPE(3), (const double[]){ -1e-300, 0, 10.4 }, &in) == EST_OK);
    check_buckets(in, EST_SHAPE(-1), (const int32_t[]){ 1, 2, 2 });
    CHECK(est_tensor_i64(EST_SHAPE(4), (const int64_t[]){ -5, -1, 10, 11 }, &in) == EST_OK);
    check_buckets(in, EST_SHAPE_UNKNOWN, (const int32_t[]){ 0, 1, 2, 3 });
    CHECK(est_tensor_create_from(EST_I32, EST_SHAPE(1, 2), (const int32_t[]){ 0, 11 }, &in) == EST_OK);
    check_buckets(in, EST_SHAPE(1, 2), (const int32_t[]){ 2, 3 });
    CHECK(est_tensor_create(EST_F32, EST_SHAPE(0, 2), &in) == EST_OK);
    check_buckets(in, EST_SHAPE(-1, 2), NULL);

    (void)est_bucketize(est_placeholder(graph, "x", EST_F32, EST_SHAPE(2)),
                        (est_f32s){ (const float[]){ 1, 2, 1.5F }, 3 });
    CHECK(est_graph_status(graph) == EST_INVALID_ARGUMENT && strstr(est_error_message(), "[1] is 2 and [2] is 1.5"),
          "%s", est_error_message());
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    static const double with_nan[] = { 0, NAN, 9 };
    est_attrs           wide       = EST_ATTRS(est_attr_type("out_type", EST_I64));
    const est_op_case   cases[]    = {
             { "UpperBound", { SORTED(two_rows, 2, 5, 0), VALUES(2, 7, 0) }, .ref = upper_bound_ref },
             { "UpperBound", { SORTED(two_rows, 2, 5, EST_I32), VALUES(2, 9, EST_I32) }, .ref = upper_bound_ref },
             { "UpperBound",
               { SORTED(two_rows, 2, 5, EST_I64), VALUES(2, 9, EST_I64) },
               .attrs = wide,
               .ref   = upper_bound_ref },
             { "UpperBound", { SORTED(two_rows, 1, 10, EST_I64), VALUES(1, 0, EST_I64) }, .ref = upper_bound_ref },
             { "UpperBound", { VALUES(2, 0, 0), VALUES(2, 3, 0) }, .ref = upper_bound_ref },
             { "UpperBound", { VALUES(0, 3, 0), VALUES(0, 3, 0) }, .ref = upper_bound_ref },
             { "UpperBound", { SORTED(long_row, 1, 257, EST_I64), VALUES(1, 3000, EST_I64) }, .ref = upper_bound_ref },
             { "UpperBound", { SORTED(two_rows, 1, 5, 0), SORTED(with_nan, 1, 3, 0) }, .ref = upper_bound_ref },
             { "UpperBound", { IN(2, 3), IN(3, 3) }, .fails = EST_INVALID_ARGUMENT, .says = "same number of rows" },
             { "UpperBound", { IN(3), IN(3) }, .fails = EST_INVALID_ARGUMENT },
    };

    for (int i = 0; i < 257; i++) long_row[i] = i / 20 - 4;
    test_bucketize();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv) != 0 || graph_test_failures != 0;
}
