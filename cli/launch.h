/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `estoc launch`: the cluster (launch.c), its processes (launch_run.c), their output (launch_output.c),
 * and the process that cleans up after a killed launcher (launch_keeper.c).
 *
 * Threading: one thread at a time. */
#ifndef EST_CLI_LAUNCH_H
#define EST_CLI_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/strbuf.h"
#include "command.h"

#define LAUNCH_LAST_LINES 10
#define LAUNCH_ALWAYS     INT64_MAX /* restarts without end */

/* --- what tasks write --------------------------------------------------------------------------------------------- */

/* Where the lines of a task go. A zeroed struct has written nothing. */
typedef struct launch_output {
    char       prefix[48]; /* "worker:1 | " */
    int        colour;     /* of the prefix, on a terminal; 0: none */
    bool       to_stderr;  /* all of it, since standard output is for JSON */
    est_strbuf line[2];    /* of standard output and of standard error, as far as it has come */
    est_strbuf last[LAUNCH_LAST_LINES];
    int64_t    n_lines; /* line i is last[i % LAUNCH_LAST_LINES] */
    int        log;     /* file of --log-dir; -1: none */
    char      *log_path;
} launch_output;

/* Opens the log `dir`/`name`.log; dir NULL: none. */
EST_MUST_CHECK est_status launch_output_open(launch_output *output, const char *dir, const char *name);

/* Bytes that came from a task's standard output (stream 0) or standard error (1). Complete lines are printed, each
 * with the prefix before it. */
void launch_output_put(launch_output *output, int stream, const char *bytes, size_t size);

/* The process has ended: half a line is printed as one. */
void launch_output_end(launch_output *output);

/* Appends its last lines, indented. */
void launch_output_append_last(const launch_output *output, est_strbuf *out);
void launch_output_close(launch_output *output);

/* --- tasks -------------------------------------------------------------------------------------------------------- */

typedef struct launch launch;

typedef struct launch_task {
    launch       *owner;
    const char   *type; /* "chief", "worker", "ps", "evaluator" */
    int           index;
    char          name[32]; /* "worker:1" */
    bool          trains;   /* chief or worker: it ends by itself */
    int           port;     /* 0: none, it is not in the cluster */
    int           socket;   /* holds the port; -1: none */
    launch_output output;

    uv_process_t process;
    uv_pipe_t    pipes[2];  /* its standard output and standard error */
    uv_timer_t   timer;     /* until it is started again; or until its pipes are given up */
    int          n_handles; /* of those above but the timer, not yet closed */
    bool         is_running, is_done;
    bool         was_stopped;            /* stopped because another failed */
    int          exit_code, exit_signal; /* of its last run */
    int64_t      n_restarts, started_ns, ran_ns;
} launch_task;

struct launch {
    /* what was asked for */
    int64_t     n_ps, n_workers;
    bool        no_chief, has_evaluator;
    int64_t     restarts_max, grace_secs, port_base; /* port_base 0: any free ones */
    const char *transport;                           /* "tls", "tcp", "ucx" */
    const char *log_dir;                             /* NULL: none */
    bool        dry_run, json;
    char      **argv; /* the program and its arguments, ending in NULL */

    /* what was made of it */
    char         job[32];
    launch_task *tasks; /* [n_tasks] */
    int          n_tasks;

    /* while it runs */
    uv_loop_t    loop;
    uv_signal_t  signals[3];
    uv_timer_t   grace;
    int          keeper_fd;
    int          n_live; /* tasks that are not done */
    bool         is_stopping, is_interrupted;
    launch_task *failed; /* the first; NULL: none */
};

/* The variables that a task gets. What is inherited under these names is not passed on. */
enum { LAUNCH_TF_CONFIG, LAUNCH_JOB, LAUNCH_PROTOCOL, LAUNCH_VARIABLES };
extern const char *const launch_variable_names[LAUNCH_VARIABLES];

/* The value of a task's variable. `is_pretty` breaks TF_CONFIG into lines. */
void launch_append_variable(const launch_task *task, int variable, bool is_pretty, est_strbuf *out);

/* How its last run ended: "ended with exit code 3", "was killed by SIGKILL". */
void launch_append_end(const launch_task *task, est_strbuf *out);

/* Starts the tasks and stays until all have ended. EST_OK also when tasks failed: launch.failed is the first then. */
EST_MUST_CHECK est_status launch_run(launch *l);

/* --- the keeper --------------------------------------------------------------------------------------------------- */

/* A process that outlives the launcher, however that ends: it kills what is left of the tasks. It learns of a process
 * group from a line with its number in the file *fd, and that it is over from one with a minus. All is done when the
 * last copy of *fd is closed. */
EST_MUST_CHECK est_status launch_keeper_start(int *fd, pid_t *keeper);
void                      launch_keeper_forget(int fd, pid_t group);

/* Closes fd and waits until the keeper is through. */
void launch_keeper_end(int fd, pid_t keeper);

#endif
