/* SPDX-License-Identifier: Apache-2.0
 *
 * Film ratings from raw ids: users and movies are 64-bit numbers that nobody has listed or counted. Each gets a vector
 * when training has seen it twice, and a rating is the product of two of them, with what the user and the movie add on
 * their own.
 *
 *   movie_embeddings [--steps N] [--model-dir DIR]
 *
 * The ratings are made up, with a noise of half a star: no model can do better than an error of 0.5. Always guessing
 * the mean is what it has to beat. */
#include <estoc/estoc.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USERS      3000
#define MOVIES     1000
#define TASTES     4 /* that users have and movies serve */
#define WIDTH      9 /* of a vector: one number on its own, the others in the product */
#define BATCH_SIZE 256
#define TRAIN_ROWS 300000
#define EVAL_ROWS  20000 /* the ones after those */
#define MEAN       3.0

/* --- data --------------------------------------------------------------------------------------------------------- */

/* 64 bits that look random and are always the same for a number. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* Nearly normal, with a deviation of 1. */
static double normal(uint64_t seed)
{
    double sum = -6;

    for (uint64_t i = 0; i < 12; i++) sum += (double)(mix(seed + i * 0x9e3779b97f4a7c15) >> 11) / 9007199254740992.0;
    return sum;
}

/* Row number in; ids and rating out. Some users and movies are far more frequent than others. */
static void make_rating(int64_t row, int64_t *user, int64_t *movie, float *rating)
{
    double u = (double)(mix((uint64_t)row * 2 + 1) >> 11) / 9007199254740992.0;
    double m = (double)(mix((uint64_t)row * 2 + 2) >> 11) / 9007199254740992.0;
    double stars;

    *user  = (int64_t)mix((uint64_t)(u * u * USERS) + 1000000);
    *movie = (int64_t)mix((uint64_t)(m * m * MOVIES) + 2000000);
    stars  = MEAN + 0.4 * normal((uint64_t)*user) + 0.6 * normal((uint64_t)*movie) + 0.5 * normal((uint64_t)row + 7);
    for (uint64_t i = 1; i <= TASTES; i++) stars += 0.4 * normal((uint64_t)*user + i) * normal((uint64_t)*movie + i);
    *rating = (float)stars;
}

static est_status map_rating(void *user, const est_field *in, est_field *out)
{
    int64_t who, what;
    float   rating;

    (void)user;
    make_rating(*(const int64_t *)est_tensor_data(in[0].values), &who, &what, &rating);
    EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &who, &out[0].values));
    EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &what, &out[1].values));
    return est_tensor_f32(EST_SHAPE_SCALAR, &rating, &out[2].values);
}

static est_status read_ratings(const est_input_context *ctx, void *user, est_dataset **out)
{
    const est_component row[] = { { .name = "user", .dtype = EST_I64 }, { .name = "movie", .dtype = EST_I64 },
        { .name = "rating", .dtype = EST_F32 } };
    est_dataset        *d;

    (void)user;
    if (ctx->mode == EST_TRAIN) {
        d = est_dataset_repeat(est_dataset_range(0, TRAIN_ROWS, 1), EST_FOREVER);
    } else {
        d = est_dataset_range(TRAIN_ROWS, TRAIN_ROWS + EVAL_ROWS, 1);
    }
    d = est_dataset_map(d, map_rating, EST_MAP(.components = { row, 3 }, .workers = EST_AUTO));
    d = est_dataset_batch(d, BATCH_SIZE, NULL);
    return est_dataset_finish(est_dataset_prefetch(d, 2), out);
}

/* The error of always guessing the mean. */
static double error_of_the_mean(void)
{
    double sum = 0, squares = 0, mean;

    for (int64_t row = TRAIN_ROWS; row < TRAIN_ROWS + EVAL_ROWS; row++) {
        int64_t user, movie;
        float   rating;

        make_rating(row, &user, &movie, &rating);
        sum += rating;
        squares += (double)rating * rating;
    }
    mean = sum / EVAL_ROWS;
    return sqrt(squares / EVAL_ROWS - mean * mean);
}

/* --- model -------------------------------------------------------------------------------------------------------- */

typedef struct columns {
    const est_column *user, *movie;
} columns;

/* All of a vector but its first number. */
static est_node tastes(est_node x)
{
    return est_slice(x, EST_I64S(0, 1), EST_I64S(-1, WIDTH - 1));
}

static est_status ratings(est_model *m, est_mode mode, const void *params)
{
    const columns *c     = params;
    est_features   batch = est_model_features(m);
    est_node       user  = est_input_layer(batch, EST_COLUMN_LIST(c->user), EST_INPUT_LAYER(.name = "users"));
    est_node       movie = est_input_layer(batch, EST_COLUMN_LIST(c->movie), EST_INPUT_LAYER(.name = "movies"));
    est_node       mean  = est_weight(
               est_model_graph(m), "mean", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_constant(MEAN)));
    est_node both, own, rating, label, loss;

    both   = est_reduce_sum(est_mul(tastes(user), tastes(movie)), EST_I64S(1), false);
    own    = est_slice(est_add(user, movie), EST_I64S(0, 0), EST_I64S(-1, 1));
    rating = est_add(est_add(both, est_squeeze(own, EST_I64S(1))), est_read_variable(mean));
    est_model_predict(m, "rating", rating);
    if (mode == EST_PREDICT) return est_model_status(m);

    label = est_model_label(m, "rating");
    loss  = est_mean(est_square(est_sub(rating, label)));
    est_model_loss(m, loss);
    est_model_metric(m, "rmse", est_metric_root_mean_squared_error(label, rating, NULL));
    if (mode == EST_TRAIN) est_model_minimize(m, est_adam(0.01, EST_ADAM(.lazy = true)), loss);
    return est_model_status(m);
}

/* --- run ---------------------------------------------------------------------------------------------------------- */

static est_status train_and_evaluate(const columns *c, const char *model_dir, int64_t steps)
{
    est_estimator *estimator = NULL;
    est_metrics   *metrics   = NULL;
    est_status     status;

    status = est_estimator_create(
        ratings, EST_ESTIMATOR(.params = c, .params_size = sizeof *c, .model_dir = model_dir), &estimator);
    if (status == EST_OK)
        status = est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = read_ratings, .max_steps = steps));
    if (status == EST_OK) status = est_evaluate(estimator, EST_EVALUATE_OPTIONS(.input_fn = read_ratings), &metrics);
    if (status == EST_OK) {
        printf("rmse %.4f after %" PRId64 " steps; guessing the mean %.4f\n", est_metrics_get(metrics, "rmse"),
            est_metrics_global_step(metrics), error_of_the_mean());
    }
    est_metrics_free(metrics);
    est_estimator_free(estimator);
    return status;
}

int main(int argc, char **argv)
{
    const est_dynamic_options *options = EST_DYNAMIC(.admit_after = 2,
        .initializer                                              = est_init_truncated_normal(0, 0.1, 0));

    est_columns *set       = est_columns_create();
    const char  *model_dir = NULL; /* a new temporary directory */
    int64_t      steps     = 6000;
    columns      c;
    est_status   status;

    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--steps") == 0) {
            steps = strtol(argv[i + 1], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--model-dir") == 0) {
            model_dir = argv[i + 1];
        } else {
            steps = 0;
        }
    }
    if (steps < 1) {
        fprintf(stderr, "usage: movie_embeddings [--steps N] [--model-dir DIR]\n");
        est_columns_free(set);
        return 2;
    }
    c.user  = est_dynamic_embedding_column(set, "user", EST_I64, WIDTH, options);
    c.movie = est_dynamic_embedding_column(set, "movie", EST_I64, WIDTH, options);
    status  = train_and_evaluate(&c, model_dir, steps);
    if (status != EST_OK) fprintf(stderr, "movie_embeddings: %s: %s\n", est_status_name(status), est_error_message());
    est_columns_free(set);
    return est_exit_code(status);
}
