/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables of a store to and from checkpoint files: what a task does with those it has memory for, be they its own or
 * hosted for others.
 *
 * Reading is straight into the variables' memory, which plans point into and which therefore cannot be swapped for
 * memory read aside. Who must not lose values to a damaged file verifies first: the CRC runs at several times the speed
 * of a disk, the second reading is mostly from the page cache, and a second copy of the model in memory, the
 * alternative, is what large models have least room for.
 *
 * Writing is in two steps, so that training goes on meanwhile: the snapshot is taken by the thread that the store
 * belongs to, which copies nothing, and written by any. What changes before it is written is kept in a buffer of
 * bounded size; when that is full changes wait for the writer (kernels/copy_on_write.h).
 *
 * Variables with rows for keys (kernels/key_rows.h) are saved without rows that no key has, and read as they were saved
 * into their first rows; the set of keys is made of what was read at the end. They are read only together with the keys
 * and all that makes those a set; of a set whose keys are read, a variable that is not read starts empty. An export has
 * keys, but not when they were seen: they count as seen in the last step. */
#ifndef EST_RUNTIME_STORE_FILES_H
#define EST_RUNTIME_STORE_FILES_H

#include "format/bundle.h"
#include "runtime/store.h"

/* A variable of a store and the tensor of a checkpoint that it is, or some rows of. All is borrowed during a call. */
typedef struct est_store_entry {
    const char  *key;  /* the tensor in the checkpoint */
    const char  *name; /* the variable in the store */
    est_dtype    dtype;
    est_shape    full;        /* of the tensor; with rows for keys, of as many as there is room for */
    int64_t      first, rows; /* the variable is these rows of it; rows -1: all of it */
    est_row_spec rows_spec;   /* what makes it when it has rows for keys (est_store_row_spec); name NULL: it has none */
} est_store_entry;

/* The entry of a variable as a whole. */
est_store_entry est_store_entry_of(const est_store *store, const est_var *var, const char *key);

/* Whether there is a NaN in it. An infinity is none: a variable may be meant to have one. */
bool est_view_has_nan(const est_view *view);
bool est_var_has_nan(const est_var *var); /* false for one that has no value */

/* The first of the entries whose variable has a value with a NaN; -1: none. */
int est_store_find_nan(const est_store *store, const est_store_entry *entries, int n);

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Reads all tensors of the entries and checks them against their sums; nothing changes. */
EST_MUST_CHECK est_status est_store_verify(const est_bundle *bundle, const est_store_entry *entries, int n);

/* Gives the variables, made if they are not there, their values from the checkpoint. What its index can tell (names,
 * dtypes, shapes) is checked before any changes. Should reading fail after that, those that had no value have none, and
 * those that had one lose it: an error later rather than a mixture. */
EST_MUST_CHECK est_status est_store_restore(est_store *store, const est_bundle *bundle, const est_store_entry *entries,
                                            int n);

/* Gives a variable its value by mapping its tensor in the file (est_bundle_map). No plan has the variable yet. *mapped
 * is false when it cannot be mapped or has a value: it is to be restored as any other, which also tells what is wrong
 * with it. */
EST_MUST_CHECK est_status est_store_map(est_store *store, const est_bundle *bundle, const est_store_entry *entry,
                                        bool verify, bool *mapped);

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Writes what a variable holds under its name, from where it is; rows that wait (kernels/lazy_rows.h) go on waiting. */
EST_MUST_CHECK est_status est_store_write_variable(est_bundle_writer *writer, const est_var *var, est_pool *pool);

typedef struct est_snapshot est_snapshot;

/* Takes a snapshot of the variables as they are now, of those with rows for keys only of rows that there are. All must
 * have values; a dynamic embedding that no step has used yet is made, and is empty. */
EST_MUST_CHECK est_status est_store_snapshot(est_store *store, const est_store_entry *entries, int n,
                                             est_snapshot **out);

/* Writes it as a checkpoint, once. EST_INVALID_ARGUMENT: there is a NaN in one, which the error names, and no file is
 * left. EST_ABORTED: the snapshot was ended, or the store was freed. Any thread. */
EST_MUST_CHECK est_status est_snapshot_write(est_snapshot *snapshot, const char *prefix);
void                      est_snapshot_free(est_snapshot *snapshot); /* written or not, any thread; NULL is fine */

/* Ends it before it is written: writing fails soon, and changes do not wait for it any more. Any thread. */
void est_snapshot_end(est_snapshot *snapshot);

/* For how long changes of the variables have waited for the writer, because more had changed than *buffer_bytes
 * hold. */
int64_t est_snapshot_paused_ns(est_snapshot *snapshot, size_t *buffer_bytes);

/* "<prefix>.part<part>": what a task calls its part of a checkpoint that several write, until they are merged. To be
 * freed with est_free. A name that ends like this is not taken for that of a checkpoint of some step. */
EST_MUST_CHECK est_status est_part_prefix(const char *prefix, int part, char **out);

#endif
