/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate schedules: the rate as a function of the global step, with TensorFlow's formulas.
 *
 * A schedule is a plain value without a graph; est_learning_rate() turns it into a node. For your own, fill the struct
 * with your function. p stands for step / decay_steps below.
 *
 * Threading: any thread; building with them is one thread at a time per graph. */
#ifndef ESTOC_SCHEDULES_H
#define ESTOC_SCHEDULES_H

#include "estoc/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_schedule est_schedule;
struct est_schedule {
    /* The rate at `step`, both float64 scalars; NULL: no schedule. */
    est_node (*rate)(const est_schedule *self, est_node step);
    double      initial; /* learning rate */
    double      decay_steps;
    double      decay_rate;
    double      end, power;   /* polynomial */
    double      alpha;        /* cosine: the smallest rate, as a part of the initial one */
    double      t_mul, m_mul; /* restarts: how periods grow and peaks shrink */
    bool        staircase;    /* p is rounded down */
    bool        cycle;        /* polynomial: restarts with a longer decay */
    bool        after_warmup; /* the schedule begins when the warm-up ends, not beside it */
    est_i64s    boundaries;   /* piecewise; both borrowed until the node is made */
    est_f64s    values;       /* one more than boundaries */
    double      warmup_steps, warmup_start;
    const void *user;        /* for your own; borrowed until the node is made */
    uint64_t    reserved[4]; /* zeros: room for members to come */
};

/* Always `rate`. */
EST_API est_schedule est_constant_rate(double rate);
/* initial * decay_rate^p. */
EST_API est_schedule est_exponential_decay(double initial, int64_t decay_steps, double decay_rate, bool staircase);
/* initial * exp(-decay_rate p). */
EST_API est_schedule est_natural_exp_decay(double initial, int64_t decay_steps, double decay_rate, bool staircase);
/* initial / (1 + decay_rate p). */
EST_API est_schedule est_inverse_time_decay(double initial, int64_t decay_steps, double decay_rate, bool staircase);
/* (initial - end) (1 - p)^power + end with p at most 1; cycle: decay_steps grows by whole multiples past the end. */
EST_API est_schedule est_polynomial_decay(double initial, int64_t decay_steps, double end, double power, bool cycle);
/* values[0] up to and with boundaries.data[0], values[1] up to and with the next, ..., then values[n]. */
EST_API est_schedule est_piecewise_constant(est_i64s boundaries, est_f64s values);
/* initial ((1 - alpha) (1 + cos(pi p)) / 2 + alpha) with p at most 1. */
EST_API est_schedule est_cosine_decay(double initial, int64_t decay_steps, double alpha);
/* The same with restarts: periods grow by t_mul, peaks are multiplied by m_mul. 0: 2 and 1;
 * m_mul EST_OFF: 0. */
EST_API est_schedule est_cosine_decay_restarts(double initial, int64_t first_decay_steps, double t_mul, double m_mul,
                                               double alpha);
/* Rises linearly from `start` to the rate of `schedule` at `steps`, then follows it. */
EST_API est_schedule est_linear_warmup(est_schedule schedule, int64_t steps, double start);

/* Rises linearly from `start` to the first rate of `schedule`, which begins after these steps (the warm-up of
 * tf.keras.optimizers.schedules.CosineDecay). */
EST_API est_schedule est_warmup_before(est_schedule schedule, int64_t steps, double start);

/* The rate as a float32 scalar of the step, a variable's handle or an int64 scalar. */
EST_API est_node est_learning_rate(est_schedule schedule, est_node step);

#ifdef __cplusplus
}
#endif
#endif
