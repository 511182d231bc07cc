/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C (Castagnoli), the checksum of TFRecord, checkpoints and event files, and the masked form they store. Any
 * thread. */
#ifndef EST_BASE_CRC32C_H
#define EST_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of bytes appended to what `crc` is the CRC of; start with 0. */
uint32_t est_crc32c_extend(uint32_t crc, const void *bytes, size_t size);

static inline uint32_t est_crc32c(const void *bytes, size_t size)
{
    return est_crc32c_extend(0, bytes, size);
}

/* The CRC of A followed by B, from the CRCs of both and the size of B: how a large block is summed in parallel. */
uint32_t est_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b);

/* A CRC stored beside the data it covers is masked, so that the CRC of data that holds CRCs stays meaningful. */
static inline uint32_t est_crc32c_mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static inline uint32_t est_crc32c_unmask(uint32_t masked)
{
    uint32_t rotated = masked - 0xa282ead8u;

    return rotated << 15 | rotated >> 17;
}

/* The portable implementation of est_crc32c_extend, without special instructions. */
uint32_t est_crc32c_extend_portable(uint32_t crc, const void *bytes, size_t size);

#endif
