/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors in the memory of devices: copies there and back. */
#include "base/alloc.h"
#include "base/argument.h"
#include "device/devices.h"
#include "graph/device_name.h"
#include "tensor/tensor.h"

typedef struct far_memory {
    const est_device *device;
    void             *data;
} far_memory;

static void release(void *user)
{
    far_memory *memory = user;

    memory->device->free(memory->device, memory->data);
    est_free(memory);
}

static est_status copy_to(const est_tensor *tensor, const est_device *device, est_tensor **out)
{
    far_memory *memory = est_alloc(sizeof *memory);
    size_t      bytes  = est_tensor_bytes(tensor);
    est_status  status;

    if (memory == NULL) return est_no_memory();
    *memory = (far_memory){ device, device->alloc(device, bytes + 1) };
    if (memory->data == NULL) {
        est_free(memory);
        return est_fail(EST_RESOURCE_EXHAUSTED, "no memory left on the device %s:%d for a tensor of %zu bytes",
                        device->kind, device->number, bytes);
    }
    status = device->copy_in(device, memory->data, est_tensor_data(tensor), bytes);
    if (status == EST_OK) {
        status = est_tensor_wrap_far(device, est_tensor_dtype(tensor), *est_tensor_shape(tensor), memory->data, release,
                                     memory, out);
    }
    if (status != EST_OK) release(memory);
    return status;
}

est_status est_tensor_to_device(est_tensor *tensor, const char *name, est_tensor **out)
{
    const est_device *device;
    est_tensor       *here;
    est_status        status;

    EST_REQUIRE(tensor);
    EST_REQUIRE(name);
    EST_REQUIRE(out);
    EST_TRY(est_device_named(name, &device));
    if (device->runs == NULL) return est_tensor_to_host(tensor, out);
    if (est_tensor_dtype(tensor) == EST_STRING) {
        return est_fail(EST_INVALID_ARGUMENT, "strings stay with the host: \"%s\" computes with numbers", name);
    }
    if (est_tensor_device(tensor) == device) {
        *out = est_tensor_ref(tensor);
        return EST_OK;
    }
    EST_TRY(est_tensor_to_host(tensor, &here));
    status = copy_to(here, device, out);
    est_tensor_free(here);
    return status;
}

est_status est_tensor_to_host(est_tensor *tensor, est_tensor **out)
{
    const est_device *device;
    est_tensor       *copy;
    est_status        status;

    EST_REQUIRE(tensor);
    EST_REQUIRE(out);
    device = est_tensor_device(tensor);
    if (device == NULL) {
        *out = est_tensor_ref(tensor);
        return EST_OK;
    }
    EST_TRY(est_tensor_create(est_tensor_dtype(tensor), *est_tensor_shape(tensor), &copy));
    status = device->copy_out(device, est_tensor_mutable_data(copy), est_tensor_far_data(tensor),
                              est_tensor_bytes(tensor));
    if (status != EST_OK) {
        est_tensor_free(copy);
        return status;
    }
    *out = copy;
    return EST_OK;
}

const char *est_tensor_device_name(const est_tensor *tensor, char *out, size_t size)
{
    const est_device *device;

    if (tensor == NULL || out == NULL || size == 0) return NULL;
    device = est_tensor_device(tensor);
    return est_device_name(device != NULL ? device : &est_device_cpu, out, size);
}
