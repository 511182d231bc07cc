/* SPDX-License-Identifier: Apache-2.0
 *
 * The variables and the lookup tables of a process, by name. Memory of a variable is allocated once and then stays
 * where it is, so that plans may keep pointers into it; so do tables. What a row table knows of its keys is in
 * variables too, called "<name of the embedding>/keys" and so on. One thread at a time. */
#ifndef EST_RUNTIME_STORE_H
#define EST_RUNTIME_STORE_H

#include "base/mapping.h"
#include "device/device.h"
#include "graph/op.h"
#include "kernels/lookup_table.h"
#include "kernels/row_table.h"

typedef struct est_store est_store;

EST_MUST_CHECK est_status est_store_create(est_store **out);
void                      est_store_free(est_store *store);

/* The variable called `name`, made (uninitialised) if it is not there; another dtype or shape is an error. */
EST_MUST_CHECK est_status est_store_get(est_store *store, const char *name, est_dtype dtype, est_shape shape,
                                        est_var **out);

/* Lets the value of a variable lie in a file; the mapping is taken. The variable is as it was made, and no plan has its
 * address yet. */
void est_store_set_mapping(est_var *var, est_mapping mapping);

/* Makes the variable of a handle, which is not there yet and has no rows for keys, in the memory of a device. */
EST_MUST_CHECK est_status est_store_add_on(est_store *store, const est_node_def *handle, const est_device *device);

/* Moves a variable of a device that runs by itself to memory of the host; its copies go. No plan may use it. */
EST_MUST_CHECK est_status est_store_move_here(est_store *store, est_var *var);

/* As est_store_add_on, with copies on devices[1] and so on. Copies are found by name, but not listed. */
EST_MUST_CHECK est_status est_store_add_copies(est_store *store, const est_node_def *handle,
                                               const est_device *const *devices, int n);

/* After a step that writes variables has failed: their copies may differ. Before the next one: makes copies that may
 * differ what their variables are; no step is under way. */
void                      est_store_spoil_copies(est_store *store);
EST_MUST_CHECK est_status est_store_renew_copies(est_store *store);

/* The variable of a handle, which may be one with rows for keys. */
EST_MUST_CHECK est_status est_store_variable(est_store *store, const est_node_def *handle, est_var **out);

/* What makes a variable with rows for keys. */
typedef struct est_row_spec {
    const char  *name;
    const char  *rows_of; /* the embedding that it is a slot of; NULL: it is one itself, and has the keys */
    est_dtype    dtype;
    est_shape    shape;
    est_row_draw draw;
    int64_t      admit_after, max_age; /* of an embedding */
} est_row_spec;

/* The variable of a spec, made with its keys if it is not there. */
EST_MUST_CHECK est_status est_store_rows(est_store *store, const est_row_spec *spec, est_var **out);

/* What makes a variable that has rows for keys; for those that hold the keys themselves, what makes their embedding.
 * Borrowed until the store goes. */
est_row_spec est_store_row_spec(const est_store *store, const est_var *var);

/* Removes all keys of the dynamic embedding that such a variable belongs to, which is here: it is as it was made. */
void est_store_clear_rows(const est_store *store, const est_var *var);

/* The rows of the table that such a variable belongs to: its own, or those that the candidates it is of wait for. */
const est_key_rows *est_store_table_rows(const est_store *store, const est_var *var);

/* Makes the variable of a handle, which is not there yet, known as one that another task has the memory of; so are the
 * keys that it has rows for. */
EST_MUST_CHECK est_status est_store_add_elsewhere(est_store *store, const est_node_def *handle, int task);

/* The same of one whose rows are spread over `n` tasks, 2 or more: tasks[i] has shard i (kernels/variable_access.h).
 * Shards are found by name, but not listed. */
EST_MUST_CHECK est_status est_store_add_shards(est_store *store, const est_node_def *handle, const int *tasks, int n);

est_var *est_store_find(const est_store *store, const char *name); /* NULL: none */
int      est_store_size(const est_store *store);
est_var *est_store_at(const est_store *store, int i); /* in order of creation */

/* A copy of what a variable that is here holds. Rows that wait (kernels/lazy_rows.h) go on waiting. */
EST_MUST_CHECK est_status est_var_read(const est_var *var, est_pool *pool, est_tensor **out);

/* Gives all of a variable that is here its value. */
EST_MUST_CHECK est_status est_var_write(est_var *var, const void *value);

/* Elements [first, first + n) of a variable that is here, whatever its device; rows that wait go on waiting. */
EST_MUST_CHECK est_status est_var_get(const est_var *var, est_pool *pool, int64_t first, int64_t n, void *out);
EST_MUST_CHECK est_status est_var_put(est_var *var, int64_t first, int64_t n, const void *from);

/* The sets of keys of the store, in order of creation: NULL when i is their number. Those of variables that are
 * elsewhere are empty. */
est_key_rows *est_store_keys(const est_store *store, int i);

/* Gives the sets of keys of one store the keys and rows that those of the same names have in another. */
EST_MUST_CHECK est_status est_store_copy_rows(est_store *to, const est_store *from);

/* The table of a handle, made (empty) if there is none of its name; other dtypes are an error. */
EST_MUST_CHECK est_status est_store_table(est_store *store, const est_node_def *handle, est_lookup_table **out);

#endif
