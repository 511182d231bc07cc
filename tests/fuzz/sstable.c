/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the reader of sorted string tables. An input that begins with 'F' is a whole file; of any other the rest is
 * the inside of one block, put into a table whose checksums are right, so that the fuzzer gets past them. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "format/sstable.h"
#include "format/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(est_str table)
{
    est_sstable_cursor cursor;
    est_str            key, value;
    bool               found  = true;
    volatile char      sink   = 0;
    est_status         status = est_sstable_cursor_init(&cursor, "fuzz.index", table);

    while (status == EST_OK) {
        status = est_sstable_cursor_next(&cursor, &found, &key, &value);
        if (status != EST_OK || !found) break;
        for (size_t i = 0; i < key.size; i++) sink = (char)(sink ^ key.data[i]);
        for (size_t i = 0; i < value.size; i++) sink = (char)(sink ^ value.data[i]);
    }
    est_sstable_cursor_clear(&cursor);
}

/* Appends a block with its trailer and its handle. */
static void put_block(est_strbuf *out, est_strbuf *handle, const void *bytes, size_t size)
{
    size_t  start = out->size;
    uint8_t crc[4], varint[2][5];

    est_strbuf_append_bytes(out, bytes, size);
    est_strbuf_append_bytes(out, "", 1);
    est_wire_store32(crc, est_crc32c_mask(est_crc32c(out->data + start, size + 1)));
    est_strbuf_append_bytes(out, crc, 4);
    for (int v = 0; v < 2; v++) {
        size_t left = v == 0 ? start : size;

        for (int i = 0; i < 5; i++, left >>= 7) varint[v][i] = (uint8_t)((left & 0x7f) | (i < 4 ? 0x80 : 0));
        est_strbuf_append_bytes(handle, varint[v], 5);
    }
}

static void walk_block(const uint8_t *data, size_t size)
{
    static const char empty[] = { 0, 0, 0, 0, 1, 0, 0, 0 };
    static const char magic[] = "\x57\xfb\x80\x8b\x24\x75\x47\xdb";
    est_strbuf        table = { 0 }, handle = { 0 }, index = { 0 }, footer = { 0 };
    static const char zeros[20] = { 0 };

    put_block(&table, &handle, data, size);
    est_strbuf_append_bytes(&index, "\0\4\12\xff\xff\xff\xff", 7); /* a key above most, then the handle */
    est_strbuf_append_bytes(&index, handle.data, handle.size);
    est_strbuf_append_bytes(&index, empty, sizeof empty);
    put_block(&table, &footer, empty, sizeof empty);
    put_block(&table, &footer, index.data, index.size);
    est_strbuf_append_bytes(&footer, zeros, 40 - footer.size);
    est_strbuf_append_bytes(&footer, magic, 8);
    est_strbuf_append_bytes(&table, footer.data, footer.size);
    walk((est_str){ table.data, table.size });
    est_strbuf_clear(&table);
    est_strbuf_clear(&handle);
    est_strbuf_clear(&index);
    est_strbuf_clear(&footer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    if (data[0] == 'F') {
        walk((est_str){ (const char *)data + 1, size - 1 });
    } else {
        walk_block(data + 1, size - 1);
    }
    return 0;
}
