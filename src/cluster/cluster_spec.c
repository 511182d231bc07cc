/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters: jobs by name, each a list of addresses that may have gaps. Everything lies in one arena and is checked when
 * it is made, so that a wrong address is an error here and not a process that waits for a peer that cannot be there. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "cluster/cluster.h"

#define NAME_MAX_BYTES 48 /* of a job: peers know each other by "<job>:<index>" in EST_NET_NAME_MAX bytes */

struct est_cluster {
    est_arena *arena;
    est_job   *jobs; /* [n_jobs], by name; in the arena, as all they point at */
    int        n_jobs;
};

/* --- addresses ---------------------------------------------------------------------------------------------------- */

/* Not <ctype.h>: that follows the locale. */
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Characters of host names, including the underscores that some networks use. */
static bool is_host(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!is_letter(text[i]) && !is_digit(text[i]) && text[i] != '-' && text[i] != '_' && text[i] != '.') {
            return false;
        }
    }
    return size > 0 && text[0] != '-' && text[0] != '.';
}

/* "1" to "65535", without zeros before it: then equal addresses are equal texts. */
static bool is_port(const char *text)
{
    size_t size = strlen(text);

    if (size == 0 || size > 5 || text[0] == '0' || strspn(text, "0123456789") != size) return false;
    return strtol(text, NULL, 10) <= 65535;
}

/* The text between brackets: an IPv6 address, with an optional zone. */
static bool is_ipv6(const char *text, size_t size)
{
    char            copy[INET6_ADDRSTRLEN];
    struct in6_addr address;
    const char     *zone = memchr(text, '%', size);
    size_t          n    = zone != NULL ? (size_t)(zone - text) : size;

    if (n >= sizeof copy) return false;
    if (zone != NULL && !is_host(zone + 1, size - n - 1)) return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return inet_pton(AF_INET6, copy, &address) == 1;
}

/* Advice on a wrong address; NULL: it is "host:port". */
static const char *address_advice(const char *address)
{
    const char *colon = strrchr(address, ':');
    size_t      size;

    if (strstr(address, "://") != NULL) return "write only \"host:port\", without the scheme";
    if (colon == NULL) return "write \"host:port\", as \"10.0.0.1:2222\"";
    size = (size_t)(colon - address);
    if (memchr(address, ':', size) != NULL || address[0] == '[') {
        if (size < 2 || address[0] != '[' || address[size - 1] != ']' || !is_ipv6(address + 1, size - 2)) {
            return "write an IPv6 address in brackets, as \"[::1]:2222\"";
        }
    } else if (!is_host(address, size)) {
        return "write a host name or address before the colon, as \"10.0.0.1:2222\"";
    }
    return is_port(colon + 1) ? NULL : "write a port from 1 to 65535 after the colon, as \"10.0.0.1:2222\"";
}

/* Whether a checked address is of the loopback interface: localhost, 127.0.0.0/8 or ::1. */
static bool is_loopback(const char *address)
{
    size_t          size = (size_t)(strrchr(address, ':') - address);
    char            host[INET6_ADDRSTRLEN + 2];
    struct in_addr  v4;
    struct in6_addr v6;

    if (size >= sizeof host) return false;
    memcpy(host, address, size);
    host[size] = '\0';
    if (strcasecmp(host, "localhost") == 0) return true;
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    if (host[0] != '[') return false;
    host[size - 1] = '\0';
    return inet_pton(AF_INET6, host + 1, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static est_status check_address(est_cluster_source source, const est_job *job, int index)
{
    const char *advice = address_advice(job->addresses.data[index]);
    est_strbuf  text   = { 0 };

    if (advice == NULL) return EST_OK;
    est_strbuf_append_json(&text, job->addresses.data[index], strnlen(job->addresses.data[index], EST_VALUE_TEXT_MAX));
    est_status status = est_fail(EST_INVALID_ARGUMENT, "%s: %s%s[%d] is %s; %s", source.what, source.prefix, job->name,
                                 index, est_strbuf_text(&text), advice);
    est_strbuf_clear(&text);
    return status;
}

/* --- making ------------------------------------------------------------------------------------------------------- */

/* A name that can stand in a device name, "/job:<name>/task:0". */
static est_status check_name(est_cluster_source source, const char *name)
{
    size_t size = name != NULL ? strlen(name) : 0;
    bool   good = size > 0 && is_letter(name[0]);

    for (size_t i = 1; i < size; i++) good = good && (is_letter(name[i]) || is_digit(name[i]) || name[i] == '_');
    if (good && size > NAME_MAX_BYTES) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s: the name of the job \"%.80s\" has %zu letters; at most %d are possible", source.what, name,
                        size, NAME_MAX_BYTES);
    }
    if (good) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "%s: \"%.80s\" is not the name of a job; write a letter followed by letters, digits or _, as "
                    "\"worker\"",
                    source.what, name != NULL ? name : "");
}

static est_status copy_job(est_cluster *cluster, est_cluster_source source, const est_job *from, est_job *to)
{
    const char **addresses = est_arena_alloc(cluster->arena, (size_t)from->addresses.n * sizeof *addresses);

    to->name      = est_arena_strdup(cluster->arena, from->name);
    to->addresses = (est_strings){ addresses, from->addresses.n };
    while (to->addresses.n > 0 && from->addresses.data[to->addresses.n - 1] == NULL) to->addresses.n--;
    if (addresses == NULL || to->name == NULL) return est_no_memory();
    for (int i = 0; i < from->addresses.n; i++) {
        if (from->addresses.data[i] == NULL) continue;
        EST_TRY(check_address(source, from, i));
        addresses[i] = est_arena_strdup(cluster->arena, from->addresses.data[i]);
        if (addresses[i] == NULL) return est_no_memory();
    }
    return EST_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const est_job *)a)->name, ((const est_job *)b)->name);
}

typedef struct task_address {
    const char *text;
    const char *job;
    int         index;
} task_address;

static int by_address(const void *a, const void *b)
{
    const task_address *left = a, *right = b;
    int                 order = strcasecmp(left->text, right->text);

    if (order == 0) order = strcmp(left->job, right->job);
    return order != 0 ? order : left->index - right->index;
}

/* Refuses two tasks with one address: the second could never listen there, and all others would wait for it. */
static est_status check_twice(est_cluster_source source, const est_cluster *cluster)
{
    task_address *all;
    size_t        n      = 0;
    est_status    status = EST_OK;

    for (int j = 0; j < cluster->n_jobs; j++) n += (size_t)cluster->jobs[j].addresses.n;
    all = est_alloc((n + 1) * sizeof *all);
    if (all == NULL) return est_no_memory();
    n = 0;
    for (int j = 0; j < cluster->n_jobs; j++) {
        const est_job *job = &cluster->jobs[j];

        for (int i = 0; i < job->addresses.n; i++) {
            if (job->addresses.data[i] != NULL) all[n++] = (task_address){ job->addresses.data[i], job->name, i };
        }
    }
    qsort(all, n, sizeof *all, by_address);
    for (size_t i = 1; i < n && status == EST_OK; i++) {
        if (strcasecmp(all[i - 1].text, all[i].text) != 0) continue;
        status = est_fail(EST_INVALID_ARGUMENT,
                          "%s: %s%s[%d] and %s%s[%d] are both \"%s\"; give every task an address of its own",
                          source.what, source.prefix, all[i - 1].job, all[i - 1].index, source.prefix, all[i].job,
                          all[i].index, all[i].text);
    }
    est_free(all);
    return status;
}

/* Names, counts and whether a name comes twice, before anything is copied. */
static est_status check_jobs(est_cluster_source source, est_jobs jobs)
{
    int64_t tasks = 0;

    if (!EST_LIST_OK(jobs)) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: %d jobs at %p", source.what, jobs.n, (const void *)jobs.data);
    }
    for (int j = 0; j < jobs.n; j++) {
        const est_job *job = &jobs.data[j];

        EST_TRY(check_name(source, job->name));
        if (!EST_LIST_OK(job->addresses)) {
            return est_fail(EST_INVALID_ARGUMENT, "%s: %s%s has %d addresses at %p", source.what, source.prefix,
                            job->name, job->addresses.n, (const void *)job->addresses.data);
        }
        tasks += job->addresses.n;
    }
    if (tasks <= EST_TASKS_MAX) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%s: the cluster has %" PRId64 " tasks; at most %d are supported",
                    source.what, tasks, EST_TASKS_MAX);
}

static est_status fill(est_cluster *cluster, est_cluster_source source, est_jobs jobs)
{
    cluster->arena = est_arena_create();
    if (cluster->arena == NULL) return est_no_memory();
    cluster->jobs = est_arena_alloc(cluster->arena, (size_t)jobs.n * sizeof *cluster->jobs);
    if (cluster->jobs == NULL) return est_no_memory();
    for (int j = 0; j < jobs.n; j++) EST_TRY(copy_job(cluster, source, &jobs.data[j], &cluster->jobs[j]));
    cluster->n_jobs = jobs.n;
    if (jobs.n > 0) qsort(cluster->jobs, (size_t)jobs.n, sizeof *cluster->jobs, by_name);
    for (int j = 1; j < jobs.n; j++) {
        if (strcmp(cluster->jobs[j - 1].name, cluster->jobs[j].name) != 0) continue;
        return est_fail(EST_INVALID_ARGUMENT, "%s: the job \"%s\" is there twice; put its addresses into one list",
                        source.what, cluster->jobs[j].name);
    }
    return check_twice(source, cluster);
}

est_status est_cluster_make(est_cluster_source source, est_jobs jobs, est_cluster **out)
{
    est_cluster *cluster;
    est_status   status;

    EST_TRY(check_jobs(source, jobs));
    cluster = est_zalloc(sizeof *cluster);
    if (cluster == NULL) return est_no_memory();
    status = fill(cluster, source, jobs);
    if (status != EST_OK) {
        est_cluster_free(cluster);
        return status;
    }
    *out = cluster;
    return EST_OK;
}

est_status est_cluster_create(est_jobs jobs, est_cluster **out)
{
    EST_REQUIRE(out);
    return est_cluster_make((est_cluster_source){ "cluster", "" }, jobs, out);
}

est_status est_cluster_copy(const est_cluster *cluster, est_cluster **out)
{
    return est_cluster_make((est_cluster_source){ "cluster", "" },
                            cluster != NULL ? (est_jobs){ cluster->jobs, cluster->n_jobs } : (est_jobs){ 0 }, out);
}

void est_cluster_free(est_cluster *cluster)
{
    if (cluster == NULL) return;
    est_arena_free(cluster->arena);
    est_free(cluster);
}

/* --- from JSON ---------------------------------------------------------------------------------------------------- */

/* The key of a sparse job, "0" or "12"; -1 when it is no index. */
static int sparse_index(const char *key)
{
    size_t size = strlen(key);

    if (size == 0 || size > 6 || strspn(key, "0123456789") != size || (key[0] == '0' && size > 1)) return -1;
    return (int)strtol(key, NULL, 10);
}

typedef struct json_jobs {
    est_cluster_source source;
    est_arena         *arena; /* of intermediate lists */
    int                tasks; /* so far, gaps included */
} json_jobs;

/* How many addresses the job has, gaps included. */
static est_status job_size(const json_jobs *b, const char *field, json_t *value, int *out)
{
    size_t      n = 0;
    const char *key;
    json_t     *address;

    if (json_is_array(value)) {
        n = json_array_size(value);
    } else if (json_is_object(value)) {
        json_object_foreach(value, key, address)
        {
            int index = sparse_index(key);

            if (index < 0) {
                return est_fail(EST_INVALID_ARGUMENT, "%s: %s has the key \"%.80s\"; write a task's index, as \"0\"",
                                b->source.what, field, key);
            }
            if ((size_t)index >= n) n = (size_t)index + 1;
        }
    } else {
        return est_json_wrong(b->source.what, field, value, "write a list of addresses, as [\"10.0.0.1:2222\"]");
    }
    if (n > (size_t)(EST_TASKS_MAX - b->tasks)) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: %s has %zu tasks; a cluster of at most %d is supported",
                        b->source.what, field, n, EST_TASKS_MAX);
    }
    *out = (int)n;
    return EST_OK;
}

static est_status take_address(const json_jobs *b, const char *field, int index, const json_t *value, const char **out)
{
    const char *name;

    *out = json_string_value(value);
    if (*out != NULL) return EST_OK;
    name = est_arena_printf(b->arena, "%s[%d]", field, index);
    if (name == NULL) return est_no_memory();
    return est_json_wrong(b->source.what, name, value, "write \"host:port\", as \"10.0.0.1:2222\"");
}

static est_status take_addresses(json_jobs *b, const char *field, json_t *value, est_job *job)
{
    const char **addresses;
    const char  *key;
    json_t      *address;

    EST_TRY(job_size(b, field, value, &job->addresses.n));
    b->tasks += job->addresses.n;
    addresses = est_arena_alloc(b->arena, (size_t)job->addresses.n * sizeof *addresses);
    if (addresses == NULL) return est_no_memory();
    job->addresses.data = addresses;
    if (json_is_array(value)) {
        for (int i = 0; i < job->addresses.n; i++) {
            EST_TRY(take_address(b, field, i, json_array_get(value, (size_t)i), &addresses[i]));
        }
        return EST_OK;
    }
    json_object_foreach(value, key, address)
    {
        int i = sparse_index(key);

        EST_TRY(take_address(b, field, i, address, &addresses[i]));
    }
    return EST_OK;
}

static est_status take_jobs(json_jobs *b, json_t *value, est_job *jobs)
{
    const char *name;
    json_t     *list;
    int         n = 0;

    json_object_foreach(value, name, list)
    {
        const char *field = est_arena_printf(b->arena, "%s%s", b->source.prefix, name);

        if (field == NULL) return est_no_memory();
        EST_TRY(check_name(b->source, name));
        jobs[n].name = name;
        EST_TRY(take_addresses(b, field, list, &jobs[n++]));
    }
    return EST_OK;
}

est_status est_cluster_from_json(est_cluster_source source, const est_json *value, est_cluster **out)
{
    json_jobs  b = { .source = source };
    json_t    *root;
    est_job   *jobs;
    est_status status;

    if (!json_is_object(value)) {
        return est_json_wrong(source.what, source.prefix[0] != '\0' ? "cluster" : "the cluster", value,
                              "write an object of jobs, as {\"worker\": [\"10.0.0.1:2222\"]}");
    }
    EST_TRY(est_json_object(value, &root, "%s", ""));
    b.arena = est_arena_create();
    jobs    = b.arena != NULL ? est_arena_alloc(b.arena, json_object_size(root) * sizeof *jobs) : NULL;
    status  = jobs != NULL ? take_jobs(&b, root, jobs) : est_no_memory();
    if (status == EST_OK) status = est_cluster_make(source, (est_jobs){ jobs, (int)json_object_size(root) }, out);
    est_arena_free(b.arena);
    return status;
}

est_status est_cluster_parse(const char *json, const char *what, est_cluster **out)
{
    est_json  *value;
    est_status status;

    EST_REQUIRE(what);
    EST_REQUIRE(out);
    if (json == NULL) return est_fail(EST_INVALID_ARGUMENT, "%s: the text is NULL", what);
    EST_TRY(est_json_parse(json, strlen(json), what, &value));
    est_json_warn_of_duplicates(json, strlen(json), what);
    status = est_cluster_from_json((est_cluster_source){ what, "" }, value, out);
    est_json_free(value);
    return status;
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

int est_cluster_jobs(const est_cluster *cluster)
{
    return cluster != NULL ? cluster->n_jobs : 0;
}

const char *est_cluster_job(const est_cluster *cluster, int i)
{
    return i >= 0 && i < est_cluster_jobs(cluster) ? cluster->jobs[i].name : NULL;
}

const est_job *est_cluster_find(const est_cluster *cluster, const char *name)
{
    const est_job key = { .name = name };

    if (name == NULL || est_cluster_jobs(cluster) == 0) return NULL;
    return bsearch(&key, cluster->jobs, (size_t)cluster->n_jobs, sizeof *cluster->jobs, by_name);
}

int est_cluster_tasks(const est_cluster *cluster, const char *job)
{
    const est_job *found = est_cluster_find(cluster, job);

    return found != NULL ? found->addresses.n : 0;
}

const char *est_cluster_address(const est_cluster *cluster, const char *job, int index)
{
    const est_job *found = est_cluster_find(cluster, job);

    return found != NULL && index >= 0 && index < found->addresses.n ? found->addresses.data[index] : NULL;
}

/* --- as text ------------------------------------------------------------------------------------------------------ */

static void job_text(const est_job *job, est_strbuf *out)
{
    bool        sparse = false;
    const char *comma  = "";

    for (int i = 0; i < job->addresses.n; i++) sparse = sparse || job->addresses.data[i] == NULL;
    est_strbuf_printf(out, "\"%s\": %s", job->name, sparse ? "{" : "[");
    for (int i = 0; i < job->addresses.n; i++) {
        if (job->addresses.data[i] == NULL) continue;
        est_strbuf_append(out, comma);
        if (sparse) est_strbuf_printf(out, "\"%d\": ", i);
        est_strbuf_append_json(out, job->addresses.data[i], strlen(job->addresses.data[i]));
        comma = ", ";
    }
    est_strbuf_append(out, sparse ? "}" : "]");
}

bool est_cluster_is_local(const est_cluster *cluster)
{
    int n = 0;

    for (int j = 0; j < cluster->n_jobs; j++) {
        est_strings all = cluster->jobs[j].addresses;

        for (int i = 0; i < all.n; i++) {
            if (all.data[i] != NULL && !is_loopback(all.data[i])) return false;
            n += all.data[i] != NULL;
        }
    }
    return n > 0;
}

void est_cluster_text(const est_cluster *cluster, est_strbuf *out)
{
    est_strbuf_append(out, "{");
    for (int j = 0; j < est_cluster_jobs(cluster); j++) {
        if (j > 0) est_strbuf_append(out, ", ");
        job_text(&cluster->jobs[j], out);
    }
    est_strbuf_append(out, "}");
}

/* --- differences -------------------------------------------------------------------------------------------------- */

static bool has_gaps(const est_job *job)
{
    for (int i = 0; job != NULL && i < job->addresses.n; i++) {
        if (job->addresses.data[i] == NULL) return true;
    }
    return false;
}

/* The comparison of two clusters. */
typedef struct comparison {
    const est_cluster *first, *second;
    const char *const *but; /* [2] */
    bool (*are_one)(void *user, const char *first, const char *second);
    void *user;
} comparison;

static bool is_same(const comparison *c, const char *x, const char *y)
{
    return strcmp(x, y) == 0 || (c->are_one != NULL && c->are_one(c->user, x, y));
}

static bool job_differs(const comparison *c, const char *name, est_cluster_difference *out)
{
    const est_job *a = est_cluster_find(c->first, name), *b = est_cluster_find(c->second, name);
    bool           gaps = has_gaps(a) || has_gaps(b);
    char           task[64];

    for (int i = 0; (a != NULL && i < a->addresses.n) || (b != NULL && i < b->addresses.n); i++) {
        const char *x = est_cluster_address(c->first, name, i), *y = est_cluster_address(c->second, name, i);

        snprintf(task, sizeof task, "%.40s:%d", name, i);
        if (strcmp(task, c->but[0]) == 0 || strcmp(task, c->but[1]) == 0 || (x == NULL && y == NULL)) continue;
        if ((x == NULL || y == NULL) ? gaps : is_same(c, x, y)) continue;
        *out = (est_cluster_difference){ a != NULL ? a->name : b->name, i, x, y };
        return true;
    }
    return false;
}

bool est_cluster_differ(const est_cluster *first, const est_cluster *second, const char *const but[2],
                        bool (*are_one)(void *user, const char *first, const char *second), void *user,
                        est_cluster_difference *out)
{
    const est_cluster *both[] = { first, second };
    comparison         c      = { first, second, but, are_one, user };

    for (int k = 0; k < 2; k++) {
        for (int j = 0; j < est_cluster_jobs(both[k]); j++) {
            const char *name = est_cluster_job(both[k], j);

            if (strcmp(name, "evaluator") != 0 && job_differs(&c, name, out)) return true;
        }
    }
    return false;
}

typedef struct text_sink {
    est_strbuf *out;
    size_t      left;
} text_sink;

static int sink_append(const char *bytes, size_t size, void *user)
{
    text_sink *sink = user;
    size_t     n    = size < sink->left ? size : sink->left;

    while (n < size && n > 0 && ((unsigned char)bytes[n] & 0xc0) == 0x80) n--; /* not within a character */
    est_strbuf_append_bytes(sink->out, bytes, n);
    sink->left -= n;
    return n == size ? 0 : -1;
}

void est_json_text(const est_json *value, size_t max, est_strbuf *out)
{
    text_sink sink = { out, max > 0 ? max : SIZE_MAX };

    if (json_dump_callback(value, sink_append, &sink, JSON_ENCODE_ANY) != 0) est_strbuf_append(out, "...");
}

est_status est_json_wrong(const char *what, const char *field, const est_json *value, const char *advice)
{
    est_strbuf text = { 0 };
    est_status status;

    est_json_text(value, EST_VALUE_TEXT_MAX, &text);
    status = est_fail(EST_INVALID_ARGUMENT, "%s: %s is %s; %s", what, field, est_strbuf_text(&text), advice);
    est_strbuf_clear(&text);
    return status;
}
