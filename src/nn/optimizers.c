/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizers: one rule each. The update itself is an operation of ops/; a rule creates the slots, passes the
 * hyperparameters and handles sparse gradients. */
#include "base/argument.h"
#include "nn/names.h"
#include "nn/optimizer.h"

/* --- gradient descent and momentum -------------------------------------------------------------------------------- */

static est_node sgd_apply(est_update *u, est_node var, est_gradient g)
{
    est_node rate = est_update_rate(u, var);

    if (g.indices.graph != NULL) return est_scatter_sub(var, g.indices, est_mul(g.values, rate));
    return est_build_apply(&est_op_apply_gradient_descent, NULL, EST_NODES(var, rate), g, EST_NO_ATTRS);
}

static const est_optimizer_rule sgd_rule = { .name             = "SGD",
                                             .apply            = sgd_apply,
                                             .takes_duplicates = true,
                                             .unused_hyper     = "momentum" };

static est_node momentum_apply(est_update *u, est_node var, est_gradient g)
{
    const est_optimizer *o        = u->optimizer;
    est_node             accum    = est_update_slot(u, var, "Momentum", "momentum", 0);
    est_node             momentum = est_update_hyper(u, var, 0);
    est_node             rate     = est_update_rate(u, var);

    return est_build_apply(o->keras ? &est_op_apply_keras_momentum : &est_op_apply_momentum,
                           o->keras ? &est_op_sparse_apply_keras_momentum : &est_op_sparse_apply_momentum,
                           EST_NODES(var, accum, rate, momentum), g,
                           EST_ATTRS(est_attr_bool("use_nesterov", o->nesterov)));
}

static const est_optimizer_rule momentum_rule       = { .name = "Momentum", .apply = momentum_apply };
static const est_optimizer_rule keras_momentum_rule = { .name  = "SGD",
                                                        .apply = momentum_apply,
                                                        .hyper = { "momentum" } };

/* --- Adagrad ------------------------------------------------------------------------------------------------------ */

/* hyper: initial accumulator, epsilon */
static est_node adagrad_apply(est_update *u, est_node var, est_gradient g)
{
    est_node accum = est_update_slot(u, var, "Adagrad", "accumulator", u->optimizer->hyper[0]);
    est_node epsilon, rate;

    if (!u->optimizer->keras) {
        rate = est_update_rate(u, var);
        return est_build_apply(&est_op_apply_adagrad, &est_op_sparse_apply_adagrad, EST_NODES(var, accum, rate), g,
                               EST_NO_ATTRS);
    }
    epsilon = est_update_hyper(u, var, 1);
    rate    = est_update_rate(u, var);
    return est_build_apply(&est_op_apply_adagrad_v2, &est_op_sparse_apply_adagrad_v2,
                           EST_NODES(var, accum, rate, epsilon), g, EST_NO_ATTRS);
}

static const est_optimizer_rule adagrad_rule = { .name = "Adagrad", .apply = adagrad_apply };

/* --- Adam --------------------------------------------------------------------------------------------------------- */

/* The step that is being made, from 1, as float64. */
static est_node step_of(const est_update *u)
{
    return est_shift(est_cast(est_read_variable(u->step), EST_F64), 1);
}

/* A hyperparameter of Keras to the power of t, as float32. */
static est_node power_of(const est_update *u, int i, est_node t)
{
    return est_cast(est_pow(est_cast(est_read_variable(u->hyper[i]), EST_F64), t), EST_F32);
}

/* The powers of the betas at step t: variables multiplied after every step, or beta^(step + 1) as in Keras.
 * hyper: beta1, beta2, epsilon */
static void adam_begin(est_update *u)
{
    static const char *const names[2] = { "beta1_power", "beta2_power" };

    for (int i = 0; i < 2; i++) {
        double beta = u->optimizer->hyper[i];

        if (u->optimizer->keras && u->step.graph != NULL) {
            u->shared[i] = power_of(u, i, step_of(u));
        } else {
            u->shared[i] = est_nn_variable(u->graph, names[i], EST_F32, EST_SHAPE_SCALAR, est_init_constant(beta),
                                           "global_variables");
        }
    }
}

/* A number of begin() in the variable's dtype. */
static est_node shared_number(const est_update *u, est_node var, int i)
{
    est_dtype dtype = est_variable_dtype(var);
    est_node  power = est_node_dtype(u->shared[i]) == EST_RESOURCE ? est_read_variable(u->shared[i]) : u->shared[i];

    return dtype == EST_F32 ? power : est_cast(power, dtype);
}

/* A moving average after the gradient: old + (1 - beta) (value - old). */
static est_node averaged(est_node old, est_node value, est_node beta)
{
    return est_add(est_mul(old, beta), est_mul(value, est_shift(est_neg(beta), 1)));
}

/* w -= rate m / (sqrt(max of all v) + epsilon), with the rate of Adam. */
static est_node amsgrad_apply(est_update *u, est_node var, est_gradient g)
{
    est_node m = est_update_slot(u, var, "Adam", "m", 0), v = est_update_slot(u, var, "Adam", "v", 0);
    est_node most = est_update_slot(u, var, "Adam", "vhat", 0), rate, next_m, next_v, next_most, step;

    if (g.indices.graph != NULL) g = est_update_dense(u, var, g);
    rate = est_mul(est_update_rate(u, var), est_sqrt(est_shift(est_neg(shared_number(u, var, 1)), 1)));
    rate = est_div(rate, est_shift(est_neg(shared_number(u, var, 0)), 1));

    next_m    = averaged(est_read_variable(m), g.values, est_update_hyper(u, var, 0));
    next_v    = averaged(est_read_variable(v), est_square(g.values), est_update_hyper(u, var, 1));
    next_most = est_maximum(est_read_variable(most), next_v);
    step      = est_div(est_mul(next_m, rate), est_add(est_sqrt(next_most), est_update_hyper(u, var, 2)));
    return est_group(u->graph, EST_NODES(est_assign(m, next_m), est_assign(v, next_v), est_assign(most, next_most),
                                         est_assign_sub(var, step)));
}

static est_node adam_apply(est_update *u, est_node var, est_gradient g)
{
    const est_optimizer *o = u->optimizer;
    est_node             m, v, p1, p2, rate, b1, b2;
    bool                 lazy = o->lazy && g.indices.graph != NULL;

    if (o->amsgrad) return amsgrad_apply(u, var, g);
    m    = est_update_slot(u, var, "Adam", "m", 0);
    v    = est_update_slot(u, var, "Adam", "v", 0);
    p1   = shared_number(u, var, 0);
    p2   = shared_number(u, var, 1);
    rate = est_update_rate(u, var);
    b1   = est_update_hyper(u, var, 0);
    b2   = est_update_hyper(u, var, 1);
    return est_build_apply(&est_op_apply_adam, lazy ? &est_op_lazy_adam : &est_op_sparse_adam,
                           EST_NODES(var, m, v, p1, p2, rate, b1, b2, est_update_hyper(u, var, 2)), g,
                           lazy ? EST_NO_ATTRS : EST_ATTRS(est_attr_bool("use_nesterov", o->nesterov)));
}

/* Multiplies the powers once all updates have used them. */
static est_node adam_finish(est_update *u, est_nodes updates)
{
    est_node moved[2];

    if (est_node_dtype(u->shared[0]) != EST_RESOURCE) return EST_NO_NODE;
    for (int i = 0; i < 2; i++) {
        est_node next = est_scale(est_read_variable(u->shared[i]), u->optimizer->hyper[i]);
        moved[i]      = est_assign(u->shared[i], next);
        for (int k = 0; k < updates.n; k++) moved[i] = est_after(moved[i], updates.data[k]);
    }
    return est_group(u->graph, EST_NODES(moved[0], moved[1]));
}

static bool adam_touches_all_rows(const est_optimizer *o)
{
    return !o->lazy;
}

static const est_optimizer_rule adam_rule = { .name             = "Adam",
                                              .begin            = adam_begin,
                                              .apply            = adam_apply,
                                              .finish           = adam_finish,
                                              .hyper            = { "beta_1", "beta_2" },
                                              .touches_all_rows = adam_touches_all_rows,
                                              .instead          = "est_adam with .lazy" };

/* --- RMSProp ------------------------------------------------------------------------------------------------------ */

static est_node keras_rms_prop_apply(est_update *u, est_node var, est_node ms, est_gradient g, est_node mg)
{
    est_node  rate = est_update_rate(u, var), rho = est_update_hyper(u, var, 0), epsilon = est_update_hyper(u, var, 2);
    est_attrs attrs = EST_ATTRS(est_attr_bool("epsilon_inside", u->optimizer->hyper[3] != 0));

    if (mg.graph != NULL) {
        return est_build_apply(&est_op_apply_centered_keras_rms_prop, &est_op_sparse_apply_centered_keras_rms_prop,
                               EST_NODES(var, mg, ms, rate, rho, epsilon), g, attrs);
    }
    return est_build_apply(&est_op_apply_keras_rms_prop, &est_op_sparse_apply_keras_rms_prop,
                           EST_NODES(var, ms, rate, rho, epsilon), g, attrs);
}

/* hyper: decay, momentum, epsilon, whether epsilon is inside of the root */
static est_node rms_prop_apply(est_update *u, est_node var, est_gradient g)
{
    const est_optimizer *o  = u->optimizer;
    est_node             ms = est_update_slot(u, var, "RMSProp", "rms", o->keras ? 0 : 1), mom, mg = EST_NO_NODE;
    est_node             rate, rho, momentum, epsilon;

    if (o->keras && o->hyper[1] == 0) {
        if (o->centered) mg = est_update_slot(u, var, "RMSProp", "mg", 0);
        return keras_rms_prop_apply(u, var, ms, g, mg);
    }
    if (o->centered && !o->keras) mg = est_update_slot(u, var, "RMSProp", "mg", 0);
    mom = est_update_slot(u, var, "RMSProp", "momentum", 0);
    if (o->centered && o->keras) mg = est_update_slot(u, var, "", "mg", 0);
    rate     = est_update_rate(u, var);
    rho      = est_update_hyper(u, var, 0);
    momentum = est_update_hyper(u, var, 1);
    epsilon  = est_update_hyper(u, var, 2);
    if (o->centered) {
        return est_build_apply(&est_op_apply_centered_rms_prop, &est_op_sparse_apply_centered_rms_prop,
                               EST_NODES(var, mg, ms, mom, rate, rho, momentum, epsilon), g, EST_NO_ATTRS);
    }
    return est_build_apply(&est_op_apply_rms_prop, &est_op_sparse_apply_rms_prop,
                           EST_NODES(var, ms, mom, rate, rho, momentum, epsilon), g, EST_NO_ATTRS);
}

static const est_optimizer_rule rms_prop_rule = { .name = "RMSProp", .apply = rms_prop_apply };

static bool keras_rms_prop_touches_all_rows(const est_optimizer *o)
{
    return o->hyper[1] == 0;
}

static const est_optimizer_rule keras_rms_prop_rule = { .name             = "RMSprop",
                                                        .apply            = rms_prop_apply,
                                                        .hyper            = { "rho", "momentum" },
                                                        .touches_all_rows = keras_rms_prop_touches_all_rows,
                                                        .instead = "est_rms_prop with a momentum or without .keras" };

/* --- Adamax and Nadam --------------------------------------------------------------------------------------------- */

/* hyper of both: beta1, beta2, epsilon */
static void adamax_begin(est_update *u)
{
    u->shared[0] = power_of(u, 0, step_of(u));
}

static est_node adamax_apply(est_update *u, est_node var, est_gradient g)
{
    est_node  m = est_update_slot(u, var, "", "m", 0), v = est_update_slot(u, var, "", "v", 0);
    est_nodes in = EST_NODES(var, m, v, shared_number(u, var, 0), est_update_rate(u, var), est_update_hyper(u, var, 0),
                             est_update_hyper(u, var, 1), est_update_hyper(u, var, 2));

    return est_build_apply(&est_op_apply_adamax, u->optimizer->lazy ? &est_op_lazy_adamax : &est_op_sparse_adamax, in,
                           g, EST_NO_ATTRS);
}

static const est_optimizer_rule adamax_rule = { .name             = "Adamax",
                                                .begin            = adamax_begin,
                                                .apply            = adamax_apply,
                                                .hyper            = { "beta_1", "beta_2" },
                                                .touches_all_rows = adam_touches_all_rows,
                                                .instead          = "est_adamax with .lazy" };

/* u_t of step t. */
static est_node nadam_momentum(const est_update *u, est_node t)
{
    est_node decay = est_pow(est_scalar(u->graph, EST_F64, 0.96), t);

    return est_mul(est_cast(est_read_variable(u->hyper[0]), EST_F64), est_shift(est_scale(decay, -0.5), 1));
}

static est_node one_minus(est_node x)
{
    return est_shift(est_neg(x), 1);
}

/* The factors of m and of g, beta2^t, and the variable of the product of all u before t. */
static void nadam_begin(est_update *u)
{
    est_node t = step_of(u), now = nadam_momentum(u, t), next = nadam_momentum(u, est_shift(t, 1)), product;

    u->shared[3] = est_update_keras_number(u, "momentum_cache", EST_F32, 1);
    product      = est_mul(est_cast(est_read_variable(u->shared[3]), EST_F64), now);
    u->shared[0] = est_cast(est_div(next, one_minus(est_mul(product, next))), EST_F32);
    u->shared[1] = est_cast(est_div(one_minus(now), one_minus(product)), EST_F32);
    u->shared[2] = power_of(u, 1, t);
}

static est_node nadam_apply(est_update *u, est_node var, est_gradient g)
{
    est_node  m = est_update_slot(u, var, "", "m", 0), v = est_update_slot(u, var, "", "v", 0);
    est_nodes in = EST_NODES(var, m, v, shared_number(u, var, 0), shared_number(u, var, 1), shared_number(u, var, 2),
                             est_update_rate(u, var), est_update_hyper(u, var, 0), est_update_hyper(u, var, 1),
                             est_update_hyper(u, var, 2));

    return est_build_apply(&est_op_apply_nadam, &est_op_sparse_nadam, in, g, EST_NO_ATTRS);
}

/* Moves the product once all updates have used it. */
static est_node nadam_finish(est_update *u, est_nodes updates)
{
    est_node cache = u->shared[3], now = est_cast(nadam_momentum(u, step_of(u)), EST_F32);
    est_node moved = est_assign(cache, est_mul(est_read_variable(cache), now));

    for (int i = 0; i < updates.n; i++) moved = est_after(moved, updates.data[i]);
    return moved;
}

static const est_optimizer_rule nadam_rule = { .name             = "Nadam",
                                               .begin            = nadam_begin,
                                               .apply            = nadam_apply,
                                               .finish           = nadam_finish,
                                               .hyper            = { "beta_1", "beta_2" },
                                               .touches_all_rows = adam_touches_all_rows,
                                               .instead          = "est_adam with .lazy" };

/* --- Lion --------------------------------------------------------------------------------------------------------- */

/* hyper: beta1, beta2 */
static est_node lion_apply(est_update *u, est_node var, est_gradient g)
{
    est_node  m  = est_update_slot(u, var, "", "m", 0);
    est_nodes in = EST_NODES(var, m, est_update_rate(u, var), est_update_hyper(u, var, 0), est_update_hyper(u, var, 1));

    return est_build_apply(&est_op_apply_lion, &est_op_sparse_lion, in, g, EST_NO_ATTRS);
}

static const est_optimizer_rule lion_rule = { .name             = "Lion",
                                              .apply            = lion_apply,
                                              .hyper            = { "beta_1", "beta_2" },
                                              .touches_all_rows = adam_touches_all_rows,
                                              .instead          = "est_adam with .lazy" };

/* --- FTRL and Adadelta -------------------------------------------------------------------------------------------- */

/* hyper: power, initial accumulator, l1, l2, l2 shrinkage, beta */
static est_node ftrl_apply(est_update *u, est_node var, est_gradient g)
{
    const double *h     = u->optimizer->hyper;
    est_node      accum = est_update_slot(u, var, "Ftrl", "accumulator", h[1]);
    est_node      lin   = est_update_slot(u, var, "Ftrl", "linear", 0);
    est_node      rate = est_update_rate(u, var), l2 = est_update_hyper(u, var, 3), power, shrinkage, l1;

    if (h[5] != 0) l2 = est_add(l2, est_div(est_scale(est_update_hyper(u, var, 5), 0.5), rate));
    power     = est_update_hyper(u, var, 0);
    shrinkage = est_update_hyper(u, var, 4);
    l1        = est_update_hyper(u, var, 2);
    return est_build_apply(&est_op_apply_ftrl_v2, &est_op_sparse_apply_ftrl_v2,
                           EST_NODES(var, accum, lin, rate, l1, l2, shrinkage, power), g, EST_NO_ATTRS);
}

static const est_optimizer_rule ftrl_rule = { .name  = "Ftrl",
                                              .apply = ftrl_apply,
                                              .hyper = { "learning_rate_power", NULL, "l1_regularization_strength",
                                                         "l2_regularization_strength", NULL, "beta" } };

/* hyper: rho, epsilon */
static est_node adadelta_apply(est_update *u, est_node var, est_gradient g)
{
    est_node accum        = est_update_slot(u, var, "Adadelta", "accum_grad", 0);
    est_node accum_update = est_update_slot(u, var, "Adadelta", "accum_var", 0);
    est_node epsilon = est_update_hyper(u, var, 1), rho = est_update_hyper(u, var, 0), rate = est_update_rate(u, var);

    return est_build_apply(&est_op_apply_adadelta, &est_op_sparse_apply_adadelta,
                           EST_NODES(var, accum, accum_update, rate, rho, epsilon), g, EST_NO_ATTRS);
}

static const est_optimizer_rule adadelta_rule = { .name = "Adadelta", .apply = adadelta_apply, .hyper = { "rho" } };

/* --- the values users hold ---------------------------------------------------------------------------------------- */

/* Options that were not made by their macro give an optimizer without a rule; using it fails the graph. */
#define OPTIONS_OR_NOTHING(type, options, o)                                                                           \
    do {                                                                                                               \
        if (!EST_OPTIONS(NULL, type, options, o)) return (est_optimizer){ 0 };                                         \
    } while (0)

est_optimizer est_with_schedule(est_optimizer optimizer, est_schedule schedule)
{
    optimizer.schedule = schedule;
    return optimizer;
}

est_optimizer est_with_clipping(est_optimizer optimizer, double clip_value, double clip_norm, double clip_global_norm)
{
    optimizer.clip_value       = clip_value;
    optimizer.clip_norm        = clip_norm;
    optimizer.clip_global_norm = clip_global_norm;
    return optimizer;
}

est_optimizer est_with_weight_decay(est_optimizer optimizer, double weight_decay, est_strings exclude)
{
    optimizer.weight_decay = weight_decay;
    optimizer.decay_not    = exclude;
    return optimizer;
}

est_optimizer est_with_dense_gradients(est_optimizer optimizer)
{
    optimizer.dense = true;
    return optimizer;
}

est_optimizer est_with_learning_node(est_optimizer optimizer, est_node learning_rate)
{
    optimizer.learning_node = learning_rate;
    return optimizer;
}

est_optimizer est_sgd(double learning_rate)
{
    return (est_optimizer){ .rule = &sgd_rule, .learning_rate = est_or(learning_rate, 0.01) };
}

est_optimizer est_momentum(double learning_rate, const est_momentum_options *options)
{
    est_momentum_options o;

    OPTIONS_OR_NOTHING(est_momentum_options, options, o);
    return (est_optimizer){ .rule          = o.keras ? &keras_momentum_rule : &momentum_rule,
                            .learning_rate = est_or(learning_rate, 0.01),
                            .hyper         = { est_or(o.momentum, 0.9) },
                            .nesterov      = o.nesterov,
                            .keras         = o.keras };
}

est_optimizer est_adagrad(double learning_rate, const est_adagrad_options *options)
{
    est_adagrad_options o;

    OPTIONS_OR_NOTHING(est_adagrad_options, options, o);
    return (est_optimizer){ .rule          = &adagrad_rule,
                            .learning_rate = est_or(learning_rate, 0.001),
                            .hyper         = { est_or(o.initial_accumulator, 0.1), est_or(o.epsilon, 1e-7) },
                            .keras         = o.keras };
}

est_optimizer est_adam(double learning_rate, const est_adam_options *options)
{
    est_adam_options o;

    OPTIONS_OR_NOTHING(est_adam_options, options, o);
    return (est_optimizer){ .rule          = &adam_rule,
                            .learning_rate = est_or(learning_rate, 0.001),
                            .hyper         = { est_or(o.beta1, 0.9), est_or(o.beta2, 0.999),
                                               est_or(o.epsilon, o.keras ? 1e-7 : 1e-8) },
                            .nesterov      = o.nesterov,
                            .lazy          = o.lazy,
                            .keras         = o.keras,
                            .amsgrad       = o.amsgrad };
}

est_optimizer est_rms_prop(double learning_rate, const est_rms_prop_options *options)
{
    est_rms_prop_options o;

    OPTIONS_OR_NOTHING(est_rms_prop_options, options, o);
    return (est_optimizer){ .rule          = o.keras ? &keras_rms_prop_rule : &rms_prop_rule,
                            .learning_rate = est_or(learning_rate, 0.001),
                            .hyper         = { est_or(o.decay, 0.9), est_or(o.momentum, 0),
                                               est_or(o.epsilon, o.keras ? 1e-7 : 1e-10), o.epsilon_inside },
                            .centered      = o.centered,
                            .keras         = o.keras };
}

est_optimizer est_ftrl(double learning_rate, const est_ftrl_options *options)
{
    est_ftrl_options o;

    OPTIONS_OR_NOTHING(est_ftrl_options, options, o);
    return (est_optimizer){ .rule          = &ftrl_rule,
                            .learning_rate = est_or(learning_rate, 0.001),
                            .hyper = { est_or(o.learning_rate_power, -0.5), est_or(o.initial_accumulator, 0.1), o.l1,
                                       o.l2, o.l2_shrinkage, o.beta },
                            .keras = o.keras };
}

est_optimizer est_adadelta(double learning_rate, const est_adadelta_options *options)
{
    est_adadelta_options o;

    OPTIONS_OR_NOTHING(est_adadelta_options, options, o);
    return (est_optimizer){ .rule          = &adadelta_rule,
                            .learning_rate = est_or(learning_rate, 0.001),
                            .hyper         = { est_or(o.rho, 0.95), est_or(o.epsilon, o.keras ? 1e-7 : 1e-8) },
                            .keras         = o.keras };
}

est_optimizer est_adamax(double learning_rate, const est_adamax_options *options)
{
    est_adamax_options o;

    OPTIONS_OR_NOTHING(est_adamax_options, options, o);
    return (est_optimizer){ .rule          = &adamax_rule,
                            .learning_rate = est_or(learning_rate, 0.001),
                            .hyper         = { est_or(o.beta1, 0.9), est_or(o.beta2, 0.999), est_or(o.epsilon, 1e-7) },
                            .lazy          = o.lazy,
                            .keras         = true };
}

est_optimizer est_nadam(double learning_rate, const est_nadam_options *options)
{
    est_nadam_options o;

    OPTIONS_OR_NOTHING(est_nadam_options, options, o);
    return (est_optimizer){ .rule          = &nadam_rule,
                            .learning_rate = est_or(learning_rate, 0.001),
                            .hyper         = { est_or(o.beta1, 0.9), est_or(o.beta2, 0.999), est_or(o.epsilon, 1e-7) },
                            .keras         = true };
}

est_optimizer est_lion(double learning_rate, const est_lion_options *options)
{
    est_lion_options o;

    OPTIONS_OR_NOTHING(est_lion_options, options, o);
    return (est_optimizer){ .rule          = &lion_rule,
                            .learning_rate = est_or(learning_rate, 0.0001),
                            .hyper         = { est_or(o.beta1, 0.9), est_or(o.beta2, 0.99) },
                            .keras         = true };
}

/* --- by name ------------------------------------------------------------------------------------------------------ */

/* The optimizer with a learning rate; keras: Keras' names and formulas, else those of tf.compat.v1.train. */
typedef est_optimizer (*make_fn)(double learning_rate, bool keras);

static est_optimizer make_sgd(double learning_rate, bool keras)
{
    est_optimizer optimizer = est_sgd(learning_rate);

    optimizer.keras = keras;
    return optimizer;
}

static est_optimizer make_momentum(double learning_rate, bool keras)
{
    return est_momentum(learning_rate, EST_MOMENTUM(.keras = keras));
}

static est_optimizer make_adagrad(double learning_rate, bool keras)
{
    return est_adagrad(learning_rate, EST_ADAGRAD(.keras = keras));
}

static est_optimizer make_adam(double learning_rate, bool keras)
{
    return est_adam(learning_rate, EST_ADAM(.keras = keras));
}

static est_optimizer make_adadelta(double learning_rate, bool keras)
{
    return est_adadelta(learning_rate, EST_ADADELTA(.keras = keras));
}

static est_optimizer make_rms_prop(double learning_rate, bool keras)
{
    return est_rms_prop(learning_rate, EST_RMS_PROP(.keras = keras));
}

static est_optimizer make_newer_rms_prop(double learning_rate, bool keras)
{
    return est_rms_prop(learning_rate, EST_RMS_PROP(.keras = keras, .epsilon_inside = keras));
}

static est_optimizer make_adamax(double learning_rate, bool keras)
{
    (void)keras;
    return est_adamax(learning_rate, NULL);
}

static est_optimizer make_nadam(double learning_rate, bool keras)
{
    (void)keras;
    return est_nadam(learning_rate, NULL);
}

static est_optimizer make_adam_w(double learning_rate, bool keras)
{
    return est_with_weight_decay(make_adam(learning_rate, keras), 0.004, (est_strings){ 0 });
}

static est_optimizer make_lion(double learning_rate, bool keras)
{
    (void)keras;
    return est_lion(learning_rate, NULL);
}

static est_optimizer make_ftrl(double learning_rate, bool keras)
{
    return est_ftrl(learning_rate, EST_FTRL(.keras = keras));
}

static est_optimizer make_newer_ftrl(double learning_rate, bool keras)
{
    est_optimizer optimizer = make_ftrl(learning_rate, keras);

    return keras ? est_with_dense_gradients(optimizer) : optimizer;
}

static est_optimizer make_newer_adadelta(double learning_rate, bool keras)
{
    est_optimizer optimizer = make_adadelta(learning_rate, keras);

    return keras ? est_with_dense_gradients(optimizer) : optimizer;
}

typedef struct optimizer_row {
    est_name names;
    make_fn  make;
} optimizer_row;

static const optimizer_row rows[] = {
    { { "sgd" }, make_sgd },
    { { "momentum" }, make_momentum },
    { { "adam" }, make_adam },
    { { "adagrad" }, make_adagrad },
    { { "rmsprop" }, make_newer_rms_prop },
    { { "RMSProp" }, make_rms_prop },
    { { "ftrl" }, make_newer_ftrl },
    { { "Ftrl" }, make_ftrl },
    { { "adadelta" }, make_newer_adadelta },
    { { "adamax" }, make_adamax },
    { { "Adadelta" }, make_adadelta },
    { { "nadam" }, make_nadam },
    { { "adamw" }, make_adam_w },
    { { "lion" }, make_lion },
};

est_status est_optimizer_by_name(const char *name, double learning_rate, bool keras, est_optimizer *out)
{
    const est_name_table table = EST_NAME_TABLE(rows);
    const optimizer_row *row;

    EST_REQUIRE(name);
    EST_REQUIRE(out);
    row = est_name_find(table, name, NULL);
    if (row == NULL) return est_name_unknown("optimizer", name, &table, 1);
    *out = row->make(learning_rate, keras);
    return EST_OK;
}
