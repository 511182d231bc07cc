/* SPDX-License-Identifier: Apache-2.0
 *
 * Training loops of one's own over several workers: servers on loopback and a thread for each, in one process. Together
 * they learn what one learns from whole batches; one that is lost and started again brings the others no other
 * numbers. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estoc/estoc.h"
#include "support/membership_test.h"
#include "support/memory_communicator.h"
#include "support/nn_test.h"

#define WORKERS 3
#define PART    4 /* rows of a worker's batch */
#define STEPS   40
#define LOST_AT 15

typedef struct worker {
    char  config[300]; /* TF_CONFIG */
    bool  is_lost;     /* at lost_at, and begins again */
    int   lost_at;
    float kernel[2];
    float own;  /* its copy of what it has seen: its number + 1 in every step */
    int   made; /* steps, since it was last started; one that only others have completed is none */
    int   meetings;
    char  error[600]; /* "": all went well */
} worker;

typedef struct model {
    est_node x, y, loss, train, see;

    est_distributed_variable seen;
    int                      rows; /* of a global batch */
} model;

static est_node build(const est_replica_context *context, void *user)
{
    model   *m = user;
    est_node difference, loss;

    m->x       = est_placeholder(context->graph, "x", EST_F32, EST_SHAPE(-1, 2));
    m->y       = est_placeholder(context->graph, "y", EST_F32, EST_SHAPE(-1, 1));
    difference = est_sub(est_dense(m->x, 1, EST_DENSE(.name = "line")), m->y);
    loss       = est_compute_average_loss(est_reshape(est_square(difference), EST_I64S(-1)), EST_NO_NODE, m->rows);
    m->see     = est_distributed_assign_add(&m->seen, context,
                                            est_scalar(context->graph, EST_F32, context->replica_id_in_sync_group + 1));
    m->train   = est_minimize(est_adagrad(0.3, NULL), loss, NULL);
    return loss;
}

/* Rows [first, first + n) of a step. */
static est_status make_batch(int64_t step, int first, int n, est_tensor **x, est_tensor **y)
{
    float xs[WORKERS * PART][2], ys[WORKERS * PART];

    for (int i = 0; i < n; i++) {
        uint64_t draw = ((uint64_t)step * 64 + (uint64_t)(first + i) + 1) * UINT64_C(0x9E3779B97F4A7C15);

        xs[i][0] = (float)(draw >> 56) / 128 - 1;
        xs[i][1] = (float)(draw >> 48 & 255) / 128 - 1;
        ys[i]    = 2 * xs[i][0] - xs[i][1] + 0.5f;
    }
    EST_TRY(est_tensor_f32(EST_SHAPE(n, 2), xs[0], x));
    return est_tensor_f32(EST_SHAPE(n, 1), ys, y);
}

static est_status run_step(est_step *prepared, const est_workers *workers, int64_t step)
{
    int         rows      = WORKERS * PART / est_workers_count(workers);
    est_tensor *values[2] = { 0 };
    est_status  status    = make_batch(step, rows * est_workers_rank(workers), rows, &values[0], &values[1]);

    if (status == EST_OK) status = est_step_run(prepared, (const est_tensor *const *)values);
    est_tensor_free(values[0]);
    est_tensor_free(values[1]);
    return status;
}

/* EST_CANCELLED: it is lost now. */
static est_status train(worker *w, est_workers *workers, est_session *session, est_step *prepared)
{
    int64_t     step   = 0;
    est_tensor *kernel = NULL, *own = NULL;

    w->made = 0;
    EST_TRY(est_session_init(session));
    EST_TRY(est_workers_join(workers, session, &step));
    while (step < STEPS) {
        est_status status = EST_OK;

        if (w->is_lost && step == w->lost_at) return EST_CANCELLED;
        status = run_step(prepared, workers, step);
        if (status == EST_OK) step++;
        if (status == EST_OK) w->made++;
        if (status == EST_ABORTED) {
            w->meetings++;
            status = est_workers_join(workers, session, &step);
        }
        EST_TRY(status);
    }
    EST_TRY(est_session_read(session, "line/kernel", &kernel));
    memcpy(w->kernel, est_tensor_data(kernel), sizeof w->kernel);
    est_tensor_free(kernel);
    EST_TRY(est_session_read(session, "seen", &own));
    w->own = *(const float *)est_tensor_data(own);
    est_tensor_free(own);
    if (w->is_lost && w->lost_at == STEPS) return EST_CANCELLED;
    return est_workers_end(workers, session, step);
}

static est_status live_with(worker *w, const est_strategy *strategy, est_graph *graph, est_workers *workers)
{
    model           m       = { .rows = WORKERS * PART };
    est_session    *session = NULL;
    est_step       *prepared;
    est_per_replica losses;
    est_status      status;

    m.seen = est_strategy_variable(
        strategy, graph, "seen", EST_SHAPE_SCALAR,
        EST_DISTRIBUTED_VARIABLE(.synchronization = EST_SYNCHRONIZATION_ON_READ, .aggregation = EST_AGGREGATION_SUM));
    losses = est_strategy_run(strategy, graph, build, &m);
    m.loss = est_strategy_reduce(strategy, EST_REDUCE_OP_SUM, losses, EST_NO_AXIS);
    status = est_session_create(graph, EST_SESSION(.threads = 1, .communicator = est_workers_communicator(workers)),
                                &session);
    if (status == EST_OK) {
        status = est_session_prepare(session, EST_NODES(m.x, m.y), EST_NODES(m.loss), EST_NODES(m.train, m.see),
                                     &prepared);
    }
    if (status == EST_OK) status = train(w, workers, session, prepared);
    est_session_free(session);
    return status;
}

/* One start of the process, with first values of its own. */
static est_status live_once(worker *w, uint64_t seed)
{
    est_strategy *strategy = NULL;
    est_workers  *workers  = NULL;
    est_graph    *graph    = NULL;
    est_status    status;

    status = est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.cluster_json = w->config), &strategy);
    if (status == EST_OK) status = est_workers_create(strategy, EST_WORKERS(.transport = "tcp"), &workers);
    if (status == EST_OK) status = est_graph_create(seed, &graph);
    if (status == EST_OK) status = live_with(w, strategy, graph, workers);
    est_workers_free(workers);
    est_graph_free(graph);
    est_strategy_free(strategy);
    return status;
}

static void live(void *user, int rank)
{
    worker    *w      = (worker *)user + rank;
    est_status status = live_once(w, rank == 0 ? 7 : 100 + (uint64_t)rank);

    if (status == EST_CANCELLED && w->is_lost) {
        w->is_lost = false;
        status     = live_once(w, 200 + (uint64_t)rank);
    }
    if (status != EST_OK) snprintf(w->error, sizeof w->error, "%s: %s", est_status_name(status), est_error_message());
}

static void run_all(worker *w, int lost, int lost_at)
{
    crew c; /* only for its addresses */

    crew_make(&c, WORKERS, NULL);
    for (int i = 0; i < WORKERS; i++) {
        w[i] = (worker){ .is_lost = i == lost, .lost_at = lost_at };
        snprintf(
            w[i].config, sizeof w[i].config,
            "{\"cluster\": {\"worker\": [\"%s\", \"%s\", \"%s\"]}, \"task\": {\"type\": \"worker\", \"index\": %d}}",
            c.addresses[0], c.addresses[1], c.addresses[2], i);
    }
    memory_communicator_run(WORKERS, live, w);
    crew_free(&c);
    for (int i = 0; i < WORKERS; i++) assert_string_equal(w[i].error, "");
    for (int i = 1; i < WORKERS; i++) assert_memory_equal(w[i].kernel, w[0].kernel, sizeof w[0].kernel);
}

TEST(multi_worker)
{
    worker alone = { .config = "{}" }, w[WORKERS];

    live(&alone, 0);
    assert_string_equal(alone.error, "");
    run_all(w, -1, 0);
    for (int i = 0; i < 2; i++) assert_near((double)w[0].kernel[i], (double)alone.kernel[i], 1e-5);
}

TEST(lost)
{
    worker calm[WORKERS], w[WORKERS];

    run_all(calm, -1, 0);
    for (int lost = 0; lost < WORKERS; lost++) {
        run_all(w, lost, LOST_AT);
        assert_memory_equal(w[0].kernel, calm[0].kernel, sizeof calm[0].kernel);
        for (int i = 0; i < WORKERS; i++) {
            assert_true(i == lost || w[i].meetings >= 1);
            assert_true(calm[i].own == (float)(STEPS * (i + 1)));
            assert_true(w[i].own == (float)(w[i].made * (i + 1))); /* of what it did itself, whoever gave it the rest */
            assert_true(i == lost || w[i].made >= STEPS - 1);
        }
    }
}

/* Lost before its last step, or worker 0 right behind it: the others stay until it has the variables again, and has
 * ended. */
TEST(lost_at_end)
{
    worker calm[WORKERS], w[WORKERS];

    run_all(calm, -1, 0);
    for (int lost = 0; lost < WORKERS; lost++) {
        run_all(w, lost, STEPS - 1);
        assert_memory_equal(w[0].kernel, calm[0].kernel, sizeof calm[0].kernel);
    }
    run_all(w, 0, STEPS);
    assert_memory_equal(w[0].kernel, calm[0].kernel, sizeof calm[0].kernel);
}

/* A worker, and another one that joins every membership round and gives up at once. */
typedef struct spoiled {
    crew       c;
    worker     w;
    est_status status;
    char       error[600];
    atomic_int done; /* the worker has given up, too */
} spoiled;

static bool is_done(void *user)
{
    return atomic_load(&((spoiled *)user)->done) != 0;
}

static est_status meet_in_vain(est_workers *workers)
{
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    int64_t      step    = 0;
    est_status   status  = est_graph_create(1, &graph);

    if (status == EST_OK) {
        (void)est_weight(graph, "w", EST_SHAPE_SCALAR, NULL);
        status = est_session_create(graph, EST_SESSION(.threads = 1, .devices = EST_STRINGS("/cpu:0")), &session);
    }
    if (status == EST_OK) status = est_session_init(session);
    if (status == EST_OK) status = est_workers_join(workers, session, &step);
    est_session_free(session);
    est_graph_free(graph);
    return status;
}

static void meet_spoiled(void *user, int rank)
{
    spoiled            *s        = user;
    est_strategy       *strategy = NULL;
    est_workers        *workers  = NULL;
    est_membership_view met;

    if (rank == 1) {
        while (est_membership_join(s->c.members[1].membership, -1, "", &met) == EST_OK && !met.over) {
            est_group_abort(met.group, "it gives up");
        }
        return;
    }
    s->status = est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.cluster_json = s->w.config), &strategy);
    if (s->status == EST_OK) s->status = est_workers_create(strategy, EST_WORKERS(.transport = "tcp"), &workers);
    if (s->status == EST_OK) s->status = meet_in_vain(workers);
    snprintf(s->error, sizeof s->error, "%s", est_error_message());
    est_workers_free(workers);
    est_strategy_free(strategy);
    atomic_store(&s->done, 1);
}

/* They do not wait forever for each other to join. */
TEST(spoiled)
{
    spoiled s = { 0 };

    crew_make(
        &s.c, 2,
        &(est_membership_options){ .terms = "communication=auto\nbytes_per_pack=4194304\nreplicas=1\nelastic=no\n",
                                   .over  = is_done,
                                   .user  = &s });
    crew_start(&s.c, 1);
    snprintf(s.w.config, sizeof s.w.config,
             "{\"cluster\": {\"worker\": [\"%s\", \"%s\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}",
             s.c.addresses[0], s.c.addresses[1]);
    memory_communicator_run(2, meet_spoiled, &s);
    assert_int_equal(s.status, EST_ABORTED);
    if (strstr(s.error, "after rejoining the other workers 100 times") == NULL) fail_msg("%s", s.error);
    crew_free(&s.c);
}

TEST(alone)
{
    est_workers *workers;
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    int64_t      step    = 3;

    assert_ok(est_graph_create(1, &graph));
    assert_ok(est_session_create(graph, NULL, &session));
    assert_ok(est_workers_create(NULL, NULL, &workers));
    assert_int_equal(est_workers_count(workers), 1);
    assert_int_equal(est_workers_rank(workers), 0);
    assert_null(est_workers_communicator(workers));
    assert_ok(est_workers_join(workers, session, &step));
    assert_int_equal(step, 3);
    step = -1;
    assert_int_equal(est_workers_join(workers, session, &step), EST_FAILED_PRECONDITION);
    assert_ok(est_workers_end(workers, session, step));
    est_workers_free(workers);
    est_workers_free(NULL);
    est_session_free(session);
    est_graph_free(graph);
}
