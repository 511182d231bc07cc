/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a step: every intermediate result gets a place in one slab, where values whose lives do not overlap share
 * bytes (P1), with space for the largest size seen so far (P3).
 *
 * Places are given largest first, each at the lowest offset that is free during its whole life: simple, and within a
 * few percent of the lower bound on the reference models. First values of variables need none (P6). */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/plan.h"

static size_t round_up(const est_plan *plan, size_t bytes)
{
    return (bytes + plan->device->alignment - 1) & ~(plan->device->alignment - 1);
}

bool est_item_looks_at(const est_item *item, int input)
{
    if (item->runs) return !est_op_shape_only(item->call.node->op, input);
    return item->call.in[input]->dtype == EST_I32 || item->call.in[input]->dtype == EST_I64;
}

/* The last item that looks at the data behind each root view; at least its maker. What stands aside looks until it is
 * met (P5). Kept ones live to the end (P4). */
static void find_last_uses(const est_plan *plan, int32_t *last)
{
    for (int32_t v = 0; v < plan->n_views; v++) {
        const est_item *maker = &plan->items[plan->slots[v].maker];

        last[v] = maker->aside >= 0 ? maker->met : plan->slots[v].maker;
    }
    for (int32_t k = 0; k < plan->n_items; k++) {
        int32_t until = plan->items[k].aside >= 0 ? plan->items[k].met : k;

        for (int i = 0; i < plan->items[k].call.n_in; i++) {
            int32_t root = plan->slots[est_view_index(plan, plan->items[k].call.in[i])].root;
            if (est_item_looks_at(&plan->items[k], i) && last[root] < until) last[root] = until;
        }
    }
    for (int32_t v = 0; v < plan->n_views; v++) {
        if (plan->slots[v].kept) last[plan->slots[v].root] = plan->n_items;
    }
}

static int32_t new_buffer(est_plan *plan, est_buffer buffer)
{
    plan->buffers[plan->n_buffers] = buffer;
    return plan->n_buffers++;
}

static int data_inputs(const est_item *item)
{
    int n = 0;

    for (int i = 0; i < item->call.n_in; i++) n += !est_op_shape_only(item->call.node->op, i);
    return n;
}

/* When an item begins and ends, as far as memory is concerned: the lanes of a wave are one moment (P5). */
static const est_plan_wave *lanes_of(const est_plan *plan, int32_t k)
{
    int32_t g = k < plan->n_items ? plan->wave_of[k] : -1;

    return g >= 0 && plan->waves[g].n_lanes > 1 ? &plan->waves[g] : NULL;
}

static int32_t moment_begin(const est_plan *plan, int32_t k)
{
    const est_plan_wave *g = lanes_of(plan, k);

    for (int32_t s = g != NULL ? g->first : 0; g != NULL && s < g->end; s++) {
        if (plan->steps[s] < k) k = plan->steps[s];
    }
    return k;
}

static int32_t moment_end(const est_plan *plan, int32_t k)
{
    const est_plan_wave *g = lanes_of(plan, k);

    for (int32_t s = g != NULL ? g->first : 0; g != NULL && s < g->end; s++) {
        if (plan->steps[s] > k) k = plan->steps[s];
    }
    return k;
}

static int32_t lane_of(const est_plan *plan, const est_plan_wave *g, int32_t k)
{
    int32_t lane = 0;

    while (plan->step_of[k] >= g->lane_end[lane]) lane++;
    return lane;
}

/* Whether an item of another lane looks at the root's memory while item k runs. */
static bool shared_with_lanes(const est_plan *plan, int32_t k, int32_t root)
{
    const est_plan_wave *g = lanes_of(plan, k);

    for (int32_t s = g != NULL ? g->first : 0; g != NULL && s < g->end; s++) {
        const est_item *item = &plan->items[plan->steps[s]];
        bool            uses = plan->slots[root].maker == plan->steps[s];
        for (int i = 0; i < item->call.n_in; i++) {
            uses = uses || plan->slots[est_view_index(plan, item->call.in[i])].root == root;
        }
        if (uses && lane_of(plan, g, plan->steps[s]) != lane_of(plan, g, k)) return true;
    }
    return false;
}

static int uses_of_root(const est_plan *plan, const est_item *item, int32_t root)
{
    int n = 0;

    for (int i = 0; i < item->call.n_in; i++) n += plan->slots[est_view_index(plan, item->call.in[i])].root == root;
    return n;
}

/* The input that item k may write its output over, or -1. */
static int32_t find_inplace(const est_plan *plan, int32_t k, const int32_t *last)
{
    const est_item *item = &plan->items[k];
    int32_t         out  = item->first_view;

    if (item->dynamic && data_inputs(item) > 1) return -1; /* one may turn out to be broadcast over the other */
    for (int i = 0; i < item->call.n_in && i < 32; i++) {
        int32_t         in   = est_view_index(plan, item->call.in[i]);
        int32_t         root = plan->slots[in].root;
        const est_slot *slot = &plan->slots[root];
        if ((item->call.node->op->inplace & 1u << i) == 0 || slot->buffer < 0 || last[root] != k) continue;
        if (plan->buffers[slot->buffer].kind != EST_BUFFER_SLAB || plan->buffers[slot->buffer].last_use != k) continue;
        if (plan->slots[in].capacity != plan->slots[out].capacity || plan->views[in].count != plan->views[out].count) {
            continue;
        }
        if (uses_of_root(plan, item, root) == 1 && !shared_with_lanes(plan, k, root)) return in;
    }
    return -1;
}

static void place_output(est_plan *plan, int32_t k, int32_t v, const int32_t *last)
{
    const est_item *item = &plan->items[k];
    est_slot       *slot = &plan->slots[v];

    slot->inplace = v == item->first_view && item->kernel != NULL ? find_inplace(plan, k, last) : -1;
    if (slot->inplace >= 0) {
        slot->buffer                         = plan->slots[slot->inplace].buffer;
        plan->buffers[slot->buffer].last_use = last[v];
        plan->buffers[slot->buffer].last     = moment_end(plan, last[v]);
        return;
    }
    slot->buffer = new_buffer(plan, (est_buffer){ .kind     = item->late ? EST_BUFFER_HEAP : EST_BUFFER_SLAB,
                                                  .bytes    = item->late ? 0 : round_up(plan, slot->capacity),
                                                  .first    = moment_begin(plan, k),
                                                  .last     = moment_end(plan, last[v]),
                                                  .last_use = last[v] });
}

static void assign_buffers(est_plan *plan, const int32_t *last)
{
    for (int32_t k = 0; k < plan->n_items; k++) {
        const est_item *item = &plan->items[k];
        for (int32_t v = item->first_view; v < item->first_view + item->call.n_out; v++) {
            if (plan->slots[v].root != v) {
                plan->slots[v].buffer = plan->slots[plan->slots[v].root].buffer;
            } else if (item->call.node->op->source == EST_SOURCE_NONE && item->kernel != NULL &&
                       !item->call.node->op->lends) {
                place_output(plan, k, v, last); /* outputs nobody needs still get memory: kernels write them */
            }
        }
    }
}

/* --- first values ------------------------------------------------------------------------------------------------- */

static bool touches(const est_plan *plan, const est_item *item, const est_var *var)
{
    for (int i = 0; i < item->call.n_in; i++) {
        int32_t root = plan->slots[est_view_index(plan, item->call.in[i])].root;
        if (plan->views[root].dtype == EST_RESOURCE && plan->views[root].data == var) return true;
    }
    return false;
}

/* Whether the value that item k assigns may be made in the variable's memory (P6): only the assignment looks at it in
 * the end, it is as large, and from its making on nobody else touches the variable. A variable that has a value keeps
 * it until the new one is whole, in case the step fails. */
static bool made_at_home(const est_plan *plan, int32_t k)
{
    const est_item   *item = &plan->items[k];
    const est_var    *var  = est_call_variable(&item->call, 0);
    const est_slot   *slot = &plan->slots[est_view_index(plan, item->call.in[1])];
    const est_buffer *buffer;

    if (slot->buffer < 0 || var->initialized || plan->device->runs != NULL) return false;
    buffer = &plan->buffers[slot->buffer];
    if (buffer->kind != EST_BUFFER_SLAB || buffer->last_use != k) return false;
    if (slot->capacity != (size_t)var->value.count * est_dtype_size(var->value.dtype)) return false;
    if (buffer->bytes != round_up(plan, slot->capacity)) return false;
    for (int32_t other = buffer->first; other <= buffer->last; other++) {
        if (other != k && touches(plan, &plan->items[other], var)) return false;
    }
    return true;
}

static bool may_share_variable(const est_op *op)
{
    return op->fills_var && (op->inplace & 1u << 1) != 0;
}

static void send_home(est_plan *plan)
{
    for (int32_t k = 0; k < plan->n_items; k++) {
        const est_item *item = &plan->items[k];
        if (item->kernel == NULL || !may_share_variable(item->call.node->op) || !made_at_home(plan, k)) continue;
        est_var    *var    = est_call_variable(&item->call, 0);
        est_buffer *buffer = &plan->buffers[plan->slots[est_view_index(plan, item->call.in[1])].buffer];
        buffer->kind       = EST_BUFFER_VARIABLE;
        buffer->data       = var->value.data;
        var->blank         = false;
    }
}

/* --- places in the slab ------------------------------------------------------------------------------------------- */

#define SHELF_PLACES_MIN 256         /* fewer are compared one by one, which takes less memory */
#define SHELF_BYTES_MAX  (16u << 10) /* a shelf shares no memory with other sizes: worth it where they are small */

typedef struct place {
    size_t  bytes;
    size_t *offset;
    int32_t first, last;
} place;

static int larger_first(const void *a, const void *b)
{
    const place *x = a, *y = b;

    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

/* The lowest offset at which p overlaps none of the n places, by offset, that live at the same time. */
static size_t find_offset(const place *p, place *const *by_offset, int32_t n)
{
    size_t at = 0;

    for (int32_t i = 0; i < n && *by_offset[i]->offset < at + p->bytes; i++) {
        const place *busy = by_offset[i];
        if (busy->first > p->last || p->first > busy->last) continue;
        if (*busy->offset + busy->bytes > at) at = *busy->offset + busy->bytes;
    }
    return at;
}

static int ends_first(const void *a, const void *b)
{
    const place *x = *(place *const *)a, *y = *(place *const *)b;

    return (x->last > y->last) - (x->last < y->last);
}

/* Puts equal places side by side, one behind the other where their lives allow, and makes the first of them stand for
 * all. `offset` is meanwhile relative to the first. */
static void pack_shelf(place *shelf, int32_t n, place **by_last, size_t *vacant)
{
    int32_t ended = 0, n_free = 0;
    size_t  bytes = shelf->bytes, end = 0;

    for (int32_t i = 0; i < n; i++) by_last[i] = &shelf[i];
    qsort(by_last, (size_t)n, sizeof(place *), ends_first);
    for (int32_t i = 0; i < n; i++) {
        while (by_last[ended]->last < shelf[i].first) vacant[n_free++] = *by_last[ended++]->offset;
        *shelf[i].offset = n_free > 0 ? vacant[--n_free] : end;
        if (*shelf[i].offset == end) end += bytes;
    }
    shelf->last  = by_last[n - 1]->last;
    shelf->bytes = end;
}

/* How many of the n places from the first on are one shelf: 1, or all of its size if those are small and many. */
static int32_t shelf_size(const place *places, int32_t n)
{
    int32_t same = 1;

    if (places->bytes > SHELF_BYTES_MAX) return 1;
    while (same < n && places[same].bytes == places->bytes) same++;
    return same >= SHELF_PLACES_MIN ? same : 1;
}

static void insert_by_offset(place **by_offset, int32_t n, place *p)
{
    int32_t low = 0, high = n;

    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (*by_offset[middle]->offset <= *p->offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    memmove(by_offset + low + 1, by_offset + low, sizeof *by_offset * (size_t)(n - low));
    by_offset[low] = p;
}

/* Larger places first, each as low as it fits. Of small ones a step may have tens of thousands, too many to compare
 * each with all: they are put on shelves. */
static size_t place_all(place *places, int32_t n, place **by_offset, place **by_last, size_t *vacant)
{
    size_t  top      = 0;
    int32_t n_placed = 0, shelf;

    qsort(places, (size_t)n, sizeof *places, larger_first);
    for (int32_t i = 0; i < n; i += shelf) {
        place *p = &places[i];
        size_t at;

        shelf = shelf_size(p, n - i);
        if (shelf > 1) pack_shelf(p, shelf, by_last, vacant);
        at = find_offset(p, by_offset, n_placed);
        for (int32_t k = 1; k < shelf; k++) *places[i + k].offset += at;
        *p->offset = at;
        insert_by_offset(by_offset, n_placed++, p);
        if (at + p->bytes > top) top = at + p->bytes;
    }
    return top;
}

static int32_t list_places(est_plan *plan, place *places)
{
    int32_t n = 0;

    for (int32_t b = 0; b < plan->n_buffers; b++) {
        est_buffer *buffer = &plan->buffers[b];
        if (buffer->kind != EST_BUFFER_SLAB || buffer->bytes == 0) continue;
        places[n++] = (place){ buffer->bytes, &buffer->offset, buffer->first, buffer->last };
    }
    for (int32_t k = 0; k < plan->n_items; k++) {
        est_item *item = &plan->items[k];
        if (item->scratch_bytes == 0 || item->late) continue;
        places[n++] = (place){ round_up(plan, item->scratch_bytes), &item->scratch_offset, moment_begin(plan, k),
                               moment_end(plan, item->aside >= 0 ? item->met : k) };
    }
    return n;
}

static est_status grow_slab(est_plan *plan, size_t bytes)
{
    if (bytes <= plan->slab_bytes && plan->slab != NULL) return EST_OK;
    plan->device->free(plan->device, plan->slab);
    plan->slab_bytes = 0;
    plan->slab       = plan->device->alloc(
              plan->device, bytes + plan->device->alignment); /* an empty tensor at the very end has an address too */
    if (plan->slab == NULL && plan->device->runs != NULL) {
        return est_fail(
            EST_RESOURCE_EXHAUSTED,
            "no memory left on the device %s:%d for a step of these shapes, which takes %zu bytes beside its "
            "variables; make the batch smaller",
            plan->device->kind, plan->device->number, bytes);
    }
    if (plan->slab == NULL) return est_no_memory();
    plan->slab_bytes = bytes;
    return EST_OK;
}

static void list_views(est_plan *plan)
{
    for (int32_t b = 0; b < plan->n_buffers; b++) plan->buffers[b].views = -1;
    for (int32_t v = 0; v < plan->n_views; v++) {
        est_slot *slot = &plan->slots[v];
        if (slot->buffer < 0) continue;
        slot->next                        = plan->buffers[slot->buffer].views;
        plan->buffers[slot->buffer].views = v;
    }
}

static void set_pointers(est_plan *plan)
{
    for (int32_t v = 0; v < plan->n_views; v++) {
        const est_slot *slot  = &plan->slots[v];
        const est_item *maker = &plan->items[plan->slots[slot->root].maker];
        if (slot->buffer >= 0 && plan->buffers[slot->buffer].kind == EST_BUFFER_SLAB) {
            plan->views[v].data = plan->slab + plan->buffers[slot->buffer].offset;
        } else if (slot->buffer >= 0) {
            plan->views[v].data = plan->buffers[slot->buffer].data;
        } else if (slot->root != v) { /* of a constant, a feed, a variable or what is lent */
            const est_view *root = &plan->views[slot->root];
            plan->views[v].data  = maker->call.node->op->source == EST_SOURCE_VARIABLE
                                       ? ((est_var *)root->data)->value.data
                                       : root->data;
        }
    }
    for (int32_t k = 0; k < plan->n_items; k++) {
        est_item *item = &plan->items[k];
        if (item->late) continue; /* its own, grown when it runs */
        item->call.scratch = item->scratch_bytes > 0 ? plan->slab + item->scratch_offset : NULL;
    }
}

static void drop_heap(est_plan *plan)
{
    for (int32_t b = 0; b < plan->n_buffers; b++) {
        if (plan->buffers[b].kind == EST_BUFFER_HEAP) plan->device->free(plan->device, plan->buffers[b].data);
    }
    plan->n_buffers = 0;
}

void est_plan_free_buffers(est_plan *plan)
{
    drop_heap(plan);
    for (int32_t k = 0; k < plan->n_items && plan->items != NULL; k++) {
        if (plan->items[k].late) plan->device->free(plan->device, plan->items[k].call.scratch);
    }
    plan->device->free(plan->device, plan->slab);
    plan->slab = NULL;
}

est_status est_plan_layout(est_plan *plan)
{
    size_t     n         = (size_t)(plan->n_views + plan->n_items) + 1;
    int32_t   *last      = est_alloc(sizeof *last * n);
    place     *places    = est_alloc(sizeof *places * n);
    place    **by_offset = est_alloc(sizeof *by_offset * 2 * n);
    size_t    *vacant    = est_alloc(sizeof *vacant * n);
    est_status status;

    if (last == NULL || places == NULL || by_offset == NULL || vacant == NULL) {
        status = est_no_memory();
    } else {
        drop_heap(plan);
        for (int32_t v = 0; v < plan->n_views; v++) plan->slots[v].buffer = -1;
        find_last_uses(plan, last);
        assign_buffers(plan, last);
        send_home(plan);
        status = grow_slab(plan, place_all(places, list_places(plan, places), by_offset, by_offset + n, vacant));
        if (status == EST_OK) {
            list_views(plan);
            set_pointers(plan);
            plan->n_layouts++;
            plan->laid_out = true;
        }
    }
    est_free(last);
    est_free(places);
    est_free(by_offset);
    est_free(vacant);
    return status;
}
