/* SPDX-License-Identifier: Apache-2.0
 *
 * Who cleans up after `estoc launch`, also after one that was killed and could not. The keeper is a process in a
 * session of its own that waits for the end of a pipe. Tasks write their number into the pipe before they become the
 * program, so there is no moment at which one is alive and unknown; and they hold no copy of it from then on, so the
 * pipe ends with the launcher. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "launch.h"

typedef struct groups {
    pid_t *data;
    size_t n, max;
} groups;

static void add(groups *g, pid_t group)
{
    if (g->n == g->max) {
        pid_t *more = est_realloc(g->data, (2 * g->max + 64) * sizeof *more);

        if (more == NULL) return;
        g->data = more;
        g->max  = 2 * g->max + 64;
    }
    g->data[g->n++] = group;
}

static void drop(groups *g, pid_t group)
{
    for (size_t i = 0; i < g->n; i++) {
        if (g->data[i] != group) continue;
        g->data[i] = g->data[--g->n];
        return;
    }
}

/* Closes all files of the launcher: readers of its output, and users of its ports, must not wait for the keeper. */
static _Noreturn void keep(int fd)
{
    groups g = { 0 };
    FILE  *in;
    char   line[32];

    setsid();
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    dup2(fd, STDIN_FILENO);
    close_range(STDIN_FILENO + 1, ~0U, 0);
    in = fdopen(STDIN_FILENO, "r");
    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        pid_t group = (pid_t)strtol(line, NULL, 10);

        if (group > 0) add(&g, group);
        if (group < 0) drop(&g, -group);
    }
    for (size_t i = 0; i < g.n; i++) kill(-g.data[i], SIGKILL);
    _exit(0);
}

est_status launch_keeper_start(int *fd, pid_t *keeper)
{
    int   ends[2];
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return est_fail(est_status_from_errno(errno), "cannot make a pipe: %s", strerror(errno));
    }
    fflush(stdout);
    child = fork();
    if (child == 0) {
        close(ends[1]);
        keep(ends[0]);
    }
    close(ends[0]);
    if (child < 0) {
        close(ends[1]);
        return est_fail(est_status_from_errno(errno), "cannot start a process: %s", strerror(errno));
    }
    *fd     = ends[1];
    *keeper = child;
    return EST_OK;
}

void launch_keeper_forget(int fd, pid_t group)
{
    dprintf(fd, "%d\n", -(int)group);
}

void launch_keeper_end(int fd, pid_t keeper)
{
    close(fd);
    while (waitpid(keeper, NULL, 0) < 0 && errno == EINTR) continue;
}
