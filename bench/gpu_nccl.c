/* SPDX-License-Identifier: Apache-2.0
 *
 * Two ranks sum by NCCL between their GPUs (est_device.sums), which may be one GPU (bench_tasks_share_gpu). Then one is
 * killed, the other aborts, goes on with its GPU, and sums with another rank that takes the place of the first. Run by
 * `scripts/gpu-run nccl`; prints how long a sum of 1 MB takes, and at the end whether all was right.
 *
 * Everything has a deadline: what hangs is named, and ends the program. */
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/devices.h"
#include "support/tasks.h"

#define COUNT (1 << 18)
#define SUMS  30
#define RANKS 3 /* processes: rank 0, rank 1, and the rank 1 of the second group */

static int     number; /* of this process */
static int64_t started;
static char    hung[160]; /* what is said if what goes on does not end */
static size_t  hung_length;

/* --- progress ----------------------------------------------------------------------------------------------------- */

static double age(void)
{
    return (double)(est_now_ns() - started) / 1e9;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char    text[400];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("%6.2f s  process %d: %s\n", age(), number, text);
}

static void end_hung(int signal)
{
    ssize_t written = write(STDOUT_FILENO, hung, hung_length);

    (void)signal;
    _exit(written > 0 ? 3 : 4);
}

/* What comes now may take so long. */
static void begin(const char *what, unsigned secs)
{
    say("%s", what);
    hung_length = (size_t)snprintf(hung, sizeof hung, "          process %d: HUNG, or was ended, in: %s (%u s)\n",
                                   number, what, secs);
    (void)alarm(secs);
}

static void fail(const char *what)
{
    say("FAILED: %s: %s", what, est_error_message());
    exit(1);
}

/* --- sums --------------------------------------------------------------------------------------------------------- */

/* Whether the sum ends within so many seconds; *status: of the wait. */
static bool ends(const est_device_sums *sums, est_sum_group *group, est_sum_work *work, double secs, est_status *status)
{
    int64_t until = est_now_ns() + est_secs_to_ns(secs);
    bool    done  = false;

    *status = EST_OK;
    while (!done && *status == EST_OK && est_now_ns() < until) *status = sums->wait(group, work, 0.02, &done);
    return done;
}

static void sum_once(const est_device_sums *sums, est_sum_group *group, int rank, float *data)
{
    est_sum_work *work;
    est_status    status;

    for (int i = 0; i < COUNT; i++) data[i] = (float)(i % 1000 + rank);
    if (sums->sum(group, data, COUNT, EST_F32, &work) != EST_OK) fail("enqueue a sum");
    if (!ends(sums, group, work, 60, &status)) fail("wait for a sum");
    for (int i = 0; i < COUNT; i++) {
        if (data[i] == (float)(2 * (i % 1000) + 1)) continue;
        say("FAILED: element %d of a sum is %g", i, (double)data[i]);
        exit(1);
    }
}

static void sum_many(const est_device_sums *sums, est_sum_group *group, int rank, float *data)
{
    int64_t start;

    begin("first sum of 1 MB, which connects", 20);
    sum_once(sums, group, rank, data);
    begin("more sums", 20);
    start = est_now_ns();
    for (int s = 0; s < SUMS; s++) sum_once(sums, group, rank, data);
    say("%d sums of 1 MB are right, %.2f ms each", SUMS + 1, (double)(est_now_ns() - start) / SUMS / 1e6);
}

/* The other rank is dead: the sum does not end, or fails; after the abort the GPU can be used. */
static void survive(const est_device *device, est_sum_group *group, float *data)
{
    const est_device_sums *sums = device->sums;
    est_sum_work          *work;
    est_status             status;
    int64_t                start;
    void                  *far;
    float                  back = 0;

    begin("a sum without rank 1, which is dead", 20);
    status = sums->sum(group, data, COUNT, EST_F32, &work);
    if (status == EST_OK && ends(sums, group, work, 2, &status)) fail("the sum without rank 1 has ended");
    say("without rank 1: %s", status == EST_OK ? "no end after 2 s" : est_error_message());
    begin("abort, by a thread of its own", 20);
    start = est_now_ns();
    sums->abort(group);
    say("the call of the abort returned after %.1f ms", (double)(est_now_ns() - start) / 1e6);
    if (status == EST_OK && (ends(sums, group, work, 5, &status) || status != EST_ABORTED)) fail("after the abort");
    sums->close(group);
    say("aborted and closed after %.2f s", (double)(est_now_ns() - start) / 1e9);
    begin("the GPU after the abort", 10);
    far     = device->alloc(device, sizeof back);
    data[0] = 42;
    if (far == NULL || device->copy_in(device, far, data, sizeof back) != EST_OK ||
        device->copy_out(device, &back, far, sizeof back) != EST_OK || back != 42) {
        fail("the GPU after the abort");
    }
    device->free(device, far);
}

/* --- ranks -------------------------------------------------------------------------------------------------------- */

static est_sum_group *join(const est_device *device, int rank, int in, int out)
{
    est_sum_group *group;
    char           id[EST_SUM_ID_BYTES];
    bool           opened = false;
    int64_t        start  = est_now_ns();

    if (rank == 0) {
        begin("make an id", 10);
        if (device->sums->make_id(device, id) != EST_OK) fail("make an id");
        if (write(out, id, sizeof id) != sizeof id) fail("send the id");
    } else {
        begin("wait for the id", 60);
        if (read(in, id, sizeof id) != sizeof id) exit(1); /* rank 0 has said why */
    }
    begin("open the communicator", 20);
    if (device->sums->open(device, id, 2, rank, &group) != EST_OK) fail("ncclCommInitRankConfig");
    if (device->sums->opened(group, 60, &opened) != EST_OK || !opened) fail("open the communicator");
    say("communicator open after %.2f s", (double)(est_now_ns() - start) / 1e9);
    return group;
}

static int run(int in[], int out[])
{
    const est_device *device;
    float            *data = malloc(sizeof *data * COUNT);
    est_sum_group    *group;

    begin("find the GPU", 20);
    device = est_device_find("GPU", 0);
    if (device == NULL || device->sums == NULL || data == NULL) {
        say("FAILED: %s", est_device_missing());
        return 1;
    }
    if (number < 2) {
        group = join(device, number, in[0], out[0]);
        sum_many(device->sums, group, number, data);
        if (number == 1) {
            say("kills itself");
            (void)raise(SIGKILL);
        }
        survive(device, group, data);
    }
    group = join(device, number == 0 ? 0 : 1, in[1], out[1]);
    sum_many(device->sums, group, number == 0 ? 0 : 1, data);
    begin("leave", 20);
    device->sums->close(group);
    say("done");
    free(data);
    return 0;
}

static pid_t start(int process, int in[], int out[])
{
    pid_t pid = fork();

    if (pid != 0) return pid;
    number = process;
    (void)signal(SIGALRM, end_hung);
    (void)signal(SIGTERM, end_hung);
    bench_tasks_share_gpu(process);
    for (int i = 0; i < 2; i++) (void)close(process == 0 ? in[i] : out[i]);
    exit(run(in, out));
}

/* Whether all processes end as they should; the first that does not ends the others. */
static bool await(pid_t *pids)
{
    bool good = true;

    for (int left = RANKS; left > 0; left--) {
        int   status = 0, process = 0;
        pid_t pid = waitpid(-1, &status, 0);
        bool  fine;

        while (pids[process] != pid) process++;
        pids[process] = 0;
        fine          = process == 1 ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                     : WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (!fine) {
            printf("%6.2f s  process %d ended by %s %d\n", age(), process, WIFSIGNALED(status) ? "signal" : "code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
        for (int i = 0; !fine && good && i < RANKS; i++) {
            if (pids[i] > 0) (void)kill(pids[i], SIGTERM);
        }
        good = good && fine;
    }
    return good;
}

int main(void)
{
    pid_t pids[RANKS];
    int   in[2], out[2];
    bool  good;

    started = est_now_ns();
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < 2; i++) {
        int ends_of[2];

        if (pipe(ends_of) != 0) return 1;
        in[i]  = ends_of[0];
        out[i] = ends_of[1];
    }
    for (int i = 0; i < RANKS; i++) {
        pids[i] = start(i, in, out);
        if (pids[i] < 0) return 1;
    }
    for (int i = 0; i < 2; i++) {
        (void)close(in[i]);
        (void)close(out[i]);
    }
    good = await(pids);
    printf("gpu_nccl: %s\n", good ? "all passed" : "FAILED");
    return good ? 0 : 1;
}
