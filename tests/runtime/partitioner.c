/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitioners: what tf.distribute.experimental.partitioners of TensorFlow 2.15.1 say of the same variables. */
#include "estoc/partitioner.h"
#include "support/test.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* FixedShards(1), (3), (8); MinSize(256 KiB, 1), (256 KiB, 8), (1000, 5), (1 MiB, 100); MaxSize(1000), (64 KiB), (1
 * MiB, 7), (1, 4). */
typedef struct expected {
    est_shape shape;
    est_dtype dtype;
    int       fixed[3], min_size[4], max_size[4];
} expected;

static int shards(est_partitioner partitioner, const expected *e)
{
    return partitioner.shards(&partitioner, "some", e->dtype, &e->shape, 2);
}

TEST(as_tensorflow)
{
    const expected cases[] = {
        { EST_SHAPE(10, 3), EST_F32, { 1, 3, 8 }, { 1, 1, 1, 1 }, { 1, 1, 1, 4 } },
        { EST_SHAPE(7), EST_F64, { 1, 3, 7 }, { 1, 1, 1, 1 }, { 1, 1, 1, 4 } },
        { EST_SHAPE(1000000, 16), EST_F32, { 1, 3, 8 }, { 1, 8, 5, 62 }, { 66667, 977, 7, 4 } },
        { EST_SHAPE(5, 1), EST_I64, { 1, 3, 5 }, { 1, 1, 1, 1 }, { 1, 1, 1, 4 } },
        { EST_SHAPE(262144), EST_F32, { 1, 3, 8 }, { 1, 4, 5, 1 }, { 1049, 16, 1, 4 } },
        { EST_SHAPE(3, 100000), EST_F32, { 1, 3, 3 }, { 1, 3, 3, 2 }, { 3, 3, 2, 3 } },
        { EST_SHAPE(1000, 64), EST_F32, { 1, 3, 8 }, { 1, 1, 5, 1 }, { 334, 4, 1, 4 } },
        { EST_SHAPE(65537), EST_F32, { 1, 3, 8 }, { 1, 2, 5, 1 }, { 263, 5, 1, 4 } },
    };
    const int     fixed[] = { 1, 3, 8 }, min_shards[] = { 1, 8, 5, 100 }, max_shards[] = { 0, 0, 7, 4 };
    const int64_t min_bytes[] = { 0, 256 << 10, 1000, 1 << 20 }, max_bytes[] = { 1000, 1 << 16, 1 << 20, 1 };

    for (size_t i = 0; i < COUNT(cases); i++) {
        for (int k = 0; k < 3; k++) assert_int_equal(shards(est_fixed_shards(fixed[k]), &cases[i]), cases[i].fixed[k]);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(shards(est_min_size_partitioner(min_bytes[k], min_shards[k]), &cases[i]),
                             cases[i].min_size[k]);
            assert_int_equal(shards(est_max_size_partitioner(max_bytes[k], max_shards[k]), &cases[i]),
                             cases[i].max_size[k]);
        }
    }
}

/* Zeros are defaults of our own. */
TEST(defaults)
{
    const expected large = { .shape = EST_SHAPE(1000000, 16), .dtype = EST_F32 };
    const expected empty = { .shape = EST_SHAPE(1000, 0), .dtype = EST_F32 };

    assert_int_equal(shards(est_fixed_shards(0), &large), 2);
    assert_int_equal(shards(est_min_size_partitioner(0, 0), &large), 2);
    assert_int_equal(shards(est_max_size_partitioner(0, 0), &large), 1000000);
    assert_int_equal(shards(est_min_size_partitioner(0, 0), &empty), 1);
    assert_int_equal(shards(est_max_size_partitioner(100, 0), &empty), 1);
}
