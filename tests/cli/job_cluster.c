/* SPDX-License-Identifier: Apache-2.0
 *
 * One job file for all tasks of a cluster: chief, worker, parameter server and evaluator are `estoc train` with the
 * same arguments, started by `estoc launch`. */
#include <float.h>

#include "cli/job_data.h"
#include "estoc/checkpoint.h"

#define NO_DELAY "--set", "run.max_worker_delay_secs=0", "--set", "eval.start_delay_secs=0"

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
TEST(all_roles)
{
    const char *path = changed("seed: 3", "seed: 3");
    tool_run    run  = TOOL(0, "launch", "--ps", "2", "--workers", "1", "--evaluator", "--", EST_TOOL, "train", path,
                            DIR("all"), NO_DELAY, "--json");
    est_json   *found;

    found = tool_json(lines_of(run.out, "evaluator:0"));
    assert_true(metric(found, "metrics.accuracy") > 0.97);
    assert_true(metric(found, "metrics.global_step") == 150);
    est_json_free(found);
    tool_expect_text(lines_of(run.out, "chief:0"), "{\"model_dir\": \"all\", \"metrics\": null}\n",
                     "the chief's output");
    tool_expect_text(lines_of(run.out, "worker:0"), "{\"model_dir\": \"all\", \"metrics\": null}\n",
                     "the worker's output");
    tool_expect_part(lines_of(run.err, "ps:1"), "listens at tls://", "the log of ps:1");
    if (strstr(lines_of(run.err, "worker:0"), "Nothing left to do") == NULL) { /* the chief may make all steps */
        tool_expect_part(lines_of(run.err, "worker:0"), "Loss for final step", "the worker's log");
    }
    assert_null(strstr(run.err, "train.max_steps is not given"));
    /* What every task would say of every session tells nobody anything. */
    tool_expect_part(lines_of(run.err, "chief:0"), "Using config: ", "the chief's log");
    assert_null(strstr(lines_of(run.err, "worker:0"), "Using config: "));
    assert_null(strstr(lines_of(run.err, "chief:0"), "local_init_op"));
    assert_null(strstr(lines_of(run.err, "chief:0"), "Calling checkpoint listeners"));
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

/* What one process evaluates and exports at the end, a cluster without an evaluator does, too: the task that leads. */
static void expect_evaluated(const tool_run *run, const char *task, const char *export)
{
    est_json *found = tool_json(lines_of(run->out, task));

    if (!(metric(found, "metrics.accuracy") > 0.97)) fail_msg("accuracy is %g", metric(found, "metrics.accuracy"));
    assert_true(metric(found, "metrics.global_step") == 150);
    est_json_free(found);
    tool_expect_part(lines_of(run->err, task),
                     "No evaluator is there yet. Unless one is started, the model is evaluated", "the log");
    assert_int_equal(access(export, R_OK), 0);
}

/* One file, alone and in a cluster with sync_replicas: a file with a strategy is not for clusters only. */
TEST(sync_replicas)
{
    const char *path = changed("seed: 3",
                               "seed: 3, peer_silence_secs: 30, strategy: {sync_replicas: 2, "
                               "consistent_checkpoints: true, partitioner: {type: fixed_shards, shards: 2}}");
    tool_run    run  = TOOL(0, "train", path, DIR("alone"), "--json");
    est_json   *found;

    found = tool_json(run.out);
    assert_true(metric(found, "metrics.global_step") == 150);
    est_json_free(found);
    tool_run_free(&run);

    run = TOOL(0, "launch", "--ps", "1", "--workers", "1", "--transport", "tcp", "--", EST_TOOL, "train", path,
               DIR("sync_replicas"), NO_DELAY, "--json");
    tool_expect_part(lines_of(run.err, "chief:0"), "\"sync_replicas\": 2, ", "the chief's log");
    expect_evaluated(&run, "chief:0", "sync_replicas/export/final");
    tool_run_free(&run);
    run   = TOOL(0, "evaluate", path, DIR("sync_replicas"), "--json", "--quiet");
    found = tool_json(run.out);
    assert_true(metric(found, "accuracy") > 0.97 && metric(found, "global_step") == 150);
    est_json_free(found);
    tool_run_free(&run);
}

/* Without data to evaluate on there is no evaluator, and the others do not need one. */
TEST(no_eval)
{
    const char *path = changed("  eval: eval.csv\n", "");
    tool_run run = TOOL(0, "launch", "--ps", "1", "--workers", "1", "--transport", "tcp", "--", EST_TOOL, "train", path,
                        DIR("no-eval"), NO_DELAY, "--set", "export=[]");

    tool_run_free(&run);
    assert_int_equal(access("no-eval/model.ckpt-150.index", R_OK), 0);
    setenv("TF_CONFIG",
           "{\"cluster\": {\"chief\": [\"localhost:1\"]}, \"task\": {\"type\": \"evaluator\", \"index\": 0}}", 1);
    TOOL_OUT(1, "", "this process is an evaluator task, but the job file has no data.eval\n", "train", path,
             DIR("no-eval"), "--set", "export=[]", "-q");
    unsetenv("TF_CONFIG");
}

/* A limit by epochs is each task's own, which is said; run.protocol is what tasks talk over. */
TEST(epochs)
{
    const char *path = changed("train: {max_steps: 150}\n", "");
    tool_run    run  = TOOL(0, "launch", "--ps", "1", "--workers", "1", "--", EST_TOOL, "train", path, DIR("epochs"),
                            NO_DELAY, "--set", "data.epochs=2", "--set", "run.protocol=tcp");

    tool_expect_part(lines_of(run.err, "chief:0"),
                     "every task reads its share of the rows 2 times; training ends when all have finished",
                     "the chief's log");
    tool_expect_part(lines_of(run.err, "ps:0"), "listens at tcp://", "the log of ps:0");
    tool_run_free(&run);
}

/* --- multi-worker training ---------------------------------------------------------------------------------------- */

#define N_IDS  60
#define RATE   0x1p-12
#define N_OF_A 36 /* rows of the first file: the second worker has fewer */

/* Every row has an id of its own, and pulls its weight and the bias towards 1. */
static const char counting[] = "model:\n"
                               "  type: linear_regressor\n"
                               "  columns: [id]\n"
                               "  optimizer: {name: SGD, learning_rate: 0.000244140625}\n"
                               "features: {id: {type: identity, buckets: 60}}\n"
                               "data: {train: ids-*.csv, label: y, batch: 4, epochs: 1, shuffle: 0}\n"
                               "run: {strategy: multi_worker_mirrored, max_worker_delay_secs: 0}\n";

static void write_ids(const char *name, int from, int to)
{
    est_strbuf text = { 0 };

    est_strbuf_append(&text, "id,y\n");
    for (int i = from; i < to; i++) est_strbuf_printf(&text, "%d,1\n", i);
    tool_write_text(name, est_strbuf_text(&text));
    est_strbuf_clear(&text);
}

/* How often each row was trained with. A step moves the weight of a row by 2 RATE (1 - bias - weight) / rows of the
 * step, and the bias by less than 2 RATE in all. In the steps of some rows, from..to, one worker had less than a batch,
 * or none: 4 rows, not 8. */
static void expect_seen(const char *dir, int64_t steps, int times, int from, int to)
{
    double          taken = 2 * RATE * (double)steps;
    est_checkpoint *checkpoint;
    est_tensor     *weights;
    char            path[EST_CHECKPOINT_PATH_MAX], want[EST_CHECKPOINT_PATH_MAX];

    tool_check(est_checkpoint_latest(dir, path));
    snprintf(want, sizeof want, "%s/model.ckpt-%d", dir, (int)steps);
    assert_string_equal(path, want);
    tool_check(est_checkpoint_open(path, &checkpoint));
    tool_check(est_checkpoint_read(checkpoint, "linear/linear_model/id/weights", &weights));
    assert_int_equal(est_tensor_count(weights), N_IDS);
    for (int i = 0; i < N_IDS; i++) {
        double seen = (double)((const float *)est_tensor_data(weights))[i] * (i >= from && i < to ? 4 : 8) / (2 * RATE);

        if (!(seen <= times && seen >= times * (1 - taken))) fail_msg("row %d was seen %g times in %s", i, seen, dir);
    }
    est_tensor_free(weights);
    est_checkpoint_close(checkpoint);
}

#define WORKERS "launch", "--no-chief", "--workers", "2", "--transport", "tcp", "--", EST_TOOL, "train"

/* An epoch of two workers is every row once, by files or by rows, also where one has less than the other. */
TEST(epoch)
{
    const char *path = put("ids.yaml", counting);
    tool_run    run;

    write_ids("ids-a.csv", 0, N_OF_A);
    write_ids("ids-b.csv", N_OF_A, N_IDS);
    run = TOOL(0, "launch", "--no-chief", "--workers", "2", "--", EST_TOOL, "train", path, DIR("by-files"));
    assert_null(strstr(run.err, "train.max_steps is not given"));
    tool_expect_part(lines_of(run.err, "worker:1"), "rank 1 of 2", "the log of worker:1");
    tool_run_free(&run);
    expect_seen("by-files", N_OF_A / 4, 1, N_IDS - N_OF_A, N_OF_A);

    run = TOOL(0, WORKERS, path, DIR("by-rows"), "--set", "data.autoshard=data");
    tool_run_free(&run);
    expect_seen("by-rows", 8, 1, 7 * 8, N_IDS);

    run = TOOL(0, WORKERS, path, DIR("all-rows"), "--set", "data.autoshard=off");
    tool_run_free(&run);
    expect_seen("all-rows", N_IDS / 4, 2, 0, 0);

    /* One file is not enough for two: its rows are dealt out, unless files are asked for. */
    assert_int_equal(remove(tool_path("ids-b.csv")), 0);
    write_ids("ids-a.csv", 0, N_IDS);
    run = TOOL(0, WORKERS, path, DIR("one-file"));
    tool_run_free(&run);
    expect_seen("one-file", 8, 1, 7 * 8, N_IDS);
    run = TOOL(1, WORKERS, path, DIR("no-files"), "--set", "data.autoshard=file");
    tool_expect_part(run.err,
                     "data.autoshard is file, and there are 1 files for 2 workers, as ids-*.csv; make more files, or",
                     "standard error");
    tool_run_free(&run);
}

/* Multi-worker training without run.eval_strategy: worker 0 evaluates alone. */
TEST(evaluate_alone)
{
    const char *path = changed("seed: 3", "seed: 3, strategy: {name: multi_worker_mirrored}");
    tool_run    run  = TOOL(0, "launch", "--no-chief", "--workers", "2", "--", EST_TOOL, "train", path, DIR("first"),
                            NO_DELAY, "--json");

    expect_evaluated(&run, "worker:0", "first/export/final");
    tool_expect_text(lines_of(run.out, "worker:1"), "{\"model_dir\": \"first\", \"metrics\": null}\n",
                     "the output of worker 1");
    tool_run_free(&run);
}

/* Workers that evaluate together count every row once: counts and what follows from them are as one process has
 * them. */
TEST(evaluate_multi_worker)
{
    static const char *const exact[] = { "accuracy",    "accuracy_baseline", "auc",       "auc_precision_recall",
                                         "global_step", "label/mean",        "precision", "recall" };
    const char *path = changed("seed: 3", "seed: 3, strategy: &s {name: multi_worker_mirrored}, eval_strategy: *s");
    tool_run run = TOOL(0, "launch", "--no-chief", "--workers", "2", "--", EST_TOOL, "train", path, DIR("multi_worker"),
                        NO_DELAY, "--json", "--set", "train.max_steps=60");
    est_json *first = tool_json(lines_of(run.out, "worker:0")), *second = tool_json(lines_of(run.out, "worker:1")),
             *alone;
    char   name[64];
    double loss;

    tool_run_free(&run);
    assert_true(metric(first, "metrics.global_step") == 60);
    run   = TOOL(0, "evaluate", path, DIR("multi_worker"), "--json", "--quiet");
    alone = tool_json(run.out);
    tool_run_free(&run);
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++) {
        snprintf(name, sizeof name, "metrics.%s", exact[i]);
        if (metric(first, name) != metric(alone, exact[i]) || metric(second, name) != metric(alone, exact[i])) {
            fail_msg("%s is %.9g, %.9g and %.9g", exact[i], metric(first, name), metric(second, name),
                     metric(alone, exact[i]));
        }
    }
    /* Sums of as many numbers in another order. */
    loss = metric(alone, "average_loss");
    assert_true(fabs(metric(first, "metrics.average_loss") - loss) <= N_ROWS * (double)FLT_EPSILON * loss);
    est_json_free(first);
    est_json_free(second);
    est_json_free(alone);
    assert_int_equal(access("multi_worker/export/final", R_OK), 0);
    run = TOOL(0, "launch", "--no-chief", "--workers", "2", "--", EST_TOOL, "train", path, DIR("multi_worker"),
               NO_DELAY, "--set", "train.max_steps=70"); /* for people one of them says it, the chief */
    tool_expect_part(lines_of(run.out, "worker:0"), "accuracy", "standard output of worker 0");
    tool_expect_text(lines_of(run.out, "worker:1"), "", "standard output of worker 1");
    tool_run_free(&run);
}

int main(void)
{
    return est_test_run_apart(make_files, leave_dir);
}
