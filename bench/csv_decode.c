/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast rows of CSV become batches of 512, on one core.
 *
 *   csv_decode [CENSUS]         CENSUS: a file of the census (adult) data: 6 numbers and 9 words a row
 *   csv_decode --write FILE     writes the generated rows, for a peer, and does no more
 *
 * Cases: generated rows of a label, 13 numbers and 26 words of 8 bytes, in memory and from a file; the census file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/csv.h"
#include "format/lines.h"
#include "support/bench.h"

#define BATCH          512
#define N_ROWS         (64 * BATCH)
#define N_NUM          13
#define N_ALL          40
#define N_CENSUS       15
#define CENSUS_NUMBERS 0x1c15u /* a bit for each field that is a number */
#define CASES_MAX      4

typedef struct decode_case {
    const char      *name;
    est_csv_decoder *decoder;
    size_t           n_columns;
    const char      *path; /* NULL: the rows below */
    const est_str   *rows;
    double           n_rows, bytes; /* of one run */
    bool             lines_only;
} decode_case;

static void check(est_status status)
{
    if (status == EST_OK) return;
    fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    exit(1);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* N_ROWS rows, each with a line break; about a tenth of the fields are empty. */
static void make_text(est_strbuf *text)
{
    uint64_t state = 1;

    for (int i = 0; i < N_ROWS; i++) {
        for (int k = 0; k < N_ALL; k++) {
            uint64_t r     = next_random(&state);
            bool     empty = k > 0 && next_random(&state) % 10 == 0;

            if (k > 0) est_strbuf_append(text, ",");
            if (k == 0) {
                est_strbuf_printf(text, "%d", (int)(r & 1));
            } else if (empty) {
                continue;
            } else if (k <= N_NUM) {
                if (k % 2 == 0) est_strbuf_printf(text, "%d", (int)(r % (k % 4 == 0 ? 100 : 30000)) - 2);
                if (k % 2 == 1) est_strbuf_printf(text, "%.*f", k % 5, (double)r / 1e6);
            } else {
                est_strbuf_printf(text, "%08x", (unsigned)r);
            }
        }
        est_strbuf_append(text, "\n");
    }
    check(est_strbuf_status(text));
}

static est_str *split(const est_strbuf *text)
{
    est_str    *rows = calloc(N_ROWS, sizeof *rows);
    const char *at   = text->data;

    if (rows == NULL) exit(1);
    for (int i = 0; i < N_ROWS; i++) {
        const char *stop = strchr(at, '\n');

        rows[i] = (est_str){ at, (size_t)(stop - at) };
        at      = stop + 1;
    }
    return rows;
}

static void write_file(const char *path, const est_strbuf *text)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL || fwrite(text->data, 1, text->size, file) != text->size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static void decode_batch(const decode_case *c, const est_str *rows, size_t n)
{
    est_tensor *out[N_ALL];

    check(est_csv_decode(c->decoder, rows, n, out, NULL));
    for (size_t i = 0; i < c->n_columns; i++) est_tensor_free(out[i]);
}

static void run_file(decode_case *c)
{
    est_str    rows[BATCH];
    est_lines *lines;
    size_t     n;
    est_status status;

    c->n_rows = 0;
    check(est_lines_open(c->path, &(est_lines_read_options){ .quoted = true }, &lines));
    while ((status = est_lines_next_many(lines, rows, BATCH, &n)) == EST_OK) {
        if (rows[n - 1].size == 0) n--; /* the census files end with an empty line */
        if (!c->lines_only && n > 0) decode_batch(c, rows, n);
        c->n_rows += (double)n;
    }
    c->bytes = (double)est_lines_tell(lines).offset;
    est_lines_close(lines);
    if (status != EST_OUT_OF_RANGE) check(status);
}

static void run_case(void *arg)
{
    decode_case *c = arg;

    if (c->path != NULL) {
        run_file(c);
    } else {
        for (int i = 0; i < N_ROWS; i += BATCH) decode_batch(c, c->rows + i, BATCH);
    }
}

static est_csv_decoder *make_decoder(bool census)
{
    est_csv_column   columns[N_ALL];
    char             names[N_ALL][8];
    est_csv_decoder *decoder;
    size_t           n = census ? N_CENSUS : N_ALL;

    for (size_t k = 0; k < n; k++) {
        bool is_number = census ? (CENSUS_NUMBERS >> k & 1) != 0 : k <= N_NUM;

        snprintf(names[k], sizeof names[k], "%zu", k);
        columns[k] = (est_csv_column){ .name = names[k], .dtype = is_number ? EST_F32 : EST_STRING };
    }
    check(est_csv_decoder_create(columns, n, census ? EST_CSV(.trim = true, .na_value = "?") : NULL, &decoder));
    return decoder;
}

int main(int argc, char **argv)
{
    bench_contestant runs[CASES_MAX];
    decode_case      cases[CASES_MAX] = { 0 };
    est_strbuf       text             = { 0 };
    est_str         *rows;
    char             path[64];
    int              n = 0;

    make_text(&text);
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        write_file(argv[2], &text);
        est_strbuf_clear(&text);
        return 0;
    }
    rows = split(&text);
    snprintf(path, sizeof path, "/tmp/estoc-csv-%d", (int)getpid());
    write_file(path, &text);
    cases[n++] = (decode_case){ "rows in memory", make_decoder(false), N_ALL, NULL, rows, N_ROWS, (double)text.size };
    cases[n++] = (decode_case){ "file", make_decoder(false), N_ALL, .path = path };
    cases[n++] = (decode_case){ "file, lines only", NULL, N_ALL, .path = path, .lines_only = true };
    if (argc == 2) cases[n++] = (decode_case){ "census file", make_decoder(true), N_CENSUS, .path = argv[1] };
    for (int i = 0; i < n; i++) runs[i] = (bench_contestant){ .fn = run_case, .arg = &cases[i] };
    bench_run(runs, n, 9, 0.1);
    printf("%-18s %8s %12s %8s\n", "case", "ns/row", "rows/s", "GB/s");
    for (int i = 0; i < n; i++) {
        double secs = runs[i].secs.median;

        printf("%-18s %8.1f %12.0f %8.3f\n", cases[i].name, secs / cases[i].n_rows * 1e9, cases[i].n_rows / secs,
               cases[i].bytes / secs / 1e9);
        est_csv_decoder_free(cases[i].decoder);
    }
    unlink(path);
    free(rows);
    est_strbuf_clear(&text);
    return 0;
}
