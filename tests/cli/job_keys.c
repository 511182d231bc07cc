/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of job files at work: that each changes what it says it does, seen from outside. */
#include "cli/job_data.h"

#include <glob.h>

static double loss_at(const char *path, const char *dir, const char *checkpoint)
{
    tool_run  run    = TOOL(0, "evaluate", path, "-q", "--json", "--set", dir, "--checkpoint", checkpoint);
    est_json *result = tool_json(run.out);
    double    loss   = metric(result, "loss");

    est_json_free(result);
    tool_run_free(&run);
    return loss;
}

/* --- optimizers --------------------------------------------------------------------------------------------------- */

/* Rates that are next to nothing from step 50 on: the model of step 50 is that of step 150. */
TEST(schedules)
{
    static const char *const rates[] = {
        "{type: piecewise_constant, boundaries: [49], values: [0.1, 1.0e-30]}",
        "{type: polynomial_decay, learning_rate: 0.1, decay_steps: 50, end: 0}",
        "{type: cosine_decay, learning_rate: 0.1, decay_steps: 50}",
        "{type: exponential_decay, learning_rate: 0.1, decay_steps: 50, decay_rate: 1.0e-30, staircase: true}",
        "{type: natural_exp_decay, learning_rate: 0.1, decay_steps: 50, decay_rate: 80, staircase: true}",
        "{type: inverse_time_decay, learning_rate: 0.1, decay_steps: 50, decay_rate: 1.0e+30, staircase: true}",
    };
    const char *path = changed("seed: 3", "seed: 3");

    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        char     dir[64], deep[256], wide[256], ends[64], middle[64];
        tool_run run;

        snprintf(dir, sizeof dir, "run.model_dir=rate%zu", i);
        snprintf(middle, sizeof middle, "rate%zu/model.ckpt-50", i);
        snprintf(ends, sizeof ends, "rate%zu/model.ckpt-150", i);
        snprintf(deep, sizeof deep, "model.dnn_optimizer={name: SGD, learning_rate: %s}", rates[i]);
        snprintf(wide, sizeof wide, "model.linear_optimizer={name: SGD, learning_rate: %s}", rates[i]);
        run = TOOL(0, "train", path, "-q", "--set", dir, "--set", deep, "--set", wide, "--set", "export=[]");
        tool_run_free(&run);
        assert_true(loss_at(path, dir, middle) == loss_at(path, dir, ends));
        assert_true(loss_at(path, dir, middle) < 0.693); /* what 0 everywhere would have */
    }
}

/* One that begins with next to nothing has learnt nothing, and others do as they say. */
TEST(warmup)
{
    const char *path = changed("type: dnn_linear_combined_classifier\n  linear_columns: [ages, trade, ages_x_trade]\n"
                               "  dnn_columns: [hours, trade_vector]\n  hidden_units: [8, 4]\n  dropout: 0.1\n"
                               "  dnn_optimizer: {name: Adagrad, learning_rate: 0.1}\n"
                               "  linear_optimizer: {name: Ftrl, learning_rate: 0.2}\n",
                               "type: linear_classifier\n  columns: [ages_x_trade]\n");
    tool_run    run;

    run = TOOL(
        0, "train", path, "-q", DIR("warmup"), "--set", "export=[]", "--set",
        "model.optimizer={name: SGD, learning_rate: {type: warmup, learning_rate: 1, warmup_steps: 1000000000}}");
    tool_run_free(&run);
    assert_true(fabs(loss_at(path, "run.model_dir=warmup", "warmup/model.ckpt-150") - 0.6931) < 1e-3);
    run = TOOL(0, "train", path, "-q", DIR("restarts"), "--set", "export=[]", "--set",
               "model.optimizer={name: LazyAdam, beta1: 0.8, learning_rate: {type: cosine_decay_restarts, "
               "learning_rate: 0.1, decay_steps: 40, t_mul: 1.5, m_mul: 0.9, alpha: 0.1}}");
    tool_run_free(&run);
    assert_true(loss_at(path, "run.model_dir=restarts", "restarts/model.ckpt-150") < 0.3);
    run = TOOL(0, "train", path, "-q", DIR("power"), "--set", "export=[]", "--set",
               "model.optimizer={name: Ftrl, learning_rate: 1.0e-9, learning_rate_power: 0, beta: 1}");
    tool_run_free(&run);
    assert_true(fabs(loss_at(path, "run.model_dir=power", "power/model.ckpt-150") - 0.6931) < 1e-3);
}

/* --- features ----------------------------------------------------------------------------------------------------- */

/* Ways to say the same give the same numbers. */
static void check_same(const char *path, const char *a, const char *b)
{
    static int n;
    char       dir_a[64], dir_b[64];
    tool_run   one, other;

    snprintf(dir_a, sizeof dir_a, "run.model_dir=same%d", n++);
    snprintf(dir_b, sizeof dir_b, "run.model_dir=same%d", n++);
    one   = TOOL(0, "train", path, "-q", "--set", dir_a, "--set", "export=[]", "--set", a);
    other = TOOL(0, "train", path, "-q", "--set", dir_b, "--set", "export=[]", "--set", b);
    tool_expect_text(one.out, other.out, "the metrics");
    tool_run_free(&one);
    tool_run_free(&other);
}

TEST(numbers)
{
    const char *path = changed("seed: 3", "seed: 3");

    check_same(path, "features.hours={type: numeric, default: 40, min: 30, max: 50}",
               "features.hours={type: numeric, default: 40, mean: 30, stddev: 20}");
    /* log1p(age) is above 3.69 when the age, a whole number, is above 39. */
    path = changed("[20, 30, 40, 50]", "[3.69]");
    check_same(path, "features.age={type: numeric, transform: log1p}",
               "features.ages={type: bucketized, source: age, boundaries: [39.5]}");
}

static tool_run ask_trades(const char *path, const char *dir, const char *feature)
{
    return ask(0, "age,trade,hours\n50,smith,40\n50,cook,40\n50,baker,40\n",
               TOOL_ARGV("predict", path, "-q", "--json", "--keys", "logits", "--set", dir, "--set", feature));
}

/* Vectors that begin as 0 and are not trained say nothing; those of another model say what they said there. */
TEST(tables)
{
    static const char zeros[] =
        "features.trade_vector={type: embedding, source: trade, dimension: 2, initializer: zeros, "
        "frozen: true}";
    static const char theirs[] =
        "features.trade_vector={type: embedding, source: trade, dimension: 2, frozen: true, "
        "checkpoint: first, tensor_name: dnn/input_from_feature_columns/input_layer/trade_embedding/embedding_weights}";
    const char *path = changed("linear_columns: [ages, trade, ages_x_trade]", "linear_columns: [ages]");
    tool_run    run, other;
    size_t      size;

    run = TOOL(0, "train", path, "-q", DIR("zeros"), "--set", "export=[]", "--set", zeros);
    tool_run_free(&run);
    run  = ask_trades(path, "run.model_dir=zeros", zeros);
    size = strcspn(run.out, "\n") + 1;
    assert_int_equal(run.out_size, 3 * size);
    assert_memory_equal(run.out, run.out + size, size);
    tool_run_free(&run);
    run = TOOL(0, "train", path, "-q", DIR("first"), "--set", "export=[]");
    tool_run_free(&run);
    run = TOOL(0, "train", path, "-q", DIR("second"), "--set", "export=[]", "--set", theirs);
    tool_run_free(&run);
#define TABLE "--value", "dnn/input_from_feature_columns/input_layer/trade_embedding/embedding_weights"
    run   = TOOL(0, "inspect", "first/model.ckpt-150", TABLE);
    other = TOOL(0, "inspect", "second/model.ckpt-150", TABLE);
#undef TABLE
    tool_expect_text(other.out, run.out, "the table");
    tool_run_free(&run);
    tool_run_free(&other);
}

/* A vector for every city there is, and one answer for all that were never seen. */
TEST(dynamic)
{
    est_strbuf  text = { 0 };
    const char *path;
    tool_run    run;
    est_json   *result;

    est_strbuf_append(&text, "city,rich\n");
    for (int i = 0; i < 600; i++) est_strbuf_printf(&text, "city%d,%d\n", i % 30, i % 30 % 2);
    put("cities.csv", est_strbuf_text(&text));
    est_strbuf_clear(&text);
    path   = put("job.yaml",
                 "model: {type: dnn_classifier, columns: [cities], hidden_units: 8, optimizer: {name: LazyAdam,\n"
                   "  learning_rate: 0.05}}\n"
                   "features: {cities: {type: dynamic, key: city, dimension: 4, max_rows: 100, initializer: he_normal}}\n"
                   "data: {train: cities.csv, eval: cities.csv, label: rich, batch: 50}\n"
                   "run: {seed: 1, model_dir: dynamic}\n"
                   "train: {max_steps: 150}\n");
    run    = TOOL(0, "train", path, "-q", "--json");
    result = tool_json(run.out);
    assert_true(metric(result, "metrics.accuracy") == 1);
    est_json_free(result);
    tool_run_free(&run);
    /* Nobody is ever seen a millionth time: no city has a vector, and all are alike. */
    run    = TOOL(0, "train", path, "-q", "--json", DIR("strangers"), "--set", "features.cities.admit_after=1000000");
    result = tool_json(run.out);
    assert_true(metric(result, "metrics.accuracy") == 0.5);
    est_json_free(result);
    tool_run_free(&run);
}

/* --- heads -------------------------------------------------------------------------------------------------------- */

#define HEAD(text) "{type: linear_estimator, columns: [ages, trade, ages_x_trade], head: " text "}"

TEST(heads)
{
    static const struct {
        const char *model, *label, *metric, *key;
    } cases[] = {
        { HEAD("{type: binary, thresholds: [0.25]}"), "data.batch=64", "accuracy/positive_threshold_0.25",
          "class_ids" },
        { HEAD("{type: multi_class, n_classes: 3}"), "data.label={name: rich, vocabulary: ['no', 'yes', a], strip: .}",
          "accuracy", "class_ids" },
        { HEAD("{type: multi_label, n_classes: 2, metric_classes: [1], loss_reduction: sum}"), "data.batch=64",
          "auc/yes", "probabilities" },
        { HEAD("poisson"), "data.label=age", "average_loss", "predictions" },
        { HEAD("{type: regression, inverse_link: softplus}"), "data.label=age", "average_loss", "predictions" },
    };
    const char *path = changed("seed: 3", "seed: 3");

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool        number = strcmp(cases[i].label, "data.label=age") == 0;
        const char *age    = number ? "features.age={type: numeric, key: hours, default: 30}" : "data.batch=64";
        char        dir[64], model[256];
        tool_run    run;

        snprintf(dir, sizeof dir, "run.model_dir=head%zu", i);
        snprintf(model, sizeof model, "model=%s", cases[i].model);
        run = TOOL(0, "train", path, "-q", "--set", dir, "--set", model, "--set", cases[i].label, "--set", age);
        tool_expect_part(run.out, cases[i].metric, "the metrics");
        tool_run_free(&run);
        run = ask(0, "age,trade,hours\n50,smith,40\n",
                  TOOL_ARGV("predict", path, "-q", "--set", dir, "--set", model, "--set", cases[i].label, "--set", age,
                            "--keys", cases[i].key));
        tool_run_free(&run);
    }
}

/* Two labels learnt at once, each with its metrics. */
TEST(multi_head)
{
    const char *path = put("job.yaml", "model:\n"
                                       "  type: dnn_estimator\n"
                                       "  columns: [trade_vector, age]\n"
                                       "  hidden_units: [8]\n"
                                       "  head:\n"
                                       "    type: multi\n"
                                       "    heads:\n"
                                       "      - {type: binary, name: rich, vocabulary: [no, yes]}\n"
                                       "      - {type: regression, name: work, label: hours, loss_weight: 0.1}\n"
                                       "      - {type: logistic_regression, name: chance}\n"
                                       "features:\n"
                                       "  age: {type: numeric, min: 16, max: 66}\n"
                                       "  trade: {type: vocabulary, values: [cook, smith, baker]}\n"
                                       "  trade_vector: {type: indicator, source: trade}\n"
                                       "data: {train: whole.csv, eval: whole.csv}\n"
                                       "run: {seed: 3, model_dir: both}\n"
                                       "train: {max_steps: 50}\n");
    tool_run    run;

    put("whole.csv",
        "age,trade,hours,rich,chance\n20,cook,40,no,0.5\n50,cook,30,yes,0\n20,smith,20,yes,1\n50,smith,25,no,0.25\n");
    run = TOOL(0, "train", path, "-q");
    tool_expect_part(run.out, "\naccuracy/rich ", "the metrics");
    tool_expect_part(run.out, "\naverage_loss/work ", "the metrics");
    tool_run_free(&run);
    run = ask(0, "age,trade\n50,smith\n", TOOL_ARGV("predict", path, "-q", "--json"));
    tool_expect_part(run.out, "\"rich/class_ids\": ", "the answer");
    tool_expect_part(run.out, "\"work/predictions\": ", "the answer");
    tool_expect_part(run.out, "\"chance/predictions\": ", "the answer");
    tool_run_free(&run);
    run = TOOL(0, "export", path, "-q");
    tool_run_free(&run);
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

static int count_exports(const char *dir)
{
    char   pattern[128];
    glob_t found = { 0 };
    int    n;

    snprintf(pattern, sizeof pattern, "%s/[0-9]*", dir);
    (void)glob(pattern, 0, NULL, &found);
    n = (int)found.gl_pathc;
    globfree(&found);
    return n;
}

/* Three evaluations of a number that only grows: one is the best of them in one direction, all are in the other. */
TEST(best_export)
{
    const char *path = changed("seed: 3", "seed: 3");
    tool_run    run  = TOOL(0, "train", path, "-q", DIR("best"), "--set",
                            "export=[{type: best, name: small, metric: global_step}, {type: best, name: large, metric: "
                                "global_step, better: larger, as_text: true}]");

    tool_run_free(&run);
    assert_int_equal(count_exports("best/export/small"), 1);
    assert_int_equal(count_exports("best/export/large"), 3);
}

/* Refuses to train, says so, and has made no step. */
static void refused_before_training(const char *set, const char *text)
{
    tool_run run = TOOL(1, "train", "job.yaml", DIR("refused"), "--set", set);

    tool_expect_part(run.err, text, "standard error");
    if (strstr(run.err, "loss = ") != NULL) fail_msg("it trained: %s", run.err);
    assert_int_not_equal(access("refused/checkpoint", F_OK), 0);
    tool_run_free(&run);
}

/* Mistakes that only evaluations and exports would meet. */
TEST(refused_before_training)
{
    (void)changed("seed: 3", "seed: 3");
    put("no-row.csv", "age,trade,city,hours,rich\n");
    put("no-label.csv", "age,trade,city,hours\n50,cook,Bern,40\n");
    put("other-label.csv", "age,trade,city,hours,rich\n50,cook,Bern,40,maybe\n");
    refused_before_training(
        "export=[{type: best, metric: acc}]",
        "estoc train: exporter best: it compares the metric \"acc\", but evaluations have no such metric "
        "(did you mean \"accuracy\"?); they have accuracy, ");
    refused_before_training(
        "train.early_stopping=[{type: no_increase, metric: aucc, steps: 10}]",
        "early stopping looks for the metric \"aucc\", but evaluations have no such metric (did you mean "
        "\"auc\"?); they have accuracy, ");
    refused_before_training("data.eval=nowhere.csv", "no file matches nowhere.csv");
    refused_before_training("data.eval=no-row.csv", "no-row.csv has no row");
    refused_before_training("data.eval=no-label.csv", "no-label.csv: ");
    refused_before_training("data.eval=other-label.csv",
                            "other-label.csv:2: the label \"maybe\" is not in data.label.vocabulary");
}

/* A model directory in which nothing can be written. */
TEST(evaluate_read_only)
{
    const char *path = changed("seed: 3", "seed: 3");
    tool_run    run  = TOOL(0, "train", path, "-q", DIR("locked"), "--set", "data.eval=null", "--set", "export=null");
    est_json   *result;

    tool_run_free(&run);
    put("locked/eval", ""); /* root may write into any directory, but not below a file */
    run = TOOL(0, "evaluate", path, "-q", DIR("locked"));
    tool_expect_part(run.out, "\naccuracy ", "the metrics");
    tool_expect_part(run.err, "the result of step 150 is not saved: ", "standard error");
    tool_expect_part(run.err, "locked/eval", "standard error");
    tool_run_free(&run);
    run    = TOOL(0, "evaluate", path, "-q", DIR("locked"), "--json");
    result = tool_json(run.out);
    assert_true(json_number_value(est_json_get(result, "accuracy")) > 0.9);
    est_json_free(result);
    tool_run_free(&run);
    TOOL_OUT(1, "", "locked/eval/models cannot be written to: locked/eval is not a directory", "export", path, "-q",
             DIR("locked"), "-o", "locked/eval/models");
}

/* Every loss is above -1: the first evaluation ends the training. */
TEST(early_stopping)
{
    const char *path = changed("max_steps: 150",
                               "max_steps: 150, early_stopping: [{type: higher, metric: loss, threshold: -1, "
                               "run_every_steps: 1}, {type: no_decrease, metric: loss, steps: 1000}]");
    tool_run    run;

    for (int named = 0; named < 2; named++) {
        est_json *result;

        run = TOOL(0, "train", path, "-q", "--json", "--set", named ? "run.model_dir=early1" : "run.model_dir=early0",
                   "--set", "export=[]", "--set", named ? "eval.name=x" : "data.batch=64");
        result = tool_json(run.out);
        assert_true(metric(result, "metrics.global_step") < 60);
        est_json_free(result);
        tool_run_free(&run);
    }
    run = TOOL(0, "train", path, "-q", "--set", "run.model_dir=early2", "--set", "export=[]", "--set",
               "train.early_stopping=[{type: no_increase, metric: auc, steps: 10}]");
    tool_expect_part(run.err,
                     "early stopping by the metric \"auc\" found no evaluation result in this run: check more ",
                     "standard error"); /* it looks every 60 seconds */
    tool_run_free(&run);
}

/* Words that have moved take their weights along, and a variable may have had another name. */
TEST(warm_start)
{
    static const char job[] =
        "model: {type: linear_classifier, columns: [w], optimizer: {name: SGD, learning_rate: 1}}\n"
        "features: {w: {type: vocabulary, file: old.txt}}\n"
        "data: {train: words.csv, label: y}\n"
        "run: {seed: 1, model_dir: old}\n"
        "train: {max_steps: 40}\n";
    static const char ask_rows[] = "w\na\nb\nc\n";
    const char       *path;
    tool_run          run, old, new;

    put("words.csv", "w,y\na,1\nb,0\nc,1\na,1\nc,0\n");
    put("old.txt", "a\nb\nc\n");
    put("new.txt", "c\nd\nb\na\n");
    path = put("job.yaml", job);
    run  = TOOL(0, "train", path, "-q");
    tool_run_free(&run);
    old = ask(0, ask_rows, TOOL_ARGV("predict", path, "-q", "--keys", "logits"));
#define NEW                                                                                                            \
    "--set", "features.w.file=new.txt", DIR("new"), "--set", "train.max_steps=1", "--set",                             \
        "model.optimizer.learning_rate=1.0e-30"
    run = TOOL(
        0, "train", path, "-q", NEW, "--set",
        "warm_start={path: old, vocabularies: {linear/linear_model/w/weights: {file: new.txt, old_file: old.txt}}}");
    tool_run_free(&run);
    new = ask(0, ask_rows, TOOL_ARGV("predict", path, "-q", "--keys", "logits", NEW));
    tool_expect_text(new.out, old.out, "the answers");
    tool_run_free(&new);
    tool_run_free(&old);
    TOOL_OUT(1, "", "no/such/name", "train", path, "-q", DIR("renamed"), "--set",
             "warm_start={path: old, renames: {linear/linear_model/w/weights: no/such/name}}");
}

/* --- clusters ----------------------------------------------------------------------------------------------------- */

/* What each key of a strategy makes of it, as the task says in its log. */
TEST(strategy)
{
    static const struct {
        const char *strategy, *say;
    } cases[] = {
        { "{}",
          "\"sync_replicas\": 0, \"max_staleness\": 0, \"consistent_checkpoints\": false, \"round_robin\": false, "
          "\"partitioner\": null}" },
        { "{sync_replicas: 2}", "\"sync_replicas\": 2, \"max_staleness\": 0, " },
        { "{max_staleness: 7, consistent_checkpoints: true}",
          "\"max_staleness\": 7, \"consistent_checkpoints\": true, " },
        { "{placement: round_robin}", "\"round_robin\": true, " },
        { "{partitioner: fixed_shards}", "\"partitioner\": {\"bytes\": 0, \"n\": 0}}" },
        { "{partitioner: {type: fixed_shards, shards: 3}}", "\"partitioner\": {\"bytes\": 0, \"n\": 3}}" },
        { "{partitioner: min_size}", "\"partitioner\": {\"bytes\": 262144, \"n\": 0}}" },
        { "{partitioner: {type: min_size, min_shard_bytes: 9, max_shards: 4}}",
          "\"partitioner\": {\"bytes\": 9, \"n\": 4}}" },
        { "{partitioner: {type: max_size, max_shard_bytes: 8}}", "\"partitioner\": {\"bytes\": 8, \"n\": 0}}" },
    };
    const char *path = changed("seed: 3", "seed: 3, peer_silence_secs: 2.5");
    tool_run    run  = TOOL(0, "train", path, "-q", DIR("alone"), "--set", "run.strategy={sync_replicas: 2}");

    tool_run_free(&run);
    setenv("TF_CONFIG",
           "{\"cluster\": {\"chief\": [\"localhost:1\"], \"worker\": [\"localhost:3\"], \"ps\": [\"localhost:2\"]}, "
           "\"task\": {\"type\": \"chief\", \"index\": 0}}",
           1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char strategy[128];

        snprintf(strategy, sizeof strategy, "run.strategy=%s", cases[i].strategy);
        run = TOOL(0, "evaluate", path, DIR("alone"), "--set", strategy);
        tool_expect_part(run.err, cases[i].say, "standard error");
        tool_expect_part(run.err, "\"peer_silence_secs\": 2.5, ", "standard error");
        tool_run_free(&run);
    }
    TOOL_OUT(1, "", "sync_replicas is 3, but the cluster has 2 tasks that train", "train", path, DIR("many"), "-q",
             "--set", "run.strategy={sync_replicas: 3}");
    TOOL_OUT(1, "", "train_distribute is mirrored, and TF_CONFIG has ps tasks", "evaluate", path, DIR("alone"), "-q",
             "--set", "run.strategy=mirrored");
    unsetenv("TF_CONFIG");
}

/* The other strategies, which make steps together: in one process without a cluster. */
TEST(in_step)
{
    static const struct {
        const char *strategy, *say;
    } cases[] = {
        { "one_device", "{\"name\": \"one_device\", \"replicas\": 1}" },
        { "mirrored", "{\"name\": \"mirrored\", \"replicas\": 1}" },
        { "{name: mirrored, replicas: 2}", "{\"name\": \"mirrored\", \"replicas\": 2}" },
        { "{name: one_device, device: /cpu:0}", "{\"name\": \"one_device\", \"replicas\": 1}" },
        { "{name: mirrored, devices: [/cpu:0, /cpu:1]}", "{\"name\": \"mirrored\", \"replicas\": 2}" },
        { "{name: central_storage, devices: [/cpu:0, /cpu:1, /cpu:2]}",
          "{\"name\": \"central_storage\", \"replicas\": 3}" },
        { "{name: central_storage, replicas: 3}", "{\"name\": \"central_storage\", \"replicas\": 3}" },
        { "multi_worker_mirrored", "{\"name\": \"multi_worker_mirrored\", \"replicas\": 1, \"workers\": 1, "
                                   "\"communication\": \"auto\", \"bytes_per_pack\": 4194304, \"timeout_secs\": 600, "
                                   "\"rejoin_secs\": 600, \"elastic\": false}" },
        { "{name: multi_worker_mirrored, replicas: 2, communication: shared, bytes_per_pack: 9, timeout_secs: 7, "
          "rejoin_secs: 2.5, elastic: true}",
          "\"replicas\": 2, \"workers\": 1, \"communication\": \"shared\", \"bytes_per_pack\": 9, \"timeout_secs\": 7, "
          "\"rejoin_secs\": 2.5, \"elastic\": true}" },
        { "{name: multi_worker_mirrored, communication: ring}", "\"communication\": \"ring\"" },
        { "{name: multi_worker_mirrored, communication: halving}", "\"communication\": \"halving\"" },
        { "{name: multi_worker_mirrored, communication: direct}", "\"communication\": \"direct\"" },
        { "{name: multi_worker_mirrored, communication: hierarchical}", "\"communication\": \"hierarchical\"" },
    };
    const char *path = changed("seed: 3", "seed: 3");
    tool_run    run;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char strategy[192];

        snprintf(strategy, sizeof strategy, "run.strategy=%s", cases[i].strategy);
        run = TOOL(0, "evaluate", path, DIR("alone"), "--set", strategy, "--set", "run.eval_strategy=mirrored");
        tool_expect_part(run.err, cases[i].say, "standard error");
        tool_expect_part(run.err, "\"eval_distribute\": false", "standard error"); /* it is not a task that trains */
        tool_run_free(&run);
    }
    setenv("ESTOC_CUDA_PLUGIN", "/nonexistent", 1);
    TOOL_OUT(2, "", "there is no device \"/gpu:0\"", "evaluate", path, DIR("alone"), "-q", "--set",
             "run.strategy={name: one_device, device: /gpu:0}");
    TOOL_OUT(2, "", "there is no device \"/gpu:1\"", "evaluate", path, DIR("alone"), "-q", "--set",
             "run.strategy={name: mirrored, devices: [/cpu:0, /gpu:1]}");
    unsetenv("ESTOC_CUDA_PLUGIN");
    /* A batch is a replica's: two of them go over the rows in half the steps. Of wide & deep models each part has its
     * optimizer. */
    run = TOOL(0, "train", path, DIR("replicas"), "--set", "run.strategy={name: mirrored, replicas: 2}", "--set",
               "run.eval_strategy=one_device", "--set", "train=null", "--set", "data.epochs=1", "--set",
               "data.batch=100", "--json");
    tool_expect_part(run.err, "\"eval_distribute\": true", "standard error");
    tool_expect_part(run.out, "\"global_step\": 10,", "standard output"); /* of 2000 rows */
    tool_run_free(&run);
}

int main(void)
{
    return est_test_run(make_files, leave_dir);
}
