/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas: objects are zeroed, aligned, apart from each other, and live until the arena goes. */
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "support/test.h"

#define N_OBJECTS 5000

static size_t object_size(int i)
{
    return i % 100 == 99 ? (size_t)20000 + (size_t)i : (size_t)(i * 37 % 300); /* some larger than a block, some 0 */
}

TEST(objects_keep_their_bytes)
{
    static unsigned char *objects[N_OBJECTS];
    est_arena            *arena = est_arena_create();
    size_t                bytes = 0;

    assert_non_null(arena);
    for (int i = 0; i < N_OBJECTS; i++) {
        objects[i] = est_arena_alloc(arena, object_size(i));
        assert_non_null(objects[i]);
        assert_int_equal((uintptr_t)objects[i] % 16, 0);
        for (size_t k = 0; k < object_size(i); k++) assert_int_equal(objects[i][k], 0);
        memset(objects[i], i & 0xff, object_size(i));
        bytes += object_size(i);
    }
    for (int i = 0; i < N_OBJECTS; i++) {
        for (size_t k = 0; k < object_size(i); k++) assert_int_equal(objects[i][k], i & 0xff);
    }
    assert_true(est_arena_bytes(arena) >= bytes);
    assert_true(est_arena_bytes(arena) <= bytes + 16 * (size_t)N_OBJECTS);
    est_arena_free(arena);
    est_arena_free(NULL);
}

TEST(small_objects_cost_few_allocations)
{
    uint64_t   before = est_alloc_count();
    est_arena *arena  = est_arena_create();

    for (int i = 0; i < 10000; i++) assert_non_null(est_arena_alloc(arena, 24));
    assert_true(est_alloc_count() - before < 12);
    est_arena_free(arena);
}

TEST(text)
{
    est_arena *arena = est_arena_create();
    char       large[9000];

    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    assert_string_equal(est_arena_strdup(arena, ""), "");
    assert_string_equal(est_arena_strdup(arena, "dense/kernel"), "dense/kernel");
    assert_string_equal(est_arena_printf(arena, "%s_%d", "layer", 12), "layer_12");
    assert_string_equal(est_arena_printf(arena, "%s", large), large);
    est_arena_free(arena);
}

TEST(memory_out)
{
    est_arena *arena;

    est_fault_arm_alloc(1);
    assert_null(est_arena_create());

    arena = est_arena_create();
    est_fault_arm_alloc(1);
    assert_null(est_arena_alloc(arena, 8));
    est_fault_arm_alloc(1);
    assert_null(est_arena_strdup(arena, "x"));
    est_fault_arm_alloc(1);
    assert_null(est_arena_printf(arena, "%d", 1));
    est_fault_arm_alloc(1);
    assert_null(est_arena_alloc(arena, 100000));
    est_fault_arm_alloc(0);
    assert_null(est_arena_alloc(arena, SIZE_MAX - 3));
    assert_int_equal(est_arena_bytes(arena), 0);
    assert_non_null(est_arena_alloc(arena, 8)); /* goes on after a failure */
    est_arena_free(arena);
}
