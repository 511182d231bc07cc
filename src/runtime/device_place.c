/* SPDX-License-Identifier: Apache-2.0
 *
 * Which variables and operations are on which device of this process: D1 to D3 of runtime/local_devices.h. */
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/map.h"
#include "device/devices.h"
#include "graph/device_name.h"
#include "runtime/local_devices.h"
#include "runtime/partition.h"
#include "tensor/shape.h"

#define NO_SUCH (-2) /* beside EST_HERE: pinned to a device that the session does not have */

static bool is_one_of(const est_device *device, const est_device_task *named)
{
    return strcasecmp(named->kind, device->kind) == 0 && (named->number < 0 || named->number == device->number);
}

/* The device that a string names: EST_HERE, NO_SUCH, or its number in the choice; without a string the first, and the
 * first of its kind if any will do. */
static int32_t named_device(const est_device_choice *c, const char *text)
{
    est_device_task device = est_device_name_task(text);

    if (device.kind[0] == '\0') return c->n > 0 ? 0 : EST_HERE;
    if (strcasecmp(device.kind, "CPU") == 0) return EST_HERE;
    for (int i = 0; i < c->n; i++) {
        if (is_one_of(c->devices[i], &device)) return i;
    }
    return NO_SUCH;
}

bool est_device_is_any(const est_node_def *def)
{
    est_device_task device = est_device_name_task(def->device);

    return device.kind[0] != '\0' && strcasecmp(device.kind, "CPU") != 0 && device.number < 0;
}

static bool is_pinned(const est_node_def *def)
{
    return est_device_name_task(def->device).kind[0] != '\0';
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

/* Whether a kernel takes the types, and the shapes as far as they are known. */
static bool takes(const est_graph *graph, const est_node_def *def, const est_kernel *kernel)
{
    size_t     n    = (size_t)def->n_in + (size_t)def->n_out + 1;
    est_view  *view = est_zalloc(sizeof *view * n);
    est_view **in   = est_alloc(sizeof(est_view *) * n);
    est_call   call = { .node = def, .n_in = def->n_in, .n_out = def->n_out, .in = in };
    bool       ok   = view != NULL && in != NULL;

    for (int32_t i = 0; i < def->n_in + def->n_out && ok; i++) {
        const est_node_def *maker  = i < def->n_in ? est_graph_node(graph, def->in[i].node) : def;
        int32_t             output = i < def->n_in ? def->in[i].output : i - def->n_in;

        in[i]   = &view[i];
        view[i] = (est_view){ NULL, maker->dtype[output], maker->shape[output],
                              est_shape_count(&maker->shape[output]) };
    }
    call.out = view != NULL ? view + def->n_in : NULL;
    ok       = ok && kernel->accepts(&call);
    est_free(view);
    est_free(in);
    return ok;
}

static bool has_kernel(const est_graph *graph, const est_node_def *def, const est_device *device)
{
    for (const est_kernel *k = est_op_kernels(def->op, device); est_kernel_exists(k); k++) {
        if (k->measure != NULL) return false; /* D3 */
        if (k->accepts == NULL || takes(graph, def, k)) return true;
    }
    return def->op->alias;
}

/* Whether the operation uses the variable that is input i, and not only its shape or whether it has a value. */
static bool touches(const est_graph *graph, const est_node_def *def, int32_t i)
{
    const est_node_def *handle = est_graph_node(graph, def->in[i].node);

    return handle->op->source == EST_SOURCE_VARIABLE && !est_op_shape_only(def->op, i) &&
           !(def->op->fills_var && def->op->writes == 0);
}

/* Calls `keeps` with every use of the outputs of an operation; false: one of them says no. */
static bool for_users(const est_graph *graph, const est_node_def                              *def,
                      bool (*keeps)(void *arg, const est_node_def *user, int32_t input), void *arg)
{
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *user = est_graph_node(graph, id);

        for (int32_t i = 0; i < user->n_in; i++) {
            if (user->in[i].node == def->id && !keeps(arg, user, i)) return false;
        }
    }
    return true;
}

/* Updates of rows leave padding out on a GPU (cuda/apply.cuh). */
static bool takes_padding(void *arg, const est_node_def *user, int32_t input)
{
    const est_update_inputs *update = user->op->update;

    (void)arg;
    return update != NULL && update->indices != 0 && (input == update->gradient || input == update->indices);
}

/* Whether the operation's results, which shrink, can be padded on the device: D3. */
static bool can_pad(const est_graph *graph, const est_node_def *def, const est_device *device)
{
    const est_kernel *kernel = est_op_kernels(def->op, device);

    return def->op->shrinks && kernel != NULL && kernel->launch != 0 && for_users(graph, def, takes_padding, NULL);
}

static bool is_integer(est_dtype dtype)
{
    return dtype == EST_I32 || dtype == EST_I64;
}

/* Shape and Size, which look at no element. */
static bool is_of_shape(const est_node_def *def)
{
    return def->n_in == 1 && est_op_shape_only(def->op, 0);
}

typedef struct integer_users {
    const est_graph  *graph;
    const est_device *device;
    bool              follow; /* the integers follow from shapes, which a plan on the device knows: Shape, Size */
    int               n;
} integer_users;

static bool is_no_shape(const est_graph *graph, const est_node_def *def, const est_device *device);

/* Whether it makes floats and truth values of the integers, element by element, or hands them on to what does. */
static bool takes_no_shape(void *arg, const est_node_def *user, int32_t input)
{
    integer_users *users = arg;

    users->n++;
    if (user->op->alias) return input == 0 && is_no_shape(users->graph, user, users->device);
    for (int32_t o = 0; o < user->n_out; o++) {
        if (is_integer(user->dtype[o])) return false;
    }
    return user->op->elementwise || (users->follow && has_kernel(users->graph, user, users->device));
}

/* Whether the integers that the operation makes have users, and none of these needs them as a shape before a run. */
static bool is_no_shape(const est_graph *graph, const est_node_def *def, const est_device *device)
{
    integer_users users = { graph, device, is_of_shape(def), 0 };

    return for_users(graph, def, takes_no_shape, &users) && users.n > 0;
}

static bool can_run(const est_graph *graph, const est_node_def *def, const est_device *device)
{
    const est_op *op     = def->op;
    bool          padded = can_pad(graph, def, device);

    if (op->source != EST_SOURCE_NONE || (op->shrinks && !padded) || op->lends || op->tentative || op->if_trains ||
        op->takes_table || (op->stateful && !op->random && !op->alias && op->writes == 0 && !op->by_rows) ||
        def->n_in + def->n_out == 0) {
        return false;
    }
    for (int32_t o = 0; o < def->n_out; o++) {
        if (def->dtype[o] == EST_STRING || def->dtype[o] == EST_RESOURCE) return false;
        if (is_integer(def->dtype[o]) && !padded && !is_no_shape(graph, def, device)) return false; /* D3 */
    }
    for (int32_t i = 0; i < def->n_in; i++) {
        const est_node_def *maker = est_graph_node(graph, def->in[i].node);

        if (maker->dtype[def->in[i].output] == EST_STRING) return false;
        if (maker->dtype[def->in[i].output] == EST_RESOURCE && !touches(graph, def, i)) return false;
    }
    return has_kernel(graph, def, device);
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

/* What is found out about variables; `at` is by the id of the first handle of each. */
typedef struct variables {
    const est_device_choice *choice;
    const est_graph         *graph;
    const est_store         *store;
    int32_t                 *first;  /* per handle: the first of the same variable */
    int32_t                 *at;     /* per first handle: a device, or EST_HERE */
    bool                    *single; /* per first handle: it has no copies */
    bool                     may_move;
} variables;

int32_t est_device_number(const est_device_choice *c, const est_device *device)
{
    for (int32_t i = 0; i < c->n; i++) {
        if (c->devices[i] == device) return i;
    }
    return EST_HERE;
}

/* Where the variable would be if the device had all kernels for it, or where it is. */
static int32_t wanted(const variables *v, const est_node_def *handle)
{
    const est_var *var = est_store_find(v->store, est_node_string(handle, "shared_name"));
    int32_t        at  = named_device(v->choice, handle->device);

    if (var != NULL) return var->elsewhere ? EST_HERE : est_device_number(v->choice, var->device);
    if (handle->op->has_rows || at == NO_SUCH) return EST_HERE;
    switch (est_node_type(handle, "dtype")) {
    case EST_F32:
    case EST_F64: return at;
    default: return EST_HERE;
    }
}

static est_status find_first_handles(variables *v)
{
    est_map    names  = { 0 };
    est_status status = EST_OK;

    for (int32_t id = 0; id < est_graph_size(v->graph) && status == EST_OK; id++) {
        const est_node_def *def = est_graph_node(v->graph, id);
        const int32_t      *known;

        v->first[id] = id;
        v->at[id]    = EST_HERE;
        if (def->op->source != EST_SOURCE_VARIABLE) continue;
        known = est_map_get(&names, est_node_string(def, "shared_name"));
        if (known != NULL) {
            v->first[id] = *known;
        } else {
            v->at[id] = wanted(v, def);
            status    = est_map_put(&names, est_node_string(def, "shared_name"), &v->first[id]);
        }
    }
    est_map_clear(&names);
    return status;
}

/* Marks all variables that the operation writes, but for their first values, as single; false: they were, or are in
 * the store, which has made them so or not. */
static bool make_single(const variables *v, const est_node_def *def)
{
    bool changed = false;

    for (int32_t i = 0; i < def->n_in && i < 32; i++) {
        const est_node_def *handle = est_graph_node(v->graph, def->in[i].node);
        bool               *single = &v->single[v->first[handle->id]];

        if ((def->op->writes & 1u << i) == 0 || est_graph_initializer(v->graph, handle->id).id == def->id || *single ||
            est_store_find(v->store, est_node_string(handle, "shared_name")) != NULL) {
            continue;
        }
        *single = changed = true;
    }
    return changed;
}

/* Whether the operation writes a variable that has no copies. */
static bool writes_single(const variables *v, const est_node_def *def)
{
    for (int32_t i = 0; i < def->n_in && i < 32; i++) {
        if ((def->op->writes & 1u << i) != 0 && v->single[v->first[def->in[i].node]]) return true;
    }
    return false;
}

/* A variable that is pinned to any device of a kind has a copy on each, unless it is local (each replica would add to
 * the state of a metric by itself), or something that is pinned to one of them writes it, but for its first value, or
 * something writes it together with one that has none: an update is run for all copies of what it writes. */
static void find_single(const variables *v)
{
    est_nodes local = est_graph_collection(v->graph, "local_variables");
    bool      again = true;

    for (int i = 0; i < local.n; i++) v->single[v->first[local.data[i].id]] = true;
    for (int32_t id = 0; id < est_graph_size(v->graph); id++) {
        const est_node_def *def = est_graph_node(v->graph, id);
        const est_var      *var;

        if (def->op->source != EST_SOURCE_VARIABLE || v->first[id] != id) continue;
        var = est_store_find(v->store, est_node_string(def, "shared_name"));
        if (var != NULL) {
            v->single[id] = var->n_copies == 0;
        } else if (!est_device_is_any(def)) {
            v->single[id] = true;
        }
    }
    for (int32_t id = 0; id < est_graph_size(v->graph); id++) {
        const est_node_def *def = est_graph_node(v->graph, id);

        if (is_pinned(def) && !est_device_is_any(def)) (void)make_single(v, def);
    }
    while (again) {
        again = false;
        for (int32_t id = 0; id < est_graph_size(v->graph); id++) {
            const est_node_def *def = est_graph_node(v->graph, id);

            again = (writes_single(v, def) && make_single(v, def)) || again;
        }
    }
}

/* The devices that a variable is on which may have copies. */
static int list_devices(const variables *v, const est_node_def *handle, const est_device **out)
{
    est_device_task named = est_device_name_task(handle->device);
    int             n     = 0;

    for (int i = 0; i < v->choice->n; i++) {
        if (is_one_of(v->choice->devices[i], &named)) out[n++] = v->choice->devices[i];
    }
    return n;
}

/* Whether the operation runs on all devices that its variable is to be on. */
static bool runs_there(const variables *v, const est_node_def *def, int32_t handle, int32_t at)
{
    const est_device *devices[EST_DEVICES_MAX];
    bool              runs = can_run(v->graph, def, v->choice->devices[at]);
    int               n;

    if (v->single[handle] || !runs) return runs;
    n = list_devices(v, est_graph_node(v->graph, handle), devices);
    for (int i = 0; i < n && runs; i++) runs = can_run(v->graph, def, devices[i]);
    return runs;
}

/* Takes variables off their devices that an operation cannot use there; false: there was none. */
static bool take_off(variables *v, const est_node_def *def)
{
    int32_t at = NO_SUCH, handle = 0;
    bool    changed = false, same = true;

    for (int32_t i = 0; i < def->n_in; i++) {
        int32_t of;

        if (!touches(v->graph, def, i)) continue;
        handle = v->first[def->in[i].node];
        of     = v->at[handle];
        same   = same && (at == NO_SUCH || at == of);
        at     = of;
    }
    if (at == NO_SUCH || (same && (at == EST_HERE || runs_there(v, def, handle, at)))) return false;
    for (int32_t i = 0; i < def->n_in; i++) {
        int32_t *of = &v->at[v->first[def->in[i].node]];

        if (!touches(v->graph, def, i) || *of == EST_HERE) continue;
        *of     = EST_HERE;
        changed = true;
    }
    return changed;
}

static est_status add_variable(const variables *v, const est_node_def *handle, est_store *store)
{
    const est_device *devices[EST_DEVICES_MAX];
    int               n = v->single[handle->id] ? 1 : list_devices(v, handle, devices);

    if (n > 1) return est_store_add_copies(store, handle, devices, n);
    return est_store_add_on(store, handle, v->choice->devices[v->at[handle->id]]);
}

static est_status place(variables *v, est_store *store)
{
    bool again = true;

    EST_TRY(find_first_handles(v));
    find_single(v);
    while (again) {
        again = false;
        for (int32_t id = 0; id < est_graph_size(v->graph); id++) {
            again = take_off(v, est_graph_node(v->graph, id)) || again;
        }
    }
    for (int32_t id = 0; id < est_graph_size(v->graph); id++) {
        const est_node_def *def = est_graph_node(v->graph, id);
        est_var            *var;

        if (def->op->source != EST_SOURCE_VARIABLE) continue;
        var = est_store_find(store, est_node_string(def, "shared_name"));
        if (v->at[id] != EST_HERE && var == NULL) {
            EST_TRY(add_variable(v, def, store));
        } else if (v->may_move && var != NULL && v->first[id] == id && v->at[id] == EST_HERE && !var->elsewhere &&
                   var->device->runs != NULL) {
            EST_TRY(est_store_move_here(store, var));
        } else {
            EST_TRY(est_store_variable(store, def, &var));
        }
    }
    return EST_OK;
}

est_status est_device_place_variables(const est_device_choice *choice, const est_graph *graph, est_store *store,
                                      bool may_move)
{
    size_t     n = (size_t)est_graph_size(graph) + 1;
    variables  v = { choice,        graph,   store, est_alloc(sizeof(int32_t) * n), est_alloc(sizeof(int32_t) * n),
                     est_zalloc(n), may_move };
    est_status status;

    if (choice->n == 0) {
        status = EST_OK;
    } else {
        status = v.first != NULL && v.at != NULL && v.single != NULL ? place(&v, store) : est_no_memory();
    }
    est_free(v.first);
    est_free(v.at);
    est_free(v.single);
    return status;
}

/* --- operations --------------------------------------------------------------------------------------------------- */

static bool is_handle(const est_node_def *def)
{
    return def->op->source == EST_SOURCE_VARIABLE;
}

/* Where the variable of a handle is. */
static int32_t place_of(const est_device_choice *c, const est_partition_step *step, const est_node_def *handle)
{
    const est_var *var = est_store_find(step->store, est_node_string(handle, "shared_name"));

    return var == NULL || var->elsewhere ? EST_HERE : est_device_number(c, var->device);
}

/* Whether an operation touches variables, and on which device those are (D2). */
static bool follows_variable(const est_device_choice *c, const est_partition_step *step, const est_node_def *def,
                             int32_t *out)
{
    for (int32_t i = 0; i < def->n_in; i++) {
        if (!touches(step->graph, def, i)) continue;
        *out = place_of(c, step, est_graph_node(step->graph, def->in[i].node));
        return true;
    }
    return false;
}

static est_status refuse(const est_node_def *def, const char *why)
{
    return est_fail(EST_INVALID_ARGUMENT,
                    "Cannot assign a device for operation %s: it is pinned to \"%s\", %s; pin it to another device, or "
                    "allow soft placement",
                    def->name, def->device, why);
}

typedef struct user_place {
    const est_device_choice  *choice;
    const est_partition_step *step;
    int32_t                   at;
} user_place;

static bool is_there(void *arg, const est_node_def *user, int32_t input)
{
    const user_place *p  = arg;
    int32_t           at = EST_HERE;

    (void)input;
    return follows_variable(p->choice, p->step, user, &at) && at == p->at;
}

/* Whether what the operation makes on the device stays there: padding is for the updates of a device. */
static bool stays(const est_device_choice *c, const est_partition_step *step, const est_node_def *def, int32_t at)
{
    for (int i = 0; i < step->io->n_fetches && def->op->shrinks; i++) {
        if (step->io->fetches[i].id == def->id) return false;
    }
    return !def->op->shrinks || for_users(step->graph, def, is_there, &(user_place){ c, step, at });
}

/* What the host does for any device, so that it is no reason to refuse a device: it draws random numbers, it makes
 * integers (D3), as TensorFlow keeps int32 of operations on a GPU in memory of the host, and it knows which variables
 * have values. */
static bool is_work_of_host(const est_graph *graph, const est_node_def *def)
{
    bool handles = def->n_in > 0;

    if (def->op->takes_table) return false;
    for (int32_t i = 0; i < def->n_in; i++) {
        const est_node_def *maker = est_graph_node(graph, def->in[i].node);

        if (maker->dtype[def->in[i].output] == EST_STRING) return false;
        handles = handles && is_handle(maker);
    }
    if (def->op->random || handles) return true;
    for (int32_t o = 0; o < def->n_out; o++) {
        if (!is_integer(def->dtype[o])) return false;
    }
    return true;
}

static est_status place_node(const est_device_choice *c, const est_partition_step *step, const est_node_def *def,
                             int32_t *task)
{
    int32_t at = EST_HERE, *out = &task[def->id];

    *out = EST_HERE;
    if (def->op->source != EST_SOURCE_NONE) return EST_OK;
    if (is_of_shape(def) && task[def->in[0].node] == EST_HERE) return EST_OK;
    if (follows_variable(c, step, def, &at)) {
        *out = at;
        if (at == EST_HERE || can_run(step->graph, def, c->devices[at])) return EST_OK;
        return est_fail(
            EST_UNIMPLEMENTED,
            "'%s' (%s) was added after its variable, which is on the device %s:%d, where it cannot run; pin "
            "the variable to /device:CPU:0",
            def->name, def->op->name, c->devices[at]->kind, c->devices[at]->number);
    }
    at = named_device(c, def->device);
    if (at == NO_SUCH) return c->no_soft_placement ? refuse(def, "which the session does not have") : EST_OK;
    if (at == EST_HERE) return EST_OK;
    if (can_run(step->graph, def, c->devices[at]) && stays(c, step, def, at)) {
        *out = at;
    } else if (c->no_soft_placement && is_pinned(def) && !is_work_of_host(step->graph, def)) {
        return refuse(def, "which cannot run it");
    }
    return EST_OK;
}

/* In TensorFlow's words. */
static void log_node(const est_device_choice *c, const est_node_def *def, int32_t at)
{
    est_log_info("%s: (%s): /job:localhost/replica:0/task:0/device:%s:%d", def->name, def->op->name,
                 at == EST_HERE ? "CPU" : c->devices[at]->kind, at == EST_HERE ? 0 : c->devices[at]->number);
}

/* --- between operations of the host ------------------------------------------------------------------------------- */

/* Per node: whether it is cheap, on a device by default, and takes what the host makes; how many users it has; whether
 * one of them is on a device. */
typedef struct between {
    bool    from_host, to_device;
    int32_t n_users;
} between;

static bool is_free_to_move(const est_node_def *def)
{
    return (def->op->elementwise || def->op->alias) && def->op->writes == 0 && !is_pinned(def);
}

static void look_down(const est_partition_step *step, const int32_t *task, between *b)
{
    for (int32_t k = 0; k < step->whole->n; k++) {
        const est_node_def *def  = est_graph_node(step->graph, step->whole->nodes[k]);
        bool                from = task[def->id] != EST_HERE && is_free_to_move(def);

        for (int32_t i = 0; i < def->n_in && from; i++) {
            int32_t maker = def->in[i].node;

            from = !is_handle(est_graph_node(step->graph, maker)) && (task[maker] == EST_HERE || b[maker].from_host);
        }
        b[def->id].from_host = from;
    }
}

static bool goes_to_host(const between *b)
{
    return b->from_host && b->n_users > 0 && !b->to_device;
}

/* An elementwise operation, or a chain of them, all of whose inputs come from operations of the host and all of whose
 * results go there, runs on the host, or else its results would cost a phase. */
static est_status keep_between(const est_partition_step *step, int32_t *task)
{
    between *b = est_zalloc(sizeof *b * ((size_t)est_graph_size(step->graph) + 1));

    if (b == NULL) return est_no_memory();
    look_down(step, task, b);
    for (int i = 0; i < step->io->n_fetches; i++) b[step->io->fetches[i].id].to_device = true; /* as it was asked */
    for (int32_t k = step->whole->n - 1; k >= 0; k--) {
        const est_node_def *def  = est_graph_node(step->graph, step->whole->nodes[k]);
        bool                here = task[def->id] == EST_HERE || goes_to_host(&b[def->id]);

        for (int32_t i = 0; i < def->n_in; i++) {
            b[def->in[i].node].n_users++;
            if (!here) b[def->in[i].node].to_device = true;
        }
        if (here) task[def->id] = EST_HERE;
    }
    est_free(b);
    return EST_OK;
}

est_status est_device_place_nodes(const est_device_choice *choice, const est_partition_step *step, int32_t *task)
{
    for (int32_t k = 0; k < step->whole->n; k++) {
        const est_node_def *def = est_graph_node(step->graph, step->whole->nodes[k]);

        EST_TRY(place_node(choice, step, def, task));
    }
    EST_TRY(keep_between(step, task));
    for (int32_t k = 0; k < step->whole->n && choice->log_placement; k++) {
        const est_node_def *def = est_graph_node(step->graph, step->whole->nodes[k]);

        log_node(choice, def, is_handle(def) ? place_of(choice, step, def) : task[def->id]);
    }
    return EST_OK;
}
