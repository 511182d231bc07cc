/* SPDX-License-Identifier: Apache-2.0
 *
 * Files: reading whole ones, replacing them so that a crash leaves the old or the new one, and directories. Errors name
 * the path and the system's reason.
 *
 * Invariants of a replacement:
 *   F1  The bytes are on disk before the name points at them.
 *   F2  The name changes in one step.
 *   F3  The change of the name is on disk before the call returns.
 *
 * Any thread. */
#ifndef EST_BASE_FILE_H
#define EST_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "estoc/status.h"

/* The code that an errno value means to a caller. */
est_status est_status_from_errno(int error);

/* Reads all of `path`. The bytes (followed by a 0 that `size` does not count) are the caller's, freed with est_free. */
EST_MUST_CHECK est_status est_file_read(const char *path, char **bytes, size_t *size);

/* Writes all bytes to an open file; `path` is for the error. */
EST_MUST_CHECK est_status est_file_write_all(int fd, const char *path, const void *bytes, size_t size);

/* Makes `path` hold these bytes, keeping F1 to F3. */
EST_MUST_CHECK est_status est_file_replace(const char *path, const void *bytes, size_t size);

/* The steps of a replacement, for files written in pieces. Sync the descriptor that wrote (F1): the kernel may not
 * report write errors on another one. rename makes `temp` be `path` (F2) and syncs the directory (F3); on failure
 * `temp` is left to the caller. */
EST_MUST_CHECK est_status est_file_sync(int fd, const char *path);
EST_MUST_CHECK est_status est_file_rename(const char *temp, const char *path);

/* Both, for a file that another wrote: it is opened and synced, then renamed. */
EST_MUST_CHECK est_status est_file_commit(const char *temp, const char *path);

/* A new file with these bytes, which are durable when the call returns; its name may not be. A failure leaves no
 * file. */
EST_MUST_CHECK est_status est_file_create(const char *path, const void *bytes, size_t size);

/* A unique temporary name in the directory of `path`, freed with est_free: "<path>.tmp-<pid>-<bits>-<n>". */
EST_MUST_CHECK est_status est_file_temp_name(const char *path, char **out);

/* Removes a file; one that is not there is fine. */
EST_MUST_CHECK est_status est_file_remove(const char *path);

/* Makes the directory and those above it, on disk when the call returns; ones that exist are fine. */
EST_MUST_CHECK est_status est_dir_create(const char *path);

/* Fails as making the directory, or anything in it, would for lack of a right or because of a file in its way. Makes
 * nothing. */
EST_MUST_CHECK est_status est_dir_check(const char *path);

/* Removes a directory with everything in it; links are removed, not followed. One that is not there is fine. */
EST_MUST_CHECK est_status est_dir_remove(const char *path);

bool est_file_exists(const char *path); /* of any kind */
bool est_dir_exists(const char *path);

#endif
