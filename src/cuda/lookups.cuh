/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of rows on a GPU, by number or one after the other, as many to a launch as a batch has calls: a thread copies a
 * word. A row that does not exist is reported. */
#ifndef EST_CUDA_LOOKUPS_CUH
#define EST_CUDA_LOOKUPS_CUH

#include "cuda/batch.cuh"

typedef struct est_lookup_rows {
    const char  *from;    /* NULL: zeros */
    const void  *indices; /* NULL: row i is from's row i */
    char        *to;
    int64_t      count; /* words to copy */
    int64_t      words; /* of a row */
    int64_t      rows;  /* of `from` */
    int64_t      step;  /* bytes from a row of `to` to the next */
    int64_t      place; /* of the first index, in reports */
    est_reporter reporter;
    int8_t       bytes; /* of a word: 16, 4 or 1 */
    bool         wide;  /* indices are int64 */
} est_lookup_rows;

/* The largest words that all of these are multiples of: the bytes of a row, the step and the addresses. */
static inline int8_t est_word_bytes(int64_t row_bytes, int64_t step, const void *from, const void *to)
{
    uint64_t all = (uint64_t)row_bytes | (uint64_t)step | (uintptr_t)from | (uintptr_t)to;

    return all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 1;
}

template <typename W>
static __device__ void est_copy_word(const est_lookup_rows &l, int64_t row, int64_t i, int64_t word)
{
    W zero = {};

    *((W *)(l.to + i * l.step) + word) = l.from != NULL ? ((const W *)l.from)[row * l.words + word] : zero;
}

static __global__ void est_lookup_words(const __grid_constant__ est_many<est_lookup_rows> m)
{
    unsigned               block;
    const est_lookup_rows &l  = m.call[est_own_call(m, &block)];
    int64_t                at = (int64_t)block * blockDim.x + threadIdx.x, i, word, row;

    if (at >= l.count) return;
    i    = est_divide(at, l.words);
    word = at - i * l.words;
    row  = l.indices != NULL ? est_index_at(l.indices, l.wide, i) : i;
    if (l.from != NULL && (row < 0 || row >= l.rows)) {
        if (word == 0) est_report(l.reporter, l.place + i, row, 0);
    } else if (l.bytes == 16) {
        est_copy_word<uint4>(l, row, i, word);
    } else if (l.bytes == 4) {
        est_copy_word<uint32_t>(l, row, i, word);
    } else {
        est_copy_word<uint8_t>(l, row, i, word);
    }
}

/* Not static: lookups of all kinds, of whatever file, are one launch. */
inline int est_lookup_launch(const est_call *c, const est_lookup_rows *calls, int n)
{
    return est_launch_many(c, est_lookup_words,
                           est_many_of(calls, n, [](const est_lookup_rows &l) { return est_blocks(l.count); }),
                           EST_BLOCK);
}

#endif
