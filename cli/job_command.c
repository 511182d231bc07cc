/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that take a job file share. */
#include "job_command.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "estoc/log.h"
#include "output.h"

/* --- the file ----------------------------------------------------------------------------------------------------- */

static est_status read_tree(job_call *call, const char *path, job_errors *errors, job_node **out)
{
    char      *text = NULL;
    size_t     size;
    est_status status;

    EST_TRY(est_file_read(path, &text, &size));
    status = job_yaml_parse(call->arena, path, true, (est_str){ text, size }, errors, out);
    est_free(text);
    for (int i = 0; i < call->n_sets && status == EST_OK; i++) {
        status = job_set(call->arena, *out, call->sets[i], errors);
    }
    return status;
}

static void check_needs(const job_spec *job, unsigned needs, job_errors *errors)
{
    if ((needs & JOB_NEEDS_TRAIN) != 0 && job->data.train.data == NULL) {
        job_error(errors, job->data.node, "data needs \"train\": files to train on");
    }
    if ((needs & JOB_NEEDS_EVAL) != 0 && job->data.eval.data == NULL) {
        job_error(errors, job->data.node, "data needs \"eval\": files to evaluate on");
    }
    if ((needs & JOB_NEEDS_MODEL_DIR) != 0 && job->run.config.model_dir == NULL) {
        job_error(errors, job->node, "run needs \"model_dir\": where the trained model is");
    }
}

static tool_exit read_job(job_call *call, const char *path, unsigned needs)
{
    job_errors errors = { 0 };
    job_node  *root   = NULL;
    est_status status = read_tree(call, path, &errors, &root);
    tool_exit  code   = TOOL_OK;

    if (status == EST_OK) status = job_read(call->arena, root, &errors, &call->job);
    if (status == EST_OK && !call->prints) check_needs(&call->job, needs, &errors);
    if (errors.n > 0) {
        fflush(stdout);
        fputs(est_strbuf_text(&errors.text), stderr);
        code = TOOL_USAGE;
    } else if (status != EST_OK) {
        code = tool_failed(call->command, status);
    }
    est_strbuf_clear(&errors.text);
    return code;
}

static tool_exit print_text(job_call *call, est_strbuf *text)
{
    est_status status = tool_write(text);

    est_strbuf_clear(text);
    return status == EST_OK ? TOOL_HELPED : tool_failed(call->command, status);
}

/* Whether there is a checkpoint to resume from. */
static bool find_checkpoint(const job_call *call, char out[EST_CHECKPOINT_PATH_MAX])
{
    if (call->checkpoint == NULL && call->job.run.config.model_dir == NULL) return false;
    return job_call_checkpoint(call, out) == EST_OK;
}

/* A SavedModel has no keys, and its variables are its own. */
static tool_exit open_model(job_call *call, const char *dir)
{
    if (call->n_sets > 0 || call->prints || call->checkpoint != NULL) {
        return tool_usage(call->command, "--%s is for job files, and %s is a directory",
                          call->n_sets > 0 ? "set"
                          : call->prints   ? "print-config"
                                           : "checkpoint",
                          dir);
    }
    if (call->quiet) est_log_set_level(EST_LOG_WARN);
    call->model = dir;
    return TOOL_OK;
}

/* The directory of the SavedModel that an argument names, by itself or by its message; NULL: it names none. */
static const char *model_dir(const job_call *call, const char *path)
{
    static const char message[] = "saved_model.pb";
    const char       *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;

    if (est_dir_exists(path)) return path;
    if (strcmp(name, message) != 0 || !est_file_exists(path)) return NULL;
    return slash == NULL ? "." : est_arena_printf(call->arena, "%.*s", (int)(slash - path + 1), path);
}

static tool_exit open_job(job_call *call, int argc, char **argv, unsigned needs)
{
    est_strbuf  text = { 0 };
    char        path[EST_CHECKPOINT_PATH_MAX];
    const char *dir;
    est_status  status;
    tool_exit   code;

    if (call->describes) {
        job_describe(&text);
        return print_text(call, &text);
    }
    if (argc - optind == 2 && (needs & JOB_READS_ROWS) != 0) {
        return tool_usage(call->command,
                          "it takes one job file, and 2 are given; rows are read from standard input: estoc %s %s <%s",
                          call->command->name, argv[optind], argv[optind + 1]);
    }
    if (argc - optind != 1) return tool_usage(call->command, "it takes one job file, and %d are given", argc - optind);
    dir = (needs & JOB_OR_MODEL) != 0 ? model_dir(call, argv[optind]) : NULL;
    if (dir != NULL) return open_model(call, dir);
    code = tool_check_file(call->command, argv[optind]);
    if (code == TOOL_OK) code = read_job(call, argv[optind], needs);
    if (code != TOOL_OK) return code;
    if (call->prints) {
        job_print(&call->job, &text);
        return print_text(call, &text);
    }
    if (call->quiet) est_log_set_level(EST_LOG_WARN);
    status = job_runner_init(&call->runner, &call->job, call->quiet, (needs & JOB_CATCHES_SIGNALS) == 0,
                             (needs & JOB_NEEDS_TRAIN) == 0);
    if (status == EST_OK && find_checkpoint(call, path)) status = job_check_tables(&call->runner, path);
    if (status == EST_OK) return TOOL_OK;
    if (status != EST_INVALID_ARGUMENT || !job_is_blamed(call->job.node)) return tool_failed(call->command, status);
    fflush(stdout);
    fprintf(stderr, "%s\n", est_error_message());
    return TOOL_USAGE;
}

/* Takes an option that all of them have; false: it is the command's own. */
static bool take_option(job_call *call, int id, const char *value)
{
    switch (id) {
    case JOB_OPTION_SET: call->sets[call->n_sets++] = value; return true;
    case JOB_OPTION_PRINT: call->prints = true; return true;
    case JOB_OPTION_HELP: call->describes = true; return true;
    case JOB_OPTION_CHECKPOINT: call->checkpoint = value; return true;
    case 'q': call->quiet = true; return true;
    case TOOL_OPTION_JSON: call->json = true; return true;
    default: return false;
    }
}

tool_exit job_call_run(job_call *call, const tool_command *command, int argc, char **argv, unsigned needs,
                       tool_exit (*option)(job_call *call, int id, const char *value),
                       tool_exit (*work)(job_call *call))
{
    tool_exit   code = TOOL_OK;
    const char *value;
    int         id;

    call->command = command;
    call->arena   = est_arena_create();
    if (call->arena != NULL) call->sets = est_arena_alloc(call->arena, (size_t)argc * sizeof *call->sets);
    if (call->sets == NULL) code = tool_failed(command, est_no_memory());
    while (code == TOOL_OK && (id = tool_next_option(command, argc, argv, &value)) != TOOL_OPTION_END) {
        if (take_option(call, id, value)) continue;
        code = option != NULL && id != TOOL_OPTION_HELP && id != TOOL_OPTION_BAD ? option(call, id, value)
                                                                                 : tool_other_option(command, id);
    }
    if (code == TOOL_OK) code = open_job(call, argc, argv, needs);
    if (code == TOOL_OK) code = work(call);
    job_runner_clear(&call->runner);
    if (call->arena != NULL) est_arena_free(call->arena);
    return code;
}

tool_exit job_call_failed(const job_call *call, est_status status)
{
    if (status != EST_CANCELLED) return tool_failed(call->command, status);
    tool_note(call->command, "%s", est_error_message());
    return TOOL_INTERRUPTED;
}

est_status job_call_checkpoint(const job_call *call, char out[EST_CHECKPOINT_PATH_MAX])
{
    est_status status;

    if (call->checkpoint != NULL) {
        snprintf(out, EST_CHECKPOINT_PATH_MAX, "%s", call->checkpoint);
        return EST_OK;
    }
    status = est_checkpoint_latest(call->job.run.config.model_dir, out);
    if (status != EST_NOT_FOUND) return status;
    return est_fail(EST_NOT_FOUND, "there is no checkpoint in %s; run `estoc train` first",
                    call->job.run.config.model_dir);
}

/* --- metrics ------------------------------------------------------------------------------------------------------ */

static bool is_step(const char *name)
{
    return strcmp(name, "global_step") == 0;
}

est_status job_print_metrics(const est_metrics *metrics, double exact_auc)
{
    tool_table table  = { .right = 2 };
    est_strbuf value  = { 0 };
    est_status status = EST_OK;

    tool_table_begin(&table, (const char *const[]){ "metric", "value" }, 2);
    for (int i = 0; i < est_metrics_count(metrics) && status == EST_OK; i++) {
        const char *name = est_metrics_name(metrics, i);

        est_strbuf_reset(&value);
        if (is_step(name)) {
            est_strbuf_printf(&value, "%" PRId64, est_metrics_global_step(metrics));
        } else {
            tool_append_f32(&value, (float)est_metrics_value(metrics, i));
        }
        tool_table_cell(&table, "%s", name);
        tool_table_cell(&table, "%s", est_strbuf_text(&value));
        status = tool_table_row(&table);
    }
    if (status == EST_OK && !isnan(exact_auc)) {
        est_strbuf_reset(&value);
        tool_append_f32(&value, (float)exact_auc);
        tool_table_cell(&table, "exact_auc");
        tool_table_cell(&table, "%s", est_strbuf_text(&value));
        status = tool_table_row(&table);
    }
    if (status == EST_OK) status = tool_table_end(&table);
    tool_table_clear(&table);
    est_strbuf_clear(&value);
    return status;
}

void job_append_json_metrics(est_strbuf *out, const est_metrics *metrics, double exact_auc)
{
    est_strbuf_append(out, "{");
    for (int i = 0; i < est_metrics_count(metrics); i++) {
        const char *name = est_metrics_name(metrics, i);

        est_strbuf_append(out, i > 0 ? ", " : "");
        tool_append_json_text(out, name);
        est_strbuf_append(out, ": ");
        if (is_step(name)) {
            est_strbuf_printf(out, "%" PRId64, est_metrics_global_step(metrics));
        } else {
            tool_append_json_f64(out, est_metrics_value(metrics, i));
        }
    }
    if (!isnan(exact_auc)) {
        est_strbuf_append(out, ", \"exact_auc\": ");
        tool_append_json_f64(out, exact_auc);
    }
    est_strbuf_append(out, "}");
}
