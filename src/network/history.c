/* SPDX-License-Identifier: Apache-2.0
 *
 * The history of a fit: a table of epochs and names, kept by column. */
#include <math.h>
#include <string.h>

#include "network/network.h"

typedef struct column {
    char   *name;
    double *values; /* [capacity of the history]; NaN: none */
} column;

struct est_history {
    int64_t *epochs; /* [n] */
    int      n, capacity;
    column  *columns; /* [n_columns] */
    int      n_columns;
};

est_status est_history_create(est_history **out)
{
    est_history *history = est_zalloc(sizeof *history);

    if (history == NULL) return est_no_memory();
    *out = history;
    return EST_OK;
}

void est_history_free(est_history *history)
{
    if (history == NULL) return;
    for (int k = 0; k < history->n_columns; k++) {
        est_free(history->columns[k].name);
        est_free(history->columns[k].values);
    }
    est_free(history->columns);
    est_free(history->epochs);
    est_free(history);
}

static est_status grow(est_history *history)
{
    int      capacity = history->capacity > 0 ? 2 * history->capacity : 16;
    int64_t *epochs   = est_realloc(history->epochs, (size_t)capacity * sizeof *epochs);

    if (epochs == NULL) return est_no_memory();
    history->epochs = epochs;
    for (int k = 0; k < history->n_columns; k++) {
        double *values = est_realloc(history->columns[k].values, (size_t)capacity * sizeof *values);

        if (values == NULL) return est_no_memory();
        history->columns[k].values = values;
    }
    history->capacity = capacity;
    return EST_OK;
}

est_status est_history_begin(est_history *history, int64_t epoch)
{
    while (history->n > 0 && history->epochs[history->n - 1] >= epoch) history->n--; /* workers have gone back */
    if (history->n == history->capacity) EST_TRY(grow(history));
    for (int k = 0; k < history->n_columns; k++) history->columns[k].values[history->n] = NAN;
    history->epochs[history->n++] = epoch;
    return EST_OK;
}

static column *find_column(const est_history *history, const char *name)
{
    for (int k = 0; k < history->n_columns; k++) {
        if (strcmp(history->columns[k].name, name) == 0) return &history->columns[k];
    }
    return NULL;
}

static est_status add_column(est_history *history, const char *name, column **out)
{
    column *columns = est_realloc(history->columns, (size_t)(history->n_columns + 1) * sizeof *columns);
    column  added   = { 0 };

    if (columns == NULL) return est_no_memory();
    history->columns = columns;
    added.name       = est_strdup(name);
    added.values     = est_alloc((size_t)history->capacity * sizeof *added.values);
    if (added.name == NULL || added.values == NULL) {
        est_free(added.name);
        est_free(added.values);
        return est_no_memory();
    }
    for (int i = 0; i < history->n; i++) added.values[i] = NAN;
    history->columns[history->n_columns] = added;
    *out                                 = &history->columns[history->n_columns++];
    return EST_OK;
}

est_status est_history_put(est_history *history, const char *name, double value)
{
    column *found = find_column(history, name);

    if (found == NULL) EST_TRY(add_column(history, name, &found));
    found->values[history->n - 1] = value;
    return EST_OK;
}

est_status est_history_add(est_history *history, est_loop *loop)
{
    EST_TRY(est_history_begin(history, est_loop_epoch(loop)));
    for (int i = 0; i < est_loop_logs(loop); i++) {
        const char *name = est_loop_log_name(loop, i);

        EST_TRY(est_history_put(history, name, est_loop_log(loop, name)));
    }
    return EST_OK;
}

int est_history_epochs(const est_history *history)
{
    return history != NULL ? history->n : 0;
}

int64_t est_history_epoch(const est_history *history, int i)
{
    return history != NULL && i >= 0 && i < history->n ? history->epochs[i] : -1;
}

int est_history_count(const est_history *history)
{
    return history != NULL ? history->n_columns : 0;
}

const char *est_history_name(const est_history *history, int k)
{
    return history != NULL && k >= 0 && k < history->n_columns ? history->columns[k].name : NULL;
}

double est_history_value(const est_history *history, const char *name, int i)
{
    const column *found;

    if (history == NULL || name == NULL || i < 0 || i >= history->n) return NAN;
    found = find_column(history, name);
    return found != NULL ? found->values[i] : NAN;
}
