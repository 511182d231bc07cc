/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables with a copy on each device (D4 in runtime/local_devices.h): before a step is cut for devices, its private
 * graph gets the handles of the copies, and
 *
 *   a node of a device that takes the handle, or a read of it  ->  takes the copy there
 *   a write of the variable                                    ->  one write more for each copy, of the same values
 *   what is pinned to any device and made of its inputs alone  ->  made again on each device that needs it
 *
 * So copies get equal updates, and what an update computes from the variable, such as the decay of a weight, is
 * computed beside each copy, not sent. Who waits for a write waits for those of the copies, too.
 *
 * Where the writes get their values from is not this file's: gradients of several devices meet in an operation of the
 * host (nn/replicas_reduce.c), from which they come to every device that has a copy. */
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "device/devices.h"
#include "graph/device_name.h"
#include "graph/variable.h"
#include "ops/ops.h"
#include "runtime/local_devices.h"
#include "runtime/partition.h"

typedef struct copying {
    est_graph               *graph;
    est_io                  *io;
    const est_store         *store;
    const est_device_choice *choice;
    est_arena               *arena;
    int32_t                  n;    /* nodes before the pass */
    int32_t                 *made; /* [choice->n][n]: what stands for a node on a device; 0: nothing does */
} copying;

static const est_var *copied_variable(const copying *c, int32_t id)
{
    const est_node_def *def = est_graph_node(c->graph, id);
    const est_var      *var = def->op->source == EST_SOURCE_VARIABLE
                                  ? est_store_find(c->store, est_node_string(def, "shared_name"))
                                  : NULL;

    return var != NULL && var->n_copies > 0 ? var : NULL;
}

/* What is on the device: the variable, or its copy. */
static const est_var *copy_on(const est_var *var, const est_device *device)
{
    for (int i = 0; i < var->n_copies; i++) {
        if (var->copies[i]->device == device) return var->copies[i];
    }
    return var;
}

/* The variable with copies that the node writes; NULL: there is none. */
static const est_var *written_by(const copying *c, const est_node_def *def)
{
    for (int32_t i = 0; i < def->n_in && i < 32 && def->op->writes != 0; i++) {
        const est_var *var = (def->op->writes & 1u << i) != 0 ? copied_variable(c, def->in[i].node) : NULL;

        if (var != NULL) return var;
    }
    return NULL;
}

/* Whether a device makes the result by itself. */
static bool is_made_again(const copying *c, int32_t id)
{
    const est_node_def *def = est_graph_node(c->graph, id);
    bool                reads;

    if (def->op->source != EST_SOURCE_NONE) return copied_variable(c, id) != NULL;
    reads = def->op->alias && def->n_in > 0 && copied_variable(c, def->in[0].node) != NULL;
    if (def->op->writes != 0 || def->op->random || !(reads || est_device_is_any(def))) return false;
    return !def->op->stateful || def->op->alias || def->op->by_rows;
}

/* --- on another device -------------------------------------------------------------------------------------------- */

static int32_t *made_on(const copying *c, int32_t device, int32_t id)
{
    return &c->made[(size_t)device * (size_t)c->n + (size_t)id];
}

static est_status make_on(copying *c, int32_t device, int32_t id);

/* Turns an edge to what stands for its node on the device. */
static est_status turn_edge(copying *c, int32_t device, est_edge *edge)
{
    if (edge->node >= c->n || !is_made_again(c, edge->node)) return EST_OK;
    EST_TRY(make_on(c, device, edge->node));
    edge->node = *made_on(c, device, edge->node);
    return EST_OK;
}

static est_node copy_handle(const copying *c, const est_var *var, int32_t device)
{
    const est_var *copy = copy_on(var, c->choice->devices[device]);

    return est_build0(c->graph, &est_op_var_handle,
                      EST_ATTRS(est_attr_string("shared_name", copy->name), est_attr_type("dtype", copy->value.dtype),
                                est_attr_shape("shape", copy->value.shape)));
}

/* The same operation on what its inputs are there, after the same, or after what stands for that there. */
static est_status build_again(copying *c, int32_t device, const est_node_def *def, est_node *out)
{
    est_node *in = est_arena_alloc(c->arena, sizeof *in * ((size_t)def->n_in + 1));

    if (in == NULL) return est_no_memory();
    for (int32_t i = 0; i < def->n_in; i++) {
        est_edge edge = def->in[i];

        EST_TRY(turn_edge(c, device, &edge));
        in[i] = (est_node){ c->graph, edge.node, edge.output };
    }
    for (int32_t i = 0; i < def->n_control; i++) {
        if (written_by(c, est_graph_node(c->graph, def->control[i])) != NULL) {
            EST_TRY(make_on(c, device, def->control[i]));
        }
    }
    *out = est_build(c->graph, def->op, (est_nodes){ in, def->n_in }, (est_attrs){ def->attr, def->n_attr });
    for (int32_t i = 0; i < def->n_control; i++) {
        int32_t made = *made_on(c, device, def->control[i]);

        *out = est_after(*out, (est_node){ c->graph, made > 0 ? made : def->control[i], 0 });
    }
    return EST_OK;
}

/* Fills made_on(c, device, id). As deep as what an update computes of its gradient. */
static est_status make_on(copying *c, int32_t device, int32_t id)
{
    const est_node_def *def   = est_graph_node(c->graph, id);
    const est_var      *var   = copied_variable(c, id);
    est_arena          *arena = est_graph_arena(c->graph);
    char                name[EST_DEVICE_NAME_MAX];
    est_node            node = EST_NO_NODE;
    est_node_def       *made;

    if (*made_on(c, device, id) > 0) return EST_OK;
    if (var != NULL) {
        node = copy_handle(c, var, device);
    } else {
        EST_TRY(build_again(c, device, def, &node));
    }
    EST_TRY(est_graph_status(c->graph));
    made         = est_graph_node(c->graph, node.id);
    made->order  = def->order;
    made->file   = def->file;
    made->line   = def->line;
    made->device = est_arena_strdup(arena, est_device_name(c->choice->devices[device], name, sizeof name));
    made->name   = est_arena_printf(arena, EST_COPY_NAME, def->name, (int)device);
    if (made->device == NULL || made->name == NULL) return est_no_memory();
    *made_on(c, device, id) = node.id;
    return EST_OK;
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

/* Of variables with and without copies those without would be updated once for each copy. Those of a graph are made
 * alike (runtime/device_place.c), but not with others that were in the store before. */
static est_status check_alike(const copying *c, const est_node_def *def, const est_var *var)
{
    for (int32_t i = 0; i < def->n_in && i < 32; i++) {
        const est_node_def *handle = est_graph_node(c->graph, def->in[i].node);

        if ((def->op->writes & 1u << i) == 0 || copied_variable(c, handle->id) != NULL) continue;
        return est_fail(EST_UNIMPLEMENTED,
                        "'%s' (%s) updates variable '%s', which is on one device, together with '%s', which was made "
                        "on several; pin both alike",
                        def->name, def->op->name, est_node_string(handle, "shared_name"), var->name);
    }
    return EST_OK;
}

static est_status write_copies(copying *c, int32_t id, const est_var *var)
{
    EST_TRY(check_alike(c, est_graph_node(c->graph, id), var));
    for (int i = 0; i < var->n_copies; i++) {
        EST_TRY(make_on(c, est_device_number(c->choice, var->copies[i]->device), id));
    }
    return EST_OK;
}

/* The device that a node is pinned to; EST_HERE: none, any, or the first of its kind, which has no copies. */
static int32_t device_of(const copying *c, const est_node_def *def)
{
    est_device_task named = est_device_name_task(def->device);
    bool            first = true;

    for (int32_t i = 0; i < c->choice->n && named.kind[0] != '\0' && named.number >= 0; i++) {
        if (strcasecmp(c->choice->devices[i]->kind, named.kind) != 0) continue;
        if (c->choice->devices[i]->number == named.number) return first ? EST_HERE : i;
        first = false;
    }
    return EST_HERE;
}

static est_status take_copies(copying *c, int32_t id)
{
    est_node_def *def    = est_graph_node(c->graph, id);
    int32_t       device = def->n_in > 0 ? device_of(c, def) : EST_HERE;

    for (int32_t i = 0; i < def->n_in && device != EST_HERE; i++) EST_TRY(turn_edge(c, device, &def->in[i]));
    return EST_OK;
}

/* The writes of copies that were made for a write; out NULL: only their number. */
static int32_t list_writes(const copying *c, int32_t id, int32_t *out)
{
    int32_t n = 0;

    for (int32_t device = 0; device < c->choice->n && id < c->n; device++) {
        int32_t made = *made_on(c, device, id);

        if (made == 0 || est_graph_node(c->graph, made)->op->writes == 0) continue;
        if (out != NULL) out[n] = made;
        n++;
    }
    return n;
}

/* A write waits for writes beside it only, so that no device waits for another. */
static est_status wait_for_copies(const copying *c, int32_t id)
{
    est_node_def *def = est_graph_node(c->graph, id);
    int32_t       n   = 0, *all;

    if (written_by(c, def) != NULL) return EST_OK;
    for (int32_t i = 0; i < def->n_control; i++) n += list_writes(c, def->control[i], NULL);
    if (n == 0) return EST_OK;
    all = est_arena_alloc(est_graph_arena(c->graph), sizeof *all * (size_t)(def->n_control + n));
    if (all == NULL) return est_no_memory();
    memcpy(all, def->control, sizeof *all * (size_t)def->n_control);
    n = def->n_control;
    for (int32_t i = 0; i < def->n_control; i++) n += list_writes(c, def->control[i], all + n);
    def->control   = all;
    def->n_control = n;
    return EST_OK;
}

static est_status target_copies(copying *c)
{
    int       n    = c->io->n_targets;
    int32_t  *made = est_arena_alloc(c->arena, sizeof *made * (size_t)c->choice->n);
    est_node *all  = est_arena_alloc(c->arena, sizeof *all * ((size_t)n * (size_t)(c->choice->n + 1) + 1));

    if (all == NULL || made == NULL) return est_no_memory();
    if (n > 0) memcpy(all, c->io->targets, sizeof *all * (size_t)n);
    c->io->targets = all;
    for (int i = 0; i < n; i++) {
        int32_t writes = list_writes(c, all[i].id, made);

        for (int32_t k = 0; k < writes; k++) all[c->io->n_targets++] = (est_node){ c->graph, made[k], 0 };
    }
    return EST_OK;
}

static est_status make_copies(copying *c)
{
    for (int32_t id = 0; id < c->n; id++) {
        const est_var *var = written_by(c, est_graph_node(c->graph, id));

        if (var != NULL) {
            EST_TRY(write_copies(c, id, var));
        } else {
            EST_TRY(take_copies(c, id));
        }
    }
    for (int32_t id = 0; id < c->n; id++) EST_TRY(wait_for_copies(c, id));
    return target_copies(c);
}

est_status est_pass_copies(est_graph *graph, est_io *io, const est_store *store, const est_device_choice *choice,
                           est_arena *arena)
{
    copying    c    = { .graph = graph, .io = io, .store = store, .choice = choice, .arena = arena };
    bool       some = false;
    est_status status;

    c.n = est_graph_size(graph);
    for (int32_t id = 0; id < c.n && !some; id++) some = copied_variable(&c, id) != NULL;
    if (!some) return EST_OK;
    c.made = est_zalloc(sizeof *c.made * (size_t)choice->n * (size_t)c.n);
    if (c.made == NULL) return est_no_memory();
    status = make_copies(&c);
    est_free(c.made);
    return status;
}
