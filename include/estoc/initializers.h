/* SPDX-License-Identifier: Apache-2.0
 *
 * Initializers and regularizers: small values that define the initial value and the regularization loss of a variable.
 *
 * Both are plain structs, passed by value and needing no graph, so that they can be used in options. Formulas and
 * defaults are TensorFlow's. For your own, fill the struct with your function.
 *
 * Threading: any thread; building a value with them is one thread at a time per graph. */
#ifndef ESTOC_INITIALIZERS_H
#define ESTOC_INITIALIZERS_H

#include "estoc/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- initializers ------------------------------------------------------------------------------------------------- */

/* Which inputs a random initializer divides its variance by, and what it draws from. */
typedef enum est_fan { EST_FAN_IN = 0, EST_FAN_OUT, EST_FAN_AVG } est_fan;
typedef enum est_distribution { EST_DRAW_TRUNCATED_NORMAL = 0, EST_DRAW_NORMAL, EST_DRAW_UNIFORM } est_distribution;

typedef struct est_initializer est_initializer;
struct est_initializer {
    /* Builds the initial value; NULL: the layer's default. */
    est_node (*make)(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape);
    double           a, b; /* value; low and high; mean and deviation; scale */
    est_fan          fan;
    est_distribution distribution;
    uint64_t         seed;        /* 0: from the graph's */
    const void      *user;        /* for your own; borrowed until the variable is made */
    uint64_t         reserved[2]; /* zeros: room for members to come */
};

/* Constants. */
EST_API est_initializer est_init_zeros(void);
EST_API est_initializer est_init_ones(void);
EST_API est_initializer est_init_constant(double value);

/* Random values: uniform in [low, high), normal, and normal redrawn beyond two deviations. */
EST_API est_initializer est_init_random_uniform(double low, double high, uint64_t seed);
EST_API est_initializer est_init_random_normal(double mean, double deviation, uint64_t seed);
EST_API est_initializer est_init_truncated_normal(double mean, double deviation, uint64_t seed);

/* Variance scale / fan. fan_in and fan_out are the rows and columns of a matrix; for filters the last two axes, each
 * times the area of the filter. */
EST_API est_initializer est_init_variance_scaling(double scale, est_fan fan, est_distribution distribution,
                                                  uint64_t seed);

/* Common cases: Glorot 1 / mean of the fans, He 2 / fan_in, LeCun 1 / fan_in. */
EST_API est_initializer est_init_glorot_uniform(uint64_t seed);
EST_API est_initializer est_init_glorot_normal(uint64_t seed);
EST_API est_initializer est_init_he_uniform(uint64_t seed);
EST_API est_initializer est_init_he_normal(uint64_t seed);
EST_API est_initializer est_init_lecun_uniform(uint64_t seed);
EST_API est_initializer est_init_lecun_normal(uint64_t seed);

/* The initial value of a variable of that shape as a node. */
EST_API est_node est_initial_value(est_initializer initializer, est_graph *graph, est_dtype dtype, est_shape shape);

/* --- regularizers ------------------------------------------------------------------------------------------------- */

typedef struct est_regularizer est_regularizer;
struct est_regularizer {
    /* The scalar regularization loss of the weights; NULL: none. */
    est_node (*cost)(const est_regularizer *self, est_node weights);
    double      l1, l2;
    const void *user;        /* for your own; borrowed until the variable is made */
    uint64_t    reserved[2]; /* zeros: room for members to come */
};

/* l1 * sum |w| + l2 * sum w^2. */
EST_API est_regularizer est_l1_regularizer(double l1);
EST_API est_regularizer est_l2_regularizer(double l2);
EST_API est_regularizer est_l1_l2_regularizer(double l1, double l2);

#ifdef __cplusplus
}
#endif
#endif
