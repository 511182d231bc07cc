/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers in this process. */
#include "support/servers_test.h"

#include <unistd.h>

#include "support/nn_test.h"
#include "support/port_test.h"

static servers start_all(int n_ps, int n_workers, const char *transport, double silence_secs,
                         est_worker_functions functions)
{
    servers     s = { .n_ps = n_ps, .n_workers = n_workers };
    char        address[2 * SERVERS_MAX][32];
    const char *ps[SERVERS_MAX], *worker[SERVERS_MAX];

    assert_true(n_ps <= SERVERS_MAX && n_workers <= SERVERS_MAX);
    for (int i = 0; i < n_ps + n_workers; i++) {
        snprintf(address[i], sizeof address[i], "127.0.0.1:%d", port_take(&s.ports[i]));
        if (i < n_ps) ps[i] = address[i];
        if (i >= n_ps) worker[i - n_ps] = address[i];
    }
    assert_ok(
        est_cluster_create((est_jobs){ (const est_job[]){ { .name = "ps", .addresses = { ps, n_ps } },
                                                          { .name = "worker", .addresses = { worker, n_workers } } },
                                       2 },
                           &s.cluster));
    for (int i = 0; i < n_ps; i++) {
        assert_ok(est_server_create(s.cluster, "ps", i,
                                    EST_SERVER(.transport = transport, .threads = 1, .silence_secs = silence_secs),
                                    &s.ps[i]));
    }
    for (int i = 0; i < n_workers; i++) {
        assert_ok(est_server_create(
            s.cluster, "worker", i,
            EST_SERVER(.transport = transport, .threads = 1, .silence_secs = silence_secs, .functions = functions),
            &s.worker[i]));
    }
    return s;
}

servers servers_start_with(int n_ps, int n_workers, const char *transport, double silence_secs)
{
    return start_all(n_ps, n_workers, transport, silence_secs, (est_worker_functions){ 0 });
}

servers servers_start_functions(int n_ps, int n_workers, est_worker_functions functions)
{
    return start_all(n_ps, n_workers, "tcp", 0, functions);
}

servers servers_start(int n_ps, int n_workers, const char *transport)
{
    return servers_start_with(n_ps, n_workers, transport, 0);
}

void servers_stop(servers *s)
{
    for (int i = 0; i < s->n_workers; i++) est_server_free(s->worker[i]);
    for (int i = 0; i < s->n_ps; i++) est_server_free(s->ps[i]);
    for (int i = 0; i < s->n_ps + s->n_workers; i++) close(s->ports[i]);
    est_cluster_free(s->cluster);
}

est_remote *servers_remote(servers *s, int worker, const est_remote_options *options)
{
    est_remote *remote = NULL;

    assert_ok(est_remote_create(s->worker[worker], options, &remote));
    return remote;
}
