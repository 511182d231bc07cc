/* SPDX-License-Identifier: Apache-2.0
 *
 * The float functions of kernels/vmath.h against libm in double, over bit patterns of every exponent and sign: the
 * error in units of the last place, and the same infinities, NaN and signs. */
#include "kernels/vmath.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

#define FUNCTION(name)                                                                                                 \
    static void run_##name(const float *x, float *y, int n)                                                            \
    {                                                                                                                  \
        EST_INDEPENDENT                                                                                                \
        for (int i = 0; i < n; i++) y[i] = est_##name##f(x[i]);                                                        \
    }
FUNCTION(exp)
FUNCTION(expm1)
FUNCTION(log)
FUNCTION(log1p)
FUNCTION(tanh)
FUNCTION(sigmoid)
FUNCTION(softplus)
FUNCTION(erf)

typedef struct function {
    const char *name;
    void (*run)(const float *x, float *y, int n);
    double (*exact)(double);
    double ulp_max;
} function;

static const function functions[] = {
    { "exp", run_exp, exp, 1.5 },
    { "expm1", run_expm1, expm1, 2 },
    { "log", run_log, log, 1.5 },
    { "log1p", run_log1p, log1p, 2 },
    { "tanh", run_tanh, tanh, 3 },
    { "sigmoid", run_sigmoid, sigmoid, 3 },
    { "softplus", run_softplus, softplus, 2 },
    { "erf", run_erf, erf, 2 },
};

/* The distance between floats at `exact`. */
static double ulp_at(double exact)
{
    int exponent;

    if (fabs(exact) < FLT_MIN) return 0x1p-149;
    (void)frexp(exact, &exponent);
    return ldexp(1, exponent - 24);
}

/* The error in ulp; infinite when one is a NaN, an infinity or of the other sign and the other is not. Right at the end
 * of the range either the largest float or infinity will do. */
static double error_in_ulp(float y, double exact)
{
    float rounded = (float)exact;

    if (isnan(exact) || isnan(y)) return isnan(exact) && isnan(y) ? 0 : INFINITY;
    if (signbit(y) != signbit(rounded)) return INFINITY;
    if (isinf(y) || isinf(rounded))
        return fabs(exact) > 0.9999999 * FLT_MAX && fabsf(y) > 0.9999999f * FLT_MAX ? 0 : INFINITY;
    return fabs((double)y - exact) / ulp_at(exact);
}

#define CHUNK 1021 /* odd, so that the tail of the vector loop is seen too */

static int check(const function *f, uint32_t step)
{
    static float x[CHUNK], y[CHUNK];
    double       worst = 0;
    float        at    = 0;
    int          n     = 0;

    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step) {
        x[n++] = est_float_from_bits((int32_t)(uint32_t)bits);
        if (n < CHUNK && bits + step <= UINT32_MAX) continue;
        f->run(x, y, n);
        for (int i = 0; i < n; i++) {
            double error = error_in_ulp(y[i], f->exact(x[i]));
            if (error > worst) {
                worst = error;
                at    = x[i];
            }
        }
        n = 0;
    }
    printf("%-9s worst error %.3f ulp at %a (%.9g)\n", f->name, worst, at, at);
    if (worst <= f->ulp_max) return 0;
    printf("FAIL %s: %.3f ulp allowed\n", f->name, f->ulp_max);
    return 1;
}

/* Every `step`-th float; 1 looks at all of them and takes minutes. */
int main(int argc, char **argv)
{
    uint32_t step     = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1501;
    int      failures = 0;

    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        failures += check(&functions[i], step > 0 ? step : 1);
    return failures != 0;
}
