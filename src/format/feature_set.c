/* SPDX-License-Identifier: Apache-2.0
 *
 * Named features under construction. Nothing is allocated for a single feature: names and encoded values each lie in
 * one growing buffer, which keeps its memory from one example to the next. */
#include "format/feature_set.h"

#include <stdlib.h>

#include "base/alloc.h"

/* A new item whose value starts here; NULL (and a kept failure) without memory. */
static est_feature_item *item_begin(est_feature_set *set, const char *name, const void *values, size_t n)
{
    est_feature_item *item;

    if (name == NULL || (values == NULL && n > 0)) {
        set->failed = EST_INVALID_ARGUMENT;
        return NULL;
    }
    if (set->n == set->capacity) {
        size_t capacity = set->capacity > 0 ? 2 * set->capacity : 64;
        void  *items    = est_realloc(set->items, capacity * sizeof *set->items);

        if (items == NULL) {
            set->failed = EST_RESOURCE_EXHAUSTED;
            return NULL;
        }
        set->items    = items;
        set->capacity = capacity;
    }
    item  = &set->items[set->n];
    *item = (est_feature_item){
        .name = set->names.size, .name_size = strlen(name), .value = set->values.size, .order = (uint32_t)set->n
    };
    set->n++;
    est_wire_put_raw(&set->names, name, item->name_size);
    return item;
}

static void item_end(est_feature_set *set, est_feature_item *item)
{
    item->value_size = set->values.size - item->value;
}

void est_feature_set_add_bytes(est_feature_set *set, const char *name, const est_str *values, size_t n)
{
    est_feature_item *item = item_begin(set, name, values, n);
    size_t            mark;

    if (item == NULL) return;
    mark = est_wire_begin(&set->values, EST_KIND_BYTES);
    for (size_t i = 0; i < n; i++) est_wire_put_bytes(&set->values, EST_LIST_VALUE, values[i].data, values[i].size);
    est_wire_end(&set->values, mark);
    item_end(set, item);
}

void est_feature_set_add_f32s(est_feature_set *set, const char *name, const float *values, size_t n)
{
    est_feature_item *item = item_begin(set, name, values, n);
    size_t            mark;

    if (item == NULL) return;
    mark = est_wire_begin(&set->values, EST_KIND_F32);
    if (n > 0) est_wire_put_f32s(&set->values, EST_LIST_VALUE, values, n);
    est_wire_end(&set->values, mark);
    item_end(set, item);
}

void est_feature_set_add_i64s(est_feature_set *set, const char *name, const int64_t *values, size_t n)
{
    est_feature_item *item = item_begin(set, name, values, n);
    size_t            mark;

    if (item == NULL) return;
    mark = est_wire_begin(&set->values, EST_KIND_I64);
    if (n > 0) est_wire_put_i64s(&set->values, EST_LIST_VALUE, values, n);
    est_wire_end(&set->values, mark);
    item_end(set, item);
}

void est_feature_set_add_empty(est_feature_set *set, const char *name)
{
    est_feature_item *item = item_begin(set, name, NULL, 0);

    if (item != NULL) item->is_empty = true;
}

static int compare_names(const est_feature_set *set, const est_feature_item *a, const est_feature_item *b)
{
    size_t size  = a->name_size < b->name_size ? a->name_size : b->name_size;
    int    order = size > 0 ? memcmp(set->names.data + a->name, set->names.data + b->name, size) : 0;

    if (order != 0) return order;
    return (a->name_size > b->name_size) - (a->name_size < b->name_size);
}

static int compare_items(const void *left, const void *right, void *set)
{
    const est_feature_item *a = left, *b = right;
    int                     order = compare_names(set, a, b);

    return order != 0 ? order : (a->order > b->order) - (a->order < b->order);
}

/* The value of a map's entry from the items [first, end) of one name: its last Feature, or a list of all. */
static void write_value(const est_feature_set *set, bool as_lists, size_t first, size_t end, est_wire_writer *w)
{
    size_t mark;

    if (!as_lists) {
        const est_feature_item *last = &set->items[end - 1];

        est_wire_put_bytes(w, EST_ENTRY_VALUE, set->values.data + last->value, last->value_size);
        return;
    }
    mark = est_wire_begin(w, EST_ENTRY_VALUE);
    for (size_t i = first; i < end; i++) {
        const est_feature_item *item = &set->items[i];

        if (item->is_empty) continue;
        est_wire_put_bytes(w, EST_FEATURE_LIST_FEATURE, set->values.data + item->value, item->value_size);
    }
    est_wire_end(w, mark);
}

est_status est_feature_set_write(est_feature_set *set, bool as_lists, est_wire_writer *w)
{
    if (set->failed == EST_INVALID_ARGUMENT) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "a feature of an example was set without a name, or with values that are NULL");
    }
    if (set->failed != EST_OK) return est_fail(set->failed, "no memory for %zu features of an example", set->n + 1);
    EST_TRY(est_wire_writer_status(&set->names));
    EST_TRY(est_wire_writer_status(&set->values));
    if (set->n > 1) qsort_r(set->items, set->n, sizeof *set->items, compare_items, set);
    for (size_t first = 0, end; first < set->n; first = end) {
        const est_feature_item *item = &set->items[first];
        size_t                  entry;

        for (end = first + 1; end < set->n && compare_names(set, item, &set->items[end]) == 0;) end++;
        entry = est_wire_begin(w, EST_FEATURES_FEATURE);
        est_wire_put_bytes(w, EST_ENTRY_KEY, set->names.data + item->name, item->name_size);
        write_value(set, as_lists, first, end, w);
        est_wire_end(w, entry);
    }
    return est_wire_writer_status(w);
}

void est_feature_set_reset(est_feature_set *set)
{
    set->n      = 0;
    set->failed = EST_OK;
    est_wire_writer_reset(&set->names);
    est_wire_writer_reset(&set->values);
}

void est_feature_set_clear(est_feature_set *set)
{
    est_free(set->items);
    est_wire_writer_clear(&set->names);
    est_wire_writer_clear(&set->values);
    *set = (est_feature_set){ 0 };
}
