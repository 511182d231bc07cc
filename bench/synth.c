/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes synthetic click data as TFRecord files of Examples, in the layout of click logs: label is 0 or 1, I1 to I13
 * are counts, C1 to C26 are categories of 8 hexadecimal digits; a missing value is absent. A planted logistic model
 * (support/synth_model.h) draws the clicks, so the best AUC that a model can reach is known, and printed.
 *
 *   synth -o FILE [--rows 100000] [--shards N] [--seed 1] [--cardinality 10,100,1000,10000,100000] [--zipf 1.1]
 *         [--positive 0.25] [--with-probability]
 *
 * --shards writes row i to file i modulo N: x.tfrecord is x-00000-of-0000N.tfrecord and so on. --cardinality has the
 * number of categories of C1, C2, ..., and starts from the first again after the last. The k-th most frequent category
 * occurs in proportion to k^-zipf. --positive is the rate of clicks. --with-probability adds the true probability as
 * p_true, for checks; it is not a feature to train on.
 *
 * The same options give the same bytes on every machine; a row does not depend on --rows and --shards. */
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "estoc/example.h"
#include "estoc/tfrecord.h"
#include "format/number.h"
#include "support/synth_model.h"

#define SHARDS_MAX   10000
#define SHARD_BUFFER ((size_t)64 << 10)
#define POSITIVE_MIN 0.001

typedef struct synth {
    const char           *out;
    int64_t               n_rows, n_shards; /* n_shards 0: one file of the name itself */
    bool                  with_probability;
    synth_options         options;
    synth_model          *model;
    est_example          *example;
    est_tfrecord_writer **writers; /* [n_shards], or one */
    uint64_t (*counts)[2];         /* [SYNTH_P_ONE]: rows of each probability that are no clicks, and clicks */
    uint64_t n_positive;
} synth;

static void refuse(const char *fmt, ...) EST_PRINTF(1, 2);

static void refuse(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fputs("synth: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(2);
}

/* --- options ------------------------------------------------------------------------------------------------------ */

static double read_number(const char *option, const char *text, double low, double high)
{
    double value;

    if (est_number_f64(text, strlen(text), &value) == EST_NUMBER_OK && value >= low && value <= high) return value;
    refuse("--%s takes a number from %g to %g, not \"%s\"", option, low, high, text);
    return 0;
}

/* Reads "10,100,1e6". */
static void read_cardinality(const char *text, uint32_t out[SYNTH_CATEGORICAL])
{
    int n = 0;

    for (const char *at = text;; at++) {
        size_t size = strcspn(at, ",");
        double value;

        if (est_number_f64(at, size, &value) != EST_NUMBER_OK ||
            !(value >= 1 && value <= SYNTH_CARDINALITY_MAX && value == (double)(uint32_t)value) ||
            n == SYNTH_CATEGORICAL) {
            refuse("--cardinality takes up to %d whole numbers from 1 to %d with commas between them, not \"%s\"",
                   SYNTH_CATEGORICAL, SYNTH_CARDINALITY_MAX, text);
        }
        out[n++] = (uint32_t)value;
        at += size;
        if (*at == '\0') break;
    }
    for (int k = n; k < SYNTH_CATEGORICAL; k++) out[k] = out[k - n];
}

static void read_options(synth *s, int argc, char **argv)
{
    static const struct option options[] = { { "output", required_argument, NULL, 'o' },
                                             { "rows", required_argument, NULL, 'r' },
                                             { "shards", required_argument, NULL, 'n' },
                                             { "seed", required_argument, NULL, 's' },
                                             { "zipf", required_argument, NULL, 'z' },
                                             { "cardinality", required_argument, NULL, 'c' },
                                             { "positive", required_argument, NULL, 'p' },
                                             { "with-probability", no_argument, NULL, 't' },
                                             { NULL, 0, NULL, 0 } };
    int                        id;

    read_cardinality("10,100,1000,10000,100000", s->options.cardinality);
    while ((id = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
        switch (id) {
        case 'o': s->out = optarg; break;
        case 'r': s->n_rows = (int64_t)read_number("rows", optarg, 0, 1e15); break;
        case 'n': s->n_shards = (int64_t)read_number("shards", optarg, 1, SHARDS_MAX); break;
        case 's': s->options.seed = (uint64_t)read_number("seed", optarg, 0, 1e15); break;
        case 'z': s->options.zipf = read_number("zipf", optarg, 0, SYNTH_ZIPF_MAX); break;
        case 'c': read_cardinality(optarg, s->options.cardinality); break;
        case 'p': s->options.positive = read_number("positive", optarg, POSITIVE_MIN, 1 - POSITIVE_MIN); break;
        case 't': s->with_probability = true; break;
        default: exit(2);
        }
    }
    if (optind < argc) refuse("unexpected argument \"%s\"", argv[optind]);
    if (s->out == NULL) refuse("--output is missing");
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static int64_t n_files(const synth *s)
{
    return s->n_shards > 0 ? s->n_shards : 1;
}

static est_status open_files(synth *s)
{
    const char *name = strrchr(s->out, '/'), *dot = strrchr(name != NULL ? name : s->out, '.');
    int         stem = dot != NULL ? (int)(dot - s->out) : (int)strlen(s->out);
    est_strbuf  path = { 0 };
    est_status  status;

    s->writers = est_zalloc((size_t)n_files(s) * sizeof *s->writers);
    status     = s->writers != NULL ? EST_OK : est_no_memory();
    for (int64_t i = 0; i < n_files(s) && status == EST_OK; i++) {
        est_strbuf_reset(&path);
        est_strbuf_printf(&path, "%.*s", stem, s->out);
        if (s->n_shards > 0) est_strbuf_printf(&path, "-%05" PRId64 "-of-%05" PRId64, i, s->n_shards);
        est_strbuf_append(&path, s->out + stem);
        status = est_strbuf_status(&path);
        if (status == EST_OK) {
            status = est_tfrecord_create(est_strbuf_text(&path), EST_TFRECORD_WRITE(.buffer_bytes = SHARD_BUFFER),
                                         &s->writers[i]);
        }
    }
    est_strbuf_clear(&path);
    return status;
}

static est_status write_row(synth *s, est_tfrecord_writer *to, const synth_row *row)
{
    char    name[8], hex[9];
    est_str bytes;
    float   number = (float)row->probability / SYNTH_P_ONE;

    est_example_reset(s->example);
    est_example_set_i64s(s->example, "label", &(int64_t){ row->label }, 1);
    if (s->with_probability) est_example_set_f32s(s->example, "p_true", &number, 1);
    for (int k = 0; k < SYNTH_NUMERIC; k++) {
        if (row->numeric[k] < 0) continue;
        snprintf(name, sizeof name, "I%d", k + 1);
        number = (float)row->numeric[k];
        est_example_set_f32s(s->example, name, &number, 1);
    }
    for (int k = 0; k < SYNTH_CATEGORICAL; k++) {
        if (row->missing >> k & 1) continue;
        snprintf(name, sizeof name, "C%d", k + 1);
        snprintf(hex, sizeof hex, "%08" PRIx32, row->category[k]);
        est_example_set_bytes(s->example, name, &(est_str){ hex, 8 }, 1);
    }
    EST_TRY(est_example_serialize(s->example, &bytes));
    return est_tfrecord_write(to, bytes.data, bytes.size);
}

static est_status write_files(synth *s)
{
    for (int64_t i = 0; i < s->n_rows; i++) {
        synth_row row;

        synth_model_draw(s->model, (uint64_t)i, &row);
        s->counts[row.probability][row.label]++;
        s->n_positive += row.label;
        EST_TRY(write_row(s, s->writers[i % n_files(s)], &row));
    }
    for (int64_t i = 0; i < n_files(s); i++) {
        est_tfrecord_writer *writer = s->writers[i];

        s->writers[i] = NULL;
        EST_TRY(est_tfrecord_finish(writer));
    }
    return EST_OK;
}

/* The fraction of all pairs of a click and another row in which the click has the higher probability; a tie is half a
 * pair. NaN without both kinds. */
static double auc(const synth *s)
{
    __extension__ typedef unsigned __int128 wide;
    wide                                    twice = 0;
    uint64_t                                below = 0, n_negative = (uint64_t)s->n_rows - s->n_positive;

    for (uint32_t p = 0; p < SYNTH_P_ONE; p++) {
        twice += (wide)s->counts[p][1] * (2 * below + s->counts[p][0]);
        below += s->counts[p][0];
    }
    return (double)twice / (2 * (double)s->n_positive * (double)n_negative);
}

static est_status run(synth *s)
{
    s->counts = est_zalloc(SYNTH_P_ONE * sizeof *s->counts);
    if (s->counts == NULL) return est_no_memory();
    EST_TRY(est_example_create(&s->example));
    EST_TRY(synth_model_create(&s->options, &s->model));
    EST_TRY(open_files(s));
    EST_TRY(write_files(s));
    printf("%" PRId64 " synthetic rows, %" PRIu64 " of them clicks; AUC of the true probabilities: %.15g\n", s->n_rows,
           s->n_positive, auc(s));
    return EST_OK;
}

int main(int argc, char **argv)
{
    synth      s = { .n_rows = 100000, .options = { .seed = 1, .zipf = 1.1, .positive = 0.25 } };
    est_status status;

    read_options(&s, argc, argv);
    status = run(&s);
    if (status != EST_OK) fprintf(stderr, "synth: %s\n", est_error_message());
    for (int64_t i = 0; s.writers != NULL && i < n_files(&s); i++) est_tfrecord_abandon(s.writers[i]);
    est_free(s.writers);
    est_free(s.counts);
    est_example_free(s.example);
    synth_model_free(s.model);
    return status == EST_OK ? 0 : 1;
}
