/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorted string tables.
 *
 *   entry    varint shared | varint unshared | varint value size | unshared bytes of the key | value
 *   block    entries | uint32 restart offsets | uint32 number of restarts
 *   trailer  after each block: a type byte (0 plain, 1 snappy) | masked CRC of block and type byte
 *   footer   handle of the metaindex | handle of the index | zeros up to 40 bytes | magic
 *   handle   varint offset | varint size of a block without its trailer */
#include "format/sstable.h"

#include <inttypes.h>
#include <string.h>

#include "base/crc32c.h"
#include "format/wire.h"

#define BLOCK_SIZE       ((size_t)256 << 10)
#define RESTART_INTERVAL 16
#define TRAILER_SIZE     5
#define FOOTER_SIZE      48
#define TYPE_PLAIN       0
#define TYPE_SNAPPY      1

static const unsigned char magic[8] = { 0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb };

/* --- bytes -------------------------------------------------------------------------------------------------------- */

static void put_varint(est_strbuf *out, uint64_t v)
{
    unsigned char bytes[10];
    size_t        n = 0;

    for (; v >= 0x80; v >>= 7) bytes[n++] = (unsigned char)(v | 0x80);
    bytes[n++] = (unsigned char)v;
    est_strbuf_append_bytes(out, bytes, n);
}

static void put_u32(est_strbuf *out, uint32_t v)
{
    uint8_t bytes[4];

    est_wire_store32(bytes, v);
    est_strbuf_append_bytes(out, bytes, sizeof bytes);
}

static uint32_t get_u32(const char *p)
{
    return est_wire_load32((const uint8_t *)p);
}

/* Takes a varint off the front of `in`; false when it is cut or too long. */
static bool take_varint(est_str *in, uint64_t *out)
{
    const uint8_t *at = (const uint8_t *)in->data, *end = at + in->size;

    if (!est_wire_varint(&at, end, out)) return false;
    in->data = (const char *)at;
    in->size = (size_t)(end - at);
    return true;
}

static est_str take_bytes(est_str *in, size_t size)
{
    est_str out = { in->data, size };

    in->data += size;
    in->size -= size;
    return out;
}

static est_str text_of(const est_strbuf *buf)
{
    return (est_str){ est_strbuf_text(buf), buf->size };
}

static size_t shared_prefix(est_str a, est_str b)
{
    size_t n = 0, end = a.size < b.size ? a.size : b.size;

    while (n < end && a.data[n] == b.data[n]) n++;
    return n;
}

static int compare(est_str a, est_str b)
{
    size_t end   = a.size < b.size ? a.size : b.size;
    int    order = end > 0 ? memcmp(a.data, b.data, end) : 0;

    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static void assign(est_strbuf *to, est_str from)
{
    est_strbuf_reset(to);
    est_strbuf_append_bytes(to, from.data, from.size);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void block_reset(est_sstable_block *block)
{
    est_strbuf_reset(&block->entries);
    est_strbuf_reset(&block->restarts);
    est_strbuf_reset(&block->last_key);
    put_u32(&block->restarts, 0);
    block->n_since_restart = 0;
}

static void block_clear(est_sstable_block *block)
{
    est_strbuf_clear(&block->entries);
    est_strbuf_clear(&block->restarts);
    est_strbuf_clear(&block->last_key);
}

static void block_add(est_sstable_block *block, est_str key, est_str value)
{
    size_t shared = 0;

    if (block->n_since_restart < block->interval) {
        shared = shared_prefix(text_of(&block->last_key), key);
    } else {
        put_u32(&block->restarts, (uint32_t)block->entries.size);
        block->n_since_restart = 0;
    }
    put_varint(&block->entries, shared);
    put_varint(&block->entries, key.size - shared);
    put_varint(&block->entries, value.size);
    est_strbuf_append_bytes(&block->entries, key.data + shared, key.size - shared);
    est_strbuf_append_bytes(&block->entries, value.data, value.size);
    assign(&block->last_key, key);
    block->n_since_restart++;
}

static size_t block_size_so_far(const est_sstable_block *block)
{
    return block->entries.size + block->restarts.size + 4;
}

/* Ends a block, appends it with its trailer and leaves its place as a handle. */
static void block_write(est_sstable_builder *builder, est_sstable_block *block, est_strbuf *handle)
{
    est_strbuf *out   = &builder->out;
    size_t      start = out->size;
    char        type  = TYPE_PLAIN;

    est_strbuf_append_bytes(out, block->entries.data, block->entries.size);
    est_strbuf_append_bytes(out, block->restarts.data, block->restarts.size);
    put_u32(out, (uint32_t)(block->restarts.size / 4));
    put_varint(handle, start);
    put_varint(handle, out->size - start);
    est_strbuf_append_bytes(out, &type, 1);
    if (block->entries.failed || block->restarts.failed || handle->failed) out->failed = true; /* a reset forgets */
    if (!out->failed) put_u32(out, est_crc32c_mask(est_crc32c(out->data + start, out->size - start)));
    block_reset(block);
}

void est_sstable_builder_init(est_sstable_builder *builder, size_t block_size)
{
    memset(builder, 0, sizeof *builder);
    builder->block_size     = block_size != 0 ? block_size : BLOCK_SIZE;
    builder->data.interval  = RESTART_INTERVAL;
    builder->index.interval = 1;
    block_reset(&builder->data);
    block_reset(&builder->index);
}

void est_sstable_builder_clear(est_sstable_builder *builder)
{
    est_strbuf_clear(&builder->out);
    est_strbuf_clear(&builder->last_key);
    est_strbuf_clear(&builder->handle);
    block_clear(&builder->data);
    block_clear(&builder->index);
}

/* Shortens `key` to a string that is still >= key and < limit, when there is a shorter one. */
static void shorten_between(est_strbuf *key, est_str limit)
{
    size_t        same = shared_prefix(text_of(key), limit);
    unsigned char byte;

    if (same >= key->size || same >= limit.size) return;
    byte = (unsigned char)key->data[same];
    if (byte == 0xff || byte + 1 >= (unsigned char)limit.data[same]) return;
    key->data[same] = (char)(byte + 1);
    key->size       = same + 1;
}

/* Shortens `key` to a string that is still >= key. */
static void shorten_after(est_strbuf *key)
{
    for (size_t i = 0; i < key->size; i++) {
        if ((unsigned char)key->data[i] == 0xff) continue;
        key->data[i]++;
        key->size = i + 1;
        return;
    }
}

/* Enters the last data block into the index; its key there separates it from what follows. */
static void index_last_block(est_sstable_builder *builder)
{
    block_add(&builder->index, text_of(&builder->last_key), text_of(&builder->handle));
    if (builder->handle.failed) builder->out.failed = true;
    est_strbuf_reset(&builder->handle);
}

static void cut_data_block(est_sstable_builder *builder)
{
    if (builder->data.entries.size > 0) block_write(builder, &builder->data, &builder->handle);
}

/* EST_RESOURCE_EXHAUSTED once any part of the table has run out of memory. */
static est_status builder_status(const est_sstable_builder *builder)
{
    EST_TRY(est_strbuf_status(&builder->out));
    EST_TRY(est_strbuf_status(&builder->last_key));
    EST_TRY(est_strbuf_status(&builder->handle));
    EST_TRY(est_strbuf_status(&builder->data.entries));
    EST_TRY(est_strbuf_status(&builder->data.restarts));
    EST_TRY(est_strbuf_status(&builder->data.last_key));
    EST_TRY(est_strbuf_status(&builder->index.entries));
    EST_TRY(est_strbuf_status(&builder->index.restarts));
    return est_strbuf_status(&builder->index.last_key);
}

est_status est_sstable_builder_add(est_sstable_builder *builder, est_str key, est_str value)
{
    if (builder->n > 0 && compare(text_of(&builder->last_key), key) >= 0) {
        return est_fail(EST_INVALID_ARGUMENT, "table keys must rise: \"%.*s\" comes after \"%s\"", (int)key.size,
                        key.data, est_strbuf_text(&builder->last_key));
    }
    if (key.size + value.size >= 2 * builder->block_size) cut_data_block(builder);
    if (builder->handle.size > 0) {
        shorten_between(&builder->last_key, key);
        index_last_block(builder);
    }
    block_add(&builder->data, key, value);
    assign(&builder->last_key, key);
    builder->n++;
    if (block_size_so_far(&builder->data) >= builder->block_size) cut_data_block(builder);
    return builder_status(builder);
}

est_status est_sstable_builder_finish(est_sstable_builder *builder, est_str *bytes)
{
    static const char zeros[FOOTER_SIZE] = { 0 };
    est_sstable_block empty              = { .interval = RESTART_INTERVAL };
    est_strbuf        footer             = { 0 };
    est_status        status;

    cut_data_block(builder);
    if (builder->handle.size > 0) {
        shorten_after(&builder->last_key);
        index_last_block(builder);
    }
    block_reset(&empty);
    block_write(builder, &empty, &footer);
    block_write(builder, &builder->index, &footer);
    status = est_strbuf_status(&footer);
    if (status == EST_OK) status = est_strbuf_status(&empty.restarts);
    if (status == EST_OK) {
        est_strbuf_append_bytes(&footer, zeros, FOOTER_SIZE - sizeof magic - footer.size);
        est_strbuf_append_bytes(&footer, magic, sizeof magic);
        est_strbuf_append_bytes(&builder->out, footer.data, footer.size);
        status = est_strbuf_status(&footer);
    }
    if (status == EST_OK) status = builder_status(builder);
    est_strbuf_clear(&footer);
    block_clear(&empty);
    if (status == EST_OK) *bytes = text_of(&builder->out);
    return status;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static est_status damaged(const est_sstable_cursor *cursor, const char *at, const char *what)
{
    return est_fail(EST_DATA_LOSS, "%s: %s at offset %zu; the file is damaged or not a table", cursor->path, what,
                    (size_t)(at - cursor->table.data));
}

/* Takes a handle off the front of `in` and gives the checked block it points at, trailer taken off. */
static est_status read_block(const est_sstable_cursor *cursor, est_str *in, est_str *block)
{
    const char *at = in->data;
    uint64_t    offset, size, room = cursor->table.size - FOOTER_SIZE;
    const char *start;

    if (!take_varint(in, &offset) || !take_varint(in, &size)) return damaged(cursor, at, "bad block handle");
    if (offset > room || size > room - offset || room - offset - size < TRAILER_SIZE) {
        return est_fail(EST_DATA_LOSS,
                        "%s: a block of %" PRIu64 " bytes at offset %" PRIu64
                        " reaches past the %zu bytes of the file; "
                        "the file is cut or damaged",
                        cursor->path, size, offset, cursor->table.size);
    }
    start = cursor->table.data + offset;
    if (est_crc32c_mask(est_crc32c(start, size + 1)) != get_u32(start + size + 1)) {
        return damaged(cursor, start, "block with a wrong checksum");
    }
    if (start[size] == TYPE_SNAPPY) {
        return est_fail(EST_UNIMPLEMENTED,
                        "%s: the block at offset %" PRIu64
                        " is compressed with snappy, which is not supported; save the "
                        "file again without compression",
                        cursor->path, offset);
    }
    if (start[size] != TYPE_PLAIN) return damaged(cursor, start, "block of an unknown type");
    *block = (est_str){ start, size };
    return EST_OK;
}

/* Leaves the entries of a block: what is before the restarts. Each restart must lie within the entries; where an entry
 * begins is not checked, since a walk from the front has no use for them. */
static est_status strip_restarts(const est_sstable_cursor *cursor, est_str *block)
{
    uint64_t n, array;

    if (block->size < 4) return damaged(cursor, block->data, "block without restarts");
    n     = get_u32(block->data + block->size - 4);
    array = 4 * n + 4;
    if (n == 0 || array > block->size) return damaged(cursor, block->data, "bad number of restarts");
    block->size -= array;
    for (uint64_t i = 0; i < n; i++) {
        const char *restart = block->data + block->size + 4 * i;

        if (get_u32(restart) > block->size) return damaged(cursor, restart, "restart outside its block");
    }
    return EST_OK;
}

/* Takes the next entry off a block; `key` holds the one before and becomes the new one. */
static est_status take_entry(const est_sstable_cursor *cursor, est_str *block, est_strbuf *key, est_str *value)
{
    const char *at = block->data;
    uint64_t    shared, unshared, value_size;
    est_str     tail;

    if (!take_varint(block, &shared) || !take_varint(block, &unshared) || !take_varint(block, &value_size) ||
        shared > key->size || unshared > block->size || value_size > block->size - unshared) {
        return damaged(cursor, at, "bad entry");
    }
    tail      = take_bytes(block, unshared);
    *value    = take_bytes(block, value_size);
    key->size = shared;
    est_strbuf_append_bytes(key, tail.data, tail.size);
    return est_strbuf_status(key);
}

est_status est_sstable_cursor_init(est_sstable_cursor *cursor, const char *path, est_str table)
{
    est_str footer, metaindex;

    memset(cursor, 0, sizeof *cursor);
    cursor->path  = path;
    cursor->table = table;
    if (table.size < FOOTER_SIZE) {
        return est_fail(EST_DATA_LOSS, "%s: %zu bytes are too few for a table; the file is cut or not a table", path,
                        table.size);
    }
    footer = (est_str){ table.data + table.size - FOOTER_SIZE, FOOTER_SIZE };
    if (memcmp(footer.data + FOOTER_SIZE - sizeof magic, magic, sizeof magic) != 0) {
        return damaged(cursor, footer.data + FOOTER_SIZE - sizeof magic, "no table magic");
    }
    footer.size -= sizeof magic;
    EST_TRY(read_block(cursor, &footer, &metaindex));
    EST_TRY(strip_restarts(cursor, &metaindex));
    EST_TRY(read_block(cursor, &footer, &cursor->index));
    EST_TRY(strip_restarts(cursor, &cursor->index));
    for (size_t i = 0; i < footer.size; i++) {
        if (footer.data[i] != 0) return damaged(cursor, footer.data + i, "bad padding of the footer");
    }
    return EST_OK;
}

/* Moves on to the next data block; *found is false when there is none. */
static est_status next_block(est_sstable_cursor *cursor, bool *found)
{
    est_str handle;

    *found = cursor->index.size > 0;
    if (!*found) return EST_OK;
    EST_TRY(take_entry(cursor, &cursor->index, &cursor->index_key, &handle));
    EST_TRY(read_block(cursor, &handle, &cursor->block));
    return strip_restarts(cursor, &cursor->block);
}

static est_status check_order(const est_sstable_cursor *cursor, const char *at)
{
    if (cursor->started && compare(text_of(&cursor->before), text_of(&cursor->key)) >= 0) {
        return damaged(cursor, at, "key out of order");
    }
    if (compare(text_of(&cursor->key), text_of(&cursor->index_key)) > 0) {
        return damaged(cursor, at, "key above that of its block in the index");
    }
    return EST_OK;
}

est_status est_sstable_cursor_next(est_sstable_cursor *cursor, bool *found, est_str *key, est_str *value)
{
    const char *at;

    assign(&cursor->before, text_of(&cursor->key));
    EST_TRY(est_strbuf_status(&cursor->before));
    while (cursor->block.size == 0) {
        EST_TRY(next_block(cursor, found));
        if (!*found) return EST_OK;
        est_strbuf_reset(&cursor->key); /* the first key of a block shares nothing */
    }
    at = cursor->block.data;
    EST_TRY(take_entry(cursor, &cursor->block, &cursor->key, value));
    EST_TRY(check_order(cursor, at));
    cursor->started = true;
    *found          = true;
    *key            = text_of(&cursor->key);
    return EST_OK;
}

void est_sstable_cursor_clear(est_sstable_cursor *cursor)
{
    est_strbuf_clear(&cursor->index_key);
    est_strbuf_clear(&cursor->key);
    est_strbuf_clear(&cursor->before);
}
