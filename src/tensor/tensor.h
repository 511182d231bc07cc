/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor functions that only the library may use. */
#ifndef EST_TENSOR_TENSOR_H
#define EST_TENSOR_TENSOR_H

#include "estoc/tensor.h"

/* For a string tensor that only the caller holds, is no view, and whose elements were made to point at bytes elsewhere:
 * copies all of these into the tensor, as one block. On failure the elements still point elsewhere. */
EST_MUST_CHECK est_status est_tensor_own_strings(est_tensor *tensor);

/* The elements for an est_view (graph/op.h), which has no const: kernels do not write to their inputs. */
void *est_tensor_view_data(const est_tensor *tensor);

/* A tensor in the memory of a device that runs by itself (device/device.h): est_tensor_data gives NULL for it, and
 * est_tensor_far_data an address of the device. `release(user)` gives the memory back when the last reference goes. */
struct est_device;
EST_MUST_CHECK est_status est_tensor_wrap_far(const struct est_device *device, est_dtype dtype, est_shape shape,
                                              void *far, void (*release)(void *user), void *user, est_tensor **out);
const struct est_device  *est_tensor_device(const est_tensor *tensor); /* NULL: it is in memory of the host */
void                     *est_tensor_far_data(const est_tensor *tensor);

/* Element i of an array of numbers or booleans; NaN for elements of another dtype. */
double est_number_at(est_dtype dtype, const void *data, int64_t i);

#endif
