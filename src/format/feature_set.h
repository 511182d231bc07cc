/* SPDX-License-Identifier: Apache-2.0
 *
 * Named features under construction: what the builders of Example and SequenceExample share. Each value is encoded as a
 * Feature message when it is added; writing sorts the names and copies the bytes. One thread at a time. */
#ifndef EST_FORMAT_FEATURE_SET_H
#define EST_FORMAT_FEATURE_SET_H

#include "estoc/example.h"
#include "format/wire.h"

/* Field numbers of the messages. */
enum {
    EST_EXAMPLE_FEATURES       = 1, /* Example */
    EST_SEQUENCE_CONTEXT       = 1, /* SequenceExample */
    EST_SEQUENCE_FEATURE_LISTS = 2,
    EST_FEATURES_FEATURE       = 1, /* Features and FeatureLists: map entries */
    EST_FEATURE_LIST_FEATURE   = 1, /* FeatureList: steps */
    EST_ENTRY_KEY              = 1, /* a map's entry */
    EST_ENTRY_VALUE            = 2,
    EST_LIST_VALUE             = 1 /* BytesList, FloatList, Int64List */
};

/* What a Feature holds; the numbers are those of its fields. */
typedef enum est_feature_kind {
    EST_KIND_NONE  = 0,
    EST_KIND_BYTES = 1,
    EST_KIND_F32   = 2,
    EST_KIND_I64   = 3
} est_feature_kind;

typedef struct est_feature_item {
    size_t   name, name_size;   /* in names */
    size_t   value, value_size; /* in values: a Feature message */
    uint32_t order;             /* of adding */
    bool     is_empty;          /* has no value: a list without steps */
} est_feature_item;

/* A zeroed struct has no features. */
typedef struct est_feature_set {
    est_feature_item *items;
    size_t            n, capacity;
    est_wire_writer   names, values; /* bytes one after the other */
    est_status        failed;        /* the first time; EST_OK: never */
} est_feature_set;

void est_feature_set_add_bytes(est_feature_set *set, const char *name, const est_str *values, size_t n);
void est_feature_set_add_f32s(est_feature_set *set, const char *name, const float *values, size_t n);
void est_feature_set_add_i64s(est_feature_set *set, const char *name, const int64_t *values, size_t n);
void est_feature_set_add_empty(est_feature_set *set, const char *name);

/* Writes the map entries of Features (the last value of a name) or of FeatureLists (all of them as steps). */
EST_MUST_CHECK est_status est_feature_set_write(est_feature_set *set, bool as_lists, est_wire_writer *w);

void est_feature_set_reset(est_feature_set *set); /* keeps the memory */
void est_feature_set_clear(est_feature_set *set);

#endif
