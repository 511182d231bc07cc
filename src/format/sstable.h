/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorted string tables: the file format of a checkpoint's index. Keys (any bytes) in rising order, each with a value,
 * in checksummed blocks.
 *
 * Layout: data blocks, an empty metaindex block, an index block (one key and place a data block), a 48-byte footer.
 * Writing never compresses, as TensorFlow never does here; reading a snappy-compressed block is refused by name.
 *
 * One thread at a time. */
#ifndef EST_FORMAT_SSTABLE_H
#define EST_FORMAT_SSTABLE_H

#include <stdbool.h>

#include "base/strbuf.h"
#include "estoc/tensor.h"

/* A block under construction. Keys share their beginning with the one before; every few entries one is written whole (a
 * restart), so that a reader can search. */
typedef struct est_sstable_block {
    est_strbuf entries;
    est_strbuf restarts; /* uint32 offsets of the whole keys */
    est_strbuf last_key;
    int        interval; /* entries from one restart to the next */
    int        n_since_restart;
} est_sstable_block;

/* A table under construction; made in memory, since an index is small beside the data. */
typedef struct est_sstable_builder {
    est_strbuf        out; /* finished blocks */
    est_sstable_block data;
    est_sstable_block index;
    est_strbuf        last_key;   /* of the table */
    est_strbuf        handle;     /* place of the last data block, until its key in the index is known */
    size_t            block_size; /* a data block is cut when it reaches this */
    int64_t           n;          /* keys so far */
} est_sstable_builder;

/* block_size 0: TensorFlow's 256 KiB. */
void est_sstable_builder_init(est_sstable_builder *builder, size_t block_size);

/* Adds a key above all before it (compared as unsigned bytes); both are copied. */
EST_MUST_CHECK est_status est_sstable_builder_add(est_sstable_builder *builder, est_str key, est_str value);

/* Ends the table. The bytes are borrowed until the builder is cleared; nothing may be added after. */
EST_MUST_CHECK est_status est_sstable_builder_finish(est_sstable_builder *builder, est_str *bytes);

void est_sstable_builder_clear(est_sstable_builder *builder);

/* Walks a table front to back. Checks all there is to check: footer, checksums, order of keys within and across
 * blocks. */
typedef struct est_sstable_cursor {
    const char *path;  /* for errors */
    est_str     table; /* the whole file */
    est_str     index; /* entries of the index block still to come */
    est_str     block; /* entries of the data block still to come */
    est_strbuf  index_key;
    est_strbuf  key;    /* the last one returned */
    est_strbuf  before; /* the one before it */
    bool        started;
} est_sstable_cursor;

/* Opens a table of `table.size` bytes in memory. `path` names it in errors. Both are borrowed until the cursor is
 * cleared, which is due also after a failure. */
EST_MUST_CHECK est_status est_sstable_cursor_init(est_sstable_cursor *cursor, const char *path, est_str table);

/* The next entry; *found is false at the end. `key` is borrowed until the next call, `value` points into the table. */
EST_MUST_CHECK est_status est_sstable_cursor_next(est_sstable_cursor *cursor, bool *found, est_str *key,
                                                  est_str *value);

void est_sstable_cursor_clear(est_sstable_cursor *cursor);

#endif
