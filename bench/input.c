/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast files and tensors become batches: one question a run, answered in turns (bench/support/turns.h).
 *
 *   input QUESTION [--folder FOLDER] [--threads N] [--turns N]     --turns 0: a turn for every line of standard input
 *
 * Questions: records, records_gz, examples, csv, census and shuffle; records_floor, which only reads the bytes of the
 * records and sums them up. The folder is what bench/input_files wrote; --threads says whether threads are worth
 * starting, and the caller binds the program to that many cores. */
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/random.h"
#include "estoc/dataset.h"
#include "support/bench.h"
#include "support/clicks.h"
#include "support/options.h"
#include "support/turns.h"

#define FIELDS_MAX     64
#define BLOCK          32 /* records from a file at a time: less than what its thread reads ahead */
#define CHUNK          ((size_t)1 << 20)
#define N_IMAGES       60000
#define N_PIXELS       784
#define IMAGE_BATCH    64
#define IMAGE_BUFFER   10000
#define N_CENSUS       15
#define CENSUS_NUMBERS 0x1c15u /* a bit for each field that is a number */

typedef struct options {
    const char *question, *folder;
    int         threads, turns;
} options;

/* --- the pipelines ------------------------------------------------------------------------------------------------ */

static est_dataset *files(const options *o, const char *pattern)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s", o->folder, pattern);
    return est_dataset_files(path);
}

static est_dataset *records_of(const options *o, const char *pattern)
{
    est_dataset *paths = files(o, pattern);

    if (o->threads == 1) return est_dataset_tfrecords(paths, NULL);
    return est_dataset_tfrecords(paths, EST_INTERLEAVE(.cycle = o->threads, .block = BLOCK, .workers = 1));
}

static est_dataset *read_records(const options *o)
{
    return records_of(o, "records-*.tfrecord");
}

static est_dataset *read_records_gz(const options *o)
{
    return records_of(o, "records-*.tfrecord.gz");
}

static const est_parse_options *parsing(const options *o)
{
    static est_parse_options parse;

    parse = *EST_PARSE(.workers = o->threads > 1 ? EST_AUTO : 0);
    return &parse;
}

static est_dataset *parse_examples(const options *o)
{
    est_feature_spec specs[CLICKS_N_ALL] = { 0 };
    est_tensor      *zero = NULL, *no_word = NULL;
    est_dataset     *d;

    bench_check(est_tensor_f32((est_shape){ 0 }, &(float){ 0 }, &zero));
    bench_check(est_tensor_string("", 0, &no_word));
    for (int k = 0; k < CLICKS_N_ALL; k++) {
        specs[k].name          = clicks_name(k);
        specs[k].dtype         = k <= CLICKS_N_NUM ? EST_F32 : EST_STRING;
        specs[k].default_value = k <= CLICKS_N_NUM ? zero : no_word;
    }
    d = est_dataset_tfrecords(files(o, "clicks-*.tfrecord"), NULL);
    d = est_dataset_parse_examples(d, (est_feature_specs){ specs, CLICKS_N_ALL }, CLICKS_BATCH, parsing(o));
    est_tensor_free(zero);
    est_tensor_free(no_word);
    return d;
}

static est_dataset *decode_csv(const options *o)
{
    est_csv_column columns[CLICKS_N_ALL] = { 0 };

    for (int k = 0; k < CLICKS_N_ALL; k++) {
        columns[k] = (est_csv_column){ .name = clicks_name(k), .dtype = k <= CLICKS_N_NUM ? EST_F32 : EST_STRING };
    }
    return est_dataset_csv(files(o, "clicks-*.csv"), (est_csv_columns){ columns, CLICKS_N_ALL }, NULL, CLICKS_BATCH,
                           parsing(o));
}

static est_dataset *decode_census(const options *o)
{
    est_csv_column columns[N_CENSUS];
    char           names[N_CENSUS][8];

    for (int k = 0; k < N_CENSUS; k++) {
        (void)snprintf(names[k], sizeof names[k], "f%d", k);
        columns[k] = (est_csv_column){ .name = names[k], .dtype = CENSUS_NUMBERS >> k & 1 ? EST_F32 : EST_STRING };
    }
    return est_dataset_csv(files(o, "census.csv"), (est_csv_columns){ columns, N_CENSUS }, EST_CSV(.trim = true),
                           CLICKS_BATCH, parsing(o));
}

static est_dataset *shuffle_images(const options *o)
{
    est_tensor  *images = NULL;
    est_dataset *d;

    bench_check(est_tensor_create(EST_F32, EST_SHAPE(N_IMAGES, N_PIXELS), &images));
    est_random_fill_uniform_f32(&(est_random){ 1, 0, 0 }, 0, est_tensor_count(images), est_tensor_mutable_data(images));
    d = est_dataset_slices(EST_NAMED_TENSORS({ "image", images }));
    est_tensor_free(images);
    d = est_dataset_shuffle(d, IMAGE_BUFFER, 1);
    d = est_dataset_batch(d, IMAGE_BATCH, NULL);
    return o->threads > 1 ? est_dataset_prefetch(d, 2) : d;
}

/* --- taking turns ------------------------------------------------------------------------------------------------- */

typedef struct question {
    const char *name;
    est_dataset *(*make)(const options *o);
    bool bytes; /* counts the bytes of strings, not rows */
} question;

static const question questions[] = {
    { "records", read_records, true }, { "records_gz", read_records_gz, true }, { "examples", parse_examples, false },
    { "csv", decode_csv, false },      { "census", decode_census, false },      { "shuffle", shuffle_images, false },
};

typedef struct pipeline {
    const question *asked;
    est_dataset    *dataset;
} pipeline;

static bench_turn run_pipeline(void *arg)
{
    const pipeline *p     = arg;
    est_iterator   *rows  = NULL;
    bench_turn      turn  = { 0 };
    double          start = bench_now_secs();
    int             n     = est_dataset_components(p->dataset);
    est_field       element[FIELDS_MAX];
    est_status      status;

    bench_check(est_iterator_create(p->dataset, &rows));
    while ((status = est_iterator_next(rows, element)) == EST_OK) {
        est_tensor *first = element[0].values;
        turn.amount += p->asked->bytes ? (double)((const est_str *)est_tensor_data(first))->size
                                       : (double)est_tensor_shape(first)->dim[0];
        est_element_clear(element, n);
    }
    if (status != EST_OUT_OF_RANGE) bench_check(status);
    est_iterator_free(rows);
    turn.secs = bench_now_secs() - start;
    return turn;
}

/* Reads every byte of the record files and sums it up, which no reader of TFRecord can do without. */
static bench_turn run_floor(void *arg)
{
    const options *o     = arg;
    char          *bytes = malloc(CHUNK);
    bench_turn     turn  = { 0 };
    double         start = bench_now_secs();
    uint32_t       crc   = 0;
    char           pattern[512];
    glob_t         found;

    (void)snprintf(pattern, sizeof pattern, "%s/records-*.tfrecord", o->folder);
    if (bytes == NULL || glob(pattern, 0, NULL, &found) != 0) {
        (void)fprintf(stderr, "input: no %s; run bench/input_files first\n", pattern);
        exit(1);
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        int     fd = open(found.gl_pathv[i], O_RDONLY | O_CLOEXEC);
        ssize_t n;
        while ((n = read(fd, bytes, CHUNK)) > 0) {
            crc = est_crc32c_extend(crc, bytes, (size_t)n);
            turn.amount += (double)n;
        }
        if (n < 0) {
            perror(found.gl_pathv[i]);
            exit(1);
        }
        (void)close(fd);
    }
    globfree(&found);
    free(bytes);
    turn.secs = bench_now_secs() - start;
    return turn;
}

static options parse_options(int argc, char **argv)
{
    options o = { .question = argc > 1 ? argv[1] : "", .folder = "build/input", .threads = 1, .turns = 5 };

    BENCH_OPTIONS(argc, argv, 2, { "--folder", BENCH_TO(&o.folder) }, { "--threads", BENCH_TO(&o.threads) },
                  { "--turns", BENCH_TO(&o.turns) });
    return o;
}

int main(int argc, char **argv)
{
    options o = parse_options(argc, argv);

    if (strcmp(o.question, "records_floor") == 0) {
        bench_take_turns(run_floor, &o, o.turns);
        return 0;
    }
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        pipeline p = { &questions[i], NULL };
        if (strcmp(o.question, questions[i].name) != 0) continue;
        bench_check(est_dataset_finish(questions[i].make(&o), &p.dataset));
        bench_take_turns(run_pipeline, &p, o.turns);
        est_dataset_free(p.dataset);
        return 0;
    }
    (void)fprintf(stderr, "input: no question \"%s\"; the top of bench/input.c lists them\n", o.question);
    return 2;
}
