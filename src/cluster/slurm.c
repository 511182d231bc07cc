/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters from the variables that Slurm sets for the tasks of a step:
 *
 *   SLURM_STEP_NODELIST        the hosts, "a[01-03,7],b2"
 *   SLURM_STEP_TASKS_PER_NODE  how many tasks each has, "2(x3),1"
 *   SLURM_STEP_NUM_TASKS       how many there are, if set
 *   SLURM_PROCID               which one this is
 *
 * Tasks are counted host by host in the order of the node list, which is how Slurm numbers them. TensorFlow sorts the
 * hosts by name first; with names like n2 and n10 a task then listens on one host while its peers call another. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/options.h"
#include "cluster/cluster.h"

#define PORT_BASE      8888
#define PORT_MAX       65535
#define HOST_MAX_BYTES 255
#define BRACKETS_MAX   4 /* of one entry: "rack[1-4]node[01-16]" */

typedef struct slurm_step {
    est_arena   *arena;
    const char **hosts;  /* [n_hosts] */
    int         *counts; /* [n_counts]: tasks of each host */
    int          n_hosts, max_hosts, n_counts, max_counts;
    int          n_tasks, rank;
} slurm_step;

static est_status too_many(const char *variable)
{
    return est_fail(EST_INVALID_ARGUMENT, "%s lists more than %d tasks; at most that many are supported", variable,
                    EST_TASKS_MAX);
}

static est_status get_variable(const char *name, const char **out)
{
    const char *text = getenv(name);

    if (text == NULL || text[0] == '\0') {
        return est_fail(EST_FAILED_PRECONDITION, "%s is not set; start the program as a task of a Slurm step (srun)",
                        name);
    }
    *out = text;
    return EST_OK;
}

/* Takes digits from *at on; -1 when there are none or more than nine. */
static int take_number(const char **at)
{
    size_t n = strspn(*at, "0123456789");
    int    value;

    if (n == 0 || n > 9) return -1;
    value = (int)strtol(*at, NULL, 10);
    *at += n;
    return value;
}

/* Makes room for one more element of `size` bytes; NULL: out of memory. */
static void *grow(void *data, int n, int *max, size_t size)
{
    void *more;

    if (n < *max) return data;
    more = est_realloc(data, (size_t)(2 * *max + 16) * size);
    if (more != NULL) *max = 2 * *max + 16;
    return more;
}

/* --- the node list ------------------------------------------------------------------------------------------------ */

static const char nodelist[] = "SLURM_STEP_NODELIST";

static est_status bad_nodelist(const char *found, const char *advice)
{
    return est_fail(EST_INVALID_ARGUMENT, "%s is not a list of hosts at \"%.80s\"; %s", nodelist, found, advice);
}

static est_status add_host(slurm_step *step, const char *name)
{
    const char **hosts = grow(step->hosts, step->n_hosts, &step->max_hosts, sizeof *hosts);

    if (hosts == NULL) return est_no_memory();
    step->hosts = hosts;
    if (step->n_hosts == EST_TASKS_MAX) return too_many(nodelist);
    hosts[step->n_hosts] = est_arena_strdup(step->arena, name);
    if (hosts[step->n_hosts] == NULL) return est_no_memory();
    step->n_hosts++;
    return EST_OK;
}

static est_status expand(slurm_step *step, const char *prefix, const char *at, int depth);

/* One range of a bracket, "3" or "01-16", from *at on, each number with what follows the bracket. */
static est_status expand_range(slurm_step *step, const char *prefix, const char **at, const char *rest, int depth)
{
    const char *start = *at;
    int         low = take_number(at), high = low, width = (int)(*at - start);

    if (**at == '-') {
        (*at)++;
        high = take_number(at);
    }
    if (low < 0 || high < low || strchr(",]", **at) == NULL) {
        return bad_nodelist(start, "write ranges of numbers within brackets, as [1-3,7]");
    }
    for (int64_t i = low; i <= high; i++) {
        char *name = est_arena_printf(step->arena, "%s%0*d", prefix, width, (int)i);

        if (name == NULL) return est_no_memory();
        EST_TRY(expand(step, name, rest, depth + 1));
    }
    return EST_OK;
}

/* Adds the hosts of the entry that starts at `at`, each with `prefix` before it. */
static est_status expand(slurm_step *step, const char *prefix, const char *at, int depth)
{
    size_t      n    = strcspn(at, ",[]");
    const char *rest = at + n, *close;
    char       *name = est_arena_printf(step->arena, "%s%.*s", prefix, (int)n, at);

    if (name == NULL) return est_no_memory();
    if (strlen(name) > HOST_MAX_BYTES) return bad_nodelist(at, "the name of a host has at most 255 letters");
    if (*rest == ']') return bad_nodelist(rest, "there is no [ before it");
    if (*rest != '[') {
        return name[0] != '\0' ? add_host(step, name) : bad_nodelist(at, "the name of a host is missing");
    }
    close = strchr(rest, ']');
    if (close == NULL) return bad_nodelist(rest, "there is no ] after it");
    if (depth == BRACKETS_MAX) return bad_nodelist(rest, "a host may have at most 4 pairs of brackets");
    do {
        rest++;
        EST_TRY(expand_range(step, name, &rest, close + 1, depth));
    } while (*rest == ',');
    return EST_OK;
}

/* The next entry of the list; NULL at its end. */
static const char *next_entry(const char *at)
{
    bool within = false;

    for (; *at != '\0'; at++) {
        if (*at == '[') within = true;
        if (*at == ']') within = false;
        if (*at == ',' && !within) return at + 1;
    }
    return NULL;
}

static est_status take_hosts(slurm_step *step)
{
    const char *text;

    EST_TRY(get_variable(nodelist, &text));
    for (const char *at = text; at != NULL; at = next_entry(at)) EST_TRY(expand(step, "", at, 0));
    return EST_OK;
}

/* --- tasks of the hosts ------------------------------------------------------------------------------------------- */

static const char per_node[] = "SLURM_STEP_TASKS_PER_NODE";

static est_status add_counts(slurm_step *step, int tasks, int times)
{
    if (times > EST_TASKS_MAX || tasks > EST_TASKS_MAX || (int64_t)tasks * times > EST_TASKS_MAX - step->n_tasks) {
        return too_many(per_node);
    }
    for (int i = 0; i < times; i++) {
        int *counts = grow(step->counts, step->n_counts, &step->max_counts, sizeof *counts);

        if (counts == NULL) return est_no_memory();
        step->counts             = counts;
        counts[step->n_counts++] = tasks;
    }
    step->n_tasks += tasks * times;
    return EST_OK;
}

static est_status take_counts(slurm_step *step)
{
    const char *text, *at;

    EST_TRY(get_variable(per_node, &text));
    at = text;
    for (;;) {
        const char *start = at;
        int         tasks = take_number(&at), times = 1;

        if (tasks > 0 && strncmp(at, "(x", 2) == 0) {
            at += 2;
            times = take_number(&at);
            if (*at == ')') {
                at++;
            } else {
                times = -1;
            }
        }
        if (tasks < 1 || times < 1 || strchr(",", *at) == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "%s is not a list of counts at \"%.80s\"; write it as 2(x3),1",
                            per_node, start);
        }
        EST_TRY(add_counts(step, tasks, times));
        if (*at++ == '\0') break;
    }
    if (step->n_counts == step->n_hosts) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%s has %d hosts, but %s has counts for %d", nodelist, step->n_hosts,
                    per_node, step->n_counts);
}

/* A variable that holds one number. */
static est_status get_number(const char *name, int *out)
{
    const char *text, *at;

    EST_TRY(get_variable(name, &text));
    at   = text;
    *out = take_number(&at);
    if (*out >= 0 && *at == '\0') return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%s is \"%.80s\"; it must be a number from 0 up", name, text);
}

static est_status take_step(slurm_step *step)
{
    int announced;

    EST_TRY(take_hosts(step));
    EST_TRY(take_counts(step));
    EST_TRY(get_number("SLURM_PROCID", &step->rank));
    if (step->rank >= step->n_tasks) {
        return est_fail(EST_INVALID_ARGUMENT, "SLURM_PROCID is %d; the step has %d tasks, so it must be below that",
                        step->rank, step->n_tasks);
    }
    if (getenv("SLURM_STEP_NUM_TASKS") == NULL) return EST_OK;
    EST_TRY(get_number("SLURM_STEP_NUM_TASKS", &announced));
    if (announced == step->n_tasks) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "SLURM_STEP_NUM_TASKS is %d, but %s adds up to %d", announced, per_node,
                    step->n_tasks);
}

/* --- the cluster -------------------------------------------------------------------------------------------------- */

/* The addresses of all tasks, [n_tasks], by rank. */
static est_status list_addresses(const slurm_step *step, int port_base, const char ***out)
{
    const char **addresses = est_arena_alloc(step->arena, (size_t)step->n_tasks * sizeof *addresses);
    int          n         = 0;

    if (addresses == NULL) return est_no_memory();
    for (int h = 0; h < step->n_hosts; h++) {
        if (port_base < 1 || port_base > PORT_MAX - step->counts[h] + 1) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "port_base is %d and %s has %d tasks: ports end at %d; write a number from 1 to %d",
                            port_base, step->hosts[h], step->counts[h], PORT_MAX, PORT_MAX - step->counts[h] + 1);
        }
        for (int i = 0; i < step->counts[h]; i++, n++) {
            addresses[n] = est_arena_printf(step->arena, "%s:%d", step->hosts[h], port_base + i);
            if (addresses[n] == NULL) return est_no_memory();
        }
    }
    *out = addresses;
    return EST_OK;
}

static est_status check_counts(const slurm_step *step, const est_slurm_options *options)
{
    int64_t total = 0;

    EST_REQUIRE_LIST("jobs", options->jobs);
    for (int j = 0; j < options->jobs.n; j++) {
        int n = options->jobs.data[j].addresses.n;

        if (n < 0) {
            return est_fail(EST_INVALID_ARGUMENT, "jobs[%d].addresses has n %d; write how many tasks it has", j, n);
        }
        total += n;
    }
    if (total == step->n_tasks) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "the jobs have %" PRId64 " tasks, but Slurm started %d; the numbers must be the same", total,
                    step->n_tasks);
}

/* Gives the tasks to the jobs in their order. */
static est_status resolve_step(const slurm_step *step, const est_slurm_options *options, const est_task_rules *rules,
                               est_resolver **out)
{
    est_task_given given = { .source = { "Slurm", "" }, .prefix = "" };
    est_cluster   *cluster;
    const char   **addresses = NULL;
    est_job       *jobs;
    int            first = 0;

    EST_TRY(check_counts(step, options));
    EST_TRY(list_addresses(step, options->port_base != 0 ? options->port_base : PORT_BASE, &addresses));
    jobs = est_arena_alloc(step->arena, (size_t)options->jobs.n * sizeof *jobs);
    if (jobs == NULL) return est_no_memory();
    for (int j = 0; j < options->jobs.n; j++) {
        jobs[j] = (est_job){ .name      = options->jobs.data[j].name,
                             .addresses = { addresses + first, options->jobs.data[j].addresses.n } };
        if (step->rank >= first && step->rank < first + jobs[j].addresses.n) {
            given.type       = jobs[j].name;
            given.index      = step->rank - first;
            given.index_text = est_arena_printf(step->arena, "%d", step->rank - first);
            if (given.index_text == NULL) return est_no_memory();
        }
        first += jobs[j].addresses.n;
    }
    EST_TRY(est_cluster_make(given.source, (est_jobs){ jobs, options->jobs.n }, &cluster));
    return est_resolver_make(cluster, &given, rules, out);
}

est_status est_resolve_slurm(const est_slurm_options *options, const est_task_rules *rules, est_resolver **out)
{
    est_slurm_options known;
    slurm_step        step = { 0 };
    est_job           workers;
    est_status        status;

    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_slurm_options), options, &known));
    step.arena = est_arena_create();
    if (step.arena == NULL) return est_no_memory();
    status = take_step(&step);
    if (known.jobs.data == NULL) {
        workers    = (est_job){ .name = "worker", .addresses = { NULL, step.n_tasks } };
        known.jobs = (est_jobs){ &workers, 1 };
    }
    if (status == EST_OK) status = resolve_step(&step, &known, rules, out);
    est_free(step.hosts);
    est_free(step.counts);
    est_arena_free(step.arena);
    return status;
}
