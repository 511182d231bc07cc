/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of registered tests, sorted by line: compilers may run constructors in any order. */
#include "support/test.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/far_device.h"

#define TESTS_MAX 200
#define AT_ONCE   4 /* processes of est_test_run_apart */

static est_test *first;

void est_test_add(est_test *test)
{
    est_test **at = &first;

    while (*at != NULL && (*at)->line <= test->line) at = &(*at)->next;
    test->next = *at;
    *at        = test;
}

void est_test_row(const char *name, CMUnitTestFunction test, const void *row)
{
    est_test *one = calloc(1, sizeof *one);

    if (one == NULL) abort();
    one->unit = (struct CMUnitTest){ .name = name, .test_func = test, .initial_state = (void *)(uintptr_t)row };
    est_test_add(one);
}

/* Certificates that tests make are not those of the user; and what a test starts can be interrupted, also where the
 * suite runs in the background of a script, which ignores SIGINT for it. */
static void keep_state(void)
{
    est_far_device_use();
    signal(SIGINT, SIG_DFL);
    if (mkdir(EST_BUILD_DIR "/state", 0700) != 0 && errno != EEXIST) abort();
    if (setenv("XDG_STATE_HOME", EST_BUILD_DIR "/state", 1) != 0) abort();
}

int est_test_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    struct CMUnitTest units[TESTS_MAX];
    size_t            n = 0;

    keep_state();
    for (const est_test *test = first; test != NULL && n < TESTS_MAX; test = test->next) units[n++] = test->unit;
    if (n == 0 || n == TESTS_MAX) return 1;
    return _cmocka_run_group_tests("tests", units, n, setup, teardown);
}

/* Starts one in a process that prints into `out`. */
static pid_t start_apart(const est_test *test, FILE *out, CMFixtureFunction setup, CMFixtureFunction teardown)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(fileno(out), STDOUT_FILENO) < 0 || dup2(fileno(out), STDERR_FILENO) < 0) _exit(1);
    exit(_cmocka_run_group_tests("tests", &test->unit, 1, setup, teardown) != 0);
}

/* Prints what it printed; whether it failed. */
static bool end_apart(const char *name, FILE *out, int status)
{
    char   bytes[4096];
    size_t n;

    rewind(out);
    while ((n = fread(bytes, 1, sizeof bytes, out)) > 0) fwrite(bytes, 1, n, stdout);
    fclose(out);
    if (WIFSIGNALED(status)) printf("[  FAILED  ] %s: signal %d\n", name, WTERMSIG(status));
    fflush(stdout);
    return status != 0;
}

int est_test_run_apart(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    struct {
        const est_test *test;
        FILE           *out;
        pid_t           pid;
    } running[AT_ONCE];
    const est_test *next = first;
    int             n = 0, n_failed = 0, status;

    if (first == NULL) return 1;
    keep_state();
    while (n > 0 || next != NULL) {
        pid_t ended;

        for (; n < AT_ONCE && next != NULL; next = next->next, n++) {
            running[n].test = next;
            running[n].out  = tmpfile();
            if (running[n].out == NULL) return 1;
            running[n].pid = start_apart(next, running[n].out, setup, teardown);
            if (running[n].pid < 0) return 1;
        }
        ended = wait(&status);
        for (int i = 0; i < n; i++) {
            if (running[i].pid != ended) continue;
            n_failed += end_apart(running[i].test->unit.name, running[i].out, status);
            running[i] = running[--n];
        }
    }
    return n_failed;
}
