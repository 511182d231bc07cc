/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of graph messages share: files of TensorFlow, damage to every byte, and every allocation failing. */
#ifndef EST_TESTS_DEF_TEST_H
#define EST_TESTS_DEF_TEST_H

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "format/wire.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define DEF_GOLDEN EST_SOURCE_DIR "/tests/golden/format/"

static inline void def_check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static inline est_str def_str(const char *text)
{
    return (est_str){ text, strlen(text) };
}

static inline est_str def_written(const est_wire_writer *w)
{
    return (est_str){ (const char *)w->data, w->size };
}

/* A file of TensorFlow, freed with def_free_file. */
static inline est_str def_read_file(const char *path)
{
    char  *bytes;
    size_t size;

    def_check(est_file_read(path, &bytes, &size));
    return (est_str){ bytes, size };
}

static inline void def_free_file(est_str file)
{
    void *bytes;

    memcpy(&bytes, &file.data, sizeof bytes);
    est_free(bytes);
}

static inline void def_expect_bytes(est_str got, est_str want)
{
    size_t n = got.size < want.size ? got.size : want.size;

    for (size_t i = 0; i < n; i++) {
        if (got.data[i] != want.data[i]) fail_msg("byte %zu of %zu differs", i, want.size);
    }
    assert_int_equal(got.size, want.size);
}

static inline void def_expect_message(const char *part)
{
    if (strstr(est_error_message(), part) == NULL) fail_msg("'%s' does not say '%s'", est_error_message(), part);
}

/* Reads a message and writes it again into `w`. */
typedef est_status (*def_rewrite_fn)(est_str message, est_wire_writer *w);

/* A damaged message is refused, or what is read of it stays the same when written and read again. */
static inline void def_expect_stable(def_rewrite_fn rewrite, est_str message)
{
    est_wire_writer once = { 0 }, twice = { 0 };
    est_status      status = rewrite(message, &once);

    if (status == EST_OK) {
        def_check(rewrite(def_written(&once), &twice));
        def_expect_bytes(def_written(&twice), def_written(&once));
    } else if (status != EST_DATA_LOSS && status != EST_UNIMPLEMENTED && status != EST_RESOURCE_EXHAUSTED &&
               status != EST_INVALID_ARGUMENT) {
        fail_msg("%s: %s", est_status_name(status), est_error_message());
    }
    est_wire_writer_clear(&once);
    est_wire_writer_clear(&twice);
}

/* Cuts the message at every byte and flips every bit of every byte. Copies end where they end, so that a sanitizer sees
 * a read past them. */
static inline void def_damage(def_rewrite_fn rewrite, est_str message)
{
    for (size_t n = 0; n < message.size; n++) {
        char *copy = est_alloc(n + 1);

        memcpy(copy + 1, message.data, n);
        def_expect_stable(rewrite, (est_str){ copy + 1, n });
        est_free(copy);
    }
    for (size_t i = 0; i < message.size; i++) {
        char *copy = est_alloc(message.size);

        memcpy(copy, message.data, message.size);
        for (int bit = 0; bit < 8; bit++) {
            copy[i] = (char)(message.data[i] ^ 1 << bit);
            def_expect_stable(rewrite, (est_str){ copy, message.size });
        }
        est_free(copy);
    }
}

/* Lets every allocation fail once. */
static inline void def_fail_allocations(est_status (*body)(void))
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = body();
        fault_check(&f, status);
    }
}

#endif
