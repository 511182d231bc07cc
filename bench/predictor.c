/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of a predictor: the canned wide & deep classifier on clicks (13 numbers, 26 words), a batch of serialized
 * Examples a call, with the plan alone beside it: the same nodes in a step of a session. bench/compare-predictor runs
 * it beside TensorFlow, which calls the same SavedModel.
 *
 *   predictor --write 1 [--folder FOLDER] [--hidden 64,32]     writes the model and the Examples
 *   predictor [--folder FOLDER] [--batch N] [--turns N] [--seconds S]
 *
 * A turn prints a line of JSON for each of the two: calls a second, and the 50th and 99th percentile of their times. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "estoc/canned.h"
#include "estoc/estoc.h"
#include "predict/saved_model.h"
#include "support/bench.h"
#include "support/clicks.h"
#include "support/options.h"
#include "support/turns.h"

#define N_EXAMPLES  1024
#define N_BUCKETS   10000
#define HIDDEN_MAX  8
#define CALLS_MAX   (1 << 20) /* whose times are kept */
#define SIGNATURE   "predict"
#define WARM_UP     20
#define EXPORT_PATH "%s/model"
#define ROWS_PATH   "%s/examples.tfrecord"

typedef struct job {
    const char *folder, *hidden;
    bool        write;
    int         turns;
    int64_t     batch;
    double      seconds;
    double     *times; /* [CALLS_MAX] */
} job;

static const char *path_of(const job *j, const char *format, char out[512])
{
    (void)snprintf(out, 512, format, j->folder);
    return out;
}

/* --- the model ---------------------------------------------------------------------------------------------------- */

static void write_examples(const char *path)
{
    est_tfrecord_writer *writer;
    est_example         *example;
    uint64_t             state = 1;

    bench_check(est_tfrecord_create(path, NULL, &writer));
    bench_check(est_example_create(&example));
    for (int i = 0; i < N_EXAMPLES; i++) {
        clicks_row row;
        est_str    bytes;

        clicks_next(&state, &row);
        est_example_reset(example);
        for (int k = 0; k < CLICKS_N_ALL; k++) {
            est_str text   = { row.text[k], strlen(row.text[k]) };
            float   number = strtof(row.text[k], NULL);
            int64_t label  = strtoll(row.text[k], NULL, 10);

            if (k > 0 && text.size == 0) continue;
            if (k == 0) est_example_set_i64s(example, clicks_name(k), &label, 1);
            if (k > 0 && k <= CLICKS_N_NUM) est_example_set_f32s(example, clicks_name(k), &number, 1);
            if (k > CLICKS_N_NUM) est_example_set_bytes(example, clicks_name(k), &text, 1);
        }
        bench_check(est_example_serialize(example, &bytes));
        bench_check(est_tfrecord_write(writer, bytes.data, bytes.size));
    }
    bench_check(est_tfrecord_finish(writer));
    est_example_free(example);
}

typedef struct training {
    const char     *path;
    est_parse_spec *parse;
} training;

static est_status input(const est_input_context *context, void *user, est_dataset **out)
{
    const training *t = user;
    est_dataset    *d = est_dataset_tfrecords(est_dataset_files(t->path), NULL);

    (void)context;
    return est_dataset_finish(est_dataset_parse_examples(d, est_parse_spec_features(t->parse), 256, NULL), out);
}

static int take_hidden(const char *list, int64_t *hidden)
{
    char *end = NULL;
    int   n   = 0;

    for (; n < HIDDEN_MAX && *list != '\0'; list = *end == ',' ? end + 1 : end) hidden[n++] = strtoll(list, &end, 10);
    return n;
}

/* Trains a few steps and exports. */
static void write_model(const job *j)
{
    static const float missing = 0;
    est_columns       *columns = est_columns_create();
    const est_column  *wide[CLICKS_N_ALL], *deep[CLICKS_N_ALL];
    int                n = 0;
    int64_t            hidden[HIDDEN_MAX];
    char               examples[512], model[512];
    training           t = { .path = path_of(j, ROWS_PATH, examples) };
    est_estimator     *e;
    est_parse_spec    *served;

    write_examples(t.path);
    for (int k = 0; k < CLICKS_N_NUM; k++, n++) {
        wide[n] = deep[n] = est_numeric_column(columns, clicks_name(1 + k),
                                               EST_NUMERIC(.default_value = { &missing, 1 }));
    }
    for (int k = 0; k < CLICKS_N_CAT; k++, n++) {
        wide[n] = est_hash_bucket_column(columns, clicks_name(1 + CLICKS_N_NUM + k), N_BUCKETS, NULL);
        deep[n] = est_embedding_column(wide[n], k % 2 == 1 ? 8 : 16, NULL);
    }
    bench_check(est_columns_status(columns));
    const est_canned_options *options = EST_CANNED(.linear_columns = { wide, n }, .dnn_columns = { deep, n },
                                                   .hidden_units = { hidden, take_hidden(j->hidden, hidden) },
                                                   .config = EST_RUN_CONFIG(.seed = 1, .threads = 1, .quiet = true));
    bench_check(est_classifier_parse_spec(options, &t.parse));
    bench_check(est_dnn_linear_combined_classifier(options, &e));
    bench_check(est_train(e, EST_TRAIN_OPTIONS(.input_fn = input, .input_user = &t)));
    bench_check(est_parse_spec_create((est_column_list){ deep, n }, &served));
    bench_check(est_export_saved_model(e, path_of(j, EXPORT_PATH, model),
                                       EST_EXPORT(.input.parse = est_parse_spec_features(served)), NULL));
    est_parse_spec_free(served);
    est_parse_spec_free(t.parse);
    est_estimator_free(e);
    est_columns_free(columns);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

static est_tensor *read_batch(const char *path, int64_t n)
{
    est_tfrecord_reader *reader;
    est_tensor          *out;
    est_str              record;

    bench_check(est_tfrecord_open(path, NULL, &reader));
    bench_check(est_tensor_create(EST_STRING, EST_SHAPE(n), &out));
    for (int64_t i = 0; i < n; i++) {
        bench_check(est_tfrecord_next(reader, &record));
        bench_check(est_tensor_set_string(out, i, record.data, record.size));
    }
    est_tfrecord_close(reader);
    return out;
}

typedef struct caller {
    const char     *name;
    est_prediction *prediction; /* NULL: the plan */
    est_step       *step;
    est_tensor     *examples;
} caller;

static void call(const caller *c)
{
    if (c->prediction != NULL) {
        bench_check(est_prediction_run(c->prediction, EST_NAMED_TENSORS({ "examples", c->examples })));
    } else {
        bench_check(est_step_run(c->step, (const est_tensor *const[]){ c->examples }));
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void take_turn(const job *j, const caller *c)
{
    double start = bench_now_secs(), before, now = start;
    size_t n = 0;

    while (n < CALLS_MAX && now - start < j->seconds) {
        before = now;
        call(c);
        now           = bench_now_secs();
        j->times[n++] = now - before;
    }
    qsort(j->times, n, sizeof *j->times, by_value);
    (void)printf("{\"name\":\"%s\",\"batch\":%lld,\"calls_per_sec\":%.1f,\"p50_us\":%.2f,\"p99_us\":%.2f}\n", c->name,
                 (long long)j->batch, (double)n / (now - start), 1e6 * j->times[n / 2], 1e6 * j->times[n * 99 / 100]);
    (void)fflush(stdout);
}

static void measure(const job *j)
{
    char                      path[512];
    est_saved_model          *model;
    est_predictor            *predictor;
    est_saved_signature_nodes nodes;
    caller                    callers[2] = { { .name = "predictor" }, { .name = "plan" } };
    double                    start      = bench_now_secs();

    bench_check(est_saved_model_load(path_of(j, EXPORT_PATH, path), EST_SAVED_MODEL(.threads = 1), &model));
    bench_check(est_predictor_create(model, SIGNATURE, NULL, &predictor));
    (void)printf("{\"load_secs\":%.4f}\n", bench_now_secs() - start);
    bench_check(est_prediction_create(predictor, &callers[0].prediction));
    bench_check(est_saved_model_find(model, SIGNATURE, &nodes));
    bench_check(est_session_prepare(est_saved_model_session(model), nodes.inputs, nodes.outputs, EST_NO_NODES,
                                    &callers[1].step));
    callers[0].examples = callers[1].examples = read_batch(path_of(j, ROWS_PATH, path), j->batch);
    for (int i = 0; i < WARM_UP; i++) call(&callers[i % 2]);
    for (int turn = 0; turn < 2 * j->turns; turn++) take_turn(j, &callers[turn % 2]);
    est_tensor_free(callers[0].examples);
    est_prediction_free(callers[0].prediction);
    est_predictor_free(predictor);
    est_saved_model_free(model);
}

int main(int argc, char **argv)
{
    job j = { .folder = "build/predictor", .hidden = "64,32", .turns = 3, .batch = 1, .seconds = 1 };

    BENCH_OPTIONS(argc, argv, 1, { "--folder", BENCH_TO(&j.folder) }, { "--hidden", BENCH_TO(&j.hidden) },
                  { "--batch", BENCH_TO(&j.batch) }, { "--turns", BENCH_TO(&j.turns) },
                  { "--seconds", BENCH_TO(&j.seconds) }, { "--write", BENCH_TO(&j.write) });
    if (j.write) {
        write_model(&j);
        return 0;
    }
    if (j.batch < 1 || j.batch > N_EXAMPLES) {
        (void)fprintf(stderr, "--batch takes 1 to %d\n", N_EXAMPLES);
        return 2;
    }
    j.times = est_alloc(CALLS_MAX * sizeof *j.times);
    if (j.times == NULL) return 1;
    measure(&j);
    est_free(j.times);
    return 0;
}
