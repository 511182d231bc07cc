/* SPDX-License-Identifier: Apache-2.0
 *
 * The schema of job files: a row for every key, with its type, its place in an options struct of the library, its
 * meaning and its default. Reading, printing, help and the manual page follow from these rows: a new option of the
 * library is one row here. */
#include "job_schema.h"

#include "collective/collective.h"
#include "command.h"

/* clang-format off */

/* --- features ----------------------------------------------------------------------------------------------------- */

#define INITIALIZER(name, ...) static est_initializer name(const est_initializer *i) { (void)i; return __VA_ARGS__; }

INITIALIZER(zeros, est_init_zeros())
INITIALIZER(ones, est_init_ones())
INITIALIZER(constant, est_init_constant(i->a))
INITIALIZER(random_uniform, est_init_random_uniform(i->a, i->b, i->seed))
INITIALIZER(random_normal, est_init_random_normal(i->a, i->b, i->seed))
INITIALIZER(truncated_normal, est_init_truncated_normal(i->a, i->b, i->seed))
INITIALIZER(glorot_uniform, est_init_glorot_uniform(i->seed))
INITIALIZER(glorot_normal, est_init_glorot_normal(i->seed))
INITIALIZER(he_uniform, est_init_he_uniform(i->seed))
INITIALIZER(he_normal, est_init_he_normal(i->seed))
INITIALIZER(lecun_uniform, est_init_lecun_uniform(i->seed))
INITIALIZER(lecun_normal, est_init_lecun_normal(i->seed))

#define WORD(name) { #name, .make.initializer = name }

static const job_word initializer_types[] = {
    WORD(zeros), WORD(ones), WORD(constant), WORD(random_uniform), WORD(random_normal), WORD(truncated_normal),
    WORD(glorot_uniform), WORD(glorot_normal), WORD(he_uniform), WORD(he_normal),
    WORD(lecun_uniform), WORD(lecun_normal), { NULL }
};

#define RECORD  job_initializer
#define NORMALS "random_normal truncated_normal"

static const job_field initializer_fields[] = {
    { "type", JOB_WORD, AT(type), "the distribution", .required = ALWAYS, .words = initializer_types },
    { "value", JOB_NUMBER, AT(value.a), "the constant", .only = "constant", .required = "constant" },
    { "low", JOB_NUMBER, AT(value.a), "the smallest number", "-0.05", .only = "random_uniform" },
    { "high", JOB_NUMBER, AT(value.b), "the upper bound, which is never drawn", "0.05", .only = "random_uniform" },
    { "mean", JOB_NUMBER, AT(value.a), "of the numbers", "0", .only = NORMALS },
    { "stddev", JOB_NUMBER, AT(value.b), "their standard deviation", "0.05", .only = NORMALS, .above = true },
    { "seed", JOB_INT, AT(value.seed), "absent: from that of the run", .only = "!zeros ones constant", .min = 1 },
    { NULL }
};

static const job_record initializer = { "an initializer", sizeof(job_initializer), initializer_fields, "type" };

static const job_word feature_types[] = {
    { "numeric", JOB_NUMERIC }, { "bucketized", JOB_BUCKETIZED }, { "identity", JOB_IDENTITY }, { "hash", JOB_HASH },
    { "vocabulary", JOB_VOCABULARY }, { "cross", JOB_CROSS }, { "weighted", JOB_WEIGHTED },
    { "indicator", JOB_INDICATOR },
    { "embedding", JOB_EMBEDDING }, { "shared", JOB_SHARED }, { "dynamic", JOB_DYNAMIC }, { NULL }
};

static const job_word transforms[]     = { { "none", false }, { "log1p", true }, { NULL } };
static const job_word number_dtypes[]  = { { "float32", EST_F32 }, { "int64", EST_I64 }, { NULL } };
static const job_word category_dtypes[] = { { "string", EST_STRING }, { "int64", EST_I64 }, { NULL } };

#undef RECORD
#define RECORD     job_feature
#define CATEGORIES "hash vocabulary dynamic"
#define TABLES     "embedding shared"
#define VECTORS    TABLES " dynamic"
#define OF_ONE     "bucketized weighted indicator embedding"
#define OF_SEVERAL "cross shared"
#define BUCKETS    "identity hash cross"

static const job_field feature_fields[] = {
    { "type", JOB_WORD, AT(type), "numeric: numbers as they are; bucketized: the range that contains a number; "
      "identity: integers from 0; hash, vocabulary: words; cross: combinations; weighted: words with weights; "
      "indicator: how often each id occurs; embedding: a trained vector for each id; shared: embeddings of several "
      "features with one table; dynamic: a trained vector for each word or number that occurs, without a vocabulary",
      .required = ALWAYS, .words = feature_types },
    { "key", JOB_TEXT, AT(key), "the field of the data; absent: the feature's name", "$",
      .only = "numeric identity " CATEGORIES },
    { "source", JOB_TEXT, AT(source), "the feature that it is made of", .only = OF_ONE, .required = OF_ONE },
    { "sources", JOB_TEXTS, AT(sources), "the features that it is made of; a cross also takes names of fields of the "
      "data", .only = OF_SEVERAL, .required = OF_SEVERAL },
    { "dtype", JOB_ENUM, AT(numeric.dtype), "of the numbers; absent: float32", .only = "numeric",
      .words = number_dtypes },
    { "dtype", JOB_ENUM, AT(categorical.dtype), "of the categories; absent: string", .only = CATEGORIES,
      .words = category_dtypes },
    { "shape", JOB_SHAPE, AT(numeric.shape), "of the numbers of a row", "1", .only = "numeric", .min = 1, .max = 1e9 },
    { "default", JOB_FLOATS, AT(numeric.default_value), "the numbers of a row without the feature; absent: such a row "
      "is an error", .only = "numeric" },
    { "transform", JOB_ENUM, AT(log1p), "log1p: the logarithm of 1 + x, before the scaling below", "none",
      .only = "numeric", .words = transforms },
    { "mean", JOB_NUMBER, AT(mean), "is subtracted", "0", .only = "numeric" },
    { "stddev", JOB_NUMBER, AT(stddev), "the divisor", "1", .only = "numeric", .above = true },
    { "min", JOB_NUMBER, AT(low), "becomes 0, and max becomes 1; in place of mean and stddev", .only = "numeric" },
    { "max", JOB_NUMBER, AT(high), "becomes 1", .only = "numeric" },
    { "boundaries", JOB_FLOATS, AT(boundaries), "ascending, between the ranges", .only = "bucketized",
      .required = "bucketized" },
    { "buckets", JOB_INT, AT(buckets), "number of ids", .only = BUCKETS, .required = BUCKETS, .min = 1, .max = 1e12 },
    { "values", JOB_TEXTS, AT(values), "the words, in the order of their ids; this or file", .only = "vocabulary" },
    { "file", JOB_TEXT, AT(file), "a text file with a word a line", .only = "vocabulary" },
    { "size", JOB_INT, AT(categorical.vocabulary_size), "lines used of the file; absent: all", .only = "vocabulary",
      .min = 1 },
    { "oov_buckets", JOB_INT, AT(categorical.num_oov_buckets), "ids for unknown words, by hash; 0: an unknown word "
      "counts as missing", "0", .only = "vocabulary" },
    { "default_id", JOB_INT, AT(categorical.default_value), "the id of unknown words, and of ids out of range",
      .only = "identity vocabulary" },
    { "hash_key", JOB_INT, AT(hash_key), "of the hash; 0: TensorFlow's", "0", .only = "cross" },
    { "weight", JOB_TEXT, AT(weight), "the field with the weights", .only = "weighted", .required = "weighted" },
    { "dimension", JOB_INT, AT(dimension), "length of the vectors", .only = VECTORS, .required = VECTORS, .min = 1,
      .max = 1e6 },
    { "combiner", JOB_ENUM, AT(embedding.combiner), "how several vectors of a row become one", "mean", .only = TABLES,
      .words = job_combiners },
    { "combiner", JOB_ENUM, AT(dynamic.combiner), NULL, "mean", .only = "dynamic", .words = job_combiners },
    { "initializer", JOB_RECORD, AT(initializer), "of new vectors; absent: a truncated normal of deviation 1 / "
      "sqrt(dimension)", .only = VECTORS, .record = &initializer },
    { "checkpoint", JOB_TEXT, AT(embedding.checkpoint), "the checkpoint with the initial vectors; with tensor_name",
      .only = TABLES },
    { "tensor_name", JOB_TEXT, AT(embedding.tensor_name), "the table in that checkpoint", .only = TABLES },
    { "max_norm", JOB_NUMBER, AT(embedding.max_norm), "longer vectors are scaled to that length", .only = TABLES,
      .above = true },
    { "frozen", JOB_BOOL, AT(embedding.frozen), "vectors are not trained", "false", .only = TABLES },
    { "collection_name", JOB_TEXT, AT(embedding.collection_name), "of the table; absent: made of the sources' names",
      .only = "shared" },
    { "max_rows", JOB_INT, AT(dynamic.max_rows), "the largest number of vectors; a new one then takes the row of the "
      "word or number not seen for longest", "16777216", .only = "dynamic", .min = 1, .max = 1e12 },
    { "admit_after", JOB_INT, AT(dynamic.admit_after), "a word or number gets its vector when it occurs for the n-th "
      "time", "1", .only = "dynamic", .min = 1 },
    { "max_age", JOB_INT, AT(dynamic.max_age), "steps without an occurrence after which a vector is dropped; absent: "
      "none is", .only = "dynamic", .min = 1 },
    { NULL }
};

static const job_record feature = {
    "a feature", sizeof(job_feature), feature_fields, NULL,
    &(const job_feature){ .numeric.struct_size     = EST_STRUCT_SIZE(est_numeric_options),
                          .categorical.struct_size = EST_STRUCT_SIZE(est_categorical_options),
                          .embedding.struct_size   = EST_STRUCT_SIZE(est_embedding_column_options),
                          .dynamic.struct_size     = EST_STRUCT_SIZE(est_dynamic_options) }
};

/* --- data --------------------------------------------------------------------------------------------------------- */

#undef RECORD
#define RECORD job_label

static const job_field label_fields[] = {
    { "name", JOB_TEXT, AT(name), "the field with the label", .required = ALWAYS },
    { "vocabulary", JOB_TEXTS, AT(vocabulary), "labels are these words, in the order of their classes; absent: "
      "numbers" },
    { "strip", JOB_TEXT, AT(strip), "characters that are removed from the end of a label that is a word" },
    { NULL }
};

static const job_record label = { "a label", sizeof(job_label), label_fields, "name" };

#undef RECORD
#define RECORD job_csv

static const job_field csv_fields[] = {
    { "header", JOB_BOOL, AT(options.header), "the first line of every file has the names of its fields; with fields "
      "it is false", "true", .unless = "fields" },
    { "delimiter", JOB_CHAR, AT(options.delimiter), "one character between fields", "," },
    { "na", JOB_TEXT, AT(options.na_value), "a text that means the same as an empty field" },
    { "trim", JOB_BOOL, AT(options.trim), "blanks around fields are ignored", "false" },
    { "quotes", JOB_BOOL, AT(options.no_quotes), "fields may stand in double quotes", "true", .negated = true },
    { "fields", JOB_TEXTS, AT(fields), "the names of all fields, for files without a header" },
    { NULL }
};

static const job_record csv = {
    "csv", sizeof(job_csv), csv_fields, NULL,
    &(const job_csv){ .options.struct_size = EST_STRUCT_SIZE(est_csv_options) }
};

static const job_word formats[] = {
    { "csv", JOB_FORMAT_CSV }, { "tfrecord", JOB_FORMAT_TFRECORD }, { "libsvm", JOB_FORMAT_LIBSVM }, { NULL }
};
static const job_word for_ever[] = { { "forever", EST_FOREVER }, { NULL } };
static const job_word any[] = { { "any", EST_FOREVER }, { NULL } };
static const job_word autoshards[] = {
    { "auto", EST_AUTO_SHARD_AUTO }, { "file", EST_AUTO_SHARD_FILE }, { "data", EST_AUTO_SHARD_DATA },
    { "off", EST_AUTO_SHARD_OFF },
    { NULL }
};

#undef RECORD
#define RECORD job_data

static const job_field data_fields[] = {
    { "format", JOB_ENUM, AT(format), "of the files; libsvm has the fields index, value and label", "csv",
      .words = formats },
    { "train", JOB_TEXTS, AT(train), "files for training: a pattern of the shell, or several" },
    { "eval", JOB_TEXTS, AT(eval), "files for evaluation; absent: training does not evaluate" },
    { "label", JOB_RECORD, AT(label), "what is learnt; its name alone is enough. Required unless model.head is multi",
      .record = &label },
    { "weight", JOB_TEXT, AT(weight), "the field with the weight of a row; absent: all rows count the same" },
    { "batch", JOB_INT, AT(batch), "rows of a step, of each replica", "128", .min = 1, .max = 1e9 },
    { "shuffle", JOB_INT, AT(shuffle), "rows in the shuffle buffer of training; 0: in order", "10000", .max = 1e9 },
    { "epochs", JOB_INT, AT(epochs), "passes of training over the files", "forever", .min = 1, .words = for_ever },
    { "bad_rows", JOB_INT, AT(parse.bad_rows_max), "number of rows that are skipped because they cannot be read, or "
      "because their label, weight or id is invalid; one more is an error", "0", .words = any },
    { "autoshard", JOB_ENUM, AT(autoshard), "how the workers of a cluster divide the input: file: each reads every "
      "n-th file; data: each keeps every n-th row; off: each reads all rows; auto: files with a synchronous strategy "
      "and a file for each worker, else rows", "auto", .words = autoshards },
    { "csv", JOB_RECORD, AT(csv), "the format of CSV files", "{}", .record = &csv },
    { NULL }
};

static const job_record data = {
    "data", sizeof(job_data), data_fields, NULL,
    &(const job_data){ .parse.struct_size = EST_STRUCT_SIZE(est_parse_options) }
};

/* --- strategies --------------------------------------------------------------------------------------------------- */

#define PARTITIONER(name, ...) static est_partitioner name(const est_partitioner *p) { return __VA_ARGS__; }

PARTITIONER(fixed_shards, est_fixed_shards(p->n))
PARTITIONER(min_size, est_min_size_partitioner(p->bytes, p->n))
PARTITIONER(max_size, est_max_size_partitioner(p->bytes, p->n))

static const job_word partitioner_types[] = {
    { "fixed_shards", .make.partitioner = fixed_shards }, { "min_size", .make.partitioner = min_size },
    { "max_size", .make.partitioner = max_size }, { NULL }
};

#undef RECORD
#define RECORD job_partitioner

static const job_field partitioner_fields[] = {
    { "type", JOB_WORD, AT(type), "fixed_shards: a fixed number for every variable; min_size: no shard is smaller; "
      "max_size: no shard is larger", .required = ALWAYS, .words = partitioner_types },
    { "shards", JOB_INT, AT(value.n), "of a variable; absent: as many as ps tasks", .only = "fixed_shards", .min = 1,
      .max = 1e6 },
    { "min_shard_bytes", JOB_INT, AT(value.bytes), "of a shard, at least", "262144", .only = "min_size", .min = 1 },
    { "max_shard_bytes", JOB_INT, AT(value.bytes), "of a shard, at most; no row is cut", .only = "max_size",
      .required = "max_size", .min = 1 },
    { "max_shards", JOB_INT, AT(value.n), "of a variable, at most; absent: as many as ps tasks with min_size, any "
      "number with max_size", .only = "min_size max_size", .min = 1, .max = 1e6 },
    { NULL }
};

static const job_record partitioner = { "a partitioner", sizeof(job_partitioner), partitioner_fields, "type" };

static est_status mirrored(const job_strategy *s, est_strategy **out)
{
    return est_mirrored_strategy(&s->mirrored, out);
}

static est_status central_storage(const job_strategy *s, est_strategy **out)
{
    return est_central_storage_strategy(&s->central_storage, out);
}

static est_status one_device(const job_strategy *s, est_strategy **out)
{
    return est_one_device_strategy(s->device, out);
}

static const job_word strategy_names[] = {
    { "parameter_server", .make.strategy = job_parameter_server }, { "mirrored", .make.strategy = mirrored },
    { "central_storage", .make.strategy = central_storage }, { "one_device", .make.strategy = one_device },
    { "multi_worker_mirrored", .make.strategy = job_multi_worker_mirrored }, { NULL }
};

static const job_word precisions[] = { { "float32", EST_PRECISION_FLOAT32 },
    { "mixed_bfloat16", EST_PRECISION_MIXED_BFLOAT16 }, { NULL } };

static const job_word placements[] = { { "by_size", false }, { "round_robin", true }, { NULL } };

static const job_word *communications(void)
{
    static job_word words[EST_COMMUNICATION_NCCL + 2];

    for (int i = 0; i <= EST_COMMUNICATION_NCCL; i++) {
        words[i] = (job_word){ est_communication_name((est_communication)i), i };
    }
    return words;
}

static const job_word *protocols(void)
{
    static job_word    words[8];
    const char *const *names = tool_transports();

    for (size_t i = 0; names[i] != NULL; i++) words[i].text = names[i];
    return words;
}

#undef RECORD
#define RECORD  job_strategy
#define SERVERS "parameter_server"
#define WORKERS "multi_worker_mirrored"

static const job_field strategy_fields[] = {
    { "name", JOB_WORD, AT(name), "parameter_server: variables at ps tasks; mirrored, central_storage: several "
      "replicas in one process; one_device; multi_worker_mirrored: synchronous workers, each with a copy of all "
      "variables", SERVERS, .words = strategy_names },
    { "sync_replicas", JOB_INT, AT(parameter_server.sync_replicas), "a step is the mean of the gradients of this many "
      "workers; 0: each worker trains asynchronously", "0", .only = SERVERS, .max = 1e6 },
    { "max_staleness", JOB_INT, AT(parameter_server.max_staleness), "the largest number of steps that others may "
      "finish while one is in progress; 0: any number", "0", .only = SERVERS },
    { "consistent_checkpoints", JOB_BOOL, AT(parameter_server.consistent_checkpoints), "no step is in progress while "
      "the snapshots of a checkpoint are taken", "false", .only = SERVERS },
    { "placement", JOB_ENUM, AT(parameter_server.round_robin), "by_size: a variable goes to the ps task with the "
      "fewest bytes; round_robin: to each in turn", "by_size", .only = SERVERS, .words = placements },
    { "partitioner", JOB_RECORD, AT(partitioner), "spreads the rows of large variables over ps tasks; absent: no "
      "variable is split", .only = SERVERS, .record = &partitioner },
    { "replicas", JOB_INT, AT(mirrored.replicas), "copies of the model in a process, each with a batch of its own in a "
      "step; absent: one for each of devices, else 1", .only = "mirrored", .min = 1, .max = 256 },
    { "replicas", JOB_INT, AT(central_storage.replicas), NULL, .only = "central_storage", .min = 1, .max = 256 },
    { "replicas", JOB_INT, AT(multi_worker.replicas), NULL, .only = WORKERS, .min = 1, .max = 256 },
    { "devices", JOB_TEXTS, AT(mirrored.devices), "of the replicas, as [/gpu:0, /gpu:1]; absent: the CPU", .only = "mirrored" },
    { "devices", JOB_TEXTS, AT(central_storage.compute_devices), NULL, .only = "central_storage" },
    { "device", JOB_TEXT, AT(device), "the device of all operations, as /gpu:0", "/cpu:0", .only = "one_device" },
    { "communication", JOB_ENUM, AT(multi_worker.communication), "the all-reduce algorithm; auto: by size, number of "
      "workers and hosts", "auto", .only = WORKERS, .words_of = communications },
    { "bytes_per_pack", JOB_INT, AT(multi_worker.bytes_per_pack), "gradients are sent in packs; a pack is closed when "
      "it is larger", "4194304", .only = WORKERS, .min = 1 },
    { "timeout_secs", JOB_NUMBER, AT(multi_worker.timeout_secs), "of one exchange between workers", "600",
      .only = WORKERS, .above = true, .words = for_ever },
    { "rejoin_secs", JOB_NUMBER, AT(multi_worker.rejoin_secs), "how long the others wait for a lost worker", "600",
      .only = WORKERS, .above = true, .words = for_ever },
    { "elastic", JOB_BOOL, AT(multi_worker.elastic), "training continues without it then; false: training fails", "false",
      .only = WORKERS },
    { NULL }
};

static const job_record strategy = {
    "a strategy", sizeof(job_strategy), strategy_fields, "name",
    &(const job_strategy){ .parameter_server.struct_size = EST_STRUCT_SIZE(est_parameter_server_options),
                           .mirrored.struct_size         = EST_STRUCT_SIZE(est_mirrored_options),
                           .central_storage.struct_size  = EST_STRUCT_SIZE(est_central_storage_options),
                           .multi_worker.struct_size     = EST_STRUCT_SIZE(est_multi_worker_mirrored_options) }
};

/* --- run, train, eval, export, warm_start ------------------------------------------------------------------------- */

static const job_word off[] = { { "off", EST_OFF }, { NULL } };
static const job_word all_kept[] = { { "all", EST_OFF }, { NULL } };
static const job_word all_rows[] = { { "all", EST_FOREVER }, { NULL } };

#undef RECORD
#define RECORD job_run

static const job_field run_fields[] = {
    { "model_dir", JOB_TEXT, AT(config.model_dir), "the directory of checkpoints, events and exports; absent: that of "
      "TF_CONFIG, else a temporary directory" },
    { "seed", JOB_INT, AT(config.seed), "of all random numbers; absent: random", .min = 1 },
    { "save_summary_steps", JOB_INT, AT(config.save_summary_steps), "steps between summaries", "100", .min = 1,
      .words = off },
    { "save_checkpoints_steps", JOB_INT, AT(config.save_checkpoints_steps), "steps between checkpoints; absent: by "
      "time", .min = 1, .words = off },
    { "save_checkpoints_secs", JOB_NUMBER, AT(config.save_checkpoints_secs), "seconds between checkpoints; absent: "
      "600, unless by steps", .above = true, .words = off },
    { "keep_checkpoint_max", JOB_INT, AT(config.keep_checkpoint_max), "checkpoints that are kept", "5", .min = 1,
      .max = 1e9, .words = all_kept },
    { "keep_checkpoint_every_n_hours", JOB_NUMBER, AT(config.keep_checkpoint_every_n_hours), "hours between "
      "checkpoints that are kept forever", "10000", .above = true },
    { "log_step_count_steps", JOB_INT, AT(config.log_step_count_steps), "steps between lines of the log", "100",
      .min = 1, .words = off },
    { "session_creation_timeout_secs", JOB_NUMBER, AT(config.session_creation_timeout_secs), "how long a task waits "
      "for its cluster", "7200", .above = true },
    { "peer_silence_secs", JOB_NUMBER, AT(config.peer_silence_secs), "a task that has been silent for this long counts "
      "as lost", "10", .above = true },
    { "max_worker_delay_secs", JOB_INT, AT(config.max_worker_delay_secs), "workers start 5 seconds after each other; "
      "this is the longest delay; 0: all start at once", "60", .max = 1e6, .zero_is_off = true },
    { "protocol", JOB_NAME, AT(config.protocol), "the transport between tasks; absent: ESTOC_PROTOCOL, else tls",
      .words_of = protocols },
    { "strategy", JOB_RECORD, AT(strategy), "how training is distributed; its name alone is enough. A parameter_server "
      "strategy has no effect without ps tasks", .record = &strategy },
    { "eval_strategy", JOB_RECORD, AT(eval_strategy), "the same for evaluations during training; absent: one process "
      "evaluates", .record = &strategy },
    { "graph_def", JOB_BOOL, AT(config.no_graph_def), "write the graph beside checkpoints (.meta)", "true",
      .negated = true },
    { "input_position", JOB_BOOL, AT(config.no_input_position), "a resumed run continues with the next row of its "
      "input", "true", .negated = true },
    { "check_numerics", JOB_BOOL, AT(config.check_numerics), "name the operation that first produces NaN or infinity",
      "false" },
    { "precision", JOB_ENUM, AT(config.precision), "with mixed_bfloat16 layers multiply numbers rounded to "
      "bfloat16, and keep variables and sums in float32", "float32", .words = precisions },
    { "threads", JOB_INT, AT(config.threads), "absent: ESTOC_NUM_THREADS, else the cores", .min = 1, .max = 1024 },
    { "devices", JOB_TEXTS, AT(config.devices), "devices that compute beside the CPU, as /gpu:0; /cpu:0: none; absent: "
      "GPU 0 where there is one" },
    { "soft_placement", JOB_BOOL, AT(config.no_soft_placement), "what cannot run on the device that it is pinned to runs "
      "on the CPU", "true", .negated = true },
    { "log_device_placement", JOB_BOOL, AT(config.log_device_placement), "log where each operation runs", "false" },
    { "tf32", JOB_BOOL, AT(config.no_tf32), "products of float32 on a GPU use 10 bits of each fraction", "true",
      .negated = true },
    { "device_memory_limit", JOB_INT, AT(config.device_memory_limit), "bytes that this process takes of each GPU; "
      "absent: what there is", .min = 1, .max = 1e15 },
    { NULL }
};

static const job_record run = {
    "run", sizeof(job_run), run_fields, NULL,
    &(const job_run){ .config.struct_size = EST_STRUCT_SIZE(est_run_config) }
};

#define STOP(name, limit) \
    static est_hook *name(const job_stop *s, const est_early_stopping_options *o) \
    { \
        return est_stop_if_##name##_hook(s->metric, limit, o); \
    }

STOP(no_decrease, s->steps)
STOP(no_increase, s->steps)
STOP(higher, s->threshold)
STOP(lower, s->threshold)

static const job_word stop_types[] = {
    { "no_decrease", .make.stop = no_decrease }, { "no_increase", .make.stop = no_increase },
    { "higher", .make.stop = higher },
    { "lower", .make.stop = lower }, { NULL }
};

#undef RECORD
#define RECORD       job_stop
#define BY_STEPS     "no_decrease no_increase"
#define BY_THRESHOLD "higher lower"

static const job_field stop_fields[] = {
    { "type", JOB_WORD, AT(type), "no_decrease, no_increase: the best value of the metric is `steps` old; higher, "
      "lower: a value is beyond the threshold", .required = ALWAYS, .words = stop_types },
    { "metric", JOB_TEXT, AT(metric), "of evaluations", .required = ALWAYS },
    { "steps", JOB_INT, AT(steps), "without a better value", .only = BY_STEPS, .required = BY_STEPS, .min = 1 },
    { "threshold", JOB_NUMBER, AT(threshold), "a value above or below it ends training", .only = BY_THRESHOLD,
      .required = BY_THRESHOLD },
    { "min_steps", JOB_INT, AT(options.min_steps), "results of earlier steps do not count", "0" },
    { "run_every_steps", JOB_INT, AT(options.run_every_steps), "steps between checks of the results; absent: by time",
      .min = 1 },
    { "run_every_secs", JOB_NUMBER, AT(options.run_every_secs), "seconds between checks; absent: 60, unless by steps",
      .above = true },
    { NULL }
};

static const job_record stop = {
    "an early stop", sizeof(job_stop), stop_fields, NULL,
    &(const job_stop){ .options.struct_size = EST_STRUCT_SIZE(est_early_stopping_options) }
};

#undef RECORD
#define RECORD job_train

static const job_field train_fields[] = {
    { "max_steps", JOB_INT, AT(spec.max_steps), "the step at which training ends; absent: the end of the input",
      .min = 1 },
    { "early_stopping", JOB_RECORDS, AT(early_stopping), "results of evaluations that end it earlier", "[]",
      .record = &stop },
    { NULL }
};

static const job_record train = {
    "train", sizeof(job_train), train_fields, NULL,
    &(const job_train){ .spec.struct_size = EST_STRUCT_SIZE(est_train_spec) }
};

#undef RECORD
#define RECORD job_eval

static const job_field eval_fields[] = {
    { "steps", JOB_INT, AT(spec.steps), "batches of an evaluation", "all", .min = 1, .words = all_rows },
    { "start_delay_secs", JOB_NUMBER, AT(spec.start_delay_secs), "before the first evaluation of an evaluator task",
      "120", .max = 1e9, .zero_is_off = true },
    { "throttle_secs", JOB_NUMBER, AT(spec.throttle_secs), "least time between evaluations", "600", .max = 1e9,
      .zero_is_off = true },
    { "name", JOB_TEXT, AT(spec.name), "results go to the directory eval_<name>; absent: eval" },
    { NULL }
};

static const job_record eval = {
    "eval", sizeof(job_eval), eval_fields, NULL,
    &(const job_eval){ .spec.struct_size = EST_STRUCT_SIZE(est_eval_spec) }
};

static const job_word directions[] = { { "smaller", false }, { "larger", true }, { NULL } };
static const job_word export_types[] = {
    { "latest", .make.exporter = est_latest_exporter }, { "final", .make.exporter = est_final_exporter },
    { "best", .make.exporter = est_best_exporter }, { NULL }
};

#undef RECORD
#define RECORD job_export

static const job_field export_fields[] = {
    { "type", JOB_WORD, AT(type), "latest: after every evaluation; final: at the end; best: after an evaluation with "
      "the best metric so far", .required = ALWAYS, .words = export_types },
    { "name", JOB_TEXT, AT(name), "of the directory below export; absent: the type", "$type" },
    { "keep", JOB_INT, AT(options.exports_to_keep), "exports that are kept", "5", .min = 1, .max = 1e9,
      .words = all_kept },
    { "metric", JOB_TEXT, AT(options.metric), "that is compared", "loss", .only = "best" },
    { "better", JOB_ENUM, AT(options.larger_is_better), "which value of the metric is better", "smaller",
      .only = "best", .words = directions },
    { "as_text", JOB_BOOL, AT(saved_model.as_text), "saved_model.pbtxt in place of .pb", "false" },
    { NULL }
};

static const job_record export = {
    "an export", sizeof(job_export), export_fields, "type",
    &(const job_export){ .options.struct_size     = EST_STRUCT_SIZE(est_exporter_options),
                         .saved_model.struct_size = EST_STRUCT_SIZE(est_export_options) }
};

#undef RECORD
#define RECORD job_rename

static const job_field rename_fields[] = {
    { "from", JOB_TEXT, AT(names.stored), "the name in the checkpoint", .required = ALWAYS },
    { NULL }
};

static const job_record renaming = { "a renaming", sizeof(job_rename), rename_fields, "from" };

#undef RECORD
#define RECORD job_vocabulary

static const job_field vocabulary_fields[] = {
    { "file", JOB_TEXT, AT(info.new_vocab), "the new words, one a line", .required = ALWAYS },
    { "old_file", JOB_TEXT, AT(info.old_vocab), "the words of the checkpoint", .required = ALWAYS },
    { "size", JOB_INT, AT(info.new_vocab_size), "lines used of the file; absent: all", .min = 1 },
    { "old_size", JOB_INT, AT(info.old_vocab_size), "lines used of the old one; absent: all", .min = 1 },
    { "oov_buckets", JOB_INT, AT(info.num_oov_buckets), "ids for unknown words", "0" },
    { "axis", JOB_INT, AT(info.axis), "0: words are rows of the variable; 1: columns, as of the last layer of a "
      "classifier", "0", .max = 1 },
    { "keep_initial", JOB_BOOL, AT(info.initial), "new words have the initial value of the variable; false: 0",
      "true" },
    { NULL }
};

static const job_record vocabulary = { "a vocabulary", sizeof(job_vocabulary), vocabulary_fields };

#undef RECORD
#define RECORD job_warm_start

static const job_field warm_start_fields[] = {
    { "path", JOB_TEXT, AT(options.path), "a checkpoint, a model directory or a SavedModel", .required = ALWAYS },
    { "variables", JOB_TEXT, AT(options.variables), "a regular expression that matches the beginning of names of "
      "variables", ".*" },
    { "all", JOB_BOOL, AT(options.all), "also slots of optimizers, not only trained variables", "false" },
    { "renames", JOB_NAMED, AT(renames), "names of variables here, each with that in the checkpoint", "{}",
      .record = &renaming },
    { "vocabularies", JOB_NAMED, AT(vocabularies), "names of variables whose rows belong to words that have changed",
      "{}", .record = &vocabulary },
    { "only_vocabularies", JOB_BOOL, AT(options.only_vocabs), "only the variables of `vocabularies`", "false" },
    { NULL }
};

static const job_record warm_start = {
    "a warm start", sizeof(job_warm_start), warm_start_fields, "path",
    &(const job_warm_start){ .options.struct_size = EST_STRUCT_SIZE(est_warm_start) }
};

#undef RECORD
#define RECORD job_spec

static const job_field job_fields[] = {
    { "model", JOB_RECORD, AT(model), "what is trained", .required = ALWAYS, .record = &job_model_record },
    { "features", JOB_NAMED, AT(features), "feature columns, by names of your choice", "{}", .record = &feature },
    { "data", JOB_RECORD, AT(data), "the data for training and evaluation", .required = ALWAYS, .record = &data },
    { "run", JOB_RECORD, AT(run), "the model directory, checkpoints, logs and the cluster", "{}", .record = &run },
    { "train", JOB_RECORD, AT(train), "how long to train", "{}", .record = &train },
    { "eval", JOB_RECORD, AT(eval), "how to evaluate", "{}", .record = &eval },
    { "export", JOB_RECORDS, AT(exports), "SavedModels that are made after evaluations", "[]", .record = &export },
    { "warm_start", JOB_RECORD, AT(warm_start), "the source of initial values of the variables of a new run",
      .record = &warm_start },
    { NULL }
};

const job_record job_schema = { "a job", sizeof(job_spec), job_fields };

/* clang-format on */
