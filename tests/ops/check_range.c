/* SPDX-License-Identifier: Apache-2.0
 *
 * EstCheckRange, EstCheckFound, and the Assert that they are in TensorFlow's ops. */
#include <math.h>

#include "ragged.h"

static void same_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) r->out[0][i] = r->in[0][i];
}

#define ATTRS(low_, high_)                                                                                             \
    EST_ATTRS(est_attr_float("low", low_), est_attr_float("high", high_), est_attr_string("message", "labels"))
#define RANGE(low, high) .op = "EstCheckRange", .ref = same_ref, .attrs = ATTRS(low, high)
#define FOUND            .op = "EstCheckFound", .ref = same_ref, .attrs = EST_ATTRS(est_attr_string("message", "labels"))
#define WORDS(list)                                                                                                    \
    {                                                                                                                  \
        .shape = EST_SHAPE(3), .dtype = EST_STRING, .strings = list                                                    \
    }
#define WRONG .fails = EST_INVALID_ARGUMENT, .says
#define ASSERT(...)                                                                                                    \
    .op = "Assert", .n_in = sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t) + 1,                            \
    .attrs = EST_ATTRS(                                                                                                \
        est_attr_types("T", (est_i64s){ (const int64_t[]){ __VA_ARGS__ },                                              \
                                        (int)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)) }))
#define TRUTH(x)                                                                                                       \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR, .dtype = EST_BOOL, .values = (const double[])                                       \
        {                                                                                                              \
            x                                                                                                          \
        }                                                                                                              \
    }

static double many[20001];

int main(int argc, char **argv)
{
    static const char *const text[]  = { "labels must be below 3" };
    static const char *const words[] = { "yes", "perhaps", "no" };
    const est_op_case        cases[] = {
               { RANGE(-2, 2), .in = { IN(7, 3) } },
               { RANGE(0, 4), .in = { SOME(EST_I64, 9, 0, 4) } },
               { RANGE(0, 4), .in = { SOME(EST_I32, 9, 0, 4) } },
               { RANGE(-INFINITY, 0), .in = { SOME(EST_I32, 9, -9, 0) } },
               { RANGE(0, 1), .in = { IN(0, 3) } },
               { RANGE(-2, 2), .in = { IN(70000) } },
               { RANGE(0, 4), .in = { LIST(EST_I64, 0, 4, 5, -1) }, WRONG = "labels: element 2 is 5, not in [0, 4]" },
               { RANGE(0, 4), .in = { LIST(EST_I32, 0, 4, -1, 7) }, WRONG = "labels: element 2 is -1" },
               { RANGE(-0x1p63, 9), .in = { LIST(EST_I64, -5, 9, 10) }, WRONG = "element 2 is 10, not at most 9" },
               { RANGE(3, 0x1p63), .in = { LIST(EST_I64, 3, 2) }, WRONG = "element 1 is 2, not at least 3" },
               { RANGE(-0x1p64, 9), .in = { LIST(0, 10) }, WRONG = "element 0 is 10, not in [-1.8" },
               { RANGE(0, 0.5), .in = { LIST(0, 0, 0.5, 0.75) }, WRONG = "element 2 is 0.75, not in [0, 0.5]" },
               { RANGE(0, 1), .in = { LIST(0, 0, NAN) }, WRONG = "element 1 is nan" },
               { RANGE(0, 1), .in = { LIST(EST_F64, 0, -0.5) }, WRONG = "element 1 is -0.5" },
               { RANGE(0, 2), .in = { { .shape = EST_SHAPE(20001), .dtype = EST_I64, .values = many } },
                 /* in two blocks */ WRONG = "element 12345 is 3" },
               { FOUND, .in = { LIST(EST_I64, 1, 0, 2), WORDS(words) } },
               { FOUND, .in = { LIST(EST_I64, 1, -1, -1), WORDS(words) },
                 WRONG = "labels: element 1 is \"perhaps\", which is not in the vocabulary" },
               { FOUND, .in = { LIST(EST_I64, 1, 0), WORDS(words) }, WRONG = "2 ids of 3 keys" },
               { ASSERT(EST_STRING, EST_I64),
                 .in = { TRUTH(1), { .shape = EST_SHAPE(1), .dtype = EST_STRING, .strings = text }, LIST(EST_I64, 1, 2) } },
               { ASSERT(EST_STRING, EST_I64, EST_F32),
                 .in   = { TRUTH(0),
                           { .shape = EST_SHAPE(1), .dtype = EST_STRING, .strings = text },
                           LIST(EST_I64, 1, 2, 3, 4),
                           LIST(EST_F32, 0.5) },
                 WRONG = "assertion failed: [labels must be below 3] [1 2 3...] [0.5]" },
               { ASSERT(EST_I64), .in = { LIST(EST_BOOL, 1, 1), LIST(EST_I64, 1) }, WRONG = "rank 0" },
    };

    many[12345] = many[20000] = 3;
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
