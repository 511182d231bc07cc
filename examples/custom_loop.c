/* SPDX-License-Identifier: Apache-2.0
 *
 * A training loop of one's own with a strategy: two replicas, each with its part of every global batch, learn which
 * points lie in a circle. Above each part, the TensorFlow 2 calls that it stands for. */
#include <estoc/estoc.h>
#include <stdio.h>

#define REPLICAS        2
#define GLOBAL_BATCH    64
#define ROWS            6400
#define STEPS_PER_EPOCH 100
#define EPOCHS          5

typedef struct loop {
    const est_distributed_dataset *dataset;

    est_nodes  inputs; /* of all replicas */
    est_node   train;
    est_metric accuracy[REPLICAS];
} loop;

/* --- data --------------------------------------------------------------------------------------------------------- */

/* Points in a square; the label is 1 in the circle. */
static est_status make_points(est_tensor **x, est_tensor **y)
{
    static float xs[ROWS][2], ys[ROWS];
    uint64_t     state = 1;

    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < 2; k++) {
            state    = state * 6364136223846793005u + 1442695040888963407u;
            xs[i][k] = (float)(state >> 40) / 8388608.0f - 1; /* in [-1, 1) */
        }
        float r = xs[i][0] * xs[i][0] + xs[i][1] * xs[i][1];
        ys[i]   = r < 0.6f ? 1 : 0;
    }
    EST_TRY(est_tensor_f32(EST_SHAPE(ROWS, 2), xs[0], x));
    return est_tensor_f32(EST_SHAPE(ROWS, 1), ys, y);
}

/* def dataset_fn(input_context):
 *     batch_size = input_context.get_per_replica_batch_size(GLOBAL_BATCH)
 *     d = tf.data.Dataset.from_tensor_slices((x, y)).shard(num_input_pipelines, input_pipeline_id)
 *     return d.shuffle(ROWS).repeat().batch(batch_size).prefetch(2) */
static est_status dataset_fn(const est_input_context *ctx, void *user, est_dataset **out)
{
    est_tensor *x = NULL, *y = NULL;
    int64_t     batch_size;

    (void)user;
    EST_TRY(est_per_replica_batch_size(ctx, GLOBAL_BATCH, &batch_size));
    est_status status = make_points(&x, &y);
    if (status == EST_OK) {
        est_dataset *d = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y }));
        d              = est_dataset_shard(d, ctx->n_pipelines, ctx->pipeline);
        d              = est_dataset_shuffle(d, ROWS, ctx->seed);
        d              = est_dataset_repeat(d, EST_FOREVER);
        d              = est_dataset_batch(d, batch_size, NULL);
        d              = est_dataset_prefetch(d, 2);
        status         = est_dataset_finish(d, out);
    }
    est_tensor_free(x); /* the dataset shares them */
    est_tensor_free(y);
    return status;
}

/* --- a step ------------------------------------------------------------------------------------------------------- */

/* def replica_fn(inputs):
 *     x, y = inputs
 *     with tf.GradientTape() as tape:
 *         logits = model(x)
 *         per_example = tf.nn.sigmoid_cross_entropy_with_logits(y, logits)
 *         loss = tf.nn.compute_average_loss(per_example, global_batch_size=GLOBAL_BATCH)
 *     gradients = tape.gradient(loss, model.trainable_variables)
 *     optimizer.apply_gradients(zip(gradients, model.trainable_variables))
 *     accuracy.update_state(y, tf.sigmoid(logits))
 *     return loss
 *
 * The model, the optimizer and the metric are created here and not in a strategy.scope(): the second replica gets the
 * variables of the first. */
static est_node replica_fn(const est_replica_context *ctx, void *user)
{
    loop    *l = user;
    est_node x = est_distributed_input(l->dataset, l->inputs, ctx->replica, "x");
    est_node y = est_distributed_input(l->dataset, l->inputs, ctx->replica, "y");

    est_node hidden      = est_dense(x, 32, EST_DENSE(.activation = est_relu));
    est_node logits      = est_dense(hidden, 1, NULL);
    est_node per_example = est_reshape(est_sigmoid_xent(logits, y), EST_I64S(-1));
    est_node loss        = est_compute_average_loss(per_example, EST_NO_NODE, GLOBAL_BATCH);

    l->train                  = est_minimize(est_adam(0.02, NULL), loss, NULL); /* the same for all replicas */
    l->accuracy[ctx->replica] = est_metric_accuracy_at_threshold(y, est_sigmoid(logits), 0.5, NULL);
    return loss;
}

/* @tf.function
 * def step_fn(iterator):
 *     per_replica_losses = strategy.run(replica_fn, args=(next(iterator),))
 *     return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)
 *
 * Here: what is built and prepared once. next(iterator) feeds the prepared step, in train(). */
static est_status make_step_fn(
    const est_strategy *strategy, est_graph *graph, loop *l, est_session **session, est_step **step_fn)
{
    l->inputs = est_distributed_placeholders(l->dataset, graph);

    est_per_replica losses = est_strategy_run(strategy, graph, replica_fn, l);
    est_node        loss   = est_strategy_reduce(strategy, EST_REDUCE_OP_SUM, losses, EST_NO_AXIS);
    EST_TRY(est_graph_status(graph)); /* the first failure of any of the above */

    EST_TRY(est_session_create(graph, NULL, session));
    EST_TRY(est_session_init(*session));
    return est_session_prepare(*session, l->inputs, EST_NODES(loss),
        EST_NODES(l->train, l->accuracy[0].update, l->accuracy[1].update), step_fn);
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

/* for epoch in range(EPOCHS):
 *     accuracy.reset_state()
 *     for step in range(STEPS_PER_EPOCH):
 *         total += step_fn(iterator)
 *     print(...) */
static est_status train(est_session *session, const loop *l, est_step *step_fn, est_distributed_iterator *iterator)
{
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        est_tensor *accuracy = NULL;
        double      total    = 0;

        EST_TRY(est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(l->accuracy[0].reset), NULL));
        for (int step = 0; step < STEPS_PER_EPOCH; step++) {
            const est_tensor *const *inputs;

            EST_TRY(est_distributed_iterator_next(iterator, &inputs));
            EST_TRY(est_step_run(step_fn, inputs));
            total += est_step_scalar(step_fn, 0);
        }
        EST_TRY(est_session_run(session, EST_NO_FEEDS, EST_NODES(l->accuracy[0].value), EST_NO_NODES, &accuracy));
        printf("epoch %d  loss %.4f  accuracy %.4f\n", epoch, total / STEPS_PER_EPOCH,
            *(const float *)est_tensor_data(accuracy));
        est_tensor_free(accuracy);
    }
    return EST_OK;
}

int main(void)
{
    est_strategy             *strategy = NULL;
    est_distributed_dataset  *dataset  = NULL;
    est_distributed_iterator *iterator = NULL;
    est_graph                *graph    = NULL;
    est_session              *session  = NULL;
    est_step                 *step_fn  = NULL;
    loop                      l        = { 0 };

    /* strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]) */
    est_status status = est_mirrored_strategy(EST_MIRRORED(.replicas = REPLICAS), &strategy);
    if (status == EST_OK) printf("replicas in sync: %d\n", est_strategy_num_replicas_in_sync(strategy));

    /* dataset = strategy.distribute_datasets_from_function(dataset_fn) */
    if (status == EST_OK) status = est_strategy_datasets_from_function(strategy, dataset_fn, NULL, &dataset);
    l.dataset = dataset;

    if (status == EST_OK) status = est_graph_create(7, &graph);
    if (status == EST_OK) status = make_step_fn(strategy, graph, &l, &session, &step_fn);

    /* iterator = iter(dataset): one for all epochs, since a new one would give the same batches again */
    if (status == EST_OK) status = est_distributed_iterator_create(dataset, NULL, &iterator);
    if (status == EST_OK) status = train(session, &l, step_fn, iterator);
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    est_distributed_iterator_free(iterator);
    est_distributed_dataset_free(dataset);
    est_session_free(session);
    est_graph_free(graph);
    est_strategy_free(strategy);
    return est_exit_code(status);
}
