/* SPDX-License-Identifier: Apache-2.0
 *
 * Device strings: which are taken, which are refused, and with what words. */
#include "graph/device_name.h"

#include "support/nn_test.h"

TEST(good_names)
{
    static const char *const good[] = {
        "",
        "/job:ps",
        "/job:worker/task:12",
        "/job:worker/replica:0/task:1/device:GPU:3",
        "/task:1/job:my_job2", /* in any order */
        "/cpu:0",
        "/GPU:1",
        "/device:CPU:0",
        "/device:XLA_CPU", /* any of that kind */
        "/job:*/device:CPU:*",
    };

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (est_device_name_check(good[i]) != EST_OK) fail_msg("%s", est_error_message());
    }
}

TEST(bad_names)
{
    static const char *const bad[] = {
        "cpu:0",
        "/",
        "//cpu:0",
        "/cpu:0/",
        "/cpu",
        "/cpu:",
        "/cpu:x",
        "/cpu:-1",
        "/cpu:0:0",
        "/job:",
        "/job",
        "/job:1a",
        "/job:a b",
        "/task:a",
        "/task:9999999999",
        "/replica:",
        "/device:",
        "/device:CPU:",
        "/device:CPU:x",
        "/device:CPU:0:1",
        "/machine:1",
        "/job:a/job:b",
        "/cpu:0/device:GPU:0",
    };
    char want[300];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (est_device_name_check(bad[i]) != EST_INVALID_ARGUMENT) fail_msg("%s is taken", bad[i]);
        snprintf(
            want, sizeof want,
            "the device is \"%s\"; write parts of \"/job:worker/replica:0/task:0/device:CPU:0\", each at most once, or "
            "\"\" for any device",
            bad[i]);
        assert_string_equal(est_error_message(), want);
    }
}

TEST(a_graph_refuses_a_bad_one)
{
    nn_test t = nn_begin(1);

    est_graph_device(t.graph, "gpu 0");
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "the device is \"gpu 0\""));
    nn_end(&t);
}
