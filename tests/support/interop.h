/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that exchange files with TensorFlow: a test program tests/interop/<name>.c and its other side,
 * tests/interop/<name>.py, share a scratch folder. The Python side is started once a program and does what it is asked:
 * interop_ask("write") calls its function `write`, and the test fails with its words when that raises. A test that
 * cannot start Python with TensorFlow fails; nothing is skipped.
 *
 * The comparing is Python's part: the C side reads what TensorFlow wrote and says what it found, or writes and says
 * what it meant, in files of blobs. tests/support/interop.py reads and writes the same files. */
#ifndef EST_TESTS_INTEROP_H
#define EST_TESTS_INTEROP_H

#include "base/strbuf.h"
#include "estoc/tensor.h"
#include "support/test.h"

/* Runs the tests as a cmocka group with the other side of that name beside them; returns what main returns. */
#define INTEROP_MAIN(name) (interop_side = (name), est_test_run(interop_start, interop_stop))
extern const char *interop_side;
int                interop_start(void **state);
int                interop_stop(void **state);

/* Has the other side do something and waits until it is done; a failure there fails the test. */
void interop_ask(const char *request);

/* Fails the test unless status is EST_OK. */
void interop_check(est_status status);

/* "<scratch folder>/<name>"; good until the tenth call after this one. */
const char *interop_path(const char *name);

/* A file of blobs: each is 4 bytes length, little-endian, and its bytes. */
typedef struct interop_blobs {
    est_str *at;
    size_t   n;
    char    *bytes; /* of a file that was read: what `at` borrows from */
} interop_blobs;

/* Those of a file in the scratch folder; those within a blob, borrowed from it. */
void interop_blobs_read(const char *name, interop_blobs *out);
void interop_blobs_of(est_str blob, interop_blobs *out);
void interop_blobs_clear(interop_blobs *blobs);

/* Appends a blob. */
void interop_blob(est_strbuf *out, const void *bytes, size_t size);

/* Appends a tensor as three blobs: its name, "dtype dim dim ...", its bytes; a string is a blob within those. */
void interop_tensor(est_strbuf *out, const char *name, const est_tensor *tensor);

/* Writes the file and empties the buffer. */
void interop_save(const char *name, est_strbuf *blobs);

#endif
