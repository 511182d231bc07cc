/* SPDX-License-Identifier: Apache-2.0
 *
 * PNG: the signature, then chunks of length, type, bytes and the CRC of type and bytes, numbers with the high byte
 * first:
 *
 *   IHDR  width, height, bits a channel, colour type, compression 0, filter 0, interlace 0
 *   IDAT  zlib of the rows, each after a byte that says its filter: always 0, none
 *   IEND  empty */
#include "format/png.h"

#include <string.h>
#include <zlib.h>

#include "base/alloc.h"

#define SIGNATURE     "\x89PNG\r\n\x1a\n"
#define SIGNATURE_LEN 8
#define CHUNK_EXTRA   12 /* length, type, CRC */
#define IHDR_LEN      13

static uint8_t *put_u32(uint8_t *at, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8) *at++ = (uint8_t)(value >> shift);
    return at;
}

/* Completes a chunk whose `size` bytes are in place, 8 after `at`; returns where the next one begins. */
static uint8_t *put_chunk(uint8_t *at, const char *type, size_t size)
{
    uint8_t *typed = put_u32(at, (uint32_t)size);

    memcpy(typed, type, 4);
    return put_u32(typed + 4 + size, (uint32_t)crc32(0, typed, (uInt)(size + 4)));
}

static void put_header(uint8_t *at, int height, int width, int channels)
{
    static const uint8_t colour_type[] = { 0, 0, 4, 2, 6 };

    at    = put_u32(at, (uint32_t)width);
    at    = put_u32(at, (uint32_t)height);
    *at++ = 8;
    *at++ = colour_type[channels];
    memset(at, 0, 3);
}

est_status est_png_encode(int height, int width, int channels, const uint8_t *pixels, uint8_t **out, size_t *size)
{
    size_t   row   = (size_t)width * (size_t)channels, n_rows;
    uint8_t *plain = NULL, *png = NULL, *at;
    uLongf   packed;

    if (height < 1 || width < 1 || channels < 1 || channels > 4 || (row + 1) > INT32_MAX / (size_t)height) {
        return est_fail(EST_INVALID_ARGUMENT, "a picture of %d x %d pixels with %d channels cannot be a PNG", height,
                        width, channels);
    }
    n_rows = (size_t)height * (row + 1);
    packed = compressBound((uLong)n_rows);
    plain  = est_alloc(n_rows);
    png    = est_alloc(SIGNATURE_LEN + (size_t)3 * CHUNK_EXTRA + IHDR_LEN + packed);
    if (plain == NULL || png == NULL) goto no_memory;
    for (int y = 0; y < height; y++) {
        plain[(size_t)y * (row + 1)] = 0;
        memcpy(plain + (size_t)y * (row + 1) + 1, pixels + (size_t)y * row, row);
    }
    memcpy(png, SIGNATURE, SIGNATURE_LEN);
    at = png + SIGNATURE_LEN;
    put_header(at + 8, height, width, channels);
    at = put_chunk(at, "IHDR", IHDR_LEN);
    if (compress2(at + 8, &packed, plain, (uLong)n_rows, Z_DEFAULT_COMPRESSION) != Z_OK) goto no_memory;
    at = put_chunk(at, "IDAT", packed);
    at = put_chunk(at, "IEND", 0);
    est_free(plain);
    *out  = png;
    *size = (size_t)(at - png);
    return EST_OK;

no_memory: /* the only way compress2 fails with room enough */
    est_free(plain);
    est_free(png);
    return est_no_memory();
}
