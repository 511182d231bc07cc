/* SPDX-License-Identifier: Apache-2.0
 *
 * Placeholder: gives what it is fed, refuses what does not fit, and must be fed. */
#include "graph/op.h"
#include "support/graph_test.h"

int main(void)
{
    est_graph   *graph   = test_graph();
    est_node     x       = est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1, 2));
    est_node     y       = est_identity(x);
    est_session *session = NULL;
    est_tensor  *good = NULL, *bad = NULL, *out = NULL;

    CHECK(strcmp(est_def(x)->op->name, "Placeholder") == 0 && strcmp(est_node_name(x), "x") == 0);
    CHECK(est_tensor_f32(EST_SHAPE(1, 2), (const float[]){ 3, 4 }, &good) == EST_OK);
    CHECK(est_tensor_f32(EST_SHAPE(2, 1), (const float[]){ 3, 4 }, &bad) == EST_OK);
    out = test_run(y, EST_FEEDS({ x, good }));
    CHECK(out != NULL && ((const float *)est_tensor_data(out))[1] == 4);
    est_tensor_free(out);

    CHECK(est_session_create(graph, EST_SESSION(.threads = 1), &session) == EST_OK);
    CHECK(est_session_run(session, EST_FEEDS({ x, bad }), EST_NODES(y), (est_nodes){ 0 }, &out) ==
          EST_INVALID_ARGUMENT);
    CHECK(strstr(est_error_message(), "[2,1]") != NULL, "%s", est_error_message());
    CHECK(est_session_run(session, EST_NO_FEEDS, EST_NODES(y), (est_nodes){ 0 }, &out) == EST_INVALID_ARGUMENT);
    CHECK(strstr(est_error_message(), "x") != NULL, "%s", est_error_message());
    est_session_free(session);
    est_tensor_free(good);
    est_tensor_free(bad);
    est_graph_free(graph);
    return graph_test_failures != 0;
}
