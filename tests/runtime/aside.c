/* SPDX-License-Identifier: Apache-2.0
 *
 * Side lanes of plans on a device that runs by itself: what is needed late stands aside, in memory that is its own for
 * so long, and gives what it gives elsewhere. The far device runs it late. */
#include <math.h>

#include "base/pool.h"
#include "estoc/estoc.h"
#include "ops/ops.h"
#include "runtime/record.h"
#include "support/far_device.h"
#include "support/nn_test.h"
#include "support/plan_check.h"
#include "support/test.h"

#define COLUMNS 64

/* z = -x; two operations on z that only the end needs, and meanwhile a chain of others, of which each product gets
 * memory of its own. */
static est_node build(est_node x, int chain)
{
    est_node z = est_neg(x), late = est_reduce_max(est_exp(z), EST_I64S(1), true), y = z;

    for (int i = 0; i < chain; i++) y = i % 2 == 0 ? est_mul(y, y) : est_sqrt(y);
    return est_add(y, late);
}

static float expected(const float *row, int column, int chain)
{
    float y = -row[column], late = 0;

    for (int i = 0; i < COLUMNS; i++) late = fmaxf(late, expf(-row[i]));
    for (int i = 0; i < chain; i++) y = i % 2 == 0 ? y * y : sqrtf(y);
    return y + late;
}

static int aside_of(const est_plan *plan, const char *op)
{
    for (int32_t k = 0; k < plan->n_items; k++) {
        if (strcmp(plan->items[k].call.node->op->name, op) == 0) return plan->items[k].aside;
    }
    fail_msg("the plan has no %s", op);
    return -1;
}

/* The same with a product that only the end needs, of COLUMNS^2 multiplications a row. */
static est_node build_product(est_node x, int chain)
{
    est_node z = est_neg(x), late = est_matmul_t(z, z, true, false), y = z;

    for (int i = 0; i < chain; i++) y = i % 2 == 0 ? est_mul(y, y) : est_sqrt(y);
    return est_matmul(y, late);
}

typedef struct lane_test {
    nn_test    t;
    est_store *store;
    est_queue *queue;
    est_plan  *plan;
} lane_test;

static lane_test begin_with(est_node (*make)(est_node x, int chain), int chain)
{
    const est_device *far = est_far_devices[0];
    lane_test         l   = { .t = nn_begin(1) };
    est_node          x = est_placeholder(l.t.graph, "x", EST_F32, EST_SHAPE(-1, COLUMNS)), y = make(x, chain);
    est_io            io = { .feeds = &x, .n_feeds = 1, .fetches = &y, .n_fetches = 1 };

    assert_ok(est_graph_status(l.t.graph));
    assert_ok(est_store_create(&l.store));
    assert_ok(far->runs->open(far, &l.queue));
    assert_ok(
        est_plan_create(l.t.graph, &io, l.store, &(est_plan_options){ .device = far, .queue = l.queue }, &l.plan));
    return l;
}

static lane_test begin(int chain)
{
    return begin_with(build, chain);
}

static void end(lane_test *l)
{
    est_plan_free(l->plan);
    est_far_devices[0]->runs->close(l->queue);
    est_store_free(l->store);
    nn_end(&l->t);
}

/* Ones, for build_product. */
static void run_product(lane_test *l, int64_t rows)
{
    est_tensor     *x;
    const est_view *y;

    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(rows, COLUMNS), &x));
    for (int64_t i = 0; i < rows * COLUMNS; i++) ((float *)est_tensor_mutable_data(x))[i] = 1;
    est_view       view = { est_tensor_mutable_data(x), EST_F32, EST_SHAPE(rows, COLUMNS), rows * COLUMNS };
    est_plan_input in   = { .view = &view };
    assert_ok(est_plan_start(l->plan, &in, 1));
    assert_ok(est_plan_finish(l->plan, &y));
    for (int64_t i = 0; i < rows * COLUMNS; i++) assert_true(((const float *)y->data)[i] == (float)(COLUMNS * rows));
    est_tensor_free(x);
}

static void run(lane_test *l, int64_t rows, int chain)
{
    est_tensor     *x;
    const est_view *y;
    plan_facts      facts = { 0 };

    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(rows, COLUMNS), &x));
    for (int64_t i = 0; i < rows * COLUMNS; i++) ((float *)est_tensor_mutable_data(x))[i] = (float)(i % 23) / 10 - 1;
    est_view       view = { est_tensor_mutable_data(x), EST_F32, EST_SHAPE(rows, COLUMNS), rows * COLUMNS };
    est_plan_input in   = { .view = &view };
    assert_ok(est_plan_start(l->plan, &in, 1));
    assert_ok(est_plan_finish(l->plan, &y));
    for (int64_t i = 0; i < rows * COLUMNS; i++) {
        float want = expected((const float *)view.data + i / COLUMNS * COLUMNS, (int)(i % COLUMNS), chain),
              have = ((const float *)y->data)[i];

        if (fabsf(have - want) > 1e-5f * (1 + fabsf(want)))
            fail_msg("element %d: %g instead of %g", (int)i, have, want);
    }
    plan_check(l->plan, "aside", &facts);
    est_tensor_free(x);
}

TEST(what_is_needed_late_stands_aside)
{
    lane_test l = begin(8);

    for (int i = 0; i < 4; i++) run(&l, 16384, 8);
    assert_true(aside_of(l.plan, "Exp") >= 0);
    assert_int_equal(aside_of(l.plan, "Max"), aside_of(l.plan, "Exp"));
    assert_int_equal(aside_of(l.plan, "Neg"), -1);
    assert_int_equal(aside_of(l.plan, "Sqrt"), -1);
    assert_int_equal(l.plan->waves[l.plan->n_waves - 1].meets, 1u << aside_of(l.plan, "Exp"));
    end(&l);
}

TEST(small_kernels_stand_aside)
{
    lane_test l = begin(8);

    run(&l, 8, 8);
    assert_true(aside_of(l.plan, "Exp") >= 0);
    end(&l);
}

/* What nothing waits for until the end, with another one like it in the same wave. */
static est_node build_two(est_node x, int chain)
{
    est_node z = est_neg(x), first = est_exp(z), second = est_abs(z), y = z;

    for (int i = 0; i < chain; i++) y = i % 2 == 0 ? est_mul(y, y) : est_sqrt(y);
    return est_add(est_add(y, first), second);
}

TEST(each_of_a_wave_has_its_own_lane)
{
    lane_test       l    = begin_with(build_two, 8);
    float           in   = 1;
    est_view        view = { &in, EST_F32, EST_SHAPE(0, COLUMNS), 0 };
    const est_view *y;

    assert_ok(est_plan_start(l.plan, &(est_plan_input){ .view = &view }, 1));
    assert_ok(est_plan_finish(l.plan, &y));
    assert_true(aside_of(l.plan, "Exp") >= 0 && aside_of(l.plan, "Abs") >= 0);
    assert_int_not_equal(aside_of(l.plan, "Exp"), aside_of(l.plan, "Abs"));
    end(&l);
}

/* What stood aside for the sizes of a batch is chosen again for those of the next. */
TEST(larger_batches_choose_again)
{
    lane_test l = begin_with(build_product, 8);

    run_product(&l, 16384);
    assert_int_equal(aside_of(l.plan, "MatMul"), -1);
    run_product(&l, 32768);
    assert_true(aside_of(l.plan, "MatMul") >= 0);
    end(&l);
}

TEST(what_has_nothing_beside_it_stays)
{
    lane_test l = begin(1);

    run(&l, 16384, 1);
    assert_int_equal(aside_of(l.plan, "Exp"), -1);
    end(&l);
}

TEST(large_products_stand_aside)
{
    lane_test l = begin_with(build_product, 8);

    run_product(&l, 32768); /* 2^27 multiplications */
    assert_true(aside_of(l.plan, "MatMul") >= 0);
    end(&l);
    l = begin_with(build_product, 8);
    run_product(&l, 16384);
    assert_int_equal(aside_of(l.plan, "MatMul"), -1);
    end(&l);
}

int main(void)
{
    return est_test_run(NULL, NULL);
}
