/* SPDX-License-Identifier: Apache-2.0
 *
 * The job of a coordinator that tests disturb: epochs of calls, an exact evaluation and a checkpoint after each. Every
 * call adds 1 to its own row of one table at each ps task, so that the tables show which calls were applied, and how
 * often. */
#ifndef EST_TESTS_COORDINATOR_JOB_H
#define EST_TESTS_COORDINATOR_JOB_H

#include "support/cluster_test.h"

#define COORDINATOR_PS     2
#define COORDINATOR_EPOCHS 10
#define COORDINATOR_CALLS  400 /* of an epoch */

/* The word for cluster.args that selects coordinator_job_task. */
#define COORDINATOR_WORD "coordinator"

/* A task of the job, for cluster_task_main: the coordinator if TF_CONFIG says chief, else a server. SIGUSR1 breaks all
 * its connections, cluster_cut_one those to one task. */
int coordinator_job_task(int argc, char **argv);

/* Asserts by the last checkpoint that the job has come to its end, that no call was applied twice, and that every call
 * was applied to the table of each ps task that was started once. Returns how many of the calls the tables of the
 * others lack. */
int coordinator_check_job(cluster *c);

#endif
