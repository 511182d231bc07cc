/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate schedules. Everything is computed in float64 and made float32 at the end, so that late steps are still
 * told apart (float32 counts to 2^24). */
#include <math.h>

#include "nn/nn.h"

static est_node number(est_node like, double value)
{
    return est_scalar(like.graph, EST_F64, value);
}

/* step / decay_steps, rounded down for a staircase. */
static est_node periods(const est_schedule *s, est_node step)
{
    est_node p = est_div(step, number(step, s->decay_steps));

    return s->staircase ? est_floor(p) : p;
}

static est_node constant(const est_schedule *s, est_node step)
{
    return number(step, s->initial);
}

static est_node exponential(const est_schedule *s, est_node step)
{
    return est_scale(est_pow(number(step, s->decay_rate), periods(s, step)), s->initial);
}

static est_node natural_exp(const est_schedule *s, est_node step)
{
    return est_scale(est_exp(est_scale(periods(s, step), -s->decay_rate)), s->initial);
}

static est_node inverse_time(const est_schedule *s, est_node step)
{
    return est_div(number(step, s->initial), est_shift(est_scale(periods(s, step), s->decay_rate), 1));
}

static est_node polynomial(const est_schedule *s, est_node step)
{
    est_node decay = number(step, s->decay_steps), left;

    if (s->cycle) { /* at step 0 the first period has already begun */
        decay = est_mul(decay, est_maximum(est_ceil(est_div(step, decay)), number(step, 1)));
    } else {
        step = est_minimum(step, decay);
    }
    left = est_shift(est_neg(est_div(step, decay)), 1);
    return est_shift(est_scale(est_pow(left, number(step, s->power)), s->initial - s->end), s->end);
}

static est_node piecewise(const est_schedule *s, est_node step)
{
    est_node rate = number(step, s->values.data[s->boundaries.n]);

    for (int i = s->boundaries.n - 1; i >= 0; i--) { /* the first boundary not passed decides */
        est_node before = est_less_equal(step, number(step, (double)s->boundaries.data[i]));
        rate            = est_select(before, number(step, s->values.data[i]), rate);
    }
    return rate;
}

/* initial ((1 - alpha) height (1 + cos(pi p)) / 2 + alpha). */
static est_node half_wave(const est_schedule *s, est_node p, est_node height)
{
    est_node wave = est_scale(est_shift(est_cos(est_scale(p, M_PI)), 1), 0.5);

    if (height.graph != NULL) wave = est_mul(wave, height);
    return est_scale(est_shift(est_scale(wave, 1 - s->alpha), s->alpha), s->initial);
}

static est_node cosine(const est_schedule *s, est_node step)
{
    return half_wave(s, est_minimum(periods(s, step), number(step, 1)), EST_NO_NODE);
}

/* Restart i begins after (1 - t^i) / (1 - t) first periods and lasts t^i of them. */
static est_node restarts(const est_schedule *s, est_node step)
{
    est_node p = periods(s, step), i, within;

    if (s->t_mul == 1) {
        i      = est_floor(p);
        within = est_sub(p, i);
    } else {
        est_node t = number(step, s->t_mul), length, begun;
        /* At the end of a period the logarithm is an integer up to rounding; an epsilon puts it on the right side. */
        i = est_floor(est_shift(est_scale(est_log(est_shift(est_scale(p, s->t_mul - 1), 1)), 1 / log(s->t_mul)), 1e-9));
        length = est_pow(t, i);
        begun  = est_scale(est_shift(est_neg(length), 1), 1 / (1 - s->t_mul));
        within = est_div(est_sub(p, begun), length);
    }
    return half_wave(s, within, est_pow(number(step, s->m_mul), i));
}

est_schedule est_constant_rate(double rate)
{
    return (est_schedule){ .rate = constant, .initial = rate };
}

static est_schedule decay(est_node (*rate)(const est_schedule *, est_node), double initial, int64_t steps, double by,
                          bool staircase)
{
    return (est_schedule){ .rate        = rate,
                           .initial     = initial,
                           .decay_steps = steps > 0 ? (double)steps : -1,
                           .decay_rate  = by,
                           .staircase   = staircase };
}

est_schedule est_exponential_decay(double initial, int64_t decay_steps, double decay_rate, bool staircase)
{
    return decay(exponential, initial, decay_steps, decay_rate, staircase);
}

est_schedule est_natural_exp_decay(double initial, int64_t decay_steps, double decay_rate, bool staircase)
{
    return decay(natural_exp, initial, decay_steps, decay_rate, staircase);
}

est_schedule est_inverse_time_decay(double initial, int64_t decay_steps, double decay_rate, bool staircase)
{
    return decay(inverse_time, initial, decay_steps, decay_rate, staircase);
}

est_schedule est_polynomial_decay(double initial, int64_t decay_steps, double end, double power, bool cycle)
{
    est_schedule s = decay(polynomial, initial, decay_steps, 0, false);

    s.end   = end;
    s.power = power;
    s.cycle = cycle;
    return s;
}

est_schedule est_piecewise_constant(est_i64s boundaries, est_f64s values)
{
    return (est_schedule){ .rate = piecewise, .boundaries = boundaries, .values = values };
}

est_schedule est_cosine_decay(double initial, int64_t decay_steps, double alpha)
{
    est_schedule s = decay(cosine, initial, decay_steps, 0, false);

    s.alpha = alpha;
    return s;
}

est_schedule est_cosine_decay_restarts(double initial, int64_t first_decay_steps, double t_mul, double m_mul,
                                       double alpha)
{
    est_schedule s = decay(restarts, initial, first_decay_steps, 0, false);

    s.alpha = alpha;
    s.t_mul = est_or(t_mul, 2);
    s.m_mul = est_or(m_mul, 1);
    return s;
}

est_schedule est_linear_warmup(est_schedule schedule, int64_t steps, double start)
{
    schedule.warmup_steps = (double)steps;
    schedule.warmup_start = start;
    return schedule;
}

est_schedule est_warmup_before(est_schedule schedule, int64_t steps, double start)
{
    schedule              = est_linear_warmup(schedule, steps, start);
    schedule.after_warmup = true;
    return schedule;
}

static est_node warmed_up(const est_schedule *s, est_node step)
{
    est_node steps = number(step, s->warmup_steps);
    est_node from  = s->after_warmup ? steps : number(step, 0); /* where the schedule begins */
    est_node final = s->rate(s, est_sub(steps, from));          /* the rate at the end of the warm-up */
    est_node line  = est_add(number(step, s->warmup_start),
                             est_mul(est_div(step, steps), est_shift(final, -s->warmup_start)));

    return est_select(est_less(step, steps), line, s->rate(s, est_sub(step, from)));
}

est_node est_learning_rate(est_schedule schedule, est_node step)
{
    if (step.graph == NULL || est_graph_poisoned(step.graph)) return step;
    if (schedule.rate == NULL)
        return est_nn_fail(step.graph, "the schedule has no function; create it with one of "
                                       "the schedule functions");
    if (schedule.decay_steps < 0)
        return est_nn_fail(step.graph, "decay_steps is negative; expected a number of steps "
                                       "above 0");
    if (est_node_dtype(step) == EST_RESOURCE) step = est_read_variable(step);
    step = est_cast(step, EST_F64);
    return est_cast(schedule.warmup_steps > 0 ? warmed_up(&schedule, step) : schedule.rate(&schedule, step), EST_F32);
}
