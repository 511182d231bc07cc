/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks names up in tables. "MeanSquaredError" and "mean_squared_error" are one name: case and underscores are not
 * compared, unless a row has exactly that word. */
#include "nn/names.h"

#include <ctype.h>
#include <string.h>

#include "base/nearest.h"
#include "base/strbuf.h"

#define WORDS_MAX 128 /* of all tables of one kind */

static const est_name *row_at(est_name_table table, int i)
{
    return (const est_name *)((const char *)table.rows + (size_t)i * table.size);
}

/* The i-th word of a row: its name, then its aliases; NULL: no more. */
static const char *word_at(const est_name *row, int i)
{
    if (i == 0) return row->name;
    return i <= EST_ALIASES ? row->aliases[i - 1] : NULL;
}

static bool similar(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a == '_') a++;
        while (*b == '_') b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
        if (*a == '\0') return true;
    }
}

const void *est_name_find(est_name_table table, const char *name, const char **spelled)
{
    const est_name *found = NULL;

    for (int i = 0; i < table.n; i++) {
        const est_name *row = row_at(table, i);
        const char     *word;

        for (int k = 0; (word = word_at(row, k)) != NULL; k++) {
            if (strcmp(word, name) == 0) {
                if (spelled != NULL) *spelled = word;
                return row;
            }
            if (found == NULL && similar(word, name)) found = row;
        }
    }
    if (found != NULL && spelled != NULL) *spelled = found->name;
    return found;
}

/* The nearest of all words; NULL: none is similar. */
static const char *nearest_of(const char *name, const est_name_table *tables, int n)
{
    const char *words[WORDS_MAX];
    char        lower[EST_WORD_MAX + 1];
    size_t      n_words = 0, size = strlen(name);

    for (int t = 0; t < n; t++) {
        for (int i = 0; i < tables[t].n; i++) {
            for (int k = 0; word_at(row_at(tables[t], i), k) != NULL && n_words < WORDS_MAX; k++) {
                words[n_words++] = word_at(row_at(tables[t], i), k);
            }
        }
    }
    if (size > EST_WORD_MAX) return NULL;
    for (size_t i = 0; i <= size; i++) lower[i] = (char)tolower((unsigned char)name[i]);
    return est_nearest(lower, words, n_words);
}

/* Whether one of the first n tables has the name, also as another name of a row. */
static bool is_among(const est_name_table *tables, int n, const char *name)
{
    for (int t = 0; t < n; t++) {
        if (est_name_find(tables[t], name, NULL) != NULL) return true;
    }
    return false;
}

est_status est_name_unknown(const char *what, const char *name, const est_name_table *tables, int n)
{
    const char *nearest = nearest_of(name, tables, n);
    est_strbuf  all     = { 0 };
    est_status  status;

    if (nearest != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "unknown %s '%s'; did you mean '%s'?", what, name, nearest);
    }
    for (int t = 0; t < n; t++) {
        for (int i = 0; i < tables[t].n; i++) {
            const char *one = row_at(tables[t], i)->name;

            if (is_among(tables, t, one)) continue;
            est_strbuf_printf(&all, "%s%s", all.size > 0 ? ", " : "", one);
        }
    }
    status = est_strbuf_status(&all);
    if (status == EST_OK) {
        status = est_fail(EST_INVALID_ARGUMENT, "unknown %s '%s'; expected one of %s", what, name,
                          est_strbuf_text(&all));
    }
    est_strbuf_clear(&all);
    return status;
}
