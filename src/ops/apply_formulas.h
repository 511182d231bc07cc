/* SPDX-License-Identifier: Apache-2.0
 *
 * The formulas of optimizer updates, which the kernels of the CPU (apply_*.c) and of GPUs (apply_*.cu) share: for each
 * rule what is computed once from its scalar inputs, est_<rule>_scalars, and what is done to an element, EST_<RULE>.
 *
 * The latter are statements over element i of w, the variable, of s1..s3, its slots, and of g, the gradient, with k[]
 * the scalars as numbers of type T. `in` are the scalar inputs in order, n of them; `option` is the op's attribute. */
#ifndef EST_OPS_APPLY_FORMULAS_H
#define EST_OPS_APPLY_FORMULAS_H

#include <math.h>
#include <stdbool.h>

#include "base/both.h"

/* Gradient descent. k: 0 lr */
#define EST_DESCENT(T) w[i] -= k[0] * g[i];

/* Adagrad; option: update_slots. k: 0 lr, 1 epsilon, 2 whether the accumulator moves */
#define EST_ADAGRAD(T, SQRT)                                                                                           \
    T next = s1[i] + k[2] * g[i] * g[i];                                                                               \
    s1[i]  = next;                                                                                                     \
    w[i] -= k[0] * g[i] / (SQRT(next) + k[1]);

EST_BOTH void est_adagrad_scalars(const double *in, int n, bool option, double *k)
{
    k[0] = in[0];
    k[1] = n > 1 ? in[1] : 0; /* the first form has no epsilon */
    k[2] = option ? 1 : 0;
}

/* Adam; option: use_nesterov. k: 0 1 - beta1, 1 1 - beta2, 2 epsilon, 3 factor of m, 4 factor of g */
#define EST_ADAM(T, SQRT)                                                                                              \
    T first  = s1[i] + k[0] * (g[i] - s1[i]);                                                                          \
    T second = s2[i] + k[1] * (g[i] * g[i] - s2[i]);                                                                   \
    s1[i]    = first;                                                                                                  \
    s2[i]    = second;                                                                                                 \
    w[i] -= (k[3] * first + k[4] * g[i]) / (SQRT(second) + k[2]);

/* in: beta1_power, beta2_power, lr, beta1, beta2, epsilon */
EST_BOTH void est_adam_scalars(const double *in, int n, bool option, double *k)
{
    double alpha = in[2] * sqrt(1 - in[1]) / (1 - in[0]);

    (void)n;
    k[0] = 1 - in[3];
    k[1] = 1 - in[4];
    k[2] = in[5];
    k[3] = option ? alpha * in[3] : alpha;
    k[4] = option ? alpha * (1 - in[3]) : 0;
}

/* FTRL; option: multiply_linear_by_lr. No sum has two products, of which the compiler would round one, in a vector
 * perhaps another than in the rest after it: the same row must get the same bits in whatever tensor it is.
 * k: 0 scale of g in z, 1 two l2_shrinkage, 2 scale of the powers, 3 l1, 4 two l2, 5 -lr_power */
#define EST_FTRL(T, POWER)                                                                                             \
    T next    = s1[i] + g[i] * g[i];                                                                                   \
    T root    = POWER(next, k[5]);                                                                                     \
    T linear  = s2[i] + k[0] * (g[i] + k[1] * w[i]) - k[2] * (root - POWER(s1[i], k[5])) * w[i];                       \
    T clipped = linear > k[3] ? k[3] : linear;                                                                         \
    clipped   = clipped < -k[3] ? -k[3] : clipped;                                                                     \
    s1[i]     = next;                                                                                                  \
    s2[i]     = linear;                                                                                                \
    w[i]      = (clipped - linear) / (k[2] * root + k[4]);

/* in: lr, l1, l2, [l2_shrinkage,] lr_power */
EST_BOTH void est_ftrl_scalars(const double *in, int n, bool option, double *k)
{
    double by_lr = option ? in[0] : 1;

    k[0] = by_lr;
    k[1] = n == 5 ? 2 * in[3] : 0;
    k[2] = by_lr / in[0];
    k[3] = by_lr * in[1];
    k[4] = by_lr * 2 * in[2];
    k[5] = -in[n - 1];
}

/* Momentum; option: use_nesterov. k: 0 of the accumulator, 1 of g in it, 2 of it in w, 3 of g in w */
#define EST_MOMENTUM(T)                                                                                                \
    T next = k[0] * s1[i] + k[1] * g[i];                                                                               \
    s1[i]  = next;                                                                                                     \
    w[i] += k[2] * next + k[3] * g[i];

/* in: lr, momentum */
EST_BOTH void est_momentum_scalars(const double *in, int n, bool option, double *k)
{
    (void)n;
    k[0] = in[1];
    k[1] = 1;
    k[2] = -in[0] * (option ? in[1] : 1);
    k[3] = option ? -in[0] : 0;
}

EST_BOTH void est_keras_momentum_scalars(const double *in, int n, bool option, double *k)
{
    (void)n;
    k[0] = in[1];
    k[1] = -in[0];
    k[2] = option ? in[1] : 1;
    k[3] = option ? -in[0] : 0;
}

/* RMSProp. k: 0 lr, 1 1 - rho, 2 momentum, 3 epsilon */
#define EST_RMS_PROP(T, SQRT)                                                                                          \
    T square = s1[i] + k[1] * (g[i] * g[i] - s1[i]);                                                                   \
    T step   = k[2] * s2[i] + k[0] * g[i] / SQRT(square + k[3]);                                                       \
    s1[i]    = square;                                                                                                 \
    s2[i]    = step;                                                                                                   \
    w[i] -= step;

#define EST_CENTERED_RMS_PROP(T, SQRT)                                                                                 \
    T square = s2[i] + k[1] * (g[i] * g[i] - s2[i]);                                                                   \
    T mean   = s1[i] + k[1] * (g[i] - s1[i]);                                                                          \
    T step   = k[2] * s3[i] + k[0] * g[i] / SQRT(square - mean * mean + k[3]);                                         \
    s2[i]    = square;                                                                                                 \
    s1[i]    = mean;                                                                                                   \
    s3[i]    = step;                                                                                                   \
    w[i] -= step;

/* in: lr, rho, momentum, epsilon */
EST_BOTH void est_rms_prop_scalars(const double *in, int n, bool option, double *k)
{
    (void)n;
    (void)option;
    k[0] = in[0];
    k[1] = 1 - in[1];
    k[2] = in[2];
    k[3] = in[3];
}

/* RMSprop of Keras; option: epsilon inside the root. k: 0 lr, 1 rho, 2 1 - rho, 3 epsilon, 4 epsilon inside */
#define EST_KERAS_RMS_PROP(T, SQRT)                                                                                    \
    T square = k[1] * s1[i] + k[2] * (g[i] * g[i]);                                                                    \
    s1[i]    = square;                                                                                                 \
    w[i] -= k[0] * g[i] / (SQRT(square + k[4]) + k[3]);

/* Rounding may leave less than 0 under the root of a row that decays. */
#define EST_CENTERED_KERAS_RMS_PROP(T, SQRT)                                                                           \
    T square = k[1] * s2[i] + k[2] * (g[i] * g[i]);                                                                    \
    T mean   = k[1] * s1[i] + k[2] * g[i];                                                                             \
    T step   = k[0] * g[i] / (SQRT(square - mean * mean + k[4]) + k[3]);                                               \
    s2[i]    = square;                                                                                                 \
    s1[i]    = mean;                                                                                                   \
    w[i] -= g[i] == 0 ? 0 : step;

/* in: lr, rho, epsilon */
EST_BOTH void est_keras_rms_prop_scalars(const double *in, int n, bool option, double *k)
{
    (void)n;
    k[0] = in[0];
    k[1] = in[1];
    k[2] = 1 - in[1];
    k[3] = option ? 0 : in[2];
    k[4] = option ? in[2] : 0;
}

/* Adadelta. k: 0 lr, 1 rho, 2 1 - rho, 3 epsilon */
#define EST_ADADELTA(T, SQRT)                                                                                          \
    T square = k[1] * s1[i] + k[2] * g[i] * g[i];                                                                      \
    T update = SQRT(s2[i] + k[3]) / SQRT(square + k[3]) * g[i];                                                        \
    s1[i]    = square;                                                                                                 \
    s2[i]    = k[1] * s2[i] + k[2] * update * update;                                                                  \
    w[i] -= k[0] * update;

/* in: lr, rho, epsilon */
EST_BOTH void est_adadelta_scalars(const double *in, int n, bool option, double *k)
{
    (void)n;
    (void)option;
    k[0] = in[0];
    k[1] = in[1];
    k[2] = 1 - in[1];
    k[3] = in[2];
}

/* Adamax. k: 0 1 - beta1, 1 beta2, 2 epsilon, 3 factor of m */
#define EST_ADAMAX(T, ABS)                                                                                             \
    T first = s1[i] + k[0] * (g[i] - s1[i]), size = ABS(g[i]);                                                         \
    T most = k[1] * s2[i] > size ? k[1] * s2[i] : size;                                                                \
    s1[i]  = first;                                                                                                    \
    s2[i]  = most;                                                                                                     \
    w[i] -= k[3] * first / (most + k[2]);

/* in: beta1_power, lr, beta1, beta2, epsilon */
EST_BOTH void est_adamax_scalars(const double *in, int n, bool option, double *k)
{
    (void)n;
    (void)option;
    k[0] = 1 - in[2];
    k[1] = in[3];
    k[2] = in[4];
    k[3] = in[1] / (1 - in[0]);
}

/* Nadam. k: 0 1 - beta1, 1 1 - beta2, 2 epsilon, 3 factor of m, 4 factor of g, 5 factor of v */
#define EST_NADAM(T, SQRT)                                                                                             \
    T first  = s1[i] + k[0] * (g[i] - s1[i]);                                                                          \
    T second = s2[i] + k[1] * (g[i] * g[i] - s2[i]);                                                                   \
    s1[i]    = first;                                                                                                  \
    s2[i]    = second;                                                                                                 \
    w[i] -= (k[3] * first + k[4] * g[i]) / (SQRT(second * k[5]) + k[2]);

/* in: m_factor, g_factor, beta2_power, lr, beta1, beta2, epsilon */
EST_BOTH void est_nadam_scalars(const double *in, int n, bool option, double *k)
{
    (void)n;
    (void)option;
    k[0] = 1 - in[4];
    k[1] = 1 - in[5];
    k[2] = in[6];
    k[3] = in[3] * in[0];
    k[4] = in[3] * in[1];
    k[5] = 1 / (1 - in[2]);
}

/* Lion. k: 0 lr, 1 beta1, 2 1 - beta1, 3 beta2, 4 1 - beta2 */
#define EST_LION(T)                                                                                                    \
    T way = k[1] * s1[i] + k[2] * g[i];                                                                                \
    w[i] -= k[0] * (T)((way > 0) - (way < 0));                                                                         \
    s1[i] = k[3] * s1[i] + k[4] * g[i];

/* in: lr, beta1, beta2 */
EST_BOTH void est_lion_scalars(const double *in, int n, bool option, double *k)
{
    (void)n;
    (void)option;
    k[0] = in[0];
    k[1] = in[1];
    k[2] = 1 - in[1];
    k[3] = in[2];
    k[4] = 1 - in[2];
}

#endif
