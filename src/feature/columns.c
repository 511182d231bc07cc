/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of columns: ownership, the first error of a set, and checking and sorting the list of columns of a layer. */
#include <stdlib.h>
#include <string.h>

#include "feature/column.h"

struct est_columns {
    est_arena        *arena;
    const est_column *newest;
    est_column        failed; /* returned for every column whose construction failed */
    est_status        status;
    est_error         error; /* unless the status is EST_OK */
};

static const est_column_kind failed_kind = { .what = "a column whose construction failed" };

est_columns *est_columns_create(void)
{
    est_columns *set = est_zalloc(sizeof *set);

    if (set == NULL) return NULL;
    set->arena = est_arena_create();
    if (set->arena == NULL) {
        est_free(set);
        return NULL;
    }
    set->failed = (est_column){ .kind = &failed_kind, .set = set, .name = "", .scope = "", .v1_scope = "" };
    return set;
}

void est_columns_free(est_columns *columns)
{
    if (columns == NULL) return;
    for (const est_column *c = columns->newest; c != NULL; c = c->older) {
        if (c->kind->clear != NULL) c->kind->clear(c);
    }
    est_arena_free(columns->arena);
    est_free(columns);
}

est_status est_columns_status(const est_columns *columns)
{
    if (columns == NULL) return est_no_memory();
    return columns->status == EST_OK ? EST_OK : est_error_raise(&columns->error);
}

est_arena *est_columns_arena(est_columns *set)
{
    return set->arena;
}

const char *est_column_name(const est_column *column)
{
    return column != NULL ? column->name : NULL;
}

/* --- making columns ----------------------------------------------------------------------------------------------- */

const est_column *est_columns_fail(est_columns *set, est_status status)
{
    if (set == NULL) return NULL;
    if (set->status == EST_OK) {
        set->status = status;
        est_error_take(est_graph_blame(status), &set->error);
    }
    return &set->failed;
}

bool est_column_usable(const est_column *column)
{
    return column != NULL && column->kind != &failed_kind;
}

/* Letters, digits and _ . - stay; everything else becomes _, as in TensorFlow. */
const char *est_scope_name(est_arena *arena, const char *name)
{
    char *scope = est_arena_strdup(arena, name);

    for (char *at = scope; at != NULL && *at != '\0'; at++) {
        bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9');

        if (!letter && strchr("_.-", *at) == NULL) *at = '_';
    }
    return scope;
}

void *est_column_new(est_columns *set, const est_column_kind *kind, size_t size, const char *name)
{
    est_column *column = est_arena_alloc(set->arena, size);

    if (column != NULL) {
        *column = (est_column){ .kind  = kind,
                                .set   = set,
                                .older = set->newest,
                                .name  = est_arena_strdup(set->arena, name),
                                .scope = est_scope_name(set->arena, name) };
    }
    if (column != NULL) column->v1_scope = column->scope;
    if (column == NULL || column->name == NULL || column->scope == NULL) {
        (void)est_columns_fail(set, est_no_memory());
        return NULL;
    }
    set->newest = column;
    return column;
}

void *est_column_new_from(const est_column *source, const est_column_kind *kind, size_t size, const char *suffix)
{
    const char *name = est_arena_printf(source->set->arena, "%s%s", source->name, suffix);

    if (name == NULL) {
        (void)est_columns_fail(source->set, est_no_memory());
        return NULL;
    }
    return est_column_new(source->set, kind, size, name);
}

bool est_column_key_ok(est_columns *set, const char *key, const char *what)
{
    if (set == NULL) return false;
    if (key != NULL && key[0] != '\0') return true;
    (void)est_column_fail(set, "%s needs the name of a feature", what);
    return false;
}

bool est_column_is_categorical(const est_column *column, const char *what)
{
    if (column->kind->ids != NULL) return true;
    (void)est_column_fail(column->set, "%s needs a categorical column, but \"%s\" is %s", what, column->name,
                          column->kind->what);
    return false;
}

/* --- taking columns ----------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const est_column *const *left = a, *const *right = b;

    return strcmp((*left)->name, (*right)->name);
}

est_status est_columns_sorted(est_column_list columns, const char *what, const est_column ***out)
{
    const est_column **sorted;

    if (columns.n < 0 || (columns.n > 0 && columns.data == NULL)) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: %d columns given, but the pointer is NULL", what, columns.n);
    }
    for (int i = 0; i < columns.n; i++) {
        const est_column *column = columns.data[i];

        if (column == NULL) return est_fail(EST_INVALID_ARGUMENT, "%s: column %d of %d is NULL", what, i, columns.n);
        EST_TRY(est_columns_status(column->set));
    }
    sorted = est_alloc(((size_t)columns.n + 1) * sizeof(const est_column *));
    if (sorted == NULL) return est_no_memory();
    for (int i = 0; i < columns.n; i++) sorted[i] = columns.data[i];
    qsort(sorted, (size_t)columns.n, sizeof(const est_column *), by_name);
    *out = sorted;
    return EST_OK;
}

est_status est_columns_distinct(est_column_list columns, const char *what, const est_column ***out)
{
    const est_column **sorted = NULL;

    if (columns.n < 1) return est_fail(EST_INVALID_ARGUMENT, "%s needs at least one column", what);
    EST_TRY(est_columns_sorted(columns, what, &sorted));
    for (int i = 1; i < columns.n; i++) {
        const char *name = sorted[i]->name;

        if (strcmp(sorted[i - 1]->name, name) != 0) continue;
        est_free(sorted);
        return est_fail(EST_INVALID_ARGUMENT, "%s has two columns called \"%s\"", what, name);
    }
    *out = sorted;
    return EST_OK;
}

est_status est_columns_for_layer(est_column_list columns, const char                               *what,
                                 est_status (*check)(const est_column *column), const est_column ***out)
{
    const est_column **sorted = NULL;
    est_status         status;

    for (int i = 0; columns.data != NULL && i < columns.n; i++) { /* its error has the line that made the column */
        if (columns.data[i] != NULL) EST_TRY(est_columns_status(columns.data[i]->set));
    }
    status = est_columns_distinct(columns, what, &sorted);
    for (int i = 0; status == EST_OK && i < columns.n; i++) status = check(sorted[i]);
    if (status != EST_OK) {
        est_free(sorted);
        return est_graph_blame(status);
    }
    *out = sorted;
    return EST_OK;
}
