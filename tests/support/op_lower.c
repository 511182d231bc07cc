/* SPDX-License-Identifier: Apache-2.0
 *
 * The op harness: our own ops written in TensorFlow's. */
#include <string.h>

#include "support/op_run.h"

#define NODES_MAX 2000 /* more than any op lowers to: lowering would not end */

static bool is_ours(const est_node_def *node)
{
    return strncmp(node->op->name, "Est", 3) == 0;
}

/* Lowers `node` at its place; false when it cannot be with what is known of its shapes. */
static bool lower(est_case_run *run, est_graph *graph, const est_node_def *node, est_node out[EST_CASE_OUT_MAX])
{
    est_node in[EST_CASE_IN_MAX];

    if (!case_check(run, node->op->lower != NULL && node->n_in <= EST_CASE_IN_MAX && node->n_out <= EST_CASE_OUT_MAX,
                    "lowers to %s, which does not lower", node->op->name)) {
        return false;
    }
    for (int i = 0; i < node->n_in; i++) in[i] = (est_node){ graph, node->in[i].node, node->in[i].output };
    for (int i = 0; i < EST_CASE_OUT_MAX; i++) out[i] = EST_NO_NODE;
    node->op->lower(node, graph, in, out);
    for (int i = 1; i < node->n_out; i++) {
        case_check(run, (out[i].graph == NULL) == (out[0].graph == NULL), "lowering %s sets only some of its outputs",
                   node->op->name);
    }
    return out[0].graph != NULL;
}

/* Every node from `first` on is TensorFlow's, or lowers to such, and so on. */
static void check_names(est_case_run *run, est_graph *graph, int32_t first, bool must)
{
    for (int32_t id = first; id < est_graph_size(graph) && id < NODES_MAX; id++) {
        const est_node_def *node = est_graph_node(graph, id);
        est_node            out[EST_CASE_OUT_MAX];

        if (is_ours(node)) {
            bool lowered = lower(run, graph, node, out);
            case_check(run, lowered || !must, "%s, which it lowers to, does not lower in turn", node->op->name);
        }
    }
    case_check(run, est_graph_size(graph) < NODES_MAX, "lowering does not end");
}

static est_status run_lowered(const est_case_run *run, est_graph *graph, est_nodes out, est_node target,
                              const est_node *in, est_case_out *got)
{
    est_session *session = NULL;
    est_status   status;

    EST_TRY(est_session_create(graph, EST_SESSION(.threads = 1, .seed = 7, .no_passes = true), &session));
    status = case_run_nodes(run, session, out, target, in, got);
    est_session_free(session);
    return status;
}

void case_check_lowered(est_case_run *run, case_shapes shapes, const est_case_out *expected)
{
    static const char *const how[] = { "lowered", "lowered, unknown dimensions", "lowered, unknown ranks" };
    bool                     must  = shapes == CASE_KNOWN_SHAPES; /* with less known it need not be possible */
    est_graph               *graph = NULL;
    est_case_out             got   = { 0 };
    est_node                 in[EST_CASE_IN_MAX], out[EST_CASE_OUT_MAX], node;

    if (!case_check(run, est_graph_create(42, &graph) == EST_OK, "no graph")) return;
    node          = case_build(run, graph, shapes, in);
    int32_t first = est_graph_size(graph);
    bool    found = lower(run, graph, est_def(node), out);

    if (case_check(run, est_graph_status(graph) == EST_OK, "%s: %s", how[shapes], est_error_message()) &&
        case_check(run, found || !must, "does not lower") && found) {
        check_names(run, graph, first, must);
        est_status status = run_lowered(run, graph, (est_nodes){ out, est_def(node)->n_out }, out[0], in, &got);
        if (case_check(run, status == EST_OK, "%s: %s", how[shapes], est_error_message())) {
            case_check_close(run, expected, &got, how[shapes]);
        }
    }
    case_out_clear(&got);
    est_graph_free(graph);
}
