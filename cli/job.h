/* SPDX-License-Identifier: Apache-2.0
 *
 * A job: everything `estoc train` and its sisters need to know about a model, its data and its run, from one file.
 *
 * job_schema.c has the table of all keys. Everything about the file follows from it: job.c reads and prints by the table,
 * `--help-job` shows it, job_check.c adds what a table cannot say (references between parts). job_columns.c makes
 * feature columns of a job, job_model.c its estimator, job_input.c its datasets.
 *
 * Threading: one thread at a time; a job that is read is not changed any more. */
#ifndef EST_CLI_JOB_H
#define EST_CLI_JOB_H

#include "base/map.h"
#include "estoc/canned.h"
#include "estoc/exporter.h"
#include "job_yaml.h"

/* --- what a job holds ------------------------------------------------------------------------------------------------ */

/* A whole number that was not given; other numbers are NaN then. */
#define JOB_NO_INT INT64_MIN

typedef struct job_texts {
    const char **data; /* [n]; NULL: not given */
    int          n;
} job_texts;

typedef struct job_ints {
    int64_t *data;
    int      n;
} job_ints;

typedef struct job_numbers {
    double *data;
    int     n;
} job_numbers;

/* Every struct below is a record of the schema. It begins with the node it was read from (NULL: it is not in the file),
 * which is what complaints about it point to; with a list of named ones the name is next. */

typedef enum job_optimizer_name {
    JOB_ADAGRAD,
    JOB_ADAM,
    JOB_FTRL,
    JOB_RMS_PROP,
    JOB_SGD,
    JOB_MOMENTUM,
    JOB_ADADELTA,
    JOB_LAZY_ADAM
} job_optimizer_name;

typedef enum job_rate_type {
    JOB_CONSTANT,
    JOB_EXPONENTIAL,
    JOB_NATURAL_EXP,
    JOB_INVERSE_TIME,
    JOB_POLYNOMIAL,
    JOB_PIECEWISE,
    JOB_COSINE,
    JOB_COSINE_RESTARTS,
    JOB_WARMUP
} job_rate_type;

typedef struct job_rate {
    const job_node *node;
    int             type;
    double          rate, decay_rate, end, power, alpha, t_mul, m_mul;
    int64_t         decay_steps;
    bool            staircase, cycle;
    job_ints        boundaries;
    job_numbers     values;
    int64_t         warmup_steps;
    double          warmup_start;
} job_rate;

typedef struct job_optimizer {
    const job_node *node;
    int             name; /* -1: the model's own */
    job_rate        learning_rate;
    double          initial_accumulator, learning_rate_power, l1, l2, l2_shrinkage, beta;
    double          beta1, beta2, epsilon, decay, momentum;
    bool            nesterov, centered;
} job_optimizer;

typedef enum job_model_type {
    JOB_DNN_CLASSIFIER,
    JOB_DNN_REGRESSOR,
    JOB_LINEAR_CLASSIFIER,
    JOB_LINEAR_REGRESSOR,
    JOB_COMBINED_CLASSIFIER,
    JOB_COMBINED_REGRESSOR,
    JOB_BASELINE_CLASSIFIER,
    JOB_BASELINE_REGRESSOR,
    JOB_DNN_ESTIMATOR,
    JOB_LINEAR_ESTIMATOR,
    JOB_COMBINED_ESTIMATOR,
    JOB_BASELINE_ESTIMATOR
} job_model_type;

typedef enum job_head_type {
    JOB_BINARY,
    JOB_MULTI_CLASS,
    JOB_MULTI_LABEL,
    JOB_REGRESSION,
    JOB_LOGISTIC_REGRESSION,
    JOB_POISSON,
    JOB_MULTI
} job_head_type;

typedef struct job_head job_head;

typedef struct job_heads {
    job_head *data;
    int       n;
} job_heads;

struct job_head {
    const job_node *node;
    int             type;
    int64_t         n_classes, label_dimension;
    job_numbers     thresholds;
    job_ints        metric_classes;
    int             inverse_link; /* an activation; -1: none */
    bool            full_loss;
    int             loss_reduction;
    job_heads       heads; /* of JOB_MULTI; those have the rest */
    const char     *name, *label;
    job_texts       vocabulary;
    double          loss_weight;
};

typedef struct job_model {
    const job_node *node;
    int             type;
    job_texts       columns, dnn_columns, linear_columns;
    job_ints        hidden_units;
    int             activation;
    double          dropout;
    bool            batch_norm;
    int             sparse_combiner;
    job_optimizer   optimizer, dnn_optimizer, linear_optimizer;
    int64_t         n_classes, label_dimension;
    job_head        head;
    int             loss_reduction;
    bool            v1;
} job_model;

typedef enum job_feature_type {
    JOB_NUMERIC,
    JOB_BUCKETIZED,
    JOB_IDENTITY,
    JOB_HASH,
    JOB_VOCABULARY,
    JOB_CROSS,
    JOB_WEIGHTED,
    JOB_INDICATOR,
    JOB_EMBEDDING,
    JOB_SHARED,
    JOB_DYNAMIC
} job_feature_type;

typedef enum job_initializer_type {
    JOB_INIT_ZEROS,
    JOB_INIT_ONES,
    JOB_INIT_CONSTANT,
    JOB_INIT_UNIFORM,
    JOB_INIT_NORMAL,
    JOB_INIT_TRUNCATED_NORMAL,
    JOB_INIT_GLOROT_UNIFORM,
    JOB_INIT_GLOROT_NORMAL,
    JOB_INIT_HE_UNIFORM,
    JOB_INIT_HE_NORMAL,
    JOB_INIT_LECUN_UNIFORM,
    JOB_INIT_LECUN_NORMAL
} job_initializer_type;

typedef struct job_initializer {
    const job_node *node;
    int             type;
    double          value, low, high, mean, stddev;
    int64_t         seed;
} job_initializer;

typedef struct job_feature {
    const job_node *node;
    const char     *name;
    int             type;
    const char     *key; /* the feature of the data; the name when not given */
    const char     *source;
    job_texts       sources;
    job_ints        shape;
    int             dtype;
    job_numbers     default_number;
    int             transform;
    double          mean, stddev, low, high;
    job_numbers     boundaries;
    int64_t         buckets, default_id;
    job_texts       values;
    const char     *file;
    int64_t         size, oov_buckets;
    int64_t         hash_key;
    const char     *weight;
    int64_t         dimension;
    int             combiner;
    job_initializer initializer;
    const char     *checkpoint, *tensor_name;
    double          max_norm;
    bool            frozen;
    const char     *collection_name;
    int64_t         max_rows, admit_after, max_age;
    int             visit; /* of job_check: 0: not looked at yet; 1: being looked at; 2: done */
} job_feature;

typedef struct job_features {
    job_feature *data;
    int          n;
} job_features;

typedef struct job_label {
    const job_node *node;
    const char     *name;
    job_texts       vocabulary;
    const char     *strip;
} job_label;

typedef struct job_csv {
    const job_node *node;
    bool            header;
    const char     *delimiter, *na;
    bool            trim, quotes;
    job_texts       fields;
} job_csv;

typedef enum job_autoshard { JOB_SHARD_AUTO, JOB_SHARD_FILE, JOB_SHARD_DATA, JOB_SHARD_OFF } job_autoshard;

typedef enum job_format { JOB_FORMAT_CSV, JOB_FORMAT_TFRECORD, JOB_FORMAT_LIBSVM } job_format;

typedef struct job_data {
    const job_node *node;
    int             format;
    job_texts       train, eval;
    job_label       label;
    const char     *weight;
    int64_t         batch, shuffle, epochs, bad_rows;
    int             autoshard;
    job_csv         csv;
} job_data;

typedef enum job_partitioner_type { JOB_FIXED_SHARDS, JOB_MIN_SIZE, JOB_MAX_SIZE } job_partitioner_type;

typedef struct job_partitioner {
    const job_node *node; /* NULL: not given */
    int             type;
    int64_t         shards, min_shard_bytes, max_shard_bytes, max_shards;
} job_partitioner;

typedef enum job_placement { JOB_BY_SIZE, JOB_ROUND_ROBIN } job_placement;

typedef enum job_strategy_name {
    JOB_PARAMETER_SERVER,
    JOB_MIRRORED,
    JOB_CENTRAL_STORAGE,
    JOB_ONE_DEVICE,
    JOB_MULTI_WORKER_MIRRORED
} job_strategy_name;

typedef struct job_strategy {
    const job_node *node; /* NULL: not given */
    int             name;
    int64_t         sync_replicas, max_staleness;
    bool            consistent_checkpoints;
    int             placement;
    job_partitioner partitioner;
    int64_t         replicas;
    int             communication;
    int64_t         bytes_per_pack;
    double          timeout_secs, rejoin_secs;
    bool            elastic;
} job_strategy;

typedef struct job_run {
    const job_node *node;
    const char     *model_dir;
    int64_t         seed, save_summary_steps, save_checkpoints_steps;
    double          save_checkpoints_secs;
    int64_t         keep_checkpoint_max;
    double          keep_checkpoint_every_n_hours;
    int64_t         log_step_count_steps;
    double          session_creation_timeout_secs, peer_silence_secs;
    int64_t         max_worker_delay_secs;
    int             protocol; /* a transport; -1: not given */
    job_strategy    strategy, eval_strategy;
    bool            graph_def, input_position, check_numerics;
    int64_t         threads;
} job_run;

typedef enum job_stop_type { JOB_NO_DECREASE, JOB_NO_INCREASE, JOB_HIGHER, JOB_LOWER } job_stop_type;

typedef struct job_stop {
    const job_node *node;
    int             type;
    const char     *metric;
    double          threshold;
    int64_t         steps, min_steps, run_every_steps;
    double          run_every_secs;
} job_stop;

typedef struct job_stops {
    job_stop *data;
    int       n;
} job_stops;

typedef struct job_train {
    const job_node *node;
    int64_t         max_steps;
    job_stops       early_stopping;
} job_train;

typedef struct job_eval {
    const job_node *node;
    int64_t         steps;
    double          start_delay_secs, throttle_secs;
    const char     *name;
} job_eval;

typedef enum job_export_type { JOB_EXPORT_LATEST, JOB_EXPORT_FINAL, JOB_EXPORT_BEST } job_export_type;

typedef struct job_export {
    const job_node *node;
    int             type;
    const char     *name;
    int64_t         keep;
    const char     *metric;
    int             better; /* 0: smaller; 1: larger */
    bool            as_text;
} job_export;

typedef struct job_exports {
    job_export *data;
    int         n;
} job_exports;

typedef struct job_rename {
    const job_node *node;
    const char     *name, *from;
} job_rename;

typedef struct job_renames {
    job_rename *data;
    int         n;
} job_renames;

typedef struct job_vocabulary {
    const job_node *node;
    const char     *name, *file, *old_file;
    int64_t         size, old_size, oov_buckets, axis;
    bool            keep_initial;
} job_vocabulary;

typedef struct job_vocabularies {
    job_vocabulary *data;
    int             n;
} job_vocabularies;

typedef struct job_warm_start {
    const job_node  *node;
    const char      *path, *variables;
    bool             all, only_vocabularies;
    job_renames      renames;
    job_vocabularies vocabularies;
} job_warm_start;

typedef struct job_spec {
    const job_node *node;
    job_model       model;
    job_features    features;
    job_data        data;
    job_run         run;
    job_train       train;
    job_eval        eval;
    job_exports     exports;
    job_warm_start  warm_start;
} job_spec;

/* --- the schema ------------------------------------------------------------------------------------------------------ */

/* What a value is, and of which type the member that it goes to. */
typedef enum job_kind {
    JOB_BOOL,    /* bool */
    JOB_INT,     /* int64_t */
    JOB_NUMBER,  /* double */
    JOB_CHOICE,  /* int: position among the words; -1: not given */
    JOB_TEXT,    /* const char * */
    JOB_TEXTS,   /* job_texts; one text is a list of one */
    JOB_INTS,    /* job_ints; the same */
    JOB_NUMBERS, /* job_numbers; the same */
    JOB_RECORD,  /* the struct of the record, in place */
    JOB_RECORDS, /* an array of them and its length, as job_exports */
    JOB_NAMED    /* the same, from a mapping of names to records */
} job_kind;

typedef struct job_word {
    const char *text;
    int64_t     value; /* JOB_INT and JOB_NUMBER: the number it stands for */
} job_word;

typedef struct job_record job_record;

typedef struct job_field {
    const char       *key;
    job_kind          kind;
    size_t            offset;
    const char       *help;
    const char       *standard; /* what it is when it is not given: a scalar, {} or []; NULL: nothing */
    unsigned          only;     /* bits: the choices of the record's first field for which it may be given; 0: all */
    unsigned          required; /* bits: those for which it must be */
    double            min, max; /* numbers; max 0: no limit, and no limits at all when both are 0 */
    bool              above;    /* more than min, not min itself */
    const job_word   *words;    /* ends with a text of NULL: all that a choice may be; what a number may be besides */
    const job_record *record;
} job_field;

struct job_record {
    const char      *what; /* "an optimizer" */
    size_t           size;
    const job_field *fields; /* ends with a key of NULL */
    const char      *bare;   /* the key that a scalar in place of the mapping is for; NULL: none */
};

#define JOB_ALL (~0u)

extern const job_record job_schema;

/* What TensorFlow calls a key or a word; who writes that is told ours, and why theirs is not here. Ends with NULL. */
typedef struct job_alias {
    const char *theirs, *ours;
    const char *why; /* NULL: ours is only another name */
} job_alias;

extern const job_alias job_aliases[];

/* --- reading and printing ---------------------------------------------------------------------------------------------- */

/* Puts "key.key=value" into a tree; the value is YAML. The text is borrowed as long as the tree is used. */
EST_MUST_CHECK est_status job_set(est_arena *arena, job_node *root, const char *text, job_errors *errors);

/* Makes a job of a tree; both are in the arena. EST_INVALID_ARGUMENT: `errors` say what is wrong, all that was found. */
EST_MUST_CHECK est_status job_read(est_arena *arena, const job_node *root, job_errors *errors, job_spec *out);

/* All keys with their values, as YAML that reads as the same job. */
void job_print(const job_spec *job, est_strbuf *out);

/* The schema for people. */
void job_describe(est_strbuf *out);

/* What the schema cannot say: references between features, keys that exclude each other. job_read calls it. What is wrong goes
 * to `errors`; it fails only when memory is out. */
EST_MUST_CHECK est_status job_check(job_spec *job, job_errors *errors);

/* The feature of that name; NULL: there is none. */
job_feature *job_find_feature(const job_spec *job, const char *name);

/* A baseline looks at labels only. */
bool job_is_baseline(const job_model *model);

/* How many classes labels have; JOB_NO_INT: they are numbers, or there are several. */
int64_t job_n_classes(const job_model *model);

/* The type of that feature as the file calls it. */
const char *job_feature_type_text(const job_feature *feature);

/* "; did you mean \"x\"?" for the one of n names that TensorFlow calls so, or the nearest, or ""; good until the next call. Before it
 * stands why TensorFlow's word is not here. */
const char *job_suggestion(const char *word, const char *const *names, size_t n);

/* --- using it ---------------------------------------------------------------------------------------------------------- */

/* A field of weights and the fields of the categories that it weighs. A row in which one of them is missing has no category,
 * and its weight goes with it; a category without a weight is an error. */
typedef struct job_weight {
    const char *name;
    job_texts   fields;
    int        *components; /* [fields.n]: which of the runner's they are; NULL: not CSV */
} job_weight;

/* What is made of a job to run it. A zeroed struct holds nothing. */
typedef struct job_runner {
    const job_spec     *job;
    est_arena          *arena; /* of the options */
    est_columns        *columns;
    const est_column ***made; /* [n_features]: the columns of each feature, ending in NULL */
    est_canned_options  options;
    est_run_config      config;
    est_warm_start      warm_start;
    est_strategy       *strategy;      /* NULL: none is given, or one for ps tasks and the cluster has none */
    est_strategy       *eval_strategy; /* NULL: evaluations are those of one process */
    est_head           *head;          /* NULL: the model's own */
    est_estimator      *estimator;

    est_parse_spec *features; /* what a row is read for that is asked about */
    est_parse_spec *rows;     /* the same with label and weight; NULL: baselines, which read nothing else, and libsvm */
    const est_feature_spec *specs; /* [n_specs]: of `rows`; of labels and weights for baselines */
    est_csv_columns         csv;   /* the same for CSV */
    int                     n_specs;
    est_component          *components; /* [n_specs]: what job_input yields */
    job_weight             *weights;    /* [n_weights] */
    int                     n_weights;
    const job_feature     **looked_up; /* [n_looked_up]: identity features whose ids must be among the buckets */
    int                     n_looked_up;
    est_map                 labels; /* the words of the label, if it has a vocabulary; the values mean nothing */
} job_runner;

/* Makes the columns and the estimator; the job is borrowed until job_runner_clear. quiet: no progress line; no_signals: SIGINT
 * and SIGTERM end the process as they do without us; alone: no other task evaluates with it, whatever the job says. */
EST_MUST_CHECK est_status job_runner_init(job_runner *runner, const job_spec *job, bool quiet, bool no_signals,
                                          bool alone);
void                      job_runner_clear(job_runner *runner);

/* All columns of a list of features; a feature that is asked for again has the same ones. */
EST_MUST_CHECK est_status job_make_columns(job_runner *runner, job_texts names, est_column_list *out);

/* The combiner that a choice of the schema stands for. */
est_combiner job_combiner(int choice);

/* The thread's error, with a place in the file before it. */
EST_MUST_CHECK est_status job_blame(est_status status, const job_node *at, const char *what);
EST_MUST_CHECK est_status job_blame_feature(est_status status, const job_feature *feature);

/* Whether the tables of a checkpoint are as wide as the features say; where one is not, a variable's name and shapes would
 * be all that anybody says. One that cannot be opened is for others to complain about. */
EST_MUST_CHECK est_status job_check_tables(const job_runner *runner, const char *checkpoint);

/* What a field weighs; NULL: it is no weight. */
const job_weight *job_weight_of(const job_runner *runner, const char *name);

/* An est_input_fn whose user is a job_runner: the files for training, or those for evaluation. */
est_status job_input(const est_input_context *context, void *user, est_dataset **out);

#endif
