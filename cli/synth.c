/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc synth`: synthetic click data as files, from a planted model (synth_model.h) whose best possible AUC is known. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "command.h"
#include "estoc/example.h"
#include "estoc/tfrecord.h"
#include "files.h"
#include "format/number.h"
#include "output.h"
#include "synth_model.h"

#define ROWS_DEFAULT        100000
#define SEED_DEFAULT        1
#define CARDINALITY_DEFAULT "10,100,1000,10000,100000"
#define ZIPF_DEFAULT        1.1
#define POSITIVE_DEFAULT    0.25
#define POSITIVE_MIN        0.001
#define SHARD_BUFFER        ((size_t)64 << 10)
#define ROW_MAX             2048 /* bytes of a row in either format */
#define PROGRESS_ROWS       65536
#define EXAMPLE_TAG         0x0a /* of the map of features */

enum { TO_CSV, TO_TFRECORD };

static const char *const format_names[] = { "csv", "tfrecord", NULL };

enum {
    OPTION_ROWS = TOOL_OPTION_OWN,
    OPTION_SEED,
    OPTION_FORMAT,
    OPTION_SHARDS,
    OPTION_CARDINALITY,
    OPTION_ZIPF,
    OPTION_POSITIVE,
    OPTION_WITH_PROBABILITY
};

/* clang-format off */
static const tool_option options[] = {
    { "output",           'o',                     "FILE",     "the file to write; required" },
    { "rows",             OPTION_ROWS,             "N",        "how many rows; default: 100000" },
    { "seed",             OPTION_SEED,             "N",        "another one gives another model and other rows;\n"
                                                               "default: 1" },
    { "format",           OPTION_FORMAT,           "FORMAT",   "csv or tfrecord; default: csv for a name that ends\n"
                                                               "in .csv, else tfrecord", format_names },
    { "shards",           OPTION_SHARDS,           "N",        TOOL_SHARDS_HELP },
    { "cardinality",      OPTION_CARDINALITY,      "N,...",    "categories of C1, C2 and so on, beginning anew after\n"
                                                               "the last; default: " CARDINALITY_DEFAULT },
    { "zipf",             OPTION_ZIPF,             "EXPONENT", "how uneven they are: the k-th most frequent one comes\n"
                                                               "in proportion to k^-EXPONENT; default: 1.1" },
    { "positive",         OPTION_POSITIVE,         "RATE",     "which part of the rows are clicks, about;\n"
                                                               "default: 0.25" },
    { "with-probability", OPTION_WITH_PROBABILITY, NULL,       "add the true probability of a click as p_true; for\n"
                                                               "checking only: it is no feature to train on" },
    TOOL_COMMON_OPTIONS
};
/* clang-format on */

#define N_FEATURES (1 + SYNTH_NUMERIC + SYNTH_CATEGORICAL + 1)

typedef enum feature_kind { LABEL, NUMERIC, CATEGORICAL, P_TRUE } feature_kind;

/* A feature as bytes of an Example: an entry of its map, with the value at the end. */
typedef struct feature {
    char         name[8];
    feature_kind kind;
    int          k; /* which of its kind */
    uint8_t      entry[32];
    size_t       entry_size;
} feature;

/* Of one file; only one of the two is used. */
typedef struct synth_writer {
    est_tfrecord_writer *records;
    int                  fd;   /* CSV; -1: not open */
    est_strbuf           text; /* not written yet */
} synth_writer;

typedef struct synth_job {
    const char   *out, *cardinality;
    int64_t       n_rows, n_shards;
    int           format; /* -1: what the name says */
    bool          with_probability, json, progress;
    synth_options options;

    synth_model  *model;
    tool_files    files;
    synth_writer *writers;
    feature       features[N_FEATURES]; /* in the order of a row of CSV; for Examples in that of their names */
    int           n_features;
    uint64_t (*counts)[2]; /* of each probability: rows that are no clicks, clicks */
    uint64_t n_positive;
} synth_job;

/* --- rows as Examples ------------------------------------------------------------------------------------------- */

/* An entry has the same size whatever its value is. So each is made once; a row copies it and puts its value in. */
static est_status make_entry(feature *f, est_example *example)
{
    est_str bytes;

    switch (f->kind) {
    case LABEL: est_example_set_i64s(example, f->name, &(int64_t){ 0 }, 1); break;
    case NUMERIC:
    case P_TRUE: est_example_set_f32s(example, f->name, &(float){ 0 }, 1); break;
    case CATEGORICAL: est_example_set_bytes(example, f->name, &(est_str){ "00000000", 8 }, 1); break;
    }
    EST_TRY(est_example_serialize(example, &bytes));
    f->entry_size = bytes.size - 2; /* without the tag and the size of the map */
    memcpy(f->entry, bytes.data + 2, f->entry_size);
    est_example_reset(example);
    return EST_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const feature *)a)->name, ((const feature *)b)->name);
}

static est_status make_entries(synth_job *job)
{
    est_example *example;
    est_status   status = est_example_create(&example);

    EST_TRY(status);
    qsort(job->features, (size_t)job->n_features, sizeof job->features[0], compare_names); /* as est_example does */
    for (int i = 0; i < job->n_features && status == EST_OK; i++) status = make_entry(&job->features[i], example);
    est_example_free(example);
    return status;
}

static uint8_t *put_entry(uint8_t *to, const feature *f, const void *value, size_t size)
{
    memcpy(to, f->entry, sizeof f->entry); /* all of it is faster, and what is too much will be written over */
    memcpy(to + f->entry_size - size, value, size);
    return to + f->entry_size;
}

static uint8_t *put_f32(uint8_t *to, const feature *f, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return put_entry(to, f, (const uint8_t[]){ bits & 255, bits >> 8 & 255, bits >> 16 & 255, bits >> 24 }, 4);
}

static void put_hex(uint32_t value, char out[8])
{
    for (int i = 7; i >= 0; i--, value >>= 4) out[i] = "0123456789abcdef"[value & 15];
}

static uint8_t *put_feature(uint8_t *to, const feature *f, const synth_row *row)
{
    char hex[8];

    switch (f->kind) {
    case LABEL: return put_entry(to, f, &(uint8_t){ row->label }, 1);
    case P_TRUE: return put_f32(to, f, (float)row->probability / SYNTH_P_ONE);
    case NUMERIC: return row->numeric[f->k] < 0 ? to : put_f32(to, f, (float)row->numeric[f->k]);
    case CATEGORICAL:
        if (row->missing >> f->k & 1) return to;
        put_hex(row->category[f->k], hex);
        return put_entry(to, f, hex, sizeof hex);
    }
    return to;
}

static est_status write_example(const synth_job *job, synth_writer *to, const synth_row *row)
{
    uint8_t  bytes[ROW_MAX];
    uint8_t *begin = bytes + 3, *end = begin; /* room for the tag and the size, which has two bytes or one */
    size_t   size;

    for (int i = 0; i < job->n_features; i++) end = put_feature(end, &job->features[i], row);
    size = (size_t)(end - begin);
    if (size >= 128) *--begin = (uint8_t)(size >> 7);
    *--begin = (uint8_t)(size >= 128 ? size | 128 : size);
    *--begin = EXAMPLE_TAG;
    return est_tfrecord_write(to->records, begin, (size_t)(end - begin));
}

/* --- rows as CSV ------------------------------------------------------------------------------------------------ */

static est_status flush_text(synth_writer *to, const char *path)
{
    EST_TRY(est_strbuf_status(&to->text));
    EST_TRY(est_file_write_all(to->fd, path, est_strbuf_text(&to->text), to->text.size));
    est_strbuf_reset(&to->text);
    return EST_OK;
}

static void append_count(est_strbuf *to, int32_t value)
{
    char digits[12];
    int  at = sizeof digits;

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    est_strbuf_append_bytes(to, digits + at, sizeof digits - (size_t)at);
}

/* A multiple of 2^-20 has at most 20 digits behind the point, and all of them are written. */
static void append_probability(est_strbuf *to, uint32_t p)
{
    char digits[2 + SYNTH_P_BITS] = "0.";
    int  n                        = 2;

    for (uint64_t rest = p; rest > 0; rest &= SYNTH_P_ONE - 1) {
        rest *= 10;
        digits[n++] = (char)('0' + (rest >> SYNTH_P_BITS));
    }
    est_strbuf_append_bytes(to, digits, (size_t)n);
}

static void append_field(est_strbuf *to, const feature *f, const synth_row *row)
{
    char hex[8];

    switch (f->kind) {
    case LABEL: append_count(to, row->label); break;
    case P_TRUE: append_probability(to, row->probability); break;
    case NUMERIC:
        if (row->numeric[f->k] >= 0) append_count(to, row->numeric[f->k]);
        break;
    case CATEGORICAL:
        if (row->missing >> f->k & 1) break;
        put_hex(row->category[f->k], hex);
        est_strbuf_append_bytes(to, hex, sizeof hex);
        break;
    }
}

static est_status write_line(const synth_job *job, synth_writer *to, const char *path, const synth_row *row)
{
    for (int i = 0; i < job->n_features; i++) {
        if (i > 0) est_strbuf_append_bytes(&to->text, ",", 1);
        append_field(&to->text, &job->features[i], row);
    }
    est_strbuf_append_bytes(&to->text, "\n", 1);
    return to->text.size < SHARD_BUFFER ? EST_OK : flush_text(to, path);
}

static void append_header(const synth_job *job, est_strbuf *to)
{
    for (int i = 0; i < job->n_features; i++) est_strbuf_printf(to, "%s%s", i > 0 ? "," : "", job->features[i].name);
    est_strbuf_append(to, "\n");
}

/* --- files ------------------------------------------------------------------------------------------------------ */

static est_status open_csv(const synth_job *job, synth_writer *to, const char *path)
{
    to->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (to->fd < 0) return est_fail(est_status_from_errno(errno), "%s: cannot be created: %s", path, strerror(errno));
    append_header(job, &to->text);
    return EST_OK;
}

static est_status open_files(synth_job *job)
{
    size_t buffer = job->files.n > 1 ? SHARD_BUFFER : 0;

    job->writers = est_zalloc((size_t)job->files.n * sizeof *job->writers);
    if (job->writers == NULL) {
        return est_no_memory();
    }
    for (int i = 0; i < job->files.n; i++) job->writers[i].fd = -1;
    for (int i = 0; i < job->files.n; i++) {
        const char *path = job->files.list[i].temp;

        if (job->format == TO_CSV) {
            EST_TRY(open_csv(job, &job->writers[i], path));
        } else {
            EST_TRY(est_tfrecord_create(path, EST_TFRECORD_WRITE(.buffer_bytes = buffer), &job->writers[i].records));
        }
    }
    return job->format == TO_TFRECORD ? make_entries(job) : EST_OK;
}

static est_status finish_csv(synth_writer *to, const char *path)
{
    int fd = to->fd;

    EST_TRY(flush_text(to, path));
    to->fd = -1;
    if (close(fd) != 0) return est_fail(est_status_from_errno(errno), "%s: %s", path, strerror(errno));
    return EST_OK;
}

static est_status finish_files(synth_job *job)
{
    for (int i = 0; i < job->files.n; i++) {
        synth_writer        *to      = &job->writers[i];
        est_tfrecord_writer *records = to->records;

        to->records = NULL;
        if (job->format == TO_CSV) {
            EST_TRY(finish_csv(to, job->files.list[i].temp));
        } else {
            EST_TRY(est_tfrecord_finish(records));
        }
    }
    return tool_files_commit(&job->files);
}

static void close_files(synth_job *job)
{
    for (int i = 0; job->writers != NULL && i < job->files.n; i++) {
        synth_writer *to = &job->writers[i];

        est_tfrecord_abandon(to->records);
        if (to->fd >= 0) close(to->fd);
        est_strbuf_clear(&to->text);
    }
    est_free(job->writers);
    tool_files_close(&job->files);
}

/* --- the report ------------------------------------------------------------------------------------------------- */

/* The part of all pairs of a click and another row of which the click has the higher probability; a tie is half a pair.
 * Counts are whole numbers, so it is exact but for the last division. NaN without both kinds. */
static double auc(const synth_job *job)
{
    __extension__ typedef unsigned __int128 wide;
    wide                                    twice = 0;
    uint64_t                                below = 0, n_negative = (uint64_t)job->n_rows - job->n_positive;

    for (uint32_t p = 0; p < SYNTH_P_ONE; p++) {
        twice += (wide)job->counts[p][1] * (2 * below + job->counts[p][0]);
        below += job->counts[p][0];
    }
    return (double)twice / (2 * (double)job->n_positive * (double)n_negative);
}

static est_status report(const synth_job *job)
{
    bool       has_auc = job->n_positive > 0 && job->n_positive < (uint64_t)job->n_rows;
    est_strbuf line    = { 0 };
    est_status status;

    if (job->json) {
        est_strbuf_printf(&line, "{\"synthetic\": true, \"rows\": %" PRId64 ", \"positive\": %" PRIu64 ", \"auc\": ",
                          job->n_rows, job->n_positive);
        if (has_auc) tool_append_json_f64(&line, auc(job));
        est_strbuf_append(&line, has_auc ? ", \"files\": " : "null, \"files\": ");
        tool_files_append_json(&job->files, &line);
        est_strbuf_append(&line, "}\n");
    } else {
        est_strbuf_printf(&line, "%" PRId64 " synthetic rows, %" PRIu64 " of them clicks, in ", job->n_rows,
                          job->n_positive);
        tool_files_append_text(&job->files, &line);
        if (has_auc) {
            est_strbuf_printf(&line,
                              "\nAUC of the true probabilities on them: %.6f; no model can be expected to do better",
                              auc(job));
        }
        est_strbuf_append(&line, "\n");
    }
    status = tool_write(&line);
    est_strbuf_clear(&line);
    return status;
}

/* --- the command ------------------------------------------------------------------------------------------------ */

static est_status write_rows(synth_job *job)
{
    for (int64_t i = 0; i < job->n_rows; i++) {
        int           shard = (int)(i % job->files.n);
        synth_writer *to    = &job->writers[shard];
        synth_row     row;

        synth_model_draw(job->model, (uint64_t)i, &row);
        job->counts[row.probability][row.label]++;
        job->n_positive += row.label;
        if (job->format == TO_CSV) {
            EST_TRY(write_line(job, to, job->files.list[shard].temp, &row));
        } else {
            EST_TRY(write_example(job, to, &row));
        }
        if (job->progress && (i + 1) % PROGRESS_ROWS == 0) fprintf(stderr, "\r%" PRId64 " rows", i + 1);
    }
    if (job->progress && job->n_rows >= PROGRESS_ROWS) fprintf(stderr, "\r%" PRId64 " rows\n", job->n_rows);
    return EST_OK;
}

static est_status synthesize(synth_job *job)
{
    job->counts = est_zalloc(SYNTH_P_ONE * sizeof *job->counts);
    if (job->counts == NULL) return est_no_memory();
    EST_TRY(synth_model_create(&job->options, &job->model));
    EST_TRY(open_files(job));
    EST_TRY(write_rows(job));
    EST_TRY(finish_files(job));
    return report(job);
}

static void list_features(synth_job *job)
{
    static const struct {
        const char  *name;
        feature_kind kind;
        int          n;
    } lists[] = { { "label", LABEL, 1 },
                  { "I", NUMERIC, SYNTH_NUMERIC },
                  { "C", CATEGORICAL, SYNTH_CATEGORICAL },
                  { "p_true", P_TRUE, 1 } };

    for (int l = 0; l < (job->with_probability ? 4 : 3); l++) {
        for (int k = 0; k < lists[l].n; k++) {
            feature *f = &job->features[job->n_features++];

            *f = (feature){ .kind = lists[l].kind, .k = k };
            snprintf(f->name, sizeof f->name, lists[l].n > 1 ? "%s%d" : "%s", lists[l].name, k + 1);
        }
    }
}

static bool bad_cardinality(const char *text)
{
    tool_usage(&tool_synth, "--cardinality takes whole numbers from 1 to %d with commas between them, not \"%s\"",
               SYNTH_CARDINALITY_MAX, text);
    return false;
}

/* Reads "10,100,1e6"; columns beyond the last number begin anew. */
static bool read_cardinality(const char *text, uint32_t out[SYNTH_CATEGORICAL])
{
    const char *at = text;
    int         n  = 0;

    for (;; at++) {
        size_t size = strcspn(at, ",");
        double value;

        if (est_number_f64(at, size, &value) != EST_NUMBER_OK) return bad_cardinality(text);
        if (!(value >= 1 && value <= SYNTH_CARDINALITY_MAX && value == (double)(uint32_t)value)) {
            return bad_cardinality(text);
        }
        if (n == SYNTH_CATEGORICAL) {
            tool_usage(&tool_synth, "--cardinality has more than %d numbers", SYNTH_CATEGORICAL);
            return false;
        }
        out[n++] = (uint32_t)value;
        at += size;
        if (*at == '\0') break;
    }
    for (int k = n; k < SYNTH_CATEGORICAL; k++) out[k] = out[k - n];
    return true;
}

static bool read_number(const char *option, const char *text, double low, double high, double *out)
{
    if (est_number_f64(text, strlen(text), out) == EST_NUMBER_OK && *out >= low && *out <= high) return true;
    tool_usage(&tool_synth, "--%s takes a number from %g to %g, not \"%s\"", option, low, high, text);
    return false;
}

/* False when the value is wrong, which has been said then. */
static bool read_option(synth_job *job, int id, const char *value)
{
    int64_t seed;

    switch (id) {
    case 'o': job->out = value; return true;
    case OPTION_ROWS: return tool_count(&tool_synth, "rows", value, &job->n_rows);
    case OPTION_SEED:
        if (!tool_count(&tool_synth, "seed", value, &seed)) return false;
        job->options.seed = (uint64_t)seed;
        return true;
    case OPTION_FORMAT: job->format = tool_option_choice(&tool_synth, id, value); return job->format >= 0;
    case OPTION_SHARDS: return tool_shards(&tool_synth, value, &job->n_shards);
    case OPTION_CARDINALITY: return read_cardinality(value, job->options.cardinality);
    case OPTION_ZIPF: return read_number("zipf", value, 0, SYNTH_ZIPF_MAX, &job->options.zipf);
    case OPTION_POSITIVE: return read_number("positive", value, POSITIVE_MIN, 1 - POSITIVE_MIN, &job->options.positive);
    case OPTION_WITH_PROBABILITY: job->with_probability = true; return true;
    default: job->json = true; return true;
    }
}

static tool_exit check_job(synth_job *job, int n_arguments)
{
    size_t     size;
    est_status status;

    if (n_arguments > 0) return tool_usage(&tool_synth, "it takes no arguments, and %d are given", n_arguments);
    if (job->out == NULL) return tool_usage(&tool_synth, "where to? --output is missing");
    size = strlen(job->out);
    if (job->format < 0) {
        job->format = size >= 4 && strcmp(job->out + size - 4, ".csv") == 0 ? TO_CSV : TO_TFRECORD;
    }
    status = tool_files_name(&job->files, job->out, job->n_shards, NULL, 0);
    if (status == EST_INVALID_ARGUMENT) return tool_usage(&tool_synth, "%s", est_error_message());
    return status == EST_OK ? TOOL_OK : tool_failed(&tool_synth, status);
}

static tool_exit run(int argc, char **argv)
{
    synth_job   job = { .n_rows   = ROWS_DEFAULT,
                        .format   = -1,
                        .progress = isatty(STDERR_FILENO),
                        .options  = { .seed = SEED_DEFAULT, .zipf = ZIPF_DEFAULT, .positive = POSITIVE_DEFAULT } };
    const char *value;
    tool_exit   code;
    int         id;

    if (!read_cardinality(CARDINALITY_DEFAULT, job.options.cardinality)) return TOOL_USAGE;
    while ((id = tool_next_option(&tool_synth, argc, argv, &value)) != TOOL_OPTION_END) {
        if (id == TOOL_OPTION_HELP || id == TOOL_OPTION_BAD) return tool_other_option(&tool_synth, id);
        if (!read_option(&job, id, value)) return TOOL_USAGE;
    }
    list_features(&job);
    code = check_job(&job, argc - optind);
    if (code == TOOL_OK) {
        est_status status;

        tool_files_catch_signals(&job.files, &tool_synth, job.progress);
        status = synthesize(&job);
        if (status != EST_OK) code = tool_failed(&tool_synth, status);
    }
    close_files(&job);
    synth_model_free(job.model);
    est_free(job.counts);
    return code;
}

const tool_command tool_synth = {
    .name      = "synth",
    .summary   = "make synthetic click data whose best possible AUC is known",
    .arguments = "[options] -o FILE",
    .description =
        "Writes labelled rows in the layout of click logs. None of it is real: label is 0 or 1, I1 to I13 are\n"
        "counts, some of them missing, C1 to C26 are categories of 8 hexadecimal digits, a few of them missing.\n"
        "A click is drawn with a probability that a planted logistic model says, made from the seed: slopes of\n"
        "the logarithms of the counts, a weight of every category, weights of pairs of groups of categories. The\n"
        "AUC of these true probabilities on the rows written is reported: no model can be expected to pass it.\n"
        "With --shards some files can be kept for evaluation; they have other rows of the same model.\n"
        "\n"
        "An Example has label as int64, I as float and C as bytes; what is missing is absent. CSV has a header,\n"
        "and what is missing is empty.\n"
        "\n"
        "The same options give the same bytes on every machine. A row does not depend on --rows or --shards; row i\n"
        "is in file i modulo N. Files get their names when all are complete.\n",
    .options  = options,
    .examples = "  estoc synth -o clicks.tfrecord --rows 1000000 --shards 8\n"
                "  estoc synth -o clicks.csv --rows 1000 --with-probability\n"
                "  estoc synth -o clicks.tfrecord --cardinality 100,1e6 --zipf 1.5 --positive 0.03 --seed 7\n",
    .takes    = TOOL_TAKES_NOTHING,
    .run      = run,
};
