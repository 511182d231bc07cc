/* SPDX-License-Identifier: Apache-2.0
 *
 * Fingerprints: vectors from TensorFlow's tests and from libfarmhash, and one number that depends on libfarmhash's
 * answer for every length from 0 to 300. */
#include <string.h>

#include "base/fingerprint.h"
#include "support/test.h"

static uint64_t of_text(const char *text)
{
    return est_fingerprint64(text, strlen(text));
}

TEST(texts)
{
    static const struct {
        const char *text;
        uint64_t    want;
    } vectors[] = {
        { "", 0x9ae16a3b2f90404f },
        { "a", 0xb3454265b6df75e3 },
        { "b", 11795596070477164822u },
        { "ab", 0xaa8d6e5242ada51e },
        { "abc", 0x24a5b3a074e7f369 },
        { "Hello", 15404698994557526151u },
        { "World", 18308117990299812472u },
        { "12345678", 3430003927990384362u },
        { "estimator", 0x257b235f7fbf74d9 },
        { "tensorflow", 16610604992579745506u },
        { "feature column", 0xebae1e63dd8c923f },
        { "sixteen bytes ok", 0x25a88db6363ac32f },
        { "0123456789abcdefg", 12024047538191061578u },
        { "this string has thirty-two bytes", 0x4d6c207a6cf1ebe4 },
        { "The quick brown fox jumps over the lazy dog", 12375473906752639284u },
        { "a string that is longer than thirty-two bytes", 0x02184a7ba43821e3 },
        { "-3", 0x03686f56ee858a33 },
    };

    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        assert_int_equal(of_text(vectors[i].text), vectors[i].want);
    }
}

TEST(lengths)
{
    static const struct {
        size_t   size;
        uint64_t want;
    } vectors[] = {
        { 7, 2291355453870284375u },   { 8, 478508900107774634u },    { 16, 11685267102876055588u },
        { 17, 6617207863763178933u },  { 32, 2297799934672592922u },  { 33, 7493719516629604641u },
        { 64, 14667671575308476582u }, { 65, 6749979819404335071u },  { 96, 12059236862993002540u },
        { 128, 9793221212041136111u }, { 256, 9457600951099946141u }, { 1000, 14137946525006212945u },
    };
    uint8_t  bytes[1000];
    uint64_t chain = 0;

    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(7 * i + 13);
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        assert_int_equal(est_fingerprint64(bytes, vectors[i].size), vectors[i].want);
    }
    for (size_t size = 0; size <= 300; size++) chain = est_fingerprint_cat64(chain, est_fingerprint64(bytes, size));
    assert_int_equal(chain, 0x3ac0e3a4146bfd54); /* the same chain over libfarmhash's numbers */
}

TEST(alignment_does_not_matter)
{
    uint8_t bytes[208];

    for (size_t at = 0; at < 8; at++) {
        memset(bytes + at, 'y', 200);
        assert_int_equal(est_fingerprint64(bytes + at, 200), 0x0804e01e145d93b4);
    }
}

TEST(cat)
{
    assert_int_equal(est_fingerprint_cat64(of_text("Hello"), of_text("World")), 16877292868973613377u);
    assert_int_equal(est_fingerprint_cat64(of_text("World"), of_text("Hello")), 7158413233176775252u);
    assert_int_equal(est_fingerprint_cat64(1, 2), 0xc89a2574412ac8e4);
    assert_int_equal(est_fingerprint_cat64(2, 1), 0xe974d3af90f91b83);
    assert_int_equal(est_fingerprint_cat64(0, 0), 0x5825f5f3bd962979);
}

/* What TensorFlow's sparse_cross_hashed makes of them, without buckets, with 1000, and with the key 12345. */
TEST(crosses)
{
    const uint64_t red = of_text("red"), large = of_text("large");
    const struct {
        uint64_t values[3];
        size_t   n;
        int64_t  full, bucket, other_key;
    } vectors[] = {
        { { red, large }, 2, 2621651721108428438, 245, 645995779766084040 },
        { { large, red }, 2, 4249115937319201666, 666, 4916810972457113451 },
        { { 3, red }, 2, 2150448011908050009, 9, 4804327357478844023 },
        { { red, 3 }, 2, 1267561634727919945, 945, 654325695229119505 },
        { { 0, 0 }, 2, 7883058887674371304, 304, 7296722155218813805 },
        { { 3, 7, 11 }, 3, 16620167906320715, 715, 3926109759069217416 },
        { { (uint64_t)-1, (uint64_t)-2 }, 2, 4766381915996064967, 774, 4527321936817888228 },
        { { of_text("a"), of_text("b"), of_text("c") }, 3, 2976662178071369792, 792, 4411879190075753737 },
        { { red, (uint64_t)INT64_MIN }, 2, 502030861020961762, 762, 6272423363911921681 },
        { { of_text(""), of_text("") }, 2, 8014510072541202566, 373, 836461783747740347 },
        { { of_text("batch1-FC1-F1"), of_text("batch1-FC2-F1"), of_text("batch1-FC3-F1") },
          3,
          1971693436396284976,
          783,
          8902884118745373088 },
    };

    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const uint64_t *values = vectors[i].values;
        size_t          n      = vectors[i].n;

        assert_int_equal(est_fingerprint_cross(values, n, 0, 0), vectors[i].full);
        assert_int_equal(est_fingerprint_cross(values, n, EST_CROSS_HASH_KEY, 0), vectors[i].full);
        assert_int_equal(est_fingerprint_cross(values, n, 0, 1000), vectors[i].bucket);
        assert_int_equal(est_fingerprint_cross(values, n, 12345, 0), vectors[i].other_key);
    }
}
