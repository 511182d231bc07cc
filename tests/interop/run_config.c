/* SPDX-License-Identifier: Apache-2.0
 *
 * RunConfig, TF_CONFIG and the hooks against tf.estimator's: the same task for the same description, the same defaults,
 * the same refusals. The Python side has the cases and says where the two are meant to differ. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "estimator/run_config.h"
#include "estoc/estimator.h"
#include "estoc/log.h"
#include "support/estimator_test.h"
#include "support/interop.h"

/* Sets a numeric field from "field" and "12", "0.5" or "off". */
static void set_number(est_run_config *c, const char *field, const char *text)
{
    double value = strcmp(text, "off") == 0 ? EST_OFF : strtod(text, NULL);

    if (strcmp(field, "save_summary_steps") == 0)
        c->save_summary_steps = (int64_t)value;
    else if (strcmp(field, "save_checkpoints_steps") == 0)
        c->save_checkpoints_steps = (int64_t)value;
    else if (strcmp(field, "save_checkpoints_secs") == 0)
        c->save_checkpoints_secs = value;
    else if (strcmp(field, "keep_checkpoint_max") == 0)
        c->keep_checkpoint_max = (int32_t)value;
    else if (strcmp(field, "keep_checkpoint_every_n_hours") == 0)
        c->keep_checkpoint_every_n_hours = value;
    else if (strcmp(field, "log_step_count_steps") == 0)
        c->log_step_count_steps = (int64_t)value;
    else if (strcmp(field, "session_creation_timeout_secs") == 0)
        c->session_creation_timeout_secs = value;
    else if (strcmp(field, "max_worker_delay_secs") == 0)
        c->max_worker_delay_secs = (int32_t)value;
    else if (strcmp(field, "seed") == 0)
        c->seed = (uint64_t)value;
    else
        fail_msg("%s is not a field", field);
}

/* A case is blobs: a name, its value, and so on. */
static void say_case(est_str blob, est_strbuf *said)
{
    est_run_config c      = { .struct_size = sizeof c }, out;
    est_arena     *arena  = est_arena_create();
    const char    *beside = NULL;
    est_resolver  *resolver;
    est_strbuf     text = { 0 };
    interop_blobs  parts;

    assert_non_null(arena);
    unsetenv("TF_CONFIG");
    interop_blobs_of(blob, &parts);
    for (size_t i = 0; i + 1 < parts.n; i += 2) {
        char *name  = est_arena_printf(arena, "%.*s", (int)parts.at[i].size, parts.at[i].data);
        char *value = est_arena_printf(arena, "%.*s", (int)parts.at[i + 1].size, parts.at[i + 1].data);

        assert_true(name != NULL && value != NULL);
        if (strcmp(name, "TF_CONFIG") == 0)
            setenv(name, value, 1);
        else if (strcmp(name, "beside") == 0)
            beside = value;
        else if (strcmp(name, "model_dir") == 0)
            c.model_dir = value;
        else if (strcmp(name, "protocol") == 0)
            c.protocol = value;
        else
            set_number(&c, name, value);
    }
    interop_blobs_clear(&parts);
    if (est_run_config_resolve(&c, beside, arena, &resolver, &out) == EST_OK) {
        est_run_config_text(&out, est_resolver_task(resolver), &text);
        est_resolver_free(resolver);
    } else {
        est_strbuf_printf(&text, "error: %s", est_error_message());
    }
    interop_blob(said, est_strbuf_text(&text), text.size);
    est_strbuf_clear(&text);
    est_arena_free(arena);
}

static void compare(const char *write, const char *check)
{
    interop_blobs cases;
    est_strbuf    said = { 0 };

    est_log_set_level(EST_LOG_OFF);
    interop_ask(write);
    interop_blobs_read("cases", &cases);
    assert_true(cases.n > 0);
    for (size_t i = 0; i < cases.n; i++) say_case(cases.at[i], &said);
    interop_blobs_clear(&cases);
    interop_save("said", &said);
    interop_ask(check);
}

TEST(tasks)
{
    compare("write_tasks", "check_tasks");
}

TEST(fields)
{
    compare("write_fields", "check_fields");
}

TEST(model_dirs)
{
    compare("write_model_dirs", "check_model_dirs");
}

/* --- hooks -------------------------------------------------------------------------------------------------------- */

static est_hook *saver(int64_t steps, double secs)
{
    return est_checkpoint_saver_hook(interop_path("saved"), EST_CHECKPOINT_SAVER(.steps = steps, .secs = secs));
}

static est_hook *summaries(int64_t steps, double secs)
{
    return est_summary_saver_hook(EST_EVERY(.steps = steps, .secs = secs));
}

static est_hook *profiler(int64_t steps, double secs)
{
    return est_profiler_hook(EST_PROFILER(.steps = steps, .secs = secs, .output_dir = interop_path("profile")));
}

static est_hook *logging(int64_t steps, double secs)
{
    const est_named_node node = { .name = "loss" };

    return est_logging_hook((est_named_nodes){ &node, 1 }, EST_LOGGING(.every_n_iter = steps, .every_n_secs = secs));
}

/* Says which settings of how often a hook takes: "hook steps secs 1". */
static void say_often(est_strbuf *said, const char *name, est_hook *(*make)(int64_t steps, double secs))
{
    static const struct {
        int64_t steps;
        double  secs;
    } often[] = { { 0, 0 }, { 3, 0 }, { 0, 4 }, { 3, 4 } };

    for (size_t i = 0; i < sizeof often / sizeof often[0]; i++) {
        est_hook *hook = make(often[i].steps, often[i].secs);
        char      line[64];
        int n = snprintf(line, sizeof line, "%s %d %d %d", name, (int)often[i].steps, (int)often[i].secs, hook != NULL);

        interop_blob(said, line, (size_t)n);
        est_hook_free(hook);
    }
}

/* A training with hooks that have nothing set but how often; Python looks at what they leave. */
TEST(hooks)
{
    est_strbuf     said     = { 0 };
    est_estimator *e        = NULL;
    est_hook      *hooks[2] = { saver(1, 0), profiler(1, 0) };

    est_log_set_level(EST_LOG_OFF);
    interop_check(est_estimator_create(
        est_test_model,
        EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = interop_path("run"), .quiet = true, .cluster_json = "{}")),
        &e));
    interop_check(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 3, .hooks = { hooks, 2 })));
    est_estimator_free(e);
    est_hook_free(hooks[0]);
    est_hook_free(hooks[1]);
    say_often(&said, "CheckpointSaverHook", saver);
    say_often(&said, "SummarySaverHook", summaries);
    say_often(&said, "ProfilerHook", profiler);
    say_often(&said, "LoggingTensorHook", logging);
    interop_save("said", &said);
    interop_ask("check_hooks");
}

int main(void)
{
    return INTEROP_MAIN("run_config");
}
