/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of dataset sources share: a directory of files, and datasets written as one line of text.
 *
 * An element is written as the text or the number of its component 0; a dataset as its elements with a bar after each:
 * "a|b|". */
#ifndef EST_TESTS_SOURCE_TEST_H
#define EST_TESTS_SOURCE_TEST_H

#include <stdbool.h>
#include <stddef.h>

#include "estoc/dataset.h"

/* A new directory, for a group's setup and teardown; all files in it go with it. */
int source_setup(void **state);
int source_teardown(void **state);

/* The path of a file in it; good for the next few calls. */
const char *source_path(const char *name);

/* Makes such a file. Kinds: plain, or gzipped when `name` ends in ".gz". */
void source_write(const char *name, const void *bytes, size_t size);
void source_write_text(const char *name, const char *text);

/* A TFRecord file of records written as above: "a|b|". */
void source_write_records(const char *name, const char *records);

/* The bytes of such a file, to be freed with est_free. */
char *source_read(const char *name, size_t *size);

/* Checks that the dataset, which is freed, yields just these elements and then ends; and that an iterator put at any
 * place of it goes on from there. */
void source_yields(est_dataset *dataset, const char *want);

/* Checks that the dataset, which is freed, yields these elements and then fails, with this in the message. */
void source_fails(est_dataset *dataset, const char *want, est_status status, const char *message);

/* The elements that an iterator of the dataset, which is freed, yields in whatever order, sorted. */
void source_yields_sorted(est_dataset *dataset, const char *want);

/* Checks that a constructor failed with this in the message. */
void source_refused(est_dataset *dataset, const char *message);

/* Reads the dataset that `make` makes from beginning to end, saving and restoring in the middle, with every allocation
 * failing in turn. */
void source_memory_out(est_dataset *(*make)(void));

/* Reads `before` of the file `name`, which the dataset is of, saves, has `write` make the file again with these
 * contents, and puts a new iterator there: it yields `after` and ends, or (NULL) is refused because the file has
 * changed. The dataset is freed. */
void source_rewritten(est_dataset *dataset, const char *before, void (*write)(const char *name, const char *contents),
                      const char *name, const char *contents, const char *after);

/* Has the iterator yield these elements; and the end. */
void source_next(est_iterator *rows, const char *want);
void source_end(est_iterator *rows);

/* A new iterator of the dataset, which is freed. */
est_iterator *source_open(est_dataset *dataset);

#endif
