/* SPDX-License-Identifier: Apache-2.0
 *
 * Multi-worker training, of which one has no batch left long before the other: the steps that it makes without one, for
 * models whose values have shapes that are not known before a batch is there. Both end with the same variables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estoc/feature_column.h"
#include "estoc/ops.h"
#include "support/estimator_test.h"
#include "support/multi_worker_test.h"

#define STEPS 12 /* batches of the chief; the worker has one */
#define ROWS  4

typedef enum way {
    WAY_TWO_UNKNOWN, /* ids and numbers of which neither rows nor columns are known */
    WAY_LOST_SHAPE,  /* a gradient has the shape of its variable, which follows from no other */
    WAY_RAGGED,      /* strings, any number a row: a linear model, embeddings, rows for keys */
    WAY_BATCH_NORM,
    WAY_OWN_UPDATE, /* what is trained with does something else beside, with the batch that there is not */
    N_WAYS
} way;

typedef struct scene {
    const char *name;
    int         variables; /* that are trained */
} scene;

static const scene scenes[N_WAYS] = { [WAY_TWO_UNKNOWN] = { "two unknown dimensions", 5 },
                                      [WAY_LOST_SHAPE]  = { "a shape that is lost", 1 },
                                      [WAY_RAGGED]      = { "ragged strings", 6 },
                                      [WAY_BATCH_NORM]  = { "batch norm", 6 },
                                      [WAY_OWN_UPDATE]  = { "an update of its own", 2 } };

typedef struct job {
    way               way;
    const est_column *linear, *embedded, *keyed;
} job;

/* --- input -------------------------------------------------------------------------------------------------------- */

typedef struct batches {
    int made, n, pipeline;
} batches;

static est_status open_batches(void *user, void **state)
{
    batches *b = malloc(sizeof *b);

    *b     = *(batches *)user;
    *state = b;
    return EST_OK;
}

static est_status make_words(int64_t n, est_field *out)
{
    int64_t splits[ROWS + 1] = { 0 };

    EST_TRY(est_tensor_create(EST_STRING, EST_SHAPE(n), &out->values));
    for (int64_t i = 0; i < n; i++) {
        char payload[16];

        snprintf(payload, sizeof payload, "w%d", (int)(i % 5));
        EST_TRY(est_tensor_set_string(out->values, i, payload, strlen(payload)));
    }
    for (int i = 1; i <= ROWS; i++) splits[i] = i < ROWS ? (n < i ? n : i) : n;
    return est_tensor_i64(EST_SHAPE(ROWS + 1), splits, &out->splits);
}

/* Each batch has another number of columns. */
static est_status next_batch(void *state, est_field *element)
{
    batches *b = state;
    int64_t  n = ROWS, m = 2 + (b->made + b->pipeline) % 3, ids[ROWS * 4];
    float    xs[ROWS * 4], threes[ROWS * 3], ys[ROWS];

    if (b->made == b->n) return EST_OUT_OF_RANGE;
    for (int64_t i = 0; i < n * m; i++) {
        ids[i] = (i * 3 + b->made) % 10;
        xs[i]  = (float)(i % 7) / 4 - 1;
    }
    for (int64_t i = 0; i < n * 3; i++) threes[i] = (float)((i + b->made) % 5) / 4;
    for (int64_t i = 0; i < n; i++) ys[i] = (float)(i % 3) + (float)b->pipeline;
    b->made++;
    EST_TRY(est_tensor_i64(EST_SHAPE(n, m), ids, &element[0].values));
    EST_TRY(est_tensor_f32(EST_SHAPE(n, m), xs, &element[1].values));
    EST_TRY(make_words(n + m, &element[2]));
    EST_TRY(est_tensor_f32(EST_SHAPE(n, 3), threes, &element[3].values));
    return est_tensor_f32(EST_SHAPE(n), ys, &element[4].values);
}

static est_status input(const est_input_context *context, void *user, est_dataset **out)
{
    static batches      own;
    const est_component components[] = {
        { .name = "ids", .dtype = EST_I64, .shape = EST_SHAPE(-1, -1) },
        { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(-1, -1) },
        { .name = "words", .dtype = EST_STRING, .shape = EST_SHAPE(-1), .ragged = true },
        { .name = "three", .dtype = EST_F32, .shape = EST_SHAPE(-1, -1) },
        { .name = "y", .dtype = EST_F32, .shape = EST_SHAPE(-1) }
    };

    (void)user;
    own = (batches){ .n = context->pipeline == 0 ? STEPS : 1, .pipeline = context->pipeline };
    return est_dataset_finish(
        est_dataset_generator((est_components){ components, 5 },
                              EST_GENERATOR(.open = open_batches, .next = next_batch, .close = free, .user = &own)),
        out);
}

/* --- models ------------------------------------------------------------------------------------------------------- */

static est_node score_of(est_model *m, const job *j)
{
    est_node   x     = est_model_feature(m, "x");
    est_graph *graph = x.graph;
    est_node   first = est_reduce_mean(x, EST_I64S(1), true); /* [rows, 1] */

    switch (j->way) {
    case WAY_TWO_UNKNOWN: {
        est_node table = est_weight(graph, "table", EST_SHAPE(10, 4), NULL);
        est_node rows  = est_gather(est_read_variable(table), est_model_feature(m, "ids"), 0);

        return est_add(est_dense(est_reduce_mean(rows, EST_I64S(1), false), 1, NULL), est_dense(first, 1, NULL));
    }
    case WAY_LOST_SHAPE: {
        est_node w = est_weight(graph, "w", EST_SHAPE(3, 1), NULL);

        return est_matmul(est_model_feature(m, "three"), est_read_variable(w));
    }
    case WAY_RAGGED: {
        est_features features = est_model_features(m);
        est_node     deep     = est_input_layer(features, EST_COLUMN_LIST(j->embedded, j->keyed), NULL);

        return est_add(est_linear_model(features, EST_COLUMN_LIST(j->linear), NULL), est_dense(deep, 1, NULL));
    }
    case WAY_BATCH_NORM: return est_dense(est_batch_norm(est_dense(first, 3, NULL), true, NULL), 1, NULL);
    default: return est_dense(first, 1, NULL);
    }
}

static est_status model_fn(est_model *m, est_mode mode, const void *params)
{
    const job *j     = params;
    est_node   score = est_squeeze(score_of(m, j), EST_I64S(1));
    est_node   loss, step;

    est_model_predict(m, "score", score);
    if (mode == EST_PREDICT) return est_model_status(m);
    loss = est_mean(est_square(est_sub(score, est_model_label(m, "y"))));
    est_model_loss(m, loss);
    if (mode != EST_TRAIN) return est_model_status(m);
    step = est_minimize(est_adam(0.05, EST_ADAM(.lazy = true)), loss, NULL);
    if (j->way == WAY_OWN_UPDATE) {
        est_node seen = est_weight(loss.graph, "seen", EST_SHAPE(1), EST_WEIGHT(.frozen = true));

        step = est_group(
            loss.graph,
            EST_NODES(step, est_assign_add(seen, est_reshape(est_sum(est_model_feature(m, "x")), EST_I64S(1)))));
    }
    est_model_train_op(m, step);
    return est_model_status(m);
}

/* --- a worker ----------------------------------------------------------------------------------------------------- */

/* argv: the model directory, the way. */
static int task(int argc, char **argv)
{
    est_columns      *columns   = est_columns_create();
    const est_column *words     = est_hash_bucket_column(columns, "words", 20, NULL);
    job               j         = { .way      = (way)strtol(argv[1], NULL, 10),
                                    .linear   = words,
                                    .embedded = est_embedding_column(words, 4, NULL),
                                    .keyed    = est_dynamic_embedding_column(columns, "words", EST_STRING, 3, NULL) };
    est_hook          shows     = EST_HOOK(.end = multi_worker_show);
    est_strategy     *strategy  = NULL;
    est_estimator    *estimator = NULL;
    est_status        status;

    assert_int_equal(argc, 2);
    status = est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.rejoin_secs = 20, .timeout_secs = 20),
                                                &strategy);
    if (status == EST_OK) {
        status = est_estimator_create(model_fn,
                                      EST_ESTIMATOR(.params = &j, .params_size = sizeof j, .model_dir = argv[0],
                                                    .config = EST_RUN_CONFIG(.seed = 3, .train_distribute = strategy,
                                                                             .session_creation_timeout_secs = 30,
                                                                             .max_worker_delay_secs         = EST_OFF)),
                                      &estimator);
    }
    if (status == EST_OK) {
        status = est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = input, .hooks = EST_HOOKS(&shows)));
    }
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    est_estimator_free(estimator);
    est_columns_free(columns);
    est_strategy_free(strategy);
    return status != EST_OK;
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void test_idle(void **state)
{
    const scene *s = *state;
    cluster      c = cluster_make(1, 1, 0, 0);
    char         text[8];

    snprintf(text, sizeof text, "%d", (int)(s - scenes));
    CLUSTER_SET(&c, text);
    cluster_start_all(&c);
    cluster_wait_all(&c, 30);
    multi_worker_check_shown(&c, "chief", STEPS, s->variables);
    multi_worker_end(&c, STEPS);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, task);
    for (int i = 0; i < N_WAYS; i++) est_test_row(scenes[i].name, test_idle, &scenes[i]);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return est_test_run(NULL, NULL);
}
