/* SPDX-License-Identifier: Apache-2.0
 *
 * A coordinator: this program hands out training steps, workers run them, and parameter servers keep the variables.
 * The model learns from three heroes whether an avenger is among them.
 *
 *   coordinator              a cluster of 3 workers and 2 parameter servers in this process
 *   coordinator --cluster    the task of TF_CONFIG: estoc launch --ps 2 --workers 2 -- coordinator --cluster
 *
 * Above each part, the calls of TensorFlow 2 that it stands for. */
#include <estoc/estoc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WORKERS         3
#define PS              2
#define EXAMPLES        200
#define EVAL_EXAMPLES   16
#define EPOCHS          4
#define STEPS_PER_EPOCH 5
#define MORE_STEPS      10

static const char *const heroes[] = { "avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman" };

#define N_HEROES (int)(sizeof heroes / sizeof heroes[0])

typedef struct program {
    est_strategy      *strategy;
    est_string_lookup *words, *answers;
    est_dataset       *train_rows, *eval_rows, *endless_eval_rows;
    est_graph         *graph;
    est_node           features, label, prediction, loss, train; /* of the model */
    est_metric         accuracy;
    est_coordinator   *coordinator;
    est_function      *step;
    est_per_worker    *batches; /* an iterator of every worker */
} program;

/* --- data --------------------------------------------------------------------------------------------------------- */

static uint32_t draw(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

/* n rows of three different heroes, with "yes" where one is "avenger". */
static est_status draw_examples(int n, uint64_t seed, est_tensor **features, est_tensor **labels)
{
    uint64_t state = seed;

    EST_TRY(est_tensor_create(EST_STRING, EST_SHAPE(n, 3), features));
    EST_TRY(est_tensor_create(EST_STRING, EST_SHAPE(n, 1), labels));
    for (int i = 0; i < n; i++) {
        int  order[N_HEROES];
        bool yes = false;

        for (int k = 0; k < N_HEROES; k++) order[k] = k;
        for (int k = 0; k < 3; k++) {
            int other = k + (int)draw(&state, (uint32_t)(N_HEROES - k)), hero = order[other];

            order[other] = order[k];
            yes          = yes || hero == 0;
            EST_TRY(est_tensor_set_string(*features, 3 * i + k, heroes[hero], strlen(heroes[hero])));
        }
        EST_TRY(est_tensor_set_string(*labels, i, yes ? "yes" : "no", yes ? 3 : 2));
    }
    return EST_OK;
}

/* keras.Model(raw_input, StringLookup(...)(raw_input)) for features and labels, applied by Dataset.map: the stage of
 * the dataset is a graph, so that it can run in a worker. */
static est_dataset *look_up(const program *p, est_dataset *rows)
{
    est_graph *graph = NULL;
    est_node   features, label;

    if (est_graph_create(0, &graph) != EST_OK) {
        est_dataset_free(rows);
        return NULL;
    }
    features = est_placeholder(graph, "features", EST_STRING, EST_SHAPE(3));
    label    = est_placeholder(graph, "label", EST_STRING, EST_SHAPE(1));
    rows     = est_dataset_map_graph(rows, EST_NAMED_NODES({ "features", features }, { "label", label }),
            EST_NAMED_NODES({ "features", est_string_lookup_apply(p->words, features) },
                { "label", est_string_lookup_apply(p->answers, label) }),
            NULL);
    est_graph_free(graph);
    return rows;
}

/* Dataset.from_tensor_slices(examples).map(...), then .shuffle(n).batch(b).repeat() where it is endless. Every worker
 * reads all rows. With a seed of 0 each has an order of its own; with any other all have the same one, and the calls
 * would train every batch once for each worker. */
static est_status make_rows(const program *p, int n, uint64_t seed, int batch, bool endless, est_dataset **out)
{
    est_tensor  *features = NULL, *labels = NULL;
    est_dataset *d;
    est_status   status = draw_examples(n, seed, &features, &labels);

    if (status == EST_OK) {
        d = look_up(p, est_dataset_slices(EST_NAMED_TENSORS({ "features", features }, { "label", labels })));
        if (endless) d = est_dataset_shuffle(d, n, 0);
        d = est_dataset_batch(d, batch, NULL);
        if (endless) d = est_dataset_repeat(d, EST_FOREVER);
        status = est_dataset_finish(d, out);
    }
    est_tensor_free(features);
    est_tensor_free(labels);
    return status;
}

/* StringLookup(vocabulary=feature_vocab, mask_token=""): ids of mask and unknown words come first, so that there are
 * nine. StringLookup(vocabulary=label_vocab, num_oov_indices=0, mask_token=None). */
static est_status make_data(program *p)
{
    EST_TRY(
        est_string_lookup_create(EST_STRING_LOOKUP(.vocabulary = { heroes, N_HEROES }, .mask_token = ""), &p->words));
    EST_TRY(est_string_lookup_create(
        EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("yes", "no"), .num_oov_indices = EST_OFF), &p->answers));
    EST_TRY(make_rows(p, EXAMPLES, 7, 32, true, &p->train_rows));
    EST_TRY(make_rows(p, EVAL_EXAMPLES, 11, 8, false, &p->eval_rows));
    return make_rows(p, EVAL_EXAMPLES, 11, 8, true, &p->endless_eval_rows);
}

/* --- model -------------------------------------------------------------------------------------------------------- */

static est_node answer_of(est_node prediction)
{
    return est_cast(est_greater(prediction, est_scalar(prediction.graph, EST_F32, 0.5)), EST_I64);
}

/* with strategy.scope(): keras.layers.Embedding, tf.reduce_mean, Dense(1, activation="sigmoid"), BinaryCrossentropy,
 * optimizers.RMSprop(0.1) with GradientTape and apply_gradients, metrics.Accuracy. Variables of the scope, the state of
 * the metric among them, are placed on the parameter servers in turns. */
static est_status build_model(program *p)
{
    est_node rows, logits;

    EST_TRY(est_graph_create(7, &p->graph));
    est_strategy_scope(p->strategy, p->graph);
    p->features   = est_placeholder(p->graph, "features", EST_I64, EST_SHAPE(-1, 3));
    p->label      = est_placeholder(p->graph, "label", EST_I64, EST_SHAPE(-1, 1));
    rows          = est_embedding(p->features, est_string_lookup_size(p->words), 20, NULL);
    logits        = est_dense(est_reduce_mean(rows, EST_I64S(1), false), 1, NULL);
    p->prediction = est_sigmoid(logits);
    p->loss       = est_loss_sigmoid_xent(p->label, logits, NULL);
    p->train      = est_minimize(est_rms_prop(0.1, EST_RMS_PROP(.keras = true)), p->loss, NULL);
    p->accuracy   = est_metric_accuracy(p->label, answer_of(p->prediction), EST_METRIC(.shared = true));
    est_strategy_scope_end(p->strategy, p->graph);
    return est_graph_status(p->graph);
}

/* --- training ----------------------------------------------------------------------------------------------------- */

static est_status schedule_step(program *p, est_remote_value **out)
{
    return est_coordinator_schedule(p->coordinator, p->step,
        EST_ARGUMENTS({ .node = p->features, .from = p->batches, .component = "features" },
            { .node = p->label, .from = p->batches, .component = "label" }),
        out);
}

/* metric.reset_state() and metric.result(): the coordinator's session reaches the variables at the parameter
 * servers. */
static est_status reset(program *p, est_metric metric)
{
    return est_session_run(
        est_coordinator_session(p->coordinator), EST_NO_FEEDS, EST_NO_NODES, EST_NODES(metric.reset), NULL);
}

static est_status print_result(program *p, const char *what, est_metric metric)
{
    est_tensor *value = NULL;

    EST_TRY(est_session_run(
        est_coordinator_session(p->coordinator), EST_NO_FEEDS, EST_NODES(metric.value), EST_NO_NODES, &value));
    printf("%s %f\n", what, *(const float *)est_tensor_data(value));
    est_tensor_free(value);
    return EST_OK;
}

/* coordinator.schedule(step_fn, args=(per_worker_iterator,)) and coordinator.join() at the end of every epoch. */
static est_status train_epochs(program *p)
{
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        char what[64];

        EST_TRY(reset(p, p->accuracy));
        for (int i = 0; i < STEPS_PER_EPOCH; i++) EST_TRY(schedule_step(p, NULL));
        EST_TRY(est_coordinator_join(p->coordinator));
        snprintf(what, sizeof what, "finished epoch %d, accuracy", epoch);
        EST_TRY(print_result(p, what, p->accuracy));
    }
    return EST_OK;
}

/* RemoteValue.fetch(): the result of one call. */
static est_status fetch_loss(program *p)
{
    est_remote_value *value = NULL;
    est_tensor       *loss  = NULL;
    est_status        status;

    EST_TRY(schedule_step(p, &value));
    status = est_remote_value_fetch(value, 0, &loss);
    if (status == EST_OK) printf("final loss %f\n", *(const float *)est_tensor_data(loss));
    est_tensor_free(loss);
    est_remote_value_free(value);
    return status;
}

/* while not coordinator.done(): the program does something else while workers train. */
static est_status train_beside(program *p)
{
    bool done = false;

    for (int i = 0; i < MORE_STEPS; i++) EST_TRY(schedule_step(p, NULL));
    EST_TRY(est_coordinator_done(p->coordinator, &done));
    while (!done) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL); /* log metrics, for instance */
        EST_TRY(est_coordinator_done(p->coordinator, &done));
    }
    printf("%lld calls by %d workers\n", (long long)est_coordinator_get_stats(p->coordinator).completed,
        est_coordinator_get_stats(p->coordinator).workers);
    return EST_OK;
}

/* ClusterCoordinator(strategy), create_per_worker_dataset(dataset_fn), iter() of that, a tf.function for the step. */
static est_status train(program *p)
{
    est_per_worker *rows = NULL;
    est_status      status;

    EST_TRY(est_coordinator_create(p->strategy, p->graph, NULL, &p->coordinator));
    EST_TRY(est_coordinator_dataset(p->coordinator, p->train_rows, NULL, &rows));
    status = est_per_worker_iterator(rows, &p->batches);
    est_per_worker_free(rows); /* the iterator keeps it */
    if (status != EST_OK) return status;
    EST_TRY(est_coordinator_function(p->coordinator, "step", EST_NODES(p->features, p->label), EST_NODES(p->loss),
        EST_NODES(p->train, p->accuracy.update), &p->step));
    EST_TRY(train_epochs(p));
    EST_TRY(fetch_loss(p));
    return train_beside(p);
}

/* assert len(emb_layer.weights) == 2, and shape and device of each: a ShardedVariable is one variable here, and its
 * parts can be asked for. */
static est_status check_shards(program *p)
{
    est_session *session = est_coordinator_session(p->coordinator);
    const char  *table   = "embedding/embeddings";

    if (est_session_variable_parts(session, table) != PS) {
        return est_fail(EST_INTERNAL, "%s has %d parts, not %d", table, est_session_variable_parts(session, table), PS);
    }
    for (int i = 0; i < PS; i++) {
        est_variable_part part;
        char              shape[EST_SHAPE_TEXT_MAX], device[64];

        EST_TRY(est_session_variable_part(session, table, i, &part));
        snprintf(device, sizeof device, "/job:ps/replica:0/task:%d/device:CPU:0", i);
        if (part.shape.dim[0] != 5 - i || part.shape.dim[1] != 20 || strcmp(part.device, device) != 0) {
            return est_fail(
                EST_INTERNAL, "part %d has shape %s at %s", i, est_shape_text(&part.shape, shape), part.device);
        }
        printf("%s: rows from %lld on, %s at %s\n", table, (long long)part.first_row,
            est_shape_text(&part.shape, shape), part.device);
    }
    return EST_OK;
}

/* --- evaluation --------------------------------------------------------------------------------------------------- */

/* Directly: for batch, labels in eval_dataset: the coordinator itself runs the model with the variables of the
 * parameter servers, and the metric is its own. */
static est_status evaluate_here(program *p, est_metric accuracy)
{
    est_session  *session = est_coordinator_session(p->coordinator);
    est_iterator *rows    = NULL;
    est_field     row[2]  = { 0 };
    est_status    status;

    EST_TRY(reset(p, accuracy));
    EST_TRY(est_iterator_create(p->eval_rows, &rows));
    while ((status = est_iterator_next(rows, row)) == EST_OK) {
        status = est_session_run(session, EST_FEEDS({ p->features, row[0].values }, { p->label, row[1].values }),
            EST_NO_NODES, EST_NODES(accuracy.update), NULL);
        est_element_clear(row, 2);
        if (status != EST_OK) break;
    }
    est_iterator_free(rows);
    if (status != EST_OUT_OF_RANGE) return status; /* that is the end of the rows */
    return print_result(p, "evaluation accuracy, directly:", accuracy);
}

/* By the workers: metrics.Accuracy under strategy.scope() and coordinator.schedule(eval_step, ...). Each worker has all
 * rows in an order of its own, so that some may count twice and others not at all. */
static est_status evaluate_there(program *p, est_metric accuracy)
{
    est_per_worker *rows = NULL, *batches = NULL;
    est_function   *step = NULL;
    est_status      status;

    status = est_coordinator_dataset(p->coordinator, p->endless_eval_rows, NULL, &rows);
    if (status == EST_OK) status = est_per_worker_iterator(rows, &batches);
    if (status == EST_OK) {
        status = est_coordinator_function(p->coordinator, "eval_step", EST_NODES(p->features, p->label), EST_NO_NODES,
            EST_NODES(accuracy.update), &step);
    }
    for (int i = 0; i < 2 && status == EST_OK; i++) {
        status = est_coordinator_schedule(p->coordinator, step,
            EST_ARGUMENTS({ .node = p->features, .from = batches, .component = "features" },
                { .node = p->label, .from = batches, .component = "label" }),
            NULL);
    }
    if (status == EST_OK) status = est_coordinator_join(p->coordinator);
    est_function_free(step);
    est_per_worker_free(batches);
    est_per_worker_free(rows);
    return status == EST_OK ? print_result(p, "evaluation accuracy, by the workers:", accuracy) : status;
}

/* By the workers, every row once (Model.evaluate with pss_evaluation_shards). */
static est_status evaluate_exactly(program *p, est_metric accuracy)
{
    double value;

    EST_TRY(est_coordinator_evaluate(p->coordinator, p->eval_rows,
        EST_ARGUMENTS({ .node = p->features, .component = "features" }, { .node = p->label, .component = "label" }),
        &accuracy, 1, NULL, &value));
    printf("evaluation accuracy, exactly: %f\n", value);
    return EST_OK;
}

static est_status evaluate(program *p)
{
    est_node   answer = answer_of(p->prediction);
    est_metric here, there;

    est_strategy_scope(p->strategy, p->graph);
    here  = est_metric_accuracy(p->label, answer, EST_METRIC(.name = "here"));
    there = est_metric_accuracy(p->label, answer, EST_METRIC(.name = "there", .shared = true));
    est_strategy_scope_end(p->strategy, p->graph);
    EST_TRY(est_graph_status(p->graph));
    EST_TRY(evaluate_here(p, here));
    EST_TRY(evaluate_there(p, there));
    return evaluate_exactly(p, there);
}

/* --- the cluster -------------------------------------------------------------------------------------------------- */

/* ParameterServerStrategy(cluster_resolver, variable_partitioner=FixedShardsPartitioner(2)). */
static est_status coordinate(const est_resolver *resolver)
{
    est_partitioner two = est_fixed_shards(PS);
    program         p   = { 0 };
    est_status      status;

    status = est_parameter_server_strategy(
        EST_PARAMETER_SERVER(.resolver = resolver, .partitioner = &two, .round_robin = true), &p.strategy);
    if (status == EST_OK) status = make_data(&p);
    if (status == EST_OK) status = build_model(&p);
    if (status == EST_OK) status = train(&p);
    if (status == EST_OK) status = check_shards(&p);
    if (status == EST_OK) status = evaluate(&p);
    if (status == EST_OK) status = est_coordinator_end(p.coordinator); /* servers return from est_server_join */
    est_function_free(p.step);
    est_per_worker_free(p.batches);
    est_coordinator_free(p.coordinator); /* without the end of the job servers wait: the program may be started again */
    est_graph_free(p.graph);
    est_dataset_free(p.train_rows);
    est_dataset_free(p.eval_rows);
    est_dataset_free(p.endless_eval_rows);
    est_string_lookup_free(p.words);
    est_string_lookup_free(p.answers);
    est_strategy_free(p.strategy);
    return status;
}

/* tf.distribute.Server for every task of a ClusterSpec with free ports, SimpleClusterResolver for this program. */
static est_status run_in_process(void)
{
    est_local_cluster *cluster = NULL;
    est_status         status;

    EST_TRY(est_local_cluster_create(EST_LOCAL_CLUSTER(.ps = PS, .workers = WORKERS), &cluster));
    status = coordinate(est_local_cluster_resolver(cluster));
    est_local_cluster_free(cluster);
    return status;
}

/* tf.distribute.Server(...).join() in workers and parameter servers. */
static est_status serve(const est_task *task)
{
    est_server *server = NULL;
    est_status  status;

    EST_TRY(est_server_create(task->cluster, task->type, task->index, NULL, &server));
    status = est_server_join(server);
    est_server_free(server);
    return status;
}

/* TFConfigClusterResolver(), and what each task_type does. */
static est_status run_task(void)
{
    est_resolver   *resolver = NULL;
    const est_task *task;
    est_status      status = EST_OK;

    EST_TRY(est_resolve_tf_config(NULL, NULL, &resolver));
    task = est_resolver_task(resolver);
    if (strcmp(task->type, "evaluator") == 0) {
        printf("this program has no checkpoints to evaluate\n");
    } else if (est_cluster_jobs(task->cluster) == 0) {
        status = est_fail(EST_INVALID_ARGUMENT, "TF_CONFIG has no cluster; use estoc launch");
    } else if (strcmp(task->type, "worker") == 0 || strcmp(task->type, "ps") == 0) {
        status = serve(task);
    } else {
        status = coordinate(resolver);
    }
    est_resolver_free(resolver);
    return status;
}

int main(int argc, char **argv)
{
    bool       cluster = argc == 2 && strcmp(argv[1], "--cluster") == 0;
    est_status status;

    if (argc > 1 && !cluster) {
        fprintf(stderr, "usage: coordinator [--cluster]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* under estoc launch it is a pipe: show each line at once */
    status = cluster ? run_task() : run_in_process();
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    return est_exit_code(status);
}
