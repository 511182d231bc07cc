/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc evaluate`: the metrics of a trained model over the files for evaluation of its job. */
#include "job_command.h"
#include "output.h"

static const tool_option options[] = { JOB_OPTIONS, JOB_CHECKPOINT_OPTION, TOOL_COMMON_OPTIONS };

static est_status print(const job_call *call, const est_metrics *metrics)
{
    est_strbuf text = { 0 };
    est_status status;

    if (!call->json) return job_print_metrics(metrics);
    job_append_json_metrics(&text, metrics);
    est_strbuf_append(&text, "\n");
    status = tool_write(&text);
    est_strbuf_clear(&text);
    return status;
}

static est_status evaluate(job_call *call)
{
    const job_eval *eval    = &call->job.eval;
    est_metrics    *metrics = NULL;
    char            path[EST_CHECKPOINT_PATH_MAX];
    est_status      status;

    EST_TRY(job_call_checkpoint(call, path));
    EST_TRY(est_evaluate(call->runner.estimator,
                         EST_EVALUATE_OPTIONS(.input_fn = job_input, .input_user = &call->runner,
                                              .steps = eval->steps != EST_FOREVER ? eval->steps : 0, .name = eval->name,
                                              .checkpoint_path = path),
                         &metrics));
    status = print(call, metrics);
    est_metrics_free(metrics);
    return status;
}

static tool_exit run(int argc, char **argv)
{
    job_call    call;
    const char *value;
    int         id;
    tool_exit   code   = TOOL_OK;
    est_status  status = job_call_begin(&call, &tool_evaluate, argc);

    if (status != EST_OK) code = tool_failed(&tool_evaluate, status);
    while (code == TOOL_OK && (id = tool_next_option(&tool_evaluate, argc, argv, &value)) != TOOL_OPTION_END) {
        if (!job_call_option(&call, id, value)) code = tool_other_option(&tool_evaluate, id);
    }
    if (code == TOOL_OK) code = job_call_open(&call, argc, argv, JOB_NEEDS_EVAL | JOB_NEEDS_MODEL_DIR);
    if (code == TOOL_OK && (status = evaluate(&call)) != EST_OK) code = tool_failed(&tool_evaluate, status);
    job_call_end(&call);
    return code;
}

const tool_command tool_evaluate = {
    .name      = "evaluate",
    .summary   = "print the metrics of a trained model of a job file",
    .arguments = "[options] JOB.yaml",
    .description =
        "Runs the latest checkpoint of run.model_dir over the files of data.eval and prints the metrics. They are\n"
        "also written to the event files of the directory eval, or eval_<name> with eval.name.\n",
    .options  = options,
    .examples = "  estoc evaluate census.yaml\n"
                "  estoc evaluate census.yaml --set data.eval=other.csv --set eval.name=other --json\n",
    .takes    = TOOL_TAKES_FILES,
    .run      = run,
};
