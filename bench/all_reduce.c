/* SPDX-License-Identifier: Apache-2.0
 *
 * All-reduce of float32 between processes of this machine. Rank 0 prints one line of JSON a size: how long an operation
 * took, for every window. bench/compare-allreduce puts that beside others.
 *
 *   all_reduce transport ranks [communication [sizes in bytes, as 4096,65536 [seconds a size [networks]]]]
 *
 * `networks`, as a=10.0.0.1,b=10.0.0.2: network namespaces and this machine's addresses there. The ranks are spread
 * over them as over hosts. "-": this network, but every rank says that it is on a host of its own, so that nothing goes
 * through shared memory. */
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "collective/collective.h"
#include "net/certificates.h"
#include "support/bench.h"
#include "support/turns.h"

#define RANKS_MAX 16
#define N_WINDOWS 5

#define CALLS_MAX 500 /* of a window */

static const char  *sizes         = "4096,65536,1048576,16777216,268435456";
static double       secs_per_size = 1;
static est_mailbox *mailbox;

/* The size that the list begins with, and where the next is; false: there is none. */
static bool next_size(const char **list, size_t *out)
{
    char *end;

    *out  = (size_t)strtoull(*list, &end, 10);
    *list = *end == ',' ? end + 1 : end;
    return *out > 0;
}

/* Where a rank is. */
typedef struct place {
    char network[64], address[64]; /* network "": that of this process */
} place;

/* Rank i of n is in the network that is i / n through the list. */
static void find_place(const char *networks, int rank, int n, place *out)
{
    int n_networks = 1, wanted;

    *out = (place){ "", "127.0.0.1" };
    if (networks == NULL || strcmp(networks, "-") == 0) return;
    for (const char *c = networks; *c != '\0'; c++) n_networks += *c == ',';
    wanted = rank * n_networks / n;
    for (; wanted > 0; wanted--) networks = strchr(networks, ',') + 1;
    if (sscanf(networks, "%63[^=]=%63[^,]", out->network, out->address) != 2) {
        (void)fprintf(stderr, "bench: no network and address: %s\n", networks);
        exit(2);
    }
}

/* Before this process has any thread. */
static void enter(const place *p)
{
    char path[128];
    int  fd;

    if (p->network[0] == '\0') return;
    snprintf(path, sizeof path, "/run/netns/%s", p->network);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
        perror(path);
        exit(1);
    }
    close(fd);
}

static void serve(void *user, est_request *request)
{
    (void)user;
    if (!est_mailbox_serve(mailbox, request)) est_request_fail(request, EST_UNIMPLEMENTED, "not of a group");
}

static void lost(void *user, est_link *link, const char *why)
{
    (void)user;
    est_mailbox_lost(mailbox, link, why);
}

static void reduce(est_rank_group *group, float *data, size_t count)
{
    est_work *work;

    bench_check(est_all_reduce(group, data, count, EST_F32, EST_REDUCE_OP_SUM, NULL, &work));
    bench_check(est_work_wait(work));
}

static int clamp(double value, int least, int most)
{
    return value < least ? least : value > most ? most : (int)value;
}

/* How long one takes, as rank 0 sees it: all ranks must measure as often. */
static double try_one(est_rank_group *group, float *data, size_t count)
{
    double    start = bench_now_secs(), secs;
    est_work *work;

    reduce(group, data, count);
    secs = bench_now_secs() - start;
    bench_check(est_broadcast(group, &secs, sizeof secs, 0, NULL, &work));
    bench_check(est_work_wait(work));
    return secs;
}

static void measure(est_rank_group *group, float *data, size_t bytes)
{
    size_t count = bytes / sizeof *data;
    int    calls, windows, n = est_group_ranks(group), rank = est_group_rank(group);
    double secs;

    for (size_t i = 0; i < count; i++) data[i] = (float)(i % 100) + (float)rank;
    reduce(group, data, count);
    for (size_t i = 0; i < count; i++) {
        if (data[i] != (float)((int)(i % 100) * n + n * (n - 1) / 2)) {
            (void)fprintf(stderr, "bench: element %zu of %zu is wrong\n", i, count);
            exit(1);
        }
    }
    memset(data, 0, bytes); /* sums of zeros stay finite */
    secs    = try_one(group, data, count);
    calls   = clamp(secs_per_size / N_WINDOWS / secs, 1, CALLS_MAX);
    windows = clamp(secs_per_size / (calls * secs), 2, N_WINDOWS);
    if (rank == 0) printf("{\"bytes\":%zu,\"secs\":[", bytes);
    for (int w = 0; w < windows; w++) {
        est_work *work;
        double    start;

        bench_check(est_barrier(group, NULL, &work));
        bench_check(est_work_wait(work));
        start = bench_now_secs();
        for (int i = 0; i < calls; i++) reduce(group, data, count);
        if (rank == 0) printf("%s%.9f", w > 0 ? "," : "", (bench_now_secs() - start) / calls);
    }
    if (rank == 0) printf("]}\n");
    fflush(stdout);
}

/* One rank: says its port to the first process and gets all of them back. */
static void be_rank(const char *transport, const char *folder, int rank, int n, est_communication communication,
                    const char *networks, int in, int out)
{
    est_net_options   options = { .transport    = transport,
                                  .certificates = folder,
                                  .self         = { .incarnation = (uint64_t)rank + 1 },
                                  .serve        = serve,
                                  .lost         = lost };
    est_rank          ranks[RANKS_MAX];
    char              tasks[RANKS_MAX][16], addresses[RANKS_MAX][96], here[96];
    place             places[RANKS_MAX];
    est_group_options join = {
        .ranks = ranks, .n = n, .rank = rank, .generation = 1, .join_secs = 60, .communication = communication
    };
    int             ports[RANKS_MAX];
    est_net        *net;
    est_rank_group *group;
    float          *data      = NULL;
    size_t          bytes_max = 0, bytes;

    for (int i = 0; i < n; i++) find_place(networks, i, n, &places[i]);
    enter(&places[rank]);
    if (networks != NULL) join.host = strcmp(networks, "-") == 0 ? options.self.task : places[rank].network;
    snprintf(here, sizeof here, "%s:0", places[rank].address);
    snprintf(options.self.task, sizeof options.self.task, "worker:%d", rank);
    bench_check(est_mailbox_create(&mailbox));
    bench_check(est_net_create(&options, &net));
    bench_check(est_net_listen(net, here));
    ports[0] = est_net_port(net);
    if (write(out, ports, sizeof(int)) != sizeof(int) || read(in, ports, sizeof ports) != sizeof ports) exit(1);
    for (int i = 0; i < n; i++) {
        snprintf(tasks[i], sizeof tasks[i], "worker:%d", i);
        snprintf(addresses[i], sizeof addresses[i], "%s:%d", places[i].address, ports[i]);
        ranks[i] = (est_rank){ tasks[i], addresses[i], 0 };
    }
    bench_check(est_group_create(mailbox, net, &join, &group));
    for (const char *list = sizes; next_size(&list, &bytes);) bytes_max = bytes > bytes_max ? bytes : bytes_max;
    if (posix_memalign((void **)&data, 64, bytes_max) != 0) exit(1);
    for (const char *list = sizes; next_size(&list, &bytes);) measure(group, data, bytes);
    free(data);
    est_group_free(group);
    est_net_free(net);
    est_mailbox_free(mailbox);
    exit(0);
}

int main(int argc, char **argv)
{
    char              folder[] = "/tmp/est-bench-XXXXXX";
    int               n = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 2, to[RANKS_MAX], ports[RANKS_MAX] = { 0 };
    int               status, failed = 0;
    est_communication communication = EST_COMMUNICATION_AUTO;

    if (argc < 2 || n < 1 || n > RANKS_MAX || mkdtemp(folder) == NULL) {
        (void)fprintf(stderr, "all_reduce transport ranks [communication [sizes [seconds a size [networks]]]]\n");
        return 2;
    }
    if (argc > 3) bench_check(est_communication_find(argv[3], &communication));
    if (argc > 4) sizes = argv[4];
    if (argc > 5) secs_per_size = strtod(argv[5], NULL);
    bench_check(est_certificates_make(folder, "bench", 1));
    for (int i = 0; i < n; i++) { /* before this process has any thread */
        int   down[2], up[2];
        pid_t pid;

        if (pipe(down) != 0 || pipe(up) != 0 || (pid = fork()) < 0) return 1;
        if (pid == 0) be_rank(argv[1], folder, i, n, communication, argc > 6 ? argv[6] : NULL, down[0], up[1]);
        close(down[0]);
        close(up[1]);
        to[i] = down[1];
        if (read(up[0], &ports[i], sizeof(int)) != sizeof(int)) return 1;
        close(up[0]);
    }
    for (int i = 0; i < n; i++) {
        if (write(to[i], ports, sizeof ports) != sizeof ports) return 1;
    }
    while (wait(&status) > 0) failed |= status != 0;
    bench_check(est_dir_remove(folder));
    return failed;
}
