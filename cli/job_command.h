/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that take a job file share: options, reading the file and its errors, metrics as text.
 *
 * Threading: one thread at a time. */
#ifndef EST_CLI_JOB_COMMAND_H
#define EST_CLI_JOB_COMMAND_H

#include "command.h"
#include "job.h"

enum { JOB_OPTION_SET = 1000, JOB_OPTION_PRINT, JOB_OPTION_HELP, JOB_OPTION_CHECKPOINT };

/* The first lines of their tables of options. */
#define JOB_OPTIONS                                                                                                    \
    { "set", JOB_OPTION_SET, "KEY=VALUE",                                                                              \
      "set a key of the job, as run.model_dir=/tmp/x or\n"                                                             \
      "data.batch=64; null removes a key. May be repeated" },                                                          \
        { "print-config", JOB_OPTION_PRINT, NULL, "print the job with all its keys, and exit" },                       \
        { "help-job", JOB_OPTION_HELP, NULL, "print all keys of job files" },                                          \
    {                                                                                                                  \
        "quiet", 'q', NULL, "only warnings in the log, no progress line"                                               \
    }

#define JOB_CHECKPOINT_OPTION                                                                                          \
    {                                                                                                                  \
        "checkpoint", JOB_OPTION_CHECKPOINT, "FILE", "the checkpoint to use; default: the latest of run.model_dir"     \
    }

typedef struct job_call {
    const tool_command *command;
    bool                json, quiet, prints, describes;
    const char         *checkpoint; /* NULL: the latest */
    const char         *model;      /* the directory of a SavedModel in place of a job; NULL: a job */
    const char        **sets;       /* [n_sets] */
    int                 n_sets;
    est_arena          *arena;
    job_spec            job;
    job_runner          runner;
} job_call;

/* What a job must have for a command, whether signals end it in good order or at once, and where its rows come from. */
typedef enum job_needs {
    JOB_NEEDS_TRAIN     = 1,
    JOB_NEEDS_EVAL      = 2,
    JOB_NEEDS_MODEL_DIR = 4,
    JOB_CATCHES_SIGNALS = 8,
    JOB_READS_ROWS      = 16, /* from standard input */
    JOB_OR_MODEL        = 32  /* the argument may be the directory of a SavedModel, job_call.model then */
} job_needs;

/* Runs a command: reads its options and the job that the arguments name, makes the estimator and calls `work`.
 * `option` takes the options that the command has besides JOB_OPTIONS; NULL: it has none. `call` is zeroed, and may
 * be part of a larger struct. */
tool_exit job_call_run(job_call *call, const tool_command *command, int argc, char **argv, unsigned needs,
                       tool_exit (*option)(job_call *call, int id, const char *value),
                       tool_exit (*work)(job_call *call));

/* What a command returns when its work has failed; EST_CANCELLED is a signal that was caught. */
tool_exit job_call_failed(const job_call *call, est_status status);

/* The checkpoint to use, in `out`; EST_NOT_FOUND: nothing was trained yet. */
EST_MUST_CHECK est_status job_call_checkpoint(const job_call *call, char out[EST_CHECKPOINT_PATH_MAX]);

/* Metrics as a table, and as a JSON object. exact_auc: one more of that name; NaN: none. */
EST_MUST_CHECK est_status job_print_metrics(const est_metrics *metrics, double exact_auc);
void                      job_append_json_metrics(est_strbuf *out, const est_metrics *metrics, double exact_auc);

#endif
