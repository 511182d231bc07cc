/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints messages by the table in graph_text.def: for every field of the table, in its order, what the message has of
 * it. Numbers look as Python prints them: the fewest digits that read back as the same value. */
#include "format/graph_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "format/number.h"
#include "format/tensor_proto.h"

typedef enum message_id {
#define MESSAGE(id, name, fields) ID_##id,
#include "format/graph_text.def"
#undef MESSAGE
    ID_NONE
} message_id;

typedef enum field_label { ONE, MANY, MAP, INT_MAP } field_label;

typedef enum field_kind { INT, UINT, FLOAT, DOUBLE, BOOL, BYTES, DTYPE, SAVER, MESSAGE, OPAQUE } field_kind;

typedef struct text_field {
    uint32_t    number; /* 0 ends a list of fields */
    const char *name;
    field_label label;
    field_kind  kind;
    message_id  message;
} text_field;

typedef struct text_message {
    const char       *name;
    const text_field *fields;
} text_message;

#define FIELD(number, name, label, kind, id) { number, #name, label, kind, ID_##id },
#define MESSAGE(id, name, fields)            { #name, (const text_field[]){ fields{ 0, NULL, ONE, INT, ID_NONE } } },
static const text_message messages[] = {
#include "format/graph_text.def"
};
#undef MESSAGE
#undef FIELD

typedef struct printer {
    est_strbuf *out;
    int         depth;
} printer;

static void indent(const printer *p)
{
    for (int i = 0; i < p->depth; i++) est_strbuf_append_bytes(p->out, "  ", 2);
}

/* --- scalars ------------------------------------------------------------------------------------------------------ */

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\'' && c != '\\';
}

static void print_escape(const printer *p, unsigned char c)
{
    switch (c) {
    case '\n': est_strbuf_append(p->out, "\\n"); break;
    case '\r': est_strbuf_append(p->out, "\\r"); break;
    case '\t': est_strbuf_append(p->out, "\\t"); break;
    case '"':
    case '\'':
    case '\\': est_strbuf_printf(p->out, "\\%c", c); break;
    default: est_strbuf_printf(p->out, "\\%03o", c); break;
    }
}

static void print_bytes(const printer *p, est_str bytes)
{
    const unsigned char *c = (const unsigned char *)bytes.data;

    est_strbuf_append(p->out, "\"");
    for (size_t i = 0; i < bytes.size;) {
        size_t n = 0;

        while (i + n < bytes.size && is_plain(c[i + n])) n++;
        if (n > 0) {
            est_strbuf_append_bytes(p->out, c + i, n);
            i += n;
        } else {
            print_escape(p, c[i++]);
        }
    }
    est_strbuf_append(p->out, "\"");
}

static void print_name_or_number(const printer *p, const char *name, int32_t number)
{
    if (name != NULL) {
        est_strbuf_append(p->out, name);
    } else {
        est_strbuf_printf(p->out, "%" PRId32, number);
    }
}

static void print_saver(const printer *p, int32_t number)
{
    static const char *const names[] = { "LEGACY", "V1", "V2" };

    print_name_or_number(p, number >= 0 && number < 3 ? names[number] : NULL, number);
}

static void print_number(const printer *p, field_kind kind, uint64_t bits)
{
    int32_t low = (int32_t)(uint32_t)bits;
    char    number[EST_NUMBER_TEXT_MAX];

    switch (kind) {
    case INT: est_strbuf_printf(p->out, "%" PRId64, (int64_t)bits); break;
    case UINT: est_strbuf_printf(p->out, "%" PRIu64, bits); break;
    case FLOAT: est_strbuf_append(p->out, est_number_f32_text(est_wire_bits_f32(bits), number)); break;
    case DOUBLE: est_strbuf_append(p->out, est_number_f64_text(est_wire_bits_f64(bits), number)); break;
    case BOOL: est_strbuf_append(p->out, bits != 0 ? "true" : "false"); break;
    case DTYPE: print_name_or_number(p, est_dtype_proto_name(low), low); break;
    case SAVER: print_saver(p, low); break;
    case BYTES:
    case MESSAGE:
    case OPAQUE: break; /* not numbers */
    }
}

/* --- fields ------------------------------------------------------------------------------------------------------- */

static est_status print_message(printer *p, est_wire_reader *r, message_id id);

/* One occurrence of a field that is a message. */
static est_status print_submessage(printer *p, est_wire_reader *r, const est_wire_field *field, const text_field *row)
{
    est_wire_reader inner;

    est_wire_message(r, field, messages[row->message].name, &inner);
    EST_TRY(est_wire_finish(r));
    indent(p);
    est_strbuf_printf(p->out, "%s {\n", row->name);
    p->depth++;
    EST_TRY(print_message(p, &inner, row->message));
    p->depth--;
    indent(p);
    est_strbuf_append(p->out, "}\n");
    return EST_OK;
}

static est_wire_type number_type(field_kind kind)
{
    return kind == FLOAT ? EST_WIRE_FIXED32 : kind == DOUBLE ? EST_WIRE_FIXED64 : EST_WIRE_VARINT;
}

/* One occurrence of a field of any kind; numbers may be packed, so it may be several lines. */
static est_status print_field(printer *p, est_wire_reader *r, const est_wire_field *field, const text_field *row)
{
    est_wire_list list;
    uint64_t      bits;
    est_str       bytes;

    if (row->kind == MESSAGE) return print_submessage(p, r, field, row);
    if (row->kind == BYTES || row->kind == OPAQUE) {
        bytes = est_wire_bytes(r, field);
        EST_TRY(est_wire_finish(r));
        indent(p);
        if (row->kind == OPAQUE) {
            est_strbuf_printf(p->out, "# %s: %zu bytes, not shown\n", row->name, bytes.size);
            return EST_OK;
        }
        est_strbuf_printf(p->out, "%s: ", row->name);
        print_bytes(p, bytes);
        est_strbuf_append(p->out, "\n");
        return EST_OK;
    }
    est_wire_list_init(r, field, number_type(row->kind), &list);
    while (est_wire_list_next(&list, &bits)) {
        indent(p);
        est_strbuf_printf(p->out, "%s: ", row->name);
        print_number(p, row->kind, bits);
        est_strbuf_append(p->out, "\n");
    }
    return est_wire_finish(r);
}

/* A field that may be there once: of several the last counts. */
static est_status print_last(printer *p, const est_wire_reader *message, const text_field *row)
{
    est_wire_reader r = *message;
    est_wire_field  field, last;
    bool            found = false;

    while (est_wire_next(&r, &field)) {
        if (field.number != row->number) continue;
        last  = field;
        found = true;
    }
    EST_TRY(est_wire_finish(&r));
    return found ? print_field(p, &r, &last, row) : EST_OK;
}

static est_status print_all(printer *p, const est_wire_reader *message, const text_field *row)
{
    est_wire_reader r = *message;
    est_wire_field  field;

    while (est_wire_next(&r, &field)) {
        if (field.number == row->number) EST_TRY(print_field(p, &r, &field, row));
    }
    return est_wire_finish(&r);
}

/* --- maps --------------------------------------------------------------------------------------------------------- */

typedef struct map_entry {
    est_wire_reader reader; /* of the entry */
    est_str         key;
    uint64_t        number; /* the key of an INT_MAP */
    size_t          position;
} map_entry;

/* By key; entries of one key in the order they came. */
static int compare_entries(const void *a, const void *b)
{
    const map_entry *x = a, *y = b;
    size_t           n     = x->key.size < y->key.size ? x->key.size : y->key.size;
    int              order = n > 0 ? memcmp(x->key.data, y->key.data, n) : 0;

    if (order != 0) return order;
    if (x->key.size != y->key.size) return x->key.size < y->key.size ? -1 : 1;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

static bool same_key(const map_entry *a, const map_entry *b)
{
    return a->number == b->number && a->key.size == b->key.size &&
           (a->key.size == 0 || memcmp(a->key.data, b->key.data, a->key.size) == 0);
}

/* Finds the key of an entry whose reader is set. */
static est_status read_key(map_entry *entry, field_label label)
{
    est_wire_reader r = entry->reader;
    est_wire_field  field;

    entry->key = (est_str){ "", 0 };
    while (est_wire_next(&r, &field)) {
        if (field.number != 1) continue;
        if (label == MAP) {
            entry->key = est_wire_bytes(&r, &field);
        } else {
            entry->number = est_wire_u64(&r, &field);
        }
    }
    return est_wire_finish(&r);
}

/* A key of 0 or "" is left out, as a field of its own would be. */
static void print_key(const printer *p, const map_entry *entry)
{
    if (entry->key.size == 0 && entry->number == 0) return;
    indent(p);
    est_strbuf_append(p->out, "key: ");
    if (entry->key.size > 0) {
        print_bytes(p, entry->key);
    } else {
        print_number(p, UINT, entry->number);
    }
    est_strbuf_append(p->out, "\n");
}

static est_status print_entry(printer *p, const map_entry *entry, const text_field *row)
{
    const text_field value = { 2, "value", ONE, row->kind, row->message };

    indent(p);
    est_strbuf_printf(p->out, "%s {\n", row->name);
    p->depth++;
    print_key(p, entry);
    EST_TRY(print_last(p, &entry->reader, &value));
    p->depth--;
    indent(p);
    est_strbuf_append(p->out, "}\n");
    return EST_OK;
}

static est_status read_entries(const est_wire_reader *message, const text_field *row, map_entry *entries)
{
    est_wire_reader r = *message;
    est_wire_field  field;
    size_t          n = 0;

    while (est_wire_next(&r, &field)) {
        if (field.number != row->number) continue;
        est_wire_message(&r, &field, row->name, &entries[n].reader);
        EST_TRY(est_wire_finish(&r));
        entries[n].position = n;
        EST_TRY(read_key(&entries[n], row->label));
        n++;
    }
    return est_wire_finish(&r);
}

static est_status print_map(printer *p, const est_wire_reader *message, const text_field *row)
{
    est_wire_reader r = *message;
    est_wire_field  field;
    map_entry      *entries;
    size_t          n = 0;
    est_status      status;

    while (est_wire_next(&r, &field)) n += field.number == row->number;
    if (n == 0) return est_wire_finish(&r);
    entries = est_zalloc(n * sizeof *entries);
    if (entries == NULL) return est_no_memory();
    status = read_entries(message, row, entries);
    if (status == EST_OK) qsort(entries, n, sizeof *entries, compare_entries);
    for (size_t i = 0; status == EST_OK && i < n; i++) {
        if (i + 1 < n && same_key(&entries[i], &entries[i + 1])) continue; /* the last one counts */
        status = print_entry(p, &entries[i], row);
    }
    est_free(entries);
    return status;
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static est_status print_message(printer *p, est_wire_reader *r, message_id id)
{
    if (p->depth > EST_GRAPH_TEXT_DEPTH_MAX) {
        return est_wire_fail(r, r->at, "messages more than %d deep", EST_GRAPH_TEXT_DEPTH_MAX);
    }
    for (const text_field *row = messages[id].fields; row->number != 0; row++) {
        switch (row->label) {
        case ONE: EST_TRY(print_last(p, r, row)); break;
        case MANY: EST_TRY(print_all(p, r, row)); break;
        case MAP:
        case INT_MAP: EST_TRY(print_map(p, r, row)); break;
        }
    }
    return est_strbuf_status(p->out);
}

static est_status print(est_str message, message_id id, est_strbuf *out)
{
    printer         p = { .out = out };
    est_wire_reader r;

    est_wire_reader_init(&r, messages[id].name, message.data, message.size);
    return print_message(&p, &r, id);
}

est_status est_graph_def_text(est_str message, est_strbuf *out)
{
    return print(message, ID_GRAPH_DEF, out);
}

est_status est_meta_graph_def_text(est_str message, est_strbuf *out)
{
    return print(message, ID_META_GRAPH_DEF, out);
}

est_status est_saved_model_text(est_str message, est_strbuf *out)
{
    return print(message, ID_SAVED_MODEL, out);
}
