/* SPDX-License-Identifier: Apache-2.0
 *
 * An estimator as a task of a cluster with parameter servers: a ps task serves until the job ends; chief and workers train with
 * the variables that ps tasks have. */
#ifndef EST_ESTIMATOR_CLUSTER_TASK_H
#define EST_ESTIMATOR_CLUSTER_TASK_H

#include "base/strbuf.h"
#include "cluster/remote_tasks.h"
#include "estimator/estimator.h"

/* A training task's server and the ps tasks as its sessions see them. Zeroed: none. */
typedef struct est_cluster_task {
    est_estimator *estimator;
    int64_t        max_steps;
    double         start_secs; /* since 1970 */
    est_server    *server;
    est_remote    *remote;
} est_cluster_task;

/* Whether ps tasks keep the variables of a training by this estimator. */
bool est_has_ps(const est_estimator *estimator);

/* Starts the server alone, for a task of which estimator, max_steps and start_secs are set. */
EST_MUST_CHECK est_status est_cluster_task_serve(est_cluster_task *task);

/* Starts the server of a training task. */
EST_MUST_CHECK est_status est_cluster_task_open(est_estimator *estimator, int64_t max_steps, est_cluster_task *out);
void                      est_cluster_task_close(est_cluster_task *task);

/* Tells the tasks with variables the terms of the program (cluster/terms.h): max_steps, the variables that are trained, and how.
 * Before the first session. */
EST_MUST_CHECK est_status est_cluster_task_agree(const est_cluster_task *task, const est_graph *graph);

/* Appends the line of max_steps to terms. */
void est_terms_add_max_steps(est_strbuf *terms, int64_t max_steps);

/* For an evaluator: a server that is no task of the cluster and may look at it. */
EST_MUST_CHECK est_status est_cluster_watch_open(const est_estimator *estimator, est_server **out);

/* Workers begin one after the other, as TensorFlow's do: waits a while that depends on the task's number, less when the job ends
 * meanwhile. */
EST_MUST_CHECK est_status est_cluster_task_delay(const est_cluster_task *task);

/* Whether the job has ended without this task. */
bool est_cluster_task_is_over(const est_cluster_task *task);

/* Serves as a ps task until the job ends. */
EST_MUST_CHECK est_status est_estimator_serve(est_estimator *estimator, int64_t max_steps);

/* Whether all steps of the job are made and saved. */
bool est_job_is_over(est_estimator *estimator, int64_t max_steps);

#endif
