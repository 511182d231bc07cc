/* SPDX-License-Identifier: Apache-2.0
 *
 * Clipping by norm, run through a session: it is made of ops that have their own tests. */
#include "apply.h"
#include "estoc/session.h"

static int failures;

static void check(bool ok, const char *what)
{
    if (ok) return;
    printf("FAIL %s: %s\n", what, est_error_message());
    failures++;
}

static bool near(const est_tensor *t, int64_t i, double want)
{
    double got = est_tensor_dtype(t) == EST_F32 ? ((const float *)est_tensor_data(t))[i]
                                                : ((const double *)est_tensor_data(t))[i];

    if (fabs(got - want) <= 1e-6 * fmax(1, fabs(want))) return true;
    printf("  element %lld is %.9g, not %.9g\n", (long long)i, got, want);
    return false;
}

static void run(est_graph *graph, est_nodes fetches, est_tensor **out)
{
    est_session *session = NULL;

    check(est_graph_status(graph) == EST_OK, "build");
    check(est_session_create(graph, NULL, &session) == EST_OK, "session");
    check(est_session_run(session, EST_NO_FEEDS, fetches, (est_nodes){ 0 }, out) == EST_OK, "run");
    est_session_free(session);
}

static void check_one(void)
{
    est_graph   *graph = NULL;
    est_tensor  *out[5];
    est_gradient g;

    check(est_graph_create(1, &graph) == EST_OK, "graph");
    est_node x    = est_const_f32(graph, EST_SHAPE(2), (const float[]){ 3, 4 });
    est_node zero = est_const_f32(graph, EST_SHAPE(2), (const float[]){ 0, 0 });
    est_node y    = est_clip_by_norm(zero, 2);
    est_gradients(est_sum(y), (est_nodes){ &zero, 1 }, &g);
    run(graph, EST_NODES(est_clip_by_norm(x, 1), est_clip_by_norm(x, 10), y, g.values, est_clip_by_norm(x, 1e30)), out);
    check(near(out[0], 0, 0.6) && near(out[0], 1, 0.8), "clipped");
    check(((const float *)est_tensor_data(out[1]))[0] == 3 && ((const float *)est_tensor_data(out[1]))[1] == 4,
          "left alone");
    check(near(out[2], 0, 0), "zeros stay");
    check(near(out[3], 0, 1), "the gradient at 0 is finite");
    check(near(out[4], 1, 4), "a huge limit");
    for (int i = 0; i < 5; i++) est_tensor_free(out[i]);
    est_graph_free(graph);
}

static void check_global(double broken)
{
    est_graph   *graph = NULL;
    est_tensor  *out[4];
    est_gradient g[3] = { 0 }, loose[2];
    bool         ok   = isfinite(broken);

    check(est_graph_create(1, &graph) == EST_OK, "graph");
    g[0].values  = est_const_f32(graph, EST_SHAPE(2), (const float[]){ 1, (float)broken });
    g[2].values  = est_const_f32(graph, EST_SHAPE(2, 1), (const float[]){ 2, 4 }); /* rows of something */
    g[2].indices = est_const_i64(graph, EST_SHAPE(2), (const int64_t[]){ 7, 7 });
    loose[0]     = g[0];
    loose[1]     = g[2];
    (void)est_clip_by_global_norm(loose, 2, 100);
    est_node norm = est_clip_by_global_norm(g, 3, 2.5);
    check(g[1].values.graph == NULL && g[2].indices.graph != NULL, "what is no value stays none");
    run(graph, EST_NODES(norm, g[0].values, g[2].values, loose[0].values), out);
    if (ok) {
        check(near(out[0], 0, 5), "norm");
        check(near(out[1], 0, 0.5) && near(out[1], 1, 1) && near(out[2], 0, 1) && near(out[2], 1, 2), "clipped");
        check(((const float *)est_tensor_data(out[3]))[0] == 1, "left alone");
    } else {
        check(isnan(((const float *)est_tensor_data(out[1]))[0]) && isnan(((const float *)est_tensor_data(out[2]))[1]),
              "NaN is seen");
    }
    for (int i = 0; i < 4; i++) est_tensor_free(out[i]);
    est_graph_free(graph);
}

int main(void)
{
    check_one();
    check_global(2);
    check_global(INFINITY);
    check_global(NAN);
    printf("%d failures\n", failures);
    return failures != 0;
}
