/* SPDX-License-Identifier: Apache-2.0
 *
 * PNG: every chunk with its length and CRC, and the pixels again after zlib. */
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "format/png.h"
#include "support/fault_loop.h"
#include "support/test.h"

static uint32_t u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Checks a chunk and returns the one after it. */
static const uint8_t *chunk(const uint8_t *at, const char *type, const uint8_t **bytes, uint32_t *size)
{
    *size  = u32(at);
    *bytes = at + 8;
    assert_memory_equal(at + 4, type, 4);
    assert_int_equal(u32(at + 8 + *size), crc32(0, at + 4, *size + 4));
    return at + 12 + *size;
}

static void expect_pixels(int height, int width, int channels, const uint8_t *pixels, int colour_type)
{
    uint8_t        plain[4096];
    const uint8_t *bytes, *at;
    uint8_t       *png;
    size_t         size;
    uint32_t       n;
    uLongf         n_plain = sizeof plain;

    assert_int_equal(est_png_encode(height, width, channels, pixels, &png, &size), EST_OK);
    assert_memory_equal(png, "\x89PNG\r\n\x1a\n", 8);
    at = chunk(png + 8, "IHDR", &bytes, &n);
    assert_int_equal(n, 13);
    assert_int_equal(u32(bytes), width);
    assert_int_equal(u32(bytes + 4), height);
    assert_int_equal(bytes[8], 8);
    assert_int_equal(bytes[9], colour_type);
    assert_memory_equal(bytes + 10, "\0\0\0", 3);
    at = chunk(at, "IDAT", &bytes, &n);
    assert_int_equal(uncompress(plain, &n_plain, bytes, n), Z_OK);
    assert_int_equal(n_plain, height * (1 + width * channels));
    for (int y = 0; y < height; y++) {
        assert_int_equal(plain[y * (1 + width * channels)], 0);
        assert_memory_equal(plain + y * (1 + width * channels) + 1, pixels + y * width * channels,
                            (size_t)(width * channels));
    }
    at = chunk(at, "IEND", &bytes, &n);
    assert_int_equal(n, 0);
    assert_int_equal(at - png, size);
    est_free(png);
}

TEST(pixels)
{
    uint8_t pixels[7 * 5 * 4];

    for (int i = 0; i < (int)sizeof pixels; i++) pixels[i] = (uint8_t)(i * i + 3);
    expect_pixels(7, 5, 1, pixels, 0);
    expect_pixels(7, 5, 2, pixels, 4);
    expect_pixels(7, 5, 3, pixels, 2);
    expect_pixels(7, 5, 4, pixels, 6);
    expect_pixels(1, 1, 1, pixels, 0);
}

TEST(refused)
{
    uint8_t          pixel = 0, *png;
    size_t           size;
    static const int bad[][3] = { { 0, 1, 1 }, { 1, 0, 1 }, { 1, 1, 0 }, { 1, 1, 5 }, { -1, 1, 1 }, { 1 << 30, 2, 4 } };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(est_png_encode(bad[i][0], bad[i][1], bad[i][2], &pixel, &png, &size), EST_INVALID_ARGUMENT);
    }
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 1) {
        png = NULL;
        fault_arm(&f);
        fault_check(&f, est_png_encode(1, 1, 1, &pixel, &png, &size));
        est_free(png);
    }
}
