/* SPDX-License-Identifier: Apache-2.0
 *
 * Synchronous training with parameter servers: n workers with batches of b give the losses of one process with batches
 * of n b; spare workers hold nobody up; a worker whose link broke is counted once; one that has ended is not waited
 * for; a step whose committer dies is made once. */
#include <math.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/random.h"
#include "cluster/remote_internal.h"
#include "cluster/remote_tasks.h"
#include "cluster/sync_replicas.h"
#include "cluster/wait_table.h"
#include "estoc/estoc.h"
#include "net/inject.h"
#include "ops/array.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define WORKERS 3
#define BATCH   8
#define STEPS   15
#define ROWS    50

typedef struct model {
    est_graph *graph;
    est_node   ids, x, y, loss, train, step;
} model;

/* A table of keys has a row for each of them at once, and room for all: it is as good as one that is indexed. */
static est_node look_up(est_graph *graph, est_node ids, bool dynamic)
{
    static const est_row_policy policy = { .draw        = { .distribution = EST_ROW_NORMAL, .b = 0.5, .seed = 3 },
                                           .admit_after = 1 };
    est_node                    table;

    if (!dynamic) return est_resource_gather(est_weight(graph, "table", EST_SHAPE(ROWS, 4), NULL), ids);
    table = est_row_variable(graph, "table", EST_SHAPE(ROWS, 4), &policy);
    est_graph_collect(graph, "trainable_variables", table);
    return est_resource_gather(table, est_find_rows(table, ids));
}

static model make_model(est_optimizer optimizer, bool dynamic)
{
    model    m = { 0 };
    est_node h;

    assert_ok(est_graph_create(5, &m.graph));
    m.ids   = est_placeholder(m.graph, "ids", EST_I64, EST_SHAPE(-1));
    m.x     = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, 4));
    m.y     = est_placeholder(m.graph, "y", EST_F32, EST_SHAPE(-1, 1));
    h       = est_concat(EST_NODES(look_up(m.graph, m.ids, dynamic), m.x), 1);
    h       = est_dense(est_dense(h, 16, EST_DENSE(.activation = est_tanh)), 1, NULL);
    m.loss  = est_reduce_mean(est_square(est_sub(h, m.y)), EST_I64S(0, 1), false);
    m.train = est_minimize(optimizer, m.loss, NULL);
    m.step  = est_after(est_read_variable(est_global_step(m.graph)), m.train);
    assert_ok(est_graph_status(m.graph));
    return m;
}

/* Rows [first, first + n) of an endless data set. */
static void make_batch(int64_t first, int64_t n, est_tensor *out[3])
{
    assert_ok(est_tensor_create(EST_I64, EST_SHAPE(n), &out[0]));
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(n, 4), &out[1]));
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(n, 1), &out[2]));
    for (int64_t i = 0; i < n; i++) ((int64_t *)est_tensor_mutable_data(out[0]))[i] = (first + i) * 7 % ROWS;
    est_random_fill_normal_f32(&(est_random){ 1, 2, 0 }, first * 4, n * 4, est_tensor_mutable_data(out[1]));
    est_random_fill_normal_f32(&(est_random){ 1, 3, 0 }, first, n, est_tensor_mutable_data(out[2]));
}

static void run_step(est_step *step, int64_t first, int64_t n)
{
    est_tensor *in[3];

    make_batch(first, n, in);
    assert_ok(est_step_run(step, (const est_tensor *[]){ in[0], in[1], in[2] }));
    for (int i = 0; i < 3; i++) est_tensor_free(in[i]);
}

static est_step *prepare(est_session *session, const model *m)
{
    est_step *step;

    assert_ok(est_session_prepare(session, EST_NODES(m->ids, m->x, m->y), EST_NODES(m->loss, m->step),
                                  EST_NODES(m->train), &step));
    return step;
}

/* --- workers as threads ------------------------------------------------------------------------------------------- */

typedef struct worker {
    servers      *servers;
    int           index, steps;
    int           of; /* how many make a step */
    bool          dynamic;
    est_optimizer optimizer;
    double        losses[STEPS];
    int64_t       last;
    pthread_t     thread;
} worker;

static void *work(void *arg)
{
    worker      *w       = arg;
    model        m       = make_model(w->optimizer, w->dynamic);
    est_remote  *remote  = servers_remote(w->servers, w->index,
                                          EST_REMOTE(.is_chief = w->index == 0, .connect_secs = 60, .answer_secs = 60,
                                                     .step_limit = w->steps, .sync_replicas = w->of));
    est_session *session = NULL;
    est_step    *step;
    bool         finished = false;

    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .remote = remote), &session));
    if (w->index == 0) {
        assert_ok(est_session_init(session));
        assert_ok(est_remote_declare_ready(remote));
    }
    step = prepare(session, &m);
    for (;;) {
        int64_t at = w->last;

        assert_ok(remote->ops->turn(remote, &finished));
        if (finished) break;
        run_step(step, (at * w->of + w->index) * BATCH, BATCH);
        if (at < w->steps) w->losses[at] = est_step_scalar(step, 0); /* a spare's read may be ahead of its step */
        w->last = (int64_t)est_step_scalar(step, 1);
    }
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(m.graph);
    return NULL;
}

static void compare_with_one(est_optimizer optimizer, int n_ps, bool dynamic)
{
    servers      s = servers_start(n_ps, WORKERS, "tcp");
    worker       workers[WORKERS];
    model        m     = make_model(optimizer, dynamic);
    est_session *whole = NULL;
    est_step    *step;

    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){
            .servers = &s, .index = i, .steps = STEPS, .of = WORKERS, .dynamic = dynamic, .optimizer = optimizer
        };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) pthread_join(workers[i].thread, NULL);
    whole = nn_session(m.graph, NULL);
    step  = prepare(whole, &m);
    for (int i = 0; i < STEPS; i++) {
        double mean = 0;

        run_step(step, (int64_t)i * WORKERS * BATCH, WORKERS * BATCH);
        for (int k = 0; k < WORKERS; k++) mean += workers[k].losses[i] / WORKERS;
        /* sums of 24 rows in another order: some roundings of 6e-8 a step, which the steps after carry on */
        assert_near(mean, est_step_scalar(step, 0), 2e-6);
    }
    for (int k = 0; k < WORKERS; k++) assert_int_equal(workers[k].last, STEPS);
    est_session_free(whole);
    est_graph_free(m.graph);
    servers_stop(&s);
}

TEST(same_losses)
{
    for (int ps = 1; ps <= 2; ps++) {
        compare_with_one(est_sgd(0.1), ps, false);
        compare_with_one(est_adagrad(0.1, NULL), ps, false);
        compare_with_one(est_ftrl(0.1, NULL), ps, false);
        compare_with_one(est_adam(0.01, NULL), ps, false);
        compare_with_one(est_sgd(0.1), ps, true);
        compare_with_one(est_adam(0.01, EST_ADAM(.lazy = true)), ps, true);
    }
}

/* Three workers, two make a step: nobody waits for the third, all end at the limit. */
TEST(spare)
{
    servers s = servers_start(2, 3, "tcp");
    worker  workers[3];

    for (int i = 0; i < 3; i++) {
        workers[i] = (worker){ .servers = &s, .index = i, .steps = STEPS, .of = 2, .optimizer = est_sgd(0.1) };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 3; i++) pthread_join(workers[i].thread, NULL);
    servers_stop(&s);
}

/* A worker that has these keys in its only step. */
typedef struct key_worker {
    servers      *servers;
    int           index;
    const int64_t keys[2];
    pthread_t     thread;
} key_worker;

static void *push_keys(void *arg)
{
    const key_worker *w       = arg;
    est_remote       *remote  = servers_remote(w->servers, w->index,
                                               EST_REMOTE(.is_chief = w->index == 0, .connect_secs = 60, .answer_secs = 60,
                                                          .step_limit = 1, .sync_replicas = 2));
    est_row_policy    policy  = { .draw = { .a = 1, .seed = (uint64_t)w->index }, .admit_after = 3 };
    est_session      *session = NULL;
    est_tensor       *batch   = NULL;
    est_ragged_node   bag;
    est_graph        *graph;
    est_node          table, keys, train;
    bool              finished;

    assert_ok(est_tensor_i64(EST_SHAPE(2), w->keys, &batch));
    assert_ok(est_graph_create((uint64_t)w->index + 7, &graph));
    keys  = est_placeholder(graph, "keys", EST_I64, EST_SHAPE(-1));
    table = est_row_variable(graph, "table", EST_SHAPE(100, 2), &policy);
    est_graph_collect(graph, "trainable_variables", table);
    bag   = (est_ragged_node){ est_find_rows(table, keys), est_const_ints(graph, EST_I64, EST_I64S(0, 2)) };
    train = est_minimize(est_sgd(1), est_sum(est_embedding_bag(table, bag, EST_NO_NODE, EST_COMBINE_SUM, 0)), NULL);
    assert_ok(est_graph_status(graph));
    assert_ok(est_session_create(graph, EST_SESSION(.threads = 1, .remote = remote), &session));
    if (w->index == 0) {
        assert_ok(est_session_init(session));
        assert_ok(est_remote_declare_ready(remote));
    }
    assert_ok(remote->ops->turn(remote, &finished));
    assert_ok(est_session_run(session, EST_FEEDS({ keys, batch }), EST_NO_NODES, EST_NODES(train), NULL));
    assert_ok(remote->ops->turn(remote, &finished)); /* when the step was made */
    assert_true(finished);
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(graph);
    est_tensor_free(batch);
    return NULL;
}

/* The keys of all workers count as those of one step: one is admitted that none of them has seen often enough. Its row
 * has first values, since nobody had one to learn from. Graphs of other seeds push the same. */
TEST(keys_of_a_step)
{
    servers              s      = servers_start(1, 2, "tcp");
    key_worker           all[2] = { { &s, 0, { 5, 5 }, 0 }, { &s, 1, { 5, -9 }, 0 } };
    const est_var       *table;
    const est_row_table *rows;

    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&all[i].thread, NULL, push_keys, &all[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(all[i].thread, NULL);
    table = est_store_find(est_host_store(s.ps[0]->host), "table");
    rows  = est_row_table_of(table);
    assert_int_equal(*rows->steps, 1);
    assert_int_equal(rows->rows.n, 1);
    assert_int_equal(rows->rows.keys[0], 5);
    assert_true(((const float *)table->value.data)[0] == 1);
    assert_int_equal(rows->candidates.n, 1);
    assert_int_equal(rows->candidates.keys[0], -9);
    assert_int_equal(rows->sightings[0], 1);
    servers_stop(&s);
}

/* --- one push a worker -------------------------------------------------------------------------------------------- */

/* d loss / d a = x: what a step moves the variable by is the mean of what is fed. */
typedef struct pusher {
    est_graph   *graph;
    est_node     x, train, other, step; /* other: moves it half as far */
    est_remote  *remote;
    est_session *session;
    est_step    *run;
    float        value; /* that push_one feeds */
} pusher;

static void open_pusher(pusher *p)
{
    bool finished;

    assert_ok(est_session_create(p->graph, EST_SESSION(.threads = 1, .remote = p->remote), &p->session));
    assert_ok(est_session_prepare(p->session, EST_NODES(p->x), EST_NODES(p->step), EST_NODES(p->train), &p->run));
    assert_ok(p->remote->ops->turn(p->remote, &finished));
}

static pusher make_pusher(servers *s, int index)
{
    pusher   p = { .value = 1 };
    est_node a, loss;

    assert_ok(est_graph_create(5, &p.graph));
    p.x      = est_placeholder(p.graph, "x", EST_F32, EST_SHAPE(1));
    a        = est_weight(p.graph, "a", EST_SHAPE(1), EST_WEIGHT(.initializer = est_init_zeros()));
    loss     = est_reduce_sum(est_mul(est_read_variable(a), p.x), EST_I64S(0), false);
    p.train  = est_minimize(est_sgd(1.0), loss, NULL);
    p.other  = est_minimize(est_sgd(0.5), loss, NULL);
    p.step   = est_after(est_read_variable(est_global_step(p.graph)), p.train);
    p.remote = servers_remote(
        s, index, EST_REMOTE(.is_chief = index == 0, .connect_secs = 60, .answer_secs = 60, .sync_replicas = 2));
    if (index == 0) {
        p.session = nn_session(p.graph, p.remote);
        assert_ok(est_remote_declare_ready(p.remote));
        est_session_free(p.session);
    }
    open_pusher(&p);
    return p;
}

static est_status push(const pusher *p, float x)
{
    est_tensor *value = NULL;
    est_status  status;

    assert_ok(est_tensor_f32(EST_SHAPE(1), &x, &value));
    status = est_step_run(p->run, (const est_tensor *[]){ value });
    est_tensor_free(value);
    return status;
}

static void close_pusher(pusher *p)
{
    est_session_free(p->session);
    est_remote_free(p->remote);
    est_graph_free(p->graph);
}

static void *push_one(void *arg)
{
    pusher *p = arg;

    return push(p, p->value) == EST_OK ? p : NULL;
}

/* One that fetches nothing has the step made when it begins the next. */
static void *make_step(void *arg)
{
    pusher *p = arg;
    bool    finished;

    return push(p, p->value) == EST_OK && p->remote->ops->turn(p->remote, &finished) == EST_OK ? p : NULL;
}

/* Waits until so many pushes are accumulated at the server. */
static void await_accumulated(est_server *server, int n)
{
    int64_t deadline = est_now_ns() + 60 * EST_NS_PER_SEC;
    int     most     = -1;

    while (most != n && est_now_ns() < deadline) {
        most = 0;
        pthread_mutex_lock(&server->host_lock);
        for (int i = 0; i < est_host_segments(server->host); i++) {
            if (server->segments[i].n_came > most) most = server->segments[i].n_came;
        }
        pthread_mutex_unlock(&server->host_lock);
        if (most != n) est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    assert_int_equal(most, n);
}

static void cut_link(est_server *server, const char *task)
{
    pthread_mutex_lock(&server->lock);
    for (int i = 0; i < server->n_clients; i++) {
        if (strcmp(server->clients[i]->who.task, task) == 0 && server->clients[i]->link != NULL) {
            est_link_close(server->clients[i]->link, "cut");
        }
    }
    pthread_mutex_unlock(&server->lock);
}

/* A worker whose link breaks when it has pushed makes its step again, and may fetch something else with it: it counts
 * once. */
static void push_again(bool fetch_less)
{
    servers   s   = servers_start(1, 2, "tcp");
    pusher    one = make_pusher(&s, 0), two = make_pusher(&s, 1);
    pthread_t thread;
    void     *result;

    assert_int_equal(pthread_create(&thread, NULL, push_one, &one), 0);
    await_accumulated(s.ps[0], 1);
    cut_link(s.ps[0], "worker:0");
    pthread_join(thread, &result);
    assert_null(result); /* it needs a new session */
    est_session_free(one.session);
    open_pusher(&one);
    if (fetch_less) {
        assert_ok(est_session_prepare(one.session, EST_NODES(one.x), EST_NO_NODES, EST_NODES(one.train), &one.run));
    }
    assert_int_equal(pthread_create(&thread, NULL, make_step, &one), 0);
    assert_ok(push(&two, 4));
    pthread_join(thread, &result);
    assert_non_null(result);
    assert_true(*(const float *)est_store_find(est_host_store(s.ps[0]->host), "a")->value.data == -2.5f);
    close_pusher(&one);
    close_pusher(&two);
    servers_stop(&s);
}

TEST(one_push_a_worker)
{
    push_again(false);
    push_again(true);
}

/* --- the committer dies ------------------------------------------------------------------------------------------- */

enum { CLOCK, OTHER }; /* the tasks that have the global step, and `a` */

/* How far it came: what it asked did not arrive, or did, and nobody was there for the answer. */
typedef enum death { BEFORE_OTHERS, AT_OTHERS, BEFORE_CLOCK, AT_CLOCK, N_DEATHS } death;

static void hold_steps(est_server *clock, bool held)
{
    pthread_mutex_lock(&clock->lock);
    if (held) {
        est_gate_hold(clock->gate);
    } else {
        est_gate_release(clock->gate);
        est_server_wake(clock);
    }
    pthread_mutex_unlock(&clock->lock);
}

static void await_parked(est_server *clock, int n)
{
    int64_t deadline = est_now_ns() + 60 * EST_NS_PER_SEC;
    int     parked   = -1;

    while (parked != n && est_now_ns() < deadline) {
        pthread_mutex_lock(&clock->lock);
        parked = clock->n_parked;
        pthread_mutex_unlock(&clock->lock);
        if (parked != n) est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    assert_int_equal(parked, n);
}

static void await_commit_at(const char *who, const char *whom)
{
    int64_t  deadline = est_now_ns() + 60 * EST_NS_PER_SEC;
    est_wait wait     = { 0 };

    while (est_now_ns() < deadline) {
        if (est_waits_of(who, &wait, 1) == 1 && strcmp(wait.for_whom, whom) == 0 &&
            strcmp(wait.why, est_method_text(EST_METHOD_COMMIT)) == 0)
            return;
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    fail_msg("%s does not commit at %s; it waits for %s: %s", who, whom, wait.for_whom, wait.why);
}

static void await_busy(est_server *server)
{
    int64_t deadline = est_now_ns() + 60 * EST_NS_PER_SEC;
    bool    busy     = false;

    while (!busy && est_now_ns() < deadline) {
        pthread_mutex_lock(&server->lock);
        busy = server->busy;
        pthread_mutex_unlock(&server->lock);
        if (!busy) est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    assert_true(busy);
}

static void silence(est_server *server, const char *task, bool silent)
{
    assert_ok(est_net_inject(est_server_net(server), task, silent ? EST_INJECT_SILENCE : EST_INJECT_NOTHING, 0));
}

/* Lets worker 1 become the committer and come as far as that; returns the lock that keeps what it asked for from being
 * done. */
static pthread_mutex_t *let_commit(servers *s, death how)
{
    est_server      *other = s->ps[OTHER], *clock = s->ps[CLOCK];
    pthread_mutex_t *lock = how == AT_CLOCK ? &clock->host_lock : how == BEFORE_OTHERS ? NULL : &other->host_lock;

    if (how == BEFORE_OTHERS) silence(s->worker[1], "ps:1", true);
    if (lock != NULL) pthread_mutex_lock(lock);
    hold_steps(clock, false);
    assert_string_equal(clock->committer, "worker:1");
    await_commit_at("worker:1", how == AT_CLOCK ? "ps:0" : "ps:1");
    if (how == AT_OTHERS || how == BEFORE_CLOCK) await_busy(other);
    if (how == AT_CLOCK) await_busy(clock);
    if (how != BEFORE_CLOCK) return lock;
    silence(s->worker[1], "ps:0", true);
    pthread_mutex_unlock(lock);
    await_commit_at("worker:1", "ps:0");
    return NULL;
}

static void expect_values(servers *s, float a, int64_t step)
{
    float   have_a    = *(const float *)est_store_find(est_host_store(s->ps[OTHER]->host), "a")->value.data;
    int64_t have_step = *(const int64_t *)est_store_find(est_host_store(s->ps[CLOCK]->host), "global_step")->value.data;

    if (have_a == a && have_step == step) return;
    fail_msg("a is %g after %lld steps instead of %g after %lld", have_a, (long long)have_step, a, (long long)step);
}

static void start_pushes(pusher *p, pthread_t thread[2])
{
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, push_one, &p[i]), 0);
}

static void finish_pushes(const pthread_t thread[2])
{
    void *result;

    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], &result);
        assert_non_null(result);
    }
}

static void committer_dies(death how)
{
    servers          s    = servers_start(2, 2, "tcp");
    pusher           p[2] = { make_pusher(&s, 0), make_pusher(&s, 1) };
    pthread_t        thread[2];
    pthread_mutex_t *lock;
    void            *result;
    bool             finished;

    p[1].value = 4;
    hold_steps(s.ps[CLOCK], true);
    for (int i = 0; i < 2; i++) { /* who came last commits */
        assert_int_equal(pthread_create(&thread[i], NULL, push_one, &p[i]), 0);
        await_parked(s.ps[CLOCK], i + 1);
    }
    await_accumulated(s.ps[OTHER], 2);
    lock = let_commit(&s, how);
    for (int i = 0; i < 2; i++) est_link_close(est_tasks_of(p[1].remote)->tasks[i].link, "it dies");
    pthread_join(thread[1], &result);
    assert_null(result);
    if (lock != NULL) pthread_mutex_unlock(lock);
    pthread_join(thread[0], &result);
    assert_non_null(result);
    expect_values(&s, -2.5f, 1);

    silence(s.worker[1], "ps:1", false); /* it was started again */
    silence(s.worker[1], "ps:0", false);
    est_session_free(p[1].session);
    open_pusher(&p[1]);
    assert_ok(p[0].remote->ops->turn(p[0].remote, &finished));
    start_pushes(p, thread);
    finish_pushes(thread);
    expect_values(&s, -5, 2);
    for (int i = 0; i < 2; i++) close_pusher(&p[i]);
    servers_stop(&s);
}

TEST(committer_dies)
{
    for (int how = 0; how < N_DEATHS; how++) committer_dies((death)how);
}

static void set_initialized(est_server *server, const char *variable, bool initialized)
{
    pthread_mutex_lock(&server->host_lock);
    est_store_find(est_host_store(server->host), variable)->initialized = initialized;
    pthread_mutex_unlock(&server->host_lock);
}

static void *fail_to_push(void *arg)
{
    const pusher *p = arg;

    assert_int_equal(push(p, p->value), EST_FAILED_PRECONDITION);
    assert_non_null(strstr(est_error_message(), "has no value"));
    return NULL;
}

/* What cannot be applied is of no use to the next committer: all whose step it is are told, and it is dropped. */
static void fail_at(int ps, const char *variable, float a)
{
    servers   s    = servers_start(2, 2, "tcp");
    pusher    p[2] = { make_pusher(&s, 0), make_pusher(&s, 1) };
    pthread_t thread[2];

    p[1].value = 4;
    hold_steps(s.ps[CLOCK], true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, fail_to_push, &p[i]), 0);
        await_parked(s.ps[CLOCK], i + 1);
    }
    await_accumulated(s.ps[OTHER], 2);
    set_initialized(s.ps[ps], variable, false);
    hold_steps(s.ps[CLOCK], false);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    set_initialized(s.ps[ps], variable, true);
    assert_ok(est_remote_hold(p[0].remote)); /* finishes nothing: there is nothing left of the step */
    assert_ok(est_remote_release(p[0].remote));
    for (int i = 0; i < 2; i++) {
        p[i].value *= 2;
        est_session_free(p[i].session);
        open_pusher(&p[i]);
    }
    start_pushes(p, thread);
    finish_pushes(thread);
    expect_values(&s, a, 1);
    for (int i = 0; i < 2; i++) close_pusher(&p[i]);
    servers_stop(&s);
}

TEST(commit_fails)
{
    fail_at(OTHER, "a", -5);
    fail_at(CLOCK, "global_step", -2.5f); /* the update had been made */
}

static void *hold_for_copies(void *arg)
{
    return est_remote_hold(arg) == EST_OK ? arg : NULL;
}

/* The chief, which has not pushed, wants to copy while another commits, and that one dies: the step is made everywhere
 * before. */
static void hold_without_committer(death how)
{
    servers          s    = servers_start(2, 3, "tcp");
    pusher           p[3] = { make_pusher(&s, 0), make_pusher(&s, 1), make_pusher(&s, 2) };
    pthread_t        hold, thread[3];
    pthread_mutex_t *lock;
    void            *result;

    p[1].value = 4;
    hold_steps(s.ps[CLOCK], true);
    for (int i = 2; i > 0; i--) { /* who came last commits */
        assert_int_equal(pthread_create(&thread[i], NULL, push_one, &p[i]), 0);
        await_parked(s.ps[CLOCK], 3 - i);
    }
    lock = let_commit(&s, how);
    assert_int_equal(pthread_create(&hold, NULL, hold_for_copies, p[0].remote), 0);
    await_parked(s.ps[CLOCK], 2); /* the other worker, and the hold */
    for (int i = 0; i < 2; i++) est_link_close(est_tasks_of(p[1].remote)->tasks[i].link, "it dies");
    pthread_join(thread[1], &result);
    assert_null(result);
    if (lock != NULL) pthread_mutex_unlock(lock);
    pthread_join(hold, &result);
    assert_non_null(result);
    expect_values(&s, -2.5f, 1);
    assert_ok(est_remote_release(p[0].remote));
    pthread_join(thread[2], &result);
    assert_non_null(result);
    for (int i = 0; i < 3; i++) close_pusher(&p[i]);
    servers_stop(&s);
}

TEST(hold_without_committer)
{
    for (int how = 0; how < N_DEATHS; how++) hold_without_committer((death)how);
}

/* --- work for another step ---------------------------------------------------------------------------------------- */

/* A worker whose link broke asks again over another before the clock has seen it break: it is one, and who waited over
 * the old link waits no longer. */
TEST(one_wait_a_worker)
{
    servers      s       = servers_start(2, 2, "tcp");
    pusher       p[2]    = { make_pusher(&s, 0), make_pusher(&s, 1) };
    est_tasks   *r       = est_tasks_of(p[0].remote);
    est_packing  packing = { 0 };
    est_payload  payload;
    est_message *answer;
    est_link    *again;
    est_ask     *ask;
    pthread_t    thread;
    void        *result;

    assert_int_equal(pthread_create(&thread, NULL, push_one, &p[0]), 0);
    await_parked(s.ps[CLOCK], 1);
    assert_ok(est_net_connect(est_server_net(s.worker[0]), r->tasks[CLOCK].address, "ps:0", 20, &again));
    est_wire_put_i64(&packing.head, EST_FIELD_STEP, r->step);
    est_wire_put_u64(&packing.head, EST_FIELD_TIMELINE, r->timeline);
    est_wire_put_i64(&packing.head, EST_FIELD_SYNC_REPLICAS, 2);
    assert_ok(est_packing_payload(&packing, &payload));
    assert_ok(est_link_ask(again, EST_METHOD_FINISH_STEP, "the same", payload, 60, NULL, NULL, &ask));
    pthread_join(thread, &result);
    assert_null(result);
    await_parked(s.ps[CLOCK], 1);
    assert_string_equal(s.ps[CLOCK]->committer, "");
    assert_ok(push(&p[1], 4)); /* the second of two: now the step is made */
    assert_ok(est_ask_wait(ask, &answer));
    assert_int_equal(est_head_u64(answer, EST_FIELD_COMMIT, 0), 0);
    expect_values(&s, -2.5f, 1);
    est_message_free(answer);
    est_link_close(again, "done");
    est_link_free(again);
    est_packing_clear(&packing);
    for (int i = 0; i < 2; i++) close_pusher(&p[i]);
    servers_stop(&s);
}

/* A chief that was started again says that all variables have values, which changes none; then a spare worker comes
 * with what it made of the step before. The step that is being made is not touched by either. */
TEST(late_spare)
{
    servers   s    = servers_start(2, 3, "tcp");
    pusher    p[3] = { make_pusher(&s, 0), make_pusher(&s, 1), make_pusher(&s, 2) };
    pthread_t thread[2];
    bool      finished;

    p[1].value = 4;
    start_pushes(p, thread);
    finish_pushes(thread);
    expect_values(&s, -2.5f, 1);
    for (int i = 0; i < 2; i++) assert_ok(p[i].remote->ops->turn(p[i].remote, &finished));
    hold_steps(s.ps[CLOCK], true);
    start_pushes(p, thread);
    await_parked(s.ps[CLOCK], 2);
    est_tasks_of(p[2].remote)->options.is_chief = true;
    assert_ok(est_remote_declare_ready(p[2].remote));
    assert_ok(push(&p[2], 100));
    hold_steps(s.ps[CLOCK], false);
    finish_pushes(thread);
    expect_values(&s, -5, 2);
    for (int i = 0; i < 3; i++) close_pusher(&p[i]);
    servers_stop(&s);
}

static void write_zero(const pusher *p, const char *name, int task, est_dtype dtype, est_shape shape)
{
    est_tensor *zero = NULL;

    assert_ok(est_tensor_create(dtype, shape, &zero));
    memset(est_tensor_mutable_data(zero), 0, est_tensor_bytes(zero));
    assert_ok(p->remote->ops->write(p->remote, &(est_var){ .name = name, .task = task }, zero));
    est_tensor_free(zero);
}

/* Variables go back to what they were, in tasks that stay: steps are counted from there. */
TEST(goes_back)
{
    servers   s    = servers_start(2, 2, "tcp");
    pusher    p[2] = { make_pusher(&s, 0), make_pusher(&s, 1) };
    pthread_t thread[2];
    bool      finished;

    p[1].value = 4;
    for (int step = 1; step <= 2; step++) {
        start_pushes(p, thread);
        finish_pushes(thread);
        expect_values(&s, -2.5f * (float)step, step);
        for (int i = 0; i < 2; i++) assert_ok(p[i].remote->ops->turn(p[i].remote, &finished));
    }
    write_zero(&p[0], "a", OTHER, EST_F32, EST_SHAPE(1));
    write_zero(&p[0], "global_step", CLOCK, EST_I64, EST_SHAPE_SCALAR);
    for (int i = 0; i < 2; i++) {
        est_session_free(p[i].session);
        open_pusher(&p[i]);
    }
    start_pushes(p, thread);
    finish_pushes(thread);
    expect_values(&s, -2.5f, 1);
    for (int i = 0; i < 2; i++) close_pusher(&p[i]);
    servers_stop(&s);
}

static void *await_others(void *arg)
{
    return est_remote_await_others(arg, false) == EST_OK ? arg : NULL;
}

/* Who waits for the others to end makes no more steps with them: the other one goes on alone. */
TEST(one_ends_first)
{
    servers   s   = servers_start(1, 2, "tcp");
    pusher    one = make_pusher(&s, 0), two = make_pusher(&s, 1);
    pthread_t thread;
    bool      finished;

    assert_int_equal(pthread_create(&thread, NULL, push_one, &one), 0);
    assert_ok(push(&two, 4));
    pthread_join(thread, NULL);
    assert_ok(two.remote->ops->turn(two.remote, &finished));
    assert_int_equal(pthread_create(&thread, NULL, await_others, one.remote), 0);
    assert_ok(push(&two, 4));
    close_pusher(&two);
    pthread_join(thread, NULL);
    close_pusher(&one);
    servers_stop(&s);
}

/* --- workers that differ ------------------------------------------------------------------------------------------ */

static est_tensor *value_of(const servers *s, const char *name)
{
    est_tensor *copy = NULL;

    for (int i = 0; i < s->n_ps && copy == NULL; i++) {
        const est_var *var = est_store_find(est_host_store(s->ps[i]->host), name);

        if (var != NULL) assert_ok(est_tensor_create_from(var->value.dtype, var->value.shape, var->value.data, &copy));
    }
    assert_non_null(copy);
    return copy;
}

/* Workers that make other updates: they would be made beside each other, and not as one. */
static void update_differently(int n_ps)
{
    servers     s    = servers_start(n_ps, 2, "tcp");
    pusher      p[2] = { make_pusher(&s, 0), make_pusher(&s, 1) };
    pthread_t   thread;
    void       *result;
    est_tensor *a, *step;

    assert_int_equal(pthread_create(&thread, NULL, push_one, &p[0]), 0);
    await_parked(s.ps[CLOCK], 1);
    assert_ok(est_session_prepare(p[1].session, EST_NODES(p[1].x), EST_NO_NODES, EST_NODES(p[1].other), &p[1].run));
    assert_int_equal(push(&p[1], 4), EST_FAILED_PRECONDITION);
    assert_non_null(strstr(est_error_message(), "worker:1"));
    assert_non_null(strstr(est_error_message(), "worker:0"));
    close_pusher(&p[1]); /* so the other goes on alone */
    pthread_join(thread, &result);
    assert_non_null(result);
    a    = value_of(&s, "a");
    step = value_of(&s, "global_step");
    assert_true(*(const float *)est_tensor_data(a) == -1);
    assert_int_equal(*(const int64_t *)est_tensor_data(step), 1);
    est_tensor_free(a);
    est_tensor_free(step);
    close_pusher(&p[0]);
    servers_stop(&s);
}

TEST(update_differently)
{
    update_differently(1);
    update_differently(2);
}

/* The clock was started again where the time is behind: its timeline is the lesser one. The other task refuses what is
 * pushed for that, until the chief has said that it is the one that counts. */
TEST(clock_is_behind)
{
    servers   s    = servers_start(2, 2, "tcp");
    pusher    p[2] = { make_pusher(&s, 0), make_pusher(&s, 1) };
    pthread_t thread[2];

    p[1].value = 4;
    start_pushes(p, thread);
    finish_pushes(thread);
    expect_values(&s, -2.5f, 1);
    pthread_mutex_lock(&s.ps[CLOCK]->host_lock);
    pthread_mutex_lock(&s.ps[CLOCK]->lock);
    s.ps[CLOCK]->timeline -= UINT64_C(5000) << 20; /* five seconds */
    s.ps[CLOCK]->version = (est_step_id){ 0, 0 };
    pthread_mutex_unlock(&s.ps[CLOCK]->lock);
    pthread_mutex_unlock(&s.ps[CLOCK]->host_lock);
    for (int i = 0; i < 2; i++) {
        est_session_free(p[i].session);
        open_pusher(&p[i]);
    }
    assert_int_equal(push(&p[1], 4), EST_ABORTED);
    expect_values(&s, -2.5f, 1);
    assert_ok(est_remote_declare_ready(p[0].remote));
    est_session_free(p[1].session);
    open_pusher(&p[1]);
    start_pushes(p, thread);
    finish_pushes(thread);
    expect_values(&s, -5, 2);
    for (int i = 0; i < 2; i++) close_pusher(&p[i]);
    servers_stop(&s);
}

/* Whoever waits for a step when the job ends begins no other, limit or not. */
TEST(job_ends_while_waiting)
{
    servers   s    = servers_start(1, 2, "tcp");
    pusher    p[2] = { make_pusher(&s, 0), make_pusher(&s, 1) };
    pthread_t thread[2];
    void     *result;
    bool      finished;

    start_pushes(p, thread);
    finish_pushes(thread);
    assert_ok(p[1].remote->ops->turn(p[1].remote, &finished));
    assert_false(finished);
    assert_int_equal(pthread_create(&thread[1], NULL, push_one, &p[1]), 0);
    await_parked(s.ps[CLOCK], 1);
    assert_ok(est_remote_end_job(p[0].remote));
    pthread_join(thread[1], &result);
    assert_non_null(result);
    assert_ok(p[1].remote->ops->turn(p[1].remote, &finished));
    assert_true(finished);
    for (int i = 0; i < 2; i++) close_pusher(&p[i]);
    servers_stop(&s);
}

/* Others of the same names, the processes of which count as started later: not in the same millisecond. */
static servers start_later(const servers *s)
{
    servers later = servers_start(1, 2, "tcp");

    while (later.worker[1]->self.incarnation <= s->worker[1]->self.incarnation) {
        servers_stop(&later);
        later = servers_start(1, 2, "tcp");
    }
    return later;
}

/* A process that takes the place of the committer was not asked to commit: another one is. */
TEST(committer_is_put_out)
{
    servers   s = servers_start(2, 2, "tcp"), later = start_later(&s);
    pusher    p[2]     = { make_pusher(&s, 0), make_pusher(&s, 1) };
    int64_t   deadline = est_now_ns() + 60 * EST_NS_PER_SEC;
    bool      asked    = true;
    est_link *link;
    pthread_t thread[2];
    void     *result;

    hold_steps(s.ps[CLOCK], true);
    for (int i = 0; i < 2; i++) { /* who came last commits */
        assert_int_equal(pthread_create(&thread[i], NULL, push_one, &p[i]), 0);
        await_parked(s.ps[CLOCK], i + 1);
    }
    (void)let_commit(&s, BEFORE_OTHERS);
    assert_ok(est_net_connect(est_server_net(later.worker[1]), est_cluster_address(s.cluster, "ps", CLOCK), "ps:0", 20,
                              &link));
    while (asked && est_now_ns() < deadline) {
        pthread_mutex_lock(&s.ps[CLOCK]->lock);
        asked = strcmp(s.ps[CLOCK]->committer, "worker:1") == 0;
        pthread_mutex_unlock(&s.ps[CLOCK]->lock);
        if (asked) est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    assert_false(asked);
    est_link_close(link, "done");
    est_link_free(link);
    pthread_join(thread[0], &result); /* it is the only one now */
    assert_non_null(result);
    for (int i = 0; i < 2; i++) est_link_close(est_tasks_of(p[1].remote)->tasks[i].link, "it dies");
    pthread_join(thread[1], NULL);
    for (int i = 0; i < 2; i++) close_pusher(&p[i]);
    servers_stop(&later);
    servers_stop(&s);
}

/* Waits until the process has its task's place at the server. */
static void await_place(est_server *server, const est_server *process)
{
    int64_t deadline = est_now_ns() + 60 * EST_NS_PER_SEC;
    bool    has      = false;

    while (!has && est_now_ns() < deadline) {
        pthread_mutex_lock(&server->lock);
        for (int i = 0; i < server->n_clients; i++) {
            if (server->clients[i]->who.incarnation == process->self.incarnation) has = true;
        }
        pthread_mutex_unlock(&server->lock);
        if (!has) est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    assert_true(has);
}

/* A process that takes the place of a worker makes no steps before it begins one: nobody waits for it until then. */
TEST(new_process_joins_later)
{
    servers   s = servers_start(2, 2, "tcp"), later = start_later(&s);
    pusher    p[2] = { make_pusher(&s, 0), make_pusher(&s, 1) };
    est_link *link;
    pthread_t thread[2];
    bool      finished;

    p[1].value = 4;
    start_pushes(p, thread);
    finish_pushes(thread);
    assert_ok(est_net_connect(est_server_net(later.worker[1]), est_cluster_address(s.cluster, "ps", CLOCK), "ps:0", 60,
                              &link));
    await_place(s.ps[CLOCK], later.worker[1]);
    assert_ok(p[0].remote->ops->turn(p[0].remote, &finished));
    assert_ok(push(&p[0], 1));
    expect_values(&s, -3.5f, 2);
    est_link_close(link, "done");
    est_link_free(link);
    for (int i = 0; i < 2; i++) close_pusher(&p[i]);
    servers_stop(&later);
    servers_stop(&s);
}
