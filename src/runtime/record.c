/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of a plan on a device that runs by itself.
 *
 * The slab gives every value an address that stays, so the items of a step are enqueued once, as a recording, and
 * replayed. A recording is of the shapes of the feeds, and of the addresses of those that lie in the device's memory
 * already, which are used there; a few are kept, since batches come again. Where more addresses come than recordings
 * are kept, such inputs are copied within the device. A recording holds addresses: all are dropped when memory moves.
 * Items of a wave may run at the same time, and some beside the waves that follow (P5). Where the shapes of every run
 * differ from all before, as those of sparse features do, a recording takes longer than its launches: then they are
 * launched as they come.
 *
 * Nothing here waits but what needs a value: all that a plan enqueues is in one queue, in order, so a run may be
 * enqueued behind others of the same plan (runtime/run_ahead.h). Results stay on the device until somebody looks.
 *
 * Shapes are known before a run, or the plan cannot run on a device. Where a shape is the value of a fed integer, as in
 * a reshape to a shape that the host has computed, the values of small integer feeds count as their shapes do.
 *
 * With check_numerics items are launched one by one, and their results looked at. */
#include "runtime/record.h"

#include <string.h>

#include "base/alloc.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

#define RECORDINGS_MAX 32 /* the one that was not used for the longest time goes */
#define FRESH_MAX      4  /* runs in a row with shapes of their own; those that follow are not recorded */

/* A fed value, in the device's memory. */
typedef struct input {
    void  *data;
    size_t capacity;
} input;

/* What a recording depends on, one for each feed. */
typedef struct fed {
    est_shape   shape;
    est_value   value; /* n -1: it does not count */
    const void *at;    /* where it is used as it lies; NULL: in memory of the plan */
} fed;

typedef struct kept_recording {
    est_recording *recording; /* NULL: the shapes came once, and were not recorded */
    fed           *key;       /* [n_feeds] */
    uint64_t       used;
} kept_recording;

struct est_recorder {
    const est_device      *device;
    const est_device_runs *runs;
    est_queue             *queue;
    char                  *constants; /* of the plan, uploaded once */
    uint64_t              *seed;      /* [2]: run_seed of the plan */
    input                 *inputs;    /* [n_feeds] */
    fed                   *now;       /* [n_feeds]: of the run */
    bool                   by_value;  /* shapes depend on the values of fed integers */
    bool                   copies;    /* inputs on the device are copied: there are too many to record */
    bool                   draws;     /* something in the plan uses the seed */
    bool                   noted;     /* its variables have values: it has run */
    int                    watched;   /* which fetch; -1: none */
    char                  *staging;   /* of the host: the fetches */
    size_t                 staging_bytes;
    est_view              *fetched; /* [n_fetches] */
    kept_recording         kept[RECORDINGS_MAX];
    int                    n_kept;
    int                    n_layouts; /* of the plan, when they were made */
    bool                   stale;     /* shapes have changed since then: kernels may have other memory of their own */
    int                    n_fresh;   /* runs in a row whose shapes are not among those kept */
    uint64_t               n_runs;
};

static size_t round_up(const est_device *device, size_t bytes)
{
    return (bytes + device->alignment - 1) & ~(device->alignment - 1);
}

static size_t bytes_of(const est_view *view)
{
    return (size_t)view->count * est_dtype_size(view->dtype);
}

static est_status no_device_memory(const est_device *device, size_t bytes)
{
    return est_fail(EST_RESOURCE_EXHAUSTED, "no memory left on the device %s:%d for %zu bytes", device->kind,
                    device->number, bytes);
}

/* --- create and free ---------------------------------------------------------------------------------------------- */

static est_status upload_constants(est_plan *plan, est_recorder *r)
{
    size_t bytes = 0, at = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (int32_t k = 0; k < plan->n_items; k++) {
            const est_item   *item = &plan->items[k];
            const est_tensor *tensor;

            if (item->call.node->op->source != EST_SOURCE_CONST) continue;
            tensor = est_node_attr(item->call.node, "value")->tensor;
            if (pass == 0) {
                bytes += round_up(r->device, est_tensor_bytes(tensor));
                continue;
            }
            plan->views[item->first_view].data = r->constants + at;
            EST_TRY(
                r->device->copy_in(r->device, r->constants + at, est_tensor_data(tensor), est_tensor_bytes(tensor)));
            at += round_up(r->device, est_tensor_bytes(tensor));
        }
        if (pass == 1) break;
        r->constants = r->device->alloc(r->device, bytes + r->device->alignment);
        if (r->constants == NULL) return no_device_memory(r->device, bytes);
    }
    return EST_OK;
}

est_status est_recorder_create(est_plan *plan, const est_plan_options *options)
{
    est_recorder *r = est_arena_alloc(plan->arena, sizeof *r);

    if (r == NULL) return est_no_memory();
    *r = (est_recorder){ .device = plan->device, .runs = plan->device->runs, .queue = options->queue, .watched = -1 };
    plan->recorder = r;
    r->inputs      = est_arena_alloc(plan->arena, sizeof *r->inputs * ((size_t)plan->io.n_feeds + 1));
    r->now         = est_arena_alloc(plan->arena, sizeof *r->now * ((size_t)plan->io.n_feeds + 1));
    r->fetched     = est_arena_alloc(plan->arena, sizeof *r->fetched * ((size_t)plan->io.n_fetches + 1));
    r->seed        = r->device->alloc(r->device, sizeof plan->run_seed);
    if (r->inputs == NULL || r->now == NULL || r->fetched == NULL) return est_no_memory();
    if (r->seed == NULL) return no_device_memory(r->device, sizeof plan->run_seed);
    for (int i = 0; i < RECORDINGS_MAX; i++) {
        r->kept[i].key = est_arena_alloc(plan->arena, sizeof(fed) * ((size_t)plan->io.n_feeds + 1));
        if (r->kept[i].key == NULL) return est_no_memory();
    }
    for (int32_t k = 0; k < plan->n_items; k++) {
        const est_op *op = plan->items[k].call.node->op;

        plan->items[k].call.run_seed = r->seed + est_plan_seed_of(plan->items[k].call.node);
        plan->items[k].call.no_tf32  = options->no_tf32;
        r->draws                     = r->draws || op->random;
    }
    return upload_constants(plan, r);
}

static void drop_recordings(est_recorder *r)
{
    for (int i = 0; i < r->n_kept; i++) r->runs->drop(r->kept[i].recording);
    r->n_kept = 0;
}

void est_recorder_watch(est_plan *plan, int fetch)
{
    est_recorder *r = plan->recorder;

    if (r->watched == fetch) return;
    r->watched = fetch;
    r->stale   = true;
    drop_recordings(r);
}

void est_recorder_free(est_plan *plan)
{
    est_recorder *r = plan->recorder;

    if (r == NULL) return;
    drop_recordings(r);
    for (int i = 0; i < plan->io.n_feeds && r->inputs != NULL; i++) r->device->free(r->device, r->inputs[i].data);
    r->device->free(r->device, r->constants);
    r->device->free(r->device, r->seed);
    r->device->free_staging(r->device, r->staging);
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */

/* The elements of an input that is a few integers; n -1: it is not. on: NULL, or the device that it is on. */
static est_status value_of(const est_view *in, const est_device *on, est_value *out)
{
    union {
        int32_t narrow[EST_VALUE_MAX];
        int64_t wide[EST_VALUE_MAX];
    } v;

    out->n = -1;
    if (in->count > EST_VALUE_MAX || (in->dtype != EST_I32 && in->dtype != EST_I64)) return EST_OK;
    if (on != NULL) {
        EST_TRY(on->copy_out(on, &v, in->data, bytes_of(in)));
    } else if (in->count > 0) {
        memcpy(&v, in->data, bytes_of(in));
    }
    out->n = (int32_t)in->count;
    for (int32_t i = 0; i < out->n; i++) out->v[i] = in->dtype == EST_I32 ? v.narrow[i] : v.wide[i];
    return EST_OK;
}

static bool same_value(const est_value *a, const est_value *b)
{
    return a->n == b->n && (a->n <= 0 || memcmp(a->v, b->v, sizeof *a->v * (size_t)a->n) == 0);
}

/* Memory for the input, with room to spare once it has grown. */
static est_status make_room(est_recorder *r, int i, size_t bytes)
{
    input *in = &r->inputs[i];

    if (in->data != NULL && bytes <= in->capacity) return EST_OK;
    drop_recordings(r);
    r->device->free(r->device, in->data);
    in->capacity = in->data != NULL ? bytes + bytes / 4 : bytes;
    in->data     = r->device->alloc(r->device, in->capacity > 0 ? in->capacity : 1);
    if (in->data != NULL) return EST_OK;
    in->capacity = 0;
    return no_device_memory(r->device, bytes);
}

/* Whether an input is used where it lies. */
static bool is_resident(const est_recorder *r, const est_plan_input *in)
{
    return in->on == r->device && !r->copies && (uintptr_t)in->view->data % r->device->alignment == 0;
}

/* Follows the shapes of the inputs, and the values of those that count. */
static est_status take_shapes(est_plan *plan, const est_plan_input *in)
{
    est_recorder *r = plan->recorder;

    for (int i = 0; i < plan->io.n_feeds; i++) {
        est_item       *item  = &plan->items[plan->item_of[plan->io.feeds[i].id]];
        est_view       *view  = item->call.out;
        const est_view *from  = in[i].view;
        est_value       value = { .n = -1 };

        if (r->by_value) EST_TRY(value_of(from, in[i].on, &value));
        if (is_resident(r, &in[i])) {
            r->now[i].at = view->data = from->data;
        } else {
            EST_TRY(make_room(r, i, bytes_of(from)));
            view->data   = r->inputs[i].data;
            r->now[i].at = NULL;
        }
        if (est_shape_equal(&from->shape, &plan->fed[i]) && same_value(&value, &item->out_value[0])) continue;
        plan->fed[i]       = from->shape;
        view->shape        = from->shape;
        view->count        = from->count;
        item->out_shape[0] = from->shape;
        item->out_value[0] = value;
        r->now[i].shape    = from->shape;
        r->now[i].value    = value;
        item->changed      = true;
        plan->resolved     = false;
    }
    return EST_OK;
}

/* The first item whose shape is not known before it runs; NULL: none. */
static const est_item *find_late(const est_plan *plan)
{
    for (int32_t k = 0; k < plan->n_items; k++) {
        if (plan->items[k].dynamic) return &plan->items[k];
    }
    return NULL;
}

static est_status resolve(est_plan *plan, const est_plan_input *in)
{
    est_recorder   *r = plan->recorder;
    const est_item *late;

    EST_TRY(take_shapes(plan, in));
    if (plan->resolved) return EST_OK;
    r->stale = true;
    EST_TRY(est_plan_resolve(plan));
    late = find_late(plan);
    if (late != NULL && !r->by_value) {
        r->by_value = true;
        for (int32_t k = 0; k < plan->n_items; k++) plan->items[k].late = plan->items[k].dynamic = false;
        plan->inferred = false; /* values are known now */
        plan->laid_out = false; /* what was late has no place in the slab */
        EST_TRY(take_shapes(plan, in));
        EST_TRY(est_plan_resolve(plan));
        late = find_late(plan);
    }
    if (late == NULL) return EST_OK;
    plan->resolved = false;
    return est_item_failed(late, est_fail(EST_UNIMPLEMENTED,
                                          "its shape depends on what the device %s:%d computes; pin "
                                          "it to /device:CPU:0",
                                          r->device->kind, r->device->number));
}

/* --- recording ---------------------------------------------------------------------------------------------------- */

static est_status launch_item(est_plan *plan, const est_item *item)
{
    est_recorder *r = plan->recorder;

    if (item->kernel == NULL) return EST_OK;
    if (item->copied) {
        const est_view *from = item->call.in[0]->dtype == EST_RESOURCE ? &est_call_variable(&item->call, 0)->value
                                                                       : item->call.in[0];

        return r->runs->copy(r->queue, item->call.out[0].data, from->data, bytes_of(&item->call.out[0]));
    }
    return r->runs->launch(r->queue, item->kernel, &item->call);
}

/* Those of the lane; -1: those that do not stand aside. */
static est_status launch_steps(est_plan *plan, int32_t first, int32_t end, int32_t lane)
{
    for (int32_t s = first; s < end; s++) {
        const est_item *item   = &plan->items[plan->steps[s]];
        est_status      status = item->aside == lane ? launch_item(plan, item) : EST_OK;

        if (status != EST_OK) return est_item_failed(item, status);
    }
    return EST_OK;
}

static bool is_heavy(const est_item *item)
{
    const est_kernel *kernel = item->kernel;

    return item->call.node->op->heavy && kernel != NULL && item->aside < 0 &&
           (kernel->light == NULL || !kernel->light(&item->call));
}

/* Of a wave of items that are independent of each other, the first that is heavy; -1: at most one is. */
static int32_t find_heavy(const est_plan *plan, const est_plan_wave *wave)
{
    int32_t first = -1, n = 0;

    for (int32_t s = wave->first; s < wave->end; s++) {
        if (!is_heavy(&plan->items[plan->steps[s]])) continue;
        if (n++ == 0) first = s;
    }
    return n >= 2 ? first : -1;
}

/* The side lanes in which something of the wave runs. */
static uint32_t lanes_of(const est_plan *plan, const est_plan_wave *wave)
{
    uint32_t lanes = 0;

    for (int32_t s = wave->first; s < wave->end; s++) {
        int32_t lane = plan->items[plan->steps[s]].aside;

        if (lane >= 0) lanes |= 1u << lane;
    }
    return lanes;
}

static est_status meet_lanes(est_plan *plan, uint32_t lanes)
{
    for (int l = 0; l < EST_SIDES; l++) {
        if ((lanes >> l & 1u) != 0) EST_TRY(plan->recorder->runs->meet(plan->recorder->queue, l));
    }
    return EST_OK;
}

/* What stands aside begins before the rest of its wave. */
static est_status launch_aside(est_plan *plan, const est_plan_wave *wave, uint32_t lanes)
{
    est_recorder *r = plan->recorder;

    for (int l = 0; l < EST_SIDES; l++) {
        if ((lanes >> l & 1u) == 0) continue;
        EST_TRY(r->runs->aside(r->queue, l));
        EST_TRY(launch_steps(plan, wave->first, wave->end, l));
        EST_TRY(r->runs->aside(r->queue, -1));
    }
    return EST_OK;
}

/* Where several items are heavy, as the products of a backward pass, the first of them runs beside all others. What is
 * small stays in a row: forks cost, and the device runs alike items that follow each other as one. */
static est_status launch_wave(est_plan *plan, const est_plan_wave *wave)
{
    est_recorder *r     = plan->recorder;
    int32_t       heavy = r->runs->fork != NULL ? find_heavy(plan, wave) : -1;

    if (heavy < 0) return launch_steps(plan, wave->first, wave->end, -1);
    EST_TRY(r->runs->fork(r->queue, 2));
    EST_TRY(r->runs->lane(r->queue, 0));
    EST_TRY(launch_steps(plan, heavy, heavy + 1, -1));
    EST_TRY(r->runs->lane(r->queue, 1));
    EST_TRY(launch_steps(plan, wave->first, heavy, -1));
    EST_TRY(launch_steps(plan, heavy + 1, wave->end, -1));
    return r->runs->join(r->queue);
}

static est_status launch_all(est_plan *plan)
{
    uint32_t open = 0; /* side lanes that have not been met */

    for (int32_t g = 0; g < plan->n_waves; g++) {
        const est_plan_wave *wave  = &plan->waves[g];
        uint32_t             lanes = lanes_of(plan, wave);

        EST_TRY(meet_lanes(plan, wave->meets));
        EST_TRY(launch_aside(plan, wave, lanes));
        EST_TRY(launch_wave(plan, wave));
        open = (open & ~wave->meets) | lanes;
    }
    return meet_lanes(plan, open);
}

static est_status launch_in_a_row(est_plan *plan)
{
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const est_item *item   = &plan->items[plan->steps[s]];
        est_status      status = launch_item(plan, item);

        if (status != EST_OK) return est_item_failed(item, status);
    }
    return EST_OK;
}

static est_status launch_watch(est_plan *plan)
{
    est_recorder   *r = plan->recorder;
    const est_view *view;

    if (r->watched < 0) return EST_OK;
    view = est_plan_fetch(plan, r->watched);
    if (view->count != 1) return EST_OK;
    return r->runs->watch(r->queue, view->data, view->dtype == EST_F64,
                          est_graph_node(plan->graph, plan->io.fetches[r->watched].id));
}

/* Launches all; `once`: in a row, as it comes, and *out is NULL. */
static est_status record(est_plan *plan, bool once, est_recording **out)
{
    est_recorder *r = plan->recorder;
    est_error     error;
    est_status    status;

    EST_TRY(r->runs->begin(r->queue, once));
    status = once ? launch_in_a_row(plan) : launch_all(plan);
    if (status == EST_OK) status = launch_watch(plan);
    if (status == EST_OK) return r->runs->end(r->queue, out);
    est_error_take(status, &error); /* what `end` says of it is less */
    if (r->runs->end(r->queue, out) == EST_OK) r->runs->drop(*out);
    return est_error_raise(&error);
}

static bool has_shapes(const est_plan *plan, const fed *key)
{
    const fed *now = plan->recorder->now;

    for (int i = 0; i < plan->io.n_feeds; i++) {
        if (!est_shape_equal(&now[i].shape, &key[i].shape) || !same_value(&now[i].value, &key[i].value)) return false;
    }
    return true;
}

static bool has_addresses(const est_plan *plan, const fed *key)
{
    const fed *now = plan->recorder->now;
    int        i   = 0;

    while (i < plan->io.n_feeds && now[i].at == key[i].at) i++;
    return i == plan->io.n_feeds;
}

/* Where the next recording is kept. */
static kept_recording *make_place(est_recorder *r)
{
    kept_recording *oldest = &r->kept[0];

    if (r->n_kept < RECORDINGS_MAX) return &r->kept[r->n_kept++];
    for (int i = 1; i < r->n_kept; i++) {
        if (r->kept[i].used < oldest->used) oldest = &r->kept[i];
    }
    r->runs->drop(oldest->recording);
    return oldest;
}

static bool is_by_address(const est_plan *plan)
{
    for (int i = 0; i < plan->io.n_feeds; i++) {
        if (plan->recorder->now[i].at != NULL) return true;
    }
    return false;
}

/* That of the run's shapes and addresses; NULL: there is none. *known: the shapes have come before. */
static kept_recording *find_kept(const est_plan *plan, bool *known)
{
    est_recorder *r = plan->recorder;

    *known = false;
    for (int i = 0; i < r->n_kept; i++) {
        if (!has_shapes(plan, r->kept[i].key)) continue;
        *known = true;
        if (has_addresses(plan, r->kept[i].key)) return &r->kept[i];
    }
    return NULL;
}

static kept_recording *keep(est_plan *plan, est_recording *recording)
{
    est_recorder   *r = plan->recorder;
    kept_recording *place;

    r->copies        = r->copies || (r->n_kept == RECORDINGS_MAX && is_by_address(plan)); /* from the next run on */
    place            = make_place(r);
    place->recording = recording;
    place->used      = r->n_runs;
    if (plan->io.n_feeds > 0) memcpy(place->key, r->now, sizeof *r->now * (size_t)plan->io.n_feeds);
    return place;
}

/* What kernels have allocated for the shapes must stay for as long as they are under way, as a recording sees to. */
static bool has_state(const est_plan *plan)
{
    for (int32_t k = 0; k < plan->n_items; k++) {
        if (plan->items[k].kernel != NULL && plan->items[k].kernel->release != NULL) return true;
    }
    return false;
}

static est_status enqueue(est_plan *plan)
{
    est_recorder   *r = plan->recorder;
    bool            known;
    kept_recording *kept = find_kept(plan, &known);
    est_recording  *made = NULL;

    r->n_fresh = known ? 0 : r->n_fresh + 1;
    if (r->n_fresh > FRESH_MAX && !has_state(plan)) {
        (void)keep(plan, NULL);
        return record(plan, true, &made);
    }
    if (kept == NULL || kept->recording == NULL) {
        EST_TRY(record(plan, false, &made));
        if (kept == NULL) kept = keep(plan, made);
        kept->recording = made;
    }
    kept->used = r->n_runs;
    return r->runs->replay(r->queue, kept->recording);
}

/* Where the fetches of these shapes go. */
static est_status place_fetches(est_plan *plan)
{
    est_recorder *r     = plan->recorder;
    size_t        bytes = 0;

    for (int i = 0; i < plan->io.n_fetches; i++) {
        r->fetched[i]      = *est_plan_fetch(plan, i);
        r->fetched[i].data = NULL;
        bytes += round_up(r->device, bytes_of(&r->fetched[i]) + 1);
    }
    if (r->staging == NULL || bytes > r->staging_bytes) {
        r->device->free_staging(r->device, r->staging);
        r->staging_bytes = 0;
        r->staging       = r->device->alloc_staging(r->device, bytes + r->device->alignment);
        if (r->staging == NULL) return est_no_memory();
        r->staging_bytes = bytes;
    }
    bytes = 0;
    for (int i = 0; i < plan->io.n_fetches; i++) {
        r->fetched[i].data = r->staging + bytes;
        bytes += round_up(r->device, bytes_of(&r->fetched[i]) + 1);
    }
    return EST_OK;
}

/* Recordings hold the addresses of the layout, and what kernels have allocated for the shapes of the last resolve. */
static void drop_stale(est_plan *plan)
{
    est_recorder *r     = plan->recorder;
    bool          stale = r->n_layouts != plan->n_layouts;

    for (int32_t k = 0; k < plan->n_items && r->stale && !stale; k++) {
        stale = plan->items[k].kernel != NULL && plan->items[k].kernel->release != NULL;
    }
    if (stale) drop_recordings(r);
    r->n_layouts = plan->n_layouts;
    r->stale     = false;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

/* Waits for all that was enqueued. Who waits sees a watched value himself. */
static est_status await(const est_recorder *r)
{
    const struct est_node_def *failed = NULL;
    uint64_t                   mark;
    est_status                 status;
    char                       text[EST_NODE_TEXT_MAX];

    EST_TRY(r->runs->mark(r->queue, &mark));
    status = r->runs->wait(r->queue, mark, &failed);
    if (failed != NULL && status == EST_ABORTED) return EST_OK;
    return failed != NULL ? est_fail_context(status, "%s", est_node_text(failed, text)) : status;
}

/* Looks at what an item that is done has made. */
static est_status check_item(const est_plan *plan, const est_item *item)
{
    const est_device *device = plan->device;
    est_status        status = EST_OK;

    for (int o = 0; o < item->call.n_out && status == EST_OK; o++) {
        est_view view = item->call.out[o];

        if (view.dtype != EST_F32 && view.dtype != EST_F64) continue;
        view.data = est_alloc(bytes_of(&view) + 1);
        if (view.data == NULL) return est_no_memory();
        status = device->copy_out(device, view.data, item->call.out[o].data, bytes_of(&view));
        if (status == EST_OK) status = est_view_check_numbers(&view, o);
        est_free(view.data);
    }
    return status != EST_OK ? est_item_failed(item, status) : EST_OK;
}

/* One by one, for check_numerics. */
static est_status run_checked(est_plan *plan)
{
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const est_item *item   = &plan->items[plan->steps[s]];
        est_status      status = launch_item(plan, item);

        if (status != EST_OK) return est_item_failed(item, status);
        EST_TRY(await(plan->recorder));
        if (item->kernel != NULL) EST_TRY(check_item(plan, item));
    }
    return EST_OK;
}

/* By way of the host. */
static est_status send_from(const est_recorder *r, int i, const est_plan_input *in)
{
    size_t     bytes = bytes_of(in->view);
    void      *copy  = est_alloc(bytes);
    est_status status;

    if (copy == NULL) return est_no_memory();
    status = in->on->copy_out(in->on, copy, in->view->data, bytes);
    if (status == EST_OK) status = r->runs->send(r->queue, r->inputs[i].data, copy, bytes);
    est_free(copy);
    return status;
}

static est_status send_inputs(est_plan *plan, const est_plan_input *in)
{
    est_recorder *r = plan->recorder;

    for (int i = 0; i < plan->io.n_feeds; i++) {
        size_t      bytes = bytes_of(in[i].view);
        const void *from  = in[i].view->data;

        if (bytes == 0 || r->now[i].at != NULL) continue;
        if (in[i].on == NULL) {
            EST_TRY(r->runs->send(r->queue, r->inputs[i].data, from, bytes));
        } else if (in[i].on == r->device) {
            EST_TRY(r->runs->copy(r->queue, r->inputs[i].data, from, bytes));
        } else {
            EST_TRY(send_from(r, i, &in[i]));
        }
    }
    return r->draws ? r->runs->send(r->queue, r->seed, plan->run_seed, sizeof plan->run_seed) : EST_OK;
}

est_status est_plan_start(est_plan *plan, const est_plan_input *in, uint64_t run_seed)
{
    est_recorder *r = plan->recorder;

    est_plan_seed(plan, run_seed);
    r->n_runs++;
    EST_TRY(resolve(plan, in));
    EST_TRY(est_plan_check_variables(plan));
    est_plan_follow_addresses(plan);
    EST_TRY(place_fetches(plan));
    drop_stale(plan);
    EST_TRY(send_inputs(plan, in));
    if (plan->check_numerics) return run_checked(plan);
    return enqueue(plan);
}

const est_view *est_plan_expect(est_plan *plan)
{
    for (int32_t k = 0; k < plan->n_items && !plan->recorder->noted; k++) {
        const est_item *item = &plan->items[k];
        est_var        *var;

        if (item->kernel == NULL || item->call.node->op->writes == 0) continue;
        var        = est_call_variable(&item->call, 0);
        var->blank = false;
        if (item->call.node->op->fills_var) var->initialized = true;
    }
    plan->recorder->noted = true;
    return plan->recorder->fetched;
}

est_status est_plan_bring(est_plan *plan)
{
    est_recorder *r = plan->recorder;

    for (int i = 0; i < plan->io.n_fetches; i++) {
        size_t bytes = bytes_of(&r->fetched[i]);

        if (bytes > 0) EST_TRY(r->runs->fetch(r->queue, r->fetched[i].data, est_plan_fetch(plan, i)->data, bytes));
    }
    return EST_OK;
}

est_status est_plan_finish(est_plan *plan, const est_view **out)
{
    EST_TRY(est_plan_bring(plan));
    EST_TRY(await(plan->recorder));
    *out = est_plan_expect(plan);
    return EST_OK;
}
