/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc train`: trains, evaluates and exports the model of a job file. With TF_CONFIG it is one task of a cluster:
 * chief, worker, ps or evaluator, all with the same file. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "estimator/estimator.h"
#include "estoc/early_stopping.h"
#include "job_command.h"
#include "output.h"
#include "strategy/strategy.h"
#include "train/done_mark.h"

static const tool_option options[] = { JOB_OPTIONS, TOOL_COMMON_OPTIONS };

static est_status make_exporters(const job_call *call, est_exporter **out)
{
    for (int i = 0; i < call->job.exports.n; i++) {
        const job_export    *e          = &call->job.exports.data[i];
        est_exporter_options options_of = e->options;
        est_export_options export       = e->saved_model;

        export.input.parse     = est_parse_spec_features(call->runner.features);
        options_of.saved_model = &export;
        out[i]                 = e->type->make.exporter(e->name, &options_of);
        if (out[i] == NULL) return job_blame(EST_INVALID_ARGUMENT, e->node, "the export");
    }
    return EST_OK;
}

static est_status make_stops(const job_call *call, est_hook **out)
{
    const char *name = call->job.eval.spec.name;
    const char *dir  = name != NULL ? est_arena_printf(call->arena, "%s/eval_%s",
                                                       est_estimator_model_dir(call->runner.estimator), name)
                                    : NULL;

    if (name != NULL && dir == NULL) return est_no_memory();
    for (int i = 0; i < call->job.train.early_stopping.n; i++) {
        const job_stop            *s          = &call->job.train.early_stopping.data[i];
        est_early_stopping_options options_of = s->options;

        options_of.eval_dir = dir;
        out[i]              = s->type->make.stop(s, &options_of);
        if (out[i] == NULL) return job_blame(EST_INVALID_ARGUMENT, s->node, "the early stop");
    }
    return EST_OK;
}

static est_status train_and_evaluate(job_call *call, est_metrics **metrics)
{
    int            n = call->job.exports.n, n_stops = call->job.train.early_stopping.n;
    est_train_spec train_spec = call->job.train.spec;
    est_eval_spec  eval_spec  = call->job.eval.spec;
    est_exporter **exporters  = est_arena_alloc(call->arena, (size_t)(n + 1) * sizeof(est_exporter *));
    est_hook     **stops      = est_arena_alloc(call->arena, (size_t)(n_stops + 1) * sizeof(est_hook *));
    est_status     status;

    if (exporters == NULL || stops == NULL) return est_no_memory();
    status = make_exporters(call, exporters);
    if (status == EST_OK) status = make_stops(call, stops);
    train_spec.input_fn = eval_spec.input_fn = job_input;
    train_spec.input_user = eval_spec.input_user = &call->runner;
    train_spec.hooks                             = (est_hooks){ stops, n_stops };
    eval_spec.exporters                          = (est_exporters){ exporters, n };
    if (status == EST_OK) {
        status = est_train_and_evaluate(call->runner.estimator, &train_spec, &eval_spec, metrics);
    }
    for (int i = 0; i < n; i++) est_exporter_free(exporters[i]);
    for (int i = 0; i < n_stops; i++) est_hook_free(stops[i]);
    return status;
}

/* A model that was trained before had nothing to do and evaluated nothing; its metrics are printed nevertheless. */
static est_status evaluate_again(job_call *call, est_metrics **metrics)
{
    const est_task *task  = est_estimator_task(call->runner.estimator);
    int64_t         steps = call->job.eval.spec.steps;

    if (*metrics != NULL || !task->is_chief || task->num_worker_replicas != 1 || task->num_ps_replicas != 0)
        return EST_OK;
    return est_evaluate(call->runner.estimator,
                        EST_EVALUATE_OPTIONS(.input_fn = job_input, .input_user = &call->runner, .steps = steps,
                                             .name = call->job.eval.spec.name),
                        metrics);
}

/* A note about the end of a training without a limit of steps. Synchronous workers end together, when all have read
 * their shares. */
static void note_end(const job_call *call)
{
    const char *dir  = est_estimator_model_dir(call->runner.estimator);
    est_strbuf  path = { 0 };

    est_strbuf_printf(&path, "%s/" EST_DONE_FILE, dir);
    if (call->job.data.epochs != EST_FOREVER && est_strategy_num_replicas_in_sync(call->runner.strategy) < 2 &&
        est_estimator_task(call->runner.estimator)->num_worker_replicas > 1) {
        tool_note(&tool_train,
                  "train.max_steps is not given: every task reads its share of the rows %" PRId64 " times; "
                  "training ends when all have finished",
                  call->job.data.epochs);
    } else if (call->job.data.epochs == EST_FOREVER) {
        tool_note(&tool_train,
                  "neither data.epochs nor train.max_steps is given: training continues until it is stopped");
    } else if (est_file_exists(est_strbuf_text(&path))) {
        tool_note(
            &tool_train,
            "a training in %s has already ended: if its input was read to the end, all epochs are read again; set "
            "train.max_steps to limit it",
            dir);
    }
    est_strbuf_clear(&path);
}

static est_status train(job_call *call, est_metrics **metrics)
{
    const est_task *task      = est_estimator_task(call->runner.estimator);
    int64_t         max_steps = call->job.train.spec.max_steps;

    if (max_steps == 0 && !call->quiet) note_end(call);
    if (call->job.data.eval.data == NULL && strcmp(task->type, "evaluator") == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "this process is an evaluator task, but the job file has no data.eval");
    }
    if (call->job.data.eval.data != NULL || strcmp(task->type, "ps") == 0) { /* a ps task has a role only there */
        EST_TRY(train_and_evaluate(call, metrics));
        return evaluate_again(call, metrics);
    }
    return est_train(call->runner.estimator,
                     EST_TRAIN_OPTIONS(.input_fn = job_input, .input_user = &call->runner, .max_steps = max_steps));
}

/* With eval_strategy all workers have the metrics, and the chief prints them. */
static bool tells_metrics(const est_task *task)
{
    return task->is_chief || strcmp(task->type, "worker") != 0;
}

static est_status print(const job_call *call, const est_metrics *metrics)
{
    est_strbuf text = { 0 };
    est_status status;

    if (!call->json) {
        if (metrics == NULL || !tells_metrics(est_estimator_task(call->runner.estimator))) return EST_OK;
        return job_print_metrics(metrics, (double)NAN);
    }
    est_strbuf_append(&text, "{\"model_dir\": ");
    tool_append_json_text(&text, est_estimator_model_dir(call->runner.estimator));
    est_strbuf_append(&text, ", \"metrics\": ");
    if (metrics != NULL) {
        job_append_json_metrics(&text, metrics, (double)NAN);
    } else {
        est_strbuf_append(&text, "null");
    }
    est_strbuf_append(&text, "}\n");
    status = tool_write(&text);
    est_strbuf_clear(&text);
    return status;
}

static tool_exit run_job(job_call *call)
{
    est_metrics *metrics = NULL;
    est_status   status  = train(call, &metrics);
    tool_exit    code    = TOOL_OK;

    if (status != EST_OK) {
        code = job_call_failed(call, status);
    } else if ((status = print(call, metrics)) != EST_OK) {
        code = tool_failed(&tool_train, status);
    }
    est_metrics_free(metrics);
    return code;
}

static tool_exit train_run(int argc, char **argv)
{
    job_call call = { 0 };

    return job_call_run(&call, &tool_train, argc, argv, JOB_NEEDS_TRAIN | JOB_CATCHES_SIGNALS, NULL, run_job);
}

const tool_command tool_train = {
    .name      = "train",
    .summary   = "train, evaluate and export a canned model from a job file",
    .arguments = "[options] JOB.yaml",
    .description =
        "The job file describes the model, its features and its data; --help-job lists all keys. Paths in it are\n"
        "relative to the current directory. With data.eval the model is evaluated after checkpoints, and the last\n"
        "metrics are printed at the end. What evaluations and exports need (files, columns, names of metrics) is\n"
        "checked before the first step.\n"
        "\n"
        "All state is in run.model_dir: an interrupted (exit code 75) or killed run resumes from its last\n"
        "checkpoint. A run whose epochs are all done reads them again, unless train.max_steps is set.\n"
        "\n"
        "With TF_CONFIG the process is the task of the cluster that it names; all tasks take the same file.\n",
    .options  = options,
    .examples = "  estoc train census.yaml\n"
                "  estoc train census.yaml --set run.model_dir=/tmp/x --set train.max_steps=100 --json\n"
                "  estoc train census.yaml --print-config\n"
                "  estoc launch --ps 2 --workers 3 --evaluator -- estoc train census.yaml\n"
                "  estoc launch --no-chief --workers 2 -- estoc train census.yaml \\\n"
                "      --set run.strategy=multi_worker_mirrored --set run.eval_strategy=multi_worker_mirrored\n",
    .takes    = TOOL_TAKES_FILES,
    .run      = train_run,
};
