/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C: published vectors, both implementations against each other at every length, extending, combining. */
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/random.h"
#include "support/test.h"

#define ROOM 20000

static uint8_t data[ROOM + 16];

static int fill_data(void **state)
{
    est_random random = { .key = 3 };

    (void)state;
    est_random_fill_u32(&random, 0, sizeof data / 4, (uint32_t *)(void *)data);
    return 0;
}

TEST(vectors)
{
    uint8_t bytes[32];

    assert_int_equal(est_crc32c("", 0), 0);
    assert_int_equal(est_crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(est_crc32c("foo", 3), 0xcfc4ae1d);
    assert_int_equal(est_crc32c("\3\0\0\0\0\0\0\0", 8), 0x576c35e3);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(est_crc32c(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(est_crc32c(bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)i;
    assert_int_equal(est_crc32c(bytes, 32), 0x46dd794e);
    assert_int_equal(est_crc32c_extend_portable(0, "123456789", 9), 0xe3069283);
}

TEST(mask)
{
    assert_int_equal(est_crc32c_mask(0), 0xa282ead8);
    assert_int_equal(est_crc32c_mask(0xcfc4ae1d), 0xfebe8a61);
    assert_int_equal(est_crc32c_mask(0x576c35e3), 0x0e4999b0);
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t crc = i * 2654435761u;

        assert_int_equal(est_crc32c_unmask(est_crc32c_mask(crc)), crc);
        assert_int_not_equal(est_crc32c_mask(crc), crc);
    }
}

/* One bit at a time: the definition. */
static uint32_t plain_crc(const uint8_t *p, size_t size)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

TEST(all_lengths_and_alignments)
{
    for (size_t size = 0; size < 400; size++) {
        for (size_t at = 0; at < 9; at += 3) {
            uint32_t want = plain_crc(data + at, size);

            assert_int_equal(est_crc32c(data + at, size), want);
            assert_int_equal(est_crc32c_extend_portable(0, data + at, size), want);
        }
    }
    for (size_t size = 3000; size < ROOM; size += 211) { /* long enough for interleaved streams */
        uint32_t want = plain_crc(data + size % 8, size);

        assert_int_equal(est_crc32c(data + size % 8, size), want);
        assert_int_equal(est_crc32c_extend_portable(0, data + size % 8, size), want);
    }
}

TEST(extend_and_combine)
{
    uint32_t whole = est_crc32c(data, ROOM);

    for (size_t cut = 0; cut <= ROOM; cut += cut < 100 ? 1 : 997) {
        uint32_t a = est_crc32c(data, cut), b = est_crc32c(data + cut, ROOM - cut);

        assert_int_equal(est_crc32c_extend(a, data + cut, ROOM - cut), whole);
        assert_int_equal(est_crc32c_extend_portable(a, data + cut, ROOM - cut), whole);
        assert_int_equal(est_crc32c_combine(a, b, ROOM - cut), whole);
    }
}

int main(void)
{
    return est_test_run(fill_data, NULL);
}
