/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements: making, moving, checking them, and their bytes in a saved position or a cache file.
 *
 * The message: 1 path, 2 line or record, 3 whether it is a line; 4 for each component in order {1 values, 2 splits},
 * both TensorProtos. */
#include <inttypes.h>
#include <string.h>

#include "data/stage.h"
#include "estoc/devices.h"
#include "format/tensor_proto.h"

enum { ORIGIN_PATH = 1, ORIGIN_AT, ORIGIN_LINE, COMPONENT };
enum { VALUES = 1, SPLITS };

void est_element_clear(est_field *element, int n)
{
    for (int i = 0; element != NULL && i < n; i++) {
        est_tensor_free(element[i].values);
        est_tensor_free(element[i].splits);
        element[i] = (est_field){ 0 };
    }
}

est_element *est_element_new(int n)
{
    return est_zalloc(sizeof(est_element) + (size_t)n * sizeof(est_field));
}

void est_element_free(est_element *element, int n)
{
    if (element == NULL) return;
    est_element_clear(element->field, n);
    est_free(element);
}

void est_element_move(est_element *to, est_element *from, int n)
{
    size_t bytes = (size_t)n * sizeof(est_field);

    to->origin = from->origin;
    memcpy(to->field, from->field, bytes);
    memset(from->field, 0, bytes);
}

void est_element_share(est_element *to, const est_element *from, int n)
{
    to->origin = from->origin;
    for (int i = 0; i < n; i++) {
        est_tensor_ref(from->field[i].values);
        if (from->field[i].splits != NULL) est_tensor_ref(from->field[i].splits);
        to->field[i] = from->field[i];
    }
}

est_status est_origin_blame(const est_origin *origin, est_status status)
{
    if (origin->path == NULL) return status;
    if (origin->line) return est_fail_context(status, "%s:%" PRId64, origin->path, origin->at);
    return est_fail_context(status, "%s, record %" PRId64, origin->path, origin->at);
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

static bool shape_fits(const est_shape *shape, const est_shape *wanted)
{
    if (wanted->rank < 0) return true;
    if (shape->rank != wanted->rank) return false;
    for (int i = 0; i < shape->rank; i++) {
        if (wanted->dim[i] >= 0 && shape->dim[i] != wanted->dim[i]) return false;
    }
    return true;
}

static est_status field_check(const est_field *field, const est_component *component)
{
    char             is[EST_SHAPE_TEXT_MAX], wanted[EST_SHAPE_TEXT_MAX];
    const est_shape *shape;
    est_dtype        dtype;

    if (field->values == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "component %s: no tensor was given", component->name);
    }
    dtype = est_tensor_dtype(field->values);
    shape = est_tensor_shape(field->values);
    if (dtype != component->dtype || !shape_fits(shape, &component->shape)) {
        return est_fail(EST_INVALID_ARGUMENT, "component %s: a %s tensor of shape %s, where %s %s was declared",
                        component->name, est_dtype_name(dtype), est_shape_text(shape, is),
                        est_dtype_name(component->dtype), est_shape_text(&component->shape, wanted));
    }
    if ((field->splits != NULL) != component->ragged) {
        return est_fail(EST_INVALID_ARGUMENT, "component %s: %s", component->name,
                        component->ragged ? "it is ragged, and no splits were given" : "splits, and it is not ragged");
    }
    if (component->ragged) {
        est_status status = est_ragged_check(&(est_ragged){ field->values, field->splits });

        if (status != EST_OK) return est_fail_context(status, "component %s", component->name);
    }
    return EST_OK;
}

est_status est_element_check(const est_element *element, const est_dataset *dataset)
{
    for (int i = 0; i < dataset->n_components; i++) {
        EST_TRY(field_check(&element->field[i], &dataset->components[i]));
    }
    return EST_OK;
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

/* One in the memory of a device is copied, and read back into that of the host. */
static void put_tensor(est_wire_writer *w, uint32_t number, est_tensor *tensor)
{
    size_t      mark = est_wire_begin(w, number);
    est_tensor *here = NULL;

    w->failed = est_tensor_to_host(tensor, &here) != EST_OK || w->failed;
    if (here != NULL) est_tensor_proto_put(w, here);
    est_tensor_free(here);
    est_wire_end(w, mark);
}

void est_element_put(est_wire_writer *w, uint32_t number, const est_element *element, int n)
{
    size_t mark = est_wire_begin(w, number);

    if (element->origin.path != NULL) {
        est_wire_put_string(w, ORIGIN_PATH, element->origin.path);
        est_wire_put_i64(w, ORIGIN_AT, element->origin.at);
        est_wire_put_bool(w, ORIGIN_LINE, element->origin.line);
    }
    for (int i = 0; i < n; i++) {
        size_t inner = est_wire_begin(w, COMPONENT);

        put_tensor(w, VALUES, element->field[i].values);
        if (element->field[i].splits != NULL) put_tensor(w, SPLITS, element->field[i].splits);
        est_wire_end(w, inner);
    }
    est_wire_end(w, mark);
}

static est_status parse_field(est_wire_reader *r, est_field *out)
{
    est_wire_field field;

    while (est_wire_next(r, &field)) {
        est_tensor **tensor = field.number == VALUES ? &out->values : field.number == SPLITS ? &out->splits : NULL;
        est_str      bytes;

        if (tensor == NULL) continue;
        bytes = est_wire_bytes(r, &field);
        EST_TRY(est_wire_finish(r));
        est_tensor_free(*tensor);
        *tensor = NULL;
        EST_TRY(est_tensor_proto_parse(bytes, tensor));
    }
    return est_wire_finish(r);
}

static est_status parse_element(est_wire_reader *r, est_pass *pass, int n, est_element *out)
{
    est_wire_reader inner;
    est_wire_field  field;
    est_str         path      = { 0 };
    int             component = 0;

    while (est_wire_next(r, &field)) {
        switch (field.number) {
        case ORIGIN_PATH: path = est_wire_bytes(r, &field); break;
        case ORIGIN_AT: out->origin.at = est_wire_i64(r, &field); break;
        case ORIGIN_LINE: out->origin.line = est_wire_bool(r, &field); break;
        case COMPONENT:
            if (component == n) return est_wire_fail(r, field.start, "more than %d components", n);
            est_wire_message(r, &field, "component of an element", &inner);
            EST_TRY(parse_field(&inner, &out->field[component++]));
            break;
        default: break;
        }
    }
    EST_TRY(est_wire_finish(r));
    if (path.data == NULL || pass == NULL) return EST_OK;
    out->origin.path = est_pass_intern(pass, path.data, path.size);
    if (out->origin.path == NULL) return est_no_memory();
    return EST_OK;
}

est_status est_element_parse(est_str bytes, est_pass *pass, const est_dataset *dataset, est_element *out)
{
    est_wire_reader r;
    est_status      status;

    est_wire_reader_init(&r, "element", bytes.data, bytes.size);
    out->origin = (est_origin){ 0 };
    status      = parse_element(&r, pass, dataset->n_components, out);
    if (status == EST_OK) status = est_element_check(out, dataset);
    if (status != EST_OK) {
        est_element_clear(out->field, dataset->n_components);
        out->origin = (est_origin){ 0 };
    }
    return status;
}
