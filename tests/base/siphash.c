/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash-2-4 against the values of its authors: key 00 01 .. 0f, bytes 00 01 02 ... */
#include "base/siphash.h"

#include "support/test.h"

TEST(values_of_the_authors)
{
    static const struct {
        size_t   size;
        uint64_t hash;
    } cases[]             = { { 0, 0x726fdb47dd0e0e31u }, { 1, 0x74f839c593dc67fdu },  { 7, 0xab0200f58b01d137u },
                              { 8, 0x93f5f5799a932462u }, { 15, 0xa129ca6149be45e5u }, { 63, 0x958a324ceb064572u } };
    const uint64_t key[2] = { 0x0706050403020100u, 0x0f0e0d0c0b0a0908u };
    uint8_t        bytes[64];

    for (int i = 0; i < 64; i++) bytes[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(est_siphash(key, bytes, cases[i].size) == cases[i].hash);
    }
}
