/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that runs out: every single allocation between an empty graph and the second training step fails once. Each
 * time the failure is reported as what it is, everything can be freed (the sanitizers watch), and what had been made
 * before goes on working: the same call made again succeeds and gives the same numbers. */
#include "base/fault.h"

#include "base/random.h"
#include "estoc/estoc.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"
#include "support/sanitized.h"

#define STEPS 3

typedef struct model {
    est_graph   *g;
    est_session *s;
    est_step    *step;
    est_node     x, id, label, loss, train;
} model;

typedef enum flavour { DENSE_ADAM, SPARSE_ADAGRAD, CONV_MOMENTUM, RAGGED_FTRL, FLAVOURS } flavour;

/* Ids as rows of unequal length, crossed with what they are in writing. */
static est_node crossed(est_node id)
{
    est_ragged_node rows  = est_ragged_from_dense(id);
    est_ragged_node text  = { est_as_string(rows.values), rows.splits };
    est_ragged_node cross = est_ragged_cross((est_ragged_nodes){ (const est_ragged_node[]){ rows, text }, 2 }, 11, 0);
    est_ragged_node hash  = { est_string_to_hash_bucket(text.values, 5), text.splits };

    return est_concat(EST_NODES(est_embedding(cross.values, 11, 3, EST_EMBEDDING(.splits = cross.splits)),
                                est_check_range(est_multi_hot(hash, EST_NO_NODE, 5), 0, 1, "counts")),
                      1);
}

static est_node logits_of(const model *m, flavour kind)
{
    est_node x = m->x;

    if (kind == SPARSE_ADAGRAD) {
        est_node distinct = est_unique(m->id, NULL); /* a size that only the step knows */
        x                 = est_concat(EST_NODES(x, est_embedding(m->id, 11, 3, NULL)), 1);
        x                 = est_add(x, est_cast(est_reduce_max(distinct, EST_ALL_AXES, false), EST_F32));
    }
    if (kind == RAGGED_FTRL) x = est_concat(EST_NODES(x, crossed(m->id)), 1);
    if (kind == CONV_MOMENTUM) {
        x = est_reshape(x, EST_I64S(-1, 4, 4, 1));
        x = est_max_pool2d(est_conv2d_layer(x, 8, 3, EST_CONV2D(.activation = est_relu)), 2, NULL);
        x = est_flatten(est_batch_norm(x, true, NULL));
    }
    x = est_dense(x, 7, EST_DENSE(.activation = est_relu, .kernel_regularizer = est_l2_regularizer(0.01)));
    return est_dense(est_dropout_layer(x, 0.2, true), 3, NULL);
}

static est_status build(model *m, flavour kind)
{
    EST_TRY(est_graph_create(5, &m->g));
    m->x     = est_placeholder(m->g, "x", EST_F32, EST_SHAPE(-1, 16));
    m->id    = est_placeholder(m->g, "id", EST_I64, EST_SHAPE(-1));
    m->label = est_placeholder(m->g, "label", EST_I32, EST_SHAPE(-1));
    m->loss  = est_mean(est_sparse_softmax_xent(logits_of(m, kind), m->label));
    m->loss  = est_add(m->loss, est_regularization_loss(m->g));
    switch (kind) {
    case DENSE_ADAM: m->train = est_minimize(est_adam(0.01, NULL), m->loss, EST_MINIMIZE(.clip_global_norm = 5)); break;
    case RAGGED_FTRL: m->train = est_minimize(est_ftrl(0.1, NULL), m->loss, NULL); break;
    case SPARSE_ADAGRAD: m->train = est_minimize(est_adagrad(0.1, NULL), m->loss, NULL); break;
    default: m->train = est_minimize(est_momentum(0.1, NULL), m->loss, NULL); break;
    }
    return est_graph_status(m->g);
}

/* What a program does, one call at a time: `at` says which is next, so that one can be made again. */
enum { BUILD, CREATE, INIT, PREPARE, RUN, END = RUN + STEPS };

typedef struct batch {
    est_tensor *feed[3];
} batch;

static est_status call(model *m, flavour kind, const batch *batches, int at, float losses[STEPS])
{
    switch (at) {
    case BUILD: return build(m, kind);
    case CREATE: return est_session_create(m->g, EST_SESSION(.threads = 2), &m->s);
    case INIT: return est_session_init(m->s);
    case PREPARE:
        if (kind == SPARSE_ADAGRAD || kind == RAGGED_FTRL) {
            return est_session_prepare(m->s, EST_NODES(m->x, m->label, m->id), EST_NODES(m->loss), EST_NODES(m->train),
                                       &m->step);
        }
        return est_session_prepare(m->s, EST_NODES(m->x, m->label), EST_NODES(m->loss), EST_NODES(m->train), &m->step);
    default:
        EST_TRY(est_step_run(m->step, (const est_tensor *const *)batches[at - RUN].feed));
        losses[at - RUN] = *(const float *)est_step_data(m->step, 0);
        return EST_OK;
    }
}

static void free_model(model *m)
{
    est_session_free(m->s);
    est_graph_free(m->g);
    *m = (model){ 0 };
}

static void make_batches(batch batches[STEPS])
{
    static const int64_t sizes[STEPS] = { 4, 9, 6 }; /* grows once */

    for (int i = 0; i < STEPS; i++) {
        assert_ok(est_tensor_create(EST_F32, EST_SHAPE(sizes[i], 16), &batches[i].feed[0]));
        assert_ok(est_tensor_create(EST_I32, EST_SHAPE(sizes[i]), &batches[i].feed[1]));
        assert_ok(est_tensor_create(EST_I64, EST_SHAPE(sizes[i]), &batches[i].feed[2]));
        est_random_fill_normal_f32(&(est_random){ 1, (uint64_t)i, 0 }, 0, 16 * sizes[i],
                                   est_tensor_mutable_data(batches[i].feed[0]));
        est_random_fill_int_i32(&(est_random){ 2, (uint64_t)i, 0 }, 0, sizes[i], 0, 3,
                                est_tensor_mutable_data(batches[i].feed[1]));
        est_random_fill_int_i64(&(est_random){ 3, (uint64_t)i, 0 }, 0, sizes[i], 0, 11,
                                est_tensor_mutable_data(batches[i].feed[2]));
    }
}

static void free_batches(batch batches[STEPS])
{
    for (int i = 0; i < STEPS; i++) {
        for (int f = 0; f < 3; f++) est_tensor_free(batches[i].feed[f]);
    }
}

/* Runs the program with one allocation failing. */
static void survive(flavour kind, const batch *batches, fault_loop *f, const float want[STEPS])
{
    model m = { 0 };
    float losses[STEPS];

    fault_arm(f);
    for (int at = BUILD; at < END; at++) {
        est_status status = call(&m, kind, batches, at, losses);
        if (status == EST_OK) continue;
        if (status != EST_RESOURCE_EXHAUSTED || !est_fault_fired()) {
            fail_msg("allocation %d, call %d: %s: %s", (int)f->n, at, est_status_name(status), est_error_message());
        }
        assert_true(est_error_message()[0] != '\0');
        if (at == BUILD) free_model(&m); /* a poisoned graph is built again */
        at--;                            /* once more, with memory */
    }
    (void)fault_end(f);
    for (int i = 0; i < STEPS; i++) {
        if (losses[i] != want[i]) {
            fail_msg("allocation %d: loss %d is %.9g instead of %.9g", (int)f->n, i, (double)losses[i],
                     (double)want[i]);
        }
    }
    free_model(&m);
}

/* The thread sanitizer looks for races, which many of the allocations would show alike; that nothing leaks whichever of
 * them fails is for the address sanitizer, which has them all. A prime, so that each kind of allocation has its
 * turn. */
#define STRIDE (EST_TEST_TSAN ? 31 : 1)

static void survive_all(flavour kind)
{
    batch batches[STEPS];
    float want[STEPS];
    model m = { 0 };

    make_batches(batches);
    for (int at = BUILD; at < END; at++) assert_ok(call(&m, kind, batches, at, want));
    free_model(&m);
    assert_true(want[0] != want[1]);
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 100 / STRIDE) {
        survive(kind, batches, &f, want);
        f.n += STRIDE - 1;
    }
    free_batches(batches);
}

TEST(dense_model)
{
    survive_all(DENSE_ADAM);
}

TEST(sparse_model)
{
    survive_all(SPARSE_ADAGRAD);
}

TEST(ragged_model)
{
    survive_all(RAGGED_FTRL);
}

TEST(convolution_model)
{
    survive_all(CONV_MOMENTUM);
}

/* --- runs that make tensors, sizes that are only known late ------------------------------------------------------- */

static est_status run_late(est_session *s, est_node n, est_node y, const est_tensor *size, est_tensor **out)
{
    return est_session_run(s, EST_FEEDS({ n, size }), EST_NODES(y, n), (est_nodes){ 0 }, out);
}

TEST(late_sizes)
{
    FAULT_LOOP(l, FAULT_ALLOCATIONS) {
        nn_test     t   = nn_begin(1);
        est_node    n   = est_placeholder(t.graph, "n", EST_I64, EST_SHAPE(1));
        est_node    y   = est_reduce_sum(est_fill(n, est_scalar(t.graph, EST_F32, 1)), EST_ALL_AXES, false);
        est_tensor *few = NULL, *many = NULL, *out[2];

        assert_ok(est_tensor_i64(EST_SHAPE(1), (const int64_t[]){ 3 }, &few));
        assert_ok(est_tensor_i64(EST_SHAPE(1), (const int64_t[]){ 200000 }, &many));
        nn_ready(&t);
        fault_arm(&l);
        for (int i = 0; i < 4; i++) {
            est_status status = run_late(t.session, n, y, i % 2 == 0 ? few : many, out);
            if (status != EST_OK) {
                assert_int_equal(status, EST_RESOURCE_EXHAUSTED);
                i--;
                continue;
            }
            assert_near(nn_element(out[0], 0), i % 2 == 0 ? 3 : 200000, 0);
            for (int f = 0; f < 2; f++) est_tensor_free(out[f]);
        }
        (void)fault_end(&l);
        est_tensor_free(few);
        est_tensor_free(many);
        nn_end(&t);
    }
}
