/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc evaluate`: the metrics of a trained model over the files for evaluation of its job. */
#include <math.h>

#include "exact_auc.h"
#include "job_command.h"
#include "output.h"

static const tool_option options[] = { JOB_OPTIONS, JOB_CHECKPOINT_OPTION, TOOL_COMMON_OPTIONS };

static est_status print(const job_call *call, const est_metrics *metrics, double area)
{
    est_strbuf text = { 0 };
    est_status status;

    if (!call->json) return job_print_metrics(metrics, area);
    job_append_json_metrics(&text, metrics, area);
    est_strbuf_append(&text, "\n");
    status = tool_write(&text);
    est_strbuf_clear(&text);
    return status;
}

static est_status evaluate(job_call *call)
{
    const est_eval_spec *eval    = &call->job.eval.spec;
    bool                 exact   = exact_auc_applies(&call->job.model);
    exact_auc            auc     = { 0 };
    est_hook            *hooks[] = { &auc.hook };
    est_metrics         *metrics = NULL;
    char                 path[EST_CHECKPOINT_PATH_MAX];
    est_status           status;

    EST_TRY(job_call_checkpoint(call, path));
    if (exact) EST_TRY(exact_auc_init(&auc, &call->job, call->runner.estimator));
    status = est_evaluate(call->runner.estimator,
                          EST_EVALUATE_OPTIONS(.input_fn = job_input, .input_user = &call->runner, .steps = eval->steps,
                                               .name = eval->name, .checkpoint_path = path, .hooks = { hooks, exact }),
                          &metrics);
    if (status == EST_OK) status = print(call, metrics, exact ? exact_auc_value(&auc) : (double)NAN);
    est_metrics_free(metrics);
    exact_auc_clear(&auc);
    return status;
}

static tool_exit evaluate_job(job_call *call)
{
    est_status status = evaluate(call);

    return status == EST_OK ? TOOL_OK : tool_failed(&tool_evaluate, status);
}

static tool_exit evaluate_run(int argc, char **argv)
{
    job_call call = { 0 };

    return job_call_run(&call, &tool_evaluate, argc, argv, JOB_NEEDS_EVAL | JOB_NEEDS_MODEL_DIR, NULL, evaluate_job);
}

const tool_command tool_evaluate = {
    .name      = "evaluate",
    .summary   = "print the metrics of a trained model of a job file",
    .arguments = "[options] JOB.yaml",
    .description =
        "Runs the latest checkpoint of run.model_dir over the files of data.eval and prints the metrics. They are\n"
        "also written to the event files of the directory eval, or eval_<name> with eval.name; a warning says if\n"
        "that directory cannot be written. A classifier of two classes has one more metric, exact_auc: auc uses\n"
        "200 thresholds only, exact_auc every row.\n",
    .options  = options,
    .examples = "  estoc evaluate census.yaml\n"
                "  estoc evaluate census.yaml --set data.eval=other.csv --set eval.name=other --json\n",
    .takes    = TOOL_TAKES_FILES,
    .run      = evaluate_run,
};
