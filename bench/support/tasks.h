/* SPDX-License-Identifier: Apache-2.0
 *
 * A cluster on loopback for a benchmark: its tasks are forked off this process, so that a benchmark says in one file
 * what all of them do. To be forked before this process starts threads, that is before it makes a server or a session.
 * Tasks die with this process, whatever ends it. */
#ifndef EST_BENCH_TASKS_H
#define EST_BENCH_TASKS_H

#include <sys/types.h>

#include "estoc/estoc.h"
#include "estoc/server.h"

#define BENCH_TASKS_MAX 64

typedef struct bench_tasks {
    char         folder[64]; /* for certificates and models; goes with the cluster */
    est_cluster *cluster;    /* ps, one chief, workers */
    int          n_ps, n_workers;
    pid_t        children[BENCH_TASKS_MAX]; /* the ps first */
    int          n_children;
} bench_tasks;

/* Addresses for so many tasks, beside a chief; makes certificates for tls. Tasks and this process use the transport and
 * one thread for their kernels. */
bench_tasks bench_tasks_make(int n_ps, int n_workers, const char *transport);

/* Starts a task, which is whatever `run` does; it is not to return before the task is killed. */
void bench_tasks_start(bench_tasks *t, const char *type, int index,
                       void (*run)(bench_tasks *t, const char *type, int index, void *user), void *user);

/* Starts all ps as servers that serve whoever comes. */
void bench_tasks_serve(bench_tasks *t);

/* The chief's server and its view of the ps tasks, in this process. */
est_remote *bench_tasks_connect(bench_tasks *t, est_server **server);

/* For NCCL between processes that have one GPU: this process is on a host of its own, which it reaches by loopback. In
 * the process, before it looks for a GPU; what the environment says of the rest stays. */
void bench_tasks_share_gpu(int rank);

/* Processor time so far: of all ps tasks; of all that were started and of this process. */
double bench_tasks_ps_secs(const bench_tasks *t);
double bench_tasks_cpu_secs(const bench_tasks *t);

/* Kills what it started. Servers, remotes and sessions of this process may still be there: they find their peers
 * gone. */
void bench_tasks_stop(bench_tasks *t);

#endif
