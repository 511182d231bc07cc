/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of a checkpoint: a sorted string table whose first key, the empty one, is the header. */
#include "format/bundle_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "format/sstable.h"

static est_status need_arena(est_bundle_index *index)
{
    if (index->arena == NULL) index->arena = est_arena_create();
    return index->arena != NULL ? EST_OK : est_no_memory();
}

/* --- entries ------------------------------------------------------------------------------------------------------ */

est_bundle_entry *est_bundle_index_find(const est_bundle_index *index, est_str key)
{
    return est_map_get_bytes(&index->entries, key.data, key.size);
}

est_bundle_entry *est_bundle_index_find_name(const est_bundle_index *index, const char *name)
{
    return est_map_get(&index->entries, name);
}

est_bundle_entry *est_bundle_index_find_slice(const est_bundle_index *index, const char *name,
                                              const est_bundle_slice *slice)
{
    est_strbuf        key   = { 0 };
    est_bundle_entry *entry = NULL;

    est_bundle_slice_key(&key, name, slice);
    if (!key.failed) entry = est_map_get_bytes(&index->entries, key.data, key.size);
    est_strbuf_clear(&key);
    return entry;
}

est_status est_bundle_index_add(est_bundle_index *index, est_str key, const est_bundle_entry *entry,
                                est_bundle_entry **out)
{
    est_bundle_entry *copy;

    EST_TRY(need_arena(index));
    if (est_bundle_index_find(index, key) != NULL) {
        return est_fail(EST_ALREADY_EXISTS, "the checkpoint has \"%s\" already%s", entry->name,
                        key.size > 0 && key.data[0] == '\0' ? " (the same slice of it)" : "");
    }
    copy = est_arena_alloc(index->arena, sizeof *copy);
    if (copy == NULL) return est_no_memory();
    *copy      = *entry;
    copy->name = est_arena_strdup(index->arena, entry->name);
    if (copy->name == NULL) return est_no_memory();
    EST_TRY(est_map_put_bytes(&index->entries, key.data, key.size, copy));
    if (out != NULL) *out = copy;
    return EST_OK;
}

static est_status check_same_tensor(const est_bundle_entry *have, const est_bundle_entry *more)
{
    char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (have->n_slices == 0) {
        return est_fail(EST_ALREADY_EXISTS, "the checkpoint already has \"%s\" as a whole, not in slices", have->name);
    }
    if (have->dtype != more->dtype || !est_shape_equal(&have->shape, &more->shape)) {
        return est_fail(EST_INVALID_ARGUMENT, "slices of \"%s\" disagree: %s %s and %s %s", have->name,
                        est_dtype_name(have->dtype), est_shape_text(&have->shape, a), est_dtype_name(more->dtype),
                        est_shape_text(&more->shape, b));
    }
    return EST_OK;
}

/* Room for slices is a power of two, so that adding them one by one copies each only a few times. */
static size_t room_for(size_t n)
{
    size_t room = 4;

    while (room < n) room *= 2;
    return room;
}

est_status est_bundle_index_add_slices(est_bundle_index *index, const est_bundle_entry *full)
{
    est_bundle_entry *have = est_bundle_index_find_name(index, full->name);
    est_bundle_slice *slices;
    size_t            n_have, n_more = (size_t)full->n_slices;

    EST_TRY(need_arena(index));
    if (have != NULL) EST_TRY(check_same_tensor(have, full));
    n_have = have != NULL ? (size_t)have->n_slices : 0;
    slices = n_have > 0 ? have->slices : NULL;
    if (n_have == 0 || room_for(n_have + n_more) > room_for(n_have)) {
        slices = est_arena_alloc(index->arena, room_for(n_have + n_more) * sizeof *slices);
        if (slices == NULL) return est_no_memory();
        if (n_have > 0) memcpy(slices, have->slices, n_have * sizeof *slices);
    }
    memcpy(slices + n_have, full->slices, n_more * sizeof *slices);
    if (have == NULL) {
        est_bundle_entry entry = { .name = full->name, .dtype = full->dtype, .shape = full->shape };

        EST_TRY(est_bundle_index_add(index, (est_str){ full->name, strlen(full->name) }, &entry, &have));
    }
    have->slices   = slices;
    have->n_slices = (int)(n_have + n_more);
    return EST_OK;
}

void est_bundle_index_clear(est_bundle_index *index)
{
    est_map_clear(&index->entries);
    est_arena_free(index->arena);
    memset(index, 0, sizeof *index);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static est_status check_header(const est_bundle_header *header, const char *path)
{
    if (header->min_consumer > EST_BUNDLE_VERSION) {
        return est_fail(EST_UNIMPLEMENTED, "%s: needs a reader of checkpoint version %d, this one knows %d", path,
                        (int)header->min_consumer, EST_BUNDLE_VERSION);
    }
    if (header->endianness != 0) {
        return est_fail(EST_UNIMPLEMENTED, "%s: written on a big-endian machine, which is not supported", path);
    }
    if (header->n_shards < 1) {
        return est_fail(EST_DATA_LOSS, "%s: its header has %d data files; the file is damaged", path,
                        (int)header->n_shards);
    }
    return EST_OK;
}

static est_status check_entry(const est_bundle_entry *entry, const est_bundle_header *header, const char *path)
{
    if (entry->shard < 0 || entry->shard >= header->n_shards) {
        return est_fail(EST_DATA_LOSS, "%s: \"%s\" is in data file %d of %d; the file is damaged", path, entry->name,
                        (int)entry->shard, (int)header->n_shards);
    }
    if (entry->offset < 0 || entry->size < 0 || entry->size > INT64_MAX - entry->offset) {
        return est_fail(EST_DATA_LOSS, "%s: \"%s\" has the impossible offset %lld and size %lld; the file is damaged",
                        path, entry->name, (long long)entry->offset, (long long)entry->size);
    }
    return EST_OK;
}

/* The name in a slice's key, for errors; the rest of the key is compared by encoding it again. */
static est_status key_name(est_bundle_index *index, est_str key, const char *path, const char **out)
{
    bool        is_slice = key.data[0] == '\0';
    const char *start    = key.data + is_slice;
    size_t      size     = key.size - is_slice;
    char       *name;

    if (is_slice) size = strnlen(start, size);
    if (memchr(start, '\0', size) != NULL) {
        return est_fail(EST_DATA_LOSS, "%s: the name \"%s\" has a zero byte in it; the file is damaged", path, start);
    }
    name = est_arena_alloc(index->arena, size + 1);
    if (name == NULL) return est_no_memory();
    memcpy(name, start, size);
    *out = name;
    return EST_OK;
}

static est_status load_entry(est_bundle_index *index, est_str key, est_str value, const char *path)
{
    est_bundle_entry entry;
    const char      *name;
    est_status       status;

    EST_TRY(key_name(index, key, path, &name));
    status = est_bundle_entry_parse(value, index->arena, &entry);
    if (status != EST_OK) return est_fail_context(status, "%s: the entry of \"%s\"", path, name);
    entry.name = name;
    EST_TRY(check_entry(&entry, &index->header, path));
    return est_bundle_index_add(index, key, &entry, NULL);
}

static est_status load_header(est_bundle_index *index, est_str value, const char *path)
{
    est_status status = est_bundle_header_parse(value, &index->header);

    if (status != EST_OK) return est_fail_context(status, "%s: the header", path);
    return check_header(&index->header, path);
}

static est_status load_all(est_bundle_index *index, est_sstable_cursor *cursor, const char *path)
{
    est_str key, value;
    bool    found;

    EST_TRY(est_sstable_cursor_next(cursor, &found, &key, &value));
    if (!found || key.size != 0) {
        return est_fail(EST_DATA_LOSS, "%s: has no header; it is not the index of a checkpoint", path);
    }
    EST_TRY(load_header(index, value, path));
    for (;;) {
        EST_TRY(est_sstable_cursor_next(cursor, &found, &key, &value));
        if (!found) return EST_OK;
        EST_TRY(load_entry(index, key, value, path));
    }
}

est_status est_bundle_index_parse(est_bundle_index *index, const char *path, est_str bytes)
{
    est_sstable_cursor cursor;
    est_status         status = need_arena(index);

    if (status != EST_OK) return status;
    status = est_sstable_cursor_init(&cursor, path, bytes);
    if (status == EST_OK) status = load_all(index, &cursor, path);
    est_sstable_cursor_clear(&cursor);
    return status;
}

est_status est_bundle_index_load(est_bundle_index *index, const char *path)
{
    char      *bytes;
    size_t     size;
    est_status status;

    EST_TRY(est_file_read(path, &bytes, &size));
    status = est_bundle_index_parse(index, path, (est_str){ bytes, size });
    est_free(bytes);
    return status;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static int compare_keys(const void *a, const void *b)
{
    const est_map_entry *x = *(const est_map_entry *const *)a, *y = *(const est_map_entry *const *)b;
    size_t               end   = x->key_size < y->key_size ? x->key_size : y->key_size;
    int                  order = memcmp(x->key, y->key, end);

    return order != 0 ? order : (x->key_size > y->key_size) - (x->key_size < y->key_size);
}

/* The entries of the map in the order of their keys; *out is freed with est_free. */
static est_status sorted_entries(const est_map *map, const est_map_entry ***out)
{
    const est_map_entry **sorted = est_alloc(((size_t)map->n + 1) * sizeof *sorted);
    size_t                n      = 0;

    if (sorted == NULL) return est_no_memory();
    for (uint32_t i = 0; i < map->n_entries; i++) {
        if (map->entries[i].key != NULL) sorted[n++] = &map->entries[i];
    }
    qsort(sorted, n, sizeof *sorted, compare_keys);
    *out = sorted;
    return EST_OK;
}

static est_status add_message(est_sstable_builder *table, est_str key, const est_wire_writer *message)
{
    EST_TRY(est_wire_writer_status(message));
    return est_sstable_builder_add(table, key, (est_str){ (const char *)message->data, message->size });
}

static est_status build_table(est_sstable_builder *table, est_wire_writer *message, const est_map_entry **entries,
                              uint32_t n, int32_t n_shards)
{
    est_bundle_header header = { .n_shards = n_shards, .producer = EST_BUNDLE_VERSION };

    est_bundle_header_put(message, &header);
    EST_TRY(add_message(table, (est_str){ "", 0 }, message));
    for (uint32_t i = 0; i < n; i++) {
        est_wire_writer_reset(message);
        est_bundle_entry_put(message, entries[i]->value);
        EST_TRY(add_message(table, (est_str){ entries[i]->key, entries[i]->key_size }, message));
    }
    return EST_OK;
}

est_status est_bundle_index_save(const est_bundle_index *index, int32_t n_shards, const char *path)
{
    const est_map_entry **entries;
    est_sstable_builder   table;
    est_wire_writer       message = { 0 };
    est_str               bytes   = { 0 };
    est_status            status;

    EST_TRY(sorted_entries(&index->entries, &entries));
    est_sstable_builder_init(&table, 0);
    status = build_table(&table, &message, entries, index->entries.n, n_shards);
    if (status == EST_OK) status = est_sstable_builder_finish(&table, &bytes);
    if (status == EST_OK) status = est_file_replace(path, bytes.data, bytes.size);
    est_wire_writer_clear(&message);
    est_sstable_builder_clear(&table);
    est_free(entries);
    return status;
}
