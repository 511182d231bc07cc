/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of models in replicas: batch normalisation, every metric, feature columns, embeddings of raw keys. What has a
 * state must be in the state that the whole batch would have left. */
#include "estoc/feature_column.h"
#include "strategy/replicas_build.h"
#include "support/memory_communicator.h"
#include "support/nn_test.h"

#define ROWS 12

/* Where three replicas cut 12 rows, and where one does not. */
static const int cuts[4] = { 0, 5, 6, ROWS }, whole[2] = { 0, ROWS };

static double number(int i)
{
    return ((i * 7919 + 13) % 101) / 64.0 - 0.75;
}

typedef struct plan {
    est_graph               *graph;
    const int               *cut;
    bool                     images;
    est_node                 out[4], more[4];
    est_metric               metric[4][16];
    int                      n_metrics;
    est_columns             *columns;
    const est_column *const *column; /* [n_columns] */
    int                      n_columns;
} plan;

static void build_weights(est_graph *graph, const int *cut, int n, est_node *weight)
{
    for (int i = 0; i < n; i++) weight[i] = est_scalar(graph, EST_F32, cut[i + 1] - cut[i]);
}

/* --- a replica without examples ----------------------------------------------------------------------------------- */

/* The mean of nothing is NaN, and so is what is made of it. */
static est_status build_nothing(int replica, void *user)
{
    plan    *p = user;
    int      n = p->cut[replica + 1] - p->cut[replica];
    est_node w = est_weight(p->graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_ones()));
    est_node x = nn_const(p->graph, EST_SHAPE(n), NN_VALUES(1, 3));

    p->out[replica] = est_minimize(est_sgd(0.5), est_mul(est_read_variable(w), est_mean(x)), NULL);
    return est_graph_status(p->graph);
}

static void check_nothing(est_reduce_op gradients)
{
    static const int cut[4] = { 0, 0, 2, 2 };
    nn_test          t      = nn_begin(1);
    plan             p      = { .graph = t.graph, .cut = cut };
    est_node         weight[3];
    est_replicas     r = { .n = 3, .total = 3, .weight = weight, .gradients = gradients };
    double           w;

    build_weights(t.graph, cut, 3, weight);
    assert_ok(est_replicas_build(t.graph, r, build_nothing, &p));
    nn_ready(&t);
    nn_run(&t, p.out[0]);
    assert_int_equal(nn_read(&t, "w", &w, 1), 1);
    assert_near(w, 0, 0); /* 1 - 0.5 * 2 */
    nn_end(&t);
}

TEST(nothing)
{
    check_nothing(EST_REDUCE_OP_MEAN);
    check_nothing(EST_REDUCE_OP_SUM);
}

/* --- batch normalisation ------------------------------------------------------------------------------------------ */

static est_status build_norm(int replica, void *user)
{
    plan    *p    = user;
    int      rows = p->cut[replica + 1] - p->cut[replica];
    double   values[ROWS * 8];
    est_node x, y;

    for (int i = 0; i < rows * 8; i++) values[i] = number(p->cut[replica] * 8 + i);
    x               = nn_const(p->graph, p->images ? EST_SHAPE(rows, 2, 2, 2) : EST_SHAPE(rows, 8), values);
    y               = est_batch_norm(x, true, EST_BATCH_NORM(.momentum = 0.75));
    p->out[replica] = est_minimize(est_sgd(0.01), est_mean(est_square(y)), NULL);
    assert_int_equal(est_update_ops(p->graph).n, 2);
    return est_graph_status(p->graph);
}

/* Mean and variance of a channel over the rows of a part, as the layer has them; images: the variance that is kept is
 * that of a sample. */
static void statistics(const plan *p, int part, int channel, double *mean, double *variance)
{
    int    channels = p->images ? 2 : 8, n = 0;
    double sum = 0, squares = 0;

    for (int i = p->cut[part] * 8; i < p->cut[part + 1] * 8; i++) {
        if (i % channels != channel) continue;
        sum += number(i);
        n++;
    }
    *mean = sum / n;
    for (int i = p->cut[part] * 8; i < p->cut[part + 1] * 8; i++) {
        if (i % channels == channel) squares += (number(i) - *mean) * (number(i) - *mean);
    }
    *variance = squares / (p->images && n > 1 ? n - 1 : n);
}

TEST(batch_norm)
{
    for (int images = 0; images < 2; images++) {
        nn_test      t = nn_begin(1);
        plan         p = { .graph = t.graph, .cut = cuts, .images = images != 0 };
        est_node     weight[3];
        est_replicas r = { .n = 3, .total = 3, .weight = weight, .gradients = EST_REDUCE_OP_MEAN };
        double       mean[8], variance[8];
        int          channels = images != 0 ? 2 : 8;

        build_weights(t.graph, cuts, 3, weight);
        assert_ok(est_replicas_build(t.graph, r, build_norm, &p));
        nn_ready(&t);
        nn_run(&t, p.out[0]);
        assert_int_equal(nn_read(&t, "batch_normalization/moving_mean", mean, 8), channels);
        assert_int_equal(nn_read(&t, "batch_normalization/moving_variance", variance, 8), channels);
        for (int c = 0; c < channels; c++) {
            double m = 0, v = 0, part_mean, part_variance;

            for (int i = 0; i < 3; i++) { /* by examples */
                double share = (cuts[i + 1] - cuts[i]) / (double)ROWS;
                statistics(&p, i, c, &part_mean, &part_variance);
                m += share * part_mean;
                v += share * part_variance;
            }
            assert_near(mean[c], 0.25 * m, 1e-6); /* from 0 on, once */
            assert_near(variance[c], 0.75 + 0.25 * v, 1e-6);
        }
        nn_end(&t);
    }
}

/* --- metrics ------------------------------------------------------------------------------------------------------ */

static est_status build_metrics(int replica, void *user)
{
    plan       *p     = user;
    est_graph  *g     = p->graph;
    int         begin = p->cut[replica], n = p->cut[replica + 1] - begin;
    double      truth[ROWS], guess[ROWS], classes[ROWS], guesses[ROWS], weights[ROWS];
    est_node    l, q, c, d, w;
    est_metric *m = p->metric[replica];

    for (int i = 0; i < n; i++) {
        int k = begin + i;

        truth[i]   = k % 2 == 0;
        guess[i]   = ((k * 37) % 11) / 11.0;
        classes[i] = k % 4;
        guesses[i] = (k * k) % 4;
        weights[i] = 0.5 * (1 + k % 3);
    }
    l                           = nn_const(g, EST_SHAPE(n), truth);
    q                           = nn_const(g, EST_SHAPE(n), guess);
    c                           = est_cast(nn_const(g, EST_SHAPE(n), classes), EST_I64);
    d                           = est_cast(nn_const(g, EST_SHAPE(n), guesses), EST_I64);
    w                           = nn_const(g, EST_SHAPE(n), weights);
    const est_metric_options *o = EST_METRIC(.weights = w);

    *m++         = est_metric_mean(q, o);
    *m++         = est_metric_accuracy(c, d, o);
    *m++         = est_metric_precision(l, q, o);
    *m++         = est_metric_recall(l, q, o);
    *m++         = est_metric_mean_absolute_error(l, q, o);
    *m++         = est_metric_mean_squared_error(l, q, o);
    *m++         = est_metric_root_mean_squared_error(l, q, o);
    *m++         = est_metric_mean_relative_error(l, q, est_shift(q, 1), o);
    *m++         = est_metric_mean_cosine_distance(est_expand_dims(l, -1), est_expand_dims(q, -1), 1,
                                                   EST_METRIC(.weights = est_expand_dims(w, -1)));
    *m++         = est_metric_mean_per_class_accuracy(c, d, 4, o);
    *m++         = est_metric_mean_iou(c, d, 4, o);
    *m++         = est_metric_accuracy_at_threshold(l, q, 0.4, o);
    *m++         = est_metric_precision_at_threshold(l, q, 0.4, o);
    *m++         = est_metric_recall_at_threshold(l, q, 0.4, o);
    *m++         = est_metric_auc(l, q, o);
    p->n_metrics = (int)(m - p->metric[replica]);
    return est_graph_status(g);
}

/* Values of all metrics after two updates with a batch in n parts, several threads at work. */
static int run_metrics(const int *cut, int n, double *values)
{
    nn_test  t = nn_begin(1);
    plan     p = { .graph = t.graph, .cut = cut };
    est_node updates[4 * 16];
    int      count = 0;

    assert_ok(est_replicas_build(t.graph, (est_replicas){ .n = n, .total = n }, build_metrics, &p));
    assert_ok(est_session_create(t.graph, EST_SESSION(.threads = 4), &t.session));
    assert_ok(est_session_init(t.session));
    for (int r = 0; r < n; r++) {
        for (int i = 0; i < p.n_metrics; i++) updates[count++] = p.metric[r][i].update;
    }
    for (int i = 0; i < 2; i++) {
        assert_ok(est_session_run(t.session, EST_NO_FEEDS, EST_NO_NODES, (est_nodes){ updates, count }, NULL));
    }
    for (int i = 0; i < p.n_metrics; i++) {
        values[i] = nn_scalar(&t, p.metric[0][i].value);
        for (int r = 1; r < n; r++) assert_near(nn_scalar(&t, p.metric[r][i].value), values[i], 0);
    }
    nn_end(&t);
    return p.n_metrics;
}

/* Sums of weights and of 0 and 1 are exact, and so are metrics of them; other sums have some roundings of 24 bits
 * more. */
TEST(metrics)
{
    double want[16], got[16];
    int    n = run_metrics(whole, 1, want);

    assert_int_equal(run_metrics(cuts, 3, got), n);
    assert_int_equal(n, 15);
    for (int i = 0; i < n; i++) {
        bool exact = i == 1 || i == 2 || i == 3 || i >= 9;

        if (!(fabs(got[i] - want[i]) <= (exact ? 0 : 1e-6)))
            fail_msg("metric %d is %.9g, expected %.9g", i, got[i], want[i]);
        if (want[i] == 0) fail_msg("metric %d shows nothing", i);
    }
}

/* --- feature columns ---------------------------------------------------------------------------------------------- */

/* The rows of one replica. */
typedef struct part {
    est_graph *graph;
    int        begin, end;
} part;

static est_feature find_feature(void *user, const char *name)
{
    const part *p = user;
    int64_t     keys[ROWS * 2];
    int         n = p->end - p->begin;

    (void)name;
    for (int i = 0; i < 2 * n; i++) keys[i] = 1000 * ((2 * p->begin + i) * 5 % 7);
    return (est_feature){ .values = est_const_i64(p->graph, EST_SHAPE(n, 2), keys) };
}

static est_status build_columns(int replica, void *user)
{
    plan    *p    = user;
    part     mine = { p->graph, p->cut[replica], p->cut[replica + 1] };
    double   labels[ROWS];
    est_node x, y;

    for (int i = mine.begin; i < mine.end; i++) labels[i - mine.begin] = number(i);
    x               = est_input_layer((est_features){ .graph = p->graph, .find = find_feature, .user = &mine },
                                      (est_column_list){ p->column, p->n_columns }, NULL);
    y               = nn_const(p->graph, EST_SHAPE(mine.end - mine.begin, 1), labels);
    y               = est_mean(est_squared_difference(est_reduce_sum(x, EST_I64S(1), true), y));
    p->out[replica] = est_minimize(est_adagrad(0.1, NULL), y, NULL);
    return est_graph_status(p->graph);
}

/* The columns: a vocabulary, a table that two of them share, and one with a row for every key, of which some are given
 * away. */
static void make_columns(plan *p, const est_column **column)
{
    const est_column    *keys[2], *shared[2];
    est_tensor          *vocabulary = NULL;
    static const int64_t list[]     = { 0, 1000, 2000, 3000, 4000, 5000 };

    p->columns = est_columns_create();
    assert_ok(est_tensor_i64(EST_SHAPE(6), list, &vocabulary));
    keys[0] = est_vocabulary_list_column(p->columns, "a", vocabulary, NULL);
    keys[1] = est_vocabulary_list_column(p->columns, "b", vocabulary, NULL);
    est_tensor_free(vocabulary);
    est_shared_embedding_columns((est_column_list){ keys, 2 }, 2, NULL, shared);
    column[0]    = est_indicator_column(keys[0]);
    column[1]    = shared[0];
    column[2]    = shared[1];
    column[3]    = est_dynamic_embedding_column(p->columns, "c", EST_I64, 3, EST_DYNAMIC(.max_rows = 6, .max_age = 2));
    p->column    = column;
    p->n_columns = 4;
}

typedef struct numbers {
    double values[512];
    int    n;
} numbers;

static void read_all(nn_test *t, numbers *out)
{
    out->n = 0;
    for (int i = 0; i < est_session_variables(t->session); i++) {
        out->n += (int)nn_read(t, est_session_variable(t->session, i), out->values + out->n, 512 - out->n);
        assert_true(out->n <= 512);
    }
}

/* Sums of at most 24 gradients in another order, 24 bits each, in five steps of Adagrad. */
static void expect_near(const numbers *got, const numbers *want)
{
    assert_int_equal(got->n, want->n);
    for (int i = 0; i < want->n; i++) assert_near(got->values[i], want->values[i], 1e-5);
}

typedef struct worker {
    nn_test           t;
    plan              p;
    const est_column *column[4];
    est_status        status;
} worker;

static void build_worker(worker *w, const int *cut, int n, int first, int total, est_communicator *communicator)
{
    est_node     weight[4];
    est_replicas r = { .n              = n,
                       .first_global   = first,
                       .total          = total,
                       .across_workers = communicator != NULL,
                       .weight         = weight,
                       .gradients      = EST_REDUCE_OP_MEAN };

    w->t = nn_begin(1);
    w->p = (plan){ .graph = w->t.graph, .cut = cut };
    make_columns(&w->p, w->column);
    build_weights(w->t.graph, cut, n, weight);
    assert_ok(est_replicas_build(w->t.graph, r, build_columns, &w->p));
    assert_ok(est_session_create(w->t.graph, EST_SESSION(.threads = 2, .communicator = communicator), &w->t.session));
    assert_ok(est_session_init(w->t.session));
}

static void train_step(void *user, int rank)
{
    worker *w = (worker *)user + rank;

    w->status = est_session_run(w->t.session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(w->p.out[0]), NULL);
}

static void train_worker(void *user, int rank)
{
    const worker *w = (const worker *)user + rank;

    for (int i = 0; i < 5 && w->status == EST_OK; i++) train_step(user, rank);
}

static void end_worker(worker *w, numbers *out)
{
    assert_int_equal(w->status, EST_OK);
    read_all(&w->t, out);
    nn_end(&w->t);
    est_columns_free(w->p.columns);
}

TEST(columns)
{
    worker               one = { 0 }, three = { 0 }, two[2] = { 0 };
    numbers              want, got;
    memory_communicator *communicator = memory_communicator_create(2);

    build_worker(&one, whole, 1, 0, 1, NULL);
    train_worker(&one, 0);
    end_worker(&one, &want);
    build_worker(&three, cuts, 3, 0, 3, NULL);
    train_worker(&three, 0);
    end_worker(&three, &got);
    expect_near(&got, &want);

    /* One worker with two replicas, another with the rest: all have the same rows for the same keys. */
    static const int rest[3] = { 6, 9, ROWS };
    for (int i = 0; i < 2; i++)
        build_worker(&two[i], i == 0 ? cuts : rest, 2, 2 * i, 4, memory_communicator_of(communicator, i));
    memory_communicator_run(2, train_worker, two);
    for (int i = 0; i < 2; i++) {
        end_worker(&two[i], &got);
        expect_near(&got, &want);
    }
    memory_communicator_free(communicator);
}

/* Two workers, of which one is lost in operation `number` of the third step, -1: none is. They make the step again. */
static bool train_with_loss(int number, numbers got[2])
{
    static const int     rest[3]      = { 6, 9, ROWS };
    memory_communicator *communicator = memory_communicator_create(2);
    worker               two[2]       = { 0 };
    bool                 lost         = false;

    for (int i = 0; i < 2; i++) {
        build_worker(&two[i], i == 0 ? cuts : rest, 2, 2 * i, 4, memory_communicator_of(communicator, i));
        memory_communicator_of(communicator, i)->bytes_per_pack = 16;
    }
    for (int step = 0; step < 5; step++) {
        if (step == 2 && number >= 0 && !lost)
            memory_communicator_break(communicator, memory_communicator_begun(communicator, 0) + number);
        memory_communicator_run(2, train_step, two);
        memory_communicator_break(communicator, -1);
        if (two[0].status == EST_OK) continue;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(two[i].status, EST_ABORTED);
            two[i].status = EST_OK;
        }
        lost = true;
        step--;
    }
    for (int i = 0; i < 2; i++) end_worker(&two[i], &got[i]);
    memory_communicator_free(communicator);
    return lost;
}

/* Whatever operation fails, the step that is made again finds keys, rows and counts as they were before it. */
TEST(keys_of_a_step_made_again)
{
    numbers want[2], got[2];
    int     lost = 0;

    assert_false(train_with_loss(-1, want));
    while (train_with_loss(lost, got)) {
        for (int i = 0; i < 2; i++) {
            assert_int_equal(got[i].n, want[i].n);
            assert_memory_equal(got[i].values, want[i].values, sizeof(double) * (size_t)want[i].n);
        }
        lost++;
    }
    assert_true(lost > 2); /* keys, gradients and rows of gradients at least */
}
