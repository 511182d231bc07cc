/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of a signature in a graph of the program: its operations are built there once more, over other inputs and over
 * the variables of the program. */
#include <string.h>

#include "base/argument.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "kernels/lookup_table.h"
#include "ops/ops.h"
#include "predict/saved_model.h"

typedef struct calling {
    const est_graph *from;
    est_graph       *to;
    est_arena       *arena;
    est_named_nodes  variables;
    bool            *needed; /* [node of from] */
    bool            *apart;  /* [node of from]: needed to fill a table, whatever else is run before */
    est_node       **moved;  /* [node of from]: its outputs in `to`, or the operation itself if it has none */
    est_node        *writes;
    int              n_writes;
} calling;

static est_status take_inputs(calling *c, const est_saved_signature_nodes *s, est_nodes inputs)
{
    if (inputs.n != s->inputs.n) {
        return est_fail(EST_INVALID_ARGUMENT, "signature %s takes %d inputs, got %d", s->signature->name, s->inputs.n,
                        inputs.n);
    }
    for (int i = 0; i < inputs.n; i++) {
        est_node given = inputs.data[i], at = s->inputs.data[i];

        if (given.graph != c->to || est_def(given) == NULL || est_node_dtype(given) != est_node_dtype(at)) {
            return est_fail(EST_INVALID_ARGUMENT, "signature %s: input %s is %s of the graph", s->signature->name,
                            s->signature->inputs[i].name, est_dtype_name(est_node_dtype(at)));
        }
        c->moved[at.id] = est_arena_alloc(c->arena, sizeof(est_node) * (size_t)(at.output + 1));
        if (c->moved[at.id] == NULL) return est_no_memory();
        c->moved[at.id][at.output] = given;
    }
    return EST_OK;
}

/* Inputs have smaller ids, so one backward walk finds all that is needed before what was given. */
static void mark_inputs(const calling *c, bool *marked)
{
    for (int32_t id = est_graph_size(c->from) - 1; id >= 0; id--) {
        const est_node_def *def = est_graph_node(c->from, id);

        if (!marked[id] || c->moved[id] != NULL) continue;
        for (int32_t i = 0; i < def->n_in; i++) marked[def->in[i].node] = true;
        for (int32_t i = 0; i < def->n_control; i++) marked[def->control[i]] = true;
    }
}

static bool is_table(const est_node_def *def)
{
    return def->op->source == EST_SOURCE_TABLE;
}

/* What is needed for the outputs, and what to fill the tables among it. */
static est_status mark_needed(const calling *c, est_nodes outputs)
{
    for (int i = 0; i < outputs.n; i++) c->needed[outputs.data[i].id] = true;
    mark_inputs(c, c->needed);
    for (int32_t id = 0; id < est_graph_size(c->from); id++) {
        const est_node_def *def = est_graph_node(c->from, id);
        int32_t             filler;

        if (!c->needed[id] || !is_table(def)) continue;
        filler = est_lookup_table_filler(c->from, est_lookup_table_name(def));
        if (filler < 0) return est_fail(EST_UNIMPLEMENTED, "nothing in the graph fills the table '%s'", def->name);
        c->apart[filler] = true;
    }
    mark_inputs(c, c->apart);
    return EST_OK;
}

static est_status take_variable(const calling *c, const est_node_def *def)
{
    for (int i = 0; i < c->variables.n; i++) {
        if (strcmp(c->variables.data[i].name, def->name) != 0) continue;
        c->moved[def->id][0] = c->variables.data[i].node;
        return EST_OK;
    }
    return est_fail(EST_INVALID_ARGUMENT, "no variable was given for '%s'", def->name);
}

static bool writes_variable(const est_node_def *def, const est_graph *from)
{
    return def->n_out == 0 && def->n_in > 0 &&
           est_graph_node(from, def->in[0].node)->dtype[def->in[0].output] == EST_RESOURCE;
}

/* An operation without a seed has another number in every call, or two calls would draw the same. Seeds of the program
 * stay, and calls draw alike, as in TensorFlow. */
static void draw_seeds(const calling *c, const est_node_def *def, est_attr *attr)
{
    if (!def->op->random || est_node_attr(def, "seed") == NULL || est_node_int(def, "seed") != 0) return;
    for (int32_t i = 0; i < def->n_attr; i++) {
        if (strcmp(attr[i].name, "seed") == 0) attr[i].i = est_seed_of_graph(c->to, 0);
        if (strcmp(attr[i].name, "seed2") == 0) attr[i].i = (int64_t)est_seed_or_next(c->to, 0);
    }
}

/* A table of its own for each call: its name is that of the node in the other graph. */
static void name_table(const calling *c, est_node node)
{
    est_node_def *def = est_graph_node(c->to, node.id);

    for (int32_t i = 0; i < def->n_attr; i++) {
        if (strcmp(def->attr[i].name, "shared_name") == 0) def->attr[i].s = def->name;
    }
}

static void finish_node(calling *c, const est_node_def *def, est_node node)
{
    if (is_table(def)) {
        name_table(c, node);
    } else if (writes_variable(def, c->from)) {
        if (c->apart[def->id])
            est_graph_collect(c->to, EST_TABLE_INITIALIZERS, node);
        else
            c->writes[c->n_writes++] = node;
    }
}

static est_status move_node(calling *c, const est_node_def *def)
{
    est_node *in   = est_arena_alloc(c->arena, sizeof *in * (size_t)(def->n_in + 1)), node;
    est_attr *attr = est_arena_alloc(c->arena, sizeof *attr * (size_t)(def->n_attr + 1));

    if (in == NULL || attr == NULL) return est_no_memory();
    memcpy(attr, def->attr, sizeof *attr * (size_t)def->n_attr);
    draw_seeds(c, def, attr);
    for (int32_t i = 0; i < def->n_in; i++) in[i] = c->moved[def->in[i].node][def->in[i].output];
    node = est_build(c->to, def->op, (est_nodes){ in, def->n_in }, (est_attrs){ attr, def->n_attr });
    EST_TRY(est_graph_status(c->to));
    for (int32_t i = 0; i < def->n_control; i++) {
        if (c->moved[def->control[i]] != NULL) (void)est_after(node, c->moved[def->control[i]][0]);
    }
    for (int32_t i = 0; i == 0 || i < def->n_out; i++) c->moved[def->id][i] = est_output(node, i);
    finish_node(c, def, node);
    return est_graph_status(c->to);
}

static est_status move_all(calling *c, const bool *marked)
{
    for (int32_t id = 0; id < est_graph_size(c->from); id++) {
        const est_node_def *def = est_graph_node(c->from, id);

        if (!marked[id] || c->moved[id] != NULL) continue;
        c->moved[id] = est_arena_alloc(c->arena, sizeof(est_node) * (size_t)(def->n_out + 1));
        if (c->moved[id] == NULL) return est_no_memory();
        if (def->op == &est_op_var_handle) {
            EST_TRY(take_variable(c, def));
        } else {
            EST_TRY(move_node(c, def));
        }
    }
    return EST_OK;
}

/* A session fills tables before a step that looks into them: that waits for nothing of the step. */
static est_status move_tables(calling *c)
{
    est_nodes  after  = est_graph_no_after(c->to);
    est_status status = move_all(c, c->apart);

    est_graph_restore_after(c->to, after);
    return status;
}

static est_status call(calling *c, const est_saved_signature_nodes *s, est_nodes inputs, est_node *outputs)
{
    size_t n = (size_t)est_graph_size(c->from) + 1;

    c->needed = est_arena_alloc(c->arena, sizeof *c->needed * n);
    c->apart  = est_arena_alloc(c->arena, sizeof *c->apart * n);
    c->moved  = est_arena_alloc(c->arena, sizeof *c->moved * n);
    c->writes = est_arena_alloc(est_graph_arena(c->to), sizeof *c->writes * n);
    if (c->needed == NULL || c->apart == NULL || c->moved == NULL || c->writes == NULL) return est_no_memory();
    EST_TRY(take_inputs(c, s, inputs));
    EST_TRY(mark_needed(c, s->outputs));
    EST_TRY(move_tables(c));
    EST_TRY(move_all(c, c->needed));
    for (int i = 0; i < s->outputs.n; i++) outputs[i] = c->moved[s->outputs.data[i].id][s->outputs.data[i].output];
    return EST_OK;
}

est_status est_saved_model_call(const est_saved_model *model, const char *signature, est_graph *graph, est_nodes inputs,
                                est_named_nodes variables, est_node *outputs, est_nodes *writes)
{
    calling                   c = { .to = graph, .variables = variables };
    est_saved_signature_nodes found;
    est_status                status;

    EST_REQUIRE(model);
    EST_REQUIRE(graph);
    EST_REQUIRE(outputs);
    EST_REQUIRE_LIST("inputs", inputs);
    EST_REQUIRE_LIST("variables", variables);
    EST_TRY(est_graph_status(graph));
    EST_TRY(est_saved_model_find(model, signature, &found));
    c.from  = est_saved_model_graph(model);
    c.arena = est_arena_create();
    if (c.arena == NULL) return est_no_memory();
    status = call(&c, &found, inputs, outputs);
    est_arena_free(c.arena);
    if (status != EST_OK) {
        (void)est_graph_poison(graph, status);
        return est_graph_status(graph);
    }
    if (writes != NULL) *writes = (est_nodes){ c.writes, c.n_writes };
    return EST_OK;
}
