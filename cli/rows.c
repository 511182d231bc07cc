/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows as Examples. Those of text are parsed by the same specs as files of Examples, so defaults and missing values
 * mean the same; only that a row is whole is checked here, where its line is known. */
#include "rows.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "command.h"
#include "format/csv.h"
#include "format/number.h"
#include "predict/rows.h"
#include "tensor/tensor.h"

#define SHOWN_MAX        40  /* characters of a bad value in a message */
#define HEADER_SHOWN_MAX 300 /* and of a header */

static int64_t count_of(const est_feature_spec *spec)
{
    int64_t n = 1;

    for (int i = 0; i < spec->shape.rank; i++) n *= spec->shape.dim[i];
    return n;
}

/* A row without the feature, or with no value of it. */
static est_status miss(const est_feature_spec *spec)
{
    if (spec->rows != EST_ROWS_FIXED || spec->default_value != NULL) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "\"%s\" is missing and has no default", spec->name);
}

static est_status refuse(const est_feature_spec *spec, est_dtype target, est_str text)
{
    return est_fail(EST_INVALID_ARGUMENT, "\"%s\" is \"%.*s%s\"; expected %s", spec->name,
                    (int)(text.size < SHOWN_MAX ? text.size : SHOWN_MAX), text.data, text.size > SHOWN_MAX ? "..." : "",
                    target == EST_BOOL       ? "true or false"
                    : spec->dtype == EST_I64 ? "a whole number"
                                             : "a number");
}

/* The weight that a field has the values of; NULL: it is a feature. */
static const job_weight *weight_of(const tool_rows *r, const char *name)
{
    return r->options.runner != NULL ? job_weight_of(r->options.runner, name) : NULL;
}

static const est_component *input_of(const tool_rows *r, const est_feature_spec *spec)
{
    const est_component *inputs = r->options.inputs.data;

    while (strcmp(inputs->name, spec->name) != 0) inputs++;
    return inputs;
}

/* The type of the numbers that the model gets. */
static est_dtype target_of(const tool_rows *r, const est_feature_spec *spec)
{
    return r->options.parses ? spec->dtype : input_of(r, spec)->dtype;
}

/* Whole numbers of rows are int64; those of the input may be less. */
static est_status check_fits(const char *name, int64_t number, est_dtype dtype)
{
    bool fits = dtype == EST_I32  ? number == (int32_t)number
                : dtype == EST_U8 ? number == (uint8_t)number
                                  : dtype != EST_BOOL || number == 0 || number == 1;

    if (fits) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "\"%s\" is %" PRId64 ", which is no %s", name, number, est_dtype_name(dtype));
}

static est_status no_weight(const job_weight *weight)
{
    return est_fail(EST_INVALID_ARGUMENT, "\"%s\" has no weight; write one in \"%s\", or remove both",
                    weight->fields.data[0], weight->name);
}

/* --- CSV ---------------------------------------------------------------------------------------------------------- */

static est_status split(tool_rows *r, est_str line, size_t *n)
{
    const est_csv_options *csv = &r->csv;

    if (r->scratch != NULL) est_arena_free(r->scratch);
    r->scratch = NULL;
    for (;;) {
        est_str *more;

        EST_TRY(est_csv_split(line, csv->delimiter, !csv->no_quotes, csv->trim, &r->scratch, r->fields,
                              r->n_room_fields, n));
        if (*n <= r->n_room_fields) return EST_OK;
        more = est_realloc(r->fields, *n * sizeof *more);
        if (more == NULL) return est_no_memory();
        r->fields        = more;
        r->n_room_fields = *n;
    }
}

est_status tool_rows_split(tool_rows *rows, est_str line, const est_str **fields, size_t *n)
{
    EST_TRY(split(rows, line, n));
    *fields = rows->fields;
    return EST_OK;
}

static bool is_text(est_str a, const char *b)
{
    return b != NULL && a.size == strlen(b) && memcmp(a.data, b, a.size) == 0;
}

static est_status copy_names(tool_rows *r, const est_str *names, size_t n)
{
    r->names = est_zalloc((n + 1) * sizeof *r->names);
    if (r->names == NULL) return est_no_memory();
    for (r->n_names = 0; r->n_names < n; r->n_names++) {
        char *copy = est_alloc(names[r->n_names].size + 1);

        if (copy == NULL) return est_no_memory();
        if (names[r->n_names].size > 0) memcpy(copy, names[r->n_names].data, names[r->n_names].size);
        r->names[r->n_names] = (est_str){ copy, names[r->n_names].size };
    }
    return EST_OK;
}

/* Finds the features among the fields; fields without a feature are ignored. */
static est_status bind_fields(tool_rows *r, const est_str *names, size_t n)
{
    for (int i = 0; i < r->n; i++) {
        const est_feature_spec *spec = &r->specs[i];

        r->field_of[i] = -1;
        for (size_t k = 0; k < n; k++) {
            if (!is_text(names[k], spec->name)) continue;
            if (r->field_of[i] >= 0) {
                return est_fail(EST_INVALID_ARGUMENT, "two fields are called \"%s\"", spec->name);
            }
            r->field_of[i] = (int)k;
        }
        if (r->field_of[i] < 0 && !r->baseline) {
            return est_fail(EST_INVALID_ARGUMENT, "the field \"%s\" is missing", spec->name);
        }
        if (spec->rows == EST_ROWS_FIXED && count_of(spec) != 1) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "\"%s\" has %" PRId64 " values a row, which CSV cannot hold; use --format jsonl",
                            spec->name, count_of(spec));
        }
    }
    return copy_names(r, names, n);
}

static est_status read_header(tool_rows *r)
{
    est_str    line;
    size_t     n;
    est_status status = est_lines_next(r->lines, &line);

    if (status == EST_OUT_OF_RANGE)
        return est_fail(EST_INVALID_ARGUMENT, "the header with the names of the fields is missing");
    EST_TRY(status);
    EST_TRY(split(r, line, &n));
    status = bind_fields(r, r->fields, n);
    if (status != EST_INVALID_ARGUMENT) return status;
    return est_fail(status, "%s; the header is: %.*s", est_error_message(),
                    (int)(line.size < HEADER_SHOWN_MAX ? line.size : HEADER_SHOWN_MAX), line.data);
}

/* Rows as those of the files, which the job has named the fields of: there is no header. */
static est_status name_fields(tool_rows *r)
{
    est_strings names = r->csv.field_names;

    r->fields = est_alloc((size_t)(names.n + 1) * sizeof *r->fields);
    if (r->fields == NULL) return est_no_memory();
    r->n_room_fields = (size_t)names.n;
    for (int i = 0; i < names.n; i++) r->fields[i] = (est_str){ names.data[i], strlen(names.data[i]) };
    return bind_fields(r, r->fields, (size_t)names.n);
}

static bool is_empty(const tool_rows *r, est_str field)
{
    return field.size == 0 || is_text(field, r->csv.na_value);
}

/* Whether an empty field is a value: of an input that is one text a row, which has no other way to be empty in CSV, and
 * est_dataset_decode_csv has read so while the model was trained. */
static bool is_empty_text(const tool_rows *r, const est_feature_spec *spec)
{
    return !r->options.parses && spec->rows == EST_ROWS_FIXED && spec->dtype == EST_STRING;
}

/* Whether the row lacks a category that the weight belongs to. */
static bool is_unweighed(const tool_rows *r, const job_weight *weight)
{
    for (int i = 0; i < r->n; i++) {
        est_str field = r->fields[r->field_of[i]];
        int64_t whole;

        for (int k = 0; k < weight->fields.n; k++) {
            if (strcmp(weight->fields.data[k], r->specs[i].name) != 0) continue;
            if (is_empty(r, field)) return true;
            if (r->specs[i].dtype == EST_I64 && est_number_i64(field.data, field.size, &whole) == EST_NUMBER_OK &&
                whole == -1) {
                return true;
            }
        }
    }
    return false;
}

/* A whole number; of a truth value also its word, as predictions have it. */
static bool read_whole(est_dtype target, est_str field, int64_t *out)
{
    *out = target == EST_BOOL && is_text(field, "true");
    if (target == EST_BOOL && (*out == 1 || is_text(field, "false"))) return true;
    return est_number_i64(field.data, field.size, out) == EST_NUMBER_OK;
}

static est_status set_field(tool_rows *r, const est_feature_spec *spec, est_str field)
{
    const job_weight *weight = weight_of(r, spec->name);
    est_dtype         target = target_of(r, spec);
    float             number;
    int64_t           whole;

    if (weight != NULL && is_unweighed(r, weight)) return EST_OK;
    if (is_empty(r, field) && !is_empty_text(r, spec)) return weight != NULL ? no_weight(weight) : miss(spec);
    switch (spec->dtype) {
    case EST_F32:
        if (est_number_f32(field.data, field.size, &number) != EST_NUMBER_OK) return refuse(spec, target, field);
        est_example_set_f32s(r->example, spec->name, &number, 1);
        return EST_OK;
    case EST_I64:
        if (!read_whole(target, field, &whole)) return refuse(spec, target, field);
        EST_TRY(check_fits(spec->name, whole, target));
        if (whole == -1 && spec->rows != EST_ROWS_FIXED) return EST_OK;
        est_example_set_i64s(r->example, spec->name, &whole, 1);
        return EST_OK;
    default: est_example_set_bytes(r->example, spec->name, &field, 1); return EST_OK;
    }
}

/* Whether a row is the names of the fields. */
static bool is_header(const tool_rows *r)
{
    est_strings names = r->csv.field_names;

    for (int i = 0; i < names.n; i++) {
        if (!is_text(r->fields[i], names.data[i])) return false;
    }
    return names.n > 0;
}

static est_status read_csv(tool_rows *r, est_str line)
{
    size_t n;

    EST_TRY(split(r, line, &n));
    if (n != r->n_names) {
        return est_fail(EST_INVALID_ARGUMENT, "%zu fields; %s has %zu", n,
                        r->csv.field_names.data != NULL ? "data.csv.fields" : "the header", r->n_names);
    }
    if (r->n_rows == 0 && is_header(r)) {
        return est_fail(EST_FAILED_PRECONDITION, "found a header, but data.csv.fields is given; remove the header, or "
                                                 "--set data.csv.fields=null");
    }
    for (int i = 0; i < r->n; i++) {
        EST_TRY(r->field_of[i] >= 0 ? set_field(r, &r->specs[i], r->fields[r->field_of[i]]) : miss(&r->specs[i]));
    }
    return EST_OK;
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

/* null stands for no value; so do "" and -1 with CSV and libsvm files, but not with Examples, where they are values
 * like others. */
static bool stands_for_none(const tool_rows *r, const est_json *value)
{
    if (value == NULL || json_is_null(value)) return true;
    if (r->no_blanks) return false;
    return (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_integer(value) && json_integer_value(value) == -1);
}

/* JSON has no numbers for these. */
static bool is_special(const est_json *value, float *out)
{
    const char *text = json_string_value(value);

    if (text == NULL) return false;
    *out = strcmp(text, "NaN") == 0 ? NAN : text[0] == '-' ? -INFINITY : INFINITY;
    return isnan(*out) || strcmp(text, "Infinity") == 0 || strcmp(text, "-Infinity") == 0;
}

/* Appends a value as one of the feature's type. */
static est_status add_value(tool_rows *r, const est_feature_spec *spec, const est_json *value)
{
    est_dtype target = target_of(r, spec);
    float     number;

    if (spec->rows != EST_ROWS_FIXED && spec->dtype != EST_F32 && stands_for_none(r, value)) return EST_OK;
    if (spec->dtype == EST_STRING && json_is_string(value)) {
        est_str text = { json_string_value(value), json_string_length(value) };

        est_strbuf_append_bytes(&r->values, &text, sizeof text);
    } else if (spec->dtype == EST_I64 && (json_is_integer(value) || (target == EST_BOOL && json_is_boolean(value)))) {
        int64_t whole = json_is_integer(value) ? json_integer_value(value) : json_is_true(value);

        EST_TRY(check_fits(spec->name, whole, target));
        est_strbuf_append_bytes(&r->values, &whole, sizeof whole);
    } else if (spec->dtype == EST_F32 && json_is_number(value)) {
        number = (float)json_number_value(value);
        est_strbuf_append_bytes(&r->values, &number, sizeof number);
    } else if (spec->dtype == EST_F32 && is_special(value, &number)) {
        est_strbuf_append_bytes(&r->values, &number, sizeof number);
    } else {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\" takes %s", spec->name,
                        spec->dtype == EST_STRING ? "a string, or a list of strings"
                        : target == EST_BOOL      ? "true or false, or a list of them"
                        : spec->dtype == EST_I64  ? "a whole number, or a list of them"
                                                  : "a number, or a list of numbers");
    }
    return EST_OK;
}

/* How many axes the feature has in a row, and the size of one; -1: any. */
static int axes_of(const est_feature_spec *spec)
{
    return spec->rows == EST_ROWS_FIXED ? spec->shape.rank : spec->rows == EST_ROWS_PADDED ? spec->shape.rank + 1 : 1;
}

static int64_t size_of(const est_feature_spec *spec, int axis)
{
    if (spec->rows == EST_ROWS_FIXED) return spec->shape.dim[axis];
    return axis == 0 ? -1 : spec->shape.dim[axis - 1];
}

/* The values of lists in lists, which have the shape of the feature. */
static est_status add_nested(tool_rows *r, const est_feature_spec *spec, const est_json *value, int axis)
{
    size_t n = json_array_size(value);

    if (axis == axes_of(spec) && !json_is_array(value)) return add_value(r, spec, value);
    if (axis == axes_of(spec) || !json_is_array(value) ||
        (size_of(spec, axis) >= 0 && n != (size_t)size_of(spec, axis))) {
        est_shape shape = { axes_of(spec), { 0 } };
        char      text[EST_SHAPE_TEXT_MAX];

        for (int i = 0; i < shape.rank; i++) shape.dim[i] = size_of(spec, i);
        return est_fail(EST_INVALID_ARGUMENT,
                        "the lists of \"%s\" have another shape than %s; a flat list of all its values works, too",
                        spec->name, est_shape_text(&shape, text));
    }
    for (size_t i = 0; i < n; i++) EST_TRY(add_nested(r, spec, json_array_get(value, i), axis + 1));
    return EST_OK;
}

/* One value may stand without a list. */
static size_t count_values(const est_json *values)
{
    return values == NULL || json_is_null(values) ? 0 : json_is_array(values) ? json_array_size(values) : 1;
}

static const est_json *value_at(const est_json *values, size_t i)
{
    return json_is_array(values) ? json_array_get(values, i) : values;
}

static bool has_value(const tool_rows *r, const est_json *values)
{
    for (size_t i = 0; i < count_values(values); i++) {
        if (!stands_for_none(r, value_at(values, i))) return true;
    }
    return false;
}

/* Weights of present values. The graph checks the number of combinations of a cross. */
static est_status add_weights(tool_rows *r, const est_feature_spec *spec, const job_weight *weight, const est_json *row)
{
    const est_json *of      = json_object_get(row, weight->fields.data[0]);
    const est_json *numbers = json_object_get(row, weight->name);
    bool            single  = weight->fields.n == 1;
    size_t          n       = count_values(numbers);

    for (int k = 0; k < weight->fields.n; k++) {
        if (!has_value(r, json_object_get(row, weight->fields.data[k]))) return EST_OK;
    }
    if (n == 0) return no_weight(weight);
    if (single && n != count_values(of)) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\" has %zu weights for %zu values of \"%s\"", spec->name, n,
                        count_values(of), weight->fields.data[0]);
    }
    for (size_t i = 0; i < n; i++) {
        if (single && stands_for_none(r, value_at(of, i))) continue;
        if (json_is_null(value_at(numbers, i))) return no_weight(weight);
        EST_TRY(add_value(r, spec, value_at(numbers, i)));
    }
    return EST_OK;
}

/* All values, one after the other or in lists of lists. */
static est_status add_values(tool_rows *r, const est_feature_spec *spec, const est_json *values)
{
    if (json_is_array(json_array_get(values, 0))) return add_nested(r, spec, values, 0);
    for (size_t i = 0; i < count_values(values); i++) EST_TRY(add_value(r, spec, value_at(values, i)));
    return EST_OK;
}

static est_status set_values(tool_rows *r, const est_feature_spec *spec, const est_json *row)
{
    const job_weight *weight = weight_of(r, spec->name);
    const est_json   *value  = json_object_get(row, spec->name);
    size_t            size   = spec->dtype == EST_STRING ? sizeof(est_str)
                               : spec->dtype == EST_I64  ? sizeof(int64_t)
                                                         : sizeof(float);
    size_t            n;

    est_strbuf_reset(&r->values);
    if (weight != NULL) {
        EST_TRY(add_weights(r, spec, weight, row));
    } else {
        if (value == NULL || json_is_null(value)) return miss(spec);
        EST_TRY(add_values(r, spec, value));
    }
    EST_TRY(est_strbuf_status(&r->values));
    n = r->values.size / size;
    if (spec->rows == EST_ROWS_FIXED && n != (size_t)count_of(spec)) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\" has %zu values; expected %" PRId64, spec->name, n,
                        count_of(spec));
    }
    if (n == 0) return EST_OK;
    switch (spec->dtype) {
    case EST_F32: est_example_set_f32s(r->example, spec->name, (const float *)(void *)r->values.data, n); break;
    case EST_I64: est_example_set_i64s(r->example, spec->name, (const int64_t *)(void *)r->values.data, n); break;
    default: est_example_set_bytes(r->example, spec->name, (const est_str *)(void *)r->values.data, n); break;
    }
    return EST_OK;
}

/* The parser's words, without its line, which is always the first, and without its flags. */
static est_status refuse_json(est_str line)
{
    static const char place[] = "line 1, ";
    const char       *why     = strstr(est_error_message(), place);

    if (memmem(line.data, line.size, "\\u0000", 6) != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "\\u0000 is not allowed in a text; remove it");
    }
    if (why == NULL) return EST_INVALID_ARGUMENT;
    return est_fail(EST_INVALID_ARGUMENT, "not JSON: %s", why + sizeof place - 1);
}

static est_status read_json(tool_rows *r, est_str line)
{
    est_json  *object;
    est_status status = est_json_parse(line.data, line.size, "the row", &object);

    if (status == EST_INVALID_ARGUMENT) return refuse_json(line);
    EST_TRY(status);
    if (!json_is_object(object)) status = est_fail(EST_INVALID_ARGUMENT, "expected a JSON object");
    for (int i = 0; i < r->n && status == EST_OK; i++) {
        r->seen[i] = r->seen[i] || json_object_get(object, r->specs[i].name) != NULL;
    }
    for (int i = 0; i < r->n && status == EST_OK; i++) status = set_values(r, &r->specs[i], object);
    est_json_free(object);
    return status;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static est_status read_row(tool_rows *r, est_str line, est_tensor **out)
{
    est_str bytes;

    if (r->options.format == TOOL_ROWS_TFRECORD) return est_tensor_string(line.data, line.size, out);
    est_example_reset(r->example);
    EST_TRY(r->options.format == TOOL_ROWS_JSON ? read_json(r, line) : read_csv(r, line));
    EST_TRY(est_example_serialize(r->example, &bytes));
    return est_tensor_string(bytes.data, bytes.size, out);
}

static bool is_blank(est_str line)
{
    for (size_t i = 0; i < line.size; i++) {
        if (line.data[i] != ' ' && line.data[i] != '\t') return false;
    }
    return true;
}

/* A feature that no row of the first batch has is allowed, but more likely misspelt. */
static void warn_of_missing(tool_rows *r)
{
    for (int i = 0; i < r->n; i++) {
        if (r->seen[i]) continue;
        tool_note(&tool_predict, "no row of the first %" PRId64 " has \"%s\": it counts as missing", r->n_rows,
                  r->specs[i].name);
        r->seen[i] = true; /* once is enough */
    }
}

/* --- rows that wait ----------------------------------------------------------------------------------------------- */

static est_status add_waiting(tool_rows *r, tool_row row)
{
    if (r->n_first + r->n_waiting == r->n_room) {
        size_t    room = r->n_waiting < r->n_room / 2 ? r->n_room : 2 * r->n_room + 16;
        tool_row *more = est_alloc(room * sizeof *more);

        if (more == NULL) return est_no_memory();
        if (r->n_waiting > 0) memcpy(more, r->waiting + r->n_first, r->n_waiting * sizeof *more);
        est_free(r->waiting);
        r->waiting = more;
        r->n_room  = room;
        r->n_first = 0;
    }
    r->waiting[r->n_first + r->n_waiting++] = row;
    return EST_OK;
}

static void free_row(tool_row *row)
{
    est_tensor_free(row->record);
    est_free(row->error);
    est_free(row->text);
}

const tool_row *tool_rows_first(const tool_rows *rows)
{
    return rows->n_waiting > 0 ? &rows->waiting[rows->n_first] : NULL;
}

void tool_rows_pop(tool_rows *rows)
{
    tool_row *row = &rows->waiting[rows->n_first++];

    if (row->record != NULL && rows->n_open > 0) rows->n_open--;
    free_row(row);
    rows->n_waiting--;
    if (rows->n_given > 0) rows->n_given--;
    if (rows->n_alone > 0) rows->n_alone--;
}

static const char *unit(const tool_rows *r)
{
    return r->lines != NULL ? "line" : "record";
}

/* The thread's error is about this row. */
static est_status set_bad(tool_rows *r, tool_row *row)
{
    char *error = est_strdup(est_error_message());

    if (error == NULL) return est_no_memory();
    est_tensor_free(row->record);
    row->record = NULL;
    row->error  = error;
    r->n_bad++;
    tool_note(&tool_predict, "%s, %s %" PRIu64 ": %s", r->source, unit(r), row->line, error);
    return EST_OK;
}

est_status tool_rows_check(const tool_rows *rows, int64_t n_answers)
{
    if (n_answers >= 0 && (uint64_t)n_answers == rows->n_asked) return EST_OK;
    return est_fail(EST_FAILED_PRECONDITION,
                    "the predictions have %" PRId64 " examples for %zu rows, so that their first axis is not that of "
                    "the rows: choose others with --keys",
                    n_answers, rows->n_asked);
}

est_status tool_rows_refuse(tool_rows *rows)
{
    rows->n_open--; /* it has had an answer */
    return set_bad(rows, &rows->waiting[rows->n_first]);
}

static est_status keep_text(const tool_rows *r, tool_row *row, est_str line)
{
    if (!r->options.keeps_text) return EST_OK;
    row->text = est_alloc(line.size + 1);
    if (row->text == NULL) return est_no_memory();
    memcpy(row->text, line.data, line.size); /* not blank, so there is something */
    row->text_size = line.size;
    return EST_OK;
}

/* The bytes of the next row that is not blank, and its number. */
static est_status next_line(tool_rows *r, est_str *line, uint64_t *number)
{
    if (r->lines == NULL) {
        EST_TRY(est_tfrecord_next(r->records, line));
        *number = (uint64_t)r->n_rows + 1;
        return EST_OK;
    }
    do {
        EST_TRY(est_lines_next(r->lines, line));
        *number = est_lines_number(r->lines, *line);
    } while (is_blank(*line));
    return EST_OK;
}

static est_status read_waiting(tool_rows *r)
{
    tool_row   row = { 0 };
    est_str    line;
    est_status status;

    EST_TRY(next_line(r, &line, &row.line));
    status = keep_text(r, &row, line);
    if (status == EST_OK) status = read_row(r, line, &row.record);
    if (status == EST_INVALID_ARGUMENT) status = set_bad(r, &row);
    if (status != EST_OK) status = est_fail_context(status, "%s, %s %" PRIu64, r->source, unit(r), row.line);
    if (status == EST_OK) status = add_waiting(r, row);
    if (status != EST_OK) {
        free_row(&row);
        return status;
    }
    if (++r->n_rows == r->options.batch) warn_of_missing(r);
    return EST_OK;
}

static est_status add_text(tool_rows *r, size_t n, est_str record)
{
    if (n == r->n_texts) {
        size_t   room = 2 * n + 16;
        est_str *more = est_realloc(r->texts, room * sizeof *more);

        if (more == NULL) return est_no_memory();
        r->texts   = more;
        r->n_texts = room;
    }
    r->texts[n] = record;
    return EST_OK;
}

/* Yields the next rows, *n of them; none at the end. One that failed in a batch is alone. */
static est_status gather(tool_rows *r, size_t *n)
{
    *n = 0;
    while (*n < (size_t)(r->options.fixed > 0 ? r->options.fixed : r->options.batch) && (*n == 0 || r->n_alone == 0)) {
        const tool_row *row;

        if (*n == 0) EST_TRY(r->options.settle(r->options.settle_user));
        if (r->n_given == r->n_waiting) {
            if (r->ended) return EST_OUT_OF_RANGE;
            if (*n > 0 && r->lines != NULL && !est_lines_is_ready(r->lines)) return EST_OK;
            EST_TRY(read_waiting(r));
        }
        row = &r->waiting[r->n_first + r->n_given];
        if (row->record != NULL) {
            EST_TRY(add_text(r, *n, *(const est_str *)est_tensor_data(row->record)));
            ++*n;
        }
        r->n_given++;
    }
    return EST_OK;
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

/* Copies numbers of Examples, which are float32 or int64, as those of the input. */
static est_status convert(est_tensor **value, const est_component *input)
{
    const est_tensor *from  = *value;
    est_dtype         dtype = input->dtype;
    const int64_t    *whole = est_tensor_data(from);
    est_tensor       *to;
    void             *data;

    if (est_tensor_dtype(from) == dtype) return EST_OK;
    for (int64_t i = 0; dtype != EST_F64 && i < est_tensor_count(from); i++) {
        EST_TRY(check_fits(input->name, whole[i], dtype));
    }
    EST_TRY(est_tensor_create(dtype, *est_tensor_shape(from), &to));
    data = est_tensor_mutable_data(to);
    for (int64_t i = 0; i < est_tensor_count(from); i++) {
        switch (dtype) {
        case EST_F64: ((double *)data)[i] = ((const float *)est_tensor_data(from))[i]; break;
        case EST_I32: ((int32_t *)data)[i] = (int32_t)whole[i]; break;
        default: ((uint8_t *)data)[i] = (uint8_t)whole[i]; break;
        }
    }
    est_tensor_free(*value);
    *value = to;
    return EST_OK;
}

/* The rows at hand as the inputs of the model. */
static est_status make_element(tool_rows *r, size_t n, est_field *element)
{
    est_status status = EST_OK;

    if (r->options.parses) return est_tensor_create_from(EST_STRING, EST_SHAPE((int64_t)n), r->texts, &element->values);
    EST_TRY(est_example_parse(r->parser, r->texts, n, r->parsed));
    for (int i = 0; i < r->n; i++) {
        if (status == EST_OK) status = convert(&r->parsed[i].values, input_of(r, &r->specs[i]));
        element[i] = (est_field){ r->parsed[i].values, r->parsed[i].splits };
        est_tensor_free(r->parsed[i].lengths);
        r->parsed[i] = (est_feature_batch){ 0 };
    }
    if (status != EST_OK) est_element_clear(element, r->n);
    return status;
}

/* A failure of the input is kept, and ends the rows: those before it are answered first. */
static est_status next_batch(void *state, est_field *element)
{
    tool_rows *r = state;
    size_t     n, open = r->n_open;
    est_status status;

    r->n_open = 0;
    if (open > 0) { /* a batch without examples has come and gone */
        status = tool_rows_check(r, 0);
        est_error_take(status, &r->refused);
        return status;
    }
    status = gather(r, &n);
    if (status != EST_OK) r->ended = true;
    if (status == EST_OUT_OF_RANGE && r->n_rows > 0) warn_of_missing(r);
    if (status != EST_OK && status != EST_OUT_OF_RANGE) est_error_take(status, &r->failed);
    if (n == 0) return EST_OUT_OF_RANGE;
    r->n_open  = n;
    r->n_asked = n;
    status     = EST_OK;
    for (; r->n_asked < (size_t)r->options.fixed && status == EST_OK; r->n_asked++) {
        status = add_text(r, r->n_asked, r->texts[n - 1]);
    }
    if (status == EST_OK) status = make_element(r, r->n_asked, element);
    if (status != EST_OK) est_error_take(status, &r->refused);
    return status;
}

est_status tool_rows_ended(tool_rows *rows, est_status status, bool *again)
{
    size_t n_given = rows->n_given;

    *again        = false;
    rows->n_given = 0;
    rows->n_open  = 0;
    if (status == EST_OK) return EST_OK;
    if (rows->refused.status != EST_OK) status = est_error_raise(&rows->refused); /* without words of the dataset */
    rows->refused = (est_error){ 0 };
    /* Whether a failure is not caused by rows: none was handed out, or its code says so. */
    if (n_given == 0 || status == EST_RESOURCE_EXHAUSTED || status == EST_CANCELLED ||
        status == EST_FAILED_PRECONDITION)
        return status;
    *again = true;
    for (size_t i = 0; i < n_given; i++) {
        tool_row *row = &rows->waiting[rows->n_first + i];

        if (row->record == NULL) continue;
        if (rows->n_alone > 0 || i + 1 == n_given) return set_bad(rows, row);
        rows->n_alone = n_given;
        return EST_OK;
    }
    return status;
}

static est_status open_input(tool_rows *rows)
{
    const char            *path    = rows->options.path != NULL ? rows->options.path : "/dev/stdin";
    bool                   csv     = rows->options.format == TOOL_ROWS_CSV;
    est_lines_read_options options = { .quoted    = csv && !rows->csv.no_quotes,
                                       .delimiter = rows->csv.delimiter,
                                       .trim      = rows->csv.trim };
    bool                   named   = rows->csv.field_names.n > 0;
    est_status             status;

    if (rows->options.format == TOOL_ROWS_TFRECORD) return est_tfrecord_open(path, NULL, &rows->records);
    EST_TRY(est_lines_open(path, &options, &rows->lines));
    if (!csv) return EST_OK;
    status = named ? name_fields(rows) : read_header(rows);
    if (status == EST_OK) return EST_OK;
    return named ? est_fail_context(status, "data.csv.fields") : est_fail_context(status, "%s, line 1", rows->source);
}

est_status tool_rows_open(tool_rows *rows, const tool_rows_options *options)
{
    const job_runner *runner = options->runner;
    est_status        status;

    *rows = (tool_rows){ .options = *options,
                         .source  = options->path != NULL ? options->path : "standard input",
                         .specs   = options->specs.data,
                         .n       = options->specs.n };
    if (options->csv != NULL) rows->csv = *options->csv;
    rows->baseline  = runner != NULL && job_is_baseline(&runner->job->model);
    rows->no_blanks = runner == NULL || runner->job->data.format == JOB_FORMAT_TFRECORD;
    rows->field_of  = est_zalloc((size_t)(rows->n + 1) * sizeof *rows->field_of);
    rows->seen      = est_zalloc((size_t)(rows->n + 1) * sizeof *rows->seen);
    rows->parsed    = est_zalloc((size_t)(rows->n + 1) * sizeof *rows->parsed);
    if (rows->field_of == NULL || rows->seen == NULL || rows->parsed == NULL) {
        status = est_no_memory();
    } else {
        status = est_example_create(&rows->example);
    }
    if (status == EST_OK && !options->parses) status = est_example_parser_create(options->specs, &rows->parser);
    for (int i = 0; i < rows->n && status == EST_OK; i++) {
        rows->seen[i] = options->format != TOOL_ROWS_JSON || rows->baseline;
    }
    if (status == EST_OK) status = open_input(rows);
    if (status != EST_OK) tool_rows_close(rows);
    return status;
}

void tool_rows_close(tool_rows *rows)
{
    est_lines_close(rows->lines);
    est_tfrecord_close(rows->records);
    est_example_free(rows->example);
    est_example_parser_free(rows->parser);
    est_free(rows->parsed);
    est_free(rows->texts);
    est_free(rows->fields);
    for (size_t i = 0; i < rows->n_names; i++) est_free((char *)(uintptr_t)rows->names[i].data);
    est_free(rows->names);
    est_free(rows->field_of);
    est_free(rows->seen);
    while (rows->n_waiting > 0) tool_rows_pop(rows);
    est_free(rows->waiting);
    if (rows->scratch != NULL) est_arena_free(rows->scratch);
    est_strbuf_clear(&rows->values);
    *rows = (tool_rows){ 0 };
}

est_status tool_rows_dataset(tool_rows *rows, est_dataset **out)
{
    const tool_rows_options *o          = &rows->options;
    int                      n          = o->parses ? 1 : rows->n;
    est_component           *components = est_zalloc((size_t)(n + 1) * sizeof *components);
    est_dataset             *d;

    if (components == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) components[i] = o->parses ? o->inputs.data[0] : *input_of(rows, &rows->specs[i]);
    d = est_dataset_generator((est_components){ components, n }, EST_GENERATOR(.next = next_batch, .user = rows));
    est_free(components);
    return est_dataset_finish(d, out);
}

/* --- inputs as features ------------------------------------------------------------------------------------------- */

/* Rows hold floats, whole numbers and texts; what the input has is made of those. */
static est_dtype dtype_in_rows(est_dtype dtype)
{
    return dtype == EST_F32 || dtype == EST_F64 ? EST_F32 : dtype == EST_STRING ? EST_STRING : EST_I64;
}

static est_status spec_of(const est_component *input, est_feature_spec *out)
{
    const est_shape *shape  = &input->shape;
    bool             padded = shape->rank > 1 && shape->dim[1] < 0 && !input->ragged;
    char             text[EST_SHAPE_TEXT_MAX];

    *out = (est_feature_spec){ .name = input->name, .dtype = dtype_in_rows(input->dtype) };
    if (shape->rank == 0 || (shape->rank > 0 && shape->dim[0] == 0) || (input->ragged && shape->rank > 1)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the input \"%s\" has shape %s: rows fill only inputs whose first dimension is the batch; "
                        "call the model from a program (estoc/predictor.h)",
                        input->name, est_shape_text(shape, text));
    }
    out->rows = input->ragged ? EST_ROWS_RAGGED : padded ? EST_ROWS_PADDED : EST_ROWS_FIXED;
    for (int d = padded ? 2 : 1; d < shape->rank && !input->ragged; d++) {
        if (shape->dim[d] < 0) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "the input \"%s\" has shape %s: rows cannot tell more than one dimension of any size",
                            input->name, est_shape_text(shape, text));
        }
        out->shape.dim[out->shape.rank++] = shape->dim[d];
    }
    return EST_OK;
}

/* Whether the input is the splits of another, which come with it. */
static bool is_splits(est_components inputs, const est_component *input)
{
    for (int i = 0; i < inputs.n; i++) {
        if (inputs.data[i].ragged && est_is_splits_of(input->name, inputs.data[i].name)) return true;
    }
    return false;
}

/* The rows that an input takes; 0: any number. */
static int64_t rows_of(const est_component *input)
{
    return input->shape.rank > 0 && input->shape.dim[0] > 0 ? input->shape.dim[0] : 0;
}

est_status tool_rows_specs(est_components inputs, est_arena *arena, est_feature_specs *out, int64_t *fixed)
{
    est_feature_spec    *specs = est_arena_alloc(arena, (size_t)(inputs.n + 1) * sizeof *specs);
    const est_component *first = NULL;
    int                  n     = 0;

    if (specs == NULL) return est_no_memory();
    for (int i = 0; i < inputs.n; i++) {
        const est_component *input = &inputs.data[i];

        if (is_splits(inputs, input)) continue;
        EST_TRY(spec_of(input, &specs[n++]));
        if (first == NULL) first = input;
        if (rows_of(input) == rows_of(first)) continue;
        return est_fail(EST_INVALID_ARGUMENT,
                        "the inputs \"%s\" and \"%s\" take other numbers of rows; call the model from a program "
                        "(estoc/predictor.h)",
                        first->name, input->name);
    }
    *fixed = first != NULL ? rows_of(first) : 0;
    *out   = (est_feature_specs){ specs, n };
    return EST_OK;
}
