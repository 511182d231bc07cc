/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables as messages.
 *
 *   VariableDef        1 variable_name | 2 initializer_name | 3 snapshot_name | 4 save_slice_info_def | 5 is_resource |
 *                      6 initial_value_name | 7 trainable | 8 synchronization | 9 aggregation
 *   SaveSliceInfoDef   1 full_name | 2 full_shape | 3 var_offset | 4 var_shape */
#include "format/variable_def.h"

#include "format/wire_defaults.h"

static void put_axes(est_wire_writer *w, uint32_t number, const est_shape *axes)
{
    if (axes->rank > 0) est_wire_put_i64s(w, number, axes->dim, (size_t)axes->rank);
}

void est_variable_def_put(est_wire_writer *w, const est_variable_def *def)
{
    est_def_put_text(w, 1, def->variable_name);
    est_def_put_text(w, 2, def->initializer_name);
    est_def_put_text(w, 3, def->snapshot_name);
    if (def->full_name != NULL && def->full_name[0] != '\0') {
        size_t slice = est_wire_begin(w, 4);

        est_def_put_text(w, 1, def->full_name);
        put_axes(w, 2, &def->full_shape);
        put_axes(w, 3, &def->offset);
        put_axes(w, 4, &def->shape);
        est_wire_end(w, slice);
    }
    est_wire_put_true(w, 5, def->is_resource);
    est_def_put_text(w, 6, def->initial_value_name);
    est_wire_put_true(w, 7, def->trainable);
    est_wire_put_i64_nonzero(w, 8, def->synchronization);
    est_wire_put_i64_nonzero(w, 9, def->aggregation);
}

static est_status read_axes(est_wire_reader *r, const est_wire_field *field, est_shape *axes)
{
    est_wire_list list;
    uint64_t      bits;

    est_wire_list_init(r, field, EST_WIRE_VARINT, &list);
    while (est_wire_list_next(&list, &bits)) {
        if (axes->rank == EST_RANK_MAX) {
            return est_fail(EST_UNIMPLEMENTED, "a part of a variable with more than %d axes", EST_RANK_MAX);
        }
        axes->dim[axes->rank++] = (int64_t)bits;
    }
    return est_wire_finish(r);
}

static est_status parse_slice(est_wire_reader *r, est_arena *arena, est_variable_def *def)
{
    est_wire_field field;

    while (est_wire_next(r, &field)) {
        switch (field.number) {
        case 1: EST_TRY(est_def_read_text(arena, r, &field, &def->full_name)); break;
        case 2: EST_TRY(read_axes(r, &field, &def->full_shape)); break;
        case 3: EST_TRY(read_axes(r, &field, &def->offset)); break;
        case 4: EST_TRY(read_axes(r, &field, &def->shape)); break;
        default: break;
        }
    }
    if (def->offset.rank != def->full_shape.rank || def->shape.rank != def->full_shape.rank) {
        return est_wire_fail(r, r->end, "a part of '%s' at an offset of %d axes and a shape of %d, in a whole of %d",
                             def->full_name, (int)def->offset.rank, (int)def->shape.rank, (int)def->full_shape.rank);
    }
    return est_wire_finish(r);
}

est_status est_variable_def_parse(est_str message, est_arena *arena, est_variable_def *out)
{
    est_variable_def def = { .variable_name = "", .initial_value_name = "", .initializer_name = "" };
    est_wire_reader  r, slice;
    est_wire_field   field;

    def.snapshot_name = def.full_name = "";
    est_wire_reader_init(&r, "VariableDef", message.data, message.size);
    while (est_wire_next(&r, &field)) {
        switch (field.number) {
        case 1: EST_TRY(est_def_read_text(arena, &r, &field, &def.variable_name)); break;
        case 2: EST_TRY(est_def_read_text(arena, &r, &field, &def.initializer_name)); break;
        case 3: EST_TRY(est_def_read_text(arena, &r, &field, &def.snapshot_name)); break;
        case 4:
            est_wire_message(&r, &field, "SaveSliceInfoDef", &slice);
            EST_TRY(est_wire_finish(&r));
            EST_TRY(parse_slice(&slice, arena, &def));
            break;
        case 5: def.is_resource = est_wire_bool(&r, &field); break;
        case 6: EST_TRY(est_def_read_text(arena, &r, &field, &def.initial_value_name)); break;
        case 7: def.trainable = est_wire_bool(&r, &field); break;
        case 8: def.synchronization = est_wire_i32(&r, &field); break;
        case 9: def.aggregation = est_wire_i32(&r, &field); break;
        default: break;
        }
    }
    EST_TRY(est_wire_finish(&r));
    *out = def;
    return EST_OK;
}
