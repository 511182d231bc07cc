/* SPDX-License-Identifier: Apache-2.0
 *
 * A task that is far away, or busy, and takes its time to say who it is: whoever waits for it keeps the one attempt,
 * and looks at other things meanwhile. */
#include <limits.h>
#include <unistd.h>

#include "cluster/remote_internal.h"
#include "cluster/remote_tasks.h"
#include "estoc/estoc.h"
#include "support/nn_test.h"
#include "support/port_test.h"
#include "support/relay_test.h"

#define CONNECT_SECS 60.0
#define LOOKS        3 /* of the waiting task, which the hello takes */

/* Nothing passes between worker and ps before the worker has looked around so often. */
typedef struct looks {
    atomic_int n;
    int        hold;    /* until then */
    int        over_at; /* the look that finds the job ended; 0: none */
} looks;

static bool is_held(void *user, double secs)
{
    const looks *l = user;

    (void)secs;
    return atomic_load(&l->n) < l->hold;
}

static bool look(void *user)
{
    looks *l = user;

    return atomic_fetch_add(&l->n, 1) + 1 == l->over_at;
}

/* What connecting to the ps through a relay comes to; how many connections that took. */
static est_status connect_through(int hold, int over_at, int *n_attempts)
{
    looks        l = { .hold = hold, .over_at = over_at };
    relay        r = { .holds = is_held, .user = &l };
    int          held[2];
    char         near[32], far[32], own[32];
    est_cluster *near_cluster = NULL, *far_cluster = NULL;
    est_server  *ps = NULL, *worker = NULL;
    est_remote  *remote = NULL;
    est_status   status;

    r.to_port = port_take(&held[0]);
    relay_start(&r);
    snprintf(far, sizeof far, "127.0.0.1:%d", r.port);
    snprintf(near, sizeof near, "127.0.0.1:%d", r.to_port);
    snprintf(own, sizeof own, "127.0.0.1:%d", port_take(&held[1]));
    assert_ok(est_cluster_create((est_jobs){ (const est_job[]){ { .name = "ps", .addresses = EST_STRINGS(near) },
                                                                { .name = "worker", .addresses = EST_STRINGS(own) } },
                                             2 },
                                 &near_cluster));
    assert_ok(est_cluster_create((est_jobs){ (const est_job[]){ { .name = "ps", .addresses = EST_STRINGS(far) },
                                                                { .name = "worker", .addresses = EST_STRINGS(own) } },
                                             2 },
                                 &far_cluster));
    assert_ok(est_server_create(near_cluster, "ps", 0, EST_SERVER(.transport = "tcp", .threads = 1), &ps));
    assert_ok(est_server_create(far_cluster, "worker", 0, EST_SERVER(.transport = "tcp", .threads = 1), &worker));
    assert_ok(est_remote_create(worker, EST_REMOTE(.is_chief = true, .connect_secs = CONNECT_SECS), &remote));
    est_remote_set_over(remote, look, &l);
    status      = remote->ops->connect(remote);
    *n_attempts = atomic_load(&r.n_connections);
    est_remote_free(remote);
    est_server_free(worker);
    est_server_free(ps);
    relay_stop(&r);
    for (int i = 0; i < 2; i++) close(held[i]);
    est_cluster_free(near_cluster);
    est_cluster_free(far_cluster);
    return status;
}

TEST(slow_hello)
{
    int n_attempts;

    assert_ok(connect_through(LOOKS, 0, &n_attempts));
    assert_int_equal(n_attempts, 1);
}

/* Who keeps an attempt still sees that the job has ended. */
TEST(job_ends_meanwhile)
{
    int n_attempts;

    assert_int_equal(connect_through(INT_MAX, LOOKS, &n_attempts), EST_OUT_OF_RANGE);
    assert_non_null(strstr(est_error_message(), "the job has ended while waiting for ps:0"));
    assert_int_equal(n_attempts, 1);
}
