/* SPDX-License-Identifier: Apache-2.0
 *
 * A training loop of one's own with a strategy: two replicas, each with its half of every batch, learn which points lie
 * in a circle. Above each part, the lines of the TensorFlow 2 program that it stands for. */
#include <estoc/estoc.h>
#include <stdio.h>

#define REPLICAS     2
#define GLOBAL_BATCH 64
#define PART         (GLOBAL_BATCH / REPLICAS)
#define STEPS        100 /* of an epoch */
#define EPOCHS       5

typedef struct loop {
    est_per_replica x, y;
    est_node        train;
    est_metric      accuracy[REPLICAS];
} loop;

static est_node points(const est_replica_context *ctx, void *user)
{
    (void)user;
    return est_placeholder(ctx->graph, "x", EST_F32, EST_SHAPE(-1, 2));
}

static est_node labels(const est_replica_context *ctx, void *user)
{
    (void)user;
    return est_placeholder(ctx->graph, "y", EST_F32, EST_SHAPE(-1, 1));
}

/* def train_step(x, y):
 *     with tf.GradientTape() as tape:
 *         logits = model(x)
 *         per_example = tf.nn.sigmoid_cross_entropy_with_logits(y, logits)
 *         loss = tf.nn.compute_average_loss(per_example, global_batch_size=GLOBAL_BATCH)
 *     gradients = tape.gradient(loss, model.trainable_variables)
 *     optimizer.apply_gradients(zip(gradients, model.trainable_variables))
 *     accuracy.update_state(y, tf.sigmoid(logits))
 *     return loss */
static est_node train_step(const est_replica_context *ctx, void *user)
{
    loop    *l = user;
    est_node x = l->x.data[ctx->replica], y = l->y.data[ctx->replica];

    est_node hidden      = est_dense(x, 32, EST_DENSE(.activation = est_relu));
    est_node logits      = est_dense(hidden, 1, NULL);
    est_node per_example = est_reshape(est_sigmoid_xent(logits, y), EST_I64S(-1));
    est_node loss        = est_compute_average_loss(per_example, EST_NO_NODE, GLOBAL_BATCH);

    l->train                  = est_minimize(est_adam(0.02, NULL), loss, NULL); /* the same for all replicas */
    l->accuracy[ctx->replica] = est_metric_accuracy_at_threshold(y, est_sigmoid(logits), 0.5, NULL);
    return loss;
}

/* The part of a batch that one replica gets. */
static est_status make_part(uint64_t *state, est_tensor **x, est_tensor **y)
{
    float xs[PART][2], ys[PART];

    for (int i = 0; i < PART; i++) {
        for (int k = 0; k < 2; k++) {
            *state   = *state * 6364136223846793005u + 1442695040888963407u;
            xs[i][k] = (float)(*state >> 40) / 8388608.0f - 1; /* in [-1, 1) */
        }
        float r = xs[i][0] * xs[i][0] + xs[i][1] * xs[i][1];
        ys[i]   = r < 0.6f ? 1 : 0;
    }
    EST_TRY(est_tensor_f32(EST_SHAPE(PART, 2), xs[0], x));
    return est_tensor_f32(EST_SHAPE(PART, 1), ys, y);
}

static est_status train_batch(est_step *step, uint64_t *state, double *loss)
{
    est_tensor *parts[2 * REPLICAS] = { 0 };
    est_status  status              = EST_OK;

    for (int i = 0; i < REPLICAS && status == EST_OK; i++) {
        status = make_part(state, &parts[2 * i], &parts[2 * i + 1]);
    }
    if (status == EST_OK) status = est_step_run(step, (const est_tensor *const *)parts);
    if (status == EST_OK) *loss += est_step_scalar(step, 0);
    for (int i = 0; i < 2 * REPLICAS; i++) est_tensor_free(parts[i]);
    return status;
}

/* for epoch in range(EPOCHS):
 *     total = 0.0
 *     accuracy.reset_state()
 *     for x, y in dist_dataset:
 *         total += distributed_train_step(x, y)
 *     print(...) */
static est_status train(est_session *session, const loop *l, est_step *step)
{
    uint64_t state = 1;

    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        est_tensor *accuracy = NULL;
        double      total    = 0;

        EST_TRY(est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(l->accuracy[0].reset), NULL));
        for (int i = 0; i < STEPS; i++) EST_TRY(train_batch(step, &state, &total));
        EST_TRY(est_session_run(session, EST_NO_FEEDS, EST_NODES(l->accuracy[0].value), EST_NO_NODES, &accuracy));
        printf("epoch %d  loss %.4f  accuracy %.4f\n", epoch, total / STEPS, *(const float *)est_tensor_data(accuracy));
        est_tensor_free(accuracy);
    }
    return EST_OK;
}

/* @tf.function
 * def distributed_train_step(x, y):
 *     per_replica_losses = strategy.run(train_step, args=(x, y))
 *     return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None) */
static est_status build_and_train(const est_strategy *strategy, est_graph *graph)
{
    loop         l;
    est_session *session = NULL;
    est_step    *step    = NULL;

    l.x = est_strategy_values_from_function(strategy, graph, points, NULL);
    l.y = est_strategy_values_from_function(strategy, graph, labels, NULL);

    est_per_replica losses = est_strategy_run(strategy, graph, train_step, &l);
    est_node        loss   = est_strategy_reduce(strategy, EST_REDUCE_OP_SUM, losses, EST_NO_AXIS);
    EST_TRY(est_graph_status(graph)); /* the first failure of any of the above */

    est_nodes  feeds   = EST_NODES(l.x.data[0], l.y.data[0], l.x.data[1], l.y.data[1]);
    est_nodes  targets = EST_NODES(l.train, l.accuracy[0].update, l.accuracy[1].update);
    est_status status  = est_session_create(graph, NULL, &session);
    if (status == EST_OK) status = est_session_init(session);
    if (status == EST_OK) status = est_session_prepare(session, feeds, EST_NODES(loss), targets, &step);
    if (status == EST_OK) status = train(session, &l, step);
    est_session_free(session);
    return status;
}

int main(void)
{
    est_strategy *strategy = NULL;
    est_graph    *graph    = NULL;

    /* strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]) */
    est_status status = est_mirrored_strategy(EST_MIRRORED(.replicas = REPLICAS), &strategy);
    if (status == EST_OK) status = est_graph_create(7, &graph);
    if (status == EST_OK) printf("replicas in sync: %d\n", est_strategy_num_replicas_in_sync(strategy));
    if (status == EST_OK) status = build_and_train(strategy, graph);
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    est_graph_free(graph);
    est_strategy_free(strategy);
    return est_exit_code(status);
}
