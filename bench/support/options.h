/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a benchmark: "--name value", each of which sets a variable.
 *
 *     BENCH_OPTIONS(argc, argv, 1, { "--turns", BENCH_TO(&turns) }, { "--seconds", BENCH_TO(&seconds) }); */
#ifndef EST_BENCH_OPTIONS_H
#define EST_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bench_option {
    const char *name;
    void (*read)(const char *value, void *to);
    void *to;
} bench_option;

/* A text is borrowed from argv. A bool is true without a value, or has 0 or 1. */
#define BENCH_TO(to)                                                                                                   \
    _Generic((to),                     \
        const char **: bench_read_text, \
        bool *: bench_read_bool,       \
        int *: bench_read_int,         \
        int64_t *: bench_read_int64,   \
        double *: bench_read_double),  \
        (to)

void bench_read_text(const char *value, void *to);
void bench_read_bool(const char *value, void *to);
void bench_read_int(const char *value, void *to);
void bench_read_int64(const char *value, void *to);
void bench_read_double(const char *value, void *to);

/* Reads the arguments from `first` on; ends the program with 2 at one that is not among the options. */
void bench_read_options(int argc, char **argv, int first, const bench_option *options, int n_options);

#define BENCH_OPTIONS(argc, argv, first, ...)                                                                          \
    bench_read_options(argc, argv, first, (const bench_option[]){ __VA_ARGS__ },                                       \
                       (int)(sizeof((const bench_option[]){ __VA_ARGS__ }) / sizeof(bench_option)))

#endif
