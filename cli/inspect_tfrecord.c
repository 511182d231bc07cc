/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc inspect` of TFRecord files: a JSON line a record.
 *
 * A record does not say what it is. It is taken for an Example when it can be read as one, else for a SequenceExample,
 * else it is shown as bytes. Unknown fields are no obstacle, as long as there is a feature; a name that is not UTF-8
 * is. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "estoc/tfrecord.h"
#include "format/feature_decode.h"
#include "inspect.h"
#include "output.h"

/* An entry of a map: a feature, or a list of steps. */
typedef struct entry {
    est_str name, value;
    size_t  order; /* in the record: of two with one name the later counts */
} entry;

typedef struct entries {
    entry *list;
    size_t n, capacity;
} entries;

typedef struct printer {
    const inspect_options *options;
    est_strbuf             line;
    entries                context, lists;
    void                  *values; /* room for one feature's values */
    size_t                 values_size;
    est_status             status; /* of memory: not what a record looks like */
} printer;

/* --- reading a record --------------------------------------------------------------------------------------------- */

static bool add_entry(printer *p, entries *to, est_str name, est_str value)
{
    if (to->n == to->capacity) {
        size_t capacity = to->capacity > 0 ? 2 * to->capacity : 16;
        entry *list     = est_realloc(to->list, capacity * sizeof *list);

        if (list == NULL) {
            p->status = est_no_memory();
            return false;
        }
        to->list     = list;
        to->capacity = capacity;
    }
    to->list[to->n] = (entry){ name, value, to->n };
    to->n++;
    return true;
}

/* Reads a Features or FeatureLists message; false when it is none. */
static bool read_map(printer *p, est_wire_reader *r, entries *to)
{
    est_wire_field field;

    while (est_wire_next(r, &field)) {
        est_str         name = { "", 0 }, value = { "", 0 };
        est_wire_reader inner;
        est_wire_field  part;

        if (field.number != EST_FEATURES_FEATURE) continue;
        est_wire_message(r, &field, "entry", &inner);
        while (est_wire_next(&inner, &part)) {
            if (part.number == EST_ENTRY_KEY) name = est_wire_bytes(&inner, &part);
            if (part.number == EST_ENTRY_VALUE) value = est_wire_bytes(&inner, &part);
        }
        if (est_wire_finish(&inner) != EST_OK || !tool_is_utf8(name) || !add_entry(p, to, name, value)) return false;
    }
    return est_wire_finish(r) == EST_OK;
}

static int by_name(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    size_t       size  = x->name.size < y->name.size ? x->name.size : y->name.size;
    int          order = size > 0 ? memcmp(x->name.data, y->name.data, size) : 0;

    if (order != 0) return order;
    if (x->name.size != y->name.size) return x->name.size < y->name.size ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* Sorts by name and keeps the last of equal ones. */
static void sort_entries(entries *e)
{
    size_t kept = 0;

    if (e->n > 1) qsort(e->list, e->n, sizeof *e->list, by_name);
    for (size_t i = 0; i < e->n; i++) {
        bool again = i + 1 < e->n && e->list[i].name.size == e->list[i + 1].name.size &&
                     memcmp(e->list[i].name.data, e->list[i + 1].name.data, e->list[i].name.size) == 0;

        if (!again) e->list[kept++] = e->list[i];
    }
    e->n = kept;
}

/* Reads an Example or a SequenceExample into the two maps; false when it is neither. *is_sequence tells which. */
static bool read_record(printer *p, est_str record, bool *is_sequence)
{
    est_wire_reader r, inner;
    est_wire_field  field;
    size_t          n_unknown = 0;

    p->context.n = p->lists.n = 0;
    *is_sequence              = false;
    est_wire_reader_init(&r, "Example", record.data, record.size);
    while (est_wire_next(&r, &field)) {
        bool is_lists = field.number == EST_SEQUENCE_FEATURE_LISTS;

        if (field.number != EST_EXAMPLE_FEATURES && !is_lists) {
            n_unknown++;
            continue;
        }
        *is_sequence |= is_lists;
        est_wire_message(&r, &field, "Features", &inner);
        if (!read_map(p, &inner, is_lists ? &p->lists : &p->context)) return false;
    }
    if (est_wire_finish(&r) != EST_OK) return false;
    sort_entries(&p->context);
    sort_entries(&p->lists);
    return n_unknown == 0 || p->context.n + p->lists.n > 0;
}

/* --- printing ----------------------------------------------------------------------------------------------------- */

/* Whether --feature asks for it. */
static bool is_wanted(const inspect_options *options, est_str name)
{
    const char *at = options->feature;

    if (at == NULL) return true;
    for (;;) {
        size_t size = strcspn(at, ",");

        if (size == name.size && memcmp(at, name.data, size) == 0) return true;
        if (at[size] == '\0') return false;
        at += size + 1;
    }
}

static void print_values(printer *p, est_feature_kind kind, size_t n)
{
    est_strbuf *line = &p->line;

    est_strbuf_append(line, "[");
    for (size_t i = 0; i < n && !line->failed; i++) {
        if (i > 0) est_strbuf_append(line, ", ");
        if (kind == EST_KIND_BYTES) tool_append_json_bytes(line, ((const est_str *)p->values)[i]);
        if (kind == EST_KIND_F32) tool_append_json_f32(line, ((const float *)p->values)[i]);
        if (kind == EST_KIND_I64) est_strbuf_printf(line, "%" PRId64, ((const int64_t *)p->values)[i]);
    }
    est_strbuf_append(line, "]");
}

/* Appends the values of a Feature; false when the bytes are none. */
static bool print_feature(printer *p, est_str feature)
{
    est_feature_kind kind;
    size_t           n, room, size;

    if (est_feature_decode(feature, feature.data, EST_KIND_BYTES, NULL, 0, &kind, &n) != EST_OK) return false;
    if (kind == EST_KIND_NONE) {
        est_strbuf_append(&p->line, "[]");
        return true;
    }
    room = est_feature_values_max(kind, feature.size);
    size = room * (kind == EST_KIND_BYTES ? sizeof(est_str) : kind == EST_KIND_F32 ? sizeof(float) : sizeof(int64_t));
    if (size > p->values_size) {
        est_free(p->values);
        p->values      = est_alloc(size);
        p->values_size = p->values != NULL ? size : 0;
        if (p->values == NULL) {
            p->status = est_no_memory();
            return false;
        }
    }
    if (est_feature_decode(feature, feature.data, kind, p->values, room, &kind, &n) != EST_OK) return false;
    print_values(p, kind, n);
    return true;
}

/* Appends the steps of a FeatureList. */
static bool print_steps(printer *p, est_str list)
{
    est_wire_reader r;
    est_wire_field  field;
    bool            first = true;

    est_wire_reader_init(&r, "FeatureList", list.data, list.size);
    est_strbuf_append(&p->line, "[");
    while (est_wire_next(&r, &field)) {
        est_str step;

        if (field.number != EST_FEATURE_LIST_FEATURE) continue;
        if (!first) est_strbuf_append(&p->line, ", ");
        first = false;
        step  = est_wire_bytes(&r, &field);
        if (!print_feature(p, step)) return false;
    }
    est_strbuf_append(&p->line, "]");
    return est_wire_finish(&r) == EST_OK;
}

static bool print_map(printer *p, const entries *e, bool as_lists)
{
    bool first = true;

    est_strbuf_append(&p->line, "{");
    for (size_t i = 0; i < e->n; i++) {
        const entry *at = &e->list[i];

        if (!is_wanted(p->options, at->name)) continue;
        if (!first) est_strbuf_append(&p->line, ", ");
        first = false;
        est_strbuf_append_json(&p->line, at->name.data, at->name.size);
        est_strbuf_append(&p->line, ": ");
        if (as_lists ? !print_steps(p, at->value) : !print_feature(p, at->value)) return false;
    }
    est_strbuf_append(&p->line, "}");
    return true;
}

static bool print_example(printer *p, est_str record)
{
    bool is_sequence;

    if (!read_record(p, record, &is_sequence)) return false;
    if (!is_sequence) return print_map(p, &p->context, false);
    est_strbuf_append(&p->line, "{\"context\": ");
    if (!print_map(p, &p->context, false)) return false;
    est_strbuf_append(&p->line, ", \"feature_lists\": ");
    if (!print_map(p, &p->lists, true)) return false;
    est_strbuf_append(&p->line, "}");
    return true;
}

static est_status print_record(printer *p, est_str record)
{
    est_strbuf_reset(&p->line);
    if (!print_example(p, record)) {
        EST_TRY(p->status);
        est_strbuf_reset(&p->line);
        est_strbuf_printf(&p->line, "{\"bytes\": %zu, \"b64\": \"", record.size);
        tool_append_base64(&p->line, record);
        est_strbuf_append(&p->line, "\"}");
    }
    est_strbuf_append(&p->line, "\n");
    return tool_write(&p->line);
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

static est_status print_records(est_tfrecord_reader *reader, printer *p)
{
    const inspect_options *o = p->options;
    est_status             status;
    est_str                record;
    int64_t                n = 0;

    for (int64_t at = 0; at - o->skip < o->limit; at++) {
        status = est_tfrecord_next(reader, &record);
        if (status == EST_OUT_OF_RANGE) break;
        EST_TRY(status);
        if (at < o->skip) continue;
        n++;
        if (!o->count) EST_TRY(print_record(p, record));
    }
    if (!o->count) return EST_OK;
    est_strbuf_printf(&p->line, o->json ? "{\"records\": %" PRId64 "}\n" : "%" PRId64 "\n", n);
    return tool_write(&p->line);
}

est_status inspect_tfrecord(const inspect_options *options)
{
    printer              p = { .options = options, .status = EST_OK };
    est_tfrecord_reader *reader;
    est_status           status;

    EST_TRY(est_tfrecord_open(options->path, NULL, &reader));
    status = print_records(reader, &p);
    est_tfrecord_close(reader);
    est_strbuf_clear(&p.line);
    est_free(p.context.list);
    est_free(p.lists.list);
    est_free(p.values);
    return status;
}
