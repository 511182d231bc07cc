/* SPDX-License-Identifier: Apache-2.0
 *
 * Initializers and regularizers.
 *
 * Variance scaling: n is fan_in, fan_out or their mean, at least 1; the variance is v = scale / n. Uniform draws lie
 * within sqrt(3 v); a truncated normal gets the deviation sqrt(v) / 0.8796..., which is sqrt(v) again after everything
 * beyond two deviations was redrawn. */
#include <math.h>

#include "nn/nn.h"

#define TRUNCATED_DEVIATION 0.87962566103423978 /* of a unit normal cut at two deviations */

static est_node shape_node(est_graph *graph, est_shape shape)
{
    return est_const_list(graph, (est_i64s){ shape.dim, shape.rank });
}

/* x * factor + term, without the parts that do nothing. */
static est_node affine(est_node x, double factor, double term)
{
    if (factor != 1) x = est_scale(x, factor);
    return term != 0 ? est_shift(x, term) : x;
}

static est_node make_constant(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    est_node value = est_scalar(graph, dtype, self->a);

    return shape.rank == 0 ? value : est_fill(shape_node(graph, shape), value);
}

static est_node make_uniform(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    return affine(est_random_uniform(shape_node(graph, shape), dtype, self->seed), self->b - self->a, self->a);
}

static est_node make_normal(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    return affine(est_random_normal(shape_node(graph, shape), dtype, self->seed), self->b, self->a);
}

static est_node make_truncated(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    return affine(est_truncated_normal(shape_node(graph, shape), dtype, self->seed), self->b, self->a);
}

static void fans(est_shape shape, double *in, double *out)
{
    double area = 1;

    for (int i = 0; i < shape.rank - 2; i++) area *= (double)shape.dim[i];
    *in  = shape.rank == 0 ? 1 : shape.rank == 1 ? (double)shape.dim[0] : area * (double)shape.dim[shape.rank - 2];
    *out = shape.rank == 0 ? 1 : area * (double)shape.dim[shape.rank - 1];
}

/* The initializer that variance scaling is equivalent to for a shape. */
static est_initializer scaled(const est_initializer *self, est_shape shape)
{
    double          fan_in, fan_out, n, variance;
    est_initializer draw = *self;

    fans(shape, &fan_in, &fan_out);
    n        = self->fan == EST_FAN_IN ? fan_in : self->fan == EST_FAN_OUT ? fan_out : (fan_in + fan_out) / 2;
    variance = self->a / fmax(1, n);
    if (self->distribution == EST_DRAW_UNIFORM) {
        draw.make = make_uniform;
        draw.b    = sqrt(3 * variance);
        draw.a    = -draw.b;
        return draw;
    }
    draw.make = self->distribution == EST_DRAW_NORMAL ? make_normal : make_truncated;
    draw.a    = 0;
    draw.b    = sqrt(variance);
    if (draw.make == make_truncated) draw.b /= TRUNCATED_DEVIATION;
    return draw;
}

static est_node make_scaled(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    est_initializer draw = scaled(self, shape);

    return draw.make(&draw, graph, dtype, shape);
}

est_initializer est_init_zeros(void)
{
    return est_init_constant(0);
}

est_initializer est_init_ones(void)
{
    return est_init_constant(1);
}

est_initializer est_init_constant(double value)
{
    return (est_initializer){ .make = make_constant, .a = value };
}

est_initializer est_init_random_uniform(double low, double high, uint64_t seed)
{
    return (est_initializer){ .make = make_uniform, .a = low, .b = high, .seed = seed };
}

est_initializer est_init_random_normal(double mean, double deviation, uint64_t seed)
{
    return (est_initializer){ .make = make_normal, .a = mean, .b = deviation, .seed = seed };
}

est_initializer est_init_truncated_normal(double mean, double deviation, uint64_t seed)
{
    return (est_initializer){ .make = make_truncated, .a = mean, .b = deviation, .seed = seed };
}

est_initializer est_init_variance_scaling(double scale, est_fan fan, est_distribution distribution, uint64_t seed)
{
    return (est_initializer){ .make = make_scaled, .a = scale, .fan = fan, .distribution = distribution, .seed = seed };
}

est_initializer est_init_glorot_uniform(uint64_t seed)
{
    return est_init_variance_scaling(1, EST_FAN_AVG, EST_DRAW_UNIFORM, seed);
}

est_initializer est_init_glorot_normal(uint64_t seed)
{
    return est_init_variance_scaling(1, EST_FAN_AVG, EST_DRAW_TRUNCATED_NORMAL, seed);
}

est_initializer est_init_he_uniform(uint64_t seed)
{
    return est_init_variance_scaling(2, EST_FAN_IN, EST_DRAW_UNIFORM, seed);
}

est_initializer est_init_he_normal(uint64_t seed)
{
    return est_init_variance_scaling(2, EST_FAN_IN, EST_DRAW_TRUNCATED_NORMAL, seed);
}

est_initializer est_init_lecun_uniform(uint64_t seed)
{
    return est_init_variance_scaling(1, EST_FAN_IN, EST_DRAW_UNIFORM, seed);
}

est_initializer est_init_lecun_normal(uint64_t seed)
{
    return est_init_variance_scaling(1, EST_FAN_IN, EST_DRAW_TRUNCATED_NORMAL, seed);
}

est_node est_initial_value(est_initializer initializer, est_graph *graph, est_dtype dtype, est_shape shape)
{
    if (initializer.make == NULL)
        return est_nn_fail(graph, "the initializer has no function; use one of "
                                  "est_init_...() or set .make");
    return initializer.make(&initializer, graph, dtype, shape);
}

bool est_nn_row_draw(const est_initializer *initializer, const est_graph *graph, int64_t width, est_row_draw *out)
{
    est_initializer draw = initializer->make == make_scaled ? scaled(initializer, EST_SHAPE(1, width)) : *initializer;

    *out = (est_row_draw){ .a = draw.a, .b = draw.b, .seed = draw.seed != 0 ? draw.seed : est_graph_seed(graph) };
    if (draw.make == make_constant) {
        out->distribution = EST_ROW_CONSTANT;
    } else if (draw.make == make_uniform) {
        out->distribution = EST_ROW_UNIFORM;
    } else if (draw.make == make_normal) {
        out->distribution = EST_ROW_NORMAL;
    } else if (draw.make == make_truncated) {
        out->distribution = EST_ROW_TRUNCATED;
    } else {
        return false;
    }
    return true;
}

/* --- regularizers ------------------------------------------------------------------------------------------------- */

static est_node l1_l2_cost(const est_regularizer *self, est_node weights)
{
    est_node l1 = self->l1 != 0 ? est_scale(est_sum(est_abs(weights)), self->l1) : EST_NO_NODE;
    est_node l2 = self->l2 != 0 ? est_scale(est_sum(est_square(weights)), self->l2) : EST_NO_NODE;

    if (l1.graph == NULL && l2.graph == NULL) return est_scalar(weights.graph, est_node_dtype(weights), 0);
    return l1.graph == NULL ? l2 : l2.graph == NULL ? l1 : est_add(l1, l2);
}

est_regularizer est_l1_regularizer(double l1)
{
    return est_l1_l2_regularizer(l1, 0);
}

est_regularizer est_l2_regularizer(double l2)
{
    return est_l1_l2_regularizer(0, l2);
}

est_regularizer est_l1_l2_regularizer(double l1, double l2)
{
    return (est_regularizer){ .cost = l1_l2_cost, .l1 = l1, .l2 = l2 };
}
