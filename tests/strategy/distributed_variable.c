/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables that replicas write by themselves: every kind of synchronization and aggregation, read and written in
 * replicas and across them. */
#include "strategy/strategy.h"
#include "support/fault_loop.h"
#include "support/memory_communicator.h"
#include "support/nn_test.h"

static est_strategy *mirrored(int n)
{
    est_strategy *s = NULL;

    assert_ok(est_mirrored_strategy(EST_MIRRORED(.replicas = n), &s));
    return s;
}

/* What replicas do to a variable. */
typedef struct job {
    est_distributed_variable v;
    bool                     add;
    est_node                 own[4]; /* what each replica reads */
} job;

/* Replica i writes 10 + i, or adds it. */
static est_node write_own(const est_replica_context *c, void *user)
{
    job     *j = user;
    est_node x = est_scalar(c->graph, EST_F32, 10 + c->replica_id_in_sync_group);

    j->own[c->replica] = est_distributed_read(&j->v, c);
    return j->add ? est_distributed_assign_add(&j->v, c, x) : est_distributed_assign(&j->v, c, x);
}

typedef struct kind {
    est_synchronization synchronization;
    est_aggregation     aggregation;
    bool                add;
    double own[3], read; /* after one write, from 1 on: what each of three replicas has, and what all have together */
} kind;

static const kind kinds[] = {
    { EST_SYNCHRONIZATION_ON_WRITE, EST_AGGREGATION_SUM, false, { 33, 33, 33 }, 33 },
    { EST_SYNCHRONIZATION_ON_WRITE, EST_AGGREGATION_MEAN, false, { 11, 11, 11 }, 11 },
    { EST_SYNCHRONIZATION_AUTO, EST_AGGREGATION_ONLY_FIRST_REPLICA, false, { 10, 10, 10 }, 10 },
    { EST_SYNCHRONIZATION_ON_WRITE, EST_AGGREGATION_SUM, true, { 34, 34, 34 }, 34 },
    { EST_SYNCHRONIZATION_ON_WRITE, EST_AGGREGATION_MEAN, true, { 12, 12, 12 }, 12 },
    { EST_SYNCHRONIZATION_ON_READ, EST_AGGREGATION_SUM, false, { 10, 11, 12 }, 33 },
    { EST_SYNCHRONIZATION_ON_READ, EST_AGGREGATION_MEAN, false, { 10, 11, 12 }, 11 },
    { EST_SYNCHRONIZATION_ON_READ, EST_AGGREGATION_ONLY_FIRST_REPLICA, false, { 10, 11, 12 }, 10 },
    { EST_SYNCHRONIZATION_ON_READ, EST_AGGREGATION_SUM, true, { 11, 12, 13 }, 36 },
    { EST_SYNCHRONIZATION_ON_READ, EST_AGGREGATION_MEAN, true, { 11, 12, 13 }, 12 },
};

TEST(kinds)
{
    est_strategy *s = mirrored(3);

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const kind     *k = &kinds[i];
        nn_test         t = nn_begin(1);
        job             j = { .add = k->add };
        est_per_replica writes;
        est_node        read;

        j.v    = est_strategy_variable(s, t.graph, "v", EST_SHAPE_SCALAR,
                                       EST_DISTRIBUTED_VARIABLE(.initializer     = est_init_constant(1),
                                                                .synchronization = k->synchronization,
                                                                .aggregation     = k->aggregation));
        writes = est_strategy_run(s, t.graph, write_own, &j);
        read   = est_distributed_read(&j.v, NULL);
        nn_ready(&t);
        assert_ok(est_session_run(t.session, EST_NO_FEEDS, EST_NO_NODES, (est_nodes){ writes.data, writes.n }, NULL));
        for (int r = 0; r < 3; r++) assert_near(nn_scalar(&t, j.own[r]), k->own[r], 0);
        assert_near(nn_scalar(&t, read), k->read, 1e-6);
        assert_int_equal(est_session_variables(t.session), k->synchronization == EST_SYNCHRONIZATION_ON_READ ? 3 : 1);
        nn_end(&t);
    }
    est_strategy_free(s);
}

/* A value that is written across replicas is what is read across them. */
TEST(across)
{
    est_strategy *s = mirrored(4);

    for (int a = EST_AGGREGATION_SUM; a <= EST_AGGREGATION_ONLY_FIRST_REPLICA; a++) {
        for (int on = EST_SYNCHRONIZATION_ON_WRITE; on <= EST_SYNCHRONIZATION_ON_READ; on++) {
            nn_test                  t = nn_begin(1);
            est_distributed_variable v = est_strategy_variable(
                s, t.graph, "v", EST_SHAPE_SCALAR, EST_DISTRIBUTED_VARIABLE(.synchronization = on, .aggregation = a));
            est_node write = est_distributed_assign(&v, NULL, est_scalar(t.graph, EST_F32, 6));
            est_node read  = est_distributed_read(&v, NULL);
            double   copy;

            nn_ready(&t);
            nn_run(&t, write);
            assert_near(nn_scalar(&t, read), 6, 0);
            if (on == EST_SYNCHRONIZATION_ON_READ) {
                assert_int_equal(nn_read(&t, "v/replica_3", &copy, 1), 1);
                assert_near(copy, a == EST_AGGREGATION_SUM ? 1.5 : 6, 0);
            }
            nn_end(&t);
        }
    }
    est_strategy_free(s);
}

TEST(made)
{
    est_strategy            *s = mirrored(2);
    nn_test                  t = nn_begin(1);
    est_distributed_variable w, r;
    double                   a[4], b[4];

    w = est_strategy_variable(s, t.graph, "w", EST_SHAPE(4), EST_DISTRIBUTED_VARIABLE(.trainable = true));
    r = est_strategy_variable(s, t.graph, "r", EST_SHAPE(4),
                              EST_DISTRIBUTED_VARIABLE(.initializer     = est_init_random_uniform(0, 1, 0),
                                                       .synchronization = EST_SYNCHRONIZATION_ON_READ,
                                                       .dtype           = EST_F64));
    assert_int_equal(w.copies.n, 2);
    assert_int_equal(w.copies.data[0].id, w.copies.data[1].id);
    assert_true(r.copies.data[0].id != r.copies.data[1].id);
    assert_int_equal(est_trainable_variables(t.graph).n, 1);
    assert_int_equal(est_global_variables(t.graph).n, 3);
    nn_ready(&t);
    assert_int_equal(nn_read(&t, "r", a, 4), 4);
    assert_int_equal(nn_read(&t, "r/replica_1", b, 4), 4);
    assert_memory_equal(a, b, sizeof a); /* all begin with the first value of the first */
    assert_true(a[0] != a[1]);
    nn_end(&t);
    est_strategy_free(s);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static void expect_refused(est_graph *graph, const char *text)
{
    assert_int_equal(est_graph_status(graph), EST_INVALID_ARGUMENT);
    if (strstr(est_error_message(), text) == NULL) fail_msg("%s", est_error_message());
    est_graph_free(graph);
}

static est_node write_without_context(const est_replica_context *c, void *user)
{
    job *j = user;

    return est_distributed_assign(&j->v, NULL, est_scalar(c->graph, EST_F32, 1));
}

TEST(refused)
{
    est_strategy *s = mirrored(2);
    nn_test       t = nn_begin(1);
    job           j = { 0 };

    (void)est_strategy_variable(s, t.graph, "v", EST_SHAPE_SCALAR, EST_DISTRIBUTED_VARIABLE(.synchronization = 7));
    expect_refused(t.graph, "variable 'v': unknown synchronization 7");
    t = nn_begin(1);
    (void)est_strategy_variable(s, t.graph, "v", EST_SHAPE_SCALAR, EST_DISTRIBUTED_VARIABLE(.aggregation = 9));
    expect_refused(t.graph, "or aggregation 9");
    t = nn_begin(1);
    (void)est_strategy_variable(
        s, t.graph, "v", EST_SHAPE_SCALAR,
        EST_DISTRIBUTED_VARIABLE(.synchronization = EST_SYNCHRONIZATION_ON_READ, .trainable = true));
    expect_refused(t.graph, "is trainable and synchronized on read");
    t   = nn_begin(1);
    j.v = est_strategy_variable(s, t.graph, "v", EST_SHAPE_SCALAR, NULL);
    (void)est_strategy_run(s, t.graph, write_own, &j);
    expect_refused(t.graph, "variable 'v' is written in a replica and has no aggregation");
    t   = nn_begin(1);
    j.v = est_strategy_variable(s, t.graph, "v", EST_SHAPE_SCALAR,
                                EST_DISTRIBUTED_VARIABLE(.synchronization = EST_SYNCHRONIZATION_ON_READ));
    (void)est_distributed_read(&j.v, NULL);
    expect_refused(t.graph, "variable 'v' is read across replicas and has no aggregation");
    t   = nn_begin(1);
    j.v = est_strategy_variable(
        s, t.graph, "v", EST_SHAPE_SCALAR,
        EST_DISTRIBUTED_VARIABLE(.synchronization = EST_SYNCHRONIZATION_ON_READ, .aggregation = EST_AGGREGATION_SUM));
    (void)est_distributed_assign_add(&j.v, NULL, est_scalar(t.graph, EST_F32, 1));
    expect_refused(t.graph, "is the sum of its replicas' copies");
    t   = nn_begin(1);
    j.v = est_strategy_variable(s, t.graph, "v", EST_SHAPE_SCALAR, NULL);
    (void)est_strategy_run(s, t.graph, write_without_context, &j);
    expect_refused(t.graph, "give the replica's context");
    est_strategy_free(s);
}

/* --- workers ------------------------------------------------------------------------------------------------------ */

typedef struct worker {
    nn_test       t;
    est_strategy *s;
    job           j;
    est_node      writes[2], read;
    est_tensor   *got;
    est_status    status;
} worker;

static void run_worker(void *user, int rank)
{
    worker *w = (worker *)user + rank;

    w->status = est_session_run(w->t.session, EST_NO_FEEDS, EST_NO_NODES, (est_nodes){ w->writes, 2 }, NULL);
    if (w->status != EST_OK) return;
    w->status = est_session_run(w->t.session, EST_NO_FEEDS, EST_NODES(w->read), EST_NO_NODES, &w->got);
}

TEST(workers)
{
    static const char *const tasks[2] = {
        "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}",
        "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 1}}",
    };

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        static const double  sums[4]      = { 0, 46, 11.5, 10 }; /* of the replicas 10 to 13, by aggregation */
        const kind          *k            = &kinds[i];
        bool                 read         = k->synchronization == EST_SYNCHRONIZATION_ON_READ;
        double               base         = !k->add ? 0 : read && k->aggregation == EST_AGGREGATION_SUM ? 4 : 1;
        memory_communicator *communicator = memory_communicator_create(2);
        worker               all[2]       = { 0 };

        for (int r = 0; r < 2; r++) {
            worker *w = &all[r];

            assert_ok(est_multi_worker_mirrored_strategy(
                EST_MULTI_WORKER_MIRRORED(.replicas = 2, .cluster_json = tasks[r]), &w->s));
            w->t     = nn_begin(1);
            w->j.add = k->add;
            w->j.v   = est_strategy_variable(w->s, w->t.graph, "v", EST_SHAPE_SCALAR,
                                             EST_DISTRIBUTED_VARIABLE(.initializer     = est_init_constant(1),
                                                                      .synchronization = k->synchronization,
                                                                      .aggregation     = k->aggregation));
            memcpy(w->writes, est_strategy_run(w->s, w->t.graph, write_own, &w->j).data, sizeof w->writes);
            w->read = est_distributed_read(&w->j.v, NULL);
            assert_ok(est_graph_status(w->t.graph));
            assert_ok(est_session_create(
                w->t.graph, EST_SESSION(.threads = 1, .communicator = memory_communicator_of(communicator, r)),
                &w->t.session));
            assert_ok(est_session_init(w->t.session));
        }
        memory_communicator_run(2, run_worker, all);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(all[r].status, EST_OK);
            assert_near(nn_element(all[r].got, 0), base + sums[k->aggregation], 1e-6);
            est_tensor_free(all[r].got);
            nn_end(&all[r].t);
            est_strategy_free(all[r].s);
        }
        memory_communicator_free(communicator);
    }
}

/* --- the first that has a batch ----------------------------------------------------------------------------------- */

typedef struct first_worker {
    nn_test                  t;
    est_strategy            *s;
    est_distributed_variable v;
    est_dtype                dtype;
    bool                     idle; /* it has no batch, and feeds zeros to reductions */
    est_node                 write;
    est_status               status;
    double                   value;
} first_worker;

static est_node write_number(const est_replica_context *c, void *user)
{
    first_worker *w = user;

    w->write = est_distributed_assign(&w->v, c, est_scalar(c->graph, w->dtype, 10 + c->replica_id_in_sync_group));
    return w->write;
}

static void run_first(void *user, int rank)
{
    first_worker *w = (first_worker *)user + rank;
    est_node      inputs[8];
    est_feed      feeds[8];
    est_tensor   *zeros[8], *got = NULL;
    int           n = w->idle ? est_reduce_inputs(w->t.graph, inputs, 8) : 0;

    for (int i = 0; i < n; i++) {
        assert_ok(est_tensor_create(est_node_dtype(inputs[i]), *est_node_shape(inputs[i]), &zeros[i]));
        memset(est_tensor_mutable_data(zeros[i]), 0, est_tensor_bytes(zeros[i]));
        feeds[i] = (est_feed){ inputs[i], zeros[i] };
    }
    w->status = est_session_run(w->t.session, (est_feeds){ feeds, n }, EST_NO_NODES, EST_NODES(w->write), NULL);
    assert_ok(est_session_read(w->t.session, "v", &got));
    w->value = nn_element(got, 0);
    est_tensor_free(got);
    for (int i = 0; i < n; i++) est_tensor_free(zeros[i]);
}

/* Who runs as `idle` says: the value is that of the first that is not, of any dtype. */
static void check_first(est_dtype dtype, const bool idle[2])
{
    static const char *const tasks[2] = {
        "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}",
        "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 1}}",
    };
    memory_communicator *communicator = memory_communicator_create(2);
    first_worker         all[2]       = { 0 };

    for (int r = 0; r < 2; r++) {
        first_worker *w = &all[r];

        assert_ok(est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.replicas = 1, .cluster_json = tasks[r]),
                                                     &w->s));
        w->t     = nn_begin(1);
        w->dtype = dtype;
        w->idle  = idle[r];
        w->v     = est_strategy_variable(
                w->s, w->t.graph, "v", EST_SHAPE_SCALAR,
                EST_DISTRIBUTED_VARIABLE(.dtype = dtype, .aggregation = EST_AGGREGATION_ONLY_FIRST_REPLICA));
        (void)est_strategy_run(w->s, w->t.graph, write_number, w);
        assert_ok(est_graph_status(w->t.graph));
        assert_ok(est_session_create(w->t.graph,
                                     EST_SESSION(.threads = 1, .communicator = memory_communicator_of(communicator, r)),
                                     &w->t.session));
        assert_ok(est_session_init(w->t.session));
    }
    memory_communicator_run(2, run_first, all);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(all[r].status, idle[0] && idle[1] ? EST_OUT_OF_RANGE : EST_OK);
        assert_near(all[r].value, !idle[0] ? 10 : !idle[1] ? 11 : 0, 0);
        nn_end(&all[r].t);
        est_strategy_free(all[r].s);
    }
    memory_communicator_free(communicator);
}

TEST(first_that_has_a_batch)
{
    static const est_dtype dtypes[] = { EST_F32, EST_F64, EST_I32, EST_I64 };

    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        check_first(dtypes[i], (const bool[]){ false, false });
        check_first(dtypes[i], (const bool[]){ true, false });
        check_first(dtypes[i], (const bool[]){ false, true });
        check_first(dtypes[i], (const bool[]){ true, true });
    }
}

TEST(memory_is_out)
{
    est_strategy *s = mirrored(2);

    for (size_t k = 0; k < 2; k++) {
        FAULT_LOOP(f, FAULT_ALLOCATIONS) {
            est_graph *graph = NULL;
            job        j     = { 0 };
            est_status status;

            assert_ok(est_graph_create(1, &graph));
            fault_arm(&f);
            j.v = est_strategy_variable(s, graph, "v", EST_SHAPE_SCALAR,
                                        EST_DISTRIBUTED_VARIABLE(.synchronization = k == 0 ? EST_SYNCHRONIZATION_ON_READ
                                                                                           : EST_SYNCHRONIZATION_AUTO,
                                                                 .aggregation     = EST_AGGREGATION_MEAN));
            if (est_graph_status(graph) == EST_OK) {
                (void)est_strategy_run(s, graph, write_own, &j);
                (void)est_distributed_read(&j.v, NULL);
                (void)est_distributed_assign(&j.v, NULL, est_scalar(graph, EST_F32, 1));
            }
            status = est_graph_status(graph);
            fault_check(&f, status);
            est_graph_free(graph);
        }
    }
    est_strategy_free(s);
}
