/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors as messages.
 *
 *   TensorShapeProto  2 dim { 1 size | 2 name } | 3 unknown_rank
 *   TensorProto       1 dtype | 2 tensor_shape | 4 tensor_content | lists of values, see `value_lists`
 *
 * tensor_content is the memory of the tensor, little-endian; of strings it is all lengths as varints, then all bytes.
 * When it is there the lists do not count. */
#include "format/tensor_proto.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "format/wire_defaults.h"
#include "tensor/shape.h"

/* Where the values of a dtype are. */
typedef struct value_list {
    est_dtype     dtype;
    uint32_t      field;
    est_wire_type type; /* of one value */
} value_list;

static const value_list value_lists[] = {
    { EST_F32, 5, EST_WIRE_FIXED32 },  /* float_val */
    { EST_F64, 6, EST_WIRE_FIXED64 },  /* double_val */
    { EST_I32, 7, EST_WIRE_VARINT },   /* int_val */
    { EST_U8, 7, EST_WIRE_VARINT },    /* int_val */
    { EST_STRING, 8, EST_WIRE_BYTES }, /* string_val */
    { EST_I64, 10, EST_WIRE_VARINT },  /* int64_val */
    { EST_BOOL, 11, EST_WIRE_VARINT }, /* bool_val */
};

/* --- names -------------------------------------------------------------------------------------------------------- */

#define DTYPES_MAX 31
#define REF_OFFSET 100

/* clang-format off */
#define DTYPE_NAMES(X)                                                                                                 \
    X(1, FLOAT) X(2, DOUBLE) X(3, INT32) X(4, UINT8) X(5, INT16) X(6, INT8) X(7, STRING) X(8, COMPLEX64) X(9, INT64)   \
    X(10, BOOL) X(11, QINT8) X(12, QUINT8) X(13, QINT32) X(14, BFLOAT16) X(15, QINT16) X(16, QUINT16) X(17, UINT16)    \
    X(18, COMPLEX128) X(19, HALF) X(20, RESOURCE) X(21, VARIANT) X(22, UINT32) X(23, UINT64) X(24, FLOAT8_E5M2)        \
    X(25, FLOAT8_E4M3FN) X(29, INT4) X(30, UINT4)
/* clang-format on */

static const char *const dtype_names[DTYPES_MAX] = {
#define NAME(number, name) [number] = "DT_" #name,
    [0] = "DT_INVALID",
    DTYPE_NAMES(NAME)
#undef NAME
};

static const char *const ref_names[DTYPES_MAX] = {
#define NAME(number, name) [number] = "DT_" #name "_REF",
    DTYPE_NAMES(NAME)
#undef NAME
};

const char *est_dtype_proto_name(int32_t number)
{
    if (number >= 0 && number < DTYPES_MAX) return dtype_names[number];
    if (number >= REF_OFFSET && number < REF_OFFSET + DTYPES_MAX) return ref_names[number - REF_OFFSET];
    return NULL;
}

/* --- shapes ------------------------------------------------------------------------------------------------------- */

void est_shape_proto_put(est_wire_writer *w, const est_shape *shape)
{
    for (int i = 0; i < shape->rank; i++) {
        size_t dim = est_wire_begin(w, 2);

        est_wire_put_i64_nonzero(w, 1, shape->dim[i]);
        est_wire_end(w, dim);
    }
    if (shape->rank < 0) est_wire_put_bool(w, 3, true);
}

static est_status parse_dim(est_wire_reader *r, int64_t *size)
{
    est_wire_field field;

    *size = 0;
    while (est_wire_next(r, &field)) {
        if (field.number != 1) continue;
        *size = est_wire_i64(r, &field);
        if (*size < -1) est_wire_fail(r, field.start, "a dimension of %" PRId64, *size);
    }
    return est_wire_finish(r);
}

est_status est_shape_proto_parse(est_wire_reader *r, est_shape *out)
{
    est_shape       shape = EST_SHAPE_SCALAR;
    est_wire_reader dim;
    est_wire_field  field;
    int64_t         size;
    bool            unknown_rank = false;

    while (est_wire_next(r, &field)) {
        if (field.number == 3) unknown_rank = est_wire_bool(r, &field);
        if (field.number != 2) continue;
        est_wire_message(r, &field, "TensorShapeProto.Dim", &dim);
        EST_TRY(est_wire_finish(r));
        EST_TRY(parse_dim(&dim, &size));
        if (shape.rank == EST_RANK_MAX) {
            return est_fail(EST_UNIMPLEMENTED, "a shape of more than %d axes", EST_RANK_MAX);
        }
        shape.dim[shape.rank++] = size;
    }
    EST_TRY(est_wire_finish(r));
    *out = unknown_rank ? EST_SHAPE_UNKNOWN : shape;
    return EST_OK;
}

/* --- writing tensors ---------------------------------------------------------------------------------------------- */

void est_tensor_proto_put(est_wire_writer *w, const est_tensor *tensor)
{
    const void *data = est_tensor_data(tensor);
    size_t      mark;

    est_wire_put_i64(w, 1, est_tensor_dtype(tensor));
    mark = est_wire_begin(w, 2);
    est_shape_proto_put(w, est_tensor_shape(tensor));
    est_wire_end(w, mark);
    if (est_tensor_dtype(tensor) != EST_STRING) {
        if (est_tensor_count(tensor) > 0) est_wire_put_bytes(w, 4, data, est_tensor_bytes(tensor));
        return;
    }
    for (int64_t i = 0; i < est_tensor_count(tensor); i++) {
        const est_str *s = (const est_str *)data + i;

        est_wire_put_bytes(w, 8, s->data, s->size);
    }
}

/* --- reading tensors ---------------------------------------------------------------------------------------------- */

est_status est_tensor_proto_parse_header(est_str message, est_tensor_proto_header *out)
{
    est_tensor_proto_header header = { .shape = EST_SHAPE_SCALAR, .content = { "", 0 } };
    est_wire_reader         r, inner;
    est_wire_field          field;

    est_wire_reader_init(&r, "TensorProto", message.data, message.size);
    while (est_wire_next(&r, &field)) {
        switch (field.number) {
        case 1: header.dtype = est_wire_i32(&r, &field); break;
        case 2:
            est_wire_message(&r, &field, "TensorShapeProto", &inner);
            EST_TRY(est_wire_finish(&r));
            EST_TRY(est_shape_proto_parse(&inner, &header.shape));
            break;
        case 4: header.content = est_wire_bytes(&r, &field); break;
        default: break;
        }
    }
    EST_TRY(est_wire_finish(&r));
    *out = header;
    return EST_OK;
}

static est_status find_value_list(int32_t dtype, const value_list **out)
{
    const char *name = est_dtype_proto_name(dtype);

    for (size_t i = 0; i < sizeof value_lists / sizeof value_lists[0]; i++) {
        if ((int32_t)value_lists[i].dtype != dtype) continue;
        *out = &value_lists[i];
        return EST_OK;
    }
    return est_fail(EST_UNIMPLEMENTED, "a tensor of type %s (%" PRId32 ")", name != NULL ? name : "unknown", dtype);
}

/* Walks the values of a list, whichever way its fields are cut. */
typedef struct value_walk {
    est_wire_reader   reader;
    const value_list *kind;
    est_wire_list     list;
    bool              in_list;
} value_walk;

static void walk_init(value_walk *walk, est_str message, const value_list *kind)
{
    *walk = (value_walk){ .kind = kind };
    est_wire_reader_init(&walk->reader, "TensorProto", message.data, message.size);
}

/* The next value: its bits, or the bytes of a string. False at the end and after a failure. */
static bool walk_next(value_walk *walk, uint64_t *bits, est_str *bytes)
{
    est_wire_field field;

    for (;;) {
        if (walk->in_list && est_wire_list_next(&walk->list, bits)) return true;
        walk->in_list = false;
        do {
            if (!est_wire_next(&walk->reader, &field)) return false;
        } while (field.number != walk->kind->field);
        if (walk->kind->type == EST_WIRE_BYTES) {
            *bytes = est_wire_bytes(&walk->reader, &field);
            return walk->reader.status == EST_OK;
        }
        est_wire_list_init(&walk->reader, &field, walk->kind->type, &walk->list);
        walk->in_list = true;
    }
}

/* Whether the message has a value for each of `count` elements. */
static bool has_all_values(est_str message, const value_list *kind, int64_t count)
{
    value_walk walk;
    uint64_t   bits;
    est_str    bytes;
    int64_t    n = 0;

    walk_init(&walk, message, kind);
    while (n < count && walk_next(&walk, &bits, &bytes)) n++;
    return n == count;
}

static void store_number(est_dtype dtype, void *data, int64_t i, uint64_t bits)
{
    switch (dtype) {
    case EST_F32: ((float *)data)[i] = est_wire_bits_f32(bits); break;
    case EST_F64: ((double *)data)[i] = est_wire_bits_f64(bits); break;
    case EST_I32: ((int32_t *)data)[i] = (int32_t)(uint32_t)bits; break;
    case EST_U8: ((uint8_t *)data)[i] = (uint8_t)bits; break;
    case EST_I64: ((int64_t *)data)[i] = (int64_t)bits; break;
    case EST_BOOL: ((uint8_t *)data)[i] = bits != 0; break;
    default: break; /* not a list of numbers */
    }
}

/* Values beyond the last element are ignored, as TensorFlow does. */
static est_status fill_numbers(est_str message, const value_list *kind, est_tensor *tensor)
{
    value_walk walk;
    uint64_t   bits = 0;
    est_str    bytes;
    int64_t    count = est_tensor_count(tensor), n = 0;

    walk_init(&walk, message, kind);
    while (n < count && walk_next(&walk, &bits, &bytes)) {
        store_number(kind->dtype, est_tensor_mutable_data(tensor), n++, bits);
    }
    EST_TRY(est_wire_finish(&walk.reader));
    while (n < count) store_number(kind->dtype, est_tensor_mutable_data(tensor), n++, bits);
    return EST_OK;
}

static est_status fill_strings(est_str message, const value_list *kind, est_tensor *tensor)
{
    value_walk walk;
    uint64_t   bits;
    est_str    bytes = { "", 0 };
    int64_t    count = est_tensor_count(tensor), n = 0;

    walk_init(&walk, message, kind);
    while (n < count && walk_next(&walk, &bits, &bytes)) {
        EST_TRY(est_tensor_set_string(tensor, n++, bytes.data, bytes.size));
    }
    EST_TRY(est_wire_finish(&walk.reader));
    if (bytes.size > 0 && (uint64_t)(count - n) > EST_TENSOR_PROTO_FILL_MAX / bytes.size) {
        return est_fail(EST_RESOURCE_EXHAUSTED,
                        "a tensor of %" PRId64 " strings whose message has %" PRId64 " and repeats one of %zu bytes; "
                        "the limit of a repetition is %zu bytes",
                        count, n, bytes.size, EST_TENSOR_PROTO_FILL_MAX);
    }
    while (n < count) EST_TRY(est_tensor_set_string(tensor, n++, bytes.data, bytes.size));
    return EST_OK;
}

static est_status copy_numbers(est_str content, est_tensor *tensor)
{
    uint8_t *data = est_tensor_mutable_data(tensor);

    memcpy(data, content.data, content.size);
    if (est_tensor_dtype(tensor) == EST_BOOL) {
        for (size_t i = 0; i < content.size; i++) data[i] = data[i] != 0;
    }
    return EST_OK;
}

static est_status content_fail(const est_tensor_proto_header *header, const char *want)
{
    char text[EST_SHAPE_TEXT_MAX];

    return est_fail(EST_DATA_LOSS, "tensor_content has %zu bytes, but a %s tensor of shape %s has %s",
                    header->content.size, est_dtype_name((est_dtype)header->dtype),
                    est_shape_text(&header->shape, text), want);
}

static est_status copy_strings(const est_tensor_proto_header *header, est_tensor *tensor)
{
    const uint8_t *at = (const uint8_t *)header->content.data, *end = at + header->content.size, *bytes = at;
    int64_t        count = est_tensor_count(tensor);
    uint64_t       size;

    for (int64_t i = 0; i < count; i++) {
        if (!est_wire_varint(&bytes, end, &size)) return content_fail(header, "more lengths");
    }
    for (int64_t i = 0; i < count; i++) {
        if (!est_wire_varint(&at, end, &size) || size > (uint64_t)(end - bytes)) {
            return content_fail(header, "longer strings");
        }
        EST_TRY(est_tensor_set_string(tensor, i, bytes, (size_t)size));
        bytes += size;
    }
    return bytes == end ? EST_OK : content_fail(header, "shorter strings");
}

/* Finds out that the message cannot hold the tensor before memory is taken for it. */
static est_status check_size(est_str message, const est_tensor_proto_header *header, const value_list *kind)
{
    char    text[EST_SHAPE_TEXT_MAX], want[32];
    int64_t count;
    size_t  bytes;

    EST_TRY(est_shape_size(&header->shape, kind->dtype, &count, &bytes));
    if (header->content.size > 0) {
        if (kind->dtype == EST_STRING) {
            return (uint64_t)count <= header->content.size ? EST_OK : content_fail(header, "more lengths");
        }
        snprintf(want, sizeof want, "%zu", bytes);
        return bytes == header->content.size ? EST_OK : content_fail(header, want);
    }
    if (bytes > EST_TENSOR_PROTO_FILL_MAX && !has_all_values(message, kind, count)) {
        return est_fail(EST_RESOURCE_EXHAUSTED,
                        "a %s tensor of shape %s in a message with fewer values; one that is filled by repeating the "
                        "last may have %zu bytes",
                        est_dtype_name(kind->dtype), est_shape_text(&header->shape, text), EST_TENSOR_PROTO_FILL_MAX);
    }
    return EST_OK;
}

static est_status read_elements(est_str message, const est_tensor_proto_header *header, const value_list *kind,
                                est_tensor *tensor)
{
    bool has_content = header->content.size > 0;

    if (kind->dtype == EST_STRING) {
        return has_content ? copy_strings(header, tensor) : fill_strings(message, kind, tensor);
    }
    return has_content ? copy_numbers(header->content, tensor) : fill_numbers(message, kind, tensor);
}

est_status est_tensor_proto_parse(est_str message, est_tensor **out)
{
    est_tensor_proto_header header;
    const value_list       *kind;
    est_tensor             *tensor;
    est_status              status;

    EST_TRY(est_tensor_proto_parse_header(message, &header));
    EST_TRY(find_value_list(header.dtype, &kind));
    EST_TRY(check_size(message, &header, kind));
    EST_TRY(est_tensor_create(kind->dtype, header.shape, &tensor));
    status = read_elements(message, &header, kind, tensor);
    if (status != EST_OK) {
        est_tensor_free(tensor);
        return status;
    }
    *out = tensor;
    return EST_OK;
}
