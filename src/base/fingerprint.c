/* SPDX-License-Identifier: Apache-2.0
 *
 * Fingerprint64 and FingerprintCat64. All arithmetic is modulo 2^64, words are little-endian.
 *
 * Inputs of up to 64 bytes are hashed from a few overlapping words, with a formula for each range of sizes. Longer ones
 * run a 56-byte state over blocks of 64 bytes and once more, with another multiplier, over the last 64 bytes. */
#include "base/fingerprint.h"

#include <endian.h>
#include <string.h>

static const uint64_t k0 = UINT64_C(0xc3a5c85c97cb3127);
static const uint64_t k1 = UINT64_C(0xb492b66fbe98f273);
static const uint64_t k2 = UINT64_C(0x9ae16a3b2f90404f);

static uint64_t load64(const uint8_t *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof word);
    return le64toh(word);
}

static uint64_t load32(const uint8_t *p)
{
    uint32_t word;

    memcpy(&word, p, sizeof word);
    return le32toh(word);
}

static uint64_t rotate(uint64_t x, int by)
{
    return x >> by | x << (64 - by);
}

static uint64_t fold(uint64_t x)
{
    return x ^ x >> 47;
}

static uint64_t hash_pair(uint64_t u, uint64_t v, uint64_t mul)
{
    uint64_t a = fold((u ^ v) * mul);
    uint64_t b = fold((v ^ a) * mul);

    return b * mul;
}

static uint64_t hash_0_to_16(const uint8_t *p, size_t size)
{
    uint64_t mul = k2 + size * 2;
    uint64_t a, b;

    if (size >= 8) {
        a = load64(p) + k2;
        b = load64(p + size - 8);
        return hash_pair(rotate(b, 37) * mul + a, (rotate(a, 25) + b) * mul, mul);
    }
    if (size >= 4) return hash_pair(size + (load32(p) << 3), load32(p + size - 4), mul);
    if (size > 0) {
        a = p[0] + ((uint64_t)p[size / 2] << 8);
        b = size + ((uint64_t)p[size - 1] << 2);
        return fold(a * k2 ^ b * k0) * k2;
    }
    return k2;
}

static uint64_t hash_17_to_32(const uint8_t *p, size_t size)
{
    uint64_t mul = k2 + size * 2;
    uint64_t a   = load64(p) * k1;
    uint64_t b   = load64(p + 8);
    uint64_t c   = load64(p + size - 8) * mul;
    uint64_t d   = load64(p + size - 16) * k2;

    return hash_pair(rotate(a + b, 43) + rotate(c, 30) + d, a + rotate(b + k2, 18) + c, mul);
}

static uint64_t hash_33_to_64(const uint8_t *p, size_t size)
{
    uint64_t mul = k2 + size * 2;
    uint64_t a   = load64(p) * k2;
    uint64_t b   = load64(p + 8);
    uint64_t c   = load64(p + size - 8) * mul;
    uint64_t d   = load64(p + size - 16) * k2;
    uint64_t y   = rotate(a + b, 43) + rotate(c, 30) + d;
    uint64_t z   = hash_pair(y, a + rotate(b + k2, 18) + c, mul);
    uint64_t e   = load64(p + 16) * mul;
    uint64_t f   = load64(p + 24);
    uint64_t g   = (y + load64(p + size - 32)) * mul;
    uint64_t h   = (z + load64(p + size - 24)) * mul;

    return hash_pair(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, mul);
}

typedef struct pair {
    uint64_t a, b;
} pair;

typedef struct long_state {
    uint64_t x, y, z;
    pair     v, w;
} long_state;

/* 32 bytes at p, mixed with a and b. */
static pair hash_32_bytes(const uint8_t *p, uint64_t a, uint64_t b)
{
    uint64_t last = load64(p + 24);
    uint64_t c;

    a += load64(p);
    b = rotate(b + a + last, 21);
    c = a;
    a += load64(p + 8) + load64(p + 16);
    b += rotate(a, 44);
    return (pair){ a + last, b + c };
}

/* Takes the 64 bytes at p into the state. */
static void hash_block(long_state *s, const uint8_t *p, uint64_t mul, uint64_t weight)
{
    uint64_t x = rotate(s->x + s->y + s->v.a + load64(p + 8), 37) * mul;
    uint64_t y = rotate(s->y + s->v.b + load64(p + 48), 42) * mul;
    uint64_t z = rotate(s->z + s->w.a, 33) * mul;

    x ^= weight * s->w.b;
    y += weight * s->v.a + load64(p + 40);
    s->v = hash_32_bytes(p, s->v.b * mul, x + s->w.a);
    s->w = hash_32_bytes(p + 32, z + s->w.b, y + load64(p + 16));
    s->x = z; /* x and z change places */
    s->y = y;
    s->z = x;
}

static uint64_t hash_long(const uint8_t *p, size_t size)
{
    const uint64_t seed   = 81;
    size_t         blocks = (size - 1) / 64; /* at least one byte is left for the end */
    long_state     s      = { .x = seed * k2 + load64(p), .y = seed * k1 + 113 };
    uint64_t       mul;

    s.z = fold(s.y * k2 + 113) * k2;
    for (size_t i = 0; i < blocks; i++) hash_block(&s, p + 64 * i, k1, 1);

    mul = k1 + ((s.z & 0xff) << 1);
    s.w.a += (size - 1) & 63;
    s.v.a += s.w.a;
    s.w.a += s.v.a;
    hash_block(&s, p + size - 64, mul, 9);
    return hash_pair(hash_pair(s.v.a, s.w.a, mul) + fold(s.y) * k0 + s.z, hash_pair(s.v.b, s.w.b, mul) + s.x, mul);
}

uint64_t est_fingerprint64(const void *bytes, size_t size)
{
    const uint8_t *p = bytes;

    if (size <= 16) return hash_0_to_16(p, size);
    if (size <= 32) return hash_17_to_32(p, size);
    if (size <= 64) return hash_33_to_64(p, size);
    return hash_long(p, size);
}

uint64_t est_fingerprint_cat64(uint64_t a, uint64_t b)
{
    const uint64_t mul    = UINT64_C(0xc6a4a7935bd1e995);
    uint64_t       result = a ^ mul;

    result ^= fold(b * mul) * mul;
    result *= mul;
    result = fold(result) * mul;
    return fold(result);
}

int64_t est_fingerprint_cross(const uint64_t *values, size_t n, uint64_t hash_key, uint64_t n_buckets)
{
    uint64_t h = hash_key != 0 ? hash_key : EST_CROSS_HASH_KEY;

    for (size_t i = 0; i < n; i++) h = est_fingerprint_cat64(h, values[i]);
    return (int64_t)(h % (n_buckets != 0 ? n_buckets : INT64_MAX));
}
