/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc status`: the state of a running job. Asks one task for the cluster, then all tasks of the cluster at the
 * same time for their state. */
#include "status.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "command.h"
#include "output.h"

#define ANSWER_SECS    3.0 /* for a connection, and for an answer */
#define WATCH_SECS_MAX 86400

enum { OPTION_WATCH = TOOL_OPTION_OWN, OPTION_TRANSPORT, OPTION_CERTS, OPTION_JOB };

static const tool_option options[] = {
    { "watch", OPTION_WATCH, "SECS", "show it again every SECS seconds until interrupted" },
    { "transport", OPTION_TRANSPORT, "NAME", "between tasks: tls, tcp, or ucx (ESTOC_PROTOCOL, else tls)",
      .choices_of = tool_transports },
    { "certs", OPTION_CERTS, "DIR", "the certificates of the job, for tls (ESTOC_CERTS)" },
    { "job", OPTION_JOB, "NAME", "the name of the job (ESTOC_JOB)" },
    TOOL_COMMON_OPTIONS,
};

typedef struct status_request {
    const char *address, *transport, *certificates, *job;
    int64_t     watch_secs; /* 0: once */
    bool        json;
} status_request;

/* --- asking ------------------------------------------------------------------------------------------------------- */

/* The address tells whether the user's own certificates will do; a wrong one fails when it is asked. */
static est_status open_client(const status_request *request, est_server **out)
{
    est_cluster *cluster = NULL;
    est_status   status;

    if (est_cluster_create(EST_JOBS({ .name = "asked", .addresses = EST_STRINGS(request->address) }), &cluster) !=
        EST_OK) {
        est_error_clear();
    }
    status = est_server_create(cluster, NULL, 0,
                               EST_SERVER(.transport = request->transport, .certificates = request->certificates,
                                          .job = request->job, .threads = 1),
                               out);
    est_cluster_free(cluster);
    return status;
}

/* The cluster, and which of its tasks was asked for it. */
static est_status read_cluster(const char *text, const char *address, char task[EST_NET_NAME_MAX], est_cluster **out)
{
    est_json   *root;
    const char *name;
    est_status  status;

    EST_TRY(est_json_parse(text, strlen(text), address, &root));
    status = est_json_string(root, &name, "task");
    if (status == EST_OK) {
        snprintf(task, EST_NET_NAME_MAX, "%s", name);
        status = est_cluster_from_json((est_cluster_source){ address, "cluster." }, est_json_get(root, "cluster"), out);
    }
    est_json_free(root);
    return status;
}

static est_status learn_cluster(const status_request *request, char task[EST_NET_NAME_MAX], est_cluster **out)
{
    est_server *client;
    char       *text;
    est_status  status;

    EST_TRY(open_client(request, &client));
    status = est_cluster_ask_status(client, request->address, NULL, ANSWER_SECS, &text);
    est_server_free(client);
    EST_TRY(status);
    status = read_cluster(text, request->address, task, out);
    est_free(text);
    return status;
}

static void clear_view(status_view *view)
{
    for (int i = 0; i < view->n; i++) {
        est_free(view->asked[i].text);
        est_json_free(view->told[i]);
    }
    est_free(view->names);
    est_free(view->asked);
    est_free(view->told);
    *view = (status_view){ 0 };
}

static int count_tasks(const est_cluster *cluster)
{
    int n = 0;

    for (int i = 0; i < est_cluster_jobs(cluster); i++) n += est_cluster_tasks(cluster, est_cluster_job(cluster, i));
    return n;
}

/* Lists the tasks to ask. The one that was asked first is reached by the address that has worked: its address in the
 * cluster may not work from here. */
static est_status list_tasks(const est_cluster *cluster, const char *first, const char *address, status_view *view)
{
    size_t max = (size_t)count_tasks(cluster) + 1;

    view->names = est_zalloc(sizeof *view->names * max);
    view->asked = est_zalloc(sizeof *view->asked * max);
    view->told  = est_zalloc(sizeof(est_json *) * max);
    if (view->names == NULL || view->asked == NULL || view->told == NULL) {
        return est_no_memory();
    }
    for (int i = 0; i < est_cluster_jobs(cluster); i++) {
        const char *job = est_cluster_job(cluster, i);

        for (int k = 0; k < est_cluster_tasks(cluster, job); k++) {
            char *name = view->names[view->n];

            if (est_cluster_address(cluster, job, k) == NULL) continue;
            snprintf(name, sizeof *view->names, "%.40s:%d", job, k);
            view->asked[view->n].task    = name;
            view->asked[view->n].address = strcmp(name, first) == 0 ? address : est_cluster_address(cluster, job, k);
            view->n++;
        }
    }
    return EST_OK;
}

/* What is no JSON is no answer. */
static void read_answer(est_task_asked *asked, est_json **told)
{
    if (asked->status != EST_OK) return;
    asked->status = est_json_parse(asked->text, strlen(asked->text), "its answer", told);
    if (asked->status == EST_OK) return;
    est_free(asked->text);
    asked->text = est_strdup(est_error_message());
}

static est_status ask_all(const status_request *request, status_view *view)
{
    est_server *client;

    EST_TRY(open_client(request, &client));
    est_cluster_ask_all(client, view->asked, view->n, ANSWER_SECS);
    est_server_free(client);
    for (int i = 0; i < view->n; i++) read_answer(&view->asked[i], &view->told[i]);
    return EST_OK;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

/* Between two views: a terminal is cleared, and other readers get an empty line. */
static est_status begin_view(const status_request *request, bool first)
{
    est_strbuf out = { 0 };
    est_status status;

    if (request->json || request->watch_secs == 0) return EST_OK;
    if (isatty(STDOUT_FILENO)) {
        est_strbuf_append(&out, "\033[H\033[2J");
    } else if (!first) {
        est_strbuf_append(&out, "\n");
    }
    status = tool_write(&out);
    est_strbuf_clear(&out);
    return status;
}

static est_status show(const status_request *request, const status_view *view, bool first, bool *all_there)
{
    EST_TRY(begin_view(request, first));
    EST_TRY(request->json ? status_print_json(view) : status_print_text(view));
    *all_there = true;
    for (int i = 0; i < view->n; i++) *all_there = *all_there && view->told[i] != NULL;
    return tool_flush();
}

static est_status look(const status_request *request, const est_cluster *cluster, const char *first_task, bool first,
                       bool *all_there)
{
    status_view view   = { 0 };
    est_status  status = list_tasks(cluster, first_task, request->address, &view);

    if (status == EST_OK) status = ask_all(request, &view);
    if (status == EST_OK) status = show(request, &view, first, all_there);
    clear_view(&view);
    return status;
}

static tool_exit read_options(int argc, char **argv, status_request *request)
{
    const char *value;
    int         id;

    while ((id = tool_next_option(&tool_status, argc, argv, &value)) != TOOL_OPTION_END) {
        switch (id) {
        case OPTION_WATCH:
            if (!tool_count(&tool_status, "watch", value, &request->watch_secs)) return TOOL_USAGE;
            if (request->watch_secs < 1 || request->watch_secs > WATCH_SECS_MAX) {
                return tool_usage(&tool_status, "--watch takes a number from 1 to %d, not %s", WATCH_SECS_MAX, value);
            }
            break;
        case OPTION_TRANSPORT:
            if (tool_option_choice(&tool_status, id, value) < 0) return TOOL_USAGE;
            request->transport = value;
            break;
        case OPTION_CERTS: request->certificates = value; break;
        case OPTION_JOB: request->job = value; break;
        case TOOL_OPTION_JSON: request->json = true; break;
        default: return tool_other_option(&tool_status, id);
        }
    }
    if (argc - optind != 1) {
        return tool_usage(&tool_status, "it takes the address of one task, HOST:PORT, and %d are given", argc - optind);
    }
    request->address = argv[optind];
    return TOOL_OK;
}

static tool_exit status_run(int argc, char **argv)
{
    status_request request   = { 0 };
    tool_exit      code      = read_options(argc, argv, &request);
    est_cluster   *cluster   = NULL;
    bool           all_there = true;
    char           task[EST_NET_NAME_MAX];
    est_status     status;

    if (code != TOOL_OK) return code;
    status = learn_cluster(&request, task, &cluster);
    if (status == EST_OK) status = look(&request, cluster, task, true, &all_there);
    while (status == EST_OK && request.watch_secs > 0) {
        est_sleep_ns(request.watch_secs * EST_NS_PER_SEC);
        status = look(&request, cluster, task, false, &all_there);
    }
    est_cluster_free(cluster);
    if (status != EST_OK) return tool_failed(&tool_status, status);
    return all_there ? TOOL_OK : TOOL_FAILED;
}

const tool_command tool_status = {
    .name      = "status",
    .summary   = "show every task of a running job, and which task waits for which",
    .arguments = "[options] HOST:PORT",
    .description =
        "Asks the task at HOST:PORT, any task of the job, for the list of tasks, and then all of them for their\n"
        "state: start time, global step, steps and bytes per second over the last 5 to 10 seconds, variables, rows\n"
        "of dynamic embeddings, memory. \"Waits\" lists every task that has waited for a second or longer, the task\n"
        "that it waits for, since when, and why: look there when a job makes no progress. The job does not wait for\n"
        "these answers. The evaluator has no address and is not listed.\n"
        "\n"
        "A task that does not answer is shown with the reason, and the exit code is 1. Transport, certificates and\n"
        "name must be those of the job.\n",
    .options  = options,
    .examples = "  ESTOC_CERTS=certs estoc status ps-0:2222\n"
                "  estoc status --transport tcp --watch 2 127.0.0.1:2222\n"
                "  estoc status --json ps-0:2222 | jq '.waits'\n",
    .takes    = TOOL_TAKES_NOTHING,
    .run      = status_run,
};
