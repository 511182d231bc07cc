/* SPDX-License-Identifier: Apache-2.0
 *
 * Synchronous training with parameter servers of workers that fetch different results: what one of them sees of
 * variables, before and after the updates, changes nothing of what all push. Their losses are those of one process, and
 * what is seen is exactly what the variables had. */
#include <pthread.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cluster/remote_tasks.h"
#include "estoc/estoc.h"
#include "ops/array.h"
#include "ops/ops.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define WORKERS 2
#define BATCH   8
#define STEPS   8
#define ROWS    50
#define UNITS   256 /* a kernel of UNITS x UNITS is 256 KB, and pushed as a piece of its own */

enum { LOSS, BEFORE, TABLE, FAR, FARTHER, AFTER, TABLE_AFTER, RUNS, STEP, N_SEEN };

typedef struct model {
    est_graph *graph;
    est_node   ids, x, y, train;
    est_node   seen[N_SEEN];
} model;

/* The ids, in a way that needs a value first. */
static est_node ids_behind(est_node ids, est_node value)
{
    est_node first = est_slice(est_reshape(value, EST_I64S(-1)), EST_I64S(0), EST_I64S(1));

    return est_add(ids, est_cast(est_scale(first, 0), EST_I64));
}

static model make_model(est_optimizer optimizer)
{
    model    m = { 0 };
    est_node table, kernel, runs, count, h;

    assert_ok(est_graph_create(5, &m.graph));
    m.ids          = est_placeholder(m.graph, "ids", EST_I64, EST_SHAPE(-1));
    m.x            = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, 4));
    m.y            = est_placeholder(m.graph, "y", EST_F32, EST_SHAPE(-1, 1));
    table          = est_weight(m.graph, "table", EST_SHAPE(ROWS, 4), NULL);
    kernel         = est_weight(m.graph, "kernel", EST_SHAPE(8, UNITS), NULL);
    m.seen[BEFORE] = est_read_variable(kernel);
    m.seen[TABLE]  = est_read_variable(table);
    m.seen[FAR]    = est_resource_gather(table, ids_behind(m.ids, m.seen[BEFORE])); /* with the push */
    h              = est_concat(EST_NODES(est_resource_gather(table, m.ids), m.x), 1);
    h              = est_tanh(est_matmul(h, est_read_variable(kernel)));
    for (int i = 0; i < 3; i++) h = est_dense(h, UNITS, EST_DENSE(.activation = est_tanh));
    h            = est_dense(h, 1, NULL);
    m.seen[LOSS] = est_reduce_mean(est_square(est_sub(h, m.y)), EST_I64S(0, 1), false);
    m.train      = est_minimize(optimizer, m.seen[LOSS], NULL);
    runs  = est_weight(m.graph, "runs", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros(), .frozen = true));
    count = est_assign_add(runs, est_scalar(m.graph, EST_F32, 1));
    m.train             = est_group(m.graph, EST_NODES(m.train, count));
    m.seen[RUNS]        = est_after(est_read_variable(runs), count);                  /* waits for no other update */
    m.seen[FARTHER]     = est_resource_gather(table, ids_behind(m.ids, m.seen[FAR])); /* after the push */
    m.seen[AFTER]       = est_after(est_read_variable(kernel), m.train);
    m.seen[TABLE_AFTER] = est_after(est_read_variable(table), m.train);
    m.seen[STEP]        = est_after(est_read_variable(est_global_step(m.graph)), m.train);
    assert_ok(est_graph_status(m.graph));
    return m;
}

static void run(est_step *step, int64_t first, int64_t n)
{
    est_tensor *in[3];

    assert_ok(est_tensor_create(EST_I64, EST_SHAPE(n), &in[0]));
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(n, 4), &in[1]));
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(n, 1), &in[2]));
    for (int64_t i = 0; i < n; i++) ((int64_t *)est_tensor_mutable_data(in[0]))[i] = (first + i) * 7 % ROWS;
    est_random_fill_normal_f32(&(est_random){ 1, 2, 0 }, first * 4, n * 4, est_tensor_mutable_data(in[1]));
    est_random_fill_normal_f32(&(est_random){ 1, 3, 0 }, first, n, est_tensor_mutable_data(in[2]));
    assert_ok(est_step_run(step, (const est_tensor *[]){ in[0], in[1], in[2] }));
    for (int i = 0; i < 3; i++) est_tensor_free(in[i]);
}

static est_step *prepare(est_session *session, const model *m, int n_seen)
{
    est_step *step = NULL;

    assert_ok(est_session_prepare(session, EST_NODES(m->ids, m->x, m->y), (est_nodes){ m->seen, n_seen },
                                  EST_NODES(m->train), &step));
    return step;
}

/* --- workers as threads ------------------------------------------------------------------------------------------- */

/* What a worker saw of a step. */
typedef struct sight {
    double loss;
    float  before[8 * UNITS], after[8 * UNITS], table[ROWS * 4], table_after[ROWS * 4];
    float  far[BATCH * 4], farther[BATCH * 4];
} sight;

typedef struct worker {
    servers               *servers;
    int                    index;
    int                    every; /* it looks at all there is in so many steps, and at the loss in the others */
    est_optimizer          optimizer;
    const est_partitioner *partitioner;
    sight                  sights[STEPS];
    pthread_t              thread;
} worker;

static void look(est_step *step, int i, float *to, size_t size)
{
    const est_view *view = est_plan_fetch(est_step_plan(step), i);

    assert_int_equal((size_t)view->count * sizeof(float), size);
    memcpy(to, view->data, size);
}

static void see(est_step *step, int64_t at, sight *s)
{
    look(step, BEFORE, s->before, sizeof s->before);
    look(step, AFTER, s->after, sizeof s->after);
    look(step, TABLE, s->table, sizeof s->table);
    look(step, TABLE_AFTER, s->table_after, sizeof s->table_after);
    look(step, FAR, s->far, sizeof s->far);
    look(step, FARTHER, s->farther, sizeof s->farther);
    assert_int_equal(est_step_scalar(step, RUNS), at + 1);
    assert_int_equal(est_step_scalar(step, STEP), at + 1);
}

static void *work(void *arg)
{
    worker      *w       = arg;
    model        m       = make_model(w->optimizer);
    est_remote  *remote  = servers_remote(w->servers, w->index,
                                          EST_REMOTE(.is_chief = w->index == 0, .connect_secs = 20, .answer_secs = 20,
                                                     .step_limit = STEPS, .sync_replicas = WORKERS,
                                                     .partitioner = w->partitioner));
    est_session *session = NULL;
    est_step    *plain, *all;
    bool         finished = false;

    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .remote = remote), &session));
    if (w->index == 0) {
        assert_ok(est_session_init(session));
        assert_ok(est_remote_declare_ready(remote));
    }
    plain = prepare(session, &m, 1);
    all   = prepare(session, &m, N_SEEN);
    for (int64_t at = 0;; at++) {
        bool looks = w->every > 0 && at % w->every == 0;

        assert_ok(remote->ops->turn(remote, &finished));
        if (finished) break;
        run(looks ? all : plain, (at * WORKERS + w->index) * BATCH, BATCH);
        w->sights[at].loss = est_step_scalar(looks ? all : plain, 0);
        if (looks) see(all, at, &w->sights[at]);
    }
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(m.graph);
    return NULL;
}

static void assert_close(const float *a, const float *b, size_t n, double tolerance)
{
    for (size_t i = 0; i < n; i++) assert_near(a[i], b[i], tolerance);
}

/* Every step begins with what the one before has left, rows are those of the table before the updates however late they
 * were asked for. */
static void check_sights(const worker *w)
{
    for (int64_t at = 0; at < STEPS; at++) {
        const sight *s = &w->sights[at];

        for (int64_t i = 0; i < BATCH; i++) {
            int64_t id = ((at * WORKERS + w->index) * BATCH + i) * 7 % ROWS;

            assert_memory_equal(&s->far[i * 4], &s->table[id * 4], 4 * sizeof(float));
            assert_memory_equal(&s->farther[i * 4], &s->table[id * 4], 4 * sizeof(float));
        }
        assert_memory_not_equal(s->before, s->after, sizeof s->before);
        assert_memory_not_equal(s->table, s->table_after, sizeof s->table);
        if (at == 0) continue;
        assert_memory_equal(s->before, s[-1].after, sizeof s->before);
        assert_memory_equal(s->table, s[-1].table_after, sizeof s->table);
    }
}

static void compare_with_one(est_optimizer optimizer, int n_ps, const est_partitioner *partitioner)
{
    servers      s       = servers_start(n_ps, WORKERS, "tcp");
    worker      *workers = est_zalloc(sizeof *workers * WORKERS);
    model        m       = make_model(optimizer);
    est_session *whole   = NULL;
    est_step    *step;

    assert_non_null(workers);
    for (int i = 0; i < WORKERS; i++) { /* one looks at everything, the other at nothing but the losses of most steps */
        workers[i] = (worker){
            .servers = &s, .index = i, .every = i == 1 ? 1 : 3, .optimizer = optimizer, .partitioner = partitioner
        };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) pthread_join(workers[i].thread, NULL);
    check_sights(&workers[1]);
    whole = nn_session(m.graph, NULL);
    step  = prepare(whole, &m, N_SEEN);
    for (int64_t at = 0; at < STEPS; at++) {
        sight *all = &workers[1].sights[at], *one = &workers[0].sights[at];

        run(step, at * WORKERS * BATCH, WORKERS * BATCH);
        /* sums of 16 rows in another order: some roundings of 6e-8 a step, which the steps after carry on */
        assert_near((one->loss + all->loss) / 2, est_step_scalar(step, LOSS), 2e-6);
        assert_close(all->after, est_plan_fetch(est_step_plan(step), AFTER)->data, 8 * UNITS, 2e-6);
        assert_close(all->table_after, est_plan_fetch(est_step_plan(step), TABLE_AFTER)->data, ROWS * 4, 2e-6);
        if (at % 3 == 0) assert_memory_equal(one->after, all->after, sizeof one->after);
    }
    est_session_free(whole);
    est_graph_free(m.graph);
    est_free(workers);
    servers_stop(&s);
}

TEST(fetch_differently)
{
    est_partitioner spread = est_fixed_shards(2);

    compare_with_one(est_sgd(0.05), 1, NULL);
    compare_with_one(est_adagrad(0.05, NULL), 2, NULL);
    compare_with_one(est_adagrad(0.05, NULL), 2, &spread);
}
