/* SPDX-License-Identifier: Apache-2.0
 *
 * EstRaggedToDense, and the lengths of ragged rows. */
#include "ragged.h"
#include "support/graph_test.h"

static void to_dense_ref(est_ref *r)
{
    int64_t longest = r->out_shape[0].dim[1];

    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) {
        double at = r->in[1][i / longest] + (double)(i % longest);

        r->out[0][i] = at < r->in[1][i / longest + 1] ? r->in[0][(int64_t)at]
                                                      : est_node_float(r->node, "default_value");
    }
}

/* As wide as the longest row, which the reference takes from the result. */
static int check_width(est_ref *r, est_view *const *in, const est_view *out)
{
    int64_t        longest = 0;
    const int64_t *splits  = in[1]->data;

    (void)r;
    for (int64_t i = 0; i + 1 < in[1]->count; i++) {
        if (splits[i + 1] - splits[i] > longest) longest = splits[i + 1] - splits[i];
    }
    return out[0].shape.dim[1] != longest;
}

static void test_lengths(void)
{
    est_graph      *graph  = test_graph();
    est_node        splits = est_placeholder(graph, "splits", EST_I64, EST_SHAPE(-1));
    est_ragged_node x      = { est_placeholder(graph, "values", EST_F32, EST_SHAPE(-1)), splits };
    est_tensor     *feed   = NULL, *out;

    CHECK(est_tensor_i64(EST_SHAPE(4), (const int64_t[]){ 0, 2, 2, 5 }, &feed) == EST_OK);
    out = test_run(est_ragged_lengths(x), EST_FEEDS({ splits, feed }));
    CHECK(out != NULL && est_tensor_count(out) == 3 &&
          memcmp(est_tensor_data(out), (const int64_t[]){ 2, 0, 3 }, 24) == 0);
    est_tensor_free(out);
    est_tensor_free(feed);
    est_graph_free(graph);
}

#define DENSE .op = "EstRaggedToDense", .ref = to_dense_ref, .also = check_width
#define WRONG .fails = EST_INVALID_ARGUMENT, .says

int main(int argc, char **argv)
{
    est_attrs         zero    = EST_ATTRS(est_attr_float("default_value", 0));
    est_attrs         none    = EST_ATTRS(est_attr_float("default_value", -1));
    int64_t           n       = many_rows();
    const est_op_case cases[] = {
        { DENSE, .in = { IN(6), SPLITS(0, 2, 2, 5, 6) }, .attrs = zero },
        { DENSE, .in = { SOME(EST_I64, 6, -9, 9), SPLITS(0, 2, 2, 5, 6) }, .attrs = none },
        { DENSE, .in = { SOME(EST_I32, 6, -9, 9), SPLITS(0, 6) }, .attrs = none },
        { DENSE, .in = { IN(0), SPLITS(0, 0, 0) }, .attrs = none },
        { DENSE, .in = { IN(0), SPLITS(0) }, .attrs = none },
        { DENSE, .in = { IN(n), MANY_SPLITS }, .attrs = none },
        { DENSE, .in = { IN(3), SPLITS(0, 2, 1, 3) }, .attrs = zero, WRONG = "row 1 goes from 2 to 1" },
        { DENSE, .in = { IN(3), SPLITS(0, 2) }, .attrs = zero, WRONG = "end at 2, with 3" },
    };

    test_lengths();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv) != 0 || graph_test_failures != 0;
}
