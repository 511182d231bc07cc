/* SPDX-License-Identifier: Apache-2.0
 *
 * The all-reduce algorithms. */
#ifndef ESTOC_COMMUNICATION_H
#define ESTOC_COMMUNICATION_H

/* The algorithm of an all-reduce between processes. */
typedef enum est_communication {
    EST_COMMUNICATION_AUTO, /* by size, number of workers and hosts */
    EST_COMMUNICATION_RING,
    EST_COMMUNICATION_HALVING,
    EST_COMMUNICATION_DIRECT,
    EST_COMMUNICATION_HIERARCHICAL,
    EST_COMMUNICATION_SHARED, /* memory of one host: EST_FAILED_PRECONDITION when workers are on several */
    /* NCCL, between the GPUs of workers; what it cannot sum, and where it cannot be, is as with auto, with a warning.
     * Auto takes it where all workers have it (docs/gpu.md). Only for multi_worker_mirrored */
    EST_COMMUNICATION_NCCL
} est_communication;

#endif
