/* SPDX-License-Identifier: Apache-2.0
 *
 * The growing string: appending, JSON escapes, and memory running out at every point. */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "support/fault_loop.h"
#include "support/test.h"

TEST(append)
{
    est_strbuf buf = { 0 };
    char      *text;

    assert_string_equal(est_strbuf_text(&buf), "");
    est_strbuf_append(&buf, "loss");
    est_strbuf_append_bytes(&buf, " = ???", 3);
    est_strbuf_printf(&buf, "%.2f at %s", 0.5, "step 3");
    assert_string_equal(est_strbuf_text(&buf), "loss = 0.50 at step 3");
    assert_int_equal(buf.size, strlen("loss = 0.50 at step 3"));
    assert_int_equal(est_strbuf_status(&buf), EST_OK);

    est_strbuf_reset(&buf);
    assert_string_equal(est_strbuf_text(&buf), "");
    est_strbuf_append(&buf, "again");
    assert_int_equal(est_strbuf_take(&buf, &text), EST_OK);
    assert_string_equal(text, "again");
    assert_null(buf.data);
    est_free(text);

    assert_int_equal(est_strbuf_take(&buf, &text), EST_OK); /* an empty buffer gives an empty text */
    assert_string_equal(text, "");
    est_free(text);
    est_strbuf_clear(&buf);
}

TEST(growth)
{
    est_strbuf buf    = { 0 };
    uint64_t   before = est_alloc_count();

    for (int i = 0; i < 100000; i++) est_strbuf_append_bytes(&buf, &"0123456789"[i % 10], 1);
    assert_int_equal(buf.size, 100000);
    for (int i = 0; i < 100000; i++) assert_int_equal(buf.data[i], '0' + i % 10);
    assert_true(est_alloc_count() - before < 20);
    est_strbuf_append_bytes(&buf, "a\0b", 3); /* bytes, not text */
    assert_memory_equal(buf.data + 100000, "a\0b", 4);
    est_strbuf_clear(&buf);
    assert_int_equal(buf.capacity, 0);
}

TEST(json_escapes)
{
    est_strbuf buf = { 0 };

    est_strbuf_append_json(&buf, "a\"b\\c\n\r\t\b\f\x01\x1f/\x7f", 14);
    assert_string_equal(est_strbuf_text(&buf), "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u001f/\x7f\"");
    est_strbuf_reset(&buf);
    est_strbuf_append_json(&buf, "\0", 1);
    est_strbuf_append_json(&buf, NULL, 0);
    assert_string_equal(est_strbuf_text(&buf), "\"\\u0000\"\"\"");
    est_strbuf_clear(&buf);
}

TEST(json_utf8)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        { "\xc3\xa9", "\xc3\xa9" },                                 /* e acute */
        { "\xe2\x82\xac", "\xe2\x82\xac" },                         /* euro */
        { "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },                 /* beyond 16 bits */
        { "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },                 /* the last one */
        { "\xff", "\xef\xbf\xbd" },                                 /* never a byte of UTF-8 */
        { "\x80y", "\xef\xbf\xbdy" },                               /* continuation without a start */
        { "\xc3", "\xef\xbf\xbd" },                                 /* cut off */
        { "\xc3(", "\xef\xbf\xbd(" },                               /* wrong continuation */
        { "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd" },                 /* longer than needed */
        { "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" }, /* half of a pair */
        { "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        est_strbuf buf = { 0 };

        est_strbuf_append_json(&buf, cases[i].in, strlen(cases[i].in));
        assert_int_equal(buf.size, strlen(cases[i].out) + 2);
        assert_memory_equal(buf.data + 1, cases[i].out, strlen(cases[i].out));
        est_strbuf_clear(&buf);
    }
}

/* Any bytes become something that a JSON parser takes. */
TEST(json_of_any_bytes)
{
    est_random random = { .key = 8 };
    est_strbuf buf    = { 0 };
    uint32_t   words[16];

    for (int round = 0; round < 2000; round++) {
        json_t *value;

        est_random_fill_u32(&random, round * 16, 16, words);
        for (int i = 0; i < 16; i += 2) words[i] &= 0x7f7f7f7f; /* some of it plain */
        est_strbuf_reset(&buf);
        est_strbuf_append_json(&buf, words, sizeof words);
        value = json_loadb(buf.data, buf.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(value);
        json_decref(value);
    }
    est_strbuf_clear(&buf);
}

/* What could move a cursor is escaped; letters of any language are not. */
TEST(printable)
{
    static const char text[] = "\xc3\xa4 \033[31m \xc2\x9b \x9b \x7f a\tb\n\xe4\xb8\xad";
    est_strbuf        buf    = { 0 };

    est_strbuf_append_printable(&buf, text, sizeof text, ""); /* with its end */
    assert_string_equal(est_strbuf_text(&buf),
                        "\xc3\xa4 \\x1b[31m \\xc2\\x9b \\x9b \\x7f a\\x09b\\x0a\xe4\xb8\xad\\x00");
    est_strbuf_reset(&buf);
    est_strbuf_append_printable(&buf, "a\tb\n\r", 5, "\n\t");
    assert_string_equal(est_strbuf_text(&buf), "a\tb\n\\x0d");
    est_strbuf_clear(&buf);
}

TEST(memory_out)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_strbuf buf  = { 0 };
        char      *text = NULL;
        est_status status;

        fault_arm(&f);
        for (int i = 0; i < 50; i++) {
            est_strbuf_append(&buf, "some text ");
            est_strbuf_printf(&buf, "%d ", i);
            est_strbuf_append_json(&buf, "x\n", 2);
        }
        status = est_strbuf_take(&buf, &text);
        fault_check(&f, status);
        assert_int_equal(text == NULL, f.fired);
        assert_null(buf.data);
        est_free(text);
    }
}

/* In memory of the caller: what does not fit is left out, and nothing is allocated or freed. */
TEST(fixed)
{
    char       room[8];
    est_strbuf buf = est_strbuf_in(room, sizeof room);

    assert_string_equal(est_strbuf_text(&buf), "");
    est_strbuf_append(&buf, "1234");
    est_strbuf_append_printable(&buf, "5\033", 2, "");
    assert_string_equal(room, "12345");
    assert_true(buf.failed);
    est_strbuf_clear(&buf);
}
