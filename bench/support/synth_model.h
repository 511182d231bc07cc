/* SPDX-License-Identifier: Apache-2.0
 *
 * The planted model of bench/synth: where the features of a row come from, and how likely a click is, given them.
 *
 * Everything follows from the options. A row is a function of its number alone, so rows may be drawn in any order. The
 * label is one with the probability that the model says, so that no classifier ranks rows better than that probability
 * does, but by luck. */
#ifndef EST_BENCH_SYNTH_MODEL_H
#define EST_BENCH_SYNTH_MODEL_H

#include <stdbool.h>

#include "support/synth_math.h"

#define SYNTH_NUMERIC     13
#define SYNTH_CATEGORICAL 26

#define SYNTH_CARDINALITY_MAX 10000000 /* 8 bytes each */
#define SYNTH_ZIPF_MAX        4

typedef struct synth_options {
    uint64_t seed;
    uint32_t cardinality[SYNTH_CATEGORICAL]; /* each from 1 to SYNTH_CARDINALITY_MAX */
    double   zipf;                           /* exponent, from 0 to SYNTH_ZIPF_MAX */
    double   positive;                       /* how many of all rows are to be clicks, between 0 and 1 */
} synth_options;

typedef struct synth_row {
    int32_t  numeric[SYNTH_NUMERIC];      /* a count; -1: missing */
    uint32_t category[SYNTH_CATEGORICAL]; /* an identifier of the category, not its rank */
    uint32_t missing;                     /* bit k: category k is */
    uint32_t probability;                 /* of a click, of SYNTH_P_ONE */
    bool     label;
} synth_row;

typedef struct synth_model synth_model;

/* Copies the options. */
EST_MUST_CHECK est_status synth_model_create(const synth_options *options, synth_model **out);
void                      synth_model_free(synth_model *model);

/* Draws row number `number`. */
void synth_model_draw(const synth_model *model, uint64_t number, synth_row *out);

#endif
