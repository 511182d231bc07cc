/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters of forked processes, for benchmarks. */
#include "support/tasks.h"

#include <arpa/inet.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "net/certificates.h"
#include "support/turns.h"

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* A port that is free now; the socket stays open in *fd until all have one, so that none is given twice. */
static int free_port(int *fd)
{
    struct sockaddr_in at   = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t          size = sizeof at;
    int                one  = 1;

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(*fd, (struct sockaddr *)&at, sizeof at) != 0 || getsockname(*fd, (struct sockaddr *)&at, &size) != 0) {
        die("a port for a task");
    }
    return ntohs(at.sin_port);
}

static void make_folder(bench_tasks *t, const char *transport)
{
    char certificates[80];

    (void)snprintf(t->folder, sizeof t->folder, "/dev/shm/est-bench-XXXXXX");
    if (mkdtemp(t->folder) == NULL) {
        (void)snprintf(t->folder, sizeof t->folder, "/tmp/est-bench-XXXXXX");
        if (mkdtemp(t->folder) == NULL) die(t->folder);
    }
    (void)setenv("ESTOC_PROTOCOL", transport, 1);
    (void)setenv("ESTOC_JOB", "bench", 1);
    (void)setenv("ESTOC_NUM_THREADS", "1", 1);
    if (strcmp(transport, "tls") != 0) return;
    (void)snprintf(certificates, sizeof certificates, "%s/certificates", t->folder);
    bench_check(est_certificates_make(certificates, "bench", 1));
    (void)setenv("ESTOC_CERTS", certificates, 1);
}

bench_tasks bench_tasks_make(int n_ps, int n_workers, const char *transport)
{
    bench_tasks t = { .n_ps = n_ps, .n_workers = n_workers };
    char        text[BENCH_TASKS_MAX][32];
    const char *address[BENCH_TASKS_MAX];
    est_job     jobs[3];
    int         n_jobs = 0;
    int         fds[BENCH_TASKS_MAX], n = n_ps + 1 + n_workers;

    if (n > BENCH_TASKS_MAX) {
        (void)fprintf(stderr, "bench: a cluster of %d tasks; at most %d\n", n, BENCH_TASKS_MAX);
        exit(2);
    }
    make_folder(&t, transport);
    for (int i = 0; i < n; i++) {
        (void)snprintf(text[i], sizeof text[i], "127.0.0.1:%d", free_port(&fds[i]));
        address[i] = text[i];
    }
    for (int i = 0; i < n; i++) close(fds[i]);
    jobs[n_jobs++] = (est_job){ .name = "chief", .addresses = { address + n_ps, 1 } };
    if (n_ps > 0) jobs[n_jobs++] = (est_job){ .name = "ps", .addresses = { address, n_ps } };
    if (n_workers > 0) jobs[n_jobs++] = (est_job){ .name = "worker", .addresses = { address + n_ps + 1, n_workers } };
    bench_check(est_cluster_create((est_jobs){ jobs, n_jobs }, &t.cluster));
    return t;
}

void bench_tasks_start(bench_tasks *t, const char *type, int index,
                       void (*run)(bench_tasks *t, const char *type, int index, void *user), void *user)
{
    pid_t pid = fork();

    if (pid < 0) die("fork");
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(t, type, index, user);
        _exit(1);
    }
    t->children[t->n_children++] = pid;
}

static void serve(bench_tasks *t, const char *type, int index, void *user)
{
    est_server *server = NULL;

    (void)user;
    bench_check(est_server_create(t->cluster, type, index, NULL, &server));
    bench_check(est_server_join(server));
}

void bench_tasks_serve(bench_tasks *t)
{
    for (int i = 0; i < t->n_ps; i++) bench_tasks_start(t, "ps", i, serve, NULL);
}

est_remote *bench_tasks_connect(bench_tasks *t, est_server **server)
{
    est_remote *remote = NULL;

    bench_check(est_server_create(t->cluster, "chief", 0, NULL, server));
    bench_check(est_remote_create(*server, EST_REMOTE(.is_chief = true, .connect_secs = 60), &remote));
    return remote;
}

void bench_tasks_share_gpu(int rank)
{
    char host[16];

    (void)snprintf(host, sizeof host, "rank%d", rank);
    (void)setenv("NCCL_HOSTID", host, 1);
    (void)setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    (void)setenv("NCCL_P2P_DISABLE", "1", 0);
    (void)setenv("NCCL_SHM_DISABLE", "1", 0);
}

/* Of the first n that were started. */
static double secs_of(const bench_tasks *t, int n)
{
    double secs = 0;

    for (int i = 0; i < n; i++) {
        clockid_t       clock;
        struct timespec used;

        if (clock_getcpuclockid(t->children[i], &clock) != 0 || clock_gettime(clock, &used) != 0) die("time of a task");
        secs += (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    }
    return secs;
}

double bench_tasks_ps_secs(const bench_tasks *t)
{
    return secs_of(t, t->n_ps);
}

double bench_tasks_cpu_secs(const bench_tasks *t)
{
    return secs_of(t, t->n_children) + bench_cpu_secs();
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    (void)remove(path);
    return 0;
}

void bench_tasks_stop(bench_tasks *t)
{
    for (int i = 0; i < t->n_children; i++) {
        (void)kill(t->children[i], SIGKILL);
        (void)waitpid(t->children[i], NULL, 0);
    }
    est_cluster_free(t->cluster);
    (void)nftw(t->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    *t = (bench_tasks){ 0 };
}
