/* SPDX-License-Identifier: Apache-2.0
 *
 * Dynamic embeddings: EstRowVariable, a variable with a row for each key that there is, or a slot of one; EstFindRows,
 * from keys to its rows; and EstFillRowTable, which does nothing here, since keys are where their rows are, and
 * elsewhere fills the table that finds them:
 *
 *   EstFindRows      = LookupTableFindV2 in a HashTableV2, -1 for other keys
 *   EstFillRowTable  = LookupTableImportV2 of the variable "<name>/keys" and 0, 1, 2, ...
 *
 * Finding rows also counts and admits keys in a step that changes the variable in another way, as an optimizer does.
 * All other steps, and those of a frozen embedding, only look. What a step does to the row table is tentative until the
 * run has succeeded, and is rolled back when it fails (runtime/execute.c).
 *
 * Where the variable is at another task, two operations take the place of EstFindRows and go in front of the update
 * (runtime/lookups.c). Rows have no number outside of that task, since others may change it in between; there are only
 * keys:
 *
 *   EstPullRows   the rows of keys as a step with these keys sees them. It leaves the row table as it was.
 *   EstAdmitRows  the same step for good: counts and admits the keys, and finds the rows of a gradient by their keys.
 *                 Gradients of keys that have no row any more are left out. */
#include <string.h>

#include "kernels/lookup_table.h"
#include "kernels/parallel.h"
#include "kernels/row_table.h"
#include "kernels/variable_access.h"
#include "ops/ops.h"

static est_status variable_infer(est_infer *c)
{
    c->out[0] = est_node_attr(c->node, "shape")->shape;
    return EST_OK;
}

static est_status find_infer(est_infer *c)
{
    c->out[0] = c->in[1];
    return EST_OK;
}

/* --- kernel ------------------------------------------------------------------------------------------------------- */

static void find_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const est_call *c = arg;

    (void)block;
    est_key_rows_find(est_call_variable(c, 0)->rows, (const int64_t *)c->in[1]->data + begin, end - begin,
                      (int64_t *)c->out[0].data + begin);
}

static est_status find_prepare(est_call *c)
{
    const est_var *var = est_call_variable(c, 0);

    if (var->rows != NULL) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "variable '%s' has no rows for keys", var->name);
}

/* Keys are admitted one after the other. What this allocates, the index and the undo log, is the memory of many
 * steps. */
static est_status find_cpu(est_call *c)
{
    if (c->trains) {
        return est_row_table_train(est_row_table_of(est_call_variable(c, 0)), c->in[1]->data, c->in[1]->count,
                                   c->out[0].data);
    }
    est_parallel_for(c->pool, c->in[1]->count, 64, 30.0, find_range, c);
    return EST_OK;
}

/* --- at another task ---------------------------------------------------------------------------------------------- */

static est_status pull_infer(est_infer *c)
{
    c->out[0] = c->in[0].rank == 2 && c->in[2].rank == 1 ? EST_SHAPE(c->in[2].dim[0], c->in[0].dim[1])
                                                         : EST_SHAPE(-1, -1);
    c->out[1] = c->in[1];
    return EST_OK;
}

static size_t pull_scratch(const est_call *c)
{
    return (size_t)c->in[2]->count * sizeof(int64_t);
}

static est_status pull_prepare(est_call *c)
{
    c->param[0].i = est_node_bool(c->node, "trains");
    return find_prepare(c);
}

/* Zeros for keys without a row. */
static void gather_rows(const est_var *var, const int64_t *rows, int64_t n, float *out)
{
    int64_t width = est_row_size(&var->value);
    size_t  bytes = (size_t)width * sizeof *out;

    for (int64_t i = 0; i < n; i++, out += width) {
        if (rows[i] >= 0) {
            memcpy(out, (const float *)var->value.data + rows[i] * width, bytes);
        } else {
            memset(out, 0, bytes);
        }
    }
}

static est_status pull_cpu(est_call *c)
{
    const est_var  *var   = est_call_variable(c, 0);
    est_row_table  *table = est_row_table_of(var);
    const est_view *keys = c->in[1], *distinct = c->in[2];
    int64_t        *found = c->scratch;

    if (c->param[0].i != 0) {
        EST_TRY(est_row_table_train(table, keys->data, keys->count, c->out[1].data));
    } else {
        est_key_rows_find(var->rows, keys->data, keys->count, c->out[1].data);
    }
    est_key_rows_find(var->rows, distinct->data, distinct->count, found);
    gather_rows(var, found, distinct->count, c->out[0].data);
    est_row_table_rollback(table);
    return EST_OK;
}

static est_status admit_infer(est_infer *c)
{
    int64_t n = c->in[2].rank == 1 && c->in[2].dim[0] >= 0 ? est_infer_at_most(c, c->in[2].dim[0]) : -1;

    c->out[0] = EST_SHAPE(n);
    c->out[1] = c->in[3];
    if (c->out[1].rank > 0) c->out[1].dim[0] = n;
    return EST_OK;
}

static size_t admit_scratch(const est_call *c)
{
    return (size_t)c->in[1]->count * sizeof(int64_t);
}

static est_status admit_cpu(est_call *c)
{
    const est_var  *var  = est_call_variable(c, 0);
    const est_view *keys = c->in[1], *indices = c->in[2], *grad = c->in[3];
    int64_t        *rows = c->out[0].data, n = 0;
    size_t          bytes = (size_t)est_row_size(grad) * est_dtype_size(grad->dtype);

    if (est_row_count(grad) != indices->count) {
        return est_fail(EST_INVALID_ARGUMENT, "a gradient of %lld rows for %lld keys", (long long)est_row_count(grad),
                        (long long)indices->count);
    }
    EST_TRY(est_row_table_train(est_row_table_of(var), keys->data, keys->count, c->scratch));
    est_key_rows_find(var->rows, indices->data, indices->count, rows);
    for (int64_t i = 0; i < indices->count; i++) {
        if (rows[i] < 0) continue;
        rows[n] = rows[i];
        memcpy((char *)c->out[1].data + (size_t)n * bytes, (const char *)grad->data + (size_t)i * bytes, bytes);
        n++;
    }
    c->out[0].shape        = EST_SHAPE(n);
    c->out[0].count        = n;
    c->out[1].shape        = grad->shape;
    c->out[1].shape.dim[0] = n;
    c->out[1].count        = n * est_row_size(grad);
    return EST_OK;
}

/* --- lowering ----------------------------------------------------------------------------------------------------- */

static void variable_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    (void)in;
    out[0] = est_build0(graph, &est_op_var_handle,
                        EST_ATTRS(est_attr_string("shared_name", est_node_string(node, "shared_name")),
                                  est_attr_type("dtype", est_node_type(node, "dtype")),
                                  est_attr_shape("shape", est_node_attr(node, "shape")->shape)));
}

/* "<name of the variable>/<part>", or NULL after the graph was told. */
static const char *part_name(est_node variable, const char *part)
{
    const est_node_def *def  = est_def(variable);
    const char         *text = def != NULL ? est_arena_printf(est_graph_arena(variable.graph), "%s/%s",
                                                              est_node_string(def, "shared_name"), part)
                                           : NULL;

    if (def != NULL && text == NULL) {
        (void)est_graph_poison(variable.graph, est_no_memory());
    }
    return text;
}

/* The table, by another handle each time. Without node name sharing TensorFlow 2 would make tables of their own of
 * them. */
static est_node table_of(est_node variable)
{
    const char *name = part_name(variable, "table");

    return est_build0(variable.graph, &est_op_hash_table,
                      EST_ATTRS(est_attr_string("shared_name", name != NULL ? name : ""),
                                est_attr_bool("use_node_name_sharing", true), est_attr_type("key_dtype", EST_I64),
                                est_attr_type("value_dtype", EST_I64)));
}

static void find_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    (void)node;
    out[0] = est_build3(&est_op_lookup_table_find, table_of(in[0]), in[1], est_scalar(graph, EST_I64, -1),
                        EST_NO_ATTRS);
}

/* The keys there are. No table can be filled with nothing: without keys it is one that has no row, as others have
 * none. */
static est_node stored_keys(est_node variable, est_node *rows)
{
    est_graph  *graph = variable.graph;
    const char *name  = part_name(variable, "keys");
    int64_t     n     = est_node_dim(variable, 0);

    if (n == 0) {
        *rows = est_const_i64(graph, EST_SHAPE(1), (const int64_t[]){ -1 });
        return est_const_i64(graph, EST_SHAPE(1), (const int64_t[]){ 0 });
    }
    *rows = est_range(est_scalar(graph, EST_I64, 0), est_scalar(graph, EST_I64, (double)n),
                      est_scalar(graph, EST_I64, 1));
    return est_read_variable(
        est_build0(graph, &est_op_var_handle,
                   EST_ATTRS(est_attr_string("shared_name", name != NULL ? name : ""), est_attr_type("dtype", EST_I64),
                             est_attr_shape("shape", EST_SHAPE(n)))));
}

static void fill_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node rows, keys = stored_keys(in[0], &rows);

    (void)node;
    (void)graph;
    out[0] = est_build3(&est_op_lookup_table_import, table_of(in[0]), keys, rows, EST_NO_ATTRS);
}

/* --- descriptors -------------------------------------------------------------------------------------------------- */

const est_op est_op_row_variable = {
    .name      = "EstRowVariable",
    .signature = "() -> resource: resource; shared_name: string = \"\"; dtype: {float32} = float32; shape: shape; "
                 "rows_of: string = \"\"; distribution: int = 0; a: float = 0.0; b: float = 0.0; seed: int = 0; "
                 "admit_after: int = 1; max_age: int = 0",
    .infer     = variable_infer,
    .lower     = variable_lower,
    .stateful  = true,
    .source    = EST_SOURCE_VARIABLE,
    .has_rows  = true,
};

const est_op est_op_find_rows = {
    .name      = "EstFindRows",
    .signature = "resource: resource, keys: int64 -> rows: int64",
    .infer     = find_infer,
    .cpu       = EST_KERNELS({ .run = find_cpu, .prepare = find_prepare }),
    .lower     = find_lower,
    .stateful  = true,
    .by_rows   = true,
    .writes    = 1u << 0,
    .update    = EST_UPDATE(.keys = 1),
    .if_trains = true,
    .tentative = true,
};

const est_op est_op_pull_rows = {
    .name = "EstPullRows",
    .signature =
        "resource: resource, keys: int64, distinct: int64 -> values: float32, rows: int64; trains: bool = false",
    .infer    = pull_infer,
    .cpu      = EST_KERNELS({ .run = pull_cpu, .prepare = pull_prepare, .scratch = pull_scratch }),
    .planned  = true,
    .stateful = true,
    .by_rows  = true,
};

const est_op est_op_admit_rows = {
    .name      = "EstAdmitRows",
    .signature = "resource: resource, keys: int64, indices: int64, grad: float32 -> rows: int64, row_grad: float32",
    .infer     = admit_infer,
    .cpu       = EST_KERNELS({ .run = admit_cpu, .prepare = find_prepare, .scratch = admit_scratch }),
    .planned   = true,
    .stateful  = true,
    .by_rows   = true,
    .shrinks   = true,
    .writes    = 1u << 0,
    .update    = EST_UPDATE(.gradient = 3, .indices = 2, .keys = 1),
    .tentative = true,
    .distinct  = 1u << 0,
};

const est_op est_op_fill_row_table = {
    .name      = "EstFillRowTable",
    .signature = "resource: resource -> ()",
    .infer     = est_infer_none,
    .lower     = fill_lower,
    .stateful  = true,
};

/* --- builders ----------------------------------------------------------------------------------------------------- */

bool est_has_rows(est_node variable)
{
    const est_node_def *def = est_def(variable);

    return def != NULL && def->op->has_rows;
}

static est_attr *attr_of(est_node_def *def, const char *name)
{
    for (int32_t i = 0; i < def->n_attr; i++) {
        if (strcmp(def->attr[i].name, name) == 0) return &def->attr[i];
    }
    return NULL;
}

/* The name is unique only now; the attribute is what the variable goes by. */
static est_node share_as(est_node handle, const char *name)
{
    est_node_def *def = est_def(handle) != NULL ? est_graph_node(handle.graph, handle.id) : NULL;

    if (def != NULL) attr_of(def, "shared_name")->s = name != NULL ? name : def->name;
    if (def != NULL && name != NULL) def->name = name;
    return handle;
}

est_node est_row_variable(est_graph *graph, const char *name, est_shape shape, const est_row_policy *policy)
{
    est_node    handle, fill;
    const char *part;

    handle = est_shared_variable(graph, &est_op_row_variable, name, EST_F32, shape, false);
    if (handle.graph != NULL) return handle;
    handle = est_build0(
        graph, &est_op_row_variable,
        EST_ATTRS(est_attr_shape("shape", shape), est_attr_int("distribution", policy->draw.distribution),
                  est_attr_float("a", policy->draw.a), est_attr_float("b", policy->draw.b),
                  est_attr_int("seed", (int64_t)policy->draw.seed), est_attr_int("admit_after", policy->admit_after),
                  est_attr_int("max_age", policy->max_age)));
    handle = share_as(est_named(handle, name), NULL);
    fill   = est_build1(&est_op_fill_row_table, handle, EST_NO_ATTRS);
    if (est_graph_poisoned(graph)) return handle;
    part = part_name(handle, "init");
    part = part != NULL ? est_graph_unique_name(graph, part) : NULL;
    if (part == NULL) return est_graph_poison(graph, est_no_memory());
    est_graph_node(graph, fill.id)->name = part;
    est_graph_collect(graph, EST_TABLE_INITIALIZERS, fill);
    est_reuse_keep(handle);
    return handle;
}

est_node est_row_slot(est_node variable, const char *name, double value)
{
    est_graph  *graph = variable.graph;
    const char *full;

    if (est_def(variable) == NULL) return variable;
    full = est_graph_unique_name(graph, name);
    if (full == NULL) return est_graph_poison(graph, est_no_memory());
    return share_as(est_build0(graph, &est_op_row_variable,
                               EST_ATTRS(est_attr_shape("shape", *est_node_shape(variable)),
                                         est_attr_string("rows_of", est_node_string(est_def(variable), "shared_name")),
                                         est_attr_float("a", value))),
                    full);
}

/* A lookup of a replica and its result. */
typedef struct lookup {
    est_node variable, keys, rows;
} lookup;

/* Looks up the keys of all replicas of all workers at once, in order: admission and eviction then see the whole step,
 * and all workers have the same rows. */
static est_node find_merged(est_graph *graph, void *const *brought, int n)
{
    bool      communicator = est_graph_replicas(graph)->across_workers;
    est_node *keys         = est_arena_alloc(est_graph_arena(graph), sizeof *keys * (size_t)n), all, begin, rows;

    if (keys == NULL) return est_graph_poison(graph, est_no_memory());
    for (int i = 0; i < n; i++) keys[i] = est_reshape(((const lookup *)brought[i])->keys, EST_I64S(-1));
    all = n > 1 ? est_concat((est_nodes){ keys, n }, 0) : keys[0];
    if (communicator) all = est_gather_across(all);
    begin = communicator ? est_cast(est_output(all, 1), EST_I32) : est_scalar(graph, EST_I32, 0);
    rows  = est_build2(&est_op_find_rows, ((const lookup *)brought[0])->variable, all, EST_NO_ATTRS);
    for (int i = 0; i < n; i++) {
        lookup  *l    = brought[i];
        est_node size = est_size(keys[i]);

        l->rows = est_build3(&est_op_slice, rows, est_reshape(begin, EST_I64S(1)), est_reshape(size, EST_I64S(1)),
                             EST_NO_ATTRS);
        l->rows = est_reshape_to(l->rows, est_shape_of(l->keys));
        begin   = est_add(begin, size);
    }
    return rows;
}

est_node est_find_rows(est_node variable, est_node keys)
{
    const est_replicas *r = est_def(variable) != NULL ? est_graph_replicas(variable.graph) : NULL;
    lookup              l = { variable, keys, EST_NO_NODE };

    if (r == NULL || r->current < 0 || (r->n == 1 && !r->across_workers) || est_def(keys) == NULL) {
        return est_build2(&est_op_find_rows, variable, keys, EST_NO_ATTRS);
    }
    return est_def(est_replicas_merge(variable.graph, find_merged, &l)) != NULL
               ? l.rows
               : est_graph_poison(variable.graph, EST_INVALID_ARGUMENT);
}
