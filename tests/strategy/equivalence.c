/* SPDX-License-Identifier: Apache-2.0
 *
 * n replicas with parts of a batch train as one replica with the whole of it: every optimizer, dense variables and
 * tables of rows, gradients that are summed and gradients that are averaged by examples, parts of equal and of unequal
 * size, in one process and in several workers.
 *
 * Variables are float64. Sums of at most 24 terms in another order differ by some 24 * 2^-53 of their terms, and 20
 * steps of optimizers that divide by roots of gradients multiply that by some thousands at the most: 1e-10 is far
 * above, and far below what one wrong example would make. */
#include "device/devices.h"
#include "graph/variable.h"
#include "runtime/session.h"
#include "strategy/replicas_build.h"
#include "strategy/strategy.h"
#include "support/far_device.h"
#include "support/memory_communicator.h"
#include "support/nn_test.h"

#define ROWS      24
#define FEATURES  3
#define STEPS     20
#define TOLERANCE 1e-10

static double  features[ROWS * FEATURES], labels[ROWS];
static int64_t ids[ROWS];

/* Numbers without a pattern, exact in float32. */
static void fill_data(void)
{
    uint32_t x = 12345;

    for (int i = 0; i < ROWS * FEATURES; i++) {
        x           = x * 1664525u + 1013904223u;
        features[i] = (double)(x >> 16) / 65536 - 0.5;
    }
    for (int i = 0; i < ROWS; i++) {
        ids[i]    = (i * i + 3) % 7; /* some more than once in every part, some in one part only */
        labels[i] = features[FEATURES * i] - 0.5 * features[FEATURES * i + 1] + 0.125 * (double)ids[i];
    }
}

/* --- the model ---------------------------------------------------------------------------------------------------- */

typedef struct model {
    est_optimizer        optimizer;
    bool                 sums;   /* gradients are summed: the loss is divided by all examples */
    bool                 by_sum; /* the loss is a sum, which the optimizer finds out */
    double               l2;     /* of the kernels */
    int                  cut[5]; /* where the parts begin; [n]: ROWS */
    int                  n;      /* of parts */
    est_minimize_options minimize;
    const est_strategy  *strategy; /* whose devices the replicas are on; NULL: the default */
    est_graph           *graph;
    est_node             train[4], loss[4];
} model;

static est_node part_of(est_graph *graph, const double *values, int columns, int begin, int end)
{
    return est_cast(nn_const(graph, EST_SHAPE(end - begin, columns), values + begin * columns), EST_F64);
}

static est_status build_part(int replica, void *user)
{
    model          *m     = user;
    int             begin = m->cut[replica], end = m->cut[replica + 1];
    est_regularizer l2 = m->l2 > 0 ? est_l2_regularizer(m->l2) : (est_regularizer){ 0 };
    est_node        x = part_of(m->graph, features, FEATURES, begin, end), y = part_of(m->graph, labels, 1, begin, end);
    est_node        id = est_const_i64(m->graph, EST_SHAPE(end - begin), ids + begin), table, each, error;

    est_strategy_pin(m->strategy, m->graph, replica);
    table            = est_weight(m->graph, "table", EST_SHAPE(7, 2),
                                  EST_WEIGHT(.dtype = EST_F64, .initializer = est_init_random_uniform(-1, 1, 5)));
    x                = est_concat(EST_NODES(x, est_resource_gather(table, id)), 1);
    x                = est_dense(x, 4, EST_DENSE(.activation = est_tanh, .kernel_regularizer = l2));
    x                = est_dense(x, 1, EST_DENSE(.kernel_regularizer = l2));
    error            = est_squared_difference(x, y);
    each             = est_reshape(error, EST_I64S(-1));
    m->loss[replica] = m->sums ? est_compute_average_loss(each, EST_NO_NODE, ROWS) : est_mean(each);
    if (m->by_sum) m->loss[replica] = est_loss_reduce(each, EST_LOSS(.reduction = EST_LOSS_SUM));
    if (m->l2 > 0) {
        est_node cost    = est_cast(est_regularization_loss(m->graph), EST_F64);
        cost             = m->sums ? est_scale_regularization_loss(cost) : cost;
        m->loss[replica] = est_add(m->loss[replica], cost);
    }
    m->train[replica] = est_minimize(m->optimizer, m->loss[replica], &m->minimize);
    return est_graph_status(m->graph);
}

/* All variables after the steps, and the loss before each. */
typedef struct outcome {
    double losses[STEPS], values[1024];
    int    n;
} outcome;

/* Whether the copies of all variables that have any are equal to the variable; how many there are. */
static int check_copies(est_session *session)
{
    est_store *store;
    int        n = 0;

    assert_ok(est_session_store(session, &store));
    for (int i = 0; i < est_store_size(store); i++) {
        const est_var *var = est_store_at(store, i);
        est_tensor    *x = NULL, *y = NULL;

        for (int k = 0; k < var->n_copies; k++, n++) {
            assert_ptr_not_equal(var->copies[k]->device, var->device);
            assert_ok(est_var_read(var, NULL, &x));
            assert_ok(est_var_read(var->copies[k], NULL, &y));
            if (memcmp(est_tensor_data(x), est_tensor_data(y), est_tensor_bytes(x)) != 0) {
                fail_msg("the copies of %s differ", var->name);
            }
            est_tensor_free(x);
            est_tensor_free(y);
        }
    }
    return n;
}

static void run_model(model *m, outcome *out)
{
    nn_test      t = nn_begin(3);
    est_replicas r = { .n            = m->n,
                       .total        = m->n,
                       .gradients    = m->sums ? EST_REDUCE_OP_SUM : EST_REDUCE_OP_MEAN,
                       .by_loss      = m->by_sum,
                       .merge_device = est_strategy_merge_device(m->strategy) };
    est_node     weight[4];
    est_node     loss;

    m->graph                = t.graph;
    m->minimize.struct_size = sizeof m->minimize;
    for (int i = 0; i < m->n; i++) weight[i] = est_scalar(t.graph, EST_F32, m->cut[i + 1] - m->cut[i]);
    if (!m->sums) r.weight = weight;
    assert_ok(est_replicas_build(t.graph, r, build_part, m));
    loss = est_scale(m->loss[0], m->sums || m->by_sum ? 1 : (m->cut[1] - m->cut[0]) / (double)ROWS);
    for (int i = 1; i < m->n; i++) {
        double share = m->sums || m->by_sum ? 1 : (m->cut[i + 1] - m->cut[i]) / (double)ROWS;
        loss         = est_add(loss, est_scale(m->loss[i], share));
        assert_int_equal(m->train[i].id, m->train[0].id);
    }
    assert_ok(est_graph_status(t.graph));
    assert_ok(est_session_create(t.graph, EST_SESSION(.threads = 1, .devices = est_strategy_devices(m->strategy)),
                                 &t.session));
    assert_ok(est_session_init(t.session));
    for (int s = 0; s < STEPS; s++) {
        est_tensor *value = NULL;

        assert_ok(est_session_run(t.session, EST_NO_FEEDS, EST_NODES(loss), EST_NODES(m->train[0]), &value));
        out->losses[s] = nn_element(value, 0);
        est_tensor_free(value);
    }
    out->n = 0;
    for (int i = 0; i < est_session_variables(t.session); i++) {
        out->n += (int)nn_read(&t, est_session_variable(t.session, i), out->values + out->n, 1024 - out->n);
        assert_true(out->n <= 1024);
    }
    assert_int_equal(check_copies(t.session) > 4, r.merge_device != NULL); /* of the weights, and of slots */
    nn_end(&t);
}

static void compare(const outcome *got, const outcome *want, double tolerance, const char *what)
{
    if (got->n != want->n) fail_msg("%s: %d numbers in variables, expected %d", what, got->n, want->n);
    for (int i = 0; i < got->n; i++) {
        if (!(fabs(got->values[i] - want->values[i]) <= tolerance * fmax(1, fabs(want->values[i])))) {
            fail_msg("%s: number %d is %.17g, expected %.17g", what, i, got->values[i], want->values[i]);
        }
    }
    for (int s = 0; s < STEPS; s++) {
        if (!(fabs(got->losses[s] - want->losses[s]) <= tolerance)) {
            fail_msg("%s: the loss of step %d is %.17g, expected %.17g", what, s, got->losses[s], want->losses[s]);
        }
    }
}

/* --- equal parts, every optimizer --------------------------------------------------------------------------------- */

typedef struct named_optimizer {
    const char   *name;
    est_optimizer optimizer;
} named_optimizer;

static int all_optimizers(named_optimizer *out)
{
    named_optimizer list[] = {
        { "sgd", est_sgd(0.1) },
        { "momentum", est_momentum(0.05, NULL) },
        { "nesterov", est_momentum(0.05, EST_MOMENTUM(.nesterov = true)) },
        { "keras momentum", est_momentum(0.05, EST_MOMENTUM(.keras = true)) },
        { "adagrad", est_adagrad(0.1, NULL) },
        { "keras adagrad", est_adagrad(0.1, EST_ADAGRAD(.keras = true)) },
        { "adam", est_adam(0.01, NULL) },
        { "keras adam", est_adam(0.01, EST_ADAM(.keras = true)) },
        { "nesterov adam", est_adam(0.01, EST_ADAM(.nesterov = true)) },
        { "lazy adam", est_adam(0.01, EST_ADAM(.lazy = true)) },
        { "rms_prop", est_rms_prop(0.01, NULL) },
        { "centered rms_prop", est_rms_prop(0.01, EST_RMS_PROP(.centered = true, .momentum = 0.5)) },
        { "keras rms_prop", est_rms_prop(0.01, EST_RMS_PROP(.keras = true)) },
        { "keras centered rms_prop", est_rms_prop(0.01, EST_RMS_PROP(.keras = true, .centered = true)) },
        { "ftrl", est_ftrl(0.1, EST_FTRL(.l1 = 0.001, .l2 = 0.01)) },
        { "keras ftrl", est_ftrl(0.1, EST_FTRL(.keras = true, .l2_shrinkage = 0.01)) },
        { "adadelta", est_adadelta(1, NULL) },
        { "newer rms_prop", est_rms_prop(0.01, EST_RMS_PROP(.keras = true, .epsilon_inside = true)) },
        { "adamax", est_adamax(0.01, NULL) },
        { "nadam", est_nadam(0.01, NULL) },
        { "scheduled sgd", est_with_schedule(est_sgd(0.1), est_exponential_decay(0.1, 5, 0.5, false)) },
    };

    memcpy(out, list, sizeof list);
    return (int)(sizeof list / sizeof list[0]);
}

static void cut_evenly(model *m, int n)
{
    m->n = n;
    for (int i = 0; i <= n; i++) m->cut[i] = i * ROWS / n;
}

TEST(optimizers)
{
    named_optimizer list[32];
    int             n = all_optimizers(list);

    for (int k = 0; k < n; k++) {
        for (int sums = 0; sums < 2; sums++) {
            outcome want, got;
            model   m = { .optimizer = list[k].optimizer, .sums = sums != 0 };

            cut_evenly(&m, 1);
            run_model(&m, &want);
            if (!(fabs(want.losses[STEPS - 1] - want.losses[0]) > 1e-3)) fail_msg("%s does not move", list[k].name);
            for (int parts = 2; parts <= 4; parts++) {
                char what[64];

                snprintf(what, sizeof what, "%s, %s, %d replicas", list[k].name, sums ? "sum" : "mean", parts);
                cut_evenly(&m, parts);
                run_model(&m, &got);
                compare(&got, &want, TOLERANCE, what);
            }
        }
    }
}

/* --- several devices ---------------------------------------------------------------------------------------------- */

/* Each replica on a device of its own, with its copies of the variables. Of the optimizers those that compute something
 * beside their updates: of variables of their own, of rows, of all gradients or of the weights. */
TEST(devices)
{
    static const int uneven[5] = { 0, 0, ROWS };
    named_optimizer  list[]    = {
            { "adam", est_adam(0.01, NULL) },
            { "lazy adam", est_adam(0.01, EST_ADAM(.lazy = true)) },
            { "nadam", est_nadam(0.01, NULL) },
            { "keras ftrl", est_ftrl(0.1, EST_FTRL(.keras = true, .l2_shrinkage = 0.01)) },
            { "clipped sgd", est_with_clipping(est_sgd(0.1), 0, 0, 0.25) },
            { "decayed adam", est_with_weight_decay(est_adam(0.01, NULL), 0.01, EST_STRINGS("bias")) },
    };
    size_t        n        = est_far_device_is_used() ? sizeof list / sizeof list[0] : 1; /* the stand-in takes long */
    est_strategy *strategy = NULL;

    if (est_device_find("GPU", 1) == NULL) skip();
    assert_ok(est_mirrored_strategy(EST_MIRRORED(.devices = EST_STRINGS("/gpu:0", "/gpu:1")), &strategy));
    for (size_t k = 0; k < n; k++) {
        outcome want, got;
        model   m = { .optimizer = list[k].optimizer };

        cut_evenly(&m, 1);
        run_model(&m, &want);
        m.strategy = strategy;
        cut_evenly(&m, 2);
        run_model(&m, &got);
        compare(&got, &want, TOLERANCE, list[k].name);
        if (k > 0) continue;
        memcpy(m.cut, uneven, sizeof m.cut);
        run_model(&m, &got);
        memcpy(got.losses, want.losses, sizeof got.losses); /* the mean of nothing is NaN */
        compare(&got, &want, TOLERANCE, "a device without examples");
    }
    est_strategy_free(strategy);
}

/* --- parts of unequal size ---------------------------------------------------------------------------------------- */

TEST(unequal_parts)
{
    static const int cuts[][6] = { { 2, 0, 5, 24 }, { 3, 0, 1, 2, 24 }, { 4, 0, 11, 11, 20, 24 }, { 2, 0, 24, 24 } };
    outcome          want, got;
    model            m = { .optimizer = est_adam(0.01, NULL) };

    cut_evenly(&m, 1);
    run_model(&m, &want);
    for (size_t k = 0; k < sizeof cuts / sizeof cuts[0]; k++) {
        char what[64];

        m.n = cuts[k][0];
        memcpy(m.cut, cuts[k] + 1, sizeof m.cut);
        for (int sums = 0; sums < 2; sums++) {
            bool empty = m.n == 4 || m.cut[m.n - 1] == ROWS;

            snprintf(what, sizeof what, "cut %zu, %s", k, sums ? "sum" : "mean");
            m.sums = sums != 0;
            run_model(&m, &got);
            if (empty && !m.sums) memcpy(got.losses, want.losses, sizeof got.losses); /* the mean of nothing is NaN */
            compare(&got, &want, TOLERANCE, what);
        }
    }
}

/* --- workers ------------------------------------------------------------------------------------------------------ */

typedef struct worker {
    nn_test    t;
    model      m;
    est_status status;
    outcome    out;
} worker;

static void train_worker(void *user, int rank)
{
    worker *w = (worker *)user + rank;

    for (int s = 0; s < STEPS && w->status == EST_OK; s++) {
        w->status = est_session_run(w->t.session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(w->m.train[0]), NULL);
    }
}

/* As many replicas in each of the workers; `like` has the cuts of all. */
static void run_workers(const model *like, int workers, int replicas, const outcome *want, const char *what)
{
    memory_communicator *communicator = memory_communicator_create(workers);
    worker               all[4];

    for (int k = 0; k < workers; k++) {
        worker      *w = &all[k];
        est_node     weight[4];
        est_replicas r = {
            .n = replicas, .first_global = k * replicas, .total = workers * replicas, .across_workers = true
        };

        *w                        = (worker){ .t = nn_begin(3), .m = *like };
        w->m.graph                = w->t.graph;
        w->m.minimize.struct_size = sizeof w->m.minimize;
        memcpy(w->m.cut, like->cut + k * replicas, sizeof *w->m.cut * (size_t)(replicas + 1));
        for (int i = 0; i < replicas; i++) {
            weight[i] = est_scalar(w->t.graph, EST_F32, w->m.cut[i + 1] - w->m.cut[i]);
        }
        if (!like->sums) r.weight = weight;
        r.gradients = like->sums ? EST_REDUCE_OP_SUM : EST_REDUCE_OP_MEAN;
        r.by_loss   = like->by_sum;
        assert_ok(est_replicas_build(w->t.graph, r, build_part, &w->m));
        assert_ok(est_session_create(w->t.graph,
                                     EST_SESSION(.threads = 1, .communicator = memory_communicator_of(communicator, k)),
                                     &w->t.session));
        assert_ok(est_session_init(w->t.session));
    }
    memory_communicator_run(workers, train_worker, all);
    for (int k = 0; k < workers; k++) {
        worker *w = &all[k];

        if (w->status != EST_OK) fail_msg("%s: worker %d: %s", what, k, est_status_name(w->status));
        memcpy(w->out.losses, want->losses, sizeof want->losses);
        for (int i = 0; i < est_session_variables(w->t.session); i++) {
            w->out.n += (int)nn_read(&w->t, est_session_variable(w->t.session, i), w->out.values + w->out.n,
                                     1024 - w->out.n);
        }
        compare(&w->out, want, TOLERANCE, what);
        if (k > 0) assert_memory_equal(w->out.values, all[0].out.values, sizeof(double) * (size_t)w->out.n);
        nn_end(&w->t);
    }
    memory_communicator_free(communicator);
}

TEST(workers)
{
    static const int uneven[5] = { 0, 7, 7, 21, 24 };
    named_optimizer  list[32];
    int              n = all_optimizers(list);

    for (int k = 0; k < n; k++) {
        outcome want;
        model   m = { .optimizer = list[k].optimizer };

        cut_evenly(&m, 1);
        run_model(&m, &want);
        for (int sums = 0; sums < 2; sums++) {
            char what[64];

            m.sums = sums != 0;
            snprintf(what, sizeof what, "%s, %s of workers", list[k].name, sums ? "sum" : "mean");
            cut_evenly(&m, 3);
            run_workers(&m, 3, 1, &want, what);
            memcpy(m.cut, uneven, sizeof m.cut);
            run_workers(&m, 2, 2, &want, what);
            run_workers(&m, 4, 1, &want, what); /* one of them without any example */
        }
    }
}

/* --- what else belongs to a loss ---------------------------------------------------------------------------------- */

/* est_regularization_loss is float32: its gradient has 24 bits. */
TEST(regularizers)
{
    outcome want, got, without;
    model   m = { .optimizer = est_sgd(0.1), .l2 = 0.125 };

    cut_evenly(&m, 1);
    run_model(&m, &want);
    for (int sums = 0; sums < 2; sums++) {
        for (int parts = 2; parts <= 4; parts++) {
            m.sums = sums != 0;
            cut_evenly(&m, parts);
            run_model(&m, &got);
            compare(&got, &want, 1e-6, "l2");
        }
    }
    m.l2 = 0;
    run_model(&m, &without);
    assert_true(fabs(without.values[0] - want.values[0]) + fabs(without.values[20] - want.values[20]) > 1e-3);
}

/* Each replica clips its own gradients, as TensorFlow does: with one replica it is what it always was. */
TEST(clipping)
{
    outcome got, want;
    model   m = { .optimizer = est_sgd(0.1), .minimize = { .clip_norm = 0.05 } };
    nn_test t = nn_begin(3);

    cut_evenly(&m, 1);
    run_model(&m, &got);
    m.graph = t.graph;
    (void)build_part(0, &m); /* without replicas at all */
    nn_ready(&t);
    for (int s = 0; s < STEPS; s++) {
        est_tensor *value = NULL;

        assert_ok(est_session_run(t.session, EST_NO_FEEDS, EST_NODES(m.loss[0]), EST_NODES(m.train[0]), &value));
        want.losses[s] = nn_element(value, 0);
        est_tensor_free(value);
    }
    want.n = 0;
    for (int i = 0; i < est_session_variables(t.session); i++) {
        want.n += (int)nn_read(&t, est_session_variable(t.session, i), want.values + want.n, 1024 - want.n);
    }
    nn_end(&t);
    compare(&got, &want, 0, "one replica and none");
}

/* --- losses that are sums ----------------------------------------------------------------------------------------- */

TEST(sums)
{
    static const int cuts[][6] = { { 2, 0, 12, 24 }, { 2, 0, 5, 24 }, { 4, 0, 11, 11, 20, 24 } };
    outcome          want, got;
    model            m = { .optimizer = est_sgd(0.005), .by_sum = true };

    cut_evenly(&m, 1);
    run_model(&m, &want);
    for (size_t k = 0; k < sizeof cuts / sizeof cuts[0]; k++) {
        m.n = cuts[k][0];
        memcpy(m.cut, cuts[k] + 1, sizeof m.cut);
        run_model(&m, &got);
        compare(&got, &want, TOLERANCE, "a sum");
        if (m.n == 4) run_workers(&m, 2, 2, &want, "a sum of workers");
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    fill_data();
    return est_test_run(NULL, NULL);
}
