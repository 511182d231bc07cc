/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of devices where the plug-in with the GPUs cannot be opened. */
#include <stdlib.h>
#include <string.h>

#include "device/devices.h"
#include "support/test.h"

TEST(lists_the_cpu_and_says_why_there_is_no_gpu)
{
    est_device_info info = { .name = "?" };

    setenv("ESTOC_CUDA_PLUGIN", "/nonexistent/libestoc_cuda.so", 1);
    assert_int_equal(est_device_list(NULL, 0), 1);
    assert_int_equal(est_device_list(&info, 1), 1);
    assert_string_equal(info.name, "/device:CPU:0");
    assert_true(info.memory_bytes > 0 && info.free_bytes <= info.memory_bytes);
    assert_non_null(strstr(est_device_missing(), "no GPU: /nonexistent/libestoc_cuda.so"));
    assert_ptr_equal(est_device_find("cpu", 0), &est_device_cpu);
    assert_null(est_device_find("GPU", 0));
}
