/* SPDX-License-Identifier: Apache-2.0
 *
 * Matching the entries of a feature map with the wanted names. The canonical entry, key then value and nothing else, is
 * taken apart here in a few steps; any other legal form uses the general reader, which also words the errors. */
#include "format/feature_table.h"

#include "base/alloc.h"
#include "base/fingerprint.h"
#include "format/feature_set.h"

#define LOOK_AHEAD 3 /* names compared before the lookup by hash: some of them may be missing */

static const uint8_t TAG_ENTRY = EST_FEATURES_FEATURE << 3 | EST_WIRE_BYTES;
static const uint8_t TAG_KEY   = EST_ENTRY_KEY << 3 | EST_WIRE_BYTES;
static const uint8_t TAG_VALUE = EST_ENTRY_VALUE << 3 | EST_WIRE_BYTES;

/* --- the names ---------------------------------------------------------------------------------------------------- */

static inline uint64_t load(const char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof word);
    return word;
}

/* memcmp() in line, eight bytes at a time: names are short, and every entry of every example comes by here. */
static inline bool same_name(const est_feature_slot *slot, est_str key)
{
    const char *a = slot->name, *b = key.data;
    size_t      i = 0, n = key.size;

    if (slot->name_size != n) return false;
    for (; i + 8 <= n; i += 8) {
        if (load(a + i) != load(b + i)) return false;
    }
    for (; i < n; i++) {
        if (a[i] != b[i]) return false;
    }
    return true;
}

/* The bucket of a name: where it is, or where it would go. */
static size_t find_bucket(const est_feature_table *table, est_str key)
{
    size_t at = est_fingerprint64(key.data, key.size) & (table->n_buckets - 1);

    while (table->buckets[at] != 0 && !same_name(&table->slots[table->buckets[at] - 1], key)) {
        at = (at + 1) & (table->n_buckets - 1);
    }
    return at;
}

static est_status add_name(est_feature_table *table, const char *name)
{
    est_feature_slot *slot = &table->slots[table->n];
    est_str           key  = { name, strlen(name) };
    size_t            at   = find_bucket(table, key);

    if (table->buckets[at] != 0) return est_fail(EST_INVALID_ARGUMENT, "feature \"%s\" is requested twice", name);
    *slot = (est_feature_slot){ .name = est_strdup(name), .name_size = key.size };
    if (slot->name == NULL) return est_no_memory();
    table->buckets[at] = (uint32_t)++table->n;
    return EST_OK;
}

est_status est_feature_table_init(est_feature_table *table, const char *const *names, size_t n)
{
    *table = (est_feature_table){ .n_buckets = 8 };
    if (n > UINT32_MAX / 8) return est_fail(EST_INVALID_ARGUMENT, "%zu features are too many", n);
    while (table->n_buckets < 4 * n) table->n_buckets *= 2; /* mostly empty: few names share a bucket */
    table->slots   = est_zalloc((n + 1) * sizeof *table->slots);
    table->buckets = est_zalloc(table->n_buckets * sizeof *table->buckets);
    table->after   = est_zalloc((n + 1) * sizeof *table->after);
    if (table->slots == NULL || table->buckets == NULL || table->after == NULL) {
        return est_no_memory();
    }
    for (size_t i = 0; i < n; i++) EST_TRY(add_name(table, names[i]));
    return EST_OK;
}

void est_feature_table_clear(est_feature_table *table)
{
    for (size_t i = 0; i < table->n; i++) est_free(table->slots[i].name);
    est_free(table->slots);
    est_free(table->buckets);
    est_free(table->after);
    *table = (est_feature_table){ 0 };
}

void est_feature_table_begin(est_feature_table *table)
{
    table->generation++;
    table->last = 0;
}

/* --- the entries -------------------------------------------------------------------------------------------------- */

/* Gives the entry's value to the name it belongs to, if that is wanted. */
static inline void take_entry(est_feature_table *table, est_str key, est_str value)
{
    uint32_t          found = table->after[table->last];
    est_feature_slot *slot;

    for (int i = 1; found != 0 && !same_name(&table->slots[found - 1], key); i++) {
        found = i < LOOK_AHEAD ? table->after[found] : 0;
    }
    if (found == 0) {
        found = table->buckets[find_bucket(table, key)];
        if (found == 0) return;
        table->after[table->last] = found;
    }
    slot             = &table->slots[found - 1];
    slot->value      = value;
    slot->generation = table->generation;
    table->last      = found;
}

/* Reads a tag and a length; false when the tag is another, or the bytes are not all there. */
static inline bool take_bytes(const uint8_t **at, const uint8_t *end, uint8_t tag, est_str *bytes)
{
    const uint8_t *p = *at;
    uint64_t       size;

    if (p == end || *p++ != tag) return false;
    if (!est_wire_varint(&p, end, &size) || size > (uint64_t)(end - p)) return false;
    *bytes = (est_str){ (const char *)p, (size_t)size };
    *at    = p + size;
    return true;
}

/* An entry in canonical form of less than 128 bytes, so that every length is one byte. */
static inline bool short_entry(const uint8_t **at, const uint8_t *end, est_str *key, est_str *value)
{
    const uint8_t *p    = *at;
    size_t         left = (size_t)(end - p), size, key_size, value_size;

    if (left < 6 || p[0] != TAG_ENTRY || p[1] >= 0x80 || p[1] > left - 2) return false;
    size     = p[1];
    key_size = p[3];
    if (p[2] != TAG_KEY || key_size + 4 > size) return false;
    value_size = size - 4 - key_size;
    if (p[4 + key_size] != TAG_VALUE || p[5 + key_size] != value_size) return false;
    *key   = (est_str){ (const char *)p + 4, key_size };
    *value = (est_str){ (const char *)p + 6 + key_size, value_size };
    *at    = p + 2 + size;
    return true;
}

/* Takes apart an entry in canonical form; false when it is not, and then *at has not moved. */
static inline bool canonical_entry(const uint8_t **at, const uint8_t *end, est_str *key, est_str *value)
{
    const uint8_t *p = *at, *inside, *inside_end;
    est_str        entry;

    if (!take_bytes(&p, end, TAG_ENTRY, &entry)) return false;
    inside     = (const uint8_t *)entry.data;
    inside_end = inside + entry.size;
    if (!take_bytes(&inside, inside_end, TAG_KEY, key) || !take_bytes(&inside, inside_end, TAG_VALUE, value)) {
        return false;
    }
    if (inside != inside_end) return false;
    *at = p;
    return true;
}

/* Any field of the map message: an entry with its parts in any order or missing, or something to skip. */
static void general_entry(est_feature_table *table, est_wire_reader *r)
{
    est_wire_reader inner;
    est_wire_field  field;
    est_str         key = { "", 0 }, value = { "", 0 };
    bool            has_value = false;

    if (!est_wire_next(r, &field) || field.number != EST_FEATURES_FEATURE) return;
    est_wire_message(r, &field, r->message, &inner);
    while (est_wire_next(&inner, &field)) {
        if (field.number == EST_ENTRY_KEY) key = est_wire_bytes(&inner, &field);
        if (field.number != EST_ENTRY_VALUE) continue;
        if (has_value) est_wire_fail(&inner, field.start, "a map entry has two values");
        value     = est_wire_bytes(&inner, &field);
        has_value = true;
    }
    if (est_wire_finish(&inner) != EST_OK) {
        r->status = inner.status;
        return;
    }
    take_entry(table, key, value);
}

void est_feature_table_read(est_feature_table *table, est_wire_reader *r)
{
    while (r->at < r->end && r->status == EST_OK) {
        est_str key, value;

        if (short_entry(&r->at, r->end, &key, &value) || canonical_entry(&r->at, r->end, &key, &value)) {
            take_entry(table, key, value);
        } else {
            general_entry(table, r);
        }
    }
}
