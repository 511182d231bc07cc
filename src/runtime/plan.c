/* SPDX-License-Identifier: Apache-2.0
 *
 * From an ordered private graph to items: views, kernels, what must run and what only has a shape. */
#include "runtime/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/ops.h"
#include "runtime/local_devices.h"
#include "runtime/record.h"
#include "runtime/run_ahead.h"
#include "runtime/trace.h"
#include "tensor/tensor.h"

est_status est_item_failed(const est_item *item, est_status status)
{
    const est_op *op = item->call.node->op;
    char          text[EST_NODE_TEXT_MAX];

    if (op == &est_op_start || op == &est_op_finish) return status; /* the segment's error names the program's node */
    return est_fail_context(status, "%s", est_node_text(item->call.node, text));
}

/* --- building ----------------------------------------------------------------------------------------------------- */

static est_status make_arrays(est_plan *plan)
{
    size_t n_nodes = (size_t)est_graph_size(plan->graph) + 1, n_items = (size_t)plan->n_items + 1, n_views, n_out = 1;

    plan->n_views = 0;
    for (int32_t k = 0; k < plan->n_items; k++) {
        const est_node_def *def = est_graph_node(plan->graph, plan->order.nodes[k]);

        plan->n_views += def->n_out;
        if ((size_t)def->n_out > n_out) n_out = (size_t)def->n_out;
    }
    n_views            = (size_t)plan->n_views + 1;
    plan->shape_before = est_arena_alloc(plan->arena, sizeof *plan->shape_before * n_out);
    plan->value_before = est_arena_alloc(plan->arena, sizeof *plan->value_before * n_out);
    plan->items        = est_arena_alloc(plan->arena, sizeof *plan->items * n_items);
    plan->steps        = est_arena_alloc(plan->arena, sizeof *plan->steps * n_items);
    plan->item_of      = est_arena_alloc(plan->arena, sizeof *plan->item_of * n_nodes);
    plan->views        = est_arena_alloc(plan->arena, sizeof *plan->views * n_views);
    plan->slots        = est_arena_alloc(plan->arena, sizeof *plan->slots * n_views);
    plan->buffers      = est_arena_alloc(plan->arena, sizeof *plan->buffers * n_views);
    plan->followers    = est_arena_alloc(plan->arena, sizeof *plan->followers * n_views);
    plan->fed          = est_arena_alloc(plan->arena, sizeof *plan->fed * (size_t)(plan->io.n_feeds + 1));
    plan->vars         = est_arena_alloc(plan->arena, sizeof(est_var *) * n_items);
    plan->whole        = est_arena_alloc(plan->arena, sizeof(est_var *) * n_items);
    plan->changed      = est_arena_alloc(plan->arena, sizeof(est_var *) * n_items);
    plan->tables       = est_arena_alloc(plan->arena, sizeof(est_lookup_table *) * n_items);
    if (plan->items == NULL || plan->steps == NULL || plan->item_of == NULL || plan->views == NULL ||
        plan->slots == NULL || plan->buffers == NULL || plan->followers == NULL || plan->fed == NULL ||
        plan->vars == NULL || plan->whole == NULL || plan->changed == NULL || plan->tables == NULL ||
        plan->shape_before == NULL || plan->value_before == NULL) {
        return est_no_memory();
    }
    for (size_t i = 0; i < n_nodes; i++) plan->item_of[i] = -1;
    for (int i = 0; i < plan->io.n_feeds; i++) plan->fed[i].rank = -2;
    return EST_OK;
}

void est_plan_seed(est_plan *plan, uint64_t run_seed)
{
    plan->run_seed[0] = run_seed;
    plan->run_seed[1] = (uint32_t)run_seed; /* counts runs: odd steps come by all numbers */
}

int est_plan_seed_of(const est_node_def *def)
{
    return def->op->random && est_node_int(def, "seed") == EST_DEFAULT_GRAPH_SEED;
}

static est_view *view_of(const est_plan *plan, est_edge edge)
{
    return &plan->views[plan->items[plan->item_of[edge.node]].first_view + edge.output];
}

static est_status make_item(est_plan *plan, int32_t k, int32_t first_view)
{
    const est_node_def *def  = est_graph_node(plan->graph, plan->order.nodes[k]);
    est_item           *item = &plan->items[k];
    size_t              n_in = (size_t)def->n_in + 1, n_out = (size_t)def->n_out + 1;
    est_view          **in = est_arena_alloc(plan->arena, sizeof(est_view *) * n_in);

    item->in_shape  = est_arena_alloc(plan->arena, sizeof *item->in_shape * n_in);
    item->in_dtype  = est_arena_alloc(plan->arena, sizeof *item->in_dtype * n_in);
    item->in_value  = est_arena_alloc(plan->arena, sizeof *item->in_value * n_in);
    item->in_read   = est_arena_alloc(plan->arena, sizeof *item->in_read * n_in);
    item->out_shape = est_arena_alloc(plan->arena, sizeof *item->out_shape * n_out);
    item->out_value = est_arena_alloc(plan->arena, sizeof *item->out_value * n_out);
    item->prepared  = est_arena_alloc(plan->arena, sizeof *item->prepared * (n_in + n_out));
    if (in == NULL || item->in_shape == NULL || item->in_dtype == NULL || item->in_value == NULL ||
        item->in_read == NULL || item->out_shape == NULL || item->out_value == NULL || item->prepared == NULL) {
        return est_no_memory();
    }
    plan->item_of[def->id] = k;
    item->first_view       = first_view;
    item->prepared[0].rank = -2;
    item->aside            = -1;
    for (int32_t i = 0; i < def->n_in; i++) {
        in[i]             = view_of(plan, def->in[i]);
        item->in_dtype[i] = in[i]->dtype;
    }
    item->call = (est_call){ .node     = def,
                             .n_in     = def->n_in,
                             .n_out    = def->n_out,
                             .in       = in,
                             .out      = &plan->views[first_view],
                             .pool     = plan->pool,
                             .run_seed = &plan->run_seed[est_plan_seed_of(def)] };
    for (int32_t o = 0; o < def->n_out; o++) {
        est_slot *slot                    = &plan->slots[first_view + o];
        plan->views[first_view + o].dtype = def->dtype[o];
        *slot = (est_slot){ .maker = k, .root = first_view + o, .buffer = -1, .inplace = -1, .output = o };
    }
    return EST_OK;
}

/* --- sources ------------------------------------------------------------------------------------------------------ */

static est_status bind_variable(est_plan *plan, est_item *item, est_store *store)
{
    const est_node_def *def = item->call.node;
    est_var            *var;

    EST_TRY(est_store_variable(store, def, &var));
    assert(!var->elsewhere); /* the partition leaves no handle of it */
    plan->views[item->first_view].data  = var;
    plan->views[item->first_view].shape = var->value.shape;
    return EST_OK;
}

static est_status bind_table(est_plan *plan, const est_item *item, est_store *store)
{
    est_lookup_table *table;

    EST_TRY(est_store_table(store, item->call.node, &table));
    plan->views[item->first_view].data = table;
    return EST_OK;
}

static void bind_const(est_plan *plan, const est_item *item)
{
    const est_tensor *tensor = est_node_attr(item->call.node, "value")->tensor;

    plan->views[item->first_view].data = est_tensor_view_data(tensor);
}

static est_status bind_sources(est_plan *plan, est_store *store)
{
    for (int32_t k = 0; k < plan->n_items; k++) {
        est_item *item = &plan->items[k];
        if (item->call.node->op->source == EST_SOURCE_VARIABLE) EST_TRY(bind_variable(plan, item, store));
        if (item->call.node->op->source == EST_SOURCE_TABLE) EST_TRY(bind_table(plan, item, store));
        if (item->call.node->op->source == EST_SOURCE_CONST && plan->device->runs == NULL) bind_const(plan, item);
    }
    return EST_OK;
}

/* --- other tasks -------------------------------------------------------------------------------------------------- */

/* Tables that something in a segment looks into. */
static est_status list_far_tables(est_plan *plan)
{
    int max = 0;

    for (int i = 0; i < plan->n_segments; i++) max += est_graph_size(plan->segments[i].graph);
    plan->far_tables = est_arena_alloc(plan->arena, sizeof(const char *) * ((size_t)max + 1));
    if (plan->far_tables == NULL) return est_no_memory();
    for (int i = 0; i < plan->n_segments; i++) {
        const est_graph *graph = plan->segments[i].graph;

        for (int32_t id = 0; id < est_graph_size(graph); id++) {
            const est_node_def *def    = est_graph_node(graph, id);
            const est_node_def *handle = def->n_in > 0 ? est_graph_node(graph, def->in[0].node) : def;
            int                 at     = 0;

            if (def->op->fills_var || handle == def || handle->op->source != EST_SOURCE_TABLE) continue;
            while (at < plan->n_far_tables && strcmp(plan->far_tables[at], est_lookup_table_name(handle)) != 0) at++;
            plan->far_tables[at] = est_lookup_table_name(handle);
            if (at == plan->n_far_tables) plan->n_far_tables++;
        }
    }
    return EST_OK;
}

static est_status partition_graph(est_plan *plan, est_store *store, const est_plan_options *options)
{
    est_remote *remote = options->remote;

    if (!remote->runs_all) {
        EST_TRY(est_pass_lookups(plan->graph, &plan->io, store));
        EST_TRY(est_pass_shard(plan->graph, &plan->io, store));
    }
    EST_TRY(
        est_pass_partition(plan->graph, &plan->io, store, remote, 0, plan->arena, &plan->segments, &plan->n_segments));
    EST_TRY(list_far_tables(plan));
    plan->bindings = est_arena_alloc(plan->arena, sizeof *plan->bindings * ((size_t)plan->n_segments + 1));
    if (plan->bindings == NULL) return est_no_memory();
    for (int i = 0; i < plan->n_segments; i++) {
        plan->bindings[i].ops = remote->ops;
        EST_TRY(remote->ops->enter(remote, &plan->segments[i], &plan->bindings[i].segment));
        if (options->devices == NULL) continue;
        est_local_devices_log(options->devices, plan->segments[i].graph,
                              remote->ops->name(remote, plan->segments[i].task));
    }
    return EST_OK;
}

/* --- other devices ------------------------------------------------------------------------------------------------ */

static est_status cut_devices(est_plan *plan, est_store *store, const est_plan_options *options)
{
    est_remote *devices = est_local_devices_remote(options->devices);

    plan->devices = options->devices;
    EST_TRY(est_local_devices_copies(options->devices, plan->graph, &plan->io, store, plan->arena));
    EST_TRY(est_pass_partition(plan->graph, &plan->io, store, devices, plan->n_segments, plan->arena, &plan->parts,
                               &plan->n_parts));
    plan->part_bindings = est_arena_alloc(plan->arena, sizeof *plan->part_bindings * ((size_t)plan->n_parts + 1));
    if (plan->part_bindings == NULL) return est_no_memory();
    for (int i = 0; i < plan->n_parts; i++) {
        plan->part_bindings[i].ops = devices->ops;
        EST_TRY(est_local_devices_enter(options->devices, &plan->parts[i], store, options,
                                        &plan->part_bindings[i].segment));
    }
    return EST_OK;
}

static void bind_ends(est_plan *plan)
{
    for (int32_t k = 0; k < plan->n_items; k++) {
        est_call *call = &plan->items[k].call;
        int64_t   at;

        call->state = est_exchange_state(plan->exchange, call->node);
        if (call->node->op != &est_op_start && call->node->op != &est_op_finish) continue;
        at          = est_node_int(call->node, "segment");
        call->state = at < plan->n_segments ? &plan->bindings[at] : &plan->part_bindings[at - plan->n_segments];
    }
}

/* The part that the item starts or awaits; NULL: none. Segments of other tasks are sent from memory of the host. */
static est_remote_segment *part_of(const est_plan *plan, const est_item *item)
{
    const est_op *op = item->call.node->op;

    if ((op != &est_op_start && op != &est_op_finish) || est_node_int(item->call.node, "segment") < plan->n_segments) {
        return NULL;
    }
    return ((const est_remote_binding *)item->call.state)->segment;
}

/* Which fed tensors the host itself looks at, and which reach the start of a part as they are. */
static est_status bind_feeds(est_plan *plan)
{
    size_t n = (size_t)plan->io.n_feeds + 1;

    if (plan->n_parts == 0) return EST_OK;
    plan->fed_on   = est_arena_alloc(plan->arena, sizeof *plan->fed_on * n);
    plan->fed_here = est_arena_alloc(plan->arena, n);
    if (plan->fed_on == NULL || plan->fed_here == NULL) return est_no_memory();
    for (int f = 0; f < plan->io.n_feeds; f++) {
        int32_t root = plan->items[plan->item_of[plan->io.feeds[f].id]].first_view;

        for (int32_t k = 0; k < plan->n_items; k++) {
            const est_item     *item = &plan->items[k];
            est_remote_segment *part = part_of(plan, item);

            for (int i = 0; i < item->call.n_in; i++) {
                if (plan->slots[est_view_index(plan, item->call.in[i])].root != root) continue;
                if (part != NULL) {
                    if (item->call.node->op == &est_op_start) est_local_devices_feed(part, i, &plan->fed_on[f]);
                } else if (!(item->call.node->op->alias && !item->copied) && est_item_looks_at(item, i)) {
                    plan->fed_here[f] = true;
                }
            }
        }
        for (int32_t v = 0; v < plan->n_views; v++) {
            if (plan->slots[v].kept && plan->slots[v].root == root) plan->fed_here[f] = true;
        }
    }
    return EST_OK;
}

static void leave(const est_segment *segments, const est_remote_binding *bindings, int n)
{
    for (int i = 0; i < n; i++) {
        if (bindings != NULL && bindings[i].segment != NULL) bindings[i].ops->leave(bindings[i].segment);
        est_graph_free(segments[i].graph);
    }
}

/* --- aliases ------------------------------------------------------------------------------------------------------ */

static est_status copy_input(est_call *c)
{
    const est_view *from = c->in[0]->dtype == EST_RESOURCE ? &est_call_variable(c, 0)->value : c->in[0];

    memcpy(c->out[0].data, from->data, (size_t)c->out[0].count * est_dtype_size(from->dtype));
    return EST_OK;
}

static const est_kernel copy_kernel = { .run = copy_input };

/* The variable whose memory a view is, or NULL. */
static const est_var *variable_of(const est_plan *plan, int32_t view)
{
    const est_item *maker = &plan->items[plan->slots[plan->slots[view].root].maker];

    if (maker->call.node->op->source == EST_SOURCE_VARIABLE) return maker->call.out[0].data;
    return NULL;
}

/* An item that writes a variable. */
typedef struct writing {
    const est_var *var;
    int32_t        item;
} writing;

/* Who writes what, and when each view is looked at last: what decides whether an alias must be a copy. */
typedef struct accesses {
    writing *writings; /* by variable, then by item */
    int32_t  n_writings;
    int32_t *last_use; /* per view: the last item that has it as an input; -1: none */
} accesses;

static int by_variable(const void *a, const void *b)
{
    const writing *x = a, *y = b;

    if (x->var != y->var) return (uintptr_t)x->var < (uintptr_t)y->var ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

static est_status find_accesses(const est_plan *plan, accesses *a)
{
    int32_t n = 0;

    for (int32_t k = 0; k < plan->n_items; k++)
        n += plan->items[k].call.node->op->writes != 0 ? plan->items[k].call.n_in : 0;
    a->writings = est_alloc(sizeof *a->writings * ((size_t)n + 1));
    a->last_use = est_alloc(sizeof *a->last_use * ((size_t)plan->n_views + 1));
    if (a->writings == NULL || a->last_use == NULL) return est_no_memory();
    for (int32_t v = 0; v < plan->n_views; v++) a->last_use[v] = -1;
    for (int32_t k = 0; k < plan->n_items; k++) {
        const est_call *call = &plan->items[k].call;

        for (int i = 0; i < call->n_in; i++) {
            a->last_use[est_view_index(plan, call->in[i])] = k;
            if (i < 32 && (call->node->op->writes & 1u << i) != 0) {
                a->writings[a->n_writings++] = (writing){ call->in[i]->data, k };
            }
        }
    }
    qsort(a->writings, (size_t)a->n_writings, sizeof *a->writings, by_variable);
    return EST_OK;
}

/* The first item after `item` that writes the variable; n_items: none. */
static int32_t next_writing(const est_plan *plan, const accesses *a, const est_var *var, int32_t item)
{
    writing after = { var, item + 1 };
    int32_t low = 0, high = a->n_writings;

    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (by_variable(&a->writings[middle], &after) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < a->n_writings && a->writings[low].var == var ? a->writings[low].item : plan->n_items;
}

/* Whether something looks at the view after the variable has been written, or while it is: an update may read its
 * operands in any order. */
static bool read_after_write(const est_plan *plan, const accesses *a, int32_t view, const est_var *var)
{
    int32_t written = next_writing(plan, a, var, plan->slots[view].maker);

    return written < plan->n_items && (plan->slots[view].kept || a->last_use[view] >= written);
}

static bool is_fed(const est_plan *plan, int32_t view)
{
    return plan->items[plan->slots[plan->slots[view].root].maker].call.node->op->source == EST_SOURCE_FEED;
}

/* Alias ops share the root of their first input, unless the value must survive a write (P2) or the feed (P4). */
static void link_aliases(est_plan *plan, const accesses *a)
{
    for (int32_t k = 0; k < plan->n_items; k++) {
        est_item *item = &plan->items[k];
        int32_t   out  = item->first_view;
        if (!item->call.node->op->alias) continue;
        plan->slots[out].root = plan->slots[est_view_index(plan, item->call.in[0])].root;
    }
    for (int32_t k = 0; k < plan->n_items; k++) {
        est_item      *item = &plan->items[k];
        int32_t        out  = item->first_view;
        const est_var *var;
        if (!item->call.node->op->alias || item->copied) continue;
        var          = variable_of(plan, out);
        item->copied = (var != NULL && read_after_write(plan, a, out, var)) ||
                       (plan->slots[out].kept && is_fed(plan, out));
    }
    for (int32_t k = 0; k < plan->n_items; k++) { /* again, with the copies known */
        est_item *item = &plan->items[k];
        int32_t   out  = item->first_view;
        if (!item->call.node->op->alias) continue;
        plan->slots[out].root = item->copied ? out : plan->slots[est_view_index(plan, item->call.in[0])].root;
    }
}

static bool is_lent(const est_plan *plan, int32_t view)
{
    return plan->items[plan->slots[plan->slots[view].root].maker].call.node->op->lends;
}

static void list_followers(est_plan *plan)
{
    for (int32_t v = 0; v < plan->n_views; v++) {
        if (plan->slots[v].root == v || !(is_fed(plan, v) || is_lent(plan, v))) continue;
        plan->followers[plan->n_followers++] = v;
    }
}

/* --- what must run ------------------------------------------------------------------------------------------------ */

static void need_inputs(est_plan *plan, const est_item *item)
{
    for (int i = 0; i < item->call.n_in; i++) {
        if (!est_op_shape_only(item->call.node->op, i))
            plan->slots[est_view_index(plan, item->call.in[i])].needed = true;
    }
}

static bool value_is_known(const est_plan *plan, est_edge edge)
{
    const est_value *value = &est_graph_node(plan->graph, edge.node)->value[edge.output];

    for (int32_t i = 0; i < value->n; i++) {
        if (value->v[i] == EST_VALUE_UNKNOWN) return false;
    }
    return value->n >= 0;
}

/* An item of which only the shape is asked for may still have to read integers to know it. */
static void need_integers(est_plan *plan, const est_item *item)
{
    for (int i = 0; i < item->call.n_in; i++) {
        est_dtype dtype = item->call.in[i]->dtype;
        if ((dtype == EST_I32 || dtype == EST_I64) && !value_is_known(plan, item->call.node->in[i])) {
            plan->slots[est_view_index(plan, item->call.in[i])].needed = true;
        }
    }
}

/* Whether only running it tells how large its outputs are. */
static bool sizes_itself(const est_plan *plan, const est_op *op)
{
    if (op->shrinks) return true;
    for (const est_kernel *kernel = est_op_kernels(op, plan->device); est_kernel_exists(kernel); kernel++) {
        if (kernel->measure != NULL) return true;
    }
    return false;
}

static void mark_needed(est_plan *plan)
{
    for (int i = 0; i < plan->io.n_fetches; i++) {
        int32_t view             = est_view_index(plan,
                                                  view_of(plan, (est_edge){ plan->io.fetches[i].id, plan->io.fetches[i].output }));
        plan->slots[view].needed = plan->slots[view].kept = true;
    }
    for (int i = 0; i < plan->io.n_targets; i++) plan->items[plan->item_of[plan->io.targets[i].id]].runs = true;
    for (int32_t k = plan->n_items - 1; k >= 0; k--) {
        est_item           *item = &plan->items[k];
        const est_node_def *def  = item->call.node;
        item->runs               = item->runs || def->op->writes != 0 || sizes_itself(plan, def->op);
        for (int o = 0; o < item->call.n_out; o++) item->runs = item->runs || plan->slots[item->first_view + o].needed;
        for (int32_t c = 0; c < def->n_control; c++) plan->items[plan->item_of[def->control[c]]].runs = true;
        if (item->runs) {
            need_inputs(plan, item);
        } else {
            need_integers(plan, item);
        }
    }
}

/* Tells operations that ask for it whether the step trains their variable: whether something else writes it. */
static void mark_trains(est_plan *plan, const accesses *a)
{
    for (int32_t k = 0; k < plan->n_items; k++) {
        est_call *call = &plan->items[k].call;
        int32_t   writer;

        if (!call->node->op->if_trains) continue;
        writer = next_writing(plan, a, call->in[0]->data, -1);
        while (writer < plan->n_items && !call->trains) {
            call->trains = !plan->items[writer].call.node->op->if_trains;
            writer       = next_writing(plan, a, call->in[0]->data, writer);
        }
    }
}

/* What depends on who touches which variable when. */
static est_status follow_accesses(est_plan *plan)
{
    accesses   a      = { 0 };
    est_status status = find_accesses(plan, &a);

    if (status == EST_OK) {
        link_aliases(plan, &a);
        list_followers(plan);
        mark_trains(plan, &a);
    }
    est_free(a.writings);
    est_free(a.last_use);
    return status;
}

/* Row tables that the step changes. One that several operations change is committed, or rolled back, more than once,
 * which does nothing. */
static est_status list_row_tables(est_plan *plan)
{
    plan->row_tables = est_arena_alloc(plan->arena, sizeof *plan->row_tables * ((size_t)plan->n_items + 1));
    if (plan->row_tables == NULL) return est_no_memory();
    for (int32_t k = 0; k < plan->n_items; k++) {
        const est_call *call = &plan->items[k].call;
        const est_op   *op   = call->node->op;
        const est_var  *var  = op->tentative ? call->in[0]->data : NULL;

        if (var == NULL || var->rows == NULL || (op->if_trains && !call->trains)) continue;
        plan->row_tables[plan->n_row_tables++] = est_row_table_of(var);
    }
    return EST_OK;
}

/* Variables that must have a value before the step: those that something reads before anything fills them. */
static est_status list_variables(est_plan *plan)
{
    bool *filled = est_arena_alloc(plan->arena, (size_t)plan->n_items + 1); /* per handle's item, as the next */
    bool *listed = est_arena_alloc(plan->arena, (size_t)plan->n_items + 1);
    bool *whole  = est_arena_alloc(plan->arena, (size_t)plan->n_items + 1);

    if (filled == NULL || listed == NULL || whole == NULL) return est_no_memory();
    for (int32_t k = 0; k < plan->n_items; k++) {
        const est_item *user = &plan->items[k];
        const est_op   *op   = user->call.node->op;
        for (int i = 0; i < user->call.n_in; i++) {
            int32_t handle = plan->slots[est_view_index(plan, user->call.in[i])].maker;
            if (plan->items[handle].call.node->op->source != EST_SOURCE_VARIABLE) continue;
            if (op->fills_var) {
                if (op->writes != 0) filled[handle] = true; /* the other one only asks whether there is a value */
            } else if (user->runs && !filled[handle]) {
                est_var *var = user->call.in[i]->data;
                if (!listed[handle]) plan->vars[plan->n_vars++] = var;
                if (!whole[handle] && !op->by_rows) plan->whole[plan->n_whole++] = var;
                listed[handle] = true;
                whole[handle]  = whole[handle] || !op->by_rows;
            }
        }
    }
    return EST_OK;
}

/* Variables that an op changes as a whole. */
static est_status list_changed(est_plan *plan)
{
    bool *listed = est_arena_alloc(plan->arena, (size_t)plan->n_items + 1); /* per handle's item */

    if (listed == NULL) return est_no_memory();
    for (int32_t k = 0; k < plan->n_items; k++) {
        const est_item *user = &plan->items[k];
        const est_op   *op   = user->call.node->op;

        for (int i = 0; i < user->call.n_in && i < 32 && user->runs && !op->by_rows; i++) {
            int32_t handle = plan->slots[est_view_index(plan, user->call.in[i])].maker;

            if ((op->writes & 1u << i) == 0 || listed[handle]) continue;
            if (plan->items[handle].call.node->op->source != EST_SOURCE_VARIABLE) continue;
            plan->changed[plan->n_changed++] = user->call.in[i]->data;
            listed[handle]                   = true;
        }
    }
    return EST_OK;
}

/* Tables that something looks into. */
static void list_tables(est_plan *plan)
{
    for (int32_t k = 0; k < plan->n_items; k++) {
        const est_item *user = &plan->items[k];

        for (int i = 0; i < user->call.n_in && user->runs && !user->call.node->op->fills_var; i++) {
            int32_t           maker = plan->slots[est_view_index(plan, user->call.in[i])].maker;
            est_lookup_table *table = user->call.in[i]->data;
            int               at    = 0;

            if (plan->items[maker].call.node->op->source != EST_SOURCE_TABLE) continue;
            while (at < plan->n_tables && plan->tables[at] != table) at++;
            plan->tables[at] = table;
            if (at == plan->n_tables) plan->n_tables++;
        }
    }
}

est_status est_plan_choose_kernels(est_plan *plan)
{
    for (int32_t k = 0; k < plan->n_items; k++) {
        est_item         *item = &plan->items[k];
        const est_kernel *list = est_op_kernels(item->call.node->op, plan->device);

        if (item->copied) {
            item->kernel = &copy_kernel;
        } else if (item->runs && list != NULL && !item->call.node->op->alias) {
            while (est_kernel_exists(list) && list->accepts != NULL && !list->accepts(&item->call)) list++;
            if (!est_kernel_exists(list)) {
                return est_item_failed(item, est_fail(EST_UNIMPLEMENTED, "no kernel takes these types and shapes"));
            }
            item->kernel = list;
        }
    }
    return EST_OK;
}

/* --- create and free ---------------------------------------------------------------------------------------------- */

static est_status copy_io(est_arena *arena, const est_io *from, est_io *to)
{
    *to         = *from;
    to->feeds   = est_arena_alloc(arena, sizeof(est_node) * (size_t)(from->n_feeds + 1));
    to->fetches = est_arena_alloc(arena, sizeof(est_node) * (size_t)(from->n_fetches + 1));
    to->targets = est_arena_alloc(arena, sizeof(est_node) * (size_t)(from->n_targets + 1));
    if (to->feeds == NULL || to->fetches == NULL || to->targets == NULL) return est_no_memory();
    if (from->n_feeds > 0) memcpy(to->feeds, from->feeds, sizeof(est_node) * (size_t)from->n_feeds);
    if (from->n_fetches > 0) memcpy(to->fetches, from->fetches, sizeof(est_node) * (size_t)from->n_fetches);
    if (from->n_targets > 0) memcpy(to->targets, from->targets, sizeof(est_node) * (size_t)from->n_targets);
    return EST_OK;
}

static est_status build(est_plan *plan, const est_graph *graph, const est_io *io, est_store *store,
                        const est_plan_options *options)
{
    int32_t view = 0;

    EST_TRY(copy_io(plan->arena, io, &plan->io));
    if (options->communicator != NULL) EST_TRY(est_reduce_add_targets(graph, &plan->io, plan->arena));
    EST_TRY(est_pass_extract(graph, &plan->io, &plan->graph));
    if (options->passes) {
        EST_TRY(est_pass_merge(plan->graph, &plan->io, options->remote != NULL && options->remote->sync_replicas));
        EST_TRY(est_pass_fold(plan->graph, &plan->io, store, options));
    }
    EST_TRY(est_pass_reduce(plan->graph, graph, &plan->io, options->communicator, plan->arena, &plan->exchange));
    if (options->remote != NULL) EST_TRY(partition_graph(plan, store, options));
    if (options->devices != NULL) EST_TRY(cut_devices(plan, store, options));
    if (options->passes) EST_TRY(est_pass_fuse(plan->graph, &plan->io, plan->device));
    EST_TRY((plan->device->runs != NULL ? est_order_make_alike : est_order_make)(plan->graph, &plan->io, plan->arena,
                                                                                 &plan->order));
    plan->n_items = plan->order.n;
    EST_TRY(make_arrays(plan));
    for (int32_t k = 0; k < plan->n_items; k++) {
        EST_TRY(make_item(plan, k, view));
        view += plan->items[k].call.n_out;
    }
    EST_TRY(bind_sources(plan, store));
    bind_ends(plan);
    mark_needed(plan);
    EST_TRY(follow_accesses(plan));
    list_tables(plan);
    EST_TRY(list_row_tables(plan));
    EST_TRY(list_changed(plan));
    EST_TRY(list_variables(plan));
    EST_TRY(bind_feeds(plan));
    EST_TRY(est_plan_find_ahead(plan));
    return plan->device->runs != NULL ? est_recorder_create(plan, options) : EST_OK;
}

est_status est_plan_create(const est_graph *graph, const est_io *io, est_store *store, const est_plan_options *options,
                           est_plan **out)
{
    est_plan  *plan = est_zalloc(sizeof *plan);
    est_status status;

    if (plan == NULL) return est_no_memory();
    plan->arena          = est_arena_create();
    plan->device         = options->device;
    plan->pool           = options->pool;
    plan->check_numerics = options->check_numerics;
    plan->remote         = options->remote;
    status               = plan->arena != NULL ? build(plan, graph, io, store, options) : est_no_memory();
    if (status != EST_OK) {
        est_plan_free(plan);
        return status;
    }
    *out = plan;
    return EST_OK;
}

void est_plan_free(est_plan *plan)
{
    if (plan == NULL) return;
    est_recorder_free(plan);
    for (int i = 0; i < plan->io.n_feeds && plan->fed_copies != NULL; i++) est_tensor_free(plan->fed_copies[i]);
    for (int32_t k = 0; k < plan->n_items && plan->items != NULL; k++) {
        est_item *item = &plan->items[k];
        if (item->kernel != NULL && item->kernel->release != NULL && item->call.state != NULL) {
            item->kernel->release(&item->call);
        }
    }
    leave(plan->segments, plan->bindings, plan->n_segments);
    leave(plan->parts, plan->part_bindings, plan->n_parts);
    est_exchange_free(plan->exchange);
    est_plan_free_buffers(plan);
    est_trace_free(plan->trace);
    est_order_clear(&plan->order);
    est_graph_free(plan->graph);
    est_arena_free(plan->arena);
    est_free(plan);
}

const est_view *est_plan_fetch(const est_plan *plan, int i)
{
    if (i < 0 || i >= plan->io.n_fetches) return NULL;
    return view_of(plan, (est_edge){ plan->io.fetches[i].id, plan->io.fetches[i].output });
}
