/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a benchmark. */
#include "support/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_read_text(const char *value, void *to)
{
    *(const char **)to = value;
}

void bench_read_bool(const char *value, void *to)
{
    *(bool *)to = strcmp(value, "0") != 0;
}

void bench_read_int(const char *value, void *to)
{
    *(int *)to = (int)strtol(value, NULL, 10);
}

void bench_read_int64(const char *value, void *to)
{
    *(int64_t *)to = strtoll(value, NULL, 10);
}

void bench_read_double(const char *value, void *to)
{
    *(double *)to = strtod(value, NULL);
}

void bench_read_options(int argc, char **argv, int first, const bench_option *options, int n_options)
{
    for (int i = first; i < argc; i++) {
        const bench_option *option = options, *end = options + n_options;
        const char         *value = i + 1 < argc ? argv[i + 1] : "--";

        while (option < end && strcmp(option->name, argv[i]) != 0) option++;
        if (option == end || (value[0] == '-' && value[1] == '-' && option->read != bench_read_bool)) {
            (void)fprintf(stderr, "%s: %s \"%s\"; the top of its source lists all options\n", argv[0],
                          option == end ? "unknown option" : "no value for", argv[i]);
            exit(2);
        }
        option->read(value, option->to);
        i += value[0] != '-' || value[1] != '-';
    }
}
