/* SPDX-License-Identifier: Apache-2.0
 *
 * Status names, error text, context, and errors handed from thread to thread. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "estoc/status.h"
#include "support/test.h"

TEST(names)
{
    assert_string_equal(est_status_name(EST_OK), "OK");
    assert_string_equal(est_status_name(EST_INVALID_ARGUMENT), "INVALID_ARGUMENT");
    assert_string_equal(est_status_name(EST_UNAUTHENTICATED), "UNAUTHENTICATED");
    assert_string_equal(est_status_name((est_status)99), "UNKNOWN");
    assert_int_equal(EST_ABORTED, 10);
    assert_int_equal(EST_UNAVAILABLE, 14);
}

TEST(fail_records_text_and_place)
{
    int line = __LINE__ + 2;

    assert_int_equal(est_fail(EST_NOT_FOUND, "no %s in %d", "x", 7), EST_NOT_FOUND);
    assert_string_equal(est_error_message(), "no x in 7");

    char where[64];
    snprintf(where, sizeof where, "status.c:%d", line);
    assert_string_equal(est_error_where(), where);
}

TEST(context_goes_in_front)
{
    (void)est_fail(EST_DATA_LOSS, "bad block");
    assert_int_equal(est_fail_context(EST_DATA_LOSS, "while restoring %s", "model.ckpt-5"), EST_DATA_LOSS);
    assert_string_equal(est_error_message(), "while restoring model.ckpt-5: bad block");
}

TEST(own_message_as_argument)
{
    (void)est_fail(EST_UNKNOWN, "inner");
    (void)est_fail(EST_INTERNAL, "outer (%s)", est_error_message());
    assert_string_equal(est_error_message(), "outer (inner)");
}

TEST(long_text_is_cut)
{
    char      text[4000];
    est_error error;

    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)est_fail(EST_UNKNOWN, "%s", text);
    assert_int_equal(strlen(est_error_message()), sizeof error.message - 1);
    est_fail_context(EST_UNKNOWN, "front");
    assert_int_equal(strlen(est_error_message()), sizeof error.message - 1);
    assert_memory_equal(est_error_message(), "front: aaa", 10);
    est_fail_context(EST_UNKNOWN, "%s", text);
    assert_int_equal(strlen(est_error_message()), sizeof error.message - 1);
}

TEST(long_file_name_is_cut)
{
    char name[300];

    memset(name, 'f', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    est_fail_at(name, 123, EST_UNKNOWN, "x");
    assert_true(strlen(est_error_where()) < 64);
    assert_non_null(strstr(est_error_where(), ":123"));
}

static void *fail_elsewhere(void *arg)
{
    est_error *error = arg;

    if (*est_error_message() != '\0') return NULL; /* a new thread starts without an error */
    est_error_take(est_fail(EST_ABORTED, "worker %d gave up", 3), error);
    return error;
}

TEST(errors_cross_threads_by_value)
{
    pthread_t thread;
    est_error error;
    void     *result;

    (void)est_fail(EST_UNKNOWN, "mine");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &error), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &error);
    assert_string_equal(est_error_message(), "mine");

    assert_int_equal(est_error_raise(&error), EST_ABORTED);
    assert_string_equal(est_error_message(), "worker 3 gave up");
    assert_memory_equal(est_error_where(), "status.c:", 9);
}

static est_status try_it(est_status inner, int *reached)
{
    EST_TRY(inner);
    *reached = 1;
    return EST_OK;
}

TEST(try_returns_early)
{
    int reached = 0;

    assert_int_equal(try_it(EST_CANCELLED, &reached), EST_CANCELLED);
    assert_int_equal(reached, 0);
    assert_int_equal(try_it(EST_OK, &reached), EST_OK);
    assert_int_equal(reached, 1);
}

TEST(clear)
{
    assert_int_equal(est_fail(EST_INTERNAL, "it broke"), EST_INTERNAL);
    est_error_clear();
    assert_string_equal(est_error_message(), "");
    assert_string_equal(est_error_where(), "");
}

TEST(spans)
{
    est_i64s list = EST_I64S(3, 5, 7);

    assert_int_equal(list.n, 3);
    assert_int_equal(list.data[2], 7);
}
