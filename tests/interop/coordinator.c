/* SPDX-License-Identifier: Apache-2.0
 *
 * A coordinator, ours and TensorFlow's, with one worker and two parameter servers: from the same values with the same
 * rows both have the same losses at every call and the same accuracy after every epoch, and each goes on from a
 * checkpoint of the other. coordinator.py has the same program. */
#include <stdio.h>
#include <string.h>

#include "estoc/estoc.h"
#include "support/interop.h"

#define ROWS        160
#define BATCH       32
#define EPOCH_CALLS 5 /* one pass over the rows: restarted input is resumed input */
#define EPOCHS      4
#define MORE        6 /* epochs in all when one side goes on with the other's checkpoint */
#define PS          2

static const char *const words[] = { "avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman" };

typedef struct program {
    est_local_cluster *cluster;
    est_strategy      *strategy;
    est_graph         *graph;
    est_node           features, label, loss, train;
    est_metric         accuracy;
    est_coordinator   *coordinator;
    est_per_worker    *rows, *batches;
    est_function      *step;
    float              losses[MORE * EPOCH_CALLS], accuracies[MORE];
    int                epochs; /* that were made */
} program;

/* --- rows --------------------------------------------------------------------------------------------------------- */

static const char *word_of(int row, int k)
{
    if (k == 2 && row % 9 == 4) return "thor"; /* the vocabulary lacks it */
    return words[k == 0 ? row % 7 : k == 1 ? (2 * row + 1) % 7 : (row / 7 + 3) % 7];
}

static void make_examples(est_tensor **features, est_tensor **labels)
{
    interop_check(est_tensor_create(EST_STRING, EST_SHAPE(ROWS, 3), features));
    interop_check(est_tensor_create(EST_STRING, EST_SHAPE(ROWS, 1), labels));
    for (int i = 0; i < ROWS; i++) {
        bool yes = false;

        for (int k = 0; k < 3; k++) {
            const char *word = word_of(i, k);

            yes = yes || strcmp(word, words[0]) == 0;
            interop_check(est_tensor_set_string(*features, 3 * i + k, word, strlen(word)));
        }
        interop_check(est_tensor_set_string(*labels, i, yes ? "yes" : "no", yes ? 3 : 2));
    }
}

/* Words become ids in a stage of the dataset. */
static est_dataset *make_rows(const est_string_lookup *word_ids, const est_string_lookup *label_ids)
{
    est_tensor  *features = NULL, *labels = NULL;
    est_graph   *graph = NULL;
    est_dataset *d;
    est_node     word, label;

    make_examples(&features, &labels);
    interop_check(est_graph_create(1, &graph));
    word  = est_placeholder(graph, "features", EST_STRING, EST_SHAPE(3));
    label = est_placeholder(graph, "label", EST_STRING, EST_SHAPE(1));
    d     = est_dataset_map_graph(est_dataset_slices(EST_NAMED_TENSORS({ "features", features }, { "label", labels })),
                                  EST_NAMED_NODES({ "features", word }, { "label", label }),
                                  EST_NAMED_NODES({ "features", est_string_lookup_apply(word_ids, word) },
                                                  { "label", est_string_lookup_apply(label_ids, label) }),
                                  NULL);
    d     = est_dataset_repeat(est_dataset_batch(d, BATCH, NULL), EST_FOREVER);
    interop_check(est_dataset_finish(d, &d));
    est_graph_free(graph);
    est_tensor_free(features);
    est_tensor_free(labels);
    return d;
}

/* --- the program -------------------------------------------------------------------------------------------------- */

static void build(program *p, int64_t n_ids)
{
    est_node logits, answer;

    interop_check(est_graph_create(1, &p->graph));
    est_strategy_scope(p->strategy, p->graph);
    p->features = est_placeholder(p->graph, "features", EST_I64, EST_SHAPE(-1, 3));
    p->label    = est_placeholder(p->graph, "label", EST_I64, EST_SHAPE(-1, 1));
    logits      = est_dense(est_reduce_mean(est_embedding(p->features, n_ids, 20, NULL), EST_I64S(1), false), 1, NULL);
    p->loss     = est_loss_sigmoid_xent(p->label, logits, NULL);
    p->train    = est_minimize(est_rms_prop(0.01, EST_RMS_PROP(.keras = true)), p->loss, NULL);
    answer      = est_cast(est_greater(est_sigmoid(logits), est_scalar(p->graph, EST_F32, 0.5)), EST_I64);
    p->accuracy = est_metric_accuracy(p->label, answer, EST_METRIC(.shared = true));
    est_strategy_scope_end(p->strategy, p->graph);
    interop_check(est_graph_status(p->graph));
}

/* A coordinator with checkpoints in model_dir. */
static void start(program *p, const char *model_dir)
{
    est_partitioner    two      = est_fixed_shards(PS);
    est_string_lookup *word_ids = NULL, *label_ids = NULL;
    est_dataset       *rows;

    *p = (program){ 0 };
    interop_check(est_local_cluster_create(EST_LOCAL_CLUSTER(.ps = PS, .workers = 1), &p->cluster));
    interop_check(est_parameter_server_strategy(EST_PARAMETER_SERVER(.resolver = est_local_cluster_resolver(p->cluster),
                                                                     .partitioner = &two, .round_robin = true),
                                                &p->strategy));
    interop_check(est_string_lookup_create(EST_STRING_LOOKUP(.vocabulary = { words, 7 }, .mask_token = ""), &word_ids));
    interop_check(est_string_lookup_create(
        EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("yes", "no"), .num_oov_indices = EST_OFF), &label_ids));
    rows = make_rows(word_ids, label_ids);
    build(p, est_string_lookup_size(word_ids));
    interop_check(
        est_coordinator_create(p->strategy, p->graph, EST_COORDINATOR(.model_dir = model_dir), &p->coordinator));
    interop_check(est_coordinator_dataset(p->coordinator, rows, NULL, &p->rows));
    interop_check(est_per_worker_iterator(p->rows, &p->batches));
    interop_check(est_coordinator_function(p->coordinator, "step", EST_NODES(p->features, p->label), EST_NODES(p->loss),
                                           EST_NODES(p->train, p->accuracy.update), &p->step));
    est_dataset_free(rows);
    est_string_lookup_free(word_ids);
    est_string_lookup_free(label_ids);
}

static void stop(program *p)
{
    est_function_free(p->step);
    est_per_worker_free(p->batches);
    est_per_worker_free(p->rows);
    est_coordinator_free(p->coordinator);
    est_graph_free(p->graph);
    est_strategy_free(p->strategy);
    est_local_cluster_free(p->cluster);
}

static void run_epoch(program *p)
{
    est_remote_value *values[EPOCH_CALLS];
    est_tensor       *number = NULL;

    interop_check(est_session_run(est_coordinator_session(p->coordinator), EST_NO_FEEDS, EST_NO_NODES,
                                  EST_NODES(p->accuracy.reset), NULL));
    for (int i = 0; i < EPOCH_CALLS; i++) {
        interop_check(est_coordinator_schedule(
            p->coordinator, p->step,
            EST_ARGUMENTS({ p->features, p->batches, "features" }, { p->label, p->batches, "label" }), &values[i]));
    }
    interop_check(est_coordinator_join(p->coordinator));
    for (int i = 0; i < EPOCH_CALLS; i++) {
        interop_check(est_remote_value_fetch(values[i], 0, &number));
        p->losses[p->epochs * EPOCH_CALLS + i] = *(const float *)est_tensor_data(number);
        est_tensor_free(number);
        est_remote_value_free(values[i]);
    }
    interop_check(est_session_run(est_coordinator_session(p->coordinator), EST_NO_FEEDS, EST_NODES(p->accuracy.value),
                                  EST_NO_NODES, &number));
    p->accuracies[p->epochs++] = *(const float *)est_tensor_data(number);
    est_tensor_free(number);
}

static void write_results(const program *p, const char *name)
{
    est_strbuf  text   = { 0 };
    est_tensor *losses = NULL, *accuracies = NULL;

    interop_check(est_tensor_f32(EST_SHAPE((int64_t)p->epochs * EPOCH_CALLS), p->losses, &losses));
    interop_check(est_tensor_f32(EST_SHAPE(p->epochs), p->accuracies, &accuracies));
    interop_tensor(&text, "losses", losses);
    interop_tensor(&text, "accuracies", accuracies);
    interop_save(name, &text);
    est_tensor_free(losses);
    est_tensor_free(accuracies);
}

/* --- their checkpoints -------------------------------------------------------------------------------------------- */

#define VALUE "/.ATTRIBUTES/VARIABLE_VALUE"
#define SLOT  "/.OPTIMIZER_SLOT/optimizer/rms" VALUE

/* Sharded variables have no names in a checkpoint of TensorFlow 2: its keys are paths through the program's objects. */
static const char *their_key(void *user, const char *variable)
{
    static const char *const keys[][2] = {
        { "embedding/embeddings", "model/layer_with_weights-0/embeddings" VALUE },
        { "dense/kernel", "model/layer_with_weights-1/kernel" VALUE },
        { "dense/bias", "model/layer_with_weights-1/bias" VALUE },
        { "training/RMSprop/embedding/embeddings/rms", "model/layer_with_weights-0/embeddings" SLOT },
        { "training/RMSprop/dense/kernel/rms", "model/layer_with_weights-1/kernel" SLOT },
        { "training/RMSprop/dense/bias/rms", "model/layer_with_weights-1/bias" SLOT },
        { "training/RMSprop/learning_rate", "optimizer/learning_rate" VALUE },
        { "training/RMSprop/momentum", "optimizer/momentum" VALUE },
        { "training/RMSprop/decay", "optimizer/decay" VALUE },
        { "training/RMSprop/rho", "optimizer/rho" VALUE },
        { "global_step", "optimizer/iter" VALUE },
        { "accuracy/total", "accuracy/total" VALUE },
        { "accuracy/count", "accuracy/count" VALUE },
    };

    (void)user;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(variable, keys[i][0]) == 0) return keys[i][1];
    }
    return NULL;
}

static void restore_theirs(program *p, const char *name)
{
    interop_check(est_saver_restore(NULL, est_coordinator_session(p->coordinator),
                                    EST_RESTORE(.path = interop_path(name), .rename = their_key), NULL));
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

/* Once for all tests: TensorFlow's training, with checkpoints before, in the middle and at the end. */
TEST(theirs)
{
    interop_ask("train_theirs");
}

static void save_end(program *p)
{
    est_saver *saver = NULL;

    interop_check(est_saver_create(interop_path("ours-end"), NULL, &saver));
    interop_check(est_saver_save(saver, est_coordinator_session(p->coordinator), MORE * EPOCH_CALLS, NULL, NULL));
    est_saver_free(saver);
}

TEST(same_calls)
{
    program p;

    start(&p, interop_path("ours"));
    restore_theirs(&p, "theirs-start");
    while (p.epochs < EPOCHS) run_epoch(&p);
    interop_check(est_coordinator_save(p.coordinator, EPOCHS));
    while (p.epochs < MORE) run_epoch(&p);
    save_end(&p);
    write_results(&p, "ours.tensors");
    stop(&p);
    interop_ask("check_ours");
}

TEST(ours_from_theirs)
{
    program p;

    start(&p, NULL);
    restore_theirs(&p, "theirs-middle");
    while (p.epochs < MORE - EPOCHS) run_epoch(&p);
    write_results(&p, "ours-after-theirs.tensors");
    stop(&p);
    interop_ask("check_ours_from_theirs");
}

TEST(theirs_from_ours)
{
    interop_ask("check_theirs_from_ours");
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR);
    return INTEROP_MAIN("coordinator");
}
