/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON: parsing with a good error text, and typed access by path, over jansson.
 *
 * A path is written as one would in a program: "cluster.worker[0]", "task.index"; "" is the value itself. It may be a
 * printf format. An error names the path and what was found there: EST_NOT_FOUND when nothing is, EST_INVALID_ARGUMENT
 * when it is of another type. Keys that contain a dot or a bracket are not reachable by path; walk the object.
 *
 * Threading: a value that no one changes may be read by any thread. */
#ifndef EST_BASE_JSON_H
#define EST_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "estoc/status.h"

typedef json_t est_json;

/* Parses one value of any type. `what` says where the text comes from, for the error: "TF_CONFIG", a path. The value is
 * the caller's, freed with est_json_free. */
EST_MUST_CHECK est_status est_json_parse(const char *text, size_t size, const char *what, est_json **out);
void                      est_json_free(est_json *value); /* NULL is fine */

/* Warns when an object in a text that is JSON has a key twice. The last one counts, as in Python. */
void est_json_warn_of_duplicates(const char *text, size_t size, const char *what);

/* The value at a path; NULL when there is none. Borrowed until the root is freed, as all below. */
est_json *est_json_get(const est_json *root, const char *path, ...) EST_PRINTF(2, 3);

EST_MUST_CHECK est_status est_json_i64(const est_json *root, int64_t *out, const char *path, ...) EST_PRINTF(3, 4);
EST_MUST_CHECK est_status est_json_f64(const est_json *root, double *out, const char *path, ...) EST_PRINTF(3, 4);
EST_MUST_CHECK est_status est_json_bool(const est_json *root, bool *out, const char *path, ...) EST_PRINTF(3, 4);
EST_MUST_CHECK est_status est_json_string(const est_json *root, const char **out, const char *path, ...)
    EST_PRINTF(3, 4);
EST_MUST_CHECK est_status est_json_object(const est_json *root, est_json **out, const char *path, ...) EST_PRINTF(3, 4);

/* An array and how many elements it has; n may be NULL. */
EST_MUST_CHECK est_status est_json_array(const est_json *root, est_json **out, size_t *n, const char *path, ...)
    EST_PRINTF(4, 5);

#endif
