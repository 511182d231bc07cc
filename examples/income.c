/* SPDX-License-Identifier: Apache-2.0
 *
 * Structured data from CSV files, all of it: columns of numbers and of words, a vocabulary file, a model of one's own,
 * early stopping, an export of the best model, and predictions. Tells from age, hours and job who earns much.
 *
 *   income [--model-dir DIR] DATA-DIR
 *
 * DATA-DIR has train.csv, test.csv and jobs.txt (a job a line); people are made up and written there when train.csv is
 * missing. Put your own files there and change `columns` and income_model to what is in them. */
#include <estoc/estoc.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BATCH_SIZE  64
#define MAX_STEPS   20000 /* it stops long before */
#define EVAL_STEPS  200   /* between evaluations */
#define PATIENCE    1000  /* steps without a higher accuracy */
#define NEW_JOBS    4     /* ids that jobs share which the vocabulary has not */
#define JOB_WIDTH   4
#define SHUFFLE     5000
#define TRAIN_ROWS  20000
#define TEST_ROWS   2000
#define PREDICTIONS 3 /* printed */

/* What model_fn and input_fn are told. */
typedef struct settings {
    char    train[256], test[256], jobs[256];
    int64_t n_jobs;
} settings;

/* --- people ------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    double      pay;
} jobs[] = { { "baker", -0.5 }, { "surgeon", 1.5 }, { "clerk", -0.25 }, { "pilot", 1 }, { "gardener", -1 } };

#define N_JOBS (sizeof jobs / sizeof jobs[0])

/* Numbers in [0, 1) that look random and are always the same. */
static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005 + 1442695040888963407;
    return (double)(*state >> 33) / 2147483648.0;
}

static bool write_people(const char *path, int n, uint64_t seed)
{
    FILE *file = fopen(path, "w");

    if (file == NULL) return false;
    fprintf(file, "age,job,hours,rich\n");
    for (int i = 0; i < n; i++) {
        double age = 18 + 50 * uniform(&seed), hours = 20 + 40 * uniform(&seed), noise = uniform(&seed) - 0.5;
        size_t job  = (size_t)(N_JOBS * uniform(&seed));
        double luck = jobs[job].pay + (hours - 40) / 20 - (age - 45) * (age - 45) / 800 + noise;

        fprintf(file, "%.0f,%s,%.1f,%d\n", age, jobs[job].name, hours, luck > 0);
    }
    return fclose(file) == 0;
}

static bool write_jobs(const char *path)
{
    FILE *file = fopen(path, "w");

    if (file == NULL) return false;
    for (size_t i = 0; i < N_JOBS; i++) fprintf(file, "%s\n", jobs[i].name);
    return fclose(file) == 0;
}

static est_status find_data(const char *dir, settings *s)
{
    FILE *file;

    snprintf(s->train, sizeof s->train, "%s/train.csv", dir);
    snprintf(s->test, sizeof s->test, "%s/test.csv", dir);
    snprintf(s->jobs, sizeof s->jobs, "%s/jobs.txt", dir);
    file = fopen(s->train, "r");
    if (file != NULL) {
        fclose(file);
    } else if (!write_jobs(s->jobs) || !write_people(s->test, TEST_ROWS, 2) || !write_people(s->train, TRAIN_ROWS, 1)) {
        return est_fail(EST_NOT_FOUND, "%s: cannot write made up people there; is it a directory?", dir);
    }
    return est_vocabulary_count(s->jobs, &s->n_jobs); /* how many rows an embedding of jobs needs */
}

/* --- input -------------------------------------------------------------------------------------------------------- */

static est_status income_input(const est_input_context *ctx, void *user, est_dataset **out)
{
    const settings       *s       = ctx->params;
    const est_csv_columns columns = EST_CSV_COLUMNS({ .name = "age", .dtype = EST_F32 },
        { .name = "hours", .dtype = EST_F32, .default_text = "40" }, { .name = "job", .dtype = EST_STRING },
        { .name = "rich", .dtype = EST_I64, .required = true });
    est_dataset          *d       = est_dataset_files(ctx->mode == EST_TRAIN ? s->train : s->test);

    (void)user;
    d = est_dataset_lines(d, EST_LINES(.skip = 1)); /* the header, which is read apart from the rows */
    if (ctx->mode == EST_TRAIN) {
        d = est_dataset_shuffle(d, SHUFFLE, ctx->seed);
        d = est_dataset_repeat(d, EST_FOREVER);
    }
    d = est_dataset_decode_csv(d, columns, EST_CSV(.header = true), BATCH_SIZE, EST_PARSE(.bad_rows_max = 100));
    d = est_dataset_prefetch(d, 2);
    return est_dataset_finish(d, out);
}

/* --- model -------------------------------------------------------------------------------------------------------- */

/* A column of numbers as [batch, 1], moved to about -1 .. 1. */
static est_node scaled(est_model *m, const char *name, double middle, double width)
{
    est_node x = est_expand_dims(est_model_feature(m, name), -1);

    return est_scale(est_sub(x, est_scalar(est_model_graph(m), EST_F32, middle)), 1 / width);
}

static est_status income_model(est_model *m, est_mode mode, const void *params)
{
    const settings *s     = params;
    est_node        table = est_vocabulary_file(
               est_model_graph(m), s->jobs, EST_STRING, EST_TABLE(.num_oov_buckets = NEW_JOBS));
    est_node job    = est_lookup(table, est_model_feature(m, "job"));
    est_node person = est_concat(EST_NODES(scaled(m, "age", 40, 20), scaled(m, "hours", 40, 10),
                                     est_embedding(job, s->n_jobs + NEW_JOBS, JOB_WIDTH, NULL)),
        -1);
    est_node hidden = est_dense(person, 16, EST_DENSE(.activation = est_relu));
    est_node logit  = est_dense(hidden, 1, NULL);
    est_node rich   = est_sigmoid(logit);

    est_model_predict(m, "rich", rich);
    if (mode == EST_PREDICT) return est_model_status(m);

    est_node label = est_expand_dims(est_cast(est_model_label(m, "rich"), EST_F32), -1);
    est_node loss  = est_mean(est_sigmoid_xent(logit, label));
    est_model_loss(m, loss);
    est_model_metric(m, "accuracy", est_metric_accuracy_at_threshold(label, rich, 0.5, NULL));
    if (mode == EST_TRAIN) est_model_minimize(m, est_adam(0.002, NULL), loss);
    return est_model_status(m);
}

/* --- run ---------------------------------------------------------------------------------------------------------- */

static bool more_accurate(void *user, const est_metrics *best, const est_metrics *current)
{
    (void)user;
    return est_metrics_get(current, "accuracy") > est_metrics_get(best, "accuracy");
}

static est_status train(est_estimator *e)
{
    static const est_component served[] = { { .name = "age", .dtype = EST_F32 }, { .name = "hours", .dtype = EST_F32 },
        { .name = "job", .dtype = EST_STRING } }; /* what requests to the exported model have */
    est_hook                  *early;
    est_exporter              *best;
    est_metrics               *last = NULL;
    est_status                 status;

    /* One that could not be made is NULL, which est_train_and_evaluate refuses with the reason. */
    early  = est_stop_if_no_increase_hook("accuracy", PATIENCE, EST_EARLY_STOPPING(.run_every_steps = EVAL_STEPS));
    best   = est_best_exporter("best",
          EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { served, 3 } }), .compare = more_accurate));
    status = est_train_and_evaluate(e,
        EST_TRAIN_SPEC(.input_fn = income_input, .max_steps = MAX_STEPS, .hooks = EST_HOOKS(early)),
        EST_EVAL_SPEC(.input_fn = income_input, .steps = EST_FOREVER, .throttle_secs = EST_OFF,
            .exporters = EST_EXPORTERS(best)),
        &last);
    if (status == EST_OK && last != NULL) {
        printf("accuracy %.3f after %" PRId64 " steps\n", est_metrics_get(last, "accuracy"),
            est_metrics_global_step(last));
        printf("best model: %s\n", est_exporter_last_path(best));
    }
    est_metrics_free(last);
    est_exporter_free(best);
    est_hook_free(early);
    return status;
}

/* The first of the test file, one at a time. */
static est_status predict(est_estimator *e)
{
    est_predictions *people = NULL;
    est_status       status = est_predict(e, EST_PREDICT_OPTIONS(.input_fn = income_input), &people);

    for (int i = 0; i < PREDICTIONS && status == EST_OK; i++) {
        status = est_predictions_next(people); /* EST_OUT_OF_RANGE when there is no further one */
        if (status == EST_OK) {
            const float *rich = est_tensor_data(est_predictions_get(people, "rich"));

            printf("person %d earns much with probability %.2f\n", i + 1, (double)*rich);
        }
    }
    est_predictions_free(people);
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

/* In a cluster the tasks train or evaluate, and nobody wants the same predictions from each of them. */
static bool is_alone(const est_estimator *e)
{
    return est_cluster_jobs(est_estimator_task(e)->cluster) == 0;
}

int main(int argc, char **argv)
{
    const char    *model_dir = NULL; /* a new temporary directory */
    settings       s         = { .n_jobs = 0 };
    est_estimator *e         = NULL;
    est_status     status;

    if (argc == 4 && strcmp(argv[1], "--model-dir") == 0) {
        model_dir = argv[2];
    } else if (argc != 2) {
        fprintf(stderr, "usage: income [--model-dir DIR] DATA-DIR\n");
        return 2;
    }
    status = find_data(argv[argc - 1], &s);
    if (status == EST_OK) {
        status = est_estimator_create(income_model,
            EST_ESTIMATOR(.params = &s, .params_size = sizeof s,
                .config = EST_RUN_CONFIG(.model_dir = model_dir, .save_checkpoints_steps = EVAL_STEPS)),
            &e);
    }
    if (status == EST_OK) status = train(e);
    if (status == EST_OK && is_alone(e)) status = predict(e);
    if (status != EST_OK) fprintf(stderr, "income: %s: %s\n", est_status_name(status), est_error_message());
    est_estimator_free(e);
    return est_exit_code(status);
}
