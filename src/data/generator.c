/* SPDX-License-Identifier: Apache-2.0
 *
 * generator: elements from the user's callbacks.
 *
 * The state: 1 number of elements so far, 2 the tensor of the user's `save` (a TensorProto), if set. */
#include <inttypes.h>

#include "base/callback.h"
#include "base/options.h"
#include "data/stage.h"
#include "format/tensor_proto.h"

enum { STATE_MADE = 1, STATE_POSITION };

typedef struct generator {
    est_dataset   base;
    est_generator calls;
} generator;

typedef struct generator_iter {
    est_iter base;
    void    *state; /* of the user's code */
    bool     open;  /* close() has something to close */
    int64_t  made;
} generator_iter;

static const est_generator *calls_of(const est_iter *it)
{
    return &((const generator *)it->dataset)->calls;
}

static est_status generator_open(est_iter *it)
{
    const est_generator *calls = calls_of(it);
    generator_iter      *own   = (generator_iter *)it;

    own->state = calls->user;
    if (calls->open != NULL) EST_TRY(EST_CALLBACK(calls->open(calls->user, &own->state), "open of a generator"));
    own->open = true;
    return EST_OK;
}

static est_status generator_next(est_iter *it, est_element *out)
{
    generator_iter *own = (generator_iter *)it;
    est_status      status;

    est_error_clear();
    status = calls_of(it)->next(own->state, out->field);
    if (status != EST_OUT_OF_RANGE) status = est_callback_status(status, "next"); /* the end has no message */
    if (status == EST_OK) status = est_element_check(out, it->dataset);
    if (status != EST_OK) {
        est_element_clear(out->field, it->dataset->n_components);
        if (status == EST_OUT_OF_RANGE) return status;
        return est_fail_context(status, "element %" PRId64 " of a generator", own->made);
    }
    out->origin = (est_origin){ 0 };
    own->made++;
    return EST_OK;
}

static void generator_close(est_iter *it)
{
    generator_iter *own = (generator_iter *)it;

    if (own->open && calls_of(it)->close != NULL) calls_of(it)->close(own->state);
}

static est_status generator_save(est_iter *it, est_wire_writer *w)
{
    generator_iter *own      = (generator_iter *)it;
    est_tensor     *position = NULL;
    size_t          mark;

    est_wire_put_i64(w, STATE_MADE, own->made);
    if (calls_of(it)->save == NULL) return EST_OK;
    EST_TRY(EST_CALLBACK(calls_of(it)->save(own->state, &position), "save of a generator"));
    if (position == NULL) return est_fail(EST_INVALID_ARGUMENT, "save of a generator gave no position");
    mark = est_wire_begin(w, STATE_POSITION);
    est_tensor_proto_put(w, position);
    est_wire_end(w, mark);
    est_tensor_free(position);
    return EST_OK;
}

/* Makes the elements before the position again. */
static est_status make_again(est_iter *it, int64_t n)
{
    generator_iter *own     = (generator_iter *)it;
    est_element    *element = est_element_new(it->dataset->n_components);
    est_status      status  = EST_OK;

    if (element == NULL) return est_no_memory();
    while (own->made < n && status == EST_OK) {
        status = generator_next(it, element);
        est_element_clear(element->field, it->dataset->n_components);
    }
    est_element_free(element, it->dataset->n_components);
    if (status != EST_OUT_OF_RANGE) return status;
    return est_fail(EST_FAILED_PRECONDITION,
                    "the position is after %" PRId64 " elements of a generator that now ends after %" PRId64, n,
                    own->made);
}

static est_status generator_restore(est_iter *it, est_str state)
{
    generator_iter *own   = (generator_iter *)it;
    est_str         bytes = { 0 };
    est_tensor     *position;
    est_wire_reader r;
    est_wire_field  field;
    est_status      status;
    int64_t         made = 0;

    est_wire_reader_init(&r, "position of a generator", state.data, state.size);
    while (est_wire_next(&r, &field)) {
        if (field.number == STATE_MADE) made = est_wire_i64(&r, &field);
        if (field.number == STATE_POSITION) bytes = est_wire_bytes(&r, &field);
    }
    EST_TRY(est_wire_finish(&r));
    if ((bytes.data != NULL) != (calls_of(it)->restore != NULL)) {
        return est_fail(EST_INVALID_ARGUMENT, "the position was saved by a generator %s save and restore",
                        bytes.data != NULL ? "with" : "without");
    }
    if (bytes.data == NULL) return make_again(it, made);
    EST_TRY(est_tensor_proto_parse(bytes, &position));
    status    = EST_CALLBACK(calls_of(it)->restore(own->state, position), "restore of a generator");
    own->made = made;
    est_tensor_free(position);
    return status;
}

static const est_stage generator_stage = {
    .name      = "generator",
    .iter_size = sizeof(generator_iter),
    .open      = generator_open,
    .next      = generator_next,
    .close     = generator_close,
    .save      = generator_save,
    .restore   = generator_restore,
};

est_dataset *est_dataset_generator(est_components components, const est_generator *calls)
{
    generator *own = est_dataset_new(&generator_stage, sizeof *own, NULL, NULL);
    est_status status;

    if (!est_dataset_sound(&own->base)) return &own->base;
    status = est_options_take(EST_STRUCT_SIZE(est_generator), calls, &own->calls);
    if (status == EST_OK && own->calls.next == NULL) status = est_fail(EST_INVALID_ARGUMENT, "it has no function next");
    if (status == EST_OK && (own->calls.save == NULL) != (own->calls.restore == NULL)) {
        status = est_fail(EST_INVALID_ARGUMENT, "%s is of no use without %s",
                          own->calls.save != NULL ? "save" : "restore", own->calls.save != NULL ? "restore" : "save");
    }
    if (status != EST_OK) return est_dataset_fail(&own->base, status);
    return est_dataset_with(&own->base, components.data, components.n);
}
