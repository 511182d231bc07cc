/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc train`: trains the model of a job file, and evaluates and exports it beside, as the file says. With TF_CONFIG it is
 * the task that it says: chief, worker, ps or evaluator, all from the same file. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "estimator/estimator.h"
#include "estoc/early_stopping.h"
#include "job_command.h"
#include "output.h"
#include "train/done_mark.h"

static const tool_option options[] = { JOB_OPTIONS, TOOL_COMMON_OPTIONS };

/* 0 in a file means none; the library calls that off. */
static double secs(double value)
{
    return value == 0 ? EST_OFF : value;
}

static est_status make_exporters(const job_call *call, est_exporter **out)
{
    est_exporter_options options_of = { .struct_size = EST_STRUCT_SIZE(est_exporter_options) };

    options_of.saved_model.input.parse = est_parse_spec_features(call->runner.features,
                                                                 &options_of.saved_model.input.n_parse);
    for (int i = 0; i < call->job.exports.n; i++) {
        const job_export *e = &call->job.exports.data[i];

        options_of.exports_to_keep     = (int)e->keep;
        options_of.saved_model.as_text = e->as_text;
        options_of.metric              = e->metric;
        options_of.larger_is_better    = e->better == 1;
        switch (e->type) {
        case JOB_EXPORT_LATEST: out[i] = est_latest_exporter(e->name, &options_of); break;
        case JOB_EXPORT_FINAL: out[i] = est_final_exporter(e->name, &options_of); break;
        default: out[i] = est_best_exporter(e->name, &options_of); break;
        }
        if (out[i] == NULL) return EST_INVALID_ARGUMENT; /* which has been recorded */
    }
    return EST_OK;
}

static est_hook *make_stop(const job_stop *s, const est_early_stopping_options *options_of)
{
    switch (s->type) {
    case JOB_NO_DECREASE: return est_stop_if_no_decrease_hook(s->metric, s->steps, options_of);
    case JOB_NO_INCREASE: return est_stop_if_no_increase_hook(s->metric, s->steps, options_of);
    case JOB_HIGHER: return est_stop_if_higher_hook(s->metric, s->threshold, options_of);
    default: return est_stop_if_lower_hook(s->metric, s->threshold, options_of);
    }
}

static est_status make_stops(const job_call *call, est_hook **out)
{
    const char *name = call->job.eval.name;
    const char *dir  = name != NULL ? est_arena_printf(call->arena, "%s/eval_%s",
                                                       est_estimator_model_dir(call->runner.estimator), name)
                                    : NULL;

    if (name != NULL && dir == NULL) return est_no_memory();
    for (int i = 0; i < call->job.train.early_stopping.n; i++) {
        const job_stop *s = &call->job.train.early_stopping.data[i];

        out[i] = make_stop(
            s, EST_EARLY_STOPPING(.eval_dir = dir, .min_steps = s->min_steps,
                                  .run_every_secs  = isnan(s->run_every_secs) ? 0 : s->run_every_secs,
                                  .run_every_steps = s->run_every_steps != JOB_NO_INT ? s->run_every_steps : 0));
        if (out[i] == NULL) return EST_INVALID_ARGUMENT; /* which has been recorded */
    }
    return EST_OK;
}

static est_status train_and_evaluate(job_call *call, est_metrics **metrics)
{
    const job_spec *job = &call->job;
    int             n = job->exports.n, n_stops = job->train.early_stopping.n;
    int64_t         max_steps = job->train.max_steps != JOB_NO_INT ? job->train.max_steps : 0;
    est_exporter  **exporters = est_arena_alloc(call->arena, (size_t)(n + 1) * sizeof(est_exporter *));
    est_hook      **stops     = est_arena_alloc(call->arena, (size_t)(n_stops + 1) * sizeof(est_hook *));
    est_status      status;

    if (exporters == NULL || stops == NULL) return est_no_memory();
    status = make_exporters(call, exporters);
    if (status == EST_OK) status = make_stops(call, stops);
    if (status == EST_OK) {
        status = est_train_and_evaluate(call->runner.estimator,
                                        EST_TRAIN_SPEC(.input_fn = job_input, .input_user = &call->runner,
                                                       .max_steps = max_steps, .hooks = { stops, n_stops }),
                                        EST_EVAL_SPEC(.input_fn = job_input, .input_user = &call->runner,
                                                      .steps = job->eval.steps, .name = job->eval.name,
                                                      .exporters        = { exporters, n },
                                                      .start_delay_secs = secs(job->eval.start_delay_secs),
                                                      .throttle_secs    = secs(job->eval.throttle_secs)),
                                        metrics);
    }
    for (int i = 0; i < n; i++) est_exporter_free(exporters[i]);
    for (int i = 0; i < n_stops; i++) est_hook_free(stops[i]);
    return status;
}

/* One that was trained before had nothing to do, and evaluated nothing; its metrics are asked for all the same. */
static est_status evaluate_again(job_call *call, est_metrics **metrics)
{
    const est_task *task  = est_estimator_task(call->runner.estimator);
    int64_t         steps = call->job.eval.steps;

    if (*metrics != NULL || !task->is_chief || task->num_worker_replicas != 1 || task->num_ps_replicas != 0)
        return EST_OK;
    return est_evaluate(call->runner.estimator,
                        EST_EVALUATE_OPTIONS(.input_fn = job_input, .input_user = &call->runner,
                                             .steps = steps != EST_FOREVER ? steps : 0, .name = call->job.eval.name),
                        metrics);
}

/* Without a limit of steps: when does it end? Workers that train in step end together, when all have read their shares. */
static void note_end(const job_call *call)
{
    const char *dir = est_estimator_model_dir(call->runner.estimator);
    bool in_step    = call->job.run.strategy.node != NULL && call->job.run.strategy.name == JOB_MULTI_WORKER_MIRRORED;
    est_strbuf path = { 0 };

    est_strbuf_printf(&path, "%s/" EST_DONE_FILE, dir);
    if (call->job.data.epochs != EST_FOREVER && !in_step &&
        est_estimator_task(call->runner.estimator)->num_worker_replicas > 1) {
        tool_note(&tool_train,
                  "train.max_steps is not given: every task goes over its share of the rows %" PRId64 " times, and "
                  "training ends when all have",
                  call->job.data.epochs);
    } else if (call->job.data.epochs == EST_FOREVER) {
        tool_note(&tool_train,
                  "neither data.epochs nor train.max_steps is given: training goes on until it is stopped");
    } else if (est_file_exists(est_strbuf_text(&path))) {
        tool_note(&tool_train,
                  "training in %s has ended before: where its input was read to the end, it goes over all epochs "
                  "again; train.max_steps bounds it",
                  dir);
    }
    est_strbuf_clear(&path);
}

static est_status train(job_call *call, est_metrics **metrics)
{
    const est_task *task      = est_estimator_task(call->runner.estimator);
    int64_t         max_steps = call->job.train.max_steps != JOB_NO_INT ? call->job.train.max_steps : 0;

    if (max_steps == 0 && !call->quiet) note_end(call);
    if (call->job.data.eval.data == NULL && strcmp(task->type, "evaluator") == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "this process is an evaluator task, and the job has no data.eval");
    }
    if (call->job.data.eval.data != NULL || strcmp(task->type, "ps") == 0) { /* a ps task has a role only there */
        EST_TRY(train_and_evaluate(call, metrics));
        return evaluate_again(call, metrics);
    }
    return est_train(call->runner.estimator,
                     EST_TRAIN_OPTIONS(.input_fn = job_input, .input_user = &call->runner, .max_steps = max_steps));
}

/* Workers that evaluate together all have the metrics, and the chief tells them. */
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

static tool_exit run(int argc, char **argv)
{
    job_call    call;
    const char *value;
    int         id;
    tool_exit   code   = TOOL_OK;
    est_status  status = job_call_begin(&call, &tool_train, argc);

    if (status != EST_OK) code = tool_failed(&tool_train, status);
    while (code == TOOL_OK && (id = tool_next_option(&tool_train, argc, argv, &value)) != TOOL_OPTION_END) {
        if (!job_call_option(&call, id, value)) code = tool_other_option(&tool_train, id);
    }
    if (code == TOOL_OK) code = job_call_open(&call, argc, argv, JOB_NEEDS_TRAIN | JOB_CATCHES_SIGNALS);
    if (code == TOOL_OK) code = run_job(&call);
    job_call_end(&call);
    return code;
}

const tool_command tool_train = {
    .name      = "train",
    .summary   = "train a canned model from a job file, and evaluate and export it beside",
    .arguments = "[options] JOB.yaml",
    .description =
        "The job file says what the model is, of which features it is made, and where its data are; --help-job\n"
        "lists all keys. Paths in it are relative to the current directory. With data.eval the model is\n"
        "evaluated after checkpoints, and the last metrics are printed at the end. What evaluations and exports need\n"
        "is checked before the first step: files, columns, names of metrics.\n"
        "\n"
        "All state is in run.model_dir: a run that is interrupted (exit code 75) or killed goes on where its last\n"
        "checkpoint was made. One whose epochs are all done goes through them again, unless train.max_steps is set.\n"
        "\n"
        "With TF_CONFIG it is a task of a cluster, whichever that says; all tasks are given the same file.\n",
    .options  = options,
    .examples = "  estoc train census.yaml\n"
                "  estoc train census.yaml --set run.model_dir=/tmp/x --set train.max_steps=100 --json\n"
                "  estoc train census.yaml --print-config\n"
                "  estoc launch --ps 2 --workers 3 --evaluator -- estoc train census.yaml\n"
                "  estoc launch --no-chief --workers 2 -- estoc train census.yaml \\\n"
                "      --set run.strategy=multi_worker_mirrored --set run.eval_strategy=multi_worker_mirrored\n",
    .takes    = TOOL_TAKES_FILES,
    .run      = run,
};
