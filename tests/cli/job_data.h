/* SPDX-License-Identifier: Apache-2.0
 *
 * Small data with a planted rule for the tests that run job files, and the processes that run them. */
#ifndef EST_TESTS_CLI_JOB_DATA_H
#define EST_TESTS_CLI_JOB_DATA_H

#include <math.h>

#include "cli/job_file.h"

#define N_ROWS 2000

/* Rich is who is over 40 and a smith or baker, or under 40 and a cook: no single column tells. */
static inline void write_rows(const char *name, uint32_t seed, const char *end)
{
    static const char *const trades[] = { "cook", "smith", "baker" };
    static const char *const cities[] = { "Bern", "Basel", "Chur", "none" };
    est_strbuf               text     = { 0 };
    uint32_t                 x        = seed;

    est_strbuf_append(&text, "age,trade,city,hours,rich\n");
    for (int i = 0; i < N_ROWS; i++) {
        int age, trade;

        x     = x * 1664525u + 1013904223u;
        age   = 16 + (int)(x >> 8) % 50;
        trade = (int)(x >> 16) % 3;
        est_strbuf_printf(&text, "%d,%s,%s,", age, trades[trade], cities[(x >> 24) % 4]);
        if ((x >> 27) % 4 != 0) est_strbuf_printf(&text, "%d", 20 + (int)(x >> 10) % 40);
        est_strbuf_printf(&text, ",%s%s\n", (age >= 40) == (trade != 0) ? "yes" : "no", end);
    }
    tool_write_text(name, est_strbuf_text(&text));
    est_strbuf_clear(&text);
}

static inline int make_files(void **state)
{
    if (enter_dir(state) != 0) return 1;
    setenv("ESTOC_LOG", "info", 1);
    write_rows("train.csv", 1, "");
    write_rows("eval.csv", 2, ".");
    return 0;
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

/* Starts the tool in the background, with a file or descriptor as its standard input. */
static inline pid_t start(const char *const *argv, int in)
{
    int   out = tool_open_new("out"), err = tool_open_new("err");
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        if (in >= 0) dup2(in, STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        tool_exec(argv);
    }
    close(out);
    close(err);
    return child;
}

static inline tool_run finish(pid_t child, int expected)
{
    tool_run run = { 0 };
    int      status;

    assert_int_equal(waitpid(child, &status, 0), child);
    run.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    run.out  = tool_read_file("out", &run.out_size);
    run.err  = tool_read_file("err", NULL);
    if (run.code != expected) fail_msg("exit code %d, not %d: %s", run.code, expected, run.err);
    return run;
}

static inline tool_run ask(int expected, const char *rows, const char *const *argv)
{
    const char *path = put("rows", rows);
    int         in   = open(path, O_RDONLY | O_CLOEXEC);
    tool_run    run  = finish(start(argv, in), expected);

    close(in);
    return run;
}

#define DIR(name) "--set", "run.model_dir=" name

static inline double metric(const est_json *metrics, const char *name)
{
    double value = (double)NAN;

    tool_check(est_json_f64(metrics, &value, "%s", name));
    return value;
}

#endif
