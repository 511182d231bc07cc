/* SPDX-License-Identifier: Apache-2.0
 *
 * The op harness: a case as TensorFlow's GraphDef and back. */
#include "format/graph_def.h"
#include "graph/graph_export.h"
#include "graph/import.h"
#include "graph/lower.h"
#include "ops/ops.h"
#include "support/op_run.h"

#define NODES_MAX (EST_CASE_IN_MAX + EST_CASE_OUT_MAX)

/* What the bytes of `graph` are as a graph of their own. */
static est_status through_bytes(const est_graph *graph, est_graph *back)
{
    est_arena      *arena = est_arena_create();
    est_wire_writer w     = { 0 };
    est_graph_def   def, read;
    est_status      status;

    if (arena == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no arena");
    est_graph_def_init(&def, arena);
    status = est_graph_export(graph, &def);
    if (status == EST_OK) status = est_graph_def_put(&w, &def);
    if (status == EST_OK) status = est_graph_def_parse_bytes((est_str){ (const char *)w.data, w.size }, arena, &read);
    if (status == EST_OK) status = est_graph_import(&read, est_op_find, back);
    est_wire_writer_clear(&w);
    est_arena_free(arena);
    return status;
}

/* Runs the imported graph; nodes[] are those of the exported one, inputs first. */
static est_status run_imported(const est_case_run *run, est_graph *graph, const est_node *nodes, int n_out,
                               est_case_out *got)
{
    est_node     moved[NODES_MAX];
    est_node    *out     = moved + run->n_in;
    est_session *session = NULL;
    est_status   status;

    for (int i = 0; i < run->n_in + (n_out > 0 ? n_out : 1); i++) {
        moved[i] = est_graph_find(graph, est_node_name(nodes[i]));
        if (moved[i].graph == NULL) return est_fail(EST_NOT_FOUND, "'%s' is lost", est_node_name(nodes[i]));
        moved[i].output = nodes[i].output;
    }
    EST_TRY(est_session_create(graph, EST_SESSION(.threads = 1, .seed = 7, .no_passes = true), &session));
    status = case_run_nodes(run, session, (est_nodes){ out, n_out }, out[0], moved, got);
    est_session_free(session);
    return status;
}

/* Attributes are floats in the message: a double like 0.1 is not the same afterwards, which only float64 shows. */
static bool loses_digits(const est_case_run *run)
{
    for (int i = 0; i < run->test->attrs.n && run->dtype == EST_F64; i++) {
        const est_attr *attr = &run->test->attrs.data[i];

        if (attr->kind == EST_ATTR_FLOAT && (double)(float)attr->f != attr->f) return true;
    }
    return false;
}

void case_check_exported(est_case_run *run, const est_case_out *expected)
{
    est_graph   *graph = NULL, *lowered = NULL, *back = NULL;
    est_case_out got = { 0 };
    est_node     nodes[NODES_MAX], node;
    est_status   status;
    int          n_out = 0;

    status = est_graph_create(42, &graph);
    if (status == EST_OK) {
        node  = case_build(run, graph, CASE_KNOWN_SHAPES, nodes);
        n_out = est_def(node)->n_out;
        for (int i = 0; i == 0 || i < n_out; i++) nodes[run->n_in + i] = est_output(node, i);
        status = est_graph_lower(graph, nodes, run->n_in + (n_out > 0 ? n_out : 1), &lowered);
    }
    if (status == EST_OK) status = est_graph_create(42, &back);
    if (status == EST_OK) status = through_bytes(lowered, back);
    if (status == EST_OK) status = run_imported(run, back, nodes, n_out, &got);
    if (case_check(run, status == EST_OK, "exported: %s", est_error_message()) && !loses_digits(run)) {
        if (run->op->lower == NULL) {
            case_check_same_bits(run, expected, &got, "exported and imported");
        } else {
            case_check_close(run, expected, &got, "lowered, exported and imported");
        }
    }
    case_out_clear(&got);
    est_graph_free(graph);
    est_graph_free(lowered);
    est_graph_free(back);
}
