/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast Examples of 13 numeric and 26 categorical features become batches of 512, on one core.
 *
 *   example_parse [--write FOLDER]   with it also writes the records as FOLDER/{strings,ints}.tfrecord, for a peer
 *
 * Cases: categorical values as strings of 8 bytes or as int64; rows of one value each, or ragged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estoc/example.h"
#include "estoc/tfrecord.h"
#include "support/bench.h"

#define BATCH 512
#define N_CAT 26
#define N_NUM 13
#define N_ALL (N_CAT + N_NUM)

static char names[N_ALL][8];

typedef struct parse_case {
    const char         *name;
    est_example_parser *parser;
    const est_str      *records;
} parse_case;

static void check(est_status status)
{
    if (status == EST_OK) return;
    fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    exit(1);
}

/* BATCH serialized examples that live as long as the program. */
static est_str *make_records(bool ints)
{
    est_str     *records = calloc(BATCH, sizeof *records);
    est_example *ex;
    uint64_t     state = 1;

    if (records == NULL) exit(1);
    check(est_example_create(&ex));
    for (int i = 0; i < BATCH; i++) {
        est_str bytes;
        char   *copy;

        est_example_reset(ex);
        for (int k = 0; k < N_ALL; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            if (k < N_NUM) {
                est_example_set_f32s(ex, names[k], &(float){ (float)(state >> 40) }, 1);
            } else if (ints) {
                est_example_set_i64s(ex, names[k], &(int64_t){ (int64_t)(state >> 44) }, 1);
            } else {
                char text[9];

                snprintf(text, sizeof text, "%08x", (unsigned)(state >> 32));
                est_example_set_bytes(ex, names[k], &(est_str){ text, 8 }, 1);
            }
        }
        check(est_example_serialize(ex, &bytes));
        copy = malloc(bytes.size);
        if (copy == NULL) exit(1);
        memcpy(copy, bytes.data, bytes.size);
        records[i] = (est_str){ copy, bytes.size };
    }
    est_example_free(ex);
    return records;
}

static void write_records(const char *folder, const char *name, const est_str *records)
{
    est_tfrecord_writer *w;
    char                 path[512];

    snprintf(path, sizeof path, "%s/%s.tfrecord", folder, name);
    check(est_tfrecord_create(path, NULL, &w));
    for (int i = 0; i < BATCH; i++) check(est_tfrecord_write(w, records[i].data, records[i].size));
    check(est_tfrecord_finish(w));
}

static est_example_parser *make_parser(bool ints, bool ragged)
{
    est_feature_spec    specs[N_ALL] = { 0 };
    est_example_parser *parser;

    for (int k = 0; k < N_ALL; k++) {
        specs[k].name  = names[k];
        specs[k].dtype = k < N_NUM ? EST_F32 : ints ? EST_I64 : EST_STRING;
        specs[k].rows  = ragged && k >= N_NUM ? EST_ROWS_RAGGED : EST_ROWS_FIXED;
    }
    check(est_example_parser_create((est_feature_specs){ specs, N_ALL }, &parser));
    return parser;
}

static void parse_batch(void *arg)
{
    const parse_case *c = arg;
    est_feature_batch batch[N_ALL];

    check(est_example_parse(c->parser, c->records, BATCH, batch));
    est_feature_batch_clear(batch, N_ALL);
}

int main(int argc, char **argv)
{
    static const char *const titles[] = { "strings fixed", "strings ragged", "ints fixed", "ints ragged" };
    bench_contestant         runs[4];
    parse_case               cases[4];
    est_str                 *records[2];

    for (int k = 0; k < N_ALL; k++) snprintf(names[k], sizeof names[k], "%c%d", k < N_NUM ? 'I' : 'C', k);
    for (int ints = 0; ints < 2; ints++) records[ints] = make_records(ints);
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        write_records(argv[2], "strings", records[0]);
        write_records(argv[2], "ints", records[1]);
    }
    for (int i = 0; i < 4; i++) {
        cases[i] = (parse_case){ titles[i], make_parser(i >= 2, i % 2), records[i >= 2] };
        runs[i]  = (bench_contestant){ .fn = parse_batch, .arg = &cases[i] };
    }
    bench_run(runs, 4, 9, 0.1);
    printf("%-16s %10s %10s %8s\n", "case", "ns/example", "examples/s", "MB/s");
    for (int i = 0; i < 4; i++) {
        double secs = runs[i].secs.median / BATCH, bytes = 0;

        for (int k = 0; k < BATCH; k++) bytes += (double)cases[i].records[k].size / BATCH;
        printf("%-16s %10.0f %10.0f %8.0f\n", titles[i], secs * 1e9, 1 / secs, bytes / secs / 1e6);
        est_example_parser_free(cases[i].parser);
    }
    for (int ints = 0; ints < 2; ints++) {
        for (int i = 0; i < BATCH; i++) free((void *)(uintptr_t)records[ints][i].data);
        free(records[ints]);
    }
    return 0;
}
