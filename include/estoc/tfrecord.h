/* SPDX-License-Identifier: Apache-2.0
 *
 * TFRecord files: byte strings one after the other, each with checksums, the whole file perhaps compressed.
 *
 *     est_tfrecord_reader *reader = NULL;
 *     est_str              record;
 *
 *     status = est_tfrecord_open("train.tfrecord", NULL, &reader);
 *     while (status == EST_OK && (status = est_tfrecord_next(reader, &record)) == EST_OK) use(record);
 *     if (status == EST_OUT_OF_RANGE) status = EST_OK;     (the end, not an error)
 *     est_tfrecord_close(reader);
 *
 * A file that is damaged or cut short gives EST_DATA_LOSS with the file, the number of the record (from 0) and the byte
 * where it starts. Writing is not atomic: write under another name and rename.
 *
 * Threading: one thread at a time for each reader and writer. */
#ifndef ESTOC_TFRECORD_H
#define ESTOC_TFRECORD_H

#include <stddef.h>
#include <stdint.h>

#include "estoc/status.h"
#include "estoc/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum est_compression {
    EST_COMPRESSION_DEFAULT = 0, /* reading: detected from the first bytes; writing: none */
    EST_COMPRESSION_NONE    = 1,
    EST_COMPRESSION_ZLIB    = 2,
    EST_COMPRESSION_GZIP    = 3
} est_compression;

/* --- reading ------------------------------------------------------------------------------------------------------ */

typedef struct est_tfrecord_read_options {
    size_t          struct_size;      /* filled by EST_TFRECORD_READ */
    est_compression compression;      /* 0: detected */
    size_t          record_bytes_max; /* 0: 1 GiB; a longer record is EST_RESOURCE_EXHAUSTED */
    size_t          buffer_bytes;     /* 0: 1 MiB; read at a time */
} est_tfrecord_read_options;

#define EST_TFRECORD_READ(...)                                                                                         \
    (&(const est_tfrecord_read_options){ .struct_size = EST_STRUCT_SIZE(est_tfrecord_read_options), __VA_ARGS__ })

/* A place between two records. */
typedef struct est_tfrecord_position {
    uint64_t offset; /* bytes before it, of the uncompressed contents */
    uint64_t record; /* records before it */
} est_tfrecord_position;

typedef struct est_tfrecord_reader est_tfrecord_reader;

/* Opens a file at its first record. `options` may be NULL. */
EST_API EST_MUST_CHECK est_status est_tfrecord_open(const char *path, const est_tfrecord_read_options *options,
                                                    est_tfrecord_reader **out);

/* The next record, borrowed until the next call with this reader; EST_OUT_OF_RANGE (without a message) at the end.
 * After a failure the reader stays before the failed record, and a further call tries it again; use this to follow a
 * file that is still being written. */
EST_API EST_MUST_CHECK est_status est_tfrecord_next(est_tfrecord_reader *reader, est_str *record);

/* The position of the reader: before the record that est_tfrecord_next would return. */
EST_API est_tfrecord_position est_tfrecord_tell(const est_tfrecord_reader *reader);

/* Seeks to a position of est_tfrecord_tell in this file. In a compressed file this reads everything before it. */
EST_API EST_MUST_CHECK est_status est_tfrecord_seek(est_tfrecord_reader *reader, est_tfrecord_position position);

/* Closes the file and frees the reader. NULL is fine. */
EST_API void est_tfrecord_close(est_tfrecord_reader *reader);

/* --- writing ------------------------------------------------------------------------------------------------------ */

typedef struct est_tfrecord_write_options {
    size_t          struct_size;  /* filled by EST_TFRECORD_WRITE */
    est_compression compression;  /* 0: none */
    int32_t         level;        /* of compression, 1 (fast) to 9 (small); 0: zlib's choice */
    size_t          buffer_bytes; /* 0: 1 MiB; collected before it is written */
} est_tfrecord_write_options;

#define EST_TFRECORD_WRITE(...)                                                                                        \
    (&(const est_tfrecord_write_options){ .struct_size = EST_STRUCT_SIZE(est_tfrecord_write_options), __VA_ARGS__ })

typedef struct est_tfrecord_writer est_tfrecord_writer;

/* Creates an empty file, or truncates an existing one. `options` may be NULL. */
EST_API EST_MUST_CHECK est_status est_tfrecord_create(const char *path, const est_tfrecord_write_options *options,
                                                      est_tfrecord_writer **out);

/* Appends a record. After a failure the file is unusable, and later calls also fail. */
EST_API EST_MUST_CHECK est_status est_tfrecord_write(est_tfrecord_writer *writer, const void *bytes, size_t size);

/* Writes all buffered records to the file, so that readers see them. Reduces the compression ratio. */
EST_API EST_MUST_CHECK est_status est_tfrecord_flush(est_tfrecord_writer *writer);

/* Completes the file and closes it. The writer is freed in any case. */
EST_API EST_MUST_CHECK est_status est_tfrecord_finish(est_tfrecord_writer *writer);

/* Frees the writer without completing the file, for after an error. NULL is fine. */
EST_API void est_tfrecord_abandon(est_tfrecord_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
