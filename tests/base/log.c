/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: levels, the environment, sinks, and lines on standard error. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "support/log_test.h"
#include "support/test.h"

/* First of all: the level is not set yet and comes from the environment. */
TEST(environment)
{
    setenv("ESTOC_LOG", "debug", 1);
    assert_int_equal(est_log_get_level(), EST_LOG_DEBUG);
    assert_true(est_log_on(EST_LOG_DEBUG));
    assert_false(est_log_on(EST_LOG_TRACE));
    setenv("ESTOC_LOG", "error", 1);
    assert_int_equal(est_log_get_level(), EST_LOG_DEBUG); /* read once */
}

TEST(bad_environment_means_info)
{
    atomic_store(&est_log_limit, EST_LOG_TRACE + 1); /* as in a new process */
    setenv("ESTOC_LOG", "loud", 1);
    assert_int_equal(est_log_get_level(), EST_LOG_INFO);
    unsetenv("ESTOC_LOG");
    atomic_store(&est_log_limit, EST_LOG_TRACE + 1);
    assert_int_equal(est_log_get_level(), EST_LOG_INFO);
    atomic_store(&est_log_limit, EST_LOG_TRACE + 1);
    setenv("ESTOC_LOG", "OFF", 1);
    est_log_error("nobody hears this");
    assert_int_equal(est_log_get_level(), EST_LOG_OFF);
    unsetenv("ESTOC_LOG");
}

static int count_call(int *calls)
{
    return ++*calls;
}

TEST(levels_filter)
{
    int calls = 0;

    log_keep(EST_LOG_INFO);
    est_log_error("e");
    est_log_warn("w");
    est_log_info("step %d loss %.3f", 500, 0.231);
    assert_string_equal(log_text(), "error e\nwarn w\ninfo step 500 loss 0.231\n");
    est_log_debug("%d", count_call(&calls));
    est_log_trace("%d", count_call(&calls));
    assert_int_equal(log_count(EST_LOG_OFF, ""), 3);
    assert_int_equal(calls, 0); /* arguments of a level that is off are not evaluated */

    est_log_set_level(EST_LOG_TRACE);
    est_log_trace("%d", count_call(&calls));
    assert_string_equal(log_line(3), "trace 1");
    assert_int_equal(calls, 1);
    est_log_set_level(EST_LOG_OFF);
    est_log_error("e");
    assert_int_equal(log_count(EST_LOG_OFF, ""), 4);
    est_log_set_level((est_log_level)77);
    assert_int_equal(est_log_get_level(), EST_LOG_TRACE);
    log_release();
}

TEST(long_lines_are_cut)
{
    char text[5000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    log_keep(EST_LOG_INFO);
    est_log_info("%s", text);
    log_release();
    assert_true(strlen(log_line(0)) > 1000 && strlen(log_line(0)) < sizeof text - 1);
}

/* What reaches standard error, caught in a file. */
TEST(standard_error)
{
    est_manual_clock manual;
    FILE            *file      = tmpfile();
    int              saved     = dup(STDERR_FILENO);
    char             line[200] = "";

    assert_non_null(file);
    setenv("TZ", "UTC", 1);
    tzset();
    est_manual_clock_init(&manual, 0, 86400 * EST_NS_PER_SEC + 7000000);
    est_clock_set(&manual.clock);
    est_log_set_level(EST_LOG_WARN);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    est_log_warn("worker %d is late", 2);
    est_log_warn("no file \033[2J%s", "a\nb \xc3\xa4"); /* what others named shows itself, and stays one line */
    est_log_info("unheard");
    est_fault_arm_alloc(1); /* a line is not lost when memory is out */
    est_log_warn("no memory: %s", "\033");
    est_fault_arm_alloc(0);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    est_clock_set(NULL);

    rewind(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "1970-01-02 00:00:00.007 warn worker 2 is late\n");
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "1970-01-02 00:00:00.007 warn no file \\x1b[2Ja\\x0ab \xc3\xa4\n");
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "1970-01-02 00:00:00.007 warn no memory: \\x1b\n");
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
}

static void *log_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++) est_log_info("line %d", i);
    return NULL;
}

TEST(threads)
{
    pthread_t threads[4];

    log_keep(EST_LOG_INFO);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, log_many, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    log_release();
    assert_int_equal(log_count(EST_LOG_INFO, "line "), 4000);
}

TEST(names)
{
    assert_string_equal(est_log_level_name(EST_LOG_ERROR), "error");
    assert_string_equal(est_log_level_name(EST_LOG_TRACE), "trace");
    assert_string_equal(est_log_level_name((est_log_level)9), "unknown");
}

TEST(json)
{
    char  *text = NULL;
    size_t size = 0;
    FILE  *file = open_memstream(&text, &size);

    assert_non_null(file);
    est_fault_arm_alloc(1); /* needs none */
    est_log_json_sink(file, EST_LOG_WARN, INT64_C(1700000000) * EST_NS_PER_SEC + 5000000, "a \"quoted\"\tword");
    est_fault_arm_alloc(0);
    fclose(file);
    assert_string_equal(text, "{\"time\": \"2023-11-14T22:13:20.005Z\", \"level\": \"warn\", "
                              "\"message\": \"a \\\"quoted\\\"\\tword\"}\n");
    free(text);
}
