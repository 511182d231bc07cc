/* SPDX-License-Identifier: Apache-2.0
 *
 * See plan_check.h. */
#include "support/plan_check.h"

#include <stdlib.h>

#include "support/nn_test.h"

static int lane_of(const est_plan *plan, int32_t item)
{
    const est_plan_wave *g    = &plan->waves[plan->wave_of[item]];
    int                  lane = 0;

    while (g->n_lanes > 1 && plan->step_of[item] >= g->lane_end[lane]) lane++;
    return lane;
}

/* Whether item a is over before item b starts. What stands aside is over when it is met, or for what follows it in its
 * lane. */
static bool comes_before(const est_plan *plan, int32_t a, int32_t b)
{
    int32_t lane = plan->items[a].aside;

    if (lane >= 0 && b < plan->items[a].met && plan->items[b].aside != lane) return false;
    if (lane >= 0 || plan->items[b].aside >= 0) return plan->wave_of[a] < plan->wave_of[b];
    if (plan->wave_of[a] != plan->wave_of[b]) return plan->wave_of[a] < plan->wave_of[b];
    return lane_of(plan, a) == lane_of(plan, b) && plan->step_of[a] < plan->step_of[b];
}

static bool looks_at(const est_plan *plan, int32_t item, int32_t root)
{
    const est_item *k = &plan->items[item];

    for (int i = 0; i < k->call.n_in; i++) {
        bool shape_only = i < 32 && (k->call.node->op->shape_only >> i & 1) != 0;
        bool integers   = k->call.in[i]->dtype == EST_I32 || k->call.in[i]->dtype == EST_I64;
        bool reads      = k->kernel != NULL ? !shape_only : integers; /* without a kernel: only to know its shape */
        if (reads && plan->slots[est_view_index(plan, k->call.in[i])].root == root) return true;
    }
    return false;
}

static bool is_kept(const est_plan *plan, int32_t root)
{
    for (int32_t v = 0; v < plan->n_views; v++) {
        if (plan->slots[v].root == root && plan->slots[v].kept) return true;
    }
    return false;
}

/* Whether the value behind `root` is made and dead before item k starts; k itself may look at it when it writes over
 * it. */
static bool dead_before(const est_plan *plan, int32_t root, int32_t k, bool k_may_look)
{
    if (is_kept(plan, root) || !comes_before(plan, plan->slots[root].maker, k)) return false;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        int32_t item = plan->steps[s];
        if (!looks_at(plan, item, root)) continue;
        if (item == k && k_may_look) continue;
        if (!comes_before(plan, item, k)) return false;
    }
    return true;
}

static bool may_write_over(const est_plan *plan, int32_t out, int32_t in_root)
{
    const est_item *k = &plan->items[plan->slots[out].maker];

    for (int i = 0; i < k->call.n_in && i < 32; i++) {
        int32_t in = est_view_index(plan, k->call.in[i]);
        if (plan->slots[in].root == in_root && (k->call.node->op->inplace >> i & 1) != 0 &&
            plan->views[in].data == plan->views[out].data && plan->views[in].count == plan->views[out].count) {
            return out == k->first_view;
        }
    }
    return false;
}

/* A range of bytes in the slab, of a value or of scratch. */
typedef struct range {
    const char *begin, *end;
    int32_t     root; /* -1: scratch */
    int32_t     item; /* its maker */
} range;

static bool apart(const est_plan *plan, const range *a, const range *b)
{
    if (a->end <= b->begin || b->end <= a->begin) return true;
    if (a->root < 0 && b->root < 0) return comes_before(plan, a->item, b->item) || comes_before(plan, b->item, a->item);
    if (a->root < 0) return apart(plan, b, a);
    if (dead_before(plan, a->root, b->item, b->root >= 0 && may_write_over(plan, b->root, a->root))) return true;
    if (b->root < 0) return comes_before(plan, b->item, a->item);
    return dead_before(plan, b->root, a->item, may_write_over(plan, a->root, b->root));
}

/* The variable an item reads or writes through input i, or NULL; reads go through aliases of its memory too. */
static const void *variable_at(const est_plan *plan, const est_item *item, int i)
{
    int32_t         root  = plan->slots[est_view_index(plan, item->call.in[i])].root;
    const est_item *maker = &plan->items[plan->slots[root].maker];

    return maker->call.node->op->source == EST_SOURCE_VARIABLE ? maker->call.out[0].data : NULL;
}

static bool clash_over_variable(const est_plan *plan, const est_item *writer, const est_item *other)
{
    for (int i = 0; i < writer->call.n_in; i++) {
        if ((writer->call.node->op->writes >> i & 1) == 0) continue;
        for (int k = 0; k < other->call.n_in; k++) {
            if (variable_at(plan, other, k) == variable_at(plan, writer, i)) return true;
        }
    }
    return false;
}

/* Whatever an item needs is made before, and nothing touches a variable while it is written. */
static void check_order(const est_plan *plan, const char *label)
{
    for (int32_t s = 0; s < plan->n_steps; s++) {
        int32_t         k    = plan->steps[s];
        const est_item *item = &plan->items[k];
        for (int i = 0; i < item->call.n_in && item->kernel != NULL; i++) {
            int32_t maker = plan->slots[plan->slots[est_view_index(plan, item->call.in[i])].root].maker;
            if (plan->items[maker].kernel != NULL && !comes_before(plan, maker, k)) {
                fail_msg("%s: '%s' does not wait for '%s'", label, item->call.node->name,
                         plan->items[maker].call.node->name);
            }
        }
        for (int32_t r = 0; r < plan->n_steps && item->call.node->op->writes != 0; r++) {
            int32_t other = plan->steps[r];
            if (other == k || !clash_over_variable(plan, item, &plan->items[other])) continue;
            if (!comes_before(plan, other, k) && !comes_before(plan, k, other)) {
                fail_msg("%s: '%s' and '%s' meet over a variable", label, item->call.node->name,
                         plan->items[other].call.node->name);
            }
        }
    }
}

static void check_memory(const est_plan *plan, const char *label, plan_facts *s)
{
    range  *ranges = calloc((size_t)(plan->n_views + plan->n_items) + 1, sizeof *ranges);
    int32_t n      = 0;

    for (int32_t v = 0; v < plan->n_views; v++) {
        const char *at = plan->views[v].data;
        if (plan->slots[v].root != v || at < plan->slab || at >= plan->slab + plan->slab_bytes) continue;
        if (plan->items[plan->slots[v].maker].kernel == NULL) continue;
        assert_true(plan->slots[v].buffer >= 0);
        if (plan->slots[v].capacity == 0) continue;
        ranges[n++] = (range){ at, at + plan->slots[v].capacity, v, plan->slots[v].maker };
        assert_true(ranges[n - 1].end <= plan->slab + plan->slab_bytes);
        s->inplace += plan->slots[v].inplace >= 0;
    }
    for (int32_t k = 0; k < plan->n_items; k++) {
        const est_item *item = &plan->items[k];
        if (item->scratch_bytes > 0 && item->kernel != NULL) {
            ranges[n++] = (range){ item->call.scratch, (char *)item->call.scratch + item->scratch_bytes, -1, k };
        }
        s->copies += item->copied;
        s->heap += item->late && item->kernel != NULL;
        s->dynamic += item->dynamic;
        s->fused += strncmp(item->call.node->op->name, "EstMatMul", 9) == 0;
    }
    for (int32_t a = 0; a < n; a++) {
        for (int32_t b = 0; b < a; b++) {
            if (!apart(plan, &ranges[a], &ranges[b])) {
                fail_msg("%s: '%s' and '%s' share memory while both are needed", label,
                         plan->items[ranges[a].item].call.node->name, plan->items[ranges[b].item].call.node->name);
            }
        }
    }
    for (int32_t g = 0; g < plan->n_waves; g++) s->lanes += plan->waves[g].n_lanes > 1;
    free(ranges);
}

void plan_check(const est_plan *plan, const char *label, plan_facts *facts)
{
    check_order(plan, label);
    check_memory(plan, label, facts);
}
