/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters: the tasks of a job, and which of them this process is.
 *
 * The description comes from the environment variable TF_CONFIG, from a JSON text of the same form, from Slurm's
 * variables, or from the program itself; all fill the same est_cluster. A task is what RunConfig of TensorFlow calls
 * task_type and task_id.
 *
 * Threading: immutable; any thread. */
#ifndef ESTOC_CLUSTER_H
#define ESTOC_CLUSTER_H

#include <stdbool.h>

#include "estoc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- ClusterSpec -------------------------------------------------------------------------------------------------- */

/* The addresses ("host:port") of the tasks of every job ("chief", "worker", "ps", "evaluator", or any other name). */
typedef struct est_cluster est_cluster;

typedef struct est_job {
    const char *name;
    est_strings addresses;   /* [n]; NULL: there is no task of that index */
    uint64_t    reserved[2]; /* zeros: room for members to come */
} est_job;

/* A list of them: EST_JOBS({ "ps", EST_STRINGS("a:1") }, { "worker", EST_STRINGS("b:1", "c:1") }). */
typedef struct est_jobs {
    const est_job *data;
    int            n;
} est_jobs;

#define EST_JOBS(...) EST_SPAN(est_jobs, const est_job, __VA_ARGS__)

/* A cluster of these jobs, all copied. No job: an empty cluster. An address is "host:port" or "[IPv6]:port" with a
 * port from 1 to 65535, and no two tasks share one. Port 0 ("any free one") is refused: the other tasks could not
 * know it. */
EST_API EST_MUST_CHECK est_status est_cluster_create(est_jobs jobs, est_cluster **out);

/* From JSON: {"worker": ["a:1", "b:1"], "ps": {"0": "c:1"}}. `what` names the text in errors. */
EST_API EST_MUST_CHECK est_status est_cluster_parse(const char *json, const char *what, est_cluster **out);

EST_API void est_cluster_free(est_cluster *cluster); /* NULL is fine */

/* The jobs and tasks of a cluster. */
EST_API int         est_cluster_jobs(const est_cluster *cluster);
EST_API const char *est_cluster_job(const est_cluster *cluster, int i);             /* sorted by name; borrowed */
EST_API int         est_cluster_tasks(const est_cluster *cluster, const char *job); /* highest index + 1; 0: none */

/* The address of a task; NULL: none. Borrowed until the cluster is freed. */
EST_API const char *est_cluster_address(const est_cluster *cluster, const char *job, int index);

/* --- which task this process is ----------------------------------------------------------------------------------- */

typedef struct est_task {
    const est_cluster *cluster; /* empty for a single process, and for an evaluator */
    const char        *type;    /* "worker" for a single process; NULL: a client that is no task of the cluster */
    int                index;
    bool               is_chief;
    int                num_ps_replicas;
    int                num_worker_replicas; /* chief included */
    /* the chief first, then the other jobs by name, ps last; -1 for an evaluator and a client */
    int         global_id;
    const char *master; /* "" or where its session runs, as "grpc://host:port" */
    const char *evaluation_master;
    const char *model_dir;   /* from the description; NULL: not given */
    const char *environment; /* "" */
    const char *service;     /* from the description, as JSON; NULL: not given */
} est_task;

typedef struct est_task_rules {
    size_t struct_size; /* filled by EST_TASK_RULES */
    bool   no_chief_ok; /* a strategy without a chief job: worker 0 acts as chief; an evaluator needs no cluster */
} est_task_rules;

#define EST_TASK_RULES(...) (&(const est_task_rules){ .struct_size = EST_STRUCT_SIZE(est_task_rules), __VA_ARGS__ })

/* The result of a resolver: a task, and the memory that it points at. */
typedef struct est_resolver est_resolver;

/* From TF_CONFIG (json NULL: the environment variable; not set or empty: a program on its own). Every violation of
 * its rules is an error that names the field, shows its value and says what to write. `rules` may be NULL. */
EST_API EST_MUST_CHECK est_status est_resolve_tf_config(const char *json, const est_task_rules *rules,
                                                        est_resolver **out);

/* From the arguments: the cluster is copied; an empty or NULL one with type NULL is a single process. Type NULL with
 * tasks in the cluster is a client: it is none of them, and drives them (SimpleClusterResolver(cluster_spec) of the
 * program with a ClusterCoordinator); the index is ignored then. */
EST_API EST_MUST_CHECK est_status est_resolve_simple(const est_cluster *cluster, const char *type, int index,
                                                     const est_task_rules *rules, est_resolver **out);

typedef struct est_slurm_options {
    size_t   struct_size; /* filled by EST_SLURM */
    est_jobs jobs; /* names and counts, { "ps", { NULL, 2 } }; addresses are ignored. Empty: all tasks are "worker" */
    int      port_base; /* 0: 8888 */
} est_slurm_options;

#define EST_SLURM(...) (&(const est_slurm_options){ .struct_size = EST_STRUCT_SIZE(est_slurm_options), __VA_ARGS__ })

/* From Slurm's variables (SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE, SLURM_PROCID, ...). Tasks are numbered
 * host by host in the order of the node list and assigned to the jobs in the order given; ports count up from
 * port_base on every host. Options and rules may be NULL. */
EST_API EST_MUST_CHECK est_status est_resolve_slurm(const est_slurm_options *options, const est_task_rules *rules,
                                                    est_resolver **out);

/* The task, borrowed until the resolver is freed. */
EST_API const est_task *est_resolver_task(const est_resolver *resolver);
EST_API void            est_resolver_free(est_resolver *resolver); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
