/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookup tables: keys to values, filled once and then only looked into. A table belongs to a session (runtime/store.h)
 * and is what the data of a handle's view points to.
 *
 * Entries are numbered in the order they were given in. The index is open addressing with linear probing over hashes of
 * the keys: a slot is 8 bytes, half of them of the hash, so that hardly ever a key is compared in vain. At most half of
 * the slots are taken.
 *
 * Threading: filling, one thread at a time; looking up, any thread. */
#ifndef EST_KERNELS_LOOKUP_TABLE_H
#define EST_KERNELS_LOOKUP_TABLE_H

#include "graph/op.h"

/* Collections of a graph, under TensorFlow's names: the operations that fill tables, and the names of files they
 * read. */
#define EST_TABLE_INITIALIZERS "table_initializer"
#define EST_ASSET_FILEPATHS    "asset_filepaths"

/* The keys or the values of all entries. With neither strings nor ints, entry i is the integer i. */
typedef struct est_lookup_column {
    est_str *strings;
    int64_t *ints;
    char    *bytes; /* bytes of the strings */
} est_lookup_column;

void est_lookup_column_clear(est_lookup_column *column);

typedef struct est_lookup_table {
    const char       *name;
    est_dtype         key_dtype, value_dtype; /* string or int64 */
    bool              filled;
    int64_t           size; /* different keys */
    int64_t           n;    /* entries */
    est_lookup_column key, value;
    uint64_t *slots; /* 0: free; else the upper half of the hash above 1 + entry. NULL: the keys are 0 to n - 1 */
    uint64_t  mask;  /* slots are mask + 1, a power of two */
} est_lookup_table;

/* The name of the table of a handle. Borrowed from the node. */
const char *est_lookup_table_name(const est_node_def *handle);

/* The operation of the graph that fills the table of this name; -1: none. */
int32_t est_lookup_table_filler(const est_graph *graph, const char *table);

/* The table of a resource input. */
static inline est_lookup_table *est_call_table(const est_call *c, int input)
{
    return c->in[input]->data;
}

/* Fills a table with n entries; both columns, of the table's dtypes, are taken, also on failure. A table that already
 * has the same entries stays as it is; a table with other entries is EST_FAILED_PRECONDITION, as is a key with two
 * values, whose two entries are then in twice[] (else -1). */
EST_MUST_CHECK est_status est_lookup_table_fill(est_lookup_table *table, est_lookup_column key, est_lookup_column value,
                                                int64_t n, int64_t twice[2]);

/* Frees the entries. */
void est_lookup_table_clear(est_lookup_table *table);

/* The entry of each of n keys (est_str or int64_t), -1 for unknown keys. Allocates nothing. */
void est_lookup_table_find(const est_lookup_table *table, const void *keys, int64_t n, int64_t *entries);

#endif
