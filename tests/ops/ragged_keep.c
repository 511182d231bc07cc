/* SPDX-License-Identifier: Apache-2.0
 *
 * EstRaggedKeep, and ragged rows from dense ones. */
#include "ragged.h"
#include "support/graph_test.h"

static void keep_ref(est_ref *r)
{
    int64_t n = 0;

    r->out[1][0] = 0;
    for (int64_t row = 0; row + 1 < r->in_shape[1].dim[0]; row++) {
        for (int64_t i = (int64_t)r->in[1][row]; i < (int64_t)r->in[1][row + 1]; i++) {
            if (r->in[2][i] == 0) continue;
            if (r->in[0] != NULL) r->out[0][n] = r->in[0][i]; /* strings are looked at below */
            n++;
        }
        r->out[1][row + 1] = (double)n;
    }
}

/* Runs est_ragged_from_dense() of a feed; values in *values, splits checked. */
static est_tensor *from_dense(est_tensor *in, est_shape known, const int64_t *splits)
{
    est_graph      *graph   = test_graph();
    est_session    *session = NULL;
    est_node        x       = est_placeholder(graph, "x", est_tensor_dtype(in), known);
    est_ragged_node y       = est_ragged_from_dense(x);
    est_tensor     *out[2]  = { NULL, NULL };
    int64_t         batch   = est_tensor_shape(in)->dim[0];

    CHECK(est_graph_status(graph) == EST_OK, "%s", est_error_message());
    CHECK(est_session_create(graph, EST_SESSION(.threads = 1), &session) == EST_OK);
    CHECK(est_session_run(session, EST_FEEDS({ x, in }), EST_NODES(y.values, y.splits), EST_NO_NODES, out) == EST_OK,
          "%s", est_error_message());
    if (out[1] != NULL) {
        CHECK(est_tensor_dtype(out[1]) == EST_I64 && est_tensor_count(out[1]) == batch + 1);
        CHECK(memcmp(est_tensor_data(out[1]), splits, (size_t)(batch + 1) * sizeof *splits) == 0);
    }
    est_tensor_free(out[1]);
    est_tensor_free(in);
    est_session_free(session);
    est_graph_free(graph);
    return out[0];
}

static void test_from_dense(void)
{
    static const char *const words[] = { "a", "", "b", "", "", "c" };
    est_tensor              *in      = NULL, *out;
    const est_str           *text;

    out  = from_dense(test_strings(EST_SHAPE(2, 3), words), EST_SHAPE(-1, -1), (const int64_t[]){ 0, 2, 3 });
    text = est_tensor_data(out);
    CHECK(est_tensor_count(out) == 3 && text[0].data[0] == 'a' && text[1].data[0] == 'b' && text[2].data[0] == 'c');
    est_tensor_free(out);

    CHECK(est_tensor_i64(EST_SHAPE(4), (const int64_t[]){ 5, -1, 0, -2 }, &in) == EST_OK);
    out = from_dense(in, EST_SHAPE(-1), (const int64_t[]){ 0, 1, 1, 2, 3 });
    CHECK(est_tensor_count(out) == 3 && memcmp(est_tensor_data(out), (const int64_t[]){ 5, 0, -2 }, 24) == 0);
    est_tensor_free(out);

    CHECK(est_tensor_f32(EST_SHAPE(1, 4), (const float[]){ 0, 2, -0.0F, -1 }, &in) == EST_OK);
    out = from_dense(in, EST_SHAPE(1, 4), (const int64_t[]){ 0, 2 });
    CHECK(est_tensor_count(out) == 2 && memcmp(est_tensor_data(out), (const float[]){ 2, -1 }, 8) == 0);
    est_tensor_free(out);

    CHECK(est_tensor_create(EST_I32, EST_SHAPE(0, 3), &in) == EST_OK);
    out = from_dense(in, EST_SHAPE(-1, 3), (const int64_t[]){ 0 });
    CHECK(est_tensor_count(out) == 0);
    est_tensor_free(out);
}

static void test_from_dense_rank(void)
{
    est_graph      *graph = test_graph();
    est_ragged_node y     = est_ragged_from_dense(est_placeholder(graph, "cube", EST_I64, EST_SHAPE(-1, 2, 2)));

    CHECK(est_graph_status(graph) == EST_INVALID_ARGUMENT && strstr(est_error_message(), "'cube' of shape") != NULL,
          "%s", est_error_message());
    CHECK(y.values.graph == graph && y.splits.graph == graph);
    est_graph_free(graph);
}

#define KEEP .op = "EstRaggedKeep", .ref = keep_ref
#define FLAGS(n)                                                                                                       \
    {                                                                                                                  \
        .shape = EST_SHAPE(n), .dtype = EST_BOOL                                                                       \
    }
#define WRONG .fails = EST_INVALID_ARGUMENT, .says

int main(int argc, char **argv)
{
    static const char *const words[] = { "x", "a longer word", "", "y", "z", "last" };
    int64_t                  n       = many_rows();
    const est_op_case        cases[] = {
               { KEEP, .in = { IN(6), SPLITS(0, 2, 2, 5, 6), FLAGS(6) } },
               { KEEP, .in = { IN(6), SPLITS(0, 2, 2, 5, 6), LIST(EST_BOOL, 1, 1, 1, 1, 1, 1) } },
               { KEEP, .in = { SOME(EST_I64, 6, -9, 9), SPLITS(0, 2, 2, 5, 6), LIST(EST_BOOL, 0, 0, 0, 0, 0, 0) } },
               { KEEP, .in = { SOME(EST_I32, 6, -9, 9), SPLITS(0, 6), FLAGS(6) } },
               { KEEP, .in = { { .shape = EST_SHAPE(6), .dtype = EST_STRING, .strings = words }, SPLITS(0, 4, 6), FLAGS(6) } },
               { KEEP, .in = { IN(0), SPLITS(0, 0), FLAGS(0) } },
               { KEEP, .in = { IN(0), SPLITS(0), FLAGS(0) } },
               { KEEP, .in = { IN(n), MANY_SPLITS, FLAGS(n) } },
               { KEEP, .in = { IN(3), SPLITS(0, 2, 1, 3), FLAGS(3) }, WRONG = "row 1 goes from 2 to 1" },
               { KEEP, .in = { IN(3), SPLITS(0, 2), FLAGS(3) }, WRONG = "end at 2, with 3" },
               { KEEP, .in = { IN(3), SPLITS(1, 3), FLAGS(3) }, WRONG = "start at 1" },
               { KEEP, .in = { IN(3), SPLITS(0, 9, 3), FLAGS(3) }, WRONG = "row 0 goes from 0 to 9, with 3" },
               { KEEP, .in = { IN(3), { .shape = EST_SHAPE(0), .dtype = EST_I64 }, FLAGS(3) }, WRONG = "at least one" },
               { KEEP, .in = { IN(3), SPLITS(0, 3), FLAGS(2) }, WRONG = "need a `keep` each" },
               { KEEP, .in = { IN(3, 1), SPLITS(0, 3), FLAGS(3) }, WRONG = "rank 1" },
    };

    test_from_dense();
    test_from_dense_rank();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv) != 0 || graph_test_failures != 0;
}
