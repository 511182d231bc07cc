/* SPDX-License-Identifier: Apache-2.0
 *
 * The framing of TFRecord, shared by its reader and its writer: 8 bytes length, 4 bytes masked CRC32C of those, the
 * bytes, 4 bytes masked CRC32C of them. Numbers are little-endian. Any thread. */
#ifndef EST_FORMAT_TFRECORD_H
#define EST_FORMAT_TFRECORD_H

#include "base/crc32c.h"
#include "estoc/tfrecord.h"
#include "format/wire.h"

#define EST_TFRECORD_HEADER 12 /* bytes before a record */
#define EST_TFRECORD_FOOTER 4  /* bytes after it */

#define EST_TFRECORD_BUFFER ((size_t)1 << 20) /* what 0 means for buffer_bytes */

/* zlib's windowBits for each kind: its own frame, or gzip's. */
#define EST_ZLIB_WINDOW 15
#define EST_GZIP_WINDOW (15 + 16)

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

#endif
