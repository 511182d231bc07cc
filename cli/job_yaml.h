/* SPDX-License-Identifier: Apache-2.0
 *
 * YAML as a tree whose nodes have their place in the file, made of the events of libyaml, and a list of errors.
 *
 * Only what job files need: one document; scalars are text until a number is read; plain aliases work (the node is
 * shared, so the tree is a graph without cycles); merge keys, tags and keys that are not scalars are errors.
 * Bounded: depth, size of the text, and how much aliases may repeat.
 *
 * Threading: one thread at a time. */
#ifndef EST_CLI_JOB_YAML_H
#define EST_CLI_JOB_YAML_H

#include <stdbool.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "estoc/tensor.h"

typedef enum job_node_kind { JOB_SCALAR, JOB_LIST, JOB_MAP } job_node_kind;

/* Lives in an arena. */
typedef struct job_node job_node;
struct job_node {
    job_node_kind kind;
    bool          quoted; /* a scalar that is text, even if it looks like a number */
    const char   *source; /* the file, or --set "key=value"; borrowed */
    int           line;   /* from 1; 0: the source is enough */
    int           column;
    const char   *text;  /* of a scalar; without a 0 inside */
    job_node    **items; /* [n] of a list; [2 n] of a map: key, value, key, ... */
    int           n;
    int           n_room;
    int64_t       weight; /* nodes below it, aliases counted each time */
};

/* Errors, a line each: "file:line:column: text". A zeroed struct has none. */
typedef struct job_errors {
    est_strbuf text;
    int        n;
} job_errors;

/* Adds one. */
void job_error(job_errors *errors, const job_node *at, const char *fmt, ...) EST_PRINTF(3, 4);

/* Reads a text; the tree is in the arena. EST_INVALID_ARGUMENT: it is not YAML of this kind, and `errors` say why; an
 * empty text is an empty map. `numbered`: nodes have lines and columns. */
EST_MUST_CHECK est_status job_yaml_parse(est_arena *arena, const char *source, bool numbered, est_str text,
                                         job_errors *errors, job_node **out);

/* A new node without items, at the same place as another (NULL: nowhere); NULL when memory is out. */
job_node *job_node_new(est_arena *arena, job_node_kind kind, const job_node *at);

/* Appends to a list; sets a key of a map, new or not. */
EST_MUST_CHECK est_status job_list_add(est_arena *arena, job_node *list, job_node *item);
EST_MUST_CHECK est_status job_map_set(est_arena *arena, job_node *map, job_node *key, job_node *value);

/* Takes a key out of a map; false: it is not there. */
bool job_map_remove(job_node *map, const char *key);

/* The value of a key; NULL: there is none, or the node is not a map. */
job_node *job_map_get(const job_node *map, const char *key);

/* Absent, empty, ~ or null. */
bool job_is_null(const job_node *node);

/* Appends a text as a scalar that reads back as that text, in quotes where it must be. */
void job_append_scalar(est_strbuf *out, const char *text);

#endif
