/* SPDX-License-Identifier: Apache-2.0
 *
 * Testing datasets. */
#include "support/data_test.h"

#include <inttypes.h>
#include <string.h>

#include "base/strbuf.h"
#include "data/encode.h"
#include "data/state.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define COMPONENTS_MAX 8

static void check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

/* --- a source ----------------------------------------------------------------------------------------------------- */

typedef struct test_rows {
    est_dataset      base;
    int64_t          n;
    est_test_rows_fn fn;
    const char      *path;
} test_rows;

typedef struct test_rows_iter {
    est_iter base;
    int64_t  row;
} test_rows_iter;

static est_status test_rows_next(est_iter *it, est_element *out)
{
    test_rows_iter  *iter = (test_rows_iter *)it;
    const test_rows *own  = (const test_rows *)it->dataset;

    if (iter->row == own->n) return EST_OUT_OF_RANGE;
    out->origin = (est_origin){ 0 };
    if (own->path != NULL) {
        out->origin.path = est_pass_intern(it->pass, own->path, strlen(own->path));
        out->origin.at   = iter->row + 1;
        out->origin.line = true;
        if (out->origin.path == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a path");
    }
    for (int i = 0; i < own->base.n_components; i++) {
        est_status status = own->fn(iter->row, i, &out->field[i].values);

        if (status != EST_OK) {
            est_element_clear(out->field, i);
            return status;
        }
    }
    iter->row++;
    return EST_OK;
}

static est_status test_rows_save(est_iter *it, est_wire_writer *w)
{
    est_state_put(w, &((test_rows_iter *)it)->row, 1);
    return EST_OK;
}

static est_status test_rows_restore(est_iter *it, est_str state)
{
    return est_state_parse(it, state, &((test_rows_iter *)it)->row, 1);
}

static const est_stage test_rows_stage = {
    .name      = "test_rows",
    .iter_size = sizeof(test_rows_iter),
    .next      = test_rows_next,
    .save      = test_rows_save,
    .restore   = test_rows_restore,
};

est_dataset *est_test_rows(const est_component *components, int n, int64_t n_rows, est_test_rows_fn fn,
                           const char *path)
{
    test_rows *own = est_dataset_new(&test_rows_stage, sizeof *own, NULL, NULL);

    if (!est_dataset_sound(&own->base)) return &own->base;
    own->n    = n_rows;
    own->fn   = fn;
    own->path = path;
    return est_dataset_with(&own->base, components, n);
}

/* --- elements as text --------------------------------------------------------------------------------------------- */

static void put_value(est_strbuf *text, const est_tensor *tensor, int64_t i)
{
    const void *data = est_tensor_data(tensor);

    switch (est_tensor_dtype(tensor)) {
    case EST_F32: est_strbuf_printf(text, "%.9g", (double)((const float *)data)[i]); break;
    case EST_F64: est_strbuf_printf(text, "%.17g", ((const double *)data)[i]); break;
    case EST_I32: est_strbuf_printf(text, "%" PRId32, ((const int32_t *)data)[i]); break;
    case EST_I64: est_strbuf_printf(text, "%" PRId64, ((const int64_t *)data)[i]); break;
    case EST_STRING:
        est_strbuf_append_json(text, ((const est_str *)data)[i].data, ((const est_str *)data)[i].size);
        break;
    default: est_strbuf_printf(text, "%d", ((const uint8_t *)data)[i]); break;
    }
}

/* The part of a tensor that has the axes from `axis` on and begins at *at. */
static void put_axis(est_strbuf *text, const est_tensor *tensor, int axis, int64_t *at)
{
    const est_shape *shape = est_tensor_shape(tensor);

    if (axis == shape->rank) {
        put_value(text, tensor, (*at)++);
        return;
    }
    for (int64_t i = 0; i < shape->dim[axis]; i++) {
        est_strbuf_append(text, i == 0 ? "[" : " ");
        put_axis(text, tensor, axis + 1, at);
    }
    est_strbuf_append(text, "]");
}

static void put_tensor(est_strbuf *text, const est_tensor *tensor)
{
    char    shape[EST_SHAPE_TEXT_MAX];
    int64_t at = 0;

    if (est_tensor_count(tensor) > 0) {
        put_axis(text, tensor, 0, &at);
    } else {
        est_strbuf_printf(text, "empty%s", est_shape_text(est_tensor_shape(tensor), shape));
    }
}

/* Appends up to n elements; EST_OUT_OF_RANGE when there are no more. */
static est_status put_elements(est_strbuf *text, est_iterator *rows, const est_dataset *dataset, int64_t n)
{
    est_field element[COMPONENTS_MAX] = { 0 };

    for (int64_t row = 0; n == EST_FOREVER || row < n; row++) {
        EST_TRY(est_iterator_next(rows, element));
        if (text->size > 0) est_strbuf_append(text, " ; ");
        for (int i = 0; i < dataset->n_components; i++) {
            if (i > 0) est_strbuf_append(text, " | ");
            put_tensor(text, element[i].values);
            if (element[i].splits != NULL) {
                est_strbuf_append(text, "/");
                put_tensor(text, element[i].splits);
            }
        }
        est_element_clear(element, dataset->n_components);
    }
    return EST_OK;
}

/* --- what a dataset yields ---------------------------------------------------------------------------------------- */

est_dataset *est_test_finish(est_dataset *dataset)
{
    est_dataset *out = NULL;

    check(est_dataset_finish(dataset, &out));
    assert_true(out->n_components <= COMPONENTS_MAX);
    return out;
}

est_iterator *est_test_iterate(est_dataset *dataset)
{
    est_iterator *rows = NULL;

    check(est_iterator_create(dataset, &rows));
    return rows;
}

char *est_test_elements(est_iterator *rows, const est_dataset *dataset, int64_t n)
{
    est_strbuf text   = { 0 };
    est_status status = put_elements(&text, rows, dataset, n);
    char      *out;

    if (status != EST_OUT_OF_RANGE) check(status);
    est_strbuf_append(&text, "");
    check(est_strbuf_take(&text, &out));
    return out;
}

void est_test_yields(est_dataset *dataset, const char *want)
{
    est_iterator *rows;
    char         *text;

    dataset = est_test_finish(dataset);
    rows    = est_test_iterate(dataset);
    text    = est_test_elements(rows, dataset, EST_FOREVER);
    assert_string_equal(text, want);
    est_free(text);
    est_iterator_free(rows);
    est_dataset_free(dataset);
}

static void says(const char *text)
{
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in \"%s\"", text, est_error_message());
}

void est_test_refused(est_dataset *dataset, const char *text)
{
    est_dataset *out = NULL;

    assert_int_equal(est_dataset_finish(dataset, &out), EST_INVALID_ARGUMENT);
    assert_null(out);
    says(text);
}

void est_test_breaks(est_dataset *dataset, est_status status, const char *text)
{
    est_strbuf    got  = { 0 };
    est_iterator *rows = NULL;
    est_status    is;

    dataset = est_test_finish(dataset);
    is      = est_iterator_create(dataset, &rows);
    if (is == EST_OK) is = put_elements(&got, rows, dataset, EST_FOREVER);
    assert_int_equal(is, status);
    says(text);
    est_strbuf_clear(&got);
    est_iterator_free(rows);
    est_dataset_free(dataset);
}

/* --- positions ---------------------------------------------------------------------------------------------------- */

/* A new iterator of the dataset at the position yields this. */
static void check_position(est_dataset *dataset, est_tensor *position, const char *want, int64_t n)
{
    est_iterator *rows = est_test_iterate(dataset);
    est_tensor   *again;
    char         *text;

    check(est_iterator_restore(rows, position));
    check(est_iterator_save(rows, &again));
    assert_int_equal(est_tensor_count(again), est_tensor_count(position));
    assert_memory_equal(est_tensor_data(again), est_tensor_data(position), (size_t)est_tensor_count(again));
    est_tensor_free(again);
    text = est_test_elements(rows, dataset, n);
    assert_string_equal(text, want);
    est_free(text);
    est_iterator_free(rows);
}

/* Positions of `dataset` after up to n elements are good for `other`. */
static void exchange_positions(est_dataset *dataset, est_dataset *other, int64_t n)
{
    for (int64_t k = 0; k <= n; k++) {
        est_iterator *rows  = est_test_iterate(dataset);
        char         *start = est_test_elements(rows, dataset, k);
        est_tensor   *position;
        char         *rest;

        check(est_iterator_save(rows, &position));
        rest = est_test_elements(rows, dataset, n);
        check_position(other, position, rest, n);
        est_free(start);
        est_free(rest);
        est_tensor_free(position);
        est_iterator_free(rows);
    }
}

void est_test_positions(est_test_make make, int64_t n)
{
    est_dataset *dataset = est_test_finish(make()), *other = est_test_finish(make());

    exchange_positions(dataset, other, n);
    est_dataset_free(dataset);
    est_dataset_free(other);
}

est_dataset *est_test_travel(const est_dataset *dataset)
{
    est_wire_writer bytes = { 0 }, again = { 0 };
    est_dataset    *out = NULL;

    check(est_dataset_encode(dataset, &bytes));
    check(est_dataset_decode((est_str){ (const char *)bytes.data, bytes.size }, &out));
    check(est_dataset_encode(out, &again));
    assert_int_equal(again.size, bytes.size);
    assert_memory_equal(again.data, bytes.data, bytes.size);
    est_wire_writer_clear(&bytes);
    est_wire_writer_clear(&again);
    return out;
}

void est_test_travels(est_test_make make, int64_t n)
{
    est_dataset *dataset = est_test_finish(make()), *decoded = est_test_travel(dataset);

    assert_int_equal(decoded->n_components, dataset->n_components);
    assert_int_equal(decoded->endless, dataset->endless);
    for (int i = 0; i < dataset->n_components; i++) {
        const est_component *was = &dataset->components[i], *is = &decoded->components[i];
        char                 was_text[EST_SHAPE_TEXT_MAX], is_text[EST_SHAPE_TEXT_MAX];

        assert_string_equal(is->name, was->name);
        assert_int_equal(is->dtype, was->dtype);
        assert_int_equal(is->ragged, was->ragged);
        assert_string_equal(est_shape_text(&is->shape, is_text), est_shape_text(&was->shape, was_text));
    }
    exchange_positions(dataset, decoded, n);
    exchange_positions(decoded, dataset, n);
    est_dataset_free(dataset);
    est_dataset_free(decoded);
}

/* --- allocations -------------------------------------------------------------------------------------------------- */

static est_status resume(const est_dataset *dataset, est_tensor *position, int64_t n)
{
    est_strbuf    text = { 0 };
    est_iterator *rows = NULL;
    est_status    status;

    EST_TRY(est_iterator_create(dataset, &rows));
    status = est_iterator_restore(rows, position);
    if (status == EST_OK) status = put_elements(&text, rows, dataset, n);
    est_strbuf_clear(&text);
    est_iterator_free(rows);
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

static est_status use(const est_dataset *dataset, int64_t n)
{
    est_strbuf    text     = { 0 };
    est_iterator *rows     = NULL;
    est_tensor   *position = NULL;
    est_status    status;

    EST_TRY(est_iterator_create(dataset, &rows));
    status = put_elements(&text, rows, dataset, n / 2);
    if (status == EST_OK || status == EST_OUT_OF_RANGE) status = est_iterator_save(rows, &position);
    if (status == EST_OK) status = put_elements(&text, rows, dataset, n);
    if (status == EST_OK || status == EST_OUT_OF_RANGE) status = resume(dataset, position, n);
    est_strbuf_clear(&text);
    est_tensor_free(position);
    est_iterator_free(rows);
    return status;
}

void est_test_allocations(est_test_make make, int64_t n)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_dataset *dataset = NULL;
        est_status   status;

        fault_arm(&f);
        status = est_dataset_finish(make(), &dataset);
        if (status == EST_OK) status = use(dataset, n);
        fault_check_lenient(&f, status);
        est_dataset_free(dataset);
    }
}
