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

    if (base == NULL) base = est_arena_printf(call->arena, "%s/export/job", call->job.run.model_dir);
    if (base == NULL) return est_no_memory();
    EST_TRY(job_call_checkpoint(call, checkpoint));
    options_of.checkpoint_path = checkpoint;
    options_of.input.parse     = est_parse_spec_features(call->runner.features);
    return est_export_saved_model(call->runner.estimator, base, &options_of, path);
}

static tool_exit export_model(job_call *call, const char *base)
{
    char       path[EST_CHECKPOINT_PATH_MAX];
    est_status status = write_model(call, base, path);

    if (status != EST_OK) return job_call_failed(call, status);
    status = print(call, path);
    return status == EST_OK ? TOOL_OK : tool_failed(&tool_export, status);
}

static tool_exit run(int argc, char **argv)
{
    job_call    call;
    const char *value, *base = NULL;
    int         id;
    tool_exit   code   = TOOL_OK;
    est_status  status = job_call_begin(&call, &tool_export, argc);

    if (status != EST_OK) code = tool_failed(&tool_export, status);
    while (code == TOOL_OK && (id = tool_next_option(&tool_export, argc, argv, &value)) != TOOL_OPTION_END) {
        if (id == 'o') {
            base = value;
        } else if (!job_call_option(&call, id, value)) {
            code = tool_other_option(&tool_export, id);
        }
    }
    if (code == TOOL_OK) code = job_call_open(&call, argc, argv, JOB_NEEDS_MODEL_DIR | JOB_CATCHES_SIGNALS);
    if (code == TOOL_OK) code = export_model(&call, base);
    job_call_end(&call);
    return code;
}

const tool_command tool_export = {
    .name      = "export",
    .summary   = "write the SavedModel of a trained model of a job file",
    .arguments = "[options] JOB.yaml",
    .description =
        "Makes a SavedModel of the latest checkpoint of run.model_dir and prints its path. The model takes\n"
        "serialized tf.train.Examples with the features of the job, as TensorFlow Serving hands them over. It is\n"
        "checked before it gets its name: the exported graph is run and must answer as the model does.\n",
    .options  = options,
    .examples = "  estoc export census.yaml\n"
                "  estoc export census.yaml -o models/census\n",
    .takes    = TOOL_TAKES_FILES,
    .run      = run,
};
