/* SPDX-License-Identifier: Apache-2.0
 *
 * Hash buckets and crosses of features against TensorFlow's: a model depends on every bit of them. */
#include <string.h>

#include "base/fingerprint.h"
#include "format/wire.h"
#include "support/interop.h"

#define CROSS_KEY UINT64_C(0xDECAFCAFFE) /* TensorFlow's when none is given */

static void say_hash(est_strbuf *out, uint64_t hash)
{
    uint8_t bytes[8];

    est_wire_store64(bytes, hash);
    interop_blob(out, bytes, 8);
}

TEST(strings)
{
    interop_blobs strings;
    est_strbuf    said = { 0 };

    interop_ask("write_strings");
    interop_blobs_read("strings", &strings);
    assert_int_equal(strings.n, 10000);
    for (size_t i = 0; i < strings.n; i++) {
        say_hash(&said, est_fingerprint64(strings.at[i].data, strings.at[i].size));
    }
    interop_blobs_clear(&strings);
    interop_save("strings.said", &said);
    interop_ask("check_strings");
}

/* A cross starts from the key and takes in each feature: a string's fingerprint, an integer as it is. */
TEST(crosses)
{
    interop_blobs crosses, parts;
    est_strbuf    said = { 0 };

    interop_ask("write_crosses");
    interop_blobs_read("crosses", &crosses);
    for (size_t i = 0; i < crosses.n; i++) {
        uint64_t hash = CROSS_KEY;

        interop_blobs_of(crosses.at[i], &parts);
        for (size_t k = 0; k + 1 < parts.n; k += 2) {
            est_str value   = parts.at[k + 1];
            bool    integer = parts.at[k].data[0] == 'i';

            hash = est_fingerprint_cat64(hash, integer ? est_wire_load64((const uint8_t *)value.data)
                                                       : est_fingerprint64(value.data, value.size));
        }
        interop_blobs_clear(&parts);
        say_hash(&said, hash);
    }
    interop_blobs_clear(&crosses);
    interop_save("crosses.said", &said);
    interop_ask("check_crosses");
}

int main(void)
{
    return INTEROP_MAIN("fingerprint");
}
