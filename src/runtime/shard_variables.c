/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables whose rows are spread over tasks: what touches one touches its shards instead.
 *
 *   ReadVariableOp(table)             ->  ConcatV2 of what the shards hold
 *   VarIsInitializedOp(table)         ->  whether all of them have a value
 *   Shape(table)                      ->  a constant
 *   ResourceGather(table, ids)        ->  GatherV2(ConcatV2(ResourceGather(shard, its ids) ...), place), where
 *                                         EstSplitIds says whose an id is; lookups ask for distinct ids by now
 *                                         (runtime/lookups.c)
 *   an update with rows               ->  one update a shard with its rows of them (EstSplitRows)
 *   an update with rows and indices   ->  one update a shard with those that are its own, in the same order
 *
 * Which inputs of an update are rows and which are indices, the names of its signature tell: they are TensorFlow's.
 * Slots are spread as their variable is (runtime/placement.h), so that shard i of all that an update touches is at one
 * task.
 *
 * A first value is not made as a whole: each shard makes its own rows of it, and draws the numbers that the whole would
 * have there. That follows random ops, fills, constants and elementwise functions of those; what it cannot follow is
 * cut. */
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "graph/signature.h"
#include "kernels/variable_access.h"
#include "ops/array.h"
#include "runtime/remote.h"
#include "tensor/shape.h"

/* Ids or rows that were cut already; as cut for another variable of as many rows in as many shards. */
typedef struct cut {
    const est_op *op;
    est_edge      from;
    int64_t       rows;
    int           n;
    est_node      parts;
} cut;

typedef struct sharding {
    est_graph       *graph;
    est_rewriter     rewriter;
    const est_store *store;
    est_uses         uses;
    est_map          handles; /* name of a shard -> id of its handle, plus one */
    cut             *cuts;
    int32_t          n_cuts;
    est_node        *parts; /* room for one node of each shard of any variable */
    int32_t          n;     /* nodes before the pass */
} sharding;

static est_node as_node(const sharding *s, est_edge edge)
{
    return (est_node){ s->graph, edge.node, edge.output };
}

static const est_var *spread_variable(const sharding *s, int32_t id)
{
    const est_node_def *def = est_graph_node(s->graph, id);
    const est_var      *var = def->op->source == EST_SOURCE_VARIABLE
                                  ? est_store_find(s->store, est_node_string(def, "shared_name"))
                                  : NULL;

    return var != NULL && var->n_shards > 0 ? var : NULL;
}

static int64_t rows_in(const est_var *var)
{
    return var->value.shape.dim[0];
}

/* The handle of a shard; one node for each, so that order among what touches it is kept. */
static est_node shard_handle(sharding *s, const est_var *shard)
{
    uintptr_t  known = (uintptr_t)est_map_get(&s->handles, shard->name);
    est_node   handle;
    est_status status;

    if (known != 0) return (est_node){ s->graph, (int32_t)known - 1, 0 };
    handle = est_build0(s->graph, &est_op_var_handle,
                        EST_ATTRS(est_attr_string("shared_name", shard->name),
                                  est_attr_type("dtype", shard->value.dtype),
                                  est_attr_shape("shape", shard->value.shape)));
    if (est_def(handle) == NULL) return handle;
    est_graph_node(s->graph, handle.id)->order = 0;
    status = est_map_put(&s->handles, shard->name, (void *)(uintptr_t)(handle.id + 1));
    return status == EST_OK ? handle : est_graph_poison(s->graph, status);
}

/* What `def` waits for, `node` waits for. */
static est_node after_same(const sharding *s, est_node node, const est_node_def *def)
{
    for (int32_t i = 0; i < def->n_control; i++) node = est_after(node, (est_node){ s->graph, def->control[i], 0 });
    return node;
}

/* Cuts ids or rows as the shards of the variable are cut; what is cut already is not cut again. */
static est_node cut_up(sharding *s, const est_op *op, est_node from, const est_var *var)
{
    cut *new = &s->cuts[s->n_cuts];

    for (int32_t i = 0; i < s->n_cuts; i++) {
        const cut *c = &s->cuts[i];

        if (c->op == op && c->from.node == from.id && c->from.output == from.output && c->rows == rows_in(var) &&
            c->n == var->n_shards) {
            return c->parts;
        }
    }
    *new       = (cut){ op, { from.id, from.output }, rows_in(var), var->n_shards, EST_NO_NODE };
    new->parts = est_build1(op, from,
                            EST_ATTRS(est_attr_int("N", var->n_shards), est_attr_int("rows", rows_in(var)),
                                      est_attr_string("variable", var->name)));
    s->n_cuts++;
    return new->parts;
}

/* --- readers ------------------------------------------------------------------------------------------------------ */

static est_node read_whole(sharding *s, const est_node_def *def, const est_var *var)
{
    for (int i = 0; i < var->n_shards; i++) {
        s->parts[i] = after_same(s, est_read_variable(shard_handle(s, var->shards[i])), def);
    }
    return est_concat((est_nodes){ s->parts, var->n_shards }, 0);
}

static est_node gather_rows(sharding *s, const est_node_def *def, const est_var *var)
{
    est_node ids = as_node(s, def->in[1]), split;

    if (est_node_shape(ids)->rank != 1) return EST_NO_NODE;
    split = cut_up(s, &est_op_split_ids, ids, var);
    for (int i = 0; i < var->n_shards; i++) {
        s->parts[i] = est_resource_gather(shard_handle(s, var->shards[i]), est_output(split, i));
        s->parts[i] = after_same(s, s->parts[i], def);
    }
    return est_gather(est_concat((est_nodes){ s->parts, var->n_shards }, 0), est_output(split, 2 * var->n_shards), 0);
}

static est_node all_initialized(sharding *s, const est_node_def *def, const est_var *var)
{
    est_node all = EST_NO_NODE;

    for (int i = 0; i < var->n_shards; i++) {
        est_node one = after_same(s, est_variable_is_initialized(shard_handle(s, var->shards[i])), def);

        all = i == 0 ? one : est_logical_and(all, one);
    }
    return all;
}

/* Shape and the like: the shape of a variable is known. */
static est_node known_value(sharding *s, const est_node_def *def, const est_var *var)
{
    const est_value *value = &def->value[0];

    (void)var;
    if (value->n < 0) return EST_NO_NODE;
    if (def->shape[0].rank == 0) return est_scalar(s->graph, def->dtype[0], (double)value->v[0]);
    return est_const_ints(s->graph, def->dtype[0], (est_i64s){ value->v, value->n });
}

static const struct reader {
    const est_op *op;
    est_node (*rewrite)(sharding *s, const est_node_def *def, const est_var *var);
} readers[] = {
    { &est_op_read_variable, read_whole },
    { &est_op_resource_gather, gather_rows },
    { &est_op_var_is_initialized, all_initialized },
    { &est_op_shape, known_value },
    { &est_op_size, known_value },
    { &est_op_rank, known_value },
};

/* --- rows of a first value ---------------------------------------------------------------------------------------- */

/* The op that draws a part of what `op` draws; NULL: it draws nothing. */
static const est_op *part_of(const est_op *op)
{
    static const est_op *const parts[][2] = {
        { &est_op_random_uniform, &est_op_random_uniform_part },
        { &est_op_random_standard_normal, &est_op_random_standard_normal_part },
        { &est_op_truncated_normal, &est_op_truncated_normal_part },
        { &est_op_random_uniform_int, &est_op_random_uniform_int_part },
    };

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i][0] == op) return parts[i][1];
    }
    return NULL;
}

static est_node shape_of(const sharding *s, const est_var *shard)
{
    return est_const_ints(s->graph, EST_I64, (est_i64s){ shard->value.shape.dim, shard->value.shape.rank });
}

static int64_t first_element(const est_var *shard)
{
    return shard->first_row * est_row_size(&shard->value);
}

static est_node random_rows(const sharding *s, const est_node_def *def, const est_var *shard)
{
    est_node in[3] = { shape_of(s, shard) };
    est_attr attrs[EST_ATTR_MAX];
    int      n = 0;

    for (int32_t i = 1; i < def->n_in; i++) in[i] = as_node(s, def->in[i]);
    for (int32_t i = 0; i < def->n_attr; i++) {
        if (strcmp(def->attr[i].name, "T") != 0) attrs[n++] = def->attr[i]; /* T: of the shape, which is another now */
    }
    attrs[n++] = est_attr_int("first", first_element(shard));
    return est_build(s->graph, part_of(def->op), (est_nodes){ in, def->n_in }, (est_attrs){ attrs, n });
}

static est_node constant_rows(const sharding *s, const est_node_def *def, const est_var *shard)
{
    const est_tensor *all  = est_node_attr(def, "value")->tensor;
    const char       *data = (const char *)est_tensor_data(all);
    est_tensor       *part;
    est_node          node;
    est_status        status;

    data += (size_t)first_element(shard) * est_dtype_size(shard->value.dtype);
    status = est_tensor_create_from(shard->value.dtype, shard->value.shape, data, &part);
    if (status != EST_OK) return est_graph_poison(s->graph, status);
    node = est_const(s->graph, part);
    est_tensor_free(part);
    return node;
}

/* Whether the rows of an elementwise function are the function of the rows: its inputs are scalars or of its own shape.
 * Only where nobody else wants the result, so that nothing is computed twice. */
static bool is_by_rows(const sharding *s, const est_node_def *def)
{
    bool by_rows = def->op->elementwise && !def->op->stateful && def->n_out == 1 && def->n_in <= EST_ARG_MAX &&
                   s->uses.n[def->id] == 1;

    for (int32_t i = 0; i < def->n_in && by_rows; i++) {
        const est_shape *in = est_node_shape(as_node(s, def->in[i]));

        by_rows = in->rank == 0 || (est_shape_is_known(in) && est_shape_equal(in, &def->shape[0]));
    }
    return by_rows;
}

static est_node rows_of(sharding *s, est_edge value, const est_var *shard);

static est_node elementwise_rows(sharding *s, const est_node_def *def, const est_var *shard)
{
    est_node in[EST_ARG_MAX];

    for (int32_t i = 0; i < def->n_in; i++) {
        est_node x = as_node(s, def->in[i]);

        in[i] = est_node_shape(x)->rank == 0 ? x : rows_of(s, def->in[i], shard);
    }
    return est_build(s->graph, def->op, (est_nodes){ in, def->n_in }, (est_attrs){ def->attr, def->n_attr });
}

static int shard_number(const est_var *shard)
{
    int i = 0;

    while (shard->whole->shards[i] != shard) i++;
    return i;
}

/* The rows of `value` that the shard has. Values are trees of what is used once: the depth is that of an
 * initializer. */
static est_node rows_of(sharding *s, est_edge value, const est_var *shard)
{
    const est_node_def *def = est_graph_node(s->graph, value.node);

    if (def->n_control == 0 && est_shape_equal(&def->shape[value.output], &shard->whole->value.shape)) {
        const est_var *read = def->op == &est_op_read_variable ? spread_variable(s, def->in[0].node) : NULL;

        if (def->op->source == EST_SOURCE_CONST) return constant_rows(s, def, shard);
        if (part_of(def->op) != NULL) return random_rows(s, def, shard);
        if (def->op == &est_op_fill) return est_fill(shape_of(s, shard), as_node(s, def->in[1]));
        if (read != NULL && read->n_shards == shard->whole->n_shards) {
            return est_read_variable(shard_handle(s, read->shards[shard_number(shard)]));
        }
        if (is_by_rows(s, def)) return elementwise_rows(s, def, shard);
    }
    return est_output(cut_up(s, &est_op_split_rows, as_node(s, value), shard->whole), shard_number(shard));
}

/* --- updates ------------------------------------------------------------------------------------------------------ */

typedef enum role { SAME, HANDLE, INDICES, ROWS } role;

/* What an input of an update is. A scalar is the same for all rows. */
static role role_of(const est_op *op, int input, est_node node)
{
    if (est_node_dtype(node) == EST_RESOURCE) return HANDLE;
    if (input == op->update->indices) return INDICES;
    return input == op->update->gradient && est_node_shape(node)->rank != 0 ? ROWS : SAME;
}

/* An update that is being rewritten. */
typedef struct update {
    const est_node_def *def;
    const est_var      *var; /* the first that is spread, as which all are */
    role                role[EST_ARG_MAX];
    est_node            in[EST_ARG_MAX]; /* indices and their rows flat */
    bool                sparse;
} update;

/* Indices [n] and rows [n, ...] whatever rank the indices have. */
static est_node flatten(const update *u, int i)
{
    int64_t dim[EST_RANK_MAX] = { -1 };

    if (u->role[i] == INDICES) return est_reshape(u->in[i], EST_I64S(-1));
    for (int k = 1; k < u->var->value.shape.rank; k++) dim[k] = u->var->value.shape.dim[k];
    return est_reshape(u->in[i], (est_i64s){ dim, u->var->value.shape.rank });
}

static void read_update(const sharding *s, const est_node_def *def, const est_var *var, update *u)
{
    bool flat = true;

    *u = (update){ .def = def, .var = var };
    for (int32_t i = 0; i < def->n_in; i++) {
        u->in[i]   = as_node(s, def->in[i]);
        u->role[i] = role_of(def->op, i, u->in[i]);
        if (u->role[i] != INDICES) continue;
        u->sparse = true;
        flat      = est_node_shape(u->in[i])->rank == 1;
    }
    for (int32_t i = 0; i < def->n_in && !flat; i++) {
        if (u->role[i] == INDICES || u->role[i] == ROWS) u->in[i] = flatten(u, i);
    }
}

static est_status check_alike(const sharding *s, const update *u)
{
    for (int32_t i = 0; i < u->def->n_in; i++) {
        const est_var *other = u->role[i] == HANDLE ? spread_variable(s, u->def->in[i].node) : u->var;

        if (other != NULL && other->n_shards == u->var->n_shards && rows_in(other) == rows_in(u->var)) continue;
        return est_fail(EST_INVALID_ARGUMENT, "'%s' touches '%s', whose rows are not spread as those of '%s' are",
                        u->def->name, est_node_name(u->in[i]), u->var->name);
    }
    return EST_OK;
}

/* Input i of the update of one shard. `split`: whose the indices are. */
static est_node shard_input(sharding *s, const update *u, int32_t i, est_node split, int shard)
{
    switch (u->role[i]) {
    case HANDLE: return shard_handle(s, spread_variable(s, u->def->in[i].node)->shards[shard]);
    case INDICES: return est_output(split, shard);
    case ROWS:
        if (u->sparse) return est_gather(u->in[i], est_output(split, u->var->n_shards + shard), 0);
        if (u->def->op->fills_var) return rows_of(s, u->def->in[i], u->var->shards[shard]);
        return est_output(cut_up(s, &est_op_split_rows, u->in[i], u->var), shard);
    case SAME: break;
    }
    return u->in[i];
}

static est_status rewrite_update(sharding *s, const est_node_def *def, const est_var *var, est_node *out)
{
    update   u;
    est_node split = EST_NO_NODE;

    read_update(s, def, var, &u);
    EST_TRY(check_alike(s, &u));
    for (int32_t i = 0; i < def->n_in; i++) {
        if (u.role[i] == INDICES) split = cut_up(s, &est_op_split_ids, u.in[i], var);
    }
    for (int p = 0; p < var->n_shards; p++) {
        est_node in[EST_ARG_MAX];

        for (int32_t i = 0; i < def->n_in; i++) in[i] = shard_input(s, &u, i, split, p);
        s->parts[p] = est_build(s->graph, def->op, (est_nodes){ in, def->n_in }, (est_attrs){ def->attr, def->n_attr });
        s->parts[p] = after_same(s, s->parts[p], def);
    }
    *out = est_group(s->graph, (est_nodes){ s->parts, var->n_shards });
    return EST_OK;
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

/* Gives what was made for `of` its place in the program; handles have none. */
static void adopt(const sharding *s, int32_t first, const est_node_def *of)
{
    for (int32_t id = first; id < est_graph_size(s->graph); id++) {
        est_node_def *def = est_graph_node(s->graph, id);

        if (def->op->source != EST_SOURCE_VARIABLE) def->order = of->order;
        def->file = of->file;
        def->line = of->line;
    }
}

static const est_var *first_spread(const sharding *s, const est_node_def *def)
{
    const est_var *var = NULL;

    for (int32_t i = 0; i < def->n_in && var == NULL; i++) var = spread_variable(s, def->in[i].node);
    return var;
}

static est_status rewrite(sharding *s, const est_node_def *def, bool updates)
{
    const est_var *var   = s->uses.n[def->id] > 0 ? first_spread(s, def) : NULL;
    int32_t        first = est_graph_size(s->graph);
    est_node       now   = EST_NO_NODE;

    if (var == NULL || (def->op->writes != 0) != updates) return EST_OK;
    if (updates) EST_TRY(rewrite_update(s, def, var, &now));
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        if (readers[i].op == def->op) now = readers[i].rewrite(s, def, var);
    }
    EST_TRY(est_graph_status(s->graph));
    if (now.graph == NULL) {
        return est_fail(EST_UNIMPLEMENTED, "%s '%s' cannot use variable '%s', whose rows are spread over tasks",
                        def->op->name, def->name, var->name);
    }
    adopt(s, first, def);
    return est_rewriter_replace(&s->rewriter, (est_edge){ def->id, 0 }, (est_edge){ now.id, now.output });
}

/* Updates first: a first value that is computed from a read is made by rows only while the read is one node. */
static est_status rewrite_all(sharding *s)
{
    for (int32_t k = 0; k < 2 * s->n; k++) EST_TRY(rewrite(s, est_graph_node(s->graph, k % s->n), k < s->n));
    return EST_OK;
}

static int most_shards(const est_store *store)
{
    int most = 0;

    for (int i = 0; i < est_store_size(store); i++) {
        if (est_store_at(store, i)->n_shards > most) most = est_store_at(store, i)->n_shards;
    }
    return most;
}

est_status est_pass_shard(est_graph *graph, est_io *io, const est_store *store)
{
    sharding s = {
        .graph = graph, .store = store, .n = est_graph_size(graph), .rewriter = { .graph = graph, .io = io }
    };
    int        most = most_shards(store);
    size_t     max  = 1;
    est_status status;

    if (most == 0) return EST_OK;
    EST_TRY(est_uses_create(graph, io, &s.uses));
    for (int32_t id = 0; id < s.n; id++) max += (size_t)est_graph_node(graph, id)->n_in + 1;
    s.cuts  = est_alloc(sizeof *s.cuts * max);
    s.parts = est_alloc(sizeof *s.parts * (size_t)most);
    status  = s.cuts != NULL && s.parts != NULL ? rewrite_all(&s) : est_no_memory();
    est_rewriter_clear(&s.rewriter);
    est_uses_clear(&s.uses);
    est_map_clear(&s.handles);
    est_free(s.cuts);
    est_free(s.parts);
    return status;
}
