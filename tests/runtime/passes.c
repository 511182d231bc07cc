/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes: what is folded, merged and fused, what must not be, and that numbers stay what they were. */
#include "base/random.h"
#include "estoc/estoc.h"
#include "graph/lower.h"
#include "ops/ops.h"
#include "runtime/pass.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

/* How many operations of that name (or with that beginning, when it ends in '*') the step runs. */
static int count_ops(est_step *step, const char *name)
{
    const est_plan *plan = est_step_plan(step);
    size_t          len  = strlen(name);
    int             n    = 0;

    for (int32_t k = 0; k < plan->n_items; k++) {
        const char *op = plan->items[k].call.node->op->name;
        n += name[len - 1] == '*' ? strncmp(op, name, len - 1) == 0 : strcmp(op, name) == 0;
    }
    return n;
}

static est_tensor *noise(est_shape shape, uint64_t key)
{
    est_tensor *t = NULL;

    assert_ok(est_tensor_create(EST_F32, shape, &t));
    est_random_fill_normal_f32(&(est_random){ key, 3, 0 }, 0, est_tensor_count(t), est_tensor_mutable_data(t));
    return t;
}

static est_node noise_const(est_graph *g, est_shape shape, uint64_t key)
{
    est_tensor *t    = noise(shape, key);
    est_node    node = est_const(g, t);

    est_tensor_free(t);
    return node;
}

/* Runs fetches with and without passes; values must agree to `tol` of the largest. Gives back the step with passes. */
#define FETCHES_MAX 8
typedef struct both {
    est_session *with, *without;
    est_step    *step;
} both;

static both run_both(est_graph *g, est_nodes feeds, const est_tensor *const *in, est_nodes fetches, double tol)
{
    both      b = { 0 };
    est_step *plain;

    assert_ok(est_session_create(g, EST_SESSION(.threads = 2), &b.with));
    assert_ok(est_session_create(g, EST_SESSION(.threads = 1, .no_passes = true), &b.without));
    assert_ok(est_session_init(b.with));
    assert_ok(est_session_init(b.without));
    assert_ok(est_session_prepare(b.with, feeds, fetches, (est_nodes){ 0 }, &b.step));
    assert_ok(est_session_prepare(b.without, feeds, fetches, (est_nodes){ 0 }, &plain));
    assert_ok(est_step_run(b.step, in));
    assert_ok(est_step_run(plain, in));
    for (int i = 0; i < fetches.n; i++) {
        const float *x = est_step_data(b.step, i), *y = est_step_data(plain, i);
        int64_t      n       = est_shape_count(est_step_shape(plain, i));
        double       largest = 0;
        assert_true(est_shape_equal(est_step_shape(b.step, i), est_step_shape(plain, i)));
        if (est_node_dtype(fetches.data[i]) != EST_F32) {
            assert_memory_equal(x, y, (size_t)n * est_dtype_size(est_node_dtype(fetches.data[i])));
            continue;
        }
        for (int64_t k = 0; k < n; k++) largest = fmax(largest, fabs((double)y[k]));
        for (int64_t k = 0; k < n; k++) {
            if (!(fabs((double)x[k] - (double)y[k]) <= tol * largest)) {
                fail_msg("fetch %d element %d is %g with passes, %g without", i, (int)k, (double)x[k], (double)y[k]);
            }
        }
    }
    return b;
}

static void end_both(both *b)
{
    est_session_free(b->with);
    est_session_free(b->without);
}

/* --- folding ------------------------------------------------------------------------------------------------------ */

TEST(constants_are_folded)
{
    nn_test     t  = nn_begin(1);
    est_node    x  = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1, 3)), c, y;
    est_tensor *in = noise(EST_SHAPE(2, 3), 1);

    c      = est_softmax(est_exp(noise_const(t.graph, EST_SHAPE(1, 3), 2)), -1);
    y      = est_mul(est_add(x, c), est_reduce_sum(c, EST_I64S(1), true));
    both b = run_both(t.graph, EST_NODES(x), (const est_tensor *[]){ in }, EST_NODES(y, c), 0);
    assert_int_equal(count_ops(b.step, "Exp") + count_ops(b.step, "Softmax") + count_ops(b.step, "Sum"), 0);
    end_both(&b);
    est_tensor_free(in);
    nn_end(&t);
}

TEST(what_differs_between_runs_is_not_folded)
{
    nn_test  t = nn_begin(1);
    est_node x = est_random_uniform(est_const_list(t.graph, EST_I64S(8)), EST_F32, 5), y = est_neg(x);
    double   a[8], b[8];

    nn_ready(&t);
    assert_int_equal(nn_fetch(&t, y, a, 8), 8);
    assert_int_equal(nn_fetch(&t, y, b, 8), 8);
    assert_memory_not_equal(a, b, sizeof a);
    nn_end(&t);
}

TEST(large_and_failing_constants_are_left_alone)
{
    nn_test     t = nn_begin(1);
    est_node    x = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE_SCALAR), zeros, bad;
    est_step   *step;
    est_tensor *out = NULL;

    zeros = est_fill(est_const_list(t.graph, EST_I64S(100, 1000)), est_scalar(t.graph, EST_F32, 0)); /* 400 KB */
    nn_ready(&t);
    assert_ok(
        est_session_prepare(t.session, EST_NODES(x), EST_NODES(est_sum(est_add(x, zeros))), (est_nodes){ 0 }, &step));
    assert_int_equal(count_ops(step, "Fill"), 1);
    bad = est_named(est_gather(noise_const(t.graph, EST_SHAPE(2, 2), 1),
                               est_const_i64(t.graph, EST_SHAPE(1), (const int64_t[]){ 7 }), 0),
                    "bad");
    assert_int_not_equal(est_session_run(t.session, EST_NO_FEEDS, EST_NODES(bad), (est_nodes){ 0 }, &out), EST_OK);
    assert_non_null(strstr(est_error_message(), "'bad'"));
    nn_end(&t);
}

/* --- merging ------------------------------------------------------------------------------------------------------ */

TEST(equal_operations_are_merged)
{
    nn_test  t = nn_begin(1);
    est_node x = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1, 3));
    est_node a = est_exp(est_neg(x)), b = est_exp(est_neg(x)), other = est_leaky_relu(x, 0.1),
             same  = est_leaky_relu(x, 0.2);
    est_tensor *in = noise(EST_SHAPE(2, 3), 1);

    both r = run_both(t.graph, EST_NODES(x), (const est_tensor *[]){ in }, EST_NODES(a, b, est_add(a, b), other, same),
                      0);
    assert_int_equal(count_ops(r.step, "Exp"), 1);
    assert_int_equal(count_ops(r.step, "Neg"), 1);
    assert_int_equal(count_ops(r.step, "LeakyRelu"), 2); /* attributes differ */
    end_both(&r);
    est_tensor_free(in);
    nn_end(&t);
}

static est_node string_const(est_graph *g, const char *text)
{
    est_tensor *t = NULL;
    est_node    node;

    assert_ok(est_tensor_string(text, strlen(text), &t));
    node = est_const(g, t);
    est_tensor_free(t);
    return node;
}

/* Strings by what they say, not by where they lie; checks as anything else. */
TEST(equal_strings_and_checks_are_merged)
{
    nn_test  t = nn_begin(1);
    est_node x = est_placeholder(t.graph, "x", EST_STRING, EST_SHAPE(-1));
    est_node n = est_placeholder(t.graph, "n", EST_I64, EST_SHAPE(-1));
    est_node a = est_equal(x, string_const(t.graph, "one")), b = est_equal(x, string_const(t.graph, "one")),
             c    = est_equal(x, string_const(t.graph, "two"));
    est_node    d = est_check_range(n, 0, 9, "n"), e = est_check_range(n, 0, 9, "n"), f = est_check_range(n, 0, 8, "n");
    est_tensor *in = NULL, *numbers = NULL;

    assert_ok(est_tensor_create_from(EST_STRING, EST_SHAPE(1), &(est_str){ "one", 3 }, &in));
    assert_ok(est_tensor_i64(EST_SHAPE(1), (const int64_t[]){ 5 }, &numbers));
    both r = run_both(t.graph, EST_NODES(x, n), (const est_tensor *[]){ in, numbers }, EST_NODES(a, b, c, d, e, f), 0);
    assert_int_equal(count_ops(r.step, "Equal"), 2);
    assert_int_equal(count_ops(r.step, "EstCheckRange"), 2);
    end_both(&r);
    est_tensor_free(in);
    est_tensor_free(numbers);
    nn_end(&t);
}

TEST(random_operations_and_placeholders_stay_apart)
{
    nn_test  t      = nn_begin(1);
    est_node x      = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1)),
             y      = est_placeholder(t.graph, "y", EST_F32, EST_SHAPE(-1));
    est_node    d   = est_sub(est_dropout(est_ones_like(x), 0.5, 3), est_dropout(est_ones_like(x), 0.5, 4));
    est_tensor *one = noise(EST_SHAPE(64), 1), *two = noise(EST_SHAPE(64), 2), *out[2];
    double      sum = 0;

    nn_ready(&t);
    assert_ok(est_session_run(t.session, EST_FEEDS({ x, one }, { y, two }), EST_NODES(est_sub(x, y), d),
                              (est_nodes){ 0 }, out));
    assert_near(nn_element(out[0], 5), nn_element(one, 5) - nn_element(two, 5), 1e-6);
    for (int64_t i = 0; i < 64; i++) sum += fabs(nn_element(out[1], i));
    assert_true(sum > 0);
    for (int i = 0; i < 2; i++) est_tensor_free(out[i]);
    est_tensor_free(one);
    est_tensor_free(two);
    nn_end(&t);
}

TEST(reads_on_two_sides_of_a_write_stay_apart)
{
    nn_test     t  = nn_begin(1);
    est_node    v  = est_variable(t.graph, "v", EST_F32, EST_SHAPE(3, 1)), fetches[8];
    est_node    at = est_const_i64(t.graph, EST_SHAPE(1), (const int64_t[]){ 1 });
    est_tensor *out[8];

    est_variable_initializer(v, nn_const(t.graph, EST_SHAPE(3, 1), NN_VALUES(1, 2, 3)));
    fetches[0]     = est_neg(est_read_variable(v));
    fetches[1]     = est_resource_gather(v, at);
    est_node first = est_assign_add(v, nn_const(t.graph, EST_SHAPE(3, 1), NN_VALUES(10, 10, 10)));
    fetches[2]     = est_neg(est_after(est_read_variable(v), first));
    fetches[3]     = est_after(est_resource_gather(v, at), first);
    fetches[4]     = est_neg(est_read_variable(v)); /* built later, waits for nothing: the old value */
    est_node next  = est_after(est_assign(v, est_scale(est_after(est_read_variable(v), first), 2)), first);
    fetches[5]     = est_neg(est_after(est_read_variable(v), next));
    fetches[6]     = est_after(est_resource_gather(v, at), next);
    fetches[7]     = est_identity(est_read_variable(v));
    for (int passes = 0; passes < 2; passes++) {
        static const double want[8] = { -2, 2, -12, 12, -2, -24, 24, 2 };
        est_session        *s       = NULL;
        assert_ok(est_session_create(t.graph, EST_SESSION(.no_passes = passes == 0), &s));
        assert_ok(est_session_init(s));
        assert_ok(est_session_run(s, EST_NO_FEEDS, (est_nodes){ fetches, 8 }, (est_nodes){ 0 }, out));
        for (int i = 0; i < 8; i++) {
            assert_near(nn_element(out[i], est_tensor_count(out[i]) == 1 ? 0 : 1), want[i], 0);
            est_tensor_free(out[i]);
        }
        est_session_free(s);
    }
    nn_end(&t);
}

/* Rows of a variable put back in another order: the update reads what it overwrites. */
TEST(an_update_may_read_the_variable_it_changes)
{
    nn_test  t  = nn_begin(1);
    est_node v  = est_variable(t.graph, "v", EST_F32, EST_SHAPE(3, 1));
    est_node at = est_const_i64(t.graph, EST_SHAPE(3), (const int64_t[]){ 2, 1, 0 });
    double   got[3];

    est_variable_initializer(v, nn_const(t.graph, EST_SHAPE(3, 1), NN_VALUES(1, 2, 3)));
    est_node flip  = est_scatter_update(v, at, est_read_variable(v));
    est_node twice = est_assign_add(v, est_read_variable(v));
    nn_ready(&t);
    nn_run(&t, flip);
    assert_int_equal(nn_read(&t, "v", got, 3), 3);
    assert_true(got[0] == 3 && got[1] == 2 && got[2] == 1);
    nn_run(&t, twice);
    assert_int_equal(nn_read(&t, "v", got, 3), 3);
    assert_true(got[0] == 6 && got[1] == 4 && got[2] == 2);
    nn_end(&t);
}

/* --- fusing: products --------------------------------------------------------------------------------------------- */

/* Rounding of a sum of k products done in another order: about sqrt(k) units of 2^-24, here with room for k <= 300. */
#define ROUNDING 4e-6

TEST(products_with_bias_and_relu)
{
    static const int64_t sizes[][3] = { { 1, 1, 1 },     { 3, 5, 7 },   { 17, 33, 9 },
                                        { 64, 300, 65 }, { 2, 8, 129 }, { 0, 3, 4 } };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int how = 0; how < 8; how++) {
            bool        ta = how & 1, tb = how & 2, relu = how & 4;
            int64_t     m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
            nn_test     t  = nn_begin(1);
            est_node    a  = est_placeholder(t.graph, "a", EST_F32, ta ? EST_SHAPE(k, -1) : EST_SHAPE(-1, k));
            est_node    y  = est_matmul_t(a, noise_const(t.graph, tb ? EST_SHAPE(n, k) : EST_SHAPE(k, n), 2), ta, tb);
            est_tensor *in = noise(ta ? EST_SHAPE(k, m) : EST_SHAPE(m, k), 3);
            y              = est_bias_add(y, noise_const(t.graph, EST_SHAPE(n), 4));
            if (relu) y = est_relu(y);
            both b = run_both(t.graph, EST_NODES(a), (const est_tensor *[]){ in }, EST_NODES(y), ROUNDING);
            assert_int_equal(count_ops(b.step, "EstMatMulBias"), 1);
            assert_int_equal(count_ops(b.step, "MatMul") + count_ops(b.step, "BiasAdd") + count_ops(b.step, "Relu"), 0);
            end_both(&b);
            est_tensor_free(in);
            nn_end(&t);
        }
    }
}

typedef struct mlp {
    nn_test     t;
    est_node    x, product, biased, active, loss;
    est_node    wrt[4];
    est_tensor *in;
} mlp;

static mlp begin_mlp(void)
{
    mlp      m = { .t = nn_begin(1) };
    est_node y;

    m.x       = est_placeholder(m.t.graph, "x", EST_F32, EST_SHAPE(-1, 5));
    m.wrt[0]  = noise_const(m.t.graph, EST_SHAPE(5, 9), 1);
    m.wrt[1]  = noise_const(m.t.graph, EST_SHAPE(9), 2);
    m.wrt[2]  = noise_const(m.t.graph, EST_SHAPE(9, 3), 3);
    m.wrt[3]  = noise_const(m.t.graph, EST_SHAPE(3), 4);
    m.product = est_matmul(m.x, m.wrt[0]);
    m.biased  = est_bias_add(m.product, m.wrt[1]);
    m.active  = est_relu(m.biased);
    y         = est_bias_add(est_matmul(m.active, m.wrt[2]), m.wrt[3]);
    m.loss    = est_sum(est_square(y));
    m.in      = noise(EST_SHAPE(7, 5), 9);
    return m;
}

static void end_mlp(mlp *m)
{
    est_tensor_free(m->in);
    nn_end(&m->t);
}

TEST(gradients_through_relu)
{
    mlp          m = begin_mlp();
    est_gradient g[4];

    est_gradients(m.loss, (est_nodes){ m.wrt, 4 }, g);
    both b = run_both(m.t.graph, EST_NODES(m.x), (const est_tensor *[]){ m.in },
                      EST_NODES(m.loss, g[0].values, g[1].values, g[2].values, g[3].values), 1e-5);
    assert_int_equal(count_ops(b.step, "EstMatMulReluGrad"), 1);
    assert_int_equal(count_ops(b.step, "EstMatMulBias"), 2);
    end_both(&b);
    end_mlp(&m);
}

/* --- on devices that run by themselves ---------------------------------------------------------------------------- */

/* The training step of a small wide & deep model with losses of one logit, or of three classes. */
static est_node small_wide_deep(est_graph *g, int units, int classes, est_node feeds[4], est_node *mean_loss)
{
    est_node deep[3], wide[2], x;

    feeds[2] = deep[2] = est_placeholder(g, "numbers", EST_F32, EST_SHAPE(-1, 3));
    feeds[3]           = est_placeholder(g, "labels", classes == 1 ? EST_F32 : EST_I32,
                               classes == 1 ? EST_SHAPE(-1, 1) : EST_SHAPE(-1));
    for (int f = 0; f < 2; f++) {
        feeds[f] = est_placeholder(g, f == 0 ? "a" : "b", EST_I64, EST_SHAPE(-1));
        deep[f]  = est_embedding(feeds[f], 50, 32, NULL); /* 67 columns in all, which become 68 */
        wide[f]  = est_embedding(feeds[f], 50, classes, NULL);
    }
    x          = est_dense(est_concat((est_nodes){ deep, 3 }, 1), units, EST_DENSE(.activation = est_relu));
    x          = est_add(est_dense(x, classes, NULL), est_add_n((est_nodes){ wide, 2 }));
    *mean_loss = est_mean(classes == 1 ? est_sigmoid_xent(x, feeds[3]) : est_sparse_softmax_xent(x, feeds[3]));
    return est_minimize(est_adagrad(0.1, NULL), *mean_loss, NULL);
}

/* How many operations of the name a step has on a device, after fusing. */
typedef struct fused {
    nn_test    t; /* the program, whose nodes the graph refers to */
    est_graph *graph;
    est_arena *arena;
    est_order  order;
} fused;

static const est_device_runs runs;

static fused fuse_as(est_device device, est_precision precision, int units, int classes)
{
    fused      f = { .t = nn_begin(1), .arena = est_arena_create() };
    est_node   feeds[4], loss, train;
    est_store *store = NULL;
    est_io io = { .feeds = feeds, .n_feeds = 4, .fetches = &loss, .n_fetches = 1, .targets = &train, .n_targets = 1 };

    (void)est_graph_precision(f.t.graph, precision);
    train = small_wide_deep(f.t.graph, units, classes, feeds, &loss);
    assert_ok(est_graph_status(f.t.graph));
    assert_ok(est_pass_extract(f.t.graph, &io, &f.graph));
    assert_ok(est_pass_merge(f.graph, &io, false));
    assert_ok(est_store_create(&store)); /* `devices` is looked at for whether there are any */
    assert_ok(est_pass_fold(f.graph, &io, store,
                            &(const est_plan_options){ .device = &est_device_cpu, .devices = (void *)&f }));
    est_store_free(store);
    assert_ok(est_pass_fuse(f.graph, &io, &device));
    assert_ok(est_order_make(f.graph, &io, f.arena, &f.order));
    return f;
}

static fused fuse_for(int classes, bool runs_by_itself)
{
    est_device device = est_device_cpu;

    if (runs_by_itself) device.runs = &runs;
    return fuse_as(device, EST_PRECISION_FLOAT32, 5, classes);
}

static int fused_ops(const fused *f, const char *name)
{
    int n = 0;

    for (int32_t k = 0; k < f->order.n; k++) {
        n += strcmp(est_graph_node(f->graph, f->order.nodes[k])->op->name, name) == 0;
    }
    return n;
}

static void end_fused(fused *f)
{
    est_order_clear(&f->order);
    est_graph_free(f->graph);
    est_arena_free(f->arena);
    nn_end(&f->t);
}

TEST(devices_that_run_by_themselves_get_fewer_passes)
{
    static const struct {
        const char *op;
        int         there, here;
    } of_one[] = { { "EstMatMulReluBiasGrad", 1, 0 },
                   { "EstSigmoidXentAndGrad", 1, 0 },
                   { "Mean", 0, 1 },
                   { "Sigmoid", 0, 1 },
                   { "EstGatherConcat", 1, 0 },
                   { "EstGatherSum", 1, 0 },
                   { "AddN", 0, 1 },
                   { "ResourceGather", 0, 4 },
                   { "EstConcatGrad", 0, 1 },
                   { "EstDedupSlice", 0, 0 },
                   { "EstDedup", 0, 4 },
                   { "EstSortIds", 2, 0 },
                   { "EstSumApplyAdagrad", 4, 0 },
                   { "ResourceSparseApplyAdagrad", 0, 4 },
                   { "EstSumToShape", 0, 2 },
                   { "EstPadRows", 1, 0 },
                   { "EstFirstRows", 1, 0 } };

    for (int there = 0; there < 2; there++) {
        fused f = fuse_for(1, there != 0);

        for (size_t i = 0; i < sizeof of_one / sizeof of_one[0]; i++) {
            int n = fused_ops(&f, of_one[i].op), want = there != 0 ? of_one[i].there : of_one[i].here;

            if (n != want) print_error("%s: %d instead of %d\n", of_one[i].op, n, want);
            assert_int_equal(n, want);
        }
        end_fused(&f);
        f = fuse_for(3, there != 0);
        assert_int_equal(fused_ops(&f, "EstSparseXentAndGrad"), there);
        assert_int_equal(fused_ops(&f, "Mean"), !there);
        end_fused(&f);
    }
}

static const est_kernel *kernels_of_gpu(const est_op *op)
{
    return op->cuda;
}

/* The factors of a layer's products have two bytes, all or none: a layer of few units, or of few inputs, has kernels of
 * its own. Rows of 67 such numbers become 72. */
TEST(rounded_factors_have_two_bytes_on_a_gpu)
{
    est_device gpu = est_device_cpu;

    gpu.runs    = &runs;
    gpu.kernels = kernels_of_gpu;
    for (int wide = 0; wide < 2; wide++) {
        fused f = fuse_as(gpu, EST_PRECISION_MIXED_BFLOAT16, wide != 0 ? 20 : 5, 1);

        assert_int_equal(fused_ops(&f, "EstPackBfloat16"), wide != 0 ? 3 : 0);
        assert_int_equal(fused_ops(&f, "EstRoundBfloat16"), wide != 0 ? 3 : 6);
        assert_int_equal(fused_ops(&f, "EstMatMulBfloat16"), wide != 0 ? 2 : 0);
        assert_int_equal(fused_ops(&f, "EstPadRows"), 1);
        for (int32_t k = 0; k < f.order.n; k++) {
            const est_node_def *n = est_graph_node(f.graph, f.order.nodes[k]);
            if (strcmp(n->op->name, "EstGatherConcat") == 0) assert_int_equal(n->shape[0].dim[1], 72);
        }
        end_fused(&f);
    }
}

TEST(what_is_fetched_is_not_fused_away)
{
    mlp m = begin_mlp();

    both b = run_both(m.t.graph, EST_NODES(m.x), (const est_tensor *[]){ m.in }, EST_NODES(m.product, m.loss), 1e-5);
    assert_int_equal(count_ops(b.step, "EstMatMulBias"), 1); /* only the other layer */
    assert_int_equal(count_ops(b.step, "MatMul"), 1);
    end_both(&b);
    b = run_both(m.t.graph, EST_NODES(m.x), (const est_tensor *[]){ m.in }, EST_NODES(m.biased, m.loss), 1e-5);
    assert_int_equal(count_ops(b.step, "EstMatMulBias"), 2);
    assert_int_equal(count_ops(b.step, "Relu"), 1); /* but not into the product */
    end_both(&b);
    b = run_both(m.t.graph, EST_NODES(m.x), (const est_tensor *[]){ m.in }, EST_NODES(m.active, m.loss), 1e-5);
    assert_int_equal(count_ops(b.step, "Relu"), 0);
    end_both(&b);
    end_mlp(&m);
}

TEST(what_others_look_at_is_not_fused_away)
{
    mlp      m     = begin_mlp();
    est_node other = est_sum(est_exp(est_neg(est_square(m.product))));

    both b = run_both(m.t.graph, EST_NODES(m.x), (const est_tensor *[]){ m.in }, EST_NODES(est_add(m.loss, other)),
                      1e-5);
    assert_int_equal(count_ops(b.step, "MatMul"), 1);
    end_both(&b);
    end_mlp(&m);
}

/* A wait is part of an operation: whatever replaces it must wait too, or the write is never run. */
TEST(fusing_keeps_waits)
{
    for (int which = 0; which < 3; which++) {
        nn_test     t  = nn_begin(1);
        est_node    v  = est_variable(t.graph, "v", EST_F32, EST_SHAPE(1));
        est_node    x  = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1, 2)), chain[3];
        est_tensor *in = noise(EST_SHAPE(3, 2), 1), *out = NULL;
        double      got = 0;

        est_variable_initializer(v, nn_const(t.graph, EST_SHAPE(1), NN_VALUES(1)));
        est_node write = est_assign_add(v, nn_const(t.graph, EST_SHAPE(1), NN_VALUES(1)));
        chain[0]       = est_matmul(x, noise_const(t.graph, EST_SHAPE(2, 2), 1));
        chain[1]       = est_bias_add(chain[0], noise_const(t.graph, EST_SHAPE(2), 1));
        chain[2]       = est_relu(chain[1]);
        (void)est_after(chain[which], write);
        nn_ready(&t);
        assert_ok(est_session_run(t.session, EST_FEEDS({ x, in }), EST_NODES(chain[2]), (est_nodes){ 0 }, &out));
        assert_int_equal(nn_read(&t, "v", &got, 1), 1);
        if (got != 2) fail_msg("the write that operation %d waits for did not run", which);
        est_tensor_free(in);
        est_tensor_free(out);
        nn_end(&t);
    }
}

/* --- fusing: convolution and pooling ------------------------------------------------------------------------------ */

typedef struct conv_case {
    int64_t batch, height, width, in, out;
    int     kernel;
    bool    fused;
} conv_case;

/* The filter is fed: a constant would be rounded before. */
static void conv_pool_once(const conv_case *c, bool train, bool peek, bool mixed)
{
    nn_test      t = nn_begin(1);
    est_node     x = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1, c->height, c->width, c->in)), wrt[2], y, act;
    est_node     fetches[4];
    est_shape    filter  = EST_SHAPE(c->kernel, c->kernel, c->in, c->out);
    est_tensor  *feeds[] = { noise(EST_SHAPE(c->batch, c->height, c->width, c->in), 1), noise(filter, 2) };
    est_gradient g[2];
    int          n = 0;

    wrt[0]       = est_placeholder(t.graph, "filter", EST_F32, filter);
    wrt[1]       = noise_const(t.graph, EST_SHAPE(c->out), 3);
    y            = mixed ? est_conv2d(est_round_bfloat16(x), est_round_bfloat16(wrt[0]), 1, 1, EST_VALID)
                         : est_conv2d(x, wrt[0], 1, 1, EST_VALID);
    act          = est_relu(est_bias_add(y, wrt[1]));
    y            = est_max_pool(act, 2, 2, 2, 2, EST_VALID);
    fetches[n++] = y;
    if (peek) fetches[n++] = act;
    if (train) {
        est_gradients(est_sum(est_square(y)), (est_nodes){ wrt, 2 }, g);
        fetches[n++] = g[0].values;
        fetches[n++] = g[1].values;
    }
    both b = run_both(t.graph, EST_NODES(x, wrt[0]), (const est_tensor *const *)feeds, (est_nodes){ fetches, n }, 2e-5);
    assert_int_equal(count_ops(b.step, "EstConvPool"), c->fused && !peek);
    assert_int_equal(count_ops(b.step, "EstConvPoolGrad"), c->fused && !peek && train);
    assert_int_equal(count_ops(b.step, "EstRoundBfloat16"), !mixed || (c->fused && !peek) ? 0 : train ? 3 : 2);
    end_both(&b);
    est_tensor_free(feeds[0]);
    est_tensor_free(feeds[1]);
    nn_end(&t);
}

TEST(convolutions_with_pooling)
{
    static const conv_case cases[] = {
        { 2, 12, 12, 1, 8, 3, true },  { 3, 13, 9, 1, 16, 3, true },   { 1, 7, 6, 3, 8, 2, true },
        { 5, 11, 15, 2, 24, 5, true }, { 2, 6, 6, 8, 32, 3, true },    { 1, 3, 3, 1, 8, 2, true },
        { 9, 10, 10, 1, 5, 3, false }, { 33, 28, 28, 1, 32, 3, true }, { 4, 5, 5, 1, 40, 4, true },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int how = 0; how < 8; how++) conv_pool_once(&cases[i], (how & 1) != 0, (how & 2) != 0, (how & 4) != 0);
    }
}

/* Several activations of one window may be equal, most often 0: the gradient goes to the same one either way. */
TEST(ties_in_a_window_go_the_same_way)
{
    nn_test      t     = nn_begin(1);
    est_node     x     = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1, 6, 6, 1)), wrt[2];
    est_tensor  *image = NULL;
    est_gradient g[2];

    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(2, 6, 6, 1), &image));
    for (int i = 0; i < 72; i++)
        ((float *)est_tensor_mutable_data(image))[i] = (float)(i / 4 % 3 - 1); /* few different values */
    wrt[0]     = est_const_f32(t.graph, EST_SHAPE(1, 1, 1, 8), (const float[8]){ 1, -1, 2, 0, 0.5f, -2, 1, 1 });
    wrt[1]     = est_const_f32(t.graph, EST_SHAPE(8), (const float[8]){ 0, 0, 1, 0, -1, 0.5f, 0, 0 });
    est_node y = est_max_pool(est_relu(est_bias_add(est_conv2d(x, wrt[0], 1, 1, EST_VALID), wrt[1])), 2, 2, 2, 2,
                              EST_VALID);
    est_gradients(est_sum(est_mul(y, noise_const(t.graph, EST_SHAPE(2, 3, 3, 8), 5))), (est_nodes){ wrt, 2 }, g);
    both b = run_both(t.graph, EST_NODES(x), (const est_tensor *[]){ image }, EST_NODES(y, g[0].values, g[1].values),
                      1e-6);
    assert_int_equal(count_ops(b.step, "EstConvPoolGrad"), 1);
    end_both(&b);
    est_tensor_free(image);
    nn_end(&t);
}

static void assert_all(nn_test *t, const char *name, float want)
{
    est_tensor *value = NULL;

    assert_ok(est_session_read(t->session, name, &value));
    for (int64_t i = 0; i < est_tensor_count(value); i++)
        assert_true(((const float *)est_tensor_data(value))[i] == want);
    est_tensor_free(value);
}

/* Zeros are not written into a new variable, but over any other value; that others look at the Fill changes nothing. It
 * is too large to be folded. */
TEST(constants_go_straight_into_variables)
{
    nn_test   t    = nn_begin(1);
    est_node  dims = est_const_i32(t.graph, EST_SHAPE(2), (const int32_t[]){ 200, 300 });
    est_node  zero = est_fill(dims, est_scalar(t.graph, EST_F32, 0));
    est_node  two  = est_fill(dims, est_scalar(t.graph, EST_F32, 2));
    est_node  v    = est_variable(t.graph, "v", EST_F32, EST_SHAPE(200, 300));
    est_node  w    = est_variable(t.graph, "w", EST_F32, EST_SHAPE(200, 300));
    est_step *step;

    est_variable_initializer(v, zero);
    est_variable_initializer(w, two);
    est_node add   = est_assign_add(v, two);
    est_node reset = est_assign(v, zero);
    est_node seen  = est_neg(zero);
    nn_ready(&t);
    for (int round = 0; round < 2; round++) {
        assert_all(&t, "v", 0);
        nn_run(&t, add);
        assert_all(&t, "v", 2);
        assert_ok(est_session_prepare(t.session, EST_NO_NODES, EST_NODES(seen), EST_NODES(reset), &step));
        assert_ok(est_step_run(step, NULL));
        assert_int_equal(count_ops(step, "EstAssignFill"), 1);
        assert_int_equal(count_ops(step, "AssignVariableOp"), 0);
    }
    assert_all(&t, "w", 2);
    nn_end(&t);
}

/* Four bags, one of them with weights, and a part that is fed, joined. */
typedef struct joined {
    nn_test         t;
    est_node        tables[4], bags[4], part, whole;
    est_ragged_node ids;
} joined;

static joined build_joined(bool after_write)
{
    static const int64_t widths[] = { 8, 3, 16, 2 };
    joined               j        = { .t = nn_begin(1) };
    est_graph           *g        = j.t.graph;
    est_node             part;

    j.part = part = est_placeholder(g, "part", EST_F32, EST_SHAPE(-1, 2));
    j.ids         = (est_ragged_node){ est_placeholder(g, "ids", EST_I64, EST_SHAPE(-1)),
                                       est_placeholder(g, "splits", EST_I64, EST_SHAPE(-1)) };
    for (int k = 0; k < 4; k++) {
        est_node weights = k == 1 ? est_cast(est_ones_like(j.ids.values), EST_F32) : EST_NO_NODE;
        char     name[]  = { 'a', (char)('0' + k), '\0' };

        j.tables[k] = est_variable(g, name, EST_F32, EST_SHAPE(9, widths[k]));
        est_variable_initializer(j.tables[k], noise_const(g, EST_SHAPE(9, widths[k]), (uint64_t)k));
        j.bags[k] = est_embedding_bag(j.tables[k], j.ids, weights, k == 2 ? EST_COMBINE_SUM : EST_COMBINE_MEAN, 0);
    }
    if (after_write) {
        est_node write = est_assign(j.tables[0], est_fill(est_const_i32(g, EST_SHAPE(2), (const int32_t[]){ 9, 8 }),
                                                          est_scalar(g, EST_F32, 0)));

        part = est_after(est_neg(part), write);
    }
    j.whole = est_concat(EST_NODES(j.bags[0], part, j.bags[1], j.bags[2], j.bags[3]), 1);
    return j;
}

/* Lookups write into what they are joined into, and their gradients read from it, bit for bit the same; what something
 * else looks at is a part like others. */
TEST(bags_are_joined_where_they_are_made)
{
    est_tensor *ids = NULL, *splits = NULL, *part = noise(EST_SHAPE(4, 2), 9);

    assert_ok(est_tensor_i64(EST_SHAPE(7), (const int64_t[]){ 3, 8, 3, 0, -1, 5, 3 }, &ids));
    assert_ok(est_tensor_i64(EST_SHAPE(5), (const int64_t[]){ 0, 2, 2, 6, 7 }, &splits));
    for (int peek = 0; peek < 2; peek++) {
        joined       j = build_joined(false);
        est_gradient g[4];
        est_node     fetches[8];
        both         b;

        est_gradients(est_sum(est_square(j.whole)), (est_nodes){ j.tables, 4 }, g);
        for (int k = 0; k < 4; k++) {
            fetches[2 * k]     = g[k].values;
            fetches[2 * k + 1] = est_cast(g[k].indices, EST_F32);
        }
        if (peek) fetches[0] = j.bags[0];
        b = run_both(j.t.graph, EST_NODES(j.part, j.ids.values, j.ids.splits),
                     (const est_tensor *const[]){ part, ids, splits }, (est_nodes){ fetches, 8 }, 0);
        assert_int_equal(count_ops(b.step, "EstEmbeddingBagConcat"), 1);
        assert_int_equal(count_ops(b.step, "EstEmbeddingBag"), 1 + peek);
        assert_int_equal(count_ops(b.step, "EstEmbeddingBagSliceGrad"), 4);
        assert_int_equal(count_ops(b.step, "EstEmbeddingBagGrad"), 0);
        assert_int_equal(count_ops(b.step, "ConcatV2"), 0);
        assert_int_equal(count_ops(b.step, "EstConcatGrad"), 0);
        end_both(&b);
        nn_end(&j.t);
    }
    est_tensor_free(ids);
    est_tensor_free(splits);
    est_tensor_free(part);
}

/* More parts than an op has bits to say which of its inputs it looks at: no bag is looked up for its shape alone. */
TEST(many_bags_are_looked_up_once)
{
    enum { BAGS = 40 };
    nn_test         t      = nn_begin(1);
    est_node        table  = est_variable(t.graph, "table", EST_F32, EST_SHAPE(9, 2)), w, parts[BAGS + 1];
    est_ragged_node ids    = { est_placeholder(t.graph, "ids", EST_I64, EST_SHAPE(-1)),
                               est_placeholder(t.graph, "splits", EST_I64, EST_SHAPE(-1)) };
    est_tensor     *values = NULL, *splits = NULL;
    est_gradient    g;
    both            b;

    est_variable_initializer(table, noise_const(t.graph, EST_SHAPE(9, 2), 1));
    w = est_variable(t.graph, "w", EST_F32, EST_SHAPE(2, 3));
    est_variable_initializer(w, noise_const(t.graph, EST_SHAPE(2, 3), 2));
    for (int k = 0; k < BAGS; k++) parts[k] = est_embedding_bag(table, ids, EST_NO_NODE, EST_COMBINE_SUM, 0);
    parts[BAGS] = est_read_variable(w);
    est_gradients(est_sum(est_square(est_concat((est_nodes){ parts, BAGS + 1 }, 1))), (est_nodes){ &w, 1 }, &g);
    assert_ok(est_tensor_i64(EST_SHAPE(3), (const int64_t[]){ 4, 4, 0 }, &values));
    assert_ok(est_tensor_i64(EST_SHAPE(3), (const int64_t[]){ 0, 1, 3 }, &splits));
    b = run_both(t.graph, EST_NODES(ids.values, ids.splits), (const est_tensor *const[]){ values, splits },
                 EST_NODES(g.values), 0);
    assert_int_equal(count_ops(b.step, "EstEmbeddingBagConcat"), 1);
    for (int32_t k = 0; k < est_step_plan(b.step)->n_items; k++) {
        const est_item *item = &est_step_plan(b.step)->items[k];
        assert_true(item->kernel == NULL || strcmp(item->call.node->op->name, "EstEmbeddingBag") != 0);
    }
    end_both(&b);
    nn_end(&t);
    est_tensor_free(values);
    est_tensor_free(splits);
}

/* Part of the whole comes after a write to a table that is looked up before it. */
TEST(bags_that_a_write_waits_for_stay_apart)
{
    joined      j   = build_joined(true);
    est_tensor *ids = NULL, *splits = NULL, *part = noise(EST_SHAPE(1, 2), 9);
    both        b;

    assert_ok(est_tensor_i64(EST_SHAPE(1), (const int64_t[]){ 4 }, &ids));
    assert_ok(est_tensor_i64(EST_SHAPE(2), (const int64_t[]){ 0, 1 }, &splits));
    b = run_both(j.t.graph, EST_NODES(j.part, j.ids.values, j.ids.splits),
                 (const est_tensor *const[]){ part, ids, splits }, EST_NODES(j.whole), 0);
    assert_int_equal(count_ops(b.step, "EstEmbeddingBagConcat"), 0);
    assert_true(((const float *)est_step_data(b.step, 0))[0] != 0);
    end_both(&b);
    nn_end(&j.t);
    est_tensor_free(ids);
    est_tensor_free(splits);
    est_tensor_free(part);
}

/* --- what was lowered --------------------------------------------------------------------------------------------- */

enum { LOWERED_MAX = 6 };

/* Results over ragged ids in TensorFlow's ops, as an export has them. */
typedef struct lowered {
    est_graph *g;
    est_node   in[3]; /* ids, splits and weights */
    est_node   out[LOWERED_MAX];
    int        n_out;
} lowered;

static est_node find_node(est_graph *g, const char *name)
{
    for (int32_t id = 0; id < est_graph_size(g); id++) {
        if (strcmp(est_graph_node(g, id)->name, name) == 0) return (est_node){ g, id, 0 };
    }
    fail_msg("the graph has no node '%s'", name);
    return EST_NO_NODE;
}

/* Takes t. All of the graph is lowered, so that its variables keep their initializers. */
static lowered lower(nn_test *t, const est_node *in, est_nodes out)
{
    lowered l = { .n_out = out.n };

    assert_ok(est_graph_lower(t->graph, NULL, 0, &l.g));
    for (int i = 0; i < 3; i++) l.in[i] = find_node(l.g, est_def(in[i])->name);
    for (int i = 0; i < out.n; i++) l.out[i] = find_node(l.g, est_def(out.data[i])->name);
    nn_end(t);
    return l;
}

static void begin_lowered(nn_test *t, est_node *table, est_node in[3])
{
    *t     = nn_begin(1);
    *table = est_variable(t->graph, "table", EST_F32, EST_SHAPE(9, 5));
    est_variable_initializer(*table, noise_const(t->graph, EST_SHAPE(9, 5), 4));
    in[0] = est_placeholder(t->graph, "ids", EST_I64, EST_SHAPE(-1));
    in[1] = est_placeholder(t->graph, "splits", EST_I64, EST_SHAPE(-1));
    in[2] = est_placeholder(t->graph, "weights", EST_F32, EST_SHAPE(-1));
}

/* Bags with each combiner, without weights and with. */
static lowered lower_bags(double max_norm)
{
    nn_test  t;
    est_node table, in[3], bags[LOWERED_MAX];

    begin_lowered(&t, &table, in);
    for (int k = 0; k < LOWERED_MAX; k++) {
        bags[k] = est_embedding_bag(table, (est_ragged_node){ in[0], in[1] }, k % 2 == 1 ? in[2] : EST_NO_NODE,
                                    EST_COMBINE_MEAN + k / 2, max_norm);
    }
    return lower(&t, in, (est_nodes){ bags, LOWERED_MAX });
}

/* The first n of the results, and `last` if it is a node. Weights are powers of two, whose products are exact: the two
 * ways agree bit for bit. */
static both run_lowered(const lowered *l, int n, est_node last)
{
    est_tensor *in[3] = { NULL };
    est_node    fetches[LOWERED_MAX + 1];
    both        b;

    assert_ok(est_tensor_i64(EST_SHAPE(8), (const int64_t[]){ 3, 8, 3, 0, -1, 5, 3, 1 }, &in[0]));
    assert_ok(est_tensor_i64(EST_SHAPE(6), (const int64_t[]){ 0, 2, 2, 6, 7, 8 }, &in[1]));
    assert_ok(est_tensor_f32(EST_SHAPE(8), (const float[]){ 0.5F, 2, 1, 0.25F, 1, 4, -2, 0 }, &in[2]));
    memcpy(fetches, l->out, sizeof l->out);
    fetches[n] = last;
    b          = run_both(l->g, (est_nodes){ l->in, 3 }, (const est_tensor *const *)in,
                          (est_nodes){ fetches, n + (last.graph != NULL) }, 0);
    for (int i = 0; i < 3; i++) est_tensor_free(in[i]);
    return b;
}

static void end_lowered(lowered *l, both *b)
{
    end_both(b);
    est_graph_free(l->g);
}

TEST(bags_of_exported_models_are_bags_again)
{
    lowered l = lower_bags(0);
    both    b = run_lowered(&l, LOWERED_MAX, EST_NO_NODE);

    assert_int_equal(count_ops(b.step, "EstEmbeddingBag"), LOWERED_MAX);
    for (int32_t k = 0; k < est_step_plan(b.step)->n_items; k++) { /* nothing is left of the others */
        const est_op *op = est_step_plan(b.step)->items[k].call.node->op;
        assert_true(op == &est_op_embedding_bag || op->source != EST_SOURCE_NONE);
    }
    end_lowered(&l, &b);
}

TEST(bags_with_a_norm_stay_lowered)
{
    lowered l = lower_bags(0.5);
    both    b = run_lowered(&l, LOWERED_MAX, EST_NO_NODE);

    assert_int_equal(count_ops(b.step, "EstEmbeddingBag"), 0);
    end_lowered(&l, &b);
}

/* Lookups see the value from before a write that nothing orders them with. */
TEST(bags_of_a_step_that_writes_stay_lowered)
{
    lowered  l     = lower_bags(0);
    est_node table = find_node(l.g, "table"), old, write, sum;
    both     b;

    old = est_read_variable(est_variable(l.g, "other", EST_F32, EST_SHAPE(9, 5)));
    est_variable_initializer(find_node(l.g, "other"), noise_const(l.g, EST_SHAPE(9, 5), 5));
    write = est_assign(table, est_zeros_like(old));
    sum   = est_after(est_sum(old), write);
    b     = run_lowered(&l, LOWERED_MAX, sum);
    assert_int_equal(count_ops(b.step, "EstEmbeddingBag"), 0);
    assert_int_equal(count_ops(b.step, "AssignVariableOp") + count_ops(b.step, "EstAssignFill"), 1);
    end_lowered(&l, &b);
}

/* A sum that is what a bag becomes, or differs from it in one thing. */
enum { A_BAG, OTHER_CONSTANT, OTHER_ROWS, TWO_INPUTS, WAITS, N_SUMS };

static est_node sum_by_hand(est_node table, const est_node in[3], int kind)
{
    est_graph *g      = table.graph;
    est_node   keep   = est_greater_equal(in[0], est_scalar(g, EST_I64, kind == OTHER_CONSTANT ? 1 : 0));
    est_node   places = est_squeeze(est_where(keep), EST_I64S(1)), ids = est_gather(in[0], places, 0), rows, e, n_rows;

    rows   = est_gather(est_row_ids(in[1], in[0]), places, 0);
    n_rows = est_sub(est_size(kind == TWO_INPUTS ? in[2] : in[1]), est_scalar(g, EST_I32, 1));
    if (kind == OTHER_ROWS) rows = est_neg(est_neg(rows));
    e = est_resource_gather(table, ids);
    if (kind == WAITS) e = est_after(e, n_rows);
    return est_unsorted_segment_sum(est_mul(e, est_expand_dims(est_cast(est_ones_like(ids), EST_F32), 1)), rows,
                                    n_rows);
}

TEST(what_only_looks_like_a_bag_stays)
{
    for (int kind = 0; kind < N_SUMS; kind++) {
        nn_test  t;
        est_node table, in[3], sum;
        lowered  l;
        both     b;

        begin_lowered(&t, &table, in);
        sum = sum_by_hand(table, in, kind);
        l   = lower(&t, in, EST_NODES(sum));
        b   = run_lowered(&l, 1, EST_NO_NODE);
        assert_int_equal(count_ops(b.step, "EstEmbeddingBag"), kind == A_BAG);
        assert_int_equal(count_ops(b.step, "UnsortedSegmentSum"), kind != A_BAG);
        end_lowered(&l, &b);
    }
}

TEST(no_memory_to_look_for_bags)
{
    lowered l = lower_bags(0);

    FAULT_LOOP(f, FAULT_PLACES, .more_than = 20) {
        est_session *session = NULL;
        est_step    *step    = NULL;
        est_status   status;

        assert_ok(est_session_create(l.g, EST_SESSION(.threads = 1), &session));
        fault_arm(&f);
        status = est_session_prepare(session, (est_nodes){ l.in, 3 }, (est_nodes){ l.out, 2 }, EST_NO_NODES, &step);
        fault_check(&f, status);
        est_session_free(session);
    }
    est_graph_free(l.g);
}
