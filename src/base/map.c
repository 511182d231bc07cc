/* SPDX-License-Identifier: Apache-2.0
 *
 * Hash maps with open addressing and linear probing, at most three quarters full.
 *
 * The name map keeps its entries in a dense array in insertion order and hashes positions in it, so walking it gives
 * the same order in every run. A removed entry keeps its slot, which still points at it, until the table is rebuilt.
 * The integer map keeps keys in the slots; a slot counts as free when its generation is not the map's. */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fingerprint.h"

#define SLOTS_MIN 16

/* --- names to pointers -------------------------------------------------------------------------------------------- */

/* How many entries a table of this many slots may point at. */
static uint32_t entries_max(uint32_t n_slots)
{
    return n_slots / 4 * 3;
}

/* The slot that holds the key, or the free one where it would go. The table is never full. */
static uint32_t slot_of(const est_map *map, const void *key, size_t key_size, uint64_t hash)
{
    uint32_t mask = map->n_slots - 1;
    uint32_t slot = (uint32_t)hash & mask;

    for (; map->slots[slot] != 0; slot = (slot + 1) & mask) {
        const est_map_entry *entry = &map->entries[map->slots[slot] - 1];

        if (entry->key != NULL && entry->hash == hash && entry->key_size == key_size &&
            memcmp(entry->key, key, key_size) == 0) {
            break;
        }
    }
    return slot;
}

static est_map_entry *entry_find(const est_map *map, const void *key, size_t key_size)
{
    uint32_t slot;

    if (map->n == 0) return NULL;
    slot = slot_of(map, key, key_size, est_fingerprint64(key, key_size));
    return map->slots[slot] != 0 ? &map->entries[map->slots[slot] - 1] : NULL;
}

void *est_map_get_bytes(const est_map *map, const void *key, size_t key_size)
{
    const est_map_entry *entry = entry_find(map, key, key_size);

    return entry != NULL ? entry->value : NULL;
}

void *est_map_get(const est_map *map, const char *key)
{
    return est_map_get_bytes(map, key, strlen(key));
}

/* Moves the entries that are left into fresh arrays with room for more; false when memory is out. */
static bool map_rebuild(est_map *map)
{
    uint32_t n_slots = SLOTS_MIN;
    est_map  fresh   = { 0 };

    while (entries_max(n_slots) <= map->n + map->n / 2) {
        if (n_slots > UINT32_MAX / 4) return false;
        n_slots *= 2;
    }
    fresh.slots   = est_zalloc(n_slots * sizeof *fresh.slots);
    fresh.entries = est_alloc(entries_max(n_slots) * sizeof *fresh.entries);
    if (fresh.slots == NULL || fresh.entries == NULL) {
        est_free(fresh.slots);
        est_free(fresh.entries);
        return false;
    }
    fresh.n_slots = n_slots;
    for (uint32_t i = 0; i < map->n_entries; i++) {
        const est_map_entry *entry = &map->entries[i];

        if (entry->key == NULL) continue;
        fresh.entries[fresh.n_entries++]                                       = *entry;
        fresh.slots[slot_of(&fresh, entry->key, entry->key_size, entry->hash)] = fresh.n_entries;
    }
    fresh.n = fresh.n_entries;
    est_free(map->slots);
    est_free(map->entries);
    *map = fresh;
    return true;
}

/* Adds a key that is not in the map. */
static bool map_add(est_map *map, const void *key, size_t key_size, void *value)
{
    uint64_t hash = est_fingerprint64(key, key_size);
    char    *copy;

    if (map->n_entries == entries_max(map->n_slots) && !map_rebuild(map)) return false;
    copy = est_alloc(key_size + 1);
    if (copy == NULL) return false;
    if (key_size > 0) memcpy(copy, key, key_size);
    copy[key_size] = '\0';

    map->entries[map->n_entries++] = (est_map_entry){ .key = copy, .key_size = key_size, .hash = hash, .value = value };
    map->slots[slot_of(map, key, key_size, hash)] = map->n_entries;
    map->n++;
    return true;
}

est_status est_map_put_bytes(est_map *map, const void *key, size_t key_size, void *value)
{
    est_map_entry *entry = entry_find(map, key, key_size);

    if (entry != NULL) {
        entry->value = value;
    } else if (!map_add(map, key, key_size, value)) {
        return est_no_memory();
    }
    return EST_OK;
}

est_status est_map_put(est_map *map, const char *key, void *value)
{
    return est_map_put_bytes(map, key, strlen(key), value);
}

void *est_map_remove(est_map *map, const char *key)
{
    est_map_entry *entry = entry_find(map, key, strlen(key));

    if (entry == NULL) return NULL;
    est_free(entry->key);
    entry->key = NULL;
    map->n--;
    return entry->value;
}

bool est_map_next(const est_map *map, uint32_t *at, const char **key, void **value)
{
    while (*at < map->n_entries) {
        const est_map_entry *entry = &map->entries[(*at)++];

        if (entry->key == NULL) continue;
        *key   = entry->key;
        *value = entry->value;
        return true;
    }
    return false;
}

void est_map_clear(est_map *map)
{
    for (uint32_t i = 0; i < map->n_entries; i++) est_free(map->entries[i].key);
    est_free(map->entries);
    est_free(map->slots);
    *map = (est_map){ 0 };
}

/* --- integers to integers ----------------------------------------------------------------------------------------- */

/* Row numbers often follow each other or share a factor; two multiplications spread both. */
static uint64_t i64_hash(int64_t key)
{
    uint64_t x = (uint64_t)key;

    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

/* The slot that holds the key, or the free one where it would go. The table is never full. */
static int64_t i64_slot_of(const est_i64_map *map, int64_t key)
{
    uint64_t mask = (uint64_t)map->n_slots - 1;
    uint64_t slot = i64_hash(key) & mask;

    while (map->slots[slot].generation == map->generation && map->slots[slot].key != key) slot = (slot + 1) & mask;
    return (int64_t)slot;
}

est_status est_i64_map_reserve(est_i64_map *map, int64_t n)
{
    int64_t     n_slots = map->n_slots != 0 ? map->n_slots : SLOTS_MIN;
    est_i64_map fresh   = { .generation = 1, .n = map->n };

    while (n_slots / 4 * 3 < n && n_slots < INT64_MAX / 64) n_slots *= 2;
    if (n_slots == map->n_slots) return EST_OK;
    fresh.n_slots = n_slots;
    fresh.slots   = n_slots / 4 * 3 >= n ? est_zalloc((size_t)n_slots * sizeof *fresh.slots) : NULL;
    if (fresh.slots == NULL) {
        return est_no_memory();
    }
    for (int64_t i = 0; i < map->n_slots; i++) {
        const est_i64_slot *slot = &map->slots[i];

        if (slot->generation != map->generation) continue;
        fresh.slots[i64_slot_of(&fresh, slot->key)] = (est_i64_slot){ .key        = slot->key,
                                                                      .value      = slot->value,
                                                                      .generation = 1 };
    }
    est_free(map->slots);
    *map = fresh;
    return EST_OK;
}

int64_t est_i64_map_find_or_insert(est_i64_map *map, int64_t key, int64_t value)
{
    est_i64_slot *slot;
    int64_t       at;

    if (map->n >= map->n_slots / 4 * 3) {
        at = est_i64_map_find(map, key);
        if (at >= 0) return at; /* a full table need not grow for a key it has */
        if (est_i64_map_reserve(map, map->n + 1) != EST_OK) return -1;
    }
    at   = i64_slot_of(map, key);
    slot = &map->slots[at];
    if (slot->generation != map->generation) {
        *slot = (est_i64_slot){ .key = key, .value = value, .generation = map->generation };
        map->n++;
    }
    return at;
}

int64_t est_i64_map_find(const est_i64_map *map, int64_t key)
{
    int64_t at;

    if (map->n == 0) return -1;
    at = i64_slot_of(map, key);
    return map->slots[at].generation == map->generation ? at : -1;
}

void est_i64_map_reset(est_i64_map *map)
{
    map->generation++; /* 64 bits do not come round again */
    map->n = 0;
}

void est_i64_map_clear(est_i64_map *map)
{
    est_free(map->slots);
    *map = (est_i64_map){ 0 };
}
