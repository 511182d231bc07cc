/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sanitizer a test is built with. What ten times as slow a run does not prove better is done in part there, and
 * the place that says so says what still proves it. */
#ifndef EST_TESTS_SANITIZED_H
#define EST_TESTS_SANITIZED_H

#if defined(__has_feature)
#define EST_TEST_ASAN __has_feature(address_sanitizer)
#define EST_TEST_TSAN __has_feature(thread_sanitizer)
#else
#define EST_TEST_ASAN 0
#define EST_TEST_TSAN 0
#endif

#define EST_TEST_SANITIZED (EST_TEST_ASAN || EST_TEST_TSAN)

#endif
