/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation: alignment, counting, and failing on demand. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "support/test.h"

TEST(plain)
{
    char *p = est_alloc(10);
    char *z = est_zalloc(100);

    assert_non_null(p);
    memcpy(p, "123456789", 10);
    p = est_realloc(p, 5000);
    assert_non_null(p);
    assert_string_equal(p, "123456789");
    for (int i = 0; i < 100; i++) assert_int_equal(z[i], 0);
    est_free(p);
    est_free(z);
    est_free(NULL);
}

TEST(zero_bytes_is_a_block)
{
    void *p = est_alloc(0), *z = est_zalloc(0), *a = est_alloc_aligned(0);

    assert_non_null(p);
    assert_non_null(z);
    assert_non_null(a);
    p = est_realloc(p, 0);
    assert_non_null(p);
    est_free(p);
    est_free(z);
    est_free_aligned(a);
    est_free_aligned(NULL);
}

TEST(aligned)
{
    const size_t sizes[] = {
        1, 63, 64, 65, 1000, 4096, ((size_t)2 << 20) - 1, (size_t)2 << 20, ((size_t)3 << 20) + 1, ((size_t)9 << 20) + 5
    };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t room = (sizes[i] + EST_ALIGNMENT - 1) / EST_ALIGNMENT * EST_ALIGNMENT; /* for the last whole vector */
        char  *p    = est_alloc_aligned(sizes[i]);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % EST_ALIGNMENT, 0);
        memset(p, 0x5a, room);
        est_free_aligned(p);
    }
}

/* Blocks that were written to and freed come back as zeros. */
TEST(zeroed_blocks)
{
    const size_t sizes[] = { 0, 1, 65, 4096, (size_t)2 << 20, ((size_t)3 << 20) + 1, ((size_t)9 << 20) + 5 };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *p = est_alloc_aligned(sizes[i]);

        assert_non_null(p);
        memset(p, 0x5a, sizes[i]);
        est_free_aligned(p);
        p = est_zalloc_aligned(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % EST_ALIGNMENT, 0);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(p[k], 0);
        est_free_aligned(p);
    }
}

TEST(large_zeroed_blocks_take_no_memory)
{
    enum { BYTES = 64 << 20 };
    size_t               page = (size_t)sysconf(_SC_PAGESIZE);
    char                *p    = est_zalloc_aligned(BYTES);
    static unsigned char resident[BYTES / 4096];
    int                  n = 0;

    assert_non_null(p);
    assert_int_equal(mincore(p, BYTES, resident), 0);
    for (size_t i = 0; i < BYTES / page; i++) n += resident[i] & 1;
    assert_int_equal(n, 0);
    est_free_aligned(p);
}

TEST(absurd_sizes_fail)
{
    void *p = est_alloc(8);

    assert_null(est_alloc(SIZE_MAX));
    assert_null(est_zalloc(SIZE_MAX - 10));
    assert_null(est_alloc_aligned(SIZE_MAX - 62));
    assert_null(est_realloc(p, SIZE_MAX));
    est_free(p);
}

TEST(count)
{
    uint64_t before = est_alloc_count();
    void    *p      = est_alloc(1);
    char    *s      = est_strdup("text");

    p = est_realloc(p, 2);
    assert_string_equal(s, "text");
    assert_int_equal(est_alloc_count() - before, 3);
    est_free(p);
    est_free(s);
    assert_int_equal(est_alloc_count() - before, 3);
}

TEST(nth_allocation_fails)
{
    void *p[4];

    est_fault_arm_alloc(3);
    for (int i = 0; i < 4; i++) p[i] = est_alloc(1);
    assert_true(est_fault_fired());
    assert_non_null(p[0]);
    assert_non_null(p[1]);
    assert_null(p[2]);
    assert_non_null(p[3]);
    for (int i = 0; i < 4; i++) est_free(p[i]);

    est_fault_arm_alloc(1);
    assert_null(est_strdup("x"));
    est_fault_arm_alloc(1);
    assert_null(est_alloc_aligned(64));
    est_fault_arm_alloc(1);
    assert_null(est_zalloc_aligned(64));
    est_fault_arm_alloc(0);
    assert_false(est_fault_fired());
    p[0] = est_zalloc(1);
    assert_non_null(p[0]);
    est_free(p[0]);
}

/* More than most machines have, of which three pages are used. */
TEST(reserved)
{
    const size_t size = (size_t)1 << 39;
    char        *p    = est_reserve(size);

    assert_non_null(p);
    assert_int_equal((uintptr_t)p % EST_ALIGNMENT, 0);
    assert_int_equal(p[0] + p[size / 2] + p[size - 1], 0);
    p[size / 2] = 5;
    assert_int_equal(p[size / 2], 5);
    est_unreserve(p, size);
    p = est_reserve(0);
    assert_non_null(p);
    est_unreserve(p, 0);
    est_unreserve(NULL, 10);
    assert_null(est_reserve(SIZE_MAX));
    est_fault_arm_alloc(1);
    assert_null(est_reserve(10));
    est_fault_arm_alloc(0);
}
