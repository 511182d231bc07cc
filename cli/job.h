/* SPDX-License-Identifier: Apache-2.0
 *
 * A job: the model, the data and the run of `estoc train` and the other commands that take a job file.
 *
 * A job holds the options structs of the library (include/estoc) as C programs fill them, and the arguments of its
 * constructors. job_schema.c has one row for every key: its type, its default, its meaning and its offset in these
 * structs. job.c reads and prints job files by these rows, `--help-job` lists them, job_check.c checks what a row
 * cannot say (references between parts). job_columns.c makes the feature columns of a job, job_model.c its estimator,
 * job_input.c its datasets.
 *
 * Threading: one thread at a time; a job is not changed after it was read. */
#ifndef EST_CLI_JOB_H
#define EST_CLI_JOB_H

#include "base/map.h"
#include "estoc/canned.h"
#include "estoc/early_stopping.h"
#include "estoc/exporter.h"
#include "job_yaml.h"

/* --- the parts of a job ------------------------------------------------------------------------------------------- */

/* Lists have the layout of the library's spans, as est_i64s: an array and its length. */
/* Every struct below is a record of the schema. It begins with the node it was read from (NULL: it is not in the
 * file), which gives errors their place. The records of a mapping of names have their name next. A key that is absent
 * leaves 0, which is the default of the library; job_has tells it from a 0 in the file. */

typedef struct job_word job_word;

typedef struct job_rate {
    const job_node *node;
    const job_word *type;
    double          rate, decay_rate, end, power, alpha, t_mul, m_mul;
    int64_t         decay_steps;
    bool            staircase, cycle;
    est_i64s        boundaries;
    est_f64s        values;
    int64_t         warmup_steps;
    double          warmup_start;
} job_rate;

typedef struct job_optimizer {
    const job_node      *node;
    const job_word      *name;
    job_rate             learning_rate;
    est_adadelta_options adadelta;
    est_adagrad_options  adagrad;
    est_adam_options     adam;
    est_adamax_options   adamax;
    est_ftrl_options     ftrl;
    est_momentum_options momentum;
    est_nadam_options    nadam;
    est_lion_options     lion;
    est_rms_prop_options rms_prop;
} job_optimizer;

typedef enum job_head_type {
    JOB_BINARY,
    JOB_MULTI_CLASS,
    JOB_MULTI_LABEL,
    JOB_REGRESSION, /* of any kind */
    JOB_MULTI
} job_head_type;

typedef struct job_head job_head;

typedef struct job_heads {
    job_head *data;
    int       n;
} job_heads;

struct job_head {
    const job_node  *node;
    const job_word  *type;
    int64_t          n; /* classes, or numbers of a label */
    est_head_options options;
    job_heads        heads; /* of JOB_MULTI */
    double           loss_weight;
};

/* The parts of a model; one without DEEP and WIDE is a baseline. */
enum { JOB_DEEP = 1, JOB_WIDE = 2, JOB_CLASSIFIER = 4, JOB_ESTIMATOR = 8 };

typedef struct job_model {
    const job_node    *node;
    const job_word    *type;
    est_strings        columns, dnn_columns, linear_columns;
    job_optimizer      optimizer, dnn_optimizer, linear_optimizer;
    job_head           head;
    est_canned_options options;
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

typedef struct job_initializer {
    const job_node *node;
    const job_word *type;
    est_initializer value; /* its numbers */
} job_initializer;

typedef struct job_feature {
    const job_node              *node;
    const char                  *name;
    const job_word              *type;
    const char                  *key; /* the field of the data */
    const char                  *source;
    est_strings                  sources;
    est_numeric_options          numeric;
    bool                         log1p;
    double                       mean, stddev, low, high;
    est_f32s                     boundaries;
    int64_t                      buckets, hash_key, dimension;
    est_categorical_options      categorical;
    est_strings                  values;
    const char                  *file, *weight;
    job_initializer              initializer;
    est_embedding_column_options embedding;
    est_dynamic_options          dynamic;
} job_feature;

typedef struct job_features {
    job_feature *data;
    int          n;
} job_features;

typedef struct job_label {
    const job_node *node;
    const char     *name;
    est_strings     vocabulary;
    const char     *strip;
} job_label;

typedef struct job_csv {
    const job_node *node;
    est_strings     fields;
    est_csv_options options;
} job_csv;

typedef enum job_format { JOB_FORMAT_CSV, JOB_FORMAT_TFRECORD, JOB_FORMAT_LIBSVM } job_format;

typedef struct job_data {
    const job_node       *node;
    job_format            format;
    est_strings           train, eval;
    job_label             label;
    const char           *weight;
    int64_t               batch, shuffle, epochs;
    est_parse_options     parse;
    est_auto_shard_policy autoshard;
    job_csv               csv;
} job_data;

typedef struct job_partitioner {
    const job_node *node;
    const job_word *type;
    est_partitioner value; /* its numbers */
} job_partitioner;

typedef struct job_strategy {
    const job_node                   *node;
    const job_word                   *name;
    job_partitioner                   partitioner;
    est_parameter_server_options      parameter_server;
    est_mirrored_options              mirrored;
    est_central_storage_options       central_storage;
    est_multi_worker_mirrored_options multi_worker;
    const char                       *device; /* of one_device */
} job_strategy;

typedef struct job_run {
    const job_node *node;
    est_run_config  config;
    job_strategy    strategy, eval_strategy;
} job_run;

typedef struct job_stop {
    const job_node            *node;
    const job_word            *type;
    const char                *metric;
    double                     threshold;
    int64_t                    steps;
    est_early_stopping_options options;
} job_stop;

typedef struct job_stops {
    job_stop *data;
    int       n;
} job_stops;

typedef struct job_train {
    const job_node *node;
    est_train_spec  spec;
    job_stops       early_stopping;
} job_train;

typedef struct job_eval {
    const job_node *node;
    est_eval_spec   spec;
} job_eval;

typedef struct job_export {
    const job_node      *node;
    const job_word      *type;
    const char          *name;
    est_exporter_options options;
    est_export_options   saved_model;
} job_export;

typedef struct job_exports {
    job_export *data;
    int         n;
} job_exports;

typedef struct job_rename {
    const job_node *node;
    est_rename      names;
} job_rename;

typedef struct job_renames {
    job_rename *data;
    int         n;
} job_renames;

typedef struct job_vocabulary {
    const job_node *node;
    est_vocab_info  info;
} job_vocabulary;

typedef struct job_vocabularies {
    job_vocabulary *data;
    int             n;
} job_vocabularies;

typedef struct job_warm_start {
    const job_node  *node;
    est_warm_start   options;
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

/* --- the schema --------------------------------------------------------------------------------------------------- */

/* The type of a value, and of the member that it goes to. */
typedef enum job_kind {
    JOB_BOOL,     /* bool */
    JOB_INT,      /* any integer */
    JOB_NUMBER,   /* double */
    JOB_ENUM,     /* an enum or a bool: the value of one of the words */
    JOB_FUNCTION, /* a pointer to a function: that of the word */
    JOB_NAME,     /* const char *: the word itself */
    JOB_WORD,     /* const job_word *: the word itself, which selects a constructor */
    JOB_TEXT,     /* const char * */
    JOB_CHAR,     /* char */
    JOB_TEXTS,    /* est_strings, or a pointer and an int next to it; one text is a list of one. So are the next */
    JOB_INTS,     /* est_i64s */
    JOB_NUMBERS,  /* est_f64s */
    JOB_FLOATS,   /* est_f32s */
    JOB_SHAPE,    /* est_shape */
    JOB_RECORD,   /* the struct of the record, in place */
    JOB_RECORDS,  /* an array of them and its length, as job_exports */
    JOB_NAMED     /* the same, from a mapping of names to records */
} job_kind;

/* The constructor that a word selects. */
typedef union job_maker {
    est_optimizer (*optimizer)(double rate, const job_optimizer *options);
    est_schedule (*schedule)(const job_rate *rate);
    est_initializer (*initializer)(const est_initializer *numbers);
    est_partitioner (*partitioner)(const est_partitioner *numbers);
    est_status (*strategy)(const job_strategy *options, est_strategy **out);
    est_status (*head)(int64_t n, const est_head_options *options, est_head **out);
    est_status (*model)(const est_canned_options *options, est_estimator **out);
    est_hook *(*stop)(const job_stop *stop, const est_early_stopping_options *options);
    est_exporter *(*exporter)(const char *name, const est_exporter_options *options);
    est_activation activation;
} job_maker;

struct job_word {
    const char *text;
    int64_t     value; /* of the enum, or the number that the word stands for */
    job_maker   make;
};

typedef struct job_record job_record;

/* A key. The first field of a record may be a JOB_WORD, the record's type; `only` and `required` are lists of types
 * then, with blanks between them: those for which the key may and must be given; "!a b": all but these; "!": all;
 * NULL: all may, none must. A key that goes to another struct for another type has a row for each, the first with the
 * help. */
typedef struct job_field {
    const char *key;
    job_kind    kind;
    size_t      offset, size; /* of the member */
    const char *help;
    /* The default: a scalar, {} or []; "$key": the value of that key, or the record's name; NULL: none. */
    const char     *standard;
    const char     *only, *required;
    double          min, max;          /* numbers; max 0: no limit, and no limits at all when both are 0 */
    bool            above;             /* more than min, not min itself */
    bool            negated;           /* JOB_BOOL: the member is the opposite */
    bool            zero_is_off;       /* a 0 in the file is EST_OFF in the member, whose 0 is the default */
    const char     *unless;            /* JOB_BOOL: with this key the default is false */
    const job_word *words;             /* ends with a text of NULL: all words of a choice, or words besides numbers */
    const job_word *(*words_of)(void); /* in place of `words`, those of a table of the library */
    const job_record *record;
} job_field;

struct job_record {
    const char      *what; /* "an optimizer" */
    size_t           size;
    const job_field *fields;  /* ends with a key of NULL */
    const char      *bare;    /* the key that a scalar in place of the mapping is for; NULL: none */
    const void      *initial; /* the struct before anything is read, with the sizes of options structs; NULL: zeros */
};

extern const job_record job_schema;

/* The constructors of strategies that depend on the cluster (job_model.c). */
EST_MUST_CHECK est_status job_parameter_server(const job_strategy *options, est_strategy **out);
EST_MUST_CHECK est_status job_multi_worker_mirrored(const job_strategy *options, est_strategy **out);

/* --- reading and printing ----------------------------------------------------------------------------------------- */

/* Puts "key.key=value" into a tree; the value is YAML. The text is borrowed as long as the tree is used. */
EST_MUST_CHECK est_status job_set(est_arena *arena, job_node *root, const char *text, job_errors *errors);

/* Makes a job of a tree; both are in the arena. EST_INVALID_ARGUMENT: `errors` has all errors that were found. */
EST_MUST_CHECK est_status job_read(est_arena *arena, const job_node *root, job_errors *errors, job_spec *out);

/* All keys with their values, as YAML that reads as the same job. */
void job_print(const job_spec *job, est_strbuf *out);

/* The schema for people. */
void job_describe(est_strbuf *out);

/* Checks what the schema cannot say: references between features, keys that exclude each other. job_read calls it. */
void job_check(const job_spec *job, job_errors *errors);

/* Whether the file has a value for the key of a record. */
bool job_has(const job_node *node, const char *key);

/* The feature of that name; NULL: there is none. */
job_feature *job_find_feature(const job_spec *job, const char *name);

static inline job_feature_type job_type(const job_feature *feature)
{
    return (job_feature_type)feature->type->value;
}

/* Baselines look at labels only. */
bool job_is_baseline(const job_model *model);

/* The number of classes of labels; 0: labels are numbers, or there are several. */
int64_t job_n_classes(const job_model *model);

/* "; did you mean \"x\"?" for the one of n names that TensorFlow calls so, or the nearest, or ""; good until the
 * next call. It begins with the reason why TensorFlow's word does not exist here. */
const char *job_suggestion(const char *word, const char *const *names, size_t n);

/* --- using it ----------------------------------------------------------------------------------------------------- */

/* A field of weights and the fields of the categories that it weighs. A row in which one of them is missing has no
 * category, and its weight goes with it; a category without a weight is an error. */
typedef struct job_weight {
    const char *name;
    est_strings fields;
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

    est_parse_spec     *features; /* the features of a row to predict */
    est_parse_spec     *rows; /* the same with label and weight; NULL: baselines, which read nothing else, and libsvm */
    est_feature_specs   specs;      /* of `rows`; of labels and weights for baselines */
    est_csv_columns     csv;        /* the same for CSV */
    est_component      *components; /* [specs.n]: what job_input yields */
    job_weight         *weights;    /* [n_weights] */
    int                 n_weights;
    const job_feature **looked_up; /* [n_looked_up]: identity features whose ids must be among the buckets */
    int                 n_looked_up;
    est_map             labels; /* the words of the label, if it has a vocabulary; the values mean nothing */
} job_runner;

/* Makes the columns and the estimator; the job is borrowed until job_runner_clear. quiet: no progress line;
 * no_signals: SIGINT and SIGTERM keep their default action; alone: this process evaluates alone, without
 * eval_strategy. */
EST_MUST_CHECK est_status job_runner_init(job_runner *runner, const job_spec *job, bool quiet, bool no_signals,
                                          bool alone);
void                      job_runner_clear(job_runner *runner);

/* All columns of the features that a key of the model lists; a feature that is asked for again has the same ones. */
EST_MUST_CHECK est_status job_make_columns(job_runner *runner, const char *key, est_strings names,
                                           est_column_list *out);

/* The thread's error with its place in the file before it, unless it has one: that of the key that the error names,
 * else that of the record. */
EST_MUST_CHECK est_status job_blame(est_status status, const job_node *record, const char *what);
bool                      job_is_blamed(const job_node *record);
EST_MUST_CHECK est_status job_blame_feature(est_status status, const job_feature *feature);

/* Whether the tables of a checkpoint are as wide as the features say; without this check the error would only name a
 * variable and two shapes. A checkpoint that cannot be opened is ignored here. */
EST_MUST_CHECK est_status job_check_tables(const job_runner *runner, const char *checkpoint);

/* What a field weighs; NULL: it is no weight. */
const job_weight *job_weight_of(const job_runner *runner, const char *name);

/* An est_input_fn whose user is a job_runner: the files for training, or those for evaluation. */
est_status job_input(const est_input_context *context, void *user, est_dataset **out);

#endif
