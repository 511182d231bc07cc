/* SPDX-License-Identifier: Apache-2.0
 *
 * Summaries.
 *
 *   Summary          1 value
 *   Value            1 tag | 2 simple_value | 4 image | 5 histo | 6 audio | 8 tensor | 9 metadata
 *   Image            1 height | 2 width | 3 colorspace | 4 encoded_image_string
 *   SummaryMetadata  1 plugin_data { 1 plugin_name | 2 content } | 4 data_class
 *   TensorProto      1 dtype | 2 shape { 2 dim { 1 size } } | 4 tensor_content | 5 float_val | 6 double_val |
 *                    7 int_val | 8 string_val | 10 int64_val */
#include "format/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "format/tensor_proto.h"
#include "format/wire_defaults.h"

enum { CLASS_SCALAR = 1, CLASS_TENSOR = 2, CLASS_BLOBS = 3 }; /* how TensorBoard stores a value */

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Begins a value; what belongs to it is put until est_wire_end. */
static size_t begin_value(est_wire_writer *w, const char *tag)
{
    size_t mark = est_wire_begin(w, 1);

    est_wire_put_string(w, 1, tag);
    return mark;
}

static void put_metadata(est_wire_writer *w, const char *plugin, int data_class)
{
    size_t metadata = est_wire_begin(w, 9);
    size_t data     = est_wire_begin(w, 1);

    est_wire_put_string(w, 1, plugin);
    est_wire_end(w, data);
    est_wire_put_i64(w, 4, data_class);
    est_wire_end(w, metadata);
}

/* Begins the tensor of a value with its dtype and shape. */
static size_t begin_tensor(est_wire_writer *w, est_dtype dtype, est_shape shape)
{
    size_t tensor = est_wire_begin(w, 8), mark;

    est_wire_put_i64(w, 1, dtype);
    mark = est_wire_begin(w, 2);
    est_shape_proto_put(w, &shape);
    est_wire_end(w, mark);
    return tensor;
}

void est_summary_put_scalar(est_wire_writer *w, const char *tag, float value)
{
    size_t mark = begin_value(w, tag);

    est_wire_put_f32(w, 2, value); /* a oneof member: written even when 0 */
    est_wire_end(w, mark);
}

void est_summary_put_image(est_wire_writer *w, const char *tag, int height, int width, int channels, est_str encoded)
{
    size_t mark = begin_value(w, tag), image = est_wire_begin(w, 4);

    est_wire_put_i64_nonzero(w, 1, height);
    est_wire_put_i64_nonzero(w, 2, width);
    est_wire_put_i64_nonzero(w, 3, channels);
    est_wire_put_bytes(w, 4, encoded.data, encoded.size);
    est_wire_end(w, image);
    est_wire_end(w, mark);
}

void est_summary_put_scalar_v2(est_wire_writer *w, const char *tag, float value)
{
    size_t mark = begin_value(w, tag), tensor = begin_tensor(w, EST_F32, EST_SHAPE_SCALAR);

    est_wire_put_f32s(w, 5, &value, 1);
    est_wire_end(w, tensor);
    put_metadata(w, "scalars", CLASS_SCALAR);
    est_wire_end(w, mark);
}

void est_summary_put_image_v2(est_wire_writer *w, const char *tag, int height, int width, est_str encoded)
{
    size_t mark = begin_value(w, tag), tensor = begin_tensor(w, EST_STRING, EST_SHAPE(3));
    char   number[16];

    snprintf(number, sizeof number, "%d", width);
    est_wire_put_string(w, 8, number);
    snprintf(number, sizeof number, "%d", height);
    est_wire_put_string(w, 8, number);
    est_wire_put_bytes(w, 8, encoded.data, encoded.size);
    est_wire_end(w, tensor);
    put_metadata(w, "images", CLASS_BLOBS);
    est_wire_end(w, mark);
}

void est_summary_put_text(est_wire_writer *w, const char *tag, est_str text)
{
    size_t mark = begin_value(w, tag), tensor = begin_tensor(w, EST_STRING, EST_SHAPE_SCALAR);

    est_wire_put_bytes(w, 8, text.data, text.size);
    est_wire_end(w, tensor);
    put_metadata(w, "text", CLASS_TENSOR);
    est_wire_end(w, mark);
}

void est_summary_put_histogram_v2(est_wire_writer *w, const char *tag, const double *values, size_t n, int n_buckets)
{
    double(*row)[3] = est_alloc(((size_t)n_buckets + 1) * sizeof *row);
    size_t mark, tensor;

    if (row == NULL) {
        w->failed = true;
        return;
    }
    est_histogram_rows(values, n, row, n_buckets);
    mark   = begin_value(w, tag);
    tensor = begin_tensor(w, EST_F64, EST_SHAPE(n_buckets, 3));
    est_wire_put_f64s(w, 6, &row[0][0], 3 * (size_t)n_buckets);
    est_wire_end(w, tensor);
    put_metadata(w, "histograms", CLASS_TENSOR);
    est_wire_end(w, mark);
    est_free(row);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* The first of a list of numbers, packed or not, when `out` has none yet. */
static void take_first(est_wire_reader *r, const est_wire_field *field, est_wire_type type, double *out)
{
    est_wire_list list;
    uint64_t      bits;

    est_wire_list_init(r, field, type, &list);
    if (!est_wire_list_next(&list, &bits) || !isnan(*out)) return;
    switch (type) {
    case EST_WIRE_FIXED32: *out = (double)est_wire_bits_f32(bits); break;
    case EST_WIRE_FIXED64: *out = est_wire_bits_f64(bits); break;
    default: *out = (double)(int64_t)bits; break;
    }
}

/* The number in the bytes of a tensor; NaN when there is not exactly one. */
static double content_number(int32_t dtype, est_str bytes)
{
    const uint8_t *p = (const uint8_t *)bytes.data;

    if (dtype == EST_F32 && bytes.size == 4) return (double)est_wire_bits_f32(est_wire_load32(p));
    if (dtype == EST_F64 && bytes.size == 8) return est_wire_bits_f64(est_wire_load64(p));
    if (dtype == EST_I32 && bytes.size == 4) return (double)(int32_t)est_wire_load32(p);
    if (dtype == EST_I64 && bytes.size == 8) return (double)(int64_t)est_wire_load64(p);
    return NAN;
}

static est_status parse_shape(est_wire_reader *r, int *rank)
{
    est_wire_field field;

    *rank = 0;
    while (est_wire_next(r, &field)) *rank += field.number == 2;
    return est_wire_finish(r);
}

/* What a value needs of its tensor: the number of a scalar, the string of a single one. */
static est_status parse_tensor(est_wire_reader *r, est_summary_value *value)
{
    est_wire_reader inner;
    est_wire_field  field;
    int32_t         dtype = 0;
    int             rank = 0, n_strings = 0;
    double          number = NAN;

    while (est_wire_next(r, &field)) {
        switch (field.number) {
        case 1: dtype = est_wire_i32(r, &field); break;
        case 2:
            est_wire_message(r, &field, "TensorShapeProto", &inner);
            EST_TRY(parse_shape(&inner, &rank));
            break;
        case 4: number = content_number(dtype, est_wire_bytes(r, &field)); break;
        case 5: take_first(r, &field, EST_WIRE_FIXED32, &number); break;
        case 6: take_first(r, &field, EST_WIRE_FIXED64, &number); break;
        case 7:
        case 10: take_first(r, &field, EST_WIRE_VARINT, &number); break;
        case 8:
            if (n_strings++ == 0) value->text = est_wire_bytes(r, &field);
            break;
        default: break;
        }
    }
    if (rank == 0) value->number = number;
    if (n_strings != 1) value->text = (est_str){ "", 0 };
    return est_wire_finish(r);
}

static est_status parse_plugin(est_wire_reader *r, est_str *plugin)
{
    est_wire_field field;

    while (est_wire_next(r, &field)) {
        if (field.number == 1) *plugin = est_wire_bytes(r, &field);
    }
    return est_wire_finish(r);
}

static est_status parse_metadata(est_wire_reader *r, est_str *plugin)
{
    est_wire_reader inner;
    est_wire_field  field;

    while (est_wire_next(r, &field)) {
        if (field.number != 1) continue;
        est_wire_message(r, &field, "PluginData", &inner);
        EST_TRY(parse_plugin(&inner, plugin));
    }
    return est_wire_finish(r);
}

/* A value that is a message of its own kind. */
static void set_message(est_wire_reader *r, const est_wire_field *field, est_summary_kind kind,
                        est_summary_value *value)
{
    value->kind    = kind;
    value->message = est_wire_bytes(r, field);
}

static est_status parse_value_field(est_wire_reader *r, const est_wire_field *field, est_summary_value *value)
{
    est_wire_reader inner;

    switch (field->number) {
    case 1: value->tag = est_wire_bytes(r, field); break;
    case 2:
        value->kind   = EST_SUMMARY_SCALAR;
        value->number = (double)est_wire_f32(r, field);
        break;
    case 4: set_message(r, field, EST_SUMMARY_IMAGE, value); break;
    case 5: set_message(r, field, EST_SUMMARY_HISTOGRAM, value); break;
    case 6: set_message(r, field, EST_SUMMARY_AUDIO, value); break;
    case 8:
        set_message(r, field, EST_SUMMARY_TENSOR, value);
        est_wire_message(r, field, "TensorProto", &inner);
        return parse_tensor(&inner, value);
    case 9: est_wire_message(r, field, "SummaryMetadata", &inner); return parse_metadata(&inner, &value->plugin);
    default: break;
    }
    return EST_OK;
}

void est_summary_cursor_init(est_summary_cursor *cursor, est_str message)
{
    est_wire_reader_init(&cursor->reader, "Summary", message.data, message.size);
}

est_status est_summary_cursor_next(est_summary_cursor *cursor, bool *found, est_summary_value *value)
{
    const est_str     empty  = { "", 0 };
    est_summary_value parsed = { .tag = empty, .plugin = empty, .number = NAN, .text = empty, .message = empty };
    est_wire_reader   inner;
    est_wire_field    field;

    do {
        *found = est_wire_next(&cursor->reader, &field);
        if (!*found) return est_wire_finish(&cursor->reader);
    } while (field.number != 1);
    est_wire_message(&cursor->reader, &field, "Summary.Value", &inner);
    EST_TRY(est_wire_finish(&cursor->reader));
    while (est_wire_next(&inner, &field)) EST_TRY(parse_value_field(&inner, &field, &parsed));
    EST_TRY(est_wire_finish(&inner));
    *value = parsed;
    return EST_OK;
}

est_status est_image_parse(est_str message, est_image_view *out)
{
    est_image_view  image = { .encoded = { "", 0 } };
    est_wire_reader r;
    est_wire_field  field;

    est_wire_reader_init(&r, "Summary.Image", message.data, message.size);
    while (est_wire_next(&r, &field)) {
        switch (field.number) {
        case 1: image.height = est_wire_i32(&r, &field); break;
        case 2: image.width = est_wire_i32(&r, &field); break;
        case 3: image.channels = est_wire_i32(&r, &field); break;
        case 4: image.encoded = est_wire_bytes(&r, &field); break;
        default: break;
        }
    }
    EST_TRY(est_wire_finish(&r));
    *out = image;
    return EST_OK;
}
