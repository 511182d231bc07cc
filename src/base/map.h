/* SPDX-License-Identifier: Apache-2.0
 *
 * Hash maps: names to pointers, and integers to integers. One thread at a time. */
#ifndef EST_BASE_MAP_H
#define EST_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "estoc/status.h"

/* --- names to pointers -------------------------------------------------------------------------------------------- */

typedef struct est_map_entry {
    char    *key; /* NULL: removed */
    size_t   key_size;
    uint64_t hash;
    void    *value; /* borrowed: the map never looks at it */
} est_map_entry;

/* A zeroed struct is an empty map. Entries keep the order in which their keys were first put. */
typedef struct est_map {
    est_map_entry *entries; /* [n_entries], removed ones included */
    uint32_t      *slots;   /* [n_slots]: 1 + position in entries; 0: free */
    uint32_t       n_entries;
    uint32_t       n_slots; /* 0 or a power of two */
    uint32_t       n;       /* keys in the map */
} est_map;

/* The value of `key`; NULL when it is not in the map. */
void *est_map_get(const est_map *map, const char *key);
void *est_map_get_bytes(const est_map *map, const void *key, size_t key_size);

/* Sets the value of `key` (copied), new or not. The value must not be NULL. */
EST_MUST_CHECK est_status est_map_put(est_map *map, const char *key, void *value);
EST_MUST_CHECK est_status est_map_put_bytes(est_map *map, const void *key, size_t key_size, void *value);

/* Takes `key` out and returns its value; NULL when it was not in the map. */
void *est_map_remove(est_map *map, const char *key);

/* Walks the entries in order: start with *at = 0; false at the end. During the walk the map must not change, except for
 * removing the entry just visited. */
bool est_map_next(const est_map *map, uint32_t *at, const char **key, void **value);

/* Frees the memory, not the values; the map is empty again. */
void est_map_clear(est_map *map);

/* --- integers to integers ----------------------------------------------------------------------------------------- */

typedef struct est_i64_slot {
    int64_t  key;
    int64_t  value;
    uint64_t generation; /* in use when equal to the map's */
} est_i64_slot;

/* A zeroed struct is an empty map. Made to be reused: emptying it costs nothing and keeps its memory. */
typedef struct est_i64_map {
    est_i64_slot *slots;
    int64_t       n_slots; /* 0 or a power of two */
    int64_t       n;       /* keys in the map */
    uint64_t      generation;
} est_i64_map;

/* Makes room for n keys, so that inserting up to that many cannot fail. */
EST_MUST_CHECK est_status est_i64_map_reserve(est_i64_map *map, int64_t n);

/* The slot of `key`, inserted with `value` if it was not in the map; map->slots[slot].value is its value either way. -1
 * when out of memory. Slots are valid until an insertion beyond the reserved capacity. */
int64_t est_i64_map_find_or_insert(est_i64_map *map, int64_t key, int64_t value);

/* The slot of `key`; -1 when it is not in the map. */
int64_t est_i64_map_find(const est_i64_map *map, int64_t key);

/* Empties the map in constant time; keeps the memory. */
void est_i64_map_reset(est_i64_map *map);

/* Frees the memory; the map is empty again. */
void est_i64_map_clear(est_i64_map *map);

#endif
