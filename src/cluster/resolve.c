/* SPDX-License-Identifier: Apache-2.0
 *
 * From a cluster, a type and an index to a task, by the rules of TensorFlow's RunConfig:
 *
 *   no cluster    a program on its own is worker 0 and chief
 *   chief         one address; its job may have the old name "master", which then stands for it everywhere
 *   no chief      only where a strategy allows it: then worker 0 is chief
 *   evaluator     is not part of the cluster, whether it is listed there or not
 *   client        no task at all: it drives the others, as a program with a coordinator does
 *
 * and the simple resolver, which applies only these rules. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "cluster/cluster.h"

struct est_resolver {
    est_arena   *arena;
    est_cluster *cluster;
    est_cluster *watched; /* of an evaluator; NULL: this is none */
    est_task     task;
    const char  *described; /* "": nothing is logged */
};

/* --- the parts of the rules --------------------------------------------------------------------------------------- */

typedef struct decision {
    est_resolver         *resolver;
    const est_task_given *given;
    bool                  no_chief_ok;
    const char           *chief; /* the job that plays the chief: "chief", "master", or "worker" by its first task */
} decision;

static const char *what(const decision *d)
{
    return d->given->source.what;
}

static bool same(const char *a, const char *b)
{
    return a != NULL && strcmp(a, b) == 0;
}

/* The text in quotes, with unprintable characters escaped. */
static void append_quoted(est_strbuf *out, const char *text)
{
    est_strbuf_append_json(out, text, strnlen(text, EST_VALUE_TEXT_MAX));
}

/* Tasks that have an address. */
static int tasks_present(const est_cluster *cluster, const char *job)
{
    int n = 0;

    for (int i = 0; i < est_cluster_tasks(cluster, job); i++) n += est_cluster_address(cluster, job, i) != NULL;
    return n;
}

/* Finds the job that plays the chief. */
static est_status find_chief(decision *d)
{
    const est_cluster *cluster = d->resolver->cluster;
    const char        *prefix  = d->given->source.prefix;
    bool               old     = est_cluster_find(cluster, "master") != NULL;
    int                n;

    d->chief = old ? "master" : "chief";
    if (old && est_cluster_find(cluster, "chief") != NULL) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s: the cluster has a job \"master\" and a job \"chief\"; keep \"chief\", of which \"master\" "
                        "is the old name",
                        what(d));
    }
    if (est_cluster_find(cluster, d->chief) == NULL) {
        if (d->no_chief_ok && same(d->given->type, "evaluator")) return EST_OK; /* an evaluator needs no chief */
        if (d->no_chief_ok && est_cluster_tasks(cluster, "worker") > 0) {
            d->chief = "worker";
            return EST_OK;
        }
        if (est_cluster_tasks(cluster, "worker") > 0 && est_cluster_tasks(cluster, "ps") == 0) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "%s: no strategy for workers without \"ps\" tasks; set train_distribute to an "
                            "est_multi_worker_mirrored_strategy (in a job file run.strategy to multi_worker_mirrored), "
                            "or add \"chief\": [\"host:port\"] and \"ps\" tasks",
                            what(d));
        }
        return est_fail(EST_INVALID_ARGUMENT, "%s: the cluster has no job \"chief\"%s; add \"chief\": [\"host:port\"]",
                        what(d), d->no_chief_ok ? " and no \"worker\" that could be it" : "");
    }
    n = est_cluster_tasks(cluster, d->chief);
    if (n == 1) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%s: %s%s has %d addresses; write exactly one%s", what(d), prefix, d->chief,
                    n, n > 1 ? " and list the others as \"worker\"" : "");
}

/* "chief, ps, worker or evaluator": what task.type may be. */
static void append_types(const decision *d, est_strbuf *out)
{
    const est_cluster *cluster   = d->resolver->cluster;
    bool               evaluator = !same(d->chief, "master");

    for (int j = 0; j < est_cluster_jobs(cluster); j++) {
        const char *job = est_cluster_job(cluster, j);

        if (same(job, "evaluator")) continue;
        est_strbuf_printf(out, "%s\"%s\"", out->size > 0 ? ", " : "", job);
    }
    if (evaluator) est_strbuf_printf(out, "%s\"evaluator\"", out->size > 0 ? " or " : "");
}

static est_status check_type(const decision *d)
{
    const est_task_given *given = d->given;
    est_strbuf            types = { 0 }, type = { 0 };
    est_status            status;

    if (same(given->type, "evaluator") && !same(d->chief, "master")) return EST_OK;
    if (given->type != NULL && !same(given->type, "evaluator") &&
        est_cluster_find(d->resolver->cluster, given->type) != NULL) {
        return EST_OK;
    }
    append_types(d, &types);
    if (given->type == NULL) {
        status = est_fail(EST_INVALID_ARGUMENT, "%s: %stype is missing; write which task this is: %s", what(d),
                          given->prefix, est_strbuf_text(&types));
    } else {
        append_quoted(&type, given->type);
        status = est_fail(EST_INVALID_ARGUMENT, "%s: %stype is %s; write %s%s", what(d), given->prefix,
                          est_strbuf_text(&type), est_strbuf_text(&types),
                          same(given->type, "evaluator") ? ": a cluster with a \"master\" has no evaluator" : "");
    }
    est_strbuf_clear(&types);
    est_strbuf_clear(&type);
    return status;
}

/* The index must be below n; n 0: any. */
static est_status check_index(const decision *d, int n)
{
    const est_task_given *given      = d->given;
    char                  range[128] = "0";
    bool                  good       = given->index_text != NULL && given->index >= 0;

    if (good && given->index < (n > 0 ? n : INT32_MAX)) return EST_OK;
    if (n > 1) snprintf(range, sizeof range, "a number from 0 to %d: there are %d of %.64s", n - 1, n, given->type);
    return est_fail(EST_INVALID_ARGUMENT, "%s: %sindex is %s; write %s", what(d), given->prefix,
                    given->index_text != NULL ? given->index_text : "missing", range);
}

/* The task's number among all: the chief's job first, then the others by name, ps last. */
static int global_id(const decision *d)
{
    const est_cluster *cluster = d->resolver->cluster;
    const char        *type    = d->given->type;
    int                id      = (int)d->given->index;

    if (same(type, d->chief)) return id;
    id += est_cluster_tasks(cluster, d->chief);
    for (int j = 0; j < est_cluster_jobs(cluster); j++) {
        const char *job = est_cluster_job(cluster, j);

        if (same(job, d->chief) || same(job, "ps")) continue;
        if (same(job, type)) return id;
        id += est_cluster_tasks(cluster, job);
    }
    return id;
}

/* --- the kinds of task -------------------------------------------------------------------------------------------- */

static est_status keep(est_resolver *resolver, const char *text, const char **out)
{
    *out = est_arena_strdup(resolver->arena, text != NULL ? text : "");
    return *out != NULL ? EST_OK : est_no_memory();
}

/* A program on its own. */
static est_status resolve_alone(decision *d)
{
    const est_task_given *given = d->given;
    est_task             *task  = &d->resolver->task;

    if (given->type != NULL && !same(given->type, "worker")) {
        est_strbuf type = { 0 };
        est_status status;

        append_quoted(&type, given->type);
        status = est_fail(
            EST_INVALID_ARGUMENT,
            "%s: %stype is %s and there is no cluster; write \"worker\" or leave it out, or list the tasks "
            "in \"cluster\"",
            what(d), given->prefix, est_strbuf_text(&type));
        est_strbuf_clear(&type);
        return status;
    }
    if (given->index_text != NULL && given->index != 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s: %sindex is %s and there is no cluster; write 0 or leave it out, or list the tasks in "
                        "\"cluster\"",
                        what(d), given->prefix, given->index_text);
    }
    task->is_chief            = true;
    task->num_worker_replicas = 1;
    EST_TRY(keep(d->resolver, "worker", &task->type));
    EST_TRY(keep(d->resolver, given->session_master, &task->master));
    return keep(d->resolver, given->eval_session_master, &task->evaluation_master);
}

/* An evaluator is not part of the cluster. */
static est_status resolve_evaluator(decision *d)
{
    const est_task_given *given = d->given;
    est_task             *task  = &d->resolver->task;

    EST_TRY(check_index(d, 0));
    d->resolver->watched = d->resolver->cluster;
    d->resolver->cluster = NULL;
    EST_TRY(est_cluster_copy(NULL, &d->resolver->cluster));
    task->index     = (int)given->index;
    task->global_id = -1;
    EST_TRY(keep(d->resolver, "evaluator", &task->type));
    EST_TRY(keep(d->resolver, "", &task->master));
    return keep(d->resolver, given->eval_session_master, &task->evaluation_master);
}

static est_status find_master(decision *d)
{
    const est_task_given *given   = d->given;
    est_resolver         *r       = d->resolver;
    const char           *address = est_cluster_address(r->cluster, given->type, (int)given->index);

    if (address == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: %s%s has no address for index %s; add it, or write another %sindex",
                        what(d), given->source.prefix, given->type, given->index_text, given->prefix);
    }
    if (given->session_master != NULL) return keep(r, given->session_master, &r->task.master);
    if (est_cluster_jobs(r->cluster) == 1 && est_cluster_tasks(r->cluster, given->type) == 1) {
        return keep(r, "", &r->task.master); /* a single task has no session elsewhere */
    }
    r->task.master = est_arena_printf(r->arena, "grpc://%s", address);
    return r->task.master != NULL ? EST_OK : est_no_memory();
}

static void count_replicas(decision *d)
{
    const est_cluster *cluster = d->resolver->cluster;
    est_task          *task    = &d->resolver->task;

    task->num_ps_replicas     = tasks_present(cluster, "ps");
    task->num_worker_replicas = tasks_present(cluster, "worker");
    if (!same(d->chief, "worker")) task->num_worker_replicas += tasks_present(cluster, d->chief);
}

/* A client is no task, and leads: the tasks need no chief. */
static est_status resolve_client(decision *d)
{
    est_task *task = &d->resolver->task;

    d->chief        = est_cluster_find(d->resolver->cluster, "master") != NULL ? "master" : "chief";
    task->is_chief  = true;
    task->global_id = -1;
    count_replicas(d);
    EST_TRY(keep(d->resolver, "", &task->master));
    return keep(d->resolver, "", &task->evaluation_master);
}

static est_status resolve_member(decision *d)
{
    const est_task_given *given   = d->given;
    est_task             *task    = &d->resolver->task;
    const est_cluster    *cluster = d->resolver->cluster;

    EST_TRY(find_chief(d));
    EST_TRY(check_type(d));
    if (same(given->type, "evaluator")) return resolve_evaluator(d);
    if (est_cluster_tasks(cluster, given->type) == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: %s%s has no address; add one, or write another %stype", what(d),
                        given->source.prefix, given->type, given->prefix);
    }
    EST_TRY(check_index(d, est_cluster_tasks(cluster, given->type)));
    EST_TRY(find_master(d));
    task->index     = (int)given->index;
    task->is_chief  = same(given->type, d->chief) && given->index == 0;
    task->global_id = global_id(d);
    count_replicas(d);
    EST_TRY(keep(d->resolver, given->type, &task->type));
    return keep(d->resolver, "", &task->evaluation_master);
}

static est_status resolve(decision *d)
{
    est_task *task = &d->resolver->task;

    EST_TRY(keep(d->resolver, d->given->described, &d->resolver->described));
    EST_TRY(keep(d->resolver, d->given->environment, &task->environment));
    if (d->given->model_dir != NULL) EST_TRY(keep(d->resolver, d->given->model_dir, &task->model_dir));
    if (d->given->service != NULL) EST_TRY(keep(d->resolver, d->given->service, &task->service));
    if (est_cluster_jobs(d->resolver->cluster) > 0 && d->given->is_client) {
        EST_TRY(resolve_client(d));
    } else if (est_cluster_jobs(d->resolver->cluster) > 0) {
        EST_TRY(resolve_member(d));
    } else if (d->no_chief_ok && same(d->given->type, "evaluator")) {
        EST_TRY(resolve_evaluator(d));
    } else {
        EST_TRY(resolve_alone(d));
    }
    task->cluster = d->resolver->cluster;
    return EST_OK;
}

/* --- resolvers ---------------------------------------------------------------------------------------------------- */

est_status est_resolver_make(est_cluster *cluster, const est_task_given *given, const est_task_rules *rules,
                             est_resolver **out)
{
    decision       d = { .given = given };
    est_task_rules known;
    est_status     status;

    status = est_options_take(EST_STRUCT_SIZE(est_task_rules), rules, &known);
    if (status == EST_OK) d.resolver = est_zalloc(sizeof *d.resolver);
    if (status == EST_OK && d.resolver == NULL) status = est_no_memory();
    if (status != EST_OK) {
        est_cluster_free(cluster);
        return status;
    }
    d.no_chief_ok       = known.no_chief_ok;
    d.resolver->cluster = cluster;
    d.resolver->arena   = est_arena_create();
    status              = d.resolver->arena != NULL ? resolve(&d) : est_no_memory();
    if (status != EST_OK) {
        est_resolver_free(d.resolver);
        return status;
    }
    *out = d.resolver;
    return EST_OK;
}

est_status est_resolve_simple(const est_cluster *cluster, const char *type, int index, const est_task_rules *rules,
                              est_resolver **out)
{
    est_task_given given = {
        .source = { "cluster", "" }, .prefix = "", .type = type, .index = index, .is_client = type == NULL
    };
    char         text[16];
    est_cluster *copy;

    EST_REQUIRE(out);
    snprintf(text, sizeof text, "%d", index);
    given.index_text = text;
    EST_TRY(est_cluster_copy(cluster, &copy));
    return est_resolver_make(copy, &given, rules, out);
}

static est_status copy_task(const est_task *from, est_resolver *to)
{
    est_task *task = &to->task;

    *task = *from;
    EST_TRY(est_cluster_copy(from->cluster, &to->cluster));
    task->cluster = to->cluster;
    if (from->type != NULL) EST_TRY(keep(to, from->type, &task->type));
    EST_TRY(keep(to, from->master, &task->master));
    EST_TRY(keep(to, from->evaluation_master, &task->evaluation_master));
    EST_TRY(keep(to, from->environment, &task->environment));
    if (from->model_dir != NULL) EST_TRY(keep(to, from->model_dir, &task->model_dir));
    if (from->service != NULL) EST_TRY(keep(to, from->service, &task->service));
    return EST_OK;
}

est_status est_resolver_copy(const est_resolver *resolver, est_resolver **out)
{
    est_resolver *copy = est_zalloc(sizeof *copy);
    est_status    status;

    if (copy == NULL) return est_no_memory();
    copy->arena = est_arena_create();
    status      = copy->arena != NULL ? copy_task(&resolver->task, copy) : est_no_memory();
    if (status == EST_OK) status = keep(copy, resolver->described, &copy->described);
    if (status == EST_OK && resolver->watched != NULL) status = est_cluster_copy(resolver->watched, &copy->watched);
    if (status != EST_OK) {
        est_resolver_free(copy);
        return status;
    }
    *out = copy;
    return EST_OK;
}

const est_task *est_resolver_task(const est_resolver *resolver)
{
    return resolver != NULL ? &resolver->task : NULL;
}

const est_cluster *est_resolver_watched(const est_resolver *resolver)
{
    return resolver->watched;
}

void est_resolver_log(const est_resolver *resolver)
{
    if (resolver->described[0] != '\0') est_log_info("%s", resolver->described);
}

void est_resolver_free(est_resolver *resolver)
{
    if (resolver == NULL) return;
    est_cluster_free(resolver->watched);
    est_cluster_free(resolver->cluster);
    est_arena_free(resolver->arena);
    est_free(resolver);
}
