/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of names: a row begins with its names. One table of a kind serves programs and job files. */
#ifndef EST_NN_NAMES_H
#define EST_NN_NAMES_H

#include "estoc/names.h"
#include "estoc/optimizers.h"

#define EST_ALIASES 4

typedef struct est_name {
    const char *name;                 /* offered in errors */
    const char *aliases[EST_ALIASES]; /* other words for it; NULL behind the last */
} est_name;

/* Rows that begin with an est_name, `size` bytes each. */
typedef struct est_name_table {
    const void *rows;
    int         n;
    size_t      size;
} est_name_table;

/* Initializes one. */
#define EST_NAME_TABLE(array)                                                                                          \
    {                                                                                                                  \
        (array), (int)(sizeof(array) / sizeof((array)[0])), sizeof((array)[0])                                         \
    }

/* The row called `name`, an exact match before one that differs in case and underscores. *spelled (may be NULL): the
 * name of the row, or its alias that is spelled as `name`. No such row: NULL. */
const void *est_name_find(est_name_table table, const char *name, const char **spelled);

/* EST_INVALID_ARGUMENT for a name that is in none of the tables: "unknown loss 'msee'; did you mean 'mse'?". */
EST_MUST_CHECK est_status est_name_unknown(const char *what, const char *name, const est_name_table *tables, int n);

/* The tables that others use too. Job files list the activations. */
extern const est_name_table est_loss_table;
extern const est_name_table est_activation_table;

/* Their rows. */
typedef struct est_loss_row {
    est_name names;
    est_loss loss; /* without its name */
} est_loss_row;

typedef struct est_activation_row {
    est_name       names;
    est_activation function;
} est_activation_row;

#endif
