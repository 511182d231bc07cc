/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI's all-reduce, measured as bench/all_reduce.c measures ours, with its sizes and its output. Compiled with mpicc by
 * bench/compare-allreduce.
 *
 *   all_reduce_mpi [largest size in bytes] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define N_WINDOWS 5

int main(int argc, char **argv)
{
    static const size_t sizes[]   = { 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20 };
    float              *data      = calloc(sizes[4], 1);
    size_t              bytes_max = argc > 1 ? strtoull(argv[1], NULL, 10) : sizes[4];
    int                 rank;

    if (data == NULL) return 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int s = 0; s < 5 && sizes[s] <= bytes_max; s++) {
        size_t n     = ((size_t)64 << 20) / sizes[s];
        int    calls = n < 1 ? 1 : n > 500 ? 500 : (int)n, count = (int)(sizes[s] / sizeof *data);

        MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) printf("{\"bytes\":%zu,\"secs\":[", sizes[s]);
        for (int w = 0; w < N_WINDOWS; w++) {
            double start;

            MPI_Barrier(MPI_COMM_WORLD);
            start = MPI_Wtime();
            for (int i = 0; i < calls; i++)
                MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            if (rank == 0) printf("%s%.9f", w > 0 ? "," : "", (MPI_Wtime() - start) / calls);
        }
        if (rank == 0) printf("]}\n");
        fflush(stdout);
    }
    MPI_Finalize();
    free(data);
    return 0;
}
