/* SPDX-License-Identifier: Apache-2.0
 *
 * The planted model is logistic. The logit of a row is the sum of
 *
 *   - a constant, found so that as many rows as wanted are clicks;
 *   - for each numeric feature a slope times the logarithm of 1 + its value, or something else when it is missing;
 *   - for each categorical feature the weight of its category, being missing counting as one;
 *   - for each of a few pairs of categorical features the weight of the pair: a category belongs to one of eight
 *     groups, and every pair of groups has its weight. A model without crosses cannot learn these.
 *
 * Weights are not stored: they are hashes of the seed, the column and the category, so that millions of them cost
 * nothing. Logits are Q16. */
#include "support/synth_model.h"

#include <string.h>

#include "base/alloc.h"

#define N_PAIRS      4
#define GROUPS       8     /* and one of those that are missing */
#define GROWTH       65536 /* logarithms of values, in steps of 1/4096 of an octave, up to 16 octaves */
#define SAMPLE       32768 /* rows from which the constant is found */
#define LOGIT_MAX    ((int32_t)32 << 16)
#define RANK_MISSING UINT32_MAX
#define STEP         0x9e3779b97f4a7c15u /* between the states of SplitMix64 */

/* What hashes and sequences are for: different ones do not meet. */
enum { FOR_ROWS = 1, FOR_SAMPLE, FOR_NUMERIC, FOR_CATEGORICAL, FOR_PAIRS };

typedef struct numeric_column {
    int32_t  center, spread; /* of the logarithm of 1 + value: mean and standard deviation in 1/4096 */
    uint32_t missing;        /* how often, of 65536 */
    int32_t  slope;          /* Q16, an octave */
    int32_t  missing_weight;
} numeric_column;

typedef struct categorical_column {
    synth_zipf zipf;
    bool       is_shared; /* the tables are those of an earlier column */
    uint64_t   key;       /* of the hashes of its categories */
    int32_t    strength;  /* Q16: what their weights are multiplied with */
} categorical_column;

typedef struct pair {
    int     a, b;
    int32_t weights[GROUPS + 1][GROUPS + 1];
} pair;

struct synth_model {
    synth_options      options;
    uint64_t           rows_key;
    int32_t            constant;
    numeric_column     numeric[SYNTH_NUMERIC];
    categorical_column categorical[SYNTH_CATEGORICAL];
    pair               pairs[N_PAIRS];
    uint16_t           growth[GROWTH]; /* a value by its logarithm in 1/4096 */
    int32_t            log2[GROWTH];   /* Q16, of 1 + value */
};

static uint64_t key_of(uint64_t seed, uint64_t what, uint64_t number)
{
    return synth_mix(synth_mix(synth_mix(seed + STEP) + what * STEP) + number * STEP);
}

/* The next number of a sequence. */
static inline uint64_t next(uint64_t *state)
{
    *state += STEP;
    return synth_mix(*state);
}

/* Nearly normal, from 64 random bits: four uniform numbers added. Q16, with mean 0 and standard deviation 0.577. */
static inline int32_t bell(uint64_t random)
{
    return (int32_t)((random & 0xffff) + (random >> 16 & 0xffff) + (random >> 32 & 0xffff) + (random >> 48)) - 131070;
}

static inline int32_t times(int32_t a, int32_t b) /* Q16 */
{
    return (int32_t)((int64_t)a * b / 65536);
}

/* A number from 0 to n - 1. */
static uint32_t below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((next(state) >> 32) * n >> 32);
}

/* --- parameters --------------------------------------------------------------------------------------------------- */

static void plant_numeric(synth_model *m)
{
    for (int k = 0; k < SYNTH_NUMERIC; k++) {
        numeric_column *at    = &m->numeric[k];
        uint64_t        state = key_of(m->options.seed, FOR_NUMERIC, (uint64_t)k);

        at->center         = (int32_t)(4096 + below(&state, 8 * 4096)); /* values around 1 to around 500 */
        at->spread         = (int32_t)(4096 + below(&state, 2 * 4096));
        at->missing        = k % 4 == 0 ? 0 : below(&state, 26214); /* up to 40%; every fourth column is complete */
        at->slope          = bell(next(&state)) / 8;
        at->missing_weight = bell(next(&state)) / 2;
    }
    for (uint32_t i = 0; i < GROWTH; i++) {
        m->growth[i] = (uint16_t)((synth_exp2_minus((uint64_t)(GROWTH - i) << 12) >> 47) - 1);
        m->log2[i]   = (int32_t)(synth_log2(i + 1) >> 8);
    }
}

static est_status plant_categorical(synth_model *m)
{
    for (int k = 0; k < SYNTH_CATEGORICAL; k++) {
        categorical_column *at = &m->categorical[k];
        uint32_t            u;

        at->key      = key_of(m->options.seed, FOR_CATEGORICAL, (uint64_t)k);
        u            = (uint32_t)(at->key >> 48);
        at->strength = (int32_t)(u * (uint64_t)u * 3 >> 18); /* a few columns matter much, most of them little */
        for (int i = 0; i < k && !at->is_shared; i++) {
            if (m->options.cardinality[i] != m->options.cardinality[k]) continue;
            at->zipf      = m->categorical[i].zipf;
            at->is_shared = true;
        }
        if (!at->is_shared) EST_TRY(synth_zipf_init(&at->zipf, m->options.cardinality[k], m->options.zipf));
    }
    return EST_OK;
}

static void plant_pairs(synth_model *m)
{
    for (int i = 0; i < N_PAIRS; i++) {
        pair    *at    = &m->pairs[i];
        uint64_t state = key_of(m->options.seed, FOR_PAIRS, (uint64_t)i);

        at->a = (int)below(&state, SYNTH_CATEGORICAL);
        at->b = (at->a + 1 + (int)below(&state, SYNTH_CATEGORICAL - 1)) % SYNTH_CATEGORICAL;
        for (int a = 0; a <= GROUPS; a++) {
            for (int b = 0; b <= GROUPS; b++) at->weights[a][b] = bell(next(&state)) / 2;
        }
    }
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* Draws a numeric value; returns what it adds to the logit. */
static inline int32_t draw_numeric(const synth_model *m, const numeric_column *at, uint64_t random, int32_t *value)
{
    int32_t sum, log;

    if ((random & 0xffff) < at->missing) {
        *value = -1;
        return at->missing_weight;
    }
    sum = (int32_t)((random >> 16 & 0xffff) + (random >> 32 & 0xffff) + (random >> 48)) - 98302; /* deviation: 32768 */
    log = at->center + sum * (int64_t)at->spread / 32768;
    log = log < 0 ? 0 : log >= GROWTH ? GROWTH - 1 : log;
    *value = m->growth[log];
    return times(at->slope, m->log2[*value] - at->center * 16);
}

/* Different identifiers for different ranks: every step can be undone. */
static inline uint32_t identifier(uint32_t rank, uint64_t key)
{
    uint32_t x = rank ^ (uint32_t)key;

    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

static inline int group_of(uint32_t rank)
{
    return rank == RANK_MISSING ? GROUPS : (int)(rank % GROUPS);
}

/* Draws the features of the row that `state` begins; returns its logit without the constant. */
static int32_t draw_features(const synth_model *m, uint64_t *state, synth_row *row)
{
    uint32_t ranks[SYNTH_CATEGORICAL];
    int32_t  logit   = 0;
    uint64_t missing = ~(uint64_t)0;

    for (int k = 0; k < SYNTH_NUMERIC; k++) {
        logit += draw_numeric(m, &m->numeric[k], next(state), &row->numeric[k]);
    }
    for (int i = 0; i < 6; i++) missing &= next(state); /* each bit is set once in 64 rows */
    row->missing = (uint32_t)missing & (((uint32_t)1 << SYNTH_CATEGORICAL) - 1);
    for (int k = 0; k < SYNTH_CATEGORICAL; k++) {
        const categorical_column *at = &m->categorical[k];

        ranks[k] = synth_zipf_rank(&at->zipf, next(state));
        if (row->missing >> k & 1) ranks[k] = RANK_MISSING;
        row->category[k] = identifier(ranks[k], at->key);
        logit += times(at->strength, bell(synth_mix(at->key + ranks[k] * STEP)));
    }
    for (int i = 0; i < N_PAIRS; i++) {
        const pair *at = &m->pairs[i];

        logit += at->weights[group_of(ranks[at->a])][group_of(ranks[at->b])];
    }
    return logit;
}

void synth_model_draw(const synth_model *m, uint64_t number, synth_row *out)
{
    uint64_t state = synth_mix(m->rows_key + number * STEP);
    int32_t  logit = draw_features(m, &state, out) + m->constant;

    out->probability = synth_logistic(logit);
    out->label       = next(&state) >> (64 - SYNTH_P_BITS) < out->probability;
}

/* --- the constant ------------------------------------------------------------------------------------------------- */

static uint64_t sum_of_probabilities(const int32_t *logits, int32_t constant)
{
    uint64_t sum = 0;

    for (int i = 0; i < SAMPLE; i++) sum += synth_logistic(logits[i] + constant);
    return sum;
}

/* The smallest constant with which a sample of rows, none of those that are written, has as many clicks as wanted. */
static est_status find_constant(synth_model *m)
{
    uint64_t  key    = key_of(m->options.seed, FOR_SAMPLE, 0);
    uint64_t  wanted = (uint64_t)(m->options.positive * SYNTH_P_ONE * SAMPLE);
    int32_t  *logits = est_alloc(SAMPLE * sizeof *logits);
    int32_t   low = -LOGIT_MAX, high = LOGIT_MAX;
    synth_row row;

    if (logits == NULL) return est_no_memory();
    for (int i = 0; i < SAMPLE; i++) {
        uint64_t state = synth_mix(key + (uint64_t)i * STEP);

        logits[i] = draw_features(m, &state, &row);
    }
    while (low < high) {
        int32_t middle = low + (high - low) / 2;

        if (sum_of_probabilities(logits, middle) < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    m->constant = low;
    est_free(logits);
    return EST_OK;
}

est_status synth_model_create(const synth_options *options, synth_model **out)
{
    synth_model *m = est_zalloc(sizeof *m);
    est_status   status;

    if (m == NULL) return est_no_memory();
    m->options  = *options;
    m->rows_key = key_of(options->seed, FOR_ROWS, 0);
    plant_numeric(m);
    plant_pairs(m);
    status = plant_categorical(m);
    if (status == EST_OK) status = find_constant(m);
    if (status != EST_OK) {
        synth_model_free(m);
        return status;
    }
    *out = m;
    return EST_OK;
}

void synth_model_free(synth_model *m)
{
    if (m == NULL) return;
    for (int k = 0; k < SYNTH_CATEGORICAL; k++) {
        if (!m->categorical[k].is_shared) synth_zipf_clear(&m->categorical[k].zipf);
    }
    est_free(m);
}
