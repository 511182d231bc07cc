/* SPDX-License-Identifier: Apache-2.0
 *
 * A contestant of bench/compare-input: a program that does its work in turns and says after each, as a line of JSON, how
 * much it did in what time. The comparison holds all contestants of a question open and gives them turns one by one, so
 * that whatever else the machine does meets them alike. */
#ifndef EST_BENCH_TURNS_H
#define EST_BENCH_TURNS_H

#include "estoc/status.h"

typedef struct bench_turn {
    double amount; /* of whatever is counted: bytes, rows, steps */
    double secs;
    double waited_secs; /* of secs, for input; 0 where that is not the question */
} bench_turn;

typedef bench_turn (*bench_turn_fn)(void *arg);

/* Takes `turns` turns; 0: one for every line read from standard input, until it ends. Then prints the highest resident
 * memory. */
void bench_take_turns(bench_turn_fn fn, void *arg, int turns);

/* Highest resident memory of this process so far. */
double bench_max_rss_mb(void);

/* Ends the program with the error's message unless status is EST_OK. */
void bench_check(est_status status);

#endif
