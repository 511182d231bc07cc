/* SPDX-License-Identifier: Apache-2.0
 *
 * What a task tells of itself: numbers that are known, numbers per second by a clock that the test moves, those who
 * wait and for whom, and an answer at once from a task that is busy. */
#include "cluster/task_status.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "cluster/remote_internal.h"
#include "cluster/remote_tasks.h"
#include "cluster/wait_table.h"
#include "estoc/estoc.h"
#include "kernels/row_table.h"
#include "ops/ops.h"
#include "runtime/store.h"
#include "support/fault_loop.h"
#include "support/log_test.h"
#include "support/nn_test.h"
#include "support/port_test.h"
#include "support/servers_test.h"

#define WORKERS       2
#define DEADLINE_SECS 20 /* for what should be at once, on a busy machine */
#define SEC           EST_NS_PER_SEC

static est_manual_clock manual;

/* --- a ps and two workers ----------------------------------------------------------------------------------------- */

typedef struct fixture {
    est_cluster *cluster;
    est_server  *ps, *worker[WORKERS];
    est_remote  *remote[WORKERS]; /* the first is the chief's */
    char         address[WORKERS + 2][32];
    int          ports[WORKERS + 2]; /* sockets that keep them */
} fixture;

/* A worker of the cluster. The first is the chief. */
static void add_worker(fixture *f, int i, int64_t limit)
{
    assert_ok(est_server_create(f->cluster, "worker", i, EST_SERVER(.transport = "tcp", .threads = 1), &f->worker[i]));
    assert_ok(est_remote_create(f->worker[i],
                                EST_REMOTE(.is_chief = i == 0, .connect_secs = DEADLINE_SECS,
                                           .answer_secs = DEADLINE_SECS, .step_limit = limit),
                                &f->remote[i]));
}

static fixture set_up(int64_t limit)
{
    fixture     f = { 0 };
    const char *at[WORKERS + 2];

    est_manual_clock_init(&manual, 1000 * SEC, 0);
    est_clock_set(&manual.clock);
    for (int i = 0; i < WORKERS + 2; i++) {
        snprintf(f.address[i], sizeof f.address[i], "127.0.0.1:%d", port_take(&f.ports[i]));
        at[i] = f.address[i];
    }
    assert_ok(est_cluster_create((est_jobs){ (const est_job[]){ { .name = "ps", .addresses = { at, 1 } },
                                                                { .name = "worker", .addresses = { at + 1, WORKERS } },
                                                                { .name = "evaluator", .addresses = { at + 3, 1 } } },
                                             3 },
                                 &f.cluster));
    assert_ok(est_server_create(f.cluster, "ps", 0, EST_SERVER(.transport = "tcp", .threads = 1), &f.ps));
    for (int i = 0; i < WORKERS; i++) add_worker(&f, i, limit);
    return f;
}

static void tear_down(fixture *f)
{
    for (int i = 0; i < WORKERS; i++) {
        est_remote_free(f->remote[i]);
        est_server_free(f->worker[i]);
    }
    est_server_free(f->ps);
    for (int i = 0; i < WORKERS + 2; i++) close(f->ports[i]);
    est_cluster_free(f->cluster);
    est_clock_set(NULL);
}

/* --- a model of one weight ---------------------------------------------------------------------------------------- */

typedef struct model {
    est_graph   *graph;
    est_session *session;
    est_node     loss, train;
} model;

static void open_model(model *m, est_remote *remote)
{
    est_node weight;

    *m = (model){ 0 };
    assert_ok(est_graph_create(5, &m->graph));
    weight   = est_weight(m->graph, "w", EST_SHAPE(10), NULL);
    m->loss  = est_mean(est_square(est_read_variable(weight)));
    m->train = est_minimize(est_sgd(0.1), m->loss, NULL);
    assert_ok(est_graph_status(m->graph));
    m->session = nn_session(m->graph, remote);
}

static void close_model(model *m)
{
    est_session_free(m->session);
    est_graph_free(m->graph);
}

static void train(model *m, int steps)
{
    est_tensor *loss;

    for (int i = 0; i < steps; i++) {
        assert_ok(est_session_run(m->session, (est_feeds){ 0 }, EST_NODES(m->loss), EST_NODES(m->train), &loss));
        est_tensor_free(loss);
    }
}

/* Gives the task a variable with rows of 4 for keys, of which there are 7, and room for 100. */
static void add_rows(est_server *server)
{
    const int64_t  keys[7] = { 1, 2, 3, 4, 5, 6, 7 };
    int64_t        rows[7];
    est_row_policy policy = { .admit_after = 1 };
    est_graph     *graph  = NULL;
    est_var       *var;
    est_node       handle;

    assert_ok(est_graph_create(1, &graph));
    handle = est_row_variable(graph, "rows", EST_SHAPE(100, 4), &policy);
    assert_ok(est_graph_status(graph));
    pthread_mutex_lock(&server->host_lock);
    assert_ok(est_store_variable(est_host_store(server->host), est_graph_node(graph, handle.id), &var));
    assert_ok(est_row_table_train(est_row_table_of(var), keys, 7, rows));
    pthread_mutex_unlock(&server->host_lock);
    est_graph_free(graph);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* What was answered is done; the variables are free a moment later. */
static void settle(est_server *server)
{
    pthread_mutex_lock(&server->host_lock);
    pthread_mutex_unlock(&server->host_lock);
}

static est_json *status_of(est_server *server)
{
    char     *text = NULL;
    est_json *root = NULL;

    assert_ok(est_server_status(server, &text));
    assert_ok(est_json_parse(text, strlen(text), "a status", &root));
    est_free(text);
    return root;
}

static void expect_text(const est_json *root, const char *path, const char *want)
{
    const char *got = NULL;

    assert_ok(est_json_string(root, &got, "%s", path));
    assert_string_equal(got, want);
}

static void expect_number(const est_json *root, const char *path, double want)
{
    double got = NAN;

    assert_ok(est_json_f64(root, &got, "%s", path));
    assert_near(got, want, 1e-5); /* six digits are written */
}

static double number_at(const est_json *root, const char *path)
{
    double got = NAN;

    assert_ok(est_json_f64(root, &got, "%s", path));
    return got;
}

/* An element of a list of objects; NULL: none has that value under that key. */
static est_json *find_by(const est_json *root, const char *list, const char *key, const char *want)
{
    const est_json *all = est_json_get(root, "%s", list);
    est_json       *one;
    size_t          i;

    json_array_foreach(all, i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, key)), want) == 0) return one;
    }
    return NULL;
}

/* Asks again and again until `who` waits, or does no longer; the status then. */
static est_json *await_wait(est_server *server, const char *who, bool waits)
{
    int64_t until = est_machine_ns() + DEADLINE_SECS * SEC;

    for (;;) {
        est_json *root = status_of(server);

        if ((find_by(root, "waits", "who", who) != NULL) == waits) return root;
        est_json_free(root);
        if (est_machine_ns() > until) fail_msg("%s should %s", who, waits ? "wait" : "wait no longer");
    }
}

/* The same until it waits for a reason: it may have others before. */
static est_json *await_wait_of(est_server *server, const char *who, const char *why)
{
    for (;;) {
        est_json       *root = await_wait(server, who, true);
        const est_json *wait = find_by(root, "waits", "who", who);

        if (strcmp(json_string_value(json_object_get(wait, "why")), why) == 0) return root;
        est_json_free(root);
    }
}

static void expect_wait(est_json *root, const char *who, const char *for_whom, const char *why, double since)
{
    est_json *wait = find_by(root, "waits", "who", who);

    assert_non_null(wait);
    expect_text(wait, "for_whom", for_whom);
    expect_text(wait, "why", why);
    expect_number(wait, "since_secs", since);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void expect_process(const est_json *root, const fixture *f)
{
    const char  *incarnation;
    est_cluster *cluster;
    char         host[256], target[64];

    expect_text(root, "task", "ps:0");
    expect_text(root, "job", "");
    expect_text(root, "transport", "tcp");
    snprintf(target, sizeof target, "tcp://%s", f->address[0]);
    assert_string_equal(est_server_target(f->ps), target);
    expect_text(root, "address", f->address[0]);
    expect_number(root, "pid", (double)getpid());
    assert_int_equal(gethostname(host, sizeof host), 0);
    expect_text(root, "host", host);
    expect_number(root, "up_secs", 2);
    assert_true(number_at(root, "memory_bytes") > 1e6);
    assert_ok(est_json_string(root, &incarnation, "incarnation"));
    assert_int_equal(strspn(incarnation, "0123456789abcdef"), 16);
    assert_ok(
        est_cluster_from_json((est_cluster_source){ "a status", "cluster." }, est_json_get(root, "cluster"), &cluster));
    assert_string_equal(est_cluster_address(cluster, "worker", 1), f->address[2]);
    est_cluster_free(cluster);
}

static void expect_work(const est_json *root)
{
    const est_json *worker = find_by(root, "clients", "task", "worker:0");

    expect_number(root, "step", 3);
    expect_number(root, "steps", 3);
    expect_number(root, "steps_per_sec", 1.5);
    assert_true(number_at(root, "runs_applied") >= 3);
    assert_true(number_at(root, "variables.count") >= 2); /* the global step, rows, what belongs to them */
    assert_true(number_at(root, "variables.bytes") >= 8 + 7 * 4 * 4);
    assert_true(number_at(root, "variables.bytes") <
                100 * 4 * 4); /* rows that there are, not those that there might be */
    expect_number(root, "variables.rows", 7);
    expect_number(root, "variables.age_secs", 0);
    expect_number(root, "queued", 0);
    assert_non_null(worker);
    assert_true(json_is_true(json_object_get(worker, "here")));
    assert_true(json_is_null(json_object_get(worker, "lost_why")));
    assert_true(number_at(worker, "runs") >= 3);
    expect_number(worker, "repeats", 0);
    expect_number(worker, "steps", 3);
    expect_number(worker, "steps_per_sec", 1.5);
    expect_number(worker, "step", 3);
    assert_true(number_at(worker, "silent_secs") >= 0);
    assert_true(number_at(worker, "bytes_in") > 0 && number_at(worker, "bytes_out") > 0);
    expect_number(root, "bytes_in_per_sec", number_at(root, "bytes_in") / 2);
}

TEST(fields)
{
    fixture   f = set_up(0);
    est_json *root;
    model     m;

    open_model(&m, f.remote[0]);
    add_rows(f.ps);
    train(&m, 3);
    settle(f.ps);
    est_manual_clock_advance(&manual, 2 * SEC);
    root = status_of(f.ps);
    expect_process(root, &f);
    expect_work(root);
    est_json_free(root);
    root = status_of(f.worker[0]);
    assert_true(json_is_null(json_object_get(root, "step"))); /* it is not here */
    assert_non_null(find_by(root, "clients", "task", "ps:0"));
    assert_true(number_at(root, "bytes_out_per_sec") > 0);
    est_json_free(root);
    close_model(&m);
    tear_down(&f);
}

/* Numbers per second are of the last 5 to 10 s, whoever asks and however often. */
TEST(rates)
{
    fixture   f = set_up(0);
    est_json *root;
    model     m;

    open_model(&m, f.remote[0]);
    train(&m, 3);
    est_manual_clock_advance(&manual, 7 * SEC);
    train(&m, 10); /* its first step keeps 4 steps after 7 s */
    est_manual_clock_advance(&manual, 5 * SEC);
    train(&m, 1); /* 14 after 12 s */
    est_manual_clock_advance(&manual, 3 * SEC);
    for (int i = 0; i < 3; i++) {
        root = status_of(f.ps);
        expect_number(root, "steps_per_sec", 10.0 / 8);
        expect_number(root, "clients[0].steps_per_sec", 10.0 / 8);
        est_json_free(root);
    }
    est_manual_clock_advance(&manual, 85 * SEC); /* nothing more happens */
    for (int i = 0; i < 2; i++) est_json_free(status_of(f.ps));
    est_manual_clock_advance(&manual, 5 * SEC);
    est_json_free(status_of(f.ps));
    root = status_of(f.ps);
    expect_number(root, "steps_per_sec", 0);
    est_json_free(root);
    close_model(&m);
    tear_down(&f);
}

/* A task of multi-worker training reports its own step. A step that is made again counts once. */
TEST(own_steps)
{
    fixture   f = set_up(0);
    est_json *root;

    est_manual_clock_advance(&manual, 5 * SEC);
    for (int64_t step = 101; step <= 120; step++) {
        est_server_note_step(f.worker[0], step);
        est_server_note_step(f.worker[0], step);
    }
    est_manual_clock_advance(&manual, 5 * SEC);
    root = status_of(f.worker[0]);
    expect_number(root, "step", 120);
    expect_number(root, "steps", 20);
    expect_number(root, "steps_per_sec", 2);
    est_json_free(root);
    root = status_of(f.worker[1]);
    assert_true(json_is_null(json_object_get(root, "step")));
    est_json_free(root);
    tear_down(&f);
}

static void *connect_remote(void *remote)
{
    est_remote *r = remote;

    assert_ok(r->ops->connect(r));
    return NULL;
}

TEST(wait_for_the_chief)
{
    fixture    f = set_up(0);
    est_thread thread;
    est_json  *root;

    assert_ok(f.remote[0]->ops->connect(f.remote[0]));
    assert_ok(est_thread_start(&thread, "worker", connect_remote, f.remote[1]));
    est_json_free(await_wait(f.ps, "worker:1", true));
    est_json_free(await_wait(f.worker[1], "worker:1", true));
    est_manual_clock_advance(&manual, 4 * SEC);
    root = status_of(f.ps);
    expect_wait(root, "worker:1", "worker:0", "it has not initialized the variables here", 4);
    est_json_free(root);
    root = status_of(f.worker[1]);
    expect_wait(root, "worker:1", "ps:0", "the chief has not initialized its variables", 4);
    est_json_free(root);
    root = status_of(f.worker[0]); /* the same process, and another task */
    assert_int_equal(json_array_size(json_object_get(root, "waits")), 0);
    est_json_free(root);
    assert_ok(est_remote_declare_ready(f.remote[0]));
    est_thread_join(&thread);
    est_json_free(await_wait(f.ps, "worker:1", false));
    est_json_free(await_wait(f.worker[1], "worker:1", false));
    tear_down(&f);
}

static void *ask_turn(void *remote)
{
    est_remote *r        = remote;
    bool        finished = false;

    assert_ok(r->ops->turn(r, &finished));
    assert_true(finished);
    return NULL;
}

/* One step is left, and another worker has begun it. */
TEST(wait_for_a_turn)
{
    fixture    f        = set_up(1);
    bool       finished = true;
    est_thread thread;
    est_json  *root, *turn;
    model      m;

    open_model(&m, f.remote[0]);
    assert_ok(est_remote_declare_ready(f.remote[0]));
    assert_ok(f.remote[1]->ops->connect(f.remote[1]));
    assert_ok(f.remote[0]->ops->turn(f.remote[0], &finished));
    assert_false(finished);
    assert_ok(est_thread_start(&thread, "worker", ask_turn, f.remote[1]));
    est_json_free(await_wait(f.ps, "worker:1", true));
    est_json_free(await_wait(f.worker[1], "worker:1", true));
    est_manual_clock_advance(&manual, 41 * SEC);
    root = status_of(f.ps);
    expect_wait(root, "worker:1", "worker:0", "their steps are under way", 41);
    turn = find_by(root, "turns", "task", "worker:0");
    assert_non_null(turn);
    expect_number(turn, "since_secs", 41);
    expect_number(turn, "step", 0);
    est_json_free(root);
    root = status_of(f.worker[1]);
    expect_wait(root, "worker:1", "ps:0", "steps of others are under way", 41);
    est_json_free(root);
    train(&m, 1);
    est_thread_join(&thread);
    root = status_of(f.ps);
    assert_int_equal(json_array_size(json_object_get(root, "turns")), 0);
    assert_int_equal(json_array_size(json_object_get(root, "waits")), 0);
    est_json_free(root);
    close_model(&m);
    tear_down(&f);
}

static void *hold_steps(void *remote)
{
    assert_ok(est_remote_hold(remote));
    return NULL;
}

static void *begin_step(void *remote)
{
    est_remote *r        = remote;
    bool        finished = true;

    assert_ok(r->ops->turn(r, &finished));
    assert_false(finished);
    return NULL;
}

TEST(wait_for_a_checkpoint)
{
    fixture    f        = set_up(0);
    bool       finished = true;
    est_thread chief, worker;
    est_json  *root;
    model      m;

    open_model(&m, f.remote[0]);
    assert_ok(est_remote_declare_ready(f.remote[0]));
    assert_ok(f.remote[1]->ops->connect(f.remote[1]));
    assert_ok(f.remote[1]->ops->turn(f.remote[1], &finished));
    assert_ok(est_thread_start(&chief, "chief", hold_steps, f.remote[0]));
    root = await_wait(f.ps, "worker:0", true);
    expect_wait(root, "worker:0", "worker:1", "their steps are under way, and a checkpoint waits for them", 0);
    est_json_free(root);
    assert_ok(est_thread_start(&worker, "worker", begin_step, f.remote[1])); /* gives up the turn that it has */
    est_thread_join(&chief);
    root = await_wait(f.ps, "worker:1", true);
    expect_wait(root, "worker:1", "worker:0", "it holds steps for a checkpoint", 0);
    est_json_free(root);
    assert_ok(est_remote_release(f.remote[0]));
    est_thread_join(&worker);
    close_model(&m);
    tear_down(&f);
}

static void *await_others(void *remote)
{
    assert_ok(est_remote_await_others(remote, false));
    return NULL;
}

/* The chief has made its steps. */
TEST(wait_for_the_others)
{
    fixture    f = set_up(0);
    est_thread chief;
    est_json  *root;
    model      m;

    open_model(&m, f.remote[0]);
    assert_ok(est_remote_declare_ready(f.remote[0]));
    assert_ok(est_thread_start(&chief, "chief", await_others, f.remote[0]));
    root = await_wait(f.ps, "worker:0", true);
    expect_wait(root, "worker:0", "tasks that have not come yet", "they may still train", 0);
    est_json_free(root);
    assert_ok(f.remote[1]->ops->connect(f.remote[1]));
    root = status_of(f.ps);
    expect_wait(root, "worker:0", "worker:1", "they still train", 0);
    est_json_free(root);
    est_remote_free(f.remote[1]);
    f.remote[1] = NULL;
    est_thread_join(&chief);
    close_model(&m);
    tear_down(&f);
}

/* Asks for what is waited for, and does not wait. */
static est_ask *ask_ps(const fixture *f, int worker, est_method method, const est_packing *packing)
{
    est_ask    *ask = NULL;
    est_payload payload;

    assert_ok(est_packing_payload(packing, &payload));
    assert_ok(est_link_ask(est_tasks_of(f->remote[worker])->tasks[0].link, (uint16_t)method, est_method_text(method),
                           payload, DEADLINE_SECS, NULL, NULL, &ask));
    return ask;
}

static void expect_answer(est_ask *ask, bool commit)
{
    est_message *answer = NULL;

    assert_ok(est_ask_wait(ask, &answer));
    assert_int_equal(est_head_u64(answer, EST_FIELD_COMMIT, 0), commit);
    est_message_free(answer);
}

static void await_reason(const fixture *f, const char *why, const char *who, const char *for_whom)
{
    est_json *root, *wait;

    for (;;) {
        root = await_wait(f->ps, who, true);
        wait = find_by(root, "waits", "why", why);
        if (wait != NULL) break;
        est_json_free(root);
    }
    expect_text(wait, "who", who);
    expect_text(wait, "for_whom", for_whom);
    est_json_free(root);
}

/* Steps of two workers: one that has not come, one that has not pushed, one that commits, and a chief that holds. */
TEST(wait_for_a_step)
{
    fixture     f    = set_up(0);
    est_packing step = { 0 }, held = { 0 };
    est_ask    *chief, *worker, *hold;
    bool        finished;
    model       m;

    open_model(&m, f.remote[0]);
    assert_ok(est_remote_declare_ready(f.remote[0]));
    assert_ok(f.remote[1]->ops->connect(f.remote[1]));
    for (int i = 0; i < WORKERS; i++) est_tasks_of(f.remote[i])->options.sync_replicas = WORKERS;
    assert_ok(f.remote[0]->ops->turn(f.remote[0], &finished));
    est_wire_put_i64(&step.head, EST_FIELD_STEP, 0);
    est_wire_put_u64(&step.head, EST_FIELD_TIMELINE, est_tasks_of(f.remote[0])->timeline);
    est_wire_put_i64(&step.head, EST_FIELD_SYNC_REPLICAS, WORKERS);
    est_wire_put_bool(&held.head, EST_FIELD_HELD, true);

    chief = ask_ps(&f, 0, EST_METHOD_FINISH_STEP, &step);
    await_reason(&f, "a step needs their pushes", "worker:0", "workers that have not come yet");
    assert_ok(f.remote[1]->ops->turn(f.remote[1], &finished));
    await_reason(&f, "they have not pushed all of the step yet", "worker:0", "worker:1");
    hold = ask_ps(&f, 0, EST_METHOD_HOLD, &held); /* nothing is under way */
    expect_answer(hold, false);
    await_reason(&f, "it holds steps for a checkpoint", "worker:0", "worker:0");
    est_packing_reset(&held);
    expect_answer(ask_ps(&f, 0, EST_METHOD_HOLD, &held), false);
    worker = ask_ps(&f, 1, EST_METHOD_FINISH_STEP, &step);
    expect_answer(worker, true);
    await_reason(&f, "it commits the step", "worker:0", "worker:1");
    est_wire_put_bool(&held.head, EST_FIELD_HELD, true);
    hold = ask_ps(&f, 0, EST_METHOD_HOLD, &held);
    await_reason(&f, "their steps are under way, and a checkpoint waits for them", "worker:0", "worker:1");
    assert_ok(est_remote_task_tell(&est_tasks_of(f.remote[1])->tasks[0], EST_METHOD_COMMIT, &step, DEADLINE_SECS));
    expect_answer(hold, false); /* it was made */
    assert_ok(est_remote_end_job(f.remote[0]));
    expect_answer(chief, false);
    est_packing_clear(&step);
    est_packing_clear(&held);
    close_model(&m);
    tear_down(&f);
}

static void *run_step(void *m)
{
    train(m, 1);
    return NULL;
}

static void await_busy(est_server *server)
{
    int64_t until = est_machine_ns() + DEADLINE_SECS * SEC;
    bool    busy  = false;

    while (!busy && est_machine_ns() < until) {
        est_json *root = status_of(server);

        busy = json_is_true(json_object_get(root, "busy"));
        est_json_free(root);
    }
    assert_true(busy);
}

/* While a run has the variables the answer comes at once, with what was known of them before; and the worker says that
 * it waits. */
TEST(busy_task)
{
    fixture    f = set_up(0);
    est_thread thread;
    est_json  *root;
    model      m;
    char      *text = NULL;

    open_model(&m, f.remote[0]);
    train(&m, 2);
    settle(f.ps);
    est_json_free(status_of(f.ps));
    pthread_mutex_lock(&f.ps->host_lock);
    assert_ok(est_thread_start(&thread, "worker", run_step, &m));
    est_json_free(await_wait(f.worker[0], "worker:0", true));
    await_busy(f.ps);
    est_manual_clock_advance(&manual, 12 * SEC);
    assert_ok(est_cluster_ask_status(f.worker[1], f.address[0], "ps:0", DEADLINE_SECS, &text));
    assert_ok(est_json_parse(text, strlen(text), "a status", &root));
    assert_true(number_at(root, "variables.count") >= 2);
    expect_number(root, "variables.age_secs", 12);
    expect_number(root, "step", 2);
    assert_true(json_is_true(json_object_get(root, "busy")));
    est_json_free(root);
    est_free(text);
    root = status_of(f.worker[0]);
    expect_wait(root, "worker:0", "ps:0", "phase 1 of a step", 12);
    est_json_free(root);
    pthread_mutex_unlock(&f.ps->host_lock);
    est_thread_join(&thread);
    root = status_of(f.worker[0]);
    assert_int_equal(json_array_size(json_object_get(root, "waits")), 0);
    est_json_free(root);
    close_model(&m);
    tear_down(&f);
}

/* Awaits the n-th line of the log that tells of a wait. */
static void await_told(int n, const char *line)
{
    int64_t until = est_machine_ns() + DEADLINE_SECS * SEC;

    while (log_count(EST_LOG_WARN, " has waited ") < n && est_machine_ns() < until) sched_yield();
    assert_int_equal(log_count(EST_LOG_WARN, " has waited "), n);
    log_expect(line);
}

/* A task that is there and does not do what it was asked for: the log of the one that waits says so, again and
 * again. */
TEST(hung_task)
{
    fixture    f = set_up(0);
    est_thread thread;
    model      m;

    open_model(&m, f.remote[0]);
    train(&m, 2);
    pthread_mutex_lock(&f.ps->host_lock);
    log_keep(EST_LOG_WARN);
    assert_ok(est_thread_start(&thread, "worker", run_step, &m));
    est_json_free(await_wait(f.worker[0], "worker:0", true));
    est_manual_clock_advance(&manual, 10 * SEC);
    await_told(1, "worker:0 has waited 10 s for ps:0: phase 1 of a step");
    est_manual_clock_advance(&manual, 12 * SEC);
    await_told(2, "worker:0 has waited 22 s for ps:0: phase 1 of a step");
    pthread_mutex_unlock(&f.ps->host_lock);
    est_thread_join(&thread);
    log_release();
    assert_int_equal(log_count(EST_LOG_WARN, " has waited "), 2);
    close_model(&m);
    tear_down(&f);
}

/* What is asked beside steps is a wait as well. */
TEST(wait_for_an_answer)
{
    fixture    f = set_up(0);
    est_thread thread;
    est_json  *root;

    pthread_mutex_lock(&f.ps->host_lock);
    assert_ok(est_thread_start(&thread, "chief", connect_remote, f.remote[0]));
    root = await_wait_of(f.worker[0], "worker:0", "the list of its variables");
    expect_wait(root, "worker:0", "ps:0", "the list of its variables", 0);
    est_json_free(root);
    pthread_mutex_unlock(&f.ps->host_lock);
    est_thread_join(&thread);
    est_json_free(await_wait(f.worker[0], "worker:0", false));
    tear_down(&f);
}

/* A worker that has gone, with the reason; texts of others may be anything. */
TEST(lost_client)
{
    fixture   f = set_up(0);
    est_json *root, *worker;

    log_keep(EST_LOG_INFO);
    assert_ok(f.remote[0]->ops->connect(f.remote[0]));
    est_remote_free(f.remote[0]);
    f.remote[0] = NULL;
    for (bool here = true; here;) {
        root   = status_of(f.ps);
        worker = find_by(root, "clients", "task", "worker:0");
        assert_non_null(worker);
        here = json_is_true(json_object_get(worker, "here"));
        if (!here) {
            expect_text(worker, "lost_why", "closed by worker:0: it has left");
            assert_true(number_at(worker, "bytes_in") > 0);
        }
        est_json_free(root);
    }
    log_release();
    assert_int_equal(log_count(EST_LOG_INFO, "ps:0: worker:0 has left"), 1);
    pthread_mutex_lock(&f.ps->lock);
    snprintf(f.ps->clients[0]->lost_why, sizeof f.ps->clients[0]->lost_why, "\"a\\b\"\n\xc3");
    pthread_mutex_unlock(&f.ps->lock);
    root = status_of(f.ps);
    expect_text(root, "clients[0].lost_why", "\"a\\b\"\n?");
    est_json_free(root);
    tear_down(&f);
}

/* Whoever looks leaves nothing behind. */
TEST(lookers_are_forgotten)
{
    fixture     f      = set_up(0);
    est_server *client = NULL;
    char       *text   = NULL;
    int         n      = 1;
    int64_t     until  = est_machine_ns() + DEADLINE_SECS * SEC;

    assert_ok(est_server_create(NULL, NULL, 0, EST_SERVER(.transport = "tcp", .threads = 1), &client));
    for (int i = 0; i < 3; i++) {
        assert_ok(est_cluster_ask_status(client, f.address[0], NULL, DEADLINE_SECS, &text));
        est_free(text);
    }
    est_server_free(client);
    while (n > 0 && est_machine_ns() < until) {
        pthread_mutex_lock(&f.ps->lock);
        n = f.ps->n_clients;
        pthread_mutex_unlock(&f.ps->lock);
    }
    assert_int_equal(n, 0);
    tear_down(&f);
}

/* Memory that runs out is said, and nothing is kept of what was there already. */
TEST(no_memory)
{
    fixture f = set_up(0);

    FAULT_LOOP(l, FAULT_ALLOCATIONS) {
        char *text = NULL;

        fault_arm(&l);
        fault_check_lenient(&l, est_server_status(f.ps, &text));
        est_free(text);
    }
    tear_down(&f);
}

TEST(ask_all)
{
    fixture        f        = set_up(0);
    est_task_asked asked[4] = { { "ps:0", f.address[0] },
                                { "worker:1", f.address[2] },
                                { "evaluator:0", f.address[3] }, /* not there */
                                { "worker:0", f.address[0] } };  /* not that one */
    est_server    *client   = NULL;

    assert_ok(est_server_create(NULL, NULL, 0, EST_SERVER(.transport = "tcp", .threads = 1), &client));
    est_cluster_ask_all(client, asked, 4, 0.2);
    assert_int_equal(asked[0].status, EST_OK);
    assert_non_null(strstr(asked[0].text, "\"ps:0\""));
    assert_int_equal(asked[1].status, EST_OK);
    assert_int_equal(asked[2].status, EST_UNAVAILABLE);
    assert_non_null(strstr(asked[2].text, f.address[3]));
    assert_int_not_equal(asked[3].status, EST_OK);
    assert_non_null(strstr(asked[3].text, "ps:0"));
    for (int i = 0; i < 4; i++) est_free(asked[i].text);
    est_server_free(client);
    tear_down(&f);
}

/* The log is told after 10 seconds, then after growing distances, but never is it silent for more than 30 seconds. */
TEST(reports)
{
    est_waiting wait;
    int         silent = 0;

    est_manual_clock_init(&manual, 1000 * SEC, 0);
    est_clock_set(&manual.clock);
    log_keep(EST_LOG_INFO);
    wait = est_wait_begin("worker:7", "ps:0", "nothing", 7200);
    for (int secs = 0; secs <= 7200; secs++) {
        int before = log_count(EST_LOG_WARN, ""), n;

        est_wait_report(&wait, secs == 20 ? "seen" : "");
        n      = log_count(EST_LOG_WARN, ""); /* which --quiet shows */
        silent = n > before ? 0 : silent + 1;
        assert_true(silent < 30);
        if (secs < 10) assert_string_equal(log_text(), "");
        if (secs <= 100) {
            assert_int_equal(n, (secs >= 10) + (secs >= 20) + (secs >= 40) + (secs >= 70) + (secs >= 100));
        }
        if (secs == 10) {
            assert_string_equal(log_line(-1), "warn worker:7 has waited 10 s for ps:0: nothing; gives up after 7200 s");
        }
        if (secs == 20) {
            assert_string_equal(log_line(-1),
                                "warn worker:7 has waited 20 s for ps:0: nothing; seen; gives up after 7200 s");
        }
        est_manual_clock_advance(&manual, SEC);
    }
    est_wait_end(&wait);
    wait = est_wait_begin("worker:7", "ps:0", "nothing", 8); /* a short one is told of earlier, as no warning */
    est_manual_clock_advance(&manual, 2 * SEC);
    est_wait_report(&wait, "");
    assert_string_equal(log_line(-1), "info worker:7 has waited 2 s for ps:0: nothing; gives up after 8 s");
    est_wait_end(&wait);
    wait      = est_wait_make("worker:7", "ps:0", "nothing", INFINITY);
    wait.then = "goes on";
    est_manual_clock_advance(&manual, 11 * SEC);
    est_wait_report(&wait, "");
    assert_string_equal(log_line(-1), "warn worker:7 has waited 11 s for ps:0: nothing; without a limit");
    log_release();
    est_clock_set(NULL);
}

static void *join_server(void *server)
{
    return est_server_join(server) == EST_OK ? NULL : server;
}

static bool has_clients(est_server *ps, int n)
{
    int64_t until = est_machine_ns() + DEADLINE_SECS * SEC;
    int     found = -1;

    while (found != n && est_machine_ns() < until) {
        pthread_mutex_lock(&ps->lock);
        found = 0;
        for (int i = 0; i < ps->n_clients; i++) found += ps->clients[i]->link != NULL;
        pthread_mutex_unlock(&ps->lock);
    }
    return found == n;
}

/* A ps waits for the chief as long as it does, whoever of the others comes meanwhile; only how long it still will
 * changes. */
TEST(wait_for_chief)
{
    servers    s;
    est_link  *link = NULL;
    est_thread thread;

    est_manual_clock_init(&manual, 1000 * SEC, 0);
    est_clock_set(&manual.clock);
    s = servers_start(1, 2, "tcp");
    assert_ok(est_server_set_root(s.ps[0], "/none"));
    log_keep(EST_LOG_WARN);
    assert_ok(est_thread_start(&thread, "ps", join_server, s.ps[0]));
    est_json_free(await_wait(s.ps[0], "ps:0", true));
    est_manual_clock_advance(&manual, 12 * SEC);
    await_told(1, "ps:0 has waited 12 s for worker:0: it has not come; *; gives up after 7200 s");
    assert_ok(est_net_connect(est_server_net(s.worker[1]), est_cluster_address(s.cluster, "ps", 0), "ps:0",
                              DEADLINE_SECS, &link));
    assert_true(has_clients(s.ps[0], 1));
    est_manual_clock_advance(&manual, 20 * SEC);
    await_told(2, "ps:0 has waited 32 s for worker:0: it has not come; *; without a limit");
    est_link_close(link, "done");
    est_link_free(link);
    assert_true(has_clients(s.ps[0], 0));
    est_manual_clock_advance(&manual, 30 * SEC);
    await_told(3, "ps:0 has waited 62 s for worker:0: it has not come; *; gives up after 7232 s");
    est_manual_clock_advance(&manual, 7200 * SEC);
    est_thread_join(&thread);
    log_release();
    servers_stop(&s);
    est_clock_set(NULL);
}

/* One wait more than there is room for is not shown, and does no harm. */
TEST(table_of_waits)
{
    est_wait    waits[EST_WAITS_MAX + 1];
    est_waiting all[EST_WAITS_MAX + 1];
    char        longer[300];

    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    for (int i = 0; i <= EST_WAITS_MAX; i++) all[i] = est_wait_begin("worker:7", "ps:0", longer, 10);
    assert_int_equal(est_waits_of("worker:7", waits, EST_WAITS_MAX + 1), EST_WAITS_MAX);
    assert_int_equal(est_waits_of("worker:7", waits, 3), 3);
    assert_int_equal(est_waits_of("worker:", waits, 3), 0);
    assert_string_equal(waits[0].for_whom, "ps:0");
    assert_int_equal(strlen(waits[0].why), sizeof waits[0].why - 1);
    est_wait_end(&all[5]);
    assert_int_equal(est_wait_begin("worker:8", "ps:1", "", 10).place, all[5].place);
    assert_int_equal(est_waits_of("worker:8", waits, 3), 1);
    for (int i = 0; i <= EST_WAITS_MAX; i++) est_wait_end(&all[i]);
    assert_int_equal(est_waits_of("worker:7", waits, 3), 0);
}
