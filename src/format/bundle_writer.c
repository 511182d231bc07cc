/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a checkpoint: tensors one after the other into a data file under a temporary name, their places into an index
 * in memory; finishing names the data, then writes the index. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/fault.h"
#include "base/file.h"
#include "format/bundle.h"
#include "format/bundle_index.h"
#include "tensor/shape.h"

#define BUFFER_SIZE ((size_t)64 << 10) /* small tensors are gathered into writes of this size */
#define CHUNK_SIZE  ((size_t)1 << 20)  /* large ones are summed and written while they are in the cache */
/* writeback is started for so many bytes at once, while the next are being written */
#define START_SIZE ((int64_t)32 << 20)

struct est_bundle_writer {
    char            *prefix;
    char            *data_path; /* final name; NULL until it is decided */
    char            *temp_path; /* name until finished */
    int              fd;        /* -1: closed */
    size_t           alignment;
    int64_t          offset;  /* bytes written or buffered */
    int64_t          started; /* bytes whose writeback was started */
    char            *buffer;
    size_t           n_buffered;
    est_bundle_index index;

    /* the tensor between begin and end */
    bool             open;
    est_bundle_entry entry;
    est_strbuf       name; /* of it */
    est_strbuf       key;
    est_bundle_slice slice;  /* when the key is that of a slice */
    est_shape        full;   /* of the tensor then */
    uint32_t         crc;    /* so far */
    int64_t          wanted; /* total bytes; -1: unknown in advance */
};

/* --- paths -------------------------------------------------------------------------------------------------------- */

est_status est_bundle_data_path(const char *prefix, int32_t shard, int32_t n_shards, char **out)
{
    est_strbuf path = { 0 };

    est_strbuf_printf(&path, "%s.data-%05d-of-%05d", prefix, (int)shard, (int)n_shards);
    return est_strbuf_take(&path, out);
}

est_status est_bundle_index_path(const char *prefix, char **out)
{
    est_strbuf path = { 0 };

    est_strbuf_printf(&path, "%s.index", prefix);
    return est_strbuf_take(&path, out);
}

/* --- the data file ------------------------------------------------------------------------------------------------ */

/* Without this the disk would rest until the sync at the end. Only a hint: errors come with the sync. */
static void start_writeback(est_bundle_writer *writer)
{
#ifdef SYNC_FILE_RANGE_WRITE
    int64_t written = writer->offset - (int64_t)writer->n_buffered;

    if (written - writer->started < START_SIZE) return;
    (void)sync_file_range(writer->fd, writer->started, written - writer->started, SYNC_FILE_RANGE_WRITE);
    writer->started = written;
#endif
}

static est_status flush(est_bundle_writer *writer)
{
    size_t n = writer->n_buffered;

    writer->n_buffered = 0;
    return est_file_write_all(writer->fd, writer->temp_path, writer->buffer, n);
}

static est_status write_bytes(est_bundle_writer *writer, const void *bytes, size_t size)
{
    writer->offset += (int64_t)size;
    if (size > BUFFER_SIZE - writer->n_buffered) EST_TRY(flush(writer));
    if (size >= BUFFER_SIZE) return est_file_write_all(writer->fd, writer->temp_path, bytes, size);
    if (size > 0) memcpy(writer->buffer + writer->n_buffered, bytes, size);
    writer->n_buffered += size;
    return EST_OK;
}

static est_status pad_to_alignment(est_bundle_writer *writer)
{
    static const char zeros[64];
    size_t            over = (size_t)writer->offset % writer->alignment;
    size_t            left = over != 0 ? writer->alignment - over : 0;

    while (left > 0) {
        size_t n = left < sizeof zeros ? left : sizeof zeros;

        EST_TRY(write_bytes(writer, zeros, n));
        left -= n;
    }
    return EST_OK;
}

/* --- one tensor --------------------------------------------------------------------------------------------------- */

static bool covers_all(const est_bundle_slice *resolved, const est_shape *full)
{
    for (int i = 0; i < full->rank; i++) {
        if (resolved->length[i] != full->dim[i]) return false;
    }
    return true;
}

/* Decides key and shape of the entry. A slice that is all of the tensor is stored as the tensor. */
static est_status set_place(est_bundle_writer *writer, const char *name, const est_shape *full,
                            const est_bundle_slice *slice)
{
    est_bundle_slice resolved;

    writer->entry.shape = *full;
    writer->full        = *full;
    writer->slice       = (est_bundle_slice){ .rank = -1 };
    if (slice != NULL) EST_TRY(est_bundle_slice_resolve(slice, full, &resolved));
    if (slice == NULL || covers_all(&resolved, full)) {
        est_strbuf_append(&writer->key, name);
    } else {
        writer->slice       = *slice;
        writer->entry.shape = est_bundle_slice_shape(&resolved);
        est_bundle_slice_key(&writer->key, name, slice);
    }
    return est_strbuf_status(&writer->key);
}

static est_status check_name(const est_bundle_writer *writer, const char *name)
{
    if (writer->fd < 0) return est_fail(EST_FAILED_PRECONDITION, "the checkpoint %s is finished", writer->prefix);
    if (writer->open) {
        return est_fail(EST_FAILED_PRECONDITION, "\"%s\" is still being written to %s", est_strbuf_text(&writer->name),
                        writer->prefix);
    }
    if (name[0] == '\0') return est_fail(EST_INVALID_ARGUMENT, "a tensor in a checkpoint needs a name");
    return EST_OK;
}

/* A name is stored whole or in slices, and each slice once. */
static est_status check_new(const est_bundle_writer *writer, const char *name)
{
    const est_bundle_entry *have = est_bundle_index_find_name(&writer->index, name);
    est_str                 key  = { writer->key.data, writer->key.size };

    if (have != NULL && (writer->slice.rank < 0 || have->n_slices == 0)) {
        return est_fail(EST_ALREADY_EXISTS, "\"%s\" is in the checkpoint %s already", name, writer->prefix);
    }
    if (est_bundle_index_find(&writer->index, key) != NULL) {
        return est_fail(EST_ALREADY_EXISTS, "this slice of \"%s\" already exists in the checkpoint %s", name,
                        writer->prefix);
    }
    return EST_OK;
}

/* begin, for strings too: their size is not known before. */
static est_status begin(est_bundle_writer *writer, const char *name, est_dtype dtype, const est_shape *full,
                        const est_bundle_slice *slice)
{
    size_t     bytes;
    est_status status;

    EST_TRY(check_name(writer, name));
    EST_TRY(est_shape_size(full, dtype, NULL, &bytes));
    est_strbuf_reset(&writer->name);
    est_strbuf_append(&writer->name, name);
    EST_TRY(est_strbuf_status(&writer->name));
    est_strbuf_reset(&writer->key);
    writer->entry = (est_bundle_entry){ .name = writer->name.data, .dtype = dtype };
    status        = set_place(writer, name, full, slice);
    if (status != EST_OK) return est_fail_context(status, "saving \"%s\"", name);
    EST_TRY(check_new(writer, name));
    EST_TRY(est_shape_size(&writer->entry.shape, dtype, NULL, &bytes));
    EST_TRY(pad_to_alignment(writer));
    writer->entry.offset = writer->offset;
    writer->wanted       = dtype == EST_STRING ? -1 : (int64_t)bytes;
    writer->crc          = 0;
    writer->open         = true;
    return EST_OK;
}

est_status est_bundle_begin(est_bundle_writer *writer, const char *name, est_dtype dtype, const est_shape *full,
                            const est_bundle_slice *slice)
{
    if (dtype == EST_STRING || est_dtype_size(dtype) == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\": a %s tensor cannot be saved in pieces", name,
                        est_dtype_name(dtype));
    }
    return begin(writer, name, dtype, full, slice);
}

est_status est_bundle_append(est_bundle_writer *writer, const void *bytes, size_t size)
{
    const char *p = bytes;

    if (!writer->open) return est_fail(EST_FAILED_PRECONDITION, "no tensor of %s is being written", writer->prefix);
    while (size > 0) {
        size_t n = size < CHUNK_SIZE ? size : CHUNK_SIZE;

        writer->crc = est_crc32c_extend(writer->crc, p, n);
        EST_TRY(write_bytes(writer, p, n));
        start_writeback(writer);
        p += n;
        size -= n;
    }
    return EST_OK;
}

static est_status enter(est_bundle_writer *writer)
{
    est_str          key  = { writer->key.data, writer->key.size };
    est_bundle_entry full = writer->entry;

    if (writer->slice.rank >= 0) {
        full.shape    = writer->full;
        full.slices   = &writer->slice;
        full.n_slices = 1;
        EST_TRY(est_bundle_index_add_slices(&writer->index, &full));
    }
    return est_bundle_index_add(&writer->index, key, &writer->entry, NULL);
}

est_status est_bundle_end(est_bundle_writer *writer)
{
    est_bundle_entry *entry = &writer->entry;

    if (!writer->open) return est_fail(EST_FAILED_PRECONDITION, "no tensor of %s is being written", writer->prefix);
    writer->open = false;
    entry->size  = writer->offset - entry->offset;
    entry->crc   = est_crc32c_mask(writer->crc);
    if (writer->wanted >= 0 && entry->size != writer->wanted) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\": %" PRId64 " bytes were written, its shape needs %" PRId64,
                        entry->name, entry->size, writer->wanted);
    }
    return enter(writer);
}

/* --- whole tensors ------------------------------------------------------------------------------------------------ */

uint32_t est_bundle_crc_length(uint32_t crc, uint64_t length)
{
    uint8_t bytes[8];

    est_wire_store64(bytes, length);
    return est_crc32c_extend(crc, bytes, length <= UINT32_MAX ? 4 : 8);
}

static est_status append_varint(est_bundle_writer *writer, uint64_t v)
{
    uint8_t bytes[EST_WIRE_VARINT_MAX];

    return write_bytes(writer, bytes, (size_t)(est_wire_store_varint(bytes, v) - bytes));
}

/* The CRC of an entry of strings covers the lengths in another encoding than the stored one; hence write_bytes in
 * addition to append. */
static est_status append_strings(est_bundle_writer *writer, const est_str *strings, int64_t n)
{
    uint32_t crc = 0;
    uint8_t  stored[4];

    for (int64_t i = 0; i < n; i++) {
        crc = est_bundle_crc_length(crc, strings[i].size);
        EST_TRY(append_varint(writer, strings[i].size));
    }
    writer->crc = crc;
    est_wire_store32(stored, est_crc32c_mask(crc));
    EST_TRY(est_bundle_append(writer, stored, sizeof stored));
    for (int64_t i = 0; i < n; i++) EST_TRY(est_bundle_append(writer, strings[i].data, strings[i].size));
    return EST_OK;
}

static est_status add(est_bundle_writer *writer, const char *name, const est_shape *full, const est_bundle_slice *slice,
                      const est_tensor *tensor)
{
    est_dtype dtype = est_tensor_dtype(tensor);

    if (est_dtype_size(dtype) == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\": a %s tensor cannot be saved", name, est_dtype_name(dtype));
    }
    EST_TRY(begin(writer, name, dtype, full, slice));
    if (!est_shape_equal(&writer->entry.shape, est_tensor_shape(tensor))) {
        char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

        writer->open = false;
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\": the tensor has shape %s, its slice is %s", name,
                        est_shape_text(est_tensor_shape(tensor), a), est_shape_text(&writer->entry.shape, b));
    }
    if (dtype == EST_STRING) {
        EST_TRY(append_strings(writer, est_tensor_data(tensor), est_tensor_count(tensor)));
    } else {
        EST_TRY(est_bundle_append(writer, est_tensor_data(tensor), est_tensor_bytes(tensor)));
    }
    return est_bundle_end(writer);
}

est_status est_bundle_add(est_bundle_writer *writer, const char *name, const est_tensor *tensor)
{
    return add(writer, name, est_tensor_shape(tensor), NULL, tensor);
}

est_status est_bundle_add_slice(est_bundle_writer *writer, const char *name, const est_shape *full,
                                const est_bundle_slice *slice, const est_tensor *tensor)
{
    return add(writer, name, full, slice, tensor);
}

/* --- the writer --------------------------------------------------------------------------------------------------- */

static est_status open_data(est_bundle_writer *writer)
{
    est_strbuf path = { 0 };
    char      *data;
    est_status status;

    est_strbuf_printf(&path, "%s.data", writer->prefix);
    EST_TRY(est_strbuf_take(&path, &data));
    status = est_file_temp_name(data, &writer->temp_path);
    est_free(data);
    EST_TRY(status);
    writer->fd = EST_FAULT_POINT("bundle.create")
                     ? (errno = EIO, -1)
                     : open(writer->temp_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (writer->fd < 0) {
        status = est_status_from_errno(errno);
        return est_fail(status, "cannot create %s: %s", writer->temp_path, strerror(errno));
    }
    return EST_OK;
}

est_status est_bundle_writer_create(const char *prefix, size_t alignment, est_bundle_writer **out)
{
    est_bundle_writer *writer = est_zalloc(sizeof *writer);
    est_status         status;

    if (writer == NULL) return est_no_memory();
    writer->fd        = -1;
    writer->alignment = alignment != 0 ? alignment : 1;
    writer->prefix    = est_strdup(prefix);
    writer->buffer    = est_alloc(BUFFER_SIZE);
    if (writer->prefix == NULL || writer->buffer == NULL) {
        status = est_no_memory();
    } else {
        status = open_data(writer);
    }
    if (status != EST_OK) {
        est_bundle_writer_free(writer);
        return status;
    }
    *out = writer;
    return EST_OK;
}

est_status est_bundle_old_shards(const char *index_path, int32_t *out)
{
    est_bundle_index index  = { 0 };
    est_status       status = est_bundle_index_load(&index, index_path);

    if (status == EST_OK) *out = index.header.n_shards;
    est_bundle_index_clear(&index);
    if (status != EST_NOT_FOUND && status != EST_DATA_LOSS && status != EST_UNIMPLEMENTED) return status;
    *out = 0;
    return EST_OK;
}

/* Whether the name is that of shard 0, `first`, but for the number of the shard. */
static bool is_shard_of(const char *name, const char *first)
{
    size_t n = strlen(first), number = n - strlen(strrchr(first, '-')) - strlen("00000-of");

    return strlen(name) == n && strncmp(name, first, number) == 0 && strspn(name + number, "0123456789") == 5 &&
           strcmp(name + number + 5, first + number + 5) == 0;
}

void est_bundle_remove_data(const char *prefix, int32_t n_shards)
{
    const char    *slash = strrchr(prefix, '/');
    char          *first, *folder;
    struct dirent *entry;
    DIR           *handle;
    size_t         base = slash != NULL ? (size_t)(slash + 1 - prefix) : 0;

    if (est_bundle_data_path(prefix, 0, n_shards, &first) != EST_OK) return;
    folder = est_strdup(slash != NULL ? prefix : "./");
    if (folder != NULL && slash != NULL) folder[base] = '\0';
    handle = folder != NULL ? opendir(folder) : NULL;
    while (handle != NULL && (entry = readdir(handle)) != NULL) {
        if (is_shard_of(entry->d_name, first + base)) (void)unlinkat(dirfd(handle), entry->d_name, 0);
    }
    if (handle != NULL) closedir(handle);
    est_free(folder);
    est_free(first);
}

void est_bundle_roll_back(const char *prefix, const char *index_path, int32_t old, int32_t now)
{
    int32_t have = 0;

    if (old == 0) {
        unlink(index_path);
    } else if (est_bundle_old_shards(index_path, &have) != EST_OK || have != old) {
        return;
    }
    est_bundle_remove_data(prefix, now);
}

/* Keeps B1 to B3. A damaged old index is useless and is removed first: it must not get new data. */
static est_status commit(est_bundle_writer *writer, const char *index_path)
{
    int32_t    old, now;
    est_status status;

    EST_TRY(flush(writer));
    EST_TRY(est_file_sync(writer->fd, writer->temp_path));
    EST_TRY(est_bundle_old_shards(index_path, &old));
    now = old == 1 ? 2 : 1;
    if (old == 0) EST_TRY(est_file_remove(index_path));
    EST_TRY(est_bundle_data_path(writer->prefix, 0, now, &writer->data_path));
    status = est_file_rename(writer->temp_path, writer->data_path);
    if (status == EST_OK) {
        close(writer->fd);
        writer->fd = -1;
        status     = est_bundle_index_save(&writer->index, now, index_path);
    }
    if (status != EST_OK) {
        est_bundle_roll_back(writer->prefix, index_path, old, now);
        return status;
    }
    if (old != 0) est_bundle_remove_data(writer->prefix, old);
    return EST_OK;
}

est_status est_bundle_finish(est_bundle_writer *writer)
{
    char      *index_path;
    est_status status;

    EST_TRY(check_name(writer, "a checkpoint"));
    EST_TRY(est_bundle_index_path(writer->prefix, &index_path));
    status = commit(writer, index_path);
    est_free(index_path);
    return status;
}

void est_bundle_writer_free(est_bundle_writer *writer)
{
    if (writer == NULL) return;
    if (writer->fd >= 0) {
        close(writer->fd);
        unlink(writer->temp_path); /* never finished; nothing to be done when even that fails */
    }
    est_bundle_index_clear(&writer->index);
    est_strbuf_clear(&writer->name);
    est_strbuf_clear(&writer->key);
    est_free(writer->prefix);
    est_free(writer->data_path);
    est_free(writer->temp_path);
    est_free(writer->buffer);
    est_free(writer);
}
