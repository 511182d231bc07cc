/* SPDX-License-Identifier: Apache-2.0
 *
 * Device strings as TensorFlow writes them: "/job:worker/replica:0/task:1/device:GPU:0", any part of it left out,
 * "/cpu:0" and "/gpu:0" for short. The graph only stores them; the runtime decides what runs where. Any thread. */
#ifndef EST_GRAPH_DEVICE_NAME_H
#define EST_GRAPH_DEVICE_NAME_H

#include "device/device.h"

#define EST_DEVICE_JOB_MAX 64

/* The job, task, kind and number of a valid device string: "" and -1 for parts it does not have. */
typedef struct est_device_task {
    char job[EST_DEVICE_JOB_MAX];
    int  task;
    char kind[EST_DEVICE_JOB_MAX]; /* as written: "CPU" */
    int  number;                   /* 0 where there is a kind only */
} est_device_task;

est_device_task est_device_name_task(const char *device);

/* Fails for an invalid device string; "" is any device. */
EST_MUST_CHECK est_status est_device_name_check(const char *device);

/* The device of this process that a string names; EST_NOT_FOUND says why there is none. */
EST_MUST_CHECK est_status est_device_named(const char *name, const est_device **out);

#endif
