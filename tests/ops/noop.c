/* SPDX-License-Identifier: Apache-2.0
 *
 * NoOp through est_group: as a target it runs all it was given. */
#include "graph/op.h"
#include "support/graph_test.h"

int main(void)
{
    est_graph *graph = test_graph();
    est_node   a     = est_variable(graph, "a", EST_F32, EST_SHAPE_SCALAR);
    est_node   b     = est_variable(graph, "b", EST_F32, EST_SHAPE_SCALAR);
    est_node   group = est_group(
          graph, EST_NODES(est_assign(a, est_scalar(graph, EST_F32, 1)), est_assign(b, est_scalar(graph, EST_F32, 2))));
    est_node     nothing = est_group(graph, (est_nodes){ 0 });
    est_session *session = NULL;
    est_tensor  *value   = NULL;

    CHECK(strcmp(est_def(group)->op->name, "NoOp") == 0 && est_def(group)->n_control == 2);
    CHECK(est_session_create(graph, EST_SESSION(.threads = 1), &session) == EST_OK, "%s", est_error_message());
    CHECK(est_session_run(session, EST_NO_FEEDS, (est_nodes){ 0 }, EST_NODES(group, nothing), NULL) == EST_OK, "%s",
          est_error_message());
    CHECK(est_session_read(session, "b", &value) == EST_OK && *(const float *)est_tensor_data(value) == 2);
    est_tensor_free(value);
    est_session_free(session);
    est_graph_free(graph);
    return graph_test_failures != 0;
}
