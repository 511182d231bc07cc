/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookup tables. Keys are looked up a batch at a time: first all are hashed, then all slots read, then all keys
 * compared, and each pass prefetches the data of the next. So a table larger than the caches costs the bandwidth of the
 * memory, not a wait for it with every key. */
#include "kernels/lookup_table.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fingerprint.h"

#define BATCH 32 /* keys on their way at the same time */

#define ENTRIES_MAX (UINT32_MAX - 1) /* limited by the width of a slot */

const char *est_lookup_table_name(const est_node_def *handle)
{
    const char *shared = est_node_string(handle, "shared_name");

    return shared[0] != '\0' ? shared : handle->name;
}

int32_t est_lookup_table_filler(const est_graph *graph, const char *table)
{
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *def    = est_graph_node(graph, id);
        const est_node_def *handle = def->op->fills_var && def->n_in > 0 ? est_graph_node(graph, def->in[0].node)
                                                                         : NULL;

        if (handle == NULL || handle->op->source != EST_SOURCE_TABLE) continue;
        if (strcmp(est_lookup_table_name(handle), table) == 0) return id;
    }
    return -1;
}

void est_lookup_column_clear(est_lookup_column *column)
{
    est_free(column->strings);
    est_free(column->ints);
    est_free(column->bytes);
    *column = (est_lookup_column){ 0 };
}

void est_lookup_table_clear(est_lookup_table *table)
{
    est_lookup_column_clear(&table->key);
    est_lookup_column_clear(&table->value);
    est_free(table->slots);
    table->slots  = NULL;
    table->filled = false;
}

/* --- looking up --------------------------------------------------------------------------------------------------- */

/* Every bit of the key moves every bit of the hash. */
static uint64_t hash_int(int64_t key)
{
    uint64_t x = (uint64_t)key;

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static bool same_string(est_str a, est_str b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* The next entry with a matching hash, from slot *at on, which is set to its slot; -1: none. */
static int64_t probe(const est_lookup_table *t, uint64_t hash, uint64_t *at)
{
    for (;; ++*at) {
        uint64_t slot = t->slots[*at & t->mask];

        if (slot == 0) return -1;
        if (slot >> 32 == hash >> 32) return (int64_t)(slot & UINT32_MAX) - 1;
    }
}

static void find_strings(const est_lookup_table *t, const est_str *keys, int n, int64_t *entries)
{
    uint64_t hash[BATCH], at[BATCH];

    for (int i = 0; i < n; i++) {
        hash[i] = est_fingerprint64(keys[i].data, keys[i].size);
        at[i]   = hash[i];
        __builtin_prefetch(&t->slots[at[i] & t->mask]);
    }
    for (int i = 0; i < n; i++) {
        entries[i] = probe(t, hash[i], &at[i]);
        if (entries[i] >= 0) __builtin_prefetch(&t->key.strings[entries[i]]);
    }
    for (int i = 0; i < n; i++) {
        if (entries[i] >= 0) __builtin_prefetch(t->key.strings[entries[i]].data);
    }
    for (int i = 0; i < n; i++) {
        while (entries[i] >= 0 && !same_string(keys[i], t->key.strings[entries[i]])) {
            at[i]++;
            entries[i] = probe(t, hash[i], &at[i]);
        }
    }
}

static void find_ints(const est_lookup_table *t, const int64_t *keys, int n, int64_t *entries)
{
    uint64_t hash[BATCH], at[BATCH];

    for (int i = 0; i < n; i++) {
        hash[i] = hash_int(keys[i]);
        at[i]   = hash[i];
        __builtin_prefetch(&t->slots[at[i] & t->mask]);
    }
    for (int i = 0; i < n; i++) {
        entries[i] = probe(t, hash[i], &at[i]);
        if (entries[i] >= 0) __builtin_prefetch(&t->key.ints[entries[i]]);
    }
    for (int i = 0; i < n; i++) {
        while (entries[i] >= 0 && keys[i] != t->key.ints[entries[i]]) {
            at[i]++;
            entries[i] = probe(t, hash[i], &at[i]);
        }
    }
}

static void find_numbers(const est_lookup_table *t, const int64_t *keys, int64_t n, int64_t *entries)
{
    for (int64_t i = 0; i < n; i++) entries[i] = keys[i] >= 0 && keys[i] < t->n ? keys[i] : -1;
}

void est_lookup_table_find(const est_lookup_table *table, const void *keys, int64_t n, int64_t *entries)
{
    if (table->slots == NULL) {
        find_numbers(table, keys, n, entries);
        return;
    }
    for (int64_t i = 0; i < n; i += BATCH) {
        int batch = n - i < BATCH ? (int)(n - i) : BATCH;

        if (table->key_dtype == EST_STRING) {
            find_strings(table, (const est_str *)keys + i, batch, entries + i);
        } else {
            find_ints(table, (const int64_t *)keys + i, batch, entries + i);
        }
    }
}

/* --- filling ------------------------------------------------------------------------------------------------------ */

/* Whether entry i of one column is entry k of another of the same dtype. */
static bool same_in(const est_lookup_column *a, int64_t i, const est_lookup_column *b, int64_t k)
{
    if (a->strings != NULL) return same_string(a->strings[i], b->strings[k]);
    return (a->ints != NULL ? a->ints[i] : i) == (b->ints != NULL ? b->ints[k] : k);
}

static est_status make_slots(est_lookup_table *t)
{
    uint64_t n = 16;

    while (n < 2 * (uint64_t)t->n) n *= 2;
    t->slots = est_zalloc(n * sizeof *t->slots);
    t->mask  = n - 1;
    return t->slots != NULL ? EST_OK : est_no_memory();
}

/* Enters entry i, or finds the one that has its key already: *other, -1 else. */
static void enter(est_lookup_table *t, int64_t i, int64_t *other)
{
    bool     strings = t->key.strings != NULL;
    uint64_t hash    = strings ? est_fingerprint64(t->key.strings[i].data, t->key.strings[i].size)
                               : hash_int(t->key.ints[i]);
    uint64_t at      = hash;

    while ((*other = probe(t, hash, &at)) >= 0) {
        if (same_in(&t->key, i, &t->key, *other)) return;
        at++;
    }
    t->slots[at & t->mask] = hash >> 32 << 32 | (uint64_t)(i + 1);
    t->size++;
}

static est_status enter_all(est_lookup_table *t, int64_t twice[2])
{
    if (t->key.strings == NULL && t->key.ints == NULL) {
        t->size = t->n;
        return EST_OK;
    }
    EST_TRY(make_slots(t));
    for (int64_t i = 0; i < t->n; i++) {
        int64_t other;

        enter(t, i, &other);
        if (other >= 0 && !same_in(&t->value, i, &t->value, other)) {
            twice[0] = other;
            twice[1] = i;
            return est_fail(EST_FAILED_PRECONDITION, "entries %" PRId64 " and %" PRId64 " have the same key", other, i);
        }
    }
    return EST_OK;
}

/* Two tables of as many keys are the same when each key of one has its value in the other. */
static bool same_entries(const est_lookup_table *a, const est_lookup_table *b)
{
    if (a->size != b->size) return false;
    for (int64_t i = 0; i < a->n; i++) {
        int64_t entry;

        est_lookup_table_find(b,
                              a->key.strings != NULL ? (const void *)&a->key.strings[i]
                              : a->key.ints != NULL  ? (const void *)&a->key.ints[i]
                                                     : (const void *)&i,
                              1, &entry);
        if (entry < 0 || !same_in(&a->value, i, &b->value, entry)) return false;
    }
    return true;
}

est_status est_lookup_table_fill(est_lookup_table *table, est_lookup_column key, est_lookup_column value, int64_t n,
                                 int64_t twice[2])
{
    est_lookup_table made = { .name        = table->name,
                              .key_dtype   = table->key_dtype,
                              .value_dtype = table->value_dtype,
                              .filled      = true,
                              .n           = n,
                              .key         = key,
                              .value       = value };
    est_status       status;

    twice[0] = twice[1] = -1;
    status              = n <= (int64_t)ENTRIES_MAX
                              ? enter_all(&made, twice)
                              : est_fail(EST_RESOURCE_EXHAUSTED, "a table has at most %" PRIu32 " entries, got %" PRId64,
                                         ENTRIES_MAX, n);
    if (status == EST_OK && table->filled && !same_entries(&made, table)) {
        status = est_fail(EST_FAILED_PRECONDITION, "table '%s' was filled with other entries before", table->name);
    }
    if (status == EST_OK && !table->filled) {
        *table = made;
    } else {
        est_lookup_table_clear(&made);
    }
    return status;
}
