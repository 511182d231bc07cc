/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums between the devices of workers, by a library of the devices (est_device.sums), in place of the network of the
 * host. A group of ranks agrees about them at its first sum of floats: rank 0 makes the library's id, which goes by the
 * group's own all-gather, all open the library's group, and say whether that has worked. If one of them cannot, all use
 * the host, and each says why in one line.
 *
 * The group of ranks is what notices a rank that is lost, or a deadline: then the sums are aborted, and the step fails
 * as one whose sums the host makes. A library that fails by itself, or whose group is not opened in time, is not used
 * in the groups after. Values come from memory of the host and go back there, so nothing that is aborted has reached a
 * variable.
 *
 * One thread at a time, that of the communicator. */
#ifndef EST_COLLECTIVE_DEVICE_SUM_H
#define EST_COLLECTIVE_DEVICE_SUM_H

#include "collective/collective.h"
#include "device/device.h"

/* A zeroed one sums nothing. */
typedef struct est_device_sum {
    bool              asks;        /* the ranks of the group agree about it: one has a device, or it is required */
    const est_device *device;      /* NULL: this rank has none */
    bool              required;    /* the program has asked for it: a warning where it cannot be */
    bool              broken;      /* it failed before */
    bool              agreed;      /* on the group of ranks there is */
    est_sum_group    *group;       /* NULL: the host sums */
    int64_t           open_ns;     /* that all ranks may take to open the library's group */
    int64_t           deadline_ns; /* of a sum; 0: none */
} est_device_sum;

/* Whether the devices make this sum; agrees first if the group has not yet. */
EST_MUST_CHECK est_status est_device_sum_agree(est_device_sum *sum, est_rank_group *group, size_t count,
                                               est_dtype dtype, bool *out);

/* Begins a sum that the devices make. A failure has aborted the group of ranks. */
EST_MUST_CHECK est_status est_device_sum_begin(est_device_sum *sum, est_rank_group *group, void *data, size_t count,
                                               est_dtype dtype, est_sum_work **out);

/* Waits for a sum. A failure has aborted the group of ranks. */
EST_MUST_CHECK est_status est_device_sum_wait(est_device_sum *sum, est_rank_group *group, est_sum_work *work);

/* Before the group of ranks goes; NULL: there is none. */
void est_device_sum_leave(est_device_sum *sum, est_rank_group *group);

#endif
