/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes and decodes messages between tasks: tensors as fields of the head and parts. */
#include "cluster/protocol.h"

#include <string.h>

#include "base/alloc.h"
#include "tensor/shape.h"

#define TEXT_MAX (1 << 20)

enum { DTYPE = 1, DIMS };

const char *est_method_text(int method)
{
    switch (method) {
#define METHOD_CASE(name, number, text)                                                                                \
    case number: return text;
        EST_METHODS(METHOD_CASE)
#undef METHOD_CASE
    default: return "an unknown request";
    }
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void free_texts(void **texts, int *n)
{
    while (*n > 0) est_free(texts[--*n]);
}

void est_packing_reset(est_packing *p)
{
    est_wire_writer_reset(&p->head);
    free_texts(p->texts, &p->n_texts);
    p->n_parts = 0;
    p->failed  = false;
}

void est_packing_clear(est_packing *p)
{
    est_packing_reset(p);
    est_wire_writer_clear(&p->head);
    est_free(p->parts);
    est_free(p->texts);
    *p = (est_packing){ 0 };
}

/* Makes room for one more element of `size` bytes; false: out of memory. */
static bool packing_reserve(void **list, int n, int *max, size_t size)
{
    int   more = *max == 0 ? 16 : 2 * *max;
    void *grown;

    if (n < *max) return true;
    grown = est_realloc(*list, size * (size_t)more);
    if (grown == NULL) return false;
    *list = grown;
    *max  = more;
    return true;
}

/* The strings of a tensor as one block; NULL: out of memory. */
static void *pack_strings(const est_view *view, size_t *size)
{
    const est_str *strings = view->data;
    size_t         all     = (size_t)view->count * sizeof(uint64_t);
    uint8_t       *block, *at;

    for (int64_t i = 0; i < view->count; i++) all += strings[i].size;
    block = est_alloc(all > 0 ? all : 1);
    if (block == NULL) return NULL;
    at = block + (size_t)view->count * sizeof(uint64_t);
    for (int64_t i = 0; i < view->count; i++) {
        est_wire_store64(block + (size_t)i * sizeof(uint64_t), strings[i].size);
        if (strings[i].size > 0) memcpy(at, strings[i].data, strings[i].size);
        at += strings[i].size;
    }
    *size = all;
    return block;
}

void est_pack_view(est_packing *p, const est_view *view)
{
    est_part part = { view->data, (size_t)view->count * est_dtype_size(view->dtype) };
    size_t   mark;

    p->failed = p->failed || !packing_reserve((void **)&p->parts, p->n_parts, &p->max_parts, sizeof *p->parts) ||
                !packing_reserve((void **)&p->texts, p->n_texts, &p->max_texts, sizeof *p->texts);
    if (p->failed) return;
    if (view->dtype == EST_STRING) {
        void *block = pack_strings(view, &part.size);

        if (block == NULL) {
            p->failed = true;
            return;
        }
        p->texts[p->n_texts++] = block;
        part.data              = block;
    }
    mark = est_wire_begin(&p->head, EST_FIELD_TENSOR);
    est_wire_put_i64(&p->head, DTYPE, view->dtype);
    est_wire_put_i64s(&p->head, DIMS, view->shape.dim, (size_t)view->shape.rank);
    est_wire_end(&p->head, mark);
    p->parts[p->n_parts++] = part;
}

est_status est_packing_payload(const est_packing *p, est_payload *out)
{
    if (p->failed) return est_no_memory();
    EST_TRY(est_wire_writer_status(&p->head));
    *out = (est_payload){ p->head.data, p->head.size, p->parts, p->n_parts };
    return EST_OK;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

void est_unpacked_clear(est_unpacked *u)
{
    free_texts(u->texts, &u->n_texts);
    est_free(u->texts);
    est_free(u->views);
    *u = (est_unpacked){ 0 };
}

est_status est_unpack_variable(const est_message *message, const char *from, const char *variable, est_tensor **out)
{
    est_unpacked got    = { 0 };
    est_status   status = est_unpack_tensors(message, &got);

    if (status == EST_OK && got.n != 1)
        status = est_fail(EST_DATA_LOSS, "%s sent %d tensors for variable '%s', expected 1", from, got.n, variable);
    if (status == EST_OK)
        status = est_tensor_create_from(got.views[0].dtype, got.views[0].shape, got.views[0].data, out);
    est_unpacked_clear(&got);
    return status;
}

void est_head_open(const est_message *message, est_wire_reader *out)
{
    size_t      size;
    const void *head = est_message_head(message, &size);

    est_wire_reader_init(out, "message head", head, size);
}

uint64_t est_head_u64(const est_message *message, uint32_t number, uint64_t fallback)
{
    est_wire_reader r;
    est_wire_field  field;

    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) {
        if (field.number == number && field.type == EST_WIRE_VARINT) return field.value;
    }
    return fallback;
}

est_str est_head_bytes(const est_message *message, uint32_t number)
{
    est_wire_reader r;
    est_wire_field  field;

    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) {
        if (field.number == number && field.type == EST_WIRE_BYTES) return field.bytes;
    }
    return (est_str){ 0 };
}

int est_text_precision(est_str text)
{
    return text.size < TEXT_MAX ? (int)text.size : TEXT_MAX;
}

static bool is_number_type(est_dtype dtype)
{
    return dtype == EST_F32 || dtype == EST_F64 || dtype == EST_I32 || dtype == EST_I64 || dtype == EST_U8 ||
           dtype == EST_BOOL;
}

static est_status read_shape(est_wire_reader *outer, const est_wire_field *tensor, est_view *out)
{
    est_wire_reader r;
    est_wire_field  field;

    est_wire_message(outer, tensor, "tensor", &r);
    while (est_wire_next(&r, &field)) {
        if (field.number == DTYPE) out->dtype = (est_dtype)est_wire_i32(&r, &field);
        if (field.number == DIMS) {
            est_wire_list list;
            uint64_t      dim;

            est_wire_list_init(&r, &field, EST_WIRE_VARINT, &list);
            while (est_wire_list_next(&list, &dim)) {
                if (out->shape.rank == EST_RANK_MAX || dim > INT64_MAX) {
                    return est_fail(EST_DATA_LOSS,
                                    "a tensor of a message has an invalid shape (at most %d dimensions, none negative)",
                                    EST_RANK_MAX);
                }
                out->shape.dim[out->shape.rank++] = (int64_t)dim;
            }
        }
    }
    EST_TRY(est_wire_finish(&r));
    if (!is_number_type(out->dtype) && out->dtype != EST_STRING) {
        return est_fail(EST_DATA_LOSS, "a tensor of a message has the unknown dtype %d", (int)out->dtype);
    }
    return EST_OK;
}

/* Points an est_str array into the part. */
static est_status unpack_strings(est_unpacked *u, est_view *view, const uint8_t *part, size_t size)
{
    size_t   lengths = (size_t)view->count * sizeof(uint64_t), used = lengths;
    est_str *strings;

    if (size < lengths) return est_fail(EST_DATA_LOSS, "a part of %zu bytes is too short for its strings", size);
    if (!packing_reserve((void **)&u->texts, u->n_texts, &u->max_texts, sizeof *u->texts)) return est_no_memory();
    strings = est_alloc(sizeof *strings * ((size_t)view->count + 1));
    if (strings == NULL) return est_no_memory();
    u->texts[u->n_texts++] = strings;
    for (int64_t i = 0; i < view->count; i++) {
        uint64_t length = est_wire_load64(part + (size_t)i * sizeof(uint64_t));

        if (length > size - used) return est_fail(EST_DATA_LOSS, "a string of a message ends outside its part");
        strings[i] = (est_str){ (const char *)part + used, (size_t)length };
        used += (size_t)length;
    }
    if (used != size) return est_fail(EST_DATA_LOSS, "a part of %zu bytes contains strings of %zu bytes", size, used);
    view->data = strings;
    return EST_OK;
}

static est_status unpack_one(est_unpacked *u, const est_message *message, est_wire_reader *r,
                             const est_wire_field *field)
{
    est_view view = { 0 };
    size_t   size, bytes;
    void    *part;

    EST_TRY(read_shape(r, field, &view));
    if (u->n >= est_message_parts(message)) return est_fail(EST_DATA_LOSS, "a message has more tensors than parts");
    part = est_message_part(message, u->n, &size);
    EST_TRY(est_shape_size(&view.shape, view.dtype, &view.count, &bytes));
    if (view.dtype == EST_STRING) {
        if ((uint64_t)view.count > size) return est_fail(EST_DATA_LOSS, "a part is too short for its strings");
        EST_TRY(unpack_strings(u, &view, part, size));
    } else {
        if (bytes != size) {
            return est_fail(EST_DATA_LOSS, "a part of a message has %zu bytes, but its tensor needs %zu", size, bytes);
        }
        view.data = part;
    }
    if (!packing_reserve((void **)&u->views, u->n, &u->max, sizeof *u->views)) return est_no_memory();
    u->views[u->n++] = view;
    return EST_OK;
}

est_status est_unpack_tensors(const est_message *message, est_unpacked *u)
{
    est_wire_reader r;
    est_wire_field  field;

    free_texts(u->texts, &u->n_texts);
    u->n = 0;
    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) {
        if (field.number == EST_FIELD_TENSOR) EST_TRY(unpack_one(u, message, &r, &field));
    }
    EST_TRY(est_wire_finish(&r));
    if (u->n != est_message_parts(message)) {
        return est_fail(EST_DATA_LOSS, "a message has %d tensors and %d parts", u->n, est_message_parts(message));
    }
    return EST_OK;
}
