/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares terms line by line. */
#include "cluster/terms.h"

#include <string.h>

#define SHOWN_MAX 200 /* bytes of a value in an error */

est_str est_terms_text(const char *text)
{
    return (est_str){ text, strlen(text) };
}

/* `text` up to the first `end`. */
static est_str before(est_str text, char end)
{
    const char *at = text.size > 0 ? memchr(text.data, end, text.size) : NULL;

    return (est_str){ text.data, at != NULL ? (size_t)(at - text.data) : text.size };
}

/* `text` after its first `n` bytes and the separator. */
static est_str behind(est_str text, size_t n)
{
    size_t skip = n < text.size ? n + 1 : text.size;

    return (est_str){ skip > 0 ? text.data + skip : text.data, text.size - skip };
}

static bool are_equal(est_str a, est_str b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static int shown(est_str text)
{
    return (int)(text.size < SHOWN_MAX ? text.size : SHOWN_MAX);
}

/* Names differ only between builds or models. */
static est_status fail_line(est_str line, const char *whose, est_str other, const char *others)
{
    est_str name = before(line, '='), value = behind(line, name.size);
    est_str there = before(other, '='), instead = behind(other, there.size);

    if (!are_equal(name, there) || name.size == line.size || there.size == other.size) {
        return est_fail(EST_FAILED_PRECONDITION, "%s has \"%.*s\" where %s has \"%.*s\": all workers need the same",
                        whose, shown(line), line.data, others, shown(other), other.data);
    }
    return est_fail(EST_FAILED_PRECONDITION, "%.*s is %.*s at %s and %.*s at %s: all workers need the same",
                    shown(name), name.data, shown(value), value.data, whose, shown(instead), instead.data, others);
}

est_status est_terms_same(est_str terms, const char *whose, est_str other, const char *others)
{
    while (terms.size > 0 || other.size > 0) {
        est_str a = before(terms, '\n'), b = before(other, '\n');

        if (!are_equal(a, b)) return fail_line(a, whose, b, others);
        terms = behind(terms, a.size);
        other = behind(other, b.size);
    }
    return EST_OK;
}
