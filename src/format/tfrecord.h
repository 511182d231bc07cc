/* SPDX-License-Identifier: Apache-2.0
 *
 * The framing of TFRecord, shared by its reader and its writer: 8 bytes length, 4 bytes masked CRC32C of those, the
 * bytes, 4 bytes masked CRC32C of them. Numbers are little-endian. Any thread. */
#ifndef EST_FORMAT_TFRECORD_H
#define EST_FORMAT_TFRECORD_H

#include <stdbool.h>

#include "base/crc32c.h"
#include "estoc/tfrecord.h"
#include "format/byte_source.h"
#include "format/wire.h"

#define EST_TFRECORD_HEADER 12 /* bytes before a record */
#define EST_TFRECORD_FOOTER 4  /* bytes after it */

#define EST_TFRECORD_BUFFER ((size_t)1 << 20) /* what 0 means for buffer_bytes */

/* The checksum of bytes as it is stored. */
static inline uint32_t est_tfrecord_crc(const void *bytes, size_t size)
{
    return est_crc32c_mask(est_crc32c(bytes, size));
}

/* Whether the header's checksum is right. */
static inline bool est_tfrecord_header_good(const uint8_t header[EST_TFRECORD_HEADER])
{
    return est_wire_load32(header + 8) == est_tfrecord_crc(header, 8);
}

/* Steps over the record that est_tfrecord_next fails at, when the length of it is sound and all its bytes are there.
 * False: it stays where it is, and nothing after it can be read. */
bool est_tfrecord_step_over(est_tfrecord_reader *reader);

/* After a failure of est_tfrecord_next: whether it was that the file ends within the record, as one does that is still
 * being written. */
bool est_tfrecord_is_cut(const est_tfrecord_reader *reader);

/* What it reads from: for marks. It is moved by this reader alone. */
est_byte_source *est_tfrecord_source(est_tfrecord_reader *reader);

#endif
