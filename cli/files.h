/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a command makes, one or several shards. They are written under temporary names and get their own
 * only when all are complete, so that a failure or a signal leaves what was there before. The command writes them:
 * it finishes its writers before tool_files_commit, and gives them up before tool_files_close.
 *
 * Threading: one thread at a time, and one set of files a process, because of signals. */
#ifndef EST_CLI_FILES_H
#define EST_CLI_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "command.h"

/* What the help of --shards says after its first words. */
#define TOOL_SHARDS_HELP                                                                                               \
    "write N files and deal the rows out in turn: x.tfrecord is\n"                                                     \
    "x-00000-of-0000N.tfrecord and so on, x is x-00000-of-0000N"

typedef struct tool_file {
    char *path, *temp; /* the temporary name, NULL once the file has its own */
} tool_file;

/* A zeroed struct has no files. */
typedef struct tool_files {
    tool_file *list;
    int        n;
} tool_files;

/* Whether a path ends like this, a further .gz left aside. */
bool tool_has_ending(const char *path, const char *ending);

/* Reads the value of --shards; false when it is wrong, which has been reported then. */
bool tool_shards(const tool_command *command, const char *value, int64_t *out);

/* Names the files: `path` itself, or n_shards of them when that is not 0. EST_INVALID_ARGUMENT when one cannot be
 * replaced or is one of the inputs. Nothing is created. */
EST_MUST_CHECK est_status tool_files_name(tool_files *files, const char *path, int64_t n_shards, char *const *inputs,
                                          int n_inputs);

/* From here on a signal that ends the process removes the temporary files. `progress`: the cursor is in a line. */
void tool_files_catch_signals(const tool_files *files, const tool_command *command, bool progress);

/* Gives the files their names. */
EST_MUST_CHECK est_status tool_files_commit(tool_files *files);

/* Removes what was not committed, and forgets the names. */
void tool_files_close(tool_files *files);

/* "x", or "3 files, the first is x-00000-of-00003"; all paths as a JSON array. */
void tool_files_append_text(const tool_files *files, est_strbuf *out);
void tool_files_append_json(const tool_files *files, est_strbuf *out);

#endif
