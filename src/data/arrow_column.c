/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns of Arrow tables. The layouts are those of the Arrow columnar format, version 1.4. Buffers may have any
 * alignment, so values are loaded with memcpy. */
#include "data/arrow_column.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "format/number.h"
#include "tensor/tensor.h"

void est_arrow_chunk_free(est_arrow_chunk *chunk)
{
    if (chunk == NULL || !est_refcount_drop(&chunk->refs)) return;
    chunk->array.release(&chunk->array);
    est_free(chunk);
}

static void release_chunk(void *chunk)
{
    est_arrow_chunk_free(chunk);
}

/* --- types -------------------------------------------------------------------------------------------------------- */

static const size_t number_size[] = {
    [EST_ARROW_I8] = 1,  [EST_ARROW_U8] = 1,  [EST_ARROW_I16] = 2, [EST_ARROW_U16] = 2,
    [EST_ARROW_I32] = 4, [EST_ARROW_U32] = 4, [EST_ARROW_I64] = 8, [EST_ARROW_U64] = 8,
    [EST_ARROW_F16] = 2, [EST_ARROW_F32] = 4, [EST_ARROW_F64] = 8,
};

/* Formats of a type that has nothing else; a last '*' stands for any rest (a time zone). */
static const struct {
    const char      *format;
    est_arrow_kind   kind;
    est_arrow_number number;
    bool             large;
    est_dtype        dtype;
} plain_types[] = {
    /* clang-format off */
    { "c",    EST_ARROW_NUMBER, EST_ARROW_I8,  false, EST_I32 },
    { "C",    EST_ARROW_NUMBER, EST_ARROW_U8,  false, EST_U8 },
    { "s",    EST_ARROW_NUMBER, EST_ARROW_I16, false, EST_I32 },
    { "S",    EST_ARROW_NUMBER, EST_ARROW_U16, false, EST_I32 },
    { "i",    EST_ARROW_NUMBER, EST_ARROW_I32, false, EST_I32 },
    { "I",    EST_ARROW_NUMBER, EST_ARROW_U32, false, EST_I64 },
    { "l",    EST_ARROW_NUMBER, EST_ARROW_I64, false, EST_I64 },
    { "L",    EST_ARROW_NUMBER, EST_ARROW_U64, false, EST_I64 },
    { "e",    EST_ARROW_NUMBER, EST_ARROW_F16, false, EST_F32 },
    { "f",    EST_ARROW_NUMBER, EST_ARROW_F32, false, EST_F32 },
    { "g",    EST_ARROW_NUMBER, EST_ARROW_F64, false, EST_F64 },
    { "tdD",  EST_ARROW_NUMBER, EST_ARROW_I32, false, EST_I32 },
    { "tdm",  EST_ARROW_NUMBER, EST_ARROW_I64, false, EST_I64 },
    { "tts",  EST_ARROW_NUMBER, EST_ARROW_I32, false, EST_I32 },
    { "ttm",  EST_ARROW_NUMBER, EST_ARROW_I32, false, EST_I32 },
    { "ttu",  EST_ARROW_NUMBER, EST_ARROW_I64, false, EST_I64 },
    { "ttn",  EST_ARROW_NUMBER, EST_ARROW_I64, false, EST_I64 },
    { "tss:*", EST_ARROW_NUMBER, EST_ARROW_I64, false, EST_I64 },
    { "tsm:*", EST_ARROW_NUMBER, EST_ARROW_I64, false, EST_I64 },
    { "tsu:*", EST_ARROW_NUMBER, EST_ARROW_I64, false, EST_I64 },
    { "tsn:*", EST_ARROW_NUMBER, EST_ARROW_I64, false, EST_I64 },
    { "tDs",  EST_ARROW_NUMBER, EST_ARROW_I64, false, EST_I64 },
    { "tDm",  EST_ARROW_NUMBER, EST_ARROW_I64, false, EST_I64 },
    { "tDu",  EST_ARROW_NUMBER, EST_ARROW_I64, false, EST_I64 },
    { "tDn",  EST_ARROW_NUMBER, EST_ARROW_I64, false, EST_I64 },
    { "b",    EST_ARROW_BOOL,   0,             false, EST_BOOL },
    { "u",    EST_ARROW_STRING, 0,             false, EST_STRING },
    { "z",    EST_ARROW_STRING, 0,             false, EST_STRING },
    { "U",    EST_ARROW_STRING, 0,             true,  EST_STRING },
    { "Z",    EST_ARROW_STRING, 0,             true,  EST_STRING },
    { "vu",   EST_ARROW_VIEW,   0,             false, EST_STRING },
    { "vz",   EST_ARROW_VIEW,   0,             false, EST_STRING },
    /* clang-format on */
};

/* Formats that are valid and not read, by how they begin. */
static const struct {
    const char *prefix;
    const char *text;
} other_types[] = {
    { "n", "null, which says nothing about values; cast the column" },
    { "d:", "decimal; cast it to float64" },
    { "+s", "struct; select its fields as columns" },
    { "+m", "map; make it two list columns" },
    { "+u", "union; cast it to one of its types" },
    { "+r", "run-end encoded; decode it" },
    { "+v", "list view; cast it to a list" },
    { "ti", "interval; cast it to a number" },
};

static bool format_is(const char *format, const char *pattern)
{
    size_t n = strlen(pattern);

    if (pattern[n - 1] == '*') return strncmp(format, pattern, n - 1) == 0;
    return strcmp(format, pattern) == 0;
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static est_status unknown_format(const char *format)
{
    for (size_t i = 0; i < sizeof other_types / sizeof other_types[0]; i++) {
        if (!begins_with(format, other_types[i].prefix)) continue;
        return est_fail(EST_UNIMPLEMENTED, "its type is %s", other_types[i].text);
    }
    return est_fail(EST_INVALID_ARGUMENT, "its type has the format \"%.40s\", which Arrow does not have", format);
}

/* The number after "+w:" or "w:". */
static est_status parse_size(const char *text, est_arrow_type *out)
{
    int32_t size;

    if (est_number_i32(text, strlen(text), &size) != EST_NUMBER_OK || size < 0) {
        return est_fail(EST_INVALID_ARGUMENT, "its type has the fixed size \"%.40s\", which is not a size", text);
    }
    out->size = size;
    return EST_OK;
}

static bool parse_plain(const char *format, est_arrow_type *out)
{
    for (size_t i = 0; i < sizeof plain_types / sizeof plain_types[0]; i++) {
        if (!format_is(format, plain_types[i].format)) continue;
        *out = (est_arrow_type){ .kind   = plain_types[i].kind,
                                 .number = plain_types[i].number,
                                 .large  = plain_types[i].large,
                                 .dtype  = plain_types[i].dtype,
                                 .count  = 1 };
        return true;
    }
    return false;
}

/* The part of a schema that all types have in common. */
static est_status check_schema(const struct ArrowSchema *schema, int64_t n_children)
{
    if (schema == NULL || schema->release == NULL) return est_fail(EST_INVALID_ARGUMENT, "its schema is missing");
    if (schema->format == NULL) return est_fail(EST_INVALID_ARGUMENT, "its schema has no format");
    if (n_children < 0) return EST_OK;
    if (schema->n_children != n_children || (n_children > 0 && schema->children == NULL)) {
        return est_fail(EST_INVALID_ARGUMENT, "its type \"%.40s\" has %" PRId64 " children, expected %" PRId64,
                        schema->format, schema->n_children, n_children);
    }
    return EST_OK;
}

/* A type that is not nested and not a dictionary. */
static est_status parse_leaf(const struct ArrowSchema *schema, est_arrow_type *out)
{
    EST_TRY(check_schema(schema, -1));
    if (!parse_plain(schema->format, out)) {
        if (!begins_with(schema->format, "w:")) return unknown_format(schema->format);
        *out = (est_arrow_type){ .kind = EST_ARROW_FIXED_STRING, .dtype = EST_STRING, .count = 1 };
        EST_TRY(parse_size(schema->format + 2, out));
    }
    return check_schema(schema, 0);
}

static est_status parse_dictionary(est_arena *arena, const struct ArrowSchema *schema, est_arrow_type *out)
{
    est_arrow_type *entries = est_arena_alloc(arena, sizeof *entries);

    if (entries == NULL) return est_no_memory();
    EST_TRY(parse_leaf(schema, out));
    if (out->kind != EST_ARROW_NUMBER || out->number >= EST_ARROW_F16) {
        return est_fail(EST_INVALID_ARGUMENT, "the indices of its dictionary are \"%.40s\", expected integers",
                        schema->format);
    }
    EST_TRY(parse_leaf(schema->dictionary, entries));
    if (schema->dictionary->dictionary != NULL) {
        return est_fail(EST_UNIMPLEMENTED, "the entries of its dictionary have a dictionary");
    }
    out->dictionary = entries;
    out->dtype      = entries->dtype;
    return EST_OK;
}

/* Lists may only be outermost; `shape` gets a dimension for each fixed-size list. */
static est_status parse_type(est_arena *arena, const struct ArrowSchema *schema, bool outermost, est_shape *shape,
                             est_arrow_type *out)
{
    bool list, fixed;

    EST_TRY(check_schema(schema, -1));
    if (schema->dictionary != NULL) return parse_dictionary(arena, schema, out);
    list  = strcmp(schema->format, "+l") == 0 || strcmp(schema->format, "+L") == 0;
    fixed = begins_with(schema->format, "+w:");
    if (!list && !fixed) return parse_leaf(schema, out);
    if (list && !outermost) return est_fail(EST_UNIMPLEMENTED, "its type is a list within a list; flatten it");
    if (shape->rank == EST_RANK_MAX - 1) {
        return est_fail(EST_UNIMPLEMENTED, "its type has more than %d nested lists", shape->rank);
    }
    EST_TRY(check_schema(schema, 1));
    *out      = (est_arrow_type){ .kind  = list ? EST_ARROW_LIST : EST_ARROW_FIXED_LIST,
                                  .large = schema->format[1] == 'L',
                                  .size  = -1 };
    out->item = est_arena_alloc(arena, sizeof *out->item);
    if (out->item == NULL) return est_no_memory();
    if (fixed) EST_TRY(parse_size(schema->format + 3, out));
    shape->dim[shape->rank++] = out->size;
    EST_TRY(parse_type(arena, schema->children[0], false, shape, out->item));
    out->dtype = out->item->dtype;
    if (__builtin_mul_overflow(out->item->count, fixed ? out->size : 1, &out->count)) {
        return est_fail(EST_INVALID_ARGUMENT, "its fixed-size lists have more items than memory");
    }
    return EST_OK;
}

est_status est_arrow_column_init(est_arena *arena, const struct ArrowSchema *schema, est_arrow_column *out)
{
    est_shape  shape = EST_SHAPE_SCALAR;
    est_status status;

    *out = (est_arrow_column){ .name = "" };
    if (schema != NULL && schema->release != NULL && schema->name != NULL) {
        out->name = est_arena_strdup(arena, schema->name);
        if (out->name == NULL) return est_no_memory();
    }
    status = parse_type(arena, schema, true, &shape, &out->type);
    if (status != EST_OK) return est_fail_context(status, "column \"%s\"", out->name);
    out->component = (est_component){ .name = out->name, .dtype = out->type.dtype, .shape = shape };
    return EST_OK;
}

/* The nodes of a type that can have a dictionary are a chain. */
void est_arrow_column_clear(est_arrow_column *column)
{
    for (est_arrow_type *type = &column->type; type != NULL; type = type->item) {
        est_free(type->entries);
        type->entries = NULL;
    }
}

/* --- the value of nulls ------------------------------------------------------------------------------------------- */

static void set_missing(est_arrow_column *column)
{
    column->has_fill = true;
    switch (column->type.dtype) {
    case EST_F32: column->fill.f32 = NAN; break;
    case EST_F64: column->fill.f64 = NAN; break;
    case EST_I32: column->fill.i32 = -1; break;
    case EST_I64: column->fill.i64 = -1; break;
    case EST_STRING: column->fill.str = (est_str){ "", 0 }; break;
    default: column->has_fill = false; break;
    }
}

static bool parse_fill(est_arrow_column *column, const char *text)
{
    size_t  n = strlen(text);
    int32_t small;

    switch (column->type.dtype) {
    case EST_F32: return est_number_f32(text, n, &column->fill.f32) == EST_NUMBER_OK;
    case EST_F64: return est_number_f64(text, n, &column->fill.f64) == EST_NUMBER_OK;
    case EST_I32: return est_number_i32(text, n, &column->fill.i32) == EST_NUMBER_OK;
    case EST_I64: return est_number_i64(text, n, &column->fill.i64) == EST_NUMBER_OK;
    case EST_U8:
        if (est_number_i32(text, n, &small) != EST_NUMBER_OK || small < 0 || small > UINT8_MAX) return false;
        column->fill.u8 = (uint8_t)small;
        return true;
    case EST_BOOL:
        column->fill.u8 = strcmp(text, "true") == 0;
        return column->fill.u8 != 0 || strcmp(text, "false") == 0;
    default: column->fill.str = (est_str){ text, n }; return true;
    }
}

est_status est_arrow_column_set_nulls(est_arrow_column *column, est_arrow_nulls nulls, const char *text)
{
    if (text == NULL) {
        column->null_list = nulls == EST_ARROW_MISSING;
        if (nulls == EST_ARROW_MISSING) set_missing(column);
        return EST_OK;
    }
    if (!parse_fill(column, text)) {
        return est_fail(EST_INVALID_ARGUMENT, "column \"%s\": the default \"%.40s\" is no %s value", column->name, text,
                        est_dtype_name(column->type.dtype));
    }
    column->has_fill = column->null_list = true;
    return EST_OK;
}

/* --- arrays: checks ----------------------------------------------------------------------------------------------- */

static int64_t load_offset(const struct ArrowArray *array, bool large, int64_t i)
{
    const char *offsets = array->buffers[1];
    int64_t     wide;
    int32_t     narrow;

    i += array->offset;
    if (large) {
        memcpy(&wide, offsets + i * 8, 8);
        return wide;
    }
    memcpy(&narrow, offsets + i * 4, 4);
    return narrow;
}

static bool is_null(const struct ArrowArray *array, int64_t i)
{
    const uint8_t *valid = array->buffers[0];

    if (valid == NULL || array->null_count == 0) return false;
    i += array->offset;
    return ((valid[i / 8] >> (i % 8)) & 1) == 0;
}

bool est_arrow_has_nulls(const struct ArrowArray *array, int64_t first, int64_t n)
{
    const uint8_t *valid = array->n_buffers > 0 && array->buffers != NULL ? array->buffers[0] : NULL;

    if (valid == NULL || array->null_count == 0) return false;
    for (int64_t i = first; i < first + n; i++) {
        while ((array->offset + i) % 8 == 0 && i + 8 <= first + n && valid[(array->offset + i) / 8] == 0xff) i += 8;
        if (i < first + n && is_null(array, i)) return true;
    }
    return false;
}

/* Numbers that no type excuses; `need` elements must be there. */
static est_status check_lengths(const struct ArrowArray *array, int64_t need)
{
    int64_t end;

    if (array == NULL) return est_fail(EST_INVALID_ARGUMENT, "its array is missing");
    if (array->length < 0 || array->offset < 0 || __builtin_add_overflow(array->length, array->offset, &end) ||
        end > INT64_MAX / 16) {
        return est_fail(EST_INVALID_ARGUMENT, "its array has length %" PRId64 " and offset %" PRId64, array->length,
                        array->offset);
    }
    if (array->length < need) {
        return est_fail(EST_INVALID_ARGUMENT, "its array has length %" PRId64 ", expected at least %" PRId64,
                        array->length, need);
    }
    if (array->null_count < -1 || array->null_count > array->length) {
        return est_fail(EST_INVALID_ARGUMENT, "its array has %" PRId64 " nulls among %" PRId64 " values",
                        array->null_count, array->length);
    }
    return EST_OK;
}

static est_status check_buffers(const est_arrow_type *type, const struct ArrowArray *array)
{
    static const int n_buffers[] = {
        [EST_ARROW_NUMBER] = 2,       [EST_ARROW_BOOL] = 2, [EST_ARROW_STRING] = 3,     [EST_ARROW_VIEW] = 3,
        [EST_ARROW_FIXED_STRING] = 2, [EST_ARROW_LIST] = 2, [EST_ARROW_FIXED_LIST] = 1,
    };
    int want = n_buffers[type->kind];

    if (array->n_buffers < want || (array->n_buffers > want && type->kind != EST_ARROW_VIEW) ||
        array->buffers == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "its array has %" PRId64 " buffers, expected %d",
                        array->buffers != NULL ? array->n_buffers : 0, want);
    }
    if (array->null_count > 0 && array->buffers[0] == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "its array has %" PRId64 " nulls and no validity buffer",
                        array->null_count);
    }
    if (want > 1 && array->length > 0 && array->buffers[1] == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "its array has length %" PRId64 " and no buffer of %s", array->length,
                        type->kind == EST_ARROW_STRING || type->kind == EST_ARROW_LIST ? "offsets" : "values");
    }
    return EST_OK;
}

/* Where the bytes of a string array end, which its offsets must not exceed. */
static est_status check_string(const est_arrow_type *type, const struct ArrowArray *array)
{
    int64_t end;

    if (array->length == 0) return EST_OK;
    end = load_offset(array, type->large, array->length);
    if (end < 0 || (end > 0 && array->buffers[2] == NULL)) {
        return est_fail(EST_INVALID_ARGUMENT, "its last offset is %" PRId64 "%s", end,
                        end < 0 ? "" : ", and it has no buffer of bytes");
    }
    return EST_OK;
}

/* So that places in it can be computed. */
static est_status check_fixed_string(const est_arrow_type *type, const struct ArrowArray *array)
{
    int64_t bytes;

    if (!__builtin_mul_overflow(array->offset + array->length, type->size, &bytes)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "its array has %" PRId64 " strings of %" PRId64 " bytes", array->length,
                    type->size);
}

static est_status check_view(const struct ArrowArray *array)
{
    if (array->n_buffers > 3 && array->buffers[array->n_buffers - 1] == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "its array has %" PRId64 " buffers of bytes and none of their sizes",
                        array->n_buffers - 3);
    }
    return EST_OK;
}

static est_status begin_array(const est_arrow_column *column, est_arrow_type *type, const struct ArrowArray *array,
                              int64_t need);
static est_status decode_dictionary(const est_arrow_column *column, est_arrow_type *type,
                                    const struct ArrowArray *array);

static est_status begin_children(const est_arrow_column *column, est_arrow_type *type, const struct ArrowArray *array)
{
    int64_t    want = type->item != NULL ? 1 : 0;
    int64_t    need = 0;
    est_status status;

    if (array->n_children != want || (want > 0 && array->children == NULL)) {
        return est_fail(EST_INVALID_ARGUMENT, "its array has %" PRId64 " children, expected %" PRId64,
                        array->n_children, want);
    }
    if (want == 0) return EST_OK;
    if (type->kind == EST_ARROW_FIXED_LIST &&
        __builtin_mul_overflow(array->offset + array->length, type->size, &need)) {
        return est_fail(EST_INVALID_ARGUMENT, "its array has %" PRId64 " lists of %" PRId64 " items", array->length,
                        type->size);
    }
    status = begin_array(column, type->item, array->children[0], need);
    return status == EST_OK ? EST_OK : est_fail_context(status, "the items of its lists");
}

static est_status begin_array(const est_arrow_column *column, est_arrow_type *type, const struct ArrowArray *array,
                              int64_t need)
{
    EST_TRY(check_lengths(array, need));
    EST_TRY(check_buffers(type, array));
    if (type->kind == EST_ARROW_STRING) EST_TRY(check_string(type, array));
    if (type->kind == EST_ARROW_VIEW) EST_TRY(check_view(array));
    if (type->kind == EST_ARROW_FIXED_STRING) EST_TRY(check_fixed_string(type, array));
    EST_TRY(begin_children(column, type, array));
    if ((array->dictionary != NULL) != (type->dictionary != NULL)) {
        return est_fail(EST_INVALID_ARGUMENT, "its array %s a dictionary, unlike its type",
                        array->dictionary != NULL ? "has" : "does not have");
    }
    return type->dictionary != NULL ? decode_dictionary(column, type, array->dictionary) : EST_OK;
}

est_status est_arrow_column_begin(est_arrow_column *column, const struct ArrowArray *array, int64_t rows)
{
    est_status status = begin_array(column, &column->type, array, rows);

    return status == EST_OK ? EST_OK : est_fail_context(status, "column \"%s\"", column->name);
}

/* --- arrays: values ----------------------------------------------------------------------------------------------- */

/* A conversion. The first value that cannot be converted ends it. */
typedef struct reader {
    const est_arrow_column *column;
    bool                    skip_nulls; /* leave what they are undefined */
    const char             *why;
    int64_t                 at; /* number of the bad value among those of the current call */
} reader;

static bool bad(reader *r, int64_t at, const char *why)
{
    r->at  = at;
    r->why = why;
    return false;
}

static bool put_null(reader *r, int64_t i, void *out)
{
    size_t size = est_dtype_size(r->column->type.dtype);

    if (r->skip_nulls) return true;
    if (!r->column->has_fill) {
        return bad(r, i,
                   r->column->null_list ? "null, and the type has no value for missing ones; give the column a default"
                                        : "null; give the column a default, or take nulls as missing values");
    }
    memcpy((char *)out + (size_t)i * size, &r->column->fill, size);
    return true;
}

/* Replaces nulls by their value. */
static bool put_nulls(reader *r, const struct ArrowArray *array, int64_t first, int64_t n, void *out)
{
    if (!est_arrow_has_nulls(array, first, n)) return true;
    for (int64_t i = 0; i < n; i++) {
        if (is_null(array, first + i) && !put_null(r, i, out)) return false;
    }
    return true;
}

/* IEEE 754 binary16. */
static float half_to_float(uint16_t half)
{
    int   exponent = (half >> 10) & 31;
    float fraction = (float)(half & 1023);
    float value;

    if (exponent == 31) {
        value = fraction == 0 ? INFINITY : NAN;
    } else if (exponent == 0) {
        value = ldexpf(fraction, -24);
    } else {
        value = ldexpf(fraction + 1024, exponent - 25);
    }
    return (half & 0x8000) != 0 ? -value : value;
}

#define CONVERT(from_type, to_type, convert)                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        from_type value;                                                                                               \
                                                                                                                       \
        memcpy(&value, from + (size_t)i * sizeof value, sizeof value);                                                 \
        ((to_type *)out)[i] = (to_type)convert(value);                                                                 \
    }                                                                                                                  \
    break

/* Numbers as the type of their column, nulls and all. */
static void convert_numbers(est_arrow_number number, const char *from, int64_t n, void *out)
{
    switch (number) {
    case EST_ARROW_I8: CONVERT(int8_t, int32_t, );
    case EST_ARROW_I16: CONVERT(int16_t, int32_t, );
    case EST_ARROW_U16: CONVERT(uint16_t, int32_t, );
    case EST_ARROW_U32: CONVERT(uint32_t, int64_t, );
    case EST_ARROW_F16: CONVERT(uint16_t, float, half_to_float);
    default: memcpy(out, from, (size_t)n * number_size[number]); break;
    }
}

static const char *number_at(const est_arrow_type *type, const struct ArrowArray *array, int64_t i)
{
    return (const char *)array->buffers[1] + (size_t)(array->offset + i) * number_size[type->number];
}

static bool read_numbers(reader *r, const est_arrow_type *type, const struct ArrowArray *array, int64_t first,
                         int64_t n, void *out)
{
    convert_numbers(type->number, number_at(type, array, first), n, out);
    for (int64_t i = 0; i < n && type->number == EST_ARROW_U64; i++) {
        if (((int64_t *)out)[i] < 0 && !is_null(array, first + i))
            return bad(r, i, "above 2^63 - 1, the largest int64");
    }
    return put_nulls(r, array, first, n, out);
}

static bool read_bools(reader *r, const struct ArrowArray *array, int64_t first, int64_t n, void *out)
{
    const uint8_t *bits = array->buffers[1];
    uint8_t       *to   = out;

    for (int64_t i = 0; i < n; i++) {
        int64_t at = array->offset + first + i;

        to[i] = (bits[at / 8] >> (at % 8)) & 1;
    }
    return put_nulls(r, array, first, n, out);
}

static bool read_strings(reader *r, const est_arrow_type *type, const struct ArrowArray *array, int64_t first,
                         int64_t n, void *out)
{
    const char *bytes = array->buffers[2];
    est_str    *to    = out;
    int64_t     end   = load_offset(array, type->large, array->length);
    int64_t     at    = load_offset(array, type->large, first);

    for (int64_t i = 0; i < n; i++) {
        int64_t next = load_offset(array, type->large, first + i + 1);

        if (at < 0 || next < at || next > end) return bad(r, i, "its offsets are not in order");
        to[i] = next > at ? (est_str){ bytes + at, (size_t)(next - at) } : (est_str){ "", 0 };
        at    = next;
    }
    return put_nulls(r, array, first, n, out);
}

static bool read_fixed_strings(reader *r, const est_arrow_type *type, const struct ArrowArray *array, int64_t first,
                               int64_t n, void *out)
{
    const char *bytes = (const char *)array->buffers[1] + (array->offset + first) * type->size;
    est_str    *to    = out;

    for (int64_t i = 0; i < n; i++) to[i] = (est_str){ bytes + i * type->size, (size_t)type->size };
    return put_nulls(r, array, first, n, out);
}

/* The string of one view; false: it points nowhere. */
static bool read_view(const struct ArrowArray *array, const char *view, est_str *out)
{
    int32_t size, buffer, offset;
    int64_t bytes;

    memcpy(&size, view, 4);
    if (size < 0) return false;
    if (size <= 12) {
        *out = (est_str){ view + 4, (size_t)size };
        return true;
    }
    memcpy(&buffer, view + 8, 4);
    memcpy(&offset, view + 12, 4);
    if (buffer < 0 || buffer >= array->n_buffers - 3 || array->buffers[2 + buffer] == NULL) return false;
    memcpy(&bytes, (const char *)array->buffers[array->n_buffers - 1] + (size_t)buffer * 8, 8);
    if (offset < 0 || bytes < 0 || (int64_t)offset + size > bytes) return false;
    *out = (est_str){ (const char *)array->buffers[2 + buffer] + offset, (size_t)size };
    return true;
}

static bool read_views(reader *r, const struct ArrowArray *array, int64_t first, int64_t n, void *out)
{
    const char *views = (const char *)array->buffers[1] + (array->offset + first) * 16;
    est_str    *to    = out;

    for (int64_t i = 0; i < n; i++) {
        if (is_null(array, first + i)) { /* the bytes of its view mean nothing */
            to[i] = (est_str){ "", 0 };
            if (!put_null(r, i, out)) return false;
        } else if (!read_view(array, views + i * 16, &to[i])) {
            return bad(r, i, "its string view is outside of its buffers");
        }
    }
    return true;
}

/* An index into a dictionary; -1: none that it can have. */
static int64_t load_index(const est_arrow_type *type, const struct ArrowArray *array, int64_t i)
{
    const char *from = number_at(type, array, i);
    int64_t     wide = 0;
    int32_t     narrow;

    if (type->number == EST_ARROW_U8) return (uint8_t)*from;
    if (type->number == EST_ARROW_U32 || type->number == EST_ARROW_I64 || type->number == EST_ARROW_U64) {
        convert_numbers(type->number, from, 1, &wide);
        return wide;
    }
    convert_numbers(type->number, from, 1, &narrow);
    return narrow;
}

static bool read_dictionary(reader *r, const est_arrow_type *type, const struct ArrowArray *array, int64_t first,
                            int64_t n, void *out)
{
    const struct ArrowArray *entries = array->dictionary;
    size_t                   size    = est_dtype_size(type->dtype);

    for (int64_t i = 0; i < n; i++) {
        int64_t index = is_null(array, first + i) ? -1 : load_index(type, array, first + i);

        if (is_null(array, first + i) || (index >= 0 && index < entries->length && is_null(entries, index))) {
            if (!put_null(r, i, out)) return false;
        } else if (index < 0 || index >= entries->length) {
            return bad(r, i, "its index is not in the dictionary");
        } else {
            memcpy((char *)out + (size_t)i * size, (const char *)type->entries + (size_t)index * size, size);
        }
    }
    return true;
}

static bool read_values(reader *r, const est_arrow_type *type, const struct ArrowArray *array, int64_t first, int64_t n,
                        void *out);

static bool read_fixed_list(reader *r, const est_arrow_type *type, const struct ArrowArray *array, int64_t first,
                            int64_t n, char *out)
{
    size_t  row  = (size_t)type->count * est_dtype_size(type->dtype);
    int64_t from = (array->offset + first) * type->size;

    if (!est_arrow_has_nulls(array, first, n)) {
        if (read_values(r, type->item, array->children[0], from, n * type->size, out)) return true;
        r->at /= type->size;
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        bool ok = true;

        if (is_null(array, first + i)) {
            for (int64_t k = 0; k < type->count && ok; k++) ok = put_null(r, k, out + (size_t)i * row);
        } else {
            ok = read_values(r, type->item, array->children[0], from + i * type->size, type->size,
                             out + (size_t)i * row);
        }
        if (!ok) {
            r->at = i;
            return false;
        }
    }
    return true;
}

/* Values [first, first + n) of an array, all there; strings borrow the bytes of the array. */
static bool read_values(reader *r, const est_arrow_type *type, const struct ArrowArray *array, int64_t first, int64_t n,
                        void *out)
{
    if (n == 0) return true;
    if (type->dictionary != NULL) return read_dictionary(r, type, array, first, n, out);
    switch (type->kind) {
    case EST_ARROW_NUMBER: return read_numbers(r, type, array, first, n, out);
    case EST_ARROW_BOOL: return read_bools(r, array, first, n, out);
    case EST_ARROW_STRING: return read_strings(r, type, array, first, n, out);
    case EST_ARROW_VIEW: return read_views(r, array, first, n, out);
    case EST_ARROW_FIXED_STRING: return read_fixed_strings(r, type, array, first, n, out);
    default: return read_fixed_list(r, type, array, first, n, out);
    }
}

static est_status decode_dictionary(const est_arrow_column *column, est_arrow_type *type,
                                    const struct ArrowArray *array)
{
    reader     r      = { .column = column, .skip_nulls = true };
    est_status status = begin_array(column, type->dictionary, array, 0);
    size_t     bytes;

    est_free(type->entries);
    type->entries = NULL;
    if (status != EST_OK) return est_fail_context(status, "its dictionary");
    if (__builtin_mul_overflow((size_t)array->length, est_dtype_size(type->dtype), &bytes)) return est_no_memory();
    if (bytes == 0) return EST_OK;
    type->entries = est_zalloc(bytes);
    if (type->entries == NULL) return est_no_memory();
    if (read_values(&r, type->dictionary, array, 0, array->length, type->entries)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "entry %" PRId64 " of its dictionary: %s", r.at, r.why);
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

/* The values where they are, if a tensor can have them so; NULL: it cannot. */
static const char *view_of(const est_arrow_type *type, const struct ArrowArray *array, int64_t first, int64_t n)
{
    const char *data;

    if (n == 0 || est_arrow_has_nulls(array, first, n)) return NULL;
    if (type->kind == EST_ARROW_FIXED_LIST) {
        return view_of(type->item, array->children[0], (array->offset + first) * type->size, n * type->size);
    }
    if (type->kind != EST_ARROW_NUMBER || type->dictionary != NULL) return NULL;
    if (type->number == EST_ARROW_U64 || type->number == EST_ARROW_F16) return NULL;
    if (number_size[type->number] != est_dtype_size(type->dtype)) return NULL;
    data = number_at(type, array, first);
    return (uintptr_t)data % number_size[type->number] == 0 ? data : NULL;
}

/* A tensor of `n` values and the dimensions of one; not filled when they had to be copied. */
static est_status make_tensor(const est_arrow_column *column, int64_t n, const char *view, est_arrow_chunk *chunk,
                              est_tensor **out)
{
    const est_shape *row   = &column->component.shape;
    bool             list  = column->type.kind == EST_ARROW_LIST;
    est_shape        shape = { .rank = row->rank + !list, .dim = { n } };

    for (int i = 1; i < shape.rank; i++) shape.dim[i] = row->dim[i - !list];
    if (view == NULL) return est_tensor_create(column->type.dtype, shape, out);
    EST_TRY(est_tensor_wrap(column->type.dtype, shape, (void *)(uintptr_t)view, release_chunk, chunk, out));
    est_refcount_add(&chunk->refs);
    return EST_OK;
}

static est_status fail_row(const reader *r, int64_t row)
{
    return est_fail(EST_INVALID_ARGUMENT, "column \"%s\", row %" PRId64 ": %s", r->column->name, row, r->why);
}

static est_status own_strings(est_tensor *tensor)
{
    return est_tensor_dtype(tensor) == EST_STRING ? est_tensor_own_strings(tensor) : EST_OK;
}

static est_status read_dense(const est_arrow_column *column, const struct ArrowArray *array, est_arrow_chunk *chunk,
                             int64_t first, int64_t n, int64_t row_base, est_field *out)
{
    reader      r    = { .column = column };
    const char *view = view_of(&column->type, array, first, n);

    EST_TRY(make_tensor(column, n, view, chunk, &out->values));
    if (view != NULL) return EST_OK;
    if (!read_values(&r, &column->type, array, first, n, est_tensor_mutable_data(out->values))) {
        return fail_row(&r, row_base + first + r.at);
    }
    return own_strings(out->values);
}

/* The splits of rows, and in *skips whether the items of some null rows must be left out. */
static est_status read_splits(reader *r, const struct ArrowArray *array, int64_t first, int64_t n, int64_t row_base,
                              est_tensor **out, bool *skips)
{
    const est_arrow_type *type  = &r->column->type;
    int64_t               items = array->children[0]->length;
    int64_t               at    = n > 0 ? load_offset(array, type->large, first) : 0;
    int64_t              *splits;

    EST_TRY(est_tensor_create(EST_I64, EST_SHAPE(n + 1), out));
    splits    = est_tensor_mutable_data(*out);
    splits[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t next = load_offset(array, type->large, first + i + 1);
        bool    null = is_null(array, first + i);

        if (at < 0 || next < at || next > items) {
            (void)bad(r, i, "the offsets of its list are not in order, or beyond the items");
        } else if (null && !r->column->null_list) {
            (void)bad(r, i, "null; give the column a default, or take nulls as missing values");
        }
        if (r->why != NULL) return fail_row(r, row_base + first + i);
        splits[i + 1] = splits[i] + (null ? 0 : next - at);
        if (null && next > at) *skips = true;
        at = next;
    }
    return EST_OK;
}

/* The items of lists, row by row: those of null rows are left out. */
static bool read_list_rows(reader *r, const struct ArrowArray *array, int64_t first, const int64_t *splits, int64_t n,
                           char *out)
{
    const est_arrow_type *type = &r->column->type;
    size_t                size = (size_t)type->count * est_dtype_size(type->dtype);

    for (int64_t i = 0; i < n; i++) {
        int64_t from = load_offset(array, type->large, first + i);

        if (!read_values(r, type->item, array->children[0], from, splits[i + 1] - splits[i],
                         out + (size_t)splits[i] * size)) {
            r->at = i;
            return false;
        }
    }
    return true;
}

static est_status read_list(const est_arrow_column *column, const struct ArrowArray *array, est_arrow_chunk *chunk,
                            int64_t first, int64_t n, int64_t row_base, est_field *out)
{
    reader         r     = { .column = column };
    bool           skips = false;
    const char    *view  = NULL;
    const int64_t *splits;

    EST_TRY(read_splits(&r, array, first, n, row_base, &out->splits, &skips));
    splits = est_tensor_data(out->splits);
    if (n > 0 && !skips) {
        view = view_of(column->type.item, array->children[0], load_offset(array, column->type.large, first), splits[n]);
    }
    EST_TRY(make_tensor(column, splits[n], view, chunk, &out->values));
    if (view != NULL) return EST_OK;
    if (!read_list_rows(&r, array, first, splits, n, est_tensor_mutable_data(out->values))) {
        return fail_row(&r, row_base + first + r.at);
    }
    return own_strings(out->values);
}

est_status est_arrow_column_read(const est_arrow_column *column, est_arrow_chunk *chunk, int64_t first, int64_t n,
                                 int64_t row_base, est_field *out)
{
    const struct ArrowArray *array = chunk->array.children[column->child];
    est_status               status;

    first += chunk->array.offset;
    row_base -= chunk->array.offset;
    status = column->type.kind == EST_ARROW_LIST ? read_list(column, array, chunk, first, n, row_base, out)
                                                 : read_dense(column, array, chunk, first, n, row_base, out);
    if (status != EST_OK) est_element_clear(out, 1);
    return status;
}
