/* SPDX-License-Identifier: Apache-2.0
 *
 * DepthwiseConv2dNative and its gradients. */
#include "ops/conv_ref.h"

#define CONV   "DepthwiseConv2dNative"
#define INPUT  "DepthwiseConv2dNativeBackpropInput"
#define FILTER "DepthwiseConv2dNativeBackpropFilter"
#define A(...) .attrs = EST_ATTRS(__VA_ARGS__)

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { CONV, { IN(1, 4, 4, 1), IN(2, 2, 1, 1) }, A(VALID(1, 1)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(2, 5, 4, 3), IN(3, 2, 3, 1) }, A(SAME(1, 1)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(2, 5, 4, 3), IN(3, 2, 3, 2) }, A(SAME(2, 2)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(1, 9, 8, 2), IN(3, 2, 2, 3) }, A(SAME(1, 1), DILATED(2, 3)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(1, 5, 4, 2), IN(3, 3, 2, 1) }, A(EXPLICIT(1, 1, 2, 1, 0, 3)), .tol = 1e-6, .ref = conv_ref },
        { CONV, { IN(0, 5, 4, 2), IN(3, 3, 2, 1) }, A(SAME(1, 1)), .tol = 0, .ref = conv_ref },
        { CONV, { IN(5, 20, 21, 33), IN(3, 3, 33, 1) }, A(SAME(1, 1)), .tol = 1e-5, .ref = conv_ref },
        { CONV,
          { IN(1, 5, 5, 2), IN(3, 3, 3, 1) },
          A(SAME(1, 1)),
          .fails = EST_INVALID_ARGUMENT,
          .says  = "2 channels" },
        { INPUT, { SIZES(2, 5, 4, 3), IN(3, 2, 3, 1), IN(2, 5, 4, 3) }, A(SAME(1, 1)), .tol = 1e-6, .ref = input_ref },
        { INPUT, { SIZES(2, 5, 4, 3), IN(3, 2, 3, 2), IN(2, 3, 2, 6) }, A(SAME(2, 2)), .tol = 1e-6, .ref = input_ref },
        { INPUT,
          { SIZES(5, 20, 21, 33), IN(3, 3, 33, 1), IN(5, 20, 21, 33) },
          A(SAME(1, 1)),
          .tol = 1e-5,
          .ref = input_ref },
        { FILTER,
          { IN(2, 5, 4, 3), SIZES(3, 2, 3, 1), IN(2, 5, 4, 3) },
          A(SAME(1, 1)),
          .tol = 2e-6,
          .ref = filter_ref },
        { FILTER,
          { IN(2, 5, 4, 3), SIZES(3, 2, 3, 2), IN(2, 3, 2, 6) },
          A(SAME(2, 2)),
          .tol = 1e-6,
          .ref = filter_ref },
        { FILTER, { IN(0, 5, 4, 3), SIZES(3, 2, 3, 1), IN(0, 5, 4, 3) }, A(SAME(1, 1)), .tol = 0, .ref = filter_ref },
        { FILTER,
          { IN(7, 20, 21, 33), SIZES(3, 3, 33, 1), IN(7, 20, 21, 33) },
          A(SAME(1, 1)),
          .tol = 1e-4,
          .ref = filter_ref },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
