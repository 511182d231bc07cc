/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas: a list of blocks that objects are cut from in order; nothing is freed before the arena is.
 *
 * Blocks start small and double, so a small graph costs one block and a large one few. Blocks come zeroed from the
 * allocator and no byte is handed out twice, which makes every object zeroed without further work. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define ARENA_ALIGNMENT 16
#define BLOCK_BYTES_MIN ((size_t)4 << 10)
#define BLOCK_BYTES_MAX ((size_t)256 << 10)

typedef struct arena_block {
    struct arena_block *next;
    size_t              bytes; /* after the header */
} arena_block;

_Static_assert(sizeof(arena_block) % ARENA_ALIGNMENT == 0, "objects follow the header");

struct est_arena {
    arena_block *blocks;      /* newest first */
    char        *at;          /* where the next object goes */
    size_t       left;        /* bytes from `at` to the end of its block */
    size_t       block_bytes; /* of the next block */
    size_t       bytes;       /* handed out */
};

est_arena *est_arena_create(void)
{
    est_arena *arena = est_zalloc(sizeof *arena);

    if (arena != NULL) arena->block_bytes = BLOCK_BYTES_MIN;
    return arena;
}

void est_arena_free(est_arena *arena)
{
    arena_block *next;

    if (arena == NULL) return;
    for (arena_block *block = arena->blocks; block != NULL; block = next) {
        next = block->next;
        est_free(block);
    }
    est_free(arena);
}

/* A new block with room for `bytes`; its first byte, or NULL. */
static char *arena_grow(est_arena *arena, size_t bytes)
{
    arena_block *block = est_zalloc(sizeof *block + bytes);

    if (block == NULL) return NULL;
    block->bytes  = bytes;
    block->next   = arena->blocks;
    arena->blocks = block;
    return (char *)(block + 1);
}

void *est_arena_alloc(est_arena *arena, size_t bytes)
{
    char *p;

    if (bytes > PTRDIFF_MAX - 2 * BLOCK_BYTES_MAX) return NULL;
    bytes = bytes != 0 ? (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT : ARENA_ALIGNMENT;
    if (bytes > arena->left) {
        if (bytes > arena->block_bytes / 4) { /* a block of its own; the current one goes on serving small objects */
            p = arena_grow(arena, bytes);
            if (p != NULL) arena->bytes += bytes;
            return p;
        }
        p = arena_grow(arena, arena->block_bytes);
        if (p == NULL) return NULL;
        arena->at   = p;
        arena->left = arena->block_bytes;
        if (arena->block_bytes < BLOCK_BYTES_MAX) arena->block_bytes *= 2;
    }
    p = arena->at;
    arena->at += bytes;
    arena->left -= bytes;
    arena->bytes += bytes;
    return p;
}

char *est_arena_strdup(est_arena *arena, const char *s)
{
    size_t size = strlen(s) + 1;
    char  *copy = est_arena_alloc(arena, size);

    if (copy != NULL) memcpy(copy, s, size);
    return copy;
}

char *est_arena_printf(est_arena *arena, const char *fmt, ...)
{
    va_list args;
    char   *text;
    int     size;

    va_start(args, fmt);
    size = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (size < 0) return NULL;

    text = est_arena_alloc(arena, (size_t)size + 1);
    if (text == NULL) return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)size + 1, fmt, args);
    va_end(args);
    return text;
}

size_t est_arena_bytes(const est_arena *arena)
{
    return arena->bytes;
}
