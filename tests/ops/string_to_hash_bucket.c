/* SPDX-License-Identifier: Apache-2.0
 *
 * StringToHashBucketFast and StringToHashBucketStrong, with values of TensorFlow; tests/interop/feature_ops.c and
 * tests/interop/layers.c compare them with it. */
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

static const double strong_buckets[] = { 781, 621, 502, 108, 851, 767, 503, 803, 520, 798, 109, 283 };

static void strong_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) r->out[0][i] = strong_buckets[i % 12];
}

static const char *many[4800];

#define STRINGS(list, ...)                                                                                             \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = EST_STRING, .strings = list                                          \
    }
#define HASH   .op = "StringToHashBucketFast", .ref = hash_ref
#define STRONG .op = "StringToHashBucketStrong", .ref = strong_ref

int main(int argc, char **argv)
{
    est_attrs         thousand = EST_ATTRS(est_attr_int("num_buckets", 1000));
    est_attrs         keyed   = EST_ATTRS(est_attr_int("num_buckets", 1000), est_attr_ints("key", EST_I64S(133, -137)));
    const est_op_case cases[] = {
        { STRONG, .in = { STRINGS(words, 3, 4) }, .attrs = keyed },
        { STRONG, .in = { STRINGS(words, 0) }, .attrs = keyed },
        { STRONG, .in = { STRINGS(many, 4800) }, .attrs = keyed },
        { STRONG, .in = { STRINGS(words, 2) },
          .attrs = EST_ATTRS(est_attr_int("num_buckets", 5), est_attr_ints("key", EST_I64S(1))),
          .fails = EST_INVALID_ARGUMENT, .says = "key has 1 numbers" },
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
