/* SPDX-License-Identifier: Apache-2.0
 *
 * A peer that falls silent at each state of the protocol, one row a state: the connection stays, but nothing comes any
 * more. Whoever waits says for whom and why, and goes on or ends with an error that names the peer, within its bound;
 * when the peer is heard again, training goes on. Also: a task that restarts while others wait for a chief that does
 * not come back. Processes that are stopped as a whole: unresponsive_worker.c, unresponsive_ps.c. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cluster/remote_internal.h"
#include "cluster/remote_tasks.h"
#include "cluster/wait_table.h"
#include "estoc/estoc.h"
#include "net/inject.h"
#include "ops/array.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define SILENCE_SECS 1.0
#define CONNECT_SECS 2.0  /* for those who wait for nothing else to end it */
#define ANSWER_SECS  60.0 /* what a wait takes that does not end as it should, or for ever */
#define BUSY_SECS    30.0 /* that a machine with other work may add to a bound */

/* Tasks of type ps: what a step reads is at the first, what it changes at the second, and the third counts. So it asks
 * them in phases 1, 3 and 5. */
enum { READS, PUSHES, CLOCK, N_PS };

typedef struct trainer {
    est_remote  *remote;
    est_graph   *graph;
    est_session *session;
    est_node     train, step;
    est_step    *run;
} trainer;

typedef struct fixture {
    servers servers;
    trainer trainers[2]; /* the first is the chief, and waits */
} fixture;

/* --- a trainer ---------------------------------------------------------------------------------------------------- */

static void make_graph(trainer *t)
{
    est_node a, b, global_step;

    assert_ok(est_graph_create(5, &t->graph));
    est_graph_device(t->graph, "/job:ps/task:2");
    global_step = est_global_step(t->graph);
    est_graph_device(t->graph, "/job:ps/task:0");
    a = est_weight(t->graph, "a", EST_SHAPE(1), NULL);
    est_graph_device(t->graph, "/job:ps/task:1");
    b = est_weight(t->graph, "b", EST_SHAPE(1), NULL);
    est_graph_device(t->graph, NULL);
    t->train = est_assign_sub(b, est_square(est_read_variable(a)));
    t->train = est_after(est_assign_add(global_step, est_scalar(t->graph, EST_I64, 1)), t->train);
    t->step  = est_after(est_read_variable(global_step), t->train);
    assert_ok(est_graph_status(t->graph));
}

static trainer make_trainer(fixture *f, int index, int64_t limit, int sync_replicas)
{
    trainer t = { 0 };

    make_graph(&t);
    t.remote = servers_remote(&f->servers, index,
                              EST_REMOTE(.is_chief = index == 0, .connect_secs = ANSWER_SECS,
                                         .answer_secs = ANSWER_SECS, .step_limit = limit,
                                         .sync_replicas = sync_replicas));
    return t;
}

static void set_connect_secs(trainer *t, double secs)
{
    EST_CONTAINER_OF(t->remote, est_tasks, base)->options.connect_secs = secs;
}

static void prepare(trainer *t)
{
    assert_ok(est_session_prepare(t->session, EST_NO_NODES, EST_NODES(t->step), EST_NODES(t->train), &t->run));
}

static void open_trainer(trainer *t, bool is_chief)
{
    assert_ok(est_session_create(t->graph, EST_SESSION(.threads = 1, .remote = t->remote), &t->session));
    if (is_chief) {
        assert_ok(est_session_init(t->session));
        assert_ok(est_remote_declare_ready(t->remote));
    }
}

static void close_trainer(trainer *t)
{
    est_session_free(t->session);
    est_remote_free(t->remote);
    est_graph_free(t->graph);
    *t = (trainer){ 0 };
}

static void take_turn(trainer *t)
{
    bool finished;

    assert_ok(t->remote->ops->turn(t->remote, &finished));
    assert_false(finished);
}

/* --- what comes before the state ---------------------------------------------------------------------------------- */

static void strangers(fixture *f)
{
    f->trainers[0] = make_trainer(f, 0, 0, 0);
}

static void open_chief(fixture *f)
{
    f->trainers[0] = make_trainer(f, 0, 0, 0);
    open_trainer(&f->trainers[0], true);
}

static void ready_to_run(fixture *f)
{
    open_chief(f);
    prepare(&f->trainers[0]);
    take_turn(&f->trainers[0]);
}

static void with_both(fixture *f, int64_t limit, int sync_replicas)
{
    for (int i = 0; i < 2; i++) {
        f->trainers[i] = make_trainer(f, i, limit, sync_replicas);
        open_trainer(&f->trainers[i], i == 0);
        prepare(&f->trainers[i]);
    }
}

/* The only step that is left is under way. */
static void other_has_turn(fixture *f)
{
    with_both(f, 1, 0);
    take_turn(&f->trainers[1]);
}

static void chief_holds(fixture *f)
{
    open_chief(f);
    assert_ok(est_remote_hold(f->trainers[0].remote));
}

static void both_in_step(fixture *f)
{
    with_both(f, 0, 2);
    for (int i = 0; i < 2; i++) take_turn(&f->trainers[i]);
}

/* A step that is made of what one pushes, which the clock does not let it commit yet. */
static void may_not_commit(fixture *f)
{
    f->trainers[0] = make_trainer(f, 0, 0, 1);
    open_trainer(&f->trainers[0], true);
    prepare(&f->trainers[0]);
    take_turn(&f->trainers[0]);
    pthread_mutex_lock(&f->servers.ps[CLOCK]->lock);
    est_gate_hold(f->servers.ps[CLOCK]->gate);
    pthread_mutex_unlock(&f->servers.ps[CLOCK]->lock);
}

/* The other holds steps for a checkpoint. */
static void other_holds(fixture *f)
{
    with_both(f, 0, 0);
    assert_ok(est_remote_hold(f->trainers[1].remote));
}

/* --- what is asked for in it -------------------------------------------------------------------------------------- */

static est_status do_connect(fixture *f)
{
    return f->trainers[0].remote->ops->connect(f->trainers[0].remote);
}

static est_status do_connect_briefly(fixture *f)
{
    est_status status;

    set_connect_secs(&f->trainers[0], CONNECT_SECS);
    status = do_connect(f);
    set_connect_secs(&f->trainers[0], ANSWER_SECS);
    return status;
}

static est_status do_connect_worker(fixture *f)
{
    f->trainers[1] = make_trainer(f, 1, 0, 0);
    return f->trainers[1].remote->ops->connect(f->trainers[1].remote);
}

static est_status do_connect_worker_briefly(fixture *f)
{
    f->trainers[1] = make_trainer(f, 1, 0, 0);
    set_connect_secs(&f->trainers[1], CONNECT_SECS);
    return f->trainers[1].remote->ops->connect(f->trainers[1].remote);
}

static est_status do_prepare(fixture *f)
{
    trainer *t = &f->trainers[0];

    return est_session_prepare(t->session, EST_NO_NODES, EST_NODES(t->step), EST_NODES(t->train), &t->run);
}

static est_status do_declare_ready(fixture *f)
{
    return est_remote_declare_ready(f->trainers[0].remote);
}

static est_status do_step(fixture *f)
{
    return est_step_run(f->trainers[0].run, NULL);
}

static est_status do_turn(fixture *f)
{
    bool finished;

    return f->trainers[0].remote->ops->turn(f->trainers[0].remote, &finished);
}

static est_status do_hold(fixture *f)
{
    return est_remote_hold(f->trainers[0].remote);
}

static est_status do_release(fixture *f)
{
    return est_remote_release(f->trainers[0].remote);
}

static const est_remote_entry entry_b = { PUSHES, { .key = "b", .name = "b", .dtype = EST_F32, .rows = -1 } };
static const est_remote_files files   = { "/proc/never-written", &entry_b, 1 };

static est_status do_save(fixture *f)
{
    bool parts[N_PS];

    return f->trainers[0].remote->ops->save(f->trainers[0].remote, &files, parts);
}

static est_status do_verify(fixture *f)
{
    return f->trainers[0].remote->ops->verify(f->trainers[0].remote, &files);
}

static est_status do_restore(fixture *f)
{
    return f->trainers[0].remote->ops->restore(f->trainers[0].remote, &files);
}

static est_status do_find_nan(fixture *f)
{
    int found;

    return f->trainers[0].remote->ops->find_nan(f->trainers[0].remote, &entry_b, 1, &found);
}

static est_status do_read(fixture *f)
{
    est_tensor *value = NULL;

    return f->trainers[0].remote->ops->read(f->trainers[0].remote, &(est_var){ .name = "b", .task = PUSHES }, &value);
}

static est_status do_await_others(fixture *f)
{
    return est_remote_await_others(f->trainers[0].remote, false);
}

static est_status do_end_job(fixture *f)
{
    return est_remote_end_job(f->trainers[0].remote);
}

static est_status do_leave(fixture *f)
{
    est_session_free(f->trainers[0].session);
    est_remote_free(f->trainers[0].remote);
    f->trainers[0].session = NULL;
    f->trainers[0].remote  = NULL;
    return EST_OK;
}

/* --- the states --------------------------------------------------------------------------------------------------- */

typedef struct row {
    const char *name;
    void (*before)(fixture *f);
    est_status (*act)(fixture *f);
    const char *silent; /* the peer */
    bool        late;   /* it falls silent when the other waits already */
    const char *who, *for_whom, *why;
    est_status  status;
    const char *text; /* of the error */
    double      bound_secs;
    bool        lets_commit; /* the clock asks for the commit when the peer is silent */
    bool        is_end;      /* nobody goes on after it */
} row;

#define LOST_0 "nothing came from ps:0 for 1 s"
#define LOST_1 "nothing came from ps:1 for 1 s"
#define LOST_2 "nothing came from ps:2 for 1 s"

/* A run is asked for again over a new link, for which there is another SILENCE_SECS. */
#define RUN_SECS (2 * SILENCE_SECS)

static const row rows[] = {
    /* clang-format off */
    { "hello", strangers, do_connect_briefly, "ps:0", false, "worker:0", "ps:0", "it is not there",
      EST_DEADLINE_EXCEEDED, " s for ps:0 (it is not there)", CONNECT_SECS },
    { "list variables", open_chief, do_connect, "ps:1", false, "worker:0", "ps:1", "the list of its variables",
      EST_UNAVAILABLE, LOST_1, SILENCE_SECS },
    { "await ready", strangers, do_connect_worker, "ps:0", true, "worker:1", "ps:0",
      "the chief has not initialized its variables", EST_UNAVAILABLE, "ps:0", SILENCE_SECS },
    { "no chief", strangers, do_connect_worker_briefly, "", false, "worker:1", "ps:0",
      "the chief has not initialized its variables", EST_DEADLINE_EXCEEDED,
      " s for ps:0 (the chief has not initialized its variables)", CONNECT_SECS },
    { "declare ready", open_chief, do_declare_ready, "ps:1", false, "worker:0", "ps:1",
      "the declaration that variables are ready", EST_UNAVAILABLE, LOST_1, SILENCE_SECS },
    { "register", open_chief, do_prepare, "ps:1", false, "worker:0", "ps:1", "the entry of a segment",
      EST_UNAVAILABLE, LOST_1, SILENCE_SECS },
    { "run, phase 1", ready_to_run, do_step, "ps:0", false, "worker:0", "ps:0", "phase 1 of a step",
      EST_UNAVAILABLE, "ps:0 is lost", RUN_SECS },
    { "run, phase 3", ready_to_run, do_step, "ps:1", false, "worker:0", "ps:1", "phase 3 of a step",
      EST_UNAVAILABLE, "ps:1 is lost", RUN_SECS },
    { "run, phase 5", ready_to_run, do_step, "ps:2", false, "worker:0", "ps:2", "phase 5 of a step",
      EST_UNAVAILABLE, "ps:2 is lost", RUN_SECS },
    { "turn", other_has_turn, do_turn, "ps:2", true, "worker:0", "ps:2", "steps of others are under way",
      EST_UNAVAILABLE, "ps:2", SILENCE_SECS },
    { "turn, while the other holds", other_holds, do_turn, "worker:1", true, "worker:0", "ps:2",
      "steps of others are under way", EST_OK, NULL, SILENCE_SECS },
    { "hold", other_has_turn, do_hold, "ps:2", true, "worker:0", "ps:2",
      "steps are under way, and a checkpoint waits for them", EST_UNAVAILABLE, "ps:2", SILENCE_SECS },
    { "release", chief_holds, do_release, "ps:2", false, "worker:0", "ps:2",
      "the hold for a checkpoint", EST_UNAVAILABLE, LOST_2, SILENCE_SECS },
    { "save", open_chief, do_save, "ps:1", false, "worker:0", "ps:1", "the save of its variables",
      EST_UNAVAILABLE, LOST_1, SILENCE_SECS },
    { "verify", open_chief, do_verify, "ps:1", false, "worker:0", "ps:1", "the check of a checkpoint",
      EST_UNAVAILABLE, LOST_1, SILENCE_SECS },
    { "restore", open_chief, do_restore, "ps:1", false, "worker:0", "ps:1", "the restore of its variables",
      EST_UNAVAILABLE, LOST_1, SILENCE_SECS },
    { "find NaN", open_chief, do_find_nan, "ps:1", false, "worker:0", "ps:1", "the search for NaN",
      EST_UNAVAILABLE, LOST_1, SILENCE_SECS },
    { "read", open_chief, do_read, "ps:1", false, "worker:0", "ps:1", "the value of a variable",
      EST_UNAVAILABLE, LOST_1, SILENCE_SECS },
    { "collect", both_in_step, do_step, "ps:1", false, "worker:0", "ps:1", "phase 3 of a step",
      EST_UNAVAILABLE, "ps:1 is lost", RUN_SECS },
    { "finish a step", both_in_step, do_step, "ps:2", true, "worker:0", "ps:2", "other workers have not pushed yet",
      EST_UNAVAILABLE, "ps:2", SILENCE_SECS },
    { "finish a step without the other", both_in_step, do_step, "worker:1", true, "worker:0", "ps:2",
      "other workers have not pushed yet", EST_OK, NULL, SILENCE_SECS },
    { "commit", may_not_commit, do_step, "ps:1", true, "worker:0", "ps:2", "other workers have not pushed yet",
      EST_UNAVAILABLE, LOST_1, SILENCE_SECS, .lets_commit = true },
    { "await others", other_has_turn, do_await_others, "ps:2", true, "worker:0", "ps:2", "other tasks still train",
      EST_UNAVAILABLE, "ps:2", SILENCE_SECS },
    { "end the job", open_chief, do_end_job, "ps:0", false, "worker:0", "ps:0", "the end of the job",
      EST_OK, NULL, SILENCE_SECS, .is_end = true },
    { "leave", open_chief, do_leave, "ps:0", false, "worker:0", "ps:0", "the goodbye",
      EST_OK, NULL, EST_LEAVE_SECS, .is_end = true },
    /* clang-format on */
};

/* --- one of them -------------------------------------------------------------------------------------------------- */

typedef struct act {
    const row *row;
    fixture   *f;
    est_status status;
    char       error[512];
    int64_t    end_ns;
} act;

static void *run_act(void *arg)
{
    act *a = arg;

    a->status = a->row->act(a->f);
    a->end_ns = est_now_ns();
    snprintf(a->error, sizeof a->error, "%s", a->status != EST_OK ? est_error_message() : "");
    return NULL;
}

static bool is_waiting(const char *who, const char *for_whom, const char *why)
{
    est_wait waits[EST_WAITS_MAX];
    int      n = est_waits_of(who, waits, EST_WAITS_MAX);

    for (int i = 0; i < n; i++) {
        if (strcmp(waits[i].for_whom, for_whom) == 0 && strcmp(waits[i].why, why) == 0) return true;
    }
    return false;
}

static void await_wait(const row *r, const char *for_whom, const char *why)
{
    int64_t until = est_now_ns() + (int64_t)(ANSWER_SECS * (double)EST_NS_PER_SEC);

    while (!is_waiting(r->who, for_whom, why)) {
        if (est_now_ns() > until) fail_msg("%s: %s does not wait for %s: %s", r->name, r->who, for_whom, why);
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
}

/* Nothing comes from the peer to the one that waits; nothing comes from a worker to the clock. */
static void fall_silent(fixture *f, const row *r, bool silent)
{
    int         who    = (int)(r->who[strlen(r->who) - 1] - '0');
    bool        worker = strncmp(r->silent, "worker", 6) == 0;
    est_server *at     = worker ? f->servers.ps[CLOCK] : f->servers.worker[who];

    if (r->silent[0] == '\0') return;
    assert_ok(est_net_inject(est_server_net(at), r->silent, silent ? EST_INJECT_SILENCE : EST_INJECT_NOTHING, 0));
}

static void let_commit(est_server *clock)
{
    pthread_mutex_lock(&clock->lock);
    est_gate_release(clock->gate);
    est_server_wake(clock);
    pthread_mutex_unlock(&clock->lock);
}

/* The one that waited makes a step with a new session. */
static void elastic(fixture *f)
{
    trainer *t = &f->trainers[0];

    close_trainer(&f->trainers[1]);
    est_session_free(t->session);
    open_trainer(t, true);
    prepare(t);
    take_turn(t);
    assert_ok(est_step_run(t->run, NULL));
}

static void test_state(void **state)
{
    const row *r = *state;
    fixture    f = { .servers = servers_start_with(N_PS, 2, "tcp", SILENCE_SECS) };
    act        a = { .row = r, .f = &f };
    int64_t    start_ns;
    pthread_t  thread;
    double     secs;

    r->before(&f);
    if (!r->late) fall_silent(&f, r, true);
    start_ns = est_now_ns();
    assert_int_equal(pthread_create(&thread, NULL, run_act, &a), 0);
    await_wait(r, r->for_whom, r->why);
    if (r->late) start_ns = est_now_ns();
    if (r->late) fall_silent(&f, r, true);
    if (r->lets_commit) {
        let_commit(f.servers.ps[CLOCK]);
        await_wait(r, r->silent, est_method_text(EST_METHOD_COMMIT));
    }
    pthread_join(thread, NULL);
    secs = (double)(a.end_ns - start_ns) / (double)EST_NS_PER_SEC;
    if (a.status != r->status) fail_msg("%s: %s: %s", r->name, est_status_name(a.status), a.error);
    if (r->text != NULL && strstr(a.error, r->text) == NULL) fail_msg("\"%s\" does not say \"%s\"", a.error, r->text);
    if (secs > r->bound_secs + BUSY_SECS) fail_msg("it took %g s, not %g", secs, r->bound_secs);
    fall_silent(&f, r, false);
    if (!r->is_end) elastic(&f);
    for (int i = 0; i < 2; i++) close_trainer(&f.trainers[i]);
    servers_stop(&f.servers);
}

/* --- a task that restarts without a chief -------------------------------------------------------------------- */

static est_status do_turn_worker(fixture *f)
{
    bool finished;

    return f->trainers[1].remote->ops->turn(f->trainers[1].remote, &finished);
}

static est_status do_reconnect_worker(fixture *f)
{
    return f->trainers[1].remote->ops->connect(f->trainers[1].remote);
}

/* Nobody has come yet. */
static void without_chief(fixture *f)
{
    f->trainers[1] = make_trainer(f, 1, 0, 0);
}

/* The only step that is left is the chief's. */
static void chief_has_turn(fixture *f)
{
    with_both(f, 1, 0);
    take_turn(&f->trainers[0]);
}

static const row restart_rows[] = {
    /* clang-format off */
    { "ps restart, await ready", without_chief, do_reconnect_worker, "ps:0", .who = "worker:1", .for_whom = "ps:0",
      .why = "the chief has not initialized its variables" },
    { "ps restart, turn", chief_has_turn, do_turn_worker, "ps:0", .who = "worker:1", .for_whom = "ps:2",
      .why = "steps of others are under way" },
    { "clock restart, turn", chief_has_turn, do_turn_worker, "ps:2", .who = "worker:1", .for_whom = "ps:2",
      .why = "steps of others are under way" },
    /* clang-format on */
};

/* The one that waits hears of it, comes back with a new session and is told in the end for whom it has waited in
 * vain. */
static void test_restart(void **state)
{
    const row *r     = *state;
    fixture    f     = { .servers = servers_start(N_PS, 2, "tcp") };
    act        a     = { .row = r, .f = &f };
    int        which = (int)(r->silent[strlen(r->silent) - 1] - '0');
    pthread_t  thread;
    char       text[128];

    r->before(&f);
    est_tasks_of(f.trainers[1].remote)->options.connect_secs = ANSWER_SECS;
    assert_int_equal(pthread_create(&thread, NULL, run_act, &a), 0);
    await_wait(r, r->for_whom, r->why);
    for (int i = 0; f.trainers[0].remote != NULL && i < N_PS; i++) {
        est_link_close(est_tasks_of(f.trainers[0].remote)->tasks[i].link, "it dies");
    }
    est_server_free(f.servers.ps[which]);
    assert_ok(est_server_create(f.servers.cluster, "ps", which, EST_SERVER(.transport = "tcp", .threads = 1),
                                &f.servers.ps[which]));
    pthread_join(thread, NULL);
    if (a.status != EST_UNAVAILABLE) fail_msg("%s: %s: %s", r->name, est_status_name(a.status), a.error);
    assert_non_null(strstr(a.error, r->silent));
    est_tasks_of(f.trainers[1].remote)->options.connect_secs = CONNECT_SECS;
    assert_int_equal(do_reconnect_worker(&f), EST_DEADLINE_EXCEEDED);
    snprintf(text, sizeof text, " s for %s (the chief has not initialized its variables): worker:0 (", r->silent);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" does not say \"%s\"", est_error_message(), text);
    for (int i = 0; i < 2; i++) close_trainer(&f.trainers[i]);
    servers_stop(&f.servers);
}

int main(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) est_test_row(rows[i].name, test_state, &rows[i]);
    for (size_t i = 0; i < sizeof restart_rows / sizeof restart_rows[0]; i++) {
        est_test_row(restart_rows[i].name, test_restart, &restart_rows[i]);
    }
    return est_test_run_apart(NULL, NULL);
}
