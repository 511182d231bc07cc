/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI's all-reduce, measured as bench/all_reduce.c measures ours, with its output. Compiled with mpicc by
 * bench/compare-allreduce.
 *
 *   all_reduce_mpi sizes in bytes, as 4096,65536 | seconds a size */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define N_WINDOWS 5
#define CALLS_MAX 500

static void reduce(float *data, int count)
{
    MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int clamp(double value, int least, int most)
{
    return value < least ? least : value > most ? most : (int)value;
}

/* How long one takes, as rank 0 sees it: all ranks must measure as often. */
static double try_one(float *data, int count)
{
    double start = MPI_Wtime(), secs;

    reduce(data, count);
    secs = MPI_Wtime() - start;
    MPI_Bcast(&secs, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return secs;
}

static void measure(size_t bytes, double secs_per_size)
{
    float *data  = calloc(bytes, 1);
    int    count = (int)(bytes / sizeof *data), rank, calls, windows;
    double secs;

    if (data == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    reduce(data, count);
    secs    = try_one(data, count);
    calls   = clamp(secs_per_size / N_WINDOWS / secs, 1, CALLS_MAX);
    windows = clamp(secs_per_size / (calls * secs), 2, N_WINDOWS);
    if (rank == 0) printf("{\"bytes\":%zu,\"secs\":[", bytes);
    for (int w = 0; w < windows; w++) {
        double start;

        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        for (int i = 0; i < calls; i++) reduce(data, count);
        if (rank == 0) printf("%s%.9f", w > 0 ? "," : "", (MPI_Wtime() - start) / calls);
    }
    if (rank == 0) printf("]}\n");
    fflush(stdout);
    free(data);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 3) return 2;
    for (char *at = argv[1]; *at != '\0'; at += *at == ',') measure(strtoull(at, &at, 10), strtod(argv[2], NULL));
    MPI_Finalize();
    return 0;
}
