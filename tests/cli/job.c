/* SPDX-License-Identifier: Apache-2.0
 *
 * Job files as texts: what is wrong with one is said with its place; --set, --print-config and --help-job. */
#include "cli/job_file.h"

#include "estoc/log.h"
#include "job.h"
#include "support/fault_loop.h"

/* --- what is wrong ------------------------------------------------------------------------------------------------ */

typedef struct wrong {
    const char *find, *put;
    const char *say; /* after the path */
} wrong;

/* clang-format off */
static const wrong wrongs[] = {
    /* YAML */
    { "model:\n", "model: [\n", ":3:17: a list of line 1 has neither a comma nor its ] here\n" },
    { "{na: none}", "{na: none", ":24:4: a mapping of line 23 has neither a comma nor its } here\n" },
    { "  batch: 64\n", "\tbatch: 64\n", ":21:1: a tab; indent with blanks\n" },
    { "batch: 64", "batch: @64", ":21:10: a value cannot begin with @; put it in quotes\n" },
    { "batch: 64", "batch: é: 64", ":21:11: a second key in the line, or one that is indented otherwise than those above; " },
    { "  batch: 64\n", " batch: 64\n", ":21:2: not a key of the mapping of line 1; check its indentation\n" },
    { "'.'", "'.", ":28:1: the quote of line 20 is not closed\n" },
    { "'.'", "\"\\q\"", ":20:54: a backslash before a character that has no meaning after it; " },
    { "train: train.csv", "train:\n    - a\n    b", ":21:3: the key of line 20 has no \": \" after it\n" },
    { "train: train.csv", "train:\n    - a\n    b: c", ":20:5: an entry of the list of line 19 has no dash, or " },
    { "batch: 64", "batch: *", ":21:11: a name is missing after & or *; a text that begins so needs quotes\n" },
    { "batch: 64", "batch: [,]", ":21:11: a value is missing\n" },
    { "batch: 64", "batch: \xff", ":21:10: a byte that is not UTF-8, or a character that YAML does not allow\n" },
    { "  batch: 64\n", "  batch: 64\n  batch: 32\n", ":22:3: \"batch\" is given twice, first in line 21\n" },
    { "model:\n", "model: &m\n  <<: *m\n", ":2:7: there is no finished anchor &m before this alias\n" },
    { "  batch: 64\n", "  <<: {batch: 3}\n", ":21:3: merge keys (<<) are not supported" },
    { "batch: 64", "batch: !!int 64", ":21:10: tags (tag:yaml.org,2002:int) are not supported\n" },
    { "  batch: 64\n", "  [batch]: 64\n", ":21:3: a key must be a word, not a list\n" },
    { "export: [", "---\nexport: [", ":27:1: a second document; a job file has one\n" },
    { "strip: '.'", "strip: \"\\0\"", ":20:53: a text with a zero byte in it\n" },
    { "[hours, trade_vector]", "*columns", ":4:16: there is no finished anchor &columns before this alias\n" },

    /* keys */
    { "  batch: 64", "  bacth: 64", ":21:3: data has no key \"bacth\"; did you mean \"batch\"?\n" },
    { "model:\n", "modle:\n", ":1:1: a job has no key \"modle\"; did you mean \"model\"?\n" },
    { "model:\n", "modle:\n", ":1:1: a job needs \"model\": what is trained\n" },
    { "name: Adagrad", "nmae: Adagrad", ":7:19: an optimizer has no key \"nmae\"; did you mean \"name\"?\n" },
    { "source: trade,", "sorce: trade,", ":16:17: a feature needs \"source\": the feature that it is made of\n" },
    { "{type: numeric}", "{key: a}", ":10:8: a feature needs \"type\": numeric: numbers as they are" },
    { "{name: Adagrad, ", "{", ":7:18: an optimizer needs \"name\": the optimizer\n" },
    { "buckets: 50}", "bukets: 50}", "; did you mean \"buckets\"?\n" },
    { "  hidden_units: [8, 4]\n", "  hidden_units: [8, 4]\n  columns: [age]\n",
      ":6:12: \"columns\" is not for a model of the type \"dnn_linear_combined_classifier\"\n" },
    { "{type: numeric}", "{type: numeric, buckets: 3}", ":10:33: \"buckets\" is not for a feature of the type \"numeric\"\n" },
    { "learning_rate: 0.1}", "learning_rate: 0.1, l1: 1}", ":7:58: \"l1\" is not for an optimizer of the type \"Adagrad\"\n" },

    /* TensorFlow's names */
    { "dnn_columns:", "dnn_feature_columns:", ":4:3: a model has no key \"dnn_feature_columns\"; did you mean \"dnn_columns\"?\n" },
    { "type: dnn_linear_combined_classifier", "type: wide_and_deep", "; did you mean \"dnn_linear_combined_classifier\"?\n" },
    { "type: dnn_linear_combined_classifier", "type: DNNRegressor", "; did you mean \"dnn_regressor\"?\n" },
    { "type: hash", "type: categorical_column_with_hash_bucket", "; did you mean \"hash\"?\n" },
    { "type: vocabulary", "type: categorical_column_with_vocabulary_list", "; did you mean \"vocabulary\"?\n" },
    { "type: cross", "type: crossed_column", "; did you mean \"cross\"?\n" },
    { "buckets: 50}", "hash_bucket_size: 50}", "; did you mean \"buckets\"?\n" },
    { "default: 40", "default_value: 40", "; did you mean \"default\"?\n" },
    { "oov_buckets: 2", "default_value: 1", "; did you mean \"default_id\"?\n" },

    /* types and ranges */
    { "batch: 64", "batch: many", ":21:10: \"batch\" takes a whole number from 1 to 1e+09, not \"many\"\n" },
    { "batch: 64", "batch: 0", ":21:10: \"batch\" takes a whole number from 1 to 1e+09, not \"0\"\n" },
    { "batch: 64", "batch: 6.5", ":21:10: \"batch\" takes a whole number from 1 to 1e+09, not \"6.5\"\n" },
    { "batch: 64", "batch: 6.5e0", ":21:10: \"batch\" takes a whole number from 1 to 1e+09, not \"6.5e0\"\n" },
    { "batch: 64", "batch: 1e10", ":21:10: \"batch\" takes a whole number from 1 to 1e+09, not \"1e10\"\n" },
    { "batch: 64", "batch: '64'", ":21:10: \"batch\" takes a whole number" },
    { "batch: 64", "batch: [64]", ":21:10: \"batch\" takes a whole number from 1 to 1e+09, not a list\n" },
    { "batch: 64", "batch: 99999999999999999999", ":21:10: \"batch\" takes a whole number" },
    { "dropout: 0.1", "dropout: 1.5", ":6:12: \"dropout\" takes a number from 0 to 0.999, not \"1.5\"\n" },
    { "dropout: 0.1", "dropout: .nan", ":6:12: \"dropout\" takes a number from 0 to 0.999, not \".nan\"\n" },
    { "dropout: 0.1", "dropout: nan", ":6:12: \"dropout\" takes a number from 0 to 0.999, not \"nan\"\n" },
    { "learning_rate: 0.2", "learning_rate: 0", ":8:49: \"learning_rate\" takes a number above 0, not \"0\"\n" },
    { "[8, 4]", "[8, -4]", ":5:21: \"hidden_units\" takes a whole number from 1 to 1e+06, not \"-4\"\n" },
    { "[8, 4]", "[]", ":5:17: \"hidden_units\" is an empty list\n" },
    { "batch: 64", "batch: 64\n  epochs: never", ":22:11: \"epochs\" takes a whole number from 1 up or forever, not \"never\"\n" },
    { "dropout: 0.1", "batch_norm: yes", ":6:15: \"batch_norm\" takes true or false, not \"yes\"\n" },
    { "dropout: 0.1", "batch_norm: {}", ":6:15: \"batch_norm\" takes true or false, not a mapping\n" },
    { "dropout: 0.1", "activation: rleu", "takes relu, relu6, elu, selu, tanh, sigmoid, softplus, softsign, gelu, swish, mish, exponential, hard_sigmoid, leaky_relu, softmax or linear, not \"rleu\"; did you mean \"relu\"?\n" },
    { "type: dnn_linear_combined_classifier", "type: dnn_clasifier", "; did you mean \"dnn_classifier\"?\n" },
    { "name: Adagrad", "name: adam", ":7:25: \"name\" takes Adagrad, Adam, Ftrl, RMSProp, SGD, Momentum, Adadelta, LazyAdam, Adamax, Nadam or Lion, not \"adam\"; did you mean \"Adam\"?\n" },
    { "train: train.csv", "train: {a: b}", ":18:10: \"train\" takes a text, not a mapping\n" },
    { "train: train.csv", "train: ['']", ":18:11: \"train\" is empty\n" },
    { "train: {max_steps: 150}", "train: 150", ":25:8: train is a mapping of keys, not a single value\n" },
    { "train: {max_steps: 150}", "train: [150]", ":25:8: train is a mapping of keys, not a list\n" },
    { "export: [{type: best, keep: 2}, final]", "export: {type: best}", ":27:9: \"export\" takes a list, each entry after a dash\n" },
    { "  age: {type: numeric}\n", "  age:\n", ":10:7: a feature is a mapping of keys, and this one is empty; give it keys, or remove it\n" },

    /* references */
    { "[ages, trade, ages_x_trade]", "[ages, trades]", ":3:26: there is no feature \"trades\"; did you mean \"trade\"?\n" },
    { "[ages, trade, ages_x_trade]", "ages, trade", ":3:19: there is no feature \"ages, trade\"; a list is written [ages, trade]\n" },
    { "[ages, trade, ages_x_trade]", "[ages, trade, ages]", ":3:33: linear_columns: \"ages\" and \"ages\" are columns of one name" },
    { "[hours, trade_vector]", "[hours, trade]", ":4:24: \"trade\" is of the type vocabulary, which a dnn does not take" },
    { "source: age,", "source: agee,", ":12:36: there is no feature \"agee\"; did you mean \"age\"?\n" },
    { "source: age,", "source: trade,", ":12:9: the feature \"ages\": a bucketized column needs a numeric column of one dimension, but \"trade\" is a " },
    { "source: trade,", "source: age,", ":16:17: the feature \"trade_vector\": an embedding column needs a categorical column, but \"age\" is a numeric column\n" },
    { "sources: [ages, trade]", "sources: [ages]", ":15:17: the feature \"ages_x_trade\": a cross needs at least two columns, not 1\n" },
    { "sources: [ages, trade]", "sources: [ages, age]", ":15:17: the feature \"ages_x_trade\": \"age\" is a numeric column (bucketize it), which cannot be crossed\n" },
    { "sources: [ages, trade]", "sources: [ages, ages_x_trade]", ":15:40: the feature \"ages_x_trade\": its sources lead back to itself\n" },

    /* schedules, heads, tables */
    { "learning_rate: 0.1}", "learning_rate: {type: expodecay, learning_rate: 1}}", ":7:56: \"type\" takes constant, exponential_decay, " },
    { "learning_rate: 0.1}", "learning_rate: {type: exponential_decay, learning_rate: 1, decay_steps: 10}}",
      ":7:49: a learning rate needs \"decay_rate\": how much the rate falls in decay_steps\n" },
    { "learning_rate: 0.1}", "learning_rate: {learning_rate: 0.1, decay_steps: 3}}",
      ":7:83: \"decay_steps\" is not for a learning rate of the type \"constant\"\n" },
    { "learning_rate: 0.1}", "learning_rate: {type: piecewise_constant, boundaries: [5, 4], values: [1, 2]}}",
      ":7:104: 2 boundaries need 3 values, and there are 2\n" },
    { "learning_rate: 0.1}", "learning_rate: {type: piecewise_constant, boundaries: [5, 4], values: [1, 2]}}",
      ":7:92: boundaries must ascend, and 4 follows 5\n" },
    { "learning_rate: 0.1}", "learning_rate: {type: ExponentialDecay, learning_rate: 1}}", "; did you mean \"exponential_decay\"?\n" },
    { "learning_rate: 0.1}", "learning_rate: []}", ":7:49: a learning rate is a mapping of keys, not a list\n" },
    { "learning_rate: 0.2}", "learning_rate: 0.2, learning_rate_power: 1}", ":8:75: \"learning_rate_power\" takes 0 or less, not 1\n" },
    { "type: dnn_linear_combined_classifier", "type: dnn_linear_combined_estimator",
      ":2:3: a model needs \"head\": what an estimator predicts; its type alone is enough where no other key is needed\n" },
    { "type: dnn_linear_combined_classifier", "type: dnn_linear_combined_estimator\n  head: poisson",
      ":21:35: labels of a regressor are numbers, not words\n" },
    { "type: dnn_linear_combined_classifier", "type: dnn_linear_combined_estimator\n  head: {type: multi_class, n_classes: 3}",
      ":21:35: the label: multi-class head: label_vocabulary has 2 entries for 3 classes\n" },
    { "type: dnn_linear_combined_classifier", "type: dnn_linear_combined_estimator\n  head: {type: multi, heads: [{type: binary, name: a}]}",
      ":21:10: each of model.head.heads has a label of its own; remove this one\n" },
    { "type: dnn_linear_combined_classifier",
      "type: dnn_linear_combined_estimator\n  head: {type: multi, heads: [{type: multi, name: a}, {type: poisson, name: a}]}",
      ":3:38: \"type\" takes binary, multi_class, multi_label, regression, logistic_regression or poisson, not \"multi\"" },
    { "type: dnn_linear_combined_classifier",
      "type: dnn_linear_combined_estimator\n  head: {type: multi, heads: [{type: binary, name: a}, {type: poisson, name: a}]}",
      ":3:78: there are two heads \"a\"\n" },
    { "type: dnn_linear_combined_classifier", "type: dnn_linear_combined_estimator\n  head: {type: multi, heads: [{type: binary}]}",
      ":3:31: a head needs \"name\": " },
    { "type: dnn_linear_combined_classifier", "type: dnn_linear_combined_classifier\n  head: poisson",
      ":3:9: \"head\" is not for a model of the type \"dnn_linear_combined_classifier\"\n" },
    { "  label: {name: rich, vocabulary: [no, yes], strip: '.'}\n", "", ":18:3: data needs \"label\": what is learnt; " },
    { "dimension: 2", "dimension: 2, ckpt_to_load_from: x", "; did you mean \"checkpoint\"?\n" },
    { "dimension: 2", "dimension: 2, checkpoint: x", ":16:76: the feature \"trade_vector\": the embedding of \"trade\" needs both a checkpoint and the name of a tensor" },
    { "dimension: 2", "dimension: 2, initializer: zero", "; did you mean \"zeros\"?\n" },
    { "dimension: 2", "dimension: 2, initializer: constant", ":16:77: an initializer needs \"value\": the constant\n" },
    { "dimension: 2", "dimension: 2, collection_name: c", ":16:81: \"collection_name\" is not for a feature of the type \"embedding\"\n" },
    { "{type: hash, key: city, buckets: 50}", "{type: dynamic, key: city, dimension: 2, dtype: float32}",
      ":14:58: \"dtype\" takes string or int64, not \"float32\"" },
    { "{type: hash, key: city, buckets: 50}", "{type: dynamic, key: city}", ":14:10: a feature needs \"dimension\": length of the vectors\n" },
    { "mean: 40, stddev: 10", "min: 40", ":11:44: \"min\" needs \"max\", and \"max\" needs \"min\"\n" },
    { "mean: 40, stddev: 10", "min: 40, max: 40", ":11:53: max is 40; it must be more than min, 40\n" },
    { "mean: 40, stddev: 10", "mean: 40, min: 4, max: 40", ":11:54: numbers are scaled by min and max or by mean and stddev, not both\n" },
    { "mean: 40, stddev: 10", "transform: log", ":11:50: \"transform\" takes none or log1p, not \"log\"; did you mean \"log1p\"?\n" },
    { "max_steps: 150", "early_stopping: [{type: no_decrease, metric: loss}]", ":25:26: an early stop needs \"steps\": without a better value\n" },
    { "max_steps: 150", "early_stopping: [{type: lower, metric: loss, threshold: 1, run_every_secs: 3, run_every_steps: 3}]",
      ":25:84: results are checked by steps or by time, not both\n" },
    { "export: [{type: best, keep: 2}, final]", "export: [{type: final, metric: auc}]",
      ":27:32: \"metric\" is not for an export of the type \"final\"\n" },
    { "export: [{type: best, keep: 2}, final]", "warm_start: {path: a, only_vocabularies: true}",
      ":27:42: there are no \"vocabularies\"\n" },
    { "seed: 3", "train_distribute: {sync_replicas: 2}", ":24:7: run has no key \"train_distribute\"; did you mean \"strategy\"?\n" },
    { "seed: 3", "strategy: {replicas_to_aggregate: 2}",
      ":24:18: a strategy has no key \"replicas_to_aggregate\"; did you mean \"sync_replicas\"?\n" },
    { "seed: 3", "strategy: {sync_replica: 2}", ":24:18: a strategy has no key \"sync_replica\"; did you mean \"sync_replicas\"?\n" },
    { "seed: 3", "strategy: {placement: roundrobin}",
      ":24:29: \"placement\" takes by_size or round_robin, not \"roundrobin\"; did you mean \"round_robin\"?\n" },
    { "seed: 3", "strategy: {partitioner: MinSizePartitioner}", "; did you mean \"min_size\"?\n" },
    { "seed: 3", "strategy: {partitioner: max_size}", ":24:31: a partitioner needs \"max_shard_bytes\": of a shard, at most; no row is cut\n" },
    { "seed: 3", "strategy: {partitioner: {type: fixed_shards, max_shards: 3}}",
      ":24:64: \"max_shards\" is not for a partitioner of the type \"fixed_shards\"\n" },
    { "seed: 3", "strategy: MultiWorkerMirroredStrategy", "; did you mean \"multi_worker_mirrored\"?\n" },
    { "seed: 3", "strategy: {name: mirrored, sync_replicas: 2}",
      ":24:49: \"sync_replicas\" is not for a strategy of the type \"mirrored\"\n" },
    { "seed: 3", "strategy: {replicas: 2}", ":24:28: \"replicas\" is not for a strategy of the type \"parameter_server\"\n" },
    { "seed: 3", "strategy: {name: one_device, replicas: 2}", ":24:46: \"replicas\" is not for a strategy of the type \"one_device\"\n" },
    { "seed: 3", "strategy: {name: one_device, devices: /gpu:0}", ":24:45: \"devices\" is not for a strategy of the type \"one_device\"\n" },
    { "seed: 3", "strategy: {name: mirrored, replicas: 257}", ":24:44: \"replicas\" takes a whole number from 1 to 256, not \"257\"\n" },
    { "seed: 3", "strategy: {name: central_storage, elastic: true}",
      ":24:50: \"elastic\" is not for a strategy of the type \"central_storage\"\n" },
    { "seed: 3", "strategy: {name: multi_worker_mirrored, timeout_seconds: 3}",
      ":24:47: a strategy has no key \"timeout_seconds\"; did you mean \"timeout_secs\"?\n" },
    { "seed: 3", "strategy: {name: multi_worker_mirrored, rejoin_secs: 0}",
      ":24:60: \"rejoin_secs\" takes a number above 0 or forever, not \"0\"\n" },
    { "seed: 3", "strategy: {name: multi_worker_mirrored, communication: RING}", "; did you mean \"ring\"?\n" },
    { "seed: 3", "strategy: {name: multi_worker_mirrored, communication: NCCL}", "; did you mean \"nccl\"?\n" },
    { "seed: 3", "eval_distribute: mirrored", ":24:7: run has no key \"eval_distribute\"; did you mean \"eval_strategy\"?\n" },
    { "eval: eval.csv", "eval: eval.csv\n  auto_shard_policy: FILE", "; did you mean \"autoshard\"?\n" },
    { "eval: eval.csv", "eval: eval.csv\n  autoshard: FILE", ":20:14: \"autoshard\" takes auto, file, data or off, not \"FILE\"; did you mean \"file\"?\n" },
    { "seed: 3", "peer_silence_sec: 3", ":24:7: run has no key \"peer_silence_sec\"; did you mean \"peer_silence_secs\"?\n" },

    /* what does not go together */
    { "[20, 30, 40, 50]", "[20, 30, 30]", ":12:53: the feature \"ages\": the boundaries of the bucketized column of \"age\" do not ascend: 30 after 30\n" },
    { "values: [cook, smith, baker]", "values: [cook, cook]", ":13:10: the feature \"trade\": \"trade\": \"cook\" is in the vocabulary twice\n" },
    { "values: [cook, smith, baker]", "values: [a], file: b", ":13:48: a vocabulary has either values or a file\n" },
    { "oov_buckets: 2", "oov_buckets: 2, default_id: 0", ":13:72: the feature \"trade\": \"trade\" has both num_oov_buckets and a default value" },
    { "values: [cook, smith, baker]", "dtype: int64, values: [1, two]", ":13:51: the feature \"trade\": values has \"two\"; the dtype int64 needs whole numbers\n" },
    { "oov_buckets: 2", "size: 2", ":13:65: the feature \"trade\": \"trade\": a vocabulary list column has no option vocabulary_size; leave it out\n" },
    { "default: 40", "default: [1, 2]", ":11:35: the feature \"hours\": numeric column \"hours\" has 2 default values for the shape [1]\n" },
    { "default: 40", "shape: [2]", ":11:33: a field of a CSV file holds one number, not 2\n" },
    { "vocabulary: [no, yes]", "vocabulary: [no, yes, perhaps]", ":20:35: the label: est_dnn_linear_combined_classifier: binary head: label_vocabulary has 3 entries for 2 classes\n" },
    { "vocabulary: [no, yes], ", "", ":20:30: \"strip\" is for labels with a vocabulary\n" },
    { "{name: Adagrad, learning_rate: 0.1}", "{name: Adam, beta1: 0.5}", ":7:18: this optimizer needs a \"learning_rate\"" },
    { "{name: Adagrad, learning_rate: 0.1}", "Momentum", ":7:18: this optimizer needs a \"learning_rate\"" },
    { "  hidden_units: [8, 4]\n", "", ":2:3: the model: est_dnn_linear_combined_classifier: hidden_units is empty; name the size of every hidden layer\n" },
    { "csv: {na: none}", "csv: {header: true, fields: [a, b]}", ":23:17: either the files have a header, or \"fields\" names them\n" },
    { "csv: {na: none}", "csv: {header: false}", ":23:17: header: false needs csv.fields, the names of all fields\n" },
    { "csv: {na: none}", "csv: {fields: [age, trade, city, hour, rich]}",
      ":11:10: \"hours\" is none of the fields in data.csv; did you mean \"hour\"?\n" },
    { "csv: {na: none}", "csv: {delimiter: '::'}", ":23:20: \"delimiter\" takes one character of ASCII, not \"::\"\n" },
    { "eval: eval.csv", "format: libsvm", ":20:17: the label of libsvm files is called \"label\"\n" },
    { "save_checkpoints_steps: 50", "save_checkpoints_steps: 50, save_checkpoints_secs: 60",
      ":24:67: checkpoints are saved by steps or by time, not both\n" },
    { "seed: 3", "strategy: {sync_replicas: 2, max_staleness: 3}",
      ":24:33: strategy: parameter_server: synchronous steps are never stale; leave out max_staleness or sync_replicas\n" },
    { "seed: 3", "eval_strategy: parameter_server", ":24:22: evaluations need no ps tasks; name another strategy, or remove" },
    { "seed: 3", "eval_strategy: {}", ":24:22: evaluations need no ps tasks; name another strategy, or remove" },
    { "throttle_secs: 0", "name: a/b", ":26:14: \"a/b\" cannot be part of a directory's name\n" },
    { "final]", "{type: final, name: best}]", ":27:53: there are two exports \"best\"\n" },
    { "  eval: eval.csv\n", "", ":26:10: exports are made after evaluations, and data.eval is not given" },
};
/* clang-format on */

TEST(errors)
{
    int n_bad = 0;

    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        const char *path = changed(wrongs[i].find, wrongs[i].put);
        tool_run    run  = tool_start(TOOL_ARGV("train", path), -1);
        char        say[512];

        snprintf(say, sizeof say, "%s%s", wrongs[i].say[0] == ':' ? path : "", wrongs[i].say);
        if (run.code != 2 || strstr(run.err, say) == NULL || run.out_size != 0) {
            print_error("%s -> %s: exit code %d:\n%sand should be:\n%s\n", wrongs[i].find, wrongs[i].put, run.code,
                        run.err, say);
            n_bad++;
        }
        tool_run_free(&run);
    }
    assert_int_equal(n_bad, 0);
}

/* Columns get their names from fields and types; a model cannot have two of one name. */
TEST(same_names)
{
    static const char job[] = "features:\n"
                              "  few: {type: hash, key: city, buckets: 5}\n"
                              "  many: {type: hash, key: city, buckets: 500}\n"
                              "  word: {type: vocabulary, key: city, values: [Bern]}\n"
                              "  other: {type: hash, buckets: 5}\n"
                              "  d1: {type: dynamic, key: city, dimension: 2}\n"
                              "  d2: {type: dynamic, key: city, dimension: 4}\n"
                              "  e1: {type: embedding, source: few, dimension: 2}\n"
                              "  e2: {type: embedding, source: many, dimension: 2}\n"
                              "  i1: {type: indicator, source: few}\n"
                              "  x1: {type: cross, sources: [few, other, size], buckets: 9}\n"
                              "  x2: {type: cross, sources: [size, other, many], buckets: 99}\n"
                              "  x3: {type: cross, sources: [other, many], buckets: 99}\n"
                              "data: {train: t.csv, label: y}\n"
                              "run: {model_dir: m}\n"
                              "train: {max_steps: 1}\n";
    static const struct {
        const char *a, *b;
        bool        same;
    } pairs[] = { { "few", "many", true }, { "few", "word", true }, { "few", "other", false },
                  { "d1", "d2", true },    { "e1", "e2", true },    { "e1", "i1", false },
                  { "x1", "x2", true },    { "x2", "x3", false },   { "d1", "e1", false } };

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char     text[2048], say[128];
        tool_run run;

        snprintf(text, sizeof text, "model: {type: linear_classifier, columns: [%s, %s]}\n%s", pairs[i].a, pairs[i].b,
                 job);
        run = TOOL(pairs[i].same ? 2 : 1, "train", put("job.yaml", text)); /* which has no data */
        snprintf(say, sizeof say, "job.yaml:1:%zu: columns: \"%s\" and \"%s\" are columns of one name",
                 46 + strlen(pairs[i].a), pairs[i].a, pairs[i].b);
        tool_expect_part(run.err, pairs[i].same ? say : "t.csv", "standard error");
        tool_run_free(&run);
    }
}

/* What the library says in the words of C the tool says in those of job files. */
TEST(dynamic_optimizers)
{
    static const struct {
        const char *optimizer, *say; /* NULL: it is allowed */
    } all[] = {
        { "Adam",
          "this optimizer updates all rows of a table in every step, and \"d\" is dynamic; write name: LazyAdam\n" },
        { "{name: Adam, learning_rate: 0.1}", "write name: LazyAdam\n" },
        { "RMSProp", "write a momentum, as momentum: 0.9, or another name, as LazyAdam\n" },
        { "{name: RMSProp, learning_rate: 0.1, momentum: 0.9}", NULL },
        { "{name: LazyAdam, learning_rate: 0.1}", NULL },
        { "Adagrad", NULL },
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char     text[512];
        tool_run run;

        snprintf(text, sizeof text,
                 "model: {type: dnn_classifier, columns: [d], hidden_units: 2, optimizer: %s}\n"
                 "features: {d: {type: dynamic, dimension: 2}}\n"
                 "data: {train: t.csv, label: y}\n"
                 "run: {model_dir: m}\n"
                 "train: {max_steps: 1}\n",
                 all[i].optimizer);
        run = TOOL(all[i].say != NULL ? 2 : 0, "train", put("job.yaml", text), "--print-config");
        if (all[i].say != NULL) tool_expect_part(run.err, "job.yaml:1:", "standard error");
        if (all[i].say != NULL) tool_expect_part(run.err, all[i].say, "standard error");
        tool_run_free(&run);
    }
}

/* One run says all of it. */
TEST(all_errors_at_once)
{
    const char *path = put("job.yaml", "model: {type: dnn_classifier, columns: [a], hidden_units: [0]}\n"
                                       "data: {label: y, batch: -1, formt: csv}\n"
                                       "run: {seed: x}\n"
                                       "train: {max_step: 3}\n");
    tool_run    run  = TOOL(2, "train", path);
    int         n    = 0;

    for (const char *at = run.err; (at = strstr(at, "job.yaml:")) != NULL; at++) n++;
    assert_int_equal(n, 5);
    tool_expect_part(run.err, "job.yaml:1:60: ", "standard error");
    tool_expect_part(run.err, "job.yaml:2:25: ", "standard error");
    tool_expect_part(run.err, "job.yaml:2:29: ", "standard error");
    tool_expect_part(run.err, "job.yaml:3:13: ", "standard error");
    tool_expect_part(run.err, "job.yaml:4:9: train has no key \"max_step\"; did you mean \"max_steps\"?",
                     "standard error");
    tool_run_free(&run);
}

/* Repeated aliases are counted, deep nesting ends; nothing is walked for ever. */
TEST(bounds)
{
    est_strbuf  text = { 0 };
    const char *path;

    est_strbuf_append(&text, "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 12; i++) {
        est_strbuf_printf(&text, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++) est_strbuf_printf(&text, "%s*a%d", k > 0 ? ", " : "", i - 1);
        est_strbuf_append(&text, "]\n");
    }
    path = put("job.yaml", est_strbuf_text(&text));
    TOOL_OUT(2, "", "more than 100000 values", "train", path);
    est_strbuf_reset(&text);
    for (int i = 0; i < 40; i++) est_strbuf_append(&text, "[");
    path = put("job.yaml", est_strbuf_text(&text));
    TOOL_OUT(2, "", "nested more than 32 deep", "train", path);
    est_strbuf_clear(&text);
    TOOL_OUT(2, "", "job.yaml:1:1: a job needs \"model\"", "train", put("job.yaml", ""));
    TOOL_OUT(2, "", "a job is a mapping of keys, not a list", "train", put("job.yaml", "[1]"));
    TOOL_OUT(2, "", "a job is a mapping of keys", "train", put("job.yaml", "[1]"), "--set", "a=1");
    TOOL_OUT(2, "", "job.yaml:1:3: a byte that is not UTF-8", "train", put("job.yaml", "a:\xff"));
}

TEST(usage)
{
    const char *path = changed("  train: train.csv\n", "");

    TOOL_OUT(2, "", "it takes one job file, and 0 are given", "train");
    TOOL_OUT(2, "",
             "it takes one job file, and 2 are given; rows are read from standard input: estoc predict a.yaml <b.csv\n",
             "predict", "a.yaml", "b.csv");
    TOOL_OUT(3, "", "cannot read /no/such.yaml", "train", "/no/such.yaml");
    TOOL_OUT(2, "", "job.yaml:18:3: data needs \"train\": files to train on\n", "train", path);
    path = changed("  eval: eval.csv\n", "");
    TOOL_OUT(2, "", "data needs \"eval\"", "evaluate", path, "--set", "export=[]", "--set", "run.model_dir=x");
    TOOL_OUT(2, "", "run needs \"model_dir\"", "predict", changed("50}", "50}"));
    TOOL_OUT(1, "", "there is no checkpoint in nowhere; run `estoc train` first", "evaluate", path, "--set",
             "data.eval=eval.csv", "--set", "run.model_dir=nowhere");
    TOOL_OUT(2, "", "--format takes csv, jsonl or tfrecord, not \"xml\"", "predict", path, "--format", "xml");
    TOOL_OUT(2, "", "--batch takes 1 to 1000000", "predict", path, "--batch", "0");
    TOOL_OUT(2, "", "--set is for job files, and . is a directory", "predict", ".", "--set", "run.model_dir=x");
    TOOL_OUT(2, "", "--checkpoint is for job files", "predict", ".", "--checkpoint", "x");
    TOOL_OUT(1, "", "no saved_model.pb", "predict", ".");
    TOOL_OUT(2, "", "has an empty name", "predict", path, "--keys", "a,,b");
}

/* --- --set and --print-config ------------------------------------------------------------------------------------- */

TEST(set)
{
    const char *path = changed("seed: 3", "seed: 3");
    tool_run    run;

    run = TOOL(0, "train", path, "--print-config", "--set", "data.batch=32", "--set", "run.model_dir=/tmp/a b", "--set",
               "model.hidden_units=[5]", "--set", "data.eval=null", "--set", "export=", "--set",
               "model.linear_optimizer.l1=0.5", "--set", "warm_start=/x");
    tool_expect_part(run.out, "\n  batch: 32\n", "the configuration");
    tool_expect_part(run.out, "\n  model_dir: \"/tmp/a b\"\n", "the configuration");
    tool_expect_part(run.out, "\n  hidden_units: [5]\n", "the configuration");
    tool_expect_part(run.out, "\n  eval: null\n", "the configuration");
    tool_expect_part(run.out, "\nexport: []\n", "the configuration");
    tool_expect_part(run.out, "\n    learning_rate: 0.2\n    initial_accumulator: null\n    l1: 0.5\n",
                     "the configuration");
    tool_expect_part(run.out, "\nwarm_start:\n  path: /x\n", "the configuration");
    tool_run_free(&run);
    run = TOOL(0, "train", path, "--print-config", "--set", "data.batch=1e3");
    tool_expect_part(run.out, "\n  batch: 1000\n", "the configuration");
    tool_run_free(&run);
    TOOL_OUT(2, "", "there is no feature \"age\"", "train", path, "--set", "features.age=null");
    TOOL_OUT(2, "", "there is no feature \"agee\" to remove", "train", path, "--set", "features.agee=null");
    TOOL_OUT(2, "", "--set \"data.batch=x\": \"batch\" takes a whole number", "train", path, "--set", "data.batch=x");
    TOOL_OUT(2, "", "--set \"data.bacth=3\": data has no key \"bacth\"; did you mean \"batch\"?", "train", path,
             "--set", "data.bacth=3");
    TOOL_OUT(2, "", "--set \"data.batch\": it takes key=value", "train", path, "--set", "data.batch");
    TOOL_OUT(2, "", "--set \"data..batch=3\": a key is empty", "train", path, "--set", "data..batch=3");
    TOOL_OUT(1, "", "--set \"features.trade={type: vocabulary, file: no.txt}\": the feature \"trade\": ", "train", path,
             "--set", "features.trade={type: vocabulary, file: no.txt}");
    TOOL_OUT(2, "", "--set \"data.batch=[\": ", "train", path, "--set", "data.batch=[");
}

/* A value that an alias shares is set for one of its places only. */
TEST(set_beside_alias)
{
    const char *path = put("job.yaml", "model:\n"
                                       "  type: dnn_linear_combined_regressor\n"
                                       "  linear_columns: &c [x]\n"
                                       "  dnn_columns: *c\n"
                                       "  hidden_units: 4\n"
                                       "  dnn_optimizer: &o {name: SGD, learning_rate: 0.5}\n"
                                       "  linear_optimizer: *o\n"
                                       "features: {x: {type: numeric}}\n"
                                       "data: {label: y}\n");
    tool_run    run  = TOOL(0, "train", path, "--print-config", "--set", "model.dnn_optimizer.learning_rate=0.25");

    tool_expect_part(run.out, "  dnn_optimizer:\n    name: SGD\n    learning_rate: 0.25\n", "the configuration");
    tool_expect_part(run.out, "  linear_optimizer:\n    name: SGD\n    learning_rate: 0.5\n", "the configuration");
    tool_expect_part(run.out, "  dnn_columns: [x]\n", "the configuration");
    tool_run_free(&run);
}

/* Every type of feature and odd texts. */
static const char everything[] =
    "model: {type: linear_regressor, columns: [w], optimizer: Adam, label_dimension: 3}\n"
    "features:\n"
    "  n: {type: numeric, shape: [2, 2], dtype: int64, default: [1, 2, 3, -4.5]}\n"
    "  n1: {type: numeric, key: \"\\u2028 \\x07\\\"'é\\\\: #\"}\n"
    "  b: {type: bucketized, source: n1, boundaries: -1.5}\n"
    "  i: {type: identity, buckets: 7, default_id: 3}\n"
    "  h: {type: hash, dtype: int64, key: '12', buckets: 9}\n"
    "  v: {type: vocabulary, values: ['null', 'true', '-', '', '~', '1', ' x ', \"\\n\"]}\n"
    "  vf: {type: vocabulary, file: a/b c.txt, size: 10, default_id: 1}\n"
    "  c: {type: cross, sources: [b, v, raw], buckets: 10, hash_key: 99}\n"
    "  w: {type: weighted, source: i, weight: ws}\n"
    "  d: {type: indicator, source: w}\n"
    "  e: {type: embedding, source: c, dimension: 3, combiner: sqrtn, max_norm: 2, frozen: true}\n"
    "  s: {type: shared, sources: [i, i2], dimension: 2}\n"
    "  i2: {type: identity, buckets: 7}\n"
    "  n2: {type: numeric, transform: log1p, min: -1.5, max: 2}\n"
    "  e2: {type: embedding, source: c, dimension: 3, initializer: ones, checkpoint: a/b, tensor_name: t}\n"
    "  e3: {type: embedding, source: c, dimension: 3, initializer: {type: random_uniform, high: 3, seed: 4}}\n"
    "  s2: {type: shared, sources: [i, i2], dimension: 2, collection_name: c}\n"
    "  d2: {type: dynamic, dtype: int64, dimension: 4, admit_after: 3, max_rows: 1000, max_age: 50}\n"
    "data: {format: tfrecord, train: [a*, 'b*'], eval: e, label: y, weight: z, epochs: 3, bad_rows: any}\n"
    "run: {save_checkpoints_secs: 0.5, keep_checkpoint_max: all, save_summary_steps: off, threads: 2, peer_silence_secs: 3,\n"
    "  strategy: {max_staleness: 4, placement: round_robin, partitioner: {type: max_size, max_shard_bytes: 100}}}\n"
    "eval: {steps: 10, name: x}\n"
    "train: {early_stopping: [{type: no_increase, metric: auc, steps: 10}, {type: lower, metric: loss, threshold: -1}]}\n"
    "warm_start:\n"
    "  path: p\n"
    "  variables: 'a|b'\n"
    "  all: true\n"
    "  renames: {x/y: z, u: {from: v}}\n"
    "  vocabularies: {w: {file: f, old_file: g, axis: 1, keep_initial: false}}\n";

static void check_round_trip(const char *path)
{
    tool_run first = TOOL(0, "train", path, "--print-config"), second;

    second = TOOL(0, "train", put("again.yaml", first.out), "--print-config");
    tool_expect_text(second.out, first.out, "the second configuration");
    tool_run_free(&first);
    tool_run_free(&second);
}

TEST(print_config)
{
    check_round_trip(changed("seed: 3", "seed: 3"));
    check_round_trip(EST_SOURCE_DIR "/examples/census.yaml");
    check_round_trip(EST_SOURCE_DIR "/examples/clicks.yaml");
    /* An empty word of a vocabulary is the one thing that is refused. */
    TOOL_OUT(2, "", ":8:55: \"values\" is empty", "train", put("job.yaml", everything));
    {
        char *text = est_strdup(everything), *at = strstr(text, "'', ");

        memcpy(at, "'e',", 4);
        check_round_trip(put("job.yaml", text));
        est_free(text);
    }
    check_round_trip(put("job.yaml",
                         "model:\n"
                         "  type: linear_estimator\n"
                         "  columns: [x]\n"
                         "  optimizer:\n"
                         "    name: LazyAdam\n"
                         "    learning_rate: {type: cosine_decay, learning_rate: 1, decay_steps: 9, warmup_steps: 3}\n"
                         "  head:\n"
                         "    type: multi\n"
                         "    heads:\n"
                         "      - {type: multi_label, name: a, n_classes: 3, thresholds: 0.5, metric_classes: [0, 2]}\n"
                         "      - {type: binary, name: b, label: y, vocabulary: [m, n], loss_weight: 2}\n"
                         "      - {type: regression, name: c, inverse_link: tanh, loss_reduction: mean}\n"
                         "      - {type: poisson, name: d, full_loss: false}\n"
                         "features: {x: {type: numeric}}\n"
                         "data: {train: t.csv, autoshard: file}\n"
                         "run:\n"
                         "  strategy: {name: multi_worker_mirrored, communication: shared, rejoin_secs: forever}\n"
                         "  eval_strategy: {name: mirrored, replicas: 2}\n"));
}

/* The manual page knows every key that --help-job does. */
TEST(help_job)
{
    tool_run run  = TOOL(0, "train", "--help-job");
    char    *page = tool_read_file(EST_SOURCE_DIR "/docs/man/estoc-job.5", NULL);
    int      n    = 0;

    for (const char *at = run.out; (at = strstr(at, "\n  ")) != NULL; at++) {
        char        key[64], word[80];
        const char *end = at + 3 + strcspn(at + 3, ": "), *dot;

        if (at[3] == ' ') continue;
        for (dot = end; dot > at + 3 && dot[-1] != '.'; dot--) continue;
        snprintf(key, sizeof key, "%.*s", (int)(end - dot), dot);
        snprintf(word, sizeof word, ".B %s\n", key);
        if (strstr(page, word) == NULL) fail_msg("docs/man/estoc-job.5 does not describe \"%s\"", key);
        n++;
    }
    assert_true(n > 80);
    tool_run_free(&run);
    est_free(page);
}

/* --- from within -------------------------------------------------------------------------------------------------- */

static const char several_heads[] =
    "model:\n"
    "  type: linear_estimator\n"
    "  columns: [w, n]\n"
    "  optimizer: {name: Ftrl, learning_rate: {type: piecewise_constant, boundaries: [3], values: [1, 2]}}\n"
    "  head: {type: multi, heads: [{type: binary, name: a, vocabulary: [x, y]}, {type: poisson, name: b}]}\n"
    "features:\n"
    "  n: {type: numeric, transform: log1p}\n"
    "  i: {type: identity, buckets: 4}\n"
    "  c: {type: cross, sources: [i, raw], buckets: 10}\n"
    "  w: {type: weighted, source: c, weight: ws}\n"
    "data: {train: a.csv}\n"
    "warm_start: {path: p, renames: {x: y}, vocabularies: {v: {file: f, old_file: g}}}\n";

/* Everything that is made of a job before it runs. */
static est_status make_all(const char *text, const char *set, est_strbuf *printed)
{
    est_arena *arena  = est_arena_create();
    job_errors errors = { 0 };
    job_runner runner = { 0 };
    job_node  *root;
    job_spec   job;
    est_status status = EST_RESOURCE_EXHAUSTED;

    if (arena != NULL) {
        status = job_yaml_parse(arena, "job.yaml", true, (est_str){ text, strlen(text) }, &errors, &root);
        if (status == EST_OK) status = job_set(arena, root, set, &errors);
        if (status == EST_OK) status = job_read(arena, root, &errors, &job);
        if (status == EST_OK) job_print(&job, printed);
        if (status == EST_OK) status = est_strbuf_status(printed);
        if (status == EST_OK) status = job_runner_init(&runner, &job, true, true, false);
        job_runner_clear(&runner);
        est_arena_free(arena);
    }
    assert_int_equal(errors.n, 0);
    est_strbuf_clear(&errors.text);
    return status;
}

static void check_memory(const char *text, const char *set)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 9) {
        est_strbuf printed = { 0 };

        fault_arm(&f);
        fault_check(&f, make_all(text, set, &printed));
        est_strbuf_clear(&printed);
    }
}

TEST(memory_runs_out)
{
    est_log_set_level(EST_LOG_OFF);
    check_memory(good, "model.linear_optimizer.l1=0.5");
    check_memory(several_heads, "model.optimizer.l1=0.5");
    setenv("TF_CONFIG",
           "{\"cluster\": {\"chief\": [\"localhost:1\"], \"ps\": [\"localhost:2\"]}, "
           "\"task\": {\"type\": \"chief\", \"index\": 0}}",
           1);
    check_memory(several_heads, "run={model_dir: x, strategy: {partitioner: min_size}}");
    setenv("TF_CONFIG",
           "{\"cluster\": {\"worker\": [\"localhost:1\", \"localhost:2\"]}, "
           "\"task\": {\"type\": \"worker\", \"index\": 0}}",
           1);
    check_memory(several_heads,
                 "run={model_dir: x, strategy: multi_worker_mirrored, eval_strategy: multi_worker_mirrored}");
    unsetenv("TF_CONFIG");
}

int main(void)
{
    return est_test_run(enter_dir, leave_dir);
}
