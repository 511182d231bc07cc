/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc doctor`: checks of the build, the machine and the environment. A check is one function, which adds one
 * line. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include <zlib.h>

#include "base/pool.h"
#include "base/thread.h"
#include "collective/collective.h"
#include "command.h"
#include "device/devices.h"
#include "doctor.h"
#include "estoc/cluster.h"
#include "estoc/devices.h"
#include "estoc/log.h"
#include "estoc/version.h"
#include "kernels/gemm_parts.h"
#include "net/transport.h"
#include "output.h"
#include "strategy/strategy.h"

#define LINE_MAX_BYTES 256
#define LITTLE_SPACE   ((double)(1 << 30)) /* bytes free in TMPDIR that are worth a note */

static const tool_option options[] = { TOOL_COMMON_OPTIONS };

/* NOTE: works, but slower or without something. BAD: something that every run needs does not work. */
typedef enum check_state { FINE, NOTE, BAD } check_state;

static const char *const state_names[] = { "ok", "note", "BAD" }, *const json_names[] = { "ok", "note", "bad" };

typedef struct report {
    bool       json;
    est_strbuf rows; /* JSON */
    tool_table table;
    est_status status; /* of writing */
    bool       bad;
} report;

/* Adds the line of a check: what was found. */
static void add(report *r, const char *name, check_state state, const char *fmt, ...) EST_PRINTF(4, 5);

static void add(report *r, const char *name, check_state state, const char *fmt, ...)
{
    char    found[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(found, sizeof found, fmt, args);
    va_end(args);
    r->bad |= state == BAD;
    if (r->json) {
        est_strbuf_printf(&r->rows,
                          "%s\n  {\"name\": \"%s\", \"state\": \"%s\", \"found\": ", r->rows.size > 0 ? "," : "", name,
                          json_names[state]);
        tool_append_json_text(&r->rows, found);
        est_strbuf_append(&r->rows, "}");
    } else if (r->status == EST_OK) {
        tool_table_cell(&r->table, "%s", name);
        tool_table_cell(&r->table, "%s", state_names[state]);
        tool_table_text(&r->table, (est_str){ found, strlen(found) }, 0);
        r->status = tool_table_row(&r->table);
    }
}

/* --- the build ---------------------------------------------------------------------------------------------------- */

static void check_version(report *r)
{
    add(r, "version", FINE, "%s", est_version());
}

static void check_compiler(report *r)
{
#ifdef __AVX512F__
    const char *needs = "; needs AVX-512";
#elif defined(__AVX2__)
    const char *needs = "; needs AVX2 and FMA";
#else
    const char *needs = "";
#endif
#ifdef __clang__
    add(r, "compiler", FINE, "clang %s%s", __clang_version__, needs);
#else
    add(r, "compiler", FINE, "gcc %s%s", __VERSION__, needs);
#endif
}

static void check_compression(report *r)
{
    add(r, "compression", FINE, "gzip and zlib, by zlib %s", zlibVersion());
}

/* What carries messages between tasks. */
static void check_transports(report *r)
{
    for (const est_transport *const *t = est_transports; *t != NULL; t++) {
        est_status status = (*t)->check != NULL ? (*t)->check() : EST_OK;
        char       name[32];

        snprintf(name, sizeof name, "transport %s", (*t)->name);
        add(r, name, status == EST_OK ? FINE : NOTE, "%s", status == EST_OK ? (*t)->about : est_error_message());
    }
}

static void check_strategies(report *r)
{
    est_strbuf names = { 0 };

    for (const est_strategy_ops *const *s = est_strategies; *s != NULL; s++) {
        est_strbuf_printf(&names, "%s%s", names.size > 0 ? ", " : "", (*s)->name);
    }
    add(r, "strategies", FINE, "%s", est_strbuf_text(&names));
    est_strbuf_clear(&names);
}

/* How sums between processes are done: the first line that fits a group and a size is taken. */
static void check_sums(report *r)
{
    int                        n;
    const est_collective_rule *rules = est_collective_rules(&n);

    for (int i = 0; i < n; i++) {
        const est_collective_rule *rule = &rules[i];
        char                       name[32], ranks[32] = "any ranks", bytes[32] = "any size";

        snprintf(name, sizeof name, "all-reduce %d", i + 1);
        if (rule->n_max > 0) snprintf(ranks, sizeof ranks, "up to %d ranks", rule->n_max);
        if (rule->bytes_max > 0) snprintf(bytes, sizeof bytes, "up to %zu KB", rule->bytes_max >> 10);
        add(r, name, FINE, "%s, %s, %s: %s (%s)", est_topology_text(rule->topology), ranks, bytes,
            est_communication_name(rule->choice), est_communication_text(rule->choice));
    }
}

/* --- the machine -------------------------------------------------------------------------------------------------- */

/* The first line of a small file; "" when it cannot be read. */
static const char *first_line(const char *path, char line[LINE_MAX_BYTES])
{
    FILE *file = fopen(path, "re");

    if (file == NULL || fgets(line, LINE_MAX_BYTES, file) == NULL) line[0] = '\0';
    if (file != NULL) fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static void check_cpu(report *r)
{
    const est_gemm_isa *const *isa = est_gemm_isas;

    while (!(*isa)->supported()) isa++; /* the last one is */
    if (isa[1] == NULL) {
        add(r, "cpu", NOTE, "matrix products by plain C; a CPU with AVX2 is many times faster");
    } else {
        add(r, "cpu", FINE, "matrix products by %s", (*isa)->name);
    }
}

/* Cores that a container may use in all; INFINITY: no limit. */
static double core_quota(void)
{
    char   line[LINE_MAX_BYTES];
    double quota, period;

    if (sscanf(first_line("/sys/fs/cgroup/cpu.max", line), "%lf %lf", &quota, &period) != 2 || period <= 0)
        return INFINITY;
    return quota / period;
}

static void check_cores(report *r)
{
    int    allowed = est_cores_allowed();
    long   online  = sysconf(_SC_NPROCESSORS_ONLN);
    double quota   = core_quota();

    if (quota < allowed && getenv("ESTOC_NUM_THREADS") == NULL) {
        add(r, "cores", NOTE, "%d of %ld, but a quota of %g: set ESTOC_NUM_THREADS=%.0f", allowed, online, quota,
            fmax(1, floor(quota)));
    } else {
        add(r, "cores", FINE, "%d of %ld", allowed, online);
    }
}

static void check_threads(report *r)
{
    const char *text = getenv("ESTOC_NUM_THREADS");
    est_pool   *pool;

    if (est_pool_create(0, &pool) != EST_OK) {
        add(r, "ESTOC_NUM_THREADS", BAD, "%s", est_error_message());
        return;
    }
    add(r, "ESTOC_NUM_THREADS", FINE, "%s: %d threads", text != NULL && *text != '\0' ? "set" : "not set",
        est_pool_threads(pool));
    est_pool_free(pool);
}

static void check_memory(report *r)
{
    char           line[LINE_MAX_BYTES];
    struct sysinfo info;
    double         total, limit;

    if (sysinfo(&info) != 0) {
        add(r, "memory", NOTE, "unknown: %s", strerror(errno));
        return;
    }
    total = (double)info.totalram * info.mem_unit;
    if (sscanf(first_line("/sys/fs/cgroup/memory.max", line), "%lf", &limit) == 1 && limit < total) {
        add(r, "memory", FINE, "%.1f GiB, of which this container may use %.1f", total / 0x1p30, limit / 0x1p30);
    } else {
        add(r, "memory", FINE, "%.1f GiB", total / 0x1p30);
    }
}

static void check_huge_pages(report *r)
{
    char        line[LINE_MAX_BYTES];
    const char *modes = first_line("/sys/kernel/mm/transparent_hugepage/enabled", line); /* "always [madvise] never" */

    if (*modes == '\0') {
        add(r, "huge pages", NOTE, "the kernel has none; large tensors are somewhat slower");
    } else if (strstr(modes, "[never]") != NULL) {
        add(r, "huge pages", NOTE,
            "switched off; large tensors are somewhat slower. As root: echo madvise > "
            "/sys/kernel/mm/transparent_hugepage/enabled");
    } else {
        add(r, "huge pages", FINE, "used for large tensors");
    }
}

static void check_temporary_folder(report *r)
{
    const char    *top = getenv("TMPDIR");
    char           path[4096];
    struct statvfs info;
    double         left = 0;
    int            fd;

    if (top == NULL || *top == '\0') top = "/tmp";
    snprintf(path, sizeof path, "%s/estoc-doctor-XXXXXX", top);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        add(r, "TMPDIR", BAD, "%s: cannot make a file there: %s; set TMPDIR to a folder that can be written to", top,
            strerror(errno));
        return;
    }
    close(fd);
    unlink(path);
    if (statvfs(top, &info) == 0) left = (double)info.f_bavail * (double)info.f_frsize;
    add(r, "TMPDIR", left < LITTLE_SPACE ? NOTE : FINE, "%s, %.1f GiB free", top, left / 0x1p30);
}

/* --- the environment ---------------------------------------------------------------------------------------------- */

static void check_log(report *r)
{
    const char *text = getenv("ESTOC_LOG");
    size_t      size;
    bool        is_level;

    if (text == NULL || *text == '\0') {
        add(r, "ESTOC_LOG", FINE, "not set: info");
        return;
    }
    is_level = false;
    size     = strcspn(text, ",");
    for (int level = EST_LOG_OFF; level <= EST_LOG_TRACE; level++) {
        const char *name = est_log_level_name((est_log_level)level);

        is_level |= strlen(name) == size && strncasecmp(text, name, size) == 0;
    }
    is_level &= text[size] == '\0' || strcasecmp(text + size, ",json") == 0;
    add(r, "ESTOC_LOG", is_level ? FINE : NOTE,
        is_level ? "%s" : "\"%s\" is not a level; use off, error, warn, info, debug or trace, and ,json for JSON lines",
        text);
}

static void append_jobs(est_strbuf *out, const est_cluster *cluster)
{
    for (int i = 0; i < est_cluster_jobs(cluster); i++) {
        const char *job = est_cluster_job(cluster, i);

        est_strbuf_printf(out, "%s%d %s", i > 0 ? ", " : "", est_cluster_tasks(cluster, job), job);
    }
}

/* What is well described may still need a strategy that the program must choose. */
static bool is_for_several(const est_task *task)
{
    if (strcmp(task->type, "evaluator") == 0 || est_cluster_tasks(task->cluster, "ps") > 0) return false;
    return est_cluster_jobs(task->cluster) > 1 || est_cluster_tasks(task->cluster, task->type) > 1;
}

/* Some strategies allow a cluster without a chief, so both rules are tried; the second time without the same log
 * lines. */
static void check_tf_config(report *r)
{
    const char     *text     = getenv("TF_CONFIG");
    est_resolver   *resolver = NULL;
    est_strbuf      jobs     = { 0 };
    est_error       error    = { 0 };
    est_status      status;
    const est_task *task;

    if (text == NULL || text[strspn(text, " \t\r\n")] == '\0') {
        add(r, "TF_CONFIG", FINE, "not set: a single process");
        return;
    }
    status = est_resolve_tf_config(text, NULL, &resolver);
    if (status != EST_OK) {
        est_log_level level = est_log_get_level();

        est_error_take(status, &error);
        est_log_set_level(EST_LOG_OFF);
        status = est_resolve_tf_config(text, EST_TASK_RULES(.no_chief_ok = true), &resolver);
        est_log_set_level(level);
    }
    if (status != EST_OK) {
        add(r, "TF_CONFIG", BAD, "%s", error.message);
        return;
    }
    task = est_resolver_task(resolver);
    append_jobs(&jobs, task->cluster);
    add(r, "TF_CONFIG", is_for_several(task) ? NOTE : FINE, "this is %s %d%s%s%s%s", task->type, task->index,
        task->is_chief ? ", the chief" : "", jobs.size > 0 ? ", in a cluster of " : "", est_strbuf_text(&jobs),
        is_for_several(task)     ? "; no ps tasks: training needs the strategy multi_worker_mirrored"
        : error.status != EST_OK ? "; no chief: only multi_worker_mirrored allows that"
                                 : "");
    est_strbuf_clear(&jobs);
    est_resolver_free(resolver);
}

/* --- devices ------------------------------------------------------------------------------------------------------ */

static void check_devices(report *r)
{
    est_device_info devices[16];
    int             n = est_device_list(devices, 16);

    for (int i = 1; i < n && i < 16; i++) {
        add(r, "GPU", FINE, "%s: %s, %.1f GiB", devices[i].name, devices[i].description,
            (double)devices[i].memory_bytes / (double)(1 << 30));
    }
    if (n == 1) add(r, "GPU", FINE, "%s", est_device_missing());
}

/* What sums gradients between processes with a GPU each. */
static void check_device_sums(report *r)
{
    const est_device *gpu = est_device_find("GPU", 0);
    est_status        status;

    if (gpu == NULL || gpu->sums == NULL) return;
    status = gpu->sums->make_id(gpu, NULL);
    add(r, gpu->sums->name, status == EST_OK ? FINE : NOTE, "%s",
        status == EST_OK ? "sums gradients of processes with a GPU each" : est_error_message());
}

/* --- a short training --------------------------------------------------------------------------------------------- */

static void check_training(report *r)
{
    float      loss = NAN, expected = NAN;
    est_status status = doctor_train(&loss, &expected);

    if (status != EST_OK) {
        add(r, "self test", BAD, "%s", est_error_message());
    } else if (loss != expected) {
        add(r, "self test", BAD, "the loss of a short training is %.9g; expected %.9g", (double)loss, (double)expected);
    } else {
        add(r, "self test", FINE, "a short training gave the expected loss");
    }
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static est_status examine(report *r)
{
    static void (*const checks[])(report *) = {
        check_version,          check_compiler, check_cpu,        check_cores,
        check_threads,          check_memory,   check_huge_pages, check_compression,
        check_temporary_folder, check_log,      check_tf_config,  check_strategies,
        check_transports,       check_sums,     check_devices,    check_device_sums,
        check_training,
    };
    static const char *const columns[] = { "what", "state", "found" };

    if (!r->json) tool_table_begin(&r->table, columns, 3);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) checks[i](r);
    if (!r->json) return r->status == EST_OK ? tool_table_end(&r->table) : r->status;
    printf("{\"ok\": %s, \"checks\": [", r->bad ? "false" : "true");
    est_strbuf_append(&r->rows, "]}\n");
    return tool_write(&r->rows);
}

static tool_exit doctor_run(int argc, char **argv)
{
    report     r    = { 0 };
    tool_exit  code = tool_read_common(&tool_doctor, argc, argv, 0, "no arguments", &r.json);
    est_status status;

    if (code != TOOL_OK) return code;
    status = examine(&r);
    est_strbuf_clear(&r.rows);
    tool_table_clear(&r.table);
    if (status != EST_OK) return tool_failed(&tool_doctor, status);
    return r.bad ? TOOL_FAILED : TOOL_OK;
}

const tool_command tool_doctor = {
    .name      = "doctor",
    .summary   = "check the build, the machine and the environment",
    .arguments = "[options]",
    .description =
        "Prints a line for each part of the build, the machine and the environment that matters to training: ok,\n"
        "note (it works, but slower or without some feature) or BAD (something that every run needs does not work).\n"
        "The last line is a short training whose result is known. The exit code is 1 if any line is BAD.\n",
    .options = options,
    .examples =
        "  estoc doctor\n"
        "  TF_CONFIG='{\"cluster\": {\"chief\": [\"a:1\"]}, \"task\": {\"type\": \"chief\"}}' estoc doctor --json\n",
    .run = doctor_run,
};
