/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes what a peer may send: a header with its table, a hello, a farewell. Checksums are put right, since a fuzzer
 * does not guess them. What is read must stay within its bytes, and read the same when written again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "net/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) abort();
}

static void fuzz_frame(const uint8_t *data, size_t size)
{
    uint8_t   header[EST_FRAME_BYTES], again[EST_FRAME_BYTES];
    uint64_t *table, end = 0;
    est_frame frame;
    uint32_t  crc;

    if (est_frame_decode(data, size, &frame) == EST_OK) require(size >= EST_FRAME_BYTES);
    if (size < EST_FRAME_BYTES) return;
    memcpy(header, data, sizeof header);
    est_frame_encode(&(est_frame){ .kind = EST_FRAME_BEAT }, again);
    memcpy(header, again, 6);
    memset(header + 50, 0, 10);
    crc = est_crc32c(header, 60);
    for (int i = 0; i < 4; i++) header[60 + i] = (uint8_t)(crc >> 8 * i);
    if (est_frame_decode(header, sizeof header, &frame) != EST_OK) return;
    est_frame_encode(&frame, again);
    require(memcmp(header, again, sizeof header) == 0);
    require(frame.head_size <= frame.body_size);
    if (frame.n_parts > (size - EST_FRAME_BYTES) / 8) return;
    table = malloc(8 * (size_t)frame.n_parts + 1);
    require(table != NULL);
    if (frame.n_parts > 0) memcpy(table, data + EST_FRAME_BYTES, 8 * (size_t)frame.n_parts);
    frame.table_crc = est_crc32c(table, 8 * (size_t)frame.n_parts);
    if (est_frame_read_table(&frame, table) == EST_OK) {
        for (uint32_t i = 0; i < frame.n_parts; i++) {
            require(table[i] >= end && table[i] <= frame.body_size);
            end = table[i];
        }
    }
    free(table);
}

static void fuzz_hello(const uint8_t *data, size_t size)
{
    uint8_t   again[EST_HELLO_BYTES];
    est_hello hello, second;

    if (est_hello_decode(data, size, &hello) != EST_OK) return;
    est_hello_encode(&hello, again);
    require(est_hello_decode(again, sizeof again, &second) == EST_OK);
    require(memcmp(&hello, &second, sizeof hello) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t   *copy = malloc(size + 1); /* a block of its own, so that a read beyond it is seen */
    est_status code;
    char       text[EST_FAREWELL_MAX];

    require(copy != NULL);
    if (size > 0) memcpy(copy, data, size);
    fuzz_frame(copy, size);
    fuzz_hello(copy, size);
    if (est_farewell_decode(copy, size, &code, text) == EST_OK) {
        require(strnlen(text, sizeof text) < sizeof text && code != EST_OK);
    }
    free(copy);
    return 0;
}
