/* SPDX-License-Identifier: Apache-2.0
 *
 * Terms: the first line that differs is named, with both values and whose they are. */
#include <string.h>

#include "cluster/terms.h"
#include "support/test.h"

static est_status compare(const char *a, const char *b)
{
    return est_terms_same(est_terms_text(a), "worker:0", est_terms_text(b), "chief:0");
}

TEST(same)
{
    assert_int_equal(compare("", ""), EST_OK);
    assert_int_equal(compare("a=1\nb=2\n", "a=1\nb=2\n"), EST_OK);
    assert_int_equal(compare("a=1", "a=1\n"), EST_OK); /* the last line need not end */
    assert_int_equal(est_terms_same((est_str){ 0 }, "a", (est_str){ 0 }, "b"), EST_OK);
}

TEST(different)
{
    static const struct {
        const char *a, *b, *text;
    } cases[] = {
        { "a=1\nb=2\n", "a=1\nb=3\n", "b is 2 at worker:0 and 3 at chief:0: all workers need the same" },
        { "a=1\n", "a=12\n", "a is 1 at worker:0 and 12 at chief:0: all workers need the same" },
        { "a=\n", "a=1\n", "a is  at worker:0 and 1 at chief:0: all workers need the same" },
        { "a=1\n", "b=1\n", "worker:0 has \"a=1\" where chief:0 has \"b=1\": all workers need the same" },
        { "a=1\n", "", "worker:0 has \"a=1\" where chief:0 has \"\": all workers need the same" },
        { "", "a=1\n", "worker:0 has \"\" where chief:0 has \"a=1\": all workers need the same" },
        { "a\n", "a=1\n", "worker:0 has \"a\" where chief:0 has \"a=1\": all workers need the same" },
    };
    char one[600], other[600];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(compare(cases[i].a, cases[i].b), EST_FAILED_PRECONDITION);
        assert_string_equal(est_error_message(), cases[i].text);
    }
    memset(one, 'x', sizeof one - 1);
    memset(other, 'y', sizeof other - 1);
    one[sizeof one - 1] = other[sizeof other - 1] = '\0';
    assert_int_equal(compare(one, other), EST_FAILED_PRECONDITION); /* what is long is cut */
    assert_true(strlen(est_error_message()) < 500);
}
