/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers of a cluster in this process, on loopback, for tests that look into them. */
#ifndef EST_TESTS_SERVERS_TEST_H
#define EST_TESTS_SERVERS_TEST_H

#include "cluster/clients.h"

#define SERVERS_MAX 8

typedef struct servers {
    est_cluster *cluster;
    est_server  *ps[SERVERS_MAX], *worker[SERVERS_MAX];
    int          n_ps, n_workers;
    int          ports[2 * SERVERS_MAX]; /* sockets that keep them */
} servers;

servers servers_start_with(int n_ps, int n_workers, const char *transport, double silence_secs); /* 0: the default */
servers servers_start(int n_ps, int n_workers, const char *transport);
servers servers_start_functions(int n_ps, int n_workers, est_worker_functions functions); /* of the workers, by tcp */
void    servers_stop(servers *s);
est_remote *servers_remote(servers *s, int worker, const est_remote_options *options);

#endif
