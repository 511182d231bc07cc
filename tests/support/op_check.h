/* SPDX-License-Identifier: Apache-2.0
 *
 * The op harness: a test of an op is a table of cases.
 *
 * Every case runs as: shape (what infer said, with known and with unknown dimensions, is what the kernel made), value
 * (against a plain double-precision reference kept in the test), gradient (against central differences of the op itself
 * run in float64, on every element when small and on random projections otherwise), poisoned outputs and guard bands
 * (every element is written, none beside it), over its input where the op says it may, and twice the same bits, with
 * one thread and with several. Every kernel that accepts the call is tried, not only the first, and must neither
 * allocate nor look up attributes while it runs. An op that lowers to TensorFlow's ops is compared with what they
 * make. */
#ifndef EST_TESTS_OP_CHECK_H
#define EST_TESTS_OP_CHECK_H

#include "ops/ops.h"

#define EST_CASE_IN_MAX  12
#define EST_CASE_OUT_MAX 8

typedef struct est_op_case est_op_case;

/* What a reference computes from: inputs as doubles (integers and bools too; NULL for strings), shapes resolved. */
typedef struct est_ref {
    const est_op_case  *test;
    const est_node_def *node; /* attributes */
    int                 n_in, n_out;
    const double       *in[EST_CASE_IN_MAX];
    est_shape           in_shape[EST_CASE_IN_MAX];
    double             *out[EST_CASE_OUT_MAX]; /* to be filled; NULL for strings */
    est_shape           out_shape[EST_CASE_OUT_MAX];
} est_ref;

typedef struct est_case_in {
    est_shape          shape;
    est_dtype          dtype;    /* 0: the case's dtype (float32) */
    double             lo, hi;   /* range of random values, ends included for integers; both 0: the case's */
    const double      *values;   /* not NULL: exactly these, in order */
    bool               constant; /* enters the graph as a Const, not as a feed (axes, shapes, paddings) */
    bool               variable; /* enters as a variable's handle holding these values */
    bool               no_grad;  /* the gradient towards this input is not checked */
    const char *const *strings;  /* the elements of an EST_STRING input */
} est_case_in;

struct est_op_case {
    const char *op;                  /* TensorFlow name */
    est_case_in in[EST_CASE_IN_MAX]; /* n_in is the op's, or n_in below for lists */
    int         n_in;                /* 0: as the op's signature says */
    est_attrs   attrs;
    est_dtype   dtype;  /* 0: float32. float32 cases are run again in float64 when the op allows it */
    double      lo, hi; /* both 0: -1 .. 1, or the integers 0 and 1 */
    double      tol;    /* relative to max(1, |expected|), for float32; float64 runs use tol * 1e-6 floored at 1e-12 */
    double      grad_tol;    /* 0: 1e-5 (gradients are checked in float64) */
    bool        no_grad;     /* the op has a gradient but this case sits on a kink */
    void (*ref)(est_ref *r); /* NULL: value not checked here (random ops) */
    /* NULL, or a further check of this case: est_status style, 0 = fine, prints why otherwise. A variable input's view
     * is of its contents before. */
    int (*also)(est_ref *r, est_view *const *in, const est_view *out);
    uint32_t    grad_outs; /* bit i: output i takes part in the gradient check; 0: every float output does */
    est_status  fails;     /* not EST_OK: building or running must fail with this, and nothing else is checked ... */
    const char *says;      /* ... and the error text must contain this; NULL: anything */
};

/* Shorthand for inputs: { IN(3, 4), IN(4) } */
#define IN(...)                                                                                                        \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__)                                                                                \
    }

/* Ops that write variables: after the op's own outputs, out[] / out_shape[] continue with the new contents of every
 * variable input, in order of the inputs, and the reference fills those too. */

/* Runs all cases; the exit code of the test program. argv: a substring of op names to run only those, of one of several
 * tables perhaps none. */
int est_op_check(const est_op_case *cases, int n, int argc, char **argv);
#define EST_OP_CHECK_MAIN(cases)                                                                                       \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        return est_op_check(cases, (int)(sizeof(cases) / sizeof(cases)[0]), argc, argv);                               \
    }

#endif
