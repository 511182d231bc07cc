/* SPDX-License-Identifier: Apache-2.0
 *
 * A bit set of completed parts: marks are set once and never cleared. Any thread may read and set them. A thread that
 * sees a mark also sees everything that was written before it was set. */
#ifndef EST_BASE_MARKS_H
#define EST_BASE_MARKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define EST_MARKS_OF_WORD 64

/* Zeroed: there is nothing to mark. */
typedef struct est_marks {
    atomic_int_least64_t   left;  /* marks not set yet; 0: all are set, and the words are not read */
    atomic_uint_least64_t *words; /* EST_MARKS_OF_WORD marks each */
} est_marks;

static inline int64_t est_marks_words(int64_t n)
{
    return (n + EST_MARKS_OF_WORD - 1) / EST_MARKS_OF_WORD;
}

/* Says that none of n marks is set. The words are zeros. */
static inline void est_marks_start(est_marks *marks, int64_t n)
{
    atomic_store_explicit(&marks->left, n, memory_order_release);
}

/* Says that all are. */
static inline void est_marks_fill(est_marks *marks)
{
    atomic_store_explicit(&marks->left, 0, memory_order_release);
}

static inline int64_t est_marks_left(const est_marks *marks)
{
    return atomic_load_explicit(&((est_marks *)(uintptr_t)marks)->left, memory_order_acquire);
}

static inline uint64_t est_marks_word(const est_marks *marks, int64_t word)
{
    return atomic_load_explicit(&marks->words[word], memory_order_acquire);
}

/* Whether mark i of those that are not all set is. */
static inline bool est_marks_has(const est_marks *marks, int64_t i)
{
    return (est_marks_word(marks, i / EST_MARKS_OF_WORD) >> i % EST_MARKS_OF_WORD & 1) != 0;
}

/* Sets those marks of a word, none of which is set. */
static inline void est_marks_set(est_marks *marks, int64_t word, uint64_t mask)
{
    int64_t n = __builtin_popcountll(mask);

    atomic_fetch_or_explicit(&marks->words[word], mask, memory_order_release);
    atomic_fetch_sub_explicit(&marks->left, n, memory_order_acq_rel);
}

#endif
