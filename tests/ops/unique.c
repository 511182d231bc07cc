/* SPDX-License-Identifier: Apache-2.0 — Unique. */
#include "support/coords.h"
#include "support/graph_test.h"
#include "support/op_check.h"

static void unique_ref(est_ref *r)
{
    int64_t found = 0;

    for (int64_t i = 0; i < r->in_shape[0].dim[0]; i++) {
        int64_t at = 0;

        while (at < found && r->out[0][at] != r->in[0][i]) at++;
        if (at == found && found < r->out_shape[0].dim[0]) r->out[0][found++] = r->in[0][i];
        r->out[1][i] = (double)at;
    }
}

#define INDEX64 EST_ATTRS(est_attr_type("out_idx", EST_I64))

static void test_string_tensors(void)
{
    static const char *const words[] = { "b", "", "a longer word than eight", "b", "a longer word than eight", "" };
    est_graph               *graph   = test_graph();
    est_tensor              *tensor  = test_strings(EST_SHAPE(6), words), *out;
    est_node                 index, y = est_unique(est_const(graph, tensor), &index);

    check_strings(y, EST_SHAPE(3), words);
    out = test_run(index, EST_NO_FEEDS);
    CHECK(out != NULL && memcmp(est_tensor_data(out), (const int32_t[]){ 0, 1, 2, 0, 2, 1 }, 24) == 0);
    est_tensor_free(out);
    est_tensor_free(tensor);
    est_graph_free(graph);
}

/* What comes after sees the real size: gather(unique(x).y, unique(x).idx) = x, and the size of y. */
static void test_round_trip(void)
{
    est_graph  *graph = test_graph();
    est_node    x     = est_placeholder(graph, "x", EST_I64, EST_SHAPE(-1)), index;
    est_node    y     = est_unique(x, &index);
    est_node    again = est_gather(y, index, 0), size = est_size(y);
    est_tensor *feed = NULL, *out;

    CHECK(est_node_dim(y, 0) == -1);
    CHECK(est_tensor_i64(EST_SHAPE(5), (const int64_t[]){ 7, -3, 7, 7, 1 }, &feed) == EST_OK);
    out = test_run(again, EST_FEEDS({ x, feed }));
    CHECK(out != NULL && memcmp(est_tensor_data(out), est_tensor_data(feed), 40) == 0);
    est_tensor_free(out);
    out = test_run(size, EST_FEEDS({ x, feed }));
    CHECK(out != NULL && *(const int32_t *)est_tensor_data(out) == 3);
    est_tensor_free(out);
    est_tensor_free(feed);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "Unique", { IN(10) }, .dtype = EST_I32, .lo = 0, .hi = 4, .ref = unique_ref },
        { "Unique", { IN(1) }, .dtype = EST_I64, .ref = unique_ref },
        { "Unique", { IN(0) }, .dtype = EST_I64, .ref = unique_ref },
        { "Unique", { IN(300) }, .dtype = EST_I64, .lo = -1e12, .hi = 1e12, .attrs = INDEX64, .ref = unique_ref },
        { "Unique", { IN(4000) }, .dtype = EST_I64, .lo = 0, .hi = 900, .ref = unique_ref },
        { "Unique",
          { { .shape = EST_SHAPE(4), .dtype = EST_I64, .values = (const double[]){ 16, 32, 48, 64 } } },
          .ref = unique_ref },
        { "Unique", { IN(2, 3) }, .dtype = EST_I32, .fails = EST_INVALID_ARGUMENT, .says = "rank 1" },
    };

    test_string_tensors();
    test_round_trip();
    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv) != 0 || graph_test_failures != 0;
}
