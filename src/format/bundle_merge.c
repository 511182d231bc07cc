/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging checkpoints: each task that holds variables of a model writes its own bundle into one directory; merging
 * renames their data files and writes one index for all.
 *
 * The number of data files in the names and in the header is that of the files that hold anything: a bundle without
 * tensors leaves no trace. Where an older checkpoint of the name has as many, the number is one more (B3). */
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "format/bundle.h"
#include "format/bundle_index.h"

/* A data file of a part, renamed to the n-th of the result. */
typedef struct shard_move {
    const char *part; /* prefix */
    int32_t     shard, n_shards;
} shard_move;

typedef struct merge {
    const char *const *parts;
    int                n_parts;
    int32_t           *n_shards; /* of each part */
    est_bundle_index   index;
    shard_move        *moves;
    int32_t            n_moves;
} merge;

/* The new number of a data file; given out in the order in which they are first seen. */
static est_status new_shard(merge *m, const char *part, int32_t shard, int32_t n_shards, int32_t *out)
{
    shard_move *moves;

    for (int32_t i = m->n_moves - 1; i >= 0 && m->moves[i].part == part; i--) {
        if (m->moves[i].shard != shard) continue;
        *out = i;
        return EST_OK;
    }
    moves = est_realloc(m->moves, (size_t)(m->n_moves + 1) * sizeof *moves);
    if (moves == NULL) return est_no_memory();
    m->moves          = moves;
    moves[m->n_moves] = (shard_move){ part, shard, n_shards };
    *out              = m->n_moves++;
    return EST_OK;
}

static est_status take_entry(merge *m, const char *part, const est_bundle_index *from, const est_map_entry *at)
{
    est_bundle_entry entry = *(const est_bundle_entry *)at->value;

    if (entry.n_slices > 0) return est_bundle_index_add_slices(&m->index, &entry);
    EST_TRY(new_shard(m, part, entry.shard, from->header.n_shards, &entry.shard));
    return est_bundle_index_add(&m->index, (est_str){ at->key, at->key_size }, &entry, NULL);
}

static est_status take_part(merge *m, int i)
{
    const char      *part = m->parts[i];
    est_bundle_index from = { 0 };
    char            *path = NULL;
    est_status       status;

    EST_TRY(est_bundle_index_path(part, &path));
    status         = est_bundle_index_load(&from, path);
    m->n_shards[i] = from.header.n_shards;
    for (uint32_t k = 0; status == EST_OK && k < from.entries.n_entries; k++) {
        status = take_entry(m, part, &from, &from.entries.entries[k]);
        if (status != EST_OK) status = est_fail_context(status, "merging %s", path);
    }
    est_bundle_index_clear(&from);
    est_free(path);
    return status;
}

/* A checkpoint has at least one data file, be it empty. */
static est_status need_one_shard(merge *m)
{
    int32_t ignored;

    return m->n_moves > 0 ? EST_OK : new_shard(m, m->parts[0], 0, 1, &ignored);
}

static est_status move_data(const merge *m, int32_t i, const char *prefix, int32_t n_shards)
{
    char      *from = NULL, *to = NULL;
    est_status status = est_bundle_data_path(m->moves[i].part, m->moves[i].shard, m->moves[i].n_shards, &from);

    if (status == EST_OK) status = est_bundle_data_path(prefix, i, n_shards, &to);
    if (status == EST_OK) status = est_file_commit(from, to);
    est_free(from);
    est_free(to);
    return status;
}

/* Removes the rest of a part: its index, and the data that was not moved. */
static est_status remove_part(const char *part, int32_t n_shards)
{
    char      *index;
    est_status status;

    est_bundle_remove_data(part, n_shards);
    EST_TRY(est_bundle_index_path(part, &index));
    status = est_file_remove(index);
    est_free(index);
    return status;
}

/* The checkpoint is already committed, or never will be, so files that cannot be removed do no harm. */
static void remove_parts(const merge *m)
{
    for (int i = 0; i < m->n_parts; i++) {
        if (remove_part(m->parts[i], m->n_shards[i]) != EST_OK) est_log_warn("%s", est_error_message());
    }
}

/* Keeps B2 and B3. A damaged old index is useless and is removed first: it must not get new data. */
static est_status commit(merge *m, const char *prefix, const char *index_path)
{
    int32_t    old, now;
    est_status status = EST_OK;
    est_error  error;

    EST_TRY(est_bundle_old_shards(index_path, &old));
    now = m->n_moves + (old == m->n_moves);
    if (old == 0) EST_TRY(est_file_remove(index_path));
    for (int32_t i = 0; status == EST_OK && i < m->n_moves; i++) status = move_data(m, i, prefix, now);
    if (status == EST_OK) status = est_bundle_index_save(&m->index, now, index_path);
    if (status != EST_OK) {
        est_error_take(status, &error);
        est_bundle_roll_back(prefix, index_path, old, now);
        remove_parts(m);
        return est_error_raise(&error);
    }
    if (old != 0) est_bundle_remove_data(prefix, old);
    remove_parts(m);
    return EST_OK;
}

static est_status check_parts(const char *const *parts, int n_parts, const char *prefix)
{
    if (n_parts < 1) return est_fail(EST_INVALID_ARGUMENT, "no checkpoints to merge into %s", prefix);
    for (int i = 0; i < n_parts; i++) {
        if (strcmp(parts[i], prefix) != 0) continue;
        return est_fail(EST_INVALID_ARGUMENT, "cannot merge the checkpoint %s into itself", prefix);
    }
    return EST_OK;
}

est_status est_bundle_merge(const char *const *parts, int n_parts, const char *prefix)
{
    merge      m = { .parts = parts, .n_parts = n_parts };
    char      *index_path;
    est_status status;

    EST_TRY(check_parts(parts, n_parts, prefix));
    EST_TRY(est_bundle_index_path(prefix, &index_path));
    m.n_shards = est_zalloc(sizeof *m.n_shards * (size_t)n_parts);
    status     = m.n_shards != NULL ? EST_OK : est_no_memory();
    for (int i = 0; status == EST_OK && i < n_parts; i++) status = take_part(&m, i);
    if (status == EST_OK) status = need_one_shard(&m);
    if (status == EST_OK) status = commit(&m, prefix, index_path);
    est_free(index_path);
    est_bundle_index_clear(&m.index);
    est_free(m.moves);
    est_free(m.n_shards);
    return status;
}
