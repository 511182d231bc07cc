/* SPDX-License-Identifier: Apache-2.0 */
#include "base/descriptors.h"
#include "support/test.h"

#include <sys/resource.h>

static void limit_to(rlim_t soft)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = soft;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Raised once, to the hard limit or 16384; a program that lowers it later keeps its own. */
TEST(raise)
{
    struct rlimit limit;
    int           wanted;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    wanted = limit.rlim_max > 16384 ? 16384 : (int)limit.rlim_max;
    limit_to(200);
    assert_int_equal(est_descriptors_max(), 200);
    est_descriptors_raise();
    assert_int_equal(est_descriptors_max(), wanted);
    limit_to(100);
    est_descriptors_raise();
    assert_int_equal(est_descriptors_max(), 100);
}

TEST(scarce)
{
    limit_to(64);
    assert_false(est_descriptors_scarce(47)); /* 16 at least are kept */
    assert_true(est_descriptors_scarce(48));
    limit_to(400);
    assert_false(est_descriptors_scarce(349)); /* an eighth */
    assert_true(est_descriptors_scarce(350));
}
