/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash-2-4 (J.-P. Aumasson, D. J. Bernstein: SipHash: a fast short-input PRF, 2012). */
#include "base/siphash.h"

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void rounds(uint64_t v[4], int n)
{
    for (; n > 0; n--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32) + v[3];
        v[2] += v[1];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

/* Up to 8 bytes, the first one lowest. */
static uint64_t word(const uint8_t *at, size_t size)
{
    uint64_t x = 0;

    for (size_t i = 0; i < size; i++) x |= (uint64_t)at[i] << (8 * i);
    return x;
}

static void absorb(uint64_t v[4], uint64_t x)
{
    v[3] ^= x;
    rounds(v, 2);
    v[0] ^= x;
}

uint64_t est_siphash(const uint64_t key[2], const void *bytes, size_t size)
{
    const uint8_t *at   = bytes;
    uint64_t       v[4] = { key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                            key[1] ^ 0x7465646279746573u };
    size_t         left = size;

    for (; left >= 8; left -= 8, at += 8) absorb(v, word(at, 8));
    absorb(v, word(at, left) | (uint64_t)size << 56);
    v[2] ^= 0xff;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
