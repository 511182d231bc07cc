/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc export`: one SavedModel of a trained model. It takes serialized Examples with the features of the job. */
#include <stdio.h>

#include "job_command.h"
#include "output.h"

static const tool_option options[] = { { "output", 'o', "FILE",
                                         "the directory that gets the new one; default: export/job in\nrun.model_dir" },
                                       JOB_OPTIONS,
                                       JOB_CHECKPOINT_OPTION,
                                       TOOL_COMMON_OPTIONS };

typedef struct export_call {
    job_call    job;
    const char *base; /* the directory of the new one; NULL: export/job */
} export_call;

static est_status print(const job_call *call, const char *path)
{
    est_strbuf text = { 0 };
    est_status status;

    if (call->json) {
        est_strbuf_append(&text, "{\"path\": ");
        tool_append_json_text(&text, path);
        est_strbuf_append(&text, "}\n");
    } else {
        est_strbuf_printf(&text, "%s\n", path);
    }
    status = tool_write(&text);
    est_strbuf_clear(&text);
    return status;
}

static est_status write_model(job_call *call, const char *base, char path[EST_CHECKPOINT_PATH_MAX])
{
    est_export_options options_of = { .struct_size = EST_STRUCT_SIZE(est_export_options) };
    char               checkpoint[EST_CHECKPOINT_PATH_MAX];

    if (base == NULL) base = est_arena_printf(call->arena, "%s/export/job", call->job.run.config.model_dir);
    if (base == NULL) return est_no_memory();
    EST_TRY(job_call_checkpoint(call, checkpoint));
    options_of.checkpoint_path = checkpoint;
    options_of.input.parse     = est_parse_spec_features(call->runner.features);
    return est_export_saved_model(call->runner.estimator, base, &options_of, path);
}

static tool_exit export_model(job_call *call)
{
    char       path[EST_CHECKPOINT_PATH_MAX];
    est_status status = write_model(call, EST_CONTAINER_OF(call, export_call, job)->base, path);

    if (status != EST_OK) return job_call_failed(call, status);
    status = print(call, path);
    return status == EST_OK ? TOOL_OK : tool_failed(&tool_export, status);
}

static tool_exit take_option(job_call *call, int id, const char *value)
{
    (void)id; /* -o */
    EST_CONTAINER_OF(call, export_call, job)->base = value;
    return TOOL_OK;
}

static tool_exit export_run(int argc, char **argv)
{
    export_call call = { 0 };

    return job_call_run(&call.job, &tool_export, argc, argv, JOB_NEEDS_MODEL_DIR | JOB_CATCHES_SIGNALS, take_option,
                        export_model);
}

const tool_command tool_export = {
    .name      = "export",
    .summary   = "write the SavedModel of a trained model of a job file",
    .arguments = "[options] JOB.yaml",
    .description =
        "Makes a SavedModel of the latest checkpoint of run.model_dir and prints its path. The model takes\n"
        "serialized tf.train.Examples with the features of the job, as TensorFlow Serving sends them. The export\n"
        "gets its name after a check: the exported graph runs and must give the predictions of the model.\n",
    .options  = options,
    .examples = "  estoc export census.yaml\n"
                "  estoc export census.yaml -o models/census\n",
    .takes    = TOOL_TAKES_FILES,
    .run      = export_run,
};
