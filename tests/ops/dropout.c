/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"
#include "estoc/session.h"

/* Every element is 0 or x / (1 - rate), and about `rate` of them are 0. */
static int dropped(est_ref *r, est_view *const *in, const est_view *out)
{
    double  rate  = est_node_float(r->node, "rate"), deviation;
    int64_t zeros = 0, n = out[0].count;

    (void)in;
    for (int64_t i = 0; i < n; i++) {
        double want = r->in[0][i] / (1 - rate);
        if (r->out[0][i] == 0) {
            zeros++;
        } else if (fabs(r->out[0][i] - want) > 1e-6 * fabs(want)) {
            printf("  element %lld is %g, not 0 or %g\n", (long long)i, r->out[0][i], want);
            return 1;
        }
    }
    deviation = sqrt(rate * (1 - rate) * (double)n);
    if (fabs((double)zeros - rate * (double)n) <= 6 * deviation + 1e-9) return 0;
    printf("  %lld of %lld elements are 0, the rate is %g\n", (long long)zeros, (long long)n, rate);
    return 1;
}

#define DROPOUT(r)                                                                                                     \
    .op = "EstDropout", .also = dropped, .lo = 1, .hi = 2,                                                             \
    .attrs = EST_ATTRS(est_attr_float("rate", r), est_attr_int("seed", 8), est_attr_int("seed2", 9))

static int failures;

static void check(bool ok, const char *what)
{
    if (ok) return;
    printf("FAIL %s: %s\n", what, est_error_message());
    failures++;
}

/* In one run the gradient has the mask of the op; lowered to TensorFlow's ops the mask is the same. */
static void check_mask(void)
{
    enum { N = 1000 };
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_tensor  *out[3];
    est_gradient g;

    check(est_graph_create(5, &graph) == EST_OK, "graph");
    est_node x       = est_fill(est_const_list(graph, EST_I64S(N)), est_scalar(graph, EST_F32, 1));
    est_node y       = est_dropout(x, 0.3, 0);
    est_node lowered = EST_NO_NODE;
    est_op_find("EstDropout")->lower(est_def(y), graph, &x, &lowered);
    est_gradients(est_sum(y), (est_nodes){ &x, 1 }, &g);

    check(est_graph_status(graph) == EST_OK, "build");
    check(est_session_create(graph, NULL, &session) == EST_OK, "session");
    check(est_session_run(session, EST_NO_FEEDS, EST_NODES(y, g.values, lowered), (est_nodes){ 0 }, out) == EST_OK,
          "run");
    check(memcmp(est_tensor_data(out[0]), est_tensor_data(out[1]), N * sizeof(float)) == 0, "the gradient's mask");
    check(memcmp(est_tensor_data(out[0]), est_tensor_data(out[2]), N * sizeof(float)) == 0, "the lowered mask");
    for (int i = 0; i < 3; i++) est_tensor_free(out[i]);
    est_session_free(session);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { DROPOUT(0.3), .in = { IN(7, 33) } },
        { DROPOUT(0.5), .in = { IN(301, 701) } },
        { DROPOUT(0.9), .in = { IN(2, 3, 5) } },
        { DROPOUT(0), .in = { IN(9) } },
        { DROPOUT(0.3), .in = { IN(0, 4) } },
        { DROPOUT(0.5), .in = { SCALAR } },
        { DROPOUT(1), .in = { IN(3) }, .fails = EST_INVALID_ARGUMENT, .says = "rate" },
        { DROPOUT(-0.1), .in = { IN(3) }, .fails = EST_INVALID_ARGUMENT, .says = "-0.1" },
    };

    check_mask();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv) | (failures != 0);
}
