/* SPDX-License-Identifier: Apache-2.0
 *
 * FusedBatchNormV3 and its gradient, training and not. */
#include <math.h>
#include <string.h>

#include "support/op_check.h"

static void batch_norm_ref(est_ref *r)
{
    int64_t n_c = r->in_shape[0].dim[3], total = est_shape_count(&r->in_shape[0]);
    double  n = (double)(n_c > 0 ? total / n_c : 0), epsilon = est_node_float(r->node, "epsilon");
    double  f        = est_node_float(r->node, "exponential_avg_factor");
    bool    training = est_node_bool(r->node, "is_training");

    for (int64_t c = 0; c < n_c; c++) {
        double mean = training ? 0 : r->in[3][c], variance = training ? 0 : r->in[4][c];

        for (int64_t i = c; i < total && training; i += n_c) mean += r->in[0][i] / n;
        for (int64_t i = c; i < total && training; i += n_c) variance += pow(r->in[0][i] - mean, 2) / n;
        for (int64_t i = c; i < total; i += n_c) {
            r->out[0][i] = (r->in[0][i] - mean) / sqrt(variance + epsilon) * r->in[1][c] + r->in[2][c];
        }
        r->out[3][c] = mean;
        r->out[4][c] = variance;
        r->out[1][c] = mean;
        r->out[2][c] = training && n > 1 ? variance * n / (n - 1) : variance;
        if (training && f != 1) {
            r->out[1][c] = (1 - f) * r->in[3][c] + f * r->out[1][c];
            r->out[2][c] = (1 - f) * r->in[4][c] + f * r->out[2][c];
        }
    }
}

static void batch_norm_grad_ref(est_ref *r)
{
    int64_t n_c = r->in_shape[1].dim[3], total = est_shape_count(&r->in_shape[1]);
    double  n = (double)(total / n_c), epsilon = est_node_float(r->node, "epsilon");
    bool    training = est_node_bool(r->node, "is_training");

    r->out[3][0] = r->out[4][0] = 0;
    for (int64_t c = 0; c < n_c; c++) {
        double s = 1 / sqrt(r->in[4][c] + epsilon), dscale = 0, doffset = 0;

        for (int64_t i = c; i < total; i += n_c) {
            doffset += r->in[0][i];
            dscale += r->in[0][i] * (r->in[1][i] - r->in[3][c]) * s;
        }
        for (int64_t i = c; i < total; i += n_c) {
            double centered = (r->in[1][i] - r->in[3][c]) * s, dy = r->in[0][i];
            r->out[0][i] = r->in[2][c] * s * (training ? dy - doffset / n - centered * dscale / n : dy);
        }
        r->out[1][c] = dscale;
        r->out[2][c] = doffset;
    }
}

#define POSITIVE(n)                                                                                                    \
    {                                                                                                                  \
        .shape = EST_SHAPE(n), .lo = 0.1, .hi = 2, .no_grad = true                                                     \
    }
#define STILL(n)                                                                                                       \
    {                                                                                                                  \
        .shape = EST_SHAPE(n), .no_grad = true                                                                         \
    }
#define IN_SCALAR                                                                                                      \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR                                                                                      \
    }
#define NORM      "FusedBatchNormV3"
#define NORM_GRAD "FusedBatchNormGradV3"
#define A(...)    .attrs = EST_ATTRS(__VA_ARGS__), .grad_outs = 1u << 0
#define TRAINING  est_attr_bool("is_training", true)
#define GIVEN     est_attr_bool("is_training", false)

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { NORM,
          { IN(3, 2, 2, 4), IN(4), IN(4), STILL(4), POSITIVE(4) },
          A(TRAINING),
          .tol = 1e-5,
          .ref = batch_norm_ref },
        { NORM, { IN(3, 2, 2, 4), IN(4), IN(4), STILL(0), STILL(0) }, A(TRAINING), .tol = 1e-5, .ref = batch_norm_ref },
        { NORM, { IN(3, 2, 2, 4), IN(4), IN(4), STILL(4), POSITIVE(4) }, A(GIVEN), .tol = 1e-5, .ref = batch_norm_ref },
        { NORM,
          { IN(5, 3, 2, 7), IN(7), IN(7), STILL(7), POSITIVE(7) },
          A(TRAINING, est_attr_float("exponential_avg_factor", 0.25), est_attr_float("epsilon", 0.01)),
          .tol = 1e-5,
          .ref = batch_norm_ref },
        { NORM,
          { IN(1, 1, 1, 3), IN(3), IN(3), STILL(3), POSITIVE(3) },
          A(TRAINING),
          .tol     = 1e-5,
          .no_grad = true,
          .ref     = batch_norm_ref }, /* one row: variance 0, no n - 1 */
        { NORM, { IN(0, 2, 2, 3), IN(3), IN(3), STILL(3), POSITIVE(3) }, A(GIVEN), .tol = 1e-5, .ref = batch_norm_ref },
        { NORM,
          { { .shape = EST_SHAPE(20, 9, 9, 70), .lo = 99, .hi = 101 }, IN(70), IN(70), STILL(70), POSITIVE(70) },
          A(TRAINING),
          .tol = 1e-4,
          .ref = batch_norm_ref }, /* far from 0: needs the mean before the squares */
        { NORM,
          { IN(3, 2, 2, 4), IN(5), IN(4), IN(4), IN(4) },
          A(TRAINING),
          .fails = EST_INVALID_ARGUMENT,
          .says  = "5 elements for 4 channels" },
        { NORM,
          { IN(3, 2, 2, 4), IN(4), IN(4), IN(0), IN(0) },
          A(GIVEN),
          .fails = EST_INVALID_ARGUMENT,
          .says  = "0 elements" },
        { NORM,
          { IN(3, 4), IN(4), IN(4), IN(4), IN(4) },
          A(TRAINING),
          .fails = EST_INVALID_ARGUMENT,
          .says  = "rank 4" },
        { NORM_GRAD,
          { IN(3, 2, 2, 5), IN(3, 2, 2, 5), IN(5), IN(5), POSITIVE(5), IN_SCALAR },
          .attrs = EST_ATTRS(TRAINING),
          .tol   = 1e-5,
          .ref   = batch_norm_grad_ref },
        { NORM_GRAD,
          { IN(3, 2, 2, 5), IN(3, 2, 2, 5), IN(5), IN(5), POSITIVE(5), IN_SCALAR },
          .attrs = EST_ATTRS(GIVEN),
          .tol   = 1e-5,
          .ref   = batch_norm_grad_ref },
        { NORM_GRAD,
          { IN(20, 9, 9, 70), IN(20, 9, 9, 70), IN(70), IN(70), POSITIVE(70), IN_SCALAR },
          .attrs = EST_ATTRS(TRAINING),
          .tol   = 1e-4,
          .ref   = batch_norm_grad_ref },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
