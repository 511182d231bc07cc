/* SPDX-License-Identifier: Apache-2.0
 *
 * Training and evaluating with the prepared form: an embedding and a dense layer on made-up clicks, Adagrad with a
 * falling learning rate and clipped gradients, and a streaming AUC over held-out batches. Prints where the time
 * went. */
#include <estoc/estoc.h>
#include <math.h>
#include <stdio.h>

#define BATCH   256
#define IDS     1000
#define BATCHES 40 /* of which the last 8 are held out */

typedef struct clicks {
    est_tensor *id, *price, *label;
} clicks;

/* A click is likelier for even ids and low prices. */
static est_status make_batch(uint64_t *state, clicks *out)
{
    int64_t ids[BATCH];
    float   prices[BATCH], labels[BATCH];

    for (int i = 0; i < BATCH; i++) {
        *state    = *state * 6364136223846793005u + 1442695040888963407u;
        ids[i]    = (int64_t)(*state >> 40) % IDS;
        prices[i] = (float)(*state >> 20 & 0xffff) / 65536.0f;
        *state    = *state * 6364136223846793005u + 1442695040888963407u;
        double p  = 1 / (1 + exp(-((ids[i] % 2 == 0 ? 2.0 : -2.0) - 3.0 * (prices[i] - 0.5))));
        labels[i] = (double)(*state >> 32) / 4294967296.0 < p ? 1 : 0;
    }
    EST_TRY(est_tensor_i64(EST_SHAPE(BATCH), ids, &out->id));
    EST_TRY(est_tensor_f32(EST_SHAPE(BATCH, 1), prices, &out->price));
    return est_tensor_f32(EST_SHAPE(BATCH, 1), labels, &out->label);
}

static est_status train_and_evaluate(est_graph *g, const clicks *data)
{
    est_session *session = NULL;
    est_step    *train, *update, *reset, *value;

    est_node id    = est_placeholder(g, "id", EST_I64, EST_SHAPE(-1));
    est_node price = est_placeholder(g, "price", EST_F32, EST_SHAPE(-1, 1));
    est_node label = est_placeholder(g, "label", EST_F32, EST_SHAPE(-1, 1));
    est_node x     = est_concat(EST_NODES(est_embedding(id, IDS, 8, NULL), price), 1);
    est_node logit = est_dense(est_dense(x, 16, EST_DENSE(.activation = est_relu)), 1, NULL);
    est_node loss  = est_loss_sigmoid_xent(label, logit, NULL);

    est_optimizer adagrad = est_with_schedule(est_adagrad(0, NULL), est_exponential_decay(0.5, 100, 0.9, false));
    est_node      step    = est_minimize(adagrad, loss, EST_MINIMIZE(.clip_global_norm = 5));
    est_metric    auc     = est_metric_auc(label, est_sigmoid(logit), NULL);
    est_nodes     feeds   = EST_NODES(id, price, label);

    est_status status = est_session_create(g, NULL, &session);
    if (status == EST_OK) status = est_session_init(session);
    if (status == EST_OK) status = est_session_prepare(session, feeds, EST_NODES(loss), EST_NODES(step), &train);
    if (status == EST_OK) status = est_session_prepare(session, feeds, EST_NO_NODES, EST_NODES(auc.update), &update);
    if (status == EST_OK)
        status = est_session_prepare(session, EST_NO_NODES, EST_NO_NODES, EST_NODES(auc.reset), &reset);
    if (status == EST_OK)
        status = est_session_prepare(session, EST_NO_NODES, EST_NODES(auc.value), EST_NO_NODES, &value);
    if (status == EST_OK) status = est_step_trace(train, 100);

    for (int epoch = 0; epoch < 5 && status == EST_OK; epoch++) {
        double total = 0;
        status       = est_step_run(reset, NULL);
        for (int b = 0; b < BATCHES && status == EST_OK; b++) {
            bool held_out = b >= BATCHES - 8;
            status        = est_step_run(
                       held_out ? update : train, (const est_tensor *[]){ data[b].id, data[b].price, data[b].label });
            if (status == EST_OK && !held_out) total += est_step_scalar(train, 0);
        }
        if (status == EST_OK) status = est_step_run(value, NULL);
        if (status == EST_OK) {
            printf("epoch %d  loss %.4f  auc %.4f\n", epoch + 1, total / (BATCHES - 8), est_step_scalar(value, 0));
        }
    }
    if (status == EST_OK) est_step_report(train, stdout);
    est_session_free(session);
    return status;
}

int main(void)
{
    clicks     data[BATCHES] = { 0 };
    uint64_t   state         = 1;
    est_graph *g             = NULL;
    est_status status        = est_graph_create(1, &g);

    for (int b = 0; b < BATCHES && status == EST_OK; b++) status = make_batch(&state, &data[b]);
    if (status == EST_OK) status = train_and_evaluate(g, data);
    if (status != EST_OK) fprintf(stderr, "clicks: %s: %s\n", est_status_name(status), est_error_message());
    for (int b = 0; b < BATCHES; b++) {
        est_tensor_free(data[b].id);
        est_tensor_free(data[b].price);
        est_tensor_free(data[b].label);
    }
    est_graph_free(g);
    return status == EST_OK ? 0 : 1;
}
