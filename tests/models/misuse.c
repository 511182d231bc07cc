/* SPDX-License-Identifier: Apache-2.0
 *
 * Every public function with one argument wrong and the others good: a NULL, an index that is out of range, no node, a
 * list without data, options of another kind. None may crash; what they return must be an error or say "nothing", as
 * estoc/status.h promises. scripts/make-misuse writes the calls from the headers; here is what they are made with.
 *
 * Each call has a process of its own, so that a crash is one failure in a list, and what a call took or broke is nobody
 * else's. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "estimator/estimator.h"
#include "estimator/model.h"
#include "estimator/receiver.h"
#include "estoc/estoc.h"
#include "network/network.h"
#include "predict/predictor.h"
#include "support/estimator_test.h"
#include "support/test.h"
#include "train/loop.h"

/* What a child ends with. A sanitizer that ends it takes 1 or 23. */
enum { ALL_WELL = 0, TAKEN_AS_GOOD = 40, NOT_NAMED, NO_ARGUMENT, NO_DIRECTORY, REFUSED_AS_CONTROL, END_MAX };

/* --- good arguments ----------------------------------------------------------------------------------------------- */

/* Ends the process when an argument cannot be made. */
static void need(est_status status, const char *what)
{
    if (status == EST_OK) return;
    (void)fprintf(stderr, "%s: %s\n", what, est_error_message());
    _exit(NO_ARGUMENT);
}

#define MADE(type, ...)                                                                                                \
    static type *made = NULL;                                                                                          \
    if (made == NULL) need(__VA_ARGS__, #type);                                                                        \
    return made

static void *some_memory(void)
{
    static char bytes[EST_CHECKPOINT_PATH_MAX];

    return bytes;
}

static est_estimator *some_est_estimator(void)
{
    MADE(est_estimator, est_estimator_create(est_test_model,
                                             EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = "model", .quiet = true,
                                                                                    .cluster_json = "{}")),
                                             &made));
}

static est_model *some_est_model(void)
{
    const est_estimator *e = some_est_estimator();
    MADE(est_model, est_model_create(EST_TRAIN, est_estimator_config(e), est_estimator_task(e), NULL, 1, &made));
}

/* Models come first in the calls, and nodes are to be of their graph. */
static est_graph *some_est_graph(void)
{
    return est_model_graph(some_est_model());
}

static est_node some_est_node(void)
{
    return est_placeholder(some_est_graph(), "node", EST_F32, EST_SHAPE(2, 2));
}

static est_node some_stray_node(void)
{
    return (est_node){ some_est_graph(), 99, 99 };
}

static est_nodes some_est_nodes(void)
{
    static est_node nodes[2];

    nodes[0] = some_est_node();
    nodes[1] = some_est_node();
    return (est_nodes){ nodes, 2 };
}

static est_per_replica some_est_per_replica(void)
{
    return (est_per_replica){ some_est_nodes().data, 1 };
}

static est_gradient some_est_gradient(void)
{
    return (est_gradient){ .values = some_est_node() };
}

static est_i64s some_est_i64s(void)
{
    static const int64_t one[] = { 1 };

    return (est_i64s){ one, 1 };
}

static est_shape some_est_shape(void)
{
    return EST_SHAPE(1);
}

static est_dtype some_est_dtype(void)
{
    return EST_F32;
}

static est_optimizer some_est_optimizer(void)
{
    return est_sgd(0.1);
}

static est_tensor *some_est_tensor(void)
{
    MADE(est_tensor, est_tensor_f32(EST_SHAPE(1), (const float[]){ 1 }, &made));
}

static est_session *some_est_session(void)
{
    est_graph *graph = some_est_graph();

    (void)est_weight(graph, "weight", EST_SHAPE(1), NULL);
    MADE(est_session, est_session_create(graph, EST_SESSION(.threads = 1), &made));
}

static est_monitored_session *some_est_monitored_session(void)
{
    MADE(est_monitored_session, est_monitored_session_create(some_est_graph(), NULL, &made));
}

static est_step *some_est_step(void)
{
    est_node one = est_scalar(some_est_graph(), EST_F32, 1);

    MADE(est_step, est_session_prepare(some_est_session(), EST_NO_NODES, EST_NODES(one), EST_NO_NODES, &made));
}

static est_status no_values(void *user, est_loop *loop, int64_t *global_step)
{
    (void)user;
    (void)loop;
    *global_step = 0;
    return EST_OK;
}

static est_status never(void *user, est_loop *loop, bool *stop)
{
    (void)user;
    (void)loop;
    *stop = false;
    return EST_OK;
}

static est_should_stop_fn some_est_should_stop_fn(void)
{
    return never;
}

static est_model_fn some_est_model_fn(void)
{
    return est_test_model;
}

static est_loop *some_est_loop(void)
{
    est_loop_spec spec = { .graph = some_est_graph(), .model_dir = "", .initialize = no_values };

    MADE(est_loop, est_loop_open(&spec, &made));
}

static est_dataset *some_est_dataset(void)
{
    return est_dataset_files(EST_SOURCE_DIR "/tests/golden/format/examples.tfrecord");
}

static est_strings some_est_strings(void)
{
    static const char *const words[] = { "name" };

    return (est_strings){ words, 1 };
}

static est_csv_columns some_est_csv_columns(void)
{
    static const est_csv_column column = { .name = "column", .dtype = EST_F32 };

    return (est_csv_columns){ &column, 1 };
}

static est_iterator *some_est_iterator(void)
{
    est_dataset *dataset = NULL;

    need(est_dataset_finish(some_est_dataset(), &dataset), "est_dataset");
    MADE(est_iterator, est_iterator_create(dataset, &made));
}

static est_string_lookup *some_est_string_lookup(void)
{
    MADE(est_string_lookup, est_string_lookup_create(NULL, &made));
}

static est_layer *some_est_layer(void)
{
    static est_layer *made = NULL;

    if (made == NULL) made = est_layer_flatten(NULL);
    return made;
}

static est_network *some_est_network(void)
{
    MADE(est_network, est_network_sequential(EST_LAYERS(est_layer_flatten(NULL)),
                                             EST_NETWORK(.inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(2) })), &made));
}

static est_history *some_est_history(void)
{
    static est_history *made = NULL;

    if (made == NULL) need(est_history_create(&made), "est_history");
    return made;
}

static est_checkpoint_watch *some_est_checkpoint_watch(void)
{
    MADE(est_checkpoint_watch,
         est_checkpoint_watch_create("/nowhere", EST_CHECKPOINT_WATCH(.timeout_secs = 0.001), &made));
}

static est_columns *some_est_columns(void)
{
    static est_columns *made;

    if (made == NULL) made = est_columns_create();
    return made;
}

static const est_column *some_est_column(void)
{
    return est_identity_column(some_est_columns(), "column", 3, NULL);
}

static est_column_list some_est_column_list(void)
{
    static const est_column *columns[2];

    columns[0] = est_identity_column(some_est_columns(), "one", 3, NULL);
    columns[1] = est_identity_column(some_est_columns(), "two", 3, NULL);
    return (est_column_list){ columns, 2 };
}

static est_parse_spec *some_est_parse_spec(void)
{
    MADE(est_parse_spec, est_parse_spec_create(some_est_column_list(), &made));
}

static est_features some_est_features(void)
{
    return est_model_features(some_est_model());
}

static est_feature_spec *some_est_feature_spec(void)
{
    static est_feature_spec spec = { .name = "feature", .dtype = EST_F32 };

    return &spec;
}

static est_feature_specs some_est_feature_specs(void)
{
    return (est_feature_specs){ some_est_feature_spec(), 1 };
}

static est_example *some_est_example(void)
{
    MADE(est_example, est_example_create(&made));
}

static est_sequence_example *some_est_sequence_example(void)
{
    MADE(est_sequence_example, est_sequence_example_create(&made));
}

static est_example_parser *some_est_example_parser(void)
{
    MADE(est_example_parser, est_example_parser_create((est_feature_specs){ some_est_feature_spec(), 1 }, &made));
}

static est_sequence_parser *some_est_sequence_parser(void)
{
    MADE(est_sequence_parser, est_sequence_parser_create((est_feature_specs){ some_est_feature_spec(), 1 },
                                                         (est_feature_specs){ some_est_feature_spec(), 1 }, &made));
}

static est_head *some_est_head(void)
{
    MADE(est_head, est_regression_head(1, EST_HEAD(.name = "head"), &made));
}

static est_strategy *some_est_strategy(void)
{
    MADE(est_strategy, est_mirrored_strategy(NULL, &made));
}

static est_replica_context *some_est_replica_context(void)
{
    static est_replica_context context;

    context = (est_replica_context){ .strategy             = some_est_strategy(),
                                     .graph                = some_est_graph(),
                                     .num_replicas_in_sync = 1 };
    return &context;
}

static est_distributed_variable *some_est_distributed_variable(void)
{
    static est_distributed_variable variable;

    variable = est_strategy_variable(some_est_strategy(), some_est_graph(), "distributed", EST_SHAPE(1), NULL);
    return &variable;
}

static est_workers *some_est_workers(void)
{
    est_strategy *strategy = NULL;

    need(est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.cluster_json = "{}"), &strategy),
         "est_strategy");
    MADE(est_workers, est_workers_create(strategy, NULL, &made));
}

static est_distributed_dataset *some_est_distributed_dataset(void)
{
    MADE(est_distributed_dataset,
         est_strategy_distribute_dataset(some_est_strategy(), some_est_dataset(), EST_AUTO_SHARD_AUTO, &made));
}

static est_distributed_iterator *some_est_distributed_iterator(void)
{
    MADE(est_distributed_iterator, est_distributed_iterator_create(some_est_distributed_dataset(), NULL, &made));
}

static est_cluster *some_est_cluster(void)
{
    MADE(est_cluster,
         est_cluster_parse("{\"ps\": [\"localhost:1\"], \"worker\": [\"localhost:2\"]}", "cluster", &made));
}

static est_resolver *some_est_resolver(void)
{
    MADE(est_resolver, est_resolve_tf_config("{}", NULL, &made));
}

static est_server *some_est_server(void)
{
    MADE(est_server, est_server_create(some_est_cluster(), NULL, 0, EST_SERVER(.transport = "tcp"), &made));
}

static est_local_cluster *some_est_local_cluster(void)
{
    MADE(est_local_cluster,
         est_local_cluster_create(EST_LOCAL_CLUSTER(.ps = 1, .server = EST_SERVER(.transport = "tcp")), &made));
}

static est_coordinator *some_est_coordinator(void)
{
    est_local_cluster *cluster  = NULL;
    est_strategy      *strategy = NULL;
    est_graph         *graph    = NULL;

    need(est_local_cluster_create(EST_LOCAL_CLUSTER(.ps = 1, .workers = 1, .server = EST_SERVER(.transport = "tcp")),
                                  &cluster),
         "est_local_cluster");
    need(
        est_parameter_server_strategy(EST_PARAMETER_SERVER(.resolver = est_local_cluster_resolver(cluster)), &strategy),
        "est_strategy");
    need(est_graph_create(1, &graph), "est_graph");
    MADE(est_coordinator,
         est_coordinator_create(strategy, graph, EST_COORDINATOR(.transport = "tcp", .threads = 1), &made));
}

static est_function *some_est_function(void)
{
    MADE(est_function, est_coordinator_function(some_est_coordinator(), "none", (est_nodes){ 0 }, (est_nodes){ 0 },
                                                (est_nodes){ 0 }, &made));
}

static est_remote_value *some_est_remote_value(void)
{
    MADE(est_remote_value,
         est_coordinator_schedule(some_est_coordinator(), some_est_function(), EST_NO_ARGUMENTS, &made));
}

static est_per_worker *some_est_per_worker(void)
{
    MADE(est_per_worker, est_coordinator_dataset(some_est_coordinator(), some_est_dataset(), NULL, &made));
}

static est_remote *some_est_remote(void)
{
    MADE(est_remote, est_remote_create(some_est_server(), EST_REMOTE(.connect_secs = 0.01), &made));
}

static est_metrics *some_est_metrics(void)
{
    static est_metrics *made;

    if (made == NULL) {
        need(est_metrics_create(1, &made), "est_metrics");
        need(est_metrics_set(made, 0, "loss", 1), "est_metrics");
    }
    return made;
}

static est_predictions *some_est_predictions(void)
{
    MADE(est_predictions, est_predict(some_est_estimator(), EST_PREDICT_OPTIONS(.input_fn = est_test_input), &made));
}

static est_serving *some_est_serving(void)
{
    static est_feed_group group;
    static est_receiver   receiver = { .groups = &group, .n_groups = 1 };
    static est_serving    serving;

    serving = (est_serving){ .model = some_est_model(), .receiver = &receiver };
    return &serving;
}

static est_predictor *some_est_predictor(void)
{
    est_node x = est_placeholder(some_est_graph(), "input", EST_F32, EST_SHAPE(-1, 2));

    MADE(est_predictor, est_predictor_over(some_est_session(), EST_NAMED_NODES({ "x", x }),
                                           EST_NAMED_NODES({ "y", est_relu(x) }), NULL, &made));
}

static est_prediction *some_est_prediction(void)
{
    MADE(est_prediction, est_prediction_create(some_est_predictor(), &made));
}

static est_checkpoint *some_est_checkpoint(void)
{
    MADE(est_checkpoint, est_checkpoint_open(EST_SOURCE_DIR "/tests/golden/format/tensorflow.ckpt", &made));
}

static est_events *some_est_events(void)
{
    MADE(est_events, est_events_open(EST_SOURCE_DIR "/tests/golden/format/tensorflow.events", &made));
}

static est_event_entry *some_est_event_entry(void)
{
    static est_event_entry entry;

    need(est_events_next(some_est_events(), &entry), "an event");
    return &entry;
}

static est_summary_writer *some_est_summary_writer(void)
{
    MADE(est_summary_writer, est_summary_writer_create("summaries", "", &made));
}

static est_saver *some_est_saver(void)
{
    MADE(est_saver, est_saver_create("saved", NULL, &made));
}

/* One without signatures: version 1, and a graph with the tag serve. */
static est_saved_model *some_est_saved_model(void)
{
    static const char message[] = "\x08\x01\x12\x09\x0a\x07\x22\x05serve";
    static bool       written;

    if (!written) {
        FILE *file;

        (void)mkdir("loaded", 0755);
        file    = fopen("loaded/saved_model.pb", "wb");
        written = file != NULL && fwrite(message, 1, sizeof message - 1, file) == sizeof message - 1;
        if (file != NULL) fclose(file);
    }
    MADE(est_saved_model, est_saved_model_load("loaded", NULL, &made));
}

static est_meta_graph *some_est_meta_graph(void)
{
    static est_graph *empty, *graph;

    if (graph == NULL && (est_graph_create(1, &empty) != EST_OK || est_graph_create(1, &graph) != EST_OK ||
                          est_meta_graph_write(empty, NULL, "graph.meta") != EST_OK)) {
        return NULL;
    }
    MADE(est_meta_graph, est_meta_graph_import(graph, "graph.meta", NULL, &made));
}

static est_exporter *some_est_exporter(void)
{
    static const est_component x = { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) };

    return est_latest_exporter("exporter",
                               EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { &x, 1 } })));
}

static est_tfrecord_reader *some_est_tfrecord_reader(void)
{
    MADE(est_tfrecord_reader, est_tfrecord_open(EST_SOURCE_DIR "/tests/golden/format/examples.tfrecord", NULL, &made));
}

static est_tfrecord_writer *some_est_tfrecord_writer(void)
{
    MADE(est_tfrecord_writer, est_tfrecord_create("written", NULL, &made));
}

static est_hook *some_est_hook(void)
{
    return est_nan_hook(true);
}

static FILE *some_FILE(void)
{
    return stderr;
}

/* --- what may come back ------------------------------------------------------------------------------------------- */

static bool status_neutral(est_status status)
{
    return status != EST_OK && est_error_message()[0] != '\0';
}

static bool components_neutral(est_components components)
{
    return components.n == 0;
}

static bool pointer_neutral(const void *pointer)
{
    return pointer == NULL;
}

static bool double_neutral(double value)
{
    return isnan(value);
}

static bool i64_neutral(int64_t value)
{
    return value == 0 || value == -1;
}

static bool dataset_neutral(est_dataset *dataset)
{
    est_dataset *out;

    return est_dataset_finish(dataset, &out) != EST_OK;
}

/* A column that cannot be is kept by its set. */
static bool column_neutral(const est_column *column)
{
    return column == NULL || est_columns_status(some_est_columns()) != EST_OK;
}

/* Builders say it by the graph, where there is one. */
static bool node_neutral(est_node node)
{
    return node.graph == NULL || est_graph_status(node.graph) != EST_OK;
}

#define VALUE_NEUTRAL(type)                                                                                            \
    static bool type##_neutral(type value)                                                                             \
    {                                                                                                                  \
        (void)value;                                                                                                   \
        return true;                                                                                                   \
    }
#define VALUES(X)                                                                                                      \
    X(est_nodes)                                                                                                       \
    X(est_metric)                                                                                                      \
    X(est_metric_spec)                                                                                                 \
    X(est_optimizer)                                                                                                   \
    X(est_schedule)                                                                                                    \
    X(est_ragged_node)                                                                                                 \
    X(est_iterator_stats)                                                                                              \
    X(est_csv_columns)                                                                                                 \
    X(est_feature_specs)                                                                                               \
    X(est_features)                                                                                                    \
    X(est_gradient)                                                                                                    \
    X(est_per_replica)                                                                                                 \
    X(est_distributed_variable)                                                                                        \
    X(est_tfrecord_position)                                                                                           \
    X(est_initializer)                                                                                                 \
    X(est_partitioner)                                                                                                 \
    X(est_coordinator_stats)                                                                                           \
    X(est_value_state)                                                                                                 \
    X(est_saved_objects)                                                                                               \
    X(est_precision)                                                                                                   \
    X(est_meta_collections)                                                                                            \
    X(est_missing_operations)                                                                                          \
    X(est_named_nodes)                                                                                                 \
    X(est_f32s)                                                                                                        \
    X(est_str)
VALUES(VALUE_NEUTRAL)

/* clang-format off */
#define VALUE_CASE(type) type: type##_neutral,
#define IS_NEUTRAL(x)                                                                                                  \
    _Generic((x), VALUES(VALUE_CASE)                                                                                   \
             est_status: status_neutral, double: double_neutral, int: i64_neutral, int64_t: i64_neutral,               \
             uint64_t: i64_neutral, bool: i64_neutral, est_dtype: i64_neutral, est_dataset *: dataset_neutral,         \
             const est_column *: column_neutral, est_components: components_neutral, est_node: node_neutral, default: pointer_neutral)(x)
/* clang-format on */

/* --- the calls ---------------------------------------------------------------------------------------------------- */

typedef enum demand {
    CONTROL,       /* nothing is wrong: it comes back; its error is not that of a refusal below */
    ANY,           /* it comes back */
    REFUSED,       /* with nothing or an error, another than the control's */
    REFUSED_ALIKE, /* with nothing or an error */
    WRONG_KIND     /* with an error that names the struct found */
} demand;

typedef struct misuse {
    const char *name;
    bool (*call)(int wrong);
    int    wrong;
    demand demand;
} misuse;

#include "misuse_calls.h"

/* Of the last control, "" when it was taken; shared with the children. */
static char *control_error;

/* In a child. */
static int answer(const misuse *m)
{
    bool neutral;

    (void)signal(SIGSEGV, SIG_DFL); /* cmocka's would go on with the test, in the child */
    (void)signal(SIGBUS, SIG_DFL);
    (void)signal(SIGFPE, SIG_DFL);
    (void)alarm(60);
    est_log_set_level(EST_LOG_OFF);
    est_error_clear();
    neutral = m->call(m->wrong);
    if (m->demand == CONTROL) {
        (void)snprintf(control_error, sizeof((est_error *)NULL)->message, "%s", est_error_message());
        return ALL_WELL;
    }
    if ((m->demand == REFUSED || m->demand == REFUSED_ALIKE) && !neutral) return TAKEN_AS_GOOD;
    if (m->demand == REFUSED && control_error[0] != '\0' && strcmp(control_error, est_error_message()) == 0) {
        (void)fprintf(stderr, "%s: the error is \"%s\"\n", m->name, est_error_message());
        return REFUSED_AS_CONTROL;
    }
    if (m->demand == WRONG_KIND && strstr(est_error_message(), "est_timeline_options of 16 bytes found") == NULL &&
        strstr(est_error_message(), "est_task_rules of 16 bytes found") == NULL) {
        (void)fprintf(stderr, "%s: the error is \"%s\"\n", m->name, est_error_message());
        return NOT_NAMED;
    }
    return ALL_WELL;
}

TEST(misuse)
{
    static const char *const said[] = { "was taken as good", "was not named", "needs another argument", "no directory",
                                        "was refused for something else" };
    const size_t             n      = sizeof misuses / sizeof misuses[0];
    int                      failed = 0;
    char                     dir[64];

    est_test_dir(dir);
    control_error = mmap(NULL, sizeof((est_error *)NULL)->message, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                         -1, 0);
    assert_ptr_not_equal(control_error, MAP_FAILED);
    for (size_t i = 0; i < n; i++) {
        int   status = 0;
        pid_t child;

        (void)fflush(NULL);
        if (misuses[i].demand == CONTROL) control_error[0] = '\0';
        child = fork();
        if (child == 0) _exit(chdir(dir) == 0 ? answer(&misuses[i]) : NO_DIRECTORY);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == ALL_WELL) continue;
        failed++;
        if (WIFSIGNALED(status)) {
            print_error("%s: ended by signal %d\n", misuses[i].name, WTERMSIG(status));
        } else {
            int code = WEXITSTATUS(status);

            print_error("%s: %s (exit code %d)\n", misuses[i].name,
                        code >= TAKEN_AS_GOOD && code < END_MAX ? said[code - TAKEN_AS_GOOD] : "crashed", code);
        }
    }
    est_test_dir_remove(dir);
    if (failed > 0) fail_msg("%d of %zu calls failed", failed, n);
}

int main(void)
{
    (void)setenv("SLURM_STEP_NODELIST", "host", 1); /* of est_resolve_slurm */
    (void)setenv("SLURM_STEP_TASKS_PER_NODE", "1", 1);
    (void)setenv("SLURM_PROCID", "0", 1);
    return est_test_run(NULL, NULL);
}
