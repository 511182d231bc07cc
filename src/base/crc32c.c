/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C with the crc32 instruction of SSE 4.2, and with tables where that is missing.
 *
 * The instruction takes 3 cycles but one can start every cycle, so long inputs are cut into three streams that run
 * interleaved. Appending n zero bytes to a stream multiplies its register by x^(8n) modulo the polynomial; that is one
 * carry-less multiplication by a constant and one more crc32 to reduce, and it lines the streams up to be added.
 *
 * Polynomials are bit-reflected throughout: bit 31 is the coefficient of x^0. */
#include "base/crc32c.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define POLYNOMIAL 0x82F63B78u

/* --- polynomials -------------------------------------------------------------------------------------------------- */

/* a * x */
static uint32_t times_x(uint32_t a)
{
    return a >> 1 ^ (a & 1 ? POLYNOMIAL : 0);
}

/* a * b */
static uint32_t times(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (uint32_t bit = UINT32_C(1) << 31; bit != 0; bit >>= 1) {
        if (a & bit) product ^= b;
        b = times_x(b);
    }
    return product;
}

uint32_t est_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b)
{
    uint32_t power = UINT32_C(1) << 23; /* x^8: one byte */

    for (; size_b != 0; size_b >>= 1) {
        if (size_b & 1) crc_a = times(crc_a, power);
        power = times(power, power);
    }
    return crc_a ^ crc_b;
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

static uint32_t       table[8][256]; /* table[k][b]: byte b followed by k zero bytes */
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_fill(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;

        for (int bit = 0; bit < 8; bit++) crc = times_x(crc);
        table[0][byte] = crc;
    }
    for (int k = 1; k < 8; k++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = table[k - 1][byte];

            table[k][byte] = before >> 8 ^ table[0][before & 0xff];
        }
    }
}

static uint64_t load64(const uint8_t *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof word);
    return le64toh(word);
}

uint32_t est_crc32c_extend_portable(uint32_t crc, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;

    pthread_once(&table_once, table_fill);
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word = load64(p) ^ crc;

        crc = 0;
        for (int k = 0; k < 8; k++) crc ^= table[7 - k][word >> 8 * k & 0xff];
    }
    for (; size > 0; size--, p++) crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xff];
    return ~crc;
}

/* --- instructions ------------------------------------------------------------------------------------------------- */

#ifdef __x86_64__
#define HARDWARE __attribute__((target("sse4.2,pclmul")))

/* x^(8n - 33): what n zero bytes multiply a register by; the 33 make up for the product's place in 64 bits. */
#define BLOCK_BYTES    1024
#define SHIFT_1_BLOCK  0x170076fau
#define SHIFT_2_BLOCKS 0xa51b6135u

HARDWARE static uint32_t shift_register(uint32_t crc, uint32_t by)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)crc), _mm_cvtsi32_si128((int)by), 0);

    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

HARDWARE static uint32_t extend_hardware(uint32_t crc, const uint8_t *p, size_t size)
{
    uint64_t a = (uint32_t)~crc;

    for (; size >= 3 * BLOCK_BYTES; size -= 3 * BLOCK_BYTES, p += 3 * BLOCK_BYTES) {
        uint64_t b = 0, c = 0;

        for (size_t i = 0; i < BLOCK_BYTES; i += 8) {
            a = _mm_crc32_u64(a, load64(p + i));
            b = _mm_crc32_u64(b, load64(p + BLOCK_BYTES + i));
            c = _mm_crc32_u64(c, load64(p + 2 * BLOCK_BYTES + i));
        }
        a = shift_register((uint32_t)a, SHIFT_2_BLOCKS) ^ shift_register((uint32_t)b, SHIFT_1_BLOCK) ^ c;
    }
    for (; size >= 8; size -= 8, p += 8) a = _mm_crc32_u64(a, load64(p));
    for (; size > 0; size--, p++) a = _mm_crc32_u8((uint32_t)a, *p);
    return ~(uint32_t)a;
}

uint32_t est_crc32c_extend(uint32_t crc, const void *bytes, size_t size)
{
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) return extend_hardware(crc, bytes, size);
    return est_crc32c_extend_portable(crc, bytes, size);
}
#else
uint32_t est_crc32c_extend(uint32_t crc, const void *bytes, size_t size)
{
    return est_crc32c_extend_portable(crc, bytes, size);
}
#endif
