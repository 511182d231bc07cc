/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass with an open hash table of places (kernels/distinct.h), at most a quarter full: a search that
 * meets another index costs more than the memory. */
#include "kernels/distinct.h"

#include <string.h>

static int table_bits(int64_t n)
{
    int bits = 5;

    while ((int64_t)1 << bits < 4 * n) bits++;
    return bits;
}

size_t est_distinct_table_bytes(int64_t n)
{
    return sizeof(int32_t) << table_bits(n);
}

static inline uint64_t hash(int64_t index, int bits)
{
    return (uint64_t)index * UINT64_C(0x9E3779B97F4A7C15) >> (64 - bits);
}

#define PLACES(T, suffix)                                                                                              \
    static int32_t places_##suffix(const T *restrict indices, int64_t n, T *restrict unique, int32_t *restrict place,  \
                                   int32_t *restrict table)                                                            \
    {                                                                                                                  \
        int      bits     = table_bits(n);                                                                             \
        uint64_t mask     = ((uint64_t)1 << bits) - 1;                                                                 \
        int32_t  n_unique = 0;                                                                                         \
        int64_t  ahead    = n > EST_DISTINCT_CACHED ? n - EST_DISTINCT_AHEAD : 0;                                      \
                                                                                                                       \
        memset(table, 0xff, sizeof *table << bits);                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T        index = indices[i];                                                                               \
            uint64_t at    = hash(index, bits);                                                                        \
            if (i < ahead) {                                                                                           \
                int32_t soon = table[hash(indices[i + EST_DISTINCT_AHEAD / 2], bits)];                                 \
                __builtin_prefetch(&table[hash(indices[i + EST_DISTINCT_AHEAD], bits)], 1);                            \
                if (soon >= 0) __builtin_prefetch(&unique[soon], 0);                                                   \
            }                                                                                                          \
            while (table[at] >= 0 && unique[table[at]] != index) at = (at + 1) & mask;                                 \
            if (table[at] < 0) {                                                                                       \
                unique[n_unique] = index;                                                                              \
                table[at]        = n_unique++;                                                                         \
            }                                                                                                          \
            place[i] = table[at];                                                                                      \
        }                                                                                                              \
        return n_unique;                                                                                               \
    }
PLACES(int32_t, i32)
PLACES(int64_t, i64)

int32_t est_distinct(const void *indices, bool wide, int64_t n, void *unique, int32_t *place, int32_t *table)
{
    return wide ? places_i64(indices, n, unique, place, table) : places_i32(indices, n, unique, place, table);
}
