/* SPDX-License-Identifier: Apache-2.0
 *
 * One job file for all tasks of a cluster: chief, worker, parameter server and evaluator are `estoc train` with the same
 * arguments, started by `estoc launch`. */
#include "cli/job_data.h"

#define TOGETHER "--set", "run.max_worker_delay_secs=0", "--set", "eval.start_delay_secs=0"

/* The lines of one task, without its name. */
static const char *lines_of(const char *text, const char *task)
{
    static char out[1 << 16];
    size_t      size = 0, width = strlen(task);

    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *bar = strstr(line, " | ");

        if (strncmp(line, task, width) != 0 || bar == NULL) continue;
        size += (size_t)snprintf(out + size, sizeof out - size, "%.*s\n", (int)strcspn(bar + 3, "\n"), bar + 3);
        assert_true(size < sizeof out);
    }
    out[size] = '\0';
    return out;
}

/* All train the one model, the evaluator finds it as good as one that was trained alone, and all leave. */
static void test_all_roles(void **state)
{
    const char *path = changed("seed: 3", "seed: 3");
    tool_run    run  = TOOL(0, "launch", "--ps", "2", "--workers", "1", "--evaluator", "--", EST_TOOL, "train", path,
                            DIR("all"), TOGETHER, "--json");
    est_json   *found;

    (void)state;
    found = tool_json(lines_of(run.out, "evaluator:0"));
    assert_true(metric(found, "metrics.accuracy") > 0.97);
    assert_true(metric(found, "metrics.global_step") == 150);
    est_json_free(found);
    tool_expect_text(lines_of(run.out, "chief:0"), "{\"model_dir\": \"all\", \"metrics\": null}\n",
                     "the chief's output");
    tool_expect_text(lines_of(run.out, "worker:0"), "{\"model_dir\": \"all\", \"metrics\": null}\n",
                     "the worker's output");
    tool_expect_part(lines_of(run.err, "ps:1"), "listens at tls://", "the log of ps:1");
    tool_expect_part(lines_of(run.err, "worker:0"), "Loss for final step", "the worker's log");
    assert_null(strstr(run.err, "train.max_steps is not given"));
    /* What every task would say of every session tells nobody anything. */
    tool_expect_part(lines_of(run.err, "chief:0"), "Using config: ", "the chief's log");
    assert_null(strstr(lines_of(run.err, "worker:0"), "Using config: "));
    assert_null(strstr(lines_of(run.err, "chief:0"), "local_init_op"));
    assert_null(strstr(lines_of(run.err, "chief:0"), "Calling checkpoint listeners"));
    tool_expect_part(lines_of(run.err, "ps:0"), "ps:0: worker:0 has left\n", "the log of ps:0");
    assert_null(strstr(run.err, " is gone: "));
    tool_run_free(&run);
    assert_int_equal(access("all/model.ckpt-150.index", R_OK), 0);

    /* What was trained there is a model like any other, for one task as for a tool on its own. */
    setenv("TF_CONFIG",
           "{\"cluster\": {\"chief\": [\"localhost:1\"], \"ps\": [\"localhost:2\"]}, "
           "\"task\": {\"type\": \"chief\", \"index\": 0}}",
           1);
    run = TOOL(0, "evaluate", path, DIR("all"), "--json", "--quiet");
    unsetenv("TF_CONFIG");
    found = tool_json(run.out);
    assert_true(metric(found, "accuracy") > 0.97 && metric(found, "global_step") == 150);
    est_json_free(found);
    tool_run_free(&run);
}

/* One file, alone and in a cluster whose trainers make each step together; a file with a strategy is no file for clusters only. */
static void test_together(void **state)
{
    const char *path = changed("seed: 3",
                               "seed: 3, peer_silence_secs: 30, strategy: {sync_replicas: 2, "
                               "consistent_checkpoints: true, partitioner: {type: fixed_shards, shards: 2}}");
    tool_run    run  = TOOL(0, "train", path, DIR("alone"), "--json");
    est_json   *found;

    (void)state;
    found = tool_json(run.out);
    assert_true(metric(found, "metrics.global_step") == 150);
    est_json_free(found);
    tool_run_free(&run);

    run = TOOL(0, "launch", "--ps", "1", "--workers", "1", "--transport", "tcp", "--", EST_TOOL, "train", path,
               DIR("together"), TOGETHER);
    tool_expect_part(lines_of(run.err, "chief:0"), "\"sync_replicas\": 2, ", "the chief's log");
    tool_run_free(&run);
    run   = TOOL(0, "evaluate", path, DIR("together"), "--json", "--quiet");
    found = tool_json(run.out);
    assert_true(metric(found, "accuracy") > 0.97 && metric(found, "global_step") == 150);
    est_json_free(found);
    tool_run_free(&run);
}

/* Without data to evaluate on there is no evaluator, and the others do not need one. */
static void test_no_eval(void **state)
{
    const char *path = changed("  eval: eval.csv\n", "");
    tool_run run = TOOL(0, "launch", "--ps", "1", "--workers", "1", "--transport", "tcp", "--", EST_TOOL, "train", path,
                        DIR("no-eval"), TOGETHER, "--set", "export=[]");

    (void)state;
    tool_run_free(&run);
    assert_int_equal(access("no-eval/model.ckpt-150.index", R_OK), 0);
    setenv("TF_CONFIG",
           "{\"cluster\": {\"chief\": [\"localhost:1\"]}, \"task\": {\"type\": \"evaluator\", \"index\": 0}}", 1);
    TOOL_OUT(1, "", "this process is an evaluator task, and the job has no data.eval\n", "train", path, DIR("no-eval"),
             "--set", "export=[]", "-q");
    unsetenv("TF_CONFIG");
}

/* A limit by epochs is each task's own, which is said; run.protocol is what tasks talk over. */
static void test_epochs(void **state)
{
    const char *path = changed("train: {max_steps: 150}\n", "");
    tool_run    run  = TOOL(0, "launch", "--ps", "1", "--workers", "1", "--", EST_TOOL, "train", path, DIR("epochs"),
                            TOGETHER, "--set", "data.epochs=2", "--set", "run.protocol=tcp");

    (void)state;
    tool_expect_part(lines_of(run.err, "chief:0"),
                     "every task goes over its share of the rows 2 times, and training ends when the chief has",
                     "the chief's log");
    tool_expect_part(lines_of(run.err, "ps:0"), "listens at tcp://", "the log of ps:0");
    tool_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_roles),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_no_eval),
        cmocka_unit_test(test_epochs),
    };

    return cmocka_run_group_tests(tests, make_files, leave_dir);
}
