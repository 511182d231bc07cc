/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookups in tables that other tasks have: what travels is each row once, whatever the batch.
 *
 *   EstEmbeddingBag(table, ids, ...)          ->  EstRowsBag(rows, place, ...)
 *   EstEmbeddingBagGrad(dy, table, ids, ...)  ->  EstRowsBagGrad(dy, rows, place, ...), indices turned into ids
 *   ResourceGather(table, ids)                ->  GatherV2(rows, place)
 *
 * with distinct, place = EstDistinctIds(ids) and rows = ResourceGather(table, distinct), the only one that is
 * elsewhere. The nodes of equal lookups are made once.
 *
 * Of a dynamic embedding only keys travel, whose rows may change until the step is pushed:
 *
 *   EstFindRows(table, keys)              ->  place, -1 where EstPullRows(table, keys, distinct) has no row,
 *                                             with distinct, place = Unique(keys)
 *   lookups of these                      ->  as above, in the values of EstPullRows
 *   an update of the rows `indices`       ->  that of EstAdmitRows(table, keys, GatherV2(distinct, indices), grad)
 *
 * So a pull changes nothing, and a push is the whole step of the table: counting, admission, eviction and the
 * update. */
#include "base/alloc.h"
#include "base/map.h"
#include "ops/ops.h"
#include "runtime/remote.h"
#include "runtime/store.h"

/* A lookup that was rewritten. */
typedef struct lookup {
    int32_t  table;
    est_edge ids;
    est_node distinct, place, rows;
} lookup;

/* A lookup of keys of a dynamic embedding. */
typedef struct pull {
    struct pull *next;   /* of the same embedding, which the step does not train; NULL: the last */
    const char  *finder; /* the operation that was rewritten; NULL: none so far */
    bool         trained;
    est_node     keys, distinct, values;
} pull;

typedef struct lookups {
    est_graph       *graph;
    est_rewriter     rewriter;
    const est_store *store;
    lookup          *made;
    int32_t          n;
    pull            *pulls;
    int32_t          n_pulls;
    est_map          pull_of; /* by the name of the embedding */
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

/* --- dynamic embeddings ------------------------------------------------------------------------------------------- */

static bool is_row_table(const lookups *l, int32_t id)
{
    return est_graph_node(l->graph, id)->op->has_rows && is_elsewhere(l, id);
}

static const char *table_name(const lookups *l, int32_t id)
{
    return est_node_string(est_graph_node(l->graph, id), "shared_name");
}

static pull *find_pull(const lookups *l, int32_t table)
{
    return est_map_get(&l->pull_of, table_name(l, table));
}

/* Whether the node updates rows of a dynamic embedding. */
static bool is_row_update(const lookups *l, const est_node_def *def)
{
    return (def->op->writes & 1u << 0) != 0 && def->op != &est_op_find_rows && is_row_table(l, def->in[0].node);
}

/* Lists the dynamic embeddings of other tasks, and which of them the step trains. */
static est_status list_pulls(lookups *l, int32_t n)
{
    for (int32_t id = 0; id < n; id++) {
        const est_node_def *def = est_graph_node(l->graph, id);
        pull               *p   = &l->pulls[l->n_pulls];

        if (is_row_table(l, id) && find_pull(l, id) == NULL) {
            *p = (pull){ 0 };
            EST_TRY(est_map_put(&l->pull_of, table_name(l, id), p));
            l->n_pulls++;
        }
        if (is_row_update(l, def)) find_pull(l, def->in[0].node)->trained = true;
    }
    return EST_OK;
}

/* One more lookup of an embedding that was looked up. */
static pull *add_pull(lookups *l, pull *first)
{
    pull *p = &l->pulls[l->n_pulls++];

    *p          = (pull){ .next = first->next };
    first->next = p;
    return p;
}

static const pull *pull_with(const pull *p, int32_t node)
{
    while (p != NULL && p->values.id != node && p->distinct.id != node) p = p->next;
    return p;
}

/* Of several lookups the one that ids are made of: the search goes from inputs to inputs and stops at what was
 * pulled. */
static est_status find_source(const lookups *l, const pull *first, int32_t ids, const pull **out)
{
    size_t     size  = (size_t)est_graph_size(l->graph) + 1;
    bool      *seen  = est_zalloc(size);
    int32_t   *stack = est_alloc(sizeof *stack * size), depth = 0;
    est_status status = seen != NULL && stack != NULL ? EST_OK : est_no_memory();

    *out = NULL;
    if (status == EST_OK) stack[depth++] = ids;
    while (depth > 0 && status == EST_OK) {
        const est_node_def *def   = est_graph_node(l->graph, stack[--depth]);
        const pull         *found = pull_with(first, def->id);

        if (found != NULL && *out != NULL && found != *out) {
            status = est_fail(EST_UNIMPLEMENTED, "rows that '%s' and '%s' have found are looked up together",
                              (*out)->finder, found->finder);
        }
        if (found != NULL) *out = found;
        for (int32_t i = 0; i < def->n_in && found == NULL; i++) {
            if (!seen[def->in[i].node]) stack[depth++] = def->in[i].node;
            seen[def->in[i].node] = true;
        }
    }
    est_free(seen);
    est_free(stack);
    return status;
}

static est_status rewrite_find(lookups *l, int32_t id)
{
    const est_node_def *def   = est_graph_node(l->graph, id);
    int32_t             first = est_graph_size(l->graph);
    est_node            keys, place, pulled, found, ids;
    pull               *p;

    if (def->op != &est_op_find_rows || !is_row_table(l, def->in[0].node)) return EST_OK;
    p = find_pull(l, def->in[0].node);
    if (p->finder != NULL && p->trained) {
        return est_fail(EST_UNIMPLEMENTED,
                        "'%s' and '%s' look up keys of the dynamic embedding '%s' in a step that trains it, which "
                        "parameter servers do not do: concatenate the keys and look them up once",
                        p->finder, def->name, table_name(l, def->in[0].node));
    }
    if (p->finder != NULL) p = add_pull(l, p);
    p->finder   = def->name;
    keys        = as_node(l, def->in[1]);
    p->keys     = est_node_shape(keys)->rank == 1 ? keys : est_reshape(keys, EST_I64S(-1));
    p->distinct = est_build1(&est_op_unique, p->keys, EST_ATTRS(est_attr_type("out_idx", EST_I64)));
    place       = est_output(p->distinct, 1);
    pulled      = est_build3(&est_op_pull_rows, as_node(l, def->in[0]), p->keys, p->distinct,
                             EST_ATTRS(est_attr_bool("trains", p->trained)));
    p->values   = pulled;
    found       = est_output(pulled, 1);
    ids         = est_select(est_less(found, est_scalar(l->graph, EST_I64, 0)), found, place);
    if (est_node_shape(keys)->rank != 1) ids = est_reshape_to(ids, est_shape_of(keys));
    EST_TRY(est_graph_status(l->graph));
    adopt(l, first, def);
    EST_TRY(est_rewriter_replace(&l->rewriter, (est_edge){ id, 0 }, (est_edge){ ids.id, ids.output }));
    return EST_OK;
}

static est_status rewrite_update(lookups *l, int32_t id)
{
    est_node_def *def   = est_graph_node(l->graph, id);
    int32_t       first = est_graph_size(l->graph);
    const pull   *p;
    est_node      rows, keys;
    int           indices, grad;

    if (!is_row_update(l, def)) return EST_OK;
    indices = def->op->update->indices;
    grad    = def->op->update->gradient;
    p       = find_pull(l, def->in[0].node);
    if (indices == 0 || grad == 0 || p->finder == NULL) {
        return est_fail(EST_UNIMPLEMENTED, "'%s' updates the dynamic embedding '%s', but not by the rows of its keys",
                        def->name, table_name(l, def->in[0].node));
    }
    keys = est_gather(p->distinct, as_node(l, def->in[indices]), 0);
    rows = est_build(l->graph, &est_op_admit_rows,
                     EST_NODES(as_node(l, def->in[0]), p->keys, keys, as_node(l, def->in[grad])), EST_NO_ATTRS);
    EST_TRY(est_graph_status(l->graph));
    adopt(l, first, def);
    def              = est_graph_node(l->graph, id);
    def->in[indices] = (est_edge){ rows.id, 0 };
    def->in[grad]    = (est_edge){ rows.id, 1 };
    return EST_OK;
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

/* A lookup by places in what was pulled. */
static est_status rewrite_pulled(lookups *l, int32_t id, int at)
{
    est_node_def *def   = est_graph_node(l->graph, id);
    int32_t       first = est_graph_size(l->graph);
    const pull   *p     = find_pull(l, def->in[at].node);
    est_node      result;

    if (p->finder == NULL) {
        return est_fail(EST_UNIMPLEMENTED, "'%s' looks up rows of the dynamic embedding '%s', but not by its keys",
                        def->name, table_name(l, def->in[at].node));
    }
    if (p->next != NULL) EST_TRY(find_source(l, p, def->in[at + 1].node, &p));
    if (p == NULL) {
        return est_fail(EST_UNIMPLEMENTED, "'%s' looks up rows of a dynamic embedding, but not those of looked-up keys",
                        def->name);
    }
    result = rebuild(l, def, at, &(const lookup){ .place = as_node(l, def->in[at + 1]), .rows = p->values });
    EST_TRY(est_graph_status(l->graph));
    adopt(l, first, def);
    for (int32_t i = 0; i <= at; i++) {
        EST_TRY(est_rewriter_replace(&l->rewriter, (est_edge){ id, i }, (est_edge){ result.id, i }));
    }
    return EST_OK;
}

static est_status rewrite(lookups *l, int32_t id)
{
    est_node_def *def   = est_graph_node(l->graph, id);
    int           at    = table_input(def->op);
    int32_t       first = est_graph_size(l->graph);
    const lookup *found;
    est_node      result;

    if (at < 0 || !is_elsewhere(l, def->in[at].node)) return EST_OK;
    if (is_row_table(l, def->in[at].node)) return rewrite_pulled(l, id, at);
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

static est_status rewrite_all(lookups *l, int32_t n)
{
    EST_TRY(list_pulls(l, n));
    for (int32_t id = 0; id < n; id++) EST_TRY(rewrite_find(l, id));
    for (int32_t id = 0; id < n; id++) EST_TRY(rewrite(l, id));
    for (int32_t id = 0; id < n; id++) EST_TRY(rewrite_update(l, id));
    return EST_OK;
}

est_status est_pass_lookups(est_graph *graph, est_io *io, const est_store *store)
{
    int32_t    n = est_graph_size(graph);
    lookups    l = { .graph = graph, .store = store, .rewriter = { .graph = graph, .io = io } };
    est_status status;

    l.made  = est_alloc(sizeof *l.made * ((size_t)n + 1));
    l.pulls = est_alloc(sizeof *l.pulls * ((size_t)n + 1));
    status  = l.made != NULL && l.pulls != NULL ? rewrite_all(&l, n) : est_no_memory();
    est_rewriter_clear(&l.rewriter);
    est_map_clear(&l.pull_of);
    est_free(l.made);
    est_free(l.pulls);
    return status;
}
