/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting ids (cuda/sort.cuh): a block sorts up to 16384 in shared memory, by as many bits as they differ in; longer lists
 * are sorted in such chunks, which are then merged two by two.
 *
 * A block goes from the low digits to the high ones. In each round a warp counts its keys by digit, a row of 32 at a
 * time: lanes with the same digit find each other by votes. From the counts of all warps, added up digit by digit and
 * within a digit warp by warp, every key knows its place. Keys that are equal in a digit keep their order, so that of
 * equal ids the places ascend. */
#include "cuda/reduce.cuh"
#include "cuda/sort.cuh"

#define DIGIT_BITS 6
#define BINS       (1 << DIGIT_BITS)
#define CHUNK_MAX  16384

static __device__ uint64_t key_at(const est_sort &s, int64_t i)
{
    int64_t id;

    if (i >= s.n) return UINT64_MAX; /* comes last */
    id = est_index_at(s.ids, s.wide, i);
    return est_sorted_key(id, est_is_pad(id, s.wide) || (s.row_of != NULL && s.row_of[i] < 0), i);
}

struct join_bits {
    __device__ uint64_t operator()(uint64_t a, uint64_t b) const
    {
        return a | b;
    }
};

/* Lanes of the warp whose digit is this thread's. */
static __device__ unsigned lanes_alike(unsigned digit, int bits)
{
    unsigned alike = 0xFFFFFFFFu;

    for (int b = 0; b < bits; b++) {
        unsigned vote = __ballot_sync(0xFFFFFFFFu, (int)(digit >> b & 1u));

        alike &= (digit >> b & 1u) != 0 ? vote : ~vote;
    }
    return alike;
}

/* counts[d * (WARPS + 1) + w] become sums of all before them, in the order of d, then w. */
template <int THREADS> static __device__ void add_up(uint32_t *counts, uint32_t *sums)
{
    constexpr int WARPS = THREADS / EST_WARP, EACH = BINS / EST_WARP;
    int           t = (int)threadIdx.x, lane = t % EST_WARP, warp = t / EST_WARP, first = t * EACH;
    uint32_t     *own = counts + first / WARPS * (WARPS + 1) + first % WARPS, sum = 0, total;

    for (int e = 0; e < EACH; e++) sum += own[e];
    total = sum;
    for (int step = 1; step < EST_WARP; step *= 2) {
        uint32_t below = __shfl_up_sync(0xFFFFFFFFu, total, (unsigned)step);

        if (lane >= step) total += below;
    }
    if (lane == EST_WARP - 1) sums[warp] = total;
    __syncthreads();
    total -= sum;
    for (int w = 0; w < warp; w++) total += sums[w];
    for (int e = 0; e < EACH; e++) {
        uint32_t here = own[e];

        own[e] = total;
        total += here;
    }
}

/* One chunk of THREADS * EACH ids. Warp w has the keys from w * 32 * EACH on, a row of 32 for each of EACH. */
template <int THREADS, int EACH>
static __global__ void __launch_bounds__(THREADS) sort_chunks(const __grid_constant__ est_many<est_sort> m, int to)
{
    constexpr int       WARPS = THREADS / EST_WARP, CHUNK = THREADS * EACH;
    __shared__ uint32_t sums[WARPS];
    __shared__ uint64_t differ[WARPS];
    EST_DYNAMIC_SHARED(room);
    uint64_t       *keys   = (uint64_t *)room;
    uint32_t       *counts = (uint32_t *)(keys + CHUNK);
    unsigned        block;
    const est_sort &s     = m.call[est_own_call(m, &block)];
    int64_t         begin = (int64_t)block * CHUNK;
    int             t = (int)threadIdx.x, lane = t % EST_WARP, warp = t / EST_WARP, at = warp * EST_WARP * EACH + lane;
    int             bits = 0, rounds, width;
    uint64_t        key[EACH], first = key_at(s, begin), all = 0;
    uint32_t        place[EACH];

    EST_UNROLL(EACH)
    for (int j = 0; j < EACH; j++) {
        key[j] = key_at(s, begin + at + j * EST_WARP);
        if (begin + at + j * EST_WARP < s.n) all |= est_sorted_row(key[j]) ^ est_sorted_row(first);
    }
    all = est_warp_all(all, join_bits());
    if (lane == 0) differ[warp] = all;
    __syncthreads();
    for (int w = 0; w < WARPS; w++) all |= differ[w];
    while (bits < 64 - EST_PLACE_BITS && all >> bits != 0) bits++;
    rounds = (bits + DIGIT_BITS - 1) / DIGIT_BITS;
    width  = rounds > 0 ? (bits + rounds - 1) / rounds : 0;
    for (int r = 0; r < rounds; r++) {
        int shift = EST_PLACE_BITS + r * width;

        for (int e = t; e < BINS * (WARPS + 1); e += THREADS) counts[e] = 0;
        __syncthreads();
        EST_UNROLL(EACH)
        for (int j = 0; j < EACH; j++) {
            unsigned  digit = (unsigned)(key[j] >> shift) & ((1u << width) - 1);
            unsigned  alike = lanes_alike(digit, width), below = alike & ((1u << lane) - 1);
            uint32_t *own = &counts[digit * (WARPS + 1) + warp], before = *own;

            place[j] = before + (uint32_t)__popc(below);
            __syncwarp();
            if (below == 0) *own = before + (uint32_t)__popc(alike);
            __syncwarp();
        }
        __syncthreads();
        add_up<THREADS>(counts, sums);
        __syncthreads();
        EST_UNROLL(EACH)
        for (int j = 0; j < EACH; j++) {
            unsigned digit = (unsigned)(key[j] >> shift) & ((1u << width) - 1);

            keys[place[j] + counts[digit * (WARPS + 1) + warp]] = key[j];
        }
        __syncthreads();
        EST_UNROLL(EACH)
        for (int j = 0; j < EACH; j++) key[j] = keys[at + j * EST_WARP];
    }
    EST_UNROLL(EACH)
    for (int j = 0; j < EACH; j++) {
        int64_t i = begin + at + j * EST_WARP;

        if (i < s.n) s.key[to][i] = key[j];
    }
}

/* Merges sorted pieces of `width` ids two by two: every key looks up how many of the other piece come before it. */
static __global__ void merge_chunks(const __grid_constant__ est_many<est_sort> m, int width, int from)
{
    unsigned        block;
    const est_sort &s    = m.call[est_own_call(m, &block)];
    const uint64_t *keys = s.key[from];
    int64_t         i    = (int64_t)block * blockDim.x + threadIdx.x, base, piece, begin, low, high;
    uint64_t        key;

    if (i >= s.n) return;
    piece = i / width * width;
    base  = i / (2 * (int64_t)width) * 2 * width;
    low   = piece == base ? base + width : base; /* the other piece */
    high  = low + width < s.n ? low + width : s.n;
    if (low > s.n) low = s.n;
    begin = low;
    key   = keys[i];
    while (low < high) {
        int64_t middle = (low + high) / 2;

        if (keys[middle] < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    s.key[1 - from][base + (i - piece) + (low - begin)] = key;
}

template <int THREADS, int EACH> static int launch_chunks(const est_call *c, const est_sort *calls, int n, int to)
{
    size_t shared = (size_t)THREADS * EACH * sizeof(uint64_t) + (size_t)BINS * (THREADS / EST_WARP + 1) * 4;

    est_many<est_sort> m = est_many_of(calls, n, [](const est_sort &s) { return est_blocks(s.n, THREADS * EACH); });

    return est_launch_shared(c, sort_chunks<THREADS, EACH>, dim3(m.first[m.n]), THREADS, shared, m, to);
}

int est_sort_launch(const est_call *c, const est_sort *calls, int n)
{
    est_many<est_sort> m       = est_many_of(calls, n, [](const est_sort &s) { return est_blocks(s.n); });
    int64_t            longest = 0;
    int                merges  = 0, from, error;

    for (int i = 0; i < n; i++) longest = calls[i].n > longest ? calls[i].n : longest;
    if (longest > (int64_t)1 << EST_PLACE_BITS) return (int)cudaErrorUnknown;
    for (int64_t width = CHUNK_MAX; width < longest; width *= 2) merges++;
    from  = merges % 2;
    error = longest <= 512    ? launch_chunks<512, 1>(c, calls, n, from)
            : longest <= 4096 ? launch_chunks<1024, 4>(c, calls, n, from)
                              : launch_chunks<1024, 16>(c, calls, n, from);
    for (int64_t width = CHUNK_MAX; width < longest && error == 0; width *= 2, from = 1 - from) {
        error = est_launch(c, merge_chunks, dim3(m.first[m.n]), EST_BLOCK, m, (int)width, from);
    }
    return error;
}
