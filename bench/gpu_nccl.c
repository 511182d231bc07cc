/* SPDX-License-Identifier: Apache-2.0
 *
 * Two ranks sum by NCCL between their GPUs (est_device.sums), which may be one GPU: NCCL takes the two processes for
 * two hosts by NCCL_HOSTID. Then one is killed, and the other aborts and goes on with its GPU. Run by `scripts/gpu-run
 * nccl`; prints how long a sum of 1 MB takes, and at the end whether all was right. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/devices.h"

#define COUNT (1 << 18)
#define SUMS  30

static void fail(int rank, const char *what)
{
    fprintf(stderr, "gpu_nccl: rank %d: %s: %s\n", rank, what, est_error_message());
    exit(1);
}

/* Whether the sum ends within so many seconds; *status: of the wait. */
static bool ends(const est_device_sums *sums, est_sum_group *group, est_sum_work *work, double secs, est_status *status)
{
    int64_t until = est_now_ns() + est_secs_to_ns(secs);
    bool    done  = false;

    *status = EST_OK;
    while (!done && *status == EST_OK && est_now_ns() < until) *status = sums->wait(group, work, 0.02, &done);
    return done;
}

static void sum_many(const est_device_sums *sums, est_sum_group *group, int rank, float *data)
{
    int64_t    begin = 0;
    est_status status;

    for (int s = 0; s <= SUMS; s++) {
        est_sum_work *work;

        for (int i = 0; i < COUNT; i++) data[i] = (float)(i % 1000 + rank);
        if (s == 1) begin = est_now_ns(); /* the first connects */
        if (sums->sum(group, data, COUNT, EST_F32, &work) != EST_OK) fail(rank, "sum");
        if (!ends(sums, group, work, 60, &status)) fail(rank, "wait");
        for (int i = 0; i < COUNT; i++) {
            if (data[i] == (float)(2 * (i % 1000) + 1)) continue;
            fprintf(stderr, "gpu_nccl: rank %d: element %d of sum %d is %g\n", rank, i, s, (double)data[i]);
            exit(1);
        }
    }
    printf("rank %d: %d sums of 1 MB are right, %.2f ms each\n", rank, SUMS + 1,
           (double)(est_now_ns() - begin) / SUMS / 1e6);
    fflush(stdout);
}

/* The other rank is dead: the sum does not end, or fails; after the abort the GPU can be used. */
static void survive(const est_device *device, est_sum_group *group, float *data)
{
    const est_device_sums *sums = device->sums;
    est_sum_work          *work;
    est_status             status = sums->sum(group, data, COUNT, EST_F32, &work);
    int64_t                begin;
    void                  *far;
    float                  back = 0;

    if (status == EST_OK && ends(sums, group, work, 2, &status)) fail(0, "the sum without rank 1 has ended");
    printf("rank 0: without rank 1: %s\n", status == EST_OK ? "no end after 2 s" : est_error_message());
    begin = est_now_ns();
    sums->abort(group);
    if (status == EST_OK && (ends(sums, group, work, 5, &status) || status != EST_ABORTED)) fail(0, "after the abort");
    sums->close(group);
    printf("rank 0: aborted and closed after %.2f s\n", (double)(est_now_ns() - begin) / 1e9);
    far     = device->alloc(device, sizeof back);
    data[0] = 42;
    if (far == NULL || device->copy_in(device, far, data, sizeof back) != EST_OK ||
        device->copy_out(device, &back, far, sizeof back) != EST_OK || back != 42) {
        fail(0, "the GPU after the abort");
    }
    device->free(device, far);
}

static int run(int rank, int in, int out)
{
    const est_device *device = est_device_find("GPU", 0);
    float            *data   = malloc(sizeof *data * COUNT);
    char              id[EST_SUM_ID_BYTES];
    est_sum_group    *group;
    bool              opened = false;

    if (device == NULL || device->sums == NULL || data == NULL) {
        fprintf(stderr, "gpu_nccl: %s\n", est_device_missing());
        return 1;
    }
    if (rank == 0 && (device->sums->make_id(device, id) != EST_OK || write(out, id, sizeof id) != sizeof id)) {
        fail(rank, "make an id");
    }
    if (rank == 1 && read(in, id, sizeof id) != sizeof id) return 1; /* rank 0 has said why */
    if (device->sums->open(device, id, 2, rank, &group) != EST_OK ||
        device->sums->opened(group, 60, &opened) != EST_OK || !opened) {
        fail(rank, "open");
    }
    sum_many(device->sums, group, rank, data);
    if (rank == 1) (void)raise(SIGKILL);
    survive(device, group, data);
    free(data);
    return 0;
}

int main(void)
{
    pid_t pids[2];
    int   ends_of[2], status[2];

    if (pipe(ends_of) != 0) return 1;
    for (int rank = 0; rank < 2; rank++) {
        pids[rank] = fork();
        if (pids[rank] < 0) return 1;
        if (pids[rank] > 0) continue;
        (void)setenv("NCCL_HOSTID", rank == 0 ? "a" : "b", 1);
        (void)setenv("NCCL_SOCKET_IFNAME", "lo", 0);
        (void)alarm(300);
        close(ends_of[rank == 0 ? 0 : 1]);
        exit(run(rank, ends_of[0], ends_of[1]));
    }
    close(ends_of[0]);
    close(ends_of[1]);
    for (int rank = 0; rank < 2; rank++) {
        if (waitpid(pids[rank], &status[rank], 0) < 0) return 1;
    }
    if (status[0] == 0 && WIFSIGNALED(status[1]) && WTERMSIG(status[1]) == SIGKILL) {
        printf("gpu_nccl: all passed\n");
        return 0;
    }
    printf("gpu_nccl: FAILED\n");
    return 1;
}
