/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the resolvers: clusters with errors that name the offending field, and the rules that turn a cluster, a
 * type and an index into an est_task. The words of this folder are in cluster/server.h.
 *
 * Threading: as estoc/cluster.h. */
#ifndef EST_CLUSTER_CLUSTER_H
#define EST_CLUSTER_CLUSTER_H

#include "base/json.h"
#include "base/strbuf.h"
#include "estoc/cluster.h"

#define EST_TASKS_MAX      100000 /* of a cluster, gaps included: a huge index must not allocate all memory */
#define EST_VALUE_TEXT_MAX 80     /* bytes of an offending value that an error shows */

/* Where a description comes from, for errors: "TF_CONFIG" and "cluster." make "TF_CONFIG: cluster.worker[1] is ...". */
typedef struct est_cluster_source {
    const char *what;   /* "TF_CONFIG" */
    const char *prefix; /* before the name of a job: "cluster." or "" */
} est_cluster_source;

/* est_cluster_create, and the same from a JSON object. */
EST_MUST_CHECK est_status est_cluster_make(est_cluster_source source, est_jobs jobs, est_cluster **out);
EST_MUST_CHECK est_status est_cluster_from_json(est_cluster_source source, const est_json *value, est_cluster **out);

EST_MUST_CHECK est_status est_cluster_copy(const est_cluster *cluster, est_cluster **out); /* NULL is an empty one */

/* The job of that name; NULL: none. Borrowed until the cluster is freed. */
const est_job *est_cluster_find(const est_cluster *cluster, const char *name);

/* A task that differs between two clusters. */
typedef struct est_cluster_difference {
    const char *job;
    int         index;
    const char *first, *second; /* the addresses; NULL: none */
} est_cluster_difference;

/* Finds one; false: there is none. Ignores evaluators, the two tasks `but` ("worker:1") and gaps of a list. `are_one`
 * (NULL: no) tells whether two different texts are the same address. *out borrows from the clusters. */
bool est_cluster_differ(const est_cluster *first, const est_cluster *second, const char *const but[2],
                        bool (*are_one)(void *user, const char *first, const char *second), void *user,
                        est_cluster_difference *out);

/* Whether all tasks, of which there are some, listen at the loopback interface: they are on one machine. */
bool est_cluster_is_local(const est_cluster *cluster);

/* Appends the cluster as JSON that est_cluster_parse reads as the same. */
void est_cluster_text(const est_cluster *cluster, est_strbuf *out);

/* Appends a JSON value as one line; at most `max` bytes of it, then "...". 0: all. */
void est_json_text(const est_json *value, size_t max, est_strbuf *out);

/* Fails: "<what>: <field> is <value>; <advice>". */
EST_MUST_CHECK est_status est_json_wrong(const char *what, const char *field, const est_json *value,
                                         const char *advice);

/* --- resolvers ---------------------------------------------------------------------------------------------------- */

/* The findings of a resolver. All strings are copied. */
typedef struct est_task_given {
    est_cluster_source source;
    const char        *prefix;     /* before "type" and "index" in errors: "task." or "" */
    const char        *type;       /* NULL: not given */
    bool               is_client;  /* a cluster without a type is no error: the process is no task */
    const char        *index_text; /* as it was written, for errors; NULL: not given */
    int64_t            index;      /* -1 when the text is not a number */
    const char        *session_master, *eval_session_master, *model_dir, *environment; /* NULL: not given */
    const char        *service;                                                        /* JSON; NULL: not given */
    const char        *described; /* the line that the log has for it; NULL, "": none */
} est_task_given;

/* Decides which task of `cluster` (taken, also on failure) this process is. */
EST_MUST_CHECK est_status est_resolver_make(est_cluster *cluster, const est_task_given *given,
                                            const est_task_rules *rules, est_resolver **out);

/* A copy with the same task. */
EST_MUST_CHECK est_status est_resolver_copy(const est_resolver *resolver, est_resolver **out);

/* The cluster of the job of an evaluator, whose own task has none; NULL: this is no evaluator. Borrowed. */
const est_cluster *est_resolver_watched(const est_resolver *resolver);

/* est_resolve_tf_config, with `what` as the name of the text in errors. */
EST_MUST_CHECK est_status est_resolve_text(const char *json, const char *what, const est_task_rules *rules,
                                           est_resolver **out);

/* est_resolve_tf_config without log messages, for a strategy: the RunConfig that takes its task calls
 * est_resolver_log. */
EST_MUST_CHECK est_status est_resolve_quietly(const char *json, const est_task_rules *rules, est_resolver **out);
void                      est_resolver_log(const est_resolver *resolver);

#endif
