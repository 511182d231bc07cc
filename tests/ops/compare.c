/* SPDX-License-Identifier: Apache-2.0 — comparisons and logic, with broadcasting. */
#include <math.h>
#include <string.h>

#include "support/broadcast_ref.h"
#include "support/op_check.h"

typedef struct relation {
    const char *op;
    bool (*fn)(double a, double b);
} relation;

/* clang-format off */
#define RELATION(name, expr) static bool name(double a, double b) { return expr; }
RELATION(equal, a == b)
RELATION(not_equal, a != b)
RELATION(less, a < b)
RELATION(less_equal, a <= b)
RELATION(greater, a > b)
RELATION(greater_equal, a >= b)
RELATION(logical_and, a != 0 && b != 0)
RELATION(logical_or, a != 0 || b != 0)
/* clang-format on */

static const relation relations[] = {
    { "Equal", equal },
    { "NotEqual", not_equal },
    { "Less", less },
    { "LessEqual", less_equal },
    { "Greater", greater },
    { "GreaterEqual", greater_equal },
    { "LogicalAnd", logical_and },
    { "LogicalOr", logical_or },
};

static void relation_ref(est_ref *r)
{
    const est_shape *out = &r->out_shape[0];

    for (size_t k = 0; k < sizeof relations / sizeof relations[0]; k++) {
        if (strcmp(relations[k].op, r->test->op) != 0) continue;
        for (int64_t i = 0; i < est_shape_count(out); i++) {
            r->out[0][i] = relations[k].fn(r->in[0][broadcast_source(&r->in_shape[0], out, i)],
                                           r->in[1][broadcast_source(&r->in_shape[1], out, i)]);
        }
    }
}

/* Strings of the tables below, compared as C strings. */
static void string_ref(est_ref *r)
{
    bool same = strcmp(r->test->op, "Equal") == 0;

    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) {
        const char *a = r->test->in[0].strings[broadcast_source(&r->in_shape[0], &r->out_shape[0], i)];
        const char *b = r->test->in[1].strings[broadcast_source(&r->in_shape[1], &r->out_shape[0], i)];
        r->out[0][i]  = (strcmp(a, b) == 0) == same;
    }
}

static const double values[] = { 1, 2, NAN, INFINITY, -INFINITY, 0, -0.0 };

/* Small integers, so that many are equal. */
#define NUMBERS(name)                                                                                                  \
    { name, { IN(5, 7), IN(5, 7) }, .dtype = EST_I32, .lo = -2, .hi = 2, .ref = relation_ref },                        \
        { name, { IN(5, 7), IN(7) }, .dtype = EST_I64, .lo = -2, .hi = 2, .ref = relation_ref },                       \
        { name, { IN(9, 1), IN(1, 3) }, .dtype = EST_U8, .lo = 0, .hi = 3, .ref = relation_ref },                      \
        { name, { IN(301, 203), IN(301, 203) }, .ref = relation_ref },                                                 \
        { name, { IN(0, 3), IN(3) }, .ref = relation_ref },                                                            \
        { name, { { .shape = EST_SHAPE_SCALAR }, IN(9) }, .ref = relation_ref },                                       \
        { name,                                                                                                        \
          { { .shape = EST_SHAPE(7), .values = values }, { .shape = EST_SHAPE(7, 1), .values = values } },             \
          .ref = relation_ref },                                                                                       \
    {                                                                                                                  \
        name, { IN(2, 3), IN(2) }, .fails = EST_INVALID_ARGUMENT, .says = "[2,3]"                                      \
    }
#define BOOLS(name)                                                                                                    \
    { name, { IN(5, 7), IN(5, 7) }, .dtype = EST_BOOL, .ref = relation_ref },                                          \
    {                                                                                                                  \
        name, { IN(5, 1), IN(7) }, .dtype = EST_BOOL, .ref = relation_ref                                              \
    }
#define WORDS(...)                                                                                                     \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define STRINGS(name)                                                                                                  \
    {                                                                                                                  \
        name,                                                                                                          \
            { { .shape   = EST_SHAPE(4),                                                                               \
                .dtype   = EST_STRING,                                                                                 \
                .strings = WORDS("a", "", "abc", "abcdefghijklmnopqrstuvwxyz") },                                      \
              { .shape   = EST_SHAPE(3, 1),                                                                            \
                .dtype   = EST_STRING,                                                                                 \
                .strings = WORDS("abc", "", "abcdefghijklmnopqrstuvwxyz") } },                                         \
            .ref = string_ref                                                                                          \
    }

static const est_op_case cases[] = {
    NUMBERS("Equal"),    NUMBERS("NotEqual"),     NUMBERS("Less"),  NUMBERS("LessEqual"),
    NUMBERS("Greater"),  NUMBERS("GreaterEqual"), BOOLS("Equal"),   BOOLS("NotEqual"),
    BOOLS("LogicalAnd"), BOOLS("LogicalOr"),      STRINGS("Equal"), STRINGS("NotEqual"),
};

EST_OP_CHECK_MAIN(cases)
