/* SPDX-License-Identifier: Apache-2.0 */
#include "ragged.h"
#include "support/graph_test.h"

static void multi_hot_ref(est_ref *r)
{
    int64_t depth = r->out_shape[0].dim[1];

    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = 0;
    for (int64_t row = 0; row < r->out_shape[0].dim[0]; row++) {
        for (int64_t i = (int64_t)r->in[1][row]; i < (int64_t)r->in[1][row + 1]; i++) {
            double id = r->in[0][i];

            if (id >= 0 && id < (double)depth) r->out[0][row * depth + (int64_t)id] += r->n_in > 2 ? r->in[2][i] : 1;
        }
    }
}

/* What TensorFlow's indicator_column makes of identity ids, and of the same with weights. */
static void test_builder(void)
{
    static const float plain[] = { 0, 2, 1, 0 }, weighted[] = { 0, 3.5F, 2, 0 };
    est_graph         *graph = test_graph();
    est_ragged_node    ids   = { est_const_i64(graph, EST_SHAPE(6), (const int64_t[]){ 1, -1, 2, 1, -2, 5 }),
                                 est_const_i64(graph, EST_SHAPE(2), (const int64_t[]){ 0, 6 }) };
    est_node           w     = est_const_f32(graph, EST_SHAPE(6), (const float[]){ 0.5F, 9, 2, 3, 9, 9 });
    est_tensor        *out   = test_run(est_multi_hot(ids, EST_NO_NODE, 4), EST_NO_FEEDS);

    CHECK(out != NULL && memcmp(est_tensor_data(out), plain, sizeof plain) == 0);
    est_tensor_free(out);
    out = test_run(est_multi_hot(ids, w, 4), EST_NO_FEEDS);
    CHECK(out != NULL && memcmp(est_tensor_data(out), weighted, sizeof weighted) == 0);
    est_tensor_free(out);
    est_graph_free(graph);
}

#define ATTRS(depth, n)    EST_ATTRS(est_attr_int("depth", depth), est_attr_int("N", n))
#define HOT(depth)         .op = "EstMultiHot", .ref = multi_hot_ref, .n_in = 2, .attrs = ATTRS(depth, 0)
#define WEIGHED_HOT(depth) .op = "EstMultiHot", .ref = multi_hot_ref, .n_in = 3, .attrs = ATTRS(depth, 1)
#define IDS(n)             SOME(EST_I64, n, -1, 10)
#define WRONG              .fails = EST_INVALID_ARGUMENT, .says

int main(int argc, char **argv)
{
    int64_t           n       = many_rows();
    const est_op_case cases[] = {
        { HOT(5), .in = { IDS(6), SPLITS(0, 2, 2, 5, 6) } },
        { HOT(1), .in = { SOME(EST_I32, 6, -1, 2), SPLITS(0, 2, 2, 5, 6) } },
        { WEIGHED_HOT(9), .in = { IDS(6), SPLITS(0, 2, 2, 5, 6), IN(6) }, .tol = 1e-6 },
        { HOT(3), .in = { IDS(0), SPLITS(0, 0, 0) } },
        { HOT(3), .in = { IDS(0), SPLITS(0) } },
        { WEIGHED_HOT(9), .in = { IDS(n), MANY_SPLITS, IN(n) }, .tol = 1e-6 },
        { HOT(0), .in = { IDS(3), SPLITS(0, 3) }, WRONG = "depth is 0" },
        { HOT(4), .in = { IDS(3), SPLITS(0, 2, 1, 3) }, WRONG = "row 1 goes from 2 to 1" },
        { HOT(4), .in = { IDS(3), SPLITS(0, 4) }, WRONG = "with 3 values" },
        { WEIGHED_HOT(4), .in = { IDS(3), SPLITS(0, 3), IN(2) }, WRONG = "a weight each" },
    };

    test_builder();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv) != 0 || graph_test_failures != 0;
}
