/* SPDX-License-Identifier: Apache-2.0
 *
 * The variables of a session: their first values, and reading and writing them from outside, here or at other tasks. */
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "kernels/variable_access.h"
#include "ops/ops.h"
#include "runtime/session_state.h"
#include "tensor/shape.h"

/* What est_session_init works with. */
typedef struct initializing {
    est_node *targets;
    int       n, missing, round;
    int32_t  *seen; /* per node: the last variable whose initializer was found to depend on it, plus one */
    int32_t  *stack;
} initializing;

/* Whether every variable that the initializer of `variable` reads has a value. */
static bool can_initialize(const est_session *s, initializing *in, int32_t initializer, int32_t variable)
{
    int32_t depth = 0;

    in->stack[depth++]    = initializer;
    in->seen[initializer] = variable + 1;
    while (depth > 0) {
        const est_node_def *def = est_graph_node(s->graph, in->stack[--depth]);
        if (def->op->source == EST_SOURCE_VARIABLE && def->id != variable &&
            !est_store_find(s->store, est_node_string(def, "shared_name"))->initialized) {
            return false;
        }
        for (int32_t i = 0; i < def->n_in; i++) {
            int32_t from = def->in[i].node;
            if (in->seen[from] != variable + 1) in->stack[depth++] = from;
            in->seen[from] = variable + 1;
        }
    }
    return true;
}

/* Whether the node makes a dynamic embedding without a value at the task that is to have it: its first run there. */
static bool is_maker(const est_session *s, const est_node_def *def)
{
    const est_node_def *embedding;

    if (def->op != &est_op_fill_row_table) return false;
    embedding = est_graph_node(s->graph, def->in[0].node);
    return !est_store_find(s->store, est_node_string(embedding, "shared_name"))->initialized;
}

/* Whether it could not be made, in a graph that has recovered since (est_graph_recover): nothing refers to it. */
static bool is_abandoned(const est_graph *graph, int32_t id)
{
    est_nodes abandoned = est_graph_collection(graph, EST_ABANDONED_VARIABLES);

    for (int i = 0; i < abandoned.n; i++) {
        if (abandoned.data[i].id == id) return true;
    }
    return false;
}

/* Variables without a value whose initializers can run now; `missing` counts all without a value. */
static est_status list_initializers(est_session *s, initializing *in)
{
    in->n = in->missing = 0;
    memset(in->seen, 0, sizeof *in->seen * (size_t)est_graph_size(s->graph));
    for (int32_t id = 0; id < est_graph_size(s->graph); id++) {
        const est_node_def *def = est_graph_node(s->graph, id);
        est_node            init;
        est_var            *var;
        if (in->round == 0 && is_maker(s, def)) in->targets[in->n++] = (est_node){ s->graph, id, 0 };
        if (def->op->source != EST_SOURCE_VARIABLE || def->op->has_rows) continue; /* rows get values as keys come */
        var  = est_store_find(s->store, est_node_string(def, "shared_name"));
        init = est_graph_initializer(s->graph, id);
        if (var->initialized) continue;
        if (init.graph == NULL && is_abandoned(s->graph, id)) continue;
        if (init.graph == NULL) {
            return est_fail(EST_FAILED_PRECONDITION, "variable '%s' has no value and no initializer", var->name);
        }
        in->missing++;
        if (can_initialize(s, in, init.id, id)) in->targets[in->n++] = init;
    }
    return EST_OK;
}

/* Runs the updates once; their plan, with room for every initial value, is not kept. */
static est_status run_initializers(est_session *s, const initializing *in)
{
    est_step  *step;
    est_status status;

    EST_TRY(est_session_prepare(s, (est_nodes){ 0 }, (est_nodes){ 0 }, (est_nodes){ in->targets, in->n }, &step));
    status = est_step_run(step, NULL);
    est_step_free(step);
    return status;
}

/* What other tasks have: variables, and shards instead of those that are spread. Returns how many; vars NULL: only
 * that. */
static int list_elsewhere(const est_store *store, est_var **vars)
{
    int n = 0;

    for (int i = 0; i < est_store_size(store); i++) {
        est_var *var    = est_store_at(store, i);
        int      pieces = var->n_shards > 0 ? var->n_shards : var->elsewhere;

        for (int k = 0; k < pieces && vars != NULL; k++) vars[n + k] = var->n_shards > 0 ? var->shards[k] : var;
        n += pieces;
    }
    return n;
}

/* A variable that is spread has a value when all of its shards have. */
static void note_initialized(est_var *const *vars, int n, const bool *initialized)
{
    for (int i = 0; i < n; i++) {
        vars[i]->initialized = initialized[i];
        if (vars[i]->whole != NULL) vars[i]->whole->initialized = true;
    }
    for (int i = 0; i < n; i++) {
        if (vars[i]->whole != NULL && !initialized[i]) vars[i]->whole->initialized = false;
    }
}

est_status est_session_look(est_session *s)
{
    est_remote *remote = s->options.remote;
    int         n      = list_elsewhere(s->store, NULL);
    est_var   **vars;
    bool       *initialized;
    est_status  status;

    if (remote == NULL) return EST_OK;
    vars        = est_alloc(sizeof(est_var *) * ((size_t)n + 1));
    initialized = est_zalloc((size_t)n + 1);
    if (vars == NULL || initialized == NULL) {
        status = est_no_memory();
    } else {
        (void)list_elsewhere(s->store, vars);
        status = remote->ops->initialized(remote, vars, n, initialized);
        if (status == EST_OK) note_initialized(vars, n, initialized);
    }
    est_free(vars);
    est_free(initialized);
    return status;
}

/* All variables that can be in one run; those whose initializers read them in the next. */
est_status est_session_init(est_session *session)
{
    initializing in = { .missing = 1 };
    est_status   status;
    size_t       size;

    EST_REQUIRE(session);
    EST_TRY(est_session_check(session));
    status     = est_graph_status(session->graph);
    size       = (size_t)est_graph_size(session->graph) + 1;
    in.targets = est_alloc(sizeof *in.targets * size);
    in.seen    = est_zalloc(sizeof *in.seen * size);
    in.stack   = est_alloc(sizeof *in.stack * size);
    if (in.targets == NULL || in.seen == NULL || in.stack == NULL) {
        status = est_no_memory();
    }
    if (status == EST_OK) status = est_session_find_variables(session);
    while (status == EST_OK && in.missing > 0) {
        status = est_session_look(session);
        if (status == EST_OK) status = list_initializers(session, &in);
        if (status == EST_OK && in.missing > 0 && in.n == 0) {
            status = est_fail(EST_FAILED_PRECONDITION, "%d variables wait for each other's initial values", in.missing);
        }
        if (status == EST_OK && in.n > 0) status = run_initializers(session, &in);
        in.round++;
    }
    est_free(in.targets);
    est_free(in.seen);
    est_free(in.stack);
    return status;
}

/* --- from outside ------------------------------------------------------------------------------------------------- */

static est_status find_variable(est_session *s, const char *name, est_var **out)
{
    EST_TRY(est_session_check(s));
    if (name == NULL) return est_fail(EST_INVALID_ARGUMENT, "the variable's name is NULL");
    EST_TRY(est_session_settle(s));
    EST_TRY(est_session_find_variables(s));
    *out = est_store_find(s->store, name);
    return *out != NULL ? EST_OK : est_fail(EST_NOT_FOUND, "there is no variable '%s'", name);
}

static size_t shard_offset(const est_var *shard)
{
    return (size_t)(shard->first_row * est_row_size(&shard->value)) * est_dtype_size(shard->value.dtype);
}

/* Another program may have sharded the variable in another way. */
est_status est_session_read_shard(const est_session *session, const est_var *shard, est_tensor **out)
{
    est_remote *remote = session->options.remote;
    est_tensor *part;
    char        have[EST_SHAPE_TEXT_MAX], want[EST_SHAPE_TEXT_MAX];
    est_status  status;

    EST_TRY(remote->ops->read(remote, shard, &part));
    if (est_tensor_dtype(part) == shard->value.dtype && est_shape_equal(est_tensor_shape(part), &shard->value.shape)) {
        *out = part;
        return EST_OK;
    }
    status = est_fail(EST_FAILED_PRECONDITION, "variable '%s' is %s %s at %s, expected as %s %s", shard->name,
                      est_dtype_name(est_tensor_dtype(part)), est_shape_text(est_tensor_shape(part), have),
                      remote->ops->name(remote, shard->task), est_dtype_name(shard->value.dtype),
                      est_shape_text(&shard->value.shape, want));
    est_tensor_free(part);
    return status;
}

/* Puts what a task has of a variable in its place. */
static est_status copy_shard(const est_session *session, const est_var *shard, est_tensor *all)
{
    est_tensor *part;

    EST_TRY(est_session_read_shard(session, shard, &part));
    memcpy((char *)est_tensor_mutable_data(all) + shard_offset(shard), est_tensor_data(part), est_tensor_bytes(part));
    est_tensor_free(part);
    return EST_OK;
}

static est_status read_shards(const est_session *session, const est_var *var, est_tensor **out)
{
    est_tensor *all;
    est_status  status = est_tensor_create(var->value.dtype, var->value.shape, &all);

    EST_TRY(status);
    for (int i = 0; i < var->n_shards && status == EST_OK; i++) status = copy_shard(session, var->shards[i], all);
    if (status != EST_OK) {
        est_tensor_free(all);
        return status;
    }
    *out = all;
    return EST_OK;
}

static est_status write_shards(est_remote *remote, const est_var *var, const est_tensor *value)
{
    for (int i = 0; i < var->n_shards; i++) {
        const est_var *shard = var->shards[i];
        est_tensor    *part;
        est_status     status;

        EST_TRY(est_tensor_create_from(shard->value.dtype, shard->value.shape,
                                       (const char *)est_tensor_data(value) + shard_offset(shard), &part));
        status = remote->ops->write(remote, shard, part);
        est_tensor_free(part);
        EST_TRY(status);
    }
    return EST_OK;
}

est_status est_session_read(est_session *session, const char *variable, est_tensor **out)
{
    est_var *var;

    EST_REQUIRE(session);
    EST_REQUIRE(variable);
    EST_REQUIRE(out);
    EST_TRY(find_variable(session, variable, &var));
    if (var->n_shards > 0) return read_shards(session, var, out);
    if (var->elsewhere) return session->options.remote->ops->read(session->options.remote, var, out);
    if (!var->initialized) return est_fail(EST_FAILED_PRECONDITION, "variable '%s' has no value yet", variable);
    return est_var_read(var, session->pool, out);
}

est_status est_session_write(est_session *session, const char *variable, const est_tensor *value)
{
    est_var *var;
    char     want[EST_SHAPE_TEXT_MAX], got[EST_SHAPE_TEXT_MAX];

    EST_REQUIRE(session);
    EST_REQUIRE(variable);
    if (value == NULL) return est_fail(EST_INVALID_ARGUMENT, "variable '%s': the value is NULL", variable);
    EST_TRY(find_variable(session, variable, &var));
    if (var->rows != NULL) {
        return est_fail(EST_UNIMPLEMENTED,
                        "variable '%s' belongs to a dynamic embedding, which changes only by training and restoring",
                        variable);
    }
    if (var->value.dtype != est_tensor_dtype(value) || !est_shape_equal(&var->value.shape, est_tensor_shape(value))) {
        return est_fail(EST_INVALID_ARGUMENT, "variable '%s' is %s %s, the value is %s %s", variable,
                        est_dtype_name(var->value.dtype), est_shape_text(&var->value.shape, want),
                        est_dtype_name(est_tensor_dtype(value)), est_shape_text(est_tensor_shape(value), got));
    }
    if (var->n_shards > 0) return write_shards(session->options.remote, var, value);
    if (var->elsewhere) return session->options.remote->ops->write(session->options.remote, var, value);
    return est_var_write(var, est_tensor_data(value));
}

est_status est_session_clear_rows(est_session *session, const char *embedding)
{
    est_var *var;

    EST_TRY(find_variable(session, embedding, &var));
    if (var->elsewhere) return session->options.remote->ops->write(session->options.remote, var, NULL);
    est_store_clear_rows(session->store, var);
    return EST_OK;
}
