/* SPDX-License-Identifier: Apache-2.0
 *
 * Extensions of a server: requests and lost links come to them while they are there, and to nobody when they are
 * not. */
#include "base/thread.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

enum { TAKEN = EST_METHOD_EXTENSION, NOT_TAKEN };

#define SECS 20.0 /* for what should be at once, on a busy machine */

typedef struct seen {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t  changed;
    int             served, lost;
} seen;

static bool serve(void *user, est_request *request)
{
    seen *s = user;

    if (est_request_method(request) != TAKEN) return false;
    pthread_mutex_lock(&s->lock);
    s->served++;
    pthread_mutex_unlock(&s->lock);
    est_request_answer(request, (est_payload){ .head = "yes", .head_size = 3 });
    return true;
}

static void lost(void *user, est_link *link, const char *why)
{
    seen *s = user;

    (void)link, (void)why;
    pthread_mutex_lock(&s->lock);
    s->lost++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static est_status ask(est_link *link, uint16_t method)
{
    est_ask     *one;
    est_message *answer;

    EST_TRY(est_link_ask(link, method, "a test", (est_payload){ 0 }, SECS, NULL, NULL, &one));
    EST_TRY(est_ask_wait(one, &answer));
    est_message_free(answer);
    return EST_OK;
}

static est_link *reach(servers *s, int from, int to)
{
    est_link *link = NULL;
    char      task[16];

    snprintf(task, sizeof task, "worker:%d", to);
    assert_ok(est_net_connect(est_server_net(s->worker[from]), est_cluster_address(s->cluster, "worker", to), task,
                              SECS, &link));
    return link;
}

static bool is_here(est_server *server, const char *task)
{
    bool here = false;

    pthread_mutex_lock(&server->lock);
    for (int i = 0; i < server->n_clients; i++) {
        if (strcmp(server->clients[i]->who.task, task) == 0) here = server->clients[i]->link != NULL;
    }
    pthread_mutex_unlock(&server->lock);
    return here;
}

static void await_lost(seen *s, int n)
{
    int64_t until = est_machine_ns() + (int64_t)(SECS * 1e9);

    pthread_mutex_lock(&s->lock);
    while (s->lost < n && est_machine_ns() < until) est_cond_wait_ns(&s->changed, &s->lock, 100000000);
    assert_int_equal(s->lost, n);
    pthread_mutex_unlock(&s->lock);
}

TEST(extension)
{
    servers   s   = servers_start(0, 2, "tcp");
    seen      got = { 0 };
    est_link *first, *second;

    assert_ok(est_lock_init(&got.lock));
    assert_ok(est_cond_init(&got.changed));
    first = reach(&s, 0, 1);
    assert_int_equal(ask(first, TAKEN), EST_UNAVAILABLE);
    est_server_extend(s.worker[1], &(est_extension){ serve, lost, &got });
    assert_ok(ask(first, TAKEN));
    assert_int_equal(ask(first, NOT_TAKEN), EST_UNIMPLEMENTED);
    assert_ok(ask(first, EST_METHOD_STATUS));
    assert_int_equal(got.served, 1);

    second = reach(&s, 0, 1); /* comes and goes while the first stays */
    assert_ok(ask(second, TAKEN));
    est_link_close(second, "done with it");
    await_lost(&got, 1);
    assert_ok(ask(first, TAKEN)); /* the network thread is through with the loss */
    assert_true(is_here(s.worker[1], "worker:0"));

    est_server_extend(s.worker[1], NULL);
    assert_int_equal(ask(first, TAKEN), EST_UNAVAILABLE);
    est_link_close(first, "done with it");
    assert_int_equal(got.served, 3);
    est_link_free(first);
    est_link_free(second);
    servers_stop(&s);
    assert_int_equal(got.lost, 1);
    pthread_mutex_destroy(&got.lock);
    pthread_cond_destroy(&got.changed);
}
