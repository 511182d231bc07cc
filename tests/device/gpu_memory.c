/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a GPU: blocks beside each other, which take no more than they have, and what is given back. Runs on the
 * stand-in (cuda_gpu_memory in ctest), or on a GPU. */
#include <string.h>

#include "base/alloc.h"
#include "device/devices.h"
#include "support/test.h"

#define BLOCKS   64
#define KIB      ((size_t)1 << 10)
#define MIB      ((size_t)1 << 20)
#define OVERHEAD (4 * MIB) /* of the driver, for blocks of all sizes */

typedef struct block {
    unsigned char *far; /* NULL: none */
    size_t         bytes;
    unsigned char  filled;
} block;

static const est_device *gpu(void)
{
    const est_device *device = est_device_find("GPU", 0);

    assert_non_null(device);
    return device;
}

static size_t in_use(void)
{
    size_t available, total;

    gpu()->memory(gpu(), &available, &total);
    return total - available;
}

static void take(block *b, size_t bytes, unsigned char filled)
{
    unsigned char *here = est_alloc(bytes);

    *b = (block){ gpu()->alloc(gpu(), bytes), bytes, filled };
    assert_non_null(b->far);
    assert_int_equal((uintptr_t)b->far % gpu()->alignment, 0);
    memset(here, filled, bytes);
    assert_int_equal(gpu()->copy_in(gpu(), b->far, here, bytes), EST_OK);
    est_free(here);
}

/* That nobody has written into it meanwhile. */
static void give_back(block *b)
{
    unsigned char *here = est_alloc(b->bytes);

    assert_int_equal(gpu()->copy_out(gpu(), here, b->far, b->bytes), EST_OK);
    for (size_t i = 0; i < b->bytes; i++) {
        if (here[i] != b->filled) fail_msg("byte %zu of %zu is %d, not %d", i, b->bytes, here[i], b->filled);
    }
    est_free(here);
    gpu()->free(gpu(), b->far);
    b->far = NULL;
}

/* Tables of a bit more than three pages each take what they have. */
TEST(tables)
{
    size_t before = in_use(), bytes = 6 * MIB + 104 * KIB;
    block  all[BLOCKS / 2];

    for (int i = 0; i < BLOCKS / 2; i++) take(&all[i], bytes, (unsigned char)(i + 1));
    assert_true(in_use() - before <= BLOCKS / 2 * bytes + OVERHEAD);
    for (int i = 0; i < BLOCKS / 2; i++) give_back(&all[i]);
    assert_true(in_use() <= before + OVERHEAD);
}

/* Blocks come and go in any order; gaps are used again. */
TEST(any_order)
{
    static const size_t sizes[] = {
        1 * MIB, 3 * MIB + 5, 700 * KIB, 2 * MIB, 1 * MIB + 1, 100, 9 * MIB - 512, 4 * MIB
    };

    block  all[BLOCKS] = { { 0 } };
    size_t before = in_use(), taken = 0;
    int    at = 0;

    for (int i = 0; i < 300; i++) {
        at = (at * 29 + 17 + i) % BLOCKS;
        if (all[at].far != NULL) {
            taken -= all[at].bytes;
            give_back(&all[at]);
        } else {
            take(&all[at], sizes[i % 8], (unsigned char)(i + 1));
            taken += sizes[i % 8];
        }
        /* a gap may keep part of a page at each of its ends */
        assert_true(in_use() - before <= taken + BLOCKS * 4 * MIB);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (all[i].far != NULL) give_back(&all[i]);
    }
    assert_true(in_use() <= before + OVERHEAD);
}

/* One that is too large is refused, and nothing is lost by it. */
TEST(too_large)
{
    size_t available, total, before = in_use();
    block  b;

    gpu()->memory(gpu(), &available, &total);
    assert_null(gpu()->alloc(gpu(), total + 1));
    assert_null(gpu()->alloc(gpu(), 4 * total));
    assert_true(in_use() <= before + OVERHEAD);
    take(&b, 5 * MIB, 1);
    give_back(&b);
}
