/* SPDX-License-Identifier: Apache-2.0
 *
 * One wanted feature over a batch. `splits` says for every row but fixed ones how many items lie before it; an item is
 * a value, or a group of `count` values (a step, a padded row's unit). */
#include "format/feature_output.h"

#include "base/alloc.h"

#define LONG_STRING 256 /* bytes on average from which strings are copied one by one, to copy them only once */

/* Fails for this feature of this example. */
#define fail_row(o, row, fmt, ...)                                                                                     \
    est_fail(EST_INVALID_ARGUMENT, "feature \"%s\" of example %zu: " fmt, (o)->name, (size_t)(row), __VA_ARGS__)

/* Whether every example gives exactly one `shape` of values. */
static bool is_fixed(const est_feature_output *o)
{
    return o->rows == EST_ROWS_FIXED && !o->is_list;
}

/* --- the spec ----------------------------------------------------------------------------------------------------- */

/* A default of as many elements as needed: the given ones, or the one given repeated. */
static est_status copy_default(est_feature_output *o, const est_tensor *value, size_t count)
{
    size_t      given = (size_t)est_tensor_count(value), size = o->size;
    est_tensor *fill;

    if (est_tensor_dtype(value) != o->dtype) {
        return est_fail(EST_INVALID_ARGUMENT, "feature \"%s\": the default is %s, the feature %s", o->name,
                        est_dtype_name(est_tensor_dtype(value)), est_dtype_name(o->dtype));
    }
    if (given != 1 && (o->rows == EST_ROWS_PADDED || given != count)) {
        return est_fail(EST_INVALID_ARGUMENT, "feature \"%s\": the default has %zu values, expected %s%zu", o->name,
                        given, o->rows == EST_ROWS_PADDED ? "" : "1 or ",
                        o->rows == EST_ROWS_PADDED ? (size_t)1 : count);
    }
    EST_TRY(est_tensor_create(o->dtype, EST_SHAPE((int64_t)count), &fill));
    o->fill = fill;
    for (size_t i = 0; i < count; i++) {
        const char *from = (const char *)est_tensor_data(value) + (given == 1 ? 0 : i) * size;

        if (o->dtype == EST_STRING) {
            const est_str *text = (const est_str *)(const void *)from;

            EST_TRY(est_tensor_set_string(fill, (int64_t)i, text->data, text->size));
        } else {
            memcpy((char *)est_tensor_mutable_data(fill) + i * size, from, size);
        }
    }
    return EST_OK;
}

static est_status check_spec(const est_feature_spec *spec, bool is_list)
{
    char    text[EST_SHAPE_TEXT_MAX];
    int64_t count = est_shape_count(&spec->shape);

    if (spec->name == NULL) return est_fail(EST_INVALID_ARGUMENT, "a feature without a name");
    if (est_feature_kind_of(spec->dtype) == EST_KIND_NONE) {
        return est_fail(EST_INVALID_ARGUMENT, "feature \"%s\": %s is not float32, int64 or string", spec->name,
                        est_dtype_name(spec->dtype));
    }
    if (spec->rows < EST_ROWS_FIXED || spec->rows > EST_ROWS_RAGGED) {
        return est_fail(EST_INVALID_ARGUMENT, "feature \"%s\": .rows is %d, which is not an est_feature_rows",
                        spec->name, (int)spec->rows);
    }
    if (count < 0 || count > INT32_MAX || spec->shape.rank > EST_RANK_MAX - 2) {
        return est_fail(EST_INVALID_ARGUMENT, "feature \"%s\": shape %s is not fully known, or too large", spec->name,
                        est_shape_text(&spec->shape, text));
    }
    if (spec->rows == EST_ROWS_PADDED && count == 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "feature \"%s\": rows of shape %s have no elements, so their number is "
                        "unknown",
                        spec->name, est_shape_text(&spec->shape, text));
    }
    if (spec->default_value != NULL && (spec->rows == EST_ROWS_RAGGED || (is_list && spec->rows == EST_ROWS_FIXED))) {
        return est_fail(EST_INVALID_ARGUMENT, "feature \"%s\": rows of any length have no use for a default",
                        spec->name);
    }
    return EST_OK;
}

est_status est_feature_output_init(est_feature_output *o, const est_feature_spec *spec, bool is_list)
{
    *o = (est_feature_output){ .dtype    = spec->dtype,
                               .kind     = est_feature_kind_of(spec->dtype),
                               .rows     = spec->rows,
                               .shape    = spec->rows == EST_ROWS_RAGGED ? EST_SHAPE_SCALAR : spec->shape,
                               .is_list  = is_list,
                               .required = spec->required };
    EST_TRY(check_spec(spec, is_list));
    o->count  = (size_t)est_shape_count(&o->shape);
    o->size   = est_dtype_size(o->dtype);
    o->is_one = is_fixed(o) && o->count == 1;
    o->is_any = o->rows == EST_ROWS_RAGGED && !is_list;
    o->name   = est_strdup(spec->name);
    if (o->name == NULL) return est_no_memory();
    if (!is_list && spec->rows == EST_ROWS_FIXED && spec->default_value == NULL) o->required = true;
    if (spec->default_value == NULL) return EST_OK;
    return copy_default(o, spec->default_value, o->rows == EST_ROWS_PADDED ? 1 : o->count);
}

void est_feature_output_clear(est_feature_output *o)
{
    est_feature_output_abandon(o);
    est_tensor_free(o->fill);
    est_free(o->values.data);
    est_free(o->step_splits.data);
    est_free(o->row_splits.data);
    est_free(o->name);
    *o = (est_feature_output){ 0 };
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* Room for `bytes` in all; what is there stays. */
static est_status reserve(est_feature_buffer *buffer, size_t bytes)
{
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : 1024;
    void  *data;

    if (bytes <= buffer->capacity) return EST_OK;
    while (capacity < bytes && capacity <= SIZE_MAX / 2) capacity *= 2;
    data = capacity >= bytes ? est_realloc(buffer->data, capacity) : NULL;
    if (data == NULL) return est_no_memory();
    buffer->data     = data;
    buffer->capacity = capacity;
    return EST_OK;
}

/* [outer..., shape...] */
static est_shape shape_under(const est_feature_output *o, est_i64s outer)
{
    est_shape shape = { .rank = outer.n + o->shape.rank };

    for (int i = 0; i < outer.n; i++) shape.dim[i] = outer.data[i];
    for (int i = 0; i < o->shape.rank; i++) shape.dim[outer.n + i] = o->shape.dim[i];
    return shape;
}

static est_status begin_kept(est_feature_output *o, size_t n)
{
    if (is_fixed(o)) {
        size_t bytes;

        if (__builtin_mul_overflow(n, o->count * o->size, &bytes)) return est_no_memory();
        EST_TRY(reserve(&o->values, bytes));
        o->n_values = n * o->count;
        o->next     = o->values.data;
        return EST_OK;
    }
    EST_TRY(reserve(&o->values, 1));
    EST_TRY(reserve(&o->row_splits, (n + 1) * sizeof(int64_t)));
    o->ends  = o->row_splits.data;
    *o->ends = 0;
    o->ends++;
    return EST_OK;
}

est_status est_feature_output_begin(est_feature_output *o, size_t n, bool kept)
{
    o->n_values = o->n_steps = 0;
    if (kept) return begin_kept(o, n);
    if (is_fixed(o)) {
        EST_TRY(est_tensor_create(o->dtype, shape_under(o, EST_I64S((int64_t)n)), &o->fixed));
        o->next = est_tensor_mutable_data(o->fixed);
        return EST_OK;
    }
    EST_TRY(reserve(&o->values, 1));
    EST_TRY(reserve(&o->step_splits, sizeof(int64_t)));
    *(int64_t *)o->step_splits.data = 0;
    EST_TRY(est_tensor_create(EST_I64, EST_SHAPE((int64_t)n + 1), &o->splits));
    o->ends  = est_tensor_mutable_data(o->splits);
    *o->ends = 0;
    o->ends++;
    return EST_OK;
}

void est_feature_output_abandon(est_feature_output *o)
{
    est_tensor_free(o->fixed);
    est_tensor_free(o->splits);
    o->fixed = o->splits = NULL;
}

/* Decodes one Feature, of the right kind or of none (*n is 0 and *missing set). */
static est_status decode(const est_feature_output *o, size_t row, est_str feature, const void *outermost, void *to,
                         size_t room, size_t *n, bool *missing)
{
    est_feature_kind kind;
    est_status       status = est_feature_decode(feature, outermost, o->kind, to, room, &kind, n);

    if (status != EST_OK) return est_fail_context(status, "feature \"%s\" of example %zu", o->name, row);
    *missing = kind == EST_KIND_NONE;
    if (kind == o->kind || *missing) return EST_OK;
    return fail_row(o, row, "holds %s values, expected %s", est_feature_kind_name(kind),
                    est_feature_kind_name(o->kind));
}

static est_status fail_missing(const est_feature_output *o, size_t row)
{
    return fail_row(o, row, "is missing%s", is_fixed(o) ? " and has no default" : ", but required");
}

/* Straight into the tensor. */
static est_status fixed_row(est_feature_output *o, size_t row, const est_str *value, const void *outermost)
{
    size_t row_bytes = o->count * o->size, n = 0;
    char  *to      = o->next;
    bool   missing = true;

    o->next += row_bytes;
    if (value != NULL) EST_TRY(decode(o, row, *value, outermost, to, o->count, &n, &missing));
    if (missing) {
        if (o->fill == NULL) return fail_missing(o, row);
        memcpy(to, est_tensor_data(o->fill), row_bytes); /* strings: the parser keeps their bytes */
        return EST_OK;
    }
    if (n != o->count) return fail_row(o, row, "has %zu values, expected %zu", n, o->count);
    return EST_OK;
}

/* Appends the values of one Feature to the buffer. */
static est_status append(est_feature_output *o, size_t row, est_str feature, const void *outermost, size_t *n,
                         bool *missing)
{
    size_t most = est_feature_values_max(o->kind, feature.size);
    char  *to;

    if ((o->n_values + most) * o->size > o->values.capacity) {
        EST_TRY(reserve(&o->values, (o->n_values + most) * o->size));
    }
    to = (char *)o->values.data + o->n_values * o->size;
    if (most > 0 && est_feature_decode_one(feature, o->kind, to)) {
        *n       = 1;
        *missing = false;
    } else {
        EST_TRY(decode(o, row, feature, outermost, to, most, n, missing));
    }
    o->n_values += *n;
    return EST_OK;
}

static est_status ragged_row(est_feature_output *o, size_t row, const est_str *value, const void *outermost)
{
    size_t n       = 0;
    bool   missing = true;

    if (value != NULL) EST_TRY(append(o, row, *value, outermost, &n, &missing));
    if (missing && o->required) return fail_missing(o, row);
    if (o->rows == EST_ROWS_PADDED && n % o->count != 0) {
        return fail_row(o, row, "has %zu values, expected a multiple of %zu", n, o->count);
    }
    return EST_OK;
}

static est_status list_step(est_feature_output *o, size_t row, est_str feature, const void *outermost)
{
    size_t n;
    bool   missing;

    EST_TRY(append(o, row, feature, outermost, &n, &missing));
    if (o->rows != EST_ROWS_RAGGED) {
        if (n == o->count) return EST_OK;
        return fail_row(o, row, "a step has %zu values, expected %zu", n, o->count);
    }
    EST_TRY(reserve(&o->step_splits, (o->n_steps + 2) * sizeof(int64_t)));
    ((int64_t *)o->step_splits.data)[o->n_steps + 1] = (int64_t)o->n_values;
    return EST_OK;
}

static est_status list_row(est_feature_output *o, size_t row, const est_str *value, const void *outermost)
{
    est_wire_reader r;
    est_wire_field  field;

    if (value == NULL) return o->required ? fail_missing(o, row) : EST_OK;
    est_wire_reader_init(&r, "FeatureList", value->data, value->size);
    if (value->size > 0) r.outermost = outermost;
    while (est_wire_next(&r, &field)) {
        est_str feature;

        if (field.number != EST_FEATURE_LIST_FEATURE) continue;
        feature = est_wire_bytes(&r, &field);
        if (r.status != EST_OK) break;
        EST_TRY(list_step(o, row, feature, outermost));
        o->n_steps++;
    }
    if (r.status == EST_OK) return EST_OK;
    return est_fail_context(r.status, "feature \"%s\" of example %zu", o->name, row);
}

est_status est_feature_output_row(est_feature_output *o, size_t row, const est_str *value, const void *outermost)
{
    if (is_fixed(o)) return fixed_row(o, row, value, outermost);
    if (o->is_list) {
        EST_TRY(list_row(o, row, value, outermost));
        o->ends[row] = (int64_t)o->n_steps;
    } else {
        EST_TRY(ragged_row(o, row, value, outermost));
        o->ends[row] = (int64_t)(o->count == 1 ? o->n_values : o->n_values / o->count); /* divisions are slow */
    }
    return EST_OK;
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

/* Copies borrowed strings into the tensor one by one. */
static est_status own_long_strings(est_tensor *tensor)
{
    const est_str *strings = est_tensor_data(tensor);
    int64_t        n       = est_tensor_count(tensor);

    for (int64_t i = 0; i < n; i++) EST_TRY(est_tensor_set_string(tensor, i, strings[i].data, strings[i].size));
    return EST_OK;
}

/* memcpy where a call would cost more than the bytes: words are seldom longer. */
static inline void copy_word(char *to, const char *from, size_t size)
{
    if (size >= 8 && size <= 16) {
        uint64_t first, last;

        memcpy(&first, from, 8);
        memcpy(&last, from + size - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + size - 8, &last, 8);
    } else {
        memcpy(to, from, size);
    }
}

/* Makes the tensor own the bytes that its elements point to. Many short strings are put together and given to the first
 * element as one; the others then point into that, which the tensor keeps as long as it lives. */
static est_status own_strings(est_tensor *tensor, est_feature_buffer *scratch)
{
    est_str *strings = est_tensor_mutable_data(tensor);
    size_t   n = (size_t)est_tensor_count(tensor), total = 0, first_size;
    char    *to;

    for (size_t i = 0; i < n; i++) total += strings[i].size;
    if (total == 0 || total / n >= LONG_STRING) return own_long_strings(tensor);
    EST_TRY(reserve(scratch, total));
    to = scratch->data;
    for (size_t i = 0; i < n; i++) {
        copy_word(to, strings[i].data, strings[i].size);
        to += strings[i].size;
    }
    first_size = strings[0].size;
    EST_TRY(est_tensor_set_string(tensor, 0, scratch->data, total));
    strings[0].size = first_size;
    for (size_t i = 1; i < n; i++) strings[i].data = strings[i - 1].data + strings[i - 1].size;
    return EST_OK;
}

/* The collected values as a tensor of that shape. */
static est_status values_tensor(const est_feature_output *o, est_shape shape, est_tensor **out)
{
    EST_TRY(est_tensor_create(o->dtype, shape, out));
    if (o->n_values > 0) memcpy(est_tensor_mutable_data(*out), o->values.data, o->n_values * o->size);
    return EST_OK;
}

/* n elements of padding. */
static void put_padding(const est_feature_output *o, char *to, size_t n)
{
    static const est_str empty = { "", 0 };
    size_t               size  = o->size;
    const void          *fill  = o->fill != NULL ? est_tensor_data(o->fill) : o->dtype == EST_STRING ? &empty : NULL;

    if (fill == NULL) {
        memset(to, 0, n * size);
        return;
    }
    for (size_t i = 0; i < n; i++) memcpy(to + i * size, fill, size);
}

static int64_t longest_row(const int64_t *splits, size_t n)
{
    int64_t longest = 0;

    for (size_t i = 0; i < n; i++) {
        if (splits[i + 1] - splits[i] > longest) longest = splits[i + 1] - splits[i];
    }
    return longest;
}

/* Rows of equal length. */
static void put_padded(const est_feature_output *o, const int64_t *splits, size_t n, char *to)
{
    size_t      unit = o->count * o->size, longest = (size_t)longest_row(splits, n);
    const char *from = o->values.data;

    for (size_t i = 0; i < n; i++) {
        size_t have = (size_t)(splits[i + 1] - splits[i]);

        if (have > 0) memcpy(to, from, have * unit);
        put_padding(o, to + have * unit, (longest - have) * o->count);
        from += have * unit;
        to += longest * unit;
    }
}

/* Rows of equal length, and how long each was. */
static est_status finish_padded(const est_feature_output *o, size_t n, est_feature_batch *out)
{
    const int64_t *splits = est_tensor_data(o->splits);
    int64_t       *lengths;

    EST_TRY(est_tensor_create(EST_I64, EST_SHAPE((int64_t)n), &out->lengths));
    lengths = est_tensor_mutable_data(out->lengths);
    for (size_t i = 0; i < n; i++) lengths[i] = splits[i + 1] - splits[i];
    EST_TRY(est_tensor_create(o->dtype, shape_under(o, EST_I64S((int64_t)n, longest_row(splits, n))), &out->values));
    put_padded(o, splits, n, est_tensor_mutable_data(out->values));
    return EST_OK;
}

static est_status finish_ragged(est_feature_output *o, est_feature_batch *out)
{
    int64_t items = o->is_list && o->rows == EST_ROWS_FIXED ? (int64_t)o->n_steps : (int64_t)o->n_values;

    EST_TRY(values_tensor(o, shape_under(o, EST_I64S(items)), &out->values));
    out->splits = o->splits;
    o->splits   = NULL;
    if (!o->is_list || o->rows == EST_ROWS_FIXED) return EST_OK;
    return est_tensor_create_from(EST_I64, EST_SHAPE((int64_t)o->n_steps + 1), o->step_splits.data, &out->step_splits);
}

est_status est_feature_output_finish(est_feature_output *o, size_t n, est_feature_buffer *scratch,
                                     est_feature_batch *out)
{
    if (is_fixed(o)) {
        out->values = o->fixed;
        o->fixed    = NULL;
    } else if (o->rows == EST_ROWS_PADDED) {
        EST_TRY(finish_padded(o, n, out));
    } else {
        EST_TRY(finish_ragged(o, out));
    }
    est_feature_output_abandon(o);
    return o->dtype == EST_STRING ? own_strings(out->values, scratch) : EST_OK;
}

/* --- batches that are kept ---------------------------------------------------------------------------------------- */

const int64_t *est_feature_output_splits(const est_feature_output *o)
{
    return o->row_splits.data;
}

est_shape est_feature_output_shape(const est_feature_output *o, size_t n)
{
    if (is_fixed(o)) return shape_under(o, EST_I64S((int64_t)n));
    if (o->rows == EST_ROWS_RAGGED) return EST_SHAPE((int64_t)o->n_values);
    return shape_under(o, EST_I64S((int64_t)n, longest_row(o->row_splits.data, n)));
}

void est_feature_output_copy(const est_feature_output *o, size_t n, void *to)
{
    if (o->rows == EST_ROWS_PADDED)
        put_padded(o, o->row_splits.data, n, to);
    else if (o->n_values > 0)
        memcpy(to, o->values.data, o->n_values * o->size);
}

est_status est_feature_outputs_own(est_feature_output *outputs, size_t n, est_feature_buffer *bytes)
{
    size_t total = 0;
    char  *to;

    for (size_t i = 0; i < n; i++) {
        const est_str *strings = outputs[i].values.data;

        for (size_t k = 0; outputs[i].dtype == EST_STRING && k < outputs[i].n_values; k++) total += strings[k].size;
    }
    EST_TRY(reserve(bytes, total));
    to = bytes->data;
    for (size_t i = 0; i < n; i++) {
        est_str *strings = outputs[i].values.data;

        for (size_t k = 0; outputs[i].dtype == EST_STRING && k < outputs[i].n_values; k++) {
            if (strings[k].size == 0) {
                strings[k].data = "";
                continue;
            }
            copy_word(to, strings[k].data, strings[k].size);
            strings[k].data = to;
            to += strings[k].size;
        }
    }
    return EST_OK;
}
