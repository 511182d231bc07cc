/* SPDX-License-Identifier: Apache-2.0
 *
 * BiasAdd and BiasAddGrad on a GPU. Column sums are made in two passes: of chunks of rows, then of the chunks in
 * order. */
#include "cuda/launchers.h"
#include "cuda/loops.cuh"

struct plus {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return a + b;
    }
};

EST_DEFINE_LAUNCHER(bias_add)
{
    switch (c->out[0].dtype) {
    case EST_F32: return est_map2_launch<float, float>(c, plus());
    case EST_F64: return est_map2_launch<double, double>(c, plus());
    case EST_I32: return est_map2_launch<uint32_t, uint32_t>(c, plus()); /* unsigned: overflow wraps */
    default: return est_map2_launch<uint64_t, uint64_t>(c, plus());
    }
}

#define COLUMNS 32
#define LINES   32 /* rows that are read at once */

/* sum[chunk, column]: a block has 32 columns of a chunk of rows. */
template <typename From, typename To>
static __global__ void column_sums(const From *x, To *sum, int64_t rows, int64_t cols, int64_t chunk)
{
    __shared__ double part[LINES][COLUMNS];
    int               column = (int)threadIdx.x % COLUMNS, line = (int)threadIdx.x / COLUMNS;
    int64_t           j = (int64_t)blockIdx.x * COLUMNS + column, first = (int64_t)blockIdx.y * chunk;
    int64_t           end   = first + chunk < rows ? first + chunk : rows;
    double            total = 0;

    for (int64_t i = first + line; i < end && j < cols; i += LINES) total += (double)x[i * cols + j];
    part[line][column] = total;
    __syncthreads();
    if (line != 0 || j >= cols) return;
    for (int k = 1; k < LINES; k++) total += part[k][column];
    sum[blockIdx.y * cols + j] = (To)total;
}

template <typename T> static int launch_sums(const est_call *c)
{
    int64_t  cols = c->out[0].count, rows = cols > 0 ? c->in[0]->count / cols : 0;
    unsigned wide = est_blocks(cols, COLUMNS), chunks = est_blocks(rows, EST_COLUMN_CHUNK);
    T       *x = est_data<T>(c->in[0]), *y = est_data<T>(&c->out[0]);
    double  *part = (double *)c->scratch;
    int      error;

    if (chunks <= 1) return est_launch(c, column_sums<T, T>, dim3(wide), COLUMNS * LINES, x, y, rows, cols, rows);
    error = est_launch(c, column_sums<T, double>, dim3(wide, chunks), COLUMNS * LINES, x, part, rows, cols,
                       (int64_t)EST_COLUMN_CHUNK);
    if (error != 0) return error;
    return est_launch(c, column_sums<double, T>, dim3(wide), COLUMNS * LINES, part, y, (int64_t)chunks, cols,
                      (int64_t)chunks);
}

EST_DEFINE_LAUNCHER(bias_add_grad)
{
    return c->out[0].dtype == EST_F32 ? launch_sums<float>(c) : launch_sums<double>(c);
}
