/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands for NCCL where there is no GPU: ranks are threads of one process, and memory of the GPU that of the host
 * (cuda_on_cpu.cc). As with a non-blocking communicator, calls return at once, and their state says when all
 * ranks have made them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "cuda/nccl_api.h"

#define RANKS_MAX 8

#define SHOWN extern "C" __attribute__((visibility("default")))

typedef struct rank_group rank_group;

struct rank_group {
    est_nccl_id   id;
    int           n, joined, left;
    int           arrived; /* ranks that have called for the sum under way */
    void         *to[RANKS_MAX];
    size_t        count;
    est_nccl_type type;
    unsigned long n_done; /* sums */
    int           aborted;
    rank_group   *next;
};

struct est_nccl_comm {
    rank_group   *group;
    unsigned long n_begun;
};

static pthread_mutex_t  lock = PTHREAD_MUTEX_INITIALIZER; /* guards all groups */
static rank_group      *groups;
static std::atomic<int> n_ids;

SHOWN est_nccl_result ncclGetVersion(int *version)
{
    *version = 22809;
    return EST_NCCL_SUCCESS;
}

SHOWN const char *ncclGetErrorString(est_nccl_result result)
{
    return result == EST_NCCL_REMOTE_ERROR ? "remote process exited" : "no error";
}

SHOWN est_nccl_result ncclGetUniqueId(est_nccl_id *id)
{
    int number = ++n_ids;

    memset(id, 0, sizeof *id);
    memcpy(id, &number, sizeof number);
    return EST_NCCL_SUCCESS;
}

SHOWN est_nccl_result ncclCommInitRankConfig(est_nccl_comm **comm, int n, est_nccl_id id, int rank,
                                             est_nccl_config *config)
{
    rank_group *g;

    (void)rank;
    if (config->size < sizeof *config || config->magic != EST_NCCL_MAGIC || config->blocking != 0 || n > RANKS_MAX) {
        return EST_NCCL_REMOTE_ERROR;
    }
    pthread_mutex_lock(&lock);
    for (g = groups; g != NULL && memcmp(&g->id, &id, sizeof id) != 0; g = g->next) {}
    if (g == NULL) {
        g       = (rank_group *)calloc(1, sizeof *g);
        g->id   = id;
        g->n    = n;
        g->next = groups;
        groups  = g;
    }
    g->joined++;
    *comm          = (est_nccl_comm *)calloc(1, sizeof **comm);
    (*comm)->group = g;
    pthread_mutex_unlock(&lock);
    return EST_NCCL_IN_PROGRESS;
}

SHOWN est_nccl_result ncclCommGetAsyncError(est_nccl_comm *comm, est_nccl_result *error)
{
    rank_group *g = comm->group;

    pthread_mutex_lock(&lock);
    *error = g->aborted                                      ? EST_NCCL_REMOTE_ERROR
             : g->joined < g->n || g->n_done < comm->n_begun ? EST_NCCL_IN_PROGRESS
                                                             : EST_NCCL_SUCCESS;
    pthread_mutex_unlock(&lock);
    return EST_NCCL_SUCCESS;
}

/* In order of arrival: tests add numbers whose sums are exact. */
static void add_up(rank_group *g)
{
    for (size_t i = 0; i < g->count; i++) {
        double sum = 0;

        for (int r = 0; r < g->n; r++) {
            sum += g->type == EST_NCCL_F32 ? (double)((float *)g->to[r])[i] : ((double *)g->to[r])[i];
        }
        for (int r = 0; r < g->n; r++) {
            if (g->type == EST_NCCL_F32) {
                ((float *)g->to[r])[i] = (float)sum;
            } else {
                ((double *)g->to[r])[i] = sum;
            }
        }
    }
}

SHOWN est_nccl_result ncclAllReduce(const void *from, void *to, size_t count, est_nccl_type type, est_nccl_op op,
                                    est_nccl_comm *comm, void *stream)
{
    rank_group *g = comm->group;

    (void)stream;
    if (from != to || op != EST_NCCL_SUM) return EST_NCCL_REMOTE_ERROR;
    pthread_mutex_lock(&lock);
    comm->n_begun++;
    g->count            = count;
    g->type             = type;
    g->to[g->arrived++] = to;
    if (g->arrived == g->n) {
        add_up(g);
        g->arrived = 0;
        g->n_done++;
    }
    pthread_mutex_unlock(&lock);
    return EST_NCCL_IN_PROGRESS;
}

/* The last that leaves a group drops it. */
static void drop(est_nccl_comm *comm, int aborts)
{
    rank_group *g = comm->group;

    pthread_mutex_lock(&lock);
    g->aborted = g->aborted || aborts;
    if (++g->left == g->joined) {
        rank_group **at = &groups;

        while (*at != g) at = &(*at)->next;
        *at = g->next;
        free(g);
    }
    pthread_mutex_unlock(&lock);
    free(comm);
}

SHOWN est_nccl_result ncclCommFinalize(est_nccl_comm *comm)
{
    (void)comm;
    return EST_NCCL_SUCCESS;
}

SHOWN est_nccl_result ncclCommDestroy(est_nccl_comm *comm)
{
    drop(comm, 0);
    return EST_NCCL_SUCCESS;
}

SHOWN est_nccl_result ncclCommAbort(est_nccl_comm *comm)
{
    drop(comm, 1);
    return EST_NCCL_SUCCESS;
}
