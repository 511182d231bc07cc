/* SPDX-License-Identifier: Apache-2.0
 *
 * StringToHashBucketFast; tests/interop/feature_ops.c compares it with TensorFlow's. */
#include "support/op_check.h"

static const char *const words[]   = { "",
                                       "a",
                                       "ab",
                                       "abc",
                                       "color",
                                       "estimator",
                                       "feature column",
                                       "sixteen bytes ok",
                                       "this string has thirty-two bytes",
                                       "a string that is longer than thirty-two bytes",
                                       "7",
                                       "-3" };
static const double      buckets[] = { 263, 939, 502, 385, 897, 321, 903, 847, 756, 563, 88, 699 };

/* Word i % 12 modulo 1000. */
static void hash_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) r->out[0][i] = buckets[i % 12];
}

static const char *many[4800];

#define STRINGS(list, ...)                                                                                             \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = EST_STRING, .strings = list                                          \
    }
#define HASH .op = "StringToHashBucketFast", .ref = hash_ref

int main(int argc, char **argv)
{
    est_attrs         thousand = EST_ATTRS(est_attr_int("num_buckets", 1000));
    const est_op_case cases[]  = {
         { HASH, .in = { STRINGS(words, 12) }, .attrs = thousand },
         { HASH, .in = { STRINGS(words, 3, 4) }, .attrs = thousand },
         { HASH, .in = { STRINGS(words, 0) }, .attrs = thousand },
         { HASH, .in = { { .shape = EST_SHAPE_SCALAR, .dtype = EST_STRING, .strings = words } }, .attrs = thousand },
         { HASH, .in = { STRINGS(many, 4800) }, .attrs = thousand }, /* cut into blocks */
         { HASH, .in = { STRINGS(words, 2) }, .attrs = EST_ATTRS(est_attr_int("num_buckets", 0)),
           .fails = EST_INVALID_ARGUMENT, .says = "num_buckets is 0" },
         { HASH, .in = { IN(3) }, .attrs = thousand, .fails = EST_INVALID_ARGUMENT, .says = "string" },
    };

    for (int i = 0; i < 4800; i++) many[i] = words[i % 12];
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
