/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint's index in memory: entries by key, read from and written to `<prefix>.index`. Keys are the names of
 * tensors and the keys of slices (bundle_entry.h).
 *
 * Threading: one thread at a time while it changes, any thread after. */
#ifndef EST_FORMAT_BUNDLE_INDEX_H
#define EST_FORMAT_BUNDLE_INDEX_H

#include "base/map.h"
#include "format/bundle_entry.h"

/* A zeroed struct is an empty index. */
typedef struct est_bundle_index {
    est_arena        *arena;   /* entries, names, slices; NULL until the first */
    est_map           entries; /* key to est_bundle_entry; in the order they were added */
    est_bundle_header header;  /* of a loaded one */
} est_bundle_index;

/* A new entry under a key that the index does not have yet. Its name is copied, its slices must live as long as the
 * index (its arena is a good place). `out` may be NULL. */
EST_MUST_CHECK est_status est_bundle_index_add(est_bundle_index *index, est_str key, const est_bundle_entry *entry,
                                               est_bundle_entry **out);

/* NULL when there is none. */
est_bundle_entry *est_bundle_index_find(const est_bundle_index *index, est_str key);
est_bundle_entry *est_bundle_index_find_name(const est_bundle_index *index, const char *name);
est_bundle_entry *est_bundle_index_find_slice(const est_bundle_index *index, const char *name,
                                              const est_bundle_slice *slice); /* also when memory is out */

/* Adds the slices of `full` (copied) to those of the partitioned tensor of that name, which is made if it is not there.
 * Dtype and shape must agree. For an index that was not loaded. */
EST_MUST_CHECK est_status est_bundle_index_add_slices(est_bundle_index *index, const est_bundle_entry *full);

/* Reads a whole index. `path` names the bytes in errors. Clear `index` also after a failure. */
EST_MUST_CHECK est_status est_bundle_index_parse(est_bundle_index *index, const char *path, est_str bytes);
EST_MUST_CHECK est_status est_bundle_index_load(est_bundle_index *index, const char *path);

/* Makes `path` hold the index of a checkpoint with n_shards data files; on disk when the call returns. */
EST_MUST_CHECK est_status est_bundle_index_save(const est_bundle_index *index, int32_t n_shards, const char *path);

void est_bundle_index_clear(est_bundle_index *index);

/* --- replacing a checkpoint (B3), for those that write one -------------------------------------------------------- */

/* The number of data files in the header of an existing checkpoint of this name; 0: there is none, or its index is
 * damaged. An index that cannot be read at the moment is an error: it may belong to a good checkpoint. */
EST_MUST_CHECK est_status est_bundle_old_shards(const char *index_path, int32_t *out);

/* Removes `<prefix>.data-?????-of-<n_shards>`: what is there, since a damaged header may say any number. Files that
 * cannot be removed do no harm; removing the checkpoint removes them later. */
void est_bundle_remove_data(const char *prefix, int32_t n_shards);

/* Removes the data of the new checkpoint (`now` files), and its index if that was renamed although syncing its
 * directory failed. With an older checkpoint of the same name the index belongs to one of the two, which keeps its
 * data. */
void est_bundle_roll_back(const char *prefix, const char *index_path, int32_t old, int32_t now);

#endif
