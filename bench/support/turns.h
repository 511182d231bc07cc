/* SPDX-License-Identifier: Apache-2.0
 *
 * A contestant of bench/compare-input: a program that does its work in turns and says after each, as a line of JSON,
 * how much it did in what time. The comparison holds all contestants of a question open and gives them turns one by
 * one, so that whatever else the machine does meets them alike. */
#ifndef EST_BENCH_TURNS_H
#define EST_BENCH_TURNS_H

#include <stdbool.h>

#include "estoc/status.h"

typedef struct bench_turn {
    double amount; /* of whatever is counted: bytes, rows, steps */
    double secs;
    double waited_secs; /* of secs, for input; 0 where that is not the question */
    double cpu_secs;    /* processor time of all threads meanwhile; 0 likewise */
} bench_turn;

typedef bench_turn (*bench_turn_fn)(void *arg);

/* Takes `turns` turns; 0: one for every line read from standard input, until it ends. Then prints the highest resident
 * memory. */
void bench_take_turns(bench_turn_fn fn, void *arg, int turns);

/* The same in pieces, for a program that is called instead of calling: whether another turn is wanted after `taken` of
 * them, which waits for a line where turns are 0; and what a turn did. */
bool bench_turn_wanted(int turns, int taken);
void bench_turn_print(bench_turn turn);

/* Processor time of this process so far, and its highest resident memory. */
double bench_cpu_secs(void);
double bench_max_rss_mb(void);

/* Ends the program with the error's message unless status is EST_OK. */
void bench_check(est_status status);

#endif
