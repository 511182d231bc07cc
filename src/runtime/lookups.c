/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookups in tables that other tasks have: what travels is each row once, whatever the batch.
 *
 *   EstEmbeddingBag(table, ids, ...)          ->  EstRowsBag(rows, place, ...)
 *   EstEmbeddingBagGrad(dy, table, ids, ...)  ->  EstRowsBagGrad(dy, rows, place, ...), whose indices are turned into ids
 *   ResourceGather(table, ids)                ->  GatherV2(rows, place)
 *
 * with distinct, place = EstDistinctIds(ids) and rows = ResourceGather(table, distinct), the only one that is elsewhere. The
 * nodes of equal lookups are made once. */
#include "base/alloc.h"
#include "ops/ops.h"
#include "runtime/remote.h"
#include "runtime/store.h"

/* A lookup that was rewritten. */
typedef struct lookup {
    int32_t  table;
    est_edge ids;
    est_node distinct, place, rows;
} lookup;

typedef struct lookups {
    est_graph       *graph;
    est_rewriter     rewriter;
    const est_store *store;
    lookup          *made;
    int32_t          n;
} lookups;

/* Which input the table is, and where its ids are; -1: not such an operation. */
static int table_input(const est_op *op)
{
    if (op == &est_op_embedding_bag || op == &est_op_resource_gather) return 0;
    return op == &est_op_embedding_bag_grad ? 1 : -1;
}

static bool is_elsewhere(const lookups *l, int32_t id)
{
    const est_node_def *def = est_graph_node(l->graph, id);
    const est_var      *var = def->op->source == EST_SOURCE_VARIABLE
                                  ? est_store_find(l->store, est_node_string(def, "shared_name"))
                                  : NULL;

    return var != NULL && var->elsewhere;
}

static est_node as_node(const lookups *l, est_edge edge)
{
    return (est_node){ l->graph, edge.node, edge.output };
}

/* Gives what was made for `of` its place in the program. */
static void adopt(const lookups *l, int32_t first, const est_node_def *of)
{
    for (int32_t id = first; id < est_graph_size(l->graph); id++) {
        est_graph_node(l->graph, id)->order = of->order;
        est_graph_node(l->graph, id)->file  = of->file;
        est_graph_node(l->graph, id)->line  = of->line;
    }
}

/* A lookup that runs before a write must not be shared with one after it, as control edges may ask for. */
static lookup *find_lookup(lookups *l, const est_node_def *def, int at)
{
    est_edge ids   = def->in[at + 1];
    int32_t  table = def->in[at].node;
    lookup *new    = &l->made[l->n];

    for (int32_t i = 0; i < l->n && def->n_control == 0; i++) {
        if (l->made[i].table == table && l->made[i].ids.node == ids.node && l->made[i].ids.output == ids.output) {
            return &l->made[i];
        }
    }
    *new          = (lookup){ .table = table, .ids = ids };
    new->distinct = est_build1(&est_op_distinct_ids, as_node(l, ids), EST_NO_ATTRS);
    new->place    = est_output(new->distinct, 1);
    new->rows     = est_resource_gather((est_node){ l->graph, table, 0 }, new->distinct);
    for (int32_t i = 0; i < def->n_control; i++)
        new->rows = est_after(new->rows, (est_node){ l->graph, def->control[i], 0 });
    if (def->n_control == 0) l->n++;
    return new;
}

static est_attrs bag_attrs(const est_node_def *def, est_attr attrs[4])
{
    attrs[0] = est_attr_int("combiner", est_node_int(def, "combiner"));
    attrs[1] = est_attr_float("max_norm", est_node_float(def, "max_norm"));
    attrs[2] = est_attr_int("N", est_node_int(def, "N"));
    attrs[3] = est_attr_type("dtype", est_node_type(def, "dtype"));
    return (est_attrs){ attrs, 4 };
}

/* The same operation over the rows at hand. */
static est_node rebuild(const lookups *l, const est_node_def *def, int at, const lookup *found)
{
    est_node in[5];
    est_attr attrs[4];

    if (def->op == &est_op_resource_gather) return est_gather(found->rows, found->place, 0);
    for (int32_t i = 0; i < def->n_in; i++) in[i] = as_node(l, def->in[i]);
    in[at]     = found->rows;
    in[at + 1] = found->place;
    return est_build(l->graph, at == 0 ? &est_op_rows_bag : &est_op_rows_bag_grad, (est_nodes){ in, def->n_in },
                     bag_attrs(def, attrs));
}

static est_status rewrite(lookups *l, int32_t id)
{
    est_node_def *def   = est_graph_node(l->graph, id);
    int           at    = table_input(def->op);
    int32_t       first = est_graph_size(l->graph);
    const lookup *found;
    est_node      result;

    if (at < 0 || !is_elsewhere(l, def->in[at].node)) return EST_OK;
    found  = find_lookup(l, def, at);
    result = rebuild(l, def, at, found);
    if (at == 1) {
        est_node ids = est_gather(found->distinct, est_output(result, 1), 0);

        adopt(l, first, def);
        EST_TRY(est_graph_status(l->graph));
        EST_TRY(est_rewriter_replace(&l->rewriter, (est_edge){ id, 1 }, (est_edge){ ids.id, ids.output }));
    }
    adopt(l, first, def);
    EST_TRY(est_graph_status(l->graph));
    return est_rewriter_replace(&l->rewriter, (est_edge){ id, 0 }, (est_edge){ result.id, 0 });
}

est_status est_pass_lookups(est_graph *graph, est_io *io, const est_store *store)
{
    int32_t    n      = est_graph_size(graph);
    lookups    l      = { .graph = graph, .store = store, .rewriter = { .graph = graph, .io = io } };
    est_status status = EST_OK;

    l.made = est_alloc(sizeof *l.made * ((size_t)n + 1));
    if (l.made == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory to plan lookups");
    for (int32_t id = 0; id < n && status == EST_OK; id++) status = rewrite(&l, id);
    est_rewriter_clear(&l.rewriter);
    est_free(l.made);
    return status;
}
