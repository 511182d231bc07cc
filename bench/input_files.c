/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the files that bench/input, bench/input_wait and their peers read.
 *
 *   input_files FOLDER
 *
 *   records-*.tfrecord       256 MiB in records of 1 KiB with their frame, four files
 *   records-*.tfrecord.gz    64 MiB of such records, compressed to about half
 *   clicks-*.tfrecord        Examples of bench/support/clicks.h
 *   clicks-*.csv             the same rows
 *   ids-*.tfrecord           Examples for the wide_deep model: words as ids, the numbers as one feature */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estoc/example.h"
#include "estoc/tfrecord.h"
#include "support/clicks.h"
#include "support/turns.h"

#define N_FILES       4
#define RECORD_BYTES  (1024 - 16) /* the frame takes 16 */
#define N_RECORDS     (64 * 1024) /* a file */
#define N_RECORDS_GZ  (16 * 1024)
#define ROWS_PER_FILE (64 * CLICKS_BATCH)

static est_tfrecord_writer *open_records(const char *folder, const char *name, int file, est_compression compression)
{
    est_tfrecord_writer *w = NULL;
    char                 path[512];

    (void)snprintf(path, sizeof path, "%s/%s-%05d-of-%05d.tfrecord%s", folder, name, file, N_FILES,
                   compression == EST_COMPRESSION_GZIP ? ".gz" : "");
    bench_check(est_tfrecord_create(path, EST_TFRECORD_WRITE(.compression = compression), &w));
    return w;
}

/* Letters of an alphabet of 16, so that half of the bits are news. */
static void write_records(const char *folder, est_compression compression, int n)
{
    uint64_t state = 1;
    char     record[RECORD_BYTES];

    for (int file = 0; file < N_FILES; file++) {
        est_tfrecord_writer *w = open_records(folder, "records", file, compression);
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < RECORD_BYTES; k += 4) {
                uint32_t r = clicks_random(&state);
                for (int b = 0; b < 4; b++) record[k + b] = (char)('a' + (r >> (4 * b + 8) & 15));
            }
            bench_check(est_tfrecord_write(w, record, RECORD_BYTES));
        }
        bench_check(est_tfrecord_finish(w));
    }
}

static void write_example(est_tfrecord_writer *w, est_example *example)
{
    est_str bytes;

    bench_check(est_example_serialize(example, &bytes));
    bench_check(est_tfrecord_write(w, bytes.data, bytes.size));
    est_example_reset(example);
}

static void write_click(est_tfrecord_writer *w, est_example *example, const clicks_row *row)
{
    for (int k = 0; k < CLICKS_N_ALL; k++) {
        const char *text = row->text[k];
        if (text[0] == '\0') continue;
        if (k <= CLICKS_N_NUM) {
            est_example_set_f32s(example, clicks_name(k), &(float){ strtof(text, NULL) }, 1);
        } else {
            est_example_set_bytes(example, clicks_name(k), &(est_str){ text, strlen(text) }, 1);
        }
    }
    write_example(w, example);
}

/* Ids have a long tail, as in the reference models; numbers are small, so that training goes well. */
static void write_ids(est_tfrecord_writer *w, est_example *example, const clicks_row *row, uint64_t *state)
{
    float numbers[CLICKS_N_NUM];

    for (int k = 0; k < CLICKS_N_CAT; k++) {
        double u = (double)clicks_random(state) / 2147483648.0;
        est_example_set_i64s(example, clicks_name(1 + CLICKS_N_NUM + k),
                             &(int64_t){ (int64_t)(u * u * u * CLICKS_BUCKETS) }, 1);
    }
    for (int k = 0; k < CLICKS_N_NUM; k++) numbers[k] = (float)((double)clicks_random(state) / 1073741824.0 - 1);
    est_example_set_f32s(example, "numeric", numbers, CLICKS_N_NUM);
    est_example_set_f32s(example, clicks_name(0), &(float){ strtof(row->text[0], NULL) }, 1);
    write_example(w, example);
}

static void write_line(FILE *csv, const clicks_row *row)
{
    for (int k = 0; k < CLICKS_N_ALL; k++) {
        if (fprintf(csv, "%s%c", row->text[k], k + 1 < CLICKS_N_ALL ? ',' : '\n') < 0) {
            perror("input_files");
            exit(1);
        }
    }
}

static void write_clicks(const char *folder)
{
    est_example *example = NULL;
    uint64_t     state = 1, id_state = 2;
    char         path[512];
    clicks_row   row;

    bench_check(est_example_create(&example));
    for (int file = 0; file < N_FILES; file++) {
        est_tfrecord_writer *clicks = open_records(folder, "clicks", file, EST_COMPRESSION_NONE);
        est_tfrecord_writer *ids    = open_records(folder, "ids", file, EST_COMPRESSION_NONE);
        FILE                *csv;

        (void)snprintf(path, sizeof path, "%s/clicks-%05d-of-%05d.csv", folder, file, N_FILES);
        csv = fopen(path, "w");
        if (csv == NULL) {
            perror(path);
            exit(1);
        }
        for (int i = 0; i < ROWS_PER_FILE; i++) {
            clicks_next(&state, &row);
            write_click(clicks, example, &row);
            write_ids(ids, example, &row, &id_state);
            write_line(csv, &row);
        }
        bench_check(est_tfrecord_finish(clicks));
        bench_check(est_tfrecord_finish(ids));
        if (fclose(csv) != 0) {
            perror(path);
            exit(1);
        }
    }
    est_example_free(example);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: input_files FOLDER\n");
        return 2;
    }
    write_records(argv[1], EST_COMPRESSION_NONE, N_RECORDS);
    write_records(argv[1], EST_COMPRESSION_GZIP, N_RECORDS_GZ);
    write_clicks(argv[1]);
    return 0;
}
