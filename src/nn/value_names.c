/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations, initializers and regularizers that have a name. */
#include <math.h>

#include "base/argument.h"
#include "nn/names.h"
#include "nn/nn.h"

/* --- activations -------------------------------------------------------------------------------------------------- */

static est_node linear(est_node x)
{
    return x;
}

/* x P(X <= x) for a normal X. */
static est_node gelu(est_node x)
{
    return est_mul(est_scale(x, 0.5), est_shift(est_erf(est_scale(x, M_SQRT1_2)), 1));
}

static est_node swish(est_node x)
{
    return est_mul(x, est_sigmoid(x));
}

static est_node mish(est_node x)
{
    return est_mul(x, est_tanh(est_softplus(x)));
}

static est_node hard_sigmoid(est_node x)
{
    return est_clip_by_value(est_shift(est_scale(x, 0.2), 0.5), 0, 1);
}

static est_node leaky_relu(est_node x)
{
    return est_leaky_relu(x, 0.2);
}

/* clang-format off */
static const est_activation_row activations[] = {
    { { "relu" }, est_relu }, { { "relu6" }, est_relu6 }, { { "elu" }, est_elu }, { { "selu" }, est_selu },
    { { "tanh" }, est_tanh }, { { "sigmoid" }, est_sigmoid }, { { "softplus" }, est_softplus },
    { { "softsign" }, est_softsign }, { { "gelu" }, gelu }, { { "swish", { "silu" } }, swish }, { { "mish" }, mish },
    { { "exponential" }, est_exp }, { { "hard_sigmoid" }, hard_sigmoid }, { { "leaky_relu" }, leaky_relu },
    { { "softmax" }, est_softmax_last }, { { "linear" }, linear },
};
/* clang-format on */

const est_name_table est_activation_table = EST_NAME_TABLE(activations);

est_status est_activation_by_name(const char *name, est_activation *out)
{
    const est_activation_row *row;

    EST_REQUIRE(name);
    EST_REQUIRE(out);
    row = est_name_find(est_activation_table, name, NULL);
    if (row == NULL) return est_name_unknown("activation", name, &est_activation_table, 1);
    *out = row->function;
    return EST_OK;
}

/* --- initializers ------------------------------------------------------------------------------------------------- */

static est_node make_identity(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    est_node numbers;

    (void)self;
    if (shape.rank != 2) return est_nn_fail(graph, "the initializer identity makes matrices, not rank %d", shape.rank);
    numbers = est_range(est_scalar(graph, EST_I64, 0), est_scalar(graph, EST_I64, (double)shape.dim[0]),
                        est_scalar(graph, EST_I64, 1));
    return est_cast(est_one_hot(numbers, shape.dim[1], 1, 0, -1), dtype);
}

static est_initializer identity(void)
{
    return (est_initializer){ .make = make_identity };
}

static est_initializer random_uniform(void)
{
    return est_init_random_uniform(-0.05, 0.05, 0);
}

static est_initializer random_normal(void)
{
    return est_init_random_normal(0, 0.05, 0);
}

static est_initializer truncated_normal(void)
{
    return est_init_truncated_normal(0, 0.05, 0);
}

static est_initializer variance_scaling(void)
{
    return est_init_variance_scaling(1, EST_FAN_IN, EST_DRAW_TRUNCATED_NORMAL, 0);
}

typedef struct initializer_row {
    est_name names;
    est_initializer (*plain)(void);
    est_initializer (*seeded)(uint64_t seed);
} initializer_row;

/* clang-format off */
static const initializer_row initializers[] = {
    { { "zeros", { "zero", "constant" } }, est_init_zeros }, { { "ones", { "one" } }, est_init_ones },
    { { "identity" }, identity },
    { { "random_uniform", { "uniform" } }, random_uniform }, { { "random_normal", { "normal" } }, random_normal },
    { { "truncated_normal" }, truncated_normal }, { { "variance_scaling" }, variance_scaling },
    { { "glorot_uniform" }, .seeded = est_init_glorot_uniform },
    { { "glorot_normal" }, .seeded = est_init_glorot_normal },
    { { "he_uniform" }, .seeded = est_init_he_uniform }, { { "he_normal" }, .seeded = est_init_he_normal },
    { { "lecun_uniform" }, .seeded = est_init_lecun_uniform }, { { "lecun_normal" }, .seeded = est_init_lecun_normal },
};
/* clang-format on */

est_status est_initializer_by_name(const char *name, est_initializer *out)
{
    const est_name_table   table = EST_NAME_TABLE(initializers);
    const initializer_row *row;

    EST_REQUIRE(name);
    EST_REQUIRE(out);
    row = est_name_find(table, name, NULL);
    if (row == NULL) return est_name_unknown("initializer", name, &table, 1);
    *out = row->plain != NULL ? row->plain() : row->seeded(0);
    return EST_OK;
}

/* --- regularizers ------------------------------------------------------------------------------------------------- */

typedef struct regularizer_row {
    est_name names;
    double   l1, l2;
} regularizer_row;

static const regularizer_row regularizers[] = { { { "l1" }, 0.01, 0 },
                                                { { "l2" }, 0, 0.01 },
                                                { { "l1_l2" }, 0.01, 0.01 } };

est_status est_regularizer_by_name(const char *name, est_regularizer *out)
{
    const est_name_table   table = EST_NAME_TABLE(regularizers);
    const regularizer_row *row;

    EST_REQUIRE(name);
    EST_REQUIRE(out);
    row = est_name_find(table, name, NULL);
    if (row == NULL) return est_name_unknown("regularizer", name, &table, 1);
    *out = est_l1_l2_regularizer(row->l1, row->l2);
    return EST_OK;
}
