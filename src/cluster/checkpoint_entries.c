/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoint entries as nested messages. */
#include "cluster/checkpoint_entries.h"

#include <string.h>

#include "base/alloc.h"

enum { KEY = 1, NAME, DTYPE, FULL, FIRST, ROWS, ROW_SPEC };
enum {
    SPEC_NAME = 1,
    SPEC_OF,
    SPEC_DTYPE,
    SPEC_SHAPE,
    SPEC_DISTRIBUTION,
    SPEC_A,
    SPEC_B,
    SPEC_SEED,
    SPEC_ADMIT,
    SPEC_AGE
};

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void put_shape(est_wire_writer *w, uint32_t field, const est_shape *shape)
{
    est_wire_put_i64s(w, field, shape->dim, (size_t)shape->rank);
}

static void put_spec(est_wire_writer *w, const est_row_spec *spec)
{
    size_t mark = est_wire_begin(w, ROW_SPEC);

    est_wire_put_string(w, SPEC_NAME, spec->name);
    if (spec->rows_of != NULL) est_wire_put_string(w, SPEC_OF, spec->rows_of);
    est_wire_put_i64(w, SPEC_DTYPE, spec->dtype);
    put_shape(w, SPEC_SHAPE, &spec->shape);
    est_wire_put_i64(w, SPEC_DISTRIBUTION, spec->draw.distribution);
    est_wire_put_f64(w, SPEC_A, spec->draw.a);
    est_wire_put_f64(w, SPEC_B, spec->draw.b);
    est_wire_put_u64(w, SPEC_SEED, spec->draw.seed);
    est_wire_put_i64(w, SPEC_ADMIT, spec->admit_after);
    est_wire_put_i64(w, SPEC_AGE, spec->max_age);
    est_wire_end(w, mark);
}

void est_checkpoint_entry_pack(est_packing *packing, const est_store_entry *entry)
{
    est_wire_writer *w    = &packing->head;
    size_t           mark = est_wire_begin(w, EST_FIELD_ENTRY);

    est_wire_put_string(w, KEY, entry->key);
    est_wire_put_string(w, NAME, entry->name);
    est_wire_put_i64(w, DTYPE, entry->dtype);
    put_shape(w, FULL, &entry->full);
    est_wire_put_i64(w, FIRST, entry->first);
    est_wire_put_i64(w, ROWS, entry->rows);
    if (entry->rows_spec.name != NULL) put_spec(w, &entry->rows_spec);
    est_wire_end(w, mark);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

typedef struct reading {
    est_wire_reader r;
    est_arena      *arena;
    est_status      status;
} reading;

/* A text without zero bytes. */
static const char *get_text(reading *in, const est_wire_field *field)
{
    est_str text = est_wire_bytes(&in->r, field);
    char   *copy = est_arena_alloc(in->arena, text.size + 1);

    if (in->status != EST_OK) return "";
    if (copy == NULL) {
        in->status = est_no_memory();
        return "";
    }
    if (text.size > 0 && memchr(text.data, '\0', text.size) != NULL) {
        in->status = est_fail(EST_DATA_LOSS, "a checkpoint entry has a name with a zero byte");
        return "";
    }
    if (text.size > 0) memcpy(copy, text.data, text.size);
    return copy;
}

static void get_shape(reading *in, const est_wire_field *field, est_shape *out)
{
    est_wire_list list;
    uint64_t      dim;

    *out = EST_SHAPE_SCALAR;
    est_wire_list_init(&in->r, field, EST_WIRE_VARINT, &list);
    while (est_wire_list_next(&list, &dim)) {
        if (out->rank == EST_RANK_MAX || dim > INT64_MAX) {
            in->status = est_fail(EST_DATA_LOSS,
                                  "a checkpoint entry has an invalid shape (at most %d dimensions, none negative)",
                                  EST_RANK_MAX);
            return;
        }
        out->dim[out->rank++] = (int64_t)dim;
    }
}

static est_status end_reading(const reading *in)
{
    return in->status != EST_OK ? in->status : est_wire_finish(&in->r);
}

static est_status get_spec(est_wire_reader *outer, const est_wire_field *message, est_arena *arena, est_row_spec *out)
{
    reading        in = { .arena = arena };
    est_wire_field field;

    est_wire_message(outer, message, "row spec", &in.r);
    while (in.status == EST_OK && est_wire_next(&in.r, &field)) {
        switch (field.number) {
        case SPEC_NAME: out->name = get_text(&in, &field); break;
        case SPEC_OF: out->rows_of = get_text(&in, &field); break;
        case SPEC_DTYPE: out->dtype = (est_dtype)est_wire_i32(&in.r, &field); break;
        case SPEC_SHAPE: get_shape(&in, &field, &out->shape); break;
        case SPEC_DISTRIBUTION: out->draw.distribution = est_wire_i32(&in.r, &field); break;
        case SPEC_A: out->draw.a = est_wire_f64(&in.r, &field); break;
        case SPEC_B: out->draw.b = est_wire_f64(&in.r, &field); break;
        case SPEC_SEED: out->draw.seed = est_wire_u64(&in.r, &field); break;
        case SPEC_ADMIT: out->admit_after = est_wire_i64(&in.r, &field); break;
        case SPEC_AGE: out->max_age = est_wire_i64(&in.r, &field); break;
        default: break;
        }
    }
    return end_reading(&in);
}

static est_status get_entry(est_wire_reader *outer, const est_wire_field *message, est_arena *arena,
                            est_store_entry *out)
{
    reading        in = { .arena = arena };
    est_wire_field field;

    *out = (est_store_entry){ .key = "", .name = "", .rows = -1 };
    est_wire_message(outer, message, "entry", &in.r);
    while (in.status == EST_OK && est_wire_next(&in.r, &field)) {
        switch (field.number) {
        case KEY: out->key = get_text(&in, &field); break;
        case NAME: out->name = get_text(&in, &field); break;
        case DTYPE: out->dtype = (est_dtype)est_wire_i32(&in.r, &field); break;
        case FULL: get_shape(&in, &field, &out->full); break;
        case FIRST: out->first = est_wire_i64(&in.r, &field); break;
        case ROWS: out->rows = est_wire_i64(&in.r, &field); break;
        case ROW_SPEC: in.status = get_spec(&in.r, &field, arena, &out->rows_spec); break;
        default: break;
        }
    }
    return end_reading(&in);
}

est_status est_checkpoint_entries_unpack(const est_message *message, est_arena *arena, est_store_entry **out, int *n)
{
    est_wire_reader  r;
    est_wire_field   field;
    est_store_entry *entries;
    int              count = 0;

    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) count += field.number == EST_FIELD_ENTRY;
    EST_TRY(est_wire_finish(&r));
    entries = est_arena_alloc(arena, sizeof *entries * ((size_t)count + 1));
    if (entries == NULL) return est_no_memory();
    *n = 0;
    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) {
        if (field.number == EST_FIELD_ENTRY) EST_TRY(get_entry(&r, &field, arena, &entries[(*n)++]));
    }
    *out = entries;
    return EST_OK;
}
