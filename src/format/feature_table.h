/* SPDX-License-Identifier: Apache-2.0
 *
 * The wanted names of a map from names to messages (Features, FeatureLists) and, the bytes of each in the current
 * example. Most examples of a file have their names in the same order, though not always all of them, so an entry is
 * first compared with the names that followed last time; only a miss is hashed. One thread at a time. */
#ifndef EST_FORMAT_FEATURE_TABLE_H
#define EST_FORMAT_FEATURE_TABLE_H

#include "format/wire.h"

typedef struct est_feature_slot {
    char    *name;
    size_t   name_size;
    est_str  value; /* the entry's message, borrowed from the example; of use when generation is the table's */
    uint64_t generation;
} est_feature_slot;

typedef struct est_feature_table {
    est_feature_slot *slots; /* [n], in the order of the names given */
    size_t            n;
    uint32_t         *buckets; /* [n_buckets]: 1 + slot; 0: free */
    size_t            n_buckets;
    uint32_t         *after; /* [1 + n]: 1 + the slot that came after this one; the first: at the start; 0: not known */
    uint64_t          generation; /* of the example at hand */
    uint32_t          last;       /* 1 + the slot found last in it; 0: none yet */
} est_feature_table;

/* Makes the table of n different names. Clear it also after a failure. */
EST_MUST_CHECK est_status est_feature_table_init(est_feature_table *table, const char *const *names, size_t n);
void                      est_feature_table_clear(est_feature_table *table);

/* Forgets the values of the example before. */
void est_feature_table_begin(est_feature_table *table);

/* Takes in all entries of a map message; a later one replaces an earlier one of the same name. Failures are kept in
 * r. */
void est_feature_table_read(est_feature_table *table, est_wire_reader *r);

/* The value of name i in the example at hand; NULL when it has none. */
static inline const est_str *est_feature_table_value(const est_feature_table *table, size_t i)
{
    return table->slots[i].generation == table->generation ? &table->slots[i].value : NULL;
}

#endif
