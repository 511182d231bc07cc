/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows as click logs have them: a label, 13 numbers and 26 words of 8 hexadecimal digits; about every tenth field is
 * missing. bench/input_files writes them as Examples and as CSV, bench/input reads them. */
#ifndef EST_BENCH_CLICKS_H
#define EST_BENCH_CLICKS_H

#include <stdint.h>

#define CLICKS_N_NUM   13
#define CLICKS_N_CAT   26
#define CLICKS_N_ALL   (1 + CLICKS_N_NUM + CLICKS_N_CAT)
#define CLICKS_BATCH   512
#define CLICKS_BUCKETS 100000 /* ids, for the model of bench/support/models.h */
#define CLICKS_TEXT    16     /* bytes of a field at most, its end included */

typedef struct clicks_row {
    char text[CLICKS_N_ALL][CLICKS_TEXT]; /* the label first, then numbers, then words; "" is a missing one */
} clicks_row;

/* "label", "I1" to "I13", "C1" to "C26". */
const char *clicks_name(int k);

/* The next row of the sequence that begins with *state. */
void clicks_next(uint64_t *state, clicks_row *row);

/* A number of 31 bits. */
uint32_t clicks_random(uint64_t *state);

#endif
