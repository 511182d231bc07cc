/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc certificates`: the certificates of the tasks of a job, for jobs on several machines. */
#include "net/certificates.h"

#include <getopt.h>
#include <inttypes.h>

#include "command.h"
#include "output.h"

#define DAYS_DEFAULT 365
#define DAYS_MAX     36500

enum { OPTION_JOB = TOOL_OPTION_OWN, OPTION_DAYS };

static const tool_option options[] = {
    { "job", OPTION_JOB, "NAME", "the job's name, which the certificate carries (estoc)" },
    { "days", OPTION_DAYS, "N", "how long they are valid (365)" },
    TOOL_COMMON_OPTIONS,
};

typedef struct certificates_request {
    const char *dir, *job;
    int64_t     days;
    bool        json;
} certificates_request;

static est_status print(const certificates_request *request)
{
    static const char *const files[] = { "ca.pem", "cert.pem", "key.pem" };
    est_strbuf               out     = { 0 };
    est_status               status;

    if (request->json) {
        est_strbuf_append(&out, "{\"directory\": ");
        tool_append_json_text(&out, request->dir);
        est_strbuf_append(&out, ", \"job\": ");
        tool_append_json_text(&out, request->job);
        est_strbuf_printf(&out, ", \"days\": %" PRId64 ", \"files\": [", request->days);
        for (int i = 0; i < 3; i++) est_strbuf_printf(&out, "%s\"%s\"", i > 0 ? ", " : "", files[i]);
        est_strbuf_append(&out, "]}\n");
    } else {
        for (int i = 0; i < 3; i++) est_strbuf_printf(&out, "%s/%s\n", request->dir, files[i]);
    }
    status = tool_write(&out);
    est_strbuf_clear(&out);
    return status;
}

static tool_exit read_options(int argc, char **argv, certificates_request *request)
{
    const char *value;
    int         id;

    while ((id = tool_next_option(&tool_certificates, argc, argv, &value)) != TOOL_OPTION_END) {
        switch (id) {
        case OPTION_JOB: request->job = value; break;
        case OPTION_DAYS:
            if (!tool_count(&tool_certificates, "days", value, &request->days)) return TOOL_USAGE;
            if (request->days < 1 || request->days > DAYS_MAX) {
                return tool_usage(&tool_certificates, "--days takes a number from 1 to %d, not %s", DAYS_MAX, value);
            }
            break;
        case TOOL_OPTION_JSON: request->json = true; break;
        default: return tool_other_option(&tool_certificates, id);
        }
    }
    if (argc - optind != 1) {
        return tool_usage(&tool_certificates, "it takes one directory, and %d are given", argc - optind);
    }
    request->dir = argv[optind];
    return TOOL_OK;
}

static tool_exit certificates_run(int argc, char **argv)
{
    certificates_request request = { .job = "estoc", .days = DAYS_DEFAULT };
    tool_exit            code    = read_options(argc, argv, &request);
    est_status           status;

    if (code != TOOL_OK) return code;
    status = est_certificates_make(request.dir, request.job, (int)request.days);
    if (status == EST_OK) status = print(&request);
    return status == EST_OK ? TOOL_OK : tool_failed(&tool_certificates, status);
}

const tool_command tool_certificates = {
    .name      = "certificates",
    .summary   = "make the certificates by which the tasks of a job identify each other",
    .arguments = "[options] DIR",
    .description =
        "Makes an authority for one job and writes into DIR, a new or empty directory: ca.pem, the certificate of\n"
        "the authority; cert.pem, which every task presents; and key.pem, its key. Every task of the job needs all\n"
        "three and finds them by ESTOC_CERTS=DIR. A process that has key.pem can join the job, so only you can read\n"
        "it; keep it in a secret of Kubernetes or on a file system that others cannot read. The authority's own key\n"
        "is not kept, so no certificate can be added later: make new ones for a new job. A job whose tasks\n"
        "are all on one machine needs none of these.\n",
    .options  = options,
    .examples = "  estoc certificates certs\n"
                "  estoc certificates --job ads --days 30 certs\n"
                "  kubectl create secret generic estoc-certs --from-file=certs/\n",
    .takes    = TOOL_TAKES_DIRECTORIES,
    .run      = certificates_run,
};
