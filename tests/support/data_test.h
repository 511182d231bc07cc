/* SPDX-License-Identifier: Apache-2.0
 *
 * Testing datasets: elements as text, rows of any shape as a source, and what must hold for every dataset: a position
 * restored goes on exactly, and no failed allocation does harm.
 *
 * An element is the text of its components with " | " between them, a dataset that of its elements with " ; ". A tensor
 * is "3", "[1 2]", "[[1 2] [3 4]]", strings in quotes, one without elements as "empty" and its shape; a ragged one has
 * "/" and the splits after it: "[1 2 3]/[0 1 3]". */
#ifndef EST_TESTS_DATA_TEST_H
#define EST_TESTS_DATA_TEST_H

#include "data/stage.h"

/* A source of test rows: fn makes component i of row `row`. With a path, row r says that it is from line r + 1 of
 * it. */
typedef est_status (*est_test_rows_fn)(int64_t row, int i, est_tensor **out);
est_dataset *est_test_rows(const est_component *components, int n, int64_t n_rows, est_test_rows_fn fn,
                           const char *path);

/* Takes the dataset; the test fails when it or an iterator of it fails. */
est_dataset  *est_test_finish(est_dataset *dataset);
est_iterator *est_test_iterate(est_dataset *dataset);

/* The text of up to n elements (EST_FOREVER: all), freed with est_free. */
char *est_test_elements(est_iterator *rows, const est_dataset *dataset, int64_t n);

/* The dataset, which is taken, yields exactly this. */
void est_test_yields(est_dataset *dataset, const char *want);

/* The dataset, which is taken, fails when it is made (or with its first elements) with this text in the error. */
void est_test_refused(est_dataset *dataset, const char *text);
void est_test_breaks(est_dataset *dataset, est_status status, const char *text);

/* Makes the same dataset every time it is called. */
typedef est_dataset *(*est_test_make)(void);

/* After every number of elements up to n: a position saved there, put into a new iterator of a new dataset, gives what
 * the first would have given, and saved again it is the same. */
void est_test_positions(est_test_make make, int64_t n);

/* The dataset as bytes and back; `dataset` is borrowed. */
est_dataset *est_test_travel(const est_dataset *dataset);

/* A dataset decoded of its bytes has the same components and bytes as the original and yields the same first n
 * elements; a position saved with either after any number of them is good for the other. */
void est_test_travels(est_test_make make, int64_t n);

/* Making, reading up to n elements, saving and restoring fail cleanly with any one allocation failing. */
void est_test_allocations(est_test_make make, int64_t n);

#endif
