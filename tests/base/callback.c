/* SPDX-License-Identifier: Apache-2.0
 *
 * What calls of the user's functions leave as the error. */
#include "base/callback.h"
#include "support/test.h"

static est_status say_nothing(est_status status)
{
    return status;
}

static est_status say_why(est_status status)
{
    return est_fail(status, "no more bread");
}

TEST(texts)
{
    (void)est_fail(EST_NOT_FOUND, "an older failure");
    assert_int_equal(EST_CALLBACK(say_nothing(EST_OK), "baker %d", 3), EST_OK);
    assert_string_equal(est_error_message(), "");
    (void)est_fail(EST_NOT_FOUND, "an older failure");
    assert_int_equal(EST_CALLBACK(say_nothing(EST_INTERNAL), "baker %d", 3), EST_INTERNAL);
    assert_string_equal(est_error_message(), "baker 3 returned INTERNAL and no message (est_fail gives one)");
    assert_int_equal(EST_CALLBACK(say_why(EST_UNAVAILABLE), "baker %d", 3), EST_UNAVAILABLE);
    assert_string_equal(est_error_message(), "no more bread");
}
