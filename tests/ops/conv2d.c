/* SPDX-License-Identifier: Apache-2.0
 *
 * Conv2D and its gradients: paddings, strides, dilations, channels that fit no vector, shapes for each of the kernels.
 * The harness tries every kernel that accepts a case. */
#include "ops/conv_ref.h"

#define CONV   "Conv2D"
#define INPUT  "Conv2DBackpropInput"
#define FILTER "Conv2DBackpropFilter"
#define A(...) .attrs = EST_ATTRS(__VA_ARGS__)

/* Small enough to check every element of the gradients. */
static int forward_small(int argc, char **argv)
{
    const est_op_case cases[] = {
        { CONV, { IN(1, 3, 3, 1), IN(2, 2, 1, 1) }, A(VALID(1, 1)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(2, 5, 4, 3), IN(3, 2, 3, 5) }, A(SAME(1, 1)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(2, 5, 4, 3), IN(3, 2, 3, 5) }, A(SAME(2, 2)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(1, 7, 6, 2), IN(3, 3, 2, 9) }, A(VALID(2, 3)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(2, 5, 5, 3), IN(1, 1, 3, 4) }, A(SAME(1, 1)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(2, 5, 5, 3), IN(1, 1, 3, 8) }, A(SAME(2, 2)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(1, 9, 8, 2), IN(3, 2, 2, 7) }, A(VALID(1, 1), DILATED(2, 3)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(1, 9, 8, 2), IN(3, 2, 2, 7) }, A(SAME(1, 1), DILATED(3, 2)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(1, 5, 4, 2), IN(3, 3, 2, 6) }, A(EXPLICIT(1, 1, 2, 1, 0, 3)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(1, 5, 4, 2), IN(2, 2, 2, 6) }, A(EXPLICIT(2, 1, 3, 0, 2, 2)), .tol = 1e-6, .ref = conv_ref },
        { CONV,
          { IN(1, 2, 2, 1), IN(5, 5, 1, 8) },
          A(SAME(1, 1)),
          .tol = 1e-6,
          .ref = conv_ref }, /* window beyond image */
        { CONV,
          { IN(1, 7, 7, 1), IN(2, 2, 1, 8) },
          A(SAME(4, 4)),
          .tol = 1e-6,
          .ref = conv_ref }, /* steps over pixels */
        { CONV, { IN(0, 5, 5, 2), IN(3, 3, 2, 8) }, A(SAME(1, 1)), .tol = 0, .ref = conv_ref },
        { CONV, { IN(2, 5, 5, 0), IN(3, 3, 0, 8) }, A(SAME(1, 1)), .tol = 0, .ref = conv_ref },
        { CONV, { IN(2, 5, 5, 2), IN(3, 3, 2, 0) }, A(SAME(1, 1)), .tol = 0, .ref = conv_ref },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}

/* The sizes kernels are made for, and what is refused. */
static int forward_large(int argc, char **argv)
{
    const est_op_case cases[] = {
        { CONV, { IN(9, 28, 28, 1), IN(3, 3, 1, 32) }, A(VALID(1, 1)), .tol = 1e-5, .ref = conv_ref },
        { CONV, { IN(3, 28, 28, 1), IN(5, 5, 1, 32) }, A(SAME(1, 1)), .tol = 1e-5, .ref = conv_ref },
        { CONV, { IN(3, 13, 13, 32), IN(3, 3, 32, 64) }, A(VALID(1, 1)), .tol = 2e-5, .ref = conv_ref },
        { CONV, { IN(2, 17, 15, 24), IN(3, 3, 24, 40) }, A(SAME(1, 1)), .tol = 2e-5, .ref = conv_ref },
        { CONV, { IN(2, 23, 23, 3), IN(7, 7, 3, 20) }, A(SAME(2, 2)), .tol = 2e-5, .ref = conv_ref },
        { CONV, { IN(2, 14, 14, 32), IN(1, 1, 32, 48) }, A(VALID(1, 1)), .tol = 2e-5, .ref = conv_ref },
        { CONV, { IN(2, 12, 12, 100), IN(3, 3, 100, 17) }, A(SAME(1, 1)), .tol = 5e-5, .ref = conv_ref },
        { CONV,
          { IN(1, 40, 41, 70), IN(3, 3, 70, 8) },
          A(SAME(1, 1)),
          .tol = 5e-5,
          .ref = conv_ref }, /* several bands */
        /* refused */
        { CONV,
          { IN(1, 5, 5, 2), IN(3, 3, 3, 8) },
          A(SAME(1, 1)),
          .fails = EST_INVALID_ARGUMENT,
          .says  = "2 channels" },
        { CONV, { IN(1, 5, 5), IN(3, 3, 3, 8) }, A(SAME(1, 1)), .fails = EST_INVALID_ARGUMENT, .says = "rank 4" },
        { CONV,
          { IN(1, 2, 5, 1), IN(3, 3, 1, 8) },
          A(VALID(1, 1)),
          .fails = EST_INVALID_ARGUMENT,
          .says  = "height of 2" },
        { CONV, { IN(1, 5, 5, 1), IN(3, 3, 1, 8) }, A(VALID(0, 1)), .fails = EST_INVALID_ARGUMENT, .says = "strides" },
        { CONV,
          { IN(1, 5, 5, 1), IN(3, 3, 1, 8) },
          A(SAME(1, 1), est_attr_string("data_format", "NCHW")),
          .fails = EST_UNIMPLEMENTED,
          .says  = "NCHW" },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}

static int input_gradient(int argc, char **argv)
{
    const est_op_case cases[] = {
        { INPUT, { SIZES(2, 5, 4, 3), IN(3, 2, 3, 5), IN(2, 5, 4, 5) }, A(SAME(1, 1)), .tol = 1e-6, .ref = input_ref },
        { INPUT, { SIZES(2, 5, 4, 3), IN(3, 2, 3, 5), IN(2, 3, 2, 5) }, A(SAME(2, 2)), .tol = 1e-6, .ref = input_ref },
        { INPUT, { SIZES(1, 6, 7, 9), IN(3, 3, 9, 4), IN(1, 4, 5, 4) }, A(VALID(1, 1)), .tol = 1e-6, .ref = input_ref },
        { INPUT,
          { SIZES(1, 9, 8, 8), IN(3, 2, 8, 7), IN(1, 5, 5, 7) },
          A(VALID(1, 1), DILATED(2, 3)),
          .tol = 1e-6,
          .ref = input_ref },
        { INPUT,
          { SIZES(1, 5, 4, 8), IN(2, 2, 8, 6), IN(1, 4, 7, 6) },
          A(EXPLICIT(2, 1, 3, 0, 2, 2)),
          .tol = 1e-6,
          .ref = input_ref },
        { INPUT,
          { SIZES(1, 4, 4, 8), IN(2, 2, 8, 3), IN(1, 7, 6, 3) },
          A(EXPLICIT(1, 1, 3, 1, 2, 1)),
          .tol = 1e-6,
          .ref = input_ref }, /* padding beyond the window: the mirrored convolution would cut the image */
        { INPUT, { SIZES(1, 8, 8, 7), IN(2, 2, 7, 3), IN(1, 3, 3, 3) }, A(VALID(3, 3)), .tol = 1e-6, .ref = input_ref },
        { INPUT, { SIZES(2, 4, 4, 3), IN(1, 1, 3, 5), IN(2, 4, 4, 5) }, A(SAME(1, 1)), .tol = 1e-6, .ref = input_ref },
        { INPUT, { SIZES(0, 5, 4, 3), IN(3, 2, 3, 5), IN(0, 5, 4, 5) }, A(SAME(1, 1)), .tol = 0, .ref = input_ref },
        { INPUT, { SIZES(1, 4, 4, 8), IN(3, 3, 8, 0), IN(1, 4, 4, 0) }, A(SAME(1, 1)), .tol = 0, .ref = input_ref },
        { INPUT,
          { SIZES(3, 13, 13, 32), IN(3, 3, 32, 64), IN(3, 11, 11, 64) },
          A(VALID(1, 1)),
          .tol = 5e-5,
          .ref = input_ref },
        { INPUT,
          { SIZES(3, 28, 28, 1), IN(5, 5, 1, 32), IN(3, 28, 28, 32) },
          A(SAME(1, 1)),
          .tol = 5e-5,
          .ref = input_ref },
        { INPUT,
          { SIZES(1, 5, 4, 3), IN(3, 2, 3, 5), IN(1, 4, 4, 5) },
          A(SAME(1, 1)),
          .fails = EST_INVALID_ARGUMENT,
          .says  = "[1,5,4,5]" },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}

static int filter_gradient(int argc, char **argv)
{
    const est_op_case cases[] = {
        { FILTER,
          { IN(2, 5, 4, 3), SIZES(3, 2, 3, 5), IN(2, 5, 4, 5) },
          A(SAME(1, 1)),
          .tol = 2e-6,
          .ref = filter_ref },
        { FILTER,
          { IN(2, 5, 4, 3), SIZES(3, 2, 3, 8), IN(2, 3, 2, 8) },
          A(SAME(2, 2)),
          .tol = 1e-6,
          .ref = filter_ref },
        { FILTER,
          { IN(1, 6, 7, 1), SIZES(3, 3, 1, 33), IN(1, 4, 5, 33) },
          A(VALID(1, 1)),
          .tol = 1e-6,
          .ref = filter_ref },
        { FILTER,
          { IN(1, 9, 8, 8), SIZES(3, 2, 8, 7), IN(1, 5, 5, 7) },
          A(VALID(1, 1), DILATED(2, 3)),
          .tol = 2e-6,
          .ref = filter_ref },
        { FILTER,
          { IN(1, 5, 4, 2), SIZES(2, 2, 2, 6), IN(1, 4, 7, 6) },
          A(EXPLICIT(2, 1, 3, 0, 2, 2)),
          .tol = 1e-6,
          .ref = filter_ref },
        { FILTER,
          { IN(2, 4, 4, 3), SIZES(1, 1, 3, 5), IN(2, 4, 4, 5) },
          A(SAME(1, 1)),
          .tol = 1e-6,
          .ref = filter_ref },
        { FILTER, { IN(0, 5, 4, 3), SIZES(3, 2, 3, 8), IN(0, 5, 4, 8) }, A(SAME(1, 1)), .tol = 0, .ref = filter_ref },
        { FILTER,
          { IN(9, 28, 28, 1), SIZES(3, 3, 1, 32), IN(9, 26, 26, 32) },
          A(VALID(1, 1)),
          .tol = 1e-4,
          .ref = filter_ref },
        { FILTER,
          { IN(4, 13, 13, 32), SIZES(3, 3, 32, 50), IN(4, 13, 13, 50) },
          A(SAME(1, 1)),
          .tol = 1e-4,
          .ref = filter_ref },
        { FILTER,
          { IN(2, 12, 12, 100), SIZES(3, 3, 100, 17), IN(2, 12, 12, 17) },
          A(SAME(1, 1)),
          .tol = 1e-4,
          .ref = filter_ref },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}

int main(int argc, char **argv)
{
    return forward_small(argc, argv) | forward_large(argc, argv) | input_gradient(argc, argv) |
           filter_gradient(argc, argv);
}
