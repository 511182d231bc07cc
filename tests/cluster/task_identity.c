/* SPDX-License-Identifier: Apache-2.0
 *
 * Which process owns the name of a task when links break and processes of one name come and go: a hold ends with its
 * link, a run is made once even if another process came in between, steps need turns as before, and clients that will
 * not come back are forgotten. */
#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"
#include "cluster/remote_internal.h"
#include "cluster/remote_tasks.h"
#include "estoc/estoc.h"
#include "net/inject.h"
#include "net/link.h"
#include "ops/array.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define DEADLINE_SECS 60

typedef struct trainer {
    est_server  *server;
    est_remote  *remote;
    est_graph   *graph;
    est_session *session;
    est_node     train;
    est_step    *run;
} trainer;

/* A step adds 1 to `a`. */
static trainer make_trainer(est_server *server, const est_remote_options *options)
{
    trainer  t = { .server = server };
    est_node a;

    assert_ok(est_graph_create(5, &t.graph));
    a       = est_weight(t.graph, "a", EST_SHAPE(1), EST_WEIGHT(.initializer = est_init_zeros()));
    t.train = est_assign_add(a, est_const_f32(t.graph, EST_SHAPE(1), (const float[]){ 1 }));
    t.train = est_after(est_assign_add(est_global_step(t.graph), est_scalar(t.graph, EST_I64, 1)), t.train);
    assert_ok(est_graph_status(t.graph));
    assert_ok(est_remote_create(server, options, &t.remote));
    t.session = nn_session(t.graph, t.remote);
    assert_ok(est_session_prepare(t.session, EST_NO_NODES, EST_NO_NODES, EST_NODES(t.train), &t.run));
    return t;
}

static void close_trainer(trainer *t)
{
    est_session_free(t->session);
    est_remote_free(t->remote);
    est_graph_free(t->graph);
}

static void make_step(trainer *t)
{
    bool finished;

    assert_ok(t->remote->ops->turn(t->remote, &finished));
    assert_false(finished);
    assert_ok(est_step_run(t->run, NULL));
}

static void expect_a(est_server *ps, float want)
{
    float a;

    pthread_mutex_lock(&ps->host_lock);
    a = *(const float *)est_store_find(est_host_store(ps->host), "a")->value.data;
    pthread_mutex_unlock(&ps->host_lock);
    assert_near(a, want, 0);
}

/* The client of that name; NULL: none. Under `lock`. */
static est_client *find(est_server *ps, const char *task)
{
    for (int i = 0; i < ps->n_clients; i++) {
        if (strncmp(ps->clients[i]->who.task, task, strlen(task)) == 0) return ps->clients[i];
    }
    return NULL;
}

/* Waits until something is so at the server, which gets its locks meanwhile. */
static void await(est_server *ps, bool (*is_so)(est_server *ps))
{
    int64_t until = est_now_ns() + DEADLINE_SECS * EST_NS_PER_SEC;
    bool    so    = false;

    while (!so && est_now_ns() < until) {
        pthread_mutex_lock(&ps->host_lock);
        pthread_mutex_lock(&ps->lock);
        so = is_so(ps);
        pthread_mutex_unlock(&ps->lock);
        pthread_mutex_unlock(&ps->host_lock);
        if (!so) est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    assert_true(so);
}

static bool is_lost(est_server *ps)
{
    return find(ps, "worker:0")->link == NULL;
}

static bool is_free(est_server *ps)
{
    return !est_gate_is_held(ps->gate);
}

static est_remote_task *peer_of(const trainer *t)
{
    return &est_tasks_of(t->remote)->tasks[0];
}

static est_link *connect_again(const trainer *t)
{
    est_link *link = NULL;

    assert_ok(est_net_connect(est_server_net(t->server), peer_of(t)->address, "ps:0", DEADLINE_SECS, &link));
    return link;
}

/* When it is answered the server has met the link. */
static void ask_over(est_link *link)
{
    est_message *answer = NULL;
    est_ask     *ask    = NULL;

    assert_ok(est_link_ask(link, EST_METHOD_VARIABLES, "names", (est_payload){ 0 }, DEADLINE_SECS, NULL, NULL, &ask));
    assert_ok(est_ask_wait(ask, &answer));
    est_message_free(answer);
}

static void close_link(est_link *link)
{
    est_link_close(link, "done");
    est_link_free(link);
}

/* --- holds -------------------------------------------------------------------------------------------------------- */

/* The link that it was taken over is lost, but not before another is there. */
TEST(hold_ends_with_its_link)
{
    servers   s = servers_start(1, 1, "tcp");
    trainer   t = make_trainer(s.worker[0], EST_REMOTE(.is_chief = true, .connect_secs = DEADLINE_SECS));
    est_link *again;

    assert_ok(est_remote_hold(t.remote));
    again = connect_again(&t);
    ask_over(again);
    est_link_close(peer_of(&t)->link, "broke");
    await(s.ps[0], is_free);
    close_link(again);
    close_trainer(&t);
    servers_stop(&s);
}

/* Whoever begins a step has saved, or failed to: also one that is made with others. */
TEST(hold_ends_with_a_step)
{
    servers s = servers_start(1, 1, "tcp");
    trainer t = make_trainer(s.worker[0],
                             EST_REMOTE(.is_chief = true, .connect_secs = DEADLINE_SECS, .sync_replicas = 1));
    bool    finished;

    assert_ok(est_remote_hold(t.remote));
    assert_ok(t.remote->ops->turn(t.remote, &finished));
    pthread_mutex_lock(&s.ps[0]->lock);
    assert_true(is_free(s.ps[0]));
    pthread_mutex_unlock(&s.ps[0]->lock);
    close_trainer(&t);
    servers_stop(&s);
}

/* --- several links of one process --------------------------------------------------------------------------------- */

static bool has_lost_second(est_server *ps)
{
    return find(ps, "worker:0")->gone.requests_in == 3;
}

static bool has_lost_first(est_server *ps)
{
    return find(ps, "worker:0")->gone.requests_in > 3;
}

/* It is there and has its turn; returns what it has asked for. */
static uint64_t expect_here(est_server *ps)
{
    const est_client *client;
    uint64_t          requests;

    pthread_mutex_lock(&ps->lock);
    client = find(ps, "worker:0");
    assert_non_null(client->link);
    assert_true(est_gate_has_turn(ps->gate, "worker:0"));
    requests = client->gone.requests_in + est_link_count(client->link).requests_in;
    pthread_mutex_unlock(&ps->lock);
    return requests;
}

/* Connections that it has given up, which may be seen late, are no loss while another is there; nor is the first one.
 * What went over them counts once. */
TEST(links_that_are_given_up)
{
    servers   s = servers_start(1, 1, "tcp");
    trainer   t = make_trainer(s.worker[0], EST_REMOTE(.is_chief = true, .connect_secs = DEADLINE_SECS));
    est_link *second, *third;
    uint64_t  before;
    bool      finished;

    assert_ok(t.remote->ops->turn(t.remote, &finished));
    before = expect_here(s.ps[0]);
    second = connect_again(&t);
    for (int i = 0; i < 2; i++) {
        ask_over(second);
        ask_over(peer_of(&t)->link);
    }
    ask_over(second);
    close_link(second);
    await(s.ps[0], has_lost_second);
    assert_int_equal(expect_here(s.ps[0]), before + 5);
    third = connect_again(&t);
    ask_over(third);
    est_link_close(peer_of(&t)->link, "broke");
    await(s.ps[0], has_lost_first);
    assert_int_equal(expect_here(s.ps[0]), before + 6);
    close_link(third);
    await(s.ps[0], is_lost);
    close_trainer(&t);
    servers_stop(&s);
}

static bool has_waiter(est_server *ps)
{
    est_gate_entry e;

    return est_gate_entry_at(ps->gate, 0, &e) && e.waits;
}

static bool has_no_waiter(est_server *ps)
{
    return !has_waiter(ps);
}

static void hold_gate(est_server *ps, bool hold)
{
    pthread_mutex_lock(&ps->lock);
    if (hold) {
        est_gate_hold(ps->gate);
    } else {
        est_gate_release(ps->gate);
        est_server_wake(ps);
    }
    pthread_mutex_unlock(&ps->lock);
}

/* Who waits for a turn over one link waits on when another is lost, and no longer when that one is. */
TEST(wait_ends_with_its_link)
{
    servers      s = servers_start(1, 1, "tcp");
    trainer      t = make_trainer(s.worker[0], EST_REMOTE(.is_chief = true, .connect_secs = DEADLINE_SECS));
    est_link    *links[2];
    est_ask     *ask    = NULL;
    est_message *answer = NULL;

    hold_gate(s.ps[0], true);
    for (int i = 0; i < 2; i++) {
        links[i] = connect_again(&t);
        assert_ok(est_link_ask(links[i], EST_METHOD_TURN, "turn", (est_payload){ 0 }, DEADLINE_SECS, NULL, NULL, &ask));
        await(s.ps[0], has_waiter);
        if (i == 0) {
            close_link(links[i]);
            await(s.ps[0], has_no_waiter);
            assert_int_equal(est_ask_wait(ask, &answer), EST_UNAVAILABLE);
        }
    }
    est_link_close(peer_of(&t)->link, "broke");
    await(s.ps[0], has_lost_first);
    hold_gate(s.ps[0], false);
    assert_ok(est_ask_wait(ask, &answer));
    est_message_free(answer);
    close_link(links[1]);
    close_trainer(&t);
    servers_stop(&s);
}

/* --- two processes ------------------------------------------------------------------------------------------------ */

typedef struct twins {
    servers      servers;
    est_cluster *other; /* with worker:0 elsewhere */
    trainer      older, newer;
} twins;

/* Both are worker:0, each made a step, and the newer has the place. */
static twins make_twins(void)
{
    twins       w    = { .servers = servers_start(1, 1, "tcp") };
    const char *ps[] = { est_cluster_address(w.servers.cluster, "ps", 0) };
    char        address[32];
    est_server *second;

    snprintf(address, sizeof address, "127.0.0.2%s", strchr(est_cluster_address(w.servers.cluster, "worker", 0), ':'));
    w.older = make_trainer(w.servers.worker[0],
                           EST_REMOTE(.is_chief = true, .connect_secs = DEADLINE_SECS, .step_limit = 100));
    make_step(&w.older);
    assert_ok(
        est_cluster_create((est_jobs){ (const est_job[]){ { .name = "ps", .addresses = { ps, 1 } },
                                                          { .name = "worker", .addresses = EST_STRINGS(address) } },
                                       2 },
                           &w.other));
    do { /* incarnations begin with the time in milliseconds */
        assert_ok(est_server_create(w.other, "worker", 0, EST_SERVER(.transport = "tcp", .threads = 1), &second));
        if (second->self.incarnation > w.servers.worker[0]->self.incarnation) break;
        est_server_free(second);
    } while (true);
    w.servers.worker[w.servers.n_workers++] = second;
    est_link_close(peer_of(&w.older)->link, "broke");
    await(w.servers.ps[0], is_lost);
    w.newer = make_trainer(second, EST_REMOTE(.is_chief = true, .connect_secs = DEADLINE_SECS, .step_limit = 100));
    make_step(&w.newer);
    expect_a(w.servers.ps[0], 2);
    return w;
}

static void free_twins(twins *w)
{
    close_trainer(&w->newer);
    close_trainer(&w->older);
    servers_stop(&w->servers);
    est_cluster_free(w->other);
}

/* Asks again for the last run, as after an answer that did not arrive. */
static est_status repeat(const trainer *t, est_link *link)
{
    est_remote_segment *last   = NULL;
    est_message        *answer = NULL;
    est_payload         payload;
    est_ask            *ask;

    for (est_remote_segment *segment = est_tasks_of(t->remote)->segments; segment != NULL; segment = segment->next) {
        if (last == NULL || segment->sequence > last->sequence) last = segment;
    }
    assert_ok(est_packing_payload(&last->in, &payload));
    EST_TRY(est_link_ask(link, EST_METHOD_RUN, "again", payload, DEADLINE_SECS, NULL, NULL, &ask));
    EST_TRY(est_ask_wait(ask, &answer));
    est_message_free(answer);
    return EST_OK;
}

/* As if the silence had passed since the client was lost. */
static void pass_silence(est_server *ps, double times)
{
    pthread_mutex_lock(&ps->lock);
    for (int i = 0; i < ps->n_clients; i++) {
        ps->clients[i]->since_ns -= (int64_t)(times * ps->silence_secs * (double)EST_NS_PER_SEC);
    }
    pthread_mutex_unlock(&ps->lock);
}

/* An older process does not get the place while the newer may be back; each run is made once, whichever of them
 * returns. */
TEST(older_process)
{
    twins       w  = make_twins();
    est_server *ps = w.servers.ps[0];
    est_link   *link;

    est_link_close(peer_of(&w.newer)->link, "broke");
    await(ps, is_lost);
    for (int i = 0; i < 8; i++) { /* whether the request comes before the link is closed, or after */
        link = connect_again(&w.older);
        assert_int_equal(repeat(&w.older, link), EST_UNAVAILABLE);
        est_link_free(link);
    }
    link = connect_again(&w.newer);
    assert_ok(repeat(&w.newer, link));
    expect_a(ps, 2);
    close_link(link);

    await(ps, is_lost);
    pass_silence(ps, 2);
    link = connect_again(&w.older);
    assert_ok(repeat(&w.older, link));
    expect_a(ps, 2);
    close_link(link);

    await(ps, is_lost);
    link = connect_again(&w.newer);
    assert_ok(repeat(&w.newer, link));
    expect_a(ps, 2);
    close_link(link);
    free_twins(&w);
}

/* As if nothing had come from the client that has the place for most of a silence. */
static void pass_most_of_silence(est_server *ps)
{
    est_link *link;

    pthread_mutex_lock(&ps->lock);
    link = find(ps, "worker:0")->link;
    if (link != NULL) { /* else it has been lost meanwhile */
        pthread_mutex_lock(&link->lock);
        link->heard_ns -= (int64_t)(0.8 * ps->silence_secs * (double)EST_NS_PER_SEC);
        pthread_mutex_unlock(&link->lock);
    }
    pthread_mutex_unlock(&ps->lock);
}

static est_status repeat_over_new_link(const trainer *t)
{
    est_link  *link   = connect_again(t);
    est_status status = repeat(t, link);

    est_link_free(link);
    return status;
}

/* A process that was started after the one that has the place, where the clock is behind, looks older. It is refused
 * for good while the other is heard, and may try again as soon as that may be dead. */
TEST(clock_went_back)
{
    twins       w  = make_twins();
    est_server *ps = w.servers.ps[0];

    make_step(&w.newer);
    assert_int_equal(repeat_over_new_link(&w.older), EST_FAILED_PRECONDITION);
    assert_non_null(strstr(est_error_message(), "a newer process has replaced worker:0"));
    assert_ok(est_net_inject(est_server_net(w.newer.server), "ps:0", EST_INJECT_SILENCE, 0)); /* its host is gone */
    pass_most_of_silence(ps);
    assert_int_equal(repeat_over_new_link(&w.older), EST_UNAVAILABLE);
    await(ps, is_lost);
    pass_silence(ps, 2);
    assert_ok(repeat_over_new_link(&w.older));
    expect_a(ps, 3);
    free_twins(&w);
}

/* A task that asks for turns counts no step without one, in whichever process. */
TEST(still_gated)
{
    twins w = make_twins();

    est_link_close(peer_of(&w.newer)->link, "broke");
    await(w.servers.ps[0], is_lost);
    pass_silence(w.servers.ps[0], 2);
    pthread_mutex_lock(&w.servers.ps[0]->lock);
    est_gate_leave(w.servers.ps[0]->gate, "worker:0"); /* as when its turn is given to others */
    pthread_mutex_unlock(&w.servers.ps[0]->lock);
    assert_int_equal(est_step_run(w.older.run, NULL), EST_ABORTED);
    expect_a(w.servers.ps[0], 2);
    free_twins(&w);
}

/* --- those who are gone ------------------------------------------------------------------------------------------- */

static void *join(void *arg)
{
    assert_ok(est_server_join(arg));
    return NULL;
}

static bool has_lost_client(est_server *ps)
{
    const est_client *client = find(ps, "client:");

    return client != NULL && client->link == NULL;
}

static bool has_no_clients(est_server *ps)
{
    return find(ps, "client:") == NULL;
}

static bool has_no_answers(est_server *ps)
{
    return find(ps, "worker:0")->link == NULL && find(ps, "worker:0")->answered == NULL;
}

static void end_job(est_server *ps, pthread_t thread)
{
    pthread_mutex_lock(&ps->lock);
    ps->done = true;
    pthread_cond_broadcast(&ps->changed);
    pthread_mutex_unlock(&ps->lock);
    pthread_join(thread, NULL);
}

/* A client that drove the cluster and was lost is forgotten, but not before it might be back. */
TEST(clients_are_forgotten)
{
    servers     s      = servers_start(1, 1, "tcp");
    est_server *client = NULL;
    trainer     t;
    pthread_t   thread;

    assert_ok(est_server_create(s.cluster, NULL, 0, EST_SERVER(.transport = "tcp", .threads = 1), &client));
    t = make_trainer(client, EST_REMOTE(.is_chief = true, .connect_secs = DEADLINE_SECS));
    assert_ok(est_step_run(t.run, NULL));
    assert_int_equal(pthread_create(&thread, NULL, join, s.ps[0]), 0);
    est_link_close(peer_of(&t)->link, "broke");
    await(s.ps[0], has_lost_client);
    pass_silence(s.ps[0], 4);
    await(s.ps[0], has_no_clients);
    end_job(s.ps[0], thread);
    close_trainer(&t);
    est_server_free(client);
    servers_stop(&s);
}

TEST(answers_are_forgotten)
{
    servers   s = servers_start(1, 1, "tcp");
    trainer   t = make_trainer(s.worker[0], EST_REMOTE(.is_chief = true, .connect_secs = DEADLINE_SECS));
    pthread_t thread;

    make_step(&t);
    assert_int_equal(pthread_create(&thread, NULL, join, s.ps[0]), 0);
    close_trainer(&t); /* it says goodbye */
    await(s.ps[0], has_no_answers);
    end_job(s.ps[0], thread);
    servers_stop(&s);
}

/* --- a task that was restarted --------------------------------------------------------------------------------- */

/* A wait for another task may bring a link with it before a step does: its parts have the numbers of others. */
TEST(new_process_of_a_task)
{
    servers s     = servers_start(1, 1, "tcp");
    trainer t     = make_trainer(s.worker[0],
                                 EST_REMOTE(.is_chief = true, .connect_secs = DEADLINE_SECS, .answer_secs = DEADLINE_SECS));
    int64_t until = est_now_ns() + DEADLINE_SECS * EST_NS_PER_SEC;

    assert_false(est_remote_has_begun(t.remote));
    assert_ok(est_remote_declare_ready(t.remote));
    est_server_free(s.ps[0]);
    assert_ok(est_server_create(s.cluster, "ps", 0, EST_SERVER(.transport = "tcp", .threads = 1), &s.ps[0]));
    while (!est_link_is_lost(peer_of(&t)->link) && est_now_ns() < until) est_sleep_ns(EST_NS_PER_SEC / 1000);
    assert_ok(est_remote_task_reach(est_tasks_of(t.remote), peer_of(&t), DEADLINE_SECS));
    assert_ok(est_remote_task_list_variables(peer_of(&t)));
    assert_true(est_remote_has_begun(t.remote)); /* the new process knows nothing of it, but the chief does */
    assert_int_equal(est_step_run(t.run, NULL), EST_UNAVAILABLE);
    assert_non_null(strstr(est_error_message(), "was restarted"));
    close_trainer(&t);
    servers_stop(&s);
}

/* --- a program that was changed ----------------------------------------------------------------------------------- */

/* All but the ps are restarted with other terms, and a worker is there before the chief. */
typedef struct comer {
    est_remote  *remote;
    est_session *session;
    est_graph   *graph;
    est_status   status;
} comer;

static void *come(void *arg)
{
    comer *c = arg;

    c->status = est_session_create(c->graph, EST_SESSION(.threads = 1, .remote = c->remote), &c->session);
    if (c->status != EST_OK) fprintf(stderr, "%s\n", est_error_message());
    return NULL;
}

static comer make_comer(est_server *server, bool is_chief, const char *terms)
{
    comer c = { 0 };

    assert_ok(est_graph_create(5, &c.graph));
    (void)est_weight(c.graph, "a", EST_SHAPE(1), EST_WEIGHT(.initializer = est_init_zeros()));
    assert_ok(est_remote_create(server, EST_REMOTE(.is_chief = is_chief, .connect_secs = DEADLINE_SECS), &c.remote));
    assert_ok(est_remote_set_terms(c.remote, terms));
    return c;
}

static void free_comer(comer *c)
{
    est_session_free(c->session);
    est_remote_free(c->remote);
    est_graph_free(c->graph);
}

static void declare(est_server *server, const char *terms)
{
    comer c = make_comer(server, true, terms);

    (void)come(&c);
    assert_ok(c.status);
    assert_ok(est_session_init(c.session));
    assert_ok(est_remote_declare_ready(c.remote));
    free_comer(&c);
}

static bool is_parked(est_server *ps)
{
    return ps->n_parked == 1;
}

static bool is_answered(est_server *ps)
{
    return ps->n_parked == 0;
}

TEST(terms_of_a_chief_that_is_gone)
{
    servers   s = servers_start(1, 2, "tcp");
    comer     chief, same, other;
    pthread_t thread;

    declare(s.worker[0], "max_steps=100\n");
    est_server_free(s.worker[0]); /* it is gone */
    await(s.ps[0], is_lost);
    same = make_comer(s.worker[1], false, "max_steps=100\n"); /* goes on without it */
    (void)come(&same);
    assert_ok(same.status);
    free_comer(&same);
    other = make_comer(s.worker[1], false, "max_steps=200\n");
    assert_int_equal(pthread_create(&thread, NULL, come, &other), 0);
    await(s.ps[0], is_parked);
    assert_ok(est_server_create(s.cluster, "worker", 0, EST_SERVER(.transport = "tcp", .threads = 1), &s.worker[0]));
    chief = make_comer(s.worker[0], true, "max_steps=200\n");
    (void)come(&chief);
    assert_ok(chief.status);
    await(s.ps[0], is_parked); /* it has come, and has not said its terms */
    assert_ok(est_remote_declare_ready(chief.remote));
    pthread_join(thread, NULL);
    assert_ok(other.status);
    await(s.ps[0], is_answered);
    free_comer(&other);
    other = make_comer(s.worker[1], false, "max_steps=300\n"); /* a chief that is here decides at once */
    (void)come(&other);
    assert_int_equal(other.status, EST_FAILED_PRECONDITION);
    free_comer(&other);
    free_comer(&chief);
    servers_stop(&s);
}

/* --- a task that takes long --------------------------------------------------------------------------------------- */

static void *run_step(void *arg)
{
    trainer *t = arg;

    return est_step_run(t->run, NULL) == EST_OK ? NULL : t;
}

/* The executor is held up, as by a save that waits for its disk, for longer than a run is waited for: the run is asked
 * for again, and made once. */
TEST(run_that_expires)
{
    servers   s     = servers_start(1, 1, "tcp");
    trainer   t     = make_trainer(s.worker[0],
                                   EST_REMOTE(.is_chief = true, .connect_secs = DEADLINE_SECS, .answer_secs = 2));
    int64_t   until = est_now_ns() + DEADLINE_SECS * EST_NS_PER_SEC;
    bool      asked = false;
    pthread_t thread;
    void     *failed;

    make_step(&t);
    pthread_mutex_lock(&s.ps[0]->host_lock);
    assert_int_equal(pthread_create(&thread, NULL, run_step, &t), 0);
    while (!asked && est_now_ns() < until) { /* the executor has the first, and the second is behind it */
        pthread_mutex_lock(&s.ps[0]->lock);
        asked = s.ps[0]->busy && s.ps[0]->first != NULL;
        pthread_mutex_unlock(&s.ps[0]->lock);
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    pthread_mutex_unlock(&s.ps[0]->host_lock);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_true(asked);
    expect_a(s.ps[0], 2);
    pthread_mutex_lock(&s.ps[0]->lock);
    assert_true(find(s.ps[0], "worker:0")->repeats > 0);
    pthread_mutex_unlock(&s.ps[0]->lock);
    close_trainer(&t);
    servers_stop(&s);
}

int main(void)
{
    return est_test_run_apart(NULL, NULL);
}
