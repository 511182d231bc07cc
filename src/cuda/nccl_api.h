/* SPDX-License-Identifier: Apache-2.0
 *
 * What of NCCL's interface, since 2.18, is used: written down here, so that the plug-in is built where NCCL is not. */
#ifndef EST_CUDA_NCCL_API_H
#define EST_CUDA_NCCL_API_H

#include <limits.h>
#include <stddef.h>

#define EST_NCCL_OLDEST   21800 /* as ncclGetVersion says it */
#define EST_NCCL_ID_BYTES 128

typedef struct est_nccl_comm est_nccl_comm;

typedef struct est_nccl_id {
    char bytes[EST_NCCL_ID_BYTES];
} est_nccl_id;

typedef enum est_nccl_result {
    EST_NCCL_SUCCESS      = 0,
    EST_NCCL_REMOTE_ERROR = 6,
    EST_NCCL_IN_PROGRESS  = 7
} est_nccl_result;
typedef enum est_nccl_type { EST_NCCL_F32 = 7, EST_NCCL_F64 = 8 } est_nccl_type;
typedef enum est_nccl_op { EST_NCCL_SUM = 0 } est_nccl_op;

/* ncclConfig_t of 2.18, which later versions take by its size and version. */
typedef struct est_nccl_config {
    size_t      size;
    unsigned    magic, version;
    int         blocking, cga_cluster_size, ctas_min, ctas_max; /* INT_MIN: NCCL's default */
    const char *net_name;
    int         split_share;
} est_nccl_config;

#define EST_NCCL_MAGIC 0xcafebeefu

/* Every function is named nccl<name>. */
#define EST_NCCL_FUNCTIONS(X)                                                                                          \
    X(GetVersion, (int *version))                                                                                      \
    X(GetUniqueId, (est_nccl_id * id))                                                                                 \
    X(CommInitRankConfig, (est_nccl_comm * *comm, int n, est_nccl_id id, int rank, est_nccl_config *config))           \
    X(CommGetAsyncError, (est_nccl_comm * comm, est_nccl_result * error))                                              \
    X(CommFinalize, (est_nccl_comm * comm))                                                                            \
    X(CommDestroy, (est_nccl_comm * comm))                                                                             \
    X(CommAbort, (est_nccl_comm * comm))                                                                               \
    X(AllReduce, (const void *from, void *to, size_t count, est_nccl_type type, est_nccl_op op, est_nccl_comm *comm,   \
                  void *stream))

#endif
