/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph of the caller's as a SavedModel: the signatures are given, and the values are those of a session. What is
 * written and how it is checked is as for every export. */
#include <string.h>

#include "base/argument.h"
#include "estimator/export.h"
#include "runtime/session.h"

static est_status check_names(const est_graph_signature *s, const char *what, est_named_nodes nodes,
                              const est_graph *graph)
{
    for (int i = 0; i < nodes.n; i++) {
        if (nodes.data[i].name == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "signature %s: %s %d has no name", s->name, what, i);
        }
        if (nodes.data[i].node.graph != graph) {
            return est_fail(EST_INVALID_ARGUMENT, "signature %s: %s %s is a node of another graph than the session's",
                            s->name, what, nodes.data[i].name);
        }
        for (int k = 0; k < i; k++) {
            if (strcmp(nodes.data[i].name, nodes.data[k].name) == 0) {
                return est_fail(EST_INVALID_ARGUMENT, "signature %s has two %ss called %s", s->name, what,
                                nodes.data[i].name);
            }
        }
    }
    return EST_OK;
}

static est_status check_signature(est_graph_signatures signatures, int i, const est_graph *graph)
{
    const est_graph_signature *s = &signatures.data[i];

    if (s->name == NULL || s->name[0] == '\0') {
        return est_fail(EST_INVALID_ARGUMENT, "signature %d has no name; write one like serving_default", i);
    }
    for (int k = 0; k < i; k++) {
        if (strcmp(signatures.data[k].name, s->name) == 0) {
            return est_fail(EST_INVALID_ARGUMENT, "two signatures are called %s", s->name);
        }
    }
    EST_REQUIRE_LIST("inputs of a signature", s->inputs);
    EST_REQUIRE_LIST("outputs of a signature", s->outputs);
    if (s->outputs.n == 0) return est_fail(EST_INVALID_ARGUMENT, "signature %s has no output", s->name);
    EST_TRY(check_names(s, "input", s->inputs, graph));
    return check_names(s, "output", s->outputs, graph);
}

static est_named_node *copy_nodes(est_arena *arena, est_named_nodes from)
{
    est_named_node *to = est_arena_alloc(arena, (size_t)(from.n + 1) * sizeof *to);

    if (to != NULL && from.n > 0) memcpy(to, from.data, (size_t)from.n * sizeof *to);
    return to;
}

/* A group of feeds for each signature. */
static est_status fill(est_export_model *e, est_graph_signatures signatures)
{
    est_arena *arena = e->model->arena;
    size_t     n     = (size_t)signatures.n;

    e->signatures      = est_arena_alloc(arena, n * sizeof *e->signatures);
    e->receiver.groups = est_arena_alloc(arena, n * sizeof *e->receiver.groups);
    if (e->signatures == NULL || e->receiver.groups == NULL) return est_no_memory();
    for (int i = 0; i < signatures.n; i++) {
        const est_graph_signature *from  = &signatures.data[i];
        est_feed_group            *group = &e->receiver.groups[i];

        EST_TRY(check_signature(signatures, i, e->model->graph));
        *group           = (est_feed_group){ .name     = from->name,
                                             .inputs   = copy_nodes(arena, from->inputs),
                                             .n_inputs = from->inputs.n };
        e->signatures[i] = (est_export_signature){ .method    = EST_EXPORT_PREDICT,
                                                   .key       = from->name,
                                                   .outputs   = copy_nodes(arena, from->outputs),
                                                   .n_outputs = from->outputs.n,
                                                   .feeds     = group };
        if (group->inputs == NULL || e->signatures[i].outputs == NULL) return est_no_memory();
        EST_TRY(est_export_check_feeds(e, &e->signatures[i]));
    }
    e->receiver.n_groups = e->n_signatures = signatures.n;
    return EST_OK;
}

/* Only that there is one matters: it says that tensors are made for placeholders. */
static est_status no_receiver(est_serving *serving, void *user)
{
    (void)serving;
    (void)user;
    return EST_OK;
}

static est_status export_model(est_model *model, est_session *session, est_graph_signatures signatures, const char *dir)
{
    const est_serving_input input = { .build = no_receiver };
    est_export_model e = { .model = model, .session = session, .receiver = { .input = &input }, .own_feeds = true };

    EST_TRY(fill(&e, signatures));
    EST_TRY(est_export_tables(&e));
    return est_export_one(&e, dir);
}

est_status est_export_graph(est_session *session, est_graph_signatures signatures, const char *dir)
{
    const est_run_config config = { .struct_size = EST_STRUCT_SIZE(est_run_config), .threads = 1 };
    est_model            model  = { .mode = EST_PREDICT, .config = &config };
    est_status           status;

    EST_REQUIRE(session);
    EST_REQUIRE(dir);
    EST_REQUIRE_LIST("signatures", signatures);
    if (signatures.n == 0) return est_fail(EST_INVALID_ARGUMENT, "export: there are no signatures; give one at least");
    EST_REQUIRE_LIST("outputs of a signature", signatures.data[0].outputs);
    model.graph = signatures.data[0].outputs.n > 0 ? signatures.data[0].outputs.data[0].node.graph : NULL;
    if (model.graph == NULL || model.graph != est_session_graph(session)) {
        return est_fail(EST_INVALID_ARGUMENT, "export: signature 0 has no output in the graph of the session");
    }
    model.arena = est_arena_create();
    if (model.arena == NULL) return est_no_memory();
    status = export_model(&model, session, signatures, dir);
    est_arena_free(model.arena);
    return status == EST_OK ? EST_OK : est_fail_context(status, "export");
}
