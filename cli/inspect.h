/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `estoc inspect`: one function a format. Each prints what was asked for; on damage it prints what comes
 * before it and returns the failure. */
#ifndef EST_CLI_INSPECT_H
#define EST_CLI_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "estoc/status.h"
#include "format/graph_def.h"

/* What a path can be, in the order of the names of --as. */
typedef enum inspect_kind {
    INSPECT_TFRECORD,
    INSPECT_CHECKPOINT,
    INSPECT_EVENTS,
    INSPECT_GRAPH,
    INSPECT_METAGRAPH,
    INSPECT_SAVEDMODEL,
    INSPECT_KINDS
} inspect_kind;

typedef struct inspect_options {
    const char *path;
    bool        json;
    int64_t     limit; /* INT64_MAX: no limit */
    int64_t     skip;
    bool        count;
    const char *feature; /* "a,b"; NULL: all */
    bool        stats, verify;
    const char *value; /* NULL: no single tensor */
    const char *tag;   /* NULL: all */
    bool        ops, text;
} inspect_options;

EST_MUST_CHECK est_status inspect_tfrecord(const inspect_options *options);
EST_MUST_CHECK est_status inspect_checkpoint(const inspect_options *options);
EST_MUST_CHECK est_status inspect_events(const inspect_options *options);
EST_MUST_CHECK est_status inspect_graph(const inspect_options *options);
EST_MUST_CHECK est_status inspect_meta_graph(const inspect_options *options);
EST_MUST_CHECK est_status inspect_saved_model(const inspect_options *options);

/* The checkpoint with exactly this prefix. */
EST_MUST_CHECK est_status inspect_checkpoint_prefix(const inspect_options *options, const char *prefix);

/* The nodes of a graph and its functions, or with --ops how many there are of each op. With --json the text is members
 * of an object, without its braces. */
EST_MUST_CHECK est_status inspect_show_nodes(const inspect_options *options, const est_graph_def *graph);

/* Reads a file that is one message and shows it; errors name the file. */
typedef est_status (*inspect_message_fn)(const inspect_options *options, est_str message, est_arena *arena);
EST_MUST_CHECK est_status inspect_message(const inspect_options *options, const char *path, inspect_message_fn show);

/* The names in a directory for which `wanted` is true, in order; an array that ends in NULL, freed with
 * inspect_names_free. */
EST_MUST_CHECK est_status inspect_names(const char *dir, bool (*wanted)(const char *name), char ***out);
void                      inspect_names_free(char **names);
bool                      inspect_is_event_name(const char *name);
bool                      inspect_is_index_name(const char *name);

#endif
