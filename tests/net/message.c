/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of messages: what was given back serves again, however large, and what no longer comes again goes. Memory that
 * is not touched costs nothing, so that sizes may be those of large variables. */
#include "net/message.h"

#include <string.h>

#include "support/nn_test.h"

#define MB ((size_t)1 << 20)

TEST(large_ones_serve_again)
{
    est_blocks *blocks;
    void       *first, *second;

    assert_ok(est_blocks_create(&blocks));
    first = est_block_alloc(blocks, 400 * MB);
    assert_non_null(first);
    est_block_free(blocks, first);
    second = est_block_alloc(blocks, 399 * MB); /* of the same class */
    assert_ptr_equal(first, second);
    est_block_free(blocks, second);
    est_blocks_free(blocks);
}

/* A pull and a push of other sizes: both are there again in the next step. */
TEST(sizes_in_turn)
{
    est_blocks *blocks;
    void       *pull, *push, *again;

    assert_ok(est_blocks_create(&blocks));
    pull = est_block_alloc(blocks, 400 * MB);
    est_block_free(blocks, pull);
    push = est_block_alloc(blocks, 300 * MB);
    est_block_free(blocks, push);
    for (int step = 0; step < 3; step++) {
        again = est_block_alloc(blocks, 400 * MB);
        assert_ptr_equal(again, pull);
        est_block_free(blocks, again);
        again = est_block_alloc(blocks, 300 * MB);
        assert_ptr_equal(again, push);
        est_block_free(blocks, again);
    }
    est_blocks_free(blocks);
}

/* Sizes that changed do not keep new ones out. */
TEST(old_sizes_go)
{
    est_blocks *blocks;
    void       *block, *again;

    assert_ok(est_blocks_create(&blocks));
    for (size_t size = 500; size >= 200; size -= 100) est_block_free(blocks, est_block_alloc(blocks, size * MB));
    block = est_block_alloc(blocks, 450 * MB);
    est_block_free(blocks, block);
    again = est_block_alloc(blocks, 450 * MB);
    assert_ptr_equal(block, again);
    est_block_free(blocks, again);
    est_blocks_free(blocks);
}
