/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers: how gradients update variables.
 *
 * An optimizer is a plain value, created without a graph, so that it can be used in the options of an estimator.
 * est_minimize() turns it into operations. Formulas and defaults are those of TensorFlow's tf.compat.v1.train, or with
 * .keras those of the legacy Keras optimizers where the two differ; slots are variables named as there:
 * "dense/kernel/Adam" and "dense/kernel/Adam_1", or "training/Adam/dense/kernel/m". Keras also keeps hyperparameters
 * in variables: the values of a restored checkpoint override those of the program. The learning rate is the float32
 * scalar "training/<name>/learning_rate" ("training/Adam/learning_rate", also of est_sgd and est_momentum, which are
 * "SGD"), unless it follows a schedule or is a node; assign to it to change the rate of the steps to come.
 *
 * A learning rate of 0 is the documented default; EST_OFF stands for 0 where a field's 0 means something else. Sparse
 * gradients touch only their rows, duplicates summed first, except where noted.
 *
 * Threading: any thread; building with them is one thread at a time per graph. */
#ifndef ESTOC_OPTIMIZERS_H
#define ESTOC_OPTIMIZERS_H

#include "estoc/schedules.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_optimizer_rule est_optimizer_rule; /* the library's own */

/* The functions below make it; its members are theirs, and a program reads none but whether there is a rule. */
typedef struct est_optimizer {
    const est_optimizer_rule *rule; /* NULL: no optimizer */
    double                    learning_rate;
    est_schedule              schedule;      /* rate NULL: the learning rate, always */
    est_node                  learning_node; /* EST_NO_NODE: the above; else the rate, computed by your graph */
    double                    hyper[8];      /* the rule's own numbers */
    bool                      nesterov, centered, lazy, keras, amsgrad, dense;
    double                    clip_value, clip_norm, clip_global_norm; /* 0: off */
    double                    weight_decay;                            /* 0: off */
    est_strings               decay_not;                               /* names without it; borrowed */
    uint64_t                  reserved[2];                             /* zeros: room for members to come */
} est_optimizer;

/* The optimizer with another learning rate, in place of the number it was made with: one that follows a schedule, or a
 * float32 scalar of the graph. */
EST_API est_optimizer est_with_schedule(est_optimizer optimizer, est_schedule schedule);
EST_API est_optimizer est_with_learning_node(est_optimizer optimizer, est_node learning_rate);

/* The optimizer with gradients that it clips before it applies them: in replicas after those of all have become one, as
 * Keras does. Options of the same names come instead of it where est_minimize has them. Each 0: off. */
EST_API est_optimizer est_with_clipping(est_optimizer optimizer, double clip_value, double clip_norm,
                                        double clip_global_norm);

/* The optimizer with weights that decay: w -= lr weight_decay w in every step before the update, for each variable that
 * has a gradient (tf.keras' weight_decay; with est_adam and .keras it is AdamW). Variables whose names have one of
 * `exclude` in them do not decay; the list is borrowed as long as the optimizer. 0: off. Dynamic embeddings refuse it,
 * since it changes every row. */
EST_API est_optimizer est_with_weight_decay(est_optimizer optimizer, double weight_decay, est_strings exclude);

/* The optimizer that takes a sparse gradient as the dense one that it stands for: each step updates every row, also by
 * the momentum of earlier ones, as tf.keras does since 2.11 for SGD and RMSprop with momentum, Adadelta and Ftrl.
 * Dynamic embeddings refuse it. */
EST_API est_optimizer est_with_dense_gradients(est_optimizer optimizer);

/* w -= lr g. Learning rate 0: 0.01. */
EST_API est_optimizer est_sgd(double learning_rate);

typedef struct est_momentum_options {
    size_t struct_size; /* filled by EST_MOMENTUM */
    double momentum;    /* 0: 0.9; EST_OFF: 0 */
    bool   nesterov;
    bool   keras; /* a = m a - lr g; w += a, in place of a = m a + g; w -= lr a */
} est_momentum_options;
#define EST_MOMENTUM(...)                                                                                              \
    (&(const est_momentum_options){ .struct_size = EST_STRUCT_SIZE(est_momentum_options), __VA_ARGS__ })
/* Learning rate 0: 0.01. */
EST_API est_optimizer est_momentum(double learning_rate, const est_momentum_options *options);

typedef struct est_adagrad_options {
    size_t struct_size;         /* filled by EST_ADAGRAD */
    double initial_accumulator; /* 0: 0.1; EST_OFF: 0 */
    double epsilon;             /* keras: 0: 1e-7; EST_OFF: 0 */
    bool   keras;               /* w -= lr g / (sqrt(A) + epsilon), in place of no epsilon */
} est_adagrad_options;
#define EST_ADAGRAD(...)                                                                                               \
    (&(const est_adagrad_options){ .struct_size = EST_STRUCT_SIZE(est_adagrad_options), __VA_ARGS__ })
/* A += g^2; w -= lr g / sqrt(A). Learning rate 0: 0.001. */
EST_API est_optimizer est_adagrad(double learning_rate, const est_adagrad_options *options);

typedef struct est_adam_options {
    size_t struct_size; /* filled by EST_ADAM */
    double beta1;       /* 0: 0.9; EST_OFF: 0 */
    double beta2;       /* 0: 0.999; EST_OFF: 0 */
    double epsilon;     /* 0: 1e-8, keras 1e-7; EST_OFF: 0 */
    bool   nesterov;
    bool   lazy;  /* a sparse gradient updates only its rows; otherwise, as in TensorFlow, every row of w, m and v */
    bool   keras; /* powers of the betas from the global step, in place of variables of their own */
    /* w moves by the largest v so far, a slot "vhat"; without .nesterov and .lazy, which it ignores */
    bool amsgrad;
} est_adam_options;
#define EST_ADAM(...) (&(const est_adam_options){ .struct_size = EST_STRUCT_SIZE(est_adam_options), __VA_ARGS__ })
/* m += (1 - beta1) (g - m); v += (1 - beta2) (g^2 - v); w -= lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + eps).
 * Learning rate 0: 0.001. */
EST_API est_optimizer est_adam(double learning_rate, const est_adam_options *options);

typedef struct est_rms_prop_options {
    size_t struct_size; /* filled by EST_RMS_PROP */
    double decay;       /* 0: 0.9; EST_OFF: 0 */
    double momentum;    /* 0: 0 */
    double epsilon;     /* 0: 1e-10, keras 1e-7; EST_OFF: 0 */
    bool   centered;
    bool keras; /* ms starts at 0, not 1; without momentum w -= lr g / (sqrt(ms) + epsilon), and ms decays everywhere */
    bool epsilon_inside; /* keras without momentum: sqrt(ms + epsilon), as tf.keras has since 2.11 */
} est_rms_prop_options;
#define EST_RMS_PROP(...)                                                                                              \
    (&(const est_rms_prop_options){ .struct_size = EST_STRUCT_SIZE(est_rms_prop_options), __VA_ARGS__ })
/* ms += (1 - decay) (g^2 - ms); mom = momentum mom + lr g / sqrt(ms - mg^2 + epsilon), mg 0 unless centered; w -= mom.
 * Learning rate 0: 0.001. */
EST_API est_optimizer est_rms_prop(double learning_rate, const est_rms_prop_options *options);

typedef struct est_ftrl_options {
    size_t struct_size;         /* filled by EST_FTRL */
    double learning_rate_power; /* 0: -0.5; EST_OFF: 0 */
    double initial_accumulator; /* 0: 0.1; EST_OFF: 0 */
    double l1, l2;
    double l2_shrinkage;
    double beta; /* adds beta / (2 lr) to l2 */
    bool   keras;
} est_ftrl_options;
#define EST_FTRL(...) (&(const est_ftrl_options){ .struct_size = EST_STRUCT_SIZE(est_ftrl_options), __VA_ARGS__ })
/* FTRL-proximal. Learning rate 0: 0.001. */
EST_API est_optimizer est_ftrl(double learning_rate, const est_ftrl_options *options);

typedef struct est_adadelta_options {
    size_t struct_size; /* filled by EST_ADADELTA */
    double rho;         /* 0: 0.95; EST_OFF: 0 */
    double epsilon;     /* 0: 1e-8, keras 1e-7; EST_OFF: 0 */
    bool   keras;
} est_adadelta_options;
#define EST_ADADELTA(...)                                                                                              \
    (&(const est_adadelta_options){ .struct_size = EST_STRUCT_SIZE(est_adadelta_options), __VA_ARGS__ })
/* A = rho A + (1 - rho) g^2; u = sqrt(D + eps) / sqrt(A + eps) g; w -= lr u; D = rho D + (1 - rho) u^2. Learning rate
 * 0: 0.001. */
EST_API est_optimizer est_adadelta(double learning_rate, const est_adadelta_options *options);

/* The next three are of Keras only: names and counters are Keras' always. Their sparse gradients change every row,
 * except where noted. */
typedef struct est_adamax_options {
    size_t struct_size; /* filled by EST_ADAMAX */
    double beta1;       /* 0: 0.9; EST_OFF: 0 */
    double beta2;       /* 0: 0.999; EST_OFF: 0 */
    double epsilon;     /* 0: 1e-7; EST_OFF: 0 */
    bool   lazy;        /* a sparse gradient updates only its rows, as tf.keras.optimizers.legacy does */
} est_adamax_options;
#define EST_ADAMAX(...) (&(const est_adamax_options){ .struct_size = EST_STRUCT_SIZE(est_adamax_options), __VA_ARGS__ })
/* m += (1 - beta1) (g - m); v = max(beta2 v, |g|); w -= lr / (1 - beta1^t) m / (v + eps). Learning rate 0: 0.001. */
EST_API est_optimizer est_adamax(double learning_rate, const est_adamax_options *options);

typedef struct est_nadam_options {
    size_t struct_size; /* filled by EST_NADAM */
    double beta1;       /* 0: 0.9; EST_OFF: 0 */
    double beta2;       /* 0: 0.999; EST_OFF: 0 */
    double epsilon;     /* 0: 1e-7; EST_OFF: 0 */
} est_nadam_options;
#define EST_NADAM(...) (&(const est_nadam_options){ .struct_size = EST_STRUCT_SIZE(est_nadam_options), __VA_ARGS__ })
/* Adam with Nesterov's momentum by the schedule of tf.keras 2.15: u_t = beta1 (1 - 0.96^t / 2), U_t = u_1 ... u_t,
 * n = u_{t+1} m / (1 - U_{t+1}) + (1 - u_t) g / (1 - U_t); w -= lr n / (sqrt(v / (1 - beta2^t)) + epsilon). Learning
 * rate 0: 0.001. */
EST_API est_optimizer est_nadam(double learning_rate, const est_nadam_options *options);

typedef struct est_lion_options {
    size_t struct_size; /* filled by EST_LION */
    double beta1;       /* 0: 0.9; EST_OFF: 0 */
    double beta2;       /* 0: 0.99; EST_OFF: 0 */
} est_lion_options;
#define EST_LION(...) (&(const est_lion_options){ .struct_size = EST_STRUCT_SIZE(est_lion_options), __VA_ARGS__ })
/* w -= lr sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g. Learning rate 0: 0.0001. */
EST_API est_optimizer est_lion(double learning_rate, const est_lion_options *options);

/* An optimizer by its name in Keras, in any case: "adadelta", "adagrad", "adam", "adamax", "adamw" (est_adam with a
 * weight decay of 0.004), "ftrl", "lion", "nadam", "rmsprop", "sgd"; also "momentum". With keras the formulas are those
 * of tf.keras 2.15 (the newer rmsprop has .epsilon_inside, adadelta and ftrl have dense gradients), but "RMSProp",
 * "Adadelta" and "Ftrl", spelled so as in estimators, are the legacy ones. The error for an unknown name offers the
 * nearest one. Learning rate 0: its default. */
EST_API EST_MUST_CHECK est_status est_optimizer_by_name(const char *name, double learning_rate, bool keras,
                                                        est_optimizer *out);

/* --- training ----------------------------------------------------------------------------------------------------- */

typedef struct est_minimize_options {
    size_t      struct_size; /* filled by EST_MINIMIZE */
    const char *name;        /* of the training operation; NULL: the optimizer's */
    est_nodes   variables;   /* empty: every trainable one */
    est_node    global_step; /* EST_NO_NODE: est_global_step(); its handle otherwise */
    /* true: not incremented (another optimizer does it); .keras: a counter "iter" instead */
    bool   no_global_step;
    bool   no_update_ops;    /* true: est_update_ops() do not run with the step */
    double clip_value;       /* 0: off; each element of a gradient to [-clip_value, clip_value] */
    double clip_norm;        /* 0: off; each gradient to that norm */
    double clip_global_norm; /* 0: off; all gradients together */
    /* between the names of a variable and of its slot; NULL: nothing. Of .keras: before the names of all its variables;
     * NULL: "training" */
    const char *slot_scope;
    /* true: the learning rate is in a variable also without .keras, and has the name that .keras gives it */
    bool learning_rate_variable;
    /* true: slots and other variables of an optimizer that the graph has by the same names are used again: several
     * training operations of one graph are of one optimizer, which slot_scope tells from others */
    bool share_slots;
} est_minimize_options;
#define EST_MINIMIZE(...)                                                                                              \
    (&(const est_minimize_options){ .struct_size = EST_STRUCT_SIZE(est_minimize_options), __VA_ARGS__ })

/* Computes the gradients of the loss (a scalar; anything else is summed) and applies them: returns one operation to run
 * as a target for a training step. */
EST_API est_node est_minimize(est_optimizer optimizer, est_node loss, const est_minimize_options *options);

/* Its two halves. gradients has one entry per variable; a variable that the loss does not depend on has none, and is
 * not updated. Clipping is part of the first, counting steps of the second. In a replica (estoc/strategy.h) the first
 * is the replica's own, clipping included; the second reduces the gradients across replicas and returns the same
 * operation to all, which updates each variable once. */
EST_API void     est_compute_gradients(est_node loss, est_nodes variables, est_gradient *gradients,
                                       const est_minimize_options *options);
EST_API est_node est_apply_gradients(est_optimizer optimizer, est_nodes variables, const est_gradient *gradients,
                                     const est_minimize_options *options);

/* Each gradient bounded by itself, sparse ones after duplicates are summed. */
EST_API void est_clip_gradients_by_value(est_gradient *gradients, int n, double limit);
EST_API void est_clip_gradients_by_norm(est_gradient *gradients, int n, double norm);

#ifdef __cplusplus
}
#endif
#endif
