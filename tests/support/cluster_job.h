/* SPDX-License-Identifier: Apache-2.0
 *
 * The job that tests of clusters disturb: train_and_evaluate with the model of estimator_test.h, or that of
 * dynamic_test.h. A test starts its tasks with words like "steps=300" (cluster.args), each of which sets one field. */
#ifndef EST_TESTS_CLUSTER_JOB_H
#define EST_TESTS_CLUSTER_JOB_H

#include <stdint.h>

#include "support/cluster_test.h"

typedef struct cluster_job {
    int64_t steps;        /* max_steps; 0: none */
    int64_t count;        /* not 0: est_train with so many steps, in place of max_steps */
    int64_t save;         /* steps between checkpoints; 0: 50 */
    int64_t passes;       /* over the input, times the number of the task plus 1; 0: forever */
    int64_t seed;         /* 0: 11 */
    int64_t pause_us;     /* each step takes at least so long */
    int64_t sync;         /* sync_replicas */
    int64_t consistent;   /* not 0: consistent_checkpoints */
    int64_t mirrored;     /* not 0: multi_worker_mirrored, with so many replicas in each worker */
    int64_t elastic;      /* not 0: without workers that do not return */
    int64_t multi_worker; /* not 0: workers evaluate together */
    int64_t dynamic;      /* not 0: dynamic embeddings, whose keys wait for admission, age, and are evicted */
    int64_t ring;         /* not 0: their sums go round a ring */
    int64_t nccl;         /* not 0: or between GPUs, of which there are none */
    int64_t pack;         /* bytes_per_pack */
    int64_t log;          /* log_step_count_steps; 0: 100 */
    int64_t die;          /* when a task kills itself, once in the job; 0: never */
    int64_t die_task;     /* which of those that train */
    int64_t die_step;     /* at or after which step; of CLUSTER_DIE_EVALUATION: batch */
    int64_t die_signal;   /* that it sends itself; 0: SIGKILL */
    int64_t export_ms;    /* not 0: evaluations are followed by an export, which takes at least so long */
    int64_t stop_step;    /* not 0: the task that leads asks to stop at or after this step */
    int64_t lacks;        /* one more than the number of the task whose input is not found */
    int64_t enough; /* not 0: as stop_step, but not before the test has said that it has seen enough (cluster_enough) */
    int64_t
        hold_task; /* of those that train, which does nothing after hold_step before the test has said so; -1: all */
    int64_t hold_step; /* 0: none does */
    int64_t shards;    /* not 0: the first worker has 1 example, the second none, the third so many, any other 8 */
    int64_t device;    /* not 0: tasks have a far device, and say where things run */
    int64_t cut;       /* not 0: batches of one row are cut for all workers; the first has 1 row, the others so many */
    double  rate;      /* not 0: SGD with this learning rate, in place of Adam */
    double  silence;   /* peer_silence_secs */
    double  return_in; /* rejoin_secs of multi_worker_mirrored */
    double  timeout;   /* session_creation_timeout_secs */
} cluster_job;

/* Moments to die. */
enum {
    CLUSTER_DIE_BEGIN = 1, /* before there are variables */
    CLUSTER_DIE_BEFORE_RUN,
    CLUSTER_DIE_AFTER_RUN,
    CLUSTER_DIE_BEFORE_SAVE, /* of the chief, as the next */
    CLUSTER_DIE_AFTER_SAVE,
    CLUSTER_DIE_END, /* after the last step, before that is saved */
    CLUSTER_DIE_EVALUATION,
    CLUSTER_DIE_EXPORT
};

#define CLUSTER_HOLDS   "holds step "   /* what a task with hold_step says when it has made that step */
#define CLUSTER_EXPORTS "exports step " /* what a task with export_ms says when it begins to */

/* The process that has killed itself, or sent itself die_signal; 0: none has yet. */
pid_t cluster_died(const cluster *c);

/* Lets a job with `enough` end, and one with `hold_step` go on. */
void cluster_enough(const cluster *c);

/* Breaks all connections of this process, wherever they are in a message; a signal handler. */
void cluster_cut_links(int number);

/* Breaks the connections that a task has made to another one; the task has called cluster_take_cuts. */
void cluster_take_cuts(void);
void cluster_cut_one(const cluster_task *task, const cluster_task *to);

/* A task, for cluster_task_main: argv is the model directory and the words. The exit code is that of
 * est_exit_code. SIGUSR1 breaks all its connections. */
int cluster_job_task(int argc, char **argv);

/* The loss, in evaluation, of a checkpoint or an export; NULL: of the latest checkpoint. *step (may be NULL): of its
 * variables. */
double cluster_job_loss(const cluster *c, const char *checkpoint, bool dynamic, long *step);

/* Asserts that all exports of a job with export_ms are whole: each has the values of a step that a task evaluated, and
 * the latest those of `last`; that no checkpoint vanished before it was exported; and that nothing is left of exports
 * that were not finished, nor of pinned checkpoints. Returns how many there are. */
int cluster_check_exports(const cluster *c, long last);

#endif
